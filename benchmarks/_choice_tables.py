"""The tables of model_choice.py, of formulas, seeds and targets that no constant of skdp was chosen by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _additive_tables import Case, classes, numbers, of_bunch, published_tables
from sklearn.datasets import load_diabetes, load_digits

from skdp.datasets import (
    load_acs_public_coverage,
    load_adult,
    load_compas,
    load_lsac,
)

ROWS = 12_000
FEW_ROWS = 2_000


def lines(n_rows: int, n_columns: int, seed: int, width: float = 4.0) -> Case:
    """Return normal columns that act by lines, between bounds of a width in deviations."""
    random = np.random.default_rng(seed)
    columns = random.normal(size=(n_rows, n_columns))
    weights = random.laplace(size=n_columns)
    logits = 2 * columns @ weights / np.linalg.norm(weights) - 0.5
    rows, bounds = numbers(columns, (-width, width))
    return Case(rows, classes(random, logits), bounds, {})


def curves(n_rows: int, n_columns: int, seed: int) -> Case:
    """Return columns of which each acts by a wave, a hill or a threshold."""
    random = np.random.default_rng(seed)
    columns = random.beta(2, 3, size=(n_rows, n_columns))
    effects = np.empty_like(columns)
    for place in range(n_columns):
        values = columns[:, place]
        height, middle = random.normal(), random.uniform(0.2, 0.6)
        if place % 3 == 0:
            effects[:, place] = height * np.cos(9 * (values - middle))
        elif place % 3 == 1:
            effects[:, place] = height * np.exp(-50 * (values - middle) ** 2)
        else:
            effects[:, place] = height * (values > middle)
    total = effects.sum(axis=1)
    logits = 2 * (total - total.mean()) / total.std()
    rows, bounds = numbers(columns, (0.0, 1.0))
    return Case(rows, classes(random, logits), bounds, {})


def pairs(n_rows: int, seed: int) -> Case:
    """Return eight columns: a sign and a product of two, a line, and no effect."""
    random = np.random.default_rng(seed)
    columns = random.uniform(-1, 1, (n_rows, 8))
    logits = 1.5 * np.sign(columns[:, 0] * columns[:, 1])
    logits += 3 * columns[:, 2] * columns[:, 3] + columns[:, 4]
    rows, bounds = numbers(columns, (-1.0, 1.0))
    return Case(rows, classes(random, logits), bounds, {})


def skewed(n_rows: int, seed: int, *, is_number: bool = False) -> Case:
    """Return log-normal and Pareto columns that act by logarithms, steps and roots."""
    random = np.random.default_rng(seed)
    logs = random.normal(size=(n_rows, 15)) * random.uniform(0.4, 2, 15)
    logs[:, ::3] = random.exponential(0.8, logs[:, ::3].shape)
    total = logs @ random.normal(size=15) + 2 * (logs[:, 1] > 0.5)
    total -= np.sqrt(np.exp(logs[:, 0]))
    total = (total - total.mean()) / total.std()
    rows, bounds = numbers(100 * np.exp(logs), (0.0, 1e6))
    if is_number:
        target = total + random.normal(0, 0.5, n_rows)
        return Case(rows, target.clip(-6, 6), bounds, {}, (-6.0, 6.0))
    return Case(rows, classes(random, 2 * total), bounds, {})


def categories(n_rows: int, seed: int, *, by_pairs: bool) -> Case:
    """Return ten columns of 2 to 12 values, which act by themselves or by pairs."""
    random = np.random.default_rng(seed)
    sizes = random.integers(2, 13, 10)
    codes = np.column_stack([random.integers(0, size, n_rows) for size in sizes])
    total = np.zeros(n_rows)
    for place, size in enumerate(sizes):
        total += random.normal(size=size)[codes[:, place]]
    if by_pairs:
        for first in range(0, 10, 2):
            effects = 2 * random.normal(size=sizes[first : first + 2])
            total += effects[codes[:, first], codes[:, first + 1]]
    logits = 2 * (total - total.mean()) / total.std()
    rows, declared = {}, {}
    for place, size in enumerate(sizes):
        values = [f"v{value}" for value in range(size)]
        rows[f"x{place}"] = np.array(values, object)[codes[:, place]]
        declared[f"x{place}"] = values
    return Case(pd.DataFrame(rows), classes(random, logits), {}, declared)


def digits() -> Case:
    """Return which digits are even, of 64 grey values."""
    columns, target = load_digits(return_X_y=True)
    rows, bounds = numbers(columns, (0.0, 16.0))
    return Case(rows, (target % 2 == 0).astype(int), bounds, {})


def diabetes() -> Case:
    columns, target = load_diabetes(return_X_y=True, scaled=False)
    rows, _ = numbers(columns, (0.0, np.inf))
    bounds = {}
    for name in rows:
        bounds[name] = (0.0, float(10 ** np.ceil(np.log10(rows[name].max()))))
    return Case(rows, target.astype(float), bounds, {}, (0.0, 400.0))


def part(case: Case, n_rows: int, seed: int) -> Case:
    """Draw rows without replacement."""
    random = np.random.default_rng(seed)
    chosen = random.choice(len(case.target), n_rows, replace=False)
    rows = case.rows.iloc[chosen].reset_index(drop=True)
    return replace(case, rows=rows, target=case.target[chosen])


def retargeted(bunch: Any, class_label: Any, name: str, is_positive: pd.Series) -> Case:
    """Take a column as the target, and the target for a column."""
    case = of_bunch(bunch, class_label, ("fnlwgt",))
    rows = case.rows.drop(columns=name).assign(target_0=case.target)
    for declared in (case.bounds, case.categories, case.published):
        declared.pop(name, None)
    case.categories["target_0"] = [0, 1]
    rows["target_0"] = rows["target_0"].astype(object)
    return replace(case, rows=rows, target=is_positive.to_numpy().astype(int))


def long_hours() -> Case:
    adult = load_adult()
    is_long = adult.data["hours-per-week"] > 40
    return part(retargeted(adult, ">50K", "hours-per-week", is_long), ROWS, 220)


def disability(path: Path | None) -> Case:
    people = load_acs_public_coverage(path)
    chosen = np.random.default_rng(221).choice(len(people.data), ROWS, replace=False)
    people.data = people.data.iloc[chosen].reset_index(drop=True)
    people.target = people.target.iloc[chosen].reset_index(drop=True)
    return retargeted(people, 1, "DIS", people.data["DIS"] == 0)


def full_time(path: Path | None) -> Case:
    students = load_lsac(path)
    return retargeted(students, 1, "fulltime", students.data["fulltime"] == 0)


def felony(path: Path | None) -> Case:
    people = load_compas(path)
    is_felony = people.data["c_charge_degree"] == "F"
    return retargeted(people, 1, "c_charge_degree", is_felony)


def held_back(folder: Path | None) -> dict[str, Callable[[], Case]]:
    """Return all tables."""

    def path(name: str) -> Path | None:
        return None if folder is None else folder / name

    published = published_tables(folder)
    return {
        "lines": lambda: lines(ROWS, 12, 201),
        "lines, 2,000 rows": lambda: lines(FEW_ROWS, 12, 202),
        "lines, 60 columns": lambda: lines(ROWS, 60, 203),
        "lines, bounds of 200 deviations": lambda: lines(ROWS, 12, 204, 200.0),
        "curves": lambda: curves(ROWS, 8, 205),
        "curves, 2,000 rows": lambda: curves(FEW_ROWS, 8, 206),
        "curves, 60 columns": lambda: curves(ROWS, 60, 207),
        "pairs": lambda: pairs(ROWS, 208),
        "pairs, 2,000 rows": lambda: pairs(FEW_ROWS, 209),
        "skewed": lambda: skewed(ROWS, 210),
        "skewed, 2,000 rows": lambda: skewed(FEW_ROWS, 211),
        "categories": lambda: categories(ROWS, 212, by_pairs=False),
        "categories, pairs": lambda: categories(ROWS, 213, by_pairs=True),
        "a number, skewed": lambda: skewed(ROWS, 214, is_number=True),
        "a number, lines": lambda: number_by_lines(ROWS, 12, 215),
        "a number, curves": lambda: number_by_curves(ROWS, 8, 217),
        "Adult, 2,000 rows": lambda: part(published["Adult"](), FEW_ROWS, 219),
        "Adult, long hours": long_hours,
        "ACS, disability": lambda: disability(path("acs_public_coverage.csv.gz")),
        "LSAC, full time": lambda: full_time(path("lsac.csv.gz")),
        "COMPAS, felony": lambda: felony(path("compas_two_years.csv.gz")),
        "digits, even": digits,
        "diabetes": diabetes,
    }


def number_by_lines(n_rows: int, n_columns: int, seed: int) -> Case:
    random = np.random.default_rng(seed)
    columns = random.normal(size=(n_rows, n_columns))
    weights = random.normal(size=n_columns)
    target = columns @ weights / np.linalg.norm(weights)
    target += random.normal(0, 0.7, n_rows)
    rows, bounds = numbers(columns, (-4.0, 4.0))
    return Case(rows, target.clip(-6, 6), bounds, {}, (-6.0, 6.0))


def number_by_curves(n_rows: int, n_columns: int, seed: int) -> Case:
    random = np.random.default_rng(seed)
    columns = random.uniform(0, 1, (n_rows, n_columns))
    phases = random.uniform(0, 3, n_columns)
    target = np.cos(7 * columns + phases).sum(axis=1) / np.sqrt(n_columns)
    target += random.normal(0, 0.4, n_rows)
    rows, bounds = numbers(columns, (0.0, 1.0))
    return Case(rows, target.clip(-5, 5), bounds, {}, (-5.0, 5.0))
