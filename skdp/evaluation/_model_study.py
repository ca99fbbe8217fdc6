"""What privatised columns cost a classifier in accuracy and in fairness."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdp.domain import Domain
from skdp.local import RandomizedResponseEncoder
from skdp.metrics import fairness_report

NOT_PRIVATE, LEFT_OUT = "not private", "left out"


def model_study(
    X: pd.DataFrame,
    y: pd.Series,
    domain: Domain,
    *,
    classifiers: Mapping[str, BaseEstimator],
    sensitive_feature: str,
    privileged: Any,
    positive_label: Any,
    epsilons: Sequence[float] = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0),
    repeats: int = 5,
    test_size: float = 0.25,
    random_state: int | None = None,
    n_jobs: int | None = None,
    advance: Callable[[], Any] = lambda: None,
) -> pd.DataFrame:
    """Train and test classifiers on privatised columns, and score them with the true sensitive feature.

    In each repeat the rows are split once; every classifier is then trained and tested with the columns of the domain
    randomised jointly at each epsilon (training and test rows alike: the server never sees a true value), with the true
    columns, and without them. All other columns are used as they are.

    Parameters
    ----------
    X : pandas.DataFrame of shape (n_samples, n_features)
        The features, the columns of the domain among them.
    y : pandas.Series of shape (n_samples,)
        The labels.
    domain : Domain
        The declared values of the columns to protect.
    classifiers : mapping of name to classifier
        Scikit-learn classifiers with ``predict_proba``; each is cloned.
    sensitive_feature : str
        The column of X whose groups are compared. Its true values are used for scoring only.
    privileged : value or list of values
        Its privileged values.
    positive_label : label
        The favourable label.
    epsilons : sequence of float, default=(0.1, 0.3, 0.5, 1.0, 2.0, 5.0)
        The privacy losses to try.
    repeats : int, default=5
        Splits of the rows, at least 1.
    test_size : float, default=0.25
        Share of the rows to test on.
    random_state : int, optional
        None for secure coins; an int makes the coins reproducible. The splits are the same either way.
    n_jobs : int, optional
        Number of processes, as in scikit-learn.
    advance : callable, optional
        Called after each fit, for a progress bar.

    Returns
    -------
    pandas.DataFrame
        A row for each repeat, classifier, setting ("not private", "left out" or an epsilon) and metric:
        ``repeat, classifier, setting, metric, value``. The metrics are accuracy, AUC and those of `fairness_report`.

    Raises
    ------
    ValueError
        If X holds undeclared values in a column of the domain.

    Notes
    -----
    **Privacy.** Scores are computed from true labels and groups: none of the result is protected.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdp import Domain
    >>> from skdp.datasets import load_adult
    >>> X, y = load_adult(dropna=True, return_X_y=True)
    >>> X = X[["sex", "education-num", "hours-per-week"]]
    >>> scores = model_study(X, y, Domain({"sex": ["Female", "Male"]}), epsilons=[1.0], repeats=1, random_state=0,
    ...                      classifiers={"logistic regression": LogisticRegression()}, sensitive_feature="sex",
    ...                      privileged="Male", positive_label=">50K")
    >>> scores.query("metric == 'accuracy'")["setting"].tolist()
    ['not private', 'left out', 1.0]
    """
    steps: dict[Any, Any] = {NOT_PRIVATE: "passthrough", LEFT_OUT: None}
    for epsilon in epsilons:
        steps[epsilon] = RandomizedResponseEncoder(epsilon, strategy="joint", categories=domain)

    def run(seed: int, repeat: int, setting: Any, name: str) -> list[tuple[Any, ...]]:  # numpydoc ignore=GL08
        split = train_test_split(X, y, test_size=test_size, random_state=repeat, stratify=y)
        X_train, X_test, y_train, y_test = split
        model = _pipeline(steps[setting], list(domain.columns), classifiers[name])
        if random_state is not None and isinstance(steps[setting], RandomizedResponseEncoder):
            # Another seed for each fit, or all repeats would use the same coins.
            model.set_params(columns__private__encoder__random_state=random_state + seed)
        model.fit(X_train, y_train)
        scores = _score(model, X_test, y_test, X_test[sensitive_feature], privileged, positive_label)
        return [(repeat, name, setting, metric, value) for metric, value in scores.items()]

    tasks = list(product(range(repeats), steps, classifiers))
    rows = []
    # A process a fit: libraries with threads of their own do not get into each other's way.
    for scores in Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(run)(seed, *task) for seed, task in enumerate(tasks)
    ):
        rows.extend(scores)
        advance()
    return pd.DataFrame(rows, columns=["repeat", "classifier", "setting", "metric", "value"])


def _pipeline(step: Any, private: list[str], classifier: BaseEstimator) -> Pipeline:
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    parts: list[Any] = [
        ("numbers", StandardScaler(), _Others(private, dtype_include="number")),
        ("categories", one_hot, _Others(private, dtype_exclude="number")),
    ]
    if step is not None:
        parts.insert(0, ("private", Pipeline([("encoder", step), ("one_hot", clone(one_hot))]), private))
    columns = ColumnTransformer(parts, remainder="drop")
    return Pipeline([("columns", columns), ("classifier", clone(classifier))])


class _Others:
    """Select columns by dtype, as `make_column_selector` does, but never a private one."""

    def __init__(self, private: list[str], **dtypes: str) -> None:
        self._private = private
        self._select = make_column_selector(**dtypes)

    def __call__(self, frame: pd.DataFrame) -> list[str]:
        return [name for name in self._select(frame) if name not in self._private]


def _score(
    model: Pipeline, X: pd.DataFrame, y: pd.Series, groups: pd.Series, privileged: Any, positive_label: Any
) -> dict[str, float]:
    # One call only: predict and predict_proba would each randomise the rows anew.
    shares = model.predict_proba(X)
    predicted = model.classes_[shares.argmax(axis=1)]
    positive = shares[:, list(model.classes_).index(positive_label)]
    report = fairness_report(y, predicted, groups, privileged=privileged, positive_label=positive_label)
    return {
        "accuracy": float(accuracy_score(y, predicted)),
        "AUC": float(roc_auc_score(y == positive_label, positive)),
        **dict(zip(report["metric"], report["value"], strict=True)),
    }
