"""Additive models of correlated columns: what is counted of their pairs, when, and what functions and errors gain."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from skdp import DPAdditiveClassifier, DPAdditiveRegressor
from skdp.central.additive._overlap import Overlap, all_pairs, basis_of
from skdp.central.additive._smoothing import normal_scores, ordered_bins
from skdp.central.additive._sums import Rows, crossed_counts
from skdp.central.statistics import Bins, Noise
from skdp.domain import Categories, Interval
from skdp.privacy import Mu
from skdp.testing import replay_release
from tests.conftest import each

rng = np.random.default_rng(0)
N = 6_000
WORDS = list("vwxyz")


def correlated(correlation, n_rows=N, seed=0):
    """Return columns, and the functions of them that make a target."""
    random = np.random.default_rng(seed)
    shared, own = random.normal(size=(n_rows, 1)), random.normal(size=(n_rows, 3))
    normal = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
    words = np.digitize(normal[:, 2], [-1.2, -0.3, 0.2, 1.0])
    table = pd.DataFrame({"a": normal[:, 0], "b": normal[:, 1], "c": np.array(WORDS)[words]})
    functions = {
        "a": np.tanh(2 * normal[:, 0]),
        "b": -0.5 * normal[:, 1],
        "c": np.array([0.3, -0.6, 0, 0.5, -0.2])[words],
    }
    return table, functions


TABLE, FUNCTIONS = correlated(0.8)
NUMBER = sum(FUNCTIONS.values()) + rng.normal(0, 0.5, N)
DECLARED = {"bounds": (-6, 6), "categories": {"c": WORDS}, "random_state": 0}


def regressor(epsilon=2.0, **more):
    return DPAdditiveRegressor(epsilon, **DECLARED | {"target_bounds": (-5, 5)} | more)


def bins_of(attribute, counts):
    places = np.arange(len(counts) + 1)
    return Bins(attribute, places, np.array(counts, float), np.ones(len(counts)))


def number_of(counts):
    edges = np.linspace(0.0, 1.0, len(counts)).tolist()
    return bins_of(Interval(edges=edges, missing=True, real=True), counts)


MANY = bins_of(Categories(list(map(str, range(40)))), np.arange(40) % 7 + 1)
ORDERED = bins_of(Categories(list(range(10))), [5, 9, 4, 7, 6, 2, 8, 11, 3, 5])
COLUMNS = [number_of([5, 9, 4, 7, 6, 2]), MANY, bins_of(Categories(["x", "y"]), [3, 30]), number_of([1, 50, 1, 0.5])]


def test_a_row_is_in_one_cell_of_each_pair():
    """All bins of a row, none of them among these."""
    pairs = all_pairs([basis_of(column) for column in COLUMNS])
    crossings = [pair.crossing() for pair in pairs]
    assert len(pairs) == 6
    few = [np.array([0, len(column.counts) - 1]) for column in COLUMNS]
    before = crossed_counts(Rows(few, np.zeros(2)), crossings)
    for bins in itertools.product(range(7), [0, 6, 39, 40], range(3), range(5)):
        codes = [np.append(column, bin_) for column, bin_ in zip(few, bins, strict=True)]
        change = crossed_counts(Rows(codes, np.zeros(3)), crossings) - before
        n_known = sum(bin_ < len(column.counts) for bin_, column in zip(bins, COLUMNS, strict=True))
        assert change.sum() == (change**2).sum() == math.comb(n_known, 2) <= len(pairs)


def test_functions_of_bins_are_not_correlated():
    for column in COLUMNS:
        basis = basis_of(column)
        n_functions = basis.functions.shape[1]
        assert 0 < n_functions < len(basis.groups.sizes)
        assert basis.shares @ basis.functions == pytest.approx(np.zeros(n_functions), abs=1e-9)
        assert basis.projection @ basis.functions == pytest.approx(np.eye(n_functions), abs=1e-9)


@each("column", [ORDERED, COLUMNS[0]])
def test_powers_are_functions_of_a_column_with_an_order(column):
    """Whether it may have missing values or not: where none may be, nothing is lost to them."""
    basis = basis_of(column)
    ordered = ordered_bins(column.attribute)
    scores = np.zeros(len(basis.shares))
    scores[ordered] = normal_scores(column.sizes[ordered])
    centred = scores - basis.shares @ scores
    assert basis.functions @ (basis.projection @ centred) == pytest.approx(centred, abs=1e-9)


def test_correlations_are_those_of_the_rows():
    normal = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 200_000)
    codes = [np.digitize(column, np.linspace(-2, 2, 17)) for column in normal.T]
    columns = [number_of([*np.bincount(column), 0.1]) for column in codes]
    bases = [basis_of(column) for column in columns]
    exact = crossed_counts(Rows(codes, codes[0]), [pair.crossing() for pair in all_pairs(bases)])
    overlap = Overlap.from_counts(bases, exact.astype(float), 20.0, 200_000.0)
    first, second = (basis.functions[:, -3:][code] for basis, code in zip(bases, codes, strict=True))
    rows, columns = (range(block.stop - 3, block.stop) for block in overlap.blocks)
    wanted = first.T @ second / len(normal)
    # Of normal numbers, those of powers are powers.
    assert np.abs(np.diag(wanted)[:2]) == pytest.approx([0.6, 0.36], abs=0.03)
    assert overlap.correlations[np.ix_(rows, columns)] == pytest.approx(wanted, abs=0.06)
    assert np.linalg.eigvalsh(overlap.correlations).min() > 0.01


def test_correlations_of_columns_that_are_alike_make_equations_that_can_be_solved():
    """Functions of a column are not correlated, whatever noise says of those of other columns."""
    code = rng.integers(0, 18, 20_000)
    column = number_of([*np.bincount(code), 0.1])
    bases = [basis_of(column) for _ in range(4)]
    exact = crossed_counts(Rows([code] * 4, code), [pair.crossing() for pair in all_pairs(bases)])
    for noise in (1.0, 100.0):
        counts = exact + rng.normal(0, noise, len(exact))
        overlap = Overlap.from_counts(bases, counts, noise, 20_000.0)
        assert all(overlap.is_alike)
        for block in overlap.blocks:
            n_functions = block.stop - block.start
            assert overlap.correlations[block, block] == pytest.approx(np.eye(n_functions), abs=1e-9)
        assert np.linalg.eigvalsh(np.eye(len(overlap.of_others)) + overlap.of_others).min() > 0.02


def covered(correlation, n_fits, n_rows, epsilon):
    """Return how often intervals of 95 % hold, and how far values are from the truth."""
    inside, errors = [], []
    for seed in range(n_fits):
        table, functions = correlated(correlation, n_rows, seed)
        target = sum(functions.values()) + np.random.default_rng(1_000 + seed).normal(0, 0.5, n_rows)
        model = regressor(epsilon, random_state=seed).fit(table, target)
        for name, function in functions.items():
            shape = model.shape_(name)
            column = table[name].to_numpy()
            codes = shape.bins.encode(column if name == "c" else column.clip(-6, 6))
            sizes = np.bincount(codes, minlength=len(shape.values))
            sums = np.bincount(codes, weights=function - function.mean(), minlength=len(sizes))
            is_supported = shape.is_supported & (sizes > 0)
            bin_errors = (shape.values - sums / np.maximum(sizes, 1))[is_supported]
            inside.append(np.abs(bin_errors) < 1.96 * shape.std_error[is_supported])
            errors.append(bin_errors)
    return np.concatenate(inside).mean(), np.sqrt(np.mean(np.concatenate(errors) ** 2))


def test_functions_of_correlated_columns_settle_and_bands_cover():
    """Half of the bins were in their bands, and values were four times as far from the truth."""
    share, error = covered(0.8, 4, N, 2.0)
    assert share > 0.85
    assert error < 0.1


@pytest.mark.long
@each("n_rows, epsilon", [(10_000, 0.5), (10_000, 2.0), (30_000, 4.0)])
def test_bands_of_correlated_columns_cover_as_often_as_stated(n_rows, epsilon):
    assert covered(0.8, 20, n_rows, epsilon)[0] > 0.88
    assert covered(0.0, 20, n_rows, epsilon)[0] > 0.88


def test_correlated_columns_that_add_up_are_no_pairs():
    """What functions left of the target before they settled looked like pairs: up to six of them."""
    n_pairs = []
    for seed in range(3):
        table, functions = correlated(0.8, 10_000, seed)
        target = sum(functions.values()) + np.random.default_rng(1_000 + seed).normal(0, 0.5, 10_000)
        n_pairs.append(len(regressor(4.0, random_state=seed).fit(table, target).interactions_))
    assert sum(n_pairs) <= 1


def draws_of_fit(model, table, target, monkeypatch):
    """Return the noise of each draw, and how many integers it is added to."""
    draws = []
    draw = Noise.draw
    with monkeypatch.context() as patch:
        patch.setattr(
            Noise, "draw", lambda noise, source, size: draws.append((noise, size)) or draw(noise, source, size)
        )
        model.fit(table, target)
    return draws


def test_pairs_are_counted_once_if_that_is_of_use(monkeypatch):
    """For 2 % of the rest: by the number of columns, the noise, and the noisy number of rows."""
    many = pd.DataFrame({f"x{place}": TABLE["a"] for place in range(15)})
    cases = [
        (regressor(2.0), TABLE, True),
        (regressor(0.1), TABLE, False),
        (regressor(2.0), TABLE.head(50), False),
        (regressor(2.0, categories=None), TABLE[["a"]], False),
        (regressor(20.0, categories=None), many, False),
    ]
    for model, table, is_counted in cases:
        with pytest.warns() if len(table) == 50 else monkeypatch.context():
            draws = draws_of_fit(model, table, NUMBER[: len(table)], monkeypatch)
        assert model.is_joint_ == (is_counted or table.shape[1] == 1)
        # A row is in three cells of bins, and in three of pairs.
        sizes = [size for noise, size in draws if noise.sensitivity == 3]
        n_cells = sum(first * second for first, second in ((6, 6), (6, 5), (6, 5))) + 6 + 6 + 5 + 5 + 1
        assert sizes[1:] == ([n_cells] if is_counted else [])
        assert all(noise.sensitivity != 105 for noise, _ in draws)  # the pairs of 15 columns


def test_a_neighbour_changes_the_counts_of_pairs_by_no_more_than_is_stated():
    table = TABLE.head(60).assign(c=TABLE["c"].head(60).where(np.arange(60) > 2, "u"))
    model = regressor(Mu(60.0, delta=1e-6), handle_unknown="ignore")
    table = table.assign(y=NUMBER[:60])

    def release(rows):
        return model.fit(rows[["a", "b", "c"]], rows["y"])

    for place in (0, 30, 59):
        result = replay_release(release, table, table.drop(index=place))
        assert model.is_joint_
        assert result.findings == ()
        assert result.epsilon <= result.guarantee.epsilon * (1 + 1e-9)


def test_columns_of_any_kind_may_be_correlated():
    """Missing numbers, several classes, and values of which the rare ones are together."""
    code = np.digitize(TABLE["a"], np.linspace(-2, 2, 29))
    table = TABLE.assign(d=code.astype(str), a=TABLE["a"].where(rng.random(N) > 0.2))
    target = np.digitize(NUMBER, [-0.5, 0.5])
    model = DPAdditiveClassifier(
        5.0,
        bounds=(-6, 6),
        categories={"c": WORDS, "d": list(map(str, range(30)))},
        classes=[0, 1, 2],
        random_state=0,
    )
    model.fit(table, target)
    assert model.is_joint_
    assert model.score(table, target) > 0.6
    for name in table:
        shape = model.shape_(name)
        assert shape.is_joint
        assert np.isfinite(shape.std_error).all()
        assert shape.values.sum(axis=1) == pytest.approx(0, abs=1e-9)


def test_errors_grow_where_columns_say_the_same():
    errors = []
    for correlation in (0.0, 0.8):
        table, functions = correlated(correlation)
        target = sum(functions.values()) + rng.normal(0, 0.5, N)
        shape = regressor(1.0, interactions=0).fit(table, target).shape_("c")
        errors.append(np.median(shape.std_error))
    assert errors[1] > 1.3 * errors[0]


def test_columns_that_follow_from_others_are_predicted_and_not_supported():
    """Correlations that are nearly 1, and wrong by noise, once made functions of any size."""
    columns = [TABLE["a"] + rng.normal(0, 0.1, N) for _ in range(3)]
    table = pd.DataFrame({"a": columns[0], "b": columns[1], "d": columns[2], "e": rng.normal(size=N)})
    target = np.tanh(table["a"]) + table["e"] / 2 + rng.normal(0, 0.3, N)
    for seed in range(3):
        model = regressor(4.0, categories=None, random_state=seed).fit(table, target)
        assert model.score(table, target) > 0.8
        supported = [model.shape_(name).is_supported.any() for name in table]
        assert supported == [False, False, False, True]


def test_a_pair_is_of_columns_in_either_order():
    model = regressor(4.0, interactions=[("a", "c")]).fit(TABLE, NUMBER)
    shape, other = model.shape_(("a", "c")), model.shape_(("c", "a"))
    assert other.bins == shape.bins[::-1]
    for field in ("values", "std_error", "counts", "is_supported"):
        np.testing.assert_array_equal(getattr(other, field), getattr(shape, field).T)
    assert not shape.is_joint


def test_columns_of_a_single_value_have_no_correlations():
    table = pd.DataFrame({"a": ["x"] * 300, "b": ["y"] * 300})
    model = regressor(8.0, bounds=None, categories={"a": ["x"], "b": ["y"]}).fit(table, NUMBER[:300])
    assert not model.is_joint_
    assert np.isfinite(model.predict(table)).all()
