"""Models of tables that stay where they are: the same as in memory."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from skdp import (
    DPCategoricalNB,
    DPGaussianNB,
    DPLinearRegression,
    DPLogisticRegression,
    DPRidge,
    DPSelectKBest,
    DPTargetEncoder,
    Interval,
)
from skdp.privacy import Mu

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(1_200, 3)).clip(-3, 3), columns=["a", "b", "c"])
NUMBER = pd.Series(X.to_numpy() @ [1.0, -2.0, 0.0] + rng.normal(size=1_200), name="y")
CLASS = pd.Series((NUMBER > 0).map({True: "ill", False: "fine"}), name="y")
REGRESSION = {"bounds": (-3, 3), "target_bounds": (-9, 9), "random_state": 0}
CLASSES = {"classes": ["ill", "fine"], "random_state": 0}
MODELS = {
    "linear": (DPLinearRegression(2.0, **REGRESSION), NUMBER),
    "ridge": (DPRidge(2.0, delta=1e-6, **REGRESSION), NUMBER),
    "private bounds": (DPRidge(40.0, **REGRESSION | {"bounds": "private", "target_bounds": "private"}), NUMBER),
    "Gaussian": (DPGaussianNB(2.0, bounds=(-3, 3), **CLASSES), CLASS),
    "categorical": (DPCategoricalNB(2.0, categories=Interval(-3, 3, bins=4), **CLASSES), CLASS),
    "target encoder": (
        DPTargetEncoder(20.0, categories=Interval(-3, 3, bins=4), bounds="private", random_state=0),
        NUMBER,
    ),
    "selector": (DPSelectKBest(2, epsilon=2.0, bounds=(-3, 3), **CLASSES), CLASS),
    "selector, private bounds": (
        DPSelectKBest(
            1, epsilon=40.0, delta=1e-6, **REGRESSION | {"bounds": {"a": (-3, 3), "b": "private", "c": (0, 1)}}
        ),
        NUMBER,
    ),
    "logistic": (DPLogisticRegression(2.0, bounds=(-3, 3), max_iter=1, **CLASSES), CLASS),
    "scaled steps": (
        DPLogisticRegression(
            Mu(9.0, delta=1e-6), max_iter=2, bounds={"a": (-3, 3), "b": (-3, 3), "c": "private"}, **CLASSES
        ),
        CLASS,
    ),
}


def released(model):
    return {name: str(value) for name, value in vars(model).items() if name.endswith("_") and name != "guarantee_"}


@pytest.mark.parametrize("case", MODELS)
def test_a_seeded_model_is_the_one_in_memory(lazy_engine, case):
    model, y = MODELS[case]
    rows = pa.Table.from_pandas(X.assign(y=y))
    expected = released(model.fit(X, y))
    model.fit(lazy_engine.frame(rows), "y")
    assert released(model) == expected
    assert model.guarantee_.scope == ("a", "b", "c", "y")


def test_target_and_persons_are_columns_of_the_table(lazy_engine):
    model = DPLinearRegression(1e6, bounds=(-3, 3), target_bounds=(-9, 9), random_state=0)
    rows = pa.Table.from_pandas(X.assign(y=NUMBER, who=np.repeat(np.arange(400), 3)))
    model.fit(lazy_engine.frame(rows.select(["y", "c", "who", "a"])), "y", groups="who")
    assert model.feature_names_in_.tolist() == ["c", "a"]
    assert model.guarantee_.scope == ("c", "a", "y")
    assert np.allclose(model.coef_, [0, 1], atol=0.5)
