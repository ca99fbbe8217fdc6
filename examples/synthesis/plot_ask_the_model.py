"""
Ask the model itself
====================

A synthesizer's model says how likely each value of a column is, given the rest of the row. `classifier` returns this as
a classifier of scikit-learn: no rows are drawn, no other model is trained, and nothing more is charged.
"""

# %%
# Six columns of Adult, a quarter of the rows held out.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from skdp import DPMarginalSynthesizer
from skdp.datasets import load_adult

adult = load_adult()
columns = [
    "age",
    "education",
    "marital-status",
    "occupation",
    "sex",
    "hours-per-week",
]
domain = adult.domain.select([*columns, "income"])
X_train, X_test, y_train, y_test = train_test_split(
    adult.data[columns], adult.target, random_state=0
)
rich = y_test == ">50K"

# %%
# The rival learns from synthetic rows of the same synthesizer.


def boosting():
    words = X_train.select_dtypes(exclude="number").columns
    encoder = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1
    )
    rows = make_column_transformer(
        (encoder, list(words)), remainder="passthrough"
    )
    return make_pipeline(
        rows, HistGradientBoostingClassifier(random_state=0)
    )


epsilons = [0.03, 0.1, 0.3, 1, 3]
scores = {"asked of the model": [], "learnt from synthetic rows": []}
for epsilon in epsilons:
    own, learnt = [], []
    for seed in range(3):
        synthesizer = DPMarginalSynthesizer(
            epsilon,
            delta=1e-6,
            domain=domain,
            target="income",
            random_state=seed,
        )
        model = synthesizer.fit(X_train, y_train).classifier("income")
        own.append(roc_auc_score(rich, model.predict_proba(X_test)[:, 1]))
        rows = synthesizer.sample()
        rival = boosting().fit(rows[columns], rows["income"] == ">50K")
        learnt.append(
            roc_auc_score(rich, rival.predict_proba(X_test)[:, 1])
        )
    scores["asked of the model"].append(own)
    scores["learnt from synthetic rows"].append(learnt)

# %%
# Rows that are drawn at random hide a part of what the model says, and boosted trees learn their chance too. To ask the
# model leaves this chance out. What it does not know, such as triples that were not measured, is missing in both.

figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for (name, found), color in zip(
    scores.items(), ("tab:blue", "tab:orange"), strict=True
):
    axes.plot(
        epsilons, np.mean(found, axis=1), "o-", color=color, label=name
    )
    axes.fill_between(
        epsilons,
        np.min(found, axis=1),
        np.max(found, axis=1),
        color=color,
        alpha=0.2,
    )
real = boosting().fit(X_train, y_train).predict_proba(X_test)[:, 1]
axes.axhline(
    roc_auc_score(rich, real),
    color="gray",
    linestyle="--",
    label="without privacy",
)
axes.set(
    xscale="log",
    xlabel="epsilon (delta = 1e-6)",
    ylabel="area under the ROC curve",
)
axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
axes.legend()
plt.show()

# %%
# Any other column can be asked, too.

marital = synthesizer.classifier("marital-status")
rest = X_test.drop(columns="marital-status").assign(income=y_test)
print(
    f"marital status is right for {marital.score(rest, X_test['marital-status']):.0%} of the rows"
)
