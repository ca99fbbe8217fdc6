"""What a classifier gains from the posterior of each report, beside raw reports and unbiased bits.

Run ``make bench``, or ``python benchmarks/posterior_features.py`` wherever skdp is installed. Five columns of Adult are
privatised in all rows, training and test alike; the other columns are left as they are, or left out. All features of a
seed come from the same reports, so their differences have little noise.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
from _timing import write_results
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult
from skdp.local import (
    PosteriorFeatures,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)

COLUMNS = ["relationship", "education", "occupation", "marital-status", "workclass"]
NUMBERS = ["age", "education-num", "hours-per-week", "capital-gain", "capital-loss"]
EPSILONS = (1.0, 4.0)  # of each column
SEEDS, N_TRAIN, N_TEST = 3, 10_000, 10_000
MODELS = {
    "logistic regression": LogisticRegression(max_iter=1000),
    "histogram trees": HistGradientBoostingClassifier(max_iter=50, random_state=0),
}
ENCODERS = {
    "randomised response": RandomizedResponseEncoder,
    "optimised unary encoding": UnaryEncodingTransformer,
    "subset selection": SubsetSelectionEncoder,
}
FEATURES = ("raw", "unbiased", "posterior")
OTHERS = {"alone": [], "beside numbers": NUMBERS}


def features_of(
    encoder: Any, reports: pd.DataFrame
) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    """Make the features of training and test rows; the prior is that of the training rows."""
    train, test = reports.iloc[:N_TRAIN], reports.iloc[N_TRAIN:]
    posterior = PosteriorFeatures(encoder, privatize=False).fit(train)
    return {
        "raw": (raw(encoder, train), raw(encoder, test)),
        "unbiased": (unbiased(encoder, train), unbiased(encoder, test)),
        "posterior": (
            posterior.transform(train).to_numpy(),
            posterior.transform(test).to_numpy(),
        ),
    }


def raw(encoder: Any, reports: pd.DataFrame) -> NDArray[Any]:
    """Take reports for the truth: bits as they are, labels one-hot."""
    if not isinstance(encoder, RandomizedResponseEncoder):
        return reports.to_numpy(float)
    values = [encoder.domain_[name].values for name in encoder.domain_.columns]
    return np.asarray(
        OneHotEncoder(categories=values, sparse_output=False).fit_transform(reports)
    )


def unbiased(encoder: Any, reports: pd.DataFrame) -> NDArray[np.float64]:
    """Estimate the one-hot vector of each column without bias."""
    parts = encoder.protocol_.read(reports)
    return np.hstack(
        [
            oracle.unbiased(part)
            for oracle, part in zip(encoder.oracles_, parts, strict=True)
        ]
    )


def main(seeds: int) -> None:
    """Measure, and write the tables."""
    people = load_adult(subset="all", dropna=True).frame
    domain = {name: sorted(people[name].unique()) for name in COLUMNS}
    scores: dict[tuple[Any, ...], list[tuple[float, float]]] = defaultdict(list)
    for seed in range(seeds):
        rows = people.sample(N_TRAIN + N_TEST, random_state=seed).reset_index(drop=True)
        y = (rows["income"] == ">50K").to_numpy()
        scaled = (
            StandardScaler().fit(rows[NUMBERS].iloc[:N_TRAIN]).transform(rows[NUMBERS])
        )
        for kind, make in ENCODERS.items():
            for epsilon in EPSILONS:
                encoder = make(
                    len(COLUMNS) * epsilon, categories=domain, random_state=seed
                ).fit(rows[COLUMNS])
                made = features_of(encoder, encoder.transform(rows[COLUMNS]))
                for beside, names in OTHERS.items():
                    extra = scaled if names else scaled[:, :0]
                    for feature, (train, test) in made.items():
                        for model_name, model in MODELS.items():
                            fitted = model.fit(
                                np.hstack([train, extra[:N_TRAIN]]), y[:N_TRAIN]
                            )
                            chance = fitted.predict_proba(
                                np.hstack([test, extra[N_TRAIN:]])
                            )[:, 1]
                            pair = (
                                roc_auc_score(y[N_TRAIN:], chance),
                                ((chance > 0.5) == y[N_TRAIN:]).mean(),
                            )
                            scores[beside, model_name, kind, epsilon, feature].append(
                                pair
                            )
        print(f"seed {seed} done", file=sys.stderr)
    tables = {}
    more = "unbiased − raw", "posterior − raw"
    columns = "encoder", "epsilon a column", "AUC raw", *more, "accuracy raw", *more
    for beside in OTHERS:
        for model_name in MODELS:
            tables[f"{model_name}, private columns {beside}"] = (
                columns,
                [
                    [
                        kind,
                        f"{epsilon:g}",
                        *cells(scores, (beside, model_name, kind, epsilon)),
                    ]
                    for kind in ENCODERS
                    for epsilon in EPSILONS
                ],
            )
    notes = (
        f"Adult, income above 50K; {', '.join(COLUMNS)} privatised in all rows, each with its own epsilon; {N_TRAIN:,} "
        f"rows to train on, {N_TEST:,} to test on, {seeds} seeds (rows and coins). Differences are paired: the mean "
        "over seeds ± its standard error, in units of 0.0001. All features of a seed are made of the same reports; "
        "numbers, where they are beside, are in the clear."
    )
    write_results(
        "posterior_features",
        "Posterior features",
        ("skdp", "numpy", "scikit-learn", "pandas"),
        notes,
        tables,
    )


def cells(
    scores: dict[tuple[Any, ...], list[tuple[float, float]]], key: tuple[Any, ...]
) -> list[str]:
    """Write the scores of raw reports, and how much more the other features give."""
    given = {feature: np.array(scores[(*key, feature)]) for feature in FEATURES}
    row = []
    for place in range(2):
        row.append(f"{given['raw'][:, place].mean():.4f}")
        for feature in FEATURES[1:]:
            more = 1e4 * (given[feature] - given["raw"])[:, place]
            row.append(
                f"{more.mean():+.0f} ± {more.std(ddof=1) / np.sqrt(len(more)):.0f}"
            )
    return row


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS)
