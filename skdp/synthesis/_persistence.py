"""A fitted synthesizer as a file: what was released, as JSON and arrays."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.archive import Archive, reading, write_archive
from skdp.base import CallCounter
from skdp.domain import Domain, Interval, pack, unpack
from skdp.privacy import Mu, PrivacyGuarantee, Rho
from skdp.synthesis.model import (
    MOST_CELLS,
    Clique,
    GraphicalModel,
    Groups,
    JunctionTree,
    Marginal,
    marginal_shapes,
    project,
)
from skdp.synthesis.tables import Shape, Shapes, count_others
from skdp.tables import Table

_FORMAT, _VERSION = "skdp.DPMarginalSynthesizer", 1
LEFT_OUT = ("domain", "ledger", "random_state")
"""Parameters that are not saved.

The fitted domain is; a seed would undo the noise; a ledger belongs to the curator."""

_TOLERANCE = 1e-6
"""Of sums of probabilities in a file."""

ReadArray: TypeAlias = Callable[[str, tuple[int, ...]], NDArray[Any]]
"""Reads the array of a name, which has a known shape."""

Scores = Mapping[Clique, tuple[float, float]]
"""Of each pair of columns, its score and the standard error of that."""


def write_synthesizer(synthesizer: Any, path: Any) -> None:
    """Write a fitted synthesizer to a file."""
    parameters = {}
    for name, value in synthesizer.get_params(deep=False).items():
        if name not in LEFT_OUT:
            parameters[name] = pack_parameter(value)
    description, arrays = describe_fit(synthesizer)
    # A domain is written as people read it, if such a file can hold it.
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "parameters": parameters,
        **description,
    }
    parts: dict[str, Any] = {}
    toml = _as_toml(synthesizer.domain_)
    if toml is not None:
        parts["domain.toml"] = toml
        del header["domain"]
    parts["header.json"] = json.dumps(header, allow_nan=False, indent=1)
    for name, array in arrays.items():
        parts[f"{name}.npy"] = array
    write_archive(path, parts)


def pack_parameter(value: Any) -> Any:
    """Turn a parameter into what JSON can hold."""
    if isinstance(value, Rho | Mu):
        return {value.name: [getattr(value, value.name), value.delta]}
    return pack(value)


def _unpack_parameter(packed: Any) -> Any:
    for kind in (Rho, Mu):
        if isinstance(packed, dict) and packed.keys() == {kind.name}:
            return kind(*packed[kind.name])
    return unpack(packed)


def _as_toml(domain: Domain) -> str | None:
    """Write a domain as a file that people read, if such a file can hold it."""
    try:
        text = domain.to_toml()
        return text if Domain.from_toml(text) == domain else None
    except (TypeError, ValueError):
        return None


def describe_fit(
    synthesizer: Any,
) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """Describe what was fitted, as JSON and named arrays."""
    domain = synthesizer.domain_
    model = synthesizer.model_
    shapes = synthesizer._shapes
    # Numbers with fractions are arrays, which keep all digits; all else is JSON.
    arrays = {}
    for index, belief in enumerate(model.beliefs):
        arrays[f"belief_{index}"] = belief
    marginals = []
    for index, marginal in enumerate(synthesizer.marginals_):
        arrays[f"marginal_{index}"] = marginal.counts
        about = {
            "clique": marginal.clique,
            "std_error": marginal.std_error,
            "groups": _pack_groups(marginal.groups),
        }
        marginals.append(about)
    grids = None
    if shapes is not None:
        arrays["correlations"] = shapes.correlations
        for index, shape in enumerate(shapes.columns.values()):
            arrays[f"below_{index}"] = shape.below
        grids = pack({name: shape.grid for name, shape in shapes.columns.items()})
    observed = []
    columns = []
    for index, name in enumerate(domain.columns):
        values = domain[name]
        if values.observed:
            observed.append(index)
        is_interval = isinstance(values, Interval)
        columns.append(
            [pack(name), pack(values if is_interval else list(values.values))]
        )
    guarantee = synthesizer.guarantee_
    description = {
        "guarantee": [guarantee.to_json(), pack(guarantee.scope)],
        "others": pack(synthesizer._others),
        "observed": observed,
        "n_features": synthesizer.n_features_in_,
        "named": hasattr(synthesizer, "feature_names_in_"),
        "template": pack_template(synthesizer._template),
        "n_rows": synthesizer.n_rows_,
        "n_rows_std_error": synthesizer.n_rows_std_error_,
        "n_iter": synthesizer.n_iter_,
        "scores": [[*pair, *score] for pair, score in synthesizer._scores.items()],
        "grids": grids,
        "cliques": model.tree.cliques,
        "parents": [link.parent for link in model.tree.links],
        "marginals": marginals,
        "domain": columns,
    }
    for name, array in arrays.items():
        arrays[name] = np.asarray(array, np.float64, order="C")
    return description, arrays


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
                f"the file has version {header.get('version')!r}; this skdp reads "
                f"version {_VERSION}"
            )
        with reading("domain"):
            if "domain" in header:
                domain = read_domain(header)
            else:
                domain = Domain.from_toml(file.text("domain.toml"))
        with reading("parameters"):
            packed = dict(header["parameters"])
            if not packed.keys().isdisjoint(LEFT_OUT):
                raise ValueError("there is one that is never saved")
            parameters = {name: _unpack_parameter(packed[name]) for name in packed}
            synthesizer = kind(domain=domain, **parameters)

        def read_array(name: str, shape: tuple[int, ...]) -> NDArray[Any]:
            return file.array(f"{name}.npy", shape)

        restore_fit(synthesizer, header, domain, read_array)
        return synthesizer


def read_domain(description: Mapping[str, Any]) -> Domain:
    """Read the domain that `describe_fit` describes."""
    columns = {}
    for name, values in description["domain"]:
        columns[unpack(name)] = unpack(values)
    return Domain(columns)


def restore_fit(
    synthesizer: Any, description: Mapping[str, Any], domain: Domain, array: ReadArray
) -> None:
    """Make a synthesizer fitted again, as `describe_fit` describes."""
    names = domain.columns
    read = partial(_read_array, array)
    with reading("domain"):
        for index in description["observed"]:  # for `privacy_statement`
            domain[names[read_whole(index, 0, len(names) - 1)]].observed = True
    with reading("template"):
        least = max(1, len(names) - 1)
        n_features = read_whole(description["n_features"], least, len(names))
        template = unpack_template(description["template"], names, n_features)
    with reading("parameters"):
        others = dict(unpack(description["others"]))
        for name, value in others.items():
            if value not in domain[name].labels:
                raise ValueError("what stands for the unforeseen is not declared")
    with reading("guarantee"):
        # The record has the names of columns as text, but for whole numbers.
        record, scope = description["guarantee"]
        guarantee = replace(PrivacyGuarantee.from_json(record), scope=unpack(scope))
    with reading("model"):
        model = _read_model(read, description, domain.sizes)
        n_rows = _read_positive(description["n_rows"])
        synthesizer.n_rows_std_error_ = _read_positive(description["n_rows_std_error"])
        synthesizer.n_iter_ = read_whole(description["n_iter"], 1, 1 << 32)
        synthesizer.undiscovered_ = count_others(model, domain, n_rows, others)
    with reading("marginals"):
        marginals = []
        for index, about in enumerate(description["marginals"]):
            marginals.append(_read_marginal(read, index, about, domain.sizes))
    with reading("scores"):
        synthesizer._scores = _read_scores(description["scores"], len(names))
    with reading("shapes"):
        synthesizer._shapes = _read_shapes(read, description["grids"], domain)
    # Nothing is set before all parts are read.
    synthesizer.domain_ = domain
    synthesizer.guarantee_ = guarantee
    synthesizer.model_ = model
    synthesizer.n_rows_ = n_rows
    synthesizer.marginals_ = marginals
    synthesizer.n_features_in_ = n_features
    if description["named"]:
        synthesizer.feature_names_in_ = np.array(names[:n_features], object)
    synthesizer._others = others
    synthesizer._template = template
    synthesizer._calls = CallCounter()
    synthesizer._redraw_at_fit = synthesizer.redraw


ReadFloats: TypeAlias = Callable[[str, tuple[int, ...]], NDArray[np.float64]]


def _read_model(
    read: ReadFloats, header: Mapping[str, Any], sizes: tuple[int, ...]
) -> GraphicalModel:
    cliques = [_read_clique(clique, len(sizes)) for clique in header["cliques"]]
    parents = []
    for n_before, parent in enumerate(header["parents"]):
        parents.append(read_whole(parent, 0, n_before))
    if len(parents) != len(cliques) - 1:
        raise ValueError("each clique but the first must have a parent")
    tree = JunctionTree(sizes, cliques, parents)
    # In a tree, the cliques of a column are connected if it is in one separator less.
    n_cliques = np.bincount(np.concatenate(cliques), minlength=len(sizes))
    separators = np.concatenate([(), *(link.separator for link in tree.links)])
    n_separators = np.bincount(separators.astype(int), minlength=len(sizes))
    if (n_cliques - n_separators != 1).any():
        raise ValueError("the cliques are no junction tree of the columns")
    beliefs = []
    for index, shape in enumerate(marginal_shapes(cliques, sizes)):
        belief = read(f"belief_{index}", shape)
        if belief.min() < 0 or abs(belief.sum() - 1) > _TOLERANCE:
            raise ValueError("a clique has no probabilities")
        beliefs.append(belief)
    for link in tree.links:
        child = project(beliefs[link.child], cliques[link.child], link.separator)
        parent = project(beliefs[link.parent], cliques[link.parent], link.separator)
        if np.abs(child - parent).max() > _TOLERANCE:
            raise ValueError("two cliques disagree about the columns that they share")
    return GraphicalModel(tree, beliefs)


def _read_marginal(
    read: ReadFloats, index: int, about: Mapping[str, Any], sizes: tuple[int, ...]
) -> Marginal:
    clique = _read_clique(about["clique"], len(sizes))
    shape = [sizes[column] for column in clique]
    groups = _read_groups(about["groups"], shape)
    for axis, members in enumerate(groups or ()):
        if members is not None:
            shape[axis] = int(members.max()) + 1
    counts = read(f"marginal_{index}", tuple(shape))
    return Marginal(clique, counts, _read_positive(about["std_error"]), groups)


def _read_shapes(read: ReadFloats, grids: Any, domain: Domain) -> Shapes | None:
    if grids is None:
        return None
    columns = {}
    for index, (name, grid) in enumerate(dict(unpack(grids)).items()):
        interval = domain[name]
        if not isinstance(grid, Interval) or not isinstance(interval, Interval):
            raise ValueError("a shape is not of numbers or dates")
        if grid.missing != interval.missing:
            raise ValueError("a shape is not of numbers or dates")
        has_ends = (grid.edges[0], grid.edges[-1]) == (
            interval.edges[0],
            interval.edges[-1],
        )
        if not has_ends or not set(interval.edges) <= set(grid.edges):
            raise ValueError("a shape has other edges than its column")
        below = read(f"below_{index}", (len(grid.edges),))
        has_range = below[0] == 0 and abs(below[-1] - 1) <= _TOLERANCE
        if not has_range or (np.diff(below) < 0).any():
            raise ValueError("a shape has no probabilities")
        columns[name] = Shape(grid, below)
    correlations = read("correlations", (len(columns), len(columns)))
    is_symmetric = (correlations == correlations.T).all()
    if not is_symmetric or np.linalg.eigvalsh(correlations)[0] <= 0:
        raise ValueError("there are no correlations of shapes")
    return Shapes(columns, correlations)


def _pack_groups(groups: Groups | None) -> list[list[int] | None] | None:
    if groups is None:
        return None
    return [None if members is None else members.tolist() for members in groups]


def _read_groups(packed: Any, shape: Sequence[int]) -> Groups | None:
    if packed is None:
        return None
    groups: list[NDArray[np.intp] | None] = []
    for members, size in zip(packed, shape, strict=True):
        if members is None:
            groups.append(None)
            continue
        # Groups are numbered from 0 without gaps.
        numbers = np.array([read_whole(member, 0, size - 1) for member in members])
        n_groups = np.unique(numbers).size
        if numbers.size != size or numbers.max() + 1 != n_groups:
            raise ValueError("the groups of a column do not fit its values")
        groups.append(numbers.astype(np.intp))
    return tuple(groups)


def _read_clique(clique: Any, n_columns: int) -> Clique:
    columns = tuple(read_whole(column, 0, n_columns - 1) for column in clique)
    if not columns or list(columns) != sorted(set(columns)):
        raise ValueError("a clique must be increasing numbers of columns")
    return columns


def read_whole(value: Any, least: int, most: int) -> int:
    """Read a whole number between limits."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"expected whole numbers from {least} to {most}")
    return value


def _read_positive(value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value < math.inf:
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


def _read_scores(packed: Sequence[Sequence[Any]], n_columns: int) -> Scores:
    """Read lists of the numbers of two columns, their score and its error."""
    scores: dict[Clique, tuple[float, float]] = {}
    for first, second, score, error in packed:
        are_whole = type(first) is int and type(second) is int
        if not are_whole or not 0 <= first < second < n_columns:
            raise ValueError("a pair must be two increasing numbers of columns")
        are_numbers = {type(score), type(error)} <= {int, float}
        if not are_numbers or not math.isfinite(score) or not math.isfinite(error):
            raise ValueError("a score must be a finite number")
        scores[first, second] = float(score), float(error)
    return scores


def tabulate_scores(
    scores: Scores, domain: Domain, marginals: Sequence[Marginal]
) -> pd.DataFrame:
    """Make a table with a row for each pair, the strongest first."""
    rows = []
    for pair, (score, error) in scores.items():
        first, second = (domain.columns[column] for column in pair)
        is_measured = any(set(pair) <= set(marginal.clique) for marginal in marginals)
        rows.append((first, second, score, error, is_measured))
    rows.sort(key=lambda row: -row[2])
    columns = ["first", "second", "score", "std_error", "measured"]
    table = pd.DataFrame(rows, columns=columns)
    dtypes = {"score": float, "std_error": float, "measured": bool}
    return table.astype(dtypes).set_index(["first", "second"])


_POLARS = frozenset(
    {
        "Boolean",
        "String",
        "Binary",
        "Date",
        "Time",
        "Null",
        "Float32",
        "Float64",
        "Categorical",
    }
    | {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64, 128)}
)
_POLARS_OPTIONS = {
    "Datetime": ("time_unit", "time_zone"),
    "Duration": ("time_unit",),
    "Decimal": ("precision", "scale"),
    "Enum": ("categories",),
}


def pack_template(template: Table) -> dict[str, Any]:
    """Describe a table without rows: its library, and the dtype of each column."""
    columns = []
    for name, column in zip(template.names, template.columns, strict=True):
        try:
            columns.append(_pack_column(column))
        except TypeError as error:
            raise TypeError(f"column {name!r}: {error}") from None
    native = template.native
    library = (
        "numpy"
        if isinstance(native, np.ndarray)
        else nw.from_native(native).implementation.name.lower()
    )
    packed: dict[str, Any] = {"library": library, "columns": columns}
    if library == "pandas":
        packed["levels"] = pack(list(native.columns.names))
    return packed


def unpack_template(packed: Any, names: tuple[Any, ...], n_features: int) -> Table:
    if len(packed["columns"]) != len(names):
        raise ValueError(f"expected {len(names)} columns, got {len(packed['columns'])}")
    columns = tuple(map(_unpack_column, packed["columns"]))
    return Table(names, columns, _native(packed, names[:n_features]))


def _native(packed: Mapping[str, Any], names: tuple[Any, ...]) -> Any:
    library = packed["library"]
    if library == "numpy":
        return np.empty((0, len(names)), object)
    if library == "pandas":
        levels = unpack(packed["levels"])
        if len(levels) > 1:
            index = pd.MultiIndex.from_tuples(names, names=levels)
        else:
            index = pd.Index(names, name=levels[0], tupleize_cols=False)
        return pd.DataFrame(columns=index, index=pd.RangeIndex(0))
    if library not in ("polars", "pyarrow"):
        raise ValueError(f"unknown library {library!r}")
    return nw.from_dict({}, backend=library).to_native()


def _pack_column(column: Any) -> dict[str, Any]:
    if isinstance(column, np.ndarray):
        return {"array": _pack_numpy(column.dtype)}
    if isinstance(column, pd.Series):
        return {"pandas": _pack_pandas(column.dtype)}
    if type(column).__module__.startswith("pyarrow"):
        return {"pyarrow": _pack_arrow(column.type)}
    dtype = column.dtype
    name = dtype.base_type().__name__
    if name not in _POLARS and name not in _POLARS_OPTIONS:
        raise TypeError(f"the dtype {name} cannot be saved")
    options = {
        option: getattr(dtype, option) for option in _POLARS_OPTIONS.get(name, ())
    }
    return {"polars": name} | {
        key: list(value) if key == "categories" else value
        for key, value in options.items()
    }


def _unpack_column(packed: Any) -> Any:
    if "array" in packed:
        return np.empty(0, _unpack_numpy(packed["array"]))
    if "pandas" in packed:
        return pd.Series([], dtype=_unpack_pandas(packed["pandas"]))
    if "pyarrow" in packed:
        import pyarrow

        return pyarrow.chunked_array([], _unpack_arrow(packed["pyarrow"]))
    import polars

    name = packed["polars"]
    if name not in _POLARS and name not in _POLARS_OPTIONS:
        raise ValueError("unknown dtype")
    options = {option: packed[option] for option in _POLARS_OPTIONS.get(name, ())}
    return polars.Series([], dtype=getattr(polars, name)(**options))


def _pack_pandas(dtype: Any) -> dict[str, Any]:
    if isinstance(dtype, np.dtype):
        return {"numpy": _pack_numpy(dtype)}
    if isinstance(dtype, pd.CategoricalDtype):
        kind = object if dtype.categories is None else dtype.categories.dtype
        return {
            "category": _pack_pandas(pd.api.types.pandas_dtype(kind)),
            "ordered": bool(dtype.ordered),
        }
    if isinstance(dtype, pd.StringDtype):
        return {"string": dtype.storage, "nan": dtype.na_value is not pd.NA}
    if isinstance(dtype, pd.ArrowDtype):
        return {"arrow": _pack_arrow(dtype.pyarrow_dtype)}
    if pd.api.types.pandas_dtype(str(dtype)) != dtype:
        raise TypeError(f"the dtype {dtype} cannot be saved")
    return {"name": str(dtype)}


def _unpack_pandas(packed: Any) -> Any:
    if "numpy" in packed:
        return _unpack_numpy(packed["numpy"])
    if "category" in packed:
        kind = _unpack_pandas(packed["category"])
        return pd.CategoricalDtype(
            pd.Index([], dtype=kind), ordered=bool(packed["ordered"])
        )
    if "string" in packed:
        nan = (
            {"na_value": np.nan} if packed["nan"] else {}
        )  # pandas 2.2 has pd.NA only, and no such parameter
        return pd.StringDtype(packed["string"], **nan)
    if "arrow" in packed:
        return pd.ArrowDtype(_unpack_arrow(packed["arrow"]))
    return pd.api.types.pandas_dtype(packed["name"])


def _pack_numpy(dtype: np.dtype[Any]) -> str:
    if dtype.kind not in "biufSUOMm":
        raise TypeError(f"the dtype {dtype} cannot be saved")
    return dtype.str


def _unpack_numpy(text: Any) -> np.dtype[Any]:
    dtype = np.dtype(str(text))
    if dtype.kind not in "biufSUOMm" or dtype.subdtype is not None:
        raise ValueError("unknown dtype")
    return dtype


def _pack_arrow(dtype: Any) -> str:
    """Write an Arrow type as Arrow does, in a schema of one field."""
    import pyarrow

    return base64.b64encode(pyarrow.schema([("", dtype)]).serialize()).decode()


def _unpack_arrow(text: str) -> Any:
    import pyarrow

    return (
        pyarrow.ipc.read_schema(
            pyarrow.py_buffer(base64.b64decode(text, validate=True))
        )
        .field(0)
        .type
    )
