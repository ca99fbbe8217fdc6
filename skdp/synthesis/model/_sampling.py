"""Rows drawn from a graphical model."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis.model._graphical_model import (
    GraphicalModel,
)
from skdp.synthesis.model._tables import (
    Clique,
    Table,
    project,
)

_RADIX = 1 << 16
"""The most groups that NumPy sorts in linear time."""


def sample(
    model: GraphicalModel,
    n: int,
    rng: np.random.Generator,
    columns: Iterable[int] | None = None,
) -> NDArray[np.int32]:
    """Draw n rows by their codes: (n_columns, n)."""
    # If only some columns are asked for, those of the cliques that are needed for them
    # are drawn, and all others are left at 0.
    # Columns are drawn one after the other, each given those of its clique that are
    # drawn already. Within a group of rows that agree on those, values are stratified
    # (one uniform number in each of as many equal parts of [0, 1) as the group has
    # rows) and dealt to the rows at random: each row has the model's law, and counts
    # vary less than those of independent rows.
    tree = model.tree
    rows = np.zeros((len(tree.sizes), n), np.int32)
    drawn: list[int] = []
    if columns is None:
        columns = range(len(tree.sizes))
    for clique_index in tree.path(columns):
        clique = tree.cliques[clique_index]
        belief = model.beliefs[clique_index]
        for column in clique:
            if column in drawn:
                continue
            conditions = _common(clique, drawn)
            law = project(belief, clique, (*conditions, column))
            # Rows with the same values of the conditions have the same number, that of
            # the cell in row-major order.
            groups = np.zeros(n, np.int64)
            for condition in conditions:
                groups *= tree.sizes[condition]
                groups += rows[condition]
            law_of_groups = law.reshape(-1, tree.sizes[column])
            rows[column] = draw(law_of_groups, groups, rng)
            drawn.append(column)
    return rows


def _common(columns: Clique, names: Collection[int]) -> Clique:
    """Return the columns that are among these names, in their own order."""
    return tuple(column for column in columns if column in names)


def draw(
    law: Table, groups: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw a value for each row by the law of its group, a row of a table."""
    n_groups, n_values = law.shape
    # Shuffled first: within a group, a stable sort then keeps a random order.
    order = rng.permutation(groups.size)
    if n_groups > 1:
        keys = groups.astype(np.uint16) if n_groups <= _RADIX else groups
        order = order[np.argsort(keys[order], kind="stable")]
    sizes = np.bincount(groups, minlength=n_groups)
    stops = np.cumsum(sizes)
    starts = stops - sizes
    ranks = np.arange(groups.size) - np.repeat(starts, sizes)
    uniforms = (ranks + rng.random(groups.size)) / np.repeat(sizes, sizes)
    positions = uniforms + np.repeat(np.arange(n_groups), sizes)

    # A group without a law is uniform.
    steps = np.cumsum(law, axis=1)
    even = np.tile(np.linspace(1 / n_values, 1, n_values), (n_groups, 1))
    has_law = steps[:, -1:] > 0
    steps = np.divide(steps, steps[:, -1:], out=even, where=has_law)

    # Positions increase, so the steps, of which there are mostly fewer, are looked up
    # among them. A sum of a group's number and a share below 1 may round up to the
    # next group.
    ends = np.searchsorted(positions, np.arange(n_groups)[:, np.newaxis] + steps)
    ends = np.maximum(ends, starts[:, np.newaxis])
    ends = np.where(steps < 1, ends, stops[:, np.newaxis])
    codes = np.tile(np.arange(n_values, dtype=np.int32), n_groups)
    values = np.empty(groups.size, np.int32)
    values[order] = np.repeat(codes, np.diff(ends.ravel(), prepend=0))
    return values
