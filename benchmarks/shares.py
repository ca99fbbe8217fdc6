"""Errors of several releases under one budget: shares of epsilon against shares of rho and of mu.

Run ``make bench``, or ``python benchmarks/shares.py`` wherever skdp is installed. Argument: the number of runs.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from _timing import write_results
from sklearn.datasets import load_breast_cancer

from skdp import (
    DPHistogram,
    DPMarginalSynthesizer,
    DPMean,
    DPQuantileBinarizer,
    DPStandardScaler,
    Interval,
)
from skdp.datasets import load_adult
from skdp.privacy import Mu, Rho

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
EPSILON, DELTA = 1.0, 1e-6
NUMBERS = (2, 5, 10)


def tables() -> dict[str, tuple[pd.DataFrame, list[tuple[float, float]]]]:
    adult = load_adult().frame[
        ["age", "education-num", "hours-per-week", "capital-gain", "fnlwgt"]
    ]
    cancer = load_breast_cancer(as_frame=True).data.iloc[:, :5]
    return {
        "Adult": (adult, [(0, 100), (1, 16), (1, 100), (0, 100_000), (0, 1_500_000)]),
        "breast cancer": (cancer, [(0, 40), (0, 50), (0, 250), (0, 3_000), (0, 0.3)]),
    }


def errors_of(
    X: pd.DataFrame, bounds: list[tuple[float, float]]
) -> dict[str, Callable[[Any, float, int], float]]:
    """Return functions of the share, its delta if it is an epsilon, and a seed."""
    widths = np.array([high - low for low, high in bounds])
    first, (low, high) = X.columns[0], bounds[0]
    finest = max(X.columns, key=lambda name: X[name].nunique())
    values = np.sort(X[finest].to_numpy())
    domain = {
        name: Interval(*ends, bins=8)
        for name, ends in zip(X.columns[:3], bounds, strict=False)
    }
    cells = (
        DPHistogram(1e6, domain=Interval(low, high, bins=16)).fit(X[[first]]).counts_
    )
    pairs = (
        DPHistogram(1e6, domain={name: domain[name] for name in X.columns[:2]})
        .fit(X.iloc[:, :2])
        .counts_
    )

    def one_mean(share: Any, delta: float, seed: int) -> float:
        found = (
            DPMean(share, bounds=bounds[0], random_state=seed).fit(X[[first]]).mean_[0]
        )
        return float(found - X[first].mean()) / widths[0]

    def five_means(share: Any, delta: float, seed: int) -> float:
        found = DPMean(share, bounds=bounds, random_state=seed).fit(X).mean_
        return float(np.sqrt(np.mean(((found - X.mean().to_numpy()) / widths) ** 2)))

    def five_scales(share: Any, delta: float, seed: int) -> float:
        with warnings.catch_warnings():
            # Of variances that are hidden by the noise.
            warnings.simplefilter("ignore", UserWarning)
            found = (
                DPStandardScaler(
                    share, bounds=bounds, missing="error", random_state=seed
                )
                .fit(X)
                .mean_
            )
        return float(np.sqrt(np.mean(((found - X.mean().to_numpy()) / widths) ** 2)))

    def counts(share: Any, delta: float, seed: int) -> float:
        found = DPHistogram(
            share, domain=Interval(low, high, bins=16), method="flat", random_state=seed
        ).fit(X[[first]])
        return float(np.sqrt(np.mean((found.counts_ - cells) ** 2)))

    def median(share: Any, delta: float, seed: int) -> float:
        ends = bounds[list(X.columns).index(finest)]
        found = (
            DPQuantileBinarizer(share, bounds=ends, random_state=seed)
            .fit(X[[finest]])
            .thresholds_[0]
        )
        half = values.size / 2
        return float(
            max(
                0,
                np.searchsorted(values, found) - half,
                half - np.searchsorted(values, found, "right"),
            )
        )

    def marginals(share: Any, delta: float, seed: int) -> float:
        synthesizer = DPMarginalSynthesizer(
            share,
            delta=delta,
            domain=domain,
            marginals="auto",
            handle_unknown="clip",
            random_state=seed,
        )
        found = (
            synthesizer.fit(X.iloc[:, :3])
            .marginal(list(X.columns[:2]))["count"]
            .to_numpy()
        )
        return float(np.sqrt(np.mean((found - pairs) ** 2)))

    return {
        "mean of 1 column, in widths": one_mean,
        "means of 5 columns, in widths": five_means,
        "means of a scaler of 5 columns, in widths": five_scales,
        "16 counts": counts,
        "median of a column, in ranks": median,
        "64 counts of 2 of 3 synthetic columns": marginals,
    }


def shares(number: int) -> dict[str, tuple[Any, float]]:
    return {
        "epsilon": (EPSILON / number, DELTA / number),
        "rho": (Rho.of(EPSILON, DELTA).split(number), 0.0),
        "mu": (Mu.of(EPSILON, DELTA).split(number), 0.0),
    }


def rows(X: pd.DataFrame, bounds: list[tuple[float, float]]) -> list[list[str]]:
    made = []
    for name, error in errors_of(X, bounds).items():
        runs = RUNS // 10 if "synthetic" in name else RUNS
        for number in NUMBERS:
            found = []
            for share, delta in shares(number).values():
                squares = [error(share, delta, seed) ** 2 for seed in range(runs)]
                found.append(float(np.sqrt(np.mean(squares))))
            gain = f"{found[0] / min(found[1:]):.2f}" if min(found) else ""
            made.append([name, str(number), *(f"{one:.3g}" for one in found), gain])
    return made


def main() -> None:
    header = (
        "release",
        "releases",
        "epsilon",
        "rho",
        "mu",
        "epsilon / best of rho and mu",
    )
    write_results(
        "shares",
        "Shares of a budget in epsilon, in rho and in mu",
        ("skdp", "numpy", "scipy", "scikit-learn"),
        f"Root mean square errors of one of 2, 5 or 10 equal releases that are ({EPSILON:g}, {DELTA:g})-private "
        f"together, over {RUNS} runs ({RUNS // 10} of synthetic tables). The shares are epsilon / n (and, of synthetic "
        "tables, delta / n; all others have none), `Rho.of(1, 1e-6).split(n)` and `Mu.of(1, 1e-6).split(n)`.",
        {name: (header, rows(*table)) for name, table in tables().items()},
    )


if __name__ == "__main__":
    main()
