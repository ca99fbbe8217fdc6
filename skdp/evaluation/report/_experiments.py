"""The experiments of the report: classifiers and their fairness, attacks on reports, and synthetic rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import (
    StratifiedKFold,
    StratifiedShuffleSplit,
    cross_val_predict,
    cross_validate,
    train_test_split,
)

from skdp.evaluation._attacks import (
    AttackResult,
    attribute_inference,
    bayes_accuracy,
)
from skdp.evaluation._privacy_curve import privacy_curve
from skdp.evaluation.report._study import LOGISTIC, PARAM_NAME, Study
from skdp.local import RandomizedResponseEncoder
from skdp.metrics import (
    debiased_fairness,
    fairness_report,
    marginal_error,
    train_on_synthetic,
)
from skdp.synthesis import DPMarginalSynthesizer

TRUE_GROUPS, NAIVE, DEBIASED = (
    "true groups",
    "reports taken for groups",
    "debiased reports",
)
CLASSIFIERS = {
    "logistic regression": LOGISTIC,
    # Early stopping fails where a class has few rows.
    "gradient boosting": HistGradientBoostingClassifier(
        learning_rate=0.2, max_iter=40, early_stopping=False, random_state=0
    ),
}
FAIRNESS = (
    "statistical parity difference",
    "disparate impact",
    "equal opportunity difference",
    "average odds difference",
)
_TEST_SHARE = 0.25
_MODELS, _ATTACKS, _SYNTHESIS = 1, 2, 3  # the seeds of the parts of the study


def score(
    model: Any,
    X: pd.DataFrame,
    y: Any,
    *,
    sensitive: Any = None,
    privileged: Any = None,
) -> dict[str, float]:
    """Return the accuracy, the AUC and, with groups, the metrics of fairness of a model."""
    predicted, chances = model.predict(X), model.predict_proba(X)
    positive = chances[:, list(model.classes_).index(True)]
    scores = {
        "accuracy": float(accuracy_score(y, predicted)),
        "AUC": float(roc_auc_score(y, positive)),
    }
    if sensitive is None:
        return scores
    # A small split may have rows of one group only.
    if X[sensitive].isin(privileged).nunique() < 2:
        return scores | dict.fromkeys(FAIRNESS, np.nan)
    options: dict[str, Any] = {"privileged": privileged, "positive_label": True}
    report = _quietly(fairness_report, y, predicted, X[sensitive], **options)
    values = report.set_index("metric")["value"]
    return scores | dict(zip(FAIRNESS, values[list(FAIRNESS)], strict=True))


def model_curves(study: Study, n_repeats: int) -> dict[str, pd.DataFrame]:
    """Score classifiers with the protected columns reported, as they are, and excluded."""
    scoring = partial(score, sensitive=study.sensitive, privileged=study.privileged)
    splits = StratifiedShuffleSplit(n_repeats, test_size=_TEST_SHARE, random_state=0)
    curves = {}
    for place, (name, classifier) in enumerate(CLASSIFIERS.items()):
        options: dict[str, Any] = {"param_name": PARAM_NAME, "scoring": scoring}
        options |= {"epsilons": study.epsilons, "cv": splits, "n_jobs": study.n_jobs}
        curves[name] = privacy_curve(
            study.model(classifier, protected="reported"),
            study.features,
            study.y,
            random_state=study.seed(_MODELS, place),
            **options,
        )
        scores = cross_validate(
            study.model(classifier, protected="excluded"),
            study.features,
            study.y,
            scoring=scoring,
            cv=splits,
            n_jobs=study.n_jobs,
            error_score="raise",
        )
        table = pd.DataFrame(scores).filter(like="test_")
        table.columns = table.columns.str.removeprefix("test_")
        curves[f"{name}, columns excluded"] = table.mean().to_frame("value")
    return curves


def fairness_audits(study: Study) -> dict[float, dict[str, pd.DataFrame]]:
    """Audit one classifier whose groups are known from reports only."""
    # The classifier does not use the protected columns: its predictions must be
    # independent of the noise of the reports, or the estimates would be biased.
    n_folds = 5 if study.y.value_counts().min() >= 5 else 2
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    model = study.model(protected="excluded")
    predicted = cross_val_predict(
        model, study.features, study.y, cv=folds, n_jobs=study.n_jobs
    )
    labels: dict[str, Any] = {"privileged": study.privileged, "positive_label": True}
    true_groups = study.frame[study.sensitive]
    # At each epsilon, the same predictions are audited in three ways.
    true = _quietly(fairness_report, study.y, predicted, true_groups, **labels)
    audits = {}
    for epsilon in study.epsilons:
        encoder = study.encoder(epsilon, _MODELS, 100)
        reports = encoder.transform(study.frame[study.columns])
        groups = reports[study.sensitive]
        naive = _quietly(fairness_report, study.y, predicted, groups, **labels)
        debiased = _quietly(
            debiased_fairness,
            study.y,
            predicted,
            reports,
            encoder,
            columns=[study.sensitive],
            rows="table",
            **labels,
        )
        audits[epsilon] = {TRUE_GROUPS: true, NAIVE: naive, DEBIASED: debiased}
    return audits


def _quietly(
    function: Callable[..., pd.DataFrame], *values: Any, **options: Any
) -> pd.DataFrame:
    """Name metrics for people, without warnings of undefined ones, which the page states."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        report = function(*values, **options)
    return report.assign(metric=report["metric"].str.replace("_", " "))


def attacked_column(study: Study) -> Any:
    """Choose the protected column to attack: the sensitive one, otherwise the first with several values."""
    if study.sensitive is not None:
        return study.sensitive
    # A column of one value is guessed right without an attack.
    for name in study.columns:
        if study.frame[name].nunique(dropna=False) > 1:
            return name
    return None


def attacked_rows(study: Study) -> pd.DataFrame:
    """Draw the rows to attack."""
    # One tree per value: fewer rows if there are many values.
    n_values = study.domain.select([attacked_column(study)]).size
    most = max(1_000, min(4_000, 20 * 4_000 // n_values))
    return study.frame.sample(min(len(study.frame), most), random_state=0)


def attack_releases(study: Study) -> dict[float, AttackResult]:
    """Guess a protected column from the release: the reports, and all other columns unprotected."""
    rows = attacked_rows(study)
    calls = [delayed(_attack)(study, rows, epsilon) for epsilon in study.epsilons]
    results = Parallel(n_jobs=study.n_jobs)(calls)
    return dict(zip(study.epsilons, results, strict=True))


def _attack(study: Study, rows: pd.DataFrame, epsilon: float) -> AttackResult:
    """Attack the release at an epsilon."""
    column = attacked_column(study)
    encoder = study.encoder(epsilon, _ATTACKS)
    reports = encoder.transform(rows[study.columns])
    released = rows[[*study.columns, *study.others]].copy()
    # What is published of each record: its reports, and all other columns as they are.
    for name in study.columns:
        released[name] = reports[name]
    if study.target is not None:
        released[study.target] = rows[study.target]
    result = attribute_inference(
        released,
        rows[[column]],
        encoder=encoder,
        cv=3,
        # The same folds at each epsilon, so that only the reports differ.
        random_state=0,
    )
    # The columns are reported together, so the bound is that of the joint report.
    exact = _best_guess(encoder, rows[study.columns], column)
    if exact is None:
        return result
    return replace(result, bayes_bound=exact)


def _best_guess(
    encoder: RandomizedResponseEncoder, rows: pd.DataFrame, attacked: Any
) -> float | None:
    """Return the share of correct best guesses of a column from the joint report of all protected ones."""
    domain = encoder.domain_
    cells = domain.join(domain.encode([rows[name] for name in domain.columns]))
    prior = np.bincount(cells.astype(np.intp), minlength=domain.size) / len(rows)
    # Cells with the same value of the attacked column are one guess.
    axis = list(domain.columns).index(attacked)
    groups = np.unravel_index(np.arange(domain.size), domain.sizes)[axis]
    return bayes_accuracy(encoder.oracles_[0], prior, groups=groups)


def synthesize(
    study: Study, delta: float
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the errors of synthetic rows by epsilon, the real rows and an example."""
    # A model that is trained on synthetic rows is tested on rows that were not
    # synthesized.
    real, test = study.frame[list(study.domain.columns)], None
    if study.target is not None:
        real, test = train_test_split(
            real, test_size=_TEST_SHARE, random_state=0, stratify=study.y
        )
    calls = [delayed(_synthesize_at)(study, e, delta, real) for e in study.epsilons]
    tables = dict(
        zip(study.epsilons, Parallel(n_jobs=study.n_jobs)(calls), strict=True)
    )
    rows = []
    for epsilon, synthetic in tables.items():
        row = {"epsilon": epsilon}
        for order in range(1, min(2, len(real.columns)) + 1):
            row[f"error of {order}-way marginals"] = marginal_error(
                real, synthetic, order=order, domain=study.domain
            )
        if test is not None and len(real.columns) > 1:
            row |= _train(study, real, synthetic, test)
        rows.append(row)
    return pd.DataFrame(rows), real, tables[study.example]


def _synthesize_at(
    study: Study, epsilon: float, delta: float, real: pd.DataFrame
) -> pd.DataFrame:
    """Return as many synthetic rows as there are real ones."""
    seed = study.seed(_SYNTHESIS, study.epsilons.index(epsilon))
    synthesizer = DPMarginalSynthesizer(
        epsilon, delta=delta, domain=study.domain, random_state=seed
    )
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return synthesizer.fit(real).sample(len(real))


def _train(
    study: Study, real: pd.DataFrame, synthetic: pd.DataFrame, test: pd.DataFrame
) -> dict[str, float]:
    """Return the accuracy and the AUC of models that were trained on synthetic and on real rows."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        scores = train_on_synthetic(
            study.model(protected="as they are"),
            synthetic=study.coded(synthetic),
            real_test=study.coded(test),
            real_train=study.coded(real),
            target=study.target,
            scoring=score,
        )
    row = {}
    for name, values in scores.iterrows():
        for metric, value in values.items():
            row[f"{metric}, trained on {name} rows"] = value
    return row
