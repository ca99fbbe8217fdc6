"""Compare composition and shuffling with dp-accounting, and bounds of attacks with riskcal.

The optimistic estimate of dp-accounting is a lower bound of the true epsilon, up to its discretization, and riskcal
computes the success of the best attack from it. No stated number may be below it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld
from riskcal.analysis import get_advantage_from_pld, get_beta_from_pld
from scipy.stats import binom

from skdp import PrivacyGuarantee
from skdp.oracles import RandomizedResponse
from skdp.privacy import (
    GaussianLoss,
    PureLoss,
    compose,
    gaussian_epsilon,
    laplace_loss,
    shuffled_guarantee,
)

N_CASES = 100
# Lower bounds are computed with logarithms of floats.
ROUNDING = 1e-6
OPTIONS = {"value_discretization_interval": 1e-4, "pessimistic_estimate": False}
# A long chain of small changes, which is nearly continuous noise.
CHAIN = 1 << 20

rng = np.random.default_rng(2026)


def draw_epsilon(low: float, high: float) -> float:
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


def draw_delta() -> float:
    return float(10 ** rng.uniform(-10, -2))


def compare_gaussian() -> tuple[float, float]:
    mu, delta = draw_epsilon(0.05, 5), draw_delta()
    lower = pld.from_gaussian_mechanism(1 / mu, **OPTIONS).get_epsilon_for_delta(delta)
    return lower, gaussian_epsilon(mu, delta)


def draw_releases(delta: float) -> tuple[list[PrivacyGuarantee], Any]:
    """Draw numbers of Laplace, Gaussian and k-ary randomized response releases, and compose them by dp-accounting."""
    stated, distributions = [], []
    for kind in rng.choice(["laplace", "gaussian", "response"], rng.integers(1, 4)):
        epsilon, n_releases = draw_epsilon(0.05, 1), int(rng.integers(1, 20))
        if kind == "laplace":
            guarantee = PrivacyGuarantee(
                epsilon, losses=(laplace_loss(Fraction(epsilon), CHAIN),)
            )
            one = pld.from_laplace_mechanism(1 / epsilon, **OPTIONS)
        elif kind == "gaussian":
            known = gaussian_epsilon(epsilon, delta / 40)
            guarantee = PrivacyGuarantee(
                known, delta=delta / 40, losses=(GaussianLoss(epsilon),)
            )
            one = pld.from_gaussian_mechanism(1 / epsilon, **OPTIONS)
        else:
            k = int(rng.integers(2, 20))
            rest = math.exp(epsilon) + k - 1
            share = (math.exp(epsilon) + 1) / rest
            guarantee = PrivacyGuarantee(
                epsilon, losses=(PureLoss(epsilon, share=min(1.0, share)),)
            )
            one = pld.from_randomized_response(k / rest, k, **OPTIONS)
        stated += [guarantee] * n_releases
        distributions.append(one.self_compose(n_releases))
    return stated, reduce(lambda first, second: first.compose(second), distributions)


def compare_composition() -> tuple[float, float]:
    delta = draw_delta()
    stated, composed = draw_releases(delta)
    return composed.get_epsilon_for_delta(delta), compose(stated, delta=delta).epsilon


def compare_guess() -> tuple[float, float]:
    """Compare the total variation, which determines the best guess."""
    stated, composed = draw_releases(1e-6)
    total = compose(stated, delta=1e-6)
    return float(get_advantage_from_pld(composed)), 2 * total.guess_probability - 1


def compare_true_positives() -> tuple[float, float]:
    """Compare the true positive rate at a false positive rate between 0.1 and 10 %."""
    stated, composed = draw_releases(1e-6)
    rate = float(10 ** rng.uniform(-3, -1))
    return find_power(composed, rate), compose(stated, delta=1e-6).true_positive_rate(
        rate
    )


def find_power(composed: Any, rate: float) -> float:
    """Return the true positive rate of the best test of riskcal, or of a coin that chooses between two tests."""
    low = np.append(0, np.geomspace(rate / 1000, rate, 200))
    high = np.append(np.geomspace(rate, 1, 200), 1)
    at_low, at_high = (
        1 - get_beta_from_pld(composed, alpha=rates) for rates in (low, high)
    )
    weights = (high - rate) / np.maximum(high - low[:, None], 1e-300)
    return float((weights * at_low[:, None] + (1 - weights) * at_high).max())


def compare_shuffled_pair() -> tuple[float, float]:
    """Return the epsilon of a record among n equal records, a lower bound, and the epsilon of `shuffled_guarantee`.

    The shuffled bits are equivalent to their sum, whose two distributions are known.
    """
    n, delta = int(rng.integers(50, 2_000)), float(10 ** rng.uniform(-8, -3))
    oracle = RandomizedResponse(2, draw_epsilon(0.2, 3))
    lie = float(oracle.lie / 2)
    ones = np.arange(n + 1)
    others = binom(n - 1, lie)
    zero = lie * others.pmf(ones - 1) + (1 - lie) * others.pmf(ones)
    one = (1 - lie) * others.pmf(ones - 1) + lie * others.pmf(ones)
    lower = max(find_epsilon(one, zero, delta), find_epsilon(zero, one, delta))
    return lower, shuffled_guarantee(oracle, n=n, delta=delta).epsilon


def find_epsilon(first: np.ndarray, second: np.ndarray, delta: float) -> float:
    """Return the epsilon at which dp-accounting finds the delta of two discrete distributions."""
    pair = dict(enumerate(zip(first, second, strict=True)))
    kept = {value: (p, q) for value, (p, q) in pair.items() if p > 0 and q > 0}
    distribution = pld.from_two_probability_mass_functions(
        {value: math.log(p) for value, (p, _) in kept.items()},
        {value: math.log(q) for value, (_, q) in kept.items()},
        **OPTIONS,
    )
    return distribution.get_epsilon_for_delta(delta)


COMPARISONS: dict[str, Callable[[], tuple[float, float]]] = {
    "gaussian_epsilon": compare_gaussian,
    "compose": compare_composition,
    "guess_probability": compare_guess,
    "true_positive_rate": compare_true_positives,
    "shuffled_guarantee": compare_shuffled_pair,
}


def main() -> int:
    """Print a line per function; return the number of stated numbers below a lower bound."""
    print(
        "function | cases | stated / lower bound: smallest | median | largest | below"
    )
    n_below = 0
    for name, compare in COMPARISONS.items():
        ratios, below = [], 0
        for _ in range(N_CASES):
            lower, stated = compare()
            below += stated < lower * (1 - ROUNDING)
            if lower > 0:
                ratios.append(stated / lower)
        n_below += below
        values = f"{min(ratios):.5f} | {np.median(ratios):.5f} | {max(ratios):.3f}"
        print(f"{name} | {N_CASES} | {values} | {below}")
    return n_below


if __name__ == "__main__":
    sys.exit(main() > 0)
