"""What additive models predict if the bounds that are declared of numbers are far too wide.

``--folder`` has the files of COMPAS and LSAC, if they cannot be fetched. ``--fits``
makes it shorter.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from _additive_tables import GENERATED, Case, published_tables
from _timing import write_results
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split

from skdp import DPAdditiveClassifier, DPAdditiveRegressor

FITS = 10
EPSILONS = (0.1, 0.3, 1.0, 4.0)
TABLES = (
    "COMPAS",
    "LSAC",
    "36 log-normal columns",
    "California-like",
    "diamonds, log price",
)
# How many times as wide as the declared ones, and whether values are moved, so that
# they are far from 0, which is outside of the bounds.
BOUNDS = {
    "as declared": (1, False),
    "10 times as wide": (10, False),
    "1,000 times as wide": (1_000, False),
    "1,000 times as wide, far from 0": (1_000, True),
    "100,000 times as wide, far from 0": (100_000, True),
}
# Where values are moved to, as a part of the bounds, and where these begin.
PLACE, START = 0.37, 0.01


def widened(case: Case, times: float, is_far: bool) -> Case:
    """Return a table of which the numbers have wider bounds."""
    rows = case.rows.copy()
    bounds = {}
    for name, (low, high) in case.bounds.items():
        width = high - low
        if is_far:
            rows[name] = rows[name] + PLACE * times * width
            bounds[name] = low + START * times * width, low + times * width
        else:
            middle = (low + high) / 2
            half = times * width / 2
            bounds[name] = middle - half, middle + half
    return replace(case, rows=rows, bounds=bounds)


def score(case: Case, epsilon: float, fit: int) -> float:
    """Return the area under the curve of classes, or R2 of numbers, of rows that were held out."""
    rows = np.arange(len(case.target))
    train, test = train_test_split(rows, random_state=fit, test_size=0.25)
    declared = {
        "bounds": case.bounds,
        "categories": case.categories or None,
        "delta": 1e-6,
        "random_state": fit,
    }
    if case.target_bounds is None:
        classifier = DPAdditiveClassifier(epsilon, classes=[0, 1], **declared)
        classifier.fit(case.rows.iloc[train], case.target[train])
        predicted = classifier.decision_function(case.rows.iloc[test])
        return float(roc_auc_score(case.target[test], predicted))
    regressor = DPAdditiveRegressor(
        epsilon, target_bounds=case.target_bounds, **declared
    )
    regressor.fit(case.rows.iloc[train], case.target[train])
    return float(r2_score(case.target[test], regressor.predict(case.rows.iloc[test])))


def scores(folder: Path | None, n_fits: int) -> pd.DataFrame:
    tables = published_tables(folder) | GENERATED
    records = []
    for table, name in itertools.product(TABLES, BOUNDS):
        case = widened(tables[table](), *BOUNDS[name])
        for epsilon, fit in itertools.product(EPSILONS, range(n_fits)):
            record = {"table": table, "bounds": name, "epsilon": epsilon}
            records.append(record | {"score": score(case, epsilon, fit)})
        print(table, name, flush=True)
    return pd.DataFrame(records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="a folder of published tables")
    parser.add_argument("--fits", type=int, default=FITS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    groups = scores(options.folder, options.fits).groupby(
        ["table", "bounds", "epsilon"], sort=False
    )["score"]
    means, errors = groups.mean(), groups.sem()
    rows = []
    for table, name in itertools.product(TABLES, BOUNDS):
        row = [table, name]
        for epsilon in EPSILONS:
            key = table, name, epsilon
            row.append(f"{means[key]:.3f} ± {errors[key]:.3f}")
        rows.append(row)
    write_results(
        "wide_bounds",
        "Bounds that are too wide",
        ("skdp", "numpy", "scikit-learn"),
        "Areas under the curve of COMPAS, LSAC and log-normal columns, R2 of the others, by additive models, of rows "
        f"that were held out: means of {options.fits} fits, with standard errors. Constants were chosen on these "
        "tables.",
        {
            "Scores": (
                ("table", "bounds", *(f"ε = {epsilon:g}" for epsilon in EPSILONS)),
                rows,
            )
        },
    )


if __name__ == "__main__":
    main()
