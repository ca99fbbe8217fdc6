"""
Totals that are sums in every synthetic row
===========================================

A total is the sum of its parts, and a net pay is not above the wage. Without being told, a model knows such
relations only as far as its bins show them. Declared, they hold in every row, and cost no privacy.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPMarginalSynthesizer, Interval

rng = np.random.default_rng(0)
n = 5_000
wage = rng.lognormal(3, 0.5, n).round(2)
bonus = rng.exponential(10, n).round(2)
pay = pd.DataFrame({"wage": wage, "bonus": bonus})
pay["total"] = (wage + bonus).round(2)
pay["net pay"] = (wage * rng.uniform(0.6, 0.9, n)).round(2)
amounts = Interval(0, 500, bins=20, decimals=2)
domain = dict.fromkeys(pay.columns, amounts)

tables = {"real rows": pay}
for title, relations in [
    ("no relations", None),
    ("relations", ["total = wage + bonus", "`net pay` <= wage"]),
]:
    synthesizer = DPMarginalSynthesizer(
        1.0,
        delta=1e-6,
        domain=domain,
        bins="private",
        relations=relations,
        random_state=0,
    )
    tables[title] = synthesizer.fit(pay).sample(n)

# %%
# How many rows keep both relations, and the means.
summary = {}
for title, rows in tables.items():
    sums = (rows["wage"] + rows["bonus"]).round(2)
    is_sum = sums == rows["total"].round(2)
    is_below = rows["net pay"] <= rows["wage"]
    means = rows.mean().round(1).to_dict()
    summary[title] = {"keep both": (is_sum & is_below).mean()} | means
print(pd.DataFrame(summary).T)

# %%
# The promise names what is done to rows.
print(synthesizer.guarantee_.mechanism)

# %%
# Without relations, totals are near the sums of their parts; with them, they are equal.
figure, panels = plt.subplots(
    1, 3, figsize=(9, 3), sharex=True, sharey=True, layout="constrained"
)
for axes, (title, rows) in zip(panels, tables.items(), strict=True):
    axes.scatter(
        rows["wage"] + rows["bonus"], rows["total"], s=2, alpha=0.3
    )
    axes.set(
        title=title, xlabel="wage + bonus", xlim=(0, 150), ylim=(0, 150)
    )
panels[0].set_ylabel("total")
plt.show()
