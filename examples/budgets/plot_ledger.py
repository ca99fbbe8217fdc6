"""
A privacy budget with a ledger
==============================

A `PrivacyLedger` records the charges of all releases. A release that exceeds the budget raises an error before any
noise is drawn.
"""

# %%
# Three statistics of the diabetes data use a budget of ε = 1 together. The fourth statistic exceeds it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from skdp import (
    BudgetExceeded,
    DPHistogram,
    DPKBinsDiscretizer,
    DPMean,
    Interval,
    PrivacyLedger,
)

X = load_diabetes(as_frame=True, scaled=False).data
ledger = PrivacyLedger(epsilon=1.0)
DPMean(0.3, bounds={"bmi": (15, 50)}, ledger=ledger, random_state=0).fit(
    X[["bmi"]]
)
DPHistogram(
    0.4,
    domain={"age": Interval(15, 85, bins=7)},
    ledger=ledger,
    random_state=0,
).fit(X[["age"]])
DPKBinsDiscretizer(
    0.2, n_bins=2, bounds={"bp": (50, 150)}, ledger=ledger, random_state=0
).fit(X[["bp"]])
try:
    DPMean(
        0.3, bounds={"bp": (50, 150)}, ledger=ledger, random_state=0
    ).fit(X[["bp"]])
except BudgetExceeded as error:
    print(error)
ledger.charges()

# %%
charges = ledger.charges()
spent = charges["epsilon"].astype(float).to_numpy()[:3]
figure, axes = plt.subplots(figsize=(5, 2), layout="constrained")
starts = np.concatenate([[0], np.cumsum(spent)[:-1]])
for number, (start, amount) in enumerate(zip(starts, spent, strict=True)):
    axes.barh(0, amount, left=start, color=f"C{number}")
    axes.text(
        start + amount / 2,
        0,
        ["mean", "histogram", "median"][number],
        ha="center",
        va="center",
        color="white",
    )
axes.barh(
    0, 1 - spent.sum(), left=spent.sum(), color="lightgrey", hatch="//"
)
axes.set(xlim=(0, 1), yticks=[], xlabel="ε; hatched: what remains")
plt.show()
