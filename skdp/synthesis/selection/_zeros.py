"""Combinations of values that cannot occur: reading them, and which of them a model needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain
from skdp.synthesis._queries import read_conditions
from skdp.synthesis._rules import check_chains, read_rule
from skdp.synthesis.model import (
    MOST_CELLS,
    Clique,
    Elimination,
    GraphicalModel,
    JunctionTree,
    calibrate,
    expand,
)
from skdp.synthesis.selection._strategy import forbid

Zeros: TypeAlias = tuple[tuple[Clique, NDArray[np.bool_]], ...]
"""Columns, and which of their cells are impossible."""


def read_zeros(zeros: Any, domain: Domain) -> Zeros:
    """Turn combinations that cannot occur into tables of cells."""
    if zeros is None:
        return ()
    if isinstance(zeros, Mapping) or not isinstance(zeros, Iterable):
        raise TypeError(
            f"structural_zeros must be a list of mappings and rules, got {type(zeros).__name__}"
        )
    zeros = list(zeros)
    for one in zeros:
        if not isinstance(one, Mapping | tuple):
            raise TypeError(
                f"structural_zeros must be a list of mappings and rules, which are tuples, got a list with "
                f"{type(one).__name__}"
            )
    found: dict[Clique, NDArray[np.bool_]] = {}
    for one in zeros:
        clique, cells = (
            read_rule(one, domain)
            if isinstance(one, tuple)
            else _read_combination(one, domain)
        )
        table = found.setdefault(
            clique, np.zeros([domain.sizes[column] for column in clique], bool)
        )
        table[cells] = True
    check_chains(zeros, domain)
    return tuple(found.items())


def _read_combination(
    combination: Any, domain: Domain
) -> tuple[Clique, tuple[NDArray[np.intp], ...]]:
    """Return the columns of a combination that cannot occur, and the indices of its cells."""
    weights = read_conditions(domain, combination)
    if not weights:
        raise ValueError(
            "a combination of structural_zeros must name at least one column"
        )
    for column, weight in weights.items():
        if ((weight != 0) & (weight != 1)).any():
            raise ValueError(
                f"a combination of structural_zeros must name whole bins, and cuts one of column "
                f"{domain.columns[column]!r}"
            )
    clique = tuple(sorted(weights))
    return clique, np.ix_(*(weights[column] == 1 for column in clique))


def leaves_something(sizes: Sequence[int], zeros: Zeros) -> bool:
    """Return whether some row has none of the combinations that cannot occur."""
    tree = JunctionTree(sizes, [clique for clique, _ in zeros])
    possible = [
        np.ones([sizes[column] for column in clique], bool) for clique in tree.cliques
    ]
    for clique, impossible in zeros:
        place = tree.holder(clique)
        assert place is not None  # the tree was made for it
        possible[place] &= ~expand(impossible, clique, tree.cliques[place])
    for link in reversed(tree.links):
        child = tree.cliques[link.child]
        dropped = tuple(
            axis for axis, column in enumerate(child) if column not in link.separator
        )
        message = np.asarray(possible[link.child].any(axis=dropped))
        possible[link.parent] &= expand(
            message, link.separator, tree.cliques[link.parent]
        )
    return bool(possible[0].any())


def needed_zeros(sizes: Sequence[int], zeros: Zeros, most: int) -> Zeros:
    """Leave out what follows from the rest, if all together take a clique of too many cells."""
    # Where a postcode has one city and a city one state, the states of postcodes follow: a chain of two pairs excludes
    # all that the triangle does, without a table of all three columns.
    kept = list(zeros)
    for zero in sorted(zeros, key=lambda zero: -zero[1].size):
        if _cells(sizes, kept) <= most:
            break
        others = [other for other in kept if other is not zero]
        if _follows(sizes, tuple(others), *zero):
            kept = others
    return tuple(kept)


def _cells(
    sizes: Sequence[int], zeros: Iterable[tuple[Clique, NDArray[np.bool_]]]
) -> int:
    """Count the cells of the largest clique that zeros take."""
    return Elimination(sizes, [clique for clique, _ in zeros]).n_cells[0]


def _follows(
    sizes: Sequence[int], zeros: Zeros, clique: Clique, impossible: NDArray[np.bool_]
) -> bool:
    """Return whether rows without some combinations never have some others either."""
    if _cells(sizes, zeros) > MOST_CELLS or not leaves_something(sizes, zeros):
        return False
    tree = JunctionTree(sizes, [one for one, _ in zeros])
    uniform = [np.zeros([sizes[column] for column in one]) for one in tree.cliques]
    try:
        share = GraphicalModel(
            tree, calibrate(tree, forbid(tree, uniform, zeros))
        ).marginal(clique)
    except ValueError:  # more cells than are computed
        return False
    return not (share[impossible] > 0).any()
