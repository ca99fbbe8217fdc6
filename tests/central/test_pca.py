"""Principal components from noisy sums: sensitivities by brute force, what is spent, and what is found."""

from __future__ import annotations

import itertools
import threading
from contextlib import nullcontext
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdp import DPPCA, DPLinearRegression, PrivacyLedger, privacy_statement
from skdp.base import read_numbers, together
from skdp.central import _pca
from skdp.central._pca import _noise_of_products
from skdp.central.statistics import UNIT, Rows, _noise, _rows, find_limits
from skdp.frames import read_table
from skdp.privacy import Mu, Rho, read_share
from skdp.randomness import SeededSource
from tests.conftest import each

rng = np.random.default_rng(0)
GRID = np.array(list(itertools.product([-1.0, -0.3, 1.0], [-4.0, 1.7, 4.0], [-1.0, 0.7, 1.0])))
ENDS = np.array([[-1.0, 1.0], [-4.0, 4.0], [-1.0, 1.0]])
UNITS = np.array([2.0, 4.0, 2.0])  # the roots of the half widths, times that of the largest


def placed(values, units=UNITS):
    return Rows.of(list(values.T), ENDS, np.zeros(3), np.zeros(len(values), int), units)


@pytest.mark.parametrize("delta", [1e-6, pytest.param(None, marks=pytest.mark.long)])
def test_the_error_of_a_variance_is_that_of_its_noise(delta):
    """That of the number of rows included; none of these rows is long."""
    rows = np.random.default_rng(0).choice([-1.0, 1.0], (500, 2)) * [1.0, 0.5]
    found = [DPPCA(epsilon=4.0, delta=delta, bounds=(-2, 2), random_state=seed).fit(rows) for seed in range(80)]
    values = np.array([one.explained_variance_ for one in found])
    ratios = values.std(axis=0) / np.mean([one.explained_variance_std_error_ for one in found], axis=0)
    assert ((ratios > 0.75) & (ratios < 1.25)).all(), ratios


class TestSensitivity:
    def test_the_units_of_columns_limit_their_places(self):
        rows = placed(GRID)
        assert (np.abs(rows.places).max(axis=0) == rows.most).all()
        assert rows.square == rows.squares.max() == UNIT**2 * 1.5
        middle = np.array([UNIT // 2, 1 - UNIT, -17], np.int16)
        moved = rows.centred(middle)
        assert moved.square == moved.squares.max()

    @pytest.mark.parametrize("middle", [(0, 0, 0), (UNIT // 2, UNIT - 1, -300)])
    @pytest.mark.parametrize("limit", [UNIT**2 // 3, None])
    @pytest.mark.parametrize("constant", [UNIT // 4, 2 * UNIT])
    def test_a_row_changes_sums_by_no_more_than_is_paid_for(self, middle, limit, constant, monkeypatch):
        monkeypatch.setattr(_rows, "_BLOCK", 7)  # a row in front moves all others to another place of a block
        middle, share = np.array(middle, np.int16), read_share(1.0)
        whole = placed(GRID).centred(middle)
        limit = whole.square if limit is None else limit
        sums = whole.shortened(limit, constant, codes=False)
        pure = _noise_of_products(share, 4, limit + constant**2, 2 * UNIT).sensitivity
        gaussian = _noise_of_products(read_share(Mu(1, delta=1e-6)), 4, limit + constant**2, 2 * UNIT).square
        changes = []
        for place in range(len(GRID)):
            fewer = placed(np.delete(GRID, place, axis=0)).centred(middle).shortened(limit, constant, codes=False)
            change = (sums - fewer)[np.triu_indices(4)].astype(object)
            changes.append((np.abs(change).sum(), (change**2).sum()))
        largest = np.max(changes, axis=0)
        assert largest[0] <= pure
        assert largest[1] <= gaussian
        assert largest[0] > 0.4 * pure
        assert largest[1] > 0.4 * gaussian

    def test_the_constant_counts_among_the_values_of_a_row(self, monkeypatch):
        asked, whole, limits, shortened = [], _pca._noise_of_products, [], Rows.shortened
        monkeypatch.setattr(_pca, "_noise_of_products", lambda *what: asked.append(what) or whole(*what))
        monkeypatch.setattr(Rows, "shortened", lambda rows, **of: limits.append(of) or shortened(rows, **of))
        X = np.sign(rng.normal(size=(60, 100)))
        DPPCA(1, epsilon=Mu(30, delta=1e-6), bounds=(-1, 1), random_state=0).fit(X)
        _, _, square, largest = asked[-1]
        assert square == limits[0]["square"] + limits[0]["constant"] ** 2 > (8 * UNIT) ** 2
        assert largest**2 >= 0.99 * square / 17  # the norm of a row is four times the constant

    def test_the_noise_of_the_mean_covers_any_row(self, monkeypatch):
        asked, whole = [], _rows.integer_noise
        monkeypatch.setattr(_rows, "integer_noise", lambda *what: asked.append(what) or whole(*what))
        rows = placed(np.tile(GRID, (20, 1)), None)
        find_limits(rows, read_share(1e6), 0.5, SeededSource(0), centred=True)
        (_, (_, sensitivity, square)) = asked
        changes = [placed(GRID[[place]], None).total(square).tolist() for place in range(len(GRID))]
        assert 0.9 * sensitivity < max(sum(map(abs, change)) for change in changes) <= sensitivity
        assert 0.9 * square < max(sum(one**2 for one in change) for change in changes) <= square
        fewer = placed(np.delete(np.tile(GRID, (20, 1)), 5, axis=0), None).total(square)
        assert (np.array(rows.total(square)) - fewer).tolist() == changes[5]


TABLE = pd.DataFrame(
    rng.normal(size=(4_000, 3)) @ [[3, 1, 0, 0], [0, 1, 2, 0], [0, 0, 0, 0.5]], columns=["a", "b", "c", "d"]
)
DECLARED = {"bounds": (-12, 12), "delta": 1e-6, "random_state": 0}


@pytest.mark.parametrize("epsilon", [Rho(0.1, delta=1e-6), Mu(0.3, delta=1e-6), 0.7])
def test_gaussian_draws_spend_what_is_given(epsilon, monkeypatch):
    drawn, whole = [], _noise.GaussianNoise.draw
    monkeypatch.setattr(
        _noise.GaussianNoise, "draw", lambda self, *more: drawn.append((self, more[1])) or whole(self, *more)
    )
    delta = 1e-6 if isinstance(epsilon, float) else None
    pca = DPPCA(epsilon=epsilon, **DECLARED | {"delta": delta}).fit(TABLE)
    assert [size for _, size in drawn] == [24, 4, 24, 15]
    given = Mu.of(epsilon, 1e-6) if isinstance(epsilon, float) else epsilon
    spent = sum(noise.mu_squared for noise, _ in drawn)
    assert spent == (2 * Fraction(given.rho) if isinstance(given, Rho) else Fraction(given.mu) ** 2)
    assert pca.guarantee_.rho == pytest.approx(float(spent) / 2)


@pytest.mark.parametrize("bounds", [(-12, 12), "private"])
def test_pure_draws_spend_what_is_given(bounds, monkeypatch):
    drawn, whole = [], _noise.LaplaceNoise.draw
    monkeypatch.setattr(
        _noise.LaplaceNoise, "draw", lambda self, *more: drawn.append((self, more[1])) or whole(self, *more)
    )
    pca = DPPCA(epsilon=30.0, **DECLARED | {"delta": None, "bounds": bounds}).fit(TABLE)
    # Of each look for bounds, the four columns are drawn by themselves.
    assert sum(noise.epsilon / (4 if size > 1000 else 1) for noise, size in drawn) == 30
    assert all(noise.sensitivity == 4 for noise, size in drawn if size > 1000)
    assert (pca.guarantee_.epsilon, pca.guarantee_.delta) == (30, 0)


@pytest.mark.parametrize(("epsilon", "tolerance"), [(Mu(1_000, delta=1e-6), 0.02), (1e7, 0.002)])
def test_with_little_noise_it_is_principal_component_analysis(epsilon, tolerance):
    table = TABLE * [1, 1, 10, 0.1] + [5, 0, 200, 1]
    bounds = np.column_stack([[-10, -12, -100, 0.5], [20, 12, 500, 1.5]])
    wanted = PCA(3).fit(table)
    found = DPPCA(3, epsilon=epsilon, bounds=bounds, random_state=0).fit(table)
    signs = np.sign((wanted.components_ * found.components_).sum(axis=1))[:, np.newaxis]
    assert np.allclose(found.components_ * signs, wanted.components_, atol=tolerance)
    assert np.allclose(found.mean_, wanted.mean_, atol=0.02)
    assert np.allclose(found.explained_variance_, wanted.explained_variance_, rtol=0.02)
    assert np.allclose(found.explained_variance_ratio_, wanted.explained_variance_ratio_, atol=0.001)
    assert (found.components_[range(3), np.abs(found.components_).argmax(axis=1)] > 0).all()


def test_the_number_of_components_may_be_a_share_of_the_variance():
    sizes = {share: DPPCA(share, epsilon=4.0, **DECLARED).fit(TABLE).n_components_ for share in (0.5, 0.9, 0.9999)}
    assert sizes[0.5] == 1 < sizes[0.9] <= sizes[0.9999]
    assert DPPCA(epsilon=4.0, **DECLARED).fit(TABLE).n_components_ == 4


@pytest.mark.parametrize("whiten", [False, True])
def test_transform_is_undone_and_names_its_columns(whiten):
    pca = DPPCA(epsilon=4.0, **DECLARED, whiten=whiten).fit(TABLE)
    scores = pca.transform(TABLE)
    assert list(scores) == list(pca.get_feature_names_out()) == ["dppca0", "dppca1", "dppca2", "dppca3"]
    assert np.allclose(pca.inverse_transform(scores), TABLE)
    assert list(pca.inverse_transform(scores)) == list(TABLE)
    if whiten:
        assert np.allclose(scores.iloc[:, :2].std(), 1, atol=0.1)
    some = DPPCA(2, epsilon=4.0, **DECLARED).fit(TABLE)
    assert isinstance(some.inverse_transform(some.transform(pl.DataFrame(TABLE))), pl.DataFrame)
    with pytest.raises(ValueError, match="X has 4 features; transform makes 2"):
        some.inverse_transform(TABLE)


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_a_lazy_frame_gives_the_same(delta):
    wanted = DPPCA(2, epsilon=2.0, **DECLARED | {"delta": delta}).fit(TABLE)
    found = DPPCA(2, epsilon=2.0, **DECLARED | {"delta": delta}).fit(pl.LazyFrame(TABLE))
    assert (found.components_ == wanted.components_).all()
    assert (found.mean_ == wanted.mean_).all()


def share_of_variance(X, components):
    covariance = np.cov(np.asarray(X), rowvar=False)
    best = np.linalg.eigvalsh(covariance)[-len(components) :].sum()
    return np.trace(components @ covariance @ components.T) / best


def test_it_explains_nearly_as_much_as_without_noise():
    factors = rng.normal(size=(5_000, 3)) @ rng.normal(size=(3, 20)) + rng.normal(size=(5_000, 20))
    for epsilon, delta, least in [(1.0, 1e-6, 0.98), (4.0, None, 0.95)]:
        pca = DPPCA(3, epsilon=epsilon, delta=delta, bounds=(-10, 10), random_state=0).fit(factors)
        assert share_of_variance(factors, pca.components_) > least


def test_columns_of_small_numbers_do_not_add_noise_to_those_of_large_ones():
    X = np.column_stack([rng.normal(size=600) * 1_000, rng.normal(size=(600, 30))])
    bounds = np.vstack([[-4_000, 4_000], np.tile([-4, 4], (30, 1))])
    found = [DPPCA(1, epsilon=1.0, delta=1e-6, bounds=bounds, random_state=seed).fit(X) for seed in range(3)]
    assert min(share_of_variance(X, one.components_) for one in found) > 0.95


@pytest.mark.parametrize("width", [1e-300, 1e300])
def test_bounds_of_any_width_cost_nothing(width):
    wanted = DPPCA(2, **DECLARED | {"bounds": (-12, 12)}).fit(TABLE)
    found = DPPCA(2, **DECLARED | {"bounds": (-width, width)}).fit(TABLE / 12 * width)
    assert np.allclose(found.components_, wanted.components_)
    assert np.allclose(found.explained_variance_ratio_, wanted.explained_variance_ratio_)


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_too_few_rows_are_warned_of(delta):
    pca = DPPCA(epsilon=0.01, **DECLARED | {"delta": delta})
    with pytest.warns(UserWarning, match="too few rows for this epsilon"):
        pca.fit(TABLE[:20])
    assert np.isfinite(pca.transform(TABLE)).all(axis=None)
    with pytest.warns(UserWarning, match="the noise hides the components"):
        DPPCA(epsilon=0.1, delta=delta, bounds=(-5, 5), random_state=0).fit(rng.normal(size=(6_000, 40)))


@each(
    "parameters, X, error, message",
    [
        ({"bounds": None}, TABLE, ValueError, "bounds must be declared"),
        ({"n_components": 5}, TABLE, ValueError, "n_components"),
        ({"n_components": 0}, TABLE, ValueError, "n_components"),
        ({"n_components": 1.5}, TABLE, ValueError, "n_components must be a whole number, or a share"),
        ({"n_components": "mle"}, TABLE, TypeError, "n_components"),
        ({"whiten": 1}, TABLE, TypeError, "whiten must be True or False, got int"),
        ({"epsilon": Rho(0.1, delta=1e-6)}, TABLE, ValueError, "delta must be 0"),
        ({}, TABLE.mask(TABLE > 8), ValueError, "holds a missing value"),
        ({}, pl.LazyFrame(TABLE.mask(TABLE > 8)), ValueError, "holds a missing value"),
    ],
)
def test_mistakes_cost_nothing(parameters, X, error, message):
    ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    pca = DPPCA(**{**DECLARED, "ledger": ledger} | parameters)
    with pytest.raises(error, match=message):
        pca.fit(X)
    assert ledger.spent == (0, 0)
    assert not hasattr(pca, "components_")


def test_a_pipeline_states_that_its_rows_are_not_private():
    pipe = make_pipeline(DPPCA(2, **DECLARED), LogisticRegression()).fit(TABLE, np.arange(4_000) % 2)
    assert privacy_statement(pipe).total is None
    pipe = make_pipeline(DPPCA(2, **DECLARED), DPLinearRegression(bounds=(-12, 12), target_bounds=(0, 1)))
    total = privacy_statement(pipe.fit(TABLE, np.arange(4_000) % 2)).total
    assert set(total.scope) == {"a", "b", "c", "d", "target"}
    assert total.epsilon == pytest.approx(2)


class TestPlaces:
    """Rows are read in blocks, from one array or from columns."""

    def test_only_the_main_thread_limits_those_of_the_process(self, monkeypatch):
        asked = []
        libraries = SimpleNamespace(limit=lambda *, limits, user_api: nullcontext(asked.append(limits)))
        monkeypatch.setattr("skdp.base._threads._libraries", lambda: libraries)
        rows = placed(rng.normal(size=(5, 3)))
        rows.sum(Rows.moments)
        other = threading.Thread(target=rows.sum, args=[Rows.moments])
        other.start()
        other.join()
        assert asked == [1, None]

    def test_an_array_has_the_places_of_its_columns(self, monkeypatch):
        monkeypatch.setattr(_rows, "_BLOCK", 7)
        values = rng.normal(scale=4, size=(20, 3))
        values[3:6, 1] = 1.7e308, -1.7e308, 4.0
        apart = Rows.of([*map(np.array, values.T)], ENDS, np.zeros(3), np.zeros(20, int), UNITS)
        exact = np.trunc(np.clip(values, *ENDS.T) / UNITS * UNIT)
        for rows in (placed(values), apart, placed(np.asfortranarray(values))):
            assert (rows.places == exact).all()
        assert placed(values[:0]).places.shape == (0, 3)

    def test_only_columns_side_by_side_are_one_array(self):
        values = rng.normal(size=(5, 4))
        for table in (values, values[:, ::2], values[::-1], np.asfortranarray(values), values[:0], values[:1]):
            assert (together(list(table.T)) == table).all()
        for columns in (values[:, [0, 1]].T[:1], [values[:, 0]]):
            assert (columns == together(list(columns)).T).all()
        assert together([values[:, 0], values[:, 1], values[:, 3]]) is None
        assert together([values[:, 0], values[::-1, 1]]) is None
        assert together(list(values.astype(np.float32).T)) is None
        assert together([]) is None
        assert read_numbers(read_table(values[:, :0])) == []

    @pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
    def test_a_missing_value_of_an_array_is_an_error_of_its_column(self, odd):
        values = np.full((4, 3), 1.7e308)  # their sum is no float
        assert len(read_numbers(read_table(values))) == 3
        values[2, 1] = odd
        with pytest.raises(ValueError, match="column 'x1' holds a missing value, a NaN or an inf"):
            read_numbers(read_table(values))

    def test_shortened_rows_are_cut_to_integers(self, monkeypatch):
        monkeypatch.setattr(_rows, "_BLOCK", 7)
        rows, limit = placed(GRID), UNIT**2 // 3
        factors = rows.factors(limit)
        assert 0 < np.count_nonzero(factors < 1) < len(GRID)
        whole = np.column_stack([rows.places, np.full(len(GRID), 1_001)])
        whole = np.trunc(whole * factors[:, np.newaxis]).astype(int)
        assert (rows.shortened(limit, 1_001, codes=False) == whole.T @ whole).all()
        assert (rows.total(limit) == whole[:, :3].sum(axis=0)).all()
