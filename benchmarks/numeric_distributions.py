"""How far estimated distributions are from the true ones, by mechanism, next to the exact error that chooses one.

Run ``make bench``, or ``python benchmarks/numeric_distributions.py`` wherever skdp is installed. The distance is
Wasserstein-1 in per cent of the range: the mean distance of the estimated distribution function from that of the
population, at the edges of 64 bins. Reports are drawn from the exact channel.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from _timing import write_results
from _windows_program import BINS, distribution_error, information
from numpy.typing import NDArray
from scipy.stats import beta

from skdp.datasets import load_adult
from skdp.oracles import NumericMechanism, SubsetSelection, Windows, project_to_simplex
from skdp.oracles._numeric_mechanisms import bin_positions, estimate_frequencies
from skdp.randomness import SeededSource

STEPS, CELLS, EDGES, SEEDS = 256, 256, 64, 20
EPSILONS, SIZES = (0.5, 1.0, 2.0, 4.0), (2_000, 50_000)
SUBSETS = (8, 16, 32)
SHARES, OPPOSED = (0.0, 0.1, 0.2, 0.5), ("skewed", "spiky")
SPIKES = {0.113: 0.12, 0.271: 0.18, 0.334: 0.09, 0.523: 0.15, 0.777: 0.06}

Floats = NDArray[np.float64]


def populations() -> dict[str, Floats]:
    """Return the probability of each of 4,096 numbers between the bounds 0 and 1."""
    grid = (np.arange(4096) + 0.5) / 4096

    def of(*parts: tuple[float, float, float]) -> Floats:
        density = sum(weight * beta(a, b).pdf(grid) for weight, a, b in parts)
        return np.asarray(density / np.sum(density))

    spiky = 0.4 * of((1, 2, 3))
    for place, share in SPIKES.items():
        spiky[int(place * 4096)] += share
    found = {"skewed": of((1, 1.2, 8)), "spiky": spiky, "smooth": of((1, 5, 4))}
    found["two humps"] = of((0.6, 20, 60), (0.4, 60, 15))
    people = load_adult().frame
    for title, column in {
        "Adult: age": "age",
        "Adult: hours": "hours-per-week",
    }.items():
        counts = np.bincount(
            (people[column].to_numpy() / 100 * 4096).astype(int), minlength=4096
        )
        found[title] = counts / counts.sum()
    return found


POPULATIONS = populations()


def below(shares: Floats) -> Floats:
    """Return the distribution function at the edges of the bins."""
    return np.cumsum(shares.reshape(EDGES, -1).sum(axis=1))[:-1]


def on_grid(shares: Floats) -> Floats:
    """Return the distribution over the positions, after they are rounded at random."""
    return shares @ bin_positions(STEPS, len(shares))


def distances(estimates: list[Floats], population: Floats) -> Floats:
    """Return the distances of estimates over equal bins, in per cent of the range."""
    edges = np.arange(1, EDGES) / EDGES
    found = [
        np.interp(
            edges, np.arange(len(one) + 1) / len(one), np.append(0, np.cumsum(one))
        )
        - below(population)
        for one in estimates
    ]
    return 100 * np.abs(found).mean(axis=1)


@cache
def channel(
    mechanism: NumericMechanism, share: float | None = None
) -> tuple[Floats, Floats]:
    """Return the channels of cells and of positions, with reports of one likelihood added up."""
    whole = mechanism.spread(np.eye(STEPS + 1))
    if share is not None:  # of the records, report by the windows that repeat
        assert isinstance(mechanism, Windows)
        first = whole.shape[1] - sum(2 * period for period, _, _ in mechanism.periodic)
        parts = whole[:, :first], whole[:, first:]
        whole = np.hstack(
            [
                part / part[0].sum() * own
                for part, own in zip(parts, (1 - share, share), strict=True)
            ]
        )
        whole = whole[:, whole[0] > 0]
    kinds, merged = np.unique(
        np.round(whole / whole.sum(axis=0), 12), axis=1, return_inverse=True
    )
    of_positions = np.zeros((STEPS + 1, kinds.shape[1]))
    np.add.at(of_positions.T, merged.ravel(), whole.T)
    return bin_positions(STEPS, CELLS) @ of_positions, of_positions


def smoothed(
    mechanism: NumericMechanism, population: Floats, n: int, share: float | None = None
) -> Floats:
    """Return the distances of `estimate_distribution`."""
    cells, positions = channel(mechanism, share)
    shares = on_grid(population) @ positions
    counts = np.random.default_rng(n).multinomial(n, shares / shares.sum(), SEEDS)
    return distances(
        [estimate_frequencies(cells, own, smooth=True) for own in counts], population
    )


def subsets(k: int, epsilon: float, population: Floats, n: int) -> Floats:
    """Return the distances of subset selection on bins, with estimates projected to the simplex."""
    oracle, rng, found = SubsetSelection(k, epsilon), np.random.default_rng(n), []
    shares = population.reshape(k, -1).sum(axis=1)
    for seed in range(SEEDS):
        codes = rng.choice(k, n, p=shares / shares.sum()).astype(np.uint8)
        tally = oracle.tally(oracle.report(codes, SeededSource("bench", seed)))
        found.append(project_to_simplex(oracle.estimate(tally, n), n) / n)
    return distances(found, population)


def exact_subsets(k: int, epsilon: float) -> float:
    """Return the exact error of subset selection on bins, as that of a channel."""
    oracle = SubsetSelection(k, epsilon)
    size, odds = oracle.subset_size, float(oracle.support_ratio)
    # What a set says of a bin: likely if it is a member. The information is the mean of products, for one bin and two.
    likely, rare = (weight * k / (size * odds + k - size) for weight in (odds, 1))
    same = (size * likely**2 + (k - size) * rare**2) / k
    pairs = size * (size - 1) * likely**2 + 2 * size * (k - size) * likely * rare
    two = (pairs + (k - size) * (k - size - 1) * rare**2) / (k * (k - 1))
    parts = np.ones((BINS // k, BINS // k))
    return distribution_error(
        np.kron(np.full((k, k), two) + np.eye(k) * (same - two), parts)
    )


def row(
    epsilon: float,
    n: int,
    title: str,
    population: Floats,
    mechanisms: dict[str, NumericMechanism],
) -> list[str]:
    """Measure all candidates on a population."""
    found = {name: smoothed(one, population, n) for name, one in mechanisms.items()}
    found |= {
        f"subsets of {k} bins": subsets(k, epsilon, population, n) for k in SUBSETS
    }
    own, best = (
        found.pop("distribution"),
        min(found, key=lambda name: found[name].mean()),
    )
    error = math.hypot(own.std(), found[best].std()) / math.sqrt(SEEDS)
    cells = [f"{one.mean():.2f}" for one in (own, *found.values())]
    z = (own.mean() - found[best].mean()) / error
    return [
        f"{epsilon:g}",
        f"{n:,}",
        title,
        *cells,
        best,
        f"{own.mean() / found[best].mean():.2f}",
        f"{z:+.1f}",
    ]


def shares(epsilon: float) -> list[list[str]]:
    """Measure mixtures with other shares of the windows that repeat."""
    mechanism, found = Windows(STEPS, epsilon), []
    chosen = sum(weight for _, _, weight in mechanism.periodic) / 64
    for share in sorted({*SHARES, chosen}):
        cells = [
            f"{smoothed(mechanism, POPULATIONS[title], n, share).mean():.2f}"
            for n in SIZES
            for title in OPPOSED
        ]
        found.append(
            [f"{epsilon:g}", f"{share:.2f}", *cells, "yes" if share == chosen else ""]
        )
    return found


def main() -> None:
    rows, exact, means, mixed = [], [], [], []
    for epsilon in EPSILONS:
        mechanisms: dict[str, NumericMechanism] = {
            "distribution": Windows(STEPS, epsilon),
            "square wave": Windows(STEPS, epsilon, repeating=False),
        }
        channels = [
            one.spread(bin_positions(STEPS, BINS)) for one in mechanisms.values()
        ]
        errors = [distribution_error(information(own)) for own in channels]
        errors += [exact_subsets(k, epsilon) for k in SUBSETS]
        exact.append([f"{epsilon:g}", *(f"{100 * one:.3f}" for one in errors)])
        for n in SIZES:
            own = [
                row(epsilon, n, title, population, mechanisms)
                for title, population in POPULATIONS.items()
            ]
            values = np.array(
                [[float(cell) for cell in one[3 : 5 + len(SUBSETS)]] for one in own]
            )
            means.append(
                [
                    f"{epsilon:g}",
                    f"{n:,}",
                    *(f"{one:.2f}" for one in np.exp(np.log(values).mean(axis=0))),
                ]
            )
            rows += own
            print(*means[-1], flush=True)
        mixed += shares(epsilon)
        channel.cache_clear()
    names = ("distribution", "square wave", *(f"subsets of {k} bins" for k in SUBSETS))
    columns = (
        "epsilon",
        "records",
        "numbers",
        *names,
        "best other",
        "distribution / best other",
        "standard errors",
    )
    write_results(
        "numeric_distributions",
        "Mechanisms for distributions of numbers",
        ("skdp", "numpy", "scipy"),
        f"Wasserstein-1 distance of the estimated distribution, in per cent of the range, mean of {SEEDS} seeds; a "
        f"grid of {STEPS} steps. The last column is the difference from the best of the others in standard errors.",
        {
            "Geometric means over the six populations": (
                ("epsilon", "records", *names),
                means,
            ),
            "Exact errors that choose the mixture, per cent": (
                ("epsilon", *names),
                exact,
            ),
            "Each population": (columns, rows),
            "Other shares of the windows that repeat": (
                (
                    "epsilon",
                    "share",
                    *(f"{title}, {n:,} records" for n in SIZES for title in OPPOSED),
                    "chosen",
                ),
                mixed,
            ),
        },
    )


if __name__ == "__main__":
    main()
