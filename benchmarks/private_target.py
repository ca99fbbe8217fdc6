"""How well models that protect the target, or some features, predict, beside those of whole records.

Run ``python benchmarks/private_target.py``. Splits and fits are seeded. Arguments: the number of splits, and the
published files of ACS Public Coverage and LSAC, which are fetched without.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from _timing import write_results
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from skdp import Domain, DPGaussianNB, DPLinearRegression, DPLogisticRegression
from skdp.datasets import load_acs_public_coverage, load_adult, load_lsac
from skdp.privacy import Mu

SPLITS = int((*sys.argv[1:2], "10")[0])
ACS = (*sys.argv[2:3], None)[0]
LSAC = (*sys.argv[3:4], None)[0]
DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 4.0)
SEEDS = 5
NB_SPLITS = 20
PROMISES = {"target": 'protect="target"', "record": "a record replaced"}
NONE, SHUFFLED = "no privacy", "ε = 0, targets shuffled"


def indicators(frame: pd.DataFrame, domain: Domain) -> np.ndarray:
    """Return the declared values and bins of each column as indicators."""
    parts = []
    for name in frame:
        attribute = domain[name]
        codes = attribute.encode(frame[name]).astype(int)
        parts.append(np.eye(len(attribute.values) + 1)[codes])
    return np.hstack(parts)


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    adult = load_adult()
    acs = load_acs_public_coverage(ACS)
    columns = adult.frame.drop(columns=["income", "fnlwgt"])
    return {
        "Adult": (
            indicators(columns, adult.domain),
            (adult.target == ">50K").to_numpy().astype(int),
        ),
        "ACS Public Coverage": (
            indicators(acs.data, acs.domain),
            acs.target.to_numpy().astype(int),
        ),
    }


def score(model: object, X: np.ndarray, y: np.ndarray) -> float:
    """Return the area under the curve of a classifier, and R² of a regression."""
    if hasattr(model, "decision_function"):
        return float(roc_auc_score(y, model.decision_function(X)))
    return float(model.score(X, y))


def budget_of(epsilon: float, protect: str) -> Mu:
    """Return the budget of a promise for values replaced of this epsilon."""
    mu = float(Mu.of(epsilon, DELTA).mu)
    if protect == "record":
        # A record replaced is one removed and one added: twice mu.
        mu /= 2
    return Mu(mu, DELTA)


def logistic(epsilon: float, protect: str, seed: int) -> DPLogisticRegression:
    return DPLogisticRegression(
        budget_of(epsilon, protect),
        bounds=(0, 1),
        classes=[0, 1],
        protect=protect,
        random_state=seed,
    )


def linear(epsilon: float, protect: str, seed: int) -> DPLinearRegression:
    return DPLinearRegression(
        budget_of(epsilon, protect),
        bounds=(0, 1),
        target_bounds=(0, 1),
        protect=protect,
        random_state=seed,
    )


MODELS = {
    "DPLogisticRegression, area": (logistic, LogisticRegression(max_iter=2_000)),
    "DPLinearRegression, R²": (linear, LinearRegression()),
}


# Of a model, a promise (or an end) and an epsilon: the score, and seconds of CPU.
Scores = dict[tuple[str, str, float], tuple[float, float]]


def ends_of(
    X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, split: int
) -> Scores:
    """Return what models score without privacy, and of targets in another order."""
    ends = {}
    shuffled = np.random.default_rng(split).permutation(y[train])
    for name, (_, exact) in MODELS.items():
        for end, targets in ((NONE, y[train]), (SHUFFLED, shuffled)):
            without = score(exact.fit(X[train], targets), X[test], y[test])
            for epsilon in EPSILONS:
                ends[name, end, epsilon] = without, 0.0
    return ends


def scores_of(X: np.ndarray, y: np.ndarray, split: int) -> Scores:
    """Return what all models score on a quarter of the rows."""
    train, test = train_test_split(
        np.arange(len(y)), test_size=0.25, random_state=split, stratify=y
    )
    scores = ends_of(X, y, train, test, split)
    for name, (make, _) in MODELS.items():
        for epsilon in EPSILONS:
            for protect in PROMISES:
                start = time.process_time()
                private = make(epsilon, protect, split).fit(X[train], y[train])
                seconds = time.process_time() - start
                area = score(private, X[test], y[test])
                scores[name, protect, epsilon] = area, seconds
    return scores


def rows_of(table: str, splits: Sequence[Scores]) -> list[list[str]]:
    """Return the rows of the results of models beside their two ends, over some splits."""
    rows = []
    for name in MODELS:
        for key, text in [*PROMISES.items(), (SHUFFLED, SHUFFLED), (NONE, NONE)]:
            cells = []
            seconds = []
            for epsilon in EPSILONS:
                results = [scores[name, key, epsilon] for scores in splits]
                numbers, times = zip(*results, strict=True)
                cells.append(mean_and_spread(numbers))
                seconds += times
            rows.append([table, name, text, *cells, f"{np.mean(seconds):.1f}"])
    return rows


def gaps_of(table: str, splits: Sequence[Scores]) -> list[list[str]]:
    """Return which share of a whole-record model's gap to no privacy is closed."""
    rows = []
    for name in MODELS:
        cells = []
        for epsilon in EPSILONS:
            gaps = []
            for scores in splits:
                without = scores[name, NONE, epsilon][0]
                of_target = without - scores[name, "target", epsilon][0]
                of_record = without - scores[name, "record", epsilon][0]
                gaps.append((of_target, of_record))
            cells.append(share_closed(np.array(gaps)))
        rows.append([table, name, *cells])
    return rows


def share_closed(gaps: np.ndarray) -> str:
    """Write the share by mean gaps, and its standard error by the jackknife."""
    of_target, of_record = gaps.mean(axis=0)
    without_one = (gaps.sum(axis=0) - gaps) / (len(gaps) - 1)
    shares = 1 - without_one[:, 0] / without_one[:, 1]
    error = np.sqrt(len(gaps) - 1) * shares.std()
    return f"{1 - of_target / of_record:.2f} ± {error:.2f}"


@dataclass(frozen=True)
class Case:
    """A table with private features, and bounds of all its columns."""

    name: str
    X: pd.DataFrame
    y: pd.Series
    private: list[str]
    bounds: dict[str, tuple[float, float]]
    target_bounds: tuple[float, float]


def adult_case() -> Case:
    """Working hours by the columns of Adult but for those that tell the sex, sex and age private."""
    frame = load_adult().frame
    words = ["workclass", "education", "occupation", "race"]
    public = pd.get_dummies(frame[words], dtype=float)
    X = public.assign(sex=(frame["sex"] == "Male").astype(float), age=frame["age"])
    bounds = dict.fromkeys(X, (0.0, 1.0)) | {"age": (17.0, 90.0)}
    hours = frame["hours-per-week"]
    return Case("Adult", X, hours, ["sex", "age"], bounds, (1.0, 99.0))


def acs_case() -> Case:
    """Public coverage as a number, sex and age private."""
    acs = load_acs_public_coverage(ACS)
    X = acs.data.astype(float)
    bounds = {name: (0.0, float(acs.domain[name].values[-1])) for name in X}
    y = acs.target.astype(float)
    return Case("ACS Public Coverage", X, y, ["SEX", "AGEP"], bounds, (0.0, 1.0))


def lsac_case() -> Case:
    """Scores of LSAC, race and the income of the family private."""
    lsac = load_lsac(LSAC)
    X = lsac.frame.drop(columns="lsat").astype(float)
    bounds = {name: (0.0, float(lsac.domain[name].values[-1])) for name in X}
    y = lsac.frame["lsat"].astype(float)
    return Case("LSAC", X, y, ["race1", "fam_inc"], bounds, (0.0, 36.0))


def generated_case() -> Case:
    """Ten normal columns, a binary and a bounded one that follow from them in part."""
    rng = np.random.default_rng(7)
    names = [f"x{number}" for number in range(10)]
    X = pd.DataFrame(rng.normal(size=(20_000, 10)).clip(-4, 4), columns=names)
    X["z"] = (X["x0"] + rng.normal(size=len(X)) > 0).astype(float)
    X["w"] = (0.3 * X["x1"] + 0.3 * X["z"] + 0.5 * rng.normal(size=len(X))).clip(-2, 2)
    y = X @ np.append(rng.normal(size=10) / 2, [1.0, -0.5]) + rng.normal(size=len(X))
    bounds = dict.fromkeys(names, (-4.0, 4.0)) | {"z": (0.0, 1.0), "w": (-2.0, 2.0)}
    return Case("generated", X, y.clip(-10, 10), ["z", "w"], bounds, (-10.0, 10.0))


def feature_model(
    case: Case, epsilon: float, promise: str, seed: int
) -> DPLinearRegression:
    """Return a model with a promise for values replaced of this epsilon."""
    protect: dict[str, str | list[str]] = {
        "features": case.private,
        "both": [*case.private, case.y.name or "target"],
        "record": "record",
    }
    return DPLinearRegression(
        budget_of(epsilon, promise),
        bounds=case.bounds,
        target_bounds=None if promise == "features" else case.target_bounds,
        protect=protect[promise],
        random_state=seed,
    )


FEATURE_PROMISES = {
    "features": "the private features replaced",
    "both": "the private features and the target replaced",
    "record": "a record replaced",
}


def rows_of_features(case: Case) -> list[list[str]]:
    """Return the rows of a table of results of private features: R² of held-out rows."""
    scores: dict[tuple[str, float], list[float]] = {}
    ends: dict[str, list[float]] = {"none": [], "ε = 0, private features shuffled": []}
    for seed in range(SEEDS):
        train, test = train_test_split(
            np.arange(len(case.y)), test_size=0.25, random_state=seed
        )
        X, y = case.X.iloc[train], case.y.iloc[train]
        held_out = case.X.iloc[test], case.y.iloc[test]
        ends["none"].append(LinearRegression().fit(X, y).score(*held_out))
        order = np.random.default_rng(seed).permutation(len(X))
        shuffled = X.copy()
        shuffled[case.private] = X[case.private].to_numpy()[order]
        without = LinearRegression().fit(shuffled, y).score(*held_out)
        ends["ε = 0, private features shuffled"].append(without)
        for promise in FEATURE_PROMISES:
            for epsilon in EPSILONS:
                model = feature_model(case, epsilon, promise, seed).fit(X, y)
                cell = scores.setdefault((promise, epsilon), [])
                cell.append(float(model.score(*held_out)))
    rows = []
    features = ", ".join(case.private)
    for promise, text in FEATURE_PROMISES.items():
        cells = [mean_and_spread(scores[promise, epsilon]) for epsilon in EPSILONS]
        rows.append([case.name, features, text, *cells])
    for text, numbers in ends.items():
        cells = [mean_and_spread(numbers)] * len(EPSILONS)
        rows.append([case.name, features, text, *cells])
    return rows


def small_tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return tables of numbers with few rows, and Adult's numbers."""
    diabetes = load_diabetes()
    thirds = np.digitize(diabetes.target, np.quantile(diabetes.target, [1 / 3, 2 / 3]))
    adult = load_adult()
    numbers = adult.frame[["age", "hours-per-week"]].to_numpy(float)
    return {
        "wine": load_wine(return_X_y=True),
        "breast cancer": load_breast_cancer(return_X_y=True),
        "iris": load_iris(return_X_y=True),
        "diabetes in thirds": (diabetes.data, thirds),
        "digits": load_digits(return_X_y=True),
        "Adult's ages and hours": (
            numbers,
            (adult.target == ">50K").to_numpy().astype(int),
        ),
    }


def rows_of_classes(name: str, X: np.ndarray, y: np.ndarray) -> list[list[str]]:
    """Return the rows of a table of results of naive Bayes: the share that is classified correctly."""
    bounds = np.column_stack([X.min(axis=0), X.max(axis=0)])
    bounds[:, 1] += bounds[:, 1] == bounds[:, 0]
    classes = np.unique(y).tolist()
    scores: dict[tuple[str, float], list[float]] = {}
    for split in range(NB_SPLITS):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=0.25, random_state=split, stratify=y
        )
        exact = GaussianNB().fit(X_train, y_train).score(X_test, y_test)
        scores.setdefault((NONE, 0.0), []).append(exact)
        order = np.random.default_rng(split).permutation(len(y_train))
        shuffled = GaussianNB().fit(X_train, y_train[order]).score(X_test, y_test)
        scores.setdefault((SHUFFLED, 0.0), []).append(shuffled)
        for epsilon in EPSILONS:
            for protect in PROMISES:
                # A record replaced is one removed and one added.
                half = 1 if protect == "target" else 2
                model = DPGaussianNB(
                    epsilon / half,
                    bounds=bounds if protect == "record" else None,
                    classes=classes,
                    protect=protect,
                    random_state=split,
                ).fit(X_train, y_train)
                cell = scores.setdefault((protect, epsilon), [])
                cell.append(model.score(X_test, y_test))
    rows = []
    for protect, text in PROMISES.items():
        cells = [mean_and_spread(scores[protect, epsilon]) for epsilon in EPSILONS]
        rows.append([name, text, *cells])
    for end in (SHUFFLED, NONE):
        cells = [mean_and_spread(scores[end, 0.0])] * len(EPSILONS)
        rows.append([name, end, *cells])
    return rows


def mean_and_spread(numbers: Sequence[float]) -> str:
    return f"{np.mean(numbers):.4f} ± {np.std(numbers):.4f}"


def write(
    rows: list[list[str]],
    gaps: list[list[str]],
    of_features: list[list[str]],
    of_classes: list[list[str]],
) -> None:
    epsilons = [f"ε = {epsilon:g}" for epsilon in EPSILONS]
    sections = {
        "Prediction, promise for the target replaced": (
            ["table", "model", "fit", *epsilons, "CPU s a fit"],
            rows,
        ),
        "Share of a whole-record model's gap to no privacy that is closed": (
            ["table", "model", *epsilons],
            gaps,
        ),
        f"Private features: R² of DPLinearRegression, {SEEDS} seeds": (
            ["table", "private features", "promise for", *epsilons],
            of_features,
        ),
        f"Shares that DPGaussianNB classifies correctly, pure ε, {NB_SPLITS} splits": (
            ["table", "fit", *epsilons],
            of_classes,
        ),
    }
    write_results(
        "private_target",
        "Models that protect the target",
        ["skdp", "numpy", "scikit-learn"],
        f"Means and standard deviations over {SPLITS} splits, a quarter of the rows "
        f"held out, δ = {DELTA:g}. All columns are indicators of declared values and "
        "bins. All promises are for values replaced: that for a record replaced, which "
        'is twice the μ of one added or removed, implies that of `protect="target"`, '
        "which leaves all other columns and the number of rows public. At ε = 0, the "
        "target is in another order. A share is 1 less the ratio of mean gaps, and its "
        "standard error is that of the jackknife over splits.",
        sections,
    )


def main() -> None:
    warnings.simplefilter("ignore")
    rows: list[list[str]] = []
    gaps: list[list[str]] = []
    for name, (X, y) in tables().items():
        splits = [scores_of(X, y, split) for split in range(SPLITS)]
        rows += rows_of(name, splits)
        gaps += gaps_of(name, splits)
    of_features = []
    for make in (adult_case, acs_case, lsac_case, generated_case):
        of_features += rows_of_features(make())
    of_classes = []
    for name, (X, y) in small_tables().items():
        of_classes += rows_of_classes(name, X, y)
    write(rows, gaps, of_features, of_classes)


if __name__ == "__main__":
    main()
