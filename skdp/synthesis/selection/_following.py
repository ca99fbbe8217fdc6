"""Pairs of which one column follows from the other: how they are found, and what their noise costs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis.model import Clique, Groups, group
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.selection._strategy import Plan, score_marginals

NOISE = 0.52
"""What noise costs a cell, in standard deviations: less than its mean, .8, since negative counts are repaired."""

CAUTION = 0.5
"""The standard deviations of its noise by which a score is lowered."""

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)  # of a standard normal number

_SHARE, _MOST = Fraction(1, 6400), 100
"""The share of the budget of each further score, and their number."""

_READABLE = 3.0
"""Of the standard deviation of its noise: what such a score must be able to reach."""

_FOLLOWS, _HIDDEN = 0.9, 0.05
"""The share of its highest score from which one column follows from another, and of records that may hide it."""

_LEAST = 1e-6


@dataclass(frozen=True)
class Cells:
    """How values are counted together, and how many cells' noise a marginal has."""

    sizes: tuple[int, ...]
    groups: Groups
    following: Mapping[Clique, float] = field(default_factory=dict)
    """Pairs of which one column follows from the other: they are counted by all values, and noise costs less."""

    def of(self, clique: Clique) -> Groups | None:
        """Return the groups of a marginal's columns, None if it has none."""
        found = tuple(self.groups[column] for column in clique)
        whole = (
            len(clique) == 1
            or clique in self.following
            or all(members is None for members in found)
        )
        return None if whole else found

    def cost(self, clique: Clique) -> float:
        """Count the groups of values of a marginal, or the cells whose noise costs as much."""
        if clique in self.following:
            return self.following[clique]
        groups = ((self.groups[column], self.sizes[column]) for column in clique)
        return float(
            math.prod(
                size if members is None else int(members.max()) + 1
                for members, size in groups
            )
        )

    @property
    def told(self) -> set[int]:
        """The columns of which such a pair tells how often each value occurs."""
        return {max(pair, key=self.sizes.__getitem__) for pair in self.following}


def deviations(
    cliques: Sequence[Clique],
    counts: Sequence[NDArray[np.float64]],
    error: float,
    groups: Groups,
) -> NDArray[np.float64]:
    """Estimate the scores of independent columns: how far counts are off by chance, and by the noise of the columns."""
    total = max(1.0, float(counts[0].sum()))
    rough = [
        np.maximum(group(count, (members,)), _LEAST)
        for count, members in zip(counts, groups, strict=True)
    ]
    variances = [
        (
            np.minimum(
                error * math.sqrt(fine.size / one.size), np.maximum(one, error / 2)
            )
            / one
        )
        ** 2
        for fine, one in zip(counts, rough, strict=True)
    ]
    found = []
    for clique in cliques:
        expected = (
            reduce(np.multiply.outer, (rough[column] / total for column in clique))
            * total
        )
        relative = reduce(np.add.outer, (variances[column] for column in clique))
        found.append(
            MEAN_ABSOLUTE * float(np.sqrt(expected + expected**2 * relative).sum())
        )
    return np.array(found)


def find_following(
    table: PrivateTable,
    counts: Sequence[NDArray[np.float64]],
    gains: dict[Clique, float],
    groups: Groups,
    share: Fraction,
) -> dict[Clique, float]:
    """Find pairs of which one column follows from the other, and how many cells' noise each has; set their gains."""
    # A fine column is seldom worth its cells: a thousand postcodes have 20,000 of them with 20 states. But if the state
    # follows, 19,000 are empty, and what is noise in them is told from counts.
    total, unit = max(1.0, float(counts[0].sum())), table.budget.std_error(share)
    pairs = {
        pair: _if_one_follows(pair, counts, total) for pair in gains if len(pair) == 2
    }
    known, noise = dict(gains), table.budget.score_error(_SHARE * _MOST, _MOST)
    together = [
        _together(count, members) for count, members in zip(counts, groups, strict=True)
    ]
    # Values that are counted together hide it: such pairs are scored by all values, if they would be worth the noise,
    # and their other records do not speak against it.
    hidden = [
        pair
        for pair, (most, cells) in pairs.items()
        if most > max(NOISE * unit * cells, _READABLE * noise)
        and (held := together[pair[0]] + together[pair[1]]) > _HIDDEN
        and max(0.0, known[pair]) >= (_FOLLOWS - held) * most
    ]
    hidden = sorted(hidden, key=lambda pair: pairs[pair][1] / pairs[pair][0])[:_MOST]
    if hidden:
        part, before = _SHARE * len(hidden), dict(table.scores)
        scores = score_marginals(
            table, hidden, counts, part
        ) - CAUTION * table.budget.score_error(part, len(hidden))
        table.scores.update(before)
        known |= dict(zip(hidden, scores.tolist(), strict=True))
    likely = [
        pair for pair, (most, _) in pairs.items() if known[pair] >= _FOLLOWS * most > 0
    ]
    chances = deviations(
        likely, counts, table.marginals[0].std_error, (None,) * len(counts)
    )
    found = [
        pair
        for pair, chance in zip(likely, chances, strict=True)
        if known[pair] - chance >= _FOLLOWS * (pairs[pair][0] - chance) > 0
    ]
    gains |= {pair: known[pair] for pair in found}
    indirect = _indirect(found, [count.size for count in counts])
    return {pair: pairs[pair][1] for pair in found if pair not in indirect}


def _if_one_follows(
    pair: Clique, counts: Sequence[NDArray[np.float64]], total: float
) -> tuple[float, float]:
    """Return the score of a pair if one column follows from the finer one, and how many cells' noise it would have."""
    # A value has one cell that is not empty, and is missed if the noise of any other one is as large as its count.
    by, given = sorted((counts[column] for column in pair), key=len, reverse=True)
    most = 2 * total * (1 - float(((given / total) ** 2).sum()))
    return most, min(
        by.size * max(1.0, math.sqrt(2 * math.log(given.size)) / NOISE),
        float(by.size * given.size),
    )


def _together(counts: NDArray[np.float64], members: NDArray[np.intp] | None) -> float:
    """Return the share of records whose values are counted together with others."""
    return (
        0.0
        if members is None
        else float(
            counts[np.bincount(members)[members] > 1].sum() / max(1.0, counts.sum())
        )
    )


def _indirect(following: Iterable[Clique], sizes: Sequence[int]) -> set[Clique]:
    """List pairs of a column with what follows from what follows from it."""
    links = [sorted(pair, key=sizes.__getitem__, reverse=True) for pair in following]
    return {
        (min(first, last), max(first, last))
        for (first, one), (other, last) in itertools.product(links, links)
        if one == other and sizes[first] > sizes[one] > sizes[last]
    }


def find_explained(
    following: Collection[Clique],
    plan: Plan,
    gains: Mapping[Clique, float],
    chances: Mapping[Clique, float],
) -> set[Clique]:
    """List pairs of a column of which what follows from it tells as much, if there is no room for both."""
    found = set[Clique]()
    for pair in following:
        given, by = sorted(pair, key=plan.sizes.__getitem__)
        for other in {*range(len(plan.sizes))} - {given, by}:
            one, another = (
                (min(column, other), max(column, other)) for column in (by, given)
            )
            large = plan.n_cells((given, by, other)) > plan.max_cells
            if (
                large
                and one in chances
                and gains[one] - gains.get(another, math.inf) < chances[one]
            ):
                found.add(one)
    return found - set(following)
