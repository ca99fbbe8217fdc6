"""Unbiased values of each record, whose means are the estimated proportions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.local.protocol._columns import value_labels
from skdp.local.protocol._estimation import (
    check_columns,
    field_weights,
    fields_with,
)
from skdp.local.protocol._field import Reports
from skdp.tables import as_objects


def debias_reports(
    protocol: Any, reports: Reports, columns: Any, values: Any
) -> tuple[list[Any], list[NDArray[np.float64]]]:
    """Return the names and the unbiased values of the chosen columns."""
    groups = _column_groups(protocol, columns, values)
    names: list[Any] = []
    blocks = []
    for group in groups:
        cells, labels = _chosen_cells(protocol, group, groups, values)
        names += labels
        blocks.append(_unbiased_values(protocol, reports, group, cells))
    if len(set(names)) < len(names):
        raise ValueError(
            "two columns of unbiased values would have the same name; choose fewer "
            "with columns=, or rename columns or categories"
        )
    return names, blocks


def _column_groups(protocol: Any, columns: Any, values: Any) -> list[tuple[Any, ...]]:
    """Return the columns that are debiased together, as they are counted."""
    if columns is None and isinstance(values, Mapping):
        columns = list(values)
    if columns is None:
        groups = [field.columns for field in protocol.fields]
        # A column may be in several fields.
        if len(set().union(*groups)) == sum(map(len, groups)):
            return groups
        columns = protocol.columns
        return [(name,) for name in columns]
    chosen = check_columns(protocol.columns, columns)
    if fields_with(protocol, *chosen):
        return [tuple(chosen)]
    return [(name,) for name in chosen]


def _chosen_cells(
    protocol: Any, group: tuple[Any, ...], groups: Sequence[Any], values: Any
) -> tuple[NDArray[np.intp] | None, list[Any]]:
    """Return the chosen cells of some columns and their names; None for a number."""
    is_counted = protocol.domain is not None and group[0] in protocol.domain.columns
    if isinstance(values, Mapping):
        values = values.get(group[0] if len(group) == 1 else group)
    elif values is not None and len(groups) > 1:
        raise ValueError(
            "values must be a mapping of column to list for several columns, got "
            f"{type(values).__name__}; or choose one with columns="
        )
    if not is_counted:
        if values is not None:
            raise ValueError(
                f"values must not choose from the numbers of column {group[0]!r}"
            )
        return None, list(group)
    domain = protocol.domain.select(group)
    cells = np.arange(domain.size)
    if values is not None:
        cells = _cells_of(domain, values)
    labels = value_labels(domain, cells)
    prefix = "_".join(map(str, group))
    return cells, [f"{prefix}_{label}" for label in labels]


def _cells_of(domain: Any, values: Any) -> NDArray[np.intp]:
    """Return the codes of distinct declared values, or of combinations of them."""
    expected = (
        f"values must be a list of distinct declared values of {[*domain.columns]}"
    )
    if isinstance(values, str) or not len(values):
        raise ValueError(f"{expected}, got {values!r}")
    columns = [values] if len(domain.columns) == 1 else list(zip(*values, strict=True))
    if len(columns) != len(domain.columns):
        raise ValueError(f"{expected}, one entry for each column")
    codes = domain.encode([as_objects(list(column)) for column in columns])
    for size, column_codes in zip(domain.sizes, codes, strict=True):
        if (column_codes == size).any():
            raise ValueError(f"{expected}, got one that is not declared")
    cells = np.asarray(codes[0] if len(codes) == 1 else domain.join(codes), np.intp)
    if len(np.unique(cells)) < len(cells):
        raise ValueError(f"{expected}, got one twice")
    return cells


def _unbiased_values(
    protocol: Any, reports: Reports, group: tuple[Any, ...], cells: Any
) -> NDArray[np.float64]:
    """Return the unbiased values of each record for a group of columns: (n_records, n_cells)."""
    indices = fields_with(protocol, *group)
    inclusions = [1.0] * len(protocol.fields)
    if protocol.sampling is not None:
        inclusions = list(map(float, protocol.sampling.inclusions))
    fields = [protocol.fields[index] for index in indices]
    # Several fields may report the same columns: their values are averaged with public
    # weights.
    weights = np.ones(1)
    if len(fields) > 1:
        probabilities = [inclusions[index] for index in indices]
        weights = field_weights(
            [field.oracle for field in fields],
            probabilities,
            protocol.domain.select(group).size,
        )
    total: Any = 0.0
    for index, field, weight in zip(indices, fields, weights, strict=True):
        try:
            values = field.debias(reports[index], group, cells)
        except NotImplementedError:
            raise ValueError(
                f"columns {list(group)}: their encoder has no unbiased value for each record"
            ) from None
        if protocol.sampling is not None:
            # Inverse probability weights: a record reports a field with a public probability.
            is_reported = protocol.rows(reports)[:, index]
            values *= (is_reported * (weight / inclusions[index]))[:, np.newaxis]
        total = total + values
    return np.asarray(total, float)
