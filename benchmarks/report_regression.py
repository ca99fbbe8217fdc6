"""Coverage and bias of regression from reports, against models that take reports for the truth.

Thirteen settings: two to ten values, one to three reported predictors that depend on a true one, reported targets,
three oracles, epsilon .5 to 4, 1,000 to 50,000 rows. ``python benchmarks/report_regression.py [REPEATS]``.
"""

import sys
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from skdp import (
    LocalHashingEncoder,
    RandomizedResponseEncoder,
    UnaryEncodingTransformer,
)
from skdp.survey import ReportLinearRegression, ReportLogisticRegression

ORACLES = {
    "response": RandomizedResponseEncoder,
    "unary": UnaryEncodingTransformer,
    "hashing": LocalHashingEncoder,
}
# Kind of target, oracle, values of each reported predictor, epsilon of each, rows.
SETTINGS = [
    ("true classes", "response", (2,), 0.5, 20_000),
    ("true classes", "response", (2,), 1.0, 5_000),
    ("true classes", "response", (4,), 2.0, 20_000),
    ("true classes", "response", (10,), 4.0, 20_000),
    ("true classes", "unary", (3,), 1.0, 20_000),
    ("true classes", "hashing", (5,), 2.0, 20_000),
    ("true classes", "response", (2, 3), 2.0, 20_000),
    ("true classes", "response", (2, 2, 2), 2.0, 20_000),
    ("reported classes", "response", (), 1.0, 5_000),
    ("reported classes", "unary", (2,), 2.0, 20_000),
    ("numbers", "response", (2,), 1.0, 2_000),
    ("numbers", "unary", (3,), 4.0, 1_000),
    ("numbers", "hashing", (2, 2), 1.0, 50_000),
]


def draw(rng, sizes, n_rows):
    """Draw a true predictor, and hidden ones that depend on it and on each other."""
    age = rng.normal(size=n_rows)
    codes = []
    lean = age
    for size in sizes:
        noise = rng.normal(size=n_rows)
        edges = np.linspace(-1, 1, size + 1)[1:-1]
        codes.append(np.searchsorted(edges, 0.5 * lean + noise))
        lean = 0.5 * age + codes[-1] / size
    return age, codes


def effects_of(size):
    """Return the true coefficients of the values but the first."""
    return np.linspace(0.5, 1.0, size - 1)


def encode(kind, epsilon, codes):
    """Report codes; return the fitted encoder and the reports."""
    names = [f"q{place}" for place in range(len(codes))]
    values = {}
    for name, column in zip(names, codes, strict=True):
        values[name] = [str(code) for code in range(column.max() + 1)]
    table = pd.DataFrame(dict(zip(names, codes, strict=True))).astype(str)
    encoder = ORACLES[kind](epsilon * len(codes), categories=values)
    return encoder, encoder.fit_transform(table)


def run(setting, seed):
    """Fit a drawn table; return estimates, errors, and the truth, and those of the naive model."""
    target, kind, sizes, epsilon, n_rows = setting
    rng = np.random.default_rng(seed)
    age, codes = draw(rng, sizes, n_rows)
    linear = -0.5 + 0.5 * age
    truth = [-0.5, 0.5]
    for size, column in zip(sizes, codes, strict=True):
        effects = effects_of(size)
        linear = linear + np.append(0, effects)[column]
        truth += list(effects)
    X = pd.DataFrame({"age": age})
    encoder = None
    if codes:
        encoder, reports = encode(kind, epsilon, codes)
        X = pd.concat([X, reports.reset_index(drop=True)], axis=1)
    if target == "numbers":
        y = linear + rng.normal(size=n_rows)
        summary = ReportLinearRegression(encoder).fit(X, y).summary()
        return summary, np.array(truth), None
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-linear))).astype(int)
    naive = None
    if target == "true classes":
        model = ReportLogisticRegression(encoder).fit(X, y)
        if kind == "response":
            columns = pd.get_dummies(X.drop(columns="age"), drop_first=True)
            naive_X = np.column_stack([age, columns])
            naive = LogisticRegression(C=np.inf).fit(naive_X, y).coef_[0]
    else:
        of_target = RandomizedResponseEncoder(
            epsilon, categories={"target": ["0", "1"]}
        )
        table = pd.DataFrame({"target": y.astype(str)})
        told = of_target.fit_transform(table)
        model = ReportLogisticRegression(encoder, target_encoder=of_target)
        model.fit(X, told)
    return model.summary(), np.array(truth), naive


def main():
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    places = range(len(SETTINGS))
    if len(sys.argv) > 2:
        places = range(*map(int, sys.argv[2].split(":")))
    print(f"{repeats} repeats; 95 % intervals; bias in standard errors")
    for place in places:
        setting = SETTINGS[place]
        start = time.time()
        inside, errors, naive_shares, n_lost = [], [], [], 0
        for repeat in range(repeats):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                summary, truth, naive = run(setting, 1000 * place + repeat)
            if summary["std_error"].isna().any():
                n_lost += 1
                continue
            inside.append((summary["lower"] <= truth) & (truth <= summary["upper"]))
            errors.append((summary["estimate"] - truth) / summary["std_error"])
            if naive is not None:
                naive_shares.append(naive[1:] / truth[2:])
        cover = np.mean(inside, axis=0)
        bias = np.mean(errors, axis=0)
        text = f"{setting}: coverage {cover.min():.3f} to {cover.max():.3f}"
        text += f", mean {cover.mean():.3f}, largest bias {np.abs(bias).max():.2f}"
        text += f", without a maximum {n_lost}"
        if naive_shares:
            text += f", naive {np.mean(naive_shares):.2f} of the truth"
        print(f"{text}, {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
