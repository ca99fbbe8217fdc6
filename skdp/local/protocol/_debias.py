"""Unbiased values of each record, joint counts, and weighted frequencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import Floats
from skdp.base import check_same_order, to_array
from skdp.local._tally import ReportTally
from skdp.local.protocol._count_estimation import (
    MAX_BLOCK_NUMBERS,
    SampledCounts,
    compute_field_weights,
    find_fields,
    find_reporting_fields,
    group_reported_columns,
    make_count_table,
    make_group_index,
)
from skdp.local.protocol._fields import Reports
from skdp.local.protocol._report_columns import make_value_labels


def debias_reports(
    protocol: Any, reports: Reports, columns: Sequence[Any] | None
) -> tuple[list[Any], list[Floats]]:
    """Compute the unbiased values of the reports of the chosen columns, and the names of these values.

    An unbiased value has the expectation 1 if the record has the declared value, and 0
    otherwise. `reports` has an array for each field. The result has a list of names,
    and for each group of columns that is estimated together an array of shape
    (n_records, n_cells).
    """
    names: list[Any] = []
    blocks = []
    for group in group_reported_columns(protocol, columns):
        cells = None
        if protocol.domain is None or group[0] not in protocol.domain.columns:
            names += group  # a column of numbers
        else:
            domain = protocol.domain.select(group)
            cells = np.arange(domain.size)
            labels = make_value_labels(domain, cells)
            prefix = "_".join(map(str, group))
            names += [f"{prefix}_{label}" for label in labels]
        blocks.append(_debias_group(protocol, reports, group, cells))
    if len(set(names)) < len(names):
        raise ValueError(
            "The output columns must have different names, got equal names. Select one "
            "of the columns with `columns`, or rename columns or categories."
        )
    return names, blocks


def _debias_group(
    protocol: Any, reports: Reports, group: tuple[Any, ...], cells: Any
) -> Floats:
    """Compute the unbiased values of a group of columns for each record; shape (n_records, n_cells).

    `cells` are the codes of the chosen combinations of values, or None for a column of
    numbers. If several fields contain the columns, the result is a weighted sum over the
    fields.
    """
    indices = find_fields(protocol, *group)
    inclusions = [1.0] * len(protocol.fields)
    if protocol.sampling is not None:
        inclusions = list(map(float, protocol.sampling.inclusions))
    field_weights = compute_field_weights(protocol, indices, inclusions, group)
    total: Any = 0.0
    for index, field_weight in zip(indices, field_weights, strict=True):
        try:
            values = protocol.fields[index].debias(reports[index], group, cells)
        except NotImplementedError:
            raise ValueError(
                f"Columns {list(group)} have no unbiased value for each record. Use "
                "the estimates of their encoder."
            ) from None
        if protocol.sampling is not None:
            # Inverse probability weights: 0 for records that do not report the field.
            is_reported = protocol.report_mask(reports)[:, index]
            record_weights = is_reported * (field_weight / inclusions[index])
            values *= record_weights[:, np.newaxis]
        total = total + values
    return np.asarray(total, float)


# Joint counts.


def estimate_joint_counts(
    protocol: Any, reports: Reports, columns: Sequence[Any], **options: Any
) -> pd.DataFrame:
    """Estimate the counts of combinations of values of columns, each of which is reported in its own field.

    `reports` has an array for each field of the protocol.
    """
    # Reports of fields are independent given the record, so the product of unbiased
    # values is unbiased for the combination.
    parts = []
    for name in columns:
        (index,) = find_fields(protocol, name)
        parts.append((protocol.fields[index], reports[index]))
    sums, squares = _sum_products(parts)
    # The variance of a record's product is its mean square, minus 1 if the record has the
    # combination. So the variance of the noise of a count is the sum of the squares, less
    # the count.
    noise = np.clip(squares - np.clip(sums, 0, None), 0, None)
    n = len(reports[0])
    counts = SampledCounts.from_sample(sums, noise, n, n)
    index = protocol.domain.select(columns).cells()
    return make_count_table([counts], index, **options)


def _sum_products(parts: Sequence[tuple[Any, NDArray[Any]]]) -> tuple[Floats, Floats]:
    """Sum the products of the unbiased values of each record, and their squares.

    `parts` has fields and their reports, and the results have an entry for each
    combination of the values of all fields.
    """
    n_cells = math.prod(field.domain.size for field, _ in parts)
    sums, squares = np.zeros((2, n_cells))
    step = max(1, MAX_BLOCK_NUMBERS // n_cells)
    for start in range(0, len(parts[0][1]), step):
        # Each field multiplies the number of columns, until there are n_cells.
        products: Any = np.ones((1, 1))
        for field, report in parts:
            rows = report[start : start + step]
            values = field.debias(rows, field.columns, np.arange(field.domain.size))
            products = products[:, :, np.newaxis] * values[:, np.newaxis, :]
            products = products.reshape(len(rows), -1)
        sums += products.sum(axis=0)
        squares += np.einsum("rc,rc->c", products, products)
    return sums, squares


# Weighted frequencies.


def check_sample_weight(sample_weight: Any, reports: Any, n_rows: int) -> Floats:
    """Check the weight of each record, and return the weights as floats; shape (n_rows,)."""
    if isinstance(reports, ReportTally):
        raise TypeError(
            "`sample_weight` requires a row for each record, got a ReportTally. Pass "
            "the output of `transform`."
        )
    if n_rows < 2:
        raise ValueError(f"`sample_weight` requires at least 2 rows, got {n_rows}.")
    reject_column_name("sample_weight", sample_weight)
    check_same_order(reports, sample_weight, "sample_weight")
    weights, given = None, to_array(sample_weight, "sample_weight")
    # NumPy's error message may contain a weight, so the error below replaces it.
    with suppress(TypeError, ValueError):
        weights = np.asarray(given, float)
    if weights is None or weights.shape != (n_rows,):
        shape = None if weights is None else weights.shape
        raise ValueError(
            f"`sample_weight` must be numbers of shape ({n_rows},), got "
            f"{type(sample_weight).__name__} of shape {shape}."
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError(
            "`sample_weight` must be finite, at least 0, and not all zero."
        )
    return weights


def reject_column_name(parameter: str, given: Any) -> None:
    """Raise an error if an argument with an entry for each row is the name of a column."""
    if isinstance(given, str):
        raise ValueError(
            f"`{parameter}` must have an entry for each row, got a str. Use "
            f"X[{given!r}]."
        )


def estimate_weighted_frequencies(
    protocol: Any,
    arrays: Reports | None,
    tally: ReportTally,
    weights: Floats,
    columns: Sequence[Any] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Estimate the weighted frequency of each value of all or some columns, with linearized standard errors.

    `arrays` are the reports of each field, `tally` their sums, and `weights` have an
    entry for each record.
    """
    if options.get("rows", "table") == "table":
        raise ValueError(
            "`sample_weight` requires rows='population', got rows='table'. Weights "
            "describe a sample of a population."
        )
    groups = group_reported_columns(protocol, columns)
    estimates = []
    for group in groups:
        estimates.append(
            _estimate_weighted_group(protocol, (arrays, tally), weights, group)
        )
    index = make_group_index(protocol.domain, groups)
    options |= {"statistic": "frequency", "has_sampling_error": True}
    return make_count_table(estimates, index, **options)


def _estimate_weighted_group(
    protocol: Any,
    reports: tuple[Any, ReportTally],
    weights: Floats,
    group: tuple[Any, ...],
) -> SampledCounts:
    """Estimate weighted counts of a group of columns from all fields that contain them.

    `reports` are the arrays of all fields and their tally; `weights` have an entry for
    each record.
    """
    # A weighted mean over the fields, whose samples of records are disjoint.
    arrays, tally = reports
    indices = find_reporting_fields(protocol, tally, group)
    field_weights = compute_field_weights(protocol, indices, tally.sizes, group)
    means: Any = 0.0
    variances: Any = 0.0
    kish = 0.0
    for index, field_weight in zip(indices, field_weights, strict=True):
        record_weights = weights * protocol.report_mask(arrays)[:, index]
        field_means, field_variances = _compute_weighted_means(
            protocol.fields[index], arrays[index], record_weights, group
        )
        means = means + field_weight * field_means
        variances = variances + field_weight**2 * field_variances
        kish += field_weight**2 * _compute_kish_variance(record_weights)
    n, degrees_of_freedom = weights.sum(), len(weights) - 1
    return SampledCounts.from_means(means, variances, n, kish, degrees_of_freedom)


def _compute_weighted_means(
    field: Any, reports: NDArray[Any], weights: Floats, columns: tuple[Any, ...]
) -> tuple[Floats, Floats]:
    """Compute the weighted means of the unbiased values of some columns of a field, and their linearized variances.

    Both have an entry for each combination of values. Records that do not report the
    field have the weight 0.
    """
    # The weighted mean m = sum w u / sum w of the unbiased values u is a ratio of sums. Its
    # linearized variance is the sum of the squares of w (u - m) / sum w (Lumley 2004).
    cells = np.arange(field.domain.select(columns).size)
    # Sums of w u, w^2 u and w^2 u^2 over the records; shape (3, n_cells).
    sums = np.zeros((3, len(cells)))
    step = max(1, MAX_BLOCK_NUMBERS // len(cells))
    for start in range(0, len(weights), step):
        rows = slice(start, start + step)
        values = field.debias(reports[rows], columns, cells)
        block = weights[rows]
        sums += [block @ values, block**2 @ values, block**2 @ values**2]
    total = weights.sum()
    if not total:
        return np.full(len(cells), np.nan), np.full(len(cells), np.inf)
    means = sums[0] / total
    squares = sums[2] - 2 * means * sums[1] + means**2 * (weights**2).sum()
    n_rows = len(weights)
    variances = squares / total**2 * (n_rows / (n_rows - 1))
    if tuple(columns) == tuple(field.columns):
        # A few equal reports have an empirical variance of 0, so the smallest noise is
        # a lower bound.
        smallest = np.min(field.oracle.variance([0, 1], 1))
        variances = np.maximum(variances, _compute_kish_variance(weights) * smallest)
    return means, variances


def _compute_kish_variance(weights: Floats) -> float:
    """Compute the variance of the weighted mean of independent numbers with variance 1."""
    total = float(weights.sum())
    return float((weights**2).sum()) / total**2 if total else np.inf
