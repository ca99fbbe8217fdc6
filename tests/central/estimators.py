"""Every estimator of the central model with a table for its fit, and functions that read its release."""

import numpy as np
import pandas as pd
from sklearn.base import clone

from skdp import central
from skdp.base import split_if_supervised

rng = np.random.default_rng(0)
N = 60
NUMBERS = pd.DataFrame({"a": rng.integers(0, 2, N).astype(float), "b": rng.integers(0, 2, N).astype(float)})
WORDS = pd.DataFrame({"a": rng.choice(["x", "y"], N), "b": rng.choice(["u", "v"], N)})
Y = pd.Series(rng.integers(0, 2, N), name="y")
BOUNDS = {"bounds": (0, 1)}
VALUES = {"a": ["x", "y"], "b": ["u", "v"]}
# Estimators without bounds, or not by default.
OTHERS = {
    "DPAdditiveClassifier": (BOUNDS | {"classes": [0, 1]}, NUMBERS),
    "DPAdditiveRegressor": (BOUNDS | {"target_bounds": (0, 1)}, NUMBERS),
    "DPCategoricalNB": ({"categories": VALUES, "classes": [0, 1]}, WORDS),
    "DPGaussianNB": (BOUNDS | {"classes": [0, 1]}, NUMBERS),
    "DPGroupBy": (BOUNDS | {"by": "a", "keys": {"a": VALUES["a"]}}, WORDS.assign(b=NUMBERS["b"])),
    "DPHistogram": ({"domain": VALUES}, WORDS),
    "DPKBinsDiscretizer": (BOUNDS | {"n_bins": 5}, NUMBERS),
    "DPLinearRegression": (BOUNDS | {"target_bounds": (0, 1)}, NUMBERS),
    "DPLogisticRegression": (BOUNDS | {"classes": [0, 1]}, NUMBERS),
    "DPMinMaxScaler": (BOUNDS | {"quantile_range": (10, 90)}, NUMBERS),  # quantiles, which are charged
    "DPQuantileTransformer": (BOUNDS | {"n_quantiles": 9}, NUMBERS),
    "DPRidge": (BOUNDS | {"target_bounds": (0, 1)}, NUMBERS),
    "DPTargetEncoder": (BOUNDS | {"categories": VALUES}, WORDS),
}
EVERY = {
    name: (getattr(central, name)(**parameters), X)
    for name in central.__all__
    if name.startswith("DP") and name != "DPOneHotEncoder"  # DPOneHotEncoder releases nothing
    for parameters, X in [OTHERS.get(name, (BOUNDS, NUMBERS))]
}
NUMERIC = [name for name, (model, X) in EVERY.items() if X is NUMBERS and "bounds" in model.get_params()] + [
    "DPGroupBy"
]
WITH_GAPS = [name for name in NUMERIC if EVERY[name][0].__sklearn_tags__().input_tags.allow_nan]


def make_estimator(name, **parameters):
    return clone(EVERY[name][0]).set_params(**{"epsilon": 5.0, "random_state": 0} | parameters)


def whole(name):
    """Return the table of an estimator, with a target if it needs one."""
    needed = EVERY[name][0].__sklearn_tags__().target_tags.required
    return EVERY[name][1].assign(**{"y": Y} if needed else {})


def fit_estimator(estimator, table, **more):
    return estimator.fit(*split_if_supervised(estimator, table), **more)


def read_attributes(estimator):
    return {name: repr(value) for name, value in vars(estimator).items() if name.endswith("_")}
