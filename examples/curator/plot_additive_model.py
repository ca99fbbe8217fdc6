"""
An additive model with private functions
========================================

An additive model is a sum of functions of single columns. `DPAdditiveClassifier` releases these functions with noise,
and with standard errors that include the noise.
"""

# %%
# The model predicts the income in the Adult data. The bounds of numbers may be wide, because the model finds bins
# privately. The categories are declared.

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
model = DPAdditiveClassifier(
    epsilon=1.0,
    bounds=bounds,
    categories=adult.domain.select(words),
    classes=["<=50K", ">50K"],
    random_state=0,  # for the same picture each time: leave it out
)
model.fit(X, adult.target)
print(round(model.score(X, adult.target), 3))
print(model.guarantee_)

# %%
# The values of the functions are added to the logit of a high income. Plotting them uses no budget.

ShapeDisplay.from_estimator(model, ["age"])
plt.show()

# %%
# The functions of all columns:

ShapeDisplay.from_estimator(model)
plt.show()

# %%
# The function of sex, given the other columns:

shape = model.shape_("sex")
print(shape.bins.labels, shape.values.round(2), shape.std_error.round(2))

# %%
# With the same wide bounds, logistic regression is less accurate:

numbers = list(bounds)
train, test, known, hidden = train_test_split(
    X[numbers], adult.target, random_state=0
)
linear = DPLogisticRegression(
    epsilon=1.0, bounds=bounds, classes=["<=50K", ">50K"], random_state=0
).fit(train, known)
additive = DPAdditiveClassifier(
    epsilon=1.0, bounds=bounds, classes=["<=50K", ">50K"], random_state=0
).fit(train, known)
for name, fitted in {"linear": linear, "additive": additive}.items():
    area = roc_auc_score(hidden, fitted.decision_function(test))
    print(f"{name}, numbers alone: area under the curve {area:.3f}")
