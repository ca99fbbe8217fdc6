"""Scaling by noisy means and variances, and by noisy quantiles or public bounds; bins between noisy quantiles."""

import math

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer, RobustScaler
from sklearn.utils import get_tags

from skdp import (
    DPKBinsDiscretizer,
    DPMinMaxScaler,
    DPOneHotEncoder,
    DPQuantileTransformer,
    DPRobustScaler,
    DPStandardScaler,
    DPTargetEncoder,
)
from skdp.datasets import load_adult
from tests.conftest import often

pytestmark = pytest.mark.filterwarnings("ignore:Columns .* have dtype object:UserWarning")


def fits(kind, X, repeats, **parameters):
    return [kind(random_state=seed, **parameters).fit(X) for seed in range(repeats)]


@pytest.mark.usefixtures("few_cells")
@pytest.mark.parametrize("epsilon", often([1.0, 5.0, 25.0], [5.0]))
def test_error_of_the_scale_covers_columns_of_any_variance(epsilon):
    """The scale is of the numbers limited to `bounds_`; a coverage of 0.935 fails with probability below 1e-6."""
    constant, odd = np.full(2000, 5.0), np.r_[np.full(1998, 0.0), [10.0, 10.0]]
    ordinary = np.random.default_rng(0).exponential(1, 2000).clip(0, 10)
    X = np.column_stack([constant, np.full(2000, 10.0), odd, 5 + (ordinary - 5) / 20, ordinary])
    runs = fits(DPStandardScaler, X, 60, epsilon=epsilon, bounds=(0, 10))
    scales = [np.clip(X, *run.bounds_.T).std(axis=0) for run in runs]
    covers = [np.abs(run.scale_ - true) <= 1.96 * run.scale_std_error_ for run, true in zip(runs, scales, strict=True)]
    assert (np.mean(covers, axis=0) >= 0.73).all()


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_tables_without_rows_or_with_one_row_are_supported(rows):
    exceeds = []
    for seed in range(8):
        scaler = DPStandardScaler(0.5, bounds=(-5, 5), random_state=seed)
        with pytest.warns(UserWarning, match="exceeds the variance of"):
            scaler.fit(np.full((rows, 2), 3.0))
        assert (np.abs(scaler.mean_) <= 5).all()
        is_noise = scaler.noise_exceeds_variance_
        widths = np.diff(scaler.bounds_[is_noise])[:, 0]
        assert scaler.scale_[is_noise] == pytest.approx(widths / math.sqrt(12))
        assert (scaler.mean_std_error_ > 0).all()
        exceeds += [*is_noise]
    # A noisy number of rows may be large for its noise.
    assert np.mean(exceeds) >= 0.9


ATTRIBUTES = ["data_min_", "data_max_", "data_range_", "scale_", "min_"]


@pytest.fixture
def rows():
    return np.random.default_rng(0).uniform([0, -3], [10, 5], (2_000, 2))


@pytest.mark.parametrize("feature_range", [(0, 1), (-1, 1), (2.5, 10)])
@pytest.mark.parametrize("clip", [False, True])
def test_transform_with_bounds_equals_scikit_learn(rows, feature_range, clip):
    ours = DPMinMaxScaler(feature_range=feature_range, bounds=[(0, 10), (-3, 5)], clip=clip).fit(rows)
    theirs = MinMaxScaler(feature_range=feature_range, clip=clip).fit([[0, -3], [10, 5]])
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


def test_clipping_keeps_missing_values():
    frame = pl.DataFrame({"age": [-5.0, None, 50.0, float("inf"), float("nan")]})
    fitted = DPMinMaxScaler(bounds=(0, 100), clip=True).fit(frame)
    assert fitted.transform(frame)["age"].to_list() == [0, None, 0.5, 1, None]
    assert DPMinMaxScaler(bounds=(0, 100)).fit_transform(frame)["age"].to_list() == [-0.05, None, 0.5, math.inf, None]


def test_equal_quantiles_are_supported():
    fitted = DPMinMaxScaler(1e6, bounds=(0, 10), quantile_range=(20, 80)).fit(np.full((100, 1), 3))
    assert (fitted.data_range_.item(), fitted.scale_.item()) == (0, 1)
    assert fitted.transform([[3], [4]]).ravel().tolist() == [0, 1]


@pytest.mark.filterwarnings("ignore:The noise exceeds:UserWarning")
@pytest.mark.parametrize(
    "scaler", [DPRobustScaler(bounds=(0, 10_000)), DPMinMaxScaler(bounds=(0, 10_000), quantile_range=(1, 75))]
)
def test_scale_of_a_column_of_zeros_and_amounts_is_not_tiny(scaler):
    """In 8 of 30 fits, an upper quartile between 0 and the amounts, such as 1e-6, scaled them to 1e9."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((1000, 1)) < 0.8, 0, rng.lognormal(5, 1, (1000, 1)))
    scales = [clone(scaler).set_params(random_state=seed).fit_transform(X).max() for seed in range(30)]
    assert max(scales) < 1e5
    assert np.median(scales) == pytest.approx(X.max())  # the quartiles are 0


def test_quantile_beside_zero_warns_that_it_may_be_noise():
    X = np.repeat([[0.0], [100.0]], [76, 24], axis=0)
    with pytest.warns(UserWarning, match="The noise exceeds the range of quantiles of columns"):
        fits(DPRobustScaler, X, 20, epsilon=0.2, bounds=(0, 1e9))


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
WIDE = (0, 100)


def theirs_of(ours):
    """Return scikit-learn's transformer with the released quantiles."""
    theirs = QuantileTransformer(n_quantiles=ours.n_quantiles, output_distribution=ours.output_distribution)
    theirs.fit(np.zeros((ours.n_quantiles, ours.n_features_in_)))
    theirs.quantiles_, theirs.references_ = ours.quantiles_, ours.references_
    return theirs


@pytest.mark.parametrize("output_distribution", ["uniform", "normal"])
def test_transform_equals_scikit_learn_on_the_released_quantiles(output_distribution):
    ours = DPQuantileTransformer(
        5.0, n_quantiles=30, output_distribution=output_distribution, bounds=WIDE, random_state=0
    ).fit(ROWS)
    theirs = theirs_of(ours)
    some = np.vstack([ROWS[:50], [[0, 0], [100, 100], [-7, 300], [math.nan, 20], [math.inf, -math.inf]]])
    finite = some[:-1]
    assert ours.transform(finite) == pytest.approx(theirs.transform(finite), nan_ok=True)
    assert ours.transform(some)[-1].tolist() == ours.transform([[100, 0]])[0].tolist()
    there = ours.transform(finite)
    assert ours.inverse_transform(there) == pytest.approx(theirs.inverse_transform(there), nan_ok=True)


@pytest.mark.parametrize("quantile_range", [(25.0, 75.0), (10, 50)])
def test_transform_is_close_to_scikit_learn(quantile_range):
    ours = DPRobustScaler(20.0, bounds=WIDE, quantile_range=quantile_range, random_state=0).fit(ROWS)
    theirs = RobustScaler(quantile_range=quantile_range).fit(ROWS)
    assert ours.center_ == pytest.approx(theirs.center_, abs=0.2)
    assert ours.scale_ == pytest.approx(theirs.scale_, abs=0.3)
    theirs.center_, theirs.scale_ = ours.center_, ours.scale_
    assert ours.transform(ROWS) == pytest.approx(theirs.transform(ROWS))
    assert ours.inverse_transform(ours.transform(ROWS)) == pytest.approx(ROWS)


def test_quantiles_at_a_large_epsilon_are_those_of_scikit_learn():
    ours = DPQuantileTransformer(1e6, n_quantiles=9, bounds=WIDE, random_state=0).fit(ROWS)
    expected = np.quantile(ROWS, ours.references_, axis=0)[1:-1]  # the ends are the bounds
    np.testing.assert_allclose(ours.quantiles_[1:-1], expected, atol=0.2)


@pytest.mark.parametrize("transformer", [DPKBinsDiscretizer(), DPOneHotEncoder(), DPTargetEncoder()])
def test_transformers_of_codes_state_that_they_preserve_no_dtype(transformer):
    assert get_tags(transformer).transformer_tags.preserves_dtype == []
