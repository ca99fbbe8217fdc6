"""Records for the public registry of deployments."""

import json
from importlib.resources import files

import pandas as pd
import pytest
from jsonschema import Draft202012Validator, FormatChecker

from skdp import (
    DPMarginalSynthesizer,
    DPMean,
    PrivacyLedger,
    RandomizedResponseEncoder,
    UnaryEncodingTransformer,
    privacy_statement,
)
from tests.conftest import each

SCHEMA = json.loads(files("skdp.privacy.statement").joinpath("registry.schema.json").read_text(encoding="utf-8"))
VALID = Draft202012Validator(SCHEMA, format_checker=FormatChecker(["date"]))
X = pd.DataFrame({"sex": ["F", "M"] * 20, "age": range(40)})
BASIC = {
    "name": "Survey of 2027",
    "data_curators": ["An agency"],
    "description": "Counts by sex.",
    "intended_use": "Planning.",
    "data_product_type": "Summary statistics",
    "data_product_region": "Utopia",
    "publication_date": "2027-01-31",
    "registry_authors": ["A. Person", "B. Person"],
}
MODEL = {"release_type": "One release", "data_source_type": "Static", "access_type": "Non-interactive"}
DETAILS = {"actors": "The agency.", "preprocessing_and_hyperparameter_tuning": "None.", "justification": "Law."}
OPTIONAL = {
    "url_slug": "survey-2027",
    "data_product_sector": "Government",
    "sources": "https://survey.example",
    "notes": "None.",
    "release_type_details": "Once.",
    "data_source_type_details": "Once.",
    "access_type_details": "A table.",
}


def local(**options):
    encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["F", "M"]}, **options).fit(X[["sex"]])
    encoder.transform(X[["sex"]])
    return privacy_statement(encoder, X)


@pytest.mark.parametrize("tier", [1, 2, 3])
@pytest.mark.parametrize("optional", [{}, OPTIONAL], ids=["required", "all"])
def test_a_record_is_valid(tier, optional):
    Draft202012Validator.check_schema(SCHEMA)
    human = BASIC | (MODEL if tier > 1 else {}) | (DETAILS if tier > 2 else {}) | optional
    record = local(ledger=PrivacyLedger(epsilon=3.0)).to_registry(human, tier=tier)
    VALID.validate(record)
    assert json.loads(json.dumps(record)) == record
    assert (record["status"], record["tier"]) == ("Draft", tier)
    assert record["url_slug"] == ("survey-2027" if optional else "survey-of-2027")
    sections = record["deployment"].values()
    assert {name: value for section in sections for name, value in section.items() if name in human} == {
        name: value for name, value in human.items() if name != "url_slug"
    }


def test_what_the_statement_fills():
    deployment = local(ledger=PrivacyLedger(epsilon=3.0)).to_registry(BASIC | MODEL)["deployment"]
    assert deployment["dp_variant"] == {
        "variant_name": "Pure DP",
        "data_domain": "Tables with these columns, which are protected: sex.",
        "unprotected_quantities": "age: not seen by fit; the number of records.",
    }
    loss = deployment["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": 1.0}
    assert loss["privacy_unit"] == "Record"
    assert "one record replaced by another" in loss["privacy_unit_details"]
    assert "at most 74 times in 100" in loss["privacy_parameters_details"]
    assert deployment["deployment_model"]["model_name"] == "Local"
    assert "so far once: epsilon 1 of 3" in deployment["accounting"]["composition"]
    mechanisms = deployment["implementation"]["mechanisms"]
    assert all(text in mechanisms for text in ("k-ary randomised response", "skdp 0.", "exact integers", "Timing"))


def test_the_variant_follows_from_the_guarantee():
    of_persons = DPMean(0.5, bounds={"age": (0, 40)}, max_rows_per_person=2).fit(X[["age"]])
    mean = privacy_statement(of_persons).to_registry(BASIC | MODEL)
    assert mean["deployment"]["privacy_loss"]["privacy_unit"] == "Person"
    assert mean["deployment"]["dp_variant"]["variant_name"] == "Pure DP"
    assert mean["deployment"]["deployment_model"]["model_name"] == "Central"
    synthesizer = DPMarginalSynthesizer(1.0, delta=1e-9, domain={"sex": ["F", "M"]}).fit(X[["sex"]])
    statement = privacy_statement(synthesizer)
    record = statement.to_registry(BASIC | MODEL)
    VALID.validate(record)
    assert record["deployment"]["dp_variant"]["variant_name"] == "Zero-concentrated DP"
    total = statement.total
    parameters = {"epsilon": total.epsilon, "delta": total.delta, "rho": total.rho}
    assert record["deployment"]["privacy_loss"]["privacy_parameters"] == parameters


def test_all_fields_that_are_missing_are_named():
    with pytest.raises(ValueError, match="lacks what only a person knows, for tier 2") as caught:
        local().to_registry({"name": "Survey"})
    assert all(repr(name) in str(caught.value) for name in (*BASIC, *MODEL) if name != "name")
    assert not any(repr(name) in str(caught.value) for name in ("name", *DETAILS, *OPTIONAL))
    with pytest.raises(ValueError, match="for tier 3") as caught:
        local().to_registry(BASIC | MODEL, tier=3)
    assert str(list(DETAILS)) in str(caught.value)


@each(
    "more, message",
    [
        ({"epsilon": 0.1}, r"must not have what the statement fills: \['epsilon'\]"),
        ({"model_name": "Local", "status": "Approved"}, r"\['model_name', 'status'\]"),
        ({"colour": "blue"}, r"unknown fields: \['colour'\]"),
        ({"name": " "}, r"human_fields\['name'\] must be a text that is not empty, got str"),
        ({"data_curators": "An agency"}, r"\['data_curators'\] must be a list of texts"),
        ({"registry_authors": []}, r"\['registry_authors'\] must be a list of texts, at least one"),
        ({"registry_authors": [5]}, r"\['registry_authors'\] must be a list of texts, at least one"),
        ({"data_product_type": "Tables"}, r"\['data_product_type'\] must be one of \['Summary statistics'"),
        ({"publication_date": "31/1/2027"}, r"\['publication_date'\] must be a date as YYYY-MM-DD"),
        ({"publication_date": "2027-02-30"}, r"\['publication_date'\] must be a date as YYYY-MM-DD"),
        ({"publication_date": "20270131"}, r"\['publication_date'\] must be a date as YYYY-MM-DD"),
        ({"publication_date": 2027}, r"\['publication_date'\] must be a date as YYYY-MM-DD, got int"),
        ({"access_type": True}, r"\['access_type'\] must be one of"),
        ({"url_slug": "A b"}, r"\['url_slug'\] must be lower-case letters"),
        ({"name": "調査"}, "must have a 'url_slug'"),
    ],
)
def test_fields_that_contradict_or_are_of_another_form(more, message):
    with pytest.raises(ValueError, match=message):
        local().to_registry(BASIC | MODEL | more)


def test_what_cannot_be_registered():
    with pytest.raises(ValueError, match="the randomness comes from a seed"):
        local(random_state=0).to_registry(BASIC | MODEL)
    scaler = UnaryEncodingTransformer(None, p=0.5, q=0.2, categories={"sex": ["F", "M"]})
    with pytest.raises(ValueError, match="no column is protected"):
        privacy_statement(scaler).to_registry(BASIC | MODEL)
    with pytest.raises(TypeError, match="human_fields must be a mapping, got list"):
        local().to_registry([])
    for tier in (0, 4, True, "2"):
        with pytest.raises(ValueError, match="tier must be 1, 2 or 3"):
            local().to_registry(BASIC, tier=tier)
