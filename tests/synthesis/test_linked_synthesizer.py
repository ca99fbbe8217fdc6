import io
import itertools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import skdp
import skdp.synthesis.measure._event_columns as linked_module
from skdp import BudgetExceeded, Domain, DPLinkedSynthesizer, Interval, PrivacyLedger, privacy_statement
from skdp.synthesis.answers._events import PERSON_WEIGHT
from skdp.synthesis.measure import measure_and_fit
from skdp.synthesis.model import Marginal, Structure, fit_model
from skdp.testing import replay_release
from tests.conftest import diagonal, often, quick_first
from tests.errors import refusal
from tests.persistence.forgery import list_members, save_bytes
from tests.synthesis.bounds import bounds_only

DOMAIN = Domain(
    {
        "sex": ["f", "m"],
        "age": Interval(0, 100, bins=5),
        "ward": ["er", "gp", "lab"],
        "dose": Interval(0.0, 8.0, bins=4),
        "day": Interval(0, 365, bins=4),
    }
)


def make_tables(n_persons, seed=0):
    """Make patients with 0 to 4 visits: the ward tends to repeat, and the dose is a lasting trait of the patient."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, n_persons)
    patients = pd.DataFrame({"id": np.arange(n_persons), "sex": rng.choice(["f", "m"], n_persons), "age": age})
    n_visits = rng.binomial(4, np.where(age > 50, 0.7, 0.3))
    persons = np.repeat(np.arange(n_persons), n_visits)
    usual = rng.choice(["er", "gp", "lab"], n_persons, p=[0.3, 0.5, 0.2])
    is_usual = rng.random(persons.size) < 0.7
    other = rng.choice(["er", "gp", "lab"], persons.size)
    trait = rng.uniform(1, 7, n_persons)
    dose = np.clip(trait[persons] + rng.normal(0, 0.7, persons.size), 0, 8)
    visits = pd.DataFrame(
        {
            "id": persons,
            "ward": np.where(is_usual, usual[persons], other),
            "dose": dose,
            "day": rng.integers(0, 366, persons.size),
        }
    )
    return patients, visits


def make_synthesizer(**parameters):
    defaults = {"epsilon": 3.0, "domain": DOMAIN, "person": "id", "max_rows_per_person": 4, "random_state": 0}
    return DPLinkedSynthesizer(**defaults | parameters)


@pytest.fixture(scope="module")
def tables():
    return make_tables(2_000)


@pytest.fixture(scope="module")
def few():
    return make_tables(300)


@pytest.fixture(scope="module")
def ordered(tables):
    return make_synthesizer(delta=1e-6, order_by="day").fit(*tables)


@pytest.fixture(scope="module", params=["ordered", "unordered"])
def fitted(request, tables):
    return (
        request.getfixturevalue("ordered") if request.param == "ordered" else make_synthesizer(delta=1e-6).fit(*tables)
    )


# Privacy


class Counted(Exception):
    """Ends a fit after all exact marginals have been recorded."""


def count_exactly(synthesizer, people, events, monkeypatch):
    """Return all exact marginals of one to three columns of people and of events, in integer units."""
    counted = []

    def record(private, plan, numbers):
        columns = range(len(plan.sizes))
        cliques = [clique for n in (1, 2, 3) for clique in itertools.combinations(columns, n)]
        counted.append(dict(zip(cliques, private._records.count(cliques), strict=True)))
        if len(counted) == 2:
            raise Counted
        return measure_and_fit(private, plan, numbers)

    monkeypatch.setattr(linked_module, "measure_and_fit", record)
    with pytest.raises(Counted):
        synthesizer.fit(people, events)
    return counted


@pytest.mark.parametrize("order_by", often(["day", "hour", None], ["day"]))
def test_person_adds_at_most_one_to_each_marginal(order_by, monkeypatch):
    # Tiny tables of two people and an event without a person. The second person has all
    # combinations of up to one event and some of two and three; ``hour`` has ties only.
    # The second person may violate the constraints.
    columns = {"sex": range(2), "ward": range(2), "day": range(2)}
    synthesizer = DPLinkedSynthesizer(
        domain=Domain(columns, constraints=["ward == 0 or sex == 0", "ward != day or sex == 0"]),
        person="id",
        max_rows_per_person=2,
        order_by=order_by,
        random_state=0,
    )
    kinds = [*itertools.product(range(2), repeat=2)]
    combinations = [[*itertools.combinations_with_replacement(kinds, n)] for n in range(4)]
    own = [*itertools.chain(*combinations[:2]), *combinations[2][::2], *combinations[3][::6]]
    largest = 0
    for first in ([], [(1, 0), (0, 0), (1, 1)]):
        counts = []
        for second in [None, *own]:
            people = pd.DataFrame({"id": [0, 1], "sex": [0, 1]})[: 1 if second is None else 2]
            rows = [(9, 1, 1), *((0, *event) for event in first), *((1, *event) for event in second or ())]
            events = pd.DataFrame(rows, columns=["id", "ward", "day"])
            if order_by == "hour":
                events["hour"] = 0
            counts.append(count_exactly(synthesizer, people, events, monkeypatch))
        for neighbor in counts[1:]:
            for unit, without, with_person in zip((1, PERSON_WEIGHT), counts[0], neighbor, strict=True):
                for clique, exact in with_person.items():
                    change = exact - without[clique]
                    # No row of the other person changes, so all changes are positive.
                    assert change.min() >= 0
                    assert change.sum() <= unit
                    largest = max(largest, change.sum())
    assert largest == PERSON_WEIGHT


@pytest.mark.parametrize(
    ("sizes", "order_by", "delta"), diagonal(often([(7,), (0, 1, 4, 7)], [(7,)]), ["day", None], [0.0, 1e-6])
)
def test_replay_without_a_person_stays_within_the_guarantee(sizes, delta, order_by):
    patients, visits = make_tables(25)
    used = []
    for n_events in sizes:
        rng = np.random.default_rng(n_events)
        person = pd.DataFrame({"id": [99], "sex": ["m"], "age": [70]})
        extra = pd.DataFrame(
            {
                "id": [99] * n_events,
                "ward": rng.choice(["er", "lab"], n_events),
                "dose": rng.uniform(0, 8, n_events),
                "day": rng.integers(0, 366, n_events),
            }
        )
        joined = pd.concat([patients, person], ignore_index=True)
        both = pd.concat([visits, extra], ignore_index=True)

        def release(people, both=both, order_by=order_by):
            visits = both[both["id"].isin(people["id"])]
            return make_synthesizer(epsilon=5.0, delta=delta, order_by=order_by).fit(people, visits)

        replay = replay_release(release, joined, patients)
        assert replay.passed, replay.findings
        used.append(replay.epsilon / replay.guarantee.epsilon)
    assert max(used) == pytest.approx(1, rel=0.02) or delta


@pytest.mark.parametrize("n_events", quick_first(1, [3, 1]))
def test_weights_of_the_events_of_a_person_add_up_to_at_most_one_person(n_events):
    """Weights of 1 / 3 are rounded down, in the fine cells of numbers, too."""
    patients, visits = make_tables(25)
    joined = pd.concat([patients, pd.DataFrame({"id": [99], "sex": ["m"], "age": [70]})], ignore_index=True)
    extra = pd.DataFrame({"id": 99, "ward": "er", "dose": [1.0, 5.0, 7.5][:n_events], "day": 7})
    both = pd.concat([visits, extra], ignore_index=True)

    def release(people):
        return make_synthesizer(epsilon=5.0).fit(people, both[both["id"].isin(people["id"])])

    replay = replay_release(release, joined, patients)
    assert replay.passed, replay.findings
    differences = replay.draws["difference"]
    assert PERSON_WEIGHT - n_events < differences.max() <= PERSON_WEIGHT


@pytest.mark.long
def test_replay_of_500_neighbors_stays_within_the_guarantee():
    # The last person, who is removed, has up to three times as many events as are used.
    columns = {"ward": range(3), "dose": Interval(0, 20, bins=2), "day": range(4)}
    for seed in range(500):
        rng = np.random.default_rng(seed)
        n_persons = int(rng.integers(1, 8))
        people = pd.DataFrame({"id": np.arange(n_persons), "sex": rng.integers(0, 2, n_persons)})
        # Events of person -1 belong to nobody, and some events have no key.
        persons = np.sort(np.append(rng.integers(-1, n_persons, 10), [n_persons - 1] * rng.integers(0, 6)))
        events = pd.DataFrame({"id": np.where(rng.random(persons.size) < 0.1, np.nan, persons)})
        for name, values in columns.items():
            events[name] = rng.integers(0, 20 if name == "dose" else len(values), persons.size)
        synthesizer = DPLinkedSynthesizer(
            4.0,
            delta=float(rng.choice([0, 1e-6])),
            domain=bounds_only({"sex": range(2), **columns}, rng.choice(["declared", "found"])),
            person="id",
            max_rows_per_person=int(rng.integers(1, 4)),
            order_by=rng.choice(["day", None]),
            random_state=seed,
        )

        def release(people, events=events, synthesizer=synthesizer):
            kept = events["id"].isin(people["id"]) | (events["id"] == -1) | events["id"].isna()
            return synthesizer.fit(people, events[kept])

        replay = replay_release(release, people, people[:-1])
        assert replay.passed, (seed, replay.findings)


@pytest.mark.parametrize(("bins", "epsilon"), quick_first(1, [("found", 3_000.0), ("found", 5.0), ("declared", 5.0)]))
def test_replay_of_a_single_table_stays_within_the_guarantee(bins, epsilon):
    """With the larger epsilon, cells with frequent numbers are divided."""
    patients, visits = make_tables(25)
    rows = patients.merge(visits, on="id")
    synthesizer = make_synthesizer(epsilon=epsilon, person_columns=["sex", "age"], domain=bounds_only(DOMAIN, bins))
    last = rows["id"] == rows["id"].iloc[-1]
    replay = replay_release(synthesizer.fit, rows, rows[~last])
    assert replay.passed, replay.findings
    assert replay.epsilon == pytest.approx(epsilon, rel=0.02)


def test_fit_charges_the_ledger_once(few):
    ledger = PrivacyLedger(3.0)
    patients, visits = few
    children = {"visits": visits[["id", "ward", "day"]], "doses": visits[["id", "dose"]]}
    synthesizer = make_synthesizer(ledger=ledger).fit(patients, children)
    assert ledger.spent.epsilon == synthesizer.guarantee_.epsilon == 3
    assert synthesizer.guarantee_.unit == synthesizer.people_.guarantee_.unit == "person"
    assert privacy_statement(synthesizer).total == synthesizer.guarantee_
    with pytest.raises(BudgetExceeded):
        synthesizer.fit(patients, children)


# Events


def test_sample_given_draws_the_conditional_distribution():
    rng = np.random.default_rng(0)
    sizes = (2, 3, 2, 3, 2)
    joint = rng.dirichlet(np.full(np.prod(sizes), 0.3)).reshape(sizes)
    cliques = [(0, 1), (0, 3), (1, 4), (2, 3), (3, 4), (2, 4)]
    marginals = []
    for clique in cliques:
        others = tuple(column for column in range(5) if column not in clique)
        marginals.append(Marginal(clique, 1e6 * joint.sum(axis=others), 1.0))
    model, _ = fit_model(Structure(sizes, given=frozenset({0, 1})), marginals)
    joint = model.marginal(range(5))
    for given in np.ndindex(2, 3):
        n = 20_000
        rows = model.sample(n, rng, {0: np.full(n, given[0]), 1: np.full(n, given[1])})
        cells = np.ravel_multi_index(tuple(rows[2:]), sizes[2:])
        drawn = np.bincount(cells, minlength=12) / n
        expected = joint[given].ravel() / joint[given].sum()
        # Rows are stratified; independent rows would be within 0.03 with probability 1 - 1e-6.
        assert np.abs(drawn - expected).sum() / 2 < 0.03


def probability_of_equal(visits):
    """Estimate the probability that two visits of a patient are in the same ward."""
    counts = visits.groupby("id")["ward"].value_counts().unstack(fill_value=0).to_numpy()
    n = counts.sum(axis=1)
    pairs = (counts * (counts - 1)).sum(axis=1)[n > 1] / (n * (n - 1))[n > 1]
    return pairs.mean()


def intraclass_correlation(visits, column="dose"):
    """Estimate the intraclass correlation of a column, from the variance between and within patients."""
    groups = visits.groupby("id")[column]
    n = groups.size()
    within = (visits[column] - groups.transform("mean")).pow(2).sum() / (len(visits) - len(n))
    between = (n * (groups.mean() - visits[column].mean()) ** 2).sum() / (len(n) - 1)
    size = (n.sum() - (n**2).sum() / n.sum()) / (len(n) - 1)
    return (between - within) / (between + (size - 1) * within)


def test_synthetic_events_depend_on_the_person(tables, fitted):
    patients, visits = tables
    people, events = fitted.sample()
    assert abs(probability_of_equal(events) - probability_of_equal(visits)) < 0.08
    real = intraclass_correlation(visits)
    assert abs(intraclass_correlation(events) - real) < 0.3 < real - 0.3
    for old in (True, False):
        n_real = visits["id"].isin(patients["id"][(patients["age"] >= 60) == old]).sum()
        n_synthetic = events["id"].isin(people["id"][(people["age"] >= 60) == old]).sum()
        assert abs(n_synthetic / n_real - 1) < 0.08


def test_frequent_numbers_of_events_are_drawn_exactly():
    """Grades of half years were drawn evenly from wider cells, so that no event had one of them."""
    rng = np.random.default_rng(0)
    persons = np.repeat(np.arange(500), 3)
    events = pd.DataFrame({"id": persons, "grade": rng.choice([0.25, 1.75, 2.5], persons.size)})
    options = {"domain": {"grade": Interval(-3.0, 3.0)}, "max_rows_per_person": 3, "delta": 1e-6}
    _, drawn = make_synthesizer(epsilon=30.0, **options).fit(pd.DataFrame({"id": range(500)}), events).sample()
    expected = events["grade"].value_counts(normalize=True)
    np.testing.assert_allclose(drawn["grade"].value_counts(normalize=True)[expected.index], expected, atol=0.03)


def test_rows_keep_the_frequency_of_a_trait_of_people_with_many_events():
    # Chronic patients have twice as many visits, so the frequency in rows is 0.1 above the mean of patients.
    rng = np.random.default_rng(0)
    is_chronic = rng.random(3_000) < 0.26
    persons = np.repeat(np.arange(3_000), 1 + np.minimum(7, rng.poisson(1.6 + 2 * is_chronic)))
    other = rng.choice(["acute", "check", "other"], persons.size, p=[0.5, 0.3, 0.2])
    repeated = rng.random(persons.size) < np.where(is_chronic, 0.8, 0.08)[persons]
    visits = pd.DataFrame({"id": persons, "diagnosis": np.where(repeated, "chronic", other)})
    visits["fee"] = rng.gamma(3, 20, persons.size) + 15.0 * repeated
    visits["day"] = rng.integers(0, 365, persons.size)
    domain = {"diagnosis": ["acute", "check", "other", "chronic"], "fee": Interval(0.0, 400.0, bins=20)}
    domain |= {"day": Interval(0, 365, bins=12)}
    people = pd.DataFrame({"id": range(3_000)})
    options = {"domain": domain, "max_rows_per_person": 8, "order_by": "day"}
    _, events = make_synthesizer(epsilon=1.0, delta=1e-6, **options).fit(people, visits).sample()
    assert abs((events["diagnosis"] == "chronic").mean() - repeated.mean()) < 0.05


@pytest.mark.parametrize("dtype", quick_first(1, ["ordered", "text"]))
def test_events_are_in_the_declared_order_of_the_values(dtype):
    """Events with the stages "b", "a" and "c" were ordered by the alphabet, so that "c" did not follow "a"."""
    stages, n = ["b", "a", "c"], 2_000
    levels = np.random.default_rng(0).integers(0, 4, (n, 3))
    levels[:, 2] = levels[:, 1]
    events = pd.DataFrame({"id": np.repeat(range(n), 3), "stage": stages * n, "level": levels.ravel()})
    if dtype == "ordered":
        events["stage"] = pd.Categorical(events["stage"], stages, ordered=True)
    domain = {"stage": stages, "level": range(4), "size": [0, 1]}
    people = pd.DataFrame({"id": range(n), "size": np.arange(n) % 2})
    model = make_synthesizer(epsilon=1e4, delta=1e-6, order_by="stage", domain=domain)
    _, drawn = model.fit(people, events).sample()
    by_stage = drawn.drop_duplicates(["id", "stage"]).pivot(index="id", columns="stage", values="level")
    assert (by_stage["c"] == by_stage["a"]).mean() > 0.9


def test_rows_keep_the_frequency_of_a_rare_trait_without_an_order():
    rng = np.random.default_rng(5)
    is_chronic = rng.random(3_000) < 0.25
    persons = np.repeat(np.arange(3_000), np.clip(1 + rng.poisson(1.7 + 2 * is_chronic), 1, 10))
    repeated = is_chronic[persons] & (rng.random(persons.size) < 0.9)
    other = rng.choice(["acute", "check", "other"], persons.size)
    visits = pd.DataFrame({"id": persons, "diagnosis": np.where(repeated, "chronic", other)})
    visits["fee"] = rng.gamma(3, 20, persons.size)
    domain = {"diagnosis": ["acute", "check", "other", "chronic"], "fee": Interval(0.0, 400.0, bins=20)}
    model = make_synthesizer(epsilon=8.0, domain=domain, max_rows_per_person=10)
    _, events = model.fit(pd.DataFrame({"id": range(3_000)}), visits).sample()
    # Simulated counts with the weight of the largest noise gave a difference of 0.04.
    assert abs((events["diagnosis"] == "chronic").mean() - (visits["diagnosis"] == "chronic").mean()) < 0.02


def test_ordered_dates_are_independent_of_the_person(tables):
    # Sorted dates depend on each other, but their correlation within people is 0.
    domain = Domain(dict(DOMAIN) | {"day": Interval(0, 365, bins=12)})
    _, events = make_synthesizer(domain=domain, delta=1e-6, order_by="day").fit(*tables).sample()
    assert abs(intraclass_correlation(events, "day")) < 0.1


def test_sample_has_new_keys_and_sorted_events(tables, fitted):
    people, events = fitted.sample(500)
    assert people["id"].tolist() == list(range(500))
    assert events["id"].is_monotonic_increasing
    assert events["id"].isin(people["id"]).all()
    assert events["id"].value_counts().max() <= 4
    assert list(people) == list(tables[0])
    assert list(events) == list(tables[1])
    if fitted.order_by:
        assert (events.groupby("id")["day"].diff().dropna() >= 0).all()


def test_conditions_select_people_with_their_events(tables, ordered):
    patients, visits = tables
    people, events = ordered.sample(conditions={"sex": "f", "age": (40, 80), "n_events": (3, 4)})
    assert (people["sex"] == "f").all()
    assert people["age"].between(40, 79).all()
    assert (events["id"].value_counts() == 3).all()
    n_events = patients["id"].map(visits["id"].value_counts())
    is_selected = (patients["sex"] == "f") & patients["age"].between(40, 79) & (n_events == 3)
    assert len(people) == events["id"].nunique() == pytest.approx(is_selected.sum(), rel=0.25)
    assert len(ordered.sample(7, conditions={"sex": ["m"]})[0]) == 7
    with pytest.raises(ValueError, match=r"`conditions` must name columns of the model, .*got 'ward'"):
        ordered.sample(conditions={"ward": "er"})


def test_events_of_a_table_without_an_order_depend_on_the_number_of_all_events():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"id": range(600), "sex": ["f", "m"] * 300})
    n_events = rng.integers(1, 4, 600)
    doses = pd.DataFrame({"id": np.repeat(people["id"], n_events)})
    is_frequent = np.repeat(n_events == 3, n_events)
    doses["ward"] = np.where(is_frequent | (rng.random(len(doses)) < 0.5), "er", "gp")
    domain = {"sex": ["f", "m"], "day": [0, 1], "ward": ["er", "gp"]}
    synthesizer = make_synthesizer(epsilon=100.0, domain=domain, order_by="day")
    _, drawn = synthesizer.fit(people, {"visits": doses[["id"]].assign(day=0), "doses": doses}).sample()
    n_drawn = drawn["doses"].groupby("id")["id"].transform("size")
    assert (drawn["doses"]["ward"] == "er")[n_drawn == 2].mean() == pytest.approx(0.5, abs=0.15)


def test_constraints_and_derived_columns_use_the_person():
    patients, visits = make_tables(500)
    visits = visits.merge(patients[["id", "age"]], on="id")
    visits["at"] = np.minimum(visits["age"] + visits["day"] % 10, 100)
    visits = visits[["id", "ward", "at"]].assign(gap=0)
    columns = {name: DOMAIN[name] for name in ("sex", "age", "ward")} | {"at": Interval(0, 100, bins=10)}
    domain = Domain(columns, constraints=["at >= age"], derived={"gap": "at - age"})
    people, events = make_synthesizer(domain=domain).fit(patients, visits).sample()
    joined = events.merge(people, on="id")
    assert len(joined) > 100
    assert (joined["at"] >= joined["age"]).all()
    assert (joined["gap"] == joined["at"] - joined["age"]).all()


@pytest.mark.parametrize("person_columns", [None, ["sex", "age"]])
def test_derived_columns_that_no_table_has_are_added(person_columns, few):
    derived = {"is_old": "age > 60", "weeks": "day / 7", "late": "age + day", "double": "2 * dose"}
    patients, visits = few
    data = (patients, visits.assign(double=0.0))
    if person_columns:
        data = (patients.merge(data[1], on="id"),)
    fit = make_synthesizer(domain=Domain(DOMAIN, derived=derived), person_columns=person_columns).fit
    if person_columns:
        synthetic = fit(*data).sample(50)
        assert list(synthetic) == ["id", "sex", "age", "ward", "dose", "day", "double", "is_old", "weeks", "late"]
        return
    people, events = fit(*data).sample(50)
    assert list(people) == ["id", "sex", "age", "is_old"]
    assert list(events) == ["id", "ward", "dose", "day", "double", "weeks", "late"]
    assert (events["late"] == events["day"] + people["age"][events["id"]].to_numpy()).all()


def test_several_tables_of_events_satisfy_constraints_and_have_derived_columns(few):
    patients, visits = few
    children = {"stays": visits[["id", "day"]], "doses": visits[["id", "ward", "dose"]].assign(age2=0)}
    constraints = ["day < 300", "not (ward == 'lab' and sex == 'm')"]
    domain = Domain(DOMAIN, constraints=constraints, derived={"late": "age + day", "age2": "2 * age"})
    people, events = make_synthesizer(domain=domain).fit(patients, children).sample()
    assert list(events["stays"]) == ["id", "day", "late"]
    assert list(events["doses"]) == ["id", "ward", "dose", "age2"]
    assert events["stays"]["day"].max() < 300
    doses = events["doses"].merge(people, on="id")
    assert (doses["age2"] == 2 * doses["age"]).all()
    assert set(doses["ward"][doses["sex"] == "m"]) == {"er", "gp"}
    for facts in ({"constraints": ["day > dose"]}, {"derived": {"late": "day + dose"}}):
        with pytest.raises(ValueError, match="columns of people and of one table of events, got"):
            make_synthesizer(domain=Domain(DOMAIN, **facts)).fit(patients, children | {"doses": visits[["id", "dose"]]})


@pytest.mark.parametrize(
    ("constraint", "person_columns"),
    quick_first(1, [("day < 0", ["sex", "age"]), ("count(day < 0) >= 1", None), ("dose > 8 or day > 365 + age", None)]),
)
def test_constraint_that_no_event_satisfies_raises_an_error(constraint, person_columns, few_rounds):
    tables = make_tables(150)
    data = tables if person_columns is None else (tables[0].merge(tables[1], on="id"),)
    domain = Domain(DOMAIN, constraints=[constraint])
    parameters = {"person_columns": person_columns, "max_rows_per_person": 1}
    fitted = make_synthesizer(domain=domain, **parameters).fit(*data)
    with pytest.raises(ValueError, match=r"satisfied by some events of 'events', got \["):
        fitted.sample()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the only person may have events
        assert len(list_events(fitted.sample(1), person_columns)) == 0


def list_events(synthetic, person_columns):
    return synthetic[1] if person_columns is None else synthetic


def test_events_that_constraints_omit_are_counted_in_a_warning(few_rounds):
    domain = Domain(DOMAIN, constraints=["sex == 'f' or day < 0"])
    fitted = make_synthesizer(domain=domain, max_rows_per_person=1).fit(*make_tables(200))
    with pytest.warns(UserWarning, match=r"[\d,]+ of [\d,]+ synthetic events of 'events' are omitted, because no draw"):
        people, events = fitted.sample()
    assert set(events.merge(people, on="id")["sex"]) == {"f"}


def test_missing_values_are_drawn_and_unknown_events_are_ignored():
    patients, visits = make_tables(300)
    visits.loc[::3, "ward"] = None
    domain = Domain({name: DOMAIN[name] for name in DOMAIN.columns} | {"ward": ["er", "gp", "lab", None]})
    _, events = make_synthesizer(domain=domain).fit(patients, visits).sample()
    assert 0.2 < events["ward"].isna().mean() < 0.45
    _, events = make_synthesizer(handle_unknown="ignore").fit(patients, visits).sample()
    assert events["ward"].notna().all()
    known = patients["sex"] == "f"
    visits = visits.assign(ward=np.where(visits["id"].map(known), "er", "gp"))
    patients.loc[::3, "sex"] = None
    model = make_synthesizer(epsilon=1e5, domain=DOMAIN.select(["sex", "ward"]), handle_unknown="ignore")
    people, events = model.fit(patients[["id", "sex"]], visits[["id", "ward"]]).sample()
    assert ((events.merge(people, on="id")["sex"] == "f") == (events["ward"] == "er")).mean() > 0.95


# Tables


@pytest.mark.parametrize("convert", quick_first(1, [pl.from_pandas, pa.Table.from_pandas]), ids=["polars", "arrow"])
def test_tables_keep_their_library(convert, few):
    synthesizer = make_synthesizer(delta=1e-6, order_by="day")
    expected = synthesizer.fit(*few).sample(50)
    for table, pandas_table in zip(synthesizer.fit(*map(convert, few)).sample(50), expected, strict=True):
        assert type(table) is type(convert(few[0]))
        assert table.to_pandas().astype(str).equals(pandas_table.astype(str))


def test_single_table_keeps_person_columns_constant(tables):
    rows = tables[0].merge(tables[1], on="id")
    synthesizer = make_synthesizer(person_columns=["id", "age", "sex"], order_by="day").fit(rows)
    synthetic = synthesizer.sample()
    assert list(synthetic) == list(rows)
    assert (synthetic.groupby("id")[["age", "sex"]].nunique() == 1).all(axis=None)
    assert abs(synthetic["id"].nunique() / rows["id"].nunique() - 1) < 0.02


def test_order_by_an_undeclared_column_is_not_modeled(few):
    patients, visits = few
    visits = visits.assign(number=visits.index % 7)
    _, events = make_synthesizer(order_by="number").fit(patients, visits).sample(20)
    assert "number" not in events.columns
    rows = patients.merge(visits, on="id")
    synthetic = make_synthesizer(person_columns=["sex", "age"], order_by="number").fit(rows).sample(20)
    assert list(synthetic) == ["id", "sex", "age", "ward", "dose", "day"]


def test_intervals_of_counts_of_people_cover(tables, fitted):
    counts = fitted.people_.marginal(["sex"])
    true = tables[0]["sex"].value_counts()
    assert (counts["lower"].to_numpy() <= true[counts["sex"]].to_numpy()).all()
    assert (counts["upper"].to_numpy() >= true[counts["sex"]].to_numpy()).all()
    without = fitted.people_.count({"n_events": (0, 1)})
    assert abs(without - (~tables[0]["id"].isin(tables[1]["id"])).sum()) < 50


def test_link_quality_lists_measured_marginals(fitted):
    quality = fitted.link_quality_
    assert ("events", "ward, history of ward") in quality.index
    assert quality["usable"].mean() > 0.8
    assert (quality["misfit"] < 0.05 + quality["noise"]).all()


@pytest.mark.parametrize("bins", quick_first(1, ["found", "declared"]))
def test_saved_synthesizer_draws_the_same_tables_without_ids_or_seed(bins, few):
    named = [table.assign(id="patient-" + table["id"].astype(str)) for table in few]
    domain = bounds_only(DOMAIN, bins)
    synthesizer = make_synthesizer(domain=domain, order_by="day", random_state=987_654_321).fit(*named)
    content = list_members(data := save_bytes(synthesizer))
    assert b"patient-" not in content
    assert b"987654321" not in content
    loaded = skdp.load(io.BytesIO(data)).set_params(random_state=987_654_321)
    assert loaded.guarantee_ == synthesizer.guarantee_
    assert privacy_statement(loaded).total == synthesizer.guarantee_
    for table, expected in zip(loaded.sample(100), synthesizer.sample(100), strict=True):
        pd.testing.assert_frame_equal(table, expected)


# Errors


def change_visits(**columns):
    return lambda patients, visits: (patients, visits.assign(**columns))


@pytest.mark.parametrize(
    ("change", "parameters", "message"),
    [
        (change_visits(), {"person": "patient"}, "`person` must name a column"),
        (change_visits(), {"order_by": "hour"}, "`order_by` must name a column"),
        (change_visits(), {"max_rows_per_person": 0}, "`max_rows_per_person`"),
        (change_visits(), {"domain": None}, "`domain` must be a Domain"),
        (change_visits(), {"person_columns": ["sex"]}, "either a table of `events`"),
        (change_visits(sex="f"), {}, "must be in one table only"),
        (change_visits(ward="attic"), {}, "'ward' contains a value outside"),
        (change_visits(note="x"), {}, r"the values of the columns \['note'\], got none"),
        (change_visits(id=lambda visits: visits["id"].astype(str)), {}, "must have one type in all tables"),
        # Rounded ids of events would be ids of other people.
        (change_visits(id=lambda visits: visits["id"] + 2.0**53), {}, "'id' must have exact keys"),
        (lambda patients, visits: (pd.concat([patients, patients]), visits), {}, "an id that occurs twice"),
        (
            lambda patients, visits: (patients.assign(id=patients["id"].where(patients["id"] > 0)), visits),
            {},
            "missing id",
        ),
        (
            lambda patients, visits: (patients.merge(visits, on="id"),),
            {"person_columns": ["sex", "age", "ward"]},
            "`person_columns` must be constant for each person",
        ),
        (
            lambda patients, visits: (patients.merge(visits, on="id"),),
            {"person_columns": 3},
            "`person_columns` must name columns of the table, .* got 'id' and 3",
        ),
    ],
)
def test_fit_raises_before_the_charge(change, parameters, message, few):
    with refusal((TypeError, ValueError), message) as ledger:
        make_synthesizer(ledger=ledger, **parameters).fit(*change(*few))


@pytest.mark.parametrize("events", [True, False])
def test_ids_that_match_nobody_are_named_by_noisy_counts(events, few):
    """Ids such as "0007" and "7" gave an empty table of events without a word."""
    patients, visits = few
    patients = patients.assign(id=patients["id"].map("{:05d}".format))
    visits = visits.assign(id=visits["id"].map(str if events else "{:05d}".format))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make_synthesizer(delta=1e-6).fit(patients, visits)
    names = [str(warning.message) for warning in caught if "'0007' and '7'" in str(warning.message)]
    assert len(names) == events


@pytest.mark.filterwarnings("ignore:The noisy number of people with 'events'")
@pytest.mark.parametrize(("n_people", "n_events"), [(0, 0), (50, 0), (0, 50)])
def test_tables_without_rows_are_synthesized(n_people, n_events, few):
    patients, visits = few
    people, events = make_synthesizer().fit(patients[:n_people], visits[:n_events]).sample(30)
    assert len(people) == 30
    assert list(events) == list(visits)


def test_events_are_ordered_and_events_beyond_the_limit_are_excluded_at_random():
    people = pd.DataFrame({"id": range(300), "sex": ["f", "m"] * 150})
    events = pd.DataFrame({"id": np.repeat(range(300), 3), "day": [1, 2, 3] * 300, "ward": ["er", "gp", "lab"] * 300})
    domain = DOMAIN.select(["sex", "ward"])
    model = make_synthesizer(epsilon=1e5, domain=domain, order_by="day", max_rows_per_person=1).fit(people, events)
    _, drawn = model.sample(300)
    assert drawn["ward"].value_counts(normalize=True).between(0.2, 0.47).all()
    assert drawn["ward"].nunique() == 3
    model.set_params(max_rows_per_person=3).fit(people, events.sample(frac=1, random_state=0))
    wards = model.sample(300)[1].groupby("id")["ward"].agg("".join)
    assert (wards == "ergplab").mean() > 0.95  # in the order of the days


def test_events_without_a_time_are_the_last_ones():
    people = pd.DataFrame({"id": range(90), "sex": ["f", "m"] * 45})
    events = pd.DataFrame({"id": np.repeat(range(90), 2), "day": [np.nan, 3.0] * 90, "ward": ["lab", "er"] * 90})
    domain = {"sex": ["f", "m"], "ward": ["er", "lab"]}
    model = make_synthesizer(epsilon=1e3, domain=domain, order_by="day", max_rows_per_person=2).fit(people, events)
    _, made = model.sample()
    assert set(made.groupby("id")["ward"].agg(" ".join)) == {"er lab"}


def test_events_without_an_order_repeat_the_most_frequent_kind_of_their_person():
    people = pd.DataFrame({"id": range(200), "sex": ["f", "m"] * 100})
    wards = np.where(np.arange(200)[:, np.newaxis] % 4 < 2, ["er"] * 7 + ["gp"] * 2, ["er"] * 2 + ["gp"] * 7)
    events = pd.DataFrame({"id": np.repeat(range(200), 9), "ward": wards.ravel()})
    domain = {"sex": ["f", "m"], "ward": ["er", "gp"]}
    model = make_synthesizer(epsilon=1e3, domain=domain, max_rows_per_person=9).fit(people, events)
    _, made = model.sample()
    n_first = (made["ward"] == "er").groupby(made["id"]).sum()
    # The mean difference is 5 in the table, and 3.1 if each event depends on the one before it.
    assert (2 * n_first - 9).abs().mean() > 4


def test_rare_event_of_two_attributes_has_its_frequency():
    """People with an earlier rare event had other attributes in the model, so that the event repeated too often."""
    rng = np.random.default_rng(0)
    n = 16_000
    people = pd.DataFrame({"id": np.arange(n), "sex": rng.choice(["f", "m"], n), "old": rng.choice(["n", "y"], n)})
    persons = np.repeat(np.arange(n), rng.integers(1, 4, n))
    is_rare = (people["sex"].eq("f") & people["old"].eq("n")).to_numpy()[persons] & (rng.random(persons.size) < 0.12)
    events = pd.DataFrame({"id": persons, "ward": np.where(is_rare, "r", rng.choice(["a", "b"], persons.size))})
    domain = {"sex": ["f", "m"], "old": ["n", "y"], "ward": ["a", "b", "r"]}
    synthesizer = DPLinkedSynthesizer(
        2_000.0, delta=1e-6, person="id", domain=domain, max_rows_per_person=3, random_state=0
    )
    _, made = synthesizer.fit(people, events).sample(60_000)
    assert (made["ward"] == "r").mean() == pytest.approx(is_rare.mean(), rel=0.03)
