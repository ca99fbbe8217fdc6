"""Coverage and bias of regression from reports, beside models that take reports or posterior features for the truth.

Thirteen settings: two to ten values, one to three reported predictors that depend on a true one, reported targets,
three oracles, epsilon .5 to 4, 1,000 to 50,000 rows. ``python benchmarks/report_regression.py`` repeats each setting
500 times, in hours; ``--minutes 12`` stops after that much time of the processor, which the settings share.
``--tables`` writes the page from what was measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _timing import RESULTS, write_results
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression, LogisticRegression

from skdp import (
    LocalHashingEncoder,
    PosteriorFeatures,
    RandomizedResponseEncoder,
    UnaryEncodingTransformer,
)
from skdp.survey import ReportLinearRegression, ReportLogisticRegression

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.survey.test_report_regression import fit_case

# What RRreg 0.7.6 (R 4.2.2) prints for these tables: term, truth, estimate, standard
# error; none where it has none. `figures.json` of the tests has independent fits.
RRREG = {
    "l01_warner": ("a reported target", "x1", 0.8, 0.86210, 0.07807),
    "n02_forced_k3": ("three values", "w1", 1.5, 1.53699, 0.03852),
    "n04_warner_correlated_u": ("independence assumed", "u1", 0.5, 0.64148, 0.01013),
    "n04_warner_correlated_u+joint": ("dependence modelled", "u1", 0.5, None, None),
    "d11_sld_log": ("carriers who lie", "x1", 0.5, 0.67630, 0.06768),
    "d12_cdm_log": ("15 % cheaters", "(Intercept)", -1.5, -2.23277, None),
    "d13_cdm_log_no_cheater": ("no cheaters", "(Intercept)", -1.5, -1.50448, None),
    "n08_sld": ("carriers who lie", "(Intercept)", 1.0, 1.01872, 0.02289),
}

MEASURED = RESULTS / "report_regression.jsonl"
REPEATS = 500
ORACLES = {
    "response": RandomizedResponseEncoder,
    "unary": UnaryEncodingTransformer,
    "hashing": LocalHashingEncoder,
}
# Kind of target, oracle, values of each reported predictor, epsilon of each, rows; the
# cheap ones first, so that what they leave of the time is for the others.
SETTINGS: list[tuple[str, str, tuple[int, ...], float, int]] = [
    ("numbers", "unary", (3,), 4.0, 1_000),
    ("numbers", "response", (2,), 1.0, 2_000),
    ("reported classes", "response", (), 1.0, 5_000),
    ("true classes", "response", (2,), 1.0, 5_000),
    ("true classes", "response", (2,), 0.5, 20_000),
    ("true classes", "unary", (3,), 1.0, 20_000),
    ("reported classes", "unary", (2,), 2.0, 20_000),
    ("true classes", "response", (4,), 2.0, 20_000),
    ("true classes", "hashing", (5,), 2.0, 20_000),
    ("numbers", "hashing", (2, 2), 1.0, 50_000),
    ("true classes", "response", (2, 3), 2.0, 20_000),
    ("true classes", "response", (2, 2, 2), 2.0, 20_000),
    ("true classes", "response", (10,), 4.0, 20_000),
]


def draw(
    rng: np.random.Generator, sizes: tuple[int, ...], n_rows: int
) -> tuple[NDArray[np.float64], list[NDArray[np.intp]]]:
    """Draw a true predictor, and hidden ones that depend on it and on each other."""
    age = rng.normal(size=n_rows)
    codes: list[NDArray[np.intp]] = []
    lean = age
    for size in sizes:
        noise = rng.normal(size=n_rows)
        edges = np.linspace(-1, 1, size + 1)[1:-1]
        codes.append(np.searchsorted(edges, 0.5 * lean + noise))
        lean = 0.5 * age + codes[-1] / size
    return age, codes


def encode(
    kind: str,
    epsilon: float,
    sizes: tuple[int, ...],
    codes: list[NDArray[np.intp]],
    seed: int,
) -> tuple[Any, pd.DataFrame]:
    """Report codes; return the fitted encoder and the reports."""
    values = {}
    columns = {}
    for place, (size, column) in enumerate(zip(sizes, codes, strict=True)):
        values[f"q{place}"] = [str(code) for code in range(size)]
        columns[f"q{place}"] = column.astype(str)
    encoder = ORACLES[kind](epsilon * len(codes), categories=values, random_state=seed)
    return encoder, encoder.fit_transform(pd.DataFrame(columns))


def plain_coefficients(target: str, features: Any, y: Any) -> NDArray[np.float64]:
    """Fit a regression that takes its features for the truth; return all but intercept and age."""
    if target == "numbers":
        model = LinearRegression().fit(features, y)
    else:
        model = LogisticRegression(C=np.inf).fit(features, y)
    return np.ravel(model.coef_)[1:]


def posterior_columns(encoder: Any, reports: pd.DataFrame) -> pd.DataFrame:
    """Return the posterior probability of each value but the first of a column."""
    features = PosteriorFeatures(encoder, privatize=False).fit(reports)
    table = features.transform(reports)
    return table[[name for name in table.columns if not name.endswith("_0")]]


def run(place: int, repeat: int) -> dict[str, Any]:
    """Fit a drawn table; return z-values, coverage, and the shares of effects that other models find."""
    target, kind, sizes, epsilon, n_rows = SETTINGS[place]
    seed = REPEATS * place + repeat
    rng = np.random.default_rng(seed)
    age, codes = draw(rng, sizes, n_rows)
    linear = -0.5 + 0.5 * age
    truth = [-0.5, 0.5]
    for size, column in zip(sizes, codes, strict=True):
        effects = np.linspace(0.5, 1.0, size - 1)
        linear = linear + np.append(0, effects)[column]
        truth += list(effects)
    X = pd.DataFrame({"age": age})
    encoder, reports = None, None
    if codes:
        encoder, reports = encode(kind, epsilon, sizes, codes, seed)
        X = pd.concat([X, reports], axis=1)
    y: Any = linear + rng.normal(size=n_rows)
    if target != "numbers":
        y = (rng.random(n_rows) < 1 / (1 + np.exp(-linear))).astype(int)
    start = time.process_time()
    model: Any
    if target == "numbers":
        model = ReportLinearRegression(encoder).fit(X, y)
    elif target == "true classes":
        model = ReportLogisticRegression(encoder).fit(X, y)
    else:
        of_target = RandomizedResponseEncoder(
            epsilon, categories={"target": ["0", "1"]}, random_state=seed
        )
        told = of_target.fit_transform(pd.DataFrame({"target": y.astype(str)}))
        model = ReportLogisticRegression(encoder, target_encoder=of_target)
        model.fit(X, told)
    seconds = time.process_time() - start
    summary = model.summary()
    is_inside = (summary["lower"] <= truth) & (truth <= summary["upper"])
    result = {
        "seconds": seconds,
        "estimate": list(summary["estimate"]),
        "std_error": list(summary["std_error"]),
        "truth": truth,
        "inside": [int(each) for each in is_inside],
    }
    if target != "reported classes" and reports is not None:
        posterior = np.column_stack([age, posterior_columns(encoder, reports)])
        result["posterior"] = list(plain_coefficients(target, posterior, y))
        if kind == "response":
            dummies = pd.get_dummies(reports, drop_first=True)
            naive = np.column_stack([age, dummies])
            result["naive"] = list(plain_coefficients(target, naive, y))
    return result


def summarise(place: int, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of a setting."""
    estimates = np.array([each["estimate"] for each in results])
    errors = np.array([each["std_error"] for each in results])
    truth = np.array(results[0]["truth"])
    has_errors = np.isfinite(errors).all(axis=1)
    inside = np.array([each["inside"] for each in results])[has_errors]
    estimates = estimates[has_errors]
    bias = (estimates.mean(axis=0) - truth) / estimates.std(axis=0, ddof=1)
    figures: dict[str, Any] = {
        "setting": place,
        "repeats": len(results),
        "lost": int((~has_errors).sum()),
        "coverage": inside.mean(axis=0).tolist(),
        "bias": bias.tolist(),
        # By repeat, as the terms of a repeat depend on each other.
        "coverage_std_error": inside.mean(axis=1).std(ddof=1) / np.sqrt(len(inside)),
        "seconds": float(np.mean([each["seconds"] for each in results])),
        "effect": float((estimates.mean(axis=0)[2:] / truth[2:]).mean())
        if len(truth) > 2
        else None,
    }
    for name in ("posterior", "naive"):
        if name in results[0]:
            coefficients = np.array([each[name] for each in results])
            shares = coefficients.mean(axis=0) / truth[2:]
            figures[name] = float(shares.mean())
    return figures


def measure(minutes: float, repeats: int) -> None:
    """Repeat each setting, and write a line for it."""
    MEASURED.write_text("")
    end = time.process_time() + 60 * minutes
    for place in range(len(SETTINGS)):
        start = time.process_time()
        allowed = (end - start) / (len(SETTINGS) - place)
        results = []
        for repeat in range(repeats):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.append(run(place, repeat))
            # Two repeats at least, for their deviations.
            if time.process_time() - start > allowed and repeat > 0:
                break
        with MEASURED.open("a") as file:
            print(json.dumps(summarise(place, results)), file=file)
        print(f"{SETTINGS[place]}: {len(results)} repeats", file=sys.stderr, flush=True)


def coverage_rows(measured: list[dict[str, Any]]) -> list[list[str]]:
    """Write a row of the table of coverage for each setting that was run."""
    rows = []
    for figures in measured:
        coverage = np.array(figures["coverage"])
        bias = np.abs(figures["bias"]).max()
        text = (
            f"{100 * coverage.mean():.1f} ± {100 * figures['coverage_std_error']:.1f}"
        )
        row = [*name_setting(figures["setting"]), f"{figures['repeats']}", text]
        row.append(f"{100 * coverage.min():.1f} to {100 * coverage.max():.1f}")
        row.append(f"{bias:.2f} ± {1 / np.sqrt(figures['repeats']):.2f}")
        row += [f"{figures['lost']}", f"{figures['seconds']:.2f}"]
        rows.append(row)
    return rows


def effect_rows(measured: list[dict[str, Any]]) -> list[list[str]]:
    """Write the mean share of the true effects that each model finds."""
    rows = []
    for figures in measured:
        if "posterior" in figures:
            row = name_setting(figures["setting"])
            for name in ("effect", "posterior", "naive"):
                row.append(f"{figures[name]:.2f}" if name in figures else "")
            rows.append(row)
    return rows


def name_setting(place: int) -> list[str]:
    target, kind, sizes, epsilon, n_rows = SETTINGS[place]
    values = " × ".join(map(str, sizes)) or "none"
    return [target, kind, values, f"{epsilon:g}", f"{n_rows:,}"]


def rrreg_rows() -> list[list[str]]:
    """Fit the tables that RRreg was run on."""
    rows = []
    for name, (what, term, truth, estimate, error) in RRREG.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, estimates, errors, case, places = fit_case(name)
        place = places.index(case["param"].index(term))
        row = [name, what, term, f"{truth:g}"]
        row.append("" if estimate is None else f"{estimate:.3f}")
        row.append("" if error is None else f"{error:.4f}")
        row += [f"{estimates[place]:.3f}", f"{errors[place]:.4f}"]
        rows.append(row)
    return rows


def write_tables() -> None:
    """Write the page from what was measured."""
    lines = MEASURED.read_text().splitlines()
    measured = [json.loads(line) for line in lines]
    setting = "target", "oracle", "values", "epsilon each", "rows"
    of_coverage = (
        "repeats",
        "coverage",
        "single terms",
        "largest bias",
        "lost",
        "s a fit",
    )
    tables = {
        "Coverage": ((*setting, *of_coverage), coverage_rows(measured)),
        "Share of the effect that is found": (
            (*setting, "from reports", "posterior features", "reports as truth"),
            effect_rows(measured),
        ),
        "Beside RRreg 0.7.6": (
            ("table", "what", "term", "truth", "RRreg", "error", "skdp", "error"),
            rrreg_rows(),
        ),
    }
    notes = (
        f"{len(measured)} of {len(SETTINGS)} settings, a reported predictor depends on "
        "a true one and on the others; 95 % intervals. Coverage in per cent: the mean "
        "of all terms ± its standard error, and the least and the largest of a term. "
        "Bias: the largest of a term, in standard errors, ± that of its estimate. "
        "Lost: fits without a clear maximum. Time of the processor, with memory that "
        "is not given back between arrays. The effect is the mean of the coefficients "
        "of reported values, divided by the true ones; posterior features and reports "
        "go into scikit-learn's regressions. RRreg has no k values, hashed or unary "
        "reports, and was run on tables of its own (tests/survey/cases)."
    )
    write_results(
        "report_regression",
        "Regression from reports",
        ("skdp", "numpy", "scikit-learn", "pandas"),
        notes,
        tables,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=np.inf)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--tables", action="store_true")
    options = parser.parse_args()
    if not options.tables:
        measure(options.minutes, options.repeats)
    write_tables()
