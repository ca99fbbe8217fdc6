"""The parts of a fitted synthesizer in a file: its domain and noisy counts, to which the model is fitted again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Floats
from skdp.domain import Domain, Interval, drop_bins, make_edge_array
from skdp.synthesis.answers._fitted_table import FittedTable
from skdp.synthesis.measure import (
    NumberCounts,
    find_columns,
    fit_counts,
    make_structure,
)
from skdp.synthesis.model import Clique, Marginal, shape_of
from skdp.synthesis.private._number_cells import Shape, find_intervals, with_edges

PARTS = {
    "domain",
    "guarantee",
    "template",
    "features",
    "named",
    "marginals",
    "scores",
    "cells",
    "found",
}


def describe_fitted(fitted: FittedTable) -> dict[str, Any]:
    """Describe the fitted parts by names of columns, as values that a file can store; `read_fitted` reads them."""
    counts = fitted.counts

    def describe(marginal: Marginal) -> dict[str, Any]:
        return {
            "columns": list(fitted.name_columns(marginal.clique)),
            "groups": marginal.groups,
            "counts": marginal.counts,
            "std_error": marginal.std_error,
        }

    cells = []
    for column, interval in counts.numbers.cells.items():
        levels = [describe(marginal) for marginal in counts.numbers.levels[column]]
        name = fitted.domain.columns[column]
        cells.append({"column": name, "edges": list(interval.edges), "levels": levels})
    scores = []
    for pair, (score, std_error) in counts.scores.items():
        scores.append([list(fitted.name_columns(pair)), score, std_error])
    return {
        "domain": fitted.domain,
        "template": fitted.template,
        "features": list(fitted.features),
        "marginals": list(map(describe, counts.marginals)),
        "scores": scores,
        "cells": cells,
        "found": sorted(fitted.found, key=fitted.domain.columns.index),
    }


def read_fitted(parts: dict[str, Any], max_cells: int) -> FittedTable:
    """Check the parts of a file, and fit the model again; `max_cells` is as for `DPMarginalSynthesizer`."""
    if parts.keys() != PARTS:
        raise ValueError(f"The parts of a synthesizer must be {sorted(PARTS)}.")
    domain, template = parts["domain"], parts["template"]
    guarantee, features = parts["guarantee"], tuple(parts["features"])
    modeled = tuple(name for name in features if name not in domain.derived)
    scope = set(guarantee.scope)
    has_target = modeled == domain.columns[:-1]
    is_whole = (modeled == domain.columns or has_target) and len(modeled) > 0
    is_one_table = template.names == domain.columns
    if not is_whole or not is_one_table or not scope <= {*domain.columns, *features}:
        raise ValueError(
            "The domain, the guarantee and the features of a synthesizer must have "
            "matching columns."
        )
    marginals = [_read_marginal(about, domain) for about in parts["marginals"]]
    scores = {}
    for names, score, std_error in parts["scores"]:
        scores[_read_clique(names, domain)] = float(score), _read_error(std_error)
    numbers = _read_numbers(parts["cells"], domain, guarantee.rho is not None)
    counts = fit_counts(make_structure(domain, max_cells), marginals, numbers)
    declared = {name: drop_bins(domain[name]) for name in parts["found"]}
    counts = replace(counts, scores=scores)
    return FittedTable.of(features, template, domain, counts, declared)


def _read_clique(names: Iterable[object], domain: Domain) -> Clique:
    """Return the indices of the columns of a marginal, given their names."""
    clique = tuple(find_columns(domain, names, "marginals"))
    if list(clique) != sorted(clique):
        raise ValueError(
            "The columns of a marginal must be in the order of the domain."
        )
    return clique


def _read_marginal(about: Mapping[str, Any], domain: Domain) -> Marginal:
    """Check and read a measured marginal of `describe_fitted`: its columns, groups, noisy counts and error."""
    clique = _read_clique(about["columns"], domain)
    shape = list(shape_of(clique, domain.sizes))
    groups = about["groups"]
    for axis, members in enumerate(groups or ()):
        if members is not None:
            numbers = np.unique(members)
            is_counted = np.array_equal(numbers, np.arange(numbers.size))
            if members.shape != (shape[axis],) or not is_counted:
                raise ValueError("The groups of a column must cover its values.")
            shape[axis] = numbers.size
    counts = _read_counts(about["counts"], tuple(shape))
    return Marginal(clique, counts, _read_error(about["std_error"]), groups)


def _read_numbers(
    listed: list[Mapping[str, Any]], domain: Domain, is_gaussian: bool
) -> NumberCounts:
    """Read the noisy counts of the fine cells of columns, listed as in `describe_fitted`; cells divide bins."""
    cells = {}
    levels = {}
    values = dict(domain)
    for about in listed:
        name = about["column"]
        (column,) = find_columns(domain, [name], "cells")
        cells[column] = _read_cells(find_intervals(domain)[column], about["edges"])
        fine = Domain(values | {name: cells[column]})
        levels[column] = tuple(_read_marginal(one, fine) for one in about["levels"])
    return NumberCounts(find_intervals(domain), cells, levels, is_gaussian)


def _read_cells(bins: Interval, listed: Sequence[Any]) -> Interval:
    """Read the edges of the fine cells of an interval, and check that they divide its bins."""
    edges = make_edge_array(listed, bins.dtype)
    declared = make_edge_array(bins.edges, bins.dtype)
    is_same = np.array_equal(edges[[0, -1]], declared[[0, -1]])
    if not is_same or not np.isin(declared, edges).all():
        raise ValueError(
            "The fine cells and the bins of a column have different edges."
        )
    return with_edges(bins, edges)


def describe_shapes(
    domain: Domain, shapes: Mapping[int, Shape]
) -> list[dict[str, Any]]:
    """Describe distributions within bins, by index of the column, as values that a file can store."""
    described = []
    for column, shape in shapes.items():
        edges = list(shape.cells.edges)
        name = domain.columns[column]
        proportions = shape.proportions
        described.append({"column": name, "edges": edges, "proportions": proportions})
    return described


def read_shapes(
    domain: Domain, listed: Sequence[Mapping[str, Any]]
) -> dict[int, Shape]:
    """Check and read the distributions of `describe_shapes`."""
    shapes = {}
    for about in listed:
        (column,) = find_columns(domain, [about["column"]], "shapes")
        bins = find_intervals(domain)[column]
        cells = _read_cells(bins, about["edges"])
        numbers = NumberCounts({column: bins}, {column: cells}, {}, is_gaussian=False)
        starts = numbers.find_starts(column)
        proportions = _read_counts(about["proportions"], (starts[-1],))
        sums = np.add.reduceat(proportions, starts[:-1])
        if proportions.min() < 0 or not np.allclose(sums, 1):
            raise ValueError("The proportions of the cells of a bin must add up to 1.")
        shapes[column] = Shape(cells, starts, proportions, levels=())
    return shapes


def _read_counts(counts: NDArray[Any], shape: tuple[int, ...]) -> Floats:
    """Check the counts of all cells of a marginal, with an axis for each column."""
    if counts.shape != shape or not np.isfinite(counts).all():
        raise ValueError("Counts must be finite and have the shape of their marginal.")
    return counts.astype(float)


def _read_error(value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError("A standard error must be a positive number.")
    return float(value)
