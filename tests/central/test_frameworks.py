from __future__ import annotations

import itertools
import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import kstest, laplace, t
from sklearn.linear_model import LinearRegression

from skdp import BudgetExceeded, PrivacyLedger
from skdp.central import _sample_and_aggregate as framework
from skdp.central import propose_test_release, sample_and_aggregate, smooth_sensitivity_release
from skdp.central._sums import GRID

FALSE_ALARM = 1e-6


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
        errors = np.array([propose(random_state=seed).value for seed in range(1500)]) - 40
        assert kstest(errors, laplace(scale=0.02 / 0.9).cdf).pvalue > FALSE_ALARM
        assert propose().std_error == pytest.approx(0.02 / 0.9 * math.sqrt(2))

    def test_a_short_distance_is_refused(self):
        refusal = propose(distance=0, random_state=0)
        assert (refusal.released, math.isnan(refusal.value), math.isnan(refusal.std_error)) == (False, True, True)
        assert (refusal.guarantee.epsilon, refusal.guarantee.delta) == (1.0, 1e-6)

    def test_the_test_gets_its_share(self):
        # At the distance of the threshold, half of the tests pass, whatever the share.
        for share, threshold in ((0.1, 132), (0.5, 27)):
            passed = [
                propose(distance=threshold, epsilon=1.0, test_share=share, random_state=seed).released
                for seed in range(400)
            ]
            assert 0.4 < np.mean(passed) < 0.65

    def test_values_are_clipped_to_the_bounds(self):
        assert propose(value=1e300, sensitivity=1e-9, random_state=0).value == pytest.approx(100)
        assert propose(value=-1e300, sensitivity=1e-9, random_state=0).value == pytest.approx(0, abs=1e-7)

    @pytest.mark.parametrize(
        ("parameters", "error", "message"),
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
        from skdp.central._calibration import laplace_factor

        factor = float(laplace_factor(Fraction(1), Fraction(1e-6), Fraction(0.002)))
        errors = np.array([smooth(random_state=seed).value for seed in range(1500)]) - 40
        assert kstest(errors, laplace(scale=0.01 * factor).cdf).pvalue > FALSE_ALARM

    def test_students_t_noise(self):
        scale = 0.01 * 6 / (2 * math.sqrt(5)) / (1 - 5 * 0.002)
        errors = np.array([smooth(delta=0, random_state=seed).value for seed in range(1500)]) - 40
        assert kstest(errors, t(5, scale=scale).cdf).pvalue > FALSE_ALARM

    def test_how_much_noise_there_is_stays_private(self):
        release = smooth()
        assert math.isnan(release.std_error)
        assert release.guarantee.mechanism == "smooth sensitivity, Laplace noise"
        assert smooth(delta=0).guarantee.delta == 0

    @pytest.mark.parametrize(
        ("parameters", "error", "message"),
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


class TestSampleAndAggregate:
    def test_the_noise_is_that_of_one_chunk(self):
        runs = [aggregate(random_state=seed) for seed in range(800)]
        errors = np.array([run.value for run in runs]) - 30
        assert kstest(errors, laplace(scale=100 / 50).cdf).pvalue > FALSE_ALARM
        assert runs[0].std_error == pytest.approx(100 / 50 * math.sqrt(2))

    def test_one_row_changes_one_chunk_for_every_chunking(self, monkeypatch):
        def totals(rows, labels):
            seen = []
            monkeypatch.setattr(framework, "uniform_integers", lambda source, high, size: np.array(labels, np.uint8))
            monkeypatch.setattr(framework, "noisy_means", lambda source, sums, k, epsilon: seen.append(sums) or [0, 0])
            statistic = lambda chunk: [np.ptp(chunk), np.median(chunk)]  # noqa: E731
            sample_and_aggregate(
                statistic, np.array(rows, float), bounds=[(0, 4), (-1, 5)], n_chunks=3, epsilon=1.0, default=[1, 2]
            )
            return np.array(seen[0])

        rows = [0.0, 4.0, 1.0, 9.0]
        for labels in itertools.product(range(3), repeat=4):
            for place in range(4):  # wherever the row is added
                less = totals(rows[:place] + rows[place + 1 :], labels[:place] + labels[place + 1 :])
                assert (np.abs(totals(rows, labels) - less) <= 2 * GRID).all()

    def test_labels_are_uniform_and_independent_of_the_data(self):
        labels = []
        original = framework.uniform_integers

        def spy(source, high, size):
            labels.append(original(source, high, size))
            return labels[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(framework, "uniform_integers", spy)
            for X in (np.zeros((500, 1)), np.arange(500.0)[:, np.newaxis]):
                aggregate(X, random_state=7)
        np.testing.assert_array_equal(*labels)
        assert np.bincount(labels[0], minlength=50).min() > 0

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

        release = aggregate(statistic=moody, n_chunks=200)
        assert 0 <= release.value <= 100

    def test_an_interrupt_is_not_caught(self):
        def interrupted(chunk):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            aggregate(statistic=interrupted)

    @pytest.mark.parametrize("rows", [0, 1])
    def test_tables_of_no_rows_and_of_one(self, rows):
        release = aggregate(np.full((rows, 1), 100.0), epsilon=500.0, n_chunks=4)
        assert release.value == pytest.approx(50 + 12.5 * rows, abs=1)

    def test_the_default_counts_for_empty_chunks(self):
        assert aggregate(np.zeros((0, 1)), default=20.0, epsilon=500.0).value == pytest.approx(20, abs=0.1)
        nan = aggregate(statistic=lambda chunk: math.nan, default=80.0, epsilon=500.0)
        assert nan.value == pytest.approx(80, abs=0.1)

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
        assert release.std_error == pytest.approx([math.sqrt(2) * 10 / 200 / 2.5] * 2)

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

    @pytest.mark.parametrize(
        ("parameters", "error", "message"),
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
