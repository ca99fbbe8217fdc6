"""Constraints on the number of events of a person hold in all synthetic tables, and read nothing from the real ones."""

import io
import itertools

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp import Domain, DPColumnSynthesizer, DPLinkedSynthesizer, DPMarginalSynthesizer, Interval, PrivacyLedger
from tests.conftest import quick_first
from tests.errors import refusal

COLUMNS = {"region": ["n", "s"], "role": ["head", "partner", "child"], "age": Interval(0, 90, bins=6)}
ONE_HEAD = "count(role == 'head') == 1"


def make_households(n=600, seed=0):
    """Make households with one to five members in random order, of whom the oldest is the head."""
    rng = np.random.default_rng(seed)
    households = pd.DataFrame({"id": np.arange(n), "region": rng.choice(["n", "s"], n)})
    persons = np.repeat(households["id"], rng.integers(1, 6, n)).to_numpy()
    members = pd.DataFrame({"id": persons, "role": "child", "age": rng.integers(0, 90, persons.size)})
    members.loc[members.groupby("id")["age"].idxmax(), "role"] = "head"
    others = members.index[(members["role"] == "child") & (members["age"] > 20)]
    members.loc[rng.permutation(others)[: len(others) // 2], "role"] = "partner"
    return households, members


def fit(*constraints, tables=None, epsilon=2.0, columns=COLUMNS, **options):
    options = {"delta": 1e-6, "max_rows_per_person": 5, "random_state": 0} | options
    domain = Domain(columns, constraints=list(constraints))
    model = DPLinkedSynthesizer(epsilon, domain=domain, person="id", **options)
    return model.fit(*tables or make_households())


def count(events, **values):
    """Count the events of each person with one of some values, by column."""
    chosen = np.all([events[name].isin(listed) for name, listed in values.items()], axis=0)
    return pd.Series(chosen, events.index).groupby(events["id"]).sum()


@pytest.mark.filterwarnings("ignore:.*of 'events' are omitted")
@pytest.mark.parametrize(
    ("constraints", "limits", "order_by"),
    [
        pytest.param(["count(kind == 1) == 1"], [("kind == 1", 1, 1)], None, marks=pytest.mark.long),
        (["count(kind == 1) <= 1"], [("kind == 1", 0, 1)], "step"),
        (["1 <= count(`kind` == 1) <= 2"], [("kind == 1", 1, 2)], None),
        pytest.param(["count(kind == 1) >= 2"], [("kind == 1", 2, 3)], "step", marks=pytest.mark.long),
        (
            ["count(kind == 1) <= 2", "count(kind == 1) >= 1", "count(kind == 0) >= 1"],
            [("kind == 1", 1, 2), ("kind == 0", 1, 3)],
            "step",
        ),
        (
            ["count(kind == 1) >= 1", "count(step == sex) <= 1", "kind == 1 or step == 1"],
            [("kind == 1", 1, 3), ("step == sex", 0, 1), ("kind == 0 and step == 0", 0, 0)],
            None,
        ),
    ],
)
def test_all_persons_hold_the_limits(constraints, limits, order_by, few_rounds):
    # Two persons have each multiset of at most three events, so that most real persons contradict the limits.
    kinds = [*itertools.product(range(2), repeat=2)]
    own = [e for n in range(4) for e in itertools.combinations_with_replacement(kinds, n)] * 2
    people = pd.DataFrame({"id": range(len(own)), "sex": [0, 1] * (len(own) // 2)})
    rows = [(person, *event) for person, events in enumerate(own) for event in events]
    tables = people, pd.DataFrame(rows, columns=["id", "kind", "step"])
    columns = {"sex": range(2), "kind": range(2), "step": range(2)}
    options = {"max_rows_per_person": 3, "order_by": order_by}
    model = fit(*constraints, tables=tables, epsilon=10.0, columns=columns, **options)
    people, events = model.sample(300)
    assert events["id"].nunique() > 90
    events = events.merge(people)
    for event, low, high in limits:
        assert events.eval(event).groupby(events["id"]).sum().between(low, high).all(), event


@pytest.mark.filterwarnings("ignore:.*of 'events' are omitted")
@pytest.mark.parametrize("order_by", quick_first(1, ["step", "row"]))
def test_first_and_last_events_hold_in_all_tables(order_by):
    # Two persons have each sequence of at most three events, so that most real persons contradict the constraints.
    kinds = [*itertools.product(range(3), repeat=2)]
    own = [e for n in range(4) for e in itertools.product(kinds, repeat=n)]
    people = pd.DataFrame({"id": range(len(own)), "sex": np.arange(len(own)) % 2})
    rows = [(person, *event) for person, events in enumerate(own) for event in events]
    events = pd.DataFrame(rows, columns=["id", "kind", "step"])
    tables = people, events.assign(row=range(len(rows)))
    constraints = ["first(kind == 0 and sex == 1)", "last(kind == 2)", "kind != 2 or step != 1"]
    columns = {"sex": range(2), "kind": range(3), "step": range(3)}
    options = {"max_rows_per_person": 3, "order_by": order_by}
    people, events = fit(*constraints, tables=tables, epsilon=10.0, columns=columns, **options).sample()
    events = events.merge(people)
    has_earlier, has_later = events["id"].duplicated(), events["id"].duplicated(keep="last")
    assert has_later.sum() > 300
    assert not has_earlier[(events["kind"] == 0) & (events["sex"] == 1)].any()
    assert not has_later[events["kind"] == 2].any()
    assert not ((events["kind"] == 2) & (events["step"] == 1)).any()
    if order_by == "step":
        assert events.groupby("id")["step"].is_monotonic_increasing.all()


@pytest.mark.parametrize("order_by", quick_first(1, ["day", "row"]))
def test_number_of_last_events_is_kept(order_by):
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"id": range(3_000)})
    visits = people.loc[people.index.repeat(rng.integers(0, 5, len(people)))]
    visits = visits.assign(day=np.sort(rng.integers(0, 365, len(visits))), row=range(len(visits)))
    visits["day"] = visits.groupby("id")["day"].transform("min") + visits.groupby("id").cumcount() * 7
    is_last = ~visits["id"].duplicated(keep="last")
    visits["died"] = np.where(is_last & (rng.random(len(visits)) < 0.1), "yes", "no")
    # Bins of scores have numbers of last and of other events.
    visits["score"] = np.where(is_last & (rng.random(len(visits)) < 0.2), 9, rng.integers(0, 8, len(visits)))
    columns = {"died": ["yes", "no"], "day": Interval(0, 400), "score": Interval([0, 5, 10])}
    if order_by == "row":
        visits = visits.drop(columns="day")
        columns.pop("day")
    else:
        visits = visits.drop(columns="row")
    domain = Domain.from_toml(Domain(columns, constraints=["last(died == 'yes')", "last(score > 7)"]).to_toml())
    model = fit(tables=(people, visits), columns=domain, order_by=order_by, epsilon=4.0)
    _, events = model.sample()
    is_death = events["died"] == "yes"
    assert not events["id"].duplicated(keep="last")[is_death | (events["score"] > 7)].any()
    assert is_death.sum() == pytest.approx((visits["died"] == "yes").sum(), rel=0.2)
    quality = model.constraint_quality_["forbidden"]
    assert quality.iloc[0] == 0 < quality.iloc[1]
    assert "died, n_events" in model.link_quality_.index.get_level_values(1)


def test_limits_are_post_processing():
    ledger, tables = PrivacyLedger(2.0, delta=1e-6), make_households(200)
    limited = fit("count(role == 'head') == 2", "count(age > 60) <= 1", ledger=ledger, tables=tables)
    free = fit(tables=tables)
    assert limited.guarantee_ == free.guarantee_
    assert ledger.spent.epsilon == 2
    pd.testing.assert_frame_equal(limited.link_quality_, free.link_quality_)
    columns = ["region", "n_events"]
    pd.testing.assert_frame_equal(limited.people_.marginal(columns), free.people_.marginal(columns))
    _, events = limited.sample()
    # No real household has two heads.
    assert (count(events, role=["head"]) == 2).all()


@pytest.mark.parametrize("epsilon", quick_first(1, [1.0, 1e4]))
def test_limits_keep_the_distribution_of_other_columns(epsilon):
    tables = make_households(2_000)
    (people, events), (_, free) = (fit(*limits, tables=tables, epsilon=epsilon).sample() for limits in ([ONE_HEAD], []))
    assert (count(free, role=["head"]) == 1).mean() < 0.8
    # Counts of people without events are noise.
    assert events["id"].nunique() == len(people)
    assert len(events) == pytest.approx(len(free), rel=0.01)
    for role, members in free.groupby("role"):
        drawn = events[events["role"] == role]
        assert len(drawn) / len(events) == pytest.approx(len(members) / len(free), abs=0.02)
        assert drawn["age"].mean() == pytest.approx(members["age"].mean(), abs=1)


def test_limits_hold_in_each_table_after_loading():
    households, members = make_households(300)
    members = members[members["id"] < 200]
    limits = ["count(role == 'head') <= 1", "count(age > 50) <= 1"]
    tables = {"roles": members[["id", "role"]], "ages": members[["id", "age"]]}
    model = fit(*limits, tables=(households, tables))
    saved = io.BytesIO()
    skdp.save(model, saved)
    loaded = skdp.load(io.BytesIO(saved.getvalue())).set_params(random_state=0)
    (people, events), (_, again) = model.sample(), loaded.sample()
    for name, table in events.items():
        pd.testing.assert_frame_equal(table, again[name])
    quality = model.constraint_quality_
    pd.testing.assert_frame_equal(quality, loaded.constraint_quality_)
    # Without the constraint, many people have several heads.
    assert quality.loc[("roles", limits[0]), "forbidden"] > 0.1
    assert count(events["roles"], role=["head"]).max() == 1
    assert count(events["ages"], age=range(51, 91)).max() == 1
    # People without events satisfy the limits.
    assert events["roles"]["id"].nunique() < 0.8 * len(people)


@pytest.mark.parametrize("limits", [[], ["count(kind == 0) == 1"]], ids=["free", "one"])
def test_few_people_with_the_largest_number_of_events_have_events_of_all_kinds(limits):
    rng = np.random.default_rng(0)
    numbers = 1 + rng.poisson(1.2, 2_000).clip(0, 5)
    people = pd.DataFrame({"id": range(2_000)})
    events = people.loc[people.index.repeat(numbers)]
    kinds = np.where(events["id"].duplicated(), rng.choice([1, 2, 3], len(events), p=[0.5, 0.3, 0.2]), 0)
    tables = people, events.assign(kind=kinds)
    options = {"columns": {"kind": range(4)}, "max_rows_per_person": 6, "random_state": 14}
    people, events = fit(*limits, tables=tables, epsilon=3.0, **options).sample()
    assert events["id"].nunique() == len(people)
    own = events[events.groupby("id")["kind"].transform("size") == 6]
    assert own["id"].nunique() > 10
    assert own["kind"].value_counts(normalize=True).max() < 0.9


def test_people_with_each_year_once_keep_their_events(few_rounds):
    """At a place where a year is rare, noise may leave no draw that satisfies the constraints."""
    people = pd.DataFrame({"id": range(300)})
    events = people.loc[people.index.repeat(4)]
    events = events.assign(year=events.groupby("id").cumcount(), state=events["id"] % 3)
    limits = [f"count(year == {year}) == 1" for year in range(4)]
    options = {"columns": {"year": range(4), "state": range(3)}, "max_rows_per_person": 4, "order_by": "year"}
    people, events = fit(*limits, tables=(people, events), epsilon=1.0, **options).sample()
    assert events["id"].nunique() >= 0.98 * len(people)
    assert (events.groupby("id")["year"].nunique() == 4).all()


def test_required_events_of_people_without_events_warn():
    households, members = make_households()
    with pytest.warns(UserWarning, match="some people have no 'events', but constraints"):
        model = fit(ONE_HEAD, tables=(households, members[members["id"] < 400]), epsilon=10.0)
    people, events = model.sample()
    assert (count(events, role=["head"]) == 1).all()
    assert events["id"].nunique() == len(people)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (["count(role == 'head') >= 6"], r"at most `max_rows_per_person` events, got 6\. Increase it"),
        (["count(region == 'n') <= 1"], r"must read a column of events, got \[.count"),
        (["last(region == 'n')"], r"must read a column of events, got \[.last"),
        (["first(role == 'head')"], r"`order_by` must name a column of the table 'events' for .*first.*, got None"),
        (["count(role == 'head' and role == 'child') == 1"], "some combination of declared values must be counted"),
        ([ONE_HEAD, "role != 'head'"], "Constraint .count.role == 'head'. == 1.: some combination of declared values"),
        (["role == 'head' and role == 'child'"], "exclude all combinations of declared values"),
    ],
)
def test_limits_that_cannot_be_met_raise_an_error(constraints, message):
    with refusal(ValueError, message) as ledger:
        fit(*constraints, ledger=ledger)


def test_synthesizers_of_single_rows_refuse_limits():
    _, members = make_households(50)
    rows, domain = members[["role", "age"]], Domain(COLUMNS, constraints=[ONE_HEAD, "last(role == 'child')"])
    for synthesizer in (DPMarginalSynthesizer(domain=domain), DPColumnSynthesizer(columns=["role"], domain=domain)):
        with pytest.raises(ValueError, match="limit the events of a person, which requires DPLinkedSynthesizer"):
            synthesizer.fit(rows)
    assert domain.check_constraints(rows).all()
    DPMarginalSynthesizer(domain=domain, random_state=0).fit(rows[["age"]])
