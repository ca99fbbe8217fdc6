"""
Fairness metrics from randomized groups
=======================================

An auditor has only randomized reports of sex. If the reports are used as groups, every difference is underestimated.
`debiased_fairness` corrects for the randomization, and returns intervals.
"""

# %%
# A classifier is trained on Adult. The auditor receives its predictions, and reports of sex at ε = 1.

import matplotlib.pyplot as plt
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult
from skdp.evaluation import FairnessDisplay
from skdp.metrics import debiased_fairness, fairness_report

adult = load_adult(dropna=True)
columns = [
    "age",
    "education",
    "hours-per-week",
    "marital-status",
    "occupation",
]
prepare = make_column_transformer(
    (StandardScaler(), make_column_selector(dtype_include="number")),
    (OneHotEncoder(), make_column_selector(dtype_include="category")),
)
predicted = make_pipeline(prepare, LogisticRegression(max_iter=500)).fit(
    adult.data[columns], adult.target
)
predicted = predicted.predict(adult.data[columns])
encoder = RandomizedResponseEncoder(
    1.0, categories=adult.domain.select(["sex"]), random_state=0
)
reports = encoder.fit_transform(adult.data[["sex"]])

# %%
# Compare the metrics of the true groups, of the reports used as groups, and of the debiased reports:

common = {
    "privileged": "Male",
    "positive_label": ">50K",
}
audits = {
    "true groups": fairness_report(
        adult.target, predicted, adult.data["sex"], **common
    ),
    "reports as groups": fairness_report(
        adult.target, predicted, reports["sex"], **common
    ),
    "debiased": debiased_fairness(
        adult.target, predicted, reports, encoder, rows="table", **common
    ),
}
FairnessDisplay.from_reports(audits)
plt.show()
