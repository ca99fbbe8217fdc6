"""
An additive model whose functions are private, and can be read
==============================================================

An additive model is a sum of functions, one of each column. `DPAdditiveClassifier` releases them with noise, and with
errors that include it: the people of each group can see what the model does with them.
"""

# %%
# Income by columns of the Adult data. Bounds of numbers may be wide, as bins are found privately. What a word may be is
# declared.

import matplotlib.pyplot as plt
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skdp import DPAdditiveClassifier, DPLogisticRegression
from skdp.datasets import load_adult
from skdp.evaluation import ShapeDisplay

adult = load_adult()
words = ["education", "marital-status", "sex"]
bounds = {
    "age": (0, 120),
    "hours-per-week": (0, 168),
    "capital-gain": (0, 1e6),
}
X = adult.data[[*bounds, *words]]
train, test, known, hidden = train_test_split(
    X, adult.target, random_state=0
)
model = DPAdditiveClassifier(
    epsilon=1.0,
    bounds=bounds,
    categories=adult.domain.select(words),
    classes=["<=50K", ">50K"],
    random_state=0,  # for the same picture each time: leave it out
).fit(train, known)
print(model.guarantee_)

# %%
# The functions, which add to the logit of a high income. A figure of them costs nothing: they are released.

ShapeDisplay.from_estimator(model)
plt.show()

# %%
# What the model says of sex, beside the other columns:

shape = model.shape_("sex")
for label, value, error in zip(
    shape.bins.labels, shape.values, shape.std_error, strict=True
):
    print(f"{label}: {value:+.2f} ± {1.96 * error:.2f}")

# %%
# Lines would not do for numbers with such bounds:

numbers = list(bounds)
linear = DPLogisticRegression(
    epsilon=1.0, bounds=bounds, classes=["<=50K", ">50K"], random_state=0
).fit(train[numbers], known)
additive = DPAdditiveClassifier(
    epsilon=1.0, bounds=bounds, classes=["<=50K", ">50K"], random_state=0
).fit(train[numbers], known)
for name, fitted in {"linear": linear, "additive": additive}.items():
    area = roc_auc_score(hidden, fitted.decision_function(test[numbers]))
    print(f"{name}, numbers alone: area under the curve {area:.3f}")
