from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import DPSimpleImputer, Interval
from tests.conftest import each

NUMERIC = ["mean", "median"]


def table(n, seed=0):
    """Two columns with gaps; their middles are at about 30 and 60."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.beta(3, 7, n), rng.beta(6, 4, n)]) * 100
    X[rng.random(X.shape) < 0.3] = np.nan
    return X


class TestMostFrequent:
    def test_missing_is_never_the_most_frequent(self):
        frame = pd.DataFrame({"a": ["x", None, None, None]})
        imputer = DPSimpleImputer(50.0, strategy="most_frequent", categories={"a": [None, "x"]})
        assert imputer.fit_transform(frame)["a"].tolist() == ["x"] * 4
        with pytest.raises(ValueError, match="must declare a value other than missing for column 'a'"):
            imputer.set_params(categories={"a": [None]}, handle_unknown="ignore").fit(frame)

    def test_the_middle_of_a_bin(self):
        X = np.array([[1.0], [12.0], [13.0], [np.nan]] * 50)
        imputer = DPSimpleImputer(50.0, strategy="most_frequent", categories=Interval(0, 20, bins=4)).fit(X)
        assert imputer.statistics_.tolist() == [12.5]
        assert imputer.transform(X)[:4].tolist() == [[1.0], [12.0], [13.0], [12.5]]


class TestNumbers:
    @each("bounds", [(0, 100), (-3.5, 250.25), (0, 12_345), (1, 98)])
    def test_medians(self, bounds):
        X = table(3000).round()
        imputer = DPSimpleImputer(20.0, strategy="median", bounds=bounds).fit(X)
        step = (bounds[1] - bounds[0]) / 10_000
        assert imputer.statistics_ == pytest.approx(np.nanmedian(X, axis=0), abs=1 + 2 * step)
        if bounds in [(0, 100), (1, 98)]:
            assert imputer.statistics_.tolist() == np.nanmedian(X, axis=0).tolist()

    @pytest.mark.parametrize("strategy", NUMERIC)
    def test_only_gaps_are_filled(self, strategy):
        X = table(300)
        imputer = DPSimpleImputer(strategy=strategy, bounds=(0, 100)).fit(X)
        before = X.copy()
        out = imputer.transform(X)
        np.testing.assert_array_equal(X, before)
        gaps = np.isnan(X)
        np.testing.assert_array_equal(out[~gaps], X[~gaps])
        np.testing.assert_array_equal(out[gaps], np.broadcast_to(imputer.statistics_, X.shape)[gaps])
        outside = np.array([[-5.0, np.inf]])  # what is there stays, clipped or not
        np.testing.assert_array_equal(imputer.transform(outside), outside)


def test_a_column_that_cannot_be_filled_is_named_without_its_values():
    fitted = DPSimpleImputer(strategy="most_frequent", categories={"a": ["x", "y"]}).fit(pd.DataFrame({"a": ["x"]}))
    frame = pl.DataFrame({"a": pl.Series([object(), None], dtype=pl.Object)})
    with pytest.raises(ValueError, match=r"Missing values of column 'a' cannot be replaced \(\w+\)\. Convert"):
        fitted.transform(frame)
