from __future__ import annotations

import pickle
from collections import Counter
from datetime import date
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skdp import BudgetExceeded, DPMarginalSynthesizer, Interval, PrivacyLedger
from skdp.synthesis import DPPanelSynthesizer, SyntheticResampler
from skdp.synthesis.tables import lag
from tests.conftest import each

STAY = np.array([[0.8, 0.15, 0.05], [0.3, 0.5, 0.2], [0.05, 0.25, 0.7]])
LEAVE = np.array([0.3, 0.1, 0.2])
DOMAIN = {"state": ["well", "ill", "worse"], "score": Interval(0, 30, bins=3)}


def visits(n, seed=0):
    """Persons in a Markov chain of states, who leave at a rate that depends on the state; a score that follows it."""
    rng = np.random.default_rng(seed)
    state, there, days = rng.choice(3, n, p=[0.6, 0.3, 0.1]), np.arange(n), []
    for day in range(9):
        days.append(pd.DataFrame({"person": there, "day": day, "code": state[there]}))
        there = there[rng.random(len(there)) >= LEAVE[state[there]]]
        state = (rng.random(n)[:, np.newaxis] > STAY[state].cumsum(1)).sum(1)
    rows = pd.concat(days, ignore_index=True)
    rows["state"] = np.array(DOMAIN["state"])[rows["code"]]
    rows["score"] = 10 * rows.pop("code") + rng.integers(1, 10, len(rows))
    return rows.sample(frac=1, random_state=seed)


ROWS = visits(300)

pytestmark = pytest.mark.filterwarnings("ignore:what the columns:UserWarning")


def panel(epsilon=1e3, *, person="person", time="day", max_visits=4, **parameters):
    parameters = {"delta": 1e-6, "domain": DOMAIN, "random_state": 0, "max_iter": 100} | parameters
    inner = DPMarginalSynthesizer(epsilon, **parameters)
    return DPPanelSynthesizer(inner, person=person, time=time, max_visits=max_visits)


def lagged(persons, most):
    """Count the rows that are modelled of persons, each a sequence of pairs of a time and a code."""
    rows = [(number, time, code) for number, person in enumerate(persons) for time, code in person]
    numbers, times, codes = (
        (np.array(column, np.intp) for column in zip(*rows, strict=True)) if rows else [np.empty(0, np.intp)] * 3
    )
    return Counter(zip(*(column.tolist() for column in lag([codes], numbers, times, most)), strict=True))


# All persons of up to three visits, in order of time or not, with one of two values each.
PERSONS = {
    tuple(zip(times, codes, strict=True))
    for n in range(4)
    for times in (range(n), range(n)[::-1])
    for codes in product(range(2), repeat=n)
}


@pytest.mark.parametrize("most", [1, 2])
def test_a_person_changes_as_many_rows_as_there_are_visits_at_most(most):
    for other in PERSONS:
        rest = lagged([other], most)
        for one in PERSONS:
            both = lagged([one, other], most)
            assert not rest - both
            assert (both - rest).total() == min(len(one), most)


def test_the_visit_before_is_that_of_the_same_person():
    columns = lag([np.array([5, 6, 7, 8])], np.array([1, 0, 1, 1]), np.array([3, 0, 1, 2]), 2)
    assert [column.tolist() for column in columns] == [[0, 0, 1], [1, 0, 0], [6, 7, 8], [0, 0, 8]]


def test_the_synthesizer_gets_these_rows_and_the_most_of_a_person(monkeypatch):
    seen = []

    def record(synthesizer, X):
        seen.append((Counter(X.itertuples(index=False, name=None)), synthesizer.max_rows_per_person))
        raise ZeroDivisionError

    monkeypatch.setattr(DPMarginalSynthesizer, "fit", record)
    rows = ROWS[ROWS["person"] < 20].assign(state=lambda table: table["state"].where(table["day"] != 1, "undeclared"))
    for person in (None, *range(20)):
        with pytest.raises(ZeroDivisionError):
            panel(max_visits=2, handle_unknown="ignore").fit(rows[rows["person"] != person])
    (whole, most), *others = seen
    assert most == 2
    for rest, _ in others:
        assert not rest - whole
        assert (whole - rest).total() <= 2


def test_a_chain_is_recovered():
    rows, made = visits(4_000), panel().fit(visits(4_000)).sample(4_000)
    assert made.columns.tolist() == ["person", "visit", "state", "score"]
    assert made["person"].is_monotonic_increasing
    assert (made.groupby("person")["visit"].diff().dropna() == 1).all()
    assert ((made["score"].clip(upper=29) // 10) == made["state"].map(DOMAIN["state"].index)).mean() > 0.99
    before = made.groupby("person")["state"].shift()
    found = pd.crosstab(before, made["state"], normalize="index").loc[DOMAIN["state"], DOMAIN["state"]]
    assert np.abs(found.to_numpy() - STAY).max() < 0.04
    lengths = made.groupby("person").size().value_counts(normalize=True)
    truth = rows.groupby("person").size().clip(upper=4).value_counts(normalize=True)
    assert lengths.sub(truth).abs().max() < 0.03
    # The errors of one visit are not those of all before it, added up.
    rows["visit"] = rows.groupby("person")["day"].rank().astype(int)
    for visit in range(1, 5):
        shares = [table.loc[table["visit"] == visit, "state"].value_counts(normalize=True) for table in (rows, made)]
        assert shares[0].sub(shares[1]).abs().sum() / 2 < 0.04


def test_the_number_of_persons_is_estimated():
    fitted = panel(1.0).fit(ROWS)
    assert 0 < fitted.n_persons_std_error_ < 60
    assert abs(fitted.n_persons_ - 300) < 4 * fitted.n_persons_std_error_
    assert fitted.sample()["person"].nunique() == round(fitted.n_persons_)


def test_one_charge_for_all_visits_of_a_person():
    ledger = PrivacyLedger(epsilon=1.5, delta=1e-5)
    one = panel(1.0, ledger=ledger).fit(ROWS)
    assert ledger.spent.epsilon == 1.0
    assert one.guarantee_ is one.synthesizer_.guarantee_
    assert (one.guarantee_.relation, one.guarantee_.epsilon) == ("add_remove", 1.0)
    assert one.guarantee_.mechanism.endswith("up to 4 rows a person")
    short = panel(1.0, max_visits=2).fit(ROWS)
    assert one.synthesizer_.noise_scale_["visit",] > 1.5 * short.synthesizer_.noise_scale_["visit",]
    one.sample(3)
    with pytest.raises(BudgetExceeded):
        one.fit(ROWS)
    assert one.guarantee_.epsilon == 1.0


def test_neither_the_order_of_rows_nor_labels_matter():
    first = panel(1.0).fit(ROWS).sample()
    other = ROWS.sort_values(["day", "score"]).set_index("person", drop=False)
    other["person"] = [f"p{number}" for number in other["person"]]
    pd.testing.assert_frame_equal(panel(1.0).fit(other).sample(), first)


@pytest.mark.chosen("pl")
@pytest.mark.parametrize("convert", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas], ids=["pd", "pl", "pa"])
def test_kinds_of_frames(convert):
    rows = ROWS.reset_index(drop=True)
    table = convert(rows.assign(day=pd.Timestamp("2020-01-01") + pd.to_timedelta(rows["day"], "D")))
    made = panel(1.0).fit(table).sample(50)
    assert type(made) is type(table)
    assert list(getattr(made, "column_names", made.columns)) == ["person", "visit", "state", "score"]
    wanted = panel(1.0).fit(ROWS).sample(50)
    found = made if isinstance(made, pd.DataFrame) else made.to_pandas()
    pd.testing.assert_frame_equal(found, wanted, check_dtype=isinstance(made, pd.DataFrame))


def test_columns_that_are_no_text():
    rows = ROWS.rename(columns={"state": 0, "day": 1, "score": 2, "person": 3})
    fitted = panel(person=3, time=1, domain={0: DOMAIN["state"], 2: DOMAIN["score"]}).fit(rows)
    assert fitted.sample(2).columns.tolist() == [3, "visit", 0, 2]
    assert fitted.domain_.columns == (0, 2)


@pytest.mark.chosen("tree", "full")
@pytest.mark.parametrize("marginals", ["tree", "adaptive", "full"])
def test_other_ways_to_choose_marginals(marginals):
    small = ROWS[["person", "day", "state"]]
    made = (
        panel(domain={"state": DOMAIN["state"]}, marginals=marginals, max_visits=2, max_iter=9).fit(small).sample(100)
    )
    assert set(made["visit"]) == {1, 2}


def test_one_visit_of_each_person():
    made = panel(max_visits=1).fit(ROWS).sample(400)
    assert (made["visit"] == 1).all()
    firsts = ROWS.loc[ROWS["day"] == 0, "state"].value_counts(normalize=True)
    assert made["state"].value_counts(normalize=True).sub(firsts).abs().max() < 0.08


@pytest.mark.parametrize("n", [0, 1])
def test_tables_of_few_rows(n):
    with pytest.warns(UserWarning, match="the visit before was not measured"):
        fitted = panel(1.0).fit(ROWS[:n])
    assert fitted.sample(3)["person"].nunique() == 3
    assert len(fitted.sample(0)) == 0


def test_what_is_not_declared():
    rows = pd.DataFrame({"person": [1, 1, 1], "day": [1, 2, 3], "state": ["well", "secret", "ill"]})
    known = {"state": DOMAIN["state"]}
    with pytest.raises(ValueError, match="column 'state' holds a value") as error:
        panel(domain=known).fit(rows)
    assert "secret" not in str(error.value)
    left_out = panel(domain=known, handle_unknown="ignore", marginals="full", max_visits=2).fit(rows).synthesizer_
    assert round(left_out.count({"state": "1", "previous state": "0", "last": "yes"})) == 1
    instead = panel(domain=known, handle_unknown={"state": "worse"}, marginals="full").fit(rows).synthesizer_
    assert round(instead.count({"state": "2", "previous state": "0"})) == 1


def test_names_that_are_taken():
    for names in ({"score": "visit"}, {"score": "last"}, {"score": "previous state"}):
        with pytest.raises(ValueError, match=r"another name|rename a column"):
            panel(domain={"state": DOMAIN["state"], names["score"]: DOMAIN["score"]}).fit(ROWS.rename(columns=names))
    made = panel(time="visit", max_visits=2).fit(ROWS.rename(columns={"day": "visit"})).sample(9)
    assert made.columns.tolist() == ["person", "visit", "state", "score"]


@pytest.fixture(scope="module")
def fitted():
    return panel(1.0).fit(ROWS)


SECRET = 123456789
WRONG = {
    "person": ({"person": "nobody"}, {}, ValueError, "person must be a column of X"),
    "time": ({"time": "never"}, {}, ValueError, "time must be a column of X"),
    "one column": ({"time": "person"}, {}, ValueError, "must be two columns"),
    "no visits": ({"max_visits": 0}, {}, ValueError, "max_visits must be"),
    "half a visit": ({"max_visits": 1.5}, {}, TypeError, "max_visits must be"),
    "workload": ({"workload": [("state", "score")]}, {}, ValueError, r"at their defaults: \['workload'\]"),
    "rows of a person": ({"max_rows_per_person": 2}, {}, ValueError, r"\['max_rows_per_person'\]"),
    "private bins": ({"bins": "private"}, {}, ValueError, r"\['bins'\]"),
    "list of marginals": ({"marginals": [("state",)]}, {}, ValueError, "must be a name"),
    "cells": ({"max_cells": 5}, {}, ValueError, "clique"),
    "policy": ({"handle_unknown": "never"}, {}, ValueError, "handle_unknown must be"),
    "domain": ({"domain": {"state": DOMAIN["state"]}}, {}, ValueError, "declares nothing for the columns"),
    "same time": ({}, {"day": SECRET}, ValueError, "column 'day' holds the same time twice for one person"),
    "no person": ({}, {"person": [None] + [SECRET] * (len(ROWS) - 1)}, ValueError, "column 'person' holds a missing"),
    "no time": ({}, {"day": [None, *range(1, len(ROWS))]}, ValueError, "column 'day' holds a missing value"),
    "text": ({}, {"day": "today"}, TypeError, "dtype of numbers, dates or times"),
    "objects": ({}, {"day": pd.Series([date(2020, 1, 1)] * len(ROWS), dtype=object)}, TypeError, "dtype of numbers"),
    "undeclared": ({}, {"score": SECRET}, ValueError, "column 'score' holds a value"),
}


@each("parameters, columns, kind, text", WRONG.values())
def test_mistakes_cost_nothing_and_show_no_value(fitted, parameters, columns, kind, text):
    ledger = PrivacyLedger(epsilon=1e6, delta=0.5)
    one = clone(fitted)
    vars(one).update(vars(fitted))
    before = dict(vars(one))
    one.set_params(**{name: value for name, value in parameters.items() if name in ("person", "time", "max_visits")})
    others = {name: value for name, value in parameters.items() if name not in one.get_params(deep=False)}
    one.set_params(synthesizer=panel(1.0, ledger=ledger, **others).synthesizer)
    changed = {name: getattr(one, name) for name in one.get_params(deep=False)}
    with pytest.raises(kind, match=text) as error:
        one.fit(ROWS.reset_index(drop=True).assign(**columns))
    assert str(SECRET) not in str(error.value)
    assert error.value.__context__ is None or str(SECRET) not in str(error.value.__context__)
    assert ledger.spent.epsilon == 0
    assert vars(one) == before | changed


def test_what_is_no_table_or_no_synthesizer():
    with pytest.raises(TypeError, match="X must be a dataframe"):
        panel().fit(ROWS[["person", "day"]].to_numpy())
    with pytest.raises(TypeError, match="lazy frames"):
        panel().fit(pl.from_pandas(ROWS).lazy())
    with pytest.raises(ValueError, match="no column beside"):
        panel().fit(ROWS[["person", "day"]])
    for inner in (DPMarginalSynthesizer, SyntheticResampler(DPMarginalSynthesizer())):
        with pytest.raises(TypeError, match="must be a DPMarginalSynthesizer"):
            DPPanelSynthesizer(inner, person="person", time="day", max_visits=2).fit(ROWS)
    with pytest.raises(NotFittedError):
        panel().sample()
    with pytest.raises(ValueError, match="n_persons must be"):
        panel().fit(ROWS).sample(-1)


def test_as_scikit_learn_has_it():
    one = panel(1.0)
    again = clone(one).set_params(synthesizer__epsilon=2.0)
    assert (one.synthesizer.epsilon, again.synthesizer.epsilon, again.max_visits) == (1.0, 2.0, 4)
    fitted = one.fit(ROWS)
    assert fitted is one
    assert not hasattr(one.synthesizer, "model_")
    assert one.synthesizer.workload is None
    assert (one.n_features_in_, one.feature_names_in_.tolist()) == (4, ROWS.columns.tolist())
    copy = pickle.loads(pickle.dumps(one))
    pd.testing.assert_frame_equal(copy.sample(20), one.sample(20))
    assert not one.sample(20).equals(one.sample(20))


def test_nothing_of_the_table_stays():
    rows = ROWS.assign(person=[f"person-{number}" for number in ROWS["person"]], day=1e6 + ROWS["day"])
    rows.index = [f"label-{place}" for place in range(len(rows))]
    rows.attrs["note"] = "label-0"
    rows["person"] = rows["person"].astype("category")
    stored = pickle.dumps(panel(1.0).fit(rows))
    assert b"person-" not in stored
    assert b"label-" not in stored


def moves(n, keep=0.5, seed=0):
    """Persons of whom half stay at one of 40 places, each of which is in one of five regions."""
    rng = np.random.default_rng(seed)
    place, days = rng.integers(0, 40, n), []
    for day in range(3):
        days.append(pd.DataFrame({"person": np.arange(n), "day": day, "place": place, "region": place % 5}))
        place = np.where(rng.random(n) < keep, place, rng.integers(0, 40, n))
    return pd.concat(days, ignore_index=True)


def test_a_fine_column_keeps_its_value_as_often():
    """The pair with the place before has 1,640 cells, mostly noise: a third of the visits kept theirs."""
    domain = {"place": list(range(40)), "region": list(range(5))}
    made = panel(6.0, domain=domain, max_visits=3).fit(moves(2_000)).sample(2_000)
    assert (made["place"] % 5 == made["region"]).mean() > 0.98
    last = made.groupby("person")[["place", "region"]].shift().dropna()
    now = made.loc[last.index]
    assert (now["place"] == last["place"]).mean() == pytest.approx(0.51, abs=0.04)
    assert (now["region"] == last["region"]).mean() == pytest.approx(0.6, abs=0.08)


def test_whether_a_fine_column_keeps_its_value_is_one_more_column(monkeypatch):
    seen = []
    monkeypatch.setattr(DPMarginalSynthesizer, "fit", lambda synthesizer, X: seen.append(X) or 1 / 0)
    rows = moves(30)
    with pytest.raises(ZeroDivisionError):
        panel(domain={"place": list(range(40)), "region": list(range(5))}, max_visits=3).fit(rows)
    ((table,),) = [seen]
    assert "kept region" not in table
    kept = (table["kept place"] == "yes").to_numpy()
    same = rows.sort_values(["person", "day"]).groupby("person")["place"].diff() == 0
    np.testing.assert_array_equal(kept, same.to_numpy())
    with pytest.raises(ValueError, match="'kept ' before them"):
        panel(domain={"place": list(range(40)), "kept place": list(range(5))}).fit(
            rows.rename(columns={"region": "kept place"})
        )
