"""Columns that follow from others, as a state from its postcode."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import DisjointSet

from skdp.base import SURE_STD_ERRORS
from skdp.synthesis.model import (
    Clique,
    Groups,
    JunctionTree,
    Marginal,
    estimate_total,
    expand,
)
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.selection._scores import (
    SCORE_SHARE,
    IndependentColumns,
    Score,
    ask,
)

NOISE_COST = 0.5
"""What noise costs a cell, in standard deviations.

Less than its mean, .8, since negative counts are repaired."""

_LEAST_FOLLOWING_SHARE = 0.9
"""The share of what a pair would have if one column followed, from which it does.

Of its score, or of the squares of its counts. With .8, pairs of "places" are 8 and 10 %
farther from the truth at epsilons of 1 and .3; with .95, those of "postcodes" 7 % at .3, and
others change by less than their noise (3 tables, 3 seeds)."""

MOST_SCORED_AGAIN = 100
"""The most pairs that are scored again, by all values."""

_LARGEST_GROUPED_SHARE = 0.05
"""The share of records of grouped values that may hide that a column follows.

Without it, errors of "postcodes" at epsilon 1 are 6 % larger."""

LEAST_SHARE = 1e-6
"""The share of a value that no record has, so that logarithms are finite."""


@dataclass(frozen=True)
class Following:
    """A pair of which one column follows from the other, the finer one."""

    gain: float
    """Twice the number of records that independent columns misplace."""
    n_cells: float
    """The number of cells whose noise costs as much as that of the pair."""


@dataclass(frozen=True)
class Cells:
    """How values are counted together, and how many cells' noise a marginal has."""

    sizes: tuple[int, ...]
    groups: Groups
    following: Mapping[Clique, Following] = field(default_factory=dict)
    """Pairs of which one column follows: they are counted by all values."""

    def of(self, clique: Clique) -> Groups | None:
        """Return the groups of a marginal's columns, None if it has none."""
        groups = tuple(self.groups[column] for column in clique)
        if len(clique) == 1 or clique in self.following:
            return None
        return None if all(members is None for members in groups) else groups

    def cost(self, clique: Clique) -> float:
        """Return the number of cells whose noise costs as much as that of a marginal."""
        if clique in self.following:
            return self.following[clique].n_cells
        n_cells = 1.0
        for column in clique:
            members = self.groups[column]
            if members is None:
                n_cells *= self.sizes[column]
            else:
                n_cells *= int(members.max()) + 1
        return n_cells

    @property
    def counted_by_pairs(self) -> set[int]:
        """The columns of which such a pair tells how often each value occurs."""
        finer = set()
        for pair in self.following:
            finer.add(max(pair, key=self.sizes.__getitem__))
        return finer


def find_following(
    table: PrivateTable,
    counts: Sequence[NDArray[np.float64]],
    scores: Mapping[Clique, Score],
    groups: Groups,
    least_count_error: float,
) -> dict[Clique, Following]:
    """Find pairs of which one column follows, and spend on scores of those that groups may hide.

    No pair is counted with less noise than `least_count_error`.
    """
    # A fine column is seldom worth its cells: a thousand postcodes have 20,000 of them
    # with 20 states. But if the state follows, 19,000 are empty, and what is noise in
    # them is told from counts.
    gains: dict[Clique, float] = {}
    for pair, score in scores.items():
        if len(pair) == 2:
            gains[pair] = score.gain
    hidden = _hidden_pairs(table, counts, gains, groups, least_count_error)
    if hidden:
        all_values: Groups = (None,) * len(counts)
        independent = _independent_columns(table, counts)
        share = SCORE_SHARE * len(hidden)
        again = ask(table, hidden, independent.guess, share, all_values)
        for pair, score in again.items():
            gains[pair] = score.gain
    return following_pairs(table, counts, gains)


def following_pairs(
    table: PrivateTable,
    counts: Sequence[NDArray[np.float64]],
    gains: Mapping[Clique, float],
) -> dict[Clique, Following]:
    """Return pairs of which one column follows, given their gains, by groups of values or by all."""
    # What is by chance is in both: it says nothing of whether a column follows.
    independent = _independent_columns(table, counts)
    if_one_follows = _IfOneFollows(counts)
    follows: dict[Clique, Following] = {}
    for pair, gain in gains.items():
        full = if_one_follows.of(pair)
        if gain < _LEAST_FOLLOWING_SHARE * full.gain:
            continue
        chance = independent.chance(pair)
        if gain - chance >= _LEAST_FOLLOWING_SHARE * (full.gain - chance) > 0:
            follows[pair] = replace(full, gain=gain)
    # A column is linked to the coarsest one that it follows from: a state to the city,
    # and the city to the postcode, which then tells the state, too.
    sizes = list(map(len, counts))
    links: dict[int, Clique] = {}
    for pair in sorted(follows, key=lambda pair: max(sizes[column] for column in pair)):
        links.setdefault(min(pair, key=sizes.__getitem__), pair)
    return {pair: follows[pair] for pair in links.values()}


def _independent_columns(
    table: PrivateTable, counts: Sequence[NDArray[np.float64]]
) -> IndependentColumns:
    """Return independent columns with these counts, by all of their values."""
    errors = table.column_errors(len(counts))
    return IndependentColumns(counts, errors, (None,) * len(counts))


class _IfOneFollows:
    """What pairs would gain and cost if one column followed from the finer."""

    def __init__(self, counts: Sequence[NDArray[np.float64]]) -> None:
        total = max(1.0, float(counts[0].sum()))
        self._sizes = list(map(len, counts))
        self._gains = []  # with each column as the coarser one
        for coarse in counts:
            squares = float(((coarse / total) ** 2).sum())
            self._gains.append(2 * total * (1 - squares))

    def of(self, pair: Clique) -> Following:
        """Return it for a pair."""
        # A value has one cell that is not empty, and it is missed if the noise of any
        # other one is as large as its count: the largest of n numbers is sqrt(2 log n).
        fine, coarse = sorted(pair, key=self._sizes.__getitem__, reverse=True)
        size = self._sizes[coarse]
        noise_of_value = max(1.0, math.sqrt(2 * math.log(size)) / NOISE_COST)
        n_cells = self._sizes[fine] * min(noise_of_value, float(size))
        return Following(self._gains[coarse], n_cells)


def _hidden_pairs(
    table: PrivateTable,
    counts: Sequence[NDArray[np.float64]],
    gains: Mapping[Clique, float],
    groups: Groups,
    least_count_error: float,
) -> list[Clique]:
    """List pairs of which values that are counted together may hide that one follows."""
    # They are scored by all values, if they would be worth the noise, and their other
    # records do not speak against it.
    grouped_shares = []
    for column_counts, members in zip(counts, groups, strict=True):
        n_grouped = 0.0
        if members is not None:
            is_grouped = np.bincount(members)[members] > 1
            n_grouped = float(column_counts[is_grouped].sum())
        grouped_shares.append(n_grouped / max(1.0, float(column_counts.sum())))
    score_error = table.budget.score_error(
        SCORE_SHARE * MOST_SCORED_AGAIN, MOST_SCORED_AGAIN
    )
    if_one_follows = _IfOneFollows(counts)
    hidden: dict[Clique, Following] = {}
    for pair, gain in gains.items():
        following = if_one_follows.of(pair)
        grouped_share = grouped_shares[pair[0]] + grouped_shares[pair[1]]
        noise_of_cells = NOISE_COST * least_count_error * following.n_cells
        noise = max(noise_of_cells, SURE_STD_ERRORS * score_error)
        least_gain = (_LEAST_FOLLOWING_SHARE - grouped_share) * following.gain
        is_open = (
            grouped_share > _LARGEST_GROUPED_SHARE and max(0.0, gain) >= least_gain
        )
        if following.gain > noise and is_open:
            hidden[pair] = following
    first = sorted(hidden, key=lambda pair: hidden[pair].n_cells / hidden[pair].gain)
    return first[:MOST_SCORED_AGAIN]


@dataclass(frozen=True, eq=False)
class Column:
    """The counts of a single column, and their error: 0 if they are exact."""

    counts: NDArray[np.float64]
    std_error: float
    shares: NDArray[np.float64]
    """Of its values: positive, and adding up to 1."""

    @property
    def squares(self) -> float:
        """The sum of the squares of the counts, without bias."""
        squares = float((self.counts**2).sum())
        return squares - self.counts.size * self.std_error**2


@dataclass(frozen=True, eq=False)
class Dependence:
    """That one column of a pair follows from the other."""

    parent: int
    child: int
    likelihood_ratio: NDArray[np.float64]
    """The probability of the child's values given the parent's, over their shares."""
    is_fitted: NDArray[np.bool_]
    doubt: float
    """The expected share of records whose value is taken for another one."""


def find_dependences(
    marginals: Sequence[Marginal],
    columns: Sequence[Column],
    zeros: Iterable[tuple[Clique, NDArray[np.bool_]]] = (),
) -> dict[int, Dependence]:
    """Find marginals of which one column follows from the other, by their index."""
    # Each column follows from one at most, the surest first, without a circle.
    impossible = dict(zeros)
    candidates = []
    for index, marginal in enumerate(marginals):
        if len(marginal.clique) == 2 and marginal.groups is None:
            for axes in ((0, 1), (1, 0)):
                dependence = _read_dependence(marginal, axes, columns, impossible)
                if dependence is not None:
                    candidates.append((index, dependence))
    candidates.sort(key=lambda candidate: candidate[1].doubt)
    trees = DisjointSet(range(len(columns)))
    children = set()
    dependences = {}
    for index, dependence in candidates:
        if dependence.child in children:
            continue
        if trees.connected(dependence.parent, dependence.child):
            continue
        trees.merge(dependence.parent, dependence.child)
        children.add(dependence.child)
        dependences[index] = dependence
    return dependences


def mark_dependences(
    marginals: Sequence[Marginal],
    columns: Sequence[Column],
    zeros: Iterable[tuple[Clique, NDArray[np.bool_]]] = (),
) -> tuple[list[Marginal], dict[Clique, NDArray[np.float64]]]:
    """Mark which counts are fitted where a column follows from another; also return the likelihood ratios there."""
    marked = list(marginals)
    ratios = {}
    for index, dependence in find_dependences(marginals, columns, zeros).items():
        marginal = marginals[index]
        marked[index] = replace(marginal, is_fitted=dependence.is_fitted)
        ratios[marginal.clique] = dependence.likelihood_ratio
    return marked, ratios


def follow(
    tree: JunctionTree,
    potentials: Iterable[NDArray[np.float64]],
    marginals: Iterable[Marginal],
    columns: Sequence[Column],
    zeros: Iterable[tuple[Clique, NDArray[np.bool_]]] = (),
) -> tuple[list[NDArray[np.float64]], list[Marginal]]:
    """Let columns follow from others if noisy counts say so, and mark what is noise."""
    # A descent from independent columns leaves in empty cells much of the noise that is
    # there. If every value of a column comes with one value of another, the counts say
    # with which, mostly beyond doubt: there it starts, and only these counts are
    # fitted, as those of all other cells are noise.
    marked, ratios = mark_dependences(list(marginals), columns, zeros)
    tables = list(potentials)
    for clique, ratio in ratios.items():
        holder = tree.holder_of(clique)
        logs = expand(np.log(ratio), clique, tree.cliques[holder])
        tables[holder] = tables[holder] + logs
    return tables, marked


def _read_dependence(
    marginal: Marginal,
    axes: tuple[int, int],
    columns: Sequence[Column],
    zeros: Mapping[Clique, NDArray[np.bool_]],
) -> Dependence | None:
    """Find the value that comes with each of a column's; None if noise prevails."""
    parent = marginal.clique[axes[0]]
    child = marginal.clique[axes[1]]
    shares = columns[child].shares
    variance = marginal.std_error**2
    noisy = np.transpose(marginal.counts, axes)  # (n_parent_values, n_child_values)
    exceptions = _share_of_exceptions(noisy, variance, columns[parent], shares)
    if exceptions is None:
        return None
    is_impossible = np.zeros(noisy.shape, bool)
    if marginal.clique in zeros:
        is_impossible = np.transpose(zeros[marginal.clique], axes)
    parent_shares = columns[parent].shares
    total, _ = estimate_total([marginal])
    law = _values_that_follow(
        noisy, variance, total * parent_shares, shares, is_impossible
    )
    doubt = float(parent_shares @ (1 - law.max(axis=1)))
    # With exceptions, other cells are not empty.
    is_fitted = (law > 0.5) | (exceptions > 0)
    law = law + (exceptions + LEAST_SHARE) * (shares - law)
    inverse = np.argsort(axes)
    return Dependence(
        parent,
        child,
        np.transpose(law / shares, inverse),
        np.transpose(is_fitted, inverse),
        doubt,
    )


def _share_of_exceptions(
    noisy: NDArray[np.float64],
    variance: float,
    parent: Column,
    child_shares: NDArray[np.float64],
) -> float | None:
    """Return the share of records without the value that follows; None if none does."""
    # If cells of each value but one are empty, the squares of all counts add up to as
    # much as those of the parent's values.
    squares = float((noisy**2).sum()) - noisy.size * variance
    missing_squares = parent.squares - squares
    noise_of_squares = variance * (2 * noisy.size * variance + 4 * max(0.0, squares))
    noise_of_parent = 4 * parent.std_error**2 * max(0.0, parent.squares)
    error = math.sqrt(noise_of_squares + noise_of_parent)
    # An independent column misses a share of them, too: a small one, if most records
    # have the same value. Noise must not be what makes it look as if it followed, so at
    # most a fourth of that may be missing, and the noise must be smaller.
    missing_by_chance = (1 - float((child_shares**2).sum())) * parent.squares
    limit = min((1 - _LEAST_FOLLOWING_SHARE) * parent.squares, missing_by_chance / 4)
    if max(missing_squares - 2 * error, error) > limit:
        return None
    if missing_squares + SURE_STD_ERRORS * error > missing_by_chance:
        return None
    if missing_squares <= SURE_STD_ERRORS * error:
        return 0.0
    # Exceptions e, spread over many values, leave (1 - e)**2 of the squares.
    return 1 - math.sqrt(squares / parent.squares)


def _values_that_follow(
    noisy: NDArray[np.float64],
    variance: float,
    parent_counts: NDArray[np.float64],
    child_shares: NDArray[np.float64],
    is_impossible: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return the probability that each value is the one that follows from a parent's."""
    # Bayes: by chance, a value is as likely as its share; the noise is Gaussian, around
    # the parent's count in the cell of that value, and around 0 in all others.
    counts = parent_counts[:, np.newaxis]
    logs = np.log(child_shares) + (noisy - counts / 2) * (counts / variance)
    logs = np.where(is_impossible, logs.min() - 1e3, logs)
    law = np.exp(logs - logs.max(axis=1, keepdims=True))
    law /= law.sum(axis=1, keepdims=True)
    return law
