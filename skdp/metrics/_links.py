"""Errors of the dependence within people, between real and synthetic linked tables."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, diags_array

from skdp._arrays import ColumnName, Indices, TableLike
from skdp.base import check_column_name
from skdp.domain import Domain
from skdp.metrics._labels import parse_columns
from skdp.metrics._table_errors import divide_correlations
from skdp.randomness import check_type
from skdp.tables import is_frame, to_dates


def link_errors(
    people: TableLike,
    events: TableLike,
    synthetic_people: TableLike,
    synthetic_events: TableLike,
    *,
    person: ColumnName,
    order_by: ColumnName | None = None,
    domain: Domain | None = None,
) -> pd.Series:
    """Compare the dependence within people in synthetic and in real linked tables.

    Parameters
    ----------
    people : dataframe
        One row per person, with the id in the column `person`.
    events : dataframe
        Real events with the id of their person, in any order.
    synthetic_people : dataframe
        Synthetic people, as returned by `DPLinkedSynthesizer`.
    synthetic_events : dataframe
        Events of the synthetic people.
    person : column name
        Column that identifies the person.
    order_by : column name, optional
        Column that orders the events of a person, such as a date. The rows of synthetic events without this column are
        in their order, as rows of `DPLinkedSynthesizer` are.
    domain : Domain, optional
        Domain of the columns, whose constraints are compared.

    Returns
    -------
    pandas.Series
        Errors from 0 (equal) to 1, as means over columns:

        - ``count``: distance of the distributions of the number of events of a person,
        - ``column``: of the values of a column of events,
        - ``person``: of the pairs of a column of events and a column of people,
        - ``next``: of the pairs of a value and the value of the person's next event. Events of equal order, and all
          events without `order_by`, are in random order: these pairs have their probabilities.
        - ``equal``: difference of the probabilities that two different events of a person have the same value,
        - ``icc``: difference of the intraclass correlations of a number: the mean product of its standardized values at
          two different events of a person.
        - ``kept``: no error, but the rank correlation of two numbers in the synthetic tables divided by that in the
          real tables, so that 1 is best. The mean is over pairs with a column of events whose real correlation is at
          least 0.1 in absolute value; it is absent if there are none.
        - each constraint of `domain`, by its text: the largest error of the number of events that it names, such as
          the events with ``ward == 'birth'`` and with ``age >= 18`` for the constraint
          ``"ward != 'birth' or age >= 18"``, relative to the larger number.

        Distances are total variation distances. ``equal`` and ``icc`` are means over people with at least two events.
        Numbers with more than 20 values are cut at the deciles of the real tables, except for ``icc``. Dates are
        numbers.

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
    # **Privacy.** The error for another name would quote a column of ids.
    check_column_name("person", person)
    check_column_name("order_by", order_by)
    check_type("domain", domain, Domain | None, "a Domain")
    given = {
        "people": people,
        "events": events,
        "synthetic_people": synthetic_people,
        "synthetic_events": synthetic_events,
    }
    read = {name: _read_dataframe(table, name) for name, table in given.items()}
    without = [name for name, table in read.items() if person not in [*table]]
    if without:
        raise ValueError(
            f"All tables must have the column `person`={person!r}, but it is not in "
            f"{without}."
        )
    tables = [*read.values()]
    if order_by is not None and order_by not in [*tables[1]]:
        raise ValueError(
            f"`order_by` must name a column of `events`, got {order_by!r}. The columns "
            f"are {[*tables[1]]}."
        )
    real_columns, synthetic_columns = dict(tables[0]), dict(tables[2])
    shared = real_columns.keys() & {*tables[1]} - {person}
    if shared:
        raise ValueError(
            "A column must be in one of `people` and `events` only, got "
            f"{sorted(map(str, shared))} in both."
        )
    real_columns |= dict(tables[1])
    synthetic_columns |= dict(tables[3])
    missing = real_columns.keys() - synthetic_columns.keys()
    if missing - {order_by}:
        raise ValueError(
            "The synthetic tables must have all columns of the real tables, but lack "
            f"{sorted(map(str, missing))}."
        )
    for kind, pair in (("real", tables[:2]), ("synthetic", tables[2:])):
        if not pair[0][person].is_unique:
            raise ValueError(
                f"The {kind} people must have each person once, got repeated values in "
                f"column {person!r}."
            )
        _check_types(person, [table[person] for table in pair])
    for name in real_columns.keys() - {person, *missing}:
        _check_types(name, [real_columns[name], synthetic_columns[name]])
    excluded = [person, *missing]
    compared = [table.drop(columns=excluded, errors="ignore") for table in tables[:2]]
    real = _describe(*tables[:2], *compared, person=person, order_by=order_by)
    synthetic = _describe(*tables[2:], *compared, person=person, order_by=order_by)
    errors = {}
    for index, proportions in real.items():
        both = pd.concat([proportions, synthetic[index]], axis=1, sort=False).fillna(0)
        errors[index] = both.diff(axis=1).iloc[:, 1].abs().sum() / 2
    kept = _list_kept(tables, compared, person)
    means = pd.Series(errors | kept).groupby(level=0).mean()
    if domain is None:
        return means
    joined = []
    for labels in (("events", "people"), ("synthetic_events", "synthetic_people")):
        first, second = (pd.DataFrame(parse_columns(given[n], n)) for n in labels)
        joined.append(first.merge(second, on=person))
    present = [name for name in domain if all(name in [*table] for table in joined)]
    lines = domain.select(present)._compare_proportions(*joined)
    return pd.concat([means, pd.Series(lines, dtype=float)])


def _read_dataframe(table: TableLike, label: str) -> pd.DataFrame:
    """Convert a table to pandas, with dates as numbers of milliseconds, which are cut at deciles as other numbers."""
    if not is_frame(table):
        raise TypeError(f"Tables must be dataframes, got {type(table).__name__}.")
    columns = parse_columns(table, label)
    for name, column in columns.items():
        if pd.api.types.infer_dtype(column) == "date":  # objects, or dates of Arrow
            column = pd.Series(to_dates(column, "datetime64[us]"))
        if pd.api.types.is_datetime64_any_dtype(column):
            numbers = column.dt.as_unit("ms").astype("int64")
            columns[name] = numbers.where(column.notna())
    return pd.DataFrame(columns)


def _check_types(name: ColumnName, columns: list[pd.Series]) -> None:
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
    person_columns: pd.DataFrame,
    event_columns: pd.DataFrame,
    *,
    person: ColumnName,
    order_by: ColumnName | None,
) -> dict[tuple[str, Any, Any], pd.Series]:
    """Return proportions by measure, column of events and column of people, None if a measure uses none.

    Numbers with many values are cut at deciles of these columns.
    """
    events = events[events[person].isin(people[person])]
    groups = events[person].rename("person")
    sizes = groups.value_counts()
    counts = sizes.reindex(people[person], fill_value=0)
    described: dict[tuple[str, Any, Any], pd.Series] = {}
    described["count", None, None] = counts.value_counts(normalize=True)
    # All events of a person are equal without an order.
    order = person if order_by is None else order_by
    orders = events[order] if order in events else np.arange(len(events))
    cut = _cut_at_deciles(events, event_columns)
    joined = cut.merge(_cut_at_deciles(people, person_columns), on=person)
    for name in event_columns:
        described["column", name, None] = _count(cut[[name]])
        for column in person_columns:
            described["person", name, column] = _count(joined[[name, column]])
        # pandas would take an integer as the name of a column for a level of the index.
        values = cut[name].rename("value")
        described["next", name, None] = _count_next(values, groups, orders)
        # Pairs of different events of a person with n events: n (n - 1).
        cells = values.groupby([groups, values], dropna=False).size()
        described["equal", name, None] = _mean_pairs(cells**2, cells, sizes)
        if pd.api.types.is_numeric_dtype(events[name]):
            scores = (events[name] - events[name].mean()) / events[name].std()
            sums = scores.groupby(groups).sum()
            squares = (scores**2).groupby(groups).sum()
            described["icc", name, None] = _mean_pairs(sums**2, squares, sizes)
    return described


def _list_kept(
    tables: list[pd.DataFrame], columns: list[pd.DataFrame], person: ColumnName
) -> dict[tuple[str, Any, Any], float]:
    """List the parts of rank correlations that are kept, by column of events and other column of events or people.

    `columns` are the columns of the real people and events to compare.
    """
    numbers = [[*table.select_dtypes("number")] for table in columns]
    names = [*numbers[1], *numbers[0]]
    joined = [tables[i + 1].merge(tables[i], on=person)[names] for i in (0, 2)]
    ratios = divide_correlations(*joined).to_numpy()
    kept = {}
    for i, j in combinations(range(len(names)), 2):
        if i < len(numbers[1]) and np.isfinite(ratios[i, j]):
            kept["kept", names[i], names[j]] = float(ratios[i, j])
    return kept


def _count_next(
    values: pd.Series, persons: pd.Series, orders: pd.Series | Indices
) -> pd.Series:
    """Return the proportions of pairs of a value and the person's next value, with equal orders in random order."""
    codes, labels = pd.factorize(values, use_na_sentinel=False)
    steps = values.groupby([persons, orders], dropna=False)
    step, sizes = steps.ngroup().to_numpy(), steps.size().to_numpy(float)
    owners = np.empty(sizes.size, int)
    owners[step] = pd.factorize(persons)[0]
    is_same = owners[1:] == owners[:-1]
    # Values by step, as proportions. Among n events of a step, each of two different
    # events follows the other one with probability 1 / n.
    at = csr_array((1 / sizes[step], (step, codes)))
    pairs = at.T @ diags_array(sizes) @ at - diags_array(at.sum(axis=0))
    pairs = (pairs + at[:-1][is_same].T @ at[1:][is_same]).tocoo()
    index = pd.MultiIndex.from_arrays([labels[pairs.row], labels[pairs.col]])
    return pd.Series(pairs.data / pairs.data.sum(), index)


def _cut_at_deciles(table: pd.DataFrame, real: pd.DataFrame) -> pd.DataFrame:
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
