"""The smallest proven epsilon of elementary losses together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from skdp.exact import exp_bounds, log_upper, round_up
from skdp.privacy._conversions import gaussian_epsilon, log_delta_above, proven_edge
from skdp.privacy._losses import GaussianLoss, Loss, gaussian_loss, merged

# All losses but the Gaussian one are symmetric: given its absolute value, a radius r, a
# loss is that of randomised response of two values, r or -r. Radii are placed on a
# grid: one between two points is split among them so that the mean of tanh(r / 2), the
# total variation, stays. The divergence of order g of randomised response, ``max(0, 1 -
# (1 + g) / (1 + e**r))`` for g >= 1, is convex in tanh(r / 2) = 1 - 2 / (1 + e**r), so
# splitting can only increase it, and so can the same step on any loss of several:
# "connect the dots" ([1]_), for symmetric pairs.
#
# Gaussian losses add up to one, of which the divergence is known for every epsilon, so
# that it needs no grid: ``delta(e) = E[delta_mu(e - L)]``, with the total L of the
# others. Its law is a product of Fourier transforms. For small errors relative to
# delta, it is tilted by e^(t L) first ([2]_): with M(t) = E[e^(t L)] and the tilted law
# p, ``delta(e) = M(t) e**(-t e) * sum_j p_j e**(t (e - l_j)) delta_mu(e - l_j)``.
#
# What rounding may take away is added: the transform is periodic, and losses above the
# window would count as small ones, so Chernoff's bound of their probability is added.
# Those below it would count as larger ones, of which the tilt takes away more:
# Chernoff's bound of their tilted probability is added. The error of a transform is at
# most `_TRANSFORM` of the 2-norm of its input ([3]_, theorem 24.2, with room), and that
# of a product of n factors of at most 1 adds up, so the sum is off by at most that
# times the 2-norms of p (at most 1) and of its factors.
# .. [1] V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi (2022). Connect the
#    dots: tighter discrete approximations of privacy loss distributions. PoPETs
#    2022(4). arXiv:2207.04380
# .. [2] As in S. Gopi, Y. T. Lee, L. Wutschitz (2021). Numerical composition of
#    differential privacy. NeurIPS. There, the law is not tilted, and errors are
#    absolute.
# .. [3] N. J. Higham (2002). Accuracy and stability of numerical algorithms. SIAM,
#    second edition, chapter 24.

# Points of the grid, and the most of them, for very many releases of a small loss.
_POINTS, _MOST_POINTS = 1 << 16, 1 << 20


# Steps of the grid in a radius of medium size: splitting then increases the variance by
# 1 part in 4 * 8**2.
_FINE = 8

# Bound of the error of a Fourier transform and of a product, relative to the 2-norm. By
# theory at most log2(`_MOST_POINTS`) times about 7 roundings, less than 2**-45.
_TRANSFORM = 2.0**-43

# Bound of the relative error of a probability and of each factor of M, some operations
# each.
_MARGIN = 2.0**-40

# Bound of the error of a point of the grid, relative to the sum of all losses.
_SLACK = Fraction(1, 1 << 40)

# The largest number of releases for which these margins hold.
_MOST = 1 << 24

# The smallest float above 0.
_SMALLEST = Fraction(5e-324)

# The largest radius of a release for which these margins hold.
_LARGEST = 1 << 10

# Of the logarithm of the probability that nothing fails: beyond, it counts as 0.
_MOST_EXPONENT = 100

# Of the tilted law, about e**-50 is beyond each end of the window.
_FAR = 50.0


def smallest_epsilon(losses: Iterable[Loss], delta: Fraction) -> float | None:
    """Return a proven epsilon for losses together; None if they exceed delta."""
    losses = merged(losses)
    failure = joint_failure(losses)
    room = (delta - failure) / (1 - failure) if failure < delta else Fraction(0)
    pure = []
    epsilon_sum = mu_squared = Fraction(0)
    n_losses = 0
    for loss in losses:
        if isinstance(loss, GaussianLoss):
            mu_squared += loss.count * Fraction(loss.mu) ** 2
        elif loss._pure:
            pure.append(loss)
            epsilon_sum += loss.count * loss._pure
            n_losses += loss.count
    if failure > delta or (mu_squared and room < _SMALLEST):
        return None
    mu = gaussian_loss(mu_squared).mu
    basic = epsilon_sum + Fraction(gaussian_epsilon(mu, room) if mu else 0)

    # Less is rounded away when delta is underestimated a little, and not worth it.
    is_possible = room >= Fraction(1, 1 << 900)
    is_mu_within = mu == 0 or 2.0**-30 < mu < 2.0**5
    is_sum_within = n_losses <= _MOST and epsilon_sum > Fraction(1, 1 << 30)
    if is_possible and is_mu_within and is_sum_within:
        kinds = list(map(Kind.of, pure))
        if max(map(Kind.largest, kinds)) <= _LARGEST:
            allowed = math.log(room) - 2.0**-40
            epsilon = _search(kinds, mu, allowed, float(epsilon_sum))
            if epsilon is not None:
                error = _SLACK * (epsilon_sum + Fraction(mu))
                basic = min(basic, Fraction(epsilon) + error)
    return round_up(basic)


def joint_failure(losses: Iterable[Loss]) -> Fraction:
    """Bound the probability that at least one of independent failures happens."""
    failure_sum = exponent = Fraction(0)
    for loss in losses:
        failure_sum += loss.count * loss._failure
        exponent += loss.count * Fraction(log_upper(1 / (1 - loss._failure)))
    if exponent > _MOST_EXPONENT:
        return Fraction(1)
    # All are spared with the product of their probabilities, rounded down.
    spared = 1 / exp_bounds(exponent)[1]
    return min(failure_sum, 1 - spared)


@dataclass(frozen=True)
class Kind:
    """A number of equal symmetric losses: possible losses, and the logarithms of their probabilities."""

    count: int
    values: NDArray[np.float64]
    logs: NDArray[np.float64]

    @staticmethod
    def of(loss: Loss) -> Kind:
        return Kind.symmetric(loss.count, *loss._radii())

    @staticmethod
    def symmetric(count: int, radii: NDArray[Any], weights: NDArray[Any]) -> Kind:
        radii, weights = radii[weights > 0], weights[weights > 0]
        gains = np.log(weights) - np.logaddexp(0, -radii)
        values = np.concatenate([radii, -radii])
        return Kind(count, values, np.concatenate([gains, gains - radii]))

    def largest(self) -> float:
        return float(self.values.max())

    def variation(self) -> float:
        """Return the total variation of one of them."""
        likelier, rarer = np.split(np.exp(self.logs), 2)
        return float((likelier - rarer).sum()) + 2.0**-50

    def cumulant(self, tilt: float) -> float:
        """Return the logarithm of ``E[e**(tilt L)]`` of one of them."""
        terms = self.logs + tilt * self.values
        largest = float(terms.max())
        return largest + math.log(float(np.exp(terms - largest).sum()))

    def tilted(self, tilt: float) -> NDArray[np.float64]:
        return np.exp(self.logs + tilt * self.values - self.cumulant(tilt))

    def on_grid(self, step: float) -> tuple[NDArray[np.int64], Kind]:
        """Split its radii among points of a grid, which are returned too."""
        half = self.values.size // 2
        places = self.values[:half] / step * (1 + _MARGIN)
        below = np.floor(places)
        share = _upper_share(places, below, step)
        weights = np.exp(self.logs[:half] + np.logaddexp(0, -self.values[:half]))
        parts = np.concatenate([weights * (1 - share), weights * share])
        ends = np.concatenate([below, below + 1]).astype(np.int64)
        points, where = np.unique(ends, return_inverse=True)
        masses = np.bincount(where, parts)
        has_mass = masses > 0
        points = points[has_mass]
        kind = Kind.symmetric(self.count, points * step, masses[has_mass])
        return np.concatenate([points, -points]), kind


def _upper_share(
    places: NDArray[np.float64], below: NDArray[np.float64], step: float
) -> NDArray[np.float64]:
    """Return which part of a radius between two points of a grid goes to the upper one, rounded up."""
    # sinh(x - a) / sinh(b - a) * cosh(b) / cosh(x) for x between a and b, all halved
    # radii.
    radii = places * step
    upper = (below + 1) * step
    share = np.sinh((places - below) * step / 2) / math.sinh(step / 2)
    share = share * np.exp((upper - radii) / 2)
    share = share * (1 + np.exp(-upper)) / (1 + np.exp(-radii)) * (1 + _MARGIN)
    bounded: NDArray[np.float64] = np.minimum(share, 1)
    return bounded


def _cumulant(kinds: Sequence[Kind], tilt: float) -> float:
    """Return the logarithm of ``E[e**(tilt L)]`` of the total L."""
    return sum(kind.count * kind.cumulant(tilt) for kind in kinds)


def _moment(kinds: Sequence[Kind], tilt: float, power: int) -> float:
    """Return the sum of the moments of all losses under the tilted law."""
    moments = (
        kind.count * float(kind.tilted(tilt) @ kind.values**power) for kind in kinds
    )
    return sum(moments)


def _search(
    kinds: Sequence[Kind], mu: float, allowed: float, pure: float
) -> float | None:
    """Find an epsilon whose delta is proven to be at most e**allowed, None if none is."""
    # Total variations add up, and a tilt for larger epsilons shows little at 0.
    variation = sum(kind.count * kind.variation() for kind in kinds)
    if mu == 0 and variation * (1 + 2.0**-30) <= math.exp(allowed):
        return 0.0
    tilt, guess = _best_tilt(kinds, mu, allowed)
    total = _tilted_total(kinds, mu, tilt, pure)

    def excess(epsilon: float) -> float:
        return total.log_delta(epsilon) - allowed

    if excess(0.0) <= 0:
        return 0.0
    # Of an epsilon, far below what the grid adds.
    precision = 2.0**-20
    for high in (guess * (1 + 2.0**-10), 2 * guess + pure):
        if excess(high) <= 0:
            return proven_edge(excess, precision, safe=high, unsafe=0.0)
    return None


def _best_tilt(
    kinds: Sequence[Kind], mu: float, log_delta: float
) -> tuple[float, float]:
    """Return the tilt of the smallest epsilon by Rényi's divergences, and that epsilon."""
    # The tilt is the order minus 1. With K, the logarithm of E[e**(t L)], and a constant
    # c > 0, (K(t) + c) / t has one minimum, as K is convex.
    scale = math.sqrt(_moment(kinds, 0.0, 2) + mu * mu + 1e-300)

    def epsilon(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        divergence = _cumulant(kinds, tilt) + tilt * (tilt + 1) * mu * mu / 2
        order = tilt * math.log(tilt) - (1 + tilt) * math.log1p(tilt)
        return (divergence - log_delta + order) / tilt

    bounds = math.log(1e-3 / scale), math.log(1e6 / scale)
    # Any tilt would do, and the best one by far less than this.
    options = {"xatol": 1e-2}
    best = minimize_scalar(epsilon, bounds=bounds, method="bounded", options=options)
    return math.exp(float(best.x)), max(float(best.fun), 0.0)


@dataclass(frozen=True)
class _Window:
    """The grid of losses whose probabilities are computed: ``step`` times integers."""

    step: float
    first: int
    n_points: int

    @classmethod
    def of(
        cls,
        kinds: Sequence[Kind],
        tilt: float,
        steepness: NDArray[Any],
        largest_total: float,
    ) -> _Window:
        """Return a window with nearly all of the tilted total, as fine as its losses."""
        # By Chernoff's bound, e**-_FAR is beyond either end; nothing is beyond the
        # total of the largest losses.
        below = min(largest_total, _reach(kinds, tilt, -steepness))
        above = min(largest_total, _reach(kinds, tilt, steepness))
        n_losses = sum(kind.count for kind in kinds)
        std_of_loss = math.sqrt(_moment(kinds, tilt, 2) / n_losses)
        n_needed = 2 * _FINE * (below + above) / std_of_loss
        n_points = min(max(_POINTS, 2 ** math.ceil(math.log2(n_needed))), _MOST_POINTS)
        # The grid may move each loss by a step.
        n_beyond = min(n_losses, n_points // 8)
        step = (below + above) / (n_points - 2 * n_beyond - 4)
        return cls(step, math.floor(-below / step) - n_beyond, n_points)

    @property
    def end(self) -> int:
        return self.first + self.n_points


def _tilted_total(
    kinds: Sequence[Kind], mu: float, tilt: float, largest_total: float
) -> _Total:
    """Compute the tilted law of the total of all losses but the Gaussian one."""
    # A product of transforms of losses on a grid, as the head of this file says.
    n_losses = sum(kind.count for kind in kinds)
    steepness = 2.0 ** np.arange(-4, 9) / math.sqrt(_moment(kinds, tilt, 2) + 1e-300)
    window = _Window.of(kinds, tilt, steepness, largest_total)
    step, first, n_points = window.step, window.first, window.n_points
    on_grid = []
    last_place = 0  # of the total; losses are symmetric, so the first is its negative
    transform = np.ones(n_points // 2 + 1, complex)
    for kind in kinds:
        places, placed = kind.on_grid(step)
        law = np.bincount(places % n_points, placed.tilted(tilt), n_points)
        transform *= _to_power(np.fft.rfft(law), kind.count)
        last_place += kind.count * int(places.max())
        on_grid.append(placed)
    masses = np.roll(np.fft.irfft(transform, n_points), -(first % n_points))
    log_mean = _cumulant(on_grid, tilt)

    # Chernoff's bounds of what is above the window, and below it: the latter under the
    # tilted law, where the largest weight is at most E[e**(tilt G)] of the Gaussian
    # loss G.
    log_tail = log_low = -math.inf
    if last_place >= window.end:
        log_tail = _log_chernoff(on_grid, tilt + steepness, window.end * step)
    if -last_place < first:
        log_weight = tilt * (tilt + 1) * mu * mu / 2
        log_low = _log_chernoff(on_grid, tilt - steepness, first * step)
        log_low += log_weight + tilt * first * step - log_mean
    return _Total(
        mu,
        tilt,
        log_mean,
        losses=(first + np.arange(n_points)) * step,
        masses=np.maximum(masses, 0),
        n_operations=n_losses + len(kinds) + 4,
        log_tail=log_tail,
        log_low=log_low,
    )


def _reach(kinds: Sequence[Kind], tilt: float, steepness: NDArray[Any]) -> float:
    """Return the distance beyond which e**-_FAR of the tilted law is left."""
    log_mean = _cumulant(kinds, tilt)
    reaches = []
    for slope in steepness.tolist():
        gain = _cumulant(kinds, tilt + slope) - log_mean
        reaches.append((gain + _FAR) / abs(slope))
    return min(reaches)


def _log_chernoff(kinds: Sequence[Kind], tilts: NDArray[Any], loss: float) -> float:
    """Bound the logarithm of ``E[e**(t L)] e**(-t loss)`` over some t, rounded up."""
    bounds = [_cumulant(kinds, tilt) - tilt * loss for tilt in tilts.tolist()]
    return min(bounds) + 1e-6


@dataclass(frozen=True)
class _Total:
    """The tilted law of the total of all losses but the Gaussian one, on a grid."""

    mu: float
    tilt: float
    log_mean: float
    losses: NDArray[Any]
    masses: NDArray[Any]
    # Transforms and products, of which each errs.
    n_operations: int
    log_tail: float
    log_low: float

    def log_delta(self, epsilon: float) -> float:
        """Return an upper bound of the logarithm of delta, infinite if floats overflow."""
        # Without Gaussian noise, losses up to epsilon have no weight.
        first = 0 if self.mu else int(np.searchsorted(self.losses, epsilon))
        gaps = epsilon - self.losses[first:]
        with np.errstate(over="ignore", invalid="ignore"):
            if self.mu:
                weights = _gaussian_delta(gaps, self.mu, self.tilt)
            else:
                weights = np.exp(self.tilt * gaps) * -np.expm1(gaps)
            error = self.n_operations * _TRANSFORM
            rounding = error * float(np.linalg.norm(weights)) + 1e-250
            bulk = float(weights @ self.masses[first:])
            total = bulk + rounding + float(np.exp(self.log_low))
        if not math.isfinite(total):
            return math.inf
        largest = float(np.abs(self.losses[[0, -1]]).max())
        operations = self.n_operations + self.tilt * (abs(epsilon) + largest)
        exponent = self.log_mean - self.tilt * epsilon + operations * _MARGIN
        return float(np.logaddexp(exponent + math.log(total), self.log_tail))


def _to_power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return result


def _gaussian_delta(
    gaps: NDArray[np.float64], mu: float, tilt: float
) -> NDArray[np.float64]:
    """Return upper bounds of ``e**(tilt * gap) * delta_mu(gap)``."""
    # Below 0, delta(gap) = 1 - e**gap + e**gap * delta(-gap).
    log_deltas = log_delta_above(np.abs(gaps) / mu - mu / 2, mu)
    below = np.minimum(gaps, 0)
    weights: NDArray[np.float64] = np.exp(tilt * gaps + below + log_deltas)
    is_below = gaps < 0
    weights[is_below] -= np.exp(tilt * gaps[is_below]) * np.expm1(gaps[is_below])
    return weights
