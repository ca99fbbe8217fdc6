"""
A survey with weights
=====================

Adult is a sample of the United States, and ``fnlwgt`` says, up to a factor, how many people a row stands for. Reports
are weighted as answers are: here the shares of the population by race.
"""

# %%
# The weights stay beside the reports, and are not randomised.

import matplotlib.pyplot as plt

from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult

adult = load_adult()
people = adult.frame
weights = people["fnlwgt"]

encoder = RandomizedResponseEncoder(
    2.0, categories=adult.domain.select(["race"]), random_state=0
)
reports = encoder.fit_transform(people[["race"]])

weighted = encoder.estimate_frequencies(reports, sample_weight=weights)
plain = encoder.estimate_frequencies(reports)
print(weighted.round(4))

# %%
# A server may keep sums only. The tally holds those of the weights and of their squares, which the errors need, and
# batches add exactly.

first = encoder.tally(reports[:20_000], sample_weight=weights[:20_000])
rest = encoder.tally(reports[20_000:], sample_weight=weights[20_000:])
print(encoder.estimate_frequencies(first + rest).round(4))

# %%
# Without weights, the share of Black people is too small by a sixth: the interval is that of another population.

truth = weights.groupby(people["race"]).sum() / weights.sum()
values = ["Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"]
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for shift, label, table in (
    (-0.12, "weighted", weighted),
    (0.12, "without weights", plain),
):
    rows = table.loc[values]
    middle = rows["frequency"]
    places = [place + shift for place in range(len(values))]
    reach = [middle - rows["lower"], rows["upper"] - middle]
    axes.errorbar(
        places, middle, yerr=reach, fmt="o", capsize=3, label=label
    )
axes.plot(
    range(len(values)), truth[values], "k_", ms=30, label="true answers"
)
axes.set_xticks(range(len(values)), values)
axes.set(ylabel="share of the population", title="epsilon = 2")
axes.legend(frameon=False)
plt.show()
