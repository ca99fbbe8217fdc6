"""How much a report of a number varies, next to a bound for every unbiased report, and how long one takes.

Run ``make bench``, or ``python benchmarks/numeric_mechanisms.py`` wherever skdp is installed. Variances are exact. The
bound is the dual of the linear program at 49 nodes, less the square of half their distance: by so much less than at
two nodes may a report vary between them.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
from _timing import best_of, verdict, write_results

from skdp.oracles import ClampedLaplace, Duchi, Hybrid, Optimal, Piecewise, SquareWave
from skdp.oracles.numeric._program import best_plan
from skdp.randomness import SecureSource

STEPS, NODES, SIZE, TURNS = 1024, 48, 1_000_000, 5
MOST = {0.5: 16.01, 1.0: 3.994, 2.0: 0.869, 4.0: 0.1285, 6.0: 0.0281}
RIVALS = (Hybrid, Duchi, Piecewise, SquareWave, ClampedLaplace)


def worst(make: type, epsilon: float) -> float:
    """Return the largest variance, also between positions, for the bounds -1 and 1."""
    positions = np.linspace(0, STEPS, 4 * STEPS + 1)
    return float(make(STEPS, epsilon).variances(positions).max() / (STEPS / 2) ** 2)


def row(epsilon: float, most: float) -> list[str]:
    """Measure at an epsilon."""
    start = time.perf_counter()
    optimal = Optimal(STEPS, epsilon)
    solved, own = time.perf_counter() - start, worst(Optimal, epsilon)
    bound = best_plan(tuple(np.linspace(-1, 1, NODES + 1).tolist()), epsilon, 1e-3).lower_bound - 1 / NODES**2
    positions = np.random.default_rng(0).integers(0, STEPS + 1, SIZE)
    drawn = {"optimal": optimal, "hybrid": Hybrid(STEPS, epsilon)}
    times = best_of({name: partial(one.report, positions, SecureSource()) for name, one in drawn.items()}, TURNS)
    cells = [f"{epsilon:g}", f"{own:.4g}", f"{bound:.4g}", f"{own / bound - 1:.1%}", verdict(own <= most)]
    cells += [f"{worst(make, epsilon) / own:.2f}" for make in RIVALS]
    return [
        *cells,
        f"{solved:.1f}",
        f"{times['optimal'] / SIZE * 1e9:.0f}",
        f"{times['optimal'] / times['hybrid']:.1f}",
    ]


def main() -> None:
    columns = ("epsilon", "Optimal", "no unbiased report has less than", "gap", "as low as wanted?")
    columns += tuple(f"{make.__name__} / Optimal" for make in RIVALS)
    columns += ("solved in s", "ns a report", "time / Hybrid")
    write_results(
        "numeric_mechanisms",
        "Mechanisms for numbers",
        ("skdp", "numpy", "scipy"),
        f"The largest variance of a report of a number in -1 ... 1, on a grid of {STEPS:,} steps and between its "
        "positions.",
        {"Variances": (columns, [row(epsilon, most) for epsilon, most in MOST.items()])},
    )


if __name__ == "__main__":
    main()
