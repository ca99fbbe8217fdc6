"""Random choice of the field that a record reports, and counts estimated from samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from skdp._arrays import Floats, Mask
from skdp.base import check_confidence_level
from skdp.privacy import Released, ReportPair, check_epsilon
from skdp.randomness import ByteSource, uniform_integers


@dataclass(frozen=True)
class Sampling:
    """Random choice of one field for each record, in proportion to the weights of the fields."""

    weights: tuple[int, ...]

    @property
    def inclusions(self) -> list[Fraction]:
        """Probability that a record reports each field."""
        total = sum(self.weights)
        return [Fraction(weight, total) for weight in self.weights]

    def draw(self, source: ByteSource, n_rows: int) -> Mask:
        """Draw the field of each row; return a mask of shape (n_rows, n_fields).

        The number of random bytes is fixed.
        """
        # The integers below the sum of the weights are divided into consecutive intervals,
        # whose lengths are the weights. A record reports the field whose interval
        # contains its uniform integer.
        integers = uniform_integers(source, sum(self.weights), n_rows)
        indices = np.searchsorted(np.cumsum(self.weights), integers, "right")
        return make_selection_mask(indices, len(self.weights))


def make_selection_mask(indices: NDArray[np.integer], n_fields: int) -> Mask:
    """Make a mask of shape (n_rows, n_fields) from the index of the field of each row."""
    # The transpose makes columns contiguous, because they are read one by one.
    fields = np.arange(n_fields, dtype=indices.dtype)
    return (indices == fields[:, np.newaxis]).T


def check_column_weights(
    weights: Any, names: Sequence[Any], alternatives: str
) -> list[Fraction]:
    """Check that `weights` maps each column to a positive number, and return the numbers.

    `alternatives` are the other values of the parameter, for the error message.
    """
    if not isinstance(weights, Mapping):
        got = repr(weights) if isinstance(weights, str) else type(weights).__name__
        raise ValueError(
            f"`weights` must be {alternatives} or a dict of column to number, got {got}."
        )
    if set(weights) != set(names):
        raise ValueError(
            f"`weights` must have the columns {list(names)}, got {list(weights)}."
        )
    checked = []
    for name in names:
        # A weight has the type and range of epsilon: a finite number > 0.
        title = f"the weight of column {name!r}"
        checked.append(check_epsilon(weights[name], name=title))
    return checked


def combine_pairs(
    pairs: Sequence[ReportPair], sampling: Sampling | None, released: Released
) -> tuple[ReportPair, ...] | None:
    """Combine the worst-case pairs of values of the fields into pairs for a shuffled record.

    A pair contains the report distributions of the two values that are easiest to
    distinguish.

    The result has a pair for each part of a record that is shuffled separately: for each
    field if only tallies are released, otherwise for the whole record. It is None if the
    pairs of the fields do not determine it.
    """
    is_equal = all(pair == pairs[0] for pair in pairs)
    if not is_equal and not all(pair.is_symmetric for pair in pairs):
        return None
    # Two records that differ in every field are the worst pair. Let x0 and x1 be the two
    # values of a field, m the blanket, a lower bound of P(y | x) for every x, and a = P(y |
    # x0) / m(y) and b = P(y | x1) / m(y) the ratios of a report y of this field. A and B
    # are the products of these ratios over the other fields. The divergence is the mean of
    # g(a, b) = f(A a - t B b) for a convex f and t > 0, so g is convex and has decreasing
    # differences. The field is symmetric: if a report has the ratios (u, v), another report
    # with the same mass has (v, u). If both records had the value x0 or x1, the ratios
    # would be (u, u) and (v, v). Decreasing differences imply
    #     g(u, v) + g(v, u) >= g(u, u) + g(v, v),
    # so different values give a larger divergence. By the same inequality, two values
    # whose supports share fewer reports give a larger divergence, if u is the ratio inside
    # and v the ratio outside of a support. A pair of `from_ratio` bounds all pairs of
    # values, because their reports are post-processed reports of that pair.
    if sampling is None:
        return tuple(pairs) if released == "tally" else (ReportPair.product(pairs),)
    return (ReportPair.mixture(zip(sampling.inclusions, pairs, strict=True)),)


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
        # The variance at an estimate of 0 would be 0, also if no record of a value is drawn.
        # This is the middle of the score interval of such a value for z = 1.
        smallest = self.n / 2 * self.sampling / (1 + self.sampling)
        clipped = np.clip(np.nan_to_num(self.counts), smallest, self.n - smallest)
        return self.noise + self.sampling * clipped * (self.n - clipped)

    def compute_intervals(self, confidence_level: float) -> tuple[Floats, Floats]:
        """Compute the bounds of a score interval of each count (Wilson's without noise).

        The variance of a count c among n records is ``noise + sampling * c * (n - c)``:
        randomization of the reports, and sampling of the records.
        """
        # A bound c is a count whose distance from the estimate e is z standard errors: (e
        # - c)^2 = z^2 (noise + sampling c (n - c)). With f = z^2 sampling, this is the
        # quadratic equation (1 + f) c^2 - 2 (e + f n / 2) c + e^2 - z^2 noise = 0.
        error_rate = 1 - check_confidence_level(confidence_level)
        z = -compute_quantile(error_rate / 2, self.degrees_of_freedom)
        counts = np.nan_to_num(self.counts)
        is_estimated = np.isfinite(self.noise)
        factor = z * z * self.sampling
        middle = (counts + factor * self.n / 2) / (1 + factor)
        # (e + f n / 2)^2 - (1 + f) (e^2 - z^2 noise), without cancellation of e^2.
        square = factor * counts * (self.n - counts) + (factor * self.n / 2) ** 2
        noise = np.where(is_estimated, self.noise, 0)
        square = square + (1 + factor) * z * z * noise
        margin = np.sqrt(np.clip(square, 0, None)) / (1 + factor)
        margin = np.where(is_estimated, margin, np.inf)
        return middle - margin, middle + margin

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


def compute_quantile(probability: float, degrees_of_freedom: float) -> float:
    """Compute a quantile of Student's t distribution, or of the normal one as its limit."""
    if math.isinf(degrees_of_freedom):
        return NormalDist().inv_cdf(probability)
    return float(stdtrit(degrees_of_freedom, probability))
