"""
What is learned of rare values
==============================

Where one value prevails, the accuracy of an attack says little. `attribute_inference` measures each value by itself.
"""

# %%
# Race is randomised at epsilon 2; the other columns of Adult stay as they are. Most people are white, so that the best
# guess is right for nearly as many people with the attack as without it.

import matplotlib.pyplot as plt

from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult
from skdp.evaluation import LeakageDisplay, attribute_inference

adult = load_adult()
people = adult.data[
    ["race", "native-country", "education", "marital-status", "sex"]
].iloc[:6000]
encoder = RandomizedResponseEncoder(
    2.0, categories=adult.domain.select(["race"]), random_state=0
)
released = people.assign(
    race=encoder.fit_transform(people[["race"]])["race"]
)
result = attribute_inference(
    released, None, people["race"], encoder=encoder, random_state=0
)
print(
    f"guessed right: {result.accuracy:.3f}; always the most frequent value: {result.baseline:.3f}"
)
print(
    f"the best guess from the report alone: {result.report_accuracy:.3f}"
)

# %%
# But people of the rare values are found: with an area of 0.5, nothing is learned. The report shows as much of
# each value, and the country of birth shows more of some. Of the rarest values the attacker's model has few rows to
# learn from, and is no better than the best guess from the report alone.

result.values.round(2)

# %%
LeakageDisplay({"epsilon 2": result}).plot(measure="auc")
plt.show()
