"""True constraints keep the rare values that they name, and read nothing from the table."""

import itertools

import numpy as np
import pandas as pd
import pytest

from skdp import Domain, DPLinkedSynthesizer, DPMarginalSynthesizer, Interval
from skdp.testing import replay_release
from tests.conftest import quick_first

COLUMNS = {
    "sex": ["f", "m"],
    "age": Interval(0, 95),
    "ward": ["er", "gp", "lab", "birth"],
    "kin": ["none", "ward", "guardian"],
    "days": Interval(0, 30),
    "day": Interval(0, 365),
}
RULES = [
    "ward != 'birth' or (sex == 'f' and 18 <= age <= 45)",
    "kin != 'guardian' or age < 14",
    "not (kin == 'ward' and days < 5)",
]
RARE = [("ward", "birth"), ("kin", "guardian"), ("kin", "ward")]


def make_hospital(n=4_000, seed=0):
    """Make patients and visits that satisfy all rules; the values of `RARE` are rare."""
    rng = np.random.default_rng(seed)
    patients = pd.DataFrame({"id": range(n), "sex": rng.choice(["f", "m"], n), "age": rng.integers(0, 95, n)})
    visits = patients.loc[patients.index.repeat(rng.poisson(1.8, n).clip(0, 6))].reset_index(drop=True)
    chance = rng.random((2, len(visits)))
    visits["ward"] = rng.choice(["er", "gp", "lab"], len(visits), p=[0.3, 0.5, 0.2])
    is_mother = (visits["sex"] == "f") & visits["age"].between(18, 45) & (chance[0] < 0.3)
    visits["days"] = rng.poisson(3 + 4 * is_mother).clip(0, 30)
    visits.loc[is_mother, "ward"] = "birth"
    visits["kin"] = "none"
    visits.loc[(visits["age"] < 14) & (chance[1] < 0.2), "kin"] = "guardian"
    visits.loc[(visits["days"] >= 5) & (chance[1] > 0.85), "kin"] = "ward"
    visits["day"] = rng.integers(0, 366, len(visits))
    return patients, visits[["id", "ward", "kin", "days", "day"]]


def synthesize(tables, rules, order_by=None, columns=COLUMNS, epsilon=2.0):
    """Return the synthetic events with the columns of people."""
    domain = Domain(columns, constraints=rules)
    options = {"person": "id", "max_rows_per_person": 6, "order_by": order_by, "random_state": 0}
    model = DPLinkedSynthesizer(epsilon, delta=1e-6, domain=domain, **options).fit(*tables)
    people, events = model.sample()
    return model, events.merge(people, on="id")


def count_rare(rows):
    return np.array([(rows[name] == value).sum() for name, value in RARE])


@pytest.fixture(scope="module")
def hospital():
    return make_hospital()


@pytest.mark.parametrize("order_by", quick_first(1, ["day", None]))
def test_linked_tables_keep_rare_values_of_true_rules(hospital, order_by):
    domain = Domain(COLUMNS, constraints=RULES)
    model, events = synthesize(hospital, RULES, order_by)
    assert domain.check_constraints(events).all()
    assert (count_rare(events) / count_rare(hospital[1])).min() > 0.7
    quality = model.constraint_quality_
    assert list(quality.index) == [("events", rule) for rule in RULES]
    assert quality["forbidden"].max() < 0.02
    # Bins end at the numbers of constraints, so that no bin has possible and impossible numbers.
    assert {14, 18, 46} <= {*model.domain_["age"].edges}
    assert 5 in model.domain_["days"].edges
    assert {"ward, age", "ward, sex", "kin, age", "kin, days"} <= {*model.link_quality_.index.get_level_values(1)}


@pytest.mark.parametrize("epsilon", quick_first(1, [2.0, 8.0]))
def test_rows_keep_rare_values_of_true_rules(hospital, epsilon):
    rows = hospital[0].merge(hospital[1], on="id").drop(columns=["id", "day"])
    domain = Domain({name: COLUMNS[name] for name in rows}, constraints=RULES)
    model = DPMarginalSynthesizer(epsilon, delta=1e-6, domain=domain, random_state=0).fit(rows)
    drawn = model.sample()
    assert domain.check_constraints(drawn).all()
    assert np.abs(count_rare(drawn) / count_rare(rows) - 1).max() < 0.2
    assert model.count({"ward": "birth", "sex": "m"}) == 0
    measured = {tuple(rows.columns[c] for c in marginal.clique) for marginal in model.marginals_}
    assert {("sex", "ward"), ("age", "ward"), ("age", "kin"), ("kin", "days")} <= measured


def test_rows_keep_rare_values_in_bins_with_few_valid_numbers(hospital):
    rows = hospital[0].merge(hospital[1], on="id").drop(columns=["id", "day"])
    columns = {name: COLUMNS[name] for name in rows}
    columns |= {"age": Interval([0, 40, 95]), "days": Interval([0, 8, 30])}
    domain = Domain(columns, constraints=RULES)
    drawn = DPMarginalSynthesizer(8.0, delta=1e-6, domain=domain, random_state=0).fit(rows).sample()
    assert domain.check_constraints(drawn).all()
    assert np.abs(count_rare(drawn) / count_rare(rows) - 1).max() < 0.2


@pytest.mark.parametrize(
    "rule",
    [
        "a + b <= 7",
        "3 * a >= 2 * b and b > 1",
        "not a == b",
        "total != 6",
        "total <= 9 or kind == 'x'",
        "kind != 'y' or (a >= 4 and 2 < b)",
    ],
)
def test_exactly_the_bins_without_a_valid_row_are_impossible(rule):
    columns = {"kind": ["x", "y"], "a": Interval([0, 1, 4, 8]), "b": Interval([0, 3, 5, 6])}
    domain = Domain(columns, constraints=[rule], derived={"total": "a + b"})
    every = pd.DataFrame([*itertools.product("xy", range(9), range(7))], columns=[*columns])
    valid = every[domain.check_constraints(every)]
    codes = [np.searchsorted(domain[name].edges[1:-1], valid[name], "right") for name in "ab"]
    model = DPMarginalSynthesizer(1.0, domain=domain, marginals=[[*columns]], random_state=0).fit(every)
    counts = model.marginal([*columns])["count"].to_numpy().reshape(2, 3, 3)
    for index in itertools.product(range(2), range(3), range(3)):
        is_possible = ((valid["kind"] == "xy"[index[0]]) & (codes[0] == index[1]) & (codes[1] == index[2])).any()
        assert (counts[index] > 0) == is_possible, index


def test_replay_of_persons_and_rows_that_violate_rules_stays_within_the_guarantee():
    """Pairs of constraints are measured in any case, whether the records satisfy these is private."""
    patients, visits = make_hospital(20)
    person = pd.DataFrame({"id": [99], "sex": ["m"], "age": [70]})
    own = pd.DataFrame({"id": 99, "ward": "birth", "kin": "guardian", "days": [1, 2, 3], "day": 7})
    both, joined = pd.concat([visits, own]), pd.concat([patients, person])
    domain = Domain(COLUMNS, constraints=RULES)

    def release(people):
        model = DPLinkedSynthesizer(5.0, domain=domain, person="id", max_rows_per_person=6, random_state=0)
        return model.fit(people, both[both["id"].isin(people["id"])])

    rows = joined.merge(both, on="id").drop(columns=["id", "day"])
    single = DPMarginalSynthesizer(5.0, domain=Domain(COLUMNS, constraints=RULES), random_state=0)
    for replay in (replay_release(release, joined, patients), replay_release(single.fit, rows, rows[:-1])):
        assert replay.passed, replay.findings
        assert replay.epsilon == pytest.approx(5, rel=0.02)
