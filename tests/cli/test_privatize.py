"""``skdp privatize`` and ``skdp estimate``."""

import re
import stat
import sys

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp import Domain, DPMarginalSynthesizer, PrivacyLedger, RandomizedResponseEncoder
from skdp.engines import estimate_file
from skdp.local import RapporEncoder, ReportTransformer
from skdp.oracles import POSTPROCESSORS
from tests.cli.commands import call, refuse

TOML = """
[columns.sex]
values = ["F", "M"]

[columns.age]
low = 0
high = 120
bins = 12
"""
ROWS = 6_000
BASE = ["--domain", "domain.toml", "--epsilon", 4]


@pytest.fixture
def files(tmp_path):
    rows = pd.DataFrame({"id": range(ROWS), "sex": ["F", "M"] * (ROWS // 2), "age": np.arange(ROWS) % 121})
    rows.assign(town="Lyon").to_csv("in.csv", index=False)
    (tmp_path / "domain.toml").write_text(TOML)
    return tmp_path


OPTIONS = ["--domain", "domain.toml", "--epsilon", 1]


def run(command, *words):
    return call(command, *words, *OPTIONS)


def test_rows_are_privatized_and_estimated(files, capsys):
    assert run("privatize", "in.csv", "out.parquet", "--seed", 1, "--keep", "town") == 0
    printed = capsys.readouterr()
    assert "Released unprotected: town" in printed.err
    assert "Excluded: id" in printed.err
    assert printed.out.startswith("epsilon = 1, local model")
    assert printed.out.endswith("Wrote out.parquet\n")
    assert pd.read_parquet("out.parquet").columns.tolist() == ["sex", "age", "town"]
    assert call("estimate", "out.parquet") == 0
    text = capsys.readouterr().out
    assert text.split()[:4] == ["count", "std_error", "lower", "upper"]
    assert (
        call("estimate", "out.parquet", "--out", "counts.csv", "--confidence-level", "0.99", "--postprocess", "simplex")
        == 0
    )
    encoder = RandomizedResponseEncoder(1.0, categories=Domain.from_toml(TOML))
    expected = estimate_file("out.parquet", encoder, confidence_level=0.99, postprocess="simplex").reset_index()
    pd.testing.assert_frame_equal(pd.read_csv("counts.csv"), expected, check_dtype=False)


@pytest.mark.parametrize(
    ("transformer", "columns", "options", "n_estimates"),
    [
        *((name, "age sex", ["--strategy", "split"], 14) for name in ["randomized_response", "unary", "subset"]),
        *((name, "age sex", ["--strategy", "joint"], 24) for name in ["local_hashing", "auto"]),
        ("numeric", "age", [], 1),
    ],
)
def test_every_transformer_has_a_command(files, capsys, transformer, columns, options, n_estimates):
    options = [*options, "--transformer", transformer, "--columns", *columns.split()]
    run("privatize", "in.csv", "out.csv", *options, "--seed", 0, "--save", "protocol.json")
    capsys.readouterr()
    call("estimate", "out.csv", "--protocol", "protocol.json")
    assert len([line for line in capsys.readouterr().out.splitlines() if "." in line]) == n_estimates


def test_errors_name_the_options_of_the_command(files, capsys):
    rows = pd.DataFrame({"sex": ["F"] * 9 + ["SECRET"], "age": 1})
    rows.to_csv("in.csv", index=False)
    text = refuse(capsys, "privatize", "in.csv", "out.csv", "--ledger", "ledger", "--budget", 9, *OPTIONS)
    assert "Column 'sex' contains a value" in text
    assert "--handle-unknown" in text
    assert "handle_unknown" not in text
    assert "SECRET" not in text
    assert PrivacyLedger(path="ledger").spent.epsilon == 0


@pytest.mark.parametrize("command", ["privatize", "synthesize", "estimate"])
def test_error_of_an_absent_column_does_not_name_the_delimiter(files, capsys, command):
    declared = Domain.from_toml(TOML)
    RandomizedResponseEncoder(1.0, categories=declared).fit(pd.DataFrame({"sex": ["F"], "age": [1]})).save("p.json")
    (files / "in.csv").write_text("id,sex\n" + "1,F\n2,M\n" * 20)
    words = ["--protocol", "p.json"] if command == "estimate" else ["out.csv", *OPTIONS]
    error = refuse(capsys, command, "in.csv", *words)
    assert "in.csv must have the columns ['age'], which its header lacks." in error
    (files / "p.json").unlink()


@pytest.mark.parametrize(("name", "command"), [("cut.csv.gz", "privatize"), ("cut.csv.gz", "draft-domain"),
    ("bits.parquet", "privatize"),
    ("bits.parquet", "draft-domain"), ("bits.arrow", "synthesize")])  # fmt: skip
def test_error_of_a_damaged_file_names_it(tmp_path, capsys, name, command):
    sexes = pd.DataFrame({"sex": np.random.default_rng(0).choice(["F", "M"], 30_000), "age": 1})
    if name.endswith("gz"):
        sexes.to_csv(name, index=False)
    elif name.endswith("parquet"):
        sexes.to_parquet(name)
    else:
        sexes.to_feather(name)
    content = (tmp_path / name).read_bytes()
    half = len(content) // 2
    end = b"" if name.startswith("cut") else bytes(400) + content[half + 400 :]
    (tmp_path / name).write_bytes(content[:half] + end)
    (tmp_path / "domain.toml").write_text(TOML)
    words = {
        "draft-domain": [name, "out.toml"],
    }
    error = refuse(capsys, command, *words.get(command, [name, "out.csv", *OPTIONS]))
    assert f"{name} cannot be read, because it is damaged or incomplete" in error
    (tmp_path / name).unlink()


@pytest.mark.parametrize(
    "words",
    [
        ["estimate", "gone.json"],
        ["estimate", "gone.csv"],
        ["estimate", "in.csv", "--protocol", "gone.json"],
        ["privatize", "gone.csv", "out.csv", *BASE],
        ["privatize", "in.csv", "out.csv", "--epsilon", 1, "--domain", "gone.toml"],
        ["privatize", "in.csv", "out.csv", "--load", "gone.json"],
        ["privatize", "in.csv", "out.csv", *BASE, "--person", "id", "--secret-key", "gone.key"],
        ["synthesize", "out.csv", "--load", "gone.skops"],
        ["tally", "gone.json"],
        ["statement", "gone.json"],
    ],
)
def test_error_of_a_missing_file_names_it(files, capsys, words):
    error = refuse(capsys, *words)
    assert re.search(r": There is no file gone\.\w+\.$", error.strip()), error


def test_error_of_a_domain_file_contains_no_byte_of_it(files, capsys):
    (files / "bytes.toml").write_bytes(b"\xff")
    error = refuse(capsys, "privatize", "in.csv", "out.csv", "--domain", "bytes.toml", "--epsilon", "1")
    assert "must be UTF-8 text" in error
    assert "0xff" not in error


def test_invalid_options_raise_before_charge(files, capsys):
    call("privatize", "in.csv", "one.csv", *BASE, "--columns", "sex", "--save", "p.json")
    call("privatize", "in.csv", "memo.csv", *BASE, "--columns", "sex", "--person", "id", "--new-key", "key",
        "--save", "m.json")  # fmt: skip
    (files / "nokey").write_text("SECRET")
    (files / "headless.csv").write_text("1,SECRET,20,x\n")
    before = sorted(path.name for path in files.iterdir())
    load, numeric, ages = ["--load", "p.json"], ["--transformer", "numeric"], ["--columns", "age"]
    wrong = {
        "--columns must be columns of the domain": [*BASE, "--columns", "none"],
        "not allowed with": [*BASE, "--keep", "id", "--keep-all"],
        "must have the columns ['nothing']": [*BASE, "--keep", "nothing"],
        "invalid choice": [*BASE, "--strategy", "apart"],
        "--epsilon must not be given with --load": [*load, "--epsilon", 1],
        "m.json is a protocol of permanent reports": ["--load", "m.json"],
        "arguments are required: --epsilon": ["--domain", "domain.toml"],
        "arguments are required: --domain": ["--epsilon", 1],
        "the entry in the domain file for column 'sex' must be a range of numbers, got listed values. Exclude": [
            *BASE,
            *numeric,
        ],
        "--handle-unknown requires another": [*BASE, *numeric, *ages, "--handle-unknown", "uniform"],
        "--person requires --secret-key": [*BASE, "--person", "id"],
        "and these require --person": [*BASE, "--secret-key", "key"],
        "--seed must not be given": [*BASE, "--person", "id", "--secret-key", "key", "--seed", 1],
        "key: File exists.": [*BASE, "--person", "id", "--new-key", "key"],
        "one line of hexadecimal digits": [*BASE, "--person", "id", "--secret-key", "nokey"],
        "--save must be a new file, got 'p.json', which exists": [*BASE, "--save", "p.json"],
    }
    charged = ["--ledger", "ledger", "--budget", 9]
    for text, words in wrong.items():
        shown = refuse(capsys, "privatize", "in.csv", "out.csv", *words, *charged)
        assert text in shown, (text, shown)
        assert "SECRET" not in shown
    assert "SECRET" not in refuse(capsys, "privatize", "headless.csv", "out.csv", *BASE, *charged)
    # Nothing was charged, and the ledger has the budget that was stated first.
    assert sorted(path.name for path in files.iterdir()) == sorted([*before, "ledger"])
    assert PrivacyLedger(path="ledger").spent.epsilon == 0


def test_protocol_of_words_is_loaded(files):
    encoder = RapporEncoder(2.0, n_bits=16, n_hashes=1).fit(pd.DataFrame({"town": ["Lyon"]}))
    encoder.save("town.json")
    call("privatize", "in.csv", "out.parquet", "--load", "town.json")
    reports = pd.read_parquet("out.parquet")
    assert abs(encoder.decode(reports, ["Lyon"]).loc["Lyon", "count"] - ROWS) < 2_000


def test_protocol_of_a_csv_file_is_written_beside_it(files, capsys):
    for name in ("out.csv", "out.tsv", "out.csv.gz"):
        run("privatize", "in.csv", name, "--seed", 1)
        assert f"Protocol: {name}.protocol.json" in capsys.readouterr().err
        call("estimate", name)
        estimates = capsys.readouterr().out
        call("estimate", name, "--protocol", f"{name}.protocol.json")
        assert capsys.readouterr().out == estimates
        assert skdp.read_protocol(name).guarantee_.epsilon == 1
        call("tally", name, "--out", f"{name}.json")
        call("statement", name)
    assert estimate_file("out.csv").equals(estimate_file("out.tsv"))
    run("privatize", "in.csv", "out.parquet")
    run("privatize", "in.csv", "saved.csv", "--save", "p.json")
    assert not (files / "out.parquet.protocol.json").exists()
    assert not (files / "saved.csv.protocol.json").exists()


def test_other_protocol_beside_a_csv_file_raises_an_error(files, capsys):
    run("privatize", "in.csv", "out.csv", "--columns", "sex")
    call("privatize", "in.csv", "other.csv", *BASE, "--columns", "sex")
    error = refuse(capsys, "estimate", "out.csv", "--protocol", "other.csv.protocol.json")
    assert "out.csv: The metadata of the reports contains the protocol of another" in error
    (files / "out.csv").unlink()
    charged = ["--ledger", "ledger"]
    PrivacyLedger(9.0, path="ledger")
    for words in ([], ["--save", "p.json"]):
        error = refuse(capsys, "privatize", "in.csv", "out.csv", *OPTIONS, *charged, *words)
        assert "out.csv.protocol.json', which exists" in error
    assert PrivacyLedger(path="ledger").spent.epsilon == 0
    (files / "out.csv.protocol.json").write_bytes(b"\xff SECRET")
    (files / "out.csv").write_text("sex\nF\nM\n")
    assert "SECRET" not in refuse(capsys, "estimate", "out.csv")


@pytest.mark.long
def test_permanent_reports_are_repeated(files):
    words = [*BASE, "--columns", "sex"]
    call("privatize", "in.csv", "may.csv", *words, "--person", "id", "--new-key", "key", "--save", "protocol")
    if sys.platform != "win32":
        assert stat.S_IMODE((files / "key").stat().st_mode) == 0o600
    call("privatize", "in.csv", "june.csv", *words, "--person", "id", "--secret-key", "key")
    call("privatize", "in.csv", "july.csv", "--load", "protocol", "--person", "id", "--secret-key", "key")
    key = (files / "key").read_text().strip()
    for name in ("protocol", "may.csv", "june.csv"):
        assert key not in (files / name).read_text()
    may = pd.read_csv("may.csv")
    assert may.equals(pd.read_csv("june.csv"))
    assert may.equals(pd.read_csv("july.csv"))


def test_protocol_is_saved_and_loaded(files, capsys):
    call("privatize", "in.csv", "one.csv", *BASE, "--columns", "sex", "age", "--strategy", "joint", "--save", "p.json")
    saved = ReportTransformer.load("p.json")
    assert isinstance(saved, RandomizedResponseEncoder)
    assert saved.strategy == "joint"
    call("privatize", "in.csv", "two.parquet", "--load", "p.json", "--ledger", "ledger", "--budget", 9)
    assert PrivacyLedger(path="ledger").spent.epsilon == saved.guarantee_.epsilon
    assert skdp.read_protocol("two.parquet").to_json() == saved.to_json()
    (files / "bad.json").write_text("SECRET")
    text = refuse(capsys, "privatize", "in.csv", "three.csv", "--load", "bad.json")
    assert "bad.json: The text must be the protocol" in text
    assert "SECRET" not in text


def test_choices_equal_the_choices_of_the_library(capsys):
    """The parser imports nothing, so it repeats these names."""
    offered = {}
    for command, option in [("estimate", "postprocess"), ("synthesize", "marginals")]:
        with pytest.raises(SystemExit):
            call(command, "--help")
        offered[option] = set(re.search(rf"--{option} {{(.*?)}}", capsys.readouterr().out)[1].split(","))
    assert offered["postprocess"] == set(POSTPROCESSORS)
    with pytest.raises(ValueError, match=r"marginals.* must be") as caught:
        DPMarginalSynthesizer(domain={"x": [1]}, marginals="other").fit(pd.DataFrame({"x": [1]}))
    assert set(re.findall(r"'(\w+)'", str(caught.value))) - {"other"} == offered["marginals"]
