"""How well private models predict rows that were held out: additive ones, linear ones, and those of others.

Run in the environment of ``requirements-models.txt``; a peer that is missing is left
out. Every fit is kept as a line of ``results/additive_models.jsonl``, and the page is
made of all lines: a run only measures what is not there, three splits of every table
first, then the others, and the times of a million rows. ``--folder`` has the files of
ACS, COMPAS and LSAC, if they cannot be fetched. ``--page`` only writes the page, and
``--speed`` only measures times. Each fit has a seed, so that a run of the same code has
the same scores; fits that are only timed draw secure coins.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _additive_report import (
    FEW_EPOCHS,
    LINEAR,
    LINEAR_AGAIN,
    LOGISTIC,
    SPEED,
    write_page,
)
from _additive_tables import GENERATED, Case, published_tables
from _timing import RESULTS, commit
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler

from skdp import (
    DPAdditiveClassifier,
    DPAdditiveRegressor,
    DPLogisticRegression,
    DPMarginalSynthesizer,
    DPRidge,
    MarginalClassifier,
)

DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 4.0)
FITS = 10
# Of every table before the others, so that a run that is stopped has all tables.
FIRST_FITS = 3
# Of a million rows.
TURNS = 7
# With so small an epsilon, a fit of a million rows has 2 epochs and counts no pairs.
EPSILON_OF_FEW_EPOCHS = 0.001
LINES = RESULTS / "additive_models.jsonl"
# The synthesizer's classifier is left out beyond: of 101 columns it is a large model.
TOO_WIDE = 40

Places = np.ndarray
Record = dict[str, Any]
# The table, the model, epsilon and the number of the split.
Key = tuple[str, str, float, int]


def additive(
    case: Case, train: Places, test: Places, epsilon: float, seed: int
) -> np.ndarray:
    declared: dict[str, Any] = {
        "bounds": case.bounds or None,
        "categories": case.categories or None,
        "delta": DELTA,
        "random_state": seed,
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
    case: Case,
    train: Places,
    test: Places,
    epsilon: float,
    seed: int,
    scaling: Any = None,
) -> np.ndarray:
    columns, ends = case.indicators
    options = {
        "delta": DELTA,
        "bounds": ends,
        "scaling": scaling,
        "random_state": seed,
    }
    if case.target_bounds is None:
        classifier = DPLogisticRegression(epsilon, classes=[0, 1], **options)
        classifier.fit(columns[train], case.target[train])
        return classifier.decision_function(columns[test])
    regressor = DPRidge(epsilon, target_bounds=case.target_bounds, **options)
    return regressor.fit(columns[train], case.target[train]).predict(columns[test])


def scaled(
    case: Case, train: Places, test: Places, epsilon: float, seed: int
) -> np.ndarray:
    return linear(case, train, test, epsilon, seed, "auto")


def marginals(
    case: Case, train: Places, test: Places, epsilon: float, seed: int
) -> np.ndarray:
    # The published bins are those of the table; equal bins fit no tail.
    bins = "declared" if case.published else "private"
    synthesizer = DPMarginalSynthesizer(
        epsilon,
        delta=DELTA,
        domain=case.domain,
        bins=bins,
        handle_unknown="clip",
        random_state=seed,
    )
    model = MarginalClassifier(synthesizer)
    model.fit(case.rows.iloc[train], case.target[train])
    return model.predict_proba(case.rows.iloc[test])[:, 1]


def in_interpret(
    case: Case, train: Places, test: Places, epsilon: float, seed: int
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
        "n_jobs": 1,
        "random_state": seed,
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
    regressor.fit(rows, (target - low).clip(0, high - low))
    return regressor.predict(case.rows.iloc[test]) + low


def in_diffprivlib(
    case: Case, train: Places, test: Places, epsilon: float, seed: int
) -> np.ndarray:
    from diffprivlib import models

    columns, ends = case.indicators
    columns = (columns - ends[:, 0]) / (ends[:, 1] - ends[:, 0])
    if case.target_bounds is None:
        # Read from the data, in the peer's favour.
        norm = float(np.quantile(np.linalg.norm(columns[train], axis=1), 0.99))
        classifier = models.LogisticRegression(
            epsilon=epsilon, data_norm=norm, random_state=seed
        )
        classifier.fit(columns[train], case.target[train])
        return classifier.predict_proba(columns[test])[:, 1]
    regressor = models.LinearRegression(
        epsilon=epsilon,
        bounds_X=(0, 1),
        bounds_y=case.target_bounds,
        random_state=seed,
    )
    return regressor.fit(columns[train], case.target[train]).predict(columns[test])


def line_without_privacy(
    case: Case, train: Places, test: Places, _epsilon: float, _seed: int
) -> np.ndarray:
    columns, _ends = case.indicators
    return without_privacy(
        case,
        columns,
        train,
        test,
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=2_000)),
        LinearRegression(),
    )


def bins_without_privacy(
    case: Case, train: Places, test: Places, _epsilon: float, _seed: int
) -> np.ndarray:
    bins = KBinsDiscretizer(24, strategy="quantile")
    known = list(case.categories.values())
    columns = make_column_transformer(
        (bins, list(case.bounds)),
        (OneHotEncoder(categories=known), list(case.categories)),
    )
    return without_privacy(
        case,
        case.rows,
        train,
        test,
        make_pipeline(columns, LogisticRegression(max_iter=2_000)),
        make_pipeline(columns, Ridge()),
    )


def trees_without_privacy(
    case: Case, train: Places, test: Places, _epsilon: float, _seed: int
) -> np.ndarray:
    columns, _ends = case.indicators
    return without_privacy(
        case,
        columns,
        train,
        test,
        HistGradientBoostingClassifier(random_state=0),
        HistGradientBoostingRegressor(random_state=0),
    )


def without_privacy(
    case: Case,
    columns: Any,
    train: Places,
    test: Places,
    classifier: Any,
    regressor: Any,
) -> np.ndarray:
    """Fit the one or the other, and predict."""
    if not isinstance(columns, np.ndarray):
        train_rows, test_rows = columns.iloc[train], columns.iloc[test]
    else:
        train_rows, test_rows = columns[train], columns[test]
    if case.target_bounds is None:
        classifier.fit(train_rows, case.target[train])
        return classifier.predict_proba(test_rows)[:, 1]
    return regressor.fit(train_rows, case.target[train]).predict(test_rows)


Score = Callable[[Case, Places, Places, float, int], np.ndarray]
MODELS: dict[str, Score] = {
    "**skdp**: additive": additive,
    "**skdp**: logistic, ridge": linear,
    '**skdp**: the same, scaling="auto"': scaled,
    "**skdp**: synthesizer's classifier": marginals,
    "interpret: DP-EBM": in_interpret,
    "diffprivlib": in_diffprivlib,
    "none: a line": line_without_privacy,
    "none: a function of each column": bins_without_privacy,
    "none: boosted trees": trees_without_privacy,
}


def is_private(model: str) -> bool:
    return not model.startswith("none")


def is_measurable(case: Case, model: str) -> bool:
    """Whether a model applies to a table."""
    if MODELS[model] is not marginals:
        return True
    return case.target_bounds is None and len(case.rows.columns) <= TOO_WIDE


def measure(case: Case, key: Key) -> Record:
    """Fit and score once; seconds are of the process."""
    _table, model, epsilon, fit = key
    # Other noise for each table and epsilon, so that errors of means over them hold.
    seed = zlib.crc32(repr(key).encode())
    train, test = train_test_split(
        np.arange(len(case.target)), random_state=fit, test_size=0.25
    )
    start = time.process_time()
    predicted = MODELS[model](case, train, test, epsilon, seed)
    seconds = time.process_time() - start
    if case.target_bounds is None:
        score = roc_auc_score(case.target[test], predicted)
    else:
        score = r2_score(case.target[test], predicted)
    return {"score": float(score), "seconds": round(seconds, 3)}


def read(path: Path) -> list[Record]:
    """Return what was measured before."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def key_of(record: Record) -> Key:
    return record["table"], record["model"], record["epsilon"], record["fit"]


def add(records: list[Record], path: Path, key: Key, scored: Record, code: str) -> None:
    """Keep a measurement, and the commit of the code that was measured."""
    names = ("table", "model", "epsilon", "fit")
    record = dict(zip(names, key, strict=True)) | scored | {"commit": code}
    records.append(record)
    with path.open("a") as lines:
        lines.write(json.dumps(record) + "\n")


def runs(fits: range, tables: list[str]) -> Iterator[Key]:
    """List what is measured of a few splits, table by table."""
    for table, fit, model in itertools.product(tables, fits, MODELS):
        for epsilon in EPSILONS if is_private(model) else (0.0,):
            yield table, model, epsilon, fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=FITS)
    parser.add_argument("--folder", type=Path, help="a folder of published tables")
    parser.add_argument("--page", action="store_true", help="write the page only")
    parser.add_argument("--speed", action="store_true", help="measure times only")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = published_tables(options.folder) | GENERATED
    records = read(LINES)
    if not (options.page or options.speed):
        measure_all(tables, options.fits, records)
    if not options.page:
        measure_speed(records)
    write_page(records)


def measure_all(
    tables: dict[str, Callable[[], Case]], n_fits: int, records: list[Record]
) -> None:
    """Measure what is not there, and keep it."""
    keys = {key_of(record) for record in records}
    cases: dict[str, Case] = {}
    missing = set()
    code = commit()
    first = range(min(FIRST_FITS, n_fits))
    # Of the others one split at a time, so that all cells have nearly as many.
    parts = [first, *(range(fit, fit + 1) for fit in range(FIRST_FITS, n_fits))]
    for fits in parts:
        for key in runs(fits, list(tables)):
            table, model, *_ = key
            if key in keys or model in missing:
                continue
            if table not in cases:
                cases[table] = tables[table]()
            if not is_measurable(cases[table], model):
                continue
            try:
                scored = measure(cases[table], key)
            except ImportError:
                missing.add(model)
                continue
            add(records, LINES, key, scored, code)


def measure_speed(records: list[Record]) -> None:
    """Time fits of a million rows of 14 columns, in turns."""
    random = np.random.default_rng(0)
    columns = random.normal(size=(1_000_000, 14)).clip(-4, 4)
    number = columns @ random.normal(size=14) + random.logistic(size=1_000_000)
    number = number.clip(-50, 50)
    is_positive = (number > 0).astype(int)
    classifier = DPAdditiveClassifier(1.0, classes=[0, 1], bounds=(-4, 4))
    regressor = DPAdditiveRegressor(1.0, target_bounds=(-50, 50), bounds=(-4, 4))
    few = {"epsilon": EPSILON_OF_FEW_EPOCHS, "interactions": 0}
    models = {
        "DPAdditiveClassifier.fit": (classifier, is_positive),
        LOGISTIC: (LogisticRegression(), is_positive),
        "DPAdditiveClassifier.fit" + FEW_EPOCHS: (
            clone(classifier).set_params(**few),
            is_positive,
        ),
        "DPAdditiveRegressor.fit": (regressor, number),
        LINEAR: (LinearRegression(), number),
        LINEAR_AGAIN: (LinearRegression(), number),
        "DPAdditiveRegressor.fit" + FEW_EPOCHS: (
            clone(regressor).set_params(**few),
            number,
        ),
    }
    for model, target in models.values():
        model.fit(columns[:10_000], target[:10_000])  # what is imported at first use
    keys = {key_of(record) for record in records}
    code = commit()
    for turn in range(TURNS):
        for name, (model, target) in models.items():
            key = (SPEED, name, 1.0, turn)
            if key in keys:
                continue
            start = time.process_time()
            model.fit(columns, target)
            seconds = round(time.process_time() - start, 3)
            add(records, LINES, key, {"seconds": seconds}, code)


if __name__ == "__main__":
    main()
