"""What a budget buys and what it is given: shares and their noise, sensitivities by brute force, rows of a person."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, norm

from skdp.central.statistics import rows_within
from skdp.privacy import PrivacyBudget
from skdp.randomness import SeededSource
from skdp.synthesis.selection import NoiseBudget
from tests.conftest import each
from tests.synthesis.budgets import OpenBudget, counts_of, make_budget, private_counts, recorded_draws

PROMISES = [(epsilon, delta) for epsilon in (1e-3, 0.1, 1, 10, 1000) for delta in (1e-12, 1e-9, 1e-2)]


def gaussian_delta(mu, epsilon):
    """Dong, Roth, Su, corollary 1; in logarithms where the terms are small."""
    first = norm.sf(epsilon / mu - mu / 2)
    return first - math.exp(epsilon + norm.logsf(epsilon / mu + mu / 2))


@each("epsilon, delta", PROMISES)
def test_gaussian_privacy_is_used_up_and_not_exceeded(epsilon, delta):
    budget = NoiseBudget(PrivacyBudget("epsilon", Fraction(epsilon)), Fraction(delta))
    mu = math.sqrt(2 * budget.rho)
    # Near 0 the two terms cancel; 1e-10 is far above their rounding errors, and far below what matters of mu.
    assert gaussian_delta(mu, epsilon) <= delta * (1 + 1e-6) + 1e-17
    assert gaussian_delta(mu * 1.001, epsilon) > delta


FALSE_ALARM = 1e-6
KINDS = ["gaussian", "laplace"]
COUNTS = np.array([5, 0, 7, 2**40])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["add_to_counts", "add_to_scores"])
def test_overspending_is_refused_before_a_draw(scripted_source, kind, method):
    budget = make_budget(kind, 1)
    budget.add_to_counts(SeededSource(0), COUNTS, Fraction(2, 3))
    for share in [Fraction(1, 3) + Fraction(1, 10**30), Fraction(1), Fraction(0), Fraction(-1)]:
        source = scripted_source()
        with pytest.raises(RuntimeError, match="The fractions of the budget"):
            getattr(budget, method)(source, COUNTS, share)
        assert source.used == 0
        assert budget.remaining == Fraction(1, 3)
    getattr(budget, method)(SeededSource(1), COUNTS % 10, Fraction(1, 3))
    assert budget.remaining == 0


SHARES = [Fraction(1), Fraction(7, 1000)]


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_share_buys_noise_for_all_rows_of_a_person(kind, rows):
    """Of counts, and of n scores together: what the losses of two neighbours come to, from the recorded draws."""
    for share in SHARES:
        for method, n in (("add_to_counts", 4), ("add_to_scores", 4), ("add_to_scores", 450)):
            budget = make_budget(kind, Fraction(5, 3), rows)
            with recorded_draws() as draws:
                getattr(budget, method)(SeededSource(0), np.zeros(n, np.int64), share)
            assert sum(draw.loss(rows) for draw in draws) == Fraction(5, 3) * share


@given(
    st.sampled_from(KINDS),
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20),
    st.fractions(Fraction(1, 1000), 1, max_denominator=10**6),
)
def test_the_best_shares_add_up_exactly_and_none_are_better(kind, weights, total):
    budget = make_budget(kind, Fraction(1, 10**8))  # much noise: the twelfth of rounding is nothing
    shares = budget.allocate(weights, total)
    assert sum(shares) == total
    assert min(shares) > 0

    def error(parts):
        return math.fsum(w * budget.std_error(part) for w, part in zip(weights, parts, strict=True))

    best = error(shares)
    exponent = budget.cost_power
    least = math.fsum(w**exponent for w in weights) ** (1 / exponent) * budget.std_error(total)
    assert best == pytest.approx(least, rel=1e-3)
    for giver, taker in itertools.permutations(range(len(shares)), 2):
        moved = list(shares)
        moved[giver] -= shares[giver] / 4
        moved[taker] += shares[giver] / 4
        assert error(moved) >= best * (1 - 1e-9)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["add_to_counts", "add_to_scores"])
def test_drawn_noise_is_as_large_as_said(kind, method):
    """The sum of squares within its chi-square bounds (doubled degrees of freedom for the heavier tails)."""
    n, share = 4000, Fraction(1, 50)
    budget = make_budget(kind, 1, 2)
    size = n if method == "add_to_counts" else 4
    squares = []
    for seed in range(1 if method == "add_to_counts" else 1000):
        fresh = make_budget(kind, 1, 2)
        squares.append(getattr(fresh, method)(SeededSource("size", seed), np.full(size, 9), share) - 9)
    found = float(np.mean(np.concatenate(squares) ** 2))
    said = budget.std_error(share) if method == "add_to_counts" else budget.score_std_error(share, 4)
    freedom = 4000 / (1 if kind == "gaussian" else 8)
    low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], freedom) / freedom
    assert low < found / said**2 < high


SHARE = Fraction(1, 1000)
TABLES = {
    "two columns": ((2, 2), (None, np.array([0, 0]))),
    "three values": ((3, 2), (np.array([1, 0, 1]), None)),
    "three columns": ((2, 3, 2), (None, np.array([0, 1, 1]), np.array([0, 0]))),
    "four columns": ((2, 2, 1, 2), (None, np.array([0, 0]), None, None)),
}
MAX_ROWS = {"two columns": 4, "three values": 3, "three columns": 2, "four columns": 2}


def cliques_of(sizes):
    return [clique for size in range(1, len(sizes) + 1) for clique in itertools.combinations(range(len(sizes)), size)]


def groups_of(clique, groups):
    return tuple(groups[column] for column in clique)


def grouped_shape(sizes, groups):
    return [size if one is None else one.max() + 1 for size, one in zip(sizes, groups, strict=True)]


def what_is_protected(rows, sizes, groups):
    """All that a budget is given of a table: the counts and the scores."""
    budget = OpenBudget()
    table = private_counts(rows, sizes, budget)
    cliques, plain = cliques_of(sizes), (None,) * len(sizes)
    for clique in cliques:
        table.measure([clique], [SHARE])
        table.measure([clique], [SHARE], groups)
    rng = np.random.default_rng(0)  # the same guesses for every table, halves and negative numbers too
    for members in [plain, groups]:
        for spread in [1, 3]:
            shapes = [[grouped_shape(sizes, members)[column] for column in clique] for clique in cliques]
            guesses = [rng.integers(-2, 8, shape) / 2 * spread for shape in shapes]
            table.score(cliques, dict(zip(cliques, guesses, strict=True)), members, SHARE)
    counts = [given[1].ravel() for given in budget.given if given[0] == "counts"]
    scores = np.concatenate([given[1] for given in budget.given if given[0] == "scores"])
    return counts, scores


@pytest.fixture(scope="module", params=list(TABLES))
def releases(request):
    """What is protected, of every table of so many rows."""
    sizes, groups = TABLES[request.param]
    rows = list(itertools.product(*map(range, sizes)))
    tables = {
        table: what_is_protected([rows[row] for row in table], sizes, groups)
        for n in range(MAX_ROWS[request.param] + 1)
        for table in itertools.combinations_with_replacement(range(len(rows)), n)
    }
    return len(rows), tables


def neighbours(releases, k):
    """Every pair of tables of which one has k further rows."""
    n_values, tables = releases
    for table, found in tables.items():
        for more in itertools.combinations_with_replacement(range(n_values), k):
            larger = tuple(sorted((*table, *more)))
            if larger in tables:
                yield found, tables[larger]


def test_a_row_changes_each_table_of_counts_and_each_score_by_exactly_1(releases):
    for (counts, scores), (more, other_scores) in neighbours(releases, 1):
        for one, other in zip(counts, more, strict=True):
            change = other - one
            assert np.abs(change).sum() == 1
            assert (change**2).sum() == 1
            assert change.sum() == 1
        assert (np.abs(other_scores - scores) == 1).all()


@each("k", [2, 3])
def test_rows_of_one_person_change_all_by_their_number_at_most(releases, k):
    reached = False
    for (counts, scores), (more, others) in neighbours(releases, k):
        for one, another in zip(counts, more, strict=True):
            change = another - one
            assert np.abs(change).sum() == k
            assert (change**2).sum() <= k**2
            reached |= (change**2).sum() == k**2
        assert (np.abs(others - scores) <= k).all()
    assert reached == (k <= max(map(len, releases[1])))


def test_what_is_measured_is_the_count_of_every_cell():
    sizes, groups = TABLES["three columns"]
    rows = np.random.default_rng(0).integers(0, sizes, (50, 3))
    table = private_counts(rows, sizes)
    for clique in cliques_of(sizes):
        expected = counts_of(rows, sizes, clique)
        np.testing.assert_array_equal(table.measure([clique], [SHARE])[0].counts, expected)
        if len(clique) == 1:  # columns are never grouped
            continue
        small = np.zeros(grouped_shape(expected.shape, groups_of(clique, groups)))
        for cell in np.ndindex(expected.shape):
            to = [v if g is None else g[v] for v, g in zip(cell, groups_of(clique, groups), strict=True)]
            small[tuple(to)] += expected[cell]
        np.testing.assert_array_equal(table.measure([clique], [SHARE], groups)[0].counts, small)


@each("guess", [2.0**36, 2.0**62, 1e300, -1e300])
def test_absurd_guesses_do_not_wrap_around(guess):
    """A sum or product beyond 64 bits would change by much more than 1 with a row."""
    found = []
    for rows in [[[0]], [[0], [1]]]:
        budget = OpenBudget()
        table = private_counts(rows, (4,), budget)
        table.score([(0,)], {(0,): np.full(4, guess)}, (None,), SHARE)
        found.append(int(budget.given[0][1][0]))
    assert abs(found[0] - found[1]) == 1
    assert found[0] >= 0


PERSONS = np.array([0, 1, 0, 2, 0, 1])


class Ordered:
    """Gives the permutation that a test wants."""

    def __init__(self, order):
        self.order = order

    def permutation(self, n):
        assert n == len(self.order)
        return np.array(self.order)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_kept_rows_of_each_person_are_a_uniform_choice_independent_of_all_others(most):
    # So a person's rows come and go without changing the law of the others': enumerated, not sampled.
    orders = itertools.permutations(range(len(PERSONS)))
    law = Counter(tuple(np.flatnonzero(rows_within(PERSONS, most, Ordered(order)))) for order in orders)
    rows = [np.flatnonzero(person == PERSONS) for person in range(3)]
    choices = [list(itertools.combinations(own, min(most, len(own)))) for own in rows]
    assert set(law) == {tuple(sorted(itertools.chain(*parts))) for parts in itertools.product(*choices)}
    assert len(set(law.values())) == 1
