"""`to_json` and `from_json`: complete for reading reports, without secrets, strict with other content."""

import json
import pickle
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator
from sklearn.base import clone

import skdp
from skdp.engines import tally_files
from skdp.local import ReportTransformer
from skdp.privacy import shuffled_guarantee
from tests.conftest import diagonal, often
from tests.local.protocols import FITTED, KEY, PEOPLE, VALUES

CLIENT = Path(__file__).parent.parent.parent / "examples" / "client"
NOT_MADE_BY_CLIENTS = {
    "permanent": "no permanent reports",
    "two rounds": "no permanent reports",
    "bins of dates": "Column 'day' must have",
    "dates": "Column 'day' must have",
    "numbers": "an encoder with frequency oracles",
    "table of two kinds": "an encoder with frequency oracles",
    "rappor": "an encoder with frequency oracles",
    "lists": "an encoder with frequency oracles",
}


SCHEMA = Draft202012Validator(
    json.loads(files("skdp.local").joinpath("report.schema.json").read_text(encoding="utf-8"))
)


def reports_of(name):
    encoder, table = FITTED[name]
    permanent = {"person": np.arange(len(table))} if getattr(encoder, "memoize", False) else {}
    return encoder.fit(table), encoder.transform(table, **permanent)


# Each class, two rounds, and domains that are written in another form.
LOADED = ["permanent", "two rounds", "one of two", "hashing", "bins and missing", "dates", "array", "numbers", "rappor"]
LOADED += ["lists", "table of values"]


@pytest.mark.parametrize(
    ("part", "value"),
    [("version", 2), ("parameters", {"epsilon": {"$code": "x"}}), ("guarantee", {"epsilon": -1}), ("further", 1)],
)
def test_schema_refuses_invalid_protocols(part, value):
    Draft202012Validator.check_schema(SCHEMA.schema)
    content = json.loads(FITTED["response"][0].fit(PEOPLE).to_json())
    assert SCHEMA.is_valid(content)
    assert not SCHEMA.is_valid(content | {part: value})


@pytest.mark.parametrize("name", often(FITTED, LOADED))
def test_loaded_protocol_gives_equal_estimates(name, tmp_path):
    encoder, reports = reports_of(name)
    tally, counted = encoder.tally(reports), hasattr(encoder, "estimate_counts") and name != "rappor"
    estimate = encoder.estimate_counts(reports) if counted else None
    assert type(tally).from_json(tally.to_json()) == tally
    SCHEMA.validate(json.loads(tally.to_json()))
    SCHEMA.validate(json.loads(encoder.to_json()))
    encoder.save(tmp_path / "protocol.json")
    for again in (
        type(encoder).from_json(encoder.to_json()),
        ReportTransformer.load(tmp_path / "protocol.json"),
        ReportTransformer.from_json(ReportTransformer.from_json(encoder.to_json()).to_json()),
    ):
        assert type(again) is type(encoder)
        assert hasattr(again, "feature_names_in_") == hasattr(encoder, "feature_names_in_")
        assert again.tally(reports) == tally
        assert again.guarantee_.epsilon == encoder.guarantee_.epsilon
        assert again.guarantee_.scope == encoder.guarantee_.scope
        if counted:
            pd.testing.assert_frame_equal(again.estimate_counts(reports), estimate)


def test_json_contains_no_secret():
    ledger = skdp.PrivacyLedger(epsilon=123.0)
    encoder = skdp.RandomizedResponseEncoder(
        1.0, memoize=True, secret_key=KEY, categories=VALUES, ledger=ledger, random_state=987654
    ).fit(PEOPLE)
    text = encoder.to_json()
    for secret in (KEY.hex(), KEY.decode(), "987654", "123.0"):
        assert secret not in text
    content = json.loads(text)
    assert not {"ledger", "random_state", "secret_key"} & set(content["parameters"])
    again = skdp.RandomizedResponseEncoder.from_json(text)
    assert again.ledger is None
    assert again.random_state is None
    assert again.secret_key not in (None, KEY)


@pytest.mark.parametrize(
    "text",
    [
        *["", "{}", "[]", "1", "null", '{"format": "skdp-protocol", "version": 4}', "\ud800"],
        *["[" * 1_000_000, json.dumps("x" * 20_000_000)],
    ],
)
def test_text_without_a_protocol_raises_an_error(text):
    with pytest.raises(ValueError, match=r"protocol|at most|cannot be read"):
        ReportTransformer.from_json(text)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("parameters", {"epsilon": 1.5}, "does not follow from"),
        *[("parameters", {secret: 1}, "must have valid parameters")
          for secret in ("secret_key", "ledger", "random_state")],
        *[("guarantee", {key: value}, "does not follow from")
          for key, value in {"epsilon": 0.001, "delta": 0.1, "relation": "add_remove", "trust": "central"}.items()],
        ("guarantee", None, "must have valid parameters"),
        *[("guarantee", wrong, "does not follow from") for wrong in (
            {"rho": 1e-9}, {"scope": ["x"]}, {"delta": False}, {"max_rows_per_person": 100}
        )],
        *[("permanent", permanent, "the protocol of a local") for permanent in (0, 1, "true", None, [])],
        ("transformer", "Popen", "must be of ReportTransformer or a subclass"),
        ("transformer", "UnaryEncodingTransformer", "cannot be read|does not follow"),
    ],
)  # fmt: skip
def test_inconsistent_protocol_raises_an_error(part, change, message):
    content = json.loads(FITTED["response"][0].fit(PEOPLE).to_json())
    content[part] = content[part] | change if isinstance(change, dict) else change
    with pytest.raises(ValueError, match=message):
        ReportTransformer.from_json(json.dumps(content))
    with pytest.raises(ValueError, match="must be of LocalHashingEncoder or a subclass"):
        skdp.LocalHashingEncoder.from_json(FITTED["response"][0].to_json())


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("response", "threshold", "0"),  # a client that always reports the truth, with a guarantee of epsilon 1
        *[("one of two", "size", size) for size in (True, 1.0, "1")],  # equal in Python, but not in other languages
    ],
)
def test_inconsistent_client_raises_an_error(name, key, value):
    content = json.loads(FITTED[name][0].fit(FITTED[name][1]).to_json())
    content["client"]["samplers"][0][key] = value
    with pytest.raises(ValueError, match="does not follow from"):
        ReportTransformer.from_json(json.dumps(content))


def test_integers_beyond_javascript_are_refused():
    for values, is_offered in (([2**53, 1], False), ([-(2**53), 1], False), ([2**53 - 1, 1 - 2**53], True)):
        encoder = skdp.RandomizedResponseEncoder(1.0, categories={"id": values}).fit(pd.DataFrame({"id": values[:1]}))
        assert (json.loads(encoder.to_json())["client"] is not None) == is_offered


def test_number_of_declared_values_is_limited(monkeypatch):
    """A file of a few kilobytes could declare bins that need gigabytes."""
    text = FITTED["response"][0].fit(PEOPLE).to_json()
    monkeypatch.setattr("skdp.local._protocol_file.MAX_DECLARED_VALUES", 4)
    with pytest.raises(ValueError, match="is missing, invalid or too large"):
        skdp.RandomizedResponseEncoder.from_json(text)


@pytest.mark.parametrize("name", FITTED)
def test_client_description_is_complete_or_names_the_reason(name):
    encoder = FITTED[name][0].fit(FITTED[name][1])
    content = json.loads(encoder.to_json())
    client, protocol = content["client"], encoder.protocol_
    assert (client is None) == (name in NOT_MADE_BY_CLIENTS)
    if client is None:
        assert NOT_MADE_BY_CLIENTS[name] in content["no_client"]
        return
    assert client["report_columns"] == list(map(str, protocol.report_columns))
    assert client["samplers"] == [oracle.sampler() for oracle in protocol.oracles]
    assert [column["name"] for column in client["columns"]] == list(map(str, protocol.domain.columns))


def test_seeds_of_hashes_may_be_text():
    """Not all JSON readers keep numbers of 62 bits; rounded to floats, they are other seeds."""
    encoder, reports = reports_of("large hashing")
    reports = reports.iloc[:10]
    written = reports.astype({"rooms_seed": str})
    for table in (written, written.astype({"rooms_bucket": float})):  # numbers beside text must not be rounded
        assert encoder.tally(table) == encoder.tally(reports)
    with pytest.raises(ValueError, match="The reports must be integers"):
        encoder.tally(reports.astype({"rooms_seed": str}).assign(rooms_seed="-1"))
    with pytest.raises(ValueError, match="The reports must be integers"):
        encoder.tally(reports.assign(rooms_seed=2.0**64))


NEEDS_NODE = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")


@pytest.mark.long
@NEEDS_NODE
def test_javascript_client_passes_its_tests():
    """Test vectors, and random protocols: those with a larger loss than stated must be refused."""
    done = subprocess.run(["node", "--test", CLIENT], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("name", "seed"), diagonal(["response", "numbers", "rappor"], [None, 0]))
def test_reader_states_whether_reports_are_secure(name, seed):
    made = clone(FITTED[name][0]).set_params(random_state=seed).fit(FITTED[name][1])
    reader = ReportTransformer.from_json(made.to_json())
    for again in (reader, ReportTransformer.from_json(reader.to_json()), pickle.loads(pickle.dumps(reader))):
        assert again.guarantee_.secure is again.protocol_.guarantee.secure is (seed is None)
        assert skdp.privacy_statement(again).total.secure is (seed is None)
        assert shuffled_guarantee(again, n=10_000, delta=1e-6).secure is (seed is None)
    # Its own reports are drawn from secure bits, which it states after `fit`.
    assert reader.fit(FITTED[name][1]).guarantee_.secure


def test_sentence_in_a_file_is_not_printed(tmp_path):
    """All sentences about a tally are written by this library, not by the sender of the reports."""
    encoder, reports = reports_of("response")
    content = json.loads(encoder.to_json())
    content["guarantee"] |= {"text": "epsilon = 0.01", "mechanism": "magic"}
    reports.attrs["skdp.protocol"] = json.dumps(content)
    reports.to_parquet(tmp_path / "reports.parquet")
    tally_files(tmp_path / "reports.parquet", destination=tmp_path / "tally.json")
    stated = json.loads((tmp_path / "tally.json").read_text())["skdp.protocol"]["guarantee"]
    assert stated == json.loads(encoder.to_json())["guarantee"]


def test_a_dict_changed_after_fit_does_not_change_the_protocol():
    sizes = {"x": 2}
    encoder = skdp.SetValuedEncoder(categories={"x": ["a", "b", "c"]}, max_size=sizes).fit(pd.DataFrame({"x": [["a"]]}))
    sizes["x"] = 1
    assert skdp.SetValuedEncoder.from_json(encoder.to_json()).oracles_[0].max_size == 2


def test_integers_beyond_floats_are_written_as_text():
    values = [2**53, 2**53 + 1]
    encoder = skdp.RandomizedResponseEncoder(1.0, categories={"id": values}).fit(pd.DataFrame({"id": values}))
    (field,) = json.loads(encoder.to_json())["protocol"]["reports"]["fields"]
    assert field["domain"] == [[{"$integer": str(value)} for value in values]]
