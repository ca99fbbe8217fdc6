"""A real and a synthetic table, coded by the same values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.coding import kind_of
from skdp.domain import Categories
from skdp.metrics._read_tables import (
    Values,
    check_columns,
    encode_column,
    n_rows,
    observed_values,
    read_declared,
    read_pair,
)

Counts = NDArray[np.int64]

OUTSIDE = "outside the domain"

# Up to so many cells, or twice as many as rows, all are counted; beyond, those that occur.
_FEW_CELLS = 1 << 16
_MOST_CODES = 1 << 62


@dataclass(frozen=True)
class PairedTables:
    """The codes of two tables, the rows of the real one first."""

    n_real: int
    labels: Mapping[Any, list[Any]]
    codes: Mapping[Any, NDArray[np.unsignedinteger]]

    def counts(self, columns: Sequence[Any]) -> tuple[Counts, Counts]:
        """Count the rows of either table in the cells of a marginal."""
        cells = math.prod(len(self.labels[column]) for column in columns)
        joint = self._join(columns)
        if cells > max(_FEW_CELLS, 2 * joint.size):
            found, joint = np.unique(joint, return_inverse=True)
            cells = found.size
        real, synthetic = joint[: self.n_real], joint[self.n_real :]
        return np.bincount(real, minlength=cells), np.bincount(synthetic, minlength=cells)

    def _join(self, columns: Sequence[Any]) -> NDArray[np.intp]:
        """Make one code of those of several columns, the last one fastest as long as the product is not too large."""
        first, *others = columns
        joint, cells = self.codes[first].astype(np.intp), len(self.labels[first])
        for column in others:
            size = len(self.labels[column])
            if cells * size >= _MOST_CODES:
                found, joint = np.unique(joint, return_inverse=True)
                cells = found.size
            cells *= size
            np.multiply(joint, size, out=joint)
            np.add(joint, self.codes[column], out=joint, casting="unsafe")
        return joint


def pair_tables(real: Any, synthetic: Any, columns: Iterable[Any] | None, domain: Any) -> PairedTables:
    """Code two tables."""
    tables = read_pair(real, synthetic)
    names = check_columns(tables, columns)
    declared = read_declared(domain, tables[0])
    labels: dict[Any, list[Any]] = {}
    codes = {}
    for name in names:
        pair = [table.columns[table.names.index(name)] for table in tables]
        values = declared[name] if name in declared else _observed(name, *pair)
        codes[name] = np.concatenate([encode_column(name, values, column) for column in pair])
        labels[name] = _label(values, codes[name])
    return PairedTables(n_rows(tables[0]), labels, codes)


def _label(values: Values, codes: NDArray[np.unsignedinteger]) -> list[Any]:
    """Say what the codes mean, and close the gap if nothing is missing but something is outside."""
    labels, most = list(values.labels), int(codes.max())
    if most < len(values):
        return labels
    if most == len(values):
        return [*labels, None]
    if (codes == len(values)).any():
        return [*labels, None, OUTSIDE]
    codes[codes == most] = len(values)
    return [*labels, OUTSIDE]


def _observed(name: Any, real: Any, synthetic: Any) -> Categories:
    (known, missing), (others, also) = (
        observed_values(name, real, "real"),
        observed_values(name, synthetic, "synthetic"),
    )
    if known and others and kind_of(known[0]) != kind_of(others[0]):
        raise ValueError(
            f"column {name!r} holds values of the kind {kind_of(known[0])} in real, {kind_of(others[0])} in synthetic"
        )
    absent = [None] if missing or also else []
    try:
        return Categories([*sorted({*known, *others}), *absent])
    except ValueError as error:
        raise ValueError(f"column {name!r}: {error}") from None
