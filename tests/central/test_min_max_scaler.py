from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.preprocessing import MinMaxScaler

from skdp import DPMinMaxScaler

ATTRIBUTES = ["data_min_", "data_max_", "data_range_", "scale_", "min_"]


@pytest.fixture
def rows():
    return np.random.default_rng(0).uniform([0, -3], [10, 5], (2_000, 2))


@pytest.mark.parametrize("feature_range", [(0, 1), (-1, 1), (2.5, 10)])
@pytest.mark.parametrize("clip", [False, True])
def test_with_bounds_it_is_scikit_learns_on_the_bounds(rows, feature_range, clip):
    ours = DPMinMaxScaler(feature_range=feature_range, bounds=[(0, 10), (-3, 5)], clip=clip).fit(rows)
    theirs = MinMaxScaler(feature_range=feature_range, clip=clip).fit([[0, -3], [10, 5]])
    for name in ATTRIBUTES:
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name))
    wider = 2 * rows
    assert ours.transform(wider) == pytest.approx(theirs.transform(wider))
    assert ours.inverse_transform(ours.transform(rows)) == pytest.approx(rows)


def test_with_quantiles_it_is_scikit_learns_on_the_released_ones(rows):
    ours = DPMinMaxScaler(2.0, bounds=(-100, 100), quantile_range=(0.1, 0.9)).fit(rows)
    assert ours.data_min_ == pytest.approx(np.quantile(rows, 0.1, axis=0), abs=0.3)
    assert ours.data_max_ == pytest.approx(np.quantile(rows, 0.9, axis=0), abs=0.3)
    theirs = MinMaxScaler().fit([ours.data_min_, ours.data_max_])
    for name in ATTRIBUTES:
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name))
    assert ours.transform(rows) == pytest.approx(theirs.transform(rows))


def test_clipping_keeps_what_is_missing():
    frame = pl.DataFrame({"age": [-5.0, None, 50.0, float("inf"), float("nan")]})
    fitted = DPMinMaxScaler(bounds=(0, 100), clip=True).fit(frame)
    assert fitted.transform(frame)["age"].to_list() == [0, None, 0.5, 1, None]
    assert DPMinMaxScaler(bounds=(0, 100)).fit_transform(frame)["age"].to_list() == [-0.05, None, 0.5, math.inf, None]


def test_quantiles_that_fall_together():
    fitted = DPMinMaxScaler(1e6, bounds=(0, 10), quantile_range=(0.2, 0.8)).fit(np.full((100, 1), 3))
    assert (fitted.data_range_.item(), fitted.scale_.item()) == (0, 1)
    assert fitted.transform([[3], [4]]).ravel().tolist() == [0, 1]


class TestInverse:
    def test_takes_any_frame_or_array(self, make_frame, values_of):
        frame = make_frame({"age": [17, 38, 90], "hours": [40, 35, 99]})
        fitted = DPMinMaxScaler(bounds=(0, 128)).fit(frame)
        back = fitted.inverse_transform(fitted.transform(frame))
        assert type(back) is type(frame)
        assert values_of(back, "age") == [17, 38, 90]
        array = fitted.inverse_transform([[0.5, 0.25]])
        assert array.tolist() == [[64, 32]]

    def test_is_for_the_same_columns(self):
        fitted = DPMinMaxScaler(bounds=(0, 1)).fit(pd.DataFrame({"a": [0.5], "b": [1]}))
        with pytest.raises(ValueError, match="X has 1 features; transform makes 2"):
            fitted.inverse_transform([[0.5]])
        with pytest.raises(ValueError, match="X has the columns"):
            fitted.inverse_transform(pd.DataFrame({"b": [0.5], "a": [1]}))
