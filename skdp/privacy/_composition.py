"""Composition of the guarantees of several releases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from skdp.exact import round_up
from skdp.privacy._guarantee import PrivacyGuarantee, added_up
from skdp.privacy._numbers import check_delta
from skdp.privacy._zcdp import zcdp_epsilon
from skdp.privacy.accounting import (
    Loss,
    StatedLoss,
    joint_failure,
    smallest_epsilon,
)

# Shares of the remaining delta to try for the releases with a rho; with all of it, the
# other epsilons add.
_SHARES = Fraction(1, 2), Fraction(9, 10), Fraction(1)


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
    total = added_up(Counter(releases).items())
    allowed = Fraction(total.delta) if delta is None else check_delta(delta)
    losses = total._all_losses()

    bounds = [smallest_epsilon(losses, allowed)]
    # Rhos are converted together: those that are stated alone, or all that are known.
    stated = [loss for loss in losses if isinstance(loss, StatedLoss)]
    stated = [loss for loss in stated if loss.rho is not None]
    if stated:
        by_rho = [loss for loss in losses if loss._concentrated is not None]
        bounds.append(_bound_by_rho(losses, stated, allowed))
        bounds.append(_bound_by_rho(losses, by_rho, allowed))
    proven = [bound for bound in bounds if bound is not None]
    if not proven:
        raise ValueError(
            f"delta must be larger than {float(allowed):g}: these releases fail more "
            "often together"
        )
    epsilon = min(proven)
    if total.epsilon <= epsilon and total.delta <= allowed:
        return total
    return replace(total, epsilon=epsilon, delta=round_up(allowed))


def read_releases(guarantees: Any) -> list[PrivacyGuarantee]:
    """Check the guarantees of releases."""
    if not isinstance(guarantees, Iterable):
        raise TypeError(
            "guarantees must be an iterable of PrivacyGuarantees, got "
            f"{type(guarantees).__name__}"
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
    return guarantee if times == 1 else added_up([(guarantee, times)])


def _bound_by_rho(
    losses: Sequence[Loss], concentrated: Sequence[Loss], delta: Fraction
) -> float | None:
    """Bound epsilon, adding the rhos of some losses; None if others exceed delta."""
    converted_losses = set(concentrated)
    unconverted = [loss for loss in losses if loss not in converted_losses]
    rhos = [loss.count * (loss._concentrated or 0) for loss in concentrated]
    rho = sum(rhos, Fraction(0))
    failure = joint_failure(unconverted)
    room = (delta - failure) / (1 - failure)
    if room <= 0:
        return None
    if not unconverted:
        return zcdp_epsilon(rho, room)
    bounds = []
    for share in _SHARES:
        part = Fraction(-round_up(-room * share))
        if part:
            converted = StatedLoss(zcdp_epsilon(rho, part), float(part))
            bounds.append(smallest_epsilon([*unconverted, converted], delta))
    return min((bound for bound in bounds if bound is not None), default=None)
