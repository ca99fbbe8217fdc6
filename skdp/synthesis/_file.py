"""The parts of a fitted synthesizer in a file: its domain and noisy counts, to which the model is fitted again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval
from skdp.privacy import PrivacyGuarantee
from skdp.synthesis.model import Clique, Groups, Marginal, fit_model, shape_of
from skdp.synthesis.selection import (
    CellCounts,
    Fitted,
    find_columns,
    make_shape,
    structure_of,
)
from skdp.synthesis.tables import Shape, make_template, with_edges
from skdp.tables import Table

PARTS = {
    "domain",
    "guarantee",
    "template",
    "features",
    "named",
    "marginals",
    "scores",
    "cells",
}


def describe_fit(synthesizer: Any) -> dict[str, Any]:
    """Describe the fitted parts by names of columns."""
    names = synthesizer.domain_.columns
    marginals = []
    for marginal in synthesizer.marginals_:
        described = {"columns": [names[column] for column in marginal.clique]}
        described |= {"groups": marginal.groups, "counts": marginal.counts}
        marginals.append(described | {"std_error": marginal.std_error})
    cells = []
    for column, shape in synthesizer._shapes.items():
        described = {"column": names[column], "edges": list(shape.cells.edges)}
        described |= {"counts": shape.counts, "std_error": shape.std_error}
        cells.append(described)
    scores = []
    for pair, (score, std_error) in synthesizer._scores.items():
        scores.append([[names[column] for column in pair], score, std_error])
    return {
        "domain": synthesizer.domain_,
        "guarantee": synthesizer.guarantee_,
        "template": synthesizer._template,
        "features": list(synthesizer._features),
        "named": hasattr(synthesizer, "feature_names_in_"),
        "marginals": marginals,
        "scores": scores,
        "cells": cells,
    }


def restore_fit(synthesizer: Any, parts: dict[str, Any]) -> None:
    """Check the parts of a file, and fit the model again."""
    if parts.keys() != PARTS:
        raise ValueError("the parts of a fitted synthesizer differ")
    domain, template = parts["domain"], parts["template"]
    guarantee = parts["guarantee"]
    expected = (domain, Domain), (guarantee, PrivacyGuarantee), (template, Table)
    for value, kind in expected:
        if not isinstance(value, kind):
            raise ValueError(f"a part must be a {kind.__name__}")
    features = tuple(parts["features"])
    modeled = tuple(name for name in features if name not in domain.derived)
    if not modeled or modeled not in (domain.columns, domain.columns[:-1]):
        raise ValueError("the columns of X differ from the columns of the domain")
    if template.names != domain.columns:
        raise ValueError("the template and the domain have different columns")
    if not set(guarantee.scope) <= {*domain.columns, *features}:
        raise ValueError("the guarantee and the domain have different columns")
    marginals = [_read_marginal(about, domain) for about in parts["marginals"]]
    if not marginals:
        raise ValueError("there must be at least one marginal")
    scores = {}
    for names, score, std_error in parts["scores"]:
        pair = _read_clique(names, domain)
        scores[pair] = float(score), _read_error(std_error)
    shapes = {}
    for about in parts["cells"]:
        (column,) = find_columns(domain, [about["column"]], "cells")
        bins = domain[about["column"]]
        shapes[column] = _read_shape(about, bins, guarantee)
    structure = structure_of(domain, synthesizer.max_cells)
    # Nothing is set before all parts are read.
    fitted = Fitted(*fit_model(structure, marginals), scores)
    template = make_template(template, domain)
    synthesizer._set_fit(domain, marginals, shapes, fitted, features, template)
    synthesizer.guarantee_ = guarantee
    synthesizer.n_features_in_ = len(features)
    if parts["named"] is True:
        synthesizer.feature_names_in_ = np.array(features, object)


def _read_clique(names: Any, domain: Domain) -> Clique:
    clique = tuple(find_columns(domain, names, "marginals"))
    if list(clique) != sorted(clique):
        raise ValueError("the columns of a marginal must be in the order of the domain")
    return clique


def _read_marginal(about: Mapping[str, Any], domain: Domain) -> Marginal:
    clique = _read_clique(about["columns"], domain)
    shape = list(shape_of(clique, domain.sizes))
    groups = about["groups"] and _read_groups(about["groups"], shape)
    for axis, members in enumerate(groups or ()):
        if members is not None:
            shape[axis] = int(members.max()) + 1
    counts = _read_counts(about["counts"], tuple(shape))
    return Marginal(clique, counts, _read_error(about["std_error"]), groups)


def _read_groups(described: Sequence[Any], sizes: Sequence[int]) -> Groups:
    """Read the group of each value, numbered from 0 without gaps."""
    groups: list[NDArray[np.intp] | None] = []
    for listed, size in zip(described, sizes, strict=True):
        if listed is not None:
            members = np.array(listed, np.intp)
            numbers = np.unique(members)
            if members.shape != (size,) or (numbers != np.arange(numbers.size)).any():
                raise ValueError("the groups of a column do not fit its values")
        groups.append(None if listed is None else members)
    return tuple(groups)


def _read_shape(
    about: Mapping[str, Any], bins: Any, guarantee: PrivacyGuarantee
) -> Shape:
    """Read the noisy counts of the fine cells of a column."""
    if not isinstance(bins, Interval):
        raise ValueError("fine cells must be of numbers or dates")
    edges = np.array(about["edges"], bins.dtype)
    declared = np.array(bins.edges, bins.dtype)
    is_same = (edges[[0, -1]] == declared[[0, -1]]).all()
    if not is_same or not np.isin(declared, edges).all():
        raise ValueError("the fine cells and the bins of a column have different edges")
    counts = _read_counts(about["counts"], (edges.size - 1,))
    cells = with_edges(bins, edges)
    is_gaussian = guarantee.rho is not None
    counted = CellCounts.of(cells, counts, _read_error(about["std_error"]), is_gaussian)
    return make_shape(cells, bins, counted)


def _read_counts(counts: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    if not isinstance(counts, np.ndarray) or counts.dtype != np.float64:
        raise ValueError("counts must be numbers of 64 bits")
    if counts.shape != shape or not np.isfinite(counts).all():
        raise ValueError("counts have another shape, or are not finite")
    return counts


def _read_error(value: Any) -> float:
    if not 0 < value < math.inf:
        raise ValueError("a standard error must be a positive number")
    return float(value)
