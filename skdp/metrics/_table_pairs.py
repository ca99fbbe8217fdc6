"""A real and a synthetic table with common codes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.domain import Categories, Domain, Interval
from skdp.oracles import check_size
from skdp.tables import (
    ColumnError,
    Table,
    distinct_values,
    is_frame,
    kind_of,
    read_table,
    shielded,
)

Counts = NDArray[np.int64]

OUTSIDE = "outside the domain"

# Up to this number of cells, or twice the number of rows, all are counted; beyond, those
# that occur.
_FEW_CELLS = 1 << 16


@dataclass(frozen=True)
class PairedTables:
    """The codes of two tables, the rows of the real one first."""

    n_real: int
    labels: Mapping[Any, list[Any]]
    codes: Mapping[Any, NDArray[np.unsignedinteger]]

    def counts(self, columns: Sequence[Any]) -> tuple[Counts, Counts]:
        """Count the rows of either table in the cells of a marginal."""
        sizes = []
        codes = {}
        for column in columns:
            sizes.append(len(self.labels[column]))
            codes[column] = self.codes[column]
        n_rows = len(codes[columns[0]])
        n_cells = math.prod(sizes)
        if n_cells <= max(_FEW_CELLS, 2 * n_rows):
            joint: NDArray[Any] = np.ravel_multi_index(list(codes.values()), sizes)
        else:
            # Only cells that occur are counted.
            groups = pd.DataFrame(codes).groupby(list(columns), sort=False)
            joint = groups.ngroup().to_numpy()
            n_cells = groups.ngroups
        real = np.bincount(joint[: self.n_real], minlength=n_cells)
        synthetic = np.bincount(joint[self.n_real :], minlength=n_cells)
        return real, synthetic


def pair_tables(
    tables: tuple[Table, Table], columns: Iterable[Any], domain: Any
) -> PairedTables:
    """Code columns of two tables."""
    names = check_columns(tables, columns)
    declared = column_domains(domain, tables[0])
    labels: dict[Any, list[Any]] = {}
    codes = {}
    for name in names:
        real, synthetic = (column_of(table, name) for table in tables)
        # Undeclared values are those of both tables: a value that one of them lacks has
        # the share 0 there.
        values = declared.get(name)
        if values is None:
            values = _observed(name, real, synthetic)
        real_codes = encode_column(name, values, real)
        synthetic_codes = encode_column(name, values, synthetic)
        codes[name] = np.concatenate([real_codes, synthetic_codes])
        labels[name] = _label(values, codes[name])
    return PairedTables(n_rows(tables[0]), labels, codes)


def _label(values: Values, codes: NDArray[np.unsignedinteger]) -> list[Any]:
    """Label the codes; a code for missing values that has no row is taken out."""
    missing, outside = len(values), len(values) + 1
    labels = list(values.labels)
    # Neither gets a label, and so a cell, unless a row of either table has it.
    has_missing = (codes == missing).any()
    is_outside = codes == outside
    if has_missing:
        labels.append(None)
    if is_outside.any():
        labels.append(OUTSIDE)
        if not has_missing:
            codes[is_outside] = missing
    return labels


def _observed(name: Any, real: Any, synthetic: Any) -> Categories:
    """Return the values that occur in either table."""
    in_real, real_has_missing = observed_values(name, real, "real")
    in_synthetic, synthetic_has_missing = observed_values(name, synthetic, "synthetic")
    if in_real and in_synthetic:
        real_kind, synthetic_kind = kind_of(in_real[0]), kind_of(in_synthetic[0])
        if real_kind != synthetic_kind:
            raise ValueError(
                f"column {name!r} holds values of the kind {real_kind} in real, "
                f"{synthetic_kind} in synthetic"
            )
    try:
        values = shielded(_merged, in_real, in_synthetic)
        if real_has_missing or synthetic_has_missing:
            values.append(None)
        return Categories(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r}: {error}") from None


def _merged(first: list[Any], second: list[Any]) -> list[Any]:
    """Return the values of two lists, sorted."""
    return sorted({*first, *second})


Values = Categories | Interval


def read_pair(real: Any, synthetic: Any) -> tuple[Table, Table]:
    """Read both tables, each with at least one row."""
    tables = _read("real", real), _read("synthetic", synthetic)
    for label, table in zip(("real", "synthetic"), tables, strict=True):
        if n_rows(table) == 0:
            raise ValueError(f"{label} has no rows")
    return tables


def column_of(table: Table, name: Any) -> Any:
    return table.columns[table.names.index(name)]


def n_rows(table: Table) -> int:
    return len(table.columns[0])


def check_columns(tables: Sequence[Table], columns: Iterable[Any] | None) -> list[Any]:
    """Return the columns to compare, which both tables must have."""
    real, synthetic = tables
    if columns is None:
        in_one_only = names_in_one_only(real.names, synthetic.names)
        if in_one_only:
            raise ValueError(
                "real and synthetic must have the same columns; in one of them only: "
                f"{in_one_only}"
            )
        return list(real.names)
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(
            f"columns must be a list of column names, got {type(columns).__name__}"
        )
    names = list(columns)
    if not names:
        raise ValueError("columns must name at least one column")
    for label, table in zip(("real", "synthetic"), tables, strict=True):
        unknown = [name for name in names if name not in table.names]
        if unknown:
            raise ValueError(
                f"{label} has no column {unknown[0]!r}; it has {list(table.names)}"
            )
    if len(set(names)) < len(names):
        raise ValueError(f"columns names a column twice: {names}")
    return names


def names_in_one_only(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Return the names that one of two tables has and the other has not."""
    either = dict.fromkeys([*first, *second])
    return [name for name in either if name not in first or name not in second]


def check_order(order: Any, names: list[Any]) -> int:
    return check_size(order, least=1, most=len(names), name="order")


def column_domains(domain: Any, table: Table) -> dict[Any, Values]:
    """Return the declared domains of the columns of a table."""
    if domain is None or (isinstance(domain, Mapping) and not domain):
        return {}
    if not isinstance(domain, Domain | Mapping):
        raise TypeError(
            "domain must be a Domain or a mapping of column name to values, got"
            f" {type(domain).__name__}"
        )
    if isinstance(domain, Domain):
        names = [name for name in domain.columns if name in table.names]
        return {name: domain[name] for name in names}
    domain = Domain(domain)
    declared = {name: domain[name] for name in domain.columns}
    unknown = [name for name in declared if name not in table.names]
    if unknown:
        raise ValueError(
            f"domain declares columns that the tables do not have: {unknown}"
        )
    return declared


def observed_values(name: Any, column: Any, label: str) -> tuple[list[Any], bool]:
    try:
        return distinct_values(column)
    except ColumnError as error:
        raise ValueError(f"column {name!r} of {label} {error}") from None


def encode_column(
    name: Any, values: Values, column: Any
) -> NDArray[np.unsignedinteger]:
    (codes,) = Domain({name: values}).encode([column])
    codes = codes.astype(np.min_scalar_type(len(values) + 1), copy=False)
    # `encode` has one code for missing and undeclared values; undeclared ones get the
    # next one.
    outside = codes == len(values)
    if outside.any():
        codes[outside & ~_is_missing(column)] = len(values) + 1
    return codes


def _read(label: str, data: Any) -> Table:
    if not is_frame(data):
        try:
            data = shielded(_as_array, data)
        except ColumnError as error:
            raise ValueError(f"{label} {error}") from None
        if data.ndim != 2:
            raise ValueError(
                f"{label} must be a dataframe or a 2-D array, got {data.ndim}"
                " dimensions"
            )
    table = read_table(data)
    if not table.names:
        raise ValueError(f"{label} has no columns")
    return table


def _as_array(data: Any) -> NDArray[Any]:
    return np.asarray(data, None if hasattr(data, "__array__") else object)


def _is_missing(column: Any) -> NDArray[np.bool_]:
    if isinstance(column, np.ndarray | pd.Series):
        return np.asarray(pd.isna(column), dtype=bool)
    series = nw.from_native(column, series_only=True)
    missing = series.is_null()
    if series.dtype.is_float():
        missing = missing | series.is_nan().fill_null(True)
    return missing.to_numpy()
