"""Any statistic: on random chunks of the rows, and by its local sensitivity, with the exact delta of neighbors."""

import itertools
import math
from functools import cache, partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

from skdp import BudgetExceeded, PrivacyLedger
from skdp.central import (
    propose_test_release,
    sample_and_aggregate,
    smooth_sensitivity_release,
)
from skdp.privacy import Mu
from skdp.randomness import watch_draws
from skdp.testing import replay_release
from tests.conftest import counted_draws, diagonal, often
from tests.errors import refusal

WIDTH = 100
DELTA = 1e-6


def run(release, X, *noises, **parameters):
    """Return the result of a release with mocked noise, and the scales of its draws."""
    left, scales = list(noises), []

    def watch(sampler, drawn, values):
        scales.append(values["scale"])
        return np.array([left.pop(0)], object)

    with watch_draws(watch):
        return release(X=X, bounds=(0, WIDTH), **{"statistic": "mean", "delta": DELTA} | parameters), scales


def mass(low, high, scale):
    """Return the mass of Laplace noise between two numbers on one side of 0."""
    near, far = sorted((abs(low), abs(high)))
    return (math.exp(-near / scale) - math.exp(-far / scale)) / 2


def laplace_delta(epsilon, scale, shift, other_scale):
    """Return the integral of (p - e^epsilon q)+ for Laplace noise p about 0 and q about the shift."""
    start = math.log(other_scale / scale) - epsilon
    pieces = [
        (-math.inf, 0, start + shift / other_scale, 1 / scale - 1 / other_scale),
        (0, shift, start + shift / other_scale, -1 / scale - 1 / other_scale),
        (shift, math.inf, start - shift / other_scale, 1 / other_scale - 1 / scale),
    ]
    total = 0.0
    for low, high, intercept, slope in pieces:
        if slope > 0:
            low = max(low, -intercept / slope)
        elif slope < 0:
            high = min(high, -intercept / slope)
        elif intercept <= 0:
            continue
        if low < high:
            total += mass(low, high, scale) - math.exp(epsilon) * mass(low - shift, high - shift, other_scale)
    return max(total, 0.0)


def find_needed_noise(release, X, **parameters):
    """Return the smallest noise for which the test passes."""
    low, high = -2048, 2048
    while low < high:
        middle = (low + high) // 2
        if run(release, X, middle, 0, **parameters)[0].released:
            high = middle
        else:
            low = middle + 1
    return low


def describe_proposal(X, **parameters):
    """Return the probability of passing, the released statistic and the scale of its noise in units."""
    needed = find_needed_noise(propose_test_release, X, **parameters)
    result, scales = run(propose_test_release, X, 1 << 20, 0, **parameters)
    decay = math.exp(-1 / float(scales[0]))
    tail = decay ** abs(needed) / (1 + decay)
    passes = tail if needed > 0 else 1 - tail * decay
    return passes, result.value, float(scales[1]) * WIDTH / 2**60


def proposal_delta(epsilon, first, second):
    """Return the exact delta of two tables for propose-test-release."""
    (passes, value, scale), (other_passes, other_value, _) = first, second
    refused = max(0.0, (1 - passes) - math.exp(epsilon) * (1 - other_passes))
    gap = epsilon + math.log(other_passes / passes)
    return refused + passes * laplace_delta(gap, scale, abs(value - other_value), scale)


def describe_smooth(X, **parameters):
    result, (scale,) = run(smooth_sensitivity_release, X, 0, **parameters)
    return result.value, float(scale) * WIDTH / 2**60


def smooth_delta(epsilon, first, second):
    return laplace_delta(epsilon, first[1], abs(first[0] - second[0]), second[1])


@pytest.mark.parametrize("epsilon", often([0.1, 1.0, 20.0], [1.0]))
def test_proposal_keeps_its_delta_at_every_size(epsilon):
    # A mean of zeros with one hundred: the largest change, with a proposal for 40 records.
    def describe(n, *more):
        return describe_proposal(np.array([0.0] * n + [*more]), sensitivity=WIDTH / 40, epsilon=epsilon)

    threshold = math.ceil(-math.log(DELTA) / (epsilon / 10))
    sizes = [1, 2, 20, *range(37, 44), 40 + threshold // 2, *range(36 + threshold, 42 + threshold)]
    worst = 0.0
    for n in sizes:
        pair = describe(n), describe(n, 100.0)
        for first, second in (pair, pair[::-1]):
            worst = max(worst, proposal_delta(epsilon, first, second))
    assert worst <= DELTA * (1 + 1e-6)
    # Another table changes the distance by 1, and the released statistic by the proposal.
    _, scales = run(propose_test_release, np.zeros(20), 1 << 20, 0, sensitivity=WIDTH / 40, epsilon=epsilon)
    assert 1 / float(scales[0]) + 2**60 / 40 / float(scales[1]) == pytest.approx(epsilon)
    assert describe(20)[0] == pytest.approx(DELTA / (1 + math.exp(-epsilon / 10)), rel=0.05 + epsilon)
    assert describe(41 + 2 * threshold)[0] > 0.99


def test_noise_of_a_proposal_covers_the_rounding_to_a_step():
    """Statistics that differ by one step of the grid may be two steps apart after rounding."""
    options = {"statistic": lambda X: 50.0, "local_sensitivity": lambda X, k: 0.0, "sensitivity": WIDTH * 2.0**-60}
    _, (test, noise) = run(propose_test_release, np.zeros(20), 1 << 20, 0, epsilon=1.0, **options)
    assert 1 / test + 2 / noise == 1


@pytest.mark.parametrize(("epsilon", "delta"), diagonal([0.1, 1.0, 20.0], [DELTA, 0.9]))
def test_smooth_sensitivity_keeps_its_delta_at_every_size(epsilon, delta):
    parameters = {"epsilon": epsilon, "delta": delta}
    worst = 0.0
    for n in [0, 1, 2, 3, 10, 50, 199, 200, 500, 2000, 20000]:
        first = describe_smooth(np.zeros(n), **parameters)
        second = describe_smooth(np.array([0.0] * n + [100.0]), **parameters)
        worst = max(worst, smooth_delta(epsilon, first, second), smooth_delta(epsilon, second, first))
    assert worst <= delta * (1 + 1e-6)


class TestMedian:
    """All tables of up to four values, with local sensitivities by brute force."""

    VALUES = (0.0, 30.0, 100.0)

    @staticmethod
    def median(X):
        return float(np.median(X)) if len(X) else 50.0

    @classmethod
    def tables(cls):
        return [t for size in range(5) for t in itertools.combinations_with_replacement(cls.VALUES, size)]

    @classmethod
    @cache
    def neighbors(cls, table):
        removed = {table[:i] + table[i + 1 :] for i in range(len(table))}
        added = {tuple(sorted((*table, value))) for value in cls.VALUES} if len(table) < 4 else set()
        return removed | added

    @classmethod
    @cache
    def sensitivity(cls, table, distance):
        if distance == 0:
            return max(abs(cls.median(table) - cls.median(other)) for other in cls.neighbors(table))
        near = [cls.sensitivity(other, min(distance, 9) - 1) for other in cls.neighbors(table)]
        return max(*near, cls.sensitivity(table, 0))

    @pytest.mark.parametrize("epsilon", often([0.5, 3.0], [3.0]))
    def test_all_neighbors_are_within_delta(self, epsilon):
        def parameters():
            local = {"local_sensitivity": lambda X, k: self.sensitivity(tuple(X), k)}
            return {"statistic": self.median, "epsilon": epsilon, "delta": 0.05} | local

        smooth, proposed = {}, {}
        for table in self.tables():
            smooth[table] = describe_smooth(list(table), **parameters())
            proposed[table] = describe_proposal(list(table), sensitivity=35.0, **parameters())
        for table, others in ((table, self.neighbors(table)) for table in self.tables()):
            for other in others:
                assert smooth_delta(epsilon, smooth[table], smooth[other]) <= 0.05 * (1 + 1e-6)
                assert proposal_delta(epsilon, proposed[table], proposed[other]) <= 0.05 * (1 + 1e-6)


@pytest.mark.parametrize("release", [propose_test_release, smooth_sensitivity_release])
def test_charge_equals_the_guarantee_and_precedes_the_draw(release):
    ledger = PrivacyLedger(epsilon=1.5, delta=1e-5)
    options = {"bounds": (0, 1), "epsilon": 1.0, "delta": 1e-6, "ledger": ledger}
    options |= {"sensitivity": 0.1} if release is propose_test_release else {}
    guarantee = release("mean", np.array([1.0, np.nan] * 9), **options).guarantee
    assert (guarantee.epsilon, guarantee.delta, guarantee.secure) == (1, 1e-6, True)
    with counted_draws() as drawn, pytest.raises(BudgetExceeded):
        release("mean", np.ones(9), **options)
    assert drawn[0] == 0
    assert ledger.spent == (1, pytest.approx(1e-6))


def aggregate(X=None, statistic=np.mean, **parameters):
    X = np.full((1000, 1), 30.0) if X is None else X
    return sample_and_aggregate(statistic, X, **{"bounds": (0, 100), "n_chunks": 50, "epsilon": 1.0} | parameters)


class TestSampleAndAggregate:
    def test_any_statistic_is_accepted_and_its_errors_are_not_shown(self):
        rng = np.random.default_rng(0)

        def moody(chunk):
            choice = rng.integers(5)
            if choice == 0:
                raise RuntimeError("8.5123")
            return [math.nan, 8.5123, [1, 2], "8.5123", math.inf][choice]

        release = aggregate(statistic=moody, n_chunks=200)
        assert release.n_failed > 50 or not release.released

    @pytest.mark.parametrize("error", [ValueError, RecursionError, SystemExit])
    def test_failing_statistic_raises_an_error(self, error):
        def failing(chunk):
            raise error(f"row {chunk[0]}")

        ledger = PrivacyLedger(epsilon=2.0)
        with pytest.warns(UserWarning, match="failed in about 5[0-9] of 50 chunks|about 4[0-9] of 50") as found:
            release = aggregate(statistic=failing, ledger=ledger, random_state=0)
        assert math.isnan(release.value)
        assert math.isnan(release.std_error)
        assert not release.released
        assert len(found) == 1
        assert ledger.spent[0] == 1.0

    def test_std_error_includes_the_noise_of_the_number_of_chunks(self):
        """It has no effect on a value in the middle, and the effect of the noise of the sum on a value at a bound."""
        middle, bound = (aggregate(np.full((1000, 1), value), random_state=0).std_error for value in (50.0, 100.0))
        assert bound / middle == pytest.approx(math.sqrt(2), rel=0.05)

    def test_failed_chunks_are_ignored(self):
        def fragile(chunk):
            assert chunk.min() >= 0
            return chunk.mean()

        X = np.full((20_000, 1), 90.0)
        X[:150] = -1.0
        release = aggregate(X, fragile, n_chunks=500, epsilon=50.0, random_state=0)
        assert release.value == pytest.approx(90, abs=1)
        assert 100 < release.n_failed < 160

    def test_order_and_labels_of_rows_do_not_change_the_result(self):
        # One row at the front moved an answer by 99.5: each chunk contained the positions of its rows.
        ages = pd.DataFrame({"age": np.arange(200.0)})
        one_more = pd.concat([ages.iloc[:1], ages])
        for statistic in (lambda chunk: chunk.index.max(), lambda chunk: (chunk.index % 2).to_numpy()[:2].sum()):
            found = [
                aggregate(table, statistic, n_chunks=20, epsilon=500.0, random_state=0).value
                for table in (ages, one_more, one_more.set_index(pd.Index(range(1000, 1201))))
            ]
            assert found == pytest.approx([found[0]] * 3, abs=0.5)
        smallest = aggregate(ages, lambda chunk: chunk.index.min(), n_chunks=20, epsilon=500.0, random_state=0)
        assert smallest.value == pytest.approx(0, abs=0.5)

    @pytest.mark.parametrize("epsilon", [0.7, Mu(0.5, delta=1e-6)])
    @pytest.mark.parametrize(
        ("there", "elsewhere"), [(100, 0), (0, 100), (math.nan, 100), (0, math.nan), ([100, 0], [0, 100])]
    )
    def test_replayed_noise_covers_any_result_of_a_chunk(self, epsilon, there, elsewhere):
        """A record moves the result of its chunk from one bound to the other, or to none."""

        def statistic(chunk):
            return there if (chunk == 9).any() else elsewhere

        X = np.arange(10.0)[:, np.newaxis]
        options = {"n_chunks": 3, "epsilon": epsilon, "bounds": [(0, 100)] * np.size(there), "random_state": 0}
        for one, other in ((X, X[:9]), (X[:9], X)):
            replay = replay_release(lambda table: aggregate(table, statistic, **options), one, other)
            assert replay.passed, replay.findings
            assert replay.epsilon > 0.3 * replay.guarantee.epsilon

    def test_coefficients_of_an_estimator_are_aggregated(self):
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


RELEASES = {
    "chunks": partial(sample_and_aggregate, n_chunks=50),
    "proposal": partial(propose_test_release, sensitivity=1.0, delta=1e-6),
    "smooth": partial(smooth_sensitivity_release, delta=1e-6),
}
MISTAKES = [
    ({"epsilon": -1}, "epsilon"),
    ({"bounds": (5, 5)}, "bounds"),
    ({"bounds": None}, "one pair per output, got NoneType"),
    ({"bounds": 100}, "one pair per output, got int"),
    ({"bounds": np.empty((0, 2))}, r"`bounds` must be a pair \(low, high\), or one pair per output"),
    ({"ledger": 3}, "ledger"),
    ({"random_state": 1.5}, "random_state"),
]
OF_CHUNKS = [
    ({"statistic": "mean"}, "`statistic` must be callable"),
    ({"X": np.array(8.5123)}, "X must be a dataframe or an array of rows"),
    ({"n_chunks": 0}, "n_chunks"),
    ({"y": [1]}, "same number of rows"),
    ({"X": np.ma.zeros((3, 1))}, "masked array"),
    ({"X": pl.DataFrame({"a": [1]}).lazy()}, "skdp.engines"),
]
OF_SENSITIVITIES = [
    ({"delta": 0}, "`delta` must be in"),
    ({"bounds": [(0, 1), (0, 2)]}, "bounds"),
    ({"statistic": "median"}, "`statistic` must be"),
    ({"statistic": np.median}, "a callable with a callable `local_sensitivity`"),
    ({"X": np.ones((3, 2))}, "one column"),
    ({"X": ["8.5123"]}, "contains text or other objects"),
    ({"X": np.array([0.25, "8.5123", np.nan], object)}, "contains text or other objects"),
    ({"statistic": lambda X: X["8.5123"], "local_sensitivity": lambda X, k: 1}, "must return finite numbers"),
    ({"statistic": np.mean, "local_sensitivity": lambda X, k: math.nan}, "must return finite numbers"),
]


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        *[("chunks", *mistake) for mistake in MISTAKES + OF_CHUNKS],
        *[(name, *mistake) for name in ("proposal", "smooth") for mistake in MISTAKES + OF_SENSITIVITIES],
        ("smooth", {"epsilon": 1e-9}, "`epsilon` must be larger"),
    ],
)
def test_invalid_arguments_raise_before_charge(name, parameters, message):
    ledger = PrivacyLedger(epsilon=2.0, delta=0.1)
    statistic = np.mean if name == "chunks" else "mean"
    options = {"statistic": statistic, "X": np.array([8.5123, 1.0]), "bounds": (0, 10), "epsilon": 1.0}
    with refusal((TypeError, ValueError), message, "8.5123"):
        RELEASES[name](**options | {"ledger": ledger} | parameters)
    assert ledger.spent == (0, 0)
