"""Fair learning with privatised groups on Adult: the study of Mozannar, Ohannessian and Srebro (ICML 2020), figure 1.

Run ``python benchmarks/fair_learning.py [--trials 5] [--rows 32561] [--iterations 50]``. It writes
``results/fair_learning.md`` and ``results/fair_learning.png``. Everything is scored on the true groups of test rows.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from _timing import RESULTS, write_results
from fairlearn.reductions import EqualizedOdds, ExponentiatedGradient
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult
from skdp.evaluation.displays._style import (
    COLOURS,
    DASHES,
    MARKERS,
    import_pyplot,
    tidy_axes,
)
from skdp.metrics import joint_distribution, private_parity, private_threshold_optimizer

EXPONENTS = (-2, -1, -0.75, -0.5, -0.25, -0.1, 0.1, 0.25, 0.5, 1, 1.5, 2)
RELATIONS = (
    "Not-in-family",
    "Unmarried",
    "Other-relative",
    "Own-child",
    "Husband",
    "Wife",
)
SEXES = ["Female", "Male"]
STEP, TWO = "step 1: constraint on the reports", "two steps: the report decides too"
TRUE, OWN = "two steps, true group at decision", "private_parity: inverted constraint"
METHODS = (STEP, TWO, TRUE, OWN)
# Read off the figure of their notebook, within .005: exponent -> error and violation of step 1, of both steps.
THEIRS = {
    -2: ("0.181", "0.073", "0.217", "0.027"),
    -1: ("", "0.055", "", "0.025"),
    -0.75: ("", "", "0.24", "0"),
    -0.5: ("", "0.040", "0.24", "0"),
    -0.25: ("", "0.026", "", "0"),
    0.1: ("", "0.02", "0.22", "0.049"),
    0.5: ("", "0.033", "0.207", "0.034"),
    1: ("0.20", "0.025", "", "0.028"),
    2: ("0.20", "0.025", "0.201", "0.035"),
}


def load(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """Return the features of their notebook (codes and numbers, standardised; no sex), labels and sex."""
    frame = load_adult(subset="train").frame
    frame = frame.sample(min(n_rows, len(frame)), random_state=seed).reset_index(
        drop=True
    )
    features = frame.drop(columns=["fnlwgt", "education", "sex", "income"])
    features["relationship"] = features["relationship"].map(RELATIONS.index)
    for name in features.select_dtypes("category"):
        features[name] = features[name].cat.codes
    y = (frame["income"] == ">50K").astype(int).to_numpy()
    return (
        StandardScaler().fit_transform(features.astype(float)),
        y,
        frame[["sex"]].astype(object),
    )


def reduce(
    constraints: Any, X: np.ndarray, y: np.ndarray, groups: Any, iterations: int
) -> ExponentiatedGradient:
    model = ExponentiatedGradient(
        LogisticRegression(solver="liblinear"),
        constraints,
        eps=0.001,
        max_iter=iterations,
        eta0=0.5,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fairlearn's own, about pandas
        return model.fit(X, y, sensitive_features=groups)


def chances(model: ExponentiatedGradient, X: np.ndarray) -> np.ndarray:
    """Return the probability with which the randomised classifier predicts 1."""
    return np.asarray(model._pmf_predict(X))[:, 1]


def decide(joint: pd.DataFrame, channel: np.ndarray) -> np.ndarray:
    """Return their step 2: the chance of 1 for each prediction and report, of least error among those of equal odds.

    What is made fair are the rates of the true groups: a person of group a sends report z with probability
    ``channel[a, z]``.
    """
    counts = joint["count"].to_numpy().reshape(2, 2, 2)  # y, ŷ, group
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-12)
    # The rate of label y in group a, as a linear function of the chances by prediction and report.
    rates = np.einsum("ypa,az->yapz", shares, channel).reshape(2, 2, 4)
    worth = np.einsum("pa,az->pz", counts[0] - counts[1], channel).ravel()
    difference = rates[:, 0] - rates[:, 1]
    found = linprog(
        worth,
        A_ub=np.concatenate([difference, -difference]),
        b_ub=np.full(4, 1e-4),
        bounds=(0, 1),
        method="highs",
    )
    return found.x.reshape(2, 2)


def score(chance: np.ndarray, y: np.ndarray, male: np.ndarray) -> tuple[float, float]:
    """Return the error and the larger of the differences of the true and false positive rates, in the mean of draws."""
    error = float(np.mean(np.where(y == 1, 1 - chance, chance)))
    gaps = [
        abs(chance[(y == label) & male].mean() - chance[(y == label) & ~male].mean())
        for label in (0, 1)
    ]
    return error, float(max(gaps))


def trial(
    exponent: float, seed: int, rows: int, iterations: int
) -> dict[str, tuple[float, float]]:
    X, y, sex = load(rows, seed)
    encoder = RandomizedResponseEncoder(
        10**exponent, categories={"sex": SEXES}, random_state=seed
    ).fit(sex)
    train, test = train_test_split(
        np.arange(len(y)), test_size=0.25, stratify=y, random_state=seed
    )
    first, second = train_test_split(
        train, test_size=0.5, stratify=y[train], random_state=seed
    )
    reports = encoder.transform(sex)
    male = (sex["sex"] == "Male").to_numpy()
    rng = np.random.default_rng(seed)
    found = {}

    def part(of: np.ndarray) -> pd.DataFrame:
        return reports.iloc[of].reset_index(drop=True)

    model = reduce(
        EqualizedOdds(difference_bound=0.001),
        X[train],
        y[train],
        part(train)["sex"],
        iterations,
    )
    found[STEP] = score(chances(model, X[test]), y[test], male[test])

    model = reduce(
        EqualizedOdds(difference_bound=0.001),
        X[first],
        y[first],
        part(first)["sex"],
        iterations,
    )
    drawn = (rng.random(len(second)) < chances(model, X[second])).astype(int)
    joint = joint_distribution(
        y[second], drawn, part(second), encoder, postprocess="simplex"
    )
    channel = np.array(encoder.channel()[0], float)
    chance = chances(model, X[test])
    # A group's chance of 1, by prediction.
    by_group = channel @ decide(joint, channel).T
    own = by_group[male[test].astype(int)]
    found[TWO] = score(
        (1 - chance) * own[:, 0] + chance * own[:, 1], y[test], male[test]
    )
    try:
        optimizer = private_threshold_optimizer(
            y[second], drawn, part(second), encoder, positive_label=1
        )
        by_prediction = [
            optimizer._pmf_predict(
                np.full((len(test), 1), label), sensitive_features=sex.iloc[test]["sex"]
            )[:, 1]
            for label in (0.0, 1.0)
        ]
        found[TRUE] = score(
            (1 - chance) * by_prediction[0] + chance * by_prediction[1],
            y[test],
            male[test],
        )
    except ValueError:
        # A group without rows of a label, by the estimate.
        found[TRUE] = (
            math.nan,
            math.nan,
        )
    try:
        model = reduce(
            private_parity(encoder, difference_bound=0.001),
            X[train],
            y[train],
            part(train),
            iterations,
        )
        found[OWN] = score(chances(model, X[test]), y[test], male[test])
    except ValueError:
        found[OWN] = (math.nan, math.nan)
    return found


def unconstrained(trials: int, rows: int) -> np.ndarray:
    """Return the mean error and violation of the logistic regression alone."""
    found = []
    for seed in range(trials):
        X, y, sex = load(rows, seed)
        train, test = train_test_split(
            np.arange(len(y)), test_size=0.25, stratify=y, random_state=seed
        )
        predicted = (
            LogisticRegression(solver="liblinear")
            .fit(X[train], y[train])
            .predict(X[test])
        )
        found.append(
            score(
                predicted.astype(float),
                y[test],
                (sex["sex"] == "Male").to_numpy()[test],
            )
        )
    return np.mean(found, axis=0)


def run(trials: int, rows: int, iterations: int) -> pd.DataFrame:
    """Return error and violation by exponent, seed and method."""
    found = []
    for seed in range(trials):
        for exponent in EXPONENTS:
            start = time.perf_counter()
            for method, (error, violation) in trial(
                exponent, seed, rows, iterations
            ).items():
                found.append((exponent, seed, method, error, violation))
            print(
                f"trial {seed}, exponent {exponent}: {time.perf_counter() - start:.0f} s",
                flush=True,
            )
        table = pd.DataFrame(
            found, columns=["exponent", "seed", "method", "error", "violation"]
        )
        report(table, seed + 1, rows, iterations)
    return table


def draw(table: pd.DataFrame) -> None:
    pyplot = import_pyplot()
    figure, panels = pyplot.subplots(
        2, 1, figsize=(7.5, 7.5), sharex=True, layout="constrained"
    )
    for axes, what in zip(panels, ("violation", "error"), strict=True):
        for place, method in enumerate(METHODS):
            own = table[table["method"] == method].groupby("exponent")[what]
            mean, error = own.mean().dropna(), own.sem().fillna(0)
            axes.errorbar(
                10.0 ** mean.index.to_numpy(),
                mean,
                error[mean.index],
                label=method,
                color=COLOURS[place],
                marker=MARKERS[place],
                ls=DASHES[place],
                lw=1.5,
                capsize=2,
            )
        axes.set_xscale("log")
        tidy_axes(axes)
        axes.set_ylim(bottom=0 if what == "violation" else None)
    panels[0].set_ylabel("violation of equalised odds")
    panels[1].set_ylabel("error")
    panels[1].set_xlabel(
        "epsilon of sex (smaller is more private); bars are ± 1 standard error"
    )
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(RESULTS / "fair_learning.png", dpi=120)
    pyplot.close(figure)


def report(table: pd.DataFrame, trials: int, rows: int, iterations: int) -> None:
    error, violation = unconstrained(trials, rows)
    columns = [
        "epsilon",
        *(f"{method}: {what}" for method in METHODS for what in ("error", "violation")),
    ]
    lines = []
    for exponent in EXPONENTS:
        line = [f"{10**exponent:.3g}"]
        for method in METHODS:
            own = table[(table["exponent"] == exponent) & (table["method"] == method)]
            line += [
                f"{own[what].mean():.3f} ± {own[what].sem():.3f}"
                for what in ("error", "violation")
            ]
        lines.append(line)
    theirs = [
        [f"{10**exponent:.3g}", *(number or "–" for number in numbers)]
        for exponent, numbers in THEIRS.items()
    ]
    write_results(
        "fair_learning",
        "Fair learning with privatised groups",
        ("skdp", "fairlearn", "scikit-learn"),
        f"Adult, {min(rows, 32_561):,} rows, {trials} trials, sex under randomised response, everything scored on the "
        "true groups of a quarter of the rows, in the mean of the classifiers' own draws; ± is a standard error. Step "
        f"1 is fairlearn's ExponentiatedGradient (equalised odds within .001, at most {iterations} iterations, "
        "logistic regression). Two steps: it learns from half of the training rows; on the other half the inverted "
        "distribution of label, prediction and sex gives the rule of least error and equal odds, that decides by "
        "prediction and report (theirs), or by prediction and true sex (`private_threshold_optimizer`). "
        "`private_parity`: step 1 alone, with constraints on the inverted distribution. nan: a group is estimated to "
        "have no row of a label; means are over the other trials. Without a constraint the error is "
        f"{error:.3f} and the violation {violation:.3f}. Theirs (fairlearn of 2020) start from smaller violations of "
        "step 1 at small epsilon; that two steps buy fairness there for some error is the same.",
        {
            "Here": (columns, lines),
            "Theirs, read off their figure": (
                (
                    "epsilon",
                    "step 1: error",
                    "violation",
                    "two steps: error",
                    "violation",
                ),
                theirs,
            ),
        },
    )
    draw(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--rows", type=int, default=32_561)
    parser.add_argument("--iterations", type=int, default=50)
    options = parser.parse_args()
    run(options.trials, options.rows, options.iterations)


if __name__ == "__main__":
    main()
