"""
How much disparity do reports hide?
===================================

With known truth the bias of the naive audit is a formula: at two groups it shrinks every difference by the same
factor. Here is that factor over ε, and what the debiased estimate makes of it.
"""

# %%
# 20,000 generated decisions: group "b" is approved 15 points less often.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import RandomizedResponseEncoder
from skdp.metrics import debiased_fairness, fairness_report

rng = np.random.default_rng(0)
group = pd.DataFrame({"group": rng.choice(["a", "b"], 20_000)})
approved = np.where(
    rng.random(20_000) < np.where(group["group"] == "a", 0.55, 0.40),
    "yes",
    "no",
)
metric = "statistical_parity_difference"
common = {"privileged": "a", "positive_label": "yes"}
true = fairness_report(
    approved, approved, group["group"], **common
).set_index("metric")["value"][metric]

epsilons, rows = [0.25, 0.5, 1.0, 2.0, 4.0], []
for epsilon in epsilons:
    encoder = RandomizedResponseEncoder(
        epsilon, categories={"group": ["a", "b"]}, random_state=1
    )
    reports = encoder.fit_transform(group)
    naive = fairness_report(
        approved, approved, reports["group"], **common
    ).set_index("metric")["value"][metric]
    debiased = (
        debiased_fairness(approved, approved, reports, encoder, **common)
        .set_index("metric")
        .loc[metric]
    )
    rows.append({"naive": naive, **debiased[["value", "lower", "upper"]]})
table = pd.DataFrame(rows, index=epsilons)
table.round(3)

# %%
figure, axes = plt.subplots(layout="constrained")
axes.plot(
    epsilons,
    table["naive"],
    "s--",
    color="C1",
    label="reports taken for groups",
)
axes.fill_between(
    epsilons, table["lower"], table["upper"], color="C0", alpha=0.2
)
axes.plot(
    epsilons,
    table["value"],
    "o-",
    color="C0",
    label="debiased, with 95 % interval",
)
axes.axhline(true, color="black", linewidth=1, label="true")
axes.set(
    xscale="log",
    xlabel="ε of the reports",
    ylabel="statistical parity difference",
)
axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
axes.minorticks_off()
axes.legend()
plt.show()
