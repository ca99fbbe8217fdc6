"""Composition of the guarantees of several releases."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_bounds, log_upper, round_up
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._numbers import check_delta, check_epsilon

_SHARES = Fraction(1, 2), Fraction(9, 10), Fraction(1)
"""Shares of the remaining delta to try for the releases with a rho; with all of it, the other epsilons add."""


def compose(guarantees: Iterable[PrivacyGuarantee], *, delta: float | Fraction | None = None) -> PrivacyGuarantee:
    """Bound the total privacy loss of a fixed list of releases about the same persons.

    Returns the smallest of three bounds: the sum of the epsilons and, with a failure probability, the conversion of the
    sum of the rhos (for Gaussian noise) and the distribution of the privacy loss.

    Parameters
    ----------
    guarantees : iterable of PrivacyGuarantee
        The guarantee of each release; at least one.
    delta : float, optional
        The total failure probability, in [0, 1); by default the sum of their deltas.

    Returns
    -------
    PrivacyGuarantee
        Their sum with the smaller epsilon and with this delta; the sum itself if no bound is smaller.

    Raises
    ------
    TypeError
        If an item is not a PrivacyGuarantee.
    ValueError
        If the list is empty, delta is out of range or too small for these releases, or their neighbouring relations
        cannot be combined.

    Notes
    -----
    **Privacy.** For releases on the same data under one neighbouring relation (if mixed, add/remove converts to
    replace). The next mechanism and its queries may depend on earlier releases; **the number of releases, and the
    epsilon, delta and rho of each, must have been fixed beforehand**. Otherwise only the sum holds (`PrivacyLedger`).

    The bound from the privacy loss is optimal for pure releases of which only epsilon is known ([1]_), rounded up.
    Releases with a rho, which may have been interleaved with others ([3]_), are first converted together ([2]_). No
    bound for Gaussian DP is used, as discrete Gaussian noise is not exactly Gaussian-DP.

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath (2017). The composition theorem for differential privacy. IEEE Transactions
       on Information Theory 63(6).
    .. [2] C. Canonne, G. Kamath, T. Steinke (2020). The discrete Gaussian for differential privacy. NeurIPS.
    .. [3] S. Vadhan, W. Zhang (2023). Concurrent composition theorems for differential privacy. STOC.

    Examples
    --------
    >>> from skdp.privacy import PrivacyGuarantee, compose
    >>> print(compose([PrivacyGuarantee(0.1)] * 100))
    epsilon = 10, local model, replacing one record
    >>> print(compose([PrivacyGuarantee(0.1)] * 100, delta=1e-6))
    epsilon = 4.77457, delta = 0.000001, local model, replacing one record
    """
    releases = list(guarantees)
    if not releases:
        raise ValueError("guarantees must hold at least one PrivacyGuarantee")
    for release in releases:
        if not isinstance(release, PrivacyGuarantee):
            raise TypeError(f"guarantees must be PrivacyGuarantees, got {type(release).__name__}")
    total = reduce(operator.add, releases)
    releases = [release.to(total.relation) for release in releases]
    allowed = Fraction(total.delta) if delta is None else check_delta(delta)
    bounds = [_bound(releases, [False] * len(releases), allowed)]
    if any(release.rho is not None for release in releases):
        bounds += [
            _bound(releases, [release.rho is not None for release in releases], allowed),
            _bound(releases, [release._any_rho is not None for release in releases], allowed),
        ]
    possible = [bound for bound in bounds if bound is not None]
    if not possible:
        raise ValueError(f"delta must be larger than {float(allowed):g}: these releases fail more often together")
    epsilon = min(possible)
    if total.epsilon <= epsilon and total.delta <= allowed:
        return total
    return replace(total, epsilon=epsilon, delta=round_up(allowed))


def _bound(releases: Sequence[PrivacyGuarantee], by_rho: Sequence[bool], delta: Fraction) -> float | None:
    """Bound epsilon, adding the rhos of some releases; None if the others need more than delta."""
    others = [release for release, chosen in zip(releases, by_rho, strict=True) if not chosen]
    pairs = [(Fraction(release.epsilon), Fraction(release.delta)) for release in others]
    if not any(by_rho):
        return smallest_epsilon(pairs, delta)
    rhos = [release._any_rho or Fraction(0) for release, chosen in zip(releases, by_rho, strict=True) if chosen]
    rho = sum(rhos, Fraction(0))
    failure = joint_failure([part for _, part in pairs])
    room = (delta - failure) / (1 - failure)
    if room <= 0:
        return None
    if not others:
        return zcdp_epsilon(rho, room)
    parts = [room * share for share in _SHARES]
    bounds = (smallest_epsilon([*pairs, (Fraction(zcdp_epsilon(rho, part)), part)], delta) for part in parts)
    return min(bound for bound in bounds if bound is not None)


_CELLS = 1 << 17
"""Steps of the grid in the sum of the epsilons."""

_LARGEST = 1 << 16
"""The largest number of releases and sum of epsilons for which the margins below are proven."""

_SMALLEST = 2.0**-960
"""The smallest sum of epsilons for which the steps of the grid are normal floats."""

_MARGIN = 2.0**-30
"""Bound of the relative error of a probability. It is a product and a sum of positive floats, with a few roundings per
release and one per grid point: below (8 * 2**16 + 2**18) * 2**-53 < 2**-33; an exponential adds 2**-52 * epsilon."""

_UNDERFLOW = 2.0**-960
"""Bound of the sum of all products that underflow."""

_SLACK = Fraction(1, 1 << 40)
"""Bound of the error of a loss, relative to the sum of the epsilons."""


def smallest_epsilon(releases: Sequence[tuple[Fraction, Fraction]], delta: Fraction) -> float | None:
    """Bound epsilon for a fixed list of (epsilon, delta) releases together."""
    # An (epsilon, delta) release is post-processing of an answer that reveals the truth with probability delta, and
    # otherwise is randomised response with this epsilon ([1]_, [2]_). So the total privacy loss is infinite if any
    # release fails, and otherwise an independent sum of ``+epsilon``, with probability ``e**epsilon / (1 +
    # e**epsilon)``, or ``-epsilon``. Epsilons are rounded up to a grid (which weakens the guarantee), and
    # ``delta(e) = E[(1 - e**(e - loss))+]`` is inverted by bisection.
    # .. [1] P. Kairouz, S. Oh, P. Viswanath (2017). The composition theorem for differential privacy. IEEE Transactions
    #    on Information Theory 63(6).
    # .. [2] J. Murtagh, S. Vadhan (2016). The complexity of computing the optimal composition of differential privacy.
    #    TCC.
    failure = joint_failure([part for _, part in releases])
    if failure > delta:
        return None
    total = sum((epsilon for epsilon, _ in releases), Fraction(0))
    budget = float((delta - failure) / (1 - failure)) * (1 - _MARGIN) - _UNDERFLOW
    if budget <= 0 or not _SMALLEST < total <= _LARGEST or len(releases) > _LARGEST:
        return round_up(total)
    losses, masses = _distribution(Counter(epsilon for epsilon, _ in releases if epsilon))
    low, high = 0.0, float(losses[-1])
    while high - low > float(_SLACK * total):
        middle = (low + high) / 2
        larger = np.searchsorted(losses, middle, side="right")
        if float(-np.expm1(middle - losses[larger:]) @ masses[larger:]) > budget:
            low = middle
        else:
            high = middle
    return round_up(min(total, Fraction(high) + _SLACK * total))


def joint_failure(deltas: Sequence[Fraction]) -> Fraction:
    """Return the probability that at least one of independent failures happens."""
    return 1 - math.prod((1 - delta for delta in deltas), start=Fraction(1))


def _distribution(counts: Counter[Fraction]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the positive values of the total loss, in order, and their probabilities."""
    unit = _unit(counts)
    masses, steps = np.ones(1), 0
    for epsilon, count in counts.most_common():
        number = math.ceil(epsilon / unit)
        shares = _binomial(count, float(number * unit))
        wider = np.zeros(masses.size + number * count)
        for index, share in enumerate(shares):
            wider[number * index : number * index + masses.size] += share * masses
        masses, steps = wider, steps + number * count
    # At point i, losses add up to i steps, and gains to the other steps.
    losses = (2 * np.arange(masses.size, dtype=np.float64) - steps) * float(unit)
    kept = (losses > 0) & (masses > 0)
    return losses[kept], masses[kept]


def _unit(counts: Counter[Fraction]) -> Fraction:
    """Return a grid step of which the most common epsilon, and thus round multiples of it, are multiples."""
    total = sum((epsilon * count for epsilon, count in counts.items()), Fraction(0))
    commonest = counts.most_common(1)[0][0]
    steps = math.ceil(commonest * _CELLS / total)
    if steps == 1:
        return total / _CELLS
    if steps > 100:
        steps += -steps % 100
    # The float 0.1 exceeds a tenth: slightly longer steps avoid rounding it up to one more step.
    return commonest / steps * (1 + _SLACK)


def _binomial(n: int, epsilon: float) -> NDArray[np.float64]:
    """Return the probabilities of 0 to n positive signs, by their ratios from the mode in both directions."""
    odds = math.exp(min(epsilon, 700.0))  # the rest underflows, see _UNDERFLOW
    mode = min(n, math.floor((n + 1) * odds / (1 + odds)))
    rising = np.arange(mode + 1, n + 1)
    falling = np.arange(mode, 0, -1)
    above = np.cumprod((n - rising + 1) / rising * odds)
    below = np.cumprod(falling / (n - falling + 1) / odds)
    shares = np.concatenate([below[::-1], [1.0], above])
    return shares / shares.sum()


def zcdp_epsilon(rho: float | Fraction, delta: float | Fraction) -> float:
    """Convert zero-concentrated differential privacy to epsilon for a delta.

    A release whose Rényi divergences of all orders alpha > 1 are at most ``rho * alpha`` is (epsilon, delta)-
    differentially private for ``epsilon = rho * alpha + log(1 - 1 / alpha) + log(1 / (delta * alpha)) / (alpha - 1)``
    and each order ([1]_, section 2.3). The best order solves ``rho * (alpha - 1)**2 = log(1 / (delta * alpha))``.

    Parameters
    ----------
    rho : float or Fraction
        The concentrated privacy loss, finite and at least 0.
    delta : float or Fraction
        The failure probability, in (0, 1).

    Returns
    -------
    float
        A proven epsilon: the order is found with floats, and the formula is then rounded up.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range; so is ``delta = 0``, unless rho is 0.

    References
    ----------
    .. [1] C. Canonne, G. Kamath, T. Steinke (2020). The discrete Gaussian for differential privacy. NeurIPS.
       arXiv:2004.00010

    Examples
    --------
    The simpler formula ``rho + 2 * sqrt(rho * log(1 / delta))`` gives 5.76:

    >>> round(zcdp_epsilon(0.5, 1e-6), 2)
    5.22
    """
    exact_rho, exact_delta = check_epsilon(rho, name="rho", zero=True), check_delta(delta)
    if exact_rho == 0:
        return 0.0
    if exact_delta == 0:
        raise ValueError("a release that is zero-concentrated only has delta > 0, got delta = 0")
    excess = Fraction(_best_excess(float(exact_rho), float(exact_delta)))
    order = 1 + excess
    share = exact_delta * order
    penalty = Fraction(log_upper(1 / share)) if share < 1 else -_log_lower(share)
    epsilon = exact_rho * order - _log_lower(order / excess) + penalty / excess
    return round_up(max(epsilon, Fraction(0)))


def _best_excess(rho: float, delta: float) -> float:
    """Return the best order minus 1: the zero of the derivative, which increases."""
    # No useful order is outside these bounds; inside, its fraction is short.
    low, high = 1e-12, 1e12
    while high > low * (1 + 1e-12):
        middle = math.sqrt(low * high)
        slope = rho * middle * middle + math.log1p(middle) + math.log(delta)
        low, high = (low, middle) if slope > 0 else (middle, high)
    return high


def _log_lower(ratio: Fraction) -> Fraction:
    """Return a lower bound of the logarithm of a ratio of at least 1, at most two floats below the upper bound."""
    bound = log_upper(ratio)
    while bound > 0 and exp_bounds(bound)[1] > ratio:
        bound = math.nextafter(bound, 0.0)
    return Fraction(bound)
