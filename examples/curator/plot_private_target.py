"""
A model whose target alone is private
=====================================

If all columns but the target are public, noise is needed in one place: the sums of rows times targets.
"""

# %%
# Income by public columns of the Adult data. Scikit-learn may read these as they are.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdp import DPLogisticRegression, privacy_statement
from skdp.datasets import load_adult

adult = load_adult()
words = ["education", "marital-status", "occupation", "sex"]
numbers = ["age", "hours-per-week"]
data = adult.data[[*words, *numbers]].copy()
data[words] = data[words].astype(object).fillna("missing")
columns = make_column_transformer(
    (OneHotEncoder(sparse_output=False), words),
    (StandardScaler(), numbers),
)
X = columns.fit_transform(data)
train, test, target, truth = train_test_split(
    X, adult.target, random_state=0
)

# %%
# The promise is for replacing one income, while everything else is public.

model = DPLogisticRegression(
    0.5,
    protect="target",
    classes=["<=50K", ">50K"],
    random_state=0,
)
model.fit(train, target).guarantee_

# %%
# What a statement says of it:

privacy_statement(model)

# %%
# Areas under the curve by epsilon, and at two ends. At epsilon 0, incomes are in another order, and nothing is learnt:
# .5. Without privacy, it is what public columns tell of an income: an attacker who learnt from any such table guesses
# as well, and no epsilon of this one takes that away.


def area(classifier):
    logits = classifier.fit(train, target).decision_function(test)
    return roc_auc_score(truth, logits)


epsilons = [0.03, 0.1, 0.3, 1.0, 3.0]
areas = {}
for epsilon in epsilons:
    areas[epsilon] = [
        area(model.set_params(epsilon=epsilon, random_state=seed))
        for seed in range(3)
    ]
table = pd.DataFrame(areas).T
exact = area(LogisticRegression(max_iter=1_000))
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.semilogx(
    table.index, table.mean(axis=1), "o-", label="target is private"
)
axes.fill_between(
    table.index, table.min(axis=1), table.max(axis=1), alpha=0.2
)
axes.axhline(exact, color="black", linestyle="--", label="without privacy")
axes.axhline(0.5, color="black", linestyle=":", label="ε = 0: shuffled")
axes.set(
    xlabel="epsilon, for replacing the income of one record",
    ylabel="area under the curve",
)
axes.legend()
plt.show()
