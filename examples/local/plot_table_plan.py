"""
How a table shares its epsilon
==============================

`LocalTableEncoder` compares the ways in which the columns of a record may share epsilon, by exact errors, before there
is any data. Which one is best depends on epsilon, on the columns, and on what the reports are wanted for.
"""

# %%
# The plan for five columns of Adult at epsilon 1, with a reason for each strategy.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_wine

from skdp import Interval, LocalTableEncoder, recommend_plan
from skdp.datasets import load_adult

adult = load_adult()
people = adult.data[["sex", "race", "education", "age", "hours-per-week"]]
values = adult.domain.select(["sex", "race", "education"])
bounds = {"age": (0, 100), "hours-per-week": (0, 100)}
plan = recommend_plan(values, 1.0, bounds=bounds)
pd.set_option("display.max_colwidth", None)
plan.strategies.round(2)

# %%
# The same as a picture.

plan.strategies["error"][::-1].plot.barh(
    xlabel="n × mean squared error", logx=True
)
plt.show()

# %%
# What a record reports, and how often.

plan.reports.round(3)

# %%
# The error of each strategy, as a multiple of the best one, for margins and for pairs; and for the wine data of
# scikit-learn, whose chemical measurements are cut into bins. Sampling wins where epsilon is small, groups where it is
# large: many cells then cost little, and several margins come from one report.

wine = {
    name: Interval(0, 30, bins=6) for name in load_wine().feature_names[:4]
} | {"class": range(3)}
tables = {
    "Adult, margins": (values, bounds, "margins"),
    "Adult, pairs": (values, bounds, "pairs"),
}
tables["wine, margins"] = (wine, {}, "margins")
epsilons = [0.5, 1, 2, 4, 8]
figure, panels = plt.subplots(
    1, 3, figsize=(11, 3.6), sharey=True, layout="constrained"
)
for axes, (title, (categories, numbers, purpose)) in zip(
    panels, tables.items(), strict=True
):
    plans = [
        recommend_plan(
            categories, epsilon, bounds=numbers, purpose=purpose
        )
        for epsilon in epsilons
    ]
    times = pd.DataFrame(
        [one.strategies["times"] for one in plans], index=epsilons
    )
    for place, strategy in enumerate(
        ["split", "joint", "sample", "weighted", "groups"]
    ):
        axes.plot(
            epsilons,
            times[strategy],
            marker="o",
            color=f"C{place}",
            label=strategy,
        )
    axes.set(
        title=title,
        xlabel="epsilon",
        xscale="log",
        yscale="log",
        xticks=epsilons,
        xticklabels=epsilons,
    )
    axes.minorticks_off()
panels[0].set_ylabel("error, as a multiple of the best one")
panels[0].set_ylim(top=4_000)
panels[0].legend(ncols=2, loc="upper center")
plt.show()

# %%
# The reports, and an estimate of the counts of pairs.

encoder = LocalTableEncoder(
    4.0, categories=values, bounds=bounds, purpose="pairs", random_state=0
)
reports = encoder.fit_transform(people)
print(encoder.plan_)
encoder.estimate_joint_counts(reports, ["race", "sex"]).round()

# %%
# The means of the numbers, with intervals.

encoder.estimate_mean(reports).round(2)
