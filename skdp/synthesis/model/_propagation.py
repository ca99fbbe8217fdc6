"""Passing messages in a junction tree: the marginals of a product of tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis.model._graphical_model import JunctionTree
from skdp.synthesis.model._tables import (
    Clique,
    Projections,
    Table,
    Tables,
    divide,
    expand,
    log_sum,
)

_LEAST = 1e-200


class Propagation:
    """The distribution in proportion to a product: of a table for each clique, and of a factor for some marginals."""

    # Factors are small tables, given by their logarithms, and are turned into numbers before they are spread over the
    # cells of cliques. The messages of a clique's children and its factors are a part of one vector, and its sums to
    # the same marginals that of another. All is scaled to a maximum of 1. If a message vanishes, which takes factors
    # hundreds apart, all is done again in logarithms, at several times the cost.

    def __init__(
        self,
        tree: JunctionTree,
        potentials: Sequence[Table],
        marginals: Sequence[Clique] = (),
    ) -> None:
        self._tree, self._potentials = tree, list(potentials)
        self._tables = [np.exp(table - table.max()) for table in potentials]
        self._logs = Tables(
            [[tree.sizes[column] for column in marginal] for marginal in marginals]
        )
        self._at = np.empty(self._logs.size, np.intp)
        self._children: list[list[int]] = [[] for _ in tree.cliques]
        for link in tree.links:
            self._children[link.parent].append(link.child)
        holders = [tree.holder(marginal) for marginal in marginals]
        self._below: list[Projections] = []
        self._parts: list[slice] = []
        self._messages = [slice(0)] * len(tree.cliques)
        end = 0
        for place, clique in enumerate(tree.cliques):
            start = end
            for child in self._children[place]:
                size = tree.n_cells(tree.links[child - 1].separator)
                self._messages[child], end = slice(end, end + size), end + size
            inside = [index for index, holder in enumerate(holders) if holder == place]
            for index in inside:
                numbers = self._at[self._logs.parts[index]]
                numbers[:] = np.arange(end, end + numbers.size)
                end += numbers.size
            shared = [
                tree.links[child - 1].separator for child in self._children[place]
            ]
            self._below.append(
                Projections(
                    clique,
                    tree.sizes,
                    [*shared, *(marginals[index] for index in inside)],
                )
            )
            self._parts.append(slice(start, end))
        self._above = [
            Projections(
                clique, tree.sizes, [tree.links[place - 1].separator] if place else []
            )
            for place, clique in enumerate(tree.cliques)
        ]

    def sums(self, tables: Sequence[Table]) -> NDArray[np.float64]:
        """Sum tables of all cliques to the marginals that have factors."""
        pairs = zip(self._below, tables, strict=True)
        return np.concatenate([below.project(table) for below, table in pairs])[
            self._at
        ]

    def joined(self, logs: NDArray[np.float64]) -> list[Table]:
        """Return potentials that stand for all of the product."""
        vector = np.zeros(self._parts[-1].stop)
        vector[self._at] = logs
        parts = zip(self._potentials, self._below, self._parts, strict=True)
        return [table + below.lift(vector[part]) for table, below, part in parts]

    def run(self, logs: NDArray[np.float64]) -> tuple[list[Table], NDArray[np.float64]]:
        """Return the marginals of all cliques, and of what has factors."""
        vector = np.empty(self._parts[-1].stop)
        if logs.size:
            vector[self._at] = np.exp(self._logs.below_peaks(logs))
        tables, scales = list(self._tables), [1.0] * len(self._tables)
        for place in reversed(range(len(tables))):
            tables[place] = tables[place] * self._below[place].lift(
                vector[self._parts[place]], np.multiply
            )
            if place > 0:
                message = self._above[place].project(tables[place])
                most = message.max()
                if not most > _LEAST:
                    return self._in_logs(logs)
                vector[self._messages[place]], scales[place] = message / most, most
        total = tables[0].sum()
        if not total > _LEAST:
            return self._in_logs(logs)
        tables[0] /= total
        found = np.empty_like(vector)
        for place, table in enumerate(tables):
            found[self._parts[place]] = self._below[place].project(table)
            for child in self._children[place]:
                said = vector[self._messages[child]]
                ratio = divide(found[self._messages[child]], said)
                total = ratio @ said * scales[child]
                if not max(_LEAST, _LEAST * ratio.max()) < total < np.inf:
                    return self._in_logs(logs)
                tables[child] *= self._above[child].lift(ratio / total)
        return tables, found[self._at]

    def _in_logs(
        self, logs: NDArray[np.float64]
    ) -> tuple[list[Table], NDArray[np.float64]]:
        beliefs = _calibrate_logs(self._tree, self.joined(logs))
        return beliefs, self.sums(beliefs)


def calibrate(tree: JunctionTree, potentials: Sequence[Table]) -> list[Table]:
    """Return the marginals of all cliques."""
    return Propagation(tree, potentials).run(np.empty(0))[0]


def _calibrate_logs(tree: JunctionTree, potentials: Sequence[Table]) -> list[Table]:
    """Pass the same messages as logarithms."""
    tables = list(potentials)
    messages: dict[int, Table] = {}
    for link in reversed(tree.links):
        messages[link.child] = message = _log_project(
            tables[link.child], tree.cliques[link.child], link.separator
        )
        tables[link.parent] = tables[link.parent] + expand(
            message, link.separator, tree.cliques[link.parent]
        )
    for link in tree.links:
        above = _log_project(
            tables[link.parent], tree.cliques[link.parent], link.separator
        )
        # Minus infinity less itself stays minus infinity: what has no probability stays without.
        ratio = np.subtract(
            above,
            messages[link.child],
            out=np.full_like(above, -np.inf),
            where=above > -np.inf,
        )
        tables[link.child] = tables[link.child] + expand(
            ratio, link.separator, tree.cliques[link.child]
        )
    beliefs = [np.exp(table - table.max()) for table in tables]
    return [belief / belief.sum() for belief in beliefs]


def _log_project(table: Table, columns: Clique, keep: Sequence[int]) -> Table:
    return log_sum(
        table, tuple(axis for axis, column in enumerate(columns) if column not in keep)
    )
