"""Exact permute-and-flip and exponential mechanism: the choice of a candidate of high score."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.exact import exp_minus_bounds
from skdp.randomness._draws import (
    check_integers,
    check_positive_int,
    check_rational,
    seen,
    uniform_below,
    uniform_integers,
    watched,
)
from skdp.randomness._real import Uniform, bernoulli_exp
from skdp.randomness._sources import ByteSource

_FIRST_TRIES = 1 << 10
_MOST_TRIES = 1 << 20
"""Candidates proposed at a time: twice as many each time, up to the second number."""


def permute_and_flip(
    source: ByteSource, scores: ArrayLike, rate: Fraction | int
) -> int:
    """Choose a candidate of a high score by permute-and-flip.

    >>> from skdp.randomness import SeededSource
    >>> permute_and_flip(SeededSource(0), [10, 40, 20], Fraction(1, 2))
    1

    The mechanism goes through the candidates in random order, and stops at the first
    one whose coin, of probability ``e**(-rate * (best - score))``, shows heads ([1]_,
    algorithm 1). The coins do not depend on the order: all are tossed, and one of the
    heads is chosen uniformly.

    With ``rate = epsilon / (2 * sensitivity)``, the choice is epsilon-differentially
    private (without the 2 if one row can only raise the scores, or only lower them); in
    expectation it is never worse than the exponential mechanism's.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    scores : array-like of int, shape (n_candidates,)
        The higher the better; at least one.
    rate : Fraction or int
        Not negative; 0 chooses uniformly.

    Returns
    -------
    int
        The index of the chosen candidate.

    Raises
    ------
    TypeError, ValueError
        If the scores are not integers, there are none, or the rate is not rational, or
        negative.

    References
    ----------
    .. [1] R. McKenna, D. Sheldon (2020). Permute-and-flip: a new mechanism for
       differentially private selection. NeurIPS.
    """
    heads = np.flatnonzero(bernoulli_exp(source, _gaps(scores), rate))
    with watched(None):
        place = uniform_integers(source, heads.size, 1)[0]
    choice = int(heads[place])
    return seen("permute_and_flip", choice, scores=scores, rate=rate)


def exponential_mechanism(
    source: ByteSource, scores: ArrayLike, rate: Fraction | int
) -> int:
    """Choose a candidate with probability exactly proportional to ``e**(rate * score)``.

    >>> from skdp.randomness import SeededSource
    >>> exponential_mechanism(SeededSource(0), [10, 40, 20], Fraction(1, 2))
    1

    A candidate is drawn uniformly and accepted with probability ``e**(-rate * (best -
    score))``, until one is accepted. With ``rate = epsilon / (2 * sensitivity)``, the
    choice is epsilon-differentially private (without the 2 if one row can only raise
    the scores, or only lower them) ([1]_). The number of tries, and with it the run
    time, depends on the scores, unlike that of `permute_and_flip`.

    Parameters
    ----------
    source, scores, rate : ByteSource, array-like of int, and Fraction or int
        As for `permute_and_flip`.

    Returns
    -------
    int
        The index of the chosen candidate.

    Raises
    ------
    TypeError, ValueError
        As for `permute_and_flip`.

    References
    ----------
    .. [1] F. McSherry, K. Talwar (2007). Mechanism design via differential privacy.
       FOCS.
    """
    gaps = _gaps(scores)
    rate = check_rational("rate", rate, zero=True)
    n_tries = _FIRST_TRIES
    while True:
        with watched(None):
            proposed = uniform_integers(source, gaps.size, n_tries)
        accepted = proposed[bernoulli_exp(source, gaps[proposed], rate)]
        if accepted.size:
            choice = int(accepted[0])
            return seen("exponential_mechanism", choice, scores=scores, rate=rate)
        n_tries = min(2 * n_tries, _MOST_TRIES)


_HALVING = Fraction(711, 1024)
"""A little more than log(2)."""


def unimodal_choice(
    source: ByteSource,
    size: int,
    within: Callable[[int], tuple[int, int]],
    gap: Callable[[int], int],
    rate: Fraction | int,
    scores: Callable[[], ArrayLike] = tuple,
) -> int:
    """Choose by the exponential mechanism among very many candidates, in an order in which scores rise and then fall.

    The probabilities are those of `exponential_mechanism`, but only the candidate that
    is drawn is looked at.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    size : int
        The number of candidates, at least 1.
    within : callable
        Returns the range (start, stop) of the candidates whose score is at most this
        far below the best one, for an integer >= 0.
    gap : callable
        Returns how far the score of a candidate is below the best one, an integer.
    rate : Fraction or int
        Positive.
    scores : callable, optional
        Returns the scores of some candidates, for an audit.

    Returns
    -------
    int
        The index of the chosen candidate.

    Raises
    ------
    TypeError, ValueError
        If there is no candidate, or the rate is not rational, or not positive.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> best, size = 10**15, 10**18
    >>> unimodal_choice(
    ...     SeededSource(0),
    ...     size,
    ...     within=lambda far: (max(best - far, 0), min(best + far + 1, size)),
    ...     gap=lambda index: abs(index - best),
    ...     rate=Fraction(1, 1000),
    ... )
    1000000000000365
    """
    # Rejection sampling by bands: band t has the candidates with ``gap * rate`` from t
    # log(2) to (t + 1) log(2), or a little more, and so with a weight ``exp(-gap *
    # rate)`` of at most 2**-t. One of them is proposed with a probability in proportion
    # to 2**-t, and accepted if a uniform number below 2**-t is below its weight: in
    # about half of the cases or more. The last band has all candidates that are left,
    # which are rarely accepted: together they are proposed at most 2**-20 times as
    # often as the best one.
    size = check_positive_int("size", size)
    rate = check_rational("rate", rate)
    ranges: list[tuple[int, int]] = []
    for band in range(size.bit_length() + 20):
        ranges.append(within(math.ceil((band + 1) * _HALVING / rate) - 1))
        if ranges[-1] == (0, size):
            break
    else:
        ranges.append((0, size))

    # A band is what its range has on both sides of the one before. Its weight is its
    # size times 2**-band, in units of the last band's.
    inner = [(ranges[0][0], ranges[0][0]), *ranges[:-1]]
    last_band = len(ranges) - 1
    ends = [0]
    for band, (start, stop) in enumerate(ranges):
        inner_start, inner_stop = inner[band]
        n_candidates = stop - start - (inner_stop - inner_start)
        ends.append(ends[-1] + (n_candidates << last_band - band))
    while True:
        with watched(None):
            place = int(uniform_below(source, np.array([ends[-1]], object))[0])
        band = bisect_right(ends, place) - 1
        index = ranges[band][0] + (place - ends[band] >> last_band - band)
        inner_start, inner_stop = inner[band]
        if index >= inner_start:
            index += inner_stop - inner_start
        weight = partial(exp_minus_bounds, gap(index) * rate)
        if Uniform(source, 0, band).is_below(weight):
            return seen("exponential_mechanism", index, scores=scores, rate=rate)


def _gaps(scores: ArrayLike) -> NDArray:
    """Return how far each score is below the best."""
    scores = check_integers("scores", scores)
    if scores.size == 0:
        raise ValueError("scores must have at least one candidate")
    best = int(scores.max())
    if best - int(scores.min()) >= 1 << 63:
        scores = scores.astype(object)
    return best - scores
