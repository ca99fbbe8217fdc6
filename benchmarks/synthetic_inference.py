"""How often intervals from a synthesizer hold the truth: of counts, and of what `synthetic_inference` estimates.

Run ``make bench``, or ``python benchmarks/synthetic_inference.py`` wherever skdp is installed. Each repeat draws a
table from a population, fits a synthesizer to it, and looks whether the intervals hold the figures of the population
(of the table itself, for counts).

A table of every setting takes 17 seconds of one core, so 50 and 150 tables of planned analyses half an hour. Every
release is kept in the file of ``--kept``: a run only measures what is not there, and takes the tables in turn, so that
a run that is stopped has as many of each setting. ``--page`` writes the page of what is kept.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _timing import RESULTS, commit, verdict, write_results
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

from skdp import Domain, DPMarginalSynthesizer, Interval
from skdp.datasets import load_adult
from skdp.synthesis import synthetic_inference

SIZES = (1_000, 5_000, 30_000)
EPSILONS = (0.3, 1.0, 3.0)
POPULATION = 1_000_000
# Records and epsilon of planned analyses: hard ones, and about as many records as Adult.
PLANNED = ((5_000, 0.3), (5_000, 1.0), (30_000, 1.0))
DELTAS = (0.0, 1e-6)
COUNT_SIZES = (1_000, 30_000)
COUNT_EPSILONS = (0.1, 1.0, 10.0, 30.0, 100.0)
COUNT_TABLES = 10
AGAIN, BOOTSTRAP_ROWS = 30, 20_000
LEAST, MOST, MOST_ERRORS, WIDEST = 0.93, 0.97, 0.06, 1e6


@dataclass(frozen=True)
class Analysis:
    """A question to a population."""

    kind: str
    columns: tuple[str, ...]
    statistic: Any
    target: str | None = None
    null: str | None = None
    """The term that is 0 in the population."""

    def ask(self, synthesizer: Any) -> pd.DataFrame:
        return synthetic_inference(
            synthesizer, self.statistic, columns=self.columns, target=self.target
        )

    def classic(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Analyse rows as if they were those of persons: term, estimate, std_error."""
        if self.target is None:
            return pd.DataFrame(
                [self._simple(rows)], columns=["term", "estimate", "std_error"]
            )
        design = pd.get_dummies(rows[list(self.columns)], drop_first=True, dtype=float)
        terms = ["intercept", *(name.replace("_", "=") for name in design)]
        X = np.column_stack([np.ones(len(rows)), design.to_numpy(float)])
        y = rows[self.target]
        return pd.DataFrame(
            _regress(X, y, isinstance(self.statistic, LogisticRegression))
            | {"term": terms}
        )

    def _simple(self, rows: pd.DataFrame) -> tuple[str, float, float]:
        first = rows[self.columns[0]]
        if self.kind == "correlation":
            found = float(np.corrcoef(first, rows[self.columns[1]])[0, 1])
            return "statistic", found, (1 - found**2) / len(rows) ** 0.5
        if self.kind == "difference":
            parts = [part for _, part in first.groupby(rows[self.columns[1]])]
            if len(parts) < 2:
                return "statistic", np.nan, np.nan
            error = sum(part.var() / len(part) for part in parts) ** 0.5
            return "statistic", float(parts[1].mean() - parts[0].mean()), error
        values = first if self.kind == "mean" else (first == first.max()).astype(float)
        return "statistic", float(values.mean()), values.std() / len(rows) ** 0.5


def _regress(X: Any, y: pd.Series, logistic: bool) -> dict[str, Any]:
    if logistic:
        y = (y == y.max()).astype(float)
    y = y.to_numpy(float)
    beta = np.zeros(X.shape[1])
    for _ in range(25 if logistic else 1):
        mean = 1 / (1 + np.exp(-np.clip(X @ beta, -30, 30))) if logistic else X @ beta
        weight = mean * (1 - mean) + 1e-12 if logistic else np.ones(len(y))
        curvature = np.linalg.pinv((X.T * weight) @ X)
        beta = beta + curvature @ (X.T @ (y - mean))
    scale = (
        1.0 if logistic else float(np.square(y - X @ beta).sum() / (len(y) - len(beta)))
    )
    return {"estimate": beta, "std_error": np.sqrt(np.diag(curvature) * scale)}


def mean(name: str) -> Analysis:
    return Analysis("mean", (name,), lambda table: table[name].mean())


def proportion(name: str, most: Any) -> Analysis:
    return Analysis("proportion", (name,), lambda table: (table[name] == most).mean())


def difference(name: str, by: str) -> Analysis:
    def statistic(table: pd.DataFrame) -> float:
        means = table[name].groupby(table[by]).mean()
        if len(means) < 2:  # of synthetic rows, where noise hid a group
            return 0.0
        return float(means.iloc[1] - means.iloc[0])

    return Analysis("difference", (name, by), statistic)


def correlation(one: str, other: str, *, null: bool = False) -> Analysis:
    def statistic(table: pd.DataFrame) -> float:
        x, y = (table[name].to_numpy() - table[name].mean() for name in (one, other))
        return float((x * y).sum() / ((x * x).sum() * (y * y).sum()) ** 0.5)

    return Analysis(
        "correlation", (one, other), statistic, null="statistic" if null else None
    )


def linear(target: str, *columns: str, null: str | None = None) -> Analysis:
    return Analysis("linear", columns, LinearRegression(), target, null)


def logistic(target: str, *columns: str, null: str | None = None) -> Analysis:
    return Analysis("logistic", columns, LogisticRegression(C=np.inf), target, null)


@dataclass(frozen=True)
class Study:
    """A population, its domain, and what is asked."""

    rows: pd.DataFrame
    domain: Domain
    analyses: tuple[Analysis, ...]

    @property
    def declared(self) -> list[Any]:
        """What is declared before the fit: formulas, and lists of columns."""
        declared: list[Any] = []
        for analysis in self.analyses:
            if analysis.target is None:
                declared.append(list(analysis.columns))
            else:
                declared.append(f"{analysis.target} ~ {' + '.join(analysis.columns)}")
        return declared

    @property
    def marginals(self) -> list[tuple[str, ...]]:
        """What has to be measured: all columns of an analysis together, but pairs for a linear regression."""
        found: dict[frozenset[str], None] = {}
        for analysis in self.analyses:
            columns = (
                *analysis.columns,
                *([analysis.target] if analysis.target else []),
            )
            sets = (
                itertools.combinations(columns, 2)
                if analysis.kind == "linear"
                else [columns]
            )
            found |= dict.fromkeys(map(frozenset, sets))
        kept = [one for one in found if not any(one < other for other in found)]
        order = list(self.domain.columns)
        return [tuple(sorted(one, key=order.index)) for one in kept]


def adult() -> Study:
    data = load_adult(subset="all", dropna=True)
    names = ["age", "education-num", "sex", "hours-per-week", "income"]
    rows, domain = (
        data.frame[names].astype({"sex": str, "income": str}),
        data.domain.select(names),
    )
    return Study(
        rows,
        domain,
        (
            mean("age"),
            proportion("income", ">50K"),
            difference("hours-per-week", "sex"),
            correlation("age", "education-num"),
            linear("hours-per-week", "education-num", "sex"),
            logistic("income", "age", "sex"),
        ),
    )


def ladder() -> Study:
    """Few cells: scores of 0 to 4 in two groups, an outcome that follows them, and a column that nothing follows."""
    rng = np.random.default_rng(11)
    group = rng.random(POPULATION) < 0.35
    x = rng.binomial(4, 0.35 + 0.2 * group)
    noise = rng.integers(0, 3, POPULATION)
    z = np.clip(np.rint(1 + 0.6 * x + rng.normal(0, 1.2, POPULATION)), 0, 6).astype(int)
    y = rng.random(POPULATION) < 1 / (1 + np.exp(1.2 - 0.5 * x - 0.4 * group))
    rows = pd.DataFrame(
        {
            "x": x,
            "z": z,
            "noise": noise,
            "group": np.where(group, "b", "a"),
            "y": y.astype(int),
        }
    )
    domain = Domain(
        {
            "x": range(5),
            "z": range(7),
            "noise": range(3),
            "group": ["a", "b"],
            "y": [0, 1],
        }
    )
    return Study(
        rows,
        domain,
        (
            mean("z"),
            proportion("y", 1),
            difference("z", "group"),
            correlation("x", "z"),
            correlation("noise", "z", null=True),
            linear("z", "x", "noise", null="noise"),
            logistic("y", "x", "noise", null="noise"),
        ),
    )


def grid() -> Study:
    """Many cells: two correlated numbers of ten values, a rare group, and an outcome."""
    rng = np.random.default_rng(12)
    a, b = rng.multivariate_normal([0, 0], [[1, 0.4], [0.4, 1]], POPULATION).T
    u, v = (np.clip(np.floor(5 + 2 * one), 0, 9).astype(int) for one in (a, b))
    group = rng.random(POPULATION) < 0.08
    y = rng.random(POPULATION) < 1 / (1 + np.exp(2 - 0.2 * u - 0.15 * v))
    rows = pd.DataFrame(
        {"u": u, "v": v, "group": np.where(group, "rare", "common"), "y": y.astype(int)}
    )
    domain = Domain(
        {"u": range(10), "v": range(10), "group": ["common", "rare"], "y": [0, 1]}
    )
    return Study(
        rows,
        domain,
        (
            mean("u"),
            proportion("y", 1),
            difference("v", "group"),
            correlation("u", "v"),
            linear("v", "u", "group", null="group=rare"),
            logistic("y", "u", "v"),
        ),
    )


def regions() -> Study:
    """Draw a column that follows from another: each of 40 regions is in one of eight zones."""
    rng = np.random.default_rng(13)
    shares = np.arange(1, 41) ** -0.5
    region = rng.choice(40, POPULATION, p=shares / shares.sum())
    zone = region % 8
    age = (rng.integers(0, 6, POPULATION) + (zone > 4)) % 6
    y = (zone + age + region % 3 + rng.integers(0, 6, POPULATION)) // 2
    rows = pd.DataFrame(
        {
            "region": [f"r{one:02}" for one in region],
            "zone": zone,
            "age": age,
            "y": y.clip(0, 9),
        }
    )
    domain = Domain(
        {
            "region": [f"r{one:02}" for one in range(40)],
            "zone": range(8),
            "age": range(6),
            "y": range(10),
        }
    )
    analyses = (
        mean("zone"),
        correlation("zone", "y"),
        linear("y", "zone", "age"),
        linear("zone", "region"),
    )
    return Study(rows, domain, analyses)


def costs() -> Study:
    """Skewed numbers, three quarters of them in the first of 40 declared bins."""
    rng = np.random.default_rng(14)
    age = rng.integers(18, 91, POPULATION)
    is_male = rng.random(POPULATION) < 0.48
    cost = rng.lognormal(5.5 + 0.012 * age + 0.25 * is_male).clip(0, 40_000).round(2)
    score = 0.3 * np.log1p(cost) + 0.012 * age - 3.9
    has_died = rng.random(POPULATION) < 1 / (1 + np.exp(-score))
    rows = pd.DataFrame(
        {
            "age": age.astype(float),
            "cost": cost,
            "sex": np.where(is_male, "m", "f"),
            "died": np.where(has_died, "yes", "no"),
        }
    )
    domain = Domain(
        {
            "age": Interval(18, 90, bins=12),
            "cost": Interval(0, 40_000, bins=40, decimals=2),
            "sex": ["f", "m"],
            "died": ["no", "yes"],
        }
    )
    analyses = (
        mean("cost"),
        difference("cost", "sex"),
        correlation("age", "cost"),
        linear("cost", "age", "sex"),
        logistic("died", "age", "sex"),
    )
    return Study(rows, domain, analyses)


STUDIES: Mapping[str, Callable[[], Study]] = {
    "Adult": adult,
    "few cells": ladder,
    "many cells": grid,
    "one follows": regions,
    "costs": costs,
}

WITH_BINS = ("Adult", "costs")
"""The tables with numbers in bins."""


@cache
def study(name: str) -> Study:
    return STUDIES[name]()


@cache
def truths(name: str) -> list[pd.Series]:
    """Return the figures of a population."""
    population = study(name)
    figures = []
    for analysis in population.analyses:
        figures.append(analysis.classic(population.rows).set_index("term")["estimate"])
    return figures


def fitted(
    name: str, n: int, epsilon: float, seed: int, **parameters: Any
) -> tuple[pd.DataFrame, Any]:
    """Draw a table of a population, and fit a synthesizer to it."""
    found, rng = (
        study(name),
        np.random.default_rng([seed, n, round(1000 * epsilon), len(name)]),
    )
    rows = found.rows.iloc[rng.integers(0, len(found.rows), n)].reset_index(drop=True)
    synthesizer = DPMarginalSynthesizer(
        epsilon,
        delta=DELTAS[seed % len(DELTAS)],
        domain=found.domain,
        random_state=int(rng.integers(1 << 31)),
        **parameters,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return rows, synthesizer.fit(rows)


def repeat(
    name: str,
    n: int,
    epsilon: float,
    seed: int,
    *,
    parameter: str,
    bins: str = "declared",
) -> Iterator[dict[str, Any]]:
    """Ask one synthesizer everything, and its rows as if they were those of persons."""
    found = study(name)
    given: dict[str, Any] = {parameter: found.marginals}
    if parameter == "analyses":
        given = {parameter: found.declared}
    real, synthesizer = fitted(name, n, epsilon, seed, bins=bins, **given)
    rows = synthesizer.sample()
    for place, analysis in enumerate(found.analyses):
        true = truths(name)[place]
        table, naive = (
            analysis.ask(synthesizer).set_index("term"),
            analysis.classic(rows).set_index("term"),
        )
        own = analysis.classic(real).set_index("term")["std_error"]
        for term in [term for term in table.index if term != "intercept"]:
            row = table.loc[term]
            about = (
                naive.loc[term]
                if term in naive.index
                else pd.Series({"estimate": np.nan, "std_error": np.nan})
            )
            yield {
                "table": name,
                "bins": bins,
                "n": n,
                "epsilon": epsilon,
                "seed": seed,
                "kind": analysis.kind,
                "null": analysis.null == term,
                "supported": bool(row["supported"]),
                "covered": bool(row["lower"] <= true[term] <= row["upper"]),
                "rejected": bool(row["p_value"] < 0.05),
                "width": (row["upper"] - row["lower"]) / (3.92 * own.get(term, np.nan)),
                "naive": bool(
                    abs(about["estimate"] - true[term]) <= 1.96 * about["std_error"]
                ),
                "naive rejected": bool(
                    abs(about["estimate"]) > 1.96 * about["std_error"]
                ),
            }


def counts(name: str, n: int, epsilon: float, seed: int) -> Iterator[dict[str, Any]]:
    """Compare the counts of all pairs and triples of columns with the true ones."""
    rows, synthesizer = fitted(name, n, epsilon, seed)
    domain = synthesizer.domain_
    codes = {
        column: domain[column].encode(rows[column].to_numpy())
        for column in domain.columns
    }
    for size in (1, 2, 3):
        for columns in itertools.combinations(domain.columns, size):
            shape = domain.select(columns).sizes
            flat = np.ravel_multi_index([codes[column] for column in columns], shape)
            true = np.bincount(flat, minlength=int(np.prod(shape)))
            table = synthesizer.marginal(columns)
            held = (table["lower"] <= true) & (true <= table["upper"])
            near = (table["count"] - true).abs() <= 1.96 * table["std_error"]
            sizes = np.select(
                [true == 0, true < 30], ["empty", "1 to 29"], "30 and more"
            )
            frame = pd.DataFrame(
                {
                    "size": sizes,
                    "supported": table["supported"],
                    "held": held,
                    "near": near,
                }
            )
            for (cells, supported), part in frame.groupby(["size", "supported"]):
                yield {
                    "table": name,
                    "n": n,
                    "epsilon": epsilon,
                    "seed": seed,
                    "cells": cells,
                    "supported": bool(supported),
                    "number": len(part),
                    "held": int(part["held"].sum()),
                    "near": int(part["near"].sum()),
                }


def bootstrap(name: str, n: int, epsilon: float, seed: int) -> Iterator[dict[str, Any]]:
    """Run the whole release again on tables drawn from the model, and correct estimates by the bias that shows."""
    found = study(name)
    _, synthesizer = fitted(name, n, epsilon, seed, marginals=found.marginals)

    def estimates(fit: Any) -> pd.Series:
        rows = fit.sample(BOOTSTRAP_ROWS)
        parts = [
            one.classic(rows)
            .set_index("term")["estimate"]
            .drop("intercept", errors="ignore")
            for one in asked
        ]
        return pd.concat(parts, keys=range(len(parts)))

    asked = found.analyses
    here = estimates(synthesizer)
    # Rows of one call are stratified: drawn with replacement they vary as a sample of persons does.
    model, size = synthesizer.sample(5 * BOOTSTRAP_ROWS), round(synthesizer.n_rows_)
    again = [
        estimates(
            clone(synthesizer)
            .set_params(random_state=place)
            .fit(
                model.sample(size, replace=True, random_state=place, ignore_index=True)
            )
        )
        for place in range(AGAIN)
    ]
    table = pd.concat(again, axis=1)
    centre, spread = 2 * here - table.mean(axis=1), table.std(axis=1)
    for place, analysis in enumerate(asked):
        for term in here[place].index:
            true = truths(name)[place][term]
            yield {
                "table": name,
                "n": n,
                "epsilon": epsilon,
                "seed": seed,
                "kind": analysis.kind,
                "covered": bool(
                    abs(centre[place][term] - true) <= 1.96 * spread[place][term]
                ),
                "uncorrected": bool(
                    abs(here[place][term] - true) <= 1.96 * spread[place][term]
                ),
            }


@dataclass(frozen=True)
class Part:
    """Settings that are measured in one way: their tables, and the arguments that all have."""

    call: Callable[..., Iterator[dict[str, Any]]]
    settings: tuple[tuple[str, int, float], ...]
    n_tables: int
    options: Mapping[str, str]


def parts_of(options: argparse.Namespace) -> dict[str, Part]:
    names = tuple(STUDIES)
    planned = tuple((name, n, epsilon) for name in names for n, epsilon in PLANNED)
    private = tuple(setting for setting in planned if setting[0] in WITH_BINS)
    counted = itertools.product(names, COUNT_SIZES, COUNT_EPSILONS)
    grid = tuple(itertools.product(names, SIZES, EPSILONS))
    chosen = tuple((name, 5_000, 1.0) for name in names)
    again = itertools.product(("few cells", "many cells"), (5_000,), (0.3, 1.0))
    return {
        "marginals": Part(repeat, grid, options.tables, {"parameter": "marginals"}),
        "workload": Part(repeat, chosen, options.tables, {"parameter": "workload"}),
        "analyses": Part(
            repeat, planned, options.planned_tables, {"parameter": "analyses"}
        ),
        "private bins": Part(
            repeat,
            private,
            options.planned_tables,
            {"parameter": "analyses", "bins": "private"},
        ),
        "counts": Part(counts, tuple(counted), COUNT_TABLES, {}),
        "bootstrap": Part(bootstrap, tuple(again), options.bootstraps, {}),
    }


Key = tuple[str, str, int, float, int]


def read(path: Path) -> dict[Key, dict[str, Any]]:
    """Return what is kept of each release: its rows and the commit."""
    kept: dict[Key, dict[str, Any]] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            record = json.loads(line)
            kept[tuple(record["key"])] = record
    return kept


def measure(parts: Mapping[str, Part], path: Path, n_jobs: int) -> None:
    """Measure every release that is not kept, one table of all settings after another."""
    kept = read(path)
    keys: list[Key] = []
    for seed in range(max(part.n_tables for part in parts.values())):
        for name, part in parts.items():
            if seed < part.n_tables:
                keys += [(name, *setting, seed) for setting in part.settings]
    missing = [key for key in keys if key not in kept]
    name_of_commit = commit()
    calls = (delayed(_listed)(parts[key[0]], key) for key in missing)
    results = Parallel(n_jobs=n_jobs, return_as="generator")(calls)
    with path.open("a") as file:
        for key, rows in zip(missing, results, strict=True):
            record = {"key": key, "commit": name_of_commit, "rows": rows}
            file.write(json.dumps(record) + "\n")
            file.flush()


def _listed(part: Part, key: Key) -> list[dict[str, Any]]:
    _, name, n, epsilon, seed = key
    return list(part.call(name, n, epsilon, seed, **part.options))


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, str | bool | np.bool_) else f"{value:g}"


def share(runs: pd.DataFrame, hit: str) -> tuple[float, float]:
    """Return a share and its standard error, to which the terms of one release count together."""
    p = float(runs[hit].mean())
    releases = [runs[column] for column in ("table", "n", "epsilon", "seed")]
    sums = (runs[hit] - p).groupby(releases).sum()
    return p, float((sums**2).sum() ** 0.5 / len(runs))


def share_text(runs: pd.DataFrame, hit: str) -> str:
    p, std_error = share(runs, hit)
    return f"{p:.3f} ± {std_error:.3f}"


def within(p: float, std_error: float, least: float, most: float) -> str:
    """Say whether a share is in a range, and if not, how many standard errors it is outside."""
    outside = max(least - p, p - most)
    if outside <= 0 or std_error < 1e-9:  # no term of any release differs
        return verdict(outside <= 0)
    return f"{verdict(False)}, by {outside / std_error:.1f} errors"


def coverage(runs: pd.DataFrame, by: list[str]) -> list[tuple[str, ...]]:
    rows = []
    for key, own in runs.groupby(by, sort=False):
        rows.append(_covered(tuple(map(_shown, key)), own))
    rows.append(_covered(("all", *[""] * (len(by) - 1)), runs))
    return rows


def _covered(key: tuple[str, ...], own: pd.DataFrame) -> tuple[str, ...]:
    summary = summarize(own)
    supported = f"{summary['supported']:.2f}"
    naive = f"{summary['synthetic rows as true ones']:.2f}"
    tables = str(summary["tables"])
    if summary["supported"] == 0:
        return (*key, tables, supported, "—", "—", "—", naive)
    p, std_error = summary["coverage"], summary["std_error"]
    width = summary["width"]
    return (
        *key,
        tables,
        supported,
        f"{p:.3f} ± {std_error:.3f}",
        within(p, std_error, LEAST, MOST),
        "∞" if width > WIDEST else f"{width:.2f}",
        naive,
    )


def summarize(runs: pd.DataFrame) -> dict[str, Any]:
    """Return what is published of the terms of some releases."""
    supported = runs[runs["supported"]]
    p, std_error = (np.nan, np.nan) if supported.empty else share(supported, "covered")
    return {
        "tables": runs["seed"].nunique(),
        "terms": len(runs),
        "supported": runs["supported"].mean(),
        "coverage": p,
        "std_error": std_error,
        "width": supported["width"].median(),
        "synthetic rows as true ones": runs["naive"].mean(),
    }


def data_of(runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the figures of each setting, and of each kind of analysis in it, of which pictures are drawn."""
    rows = []
    for name in ("marginals", "workload", "analyses", "private bins"):
        for (table, n, epsilon), own in runs[name].groupby(
            ["table", "n", "epsilon"], sort=False
        ):
            for kind, terms in [("all", own), *own.groupby("kind", sort=False)]:
                setting = {"declared": name, "table": table, "n": n, "epsilon": epsilon}
                rows.append({**setting, "analysis": kind, **summarize(terms)})
    return pd.DataFrame(rows).round(4)


def errors(runs: pd.DataFrame) -> list[tuple[str, ...]]:
    true = runs[runs["null"] & runs["supported"]]
    groups = []
    for key, own in true.groupby(["table", "n", "epsilon"], sort=False):
        groups.append((tuple(map(_shown, key)), own))
    groups.append((("all", "", ""), true))
    rows = []
    for key, own in groups:
        p, std_error = share(own, "rejected")
        rows.append(
            (
                *key,
                str(own["seed"].nunique()),
                f"{p:.3f} ± {std_error:.3f}",
                within(p, std_error, 0.0, MOST_ERRORS),
                f"{own['naive rejected'].mean():.2f}",
            )
        )
    return rows


def times() -> list[tuple[Any, ...]]:
    """Time analyses of all of Adult."""
    found = study("Adult")
    _, synthesizer = fitted("Adult", 45_222, 1.0, 0, marginals=found.marginals)
    rows = []
    for analysis in found.analyses:
        start = time.perf_counter()
        analysis.ask(synthesizer)
        seconds = time.perf_counter() - start
        rows.append(
            (
                analysis.kind,
                ", ".join(analysis.columns),
                f"{seconds:.2f}",
                verdict(seconds < 60),
            )
        )
    return rows


def bootstrap_rows(runs: pd.DataFrame) -> list[tuple[Any, ...]]:
    rows = []
    for key, own in runs.groupby(["table", "n", "epsilon"], sort=False):
        tables = str(own["seed"].nunique())
        shares = [share_text(own, "covered"), share_text(own, "uncorrected")]
        rows.append((*map(_shown, key), tables, *shares))
    return rows


def count_rows(runs: pd.DataFrame) -> list[tuple[Any, ...]]:
    rows = []
    for key, own in runs.groupby(
        ["table", "n", "epsilon", "supported", "cells"], sort=False
    ):
        number, held = own["number"].sum(), own["held"].sum() / own["number"].sum()
        rows.append(
            (
                *map(_shown, key[:3]),
                str(own["seed"].nunique()),
                *map(_shown, key[3:]),
                f"{number:,}",
                f"{held:.3f}",
                f"{own['near'].sum() / number:.3f}",
            )
        )
    return rows


def publish(kept: Mapping[Key, Mapping[str, Any]]) -> None:
    records: dict[str, list[dict[str, Any]]] = {}
    for key, record in kept.items():
        records.setdefault(key[0], []).extend(record["rows"])
    runs = {name: pd.DataFrame(rows) for name, rows in records.items()}
    planned = pd.concat([runs["analyses"], runs["private bins"]], ignore_index=True)
    data_of(runs).to_csv(RESULTS / "synthetic_inference.csv", index=False)
    head = (
        "tables",
        "supported",
        "coverage",
        f"{LEAST} to {MOST}?",
        "width",
        "synthetic rows as true ones",
    )
    write_results(
        "synthetic_inference",
        "Inference from synthetic tables",
        ("skdp", "numpy", "scikit-learn"),
        "Coverage of 95 % intervals over some tables (their number is in each row) of each population, size and "
        "epsilon: rows of a "
        "population (Adult: all 45,222 without missing values, drawn with replacement; the others: a million "
        "drawn rows), released with delta 0 or 1e-6 in turn. Behind ± is a standard error, to which the terms of one "
        "release count together; a coverage outside 0.93 to 0.97 says by how many. "
        "`width` is that of the interval over that of the same "
        "analysis of the private rows, the median (∞ where most of those have none but rounding, as in a regression on "
        "columns of which one follows the others). Beside it, the coverage of the usual intervals from as many "
        "synthetic rows, as if they were rows of persons. Of numbers in bins, as Adult and `costs` have, the figures "
        "of the numbers themselves are estimated.\n\n"
        "The marginals that the analyses need are"
        " listed in `marginals=`: all columns of an analysis, but pairs for a linear regression. In the third "
        'table (n = 5,000, epsilon 1) they are a `workload=` instead, of which `"auto"` measures what is worth its '
        "noise; the rest is "
        "not supported, and has no interval. In the fourth they are declared as `analyses=`, with bins that are "
        "declared or found; in the fifth, those of tables with bins by the kind of analysis.\n\n"
        "Of counts, all cells of one to three columns are compared with the "
        "true ones; `near` counts those within 1.96 standard errors of the model's count. Where the noise is "
        "below two records, whole numbers are covered more often than 97 %, and those that are not supported are "
        "covered by bounds.",
        {
            "Coverage by kind of analysis": (
                ("analysis", "n", "epsilon", *head),
                coverage(runs["marginals"], ["kind", "n", "epsilon"]),
            ),
            "Coverage by table": (
                ("table", "n", "epsilon", *head),
                coverage(runs["marginals"], ["table", "n", "epsilon"]),
            ),
            "What a workload leaves": (
                ("table", "analysis", *head),
                coverage(runs["workload"], ["table", "kind"]),
            ),
            "Planned analyses": (
                ("table", "bins", "n", "epsilon", *head),
                coverage(planned, ["table", "bins", "n", "epsilon"]),
            ),
            "Planned analyses of numbers in bins": (
                ("table", "analysis", "bins", "n", "epsilon", *head),
                coverage(
                    planned[planned["table"].isin(WITH_BINS)],
                    ["table", "kind", "bins", "n", "epsilon"],
                ),
            ),
            "Rejected hypotheses that are true, at 5 %": (
                (
                    "table",
                    "n",
                    "epsilon",
                    "tables",
                    "rejected",
                    f"at most {MOST_ERRORS}?",
                    "synthetic rows as true ones",
                ),
                errors(runs["marginals"]),
            ),
            f"Instead, a bootstrap of the whole release ({AGAIN} repeats of each table)": (
                (
                    "table",
                    "n",
                    "epsilon",
                    "tables",
                    "coverage, bias corrected",
                    "not corrected",
                ),
                bootstrap_rows(runs["bootstrap"]),
            ),
            "Seconds of an analysis of Adult, 45,222 rows": (
                ("analysis", "columns", "seconds", "below 60?"),
                times(),
            ),
            "Counts": (
                (
                    "table",
                    "n",
                    "epsilon",
                    "tables",
                    "supported",
                    "true count",
                    "cells",
                    "held",
                    "near",
                ),
                count_rows(runs["counts"]),
            ),
        },
        commits=list(dict.fromkeys(record["commit"] for record in kept.values())),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument(
        "--planned-tables", type=int, default=150, help="of planned analyses"
    )
    parser.add_argument("--bootstraps", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--kept",
        type=Path,
        default=Path(tempfile.gettempdir()) / "synthetic_inference.jsonl",
    )
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    if not options.page:
        measure(parts_of(options), options.kept, options.jobs)
    publish(read(options.kept))


if __name__ == "__main__":
    import synthetic_inference  # other processes find what is cached by the name of its module

    synthetic_inference.main()
