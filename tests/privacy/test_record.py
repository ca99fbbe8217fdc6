"""Records of guarantees and ledgers: exact round trips, and clear errors about what others wrote."""

import json
import math
import operator
import pickle
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError

from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger
from skdp.privacy import GaussianLoss, LaplaceLoss, PrivacyStatement, PureLoss, compose
from tests.conftest import each

SCHEMA = json.loads(files("skdp.privacy").joinpath("record.schema.json").read_text(encoding="utf-8"))
VALID = Draft202012Validator(SCHEMA)
GUARANTEES = [
    PrivacyGuarantee(1.0),
    PrivacyGuarantee(0.1, 1e-300, relation="add_remove", trust="central", scope=("a", 1, "é\u2028"), secure=False),
    PrivacyGuarantee(5e-324, math.nextafter(1, 0), mechanism='"<noise>"', rho=1 / 3),
    PrivacyGuarantee(1.7976931348623157e308),
    PrivacyGuarantee(1.0, max_rows_per_person=np.int64(3)),
]


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


@each("guarantee", GUARANTEES)
def test_a_guarantee_comes_back(guarantee):
    text = guarantee.to_json()
    assert text.isascii()
    VALID.validate(json.loads(text))
    assert PrivacyGuarantee.from_json(text) == guarantee
    assert json.loads(text) == guarantee.to_dict()


@given(
    epsilon=st.floats(0, allow_infinity=False, allow_nan=False),
    delta=st.floats(0, 1, exclude_max=True),
    rho=st.none() | st.floats(0, allow_infinity=False, allow_nan=False),
    scope=st.lists(st.text() | st.integers(-(2**53) + 1, 2**53 - 1)),
    mechanism=st.text(),
)
def test_any_guarantee_comes_back(epsilon, delta, rho, scope, mechanism):
    guarantee = PrivacyGuarantee(epsilon, delta, rho=rho, scope=tuple(scope), mechanism=mechanism)
    text = guarantee.to_json()
    assert PrivacyGuarantee.from_json(text).to_json() == text
    assert PrivacyGuarantee.from_json(text) == guarantee


def test_names_that_json_cannot_hold_become_text():
    scope = (("a", 1), 2**60, True, "\ud800", None)
    assert PrivacyGuarantee(1.0, scope=scope).to_dict()["scope"] == ["('a', 1)", str(2**60), "True", "?", "None"]


def test_whole_numbers_of_other_languages_are_read():
    text = PrivacyGuarantee(1.0).to_json().replace("1.0", "1").replace("0.0", "0")
    read = PrivacyGuarantee.from_json(text)
    assert read == PrivacyGuarantee(1.0)
    assert isinstance(read.epsilon, float)


CHANGES = [
    ("format", "skdp-ledger", "format must be 'skdp-guarantee', got 'skdp-ledger'"),
    ("version", 2, "version must be 1.*got 2"),
    ("version", "1", "version must be 1.*got '1'"),
    ("version", True, "version must be 1.*got True"),
    ("epsilon", -1.0, r"epsilon must be a finite number >= 0, got -1\.0"),
    ("epsilon", "1", "epsilon must be a number, got a string"),
    ("epsilon", None, "epsilon must be a number, got null"),
    ("epsilon", True, "epsilon must be a number, got true or false"),
    ("epsilon", math.nan, "epsilon must be a finite number >= 0, got nan"),
    ("epsilon", math.inf, "epsilon must be a finite number >= 0, got inf"),
    ("epsilon", 10**400, "epsilon must be a finite number >= 0, got inf"),
    ("delta", 1, r"delta must be a number in \[0, 1\), got 1"),
    ("delta", math.nan, r"delta must be a number in \[0, 1\), got nan"),
    ("rho", -0.5, "rho must be a finite number >= 0"),
    ("relation", "other", "relation must be 'replace' or 'add_remove', got 'other'"),
    ("relation", ["replace"], "relation must be .* got an array"),
    ("trust", "x" * 1000, "trust must be 'local' or 'shuffle' or 'central', got 'x{40}'$"),
    ("scope", "sex", "scope must be an array, got a string"),
    ("scope", ["sex", 1.5], r"scope\[1\] must be a string or a whole number, got a number"),
    ("scope", [["sex"]], r"scope\[0\] must be a string or a whole number, got an array"),
    ("scope", [True], r"scope\[0\] must be a string or a whole number, got true or false"),
    ("mechanism", 5, "mechanism must be a string, got a number"),
    ("mechanism", "\ud800", "mechanism must be a string of Unicode characters"),
    ("secure", 1, "secure must be true or false, got a number"),
    ("more", 1, "unknown fields: 'more'"),
]


@each("name, value, message", CHANGES)
def test_what_is_wrong_is_named(name, value, message):
    content = PrivacyGuarantee(0.5, rho=0.2, scope=("sex",)).to_dict() | {name: value}
    with pytest.raises(ValueError, match=message) as caught:
        PrivacyGuarantee.from_json(json.dumps(content))
    assert len(str(caught.value)) < 200
    finite = not isinstance(value, float) or math.isfinite(value)
    if finite and value != "\ud800":  # a validator does not look at these
        with pytest.raises(ValidationError):
            VALID.validate(content | ({"epsilon": -1.0} if value == 10**400 else {}))


def test_a_record_has_all_its_fields():
    known = PrivacyGuarantee(1.0, losses=(PureLoss(1.0, 0.5), LaplaceLoss(0.5, 7, count=3), GaussianLoss(0.1)))
    content = known.to_dict()
    assert PrivacyGuarantee.from_json(json.dumps(content)) == known
    ledger = PrivacyLedger(epsilon=2.0)
    ledger.charge(known, "a release")
    for name in content:
        with pytest.raises(ValueError, match=f"{name} is missing"):
            PrivacyGuarantee.from_json(json.dumps({key: value for key, value in content.items() if key != name}))
    for name in json.loads(ledger.to_json())["budget"]:
        record = json.loads(ledger.to_json())
        del record["budget"][name]
        with pytest.raises(ValueError, match=f"budget.{name} is missing"):
            PrivacyLedger.from_json(json.dumps(record))


@each(
    "loss message",
    [
        ({"kind": "pure", "count": 1, "epsilon": 1.0}, r"losses\[0\].share is missing"),
        (
            {"kind": "pure", "count": 0, "epsilon": 1.0, "share": 1.0},
            r"losses\[0\].count must be a whole number from 1",
        ),
        ({"kind": "pure", "count": 1, "epsilon": 1.0, "share": 2.0}, r"share must be a number in \[0, 1\], got 2"),
        (
            {"kind": "pure", "count": 1, "epsilon": -1.0, "share": 1.0},
            r"losses\[0\].epsilon must be a finite number >= 0",
        ),
        ({"kind": "magic", "count": 1}, r"losses\[0\].kind must be 'stated' or 'pure'"),
        ({"kind": "laplace", "count": 1, "epsilon": 1.0, "sensitivity": 0}, r"losses\[0\].sensitivity must be a whole"),
        (
            {"kind": "laplace", "count": 1, "epsilon": 1.0, "sensitivity": 1.5},
            r"losses\[0\].sensitivity must be a whole",
        ),
        ({"kind": "gaussian", "count": 1, "mu": 1e200}, "mu must be at most"),
        (
            {"kind": "stated", "count": 1, "epsilon": 1.0, "delta": 1.0, "rho": None},
            r"losses\[0\].delta must be a number",
        ),
    ],
)
def test_impossible_losses_are_refused(loss, message):
    content = PrivacyGuarantee(1.0).to_dict() | {"losses": [loss]}
    with pytest.raises((ValueError, TypeError), match=message):
        PrivacyGuarantee.from_json(json.dumps(content))


def test_too_many_losses_are_refused():
    many = [{"kind": "gaussian", "count": 1, "mu": 1 / (i + 1)} for i in range(5000)]
    with pytest.raises(ValueError, match="losses must have at most 4,096 items"):
        PrivacyGuarantee.from_json(json.dumps(PrivacyGuarantee(1.0).to_dict() | {"losses": many}))


@each("name", [name for name in PrivacyGuarantee(1.0).to_dict() if name != "losses"])
def test_what_is_missing_is_named(name):
    content = PrivacyGuarantee(1.0).to_dict()
    del content[name]
    with pytest.raises(ValueError, match=f"{name} is missing"):
        PrivacyGuarantee.from_json(json.dumps(content))


@each(
    "text, message",
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[" * 1_000_000, "no JSON"),
        ('{"a": ' * 100_000, "no JSON"),
        ("[]", "the record must be an object, got an array"),
        ("null", "the record must be an object, got null"),
        ('{"format": "skdp-guarantee", "format": "x"}', "'format' is there twice"),
        ('{"format": "skdp-guarantee", "version": 1, "epsilon": 1e999}', "epsilon must be a finite number"),
        ('{"format": "skdp-guarantee", "version": 1, "epsilon": ' + "9" * 1_000_000 + "}", "epsilon must be a finite"),
    ],
)
@each("kind", [PrivacyGuarantee, PrivacyLedger, PrivacyStatement])
def test_what_is_no_record(text, message, kind):
    if kind is PrivacyGuarantee or "guarantee" not in text:
        with pytest.raises(ValueError, match=message):
            kind.from_json(text)
    with pytest.raises(ValueError, match="at most 67,108,864 characters"):
        kind.from_json(LONG)
    with pytest.raises(TypeError, match="text must be a str, got bytes"):
        kind.from_json(b"{}")


LONG = " " * ((1 << 26) + 1)


@pytest.fixture
def ledger(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.jsonl", epsilon=0.3, delta=1e-6)
    ledger.charge(PrivacyGuarantee(0.1, scope=("sex", 2)), "a survey")
    ledger.charge(PrivacyGuarantee(0.05, 1e-8, relation="add_remove", trust="central", rho=0.01), "<b>")
    ledger.charge(PrivacyGuarantee(0.1, secure=False), "a survey")
    return ledger


def test_a_ledger_comes_back_and_cannot_be_charged(ledger, tmp_path):
    text = ledger.to_json()
    VALID.validate(json.loads(text))
    assert str(tmp_path) not in text + ledger._repr_html_()
    read = PrivacyLedger.from_json(text)
    assert read.to_json() == text
    assert read.report().equals(ledger.report())
    assert (read.spent, read.remaining(), read.relation) == (ledger.spent, ledger.remaining(), "replace")
    assert read.path is None
    for one in (read, pickle.loads(pickle.dumps(read))):
        with pytest.raises(RuntimeError, match="can only be read"):
            one.charge(PrivacyGuarantee(1e-9), "again")
        assert one.to_json() == text
    assert read._repr_html_() == ledger._repr_html_()


@pytest.mark.parametrize("relation", [None, "add_remove"])
def test_a_ledger_without_charges_comes_back(relation):
    ledger = PrivacyLedger(epsilon=1.0, relation=relation)
    read = PrivacyLedger.from_json(ledger.to_json())
    assert (read.relation, len(read.report())) == (relation, 0)
    VALID.validate(ledger.to_dict())


def test_the_record_stays_as_it_is_when_the_ledger_is_charged(ledger):
    before = ledger.to_dict()
    with pytest.raises(BudgetExceeded):
        ledger.charge(PrivacyGuarantee(1.0), "too much")
    assert ledger.to_dict() == before


@each(
    "place, value, message",
    [
        ("budget.epsilon", 0, "budget.epsilon must be a finite number > 0"),
        ("budget.epsilon", 0.2, "charges spend more than the budget"),
        ("budget.relation", "add_remove", r"charges\[0\].relation is another one than that of the budget"),
        ("budget.more", 1, "unknown fields of budget: 'more'"),
        ("budget", [], "budget must be an object, got an array"),
        ("spent.epsilon", 0.1, "spent is not the sum of the charges"),
        ("spent.delta", math.nan, "spent.delta must be a finite number"),
        ("charges", {}, "charges must be an array, got an object"),
        ("charges.0", 5, r"charges\[0\] must be an object, got a number"),
        ("charges.1.epsilon", 0.01, r"charges\[1\].epsilon or its delta is less than its guarantee states"),
        ("charges.1.guarantee.epsilon", -1, r"charges\[1\].guarantee.epsilon must be a finite number"),
        ("charges.1.guarantee.scope.0", 0.5, r"charges\[1\].guarantee.scope\[0\] must be a string"),
        ("charges.0.relation", "add_remove", r"charges\[0\].guarantee cannot be in the relation of its charge"),
        ("charges.0.what", None, r"charges\[0\].what must be a string, got null"),
        ("charges.0.time", "yesterday", r"charges\[0\].time must be a time with its offset"),
        ("charges.0.time", "2027-01-31T12:00:00", r"charges\[0\].time must be a time with its offset"),
        ("charges.0.time", "0001-01-01T00:00:00+00:00", r"charges\[0\].time must be a time with its offset"),
        ("charges.0.time", 5, r"charges\[0\].time must be a time with its offset"),
        ("charges.0.path", "x", r"unknown fields of charges\[0\]: 'path'"),
    ],
)
def test_what_is_wrong_in_a_ledger_is_named(ledger, place, value, message):
    content = ledger.to_dict()
    content["charges"][1]["guarantee"]["scope"] = ["a"]
    inner, *outer = place.split(".")[::-1]
    part = content
    for name in outer[::-1]:
        part = part[int(name) if isinstance(part, list) else name]
    part[int(inner) if isinstance(part, list) else inner] = value
    with pytest.raises(ValueError, match=message):
        PrivacyLedger.from_json(json.dumps(content))


@pytest.mark.long
def test_many_charges_are_read_soon():
    ledger = PrivacyLedger(epsilon=1e6)
    for _ in range(2_000):
        ledger.charge(PrivacyGuarantee(0.1), "survey")
    read = PrivacyLedger.from_json(ledger.to_json())
    assert read.spent.epsilon == 200.0


def test_a_guarantee_for_persons_says_so(tmp_path):
    four = PrivacyGuarantee(1.0, relation="add_remove", trust="central", scope=("sex",), max_rows_per_person=4)
    assert str(four).endswith("central model, adding or removing one person's values, in up to 4 records, of: sex")
    assert str(replace(four, scope=(), relation="replace")).endswith("replacing one person with up to 4 records")
    assert "whether a person is in the data" in four.in_odds()
    assert "one person with up to 4 records added or removed" in four._repr_html_()
    assert PrivacyGuarantee(1.0).to_dict()["max_rows_per_person"] == 1
    # A guarantee for persons of up to 4 records is one for those of up to 2, and for single records.
    others = [replace(four, max_rows_per_person=rows) for rows in (1, 2, 9)]
    for joined in (operator.add, operator.or_, lambda *pair: compose(pair)):
        assert [joined(four, one).max_rows_per_person for one in others] == [1, 2, 4]
        # What reveals nothing protects everybody.
        assert joined(four, PrivacyGuarantee(0.0, relation="add_remove")).max_rows_per_person == 4
    assert four.to("replace").max_rows_per_person == 4
    for rows in (0, True, 1.5, None):
        with pytest.raises(ValueError, match="max_rows_per_person must be a whole number >= 1, got"):
            PrivacyGuarantee(1.0, max_rows_per_person=rows)
    PrivacyLedger(tmp_path / "ledger", epsilon=2.0).charge(four, "a release")
    assert [one.guarantee for one in PrivacyLedger(tmp_path / "ledger")._book.charges()] == [four]
