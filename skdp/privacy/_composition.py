"""The smallest guarantee that several releases keep together."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce

from skdp.exact import round_up
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._parameters import check_delta
from skdp.privacy._privacy_loss import joint_failure, smallest_epsilon
from skdp.privacy._zcdp import zcdp_epsilon

_SHARES = Fraction(1, 2), Fraction(9, 10), Fraction(1)
"""Parts of the free delta that are tried for the releases with a rho; with all of it, the other epsilons just add."""


def compose(guarantees: Iterable[PrivacyGuarantee], *, delta: float | Fraction | None = None) -> PrivacyGuarantee:
    """Bound what a fixed list of releases about the same persons costs together.

    Epsilons add. With a failure probability, less than their sum is lost: the smallest of three bounds is taken, the
    sum, the conversion of the sum of the rhos (for Gaussian noise), and the distribution of the privacy loss.

    Parameters
    ----------
    guarantees : iterable of PrivacyGuarantee
        What each release promises; at least one.
    delta : float, optional
        The failure probability of all together, in [0, 1); by default the sum of their deltas.

    Returns
    -------
    PrivacyGuarantee
        As their sum, with the smaller epsilon and with this delta. If nothing is gained, the sum itself.

    Raises
    ------
    TypeError
        If one is no PrivacyGuarantee.
    ValueError
        If there is none, if delta is out of range or too small for these releases, or if their neighbouring relations
        cannot be brought together.

    Notes
    -----
    **Privacy.** For releases on the same data under one neighbouring relation (add/remove converts into replace where
    they are mixed). Which mechanism comes next, and what it asks, may depend on earlier releases; **how many there are,
    and the epsilon, delta and rho of each, must have been fixed beforehand**. Where they were not, only the sum holds
    (`PrivacyLedger`).

    The bound from the privacy loss is the optimal one for pure releases of which nothing but epsilon is known ([1]_),
    rounded up. Releases with a rho are first converted together ([2]_), with a part of the delta that the others leave,
    and then are one of the list; that they may have been interleaved with the others does no harm ([3]_). Discrete
    Gaussian noise is not exactly Gaussian-DP, so no bound of that kind is used.

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
    """Bound epsilon with the rhos of some releases added up; None if the others fail more often than delta."""
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
