"""A fitted synthesizer as a file: a ZIP archive of JSON, a domain file, and arrays of numbers. Nothing in it is run."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from io import SEEK_END
from tokenize import TokenError
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from skdp.base import CallCounter
from skdp.domain import Domain, Interval, pack, unpack
from skdp.privacy import PrivacyGuarantee
from skdp.synthesis._packing import pack_template, unpack_template
from skdp.synthesis.model import MOST_CELLS, Clique, GraphicalModel, Groups, JunctionTree, Link, Marginal, project
from skdp.synthesis.tables import count_others

_FORMAT, _VERSION = "skdp.DPMarginalSynthesizer", 1
LEFT_OUT = ("domain", "ledger", "random_state", "verbose")
"""Parameters that are not saved: the fitted domain is; a seed would undo the noise; a ledger belongs to the curator."""

_LONGEST_TEXT = 1 << 24
"""Bytes of a part of text: as lists and numbers it takes twenty times as much memory."""

_FREE_SIZE, _LARGEST_RATIO = 1 << 26, 100
"""A file of more bytes than the first must not unpack to more than the second times its own size."""
_TOLERANCE = 1e-6

_DAMAGE = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, RuntimeError, TypeError, ValueError),
    *(BadZipFile, zlib.error, struct.error, SyntaxError, TokenError),
)
"""What a damaged file may raise, turned into one ValueError that names the part."""


class _GivenTree(JunctionTree):
    """A junction tree whose cliques and links are known."""

    def __init__(self, sizes: Sequence[int], cliques: Sequence[Clique], links: Sequence[Link]) -> None:
        self.sizes, self.cliques, self.links = tuple(sizes), tuple(cliques), tuple(links)


def write_synthesizer(synthesizer: Any, path: Any) -> None:
    """Write a fitted synthesizer to a file."""
    domain, model, marginals = synthesizer.domain_, synthesizer.model_, synthesizer.marginals_
    parameters = synthesizer.get_params(deep=False)
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "parameters": {name: pack(value) for name, value in parameters.items() if name not in LEFT_OUT},
        "guarantee": {one.name: pack(getattr(synthesizer.guarantee_, one.name)) for one in fields(PrivacyGuarantee)},
        "others": pack(synthesizer._others),
        "observed": [place for place, name in enumerate(domain.columns) if domain[name].observed],
        "n_features": synthesizer.n_features_in_,
        "named": hasattr(synthesizer, "feature_names_in_"),
        "template": pack_template(synthesizer._template),
        "n_rows": synthesizer.n_rows_,
        "n_rows_std_error": synthesizer.n_rows_std_error_,
        "n_iter": synthesizer.n_iter_,
        "cliques": model.tree.cliques,
        "parents": [link.parent for link in model.tree.links],
        "marginals": [
            {"clique": one.clique, "std_error": one.std_error, "groups": _pack_groups(one.groups)} for one in marginals
        ],
    }
    toml = _as_toml(domain)
    if toml is None:
        attributes = [(name, domain[name]) for name in domain.columns]
        header["domain"] = [
            [pack(name), pack(one if isinstance(one, Interval) else list(one.values))] for name, one in attributes
        ]
    text = json.dumps(header, allow_nan=False, indent=1)
    if len(text) > _LONGEST_TEXT:  # ASCII
        raise ValueError(f"what describes the model has {len(text):,} characters; at most {_LONGEST_TEXT:,} are saved")
    arrays = [*model.beliefs, *(marginal.counts for marginal in marginals)]
    compression = ZIP_STORED if 8 * sum(array.size for array in arrays) > _FREE_SIZE // 2 else ZIP_DEFLATED
    with ZipFile(path, "w") as file:
        file.writestr(_member("header.json"), text)
        if toml is not None:
            file.writestr(_member("domain.toml"), toml)
        for place, belief in enumerate(model.beliefs):
            _write_array(file, f"belief_{place}.npy", belief, compression)
        for place, marginal in enumerate(marginals):
            _write_array(file, f"marginal_{place}.npy", marginal.counts, compression)


def read_synthesizer(kind: Any, path: Any) -> Any:
    """Read what `write_synthesizer` wrote."""
    try:
        file = ZipFile(path)
    except _DAMAGE:
        raise ValueError("this is no file that DPMarginalSynthesizer.save wrote") from None
    with file:
        _check_size(file)
        return _read(kind, file)


def _check_size(file: ZipFile) -> None:
    """Refuse a file that would unpack to very many times its size, before anything is unpacked."""
    assert file.fp is not None  # it is open
    size = file.fp.seek(0, SEEK_END)
    unpacked = sum(info.file_size for info in file.infolist())
    if unpacked > max(_FREE_SIZE, _LARGEST_RATIO * size):
        raise ValueError(f"the file is too large: it would unpack to {unpacked:,} bytes, from {size:,}")


def _read(kind: Any, file: ZipFile) -> Any:
    with _reading("header"):
        header = json.loads(_read_text(file, "header.json"))
        if not isinstance(header, dict) or header.get("format") != _FORMAT:
            raise ValueError("this is no file that DPMarginalSynthesizer.save wrote")
    if header.get("version") != _VERSION:
        raise ValueError(f"the file has version {header.get('version')!r}; this skdp reads version {_VERSION}")
    with _reading("domain"):
        domain = _read_domain(file, header)
        for place in header.get("observed", ()):  # for `privacy_statement`
            domain[domain.columns[_whole(place, 0, len(domain.columns) - 1)]].observed = True
    with _reading("template"):
        n_features = _whole(header["n_features"], len(domain.columns) - 1, len(domain.columns))
        if n_features == 0:
            raise ValueError("there is no column")
        template = unpack_template(header["template"], domain.columns, n_features)
    with _reading("parameters"):
        parameters = {name: unpack(value) for name, value in dict(header["parameters"]).items()}
        if not parameters.keys().isdisjoint(LEFT_OUT):
            raise ValueError("there is one that is never saved")
        synthesizer = kind(domain=domain, **parameters)
        synthesizer._others = dict(unpack(header["others"]))
        if not all(value in domain[name].labels for name, value in synthesizer._others.items()):
            raise ValueError("what stands for the unforeseen is not declared")
    with _reading("guarantee"):
        guarantee = PrivacyGuarantee(**{name: unpack(value) for name, value in header["guarantee"].items()})
    with _reading("model"):
        synthesizer.model_ = _read_model(file, header, domain.sizes)
        synthesizer.n_rows_ = _positive(header["n_rows"])
        synthesizer.n_rows_std_error_ = _positive(header["n_rows_std_error"])
        synthesizer.n_iter_ = _whole(header["n_iter"], 1, 1 << 32)
        others = synthesizer._others
        synthesizer.undiscovered_ = count_others(synthesizer.model_, domain, synthesizer.n_rows_, others)
    with _reading("marginals"):
        measured = enumerate(header["marginals"])
        synthesizer.marginals_ = [_read_marginal(file, place, about, domain.sizes) for place, about in measured]
    synthesizer.domain_, synthesizer.guarantee_ = domain, guarantee
    synthesizer.n_features_in_ = n_features
    if header.get("named"):
        synthesizer.feature_names_in_ = np.array(domain.columns[:n_features], object)
    synthesizer._template, synthesizer._calls = template, CallCounter()
    synthesizer._redraw_at_fit = synthesizer.redraw
    return synthesizer


@contextmanager
def _reading(part: str) -> Iterator[None]:
    """Turn what a damaged part raises into an error that names it."""
    try:
        yield
    except ImportError:
        raise
    except _DAMAGE as error:
        detail = str(error) if type(error) is ValueError else type(error).__name__
        raise ValueError(f"the {part} of the file cannot be read: {detail}") from None


def _as_toml(domain: Domain) -> str | None:
    """Write a domain as a file that people read, if such a file can hold it."""
    try:
        text = domain.to_toml()
        return text if Domain.from_toml(text) == domain else None
    except (TypeError, ValueError):
        return None


def _read_domain(file: ZipFile, header: Mapping[str, Any]) -> Domain:
    if "domain" not in header:
        return Domain.from_toml(_read_text(file, "domain.toml"))
    return Domain({unpack(name): unpack(values) for name, values in header["domain"]})


def _read_model(file: ZipFile, header: Mapping[str, Any], sizes: tuple[int, ...]) -> GraphicalModel:
    cliques = [_read_clique(clique, len(sizes)) for clique in header["cliques"]]
    parents = [_whole(parent, 0, before) for before, parent in enumerate(header["parents"])]
    if len(parents) != len(cliques) - 1:
        raise ValueError("each clique but the first must have a parent")
    links = [
        Link(child, parent, tuple(sorted({*cliques[child]} & {*cliques[parent]})))
        for child, parent in enumerate(parents, start=1)
    ]
    for column in range(len(sizes)):
        held = sum(column in clique for clique in cliques)
        if held - sum(column in link.separator for link in links) != 1:
            raise ValueError("the cliques are no junction tree of the columns")
    shapes = [tuple(sizes[column] for column in clique) for clique in cliques]
    beliefs = [_read_array(file, f"belief_{place}.npy", shape) for place, shape in enumerate(shapes)]
    for belief in beliefs:
        if belief.min() < 0 or abs(belief.sum() - 1) > _TOLERANCE:
            raise ValueError("a clique has no probabilities")
    for link in links:
        one, other = (project(beliefs[at], cliques[at], link.separator) for at in (link.child, link.parent))
        if np.abs(one - other).max() > _TOLERANCE:
            raise ValueError("two cliques disagree about the columns that they share")
    return GraphicalModel(_GivenTree(sizes, cliques, links), beliefs)


def _read_marginal(file: ZipFile, place: int, about: Mapping[str, Any], sizes: tuple[int, ...]) -> Marginal:
    clique = _read_clique(about["clique"], len(sizes))
    groups = _read_groups(about["groups"], [sizes[column] for column in clique])
    shape = [sizes[column] for column in clique]
    for axis, members in enumerate(groups or ()):
        if members is not None:
            shape[axis] = int(members.max()) + 1
    counts = _read_array(file, f"marginal_{place}.npy", tuple(shape))
    return Marginal(clique, counts, _positive(about["std_error"]), groups)


def _pack_groups(groups: Groups | None) -> list[list[int] | None] | None:
    return None if groups is None else [None if members is None else members.tolist() for members in groups]


def _read_groups(packed: Any, shape: Sequence[int]) -> Groups | None:
    if packed is None:
        return None
    groups: list[NDArray[np.intp] | None] = []
    for members, size in zip(packed, shape, strict=True):
        found = {_whole(member, 0, size - 1) for member in members or [0] * size}
        if (members is not None and len(members) != size) or found != {*range(max(found) + 1)}:
            raise ValueError("the groups of a column do not fit its values")
        groups.append(None if members is None else np.array(members, np.intp))
    return tuple(groups)


def _read_clique(clique: Any, width: int) -> Clique:
    columns = tuple(_whole(column, 0, width - 1) for column in clique)
    if not columns or list(columns) != sorted(set(columns)):
        raise ValueError("a clique must be increasing numbers of columns")
    return columns


def _whole(value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"expected whole numbers from {least} to {most}")
    return value


def _positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError("expected a positive number")
    return float(value)


def _member(name: str, compression: int = ZIP_DEFLATED) -> ZipInfo:
    """Name a part, without the time: the same synthesizer gives the same file."""
    info = ZipInfo(name)
    info.compress_type = compression
    return info


def _read_text(file: ZipFile, name: str) -> str:
    if file.getinfo(name).file_size > _LONGEST_TEXT:
        raise ValueError("it is too long")
    return file.read(name).decode()


def _write_array(file: ZipFile, name: str, array: NDArray[np.float64], compression: int) -> None:
    with file.open(_member(name, compression), "w", force_zip64=True) as part:
        np.lib.format.write_array(part, np.ascontiguousarray(array, "<f8"), version=(1, 0), allow_pickle=False)


def _read_array(file: ZipFile, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Read an array of a known shape; memory is taken only for what the file really has."""
    n_bytes = 8 * math.prod(shape)
    if math.prod(shape) > MOST_CELLS:
        raise ValueError("an array is too large")
    with file.open(name) as part:
        if np.lib.format.read_magic(part) != (1, 0):
            raise ValueError("an array is of another kind")
        given = np.lib.format.read_array_header_1_0(part)
        data = part.read(n_bytes + 1)
    if given != (shape, False, np.dtype("<f8")) or len(data) != n_bytes:
        raise ValueError("an array has another shape")
    array = np.frombuffer(data, "<f8").astype(np.float64, copy=False).reshape(shape)
    if not np.isfinite(array).all():
        raise ValueError("an array holds numbers that are not finite")
    return array
