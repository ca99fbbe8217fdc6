"""
How far can false reports move a count?
=======================================

Anyone can send reports that no person made. Each oracle limits differently how much a false report raises the
estimate of a value.
"""

# %%
# One per cent of false reports among 100,000, by encoder and ε.

import matplotlib.pyplot as plt
import pandas as pd

from skdp import LocalHashingEncoder, RandomizedResponseEncoder, UnaryEncodingTransformer
from skdp.evaluation import poisoning_gain

values = {"site": [f"site {number}" for number in range(20)]}
sample = pd.DataFrame({"site": ["site 0"]})
encoders = {
    "randomised response": RandomizedResponseEncoder,
    "unary encoding": UnaryEncodingTransformer,
    "local hashing": LocalHashingEncoder,
}
rows = []
for epsilon in (0.5, 1.0, 2.0, 4.0):
    for name, encoder in encoders.items():
        gain = poisoning_gain(encoder(epsilon, categories=values, random_state=0).fit(sample), 1_000, 100_000)
        rows.append(gain.assign(encoder=name, epsilon=epsilon))
table = pd.concat(rows)
table.head()

# %%
figure, axes = plt.subplots(layout="constrained")
for name, part in table.groupby("encoder"):
    axes.semilogx(part["epsilon"], part["raised_by_one"], "o-", label=name)
axes.set(xlabel="ε", ylabel="what one false report adds to a count")
axes.set_xticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"], minor=False)
axes.minorticks_off()
axes.legend()
plt.show()
