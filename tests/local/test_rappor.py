from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, chisquare, norm
from sklearn.base import clone

from skdp import BudgetExceeded, PrivacyLedger
from skdp.exact import exp_bounds
from skdp.local import RapporEncoder
from skdp.oracles import BloomRandomizer
from skdp.randomness import ONE
from tests.conftest import each

FALSE_ALARM = 1e-6
KEY = bytes(range(32))


def filters(n_bits, n_hashes):
    """List all filters that a value can have."""
    for size in range(1, n_hashes + 1):
        for places in combinations(range(n_bits), size):
            yield tuple(int(bit in places) for bit in range(n_bits))


def worst_ratio(channel):
    return max(max(column) / min(column) for column in zip(*channel, strict=True))


ROUNDS = [{"f": 0.5}, {"f": 0.3, "p": 0.1, "q": 0.4}, {"f": 0.9, "p": 0.75, "q": 0.95}, {"f": 0.25, "p": 0.0, "q": 1.0}]


class TestPromise:
    @pytest.mark.parametrize("rounds", ROUNDS)
    @pytest.mark.parametrize(
        ("n_bits", "n_hashes"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (4, 3), (5, 2)]
    )
    def test_both_channels_are_exactly_as_stated(self, n_bits, n_hashes, rounds):
        """Enumerate every pair of filters, every vector of bits: the stated ratio is reached and never exceeded."""
        rappor = BloomRandomizer(n_bits, n_hashes, 1, **rounds)
        possible = list(filters(n_bits, n_hashes))
        permanent, report = rappor.channel(possible, permanent=True), rappor.channel(possible)
        assert all(sum(row) == 1 for row in (*permanent, *report))
        assert worst_ratio(permanent) == rappor.permanent_ratio
        assert worst_ratio(report) == rappor.report_ratio <= rappor.permanent_ratio

    @pytest.mark.parametrize("n_reports", [1, 2, 3])
    @pytest.mark.parametrize("rounds", ROUNDS)
    def test_many_memoised_reports_stay_below_the_permanent_round(self, rounds, n_reports):
        rappor = BloomRandomizer(3, 1, 1, **rounds)
        possible, vectors = list(filters(3, 1)), list(product((0, 1), repeat=3))
        heads = [Fraction(share, ONE) for share in rappor.heads]
        second = [
            [math.prod(heads[bit] if seen else 1 - heads[bit] for bit, seen in zip(b, s, strict=True)) for s in vectors]
            for b in vectors
        ]
        sequences = [
            [
                sum(share * math.prod(second[bits][seen] for seen in sequence) for bits, share in enumerate(row))
                for sequence in product(range(8), repeat=n_reports)
            ]
            for row in rappor.channel(possible, permanent=True)
        ]
        ratios = [a / b for x in sequences for y in sequences for a, b in zip(x, y, strict=True) if a or b]
        assert max(ratios) <= rappor.permanent_ratio
        if n_reports == 1:
            assert max(ratios) == rappor.report_ratio

    @each("epsilon", [1e-9, 1e-3, 0.1, math.log(3), 1.0, 4.0, 20.0, 36.0, 40.0, 150.0, 700.0])
    @each("n_bits, n_hashes", [(128, 1), (128, 2), (128, 4), (8, 8)])
    def test_epsilon_is_kept_and_used(self, epsilon, n_bits, n_hashes):
        rappor = BloomRandomizer(n_bits, n_hashes, 8, epsilon=epsilon)
        assert rappor.permanent_ratio <= exp_bounds(epsilon)[0]
        if 1 < rappor.flip < ONE // 2:
            assert Fraction(ONE - rappor.flip + 1, rappor.flip - 1) ** rappor.differing_bits > exp_bounds(epsilon)[0]

    def test_the_guarantees_add_up_over_columns(self):
        frame = pd.DataFrame({"a": ["x"], "b": ["y"]})
        encoder = RapporEncoder(1.0).fit(frame)
        assert 1.0 - 1e-9 < encoder.permanent_guarantee_.epsilon <= 1.0
        assert encoder.guarantee_ == encoder.instantaneous_guarantee_
        assert RapporEncoder(1.0, secret_key=KEY).fit(frame).guarantee_ == encoder.permanent_guarantee_
        assert encoder.guarantee_.scope == ("a", "b")
        assert encoder.instantaneous_guarantee_.epsilon < encoder.permanent_guarantee_.epsilon
        one = RapporEncoder(None, f=0.5).fit(frame[["a"]])
        assert one.permanent_guarantee_.epsilon == pytest.approx(4 * math.log(3))
        assert one.instantaneous_guarantee_.epsilon == pytest.approx(2 * math.log((11 * 7) / (9 * 5)))
        assert one.guarantee_.secure
        assert not clone(one).set_params(random_state=1).fit(frame).guarantee_.secure


class TestChannel:
    N = 40_000

    @pytest.mark.parametrize("memoised", [False, True])
    @pytest.mark.parametrize("rounds", ROUNDS)
    def test_reports_follow_it(self, rounds, memoised):
        encoder = RapporEncoder(
            None, n_bits=4, n_hashes=2, n_cohorts=2, random_state=3, secret_key=KEY if memoised else None, **rounds
        )
        rows = pd.DataFrame({"x": ["word"] * self.N})
        reports = encoder.fit_transform(rows, record_id=np.arange(self.N) if memoised else None)
        rappor = encoder.randomizer_
        sizes = reports["cohort"].value_counts()
        assert binomtest(int(sizes[0]), self.N).pvalue > FALSE_ALARM
        for cohort in range(2):
            own = np.zeros(4, int)
            own[rappor.places(cohort, b"s word")] = 1
            bits = reports.loc[reports["cohort"] == cohort].to_numpy()[:, 1:]
            seen = np.bincount(bits @ [8, 4, 2, 1], minlength=16)
            expected = np.array(rappor.channel([own])[0], float) * len(bits)
            assert chisquare(seen, expected).pvalue > FALSE_ALARM

    def test_the_hash_functions_never_change(self):
        rappor = BloomRandomizer(128, 5, 8, f=0.5)
        first = hashlib.sha256(b"skdp bloom filter 3 0 s word").digest()
        assert rappor.places(3, b"s word")[:4].tolist() == [
            int.from_bytes(first[at : at + 8], "big") % 128 for at in range(0, 32, 8)
        ]
        assert rappor.places(3, b"s word").tolist() == [100, 70, 59, 108, 2]
        counts = np.bincount(np.concatenate([rappor.places(0, b"%d" % word) for word in range(20_000)]), minlength=128)
        assert chisquare(counts).pvalue > FALSE_ALARM


def permanent(rows, ids, *, key=KEY, column="x", **parameters):
    """Return the cohorts and the permanent bits: reports without a second round."""
    encoder = RapporEncoder(**({"epsilon": None, "f": 0.5, "p": 0.0, "q": 1.0, "n_bits": 64} | parameters))
    return encoder.set_params(secret_key=key).fit_transform(pd.DataFrame({column: rows}), record_id=ids).to_numpy()


class TestMemory:
    def test_everything_in_the_key_matters(self):
        def flips(value="a", record="r", n_bits=64, **parameters):
            """Return the bits that are flipped of the filter of a value."""
            bits = permanent([value], [record], n_cohorts=1, n_bits=n_bits, **parameters)[0, 1:].copy()
            bits[BloomRandomizer(n_bits, 2, 1, f=0.5).places(0, b"s " + value.encode())] ^= 1
            return tuple(bits[:64].tolist())

        changes = [{"record": "s"}, {"record": 1}, {"value": "b"}, {"key": KEY[::-1]}, {"column": "y"}, {"f": 0.51}]
        # The same flips of a filter of another size would show the filters themselves.
        changes += [{"n_bits": 65}, {"record": "x", "value": "s y"}, {"record": "xs ", "value": "y"}]
        assert len({flips(), *(flips(**change) for change in changes)}) == 1 + len(changes)

    def test_the_cohort_belongs_to_the_record_not_to_the_value(self):
        ids = np.arange(300)
        one, two = permanent(["a"] * 300, ids), permanent(["b"] * 300, ids)
        assert np.array_equal(one[:, 0], two[:, 0])
        assert set(one[:, 0]) == set(range(8))

    def test_the_average_of_many_reports_shows_the_permanent_bits_and_no_more(self):
        rows, ids = pd.DataFrame({"x": ["a"] * 20}), np.arange(20)
        kept = permanent(["a"] * 20, ids, n_cohorts=1)[:, 1:]
        encoder = RapporEncoder(None, f=0.5, p=0.25, n_bits=64, n_cohorts=1, secret_key=KEY, random_state=0).fit(rows)
        mean = np.mean([encoder.transform(rows, record_id=ids).to_numpy()[:, 1:] for _ in range(60)], axis=0)
        assert np.array_equal(mean > 0.5, kept)
        # With fresh permanent coins each time, it would show the filter.
        forgetful = RapporEncoder(None, f=0.5, p=0.25, n_bits=64, n_cohorts=1, random_state=0).fit(rows)
        own = np.zeros(64, int)
        own[encoder.randomizer_.places(0, b"s a")] = 1
        mean = np.mean([forgetful.transform(rows).to_numpy()[:, 1:] for _ in range(40)], axis=0).mean(axis=0)
        assert np.array_equal(mean > 0.5, own)
        assert not np.array_equal(kept[0], own)


def example(n=20_000):
    words = ["alpha"] * (n // 2) + ["beta"] * (n // 4) + ["gamma"] * (n // 8) + ["delta"] * (n // 8)
    return pd.DataFrame({"x": words})


class TestDecoding:
    @pytest.mark.parametrize(
        ("shape", "rounds"),
        [
            ((32, 2, 4), {"f": 0.5}),
            pytest.param((8, 1, 16), {"f": 0.1, "p": 0.0, "q": 1.0}, marks=pytest.mark.long),
            pytest.param((16, 3, 1), {"f": 0.2}, marks=pytest.mark.long),
        ],
    )
    def test_least_squares_is_unbiased_and_its_errors_are_right(self, shape, rounds):
        runs, words = 25, [f"w{place}" for place in range(10)]
        truth = np.array([600, 400, 300, 200, 150, 100, 100, 50, 50, 0])
        rows = pd.DataFrame({"x": np.repeat(words, truth)})
        n_bits, n_hashes, n_cohorts = shape
        encoder = RapporEncoder(
            None, n_bits=n_bits, n_hashes=n_hashes, n_cohorts=n_cohorts, random_state=5, **rounds
        ).fit(rows)
        tables = [encoder.decode(encoder.transform(rows), words, method="least_squares") for _ in range(runs)]
        counts, errors = (np.array([table[name] for table in tables]) for name in ("count", "std_error"))
        score = (counts.mean(axis=0) - truth) / (counts.std(axis=0, ddof=1) / math.sqrt(runs))
        assert abs(score).max() < norm.isf(FALSE_ALARM / 20)
        assert (counts.std(axis=0, ddof=1) / errors.mean(axis=0) == pytest.approx(np.ones(10), abs=0.4)) is True
        inside = abs(counts - truth) <= 1.96 * errors
        assert 0.91 < inside.mean() < 0.985

    @pytest.mark.parametrize("method", ["nnls", "lasso", "least_squares"])
    def test_all_methods_find_the_counts(self, method):
        rows = example()
        encoder = RapporEncoder(None, f=0.5, n_bits=64, random_state=0)
        reports = encoder.fit_transform(rows)
        table = encoder.decode(reports, ["alpha", "beta", "gamma", "nothing"], method=method)  # "delta" is not listed
        assert table.index.tolist() == ["alpha", "beta", "gamma", "nothing"]
        assert table.index.name == "candidate"
        true = np.array([10_000, 5_000, 2_500, 0])
        counted = table["std_error"].notna()
        assert counted.iloc[:3].all()
        assert (abs(table["count"] - true)[counted] < 5 * table["std_error"][counted]).all()
        assert (table["std_error"][counted] < 800).all()
        if method != "least_squares":
            assert (table["count"] >= 0).all()

    def test_a_lasso_takes_more_candidates_than_there_are_bits(self):
        rows = example(100_000)
        encoder = RapporEncoder(None, f=0.25, p=0.1, q=0.9, n_bits=32, n_cohorts=4, random_state=2)
        tally = encoder.fit(rows).tally(encoder.transform(rows))
        words = ["alpha", "beta", "gamma", "delta", *(f"absent{place}" for place in range(400))]
        table = encoder.decode(tally, words, method="lasso")
        true = np.array([50_000, 25_000, 12_500, 12_500])
        assert (abs(table["count"].iloc[:4] - true) < 5 * table["std_error"].iloc[:4]).all()
        assert (table["count"].iloc[4:] > 2_000).sum() == 0
        with pytest.raises(ValueError, match="do not distinguish these candidates"):
            encoder.decode(tally, words, method="least_squares")
        assert encoder.decode(tally, words, method="nnls")["std_error"].isna().all()

    @each("cohort", [-1, 2, 0.5])
    def test_cohorts_of_something_else_are_refused(self, cohort):
        encoder = RapporEncoder(n_bits=4, n_cohorts=2).fit(example(80))
        with pytest.raises(ValueError, match="cohorts of the reports"):
            encoder.tally(encoder.transform(example(80)).assign(cohort=cohort))


class TestFrames:
    def test_missing_is_an_error_or_a_value(self, make_frame):
        frame = make_frame({"x": ["a", None]}, {"x": ["a", None]})
        with pytest.raises(ValueError, match=r"column 'x' holds missing values .* handle_missing='value'"):
            RapporEncoder().fit_transform(frame)
        encoder = RapporEncoder(400.0, p=0.0, q=1.0, n_bits=64, n_cohorts=1, handle_missing="value")
        table = encoder.fit(frame).decode(encoder.transform(frame), ["a", None])
        assert table["count"].round().tolist() == [1, 1]


class TestParameters:
    def test_the_ledger(self):
        rows, ids = example(8), np.arange(8)
        encoder = RapporEncoder(None, f=0.5)
        for constant, times in ((False, 3), (True, 1)):
            ledger = PrivacyLedger(epsilon=100.0)
            encoder.set_params(ledger=ledger, secret_key=KEY, constant_values=constant).fit(rows)
            for _ in range(3):
                encoder.transform(rows, record_id=ids)
            assert ledger.spent[0] == pytest.approx(times * 4 * math.log(3))
        encoder.set_params(ledger=PrivacyLedger(epsilon=1.0)).fit(rows)
        for _ in range(2):  # a refused charge is asked for again
            with pytest.raises(BudgetExceeded):
                encoder.transform(rows, record_id=ids)
