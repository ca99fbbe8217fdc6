"""Guarantee of reports that are shuffled or summed before they are released."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy.special import ndtr

from skdp.exact import exp_bounds, log_upper, round_up
from skdp.privacy._formats import check_choice, check_delta, check_epsilon
from skdp.privacy.guarantees._accountant import smallest_epsilon
from skdp.privacy.guarantees._conversions import LOG_ERROR, find_safe_boundary
from skdp.privacy.guarantees._guarantee import PrivacyGuarantee
from skdp.privacy.guarantees._losses import GaussianLoss, Loss, StatedLoss
from skdp.privacy.guarantees._report_pair import ReportPair
from skdp.randomness import check_size

# Output of the shuffler: the shuffled reports, or their counts.
Released: TypeAlias = Literal["reports", "tally"]

_RELEASED: tuple[Released, ...] = get_args(Released)

# Relative precision of the search for an epsilon, and of searches in which each step is
# itself a search (for a mu).
_PRECISION, _LOW_PRECISION = 1e-5, 2.0**-10

# Bound of the rounding error of a tangent, relative to the larger of its two terms.
_TANGENT_ROUNDING = 2.0**-38


def shuffled_guarantee(
    reporter: Any, *, n: int, delta: float, released: Released = "reports"
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
    reporter: Any,
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


def _get_local_guarantee(reporter: Any) -> PrivacyGuarantee:
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
