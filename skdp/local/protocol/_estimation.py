"""From sums of reports to counts: unbiased estimates, errors and intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skdp.base import check_choice, check_confidence_level, level_of_the_caller
from skdp.local._tally import WEIGHT_UNIT, ReportTally, check_tally
from skdp.local.protocol._columns import column_index
from skdp.local.protocol._sampling import SampledCounts
from skdp.local.protocol._weighted import (
    ReportVectors,
    SampleDesign,
    WeightedMoments,
    means_of_moments,
    read_design,
    weighted_means,
)
from skdp.oracles import (
    POSTPROCESSORS,
    FrequencyOracle,
    SetSelection,
    project_to_simplex,
)
from skdp.pages import warn

# A field is here an OracleField, and a protocol one of such fields, whose modules
# import this one.

# Standard errors outside of the possible counts beyond which an estimate is no chance.
MAX_STD_ERRORS = 6

# Numbers that are held at once: 32 MB.
_CHUNK = 1 << 22


# Whose shares are estimated: those of the population that the records were drawn from,
# or of the records themselves.
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

    def table(
        self,
        estimates: SampledCounts,
        index: pd.Index,
        *,
        is_weighted: bool = False,
    ) -> pd.DataFrame:
        """Show counts with their errors."""
        # Those of weighted counts are of the population already.
        if self.rows == "population" and not is_weighted:
            estimates = estimates.of_population()
        table = estimates.table(
            self.confidence_level,
            clipped=self.postprocess != "none",
            what=self.what,
            index=index,
        )
        table.attrs["rows"] = self.rows
        return table


def take_design(
    options: dict[str, Any], reports: Any, n_reports: int
) -> SampleDesign | None:
    """Take out of some options how the records were drawn; None if they do not say."""
    sample_weight = options.pop("sample_weight", None)
    strata = options.pop("strata", None)
    clusters = options.pop("clusters", None)
    if sample_weight is None and strata is None and clusters is None:
        return None
    if isinstance(reports, ReportTally):
        raise ValueError(
            "of a tally, weights are given to tally(reports, sample_weight=...), and "
            "strata and clusters need the reports themselves"
        )
    # Means have no rows, as they are always the population's.
    _refuse_weights_of_table(options.get("rows", "population"))
    return read_design(
        reports,
        n_reports,
        sample_weight=sample_weight,
        strata=strata,
        clusters=clusters,
    )


def _refuse_weights_of_table(rows: Any) -> None:
    if rows == "table":
        raise ValueError(
            "weights, strata and clusters say how a population was sampled: use them "
            "with rows='population'"
        )


def estimate_counts(
    protocol: Any,
    tally: ReportTally,
    columns: Sequence[Any] | None = None,
    *,
    reports: Sequence[NDArray[Any]] | None = None,
    design: SampleDesign | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Estimate the count, or the frequency, of each value of all or some columns."""
    count_options = CountOptions(**options)
    check_tally(tally, protocol.meaning, takes_weights=True)
    is_weighted = design is not None or tally.weighted is not None
    if is_weighted:
        _refuse_weights_of_table(count_options.rows)
    groups = _groups(protocol, columns)
    estimates = []
    for group in groups:
        if design is not None:
            assert reports is not None
            sample = _Sample(protocol, tally, reports, design)
            estimates.append(sample.counts_of(group, count_options))
        elif is_weighted:
            estimates.append(
                _tallied_weighted_counts(protocol, tally, group, count_options)
            )
        else:
            parts = None if reports is None else protocol.parts(reports)
            estimates.append(
                _group_counts(protocol, tally, group, parts, count_options)
            )
    if len(groups) == 1:
        index = protocol.domain.select(groups[0]).cells()
    else:
        index = _cell_index(protocol.domain, list(chain.from_iterable(groups)))
    # Permanent reports of several releases depend on each other, and weighted estimates
    # have errors that are estimates.
    if protocol.permanent_key is None and not is_weighted:
        for group, counts_of_group in zip(groups, estimates, strict=True):
            _warn_of_impossible(group, counts_of_group)
    counts = SampledCounts.joined(estimates)
    return count_options.table(counts, index, is_weighted=is_weighted)


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


def _cell_index(domain: Any, names: Sequence[Any]) -> pd.MultiIndex:
    """Index the values of some columns by column and value."""
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


def _groups(protocol: Any, columns: Sequence[Any] | None) -> list[tuple[Any, ...]]:
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
    for place in _reported_places(protocol, tally, columns):
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


def _reported_places(
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
class _Sample:
    """Reports of records that were drawn by a design."""

    protocol: Any
    tally: ReportTally
    reports: Sequence[NDArray[Any]]
    design: SampleDesign

    def counts_of(self, columns: Sequence[Any], options: CountOptions) -> SampledCounts:
        """Estimate the weighted counts of the values of some columns."""
        places = _reported_places(self.protocol, self.tally, columns)
        fields = [self.protocol.fields[place] for place in places]
        n_cells = self.protocol.domain.select(columns).size
        shares = _shares(self.tally, fields, places, n_cells)
        vectors = []
        for place, field, share in zip(places, fields, shares, strict=True):
            group = cell_groups(field.domain, columns)
            vectors.append(self._vectors(place, group, share))
        estimates = weighted_means(
            self.design, vectors, is_total=options.what == "count"
        ).counts()
        if options.postprocess == "none":
            return estimates
        shown = np.zeros(n_cells)
        for place, field, share in zip(places, fields, shares, strict=True):
            of_cells = self._vectors(place, np.arange(field.oracle.k), share)
            means = of_cells.means(self.design.weights)
            size = self.tally.sizes[place]
            group = cell_groups(field.domain, columns)
            processed = _processed(field.oracle, means, size, options.postprocess)
            shown += share * np.bincount(group, processed)
        return replace(estimates, shown=shown * estimates.n)

    def _vectors(
        self, place: int, group: NDArray[np.intp], share: float
    ) -> ReportVectors:
        rows = np.flatnonzero(self.protocol.rows(self.reports)[:, place])
        part = self.protocol.parts(self.reports)[place]
        vectors = _Part(self.protocol.fields[place].oracle, part, group)
        least_noise = vectors.least_noise()
        return ReportVectors(vectors, rows, vectors.n_groups, least_noise, share)


def _shares(
    tally: ReportTally, fields: Sequence[Any], places: Sequence[int], n_cells: int
) -> NDArray[np.float64]:
    """Return the share that each field has in the estimate of the same cells."""
    if len(fields) == 1:
        return np.ones(1)
    oracles = [field.oracle for field in fields]
    sizes = [tally.sizes[place] for place in places]
    return field_weights(oracles, sizes, n_cells)


def _processed(
    oracle: FrequencyOracle, means: NDArray[np.float64], size: int, postprocess: str
) -> NDArray[np.float64]:
    """Process weighted shares as those of `size` reports."""
    # The estimate is linear in the sums: these are the sums that give the shares.
    constant = oracle.estimate(np.zeros(len(means)), size)
    slope = oracle.estimate(np.ones(len(means)), 0)
    sums: Any = (means * size - constant) / slope
    processed: NDArray[np.float64] = POSTPROCESSORS[postprocess](oracle, sums, size)
    return processed / size


def _tallied_weighted_counts(
    protocol: Any,
    tally: ReportTally,
    columns: Sequence[Any],
    options: CountOptions,
) -> SampledCounts:
    """Estimate weighted counts from the sums of weighted reports."""
    weighted = tally.weighted
    assert weighted is not None
    places = _reported_places(protocol, tally, columns)
    fields = [protocol.fields[place] for place in places]
    n_cells = protocol.domain.select(columns).size
    shares = _shares(tally, fields, places, n_cells)
    total_weight, total_squared_weight = _units(weighted.total)
    parts = []
    shown = np.zeros(n_cells)
    for place, field, share in zip(places, fields, shares, strict=True):
        weight, squared_weight = _units(weighted.weights[place])
        if not weight:
            # Without reports, nothing is known: NaN, with infinite errors.
            no_counts = np.zeros(n_cells)
            return SampledCounts.of(no_counts, no_counts, 0, total_weight)
        group = cell_groups(field.domain, columns)
        sums = weighted.sums[place].astype(float) * WEIGHT_UNIT
        cell_means = field.oracle.estimate(sums, weight) / weight
        squares = weighted.squares[place].astype(float) * WEIGHT_UNIT**2
        cell_products = field.oracle.estimate(squares, squared_weight)
        # Only its moments are asked for, so that it needs no reports.
        vectors = _Part(field.oracle, np.zeros(0), group)
        part = WeightedMoments(
            means=np.bincount(group, cell_means).astype(float),
            squares=_moments(vectors, cell_products, squared_weight),
            products=np.bincount(group, cell_products).astype(float),
            weight=weight,
            squared_weight=squared_weight,
            least_noise=vectors.least_noise(),
            share=share,
        )
        parts.append(part)
        size = tally.sizes[place]
        processed = _processed(field.oracle, cell_means, size, options.postprocess)
        shown += share * np.bincount(group, processed)
    estimates = means_of_moments(
        parts,
        n_rows=tally.n_reports,
        total_weight=total_weight,
        total_squared_weight=total_squared_weight,
        is_total=options.what == "count",
    ).counts()
    return replace(estimates, shown=shown * total_weight)


def _units(sums: NDArray[np.object_]) -> tuple[float, float]:
    """Return a sum of weights and of their squares, which are whole numbers of units."""
    weight, squared_weight = sums.tolist()
    return weight * WEIGHT_UNIT, squared_weight * WEIGHT_UNIT**2


def _moments(
    vectors: _Part, cell_products: NDArray[np.float64], squared_weight: float
) -> NDArray[np.float64]:
    """Return the sums of squares of weight times vector, of groups of cells."""
    # By the mean square of what a report adds, for records of the group and for others,
    # as in `_margin_variances`: for single cells, these are the sums themselves.
    of_member, of_stranger = vectors.support_moments(cell_products)
    if np.isnan(of_member).any() or np.isnan(of_stranger).any():
        raise ValueError(
            f"margins of {type(vectors.oracle).__name__} need the reports themselves, "
            "not their tally"
        )
    products = np.bincount(vectors.group, cell_products).astype(float)
    moments = products * of_member + (squared_weight - products) * of_stranger
    return np.asarray(moments, float)


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
        noise = counts
        if tuple(columns) == tuple(self.field.columns):
            if size:
                noise = oracle.variance(counts, size)
        else:
            group = cell_groups(self.field.domain, columns)
            cell_counts = counts
            counts = np.bincount(group, cell_counts).astype(float)
            shown_counts = np.bincount(group, shown_counts).astype(float)
            noise = counts
            if size:
                noise = _margin_variances(
                    oracle, group, cell_counts, size, self.reports
                )
        estimates = SampledCounts.of(counts, noise, size, self.n_reports)
        return replace(estimates, shown=shown_counts)


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


def _margin_variances(
    oracle: FrequencyOracle,
    group: NDArray[np.intp],
    cell_counts: NDArray[np.float64],
    n: int,
    reports: Any,
) -> NDArray[np.float64]:
    """Return the variances of sums of unbiased counts over groups of g cells."""
    # A report supports S of the g cells of a group; a record adds (S - g q) / (p - q)
    # to its count. The variance of S follows from the probabilities that two cells are
    # supported at once, for records inside and outside of the group.
    counts = np.bincount(group, cell_counts).astype(float)
    is_sampled = reports is not None and not oracle.knows_group_pairs()
    of_member, of_stranger = _support_variances(oracle, group, cell_counts)
    if is_sampled or np.isnan(of_member).any() or np.isnan(of_stranger).any():
        return _sampled_variances(oracle, group, counts, reports)
    members = np.clip(counts, 0, n)
    variances = members * of_member + (n - members) * of_stranger
    return np.asarray(variances / float(oracle.p - oracle.q) ** 2, float)


def _support_variances(
    oracle: FrequencyOracle,
    group: NDArray[np.intp],
    cell_counts: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the variances of how many cells of each group a report supports.

    The first ones are for a record of one of its cells, the others for other records,
    which are in the cells as often as `cell_counts` say.
    """
    shares = None
    if cell_counts is not None:
        shares = np.clip(cell_counts, 0, None)
    pairs_of_member, pairs_of_stranger = oracle.group_pairs(group, shares)
    return _variances_of_pairs(oracle, pairs_of_member, pairs_of_stranger)


def _variances_of_pairs(
    oracle: FrequencyOracle,
    pairs_of_member: NDArray[np.float64],
    pairs_of_stranger: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the variances of the numbers of supported cells, by the pairs of these."""
    p, q = float(oracle.p), float(oracle.q)
    g = oracle.k // len(pairs_of_member)
    # The variance of a sum S of indicators is E[S] + E[S (S - 1)] - E[S]^2, where
    # S (S - 1) counts the ordered pairs of supported cells.
    mean_of_member = p + (g - 1) * q
    variances_of_member = mean_of_member + pairs_of_member - mean_of_member**2
    mean_of_stranger = g * q
    variances_of_stranger = mean_of_stranger + pairs_of_stranger - mean_of_stranger**2
    return variances_of_member, variances_of_stranger


def margin_error(oracle: FrequencyOracle, n_groups: int) -> float:
    """Return n times the variance of the frequency of a group of values.

    It is the mean over groups of one size, for records that are spread evenly.
    """
    group = np.arange(oracle.k) // (oracle.k // n_groups)
    if oracle.k <= _MOST_PLANNED:
        pairs = oracle.group_pairs(group)
    else:
        # By the mean over all pairs, which is quick.
        pairs = FrequencyOracle.group_pairs(oracle, group)
    of_member, of_stranger = _variances_of_pairs(oracle, *pairs)
    total = np.mean(of_member) + (n_groups - 1) * np.mean(of_stranger)
    return float(total) / n_groups / float(oracle.p - oracle.q) ** 2


# Cells of a field whose margins are planned exactly, in a tenth of a second.
_MOST_PLANNED = 64


def _sampled_variances(
    oracle: FrequencyOracle,
    group: NDArray[np.intp],
    counts: NDArray[np.float64],
    reports: Any,
) -> NDArray[np.float64]:
    """Estimate the variances from the reports."""
    if reports is None:
        raise ValueError(
            f"margins of {type(oracle).__name__} need the reports themselves, not "
            "their tally"
        )
    squares = np.zeros(len(counts))
    membership = np.eye(len(counts))[group]  # (n_cells, n_groups)
    step = max(1, _CHUNK // oracle.k)
    for start in range(0, len(reports), step):
        vectors = oracle.unbiased(reports[start : start + step]) @ membership
        squares += (vectors**2).sum(axis=0)
    # The sum of the records' squares, less the count, is unbiased.
    return np.clip(squares - np.clip(counts, 0, None), 0, None)


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
    *,
    design: SampleDesign | None = None,
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
    drawn = protocol.rows(reports)  # (n_records, n_fields)
    is_drawn = drawn[:, places].all(axis=1)
    parts = []
    order: list[Any] = []
    for place in places:
        field = protocol.fields[place]
        # The cells of a group are summed over its other columns.
        field_names = [name for name in field.columns if name in columns]
        report = reports[place] if is_drawn.all() else reports[place][is_drawn]
        group = cell_groups(field.domain, field_names)
        parts.append(_Part(field.oracle, report, group))
        order += field_names
    if design is None:
        counts = _outer_counts(parts, int(is_drawn.sum()), len(is_drawn))
    else:
        product = _Product(parts)
        vectors = ReportVectors(
            product, np.flatnonzero(is_drawn), product.n_cells, product.least_noise()
        )
        counts = weighted_means(design, [vectors], is_total=True).counts()
    numbers = pd.RangeIndex(len(counts.counts))
    table = count_options.table(counts, numbers, is_weighted=design is not None)
    # Cells are in the order of the fields: put them into that of the columns.
    sizes = [len(protocol.domain[name]) for name in order]
    axes = list(map(order.index, columns))
    cells = np.arange(len(table)).reshape(sizes).transpose(axes).ravel()
    table = table.iloc[cells]
    table.index = protocol.domain.select(columns).cells()
    return table


@dataclass(frozen=True, eq=False)
class _Part:
    """The reports of one field, and for each of its cells the group that is counted."""

    # A FrequencyOracle or SetSelection.
    oracle: Any
    reports: NDArray[Any]
    group: NDArray[np.intp]

    @property
    def n_groups(self) -> int:
        return int(self.group.max()) + 1

    def vectors(self, rows: slice) -> NDArray[np.float64]:
        """Return the unbiased one-hot vectors of the groups: (n_rows, n_groups)."""
        vectors: Any
        if isinstance(self.oracle, SetSelection):
            # A set has several ones.
            p, q = float(self.oracle.p), float(self.oracle.q)
            vectors = (self.oracle.supports(self.reports[rows]) - q) / (p - q)
        else:
            vectors = self.oracle.unbiased(self.reports[rows])
        if self.n_groups == self.oracle.k:
            return vectors
        return vectors @ np.eye(self.n_groups)[self.group]

    def least_moments(self) -> tuple[float, float]:
        """Return the least mean square of an entry, of records of its group and of others."""
        if self.n_groups < self.oracle.k or isinstance(self.oracle, SetSelection):
            of_member, of_stranger = self.support_moments()
            # They are not known of all oracles: then 1 and 0, as without noise.
            least = np.nan_to_num([of_member.min(), of_stranger.min()], nan=0.0)
            return max(1.0, float(least[0])), float(least[1])
        moments = self.moments()
        is_same = np.eye(self.n_groups, dtype=bool)
        return float(moments[is_same].min()), float(moments[~is_same].min())

    def least_noise(self) -> float:
        """Return the least variance that the mechanism adds to an entry of a vector."""
        of_member, of_stranger = self.least_moments()
        return max(0.0, min(of_member - 1, of_stranger))

    def support_moments(
        self, cell_counts: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean squares of entries, of records of the group and of others."""
        oracle, gain = self.oracle, float(self.oracle.p - self.oracle.q) ** 2
        if self.n_groups == oracle.k:
            p, q = float(oracle.p), float(oracle.q)
            of_cells = np.ones(oracle.k)
            return of_cells * (p * (1 - p) / gain + 1), of_cells * q * (1 - q) / gain
        of_member, of_stranger = _support_variances(oracle, self.group, cell_counts)
        return of_member / gain + 1, of_stranger / gain

    def moments(self) -> NDArray[np.float64]:
        """Return the mean square of what a report adds, given the true group."""
        if self.n_groups == self.oracle.k:
            return self.oracle.second_moments()
        # A row is an entry, a column a true group.
        of_member, of_stranger = self.support_moments()
        is_same = np.eye(self.n_groups, dtype=bool)
        return np.where(is_same, of_member[:, np.newaxis], of_stranger[:, np.newaxis])


@dataclass(frozen=True, eq=False)
class _Product:
    """The outer products of the unbiased vectors of several fields."""

    parts: Sequence[_Part]

    @property
    def n_cells(self) -> int:
        return int(np.prod([part.n_groups for part in self.parts]))

    def least_noise(self) -> float:
        """Return the least variance that the mechanisms add to an entry of a vector."""
        moments = [part.least_moments() for part in self.parts]
        # The mean square of a product is that of the factors. The entry is 1 on average
        # for a record in the group of every field, so that 1 is taken off; 0 for others.
        of_member = math.prod(member for member, _ in moments)
        of_others = math.prod(map(min, moments))
        return max(0.0, min(of_member - 1, of_others))

    def vectors(self, rows: slice) -> NDArray[np.float64]:
        """Return those of some records, flat: (n_rows, n_cells)."""
        return reduce(_row_products, [part.vectors(rows) for part in self.parts])


def _outer_counts(parts: Sequence[_Part], size: int, n: int) -> SampledCounts:
    """Sum up the outer products of the unbiased vectors of each record."""
    shape = []
    largest_row = 1
    for part in parts:
        shape.append(part.n_groups)
        largest_row = max(largest_row, part.oracle.k)
    # All cells but those of the last part: a matrix product adds up the records.
    n_left = int(np.prod(shape[:-1]))
    total = np.zeros((n_left, shape[-1]))
    step = max(1, _CHUNK // max(n_left, largest_row))
    for start in range(0, size, step):
        vectors = [part.vectors(slice(start, start + step)) for part in parts]
        products = reduce(_row_products, vectors[:-1], np.ones((len(vectors[0]), 1)))
        total += products.T @ vectors[-1]
    # The nearest counts that records can have: where noise prevails, those that are not
    # negative add up to many more.
    plug_in = project_to_simplex(total.ravel(), size).reshape(shape)
    # The second moments of a record are products of those of its fields: the matrices
    # are applied along one axis after the other.
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
