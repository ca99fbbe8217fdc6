"""
Public groups, private incomes
==============================

Where all columns but one are public, so are the groups: their sizes are exact, and noise is only on what is said of the
column that is named.
"""

# %%
# How many earn more than 50,000 dollars, by education and sex, of the Adult data. Education and sex of everybody are
# taken to be known; the income is not.

import matplotlib.pyplot as plt

from skdp import DPHistogram
from skdp.datasets import load_adult

adult = load_adult()
names = ["education", "sex", "income"]
people = adult.frame[names]
histogram = DPHistogram(
    0.1,
    domain=adult.domain.select(names),
    protect=["income"],
    random_state=0,
).fit(people)
histogram.guarantee_

# %%
# Of two incomes, one count of each group gets noise, and the other one has the rest of the group.

counts = histogram.to_frame()["count"].unstack("income")
counts.assign(size=counts.sum(axis=1)).head(4)

# %%
# So shares come from one noisy number and an exact one. Who is in a group is no part of the promise, and neither is
# what the group lets one guess of an income: at any epsilon, a share that is close to 0 or 1 tells much. At epsilon 0
# all groups have the same share, as if incomes were in another order: the dashed line.

exact = people.value_counts().unstack("income", fill_value=0)
exact = exact.reindex(counts.index, fill_value=0)
frames = {"DPHistogram, ε = 0.1": counts, "exact": exact}
figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
for (label, frame), marker in zip(frames.items(), "ox", strict=True):
    women = frame.xs("Female", level="sex")
    women = women[exact.xs("Female", level="sex").sum(axis=1) > 0]
    shares = (women[">50K"] / women.sum(axis=1)).clip(0, 1)
    axes.plot(shares, women.index, marker, label=label)
overall = exact[">50K"].sum() / len(people)
axes.axvline(
    overall, color="black", linestyle="--", label="ε = 0: shuffled"
)
axes.set(xlabel="share of women who earn more than 50,000 dollars")
axes.legend()
plt.show()
