"""What models of a target share: persons with several rows, private bounds, tables that are not loaded."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import DPLinearRegression, DPLogisticRegression, DPRidge, PrivacyLedger
from skdp.privacy import Mu, Rho
from tests.conftest import each

rng = np.random.default_rng(0)
NAMES = ["a", "b", "c"]
X = pd.DataFrame(rng.normal(size=(1_200, 3)).clip(-3, 3), columns=NAMES)
NUMBER = pd.Series(X.to_numpy() @ [1.0, -2.0, 0.0] + rng.normal(size=1_200), name="y")
CLASS = pd.Series((NUMBER > 0).map({True: "ill", False: "fine"}), name="y")
WHO = np.repeat(np.arange(400), 3)
REGRESSION = {"bounds": (-3, 3), "target_bounds": (-9, 9), "random_state": 0}
CLASSES = {"bounds": (-3, 3), "classes": ["ill", "fine"], "random_state": 0}
MODELS = [
    (DPLinearRegression(2.0, **REGRESSION), NUMBER),
    (DPRidge(2.0, delta=1e-6, **REGRESSION), NUMBER),
    (DPLogisticRegression(2.0, max_iter=3, **CLASSES), CLASS),
]


class TestLargeTables:
    @each(
        "model frame y error message",
        [
            (0, X.assign(y=NUMBER), None, ValueError, "requires y"),
            (0, X.assign(y=NUMBER), NUMBER, TypeError, "y must be the name of a column of X, as X is a large table"),
            (0, X.assign(y=NUMBER), "z", ValueError, "y must be the name of a column of X, got 'z'"),
            (0, X[["a"]], "a", ValueError, "X has no column beside 'a', which is y"),
            (0, X.assign(y=NUMBER.mask(NUMBER > 3)), "y", ValueError, "column 'y' holds a missing value"),
            (
                1,
                X.assign(y=NUMBER, a=np.where(X["a"] > 2, np.inf, X["a"])),
                "y",
                ValueError,
                "column 'a' holds a missing",
            ),
            (2, X.assign(y=CLASS.mask(NUMBER > 3)), "y", ValueError, "y holds a missing value, or one that classes"),
            (
                2,
                X.assign(y=CLASS.mask(NUMBER > 3, "dead")),
                "y",
                ValueError,
                "y holds a missing value, or one that cla",
            ),
            (2, X.assign(y=CLASS, b=X["b"].mask(NUMBER > 3)), "y", ValueError, "column 'b' holds a missing value"),
        ],
    )
    def test_mistakes_cost_nothing(self, model, frame, y, error, message):
        ledger = PrivacyLedger(epsilon=10, delta=1e-3)
        with pytest.raises(error, match=message):
            MODELS[model][0].set_params(ledger=ledger).fit(pl.from_pandas(frame).lazy(), y)
        assert ledger.spent == (0, 0)

    def test_classes_are_declared(self):
        frame = pl.from_pandas(X.assign(y=CLASS))
        with pytest.raises(ValueError, match=r"the categories of 'y' must be declared: .* set classes="):
            DPLogisticRegression(bounds=(-3, 3)).fit(frame.lazy(), "y")
        by_dtype = frame.with_columns(pl.col("y").cast(pl.Enum(["ill", "fine"])))
        model = DPLogisticRegression(bounds=(-3, 3), max_iter=3, random_state=0).fit(by_dtype.lazy(), "y")
        assert model.classes_.tolist() == ["fine", "ill"]


class TestBounds:
    @pytest.mark.parametrize("epsilon", [4.0, Rho(0.4, delta=1e-6), Mu(1.0, delta=1e-6)])
    def test_private_bounds_take_their_share(self, epsilon):
        ledger = PrivacyLedger(epsilon=20, delta=1e-3)
        model = DPLinearRegression(epsilon, bounds="private", target_bounds=(-9, 9), random_state=0, ledger=ledger)
        model.fit(pd.concat([X] * 4), np.tile(NUMBER, 4))
        assert model.bounds_.shape == (4, 2)
        assert (np.abs(model.bounds_[:3]) <= 8).all()
        assert model.bounds_[3].tolist() == [-9, 9]
        assert np.allclose(model.coef_, [1, -2, 0], atol=0.5)
        assert "on counts for bounds" in model.guarantee_.mechanism
        assert ledger.spent.epsilon == pytest.approx(model.guarantee_.epsilon)
        if epsilon != 4.0:
            assert model.guarantee_.rho <= 0.5 * (1 + 1e-9)


class Telling:
    """An object whose errors hold a value."""

    def __ne__(self, other):
        raise ValueError("a secret")


def test_no_error_of_a_target_that_is_read_shows_a_value():
    y = np.array([0, Telling(), 1, 1], object)
    with pytest.raises(ValueError, match=r"Unknown label type: y cannot be read \(ValueError\); declare") as caught:
        DPLogisticRegression(bounds=(0, 1)).fit(np.eye(4), y)
    assert "secret" not in repr(caught.value.__context__)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_a_target_may_have_the_name_of_the_column_that_it_is_computed_from(library):
    """As in ``y = X["a"] > 0``."""
    frame = library({"a": [0.5, -1.0, 2.0] * 20, "b": [0.1, 0.2, 0.3] * 20})
    model = DPLogisticRegression(50.0, classes=[False, True], bounds=(-3, 3), max_iter=3, random_state=0)
    model.fit(frame, frame["a"] > 0)
    assert model.guarantee_.scope == ("a", "b", "target")
    assert len(model.predict(frame)) == 60
