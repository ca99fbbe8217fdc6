"""Compare stated losses with the privacy maps of OpenDP for 1,000 random parameters of each mechanism.

OpenDP rounds its maps up, so a loss that skdp states may be below the map by a few units in the last place only.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pandas as pd
from sklearn.base import BaseEstimator, clone

from skdp import DPHistogram, DPSimpleImputer, PrivacyGuarantee
from skdp.oracles import RandomizedResponse, UnaryEncoding
from skdp.privacy import Rho, compose, zcdp_epsilon
from skdp.randomness import watch_draws

dp.enable_features("contrib", "honest-but-curious")

N_PARAMETERS = 1_000
INTEGERS = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
COUNTS = (
    dp.vector_domain(dp.atom_domain(T="i64")),
    dp.linf_distance(T="i64", monotonic=True),
)
# Relative errors of floats: of OpenDP's logarithms and of probabilities passed as floats.
ROUNDING = 1e-9

rng = np.random.default_rng(2026)


def draw_epsilon() -> float:
    return float(np.exp(rng.uniform(math.log(0.01), math.log(10))))


def draw_delta() -> float:
    return float(10 ** rng.uniform(-12, -2))


def compare_responses() -> tuple[float, float]:
    """Return OpenDP's and the stated epsilon of k-ary randomized response with the drawn probabilities."""
    k = int(rng.integers(2, 200))
    oracle = RandomizedResponse(k, draw_epsilon())
    kept = float(1 - oracle.lie * Fraction(k - 1, k))
    categories = [str(value) for value in range(k)]
    response = dp.m.make_randomized_response(categories=categories, prob=kept)
    return response.map(1), oracle.epsilon


def compare_bits() -> tuple[float, float]:
    """Return the sum of OpenDP's maps of two bits, and the stated epsilon of symmetric unary encoding."""
    oracle = UnaryEncoding(
        int(rng.integers(2, 200)), draw_epsilon(), variant="symmetric"
    )
    response = dp.m.make_randomized_response_bool(
        prob=float(max(oracle.p, 1 - oracle.q))
    )
    return 2 * response.map(1), oracle.epsilon


def fit_and_watch(
    estimator: BaseEstimator, budget: float | Rho
) -> tuple[float, BaseEstimator]:
    """Fit to a table of two rows; return the parameter of the first draw, and the fitted estimator."""
    parameters = []

    def watch(sampler: str, value: Any, arguments: dict[str, Any]) -> Any:
        names = arguments.keys() & {"scale", "variance", "rate"}
        parameters.append(float(arguments[names.pop()]))
        return value

    table = pd.DataFrame({"a": ["x", "y"]})
    with watch_draws(watch):
        estimator = (
            clone(estimator).set_params(epsilon=budget, random_state=0).fit(table)
        )
    return parameters[0], estimator


HISTOGRAM = DPHistogram(domain={"a": ["x", "y"]})
# Counts of values: a record changes one of them, in one direction.
MODE = DPSimpleImputer(strategy="most_frequent", categories={"a": ["x", "y"]})


def compare_laplace() -> tuple[float, float]:
    """Return OpenDP's map of the discrete Laplace noise that a histogram drew, and its epsilon."""
    scale, histogram = fit_and_watch(HISTOGRAM, draw_epsilon())
    return dp.m.make_laplace(*INTEGERS, scale=scale).map(
        1
    ), histogram.guarantee_.epsilon


def compare_gaussian() -> tuple[float, float]:
    """Return OpenDP's rho of the Gaussian noise that a histogram drew, and its rho."""
    variance, histogram = fit_and_watch(HISTOGRAM, Rho(draw_epsilon(), delta=1e-6))
    noise = dp.m.make_gaussian(*INTEGERS, scale=math.sqrt(variance))
    return noise.map(1), histogram.guarantee_.rho


def compare_choice() -> tuple[float, float]:
    """Return OpenDP's map of noisy max with exponential noise, which equals permute-and-flip, and epsilon."""
    rate, imputer = fit_and_watch(MODE, draw_epsilon())
    choice = dp.m.make_noisy_max(*COUNTS, dp.max_divergence(), 1 / rate)
    return choice.map(1), imputer.guarantee_.epsilon


def compare_exponential() -> tuple[float, float]:
    """Return OpenDP's rho of noisy max with Gumbel noise, which is the exponential mechanism, and the stated rho.

    OpenDP bounds it by ``epsilon**2 / 8``. If epsilon exceeds 8, the rho of the pure epsilon is smaller.
    """
    rate, imputer = fit_and_watch(MODE, Rho(draw_epsilon(), delta=1e-6))
    choice = dp.m.make_noisy_max(*COUNTS, dp.zero_concentrated_divergence(), 1 / rate)
    return min(choice.map(1), compute_pure_rho(rate)), imputer.guarantee_.rho


def compute_pure_rho(epsilon: float) -> float:
    """Return the largest Renyi divergence over alpha of randomized response, which dominates all pure mechanisms."""
    alphas = 1 + np.geomspace(1e-4, 1e4, 2_000)
    kept, lie = -np.logaddexp(0, -epsilon), -np.logaddexp(0, epsilon)
    moments = np.logaddexp(
        alphas * kept + (1 - alphas) * lie, alphas * lie + (1 - alphas) * kept
    )
    return float((moments / (alphas - 1) / alphas).max())


def compare_conversion() -> tuple[float, float]:
    """Return the epsilon of a rho at a delta, by OpenDP and by skdp."""
    rho, delta = draw_epsilon(), draw_delta()
    gaussian = dp.m.make_gaussian(*INTEGERS, scale=math.sqrt(1 / (2 * rho)))
    curve = dp.c.make_zCDP_to_approxDP(gaussian).map(1)
    return curve.epsilon(delta), zcdp_epsilon(rho, delta)


def compare_composition() -> tuple[float, float]:
    """Return the epsilon of several pure releases, by OpenDP's composition and by `compose` without a delta."""
    epsilons = [draw_epsilon() for _ in range(rng.integers(2, 8))]
    releases = [dp.m.make_laplace(*INTEGERS, scale=1 / epsilon) for epsilon in epsilons]
    composed = compose(PrivacyGuarantee(epsilon) for epsilon in epsilons)
    return dp.c.make_composition(releases).map(1), composed.epsilon


Comparison = Callable[[], tuple[float, float]]
COMPARISONS: dict[str, Comparison] = {
    "randomized response": compare_responses,
    "symmetric unary encoding": compare_bits,
    "discrete Laplace noise of DPHistogram": compare_laplace,
    "Gaussian noise of DPHistogram (rho)": compare_gaussian,
    "permute-and-flip of DPSimpleImputer": compare_choice,
    "exponential mechanism of DPSimpleImputer (rho)": compare_exponential,
    "epsilon of rho at a delta": compare_conversion,
    "composition without delta": compare_composition,
}


def main() -> int:
    """Print a line per mechanism; return the number of stated losses below OpenDP's."""
    print("mechanism | parameters | stated / OpenDP: smallest | largest | below")
    n_below = 0
    for name, compare in COMPARISONS.items():
        ratios = []
        for _ in range(N_PARAMETERS):
            other, stated = compare()
            ratios.append(stated / other)
        below = sum(ratio < 1 - ROUNDING for ratio in ratios)
        n_below += below
        print(
            f"{name} | {N_PARAMETERS} | {min(ratios):.12f} | {max(ratios):.6f} | {below}"
        )
    return n_below


if __name__ == "__main__":
    sys.exit(main() > 0)
