"""How much a report of a number varies, next to a bound for every unbiased report, and how long one takes.

Run ``make bench``, or ``python benchmarks/numeric_mechanisms.py`` wherever skdp is installed. Variances are exact. The
bound is the dual of the linear program at 49 nodes, less the square of half their distance: by so much less than at
two nodes may a report vary between them. Mechanisms of the literature that skdp does not have are in closed form,
without a grid: J. Duchi et al. (2018), JASA 113(521), and N. Wang et al. (2019), ICDE.
"""

from __future__ import annotations

import math
import time
from functools import partial

import numpy as np
from _timing import best_of, verdict, write_results

from skdp.oracles import ClampedLaplace, NumericMechanism, Optimal, Windows
from skdp.oracles._optimal_mechanism import best_plan
from skdp.randomness import SecureSource

STEPS, NODES, SIZE, TURNS = 1024, 48, 1_000_000, 5
MOST = {0.5: 16.01, 1.0: 3.994, 2.0: 0.869, 4.0: 0.1285, 6.0: 0.0281}
RIVALS = ("hybrid", "Duchi", "piecewise", "square wave", "clamped Laplace")


def worst(mechanism: NumericMechanism) -> float:
    """Return the largest variance, also between positions, for the bounds -1 and 1."""
    positions = np.linspace(0, STEPS, 4 * STEPS + 1)
    return float(mechanism.variances(positions).max() / (STEPS / 2) ** 2)


def worst_of_rivals(epsilon: float) -> list[float]:
    """Return the largest variances of the rivals, for the bounds -1 and 1."""
    half = math.exp(epsilon / 2)
    duchi = ((half**2 + 1) / (half**2 - 1)) ** 2
    piecewise = 4 * half / (3 * (half - 1) ** 2)
    # With the piecewise mechanism's share of 1 - 1 / half, the variance is the same for every number.
    mixed = (1 - 1 / half) * (half + 3) / (3 * (half - 1) ** 2) + duchi / half
    hybrid = mixed if epsilon > 0.61 else duchi
    window = Windows(STEPS, epsilon, repeating=False)
    return [
        hybrid,
        duchi,
        piecewise,
        worst(window),
        worst(ClampedLaplace(STEPS, epsilon)),
    ]


def row(epsilon: float, most: float) -> list[str]:
    """Measure at an epsilon."""
    start = time.perf_counter()
    optimal = Optimal(STEPS, epsilon)
    solved, own = time.perf_counter() - start, worst(optimal)
    bound = (
        best_plan(
            tuple(np.linspace(-1, 1, NODES + 1).tolist()), epsilon, 1e-3
        ).lower_bound
        - 1 / NODES**2
    )
    positions = np.random.default_rng(0).integers(0, STEPS + 1, SIZE)
    drawn = {"optimal": optimal, "laplace": ClampedLaplace(STEPS, epsilon)}
    times = best_of(
        {
            name: partial(one.report, positions, SecureSource())
            for name, one in drawn.items()
        },
        TURNS,
    )
    cells = [
        f"{epsilon:g}",
        f"{own:.4g}",
        f"{bound:.4g}",
        f"{own / bound - 1:.1%}",
        verdict(own <= most),
    ]
    cells += [f"{variance / own:.2f}" for variance in worst_of_rivals(epsilon)]
    return [
        *cells,
        f"{solved:.1f}",
        f"{times['optimal'] / SIZE * 1e9:.0f}",
        f"{times['optimal'] / times['laplace']:.1f}",
    ]


def main() -> None:
    columns = (
        "epsilon",
        "Optimal",
        "no unbiased report has less than",
        "gap",
        "as low as wanted?",
    )
    columns += tuple(f"{rival} / Optimal" for rival in RIVALS)
    columns += ("solved in s", "ns a report", "time / ClampedLaplace")
    write_results(
        "numeric_mechanisms",
        "Mechanisms for numbers",
        ("skdp", "numpy", "scipy"),
        f"The largest variance of a report of a number in -1 ... 1, on a grid of {STEPS:,} steps and between its "
        "positions.",
        {
            "Variances": (
                columns,
                [row(epsilon, most) for epsilon, most in MOST.items()],
            )
        },
    )


if __name__ == "__main__":
    main()
