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
# # Tutorial: release a whole table with local privacy
#
# A record has many columns and one ε. In this tutorial each person randomises eight columns of the census data Adult
# before anybody sees them. You choose what the reports are for, look at the plan before there is any data, and read
# margins, means and pairs of columns back, with intervals. Then you draw a synthetic table from reports, and train a
# model on them.
#
# The randomness whose outcome is shown comes from seeds, so that the text and the output agree: **a seed voids the
# guarantee**. For a release, leave `random_state` out.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

# %%
from skdp import LocalTableEncoder, privacy_statement, recommend_plan
from skdp.datasets import load_adult

# %%
adult = load_adult(subset="all", dropna=True)
names = ["workclass", "marital-status", "occupation", "relationship", "race", "sex"]
numbers = {"age": (17, 90), "hours-per-week": (0, 100)}
people = adult.data[[*names, *numbers]]
values = adult.domain.select(names)
f"{len(people):,} people, {people.shape[1]} columns, {np.prod([float(size) for size in values.sizes]):,.0f} cells"

# %% [markdown]
# ## 1. Plan before there is any data
#
# What is declared decides the errors: the values of the six columns of categories, the bounds of the two numbers, ε, and
# what the reports are for. Here ε is 2, and the margins are wanted: the share of each value, and both means.

# %%
plan = recommend_plan(values, 2.0, bounds=numbers)
plan.strategies.round(2)

# %% [markdown]
# The errors are n times the mean squared error of a share. To split ε among eight columns, as a `ColumnTransformer` of
# encoders does, has many times the error of the best plan; so has one report of all combinations. The best plan draws
# for each record what it reports, without looking at a value. Columns with many values, which have more to estimate, are
# drawn more often:

# %%
plan.reports.round(3)

# %% [markdown]
# ## 2. Margins and means
#
# `LocalTableEncoder` makes this plan in `fit`, and randomises in `transform`. Of a record, only what was drawn has a
# value; the last column says what that is.

# %%
encoder = LocalTableEncoder(2.0, categories=values, bounds=numbers, random_state=0).fit(
    people
)
reports = encoder.transform(people)
reports.head(4)

# %%
print(encoder.guarantee_)
print(privacy_statement(encoder, people))

# %% [markdown]
# The estimates correct for the randomness and for what was not reported. Their intervals hold for each count by itself,
# with a probability of 95 %.

# %%
margins = encoder.estimate_counts(reports)
true = pd.concat(
    {name: people[name].value_counts() for name in names}, names=["column", "category"]
)
margins["true"] = true.reindex(margins.index, fill_value=0)
margins.loc[["sex", "race", "relationship"]].astype(float).round(0)

# %%
inside = margins["true"].between(margins["lower"], margins["upper"])
print(f"{inside.sum()} of {len(inside)} intervals hold the true count")

# %%
means = encoder.estimate_mean(reports).assign(true=people[list(numbers)].mean())
means.astype(float).round(2)

# %% [markdown]
# A picture says the same: wide intervals where a column is reported seldom or has many values.

# %%
shown = margins.loc[["sex", "race", "relationship", "marital-status"]]
places = np.arange(len(shown))[::-1]
axes = plt.subplots(figsize=(7, 6), layout="constrained")[1]
axes.errorbar(
    shown["count"],
    places,
    xerr=(shown["upper"] - shown["lower"]) / 2,
    fmt="o",
    ms=4,
    label="estimate",
)
axes.plot(shown["true"], places, "x", color="black", label="truth")
axes.set_yticks(places, [f"{column}: {category}" for column, category in shown.index])
axes.axvline(0, color="grey", lw=0.8)
axes.set(xlabel="people", xticks=range(0, 40_001, 10_000))
axes.legend(loc="lower right")
plt.show()

# %% [markdown]
# ## 3. Pairs of columns
#
# Do men and women have different marital status? From reports of single columns, each of another record, one cannot
# say. With `purpose="pairs"` the best plan has each record report one pair of all pairs, or a number, with all of ε:

# %%
pairs = LocalTableEncoder(
    2.0, categories=values, bounds=numbers, purpose="pairs", random_state=0
).fit(people)
pairs.plan_.strategies[["error", "times"]].round(1)

# %%
pairs.plan_.reports[["columns", "report", "cells", "inclusion"]].round(3).head()

# %%
of_pairs = pairs.transform(people)
table = pairs.estimate_joint_counts(of_pairs, ["sex", "marital-status"])
both = people.value_counts(["sex", "marital-status"])
table["true"] = both.reindex(table.index, fill_value=0)
table.astype(float).round(0)

# %% [markdown]
# The errors are about a thousand people: enough for what many people are, not for rare combinations. The intervals say
# so.

# %%
hidden = (table["count"].abs() < 2 * table["std_error"]).sum()
print(f"{hidden} of {len(table)} counts are not told from 0")

# %% [markdown]
# ## 4. A model
#
# A model needs each column of each record. `purpose="model"` reports all of them, with a part of ε each, as values in
# columns like those of the input; so the usual pipeline takes them. The income, which is to be predicted, is not
# protected here: in a study it often comes from another source.

# %%
X_train, X_test, y_train, y_test = train_test_split(
    people, adult.target, test_size=0.3, random_state=0
)


def classifier():
    coded = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), names),
        (StandardScaler(), list(numbers)),
    )
    return make_pipeline(coded, LogisticRegression(max_iter=1000))


def auc(rows):
    model = classifier().fit(rows, y_train)
    return roc_auc_score(y_test, model.predict_proba(X_test)[:, 1])


# %%
settings = {
    "categories": values,
    "bounds": numbers,
    "purpose": "model",
    "random_state": 0,
}
scores = {
    epsilon: auc(LocalTableEncoder(epsilon, **settings).fit_transform(X_train))
    for epsilon in (2, 8, 16, 32)
}
pd.Series(
    {
        "no privacy": auc(X_train),
        **{f"ε = {epsilon}": score for epsilon, score in scores.items()},
    }
).round(3)

# %% [markdown]
# ## What to take with you
#
# - Choose the purpose first: reports that are best for margins cannot train a model, and the other way round.
# - Plan from what is declared. The plan shows the errors that you are going to have.
# - ε is for the whole record, whatever the plan. What a record reports is drawn without looking at it, and may be seen.
# - Each call of `transform` is a new release. Store the reports, and read from them as often as you like.
