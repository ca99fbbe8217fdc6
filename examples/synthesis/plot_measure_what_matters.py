"""
A model holds what it measures
==============================

Three columns of bits, of which the third is the parity of the first two: no pair of them is correlated. A model of
pairs cannot see it. ``"auto"`` measures the triple where the budget allows, and a workload says that it matters.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPMarginalSynthesizer

rng = np.random.default_rng(0)
a, b = rng.integers(0, 2, (2, 4_000))
table = pd.DataFrame({"a": a, "b": b, "parity": a ^ b})
domain = {name: [0, 1] for name in table}
shares = {"true": (table["parity"] == (table["a"] ^ table["b"])).mean()}
for name, options in {
    "all pairs": {
        "marginals": [["a", "b"], ["a", "parity"], ["b", "parity"]]
    },
    "auto": {},
    "auto, with a workload": {"workload": [["a", "b", "parity"]]},
}.items():
    synthetic = (
        DPMarginalSynthesizer(
            1.0, domain=domain, random_state=0, **options
        )
        .fit(table)
        .sample(4_000)
    )
    shares[name] = (
        synthetic["parity"] == (synthetic["a"] ^ synthetic["b"])
    ).mean()

# %%
# The share of rows in which the third bit is the parity of the others; chance is one half.

figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
bars = axes.barh(
    list(shares),
    list(shares.values()),
    color=["lightgrey", "C1", "C0", "C2"],
)
axes.bar_label(bars, fmt="%.2f", padding=3)
axes.axvline(0.5, color="black", linewidth=0.8, linestyle="--")
axes.set(xlabel="rows with the right parity", xlim=(0, 1.12))
axes.invert_yaxis()
plt.show()
