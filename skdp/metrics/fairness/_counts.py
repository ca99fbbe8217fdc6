"""Counts of rows by group, true label and predicted label, from which group fairness is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import read_array
from skdp.coding import is_missing
from skdp.frames import is_frame, read_table
from skdp.metrics.fairness._aif360 import check_both, is_collection, read_column


@dataclass(frozen=True)
class GroupCounts:
    """The number of rows of each group with each pair of labels."""

    groups: tuple[Any, ...]
    table: NDArray[np.int64]
    privileged: NDArray[np.bool_] | None


def count_groups(
    y_true: Any, y_pred: Any, sensitive_features: Any, privileged: Any, positive_label: Any
) -> GroupCounts:
    """Count the rows of each group by true and predicted label."""
    true, predicted = read_column(y_true, "y_true"), read_column(y_pred, "y_pred")
    columns = _read_columns(sensitive_features)
    sizes = {len(column) for column in columns.values()}
    if not sizes == {len(true)} == {len(predicted)}:
        raise ValueError(
            "y_true, y_pred and sensitive_features must have the same length, got "
            f"{len(true)}, {len(predicted)} and {max(sizes)}"
        )
    check_labels(true, predicted, positive_label)
    groups, codes = _cells(list(columns.values()))
    positive = [labels.isin([positive_label]).to_numpy(dtype=bool) for labels in (true, predicted)]
    places = (codes * 2 + positive[0]) * 2 + positive[1]
    table = np.bincount(places, minlength=4 * len(groups)).reshape(-1, 2, 2)
    return GroupCounts(_name_missing(groups), table, _find_privileged(groups, privileged, list(columns)))


def _read_columns(features: Any) -> dict[Any, pd.Series]:
    """Read the sensitive features: a name for each column of a table, None for a column without a name."""
    if not is_frame(features) and read_array(features, "sensitive_features").ndim != 2:
        return {None: read_column(features, "sensitive_features", missing=True)}
    table = read_table(features if is_frame(features) else np.array(features, dtype=object))
    if not table.names:
        raise ValueError("sensitive_features must have at least one column")
    many = "sensitive_features column {!r}" if len(table.names) > 1 else "sensitive_features"
    named = zip(table.names, table.columns, strict=True)
    return {name: read_column(column, many.format(name), missing=True) for name, column in named}


def check_labels(true: Any, predicted: Any, positive_label: Any) -> None:
    """Refuse labels that do not match."""
    in_true, in_predicted = set(true.unique().tolist()), set(predicted.unique().tolist())
    if positive_label not in in_true | in_predicted:
        raise ValueError("neither y_true nor y_pred holds a label that equals positive_label")
    # One of two labels may only be predicted; with more, a mistake is likely: 1 and "1", ">50K" and ">50K.".
    if len(in_true | in_predicted) > 2 and not in_true & in_predicted:
        raise ValueError("y_true and y_pred have no label in common, though there are more than two labels")


def _cells(columns: list[pd.Series]) -> tuple[tuple[Any, ...], NDArray[np.intp]]:
    """Return the combinations of values that occur, with None for missing, and the index of each row's one."""
    coded = [pd.Categorical(column) for column in columns]
    values = [[*column.categories.to_list(), None] for column in coded]
    places = [np.where(column.codes < 0, len(column.categories), column.codes.astype(np.intp)) for column in coded]
    shape = [len(known) for known in values]
    occurring, codes = np.unique(np.ravel_multi_index(places, shape), return_inverse=True)
    cells = zip(*np.unravel_index(occurring, shape), strict=True)
    groups = [tuple(v[p] for v, p in zip(values, cell, strict=True)) for cell in cells]
    return tuple(group[0] for group in groups) if len(columns) == 1 else tuple(groups), codes


def _name_missing(groups: tuple[Any, ...]) -> tuple[Any, ...]:
    """Name missing values "missing", or, if there is such a value, "(missing)", and so on."""
    parts = [group if isinstance(group, tuple) else (group,) for group in groups]
    name = "missing"
    while any(name in part for part in parts):
        name = f"({name})"
    named = [tuple(name if value is None else value for value in part) for part in parts]
    return tuple(part if isinstance(group, tuple) else part[0] for part, group in zip(named, groups, strict=True))


def _find_privileged(groups: tuple[Any, ...], privileged: Any, names: list[Any]) -> NDArray[np.bool_] | None:
    if privileged is None:
        return None
    if isinstance(privileged, Mapping):
        if set(privileged) != set(names):
            raise ValueError(f"privileged has the keys {list(privileged)}; sensitive_features has the columns {names}")
        wanted = [_listed(privileged[name]) for name in names]
        cells = groups if len(names) > 1 else [(group,) for group in groups]
        chosen = [all(v in w for v, w in zip(cell, wanted, strict=True)) for cell in cells]
    elif len(names) == 1:
        chosen = [group in _listed(privileged) for group in groups]
    else:
        cells = [privileged] if isinstance(privileged, tuple) else privileged
        if not isinstance(cells, list) or any(not isinstance(cell, tuple) or len(cell) != len(names) for cell in cells):
            raise ValueError(
                f"privileged must be a mapping with the keys {names}, or a tuple of {len(names)} values, or a list of "
                f"such tuples, because sensitive_features has {len(names)} columns"
            )
        chosen = [group in [tuple(_listed(cell)) for cell in cells] for group in groups]
    return check_both(np.array(chosen, dtype=bool), "sensitive_features")


def _listed(values: Any) -> list[Any]:
    listed = list(values) if is_collection(values) else [values]
    return [None if is_missing(value) else value for value in listed]
