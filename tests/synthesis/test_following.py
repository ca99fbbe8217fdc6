"""Columns of which one follows from the other, as the state from a postcode."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from skdp.synthesis.model import JunctionTree, Marginal
from skdp.synthesis.selection import fit_table
from skdp.synthesis.selection._following import Column, find_dependences, find_following, follow
from skdp.synthesis.selection._scores import IndependentColumns, Score, ask
from tests.synthesis.budgets import OpenBudget, counts_of, make_budget, private_table

N, SIZES = 6000, (120, 6)


def followed(n=N, sizes=SIZES, exceptions=0.0, seed=0):
    """Draw a column, and one that follows from it but for some records."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, sizes[0], n)
    second = np.where(rng.random(n) < exceptions, rng.integers(0, sizes[1], n), first % sizes[1])
    return np.array([first, second]).T


def noisy(rows, sizes, std_error, seed=1):
    """Count columns and the pair with noise."""
    rng = np.random.default_rng(seed)
    cliques = [(0,), (1,), (0, 1)]
    counts = [counts_of(rows, sizes, clique) for clique in cliques]
    return [
        Marginal(clique, count + rng.normal(0, std_error, count.shape), std_error)
        for clique, count in zip(cliques, counts, strict=True)
    ]


def contradicting(fitted, sizes=SIZES):
    table = fitted.model.marginal((0, 1))
    return 1 - table[np.arange(sizes[0]), np.arange(sizes[0]) % sizes[1]].sum()


def test_what_follows_from_a_column_is_kept():
    """From independent columns alone, a tenth of the rows contradicted it."""
    fitted = fit_table(SIZES, noisy(followed(), SIZES, 10))
    assert contradicting(fitted) < 0.001
    assert np.abs(N * fitted.model.marginal((0,)) - counts_of(followed(), SIZES, (0,))).sum() / 2 < 0.08 * N


@pytest.mark.parametrize(("exceptions", "std_error"), [(0.3, 4), (1.0, 4), (0.0, 80)])
def test_a_start_is_independent_if_nothing_follows_or_noise_prevails(exceptions, std_error):
    marginals = noisy(followed(exceptions=exceptions), SIZES, std_error)
    started, marked = started_at(marginals)
    assert all((table == 0).all() for table in started)
    assert marked == marginals


def test_a_rare_label_does_not_follow_from_a_column():
    """Nine tenths of the squares of a pair's counts are those of its common value: none followed, and it vanished."""
    rng = np.random.default_rng(3)
    rows = np.array([rng.integers(0, 13, 30_000), rng.random(30_000) < 0.055]).T.astype(int)
    for seed in range(5):
        fitted = fit_table((13, 2), noisy(rows, (13, 2), 110, seed)[2:])
        assert fitted.model.marginal((1,))[1] > 0.02


def test_noise_does_not_make_an_independent_column_follow():
    """With an error as large as was allowed, a tenth of independent pairs did."""
    rng = np.random.default_rng(0)
    n_records, std_error = 10_000, 60.0
    expected = n_records / 10 * np.outer(np.ones(10), [0.9, 0.1])
    columns = [
        Column(np.full(10, n_records / 10), 0.0, np.full(10, 0.1)),
        Column(n_records * np.array([0.9, 0.1]), 0.0, np.array([0.9, 0.1])),
    ]
    n_followed = 0
    for _ in range(1_000):
        counts = expected + rng.normal(0, std_error, expected.shape)
        n_followed += len(find_dependences([Marginal((0, 1), counts, std_error)], columns))
    assert n_followed < 10


def started_at(marginals, sizes=SIZES, zeros=()):
    tree = JunctionTree(sizes, [marginal.clique for marginal in marginals])
    shares = [counts.clip(1) / counts.clip(1).sum() for counts in (m.counts for m in marginals[: len(sizes)])]
    columns = [Column(m.counts, m.std_error, share) for m, share in zip(marginals, shares, strict=False)]
    potentials = [np.zeros([sizes[column] for column in clique]) for clique in tree.cliques]
    return follow(tree, potentials, marginals, columns, zeros)


def test_only_the_counts_of_what_follows_are_fitted():
    started, marked = started_at(noisy(followed(), SIZES, 5))
    expected = np.arange(SIZES[0])[:, np.newaxis] % SIZES[1] == np.arange(SIZES[1])
    np.testing.assert_array_equal(marked[2].is_fitted, expected)
    assert [marginal.is_fitted for marginal in marked[:2]] == [None, None]
    np.testing.assert_array_equal(started[0] > 0, expected)


def test_what_cannot_occur_is_not_taken_to_follow():
    impossible = np.zeros(SIZES, bool)
    impossible[0, 0] = True
    started, _ = started_at(noisy(followed(), SIZES, 5), zeros=[((0, 1), impossible)])
    assert started[0][0].argmax() != 0
    assert started[0][6].argmax() == 0


def test_each_column_follows_from_one_and_there_is_no_circle():
    first = np.arange(N) % 12
    rows = np.array([first, (first + 5) % 12, first % 4]).T
    sizes, pairs = (12, 12, 4), [(0, 1), (0, 2), (1, 2)]
    marginals = [Marginal((one,), counts_of(rows, sizes, (one,)), 5.0) for one in range(3)]
    marginals += [Marginal(pair, counts_of(rows, sizes, pair), 5.0) for pair in pairs]
    _, marked = started_at(marginals, sizes)
    assert sum(marginal.is_fitted is not None for marginal in marked) == 2
    fitted = fit_table(sizes, marginals)
    for marginal in marginals:
        np.testing.assert_allclose(N * fitted.model.marginal(marginal.clique), marginal.counts, atol=N * 1e-3)


def found(rows, sizes, amount, groups=None, kind="gaussian"):
    """Score pairs of a table, and find what follows."""
    table = private_table(rows, sizes, make_budget(kind, amount))
    counts = [counts_of(rows, sizes, (column,)) for column in range(len(sizes))]
    for column in range(len(sizes)):
        table.measure((column,), Fraction(1, 100))
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    groups = groups or (None,) * len(sizes)
    independent = IndependentColumns(counts, table.marginals[0].std_error, groups)
    scores = ask(table, pairs, independent.guess, Fraction(1, 50), groups)
    before = table.budget.left
    following = find_following(table, counts, scores, groups, table.budget.std_error(Fraction(1, 2)))
    return following, before - table.budget.left


def test_a_pair_of_which_one_follows_costs_the_noise_of_few_cells():
    following, spent = found(followed(), SIZES, 10)
    assert following.keys() == {(0, 1)}
    assert 120 < following[0, 1].n_cells < 120 * 6
    assert spent == 0
    assert found(followed(exceptions=0.3), SIZES, 10)[0] == {}


def test_a_pair_is_scored_by_all_values_if_common_groups_hide_what_follows():
    groups = np.minimum(np.arange(SIZES[0]), 20)
    following, spent = found(followed(), SIZES, 10, (groups, None))
    assert following.keys() == {(0, 1)}
    assert following[0, 1].gain > 1.5 * N
    assert spent == Fraction(1, 6400)
    assert found(followed(), SIZES, Fraction(1, 10**4), (groups, None))[1] == 0  # not worth its noise


def test_no_pair_is_scored_again_if_its_score_would_be_noise():
    """A pure budget of 1 and 1,000 records: scores were nine times as far off as they could be large."""
    groups = np.minimum(np.arange(SIZES[0]), 20)
    assert found(followed(n=1000), SIZES, 1, (groups, None), kind="laplace") == ({}, 0)


def test_chance_is_up_to_three_standard_deviations_above_the_mean_of_independent_columns():
    rng, n, sizes = np.random.default_rng(0), 4_000, (8, 6)
    shares = [rng.dirichlet(np.full(size, 20.0)) for size in sizes]
    independent = IndependentColumns([n * share for share in shares], 0.0, (None, None))
    tables = rng.multinomial(n, np.outer(*shares).ravel(), 4_000)
    scores = np.abs(tables - independent.guess((0, 1)).ravel()).sum(axis=1)
    assert independent.chance((0, 1)) == pytest.approx(scores.mean(), rel=0.02)
    above = np.arange(0.0, 6.0, 0.01)
    is_chance = [independent.is_chance((0, 1), Score(scores.mean() + z * scores.std(), 0.0)) for z in above]
    assert sum(is_chance) / 100 == pytest.approx(3, abs=0.25)


def test_what_follows_from_what_follows_needs_no_pair():
    first = np.random.default_rng(0).integers(0, 60, N)
    rows = np.array([first, first // 5, first // 20]).T
    assert found(rows, (60, 12, 3), 10)[0].keys() == {(0, 1), (1, 2)}


def test_a_record_changes_a_score_of_sparse_cells_by_one():
    """All tables of up to three records: guesses of less than a record a cell are rounded together."""
    sizes, noisy_counts = (3, 2), [np.array([0.4, 1.3, 0.8]), np.array([1.6, 0.9])]

    def score(rows):
        table = private_table(rows, sizes, OpenBudget())
        groups = (None, None)
        guess = IndependentColumns(noisy_counts, 1.0, groups).guess
        return ask(table, [(0, 1)], guess, Fraction(1, 2), groups)[0, 1].noisy

    cells = list(itertools.product(*map(range, sizes)))
    for size in range(3):
        for rows in itertools.combinations_with_replacement(cells, size):
            assert {abs(score([*rows, row]) - score(list(rows))) for row in cells} <= {1.0}
