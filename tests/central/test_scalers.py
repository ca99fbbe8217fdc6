"""Noisy means; scaling by means and variances, and by noisy or public bounds."""

import math

import numpy as np
import polars as pl
import pytest
from sklearn.preprocessing import MinMaxScaler

from skdp import DPMinMaxScaler, DPStandardScaler
from tests.conftest import often

pytestmark = [
    pytest.mark.filterwarnings("ignore:Columns .* have dtype object:UserWarning"),
    pytest.mark.usefixtures("repeatable_draws"),
]


def fits(kind, X, repeats, **parameters):
    return [kind(random_state=seed, **parameters).fit(X) for seed in range(repeats)]


@pytest.mark.parametrize("epsilon", often([1.0, 5.0, 25.0], [5.0]))
def test_error_of_the_scale_covers_columns_of_any_variance(epsilon):
    """A coverage of 0.935 fails with probability below 1e-6."""
    constant, odd = np.full(2000, 5.0), np.r_[np.full(1998, 0.0), [10.0, 10.0]]
    ordinary = np.random.default_rng(0).exponential(1, 2000).clip(0, 10)
    X = np.column_stack([constant, np.full(2000, 10.0), odd, 5 + (ordinary - 5) / 20, ordinary])
    runs = fits(DPStandardScaler, X, 400, epsilon=epsilon, bounds=(0, 10))
    covers = [np.abs(run.scale_ - X.std(axis=0)) <= 1.96 * run.scale_std_error_ for run in runs]
    assert (np.mean(covers, axis=0) >= 0.875).all()


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_tables_without_rows_or_with_one_row_are_supported(rows):
    for seed in range(20):
        scaler = DPStandardScaler(0.5, bounds=(-5, 5), random_state=seed)
        with pytest.warns(UserWarning, match=r"exceeds the variance of \['x0', 'x1'\]"):
            scaler.fit(np.full((rows, 2), 3.0))
        assert (np.abs(scaler.mean_) <= 5).all()
        assert scaler.scale_ == pytest.approx(10 / math.sqrt(12))
        assert scaler.noise_exceeds_variance_.all()
        assert (scaler.mean_std_error_ > 0).all()


ATTRIBUTES = ["data_min_", "data_max_", "data_range_", "scale_", "min_"]


@pytest.fixture
def rows():
    return np.random.default_rng(0).uniform([0, -3], [10, 5], (2_000, 2))


def test_transform_with_bounds_equals_scikit_learn(rows):
    ours = DPMinMaxScaler(bounds=[(0, 10), (-3, 5)]).fit(rows)
    theirs = MinMaxScaler().fit([[0, -3], [10, 5]])
    for name in ATTRIBUTES:
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name))
    wider = 2 * rows
    assert ours.transform(wider) == pytest.approx(theirs.transform(wider))
    assert ours.inverse_transform(ours.transform(rows)) == pytest.approx(rows)


def test_transform_with_quantiles_equals_scikit_learn(rows):
    ours = DPMinMaxScaler(2.0, bounds=(-100, 100), quantile_range=(10, 90)).fit(rows)
    assert ours.data_min_ == pytest.approx(np.quantile(rows, 0.1, axis=0), abs=0.3)
    assert ours.data_max_ == pytest.approx(np.quantile(rows, 0.9, axis=0), abs=0.3)
    theirs = MinMaxScaler().fit([ours.data_min_, ours.data_max_])
    for name in ATTRIBUTES:
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name))
    assert ours.transform(rows) == pytest.approx(theirs.transform(rows))


def test_scaling_keeps_missing_values():
    frame = pl.DataFrame({"age": [-5.0, None, 50.0, float("inf"), float("nan")]})
    assert DPMinMaxScaler(bounds=(0, 100)).fit_transform(frame)["age"].to_list() == [-0.05, None, 0.5, math.inf, None]


def test_equal_quantiles_are_supported():
    fitted = DPMinMaxScaler(1e6, bounds=(0, 10), quantile_range=(20, 80)).fit(np.full((100, 1), 3))
    assert (fitted.data_range_.item(), fitted.scale_.item()) == (0, 1)
    assert fitted.transform([[3], [4]]).ravel().tolist() == [0, 1]
