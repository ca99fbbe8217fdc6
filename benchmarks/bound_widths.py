"""Fourth law of ordinary tables: wide bounds, or none, cost little.

The tables of `ordinary_tables.py`, with bounds that fit, 10 and 100 times wider, and open ends. Errors of means,
medians and groups are in standard errors of the sample, of scales in logarithms, of synthetic columns in units of a
Kolmogorov-Smirnov statistic, and of models the lost part of R2, or of the gain in log loss, without privacy: 1 is as
good as a constant. "kept" is 1 if no error is more than twice the error with bounds that fit (or than 1; 0.1 of scales
and models), and "silent" counts models that are worse than a constant without a warning. Means with two declared ends
are means of these bounds, so only open ends count for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from _tasks import Task
from numpy.typing import NDArray
from ordinary_tables import (
    DELTA,
    Ordinary,
    fit,
    list_linear,
    list_logistic,
    list_tables,
)
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Bounds = list[tuple[float, float]] | None

WIDTHS = {"fit": 1, "10 times wider": 10, "100 times wider": 100, "open": None}
MAX_NUMBERS = 4
MAX_ERROR = 1e6


class Width(NamedTuple):
    """Errors by width, the error that nobody notices, whether declared ends count, and silent failures."""

    errors: dict[str, float]
    unnoticed: float
    only_open: bool = False
    n_silent: int = 0


def widen(bounds: Bounds, factor: int | None) -> Bounds:
    """Widen bounds: upward if they have one sign, in both directions otherwise; None if nothing is declared."""
    if bounds is None or factor is None:
        return None
    wide = []
    for low, high in bounds:
        more = (factor - 1) * (high - low)
        if low >= 0:
            wide.append((low, high + more))
        elif high <= 0:
            wide.append((low - more, high))
        else:
            wide.append((low - more / 2, high + more / 2))
    return wide


def select_numbers(table: Ordinary) -> tuple[list[str], NDArray[np.float64], Bounds]:
    """Return the first numeric columns, their rows, and their bounds."""
    names = list(table.bounds)[:MAX_NUMBERS]
    return names, table.rows[names].to_numpy(), [table.bounds[name] for name in names]


def measure_statistic(
    name: str,
    score: Callable[[Any, NDArray[np.float64]], float],
    unnoticed: float,
    table: Ordinary,
    epsilon: float,
    seed: int,
) -> Width:
    """Measure the error of a statistic of columns, for each width."""
    import skdp

    _, rows, bounds = select_numbers(table)
    errors = {}
    for width, factor in WIDTHS.items():
        declared = widen(bounds, factor)
        estimator = getattr(skdp, name)(epsilon, bounds=declared, random_state=seed)
        errors[width] = score(estimator.fit(rows), rows)
    return Width(errors, unnoticed, only_open=name == "DPMean")


def score_mean(mean: Any, rows: NDArray[np.float64]) -> float:
    """Return the mean error of means, in standard errors of the sample."""
    unit = rows.std(axis=0) / math.sqrt(len(rows))
    return float(np.mean(np.abs(mean.mean_ - rows.mean(axis=0)) / unit))


def score_scale(scaler: Any, rows: NDArray[np.float64]) -> float:
    """Return the mean error of the logarithms of scales."""
    scales = np.maximum(scaler.scale_, 1e-12)
    return float(np.mean(np.abs(np.log(scales / rows.std(axis=0)))))


def score_median(scaler: Any, rows: NDArray[np.float64]) -> float:
    """Return the mean error of the ranks of medians, in standard errors of the sample."""
    below = (rows < scaler.center_).mean(axis=0) - 0.5
    above = 0.5 - (rows <= scaler.center_).mean(axis=0)
    rank = np.maximum(np.maximum(below, above), 0.0)
    return float(rank.mean() * 2 * math.sqrt(len(rows)))


def measure_groups(table: Ordinary, epsilon: float, seed: int) -> Width | None:
    """Measure the error of the means of groups."""
    from skdp import DPGroupBy

    if not table.list_categories():
        return None
    names, rows, bounds = select_numbers(table)
    key = table.list_categories()[0]
    keys = sorted(table.rows[key].unique())
    by_key = table.rows.groupby(key)[names]
    of_groups = (
        by_key.std(ddof=0).to_numpy() / np.sqrt(by_key.size()).to_numpy()[:, None]
    )
    unit = np.maximum(of_groups, 0.01 * rows.std(axis=0))
    errors = {}
    for width, factor in WIDTHS.items():
        wide = widen(bounds, factor)
        declared = None if wide is None else dict(zip(names, wide, strict=True))
        groups = DPGroupBy(
            epsilon,
            by=key,
            keys={key: keys},
            bounds=declared,
            statistics=["count", "mean"],
            random_state=seed,
        ).fit(table.rows[[key, *names]])
        found = groups.to_frame()[[f"{name}_mean" for name in names]].loc[keys]
        gaps = np.abs(found.to_numpy(dtype=float) - by_key.mean().to_numpy())
        errors[width] = float(np.nanmedian(gaps / unit))
    return Width(errors, 1.0, only_open=True)


def measure_regression(
    name: str,
    options: dict[str, Any],
    rival: Any,
    table: Ordinary,
    epsilon: float,
    seed: int,
) -> Width | None:
    """Measure the lost part of R2 of a regression."""
    import skdp

    chosen = next(list_linear(table), None)
    if chosen is None:
        return None
    X, y = chosen.X, chosen.y
    linear = make_pipeline(StandardScaler(), LinearRegression()).fit(X, y)
    if r2_score(y, linear.predict(X)) < 0.05:
        return None
    best = r2_score(y, rival.fit(X, y).predict(X))

    def make(factor: int | None) -> Any:
        target = widen([chosen.target_bounds], factor)
        return getattr(skdp, name)(
            epsilon,
            bounds=widen(chosen.bounds, factor),
            target_bounds=None if target is None else target[0],
            random_state=seed,
            **options,
        )

    def score(model: Any) -> float:
        return 1 - r2_score(y, model.predict(X)) / best

    return measure_model(make, X, y, score)


def measure_logistic(table: Ordinary, epsilon: float, seed: int) -> Width | None:
    """Measure the lost part of the gain in log loss of a logistic regression."""
    from skdp import DPLogisticRegression

    chosen = next(list_logistic(table), None)
    if chosen is None:
        return None
    X, y, bounds, _ = chosen
    rival = make_pipeline(StandardScaler(), LogisticRegression(C=1e6, max_iter=3000))
    constant = log_loss(y, np.full(len(y), y.mean()))
    gain = constant - log_loss(y, rival.fit(X, y).predict_proba(X)[:, 1])
    if gain < 0.02 * constant:
        return None

    def make(factor: int | None) -> Any:
        declared = widen(bounds, factor)
        return DPLogisticRegression(
            epsilon, bounds=declared, classes=[0, 1], random_state=seed
        )

    def score(model: Any) -> float:
        return 1 - (constant - log_loss(y, model.predict_proba(X)[:, 1])) / gain

    return measure_model(make, X, y, score)


def measure_model(
    make: Callable[[int | None], Any], X: Any, y: Any, score: Callable[[Any], float]
) -> Width:
    """Fit a model for each width, and count the fits that are worse than a constant without a warning."""
    errors, n_silent = {}, 0
    for width, factor in WIDTHS.items():
        model = make(factor)
        is_warned = fit(model, X, y)
        errors[width] = score(model)
        n_silent += errors[width] > 1.02 and not is_warned
    return Width(errors, 0.1, n_silent=n_silent)


def measure_rows(table: Ordinary, epsilon: float, seed: int) -> Width:
    """Measure the distance of the distributions of synthetic columns."""
    from skdp import Domain, DPMarginalSynthesizer, Interval

    names, rows, bounds = select_numbers(table)
    errors = {}
    for width, factor in WIDTHS.items():
        wide = widen(bounds, factor)
        domain = None
        if wide is not None:
            domain = Domain(
                {
                    name: Interval(*map(float, pair))
                    for name, pair in zip(names, wide, strict=True)
                }
            )
        synthesizer = DPMarginalSynthesizer(
            epsilon, delta=DELTA, domain=domain, random_state=seed
        )
        drawn = synthesizer.fit(table.rows[names]).sample(20_000)
        gaps = []
        for column, true in zip(names, rows.T, strict=True):
            at = np.unique(true)
            parts = (true, drawn[column].to_numpy(dtype=float))
            first, second = (
                np.searchsorted(np.sort(part), at, side="right") / len(part)
                for part in parts
            )
            gaps.append(np.abs(first - second).max())
        errors[width] = float(np.mean(gaps)) * math.sqrt(len(rows))
    return Width(errors, 1.0)


def score_width(table: Ordinary, width: Width | None) -> dict[str, float]:
    """Return the errors, and whether the law is kept."""
    if width is None:
        return {}
    limit = 2 * max(width.errors["fit"], width.unnoticed)
    judged = [width.errors["open"]] if width.only_open else [*width.errors.values()]
    kept = max(judged) <= limit and not width.n_silent
    # The means of a page are finite.
    errors = {name: min(error, MAX_ERROR) for name, error in width.errors.items()}
    return errors | {"kept": float(kept), "silent": float(width.n_silent)}


LINEAR = partial(measure_regression, "DPLinearRegression")
METHODS: dict[str, dict[str, Callable[[Ordinary, float, int], Width | None]]] = {
    "statistics": {
        "DPMean": partial(measure_statistic, "DPMean", score_mean, 1.0),
        "DPStandardScaler": partial(
            measure_statistic, "DPStandardScaler", score_scale, 0.1
        ),
        "DPRobustScaler": partial(
            measure_statistic, "DPRobustScaler", score_median, 1.0
        ),
        "DPGroupBy": measure_groups,
    },
    "models": {
        "DPLinearRegression, delta 0": partial(LINEAR, {}, LinearRegression()),
        "DPLinearRegression, delta 1e-6": partial(
            LINEAR, {"delta": DELTA}, LinearRegression()
        ),
        "DPAdditiveRegressor": partial(
            measure_regression,
            "DPAdditiveRegressor",
            {},
            HistGradientBoostingRegressor(interaction_cst="no_interactions"),
        ),
        "DPLogisticRegression": measure_logistic,
    },
    "synthetic rows": {"DPMarginalSynthesizer": measure_rows},
}
TASKS = {
    name: Task(list_tables, methods, score_width, (1.0,), 4)
    for name, methods in METHODS.items()
}
