"""Errors of tables in which only the named columns are private, compared with releases of whole records.

"distance" is the mean total variation distance of pairs with a private column. "AUC" is the
area under the ROC curve of boosted trees that are trained on the released rows, where the
private column is the target.

`DPColumnSynthesizer` resamples only the private columns. The method "whole records" makes
all columns synthetic. The task "limits" has real rows, and private columns in a random order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from _tables import (
    Table,
    load_published,
    parity,
    payments,
    score_trees,
    synthesize,
)
from _tasks import Task
from synthesis import measure_distance

from skdp import Domain, Interval

DELTA = 1e-6
COLUMNS = {
    "Adult": [["income"], ["age", "sex"]],
    "ACS": [["PUBCOV"], ["AGEP", "SEX"]],
    "LSAC": [["pass_bar"], ["race1", "gender"]],
    "COMPAS": [["two_year_recid"], ["age", "sex"]],
}
SMALL = (("ACS", ["AGEP", "SEX"]), ("ACS", ["AGEP", "SCHL"]))
SINGLE_YEARS = (
    ("COMPAS", ["race", "sex"], "age"),
    ("COMPAS", ["age", "sex"], "age"),
    ("Adult", ["race", "sex"], "age"),
    ("ACS", ["RAC1P", "SEX"], "AGEP"),
)


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """A table and its private columns."""

    table: Table
    private: list[str]


def tables(quick: bool) -> dict[str, Callable[[], ColumnTable]]:
    """Return tables with their private columns."""
    if quick:
        return {"parity: label": partial(choose, partial(parity, 2_000), ["label"])}
    published = load_published()
    choices = [
        (name, load, private)
        for name, load in published.items()
        for private in COLUMNS[name]
    ]
    choices.append(("2,000 payments", partial(payments, 2_000), ["merchant"]))
    for name, private in SMALL:
        load = partial(take_rows, published[name], 2_000)
        choices.append((f"{name}, 2,000 rows", load, private))
    for name, private, age in SINGLE_YEARS:
        load = partial(cut_years, published[name], age)
        choices.append((f"{name}, single years", load, private))
    return {
        f"{title}: {', '.join(private)}": partial(choose, load, private)
        for title, load, private in choices
    }


def take_rows(load: Callable[[], Table], n_rows: int) -> Table:
    """Load some training rows of a table."""
    table = load()
    rows = table.train.sample(n_rows, random_state=0).reset_index(drop=True)
    return replace(table, train=rows)


def cut_years(load: Callable[[], Table], age: str) -> Table:
    """Load a table with one bin per year of age."""
    table = load()
    if not isinstance(table.domain[age], Interval):
        return table
    edges = table.domain[age].edges
    years = Interval(edges[0], edges[-1], bins=int(edges[-1] - edges[0]), decimals=0)
    columns = {name: table.domain[name] for name in table.domain.columns}
    return replace(table, domain=Domain(columns | {age: years}))


def choose(load: Callable[[], Table], private: list[str]) -> ColumnTable:
    """Load a table."""
    return ColumnTable(load(), private)


def resample_columns(data: ColumnTable, epsilon: float, seed: int) -> pd.DataFrame:
    """Resample the private columns with `DPColumnSynthesizer`."""
    from skdp import DPColumnSynthesizer

    synthesizer = DPColumnSynthesizer(
        data.private,
        epsilon=epsilon,
        delta=DELTA,
        domain=data.table.domain,
        random_state=seed,
    )
    return synthesizer.fit_transform(data.table.train)


def synthesize_records(data: ColumnTable, epsilon: float, seed: int) -> pd.DataFrame:
    """Draw synthetic rows."""
    return synthesize(data.table, epsilon, seed, delta=DELTA)


def shuffle(data: ColumnTable, epsilon: float, seed: int) -> pd.DataFrame:
    """Permute the rows of the private columns."""
    order = np.random.default_rng(seed).permutation(len(data.table.train))
    permuted = {name: data.table.train[name].to_numpy()[order] for name in data.private}
    return data.table.train.assign(**permuted)


def keep(data: ColumnTable, epsilon: float, seed: int) -> pd.DataFrame:
    """Return the real rows."""
    return data.table.train


def score(data: ColumnTable, rows: pd.DataFrame) -> dict[str, float]:
    """Compute errors of pairs with a private column, and scores of trees that predict the private column."""
    table, codes = data.table, data.table.encode(rows)
    distances = [
        measure_distance(table, codes, (first, second))
        for first in data.private
        for second in table.columns
        if second not in data.private
    ]
    if len(data.private) > 1:
        distances.append(measure_distance(table, codes, tuple(data.private)))
    scores = {"distance": float(np.mean(distances))}
    if data.private == [table.target]:
        scores["AUC"] = score_trees(table, rows)
    return scores


METHODS = {
    "DPColumnSynthesizer": resample_columns,
    "whole records": synthesize_records,
}
LIMITS = {"real rows": keep, "shuffled": shuffle}
TASKS = {
    "columns": Task(tables, METHODS, score, (1.0, 0.5, 4.0), 4),
    "limits": Task(tables, LIMITS, score, (math.inf,), 2),
}
