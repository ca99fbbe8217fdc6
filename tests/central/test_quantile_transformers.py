"""Bins, thresholds and scales from noisy quantiles."""

import math

import numpy as np
import pytest
from sklearn.preprocessing import QuantileTransformer, RobustScaler

from skdp import DPKBinsDiscretizer, DPQuantileTransformer, DPRobustScaler
from skdp.datasets import load_adult

pytestmark = pytest.mark.usefixtures("repeatable_draws")


def test_equal_quantiles_are_one_edge():
    adult = load_adult().frame[["capital-gain", "hours-per-week"]]
    bounds = {"capital-gain": (0, 99_999), "hours-per-week": (0, 100)}
    with pytest.warns(UserWarning, match=r"Columns \['capital-gain', 'hours-per-week'\] have fewer bins"):
        fitted = DPKBinsDiscretizer(100.0, n_bins=4, bounds=bounds).fit(adult)
    assert [edges.tolist() for edges in fitted.bin_edges_] == [[0, 99_999], [0, 40, 45, 100]]
    assert fitted.n_bins_.tolist() == [1, 3]
    out = fitted.transform(adult)
    assert out["capital-gain"].unique().tolist() == [0]
    assert sorted(out["hours-per-week"].unique()) == [0, 1, 2]


def test_bin_includes_its_left_edge_and_the_last_bin_both_edges():
    fitted = DPKBinsDiscretizer(1e6, n_bins=2, bounds=(0, 10)).fit([[0.0], [5.0], [5.0], [10.0]])
    rows = [[-math.inf], [-1.0], [0.0], [4.9], [5.0], [10.0], [11.0], [math.inf]]
    assert fitted.transform(rows).ravel().tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


rng = np.random.default_rng(5)
ROWS = np.column_stack([rng.normal(50, 10, 4_000), np.where(rng.random(4_000) < 0.3, 0, rng.exponential(20, 4_000))])
BOUNDS = (0, 100)


def theirs_of(ours):
    """Return scikit-learn's transformer with the released quantiles."""
    theirs = QuantileTransformer(n_quantiles=ours.n_quantiles)
    theirs.fit(np.zeros((ours.n_quantiles, ours.n_features_in_)))
    theirs.quantiles_, theirs.references_ = ours.quantiles_, ours.references_
    return theirs


def test_transform_equals_scikit_learn_on_the_released_quantiles():
    ours = DPQuantileTransformer(5.0, n_quantiles=30, bounds=BOUNDS, random_state=0).fit(ROWS)
    theirs = theirs_of(ours)
    some = np.vstack([ROWS[:50], [[0, 0], [100, 100], [-7, 300], [math.nan, 20], [math.inf, -math.inf]]])
    finite = some[:-1]
    assert ours.transform(finite) == pytest.approx(theirs.transform(finite), nan_ok=True)
    assert ours.transform(some)[-1].tolist() == ours.transform([[100, 0]])[0].tolist()
    there = ours.transform(finite)
    assert ours.inverse_transform(there) == pytest.approx(theirs.inverse_transform(there), nan_ok=True)


def test_transform_is_close_to_scikit_learn():
    ours = DPRobustScaler(20.0, bounds=BOUNDS, random_state=0).fit(ROWS)
    theirs = RobustScaler().fit(ROWS)
    assert ours.center_ == pytest.approx(theirs.center_, abs=0.2)
    assert ours.scale_ == pytest.approx(theirs.scale_, abs=0.3)
    theirs.center_, theirs.scale_ = ours.center_, ours.scale_
    assert ours.transform(ROWS) == pytest.approx(theirs.transform(ROWS))
    assert ours.inverse_transform(ours.transform(ROWS)) == pytest.approx(ROWS)


def test_quantiles_at_a_large_epsilon_are_those_of_scikit_learn():
    ours = DPQuantileTransformer(1e6, n_quantiles=9, bounds=BOUNDS, random_state=0).fit(ROWS)
    expected = np.quantile(ROWS, ours.references_, axis=0)[1:-1]  # the ends are the bounds
    np.testing.assert_allclose(ours.quantiles_[1:-1], expected, atol=0.2)
