"""What a row changes in exact sums over rows of a bounded norm, by brute force, for the models made of them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from skdp.central import _rows
from skdp.central._linear_model import noises_of_products, sum_products
from skdp.central._logistic_regression import CERTAIN, BinaryLoss, SoftmaxLoss, gradient, largest_change
from skdp.central._pca import _noise_of_products
from skdp.central._rows import UNIT, Rows, choose_limit, find_limits
from skdp.central._selectors import Contrasts
from skdp.central.statistics import Noise
from skdp.privacy import Mu, parse_budget
from skdp.randomness import SeededSource

rng = np.random.default_rng(0)
PAIRS = np.array(list(itertools.product([-1.0, -0.3, 0.0, 1.0], repeat=2)))
LOSSES = {"binary": BinaryLoss(), "softmax": SoftmaxLoss(3)}


def rows_of(values, codes, limit=None):
    rows = Rows.of(list(values.T), np.tile([-1.0, 1.0], (2, 1)), np.zeros(2), np.asarray(codes))
    return (rows if limit is None else rows.clip(limit)).with_constant(UNIT)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("limit", [None, UNIT**2 // 2 + 5, UNIT**2])
def test_a_row_changes_the_gradient_by_its_own_and_no_more(loss, limit, monkeypatch):
    n_classes = max(loss.n_outputs, 2)
    cases = [(row, code) for row in PAIRS for code in range(n_classes)]
    others = rows_of(rng.uniform(-1, 1, (7, 2)), rng.integers(0, n_classes, 7), limit)
    monkeypatch.setattr(_rows, "BLOCK", 3 * 4)  # a row in front moves all others to another place of a block
    for size in (0.0, 0.1, 3.0, 500.0, 1e9):
        coefficients = size * rng.normal(size=(3, loss.n_outputs))
        before = gradient(others, coefficients, loss)
        largest = 0
        for row, code in cases:
            own = rows_of(row[np.newaxis], [code], limit)
            more = replace(
                others, positions=np.vstack([own.positions, others.positions]), codes=np.append(own.codes, others.codes)
            )
            change = gradient(more, coefficients, loss) - before
            assert (change == gradient(own, coefficients, loss)).all()
            largest = max(largest, sum(int(one) ** 2 for one in change.ravel()))
        assert largest <= largest_change(others, loss)
        # The bound is reached: it is that of a certain prediction of a wrong class for the longest row.
        assert size < 1e9 or largest > 0.9 * largest_change(others, loss)


def test_residuals_are_short_and_0_in_expectation():
    for n_classes in (2, 3, 5):
        loss = SoftmaxLoss(n_classes) if n_classes > 2 else BinaryLoss()
        logits = np.vstack([rng.integers(-size, size + 1, (500, loss.n_outputs)) for size in (0, 99, 4_000, 16_384)])
        residuals = np.stack([loss.residuals(logits, np.full(len(logits), code)) for code in range(n_classes)])
        squares = (residuals.astype(np.int64) ** 2).sum(axis=2)
        assert (residuals == np.rint(residuals)).all()
        assert 0.999 * loss.square < squares.max() <= loss.square
        bound = 1 - 1 / n_classes
        assert loss.square <= (bound / 2 if n_classes == 2 else bound) * CERTAIN**2
        powers = np.exp(np.hstack([np.zeros_like(logits), logits] if n_classes == 2 else [logits]) / 1024)
        shares = (powers / powers.sum(axis=1, keepdims=True)).T[:, :, np.newaxis]
        assert np.abs((shares * residuals).sum(axis=0)).max() < 20  # with residuals that are cut: thousands


def test_clipped_rows_are_no_longer_than_the_limit_and_point_the_same_way():
    values = rng.uniform(-1, 1, (5_000, 2)) * rng.choice([1e-3, 1.0], (5_000, 2))
    for limit in (1, UNIT**2 // 3, UNIT**2 + 1, 2 * UNIT**2 - 1, 2 * UNIT**2):
        whole, cut = rows_of(values, np.zeros(5_000, int)), rows_of(values, np.zeros(5_000, int), limit)
        squares = [sum(int(place) ** 2 for place in row) for row in cut.positions]
        assert whole.total(limit).tolist() == cut.positions.sum(axis=0, dtype=int).tolist()
        assert (cut.squares == squares).all()
        assert max(squares) <= limit
        long = whole.squares > limit
        assert (cut.positions[~long] == whole.positions[~long]).all()
        if limit > UNIT:
            assert min(np.array(squares)[long], default=limit) > 0.99 * limit


def test_a_row_changes_one_number_of_rows_by_1_and_the_total_by_itself(monkeypatch):
    given = []
    monkeypatch.setattr(Noise, "add", lambda self, source, numbers: given.append(numbers) or numbers)
    table = rows_of(rng.uniform(-1, 1, (30, 2)), np.zeros(30, int))
    for row in PAIRS:
        given.clear()
        own = rows_of(row[np.newaxis], [0])
        more = Rows(np.vstack([own.positions, table.positions]), np.zeros(31, int), table.square)
        for rows in (table, more):
            choose_limit(rows, Noise("mu", 1), 0.05, SeededSource(0))
        change = np.subtract(given[1], given[0])
        assert (np.sort(change) == [0] * 23 + [1]).all()
        assert (more.total(2 * UNIT**2) - table.total(2 * UNIT**2)).tolist() == own.positions[0].tolist()
    few_are_longer = np.repeat([1.0, 0.3], [2, 48])
    limit, n_rows = choose_limit(Rows(few_are_longer[:, np.newaxis] * UNIT, None, UNIT**2), Noise("mu", 1), 0.05, None)
    assert n_rows == 50
    assert 0.3 <= limit**0.5 / UNIT < 0.3 * 2 ** (1 / 6)


def test_a_place_between_bounds_is_on_the_grid_whatever_the_bounds():
    for low, high in [(1900, 2025), (-7.3, -7.1), (0.1, 0.3), (-0.1, 0.3), (1e-300, 2e-300), (-8e307, 9e307)]:
        values = np.linspace(low, high, 1_001)
        values = np.concatenate([[-1.7e308, np.nextafter(low, -np.inf)], values, [np.nextafter(high, np.inf), 1.7e308]])
        for start in (0.0, np.clip(0.0, low, high)):
            places = Rows.of([values], np.array([[low, high]]), np.array([start]), np.zeros(len(values), int)).positions
            assert np.abs(places).max() == UNIT
            assert (np.diff(places[:, 0]) >= 0).all()
            assert (places == np.trunc(places)).all()


TRIPLES = np.array(list(itertools.product([-1.0, -0.3, 1.0], [-1.0, 0.4, 1.0], [-1.0, 0.7, 1.0])))
ENDS = np.tile([-1.0, 1.0], (2, 1))


def with_target(values):
    """Place two columns and a target of bounds -1 and 1."""
    return Rows.of(list(values[:, :2].T), ENDS, np.zeros(2), np.trunc(values[:, 2] * UNIT))


@pytest.mark.parametrize("middle", [(0, 0), (UNIT - 1, 1 - UNIT), (17, -300)])
@pytest.mark.parametrize("limit", [UNIT**2 // 3, 3 * UNIT**2, None])
@pytest.mark.parametrize("constant", [UNIT // 3, 3 * UNIT])
def test_a_row_changes_products_with_a_target_by_no_more_than_is_paid_for(middle, limit, constant, monkeypatch):
    monkeypatch.setattr(_rows, "BLOCK", 7)  # a row in front moves all others to another place of a block

    def placed_rows(values):
        return with_target(values).center(np.array(middle, np.int16))

    square = placed_rows(TRIPLES).square if limit is None else limit
    whole = sum_products(placed_rows(TRIPLES), square, constant)
    largest = [0, 0, 0]
    for place in range(len(TRIPLES)):
        change = whole - sum_products(placed_rows(np.delete(TRIPLES, place, axis=0)), square, constant)
        assert (change == sum_products(placed_rows(TRIPLES[[place]]), square, constant)).all()
        assert (change == change.T).all()
        parts = change[:-1, :-1][np.triu_indices(3)], change[:-1, -1], change[-1:, -1]
        largest = [max(one, sum(int(x) ** 2 for x in part)) for one, part in zip(largest, parts, strict=True)]
    share = parse_budget(Mu(1, delta=1e-6))
    noises = noises_of_products(share, 3, square=square, constant=constant, largest=2 * UNIT)
    assert sum(noise.amount for noise in noises) == share.mu_squared
    assert all(one <= noise.sensitivity for one, noise in zip(largest, noises, strict=True))
    assert all(one > 0.1 * noise.sensitivity for one, noise in zip(largest, noises, strict=True))


def test_without_delta_a_row_changes_each_sum_by_1_at_most():
    whole = sum_products(with_target(TRIPLES), 2 * UNIT**2, UNIT)
    table = np.column_stack(
        [np.trunc(TRIPLES[:, :2] * UNIT), np.full(len(TRIPLES), UNIT), np.trunc(TRIPLES[:, 2] * UNIT)]
    )
    assert (whole == table.T @ table).all()
    for place in range(len(TRIPLES)):
        fewer = sum_products(with_target(np.delete(TRIPLES, place, axis=0)), 2 * UNIT**2, UNIT)
        assert np.abs(whole - fewer).max() == UNIT**2
    noise, *same = noises_of_products(parse_budget(1.0), 3, square=2 * UNIT**2, constant=UNIT, largest=UNIT)
    assert same == [noise] * 2
    assert (noise.amount, noise.sensitivity, noise.dimension) == (1, UNIT**2, 10)


WIDE = np.array(list(itertools.product([-1.0, -0.3, 1.0], [-4.0, 1.7, 4.0], [-1.0, 0.7, 1.0])))
WIDE_ENDS = np.array([[-1.0, 1.0], [-4.0, 4.0], [-1.0, 1.0]])
UNITS = np.array([2.0, 4.0, 2.0])  # the roots of the half widths, times that of the largest


def placed(values, units=UNITS):
    return Rows.of(list(values.T), WIDE_ENDS, np.zeros(3), np.zeros(len(values), int), units)


@pytest.mark.parametrize("middle", [(0, 0, 0), (UNIT // 2, UNIT - 1, -300)])
@pytest.mark.parametrize("limit", [UNIT**2 // 3, None])
@pytest.mark.parametrize("constant", [UNIT // 4, 2 * UNIT])
def test_a_row_changes_products_by_no_more_than_is_paid_for(middle, limit, constant, monkeypatch):
    monkeypatch.setattr(_rows, "BLOCK", 7)  # a row in front moves all others to another place of a block
    middle, share = np.array(middle, np.int16), parse_budget(1.0)
    whole = placed(WIDE).center(middle)
    limit = whole.square if limit is None else limit
    sums = whole.clipped_moments(limit, constant, with_target=False)
    pure = _noise_of_products(share, 4, limit + constant**2, 2 * UNIT).sensitivity
    gaussian = _noise_of_products(parse_budget(Mu(1, delta=1e-6)), 4, limit + constant**2, 2 * UNIT).sensitivity
    changes = []
    for place in range(len(WIDE)):
        fewer = (
            placed(np.delete(WIDE, place, axis=0)).center(middle).clipped_moments(limit, constant, with_target=False)
        )
        change = (sums - fewer)[np.triu_indices(4)].astype(object)
        changes.append((np.abs(change).sum(), (change**2).sum()))
    largest = np.max(changes, axis=0)
    assert largest[0] <= pure
    assert largest[1] <= gaussian
    assert largest[0] > 0.4 * pure
    assert largest[1] > 0.4 * gaussian


def test_the_noise_of_the_mean_covers_any_row(monkeypatch):
    asked, whole = [], Noise.of
    monkeypatch.setattr(Noise, "of", lambda *what: asked.append(what) or whole(*what))
    rows = placed(np.tile(WIDE, (20, 1)), None)
    limits = find_limits(rows, parse_budget(1e6), 0.5, SeededSource(0))
    ((of_sizes,), (of_mean, sensitivity, square)) = asked
    # The sizes are counted twice: before and after the mean is subtracted.
    assert 2 * of_sizes.amount + of_mean.amount + limits.rest.amount == 10**6
    changes = [placed(WIDE[[place]], None).total(square).tolist() for place in range(len(WIDE))]
    assert 0.9 * sensitivity < max(sum(map(abs, change)) for change in changes) <= sensitivity
    assert 0.9 * square < max(sum(one**2 for one in change) for change in changes) <= square
    fewer = placed(np.delete(np.tile(WIDE, (20, 1)), 5, axis=0), None).total(square)
    assert (np.array(rows.total(square)) - fewer).tolist() == changes[5]


CODED = np.array(list(itertools.product([-1.0, -0.3, 1.0], [-1.0, 0.7, 1.0], [0, 1, 2])))


@pytest.mark.parametrize(("counts", "copies"), [((3.0, 3.0, 3.0), 2), ((1_000.0, 40.0, 2.0), 1)])
def test_a_row_changes_no_score_by_more_than_is_paid_for(counts, copies, monkeypatch):
    monkeypatch.setattr(_rows, "BLOCK", 7)  # a row in front moves all others to another place of a block

    def scores(values):
        rows = Rows.of(list(values[:, :2].T), np.tile([-1.0, 1.0], (2, 1)), np.zeros(2), values[:, 2])
        target = Contrasts.of_classes(np.array(counts))
        return np.array(target.scores(rows), object), target.square

    values = np.tile(CODED[CODED[:, 2] > 0] if counts[0] > 3 else CODED, (copies, 1))
    whole, square = scores(values)
    bound = Fraction(UNIT**2 * square)
    largest = 0
    for place in range(len(values)):
        fewer, _ = scores(np.delete(values, place, axis=0))
        assert (max(abs(whole - fewer)) - 1) ** 2 <= bound  # the floor of a root may change by one more
        largest = max(largest, *abs(whole - fewer))
    assert largest**2 > 0.5 * bound


def test_scores_of_numbers_change_by_a_row_at_most():
    values = np.array(list(itertools.product([-1.0, 0.3, 1.0], repeat=2)))
    ends = np.array([[-1.0, 1.0]])

    def score(part):
        target = Rows.of([part[:, 1]], ends, np.zeros(1), np.zeros(len(part)))
        return Contrasts.of_numbers().scores(Rows.of([part[:, 0]], ends, np.zeros(1), target.positions[:, 0]))[0]

    square = Contrasts.of_numbers().square
    changes = [abs(score(values) - score(np.delete(values, place, axis=0))) for place in range(len(values))]
    assert 0.99 * UNIT**2 * square < max(changes) ** 2
    assert (max(changes) - 1) ** 2 <= UNIT**2 * square
