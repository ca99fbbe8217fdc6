"""
Fairness metrics from randomized groups
=======================================

An auditor has only randomized reports of sex. If the reports are used as groups, every difference is underestimated.
`debiased_fairness` corrects for the randomization, and returns intervals.
"""

# %%
# A classifier is trained on Adult. The auditor receives its predictions, and reports of sex at ε = 1.

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult
from skdp.evaluation import FairnessDisplay
from skdp.metrics import debiased_fairness, fairness_report

adult = load_adult(dropna=True)
numbers = adult.data[["age", "education-num", "hours-per-week"]]
model = make_pipeline(StandardScaler(), LogisticRegression())
predicted = model.fit(numbers, adult.target).predict(numbers)

encoder = RandomizedResponseEncoder(
    1.0, categories=adult.domain.select(["sex"]), random_state=0
)
reports = encoder.fit_transform(adult.data[["sex"]])
audit = debiased_fairness(
    adult.target,
    predicted,
    reports,
    encoder,
    privileged="Male",
    positive_label=">50K",
)
print(audit[["metric", "group", "value", "lower", "upper"]].round(3))

# %%
# Compare the metrics of the true groups, of the reports used as groups, and of the debiased reports:

true_groups, reported_groups = (
    fairness_report(
        adult.target,
        predicted,
        groups,
        privileged="Male",
        positive_label=">50K",
    )
    for groups in (adult.data["sex"], reports["sex"])
)
for title, report in (
    ("true groups", true_groups),
    ("reports as groups", reported_groups),
):
    values = report.set_index("metric")["value"]
    print(title, round(values["statistical_parity_difference"], 3))
named = {
    "true groups": true_groups,
    "reports as groups": reported_groups,
    "debiased": audit,
}
differences = {
    name: report[report["metric"].str.endswith("_difference")]
    for name, report in named.items()
}
FairnessDisplay.from_reports(differences)
plt.show()

# %%
# The rates of the groups, the differences and the ratios:

FairnessDisplay.from_reports(named)
plt.show()
