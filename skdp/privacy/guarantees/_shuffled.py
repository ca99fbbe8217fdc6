"""Guarantee of reports that are shuffled or summed before they are released.

**The bound** ([1]_, lemma 5.3). Let P(y | x) be the probability that value x is reported as y. A blanket is a measure m
with m(y) <= P(y | x) for every x. So each of the n - 1 other records, whatever its value, reports y from the blanket
with probability m(y), and otherwise another report, which may be revealed to the attacker. The attacker sees the
unordered set of the report of the target record and the k - 1 reports from the blanket. Let gamma = sum m and
w = m / gamma. If the target has value x and its report is at a random position, a list y_1, ..., y_k has probability
``prod w(y_i) * (1 / k) sum_i P(y_i | x) / w(y_i)``. Let ``V = (P(y | x0) - t P(y | x1)) / m(y)`` with probability m(y),
and V = 0 with the remaining probability. Averaged over k, the hockey-stick divergence of order t is then
``delta(t) = E[max(S, 0)] / n``, where S is the sum of n independent copies of V. (The binomial weight of k - 1 of n - 1
records, times 1 / k, is the weight of k of n records, divided by n gamma.)

**The numbers.** max(S, 0) is a convex and increasing function of S. So delta can only increase if V is replaced by a
larger number, or by a random number with the conditional mean V, and S by its sum X with Gaussian noise of mean 0. Let
``c(y) = E[max(X - y, 0)]``. For z = tau + i omega with tau > 0, ``integral c(y) e**(z y) dy = E[e**(z X)] / z**2``. By
Poisson's summation formula, ``h / (2 pi) sum_k E[e**(z_k X)] / z_k**2`` with z_k = tau + i k h is the sum of
``c(y) e**(tau y)`` over all multiples y of 2 pi / h. It is at least c(0), because all terms are positive, and hardly
more for a small h. Because of the noise, a few hundred terms are sufficient; the other terms and all rounding errors
are bounded. Tau is near the saddle point, where the terms do not cancel, so these errors are small relative to delta.

.. [1] B. Balle, J. Bell, A. Gascón, K. Nissim (2019). The privacy blanket of the shuffle model. CRYPTO.
   arXiv:1903.02837
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from skdp._arrays import Floats
from skdp.exact import exp_bounds, log_upper, round_up
from skdp.privacy._formats import check_choice, check_delta, check_epsilon
from skdp.privacy.guarantees._accountant import smallest_epsilon
from skdp.privacy.guarantees._conversions import LOG_ERROR, find_safe_boundary
from skdp.privacy.guarantees._guarantee import PrivacyGuarantee
from skdp.privacy.guarantees._losses import GaussianLoss, Loss, StatedLoss
from skdp.randomness import check_size

# Probabilities of a class of reports: under the first value, under the second value, and
# (a lower bound) under every value.
Class: TypeAlias = tuple[Fraction, Fraction, Fraction]

# Bound of the relative error of a few operations.
_ERROR = 2.0**-47


@dataclass(frozen=True, eq=False)
class Ratios:
    """The classes of reports of two values as floats, for the bound.

    All arrays have shape (n_classes,). `first` is P(y | x0) / m(y), `second` is
    P(y | x1) / m(y), and `masses` is m(y).
    """

    first: Floats
    second: Floats
    masses: Floats
    # Bound of the relative error of ratios and masses.
    error: float = _ERROR

    @classmethod
    def from_classes(cls, classes: tuple[Class, ...]) -> Ratios:
        """Return the ratios of exact classes, rounded to floats."""
        rows = [(first / m, second / m, m) for first, second, m in classes if first]
        return cls(*np.array(rows, float).T)

    @classmethod
    def product(cls, parts: Sequence[Ratios]) -> Ratios | None:
        """Return an upper bound of several independent reports of a record; None if it takes too long.

        `parts` are the classes of each report. The ratios of the joint report are the
        products of the ratios of its parts, and its mass is the product of their
        masses.
        """
        # The divergence is a convex function of the pair of ratios. So it can only increase
        # if a pair is replaced by random pairs with this mean: here by the corners of a
        # cell of a grid. The grid is even in the logarithms of the ratios, so products of
        # ratios are sums of indices, and joint masses are convolutions.
        logs = [np.log([part.first, part.second]) for part in parts]
        lowest = float(sum(log.min() for log in logs))
        highest = float(sum(log.max() for log in logs))
        if lowest == highest:
            return parts[0]  # all reports have the same probability under both values
        # The largest ratio of a part is a multiple of the step, so it is on the grid.
        largest = max(float(np.abs(log).max()) for log in logs)
        # About 64 points per axis. Three times as many decrease epsilon by 0.25 %.
        step = largest / math.ceil(largest * 64 / (highest - lowest))
        grid = np.ones((1, 1))
        start = 0
        for part in parts:
            cells, first = part._to_grid(step)
            # A convolution with so many products takes about a second.
            if grid.size * np.count_nonzero(cells) > 1 << 25:
                return None
            grid = _convolve(grid, cells)
            start += first
        rows, columns = np.nonzero(grid)
        # An absolute error of a logarithm is a relative error of the ratio.
        error = _ERROR * (len(parts) + 1) * (1 + max(highest, -lowest))
        first_ratios = np.exp((start + rows) * step)
        second_ratios = np.exp((start + columns) * step)
        return cls(first_ratios, second_ratios, grid[rows, columns], error)

    def _to_grid(self, step: float) -> tuple[Floats, int]:
        """Distribute each class to the corners of its grid cell such that the means of both ratios are preserved.

        The rows and columns of the grid are multiples of `step` in the logarithms of
        both ratios. Returns the masses of the grid, and the index of its first row and
        column.
        """
        exact = np.log([self.first, self.second]) / step
        below = np.floor(exact).astype(np.int64)
        upper = np.clip(np.expm1((exact - below) * step) / np.expm1(step), 0, 1)
        first = int(below.min())
        grid = np.zeros((int(below.max()) - first + 2,) * 2)
        for row in (0, 1):
            for column in (0, 1):
                row_weight = upper[0] if row else 1 - upper[0]
                column_weight = upper[1] if column else 1 - upper[1]
                corners = below[0] - first + row, below[1] - first + column
                np.add.at(grid, corners, self.masses * row_weight * column_weight)
        return grid, first

    def swap(self) -> Ratios:
        """Return the ratios with the two values exchanged."""
        return replace(self, first=self.second, second=self.first)


def _convolve(grid: Floats, cells: Floats) -> Floats:
    """Return the masses of the sums of two independent positions, whose masses are `grid` and `cells`."""
    # `scipy.signal` would be a fifth of the import time of all encoders.
    n_rows, n_columns = grid.shape
    total = np.zeros((n_rows + len(cells) - 1, n_columns + cells.shape[1] - 1))
    for row, column in np.argwhere(cells):
        part = total[row : row + n_rows, column : column + n_columns]
        part += cells[row, column] * grid
    return total


def delta_above(ratios: Ratios, n: int, order: float) -> float:
    """Return an upper bound of delta of n shuffled reports for epsilon: the divergence of order t = e**epsilon.

    `ratios` are the classes of a report under two values, and `order` is t.
    """
    # Delta decreases with n, so the bound for 2**30 reports holds for larger numbers.
    n = min(n, 1 << 30)
    # A relative error of the order has the effect of a relative error of the ratios.
    error = ratios.error + 2.0**-48
    masses = ratios.masses
    values = ratios.first * (1 + error) - order * ratios.second * (1 - error)
    # The divergence of a single report without shuffling, which is also an upper bound.
    unshuffled = float(masses @ np.maximum(values, 0)) * (1 + 2 * error)
    if unshuffled == 0:
        return 0.0
    scale = float(values.max())
    log_mean = _log_mean_above(values / scale, masses, n, error)
    if log_mean is None:
        return unshuffled
    log_delta = log_mean + math.log(scale / n)
    # 2**-900 is above the sum of all floats that underflow.
    return min(math.exp(min(log_delta, 0.0)) * (1 + 2.0**-40) + 2.0**-900, unshuffled)


def _log_mean_above(
    values: Floats, masses: Floats, n: int, error: float
) -> float | None:
    """Return an upper bound of log E[max(S, 0)], where S is the sum of n independent V.

    V takes each of the `values`, at most 1, with the probability in `masses`, and 0
    with the remaining probability. `error` bounds the relative errors of values and
    masses. Let X be S with Gaussian noise of mean 0, which can only increase the mean
    of a convex function, so E[max(X, 0)] is a bound. It is at most the sum of h / (2
    pi) E[e**(z X)] / z**2 over z = tau + i k h for all integers k, a discretized
    inverse Laplace transform, which is derived at the top of this module. Only k >= 0
    is computed, because -k has the conjugate term; None is returned if rounding errors
    are too large.
    """
    tau = _find_saddle_point(values, masses, n)
    weights = masses * np.exp(tau * values)
    mass_at_0 = max(0.0, 1 - float(masses.sum()) * (1 + 2 * error) - 2.0**-48)

    # The standard deviation of S under the weights e**(tau V), with 1 / tau for the factor
    # 1 / z**2, determines the noise and the step h.
    total_weight = float(weights.sum()) + mass_at_0
    mean = float(weights @ values) / total_weight
    variance = max(float(weights @ values**2) / total_weight - mean**2, 0.0)
    tilted_std = math.sqrt(n * variance + 1 / tau**2)
    # Any noise and any step h give a bound; these numbers make it tight. The noise increases
    # the variance of S by one part in 48**2, so epsilon by about half of this part. The sum
    # over k has the terms c(y) e**(tau y) of all multiples y of the period 2 pi / h. Under the
    # weights, S is beyond half of 10 standard deviations with a probability of about e**-12.5,
    # and e**(tau y) is at most e**-30 for a negative y. For 2 to 10**7 reports, a period of 4
    # standard deviations would increase delta by up to 0.3 %, and no 30 / tau by 0.04 %.
    noise = tilted_std / 48
    step = 2 * math.pi / max(10 * tilted_std, 30 / tau)
    # The factor e**(-(noise omega)**2 / 2) is below e**-24 from omega = 7 / noise on.
    n_steps = math.ceil(7.0 / noise / step)
    z = tau + 1j * step * np.arange(n_steps + 1)

    excess = _moment_excess(values, masses, z)
    smoothing = (noise * z) ** 2 / 2
    exponents = n * np.log1p(excess) + smoothing
    log_scale = float(exponents[0].real)
    # If all V are 0, then S is 0 and max(S, 0) needs no noise, so this case is subtracted.
    log_all_zero = n * math.log(mass_at_0) - log_scale if mass_at_0 else -math.inf
    terms = (np.exp(exponents - log_scale) - np.exp(log_all_zero + smoothing)) / z**2

    # Relative errors of the terms, from the errors of the values, which are multiplied by z
    # in an exponent, and from rounding of the exponents: a sum of n equal logarithms, a
    # difference of `log_scale`, and fewer than 64 other operations, each with 2**-53.
    slope = n * float(masses @ (np.abs(values) * np.exp(tau * np.maximum(values, 0))))
    errors = (2.0**-48 + 2 * error) * slope * np.abs(z)
    errors = errors + (n + abs(log_scale) + 64) * 2.0**-48
    term_sizes = np.exp((exponents - log_scale).real) / np.abs(z) ** 2

    # The terms at tau - i omega and tau + i omega are conjugate, so their sum is real.
    total = 2 * float(terms.real.sum()) - float(terms[0].real)
    # An error d < 0.1 of an exponent changes a term by less than 1.06 d, and each term has a
    # conjugate: 2.12, rounded up. The second part of a term is too small by more than its own
    # errors, because `mass_at_0` is.
    total += 4 * float(term_sizes @ errors)
    # Bound of the remaining terms, relative to the largest term.
    remaining = 2 / (step * abs(z[-1].imag))
    remaining *= math.exp(-((noise * step * n_steps) ** 2) / 2)
    if not (errors.max() < 0.1 and math.isfinite(total)):
        return None
    return log_scale + math.log(step / (2 * math.pi) * (total + remaining))


def _moment_excess(values: Floats, masses: Floats, z: NDArray[Any]) -> NDArray[Any]:
    """Return E[e**(z V)] - 1 for each point z, without cancellation; all z have the same real part."""
    # With s = sin(b / 2) and c = cos(b / 2), e**(a + i b) - 1 = (e**a - 1) - 2 e**a s**2 +
    # 2 i e**a s c, which is several times as fast as complex exponentials.
    tau = z[0].real
    weights = masses * np.exp(tau * values)
    half_angles = np.multiply.outer(values / 2, z.imag)
    sines = np.sin(half_angles)
    real = float(masses @ np.expm1(tau * values)) - 2 * weights @ sines**2
    return real + 2j * (weights @ (sines * np.cos(half_angles)))


def _find_saddle_point(values: Floats, masses: Floats, n: int) -> float:
    """Return the approximate tau that minimizes E[e**(tau S)] / tau**2.

    S is the sum of n independent draws from `values` with the probabilities `masses`, and 0 otherwise.

    Any tau gives a valid bound, and this one gives small rounding errors.
    """

    def log_moment(log_tau: float) -> float:
        tau = math.exp(log_tau)
        return n * math.log1p(float(masses @ np.expm1(tau * values))) - 2 * log_tau

    # Values are at most 1, and e**690 is a float.
    bounds = -40.0, math.log(690.0)
    options = {"xatol": 1e-3}
    best = minimize_scalar(log_moment, bounds=bounds, method="bounded", options=options)
    return math.exp(float(best.x))


@dataclass(frozen=True)
class ReportPair:
    """The distributions of the reports of two values x0 and x1 of a record, with a blanket m.

    A class contains all reports y with equal ratios ``P(y | x0) / m(y)`` and
    ``P(y | x1) / m(y)``. It is stored as the sums of ``P(y | x0)``, ``P(y | x1)`` and
    ``m(y)`` over its reports. The blanket has ``0 < m(y) <= P(y | x)`` for every value x.
    """

    # Over all classes, the first two sums add up to 1, and the third to at most 1. A pair
    # may stand for all pairs of values, see `FrequencyOracle.shuffle_pair`.

    classes: tuple[Class, ...]
    # Other independent reports of the record that are released with this report.
    beside: tuple[ReportPair, ...] = ()

    def __post_init__(self) -> None:
        # Merge the classes of reports with equal ratios, which are equally informative.
        merged: dict[tuple[Fraction, Fraction], Class] = {}
        for first, second, mass in self.classes:
            if mass:
                ratios = first / mass, second / mass
                a, b, m = merged.get(ratios, (Fraction(0),) * 3)
                merged[ratios] = a + first, b + second, m + mass
        object.__setattr__(self, "classes", tuple(merged.values()))

    @property
    def largest_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of a report under the two values."""
        ratio = Fraction(1)
        for first, second, _ in self.classes:
            # A report that is impossible under one of the values divides by 0.
            ratio = max(ratio, first / second, second / first)
        return ratio * math.prod(pair.largest_ratio for pair in self.beside)

    @cached_property
    def is_symmetric(self) -> bool:
        """True if the pair with exchanged values has the same classes."""
        swapped = {(second, first, mass) for first, second, mass in self.classes}
        is_mirrored = swapped == set(self.classes)
        return is_mirrored and all(pair.is_symmetric for pair in self.beside)

    @cached_property
    def ratios(self) -> Ratios:
        """The classes of the joint report of all parts, as floats."""
        parts = [Ratios.from_classes(pair.classes) for pair in (self, *self.beside)]
        if len(parts) == 1:
            return parts[0]
        return Ratios.product(parts) or ReportPair.from_ratio(self.largest_ratio).ratios

    def delta(self, n: int, epsilon: float) -> float:
        """Return an upper bound of delta of n shuffled reports for an epsilon, in both directions."""
        order = math.exp(epsilon)
        delta = delta_above(self.ratios, n, order)
        if self.is_symmetric:
            return delta
        return max(delta, delta_above(self.ratios.swap(), n, order))

    @classmethod
    def from_ratio(cls, worst_ratio: Fraction) -> ReportPair:
        """Return a pair that dominates all pairs of values of a local randomizer with epsilon ``log(worst_ratio)``."""
        # Let r be the ratio. By [1]_, the distributions of two values are mixtures ``(r Q0
        # + Q1) / (r + 1)`` and ``(Q0 + r Q1) / (r + 1)`` of two distributions. The
        # distribution of every other value is at least 1 / r times each of them, so at
        # least 1 / r times their mean: ``(Q0 + Q1) / (2 r)`` is a blanket. The bound
        # assumes that the attacker sees from which of Q0 and Q1 a report is drawn.
        # .. [1] P. Kairouz, S. Oh, P. Viswanath (2017). The composition theorem for
        #    differential privacy. IEEE Transactions on Information Theory 63(6).
        # Rounded up to 128 fractional bits, because products of many fractions are long.
        ratio = Fraction(math.ceil(worst_ratio * 2**128), 2**128)
        mass = 1 / (2 * ratio)
        likely, unlikely = ratio / (ratio + 1), 1 / (ratio + 1)
        return cls(((likely, unlikely, mass), (unlikely, likely, mass)))

    @classmethod
    def from_support(
        cls, high: Fraction, low: Fraction, counts: Sequence[int]
    ) -> ReportPair:
        """Return the pair of an oracle with two probabilities of a report.

        A report has probability `high` under the values that it supports, and `low` under
        all other values. `counts` are the numbers of reports that support x0 only, x1
        only, both and none of them.
        """
        # The blanket of each report is `low`.
        probabilities = (high, low), (low, high), (high, high), (low, low)
        classes = []
        for (first, second), count in zip(probabilities, counts, strict=True):
            classes.append((first * count, second * count, low * count))
        return cls(tuple(classes))

    @classmethod
    def product(cls, pairs: Sequence[ReportPair]) -> ReportPair:
        """Return the pair of the joint report that consists of several independent reports of a record."""
        if len(pairs) == 1:
            return pairs[0]
        parts = [part for pair in pairs for part in (cls(pair.classes), *pair.beside)]
        return cls(parts[0].classes, tuple(parts[1:]))

    @classmethod
    def mixture(cls, parts: Iterable[tuple[Fraction, ReportPair]]) -> ReportPair:
        """Return the pair of a report that contains the name of its randomizer.

        The randomizer is drawn with the given probabilities, independently of the value.
        """
        parts = list(parts)
        if len(parts) == 1:
            return parts[0][1]
        classes: list[Any] = []
        for probability, pair in parts:
            if pair.beside:
                raise ValueError("`parts` must be pairs without further reports.")
            for masses in pair.classes:
                classes.append(tuple(probability * mass for mass in masses))
        return cls(tuple(classes))


# Output of the shuffler: the shuffled reports, or their counts.
Released: TypeAlias = Literal["reports", "tally"]

_RELEASED: tuple[Released, ...] = get_args(Released)

# Relative precision of the search for an epsilon, and of searches in which each step is
# itself a search (for a mu).
_PRECISION, _LOW_PRECISION = 1e-5, 2.0**-10

# Bound of the rounding error of a tangent, relative to the larger of its two terms.
_TANGENT_ROUNDING = 2.0**-38


def shuffled_guarantee(
    reporter: object, *, n: int, delta: float, released: Released = "reports"
) -> PrivacyGuarantee:
    """Compute the guarantee of reports if only their sums, or the reports in random order, are released.

    A report among n reports without names has a stronger guarantee than a single report, by a factor of about
    ``sqrt(n * e**-epsilon0)``.

    Parameters
    ----------
    reporter : fitted local transformer, its protocol, or oracle
        Randomizer of a record: any object with a ``guarantee_`` in the local model and without delta.
    n : int
        Smallest number of reports of honest people that are shuffled together, public, at least 1. Exclude reports
        that are lost, made up, or without noise. More than 2**30 count as this number.
    delta : float
        Failure probability, in [0, 1), well below 1 / n. With 0, the result is the local guarantee.
    released : {"reports", "tally"}, default="reports"
        Released data. "reports": the reports in random order, with the columns of a record together
        (`shuffle_reports`). "tally": only the unweighted sums of each attribute over all n reports, which
        `estimate_counts` requires without `sample_weight`. Relevant for ``strategy="split"`` and for several columns
        of numbers.

    Returns
    -------
    PrivacyGuarantee
        With ``trust="shuffle"`` and ``relation="replace"``. Its epsilon is at most the local one; if it is equal, delta
        is 0. Otherwise its losses, from which `compose` adds several releases, are Gaussian noise that fails with a
        small part of delta, and dominate the reports.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or `reporter` is not fitted, is not of the local model, or makes permanent
        reports.

    See Also
    --------
    local_epsilon : Find the local epsilon for a guarantee after shuffling.

    Notes
    -----
    **Privacy.** Shuffle model: a record is replaced by another, and the number of records is public. The guarantee
    holds for any values of all other records, against everyone who sees only the released data. Those who shuffle or
    sum the reports are trusted. It covers unweighted sums of all n reports only: with a weight of 0 for all other
    reports, a sum is a single report. A table whose row index, order or ids identify the senders is not shuffled. It is
    for *one* release of *one* collection. New reports of the same people are further releases, which add up
    (`compose`). Do not sum or shuffle the same reports a second time in another set: the difference of two sums may be
    a single report. Permanent reports (``memoize=True``) therefore raise an error; they have the local guarantee.

    The result is a proven upper bound, the *privacy blanket* ([1]_, lemma 5.3, proven again in the source), from the
    exact channel and not its epsilon only. It is the best bound that decomposes the reports of other records ([2]_).
    Numerical errors are bounded and added. For k-ary randomized response with 3 or more values and n of at least 1,000,
    an attained lower bound is less than 3 % below. For two reports, as in randomized response with two values, epsilon
    is up to 45 % too large. Columns that are released together count as one report with the product of their channels.
    In a tally, they are shuffled separately, and their losses compose. A randomizer that is known by its epsilon only
    counts as the worst local randomizer ([3]_).

    References
    ----------
    .. [1] B. Balle, J. Bell, A. Gascón, K. Nissim (2019). The privacy blanket of the shuffle model. CRYPTO.
       arXiv:1903.02837
    .. [2] P. Su, H. Cheng, P. Wang (2025). Decomposition-based optimal bounds for privacy amplification via shuffling.
       arXiv:2504.07414
    .. [3] V. Feldman, A. McMillan, K. Talwar (2023). Stronger privacy amplification by shuffling for Rényi and
       approximate differential privacy. SODA. arXiv:2208.04591

    Examples
    --------
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.privacy import shuffled_guarantee
    >>> encoder = RandomizedResponseEncoder(4.0, categories=[["a", "b", "c", "d"]]).fit([["a"]])
    >>> print(shuffled_guarantee(encoder, n=45_222, delta=1e-6))
    epsilon = 0.17756, delta = 0.000001, shuffle model, replacing one record's values of: x0
    """
    exact_delta = check_delta(delta)
    n = check_size(n, min_val=1, max_val=None, name="n")
    check_choice("released", released, _RELEASED)
    pairs, local = _inspect_reporter(reporter, released)
    output = f"shuffled from {n:,} reports"
    if released == "tally":
        output = f"unweighted sums of all {n:,} reports"
    mechanism = f"{local.mechanism}, {output}"
    guarantee = replace(local, trust="shuffle", mechanism=mechanism)
    if local.epsilon >= 300:  # shuffling has no effect
        return guarantee
    epsilon = _smallest_epsilon(pairs, n, exact_delta)
    if epsilon >= local.epsilon:
        return guarantee
    return replace(
        guarantee,
        epsilon=epsilon,
        delta=round_up(exact_delta),
        losses=_dominating_losses(pairs, n, exact_delta),
    )


def local_epsilon(
    epsilon: float,
    *,
    delta: float,
    n: int,
    reporter: object,
    released: Released = "reports",
) -> float:
    """Find the largest local epsilon whose reports have a guarantee after shuffling.

    Parameters
    ----------
    epsilon : float
        Privacy loss after shuffling, finite and > 0.
    delta : float
        Failure probability after shuffling, in (0, 1).
    n : int
        Smallest number of reports of honest people that are shuffled together, public.
    reporter : callable
        Function of a local epsilon that returns an oracle, such as ``partial(RandomizedResponse, 4)``, or a fitted
        local transformer.
    released : {"reports", "tally"}, default="reports"
        Released data; see `shuffled_guarantee`.

    Returns
    -------
    float
        Local epsilon of at least `epsilon`, and at most 50 unless `epsilon` is larger. It
        was checked with the bound of `shuffled_guarantee`.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or the transformers make permanent reports.

    Notes
    -----
    **Privacy.** Only public numbers are used. See `shuffled_guarantee` for the scope of the guarantee.

    Examples
    --------
    >>> from functools import partial
    >>> from skdp.oracles import RandomizedResponse
    >>> from skdp.privacy import local_epsilon
    >>> round(local_epsilon(1.0, delta=1e-6, n=45_222, reporter=partial(RandomizedResponse, 4)), 2)
    6.97
    """
    check_epsilon(epsilon)
    exact_delta = check_delta(delta)
    if exact_delta == 0:
        raise ValueError(
            "`delta` must be in (0, 1), got 0. Shuffling requires delta > 0."
        )
    n = check_size(n, min_val=1, max_val=None, name="n")
    check_choice("released", released, _RELEASED)
    if not callable(reporter):
        raise TypeError(
            "`reporter` must be a function of epsilon that returns an oracle or a "
            f"fitted local transformer, got {type(reporter).__name__}."
        )
    # The margin makes the search accept an epsilon that an earlier call computed.
    target = float(epsilon) * (1 - 2.0**-13)
    # Above 50, the probabilities of most oracles are at the limit of 64 bits.
    largest = max(50.0, float(epsilon))

    def excess(local: float) -> float:
        pairs = _inspect_reporter(reporter(local), released)[0]
        bound = _smallest_epsilon(pairs, n, exact_delta)
        return min(math.log(max(bound, 1e-300) / target), 9.0)

    precision = _LOW_PRECISION if released == "tally" else _PRECISION
    return find_safe_boundary(excess, precision, safe=float(epsilon), unsafe=largest)


def _smallest_epsilon(pairs: Sequence[ReportPair], n: int, delta: Fraction) -> float:
    """Return a proven epsilon of n reports, whose parts are shuffled separately."""
    # Shuffling the parts of whole reports separately is post-processing, so the epsilon of
    # joint reports is an upper bound too.
    together = _epsilon_of_pair(ReportPair.product(pairs), n, delta)
    if len(pairs) == 1:
        return together
    return min(together, _compose_parts(pairs, n, delta))


@lru_cache(maxsize=64)
def _epsilon_of_pair(pair: ReportPair, n: int, delta: Fraction) -> float:
    """Return a proven epsilon of n shuffled reports for delta, at most the epsilon of a single report.

    `pair` has the distributions of a report under two values.
    """
    largest = log_upper(pair.largest_ratio)
    if delta == 0 or largest == 0:
        return largest

    def excess(epsilon: float) -> float:
        return _log_ratio(pair.delta(n, epsilon), delta)

    return find_safe_boundary(excess, _PRECISION, safe=largest, unsafe=0.0)


def _compose_parts(pairs: Sequence[ReportPair], n: int, delta: Fraction) -> float:
    """Return the epsilon of the composition of separately shuffled parts; infinite if no losses are found."""
    losses = _dominating_losses(pairs, n, delta)
    composed = smallest_epsilon(losses, delta) if losses else None
    return math.inf if composed is None else composed


def _log_ratio(bound: float, target: Fraction) -> float:
    """Return log(bound / target), rounded up and clipped for a search."""
    return max(math.log(max(bound, 1e-300)) - math.log(target) + LOG_ERROR, -50.0)


def _dominating_losses(
    pairs: Sequence[ReportPair], n: int, delta: Fraction
) -> tuple[Loss, ...]:
    """Return losses that dominate the releases of separately shuffled parts of n records; empty if none are found.

    `pairs` has the report distributions of two values for each part, such as a column.
    """
    if not delta:
        return ()
    # The Gaussian losses hold except for failures, which get 2**-10 of delta.
    failure = float(delta) / len(pairs) * 2.0**-10
    losses: list[Loss] = []
    for pair, count in Counter(pairs).items():
        mu = _gaussian_mu(pair, n, failure)
        if mu is None:
            return ()
        losses.append(GaussianLoss(mu, count=count))
        losses.append(StatedLoss(0.0, failure, count=count))
    return tuple(losses)


@lru_cache(maxsize=256)
def _gaussian_mu(pair: ReportPair, n: int, failure: float) -> float | None:
    """Return a small mu of Gaussian noise that dominates n shuffled reports except for a failure probability.

    `pair` has the distributions of a report under two values. None if no mu is found.
    """
    # A sum of many reports is nearly normal. Gaussian noise dominates if its hockey-stick
    # divergence is larger for every order t = e**epsilon >= 1. Divergences are convex in t.
    # So in each interval of a grid, the divergence of the reports is below its chord, and
    # the divergence of Gaussian noise is above its tangent at a point of the interval. It
    # is sufficient to compare the chord and the tangent at both endpoints. Beyond the last
    # grid point, the divergence of the reports is at most the failure probability.
    largest = _epsilon_of_pair(pair, n, Fraction(failure))
    if not largest:
        return None  # the grid would be a single point
    # 40 intervals: 20 would increase mu by 1 %, and 80 would decrease it by 0.2 %.
    epsilons = np.linspace(0, largest, 41)
    reports = np.array([pair.delta(n, epsilon) for epsilon in epsilons.tolist()])
    required = (
        np.maximum(reports - failure, 0) * (1 + _TANGENT_ROUNDING) / (1 - failure)
    )
    tangent_points = (epsilons[:-1] + epsilons[1:]) / 2
    orders = np.exp(tangent_points)
    grid_orders = np.exp(epsilons)

    def is_dominating(mu: float) -> bool:
        # Compare delta of Gaussian noise, by its tangents, with the chords of the
        # reports.
        # delta(t) = Phi(mu / 2 - log(t) / mu) - t Phi(-mu / 2 - log(t) / mu) = near - t far
        # has the derivative -far.
        near = ndtr(mu / 2 - tangent_points / mu)
        far = ndtr(-mu / 2 - tangent_points / mu)
        tangent = near - orders * far - _TANGENT_ROUNDING * near
        at_left = tangent + (orders - grid_orders[:-1]) * far
        at_right = tangent - (grid_orders[1:] - orders) * far
        return bool(
            (at_left >= required[:-1]).all() and (at_right >= required[1:]).all()
        )

    low, high = 0.0, 4 * float(required[0]) + largest
    if not is_dominating(high):
        return None
    while high - low > _LOW_PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_dominating(middle) else (middle, high)
    return high


def _inspect_reporter(
    reporter: Any, released: Released
) -> tuple[tuple[ReportPair, ...], PrivacyGuarantee]:
    """Return the pairs of reports of each part, and the local guarantee of a randomizer.

    A pair has the distributions of a report under two values. The parts of a record are
    shuffled separately if `released` is "tally". `reporter` is a fitted local
    transformer, its protocol, or an oracle.
    """
    protocol = getattr(reporter, "protocol_", reporter)
    pairs: tuple[ReportPair, ...] = ()
    if hasattr(reporter, "shuffle_pair") and not isinstance(reporter, type):
        local = PrivacyGuarantee(reporter.epsilon, mechanism=type(reporter).__name__)
        pairs = (reporter.shuffle_pair(),)
    else:
        local = _get_local_guarantee(reporter)
        if getattr(protocol, "permanent_key", None) is not None:
            raise ValueError(
                "`reporter` must not make permanent reports: two sums of them may "
                "differ by a single report."
            )
        if hasattr(protocol, "shuffle_pairs"):
            pairs = tuple(protocol.shuffle_pairs(released))
    # Pairs that reveal less than the stated epsilon are ignored: a subclass may inherit the
    # pairs of an oracle but draw with other probabilities.
    revealed = sum(log_upper(pair.largest_ratio) for pair in pairs)
    if not pairs or revealed < local.epsilon * (1 - 1e-6):
        # This pair bounds every local randomizer with this epsilon.
        pairs = (ReportPair.from_ratio(exp_bounds(local.epsilon)[1]),)
    return pairs, local


def _get_local_guarantee(reporter: object) -> PrivacyGuarantee:
    """Return the guarantee of a local randomizer; raise an error for other objects."""
    local = getattr(reporter, "guarantee_", getattr(reporter, "guarantee", None))
    if not isinstance(local, PrivacyGuarantee):
        unfitted = " that is not fitted" if hasattr(reporter, "fit") else ""
        raise TypeError(
            "`reporter` must be a fitted local transformer, its protocol, or an "
            f"oracle, got {type(reporter).__name__}{unfitted}."
        )
    is_of_record = local.unit == "record" and local.max_rows_per_person == 1
    is_local = local.trust == "local" and local.relation == "replace"
    if not (is_local and is_of_record) or local.delta:
        raise ValueError(
            "`reporter` must randomize each record independently, without delta; got "
            f"the guarantee: {local}."
        )
    return local
