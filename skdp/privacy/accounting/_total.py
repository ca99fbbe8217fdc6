"""The smallest proven epsilon of elementary losses together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

from skdp.exact import round_up
from skdp.privacy._gaussian import gaussian_epsilon
from skdp.privacy.accounting._losses import (
    GaussianLoss,
    Loss,
    coarsened,
    gaussian_loss,
)

# All losses but the Gaussian one are symmetric: given its absolute value, a radius r, a loss is that of randomised
# response of two values, r or -r. Radii are placed on a grid: one between two points is split among them so that the
# mean of tanh(r / 2), the total variation, stays. The divergence of order g of randomised response,
# ``max(0, 1 - (1 + g) / (1 + e**r))`` for g >= 1, is convex in tanh(r / 2) = 1 - 2 / (1 + e**r), so splitting can only
# increase it, and so can the same step on any loss of several: "connect the dots" ([1]_), for symmetric pairs.
#
# Gaussian losses add up to one, of which the divergence is known for every epsilon, so that it needs no grid:
# ``delta(e) = E[delta_mu(e - L)]``, with the total L of the others. Its law is a product of Fourier transforms. For
# small errors relative to delta, it is tilted by e^(t L) first ([2]_): with M(t) = E[e^(t L)] and the tilted law p,
# ``delta(e) = M(t) e**(-t e) * sum_j p_j e**(t (e - l_j)) delta_mu(e - l_j)``.
#
# What rounding may take away is added: the transform is periodic, and losses above the window would count as small
# ones, so Chernoff's bound of their probability is added. Those below it would count as larger ones, of which the tilt
# takes away more: Chernoff's bound of their tilted probability is added. The error of a transform is at most
# `_TRANSFORM` of the 2-norm of its input ([3]_, theorem 24.2, with room), and that of a product of n factors of at most
# 1 adds up, so the sum is off by at most that times the 2-norms of p (at most 1) and of its factors.
# .. [1] V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi (2022). Connect the dots: tighter discrete
#    approximations of privacy loss distributions. PoPETs 2022(4). arXiv:2207.04380
# .. [2] As in S. Gopi, Y. T. Lee, L. Wutschitz (2021). Numerical composition of differential privacy. NeurIPS. There,
#    the law is not tilted, and errors are absolute.
# .. [3] N. J. Higham (2002). Accuracy and stability of numerical algorithms. SIAM, second edition, chapter 24.

_POINTS, _MOST_POINTS = 1 << 16, 1 << 20
"""Points of the grid, and the most of them, for very many releases of a small loss."""

_FINE = 8
"""Steps of the grid in a radius of medium size: splitting then increases the variance by 1 part in 4 * 8**2."""

_TRANSFORM = 2.0**-43
"""Bound of the error of a Fourier transform and of a product, relative to the 2-norm. By theory at most
log2(`_MOST_POINTS`) times about 7 roundings, less than 2**-45."""

_MARGIN = 2.0**-40
"""Bound of the relative error of a probability and of each factor of M, some operations each."""

_SPECIAL = 2.0**-43
"""Bound of the relative error of `erfcx` and `ndtr`, whose authors state 2**-49."""

_SLACK = Fraction(1, 1 << 40)
"""Bound of the error of a point of the grid, relative to the sum of all losses."""

_MOST = 1 << 24
"""The largest number of releases for which these margins hold."""

_MOST_KINDS = 1 << 9
"""The most different losses; similar ones are rounded up together, for the time that each takes."""

_SMALLEST = Fraction(5e-324)
"""The smallest float above 0."""

_LARGEST = 1 << 10
"""The largest radius of a release for which these margins hold."""

_FAR = 50.0
"""Of the tilted law, about e**-50 is beyond each end of the window."""

_BITS = 1200


def smallest_epsilon(losses: Iterable[Loss], delta: Fraction) -> float | None:
    """Return a proven epsilon for losses together; None if they fail more often than delta."""
    listed = list(losses)
    failure = joint_failure(listed)
    room = (delta - failure) / (1 - failure) if failure < delta else Fraction(0)
    mu_squared = gaussian_square(listed)
    if failure > delta or (mu_squared and room < _SMALLEST):
        return None
    others = coarsened([one for one in listed if one._pure], _MOST_KINDS)
    pure = _sum(listed)
    mu = gaussian_loss(mu_squared).mu
    basic = pure + Fraction(gaussian_epsilon(mu, room) if mu else 0)
    # All that can be reached by underestimating delta a little is rounded away, and not worth it.
    allowed = -math.inf if room < Fraction(1, 1 << 900) else math.log(room) - 2.0**-40
    most = _sum(others)
    if others and _within_margins(others, most, mu) and math.isfinite(allowed):
        found = _search([Kind.of(one) for one in others], mu, allowed, float(most))
        basic = (
            basic
            if found is None
            else min(basic, Fraction(found) + _SLACK * (most + Fraction(mu)))
        )
    return round_up(basic)


def _sum(losses: Iterable[Loss]) -> Fraction:
    return sum((one.count * (one._pure or Fraction(0)) for one in losses), Fraction(0))


def gaussian_square(losses: Iterable[Loss]) -> Fraction:
    """Return the square of mu of all Gaussian losses together."""
    squares = (
        one.count * Fraction(one.mu) ** 2
        for one in losses
        if isinstance(one, GaussianLoss)
    )
    return sum(squares, Fraction(0))


def joint_failure(losses: Iterable[Loss]) -> Fraction:
    """Bound the probability that at least one of independent failures happens."""
    spared = Fraction(1)
    for one in losses:
        if one._failure:
            spared = _shortened(spared * _power(1 - one._failure, one.count))
    return 1 - spared


def _power(base: Fraction, exponent: int) -> Fraction:
    """Return a lower bound of a power of a number in [0, 1], by at most 2**-1100."""
    result = Fraction(1)
    while exponent:
        if exponent & 1:
            result = _shortened(result * base)
        base, exponent = _shortened(base * base), exponent >> 1
    return result


def _shortened(number: Fraction) -> Fraction:
    if number.denominator.bit_length() <= _BITS:
        return number
    return Fraction((number.numerator << _BITS) // number.denominator, 1 << _BITS)


def _within_margins(losses: Sequence[Loss], pure: Fraction, mu: float) -> bool:
    largest = max(one._pure or Fraction(0) for one in losses)
    few = sum(one.count for one in losses) <= _MOST
    return (
        few
        and largest <= _LARGEST
        and pure > Fraction(1, 1 << 30)
        and (mu == 0 or 2.0**-30 < mu < 2.0**5)
    )


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
        return Kind(
            count,
            np.concatenate([radii, -radii]),
            np.concatenate([gains, gains - radii]),
        )

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
        """Split its radii among neighbouring points of a grid; return the points too."""
        half = self.values.size // 2
        places = self.values[:half] / step * (1 + _MARGIN)
        below = np.floor(places)
        # sinh(x - a) / sinh(b - a) * cosh(b) / cosh(x) for x between a and b, all halved radii.
        rest, radii = (places - below) * step, places * step
        upper = (below + 1) * step
        share = np.sinh(rest / 2) / math.sinh(step / 2) * np.exp((upper - radii) / 2)
        share = np.minimum(
            share * (1 + np.exp(-upper)) / (1 + np.exp(-radii)) * (1 + _MARGIN), 1
        )
        weights = np.exp(self.logs[:half] + np.logaddexp(0, -self.values[:half]))
        points = np.concatenate([below, below + 1]).astype(np.int64)
        points, where = np.unique(points, return_inverse=True)
        split = np.bincount(
            where, np.concatenate([weights * (1 - share), weights * share])
        )
        points, split = points[split > 0], split[split > 0]
        return np.concatenate([points, -points]), Kind.symmetric(
            self.count, points * step, split
        )


def _search(
    kinds: Sequence[Kind], mu: float, allowed: float, pure: float
) -> float | None:
    """Find the smallest epsilon of which delta is proven to be at most e**allowed, None if none is."""
    # Total variations add up, and a tilt for larger epsilons shows little at 0.
    if mu == 0 and sum(kind.count * kind.variation() for kind in kinds) * (
        1 + 2.0**-30
    ) <= math.exp(allowed):
        return 0.0
    tilt, guess = _best_tilt(kinds, mu, allowed)
    total = _Total.of(kinds, mu, tilt, pure)
    bracket = [0.0, guess * (1 + 2.0**-10), 2 * guess + pure]
    high = next((one for one in bracket if total.log_delta(one) <= allowed), None)
    if not high:
        return high
    tolerance = 2.0**-34 * (pure + mu)
    found = brentq(
        lambda epsilon: total.log_delta(epsilon) - allowed,
        0.0,
        high,
        xtol=tolerance,
        rtol=2.0**-48,
    )
    # Only what is proven counts; the search itself may end on either side.
    ends = (found, found + tolerance, found + 16 * tolerance, high)
    return next(one for one in ends if total.log_delta(one) <= allowed)


def _best_tilt(kinds: Sequence[Kind], mu: float, allowed: float) -> tuple[float, float]:
    """Return the tilt, which is the order minus 1, of the smallest epsilon by Rényi's divergences, and this."""
    spread = (
        sum(kind.count * float(kind.tilted(0.0) @ kind.values**2) for kind in kinds)
        + mu * mu
    )
    scale = math.sqrt(spread + 1e-300)

    def epsilon(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        divergence = (
            sum(kind.count * kind.cumulant(tilt) for kind in kinds)
            + tilt * (tilt + 1) * mu * mu / 2
        )
        order = tilt * math.log(tilt) - (1 + tilt) * math.log1p(tilt)
        return (divergence - allowed + order) / tilt

    tilts = np.linspace(math.log(1e-3 / scale), math.log(1e6 / scale), 50)
    for _ in range(3):
        found = [epsilon(one) for one in tilts.tolist()]
        best = min(range(len(found)), key=found.__getitem__)
        tilts = np.linspace(
            tilts[max(best - 1, 0)], tilts[min(best + 1, tilts.size - 1)], 9
        )
    return math.exp(tilts[4]), max(min(found), 0.0)


@dataclass(frozen=True)
class _Total:
    """The tilted law of the total of all losses but the Gaussian one."""

    mu: float
    tilt: float
    log_mean: float
    losses: NDArray[Any]
    masses: NDArray[Any]
    error: float
    log_tail: float
    log_low: float

    @staticmethod
    def of(kinds: Sequence[Kind], mu: float, tilt: float, pure: float) -> _Total:
        center = sum(
            kind.count * float(kind.tilted(tilt) @ kind.values) for kind in kinds
        )
        spread = sum(
            kind.count * float(kind.tilted(tilt) @ kind.values**2) for kind in kinds
        )
        n_losses = sum(kind.count for kind in kinds)
        reaches = [
            1 / math.sqrt(spread + 1e-300) * 2.0**power for power in range(-4, 9)
        ]
        cumulants = {
            s: sum(kind.count * kind.cumulant(tilt + s) for kind in kinds)
            for s in (0.0, *reaches)
        }
        lower = {
            s: sum(kind.count * kind.cumulant(tilt - s) for kind in kinds)
            for s in reaches
        }
        up = min((cumulants[s] - cumulants[0.0] + _FAR) / s for s in reaches) - center
        down = min((lower[s] - cumulants[0.0] + _FAR) / s for s in reaches) + center
        points = _POINTS
        while True:
            bounded = pure <= min(up + center, down - center) and n_losses < points >> 3
            start, stop = (-pure, pure) if bounded else (center - down, center + up)
            step = (stop - start) / (points - (2 * n_losses + 4 if bounded else 4))
            if points >= _MOST_POINTS or step * _FINE <= math.sqrt(spread / n_losses):
                break
            points *= 2
        first = math.floor(start / step) - (n_losses if bounded else 0)
        placed = [kind.on_grid(step) for kind in kinds]
        transform = np.ones(points // 2 + 1, complex)
        log_mean = 0.0
        for places, kind in placed:
            law = np.bincount(places % points, kind.tilted(tilt), points)
            transform *= _to_power(np.fft.rfft(law), kind.count)
            log_mean += kind.count * kind.cumulant(tilt)
        masses = np.roll(np.fft.irfft(transform, points), -(first % points))
        top = (first + points) * step
        tails = [
            sum(kind.count * kind.cumulant(tilt + s) for _, kind in placed)
            - (tilt + s) * top
            for s in reaches
        ]
        # Below the window: under the tilted law, where the largest weight is at most E[e**(tilt G)] of Gaussian loss G.
        shift = tilt * (tilt + 1) * mu * mu / 2 - log_mean
        low = [
            sum(kind.count * kind.cumulant(tilt - s) for _, kind in placed)
            + s * first * step
            for s in reaches
        ]
        widest = sum(kind.count * int(places.max()) for places, kind in placed)
        return _Total(
            mu,
            tilt,
            log_mean,
            (first + np.arange(points)) * step,
            np.maximum(masses, 0),
            (n_losses + len(placed) + 4) * _TRANSFORM,
            -math.inf if widest < first + points else min(tails) + 1e-6,
            -math.inf if -widest >= first else min(low) + shift + 1e-6,
        )

    def log_delta(self, epsilon: float) -> float:
        """Return an upper bound of the logarithm of delta, infinite if floats overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._log_delta(epsilon)

    def _log_delta(self, epsilon: float) -> float:
        # Without Gaussian noise, losses up to epsilon have no weight.
        first = int(np.searchsorted(self.losses, epsilon)) if self.mu == 0 else 0
        gaps = epsilon - self.losses[first:]
        weights = (
            _pure_delta(gaps, self.tilt)
            if self.mu == 0
            else _gaussian_delta(gaps, self.mu, self.tilt)
        )
        rounding = self.error * float(np.linalg.norm(weights)) + 1e-250
        total = (
            float(weights @ self.masses[first:])
            + rounding
            + float(np.exp(self.log_low))
        )
        if not math.isfinite(total):
            return math.inf
        operations = self.error / _TRANSFORM + self.tilt * (
            abs(epsilon) + float(np.abs(self.losses[[0, -1]]).max())
        )
        bulk = (
            self.log_mean - self.tilt * epsilon + math.log(total) + operations * _MARGIN
        )
        return float(np.logaddexp(bulk, self.log_tail))


def _to_power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return result


def _pure_delta(gaps: NDArray[np.float64], tilt: float) -> NDArray[np.float64]:
    """Return ``e**(tilt * gap) * (1 - e**gap)`` of gaps that are not positive."""
    return np.exp(tilt * gaps) * -np.expm1(gaps)


def _gaussian_delta(
    gaps: NDArray[np.float64], mu: float, tilt: float
) -> NDArray[np.float64]:
    """Return upper bounds of ``e**(tilt * gap) * delta_mu(gap)``."""
    near, far = gaps / mu - mu / 2, gaps / mu + mu / 2
    weights = np.empty_like(gaps)
    upper = near >= 0
    # With the density phi and Mills' ratio R, delta is phi(near) * (R(near) - R(far)).
    root = math.sqrt(0.5)
    ratios = erfcx(near[upper] * root) * (1 + _SPECIAL) - erfcx(far[upper] * root) * (
        1 - _SPECIAL
    )
    weights[upper] = np.exp(tilt * gaps[upper] - near[upper] ** 2 / 2) * ratios / 2
    lower = ~upper
    inside = ndtr(-near[lower]) * (1 + _SPECIAL) - np.exp(gaps[lower]) * ndtr(
        -far[lower]
    ) * (1 - _SPECIAL)
    weights[lower] = np.exp(tilt * gaps[lower]) * inside
    return weights
