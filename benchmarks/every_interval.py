"""Fifth law: an interval that is given contains its true value, also where data are small, rare, skewed or uneven.

A table of a task is a setting, and each seed draws 25 tables from a known population. `given` is the proportion of
intervals that are not nan, and `coverage 0.95` and `coverage 0.99` are the proportions of these that contain the true
value, which is the value of the drawn table or of the population, as the documentation of the release states. `lowest`
is the smallest coverage at 0.95 of a value of the setting, such as a coefficient, and `width` is the mean length at
0.95. `RELEASES` lists the public names with intervals or standard errors, which a test compares with the package.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from _tasks import Task, list_seeds
from scipy.stats import gamma, norm

LEVELS = 0.95, 0.99
N_DRAWS = 25
ENDS = ["lower", "upper"]
VALUES = list("abcdefgh")


class Setting(NamedTuple):
    """The number of rows, the options of a setting, and the number of draws in a seed."""

    n_rows: int
    options: Mapping[str, Any]
    n_draws: int


class Found(NamedTuple):
    """Intervals of a draw, (n_values, 2), and the true values."""

    level: float
    ends: Any
    truth: Any


def add_margins(values: Any, errors: Any, level: float) -> Any:
    """Return normal intervals of values with standard errors."""
    margin = norm.ppf((1 + level) / 2) * np.asarray(errors, float)
    return np.stack([np.subtract(values, margin), np.add(values, margin)], axis=-1)


def list_settings(
    settings: list[tuple[int, dict[str, Any]]], quick: bool
) -> dict[str, Any]:
    """Return the settings of a task by name."""
    named = {}
    for n_rows, options in settings:
        text = ", ".join([f"n {n_rows:,}", *(f"{k} {v}" for k, v in options.items())])
        setting = Setting(n_rows, options, 1 if quick else N_DRAWS)
        named[text] = partial(Setting, *setting)
    return named


def repeat(measure: Any, setting: Setting, epsilon: float, seed: int) -> list[Found]:
    """Return the intervals of all draws."""
    found: list[Found] = []
    for draw in list_seeds(seed, setting.n_draws):
        rng = np.random.default_rng(draw)
        found += measure(rng, setting.n_rows, epsilon, draw, **setting.options)
    return found


def score_intervals(setting: Setting, found: list[Found]) -> dict[str, float]:
    """Return the proportions of given intervals, and of intervals that cover."""
    scores = {}
    for level in LEVELS:
        chosen = [part for part in found if part.level == level]
        ends = np.stack([np.asarray(part.ends, float) for part in chosen])
        truth = np.stack([np.asarray(part.truth, float) for part in chosen])
        is_given = np.isfinite(ends).all(axis=2)
        inside = is_given & (ends[..., 0] <= truth) & (truth <= ends[..., 1])
        # Without an interval, no interval misses.
        scores[f"coverage {level}"] = (
            float(inside.sum() / max(is_given.sum(), 1)) if is_given.any() else 1.0
        )
        if level == LEVELS[0]:
            scores["given"] = float(is_given.mean())
            by_value = np.where(
                is_given.any(axis=0),
                inside.sum(axis=0) / np.maximum(is_given.sum(axis=0), 1),
                1.0,
            )
            scores["lowest"] = float(by_value.min())
            widths = (ends[..., 1] - ends[..., 0])[is_given]
            scores["width"] = float(min(widths.mean(), 1e6)) if widths.size else 0.0
    return scores


# Models.


def draw_indicator(rng: Any, n_rows: int, share: float) -> pd.DataFrame:
    """Draw a uniform column and a rare indicator."""
    return pd.DataFrame(
        {"x": rng.random(n_rows), "rare": (rng.random(n_rows) < share) * 1.0}
    )


def draw_classes(rng: Any, log_odds: Any) -> Any:
    """Draw 0 or 1 of each row."""
    return (rng.random(len(log_odds)) < 1 / (1 + np.exp(-np.asarray(log_odds)))) * 1


def list_coefficients(model: Any, truth: dict[str, float]) -> Iterator[Found]:
    """List the intervals of coefficients."""
    for level in LEVELS:
        table = model.summary(confidence_level=level)
        yield Found(level, table.loc[list(truth), ENDS], [*truth.values()])


def measure_logistic(
    rng: Any, n: int, epsilon: float, seed: int, share: float, base: float, slope: float
) -> Iterator[Found]:
    """Measure a rare indicator, where the classes may be uneven."""
    from skdp import DPLogisticRegression

    X = draw_indicator(rng, n, share)
    y = draw_classes(rng, base + X["x"] - 0.5 + slope * X["rare"])
    model = DPLogisticRegression(
        epsilon, bounds=(0, 1), classes=[0, 1], random_state=seed
    )
    return list_coefficients(model.fit(X, y), {"rare": slope})


def measure_amounts(
    rng: Any, n: int, epsilon: float, seed: int, bound: float
) -> Iterator[Found]:
    """Measure an amount that is 0 in nine of ten rows, in a logistic regression."""
    from skdp import DPLogisticRegression

    amount = np.where(rng.random(n) < 0.1, rng.lognormal(8, 1, n), 0).clip(0, 2e5)
    X = pd.DataFrame({"age": rng.uniform(18, 90, n), "amount": amount})
    y = draw_classes(rng, 0.02 * X["age"] + 2e-4 * amount - 2)
    model = DPLogisticRegression(
        epsilon,
        bounds={"age": (0, 120), "amount": (0, bound)},
        classes=[0, 1],
        random_state=seed,
    )
    return list_coefficients(model.fit(X, y), {"age": 0.02, "amount": 2e-4})


def measure_narrow_column(
    rng: Any, n: int, epsilon: float, seed: int, bound: float
) -> Iterator[Found]:
    """Measure a column that is far below its bound, in a logistic regression."""
    from skdp import DPLogisticRegression

    b = np.where(rng.random(n) < 0.1, rng.uniform(0.1, 0.3, n), 0)
    X = pd.DataFrame({"a": rng.normal(size=n).clip(-4, 4), "b": b})
    y = draw_classes(rng, -1 + 0.5 * X["a"] + 4 * X["b"])
    model = DPLogisticRegression(
        epsilon,
        bounds={"a": (-4, 4), "b": (0, bound)},
        classes=[0, 1],
        random_state=seed,
    )
    return list_coefficients(model.fit(X, y), {"a": 0.5, "b": 4.0})


def measure_linear(
    rng: Any,
    n: int,
    epsilon: float,
    seed: int,
    model: str,
    delta: float,
    column: str,
    bounds: tuple[float, float] | None,
) -> Iterator[Found]:
    """Measure coefficients of a column of a shape, beside a rare indicator."""
    import skdp

    X = draw_indicator(rng, n, 0.03)
    X["x"] = {"uniform": rng.random, "lognormal": partial(rng.lognormal, 0, 1.2)}[
        column
    ](size=n)
    errors = rng.lognormal(0, 1, n) - np.exp(0.5)
    y = 10 + 2 * X["x"] - 1.5 * X["rare"] + errors
    made = getattr(skdp, model)(
        epsilon,
        delta=delta,
        bounds=None if bounds is None else {"x": bounds, "rare": (0, 1)},
        target_bounds=None if bounds is None else (0, 100 + 4 * bounds[1]),
        random_state=seed,
    )
    return list_coefficients(made.fit(X, y), {"x": 2.0, "rare": -1.5})


def measure_additive(
    rng: Any, n: int, epsilon: float, seed: int, errors: str
) -> Iterator[Found]:
    """Measure functions of two categorical columns."""
    from skdp import DPAdditiveRegressor

    effects = np.array([-2.0, 0.0, 2.0])
    codes = {name: rng.integers(3, size=n) for name in "ab"}
    X = pd.DataFrame(
        {name: np.array(list("uvw"))[code] for name, code in codes.items()}
    )
    noise = rng.standard_t(3, n) if errors == "t(3)" else rng.normal(size=n)
    y = effects[codes["a"]] + 0.5 * effects[codes["b"]] + noise
    model = DPAdditiveRegressor(
        epsilon,
        categories={name: list("uvw") for name in X},
        target_bounds=(-20, 20),
        random_state=seed,
    ).fit(X, y)
    for level in LEVELS:
        ends, truth = [], []
        for name, scale in (("a", 1.0), ("b", 0.5)):
            shape = model.shape_(name)
            ends.append(add_margins(shape.values, shape.std_error, level))
            truth.append(scale * (effects - effects[codes[name]].mean()))
        yield Found(level, np.concatenate(ends), np.concatenate(truth))


# Statistics of a curator.


def draw_groups(rng: Any, n: int, skewed: bool) -> pd.DataFrame:
    """Draw a small and a large group with numbers."""
    rows = pd.DataFrame({"g": np.where(rng.random(n) < 0.1, "small", "large")})
    x = rng.lognormal(3, 1, n) if skewed else rng.normal(500, 100, n)
    return rows.assign(x=x.clip(0, 1_000))


KEYS = {"g": ["large", "small"]}
BOUNDS = {"x": (0.0, 1_000.0)}


def measure_groups(
    rng: Any, n: int, epsilon: float, seed: int, skewed: bool
) -> Iterator[Found]:
    """Measure the statistics of groups, for the rows of the table."""
    from skdp import DPGroupBy

    rows = draw_groups(rng, n, skewed)
    x = rows.groupby("g")["x"].agg(["size", "mean", "median"])
    x["std"] = rows.groupby("g")["x"].std(ddof=0)
    x["q90"] = rows.groupby("g")["x"].quantile(0.9)
    columns = ["count", "x_mean", "x_median", "x_std", "x_q90"]
    for level in LEVELS:
        groups = DPGroupBy(
            epsilon,
            by="g",
            keys=KEYS,
            bounds=BOUNDS,
            statistics=["count", "mean", "std", "median", 0.9],
            confidence_level=level,
            random_state=seed,
        ).fit(rows)
        table = groups.to_frame().loc[x.index]
        ends = [table[[f"{name}_{end}" for end in ENDS]] for name in columns]
        yield Found(level, np.concatenate(ends), x.to_numpy().T.ravel())


def measure_population(
    rng: Any, n: int, epsilon: float, seed: int, skewed: bool
) -> Iterator[Found]:
    """Measure counts, means and medians of groups of a random sample, for the population."""
    from skdp import DPGroupBy

    rows = draw_groups(rng, n, skewed)
    # The share of the small group, and mean and median, which are equal in both groups.
    truth = [0.1 * n, *([LIMITED_MEAN, np.exp(3)] if skewed else [500.0, 500.0])]
    for level in LEVELS:
        groups = DPGroupBy(
            epsilon,
            by="g",
            keys=KEYS,
            bounds=BOUNDS,
            statistics=["count", "mean", "std", "median"],
            confidence_level=level,
            random_state=seed,
        ).fit(rows)
        table = groups.to_frame(design_effect=1.0).loc["small"]
        ends = [
            [table[f"{name}_{end}"] for end in ENDS]
            for name in ("count", "x_mean", "x_median")
        ]
        yield Found(level, ends, truth)


# The mean of lognormal(3, 1), limited to 1,000.
LIMITED_MEAN = float(
    np.exp(3.5) * norm.cdf(np.log(1_000) - 4) + 1_000 * norm.sf(np.log(1_000) - 3)
)


def measure_comparison(
    rng: Any, n: int, epsilon: float, seed: int, skewed: bool
) -> Iterator[Found]:
    """Measure differences of two groups, for the population."""
    from skdp import DPGroupBy
    from skdp.central import compare_groups

    groups = DPGroupBy(
        epsilon,
        by="g",
        keys=KEYS,
        bounds=BOUNDS,
        statistics=["count", "mean", "std", "median"],
        random_state=seed,
    ).fit(draw_groups(rng, n, skewed))
    for level in LEVELS:
        table = compare_groups(groups, pair=["large", "small"], confidence_level=level)
        ends = [
            table.loc[name, ENDS] for name in table.index if "count" not in str(name)
        ]
        yield Found(level, np.stack(ends), np.zeros(len(ends)))


def measure_means(
    rng: Any, n: int, epsilon: float, seed: int, bound: float | None
) -> Iterator[Found]:
    """Measure means of a skewed and of a symmetric number, for the rows of the table limited to `bounds_`."""
    from skdp import DPMean

    X = np.stack([rng.lognormal(3, 1, n), rng.normal(50, 10, n)], axis=1)
    for level in LEVELS:
        bounds = None if bound is None else (0, bound)
        mean = DPMean(
            epsilon, bounds=bounds, confidence_level=level, random_state=seed
        ).fit(X)
        low, high = np.transpose(mean.bounds_)
        yield Found(level, mean.to_frame()[ENDS], X.clip(low, high).mean(axis=0))


def draw_unbounded(rng: Any, n: int, shape: str) -> Any:
    """Draw a column with a heap of 0.75 of its numbers, below, within or above the others, or with a heavy tail."""
    if shape.startswith("heap"):
        heap = float(shape.removeprefix("heap at "))
        return np.where(rng.random(n) < 0.75, heap, rng.uniform(1, 365, n))
    return {
        "Pareto 2.5": lambda: rng.pareto(2.5, n) + 1,
        "zeros and lognormal": lambda: (rng.random(n) < 0.3) * rng.lognormal(6, 1.2, n),
    }[shape]()


def measure_found_limits(
    rng: Any, n: int, epsilon: float, seed: int, shape: str
) -> Iterator[Found]:
    """Measure means without bounds, for the rows of the table; a column that a warning names has no interval."""
    from skdp import DPMean

    X = pd.DataFrame({"x": draw_unbounded(rng, n, shape)})
    for level in LEVELS:
        mean = DPMean(epsilon, confidence_level=level, random_state=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ends = mean.fit(X).to_frame()[ENDS].to_numpy(float)
        is_named = any("limits of columns" in str(each.message) for each in caught)
        yield Found(level, np.full_like(ends, np.nan) if is_named else ends, X.mean())


def measure_histogram(rng: Any, n: int, epsilon: float, seed: int) -> Iterator[Found]:
    """Measure counts of rare and frequent values, and of a range, for the rows of the table."""
    from skdp import DPHistogram

    rows = draw_values(rng, n)
    true = rows["v"].value_counts().reindex(VALUES, fill_value=0)
    for level in LEVELS:
        counts = DPHistogram(
            epsilon,
            domain={"v": VALUES},
            confidence_level=level,
            random_state=seed,
        ).fit(rows)
        sums = counts.range_estimate("b", "g")
        ends = [*counts.to_frame()[ENDS].to_numpy(), (sums.lower, sums.upper)]
        yield Found(level, ends, [*true, true["b":"f"].sum()])


def measure_months(
    rng: Any, n: int, epsilon: float, seed: int, drift: int
) -> Iterator[Found]:
    """Measure twelve filtered months of 40 counts."""
    from skdp import DPGroupBy
    from skdp.central import filter_months

    counts = rng.integers(100, n, 40)
    releases = []
    for month in range(12):
        counts = np.maximum(counts + np.rint(rng.normal(0, drift, 40)).astype(int), 1)
        groups = DPGroupBy(
            epsilon,
            by="a",
            keys={"a": list(range(40))},
            statistics="count",
            random_state=100 * seed + month,
        )
        releases.append(
            groups.fit(pd.DataFrame({"a": np.repeat(np.arange(40), counts)}))
        )
    for level in LEVELS:
        table = filter_months(releases, confidence_level=level)
        yield Found(level, table[[f"count_{end}" for end in ENDS]], counts)


def measure_noise(
    name: str, rng: Any, n: int, epsilon: float, seed: int
) -> Iterator[Found]:
    """Measure fitted attributes with the standard deviation of their noise, for the rows of the table."""
    import skdp

    X = np.stack([rng.normal(50, 10, n), rng.uniform(0, 100, n)], axis=1).clip(0, 100)
    y = (rng.random(n) < 0.1) * 1
    classes = {"classes": [0, 1]} if name == "DPGaussianNB" else {}
    model = getattr(skdp, name)(
        epsilon, bounds=[(0, 100)] * 2, random_state=seed, **classes
    ).fit(X, y)
    limited = X.clip(*np.transpose(model.bounds_))
    mean, scale = limited.mean(axis=0), limited.std(axis=0)
    truths = {"mean_": mean, "scale_": scale, "statistics_": mean}
    truths["class_count_"] = np.bincount(y, minlength=2)
    found = [(key, truth) for key, truth in truths.items() if hasattr(model, key)]
    if name == "DPGaussianNB":
        found = [("class_count_", truths["class_count_"])]
    for level in LEVELS:
        ends = [
            add_margins(
                getattr(model, key),
                np.broadcast_to(getattr(model, f"{key[:-1]}_std_error_"), len(truth)),
                level,
            )
            for key, truth in found
        ]
        yield Found(level, np.concatenate(ends), np.concatenate([t for _, t in found]))


def measure_target_mean(rng: Any, n: int, epsilon: float, seed: int) -> Iterator[Found]:
    """Measure the mean of a rare target, for the rows of the table."""
    from skdp import DPTargetEncoder

    y = (rng.random(n) < 0.05) * 1.0
    encoder = DPTargetEncoder(
        epsilon, categories={"v": VALUES}, bounds=(0, 1), random_state=seed
    ).fit(draw_values(rng, n), y)
    for level in LEVELS:
        errors = encoder.target_mean_std_error_
        ends = add_margins([encoder.target_mean_], [errors], level)
        yield Found(level, ends, [y.mean()])


def measure_components(rng: Any, n: int, epsilon: float, seed: int) -> Iterator[Found]:
    """Measure the variance of the first component, which is far from the second one, for the rows of the table."""
    from skdp import DPPCA

    x = rng.uniform(0, 100, n)
    X = np.stack([x, 0.9 * x + rng.uniform(0, 10, n), rng.uniform(0, 100, n)], axis=1)
    model = DPPCA(epsilon, bounds=[(0, 100)] * 3, random_state=seed).fit(X)
    true = np.linalg.eigvalsh(np.cov(X.T, bias=True))[-1]
    errors = model.explained_variance_std_error_[:1]
    for level in LEVELS:
        yield Found(
            level, add_margins(model.explained_variance_[:1], errors, level), [true]
        )


def measure_persons(rng: Any, n: int, epsilon: float, seed: int) -> Iterator[Found]:
    """Measure the number of persons of linked tables, and the number of rows of a synthesizer."""
    from skdp import DPLinkedSynthesizer, DPMarginalSynthesizer

    people = pd.DataFrame({"id": range(n), "a": rng.choice(list("uv"), n)})
    events = pd.DataFrame({"id": rng.integers(n, size=2 * n)})
    events["b"] = rng.choice(list("xyz"), 2 * n)
    linked = DPLinkedSynthesizer(
        epsilon,
        delta=1e-6,
        domain={"a": list("uv"), "b": list("xyz")},
        person="id",
        max_rows_per_person=5,
        random_state=seed,
    ).fit(people, events)
    rows = DPMarginalSynthesizer(
        epsilon, delta=1e-6, domain={"a": list("uv")}, random_state=seed
    ).fit(people[["a"]])
    for level in LEVELS:
        yield Found(
            level,
            add_margins(
                [linked.n_persons_, rows.n_rows_],
                [linked.n_persons_std_error_, rows.n_rows_std_error_],
                level,
            ),
            [n, n],
        )


# Metrics of noisy counts.


def measure_scores(
    rng: Any, n: int, epsilon: float, seed: int, share: float
) -> Iterator[Found]:
    """Measure the area under the curve, for the population."""
    from skdp import DPHistogram, Interval
    from skdp.metrics import scores_from_counts

    y = rng.random(n) < share
    score = 1 / (1 + np.exp(-(rng.normal(size=n) + 1.2 * y)))
    rows = pd.DataFrame({"y": np.where(y, "yes", "no"), "score": score})
    bins = Interval(np.linspace(0, 1, 33).tolist(), real=True)
    domain = {"y": ["no", "yes"], "score": bins}
    counts = DPHistogram(epsilon, domain=domain, random_state=seed).fit(rows).to_frame()
    true = norm.cdf(1.2 / np.sqrt(2))
    for level in LEVELS:
        table = scores_from_counts(
            counts, "y", "score", positive_label="yes", confidence_level=level
        )
        yield Found(level, table.loc[table["metric"].eq("roc_auc"), ENDS], [true])


def measure_survival(
    rng: Any, n: int, epsilon: float, seed: int, visits: bool
) -> Iterator[Found]:
    """Measure a survival curve where few or none are at risk, for the population."""
    from skdp import DPHistogram, Interval
    from skdp.metrics import survival_from_counts

    death, seen = 20 * rng.weibull(3, n), rng.uniform(6, 60, n)
    if visits:
        seen = np.floor(seen / 3) * 3
    rows = pd.DataFrame({"months": np.minimum(death, seen), "died": death <= seen})
    edges = [*range(0, 61, 3), 1_200]
    domain = {"months": Interval(edges, real=True), "died": [False, True]}
    counts = DPHistogram(epsilon, domain=domain, random_state=seed).fit(rows).to_frame()
    true = np.exp(-((np.array(edges[1:-1]) / 20) ** 3))
    for level in LEVELS:
        table = survival_from_counts(counts, "months", "died", confidence_level=level)
        curve = table.loc[table["metric"].eq("survival")].set_index("time")
        yield Found(level, curve.loc[edges[1:-1], ENDS], true)


def count_rows(rows: Any, domain: Any, epsilon: float, seed: int, kind: str) -> Any:
    """Release counts: with Laplace or Gaussian noise, as sums of weights of 0.5, or of persons with up to two rows."""
    from skdp import DPHistogram
    from skdp.privacy import Mu

    if kind == "gaussian":
        return DPHistogram(
            Mu(epsilon, delta=1e-5), domain=domain, random_state=seed
        ).fit(rows)
    options: dict[str, Any] = {"domain": domain, "random_state": seed}
    if kind == "weights":
        histogram = DPHistogram(epsilon, max_weight=1.0, **options)
        return histogram.fit(rows, sample_weight=np.full(len(rows), 0.5))
    persons = 2 if kind == "persons" else 1
    return DPHistogram(epsilon, max_rows_per_person=persons, **options).fit(rows)


def measure_regression(
    rng: Any,
    n: int,
    epsilon: float,
    seed: int,
    model: str,
    share: float,
    base: float,
    kind: str = "laplace",
) -> Iterator[Found]:
    """Measure a regression on a rare category and a number from counts, for the population."""
    from skdp.metrics import regression_from_counts

    rows = pd.DataFrame({"rare": rng.random(n) < share, "x": rng.integers(0, 4, n)})
    slopes = np.array([base, 0.8, -0.3])
    predictors = slopes @ [np.ones(n), rows["rare"], rows["x"]]
    values = [0, 1]
    if model == "poisson":
        values, rows["y"] = [*range(6)], rng.poisson(np.exp(predictors)).clip(0, 5)
    elif model == "linear":
        values = [*range(-8, 9)]
        noise = rng.integers(-2, 3, n)
        slopes = np.array([base, 1, -1])
        rows["y"] = slopes @ [np.ones(n), rows["rare"], rows["x"]] + noise
        rows["y"] = rows["y"].astype(int)
    else:
        rows["y"] = draw_classes(rng, predictors) * 1
    domain = {"rare": [False, True], "x": [*range(4)], "y": values}
    counts = count_rows(rows, domain, epsilon, seed, kind).to_frame()
    for level in LEVELS:
        table = regression_from_counts(
            counts,
            "y",
            ["rare", "x"],
            numeric="x",
            model=model,
            design_effect=0.5 if kind == "weights" else 1.0,
            confidence_level=level,
        )
        yield Found(level, table[ENDS], slopes)


def measure_hazards(
    rng: Any, n: int, epsilon: float, seed: int, share: float, hazard: float
) -> Iterator[Found]:
    """Measure hazard ratios of a treatment and a rare group from counts, for the population."""
    from skdp import Interval
    from skdp.metrics import hazards_from_counts

    groups = pd.DataFrame({"drug": rng.random(n) < 0.5, "rare": rng.random(n) < share})
    slopes = [-0.5, 0.7]
    death = rng.exponential(60 / hazard * np.exp(-(groups @ slopes)))
    seen = rng.uniform(12, 80, n)
    rows = groups.assign(months=np.minimum(death, seen), died=death <= seen)
    domain = {"drug": [False, True], "rare": [False, True], "died": [False, True]}
    domain["months"] = Interval([0, 6, 12, 24, 36, 60, 1_200], real=True)
    counts = count_rows(rows, domain, epsilon, seed, "laplace").to_frame()
    for level in LEVELS:
        table = hazards_from_counts(
            counts, "months", "died", ["drug", "rare"], confidence_level=level
        )
        yield Found(level, table[ENDS], slopes)


def measure_standardized(
    rng: Any, n: int, epsilon: float, seed: int, method: str, share: float, base: float
) -> Iterator[Found]:
    """Measure standardized rates of a treatment that old people get more often, for the population."""
    from skdp.metrics import standardize_from_counts

    ages, part = np.arange(4), np.array([0.4, 0.3, 0.2, 0.1])
    chances = 1 / (1 + np.exp(-base - 0.4 * ages[:, np.newaxis] - 0.6 * np.arange(2)))
    rows = pd.DataFrame({"age": rng.choice(ages, n, p=part)})
    rows["drug"] = rng.random(n) < share + 0.1 * rows["age"]
    rows["ill"] = rng.random(n) < chances[rows["age"], rows["drug"] * 1]
    domain = {"age": [*range(4)], "drug": [False, True], "ill": [False, True]}
    counts = count_rows(rows, domain, epsilon, seed, "laplace").to_frame()
    if method == "mantel_haenszel":
        # The groups have one odds ratio.
        terms, truth = ["odds ratio: True v False"], [np.exp(0.6)]
    else:
        low, high = part @ chances
        odds = high / (1 - high) / (low / (1 - low))
        names = ["rate difference", "rate ratio", "odds ratio"]
        terms = ["rate: False", "rate: True", *(f"{x}: True v False" for x in names)]
        truth = [low, high, high - low, high / low, odds]
    for level in LEVELS:
        table = standardize_from_counts(
            counts, "ill", "drug", "age", method=method, confidence_level=level
        ).set_index("term")
        yield Found(level, table.loc[terms, ENDS], truth)


def measure_curves(
    rng: Any, n: int, epsilon: float, seed: int, effect: float
) -> Iterator[Found]:
    """Measure differences of restricted means; without an effect, the log-rank test covers if it does not reject."""
    from skdp import Interval
    from skdp.metrics import compare_survival_from_counts

    rows = pd.DataFrame({"drug": rng.random(n) < 0.5})
    hazard = np.where(rows["drug"], np.exp(-effect), 1.0) / 20
    death, seen = rng.exponential(1 / hazard), rng.uniform(6, 60, n)
    rows["months"], rows["died"] = np.minimum(death, seen), death <= seen
    domain = {"drug": [False, True], "died": [False, True]}
    domain["months"] = Interval([*range(0, 37, 3), 1_200], real=True)
    counts = count_rows(rows, domain, epsilon, seed, "laplace").to_frame()
    rates = np.exp([0.0, -effect]) / 20
    low, high = (1 - np.exp(-24 * rates)) / rates
    for level in LEVELS:
        table = compare_survival_from_counts(
            counts, "months", "died", "drug", until=24, confidence_level=level
        )
        difference = table.loc[1:, ENDS].to_numpy()
        if effect:
            yield Found(level, difference, [high - low])
            continue
        p_value = table.loc[0, "p_value"]
        test = [-1, p_value - (1 - level)]
        yield Found(level, np.vstack([test, difference]), [0, 0])


def measure_ranks(
    rng: Any, n: int, epsilon: float, seed: int, n_groups: int, base: float
) -> Iterator[Found]:
    """Measure rates of groups of uneven sizes and their ranks together: an interval covers if all do."""
    from skdp.metrics import rank_from_counts

    part = 0.7 ** np.arange(n_groups)
    chances = base + 0.4 * np.arange(n_groups) / n_groups
    rows = pd.DataFrame({"g": rng.choice(n_groups, n, p=part / part.sum())})
    rows["y"] = rng.random(n) < chances[rows["g"]]
    domain = {"g": [*range(n_groups)], "y": [False, True]}
    counts = count_rows(rows, domain, epsilon, seed, "laplace").to_frame()
    for level in LEVELS:
        table = rank_from_counts(counts, "g", "y", confidence_level=level)
        truth = chances, np.arange(n_groups, 0, -1)
        for names, true in zip(
            (ENDS, ["rank_lower", "rank_upper"]), truth, strict=True
        ):
            low, high = table[names].to_numpy(float).T
            is_inside = np.isnan(low) | ((low <= true) & (true <= high))
            yield Found(level, [[-1, 1 if is_inside.all() else -1]], [0])


def measure_quantiles(
    rng: Any, n: int, epsilon: float, seed: int, share: float
) -> Iterator[Found]:
    """Measure the quantiles of a large and a small group together: an interval covers if all do."""
    from skdp import Interval
    from skdp.metrics import quantiles_from_counts

    rows = pd.DataFrame({"g": np.where(rng.random(n) < share, "b", "a")})
    rows["x"] = rng.gamma(2, 10, n).clip(0, 100)
    domain = {"g": ["a", "b"], "x": Interval(0, 100, bins=25, real=True)}
    counts = count_rows(rows, domain, epsilon, seed, "laplace").to_frame()
    chances = [0.1, 0.5, 0.9]
    truth = np.tile(gamma.ppf(chances, 2, scale=10), 2)
    for level in LEVELS:
        table = quantiles_from_counts(
            counts, "x", "g", probabilities=chances, confidence_level=level
        )
        low, high = table[ENDS].to_numpy(float).T
        is_inside = (low <= truth) & (truth <= high)
        yield Found(level, [[-1, 1 if is_inside.all() else -1]], [0])


METRICS = ["selection_rate", "true_positive_rate", "statistical_parity_difference"]


def draw_decisions(rng: Any, n: int, share: float) -> tuple[pd.DataFrame, list[float]]:
    """Draw labels, predictions and a rare group, and return the metrics of the population."""
    rare = rng.random(n) < share
    y = rng.random(n) < 0.4
    rates = np.where(y, np.where(rare, 0.6, 0.8), 0.2)
    rows = pd.DataFrame({"g": np.where(rare, "b", "a")})
    rows["y"], rows["p"] = y * 1, (rng.random(n) < rates) * 1
    selected = {"a": 0.4 * 0.8 + 0.6 * 0.2, "b": 0.4 * 0.6 + 0.6 * 0.2}
    gap = selected["b"] - selected["a"]
    return rows, [selected["b"], selected["a"], 0.6, 0.8, gap]


def compute_f1(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
    """Return the F1 score of a group, a metric of a user."""
    return 2 * tp / (2 * tp + fp + fn)


def measure_fairness(
    source: str,
    rng: Any,
    n: int,
    epsilon: float,
    seed: int,
    share: float,
    metric: str = "",
) -> Iterator[Found]:
    """Measure the metrics of a rare group: of true rows, of counts, or of reports, for the population.

    With a `metric`, measure a metric of a user for both groups, and its difference.
    """
    from skdp import DPGroupBy, RandomizedResponseEncoder
    from skdp.metrics import debiased_fairness, fairness_from_counts, fairness_report

    rows, truth = draw_decisions(rng, n, share)
    options: dict[str, Any] = {"privileged": "a", "positive_label": 1}
    chosen = METRICS
    if metric:
        options["metrics"] = {f"{metric}_difference": compute_f1}
        chosen = [metric, f"{metric}_difference"]
        rare = compute_f1(0.4 * 0.6, 0.6 * 0.2, 0.4 * 0.4, 0.6 * 0.8)
        other = compute_f1(0.4 * 0.8, 0.6 * 0.2, 0.4 * 0.2, 0.6 * 0.8)
        truth = [rare, other, rare - other]
    keys = {"g": ["a", "b"], "y": [0, 1], "p": [0, 1]}
    if source == "counts":
        groups = DPGroupBy(
            epsilon, by=[*keys], keys=keys, statistics="count", random_state=seed
        )
        counts = groups.fit(rows).to_frame()
    elif source == "reports":
        encoder = RandomizedResponseEncoder(
            epsilon, categories={"g": ["a", "b"]}, random_state=seed
        )
        reports = encoder.fit_transform(rows[["g"]])
    for level in LEVELS:
        options["confidence_level"] = level
        if source == "counts":
            report = fairness_from_counts(counts, "y", "p", "g", **options)
        elif source == "reports":
            report = debiased_fairness(
                rows["y"], rows["p"], reports, encoder, **options
            )
        else:
            report = fairness_report(rows["y"], rows["p"], rows["g"], **options)
        yield Found(level, report.loc[report["metric"].isin(chosen), ENDS], truth)


# Reports.


def draw_values(rng: Any, n: int) -> pd.DataFrame:
    """Draw a column with rare and frequent values."""
    proportions = [0.01, 0.02, 0.07, 0.1, 0.1, 0.1, 0.2, 0.4]
    return pd.DataFrame({"v": rng.choice(VALUES, n, p=proportions)})


def measure_reports(
    name: str, rng: Any, n: int, epsilon: float, seed: int
) -> Iterator[Found]:
    """Measure counts of values, for the rows of the table."""
    import skdp

    rows = draw_values(rng, n)
    true = rows["v"].value_counts().reindex(VALUES, fill_value=0)
    encoder = getattr(skdp, name)(epsilon, categories={"v": VALUES}, random_state=seed)
    reports = encoder.fit_transform(rows)
    for level in LEVELS:
        table = encoder.estimate_counts(reports, confidence_level=level)
        yield Found(level, table[ENDS], true)


def measure_frequencies(
    name: str, rng: Any, n: int, epsilon: float, seed: int
) -> Iterator[Found]:
    """Measure frequencies of values, for the population, and pairs of two columns, for the rows."""
    import skdp

    rows = pd.DataFrame({"v": rng.random(n) < 0.05, "w": rng.random(n) < 0.5})
    encoder = getattr(skdp, name)(
        2 * epsilon,
        categories={"v": [False, True], "w": [False, True]},
        random_state=seed,
    )
    reports = encoder.fit_transform(rows)
    pairs = pd.MultiIndex.from_product([[False, True]] * 2)
    true = rows.value_counts(["v", "w"]).reindex(pairs, fill_value=0)
    for level in LEVELS:
        table = encoder.estimate_frequencies(reports, confidence_level=level)
        joint = encoder.estimate_joint_counts(reports, confidence_level=level)
        ends = np.concatenate([table[ENDS], joint[ENDS]])
        yield Found(level, ends, [0.95, 0.05, 0.5, 0.5, *true])


def measure_reported_means(
    name: str, rng: Any, n: int, epsilon: float, seed: int
) -> Iterator[Found]:
    """Measure the mean of a skewed number from reports, for the rows of the table."""
    import skdp

    rows = pd.DataFrame({"x": rng.lognormal(2, 1, n).clip(0, 200)})
    bounds: Any = {"x": (0.0, 200.0)}
    encoder = getattr(skdp, name)(epsilon, bounds=bounds, random_state=seed)
    reports = encoder.fit_transform(rows)
    for level in LEVELS:
        table = encoder.estimate_mean(reports, confidence_level=level)
        yield Found(level, table[ENDS], [rows["x"].mean()])


def measure_survey(
    rng: Any, n: int, epsilon: float, seed: int, share: float, base: float
) -> Iterator[Found]:
    """Measure a regression from answers to a forced-response question, beside a rare indicator."""
    from skdp import ReportDesign, ReportLogisticRegression

    X = draw_indicator(rng, n, share)
    yes = draw_classes(rng, base + X["x"] - 0.5 + 0.8 * X["rare"])
    answers = force_answers(rng, yes)
    design = ReportDesign.forced("answer", yes=1 / 6, no=1 / 12)
    model = ReportLogisticRegression(target_design=design).fit(X, answers["answer"])
    return list_coefficients(model, {"x": 1.0, "rare": 0.8})


def force_answers(rng: Any, yes: Any) -> pd.DataFrame:
    """Answer yes with a probability of 1/6, no with 1/12, and the truth otherwise."""
    dice = rng.random(len(yes))
    truth = np.where(yes, "yes", "no")
    answers = np.select([dice < 1 / 6, dice < 1 / 4], ["yes", "no"], truth)
    return pd.DataFrame({"answer": answers})


def measure_design(rng: Any, n: int, epsilon: float, seed: int) -> Iterator[Found]:
    """Measure the frequency of a rare answer, and its mean after `debias`, for the population."""
    from skdp import ReportDesign
    from skdp.survey import survey_mean

    answers = force_answers(rng, rng.random(n) < 0.03)
    design = ReportDesign.forced("answer", yes=1 / 6, no=1 / 12)
    for level in LEVELS:
        table = design.estimate_frequencies(answers, confidence_level=level)
        means = survey_mean(design.debias(answers), confidence_level=level)
        ends = np.concatenate([table.loc[["yes"], ENDS], means[ENDS].to_numpy()[:1]])
        first = "yes" in str(means.index[0])
        yield Found(level, ends, [0.03, 0.03 if first else 0.97])


def measure_words(rng: Any, n: int, epsilon: float, seed: int) -> Iterator[Found]:
    """Measure counts of frequent words, found without a list and decoded from Bloom filters."""
    from skdp import HeavyHitters, RapporEncoder

    words = ["red", "green", "blue"]
    rows = pd.DataFrame({"v": rng.choice(words, n, p=[0.5, 0.3, 0.2])})
    true = rows["v"].value_counts()[words]
    encoder = RapporEncoder(epsilon, n_bits=32, random_state=seed)
    decoded = encoder.decode(encoder.fit_transform(rows), words)
    for level in LEVELS:
        finder = HeavyHitters(
            epsilon, n_top=3, max_length=6, confidence_level=level, random_state=seed
        )
        top = finder.fit(finder.report(rows["v"])).top_.set_index("value")
        ends = [
            top[ENDS].reindex(words),
            add_margins(decoded["count"], decoded["std_error"], level),
        ]
        yield Found(level, np.concatenate(ends), [*true, *true])


# Synthetic tables.


def measure_synthesis(rng: Any, n: int, epsilon: float, seed: int) -> Iterator[Found]:
    """Measure counts of a pair and of a condition, for the rows of the table."""
    from skdp import DPMarginalSynthesizer

    rows = pd.DataFrame({"a": rng.choice(list("uvw"), n, p=[0.02, 0.38, 0.6])})
    rates = np.where(rows["a"] == "w", 0.7, 0.2)
    rows["b"] = np.where(rng.random(n) < rates, "yes", "no")
    domain = {"a": list("uvw"), "b": ["no", "yes"]}
    pairs = pd.MultiIndex.from_product([domain["a"], domain["b"]])
    true = rows.value_counts(["a", "b"]).reindex(pairs, fill_value=0)
    model = DPMarginalSynthesizer(
        epsilon, delta=1e-6, domain=domain, random_state=seed
    ).fit(rows)
    for level in LEVELS:
        table = model.marginal(["a", "b"], confidence_level=level)
        count = model.count_estimate(
            {"a": ["u", "v"], "b": "yes"}, confidence_level=level
        )
        ends = [*table[ENDS].to_numpy(float), (count.lower, count.upper)]
        yield Found(level, ends, [*true, true["u", "yes"] + true["v", "yes"]])


def measure_inference(rng: Any, n: int, epsilon: float, seed: int) -> Iterator[Found]:
    """Measure a difference of means from a synthesizer, for the population."""
    from skdp import DPMarginalSynthesizer, synthetic_inference

    rows = pd.DataFrame({"a": rng.choice(list("uv"), n, p=[0.1, 0.9])})
    rows["b"] = rng.binomial(3, np.where(rows["a"] == "u", 0.6, 0.4))
    model = DPMarginalSynthesizer(
        epsilon,
        delta=1e-6,
        domain={"a": list("uv"), "b": [0, 1, 2, 3]},
        random_state=seed,
    ).fit(rows)
    for level in LEVELS:
        table = synthetic_inference(
            model, subtract_means, columns=["a", "b"], confidence_level=level
        )
        yield Found(level, table[ENDS], [0.6])


def subtract_means(rows: pd.DataFrame) -> dict[str, float]:
    """Return the difference of the means of two groups."""
    means = rows.groupby("a")["b"].mean()
    return {"difference": means.get("u", np.nan) - means.get("v", np.nan)}


class Release(NamedTuple):
    """Public names with intervals or standard errors, how they are measured, settings and epsilons."""

    names: tuple[str, ...]
    measure: Any
    settings: list[tuple[int, dict[str, Any]]]
    epsilons: tuple[float, ...] = (1.0,)


RELEASES = {
    "logistic": Release(
        ("DPLogisticRegression.summary",),
        measure_logistic,
        [
            (20_000, {"share": 0.01, "base": 0, "slope": 0.5}),
            (20_000, {"share": 0.015, "base": 2, "slope": -1.5}),
            (20_000, {"share": 0.02, "base": 2, "slope": -1.5}),
            (20_000, {"share": 0.03, "base": -2, "slope": 1.5}),
            (20_000, {"share": 0.1, "base": 2, "slope": -1.5}),
            (5_000, {"share": 0.05, "base": -2, "slope": 1.0}),
            (1_000, {"share": 0.05, "base": 0, "slope": 1.0}),
        ],
        (1.0, 4.0),
    ),
    "logistic, amounts": Release(
        ("DPLogisticRegression.summary",),
        measure_amounts,
        [
            *[(n, {"bound": 1e6}) for n in (1_000, 1_500, 2_000, 5_000)],
            *[(n, {"bound": 2e5}) for n in (5_000, 10_000)],
        ],
        (1.0, 2.0),
    ),
    "logistic, narrow column": Release(
        ("DPLogisticRegression.summary",),
        measure_narrow_column,
        [(n, {"bound": 30}) for n in (1_000, 1_500, 2_000, 3_000)],
        (1.0, 4.0),
    ),
    "linear": Release(
        ("DPLinearRegression.summary", "DPRidge.summary"),
        measure_linear,
        [
            (n, {"model": name, "delta": delta, "column": column, "bounds": bounds})
            for n, name, delta, column, bounds in [
                (3_000, "DPLinearRegression", 1e-6, "uniform", (0, 1)),
                (10_000, "DPLinearRegression", 0.0, "uniform", (0, 1)),
                (3_000, "DPRidge", 1e-6, "uniform", (0, 100)),
                (5_000, "DPLinearRegression", 1e-6, "lognormal", (0, 200)),
                (5_000, "DPLinearRegression", 1e-6, "lognormal", (0, 2_000)),
                (5_000, "DPLinearRegression", 1e-6, "lognormal", None),
            ]
        ],
    ),
    "additive": Release(
        ("DPAdditiveRegressor.shape_", "DPAdditiveClassifier.shape_"),
        measure_additive,
        [(2_000, {"errors": "normal"}), (2_000, {"errors": "t(3)"})],
        (0.5, 1.0),
    ),
    "groups": Release(
        ("DPGroupBy",),
        measure_groups,
        [
            (400, {"skewed": True}),
            (3_000, {"skewed": True}),
            (3_000, {"skewed": False}),
        ],
        (0.5, 2.0),
    ),
    "groups, population": Release(
        ("DPGroupBy",),
        measure_population,
        [
            (1_000, {"skewed": False}),
            (10_000, {"skewed": False}),
            (10_000, {"skewed": True}),
        ],
        (0.5, 1.0, 4.0),
    ),
    "comparison": Release(
        ("compare_groups",),
        measure_comparison,
        [(3_000, {"skewed": True})],
        (0.5, 2.0),
    ),
    "means": Release(
        ("DPMean",),
        measure_means,
        [(400, {"bound": 100}), (3_000, {"bound": 1_000}), (3_000, {"bound": None})],
        (0.5, 2.0),
    ),
    "found limits": Release(
        ("DPMean",),
        measure_found_limits,
        [
            (n, {"shape": shape})
            for n in (1_000, 4_000)
            for shape in (
                *("heap at 0", "heap at 52", "heap at 365"),
                *("Pareto 2.5", "zeros and lognormal"),
            )
        ],
    ),
    "histogram": Release(("DPHistogram",), measure_histogram, [(300, {})], (0.5, 2.0)),
    **{
        f"noise, {name}": Release(
            tuple(f"{name}.{attribute}" for attribute in attributes),
            partial(measure_noise, name),
            [(400, {}), (5_000, {})],
            (0.5, 2.0),
        )
        for name, attributes in {
            "DPStandardScaler": ("mean_std_error_", "scale_std_error_"),
            "DPSimpleImputer": ("statistics_std_error_",),
            "DPGaussianNB": ("class_count_std_error_",),
        }.items()
    },
    "target mean": Release(
        ("DPTargetEncoder.target_mean_std_error_",), measure_target_mean, [(1_000, {})]
    ),
    "components": Release(
        ("DPPCA.explained_variance_std_error_",), measure_components, [(5_000, {})]
    ),
    "persons": Release(
        (
            "DPLinkedSynthesizer.n_persons_std_error_",
            "DPMarginalSynthesizer.n_rows_std_error_",
        ),
        measure_persons,
        [(500, {})],
    ),
    "words": Release(
        ("HeavyHitters", "RapporEncoder.decode"), measure_words, [(5_000, {})], (4.0,)
    ),
    "months": Release(
        ("filter_months",),
        measure_months,
        [(1_000, {"drift": 0}), (1_000, {"drift": 15}), (1_000, {"drift": 60})],
        (0.1, 0.5),
    ),
    "scores": Release(
        ("scores_from_counts",),
        measure_scores,
        [(1_500, {"share": 0.1}), (3_000, {"share": 0.02})],
        (0.5, 1.0),
    ),
    "survival": Release(
        ("survival_from_counts",),
        measure_survival,
        [(500, {"visits": False}), (500, {"visits": True})],
        (0.3, 1.0),
    ),
    "regression from counts": Release(
        ("regression_from_counts",),
        measure_regression,
        [
            *[
                (n, {"model": "logistic", "share": share, "base": base})
                for n, share, base in [
                    (300, 0.3, 0),
                    (1_000, 0.05, 0),
                    (1_000, 0.3, -3),
                    (10_000, 0.02, 2),
                ]
            ],
            *[
                (1_000, {"model": "logistic", "share": 0.3, "base": 0, "kind": kind})
                for kind in ("gaussian", "weights", "persons")
            ],
            (1_000, {"model": "poisson", "share": 0.1, "base": -0.5}),
            (1_000, {"model": "linear", "share": 0.1, "base": 1}),
        ],
        (0.3, 1.0, 3.0),
    ),
    "rates from counts": Release(
        ("standardize_from_counts",),
        measure_standardized,
        [
            (n, {"method": method, "share": share, "base": base})
            for method in ("strata", "mantel_haenszel", "model")
            for n, share, base in [(500, 0.3, -1), (3_000, 0.05, -1), (3_000, 0.3, -4)]
        ],
        (0.3, 1.0, 3.0),
    ),
    "curves from counts": Release(
        ("compare_survival_from_counts",),
        measure_curves,
        [(500, {"effect": 0.0}), (3_000, {"effect": 0.0}), (3_000, {"effect": 0.5})],
        (0.3, 1.0, 3.0),
    ),
    "ranks from counts": Release(
        ("rank_from_counts",),
        measure_ranks,
        [
            (n, {"n_groups": n_groups, "base": base})
            for n, n_groups, base in [(500, 4, 0.3), (5_000, 10, 0.02)]
        ],
        (0.3, 1.0, 3.0),
    ),
    "quantiles from counts": Release(
        ("quantiles_from_counts",),
        measure_quantiles,
        [(300, {"share": 0.3}), (3_000, {"share": 0.03})],
        (0.3, 1.0, 3.0),
    ),
    "hazards from counts": Release(
        ("hazards_from_counts",),
        measure_hazards,
        [
            (300, {"share": 0.3, "hazard": 2}),
            (1_000, {"share": 0.05, "hazard": 1}),
            (3_000, {"share": 0.3, "hazard": 0.1}),
            (10_000, {"share": 0.02, "hazard": 0.5}),
        ],
        (0.3, 1.0, 3.0),
    ),
    "fairness": Release(
        ("fairness_report",),
        partial(measure_fairness, "rows"),
        [(400, {"share": 0.1})],
    ),
    "fairness, counts": Release(
        ("fairness_from_counts",),
        partial(measure_fairness, "counts"),
        [(400, {"share": 0.1}), (3_000, {"share": 0.03})],
    ),
    "fairness, reports": Release(
        ("debiased_fairness",),
        partial(measure_fairness, "reports"),
        [(1_000, {"share": 0.3}), (3_000, {"share": 0.1})],
        (1.0, 3.0),
    ),
    "metric of a user": Release(
        ("fairness_report",),
        partial(measure_fairness, "rows", metric="f1"),
        [(100, {"share": 0.3}), (3_000, {"share": 0.1})],
    ),
    "metric of a user, counts": Release(
        ("fairness_from_counts",),
        partial(measure_fairness, "counts", metric="f1"),
        [(400, {"share": 0.1}), (3_000, {"share": 0.1})],
        (0.5, 4.0),
    ),
    "metric of a user, reports": Release(
        ("debiased_fairness",),
        partial(measure_fairness, "reports", metric="f1"),
        [(1_000, {"share": 0.3}), (3_000, {"share": 0.3})],
        (0.5, 4.0),
    ),
    **{
        f"reports, {name}": Release(
            (f"{name}.estimate_counts",),
            partial(measure_reports, name),
            [(300, {}), (5_000, {})],
            (1.0, 3.0),
        )
        for name in [
            "RandomizedResponseEncoder",
            "UnaryEncodingTransformer",
            "LocalHashingEncoder",
            "SubsetSelectionEncoder",
            "LocalTableEncoder",
        ]
    },
    "frequencies": Release(
        (
            "RandomizedResponseEncoder.estimate_frequencies",
            "RandomizedResponseEncoder.estimate_joint_counts",
        ),
        partial(measure_frequencies, "RandomizedResponseEncoder"),
        [(500, {})],
    ),
    "reported means": Release(
        ("NumericPerturber.estimate_mean",),
        partial(measure_reported_means, "NumericPerturber"),
        [(300, {}), (3_000, {})],
        (1.0, 4.0),
    ),
    "survey": Release(
        ("ReportLogisticRegression.summary",),
        measure_survey,
        [(3_000, {"share": 0.03, "base": 0}), (3_000, {"share": 0.05, "base": 2})],
    ),
    "design": Release(
        ("ReportDesign.estimate_frequencies", "survey_mean"),
        measure_design,
        [(300, {})],
    ),
    "synthesis": Release(
        ("DPMarginalSynthesizer.marginal", "DPMarginalSynthesizer.count_estimate"),
        measure_synthesis,
        [(1_000, {}), (5_000, {})],
        (0.3, 1.0),
    ),
    "synthetic inference": Release(
        ("synthetic_inference",), measure_inference, [(3_000, {})]
    ),
}
TASKS = {
    name: Task(
        partial(list_settings, release.settings),
        {release.names[0]: partial(repeat, release.measure)},
        score_intervals,
        release.epsilons,
        4,
    )
    for name, release in RELEASES.items()
}
