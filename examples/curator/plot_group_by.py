"""
Private group by: counts and means
==================================

`DPGroupBy` releases counts and means of groups with a guarantee for whole records. Each record is in one group, so
each group gets all of epsilon. The result contains groups without rows, too.
"""

# %%
# The working hours per week by education and sex in the Adult data:

import matplotlib.pyplot as plt

from skdp import DPGroupBy, discover_domain
from skdp.datasets import load_adult

adult = load_adult()
keys = ["education", "sex"]
people = adult.data[[*keys, "hours-per-week"]]
groups = DPGroupBy(
    0.5,
    by=keys,
    keys=adult.domain.select(keys),
    bounds=(0, 100),
    random_state=0,
).fit(people)
groups.guarantee_

# %%
# The result has a row for each group, with standard errors and 95 % intervals that include the noise only.

table = groups.to_frame()
table.head(4).round(1)

# %%
# The intervals of small groups are wide. For the smallest groups, they may contain all possible values.

name = "hours-per-week_mean"
exact = people.groupby(keys)["hours-per-week"].mean()
women = table.xs("Female", level="sex").sort_values("count")
figure, axes = plt.subplots(figsize=(5, 4.5), layout="constrained")
reach = [
    women[name] - women[f"{name}_lower"],
    women[f"{name}_upper"] - women[name],
]
axes.errorbar(
    women[name],
    women.index,
    xerr=reach,
    fmt="o",
    capsize=3,
    label="DPGroupBy, 95 % interval",
)
axes.plot(
    exact.xs("Female", level="sex").reindex(women.index),
    women.index,
    "x",
    label="exact",
)
axes.set(xlabel="hours a week of women (ε = 0.5)")
figure.legend(loc="outside lower center", ncols=2)
plt.show()

# %%
# If the groups are not known, `discover_domain` finds the frequent occupations. Rows with rare occupations are
# excluded.

occupations = adult.data[["occupation"]]
domain = discover_domain(occupations, 0.1, 1e-6, random_state=0)
found = DPGroupBy(
    0.4,
    by="occupation",
    keys=domain,
    handle_unknown="ignore",
    statistics="count",
    random_state=0,
).fit(occupations)
found.to_frame().sort_values("count", ascending=False).head()
