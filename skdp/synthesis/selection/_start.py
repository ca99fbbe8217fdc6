"""Where a descent starts: at independent columns, but for those that follow from another one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import DisjointSet

from skdp.synthesis.model import Clique, JunctionTree, Marginal, estimate_total, expand

_CLEAR, _SURE = 0.9, 3.0
"""The share of the squares of counts, if a column followed, from which it does; standard errors that are exceptions."""

_MANY, _MOST_COMMON, _UNEVEN = 20, 0.5, 0.02
"""Of values that come with all of another column: of how many, their share of records, and of squares what is alike."""

_COUNTED, _LEAST = 0.5, 1e-6
"""From which probability a count is fitted, and the least that a value has, as a share of what it has alone."""


@dataclass(frozen=True, eq=False)
class Column:
    """The noisy counts of a single column, and their error."""

    noisy: NDArray[np.float64]
    std_error: float
    shares: NDArray[np.float64]
    """Of its values: positive, and adding up to 1."""

    @property
    def squares(self) -> float:
        """The sum of the squares of the counts, without bias."""
        return float((self.noisy**2).sum()) - self.noisy.size * self.std_error**2


@dataclass(frozen=True, eq=False)
class _Follows:
    """That one column follows from another."""

    parent: int
    child: int
    relative: NDArray[np.float64]
    """The probability of each value of the child, given the parent's, over its share."""
    counted: NDArray[np.bool_]
    doubt: float
    """The expected share of records whose value is taken for another one."""


def follow(
    tree: JunctionTree,
    potentials: Sequence[NDArray[np.float64]],
    marginals: Sequence[Marginal],
    columns: Sequence[Column],
    zeros: Sequence[tuple[Clique, NDArray[np.bool_]]] = (),
) -> tuple[list[NDArray[np.float64]], list[Marginal]]:
    """Let columns follow from others if noisy counts say so, each from one, without a circle; mark what is noise."""
    # A descent from independent columns leaves in empty cells much of the noise that is there. If every value of a
    # column comes with one value of another, the counts say with which, mostly beyond doubt: there it starts, and only
    # these counts are fitted, as those of all other cells are noise. Some values may come with all alike besides, as a
    # state that is missing at random.
    found = [
        (place, follows)
        for place, marginal in enumerate(marginals)
        if len(marginal.clique) == 2 and marginal.groups is None
        for axes in ((0, 1), (1, 0))
        if (follows := _read(marginal, axes, columns, dict(zeros))) is not None
    ]
    started, marked, joined, given = (
        list(potentials),
        list(marginals),
        DisjointSet(range(len(columns))),
        set[int](),
    )
    for place, follows in sorted(found, key=lambda one: one[1].doubt):
        if follows.child not in given and not joined.connected(
            follows.parent, follows.child
        ):
            joined.merge(follows.parent, follows.child)
            given.add(follows.child)
            clique = marginals[place].clique
            holder = tree.holder(clique)
            assert holder is not None  # the tree was made for it
            started[holder] = started[holder] + expand(
                np.log(follows.relative), clique, tree.cliques[holder]
            )
            marked[place] = replace(marginals[place], counted=follows.counted)
    return started, marked


def _read(
    marginal: Marginal,
    axes: tuple[int, int],
    columns: Sequence[Column],
    zeros: Mapping[Clique, NDArray[np.bool_]],
) -> _Follows | None:
    """Find the value that comes with each of a column's values; None if several do, or noise prevails."""
    parent, child = (marginal.clique[axis] for axis in axes)
    (total, _), noise = estimate_total([marginal]), marginal.std_error
    noisy, rows, alone = (
        np.transpose(marginal.counts, axes),
        columns[parent],
        columns[child].shares,
    )
    common = _common(noisy, noise, rows, alone)
    some = 1 - float(alone[common].sum())
    # If cells of each value but one are empty, the squares of all counts add up to as much as those of the values.
    cells, squares = noisy[:, ~common], some**2 * rows.squares
    have = float((cells**2).sum()) - cells.size * noise**2
    variance = noise**2 * (2 * cells.size * noise**2 + 4 * max(0.0, have))
    error = math.sqrt(
        variance + 4 * some**4 * rows.std_error**2 * max(0.0, rows.squares)
    )
    short = squares - have
    if (
        max(short - 2 * error, error) > (1 - _CLEAR) * squares
        or (alone[~common] ** 2).sum() > _CLEAR * some**2
    ):
        return None
    counts = some * total * rows.shares[:, np.newaxis]
    logs = np.log(alone) + (noisy - counts / 2) * (counts / noise**2)
    logs = np.where(common, -np.inf, logs)
    if marginal.clique in zeros:
        logs = np.where(
            np.transpose(zeros[marginal.clique], axes),
            logs.min(where=~common, initial=0.0) - 1e3,
            logs,
        )
    law = np.exp(logs - logs.max(axis=1, keepdims=True))
    law /= law.sum(axis=1, keepdims=True)
    doubt = float(rows.shares @ (1 - law.max(axis=1)))
    exceptions = 1 - math.sqrt(have / squares) if short > _SURE * error else 0.0
    counted = (law > _COUNTED) | common | (exceptions > 0)
    law = some * law + np.where(common, alone, 0.0)
    law = law + (exceptions + _LEAST) * (alone - law)
    back = np.argsort(axes)
    return _Follows(
        parent,
        child,
        np.transpose(law / alone, back),
        np.transpose(counted, back),
        doubt,
    )


def _common(
    noisy: NDArray[np.float64], noise: float, rows: Column, alone: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Find values that come with all values of another column alike, as a missing one; at most half of the records."""
    # The squares of such a value's counts add up to the square of its share of those of all rows; if it followed, to at
    # least those of the smallest rows that hold its records. And its counts are near this share of each row's.
    n, total = len(noisy), float(noisy.sum())
    have = (noisy**2).sum(axis=0) - n * noise**2
    error = noise * np.sqrt(2 * n * noise**2 + 4 * np.maximum(0.0, have))
    sizes = np.sort(rows.shares)
    squares = np.cumsum(sizes**2)
    least = np.interp(alone, np.cumsum(sizes), squares / squares[-1])
    common = (alone**2 < least) & (
        have + 2 * error < (alone**2 + least) / 2 * rows.squares
    )
    chance = (
        n * noise**2 + alone**2 * n * rows.std_error**2 + total * alone * (1 - alone)
    )
    off = ((noisy - total * np.multiply.outer(rows.shares, alone)) ** 2).sum(
        axis=0
    ) - chance
    common &= off < _UNEVEN * alone**2 * rows.squares + 2 * math.sqrt(2 / n) * chance
    return np.asarray(
        common & (n >= _MANY) & (float(alone[common].sum()) <= _MOST_COMMON)
    )
