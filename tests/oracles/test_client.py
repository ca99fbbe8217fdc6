"""The client's sampler has the channel of the oracle, exactly, and its test vectors do not change."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import skdp.oracles
from skdp.oracles import (
    CountMeanSketch,
    Draws,
    HadamardResponse,
    LocalHashing,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
    client_report,
)
from skdp.randomness import ONE
from tests.conftest import each

VECTORS = Path(skdp.oracles.__file__).with_name("client_vectors.json")
FINITE = [
    RandomizedResponse(2, 0.1),
    RandomizedResponse(3, 1.0),
    RandomizedResponse(7, 4.0),
    UnaryEncoding(2, 1.0),
    UnaryEncoding(4, 1.0, variant="symmetric"),
    UnaryEncoding(3, p=0.75, q=0.25),
    SubsetSelection(4, 1.0),
    SubsetSelection(5, 0.3),
    SubsetSelection(6, 3.0),
    HadamardResponse(3, 1.0),
    HadamardResponse(6, 4.0, n_blocks=4),
    HadamardResponse(9, 0.5),
]


class Scripted:
    """Draws that follow a script of outcomes, 0 after its end, and note what each draw is."""

    def __init__(self, outcomes):
        self.outcomes, self.drawn = outcomes, []

    def _next(self, what):
        self.drawn.append(what)
        place = len(self.drawn) - 1
        return self.outcomes[place] if place < len(self.outcomes) else 0

    def coin(self, threshold):
        return bool(self._next(Fraction(threshold, ONE)))

    def uniform(self, high):
        return self._next(high)


def chances(what):
    """Return the probability of each outcome of a draw: of a coin, a fraction, or of a uniform integer."""
    return [1 - what, what] if isinstance(what, Fraction) else [Fraction(1, what)] * what


def law(sampler, code):
    """Return the exact probability of each report: all outcomes of all draws."""
    found, waiting = {}, [([], Fraction(1))]
    while waiting:
        outcomes, chance = waiting.pop()
        draws = Scripted(outcomes)
        report = tuple(client_report(sampler, code, draws))
        if len(draws.drawn) == len(outcomes):
            found[report] = found.get(report, 0) + chance
        else:
            split = chances(draws.drawn[len(outcomes)])
            waiting += [([*outcomes, i], chance * share) for i, share in enumerate(split) if share]
    assert sum(found.values()) == 1
    return found


@pytest.mark.parametrize("oracle", FINITE, ids=lambda oracle: f"{type(oracle).__name__}-{oracle.k}")
def test_the_law_is_the_channel(oracle):
    sampler = json.loads(json.dumps(oracle.sampler()))
    channel = oracle.channel()
    if sampler["kind"] == "response":  # all words of 16 bits, the two other draws by their chances
        assert [response_law(sampler, code) for code in (0, oracle.k - 1)] == [channel[0], channel[-1]]
        return
    laws = [law(sampler, code) for code in range(oracle.k)]
    for found, row in zip(laws, channel, strict=True):
        assert sorted(found.values()) == sorted(chance for chance in row if chance)
        ratios = [found[report] / other[report] for other in laws for report in found]
        assert max(ratios) <= oracle.worst_ratio


def response_law(sampler, code):
    """Return the exact law of randomised response, over all of its words."""
    k, threshold = sampler["k"], Fraction(int(sampler["threshold"]), ONE)
    sure, undecided = [0] * k, 0
    for word in range(1 << sampler["word_bits"]):
        (report,) = client_report(sampler, code, Scripted([word, 0, 0]))
        if word // k == sampler["bound"]:
            undecided += 1
            reports = [client_report(sampler, code, Scripted([word, 1, lie]))[0] for lie in range(k)]
            assert (report, reports) == (code, list(range(k)))
        else:
            sure[report] += 1
    shares = [undecided * (threshold / k + (1 - threshold) * (report == code)) for report in range(k)]
    return [Fraction(count + share) / (1 << sampler["word_bits"]) for count, share in zip(sure, shares, strict=True)]


def test_the_laws_of_the_reports_are_those_of_the_channels_columns():
    """Sorted probabilities could belong to other reports: compare report by report where these are numbers."""
    oracle = HadamardResponse(6, 1.0)
    for code, row in enumerate(oracle.channel()):
        found = law(oracle.sampler(), code)
        assert [found.get((report,), 0) for report in range(oracle.n_indices)] == row
    for oracle in (SubsetSelection(4, 1.0), UnaryEncoding(3, 1.0)):
        for code in range(oracle.k):
            for report, chance in law(oracle.sampler(), code).items():
                supports = oracle.supports(np.array([report], np.uint8))[0]
                own = law(oracle.sampler(), code)[report]
                assert own == chance
                assert tuple(supports.astype(int)) == report


@pytest.mark.parametrize("oracle", [LocalHashing(5, 1.0), LocalHashing(70_000, 2.0)])
def test_local_hashing_sends_the_bucket_of_its_hash(oracle):
    sampler = oracle.sampler()
    k = sampler["inner"]["k"]
    own = k * (sampler["inner"]["bound"] + 1)  # a quotient above the bound: the truth
    for factor, summand, code in [(1, 0, 0), (3, 5, 4), (sampler["prime"] - 1, 17, oracle.k - 1)]:
        seed, bucket = client_report(sampler, code, Scripted([factor, summand, own, 0, 0]))
        assert oracle.hash_family.valid(np.array([seed], np.uint64))
        assert bucket == oracle.hash_family(np.array([seed], np.uint64), np.array([code]))[0]


def test_the_sketch_sends_the_bucket_of_its_function():
    oracle = CountMeanSketch(1000, 2.0, n_functions=3, n_buckets=16)
    sampler = json.loads(json.dumps(oracle.sampler()))
    for function in range(3):
        for code in (0, 1, 999):
            bucket = int(oracle.hash_family(np.array([function]), np.array([code]))[0])
            drawn, index = client_report(sampler, code, Scripted([function, 0, 0]))
            assert drawn == function
            assert [index] == client_report(sampler["inner"], bucket, Scripted([0, 0]))


@each("oracle", [*FINITE, LocalHashing(5, 1.0), CountMeanSketch(1000, 2.0, n_functions=3, n_buckets=16)])
def test_which_draws_are_made_does_not_depend_on_the_code_or_the_outcome(oracle):
    sampler, rng = oracle.sampler(), np.random.default_rng(0)
    made = set()
    for _ in range(200):
        draws = Random(rng)
        client_report(sampler, int(rng.integers(oracle.k)), draws)
        made.add(tuple(draws.made))
    assert len(made) == 1


class Random:
    def __init__(self, rng):
        self.rng, self.made = rng, []

    def coin(self, threshold):
        self.made.append("coin")
        return bool(self.rng.random() < threshold / ONE)

    def uniform(self, high):
        self.made.append(high)
        return int(self.rng.integers(high))


class Bytes:
    """A source that gives listed bytes."""

    def __init__(self, data):
        self.left = bytes(data)

    def bytes(self, size):
        given, self.left = self.left[:size], self.left[size:]
        assert len(given) == size
        return np.frombuffer(given, np.uint8)


def test_draws_read_the_highest_bits():
    assert Draws(Bytes([0x80, 0, 0, 0, 0, 0, 0, 0])).coin((1 << 63) + 1)
    assert not Draws(Bytes([0x80, 0, 0, 0, 0, 0, 0, 0])).coin(1 << 63)
    assert Draws(Bytes([])).uniform(1) == 0
    assert Draws(Bytes([0xC0])).uniform(4) == 3
    assert Draws(Bytes([0xE0, 0x40])).uniform(6) == 2  # 7 is drawn again
    assert Draws(Bytes([0x12, 0x34])).uniform(1 << 16) == 0x1234
    counts = np.bincount([Draws(Bytes([byte])).uniform(5) for byte in range(256) if byte >> 5 < 5])
    assert counts.tolist() == [32] * 5


@each("code", [-1, 4, True, 1.0, "secret", None])
def test_codes_that_do_not_fit_are_refused_before_a_draw(code):
    with pytest.raises((TypeError, ValueError), match="code must be") as caught:
        client_report(RandomizedResponse(4, 1.0).sampler(), code, Draws(Bytes([])))
    assert "secret" not in str(caught.value)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind must be one of"):
        client_report({"kind": "shout", "k": 2}, 0, Draws(Bytes([])))


def test_the_vectors_hold():
    vectors = json.loads(VECTORS.read_text())
    assert {vector["sampler"]["kind"] for vector in vectors} == {
        "response",
        "bits",
        "subset",
        "hadamard",
        "hashing",
        "sketch",
    }
    for vector in vectors:
        source = Bytes(bytes.fromhex(vector["bytes"]))
        assert client_report(vector["sampler"], vector["code"], Draws(source)) == list(map(int, vector["report"]))
        assert source.left == b""
