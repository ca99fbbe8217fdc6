"""How accurate private means are on Adult, beside OpenDP and diffprivlib, and how long a private scaler takes.

Run ``make bench``. diffprivlib's tools do not import beside scikit-learn 1.9, so this one has an environment of its
own with scikit-learn 1.8; peers that are missing are left out. All releases draw secure coins. Arguments: the number of
runs of skdp and of the peers.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _timing import best_of, verdict, write_results
from sklearn.preprocessing import StandardScaler

from skdp import DPMean, DPStandardScaler
from skdp.datasets import load_adult

RUNS, PEER_RUNS = (
    int(argument)
    for argument in (*sys.argv[1:3], *(10_000, 2_000)[len(sys.argv[1:3]) :])
)

BOUNDS = {
    "age": (0, 100),
    "education-num": (1, 16),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 100),
}
TARGETS = {
    ("age", 0.1): 1.05 * 0.0316,
    ("age", 1.0): 1.05 * 0.0032,
    ("capital-gain", 0.1): 1.05 * 43.0,
    ("capital-gain", 1.0): 1.05 * 4.3,
}

Release = Callable[[], float]


def two_sums(column: np.ndarray, bounds: tuple[int, int], epsilon: float) -> Release:
    estimator = DPMean(epsilon, bounds=bounds)
    return lambda: float(estimator.fit(column).mean_[0])


def root_mean_square(release: Release, true: float, runs: int) -> float:
    return math.sqrt(np.mean([(release() - true) ** 2 for _ in range(runs)]))


def in_opendp(
    column: np.ndarray, low: float, high: float, epsilon: float
) -> Release | None:
    """Return a release of a mean by a noisy sum and a noisy count, half of epsilon each, in integers."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    values = column.astype(int).tolist()
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    total = space >> dp.t.then_clamp((int(low), int(high))) >> dp.t.then_sum()
    sum_scale = dp.binary_search_param(
        lambda scale: total >> dp.m.then_laplace(scale), 1, epsilon / 2
    )
    count = space >> dp.t.then_count()
    count_scale = dp.binary_search_param(
        lambda scale: count >> dp.m.then_laplace(scale), 1, epsilon / 2
    )
    sums, counts = (
        total >> dp.m.then_laplace(sum_scale),
        count >> dp.m.then_laplace(count_scale),
    )
    return lambda: sums(values) / max(counts(values), 1)


def in_diffprivlib(
    column: np.ndarray, low: float, high: float, epsilon: float
) -> Release | None:
    """Return a release of a mean whose number of values is public: a weaker promise."""
    try:
        from diffprivlib.tools import mean
    except ImportError:
        return None
    return partial(mean, column, epsilon=epsilon, bounds=(low, high))


def means() -> list[list[str]]:
    frame = load_adult().frame
    columns = {name: frame[[name]].to_numpy(float) for name in BOUNDS}
    rows = []
    cells, met = [], []
    for (column, epsilon), wanted in TARGETS.items():
        release = two_sums(columns[column], BOUNDS[column], epsilon)
        error = root_mean_square(release, columns[column].mean(), RUNS)
        cells.append(f"{error:.4g} (≤ {wanted:.4g})")
        met.append(error <= wanted)
    rows.append(["**skdp**: `DPMean`", "ε, add/remove", *cells, verdict(all(met))])
    peers = {
        "OpenDP: sum and count, ε/2 each": (in_opendp, "ε, add/remove"),
        "diffprivlib: mean": (in_diffprivlib, "ε, replace, n public"),
    }
    for name, (peer, promise) in peers.items():
        cells = []
        for column, epsilon in TARGETS:
            release = peer(columns[column][:, 0], *BOUNDS[column], epsilon)
            done = release is not None and root_mean_square(
                release, columns[column].mean(), PEER_RUNS
            )
            cells.append(f"{done:.4g}" if done else "not installed")
        rows.append([name, promise, *cells, "–"])
    return rows


def scalers() -> list[list[str]]:
    """Return the errors of five means and standard deviations at once, in millionths of the width."""
    X = load_adult().frame[list(BOUNDS)].to_numpy(float)
    widths = np.array([high - low for low, high in BOUNDS.values()])
    bounds = list(BOUNDS.values())

    def errors(
        fit: Callable[[], tuple[np.ndarray, np.ndarray]], runs: int
    ) -> list[float]:
        drawn = [fit() for _ in range(runs)]
        true = X.mean(axis=0), X.std(axis=0)
        return [
            1e6
            * math.sqrt(
                np.mean([((one[part] - true[part]) / widths) ** 2 for one in drawn])
            )
            for part in range(2)
        ]

    def ours(**parameters: Any) -> tuple[np.ndarray, np.ndarray]:
        scaler = DPStandardScaler(
            1.0, bounds=bounds, missing="error", **parameters
        ).fit(X)
        return scaler.mean_, scaler.scale_

    rows = []
    mean, std = errors(ours, RUNS // 10)
    met = verdict(mean <= 1.1 * 132 and std <= 1.1 * 886)
    rows.append(
        [
            "**skdp**: DPStandardScaler, missing='error'",
            "ε = 1, add/remove",
            f"{mean:.0f} (132)",
            f"{std:.0f} (886)",
            met,
        ]
    )
    try:
        from diffprivlib.tools import mean as peer_mean
        from diffprivlib.tools import std as peer_std
    except ImportError:
        return [
            *rows,
            ["diffprivlib: mean and std", "–", "not installed", "not installed", "–"],
        ]

    def peer() -> tuple[np.ndarray, np.ndarray]:
        parts = [
            [
                tool(column, epsilon=1 / 10, bounds=ends)
                for column, ends in zip(X.T, bounds, strict=True)
            ]
            for tool in (peer_mean, peer_std)
        ]
        return np.array(parts[0]), np.array(parts[1])

    mean, std = errors(peer, PEER_RUNS // 10)
    return [
        *rows,
        [
            "diffprivlib: mean and std, ε/10 each",
            "ε = 1, replace",
            f"{mean:.0f}",
            f"{std:.0f}",
            "–",
        ],
    ]


def speed() -> list[list[str]]:
    X = np.random.default_rng(0).uniform(size=(1_000_000, 10))
    private = DPStandardScaler(1.0, bounds=(0, 1))
    seconds = best_of(
        {
            "skdp": lambda: private.fit(X),
            "scikit-learn": lambda: StandardScaler().fit(X),
        },
        7,
    )
    ratio = seconds["skdp"] / seconds["scikit-learn"]
    return [
        [
            "DPStandardScaler.fit",
            f"{1e3 * seconds['skdp']:.0f}",
            f"{ratio:.2f}",
            "≤ 3",
            verdict(ratio <= 3),
        ],
        [
            "scikit-learn: StandardScaler.fit",
            f"{1e3 * seconds['scikit-learn']:.0f}",
            "1.00",
            "–",
            "–",
        ],
    ]


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # diffprivlib's, of bounds and of its own age
    asked = [f"{column}, ε = {epsilon:g}" for column, epsilon in TARGETS]
    write_results(
        "central_mean",
        "Means and scales by a trusted curator",
        ["skdp", "numpy", "scikit-learn", "opendp", "diffprivlib"],
        f"Adult's 32,561 training rows, ages in [0, 100], gains in [0, 100,000]. Root mean square "
        f"errors over {RUNS:,} runs of skdp and {PEER_RUNS:,} of its peers (a tenth of it for the scalers); in "
        "brackets what they should be at most. The bounds are public; the number of rows is not, unless it says so.",
        {
            "The mean of a column": (
                ("what", "promise", *asked, "targets met?"),
                means(),
            ),
            "Means and standard deviations of five columns at ε = 1, millionths of the width": (
                ("what", "promise", "means", "standard deviations", "within 10 %?"),
                scalers(),
            ),
            "A million rows of ten columns": (
                ("what", "ms", "× scikit-learn", "target", "met?"),
                speed(),
            ),
        },
    )
