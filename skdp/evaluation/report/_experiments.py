"""The experiments of the report: counts, classifiers and their fairness, attacks, and synthetic rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from narwhals.typing import IntoDataFrame
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import (
    StratifiedKFold,
    StratifiedShuffleSplit,
    cross_val_predict,
    cross_validate,
    train_test_split,
)

from skdp.domain import Domain
from skdp.evaluation._attacks import AttackResult, attribute_inference
from skdp.evaluation._common import check_count, read_epsilons
from skdp.evaluation._privacy_curve import privacy_curve
from skdp.evaluation.report._study import (
    PARAM_NAME,
    Study,
    encode_declared,
)
from skdp.local import RandomizedResponseEncoder
from skdp.metrics import (
    count_error,
    debiased_fairness,
    fairness_report,
    marginal_error,
    train_on_synthetic,
)
from skdp.oracles import RandomizedResponse
from skdp.privacy import local_epsilon
from skdp.synthesis import DPMarginalSynthesizer
from skdp.tables import wrap_table

TRUE_GROUPS, NAIVE, DEBIASED = (
    "true groups",
    "reports taken for groups",
    "debiased reports",
)
FAIRNESS = (
    "statistical parity difference",
    "disparate impact",
    "equal opportunity difference",
    "average odds difference",
)
TEST_SIZE = 0.25

# Keys of the seeds of the parts of the study.
MODELS, ATTACKS, SYNTHESIS = 1, 2, 3


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


def score_models(study: Study, n_splits: int) -> tuple[pd.DataFrame, pd.Series]:
    """Return the curve of a classifier with the protected columns reported, and its mean scores without them."""
    options: dict[str, Any] = {
        "scoring": partial(
            score, sensitive=study.sensitive, privileged=study.privileged
        ),
        "cv": StratifiedShuffleSplit(n_splits, test_size=TEST_SIZE, random_state=0),
        "n_jobs": study.n_jobs,
    }
    curve = privacy_curve(
        study.model(protected="reported"),
        study.features,
        study.y,
        param_name=PARAM_NAME,
        epsilons=study.epsilons,
        random_state=study.seed(MODELS),
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
        encoder = study.encoder(epsilon, MODELS, 100)
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
    """Compute metrics with readable names, without warnings of undefined metrics, which the page lists."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        report = function(*values, **options)
    return report.assign(metric=report["metric"].str.replace("_", " "))


def attacked_column(study: Study) -> Any:
    """Choose the protected column to attack: the sensitive one, otherwise the first with several values."""
    if study.sensitive is not None:
        return study.sensitive
    # A column with a single value cannot be attacked.
    for name in study.columns:
        if study.frame[name].nunique(dropna=False) > 1:
            return name
    return None


def attacked_rows(study: Study) -> pd.DataFrame:
    """Draw the rows to attack."""
    # Boosting fits a tree for each value, so that many values need fewer rows.
    n_values = study.domain.select([attacked_column(study)]).size
    n_rows = max(1_000, min(4_000, 20 * 4_000 // n_values))
    return study.frame.sample(min(len(study.frame), n_rows), random_state=0)


def attack_releases(study: Study) -> dict[float, AttackResult]:
    """Guess a protected column from the release: the reports, and all other columns unprotected."""
    rows = attacked_rows(study)
    calls = [delayed(_attack)(study, rows, epsilon) for epsilon in study.epsilons]
    results = Parallel(n_jobs=study.n_jobs)(calls)
    return dict(zip(study.epsilons, results, strict=True))


def _attack(study: Study, rows: pd.DataFrame, epsilon: float) -> AttackResult:
    """Attack the release at an epsilon."""
    column = attacked_column(study)
    encoder = study.encoder(epsilon, ATTACKS)
    reports = encoder.transform(rows[study.columns])
    released = rows[[*study.columns, *study.others]].copy()
    # The release has the reports, and all other columns unchanged.
    for name in study.columns:
        released[name] = reports[name]
    if study.target is not None:
        released[study.target] = rows[study.target]
    # The same folds at each epsilon, so that only the reports differ.
    return attribute_inference(
        released, rows[[column]], encoder=encoder, cv=3, random_state=0
    )


def synthesize(
    study: Study, delta: float
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the errors of synthetic rows by epsilon, the real rows and an example."""
    # A model that is trained on synthetic rows is tested on rows that were not
    # synthesized.
    real, test = study.frame[list(study.domain.columns)], None
    if study.target is not None:
        real, test = train_test_split(
            real, test_size=TEST_SIZE, random_state=0, stratify=study.y
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
    seed = study.seed(SYNTHESIS, study.epsilons.index(epsilon))
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


@dataclass(frozen=True)
class CountStudy:
    """Estimated counts of one release, and the errors of many, at each epsilon."""

    releases: pd.DataFrame
    errors: pd.DataFrame
    expected: pd.DataFrame

    def summary(self) -> pd.DataFrame:
        """Summarize the errors over the repeats."""
        grouped = self.errors.groupby("epsilon", sort=False)
        table = pd.DataFrame({"n_repeats": grouped.size()})
        for name in ("l1", "l2"):
            table[f"{name}_mean"] = grouped[name].mean()
            table[f"{name}_q05"] = grouped[name].quantile(0.05)
            table[f"{name}_q95"] = grouped[name].quantile(0.95)
        table["l2_rms"] = grouped["l2"].agg(lambda l2: np.sqrt((l2**2).mean()))
        table["coverage"] = grouped["coverage"].mean()
        return table.join(self.expected.add_suffix("_expected")).reset_index()


def count_study(
    frame: IntoDataFrame,
    domain: Domain,
    *,
    epsilons: Sequence[float] = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0),
    n_repeats: int = 500,
    random_state: int | None = None,
) -> CountStudy:
    """Release the joint counts of some columns many times and measure the errors."""
    epsilons = read_epsilons(epsilons)
    check_count(n_repeats, "n_repeats", least=1)
    codes = encode_declared(domain, wrap_table(frame).columns)
    true = np.bincount(domain.join(codes), minlength=domain.size)
    truth = pd.Series(true, index=domain.cells(), name="true")
    releases, errors, expected = [], [], []
    for index, epsilon in enumerate(epsilons):
        # Each epsilon has its own seed; otherwise all releases would use the same
        # noise.
        seed = None if random_state is None else random_state + index
        encoder = RandomizedResponseEncoder(
            epsilon, strategy="joint", categories=domain, random_state=seed
        ).fit(frame)
        expected.append(_expected_errors(encoder, truth))
        protocol, (oracle,) = encoder.protocol_, encoder.oracles_
        for repeat in range(n_repeats):
            # Same as `transform` and `estimate_counts`, but the rows are encoded only
            # once.
            tally = protocol.tally(
                protocol.randomize(list(codes), [], encoder._randomness())
            )
            if repeat == 0:
                releases.append(
                    pd.concat([truth, encoder.estimate_counts(tally)], axis=1)
                )
            counts = oracle.estimate(tally.counts[0], tally.n_reports)
            std_errors = np.sqrt(oracle.variance(counts, tally.n_reports))
            margin = NormalDist().inv_cdf(0.975) * std_errors
            errors.append(
                {
                    "epsilon": epsilon,
                    "repeat": repeat,
                    "l1": count_error(true, counts),
                    "l2": count_error(true, counts, metric="l2"),
                    "coverage": float((np.abs(counts - true) <= margin).mean()),
                }
            )
    rows = pd.Index(epsilons, name="epsilon")
    return CountStudy(
        pd.concat(releases, keys=list(epsilons), names=["epsilon"]),
        pd.DataFrame(errors),
        pd.DataFrame(expected, index=rows, columns=["l1_mean", "l2_rms"]),
    )


def _expected_errors(encoder: Any, truth: pd.Series) -> tuple[float, float]:
    """Return the mean L1 error, and the root mean square L2 error, of unbiased estimates."""
    # The variances of the estimates at the true counts, in closed form.
    variances = encoder.count_variances(truth)
    # The mean of |N(0, s)| is s sqrt(2 / pi).
    l1_mean = float(np.sqrt(variances * 2 / np.pi).sum())
    return l1_mean, float(np.sqrt(variances.sum()))


def errors_by_trust(
    true: NDArray[np.int64], *, epsilons: Sequence[float], delta: float
) -> pd.DataFrame:
    """Compute the expected L2 errors of counts by epsilon in the local, shuffle and central model."""
    n, k = int(true.sum()), true.size
    rows = []
    for epsilon in epsilons:
        # The larger local epsilon of n reports that have this one after shuffling.
        shuffled = local_epsilon(
            epsilon, delta=delta, n=n, reporter=partial(RandomizedResponse, k)
        )
        # The variance of discrete Laplace noise of ratio r is 2 r / (1 - r)**2.
        deviation = math.sqrt(2 * math.exp(-epsilon)) / -math.expm1(-epsilon)
        rows.append(
            {
                "local": _error_of_reports(true, epsilon),
                "shuffled": _error_of_reports(true, shuffled),
                "central": math.sqrt(k) * deviation,
            }
        )
    return pd.DataFrame(rows, index=pd.Index(epsilons, name="epsilon"))


def _error_of_reports(true: Any, epsilon: float) -> float:
    """Return the expected L2 error of counts by randomized response."""
    oracle = RandomizedResponse(true.size, epsilon)
    return math.sqrt(oracle.variance(true, int(true.sum())).sum())
