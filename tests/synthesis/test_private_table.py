from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from skdp.synthesis.selection import PrivateTable
from skdp.synthesis.tables import CodedRecords
from tests.conftest import each
from tests.synthesis.budgets import OpenBudget, counts_of, make_budget, private_table

SHARE = Fraction(1, 1000)
TABLES = {
    "two columns": ((2, 2), (None, np.array([0, 0]))),
    "three values": ((3, 2), (np.array([1, 0, 1]), None)),
    "three columns": ((2, 3, 2), (None, np.array([0, 1, 1]), np.array([0, 0]))),
    "four columns": ((2, 2, 1, 2), (None, np.array([0, 0]), None, None)),
}
MOST_ROWS = {"two columns": 4, "three values": 3, "three columns": 2, "four columns": 2}


def cliques_of(sizes):
    return [clique for size in range(1, len(sizes) + 1) for clique in itertools.combinations(range(len(sizes)), size)]


def groups_of(clique, groups):
    return tuple(groups[column] for column in clique)


def grouped_shape(sizes, groups):
    return [size if one is None else one.max() + 1 for size, one in zip(sizes, groups, strict=True)]


def what_is_protected(rows, sizes, groups):
    """All that a budget is given of a table: the counts, the scores, and the scores of a choice."""
    budget = OpenBudget()
    table = private_table(rows, sizes, budget)
    cliques, plain = cliques_of(sizes), (None,) * len(sizes)
    for clique in cliques:
        table.measure(clique, SHARE)
        table.measure(clique, SHARE, groups_of(clique, groups))
    rng = np.random.default_rng(0)  # the same guesses for every table, halves and negative numbers too
    for members in [plain, groups]:
        for spread in [1, 3]:
            shapes = [[grouped_shape(sizes, members)[column] for column in clique] for clique in cliques]
            guesses = [rng.integers(-2, 8, shape) / 2 * spread for shape in shapes]
            table.score(cliques, guesses, SHARE, members)
    weights = [2 * len(clique) for clique in cliques]
    guesses = [rng.integers(-2, 8, [sizes[column] for column in clique]) / 2 for clique in cliques]
    table.choose(cliques, guesses, weights, list(range(len(cliques))), SHARE)
    counts = [given[1].ravel() for given in budget.given if given[0] == "counts"]
    scores = np.concatenate([given[1] for given in budget.given if given[0] == "scores"])
    (choice,) = (given[1:] for given in budget.given if given[0] == "choice")
    return counts, scores, choice, weights


@pytest.fixture(scope="module", params=list(TABLES))
def releases(request):
    """What is protected, of every table of so many rows."""
    sizes, groups = TABLES[request.param]
    rows = list(itertools.product(*map(range, sizes)))
    tables = {
        table: what_is_protected([rows[row] for row in table], sizes, groups)
        for n in range(MOST_ROWS[request.param] + 1)
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


def test_a_row_changes_each_table_of_counts_by_exactly_1(releases):
    for (counts, *_), (more, *_) in neighbours(releases, 1):
        for one, other in zip(counts, more, strict=True):
            change = other - one
            assert np.abs(change).sum() == 1
            assert (change**2).sum() == 1
            assert change.sum() == 1


def test_a_row_changes_each_score_by_exactly_1(releases):
    for (_, scores, choice, weights), (_, more, other, _) in neighbours(releases, 1):
        assert (np.abs(more - scores) == 1).all()
        assert (np.abs(other[0] - choice[0]) == weights).all()
        assert choice[1] == max(weights)


@each("k", [2, 3])
def test_rows_of_one_person_change_all_by_their_number_at_most(releases, k):
    reached = False
    for (counts, scores, choice, weights), (more, others, other, _) in neighbours(releases, k):
        for one, another in zip(counts, more, strict=True):
            change = another - one
            assert np.abs(change).sum() == k
            assert (change**2).sum() <= k**2
            reached |= (change**2).sum() == k**2
        assert (np.abs(others - scores) <= k).all()
        assert (np.abs(other[0] - choice[0]) <= k * np.array(weights)).all()
    assert reached == (k <= max(map(len, releases[1])))


def test_what_is_measured_is_the_count_of_every_cell():
    sizes, groups = TABLES["three columns"]
    rows = np.random.default_rng(0).integers(0, sizes, (50, 3))
    table = private_table(rows, sizes)
    for clique in cliques_of(sizes):
        expected = counts_of(rows, sizes, clique)
        for _ in range(2):  # counted, and remembered
            np.testing.assert_array_equal(table.measure(clique, SHARE).counts, expected)
        small = np.zeros(grouped_shape(expected.shape, groups_of(clique, groups)))
        for cell in np.ndindex(expected.shape):
            to = [v if g is None else g[v] for v, g in zip(cell, groups_of(clique, groups), strict=True)]
            small[tuple(to)] += expected[cell]
        np.testing.assert_array_equal(table.measure(clique, SHARE, groups_of(clique, groups)).counts, small)


def test_counts_that_are_not_kept_are_counted_again(monkeypatch):
    monkeypatch.setattr("skdp.synthesis.tables._records._MOST_KEPT", 0)
    table = private_table([[0, 1], [1, 1]], (2, 2))
    first, second = (table.measure((0, 1), SHARE).counts for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_table_without_rows_has_zeros():
    table = private_table([], (2, 3))
    np.testing.assert_array_equal(table.measure((0, 1), SHARE).counts, np.zeros((2, 3)))


def test_scores_and_choices():
    budget = OpenBudget()
    table = private_table([[0], [0], [1]], (3,), budget)
    guess = np.array([0.4, 1.6, 2.5])  # rounded to 0, 2, 2
    assert table.score([(0,)], [guess], SHARE, (None,)).tolist() == [2 + 1 + 2]
    assert table.choose([(0,), (0,)], [guess, guess], [3, 2], [1, -10], SHARE) == 1
    assert budget.given[-1][1].tolist() == [3 * (5 - 1), 2 * (5 + 10)]


class NoisyBudget(OpenBudget):
    """Adds 1000 to everything."""

    def counts(self, source, share, counts):
        return super().counts(source, share, counts) + 1000

    def scores(self, source, share, scores):
        return super().scores(source, share, scores) + 1000


def test_only_what_is_noisy_leaves():
    table = private_table([[0, 1], [1, 1]], (2, 2), NoisyBudget())
    marginal = table.measure((0, 1), SHARE)
    assert marginal.counts.tolist() == [[1000, 1001], [1000, 1001]]
    assert table.score([(0,)], [np.zeros(2)], SHARE, (None, None)).tolist() == [1002]
    assert table.choose([(0,)], [np.zeros(2)], [1], [0], SHARE) == 0
    public = {name for name in dir(table) if not name.startswith("_")}
    assert public == {
        "sizes",
        "budget",
        "say",
        "marginals",
        "scores",
        "progress",
        "prepare",
        "measure",
        "score",
        "choose",
        "part",
        "coarser",
    }
    assert table.marginals == [marginal]
    assert marginal.std_error == table.budget.std_error(SHARE)
    assert "[" not in repr(table)


def test_each_release_takes_its_share():
    for kind in ["gaussian", "laplace"]:
        table = private_table([[0, 1], [1, 1]], (2, 2), make_budget(kind, 1))
        table.measure((0,), Fraction(1, 2))
        table.score([(0,), (1,)], [np.zeros(2)] * 2, Fraction(1, 3), (None, None))
        table.choose([(0,), (1,)], [np.zeros(2)] * 2, [1, 1], [0, 0], Fraction(1, 12))
        assert table.budget.left == Fraction(1, 12)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_what_costs_too_much_is_refused_before_a_draw(scripted_source, kind):
    source = scripted_source()
    table = PrivateTable(CodedRecords([np.array([0, 1])], (2,)), (2,), make_budget(kind, 1), source)
    guesses, share = [np.zeros(2)], Fraction(3, 2)
    with pytest.raises(RuntimeError):
        table.measure((0,), share)
    with pytest.raises(RuntimeError):
        table.score([(0,)], guesses, share, (None,))
    with pytest.raises(RuntimeError):
        table.choose([(0,)], guesses, [1], [0], share)
    assert source.used == 0
    assert table.marginals == []
    assert table.budget.left == 1


@each("guess", [2.0**36, 2.0**62, 1e300, -1e300])
def test_absurd_guesses_do_not_wrap_around(guess):
    """A sum or product beyond 64 bits would change by much more than 1 with a row."""
    found = []
    for rows in [[[0]], [[0], [1]]]:
        budget = OpenBudget()
        table = private_table(rows, (2,), budget)
        table.score([(0,)], [np.full(2, guess)], SHARE, (None,))
        table.choose([(0,)], [np.full(2, guess)], [10**9], [10**30], SHARE)
        found.append([int(given[1][0]) for given in budget.given])
    (score, choice), (other_score, other_choice) = found
    assert abs(score - other_score) == 1
    assert abs(choice - other_choice) == 10**9
    assert score >= 0


def test_progress_is_told_to_whoever_listens():
    said = []
    table = PrivateTable(CodedRecords([np.array([0])], (2,)), (2,), OpenBudget(), None, said.append)
    table.say("round 1")
    assert said == ["round 1"]
    assert private_table([[0]], (2,)).say("nobody listens") is None
