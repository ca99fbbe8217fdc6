"""Unbiased counts from sums of reports, with standard errors and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import check_choice, check_confidence_level, find_stack_level
from skdp.local._tally import ReportTally, check_tally
from skdp.local.protocol._columns import column_index
from skdp.local.protocol._sampling import SampledCounts
from skdp.oracles import POSTPROCESSORS, FrequencyOracle
from skdp.pages import warn
from skdp.randomness import SeededSource

# Fields are OracleFields here, whose module imports this one.

# Estimates of unedited reports exceed [0, n] by as many standard errors less than once
# in 10 million.
MAX_STD_ERRORS = 6

# Largest number of floats in memory at once (32 MB).
MAX_BLOCK_SIZE = 1 << 22

# Number of simulated reports for the variances of marginals of hashed reports, which
# have an error of up to 5 %.
N_SIMULATED = 1 << 14

# Target of inference: the population from which the records are a random sample, or the
# records themselves.
ShareOf = Literal["population", "table"]


@dataclass(frozen=True)
class CountOptions:
    """Options of all estimates of counts."""

    postprocess: str = "none"
    confidence_level: float = 0.95
    what: str = "count"
    rows: str = "table"

    def __post_init__(self) -> None:
        check_choice("postprocess", self.postprocess, tuple(POSTPROCESSORS))
        check_confidence_level(self.confidence_level)
        check_choice("rows", self.rows, ("population", "table"))

    def make_table(
        self,
        estimates: Sequence[SampledCounts],
        index: pd.Index,
        *,
        of_population: bool = False,
    ) -> pd.DataFrame:
        """Make a table of the estimates of several groups of columns.

        `of_population` is True if their errors include the sampling from a population.
        """
        counts = SampledCounts.concatenate(estimates)
        if self.rows == "population" and not of_population:
            counts = counts.of_population()
        table = counts.table(self.confidence_level, what=self.what, index=index)
        if self.postprocess != "none":
            process = POSTPROCESSORS[self.postprocess]
            processed = [process(group.counts, group.n) for group in estimates]
            largest = 1.0 if self.what == "frequency" else counts.n
            table[self.what] = np.concatenate(processed) * (largest / counts.n)
            table[["lower", "upper"]] = table[["lower", "upper"]].clip(0, largest)
        table.attrs["rows"] = self.rows
        return table


def estimate_counts(
    protocol: Any,
    tally: ReportTally,
    columns: Sequence[Any] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Estimate the count or frequency of each value of all or some columns."""
    count_options = CountOptions(**options)
    check_tally(tally, protocol.meaning)
    groups = column_groups(protocol, columns)
    estimates = []
    for group in groups:
        counts = _estimate_group(protocol, tally, group)
        # Permanent reports of several releases are not independent.
        if protocol.permanent_key is None:
            _warn_of_impossible(group, counts)
        estimates.append(counts)
    return count_options.make_table(estimates, group_index(protocol.domain, groups))


def _estimate_group(
    protocol: Any, tally: ReportTally, columns: Sequence[Any]
) -> SampledCounts:
    """Estimate the counts of some columns from all fields that contain them."""
    indices = reporting_fields(protocol, tally, columns)
    estimates = []
    for index in indices:
        field, sizes = protocol.fields[index], (tally.sizes[index], tally.n_reports)
        estimates.append(estimate_field(field, tally.counts[index], sizes, columns))
    if len(estimates) == 1:
        return estimates[0]
    weights = field_weights(protocol, indices, tally.sizes, columns)
    return SampledCounts.average(estimates, weights)


def estimate_field(
    field: Any,
    sums: NDArray[np.int64],
    sizes: tuple[int, int],
    columns: Sequence[Any],
) -> SampledCounts:
    """Estimate the counts of some columns of a field.

    `sizes` are the numbers of records that report the field, and of all records.
    """
    size, n_reports = sizes
    counts = field.oracle.estimate(sums, size)
    if not size:
        return SampledCounts.of(counts, counts, size, n_reports)
    if tuple(columns) == tuple(field.columns):
        noise = field.oracle.variance(counts, size)
        return SampledCounts.of(counts, noise, size, n_reports)
    noise = _marginal_variances(field, columns, counts, size)
    cells = cell_groups(field.domain, columns)
    marginal = np.bincount(cells, counts).astype(float)
    return SampledCounts.of(marginal, noise, size, n_reports)


def _marginal_variances(
    field: Any,
    columns: Sequence[Any],
    cell_counts: NDArray[np.float64],
    size: int,
) -> NDArray[np.float64]:
    """Compute the variances of unbiased counts of some columns of a field."""
    oracle = field.oracle
    cells = cell_groups(field.domain, columns)
    counts = np.clip(np.bincount(cells, cell_counts), 0, None)
    of_member, of_nonmember = support_variances(oracle, len(counts))
    if not oracle.shows_hash and np.isfinite(of_member + of_nonmember):
        members = np.clip(counts, 0, size)
        variances = members * of_member + (size - members) * of_nonmember
        return np.asarray(variances / float(oracle.p - oracle.q) ** 2, float)
    # The hashes of three values are not independent, so reports of records with the
    # estimated counts are simulated.
    ends = np.cumsum(np.clip(cell_counts, 0, None))
    positions = (np.arange(N_SIMULATED) + 0.5) / N_SIMULATED * ends[-1]
    codes = np.searchsorted(ends, positions).astype(np.uint64)
    reports = oracle.report(codes, SeededSource(0))
    values = field.debias(reports, columns, np.arange(len(counts)))
    squares = (values**2).sum(axis=0) * (size / N_SIMULATED)
    return np.clip(squares - counts, 0, None)


def _warn_of_impossible(columns: Sequence[Any], estimates: SampledCounts) -> None:
    """Warn of estimates far below 0, or far above the number of records."""
    excess = np.maximum(-estimates.counts, estimates.counts - estimates.n)
    # The second term is the rounding error of floats.
    margin = MAX_STD_ERRORS * np.sqrt(estimates.variances) + 1e-6 * estimates.n
    if (excess > margin).any():
        warn(
            f"The estimated counts of {list(columns)} are more than {MAX_STD_ERRORS} "
            "standard errors outside [0, n]: some reports have another encoder or epsilon, "
            "were edited or selected by their values, or are original values. Pass all "
            "rows of the result of `transform`, and estimate each protocol separately",
            UserWarning,
            about="guide/report_files",
            stacklevel=find_stack_level(),
        )


# Columns and fields.


def column_groups(
    protocol: Any, columns: Sequence[Any] | None
) -> list[tuple[Any, ...]]:
    """Return the groups of columns that are estimated together.

    By default, these are the columns of each field, or all columns one by one if several
    fields contain a column.
    """
    if columns is None:
        groups = [field.columns for field in protocol.fields]
        is_partition = len(set().union(*groups)) == sum(map(len, groups))
        return groups if is_partition else [(name,) for name in protocol.columns]
    chosen = check_columns(protocol.columns, columns)
    if fields_with(protocol, *chosen):
        return [tuple(chosen)]
    return [(name,) for name in chosen]


def check_columns(column_names: Sequence[Any], columns: Sequence[Any]) -> list[Any]:
    """Check that columns are distinct and known."""
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


def fields_with(protocol: Any, *columns: Any) -> list[int]:
    """Return the indices of the fields that contain all of some columns."""
    indices = []
    for index, field in enumerate(protocol.fields):
        if {*columns} <= {*field.columns}:
            indices.append(index)
    return indices


def reporting_fields(
    protocol: Any, tally: ReportTally, columns: Sequence[Any]
) -> list[int]:
    """Return the indices of the fields from which some columns are estimated."""
    indices = fields_with(protocol, *columns)
    reported = [index for index in indices if tally.sizes[index]]
    return reported or indices[:1]


def group_index(domain: Any, groups: Sequence[Sequence[Any]]) -> pd.Index:
    """Make the index of the cells of one group, or of the values of several columns."""
    if len(groups) == 1:
        index: pd.Index = domain.select(groups[0]).cells()
        return index
    names = chain.from_iterable(groups)
    return column_index({name: domain[name].labels for name in names})


def cell_groups(domain: Any, columns: Sequence[Any]) -> NDArray[np.intp]:
    """Return the code of some columns in each combination of values of all columns."""
    selected = domain.select(columns)
    # (n_columns, n_cells)
    codes = np.indices(domain.sizes).reshape(len(domain.sizes), -1)
    axes = list(map(domain.columns.index, selected.columns))
    return np.ravel_multi_index(tuple(codes[axes]), selected.sizes)


# Variances.


def field_weights(
    protocol: Any,
    indices: Sequence[int],
    sizes: Sequence[float],
    columns: Sequence[Any],
) -> NDArray[np.float64]:
    """Weight the fields that estimate some columns by their precision.

    `sizes` are the numbers of records that report each field of the protocol.
    """
    if len(indices) == 1:
        return np.ones(1)
    # The precision for uniform values does not depend on the true values, so the
    # weighted estimates are unbiased.
    n_cells = protocol.domain.select(columns).size
    error_of_sample = (1 - 1 / n_cells) / n_cells
    precisions = []
    for index in indices:
        error = margin_error(protocol.fields[index].oracle, n_cells) + error_of_sample
        precisions.append(sizes[index] / error)
    weights = np.array(precisions)
    return weights / weights.sum()


def support_variances(oracle: FrequencyOracle, n_groups: int) -> tuple[float, float]:
    """Compute the variances of the number of supported cells of a group of cells.

    The first is of a record with a cell of the group, the second of other records. All
    groups have the same size.
    """
    g = oracle.k // n_groups
    p, q = float(oracle.p), float(oracle.q)
    with_true, without_true = oracle.pair_supports
    # For a sum S of indicators, Var(S) = E[S] + E[S (S - 1)] - E[S]^2, where S (S - 1)
    # counts the ordered pairs of supported cells.
    mean = p + (g - 1) * q
    pairs = 0.0
    pairs_of_nonmember = 0.0
    if g > 1:
        pairs = 2 * (g - 1) * with_true + (g - 1) * (g - 2) * without_true
        pairs_of_nonmember = g * (g - 1) * without_true
    return mean + pairs - mean**2, g * q + pairs_of_nonmember - (g * q) ** 2


def margin_error(oracle: FrequencyOracle, n_groups: int) -> float:
    """Compute n times the mean variance of frequencies of groups of values."""
    of_member, of_nonmember = support_variances(oracle, n_groups)
    total = of_member + (n_groups - 1) * of_nonmember
    return total / n_groups / float(oracle.p - oracle.q) ** 2
