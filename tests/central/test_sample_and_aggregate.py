"""Any statistic, on random chunks of the rows."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

from skdp import PrivacyLedger
from skdp.central import sample_and_aggregate
from skdp.privacy import Mu
from skdp.testing import replay_release


def aggregate(X=None, statistic=np.mean, **parameters):
    X = np.full((1000, 1), 30.0) if X is None else X
    return sample_and_aggregate(statistic, X, **{"bounds": (0, 100), "n_chunks": 50, "epsilon": 1.0} | parameters)


class TestSampleAndAggregate:
    @pytest.mark.usefixtures("repeatable_draws")
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


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"statistic": "mean"}, "`statistic` must be callable"),
        ({"bounds": (1, 0)}, "bounds"),
        ({"bounds": None}, "one pair per output, got None"),
        ({"bounds": np.empty((0, 2))}, r"`bounds` must be a pair \(low, high\), or one pair per output"),
        ({"X": np.array(8.5123)}, "X must be a dataframe or an array of rows"),
        ({"n_chunks": 0}, "n_chunks"),
        ({"y": [1]}, "same number of rows"),
        ({"X": np.ma.zeros((3, 1))}, "masked array"),
        ({"X": pl.DataFrame({"a": [1]}).lazy()}, "skdp.engines"),
        ({"random_state": 1.5}, "random_state"),
    ],
)
def test_invalid_arguments_raise_before_charge(parameters, message):
    ledger = PrivacyLedger(epsilon=2.0, delta=0.1)
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        aggregate(**{"ledger": ledger} | parameters)
    assert "8.5123" not in str(caught.value)
    assert ledger.spent == (0, 0)
