"""How far reports of a group tell the label: the unfairness of the data that a model learns from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.base import ColumnLike, Label, TableLike, check_row_order
from skdp.metrics._inputs import (
    find_positive_label,
    read_classes,
    read_column,
)
from skdp.metrics._intervals import Numbers
from skdp.metrics._private_groups import check_encoder
from skdp.oracles import FrequencyOracle, LocalHashing
from skdp.tables import is_frame, read_table


def data_unfairness(
    y: ColumnLike,
    sensitive_features: ColumnLike | TableLike,
    encoder: Any,
    *,
    positive_label: Label | None = None,
) -> float:
    """Return how much the share of positive labels differs between the reports of a group.

    The difference of the largest and the smallest ``P(y = + | report)``, over all reports that the encoder may send for
    people as these, from its exact probabilities: nothing is drawn. At a large epsilon it is that of the true groups,
    at a small one it is 0, where reports tell nothing of the label, as a column that is left out.

    Parameters
    ----------
    y : array-like or series of shape (n_samples,), or dataframe of one column
        The true labels.
    sensitive_features : series or array-like of shape (n_samples,), or dataframe
        The true values of the columns of the encoder; for an encoder of one column, the column itself is enough.
    encoder : fitted encoder of categories
        Of one column, or of several with ``strategy="joint"``.
    positive_label : label, optional
        The favourable label. By default 1, if all labels are 0 and 1, or False and True.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    NotFittedError, TypeError, ValueError
        If the encoder is not fitted, not one of categories, reports several columns one by one or by local hashing, a
        value is not declared, lengths or the order of row labels differ, or there are more than 16 values for an
        encoder of bits.

    See Also
    --------
    fairness_report : The unfairness of predictions.
    skdp.evaluation.fairness_study : What becomes of it in a model.

    Notes
    -----
    **Privacy.** None: the result is computed from true labels and groups, and is not protected.

    With the shares ``π`` of the true values, the rates ``r`` of positive labels among them, and the channel
    ``Q(z | a)``, the rate among reports z is ``Σ π_a r_a Q(z | a) / Σ π_a Q(z | a)``. For two values, with
    ``s = P(truth | 0) + P(truth | 1) - 1``, unfairness times s times the error of the estimated share (the variance
    for one report) is ``|r_1 - r_0| π_0 π_1``, whatever the channel: less unfairness of the data is less known of the
    group. Channels that are made to lessen it ([1]_) are compared with randomised response in the documentation.

    References
    ----------
    .. [1] H. Ghoukasian, S. Asoodeh (2025). Optimal fairness under local differential privacy. arXiv:2511.16377

    Examples
    --------
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult(dropna=True)
    >>> for epsilon in (0.5, 1.0, 4.0, 20.0):
    ...     encoder = RandomizedResponseEncoder(epsilon, categories=adult.domain.select(["sex"]))
    ...     encoder = encoder.fit(adult.data[["sex"]])
    ...     value = data_unfairness(adult.target, adult.data["sex"], encoder, positive_label=">50K")
    ...     print(f"{epsilon:4} {value:.3f}")
     0.5 0.043
     1.0 0.083
     4.0 0.191
    20.0 0.200
    """
    check_encoder(encoder)
    field = _only_field(encoder)
    check_row_order(y=y, sensitive_features=sensitive_features)
    labels = read_classes(y, "y")
    codes = _cells(sensitive_features, field)
    if len(codes) != len(labels):
        raise ValueError(
            f"y has {len(labels)} labels, sensitive_features has {len(codes)} rows"
        )
    if len(codes) == 0:
        raise ValueError("y must have at least one row")
    is_positive = labels.isin([find_positive_label(positive_label, y=labels)])
    n_values = field.oracle.k
    sizes = np.bincount(codes, minlength=n_values)
    positives = np.bincount(codes[is_positive.to_numpy()], minlength=n_values)
    rates = _rates_of_reports(field.oracle, sizes, positives)
    return float(rates.max() - rates.min())


def _only_field(encoder: Any) -> Any:
    """Return the field that an encoder reports."""
    fields = encoder.protocol_.fields
    if len(fields) != 1:
        raise ValueError(
            "encoder must report one column, or all together: strategy='joint'; it "
            f"reports {len(fields)} one by one"
        )
    if isinstance(fields[0].oracle, LocalHashing):
        raise ValueError(
            "encoder must have one channel for all reports; those of local hashing are "
            "of many public hash functions"
        )
    return fields[0]


def _cells(sensitive_features: Any, field: Any) -> NDArray[np.int64]:
    """Return the code of each row's value, or of its combination of values."""
    names = list(field.columns)
    if is_frame(sensitive_features):
        table = read_table(sensitive_features)
        absent = [name for name in names if name not in table.names]
        if absent:
            raise ValueError(f"sensitive_features lacks the columns {absent}")
        columns = [table.columns[table.names.index(name)] for name in names]
    elif len(names) > 1:
        raise ValueError(f"sensitive_features must have the columns {names}")
    else:
        columns = [sensitive_features]
    codes = []
    for name, column in zip(names, columns, strict=True):
        values = read_column(column, "sensitive_features", missing=True)
        code = field.domain[name].encode(values.to_numpy())
        if (code >= len(field.domain[name])).any():
            raise ValueError(
                f"sensitive_features: column {name!r} holds values that the encoder "
                "does not declare"
            )
        codes.append(code)
    cells: NDArray[np.int64] = np.ravel_multi_index(tuple(codes), field.domain.sizes)
    return cells


def _rates_of_reports(
    oracle: FrequencyOracle, sizes: NDArray[Any], positives: NDArray[Any]
) -> Numbers:
    """Return the share of positive labels among the senders of each report."""
    rates = []
    channel = np.array(oracle.channel(), dtype=float)  # (n_values, n_reports)
    for probabilities in channel.T:
        senders = math.fsum(sizes * probabilities)
        # A report that no one can send has no rate.
        if senders > 0:
            rates.append(math.fsum(positives * probabilities) / senders)
    return np.array(rates)
