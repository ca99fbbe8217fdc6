"""Conversion to and from datasets of aif360."""

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
    check_both_groups,
    find_positive_label,
    list_privileged,
    parse_classes,
    parse_weights,
)
from skdp.tables import convert_frame, is_frame, wrap_table

# Name of the label column in all datasets: aif360's metrics compare the labels of two.
LABEL = "label"

# Ending of the feature with the values of a protected attribute.
VALUES = " (values)"


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
    X : pandas, polars or pyarrow dataframe, or 2-D array, of shape (n_samples, n_features)
        Features, including the sensitive features. Numbers and booleans are kept. Other
        columns are replaced by a 0/1 column ``column=value`` for each value, or for
        each declared value of a pandas categorical or polars Enum column. The row index
        of a pandas frame becomes the instance names.
    y : array-like or series of shape (n_samples,), or dataframe of one column
        True or predicted labels, with the name "label" in the dataset. Two labels
        survive as ``metadata["label_maps"]``.
    sensitive_features : column name or list of column names
        Columns of X that become protected attributes, 1.0 for privileged and 0.0 for
        other rows. Two values survive as ``metadata["protected_attribute_maps"]``. More
        values survive as a further feature ``column (values)``, which is encoded like
        other columns.
    privileged : value, list of values, or mapping of column name to such
        Privileged values; for several sensitive features, a mapping.
    positive_label : label, default=None
        Favorable label, which becomes 1.0; other labels become 0.0. If None, it is 1,
        and all labels must be 0 and 1, or False and True.
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
        If X is neither a dataframe nor an array, or is a lazy frame; if
        `sensitive_features` is not a name or a list of names.
    ValueError
        If a value is missing; if lengths, names or the order of row labels do not match; if
        a sensitive feature has only privileged or only unprivileged rows; or if none of
        several labels of y is the positive label.

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
    datasets = import_optional("aif360.datasets")
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
    listed_values = list_privileged(privileged, names)
    # Numbers of protected attributes and labels by their values.
    attribute_maps, values_of_attributes = [], []
    for name, listed in zip(names, listed_values, strict=True):
        column = frame[name]
        is_privileged = column.isin(listed).to_numpy(dtype=bool)
        check_both_groups(is_privileged, f"X[{name!r}]")
        is_declared = isinstance(column.dtype, pd.CategoricalDtype)
        values = (column.cat.categories if is_declared else column.unique()).tolist()
        if len(values) == 2:
            values.sort(key=listed.__contains__)
            attribute_maps.append({1.0: values[1], 0.0: values[0]})
        else:
            attribute_maps.append({})
            # Not `name`, because `convert_to_dataframe(de_dummy_code=True)` of aif360
            # joins all columns ``name=value`` into a column of this name.
            values = _encode_frame(column.to_frame(f"{name}{VALUES}"))
            values_of_attributes.append(values)
        # aif360 compares numbers, so a protected attribute is 1.0 for privileged rows.
        frame[name] = is_privileged.astype(np.float64)
    numeric = pd.concat([_encode_frame(frame), *values_of_attributes], axis=1)
    label = find_positive_label(positive_label, y=labels)
    is_positive = labels.isin([label]).to_numpy(dtype=bool)
    # Predictions may all be negative, so equal labels are accepted.
    if not is_positive.any() and labels.nunique() > 1:
        raise ValueError("`positive_label` must be a label of y, got another value.")
    numeric[LABEL] = is_positive.astype(np.float64)
    label_map = {1.0: label}
    if len(other_labels := labels[~is_positive].unique()) == 1:
        label_map[0.0] = other_labels[0]
    if numeric.columns.has_duplicates:
        raise ValueError(
            "X must have column names other than the names 'column=value' of encoded "
            "columns. Rename a column of X."
        )
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
    }
    dataset.instance_weights = parse_weights(sample_weight, X, len(frame))
    return dataset


def _convert_frame(X: Any) -> pd.DataFrame:
    """Convert a table to a pandas DataFrame; raise an error if it has missing values."""
    if isinstance(X, np.ndarray) and X.ndim == 2:
        X = pd.DataFrame(X, columns=list(wrap_table(X).names))
    if not is_frame(X):
        raise TypeError(
            "X must be a pandas, polars or pyarrow dataframe or a 2-D array, got "
            f"{type(X).__name__}."
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


def _check_names(names: Any, columns: list[Any]) -> list[Any]:
    """Return the sensitive features as a list; raise an error if one is not a column of X."""
    names = names if isinstance(names, list) else [names]
    for name in names:
        if not isinstance(name, Hashable):
            raise TypeError(
                "`sensitive_features` must be the name of a column of X or a list of "
                f"names, got {type(name).__name__}."
            )
    if not names or any(name not in columns for name in names):
        raise ValueError(
            f"`sensitive_features` must be names of columns of X, {columns}, got "
            f"{names}."
        )
    return list(names)


def _encode_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert numbers to floats, and encode other columns as 0/1 columns ``column=value``."""
    numbers = {}
    for name in frame:
        # Decimals and booleans with missing values have the dtype object.
        is_object_number = pd.api.types.infer_dtype(frame[name]) in (
            "decimal",
            "boolean",
        )
        if pd.api.types.is_numeric_dtype(frame[name].dtype) or is_object_number:
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
    :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the entries

        - data: DataFrame of shape (n_samples, n_features), indexed by the instance
          names. Columns ``column=value`` of 0 and 1, one of which is 1 in each row,
          become one column of values. Protected attributes have the values of
          ``column (values)`` or of ``metadata["protected_attribute_maps"]``, if available.
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
    index, names = pd.Index(dataset.instance_names), list(dataset.feature_names)
    features = pd.DataFrame(np.asarray(dataset.features), index=index, columns=names)
    data, declared = _join_indicators(features, protected)
    privileged = {}
    maps = dataset.metadata.get("protected_attribute_maps") or [{}] * len(protected)
    for number, name in enumerate(protected):
        first = np.asarray(dataset.unprivileged_protected_attributes[number]).tolist()
        second = np.asarray(dataset.privileged_protected_attributes[number]).tolist()
        values = [*first, *second]
        if not features[name].isin(values).all():
            raise ValueError(
                f"Protected attribute {name!r} must have only values that the dataset "
                "declares as privileged or unprivileged, got another value."
            )
        is_privileged = features[name].isin(second).to_numpy()
        if (title := f"{name}{VALUES}") not in data:
            renamed = _rename_values(pd.Series(values), maps[number]).tolist()
            data[name] = _rename_values(features[name], maps[number])
            declared[name] = list(dict.fromkeys(renamed))
            privileged[name] = renamed[len(first) :]
            continue
        # A value of more than two is privileged if its rows are.
        data[name] = data.pop(title)
        declared[name] = declared.pop(title, sorted(data[name].unique()))
        privileged[name] = data[name][is_privileged].unique().tolist()
        if data[name][~is_privileged].isin(privileged[name]).any():
            raise ValueError(
                f"Protected attribute {name!r} must have the same number in all rows "
                f"with the same value of {title!r}, got different numbers."
            )
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
    """Replace the indicators ``column=value`` of each column by a column of values.

    Also return the values of these columns. Columns whose indicators are not exactly one
    1 among zeros in each row are kept.
    """
    blocks: dict[Any, list[Any]] = {}
    for name in features:
        column, sign, _ = str(name).partition("=")
        # A column "sex=f" is not an indicator if there is also a column "sex".
        is_indicator = bool(sign) and name not in protected and column not in features
        blocks.setdefault(column if is_indicator else name, []).append(name)
    columns: dict[Any, Any] = {}
    declared = {}
    for column, names in blocks.items():
        block: Any = features[names]
        if len(names) > 1:
            # from_dummies raises unless each row has exactly one 1 among zeros.
            with suppress(TypeError, ValueError):
                block = pd.from_dummies(block, sep="=")
                declared[column] = [str(name).partition("=")[2] for name in names]
        columns |= dict(block)
    return pd.DataFrame(columns, index=features.index), declared


def _rename_values(column: pd.Series, names: Mapping[Any, Any]) -> pd.Series:
    """Replace numbers by the names of `metadata`; numbers without a name are kept."""
    if not names:
        return column
    renamed = column.astype(object).map(lambda value: names.get(value, value))
    return renamed.infer_objects()


def import_optional(module: str) -> Any:
    """Import a module of aif360 or fairlearn, which are optional dependencies."""
    try:
        return import_module(module)
    except ImportError as error:
        package, _, _ = module.partition(".")
        raise ImportError(
            f"This function requires {package}, which is not installed. Use `pip "
            f"install {package}` (extra 'fairness')."
        ) from error
