"""What ``scaling="auto"`` gives private linear models, on columns that need it and on columns that do not.

Run ``make bench``, or ``python benchmarks/column_scales.py SPLITS COMPAS``, with the number of splits and the published
file of COMPAS, which is left out without it. All fits draw secure random bits.
"""

from __future__ import annotations

import sys
import warnings
from typing import NamedTuple

import numpy as np
from _timing import write_results
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skdp import DPLinearRegression, DPLogisticRegression
from skdp.datasets import load_adult, load_compas

SPLITS = int((*sys.argv[1:2], "10")[0])
COMPAS = sys.argv[2] if len(sys.argv) > 2 else None
DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 4.0)


class Columns(NamedTuple):
    """Numbers, a target, and declared bounds."""

    X: np.ndarray
    y: np.ndarray
    bounds: list[tuple[float, float]]
    # None for classes.
    target_bounds: tuple[float, float] | None = None


def of_logits(X: np.ndarray, logits: np.ndarray, bounds: list, seed: int) -> Columns:
    """Draw classes by their logits."""
    rng = np.random.default_rng(seed)
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-logits))).astype(int)
    return Columns(X, y, bounds)


def adult() -> Columns:
    """Return the numbers of Adult, and three indicators."""
    table = load_adult()
    frame = table.frame
    names = ["age", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    is_male = (frame["sex"] == "Male").to_numpy()
    is_married = (frame["marital-status"] == "Married-civ-spouse").to_numpy()
    is_white = (frame["race"] == "White").to_numpy()
    numbers = frame[names].to_numpy(float)
    X = np.column_stack([numbers, is_male, is_married, is_white])
    bounds = [(0, 100), (1, 16), (0, 100_000), (0, 5_000), (0, 100), *[(0, 1)] * 3]
    y = (table.target == ">50K").to_numpy().astype(int)
    return Columns(X, y, bounds)


def compas() -> Columns:
    """Return the numbers of COMPAS."""
    table = load_compas(COMPAS)
    names = table.data.select_dtypes("number").columns
    X = table.data[names].to_numpy(float)
    # Of a person, at most 120 years and 100 offences.
    bounds = [(0, 120) if name == "age" else (0, 100) for name in names]
    classes = table.target.to_numpy()
    return Columns(X, (classes == classes.max()).astype(int), bounds)


def breast_cancer() -> Columns:
    X, y = load_breast_cancer(return_X_y=True)
    return Columns(X, y, [(0.0, 2 * float(np.ceil(end))) for end in X.max(axis=0)])


def log_normal() -> Columns:
    """Return 36 columns with tails of different lengths."""
    rng = np.random.default_rng(11)
    deviations = rng.uniform(0.5, 2.5, 36)
    logs = rng.normal(size=(20_000, 36))
    X = np.exp(logs * deviations + 2 * rng.normal(size=36))
    weights = rng.normal(size=36)
    bounds = [(0.0, 10 ** float(np.ceil(np.log10(end)))) for end in X.max(axis=0)]
    logits = 2 * logs @ weights / np.linalg.norm(weights)
    return of_logits(X, logits, bounds, 12)


def mixed() -> Columns:
    """Return counts, spikes at 0, a Pareto tail, negative numbers and a normal column."""
    rng = np.random.default_rng(13)
    n_rows = 8_000
    pareto = 1_000 * rng.pareto(1.5, n_rows)
    spike = np.where(rng.random(n_rows) < 0.8, 0, np.exp(rng.normal(6, 1.5, n_rows)))
    normal = rng.normal(50, 10, n_rows)
    counts = rng.poisson(2, n_rows)
    negative = -np.exp(rng.normal(2, 1, n_rows))
    logits = 0.8 * np.log1p(pareto / 500) + (spike > 0) + 0.05 * (normal - 50)
    logits += 0.3 * (counts - 2) - 0.03 * (negative + 10) - 1
    X = np.column_stack([pareto, spike, normal, counts, negative])
    bounds = [(0, 1e6), (0, 1e6), (0, 200), (0, 100), (-10_000, 0)]
    return of_logits(X, logits, bounds, 14)


def normal(width: float, seed: int) -> Columns:
    """Return 20 normal columns between bounds of a width in deviations."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20_000, 20))
    logits = X @ rng.normal(size=20) / 2
    return of_logits(X, logits, [(-width, width)] * 20, seed + 1)


def prices(*, logarithm: bool) -> Columns:
    """Return diamonds by a law of their price, whose bounds are tight."""
    rng = np.random.default_rng(15)
    n_rows = 30_000
    carat = np.exp(rng.normal(-0.4, 0.55, n_rows)).clip(0.2, 5)
    cut, colour = rng.integers(0, 7, (2, n_rows))
    length = 6.4 * carat ** (1 / 3) * (1 + rng.normal(0, 0.01, n_rows))
    price = 8.4 + 1.7 * np.log(carat) + 0.06 * cut + 0.05 * colour
    price += rng.normal(0, 0.1, n_rows)
    X = np.column_stack([carat, cut, colour, length])
    bounds = [(0.2, 5.0), (0, 6), (0, 6), (0, 11)]
    if logarithm:
        return Columns(X, price, bounds, (4, 11))
    return Columns(X, np.exp(price).clip(0, 20_000), bounds, (0, 20_000))


def skewed_numbers() -> Columns:
    """Return 12 log-normal columns, on whose logarithms a number depends."""
    rng = np.random.default_rng(16)
    logs = rng.normal(size=(20_000, 12))
    y = logs @ rng.normal(size=12) + rng.normal(size=20_000)
    X = np.exp(logs * rng.uniform(0.5, 2, 12))
    return Columns(X, y, [(0.0, 1e4)] * 12, (-15, 15))


TABLES = {
    "Adult, numbers": adult,
    "breast cancer": breast_cancer,
    "36 log-normal columns": log_normal,
    "mixed": mixed,
    "normal, bounds of 3 deviations": lambda: normal(3, 17),
    "normal, bounds of 8 deviations": lambda: normal(8, 18),
    "normal, bounds of 1,000 deviations": lambda: normal(1_000, 19),
    "12 log-normal columns, number": skewed_numbers,
    "diamonds, price": lambda: prices(logarithm=False),
    "diamonds, log price": lambda: prices(logarithm=True),
}


def score(table: Columns, split: int, epsilon: float, scaling: str | None) -> float:
    """Return the area under the curve, or R², on a quarter of the rows."""
    train, test = train_test_split(
        np.arange(len(table.y)), test_size=0.25, random_state=split
    )
    options = {"delta": DELTA, "bounds": table.bounds, "scaling": scaling}
    if table.target_bounds is None:
        classifier = DPLogisticRegression(epsilon, classes=[0, 1], **options)
        classifier.fit(table.X[train], table.y[train])
        logits = classifier.decision_function(table.X[test])
        return float(roc_auc_score(table.y[test], logits))
    regression = DPLinearRegression(
        epsilon, target_bounds=table.target_bounds, **options
    )
    regression.fit(table.X[train], table.y[train])
    return float(regression.score(table.X[test], table.y[test]))


def main() -> None:
    warnings.simplefilter("ignore")
    tables = dict(TABLES)
    if COMPAS is not None:
        tables["COMPAS, numbers"] = compas
    rows = []
    for name, make in tables.items():
        table = make()
        for scaling in (None, "auto"):
            cells = []
            for epsilon in EPSILONS:
                scores = [
                    score(table, split, epsilon, scaling) for split in range(SPLITS)
                ]
                cells.append(f"{np.mean(scores):.4f} ± {np.std(scores):.4f}")
            measure = "area" if table.target_bounds is None else "R²"
            rows.append([name, measure, str(scaling), *cells])
    header = ["table", "measure", "scaling", *(f"ε = {eps:g}" for eps in EPSILONS)]
    write_results(
        "column_scales",
        "Columns that a private model scales by itself",
        ["skdp", "numpy", "scikit-learn"],
        f"Means and standard deviations over {SPLITS} splits, a quarter of the rows "
        f"held out, δ = {DELTA:g}, of DPLogisticRegression (area under the curve) and "
        "DPLinearRegression (R²).",
        {"Prediction": (header, rows)},
    )


if __name__ == "__main__":
    main()
