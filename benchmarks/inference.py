"""Coverage and width of intervals of regressions from reports, and of statistics and counts of a synthesizer.

Each seed draws another table from a known population. `coverage` is the proportion of 95 % intervals that contain the
true coefficient or statistic, `width` is the mean length of the intervals, and `error` is the mean absolute error.
`relative_effect` is the mean ratio of the coefficients of reported columns and the true coefficients, so 1 is
unbiased. The rows named "naive" use reports, or synthetic rows, as true values.

The task "counts" has sparse marginals: 5,000 records with 100 ages and up to 10 combinations of other values. Its
coverage, width and relative error are for sums of 1 cell, of 20 cells and of half of the cells. `ratio` is the count by
the model relative to the true count, for the half of the cells that has most records: 1 is unbiased.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from _tables import draw_label
from _tasks import Task, measure_coverage

# Regression from reports. The table is a description, because each seed draws its own rows.


def load_settings(quick: bool) -> dict[str, Any]:
    """Return numbers of values of the reported predictors, and numbers of rows."""
    n_rows = 1_000 if quick else 3_000
    numbers = (2,), (4,), (2, 3)
    return {str(sizes): partial(tuple, (sizes, n_rows)) for sizes in numbers}


def draw_predictors(
    sizes: tuple[int, ...], n_rows: int, seed: int
) -> tuple[pd.DataFrame, Any, list[float]]:
    """Return a predictor and reported predictors that depend on it, their linear sum and its coefficients."""
    rng = np.random.default_rng(seed)
    age = rng.normal(size=n_rows)
    columns: dict[str, Any] = {"age": age}
    linear, truth = -0.5 + 0.5 * age, [-0.5, 0.5]
    for place, size in enumerate(sizes):
        edges = np.linspace(-1, 1, size + 1)[1:-1]
        codes = np.searchsorted(edges, 0.5 * age + rng.normal(size=n_rows))
        effects = np.linspace(0.5, 1.0, size - 1)
        columns[f"q{place}"] = codes.astype(str)
        linear = linear + np.append(0, effects)[codes]
        truth += list(effects)
    return pd.DataFrame(columns), linear, truth


def draw_reports(
    encoder_name: str, table: Any, epsilon: float, seed: int
) -> tuple[Any, pd.DataFrame, Any, list[float]]:
    """Return a fitted encoder, predictors with reports, the linear sum and its coefficients."""
    import skdp

    sizes, n_rows = table
    X, linear, truth = draw_predictors(sizes, n_rows, seed)
    hidden = [name for name in X if name != "age"]
    values = {
        name: [str(code) for code in range(size)]
        for name, size in zip(hidden, sizes, strict=True)
    }
    encoder = getattr(skdp, encoder_name)(
        epsilon * len(sizes), categories=values, random_state=seed
    )
    reports = encoder.fit_transform(X[hidden])
    return encoder, pd.concat([X[["age"]], reports], axis=1), linear, truth


def draw_target(linear: Any, logistic: bool, seed: int) -> Any:
    """Return numbers or classes."""
    rng = np.random.default_rng(1_000_000 + seed)
    if logistic:
        return draw_label(rng, linear)
    return linear + rng.normal(size=len(linear))


def fit_reports(
    encoder_name: str, logistic: bool, table: Any, epsilon: float, seed: int
) -> Any:
    """Return the summary of a regression from reports, and the truth."""
    from skdp.survey import ReportLinearRegression, ReportLogisticRegression

    encoder, X, linear, truth = draw_reports(encoder_name, table, epsilon, seed)
    model = (ReportLogisticRegression if logistic else ReportLinearRegression)(encoder)
    return model.fit(X, draw_target(linear, logistic, seed)).summary(), truth


def fit_naively(logistic: bool, table: Any, epsilon: float, seed: int) -> Any:
    """Return the coefficients of a regression that uses reports as true values."""
    from sklearn.linear_model import LinearRegression, LogisticRegression

    _, X, linear, truth = draw_reports(
        "RandomizedResponseEncoder", table, epsilon, seed
    )
    model = LogisticRegression(C=np.inf) if logistic else LinearRegression()
    model.fit(pd.get_dummies(X, drop_first=True), draw_target(linear, logistic, seed))
    estimate = np.append(np.ravel(model.intercept_), np.ravel(model.coef_))
    return pd.DataFrame({"estimate": estimate}), truth


def report_methods(logistic: bool) -> dict[str, Any]:
    """Return the regressions."""
    return {
        "randomized response": partial(
            fit_reports, "RandomizedResponseEncoder", logistic
        ),
        "unary": partial(fit_reports, "UnaryEncodingTransformer", logistic),
        "local hashing": partial(fit_reports, "LocalHashingEncoder", logistic),
        "naive": partial(fit_naively, logistic),
    }


def score_reports(table: Any, result: Any) -> dict[str, float]:
    """Return coverage, width, error and the relative effect."""
    summary, truth = result
    estimates = summary["estimate"].to_numpy()
    scores = {
        "error": float(np.abs(estimates - truth).mean()),
        "relative_effect": float(np.mean(estimates[2:] / np.array(truth[2:]))),
    }
    if "lower" in summary:
        scores["coverage"] = measure_coverage(summary, truth)
        scores["width"] = float((summary["upper"] - summary["lower"]).mean())
    return scores


# Statistics from a synthesizer.

NAMES = ["group", "level", "score", "passed"]


def draw_people(n_rows: int, seed: int) -> pd.DataFrame:
    """Draw rows of four columns that depend on each other."""
    rng = np.random.default_rng(seed)
    group = rng.integers(2, size=n_rows)
    level = rng.binomial(3, 0.3 + 0.3 * group)
    score = (3 + level + 1.5 * rng.normal(size=n_rows)).round().clip(0, 9).astype(int)
    passed = draw_label(rng, -2 + 0.4 * score + 0.5 * group)
    return pd.DataFrame(
        {"group": group, "level": level, "score": score, "passed": passed}
    )


def compute_difference(rows: pd.DataFrame) -> float:
    """Compute the difference of the mean scores of the groups."""
    means = rows.groupby("group")["score"].mean()
    return float(means.iloc[-1] - means.iloc[0])


STATISTICS = {
    "mean": (lambda rows: float(rows["score"].mean()), ["score"]),
    "proportion": (lambda rows: float((rows["passed"] == 1).mean()), ["passed"]),
    "difference": (compute_difference, ["group", "score"]),
}


def load_sizes(quick: bool) -> dict[str, Any]:
    """Return numbers of rows, with the statistics of the population."""
    population = draw_people(20_000 if quick else 1_000_000, seed=12345)
    truth = {name: compute(population) for name, (compute, _) in STATISTICS.items()}
    return {
        f"{n_rows} rows": partial(tuple, (n_rows, truth))
        for n_rows in ((1_000,) if quick else (1_000, 10_000))
    }


def infer(naive: bool, table: Any, epsilon: float, seed: int) -> Any:
    """Return estimates and intervals of all statistics from one synthesizer."""
    from skdp import DPMarginalSynthesizer
    from skdp.synthesis import synthetic_inference

    n_rows, _ = table
    domain = {
        "group": [0, 1],
        "level": [0, 1, 2, 3],
        "score": list(range(10)),
        "passed": [0, 1],
    }
    synthesizer = DPMarginalSynthesizer(
        epsilon,
        domain=domain,
        marginals=[["group", "score"], ["score", "passed"], ["level"]],
        random_state=seed,
    )
    synthesizer.fit(draw_people(n_rows, seed))
    if naive:
        rows = synthesizer.sample(n_rows)
        parts = {name: compute(rows) for name, (compute, _) in STATISTICS.items()}
        return pd.DataFrame({"estimate": parts})
    parts = {
        name: synthetic_inference(synthesizer, compute, columns=columns).iloc[0]
        for name, (compute, columns) in STATISTICS.items()
    }
    return pd.DataFrame(parts).T


def score_synthetic(table: Any, result: pd.DataFrame) -> dict[str, float]:
    """Return coverage, width and error, relative to the population's statistics."""
    truth = pd.Series(table[1])
    scores = {"error": float(((result["estimate"] - truth) / truth).abs().mean())}
    if "lower" in result:
        widths = result["upper"] - result["lower"]
        scores["coverage"] = measure_coverage(result, truth)
        scores["width"] = float((widths / truth.abs()).mean())
    return scores


# Counts of sparse marginals.

AGES = range(100)


def load_ages(quick: bool) -> dict[str, Any]:
    """Return numbers of rows."""
    return {
        f"{n_rows} rows": partial(int, n_rows)
        for n_rows in ((1_000,) if quick else (5_000,))
    }


def draw_ages(n_rows: int) -> pd.DataFrame:
    """Draw rows of 100 ages, most of which are rare, of 5 jobs that depend on the age, and of 2 answers."""
    rng = np.random.default_rng(n_rows)
    age = rng.normal(40, 12, n_rows).astype(int).clip(0, 99)
    job = rng.choice(5, n_rows, p=[0.5, 0.3, 0.1, 0.07, 0.03])
    job = np.where(rng.random(n_rows) < 0.3, age // 20, job)
    answer = rng.integers(2, size=n_rows)
    return pd.DataFrame({"age": age, "job": job, "answer": answer})


def estimate_ages(
    marginals: Any, names: list[str], n_rows: int, epsilon: float, seed: int
) -> pd.DataFrame:
    """Return the estimated counts of sums of 1, of 20 and of half of the cells of two columns, with the true counts."""
    from skdp import DPMarginalSynthesizer

    rows = draw_ages(n_rows)
    domain = {"age": list(AGES), "job": list(range(5)), "answer": [0, 1]}
    columns = names if marginals == "full" else list(domain)
    synthesizer = DPMarginalSynthesizer(
        epsilon,
        domain={name: domain[name] for name in columns},
        marginals=marginals,
        random_state=seed,
    ).fit(rows[columns])
    n_others = len(domain[names[-1]]) if len(names) > 1 else 1
    n_ages = 20 // n_others
    conditions = []
    for start in range(0, 100, 7):
        conditions.append(("1", [start], [start % n_others]))
    for start in range(0, 100 - n_ages, 8):
        conditions.append(("20", AGES[start : start + n_ages], range(n_others)))
    conditions.append(("half", AGES[:50], range(n_others)))
    conditions.append(("half", AGES[50:], range(n_others)))
    results = []
    for n_cells, ages, others in conditions:
        parts = {"age": list(ages), names[-1]: list(others)}
        if len(names) == 1:
            parts = {"age": list(ages)}
        found = synthesizer.count_estimate(parts)
        is_met = np.logical_and.reduce([rows[name].isin(parts[name]) for name in parts])
        results.append(vars(found) | {"cells": n_cells, "true": is_met.sum()})
    table = pd.DataFrame(results)
    return table[table["supported"]]


def score_ages(n_rows: int, result: pd.DataFrame) -> dict[str, float]:
    """Return coverage, width and relative error by number of cells, and the ratio of counts of many records."""
    scores = {}
    for n_cells, part in result.groupby("cells"):
        scores[f"coverage, {n_cells}"] = measure_coverage(part, part["true"])
        scores[f"width, {n_cells}"] = float((part["upper"] - part["lower"]).mean())
    is_half = result["true"] > n_rows / 2
    if is_half.any():
        half = result[is_half]
        scores["ratio"] = float((half["count"] / half["true"]).mean())
    return scores


COUNT_METHODS = {
    "independent": partial(estimate_ages, "independent", ["age"]),
    "full": partial(estimate_ages, "full", ["age", "answer"]),
    "named": partial(
        estimate_ages, [["age", "job"], ["age", "answer"]], ["age", "job"]
    ),
    "auto": partial(estimate_ages, "auto", ["age"]),
}
SYNTHETIC_METHODS = {
    "synthetic_inference": partial(infer, False),
    "naive": partial(infer, True),
}
TASKS = {
    "linear": Task(load_settings, report_methods(False), score_reports, (2.0, 4.0), 20),
    "logistic": Task(
        load_settings, report_methods(True), score_reports, (2.0, 4.0), 12
    ),
    "synthetic": Task(load_sizes, SYNTHETIC_METHODS, score_synthetic, (1.0, 0.3), 25),
    "counts": Task(load_ages, COUNT_METHODS, score_ages, (0.3, 0.1, 0.5, 2.0), 20),
}
