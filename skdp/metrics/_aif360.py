"""Conversion to aif360; it and fairlearn are imported only when needed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
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
    encode_frame,
    find_positive_label,
    read_classes,
    read_frame,
    read_numbers,
    read_privileged,
)


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
        If a value is missing, lengths, names, weights or the order of row labels do not fit, a sensitive feature has
        only privileged or only other rows, or none of several labels is the positive one.

    See Also
    --------
    from_aif360 : The way back.
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
    check_row_order(X=X, y=y, sample_weight=sample_weight)
    frame = read_frame(X)
    labels = read_classes(y, "y")
    if len(labels) != len(frame):
        raise ValueError(f"X has {len(frame)} rows, y has {len(labels)} labels")
    if label_name in map(str, frame.columns):
        raise ValueError(
            f"X has a column {label_name!r}; set label_name to another name"
        )
    groups = _read_privileged(sensitive_features, privileged, list(frame.columns))
    # aif360 compares numbers: a protected attribute is 1 for privileged rows, else 0.
    for name, values in groups.items():
        is_privileged = frame[name].isin(values).to_numpy(dtype=bool)
        check_both(is_privileged, f"sensitive feature {name!r}")
        frame[name] = is_privileged.astype(np.float64)
    numeric = encode_frame(frame)
    positive_label = find_positive_label(positive_label, y=labels)
    numeric[label_name] = _indicate_positive(labels, positive_label)
    weights = None
    if sample_weight is not None:
        weights = _read_weights(sample_weight, len(frame))
    if numeric.columns.has_duplicates:
        raise ValueError(
            "an encoded column 'column=value' has the name of another column; rename "
            "that one"
        )
    dataset = datasets.BinaryLabelDataset(
        df=numeric,
        label_names=[label_name],
        protected_attribute_names=list(groups),
        privileged_protected_attributes=[np.ones(1)] * len(groups),
        unprivileged_protected_attributes=[np.zeros(1)] * len(groups),
        favorable_label=1.0,
        unfavorable_label=0.0,
        metadata=dict(metadata or {}),  # aif360 writes into it
    )
    # Not as a column of the table, which would become a feature.
    if weights is not None:
        dataset.instance_weights = weights
    return dataset


def from_aif360(dataset: Any) -> Bunch:
    """Convert an aif360 dataset to a table with a declared domain, which encoders take.

    Parameters
    ----------
    dataset : aif360.datasets.BinaryLabelDataset
        Such as the result of `to_aif360`, or one of aif360's own datasets.

    Returns
    -------
    Bunch
        With the entries

        - data: DataFrame of shape (n_samples, n_features), indexed by the instance names. Columns ``column=value`` of
          0 and 1, one of which is 1 in each row, are one column of values again; protected attributes have the names
          of ``metadata["protected_attribute_maps"]``, if there are any.
        - target: Series of shape (n_samples,), with the names of ``metadata["label_maps"]``, if there are any.
        - domain: `Domain` of the protected attributes and of the columns that were 0 and 1.
        - protected: the names of the protected attributes.
        - privileged: mapping of each of them to its privileged values.
        - positive_label: the favourable label.
        - sample_weight: ndarray of shape (n_samples,), the instance weights.

    Raises
    ------
    TypeError
        If `dataset` is no BinaryLabelDataset.
    ValueError
        If a protected attribute has another value than those that the dataset declares.

    See Also
    --------
    to_aif360 : The way back.
    skdp.evaluation.fairness_study : Takes such a table.

    Notes
    -----
    **Privacy.** A conversion: the result holds the values of the dataset. `domain` is what the dataset says: its values
    of protected attributes and its names of columns. Where these were collected from the rows, as aif360's own
    datasets do, they tell which values occur: declare a public domain for a release.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["Female", "Male", "Male"], "job": ["Sales", "Sales", "Craft"]})
    >>> dataset = to_aif360(people, ["no", "yes", "no"], "sex", privileged="Male", positive_label="yes")
    >>> table = from_aif360(dataset)
    >>> table.data["job"].tolist(), table.privileged, table.positive_label
    (['Sales', 'Sales', 'Craft'], {'sex': [1.0]}, 1.0)
    >>> encoder = RandomizedResponseEncoder(1.0, categories=table.domain.select(["sex"]))
    >>> reports = encoder.fit_transform(table.data[["sex"]])
    """
    names_of_parts = ("protected_attribute_names", "favorable_label", "features")
    if not all(hasattr(dataset, name) for name in names_of_parts):
        raise TypeError(
            "dataset must be a BinaryLabelDataset of aif360, got "
            f"{type(dataset).__name__}"
        )
    features = pd.DataFrame(
        np.asarray(dataset.features),
        index=pd.Index(dataset.instance_names),
        columns=list(dataset.feature_names),
    )
    data, declared = _joined_indicators(features, dataset.protected_attribute_names)
    privileged = {}
    maps = dataset.metadata.get("protected_attribute_maps")
    for place, name in enumerate(dataset.protected_attribute_names):
        names: Mapping[Any, Any] = {} if maps is None else maps[place]
        first = np.asarray(dataset.privileged_protected_attributes[place]).tolist()
        second = np.asarray(dataset.unprivileged_protected_attributes[place]).tolist()
        values = [*second, *first]
        if not data[name].isin(values).all():
            raise ValueError(
                f"protected attribute {name!r} has values that the dataset declares "
                "neither privileged nor unprivileged"
            )
        data[name] = _named(data[name], names)
        declared[name] = list(
            dict.fromkeys(names.get(value, value) for value in values)
        )
        privileged[name] = [names.get(value, value) for value in first]
    labels = pd.Series(np.ravel(dataset.labels), index=data.index)
    label_names = (dataset.metadata.get("label_maps") or [{}])[0]
    positive_label = dataset.favorable_label
    return Bunch(
        data=data,
        target=_named(labels, label_names).rename(dataset.label_names[0]),
        domain=Domain(declared),
        protected=list(dataset.protected_attribute_names),
        privileged=privileged,
        positive_label=label_names.get(positive_label, positive_label),
        sample_weight=np.asarray(dataset.instance_weights, dtype=float).copy(),
    )


def _joined_indicators(
    features: pd.DataFrame, protected: list[Any]
) -> tuple[pd.DataFrame, dict[Any, list[Any]]]:
    """Make a column of values of columns ``column=value`` of 0 and 1; also return its values."""
    blocks: dict[Any, list[Any]] = {}
    for name in features:
        column, sign, _ = str(name).partition("=")
        # Beside a column of the name before the sign, no column is its indicator.
        is_indicator = (
            bool(sign) and name not in protected and column not in features.columns
        )
        blocks.setdefault(column if is_indicator else name, []).append(name)
    columns: dict[Any, Any] = {}
    declared = {}
    for column, names in blocks.items():
        block = features[names].to_numpy()
        is_zero_or_one = np.isin(block, (0, 1)).all()
        # A row without any 1 is of a value that has no column.
        is_split = len(names) > 1 and is_zero_or_one and (block.sum(axis=1) == 1).all()
        if not is_split:
            columns |= {name: features[name] for name in names}
            continue
        values = [str(name).partition("=")[2] for name in names]
        columns[column] = np.array(values, dtype=object)[block.argmax(axis=1)]
        declared[column] = values
    return pd.DataFrame(columns, index=features.index), declared


def _named(column: pd.Series, names: Mapping[Any, Any]) -> pd.Series:
    """Replace numbers by their names; those without one stay."""
    if not names:
        return column
    return column.astype(object).map(lambda value: names.get(value, value))


def _read_weights(sample_weight: Any, n_rows: int) -> NDArray[np.float64]:
    weights = read_numbers(sample_weight, "sample_weight")
    if len(weights) != n_rows:
        raise ValueError(f"X has {n_rows} rows, sample_weight has {len(weights)}")
    if (weights < 0).any():
        raise ValueError("sample_weight must be at least 0")
    return weights.copy()  # aif360 writes to the weights


def _read_privileged(
    sensitive_features: Any, privileged: Any, columns: list[Any]
) -> dict[Any, list[Any]]:
    """Return the privileged values of each sensitive feature."""
    names = sensitive_features
    if not isinstance(names, list):
        names = [names]
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
    if len(names) > 1 and not isinstance(privileged, Mapping):
        raise ValueError(f"privileged must be a mapping with the keys {names}")
    (values,) = read_privileged(privileged, names)
    return dict(zip(names, values, strict=True))


def _indicate_positive(labels: pd.Series, positive_label: Any) -> NDArray[np.float64]:
    positive = labels.isin([positive_label]).to_numpy(dtype=bool)
    # A model may predict one label only; several labels without the positive one are a
    # mistake.
    if not positive.any() and labels.nunique() > 1:
        raise ValueError("y has no label that equals positive_label")
    return positive.astype(np.float64)


def import_optional(module: str) -> Any:
    """Import a module of aif360 or fairlearn."""
    try:
        return import_module(module)
    except ImportError as error:
        package, _, _ = module.partition(".")
        raise ImportError(
            f"this needs {package}: pip install {package} (extra 'fairness')"
        ) from error
