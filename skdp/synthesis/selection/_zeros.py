"""What cannot occur: combinations of values, and rules of two columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Categories, Domain, Interval
from skdp.synthesis._queries import find_column, read_conditions
from skdp.synthesis.model import (
    MOST_CELLS,
    Clique,
    JunctionTree,
    expand,
    forbid,
    n_cells_of,
    no_potentials,
    shape_of,
)
from skdp.synthesis.selection._strategy import Zeros
from skdp.synthesis.tables import Relations, ends_of
from skdp.tables import ORDERED_KINDS, kind_of

_ORDER, _MISSING = "<=", "missing with"


def read_zeros(
    zeros: Any, domain: Domain, relations: Relations | None = None, max_cells: int = 0
) -> Zeros:
    """Turn combinations, rules and relations into tables of impossible cells."""
    tables: dict[Clique, NDArray[np.bool_]] = {}
    items = _read_items(zeros)
    for index, item in enumerate(items):
        read = _read_rule if isinstance(item, tuple) else _read_combination
        try:
            clique, is_impossible = read(item, domain)
        except TypeError as error:
            raise TypeError(f"structural_zeros[{index}]: {error}") from None
        except ValueError as error:
            raise ValueError(f"structural_zeros[{index}]: {error}") from None
        tables[clique] = tables.get(clique, False) | is_impossible
    _check_chains(items, domain)
    if relations is not None:
        read_order([*items, *relations.rules])  # refuses circles
        for clique, is_impossible in relations.zeros(domain, max_cells):
            tables[clique] = tables.get(clique, False) | is_impossible
    return tuple(tables.items())


def _read_items(zeros: Any) -> list[Any]:
    """List combinations and rules."""
    if zeros is None:
        return []
    expected = (
        "structural_zeros must be a list of mappings and of rules, which are tuples, "
        f"such as [('start', {_ORDER!r}, 'end')]"
    )
    if isinstance(zeros, str | Mapping) or not isinstance(zeros, Iterable):
        raise TypeError(f"{expected}, got {type(zeros).__name__}")
    items = list(zeros)
    for item in items:
        if not isinstance(item, Mapping | tuple):
            raise TypeError(
                f"{expected}, got a {type(zeros).__name__} with {type(item).__name__}"
            )
    return items


def _read_combination(
    combination: Any, domain: Domain
) -> tuple[Clique, NDArray[np.bool_]]:
    """Return the columns of a combination that cannot occur, and its cells."""
    weights = read_conditions(domain, combination)
    if not weights:
        raise ValueError(
            "a combination must name at least one column, such as {'sex': 'f'}"
        )
    clique = tuple(sorted(weights))
    is_impossible = np.ones((), bool)
    for column in clique:
        if not np.isin(weights[column], (0, 1)).all():
            raise ValueError(
                "a combination must name whole bins, and cuts one of column "
                f"{domain.columns[column]!r}: end its range at edges of the Interval"
            )
        is_impossible = np.logical_and.outer(is_impossible, weights[column] == 1)
    return clique, is_impossible


def _read_rule(
    rule: tuple[Any, ...], domain: Domain
) -> tuple[Clique, NDArray[np.bool_]]:
    """Return the columns of a rule, and which of their cells it excludes."""
    if len(rule) != 3 or rule[1] not in (_ORDER, _MISSING):
        raise ValueError(
            f"a rule must be (column, {_ORDER!r}, column) or "
            f"(column, {_MISSING!r}, column), got {rule!r}"
        )
    first, kind, second = rule
    if first == second:
        raise ValueError(f"a rule must have two columns, got {rule!r}")
    clique = (find_column(domain, first), find_column(domain, second))
    n_cells = n_cells_of(clique, domain.sizes)
    if n_cells > MOST_CELLS:
        raise ValueError(
            f"the rule {rule!r} takes a table of {n_cells:,} cells; at most "
            f"{MOST_CELLS:,} are computed. Declare coarser bins"
        )
    is_missing = {}
    for name in (first, second):
        labels = domain[name].labels
        is_missing[name] = np.array([label is None for label in labels])
    if kind == _ORDER:
        is_excluded = np.zeros(shape_of(clique, domain.sizes), bool)
        present = np.ix_(~is_missing[first], ~is_missing[second])
        is_excluded[present] = ~_in_order(domain, first, second)
    else:
        for name, missing in is_missing.items():
            if not missing.any():
                raise ValueError(
                    f"the rule {rule!r} is of missing values, and column {name!r} does "
                    "not declare missing: add None to its values, or set missing=True"
                )
        is_excluded = np.logical_xor.outer(is_missing[first], is_missing[second])
    if clique[0] > clique[1]:
        return clique[::-1], is_excluded.T
    return clique, is_excluded


def read_order(zeros: Any) -> tuple[tuple[Any, Any], ...]:
    """List the pairs of columns of which the first is never above the second."""
    # A pair stands behind those whose columns are below it: then bounds move up in one
    # pass.
    pairs: list[tuple[Any, Any]] = []
    below: dict[Any, list[Any]] = {}
    for rule in zeros if isinstance(zeros, Iterable) else ():
        if isinstance(rule, tuple) and rule[1] == _ORDER:
            first, _, second = rule
            pairs.append((first, second))
            below.setdefault(second, []).append(first)
    try:
        columns = list(TopologicalSorter(below).static_order())
    except CycleError as error:
        raise ValueError(
            "the rules of structural_zeros, or the relations, go round in a circle: "
            f"{error.args[1]}"
        ) from None
    return tuple(sorted(dict.fromkeys(pairs), key=lambda pair: columns.index(pair[0])))


def _check_chains(zeros: Any, domain: Domain) -> None:
    """Make sure that values can be drawn one by one, if pairs of cells are allowed."""
    # Numbers between bounds can be put in order if no lower bound is above the upper
    # bound of a later number. For pairs with a rule, the excluded cells see to it. For
    # others, it follows if their bins have the same edges.
    order = read_order(zeros)
    # Of two columns, from which cell of the first rules lead to which of the second.
    paths = {}
    for first, second in order:
        paths[first, second] = _in_order(domain, first, second).astype(np.float32)
    for middle in dict.fromkeys(itertools.chain(*order)):
        firsts = []
        seconds = []
        for first, second in paths:
            if second == middle:
                firsts.append(first)
            if first == middle:
                seconds.append(second)
        for first in firsts:
            for second in seconds:
                if (first, second) in paths:
                    continue
                # As a sum of products: the number of cells of the middle on the way.
                has_path = paths[first, middle] @ paths[middle, second] > 0
                if (has_path & ~_in_order(domain, first, second)).any():
                    raise ValueError(
                        f"the rules of structural_zeros do not keep {first!r} below "
                        f"{second!r} where {middle!r} is between them, as its bins "
                        "have other edges: declare the same edges, or add the rule "
                        f"({first!r}, {_ORDER!r}, {second!r})"
                    )
                paths[first, second] = has_path.astype(np.float32)


def _in_order(domain: Domain, first: Any, second: Any) -> NDArray[np.bool_]:
    """Mark the pairs of present cells in which the first value may be at most the second."""
    # (n_present_cells of the first column, n_present_cells of the second).
    first_kind = _kind(first, domain[first])
    second_kind = _kind(second, domain[second])
    if first_kind != second_kind:
        raise ValueError(
            f"columns {first!r} and {second!r} cannot be compared: {first_kind}s, "
            f"{second_kind}s"
        )
    decimals = set()
    for name in (first, second):
        values = domain[name]
        if isinstance(values, Interval):
            decimals.add(values.decimals)
    if len(decimals) > 1:
        raise ValueError(
            f"columns {first!r} and {second!r} can be compared if both are whole or "
            "both real, with the same decimals: set real=True or decimals= of the "
            "Interval with whole edges"
        )
    least, _ = ends_of(domain[first])
    _, most = ends_of(domain[second])
    return least[:, np.newaxis] <= most


def _kind(name: Any, values: Categories | Interval) -> str:
    """Return the kind of the values, which have an order."""
    if isinstance(values, Interval):
        return kind_of(values.edges[0])
    kinds = set()
    for value in values.values:
        if getattr(value, "tzinfo", None) is not None:
            kinds.add("time with a zone")
        elif value is not None:
            kinds.add(kind_of(value))
    kinds = kinds or {"missing value"}
    without_order = kinds.difference(ORDERED_KINDS)
    if without_order:
        raise ValueError(
            f"column {name!r} cannot be compared: it must have numbers or dates, not "
            f"{min(without_order)}s"
        )
    return kinds.pop()


def leaves_something(sizes: Sequence[int], zeros: Zeros) -> bool:
    """Return whether some row has none of the combinations that cannot occur."""
    tree = JunctionTree(sizes, [clique for clique, _ in zeros])
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
