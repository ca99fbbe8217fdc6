"""Ordinary columns of real tables: rare indicators, identifiers, spikes, tails, and columns that follow from others."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

N_ROWS = 3_000
AGE_BOUNDS = (0.0, 120.0)


class Ordinary(NamedTuple):
    """Columns with declared bounds, a number that depends on them linearly, and a label whose log odds do so."""

    X: pd.DataFrame
    bounds: dict[str, tuple[float, float]]
    number: np.ndarray
    number_bounds: tuple[float, float]
    label: np.ndarray


def draw_age(rng, n_rows=N_ROWS):
    return rng.normal(45, 12, n_rows).clip(*AGE_BOUNDS)


def draw_indicator(rng, share, n_rows=N_ROWS):
    return (rng.random(n_rows) < share).astype(float)


def draw_year(rng):
    return 1990.0 + rng.integers(0, 30, N_ROWS)


def draw_opinion(rng):
    return 1.0 + rng.binomial(4, 0.6, N_ROWS)


def draw_identifier(rng):
    return np.sort(rng.integers(100_000_000, 900_000_000, N_ROWS)).astype(float)


def draw_spike(rng):
    """Draw zeros, and a tail beyond them."""
    return np.where(rng.random(N_ROWS) < 0.57, 0.0, rng.lognormal(5, 1, N_ROWS)).clip(0, 20_000)


def draw_amount(rng):
    """Draw amounts far below the declared bound."""
    return rng.lognormal(7, 0.9, N_ROWS).clip(0, 1e6)


ONE = (0.0, 1.0)
COLUMNS = {
    "indicator of 1 %": (lambda rng: draw_indicator(rng, 0.01), ONE),
    "indicator of 3 %": (lambda rng: draw_indicator(rng, 0.03), ONE),
    "indicator of 10 %": (lambda rng: draw_indicator(rng, 0.1), ONE),
    "identifier": (draw_identifier, (0.0, 1e9)),
    "year": (draw_year, (1900.0, 2100.0)),
    "spike at zero": (draw_spike, (0.0, 20_000.0)),
    "opinion": (draw_opinion, (1.0, 5.0)),
    "amount": (draw_amount, (0.0, 1e6)),
    "constant": (lambda rng: np.full(N_ROWS, 3.0), (0.0, 10.0)),
}
DEPENDENT = ["equal columns", "sum of columns"]
OTHERS = ["class of 2 %", "400 rows"]
SETTINGS = [*COLUMNS, *DEPENDENT, *OTHERS]


def draw_ordinary(name, seed=0):
    """Draw the setting of a name: its column beside an age."""
    rng = np.random.default_rng(seed)
    X, bounds = {"age": draw_age(rng)}, {"age": AGE_BOUNDS}
    if name in COLUMNS:
        draw, bounds["x"] = COLUMNS[name]
        X["x"] = draw(rng)
    else:
        X["x"], bounds["x"] = draw_indicator(rng, 0.3), ONE
    if name == "equal columns":
        X["same"], bounds["same"] = X["age"], AGE_BOUNDS
    if name == "sum of columns":
        X["sum"], bounds["sum"] = X["age"] + 10 * X["x"], (0.0, 130.0)
    X = pd.DataFrame(X)
    if name == "400 rows":
        X = X[:400]
    return add_targets(rng, X, bounds, intercept=-5.0 if name == "class of 2 %" else -0.5)


def add_targets(rng, X, bounds, intercept):
    """Draw targets to which each column contributes alike."""
    scaled = ((X - X.mean()) / X.std().where(X.std() > 1e-9, 1.0)).sum(axis=1).to_numpy()
    number = (10 + scaled + rng.normal(0, 1, len(X))).clip(-10, 40)
    label = (rng.random(len(X)) < expit(intercept + 0.7 * scaled)).astype(int)
    return Ordinary(X, bounds, number, (-10.0, 40.0), label)
