"""Experiments of the report: counts, classifiers and their fairness, attacks, synthetic rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from narwhals.typing import IntoDataFrame
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import (
    StratifiedKFold,
    StratifiedShuffleSplit,
    cross_val_predict,
    cross_validate,
    train_test_split,
)
from sklearn.utils import Bunch

from skdp._arrays import Integers
from skdp.domain import Domain
from skdp.evaluation._attacks import AttackResult, attribute_inference
from skdp.evaluation._privacy_curve import check_epsilons, privacy_curve
from skdp.evaluation.report._study import PARAM_NAME, Study, encode_declared
from skdp.local import RandomizedResponseEncoder
from skdp.metrics import (
    COMPARISONS,
    debiased_fairness,
    fairness_report,
    marginal_errors,
    train_on_synthetic,
)
from skdp.oracles import RandomizedResponse
from skdp.privacy import local_epsilon
from skdp.randomness import check_size
from skdp.synthesis import DPMarginalSynthesizer
from skdp.tables import wrap_table

# Names of three fairness audits of the same predictions.
TRUE_GROUPS, NAIVE, DEBIASED = (
    "true groups",
    "reports taken for groups",
    "debiased reports",
)
# Names of metrics on the page, which is read by people who do not write code.
FAIRNESS = [name.replace("_", " ") for name in COMPARISONS]
PARITY, OPPORTUNITY = (
    "statistical parity difference",
    "equal opportunity difference",
)


def score_model(
    model: Any,
    X: pd.DataFrame,
    y: Any,
    *,
    sensitive_features: Any = None,
    privileged: Any = None,
) -> dict[str, float]:
    """Compute the accuracy, the AUC and, given the column `sensitive_features` of X, the fairness of a model."""
    predicted, probabilities = model.predict(X), model.predict_proba(X)
    positive = probabilities[:, list(model.classes_).index(True)]
    scores = {
        "accuracy": float(accuracy_score(y, predicted)),
        "AUC": float(roc_auc_score(y, positive)),
    }
    if sensitive_features is None:
        return scores
    # A small split may have rows of one group only.
    if X[sensitive_features].isin(privileged).nunique() < 2:
        return scores | dict.fromkeys(FAIRNESS, np.nan)
    options: dict[str, Any] = {"privileged": privileged, "positive_label": True}
    report = _compute_metrics(
        fairness_report, y, predicted, X[sensitive_features], **options
    )
    values = report.set_index("metric")["value"]
    return scores | {metric: float(values[metric]) for metric in FAIRNESS}


def score_models(study: Study, n_splits: int) -> tuple[pd.DataFrame, pd.Series]:
    """Score a classifier with and without the protected columns.

    Return the privacy curve of reported columns, and the mean scores without the columns.
    """
    options: dict[str, Any] = {
        "scoring": partial(
            score_model,
            sensitive_features=study.sensitive_features,
            privileged=study.privileged,
        ),
        "cv": StratifiedShuffleSplit(n_splits, test_size=0.25, random_state=0),
        "n_jobs": study.n_jobs,
    }
    curve = privacy_curve(
        study.model(protected="reported"),
        study.features,
        study.y,
        param_name=PARAM_NAME,
        epsilons=study.epsilons,
        random_state=study.seed(1),
        **options,
    )
    scores = cross_validate(
        study.model(protected="excluded"),
        study.features,
        study.y,
        error_score="raise",
        **options,
    )
    excluded = pd.DataFrame(scores).filter(like="test_").mean()
    return curve, excluded.rename(lambda name: name.removeprefix("test_"))


def audit_fairness(study: Study) -> dict[float, dict[str, pd.DataFrame]]:
    """Compute fairness metrics of one classifier at each epsilon, by true and reported groups.

    Return the reports of the true groups, of reports used as groups, and of debiased reports.
    """
    # Debiased estimates require predictions that are independent of the noise of the
    # reports, so the classifier does not use the protected columns.
    n_folds = 5 if study.y.value_counts().min() >= 5 else 2
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    model = study.model(protected="excluded")
    predicted = cross_val_predict(
        model, study.features, study.y, cv=folds, n_jobs=study.n_jobs
    )
    labels: dict[str, Any] = {"privileged": study.privileged, "positive_label": True}
    # The same predictions are evaluated by three types of groups at each epsilon.
    true_groups = study.frame[study.sensitive_features]
    true = _compute_metrics(fairness_report, study.y, predicted, true_groups, **labels)
    audits = {}
    for epsilon in study.epsilons:
        encoder = study.encoder(epsilon, 1, 100)
        reports = encoder.transform(study.frame[study.columns])
        groups = reports[study.sensitive_features]
        naive = _compute_metrics(fairness_report, study.y, predicted, groups, **labels)
        debiased = _compute_metrics(
            debiased_fairness,
            study.y,
            predicted,
            reports,
            encoder,
            columns=[study.sensitive_features],
            rows="table",
            **labels,
        )
        audits[epsilon] = {TRUE_GROUPS: true, NAIVE: naive, DEBIASED: debiased}
    return audits


def _compute_metrics(
    function: Callable[..., pd.DataFrame], *values: Any, **options: Any
) -> pd.DataFrame:
    """Call a function of fairness metrics without warnings, and replace underscores of names by spaces.

    Undefined metrics are visible as nan on the page.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        report = function(*values, **options)
    return report.assign(metric=report["metric"].str.replace("_", " "))


def choose_attacked_column(study: Study) -> Any:
    """Return the sensitive column, otherwise the first protected column with at least two values.

    None if there is no such column.
    """
    if study.sensitive_features is not None:
        return study.sensitive_features
    # A column with a single value cannot be attacked.
    for name in study.columns:
        if study.frame[name].nunique(dropna=False) > 1:
            return name
    return None


def sample_attacked_rows(study: Study) -> pd.DataFrame:
    """Sample the rows to attack: 4,000, or fewer for a column with many values."""
    # Boosting fits a tree for each value, so its time is proportional to the product.
    n_values = study.domain.select([choose_attacked_column(study)]).size
    n_rows = max(1_000, min(4_000, 20 * 4_000 // n_values))
    return study.frame.sample(min(len(study.frame), n_rows), random_state=0)


def attack_releases(study: Study) -> dict[float, AttackResult]:
    """Attack releases of reports and of all other columns; return results by epsilon."""
    rows = sample_attacked_rows(study)
    calls = [delayed(_attack)(study, rows, epsilon) for epsilon in study.epsilons]
    results = Parallel(n_jobs=study.n_jobs)(calls)
    return dict(zip(study.epsilons, results, strict=True))


def _attack(study: Study, rows: pd.DataFrame, epsilon: float) -> AttackResult:
    """Predict the attacked column of the study from a release of `rows` with one epsilon."""
    column = choose_attacked_column(study)
    encoder = study.encoder(epsilon, 2)
    reports = encoder.transform(rows[study.columns])
    released = rows[[*study.columns, *study.others]].copy()
    # Protected columns are replaced by reports; other columns are released unchanged.
    for name in study.columns:
        released[name] = reports[name]
    if study.target is not None:
        released[study.target] = rows[study.target]
    # All epsilons have the same folds, so that only the reports differ.
    return attribute_inference(
        released, rows[[column]], encoder=encoder, random_state=0
    )


def synthesize(study: Study, delta: float) -> pd.DataFrame:
    """Return the errors of synthetic rows by epsilon; `delta` is the delta of the synthesizer."""
    # A model that is trained on synthetic rows is tested on real rows that the synthesizer
    # does not use.
    real, test = study.frame[list(study.domain.columns)], None
    if study.target is not None:
        real, test = train_test_split(real, random_state=0, stratify=study.y)
    calls = []
    for epsilon in study.epsilons:
        calls.append(delayed(_draw_synthetic)(study, epsilon, delta, real))
    drawn = Parallel(n_jobs=study.n_jobs)(calls)
    rows = []
    for epsilon, synthetic in zip(study.epsilons, drawn, strict=True):
        row = {"epsilon": epsilon}
        for order in range(1, min(2, len(real.columns)) + 1):
            errors = marginal_errors(real, synthetic, order=order, domain=study.domain)
            row[f"error of {order}-way marginals"] = errors["error"].mean()
        if test is not None and len(real.columns) > 1:
            row |= _score_training(study, real, synthetic, test)
        rows.append(row)
    return pd.DataFrame(rows)


def _draw_synthetic(
    study: Study, epsilon: float, delta: float, real: pd.DataFrame
) -> pd.DataFrame:
    """Fit a synthesizer and draw as many synthetic rows as there are real rows."""
    seed = study.seed(3, study.epsilons.index(epsilon))
    synthesizer = DPMarginalSynthesizer(
        epsilon, delta=delta, domain=study.domain, random_state=seed
    )
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return synthesizer.fit(real).sample(len(real))


def _score_training(
    study: Study, real: pd.DataFrame, synthetic: pd.DataFrame, test: pd.DataFrame
) -> dict[str, float]:
    """Return test scores of a model that is trained on synthetic rows, and on real rows."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        scores = train_on_synthetic(
            study.model(protected="as they are"),
            synthetic=study.encode(synthetic),
            real_test=study.encode(test),
            real_train=study.encode(real),
            target=study.target,
            scoring=score_model,
        )
    row = {}
    for name, values in scores.iterrows():
        for metric, value in values.items():
            row[f"{metric}, trained on {name} rows"] = value
    return row


def count_study(
    frame: IntoDataFrame,
    domain: Domain,
    *,
    epsilons: Sequence[float] = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0),
    n_repeats: int = 500,
    random_state: int | None = None,
) -> Bunch:
    """Release the joint counts of the columns of a domain many times and compute the errors.

    Each release is by randomized response of the combination of all columns. The result has the tables "releases",
    estimates of the first release by epsilon and cell; "errors", with a row for each epsilon and repeat; and "summary",
    means of the errors by epsilon.
    """
    epsilons = check_epsilons(epsilons)
    check_size(n_repeats, min_val=1, max_val=None, name="n_repeats")
    codes = encode_declared(domain, wrap_table(frame).columns)
    # The exact count of each cell, as an array and as a series.
    true = np.bincount(domain.join(codes), minlength=domain.size)
    truth = pd.Series(true, index=domain.cells(), name="true")
    releases, tables, expected = {}, [], {}
    for index, epsilon in enumerate(epsilons):
        # Each epsilon has its own seed. With the same noise, the errors at different
        # epsilons would be correlated.
        seed = None if random_state is None else random_state + index
        encoder = RandomizedResponseEncoder(
            epsilon, strategy="joint", categories=domain, random_state=seed
        ).fit(frame)
        expected[epsilon] = _expected_errors(encoder, truth)
        protocol, (oracle,) = encoder.protocol_, encoder.oracles_
        tallies = []
        for _ in range(n_repeats):
            # Equal to `transform`, but the rows are encoded once. The reports are not
            # permanent, so they require no ids of records.
            reports = protocol.randomize(
                list(codes), records=[], randomness=encoder._randomness()
            )
            tallies.append(protocol.tally(reports))
        estimates = encoder.estimate_counts(tallies[0])
        releases[epsilon] = pd.concat([truth, estimates], axis=1)
        n = len(codes[0])
        counts = np.stack([oracle.estimate(tally.counts[0], n) for tally in tallies])
        error = np.abs(counts - true)
        margin = NormalDist().inv_cdf(0.975) * np.sqrt(oracle.variance(counts, n))
        columns = {
            "l1": error.sum(axis=1),
            "l2": np.linalg.norm(error, axis=1),
            "coverage": (error <= margin).mean(axis=1),
        }
        tables.append(pd.DataFrame(columns).rename_axis("repeat").reset_index())
    errors = pd.concat(dict(zip(epsilons, tables, strict=True)), names=["epsilon"])
    errors = errors.reset_index("epsilon").reset_index(drop=True)
    grouped = errors.groupby("epsilon", sort=False)
    summary = pd.DataFrame({"n_repeats": grouped.size()})
    summary["l1_mean"], summary["l2_mean"] = grouped["l1"].mean(), grouped["l2"].mean()
    summary["l2_rms"] = np.hypot(summary["l2_mean"], grouped["l2"].std(ddof=0))
    summary["coverage"] = grouped["coverage"].mean()
    names = ["l1_mean_expected", "l2_rms_expected"]
    stated = pd.DataFrame.from_dict(expected, orient="index", columns=names)
    return Bunch(
        releases=pd.concat(releases, names=["epsilon"]),
        errors=errors,
        summary=summary.join(stated).reset_index(),
    )


def _expected_errors(encoder: Any, truth: pd.Series) -> tuple[float, float]:
    """Return the expected L1 error and root mean square L2 error of estimated counts, given the true counts."""
    # Variances of the estimates in closed form.
    variances = encoder.count_variances(truth)
    # The mean of |x| for a normal x with mean 0 and variance v is sqrt(2 v / pi).
    l1_mean = float(np.sqrt(variances * 2 / np.pi).sum())
    return l1_mean, float(np.sqrt(variances.sum()))


def compute_errors_by_model(
    true: Integers, *, epsilons: Sequence[float], delta: float
) -> pd.DataFrame:
    """Compute the expected L2 errors of counts in the shuffle and central models, by epsilon.

    `true` are the true counts of all cells, and `delta` is for the shuffle model.
    """
    n, k = int(true.sum()), true.size
    rows = []
    for epsilon in epsilons:
        # Local epsilon of n reports that have this epsilon after shuffling.
        shuffled = local_epsilon(
            epsilon, delta=delta, n=n, reporter=partial(RandomizedResponse, k)
        )
        # Discrete Laplace noise with r = e^-epsilon has variance 2 r / (1 - r)**2.
        std = math.sqrt(2 * math.exp(-epsilon)) / -math.expm1(-epsilon)
        rows.append(
            {
                "shuffled": _expected_l2_error(true, shuffled),
                "central": math.sqrt(k) * std,
            }
        )
    return pd.DataFrame(rows, index=pd.Index(epsilons, name="epsilon"))


def _expected_l2_error(true: Any, epsilon: float) -> float:
    """Return the root mean square L2 error of counts from randomized response."""
    oracle = RandomizedResponse(true.size, epsilon)
    return math.sqrt(oracle.variance(true, int(true.sum())).sum())
