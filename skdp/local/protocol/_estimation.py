"""From sums of reports to counts: unbiased estimates, errors and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skdp.base import check_choice, check_confidence_level
from skdp.local._tally import ReportTally, check_tally
from skdp.local.protocol._columns import column_index
from skdp.local.protocol._sampling import SampledCounts
from skdp.oracles import POSTPROCESSORS, FrequencyOracle, project_to_simplex

# A field is here an OracleField, and a protocol one of such fields, whose modules
# import this one.

_CHUNK = 1 << 22


@dataclass(frozen=True)
class CountOptions:
    """How counts are estimated and shown."""

    postprocess: str = "none"
    confidence_level: float = 0.95
    simultaneous: bool = False
    what: str = "count"

    def __post_init__(self) -> None:
        check_choice("postprocess", self.postprocess, tuple(POSTPROCESSORS))
        check_confidence_level(self.confidence_level)


def estimate_counts(
    protocol: Any,
    tally: ReportTally,
    columns: Sequence[Any] | None = None,
    *,
    reports: Sequence[NDArray[Any]] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Estimate the count, or the frequency, of each value of each field, or of some columns."""
    count_options = CountOptions(**options)
    check_tally(tally, protocol.meaning)
    parts = None if reports is None else protocol.parts(reports)
    groups = _groups(protocol, columns)
    estimates = SampledCounts.joined(
        [
            _group_counts(protocol, tally, group, parts, count_options)
            for group in groups
        ]
    )
    if len(groups) == 1:
        index = protocol.domain.select(groups[0]).cells()
    else:
        index = _cell_index(protocol.domain, [name for (name,) in groups])
    return estimates.table(
        count_options.confidence_level,
        clipped=count_options.postprocess != "none",
        n_cells=len(estimates.counts) if count_options.simultaneous else 1,
        what=count_options.what,
        index=index,
    )


def _cell_index(domain: Any, names: Sequence[Any]) -> pd.MultiIndex:
    """Index the values of some columns by column and value."""
    # As where all columns are counted: what one value is written as depends on the
    # others.
    index = column_index({name: domain[name].labels for name in domain.columns})
    if tuple(names) == domain.columns:
        return index
    ends = np.cumsum(domain.sizes)
    places = []
    for name in names:
        column = domain.columns.index(name)
        places.append(np.arange(ends[column] - domain.sizes[column], ends[column]))
    return index[np.concatenate(places)]


def _groups(protocol: Any, columns: Sequence[Any] | None) -> list[tuple[Any, ...]]:
    """Return the columns that are counted together: those asked for, if a field has all of them."""
    if columns is None:
        return [field.columns for field in protocol.fields]
    chosen = check_columns(protocol.domain.columns, columns)
    if fields_with(protocol, *chosen):
        return [tuple(chosen)]
    return [(name,) for name in chosen]


def fields_with(protocol: Any, *columns: Any) -> list[int]:
    """Return the places of the fields that have all of some columns."""
    return [
        place
        for place, field in enumerate(protocol.fields)
        if {*columns} <= {*field.columns}
    ]


def _group_counts(
    protocol: Any,
    tally: ReportTally,
    columns: Sequence[Any],
    parts: Sequence[NDArray[Any]] | None,
    options: CountOptions,
) -> SampledCounts:
    """Estimate the counts of the values of some columns, from all fields that have them."""
    places = fields_with(protocol, *columns)
    # Of columns in several fields, each record reports one at most.
    reported = [place for place in places if tally.sizes[place]]
    places = places if len(places) == 1 else reported or places[:1]
    estimates, samples = [], []
    for place in places:
        field = protocol.fields[place]
        sums, size = tally.counts[place], tally.sizes[place]
        part = None if parts is None else parts[place]
        estimates.append(
            field_counts(field, sums, size, tally.n_reports, columns, options, part)
        )
        samples.append((field.oracle, size))
    if len(estimates) == 1:
        return estimates[0]
    weights = _sample_weights(samples, len(estimates[0].counts))
    return SampledCounts.combined(estimates, weights)


def field_counts(
    field: Any,
    sums: NDArray[np.int64],
    size: int,
    n: int,
    columns: Sequence[Any],
    options: CountOptions,
    reports: NDArray[Any] | None = None,
) -> SampledCounts:
    """Estimate the counts of the values of some columns of a field."""
    oracle = field.oracle
    # Of a sampled field, `size` of n records were reported.
    scale = n / size if size else np.nan
    processed = POSTPROCESSORS[options.postprocess](oracle, sums, size)
    shown_counts = processed * scale
    counts = oracle.estimate(sums, size)
    if tuple(columns) == tuple(field.columns):
        noise = oracle.variance(counts, size) if size else counts
        return replace(SampledCounts.of(counts, noise, size, n), shown=shown_counts)
    group = cell_groups(field.domain, columns)
    counts = np.bincount(group, counts).astype(float)
    noise = counts
    if size:
        noise = _margin_variances(oracle, group, counts, size, reports)
    shown_counts = np.bincount(group, shown_counts).astype(float)
    return replace(SampledCounts.of(counts, noise, size, n), shown=shown_counts)


def cell_groups(domain: Any, columns: Sequence[Any]) -> NDArray[np.intp]:
    """Return, for each combination of values, that of some of the columns which it belongs to."""
    selected = domain.select(columns)
    codes = np.indices(domain.sizes).reshape(len(domain.sizes), -1)
    places = [domain.columns.index(name) for name in selected.columns]
    return np.ravel_multi_index([codes[place] for place in places], selected.sizes)


def _sample_weights(
    samples: Sequence[tuple[FrequencyOracle, int]], n_cells: int
) -> NDArray[np.float64]:
    """Weigh samples without a record in common by the variances of their estimates of uniform values."""
    # The weights follow from the mechanisms and from who reports what, not from values:
    # so the sum has no bias.
    errors = [
        margin_error(oracle, n_cells) + (1 - 1 / n_cells) / n_cells
        for oracle, _ in samples
    ]
    weights = np.array([size for _, size in samples]) / np.array(errors)
    return weights / weights.sum()


def check_columns(column_names: Sequence[Any], columns: Sequence[Any]) -> list[Any]:
    """Check that columns are distinct ones of those that are known."""
    chosen = list(columns)
    absent = [name for name in chosen if name not in column_names]
    if absent or not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"columns must be distinct ones of {list(column_names)}, got {chosen}"
        )
    return chosen


def _margin_variances(
    oracle: FrequencyOracle,
    group: NDArray[np.intp],
    counts: NDArray[np.float64],
    n: int,
    reports: Any,
) -> NDArray[np.float64]:
    """Return the variances of sums of unbiased counts over groups of g cells."""
    # A report supports S of the g cells of a group; a record adds (S - g q) / (p - q)
    # to its count. The variance of S follows from the probabilities that two cells are
    # supported at once, for records inside and outside of the group.
    variance_of_member, variance_of_stranger = _support_variances(
        oracle, len(group) // len(counts)
    )
    if np.isnan(variance_of_member) or np.isnan(variance_of_stranger):
        return _sampled_variances(oracle, group, counts, reports)
    members = np.clip(counts, 0, n)
    return (
        members * variance_of_member + (n - members) * variance_of_stranger
    ) / float(oracle.p - oracle.q) ** 2


def _support_variances(oracle: FrequencyOracle, g: int) -> tuple[float, float]:
    """Return the variance of how many of g cells a report supports, for a record of one of them and for another."""
    p, q, (together, apart) = float(oracle.p), float(oracle.q), oracle.pair_supports
    variance_of_member = (
        p
        + (g - 1) * q
        + 2 * (g - 1) * together
        + (g - 1) * (g - 2) * apart
        - (p + (g - 1) * q) ** 2
    )
    return variance_of_member, g * q + g * (g - 1) * apart - (g * q) ** 2


def margin_error(oracle: FrequencyOracle, n_groups: int) -> float:
    """Return the mean over equal groups of values of n times the variance of the frequency of a group."""
    variance_of_member, variance_of_stranger = _support_variances(
        oracle, oracle.k // n_groups
    )
    return (
        (variance_of_member + (n_groups - 1) * variance_of_stranger)
        / n_groups
        / float(oracle.p - oracle.q) ** 2
    )


def _sampled_variances(
    oracle: FrequencyOracle,
    group: NDArray[np.intp],
    counts: NDArray[np.float64],
    reports: Any,
) -> NDArray[np.float64]:
    """Estimate the variances from the reports: the sum of the records' squares, less the count, is unbiased."""
    if reports is None:
        raise ValueError(
            f"margins of {type(oracle).__name__} need the reports themselves, not "
            "their tally"
        )
    squares, membership = np.zeros(len(counts)), np.eye(len(counts))[group]
    step = max(1, _CHUNK // oracle.k)
    for start in range(0, len(reports), step):
        squares += (
            (oracle.unbiased(reports[start : start + step]) @ membership) ** 2
        ).sum(axis=0)
    return np.clip(squares - np.clip(counts, 0, None), 0, None)


def count_variances(protocol: Any, counts: ArrayLike) -> NDArray[np.float64]:
    """Return the variances of the unbiased counts for given true counts."""
    oracles = [field.oracle for field in protocol.fields]
    sizes = [oracle.k for oracle in oracles]
    cells = np.asarray(counts, float)
    if cells.shape != (sum(sizes),):
        raise ValueError(f"counts must have shape ({sum(sizes)},), got {cells.shape}")
    parts = np.split(cells, np.cumsum(sizes)[:-1])
    totals = [part.sum() for part in parts]
    if (cells < 0).any() or not np.allclose(totals, totals[0]):
        raise ValueError(
            "counts must be at least 0 and add up to the same number in each column"
        )
    n = totals[0]
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
    confidence_level: float,
) -> pd.DataFrame:
    """Estimate the count of each combination of values of columns that are in several fields."""
    level = check_confidence_level(confidence_level)
    places = fields_with(protocol, *columns)
    if not places:
        of_each = [fields_with(protocol, name) for name in columns]
        places = sorted({place for places_of in of_each for place in places_of})
    drawn = protocol.rows(reports)
    rows = drawn[:, places].all(axis=1)
    parts = []
    order: list[Any] = []
    for place in places:
        field = protocol.fields[place]
        field_names = [name for name in field.columns if name in columns]
        report = reports[place] if rows.all() else reports[place][rows]
        parts.append(
            _Part(field.oracle, report, cell_groups(field.domain, field_names))
        )
        order += field_names
    table = _outer_counts(parts, int(rows.sum()), len(rows)).table(level)
    # Cells are in the order of the fields: put them into that of the columns.
    sizes = [len(protocol.domain[name]) for name in order]
    axes = [order.index(name) for name in columns]
    table = table.iloc[np.arange(len(table)).reshape(sizes).transpose(axes).ravel()]
    table.index = protocol.domain.select(columns).cells()
    return table


@dataclass(frozen=True, eq=False)
class _Part:
    """The reports of one field, and for each of its cells the group that is counted."""

    oracle: FrequencyOracle
    reports: NDArray[Any]
    group: NDArray[np.intp]

    @property
    def n_groups(self) -> int:
        return int(self.group.max()) + 1

    def vectors(self, rows: slice) -> NDArray[np.float64]:
        """Return the unbiased one-hot vectors of the groups: (n_rows, n_groups)."""
        vectors = self.oracle.unbiased(self.reports[rows])
        if self.n_groups == self.oracle.k:
            return vectors
        return vectors @ np.eye(self.n_groups)[self.group]

    def moments(self) -> NDArray[np.float64]:
        """Return the mean square of what a report adds to each group, given the true group."""
        if self.n_groups == self.oracle.k:
            return self.oracle.second_moments()
        variance_of_member, variance_of_stranger = _support_variances(
            self.oracle, self.oracle.k // self.n_groups
        )
        gain = float(self.oracle.p - self.oracle.q) ** 2
        is_same = np.eye(self.n_groups, dtype=bool)
        return np.where(
            is_same, variance_of_member / gain + 1, variance_of_stranger / gain
        )


def _outer_counts(parts: Sequence[_Part], size: int, n: int) -> SampledCounts:
    """Sum up the outer products of the unbiased vectors of each record."""
    shape = [part.n_groups for part in parts]
    n_left = int(np.prod(shape[:-1]))
    total = np.zeros((n_left, shape[-1]))
    step = max(1, _CHUNK // max(n_left, *(part.oracle.k for part in parts)))
    for start in range(0, size, step):
        vectors = [part.vectors(slice(start, start + step)) for part in parts]
        products = reduce(_row_products, vectors[:-1], np.ones((len(vectors[0]), 1)))
        total += products.T @ vectors[-1]
    # The nearest counts that records can have: where noise prevails, those that are not
    # negative add up to many more.
    plug_in = project_to_simplex(total.ravel(), size).reshape(shape)
    squares = plug_in
    for axis, part in enumerate(parts):
        product = np.tensordot(part.moments(), squares, axes=(1, axis))
        squares = np.moveaxis(product, 0, axis)
    noise = np.clip(squares - plug_in, 0, None).ravel()
    return SampledCounts.of(total.ravel(), noise, size, n)


def _row_products(
    first: NDArray[np.float64], second: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the outer product of each two rows, flat."""
    products = first[:, :, np.newaxis] * second[:, np.newaxis, :]
    return products.reshape(len(first), -1)
