"""
Rows with a fair label
======================

A model that learns from synthetic rows learns the gap between groups too. With ``fair=`` the label of each row is drawn
again, by scores that have the same distribution in both groups, after all counts have been made: at no cost of privacy.
"""

# %%
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from skdp import DPMarginalSynthesizer
from skdp.datasets import load_adult

features = ["age", "education-num", "hours-per-week", "occupation"]
features += ["marital-status", "sex"]
columns = [*features, "income"]
train = load_adult(dropna=True)
test = load_adult(subset="test", dropna=True).frame
domain = train.domain.select(columns)


def rows_of(fair):
    """Draw rows to learn from, more than there are persons."""
    synthesizer = DPMarginalSynthesizer(
        1.0,
        delta=1e-6,
        domain=domain,
        target="income",
        fair=fair,
        random_state=0,
    )
    return synthesizer.fit(train.frame[columns]).sample(50_000)


def on_real_rows(rows, names):
    """Return the shares of real women and men who are accepted, and the AUC."""
    text = [name for name in names if rows[name].dtype.kind not in "if"]
    model = make_pipeline(
        make_column_transformer(
            (OrdinalEncoder(), text), remainder="passthrough"
        ),
        HistGradientBoostingClassifier(max_iter=50, random_state=0),
    )
    model.fit(rows[names], rows["income"] == ">50K")
    score = model.predict_proba(test[names])[:, 1]
    accepted = (
        pd.Series(score > 0.5).groupby(test["sex"].to_numpy()).mean()
    )
    return accepted, roc_auc_score(test["income"] == ">50K", score)


rows = rows_of(None)
fair_rows = rows_of(("sex", "income"))
results = {
    "rows": on_real_rows(rows, features),
    "rows without sex": on_real_rows(rows, features[:-1]),
    "fair rows": on_real_rows(fair_rows, features),
    "fair rows without sex": on_real_rows(fair_rows, features[:-1]),
}

# %%
# Real persons who are given the high income. Without the column, other columns say who is a woman. Parity has a price,
# which the area under the curve shows: the labels of the table do depend on sex.

figure, axes = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
for place, (accepted, _) in enumerate(results.values()):
    axes.plot(accepted, [place, place], color="lightgrey", linewidth=3)
    for sex, colour in (("Female", "C1"), ("Male", "C0")):
        label = sex if place == 0 else None
        axes.scatter(
            accepted[sex], place, color=colour, label=label, zorder=2
        )
labels = [f"{name}\nAUC {auc:.3f}" for name, (_, auc) in results.items()]
axes.set_yticks(range(len(labels)), labels)
axes.invert_yaxis()
axes.set(xlabel="share of real persons who are accepted", xlim=(0, None))
figure.legend(loc="outside upper right", ncols=2)
plt.show()
