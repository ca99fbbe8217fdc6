"""How well private linear regression predicts rows that were held out, beside AdaSSP.

Run ``make bench``. AdaSSP (Y.-X. Wang, 2018, algorithm 2) is written here, with float noise. All fits of skdp draw
secure random bits. Argument: the number of fits.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from _timing import best_of, verdict, write_results
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

from skdp import DPLinearRegression

FITS = int((*sys.argv[1:2], "40")[0])
DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 4.0)
DIABETES = [
    (0, 100),
    (1, 2),
    (10, 60),
    (40, 160),
    (50, 400),
    (0, 300),
    (0, 120),
    (0, 12),
    (2, 8),
    (40, 150),
]
random = np.random.default_rng(3)


@dataclass(frozen=True, eq=False)
class Case:
    """A table with declared bounds."""

    columns: np.ndarray
    target: np.ndarray
    bounds: np.ndarray
    target_bounds: tuple[float, float]

    def scaled(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return columns with a constant, and the target, between -1 and 1."""
        lows, highs = self.bounds.T
        columns = (2 * self.columns[rows] - lows - highs) / (highs - lows)
        low, high = self.target_bounds
        return np.column_stack([columns, np.ones(len(rows))]), (
            2 * self.target[rows] - low - high
        ) / (high - low)

    def unscaled(self, target: np.ndarray) -> np.ndarray:
        low, high = self.target_bounds
        return (target * (high - low) + low + high) / 2


def diabetes() -> Case:
    """Return 442 patients of scikit-learn, between round bounds."""
    loaded = load_diabetes(scaled=False)
    return Case(loaded.data, loaded.target, np.array(DIABETES, float), (0.0, 400.0))


def like_diabetes(n_rows: int) -> Case:
    """Return drawn patients with the covariances of these."""
    first = diabetes()
    model = LinearRegression().fit(first.columns, first.target)
    columns = random.multivariate_normal(
        first.columns.mean(axis=0), np.cov(first.columns.T), n_rows
    )
    columns = columns.clip(*first.bounds.T)
    errors = np.std(first.target - model.predict(first.columns)) * random.normal(
        size=n_rows
    )
    return Case(
        columns,
        (model.predict(columns) + errors).clip(0, 400),
        first.bounds,
        first.target_bounds,
    )


def correlated() -> Case:
    """Return 20,000 rows of 20 normal columns, each pair with a correlation of a half."""
    columns = (random.normal(size=(20_000, 20)) + random.normal(size=(20_000, 1))).clip(
        -6, 6
    )
    target = columns @ random.normal(size=20)
    target = (target / target.std() + 0.5 * random.normal(size=20_000)).clip(-6, 6)
    return Case(columns, target, np.tile([-6.0, 6.0], (20, 1)), (-6.0, 6.0))


def skewed() -> Case:
    """Return 20,000 rows of 8 columns of a gamma distribution, between bounds ten times the mean."""
    columns = random.gamma(2, 1, (20_000, 8)).clip(0, 20)
    target = columns @ random.normal(size=8) + random.normal(size=20_000)
    return Case(
        columns, target.clip(-40, 40), np.tile([0.0, 20.0], (8, 1)), (-40.0, 40.0)
    )


def uniform() -> Case:
    """Return 5,000 rows of 5 uniform columns, with heavy tails of the errors."""
    columns = random.uniform(-1, 1, (5_000, 5))
    target = 3 + columns @ [2.0, -1.0, 0.5, 0.0, 1.0] + random.standard_t(3, 5_000)
    return Case(
        columns, target.clip(-10, 10), np.tile([-1.0, 1.0], (5, 1)), (-10.0, 10.0)
    )


CASES: dict[str, Callable[[], Case]] = {
    "diabetes": diabetes,
    "like diabetes, 5,000": lambda: like_diabetes(5_000),
    "like diabetes, 50,000": lambda: like_diabetes(50_000),
    "correlated": correlated,
    "skewed": skewed,
    "uniform": uniform,
}


def adassp(
    columns: np.ndarray, target: np.ndarray, epsilon: float, norm: float
) -> np.ndarray:
    """Return coefficients by adaptive sufficient statistics perturbation, for rows of a norm and a target up to 1."""
    n_columns, logs, part = columns.shape[1], math.log(6 / DELTA), epsilon / 3
    products = columns.T @ columns
    least = np.linalg.eigvalsh(products)[0] + norm**2 / part * (
        math.sqrt(logs) * random.normal() - logs
    )
    noise = (
        np.triu(random.normal(size=products.shape)) * math.sqrt(logs) * norm**2 / part
    )
    products = products + noise + np.triu(noise, 1).T
    with_target = columns.T @ target + math.sqrt(logs) * norm / part * random.normal(
        size=n_columns
    )
    wanted = (
        math.sqrt(n_columns * math.log(2 * n_columns**2 / 0.05) * logs) * norm**2 / part
    )
    ridge = max(0.0, wanted - max(least, 0.0))
    return np.linalg.solve(products + ridge * np.eye(n_columns), with_target)


Predict = Callable[[Case, np.ndarray, np.ndarray, float], np.ndarray]


def ours(delta: float | None) -> Predict:
    def predict(
        case: Case, train: np.ndarray, test: np.ndarray, epsilon: float
    ) -> np.ndarray:
        model = DPLinearRegression(
            epsilon, delta=delta, bounds=case.bounds, target_bounds=case.target_bounds
        )
        return model.fit(case.columns[train], case.target[train]).predict(
            case.columns[test]
        )

    return predict


def peer(*, read: bool) -> Predict:
    def predict(
        case: Case, train: np.ndarray, test: np.ndarray, epsilon: float
    ) -> np.ndarray:
        columns, target = case.scaled(train)
        norm = (
            float(np.linalg.norm(columns, axis=1).max())
            if read
            else math.sqrt(columns.shape[1])
        )
        return case.unscaled(
            case.scaled(test)[0] @ adassp(columns, target, epsilon, norm)
        )

    return predict


def without_privacy(
    case: Case, train: np.ndarray, test: np.ndarray, epsilon: float
) -> np.ndarray:
    return (
        LinearRegression()
        .fit(case.columns[train], case.target[train])
        .predict(case.columns[test])
    )


MODELS: dict[str, tuple[Predict, str, int]] = {
    "**skdp**: DPLinearRegression, δ": (ours(DELTA), "(ε, δ)", FITS),
    "**skdp**: DPLinearRegression": (ours(None), "ε", FITS),
    "AdaSSP, norm of the bounds": (peer(read=False), "(ε, δ)", FITS),
    "AdaSSP, norm read from the rows": (
        peer(read=True),
        "(ε, δ) but for the norm",
        FITS,
    ),
    "scikit-learn: LinearRegression": (without_privacy, "none", 1),
}


def rows_of(name: str, case: Case) -> list[list[str]]:
    train, test = train_test_split(
        np.arange(len(case.target)), random_state=0, test_size=0.25
    )
    variance = case.target[test].var()
    found, seconds = {}, {}
    for model, (predict, _, fits) in MODELS.items():
        start = time.process_time()
        found[model] = [
            np.array(
                [
                    (
                        (predict(case, train, test, epsilon) - case.target[test]) ** 2
                    ).mean()
                    for _ in range(fits)
                ]
            )
            / variance
            for epsilon in EPSILONS
        ]
        seconds[model] = (time.process_time() - start) / (len(EPSILONS) * fits)
    first, _, *peers, _ = found
    least = [
        min(found[one][place].mean() for one in peers) for place in range(len(EPSILONS))
    ]
    rows = []
    for model, (_, promise, _) in MODELS.items():
        cells = [
            f"{errors.mean():.3f} (median {np.median(errors):.3f})"
            for errors in found[model]
        ]
        met = "–"
        if model == first:
            met = verdict(
                all(
                    errors.mean() <= 1.1 * best
                    for errors, best in zip(found[model], least, strict=True)
                )
            )
        rows.append([name, model, promise, *cells, f"{1000 * seconds[model]:.0f}", met])
    return rows


def speed() -> list[list[str]]:
    columns = random.normal(size=(1_000_000, 50)).clip(-4, 4)
    target = columns @ random.normal(size=50) + random.normal(size=1_000_000)
    private = DPLinearRegression(
        1.0, delta=DELTA, bounds=(-4, 4), target_bounds=(-40, 40)
    )
    seconds = best_of(
        {
            "skdp": lambda: private.fit(columns, target),
            "scikit-learn": lambda: LinearRegression().fit(columns, target),
        },
        3,
    )
    ratio = seconds["skdp"] / seconds["scikit-learn"]
    return [
        [
            "DPLinearRegression.fit",
            f"{seconds['skdp']:.1f}",
            f"{ratio:.2f}",
            "≤ 3",
            verdict(ratio <= 3),
        ],
        [
            "scikit-learn: LinearRegression.fit",
            f"{seconds['scikit-learn']:.1f}",
            "1.00",
            "–",
            "–",
        ],
    ]


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # too few rows
    errors = [row for name, make in CASES.items() for row in rows_of(name, make())]
    columns = (
        "table",
        "model",
        "promise",
        *(f"ε = {epsilon:g}" for epsilon in EPSILONS),
        "CPU ms a fit",
        "at most 1.1 × AdaSSP?",
    )
    write_results(
        "central_regression",
        "Private linear regression",
        ["skdp", "numpy", "scikit-learn"],
        f"Mean squared errors on a quarter of the rows that was held out, over the variance of the target there, "
        f"δ = {DELTA:g}: means and medians over {FITS} fits. Of skdp only bounds are declared, and the number of rows "
        "is protected. AdaSSP gets columns and target between -1 and 1 with a constant; once the largest norm of a row "
        "is read from the data, in its favour. The target is that of the better AdaSSP at each ε. Constants of skdp "
        "were chosen with tables like all of these in view but for *uniform*.",
        {
            "Errors": (columns, errors),
            "A million rows of 50 columns": (
                ("what", "seconds", "× scikit-learn", "target", "met?"),
                speed(),
            ),
        },
    )
