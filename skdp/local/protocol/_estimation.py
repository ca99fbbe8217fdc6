"""From sums of reports to counts: unbiased estimates, errors and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skdp.base import check_choice, check_confidence_level, level_of_the_caller
from skdp.local._tally import ReportTally, check_tally
from skdp.local.protocol._columns import column_index
from skdp.local.protocol._sampling import SampledCounts
from skdp.oracles import POSTPROCESSORS, FrequencyOracle
from skdp.pages import warn
from skdp.randomness import SeededSource

# A field is here an OracleField, and a protocol one of such fields, whose modules
# import this one.

# Standard errors outside of the possible counts beyond which an estimate is no chance.
MAX_STD_ERRORS = 6

# Numbers that are held at once: 32 MB.
_BLOCK = 1 << 22

# Reports that are simulated for the errors of a tally: to about 2 %.
N_SIMULATED = 1 << 14


# The target of inference: the population that the records were drawn from, or the
# records themselves.
ShareOf = Literal["population", "table"]


@dataclass(frozen=True)
class CountOptions:
    """How counts are estimated and shown."""

    postprocess: str = "none"
    confidence_level: float = 0.95
    what: str = "count"
    rows: str = "table"

    def __post_init__(self) -> None:
        check_choice("postprocess", self.postprocess, tuple(POSTPROCESSORS))
        check_confidence_level(self.confidence_level)
        check_choice("rows", self.rows, ("population", "table"))

    def table(self, estimates: SampledCounts, index: pd.Index) -> pd.DataFrame:
        """Show counts with their errors."""
        if self.rows == "population":
            estimates = estimates.of_population()
        return self.show(estimates, index)

    def show(self, estimates: SampledCounts, index: pd.Index) -> pd.DataFrame:
        """Show counts with the errors that they have."""
        table = estimates.table(
            self.confidence_level,
            clipped=self.postprocess != "none",
            what=self.what,
            index=index,
        )
        table.attrs["rows"] = self.rows
        return table


def estimate_counts(
    protocol: Any,
    tally: ReportTally,
    columns: Sequence[Any] | None = None,
    *,
    reports: Sequence[NDArray[Any]] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Estimate the count, or the frequency, of each value of all or some columns."""
    count_options = CountOptions(**options)
    check_tally(tally, protocol.meaning)
    groups = column_groups(protocol, columns)
    parts = None if reports is None else protocol.parts(reports)
    estimates = []
    for group in groups:
        estimates.append(_group_counts(protocol, tally, group, parts, count_options))
    # Permanent reports of several releases depend on each other.
    if protocol.permanent_key is None:
        for group, counts_of_group in zip(groups, estimates, strict=True):
            _warn_of_impossible(group, counts_of_group)
    counts = SampledCounts.joined(estimates)
    return count_options.table(counts, group_index(protocol.domain, groups))


def _warn_of_impossible(columns: Sequence[Any], estimates: SampledCounts) -> None:
    """Warn of estimates far below 0, or far above the number of records."""
    # The estimates of honest reports are that far outside less than once in 10 million.
    excess = np.maximum(-estimates.counts, estimates.counts - estimates.n)
    margin = MAX_STD_ERRORS * np.sqrt(estimates.variances) + 1e-6 * estimates.n
    if (excess > margin).any():
        warn(
            f"the estimated counts of {', '.join(map(repr, columns))} are more than "
            f"{MAX_STD_ERRORS} standard errors below 0 or above the number of records: "
            "reports of another encoder or epsilon are among them, or reports were "
            "edited. Estimate from the reports as they were made, each protocol by "
            "itself",
            UserWarning,
            about="background/client_reports",
            stacklevel=level_of_the_caller(),
        )


def group_index(domain: Any, groups: Sequence[Sequence[Any]]) -> pd.Index:
    """Index the cells of one group, or the values of several columns."""
    if len(groups) == 1:
        index: pd.Index = domain.select(groups[0]).cells()
        return index
    names = list(chain.from_iterable(groups))
    # As where all columns are counted: what one value is written as depends on the
    # others.
    labels = {name: domain[name].labels for name in domain.columns}
    index = column_index(labels)
    if tuple(names) == domain.columns:
        return index
    ends = np.cumsum(domain.sizes)
    places = []
    for name in names:
        column = domain.columns.index(name)
        places.append(np.arange(ends[column] - domain.sizes[column], ends[column]))
    return index[np.concatenate(places)]


def column_groups(
    protocol: Any, columns: Sequence[Any] | None
) -> list[tuple[Any, ...]]:
    """Return the columns that are counted together, by default those of each field."""
    if columns is None:
        return [field.columns for field in protocol.fields]
    chosen = check_columns(protocol.domain.columns, columns)
    if fields_with(protocol, *chosen):
        return [tuple(chosen)]
    return [(name,) for name in chosen]


def fields_with(protocol: Any, *columns: Any) -> list[int]:
    """Return the places of the fields that have all of some columns."""
    places = []
    for place, field in enumerate(protocol.fields):
        if {*columns} <= {*field.columns}:
            places.append(place)
    return places


def _group_counts(
    protocol: Any,
    tally: ReportTally,
    columns: Sequence[Any],
    parts: Sequence[NDArray[Any]] | None,
    options: CountOptions,
) -> SampledCounts:
    """Estimate the counts of the values of some columns, from all fields with them."""
    samples = []
    for place in reported_places(protocol, tally, columns):
        sample = FieldSums(
            protocol.fields[place],
            tally.counts[place],
            tally.sizes[place],
            tally.n_reports,
            None if parts is None else parts[place],
        )
        samples.append(sample)
    estimates = [sample.counts_of(columns, options.postprocess) for sample in samples]
    if len(samples) == 1:
        return estimates[0]
    sizes = [sample.size for sample in samples]
    oracles = [sample.field.oracle for sample in samples]
    weights = field_weights(oracles, sizes, len(estimates[0].counts))
    return SampledCounts.combined(estimates, weights)


def reported_places(
    protocol: Any, tally: ReportTally, columns: Sequence[Any]
) -> list[int]:
    """Return the places of the fields from which some columns are estimated."""
    places = fields_with(protocol, *columns)
    if len(places) == 1:
        return places
    # Of columns in several fields, each record reports one at most; those that no
    # record reports have no part in it.
    reported = [place for place in places if tally.sizes[place]]
    return reported or places[:1]


@dataclass(frozen=True, eq=False)
class FieldSums:
    """The sums of a field that `size` of n records reported."""

    field: Any
    sums: NDArray[np.int64]
    size: int
    n_reports: int
    reports: NDArray[Any] | None = None

    def counts_of(self, columns: Sequence[Any], postprocess: str) -> SampledCounts:
        """Estimate the counts of the values of some columns of the field."""
        oracle, size = self.field.oracle, self.size
        counts = oracle.estimate(self.sums, size)
        processed = POSTPROCESSORS[postprocess](oracle, self.sums, size)
        shown_counts = processed * (self.n_reports / size if size else np.nan)
        if tuple(columns) == tuple(self.field.columns):
            noise = oracle.variance(counts, size) if size else counts
        else:
            group = cell_groups(self.field.domain, columns)
            cell_counts = counts
            counts = np.bincount(group, cell_counts).astype(float)
            shown_counts = np.bincount(group, shown_counts).astype(float)
            noise = counts
            if size:
                noise = self._marginal_variances(columns, counts, cell_counts)
        estimates = SampledCounts.of(counts, noise, size, self.n_reports)
        return replace(estimates, shown=shown_counts)

    def _marginal_variances(
        self,
        columns: Sequence[Any],
        counts: NDArray[np.float64],
        cell_counts: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the variances of unbiased counts of some columns of a field."""
        oracle = self.field.oracle
        # The hashes of three values are not independent.
        if not oracle.shows_hash:
            of_member, of_nonmember = support_variances(oracle, len(counts))
            if np.isfinite([of_member, of_nonmember]).all():
                members = np.clip(counts, 0, self.size)
                variances = members * of_member + (self.size - members) * of_nonmember
                return np.asarray(variances / float(oracle.p - oracle.q) ** 2, float)
        reports = self.reports
        if reports is None:
            reports = self._simulated_reports(cell_counts)
        cells = np.arange(len(counts))
        squares = np.zeros(len(counts))
        step = max(1, _BLOCK // len(counts))
        for start in range(0, len(reports), step):
            part = reports[start : start + step]
            squares += (self.field.debias(part, columns, cells) ** 2).sum(axis=0)
        squares *= self.size / len(reports)
        # The sum of squared unbiased values minus the count is an unbiased estimate.
        return np.clip(squares - np.clip(counts, 0, None), 0, None)

    def _simulated_reports(self, cell_counts: NDArray[np.float64]) -> NDArray[Any]:
        """Return reports of records with the estimated counts, as a tally has none."""
        ends = np.cumsum(np.clip(cell_counts, 0, None))
        places = (np.arange(N_SIMULATED) + 0.5) / N_SIMULATED * ends[-1]
        codes = np.searchsorted(ends, places).astype(np.uint64)
        reports: NDArray[Any] = self.field.oracle.report(codes, SeededSource(0))
        return reports


def cell_groups(domain: Any, columns: Sequence[Any]) -> NDArray[np.intp]:
    """Return which combination of values of some columns each cell belongs to."""
    selected = domain.select(columns)
    # (n_columns, n_cells)
    codes = np.indices(domain.sizes).reshape(len(domain.sizes), -1)
    places = list(map(domain.columns.index, selected.columns))
    return np.ravel_multi_index(tuple(codes[places]), selected.sizes)


def field_weights(
    oracles: Sequence[FrequencyOracle], sizes: Sequence[float], n_cells: int
) -> NDArray[np.float64]:
    """Weigh samples by the variances of their estimates, for uniform values."""
    # The weights follow from the mechanisms and from who reports what, not from values:
    # so the sum has no bias.
    precisions = []
    for oracle, size in zip(oracles, sizes, strict=True):
        error_of_sample = (1 - 1 / n_cells) / n_cells
        error = margin_error(oracle, n_cells) + error_of_sample
        precisions.append(size / error)
    weights = np.array(precisions)
    return weights / weights.sum()


def check_columns(column_names: Sequence[Any], columns: Sequence[Any]) -> list[Any]:
    """Check that columns are distinct ones of those that are known."""
    if isinstance(columns, str):
        raise TypeError("columns must be a list of column names, got a str")
    chosen = list(columns)
    absent = [name for name in chosen if name not in column_names]
    if absent or not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"columns must be distinct ones of {list(column_names)}, got {chosen}"
        )
    return chosen


def support_variances(oracle: FrequencyOracle, n_groups: int) -> tuple[float, float]:
    """Return the variances of how many cells of a group a report supports.

    The first is for a record of one of its cells, the second for other records. Groups
    are of one size.
    """
    g = oracle.k // n_groups
    p, q = float(oracle.p), float(oracle.q)
    with_true, without_true = oracle.pair_supports
    # The variance of a sum S of indicators is E[S] + E[S (S - 1)] - E[S]^2, where
    # S (S - 1) counts the ordered pairs of supported cells.
    mean = p + (g - 1) * q
    pairs = 0.0
    pairs_of_nonmember = 0.0
    if g > 1:
        pairs = 2 * (g - 1) * with_true + (g - 1) * (g - 2) * without_true
        pairs_of_nonmember = g * (g - 1) * without_true
    return mean + pairs - mean**2, g * q + pairs_of_nonmember - (g * q) ** 2


def margin_error(oracle: FrequencyOracle, n_groups: int) -> float:
    """Return n times the variance of the frequency of a group of values.

    It is the mean over groups of one size, for records that are spread evenly.
    """
    of_member, of_nonmember = support_variances(oracle, n_groups)
    total = of_member + (n_groups - 1) * of_nonmember
    return total / n_groups / float(oracle.p - oracle.q) ** 2


def count_variances(protocol: Any, counts: ArrayLike) -> NDArray[np.float64]:
    """Return the variances of the unbiased counts for given true counts."""
    oracles = [field.oracle for field in protocol.fields]
    ends = np.cumsum([oracle.k for oracle in oracles])
    cells = np.asarray(counts, float)
    if cells.shape != (ends[-1],):
        raise ValueError(f"counts must have shape ({ends[-1]},), got {cells.shape}")
    parts = np.split(cells, ends[:-1])
    totals = list(map(np.sum, parts))
    if (cells < 0).any() or not np.allclose(totals, totals[0]):
        raise ValueError(
            "counts must be at least 0 and add up to the same number in each column"
        )
    n = totals[0]
    # Under "sample", a record reports one field, each as often as the others.
    size = n if protocol.sampling is None else n / len(oracles)
    estimates = []
    for oracle, part in zip(oracles, parts, strict=True):
        reported = part * size / n
        noise = oracle.variance(reported, size)
        estimates.append(SampledCounts.of(reported, noise, size, n))
    return SampledCounts.joined(estimates).variances


def joint_counts(
    protocol: Any,
    reports: Sequence[NDArray[Any]],
    columns: Sequence[Any],
    **options: Any,
) -> pd.DataFrame:
    """Estimate the count of each combination of values of columns of several fields."""
    count_options = CountOptions(**options)
    places = fields_with(protocol, *columns)
    if not places:
        # No field has all of them: those that have some.
        places = []
        for place, field in enumerate(protocol.fields):
            if not {*columns}.isdisjoint(field.columns):
                places.append(place)
    # Of sampled fields, the records that report all of them.
    is_drawn = protocol.rows(reports)[:, places].all(axis=1)
    parts = []
    order: list[Any] = []
    for place in places:
        field = protocol.fields[place]
        names = [name for name in field.columns if name in columns]
        report = reports[place] if is_drawn.all() else reports[place][is_drawn]
        parts.append((field, report, names))
        order += names
    counts = _product_counts(parts, int(is_drawn.sum()), len(is_drawn))
    table = count_options.table(counts, pd.RangeIndex(len(counts.counts)))
    # Cells are in the order of the fields: put them into that of the columns.
    sizes = [len(protocol.domain[name]) for name in order]
    axes = list(map(order.index, columns))
    cells = np.arange(len(table)).reshape(sizes).transpose(axes).ravel()
    table = table.iloc[cells]
    table.index = protocol.domain.select(columns).cells()
    return table


def _product_counts(
    parts: Sequence[tuple[Any, NDArray[Any], list[Any]]], size: int, n: int
) -> SampledCounts:
    """Sum up the outer products of the unbiased values of each record."""
    shape = [field.domain.select(names).size for field, _, names in parts]
    # All cells but those of the last part: a matrix product adds up the records.
    n_left = int(np.prod(shape[:-1]))
    total = np.zeros((n_left, shape[-1]))
    squares = np.zeros((n_left, shape[-1]))
    step = max(1, _BLOCK // max(n_left, shape[-1]))
    for start in range(0, size, step):
        values = []
        for (field, report, names), n_cells in zip(parts, shape, strict=True):
            rows = report[start : start + step]
            values.append(field.debias(rows, names, np.arange(n_cells)))
        products = reduce(_row_products, values[:-1], np.ones((len(values[0]), 1)))
        total += products.T @ values[-1]
        squares += (products**2).T @ values[-1] ** 2
    # The sum of the squares, less the count, is the variance that the noise adds.
    noise = np.clip(squares - np.clip(total, 0, None), 0, None)
    return SampledCounts.of(total.ravel(), noise.ravel(), size, n)


def _row_products(
    first: NDArray[np.float64], second: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the outer product of each two rows, flat."""
    products = first[:, :, np.newaxis] * second[:, np.newaxis, :]
    return products.reshape(len(first), -1)
