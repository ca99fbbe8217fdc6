"""Designs of the cells of a table by terms: indicators, numbers and interactions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from skdp._arrays import ColumnName, Floats
from skdp.metrics._labels import list_column_names
from skdp.metrics.counts._cells import Cells, format_level

INTERCEPT = "(intercept)"

# A term is a column, or a tuple of columns for their interaction.
Term = tuple[Any, ...]


def read_terms(
    terms: ColumnName | list[Any], numeric: ColumnName | list[ColumnName] | None
) -> tuple[list[Term], list[Any], list[Any]]:
    """Return the terms, their columns, and the columns with numbers."""
    listed = terms if isinstance(terms, list) else [terms]
    parsed = [term if isinstance(term, tuple) else (term,) for term in listed]
    columns = list(dict.fromkeys(name for term in parsed for name in term))
    list_column_names("terms", columns)
    numbers = list_column_names("numeric", [] if numeric is None else numeric)
    distinct = {frozenset(term) for term in parsed if len({*term}) == len(term)}
    if not columns or len(distinct) < len(parsed):
        raise ValueError(
            "`terms` must be distinct columns, and tuples of columns for interactions, "
            f"got {terms!r}."
        )
    if not {*numbers} <= {*columns}:
        raise ValueError(
            f"`numeric` must be columns among the terms {columns}, got {numbers}."
        )
    return parsed, columns, numbers


def make_design(
    cells: Cells, terms: list[Term], numeric: list[Any], *, has_intercept: bool = True
) -> tuple[Floats, list[str]]:
    """Return the design of all cells by terms, (n_cells, k), and the names of its columns."""
    columns = list(dict.fromkeys(name for term in terms for name in term))
    sizes = [len(cells.levels[name]) for name in cells.levels]
    grid = np.indices(sizes).reshape(len(sizes), -1)
    axes = dict(zip(cells.levels, grid, strict=True))
    blocks = {}
    for name in columns:
        levels = cells.levels[name]
        if name in numeric:
            blocks[name] = [
                (str(name), cells.read_numbers(name, "numeric")[axes[name]])
            ]
            continue
        if len(levels) < 2:
            raise ValueError(
                f"`terms` must be columns with at least two values, got {name!r} with one."
            )
        first = format_level(levels[0])
        blocks[name] = [
            (f"{name}={format_level(level)} v {first}", (axes[name] == k).astype(float))
            for k, level in enumerate(levels)
            if k
        ]
    named = [(INTERCEPT, np.ones(grid.shape[1]))] if has_intercept else []
    for term in terms:
        for parts in product(*(blocks[name] for name in term)):
            labels, factors = zip(*parts, strict=True)
            named.append((" : ".join(labels), np.prod(factors, axis=0)))
    labels, factors = zip(*named, strict=True)
    design = np.column_stack(factors)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError(
            "`terms` must be linearly independent, got a term that is a combination of "
            "other terms."
        )
    return design, list(labels)
