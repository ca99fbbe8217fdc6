"""Files of released versions are read by all later versions, with the results of the version that wrote them."""

import json
import re
import shutil
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator
from sklearn.pipeline import Pipeline

import skdp
from skdp.cli import main
from tests.conftest import often
from tests.golden.write import AGE, TABLES, amounts

pytestmark = pytest.mark.usefixtures("repeatable_draws")

FOLDERS = sorted(path for path in Path(__file__).parent.iterdir() if (path / "expected.json").exists())
EXPECTED = {folder: json.loads((folder / "expected.json").read_text(encoding="utf-8")) for folder in FOLDERS}


def list_files(pattern):
    found = [path for folder in FOLDERS for path in sorted(folder.glob(f"*.{pattern}"))]
    assert found
    return found


def expect(path):
    """Return the name of a file without its suffixes, and the results of the version that wrote it."""
    name = path.name.partition(".")[0]
    results = EXPECTED[path.parent]
    return name, results.get(name, results)


def read(path):
    return path.read_text(encoding="utf-8")


def test_files_of_each_release_are_stored():
    assert [folder.name for folder in FOLDERS][:3] == ["0.1.0", "0.2.0", "0.3.0"]


@pytest.mark.parametrize("path", list_files("protocol.json"))
def test_protocol_and_tally_of_a_release_are_read(path):
    name, expected = expect(path)
    encoder = skdp.read_protocol(path)
    assert amounts(encoder.guarantee_) == expected["guarantee"]
    reports = pd.read_parquet(path.with_name(f"{name}.reports.parquet"))
    assert list(encoder.get_feature_names_out()) == expected["columns"] == list(reports.columns)
    stored = read(path.with_name(f"{name}.tally.json"))
    tally = skdp.ReportTally.from_json(stored)
    assert json.loads(encoder.tally(reports).to_json()) == json.loads(stored)
    if name not in TABLES:
        assert encoder.estimate_counts(tally)["count"].tolist() == pytest.approx(expected["counts"], rel=1e-12)


@pytest.mark.parametrize("path", list_files("reports.parquet"))
def test_protocol_in_reports_of_a_release_is_read(path):
    _, expected = expect(path)
    assert amounts(skdp.read_protocol(path).guarantee_) == expected["guarantee"]


# A file may be from a later scikit-learn than the oldest one that skdp supports.
OTHER_VERSION = pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")


@OTHER_VERSION
@pytest.mark.parametrize("path", list_files("skops"))
def test_estimator_of_a_release_is_loaded(path):
    name, expected = expect(path)
    estimator = skdp.load(path)
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    assert amounts(last.guarantee_) == expected["guarantee"]
    if name == "pipeline":
        found = estimator.predict_proba(AGE)[:, 1]
        np.testing.assert_allclose(found, expected["probabilities"], rtol=1e-9)
    if "numbers" in expected:
        found = estimator.to_frame().select_dtypes("number").to_numpy().ravel()
        # The table of 0.2.0 was not rounded to a thousandth of the narrowest interval.
        np.testing.assert_allclose(found, expected["numbers"], rtol=1e-3 if name == "medians" else 1e-9)
    if name == "linked":
        rows = estimator.sample(50)
        assert list(rows.columns) == ["sex", "job", "age", "person", "day"]
        assert rows.groupby("person")["sex"].nunique().eq(1).all()
    if name == "synthesizer":
        rows = estimator.sample(50)
        assert list(rows.columns) == ["sex", "job", "age"]
        assert rows["age"].between(20, 80).all()
    steps = [amounts(step.guarantee) for step in skdp.privacy_statement(estimator).steps]
    assert steps == expected.get("steps", [expected["guarantee"]])


@pytest.mark.parametrize("path", list_files("ledger.sqlite"))
def test_ledger_of_a_release_is_opened_and_charged(path, tmp_path_factory):
    expected = EXPECTED[path.parent]["ledgers"][path.name.partition(".")[0]]
    copy = shutil.copy(path, tmp_path_factory.mktemp("ledger"))
    ledger = skdp.PrivacyLedger(path=copy)
    assert list(ledger.spent) == expected["spent"]
    balance = ledger.balance().to_numpy().ravel().tolist()
    assert balance == pytest.approx(expected["balance"], rel=1e-9, nan_ok=True)
    relation = ledger.relation
    scope = ledger.columns or ()
    trust = {"relation": relation, "trust": "central"} if relation != "replace" else {}
    ledger.charge(skdp.PrivacyGuarantee(0.1, scope=scope, **trust), "later")
    assert ledger.spent.epsilon == pytest.approx(0.5)


@pytest.mark.parametrize("path", list_files("domain.toml"))
def test_domain_of_a_release_is_read(path):
    name, expected = expect(path)
    domain = skdp.Domain.from_toml(read(path))
    expected = expected[f"domain {name}"]
    assert (list(domain), list(domain.sizes)) == (expected["columns"], expected["sizes"])
    assert (None if domain.guarantee is None else amounts(domain.guarantee)) == expected.get("guarantee")


@pytest.mark.parametrize("folder", FOLDERS)
def test_records_of_a_release_are_read(folder):
    text = read(folder / "guarantee.json")
    assert skdp.PrivacyGuarantee.from_json(text).to_json() == text
    schema = json.loads(files("skdp.privacy").joinpath("record.schema.json").read_text(encoding="utf-8"))
    for name in ("guarantee.json", "statement.json"):
        Draft202012Validator(schema).validate(json.loads(read(folder / name)))


STATED = [*list_files("protocol.json"), *list_files("reports.parquet"), *list_files("skops")]


@OTHER_VERSION
@pytest.mark.parametrize("path", often(STATED, STATED[::3]))  # other tests read each file
def test_command_states_files_of_a_release(path, capsys):
    assert main(["statement", str(path)]) == 0
    assert "Guarantee: epsilon" in capsys.readouterr().out


LATER = {
    "protocol": ("unary.protocol.json", r'"version": \d+', '"version": 99', skdp.local.ReportTransformer.from_json),
    "tally": ("unary.tally.json", r"tally, version \d+", "tally, version 99", skdp.ReportTally.from_json),
    "guarantee": ("guarantee.json", r'"version": \d+', '"version": 99', skdp.PrivacyGuarantee.from_json),
    "domain": ("declared.domain.toml", r"\A", "version = 99\n", skdp.Domain.from_toml),
}


@pytest.mark.parametrize("name", LATER)
def test_error_of_a_later_file_advises_to_upgrade(name):
    file, pattern, later, load = LATER[name]
    text, count = re.subn(pattern, later, read(FOLDERS[0] / file), count=1)
    assert count == 1
    with pytest.raises(ValueError, match=r"written by a later version of skdp: .* got 99\. Upgrade skdp"):
        load(text)


def test_error_of_a_later_estimator_advises_to_upgrade(tmp_path):
    import zipfile

    path = tmp_path / "later.skops"
    with zipfile.ZipFile(FOLDERS[0] / "mean.skops") as old, zipfile.ZipFile(path, "w") as new:
        for member in old.namelist():
            content = old.read(member)
            if member == "schema.json":
                assert b"Record" in content
                content = content.replace(b'"Record"', b'"LaterRecord"')
            new.writestr(member, content)
    with pytest.raises(ValueError, match="written by a later version of skdp"):
        skdp.load(path)
