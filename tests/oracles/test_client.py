"""The client's sampler has exactly the channel of the oracle, and its test vectors are fixed."""

import importlib.util
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from skdp.oracles import LocalHashing, RandomizedResponse, SubsetSelection, UnaryEncoding
from skdp.randomness import ONE
from tests.conftest import ScriptedSource, often
from tests.oracles.conftest import Script, all_reports, pmf_of

FOLDER = Path(__file__).parents[2] / "examples" / "client"
SPEC = importlib.util.spec_from_file_location("client", FOLDER / "client.py")
client = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(client)
client_report = client.client_report
VECTORS = FOLDER / "client_vectors.json"
FINITE = [
    RandomizedResponse(2, 0.1),
    RandomizedResponse(3, 1.0),
    RandomizedResponse(7, 4.0),
    UnaryEncoding(2, 1.0),
    UnaryEncoding(4, 1.0, variant="symmetric"),
    UnaryEncoding(3, 2.0),
    SubsetSelection(4, 1.0),
    SubsetSelection(5, 0.3),
    SubsetSelection(6, 3.0),
]


@pytest.fixture
def drawn(monkeypatch):
    """Return the report of a client with scripted draws."""
    monkeypatch.setattr(client, "Draws", lambda script: script)
    return client_report


@pytest.mark.parametrize(
    "oracle", often(FINITE, FINITE[1::2]), ids=lambda oracle: f"{type(oracle).__name__}-{oracle.k}"
)
def test_sampler_follows_the_channel(drawn, oracle):
    sampler = json.loads(json.dumps(oracle.sampler()))
    channel = oracle.channel()
    if sampler["kind"] == "response":  # all words of 16 bits, and the probabilities of the two other draws
        assert response_pmf(drawn, sampler, oracle.k - 1) == channel[-1]
        return
    reports = [tuple(np.ravel(report).tolist()) for report in all_reports(oracle)]
    for code, row in enumerate(channel):
        pmf = pmf_of(lambda script, code=code: tuple(drawn(sampler, code, script)))
        assert [pmf[report] for report in reports] == row


def response_pmf(drawn, sampler, code):
    """Return the exact distribution of randomized response, over all its words."""
    k, threshold = sampler["k"], Fraction(int(sampler["threshold"]), ONE)
    sure, undecided = [0] * k, 0
    for word in range(1 << sampler["word_bits"]):
        (report,) = drawn(sampler, code, Script([word, 0, 0]))
        if word // k == sampler["bound"]:
            undecided += 1
            reports = [drawn(sampler, code, Script([word, 1, lie]))[0] for lie in range(k)]
            assert (report, reports) == (code, list(range(k)))
        else:
            sure[report] += 1
    shares = [undecided * (threshold / k + (1 - threshold) * (report == code)) for report in range(k)]
    return [Fraction(count + share) / (1 << sampler["word_bits"]) for count, share in zip(sure, shares, strict=True)]


@pytest.mark.parametrize("oracle", [LocalHashing(5, 1.0), LocalHashing(70_000, 2.0)])
def test_local_hashing_reports_the_bucket_of_its_hash(drawn, oracle):
    sampler = oracle.sampler()
    k = sampler["inner"]["k"]
    own = k * (sampler["inner"]["bound"] + 1)  # a quotient above the bound: the true value
    for factor, summand, code in [(1, 0, 0), (3, 5, 4), (sampler["prime"] - 1, 17, oracle.k - 1)]:
        seed, bucket = drawn(sampler, code, Script([factor, summand, own, 0, 0]))
        assert oracle.hash_family.are_valid(np.array([seed], np.uint64))
        assert bucket == oracle.hash_family(np.array([seed], np.uint64), np.array([code]))[0]


def test_draws_use_the_highest_bits():
    """A coin, a bit vector, and the last value of four and of six, where 7 is resampled."""
    half = {"kind": "bits", "k": 1, "p": str((1 << 63) + 1), "q": "0"}
    assert client_report(half, 0, ScriptedSource([0x80, 0, 0, 0, 0, 0, 0, 0])) == [1]
    assert client_report(half | {"p": str(1 << 63)}, 0, ScriptedSource([0x80, 0, 0, 0, 0, 0, 0, 0])) == [0]
    always = {"kind": "response", "word_bits": 8, "bound": 0, "threshold": str(ONE)}
    for k, given, index in ((4, [0xC0], 3), (6, [0xE0, 0x40], 2), (1 << 16, [0x12, 0x34], 0x1234)):
        assert client_report(always | {"k": k}, 0, ScriptedSource([0, *[0] * 8, *given])) == [index]


def test_vectors_are_reproduced():
    vectors = json.loads(VECTORS.read_text())
    kinds = {vector["sampler"]["kind"] for vector in vectors}
    assert kinds == {"response", "bits", "subset", "hashing"}
    for vector in vectors:
        source = ScriptedSource([*bytes.fromhex(vector["bytes"])])
        assert client_report(vector["sampler"], vector["code"], source) == list(map(int, vector["report"]))
        assert source.used == len(source.script)
