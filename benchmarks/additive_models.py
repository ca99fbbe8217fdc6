"""How well private additive models predict rows that were held out, beside linear ones and DP-EBM of interpret.

Run in the environment of ``requirements-models.txt``; a peer that is missing is left out. All fits of skdp draw secure
coins. Arguments: the number of fits, and a folder with the files of ACS, COMPAS and LSAC, if they cannot be fetched.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _timing import best_of, verdict, write_results
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split

from skdp import (
    DPAdditiveClassifier,
    DPAdditiveRegressor,
    DPLogisticRegression,
    DPRidge,
    Interval,
)
from skdp.datasets import (
    load_acs_public_coverage,
    load_adult,
    load_compas,
    load_lsac,
)

FITS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
FOLDER = Path(sys.argv[2]) if len(sys.argv) > 2 else None
DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 4.0)


@dataclass(frozen=True, eq=False)
class Case:
    """A table, its target, and what is declared of both."""

    rows: pd.DataFrame
    target: np.ndarray
    bounds: dict[str, tuple[float, float]]
    categories: dict[str, list[Any]]
    # None if the target is 0 or 1.
    target_bounds: tuple[float, float] | None = None

    @property
    def indicators(self) -> tuple[np.ndarray, np.ndarray]:
        """The columns of linear models, with their bounds."""
        parts = [self.rows[list(self.bounds)].to_numpy(float)]
        ends = list(self.bounds.values())
        for name, values in self.categories.items():
            codes = self.rows[name].to_numpy(object)[:, np.newaxis]
            parts.append((codes == np.array(values, object)).astype(float))
            ends += [(0.0, 1.0)] * len(values)
        return np.hstack(parts), np.array(ends)


def of_bunch(bunch: Any, positive: Any, leave_out: tuple[str, ...] = ()) -> Case:
    """Take numbers and long scales as numbers, and other values as categories."""
    rows, bounds, categories = {}, {}, {}
    for name in bunch.data.columns:
        attribute = bunch.domain[name]
        if name in leave_out:
            continue
        if isinstance(attribute, Interval):
            ends = attribute.edges[0], attribute.edges[-1]
        else:
            ends = min(attribute.values, key=str), max(attribute.values, key=str)
        is_scale = isinstance(ends[0], int | float) and len(attribute) > 6
        if isinstance(attribute, Interval) or is_scale:
            values = (
                attribute.edges if isinstance(attribute, Interval) else attribute.values
            )
            bounds[name] = (float(min(values)), float(max(values)))
            rows[name] = bunch.data[name].astype(float)
        else:
            categories[name] = ["?" if one is None else one for one in attribute.values]
            column = bunch.data[name].astype(object)
            rows[name] = column.where(column.notna(), "?")
    target = (bunch.target == positive).to_numpy().astype(int)
    return Case(pd.DataFrame(rows), target, bounds, categories)


def file_of(name: str) -> Path | None:
    return None if FOLDER is None else FOLDER / name


def numbers(
    columns: np.ndarray, ends: tuple[float, float]
) -> tuple[pd.DataFrame, dict[str, Any]]:
    names = [f"x{place}" for place in range(columns.shape[1])]
    return pd.DataFrame(columns.clip(*ends), columns=names), dict.fromkeys(names, ends)


def classes(random: np.random.Generator, logits: np.ndarray) -> np.ndarray:
    return (random.random(len(logits)) < 1 / (1 + np.exp(-logits))).astype(int)


def skewed() -> Case:
    """Return 36 log-normal columns of several scales, in bounds that hold all of them."""
    random = np.random.default_rng(101)
    normal = random.normal(size=(24_000, 36))
    scales = random.normal(0, 1.5, 36)
    weights = random.normal(size=36)
    logits = 2.5 * normal @ weights / np.linalg.norm(weights)
    rows, bounds = numbers(np.exp(normal + scales), (0.0, 1e4))
    return Case(rows, classes(random, logits), bounds, {})


def curves() -> Case:
    """Return ten columns, of which some count by curves, steps and products."""
    random = np.random.default_rng(102)
    columns = random.uniform(-1, 1, (30_000, 10))
    logits = 1.5 * np.sin(4 * columns[:, 0]) + np.abs(columns[:, 1]) - columns[:, 2]
    logits += 2 * (columns[:, 3] > 0.5) + 2 * columns[:, 4] * columns[:, 5] - 1
    rows, bounds = numbers(columns, (-1.0, 1.0))
    return Case(rows, classes(random, logits), bounds, {})


def wide() -> Case:
    """Return 100 normal columns of which all matter, by lines."""
    random = np.random.default_rng(103)
    columns, weights = random.normal(size=(32_000, 100)), random.normal(size=100)
    logits = 6 * columns @ weights / np.linalg.norm(weights)
    rows, bounds = numbers(columns, (-4.0, 4.0))
    return Case(rows, classes(random, logits), bounds, {})


def cancer() -> Case:
    columns, target = load_breast_cancer(return_X_y=True)
    rows, _ = numbers(columns, (0.0, np.inf))
    ends = [(0.0, float(10 ** np.ceil(np.log10(rows[name].max())))) for name in rows]
    return Case(rows, target, dict(zip(rows, ends, strict=True)), {})


def houses() -> Case:
    """Return districts as of California: incomes with a tail, and two towns."""
    random = np.random.default_rng(104)
    n = 20_000
    town = random.random(n) < 0.55
    latitude = np.where(town, 34.0, 37.7) + random.normal(0, 0.7, n)
    longitude = np.where(town, -118.2, -122.2) + random.normal(0, 0.8, n)
    income = random.lognormal(1.2, 0.45, n).clip(0, 20)
    age = random.integers(1, 53, n).astype(float)
    crowd = random.lognormal(1.0, 0.3, n).clip(0, 100)
    near = np.exp(
        -np.minimum(
            np.hypot(latitude - 34, longitude + 118.4),
            np.hypot(latitude - 37.8, longitude + 122.4),
        )
    )
    price = (
        0.4 * income
        + 1.2 * near
        + 0.006 * age
        - 0.5 * np.log(crowd)
        + 0.6
        + random.normal(0, 0.55, n)
    )
    rows = pd.DataFrame(
        {
            "latitude": latitude,
            "longitude": longitude,
            "income": income,
            "age": age,
            "crowd": crowd,
        }
    )
    bounds = {
        "latitude": (32.0, 42.0),
        "longitude": (-125.0, -114.0),
        "income": (0.0, 20.0),
        "age": (0.0, 60.0),
        "crowd": (0.0, 100.0),
    }
    return Case(rows, price.clip(0, 5), bounds, {}, (0.0, 5.0))


def diamonds(logarithm: bool) -> Case:
    """Return stones of which the price grows with a power of the weight."""
    random = np.random.default_rng(105)
    n = 50_000
    carat = np.round(random.lognormal(-0.4, 0.58, n), 2).clip(0.2, 5)
    cut, colour, clarity = (
        random.integers(0, 5, n),
        random.integers(0, 7, n),
        random.integers(0, 8, n),
    )
    depth = random.normal(61.7, 1.4, n)
    length = 6.4 * np.cbrt(carat) + random.normal(0, 0.05, n)
    logs = (
        8.4
        + 1.8 * np.log(carat)
        + 0.03 * cut
        - 0.08 * colour
        + 0.12 * clarity
        + random.normal(0, 0.11, n)
    )
    words = {
        "cut": (cut, "FGVPI"),
        "colour": (colour, "DEFGHIJ"),
        "clarity": (clarity, "abcdefgh"),
    }
    rows = pd.DataFrame({"carat": carat, "depth": depth, "length": length})
    categories = {}
    for name, (codes, letters) in words.items():
        rows[name] = np.array(list(letters), object)[codes]
        categories[name] = list(letters)
    bounds = {"carat": (0.0, 5.0), "depth": (40.0, 80.0), "length": (0.0, 12.0)}
    if logarithm:
        return Case(
            rows, logs, bounds, categories, (float(np.log(100)), float(np.log(1e5)))
        )
    return Case(rows, np.exp(logs).clip(0, 20_000), bounds, categories, (0.0, 20_000.0))


CASES: dict[str, Callable[[], Case]] = {
    "COMPAS": lambda: of_bunch(load_compas(file_of("compas_two_years.csv.gz")), 1),
    "LSAC": lambda: of_bunch(load_lsac(file_of("lsac.csv.gz")), 1),
    "Adult": lambda: of_bunch(load_adult(), ">50K", ("fnlwgt",)),
    "ACS": lambda: of_bunch(
        load_acs_public_coverage(file_of("acs_public_coverage.csv.gz")), 1
    ),
    "breast cancer": cancer,
    "36 log-normal columns": skewed,
    "curves and a product": curves,
    "100 normal columns": wide,
    "houses": houses,
    "diamonds": lambda: diamonds(False),
    "diamonds, log price": lambda: diamonds(True),
}
# Those that the peer has time for.
PEER_CASES = ("COMPAS", "Adult", "diamonds, log price")


def additive(
    case: Case, train: np.ndarray, test: np.ndarray, epsilon: float
) -> np.ndarray:
    declared: dict[str, Any] = {
        "bounds": case.bounds or None,
        "categories": case.categories or None,
        "delta": DELTA,
    }
    rows, target = case.rows.iloc[train], case.target[train]
    if case.target_bounds is None:
        classifier = DPAdditiveClassifier(epsilon, classes=[0, 1], **declared)
        return classifier.fit(rows, target).decision_function(case.rows.iloc[test])
    regressor = DPAdditiveRegressor(
        epsilon, target_bounds=case.target_bounds, **declared
    )
    return regressor.fit(rows, target).predict(case.rows.iloc[test])


def linear(
    case: Case, train: np.ndarray, test: np.ndarray, epsilon: float
) -> np.ndarray:
    columns, ends = case.indicators
    if case.target_bounds is None:
        classifier = DPLogisticRegression(
            epsilon, delta=DELTA, bounds=ends, classes=[0, 1]
        )
        return classifier.fit(columns[train], case.target[train]).decision_function(
            columns[test]
        )
    regressor = DPRidge(
        epsilon, delta=DELTA, bounds=ends, target_bounds=case.target_bounds
    )
    return regressor.fit(columns[train], case.target[train]).predict(columns[test])


def in_interpret(
    case: Case, train: np.ndarray, test: np.ndarray, epsilon: float
) -> np.ndarray:
    from interpret.privacy import (
        DPExplainableBoostingClassifier,
        DPExplainableBoostingRegressor,
    )

    # Undeclared categories would be listed without charge.
    kinds: list[Any] = [case.categories.get(name, "continuous") for name in case.rows]
    options = {
        "epsilon": epsilon,
        "delta": DELTA,
        "privacy_bounds": case.bounds,
        "feature_types": kinds,
    }
    rows, target = case.rows.iloc[train], case.target[train]
    if case.target_bounds is None:
        classifier = DPExplainableBoostingClassifier(**options)
        return classifier.fit(rows, target).predict_proba(case.rows.iloc[test])[:, 1]
    # Its noise fits targets that are measured from 0.
    low, high = case.target_bounds
    regressor = DPExplainableBoostingRegressor(
        privacy_target_min=0.0, privacy_target_max=high - low, **options
    )
    return (
        regressor.fit(rows, (target - low).clip(0, high - low)).predict(
            case.rows.iloc[test]
        )
        + low
    )


def line_without_privacy(
    case: Case, train: np.ndarray, test: np.ndarray, _: float
) -> np.ndarray:
    columns, ends = case.indicators
    columns = (columns - ends[:, 0]) / (ends[:, 1] - ends[:, 0])
    if case.target_bounds is None:
        classifier = LogisticRegression(C=1e3, max_iter=2_000).fit(
            columns[train], case.target[train]
        )
        return classifier.decision_function(columns[test])
    return (
        LinearRegression()
        .fit(columns[train], case.target[train])
        .predict(columns[test])
    )


def trees_without_privacy(
    case: Case, train: np.ndarray, test: np.ndarray, _: float
) -> np.ndarray:
    columns, _ = case.indicators
    if case.target_bounds is None:
        classifier = HistGradientBoostingClassifier(random_state=0).fit(
            columns[train], case.target[train]
        )
        return classifier.predict_proba(columns[test])[:, 1]
    return (
        HistGradientBoostingRegressor(random_state=0)
        .fit(columns[train], case.target[train])
        .predict(columns[test])
    )


Score = Callable[[Case, np.ndarray, np.ndarray, float], np.ndarray]
MODELS: dict[str, Score] = {
    "**skdp**: additive": additive,
    "**skdp**: logistic, ridge": linear,
    "interpret: DP-EBM": in_interpret,
    "none: a line": line_without_privacy,
    "none: boosted trees": trees_without_privacy,
}


def rows_of(name: str, case: Case) -> Iterator[list[str]]:
    for model, score in MODELS.items():
        if score is in_interpret and name not in PEER_CASES:
            continue
        cells = []
        is_private = not model.startswith("none")
        start = time.process_time()
        try:
            for epsilon in EPSILONS if is_private else (0.0,):
                scores = []
                for fit in range(FITS):
                    train, test = train_test_split(
                        np.arange(len(case.target)), random_state=fit, test_size=0.25
                    )
                    found = score(case, train, test, epsilon)
                    of = roc_auc_score if case.target_bounds is None else r2_score
                    scores.append(of(case.target[test], found))
                error = np.std(scores, ddof=1) / np.sqrt(FITS)
                cells.append(f"{np.mean(scores):.3f} ± {error:.3f}")
        except ImportError:
            continue
        seconds = (time.process_time() - start) / (len(cells) * FITS)
        cells *= 1 if is_private else len(EPSILONS)
        print(name, model, *cells, f"{seconds:.2f}", flush=True)
        yield [name, model, *cells, f"{seconds:.2f}"]


def speed() -> list[list[str]]:
    random = np.random.default_rng(0)
    columns = random.normal(size=(1_000_000, 14)).clip(-4, 4)
    target = (
        columns @ random.normal(size=14) + random.logistic(size=1_000_000) > 0
    ).astype(int)
    seconds = best_of(
        {
            "DPAdditiveClassifier.fit": lambda: DPAdditiveClassifier(
                1.0, bounds=(-4, 4), classes=[0, 1]
            ).fit(columns, target),
            "scikit-learn: LogisticRegression.fit": lambda: LogisticRegression().fit(
                columns, target
            ),
        },
        3,
    )
    least = seconds["scikit-learn: LogisticRegression.fit"]
    return [
        [what, f"{time:.1f}", f"{time / least:.2f}", verdict(time / least <= 3)]
        for what, time in seconds.items()
    ]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    scores = [row for name, make in CASES.items() for row in rows_of(name, make())]
    write_results(
        "additive_models",
        "Private additive models",
        ["skdp", "numpy", "scikit-learn", "interpret-core"],
        "Areas under the ROC curve, or R² of the last three tables, on a held-out quarter of the rows, "
        f"δ = {DELTA:g}: means and standard errors over {FITS} splits, each with a fit. Constants of the additive "
        "models were chosen with the real tables in view, and with generated ones of other seeds and formulas. All "
        "domains are declared: DP-EBM lists categories that are not declared without charge, and its regressor breaks "
        "epsilon where bounds of the target do not begin at 0, so it is given such. It takes the number of rows for "
        "public.",
        {
            "Scores": (
                (
                    "table",
                    "model",
                    *(f"ε = {epsilon:g}" for epsilon in EPSILONS),
                    "CPU s a fit",
                ),
                scores,
            ),
            "A million rows of 14 columns": (
                ("what", "seconds", "× scikit-learn", "≤ 3?"),
                speed(),
            ),
        },
    )
