"""
Intervals that hold what they promise
=====================================

An estimate from noisy reports comes with an interval. A 95 % interval must contain the true count in 95 % of all runs:
here are 100 runs on the classes of the wine data.
"""

# %%
# Each run draws new reports of the same 178 bottles.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_wine

from skdp import RandomizedResponseEncoder

wine = load_wine()
bottles = pd.DataFrame(
    {"cultivar": [f"class {target}" for target in wine.target]}
)
true = int((bottles["cultivar"] == "class 1").sum())

runs = []
for seed in range(100):
    encoder = RandomizedResponseEncoder(
        2.0,
        categories={"cultivar": ["class 0", "class 1", "class 2"]},
        random_state=seed,
    )
    runs.append(
        encoder.estimate_counts(encoder.fit_transform(bottles)).loc[
            "class 1"
        ]
    )
runs = pd.DataFrame(runs).reset_index(drop=True)
covered = (runs["lower"] <= true) & (true <= runs["upper"])
print(f"{covered.sum()} of 100 intervals contain {true}")

# %%
# The intervals of the few runs that miss are not wider or otherwise recognisable: a single interval is a promise about
# the procedure.

figure, axes = plt.subplots(layout="constrained")
for hit, color in ((True, "C0"), (False, "C3")):
    part = runs[covered == hit]
    middle = (part["lower"] + part["upper"]) / 2
    axes.errorbar(
        part.index,
        middle,
        (part["upper"] - part["lower"]) / 2,
        fmt="none",
        ecolor=color,
        label="covers" if hit else "misses",
    )
axes.axhline(true, color="black", linewidth=1, label=f"true count: {true}")
axes.set(xlabel="run", ylabel="95 % interval of the count")
axes.legend(ncols=3)
plt.show()
