"""How often the bands of additive models hold the truth, by what is released, on generated tables.

The truth is the additive model of the same bins that fits the expected target best, without noise and with these rows.
The constants for correlated columns were chosen on other rows of these laws.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from _timing import write_results
from scipy.special import expit, ndtr, softmax

from skdp import DPAdditiveClassifier, DPAdditiveRegressor

FITS = 3
# Others were used to choose constants.
FIRST_SEED = 100
ROWS = (2_000, 10_000, 30_000)
EPSILONS = (0.2, 0.5, 1.0, 4.0)
CORRELATIONS = (0.0, 0.5, 0.8)
TARGETS = (
    "number, logarithms",
    "number, lines",
    "number, long tail",
    "two classes, roots",
    "three classes, logarithms",
)
BOUNDS = {"bell": (-6.0, 6.0), "even": (0.0, 1.0), "tail": (0.0, 1e5)}
WORDS = ["a", "b", "c", "d", "e"]
REACH = 1.96


class Generated(NamedTuple):
    """A table, its target, and the expected target on the scale of the functions: (n_rows, n_outputs)."""

    rows: pd.DataFrame
    target: np.ndarray
    response: np.ndarray


def generate(
    kind: str, n_rows: int, correlation: float, random: np.random.Generator
) -> Generated:
    shared = random.normal(size=(n_rows, 1))
    own = random.normal(size=(n_rows, 4))
    normal = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
    words = np.searchsorted([-1.2, -0.3, 0.2, 1.0], normal[:, 3])
    tail = np.exp(3 + 1.2 * normal[:, 2])
    rows = pd.DataFrame(
        {
            "bell": normal[:, 0],
            "even": ndtr(normal[:, 1]),
            "tail": tail,
            "word": np.array(WORDS)[words],
        }
    )
    of_tail = 0.6 * np.log(tail / 20)
    if "lines" in kind:
        of_tail = tail / 60
    elif "roots" in kind:
        of_tail = np.sqrt(tail) / 5
    functions = [
        np.tanh(2 * normal[:, 0]),
        (rows["even"] > 0.6) + 0.5 * rows["even"],
        of_tail,
        np.array([0.3, -0.6, 0.0, 0.5, -0.2])[words],
    ]
    total = np.sum(functions, axis=0)
    if kind.startswith("number"):
        noise = 0.6 * random.normal(size=n_rows)
        if "long tail" in kind:
            noise = 0.3 * random.standard_gamma(0.5, n_rows) ** 1.5
        return Generated(rows, total + noise, total[:, np.newaxis])
    if kind.startswith("two"):
        response = total[:, np.newaxis] - 1.0
        classes = random.random(n_rows) < expit(response[:, 0])
        return Generated(rows, classes.astype(int), response)
    weights = np.array([0.8, 0.1, -0.9])
    response = total[:, np.newaxis] * weights + [0.0, 0.3, 0.6]
    chances = np.cumsum(softmax(response, axis=1), axis=1)
    classes = (random.random((n_rows, 1)) > chances).sum(axis=1)
    return Generated(rows, classes, response)


def best_steps(codes: np.ndarray, response: np.ndarray, is_number: bool) -> np.ndarray:
    """Fit the values of bins without noise: (n_all_bins, n_outputs)."""
    # Rows with the same bins of all columns are one.
    cells, places, sizes = np.unique(
        codes, axis=0, return_inverse=True, return_counts=True
    )
    indicators = np.zeros((len(cells), codes.max() + 1))
    for column in cells.T:
        indicators[np.arange(len(cells)), column] = 1
    n_bins, n_outputs = indicators.shape[1], response.shape[1]
    expected = response
    if not is_number:
        expected = expit(response) if n_outputs == 1 else softmax(response, axis=1)
    sums = np.zeros((len(cells), n_outputs))
    np.add.at(sums, places.ravel(), expected)
    values, constant = np.zeros((n_bins, n_outputs)), response.mean(axis=0)
    for _ in range(1 if is_number else 12):
        fitted = indicators @ values + constant
        spreads = np.ones((len(cells), 1, 1))
        if not is_number and n_outputs == 1:
            fitted = expit(fitted)
            spreads = (fitted * (1 - fitted))[:, np.newaxis]
        elif not is_number:
            fitted = softmax(fitted, axis=1)
            spreads = fitted[:, :, np.newaxis] * (
                np.eye(n_outputs) - fitted[:, np.newaxis]
            )
        slopes = np.zeros((n_bins, n_outputs, n_bins, n_outputs))
        for first, second in np.ndindex(n_outputs, n_outputs):
            weights = sizes * spreads[:, first, second]
            slopes[:, first, :, second] = (indicators.T * weights) @ indicators
        size = n_bins * n_outputs
        gradient = indicators.T @ (sums - sizes[:, np.newaxis] * fitted)
        slope = slopes.reshape(size, size) + 1e-6 * np.eye(size)
        values += np.linalg.solve(slope, gradient.ravel()).reshape(values.shape)
    return values - values.mean(axis=1, keepdims=True) * (n_outputs > 1)


def bins_of(kind: str, n_rows: int, correlation: float, epsilon: float, seed: int):
    """Return the errors of the values of all bins with rows, their standard errors, and what is known of the bins."""
    random = np.random.default_rng([7, seed])
    table = generate(kind, n_rows, correlation, random)
    declared = {
        "bounds": BOUNDS,
        "categories": {"word": WORDS},
        "random_state": seed,
    }
    if kind.startswith("number"):
        model = DPAdditiveRegressor(epsilon, target_bounds=(-8, 40), **declared)
    else:
        classes = np.unique(table.target).tolist()
        model = DPAdditiveClassifier(epsilon, classes=classes, **declared)
    model.fit(table.rows, table.target)
    shapes = {name: model.shape_(name) for name in table.rows}
    codes, first = [], 0
    for name, shape in shapes.items():
        column = table.rows[name].to_numpy()
        if name in BOUNDS:
            column = column.clip(*BOUNDS[name])
        codes.append(first + shape.bins.encode(column))
        first += len(shape.values)
    codes = np.stack(codes, axis=1)
    truth = best_steps(codes, table.response, kind.startswith("number"))
    truth = np.pad(truth, ((0, first - len(truth)), (0, 0)))
    counts = np.bincount(codes.ravel(), minlength=first)
    first = 0
    for name, shape in shapes.items():
        here = slice(first, first + len(shape.values))
        first = here.stop
        sizes = counts[here]
        values = shape.values.reshape(len(sizes), -1)
        centred = truth[here] - sizes @ truth[here] / sizes.sum()
        for place in np.flatnonzero(sizes):
            kind_of_bin = "word"
            if name in BOUNDS:
                is_outer = place in (0, len(sizes) - 2)
                kind_of_bin = "outer" if is_outer else "inner"
            for output in range(values.shape[1]):
                error = values[place, output] - centred[place, output]
                std_error = shape.std_error.reshape(values.shape)[place, output]
                is_held = abs(error) <= REACH * std_error
                yield (
                    name,
                    kind_of_bin,
                    bool(shape.is_supported[place]),
                    abs(error),
                    std_error,
                    is_held,
                )


def measured() -> pd.DataFrame:
    parts = []
    for setting in itertools.product(TARGETS, ROWS, CORRELATIONS, EPSILONS):
        kind, n_rows, correlation, epsilon = setting
        for seed in range(FIRST_SEED, FIRST_SEED + FITS):
            part = pd.DataFrame(
                bins_of(kind, n_rows, correlation, epsilon, seed),
                columns=[
                    "column",
                    "bin",
                    "is_supported",
                    "error",
                    "std_error",
                    "held",
                ],
            )
            parts.append(
                part.assign(
                    target=kind, rows=n_rows, correlation=correlation, epsilon=epsilon
                )
            )
        print(*setting, f"{pd.concat(parts[-FITS:])['held'].mean():.3f}", flush=True)
    return pd.concat(parts)


def table_of(bins: pd.DataFrame, keys: list[str], what: str) -> Iterator[list[str]]:
    for key, group in bins.groupby(keys, sort=False):
        cells = []
        for epsilon in EPSILONS:
            part = group[group["epsilon"] == epsilon]
            if part.empty:
                cells.append("–")
            elif what == "held":
                cells.append(f"{part['held'].mean():.2f}")
            else:
                ideal = part["error"].quantile(0.95)
                cells.append(f"{REACH * part['std_error'].mean() / ideal:.2f}")
        yield [
            *(f"{part:,}" if isinstance(part, int) else str(part) for part in key),
            *cells,
        ]


def supported_rows(shares: pd.Series) -> list[list[str]]:
    """Return the shares of the bins that are supported."""
    rows = []
    for correlation, n_rows in itertools.product(CORRELATIONS, ROWS):
        row = [str(correlation), f"{n_rows:,}"]
        for epsilon in EPSILONS:
            row.append(f"{shares[correlation, n_rows, epsilon]:.2f}")
        rows.append(row)
    return rows


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    bins = measured()
    supported = bins[bins["is_supported"]]
    keys = ["target", "correlation", "rows"]
    epsilons = [f"ε = {epsilon:g}" for epsilon in EPSILONS]
    kinds = bins.assign(
        kind=np.where(bins["is_supported"], "supported", "not supported")
    )
    kinds = kinds[kinds["correlation"] == 0]
    shares = bins.groupby(["correlation", "rows", "epsilon"])["is_supported"].mean()
    write_results(
        "additive_bands",
        "Bands of additive models",
        ["skdp", "numpy", "scikit-learn"],
        f"Of generated tables of four columns (a normal, a uniform, a skewed one and one of words), {FITS} fits each: "
        "the share of the supported bins whose interval of 95 % holds the value of the additive model of the same bins "
        "that fits the expected target best. Columns are correlated as normal numbers, equally. The constants for "
        "correlated columns were chosen on other rows of these laws.",
        {
            "Supported bins that are held": (
                ("target", "correlation", "rows", *epsilons),
                list(table_of(supported, keys, "held")),
            ),
            "Half widths of supported bins, over the 95 % quantile of their errors": (
                ("target", "correlation", "rows", *epsilons),
                list(table_of(supported, keys, "width")),
            ),
            "By kind of bin, of independent columns": (
                ("bins", "kind", *epsilons),
                list(table_of(kinds, ["kind", "bin"], "held")),
            ),
            "Share of the bins with rows that are supported": (
                ("correlation", "rows", *epsilons),
                supported_rows(shares),
            ),
        },
    )
