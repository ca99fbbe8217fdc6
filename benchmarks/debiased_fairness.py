"""Bias and coverage of `debiased_fairness` on Adult, and how far reports that are taken for the truth are off.

Run ``python benchmarks/debiased_fairness.py [--repeats 5000]``. The rows stay as they are, the test
rows of Adult with the predictions of a logistic regression; in each repeat the groups are reported again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from _timing import write_results
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult
from skdp.local import SubsetSelectionEncoder, UnaryEncodingTransformer
from skdp.metrics._fairness_report import Groups, Precision, measure
from skdp.metrics._intervals import Estimate
from skdp.metrics._private_groups import GroupReports, find_privileged
from skdp.metrics._rates import Labels, sums_of_estimated
from skdp.oracles import RandomizedResponse
from skdp.randomness import SeededSource

NUMBERS = ["age", "education-num", "hours-per-week", "capital-gain", "capital-loss"]
WORDS = ["workclass", "marital-status", "occupation", "relationship"]
WHITE_MEN = ("White", "Male")
GROUPS = ("unprivileged", "privileged")
COLUMNS = (
    "metric",
    "true",
    "mean",
    "bias / std. error",
    "coverage of 95 %",
    "median std. error / sd",
    "met?",
)
NAMES = (
    *(
        f"{rate}, {group}"
        for rate in ("selection rate", "true positive rate", "false positive rate")
        for group in GROUPS
    ),
    "statistical parity difference",
    "disparate impact",
    "equal opportunity difference",
    "average odds difference",
)


def predict() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return the test rows, their labels and the predictions of a model that was trained on the others."""
    train, test = (
        load_adult(subset="train", dropna=True),
        load_adult(subset="test", dropna=True),
    )
    model = make_pipeline(
        make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(), WORDS)),
        LogisticRegression(max_iter=1000),
    )
    model.fit(train.data, train.target)
    return test.data, np.asarray(test.target), model.predict(test.data)


def estimate(blocks: Any, cells: np.ndarray, labels: Labels) -> Estimate:
    """Return the estimates of the metrics of groups that are known from indicators."""
    groups = Groups.of(GROUPS, cells, by_group=False)
    sums = sums_of_estimated(blocks, groups.members, labels)
    found = [
        row[3]
        for row in measure(sums, labels.benefits(), groups, Precision("fixed", 0.95))
    ][: len(NAMES)]
    return Estimate(
        *(
            np.array([getattr(one, part) for one in found])
            for part in Estimate.__annotations__
        )
    )


def known(codes: np.ndarray, cells: np.ndarray, labels: Labels) -> np.ndarray:
    """Return the metrics of known groups."""
    return estimate([(slice(None), np.eye(len(cells))[codes])], cells, labels).value


def study(
    encoder: Any, people: pd.DataFrame, cells: np.ndarray, labels: Labels, repeats: int
) -> tuple[list[list[str]], np.ndarray, np.ndarray]:
    """Return the rows of the table, the true metrics, and the mean metrics of the reports taken for the truth.

    What `debiased_fairness` does, without the tables around it.
    """
    domain, oracles = encoder.domain_, encoder.oracles_
    columns = domain.encode([people[name] for name in people])
    joint = domain.join(columns)
    codes = [joint] if len(oracles) == 1 else columns
    truth = known(joint, cells, labels)
    source = SeededSource("debiased fairness")
    found, naive = np.empty((4, repeats, 10)), []
    for repeat in range(repeats):
        parts = tuple(
            oracle.report(code, source)
            for oracle, code in zip(oracles, codes, strict=True)
        )
        groups = GroupReports(domain, domain, oracles, parts)
        one = estimate(groups.indicators(), cells, labels)
        found[:, repeat] = one.value, one.std_error, one.lower, one.upper
        if isinstance(oracles[0], RandomizedResponse) and len(oracles) == 1:
            naive.append(known(parts[0], cells, labels))
    values, errors, lower, upper = found
    spread = np.nanstd(values, axis=0, ddof=1)
    bias = (np.nanmean(values, axis=0) - truth) / spread
    coverage = ((lower <= truth) & (truth <= upper)).mean(axis=0)
    met = (np.abs(bias) < 0.1) & (coverage > 0.93) & (coverage < 0.97)
    rows = [
        [
            name,
            f"{truth[i]:.4f}",
            f"{np.nanmean(values[:, i]):.4f}",
            f"{bias[i]:+.3f}",
            f"{coverage[i]:.1%}",
            f"{np.nanmedian(errors[:, i]) / spread[i]:.3f}",
            "yes" if met[i] else "**no**",
        ]
        for i, name in enumerate(NAMES)
    ]
    return rows, truth, np.mean(naive, axis=0) if naive else truth


def shrinkage(
    encoder: Any, people: pd.DataFrame, cells: np.ndarray, chosen: np.ndarray
) -> float:
    """Return the factor of the difference of a rate over the chosen rows, if reports are taken for the truth."""
    oracle = encoder.oracles_[0]
    codes = encoder.domain_.join(
        encoder.domain_.encode([people[name] for name in people])
    )
    share = cells[codes][chosen].mean()
    own = float(oracle.p + (cells.sum() - 1) * oracle.q)
    other = float(cells.sum() * oracle.q)
    seen = own * share + other * (1 - share)
    return (own - other) * share * (1 - share) / (seen * (1 - seen))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5000)
    options = parser.parse_args()
    data, true, predicted = predict()
    labels = Labels(true == ">50K", predicted == ">50K", np.ones(len(true)))
    sex, both = data[["sex"]], data[["race", "sex"]]
    cases: dict[str, tuple[Callable[..., Any], pd.DataFrame, Any, dict[str, Any]]] = {
        "Randomised response on sex": (RandomizedResponseEncoder, sex, "Male", {}),
        "Randomised response on race x sex, jointly": (
            RandomizedResponseEncoder,
            both,
            WHITE_MEN,
            {"strategy": "joint"},
        ),
        "Randomised response on race and sex, half of epsilon each": (
            RandomizedResponseEncoder,
            both,
            WHITE_MEN,
            {},
        ),
        "Optimised unary encoding on race x sex, jointly": (
            UnaryEncodingTransformer,
            both,
            WHITE_MEN,
            {"strategy": "joint"},
        ),
        "Subset selection on race x sex, jointly": (
            SubsetSelectionEncoder,
            both,
            WHITE_MEN,
            {"strategy": "joint"},
        ),
    }
    tables: dict[str, tuple[Any, list[list[str]]]] = {}
    for name, (make, people, privileged, parameters) in cases.items():
        encoder = make(1.0, random_state=0, **parameters)
        encoder.fit(people)
        cells = find_privileged(privileged, encoder.domain_)
        rows, truth, naive = study(encoder, people, cells, labels, options.repeats)
        tables[name] = (COLUMNS, rows)
        if make is RandomizedResponseEncoder and len(encoder.oracles_) == 1:
            factors = [
                shrinkage(encoder, people, cells, chosen)
                for chosen in (np.ones(len(true), bool), true == ">50K")
            ]
            shrunk = [
                [
                    metric,
                    f"{truth[i]:.4f}",
                    f"{naive[i]:.4f}",
                    f"{naive[i] / truth[i]:.4f}",
                    f"{factor:.4f}",
                ]
                for metric, i, factor in (
                    ("statistical parity difference", 6, factors[0]),
                    ("equal opportunity difference", 8, factors[1]),
                )
            ]
            heading = f"{name}: reports taken for the truth"
            tables[heading] = (
                ("metric", "true", "mean of the reports'", "ratio", "factor of theory"),
                shrunk,
            )
    write_results(
        "debiased_fairness",
        "Fairness from privatised groups: bias and coverage",
        ("skdp", "numpy", "scikit-learn"),
        f"Adult, {len(true):,} test rows, predictions of a logistic regression, epsilon 1, {options.repeats:,} repeats "
        "of the randomness on these rows, intervals for fixed rows. Privileged: men, or white men. Targets: bias below "
        f".1 of the standard error (its own error is {options.repeats**-0.5:.3f}), coverage from 93 to 97 % "
        "of all draws. Half of epsilon for race is too little for so few rows that are not both white and male: that "
        "table shows the limit. Its disparate impact is biased, as a ratio is whose denominator is noisy; the "
        "interval, not made of value and standard error, covers.",
        tables,
    )


if __name__ == "__main__":
    main()
