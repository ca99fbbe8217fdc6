"""Accuracy and fairness of a classifier of Adult that is trained on privatised columns, beside published numbers.

Run ``python benchmarks/adult_fairness.py [--seeds 40]``. It writes ``results/adult_fairness.md``. A seed makes a split
of the rows and the randomness; every setting is fitted on the same splits, and its test rows are the true ones.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import pandas as pd
from _timing import verdict, write_results
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult
from skdp.evaluation import privacy_curve

PRIVATE = ["sex", "race", "native-country", "age"]
PUBLIC = [
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "hours-per-week",
]
AGES = range(17, 91)
EPSILONS = [0.5, 1.0, 4.0, 8.0]
NONE, SEX = "no privacy", "sex only, epsilon 1"
ALL_FOUR = "all four columns, epsilon {:g}"
METRICS = {
    "accuracy": "accuracy",
    "statistical_parity_difference": "statistical parity difference",
    "equal_opportunity_difference": "equal opportunity difference",
}
# Means over 8 seeds of a script of its own without skdp: accuracy, parity, equal opportunity, male − female.
REFERENCE = {
    NONE: (0.8351, 0.1942, 0.1533),
    ALL_FOUR.format(0.5): (0.8276, 0.1828, 0.1424),
    ALL_FOUR.format(1): (0.8272, 0.1796, 0.1419),
    ALL_FOUR.format(4): (0.8280, 0.1836, 0.1407),
    ALL_FOUR.format(8): (0.8301, 0.1907, 0.1510),
    SEX: (0.8347, 0.1912, 0.1371),
}
# Standard deviations over its seeds, known for the setting without privacy.
REFERENCE_DEVIATIONS = (0.003, 0.004, 0.015)
REFERENCE_SEEDS = 8
# Arcolezi et al. 2023, LightGBM, randomised response, uniform budget: accuracy, parity, equal opportunity.
PUBLISHED = {
    NONE: (0.8153, 0.3649, 0.2106),
    ALL_FOUR.format(0.5): (0.8041, 0.3345, 0.1819),
    ALL_FOUR.format(1): (0.8045, 0.3358, 0.1839),
    ALL_FOUR.format(4): (0.8048, 0.3445, 0.1965),
    ALL_FOUR.format(8): (0.8070, 0.3549, 0.2062),
}


def one_hot() -> OneHotEncoder:
    return OneHotEncoder(handle_unknown="ignore")


def model(X: pd.DataFrame, private: list[str]) -> Pipeline:
    """Return a logistic regression on ten one-hot columns, some of them under randomised response."""
    values = load_adult(dropna=True).domain
    domain = {name: AGES if name == "age" else values[name] for name in private}
    reported = Pipeline(
        [
            ("encoder", RandomizedResponseEncoder(strategy="split", categories=domain)),
            ("1", one_hot()),
        ]
    )
    others = [*(name for name in PRIVATE if name not in private), *PUBLIC]
    columns = ColumnTransformer(
        [("private", reported, private), ("others", one_hot(), others)]
    )
    return Pipeline(
        [("columns", columns), ("classifier", LogisticRegression(max_iter=1000))]
    )


def score(n_seeds: int) -> pd.DataFrame:
    """Return a row for each setting, seed and metric; differences are male − female."""
    X, y = load_adult(subset="all", dropna=True, return_X_y=True)
    X = X[PRIVATE + PUBLIC]
    splits = [
        train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed)
        for seed in range(n_seeds)
    ]
    options = {
        "param_name": "columns__private__encoder__epsilon",
        "sensitive_features": "sex",
        "privileged": "Male",
        "positive_label": ">50K",
        "scoring": list(METRICS),
        "cv": splits,
        "privatize": "fit",
        "random_state": 0,
    }
    four = privacy_curve(model(X, PRIVATE), X, y, epsilons=EPSILONS, **options)
    sex = privacy_curve(
        model(X, ["sex"]), X, y, epsilons=[1.0], baseline=None, **options
    )
    names = {epsilon: ALL_FOUR.format(epsilon) for epsilon in EPSILONS} | {
        math.inf: NONE
    }
    scores = pd.concat(
        [four.assign(setting=four["epsilon"].map(names)), sex.assign(setting=SEX)]
    )
    # Ours, as aif360's, are unprivileged − privileged.
    scores.loc[scores["metric"].str.endswith("difference"), "value"] *= -1
    return scores[["setting", "fold", "metric", "value"]]


def compare(scores: pd.DataFrame) -> list[list[str]]:
    """Set means beside the reference, in standard errors of the difference of two means."""
    rows = []
    for setting, reference in REFERENCE.items():
        for metric, known, deviation in zip(
            METRICS, reference, REFERENCE_DEVIATIONS, strict=True
        ):
            own = _values(scores, setting, metric)
            error = math.hypot(own.sem(), deviation / math.sqrt(REFERENCE_SEEDS))
            distance = (own.mean() - known) / error
            number = f"{own.mean():.4f} ± {own.sem():.4f}"
            rows.append(
                [
                    setting,
                    METRICS[metric],
                    number,
                    f"{known:.4f}",
                    f"{distance:+.1f}",
                    verdict(abs(distance) <= 2),
                ]
            )
    return rows


def changes(scores: pd.DataFrame) -> list[list[str]]:
    """Return what each setting changes against no privacy, seed by seed, beside the same of others."""
    rows = []
    for setting in REFERENCE:
        row = [setting]
        for place, metric in enumerate(METRICS):
            own = _values(scores, setting, metric) - _values(scores, NONE, metric)
            row.append(f"{own.mean():+.4f} ± {own.sem():.4f}")
            row.append(_change(REFERENCE, setting, place))
            row.append(_change(PUBLISHED, setting, place))
        if setting != NONE:
            rows.append(row)
    return rows


def _values(scores: pd.DataFrame, setting: str, metric: str) -> pd.Series:
    own = scores[(scores["setting"] == setting) & (scores["metric"] == metric)]
    return own.set_index("fold")["value"]


def _change(
    table: dict[str, tuple[float, float, float]], setting: str, place: int
) -> str:
    return (
        f"{table[setting][place] - table[NONE][place]:+.4f}"
        if setting in table
        else "–"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    options = parser.parse_args()
    scores = score(options.seeds)
    write_results(
        "adult_fairness",
        "Accuracy and fairness of a classifier trained on privatised columns",
        ("skdp", "scikit-learn", "pandas"),
        f"Adult, income above 50K, 45,222 rows without missing values, {options.seeds} seeds: each an 80/20 split and "
        "new coins. Ten columns, all one-hot, logistic regression. Sex, race, native-country and age of the training "
        "rows under randomised response, a quarter of epsilon each (or sex alone, with all of it); test rows as they "
        "are, scored on the true sex. Differences are male − female; ± is a standard error over the seeds. The "
        f"reference is a script without skdp, {REFERENCE_SEEDS} seeds; its own standard errors follow from its "
        "standard deviations without privacy (.003, .004, .015), which serve for all its rows. Published: Arcolezi et "
        "al. 2023, LightGBM, reconstructed Adult with income above 26K, 45,849 rows, 20 seeds.",
        {
            "Beside the reference": (
                (
                    "setting",
                    "metric",
                    "here",
                    "reference",
                    "standard errors apart",
                    "within two standard errors of the difference",
                ),
                compare(scores),
            ),
            "Change against no privacy, seed by seed": (
                (
                    "setting",
                    *(
                        f"{name}{what}"
                        for name in ("accuracy", "parity", "equal opportunity")
                        for what in (": here", ": reference", ": published")
                    ),
                ),
                changes(scores),
            ),
        },
    )


if __name__ == "__main__":
    main()
