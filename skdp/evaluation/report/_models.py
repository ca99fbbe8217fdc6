"""The classifiers of the report: their scores by epsilon, and an audit of fairness from reports."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit, cross_val_predict, cross_validate
from threadpoolctl import threadpool_limits

from skdp.evaluation.curves import privacy_curve
from skdp.evaluation.report._study import PARAM_NAME, Study
from skdp.metrics import debiased_fairness, fairness_report

NOT_PRIVATE, LEFT_OUT = "not private", "left out"
TRUE_GROUPS, NAIVE, DEBIASED = "true groups", "reports taken for groups", "debiased reports"
QUALITY = ("accuracy", "AUC")
_RATES = ("selection rate", "true positive rate", "false positive rate")
_FAIRNESS = (
    "statistical parity difference",
    "disparate impact",
    "equal opportunity difference",
    "average odds difference",
    "Theil index",
)
_COLUMNS = ["classifier", "setting", "metric", "repeat", "value"]
_FEW_ROWS = 10_000
_COINS = 1  # the seed of this part of the study


def score(model: Any, X: pd.DataFrame, y: Any, *, sensitive: Any = None, privileged: Any = None) -> dict[str, float]:
    """Score a fitted model, by the true groups."""
    predicted, shares = model.predict(X), model.predict_proba(X)
    positive = shares[:, list(model.classes_).index(True)]
    scores = {"accuracy": float(accuracy_score(y, predicted)), "AUC": float(roc_auc_score(y, positive))}
    if sensitive is None:
        return scores
    if X[sensitive].isin(privileged).nunique() < 2:
        return scores | dict.fromkeys(_FAIRNESS, np.nan)
    report = _quietly(fairness_report, y, predicted, X[sensitive], privileged=privileged, positive_label=True)
    return scores | dict(zip(report["metric"], report["value"], strict=True))


def model_scores(
    study: Study, classifiers: Mapping[str, BaseEstimator], repeats: int, advance: Callable[[], Any]
) -> pd.DataFrame:
    """Score classifiers that use the protected columns privatised, unprotected, and not at all."""
    scoring = partial(score, sensitive=study.sensitive, privileged=study.privileged)
    splits = StratifiedShuffleSplit(repeats, test_size=0.25, random_state=0)
    options: dict[str, Any] = {"scoring": scoring, "cv": splits, "n_jobs": study.n_jobs}
    parts = []
    # With few rows, threads wait for each other longer than they work.
    with threadpool_limits(1 if len(study.frame) < _FEW_ROWS else None, user_api="openmp"):
        for place, (name, classifier) in enumerate(classifiers.items()):
            model = study.model(classifier, protected="reported")
            options |= {"param_name": PARAM_NAME, "random_state": study.seed(_COINS, place), "baseline": "auto"}
            for epsilon in study.epsilons:  # one by one, for the progress bar; the baseline only once
                curve = privacy_curve(model, study.features, study.y, epsilons=[epsilon], **options)
                parts.append(_named(curve, name))
                options["baseline"] = None
                advance()
            parts.append(_left_out(study, name, classifier, scoring, splits))
            advance()
    return pd.concat(parts, ignore_index=True)


def _named(curve: pd.DataFrame, classifier: str) -> pd.DataFrame:
    """Name the settings of a curve."""
    setting = curve["epsilon"].astype(object).where(np.isfinite(curve["epsilon"]), NOT_PRIVATE)
    return curve.assign(classifier=classifier, setting=setting, repeat=curve["fold"])[_COLUMNS]


def _left_out(study: Study, name: str, classifier: BaseEstimator, scoring: Any, splits: Any) -> pd.DataFrame:
    """Score the same classifier without the protected columns."""
    X = study.features
    model = study.model(classifier, protected="left out")
    folds = cross_validate(model, X, study.y, cv=splits, scoring=scoring, n_jobs=study.n_jobs, error_score="raise")
    rows = [
        (name, LEFT_OUT, metric.removeprefix("test_"), repeat, value)
        for metric, values in folds.items()
        if metric.startswith("test_")
        for repeat, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=_COLUMNS)


def fairness_audits(study: Study) -> dict[float, dict[str, pd.DataFrame]]:
    """Audit one classifier whose groups are known from reports only."""
    # The classifier does not use the protected columns: its predictions must be independent of the noise of the
    # reports, or the estimates would be biased.
    folds = StratifiedKFold(5 if study.y.value_counts().min() >= 5 else 2, shuffle=True, random_state=0)
    model = study.model(protected="left out")
    predicted = cross_val_predict(model, study.features, study.y, cv=folds, n_jobs=study.n_jobs)
    true = _rates_and_differences(study, predicted, study.frame[study.sensitive])
    audits = {}
    for epsilon in study.epsilons:
        encoder = study.encoder(epsilon, _COINS, 100)
        reports = encoder.transform(study.frame[study.columns])
        debiased = _quietly(
            debiased_fairness,
            study.y,
            predicted,
            reports,
            encoder,
            privileged=study.privileged,
            positive_label=True,
            columns=[study.sensitive],
            rows="fixed",
        )
        naive = _rates_and_differences(study, predicted, reports[study.sensitive])
        audits[epsilon] = {TRUE_GROUPS: true, NAIVE: naive, DEBIASED: debiased}
    return audits


def _rates_and_differences(study: Study, predicted: NDArray[np.bool_], values: pd.Series) -> pd.DataFrame:
    """Report the rates of the two groups, and the differences."""
    groups = np.where(values.isin(study.privileged), "privileged", "unprivileged")
    given = {"privileged": "privileged", "positive_label": True}
    rates = _quietly(fairness_report, study.y, predicted, groups, by_group=True, **given)
    differences = _quietly(fairness_report, study.y, predicted, groups, **given)
    rates = rates[rates["metric"].isin(_RATES)].sort_values("group", ascending=False, kind="stable")
    return pd.concat([rates, differences.assign(group=None)], ignore_index=True)


def _quietly(function: Callable[..., pd.DataFrame], *values: Any, **options: Any) -> pd.DataFrame:
    """Call without warnings of undefined metrics, which the page states."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        return function(*values, **options)
