"""Classifiers of synthetic rows with a fair label, beside reweighing and leaving the column out, on real test rows.

Run ``make bench``, or ``python benchmarks/fair_rows.py`` wherever skdp is installed; COMPAS, LSAC and ACS Public
Coverage are read from the folder in the first argument, or fetched. All classifiers learn from rows of one
synthesizer, and are scored on real rows that it has not seen. The method was chosen on Adult and COMPAS alone.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _timing import write_results
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from skdp import DPMarginalSynthesizer
from skdp.datasets import (
    load_acs_public_coverage,
    load_adult,
    load_compas,
    load_lsac,
)

EPSILONS, DELTA = (1.0, 10.0), 1e-6
N_ROWS = 50_000
"""Synthetic rows to learn from: more than few records, as they cost nothing."""
N_RELEASES = {
    "Adult, sex": 5,
    "COMPAS, race": 10,
    "LSAC, race": 5,
    "ACS, disability": 3,
}
FILES = {
    "COMPAS, race": "compas_two_years.csv.gz",
    "LSAC, race": "lsac.csv.gz",
    "ACS, disability": "acs_public_coverage.csv.gz",
}
CLASSIFIERS = ("boosting", "logistic regression")


def halves(name: str, seed: int) -> tuple[pd.DataFrame, pd.DataFrame, Any, str, str]:
    """Return real rows to measure and to test, their domain, the group and the label."""
    if name.startswith("Adult"):
        train = load_adult(dropna=True)
        test = load_adult(subset="test", dropna=True)
        return train.frame, test.frame, train.domain, "sex", "income"
    paths = []
    if len(sys.argv) > 1:
        paths.append(Path(sys.argv[1]) / FILES[name])
    if name.startswith("LSAC"):
        data, group = load_lsac(*paths), "race1"
    elif name.startswith("ACS"):
        data, group = load_acs_public_coverage(*paths), "DIS"
    else:
        data, group = load_compas(*paths), "race"
    label = data.target.name
    frame = data.frame
    columns = {name: data.domain[name] for name in data.domain.columns}
    if group == "race":
        # Groups as in the literature: two races have 83 % of the rows.
        race = frame["race"].astype(str)
        other = ~race.isin(["African-American", "Caucasian"])
        frame = frame.assign(race=race.mask(other, "Other"))
        columns["race"] = ["African-American", "Caucasian", "Other"]
    train, test = train_test_split(frame, test_size=0.3, random_state=seed)
    return train, test, columns, group, label


def make_classifier(kind: str, features: pd.DataFrame) -> Any:
    """Make a classifier of mixed columns."""
    text = [name for name in features if features[name].dtype.kind not in "if"]
    numbers = [name for name in features if name not in text]
    if kind == "boosting":
        encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        transformer = make_column_transformer(
            (encoder, text), ("passthrough", numbers), remainder="drop"
        )
        is_categorical = [True] * len(text) + [False] * len(numbers)
        model = HistGradientBoostingClassifier(
            categorical_features=is_categorical, random_state=0
        )
        return make_pipeline(transformer, model)
    transformer = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), text), (StandardScaler(), numbers)
    )
    return make_pipeline(transformer, LogisticRegression(max_iter=1000))


def reweighing(rows: pd.DataFrame, group: str, label: str) -> np.ndarray:
    """Return the weights of Kamiran and Calders: P(group) P(label) / P(group, label)."""
    both = rows.groupby([group, label], observed=True)[label].transform("size")
    of_group = rows.groupby(group, observed=True)[label].transform("size")
    of_label = rows.groupby(label, observed=True)[label].transform("size")
    return (of_group * of_label / (len(rows) * both)).to_numpy(float)


def probabilities(
    kind: str,
    rows: pd.DataFrame,
    test: pd.DataFrame,
    dropped: list[str],
    label: str,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Train on rows, and predict real ones."""
    features = rows.drop(columns=[label, *dropped])
    model = make_classifier(kind, features)
    step = model.steps[-1][0]
    is_positive = rows[label] == max(test[label].unique())
    model.fit(features, is_positive, **{f"{step}__sample_weight": weights})
    return model.predict_proba(test[features.columns])[:, 1]


def score(
    probability: np.ndarray, test: pd.DataFrame, group: str, label: str
) -> dict[str, float]:
    """Score predictions of real rows, by the first two groups."""
    decision = probability > 0.5
    truth = (test[label] == max(test[label].unique())).to_numpy()
    shares = []
    variance = 0.0
    for value in sorted(test[group].unique())[:2]:
        of_group = decision[(test[group] == value).to_numpy()]
        shares.append(of_group.mean())
        variance += shares[-1] * (1 - shares[-1]) / of_group.size
    return {
        "AUC": float(roc_auc_score(truth, probability)),
        "difference": float(shares[1] - shares[0]),
        "by chance": math.sqrt(2 / math.pi * variance),
        "accuracy": float((decision == truth).mean()),
    }


def barycentre(probability: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return scores with the same distribution in each group, nearest to those given."""
    ranks = pd.Series(probability).groupby(groups).rank(method="first", pct=True)
    fair = np.zeros(probability.size)
    for group in np.unique(groups):
        scores = probability[groups == group]
        fair += scores.size / groups.size * np.quantile(scores, ranks)
    return fair


def compare(name: str, epsilon: float, seed: int) -> Iterator[dict[str, Any]]:
    """Score classifiers of synthetic rows."""
    train, test, domain, group, label = halves(name, seed)
    plain, test = as_text(train), as_text(test)
    synthesizer = DPMarginalSynthesizer(
        epsilon, delta=DELTA, domain=domain, target=label, random_state=seed
    )
    n_rows = max(len(plain), N_ROWS)
    rows = as_text(synthesizer.fit(plain).sample(n_rows))
    fair = synthesizer.set_params(fair=(group, label)).fit(plain).sample(n_rows)
    learn: dict[str, tuple[pd.DataFrame, list[str], np.ndarray | None]] = {
        "rows": (rows, [], None),
        "rows without the column": (rows, [group], None),
        "rows, reweighed": (rows, [], reweighing(rows, group, label)),
        "fair rows": (as_text(fair), [], None),
    }
    for kind in CLASSIFIERS:
        for method, (table, dropped, weights) in learn.items():
            probability = probabilities(kind, table, test, dropped, label, weights)
            figures = score(probability, test, group, label)
            keys = {"epsilon": epsilon, "classifier": kind, "method": method}
            yield {"table": name, **keys, **figures}


def limits(name: str, seed: int) -> Iterator[dict[str, Any]]:
    """Score what real rows, without any noise, would give."""
    train, test, _, group, label = halves(name, seed)
    train, test = as_text(train), as_text(test)
    groups = test[group].to_numpy()
    for kind in CLASSIFIERS:
        of_real = probabilities(kind, train, test, [], label)
        fair = barycentre(of_real, groups)
        weights = reweighing(train, group, label)
        scores = {
            "scores": of_real,
            "scores without the column": probabilities(
                kind, train, test, [group], label
            ),
            "scores, reweighed": probabilities(kind, train, test, [], label, weights),
            "barycentre of scores": fair,
            # As many of each group are accepted, and scores are kept else.
            "its decisions, then scores": (fair > 0.5) / 2 + of_real / 2,
        }
        for method, probability in scores.items():
            figures = score(probability, test, group, label)
            yield {"table": name, "classifier": kind, "method": method, **figures}


def as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with columns of text in place of categories."""
    text = {n: str for n in frame if frame[n].dtype == "category"}
    return frame.astype(text)


def tabulate(found: list[dict[str, Any]], keys: list[str]) -> Any:
    """Return the means of all releases, as a table."""
    rows = []
    for key, part in pd.DataFrame(found).groupby(keys, sort=False):
        means = part.drop(columns=keys).mean()
        rows.append(
            (
                *map(str, key),
                f"{means['AUC']:.3f}",
                f"{part['difference'].abs().mean():.3f}",
                f"{means['by chance']:.3f}",
                f"{means['difference']:+.3f}",
                f"{means['accuracy']:.3f}",
            )
        )
    figures = ("AUC", "gap", "gap by chance", "mean difference", "accuracy")
    return (*keys, *figures), rows


def main() -> None:
    found = []
    bounds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, n_releases in N_RELEASES.items():
            for seed in range(n_releases):
                bounds += list(limits(name, seed))
                for epsilon in EPSILONS:
                    found += list(compare(name, epsilon, seed))
    counts = ", ".join(f"{name}: {n}" for name, n in N_RELEASES.items())
    write_results(
        "fair_rows",
        "Fair rows",
        ("skdp", "scikit-learn"),
        f"Means over releases ({counts}) with delta {DELTA:g} and `target=` the label. Classifiers learn from "
        f"{N_ROWS:,} synthetic rows, or as many as there are persons if these are more, and are scored on real ones: "
        "AUC, accuracy, and the gap of demographic parity, the distance of the shares of two groups that are accepted, "
        "beside the gap that so few test rows show on average if the shares are equal, and the mean of the signed "
        "differences. Adult: sex, and its test rows; COMPAS: African-American and Caucasian; LSAC: race; ACS Public "
        "Coverage: disability; of these three 30 % of the rows, another split for each release. The method was "
        "chosen on Adult and COMPAS. `fair rows` are those of `fair=(group, label)`; reweighing is that of Kamiran and "
        "Calders.",
        {
            "On real rows": tabulate(
                found, ["table", "epsilon", "classifier", "method"]
            ),
            "Without noise: classifiers of real rows": tabulate(
                bounds, ["table", "classifier", "method"]
            ),
        },
    )


if __name__ == "__main__":
    main()
