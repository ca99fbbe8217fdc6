"""Turning potentials into marginals: messages along a junction tree."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from skdp.synthesis._junction_tree import Clique, JunctionTree
from skdp.synthesis._tables import Table, divide, expand, project

_LEAST = 1e-200


def calibrate(tree: JunctionTree, potentials: Sequence[Table]) -> list[Table]:
    """Pass messages to the root and back."""
    # In linear space, where each clique costs one exponential function and otherwise sums and products; each table is
    # scaled to a maximum of 1 before it is multiplied. Should all of a clique's cells vanish in that, which takes
    # potentials hundreds apart, it is done again in logarithms, at several times the cost.
    tables = [np.exp(potential - potential.max()) for potential in potentials]
    messages: dict[int, Table] = {}
    for link in reversed(tree.links):
        message = project(tables[link.child], tree.cliques[link.child], link.separator)
        messages[link.child] = message = message / message.max()
        tables[link.parent] = tables[link.parent] * expand(message, link.separator, tree.cliques[link.parent])
        largest = tables[link.parent].max()
        if largest < _LEAST:
            return _calibrate_logs(tree, potentials)
        tables[link.parent] /= largest
    tables[0] = tables[0] / tables[0].sum()
    for link in tree.links:
        above = project(tables[link.parent], tree.cliques[link.parent], link.separator)
        ratio = divide(above, messages[link.child])
        tables[link.child] = tables[link.child] * expand(ratio, link.separator, tree.cliques[link.child])
        total = tables[link.child].sum()
        if not _LEAST < total < math.inf:
            return _calibrate_logs(tree, potentials)
        tables[link.child] /= total
    return tables


def _calibrate_logs(tree: JunctionTree, potentials: Sequence[Table]) -> list[Table]:
    """Pass the same messages as logarithms."""
    tables = list(potentials)
    messages: dict[int, Table] = {}
    for link in reversed(tree.links):
        messages[link.child] = message = _log_project(tables[link.child], tree.cliques[link.child], link.separator)
        tables[link.parent] = tables[link.parent] + expand(message, link.separator, tree.cliques[link.parent])
    for link in tree.links:
        above = _log_project(tables[link.parent], tree.cliques[link.parent], link.separator)
        # Minus infinity less itself stays minus infinity: what has no probability stays without.
        ratio = np.subtract(above, messages[link.child], out=np.full_like(above, -np.inf), where=above > -np.inf)
        tables[link.child] = tables[link.child] + expand(ratio, link.separator, tree.cliques[link.child])
    beliefs = [np.exp(table - table.max()) for table in tables]
    return [belief / belief.sum() for belief in beliefs]


def _log_project(table: Table, columns: Clique, keep: Sequence[int]) -> Table:
    dropped = tuple(axis for axis, column in enumerate(columns) if column not in keep)
    peaks = table.max(axis=dropped, keepdims=True)
    peaks = np.where(peaks > -np.inf, peaks, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(table - peaks).sum(axis=dropped)) + peaks.sum(axis=dropped)
