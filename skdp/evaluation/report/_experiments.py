"""The experiments of the report: classifiers and their fairness, attacks on reports, and synthetic rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
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
from skdp.evaluation._privacy_curve import compare_to_baseline, privacy_curve
from skdp.evaluation.report._study import PARAM_NAME, Study
from skdp.local import RandomizedResponseEncoder
from skdp.metrics import (
    LABELS,
    debiased_fairness,
    fairness_report,
    marginal_error,
    train_on_synthetic,
)
from skdp.synthesis import DPMarginalSynthesizer

# The epsilon of models without noise, and of those without the protected columns: what
# is reported says nothing at 0.
NOT_PRIVATE, LEFT_OUT = math.inf, 0.0
FROM_LEFT_OUT = "_from_left_out"
TRUE_GROUPS, NAIVE, DEBIASED = (
    "true groups",
    "reports taken for groups",
    "debiased reports",
)
QUALITY = ("accuracy", "AUC")
_FAIRNESS = (
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
    predicted, shares = model.predict(X), model.predict_proba(X)
    positive = shares[:, list(model.classes_).index(True)]
    scores = {
        "accuracy": float(accuracy_score(y, predicted)),
        "AUC": float(roc_auc_score(y, positive)),
    }
    if sensitive is None:
        return scores
    # A small split may have rows of one group only.
    if X[sensitive].isin(privileged).nunique() < 2:
        return scores | dict.fromkeys(_FAIRNESS, np.nan)
    report = _quietly(
        fairness_report,
        y,
        predicted,
        X[sensitive],
        privileged=privileged,
        positive_label=True,
    )
    values = report.set_index("metric")["value"]
    return scores | dict(zip(_FAIRNESS, values[list(_FAIRNESS)], strict=True))


def model_scores(
    study: Study, classifiers: Mapping[str, BaseEstimator], repeats: int
) -> pd.DataFrame:
    """Score classifiers that use the protected columns privatised, unprotected, and not at all."""
    # The result of `privacy_curve` with the name of the classifier. Each split is a
    # repeat, of which the spread is shown.
    # True groups are used for scoring, also of models that see reports.
    scoring = partial(score, sensitive=study.sensitive, privileged=study.privileged)
    splits = StratifiedShuffleSplit(repeats, test_size=_TEST_SHARE, random_state=0)
    options: dict[str, Any] = {"scoring": scoring, "cv": splits, "n_jobs": study.n_jobs}
    tables = []
    for place, (name, classifier) in enumerate(classifiers.items()):
        curve = privacy_curve(
            study.model(classifier, protected="reported"),
            study.features,
            study.y,
            param_name=PARAM_NAME,
            epsilons=study.epsilons,
            random_state=study.seed(_MODELS, place),
            **options,
        )
        curve = curve.assign(repeat=curve["fold"], fold=0)
        left_out = _left_out(study, classifier, options)
        tables += [curve.assign(classifier=name), left_out.assign(classifier=name)]
    return pd.concat(tables, ignore_index=True)


def _left_out(
    study: Study, classifier: BaseEstimator, options: Mapping[str, Any]
) -> pd.DataFrame:
    """Score the same classifier without the protected columns, as the rows of a curve."""
    model = study.model(classifier, protected="left out")
    scores = cross_validate(
        model, study.features, study.y, error_score="raise", **options
    )
    # Beside the scores, the result has the times of fits, which are left out.
    table = pd.DataFrame(scores).filter(like="test_")
    table.columns = table.columns.str.removeprefix("test_")
    table = table.rename_axis("repeat").reset_index()
    table = table.melt(id_vars="repeat", var_name="metric")
    return table.assign(epsilon=LEFT_OUT, fold=0, group="all")


def model_costs(scores: pd.DataFrame) -> pd.DataFrame:
    """Compare each score with that of the model without noise, and of that without the columns, with intervals."""
    values = ["difference", "lower", "upper"]
    keys = ["classifier", "epsilon", "metric"]
    tables = []
    for name, curve in scores.groupby("classifier"):
        # Leaving the columns out has no epsilon, and is no price of privacy.
        with_columns = curve[curve["epsilon"] != LEFT_OUT]
        # A model without the columns is the baseline of another comparison.
        left_out = curve[curve["epsilon"] == LEFT_OUT].assign(epsilon=NOT_PRIVATE)
        private = curve[~curve["epsilon"].isin([NOT_PRIVATE, LEFT_OUT])]
        from_left_out = compare_to_baseline(pd.concat([left_out, private]))
        table = compare_to_baseline(with_columns).merge(
            from_left_out[["epsilon", "metric", *values]],
            on=["epsilon", "metric"],
            suffixes=("", FROM_LEFT_OUT),
        )
        tables.append(table.assign(classifier=name))
    columns = [*keys, *values, *(f"{value}{FROM_LEFT_OUT}" for value in values)]
    return pd.concat(tables)[columns]


def fairness_audits(study: Study) -> dict[float, dict[str, pd.DataFrame]]:
    """Audit one classifier whose groups are known from reports only."""
    # The classifier does not use the protected columns: its predictions must be
    # independent of the noise of the reports, or the estimates would be biased.
    n_folds = 5 if study.y.value_counts().min() >= 5 else 2
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    model = study.model(protected="left out")
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
    return report.assign(metric=report["metric"].map(LABELS))


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


@dataclass(frozen=True)
class Synthesis:
    """Synthetic tables and their errors, and what the synthesizer warned of."""

    curve: pd.DataFrame
    real: pd.DataFrame
    synthetic: pd.DataFrame
    remarks: list[str]


def synthesize(study: Study, delta: float) -> Synthesis:
    """Synthesise the declared columns at each epsilon."""
    # Only declared columns can be synthesised. A model that is trained on synthetic rows
    # is tested on rows that were not synthesised.
    real = study.frame[list(study.domain.columns)]
    test = None
    if study.target is not None:
        real, test = train_test_split(
            real, test_size=_TEST_SHARE, random_state=0, stratify=study.y
        )
    calls = []
    for index, epsilon in enumerate(study.epsilons):
        call = delayed(_synthesize_at)
        calls.append(call(study, epsilon, delta, real, test, index=index))
    scores = []
    remarks: list[str] = []
    results = zip(study.epsilons, Parallel(n_jobs=study.n_jobs)(calls), strict=True)
    for epsilon, (part, synthetic, messages) in results:
        scores += part
        remarks += [f"At epsilon {epsilon:g}: {message}" for message in messages]
        if epsilon == study.example:
            example = synthetic
    # With the columns of a privacy curve, whose display draws it.
    curve = pd.DataFrame(scores, columns=["epsilon", "metric", "value"])
    return Synthesis(
        curve.assign(repeat=0, fold=0, group="all"), real, example, remarks
    )


def _synthesize_at(
    study: Study,
    epsilon: float,
    delta: float,
    real: pd.DataFrame,
    test: pd.DataFrame | None,
    *,
    index: int,
) -> tuple[list[tuple[Any, ...]], pd.DataFrame, list[str]]:
    """Synthesise rows, and return their scores, themselves, and what the synthesizer warned of."""
    synthesizer = DPMarginalSynthesizer(
        epsilon,
        delta=delta,
        domain=study.domain,
        random_state=study.seed(_SYNTHESIS, index),
    )
    # Its warnings, such as of bins that are too fine, are remarks on the page.
    with warnings.catch_warnings(
        record=True, action="always", category=UserWarning
    ) as caught:
        synthetic = synthesizer.fit(real).sample(len(real))
    n_columns = len(real.columns)
    rows: list[tuple[Any, ...]] = []
    for order in range(1, min(2, n_columns) + 1):
        error = marginal_error(real, synthetic, order=order, domain=study.domain)
        rows.append((epsilon, f"mean error of {order}-way marginals", error))
    if test is not None and n_columns > 1:
        tables = {"synthetic": synthetic, "real_test": test}
        if index == 0:  # the scores of real rows are the same at each epsilon
            tables["real_train"] = real
        rows += _train(study, epsilon, tables)
    return rows, synthetic, [str(warning.message) for warning in caught]


def _train(
    study: Study, epsilon: float, tables: dict[str, pd.DataFrame]
) -> list[tuple[Any, ...]]:
    """Score a model that was trained on synthetic rows, and once on real ones."""
    data: dict[str, Any] = dict(
        zip(tables, map(study.coded, tables.values()), strict=True)
    )
    with warnings.catch_warnings():
        # At a tiny epsilon all rows may be of one class; the score, an AUC of 0.5,
        # shows it.
        warnings.filterwarnings(
            "ignore", "all rows of synthetic are of one class", UserWarning
        )
        model = study.model(protected="as they are")  # which is synthetic
        scores = train_on_synthetic(model, target=study.target, scoring=score, **data)
    # The scores of real rows are the baseline, as of a privacy curve.
    epsilons = {"real": math.inf, "synthetic": epsilon}
    rows = []
    for name, values in scores.iterrows():
        for metric, value in values.items():
            label = f"{metric}, trained on synthetic rows"
            rows.append((epsilons[str(name)], label, value))
    return rows
