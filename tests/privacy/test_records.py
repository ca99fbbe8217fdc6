"""Records of guarantees, ledgers and statements: exact round trips, nothing private, errors that name the cause."""

import html
import json
import math
import operator
import re
import warnings
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression

import skdp
from skdp.privacy import compose
from tests.privacy.conftest import SCHEMA

VALID = Draft202012Validator(SCHEMA)


# Few characters, because Hypothesis needs a second to list all.
TEXTS = st.text('aZ0 "\\\n\x00é\u2028😀')


@given(
    epsilon=st.floats(0, allow_infinity=False, allow_nan=False),
    delta=st.floats(0, 1, exclude_max=True),
    rho=st.none() | st.floats(0, allow_infinity=False, allow_nan=False),
    scope=st.lists(TEXTS | st.integers(-(2**53) + 1, 2**53 - 1)),
    mechanism=TEXTS,
)
@example(0.1, 1e-300, None, ["a", 1, "\u00e9\u2028"], '"<noise>"')
@example(5e-324, math.nextafter(1, 0), 1 / 3, [], "")
@example(1.7976931348623157e308, 0.0, None, [], "")
def test_guarantee_round_trips(epsilon, delta, rho, scope, mechanism):
    guarantee = skdp.PrivacyGuarantee(epsilon, delta=delta, rho=rho, scope=tuple(scope), mechanism=mechanism)
    central = replace(guarantee, relation="add_remove", trust="central", secure=False, max_rows_per_person=3)
    for one in (guarantee, central):
        text = one.to_json()
        assert text.isascii()
        VALID.validate(json.loads(text))
        assert skdp.PrivacyGuarantee.from_json(text) == one
        assert skdp.PrivacyGuarantee.from_json(text).to_json() == text


@pytest.mark.parametrize("text", ["{", "[" * 1_000_000, "[]", " " * ((1 << 24) + 1)])
def test_text_without_a_record_raises_an_error(text):
    with pytest.raises(ValueError, match=r"`text` must (be a JSON object|have at most 16,777,216 characters)"):
        skdp.PrivacyGuarantee.from_json(text)
    with pytest.raises(TypeError, match="`text` must be a str"):
        skdp.PrivacyGuarantee.from_json(text.encode())


SEED = 918273645
X = pd.DataFrame(
    {
        "sex": ["F", "M"] * 20,
        "job": ["clerk in secret", "cook in secret"] * 20,
        "age": np.arange(40.0) + 0.13579,
        "pay": np.arange(40.0),
    }
)


def sex(**options):
    return skdp.RandomizedResponseEncoder(1.0, categories={"sex": ["F", "M"]}, **options)


def open_pipeline(ledger=None):
    """Return a pipeline with categories read from the data, a seed, and a column that passes."""
    job = skdp.RandomizedResponseEncoder(0.5, random_state=SEED, ledger=ledger)
    parts = [("sex", sex(), ["sex"]), ("job", job, ["job"]), ("rest", "passthrough", ["age"])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ColumnTransformer(parts).fit(X)


MAKERS = {
    "open": open_pipeline,
    "central": lambda: skdp.DPStandardScaler(0.7, bounds={"age": (0, 100)}).fit(X[["age"]]),
    "synthetic": lambda: skdp.DPMarginalSynthesizer(
        1.0, delta=1e-9, domain={"sex": ["F", "M"]}, max_rows_per_person=3, random_state=SEED
    ).fit(X[["sex"]]),
    "unfitted": LogisticRegression,
}


DETAILS = {"title": "Survey <2026>", "purpose": "Table 7 of the yearbook", "contact": "data@office.example"}


@pytest.mark.parametrize("make", MAKERS.values())
def test_filed_statement_has_title_purpose_date_and_versions(make):
    statement = skdp.privacy_statement(make(), **DETAILS)
    record = json.loads(statement.to_json())
    VALID.validate(record)
    assert {name: record[name] for name in DETAILS} == DETAILS
    written = record["written"]
    datetime.strptime(written["date"], "%Y-%m-%d")
    assert written["timezone"] == "UTC"
    assert written["skdp"] == skdp.__version__
    assert set(written) == {
        "date",
        "timezone",
        "skdp",
        "python",
        "numpy",
        "scipy",
        "pandas",
        "narwhals",
        "scikit-learn",
    }
    assert record["secure"] == (None if not record["steps"] else all(s["guarantee"]["secure"] for s in record["steps"]))
    page = html.unescape(statement.to_html())
    for text in (str(statement), page):
        for word in (*DETAILS.values(), written["date"], *record["not_covered"], *written.values()):
            assert word in text
        assert ("NOT SECURE" in text) is (record["secure"] is False)


def test_filed_statement_has_the_budgets_of_its_ledgers():
    ledger, other = skdp.PrivacyLedger(3.0, delta=1e-6, relation="replace"), skdp.PrivacyLedger(rho=0.5)
    estimators = [
        sex(ledger=ledger).fit(X[["sex"]]),
        sex(ledger=ledger).fit(X[["sex"]]),
        sex(ledger=other).fit(X[["sex"]]),
    ]
    statement = skdp.privacy_statement(estimators)
    first = {"epsilon": 3.0, "delta": 1e-6, "rho": None, "mu": None, "relation": "replace", "columns": []}
    second = {"epsilon": None, "delta": None, "rho": 0.5, "mu": None, "relation": None, "columns": []}
    assert json.loads(statement.to_json())["ledgers"] == [first, second]
    assert json.loads(skdp.privacy_statement(ledger).to_json())["ledgers"] == [first]
    for text in (str(statement), statement.to_html()):
        assert "epsilon = 3, delta = 0.000001, relation = replace" in text
        assert "rho = 0.5" in text


@pytest.mark.parametrize("name", DETAILS)
def test_detail_of_a_statement_is_text(name):
    for source in (sex(), skdp.PrivacyLedger(1.0)):
        with pytest.raises(TypeError, match=f"`{name}` must be a str, got int"):
            skdp.privacy_statement(source, **{name: 5})


def test_fields_of_the_registry_are_in_the_record():
    """The table of docs/guide/records.md."""
    record = json.loads(skdp.privacy_statement(sex().fit(X[["sex"]])).to_json())
    page = Path(__file__).parents[2].joinpath("docs/guide/records.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*) \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) > 5
    for _, fields in rows:
        for name in re.findall(r"`([a-z_.]+)`", fields):
            content = record
            for part in name.split("."):
                content = content[part]


def test_statement_of_another_version_does_not_follow_the_schema():
    record = json.loads(skdp.privacy_statement(sex().fit(X[["sex"]])).to_json())
    VALID.validate(record)
    assert not VALID.is_valid(record | {"version": 2})


def test_record_and_page_contain_nothing_private(tmp_path):
    ledger = skdp.PrivacyLedger(path=tmp_path / "concealed.jsonl", epsilon=9.0)
    ledger.charge(skdp.PrivacyGuarantee(1.0, scope=("sex",)), "survey")
    key = skdp.SecretKey.generate()
    estimators = [
        open_pipeline(ledger),
        sex(memoize=True, secret_key=key, ledger=ledger).fit(X[["sex"]]),
        skdp.NumericPerturber(1.0, bounds=(-17.25, 1234.5), random_state=SEED).fit(X[["age"]]),
    ]
    statement = skdp.privacy_statement(estimators, X)
    private = ["secret", str(SEED), "concealed", str(tmp_path), "0.13579", "17.25", "1234.5", '"F"', "'F'", repr(key)]
    for text in (statement.to_json(), statement.to_html(), str(statement)):
        assert [word for word in private if word in text] == []


PURE = {"kind": "pure", "count": 1, "epsilon": 1.0, "share": 1.0}
# A field, its new value, and a part of the message.
WRONG = [
    ("format", "skdp-statement", "a JSON object with the format 'skdp-guarantee', got 'skdp-statement'"),
    ("version", 2, r"later version of skdp: skdp \S+ reads version 1, got 2\. Upgrade skdp"),
    ("version", 0, r"earlier version of skdp: skdp \S+ reads version 1, got 0\."),
    ("epsilon", -1.0, r"`epsilon` must be a finite number >= 0, got -1\.0"),
    ("delta", 1, r"`delta` must be a number in \[0, 1\), got 1"),
    ("relation", ["replace"], "`relation` must be one of"),
    ("trust", "x" * 1000, "`trust` must be one of 'local', 'shuffle', 'central', got 'x{39}[.]$"),
    ("scope", "sex", "`scope` must be an array, got str"),
    ("max_rows_per_person", 0, "`max_rows_per_person` must be at least 1, got 0"),
    ("more", 1, "The record must have the fields format, version, epsilon"),
    ("losses", [PURE | {"count": 0}], "`count` must be between 1 and 1099511627776, got 0"),
    ("losses", [PURE | {"share": 2.0}], r"`share` must be in \[0, 1\], got 2"),
    ("losses", [PURE | {"count": 1.5}], "`count` must be an integer, got float"),
    ("losses", [{"kind": "other"}], "`losses` must have a kind of"),
]


@pytest.mark.parametrize(("field", "value", "message"), WRONG)
def test_error_names_the_invalid_field(field, value, message):
    content = json.loads(skdp.PrivacyGuarantee(0.5, rho=0.2, scope=("sex",)).to_json())
    with pytest.raises(ValueError, match=message) as caught:
        skdp.PrivacyGuarantee.from_json(json.dumps(content | {field: value}))
    assert len(str(caught.value)) < 300


def test_guarantee_for_persons_states_its_unit():
    four = skdp.PrivacyGuarantee(1.0, relation="add_remove", trust="central", scope=("sex",), max_rows_per_person=4)
    assert str(four).endswith("central model, adding or removing 4 records' values of: sex")
    # A guarantee for persons with up to 4 records holds for up to 2, and for single records.
    others = [replace(four, max_rows_per_person=rows) for rows in (1, 2, 9)]
    for joined in (operator.add, lambda *pair: compose(pair)):
        assert [joined(four, one).max_rows_per_person for one in others] == [1, 2, 4]
        # A constant release protects everybody.
        assert joined(four, skdp.PrivacyGuarantee(0.0, relation="add_remove")).max_rows_per_person == 4
    assert four.to("replace").max_rows_per_person == 4
    assert str(replace(four, scope=(None, math.nan, "sex"))).endswith("values of: missing, missing, sex")
    for rows in (0, True, 1.5):
        with pytest.raises((TypeError, ValueError), match="`max_rows_per_person` must be "):
            skdp.PrivacyGuarantee(1.0, max_rows_per_person=rows)
