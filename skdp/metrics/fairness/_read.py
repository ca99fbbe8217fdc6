"""What metrics of fairness read: labels, scores, weights, and the cells of groups and control features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import read_array
from skdp.metrics.fairness._aif360 import (
    check_both,
    encode_frame,
    find_positive_label,
    is_collection,
    read_column,
    read_frame,
)
from skdp.metrics.fairness._consistency import measure_consistency
from skdp.metrics.fairness._intervals import Numbers
from skdp.metrics.fairness._rates import Labels, Mask
from skdp.metrics.fairness._table import CONSISTENCY, Precision, Row
from skdp.tables import is_frame, is_missing, kind_of, read_table

_TAKEN = ("metric", "definition", "group", "value", "std_error", "lower", "upper")

Cells = list[tuple[Any, ...]]


def read_predictions(
    y_true: Any,
    y_pred: Any,
    positive_label: Any,
    *,
    y_score: Any,
    sample_weight: Any,
    **groups: int,
) -> Labels:
    """Read labels, scores and weights; `groups` is the number of rows of what has the groups."""
    true, predicted = read_column(y_true, "y_true"), read_column(y_pred, "y_pred")
    lengths = {"y_true": len(true), "y_pred": len(predicted)} | groups
    numbers = {"y_score": y_score, "sample_weight": sample_weight}
    read = {
        name: _read_numbers(values, name)
        for name, values in numbers.items()
        if values is not None
    }
    lengths |= {name: len(values) for name, values in read.items()}
    if len(set(lengths.values())) > 1:
        *first, last = lengths
        sizes = list(map(str, lengths.values()))
        raise ValueError(
            f"{', '.join(first)} and {last} must have the same length, got {', '.join(sizes[:-1])} and {sizes[-1]}"
        )
    positive_label = find_positive_label(positive_label, y_true=true, y_pred=predicted)
    check_labels(true, predicted, positive_label)
    positive = [
        labels.isin([positive_label]).to_numpy(dtype=bool)
        for labels in (true, predicted)
    ]
    weights = read.get("sample_weight", np.ones(len(true)))
    if (weights < 0).any() or not (weights > 0).any():
        raise ValueError("sample_weight must be at least 0, and not 0 for all rows")
    weights = np.ldexp(
        weights, 1 - np.frexp(weights.max())[1]
    )  # the largest from 1 to 2, without rounding
    scores = read.get("y_score")
    if scores is not None and ((scores < 0) | (scores > 1)).any():
        raise ValueError(
            "y_score must hold probabilities of the positive label, from 0 to 1"
        )
    return Labels(
        positive[0],
        positive[1],
        weights,
        None if scores is None else positive[0] - scores,
    )


def _read_numbers(values: Any, name: str) -> Numbers:
    column = read_column(values, name)
    if not pd.api.types.is_numeric_dtype(column.dtype):
        raise ValueError(f"{name} must hold numbers")
    numbers = column.to_numpy(dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must hold finite numbers")
    return numbers


def check_labels(true: Any, predicted: Any, positive_label: Any) -> None:
    """Refuse labels that do not match."""
    in_true, in_predicted = (
        set(true.unique().tolist()),
        set(predicted.unique().tolist()),
    )
    if positive_label not in in_true | in_predicted:
        raise ValueError(
            "neither y_true nor y_pred holds a label that equals positive_label"
        )
    # One of two labels may only be predicted; with more, a mistake is likely: 1 and "1", ">50K" and ">50K.".
    if len(in_true | in_predicted) > 2 and not in_true & in_predicted:
        raise ValueError(
            "y_true and y_pred have no label in common, though there are more than two labels"
        )
    kinds = {kind_of(value) for value in in_true | in_predicted} - {
        "boolean"
    }  # which are numbers
    if len(kinds) > 1:
        raise ValueError(
            f"y_true and y_pred must hold labels of one kind, got {' and '.join(sorted(kinds))}"
        )


def read_columns(features: Any, name: str) -> dict[Any, pd.Series]:
    """Read features that may be missing: a name for each column of a table, None for a column without a name."""
    if not is_frame(features) and read_array(features, name).ndim != 2:
        return {None: read_column(features, name, missing=True)}
    table = read_table(
        features if is_frame(features) else np.array(features, dtype=object)
    )
    if not table.names:
        raise ValueError(f"{name} must have at least one column")
    many = f"{name} column {{!r}}" if len(table.names) > 1 else name
    named = zip(table.names, table.columns, strict=True)
    return {
        one: read_column(column, many.format(one), missing=True)
        for one, column in named
    }


def code_cells(columns: list[pd.Series]) -> tuple[Cells, NDArray[np.intp]]:
    """Return the combinations of values that occur, with None for missing, and the index of each row's one."""
    coded = [pd.Categorical(column) for column in columns]
    values = [[*column.categories.to_list(), None] for column in coded]
    places = [
        np.where(column.codes < 0, len(column.categories), column.codes.astype(np.intp))
        for column in coded
    ]
    shape = [len(known) for known in values]
    occurring, codes = np.unique(
        np.ravel_multi_index(places, shape), return_inverse=True
    )
    cells = zip(*np.unravel_index(occurring, shape), strict=True)
    return [
        tuple(v[p] for v, p in zip(values, cell, strict=True)) for cell in cells
    ], codes


def fill_missing(cells: Cells) -> Cells:
    """Name missing values "missing", or, if there is such a value, "(missing)", and so on."""
    name = "missing"
    while any(name in cell for cell in cells):
        name = f"({name})"
    return [
        tuple(name if is_missing(value) else value for value in cell) for cell in cells
    ]


def name_groups(cells: Cells) -> list[Any]:
    return [cell[0] if len(cell) == 1 else cell for cell in fill_missing(cells)]


def find_privileged_cells(cells: Cells, privileged: Any, names: list[Any]) -> Mask:
    """Return which cells are privileged."""
    if len(names) == 1 and not isinstance(privileged, Mapping):
        privileged = {names[0]: privileged}
    if isinstance(privileged, Mapping):
        if set(privileged) != set(names):
            raise ValueError(
                f"privileged has the keys {list(privileged)}; sensitive_features has the columns {names}"
            )
        wanted = [_listed(privileged[name]) for name in names]
        chosen = [
            all(v in w for v, w in zip(cell, wanted, strict=True)) for cell in cells
        ]
    else:
        listed = [privileged] if isinstance(privileged, tuple) else privileged
        if not isinstance(listed, list) or any(
            not isinstance(one, tuple) or len(one) != len(names) for one in listed
        ):
            raise ValueError(
                f"privileged must be a mapping with the keys {names}, or a tuple of {len(names)} values, or a list of "
                f"such tuples, because sensitive_features has {len(names)} columns"
            )
        chosen = [cell in [tuple(_listed(one)) for one in listed] for cell in cells]
    return check_both(np.array(chosen, dtype=bool), "sensitive_features")


def _listed(values: Any) -> list[Any]:
    listed = list(values) if is_collection(values) else [values]
    return [None if is_missing(value) else value for value in listed]


def split_rows(
    control_features: Any, n_rows: int
) -> tuple[list[Any], list[tuple[tuple[Any, ...], NDArray[np.intp]]]]:
    """Return the names of the control features, and their combinations of values with the rows of each."""
    if control_features is None:
        return [], [((), np.arange(n_rows))]
    columns = read_columns(control_features, "control_features")
    sizes = {len(column) for column in columns.values()}
    if sizes != {n_rows}:
        raise ValueError(
            f"control_features must have the same length as y_true, got {max(sizes)} and {n_rows}"
        )
    # A series keeps its name, and a column without a name is named, as by fairlearn.
    own = getattr(control_features, "name", None)
    names = [
        (own or f"control_feature_{place}") if name is None else name
        for place, name in enumerate(columns)
    ]
    if taken := [name for name in names if name in _TAKEN]:
        raise ValueError(
            f"control_features has a column {taken[0]!r}, which is one of the result; rename it"
        )
    cells, codes = code_cells(list(columns.values()))
    return names, [
        (cell, np.flatnonzero(codes == place))
        for place, cell in enumerate(fill_missing(cells))
    ]


def read_features(X: Any, n_rows: int) -> Numbers | None:
    """Read features as numbers, one column for each value of a column of text."""
    if X is None:
        return None
    numbers: Numbers = encode_frame(read_frame(X)).to_numpy(dtype=np.float64)
    if len(numbers) != n_rows:
        raise ValueError(
            f"X must have the same length as y_true, got {len(numbers)} and {n_rows}"
        )
    return numbers


def consistency_rows(
    features: Numbers | None,
    predicted: Mask,
    rows: NDArray[np.intp],
    precision: Precision,
) -> Iterator[Row]:
    """Yield the consistency of some predictions, if features are known."""
    if features is not None:
        estimate = measure_consistency(features[rows], predicted[rows], precision)
        yield CONSISTENCY, CONSISTENCY.definition, None, estimate
