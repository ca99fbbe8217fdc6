"""Principal components from noisy sums: sensitivities by brute force, charges, accuracy."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.decomposition import PCA

from skdp import DPPCA
from skdp.privacy import Mu
from tests.conftest import quick_first

rng = np.random.default_rng(0)


@pytest.mark.parametrize("delta", [1e-6, pytest.param(0.0, marks=pytest.mark.long)])
def test_error_of_a_variance_equals_the_error_of_its_noise(delta):
    """The stated error includes the error of the number of rows. No row is shortened."""
    rows = np.random.default_rng(0).choice([-1.0, 1.0], (500, 2)) * [1.0, 0.5]
    found = [DPPCA(epsilon=4.0, delta=delta, bounds=(-2, 2), random_state=seed).fit(rows) for seed in range(40)]
    values = np.array([one.explained_variance_ for one in found])
    ratios = values.std(axis=0) / np.mean([one.explained_variance_std_error_ for one in found], axis=0)
    assert ((ratios > 0.65) & (ratios < 1.35)).all(), ratios


@pytest.mark.parametrize(("n_draws", "largest"), quick_first(1, [(40, 0.25), (60, 0.25)]))
def test_shortened_rows_do_not_bias_a_variance(n_draws, largest):
    """The first variance was too small by 0.4 of its standard errors, and 0.91 of the intervals covered."""
    errors = []
    for seed in range(n_draws):
        draws = np.random.default_rng(seed)
        x = draws.uniform(0, 100, 5_000)
        rows = np.column_stack([x, 0.9 * x + draws.uniform(0, 10, 5_000), draws.uniform(0, 100, 5_000)])
        model = DPPCA(1.0, n_components=1, bounds=(0, 100), random_state=seed).fit(rows)
        errors += list(
            (model.explained_variance_ - PCA(1).fit(rows).explained_variance_) / model.explained_variance_std_error_
        )
    assert abs(np.mean(errors)) < largest


TABLE = pd.DataFrame(
    rng.normal(size=(4_000, 3)) @ [[3, 1, 0, 0], [0, 1, 2, 0], [0, 0, 0, 0.5]], columns=["a", "b", "c", "d"]
)
DECLARED = {"bounds": (-12, 12), "delta": 1e-6, "random_state": 0}


@pytest.mark.parametrize(("epsilon", "tolerance"), [(Mu(1_000, delta=1e-6), 0.02), (1e7, 0.002)])
def test_components_with_little_noise_equal_pca(epsilon, tolerance):
    table = TABLE * [1, 1, 10, 0.1] + [5, 0, 200, 1]
    bounds = np.column_stack([[-10, -12, -100, 0.5], [20, 12, 500, 1.5]])
    expected = PCA(3).fit(table)
    found = DPPCA(n_components=3, epsilon=epsilon, bounds=bounds, random_state=0).fit(table)
    signs = np.sign((expected.components_ * found.components_).sum(axis=1))[:, np.newaxis]
    assert np.allclose(found.components_ * signs, expected.components_, atol=tolerance)
    assert np.allclose(found.mean_, expected.mean_, atol=0.02)
    assert np.allclose(found.explained_variance_, expected.explained_variance_, rtol=0.02)
    assert np.allclose(found.explained_variance_ratio_, expected.explained_variance_ratio_, atol=0.001)
    assert (found.components_[range(3), np.abs(found.components_).argmax(axis=1)] > 0).all()


def test_inverse_transform_returns_the_columns_of_the_table():
    pca = DPPCA(epsilon=4.0, **DECLARED).fit(TABLE)
    scores = pca.transform(TABLE)
    assert list(scores) == list(pca.get_feature_names_out()) == ["dppca0", "dppca1", "dppca2", "dppca3"]
    assert np.allclose(pca.inverse_transform(scores), TABLE)
    assert list(pca.inverse_transform(scores)) == list(TABLE)
    some = DPPCA(n_components=2, epsilon=4.0, **DECLARED).fit(TABLE)
    assert isinstance(some.inverse_transform(some.transform(pl.DataFrame(TABLE))), pl.DataFrame)
    with pytest.raises(ValueError, match="the 2 columns of the output of transform, got 4"):
        some.inverse_transform(TABLE)


def share_of_variance(X, components):
    covariance = np.cov(np.asarray(X), rowvar=False)
    best = np.linalg.eigvalsh(covariance)[-len(components) :].sum()
    return np.trace(components @ covariance @ components.T) / best


def test_explained_variance_is_close_to_pca():
    factors = rng.normal(size=(5_000, 3)) @ rng.normal(size=(3, 20)) + rng.normal(size=(5_000, 20))
    for epsilon, delta, min_ratio in [(1.0, 1e-6, 0.98), (4.0, 0.0, 0.95)]:
        pca = DPPCA(n_components=3, epsilon=epsilon, delta=delta, bounds=(-10, 10), random_state=0).fit(factors)
        assert share_of_variance(factors, pca.components_) > min_ratio


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_few_rows_warn(delta):
    pca = DPPCA(epsilon=0.01, **DECLARED | {"delta": delta})
    with pytest.warns(UserWarning, match="Use more rows"):
        pca.fit(TABLE[:20])
    assert np.isfinite(pca.transform(TABLE)).all(axis=None)
    assert pca.explained_variance_ratio_.sum() == pytest.approx(1)  # also if noisy variances are negative
    with pytest.warns(UserWarning, match="The noise exceeds the variance of the first component"):
        DPPCA(epsilon=0.1, delta=delta, bounds=(-5, 5), random_state=0).fit(rng.normal(size=(12_000, 40)))
