from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder

from skdp import DPKBinsDiscretizer
from skdp.datasets import load_adult
from tests.conftest import each


@each("n_bins", [2, 3, 10, 100])
def test_uniform_bins_are_those_of_scikit_learn_on_the_bounds(n_bins):
    rows = np.random.default_rng(0).uniform([0, -3], [10, 5], (2_000, 2))
    rows[:2] = [[0, -3], [10, 5]]
    ours = DPKBinsDiscretizer(n_bins=n_bins, strategy="uniform", bounds=[(0, 10), (-3, 5)]).fit(rows)
    theirs = KBinsDiscretizer(n_bins, strategy="uniform", encode="ordinal").fit(rows)
    assert np.array(ours.bin_edges_) == pytest.approx(np.array(theirs.bin_edges_.tolist()))
    np.testing.assert_array_equal(ours.transform(rows), theirs.transform(rows))
    assert ours.transform(rows).dtype == np.int64


def test_quantile_bins_hold_as_many_values_each():
    rows = np.random.default_rng(0).lognormal(3, 1, (30_000, 2))
    fitted = DPKBinsDiscretizer(4.0, n_bins=4, bounds=(0, 1000), candidates=100_000).fit(rows)
    assert all(edges[0] == 0 and edges[-1] == 1000 for edges in fitted.bin_edges_)
    for column in fitted.transform(rows).T:
        assert np.bincount(column) / len(rows) == pytest.approx([0.25] * 4, abs=0.005)


def test_quantiles_that_fall_together_are_one_edge():
    adult = load_adult().frame[["capital-gain", "hours-per-week"]]
    bounds = {"capital-gain": (0, 99_999), "hours-per-week": (0, 100)}
    fitted = DPKBinsDiscretizer(100.0, n_bins=4, bounds=bounds).fit(adult)
    assert [edges.tolist() for edges in fitted.bin_edges_] == [[0, 99_999], [0, 40, 45, 100]]
    assert fitted.n_bins_.tolist() == [1, 3]
    out = fitted.transform(adult)
    assert out["capital-gain"].unique().tolist() == [0]
    assert sorted(out["hours-per-week"].unique()) == [0, 1, 2]


def test_a_bin_holds_its_left_edge_and_the_last_one_its_right_too():
    fitted = DPKBinsDiscretizer(n_bins=2, strategy="uniform", bounds=(0, 10)).fit([[1.0]])
    rows = [[-math.inf], [-1.0], [0.0], [4.9], [5.0], [10.0], [11.0], [math.inf]]
    assert fitted.transform(rows).ravel().tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_one_hot_is_that_of_the_ordinal_bins():
    rows = np.random.default_rng(0).uniform(0, 100, (500, 2))
    parameters = {"n_bins": 3, "bounds": (0, 100), "random_state": 0}
    ordinal = DPKBinsDiscretizer(**parameters).fit_transform(rows)
    wide = DPKBinsDiscretizer(encode="onehot-dense", **parameters).fit(rows)
    assert wide.get_feature_names_out().tolist() == ["x0_0", "x0_1", "x0_2", "x1_0", "x1_1", "x1_2"]
    out = wide.transform(rows)
    assert out.dtype == np.int8
    np.testing.assert_array_equal(out, OneHotEncoder(sparse_output=False).fit_transform(ordinal))


def test_names_of_bins():
    frame = pd.DataFrame({"age": [1, 2], "hours": [3, 4]})
    fitted = DPKBinsDiscretizer(n_bins=2, strategy="uniform", encode="onehot-dense", bounds=(0, 10)).fit(frame)
    names = ["age_0", "age_1", "hours_0", "hours_1"]
    assert fitted.get_feature_names_out().tolist() == names == fitted.transform(frame).columns.tolist()
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        fitted.get_feature_names_out(["a", "b"])
    assert fitted.set_params(encode="ordinal").get_feature_names_out().tolist() == ["age", "hours"]


def test_what_is_missing_stays_missing():
    frame = pl.DataFrame({"age": [20.0, None, 60.0, float("nan")]})
    parameters = {"n_bins": 2, "strategy": "uniform", "bounds": (0, 100)}
    assert DPKBinsDiscretizer(**parameters).fit_transform(frame)["age"].to_list() == [0, None, 1, None]
    wide = DPKBinsDiscretizer(encode="onehot-dense", **parameters).fit_transform(frame)
    assert wide.rows() == [(1, 0), (0, 0), (0, 1), (0, 0)]
