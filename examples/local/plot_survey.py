"""
People who do not follow
========================

Three thousand invented students are asked whether they copied, by randomised response with two levels of noise. Some
say no whatever the coin tells. `PerHalf` makes them visible.
"""

# %%
# How many students are needed? The guess: 20 in 100 copy, and 35 in 100 of those who work beside their studies.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import (
    PerHalf,
    RandomizedResponseEncoder,
    ReportLogisticRegression,
    plan_rows,
)

question = RandomizedResponseEncoder(
    categories={"copied": ["no", "yes"]}, random_state=0
)
guess = {"of": "coefficient", "rates": (0.2, 0.35), "share": 0.4}
plan = plan_rows(question, epsilon=1.0, power=0.8, **guess)
print(plan)
plan.plot()

# %%
# The survey. Each student reports by the epsilon of a half that a coin draws; 15 in 100 of those who did not copy
# override the outcome.

rng = np.random.default_rng(1)
n = 3000
works = rng.random(n) < 0.4
copied = rng.random(n) < np.where(works, 0.35, 0.2)
halves = PerHalf(question, epsilons=(0.5, 3.0))
truth = pd.DataFrame({"copied": np.where(copied, "yes", "no")})
reports = halves.fit_transform(truth)
reports.loc[~copied & (rng.random(n) < 0.15), "copied"] = "no"

# %%
# The shares in the population, with the cheaters as a share of their own.

halves.estimate_frequencies(reports, cheaters="no").round(3)

# %%
# Who copied? The true coefficient is .77.

people = pd.DataFrame({"works": works.astype(float)})
model = ReportLogisticRegression(
    target_encoder=halves.design("copied", cheaters="no")
)
model.fit(people, reports).summary().round(2)

# %%
# How well cheaters are seen depends on how far the two levels are apart.

levels = [1, 1.5, 2, 3, 4, 6]
errors = []
for level in levels:
    wider = PerHalf(question, epsilons=(0.5, level))
    told = wider.fit_transform(truth)
    table = wider.estimate_frequencies(told, cheaters="no")
    errors.append(table.loc["cheaters", "std_error"])
axes = plt.subplots(layout="constrained")[1]
axes.plot(levels, errors, "o-")
axes.set_xlabel("epsilon of the second half (the first has 0.5)")
axes.set_ylabel("standard error of the share of cheaters")
axes.set_ylim(bottom=0)
plt.show()
