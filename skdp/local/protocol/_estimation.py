"""From sums of reports to counts: unbiased estimates, errors and intervals."""

from __future__ import annotations

from collections.abc import Sequence
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

# The protocol is an OracleProtocol, which imports this module.

_CHUNK = 1 << 22


def estimate_counts(
    protocol: Any,
    tally: ReportTally,
    reports: Sequence[NDArray[Any]] | None,
    postprocess: str,
    confidence_level: float,
    simultaneous: bool,
    what: str,
    columns: Sequence[Any] | None = None,
) -> pd.DataFrame:
    """Estimate the count, or the frequency, of each value of each attribute, or of the columns asked for."""
    asked = None if columns is None else check_columns(protocol.domain.columns, columns)
    check_choice("postprocess", postprocess, tuple(POSTPROCESSORS))
    level = check_confidence_level(confidence_level)
    check_tally(tally, protocol.meaning)
    parts = [None] * len(protocol.oracles) if reports is None else reports
    n = tally.n_reports
    triples = list(zip(protocol.oracles, tally.counts, tally.sizes, strict=True))
    found, index = unbiased_counts(protocol, tally), _cells(protocol)
    # Of a sampled attribute, n_j of n records were reported.
    shown = np.concatenate(
        [
            POSTPROCESSORS[postprocess](oracle, support, size, part)
            * (n / size if size else np.nan)
            for (oracle, support, size), part in zip(triples, parts, strict=True)
        ]
    )
    if asked is not None and protocol.strategy == "joint":
        kept = protocol.domain.select(asked)
        found, group, index = (
            margin_counts(protocol, tally, asked, parts[0]),
            _group(protocol, asked),
            kept.cells(),
        )
        shown = np.bincount(group, shown).astype(float)
    elif asked is not None:
        owners = np.repeat(
            np.arange(len(protocol.oracles)), [oracle.k for oracle in protocol.oracles]
        )
        rows = np.concatenate(
            [
                np.flatnonzero(owners == protocol.domain.columns.index(name))
                for name in asked
            ]
        )
        found, shown = found[rows], shown[rows]
        index = (
            protocol.domain.select(asked).cells() if len(asked) == 1 else index[rows]
        )
    cells = len(shown) if simultaneous else 1
    return found.table(
        level,
        shown=shown,
        clipped=postprocess != "none",
        n_cells=cells,
        what=what,
        index=index,
    )


def unbiased_counts(protocol: Any, tally: ReportTally) -> SampledCounts:
    """Estimate the counts of each value of each attribute."""
    parts = []
    for oracle, support, size in zip(
        protocol.oracles, tally.counts, tally.sizes, strict=True
    ):
        counts = oracle.estimate(support, size)
        parts.append(
            SampledCounts.of(
                counts,
                oracle.variance(counts, size) if size else counts,
                size,
                tally.n_reports,
            )
        )
    return SampledCounts.joined(parts)


def margin_counts(
    protocol: Any, tally: ReportTally, columns: Sequence[Any], reports: Any = None
) -> SampledCounts:
    """Estimate the counts of the values of some columns of a joint attribute."""
    (oracle,), (support,), (size,), group = (
        protocol.oracles,
        tally.counts,
        tally.sizes,
        _group(protocol, columns),
    )
    counts = np.bincount(group, oracle.estimate(support, size)).astype(float)
    noise = _margin_variances(oracle, group, counts, size, reports) if size else counts
    return SampledCounts.of(counts, noise, size, tally.n_reports)


def combine_samples(
    groups: Sequence[tuple[Any, ReportTally]],
    column: Any,
    *,
    postprocess: str = "none",
    confidence_level: float = 0.95,
    what: str = "count",
) -> pd.DataFrame:
    """Estimate the count, or the frequency, of each value of a column that each record reports in one group at most."""
    tables = [
        protocol.estimate(tally, postprocess=postprocess, columns=[column])
        for protocol, tally in groups
    ]
    parts = [margin_counts(protocol, tally, [column]) for protocol, tally in groups]
    samples = [(protocol.oracles[0], tally.sizes[0]) for protocol, tally in groups]
    weights = sample_weights(samples, len(parts[0].counts))
    shown = weights @ np.array([table["count"] for table in tables])
    found = SampledCounts.combined(parts, weights)
    return found.table(
        confidence_level,
        shown=shown,
        clipped=postprocess != "none",
        what=what,
        index=tables[0].index,
    )


def sample_weights(
    samples: Sequence[tuple[FrequencyOracle, int]], n_cells: int
) -> NDArray[np.float64]:
    """Weigh samples without a record in common by the variances of their estimates of uniform values."""
    # The weights follow from the mechanisms and from who reports what, not from values: so the sum has no bias.
    errors = [
        margin_error(oracle, n_cells) + (1 - 1 / n_cells) / n_cells
        for oracle, _ in samples
    ]
    weights = np.array([size for _, size in samples]) / np.array(errors)
    return weights / weights.sum()


def check_columns(known: Sequence[Any], columns: Sequence[Any]) -> list[Any]:
    """Check that columns are distinct ones of those that are known."""
    chosen = list(columns)
    absent = [name for name in chosen if name not in known]
    if absent or not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"columns must be distinct ones of {list(known)}, got {chosen}"
        )
    return chosen


def _group(protocol: Any, columns: Sequence[Any]) -> NDArray[np.intp]:
    """Return, for each cell of a joint attribute, the cell of some of its columns that it belongs to."""
    domain, kept = protocol.domain, protocol.domain.select(columns)
    codes = np.indices(domain.sizes).reshape(len(domain.sizes), -1)
    return np.ravel_multi_index(
        [codes[domain.columns.index(name)] for name in kept.columns], kept.sizes
    )


def _margin_variances(
    oracle: FrequencyOracle,
    group: NDArray[np.intp],
    counts: NDArray[np.float64],
    n: int,
    reports: Any,
) -> NDArray[np.float64]:
    """Return the variances of sums of unbiased counts over groups of g cells."""
    # A report supports S of the g cells of a group; a record adds (S - g q) / (p - q) to its count. The variance of S
    # follows from the probabilities that two cells are supported at once, for records inside and outside of the group.
    inside, outside = _support_variances(oracle, len(group) // len(counts))
    if np.isnan(inside) or np.isnan(outside):
        return _sampled_variances(oracle, group, counts, reports)
    members = np.clip(counts, 0, n)
    return (members * inside + (n - members) * outside) / float(
        oracle.p - oracle.q
    ) ** 2


def _support_variances(oracle: FrequencyOracle, g: int) -> tuple[float, float]:
    """Return the variance of how many of g cells a report supports, for a record of one of them and for another."""
    p, q, (together, apart) = float(oracle.p), float(oracle.q), oracle.pair_supports
    inside = (
        p
        + (g - 1) * q
        + 2 * (g - 1) * together
        + (g - 1) * (g - 2) * apart
        - (p + (g - 1) * q) ** 2
    )
    return inside, g * q + g * (g - 1) * apart - (g * q) ** 2


def margin_error(oracle: FrequencyOracle, n_groups: int) -> float:
    """Return the mean over equal groups of values of n times the variance of the frequency of a group."""
    inside, outside = _support_variances(oracle, oracle.k // n_groups)
    return (
        (inside + (n_groups - 1) * outside) / n_groups / float(oracle.p - oracle.q) ** 2
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
            f"margins of {type(oracle).__name__} need the reports themselves, not their tally"
        )
    squares, membership = np.zeros(len(counts)), np.eye(len(counts))[group]
    step = max(1, _CHUNK // oracle.k)
    for start in range(0, len(reports), step):
        squares += (
            (oracle.unbiased(reports[start : start + step]) @ membership) ** 2
        ).sum(axis=0)
    return np.clip(squares - np.clip(counts, 0, None), 0, None)


def _cells(protocol: Any) -> pd.Index:
    if protocol.strategy == "joint" or len(protocol.domain.columns) == 1:
        return protocol.domain.cells()
    pairs = [
        (name, label)
        for name in protocol.domain.columns
        for label in protocol.domain[name].labels
    ]
    return column_index(pairs)


def split_counts(
    protocol: Any, counts: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    return np.split(counts, np.cumsum([oracle.k for oracle in protocol.oracles])[:-1])


def count_variances(protocol: Any, counts: ArrayLike) -> NDArray[np.float64]:
    """Return the variances of the unbiased counts for given true counts."""
    given = np.asarray(counts, float)
    n_cells = sum(oracle.k for oracle in protocol.oracles)
    if given.shape != (n_cells,):
        raise ValueError(f"counts must have shape ({n_cells},), got {given.shape}")
    totals = [part.sum() for part in split_counts(protocol, given)]
    if (given < 0).any() or not np.allclose(totals, totals[0]):
        raise ValueError(
            "counts must be at least 0 and add up to the same number in each column"
        )
    n = totals[0]
    size = n / (len(protocol.oracles) if protocol.strategy == "sample" else 1)
    parts = [
        SampledCounts.of(
            part * size / n, oracle.variance(part * size / n, size), size, n
        )
        for oracle, part in zip(
            protocol.oracles, split_counts(protocol, given), strict=True
        )
    ]
    return SampledCounts.joined(parts).variances


def estimate_joint_counts(
    protocol: Any,
    reports: Sequence[NDArray[Any]],
    columns: Sequence[Any] | None,
    confidence_level: float,
) -> pd.DataFrame:
    """Estimate the count of each combination of values of columns that are attributes of their own."""
    if protocol.strategy != "split":
        raise ValueError(
            f"joint counts are estimated from strategy='split', not {protocol.strategy!r}"
        )
    level = check_confidence_level(confidence_level)
    chosen = check_columns(
        protocol.domain.columns, protocol.domain.columns if columns is None else columns
    )
    places = [protocol.domain.columns.index(name) for name in chosen]
    oracles, parts = (
        [protocol.oracles[place] for place in places],
        [reports[place] for place in places],
    )
    counts = _outer_sums(oracles, parts)
    moments = [oracle.second_moments() for oracle in oracles]
    n = len(parts[0])
    plug_in = _possible(counts, n)
    noise = np.clip(_along_each_axis(moments, plug_in) - plug_in, 0, None).ravel()
    return SampledCounts.of(counts.ravel(), noise, n, n).table(
        level, index=protocol.domain.select(chosen).cells()
    )


def estimate_together(
    pairs: Sequence[tuple[FrequencyOracle, NDArray[Any], NDArray[np.intp]]],
    n: int,
    confidence_level: float,
) -> pd.DataFrame:
    """Estimate the counts, among n records, of what groups of cells of several oracles say together."""
    # Each oracle has the reports of the records that make all of them, and the group of each of its cells.
    level, size = check_confidence_level(confidence_level), len(pairs[0][1])
    shape = [int(group.max()) + 1 for _, _, group in pairs]
    moments = [_group_moments(oracle, group) for oracle, _, group in pairs]
    sums = np.zeros(int(np.prod(shape)))
    step = max(1, _CHUNK // max(sums.size, *(oracle.k for oracle, _, _ in pairs)))
    for start in range(0, size, step):
        vectors = [
            oracle.unbiased(part[start : start + step])
            @ np.eye(int(group.max()) + 1)[group]
            for oracle, part, group in pairs
        ]
        joint = reduce(
            lambda left, right: (
                left[:, :, np.newaxis] * right[:, np.newaxis, :]
            ).reshape(len(left), -1),
            vectors,
        )
        sums += joint.sum(axis=0)
    plug_in = _possible(sums.reshape(shape), size)
    noise = np.clip(_along_each_axis(moments, plug_in) - plug_in, 0, None).ravel()
    return SampledCounts.of(sums, noise, size, n).table(level)


def _possible(counts: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return the nearest counts of n records: where noise prevails, those that are not negative add up to many more."""
    return project_to_simplex(counts.ravel(), n).reshape(counts.shape)


def _group_moments(
    oracle: FrequencyOracle, group: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return the mean square of what a report adds to the unbiased count of each group, given the true group."""
    n_groups = int(group.max()) + 1
    if n_groups == oracle.k:
        return oracle.second_moments()
    inside, outside = _support_variances(oracle, oracle.k // n_groups)
    gain = float(oracle.p - oracle.q) ** 2
    return np.where(np.eye(n_groups, dtype=bool), inside / gain + 1, outside / gain)


def _outer_sums(
    oracles: Sequence[FrequencyOracle], parts: Sequence[NDArray[Any]]
) -> NDArray[np.float64]:
    """Sum up the outer products of the unbiased one-hot vectors of each record."""
    shape = [oracle.k for oracle in oracles]
    total = np.zeros((int(np.prod(shape[:-1])), shape[-1]))
    step = max(1, _CHUNK // max(total.size // shape[-1], shape[-1]))
    for start in range(0, len(parts[0]), step):
        vectors = [
            oracle.unbiased(part[start : start + step])
            for oracle, part in zip(oracles, parts, strict=True)
        ]
        left = reduce(
            lambda left, right: (
                left[:, :, np.newaxis] * right[:, np.newaxis, :]
            ).reshape(len(left), -1),
            vectors[:-1],
            np.ones((len(vectors[0]), 1)),
        )
        total += left.T @ vectors[-1]
    return total.reshape(shape)


def _along_each_axis(
    matrices: Sequence[NDArray[np.float64]], cells: NDArray[np.float64]
) -> NDArray[np.float64]:
    for axis, matrix in enumerate(matrices):
        cells = np.moveaxis(np.tensordot(matrix, cells, axes=(1, axis)), 0, axis)
    return cells
