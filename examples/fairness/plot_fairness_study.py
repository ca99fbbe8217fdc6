"""
Are reports fairer than no column at all?
=========================================

A model that learns from reports of sex is fairer than one that learns from the truth. So is one that never sees
sex. `fairness_study` fits both on the same splits.
"""

# %%
# A table: the domain declares the protected column; the other columns are numbers.

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult
from skdp.evaluation import StudyTable, fairness_study

adult = load_adult(dropna=True)
columns = ["sex", "age", "education-num", "hours-per-week"]
table = StudyTable(
    adult.data[columns].iloc[:8000],
    adult.target.iloc[:8000],
    sensitive="sex",
    privileged="Male",
    positive_label=">50K",
    domain=adult.domain.select(["sex"]),
    name="Adult",
)

# %%
# Reports for training; a person to predict for tells the true sex.

model = make_pipeline(StandardScaler(), LogisticRegression())
study = fairness_study(
    table,
    RandomizedResponseEncoder(),
    epsilons=[0.25, 1, 4],
    estimator=model,
    baselines=["without privacy", "left out", "post-processed"],
    n_splits=5,
    random_state=0,
)
study.intervals()[["method", "epsilon", "metric", "mean"]].pivot_table(
    "mean", ["method", "epsilon"], "metric"
)[["accuracy", "statistical_parity_difference"]]

# %%
# In pairs: reports less no column. Differences are unprivileged less privileged; 0 is parity.

study.compare(
    "RandomizedResponseEncoder",
    "left out",
    metric="statistical_parity_difference",
)
