"""Sentences of a statement for readers who decide about a publication, such as a data protection officer."""

from __future__ import annotations

import html
import json
from importlib.resources import files

import pandas as pd
import pytest
from jsonschema import Draft202012Validator

import skdp
from skdp import PrivacyGuarantee, privacy_statement
from tests.conftest import each

SCHEMA = json.loads(files("skdp.privacy").joinpath("record.schema.json").read_text(encoding="utf-8"))
PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 20, "age": range(40)})
SEX, AGE = PEOPLE[["sex"]], PEOPLE[["age"]]


def sex(**options):
    return skdp.RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]}, **options)


def mean(**options):
    return skdp.DPMean(1.0, bounds=(0, 40), **options)


def charged_ledger(**charge):
    ledger = skdp.PrivacyLedger(epsilon=3.0)
    ledger.charge(PrivacyGuarantee(1.0, scope=("sex",), **charge), "survey")
    return ledger


def read(statement):
    """Return the text, the page and the record of a statement."""
    record = json.loads(statement.to_json())
    Draft202012Validator(SCHEMA).validate(record)
    return str(statement), html.unescape(statement.to_html()), record


SEEDED = {
    "reports": lambda: sex(random_state=0).fit(SEX),
    "mean": lambda: mean(random_state=0).fit(AGE),
    "plan": lambda: mean(random_state=0),
    "one of two": lambda: [sex().fit(SEX), mean(random_state=0).fit(AGE)],
    "ledger": lambda: charged_ledger(secure=False),
}


@each("name", SEEDED)
def test_seeded_statement_has_no_odds(name):
    statement = privacy_statement(SEEDED[name]())
    text, page, record = read(statement)
    warning = (
        "Do not publish. The noise comes from a seed, and whoever knows or guesses it can compute the true result. "
        f"These numbers do not hold: epsilon = {statement.total.epsilon:g}, at most "
    )
    for written in (text, page, record["meaning"]["odds"]):
        assert warning in written
        assert "times as likely" not in written
        assert "times in 100 after" not in written
    assert "correct guesses before the release" not in page.lower()
    assert record["meaning"]["guess_probability"] is None


@each("estimator", [sex().fit(SEX), mean().fit(AGE), charged_ledger()])
def test_secure_statement_has_odds(estimator):
    text, page, record = read(privacy_statement(estimator))
    for written in (text, page):
        assert "Do not publish" not in written
        assert "74 times in 100 after" in written
    assert record["meaning"]["guess_probability"] == pytest.approx(0.7310586)


def test_odds_of_a_seeded_guarantee_have_delta():
    odds = PrivacyGuarantee(1.0, delta=1e-6, secure=False).in_odds()
    assert odds.endswith("do not hold: epsilon = 1, delta = 0.000001, at most 74 correct guesses in 100.")
