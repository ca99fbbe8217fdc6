"""What shuffling is worth: errors of counts at a central epsilon, how tight the bound is, and how long it takes.

Run ``make bench``, or ``python benchmarks/shuffle.py`` wherever skdp is installed. Argument: the number of runs.
Tallies of reports are drawn directly, as multinomial counts, from a seed.
"""

from __future__ import annotations

import math
import sys
from functools import partial

import numpy as np
from _timing import best_of, verdict, write_results
from scipy.optimize import brentq
from scipy.stats import binom
from sklearn.datasets import load_digits

from skdp import DPHistogram
from skdp.datasets import load_adult
from skdp.evaluation.report._report import AGE_THRESHOLD
from skdp.oracles import RandomizedResponse
from skdp.privacy import Shuffled, local_epsilon, shuffled_guarantee

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
DELTA = 1e-6
EPSILONS = (0.1, 0.3, 0.5, 1.0, 2.0)
MOST_ERROR, MOST_BOUND, MOST_SECONDS = 1.05, 1.05, 1.0
GRID = [
    (n, k, epsilon)
    for n in (1_000, 45_222, 10**7)
    for k in (3, 4, 30)
    for epsilon in (0.5, 2.0, 4.0, 5.0, 6.0, 8.0)
]


def attained_delta(oracle: RandomizedResponse, n: int, epsilon: float) -> float:
    """Return the delta that an attacker attains who knows that all others hold the same value, for k >= 3.

    If they hold z, it is ``E[(V_1 + ... + V_n)+] / n`` for reports y of z, with ``V = (P(y | x0) - t P(y | x1)) / P(y |
    z)``. Here z is a third value, x0, or x1. The sum is over the number c of reports other than z, and then over those
    of x0 or x1.
    """
    p, q, k, ratio = float(oracle.p), float(oracle.q), oracle.k, math.exp(epsilon)
    c = _likely(n, (k - 1) * q)
    mass = binom.pmf(c, n, (k - 1) * q)
    # Others hold x0, or x1: a report of the other one of both is among c with probability 1 / (k - 1).
    same = (n - c) * (1 - ratio * q / p) + c * (1 - ratio)
    first = mass @ _mean_above(same, ratio * (1 - p / q), c, 1 / (k - 1))
    second = mass @ _mean_above(
        (n - c) * (q / p - ratio) + c * (1 - ratio), p / q - 1, c, 1 / (k - 1)
    )
    # A third value: u reports are of x0 or x1. Where there are many, its reports are not told from what is left.
    u = _likely(n, 2 * q)
    both = u * (1 - ratio * p / q), (1 + ratio) * (p / q - 1), u, 0.5
    if c.size * u.size > 1 << 18:
        left = (n - u) * (k - 2) * q * (1 - ratio) / (1 - 2 * q)
        third = binom.pmf(u, n, 2 * q) @ _mean_above(left + both[0], *both[1:])
    else:
        left = ((n - c) * q / p + c)[:, np.newaxis] * (1 - ratio) - u * (1 - ratio)
        masses = mass[:, np.newaxis] * binom.pmf(u, c[:, np.newaxis], 2 / (k - 1))
        third = (masses * _mean_above(left + both[0], *both[1:])).sum()
    return float(max(first, second, third)) / n


def _likely(n: int, share: float) -> np.ndarray:
    spread = 9 * math.sqrt(n * share * (1 - share)) + 30
    return np.arange(
        max(0, int(n * share - spread)), min(n, int(n * share + spread)) + 1
    )


def _mean_above(
    start: np.ndarray, slope: float, count: np.ndarray, share: float
) -> np.ndarray:
    """Return ``E[(start + slope h)+]`` for binomial h."""
    if slope < 0:  # count the others
        start, slope, share = start + slope * count, -slope, 1 - share
    least = np.floor(-start / slope) + 1
    mean = count * share * binom.sf(least - 2, np.maximum(count - 1, 0), share)
    return slope * mean + start * binom.sf(least - 1, count, share)


def _excess(oracle: RandomizedResponse, n: int, epsilon: float) -> float:
    return math.log(max(attained_delta(oracle, n, epsilon), 1e-300) / DELTA)


def attained_epsilon(oracle: RandomizedResponse, n: int) -> float:
    """Return a lower bound of epsilon after shuffling."""
    most = oracle.epsilon * (1 - 1e-9)
    if _excess(oracle, n, most) > 0:
        return most
    return brentq(lambda epsilon: _excess(oracle, n, epsilon), 1e-9, most, rtol=1e-6)


def most_local(k: int, n: int, epsilon: float) -> float:
    """Return a local epsilon above which the guarantee does not hold, by the attacker of `attained_delta`."""
    return brentq(
        lambda local: _excess(RandomizedResponse(k, local), n, epsilon),
        epsilon * 1.01,
        30.0,
        rtol=1e-6,
    )


def closed_form(epsilon: float, n: int) -> float:
    """Return the bound of Feldman, McMillan and Talwar (2021), theorem 3.1, where it holds."""
    if epsilon > math.log(n / (16 * math.log(2 / DELTA))):
        return math.nan
    spread = (
        4 * math.sqrt(2 * math.log(4 / DELTA)) / math.sqrt((math.exp(epsilon) + 1) * n)
        + 4 / n
    )
    return math.log(1 + math.expm1(epsilon) * spread)


def measured(
    oracle: RandomizedResponse, counts: np.ndarray, rng: np.random.Generator
) -> float:
    """Return the root mean square L2 error of estimates from tallies of reports."""
    n, k = int(counts.sum()), counts.size
    rows = np.full((k, k), float(oracle.q))
    np.fill_diagonal(rows, float(oracle.p))
    tallies = sum(
        rng.multinomial(count, row / row.sum(), RUNS)
        for count, row in zip(counts, rows, strict=True)
    )
    estimates = np.array([oracle.estimate(tally, n) for tally in tallies])
    return float(np.sqrt(((estimates - counts) ** 2).sum(axis=1).mean()))


def by_curator(codes: np.ndarray, counts: np.ndarray, epsilon: float) -> float:
    """Return the root mean square L2 error of a curator's histogram."""
    table, errors = codes[:, np.newaxis], []
    for seed in range(max(1, RUNS // 10)):
        histogram = DPHistogram(
            epsilon, domain=[list(range(counts.size))], random_state=seed
        ).fit(table)
        errors.append(((histogram.counts_ - counts) ** 2).sum())
    return math.sqrt(np.mean(errors))


def errors(name: str, codes: np.ndarray) -> list[list[str]]:
    """Compare the three models on the counts of one table."""
    counts, rng = np.bincount(codes), np.random.default_rng(0)
    n, k, rows = len(codes), counts.size, []
    for epsilon in EPSILONS:
        found = Shuffled(epsilon, DELTA, n).local_epsilon(
            lambda local: (RandomizedResponse(k, local).shuffle_pair(),)
        )
        limit = RandomizedResponse(k, most_local(k, n, epsilon))
        least = float(np.sqrt(limit.variance(counts, n).sum()))
        local = measured(RandomizedResponse(k, epsilon), counts, rng)
        shuffled = measured(RandomizedResponse(k, found), counts, rng)
        # The mean of RUNS squared errors has a relative error itself: three standard errors of it.
        target = MOST_ERROR * least * (1 + 3 / math.sqrt(2 * RUNS))
        numbers = shuffled, least, by_curator(codes, counts, epsilon)
        rows.append(
            [
                name,
                f"{epsilon:g}",
                f"{found:.3f}",
                f"{local:,.1f}",
                *(f"{one:,.2f}" for one in numbers),
            ]
        )
        rows[-1].append(verdict(shuffled <= target))
        print(rows[-1], flush=True)
    return rows


def bounds() -> list[list[str]]:
    """Compare the bound with what is attained, and with the closed form."""
    rows = []
    for n, k, epsilon in GRID:
        oracle = RandomizedResponse(k, epsilon)
        attained, bound = (
            attained_epsilon(oracle, n),
            shuffled_guarantee(oracle, n, DELTA).epsilon,
        )
        published = closed_form(epsilon, n)
        shown = "–" if math.isnan(published) else f"{published:.5f}"
        met = attained <= bound <= MOST_BOUND * attained and not published < bound
        rows.append(
            [
                f"{n:,}",
                str(k),
                f"{epsilon:g}",
                f"{attained:.5f}",
                f"{bound:.5f}",
                f"{bound / attained:.4f}",
                shown,
            ]
        )
        rows[-1].append(verdict(met))
        print(rows[-1], flush=True)
    return rows


def times() -> list[list[str]]:
    """Time a guarantee and its inversion; each call has another epsilon, as results are kept."""
    rows, rest = [], iter(range(1, 10_000))
    make = partial(RandomizedResponse, 4)
    for n in (1_000, 10**5, 10**8):
        calls = {
            "shuffled_guarantee": lambda n=n: shuffled_guarantee(
                make(2 + next(rest) * 1e-6), n, DELTA
            ),
            "local_epsilon": lambda n=n: local_epsilon(
                0.3 + next(rest) * 1e-6, DELTA, n, make
            ),
        }
        for name, seconds in best_of(calls, 5).items():
            rows.append(
                [name, f"{n:,}", f"{seconds:.2f}", verdict(seconds < MOST_SECONDS)]
            )
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    adult = load_adult(subset="all", dropna=True).data
    codes = 2 * (adult["age"].to_numpy() > AGE_THRESHOLD) + (
        adult["sex"].to_numpy() == "Male"
    )
    digits = load_digits().target
    columns = [
        "table",
        "central ε",
        "local ε found",
        "local model",
        "shuffled",
        "least possible",
        "curator",
    ]
    tables = {
        "Errors of counts": (
            [*columns, "target met?"],
            errors("Adult, age × sex", codes) + errors("digits", digits),
        ),
        "How tight it is": (
            [
                "n",
                "k",
                "local ε",
                "attained",
                "bound",
                "ratio",
                "closed form of 2021",
                "target met?",
            ],
            bounds(),
        ),
        "Time": (["what", "n", "seconds", "target met?"], times()),
    }
    write_results(
        "shuffle",
        "What shuffling is worth",
        ("skdp", "numpy", "scipy"),
        f"k-ary randomised response, δ = {DELTA:g}. Errors of counts: root mean square L2 errors over {RUNS:,} runs (a "
        f"tenth of it for the curator, who protects adding or removing a record by ε alone), of Adult's {len(codes):,} "
        f"rows without missing values (over {AGE_THRESHOLD} or not, by sex) and of scikit-learn's {len(digits):,} "
        "digits. In the local model ε is that of each report; shuffled, it is that of the tally, and the local one is "
        "the largest that is proven to reach it. Least possible: with the largest local ε that no attacker refutes who "
        "knows that all others hold the same value; shuffled counts should have 1.05 times its error at most, up to "
        "three standard errors. The bound should be at most 1.05 times the epsilon that this attacker attains, and "
        "below the closed form of Feldman, McMillan and Talwar (2021), where that holds.",
        tables,
    )


if __name__ == "__main__":
    main()
