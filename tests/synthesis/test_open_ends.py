"""Open ends in the domain of a synthesizer, and columns that it omits: limits are found in the same release."""

import io
import math
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import Domain, DPColumnSynthesizer, DPLinkedSynthesizer, DPMarginalSynthesizer, Interval, PrivacyLedger
from skdp.privacy import Mu, Rho
from skdp.testing import replay_release
from tests.conftest import diagonal, often, quick_first
from tests.errors import refusal

rng = np.random.default_rng(0)
N = 3000
PEOPLE = pd.DataFrame(
    {
        "age": rng.normal(45, 12, N).clip(16, 95).astype(int),
        "income": rng.lognormal(10.4, 0.7, N),
        "sex": rng.choice(["f", "m"], N),
    }
)
SEX = {"sex": ["f", "m"]}
# Columns that are extreme or small.
HOSTILE = {
    "zeros": [0.0] * 300,
    "one number": [7.5] * 300,
    "huge": [1e300, -1e300] * 100,
    "largest": [sys.float_info.max, -sys.float_info.max] * 100,
    "one huge number": [1e308] + [5.0] * 300,
    "tiny": [1e-300] * 200,
    "infinite": [math.inf] * 100 + [-math.inf] * 100,
    "two clusters": [-1e6] * 150 + [1e6] * 150,
    "one row": [3.0],
    "no row": [],
}


def fit_model(X, *, epsilon=1.0, **parameters):
    return DPMarginalSynthesizer(epsilon, **{"random_state": 0} | parameters).fit(X)


def measure_error(rows, made, name):
    """Return the largest distance of both distribution functions."""
    at = np.unique(rows[name])
    ranks = [np.searchsorted(np.sort(table[name]), at, side="right") / len(table) for table in (rows, made)]
    return np.abs(ranks[0] - ranks[1]).max()


@pytest.mark.parametrize("library", quick_first(2, [pd.DataFrame, pl.LazyFrame, pl.DataFrame]))
def test_rows_have_the_dtypes_of_the_table(library):
    X = PEOPLE if library is pd.DataFrame else library(PEOPLE.to_dict("list"))
    model = fit_model(X, domain=SEX)
    made = model.sample(50)
    assert [str(made[name].dtype).lower() for name in made.columns][:2] == ["int64", "float64"]
    edges = model.domain_["age"].edges
    assert edges[0] <= made["age"].min() <= made["age"].max() <= edges[-1]
    assert all(edge == round(edge) for edge in (edges[0], edges[-1]))


def test_an_array_needs_no_domain():
    made = fit_model(PEOPLE[["age", "income"]].to_numpy()).sample(100)
    assert made.shape == (100, 2)


@pytest.mark.parametrize("epsilon", quick_first(2, [2.0, Rho(0.3, 1e-6), Mu(1.0, 1e-6)]))
def test_limits_are_part_of_one_charge(epsilon):
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-5)
    model = fit_model(PEOPLE, epsilon=epsilon, domain=SEX, ledger=ledger)
    declared = fit_model(PEOPLE[["sex"]], epsilon=epsilon, domain=SEX)
    assert len(ledger.charges()) == 1
    assert (model.guarantee_.epsilon, model.guarantee_.rho) == (declared.guarantee_.epsilon, declared.guarantee_.rho)
    # A third for each of two of three columns.
    assert "noisy counts (22% of the budget); " in model.guarantee_.mechanism
    assert "limits" not in declared.guarantee_.mechanism


def test_saved_model_keeps_found_limits():
    model = fit_model(PEOPLE, domain=SEX)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = DPMarginalSynthesizer.load(file)
    assert loaded.domain_ == model.domain_
    assert len(loaded.sample(10)) == 10


@pytest.mark.filterwarnings("ignore:The limits:UserWarning")
@pytest.mark.parametrize("column", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_columns_give_finite_numbers(column):
    X = pd.DataFrame({"x": np.array(column, float)})
    with np.errstate(all="raise", under="ignore"):
        model = fit_model(X)
        assert np.isfinite(model.sample(100)["x"]).all()
    assert np.isfinite(model.domain_["x"].edges).all()


@pytest.mark.filterwarnings("ignore:The limits:UserWarning")
def test_large_integers_become_floats():
    made = fit_model(pd.DataFrame({"x": [2**62] * 400 + [0] * 400})).sample(100)
    assert made["x"].max() > 2.0**60


@pytest.mark.parametrize(
    ("X", "parameters", "match"),
    [
        (PEOPLE, {}, r"must declare the values of the columns \['sex'\], got none"),
        (PEOPLE, {"domain": {"age": Interval(0, None)}}, r"columns \['sex'\], got none. Declare them, or set"),
        (PEOPLE.assign(age=-1), {"domain": SEX | {"age": Interval(0, None)}}, "domain, 0 to a limit"),
        (PEOPLE, {"domain": SEX | {"income": Interval(0, None)}}, "more decimals than its `Interval` declares"),
        (PEOPLE.assign(income=np.nan), {"domain": SEX}, "Column 'income' contains missing values"),
        (PEOPLE, {"domain": SEX, "handle_unknown": {"age": 3}}, "columns with declared values, got 'age'"),
        (PEOPLE.assign(age=PEOPLE["age"].astype(object)), {"domain": SEX}, r"\['age'\]"),
        (PEOPLE.assign(age=PEOPLE["age"].astype("category")), {"domain": SEX}, r"\['age'\]"),
    ],
    ids=["no domain", "text", "below", "fractions", "missing", "replaced", "objects", "categories"],
)
def test_errors_are_raised_before_the_charge(X, parameters, match):
    with refusal(ValueError, match) as ledger:
        fit_model(X, ledger=ledger, **parameters)


@pytest.mark.usefixtures("few_cells")
@pytest.mark.filterwarnings("ignore:The limits:UserWarning")
@pytest.mark.parametrize(
    ("column", "epsilon"),
    diagonal(quick_first(2, ["two clusters", "one row", "one number", "huge"]), [2.0, Mu(1.0, 1e-6)]),
)
def test_search_spends_its_part_of_the_budget(column, epsilon):
    """A replay without a row has at most the stated loss."""
    X = pd.DataFrame({"x": HOSTILE[column], "y": [0.0] * len(HOSTILE[column])})
    model = DPMarginalSynthesizer(epsilon, domain={"y": [0.0]}, marginals="independent")
    replay = replay_release(model.fit, X, X[1:], random_state=3)
    assert replay.passed, replay.findings


@pytest.mark.filterwarnings("ignore:The limits:UserWarning")
def test_rows_of_a_person_beyond_the_limit_are_not_searched():
    X = pd.DataFrame({"x": [1.0] * 500 + [1e9] * 2000, "id": [*range(500), *[500] * 2000]})
    model = DPMarginalSynthesizer(2.0, random_state=0).fit(X, person="id")
    assert model.domain_["x"].edges[-1] < 1e6


def test_numbers_of_a_target_are_found_and_integers_are_declared():
    X = PEOPLE[["sex"]]
    model = DPMarginalSynthesizer(2.0, domain=SEX, random_state=0).fit(X, PEOPLE["income"])
    assert model.domain_["income"].edges[0] >= 0
    with pytest.raises(ValueError, match=r"must declare the values of the columns \['age'\]"):
        DPMarginalSynthesizer(2.0, domain=SEX).fit(X, PEOPLE["age"])


def make_linked(X, n_events=2):
    """Return people with the last column of a table, and events with the other columns."""
    people = X.iloc[:, -1:].assign(id=np.arange(len(X)))
    rows = np.repeat(np.arange(len(X)), n_events)
    return people, X.iloc[rows, :-1].assign(id=rows).reset_index(drop=True)


def test_limits_of_people_and_events_are_found():
    people, events = make_linked(PEOPLE[["income", "sex", "age"]], 1)
    domain = Domain(SEX | {"age": Interval(), "income": Interval(0.0, None)}, constraints=["income >= age"])
    model = DPLinkedSynthesizer(2.0, domain=domain, person="id", max_rows_per_person=2, random_state=0)
    made_people, made_events = model.fit(people, events).sample()
    assert measure_error(people, made_people, "age") < 0.05
    assert measure_error(events, made_events, "income") < 0.06
    assert "limits by permute-and-flip" in model.guarantee_.mechanism
    assert model.domain_["income"].ends[0] == 0
    assert model.domain_["age"].decimals == 0
    assert "limits" not in model.set_params(domain=model.domain_).fit(people, events).guarantee_.mechanism


def test_limits_of_private_columns_are_found():
    declared = {"age": Interval(0, 120), "income": Interval(0.0, 500_000.0)}
    errors = []
    for domain in ({"age": Interval(0, None)}, declared):
        model = DPColumnSynthesizer(["age", "income"], 2.0, domain=domain, random_state=0)
        made = model.fit_transform(PEOPLE)
        errors.append([measure_error(PEOPLE, made, name) for name in declared])
    assert np.max(errors[0]) < 0.06
    assert "limits" in model.set_params(domain={}).fit(PEOPLE).guarantee_.mechanism


@pytest.mark.filterwarnings("ignore:(The limits|By noisy|The noisy):UserWarning")
@pytest.mark.parametrize("column", often(HOSTILE, ["largest", "one row", "no row"]))
def test_hostile_columns_of_people_events_and_rows_give_finite_numbers(column):
    X = pd.DataFrame({"x": HOSTILE[column], "y": HOSTILE[column]}, dtype=float)
    linked = DPLinkedSynthesizer(domain={}, person="id", max_rows_per_person=2, random_state=0)
    with np.errstate(all="raise", under="ignore"):
        made = linked.fit(*make_linked(X)).sample(50)
        if len(X):  # the number of rows is public
            columns = DPColumnSynthesizer(["x"], domain={}, random_state=0)
            made = (*made, columns.fit_transform(X.assign(y=0.0)))
    assert all(np.isfinite(table.to_numpy(float)).all() for table in made)


@pytest.mark.usefixtures("few_cells")
@pytest.mark.filterwarnings("ignore:(The limits|By noisy|The noisy):UserWarning")
@pytest.mark.parametrize(
    ("column", "epsilon"),
    diagonal(often(["one number", "one row", "huge", "two clusters"], ["one number", "one row"]), [2.0, Mu(1.0, 1e-6)]),
)
def test_search_of_events_spends_its_part_of_the_budget(column, epsilon):
    """A person with two events has one of them in the search."""
    X = pd.DataFrame({"x": HOSTILE[column], "y": HOSTILE[column]})
    _, events = make_linked(X)
    model = DPLinkedSynthesizer(epsilon, domain={}, person="id", max_rows_per_person=2)

    def release(people):
        return model.fit(people, events[events["id"].isin(people["id"])])

    people, _ = make_linked(X)
    replay = replay_release(release, people, people[:-1], random_state=3)
    assert replay.passed, replay.findings


@pytest.mark.usefixtures("few_cells")
@pytest.mark.filterwarnings("ignore:The limits:UserWarning")
@pytest.mark.parametrize(
    ("column", "epsilon"),
    diagonal(quick_first(2, ["one row", "huge", "zeros", "one number", "two clusters"]), [2.0, Mu(1.0, 1e-6)]),
)
def test_search_of_private_columns_spends_its_part_of_the_budget(column, epsilon):
    """A replaced number is removed from a cell and added to another one."""
    X = pd.DataFrame({"x": np.array(HOSTILE[column], float), "y": 0.0})
    model = DPColumnSynthesizer(["x"], epsilon, domain={})
    for number in (0.0, 5.0, 1e300):
        replay = replay_release(model.fit, X, X.assign(x=[number, *X["x"][1:]]), random_state=3)
        assert replay.passed, replay.findings
        assert replay.guarantee.relation == "replace_values"
