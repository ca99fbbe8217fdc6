"""The record and the page of a statement: what they say, and that they say nothing private."""

import json
import math
import random
import re
import sys
import warnings
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import (
    DPMarginalSynthesizer,
    DPMean,
    DPStandardScaler,
    NumericPerturber,
    OnFitOnly,
    PrivacyGuarantee,
    PrivacyLedger,
    RandomizedResponseEncoder,
    SecretKey,
    SyntheticResampler,
    privacy_statement,
)
from skdp.privacy import PrivacyStatement
from skdp.privacy.statement import _page
from tests.conftest import each

SCHEMA = json.loads(files("skdp.privacy").joinpath("record.schema.json").read_text(encoding="utf-8"))
VALID = Draft202012Validator(SCHEMA)
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
    return RandomizedResponseEncoder(1.0, categories={"sex": ["F", "M"]}, **options)


class Own(BaseEstimator):
    """A statistic of somebody else."""

    def fit(self, X, y=None):
        self.feature_names_in_ = np.array(X.columns, object)
        self.guarantee_ = PrivacyGuarantee(0.5, trust="central", scope=tuple(X.columns))
        return self


def local(ledger=None):
    parts = [
        ("sex", sex(ledger=ledger), ["sex"]),
        ("pay", NumericPerturber(1.0, bounds=(0, 40), ledger=ledger), ["pay"]),
    ]
    return ColumnTransformer(parts).fit(X)


def open_pipeline(ledger=None):
    """Categories read from the data, a seed, and a column that passes."""
    job = RandomizedResponseEncoder(0.5, random_state=SEED, ledger=ledger)
    parts = [("sex", sex(), ["sex"]), ("job", job, ["job"]), ("rest", "passthrough", ["age"])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ColumnTransformer(parts).fit(X)


def encoded():
    columns = ColumnTransformer([("sex", sex(), ["sex"])]).set_output(transform="pandas")
    return make_pipeline(columns, OneHotEncoder(), LogisticRegression()).fit(X, [0, 1] * 20)


MAKERS = {
    "local": lambda: ColumnTransformer([("sex", sex(), ["sex"])]).fit(X),
    "open": open_pipeline,
    "model": encoded,
    "memoised": lambda: sex(memoize=True, secret_key=SecretKey.generate()).fit(X[["sex"]]),
    "central": lambda: DPStandardScaler(0.7, bounds={"age": (0, 100)}).fit(X[["age"]]),
    "mean": lambda: DPMean(0.7, bounds={"age": (0, 100)}).fit(X[["age"]]),
    "synthetic": lambda: DPMarginalSynthesizer(
        1.0, delta=1e-9, domain={"sex": ["F", "M"]}, max_rows_per_person=3, random_state=SEED
    ).fit(X[["sex"]]),
    "numbered": lambda: RandomizedResponseEncoder(1.0, categories={0: ["F", "M"]}).fit(
        X[["sex"]].set_axis([0], axis="columns")
    ),
    "nothing": lambda: LogisticRegression().fit(X[["age"]], [0, 1] * 20),
    "unfitted": LogisticRegression,
}


@pytest.fixture(params=MAKERS)
def statement(request):
    return privacy_statement(MAKERS[request.param]())


def test_a_statement_comes_back(statement):
    text = statement.to_json()
    VALID.validate(json.loads(text))
    read = PrivacyStatement.from_json(text)
    assert read.to_json() == text
    pd.testing.assert_frame_equal(read.rows, statement.rows, check_dtype=False)
    assert str(read) == str(statement)
    assert read.total == statement.total
    assert read.steps == statement.steps
    assert read.to_html() == statement.to_html()
    assert read._repr_html_() == statement._repr_html_()


def test_all_items_of_an_evaluator_are_answered(statement):
    items = statement.to_dict()["evaluation"]
    assert len(items) == 17
    assert all(one["answer"].endswith(".") for one in items)
    page = statement.to_html()
    assert all(page.count(f'<th scope="row">{one["item"]}</th>') == 1 for one in items)
    of = {one["item"]: one["status"] for one in items}
    assert of["collection of the data"] == of["access to the data"] == of["utility"] == "not covered"
    assert (of["trust model"] == "evidence") == (statement.total is not None)


def test_nothing_private_is_in_a_record_or_on_a_page(tmp_path):
    ledger = PrivacyLedger(tmp_path / "concealed.jsonl", epsilon=9.0)
    ledger.charge(PrivacyGuarantee(1.0, scope=("sex",)), "survey")
    key = SecretKey.generate()
    estimators = [
        open_pipeline(ledger),
        sex(memoize=True, secret_key=key, ledger=ledger).fit(X[["sex"]]),
        NumericPerturber(1.0, bounds=(-17.25, 1234.5), random_state=SEED).fit(X[["age"]]),
    ]
    statement = privacy_statement(estimators, X)
    assert [len(one.report()) for one in statement.ledgers] == [2]
    shown = [
        statement.to_json(),
        statement.to_html(),
        str(statement),
        statement._repr_html_(),
        statement.ledgers[0].to_json(),
    ]
    private = ["secret", str(SEED), "concealed", str(tmp_path), "0.13579", "17.25", "1234.5", '"F"', "'F'", repr(key)]
    for text in shown:
        assert [word for word in private if word in text] == []


def test_what_fit_warned_of_is_said_without_a_value():
    record = privacy_statement(open_pipeline()).to_dict()
    assert record["warnings"] == [
        "The categories of job were read from the data by job: RandomizedResponseEncoder: which values occur is not "
        "protected.",
        "The random bits of these steps come from a seed, NOT SECURE: job: RandomizedResponseEncoder.",
    ]
    assert record["randomness"]["secure"] is False
    assert record["not_covered"][:2] == [
        "job: categories read from the data: released as is, by job: RandomizedResponseEncoder.",
        "age: released as is.",
    ]
    of = {one["item"]: one for one in record["evaluation"]}
    assert of["randomness"]["status"] == of["values read from the data"]["status"] == "not covered"
    assert of["unprotected quantities"]["answer"] == "Not protected: job, age. The number of records is public."
    html = privacy_statement(open_pipeline())._repr_html_()
    assert "The categories of job were read from the data" in html


def test_rows_that_pass_beside_private_statistics_are_not_covered():
    record = privacy_statement(MAKERS["central"]()).to_dict()
    assert record["not_covered"][0] == "age: released as is, beside private statistics, by DPStandardScaler."
    assert record["warnings"] == ["No column has a guarantee."]


def test_the_meaning_of_the_total():
    means = privacy_statement(MAKERS["local"]()).to_dict()["meaning"]
    assert means["protected"] == "the values of sex in each record"
    assert means["largest_ratio"] == pytest.approx(math.e)
    assert means["best_guess"] == pytest.approx(math.e / (1 + math.e))
    assert "at most 74 times in 100" in means["odds"]
    central = privacy_statement(MAKERS["mean"]()).to_dict()["meaning"]
    assert "whether it is in the data" in central["protected"]
    assert "not against the curator" in central["against"]
    assert privacy_statement(MAKERS["nothing"]()).to_dict()["meaning"] is None


def test_the_composition_so_far_is_a_copy_of_the_ledger(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.jsonl", epsilon=9.0)
    pipeline = local(ledger)  # which transforms too
    statement = privacy_statement(pipeline)
    (copied,) = statement.ledgers
    assert copied.report().equals(ledger.report())
    before = statement.to_json()
    pipeline.transform(X)
    assert statement.to_json() == before
    assert len(ledger.report()) == 4
    assert "so far 2 times: epsilon 2 of 9, delta 0 of 0" in before
    assert re.search(r"Charged by 2\s+releases: epsilon 2, delta 0", statement.to_html())
    with pytest.raises(RuntimeError, match="can only be read"):
        copied.charge(PrivacyGuarantee(0.1), "x")


def test_a_ledger_that_cannot_be_read_is_noted(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.jsonl", epsilon=9.0)
    encoder = sex(ledger=ledger).fit(X[["sex"]])
    ledger.path.unlink()
    statement = privacy_statement(encoder)
    assert statement.ledgers == ()
    assert statement.notes[-1] == "The composition so far is not stated: a ledger cannot be read here."


def test_a_class_of_somebody_else_is_named():
    statement = privacy_statement([Own().fit(X[["age"]]), sex().fit(X[["sex"]])], trusted=[Own])
    assert [one.known for one in statement.steps] == [False, True]
    record = statement.to_dict()
    assert record["warnings"] == ["The guarantee of 0: Own is that of its author: it is not a class of skdp."]
    floating = next(one for one in record["evaluation"] if one["item"] == "floating point")
    assert floating["status"] == "partly"
    assert floating["answer"].endswith("Not by skdp, so not answered: 0: Own.")
    alone = privacy_statement(Own().fit(X[["age"]]), trusted=[Own]).to_dict()["evaluation"]
    assert next(one for one in alone if one["item"] == "floating point")["status"] == "not covered"


def test_what_has_no_ledger_and_what_has_no_noise():
    ledger = PrivacyLedger(epsilon=9.0)
    of = evaluated([sex().fit(X[["sex"]]), NumericPerturber(1.0, bounds=(0, 40), ledger=ledger).fit(X[["pay"]])])
    assert of["composition"]["status"] == "partly"
    assert of["composition"]["answer"].endswith("These steps charge no ledger: 0: RandomizedResponseEncoder.")
    assert of["randomness"]["status"] == "evidence"
    assert evaluated(sex(ledger=ledger).fit(X[["sex"]]))["composition"]["status"] == "evidence"
    of = evaluated(MAKERS["nothing"]())
    assert (of["randomness"]["status"], of["composition"]["status"]) == ("not covered", "partly")
    assert of["randomness"]["answer"] == "No step of skdp draws random bits."


def test_a_ledger_of_several_steps_is_stated_once(tmp_path):
    first = PrivacyLedger(tmp_path / "ledger.jsonl", epsilon=9.0)
    again = PrivacyLedger(tmp_path / "ledger.jsonl")
    other = PrivacyLedger(epsilon=9.0)
    encoders = [sex(ledger=one).fit(X[["sex"]]) for one in (first, first, again, other)]
    assert len(privacy_statement(encoders).ledgers) == 2


def test_the_ledger_of_a_part_is_found():
    ledger = PrivacyLedger(epsilon=9.0)
    synthesizer = DPMarginalSynthesizer(1.0, domain={"sex": ["F", "M"], "y": [0, 1]}, ledger=ledger)
    resampler = SyntheticResampler(synthesizer)
    resampler.fit_resample(X[["sex"]], pd.Series([0, 1] * 20, name="y"))
    for estimator in (resampler, OnFitOnly(sex(ledger=ledger)).fit(X[["sex"]])):
        statement = privacy_statement(estimator)
        assert [one.charged for one in statement.steps] == [True]
        assert [one.spent for one in statement.ledgers] == [ledger.spent]


def evaluated(estimator):
    return {one["item"]: one for one in privacy_statement(estimator).to_dict()["evaluation"]}


def test_a_seed_is_said_where_the_attacker_is():
    means = privacy_statement(sex(random_state=SEED).fit(X[["sex"]])).to_dict()["meaning"]
    assert means["against"].startswith("NOT SECURE, only those who do not know the seed: everyone")


def test_versions_are_those_of_the_statement():
    statement = privacy_statement(MAKERS["local"]())
    assert list(statement.versions) == ["skdp", "scikit-learn", "NumPy", "Python"]
    assert statement.versions["NumPy"] == np.__version__
    record = statement.to_dict()
    record["versions"]["NumPy"] = "1.0"
    assert PrivacyStatement.from_json(json.dumps(record)).versions["NumPy"] == "1.0"


def test_names_are_escaped():
    name = "<script>alert(1)</script>"
    table = pd.DataFrame({name: ["F", "M"]})
    encoder = RandomizedResponseEncoder(1.0, categories={name: ["F", "M"]}, ledger=PrivacyLedger(epsilon=5.0)).fit(
        table
    )
    encoder.transform(table)
    statement = privacy_statement(ColumnTransformer([(name, encoder, [name])]).fit(table))
    for shown in (statement.to_html(), statement._repr_html_(), statement.total._repr_html_()):
        assert "<script" not in shown
        assert "&lt;script&gt;" in shown


def test_the_page_loads_nothing():
    page = privacy_statement(open_pipeline()).to_html()
    assert page.startswith("<!DOCTYPE html>")
    assert not re.search(r"https?://|<script|<link (?!rel=\"icon\" href=\"data:)|@import|url\(", page)
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_without_jinja2_all_but_the_page_is_there(monkeypatch):
    _page._template.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    statement = privacy_statement(MAKERS["local"]())
    assert "at most 74 times in 100" in statement._repr_html_()
    with pytest.raises(ImportError, match=r'jinja2 is needed for the page: pip install "skdp\[plot\]"'):
        statement.to_html()


def test_what_follows_from_other_fields_is_written_again():
    record = privacy_statement(open_pipeline()).to_dict()
    told = json.loads(json.dumps(record))
    told |= {"warnings": [], "randomness": {}, "meaning": None, "not_covered": [], "evaluation": []}
    assert PrivacyStatement.from_json(json.dumps(told)).to_dict() == record


@each(
    "place, value, message",
    [
        ("columns", {}, "columns must be an array"),
        ("columns.0", "x", r"columns\[0\] must be an object"),
        ("columns.0.column", None, r"columns\[0\].column must be a string or a whole number"),
        ("columns.0.epsilon", -1, r"columns\[0\].epsilon must be a finite number >= 0"),
        ("columns.0.epsilon", None, r"columns\[0\].epsilon must be given"),
        ("columns.0.delta", 2, r"columns\[0\].delta must be a number in \[0, 1\)"),
        ("columns.0.trust", "nobody", r"columns\[0\].trust must be 'local' or 'shuffle' or 'central'"),
        ("columns.0.value", "F", r"unknown fields of columns\[0\]: 'value'"),
        ("total.scope.0", "age", "total.scope has columns for which no row"),
        ("total.epsilon", math.nan, "total.epsilon must be a finite number"),
        ("steps.0.charged", None, r"steps\[0\].charged must be true or false, got null"),
        ("steps.0.known", "yes", r"steps\[0\].known must be true or false"),
        ("steps.0.guarantee.delta", "0", r"steps\[0\].guarantee.delta must be a number, got a string"),
        ("notes.0", 5, r"notes\[0\] must be a string"),
        ("ledgers", None, "ledgers must be an array, got null"),
        ("ledgers.0", {}, r"ledgers\[0\].budget is missing"),
        ("versions", [], "versions must be an object"),
        ("versions.NumPy", 2, "versions.NumPy must be a string"),
        ("code", "import os", "unknown fields: 'code'"),
    ],
)
def test_what_is_wrong_in_a_statement_is_named(place, value, message):
    content = privacy_statement(MAKERS["local"]()).to_dict()
    content["notes"], content["ledgers"] = ["a"], [{}] if place == "ledgers.0" else []
    inner, *outer = place.split(".")[::-1]
    part = content
    for name in outer[::-1]:
        part = part[int(name) if isinstance(part, list) else name]
    part[int(inner) if isinstance(part, list) else inner] = value
    with pytest.raises(ValueError, match=message):
        PrivacyStatement.from_json(json.dumps(content))


def test_a_damaged_record_is_an_error_or_another_record():
    """Replace, remove and repeat parts of a record: never another error than ValueError."""
    text = privacy_statement(local(PrivacyLedger(epsilon=9.0))).to_json()
    pieces = ["", "null", "-1", "1e999", "NaN", '"', "{", "[]", "true", '"\\ud800"', "99999999999999999999999"]
    draw = random.Random(0)
    read = longest = 0
    for _ in range(50):
        start = draw.randrange(len(text))
        end = min(len(text), start + draw.choice([0, 1, 3, 20, 200]))
        damaged = text[:start] + draw.choice([*pieces, text[start:end] * 2]) + text[end:]
        try:
            made = PrivacyStatement.from_json(damaged)
        except ValueError as error:
            longest = max(longest, len(str(error)))
            continue
        read += 1
        assert PrivacyStatement.from_json(made.to_json()).to_dict() == made.to_dict()
    assert 0 < read < 50
    assert longest < 400


def test_a_step_of_other_columns_may_have_a_larger_epsilon_than_the_total():
    parts = [("sex", sex(), ["sex"]), ("age", DPStandardScaler(5.0, bounds=(0, 100)), ["age"])]
    statement = privacy_statement(ColumnTransformer(parts).fit(X))
    assert statement.total.epsilon == 1
    assert PrivacyStatement.from_json(statement.to_json()).total == statement.total


def test_a_record_has_all_its_fields():
    record = privacy_statement(MAKERS["local"]()).to_json()
    for name in json.loads(record):
        content = json.loads(record)
        del content[name]
        with pytest.raises(ValueError, match=f"{name} is missing"):
            PrivacyStatement.from_json(json.dumps(content))
    for name in json.loads(record)["steps"][0]:
        content = json.loads(record)
        del content["steps"][0][name]
        with pytest.raises(ValueError, match=rf"steps\[0\]\.{name} is missing"):
            PrivacyStatement.from_json(json.dumps(content))


def test_a_total_below_a_step_is_refused():
    content = json.loads(privacy_statement(sex().fit(X[["sex"]])).to_json())
    content["total"]["epsilon"] = 0.01
    with pytest.raises(ValueError, match=r"total.epsilon is smaller than that of a step"):
        PrivacyStatement.from_json(json.dumps(content))
