"""Columns of text outside `domain`: frequent values are found in the same release, and all others are one value."""

import io
import re
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import (
    Domain,
    DPColumnSynthesizer,
    DPHistogram,
    DPLinkedSynthesizer,
    DPMarginalSynthesizer,
    Interval,
    PrivacyLedger,
    RandomizedResponseEncoder,
    SyntheticResampler,
    load,
    save,
)
from skdp.privacy import BudgetExceeded, Rho, largest_mu
from skdp.testing import replay_release
from tests.conftest import often
from tests.errors import refusal

OTHER = "(other)"
N = 3000
rng = np.random.default_rng(0)
JOB = rng.choice(["clerk", "nurse", "cook"], N, p=[0.5, 0.3, 0.2])
PEOPLE = pd.DataFrame(
    {
        "job": JOB.astype(object),
        "ill": np.where(rng.random(N) < 0.1 + 0.7 * (JOB == "nurse"), "yes", "no").astype(object),
        "age": rng.integers(20, 60, N),
        "owns": rng.random(N) < 0.5,
    }
)
AGE = {"age": Interval(16, 96)}
DECLARED = AGE | {"job": ["clerk", "cook", "nurse"], "ill": ["no", "yes"]}


def fit_model(X, *, epsilon=1.0, **given):
    return DPMarginalSynthesizer(epsilon, **{"delta": 1e-6, "random_state": 0} | given).fit(X)


def measure_error(rows, made, names):
    """Return the total variation distance of some columns."""
    first, second = (table[names].astype(str).value_counts(normalize=True) for table in (rows, made))
    return first.sub(second, fill_value=0).abs().sum() / 2


@pytest.mark.parametrize(
    "library", often(["objects", "text", "category", "polars", "lazy", "arrow", "array"], ["category", "lazy", "array"])
)
def test_values_are_found_in_every_library(library):
    texts = ["job", "ill"]
    given = {
        "objects": lambda t: t,
        "text": lambda t: t.astype(dict.fromkeys(texts, "string")),
        "category": lambda t: t.astype(dict.fromkeys(texts, "category")),
        "polars": pl.from_pandas,
        "lazy": lambda t: pl.from_pandas(t).lazy(),
        "arrow": lambda t: pl.from_pandas(t).to_arrow(),
        "array": lambda t: t[texts].to_numpy(),
    }[library](PEOPLE)
    model = fit_model(given)
    first, second = list(model.domain_.columns)[:2]
    assert model.domain_[first].values == ("clerk", "cook", "nurse", OTHER)
    assert model.domain_[second].values == ("no", "yes", OTHER)
    made = model.sample(100)
    if library == "array":
        assert set(made[:, 0]) <= {"clerk", "cook", "nurse", OTHER}
        return
    frame = made if isinstance(made, pd.DataFrame) else pl.DataFrame(made).to_pandas()
    assert set(frame["job"]) <= {"clerk", "cook", "nurse", OTHER}
    assert frame["owns"].dtype == bool
    if library in ("objects", "category"):
        assert made.dtypes.astype(str).tolist() == given.dtypes.astype(str).tolist()


def test_rare_and_missing_values():
    X = PEOPLE[["job", "ill"]].copy()
    X.loc[:4, "job"] = [f"name {i}" for i in range(5)]
    X.loc[5:800, "job"] = None
    X.loc[3, "ill"] = None
    model = fit_model(X, epsilon=4.0)
    assert model.domain_["job"].values == ("clerk", "cook", "nurse", None, OTHER)
    assert model.domain_["ill"].values == ("no", "yes", OTHER)
    counts = model.sample()["job"].value_counts(dropna=False)
    assert counts[None] == pytest.approx(796, abs=60)
    assert counts.get(OTHER, 0) < 60
    with pytest.warns(UserWarning, match=r"No value of columns \['job'\] is frequent enough"):
        rare = fit_model(PEOPLE[["age"]].assign(job=[f"{i}" for i in range(N)]))
    assert set(rare.sample(10)["job"]) == {OTHER}


def test_release_is_charged_once_and_described():
    ledger = PrivacyLedger(2.0, delta=1e-6)
    model = fit_model(PEOPLE[["job", "ill", "age"]], epsilon=2.0, ledger=ledger)
    assert len(ledger.charges()) == 1
    assert (model.guarantee_.epsilon, model.guarantee_.delta, model.guarantee_.rho) == (2.0, 1e-6, None)
    method = dict(model.guarantee_.method)
    assert method["categories"].startswith("job, ill: the values with many rows are found")
    assert method["limits"].startswith("age from ")
    # A fifth for each of two of three columns, with half of delta for the threshold.
    threshold = re.search(r"Gaussian on counts of values that reach (\d+) \(13% of", model.guarantee_.mechanism)
    std = 15**0.5 / largest_mu(2.0, 5e-7)
    bounds = [2 * np.exp(-(((int(threshold[1]) - 1.5 - less) / std) ** 2) / 2) / 2 for less in (0, 1)]
    assert bounds[0] <= 5e-7 < bounds[1]
    with pytest.raises(BudgetExceeded):
        model.fit(PEOPLE)
    declared = fit_model(PEOPLE, domain=DECLARED)
    assert declared.guarantee_.rho > 0
    assert "categories" not in dict(declared.guarantee_.method)


def test_saved_model_keeps_found_values():
    model = fit_model(PEOPLE)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = DPMarginalSynthesizer.load(file)
    assert loaded.domain_ == model.domain_
    assert Domain.from_toml(loaded.domain_.to_toml()) == model.domain_
    assert set(loaded.sample(50)["job"]) <= {"clerk", "cook", "nurse", OTHER}


def test_plan_follows_the_found_values():
    """The target, listed marginals and the workload have the values that were found."""
    model = fit_model(PEOPLE, epsilon=2.0, target="ill")
    assert ("job", "ill") in model.selected_cliques_
    listed = fit_model(PEOPLE, marginals=[("job", "ill"), ("age",), ("owns",)])
    assert listed.marginals_[0].counts.shape == (4, 3)
    assert listed.count_estimate({"job": "nurse", "ill": "yes"}).supported


def test_number_of_values_is_limited_by_max_cells(monkeypatch):
    many = pd.DataFrame({name: np.repeat([f"v{i}" for i in range(60)], 100).astype(object) for name in "abc"})
    limited = fit_model(many[["a", "b"]], epsilon=9.0, max_cells=400)
    assert [len(values) for values in limited.domain_.values()] == [20, 20]
    assert len(fit_model(many[["a"]], epsilon=9.0).domain_["a"]) == 61
    monkeypatch.setattr("skdp.synthesis.measure._plan.MAX_TABLE_CELLS", 1000)
    full = fit_model(many, epsilon=9.0, marginals="full")
    assert [len(values) for values in full.domain_.values()] == [9, 9, 9]


def test_values_that_a_domain_file_declares_as_found():
    domain = Domain.from_toml("[columns.job]\nother = true\n[columns.ill]\nvalues = ['no', 'yes']\n")
    model = fit_model(PEOPLE[["job", "ill"]], domain=domain)
    assert model.domain_["job"].values == ("clerk", "cook", "nurse", OTHER)
    assert (
        DPHistogram(4.0, delta=1e-6, domain=domain, random_state=0).fit(PEOPLE[["job", "ill"]]).domain_ == model.domain_
    )
    assert Domain.from_toml(domain.to_toml()) == domain
    file = io.BytesIO()
    save(DPMarginalSynthesizer(domain=domain), file)
    file.seek(0)
    assert load(file).domain == domain
    with pytest.raises(ValueError, match=r"must declare the values of the columns \['job'\].* or set `delta`"):
        fit_model(PEOPLE[["job", "ill"]], domain=domain, delta=0.0)
    with pytest.raises(ValueError, match=r"Column 'job' must have declared values, got values to be found"):
        RandomizedResponseEncoder(1.0, categories=domain).fit(PEOPLE[["job", "ill"]])
    with pytest.raises(ValueError, match="must declare the values of column 'job', which the constraints"):
        fit_model(PEOPLE[["job", "ill"]], domain=Domain(domain, constraints=["job != '(other)' or ill == 'no'"]))
    nothing = Domain({"job": model.domain_["job"].__class__([])})
    assert fit_model(PEOPLE[["job"]], domain=nothing, delta=0.0).domain_["job"].values == (OTHER,)


class Text(str):
    __slots__ = ()

    def __eq__(self, other):
        raise RuntimeError

    __hash__ = str.__hash__


HOSTILE = [b"x", (1,), [1], {}, 10**5000, 0.5, None, pd.NA, pd.NaT, Text("clerk"), "\ud800", "x" * 10**6, "", OTHER]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
def test_object_of_one_person_changes_neither_domain_nor_errors(value):
    """Such a record causes no warning, which tests turn into an error."""
    column = np.empty(401, object)
    column[:] = ["clerk", "nurse"] * 200 + [value]
    ledger = PrivacyLedger(4.0, delta=1e-6)
    model = fit_model(pd.DataFrame({"job": pd.Series(column, dtype=object)}), epsilon=4.0, ledger=ledger)
    assert model.domain_["job"].values == ("clerk", "nurse", OTHER)
    assert ledger.spent.epsilon == 4.0


@pytest.mark.parametrize(
    ("X", "given", "match"),
    [
        (PEOPLE, {"delta": 0.0}, r"columns \['job', 'ill'\], got none. Declare them, or set `delta` in"),
        (PEOPLE, {"delta": 0.0, "epsilon": Rho(0.3, 1e-6)}, "with a number as epsilon"),
        (PEOPLE, {"handle_unknown": {"job": "clerk"}}, "got 'job', whose values are found"),
        (PEOPLE.assign(job=pd.Timestamp(0)), {}, r"must declare the values of the columns \['job'\]"),
        (PEOPLE.assign(age=PEOPLE["age"].astype("category")), {}, r"of the columns \['age'\]"),
        (PEOPLE.assign(owns=pd.array([True, None] * (N // 2), "boolean")), {}, "'owns' contains missing values"),
        ([["a", 1], ["b", 2]], {}, "must declare the values of the columns"),
    ],
    ids=["no delta", "rho", "replaced", "dates", "categories", "booleans", "rows"],
)
def test_errors_are_raised_before_the_charge(X, given, match):
    with refusal(ValueError, match) as ledger:
        fit_model(X, ledger=ledger, **given)


def test_dates_of_dtype_object_are_other_values():
    with pytest.warns(UserWarning, match=r"No value of columns \['job'\]"):
        fit_model(PEOPLE[["job"]].assign(job=date(2020, 1, 1)))


@pytest.mark.parametrize("k", often([1, 3], [3]))
def test_replayed_neighbors_are_within_epsilon(k):
    """All rows of a person have values that others have; tests of categories enumerate new values."""
    X = PEOPLE[:400]
    rows = pd.concat([X, X.iloc[[5] * k]], ignore_index=True)
    model = DPMarginalSynthesizer(4.0, delta=1e-3, domain=AGE, max_rows_per_person=k)
    replay = replay_release(model.fit, rows, X, random_state=3)
    assert replay.findings == ()
    # Noise has half of delta.
    assert 0.8 < replay.epsilon / replay.guarantee.epsilon <= 0.96


def test_values_of_one_person_are_not_found():
    X = pd.DataFrame({"job": np.repeat(["mine", "ours"], 400).astype(object)})
    person = np.append(np.full(400, -1), np.arange(400))
    model = DPMarginalSynthesizer(4.0, delta=1e-6, max_rows_per_person=2, random_state=0).fit(X, person=person)
    assert model.domain_["job"].values == ("ours", OTHER)
    assert model.guarantee_.unit == "person"


# Other synthesizers.


def test_private_column_of_public_rows():
    ledger = PrivacyLedger(2.0, delta=1e-6, relation="replace_values", columns=["job"])
    model = DPColumnSynthesizer(["job"], 2.0, delta=1e-6, ledger=ledger, random_state=0)
    made = model.fit_transform(PEOPLE)
    assert model.domain_["job"].values == ("clerk", "cook", "nurse", OTHER)
    assert measure_error(PEOPLE, made, ["job", "ill"]) < 0.05
    assert (ledger.spent.epsilon, len(ledger.charges())) == (2.0, 1)
    # A replaced value changes two counts.
    own = DPMarginalSynthesizer(2.0, delta=1e-6, random_state=0).fit(PEOPLE[["job"]])
    reaches = [int(re.search(r"reach (\d+)", fitted.guarantee_.mechanism)[1]) for fitted in (own, model)]
    assert reaches[1] == pytest.approx(2 * reaches[0], rel=0.03)
    replay = replay_release(
        lambda t: model.set_params(ledger=None).fit(t), PEOPLE, PEOPLE.assign(job=["cook", *PEOPLE["job"][1:]])
    )
    assert replay.findings == ()


def test_combinations_of_private_columns_are_limited():
    many = pd.DataFrame({name: rng.choice([f"v{i}" for i in range(90)], 9000) for name in "ab"}).astype(object)
    model = DPColumnSynthesizer(["a", "b"], 50.0, delta=1e-6, random_state=0).fit(many.assign(c=0))
    assert [len(model.domain_[name]) for name in "ab"] == [64, 64]


def test_linked_tables_and_resampler():
    people = PEOPLE[["job"]].assign(id=np.arange(N))
    events = pd.DataFrame({"id": np.repeat(np.arange(N), 2), "ward": np.tile(["a", "b"], N).astype(object)})
    model = DPLinkedSynthesizer(4.0, delta=1e-6, domain={}, person="id", max_rows_per_person=2, random_state=0)
    made, visits = model.fit(people, events).sample(200)
    assert set(made["job"]) <= {"clerk", "cook", "nurse", OTHER}
    assert set(visits["ward"]) <= {"a", "b", OTHER}
    assert dict(model.guarantee_.method)["categories"].startswith("job, ward")
    sampler = SyntheticResampler(synthesizer=DPMarginalSynthesizer(4.0, delta=1e-6, random_state=0))
    _, y = sampler.fit_resample(PEOPLE[["job", "age"]], PEOPLE["ill"])
    assert set(y) <= {"no", "yes", OTHER}
