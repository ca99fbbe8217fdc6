"""
Accuracy by epsilon
===================

What does a classifier lose if two measurements of scikit-learn's breast cancer data are randomised before it sees them?
"""

# %%
# The two columns are cut into declared bins, and every cell is randomised.
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import Interval, RandomizedResponseEncoder

X, y = load_breast_cancer(as_frame=True, return_X_y=True)
X = X[["mean radius", "mean texture"]]
bins = {
    "mean radius": Interval(5, 30, bins=6),
    "mean texture": Interval(5, 45, bins=4),
}
encoder = RandomizedResponseEncoder(categories=bins)
model = make_pipeline(
    encoder, OneHotEncoder(handle_unknown="ignore"), LogisticRegression()
)
model

# %%
# The curve goes from little privacy (right) to much (left). The dashed line is the same pipeline without noise.
from skdp.evaluation import PrivacyCurveDisplay, privacy_curve

curve = privacy_curve(
    model,
    X,
    y,
    param_name="randomizedresponseencoder__epsilon",
    epsilons=[1, 2, 4, 8],
    scoring="roc_auc",
    cv=3,
    n_repeats=2,
)
PrivacyCurveDisplay(curve).plot()
