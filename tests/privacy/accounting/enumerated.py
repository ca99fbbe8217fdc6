"""The distribution of the privacy loss by enumeration, in integers: a lower bound of delta, within 2**-250."""

import random
from fractions import Fraction

from skdp.exact import exp_bounds
from skdp.privacy import PureLoss, StatedLoss

BITS = 320
ONE = 1 << BITS


def exp(exponent):
    """Return e to a fraction, within 2**-300."""
    exponent = Fraction(exponent)
    return exp_bounds(exponent)[0] if exponent >= 0 else 1 / exp_bounds(-exponent)[1]


def pair_of(loss):
    """Return the losses of one release as {loss: probability}, exactly up to 2**-300."""
    epsilon = Fraction(loss.epsilon)
    share = Fraction(getattr(loss, "share", 1))
    likelier = exp(epsilon) / (1 + exp(epsilon))
    pair = {}
    for value, mass in ((epsilon, share * likelier), (-epsilon, share * (1 - likelier)), (Fraction(0), 1 - share)):
        pair[value] = pair.get(value, Fraction(0)) + mass  # an epsilon of 0 has one value
    return pair


def outcomes_of(losses):
    """Return {total loss: (P, Q)} of all releases together, P rounded down and Q up, in units of 2**-BITS."""
    total = {Fraction(0): (ONE, ONE)}
    for loss in losses:
        pair = {}
        for value, mass in pair_of(loss).items():
            other = mass * exp(-value)
            pair[value] = (int(mass * ONE), int(other * ONE * (1 + Fraction(1, 1 << 290))) + 1)
        for _ in range(loss.count):
            sums = {}
            for before, (p, q) in total.items():
                for value, (p_more, q_more) in pair.items():
                    known = sums.get(before + value, (0, 0))
                    sums[before + value] = (known[0] + (p * p_more >> BITS), known[1] - (-q * q_more >> BITS))
            total = sums
    return total


def true_delta(losses, epsilon, outcomes=None):
    """Return a lower bound of delta of all losses together, their failures included."""
    outcomes = outcomes_of(losses) if outcomes is None else outcomes
    spared = Fraction(1)
    for loss in losses:
        spared *= (1 - Fraction(getattr(loss, "delta", 0))) ** loss.count
    numerator, denominator = (exp(epsilon) * (1 + Fraction(1, 1 << 290))).as_integer_ratio()
    excess = sum(max(0, p * denominator - numerator * q) for p, q in outcomes.values())
    return 1 - spared + spared * Fraction(excess, denominator * ONE)


def small_mix(seed):
    """Return some losses of different sizes, drawn with a seed."""
    drawn = random.Random(seed)
    kinds = [
        lambda size: PureLoss(size, count=drawn.randint(1, 3)),
        lambda size: PureLoss(size, share=drawn.random(), count=drawn.randint(1, 3)),
        lambda size: PureLoss(size, share=drawn.random() ** 9, count=drawn.randint(1, 3)),
        lambda size: StatedLoss(size, drawn.choice([0.0, 1e-3])),
    ]
    sizes = [0.1, 0.5, 1e-4, 12.0, drawn.uniform(0, 3)]
    return [drawn.choice(kinds)(drawn.choice(sizes)) for _ in range(drawn.randint(1, 4))]
