"""Composition of the guarantees of several releases."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any

from skdp.exact import round_up
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._numbers import check_delta
from skdp.privacy._zcdp import zcdp_epsilon
from skdp.privacy.accounting import (
    GaussianLoss,
    Loss,
    StatedLoss,
    joint_failure,
    smallest_epsilon,
)

_SHARES = Fraction(1, 2), Fraction(9, 10), Fraction(1)
"""Shares of the remaining delta to try for the releases with a rho; with all of it, the other epsilons add."""


def compose(
    guarantees: Iterable[PrivacyGuarantee], *, delta: float | Fraction | None = None
) -> PrivacyGuarantee:
    """Bound the total privacy loss of a fixed list of releases about the same persons.

    Returns the smallest of three bounds: the sum of the epsilons and, with a failure probability, the distribution of
    the privacy loss, with or without a conversion of the sum of the rhos.

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
    replace). The next query may depend on earlier results, and releases may be interleaved ([3]_); **the number of
    releases, and the epsilon, delta, rho and losses of each, must have been fixed beforehand**. Otherwise only a filter
    holds (`PrivacyLedger`).

    The total epsilon is proven, and in tests at most 2 % above a lower bound for the losses that the guarantees state:
    Gaussian losses are composed exactly, all others on a grid whose rounding only raises delta ([2]_), with the errors
    of the Fourier transform added. Of releases of which only epsilon and delta are known, the worst is assumed ([1]_).
    Those that state a rho alone are converted together ([4]_), as discrete Gaussian noise is not Gaussian-DP.

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath (2017). The composition theorem for differential privacy. IEEE Transactions
       on Information Theory 63(6).
    .. [2] V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi (2022). Connect the dots: tighter discrete
       approximations of privacy loss distributions. PoPETs 2022(4). arXiv:2207.04380
    .. [3] S. Vadhan, W. Zhang (2023). Concurrent composition theorems for differential privacy. STOC.
    .. [4] C. Canonne, G. Kamath, T. Steinke (2020). The discrete Gaussian for differential privacy. NeurIPS.

    Examples
    --------
    >>> from skdp.privacy import PrivacyGuarantee, compose
    >>> print(compose([PrivacyGuarantee(0.1)] * 100))
    epsilon = 10, local model, replacing one record
    >>> print(compose([PrivacyGuarantee(0.1)] * 100, delta=1e-6))
    epsilon = 4.77457, delta = 0.000001, local model, replacing one record
    """
    releases = read_releases(guarantees)
    total = _sum(Counter(releases))
    allowed = Fraction(total.delta) if delta is None else check_delta(delta)
    losses = total._all_losses()
    by_rho = [isinstance(loss, StatedLoss) and loss.rho is not None for loss in losses]
    bounds = [_bound(losses, [False] * len(losses), allowed)]
    if any(by_rho):
        bounds += [
            _bound(losses, by_rho, allowed),
            _bound(
                losses, [loss._concentrated is not None for loss in losses], allowed
            ),
        ]
    possible = [bound for bound in bounds if bound is not None]
    if not possible:
        raise ValueError(
            f"delta must be larger than {float(allowed):g}: these releases fail more often together"
        )
    epsilon = min(possible)
    if total.epsilon <= epsilon and total.delta <= allowed:
        return total
    return replace(total, epsilon=epsilon, delta=round_up(allowed))


def read_releases(guarantees: Any) -> list[PrivacyGuarantee]:
    """Check the guarantees of releases."""
    if not isinstance(guarantees, Iterable):
        raise TypeError(
            f"guarantees must be an iterable of PrivacyGuarantees, got {type(guarantees).__name__}"
        )
    releases = list(guarantees)
    if not releases:
        raise ValueError("guarantees must hold at least one PrivacyGuarantee")
    for release in releases:
        if not isinstance(release, PrivacyGuarantee):
            raise TypeError(
                f"guarantees must be PrivacyGuarantees, got {type(release).__name__}"
            )
    return releases


def repeated(guarantee: PrivacyGuarantee, times: int) -> PrivacyGuarantee:
    """Return the guarantee of several releases that each have the same guarantee."""
    return guarantee if times == 1 else _sum(Counter({guarantee: times}))


def _sum(counts: Counter[PrivacyGuarantee]) -> PrivacyGuarantee:
    """Add up guarantees, each a number of times; sums are rounded once."""
    # One loss stands for all of each, as theirs are listed below.
    total = reduce(
        operator.add, (replace(one, losses=(GaussianLoss(0.0),)) for one in counts)
    )
    parts = [(one.to(total.relation), count) for one, count in counts.items()]
    numbers: dict[str, Any] = {
        name: round_up(
            sum(
                (count * Fraction(getattr(one, name)) for one, count in parts),
                Fraction(0),
            )
        )
        for name in ("epsilon", "delta")
    }
    losses = [
        replace(loss, count=count * loss.count)
        for one, count in parts
        for loss in one._all_losses()
    ]
    if total.rho is not None:
        numbers["rho"] = round_up(
            sum(
                (count * (one._any_rho or Fraction(0)) for one, count in parts),
                Fraction(0),
            )
        )
    return replace(total, losses=tuple(losses), **numbers)


def _bound(
    losses: Sequence[Loss], by_rho: Sequence[bool], delta: Fraction
) -> float | None:
    """Bound epsilon, adding the rhos of some losses; None if the others need more than delta."""
    if not any(by_rho):
        return smallest_epsilon(losses, delta)
    others = [loss for loss, chosen in zip(losses, by_rho, strict=True) if not chosen]
    rhos = [
        loss.count * (loss._concentrated or 0)
        for loss, chosen in zip(losses, by_rho, strict=True)
        if chosen
    ]
    rho = sum(rhos, Fraction(0))
    failure = joint_failure(others)
    room = (delta - failure) / (1 - failure)
    if room <= 0:
        return None
    if not others:
        return zcdp_epsilon(rho, room)
    parts = [Fraction(-round_up(-room * share)) for share in _SHARES]
    converted = (
        StatedLoss(zcdp_epsilon(rho, part), float(part)) for part in parts if part
    )
    bounds = (smallest_epsilon([*others, part], delta) for part in converted)
    return min((bound for bound in bounds if bound is not None), default=None)
