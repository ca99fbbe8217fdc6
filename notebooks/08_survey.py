# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Tutorial: a survey, from the question to the regression table
#
# Who copies in exams? Three thousand invented students are asked, each answer is randomised before anybody sees it, and
# some students say no whatever they are told. You plan the survey, collect the reports, estimate the share of those who
# copied beside that of those who cheat in the survey, and end with a regression table.
#
# The randomness whose outcome is shown comes from seeds, so that the text and the output agree: **a seed voids the
# guarantee**. In a survey, leave `random_state` out.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

# %%
from skdp import (
    PerHalf,
    RandomizedResponseEncoder,
    ReportLogisticRegression,
    plan_epsilon,
    plan_rows,
)

# %% [markdown]
# ## 1. The question, and how many to ask
#
# The guess before the survey: 20 in 100 copy, and 35 in 100 of those who work beside their studies. How many students
# find this difference in four of five surveys, by epsilon?

# %%
question = RandomizedResponseEncoder(categories={"copied": ["no", "yes"]})
guess = {"of": "coefficient", "rates": (0.2, 0.35), "share": 0.4, "power": 0.8}
plan = plan_rows(question, epsilon=1.5, **guess)
plan

# %%
plan.plot()
plt.show()

# %% [markdown]
# Three thousand students are there to be asked. Which epsilon do they need?

# %%
plan_epsilon(question, n_rows=3000, **guess)

# %% [markdown]
# Cheaters cost power, and are seen by two levels of noise only: one half of the students, drawn by a coin, reports at
# epsilon 1, the other half at 3. What is promised to everyone is the larger one.

# %%
halves = PerHalf(
    RandomizedResponseEncoder(categories={"copied": ["no", "yes"]}, random_state=0),
    epsilons=(1.0, 3.0),
)

# %% [markdown]
# ## 2. The students
#
# They are invented, so that the truth is known: older students copy less, those who work more. One in six of those who
# did not copy says no without looking at the coin.

# %%
rng = np.random.default_rng(7)
n = 3000
age = np.clip(rng.normal(24, 4, n), 18, 40)
works = rng.random(n) < 0.4
log_odds = -1.4 - 0.08 * (age - 24) + 0.8 * works
copied = rng.random(n) < 1 / (1 + np.exp(-log_odds))
overrides = ~copied & (rng.random(n) < 1 / 6)
truth = pd.DataFrame({"copied": np.where(copied, "yes", "no")})
f"{copied.mean():.3f} copied, {overrides.mean():.3f} say no without looking"

# %%
reports = halves.fit_transform(truth)
reports.loc[overrides, "copied"] = "no"
print(halves.guarantee_)
pd.crosstab(reports["half"], reports["copied"])

# %% [markdown]
# ## 3. How many copied?
#
# If all are taken for honest, the share is too small: whoever says no without looking is counted as one who did not copy
# and was not told to say yes. With the cheaters as a share of their own, the interval holds the truth.

# %%
halves.estimate_frequencies(reports).round(3)

# %%
halves.estimate_frequencies(reports, cheaters="no").round(3)

# %% [markdown]
# ## 4. Who copied?
#
# Age and work are known. The regression takes the exact channel of each half, and the share of cheaters is estimated
# beside the coefficients.

# %%
students = pd.DataFrame({"age - 24": age - 24, "works": works.astype(float)})
model = ReportLogisticRegression(target_encoder=halves.design("copied", cheaters="no"))
model.fit(students, reports)
table = model.summary().round(3)
table.insert(0, "truth", [-1.4, -0.08, 0.8])
table

# %%
model.unknown_.round(3)

# %% [markdown]
# Are there cheaters at all? The likelihood ratio compares with the fit in which all are honest.

# %%
honest = ReportLogisticRegression(target_encoder=halves.design("copied"))
honest.fit(students, reports)
model.likelihood_ratio_test(honest)

# %% [markdown]
# ## 5. What a naive analysis would have said
#
# A model that takes reports for the truth finds six tenths of each effect. One that knows the noise, but no cheaters, is
# not far off here, with an intercept that is too low.

# %%
from sklearn.linear_model import LogisticRegression

naive = LogisticRegression(C=np.inf).fit(students, reports["copied"] == "yes")
estimates = pd.DataFrame(
    {
        "truth": [-1.4, -0.08, 0.8],
        "reports as truth": [naive.intercept_[0], *naive.coef_[0]],
        "noise known, all honest": honest.summary()["estimate"].to_numpy(),
        "noise and cheaters": model.summary()["estimate"].to_numpy(),
    },
    index=model.summary().index,
)
estimates.round(2)

# %%
axes = plt.subplots(figsize=(6, 3.2), layout="constrained")[1]
for place, (name, fit) in enumerate(
    {"all honest": honest, "with cheaters": model}.items()
):
    rows = fit.summary()
    where = np.arange(3) + 0.2 * place
    axes.errorbar(
        where,
        rows["estimate"],
        rows["upper"] - rows["estimate"],
        fmt="os"[place],
        capsize=3,
        label=name,
    )
axes.hlines([-1.4, -0.08, 0.8], np.arange(3) - 0.1, np.arange(3) + 0.3, "k", "dashed")
axes.set_xticks(np.arange(3) + 0.1, rows.index)
axes.set_ylabel("coefficient, with 95 % interval")
axes.legend()
plt.show()

# %% [markdown]
# ## What to remember
#
# * Plan before you ask: `plan_rows` and `plan_epsilon` know the noise, and `plot()` shows what other epsilons and
#   numbers of people would do.
# * Two levels of noise in two random halves show how many do not follow. Only those are seen who choose their *report*: a
#   lie that is told to a device is randomised as the truth is.
# * The table of `summary()` holds the error of the sample and that of the noise.
