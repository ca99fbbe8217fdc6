"""`to_json` and `from_json`: all that reading reports needs, nothing secret, and a clear refusal of anything else."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from datetime import date
from fractions import Fraction
from http.server import ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skdp import (
    Domain,
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    Interval,
    LocalHashingEncoder,
    NumericPerturber,
    PrivacyLedger,
    RandomizedResponseEncoder,
    RapporEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.engines import estimate_file
from skdp.local import ReportTransformer, SecretKey
from tests.conftest import each, often

CLIENT = Path(__file__).parent.parent.parent / "examples" / "client"
PEOPLE = pd.DataFrame({"sex": ["f", "m", "f", "m"] * 50, "rooms": [1, 2, 3, 1] * 50})
HOURS = pd.DataFrame({"hours": [0.0, 0.1, 0.3, 7.0, np.nan] * 40, "sex": ["f", "m", "f", "m", "m"] * 40})
VALUES = {"sex": ["f", "m"], "rooms": [1, 2, 3]}
KEY = SecretKey(b"a key that nobody may see in a file")
FITTED = {
    "response": (RandomizedResponseEncoder(1.0, categories=VALUES), PEOPLE),
    "joint": (RandomizedResponseEncoder(1.0, strategy="joint", categories=Domain(VALUES)), PEOPLE),
    "sample": (RandomizedResponseEncoder(Fraction(1, 3), strategy="sample", categories=VALUES), PEOPLE),
    "shares": (RandomizedResponseEncoder(1.0, shares={"sex": 1, "rooms": 2}, categories=VALUES), PEOPLE),
    "permanent": (RandomizedResponseEncoder(1.0, memoize=True, secret_key=KEY, categories=VALUES), PEOPLE),
    "two rounds": (
        RandomizedResponseEncoder(1.0, memoize=True, secret_key=KEY, instantaneous_epsilon=0.5, categories=VALUES),
        PEOPLE,
    ),
    "unary": (UnaryEncodingTransformer(1.0, categories=VALUES), PEOPLE),
    "p and q": (UnaryEncodingTransformer(None, p=0.75, q=Fraction(1, 4), categories=VALUES), PEOPLE),
    "subset": (SubsetSelectionEncoder(1.0, categories=VALUES, handle_unknown="uniform"), PEOPLE),
    "unbiased": (SubsetSelectionEncoder(1.0, categories=VALUES, output="unbiased"), PEOPLE),
    "hashing": (LocalHashingEncoder(1.0, categories=VALUES), PEOPLE),
    "large hashing": (LocalHashingEncoder(2.0, categories={"rooms": range(70_000)}), PEOPLE[["rooms"]]),
    "hadamard": (HadamardResponseEncoder(2.0, categories=VALUES), PEOPLE),
    "auto": (FrequencyOracleEncoder(1.0, categories=VALUES), PEOPLE),
    "sketch": (FrequencyOracleEncoder(1.0, oracle="count_mean_sketch", categories=VALUES), PEOPLE),
    "bins": (RandomizedResponseEncoder(1.0, categories={"rooms": Interval(0, 4, bins=4)}), PEOPLE[["rooms"]]),
    "bins and missing": (
        RandomizedResponseEncoder(
            2.0, categories={"hours": Interval(edges=[0, 0.1, 0.3, 7], missing=True), "sex": ["f", "m"]}
        ),
        HOURS,
    ),
    "joint bins": (
        RandomizedResponseEncoder(
            2.0, strategy="joint", categories={"hours": Interval(0, 7, bins=3, missing=True), "sex": ["f", "m"]}
        ),
        HOURS,
    ),
    "sampled bins": (
        RandomizedResponseEncoder(
            2.0, strategy="sample", categories={"hours": Interval(0, 7, bins=7, missing=True), "sex": ["f", "m"]}
        ),
        HOURS,
    ),
    "bits of bins": (
        UnaryEncodingTransformer(2.0, categories={"hours": Interval(-1, 8, bins=3, missing=True), "sex": ["f", "m"]}),
        HOURS,
    ),
    "bins of dates": (
        RandomizedResponseEncoder(
            1.0, categories={"day": Interval(edges=[date(2020, 1, 1), date(2020, 2, 1), date(2020, 3, 1)])}
        ),
        pd.DataFrame({"day": [date(2020, 1, 1), date(2020, 2, 1)]}),
    ),
    "dates": (
        RandomizedResponseEncoder(1.0, categories={"day": [date(2020, 1, 1), date(2020, 1, 2), None]}),
        pd.DataFrame({"day": [date(2020, 1, 1), None]}),
    ),
    "missing": (
        RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m", None]}),
        pd.DataFrame({"sex": ["f", None]}),
    ),
    "array": (RandomizedResponseEncoder(1.0, categories=[["f", "m"]]), np.array([["f"], ["m"]])),
    "numbers": (NumericPerturber(1.0, bounds={"sex": (0, 1), "rooms": (1, 3)}), PEOPLE.assign(sex=0.5)),
    "sampled numbers": (
        NumericPerturber(
            3.0, strategy="sample", bounds={"sex": (0, 1), "rooms": (1, 3)}, weights={"sex": 1, "rooms": 3}
        ),
        PEOPLE.assign(sex=0.5),
    ),
    "bounds of all": (NumericPerturber(1.0, mechanism="laplace", bounds=(0, 5)), PEOPLE[["rooms"]]),
    "rappor": (RapporEncoder(1.0, n_bits=16), PEOPLE[["sex"]]),
}
MADE_BY_CLIENTS = [
    "response",
    "joint",
    "sample",
    "unary",
    "subset",
    "hashing",
    "large hashing",
    "hadamard",
    "sketch",
    "bins",
    "bins and missing",
    "joint bins",
    "sampled bins",
    "bits of bins",
]
NOT_MADE_BY_CLIENTS = {
    "permanent": "makes no permanent ones",
    "unbiased": "not output='unbiased'",
    "bins of dates": "column 'day' has bins of dates",
    "dates": "column 'day' has declared values other than text",
    "numbers": "reports of declared values",
    "rappor": "reports of declared values",
}


def reports_of(name):
    encoder, table = FITTED[name]
    permanent = {"record_id": np.arange(len(table))} if getattr(encoder, "memoize", False) else {}
    return encoder.fit(table), encoder.transform(table, **permanent)


@pytest.mark.parametrize("name", often(FITTED, FITTED.keys() - {"large hashing", "sketch"}))
def test_reports_are_read_as_by_the_one_that_made_them(name, tmp_path):
    encoder, reports = reports_of(name)
    tally, counted = encoder.tally(reports), hasattr(encoder, "estimate_counts") and name != "rappor"
    estimate = encoder.estimate_counts(reports) if counted else None
    encoder.save(tmp_path / "protocol.json")
    for again in (
        type(encoder).from_json(encoder.to_json()),
        ReportTransformer.load(tmp_path / "protocol.json"),
        ReportTransformer.from_json(ReportTransformer.from_json(encoder.to_json()).to_json()),
    ):
        assert type(again) is type(encoder)
        assert again.tally(reports) == tally
        assert again.guarantee_.epsilon == encoder.guarantee_.epsilon
        assert again.guarantee_.scope == encoder.guarantee_.scope
        if counted:
            pd.testing.assert_frame_equal(again.estimate_counts(reports), estimate)


def test_nothing_secret_is_written():
    ledger = PrivacyLedger(epsilon=123.0)
    encoder = RandomizedResponseEncoder(
        1.0, memoize=True, secret_key=KEY, categories=VALUES, ledger=ledger, random_state=987654
    ).fit(PEOPLE)
    text = encoder.to_json()
    for secret in (KEY.hex(), KEY.decode(), "987654", "123.0"):
        assert secret not in text
    content = json.loads(text)
    assert not {"ledger", "random_state", "secret_key"} & set(content["parameters"])
    again = RandomizedResponseEncoder.from_json(text)
    assert again.ledger is None
    assert again.random_state is None
    assert again.secret_key not in (None, KEY)


def test_data_do_not_show():
    """Two tables, one declaration: the same file."""
    texts = {
        RandomizedResponseEncoder(1.0, categories=VALUES).fit(table).to_json()
        for table in (PEOPLE, PEOPLE[:1], PEOPLE[::-1].astype({"rooms": float}), PEOPLE.convert_dtypes())
    }
    assert len(texts) == 1


@each("text", ["", "{}", "[]", "1", "null", '{"format": "skdp-protocol", "version": 2}', "[" * 100_000, "\ud800"])
def test_what_is_no_protocol_is_refused(text):
    with pytest.raises(ValueError, match="no protocol of a local transformer"):
        ReportTransformer.from_json(text)


def test_another_transformer_is_refused():
    text = FITTED["response"][0].fit(PEOPLE).to_json()
    with pytest.raises(ValueError, match="another transformer than UnaryEncodingTransformer"):
        UnaryEncodingTransformer.from_json(text)
    with pytest.raises(ValueError, match="another transformer than ReportTransformer"):
        ReportTransformer.from_json(text.replace("RandomizedResponseEncoder", "Popen"))


def test_other_probabilities_are_refused():
    content = json.loads(FITTED["response"][0].fit(PEOPLE).to_json())
    content["parameters"]["epsilon"] = 1.5
    with pytest.raises(ValueError, match="reports would be misread"):
        ReportTransformer.from_json(json.dumps(content))


@pytest.mark.parametrize("name", ["secret_key", "ledger", "random_state"])
def test_secrets_are_not_read(name):
    content = json.loads(FITTED["response"][0].fit(PEOPLE).to_json())
    content["parameters"][name] = 1
    with pytest.raises(ValueError, match="cannot be read"):
        ReportTransformer.from_json(json.dumps(content))


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "protocol.json"
    path.write_bytes(b"\xff\xfe\x00secret")
    with pytest.raises(ValueError, match="no protocol") as caught:
        ReportTransformer.load(path)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("name", ["response", "subset", "numbers", "rappor", "dates"])
def test_damaged_texts_are_refused_or_mean_the_same(name):
    encoder, reports = reports_of(name)
    text, rng = encoder.to_json(), random.Random(name)
    expected, read = encoder.tally(reports), 0
    for _ in range(100):
        damaged = list(text)
        for _ in range(rng.choice([1, 1, 2, 5])):
            place = rng.randrange(len(damaged))
            damaged[place] = rng.choice(["", "0", "9", '"', "}", "x", damaged[place] * 2])
        if (again := read_or_none("".join(damaged))) is not None:
            read += 1  # what is for clients and people was damaged, or nothing
            assert again.tally(reports) == expected
    assert read < 90


def read_or_none(text):
    with contextlib.suppress(ValueError):
        return ReportTransformer.from_json(text)


def test_parameters_that_change_after_fit_are_not_written():
    shares = {"sex": 1.0, "rooms": 2.0}
    encoder = RandomizedResponseEncoder(1.0, shares=shares, categories=VALUES).fit(PEOPLE)
    shares["sex"] = 7.0
    assert json.loads(encoder.to_json())["parameters"]["shares"] == {"mapping": [["sex", 1.0], ["rooms", 2.0]]}
    assert ReportTransformer.from_json(encoder.to_json()).guarantee_.epsilon == encoder.guarantee_.epsilon


@each("change", [{"epsilon": 0.001}, {"delta": 0.1}, {"relation": "add_remove"}, {"trust": "central"}])
def test_another_guarantee_is_refused(change):
    content = json.loads(FITTED["response"][0].fit(PEOPLE).to_json())
    content["guarantee"] |= change
    with pytest.raises(ValueError, match="another guarantee, or another client"):
        ReportTransformer.from_json(json.dumps(content))


@each("guarantee", [None, 1, {}, []])
def test_a_text_without_guarantee_is_refused(guarantee):
    content = json.loads(FITTED["response"][0].fit(PEOPLE).to_json())
    with pytest.raises(ValueError, match="another guarantee, or another client"):
        ReportTransformer.from_json(json.dumps(content | {"guarantee": guarantee}))


def test_another_client_is_refused():
    """A client that tells the truth always, under a guarantee of epsilon 1."""
    content = json.loads(FITTED["response"][0].fit(PEOPLE).to_json())
    content["client"]["samplers"][0] |= {"bound": 0, "threshold": "0"}
    with pytest.raises(ValueError, match="another guarantee, or another client"):
        ReportTransformer.from_json(json.dumps(content))
    content["client"] = None
    assert ReportTransformer.from_json(json.dumps(content)).guarantee_.epsilon == 1


@pytest.mark.parametrize("value", [2**53, -(2**53)])
def test_whole_numbers_that_javascript_confuses_are_not_offered(value):
    other = value + 1 if value > 0 else value - 1
    encoder = RandomizedResponseEncoder(1.0, categories={"id": [other, value]}).fit(pd.DataFrame({"id": [value]}))
    assert json.loads(encoder.to_json())["client"] is None
    least = RandomizedResponseEncoder(1.0, categories={"id": [2**53 - 1, 1 - 2**53]}).fit(pd.DataFrame({"id": [1]}))
    assert json.loads(least.to_json())["client"] is not None


def test_permanent_bits_stay_permanent():
    """A report of permanent bits costs more than one of bits that are drawn again."""
    encoder = RapporEncoder(1.0, n_bits=16, secret_key=KEY).fit(PEOPLE[["sex"]])
    again = ReportTransformer.from_json(encoder.to_json())
    assert again.guarantee_ == encoder.guarantee_
    assert again.guarantee_.epsilon > RapporEncoder(1.0, n_bits=16).fit(PEOPLE[["sex"]]).guarantee_.epsilon
    assert again.secret_key not in (None, KEY)
    assert KEY.hex() not in encoder.to_json()


@pytest.mark.parametrize("name", MADE_BY_CLIENTS)
def test_clients_are_given_what_they_need(name):
    encoder = FITTED[name][0].fit(FITTED[name][1])
    client = json.loads(encoder.to_json())["client"]
    assert client["report_columns"] == list(map(str, encoder.protocol_.report_columns))
    assert client["samplers"] == [oracle.sampler() for oracle in encoder.protocol_.oracles]
    assert [column["name"] for column in client["columns"]] == list(encoder.protocol_.domain.columns)


@each("name", NOT_MADE_BY_CLIENTS)
def test_reports_that_the_client_cannot_make_are_not_offered(name, tmp_path):
    encoder, table = FITTED[name]
    encoder.fit(table).save(tmp_path / "protocol.json")
    content = json.loads((tmp_path / "protocol.json").read_text())
    assert content["client"] is None
    assert NOT_MADE_BY_CLIENTS[name] in content["no_client"]
    ReportTransformer.load(tmp_path / "protocol.json")


@each("name", ["response", "bins"])
def test_no_reason_is_given_where_there_is_a_client(name):
    encoder, table = FITTED[name]
    assert "no_client" not in json.loads(encoder.fit(table).to_json())


def test_bins_that_hold_no_float_of_their_own_are_not_offered():
    edges = [0.0, 1.0, np.nextafter(1.0, 2.0), 2.0]
    encoder = RandomizedResponseEncoder(1.0, categories={"rooms": Interval(edges=edges)}).fit(
        PEOPLE[["rooms"]].iloc[:1]
    )
    assert json.loads(encoder.to_json())["client"] is not None  # the middle of the narrow bin is its lower edge
    edges = [0.0, np.nextafter(1.0, 2.0), np.nextafter(np.nextafter(1.0, 2.0), 2.0), 2.0]
    encoder = RandomizedResponseEncoder(1.0, categories={"rooms": Interval(edges=edges)}).fit(
        PEOPLE[["rooms"]].iloc[:1]
    )
    content = json.loads(encoder.to_json())
    assert content["client"] is None
    assert "bins without a number between their edges" in content["no_client"]


@each("change", [True, 1.0, "1"])
def test_a_client_with_a_number_of_another_type_is_refused(change):
    """They are equal in Python, but not in other languages: `0 === "0"` is false."""
    encoder = HadamardResponseEncoder(2.0, categories={"sex": ["f", "m"]}, n_blocks=1).fit(PEOPLE[["sex"]])
    content = json.loads(encoder.to_json())
    assert content["client"]["samplers"][0]["n_blocks"] == 1
    content["client"]["samplers"][0]["n_blocks"] = change
    with pytest.raises(ValueError, match="another client"):
        ReportTransformer.from_json(json.dumps(content))


def test_a_transformer_of_arrays_is_one_again():
    rows = np.zeros((3, 2), int)
    encoder = RandomizedResponseEncoder(1.0, categories=[[0, 1], [0, 1]]).fit(rows)
    copy = RandomizedResponseEncoder.from_json(encoder.to_json())
    assert not hasattr(copy, "feature_names_in_")
    assert copy.transform(rows).shape == (3, 2)  # without scikit-learn's warning of names
    assert copy.to_json() == encoder.to_json()


def test_seeds_of_hashes_may_be_text():
    """JSON numbers of 62 bits are not read exactly everywhere; as floats they would be other seeds."""
    encoder, reports = reports_of("large hashing")
    reports = reports.iloc[:10]
    written = reports.astype({"rooms_seed": str})
    assert encoder.tally(written) == encoder.tally(reports)
    with pytest.raises(ValueError, match="the reports hold something else than whole numbers"):
        encoder.tally(reports.astype({"rooms_seed": str}).assign(rooms_seed="-1"))


NEEDS_NODE = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")


@NEEDS_NODE
def test_the_client_passes_its_own_tests():
    """Its vectors, and random protocols, of which it refuses those that tell more than they state."""
    done = subprocess.run(["node", "--test", CLIENT], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def lines_of_the_client(name, folder):
    """Return the reports that the client makes of a table, 50 of each record, as JSON lines."""
    encoder, table = FITTED[name]
    encoder.fit(table).save(folder / "protocol.json")
    table.to_json(folder / "people.json", orient="records")
    script = f"""
        import {{ readFileSync }} from "node:fs";
        import {{ report }} from {json.dumps((CLIENT / "skdp.mjs").as_uri())};
        const read = (name) => JSON.parse(readFileSync(name, "utf8"));
        const protocol = read("protocol.json");
        const people = read("people.json");
        for (let i = 0; i < 50; i++) for (const one of people) console.log(JSON.stringify(report(protocol, one)));
    """
    command = ["node", "--input-type=module", "-e", script]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.long
@NEEDS_NODE
class TestJavaScript:
    @pytest.mark.parametrize("name", MADE_BY_CLIENTS)
    def test_reports_are_accepted_and_estimated(self, name, tmp_path):
        encoder, table = FITTED[name]
        lines = lines_of_the_client(name, tmp_path)
        reports = pd.DataFrame([json.loads(line) for line in lines.splitlines()])
        assert len(reports) == 50 * len(table)
        if name == "large hashing":
            assert encoder.tally(reports).n_reports == len(reports)
            return
        found = encoder.estimate_counts(reports)
        codes = encoder.protocol_.domain.encode([table[name] for name in table])
        labels = [encoder.protocol_.domain[name].labels for name in table]
        cells = pd.DataFrame(
            {name: np.array(own, object)[code] for name, own, code in zip(table, labels, codes, strict=True)}
        )
        if encoder.strategy == "joint":
            true = cells.value_counts(list(cells), dropna=False)
        elif len(cells.columns) == 1:
            true = cells.iloc[:, 0].value_counts(dropna=False)
        else:
            true = pd.concat({name: cells[name].value_counts(dropna=False) for name in cells})
        true = true.reindex(found.index).fillna(0)
        n_attributes = len(encoder.protocol_.attributes)
        assert true.sum() == len(table) * n_attributes
        off = (found["count"] - 50 * true) / found["std_error"]
        assert off.abs().max() < 5.5

    @pytest.mark.parametrize("name", ["bins and missing", "sampled bins"])
    def test_lines_of_bins_are_tallied(self, name, tmp_path):
        rows = [json.loads(line) for line in lines_of_the_client(name, tmp_path).splitlines()]
        encoder = ReportTransformer.load(tmp_path / "protocol.json")
        tally = encoder.tally(pd.DataFrame(rows))
        n_reports = 50 * len(HOURS)
        expected = [n_reports, n_reports] if encoder.strategy == "split" else [n_reports]
        assert (list(tally.sizes) if encoder.strategy == "split" else [sum(tally.sizes)]) == expected


def test_the_collector_keeps_reports_and_refuses_others(tmp_path):
    namespace = {"__name__": "collector", "__file__": str(CLIENT / "collector.py")}
    exec(compile((CLIENT / "collector.py").read_text(), "collector.py", "exec"), namespace)
    collector = namespace["Collector"]
    collector.protocol, collector.reports = tmp_path / "protocol.json", tmp_path / "reports.jsonl"
    encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]}).fit(PEOPLE[["sex"]])
    encoder.save(collector.protocol)
    server = ThreadingHTTPServer(("127.0.0.1", 0), collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"

    def ask(path, data=None):
        try:
            with urllib.request.urlopen(address + path, data=data, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    try:
        assert ask("/estimate")[0] == 404
        assert ask("/")[1].startswith("<!doctype html>")
        assert {
            ask(f"/{module.name}")[0] for module in CLIENT.glob("*.mjs") if not module.name.endswith(".test.mjs")
        } == {200}
        assert json.loads(ask("/protocol.json")[1])["client"]["report_columns"] == ["sex"]
        for row in encoder.transform(PEOPLE[["sex"]])["sex"][:8]:
            assert ask("/report", json.dumps({"sex": row}).encode())[0] == 200
        others = [b"", b"{", b'{"sex": "secret"}', b'{"age": 3}', b"[]", b"x" * (1 << 17), b"[" * 30_000]
        others += [
            b'{"sex": NaN}',
            b'{"sex": "f", "sex": "m"}',
            b'{"sex": "f"}\n{"sex": "f"}',
            b'{"sex": ["f"]}',
            b"\xff",
            b"\n",
        ]
        for other in others:
            status, text = ask("/report", other)
            assert (status, "secret" in text) == (400, False)
        assert len(collector.reports.read_text().splitlines()) == 8
        assert "std_error" in ask("/estimate")[1]
        (tmp_path / "tally.json").write_text(ask("/tally.json")[1])
        assert estimate_file(tmp_path / "tally.json")["count"].sum() == pytest.approx(8)
        assert ask("/../collector.py")[0] == 404
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.long
def test_what_would_not_be_read_is_not_written():
    table = pd.DataFrame({f"x{place}": [0.5] for place in range(1_025)})
    wide = NumericPerturber(1_025.0, mechanism="laplace", bounds=(0, 1), grid_size=1).fit(table)
    with pytest.raises(ValueError, match="a protocol as JSON has at most 1,024 columns, got 1,025"):
        wide.to_json()
    assert len(wide.transform(table)) == 1  # its reports carry none
    assert NumericPerturber.from_json(wide.fit(table.iloc[:, :1_024]).to_json()).n_features_in_ == 1_024


@pytest.mark.long
def test_many_columns_of_the_finest_grid_are_written_and_read():
    table = pd.DataFrame({f"x{place}": [0.5] for place in range(20)})
    fine = NumericPerturber(20.0, bounds=(0, 1), grid_size=1 << 16).fit(table)
    assert NumericPerturber.from_json(fine.to_json()).guarantee_ == fine.guarantee_
