"""
Fairness study: reports or no column
====================================

A model that is trained on reports of sex is fairer than a model that is trained on true values. But a model without
the column is fairer, too. `fairness_study` fits all of them on the same splits.
"""

# %%
# The domain declares the values of the protected column. The other columns are numbers. Two encoders are compared, and
# `fnlwgt` is the survey weight of each row.

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import RandomizedResponseEncoder, UnaryEncodingTransformer
from skdp.datasets import load_adult
from skdp.evaluation import (
    PrivacyCurveDisplay,
    compare_to_baseline,
    fairness_study,
)

adult = load_adult(dropna=True)
rows = adult.data.iloc[:8000]
study = fairness_study(
    make_pipeline(StandardScaler(), LogisticRegression()),
    rows[["sex", "age", "education-num", "hours-per-week"]],
    adult.target.iloc[:8000] == ">50K",
    encoder={
        "randomized response": RandomizedResponseEncoder(),
        "unary encoding": UnaryEncodingTransformer(),
    },
    epsilons=[0.25, 1, 4],
    domain=adult.domain.select(["sex"]),
    sensitive_features="sex",
    privileged="Male",
    sample_weight=rows["fnlwgt"],
    n_splits=5,
    random_state=0,
)
means = study.pivot_table(
    "value", ["method", "encoder", "epsilon"], "metric"
)
means[["accuracy", "statistical_parity_difference"]].round(3)

# %%
# A curve for each method and encoder, with 95 % intervals over the splits. A difference of 0 between the groups is
# parity.

shown = study[
    study["metric"].isin(["accuracy", "statistical_parity_difference"])
]
PrivacyCurveDisplay.from_curve(shown)
plt.show()

# %%
# Compare the models with the model without the column, in pairs of splits:

baseline = "columns excluded"
differences = compare_to_baseline(shown, baseline=baseline)
print(
    differences[differences["method"] == "reported"].round(3).to_string()
)
PrivacyCurveDisplay.from_curve(shown, kind="difference", baseline=baseline)
plt.show()
