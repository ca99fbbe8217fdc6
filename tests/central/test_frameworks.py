"""Any statistic: by local sensitivity, whose exact deltas are computed, and on random chunks."""

from __future__ import annotations

import itertools
import math
import pickle
import random
import sys
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import partial
from threading import Lock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.integrate import quad
from scipy.stats import kstest, laplace, t
from sklearn.linear_model import LinearRegression

from skdp import BudgetExceeded, PrivacyLedger
from skdp.central import laplace_divergence, propose_test_release, sample_and_aggregate, smooth_sensitivity_release
from skdp.central.frameworks._chunks import open_rows
from skdp.central.frameworks._propose_test_release import pass_threshold
from skdp.central.frameworks._smooth_sensitivity import DEGREES_OF_FREEDOM, SmoothNoise, laplace_factor
from skdp.testing._error_checks import texts_of
from tests.conftest import each

TEST_SHARE = Fraction(1, 10)
EPSILONS = [0.01, 0.1, 1, 10, 20]
DELTA = 1e-6
SIZES = [0, 1, 2, 100, 150, 199, 200, 1000]


def neighbours(sizes):
    pairs = {(n, n + step) for n in sizes for step in (-1, 1) if n + step >= 0}
    return sorted(pairs | {(right, left) for left, right in pairs})


def shift_of_means(left, right):
    """How far the means of two neighbours can be apart, as a share of the width."""
    return 1 / max(left, right) if max(left, right) > 1 else 0.5


def equal_scales(log_ratio, shift):
    """The integral of (p - e**log_ratio q)+ for Laplace laws of scale 1, a shift apart: by hand, not by skdp."""
    log_ratio = np.asarray(log_ratio, float)
    far = -np.expm1((log_ratio - shift) / 2)
    return np.where(log_ratio >= shift, 0.0, np.where(log_ratio <= -shift, -np.expm1(log_ratio), far))


def upper_tail(distance, epsilon, threshold):
    """P(distance + discrete Laplace noise >= threshold)."""
    need = threshold - distance
    share = 1 / (1 + math.exp(-epsilon))
    return share * math.exp(-epsilon * need) if need > 0 else 1 - share * math.exp(-epsilon * (1 - need))


def proposed_divergence(left, right, epsilon, min_n, threshold, test, release):
    """The exact delta of propose-test-release of a mean, at epsilon, for two numbers of values."""
    passing = [upper_tail(max(0, n - min_n + 1), test, threshold) for n in (left, right)]
    refused = max(0.0, (1 - passing[0]) - math.exp(epsilon) * (1 - passing[1]))
    shift = shift_of_means(left, right) * min_n * release
    return refused + passing[0] * float(equal_scales(epsilon + math.log(passing[1] / passing[0]), shift))


def largest_beta(epsilon, delta):
    """The beta from which on there is no noise that is enough, by the form of 2007, or for Student's t."""
    return epsilon / Fraction(2 * math.log(2 / delta)) if delta else epsilon / DEGREES_OF_FREEDOM


class TestExactDelta:
    @each("epsilon", EPSILONS)
    @each("min_n", [1, 2, 100, 1000])
    def test_its_exact_delta_is_at_most_the_stated_one(self, epsilon, min_n):
        test, release = float(TEST_SHARE) * epsilon, float(1 - TEST_SHARE) * epsilon
        threshold = pass_threshold(TEST_SHARE * Fraction(epsilon), Fraction(DELTA))
        near = [max(0, min_n + sign * step) for sign in (-1, 1) for step in (0, 1, threshold - 1, threshold)]
        worst = max(
            proposed_divergence(left, right, epsilon, min_n, threshold, test, release)
            for left, right in neighbours({*SIZES, *near})
        )
        assert worst <= DELTA * (1 + 1e-9)
        if min_n > 2 and 0.1 <= epsilon <= 1:
            assert worst > 0.85 * DELTA  # the threshold is no larger than it has to be

    def test_the_threshold_is_the_smallest(self):
        for epsilon, delta in itertools.product([1e-3, 0.1, 1, 7, 300], [1e-12, 1e-6, 0.01, 0.4, 0.9]):
            threshold = pass_threshold(Fraction(epsilon), Fraction(delta))
            assert upper_tail(0, epsilon, threshold) <= delta * (1 + 1e-9)
            assert threshold == 1 or upper_tail(0, epsilon, threshold - 1) > delta * (1 - 1e-9)


class TestExactNoise:
    @pytest.mark.parametrize("epsilon", EPSILONS)
    @pytest.mark.parametrize("share", [0.001, 0.1, 0.5])
    def test_students_t_is_pure(self, epsilon, share):
        beta = Fraction(share) * largest_beta(Fraction(epsilon), 0)
        factor = SmoothNoise.calibrated(Fraction(epsilon), Fraction(0), beta).factor
        for ratio in (math.exp(-float(beta)), 1.0, math.exp(float(beta))):
            scales, shift = [float(factor) * ratio, float(factor)], min(ratio, 1.0)
            places = np.concatenate(
                [np.linspace(-50, 50, 5_001), np.geomspace(50, 1e9, 500), -np.geomspace(50, 1e9, 500)]
            )
            places = places * max(scales)
            losses = t.logpdf(places, DEGREES_OF_FREEDOM, 0, scales[0]) - t.logpdf(
                places, DEGREES_OF_FREEDOM, shift, scales[1]
            )
            assert np.abs(losses).max() <= epsilon * (1 + 1e-9)

    @pytest.mark.parametrize("epsilon", [0.01, 1, 20])
    @pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 1])
    @pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
    def test_the_factor_is_enough_for_every_pair_of_scales_and_no_larger_than_need_be(self, epsilon, share, delta):
        beta = share * epsilon / (2 * math.log(2 / delta))
        factor = Decimal(float(laplace_factor(Fraction(epsilon), Fraction(delta), Fraction(beta))))

        def worst(factor):
            one = Decimal(1)
            ratios = [Decimal(exponent).exp() for exponent in np.linspace(-beta, beta, 41)]
            return max(
                laplace_divergence(Decimal(epsilon), factor * ratio, share * min(ratio, one), factor)
                for ratio in ratios
                for share in (one, one / 2)
            )

        assert worst(factor) <= Decimal(delta) * Decimal("1.0000001")
        assert worst(factor * Decimal("0.999")) > Decimal(delta)

    @pytest.mark.parametrize("epsilon", [-0.5, 0.3])
    @pytest.mark.parametrize("scales", [(1, 1), (1, 1.5), (2, 0.7)])
    @pytest.mark.parametrize("shift", [0, 0.8])
    def test_the_divergence_is_the_integral(self, epsilon, scales, shift):
        def excess(x):
            return max(0.0, laplace.pdf(x, 0, scales[0]) - math.exp(epsilon) * laplace.pdf(x, shift, scales[1]))

        integral = sum(quad(excess, left, right, limit=400)[0] for left, right in [(-80, -5), (-5, 0), (0, 5), (5, 80)])
        exact = laplace_divergence(*(Decimal(number) for number in (epsilon, scales[0], shift, scales[1])))
        assert float(exact) == pytest.approx(integral, abs=1e-7)


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

    def test_values_are_clipped_to_the_bounds(self):
        assert propose(value=1e300, sensitivity=1e-9, random_state=0).value == pytest.approx(100)
        assert propose(value=-1e300, sensitivity=1e-9, random_state=0).value == pytest.approx(0, abs=1e-7)

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

    def test_the_statistic_keeps_no_state(self):
        class Counter:
            seen = 0

            def __call__(self, chunk):
                self.seen += 1
                return self.seen

        assert aggregate(statistic=Counter(), epsilon=500.0).value == pytest.approx(1, abs=0.1)
        assert aggregate(statistic=Counter().__call__, epsilon=500.0).value == pytest.approx(1, abs=0.1)

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
    "release parameters message",
    [
        (propose, {"value": math.nan}, "value must be a finite number$"),
        (propose, {"value": "8.5123"}, "value must be a finite number, got str"),
        (propose, {"distance": -1}, "distance must be an integer of at least 0$"),
        (propose, {"sensitivity": 0}, "sensitivity"),
        (propose, {"bounds": (0, math.inf)}, "bounds"),
        (propose, {"delta": 0}, "delta must be above 0"),
        (propose, {"test_share": 1}, "test_share"),
        (propose, {"ledger": "l"}, "ledger"),
        (smooth, {"value": math.inf}, "value must be a finite number$"),
        (smooth, {"sensitivity": -8.5123}, "smooth_sensitivity must be a finite number > 0$"),
        (smooth, {"beta": 5.0}, "beta=5 is too large"),
        (smooth, {"beta": 0.2, "delta": 0}, "beta must be below epsilon / 5"),
        (smooth, {"epsilon": math.nan}, "epsilon"),
        (aggregate, {"statistic": "mean"}, "statistic must be callable"),
        (aggregate, {"bounds": (1, 0)}, "bounds"),
        (aggregate, {"n_chunks": 0}, "n_chunks"),
        (aggregate, {"default": 101}, "default"),
        (aggregate, {"y": [1]}, "as many rows"),
        (aggregate, {"X": np.ma.zeros((3, 1))}, "masked arrays"),
        (aggregate, {"statistic": partial(np.mean, out=Lock())}, "can be copied"),
        (aggregate, {"X": pl.DataFrame({"a": [1]}).lazy()}, "skdp.engines"),
        (aggregate, {"random_state": 1.5}, "random_state"),
    ],
)
def test_mistakes_cost_nothing(release, parameters, message):
    ledger = PrivacyLedger(epsilon=2.0, delta=0.1)
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        release(**{"ledger": ledger} | parameters)
    assert "8.5123" not in str(caught.value)
    assert ledger.spent == (0, 0)


@pytest.mark.parametrize("release", [propose, smooth, aggregate])
def test_every_call_draws_anew_and_a_seed_repeats(release):
    assert release().value != release().value
    assert release(random_state=1).value == release(random_state=1).value
    assert release(random_state=1).value != release(random_state=2).value
    assert release().guarantee.secure
    assert not release(random_state=1).guarantee.secure
    assert pickle.loads(pickle.dumps(release())).guarantee.relation == "add_remove"
