"""
Train on synthetic rows, test on real rows
==========================================

A classifier that is trained on private synthetic rows has the guarantee of these rows. Its loss of accuracy depends
on ε and on the number of rows.
"""

# %%
# The breast cancer data are divided into public bins. A third of the patients is the test set.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from skdp import Domain, DPMarginalSynthesizer, Interval
from skdp.metrics import train_on_synthetic

cancer = load_breast_cancer(as_frame=True)
bounds = {
    "mean radius": (5, 30),
    "mean texture": (5, 40),
    "mean concavity": (0, 0.5),
    "worst area": (150, 4500),
}
frame = cancer.data[list(bounds)].assign(target=cancer.target)
domain = Domain(
    {
        name: Interval(low, high, bins=8, real=True)
        for name, (low, high) in bounds.items()
    }
    | {"target": [0, 1]}
)
train, test = train_test_split(
    frame, test_size=1 / 3, random_state=0, stratify=frame["target"]
)
model = RandomForestClassifier(50, random_state=0)

rows, tables = [], []
for epsilon in (0.5, 1.0, 2.0, 5.0, 10.0):
    for seed in range(3):
        synthetic = (
            DPMarginalSynthesizer(
                epsilon, domain=domain, random_state=seed
            )
            .fit(train)
            .sample()
        )
        scores = train_on_synthetic(
            model, synthetic, test, target="target", real_train=train
        )
        rows.append(
            {"epsilon": epsilon, "AUC": scores.loc["synthetic", "roc_auc"]}
        )
        tables.append(scores)
tables[-1]

# %%
means = (
    pd.DataFrame(rows)
    .groupby("epsilon")["AUC"]
    .agg(["mean", "min", "max"])
)
figure, axes = plt.subplots(layout="constrained")
spread = [
    means["mean"] - means["min"],
    means["max"] - means["mean"],
]  # of three tables
axes.errorbar(
    means.index,
    means["mean"],
    spread,
    fmt="o-",
    capsize=3,
    label="trained on synthetic rows",
)
axes.axhline(
    tables[-1]["roc_auc"]["real"],
    color="black",
    linestyle="--",
    label="trained on real rows",
)
axes.set(
    xscale="log",
    xlabel="ε of the synthetic table",
    ylabel="AUC on real patients",
)
figure.legend(loc="outside lower center", ncols=2)
plt.show()
