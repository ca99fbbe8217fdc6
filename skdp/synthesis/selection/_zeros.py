"""Combinations of declared values that break a constraint of the domain."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.domain import Categories, Domain
from skdp.synthesis.model import (
    Clique,
    Elimination,
    JunctionTree,
    expand,
    forbid,
    no_potentials,
    shape_of,
)
from skdp.synthesis.selection._strategy import CLIQUES_OF_A_MODEL, Zeros


def find_zeros(domain: Domain, max_cells: int) -> Zeros:
    """Return the impossible cells of constraints on columns of listed values, while the model stays small."""
    # Constraints on numbers within bins, and those that take too many cells, hold as
    # rows that break them are drawn again.
    graph = Elimination(domain.sizes, [])
    zeros: dict[Clique, NDArray[np.bool_]] = {}
    for constraint in domain._constraints:
        names = [name for name in domain.columns if name in constraint.columns]
        are_listed = all(isinstance(domain[name], Categories) for name in names)
        clique = tuple(map(domain.columns.index, names))
        if not are_listed or len(names) < len(constraint.columns) or clique in zeros:
            continue
        if not graph.add(clique, max_cells, CLIQUES_OF_A_MODEL * max_cells):
            continue
        shape = shape_of(clique, domain.sizes)
        cells = np.indices(shape).reshape(len(shape), -1)
        columns = {}
        for name, codes in zip(names, cells, strict=True):
            values = np.empty(len(domain[name].values), object)
            values[:] = domain[name].values
            columns[name] = pd.Series(values[codes], dtype=object)
        is_valid = domain.select(names).check_constraints(pd.DataFrame(columns))
        if not is_valid.all():
            zeros[clique] = ~is_valid.reshape(shape)
    if not _leaves_something(domain, tuple(zeros.items())):
        raise ValueError(
            f"the constraints {list(domain.constraints)} leave no combination of the "
            "declared values: leave some out, or declare further values"
        )
    return tuple(zeros.items())


def _leaves_something(domain: Domain, zeros: Zeros) -> bool:
    """Return whether some row has none of the combinations that cannot occur."""
    tree = JunctionTree(domain.sizes, [clique for clique, _ in zeros])
    logs = forbid(tree, no_potentials(tree), zeros)
    is_possible = [table > -np.inf for table in logs]
    for link in reversed(tree.links):
        child = tree.cliques[link.child]
        # A cell of the separator is possible if some cell of the child is that has it.
        axes = []
        for axis, column in enumerate(child):
            if column not in link.separator:
                axes.append(axis)
        message = np.asarray(is_possible[link.child].any(axis=tuple(axes)))
        parent = tree.cliques[link.parent]
        is_possible[link.parent] &= expand(message, link.separator, parent)
    return bool(is_possible[0].any())
