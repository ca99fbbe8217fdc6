"""Errors and coverage of fairness metrics, fair models from private groups, and the privacy curve.

- "report": `fairness_report` on 1,000 rows that are drawn from the table with replacement.
- "debiased": `debiased_fairness` on reports of the groups. Each repeat draws new reports of
  the same rows. "error" is the mean absolute error of five metrics, "coverage" is the
  fraction of 95 % intervals that cover, and "width" is their mean width.
- "mitigation": equalized odds by fairlearn, with reported groups (`private_parity`), with
  synthetic rows (`DPMarginalSynthesizer`), and with reports that are used as groups without
  correction. "violation" is the largest difference of true and false positive rates of the
  true groups in test rows, and "error" is the misclassification rate.
- "curve": `privacy_curve` of a logistic regression of four reported columns. The results are
  the score, and the CPU time divided by the time of a loop of fits and predictions.
- "study": `fairness_study` of boosted trees with the protected columns of two papers. The
  results are the accuracy and the statistical parity difference, of the first sensitive
  column and of the intersection of two, with reports, minus the results with the true
  columns ("without privacy") and without the columns, with 95 % margins of error over ten
  splits.

Decisions of fairlearn are random, and the metrics are expectations over its draws.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from _tables import Table, adult, load_published, synthesize
from _tasks import Task, keep_scores, list_seeds
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import Domain

Numbers = NDArray[np.float64]
Intervals = list[pd.DataFrame]  # Estimates of a repeat: value, lower, upper and truth.

DELTA = 1e-6
N_QUICK_ROWS = 400
N_DRAWN_ROWS = 1_000
N_MITIGATION_ROWS = 6_000
MAX_ITERATIONS = 15
GROUPS = {"sex": ["Female", "Male"], "race": ["Other", "White"]}


# Metrics of groups


@dataclass(frozen=True, eq=False)
class PeopleTable:
    """Groups of people, their labels, and the predictions of a model."""

    groups: pd.DataFrame
    privileged: dict[str, Any]
    y_true: Numbers
    y_pred: Numbers

    @cache  # noqa: B019 (tables live as long as the process)
    def truth(self) -> dict[tuple[str, str], float]:
        """Return the metrics of these rows."""
        is_privileged = (
            (self.groups == pd.Series(self.privileged)).all(axis=1).to_numpy()
        )
        rates = []
        for chosen in (~is_privileged, is_privileged):
            true, predicted = self.y_true[chosen], self.y_pred[chosen]
            by_label = [predicted[true == label].mean() for label in (1, 0)]
            rates.append([predicted.mean(), *by_label])
        selected, tpr, fpr = np.array(rates).T
        return {
            ("selection_rate", "unprivileged"): selected[0],
            ("selection_rate", "privileged"): selected[1],
            ("statistical_parity_difference", ""): selected[0] - selected[1],
            ("equal_opportunity_difference", ""): tpr[0] - tpr[1],
            ("average_odds_difference", ""): (tpr[0] - tpr[1] + fpr[0] - fpr[1]) / 2,
        }


def people_tables(quick: bool) -> dict[str, Callable[[], PeopleTable]]:
    if quick:
        return {"Adult, sex": partial(predict_adult, {"sex": "Male"}, 4_000)}
    both = partial(predict_adult, {"race": "White", "sex": "Male"})
    return {
        "Adult, sex": partial(predict_adult, {"sex": "Male"}),
        "Adult, race x sex": both,
    }


def report(table: PeopleTable, epsilon: float, seed: int) -> Intervals:
    """Report metrics of rows that are drawn with replacement, with intervals."""
    from skdp.metrics import fairness_report

    found = []
    for one in list_seeds(seed):
        rng = np.random.default_rng(one)
        rows = rng.integers(len(table.y_true), size=N_DRAWN_ROWS)
        frame = fairness_report(
            table.y_true[rows],
            table.y_pred[rows],
            table.groups.iloc[rows].reset_index(drop=True),
            privileged=table.privileged,
        )
        found.append(join_truth(frame, table.truth()))
    return found


def join_truth(
    frame: pd.DataFrame, truth: dict[tuple[str, str], float]
) -> pd.DataFrame:
    """Select metrics that have a true value, and add it."""
    keys = zip(frame["metric"], frame["group"].fillna("").astype(str), strict=True)
    frame = frame.assign(truth=[truth.get(key, np.nan) for key in keys])
    return frame.dropna(subset="truth")[["value", "lower", "upper", "truth"]]


def score_intervals(table: Any, found: Intervals) -> dict[str, float]:
    """Mean absolute error, coverage and mean width of intervals."""
    frame = pd.concat(found)
    covers = frame["truth"].between(frame["lower"] - 1e-9, frame["upper"] + 1e-9)
    return {
        "error": (frame["value"] - frame["truth"]).abs().mean(),
        "coverage": covers.mean(),
        "width": (frame["upper"] - frame["lower"]).mean(),
    }


def predict_adult(privileged: dict[str, Any], n_rows: int | None = None) -> PeopleTable:
    """Predict test rows of Adult."""
    table, names = adult(), list(privileged)
    train, test = table.train[:n_rows], table.test[:n_rows].reset_index(drop=True)
    names_used = [n for n in table.columns if n not in ("income", *names)]
    model = LogisticRegression(solver="liblinear")
    model.fit(one_hot_codes(table, train, names_used), table.is_positive(train))
    y_pred = model.predict(one_hot_codes(table, test, names_used)).astype(int)
    groups = test[names].astype(object)
    if "race" in names:
        groups["race"] = np.where(groups["race"] == "White", "White", "Other")
    y_true = table.is_positive(test).astype(int)
    return PeopleTable(groups, privileged, y_true, y_pred)


def one_hot_codes(table: Table, rows: pd.DataFrame, names: list[str]) -> Numbers:
    """Build indicators of all declared values or bins."""
    codes = table.encode(rows)
    return np.hstack([np.eye(table.sizes[name])[codes[name]] for name in names])


def debias(
    table: PeopleTable, epsilon: float, seed: int, name: str, **options: Any
) -> Intervals:
    """Estimate the metrics from reports of the groups."""
    import skdp
    from skdp.metrics import debiased_fairness

    domain = {column: GROUPS[column] for column in table.groups}
    found = []
    for one in list_seeds(seed):
        encoder = getattr(skdp, name)(
            epsilon, categories=domain, random_state=one, **options
        )
        reports = encoder.fit_transform(table.groups)
        frame = debiased_fairness(
            table.y_true,
            table.y_pred,
            reports,
            encoder,
            privileged=table.privileged,
            rows="table",
        )
        found.append(join_truth(frame, table.truth()))
    return found


JOINT = partial(debias, strategy="joint")
DEBIASING_METHODS = {
    "randomized response": partial(debias, name="RandomizedResponseEncoder"),
    "randomized response, joint": partial(JOINT, name="RandomizedResponseEncoder"),
    "unary encoding, joint": partial(JOINT, name="UnaryEncodingTransformer"),
    "subset selection, joint": partial(JOINT, name="SubsetSelectionEncoder"),
}


# Fair models


@dataclass(frozen=True, eq=False)
class FairTable:
    """A table with a column of two groups."""

    table: Table
    group: str

    @property
    def values(self) -> list[Any]:
        """The two groups."""
        return list(self.table.domain[self.group].values)


def fair_tables(quick: bool) -> dict[str, Callable[[], FairTable]]:
    """Return published tables with two groups."""
    if quick:
        return {"Adult, sex": partial(choose, adult, "sex", N_QUICK_ROWS)}
    groups = {"Adult": "sex", "LSAC": "gender", "ACS": "SEX"}
    return {
        f"{name}, {groups[name]}": partial(choose, load, groups[name])
        for name, load in load_published().items()
        if name in groups
    }


def choose(
    load: Callable[[], Table], group: str, n_rows: int = N_MITIGATION_ROWS
) -> FairTable:
    """Take some rows of a table."""
    table = load()
    parts = [part[:n_rows].reset_index(drop=True) for part in (table.train, table.test)]
    return FairTable(Table(*parts, table.domain, table.target), group)


def encode_features(data: FairTable, rows: pd.DataFrame) -> Numbers:
    """Build indicators of all columns except the group and the target."""
    names = [n for n in data.table.columns if n not in (data.group, data.table.target)]
    return one_hot_codes(data.table, rows, names)


def reduce(
    data: FairTable, rows: pd.DataFrame, groups: Any, constraints: Any
) -> Numbers:
    """Train with fairlearn's reduction, and return the probabilities of test rows."""
    from fairlearn.reductions import ExponentiatedGradient

    model = ExponentiatedGradient(
        LogisticRegression(solver="liblinear"), constraints, max_iter=MAX_ITERATIONS
    )
    label = data.table.is_positive(rows).astype(int)
    model.fit(encode_features(data, rows), label, sensitive_features=groups)
    features = encode_features(data, data.table.test)
    weights = model.weights_
    chances = [
        weights[i] * model.predictors_[i].predict(features) for i in weights.index
    ]
    return np.sum(chances, axis=0)


def constrain_odds(data: FairTable, rows: pd.DataFrame, groups: Any) -> Numbers:
    """Train with fairlearn's constraint of equalized odds."""
    from fairlearn.reductions import EqualizedOdds

    return reduce(data, rows, groups, EqualizedOdds(difference_bound=0.01))


def report_groups(
    data: FairTable, epsilon: float, seed: int
) -> tuple[Any, pd.DataFrame]:
    """Report the groups of the training rows."""
    from skdp import RandomizedResponseEncoder

    domain = {data.group: data.values}
    encoder = RandomizedResponseEncoder(epsilon, categories=domain, random_state=seed)
    return encoder, encoder.fit_transform(data.table.train[[data.group]].astype(object))


def constrain_groups(data: FairTable, epsilon: float, seed: int) -> Numbers:
    """Constrain the odds of the true groups, estimated from their reports."""
    from skdp.metrics import private_parity

    encoder, reports = report_groups(data, epsilon, seed)
    constraints = private_parity(encoder, difference_bound=0.01)
    return reduce(data, data.table.train, reports, constraints)


def constrain_reports(data: FairTable, epsilon: float, seed: int) -> Numbers:
    """Constrain the odds of the reported groups."""
    _, reports = report_groups(data, epsilon, seed)
    return constrain_odds(data, data.table.train, reports[data.group])


def constrain_synthetic(data: FairTable, epsilon: float, seed: int) -> Numbers:
    """Constrain the odds of the groups of synthetic rows."""
    options = {"delta": DELTA, "target": data.table.target}
    rows = synthesize(data.table, epsilon, seed, **options)
    return constrain_odds(data, rows, rows[data.group].astype(object))


def resample_rows(data: FairTable, seed: int) -> pd.DataFrame:
    """Draw training rows with replacement."""
    return data.table.train.sample(frac=1, replace=True, random_state=seed)


def constrain_truth(data: FairTable, epsilon: float, seed: int) -> Numbers:
    """Constrain the odds of the true groups."""
    rows = resample_rows(data, seed).reset_index(drop=True)
    return constrain_odds(data, rows, rows[data.group].astype(object))


def fit_unconstrained(data: FairTable, epsilon: float, seed: int) -> Numbers:
    """Fit a logistic regression without constraint."""
    rows = resample_rows(data, seed)
    model = LogisticRegression(solver="liblinear")
    model.fit(encode_features(data, rows), data.table.is_positive(rows))
    return model.predict(encode_features(data, data.table.test)).astype(float)


def score_decisions(data: FairTable, chance: Numbers) -> dict[str, float]:
    """Error and violation of equalized odds on test rows."""
    y_true = data.table.is_positive(data.table.test)
    is_second = (
        data.table.test[data.group].astype(object) == data.values[1]
    ).to_numpy()
    gaps = []
    for label in (False, True):
        rates = [chance[(y_true == label) & (is_second == b)].mean() for b in (0, 1)]
        gaps.append(abs(rates[1] - rates[0]))
    error = np.mean(np.where(y_true, 1 - chance, chance))
    return {"error": error, "violation": max(gaps)}


# The privacy curve


def curve_tables(quick: bool) -> dict[str, Callable[[], Table]]:
    n_rows = N_QUICK_ROWS if quick else 4_000
    return {"Adult, 4,000 rows": lambda: choose(adult, "sex", n_rows).table}


def trace_curve(table: Table, epsilon: float, seed: int) -> dict[str, float]:
    """Score a pipeline with `privacy_curve`, and time a plain loop of the same fits."""
    from skdp import RandomizedResponseEncoder
    from skdp.evaluation import privacy_curve

    domain = table.domain.select(["sex", "race", "relationship", "occupation"])
    encoder = RandomizedResponseEncoder(categories=domain, random_state=seed)
    one_hot = OneHotEncoder(handle_unknown="ignore")
    model = make_pipeline(encoder, one_hot, LogisticRegression(max_iter=1_000))
    X = table.train[list(domain.columns)].astype(object)
    y = pd.Series(table.is_positive(table.train).astype(int))
    parameter = "randomizedresponseencoder__epsilon"
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    options: dict[str, Any] = {"scoring": "roc_auc", "baseline": None, "cv": folds}
    options |= {"param_name": parameter, "epsilons": [epsilon], "random_state": seed}
    start = time.process_time()
    curve = privacy_curve(model, X, y, **options)
    middle = time.process_time()
    for train, test in folds.split(X, y):
        fitted = clone(model).set_params(**{parameter: epsilon})
        fitted.fit(X.iloc[train], y.iloc[train]).predict_proba(X.iloc[test])
    end = time.process_time()
    ratio = (middle - start) / (end - middle)
    return {"AUC": curve["value"].mean(), "time ratio": ratio}


# The study of reports and baselines

# The protected columns of arXiv 2304.12845 and 2312.04404.
PROTECTED = {
    "ACS": ["DIS", "AGEP", "SEX", "SCHL"],
    "LSAC": ["race1", "fam_inc", "gender", "fulltime"],
    "Adult": ["sex", "race", "native-country", "age"],
    "COMPAS": ["race", "sex", "age"],
}
# The columns that have the groups, and their privileged values.
SENSITIVE = {
    "ACS": {"DIS": 1, "SEX": 1},
    "LSAC": {"race1": 1, "gender": 1},
    "Adult": {"sex": "Male", "race": "White"},
    "COMPAS": {"race": "Caucasian", "sex": "Female"},
}


@dataclass(frozen=True, eq=False)
class StudyTable:
    """A table, its protected columns, and the privileged values of two of them."""

    table: Table
    protected: list[str]
    privileged: dict[str, Any]


def study_tables(quick: bool) -> dict[str, Callable[[], StudyTable]]:
    """Return published tables and a generated one."""
    if quick:
        return {"generated": partial(generate_groups, N_QUICK_ROWS)}
    return {"generated": partial(generate_groups, 10_000)} | {
        name: partial(protect, name, load) for name, load in load_published().items()
    }


def protect(name: str, load: Callable[[], Table]) -> StudyTable:
    """Return a published table with its protected columns."""
    return StudyTable(load(), PROTECTED[name], SENSITIVE[name])


def generate_groups(n_rows: int) -> StudyTable:
    """Generate a table in which the label depends on the group, and other columns are correlated with the group."""
    # 30 % are in the minority group, whose labels are lower at the same merit.
    rng = np.random.default_rng(0)
    group = (rng.random(n_rows) < 0.7).astype(int)
    merit = rng.normal(size=n_rows)
    noisy_merit = merit + rng.normal(0, 0.5, n_rows)
    level = 1.2 * merit + 1.2 * (group - 0.7) + rng.logistic(0, 0.5, n_rows)
    rows = pd.DataFrame(
        {
            "group": group,
            "age": rng.integers(0, 6, n_rows),
            "district": rng.binomial(4, np.where(group == 1, 0.6, 0.4)),
            "grade": np.digitize(noisy_merit, [-1.0, -0.3, 0.3, 1.0]),
            "label": (level > 0).astype(int),
        }
    )
    domain = {name: sorted(rows[name].unique().tolist()) for name in rows}
    table = Table(rows, rows, Domain(domain), "label")
    return StudyTable(table, ["group", "age"], {"group": 1, "age": [3, 4, 5]})


def study_reports(data: StudyTable, epsilon: float, seed: int) -> dict[str, float]:
    """Compare trees that are trained on reports with trees with and without the true columns."""
    from skdp import RandomizedResponseEncoder
    from skdp.evaluation import compare_to_baseline, fairness_study

    table = data.table
    X = table.train[[name for name in table.columns if name != table.target]]
    study = fairness_study(
        HistGradientBoostingClassifier(max_iter=50, random_state=0),
        X,
        pd.Series(table.is_positive(table.train).astype(int)),
        encoder=RandomizedResponseEncoder(
            categories=table.domain.select(data.protected)
        ),
        epsilons=[epsilon],
        domain=table.domain.select(list(X)),
        sensitive_features=list(data.privileged),
        privileged=data.privileged,
        n_splits=10,
        random_state=seed,
    )
    # A parity gap is a distance from 0.
    first, both = (
        f"statistical_parity_difference [{', '.join(names)}]"
        for names in (list(data.privileged)[:1], data.privileged)
    )
    is_parity = study["metric"].isin([first, both])
    study["value"] = study["value"].where(~is_parity, study["value"].abs())
    metrics = {"accuracy": "accuracy", "parity gap": first}
    metrics["parity gap of two columns"] = both
    scores = {}
    for baseline in ("without privacy", "columns excluded"):
        costs = compare_to_baseline(study, baseline=baseline)
        costs = costs[costs["method"] == "reported"].set_index("metric")
        for name, metric in metrics.items():
            row = costs.loc[metric]
            scores[f"{name} - {baseline}"] = row["difference"]
            scores[f"{name} - {baseline}, margin"] = row["upper"] - row["difference"]
    return scores


TASKS = {
    "report": Task(
        people_tables, {"fairness_report": report}, score_intervals, (math.inf,), 16
    ),
    "debiased": Task(people_tables, DEBIASING_METHODS, score_intervals, (1.0, 4.0), 16),
    "mitigation": Task(
        fair_tables,
        {
            "private_parity": constrain_groups,
            "fairlearn on reports": constrain_reports,
            "fairlearn on synthetic rows": constrain_synthetic,
        },
        score_decisions,
        epsilons=(1.0, 4.0),
        n_seeds=5,
    ),
    "mitigation without privacy": Task(
        fair_tables,
        {"fairlearn": constrain_truth, "unconstrained": fit_unconstrained},
        score_decisions,
        epsilons=(math.inf,),
        n_seeds=5,
    ),
    "curve": Task(
        curve_tables, {"privacy_curve": trace_curve}, keep_scores, (1.0, 4.0), 4
    ),
    "study": Task(
        study_tables, {"fairness_study": study_reports}, keep_scores, (1.0, 4.0), 2
    ),
}
