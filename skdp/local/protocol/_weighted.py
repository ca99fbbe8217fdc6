"""Weights, strata and clusters of a sample: exact sums over reports, and the linearised variance of estimates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from skdp.base import check_same_order
from skdp.local._tally import LARGEST_WEIGHT, SMALLEST_WEIGHT, WEIGHT_UNIT, WeightedSums
from skdp.local.protocol._field import Field, Reports
from skdp.local.protocol._sampling import SampledCounts, Vector

# Numbers that are held at once: 8 MB.
_CHUNK = 1 << 20


@dataclass(frozen=True, eq=False)
class SampleDesign:
    """How the records of a table were drawn from a population."""

    # Of each record, at least 0.
    weights: Vector
    # The number of the stratum of each record.
    strata: NDArray[np.intp]
    # The number of the cluster of each record; None if each was drawn by itself.
    clusters: NDArray[np.intp] | None
    # The stratum of each cluster, or of each record.
    cluster_strata: NDArray[np.intp]

    @property
    def n_units(self) -> NDArray[np.intp]:
        """How many clusters, or records, were drawn of each stratum."""
        return np.bincount(self.cluster_strata)

    @property
    def degrees(self) -> int:
        """The degrees of freedom of the variance."""
        return len(self.cluster_strata) - len(self.n_units)

    def variances(self, blocks: Iterator[tuple[int, Vector]]) -> Vector:
        """Return the variances of sums over the records.

        A block has its first record, and what its records add: (n_rows, n_cells).
        """
        # The variance between the clusters of a stratum (Cochran 1977, section 11.4),
        # as of svytotal in R's package survey (Lumley 2004).
        n_units = self.n_units[:, np.newaxis]
        n_strata = len(n_units)
        sums: Any = 0.0
        squares: Any = 0.0
        totals: Any = 0.0
        for start, added in blocks:
            rows = slice(start, start + len(added))
            of_strata = _indicators(self.strata[rows], n_strata)
            if self.clusters is None:
                sums = sums + of_strata @ added
                squares = squares + of_strata @ added**2
            else:
                of_clusters = _indicators(self.clusters[rows], len(self.cluster_strata))
                totals = totals + of_clusters @ added
        if self.clusters is not None:
            of_strata = _indicators(self.cluster_strata, n_strata)
            sums = of_strata @ totals
            squares = of_strata @ totals**2
        between = n_units / (n_units - 1) * (squares - sums**2 / n_units)
        total: Vector = np.clip(between, 0, None).sum(axis=0)
        return total


def _indicators(groups: NDArray[np.intp], n_groups: int) -> csr_array:
    """Return the matrix that adds up rows by group: (n_groups, n_rows)."""
    places = groups, np.arange(len(groups))
    return csr_array((np.ones(len(groups)), places), shape=(n_groups, len(groups)))


def read_design(
    reports: Any,
    n_rows: int,
    *,
    sample_weight: Any = None,
    strata: Any = None,
    clusters: Any = None,
) -> SampleDesign | None:
    """Read how the records of reports were drawn; None if nothing is said of it."""
    if sample_weight is None and strata is None and clusters is None:
        return None
    weights = read_sample_weight(sample_weight, reports, n_rows)
    strata_codes = np.zeros(n_rows, np.intp)
    if strata is not None:
        strata_codes, _ = _read_groups("strata", strata, reports, n_rows)
    cluster_codes = None
    cluster_strata = strata_codes
    if clusters is not None:
        numbers, names = _read_groups("clusters", clusters, reports, n_rows)
        # A cluster lies in one stratum: clusters may be numbered again in each.
        pairs = strata_codes * len(names) + numbers
        distinct, cluster_codes = np.unique(pairs, return_inverse=True)
        cluster_strata = distinct // len(names)
    n_units = np.bincount(cluster_strata)
    unit = "rows" if clusters is None else "clusters"
    if (n_units < 2).any():
        demand = f"there must be two {unit} or more"
        if strata is not None:
            demand = f"each stratum must have two {unit} or more (join smaller ones)"
        raise ValueError(f"{demand}, as the variance is that between them")
    return SampleDesign(weights, strata_codes, cluster_codes, cluster_strata)


def read_sample_weight(sample_weight: Any, reports: Any, n_rows: int) -> Vector:
    """Read the weights of rows; 1 by default."""
    if n_rows == 0:
        raise ValueError("the table of reports must have at least one row, got 0 rows")
    if sample_weight is None:
        return np.ones(n_rows)
    refuse_name("sample_weight", sample_weight)
    check_same_order(reports, sample_weight, "sample_weight")
    weights = None
    # The error quotes a value, which not even the context of another one must have.
    with suppress(TypeError, ValueError):
        weights = np.asarray(sample_weight, float)
    if weights is None:
        raise ValueError("sample_weight must hold numbers")
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have the shape ({n_rows},), a number for each row, "
            f"got {weights.shape}"
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError(
            "sample_weight must be finite, at least 0, and not all weights zero"
        )
    return weights


def refuse_name(parameter: str, given: Any) -> None:
    """Refuse the name of a column in place of its entries."""
    if isinstance(given, str):
        raise ValueError(
            f"{parameter} must hold an entry for each row, got a name: pass X[{given!r}]"
        )


def _read_groups(
    name: str, column: Any, reports: Any, n_rows: int
) -> tuple[NDArray[np.intp], list[Any]]:
    """Return the number of the group of each row, and the names of the groups."""
    refuse_name(name, column)
    check_same_order(reports, column, name)
    values = np.asarray(column)
    if values.shape != (n_rows,):
        raise ValueError(
            f"{name} must have the shape ({n_rows},), a group for each row, got "
            f"{values.shape}"
        )
    codes, names = pd.factorize(values.astype(object))
    if (codes < 0).any():
        raise ValueError(f"{name} must not be missing in any row")
    return codes.astype(np.intp), list(names)


@dataclass(frozen=True, eq=False)
class ReportVectors:
    """An unbiased vector of each record that reports some field, such as one-hot ones."""

    # Has ``vectors(rows)``, of shape (n_rows, n_cells).
    source: Any
    # Which records they are of, ascending.
    rows: NDArray[np.intp]
    n_cells: int
    # The variance that the mechanism adds to each entry is at least this.
    least_noise: float
    # Of the estimate, where several fields report the same cells.
    share: float = 1.0

    def blocks(self) -> Iterator[slice]:
        step = max(1, _CHUNK // self.n_cells)
        for start in range(0, len(self.rows), step):
            yield slice(start, min(start + step, len(self.rows)))

    def means(self, weights: Vector) -> Vector:
        """Return the weighted means of the vectors; nan without a weight."""
        total = np.zeros(self.n_cells)
        for block in self.blocks():
            total += weights[self.rows[block]] @ self.source.vectors(block)
        sum_of_weights = weights[self.rows].sum()
        return (
            total / sum_of_weights if sum_of_weights else np.full(total.shape, np.nan)
        )


@dataclass(frozen=True, eq=False)
class WeightedMeans:
    """Weighted means of the vectors of records, and what is known of their errors."""

    means: Vector
    variances: Vector
    total_weight: float
    # The variance of the mean of numbers of variance 1 that do not depend on the
    # weights: their sum of squares over their squared sum (Kish 1965).
    kish: float
    degrees: float

    def counts(self) -> SampledCounts:
        """Return the weighted counts, with what sampling adds and the noise apart."""
        n = self.total_weight
        counts = n * self.means
        variances = n**2 * self.variances
        possible_counts = np.clip(counts, 0, n)
        products = possible_counts * (n - possible_counts)
        excess = variances - self.kish * products
        # Where weights, strata or clusters make sampling better than that, all of the
        # variance is of the form of sampling.
        is_less = excess < 0
        spread = np.full(len(counts), self.kish)
        spread[is_less] = (variances / np.where(products > 0, products, 1))[is_less]
        noise = np.clip(excess, 0, None)
        return SampledCounts(counts, noise, spread, n, counts, self.degrees)


def weighted_means(
    design: SampleDesign, parts: Sequence[ReportVectors], *, is_total: bool
) -> WeightedMeans:
    """Estimate means of vectors, with the error of the mean or of the total over its weight."""
    weights = design.weights
    total_weight = float(weights.sum())
    part_means = [part.means(weights) for part in parts]
    means = np.zeros(parts[0].n_cells)
    kish = 0.0
    least_variance = 0.0
    for part, means_of_part in zip(parts, part_means, strict=True):
        means = means + part.share * means_of_part
        reported = weights[part.rows]
        if reported.any():
            kish_of_part = float((reported**2).sum() / reported.sum() ** 2)
            kish += part.share**2 * kish_of_part
            least_variance += part.share**2 * kish_of_part * part.least_noise
    if np.isnan(means).any():
        infinite = np.full(len(means), np.inf)
        return WeightedMeans(means, infinite, total_weight, kish, design.degrees)
    centre = means if is_total else np.zeros(len(means))
    blocks = _influences(weights, parts, part_means, centre)
    variances = design.variances(blocks)
    # Of rare values, a few reports tell little of the variance.
    variances = np.maximum(variances, least_variance)
    return WeightedMeans(means, variances, total_weight, kish, design.degrees)


def _influences(
    weights: Vector,
    parts: Sequence[ReportVectors],
    part_means: Sequence[Vector],
    centre: Vector,
) -> Iterator[tuple[int, Vector]]:
    """Yield what each record adds to means, to first order."""
    # Of a mean, a sum over a sum of weights, the record i adds w_i (u_i - mean) / W.
    # A total over W varies with the sum of weights, too: w_i mean / W are added.
    n_rows = len(weights)
    n_cells = len(centre)
    step = max(1, _CHUNK // n_cells)
    for start in range(0, n_rows, step):
        end = min(start + step, n_rows)
        added = np.outer(weights[start:end] / weights.sum(), centre)
        for part, means in zip(parts, part_means, strict=True):
            first, last = np.searchsorted(part.rows, [start, end])
            rows = part.rows[first:last]
            vectors = part.source.vectors(slice(first, last))
            factors = part.share * weights[rows] / weights[part.rows].sum()
            added[rows - start] += factors[:, np.newaxis] * (vectors - means)
        yield start, added


@dataclass(frozen=True, eq=False)
class WeightedMoments:
    """Of the reports of a field: weighted sums of their vectors and of the squares."""

    means: Vector
    # The sum of the squares of weight times vector.
    squares: Vector
    # The sum of the square of the weight times the vector.
    products: Vector
    weight: float
    squared_weight: float
    least_noise: float
    share: float = 1.0


def means_of_moments(
    parts: Sequence[WeightedMoments],
    *,
    n_rows: int,
    total_weight: float,
    total_squared_weight: float,
    is_total: bool,
) -> WeightedMeans:
    """Estimate means of vectors from sums: as `weighted_means`, without strata and clusters."""
    means: Any = 0.0
    squares: Any = 0.0
    products: Any = 0.0
    kish = 0.0
    least_variance = 0.0
    for part in parts:
        factor = part.share / part.weight
        means = means + part.share * part.means
        # Sums of the squares of w (u - mean), and of its product with w; the factor
        # divides by the sum of weights.
        centred = part.squares - 2 * part.means * part.products
        centred = centred + part.means**2 * part.squared_weight
        squares = squares + factor**2 * centred
        products = products + factor * (
            part.products - part.means * part.squared_weight
        )
        kish_of_part = factor**2 * part.squared_weight
        kish += kish_of_part
        least_variance += kish_of_part * part.least_noise
    if is_total:
        # A record adds w * mean / W to a total besides (`_influences`). All then add up
        # to the mean, and no longer to 0, so that mean**2 / n is taken off.
        squares = squares + 2 * means / total_weight * products
        squares = squares + (means / total_weight) ** 2 * total_squared_weight
        squares = squares - means**2 / n_rows
    if n_rows < 2:
        variances = np.full(len(means), np.inf)
    else:
        variances = np.maximum(n_rows / (n_rows - 1) * squares, least_variance)
    degrees = max(n_rows - 1, 1)
    return WeightedMeans(means, variances, total_weight, kish, degrees)


# Bits of each of the two numbers that a weight consists of.
_HALF = 22

# That are added up at once: products of two such numbers have 45 bits, so that their
# sums fit into 64.
_ROWS = 1 << 18


def _field_sums(
    field: Field, reports: NDArray[Any], units: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the sums of a field by weight, and by its square."""
    sums = np.zeros(field.shape, dtype=object)
    squares = np.zeros(field.shape, dtype=object)
    try:
        for start in range(0, len(units), _ROWS):
            rows = slice(start, start + _ROWS)
            high, low = units[rows] >> _HALF, units[rows] & ((1 << _HALF) - 1)
            for factor, power in ((low, 0), (high, _HALF)):
                added = field.distinct_sums(reports[rows], factor)
                sums += added.astype(object) << power
            # The square of 2**22 high + low.
            products = ((low**2, 0), (2 * high * low, _HALF), (high**2, 2 * _HALF))
            for factor, power in products:
                added = field.distinct_sums(reports[rows], factor)
                squares += added.astype(object) << power
    except NotImplementedError:
        raise ValueError(
            f"there are no weighted sums of the reports of {list(field.columns)}: "
            "estimate from the reports themselves"
        ) from None
    return sums, squares


def _weight_sums(units: NDArray[np.int64]) -> list[int]:
    """Return the sum of weights and that of their squares."""
    numbers: list[int] = units.tolist()
    return [sum(numbers), sum(number * number for number in numbers)]


def weighted_sums(
    fields: Sequence[Field],
    reports: Reports,
    is_reported: NDArray[np.bool_],
    weights: NDArray[np.float64],
) -> WeightedSums:
    """Sum up the weights of reports; `is_reported` has the shape (n_records, n_fields)."""
    is_too_small = (weights > 0) & (weights < SMALLEST_WEIGHT)
    if is_too_small.any() or (weights >= LARGEST_WEIGHT).any():
        raise ValueError(
            "weights in a tally must be 0, or from 2**-10 to 2**24, as they are whole "
            "multiples of a unit: multiply all of them by a constant"
        )
    units = np.rint(weights / WEIGHT_UNIT).astype(np.int64)
    all_sums = []
    all_squares = []
    weights_of_fields = []
    for place, field in enumerate(fields):
        rows = is_reported[:, place]
        sums, squares = _field_sums(field, reports[place][rows], units[rows])
        all_sums.append(sums)
        all_squares.append(squares)
        weights_of_fields.append(_weight_sums(units[rows]))
    return WeightedSums(
        tuple(all_sums),
        tuple(all_squares),
        np.array(weights_of_fields, dtype=object),
        np.array(_weight_sums(units), dtype=object),
    )
