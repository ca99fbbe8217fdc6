"""How well models that protect the target alone predict, beside those of whole records.

Run ``python benchmarks/private_target.py``. All fits draw secure random bits. Arguments: the number of splits, and the
published file of ACS Public Coverage, which is fetched without.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import pandas as pd
from _timing import write_results
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skdp import Domain, DPLinearRegression, DPLogisticRegression
from skdp.datasets import load_acs_public_coverage, load_adult

SPLITS = int((*sys.argv[1:2], "3")[0])
ACS = (*sys.argv[2:3], None)[0]
DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 4.0)
PROMISES = {
    "target": "values of the target",
    "record": "whole records, add/remove",
}


def indicators(frame: pd.DataFrame, domain: Domain) -> np.ndarray:
    """Return the declared values and bins of each column as indicators."""
    parts = []
    for name in frame:
        attribute = domain[name]
        codes = attribute.encode(frame[name]).astype(int)
        parts.append(np.eye(len(attribute.values) + 1)[codes])
    return np.hstack(parts)


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    adult = load_adult()
    acs = load_acs_public_coverage(ACS)
    columns = adult.frame.drop(columns=["income", "fnlwgt"])
    return {
        "Adult": (
            indicators(columns, adult.domain),
            (adult.target == ">50K").to_numpy().astype(int),
        ),
        "ACS Public Coverage": (
            indicators(acs.data, acs.domain),
            acs.target.to_numpy().astype(int),
        ),
    }


def score(model: object, X: np.ndarray, y: np.ndarray) -> float:
    """Return the area under the curve of a classifier, and R² of a regression."""
    if hasattr(model, "decision_function"):
        return float(roc_auc_score(y, model.decision_function(X)))
    return float(model.score(X, y))


def logistic(epsilon: float, protect: str) -> DPLogisticRegression:
    return DPLogisticRegression(
        epsilon, delta=DELTA, bounds=(0, 1), classes=[0, 1], protect=protect
    )


def linear(epsilon: float, protect: str) -> DPLinearRegression:
    return DPLinearRegression(
        epsilon, delta=DELTA, bounds=(0, 1), target_bounds=(0, 1), protect=protect
    )


MODELS = {
    "DPLogisticRegression, area": (logistic, LogisticRegression(max_iter=2_000)),
    "DPLinearRegression, R²": (linear, LinearRegression()),
}


# Of a model, a promise and an epsilon: the score, and seconds of CPU.
Scores = dict[tuple[str, str, float], tuple[float, float]]


def scores_of(X: np.ndarray, y: np.ndarray, split: int) -> Scores:
    """Return what all models score on a quarter of the rows."""
    train, test = train_test_split(
        np.arange(len(y)), test_size=0.25, random_state=split, stratify=y
    )
    scores = {}
    for name, (make, exact) in MODELS.items():
        without = score(exact.fit(X[train], y[train]), X[test], y[test])
        for epsilon in EPSILONS:
            scores[name, "none", epsilon] = without, 0.0
            for protect in PROMISES:
                start = time.process_time()
                private = make(epsilon, protect).fit(X[train], y[train])
                seconds = time.process_time() - start
                area = score(private, X[test], y[test])
                scores[name, protect, epsilon] = area, seconds
    return scores


def rows_of(table: str, splits: list[Scores]) -> list[list[str]]:
    """Return the rows of a table of results, over some splits."""
    rows = []
    for name in MODELS:
        for protect, promise in [*PROMISES.items(), ("none", "none")]:
            cells = []
            seconds = []
            for epsilon in EPSILONS:
                results = [scores[name, protect, epsilon] for scores in splits]
                numbers, times = zip(*results, strict=True)
                cells.append(f"{np.mean(numbers):.4f} ± {np.std(numbers):.4f}")
                seconds += times
            rows.append([table, name, promise, *cells, f"{np.mean(seconds):.1f}"])
    return rows


def write(rows: list[list[str]], n_splits: str) -> None:
    header = ["table", "model", "promise for"]
    header += [f"ε = {epsilon:g}" for epsilon in EPSILONS]
    write_results(
        "private_target",
        "Models that protect the target",
        ["skdp", "numpy", "scikit-learn"],
        f"Means and standard deviations over {n_splits} splits, a quarter of the rows "
        f"held out, δ = {DELTA:g}. All columns are indicators of declared values and "
        "bins. **The promises are different ones**: of the same ε, that for the values "
        "of the target leaves all other columns and the number of rows public; that "
        "for whole records, read as one for the values of the target, has 2 ε.",
        {"Prediction": ([*header, "CPU s a fit"], rows)},
    )


def main() -> None:
    warnings.simplefilter("ignore")
    rows = []
    for name, (X, y) in tables().items():
        rows += rows_of(name, [scores_of(X, y, split) for split in range(SPLITS)])
    write(rows, str(SPLITS))


if __name__ == "__main__":
    main()
