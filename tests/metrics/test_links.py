"""Errors of links: distances and probabilities within people, against direct computation."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import Domain, Interval
from skdp.metrics import link_errors
from tests.conftest import quick_first
from tests.errors import refusal


def make_tables(seed, trait=1.0):
    rng = np.random.default_rng(seed)
    people = pd.DataFrame({"id": np.arange(400), "sex": rng.choice(["f", "m"], 400)})
    persons = np.repeat(people["id"], rng.integers(0, 5, 400)).to_numpy()
    usual = rng.normal(0, trait, 400)
    dose = usual[persons] + rng.normal(0, 1, persons.size)
    ward = np.where(usual[persons] + rng.normal(0, 0.5, persons.size) > 0, "er", "gp")
    return people, pd.DataFrame({"id": persons, "ward": ward, "dose": dose})


def test_equal_tables_have_no_error():
    tables = make_tables(0)
    errors = link_errors(*tables, *tables, person="id")
    assert list(errors.index) == ["column", "count", "equal", "icc", "next", "person"]
    assert (errors == 0).all()


def test_events_of_other_people_change_links_only():
    people, events = make_tables(0)
    mixed = events.assign(**events[["ward", "dose"]].sample(frac=1, random_state=0).reset_index(drop=True))
    errors = link_errors(people, events, people, mixed, person="id")
    assert errors["count"] == errors["column"] == 0
    assert errors["person"] < 0.08
    assert errors["equal"] > 0.1
    assert errors["next"] > 0.15
    # The variances of the trait and of the noise are 1.
    assert errors["icc"] == pytest.approx(0.5, abs=0.2)


def test_errors_equal_direct_computation():
    people = pd.DataFrame({"id": [1, 2, 3], "sex": ["f", "f", "m"]})
    events = pd.DataFrame({"id": [1, 2, 1, 2, 1, 9], "x": [1, 5, 0, 5, 0, 3], "day": [7, 2, 3, 3, 1, 1]})
    other_people = pd.DataFrame({"id": [7, 8], "sex": ["f", "m"]})
    other_events = pd.DataFrame({"id": [7, 7, 8, 8], "x": [0, 1, 5, 0]})
    errors = link_errors(people, events, other_people, other_events, person="id", order_by="day")
    # Numbers of events: 3, 2, 0 and 2, 2.
    assert errors["count"] == pytest.approx(2 / 3)
    # 0, 1, 5: 2, 1, 2 of 5, and 2, 1, 1 of 4.
    assert errors["column"] == pytest.approx(0.4 + 0.2 + 0.4 - 0.4 - 0.2 - 0.25)
    # (f, 0), (f, 1), (f, 5): 2, 1, 2 of 5, and (f, 0), (f, 1), (m, 5), (m, 0): 1 of 4 each.
    assert errors["person"] == pytest.approx((0.4 - 0.25 + 0.25 - 0.2 + 0.4 + 0.5) / 2)
    # One of the three pairs of person 1 is equal, and the pair of person 2.
    assert errors["equal"] == pytest.approx((1 / 3 + 1) / 2)
    # (0, 0), (0, 1), (5, 5) and (0, 1), (5, 0).
    assert errors["next"] == pytest.approx((1 / 3 + 1 / 6 + 1 / 3 + 1 / 2) / 2)


@pytest.mark.parametrize(("order_by", "error"), quick_first(2, [(None, 5 / 8), ("day", 1 / 2), ("hour", 5 / 8)]))
def test_next_is_the_mean_over_orders_of_equal_events(order_by, error):
    # Of the three pairs of the first person, 1 / 2 is (0, 0) in a random order, and 1 if the values are ordered. So is
    # the pair of the second person. All four pairs of constant values are (0, 0).
    people = pd.DataFrame({"id": [0, 2]})
    events = pd.DataFrame({"id": [0, 0, 0, 0, 2, 2], "x": [0, 0, 1, 1, 0, 0], "day": [1, 1, 2, 2, 1, 1], "hour": 0})
    for seed in range(1):
        real, constant = (events.assign(x=x).sample(frac=1, random_state=seed) for x in (events["x"], 0))
        errors = link_errors(people, real, people, constant, person="id", order_by=order_by)
        # The other two columns have no error.
        assert errors["next"] == pytest.approx(error / 3)


def test_numbers_are_cut_at_the_deciles_of_the_real_table():
    people, events = make_tables(0)
    events = events[["id", "dose"]]
    errors = link_errors(people, events, people, events.assign(dose=events["dose"] + 100), person="id")
    assert errors["column"] == pytest.approx(0.9, abs=0.01)


def test_correlations_are_kept_within_events_and_with_the_person():
    people, events = make_tables(0)
    rng = np.random.default_rng(1)
    people["trait"] = events.groupby("id")["dose"].mean().reindex(people["id"]).fillna(0).to_numpy()
    events["weight"] = events["dose"] + rng.normal(size=len(events))
    assert link_errors(people, events, people, events, person="id")["kept"] == 1
    mixed = events.assign(weight=rng.permutation(events["weight"]))
    # Of the pairs of dose, weight and trait, one is equal and two are lost.
    assert link_errors(people, events, people, mixed, person="id")["kept"] == pytest.approx(1 / 3, abs=0.05)
    fewer = [people.drop(columns="trait"), mixed.drop(columns="weight")]
    assert "kept" not in link_errors(*fewer, *fewer, person="id")


def test_polars_tables_with_missing_values_have_equal_errors():
    people, events = make_tables(0)
    events["ward"] = events["ward"].where(events.index % 5 > 0)
    other_people, other = make_tables(1)
    errors = link_errors(people, events, other_people, other, person="id")
    tables = map(pl.from_pandas, (people, events, other_people, other))
    pd.testing.assert_series_equal(link_errors(*tables, person="id"), errors)
    assert errors["person"] > 0.1


def convert_days(table, dtype):
    name = "born" if "born" in table else "day"
    return table.assign(**{name: table[name].dt.date.astype(dtype)})


@pytest.mark.parametrize(
    "converts",
    [
        pytest.param([pd.DataFrame] * 4, marks=pytest.mark.long),
        pytest.param([pl.from_pandas] * 4, marks=pytest.mark.long),
        pytest.param([lambda table: convert_days(table, object)] * 2 + [pd.DataFrame] * 2, marks=pytest.mark.long),
        [lambda table: convert_days(table, object), lambda table: convert_days(table, "date32[pyarrow]")] * 2,
    ],
    ids=["pandas", "polars", "objects", "arrow"],
)
def test_dates_are_compared_as_numbers(converts):
    people, events = make_tables(0)
    other_people, other = make_tables(1)
    tables = []
    for number, table in enumerate((people, events, other_people, other)):
        days = np.random.default_rng(number).integers(0, 5_000, len(table))
        name = "born" if number % 2 == 0 else "day"
        tables.append(table.assign(**{name: days}))
    errors = link_errors(*tables, person="id")
    for table in tables:
        for name in {"born", "day"} & {*table}:
            table[name] = pd.Timestamp("2020-01-01") + pd.to_timedelta(table[name], "D")
    tables = [convert(table) for convert, table in zip(converts, tables, strict=True)]
    pd.testing.assert_series_equal(link_errors(*tables, person="id"), errors)
    assert errors["person"] < 0.3


@pytest.mark.parametrize(
    ("position", "edit", "message"),
    [
        (0, lambda table: pd.concat([table, table]), "real people must have each person once"),
        (2, lambda table: pd.concat([table, table]), "synthetic people must have each person once"),
        (0, lambda table: table.astype({"id": str}), "Column 'id' must have numbers in all tables or in none"),
        (3, lambda table: table.astype({"dose": str}), "Column 'dose' must have numbers in all tables or in none"),
        (3, lambda table: table.assign(ward=[["er"]] * len(table)), "must have single values, got lists"),
        (1, lambda table: pl.from_pandas(table).lazy(), "must be a table in memory"),
        (1, dict, "Tables must be dataframes, got dict"),
    ],
)
def test_tables_that_cannot_be_compared_raise_an_error(position, edit, message):
    tables = [*make_tables(0), *make_tables(1)]
    tables[position] = edit(tables[position])
    with pytest.raises((TypeError, ValueError), match=message):
        link_errors(*tables, person="id")
    with pytest.raises(TypeError, match="`person` must be the name of a column, got list"):
        link_errors(*make_tables(0), *make_tables(1), person=["id"])


def test_synthetic_people_may_have_other_ids():
    people, events, *synthetic = [*make_tables(0), *make_tables(1)]
    errors = link_errors(people.astype({"id": str}), events.astype({"id": str}), *synthetic, person="id")
    pd.testing.assert_series_equal(errors, link_errors(people, events, *synthetic, person="id"))


def test_names_of_columns_have_no_effect():
    tables = [*make_tables(0), *make_tables(1)]
    numbered = [table.rename(columns={"ward": 0, "dose": 1, "sex": 2}) for table in tables]
    pd.testing.assert_series_equal(link_errors(*numbered, person="id"), link_errors(*tables, person="id"))


def test_tables_without_a_column_are_an_error():
    people, events = make_tables(0)
    with pytest.raises(ValueError, match=r"lack \['ward'\]"):
        link_errors(people, events, people, events.drop(columns="ward"), person="id")
    with pytest.raises(ValueError, match=r"must have the column `person`=.person."):
        link_errors(people, events, people, events, person="person")
    with pytest.raises(ValueError, match="`order_by` must name a column of `events`, got 'day'"):
        link_errors(people, events, people, events, person="id", order_by="day")
    with pytest.raises(ValueError, match=r"`person`='id', but it is not in \['synthetic_events'\]"):
        link_errors(people, events, people, events.drop(columns="id"), person="id")
    with pytest.raises(ValueError, match=r"one of `people` and `events` only, got \['sex'\] in both"):
        link_errors(people, people, people, people, person="id")


def test_column_of_ids_in_place_of_its_name_is_not_quoted():
    people, events = pd.DataFrame({"id": [31337]}), pd.DataFrame({"id": [31337], "day": [0]})
    for parameters in ({"person": [31337]}, {"person": "id", "order_by": people["id"]}):
        with refusal(TypeError, r"must be the name of a column, got (list|Series)", "31337"):
            link_errors(people, events, people, events, **parameters)


@pytest.mark.parametrize("library", quick_first(1, ["polars", "pandas"]))
def test_constraints_have_the_relative_error_of_the_events_that_they_name(library):
    people = pd.DataFrame({"id": range(4), "age": [20, 30, 70, 80]})
    days = pd.to_datetime(["2024-01-01"] * 8)
    events = pd.DataFrame({"id": [0, 0, 0, 1, 1, 2, 3, 3], "ward": [*"bgggbggg"], "day": days})
    synthetic = events.assign(ward=[*"bggggggg"])
    domain = Domain(
        {"age": Interval(0, 99), "ward": ["b", "g"], "sex": ["f", "m"]},
        constraints=["ward != 'b' or age <= 45", "last(ward == 'g')", "sex == 'f'"],
    )
    tables = people, events, people, synthetic
    if library == "polars":
        tables = tuple(map(pl.from_pandas, tables))
    errors = link_errors(*tables, person="id", domain=domain)
    # One of eight events in place of two, while people do not change.
    assert errors["ward != 'b' or age <= 45"] == errors["last(ward == 'g')"] == 0.5
    pd.testing.assert_series_equal(errors[:-2], link_errors(*tables, person="id"))
    with pytest.raises(TypeError, match="`domain` must be a Domain, got dict"):
        link_errors(*tables, person="id", domain=dict(domain))
