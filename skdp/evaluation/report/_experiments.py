"""The experiments of the report: classifiers and their fairness, attacks on reports, and synthetic rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from threadpoolctl import threadpool_limits

from skdp.evaluation.attacks import (
    EXACT,
    AttackResult,
    attribute_inference,
    bayes_accuracy,
)
from skdp.evaluation.curves import compare_to_baseline, privacy_curve
from skdp.evaluation.report._study import PARAM_NAME, Study
from skdp.local import RandomizedResponseEncoder
from skdp.metrics import (
    debiased_fairness,
    fairness_report,
    marginal_error,
    train_on_synthetic,
)
from skdp.metrics.fairness import LABELS
from skdp.synthesis import DPMarginalSynthesizer

NOT_PRIVATE, LEFT_OUT = "not private", "left out"
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
    "Theil index",
)
_COLUMNS = ["classifier", "setting", "metric", "repeat", "value"]
_TEST_SHARE = 0.25
_FEW_ROWS = 10_000
_ATTACKED_ROWS = 4_000
_MODELS, _ATTACKS, _SYNTHESIS = 1, 2, 3  # the seeds of the parts of the study


def score(
    model: Any,
    X: pd.DataFrame,
    y: Any,
    *,
    sensitive: Any = None,
    privileged: Any = None,
) -> dict[str, float]:
    predicted, shares = model.predict(X), model.predict_proba(X)
    positive = shares[:, list(model.classes_).index(True)]
    scores = {
        "accuracy": float(accuracy_score(y, predicted)),
        "AUC": float(roc_auc_score(y, positive)),
    }
    if sensitive is None:
        return scores
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
    return scores | {name: float(values[name]) for name in _FAIRNESS}


def model_scores(
    study: Study,
    classifiers: Mapping[str, BaseEstimator],
    repeats: int,
    advance: Callable[[], Any],
) -> pd.DataFrame:
    """Score classifiers that use the protected columns privatised, unprotected, and not at all."""
    scoring = partial(score, sensitive=study.sensitive, privileged=study.privileged)
    splits = StratifiedShuffleSplit(repeats, test_size=_TEST_SHARE, random_state=0)
    options: dict[str, Any] = {"scoring": scoring, "cv": splits, "n_jobs": study.n_jobs}
    parts = []
    # With few rows, threads wait for each other longer than they work.
    with threadpool_limits(
        1 if len(study.frame) < _FEW_ROWS else None, user_api="openmp"
    ):
        for place, (name, classifier) in enumerate(classifiers.items()):
            model = study.model(classifier, protected="reported")
            options |= {
                "param_name": PARAM_NAME,
                "random_state": study.seed(_MODELS, place),
                "baseline": "auto",
            }
            for epsilon in (
                study.epsilons
            ):  # one by one, for the progress bar; the baseline only once
                curve = privacy_curve(
                    model, study.features, study.y, epsilons=[epsilon], **options
                )
                parts.append(_named(curve, name))
                options["baseline"] = None
                advance()
            parts.append(_left_out(study, name, classifier, scoring, splits))
            advance()
    return pd.concat(parts, ignore_index=True)


def model_costs(scores: pd.DataFrame) -> pd.DataFrame:
    """Compare each score with that of the model without noise, with intervals."""
    curve = scores[scores["setting"] != LEFT_OUT].rename(
        columns={"setting": "epsilon", "repeat": "fold"}
    )
    curve = curve.assign(
        repeat=0, group="all", n_train=1 - _TEST_SHARE, n_test=_TEST_SHARE
    )
    curve["epsilon"] = (
        curve["epsilon"]
        .map(lambda epsilon: np.inf if epsilon == NOT_PRIVATE else epsilon)
        .astype(float)
    )
    costs = pd.concat(
        {name: compare_to_baseline(part) for name, part in curve.groupby("classifier")},
        names=["classifier"],
    )
    costs = (
        costs.reset_index("classifier")
        .rename(columns={"epsilon": "setting"})
        .astype({"setting": object})
    )
    return costs[["classifier", "setting", "metric", "difference", "lower", "upper"]]


def _named(curve: pd.DataFrame, classifier: str) -> pd.DataFrame:
    setting = (
        curve["epsilon"]
        .astype(object)
        .where(np.isfinite(curve["epsilon"]), NOT_PRIVATE)
    )
    return curve.assign(classifier=classifier, setting=setting, repeat=curve["fold"])[
        _COLUMNS
    ]


def _left_out(
    study: Study, name: str, classifier: BaseEstimator, scoring: Any, splits: Any
) -> pd.DataFrame:
    """Score the same classifier without the protected columns."""
    X = study.features
    model = study.model(classifier, protected="left out")
    folds = cross_validate(
        model,
        X,
        study.y,
        cv=splits,
        scoring=scoring,
        n_jobs=study.n_jobs,
        error_score="raise",
    )
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
    folds = StratifiedKFold(
        5 if study.y.value_counts().min() >= 5 else 2, shuffle=True, random_state=0
    )
    model = study.model(protected="left out")
    predicted = cross_val_predict(
        model, study.features, study.y, cv=folds, n_jobs=study.n_jobs
    )
    given: dict[str, Any] = {"privileged": study.privileged, "positive_label": True}
    true = _quietly(
        fairness_report, study.y, predicted, study.frame[study.sensitive], **given
    )
    audits = {}
    for epsilon in study.epsilons:
        encoder = study.encoder(epsilon, _MODELS, 100)
        reports = encoder.transform(study.frame[study.columns])
        debiased = _quietly(
            debiased_fairness,
            study.y,
            predicted,
            reports,
            encoder,
            columns=[study.sensitive],
            rows="fixed",
            **given,
        )
        naive = _quietly(
            fairness_report, study.y, predicted, reports[study.sensitive], **given
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
    return next(
        (name for name in study.columns if study.frame[name].nunique(dropna=False) > 1),
        None,
    )


def attacked_rows(study: Study) -> pd.DataFrame:
    """Draw the rows to attack."""
    # One tree per value: use fewer rows if there are many values.
    most = max(
        1_000,
        min(
            _ATTACKED_ROWS,
            20 * _ATTACKED_ROWS // study.domain.select([attacked_column(study)]).size,
        ),
    )
    return study.frame.sample(min(len(study.frame), most), random_state=0)


def attack_releases(
    study: Study, advance: Callable[[], Any]
) -> dict[float, AttackResult]:
    """Guess a protected column from the release: the reports, and all other columns unprotected."""
    attacked = attacked_column(study)
    rows = attacked_rows(study)
    y = None if study.target is None else rows[study.target]

    def attack(epsilon: float, first: AttackResult | None = None) -> AttackResult:
        encoder = study.encoder(epsilon, _ATTACKS)
        reports = encoder.transform(rows[study.columns])
        released = rows[[*study.columns, *study.others]].assign(
            **{name: reports[name] for name in study.columns}
        )
        seed = study.seed(_ATTACKS, 100)
        options: dict[str, Any] = {"encoder": encoder, "cv": 3, "random_state": seed}
        if first is None:
            result = attribute_inference(released, y, rows[[attacked]], **options)
        else:  # without the reports it is the same at each epsilon
            result = attribute_inference(
                released, y, rows[[attacked]], report=[], **options
            )
            result.carriers["is_report"] = result.carriers.index.isin(study.columns)
            result.values["auc_without_report"] = first.values["auc_without_report"]
            names = "accuracy_without_report", "std_error_without_report"
            result = replace(result, **{name: getattr(first, name) for name in names})
        exact = _best_guess(encoder, rows[study.columns], attacked)
        return (
            result if exact is None else replace(result, bayes_bound=exact, bound=EXACT)
        )

    first, *others = study.epsilons
    results = {first: attack(first)}
    advance()
    calls = (delayed(attack)(epsilon, results[first]) for epsilon in others)
    for epsilon, result in zip(others, _parallel(study, calls), strict=True):
        results[epsilon] = result
        advance()
    return results


def _best_guess(
    encoder: RandomizedResponseEncoder, rows: pd.DataFrame, attacked: Any
) -> float | None:
    """Return the share of correct best guesses of a column from the joint report of all protected ones."""
    domain = encoder.domain_
    cells = domain.join(domain.encode([rows[name] for name in domain.columns]))
    prior = np.bincount(cells.astype(np.intp), minlength=domain.size) / len(rows)
    groups = np.unravel_index(np.arange(domain.size), domain.sizes)[
        list(domain.columns).index(attacked)
    ]
    return bayes_accuracy(encoder.oracles_[0], prior, groups=groups)


@dataclass(frozen=True)
class Synthesis:
    """Synthetic tables and their errors, and what the synthesizer warned of."""

    curve: pd.DataFrame
    real: pd.DataFrame
    synthetic: pd.DataFrame
    remarks: list[str]


def synthesize(study: Study, delta: float, advance: Callable[[], Any]) -> Synthesis:
    """Synthesise the declared columns at each epsilon."""
    table = study.frame[list(study.domain.columns)]
    real, test = (
        (table, None)
        if study.target is None
        else train_test_split(
            table, test_size=_TEST_SHARE, random_state=0, stratify=study.y
        )
    )
    orders = range(1, min(2, len(table.columns)) + 1)

    def run(
        index: int, epsilon: float
    ) -> tuple[list[tuple[Any, ...]], pd.DataFrame, list[str]]:
        synthesizer = DPMarginalSynthesizer(
            epsilon,
            delta=delta,
            domain=study.domain,
            random_state=study.seed(_SYNTHESIS, index),
        )
        with warnings.catch_warnings(
            record=True, action="always", category=UserWarning
        ) as caught:
            made = synthesizer.fit(real).sample(len(real))
        rows: list[tuple[Any, ...]] = []
        for order in orders:
            error = marginal_error(real, made, order=order, domain=study.domain)
            rows.append((epsilon, f"mean error of {order}-way marginals", error))
        if test is not None and len(table.columns) > 1:
            rows += _train(study, epsilon, made, real, test, first=index == 0)
        return rows, made, [f"At epsilon {epsilon:g}: {one.message}" for one in caught]

    curve: list[tuple[Any, ...]] = []
    remarks: list[str] = []
    calls = (
        delayed(run)(index, epsilon) for index, epsilon in enumerate(study.epsilons)
    )
    for epsilon, (found, made, warned) in zip(
        study.epsilons, _parallel(study, calls), strict=True
    ):
        curve += found
        remarks += warned
        if epsilon == study.example:
            example = made
        advance()
    rows = pd.DataFrame(curve, columns=["epsilon", "metric", "value"])
    return Synthesis(rows.assign(repeat=0, fold=0, group="all"), real, example, remarks)


def _parallel(study: Study, calls: Iterable[Any]) -> Iterator[Any]:
    return Parallel(n_jobs=study.n_jobs, return_as="generator")(calls)


def _train(
    study: Study,
    epsilon: float,
    made: pd.DataFrame,
    real: pd.DataFrame,
    test: pd.DataFrame,
    *,
    first: bool,
) -> list[tuple[Any, ...]]:
    """Score a model that was trained on synthetic rows, and once on real ones."""
    tables = {"synthetic": made, "real_test": test} | (
        {"real_train": real} if first else {}
    )
    data = {name: study.coded(table) for name, table in tables.items()}
    with warnings.catch_warnings():
        # At a tiny epsilon all rows may be of one class; the score, an AUC of 0.5, shows it.
        warnings.filterwarnings(
            "ignore", "all rows of synthetic are of one class", UserWarning
        )
        model = study.model(protected="as they are")  # which is synthetic
        scores = train_on_synthetic(model, target=study.target, scoring=score, **data)
    places = {"real": float("inf"), "synthetic": epsilon}
    return [
        (places[str(name)], f"{metric}, trained on synthetic rows", value)
        for name, row in scores.iterrows()
        for metric, value in row.items()
    ]
