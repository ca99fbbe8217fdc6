"""What `privacy_curve` adds to the fits and predictions that it makes, on Adult with logistic regression.

Run ``python benchmarks/privacy_curve.py`` wherever skdp is installed: six epsilons, five folds, five repeats. The
rivals are loops over the same splits, in as many processes:

- *the same pipelines*: clone, set_params, fit, and one predict_proba of the test rows. It is what a user would write by
  hand, without the scores;
- *the classifier alone*: clone, fit and one predict_proba, on matrices that were privatised and encoded before, outside
  of the time that is taken.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a process a core, for all

import pandas as pd
from _timing import verdict, write_results
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdp import Domain, RandomizedResponseEncoder, UnaryEncodingTransformer
from skdp.datasets import load_adult
from skdp.evaluation import privacy_curve

PRIVATE = ["sex", "race", "native-country"]
EPSILONS = [0.1, 0.5, 1.0, 2.0, 4.0, 8.0]
ENCODER = "columns__private__encoder"
FOLDS, MOST = 5, 1.15


def dense() -> OneHotEncoder:
    return OneHotEncoder(handle_unknown="ignore", sparse_output=False)


def whole(X: pd.DataFrame) -> Pipeline:
    """Return a model that encodes all columns itself."""
    public = X.drop(columns=PRIVATE)
    texts = make_column_selector(dtype_exclude="number")(public)
    numbers = make_column_selector(dtype_include="number")(public)
    private = Pipeline(
        [
            ("encoder", RandomizedResponseEncoder(categories=declared())),
            ("one_hot", dense()),
        ]
    )
    columns = [
        ("private", private, PRIVATE),
        ("numbers", StandardScaler(), numbers),
        ("texts", dense(), texts),
    ]
    return Pipeline(
        [
            ("columns", ColumnTransformer(columns)),
            ("classifier", LogisticRegression(max_iter=1000)),
        ]
    )


def lean(X: pd.DataFrame) -> Pipeline:
    """Return a model of a table whose public columns are encoded: it privatises three columns, as bits."""
    private = Pipeline([("encoder", UnaryEncodingTransformer(categories=declared()))])
    columns = ColumnTransformer(
        [("private", private, PRIVATE)], remainder="passthrough"
    )
    return Pipeline(
        [("columns", columns), ("classifier", LogisticRegression(max_iter=1000))]
    )


def declared() -> Domain:
    return load_adult(dropna=True).domain.select(PRIVATE)


def encoded(X: pd.DataFrame) -> pd.DataFrame:
    """Encode the public columns of a table, once for all."""
    public = (
        whole(X)
        .set_params(columns__private="drop")[0]
        .set_output(transform="pandas")
        .fit_transform(X)
    )
    return X[PRIVATE].join(public)


def bare(
    model: Any, train: Any, y_train: Any, test: Any, epsilon: float | None = None
) -> None:
    fitted = clone(model)
    if epsilon is not None:
        fitted.set_params(**{f"{ENCODER}__epsilon": epsilon})
    fitted.fit(train, y_train).predict_proba(test)


def folds(y: pd.Series, repeat: int) -> list[Any]:
    return list(StratifiedKFold(FOLDS, shuffle=True, random_state=repeat).split(y, y))


def loop_of_pipelines(
    model: Pipeline, X: pd.DataFrame, y: pd.Series, epsilons: list[float], repeat: int
) -> float:
    tasks = [(epsilon, *fold) for epsilon in epsilons for fold in folds(y, repeat)]

    def one(epsilon: float, train: Any, test: Any) -> None:
        bare(model, X.iloc[train], y.iloc[train], X.iloc[test], epsilon)

    return seconds(lambda: Parallel(n_jobs=2)(delayed(one)(*task) for task in tasks))


def loop_of_classifiers(
    model: Pipeline, X: pd.DataFrame, y: pd.Series, epsilons: list[float], repeat: int
) -> float:
    made = []  # for one epsilon: a fit takes as long at another
    for train, test in folds(y, repeat):
        columns = clone(model[:-1]).set_params(
            **{f"{ENCODER}__epsilon": epsilons[len(epsilons) // 2]}
        )
        made.append(
            (
                columns.fit_transform(X.iloc[train]),
                y.iloc[train],
                columns.transform(X.iloc[test]),
            )
        )
    return seconds(
        lambda: Parallel(n_jobs=2)(
            delayed(bare)(model[-1], *data) for data in made * len(epsilons)
        )
    )


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(
    name: str,
    model: Pipeline,
    X: pd.DataFrame,
    y: pd.Series,
    epsilons: list[float],
    repeats: int,
) -> list[list[str]]:
    curve = partial(
        privacy_curve,
        param_name=f"{ENCODER}__epsilon",
        scoring=["accuracy", "roc_auc"],
        baseline=None,
    )
    # What is imported on first use is not what is measured.
    bare(model, X[:1000], y[:1000], X[:1000])
    Parallel(n_jobs=2)(
        delayed(bare)(model, X[:1000], y[:1000], X[:1000]) for _ in range(4)
    )
    loops = {
        "the same pipelines": sum(
            loop_of_pipelines(model, X, y, epsilons, repeat)
            for repeat in range(repeats)
        ),
        "the classifier alone": sum(
            loop_of_classifiers(model, X, y, epsilons, repeat)
            for repeat in range(repeats)
        ),
    }
    own = seconds(
        lambda: curve(model, X, y, epsilons=epsilons, n_repeats=repeats, n_jobs=2)
    )
    fits = str(len(epsilons) * FOLDS * repeats)
    return [
        [
            name,
            fits,
            rival,
            f"{bare:.1f} s",
            f"{own:.1f} s",
            f"{own / bare:.2f}",
            f"≤ {MOST}",
            verdict(own / bare <= MOST),
        ]
        for rival, bare in loops.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--epsilons", type=int, default=len(EPSILONS), help="how many of the six"
    )
    parser.add_argument("--repeats", type=int, default=5)
    sizes = parser.parse_args()
    epsilons = EPSILONS[: sizes.epsilons]
    X, y = load_adult(subset="all", dropna=True, return_X_y=True)
    X, target = X.drop(columns=["fnlwgt", "education"]), (y == ">50K").astype(int)
    rows = compare(
        "randomised response, all encoded in the pipeline",
        whole(X),
        X,
        y,
        epsilons,
        sizes.repeats,
    )
    table = encoded(X)
    rows += compare(
        "unary encoding, public columns encoded before",
        lean(X),
        table,
        target,
        epsilons,
        sizes.repeats,
    )
    columns = (
        "estimator",
        "fits",
        "bare loop of",
        "bare loop",
        "privacy_curve",
        "ratio",
        "target",
        "met?",
    )
    write_results(
        "privacy_curve",
        "Scores against epsilon",
        ("skdp", "numpy", "scikit-learn", "pandas", "joblib"),
        f"Adult, {len(X):,} rows; {', '.join(PRIVATE)} are privatised; logistic regression; {FOLDS} folds, "
        f"{len(epsilons)} epsilons, {sizes.repeats} repeats, accuracy and AUC; two processes of one thread each. "
        "*The same pipelines*: clone, set_params, fit and one predict_proba of the test rows, which is what "
        "privacy_curve is held against; it computes no score. *The classifier alone*: clone, fit and one predict_proba "
        "on matrices that are ready, so that privatising, encoding, scoring and what processes are sent are in the "
        "time of privacy_curve alone: it shows what a classifier costs, and is no loop that could make the table.",
        {"Against bare loops": (columns, rows)},
    )


if __name__ == "__main__":
    main()
