"""
Together, separately, or one of them?
=====================================

A person has several private columns and one ε. They can be reported jointly as one value, separately with a share of ε
each, or by one column drawn at random. `recommend_strategy` compares the errors before anything is collected.
"""

# %%
# Three columns of a survey. The goal decides: the joint table, or the margins of each column.

import matplotlib.pyplot as plt
import pandas as pd

from skdp import Domain, recommend_strategy

domain = Domain(
    {
        "sex": ["female", "male"],
        "age": ["under 30", "30 to 60", "over 60"],
        "job": ["none", "part time", "full time", "self-employed"],
    }
)
recommend_strategy(domain, 1.0, target="joint").round(2)

# %%
epsilons = [0.25, 0.5, 1, 2, 4, 8]
figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for axes, target in zip(panels, ("joint", "margins"), strict=True):
    tables = pd.concat({epsilon: recommend_strategy(domain, epsilon, target=target) for epsilon in epsilons})
    column = tables.select_dtypes("number").columns[0]
    for strategy, part in tables.groupby("strategy"):
        axes.loglog(epsilons[: len(part)], part[column], "o-", label=strategy)
    axes.set(title=f"target: {target}", xlabel="ε")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
panels[0].set_ylabel(column)
panels[0].legend()
plt.show()
