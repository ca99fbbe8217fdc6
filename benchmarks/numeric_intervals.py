"""Coverage and width of the intervals of estimated distributions, on populations that are smooth, spiky, or both.

Run ``python benchmarks/numeric_intervals.py [--repeats 5]``. In each repeat, records are drawn from a population whose
shares of ten bins are known, and reported again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from _timing import write_results
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from skdp import NumericPerturber
from skdp.datasets import load_adult

Floats = NDArray[np.float64]

BINS, LEVEL = 10, 0.95
EPSILONS, SIZES = (0.5, 1.0, 2.0, 4.0), (2_000, 20_000)
MECHANISMS = ("square_wave", "distribution", "optimal", "laplace")
POPULATION = 1_000_000
EDGE_VALUES, EDGE_SHARES = (10.0, 20.0, 50.0, 60.0, 90.0), (0.1, 0.4, 0.2, 0.2, 0.1)


def _column(name: str, high: float) -> Floats:
    values = load_adult().frame[name].to_numpy(float)
    return np.clip(values * (100 / high), 0, 100)


def _spiky(rng: np.random.Generator, size: int) -> Floats:
    """Draw numbers of which half are one of three values, two of them near an edge of a bin."""
    smooth = 100 * rng.beta(2, 2, size)
    spikes = rng.choice([33.0, 49.9, 70.1], size)
    return np.where(rng.random(size) < 0.5, spikes, smooth)


def populations() -> dict[str, Callable[[np.random.Generator, int], Floats]]:
    """Return what draws numbers from 0 to 100."""
    drawn = {
        "Adult: hours": _column("hours-per-week", 100),
        "Adult: age": _column("age", 100),
        "Adult: capital gain": _column("capital-gain", 20_000),
    }
    found: dict[str, Callable[[np.random.Generator, int], Floats]] = {
        name: partial(np.random.Generator.choice, a=values)
        for name, values in drawn.items()
    }
    found["log-normal"] = lambda rng, size: np.minimum(
        rng.lognormal(2.5, 0.8, size), 100
    )
    found["values at edges"] = lambda rng, size: rng.choice(
        EDGE_VALUES, size, p=EDGE_SHARES
    )
    found["uniform"] = lambda rng, size: 100 * rng.random(size)
    found["spiky"] = _spiky
    return found


POPULATIONS = populations()


def shares(values: Floats) -> Floats:
    """Return the share of each bin, which holds its left edge; the last one holds both."""
    bins = np.minimum(np.floor(values * (BINS / 100)), BINS - 1).astype(int)
    return np.bincount(bins, minlength=BINS) / len(values)


def truth(name: str) -> Floats:
    return shares(POPULATIONS[name](np.random.default_rng(0), size=POPULATION))


def measure(
    name: str,
    mechanism: str,
    epsilon: float,
    n: int,
    repeats: int,
) -> dict[str, float]:
    """Return the coverage and the mean width of the intervals, and the error of the frequencies."""
    expected = truth(name)
    covered, widths, errors = [], [], []
    for seed in range(repeats):
        records = POPULATIONS[name](np.random.default_rng(1_000 + seed), size=n)
        perturber = NumericPerturber(
            epsilon, mechanism=mechanism, bounds=(0, 100), random_state=seed
        )
        reports = perturber.fit_transform(records[:, np.newaxis])
        table = perturber.estimate_distribution(
            reports, n_bins=BINS, confidence_level=LEVEL
        )
        covered.append((table["lower"] <= expected) & (expected <= table["upper"]))
        widths.append(table["upper"] - table["lower"])
        errors.append(np.abs(table["frequency"] - expected))
    return {
        "coverage": float(np.mean(covered)),
        "width": float(np.mean(widths)),
        "error": float(np.mean(errors)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    rows = []
    for name, epsilon, n, mechanism in product(
        POPULATIONS, EPSILONS, SIZES, MECHANISMS
    ):
        figures = measure(name, mechanism, epsilon, n, repeats)
        setting = {"epsilon": epsilon, "n": n, "mechanism": mechanism}
        rows.append({"population": name} | setting | figures)
        print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    by_population = table.groupby("population", sort=False)
    coverage = [
        [
            name,
            f"{100 * part['coverage'].mean():.1f}",
            f"{100 * part['coverage'].min():.0f}",
        ]
        for name, part in by_population
    ]
    means = [
        [
            f"{epsilon:g}",
            f"{n:,}",
            mechanism,
            *(f"{part[name].mean():.3f}" for name in ("width", "error")),
        ]
        for (epsilon, n, mechanism), part in table.groupby(
            ["epsilon", "n", "mechanism"], sort=False
        )
    ]
    write_results(
        "numeric_intervals",
        "Intervals of distributions of numbers",
        ("skdp", "numpy", "scipy"),
        f"Intervals of {100 * LEVEL:.0f} % for the shares of {BINS} bins of equal width, by {repeats} collections of "
        "each population, mechanism, epsilon and number of records. The least "
        "coverage is that of one mechanism, epsilon and number of "
        f"records: of {BINS * repeats} intervals.",
        {
            "Coverage in per cent": (
                ("population", "mean coverage", "least coverage"),
                coverage,
            ),
            "Means over the populations": (
                (
                    "epsilon",
                    "records",
                    "mechanism",
                    "width of an interval",
                    "error of a frequency",
                ),
                means,
            ),
        },
    )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
