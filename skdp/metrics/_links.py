"""Errors of the dependence within people, between real and synthetic linked tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skdp.metrics._inputs import parse_columns
from skdp.tables import is_frame

"""Largest number of different numbers that are not cut into bins."""


def link_errors(
    people: Any,
    events: Any,
    synthetic_people: Any,
    synthetic_events: Any,
    *,
    person: Any,
) -> pd.Series:
    """Compare the dependence within people in synthetic and in real linked tables.

    Parameters
    ----------
    people : dataframe
        One row per person, with the id in the column `person`.
    events : dataframe
        Real events with the id of their person. The events of each person are in their order.
    synthetic_people : dataframe
        Synthetic people, as returned by `DPLinkedSynthesizer`.
    synthetic_events : dataframe
        Events of the synthetic people.
    person : column name
        Column that identifies the person.

    Returns
    -------
    pandas.Series
        Errors from 0 (equal) to 1, as means over columns. ``count`` is the total variation distance of the numbers of
        events, ``column`` of single columns of events, ``person`` of pairs of columns of events and of people, and
        ``next`` of pairs of an event and the next one. ``equal`` is the error of the probability that two events of a
        person are equal, and ``icc`` of the intraclass correlation of numbers, the correlation of two events of a
        person; both as means over people with at least two events. Numbers with more than 20 values are cut at the
        deciles of the real tables. Dates are numbers.

    Raises
    ------
    TypeError, ValueError
        If a table is not a dataframe in memory, a column has other types in another table, a person is repeated in a
        table of people, a table lacks the column `person`, a column is in both tables, or the synthetic tables lack
        columns of the real tables.

    See Also
    --------
    marginal_errors : Compare counts of single tables, such as pairs of columns of events.
    skdp.DPLinkedSynthesizer : Synthesize linked tables.

    Notes
    -----
    **Privacy.** The result depends on the real tables and has no guarantee. Do not publish it if these are private.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.metrics import link_errors
    >>> people = pd.DataFrame({"id": [0, 1], "sex": ["f", "m"]})
    >>> visits = pd.DataFrame({"id": [0, 0, 1, 1], "ward": ["er", "er", "gp", "gp"]})
    >>> mixed = visits.assign(ward=["er", "gp", "er", "gp"])
    >>> link_errors(people, visits, people, mixed, person="id")
    column    0.0
    count     0.0
    equal     1.0
    next      1.0
    person    0.5
    dtype: float64
    """
    given = {
        "people": people,
        "events": events,
        "synthetic_people": synthetic_people,
        "synthetic_events": synthetic_events,
    }
    tables = [_read_table(table, name) for name, table in given.items()]
    synthetic_names = [*tables[2], *tables[3]]
    names = [person, *tables[0], *tables[1]]
    missing = [name for name in names if name not in synthetic_names]
    read = dict(zip(given, tables, strict=True))
    without = [name for name, table in read.items() if person not in [*table]]
    if without:
        raise ValueError(
            f"All tables must have the column `person`={person!r}, but it is not in "
            f"{without}."
        )
    if missing:
        raise ValueError(
            "The synthetic tables must have all columns of the real tables, but lack "
            f"{sorted(map(str, missing))}."
        )
    shared = {*tables[0]} & {*tables[1]} - {person}
    if shared:
        raise ValueError(
            "A column must be in one of `people` and `events` only, got "
            f"{sorted(map(str, shared))} in both."
        )
    for kind, pair in (("real", tables[:2]), ("synthetic", tables[2:])):
        if not pair[0][person].is_unique:
            raise ValueError(
                f"The {kind} people must have each person once, got repeated values in "
                f"column {person!r}."
            )
        _check_types(person, [table[person] for table in pair])
    synthetic_columns = dict(tables[2]) | dict(tables[3])
    for table in tables[:2]:
        for name in table.columns.drop(person):
            _check_types(name, [table[name], synthetic_columns[name]])
    real = _describe(*tables[:2], *tables[:2], person=person)
    synthetic = _describe(*tables[2:], *tables[:2], person=person)
    errors = {}
    for index, proportions in real.items():
        both = pd.concat([proportions, synthetic[index]], axis=1, sort=False).fillna(0)
        errors[index] = both.diff(axis=1).iloc[:, 1].abs().sum() / 2
    return pd.Series(errors).groupby(level=0).mean()


def _read_table(table: Any, label: str) -> pd.DataFrame:
    """Convert a table to pandas, with dates as numbers of milliseconds."""
    if not is_frame(table):
        raise TypeError(f"Tables must be dataframes, got {type(table).__name__}.")
    columns = parse_columns(table, label)
    for name, column in columns.items():
        if pd.api.types.is_datetime64_any_dtype(column):
            numbers = column.dt.as_unit("ms").astype("int64")
            columns[name] = numbers.where(column.notna())
    return pd.DataFrame(columns)


def _check_types(name: Any, columns: list[pd.Series]) -> None:
    """Raise an error unless all columns that are not empty have numbers, or none has."""
    known = [column for column in columns if column.notna().any()]
    if len({pd.api.types.is_numeric_dtype(column) for column in known}) > 1:
        raise TypeError(
            f"Column {name!r} must have numbers in all tables or in none, got "
            f"{known[0].dtype} and {known[1].dtype}. Convert one of them."
        )


def _describe(
    people: pd.DataFrame,
    events: pd.DataFrame,
    real_people: pd.DataFrame,
    real_events: pd.DataFrame,
    *,
    person: Any,
) -> dict[tuple[str, Any, Any], pd.Series]:
    """Return proportions by measure and columns; numbers with many values are cut at deciles of real tables."""
    groups = events[person].rename("person")
    sizes = groups.value_counts()
    later = groups.groupby(groups).cumcount(ascending=False) > 0
    counts = sizes.reindex(people[person], fill_value=0)
    described: dict[tuple[str, Any, Any], pd.Series] = {}
    described["count", None, None] = counts.value_counts(normalize=True)
    event_columns = real_events.drop(columns=person)
    person_columns = real_people.drop(columns=person)
    cut = _cut(events, event_columns)
    joined = cut.merge(_cut(people, person_columns), on=person)
    for name in event_columns:
        described["column", name, None] = _count(cut[[name]])
        for column in person_columns:
            described["person", name, column] = _count(joined[[name, column]])
        # pandas would take an integer as the name of a column for a level of the index.
        values = cut[name].rename("value")
        pairs = pd.DataFrame({0: values, 1: values.groupby(groups).shift(-1)})
        described["next", name, None] = _count(pairs[later])
        # Pairs of different events of a person with n events: n (n - 1).
        cells = values.groupby([groups, values], dropna=False).size()
        described["equal", name, None] = _mean_pairs(cells**2, cells, sizes)
        if pd.api.types.is_numeric_dtype(events[name]):
            scores = (events[name] - events[name].mean()) / events[name].std()
            sums = scores.groupby(groups).sum()
            squares = (scores**2).groupby(groups).sum()
            described["icc", name, None] = _mean_pairs(sums**2, squares, sizes)
    return described


def _cut(table: pd.DataFrame, real: pd.DataFrame) -> pd.DataFrame:
    """Cut the columns of a real table that are numbers with more than 20 values at the deciles of the real table."""
    cut = table.copy()
    for name, column in real.items():
        if pd.api.types.is_numeric_dtype(column) and column.nunique() > 20:
            deciles = column.quantile(np.arange(1, 10) / 10)
            cut[name] = np.searchsorted(deciles, table[name], "right")
    return cut


def _count(table: pd.DataFrame) -> pd.Series:
    """Return the proportions of the different rows of a table."""
    return table.value_counts(normalize=True, dropna=False)


def _mean_pairs(sums: pd.Series, squares: pd.Series, sizes: pd.Series) -> pd.Series:
    """Return the mean of the products of pairs of events of a person, over people, and 1 minus this mean."""
    products = (sums - squares).groupby(level=0).sum()
    mean = (products / (sizes * (sizes - 1)))[sizes > 1].mean()
    return pd.Series([mean, 1 - mean])
