"""
Rates of many groups
====================

An audit by sex, race and age has thirty groups. `FairnessDisplay` shows each rate in a panel, with a row for each.
"""

# %%
# A model of income that sees education, occupation and hours, and none of the three.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdp.datasets import load_adult
from skdp.evaluation import FairnessDisplay
from skdp.metrics import fairness_report

adult = load_adult(dropna=True)
columns = make_column_transformer(
    (OneHotEncoder(), ["education", "occupation"]),
    (StandardScaler(), ["hours-per-week"]),
)
people, income = adult.data, adult.target
predicted = (
    make_pipeline(columns, LogisticRegression())
    .fit(people, income)
    .predict(people)
)

# %%
# Small groups have wide intervals. The lowest row compares all groups: the largest rate and the smallest one.

ages = pd.cut(
    people["age"],
    [0, 30, 45, 120],
    labels=["to 30", "31 to 45", "over 45"],
).astype(str)
groups = people[["sex", "race"]].assign(age=ages)
report = fairness_report(
    income, predicted, groups, positive_label=">50K", confidence_level=0.95
)
FairnessDisplay({"predictions": report}).plot()
plt.show()

# %%
# Of two groups, one of them privileged: disparate impact is below the usual limit of 0.8.

report = fairness_report(
    income,
    predicted,
    people["sex"],
    privileged="Male",
    positive_label=">50K",
    by_group=True,
    confidence_level=0.95,
)
FairnessDisplay({"predictions": report}).plot()
plt.show()
