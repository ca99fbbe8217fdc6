"""More is never less: errors of releases with more rows and with more budget.

An error is the distance from the same figure without privacy, on the same rows, at most 2. Columns are normal, skewed,
or equal to their largest value in three of four rows. `list_broken` lists the steps, to four times the rows or to the
next epsilon, after which an error is larger: the mean error after the step is more than 1.1 times the one before, plus
two standard errors of their difference and 0.01.

"synthetic pair", "private column" and "linked events" are a lost rank correlation, and the error of the number of rare
events that depend on one or two attributes of a person. "additive classifier" and "logistic regression" are the lost
part of the gain in log loss over a constant, with a rare class.

A release gets a method here when it has a rule that depends on the rows or on the budget.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from _tasks import Task
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss

Numbers = NDArray[np.float64]

DELTA = 1e-6
MAX_ERROR = 2.0
KINDS = ("normal", "skewed", "spike")
ROWS = (500, 2_000, 8_000, 32_000)
EPSILONS = (1.0, 0.3, 4.0, 100.0)


@dataclass(frozen=True)
class Setting:
    """The distribution of a column, and a number of rows."""

    kind: str
    n_rows: int

    def draw(self, rng: np.random.Generator) -> Numbers:
        """Draw the column."""
        if self.kind == "normal":
            return rng.normal(50, 10, self.n_rows)
        if self.kind == "skewed":
            return rng.lognormal(3, 1, self.n_rows)
        is_largest = rng.random(self.n_rows) < 0.75
        return np.where(is_largest, 365.0, rng.uniform(1, 365, self.n_rows))


def start(setting: Setting, seed: int) -> tuple[np.random.Generator, Numbers]:
    """Return a generator, and a drawn column."""
    rng = np.random.default_rng(seed + 900)
    return rng, setting.draw(rng)


def correlate(first: Any, second: Any) -> float:
    """Compute the rank correlation."""
    return float(
        pd.Series(np.asarray(first)).corr(pd.Series(np.asarray(second)), "spearman")
    )


def find_mean(setting: Setting, epsilon: float, seed: int) -> float:
    from skdp import DPMean

    _, x = start(setting, seed)
    fit = DPMean(epsilon, random_state=seed).fit(pd.DataFrame({"x": x}))
    return abs(float(np.ravel(fit.mean_)[0]) - x.mean()) / x.std()


def find_scale(setting: Setting, epsilon: float, seed: int) -> float:
    from skdp import DPStandardScaler

    _, x = start(setting, seed)
    fit = DPStandardScaler(epsilon, random_state=seed).fit(pd.DataFrame({"x": x}))
    return abs(float(np.log(max(np.ravel(fit.scale_)[0], 1e-9) / x.std())))


def find_groups(setting: Setting, epsilon: float, seed: int) -> float:
    from skdp import DPGroupBy

    rng, x = start(setting, seed)
    keys = ["a", "b", "c"]
    table = pd.DataFrame({"g": rng.choice(keys, x.size, p=[0.6, 0.3, 0.1]), "x": x})
    fit = DPGroupBy(
        epsilon, by="g", keys={"g": keys}, statistics=["mean"], random_state=seed
    ).fit(table)
    errors = fit.to_frame()["x_mean"] - table.groupby("g")["x"].mean()
    return float(errors.abs().mean() / x.std())


def find_quantiles(setting: Setting, epsilon: float, seed: int) -> float:
    from skdp import DPQuantileTransformer

    _, x = start(setting, seed)
    table = pd.DataFrame({"x": x})
    fit = DPQuantileTransformer(epsilon, n_quantiles=20, random_state=seed).fit(table)
    is_heap = (x == 365.0) & (setting.kind == "spike")
    errors = np.ravel(fit.transform(table)) - (table["x"].rank() - 0.5) / x.size
    return 2 * float(np.abs(errors)[~is_heap].mean())


def draw_regression(
    setting: Setting, seed: int
) -> tuple[pd.DataFrame, Numbers, np.random.Generator]:
    """Draw predictors and the expectation of a target."""
    rng, x = start(setting, seed)
    X = pd.DataFrame(
        {"a": x, "b": rng.normal(size=x.size), "c": (rng.random(x.size) < 0.2) * 1.0}
    )
    standard = (X["a"] - x.mean()) / x.std()
    if setting.kind == "skewed":
        standard = (X["a"].rank() / x.size - 0.5) * 3.4
    return X, (standard + X["b"] - X["c"]).to_numpy(), rng


def fit_linear(
    setting: Setting, epsilon: float, seed: int, delta: float = DELTA
) -> float:
    from skdp import DPLinearRegression

    X, signal, rng = draw_regression(setting, seed)
    y = signal + rng.normal(size=signal.size)
    fit = DPLinearRegression(epsilon, delta=delta, random_state=seed).fit(X, y)
    return float(LinearRegression().fit(X, y).score(X, y) - fit.score(X, y))


def fit_additive(setting: Setting, epsilon: float, seed: int) -> float:
    from skdp import DPAdditiveRegressor

    X, signal, rng = draw_regression(setting, seed)
    y = signal + rng.normal(size=signal.size)
    fit = DPAdditiveRegressor(epsilon, random_state=seed).fit(X, y)
    return float(1 - np.var(y - signal) / np.var(y) - fit.score(X, y))


def fit_rare_class(setting: Setting, epsilon: float, seed: int, name: str) -> float:
    """Fit a classifier of a class of about 5, 3 or 2 % of the rows, by the kind of the setting."""
    import skdp

    rng, n = np.random.default_rng(seed + 900), setting.n_rows
    levels = np.eye(4)[rng.choice(4, n, p=[0.52, 0.31, 0.11, 0.06])][:, 1:]
    X = np.c_[levels, rng.random((n, 4)) < [0.45, 0.29, 0.64, 0.53]].astype(float)
    base = {"normal": 4.4, "skewed": 4.9, "spike": 5.4}[setting.kind]
    logits = X @ [1.45, 2.64, 3.77, 0.14, 0.93, -1.1, 0] - base
    y = (rng.random(n) < 1 / (1 + np.exp(-logits))).astype(int)
    if y.sum() < 5:
        return 1.0
    constant = log_loss(y, np.full(n, y.mean()))
    best = LogisticRegression(C=1e6, max_iter=3_000).fit(X, y)
    fit = getattr(skdp, name)(
        epsilon, bounds=(0, 1), classes=[0, 1], random_state=seed
    ).fit(X, y)
    losses = [log_loss(y, model.predict_proba(X)[:, 1]) for model in (best, fit)]
    return float((losses[1] - losses[0]) / (constant - losses[0]))


def synthesize_pair(setting: Setting, epsilon: float, seed: int) -> float:
    from skdp import DPMarginalSynthesizer, Interval

    rng, x = start(setting, seed)
    y = pd.Series(x).rank() / x.size * 3.4 + rng.normal(size=x.size)
    table = pd.DataFrame({"x": x, "y": y, "z": rng.choice(["u", "v"], x.size)})
    domain = {"x": Interval(None, None), "y": Interval(None, None), "z": ["u", "v"]}
    model = DPMarginalSynthesizer(
        epsilon, delta=DELTA, domain=domain, random_state=seed
    )
    made = model.fit(table).sample(x.size)
    return abs(1 - correlate(made["x"], made["y"]) / correlate(x, y))


def resample_column(setting: Setting, epsilon: float, seed: int) -> float:
    from skdp import DPColumnSynthesizer, Interval

    rng = np.random.default_rng(seed + 900)
    z = rng.normal(size=setting.n_rows)
    x = np.exp(z) if setting.kind == "skewed" else 50 + 10 * z
    if setting.kind == "spike":
        x = np.where(z > -0.67, 100.0, x)
    table = pd.DataFrame({"x": x.clip(0, 100), "y": z + rng.normal(size=z.size)})
    domain = {"x": Interval(0.0, 100.0)}
    model = DPColumnSynthesizer(
        ["x"], epsilon, delta=DELTA, domain=domain, random_state=seed
    )
    made = model.fit_transform(table)
    return abs(1 - correlate(made["x"], table["y"]) / correlate(table["x"], table["y"]))


def synthesize_events(setting: Setting, epsilon: float, seed: int) -> float:
    """Synthesize rare events that depend on nothing, on one attribute or on two, by the kind of the setting."""
    from skdp import DPLinkedSynthesizer

    rng, n = np.random.default_rng(seed + 900), setting.n_rows
    people = pd.DataFrame(
        {
            "id": range(n),
            "sex": rng.choice(["f", "m"], n),
            "old": rng.choice(["n", "y"], n),
        }
    )
    persons = np.repeat(np.arange(n), rng.integers(1, 4, n))
    is_female, is_young = (
        people["sex"].eq("f").to_numpy()[persons],
        people["old"].eq("n").to_numpy()[persons],
    )
    chances = {
        "normal": 0.03,
        "skewed": 0.06 * is_female,
        "spike": 0.12 * (is_female & is_young),
    }
    is_rare = rng.random(persons.size) < chances[setting.kind]
    events = pd.DataFrame(
        {
            "id": persons,
            "ward": np.where(is_rare, "r", rng.choice(["a", "b"], persons.size)),
        }
    )
    domain = {"sex": ["f", "m"], "old": ["n", "y"], "ward": ["a", "b", "r"]}
    model = DPLinkedSynthesizer(
        epsilon,
        delta=DELTA,
        person="id",
        domain=domain,
        max_rows_per_person=3,
        random_state=seed,
    )
    _, made = model.fit(people, events).sample(n)
    return abs(float((made["ward"] == "r").sum() / is_rare.sum()) - 1)


def list_broken(rows: pd.DataFrame) -> list[str]:
    """List the steps to more rows or to a larger epsilon after which an error is larger, in results of this script."""
    broken = []
    parts = rows["table"].str.extract(r"(?P<kind>\w+), (?P<n>[\d,]+) rows")
    cells = rows.assign(
        kind=parts["kind"], n=parts["n"].str.replace(",", "").astype(int)
    )
    for (method, kind), group in cells.groupby(["method", "kind"]):
        errors = group.groupby(["n", "epsilon"])["value"]
        found = {cell: values.to_numpy() for cell, values in errors}
        sizes, epsilons = (sorted(set(axis)) for axis in zip(*found, strict=True))
        steps = [((a, e), (b, e)) for e in epsilons for a, b in pairwise(sizes)]
        steps += [((n, a), (n, b)) for n in sizes for a, b in pairwise(epsilons)]
        for before, after in steps:
            if before in found and after in found:
                a, b = found[before], found[after]
                noise = 2 * np.sqrt(a.var(ddof=1) / a.size + b.var(ddof=1) / b.size)
                if b.mean() > 1.1 * a.mean() + noise + 0.01:
                    step = f"{before} -> {after}: {a.mean():.3f} -> {b.mean():.3f}"
                    broken.append(f"{method}, {kind}: {step}")
    return broken


def tables(quick: bool) -> dict[str, Callable[[], Setting]]:
    kinds, sizes = (KINDS[:1], (500,)) if quick else (KINDS, ROWS)
    return {
        f"{kind}, {n:,} rows": partial(Setting, kind, n)
        for kind in kinds
        for n in sizes
    }


def score(setting: Setting, error: float) -> dict[str, float]:
    return {"error": min(max(error, 0.0), MAX_ERROR)}


STATISTICS = {
    "mean": find_mean,
    "scale": find_scale,
    "means of groups": find_groups,
    "quantiles": find_quantiles,
}
MODELS = {
    "linear regression": fit_linear,
    "linear regression, delta 0": partial(fit_linear, delta=0.0),
    "additive regression": fit_additive,
    "logistic regression": partial(fit_rare_class, name="DPLogisticRegression"),
    "additive classifier": partial(fit_rare_class, name="DPAdditiveClassifier"),
}
SYNTHESIS = {
    "synthetic pair": synthesize_pair,
    "private column": resample_column,
    "linked events": synthesize_events,
}
TASKS = {
    "statistics": Task(tables, STATISTICS, score, EPSILONS, 8),
    "models": Task(tables, MODELS, score, EPSILONS, 8),
    "synthesis": Task(tables, SYNTHESIS, score, EPSILONS, 8),
}
