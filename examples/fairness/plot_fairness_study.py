"""
Fairness study: reports or no column
====================================

A model that is trained on reports of sex and race is fairer than a model that is trained on true values. But a model
without the columns is fairer, too. `fairness_study` fits all of them on the same splits.
"""

# %%
# The domain declares the values of the protected columns. The other columns are numbers. Four encoders are compared,
# and `fnlwgt` is the survey weight of each row.

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skdp
from skdp.datasets import load_adult
from skdp.evaluation import (
    PrivacyCurveDisplay,
    compare_to_baseline,
    fairness_study,
)

adult = load_adult(dropna=True)
rows = adult.data[:8000]
study = fairness_study(
    make_pipeline(StandardScaler(), LogisticRegression()),
    rows[["age", "education-num", "hours-per-week", "sex", "race"]],
    adult.target[:8000],
    positive_label=">50K",
    sample_weight=rows["fnlwgt"],
    encoder={
        "GRR": skdp.RandomizedResponseEncoder(),
        "OUE": skdp.UnaryEncodingTransformer(),
        "SS": skdp.SubsetSelectionEncoder(),
        "OLH": skdp.LocalHashingEncoder(),
    },
    epsilons=[0.5, 2.0, 8.0],
    domain=adult.domain.select(["sex", "race"]),
    sensitive_features=["sex", "race"],
    privileged={"sex": "Male", "race": "White"},
    n_splits=5,
    random_state=0,
)
metric = "statistical_parity_difference [sex, race]"
shown = study[study["metric"].isin(["accuracy", metric])]
parity = study[study["metric"] == metric]
table = parity.pivot_table("value", ["method", "encoder"], "epsilon")
print(table.round(3))

# %%
# A curve for each method and encoder, with 95 % intervals over the splits. A difference of 0 between the groups is
# parity.

PrivacyCurveDisplay.from_curve(shown)
plt.show()

# %%
# Compare the models with the model without the columns, in pairs of splits:

baseline = "columns excluded"
differences = compare_to_baseline(parity, baseline=baseline)
print(
    differences[differences["method"] == "reported"].round(3).to_string()
)
PrivacyCurveDisplay.from_curve(shown, kind="difference", baseline=baseline)
plt.show()
