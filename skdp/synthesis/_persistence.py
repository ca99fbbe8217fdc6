"""A fitted synthesizer as a file: a ZIP archive of JSON, a domain file, and arrays of numbers. Nothing in it is run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skdp.archive import Archive, reading, write_archive
from skdp.base import CallCounter
from skdp.domain import Domain, Interval, pack, unpack
from skdp.privacy import Mu, PrivacyGuarantee, Rho
from skdp.synthesis._packing import pack_template, unpack_template
from skdp.synthesis._pair_scores import read_scores
from skdp.synthesis.model import (
    MOST_CELLS,
    Clique,
    GraphicalModel,
    Groups,
    JunctionTree,
    Marginal,
    project,
)
from skdp.synthesis.tables import Shape, Shapes, count_others

_FORMAT, _VERSION = "skdp.DPMarginalSynthesizer", 1
LEFT_OUT = ("domain", "ledger", "random_state", "verbose")
"""Parameters that are not saved: the fitted domain is; a seed would undo the noise; a ledger belongs to the curator."""

_TOLERANCE = 1e-6

ReadArray: TypeAlias = Callable[[str, tuple[int, ...]], NDArray[Any]]
"""Reads the array of a name, which has a known shape."""


def write_synthesizer(synthesizer: Any, path: Any) -> None:
    """Write a fitted synthesizer to a file."""
    parameters = synthesizer.get_params(deep=False)
    described, arrays = describe_fit(synthesizer)
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "parameters": {
            name: pack_parameter(value)
            for name, value in parameters.items()
            if name not in LEFT_OUT
        },
        **described,
    }
    toml = _as_toml(synthesizer.domain_)
    texts = {} if toml is None else {"domain.toml": toml}
    if toml is not None:
        del header["domain"]
    text = json.dumps(header, allow_nan=False, indent=1)
    write_archive(
        path,
        {"header.json": text}
        | texts
        | {f"{name}.npy": array for name, array in arrays.items()},
    )


def pack_parameter(value: Any) -> Any:
    """Turn a parameter into what JSON can hold."""
    return (
        {value.name: [getattr(value, value.name), value.delta]}
        if isinstance(value, Rho | Mu)
        else pack(value)
    )


def _unpack_parameter(packed: Any) -> Any:
    for kind in (Rho, Mu):
        if isinstance(packed, dict) and packed.keys() == {kind.name}:
            return kind(*packed[kind.name])
    return unpack(packed)


def describe_fit(
    synthesizer: Any,
) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """Describe what was fitted, as JSON and named arrays."""
    domain, model, marginals = (
        synthesizer.domain_,
        synthesizer.model_,
        synthesizer.marginals_,
    )
    shapes = synthesizer._shapes
    attributes = [(name, domain[name]) for name in domain.columns]
    described = {
        "guarantee": [
            synthesizer.guarantee_.to_json(),
            pack(synthesizer.guarantee_.scope),
        ],
        "others": pack(synthesizer._others),
        "observed": [
            place for place, name in enumerate(domain.columns) if domain[name].observed
        ],
        "n_features": synthesizer.n_features_in_,
        "named": hasattr(synthesizer, "feature_names_in_"),
        "template": pack_template(synthesizer._template),
        "n_rows": synthesizer.n_rows_,
        "n_rows_std_error": synthesizer.n_rows_std_error_,
        "n_iter": synthesizer.n_iter_,
        "scores": [[*pair, *numbers] for pair, numbers in synthesizer._scores.items()],
        "grids": None
        if shapes is None
        else pack({name: shape.grid for name, shape in shapes.columns.items()}),
        "cliques": model.tree.cliques,
        "parents": [link.parent for link in model.tree.links],
        "marginals": [
            {
                "clique": one.clique,
                "std_error": one.std_error,
                "groups": _pack_groups(one.groups),
            }
            for one in marginals
        ],
        "domain": [
            [pack(name), pack(one if isinstance(one, Interval) else list(one.values))]
            for name, one in attributes
        ],
    }
    arrays = {f"belief_{place}": belief for place, belief in enumerate(model.beliefs)}
    arrays |= {
        f"marginal_{place}": marginal.counts for place, marginal in enumerate(marginals)
    }
    if shapes is not None:
        arrays |= {
            f"below_{place}": shape.below
            for place, shape in enumerate(shapes.columns.values())
        }
        arrays["correlations"] = shapes.correlations
    return described, {
        name: np.asarray(array, np.float64, order="C") for name, array in arrays.items()
    }


def read_synthesizer(kind: Any, path: Any) -> Any:
    """Read what `write_synthesizer` wrote."""
    with Archive(path, "header.json") as file:
        with reading("header"):
            header = json.loads(file.text("header.json"))
            if not isinstance(header, dict) or header.get("format") != _FORMAT:
                raise ValueError(
                    "this is no file that DPMarginalSynthesizer.save wrote"
                )
        if header.get("version") != _VERSION:
            raise ValueError(
                f"the file has version {header.get('version')!r}; this skdp reads version {_VERSION}"
            )
        with reading("domain"):
            domain = (
                read_domain(header)
                if "domain" in header
                else Domain.from_toml(file.text("domain.toml"))
            )
        with reading("parameters"):
            parameters = {
                name: _unpack_parameter(value)
                for name, value in dict(header["parameters"]).items()
            }
            if not parameters.keys().isdisjoint(LEFT_OUT):
                raise ValueError("there is one that is never saved")
            synthesizer = kind(domain=domain, **parameters)
        restore_fit(
            synthesizer,
            header,
            domain,
            lambda name, shape: file.array(f"{name}.npy", shape),
        )
        return synthesizer


def read_domain(described: Mapping[str, Any]) -> Domain:
    """Read the domain that `describe_fit` describes."""
    return Domain(
        {unpack(name): unpack(values) for name, values in described["domain"]}
    )


def restore_fit(
    synthesizer: Any, described: Mapping[str, Any], domain: Domain, array: ReadArray
) -> None:
    """Make a synthesizer fitted again, as `describe_fit` describes."""
    with reading("domain"):
        for place in described["observed"]:  # for `privacy_statement`
            domain[
                domain.columns[read_whole(place, 0, len(domain.columns) - 1)]
            ].observed = True
    with reading("template"):
        n_features = read_whole(
            described["n_features"],
            max(1, len(domain.columns) - 1),
            len(domain.columns),
        )
        template = unpack_template(described["template"], domain.columns, n_features)
    with reading("parameters"):
        synthesizer._others = dict(unpack(described["others"]))
        if not all(
            value in domain[name].labels for name, value in synthesizer._others.items()
        ):
            raise ValueError("what stands for the unforeseen is not declared")
    with reading("guarantee"):
        # The record has the names of columns as text, but for whole numbers.
        record, scope = described["guarantee"]
        guarantee = PrivacyGuarantee.from_json(record)
        guarantee = replace(guarantee, scope=unpack(scope))
    with reading("model"):
        synthesizer.model_ = read_model(array, described, domain.sizes)
        synthesizer.n_rows_ = _positive(described["n_rows"])
        synthesizer.n_rows_std_error_ = _positive(described["n_rows_std_error"])
        synthesizer.n_iter_ = read_whole(described["n_iter"], 1, 1 << 32)
        others = synthesizer._others
        synthesizer.undiscovered_ = count_others(
            synthesizer.model_, domain, synthesizer.n_rows_, others
        )
    with reading("marginals"):
        measured = enumerate(described["marginals"])
        synthesizer.marginals_ = [
            read_marginal(array, place, about, domain.sizes)
            for place, about in measured
        ]
    with reading("scores"):
        synthesizer._scores = read_scores(described["scores"], domain)
    with reading("shapes"):
        synthesizer._shapes = _read_shapes(array, described["grids"], domain)
    synthesizer.domain_, synthesizer.guarantee_ = domain, guarantee
    synthesizer.n_features_in_ = n_features
    if described["named"]:
        synthesizer.feature_names_in_ = np.array(domain.columns[:n_features], object)
    synthesizer._template, synthesizer._calls = template, CallCounter()
    synthesizer._redraw_at_fit = synthesizer.redraw


def _as_toml(domain: Domain) -> str | None:
    """Write a domain as a file that people read, if such a file can hold it."""
    try:
        text = domain.to_toml()
        return text if Domain.from_toml(text) == domain else None
    except (TypeError, ValueError):
        return None


def read_model(
    array: ReadArray, header: Mapping[str, Any], sizes: tuple[int, ...]
) -> GraphicalModel:
    cliques = [read_clique(clique, len(sizes)) for clique in header["cliques"]]
    parents = [
        read_whole(parent, 0, before) for before, parent in enumerate(header["parents"])
    ]
    if len(parents) != len(cliques) - 1:
        raise ValueError("each clique but the first must have a parent")
    tree = JunctionTree(sizes, cliques, parents)
    for column in range(len(sizes)):
        held = sum(column in clique for clique in cliques)
        if held - sum(column in link.separator for link in tree.links) != 1:
            raise ValueError("the cliques are no junction tree of the columns")
    shapes = [tuple(sizes[column] for column in clique) for clique in cliques]
    beliefs = [
        _read_array(array, f"belief_{place}", shape)
        for place, shape in enumerate(shapes)
    ]
    for belief in beliefs:
        if belief.min() < 0 or abs(belief.sum() - 1) > _TOLERANCE:
            raise ValueError("a clique has no probabilities")
    for link in tree.links:
        one, other = (
            project(beliefs[at], cliques[at], link.separator)
            for at in (link.child, link.parent)
        )
        if np.abs(one - other).max() > _TOLERANCE:
            raise ValueError("two cliques disagree about the columns that they share")
    return GraphicalModel(tree, beliefs)


def read_marginal(
    array: ReadArray, place: int, about: Mapping[str, Any], sizes: tuple[int, ...]
) -> Marginal:
    clique = read_clique(about["clique"], len(sizes))
    groups = _read_groups(about["groups"], [sizes[column] for column in clique])
    shape = [sizes[column] for column in clique]
    for axis, members in enumerate(groups or ()):
        if members is not None:
            shape[axis] = int(members.max()) + 1
    counts = _read_array(array, f"marginal_{place}", tuple(shape))
    return Marginal(clique, counts, _positive(about["std_error"]), groups)


def _read_shapes(array: ReadArray, grids: Any, domain: Domain) -> Shapes | None:
    if grids is None:
        return None
    columns = {}
    for place, (name, grid) in enumerate(dict(unpack(grids)).items()):
        interval = domain[name]
        if (
            not isinstance(grid, Interval)
            or not isinstance(interval, Interval)
            or grid.missing != interval.missing
        ):
            raise ValueError("a shape is not of numbers or dates")
        ends = [(one.edges[0], one.edges[-1]) for one in (grid, interval)]
        if ends[0] != ends[1] or not {*interval.edges} <= {*grid.edges}:
            raise ValueError("a shape has other edges than its column")
        below = _read_array(array, f"below_{place}", (len(grid.edges),))
        if (
            below[0] != 0
            or abs(below[-1] - 1) > _TOLERANCE
            or (np.diff(below) < 0).any()
        ):
            raise ValueError("a shape has no probabilities")
        columns[name] = Shape(grid, below)
    correlations = _read_array(array, "correlations", (len(columns), len(columns)))
    if (correlations != correlations.T).any() or np.linalg.eigvalsh(correlations)[
        0
    ] <= 0:
        raise ValueError("there are no correlations of shapes")
    return Shapes(columns, correlations)


def _pack_groups(groups: Groups | None) -> list[list[int] | None] | None:
    return (
        None
        if groups is None
        else [None if members is None else members.tolist() for members in groups]
    )


def _read_groups(packed: Any, shape: Sequence[int]) -> Groups | None:
    if packed is None:
        return None
    groups: list[NDArray[np.intp] | None] = []
    for members, size in zip(packed, shape, strict=True):
        found = {read_whole(member, 0, size - 1) for member in members or [0] * size}
        if (members is not None and len(members) != size) or found != {
            *range(max(found) + 1)
        }:
            raise ValueError("the groups of a column do not fit its values")
        groups.append(None if members is None else np.array(members, np.intp))
    return tuple(groups)


def read_clique(clique: Any, width: int) -> Clique:
    columns = tuple(read_whole(column, 0, width - 1) for column in clique)
    if not columns or list(columns) != sorted(set(columns)):
        raise ValueError("a clique must be increasing numbers of columns")
    return columns


def read_whole(value: Any, least: int, most: int) -> int:
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not least <= value <= most
    ):
        raise ValueError(f"expected whole numbers from {least} to {most}")
    return value


def _positive(value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value < math.inf
    ):
        raise ValueError("expected a positive number")
    return float(value)


def _read_array(
    array: ReadArray, name: str, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    if math.prod(shape) > MOST_CELLS:
        raise ValueError("an array is too large")
    numbers = array(name, shape)
    if numbers.dtype != np.dtype("<f8"):
        raise ValueError("an array has another shape")
    if not np.isfinite(numbers).all():
        raise ValueError("an array holds numbers that are not finite")
    return np.ascontiguousarray(numbers, np.float64)
