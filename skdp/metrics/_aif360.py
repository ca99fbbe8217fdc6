"""Conversion to and from datasets of aif360."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v2 as nw
import narwhals.stable.v2.selectors as selectors
import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from skdp._arrays import ColumnLike, ColumnName, Label, Privileged, TableLike
from skdp.base import check_row_order
from skdp.domain import Domain
from skdp.metrics._labels import (
    check_both_groups,
    find_positive_label,
    list_column_names,
    list_privileged,
    parse_classes,
    parse_weights,
)
from skdp.readers import import_extra
from skdp.tables import convert_frame, is_frame, wrap_table

# Name of the label column in all datasets: aif360's metrics compare the labels of two.
LABEL = "label"


def to_aif360(
    X: TableLike,
    y: ColumnLike,
    sensitive_features: ColumnName | list[ColumnName],
    *,
    privileged: Privileged,
    positive_label: Label | None = None,
    sample_weight: ColumnLike | None = None,
) -> Any:
    """Convert a table with strings to a numeric aif360 dataset.

    Parameters
    ----------
    X : pandas, polars or pyarrow dataframe of shape (n_samples, n_features)
        Features, including the sensitive features. Numbers and booleans are kept. Other
        columns are replaced by a 0/1 column ``column=value`` for each value, or for
        each declared value of a pandas categorical or polars Enum column. The row index
        of a pandas frame becomes the instance names.
    y : array-like or series of shape (n_samples,), or dataframe of one column
        True or predicted labels, at most two, with the name "label" in the dataset and
        their values in ``metadata["label_maps"]``.
    sensitive_features : column name or list of column names
        Columns of X with two values, which become protected attributes, 1.0 for
        privileged and 0.0 for other rows. Their values are in
        ``metadata["protected_attribute_maps"]``.
    privileged : value, list of values, or mapping of column name to such
        Privileged values; for several sensitive features, a mapping.
    positive_label : label, default=None
        Favorable label, which becomes 1.0; the other label becomes 0.0. If None, it is
        1, and all labels must be 0 and 1, or False and True.
    sample_weight : array-like of shape (n_samples,), default=None
        Instance weights. If None, all weights are 1.

    Returns
    -------
    aif360.datasets.BinaryLabelDataset
        The dataset.

    Raises
    ------
    ImportError
        If aif360 is not installed.
    TypeError
        If X is no dataframe, or a lazy frame.
    ValueError
        If a value is missing; if lengths, names or the order of row labels do not match; if
        a sensitive feature has more than two values, or only privileged or only
        unprivileged rows; or if y has more than two labels, or not the positive label.

    See Also
    --------
    from_aif360 : Convert a dataset to a table.
    fairness_report : The usual metrics in one table.

    Notes
    -----
    **Privacy.** The dataset contains the values of X and y and adds no protection. With
    a privatized sensitive feature, metrics compare the reported groups.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.metrics import to_aif360
    >>> people = pd.DataFrame({"sex": ["Female", "Male", "Male"], "job": ["Sales", "Sales", "Craft"]})
    >>> people["age"] = [39, 50, 38]
    >>> dataset = to_aif360(people, ["no", "yes", "no"], "sex", privileged="Male", positive_label="yes")
    >>> dataset.feature_names
    ['sex', 'age', 'job=Craft', 'job=Sales']
    >>> dataset.metadata["protected_attribute_maps"]
    [{1.0: 'Male', 0.0: 'Female'}]
    >>> dataset.protected_attributes.ravel().tolist(), dataset.labels.ravel().tolist()
    ([0.0, 1.0, 1.0], [0.0, 1.0, 0.0])
    """
    datasets = import_extra("aif360.datasets", "fairness")
    check_row_order(X=X, y=y)
    frame = _convert_frame(X)
    labels = parse_classes(y, "y")
    if len(labels) != len(frame):
        raise ValueError(
            f"X and y must have the same length, got {len(frame)} and {len(labels)}."
        )
    if LABEL in map(str, frame.columns):
        raise ValueError(
            f"X must not have a column {LABEL!r}, the name of the labels. Rename it."
        )
    names = _check_names(sensitive_features, list(frame.columns))
    # Numbers of protected attributes by their values.
    attribute_maps, dtypes = [], dict(frame.dtypes)
    for name, listed in zip(names, list_privileged(privileged, names), strict=True):
        column = frame[name]
        is_privileged = column.isin(listed).to_numpy(dtype=bool)
        check_both_groups(is_privileged, f"X[{name!r}]")
        values = _list_categories(column)
        if len(values) > 2:
            raise ValueError(
                f"Column {name!r} of X must have two values as a protected attribute of "
                f"aif360, got {len(values)}. Combine them first, such as "
                f"X[{name!r}].isin(privileged)."
            )
        values.sort(key=listed.__contains__)
        attribute_maps.append({1.0: values[1], 0.0: values[0]})
        # aif360 compares numbers, so a protected attribute is 1.0 for privileged rows.
        frame[name] = is_privileged.astype(np.float64)
    numeric, indicators = _encode_frame(frame)
    label = find_positive_label(positive_label, y=labels)
    is_positive = labels.isin([label]).to_numpy(dtype=bool)
    other_labels = labels[~is_positive].unique()
    # Predictions may all be negative, so equal labels are accepted.
    if len(other_labels) > 1:
        raise ValueError(
            "y must have two labels, of which one is `positive_label`, got "
            f"{len(other_labels)} other labels. Compare them with the positive label first."
        )
    label_column = pd.Series(is_positive.astype(np.float64), numeric.index, name=LABEL)
    numeric = pd.concat([numeric, label_column], axis=1)
    if numeric.columns.has_duplicates:
        raise ValueError(
            "X must have column names other than the names 'column=value' of encoded "
            "columns. Rename a column of X."
        )
    label_map = {1.0: label}
    if len(other_labels):
        label_map[0.0] = other_labels[0]
    dataset = datasets.BinaryLabelDataset(
        df=numeric,
        label_names=[LABEL],
        protected_attribute_names=names,
        privileged_protected_attributes=[np.ones(1)] * len(names),
        unprivileged_protected_attributes=[np.zeros(1)] * len(names),
        favorable_label=1.0,
        unfavorable_label=0.0,
    )
    dataset.metadata |= {
        "label_maps": [label_map],
        "protected_attribute_maps": attribute_maps,
        # Of the table, for `from_aif360`.
        "indicators": indicators,
        "dtypes": dtypes,
        "index": frame.index[:0],
    }
    dataset.instance_weights = parse_weights(sample_weight, X, len(frame))
    return dataset


def _convert_frame(X: Any) -> pd.DataFrame:
    """Convert a table to a pandas DataFrame; raise an error if it has missing values."""
    if not is_frame(X):
        raise TypeError(
            f"X must be a pandas, polars or pyarrow dataframe, got {type(X).__name__}."
        )
    table = wrap_table(X)
    if not isinstance(X, pd.DataFrame):
        # The categories of polars and pyarrow depend on the data, unlike declared categories,
        # so only occurring values become columns.
        text = selectors.categorical().cast(nw.String)
        X = nw.from_native(X, eager_only=True).with_columns(text).to_native()
        X = convert_frame(X, "pandas")
    # Columns of the dtype object become numeric if all their values are numbers.
    frame = X.infer_objects()
    for name in table.names:
        if frame[name].isna().any():
            raise ValueError(
                f"Column {name!r} of X must not have missing values. Drop or impute "
                "them."
            )
    return frame


def _check_names(names: ColumnName | list[ColumnName], columns: list[Any]) -> list[Any]:
    """Return the sensitive features as a list; raise an error if one is not a column of X."""
    names = list_column_names("sensitive_features", names)
    if not names or any(name not in columns for name in names):
        raise ValueError(
            f"`sensitive_features` must be names of columns of X, {columns}, got "
            f"{names}."
        )
    return names


def _list_categories(column: pd.Series) -> list[Any]:
    """List the declared values of a categorical column, or the occurring values in order."""
    return list(column.astype("category").cat.categories)


def _encode_frame(
    frame: pd.DataFrame,
) -> tuple[pd.DataFrame, dict[Any, dict[str, Any]]]:
    """Convert numbers to floats, and encode other columns as 0/1 columns ``column=value``.

    Also return the value of each indicator, by column.
    """
    texts, numbers = [], {}
    for name, column in frame.items():
        # Decimals and booleans with missing values have the dtype object.
        is_number = pd.api.types.infer_dtype(column) in ("decimal", "boolean")
        if is_number or pd.api.types.is_numeric_dtype(column.dtype):
            numbers[name] = float
        else:
            texts.append(name)
    numeric = pd.get_dummies(
        frame.astype(numbers), columns=texts, prefix_sep="=", dtype=float
    )
    indicators = {}
    for name in texts:
        indicators[name] = {
            f"{name}={value}": value for value in _list_categories(frame[name])
        }
    return numeric, indicators


def from_aif360(dataset: Any) -> Bunch:
    """Convert an aif360 dataset to a table with a declared domain.

    Parameters
    ----------
    dataset : aif360.datasets.BinaryLabelDataset
        Result of `to_aif360`, or one of aif360's own datasets.

    Returns
    -------
    :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the entries

        - data: DataFrame of shape (n_samples, n_features), indexed by the instance
          names, with the columns, types and order of the table given to `to_aif360`. In
          other datasets, columns ``column=value`` of 0 and 1, one of which is 1 in each
          row, become one column of values, and protected attributes have the values of
          ``metadata["protected_attribute_maps"]``, if available.
        - target: Series of shape (n_samples,), with the values of
          ``metadata["label_maps"]``, if available.
        - domain: `Domain` of the protected attributes and of the columns that were 0
          and 1.
        - protected: names of the protected attributes.
        - privileged: mapping of protected attribute to privileged values.
        - positive_label: favorable label.
        - sample_weight: instance weights, ndarray of shape (n_samples,).

    Raises
    ------
    TypeError
        If `dataset` is not a BinaryLabelDataset.
    ValueError
        If a protected attribute has a value that the dataset does not declare.

    See Also
    --------
    to_aif360 : Convert a table to a dataset.
    skdp.evaluation.fairness_study : Compare fairness methods on a table.

    Notes
    -----
    **Privacy.** The result contains the values of the dataset and adds no protection.
    aif360's own datasets collect the values of `domain` from the rows; declare a public
    domain for a release.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.metrics import from_aif360, to_aif360
    >>> people = pd.DataFrame({"sex": ["Female", "Male", "Male"], "job": ["Sales", "Sales", "Craft"]})
    >>> dataset = to_aif360(people, ["no", "yes", "no"], "sex", privileged="Male", positive_label="yes")
    >>> table = from_aif360(dataset)
    >>> table.data["job"].tolist(), table.privileged, table.positive_label
    (['Sales', 'Sales', 'Craft'], {'sex': ['Male']}, 'yes')
    >>> encoder = RandomizedResponseEncoder(1.0, categories=table.domain.select(["sex"]))
    >>> reports = encoder.fit_transform(table.data[["sex"]])
    """
    required = ("protected_attribute_names", "favorable_label", "features")
    if not all(hasattr(dataset, name) for name in required):
        raise TypeError(
            "`dataset` must be a BinaryLabelDataset of aif360, got "
            f"{type(dataset).__name__}."
        )
    protected = list(dataset.protected_attribute_names)
    names, metadata = list(dataset.feature_names), dataset.metadata
    features = pd.DataFrame(np.asarray(dataset.features), columns=names)
    indicators = metadata.get("indicators", _find_indicators(names, protected))
    columns, declared = _join_indicators(features, indicators)
    privileged = {}
    maps = metadata.get("protected_attribute_maps") or [{}] * len(protected)
    for number, name in enumerate(protected):
        first = np.asarray(dataset.unprivileged_protected_attributes[number]).tolist()
        second = np.asarray(dataset.privileged_protected_attributes[number]).tolist()
        values = list(dict.fromkeys([*first, *second]))
        if not features[name].isin(values).all():
            raise ValueError(
                f"Protected attribute {name!r} must have only values that the dataset "
                "declares as privileged or unprivileged, got another value."
            )
        columns[name] = _rename_values(features[name], maps[number])
        declared[name] = [maps[number].get(value, value) for value in values]
        privileged[name] = [maps[number].get(value, value) for value in second]
    data = _restore_types(pd.DataFrame(columns), metadata.get("dtypes", {}))
    index = pd.Index(dataset.instance_names)
    if "index" in metadata:
        index = index.astype(metadata["index"].dtype).rename(metadata["index"].name)
    label_names = (metadata.get("label_maps") or [{}])[0]
    target = _rename_values(pd.Series(np.ravel(dataset.labels)), label_names)
    positive_label = dataset.favorable_label
    return Bunch(
        data=data.set_axis(index),
        target=target.set_axis(index).rename(dataset.label_names[0]),
        domain=Domain(declared),
        protected=protected,
        privileged=privileged,
        positive_label=label_names.get(positive_label, positive_label),
        sample_weight=np.asarray(dataset.instance_weights, dtype=float).copy(),
    )


def _find_indicators(
    names: list[Any], protected: list[Any]
) -> dict[Any, dict[str, Any]]:
    """Return the values of features ``column=value`` of datasets that were not made by `to_aif360`, by column."""
    indicators: dict[Any, dict[str, Any]] = {}
    for name in names:
        column, sign, value = str(name).partition("=")
        # A column "sex=f" is not an indicator if there is also a column "sex".
        if sign and name not in protected and column not in names:
            indicators.setdefault(column, {})[name] = value
    return {column: values for column, values in indicators.items() if len(values) > 1}


def _join_indicators(
    features: pd.DataFrame, indicators: Mapping[Any, Mapping[str, Any]]
) -> tuple[dict[Any, Any], dict[Any, list[Any]]]:
    """Replace the indicators of each column by a column of values; return columns, and the values of these columns.

    `indicators` has, by column, the value of each of its indicators. Indicators that are not exactly one 1 among zeros
    in each row are kept.
    """
    columns = dict(features)
    declared = {}
    for name, values in indicators.items():
        block = features.reindex(columns=list(values))
        if not (block.isin([0, 1]).all(axis=None) and (block.sum(axis=1) == 1).all()):
            continue
        for indicator in values:
            del columns[indicator]
        declared[name] = list(values.values())
        columns[name] = block.idxmax(axis=1).map(values)
    return columns, declared


def _restore_types(data: pd.DataFrame, dtypes: Mapping[Any, Any]) -> pd.DataFrame:
    """Give the columns their order and types in a table; keep numbers that its types cannot represent."""
    names = [name for name in dtypes if name in data]
    for name in names:
        restored = data[name].astype(dtypes[name])
        if (restored == data[name]).all():
            data[name] = restored
    return data[[*names, *data.columns.difference(names, sort=False)]]


def _rename_values(column: pd.Series, names: Mapping[Any, Any]) -> pd.Series:
    """Replace numbers by the names of `metadata`; numbers without a name are kept."""
    return pd.Series([names.get(value, value) for value in column])
