"""Inputs of fairness metrics: labels, weights, features, and the cells of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import read_array
from skdp.metrics._intervals import Numbers
from skdp.metrics._rates import Labels, Mask, Places
from skdp.tables import (
    ColumnError,
    convert_frame,
    is_frame,
    is_missing,
    kind_of,
    read_table,
    shielded,
)

# The combinations of values that make up groups; None stands for a missing value.
Cells = list[tuple[Any, ...]]

# A set of cells: all combinations of some values of each column.
Product = list[list[Any]]


def read_column(values: Any, name: str, *, missing: bool = False) -> pd.Series:
    """Read a column of any library; `missing` says whether values may be missing."""
    if values is None:
        raise TypeError(f"{name} must be a column of values, got None")
    if is_frame(values):
        columns = read_table(values).columns
        if len(columns) != 1:
            raise ValueError(f"{name} must be one column, got {len(columns)}")
        values = columns[0]
    try:
        return shielded(_as_series, values, missing)
    except ColumnError as error:
        raise ValueError(f"{name} {error}") from None


def read_classes(values: Any, name: str) -> pd.Series:
    """Read a column of class labels; fractions are refused, as by scikit-learn."""
    column = read_column(values, name)
    if not is_fractional(column):
        return column
    raise ValueError(
        f"{name} must be class labels, got numbers with fractions, such as "
        "probabilities. Apply a threshold first, for example `score >= 0.5`."
    )


def is_fractional(column: pd.Series) -> bool:
    """Return whether a column holds numbers of which any has a fraction."""
    # scikit-learn's type_of_target agrees, but warns of many classes.
    kind = pd.api.types.infer_dtype(column, skipna=False)
    if isinstance(column.dtype, pd.CategoricalDtype):
        kind = pd.api.types.infer_dtype(column.cat.categories, skipna=False)
    if kind not in ("floating", "decimal"):
        return False
    numbers = column.to_numpy(dtype=np.float64)
    return bool((numbers != np.floor(numbers)).any())


def _as_series(values: Any, missing: bool) -> pd.Series:
    series = nw.from_native(values, pass_through=True, allow_series=True)
    if isinstance(values, pd.Series):
        column = values.reset_index(drop=True)
    elif isinstance(series, nw.Series):
        column = pd.Series(series.to_numpy())
    else:
        column = pd.Series(_as_array(values))
    if not missing and column.isna().any():
        raise ColumnError("has missing values")
    column = column.infer_objects()
    if column.dtype == object:
        # Values that cannot be hashed or compared fail here, where `shielded` hides
        # them.
        pd.Categorical(column)
    return column


def _as_array(values: Any) -> NDArray[Any]:
    if not isinstance(values, np.ndarray):
        # Keep objects: NumPy would convert [1, "a"] to two strings.
        values = np.array(values, dtype=object)
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0]
    if values.ndim != 1:
        raise ColumnError(f"must be one column, got {values.ndim} dimensions")
    return values


def read_numbers(values: Any, name: str) -> Numbers:
    """Read a column of finite numbers."""
    column = read_column(values, name)
    if not pd.api.types.is_numeric_dtype(column.dtype):
        raise ValueError(f"{name} must hold numbers")
    numbers = column.to_numpy(dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must hold finite numbers")
    return numbers


def read_predictions(
    y_true: Any,
    y_pred: Any,
    positive_label: Any,
    *,
    sample_weight: Any,
    **groups: int,
) -> Labels:
    """Read labels and weights.

    `groups` names what has the groups, with its number of rows.
    """
    true = read_classes(y_true, "y_true")
    predicted = read_classes(y_pred, "y_pred")
    lengths = {"y_true": len(true), "y_pred": len(predicted)} | groups
    weights = None
    if sample_weight is not None:
        weights = read_numbers(sample_weight, "sample_weight")
        lengths["sample_weight"] = len(weights)
    _check_lengths(lengths)
    # Only the positive label matters: of several classes, all others are negative.
    positive_label = find_positive_label(positive_label, y_true=true, y_pred=predicted)
    _check_labels(true, predicted, positive_label)
    is_true = true.isin([positive_label]).to_numpy(dtype=bool)
    is_predicted = predicted.isin([positive_label]).to_numpy(dtype=bool)
    if weights is None:
        weights = np.ones(len(true))
    return Labels(is_true, is_predicted, _scale_weights(weights))


def _check_lengths(lengths: Mapping[str, int]) -> None:
    if len(set(lengths.values())) == 1:
        return
    *names, last_name = lengths
    *sizes, last_size = map(str, lengths.values())
    raise ValueError(
        f"{', '.join(names)} and {last_name} must have the same length, got "
        f"{', '.join(sizes)} and {last_size}"
    )


def _scale_weights(weights: Numbers) -> Numbers:
    """Scale weights by a power of two, which rounds nothing: the largest is 1 to 2."""
    if (weights < 0).any() or not (weights > 0).any():
        raise ValueError("sample_weight must be at least 0, and not 0 for all rows")
    # Squares of weights as small as 1e-300, or as large as 1e200, are no floats.
    _, exponent = np.frexp(weights.max())
    return np.ldexp(weights, 1 - exponent)


def find_positive_label(positive_label: Any, **columns: pd.Series) -> Any:
    """Return the positive label: 1 by default, where all labels are 0 and 1."""
    if positive_label is not None:
        return positive_label
    for name, labels in columns.items():
        if not labels.isin([0, 1]).all():
            raise ValueError(
                "positive_label must be given: the favourable label is 1 by default "
                f"only if all labels are 0 and 1, or False and True, and {name} holds "
                "others"
            )
    return 1


def _check_labels(true: pd.Series, predicted: pd.Series, positive_label: Any) -> None:
    """Refuse labels that do not match."""
    true_labels = set(true.unique().tolist())
    predicted_labels = set(predicted.unique().tolist())
    # All messages leave the labels out: they are values of the data.
    labels = true_labels | predicted_labels
    if positive_label not in labels:
        raise ValueError(
            "neither y_true nor y_pred holds a label that equals positive_label"
        )
    # One of two labels may only be predicted; with more, a mistake is likely: 1 and
    # "1", ">50K" and ">50K.".
    if len(labels) > 2 and not true_labels & predicted_labels:
        raise ValueError(
            "y_true and y_pred have no label in common, though there are more than two "
            "labels"
        )
    kinds = set(map(kind_of, labels))
    kinds.discard("boolean")  # which are numbers
    if len(kinds) > 1:
        raise ValueError(
            "y_true and y_pred must hold labels of one kind, got "
            f"{' and '.join(sorted(kinds))}"
        )


def read_columns(features: Any, name: str) -> dict[Any, pd.Series]:
    """Read columns in which values may be missing, by their names.

    A column without a name has the name None.
    """
    if not is_frame(features):
        if read_array(features, name).ndim != 2:
            # An unnamed polars series has the name "".
            label = getattr(features, "name", None)
            label = None if isinstance(label, str) and not label else label
            return {label: read_column(features, name, missing=True)}
        # Keep objects: NumPy would convert 1 and "a" of two columns to strings.
        features = np.array(features, dtype=object)
    table = read_table(features)
    if not table.names:
        raise ValueError(f"{name} must have at least one column")
    columns = {}
    for column_name, column in zip(table.names, table.columns, strict=True):
        label = name if len(table.names) == 1 else f"{name} column {column_name!r}"
        columns[column_name] = read_column(column, label, missing=True)
    return columns


def code_cells(columns: list[pd.Series]) -> tuple[Cells, Places]:
    """Return the combinations of values that occur, and the index of each row's one."""
    values, codes = [], []
    for column in columns:
        coded = pd.Categorical(column)
        n_values = len(coded.categories)
        values.append([*coded.categories.to_list(), None])
        # Missing values have the code -1.
        codes.append(np.where(coded.codes < 0, n_values, coded.codes.astype(np.intp)))
    shape = list(map(len, values))
    # Only combinations that occur become cells: all would be too many of many columns.
    joint = np.ravel_multi_index(codes, shape)
    occurring, cell_of_row = np.unique(joint, return_inverse=True)
    # For each column, the values of the cells.
    columns_of_cells = []
    for column_values, places in zip(
        values, np.unravel_index(occurring, shape), strict=True
    ):
        columns_of_cells.append(map(column_values.__getitem__, places))
    return list(zip(*columns_of_cells, strict=True)), cell_of_row


def fill_missing(cells: Cells) -> Cells:
    """Name missing values "missing", or "(missing)" if a value has this name."""
    name = "missing"
    # Missing values stay apart from a value that is called so.
    while any(name in cell for cell in cells):
        name = f"({name})"
    filled = []
    for cell in cells:
        filled.append(tuple(name if is_missing(value) else value for value in cell))
    return filled


def name_groups(cells: Cells) -> list[Any]:
    """Return the names of groups: a value, or a tuple of values of several columns."""
    return [cell[0] if len(cell) == 1 else cell for cell in fill_missing(cells)]


def read_privileged(privileged: Any, names: Sequence[Any]) -> list[Product]:
    """Return the privileged values, as products whose union is privileged."""
    if isinstance(privileged, Mapping):
        if list(names) == [None]:
            raise ValueError(
                "`privileged` must be a value or a list of values for a column "
                "without a name, got a mapping. Name the column, or pass the values."
            )
        if set(privileged) != set(names):
            raise ValueError(
                f"`privileged` must have the keys {list(names)}, got "
                f"{list(privileged)}."
            )
        return [[_list_values(privileged[name]) for name in names]]
    if len(names) == 1:
        return [[_list_values(privileged)]]
    # A tuple of values is a cell, a tuple of tuples is a collection of cells.
    cells = list(privileged) if is_collection(privileged) else [privileged]
    if isinstance(privileged, tuple) and not isinstance(privileged[0], tuple):
        cells = [privileged]
    products = []
    for cell in cells:
        if not isinstance(cell, tuple) or len(cell) != len(names):
            raise ValueError(
                f"privileged must be a mapping with the keys {list(names)}, or a tuple "
                "with a value for each of them, or a list of such tuples"
            )
        products.append([[value] for value in _list_values(cell)])
    return products


def _list_values(values: Any) -> list[Any]:
    listed = list(values) if is_collection(values) else [values]
    if any(map(callable, listed)):
        raise TypeError(
            "`privileged` must be values of the sensitive feature, got a function. "
            "Pass its result as the sensitive feature, for example "
            "`sensitive_features=age > 25, privileged=True`."
        )
    return [None if is_missing(value) else value for value in listed]


def is_in_products(cells: Cells, products: list[Product]) -> Mask:
    """Return which cells are in the union of some products."""
    mask = np.zeros(len(cells), bool)
    for product in products:
        in_product = np.ones(len(cells), bool)
        for place, values in enumerate(product):
            in_product &= [cell[place] in values for cell in cells]
        mask |= in_product
    return mask


def is_collection(values: Any) -> bool:
    """Whether an argument is a collection of values, not a single one."""
    kinds = (list, tuple, set, frozenset, np.ndarray, pd.Index, pd.Series)
    return isinstance(values, kinds)


def check_both(privileged: Mask, name: str) -> None:
    """Refuse groups of which one is empty."""
    if not privileged.any():
        raise ValueError(f"{name} has no row with a privileged value")
    if privileged.all():
        raise ValueError(f"{name} has no row with a value that is not privileged")


def read_frame(X: Any) -> pd.DataFrame:
    """Read a table of any library as pandas."""
    if isinstance(X, np.ndarray) and X.ndim == 2:
        X = pd.DataFrame(X, columns=list(read_table(X).names))
    if not is_frame(X):
        raise TypeError(
            "X must be a pandas, polars or pyarrow dataframe or a 2-D array, got "
            f"{type(X).__name__}"
        )
    table = read_table(X)
    if not isinstance(X, pd.DataFrame):
        X = convert_frame(_without_levels(X), "pandas")
    frame = X.infer_objects()
    for name in table.names:
        if frame[name].isna().any():
            raise ValueError(
                f"column {name!r} has missing values; drop or impute them first"
            )
    return frame


def _without_levels(X: Any) -> Any:
    """Return categorical columns as text, as their levels depend on the data."""
    frame = nw.from_native(X, eager_only=True)
    for name, dtype in frame.schema.items():
        if dtype == nw.Categorical:
            frame = frame.with_columns(nw.col(name).cast(nw.String))
    return frame.to_native()


def encode_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert every column to numbers, or to one 0/1 column per value."""
    numbers, texts = {}, []
    for name in frame.columns:
        column = _as_numbers(frame[name])
        if column is None:
            texts.append(name)
        else:
            numbers[name] = column
    return pd.get_dummies(
        frame.assign(**numbers), columns=texts, prefix_sep="=", dtype=np.float64
    )


def _as_numbers(column: pd.Series) -> pd.Series | None:
    """Convert numbers, Booleans, dates and durations; return None for other columns."""
    kind = pd.api.types.infer_dtype(column, skipna=False)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return None
    if pd.api.types.is_numeric_dtype(column.dtype) or kind in ("decimal", "boolean"):
        return column.astype(np.float64)
    if kind in ("date", "datetime", "datetime64"):
        times = pd.to_datetime(column, utc=True)
        return (times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    if kind in ("timedelta", "timedelta64"):
        return pd.to_timedelta(column) / pd.Timedelta(days=1)
    return None
