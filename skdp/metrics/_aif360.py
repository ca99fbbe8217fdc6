"""Conversion from and to aif360's datasets."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

import narwhals.stable.v2 as nw
import narwhals.stable.v2.selectors as selectors
import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from skdp.base import (
    ColumnLike,
    ColumnName,
    Label,
    Privileged,
    TableLike,
    check_row_order,
)
from skdp.domain import Domain
from skdp.metrics._inputs import (
    check_both,
    find_positive_label,
    list_privileged,
    parse_classes,
)
from skdp.tables import convert_frame, is_frame, wrap_table

LABEL = "label"


def to_aif360(
    X: TableLike,
    y: ColumnLike,
    sensitive_features: ColumnName | list[ColumnName],
    *,
    privileged: Privileged,
    positive_label: Label | None = None,
) -> Any:
    """Convert a table with strings to a numeric aif360 dataset.

    Parameters
    ----------
    X : pandas, polars or pyarrow dataframe, or 2-D array, of shape (n_samples, n_features)
        Features, including the sensitive ones. Numbers and Booleans are kept. Other
        columns become a 0/1 column ``column=value`` for each value, after the kept ones;
        a pandas categorical or polars Enum column has one for each declared value. The
        row index of a pandas frame becomes the instance names.
    y : array-like or series of shape (n_samples,), or dataframe of one column
        True or predicted labels, with the name "label" in the dataset.
    sensitive_features : column name or list of column names
        Columns of X that become protected attributes, 1.0 for privileged and 0.0 for
        other rows.
    privileged : value, list of values, or mapping of column name to such
        Privileged values; for several sensitive features, a mapping.
    positive_label : label, default=None
        Favorable label, which becomes 1.0; other labels become 0.0. None is 1, if all
        labels are 0 and 1, or False and True.

    Returns
    -------
    aif360.datasets.BinaryLabelDataset
        The dataset.

    Raises
    ------
    ImportError
        If aif360 is not installed.
    TypeError
        If X is neither a dataframe nor an array, or is a lazy frame; if
        `sensitive_features` is a column itself.
    ValueError
        If a value is missing, lengths, names or the order of row labels do not
        fit, a sensitive feature has only privileged or only other rows, or none of
        several labels is the positive one.

    See Also
    --------
    from_aif360 : Convert a dataset to a table.
    fairness_report : The usual metrics in one table.

    Notes
    -----
    **Privacy.** A conversion: the dataset contains the values of X and y, protected or
    not. With a privatized sensitive feature, metrics compare the reported groups.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.metrics import to_aif360
    >>> people = pd.DataFrame({"sex": ["Female", "Male", "Male"], "job": ["Sales", "Sales", "Craft"]})
    >>> people["age"] = [39, 50, 38]
    >>> dataset = to_aif360(people, ["no", "yes", "no"], "sex", privileged="Male", positive_label="yes")
    >>> dataset.feature_names
    ['sex', 'age', 'job=Craft', 'job=Sales']
    >>> dataset.protected_attributes.ravel().tolist(), dataset.labels.ravel().tolist()
    ([0.0, 1.0, 1.0], [0.0, 1.0, 0.0])
    """
    datasets = import_optional("aif360.datasets")
    check_row_order(X=X, y=y)
    frame = _convert_frame(X)
    labels = parse_classes(y, "y")
    if len(labels) != len(frame):
        raise ValueError(f"X has {len(frame)} rows, y has {len(labels)} labels")
    # One name for all datasets: aif360's metrics compare the labels of two.
    if LABEL in map(str, frame.columns):
        raise ValueError(f"X must not have a column {LABEL!r}. Rename it.")
    names = _check_names(sensitive_features, list(frame.columns))
    values = list_privileged(privileged, names)
    # aif360 compares numbers, so a protected attribute is 1.0 for privileged rows.
    for name, listed in zip(names, values, strict=True):
        is_privileged = frame[name].isin(listed).to_numpy(dtype=bool)
        check_both(is_privileged, f"sensitive feature {name!r}")
        frame[name] = is_privileged.astype(np.float64)
    numeric = _encode_frame(frame)
    label = find_positive_label(positive_label, y=labels)
    is_positive = labels.isin([label]).to_numpy(dtype=bool)
    # If all labels are equal, they may be predictions of which none is positive.
    if not is_positive.any() and labels.nunique() > 1:
        raise ValueError("positive_label must be a label of y")
    numeric[LABEL] = is_positive.astype(np.float64)
    if numeric.columns.has_duplicates:
        raise ValueError(
            "An encoded column 'column=value' has the name of another column. Rename "
            "a column of X."
        )
    return datasets.BinaryLabelDataset(
        df=numeric,
        label_names=[LABEL],
        protected_attribute_names=names,
        privileged_protected_attributes=[np.ones(1)] * len(names),
        unprivileged_protected_attributes=[np.zeros(1)] * len(names),
        favorable_label=1.0,
        unfavorable_label=0.0,
    )


def _convert_frame(X: Any) -> pd.DataFrame:
    """Read a table of any library as pandas."""
    if isinstance(X, np.ndarray) and X.ndim == 2:
        X = pd.DataFrame(X, columns=list(wrap_table(X).names))
    if not is_frame(X):
        raise TypeError(
            "X must be a pandas, polars or pyarrow dataframe or a 2-D array, got "
            f"{type(X).__name__}"
        )
    table = wrap_table(X)
    if not isinstance(X, pd.DataFrame):
        # The levels of categorical columns outside of pandas depend on the data.
        text = selectors.categorical().cast(nw.String)
        X = nw.from_native(X, eager_only=True).with_columns(text).to_native()
        X = convert_frame(X, "pandas")
    # Objects that are all numbers or dates become columns of them.
    frame = X.infer_objects()
    for name in table.names:
        if frame[name].isna().any():
            raise ValueError(
                f"column {name!r} has missing values; drop or impute them first"
            )
    return frame


def _check_names(names: Any, columns: list[Any]) -> list[Any]:
    names = names if isinstance(names, list) else [names]
    for name in names:
        if not isinstance(name, Hashable):
            raise TypeError(
                "sensitive_features must be the name of a column of X or a list of "
                f"names, got a {type(name).__name__}"
            )
    if not names or any(name not in columns for name in names):
        raise ValueError(
            f"sensitive_features must name columns of X, which are {columns}"
        )
    return list(names)


def _encode_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert numbers and Booleans to floats, and other columns to a 0/1 column for each value."""
    numbers = {}
    for name in frame:
        is_decimal = pd.api.types.infer_dtype(frame[name]) in ("decimal", "boolean")
        if pd.api.types.is_numeric_dtype(frame[name].dtype) or is_decimal:
            numbers[name] = np.float64
    texts = [name for name in frame if name not in numbers]
    return pd.get_dummies(
        frame.astype(numbers), columns=texts, prefix_sep="=", dtype=np.float64
    )


def from_aif360(dataset: Any) -> Bunch:
    """Convert an aif360 dataset to a table with a declared domain.

    Parameters
    ----------
    dataset : aif360.datasets.BinaryLabelDataset
        Result of `to_aif360`, or one of aif360's own datasets.

    Returns
    -------
    Bunch
        With the entries

        - data: DataFrame of shape (n_samples, n_features), indexed by the instance
          names. Columns ``column=value`` of 0 and 1, one of which is 1 in each row,
          become one column of values; protected attributes have the names of
          ``metadata["protected_attribute_maps"]``, if there are any.
        - target: Series of shape (n_samples,), with the names of
          ``metadata["label_maps"]``, if there are any.
        - domain: `Domain` of the protected attributes and of the columns that were 0
          and 1.
        - protected: names of the protected attributes.
        - privileged: mapping of each of them to its privileged values.
        - positive_label: favorable label.
        - sample_weight: ndarray of shape (n_samples,), the instance weights.

    Raises
    ------
    TypeError
        If `dataset` is not a BinaryLabelDataset.
    ValueError
        If a protected attribute has another value than the dataset declares.

    See Also
    --------
    to_aif360 : Convert a table to a dataset.
    skdp.evaluation.fairness_study : Compare methods on such a table.

    Notes
    -----
    **Privacy.** A conversion: the result contains the values of the dataset. aif360's
    own datasets collect the values of `domain` from the rows; declare a public domain
    for a release.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.metrics import from_aif360, to_aif360
    >>> people = pd.DataFrame({"sex": ["Female", "Male", "Male"], "job": ["Sales", "Sales", "Craft"]})
    >>> dataset = to_aif360(people, ["no", "yes", "no"], "sex", privileged="Male", positive_label="yes")
    >>> table = from_aif360(dataset)
    >>> table.data["job"].tolist(), table.privileged, table.positive_label
    (['Sales', 'Sales', 'Craft'], {'sex': [1.0]}, 1.0)
    >>> encoder = RandomizedResponseEncoder(1.0, categories=table.domain.select(["sex"]))
    >>> reports = encoder.fit_transform(table.data[["sex"]])
    """
    required = ("protected_attribute_names", "favorable_label", "features")
    if not all(hasattr(dataset, name) for name in required):
        raise TypeError(
            "dataset must be a BinaryLabelDataset of aif360, got "
            f"{type(dataset).__name__}"
        )
    protected = list(dataset.protected_attribute_names)
    index, names = pd.Index(dataset.instance_names), list(dataset.feature_names)
    features = pd.DataFrame(np.asarray(dataset.features), index=index, columns=names)
    data, declared = _join_indicators(features, protected)
    privileged = {}
    maps = dataset.metadata.get("protected_attribute_maps") or [{}] * len(protected)
    for number, (name, names_of_values) in enumerate(zip(protected, maps, strict=True)):
        first = np.asarray(dataset.privileged_protected_attributes[number]).tolist()
        second = np.asarray(dataset.unprivileged_protected_attributes[number]).tolist()
        if not data[name].isin([*second, *first]).all():
            raise ValueError(
                f"protected attribute {name!r} has values that the dataset declares "
                "neither privileged nor unprivileged"
            )
        # Numbers that the metadata do not name are kept.
        data[name] = _rename_values(data[name], names_of_values)
        named = [names_of_values.get(value, value) for value in [*second, *first]]
        declared[name] = list(dict.fromkeys(named))
        privileged[name] = named[len(second) :]
    labels = pd.Series(np.ravel(dataset.labels), index=index)
    label_names = (dataset.metadata.get("label_maps") or [{}])[0]
    positive_label = dataset.favorable_label
    return Bunch(
        data=data,
        target=_rename_values(labels, label_names).rename(dataset.label_names[0]),
        domain=Domain(declared),
        protected=protected,
        privileged=privileged,
        positive_label=label_names.get(positive_label, positive_label),
        sample_weight=np.asarray(dataset.instance_weights, dtype=float).copy(),
    )


def _join_indicators(
    features: pd.DataFrame, protected: list[Any]
) -> tuple[pd.DataFrame, dict[Any, list[Any]]]:
    """Join columns ``column=value`` to columns of values; also return the values."""
    blocks: dict[Any, list[Any]] = {}
    for name in features:
        column, sign, _ = str(name).partition("=")
        # A column "sex=f" is an indicator unless there is a column "sex", too.
        is_indicator = bool(sign) and name not in protected and column not in features
        blocks.setdefault(column if is_indicator else name, []).append(name)
    columns: dict[Any, Any] = {}
    declared = {}
    for column, names in blocks.items():
        block: Any = features[names]
        if len(names) > 1:
            # An error unless each row has exactly one 1 among zeros.
            with suppress(TypeError, ValueError):
                block = pd.from_dummies(block, sep="=")
                declared[column] = [str(name).partition("=")[2] for name in names]
        columns |= dict(block)
    return pd.DataFrame(columns, index=features.index), declared


def _rename_values(column: pd.Series, names: Mapping[Any, Any]) -> pd.Series:
    """Replace numbers by their names; numbers without a name are kept."""
    if not names:
        return column
    return column.astype(object).map(lambda value: names.get(value, value))


def import_optional(module: str) -> Any:
    """Import a module of aif360 or fairlearn."""
    try:
        return import_module(module)
    except ImportError as error:
        package, _, _ = module.partition(".")
        raise ImportError(
            f"This function requires {package}. Use pip install {package} (extra "
            "'fairness')"
        ) from error
