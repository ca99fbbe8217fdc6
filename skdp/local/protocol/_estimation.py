"""From sums of reports to counts: unbiased estimates, errors and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skdp.base import check_confidence_level
from skdp.domain import Domain
from skdp.local._tallies import ReportTally
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
    if not isinstance(postprocess, str) or postprocess not in POSTPROCESSORS:
        raise ValueError(f"postprocess must be one of {tuple(POSTPROCESSORS)}, got {postprocess!r}")
    level = check_confidence_level(confidence_level)
    if tally.domain != protocol.domain or tally.protocol != protocol.meaning:
        raise ValueError("the tally comes from an encoder with different parameters or another domain")
    parts = [None] * len(protocol.oracles) if reports is None else reports
    n = tally.n_reports
    triples = list(zip(protocol.oracles, tally.support, tally.sizes, strict=True))
    # Of a sampled attribute, n_j of n records were reported.
    scales = np.repeat(
        [n / size if size else np.nan for size in tally.sizes], [oracle.k for oracle in protocol.oracles]
    )
    unbiased = np.concatenate([oracle.estimate(support, size) for oracle, support, size in triples]) * scales
    counts = scales * np.concatenate(
        [
            POSTPROCESSORS[postprocess](oracle, support, size, part)
            for (oracle, support, size), part in zip(triples, parts, strict=True)
        ]
    )
    variances, index = _variances(protocol, unbiased, tally.sizes, n), _cells(protocol)
    if asked is not None and protocol.strategy == "joint":
        kept, index = protocol.domain.select(asked), protocol.domain.select(asked).cells()
        group = _margin_cells(protocol.domain, kept)
        counts, unbiased = (np.bincount(group, cells).astype(float) for cells in (counts, unbiased))
        (size,), oracle = tally.sizes, protocol.oracles[0]
        variances = np.full(len(counts), np.inf)
        if size:
            variances = _margin_variances(oracle, group, unbiased * size / n, size, parts[0])
            variances = _of_sample(variances, unbiased, size, n)
    elif asked is not None:
        owners = np.repeat(np.arange(len(protocol.oracles)), [oracle.k for oracle in protocol.oracles])
        rows = np.concatenate([np.flatnonzero(owners == protocol.domain.columns.index(name)) for name in asked])
        counts, unbiased, variances = counts[rows], unbiased[rows], variances[rows]
        index = protocol.domain.select(asked).cells() if len(asked) == 1 else index[rows]
    std_error = np.sqrt(variances)
    tail = (1 - level) / 2 / (len(std_error) if simultaneous else 1)
    reach = -NormalDist().inv_cdf(tail) * std_error
    lower, upper = np.nan_to_num(unbiased) - reach, np.nan_to_num(unbiased) + reach
    if postprocess != "none":
        lower, upper = np.clip(lower, 0, n), np.clip(upper, 0, n)
    scale = n if what == "frequency" else 1
    table = {what: counts, "std_error": std_error, "lower": lower, "upper": upper}
    return pd.DataFrame({name: values / scale for name, values in table.items()}, index=index)


def combine_samples(
    groups: Sequence[tuple[Any, ReportTally]],
    column: Any,
    *,
    postprocess: str = "none",
    confidence_level: float = 0.95,
    what: str = "count",
) -> pd.DataFrame:
    """Estimate the count, or the frequency, of each value of a column that each record reports in one group at most."""
    given = {"columns": [column], "confidence_level": confidence_level}
    tables = [protocol.estimate(tally, postprocess=postprocess, **given) for protocol, tally in groups]
    raw = tables if postprocess == "none" else [protocol.estimate(tally, **given) for protocol, tally in groups]
    n, cells = groups[0][1].n_reports, len(raw[0])
    # The weights follow from the mechanisms and from who reports what, not from values: so the sum has no bias.
    errors = np.array([margin_error(protocol.oracles[0], cells) + (1 - 1 / cells) / cells for protocol, _ in groups])
    weights = np.array([tally.sizes[0] for _, tally in groups]) / errors
    weights = weights / weights.sum()
    unbiased = weights @ np.array([table["count"] for table in raw])
    inside = np.clip(unbiased, 0, n)
    # No record is in two samples, so what two of them say is correlated: by as much for any two.
    shared = inside * (n - inside) / max(n - 1, 1) * (1 - weights @ weights)
    variances = weights**2 @ np.array([table["std_error"] for table in raw]) ** 2 - shared
    std_error = np.sqrt(np.clip(variances, 0, None))
    reach = -NormalDist().inv_cdf((1 - check_confidence_level(confidence_level)) / 2) * std_error
    lower, upper = unbiased - reach, unbiased + reach
    if postprocess != "none":
        lower, upper = np.clip(lower, 0, n), np.clip(upper, 0, n)
    counts = weights @ np.array([table["count"] for table in tables])
    scale = n if what == "frequency" else 1
    found = {what: counts, "std_error": std_error, "lower": lower, "upper": upper}
    return pd.DataFrame({name: values / scale for name, values in found.items()}, index=raw[0].index)


def check_columns(known: Sequence[Any], columns: Sequence[Any]) -> list[Any]:
    """Check that columns are distinct ones of those that are known."""
    chosen = list(columns)
    absent = [name for name in chosen if name not in known]
    if absent or not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"columns must be distinct ones of {list(known)}, got {chosen}")
    return chosen


def _margin_cells(domain: Domain, kept: Domain) -> NDArray[np.intp]:
    """Return, for each cell of a domain, the cell of some of its columns that it belongs to."""
    codes = np.indices(domain.sizes).reshape(len(domain.sizes), -1)
    return np.ravel_multi_index([codes[domain.columns.index(name)] for name in kept.columns], kept.sizes)


def _margin_variances(
    oracle: FrequencyOracle, group: NDArray[np.intp], counts: NDArray[np.float64], n: int, reports: Any
) -> NDArray[np.float64]:
    """Return the variances of sums of unbiased counts over groups of g cells."""
    # A report supports S of the g cells of a group; a record adds (S - g q) / (p - q) to its count. The variance of S
    # follows from the probabilities that two cells are supported at once, for records inside and outside of the group.
    inside, outside = _support_variances(oracle, len(group) // len(counts))
    if np.isnan(inside) or np.isnan(outside):
        return _sampled_variances(oracle, group, counts, reports)
    members = np.clip(counts, 0, n)
    return (members * inside + (n - members) * outside) / float(oracle.p - oracle.q) ** 2


def _support_variances(oracle: FrequencyOracle, g: int) -> tuple[float, float]:
    """Return the variance of how many of g cells a report supports, for a record of one of them and for another."""
    p, q, (together, apart) = float(oracle.p), float(oracle.q), oracle.pair_supports
    inside = p + (g - 1) * q + 2 * (g - 1) * together + (g - 1) * (g - 2) * apart - (p + (g - 1) * q) ** 2
    return inside, g * q + g * (g - 1) * apart - (g * q) ** 2


def margin_error(oracle: FrequencyOracle, n_groups: int) -> float:
    """Return the mean over equal groups of values of n times the variance of the frequency of a group."""
    inside, outside = _support_variances(oracle, oracle.k // n_groups)
    return (inside + (n_groups - 1) * outside) / n_groups / float(oracle.p - oracle.q) ** 2


def _sampled_variances(
    oracle: FrequencyOracle, group: NDArray[np.intp], counts: NDArray[np.float64], reports: Any
) -> NDArray[np.float64]:
    """Estimate the variances from the reports: the sum of the records' squares, less the count, is unbiased."""
    if reports is None:
        raise ValueError(f"margins of {type(oracle).__name__} need the reports themselves, not their tally")
    squares, membership = np.zeros(len(counts)), np.eye(len(counts))[group]
    step = max(1, _CHUNK // oracle.k)
    for start in range(0, len(reports), step):
        squares += ((oracle.unbiased(reports[start : start + step]) @ membership) ** 2).sum(axis=0)
    return np.clip(squares - np.clip(counts, 0, None), 0, None)


def _cells(protocol: Any) -> pd.Index:
    if protocol.strategy == "joint" or len(protocol.domain.columns) == 1:
        return protocol.domain.cells()
    pairs = [(name, label) for name in protocol.domain.columns for label in protocol.domain[name].labels]
    return pd.MultiIndex.from_tuples(pairs, names=["column", "category"])


def split_counts(protocol: Any, counts: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    return np.split(counts, np.cumsum([oracle.k for oracle in protocol.oracles])[:-1])


def _variances(protocol: Any, counts: NDArray[np.float64], sizes: Sequence[int], n: int) -> NDArray[np.float64]:
    """Return the variances of the counts of n records, of which each attribute was reported by a sample."""
    variances = []
    for oracle, part, size in zip(protocol.oracles, split_counts(protocol, counts), sizes, strict=True):
        if size == 0:
            variances.append(np.full(oracle.k, np.inf))
            continue
        variances.append(_of_sample(oracle.variance(part * size / n, size), part, size, n))
    return np.concatenate(variances)


def _of_sample(
    variances: NDArray[np.float64], counts: NDArray[np.float64], size: float, n: float
) -> NDArray[np.float64]:
    """Return the variances of counts of n records, from those of counts of a sample of them."""
    inside = np.clip(counts, 0, n)
    return (n / size) ** 2 * variances + inside * (n - inside) / size * (n - size) / max(n - 1, 1)


def count_variances(protocol: Any, counts: ArrayLike) -> NDArray[np.float64]:
    """Return the variances of the unbiased counts for given true counts."""
    given = np.asarray(counts, float)
    n_cells = sum(oracle.k for oracle in protocol.oracles)
    if given.shape != (n_cells,):
        raise ValueError(f"counts must have shape ({n_cells},), got {given.shape}")
    totals = [part.sum() for part in split_counts(protocol, given)]
    if (given < 0).any() or not np.allclose(totals, totals[0]):
        raise ValueError("counts must be at least 0 and add up to the same number in each column")
    size = totals[0] / (len(protocol.oracles) if protocol.strategy == "sample" else 1)
    return _variances(protocol, given, [size] * len(protocol.oracles), totals[0])


def estimate_joint_counts(
    protocol: Any, reports: Any, columns: Sequence[Any] | None, confidence_level: float
) -> pd.DataFrame:
    """Estimate the count of each combination of values of columns that are attributes of their own."""
    if protocol.strategy != "split":
        raise ValueError(f"joint counts are estimated from strategy='split', not {protocol.strategy!r}")
    level = check_confidence_level(confidence_level)
    chosen = check_columns(protocol.domain.columns, protocol.domain.columns if columns is None else columns)
    parts = protocol.read(reports)
    places = [protocol.domain.columns.index(name) for name in chosen]
    oracles, parts = [protocol.oracles[place] for place in places], [parts[place] for place in places]
    counts = _outer_sums(oracles, parts)
    moments = [oracle.second_moments() for oracle in oracles]
    plug_in = _possible(counts, len(parts[0]))
    std_error = np.sqrt(np.clip(_along_each_axis(moments, plug_in) - plug_in, 0, None)).ravel()
    reach = -NormalDist().inv_cdf((1 - level) / 2) * std_error
    flat = counts.ravel()
    return pd.DataFrame(
        {"count": flat, "std_error": std_error, "lower": flat - reach, "upper": flat + reach},
        index=protocol.domain.select(chosen).cells(),
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
            oracle.unbiased(part[start : start + step]) @ np.eye(int(group.max()) + 1)[group]
            for oracle, part, group in pairs
        ]
        joint = reduce(
            lambda left, right: (left[:, :, np.newaxis] * right[:, np.newaxis, :]).reshape(len(left), -1), vectors
        )
        sums += joint.sum(axis=0)
    if size == 0:
        unknown = {"count": np.nan, "std_error": np.inf, "lower": -np.inf, "upper": np.inf}
        return pd.DataFrame(unknown, index=range(sums.size))
    plug_in, counts = _possible(sums.reshape(shape), size), sums * (n / size)
    noise = np.clip(_along_each_axis(moments, plug_in) - plug_in, 0, None).ravel()
    std_error = np.sqrt(_of_sample(noise, counts, size, n))
    reach = -NormalDist().inv_cdf((1 - level) / 2) * std_error
    return pd.DataFrame({"count": counts, "std_error": std_error, "lower": counts - reach, "upper": counts + reach})


def _possible(counts: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return the nearest counts of n records: where noise prevails, those that are not negative add up to many more."""
    return project_to_simplex(counts.ravel(), n).reshape(counts.shape)


def _group_moments(oracle: FrequencyOracle, group: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the mean square of what a report adds to the unbiased count of each group, given the true group."""
    n_groups = int(group.max()) + 1
    if n_groups == oracle.k:
        return oracle.second_moments()
    inside, outside = _support_variances(oracle, oracle.k // n_groups)
    gain = float(oracle.p - oracle.q) ** 2
    return np.where(np.eye(n_groups, dtype=bool), inside / gain + 1, outside / gain)


def _outer_sums(oracles: Sequence[FrequencyOracle], parts: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Sum up the outer products of the unbiased one-hot vectors of each record."""
    shape = [oracle.k for oracle in oracles]
    total = np.zeros((int(np.prod(shape[:-1])), shape[-1]))
    step = max(1, _CHUNK // max(total.size // shape[-1], shape[-1]))
    for start in range(0, len(parts[0]), step):
        vectors = [oracle.unbiased(part[start : start + step]) for oracle, part in zip(oracles, parts, strict=True)]
        left = reduce(
            lambda left, right: (left[:, :, np.newaxis] * right[:, np.newaxis, :]).reshape(len(left), -1),
            vectors[:-1],
            np.ones((len(vectors[0]), 1)),
        )
        total += left.T @ vectors[-1]
    return total.reshape(shape)


def _along_each_axis(matrices: Sequence[NDArray[np.float64]], cells: NDArray[np.float64]) -> NDArray[np.float64]:
    for axis, matrix in enumerate(matrices):
        cells = np.moveaxis(np.tensordot(matrix, cells, axes=(1, axis)), 0, axis)
    return cells
