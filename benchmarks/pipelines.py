"""AUC of a whole pipeline with one budget: encoder of text, imputer, scaler, selection of columns and model.

The five steps share epsilon and delta 1e-5 by `PrivacyLedger.split`. "declared" has categories and bounds that fit,
"nothing declared" finds them with parts of the same budget, and "search" also chooses the number of columns by
`GridSearchCV` with two candidates and two folds, so each of its five fits has a fifth of the budget. Adult has its own
test rows; loans and patients are generated, with missing values, skewed amounts, rare texts and columns that are mostly
zero.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from _tasks import Task
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, TargetEncoder

DELTA = 1e-5
N_COLUMNS = 8
SCALED = (-5.0, 5.0)


class Records(NamedTuple):
    """Rows to fit and to test, their boolean targets, and the bounds of numbers."""

    X: pd.DataFrame
    y: NDArray[np.bool_]
    X_test: pd.DataFrame
    y_test: NDArray[np.bool_]
    bounds: dict[str, tuple[float, float]]


def draw_labels(
    rng: np.random.Generator, logits: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Draw booleans with the given log odds."""
    return rng.random(len(logits)) < 1 / (1 + np.exp(-logits))


def split_rows(
    X: pd.DataFrame, y: NDArray[np.bool_], bounds: dict[str, tuple[float, float]]
) -> Records:
    """Keep a third of the rows for testing."""
    n = 2 * len(X) // 3
    return Records(X[:n], y[:n], X[n:].reset_index(drop=True), y[n:], bounds)


@cache
def load_adult_rows(n: int) -> Records:
    """Adult with its missing values, its training rows and its test rows."""
    from skdp.datasets import load_adult

    parts: list[Any] = []
    for subset in ("train", "test"):
        X, y = load_adult(subset=subset, return_X_y=True)
        parts += [X.drop(columns="fnlwgt")[:n], (y == ">50K").to_numpy()[:n]]
    bounds = {
        "age": (16.0, 96.0),
        "education-num": (1.0, 16.0),
        "capital-gain": (0.0, 100_000.0),
        "capital-loss": (0.0, 5_000.0),
        "hours-per-week": (0.0, 100.0),
    }
    X, y, X_test, y_test = parts
    return Records(X, y, X_test, y_test, bounds)


@cache
def draw_loans(n: int) -> Records:
    """Loans of a bank: one in eight is not repaid."""
    rng = np.random.default_rng(0)
    regions = rng.zipf(1.6, n).clip(max=20)
    jobs = rng.choice(6, n, p=[0.4, 0.2, 0.15, 0.1, 0.1, 0.05])
    purposes = rng.choice(10, n, p=rng.dirichlet(np.ones(10)))
    age = (18 + rng.gamma(4, 7, n)).clip(max=90).round()
    income = np.exp(rng.normal(10.2, 0.6, n) + 0.1 * jobs).round()
    amount = np.exp(rng.normal(8.5, 0.9, n)).round()
    debt = np.where(rng.random(n) < 0.6, 0, np.exp(rng.normal(8, 1, n))).round()
    months = rng.choice(np.arange(6, 73, 6), n)
    logits = -2.9 + 0.9 * np.log1p(amount / income * 4) - 0.02 * (age - 40)
    logits += 0.9 * (debt > 0) + 0.015 * (months - 36)
    logits += rng.normal(0, 0.5, 10)[purposes] + rng.normal(0, 0.4, 6)[jobs]
    X = pd.DataFrame(
        {
            "age": age,
            "income": np.where(rng.random(n) < 0.06, np.nan, income),
            "amount": amount,
            "debt": debt,
            "months": months,
            "job": np.where(
                rng.random(n) < 0.04, None, np.array([f"job {x}" for x in jobs], object)
            ),
            "purpose": [f"purpose {x}" for x in purposes],
            "region": [f"region {x}" for x in regions],
        }
    )
    bounds = {
        "age": (18.0, 100.0),
        "income": (0.0, 200_000.0),
        "amount": (0.0, 100_000.0),
        "debt": (0.0, 100_000.0),
        "months": (0.0, 72.0),
    }
    return split_rows(X, draw_labels(rng, logits), bounds)


@cache
def draw_patients(n: int) -> Records:
    """Stays of patients: one in six is readmitted within 30 days."""
    rng = np.random.default_rng(1)
    diagnoses = rng.zipf(1.4, n).clip(max=60) - 1
    wards = diagnoses % 7
    age = rng.normal(62, 17, n).clip(0, 104).round()
    stays = rng.poisson(0.8, n)
    days = np.exp(rng.normal(1.4, 0.8, n)).round()
    hemoglobin = rng.normal(13, 2, n).round(1)
    creatinine = np.exp(rng.normal(0, 0.5, n) + 0.005 * (age - 60)).round(2)
    crp = np.exp(rng.normal(2, 1.4, n)).round(1)
    logits = -2.6 + 0.02 * (age - 60) + 0.45 * stays + 0.3 * np.log(creatinine)
    logits += 0.15 * np.log1p(crp) - 0.12 * (hemoglobin - 13)
    logits += rng.normal(0, 0.5, 60)[diagnoses]
    missing = rng.random((2, n)) < [[0.15], [0.05]]
    X = pd.DataFrame(
        {
            "age": age,
            "previous_stays": stays,
            "days": days,
            "hemoglobin": np.where(missing[1], np.nan, hemoglobin),
            "creatinine": np.where(missing[1], np.nan, creatinine),
            "crp": np.where(missing[0], np.nan, crp),
            "sex": rng.choice(["female", "male"], n),
            "admission": rng.choice(["emergency", "planned", "transfer"], n),
            "ward": [f"ward {x}" for x in wards],
            "diagnosis": [f"diagnosis {x}" for x in diagnoses],
        }
    )
    bounds = {
        "age": (0.0, 110.0),
        "previous_stays": (0.0, 10.0),
        "days": (0.0, 60.0),
        "hemoglobin": (4.0, 20.0),
        "creatinine": (0.0, 10.0),
        "crp": (0.0, 500.0),
    }
    return split_rows(X, draw_labels(rng, logits), bounds)


def list_tables(quick: bool) -> Mapping[str, Callable[[], Records]]:
    """List the tables."""
    n = 3_000 if quick else 30_000
    return {
        "Adult": partial(load_adult_rows, n if quick else 40_000),
        "loans": partial(draw_loans, n),
        "patients": partial(draw_patients, n),
    }


def make_pipeline_of(
    encoder: Any, imputer: Any, scaler: Any, selector: Any, model: Any
) -> Any:
    """Return a pipeline that encodes text, imputes and scales numbers, and selects columns."""
    columns = make_column_transformer(
        (encoder, make_column_selector(dtype_exclude="number")),
        (
            make_pipeline(imputer, scaler),
            make_column_selector(dtype_include="number"),
        ),
        verbose_feature_names_out=False,
    )
    return make_pipeline(columns, selector, model).set_output(transform="pandas")


def fit_without_privacy(table: Records, epsilon: float, seed: int) -> Any:
    """Fit the pipeline of scikit-learn."""
    return make_pipeline_of(
        TargetEncoder(random_state=seed),
        SimpleImputer(),
        StandardScaler(),
        SelectKBest(k=N_COLUMNS),
        LogisticRegression(max_iter=1_000),
    ).fit(table.X, table.y)


def fit_private(
    table: Records, epsilon: float, seed: int, *, declared: bool, search: bool = False
) -> Any:
    """Fit the pipeline whose five steps share one budget."""
    from skdp import (
        DPLogisticRegression,
        DPSelectKBest,
        DPSimpleImputer,
        DPStandardScaler,
        DPTargetEncoder,
        PrivacyLedger,
    )

    bounds = scaled = categories = target = classes = None
    if declared:
        bounds, scaled, target = table.bounds, SCALED, (0, 1)
        classes = [False, True]
        categories = {
            name: table.X[name].astype(object).drop_duplicates().tolist()
            for name in table.X
            if name not in table.bounds
        }
    model = make_pipeline_of(
        DPTargetEncoder(
            delta=1e-6, categories=categories, bounds=target, handle_unknown="ignore"
        ),
        DPSimpleImputer(bounds=bounds),
        DPStandardScaler(bounds=bounds),
        DPSelectKBest(k=N_COLUMNS, bounds=scaled, classes=classes),
        DPLogisticRegression(bounds=scaled, classes=classes),
    )
    seeds = [name for name in model.get_params() if name.endswith("__random_state")]
    model.set_params(**{x: 10 * seed + index for index, x in enumerate(seeds)})
    n_fits = 1
    if search:
        grid = {"dpselectkbest__k": [N_COLUMNS // 2, N_COLUMNS]}
        model = GridSearchCV(model, grid, cv=2, scoring="roc_auc")
        n_fits = 5
    ledger = PrivacyLedger(epsilon, delta=DELTA)
    model.set_params(**ledger.split(model, n_fits=n_fits))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of columns that are mostly zero
        return model.fit(table.X, table.y)


def score_auc(table: Records, model: Any) -> dict[str, float]:
    """Return the area under the ROC curve of the test rows."""
    chance = model.predict_proba(table.X_test)[:, 1]
    return {"AUC": float(roc_auc_score(table.y_test, chance))}


METHODS = {
    "no privacy": fit_without_privacy,
    "declared": partial(fit_private, declared=True),
    "nothing declared": partial(fit_private, declared=False),
    "nothing declared, search": partial(fit_private, declared=False, search=True),
}
TASKS = {
    f"epsilon {epsilon:g}": Task(list_tables, METHODS, score_auc, (epsilon,), 4)
    for epsilon in (1.0, 4.0)
}
