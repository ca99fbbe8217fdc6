from __future__ import annotations

import itertools
import math
import pickle
import random
import sys
import warnings
from collections import Counter
from fractions import Fraction
from functools import partial
from threading import Lock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import chisquare, kstest, laplace, t
from sklearn.linear_model import LinearRegression

from skdp import BudgetExceeded, PrivacyLedger
from skdp.central import propose_test_release, sample_and_aggregate, smooth_sensitivity_release
from skdp.central.frameworks._chunks import open_rows, random_chunks
from skdp.central.frameworks._sample_and_aggregate import totals_noise
from skdp.central.statistics import GRID
from skdp.central.statistics import _noise as noise_of_shares
from skdp.privacy import Share
from skdp.randomness import SeededSource
from skdp.testing._error_checks import texts_of
from tests.conftest import each

FALSE_ALARM = 1e-6


def check_laplace(errors, scale):
    """Check the law, and the scale to which 150 numbers show it: their mean size, to 5 standard errors."""
    assert kstest(errors, laplace(scale=scale).cdf).pvalue > FALSE_ALARM
    assert np.abs(errors).mean() == pytest.approx(scale, rel=5 / math.sqrt(len(errors)))


def propose(value=40.0, distance=5000, **parameters):
    parameters = {"sensitivity": 0.02, "bounds": (0, 100), "epsilon": 1.0, "delta": 1e-6} | parameters
    return propose_test_release(value, distance, **parameters)


def smooth(value=40.0, sensitivity=0.01, **parameters):
    parameters = {"beta": 0.002, "bounds": (0, 100), "epsilon": 1.0, "delta": 1e-6} | parameters
    return smooth_sensitivity_release(value, sensitivity, **parameters)


def aggregate(X=None, statistic=np.mean, **parameters):
    X = np.full((1000, 1), 30.0) if X is None else X
    return sample_and_aggregate(statistic, X, **{"bounds": (0, 100), "n_chunks": 50, "epsilon": 1.0} | parameters)


class TestProposeTestRelease:
    def test_the_noise_is_laplace_of_the_stated_scale(self):
        errors = np.array([propose(random_state=seed).value for seed in range(150)]) - 40
        check_laplace(errors, 0.02 / 0.9)
        assert propose().std_error == pytest.approx(0.02 / 0.9 * math.sqrt(2))

    def test_a_short_distance_is_refused(self):
        refusal = propose(distance=0, random_state=0)
        assert (refusal.released, math.isnan(refusal.value), math.isnan(refusal.std_error)) == (False, True, True)
        assert (refusal.guarantee.epsilon, refusal.guarantee.delta) == (1.0, 1e-6)

    @pytest.mark.long
    def test_the_test_gets_its_share(self):
        # At the distance of the threshold, half of the tests pass, whatever the share.
        for share, threshold in ((0.1, 132), (0.5, 27)):
            passed = [
                propose(distance=threshold, epsilon=1.0, test_share=share, random_state=seed).released
                for seed in range(100)
            ]
            assert 0.33 < np.mean(passed) < 0.7

    def test_values_are_clipped_to_the_bounds(self):
        assert propose(value=1e300, sensitivity=1e-9, random_state=0).value == pytest.approx(100)
        assert propose(value=-1e300, sensitivity=1e-9, random_state=0).value == pytest.approx(0, abs=1e-7)

    @each(
        "parameters error message",
        [
            ({"value": math.nan}, ValueError, "value must be a finite number$"),
            ({"value": "8.5123"}, TypeError, "value must be a finite number, got str"),
            ({"distance": -1}, ValueError, "distance must be an integer of at least 0$"),
            ({"distance": 2.5}, TypeError, "distance"),
            ({"sensitivity": 0}, ValueError, "sensitivity"),
            ({"sensitivity": math.inf}, ValueError, "sensitivity"),
            ({"bounds": (1, 1)}, ValueError, "bounds"),
            ({"bounds": 5}, ValueError, "bounds"),
            ({"bounds": None}, ValueError, "bounds"),
            ({"bounds": (0, math.inf)}, ValueError, "bounds"),
            ({"epsilon": 0}, ValueError, "epsilon"),
            ({"delta": 0}, ValueError, "delta must be above 0"),
            ({"delta": 1}, ValueError, "delta"),
            ({"test_share": 1}, ValueError, "test_share"),
            ({"test_share": 0}, ValueError, "test_share"),
            ({"ledger": "l"}, TypeError, "ledger"),
            ({"random_state": "s"}, TypeError, "random_state"),
        ],
    )
    def test_mistakes_cost_nothing(self, parameters, error, message):
        ledger = PrivacyLedger(epsilon=2.0, delta=0.1)
        with pytest.raises(error, match=message) as caught:
            propose(**{"ledger": ledger} | parameters)
        assert "8.5123" not in str(caught.value)
        assert ledger.spent == (0, 0)

    def test_the_ledger_is_charged_for_refusals_too(self):
        ledger = PrivacyLedger(epsilon=2.0, delta=0.1)
        propose(ledger=ledger)
        propose(ledger=ledger, distance=0)
        assert ledger.spent == (2.0, 2e-6)
        with pytest.raises(BudgetExceeded):
            propose(ledger=ledger)


class TestSmoothSensitivity:
    def test_laplace_noise(self):
        from skdp.central.frameworks._smooth_sensitivity import laplace_factor

        factor = float(laplace_factor(Fraction(1), Fraction(1e-6), Fraction(0.002)))
        errors = np.array([smooth(random_state=seed).value for seed in range(150)]) - 40
        check_laplace(errors, 0.01 * factor)

    def test_students_t_noise(self):
        scale = 0.01 * 6 / (2 * math.sqrt(5)) / (1 - 5 * 0.002)
        errors = np.array([smooth(delta=0, random_state=seed).value for seed in range(300)]) - 40
        assert kstest(errors, t(5, scale=scale).cdf).pvalue > FALSE_ALARM

    def test_how_much_noise_there_is_stays_private(self):
        release = smooth()
        assert math.isnan(release.std_error)
        assert release.guarantee.mechanism == "smooth sensitivity, Laplace noise"
        assert smooth(delta=0).guarantee.delta == 0

    @each(
        "parameters error message",
        [
            ({"value": math.inf}, ValueError, "value must be a finite number$"),
            ({"sensitivity": 0.0}, ValueError, "smooth_sensitivity must be a finite number > 0$"),
            ({"sensitivity": -8.5123}, ValueError, "smooth_sensitivity must be a finite number > 0$"),
            ({"beta": 0}, ValueError, "beta"),
            ({"beta": 5.0}, ValueError, "beta=5 is too large"),
            ({"beta": 0.2, "delta": 0}, ValueError, "beta must be below epsilon / 5"),
            ({"delta": -1}, ValueError, "delta"),
            ({"epsilon": math.nan}, ValueError, "epsilon"),
        ],
    )
    def test_mistakes_cost_nothing(self, parameters, error, message):
        ledger = PrivacyLedger(epsilon=2.0, delta=0.1)
        with pytest.raises(error, match=message):
            smooth(**{"ledger": ledger} | parameters)
        assert ledger.spent == (0, 0)


class Unreadable(str):
    def __str__(self):
        raise ArithmeticError("secret")

    __array__ = __str__


class TestSampleAndAggregate:
    def test_the_noise_is_that_of_one_chunk(self):
        X = np.full((200, 1), 50.0)
        runs = [aggregate(X, n_chunks=10, epsilon=200.0, random_state=seed) for seed in range(150)]
        errors = np.array([run.value for run in runs]) - 50
        check_laplace(errors, 100 / 10 / 200)

    @pytest.mark.long
    def test_the_standard_error_is_that_of_the_noise(self):
        runs = [aggregate(np.full((400, 1), 80.0), n_chunks=20, epsilon=5.0, random_state=seed) for seed in range(300)]
        errors = np.array([run.value for run in runs]) - 80
        stated = np.mean([run.std_error for run in runs])
        assert np.sqrt(np.mean(errors**2)) == pytest.approx(stated, rel=0.3)  # 300 runs: 7 % a standard error
        assert stated == pytest.approx(math.sqrt(2) * 100 / 20 / 5 * math.hypot(1, 0.6), rel=0.05)

    @pytest.mark.parametrize("outputs", [1, 2])
    def test_one_row_changes_one_chunk_for_every_chunking(self, monkeypatch, outputs):
        # Whatever a chunk gives before and after: the loss of the noise on the sums and on their number.
        epsilon, scales = Fraction(7, 10), []
        monkeypatch.setattr(
            noise_of_shares, "discrete_laplace", lambda source, scale, size: scales.append(scale) or np.zeros(size, int)
        )
        for noise in totals_noise(Share("epsilon", epsilon), outputs):
            noise.add(None, [0])
        values = [None, *itertools.product((-GRID, 0, GRID), repeat=outputs)]
        losses = []
        for old, new in itertools.product(values, repeat=2):
            sums = [abs(a - b) for a, b in zip(old or [0] * outputs, new or [0] * outputs, strict=True)]
            losses.append(sum(sums) / scales[0] + abs((old is None) - (new is None)) / scales[1])
        assert max(losses) == epsilon

    @pytest.mark.parametrize("outputs", [1, 2])
    def test_one_row_has_the_mu_of_the_share(self, outputs):
        of_sums, of_number = totals_noise(Share("mu", Fraction(1, 3)), outputs)
        values = [None, *itertools.product((-GRID, 0, GRID), repeat=outputs)]
        squares = []
        for old, new in itertools.product(values, repeat=2):
            sums = [(a - b) ** 2 for a, b in zip(old or [0] * outputs, new or [0] * outputs, strict=True)]
            squares.append(sum(sums) / of_sums.variance + ((old is None) - (new is None)) ** 2 / of_number.variance)
        assert max(squares) == Fraction(1, 3)

    def test_a_row_is_in_one_chunk(self, scripted_source):
        keys = np.array([3, 1, 2], "<u4").view(np.uint8)
        for labels in itertools.product(range(2), repeat=3):
            chunks = random_chunks(scripted_source(labels, keys, keys), 2, 3)
            assert [chunk.tolist() for chunk in chunks] == [
                [place for place in (1, 2, 0) if labels[place] == label] for label in sorted(set(labels))
            ]

    @pytest.mark.long
    def test_all_orders_within_a_chunk_are_equally_likely(self):
        counts = Counter(tuple(random_chunks(SeededSource(seed), 1, 3)[0].tolist()) for seed in range(1200))
        assert len(counts) == 6
        assert chisquare(list(counts.values())).pvalue > FALSE_ALARM

    def test_equal_keys_are_drawn_again(self, scripted_source):
        # Two rows of one chunk draw the same keys: their order would be that of the table.
        equal, other = (np.array(keys, "<u4").view(np.uint8) for keys in ([7, 7], [2, 1]))
        assert random_chunks(scripted_source([0, 0], equal, equal, other, equal), 1, 2)[0].tolist() == [1, 0]

    def test_positional_chunks_would_break_the_promise(self):
        # The textbook cuts the table by position: a row more shifts all chunks behind it.
        def positional(rows, k):
            size = math.ceil(len(rows) / k)
            chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
            return np.mean([np.clip(np.mean(chunk), 0, 100) for chunk in chunks])

        rows = [0, 160] * 500
        before, after = (positional(table, 1000) for table in (rows, [*rows, 160]))
        assert abs(after - before) > 250 * (100 / 1000)

    def test_any_statistic_counts_and_no_error_of_it_is_seen(self):
        rng = np.random.default_rng(0)

        def moody(chunk):
            warnings.warn("8.5123", stacklevel=1)
            choice = rng.integers(5)
            if choice == 0:
                raise RuntimeError("8.5123")
            return [math.nan, 8.5123, [1, 2], "8.5123", math.inf][choice]

        release = aggregate(statistic=moody, n_chunks=200, default=50)
        assert release.n_failed > 50

    def test_an_interrupt_is_not_caught_and_says_nothing(self):
        def interrupted(chunk):
            raise KeyboardInterrupt(f"row {chunk[0]}")

        with pytest.raises(KeyboardInterrupt) as caught:
            aggregate(statistic=interrupted)
        assert caught.value.args == ()
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None

    @pytest.mark.parametrize("error", [SystemExit, GeneratorExit, ValueError, BaseException, RecursionError])
    def test_a_statistic_that_fails_is_refused(self, error):
        def failing(chunk):
            raise error(f"row {chunk[0]}")

        ledger = PrivacyLedger(epsilon=2.0)
        with pytest.warns(UserWarning, match="gave no value in about 5[0-9] of 50 chunks|about 4[0-9] of 50") as found:
            release = aggregate(statistic=failing, ledger=ledger, random_state=0)
        assert math.isnan(release.value)
        assert math.isnan(release.std_error)
        assert not release.released
        assert len(found) == 1
        assert ledger.spent[0] == 1.0

    def test_failed_chunks_do_not_count(self):
        def fragile(chunk):
            assert chunk.min() >= 0
            return chunk.mean()

        X = np.full((20_000, 1), 90.0)
        X[:150] = -1.0
        release = aggregate(X, fragile, n_chunks=500, epsilon=50.0, random_state=0)
        assert release.value == pytest.approx(90, abs=1)
        assert 100 < release.n_failed < 160
        zero = aggregate(X, fragile, n_chunks=500, epsilon=50.0, default=0, random_state=0)
        assert zero.value == pytest.approx(90 * (1 - release.n_failed / 500), abs=1)
        assert zero.n_failed == release.n_failed

    def test_nothing_of_the_statistic_is_shown(self, capfd, caplog):
        def talkative(chunk):
            print("8.5123")
            print("8.5123", file=sys.stderr)
            warnings.simplefilter("always")
            warnings.warn("8.5123", stacklevel=1)
            np.array([1.0]) / 0
            return 8.5123

        assert aggregate(statistic=talkative, random_state=0).released
        assert capfd.readouterr() == ("", "")

    @pytest.mark.parametrize("rows", [0, 1])
    def test_tables_of_no_rows_and_of_one(self, rows):
        with pytest.warns(UserWarning, match="gave no value in about"):
            release = aggregate(np.full((rows, 1), 100.0), epsilon=500.0, n_chunks=4)
        assert release.n_failed == 4 - rows
        assert math.isnan(release.value)

    def test_the_order_and_the_labels_of_the_rows_do_not_show(self):
        # One row at the front moved an answer by 99.5: each chunk knew where its rows stood.
        ages = pd.DataFrame({"age": np.arange(200.0)})
        one_more = pd.concat([ages.iloc[:1], ages])
        for statistic in (lambda chunk: chunk.index.max(), lambda chunk: (chunk.index % 2).to_numpy()[:2].sum()):
            found = [
                aggregate(table, statistic, n_chunks=20, epsilon=500.0, random_state=0).value
                for table in (ages, one_more, one_more.set_index(pd.Index(range(1000, 1201))))
            ]
            assert found == pytest.approx([found[0]] * 3, abs=0.5)
        # Half of all chunks have their first row first, however the table is sorted.
        first = aggregate(
            np.repeat([[0.0], [1.0]], 400, axis=0),
            lambda chunk: chunk[0, 0],
            n_chunks=200,
            epsilon=500.0,
            bounds=(0, 1),
        )
        assert 0.25 < first.value < 0.75

    @pytest.mark.parametrize(
        "make", [np.array, lambda rows: pd.DataFrame(rows), lambda rows: pd.DataFrame(rows, dtype=object)]
    )
    def test_one_complex_number_does_not_show_in_other_chunks(self, make):
        # It makes the whole column complex: each chunk would be of objects instead of floats.
        tables = [make([[1.5], [2.5], [last]]) for last in (3.5, 3.5 + 1j)]
        chunks = [np.asarray(open_rows(table)[0](np.array([1, 0]))[0]) for table in tables]
        assert [chunk.dtype for chunk in chunks] == [np.float64] * 2
        assert chunks[0].tolist() == chunks[1].tolist() == [[2.5], [1.5]]

    @pytest.mark.parametrize("bad", [b"\xffsecret", Unreadable("secret")], ids=["bytes", "object"])
    def test_no_error_of_an_odd_list_shows_a_value(self, bad):
        # NumPy's error held the bytes, and that of the object was its own.
        errors = []
        for X, y in (([["a"], [bad]], None), ([[1.0], [2.0]], ["a", bad])):
            try:
                sample_and_aggregate(lambda *chunk: 1.0, X, y, bounds=(0, 2), n_chunks=1, epsilon=500.0)
            except Exception as error:
                errors.append(error)
        assert not any("secret" in text for error in errors for text in texts_of(error))

    def test_one_text_in_a_list_does_not_show_in_other_chunks(self):
        chunks = [open_rows([[1], [2], [last]])[0](np.array([1, 0]))[0] for last in (3, "three")]
        assert [chunk.dtype for chunk in chunks] == [np.float64] * 2

    def test_the_statistic_keeps_no_state(self):
        class Counter:
            seen = 0

            def __call__(self, chunk):
                self.seen += 1
                return self.seen

        assert aggregate(statistic=Counter(), epsilon=500.0).value == pytest.approx(1, abs=0.1)
        assert aggregate(statistic=Counter().__call__, epsilon=500.0).value == pytest.approx(1, abs=0.1)

    def test_a_chunk_shares_no_object_with_another_one(self):
        words = np.empty((2, 1), object)
        words[:, 0] = [[]] * 2  # one list
        take, _ = open_rows(words)
        for row in (0, 1):
            (chunk,) = take(np.array([row]))
            assert chunk[0, 0] == []
            chunk[0, 0].append("seen")
        assert words[0, 0] == []

    def test_a_chunk_draws_its_own_numbers(self):
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        states = np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002

        def drawn(chunk):
            return np.random.random() < 0.5, random.random() < 0.5  # noqa: NPY002

        release = aggregate(statistic=drawn, bounds=[(0, 1), (0, 1)], n_chunks=100, epsilon=500.0)
        assert ((release.value > 0.2) & (release.value < 0.8)).all()
        assert (np.random.get_state()[1].tolist(), random.getstate()) == states  # noqa: NPY002

    def test_coefficients_of_an_estimator(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(20_000, 2))
        y = X @ [1.0, -2.0] + rng.normal(size=20_000)
        release = sample_and_aggregate(
            lambda X, y: LinearRegression().fit(X, y).coef_,
            X,
            y,
            bounds=[(-5, 5), (-5, 5)],
            n_chunks=200,
            epsilon=5.0,
            random_state=0,
        )
        assert release.value == pytest.approx([1, -2], abs=0.2)
        alone = math.sqrt(2) * 10 / 200 / 2.5
        assert release.std_error == pytest.approx([alone * math.hypot(1, share / 2) for share in (0.2, 0.4)], rel=0.05)

    @pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
    def test_chunks_are_of_the_kind_of_the_table(self, make):
        table = make({"a": [1.0, 2.0, 3.0] * 100, "b": ["x", "y", "z"] * 100})
        kinds = set()

        def statistic(chunk):
            kinds.add(type(chunk))
            return np.mean(chunk["a"].to_numpy())

        release = sample_and_aggregate(statistic, table, bounds=(0, 4), n_chunks=10, epsilon=500.0)
        assert kinds == {type(table)}
        assert release.value == pytest.approx(2, abs=0.2)

    def test_a_row_goes_with_its_target(self):
        y = np.arange(500.0)
        mismatched = sample_and_aggregate(
            lambda X, y: np.abs(X[:, 0] - y).max(), y[:, np.newaxis], y, bounds=(0, 1), n_chunks=7, epsilon=500.0
        )
        assert mismatched.value == pytest.approx(0, abs=0.01)

    @each(
        "parameters error message",
        [
            ({"statistic": "mean"}, TypeError, "statistic must be callable"),
            ({"bounds": None}, ValueError, "bounds"),
            ({"bounds": []}, ValueError, "bounds"),
            ({"bounds": (1, 0)}, ValueError, "bounds"),
            ({"n_chunks": 0}, ValueError, "n_chunks"),
            ({"n_chunks": 2.0}, TypeError, "n_chunks"),
            ({"epsilon": -1}, ValueError, "epsilon"),
            ({"default": 101}, ValueError, "default"),
            ({"default": math.nan}, ValueError, "default"),
            ({"default": [1, 2]}, ValueError, "default"),
            ({"y": [1]}, ValueError, "as many rows"),
            ({"X": np.ma.zeros((3, 1))}, TypeError, "masked arrays"),
            ({"statistic": partial(np.mean, out=Lock())}, TypeError, "can be copied"),
            ({"X": 3}, ValueError, "X must be a dataframe or an array of rows"),
            ({"X": pl.DataFrame({"a": [1]}).lazy()}, TypeError, "skdp.engines"),
            ({"random_state": 1.5}, TypeError, "random_state"),
        ],
    )
    def test_mistakes_cost_nothing(self, parameters, error, message):
        ledger = PrivacyLedger(epsilon=2.0)
        with pytest.raises(error, match=message):
            aggregate(**{"ledger": ledger} | parameters)
        assert ledger.spent == (0, 0)


@pytest.mark.parametrize("release", [propose, smooth, aggregate])
def test_every_call_draws_anew_and_a_seed_repeats(release):
    assert release().value != release().value
    assert release(random_state=1).value == release(random_state=1).value
    assert release(random_state=1).value != release(random_state=2).value
    assert release().guarantee.secure
    assert not release(random_state=1).guarantee.secure
    assert pickle.loads(pickle.dumps(release())).guarantee.relation == "add_remove"
