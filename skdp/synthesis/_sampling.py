"""Rows drawn from a graphical model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis._graphical_model import GraphicalModel
from skdp.synthesis._tables import Table

_RADIX = 1 << 16
"""Up to so many groups, NumPy sorts in linear time."""


def sample(model: GraphicalModel, n: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Draw rows from a model."""
    # Columns are drawn one after the other, each given the columns of its clique that are there already. Within a group
    # of rows that agree on those, the values' numbers are as even as they can be (one uniform number in each of as many
    # equal parts of [0, 1) as the group has rows), and which row of the group gets which value is uniformly random:
    # each row has the model's law, columns that the model holds independent given others are so, and counts vary less
    # than those of independent rows.
    sizes = model.tree.sizes
    rows = np.empty((len(sizes), n), np.int32)
    done: set[int] = set()
    for belief, clique in zip(model.beliefs, model.tree.cliques, strict=True):
        for column in clique:
            if column in done:
                continue
            given = [other for other in clique if other in done]
            table = _conditional(belief, clique, given, column)
            groups = _join([rows[other] for other in given], [sizes[other] for other in given], n)
            rows[column] = draw(table, groups, rng)
            done.add(column)
    return rows


def draw(table: Table, groups: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
    """Draw a value for each row, given its group."""
    n_groups, n_values = table.shape
    # Shuffled first: within a group, a stable sort then keeps a random order.
    order = rng.permutation(groups.size)
    if n_groups > 1:
        shuffled = groups[order]
        narrow = shuffled.astype(np.uint16) if n_groups <= _RADIX else shuffled
        order = order[np.argsort(narrow, kind="stable")]
    sizes = np.bincount(groups, minlength=n_groups)
    starts = np.cumsum(sizes) - sizes
    ordered = np.repeat(np.arange(n_groups), sizes)
    place = (np.arange(groups.size) - starts[ordered] + rng.random(groups.size)) / np.maximum(sizes, 1)[ordered]
    steps = np.cumsum(table, axis=1)
    last = steps[:, -1:]
    steps = np.divide(steps, last, out=np.tile(np.linspace(1 / n_values, 1, n_values), (n_groups, 1)), where=last > 0)
    bounds = (np.arange(n_groups)[:, np.newaxis] + steps).ravel()
    found = np.searchsorted(bounds, ordered + place, side="right") - ordered * n_values
    # A sum of a group's number and a share below 1 may round up to the next group.
    likeliest_last = n_values - 1 - np.argmax(table[:, ::-1] > 0, axis=1)
    values = np.empty(groups.size, np.int32)
    values[order] = np.minimum(found, likeliest_last[ordered])
    return values


def _conditional(belief: Table, clique: Sequence[int], given: Sequence[int], column: int) -> Table:
    """Sum a clique's marginal to a table with a row for each combination of the given columns."""
    dropped = tuple(axis for axis, other in enumerate(clique) if other != column and other not in given)
    kept = [other for other in clique if other == column or other in given]
    table = np.moveaxis(belief.sum(axis=dropped) if dropped else belief, kept.index(column), -1)
    return table.reshape(-1, table.shape[-1])


def _join(columns: Sequence[NDArray[np.int32]], sizes: Sequence[int], n: int) -> NDArray[np.int64]:
    """Combine the codes of some columns into group numbers, the last column fastest."""
    groups = np.zeros(n, np.int64)
    for column, size in zip(columns, sizes, strict=True):
        groups *= size
        groups += column
    return groups
