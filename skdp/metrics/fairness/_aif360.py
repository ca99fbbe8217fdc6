"""Conversion to aif360; it and fairlearn are imported only when needed."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import ColumnLike, ColumnName, Label, Privileged, TableLike
from skdp.tables import ColumnError, convert_frame, is_frame, read_table, shielded


def to_aif360(
    X: TableLike,
    y: ColumnLike,
    sensitive_features: ColumnName | list[ColumnName],
    *,
    privileged: Privileged,
    positive_label: Label | None = None,
    sample_weight: ColumnLike | None = None,
    label_name: str = "label",
    metadata: Mapping[str, Any] | None = None,
) -> Any:
    """Convert a table with strings to a numeric aif360 dataset.

    Parameters
    ----------
    X : pandas, polars or pyarrow dataframe, or 2-D array, of shape (n_samples, n_features)
        The features, including the sensitive ones. Numbers and Booleans are kept; dates become days since 1970-01-01
        (UTC), durations days. In other columns, each value becomes a 0/1 column ``column=value``, after the kept ones;
        a pandas categorical or polars Enum column has one for each declared value. The row index of a pandas frame
        becomes the instance names. The columns of an array are named ``x0, x1, …``.
    y : array-like or series of shape (n_samples,), or dataframe of one column
        The labels, true or predicted.
    sensitive_features : column name or list of column names
        The protected attributes: columns of X. Each keeps its place, as 1.0 for privileged and 0.0 for other rows.
    privileged : mapping of column name to value or list of values
        The privileged values. For a single sensitive feature, the value or list of values is enough.
    positive_label : label, optional
        The favourable label. By default 1, if all labels are 0 and 1, or False and True. It
        becomes 1.0 and any other 0.0.
    sample_weight : array-like or series of shape (n_samples,), optional
        Finite weights of the rows, at least 0: aif360's ``instance_weights``. By default all are 1.
    label_name : str, default="label"
        The name of the label in the dataset.
    metadata : mapping, optional
        The dataset's ``metadata``, in which aif360 looks for ``label_maps`` and ``protected_attribute_maps``.

    Returns
    -------
    aif360.datasets.BinaryLabelDataset
        The dataset.

    Raises
    ------
    ImportError
        If aif360 is not installed.
    TypeError
        If X is neither a dataframe nor an array, or is a lazy frame; if `sensitive_features` is a column itself.
    ValueError
        If a value is missing, lengths, names or weights do not fit, a sensitive feature has only privileged or only
        other rows, or none of several labels is the positive one.

    See Also
    --------
    fairness_report : The usual metrics in one table.

    Notes
    -----
    **Privacy.** A conversion: the dataset contains the values of X and y, protected or not. With a privatised sensitive
    feature, metrics are those of the privatised groups; keep the true one for scoring, or correct for the noise.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"sex": ["Female", "Male", "Male"], "job": ["Sales", "Sales", "Craft"]})
    >>> people["age"] = [39, 50, 38]
    >>> dataset = to_aif360(people, ["no", "yes", "no"], "sex", privileged="Male", positive_label="yes")
    >>> dataset.feature_names
    ['sex', 'age', 'job=Craft', 'job=Sales']
    >>> dataset.protected_attributes.ravel().tolist(), dataset.labels.ravel().tolist()
    ([0.0, 1.0, 1.0], [0.0, 1.0, 0.0])
    """
    datasets = import_optional("aif360.datasets")
    frame = read_frame(X)
    labels = read_column(y, "y")
    if len(labels) != len(frame):
        raise ValueError(f"X has {len(frame)} rows, y has {len(labels)} labels")
    if label_name in map(str, frame.columns):
        raise ValueError(
            f"X has a column {label_name!r}; set label_name to another name"
        )
    groups = _read_privileged(sensitive_features, privileged, list(frame.columns))
    for name, values in groups.items():
        frame[name] = indicate_privileged(
            frame[name], values, f"sensitive feature {name!r}"
        )
    numeric = encode_frame(frame)
    numeric[label_name] = _indicate_positive(
        labels, find_positive_label(positive_label, y=labels)
    )
    weights = (
        None if sample_weight is None else _read_weights(sample_weight, len(frame))
    )
    if numeric.columns.has_duplicates:
        raise ValueError(
            "an encoded column 'column=value' has the name of another column; rename that one"
        )
    dataset = datasets.BinaryLabelDataset(
        df=numeric,
        label_names=[label_name],
        protected_attribute_names=list(groups),
        privileged_protected_attributes=[np.array([1.0]) for _ in groups],
        unprivileged_protected_attributes=[np.array([0.0]) for _ in groups],
        favorable_label=1.0,
        unfavorable_label=0.0,
        metadata=dict(metadata or {}),  # aif360 writes into it
    )
    if weights is not None:
        dataset.instance_weights = weights
    return dataset


def read_column(values: Any, name: str, *, missing: bool = False) -> pd.Series:
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


def _as_series(values: Any, missing: bool) -> pd.Series:
    series = nw.from_native(values, pass_through=True, allow_series=True)
    if isinstance(values, pd.Series):
        column = values.reset_index(drop=True)
    elif isinstance(series, nw.Series):
        column = pd.Series(series.to_numpy())
    else:
        # Keep objects: NumPy would convert [1, "a"] to two strings.
        array = (
            values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
        )
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            raise ColumnError(f"must be one column, got {array.ndim} dimensions")
        column = pd.Series(array)
    if not missing and column.isna().any():
        raise ColumnError("has missing values")
    column = column.infer_objects()
    if column.dtype == object:
        pd.Categorical(
            column
        )  # values that cannot be hashed or compared fail here, where the error is hidden
    return column


def indicate_privileged(
    column: pd.Series, privileged: Any, name: str
) -> NDArray[np.float64]:
    mask = column.isin(
        list(privileged) if is_collection(privileged) else [privileged]
    ).to_numpy(dtype=bool)
    return check_both(mask, name).astype(np.float64)


def check_both(privileged: NDArray[np.bool_], name: str) -> NDArray[np.bool_]:
    """Refuse groups of which one is empty."""
    if not privileged.any():
        raise ValueError(f"{name} has no row with a privileged value")
    if privileged.all():
        raise ValueError(f"{name} has no row with a value that is not privileged")
    return privileged


def is_collection(values: Any) -> bool:
    """Whether an argument is a collection of values, not a single one."""
    return isinstance(
        values, list | tuple | set | frozenset | np.ndarray | pd.Index | pd.Series
    )


def _read_weights(sample_weight: Any, n_rows: int) -> NDArray[np.float64]:
    weights = read_column(sample_weight, "sample_weight")
    if len(weights) != n_rows:
        raise ValueError(f"X has {n_rows} rows, sample_weight has {len(weights)}")
    if not pd.api.types.is_numeric_dtype(weights.dtype):
        raise ValueError("sample_weight must hold numbers")
    numbers = weights.to_numpy(
        dtype=np.float64, copy=True
    )  # a copy, as aif360 writes to the weights
    if not np.isfinite(numbers).all() or (numbers < 0).any():
        raise ValueError("sample_weight must be finite and at least 0")
    return numbers


def _read_privileged(
    sensitive_features: Any, privileged: Any, columns: list[Any]
) -> dict[Any, Any]:
    names = (
        list(sensitive_features)
        if isinstance(sensitive_features, list)
        else [sensitive_features]
    )
    if strange := [
        type(name).__name__ for name in names if not isinstance(name, Hashable)
    ]:
        raise TypeError(
            f"sensitive_features must be the name of a column of X or a list of names, got a {strange[0]}"
        )
    if not names or any(name not in columns for name in names):
        raise ValueError(
            f"sensitive_features must name columns of X, which are {columns}"
        )
    if not isinstance(privileged, Mapping):
        if len(names) > 1:
            raise ValueError(f"privileged must be a mapping with the keys {names}")
        return {names[0]: privileged}
    if set(privileged) != set(names):
        raise ValueError(
            f"privileged has the keys {list(privileged)}; sensitive_features names {names}"
        )
    return {name: privileged[name] for name in names}


def find_positive_label(positive_label: Any, **columns: pd.Series) -> Any:
    """Return the positive label, which is 1 by default, where all labels are 0 and 1."""
    if positive_label is not None:
        return positive_label
    for name, labels in columns.items():
        if not labels.isin([0, 1]).all():
            raise ValueError(
                "positive_label must be given: the favourable label is 1 by default only if all labels are 0 and 1, or "
                f"False and True, and {name} holds others"
            )
    return 1


def _indicate_positive(labels: pd.Series, positive_label: Any) -> NDArray[np.float64]:
    positive = labels.isin([positive_label]).to_numpy(dtype=bool)
    # A model may predict one label only; several labels without the positive one are a mistake.
    if not positive.any() and labels.nunique() > 1:
        raise ValueError("y has no label that equals positive_label")
    return positive.astype(np.float64)


def read_frame(X: Any) -> pd.DataFrame:
    """Read a table of any library as pandas."""
    if isinstance(X, np.ndarray) and X.ndim == 2:
        X = pd.DataFrame(X, columns=list(read_table(X).names))
    if not is_frame(X):
        raise TypeError(
            f"X must be a pandas, polars or pyarrow dataframe or a 2-D array, got {type(X).__name__}"
        )
    table = read_table(X)
    if not isinstance(X, pd.DataFrame):
        # The levels of a polars or pyarrow categorical depend on the data.
        native = nw.from_native(X, eager_only=True)
        native = native.with_columns(
            nw.col(n).cast(nw.String)
            for n, t in native.schema.items()
            if t == nw.Categorical
        )
        X = convert_frame(native.to_native(), "pandas")
    frame = X.infer_objects()
    for name in table.names:
        if frame[name].isna().any():
            raise ValueError(
                f"column {name!r} has missing values; drop or impute them first"
            )
    return frame


def encode_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert every column to numbers, or to one 0/1 column per value."""
    numeric = {
        name: numbers
        for name in frame.columns
        if (numbers := _as_numbers(frame[name])) is not None
    }
    texts = [name for name in frame.columns if name not in numeric]
    return pd.get_dummies(
        frame.assign(**numeric), columns=texts, prefix_sep="=", dtype=np.float64
    )


def _as_numbers(column: pd.Series) -> pd.Series | None:
    """Convert numbers, Booleans, dates and durations to floats; return None for other columns."""
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


def import_optional(module: str) -> Any:
    """Import a module of aif360 or fairlearn."""
    try:
        with _without_advice():
            return import_module(module)
    except ImportError as error:
        needed = module.partition(".")[0]
        raise ImportError(
            f'this needs {needed}: pip install "skdp[fairness]"'
        ) from error


@contextmanager
def _without_advice() -> Iterator[None]:
    """Suppress aif360's log lines on learners that need tensorflow or inFairness, which skdp does not use."""

    def is_other(record: logging.LogRecord) -> bool:
        return "will be unavailable" not in record.getMessage()

    root = logging.getLogger()
    # aif360 calls logging.warning, which configures the logging of the whole program if it is not configured yet.
    stand_in = logging.lastResort if not root.handlers else None
    if stand_in is not None:
        root.addHandler(stand_in)
    root.addFilter(is_other)
    try:
        yield
    finally:
        root.removeFilter(is_other)
        if stand_in is not None:
            root.removeHandler(stand_in)
