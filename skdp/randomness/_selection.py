"""Exact permute-and-flip and exponential mechanism: the choice of a candidate of high score."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.randomness._draws import check_integers, check_rational, uniform_integers
from skdp.randomness._real import bernoulli_exp
from skdp.randomness._sources import ByteSource
from skdp.randomness._watch import seen, watched

_FIRST_TRIES = 1 << 10
_MOST_TRIES = 1 << 20


def permute_and_flip(source: ByteSource, scores: ArrayLike, rate: Fraction | int) -> int:
    """Choose a candidate of a high score by permute-and-flip.

    The mechanism goes through the candidates in random order, and stops at the first one whose coin, of probability
    ``e**(-rate * (best - score))``, shows heads ([1]_, algorithm 1). The coins do not depend on the order: all are
    tossed, and one of the heads is chosen uniformly.

    With ``rate = epsilon / (2 * sensitivity)``, the choice is epsilon-differentially private (without the 2 if one row
    can only raise the scores, or only lower them); in expectation it is never worse than the exponential mechanism's.

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
        If the scores are not integers, there are none, or the rate is not rational, or negative.

    References
    ----------
    .. [1] R. McKenna, D. Sheldon (2020). Permute-and-flip: a new mechanism for differentially private selection.
       NeurIPS.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> permute_and_flip(SeededSource(0), [10, 40, 20], Fraction(1, 2))
    1
    """
    heads = np.flatnonzero(bernoulli_exp(source, _gaps(scores), rate))
    with watched(None):
        choice = int(heads[uniform_integers(source, heads.size, 1)[0]])
    return seen("permute_and_flip", choice, scores=scores, rate=rate)


def exponential_mechanism(source: ByteSource, scores: ArrayLike, rate: Fraction | int) -> int:
    """Choose a candidate with probability exactly proportional to ``e**(rate * score)``.

    A candidate is drawn uniformly and accepted with probability ``e**(-rate * (best - score))``, until one is accepted.
    With ``rate = epsilon / (2 * sensitivity)``, the choice is epsilon-differentially private (without the 2 if one row
    can only raise the scores, or only lower them) ([1]_). The number of tries, and with it the run time, depends on the
    scores, unlike that of `permute_and_flip`.

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
    .. [1] F. McSherry, K. Talwar (2007). Mechanism design via differential privacy. FOCS.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> exponential_mechanism(SeededSource(0), [10, 40, 20], Fraction(1, 2))
    1
    """
    gaps, rate = _gaps(scores), check_rational("rate", rate, zero=True)
    tries = _FIRST_TRIES
    while True:
        with watched(None):
            drawn = uniform_integers(source, gaps.size, tries)
        taken = np.flatnonzero(bernoulli_exp(source, gaps[drawn], rate))
        if taken.size:
            return seen("exponential_mechanism", int(drawn[taken[0]]), scores=scores, rate=rate)
        tries = min(2 * tries, _MOST_TRIES)


def _gaps(scores: ArrayLike) -> NDArray:
    """Return how far each score is below the best."""
    scores = check_integers("scores", scores)
    if scores.size == 0:
        raise ValueError("scores must have at least one candidate")
    best = int(scores.max())
    if best - int(scores.min()) >= 1 << 63:
        scores = scores.astype(object)
    return best - scores
