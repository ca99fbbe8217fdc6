"""Memoised numbers: permanent on the grid, rounding too, by the exact channel, and with the cost of a change stated."""

from __future__ import annotations

import hashlib
import math
import pickle
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.stats import chisquare
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from skdp import BudgetExceeded, NumericPerturber, PrivacyLedger
from skdp.exact import exp_bounds
from skdp.local import OnFitOnly, SecretKey
from skdp.local.memo import NumericMemo, digest_blocks, keyed_digests
from skdp.local.memo._memo import keyed_numbers
from skdp.oracles import ClampedLaplace, Optimal
from skdp.oracles.numeric import SUBSTEPS
from skdp.randomness import MOST_ROWS, DigestSource
from tests.conftest import each

FALSE_ALARM = 1e-6
KEY = SecretKey(b"a key that everybody knows, for tests")
MECHANISMS = ["outcomes", "square_wave", "laplace"]
BOUNDS = {"age": (0, 100), "hours": (0, 80)}

every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


def make(mechanism="laplace", **parameters):
    given = {"bounds": BOUNDS, "grid_size": 16, "memoize": True, "secret_key": KEY} | parameters
    if mechanism == "outcomes":
        share = given.get("epsilon", 1.0) / len(given["bounds"])
        mechanism = Optimal(given["grid_size"], share).outcomes
    return NumericPerturber(mechanism=mechanism, **given)


def table(n=60):
    rng = np.random.default_rng(0)
    return pd.DataFrame({name: rng.uniform(*ends, n) for name, ends in BOUNDS.items()})


class TestPermanence:
    @every_mechanism
    def test_over_calls_orders_batches_pickles_and_clones(self, mechanism):
        rows, ids = table(), np.arange(60)
        fitted = make(mechanism=mechanism).fit(rows)
        reports = fitted.transform(rows, record_id=ids)
        assert fitted.transform(rows, record_id=ids).equals(reports)
        backwards = fitted.transform(rows[::-1], record_id=ids[::-1])
        assert backwards[::-1].equals(reports)
        assert fitted.transform(rows[20:30], record_id=ids[20:30]).equals(reports[20:30])
        for other in (pickle.loads(pickle.dumps(fitted)), clone(fitted).fit(rows[:1]), make(mechanism=mechanism)):
            assert other.fit(rows).transform(rows, record_id=ids).equals(reports)
        seeded = make(mechanism=mechanism, random_state=5).fit_transform(rows, record_id=ids)
        assert seeded.equals(reports)

    def test_over_kinds_of_frames(self, make_frame, values_of):
        rows = table(8)
        reports = make().fit_transform(make_frame(rows.to_dict("list")), record_id=list(range(8)))
        expected = make().fit_transform(rows, record_id=list(range(8)))
        for name in BOUNDS:
            assert values_of(reports, name) == expected[name].tolist()

    # Not the outcomes of the optimal mechanism, which are another solver's business.
    @each("mechanism, expected", [("square_wave", "880b0bfbf517"), ("laplace", "2bba70ba70dc")])
    def test_over_versions(self, mechanism, expected):
        """If a mechanism uses its random bits otherwise, raise the format in `local.memo._memo`; write these again."""
        rows = pd.DataFrame({"age": np.arange(60.0), "hours": np.arange(60.0)[::-1]})
        reports = make(mechanism=mechanism).fit_transform(rows, record_id=list(range(60)))
        written = repr(reports.round(6).to_numpy().tolist()).encode()
        assert hashlib.sha256(written).hexdigest()[:12] == expected

    def test_nothing_is_stored(self):
        fitted = make().fit(table())
        before = pickle.dumps(fitted)
        fitted.transform(table(), record_id=list(range(60)))
        assert pickle.dumps(fitted) == before


class TestKey:
    """What the permanent report is a function of: a change of any of these gives fresh coins."""

    @pytest.fixture
    def reports(self):
        def report(prefix="p", value=50.0, column="age", ends=(0, 100), **parameters):
            # Laplace noise on a grid of one step: a coin, which a small epsilon hardly bends.
            rows = pd.DataFrame({column: [value] * 2_000})
            fitted = make(
                **{"epsilon": 1e-3, "mechanism": "laplace", "bounds": {column: ends}, "grid_size": 1} | parameters
            )
            out = fitted.fit_transform(rows, record_id=[f"{prefix}{row}" for row in range(2_000)])[column]
            return (out > out.mean()).to_numpy()

        return report

    @pytest.mark.parametrize(
        "change",
        [
            {"secret_key": KEY + b"x"},
            {"prefix": "q"},
            {"column": "years"},
            {"epsilon": 1.0001e-3},
            {"ends": (0, 101)},
            {"grid_size": 2},
            {"mechanism": "square_wave"},
        ],
        ids=str,
    )
    def test_another(self, reports, change):
        """Two independent coins agree half of the time: 5 standard deviations of 2,000 are 112."""
        assert abs((reports() == reports(**change)).sum() - 1_000) < 120

    def test_another_position(self, reports):
        assert abs((reports(value=0.0) == reports(value=100.0)).sum() - 1_000) < 120

    def test_rows_and_columns_are_independent(self):
        n = 5_000
        rows = pd.DataFrame({"age": [100.0] * n, "hours": [80.0] * n})
        fitted = make(epsilon=1e-3, grid_size=1).fit(rows)
        reports = fitted.transform(rows, record_id=list(range(n))) > 50
        other = fitted.transform(rows.assign(age=0.0), record_id=list(range(n))) > 50
        for left, right in [
            (reports["age"], reports["hours"]),
            (reports["age"], other["age"]),
            (reports["age"][:-1], reports["age"][1:]),
        ]:
            seen = Counter(zip(left, right, strict=True))
            assert chisquare([seen[pair] for pair in product((False, True), repeat=2)]).pvalue > FALSE_ALARM
        assert (reports["hours"] == other["hours"]).all()

    def test_columns_are_rounded_independently(self):
        n = 1_000
        fitted = make(epsilon=40.0, grid_size=1, bounds=[(0, 1)] * 2).fit([[0, 0]])
        reports = fitted.transform(np.full((n, 2), 0.5), record_id=list(range(n))) > 0.5
        seen = Counter(map(tuple, reports.tolist()))
        assert chisquare([seen[pair] for pair in product((False, True), repeat=2)]).pvalue > FALSE_ALARM


class TestLaw:
    @every_mechanism
    @pytest.mark.parametrize("value", [0.0, 10.35, 11.0])
    def test_reports_follow_the_channel_between_the_positions_too(self, mechanism, value):
        n = 4_000 if mechanism != "laplace" else 2_000
        fitted = make(epsilon=2.0, mechanism=mechanism, bounds=[(10, 11)], grid_size=4).fit([[10]])
        value = max(value, 10.0)
        reports = fitted.transform(np.full((n, 1), value), record_id=list(range(n)))[:, 0]
        possible = fitted.report_values_[0]
        counts = np.bincount(np.searchsorted(possible, reports), minlength=len(possible))
        below, part = divmod(4 * (value - 10), 1)
        channel = np.array(fitted.channel()[0], float)
        row = (1 - part) * channel[int(below)] + (part * channel[int(below) + 1] if part else 0)
        rare = n * row < 5
        expected = [*(n * row[~rare]), *([n * row[rare].sum()] if rare.any() else [])]
        seen = [*counts[~rare], *([counts[rare].sum()] if rare.any() else [])]
        assert chisquare(seen, expected).pvalue > FALSE_ALARM

    @every_mechanism
    def test_estimates_are_unbiased_with_the_stated_errors(self, mechanism):
        rows, z = table(1_000), []
        for run in range(6):
            fitted = make(epsilon=4.0, mechanism=mechanism, secret_key=bytes([run]) * 16).fit(rows)
            means = fitted.estimate_mean(fitted.transform(rows, record_id=list(range(1_000))))
            z.append((means["mean"] - rows.mean()) / means["std_error"])
        assert np.abs(np.mean(z, axis=0)).max() < 5 / math.sqrt(6)
        assert 0.3 < np.sqrt(np.mean(np.square(z))) < 1.7

    def test_the_whole_record_is_within_epsilon(self):
        """All positions of two columns, all reports; memoised or not, a report has the same channel."""
        fitted, forgetful = (
            make(epsilon=1.5, mechanism="outcomes", bounds=[(0, 1)] * 2, grid_size=3) for _ in range(2)
        )
        fitted.fit([[0, 0]])
        assert fitted.channel() == forgetful.set_params(memoize=False, secret_key=None).fit([[0, 0]]).channel()
        joint = [[a * b for a, b in product(*rows)] for rows in product(*fitted.channel())]
        worst = max(max(column) / min(column) for column in zip(*joint, strict=True))
        assert worst <= exp_bounds(fitted.guarantee_.epsilon)[0]
        assert fitted.guarantee_.epsilon <= 1.5


def attack(fitted, n=400, calls=60):
    """How often the mean of a record's reports is on the side of its true number, an end of the range."""
    rows = pd.DataFrame({"age": np.resize([0.0, 100.0], n)})
    fitted.fit(rows)
    reports = [fitted.transform(rows, record_id=list(range(n)))["age"].to_numpy() for _ in range(calls)]
    return ((np.mean(reports, axis=0) > 50) == (rows["age"] > 50)).mean()


class TestAveraging:
    @pytest.fixture
    def fitted(self):
        return make(epsilon=1.0, grid_size=1, bounds={"age": (0, 100)})

    def test_many_reports_show_no_more_than_one(self, fitted):
        bound = math.e / (math.e + 1)
        assert attack(fitted) == pytest.approx(bound, abs=5 * math.sqrt(bound * (1 - bound) / 400))

    def test_a_mutant_without_memory_is_seen_through(self, fitted, monkeypatch):
        calls = iter(range(10**6))
        report = NumericMemo.report

        def forgetful(self, scaled, records):
            salt = str(next(calls)).encode()
            return report(self, scaled, [record + salt for record in records])

        monkeypatch.setattr(NumericMemo, "report", forgetful)
        assert attack(fitted) > 0.9


class TestRounding:
    def test_a_number_between_two_positions_has_one_report(self):
        """With fresh rounding it would have those of both, at twice the cost, and the shares would show where it is."""
        fitted = make(epsilon=0.1, bounds={"age": (0, 100)}, grid_size=4).fit(table()[["age"]])
        rows = pd.DataFrame({"age": [37.5] * 200})
        calls = [fitted.transform(rows, record_id=list(range(200))) for _ in range(8)]
        assert all(call.equals(calls[0]) for call in calls)

    def test_a_mutant_that_rounds_anew_reports_both_positions(self, monkeypatch):
        calls = iter(range(10**6))

        def digests(key, purpose, *fields):
            salt = (str(next(calls)),) if purpose[-1] == "rounding" else ()
            return digest_blocks(key, (*purpose, *salt), *fields)

        monkeypatch.setattr("skdp.local.memo._memo.digest_blocks", digests)
        with pytest.raises(AssertionError):
            self.test_a_number_between_two_positions_has_one_report()

    @pytest.mark.parametrize("steps", [1, 2, 5])
    def test_a_record_has_no_more_reports_than_positions(self, steps):
        n, values = 40, np.linspace(0, 1, 30)
        fitted = make(epsilon=1e-3, mechanism="square_wave", bounds=[(0, 1)], grid_size=steps).fit([[0]])
        calls = [fitted.transform(np.full((n, 1), value), record_id=list(range(n)))[:, 0] for value in values]
        for own in np.transpose(calls):
            # The range falls into parts: each report is that of neighbouring values.
            assert 1 + np.count_nonzero(np.diff(own)) <= steps + 1

    def test_positions_are_unbiased(self):
        memo = NumericMemo(KEY, "owner", ("x",), np.array([[0.0, 1.0]]), ClampedLaplace(2, 1.0), Fraction(1))
        seen = []

        class Noted(ClampedLaplace):
            def report(self, positions, source):
                seen.extend(positions.tolist())
                return super().report(positions, source)

        memo._mechanism = Noted(2, 1.0)
        records = [b"%d" % row for row in range(20_000)]
        memo.report([np.full(20_000, SUBSTEPS + SUBSTEPS // 4)], records)
        assert set(seen) == {1, 2}
        assert abs(seen.count(2) - 5_000) < 5 * math.sqrt(20_000 * 3 / 16)


class TestPromises:
    def test_what_is_said(self):
        guarantee = make().fit(table()).guarantee_
        assert guarantee.mechanism == (
            "clamped discrete Laplace noise, memoised: epsilon per distinct position of a column on the grid, at most "
            "17 of them"
        )
        assert guarantee.secure
        assert make(random_state=0).fit(table()).guarantee_.secure
        assert guarantee.scope == ("age", "hours")

    @every_mechanism
    def test_the_cost_of_changes(self, mechanism):
        fitted = make(epsilon=2.0, mechanism=mechanism, grid_size=3).fit(table())
        for n_values, epsilon in {1: 2, 2: 4, 4: 8, 5: 8, 10**9: 8}.items():
            promised = fitted.guarantee_for_changes(n_values)
            assert promised.epsilon == pytest.approx(epsilon)
            assert promised.scope == ("age", "hours")
        assert fitted.guarantee_for_changes(1).epsilon <= fitted.guarantee_.epsilon
        assert "all reports of 3 values of a column" in fitted.guarantee_for_changes(3).mechanism

    def test_histories_that_change_alike_are_within_the_cost(self):
        """Three calls at the positions u, v, u against u', v', u', enumerated."""
        fitted = make(epsilon=1.0, mechanism="square_wave", bounds=[(0, 1)], grid_size=2).fit([[0]])
        (channel,) = fitted.channel()
        bound = exp_bounds(fitted.guarantee_for_changes(2).epsilon)[0]
        histories = [(u, v) for u, v in product(range(3), repeat=2) if u != v]
        for first, second in product(range(len(channel[0])), repeat=2):
            shares = [channel[u][first] * channel[v][second] for u, v in histories]
            assert max(shares) <= bound * min(shares)

    def test_the_ledger_is_charged_at_each_call_and_first(self, monkeypatch):
        ledger = PrivacyLedger(epsilon=2.5)
        fitted = make(ledger=ledger).fit(table())
        for _ in range(2):
            fitted.transform(table(), record_id=list(range(60)))
        assert ledger.spent[0] == pytest.approx(2.0)
        monkeypatch.setattr("skdp.local.memo._memo.keyed_digests", lambda *key: pytest.fail("a coin was computed"))
        with pytest.raises(BudgetExceeded):
            fitted.transform(table(), record_id=list(range(60)))
        for ids in (None, [1, 2], [1] * 60):
            with pytest.raises(ValueError, match="record_id"):
                fitted.transform(table(), record_id=ids)
        assert ledger.spent[0] == pytest.approx(2.0)

    def test_a_new_fit_forgets(self):
        fitted = make().fit(table())
        fitted.set_params(memoize=False, secret_key=None)
        fitted.transform(table()[:1], record_id=[1])
        fitted.fit(table())
        assert "memoised" not in fitted.guarantee_.mechanism
        fitted.transform(table())
        with pytest.raises(ValueError, match="record_id requires permanent reports"):
            fitted.transform(table()[:1], record_id=[1])
        with pytest.raises(ValueError, match="without memoize=True every call costs guarantee_"):
            fitted.guarantee_for_changes(2)


class TestErrors:
    @each(
        "parameters, error, match",
        [
            ({"secret_key": None}, ValueError, "memoize=True needs a secret_key"),
            ({"secret_key": "hush, this is a secret"}, TypeError, "secret_key must be None or bytes, got str"),
            ({"secret_key": b"hush"}, ValueError, "secret_key must have at least 16 bytes, got 4"),
            ({"memoize": "yes"}, TypeError, "memoize must be True or False, got str"),
            ({"memoize": False}, ValueError, "secret_key requires memoize=True"),
        ],
    )
    def test_parameters(self, parameters, error, match):
        with pytest.raises(error, match=match) as caught:
            make(**parameters).fit(table())
        assert "hush" not in str(caught.value)

    def test_names_that_cannot_be_written(self):
        period = pd.Period("2020-01", "M")
        rows = pd.DataFrame({period: [1.0]})
        with pytest.raises(ValueError, match="memoize=True needs column names of text, numbers, booleans or times"):
            make(bounds={period: (0, 2)}).fit(rows)
        tuples = pd.DataFrame({("a", 1): [1.0, 0.5]})
        fitted = make(bounds={("a", 1): (0, 2)}).fit(tuples)
        assert fitted.transform(tuples, record_id=[1, 2]).equals(fitted.transform(tuples, record_id=[1, 2]))


class TestRouting:
    @pytest.fixture(autouse=True)
    def routing(self):
        with sklearn.config_context(enable_metadata_routing=True):
            yield

    def test_through_a_pipeline(self):
        rows, ids = table(), list(range(60))
        model = make_pipeline(make().set_transform_request(record_id=True), LinearRegression())
        model.fit(rows, rows["age"], record_id=ids)
        assert np.array_equal(model.predict(rows, record_id=ids), model.predict(rows, record_id=ids))
        assert model[0].transform(rows, record_id=ids).equals(make().fit_transform(rows, record_id=ids))

    def test_through_on_fit_only(self):
        rows, ids = table(), list(range(60))
        only = OnFitOnly(make().set_transform_request(record_id=True))
        assert only.fit_transform(rows, record_id=ids).equals(make().fit_transform(rows, record_id=ids))
        assert only.transform(rows).equals(rows)


def test_the_sign_of_zero_in_the_bounds_changes_nothing():
    X = pd.DataFrame({"a": np.linspace(0, 1, 50)})
    first, second = (
        NumericPerturber(0.1, mechanism="laplace", bounds=(low, 1), memoize=True, secret_key=KEY).fit_transform(
            X, record_id=list(range(50))
        )
        for low in (0.0, -0.0)
    )
    assert first.equals(second)


@every_mechanism
@pytest.mark.parametrize("steps", [3, 16, 250, 1_024])
def test_many_records_draw_together_what_each_draws_alone(mechanism, steps):
    """Bit by bit, with the bytes that only some of them need; and more records than are drawn together."""
    rows = MOST_ROWS + 100 if steps == 16 else 400
    oracle = make(mechanism=mechanism, grid_size=steps, epsilon=1.0).fit(table(1)).mechanism_
    positions = np.arange(rows) % (steps + 1)
    digests = keyed_digests(KEY, ("test",), [b"%d" % row for row in range(rows)])
    sources = (DigestSource(digest, head=16) for digest in digests)
    alone = (oracle.report(positions[row : row + 1], source) for row, source in enumerate(sources))
    assert (keyed_numbers(oracle, positions, digests) == np.concatenate([*alone])).all()
