"""The guarantee of reports that are shuffled or summed before anybody sees them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy.special import ndtr

from skdp.exact import exp_bounds, log_upper, round_up
from skdp.privacy._accountant import smallest_epsilon
from skdp.privacy._conversions import LOG_ERROR, proven_edge
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._losses import GaussianLoss, Loss, StatedLoss
from skdp.privacy._numbers import check_delta, check_epsilon
from skdp.privacy._shuffled_pair import ReportPair

# The relative precision of an epsilon that is searched for.
_PRECISION = 1e-5

# The largest local epsilon of a part that is tried: beyond, the lies of most oracles
# are at the limit of 64 bits.
_MAX_LOCAL = 50.0


# More than the rounding errors of a tangent, relative to the larger of its two terms.
_ROUNDING = 2.0**-38


# The relative precision of a mu, and of what follows from several; and the failure
# probability of Gaussian noise, as a part of delta, which is then hardly less.
_ROUGH = 2.0**-10

# Returns the pairs of the parts of a report for a local epsilon.
PairsAt = Callable[[float], Sequence[ReportPair]]


@lru_cache(maxsize=64)  # fits, statements and files ask for the same one
def _epsilon_of_pair(pair: ReportPair, n: int, delta: Fraction) -> float:
    """Return a proven epsilon of n shuffled reports; at most that of a single one."""
    most = log_upper(pair.largest_ratio)
    if delta == 0 or most == 0:
        return most

    def excess(epsilon: float) -> float:
        return _log_ratio(pair.delta(n, epsilon), delta)

    return proven_edge(excess, _PRECISION, safe=most, unsafe=0.0)


def shuffled_epsilon(pairs: Sequence[ReportPair], n: int, delta: Fraction) -> float:
    """Return a proven epsilon of n reports, whose parts are shuffled by themselves."""
    # The parts by themselves follow from the parts together.
    together = _epsilon_of_pair(ReportPair.product(pairs), n, delta)
    if len(pairs) == 1:
        return together
    return min(together, _composed_epsilon(pairs, n, delta))


def _composed_epsilon(pairs: Sequence[ReportPair], n: int, delta: Fraction) -> float:
    """Bound epsilon by the losses of the parts; infinite if there are none."""
    losses = shuffled_losses(pairs, n, delta)
    composed = smallest_epsilon(losses, delta) if losses else None
    return math.inf if composed is None else composed


def largest_local(pairs_at: PairsAt, n: int, epsilon: float, delta: Fraction) -> float:
    """Return about the largest local epsilon whose reports have epsilon and delta."""
    # More than what the search leaves of an epsilon, as a part of it: an epsilon that
    # was reached is found again.
    certain = 2.0**-13
    aim = epsilon * (1 - certain)
    most = max(_MAX_LOCAL, epsilon)

    def excess_together(local: float) -> float:
        pair = ReportPair.product(pairs_at(local))
        return _log_ratio(pair.delta(n, aim), delta)

    together = proven_edge(excess_together, _PRECISION, safe=epsilon, unsafe=most)
    n_parts = len(pairs_at(together))
    if n_parts == 1:
        return together

    def excess_apart(local: float) -> float:
        composed = _composed_epsilon(pairs_at(local), n, delta)
        return min(math.log(max(composed, 1e-300) / aim), 9.0)

    return proven_edge(excess_apart, _ROUGH, safe=together, unsafe=most * n_parts)


def _log_ratio(reached: float, target: Fraction) -> float:
    """Return the logarithm of a ratio, rounded up, within what a search can handle."""
    return max(math.log(max(reached, 1e-300)) - math.log(target) + LOG_ERROR, -50.0)


# A sum of many reports is nearly normal. So the divergences of both orders are compared
# with that of Gaussian noise which fails with a small probability: if they are below it
# for every epsilon >= 0, it dominates. As functions of t = e**epsilon, all are convex.
# So between two points of a grid, those of the reports are below the chord, and that of
# Gaussian noise is above a tangent; lines that are in order at both ends are so in
# between. Beyond the last point, the divergence of the reports is at most the failure
# probability.


def shuffled_losses(
    pairs: Sequence[ReportPair], n: int, delta: Fraction
) -> tuple[Loss, ...]:
    """Return losses that dominate parts, each shuffled by itself; none if not found."""
    if not delta:
        return ()
    failure = float(delta) / len(pairs) * _ROUGH
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
    """Return about the least mu of Gaussian noise that dominates but for a failure."""
    largest = _epsilon_of_pair(pair, n, Fraction(failure))
    if not largest:
        return None
    # Of the grid that compares Gaussian noise with reports: half as many cost a percent
    # of mu, twice as many gain 0.2.
    n_points = 40
    epsilons = np.linspace(0, largest, n_points + 1)
    reports = np.array([pair.delta(n, epsilon) for epsilon in epsilons.tolist()])
    # What is left to Gaussian noise if the failure probability is taken off.
    needed = np.maximum(reports - failure, 0) * (1 + _ROUNDING) / (1 - failure)
    touched = (epsilons[:-1] + epsilons[1:]) / 2
    orders = np.exp(touched)
    steps_below = orders - np.exp(epsilons[:-1])
    steps_above = np.exp(epsilons[1:]) - orders

    def dominates(mu: float) -> bool:
        # Of delta(t) = near - t far, the slope is -far.
        near = ndtr(mu / 2 - touched / mu)
        far = ndtr(-mu / 2 - touched / mu)
        tangent = near - orders * far - _ROUNDING * near
        is_above_before = tangent + steps_below * far >= needed[:-1]
        is_above_after = tangent - steps_above * far >= needed[1:]
        return bool(is_above_before.all() and is_above_after.all())

    low, high = 0.0, 4 * float(needed[0]) + largest
    if not dominates(high):
        return None
    while high - low > _ROUGH * high:
        middle = (low + high) / 2
        if dominates(middle):
            high = middle
        else:
            low = middle
    return high


# What leaves the shuffler.
Released: TypeAlias = Literal["reports", "tally"]

_RELEASED: tuple[Released, ...] = get_args(Released)

# The local epsilon from which nothing is hidden.
_LARGEST = 300.0

# The parts of a report, each of which is shuffled by itself.
Pairs: TypeAlias = tuple[ReportPair, ...]


def shuffled_guarantee(
    reporter: Any, *, n: int, delta: float, released: Released = "reports"
) -> PrivacyGuarantee:
    """Compute what reports guarantee together if only their sums, or the reports in random order, are released.

    Among n randomised reports without names, one is hard to find: the guarantee is stronger than that of a report that
    is seen by itself, by a factor of about ``sqrt(n * e**-epsilon0)``.

    Parameters
    ----------
    reporter : fitted local transformer, its protocol, or oracle
        What randomises a record. Anything with a ``guarantee_`` of the local model and without delta will do.
    n : int
        How many reports of honest persons are shuffled together, at least; public, and at least 1. Reports that are
        lost, made up by others, or have no noise do not count. More than 2**30 are counted as this number.
    delta : float
        The failure probability, in [0, 1); well below 1 / n. With 0, it is the local guarantee.
    released : {"reports", "tally"}, default="reports"
        What is released: the reports in random order, the columns of a record together (`shuffle_reports`), or only
        the unweighted sums of each attribute over all n reports (``"tally"``), as `estimate_counts` needs them without
        `sample_weight`. It matters for ``strategy="split"``
        and for several columns of numbers.

    Returns
    -------
    PrivacyGuarantee
        With ``trust="shuffle"`` and ``relation="replace"``. Its epsilon is never above the local one; if it is the same
        then delta is 0. Else its losses, from which `compose` adds up several releases, are those of
        Gaussian noise that fails with a small part of delta, which dominate.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or what is given is not fitted, is not of the local model, or makes permanent
        reports.

    See Also
    --------
    local_epsilon : The other way round.

    Notes
    -----
    **Privacy.** Model of shuffling: a record is replaced by another; the number of records is public. It holds for any
    values of all other records, against everybody who sees nothing of the reports but what is released. Trusted are
    those who shuffle or sum them. It covers unweighted sums of all n reports only: a weight of 0 for all reports but
    one releases this one. A frame whose row index, order or ids tell who sent a row is not shuffled. It is for
    *one* release of *one* collection. New reports of the same persons are further releases, which add up (`compose`).
    The same reports must not be summed or shuffled a second time, in another set: the difference of two sums may show a
    single report. So permanent reports (``memoize=True``) are refused: they have the local guarantee.

    It is a proven upper bound, the *privacy blanket* ([1]_, lemma 5.3, proven again in the source), which sees all
    outcomes of the exact channel and not its epsilon only, and is the best bound that takes the reports of others
    apart ([2]_). Numerical errors are bounded and added. For k-ary randomised response of 3 or more values and n of at
    least 1,000, an attained lower bound is less than 3 % below. Where there are two reports, as with randomised
    response of two values, up to 45 % of epsilon is not needed. Several
    columns that are released together are taken as one report with the product of their channels; in a tally, they
    are shuffled by themselves, and compose. What is known by its epsilon only is bounded as the worst
    local randomiser ([3]_).

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
    n = _check_n(n)
    _check_released(released)
    pairs, local = _parts_of(reporter, released)
    done = f"shuffled from {n:,} reports"
    if released == "tally":
        done = f"unweighted sums of all {n:,} reports"
    promise = replace(local, trust="shuffle", mechanism=f"{local.mechanism}, {done}")
    if local.epsilon >= _LARGEST:
        return promise
    epsilon = shuffled_epsilon(pairs, n, exact_delta)
    if epsilon >= local.epsilon:
        return promise
    return replace(
        promise,
        epsilon=epsilon,
        delta=round_up(exact_delta),
        losses=shuffled_losses(pairs, n, exact_delta),
    )


def local_epsilon(
    epsilon: float,
    *,
    delta: float,
    n: int,
    reporter: Any,
    released: Released = "reports",
) -> float:
    """Find the largest local epsilon whose reports have a guarantee after shuffling.

    Parameters
    ----------
    epsilon : float
        The privacy loss after shuffling; finite and > 0.
    delta : float
        The failure probability after shuffling, in (0, 1).
    n : int
        How many reports of honest persons are shuffled together, at least; public.
    reporter : callable
        Function that returns what randomizes a record for a local epsilon: an oracle, as ``partial(RandomizedResponse,
        4)`` does, or a fitted local transformer.
    released : {"reports", "tally"}, default="reports"
        What is released; see `shuffled_guarantee`.

    Returns
    -------
    float
        A local epsilon of at least `epsilon`, and at most 50 for each column of a tally unless `epsilon` is larger. The
        bound of `shuffled_guarantee` for it was checked, not merely inverted.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or the transformers make permanent reports.

    Notes
    -----
    **Privacy.** Free: it uses what is public. See `shuffled_guarantee` for what the guarantee covers.

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
            "delta must be a number in (0, 1), got 0: without it, shuffling does not help"
        )
    n = _check_n(n)
    _check_released(released)
    if not callable(reporter):
        raise TypeError(
            "reporter must be a function of epsilon that returns an oracle or a fitted "
            f"local transformer, got {type(reporter).__name__}"
        )

    def pairs_at(local: float) -> Pairs:
        return _parts_of(reporter(local), released)[0]

    return largest_local(pairs_at, n, float(epsilon), exact_delta)


def _parts_of(reporter: Any, released: Released) -> tuple[Pairs, PrivacyGuarantee]:
    """Return the pairs and the local guarantee of what randomises a record."""
    if hasattr(reporter, "shuffle_pair") and not isinstance(reporter, type):
        alone = PrivacyGuarantee(reporter.epsilon, mechanism=type(reporter).__name__)
        return _proven((reporter.shuffle_pair(),), alone), alone
    local = getattr(reporter, "guarantee_", getattr(reporter, "guarantee", None))
    if not isinstance(local, PrivacyGuarantee):
        unfitted = " that is not fitted" if hasattr(reporter, "fit") else ""
        raise TypeError(
            "reporter must be a fitted local transformer, its protocol, or an oracle, "
            f"got {type(reporter).__name__}{unfitted}"
        )
    of_records = (
        local.relation == "replace"
        and local.unit == "record"
        and local.max_rows_per_person == 1
    )
    if local.trust != "local" or local.delta or not of_records:
        raise ValueError(
            "reporter must randomise each record by itself, without delta; its "
            f"guarantee is: {local}"
        )
    _refuse_permanent(reporter)
    protocol = getattr(reporter, "protocol_", reporter)
    if hasattr(protocol, "shuffle_pairs"):
        return _proven(tuple(protocol.shuffle_pairs(released)), local), local
    return (any_pair(local.epsilon),), local


def _refuse_permanent(reporter: Any) -> None:
    protocol = getattr(reporter, "protocol_", reporter)
    if getattr(protocol, "permanent_key", None) is not None:
        raise ValueError(
            "reporter makes permanent reports, and two sums of these may show one: "
            "shuffling adds nothing"
        )


def _proven(pairs: Pairs, local: PrivacyGuarantee) -> Pairs:
    """Return pairs, or the worst one if they show less than the local epsilon."""
    # They are inherited by a class that draws with another ratio.
    revealed = sum(log_upper(pair.largest_ratio) for pair in pairs)
    return (
        pairs if revealed >= local.epsilon * (1 - 1e-6) else (any_pair(local.epsilon),)
    )


def any_pair(epsilon: float | Fraction) -> ReportPair:
    """Return the pair of the worst local randomiser with an epsilon."""
    return ReportPair.of_any(exp_bounds(epsilon)[1])


def _check_n(n: Any) -> int:
    if isinstance(n, bool | np.bool_) or not isinstance(n, int | np.integer):
        raise TypeError(f"n must be an integer, got {type(n).__name__}")
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    if n >> 63:
        raise ValueError("n must be below 2**63")
    return int(n)


def _check_released(released: Any) -> None:
    if not isinstance(released, str) or released not in _RELEASED:
        raise ValueError(f"released must be one of {_RELEASED}, got {released!r}")
