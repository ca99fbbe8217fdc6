"""Values of several columns that are found together, and those of persons with several rows."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from skdp.central.statistics import plan_discovery
from skdp.central.statistics._discovery import Published
from skdp.central.statistics._partitions import CountThreshold, WeightThreshold, squared_tail, total_weights, weight_of
from skdp.privacy import Share, gaussian_delta
from skdp.randomness import SeededSource
from tests.conftest import each

W = 1 << 20
PROMISES = [
    (Fraction(1), Fraction(1, 10), 1),
    (Fraction(1, 2), Fraction(1, 50), 3),
    (Fraction(3), Fraction(1, 1000), 4),
]


def tail(y):
    return math.erfc(y / math.sqrt(2)) / 2


def publishes(total, found):
    return 0.0 if total == 0 else tail((found.threshold - total - 0.5) / math.sqrt(found.noise.variance))


def law(totals, found):
    """The probability of every set of published values."""
    chances = [publishes(total, found) for total in totals]
    return np.array(
        [
            math.prod(chance if out else 1 - chance for chance, out in zip(chances, published, strict=True))
            for published in itertools.product([False, True], repeat=len(totals))
        ]
    )


@pytest.mark.parametrize(("epsilon", "delta", "most"), PROMISES)
def test_no_neighbours_differ_by_more_than_promised(epsilon, delta, most):
    """All numbers of values of the person, and totals of others around all that matters."""
    found = WeightThreshold.planned(epsilon, delta, most)
    power, worst = math.exp(epsilon), 0.0
    for n in range(1, most + 1):
        weight = weight_of(n)
        levels = [0, W, found.threshold - weight, found.threshold - weight // 2, found.threshold]
        for others in itertools.combinations_with_replacement(levels, n):
            # The values that the person has not, have the same law in both tables.
            before, after = law(others, found), law([total + weight for total in others], found)
            for one, other in ((before, after), (after, before)):
                worst = max(worst, np.maximum(one - power * other, 0).sum())
    assert 0.4 * delta < worst <= delta


@pytest.mark.parametrize(("epsilon", "delta", "most"), PROMISES)
def test_the_threshold_is_hardly_above_what_new_values_need(epsilon, delta, most):
    """Half of delta is for them; with one person alone, for each number of values."""
    found = WeightThreshold.planned(epsilon, delta, most)
    spent = [most_of(n, found) for n in range(1, most + 1)]
    assert max(spent) <= delta / 2
    # The other half is for values that others have too.
    assert 0.499 * delta < gaussian_delta(math.sqrt(found.mu_squared), float(epsilon)) <= delta / 2
    lower = WeightThreshold(found.mu_squared, found.threshold - W // 20, most)
    assert max(most_of(n, lower) for n in range(1, most + 1)) > delta / 2


def most_of(n, found):
    return n * publishes(weight_of(n), found)


@each("distance", [1, W // 3, W, 5 * W, 40 * W])
def test_the_bound_of_the_tail(distance):
    variance = Fraction(W**2, 2)
    exact = tail((distance - 0.5) / math.sqrt(variance))
    bound = math.sqrt(squared_tail(distance, variance, 3000))
    assert exact * (1 - 1e-9) <= bound
    assert distance < 5 * W or bound <= 1.01 * exact


def test_a_person_moves_all_totals_by_at_most_one_in_euclidean_norm():
    """All tables of one row of somebody else and all persons of up to three rows of two columns."""
    rows = list(itertools.product(range(3), range(3)))  # code 2 of each column is no value
    worst = 0
    for other in rows[::4]:
        for k in (1, 2, 3):
            for person in itertools.combinations_with_replacement(rows, k):
                codes = np.array([other, *person]).T
                whose = np.array([0] + [1] * k)
                moved = total_weights(codes, [2, 2], whose) - total_weights(codes[:, :1], [2, 2], whose[:1])
                worst = max(worst, int((moved**2).sum()))
                assert (moved**2).sum() <= W**2
    assert worst == W**2


def test_the_noise_is_that_of_the_plan(monkeypatch):
    asked = []

    def noise(source, variance, size):
        asked.append((variance, size))
        return np.array([0, 0, -1])

    monkeypatch.setattr("skdp.central.statistics._noise.rounded_gaussian", noise)
    columns = [(["a", "b"], np.array([0, 0, 1])), (["c"], np.array([0, 0, 0]))]
    half = weight_of(2)
    lower = WeightThreshold(Fraction(1, 4), 2 * half, 2)
    higher = WeightThreshold(Fraction(1, 4), 2 * half + 1, 2)
    assert [found.places for found in higher.find("source", columns, None)] == [[], [0]]
    assert [found.places for found in lower.find("source", columns, None)] == [[0], [0]]
    assert asked == [(4 * W**2, 3)] * 2


def test_columns_share_the_budget_of_counts(monkeypatch):
    asked = []

    def discover(source, values, counts, **promise):
        asked.append((values, counts.tolist(), promise))
        return Published([0], [[]])

    monkeypatch.setattr("skdp.central.statistics._partitions.publish", discover)
    plan = CountThreshold(Fraction(1), Fraction(1, 10), 2, 3)
    columns = [(["a", "b"], np.array([0, 0, 1])), (["c"], np.array([0, 1, 1], np.uint8))]
    assert [found.places for found in plan.find("source", columns, None)] == [[0], [0]]
    promise = {"epsilon": Fraction(1, 2), "delta": Fraction(1, 20), "max_rows_per_person": 3}
    assert asked == [(["a", "b"], [2, 1], promise), (["c"], [1], promise)]


@each(
    "rows, n_columns, persons, kind",
    [
        (1, 1, False, CountThreshold),
        (1, 8, False, WeightThreshold),
        (10, 1, True, WeightThreshold),
        (10, 8, False, CountThreshold),
    ],
)
def test_the_way_that_needs_fewer_persons_is_taken(rows, n_columns, persons, kind):
    plan = plan_discovery(Share("epsilon", Fraction(1), None, rows), Fraction(1, 10**6), n_columns, persons=persons)
    assert isinstance(plan, kind)
    others = CountThreshold(Fraction(1), Fraction(1, 10**6), n_columns, rows)
    assert plan.needed <= others.needed


@pytest.mark.parametrize(("rows", "factor"), [(1, 1.0), (4, 0.75)])
def test_as_many_persons_as_are_needed_find_a_value(rows, factor):
    """Persons with several rows of distinct values, of which all but one are their own."""
    plan = plan_discovery(Share("epsilon", Fraction(1), None, rows), Fraction(1, 10**6), 2, persons=True)
    n = math.ceil(plan.needed) + 30
    who = np.repeat(np.arange(n), rows)
    shared = np.where(np.arange(n * rows) % rows, np.arange(n * rows) + 1, 0)
    values, codes = np.unique(shared, return_inverse=True)
    found = [plan.find(SeededSource(seed), [(values.tolist(), codes)] * 2, who) for seed in range(5)]
    assert [[one.places for one in columns] for columns in found].count([[0], [0]]) >= 4
    counts = CountThreshold(Fraction(1), Fraction(1, 10**6), 2, rows)
    assert plan.needed <= factor * counts.needed
