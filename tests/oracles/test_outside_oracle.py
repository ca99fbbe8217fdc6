"""An oracle from outside the package does what those of the package do, with nothing else edited."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import Domain, FrequencyOracleEncoder
from skdp.evaluation import audit_epsilon, bayes_accuracy
from skdp.exact import exp_bounds, log_upper
from skdp.local import SecretKey
from skdp.local.memo import Memo
from skdp.oracles import ORACLES, choose_oracle
from skdp.randomness import SeededSource
from tests.conftest import often
from tests.oracles import outside_oracle as outside

K, N, KEY = 5, 40_000, SecretKey(b"a key that everybody knows, for tests")
CODES = np.repeat(np.arange(K), [N // 2, N // 4, N // 8, N // 16, N // 16]).astype(np.uint8)


@pytest.fixture(params=[outside.FlippedBits, outside.TurnedResponse])
def oracle(request):
    return request.param(K, 1.0)


def test_it_reports_tallies_and_estimates(oracle):
    reports = oracle.report(CODES, SeededSource("outside"))
    assert reports.shape[1:] == (() if oracle.width == 1 else (oracle.width,))
    again = oracle.read(reports.reshape(N, -1).astype(np.int64))
    counts = np.bincount(CODES, minlength=K)
    errors = oracle.estimate(oracle.tally(again), N) - counts
    assert (abs(errors) < 5 * np.sqrt(oracle.variance(counts, N))).all()
    assert oracle.maximum_likelihood(oracle.tally(reports), N, reports).sum() == pytest.approx(N)


def test_its_columns_have_names(oracle):
    assert oracle.fields("abcde") == ([*"abcde"] if oracle.has_bits else [""])
    with pytest.raises(ValueError, match=r"zeros and ones|not ones of this encoder"):
        oracle.read(np.full((1, oracle.width), K))


def test_its_channel_keeps_the_promise(oracle):
    channel = oracle.channel()
    assert all(sum(row) == 1 for row in channel)
    assert len(channel[0]) == oracle.n_reports
    ratio = max(max(report) / min(report) for report in zip(*channel, strict=True))
    assert ratio == oracle.worst_ratio <= exp_bounds(1.0)[1]
    assert oracle.epsilon == log_upper(ratio)


def test_its_permanent_reports_stay_the_same_and_follow_the_channel(oracle):
    memo = Memo(KEY, "outside", Domain({"x": range(K)}), [("x",)], (oracle,), sample=False, unknown=False)
    assert memo.n_states == [K]
    records = [b"%d" % row for row in range(2_000)]
    (reports,), _ = memo.report([CODES[::20].copy()], records)
    (again,), _ = memo.report([CODES[::20].copy()], records)
    assert np.array_equal(reports, again)
    counts = np.bincount(CODES[::20], minlength=K)
    errors = oracle.estimate(oracle.tally(reports), 2_000) - counts
    assert (abs(errors) < 5 * np.sqrt(oracle.variance(counts, 2_000))).all()


def test_the_best_guess_is_that_of_the_channel(oracle):
    prior = np.array([0.4, 0.3, 0.1, 0.1, 0.1])
    channel = np.array(oracle.channel(), float) * prior[:, np.newaxis]
    assert bayes_accuracy(oracle, prior) == pytest.approx(channel.max(axis=0).sum(), rel=1e-12)
    pairs = np.array([channel[:2].sum(axis=0), channel[2:].sum(axis=0)])
    assert bayes_accuracy(oracle, prior, groups=[*"aabbb"]) == pytest.approx(pairs.max(axis=0).sum(), rel=1e-12)


@pytest.mark.parametrize("memoize", [False, True])
def test_a_line_in_the_registry_makes_it_an_encoder(oracle, monkeypatch, memoize):
    monkeypatch.setitem(ORACLES, "outside", type(oracle))
    frame = pd.DataFrame({"x": CODES[:4_000]})
    given = {"memoize": True, "secret_key": KEY} if memoize else {"random_state": 0}
    encoder = FrequencyOracleEncoder(1.0, oracle="outside", categories={"x": range(K)}, **given).fit(frame)
    reports = encoder.transform(frame, record_id=list(range(4_000)) if memoize else None)
    assert list(reports) == ([f"x_{value}" for value in range(K)] if oracle.has_bits else ["x"])
    estimate = encoder.estimate_counts(reports)
    assert (abs(estimate["count"] - np.bincount(CODES[:4_000], minlength=K)) < 5 * estimate["std_error"]).all()


@pytest.mark.long
@pytest.mark.usefixtures("few_calls")
@pytest.mark.parametrize("kind", often([outside.FlippedBits, outside.TurnedResponse], [outside.TurnedResponse]))
@pytest.mark.parametrize("memoize", often([False, True], [False]))
def test_its_encoder_is_audited(kind, monkeypatch, memoize):
    monkeypatch.setitem(ORACLES, "outside", kind)
    given = {"memoize": True, "secret_key": KEY} if memoize else {"random_state": 0}
    encoder = FrequencyOracleEncoder(1.0, oracle="outside", categories={"x": range(3)}, **given)
    result = audit_epsilon(encoder, n_draws=100 if memoize else 2_000, random_state=0)
    assert result.passed
    assert result.epsilon_exact == kind(3, 1.0).epsilon


def test_a_name_may_be_registered_again(monkeypatch):
    class Best(outside.TurnedResponse):
        mean_squared_error = 0.0

    chosen = []
    for kind in (outside.FlippedBits, Best):
        monkeypatch.setitem(ORACLES, "outside", kind)
        chosen.append(choose_oracle(K, 1.0, among=["outside", "randomized_response"])[0])
    assert chosen == ["randomized_response", "outside"]
