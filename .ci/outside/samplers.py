"""Compare 10 million draws of integer noise with OpenDP's sampler of the same distribution, and with probabilities.

OpenDP's sampler of discrete Laplace noise has a written proof. Its Gaussian noise has another distribution (discrete
instead of rounded), so that noise is compared with exact probabilities alone. False-alarm rate of each test: 1e-6.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
from scipy.stats import chi2, norm

from skdp.randomness import SecureSource, discrete_laplace, rounded_gaussian

dp.enable_features("contrib", "honest-but-curious")

N_DRAWS, N_AT_ONCE = 10_000_000, 1_000_000
FALSE_ALARM_RATE, MIN_EXPECTED = 1e-6, 20
VECTORS = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")


def count_draws(draw, largest: int) -> np.ndarray:
    """Count the values -largest, ..., largest of 10 million draws; larger absolute values count as `largest`."""
    counts = np.zeros(2 * largest + 1, np.int64)
    for _ in range(N_DRAWS // N_AT_ONCE):
        drawn = np.clip(np.asarray(draw(N_AT_ONCE)).astype(np.int64), -largest, largest)
        counts += np.bincount(drawn + largest, minlength=2 * largest + 1)
    return counts


def compare_with_pmf(counts: np.ndarray, pmf: np.ndarray) -> tuple[float, int]:
    expected = pmf * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum()), len(counts) - 1


def compare_counts(first: np.ndarray, second: np.ndarray) -> tuple[float, int]:
    total = first + second
    used = total > 0
    square = (first - second)[used].astype(float) ** 2
    return float((square / total[used]).sum()), int(used.sum()) - 1


def laplace_pmf(scale: float, largest: int) -> np.ndarray:
    base = math.exp(-1 / scale)
    pmf = (1 - base) / (1 + base) * base ** np.abs(np.arange(-largest, largest + 1))
    pmf[[0, -1]] /= 1 - base
    return pmf


def gaussian_pmf(variance: float, largest: int) -> np.ndarray:
    edges = np.arange(-largest, largest) + 0.5
    below = norm.cdf(edges, scale=math.sqrt(variance))
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


def report(name: str, square: float, freedom: int) -> bool:
    """Print a comparison; return True if it is a finding."""
    p_value = float(chi2.sf(square, freedom))
    print(f"{name} | {N_DRAWS} | {square:.1f} | {freedom} | {p_value:.4f}")
    return p_value < FALSE_ALARM_RATE


def find_largest(law_of, parameter: float) -> int:
    """Return the largest value whose tail has enough expected draws."""
    largest = 1
    while law_of(parameter, largest + 1)[0] * N_DRAWS > MIN_EXPECTED:
        largest += 1
    return largest


def main() -> int:
    print("comparison | draws | chi-square | degrees of freedom | p")
    source, n_findings = SecureSource(), 0
    for scale in (Fraction(1, 2), Fraction(10, 3)):
        largest = find_largest(laplace_pmf, float(scale))
        pmf = laplace_pmf(float(scale), largest)
        ours = count_draws(
            lambda size, scale=scale: discrete_laplace(source, scale, size), largest
        )
        noise = dp.m.make_laplace(*VECTORS, scale=float(scale))
        theirs = count_draws(lambda size, noise=noise: noise([0] * size), largest)
        name = f"discrete Laplace, scale {scale}"
        n_findings += report(f"{name}: skdp, exact", *compare_with_pmf(ours, pmf))
        n_findings += report(f"{name}: OpenDP, exact", *compare_with_pmf(theirs, pmf))
        n_findings += report(f"{name}: skdp, OpenDP", *compare_counts(ours, theirs))
    for variance in (Fraction(1, 3), Fraction(20)):
        largest = find_largest(gaussian_pmf, float(variance))
        pmf = gaussian_pmf(float(variance), largest)
        ours = count_draws(
            lambda size, variance=variance: rounded_gaussian(source, variance, size),
            largest,
        )
        n_findings += report(
            f"rounded Gaussian, variance {variance}: skdp, exact",
            *compare_with_pmf(ours, pmf),
        )
    return n_findings


if __name__ == "__main__":
    sys.exit(main() > 0)
