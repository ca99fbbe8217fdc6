"""Lazy tables where rows are needed: one message, of every method that reads rows."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from sklearn.feature_selection import SelectorMixin

import skdp.engines
from skdp import central

METHODS = ("transform", "inverse_transform", "predict", "predict_proba", "decision_function", "score")
rng = np.random.default_rng(0)
X = pd.DataFrame({"a": rng.integers(0, 2, 60).astype(float), "b": rng.integers(0, 2, 60).astype(float)})
Y = X["a"].astype(int).rename("y")
BOUNDS, VALUES = {"bounds": (0, 1)}, {"categories": [[0.0, 1.0]] * 2}
PARAMETERS = {
    "DPCategoricalNB": {**VALUES, "classes": [0, 1]},
    "DPGaussianNB": {**BOUNDS, "classes": [0, 1]},
    "DPLogisticRegression": {**BOUNDS, "classes": [0, 1], "max_iter": 2},
    "DPLinearRegression": {**BOUNDS, "target_bounds": (0, 1)},
    "DPRidge": {**BOUNDS, "target_bounds": (0, 1)},
    "DPSelectKBest": {**BOUNDS, "k": 1, "classes": [0, 1]},
    "DPTargetEncoder": {**BOUNDS, **VALUES},
    "DPOneHotEncoder": VALUES,
}
READERS = [
    name
    for name in central.__all__
    if isinstance(getattr(central, name), type) and any(hasattr(getattr(central, name), one) for one in METHODS)
]
MAKERS = {
    "polars": pl.LazyFrame,
    "pyarrow": lambda table: pa.dataset.dataset(pa.Table.from_pandas(table)),
    "duckdb": duckdb.from_df,
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # there are few rows
@pytest.mark.parametrize("name", READERS)
def test_a_lazy_table_is_refused_alike_by_every_method_that_reads_rows(name):
    assert skdp.engines  # with which `fit` reads lazy tables
    fitted = getattr(central, name)(epsilon=50.0, **PARAMETERS.get(name, BOUNDS), random_state=0).fit(X, Y)
    for method in (one for one in METHODS if hasattr(fitted, one)):
        if method == "inverse_transform" and isinstance(fitted, SelectorMixin):
            continue  # it is scikit-learn's
        for library, make in MAKERS.items():
            given = (make(X), Y) if method == "score" else (make(X),)
            with pytest.raises(TypeError, match=rf"^lazy frames \(_?{library}\) are not read here.*collect the frame"):
                getattr(fitted, method)(*given)
