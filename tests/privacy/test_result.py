"""Sentences of a statement for readers who decide about a publication, such as a data protection officer."""

import html
import json
import math
import re

import pandas as pd
import pytest
from jsonschema import Draft202012Validator
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import skdp
from skdp import PrivacyGuarantee, privacy_statement
from tests.privacy.conftest import SCHEMA

PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 20, "age": range(40)})
SEX, AGE = PEOPLE[["sex"]], PEOPLE[["age"]]


def sex(**options):
    return skdp.RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]}, **options)


def mean(**options):
    return skdp.DPMean(1.0, bounds=(0, 40), **options)


def charged_ledger(**charge):
    values = {"relation": "replace_values", "columns": ["sex"]}
    ledger = skdp.PrivacyLedger(epsilon=3.0, **(values if charge.get("relation") == "replace_values" else {}))
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


@pytest.mark.parametrize("name", SEEDED)
def test_seeded_statement_has_no_odds(name):
    statement = privacy_statement(SEEDED[name]())
    text, page, record = read(statement)
    warning = (
        "Do not publish. The noise comes from a seed, and whoever knows or guesses it can compute the true result."
    )
    for written in (text, page, record["meaning"]["odds"]):
        assert warning in written
        assert "times in 100" not in written
    assert "correct guesses before the release" not in page.lower()
    assert record["meaning"]["guess_probability"] is None
    assert record["meaning"]["true_positive_rates"] is None


@pytest.mark.parametrize("estimator", [sex().fit(SEX), charged_ledger()])
def test_secure_statement_has_odds(estimator):
    text, page, record = read(privacy_statement(estimator))
    for written in (text, page):
        assert "Do not publish" not in written
        assert "After the release, a guess is right at most 73.2 times in 100; " in written
        assert "with 1 false alarm in 100, an attack detects at most 2.8 of 100." in written
    assert "at most 0.3 in 100 at a false positive rate of 0.001." in page
    assert record["meaning"]["guess_probability"] == pytest.approx(0.7310586)
    assert record["meaning"]["true_positive_rates"] == pytest.approx({"0.01": 0.02718282, "0.001": 0.002718282})


def test_odds_of_a_mean_follow_from_its_losses():
    """The noise of the count and of the sum is for large integers, so it reveals less than epsilon allows."""
    text, page, record = read(privacy_statement(mean().fit(AGE)))
    probability = record["meaning"]["guess_probability"]
    assert 0.5 < probability < 0.7
    for written in (text, page):
        assert f"right at most {math.ceil(1000 * probability) / 10} times in 100; " in written


def test_trust_of_each_charge_is_stated():
    ledger = charged_ledger()
    ledger.charge(PrivacyGuarantee(0.5, relation="add_remove", trust="central", scope=("age",)), "mean")
    statement = privacy_statement(ledger)
    trusted = (
        "for survey (sex), only the process that randomizes each record; for mean (age), the curator. "
        "The total is stated for the weaker, central model"
    )
    text, page, record = read(statement)
    assert f"Trusted: {trusted}.\n" in text
    assert f"{trusted}." in page
    assert record["meaning"]["trusted"] == f"{trusted}."
    assert record["meaning"]["trust_model"] == "central model"
    assert [row["trust"] for row in record["columns"]] == ["local", "central"]
    assert page.count('<td data-name="trust">local</td>') == 1
    assert page.count('<td data-name="trust">central</td>') == 1


def test_equal_charges_of_a_ledger_are_one_row_of_the_page():
    """Twelve months of one table had 60 rows and 2,500 words; the record keeps the facts of each column."""
    ledger = skdp.PrivacyLedger(20.0)
    names = ["region", "sex", "job", "age", "income"]
    for month in range(1, 13):
        charge = PrivacyGuarantee(1.0, relation="add_remove", trust="central", scope=tuple(names), mechanism="Laplace")
        ledger.charge(charge, f"month {month}")
    # Another number of columns, or another epsilon, has a row of its own.
    for epsilon, scope in [(1.0, names[:3]), (0.5, names)]:
        other = PrivacyGuarantee(epsilon, relation="add_remove", trust="central", scope=tuple(scope))
        ledger.charge(other, f"survey of {len(scope)}")
    statement = privacy_statement(ledger)
    text, page, record = read(statement)
    assert len(record["columns"]) == len(statement.rows) == 12 * 5 + 3 + 5
    _, *rows = re.findall("<tr>.*?</tr>", page.partition("<h2>Each column</h2>")[2], re.DOTALL)
    months = "each of month 1, ..., month 12 (12 releases)"
    for row, columns, steps in zip(
        rows, [names, names[:3], names], [months, "survey of 3", "survey of 5"], strict=True
    ):
        assert f'<th scope="row">{", ".join(columns)}</th>' in row
        assert f'<td data-name="step">{steps}</td>' in row
    for written in (text, re.sub("<style.*</style>|<[^>]*>", " ", page, flags=re.DOTALL)):
        assert len(written.split()) < 650
    for shown in (text, statement._repr_html_()):
        assert shown.count("as charged") == 3
        assert months in shown
    assert "sum of n equal charges" not in text


def test_epsilon_of_equal_charges_is_stated_as_it_is_shown():
    """It was called the sum beside the epsilon of one release."""
    charge = PrivacyGuarantee(0.1, relation="add_remove", trust="central", scope=("age",))
    rows, notes = {}, {}
    for titles in (["table"] * 12, list(map(str, range(12)))):
        ledger = skdp.PrivacyLedger(1.2)
        for title in titles:
            ledger.charge(charge, title)
        statement = privacy_statement(ledger)
        rows[titles[0]] = re.search(r"as charged +(\S+) +0 +(.*)", str(statement)).groups()
        notes[titles[0]] = any('The epsilon beside "n times" is for n equal' in note for note in statement.notes)
    assert rows == {"table": ("1.2", "table, 12 times"), "0": ("0.1", "each of 0, ..., 11 (12 releases)")}
    assert notes == {"table": True, "0": False}


def test_trust_of_each_estimator_is_stated():
    trusted = read(privacy_statement([sex().fit(SEX), mean().fit(AGE)]))[2]["meaning"]["trusted"]
    assert trusted.startswith("for 0: RandomizedResponseEncoder (sex), only the process that randomizes each record; ")
    assert "for 1: DPMean (age), the curator. The total is stated for the weaker, central model" in trusted


def test_trust_ignores_charges_without_a_loss():
    ledger = charged_ledger()
    ledger.charge(PrivacyGuarantee(0.0, relation="add_remove", trust="central", scope=("age",)), "declared")
    assert "Trusted: only the process that randomizes each record. Whoever" in str(privacy_statement(ledger))


def test_local_statement_names_the_trusted_party():
    text, page, _ = read(privacy_statement(sex().fit(SEX)))
    trusted = (
        "only the process that randomizes each record. Whoever receives reports, including the collector, need not be "
        "trusted."
    )
    assert trusted in page
    assert f"Trusted: {trusted}\n" in text


UNITS = {
    "one record": (
        {},
        "one record. A person with more records is protected less",
        "bounded: the number of records is not protected",
    ),
    "three records": (
        {"relation": "add_remove", "max_rows_per_person": 3},
        "3 records. A person with more records is protected less",
        "unbounded: the exact number of records is protected, but not its size",
    ),
    "person": (
        {"relation": "add_remove", "unit": "person", "max_rows_per_person": 2},
        "all rows of one person. Each release uses at most 2 of them per table (max_rows_per_person). A single record",
        "unbounded: the exact number of records is protected, but not its size",
    ),
    "limited person": (
        {"unit": "limited_person", "max_rows_per_person": 2},
        "all rows of one person with at most 2. A single record of",
        "bounded: the number of records is not protected",
    ),
    "values": (
        {"relation": "replace_values"},
        "the values of sex in one record. A person with more records is protected less",
        "bounded: neither the number of records nor any other column is protected",
    ),
}


@pytest.mark.parametrize("name", UNITS)
def test_text_has_the_unit_and_the_neighbors(name):
    fields, unit, neighbors = UNITS[name]
    text, page, _ = read(privacy_statement(charged_ledger(**fields)))
    lines = text.splitlines()
    trusted = next(index for index, line in enumerate(lines) if line.startswith("Trusted: "))
    assert lines[trusted + 1].startswith(f"Unit: {unit}")
    assert lines[trusted + 2] == f"Neighbors: {neighbors}"
    assert unit in page


def test_unit_of_a_sum_has_the_largest_number_of_rows():
    limits = {"relation": "add_remove", "unit": "person", "trust": "central"}
    ledger = charged_ledger(max_rows_per_person=5, **limits)
    ledger.charge(PrivacyGuarantee(1.0, scope=("age",), max_rows_per_person=2, **limits), "mean")
    assert "Each release uses at most 5 of them per table (max_rows_per_person)." in str(privacy_statement(ledger))


def test_privacy_loss_of_further_rows_is_stated_for_each_class():
    domain = {"sex": ["f", "m"]}
    again = "Fitting again on the data costs the same again"
    reused = "unless the same reports are reused (memoize=True)"
    synthesizer = skdp.DPMarginalSynthesizer(1.0, domain=domain)
    columns = skdp.DPColumnSynthesizer(["sex"], domain=domain)
    local, synthetic, resampled = (str(privacy_statement(one.fit(SEX))) for one in (sex(), synthesizer, columns))
    assert f"Randomizing the same people again costs the same again, {reused}: RandomizedResponseEncoder." in local
    assert f"You may sample any number of rows. {again}: DPMarginalSynthesizer." in synthetic
    assert "You may sample" not in local + resampled
    assert "memoize" not in synthetic + resampled
    assert "costs the same again: DPColumnSynthesizer." in resampled


BUDGETS = {
    "epsilon": ({"epsilon": 3.0}, "Spent: epsilon 2 of 3."),
    "delta": ({"epsilon": 3.0, "delta": 1e-6}, "Spent: epsilon 2 of 3 and delta 0 of 0.000001."),
    "rho": ({"rho": 4.0}, "Spent: rho 1.52319 of 4."),
    "mu": ({"mu": 4.0}, " of 4 (guess 0.97725), 35 % of the budget, as mu**2 adds up."),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_spent_budget_is_stated_in_words(name):
    budget, sentence = BUDGETS[name]
    ledger = skdp.PrivacyLedger(**budget)
    ledger.charge(PrivacyGuarantee(2.0, scope=("sex",)), "survey")
    for written in read(privacy_statement(ledger))[:2]:
        assert sentence in written
        assert "PrivacyLedger(" not in written


def test_delta_is_rounded_in_one_way():
    ledger = skdp.PrivacyLedger(epsilon=3.0, delta=1.23456e-5)
    ledger.charge(PrivacyGuarantee(2.0, delta=1.23456e-5, scope=("sex",)), "survey")
    for written in read(privacy_statement(ledger))[:2]:
        assert written.count("0.0000123456") >= 4
        assert "0.000013" not in written
        assert "e-05" not in written


def test_ledger_statement_lists_only_charged_releases():
    sentence = "Only charged releases are listed. Others may exist, and are not in this total."
    for written in read(privacy_statement(charged_ledger()))[:2]:
        assert sentence in written


def test_headline_begins_with_the_guess():
    for written in read(privacy_statement(charged_ledger()))[:2]:
        assert (
            "At most 73.2 of 100 guesses about one record can be right, 50 without the release. Guarantee: epsilon = 1,"
        ) in written


def test_limits_are_those_of_the_relation_and_the_trust_model():
    local, central = (read(privacy_statement(one))[2]["not_covered"] for one in (sex().fit(SEX), mean().fit(AGE)))
    assert local[-2:] == [
        "The number of records, their order and their index.",
        "True values on the machine that randomizes them.",
    ]
    assert central[-1] == "The table of the curator."
    assert len(central) == len(local) - 1


def test_single_synthesizer_protects_a_whole_record():
    synthesizer = skdp.DPMarginalSynthesizer(1.0, domain={"sex": ["f", "m"]}).fit(SEX)
    text, page, record = read(privacy_statement(synthesizer))
    assert record["meaning"]["unit"].startswith("one whole record. ")
    assert "Unit: one whole record. " in text
    assert "one whole record. " in page
    assert list(privacy_statement(synthesizer).rows["protection"]) == ["synthetic rows"]


NOT_WHOLE = {
    "ledger": charged_ledger,
    "column that passes": lambda: make_column_transformer((sex(), ["sex"]), ("passthrough", ["age"])).fit(PEOPLE),
    "column without a guarantee": lambda: sex().fit(SEX),
}


@pytest.mark.parametrize("name", NOT_WHOLE)
def test_unit_is_not_a_whole_record_with_an_uncovered_column(name):
    text, page, record = read(privacy_statement(NOT_WHOLE[name](), PEOPLE))
    assert record["meaning"]["unit"].startswith("one record. ")
    assert "one whole record" not in text + page


def test_rho_is_not_in_the_headline():
    mean = skdp.DPMean(skdp.privacy.Rho(0.25, 1e-6), bounds=(0, 40)).fit(AGE)
    text, page, record = read(privacy_statement(mean))
    assert "rho" not in record["headline"]
    assert "Guarantee: epsilon = " in record["headline"]
    assert record["headline"].endswith(": age. Unprotected columns: none.")
    assert "Variant: zero-concentrated differential privacy\n" in text
    assert '<th scope="row">Rho</th><td>0.25</td>' in page
    assert record["total"]["rho"] == 0.25


def test_converted_epsilon_is_explained():
    synthesizer = skdp.DPMarginalSynthesizer(1.0, domain={"sex": ["f", "m"]})
    pipeline = make_pipeline(synthesizer, OneHotEncoder())
    for one in (pipeline, make_pipeline(clone(synthesizer)).fit(SEX), clone(pipeline).fit(SEX)):
        total = privacy_statement(one).total
        assert (total.epsilon, total.relation) == (2.0, "replace")
    text = str(privacy_statement(pipeline.fit(SEX)))
    assert "Guarantee: epsilon = 2, " in text
    step = "dpmarginalsynthesizer: DPMarginalSynthesizer"
    assert "Guarantees for adding or removing count twice (their delta and rho grow by more)" in text
    assert f"grow by more): {step} (epsilon 1 becomes 2)." in text
    assert f"for adding or removing in the table remains valid: {step}. It does not hold for the pipeline" in text


def test_unprotected_column_precedes_its_private_statistics():
    parts = ((skdp.DPStandardScaler(1.0, bounds=(0, 40)), ["age"]), (sex(), ["sex"]))
    rows = privacy_statement(make_column_transformer(*parts).fit(PEOPLE)).rows
    protections = ["unprotected: true values are in the output", "private statistics of this step"]
    assert list(rows.loc[rows["column"] == "age", "protection"]) == protections


def test_permanent_reports_state_the_loss_of_further_values():
    key = skdp.SecretKey.generate()
    encoder = sex(memoize=True, secret_key=key)
    note = (
        "Each further value of the person costs the same again, and the fact and the time of a change are not protected"
    )
    for estimator in (encoder, clone(encoder).fit(SEX), skdp.RapporEncoder(1.0, secret_key=key).fit(SEX)):
        text = str(privacy_statement(estimator))
        assert f"{note}: {type(estimator).__name__}." in text
        assert "Unit: one value of each column of one record. Reports are permanent, and each further" in text
        assert "Randomizing the same people again" not in text


def test_columns_beside_protected_values_are_in_the_output():
    domain = {"sex": ["f", "m"], "age": skdp.Interval(0, 40, bins=4)}
    statement = privacy_statement(skdp.DPColumnSynthesizer(["sex"], domain=domain).fit(PEOPLE))
    age = statement.rows.set_index("column")["protection"]["age"]
    assert age == "unprotected: true values are in the output"
    assert "by replacing the values of sex in one record" in statement.to_dict()["meaning"]["odds"]
    assert "are public" not in str(statement)


def table(**options):
    keys = {"sex": ["f", "m"]}
    return skdp.DPGroupBy(1.0, by="sex", keys=keys, **{"bounds": {"age": (0, 40)}, **options})


METHODS = {
    "a table": (
        lambda: table(statistics=["count", "mean", 0.9], totals=True, max_rows_per_person=3),
        "DPGroupBy: Statistics: count, mean, quantile 0.9. Groups: all combinations of the declared "
        "values, also without rows, of sex. Totals over all values of each key are released, too. Rows of a person "
        "that the noise covers: 3. Intervals contain the number of this table, with limited values, weights and rows "
        "of a person, with a probability of about 0.95. They exclude the sampling error of a population, unless the "
        "table states the population (design_effect). A value outside the bounds counts as the nearest bound: age "
        "from 0 to 40. Columns: sex, age. Mechanism: discrete K-norm on counts and sums of ",
    ),
    "counts": (
        lambda: table(statistics="count", confidence_level=0.9),
        "DPGroupBy: Statistics: count. Groups: all combinations of the declared values, also "
        "without rows, of sex. Rows of a person that the noise covers: 1. Intervals contain the number of this table, "
        "with limited values, weights and rows of a person, with a probability of about 0.9. They exclude the sampling "
        "error of a population, unless the table states the population (design_effect). Columns: sex, "
        "age. Mechanism: discrete Laplace on counts of groups.",
    ),
    "reports": (lambda: sex(), "RandomizedResponseEncoder: Columns: sex. Mechanism: k-ary randomized response."),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_statement_has_a_note_of_method(name):
    make, note = METHODS[name]
    ledger = skdp.PrivacyLedger(3.0)
    people = SEX if name == "reports" else PEOPLE.assign(age=[-5, 99] * 20)
    alone = make().fit(people)
    for month in ("May", "June"):
        release = clone(alone).set_params(ledger=ledger.with_title(month)).fit(people)
        if name == "reports":
            release.transform(people)
    _, kind, rest = note.partition(note.split(":")[0])
    for statement, title in (
        (privacy_statement(alone), kind),
        (privacy_statement(ledger), f"May: {kind}, June: {kind}"),
    ):
        text, page, record = read(statement)
        (entry,) = record["method"]
        assert entry.startswith(title + rest)
        assert f"Method:\n- {entry}\n" in text
        assert f"<li>{entry}</li>" in page


def test_note_of_method_has_weights_and_each_release_that_differs():
    ledger = skdp.PrivacyLedger(3.0)
    for high in (40, 50):
        release = skdp.DPMean(1.0, bounds=(0, high), max_weight=2.5, ledger=ledger)
        release.fit(AGE, sample_weight=[1.5] * 40)
    ledger.charge(PrivacyGuarantee(0.5, relation="add_remove"), "manual")
    *notes, manual = read(privacy_statement(ledger))[2]["method"]
    assert [note.partition(" from ")[2].partition(".")[0] for note in notes] == ["0 to 40", "0 to 50"]
    assert "A weight above 2.5 counts as 2.5, and a missing or negative one as 0." in notes[0]
    assert manual == "manual: Columns: all columns. Mechanism: not stated."


def test_facts_of_a_guarantee_are_texts():
    one = PrivacyGuarantee(1.0, method={"by": ["a", 3], "totals": False, "max_weight": None, "source": "Made up. {0}"})
    assert one.method == (("by", "a, 3"), ("source", "Made up. {0}"))
    assert PrivacyGuarantee.from_json(one.to_json()) == one
    assert (one + one).method == ()
    for method in ("[]", '"text"', "1", "null"):
        with pytest.raises(ValueError, match="`method` must be an object, got"):
            PrivacyGuarantee.from_json(one.to_json().replace(json.dumps(dict(one.method)), method))


def test_columns_with_equal_facts_are_one_row_of_the_text():
    """The text of a pipeline of five steps on 14 columns had 70 rows."""
    steps = make_column_transformer((skdp.DPStandardScaler(), ["a", "b"]), ("passthrough", ["c"]))
    statement = privacy_statement(steps, pd.DataFrame({name: [1.0, 2.0] for name in "abc"}))
    assert statement.rows["column"].tolist() == ["a", "a", "b", "b", "c"]
    rows = str(statement).split("Method:")[0].splitlines()[2:]
    assert [row.strip().split("   ")[0] for row in rows] == [
        "a, b, c unprotected: true values are in the output",
        "a, b",
    ]
