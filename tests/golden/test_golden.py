"""Files of 0.4.0 and later releases are read by all later versions, with the results of the version that wrote them."""

import json
import re
import shutil
import warnings
import zipfile
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator
from sklearn.pipeline import Pipeline

import skdp
from skdp.cli import main
from tests.errors import refusal
from tests.golden import write
from tests.golden.write import amounts

HERE = Path(__file__).parent
RELEASES = sorted(path.name for path in HERE.iterdir() if (path / "expected.json").exists())
REFUSED = HERE / "0.3.0"
"""Files in the formats before 0.4.0, the first release whose files later versions read."""


@pytest.fixture(scope="module", params=[*RELEASES, "this version"])
def folder(request, tmp_path_factory):
    """Return a folder with the files of a release, or of this version."""
    if request.param in RELEASES:
        return HERE / request.param
    written = tmp_path_factory.mktemp("golden")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # little data
        write.main(written)
    return written


def list_files(folder, pattern):
    """Yield the files of a pattern, their names, and the results of the version that wrote them."""
    expected = json.loads(read(folder / "expected.json"))
    paths = sorted(folder.glob(f"*.{pattern}"))
    assert len(paths) >= 2
    for path in paths:
        yield path, path.name.partition(".")[0], expected


def read(path):
    return path.read_text(encoding="utf-8")


def test_protocols_and_tallies_of_a_release_are_read(folder):
    for path, name, results in list_files(folder, "protocol.json"):
        expected = results[name]
        encoder = skdp.read_protocol(path)
        assert amounts(encoder.guarantee_) == expected["guarantee"]
        reports = pd.read_parquet(path.with_name(f"{name}.reports.parquet"))
        assert list(encoder.get_feature_names_out()) == expected["columns"] == list(reports.columns)
        stored = read(path.with_name(f"{name}.tally.json"))
        tally = skdp.ReportTally.from_json(stored)
        assert json.loads(encoder.tally(reports).to_json()) == json.loads(stored)
        if name not in write.TABLES:
            assert encoder.estimate_counts(tally)["count"].tolist() == pytest.approx(expected["counts"], rel=1e-12)


def test_protocols_in_reports_of_a_release_are_read(folder):
    for path, name, results in list_files(folder, "reports.parquet"):
        assert amounts(skdp.read_protocol(path).guarantee_) == results[name]["guarantee"]


# A file may be from a later scikit-learn than the oldest one that skdp supports.
OTHER_VERSION = pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")


@OTHER_VERSION
def test_estimators_of_a_release_are_loaded(folder):
    for path, name, results in list_files(folder, "skops"):
        check_estimator(skdp.load(path), name, results[name])


def check_estimator(estimator, name, expected):
    """Check the guarantee, the numbers and the rows of a loaded estimator."""
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    assert amounts(last.guarantee_) == expected["guarantee"]
    if name == "pipeline":
        found = estimator.predict_proba(write.AGE)[:, 1]
        np.testing.assert_allclose(found, expected["probabilities"], rtol=1e-9)
    if hasattr(last, "summary"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # large noise
            summary = last.summary()
        assert summary["lower"].isna().equals(summary["std_error"].isna())
    if "numbers" in expected:
        found = estimator.to_frame().select_dtypes("number").to_numpy().ravel()
        np.testing.assert_allclose(found, expected["numbers"], rtol=1e-9)
    if name == "read_classes":
        # The classifier of 0.5.0 stated epsilon 1 for its target, whose classes it had read.
        assert last.guarantee_.observed == ("state",)
        assert skdp.privacy_statement(last).unprotected_columns == ["state"]
    if name == "inferred":
        assert skdp.privacy_statement(estimator).unprotected_columns == ["sex"]
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


def test_ledgers_of_a_release_are_opened_and_charged(folder, tmp_path):
    for path, name, results in list_files(folder, "ledger.sqlite"):
        expected = results["ledgers"][name]
        ledger = skdp.PrivacyLedger(path=shutil.copy(path, tmp_path))
        assert list(ledger.spent) == expected["spent"]
        balance = ledger.balance().to_numpy().ravel().tolist()
        assert balance == pytest.approx(expected["balance"], rel=1e-9, nan_ok=True)
        relation = ledger.relation
        scope = ledger.columns or ()
        trust = {"relation": relation, "trust": "central"} if relation != "replace" else {}
        ledger.charge(skdp.PrivacyGuarantee(0.1, scope=scope, **trust), "later")
        assert ledger.spent.epsilon == pytest.approx(0.5)


def test_domains_of_a_release_are_read(folder):
    for path, name, results in list_files(folder, "domain.toml"):
        domain = skdp.Domain.from_toml(read(path))
        expected = results[f"domain {name}"]
        assert (list(domain), list(domain.sizes)) == (expected["columns"], expected["sizes"])
        assert (None if domain.guarantee is None else amounts(domain.guarantee)) == expected.get("guarantee")


def test_records_of_a_release_are_read(folder):
    text = read(folder / "guarantee.json")
    assert skdp.PrivacyGuarantee.from_json(text).to_dict() == {"observed": []} | json.loads(text)
    schema = json.loads(files("skdp.privacy").joinpath("record.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(json.loads(text))


@OTHER_VERSION
def test_command_states_files_of_a_release(folder, capsys):
    for pattern in ("protocol.json", "reports.parquet", "skops"):
        for path, name, _ in list_files(folder, pattern):
            assert main(["statement", str(path)]) == 0
            # 0.5.0 did not write into protocols and reports that their categories were read from the data.
            expected = "Guarantee: epsilon" if name != "inferred" else "sex"
            assert expected in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "load", "versions"),
    [
        ("unary.protocol.json", skdp.read_protocol, r"version 3, got 2\."),
        ("unary.reports.parquet", skdp.read_protocol, r"version 3, got 2\."),
        ("mean.skops", skdp.load, r"version 2, got 1\."),
    ],
)
def test_error_of_an_earlier_file_names_both_versions(name, load, versions, capsys):
    message = rf"written by an earlier version of skdp: skdp {version('skdp')} reads {versions} Write it again"
    with pytest.raises(ValueError, match=message):
        load(REFUSED / name)
    with pytest.raises(SystemExit, match="2"):
        main(["statement", str(REFUSED / name)])
    assert re.search(message, capsys.readouterr().err)


LATER = {
    "protocol": ("unary.protocol.json", r'"version": \d+', '"version": 99', skdp.local.ReportTransformer.from_json),
    "tally": ("unary.tally.json", r"tally, version \d+", "tally, version 99", skdp.ReportTally.from_json),
    "guarantee": ("guarantee.json", r'"version": \d+', '"version": 99', skdp.PrivacyGuarantee.from_json),
    "domain": ("declared.domain.toml", r"\A", "version = 99\n", skdp.Domain.from_toml),
}


@pytest.mark.parametrize("name", LATER)
def test_error_of_a_later_file_advises_to_upgrade(name, folder):
    file, pattern, later, load = LATER[name]
    text, count = re.subn(pattern, later, read(folder / file), count=1)
    assert count == 1
    with pytest.raises(ValueError, match=r"written by a later version of skdp: .* got 99\. Upgrade skdp"):
        load(text)


def change_member(path, target, name, change):
    """Copy a file of `skdp.save` with a changed member."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for member in old.namelist():
            content = old.read(member)
            new.writestr(member, change(content) if member == name else content)


@pytest.mark.parametrize(
    ("member", "change"),
    [
        ("skdp-version.txt", lambda content: b"99"),
        ("schema.json", lambda content: content.replace(b'"Record"', b'"LaterRecord"')),
    ],
)
def test_error_of_a_later_estimator_advises_to_upgrade(folder, member, change, tmp_path):
    change_member(folder / "mean.skops", tmp_path / "later.skops", member, change)
    with pytest.raises(ValueError, match="written by a later version of skdp") as caught:
        skdp.load(tmp_path / "later.skops")
    assert "pgrade skdp" in str(caught.value)


def test_number_of_a_damaged_version_is_not_in_the_error(folder, tmp_path):
    change_member(folder / "mean.skops", tmp_path / "damaged.skops", "skdp-version.txt", lambda content: b"secret")
    with refusal(ValueError, "got 1", "secret"):
        skdp.load(tmp_path / "damaged.skops")
