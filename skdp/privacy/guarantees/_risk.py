"""Success of the best attack on a release: bounds of a guess and of the trade-off curve."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import Floats
from skdp.privacy.guarantees._accountant import find_profile
from skdp.privacy.guarantees._conversions import zcdp_epsilon
from skdp.privacy.guarantees._losses import Loss, StatedLoss

# Let a test of two neighboring inputs have the false positive rate a and the true positive
# rate t. A release that is (epsilon, delta)-private for both directions has
#
# - t <= delta + e**epsilon * a, the definition for the event "positive", and
# - t <= 1 - e**-epsilon * (1 - delta - a), the definition for the event "negative".
#
# All pairs (epsilon, delta) hold at once, so the smallest of these bounds holds for each a
# (J. Dong, A. Roth, W. J. Su 2022, proposition 2.5: for all pairs it is the trade-off
# function). A guess between two equally likely inputs is correct with the probability (1 -
# a + t) / 2, at most (e**epsilon + delta) / (1 + e**epsilon) by both lines (P. Kairouz,
# S. Oh, P. Viswanath 2017). At epsilon 0, delta is the total variation.

# Deltas at which a rho is converted.
_DELTAS = [10.0**-digits for digits in range(1, 9)]

# Bound of the rounding errors of an exponential, a product and a sum.
_MARGIN = 2.0**-48


@lru_cache(maxsize=256)
def list_pairs(stated: StatedLoss, losses: tuple[Loss, ...]) -> tuple[Floats, Floats]:
    """Return epsilons and deltas that hold for a release with a stated loss and the losses of its parts."""
    pairs = [*find_profile(losses or [stated]), (stated.epsilon, stated.delta)]
    if stated.rho is not None:
        # By Pinsker's inequality, the total variation is at most sqrt(rho / 2).
        pairs.append((0.0, math.sqrt(stated.rho / 2) * (1 + _MARGIN)))
        pairs += [(zcdp_epsilon(stated.rho, delta), delta) for delta in _DELTAS]
    # e**710 is not a float, and such a pair hardly limits an attack.
    epsilons, deltas = np.array([(0, 1), *(x for x in pairs if x[0] < 700)]).T
    return epsilons, deltas


def bound_guess(stated: StatedLoss, losses: tuple[Loss, ...] = ()) -> float:
    """Return the largest success probability of a guess between two equally likely neighboring inputs."""
    epsilons, deltas = list_pairs(stated, losses)
    powers = np.exp(epsilons)
    bounds = (powers + deltas) / (1 + powers) * (1 + _MARGIN)
    return min(1.0, float(bounds.min()))


def bound_true_positives(
    stated: StatedLoss, losses: tuple[Loss, ...], false_positives: ArrayLike
) -> Floats:
    """Return the largest true positive rate of a test for each false positive rate."""
    rates = np.asarray(false_positives, dtype=float)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError("`false_positive_rate` must be in [0, 1], got another number.")
    epsilons, deltas = list_pairs(stated, losses)
    column = rates[..., None]
    positive = (deltas + np.exp(epsilons) * column) * (1 + _MARGIN)
    negative = 1 - np.exp(-epsilons) * (1 - deltas - column) + _MARGIN
    return np.clip(np.minimum(positive, negative).min(axis=-1), 0, 1)
