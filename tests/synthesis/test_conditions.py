"""Rows that are drawn given conditions: exactly as the model, without a charge, and mistakes."""

from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import chi2

from skdp import Domain, DPMarginalSynthesizer, Interval, PrivacyLedger

rng = np.random.default_rng(0)
N = 4000
SEX = rng.choice(["f", "m"], N, p=[0.3, 0.7])
JOB = np.where(rng.random(N) < 0.6, SEX, rng.choice(["a", "b", "f", "m"], N))
PEOPLE = pd.DataFrame(
    {
        "sex": SEX,
        "job": JOB,
        "ill": rng.random(N) < 0.2 + 0.5 * (JOB == "a"),
        "age": (35 + 10 * (SEX == "f") + rng.normal(0, 8, N)).clip(18, 79).round().astype(int),
        "income": (rng.lognormal(1, 0.5, N) * (1 + (SEX == "m"))).clip(0, 20),
    }
)
DOMAIN = Domain(
    {
        "sex": ["f", "m"],
        "job": ["a", "b", "f", "m"],
        "ill": [False, True],
        "age": Interval(18, 79),
        "income": Interval(0.0, 20.0),
    }
)
LEDGER = PrivacyLedger(4.0, delta=1e-6)


def fit_model(X=PEOPLE, domain=DOMAIN, **given):
    return DPMarginalSynthesizer(4.0, **{"delta": 1e-6, "domain": domain, "random_state": 0} | given).fit(X)


@pytest.fixture(scope="module")
def model():
    return fit_model(ledger=LEDGER)


@pytest.fixture(scope="module")
def drawn(model):
    return model.sample(100_000)


def select(rows, conditions):
    """Return the rows that fulfill conditions."""
    keep = np.ones(len(rows), bool)
    for name, condition in conditions.items():
        if isinstance(condition, tuple):
            keep &= rows[name].between(*condition, inclusive="left")
        else:
            keep &= rows[name].isin(np.atleast_1d(condition))
    return rows[keep]


CONDITIONS = [
    {"sex": "f"},
    {"sex": "f", "job": ["a", "m"], "ill": True},
    {"age": (40, 43)},
    {"income": (2.5, 4.0), "sex": "m"},
    {"age": (30, 51), "income": (1.3, 9.9), "ill": False},
]


@pytest.mark.parametrize("conditions", CONDITIONS, ids=str)
def test_rows_are_distributed_as_selected_rows(model, drawn, conditions):
    made, selected = model.sample(10_000, conditions=conditions), select(drawn, conditions)
    assert len(select(made, conditions)) == len(made) == 10_000
    cells = [
        table.assign(age=table["age"] // 6, income=table["income"] // 1.5).value_counts().rename(name)
        for name, table in (("made", made), ("selected", selected))
    ]
    counts = pd.concat(cells, axis=1).fillna(0)
    expected = counts.sum(axis=1) / counts.to_numpy().sum()
    counts, expected = counts[expected > 2e-4], expected[expected > 2e-4]
    # Stratified draws vary less than independent ones.
    statistic = sum(
        ((counts[n] - expected * len(t)) ** 2 / (expected * len(t))).sum()
        for n, t in (("made", made), ("selected", selected))
    )
    assert chi2.sf(statistic, len(counts)) > 1e-6


def test_range_that_ends_within_a_bin_has_its_part_of_the_bin(model, drawn):
    edges = model.domain_["income"].edges
    limits = (edges[2] * 0.7 + edges[3] * 0.3, edges[4])
    made = model.sample(40_000, conditions={"income": limits})
    expected = (select(drawn, {"income": limits})["income"] < edges[3]).mean()
    assert (made["income"] < edges[3]).mean() == pytest.approx(expected, abs=0.02)


def test_model_given_conditions_is_exact(model):
    weights = {0: np.array([0.0, 1.0]), 1: np.array([1.0, 0.0, 0.0, 1.0])}
    fitted = model.model_
    given = fitted.condition({(column,): weight for column, weight in weights.items()})
    for columns in ([2], [1, 3], [0, 1, 2], [3, 4]):
        axes = [*columns, *(c for c in (0, 1) if c not in columns)]
        joint = fitted.marginal(axes)
        for column, weight in weights.items():
            joint = joint * weight.reshape([-1 if c == column else 1 for c in axes])
        joint = joint.sum(axis=tuple(range(len(columns), len(axes))))
        np.testing.assert_allclose(given.marginal(columns), joint / joint.sum(), atol=1e-12)
    assert fitted.marginal([0])[0] > 0.2  # unchanged


def test_number_of_rows_is_the_estimated_count_and_nothing_is_charged(model):
    conditions = {"sex": "f", "age": (30, 45)}
    assert len(model.sample(conditions=conditions)) == round(model.count(conditions))
    assert len(model.sample(0, conditions=conditions)) == 0
    assert len(LEDGER.charges()) == 1
    assert not model.sample(50, conditions={"sex": "f"}).equals(model.sample(50, conditions={"sex": "f"}))
    assert model.sample(50, conditions={}).shape == (50, 5)


@pytest.mark.parametrize(
    ("conditions", "match"),
    [
        ({"sexx": "f"}, "`conditions` must name columns of the model"),
        ({"sex": "x"}, "The condition on column 'sex' must list declared values"),
        ({"age": 30}, "which has bins, must be a range"),
        ({"age": (90, 95)}, "got conditions that no row fulfills together"),
        ({"sex": []}, "no row fulfills together"),
        ("sex", "`conditions` must be a mapping"),
        ({"age": ("a", None)}, "must be numbers or None"),
    ],
)
def test_mistakes(model, conditions, match):
    with pytest.raises((TypeError, ValueError), match=match):
        model.sample(5, conditions=conditions)
    with pytest.raises((TypeError, ValueError), match="`n_samples`"):
        model.sample(-1, conditions={"sex": "f"})


def test_constraints_hold_for_given_rows():
    domain = Domain(DOMAIN, constraints=["sex == 'm' or age >= 30", "job != 'a' or ill == True"])
    X = PEOPLE[domain.check_constraints(PEOPLE)]
    constrained = fit_model(X, domain)
    made = constrained.sample(3000, conditions={"sex": "f", "age": (None, 40), "job": "a"})
    assert (made["age"] >= 30).all()
    assert (made["age"] < 40).all()
    assert made["ill"].all()
    bounded = Domain(DOMAIN, constraints=["age <= 20 * income"])
    X = PEOPLE[bounded.check_constraints(PEOPLE)]
    made = fit_model(X, bounded).sample(3000, conditions={"sex": "f", "income": (1.8, 2.05)})
    assert made["income"].between(1.8, 2.05).all()
    assert (made["age"] <= 20 * made["income"]).all()
    with pytest.raises(ValueError, match=r"constraints and conditions must be|fulfills together"):
        constrained.sample(20, conditions={"sex": "f", "age": (18, 25)})


def test_dates_missing_and_found_values_are_conditions():
    days = pd.Series([date(2024, 1, 1), date(2024, 3, 1), date(2024, 6, 1), None] * 500, dtype=object)
    X = pl.DataFrame({"day": pl.Series(days.tolist(), dtype=pl.Date), "job": ["a", "b", "a", "c"] * 500})
    span = Interval(date(2024, 1, 1), date(2024, 12, 31), missing=True)
    model = DPMarginalSynthesizer(4.0, delta=1e-6, domain={"day": span}, random_state=0).fit(X)
    made = model.sample(200, conditions={"day": (datetime(2024, 2, 20), date(2024, 3, 2)), "job": ["a", "b"]})
    assert made["day"].min() >= date(2024, 2, 20)
    assert made["day"].max() <= date(2024, 3, 1)
    assert model.sample(200, conditions={"day": None})["day"].null_count() == 200
    assert model.sample(200, conditions={"day": (None, None)})["day"].null_count() == 0
    with pytest.raises(ValueError, match="must list declared values"):
        model.sample(5, conditions={"job": "unknown"})
    assert model.sample(5, conditions={"job": "(other)"})["job"].to_list() == ["(other)"] * 5
