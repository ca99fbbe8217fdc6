"""Unbiased counts from sums of reports, and unbiased values of records with joint counts and weighted frequencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import ColumnLike, ColumnName, Floats, Indices, Integers, TableLike
from skdp.base import (
    ErrorDistribution,
    check_choice,
    check_confidence_level,
    check_same_order,
    find_sampling_variance,
    find_score_interval,
    find_stack_level,
    to_array,
)
from skdp.domain import Domain
from skdp.local._tally import ReportTally, check_tally
from skdp.local.protocol._report_columns import (
    Reports,
    make_column_index,
    make_value_labels,
)
from skdp.oracles import POSTPROCESSORS, FrequencyOracle
from skdp.pages import warn
from skdp.randomness import SeededSource

# In this module, protocols and fields have the type Any, because the modules of
# `ReportProtocol` and `OracleField` import it.

# Largest number of floats or integers of a block (32 MB).
MAX_ESTIMATION_NUMBERS = 1 << 22

# Target of inference: the population from which the records are a random sample, or the
# records themselves.
InferenceTarget = Literal["population", "table"]


@dataclass(frozen=True, eq=False)
class SampledCounts:
    """Unbiased counts of cells among n records, with the variances of noise and of sampling.

    The variance of a count c is ``noise + sampling * c * (n - c)``.
    """

    counts: Floats
    noise: Floats
    sampling: Floats
    n: float
    # Degrees of freedom of the estimated variances; infinite for known variances.
    degrees_of_freedom: float = math.inf

    @classmethod
    def from_sample(cls, counts: Floats, noise: Floats, size: float, n: float) -> Self:
        """Scale the counts of a random sample of `size` records, and their variances, to n records.

        `noise` has the variances of the counts by randomization; both have the shape
        (n_cells,).
        """
        if size == 0:
            unknown = np.full(len(counts), np.nan)
            infinite = np.full(len(counts), np.inf)
            return cls(unknown, infinite, np.zeros(len(counts)), n)
        scaled = counts * (n / size)
        # A sample without replacement has the hypergeometric variance: n / size times the
        # sampled count has the variance c (n - c) (n - size) / (size (n - 1)).
        sampling = np.full(len(counts), (n - size) / size / max(n - 1, 1))
        return cls(scaled, noise * (n / size) ** 2, sampling, n)

    @classmethod
    def from_means(
        cls,
        means: Floats,
        variances: Floats,
        n: float,
        kish: float,
        degrees_of_freedom: float,
    ) -> Self:
        """Make weighted counts from weighted means of unbiased values and their variances.

        The means and variances have the shape (n_cells,), and the counts are among n
        records. `kish` is the variance of the weighted mean of independent numbers with variance 1
        (Kish 1965, Survey Sampling): the sum of the squared weights over the square of
        their sum.
        """
        # The variance of the true values, p (1 - p) for a proportion p, is the part of
        # sampling. The rest is the variance of the noise.
        proportions = np.clip(means, 0, 1)
        excess = variances - kish * proportions * (1 - proportions)
        noise = n**2 * np.clip(excess, 0, None)
        sampling = np.full(len(means), kish)
        return cls(n * means, noise, sampling, n, degrees_of_freedom)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the counts of several fields of the same records."""
        rows = np.concatenate(list(map(cls._stack, parts)), axis=1)
        counts, noise, sampling = rows
        return cls(counts, noise, sampling, parts[0].n, parts[0].degrees_of_freedom)

    @classmethod
    def average(cls, parts: Sequence[Self], weights: Floats) -> Self:
        """Average counts of the same cells from samples without a common record.

        The variance of a count c among n records is ``noise + sampling * c * (n - c)``.
        `weights` has the shape (n_samples,) and sums to 1.
        """
        n = parts[0].n
        squares = weights**2
        # (3, n_samples, n_cells)
        counts, noise, sampling = np.stack(list(map(cls._stack, parts)), 1)
        # The scaled counts of two samples without a common record have the covariance
        # -c (n - c) / (n - 1). The weights of all pairs of samples add up to 1 - sum of
        # the squared weights.
        sampling = squares @ sampling - (1 - squares.sum()) / max(n - 1, 1)
        sampling = np.clip(sampling, 0, None)
        return cls(weights @ counts, squares @ noise, sampling, n)

    def add_sampling_error(self) -> Self:
        """Add to the variances of the counts the error of the n records as a random sample of a population."""
        # A count c = n p has the variance n p (1 - p) = c (n - c) / n in random samples.
        return replace(self, sampling=self.sampling + 1.0 / max(self.n, 1))

    def _stack(self) -> Floats:
        """Stack counts, noise and sampling; shape (3, n_cells)."""
        return np.array([self.counts, self.noise, self.sampling])

    @property
    def variances(self) -> Floats:
        """Variance of each count, at the nearest count that a sample may miss by one standard error."""
        counts = np.nan_to_num(self.counts)
        return self.noise + find_sampling_variance(counts, self.n, self.sampling)

    def compute_intervals(self, confidence_level: float) -> tuple[Floats, Floats]:
        """Compute the bounds of a score interval of each count (Wilson's without noise).

        The variance of a count c among n records is ``noise + sampling * c * (n - c)``:
        randomization of the reports, and sampling of the records.
        """
        level = check_confidence_level(confidence_level)
        z = ErrorDistribution(self.degrees_of_freedom).quantile(level)
        return find_score_interval(
            np.nan_to_num(self.counts),
            self.n,
            z * np.sqrt(self.noise),
            z**2 * self.sampling,
        )

    def make_table(
        self,
        confidence_level: float,
        *,
        statistic: str = "count",
        index: pd.Index | None = None,
    ) -> pd.DataFrame:
        """Make a table of a statistic, "count" or "frequency", with errors and intervals."""
        lower, upper = self.compute_intervals(confidence_level)
        std_error = np.sqrt(self.variances)
        scale = self.n if statistic == "frequency" else 1
        # pandas makes a table from one array several times as fast as from four columns.
        numbers = np.stack([self.counts, std_error, lower, upper], axis=1) / scale
        names = [statistic, "std_error", "lower", "upper"]
        return pd.DataFrame(numbers, index=index, columns=names)


def make_count_table(
    estimates: Sequence[SampledCounts],
    index: pd.Index,
    *,
    postprocess: str = "none",
    confidence_level: float = 0.95,
    statistic: str = "count",
    rows: str = "table",
    has_sampling_error: bool = False,
) -> pd.DataFrame:
    """Make a table of the estimates of several groups of columns; the methods of encoders document the options.

    If `has_sampling_error` is True, the variances of the estimates already include the
    sampling from a population.
    """
    check_choice("postprocess", postprocess, tuple(POSTPROCESSORS))
    check_choice("rows", rows, get_args(InferenceTarget))
    counts = SampledCounts.concatenate(estimates)
    if rows == "population" and not has_sampling_error:
        counts = counts.add_sampling_error()
    table = counts.make_table(confidence_level, statistic=statistic, index=index)
    if postprocess != "none":
        process = POSTPROCESSORS[postprocess]
        processed = [process(group.counts, group.n) for group in estimates]
        largest = 1.0 if statistic == "frequency" else counts.n
        table[statistic] = np.concatenate(processed) * (largest / counts.n)
        table[["lower", "upper"]] = table[["lower", "upper"]].clip(0, largest)
    table.attrs["rows"] = rows
    return table


def estimate_report_counts(
    protocol: Any,
    tally: ReportTally,
    columns: Sequence[Any] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Estimate the count or frequency of each value of all or some columns, with the options of `make_count_table`."""
    check_tally(tally, protocol.meaning)
    groups = group_reported_columns(protocol, columns)
    estimates = []
    for group in groups:
        counts = _estimate_group_counts(protocol, tally, group)
        # Permanent reports of a record in several releases are equal, so their errors may
        # be larger.
        if protocol.permanent_key is None:
            _warn_of_impossible_counts(group, counts)
        estimates.append(counts)
    index = make_group_index(protocol.domain, groups)
    return make_count_table(estimates, index, **options)


def _estimate_group_counts(
    protocol: Any, tally: ReportTally, columns: Sequence[Any]
) -> SampledCounts:
    """Estimate the counts of the values of some columns, as the weighted mean over all fields that contain them."""
    indices = find_reporting_fields(protocol, tally, columns)
    estimates = []
    for index in indices:
        field, sizes = protocol.fields[index], (tally.sizes[index], tally.n_reports)
        estimates.append(estimate_field(field, tally.counts[index], sizes, columns))
    if len(estimates) == 1:
        return estimates[0]
    weights = compute_field_weights(protocol, indices, tally.sizes, columns)
    return SampledCounts.average(estimates, weights)


def estimate_field(
    field: Any,
    sums: Integers,
    sizes: tuple[int, int],
    columns: Sequence[Any],
) -> SampledCounts:
    """Estimate the counts of the values of some columns of a field, and their variances.

    `sums` is the tally of the field, a number for each joint value. `sizes` are the
    numbers of records that report the field, and of all records.
    """
    size, n_reports = sizes
    counts = field.oracle.estimate(sums, size)
    if not size:
        return SampledCounts.from_sample(counts, counts, size, n_reports)
    if tuple(columns) == tuple(field.columns):
        noise = field.oracle.variance(counts, size)
        return SampledCounts.from_sample(counts, noise, size, n_reports)
    # The count of a value of some columns is the sum over the other columns.
    cells = find_marginal_cells(field.domain, columns)
    marginal = np.bincount(cells, counts).astype(float)
    noise = _compute_marginal_noise(field, columns, counts, size)
    return SampledCounts.from_sample(marginal, noise, size, n_reports)


def _compute_marginal_noise(
    field: Any,
    columns: Sequence[Any],
    cell_counts: Floats,
    size: int,
) -> Floats:
    """Compute the variances of the noise in the counts of the values of some columns of a field.

    `cell_counts` are the estimated counts of the joint values of all its columns, and
    `size` is the number of reports.
    """
    oracle = field.oracle
    cells = find_marginal_cells(field.domain, columns)
    counts = np.clip(np.bincount(cells, cell_counts), 0, None)
    member, nonmember = compute_support_variances(oracle, len(counts))
    if not oracle.shows_hash and np.isfinite(member + nonmember):
        n_members = np.clip(counts, 0, size)
        variances = n_members * member + (size - n_members) * nonmember
        return np.asarray(variances / float(oracle.p - oracle.q) ** 2, float)
    # The hashes of three values are not independent, so there is no closed form. Reports
    # are simulated, for equally spaced quantiles of the estimated distribution of cells.
    # The variances have an error of up to 5 %.
    n_simulated = 1 << 14
    cumulative = np.cumsum(np.clip(cell_counts, 0, None))
    levels = (np.arange(n_simulated) + 0.5) / n_simulated
    codes = np.searchsorted(cumulative, levels * cumulative[-1]).astype(np.uint64)
    reports = oracle.report(codes, SeededSource(0))
    unbiased = field.debias(reports, columns, np.arange(len(counts)))
    # The variance of an unbiased value is its mean square, minus 1 for a record with the
    # value and 0 for other records.
    squares = (unbiased**2).sum(axis=0) * (size / n_simulated)
    return np.clip(squares - counts, 0, None)


def _warn_of_impossible_counts(
    columns: Sequence[Any], estimates: SampledCounts
) -> None:
    """Warn of estimates far below 0, or far above the number of records."""
    # Estimates from reports of the protocol exceed it less than once in 10 million cells.
    max_std_errors = 6
    excess = np.maximum(-estimates.counts, estimates.counts - estimates.n)
    # The second term is the rounding error of floats.
    margin = max_std_errors * np.sqrt(estimates.variances) + 1e-6 * estimates.n
    if (excess > margin).any():
        warn(
            f"Some estimated counts of {list(columns)} are more than {max_std_errors} "
            "standard errors outside [0, n]. The rows may be true values, reports of "
            "another encoder or epsilon, or a selection by their values. Pass all rows "
            "of the output of `transform` of this encoder",
            UserWarning,
            about="guide/report_files",
            stacklevel=find_stack_level(),
        )


# Columns and fields.


def group_reported_columns(
    protocol: Any, columns: Sequence[Any] | None
) -> list[tuple[Any, ...]]:
    """Divide the chosen columns into groups that are estimated together.

    If `columns` is None, the groups are the columns of each field, or single columns if
    several fields contain a column. Otherwise, the columns are one group if a field
    contains all of them, and single columns if not.
    """
    if columns is None:
        groups = [field.columns for field in protocol.fields]
        is_disjoint = len(set().union(*groups)) == sum(map(len, groups))
        return groups if is_disjoint else [(name,) for name in protocol.columns]
    chosen = check_columns(protocol.columns, columns)
    if find_fields(protocol, *chosen):
        return [tuple(chosen)]
    return [(name,) for name in chosen]


def check_columns(column_names: Sequence[Any], columns: Sequence[Any]) -> list[Any]:
    """Check that columns are distinct names in `column_names`, and return them."""
    if isinstance(columns, str):
        raise TypeError(
            f"`columns` must be a list of column names, got {columns!r} (str)."
        )
    chosen = list(columns)
    absent = [name for name in chosen if name not in column_names]
    if absent or not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"`columns` must be distinct columns of {list(column_names)}, got {chosen}."
        )
    return chosen


def find_fields(protocol: Any, *columns: ColumnName) -> list[int]:
    """Return the indices of the fields that contain all of some columns."""
    indices = []
    for index, field in enumerate(protocol.fields):
        if {*columns} <= {*field.columns}:
            indices.append(index)
    return indices


def find_reporting_fields(
    protocol: object, tally: ReportTally, columns: Sequence[Any]
) -> list[int]:
    """Return the indices of the fields from which some columns are estimated.

    These are the fields with reports, or one field without reports, whose estimates are
    NaN.
    """
    indices = find_fields(protocol, *columns)
    reported = [index for index in indices if tally.sizes[index]]
    return reported or indices[:1]


def make_group_index(domain: Domain, groups: Sequence[Sequence[Any]]) -> pd.Index:
    """Make the index of the cells of one group, or of (column, value) for several groups."""
    if len(groups) == 1:
        return domain.select(groups[0]).cells()
    names = chain.from_iterable(groups)
    return make_column_index({name: domain[name].labels for name in names})


def find_marginal_cells(domain: Domain, columns: Sequence[Any]) -> Indices:
    """Return the joint code of some columns in each joint cell of all columns; shape (n_cells,)."""
    selected = domain.select(columns)
    # Code of each column of the domain in each joint cell; shape (n_columns, n_cells).
    codes = np.indices(domain.sizes).reshape(len(domain.sizes), -1)
    axes = list(map(domain.columns.index, selected.columns))
    return np.ravel_multi_index(tuple(codes[axes]), selected.sizes)


# Variances.


def compute_field_weights(
    protocol: Any,
    indices: Sequence[int],
    sizes: Sequence[float],
    columns: Sequence[Any],
) -> Floats:
    """Compute weights, which sum to 1, of the fields that estimate some columns.

    `sizes` are the numbers of records that report each field of the protocol. The
    weights are proportional to the precision, the inverse of the variance.
    """
    if len(indices) == 1:
        return np.ones(1)
    # The precision for equally frequent values does not depend on the reports, so the
    # weighted estimates are unbiased.
    n_cells = protocol.domain.select(columns).size
    sampling_variance = (1 - 1 / n_cells) / n_cells
    precisions = []
    for index in indices:
        noise_variance = compute_marginal_error(protocol.fields[index].oracle, n_cells)
        precisions.append(sizes[index] / (noise_variance + sampling_variance))
    weights = np.array(precisions)
    return weights / weights.sum()


def compute_support_variances(
    oracle: FrequencyOracle, n_groups: int
) -> tuple[float, float]:
    """Compute the variance of the number of cells of a group that a report supports.

    The k cells are divided into `n_groups` groups of equal size, such as the joint cells
    with one value of a column. The first variance is for a record whose true cell is in
    the group, the second for other records.
    """
    g = oracle.k // n_groups
    p, q = float(oracle.p), float(oracle.q)
    true_and_other, two_others = oracle.pair_supports
    # For a sum S of g indicators, Var(S) = E[S] + E[S (S - 1)] - E[S]^2, where S (S - 1)
    # is the number of ordered pairs of supported cells. Among the g (g - 1) ordered pairs,
    # 2 (g - 1) contain the true cell.
    member_mean, nonmember_mean = p + (g - 1) * q, g * q
    member_pairs = nonmember_pairs = 0.0
    if g > 1:  # otherwise there are no pairs, and their probabilities may be NaN
        member_pairs = 2 * (g - 1) * true_and_other + (g - 1) * (g - 2) * two_others
        nonmember_pairs = g * (g - 1) * two_others
    member = member_mean + member_pairs - member_mean**2
    return member, nonmember_mean + nonmember_pairs - nonmember_mean**2


def compute_marginal_error(oracle: FrequencyOracle, n_groups: int) -> float:
    """Compute n times the variance of the frequency of a group, averaged over the groups."""
    # Each record is a member of one group, and no member of the other groups.
    member, nonmember = compute_support_variances(oracle, n_groups)
    total = member + (n_groups - 1) * nonmember
    return total / n_groups / float(oracle.p - oracle.q) ** 2


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
    protocol: Any, reports: Reports, group: tuple[Any, ...], cells: Indices | None
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
    total: Floats | float = 0.0
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
    step = max(1, MAX_ESTIMATION_NUMBERS // n_cells)
    for start in range(0, len(parts[0][1]), step):
        # Each field multiplies the number of columns, until there are n_cells.
        products: Floats = np.ones((1, 1))
        for field, report in parts:
            rows = report[start : start + step]
            values = field.debias(rows, field.columns, np.arange(field.domain.size))
            products = products[:, :, np.newaxis] * values[:, np.newaxis, :]
            products = products.reshape(len(rows), -1)
        sums += products.sum(axis=0)
        squares += np.einsum("rc,rc->c", products, products)
    return sums, squares


# Weighted frequencies.


def check_sample_weight(
    sample_weight: ColumnLike, reports: TableLike | ReportTally, n_rows: int
) -> Floats:
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


def reject_column_name(parameter: str, given: object) -> None:
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
    step = max(1, MAX_ESTIMATION_NUMBERS // len(cells))
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
