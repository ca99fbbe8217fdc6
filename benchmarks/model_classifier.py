"""A label asked of a synthesizer's model, beside models trained on its rows, and logistic regression with noise.

Run ``make bench``, or ``python benchmarks/model_classifier.py`` wherever skdp is installed. All have the same epsilon
and delta, and are scored on rows that are held out. The rows to learn from are of the synthesizer that is asked.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
from _synthesis_generated import (
    Generated,
    classes,
    flights,
    payments,
    places,
    postcodes,
    wide,
)
from _timing import write_results
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder

from skdp import Domain, DPLogisticRegression, DPMarginalSynthesizer
from skdp.datasets import load_adult

EPSILONS, DELTA, SEEDS = (0.1, 1.0, 3.0), 1e-6, 5
METHODS = ("asked of the model", "boosting, synthetic rows", "DPLogisticRegression")
TABLES = {
    "flights": flights,
    "postcodes": postcodes,
    "places": places,
    "payments": payments,
    "classes": classes,
    "40 columns": lambda: wide(40),
}
HEADING = "A label with two values, by table"
MOST_VALUES = 40
"""Of a column that the logistic regression sees as indicators; others are one number."""


def adult_halves(seed: int) -> tuple[pd.DataFrame, pd.DataFrame, Domain, str]:
    """Split Adult at random."""
    adult = load_adult()
    train, test = train_test_split(adult.frame, test_size=0.25, random_state=seed)
    return train, test, adult.domain, "income"


def generated_halves(
    table: Generated,
) -> tuple[pd.DataFrame, pd.DataFrame, Domain, str]:
    """Return the rows to train on and the others."""
    other = Generated(
        table.test, table.train, table.sizes, table.unordered, table.target
    )
    return table.frame, other.frame, table.domain, str(table.target)


def scores_of(
    train: Any, test: Any, domain: Domain, target: str, epsilon: float, seed: int
) -> list[float]:
    """Return the area under the curve of each method."""
    names = [name for name in domain.columns if name != target]
    synthesizer = DPMarginalSynthesizer(
        epsilon, delta=DELTA, domain=domain, target=target, random_state=seed
    )
    with warnings.catch_warnings():
        # Of pairs without room: the scores show what they cost.
        warnings.simplefilter("ignore", UserWarning)
        synthesizer.fit(train)
        asked = synthesizer.classifier(target)
        positive = test[target] == asked.classes_[-1]
        logistic = DPLogisticRegression(
            epsilon,
            delta=DELTA,
            bounds=(0, 1),
            classes=list(asked.classes_),
            random_state=seed,
        ).fit(numbers(train[names], domain), train[target])
    rows = synthesizer.sample(len(train))
    boosted = HistGradientBoostingClassifier(random_state=0).fit(
        codes(rows[names], domain), rows[target] == asked.classes_[-1]
    )
    chances = (
        asked.predict_proba(test[names]),
        boosted.predict_proba(codes(test[names], domain)),
        logistic.predict_proba(numbers(test[names], domain)),
    )
    return [float(roc_auc_score(positive, chance[:, -1])) for chance in chances]


def without_privacy(train: Any, test: Any, domain: Domain, target: str) -> float:
    """Return the area under the curve of boosted trees that learn from true rows."""
    names, positive = (
        [name for name in domain.columns if name != target],
        max(domain[target].values),
    )
    model = HistGradientBoostingClassifier(random_state=0).fit(
        codes(train[names], domain), train[target] == positive
    )
    return float(
        roc_auc_score(
            test[target] == positive,
            model.predict_proba(codes(test[names], domain))[:, 1],
        )
    )


def codes(rows: pd.DataFrame, domain: Domain) -> np.ndarray:
    """Code values in their declared order."""
    own = domain.select(list(rows.columns))
    return np.array(own.encode([rows[name] for name in own.columns])).T


def numbers(rows: pd.DataFrame, domain: Domain) -> np.ndarray:
    """Code few values as indicators, many as one number from 0 to 1; all columns but text of many values."""
    coded = codes(rows, domain)
    parts = []
    for place, name in enumerate(rows.columns):
        size = len(domain[name])
        own = coded[:, [place]]
        if size <= MOST_VALUES:
            parts.append(
                OneHotEncoder(
                    categories=[range(size)], sparse_output=False
                ).fit_transform(own)
            )
        else:
            parts.append(own / (size - 1))
    return np.hstack(parts)


def main(seeds: int) -> None:
    """Measure, and write the table."""
    rows = []
    for name in ("Adult", *TABLES):
        whole = None if name == "Adult" else generated_halves(TABLES[name]())
        for epsilon in EPSILONS:
            halves = [whole or adult_halves(seed) for seed in range(seeds)]
            found = np.array(
                [scores_of(*half, epsilon, seed) for seed, half in enumerate(halves)]
            )
            spread = zip(found.mean(axis=0), found.std(axis=0, ddof=1), strict=True)
            best = without_privacy(*halves[0])
            rows.append(
                [
                    name,
                    f"{epsilon:g}",
                    *(f"{mean:.3f} ± {error:.3f}" for mean, error in spread),
                    f"{best:.3f}",
                ]
            )
            print(f"{name}, epsilon {epsilon:g} done", file=sys.stderr)
    tables = {HEADING: (("table", "epsilon", *METHODS, "boosting, true rows"), rows)}
    notes = (
        f"Area under the ROC curve on held-out rows, mean ± standard deviation over {seeds} seeds of the noise (of "
        f"Adult, of the split too); delta = {DELTA:g}. The synthesizer has `target=` and its defaults; its rows are as "
        "many as there are true ones. The logistic regression has the declared values as indicators, of columns with "
        f"more than {MOST_VALUES} values one number. No number of the library was chosen by these scores of the model."
    )
    write_results(
        "model_classifier",
        "A label asked of the model",
        ("skdp", "numpy", "scikit-learn"),
        notes,
        tables,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS)
