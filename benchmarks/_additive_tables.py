"""The tables of additive_models.py: what is declared of them, and how the generated ones are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from skdp import Domain, Interval
from skdp.datasets import (
    load_acs_public_coverage,
    load_adult,
    load_compas,
    load_lsac,
)

# ACS has more: a third of them keeps a run within hours.
MOST_ROWS = 33_000


@dataclass(frozen=True, eq=False)
class Case:
    """A table, its target, and what is declared of both."""

    rows: pd.DataFrame
    target: np.ndarray
    bounds: dict[str, tuple[float, float]]
    categories: dict[str, list[Any]]
    # None if the target is 0 or 1.
    target_bounds: tuple[float, float] | None = None
    # Public bins of numbers, where they were published with the table.
    published: dict[str, Interval] = field(default_factory=dict)

    @property
    def indicators(self) -> tuple[np.ndarray, np.ndarray]:
        """The columns of linear models, with their bounds."""
        parts = [self.rows[list(self.bounds)].to_numpy(float)]
        ends = list(self.bounds.values())
        for name, values in self.categories.items():
            codes = self.rows[name].to_numpy(object)[:, np.newaxis]
            parts.append((codes == np.array(values, object)).astype(float))
            ends += [(0.0, 1.0)] * len(values)
        return np.hstack(parts), np.array(ends)

    @property
    def domain(self) -> Domain:
        """What a synthesizer declares: published bins, or as many equal ones."""
        attributes: dict[str, Any] = {"target": [0, 1]}
        for name in self.rows:
            if name in self.categories:
                attributes[name] = self.categories[name]
            elif name in self.published:
                attributes[name] = self.published[name]
            else:
                low, high = self.bounds[name]
                attributes[name] = Interval(low, high, bins=24, real=True)
        return Domain(attributes)


def of_bunch(bunch: Any, positive: Any, leave_out: tuple[str, ...] = ()) -> Case:
    """Take numbers and long scales as numbers, and other values as categories."""
    rows, bounds, categories, published = {}, {}, {}, {}
    for name in bunch.data.columns:
        attribute = bunch.domain[name]
        if name in leave_out:
            continue
        if isinstance(attribute, Interval):
            ends = attribute.edges[0], attribute.edges[-1]
        else:
            ends = min(attribute.values, key=str), max(attribute.values, key=str)
        is_scale = isinstance(ends[0], int | float) and len(attribute) > 6
        if isinstance(attribute, Interval) or is_scale:
            values = (
                attribute.edges if isinstance(attribute, Interval) else attribute.values
            )
            bounds[name] = (float(min(values)), float(max(values)))
            rows[name] = bunch.data[name].astype(float)
            if isinstance(attribute, Interval):
                published[name] = attribute
        else:
            categories[name] = ["?" if one is None else one for one in attribute.values]
            column = bunch.data[name].astype(object)
            rows[name] = column.where(column.notna(), "?")
    target = (bunch.target == positive).to_numpy().astype(int)
    case = Case(pd.DataFrame(rows), target, bounds, categories, published=published)
    if len(target) <= MOST_ROWS:
        return case
    random = np.random.default_rng(0)
    chosen = random.choice(len(target), MOST_ROWS, replace=False)
    return replace(
        case, rows=case.rows.iloc[chosen].reset_index(drop=True), target=target[chosen]
    )


def numbers(
    columns: np.ndarray, ends: tuple[float, float]
) -> tuple[pd.DataFrame, dict[str, Any]]:
    names = [f"x{place}" for place in range(columns.shape[1])]
    return pd.DataFrame(columns.clip(*ends), columns=names), dict.fromkeys(names, ends)


def classes(random: np.random.Generator, logits: np.ndarray) -> np.ndarray:
    return (random.random(len(logits)) < 1 / (1 + np.exp(-logits))).astype(int)


def skewed() -> Case:
    """Return 36 log-normal columns of several scales, in bounds that hold all of them."""
    random = np.random.default_rng(101)
    normal = random.normal(size=(24_000, 36))
    scales = random.normal(0, 1.5, 36)
    weights = random.normal(size=36)
    logits = 2.5 * normal @ weights / np.linalg.norm(weights)
    rows, bounds = numbers(np.exp(normal + scales), (0.0, 1e4))
    return Case(rows, classes(random, logits), bounds, {})


def curves() -> Case:
    """Return ten columns, of which some count by curves, steps and products."""
    random = np.random.default_rng(102)
    columns = random.uniform(-1, 1, (30_000, 10))
    logits = 1.5 * np.sin(4 * columns[:, 0]) + np.abs(columns[:, 1]) - columns[:, 2]
    logits += 2 * (columns[:, 3] > 0.5) + 2 * columns[:, 4] * columns[:, 5] - 1
    rows, bounds = numbers(columns, (-1.0, 1.0))
    return Case(rows, classes(random, logits), bounds, {})


def wide() -> Case:
    """Return 100 normal columns of which all matter, by lines."""
    random = np.random.default_rng(103)
    columns, weights = random.normal(size=(32_000, 100)), random.normal(size=100)
    logits = 6 * columns @ weights / np.linalg.norm(weights)
    rows, bounds = numbers(columns, (-4.0, 4.0))
    return Case(rows, classes(random, logits), bounds, {})


def cancer() -> Case:
    columns, target = load_breast_cancer(return_X_y=True)
    rows, _ = numbers(columns, (0.0, np.inf))
    ends = [(0.0, float(10 ** np.ceil(np.log10(rows[name].max())))) for name in rows]
    return Case(rows, target, dict(zip(rows, ends, strict=True)), {})


def houses() -> Case:
    """Return districts as of California: incomes with a tail, and two towns."""
    random = np.random.default_rng(104)
    n = 20_000
    town = random.random(n) < 0.55
    latitude = np.where(town, 34.0, 37.7) + random.normal(0, 0.7, n)
    longitude = np.where(town, -118.2, -122.2) + random.normal(0, 0.8, n)
    income = random.lognormal(1.2, 0.45, n).clip(0, 20)
    age = random.integers(1, 53, n).astype(float)
    crowd = random.lognormal(1.0, 0.3, n).clip(0, 100)
    near = np.exp(
        -np.minimum(
            np.hypot(latitude - 34, longitude + 118.4),
            np.hypot(latitude - 37.8, longitude + 122.4),
        )
    )
    price = (
        0.4 * income
        + 1.2 * near
        + 0.006 * age
        - 0.5 * np.log(crowd)
        + 0.6
        + random.normal(0, 0.55, n)
    )
    rows = pd.DataFrame(
        {
            "latitude": latitude,
            "longitude": longitude,
            "income": income,
            "age": age,
            "crowd": crowd,
        }
    )
    bounds = {
        "latitude": (32.0, 42.0),
        "longitude": (-125.0, -114.0),
        "income": (0.0, 20.0),
        "age": (0.0, 60.0),
        "crowd": (0.0, 100.0),
    }
    return Case(rows, price.clip(0, 5), bounds, {}, (0.0, 5.0))


def diamonds(logarithm: bool) -> Case:
    """Return stones of which the price grows with a power of the weight."""
    random = np.random.default_rng(105)
    n = 50_000
    carat = np.round(random.lognormal(-0.4, 0.58, n), 2).clip(0.2, 5)
    cut, colour, clarity = (
        random.integers(0, 5, n),
        random.integers(0, 7, n),
        random.integers(0, 8, n),
    )
    depth = random.normal(61.7, 1.4, n)
    length = 6.4 * np.cbrt(carat) + random.normal(0, 0.05, n)
    logs = (
        8.4
        + 1.8 * np.log(carat)
        + 0.03 * cut
        - 0.08 * colour
        + 0.12 * clarity
        + random.normal(0, 0.11, n)
    )
    words = {
        "cut": (cut, "FGVPI"),
        "colour": (colour, "DEFGHIJ"),
        "clarity": (clarity, "abcdefgh"),
    }
    rows = pd.DataFrame({"carat": carat, "depth": depth, "length": length})
    categories = {}
    for name, (codes, letters) in words.items():
        values = np.array(list(letters), object)[codes]
        # Or pandas infers a type that DP-EBM does not know.
        rows[name] = pd.Series(values, dtype=object)
        categories[name] = list(letters)
    bounds = {"carat": (0.0, 5.0), "depth": (40.0, 80.0), "length": (0.0, 12.0)}
    if logarithm:
        return Case(
            rows, logs, bounds, categories, (float(np.log(100)), float(np.log(1e5)))
        )
    return Case(rows, np.exp(logs).clip(0, 20_000), bounds, categories, (0.0, 20_000.0))


def published_tables(folder: Path | None) -> dict[str, Callable[[], Case]]:
    """Return the tables that others published, from a folder or fetched."""

    def path(name: str) -> Path | None:
        return None if folder is None else folder / name

    return {
        "COMPAS": lambda: of_bunch(load_compas(path("compas_two_years.csv.gz")), 1),
        "LSAC": lambda: of_bunch(load_lsac(path("lsac.csv.gz")), 1),
        "Adult": lambda: of_bunch(load_adult(), ">50K", ("fnlwgt",)),
        "ACS": lambda: of_bunch(
            load_acs_public_coverage(path("acs_public_coverage.csv.gz")), 1
        ),
        "breast cancer": cancer,
    }


GENERATED: dict[str, Callable[[], Case]] = {
    "36 log-normal columns": skewed,
    "interactions": curves,
    "100 normal columns": wide,
    "California-like": houses,
    "diamonds, price": lambda: diamonds(False),
    "diamonds, log price": lambda: diamonds(True),
}
