"""
Numbers with long tails and points of mass
==========================================

Incomes have a long tail, and two in five people work 40 hours. Declared bins of equal width, with ends that are wide
enough for anyone, keep neither; bins that are found by noisy counts keep both, and that hours go with incomes.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPMarginalSynthesizer, Interval

rng = np.random.default_rng(0)
n = 10_000
hours = np.where(
    rng.random(n) < 0.4, 40, np.clip(np.rint(rng.normal(38, 11, n)), 0, 99)
).astype(int)
income = np.exp(10 + 0.03 * (hours - 40) + 0.4 * rng.normal(size=n)).clip(
    0, 1_000_000
)
people = pd.DataFrame({"income": income, "hours": hours})
domain = {
    "income": Interval(0, 1_000_000, bins=32, real=True),
    "hours": Interval(0, 99, bins=33),
}

tables = {"real rows": people}
for bins in ["declared", "private"]:
    synthesizer = DPMarginalSynthesizer(
        0.5, delta=1e-6, domain=domain, bins=bins, random_state=0
    )
    tables[f"{bins} bins"] = synthesizer.fit(people).sample(n)

# %%
# The numbers: the mean of the incomes, the share of people with 40 hours, and the correlation of ranks.
summary = {
    name: [
        rows["income"].mean(),
        (rows["hours"] == 40).mean(),
        rows.corr(method="spearman").iloc[0, 1],
    ]
    for name, rows in tables.items()
}
print(
    pd.DataFrame(
        summary,
        index=["mean income", "share of 40 hours", "correlation of ranks"],
    ).round(2)
)

# %%
# The rows: with declared bins all incomes are in the first two of 32 bins.

figure, panels = plt.subplots(
    1, 3, figsize=(9, 3), sharex=True, sharey=True, layout="constrained"
)
for axes, (name, rows) in zip(panels, tables.items(), strict=True):
    axes.scatter(rows["hours"], rows["income"], s=2, alpha=0.3)
    axes.set(
        title=name, xlabel="hours", yscale="log", ylim=(2_000, 500_000)
    )
panels[0].set_ylabel("income")
plt.show()
