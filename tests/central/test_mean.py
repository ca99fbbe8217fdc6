from __future__ import annotations

import copy
import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import kstest, laplace
from sklearn.base import clone

from skdp import BudgetExceeded, DPStandardScaler, PrivacyLedger
from skdp.central import DPMean
from skdp.central.statistics import GRID, ColumnSums, two_sums
from skdp.central.statistics import _noise as noise_of_shares
from skdp.central.statistics._noise import cube_quantile, cube_std
from tests.conftest import each

COUNTS = [{}, {"missing": "error"}]
every_count = pytest.mark.parametrize("kind", COUNTS, ids=["a count a column", "one count"])


def table(n, columns=1, seed=0):
    return np.random.default_rng(seed).beta(2, 5, size=(n, columns)) * 80 + 10


def fits(X, repeats, **parameters):
    return [DPMean(random_state=seed, **parameters).fit(X) for seed in range(repeats)]


class Recorder:
    """Noise of 0, which keeps what it is added to."""

    error = Fraction(1)

    def add(self, source, numbers):
        self.seen = np.array(list(numbers), object)
        return self.seen.tolist()

    def reach(self, *_):
        return Fraction(0)


class TestSensitivity:
    """A record changes the numbers that get noise by what the noise is for: over all tables of up to two others."""

    @pytest.mark.parametrize("shared_count", [False, True])
    def test_two_sums(self, shared_count):
        noise = Recorder()

        def numbers(rows):
            two_sums(columns_of(rows), noise, 0.95, None, shared_count=shared_count)
            return noise.seen

        # Turned by 45 degrees, each number changes by a width at most, which the densities of `joint_noise` are for.
        assert largest_changes(numbers, missing=not shared_count) == [GRID] * (3 if shared_count else 4)


def columns_of(rows):
    one, two = zip(*rows, strict=True) if rows else ((), ())
    return [ColumnSums.of(np.array(one, float), 0.0, 100.0), ColumnSums.of(np.array(two, float), -30.0, 10.0)]


def largest_changes(numbers, *, missing=True):
    """Return the largest change of each number by a record more."""
    values = (0.0, 40.0, 100.0), (-30.0, 3.3, 10.0)
    records = list(itertools.product(*((*each, math.nan) if missing else each for each in values)))
    changes = []
    for n in range(3):
        for others in itertools.combinations_with_replacement(records[:: n + 1], n):
            before = numbers(list(others))
            changes += [np.abs(numbers([*others, record]) - before) for record in records]
    return np.max(changes, axis=0).tolist()


class TestAccuracy:
    @every_count
    def test_the_standard_error_is_right_and_the_intervals_cover(self, kind):
        X = np.full((4000, 1), 31.25)
        runs = fits(X, 120, epsilon=1.0, bounds=(0, 100), **kind)
        errors = np.array([run.mean_[0] for run in runs]) - 31.25
        stated = np.mean([run.std_error_[0] for run in runs])
        assert np.sqrt(np.mean(errors**2)) == pytest.approx(stated, rel=0.25)  # 120 runs: 8 to 12 % a standard error
        assert abs(errors.mean()) < 4 * stated / math.sqrt(120)
        covered = np.mean([run.interval_[0, 0] <= 31.25 <= run.interval_[0, 1] for run in runs])
        assert 0.9 <= covered <= 0.99

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("columns", "place"),
        [
            (5, 97.0),
            *(
                pytest.param(*case, marks=pytest.mark.long)
                for case in [
                    (2, 0.0),
                    (1, 0.0),
                    (1, 50.0),
                    (1, 97.0),
                    (2, 50.0),
                    (2, 97.0),
                    (5, 0.0),
                    (5, 50.0),
                    (20, 97.0),
                ]
            ),
        ],
    )
    def test_two_sums_of_several_columns_share_one_epsilon(self, columns, place):
        X = np.full((2000, columns), place)
        runs = fits(X, 200, epsilon=1.0, bounds=(0, 100))
        errors = np.array([run.mean_ for run in runs]) - place
        t = place / 50 - 1
        closed = 50 * cube_std(2 * columns) * math.sqrt(1 + t**2) / 2000
        inside = np.mean([np.abs(run.mean_ - 50) < 50 for run in runs])
        if inside == 1:  # nothing was cut to the bounds
            assert np.sqrt(np.mean(errors**2)) == pytest.approx(closed, rel=0.12)
        if place > 0:  # an interval around a bound is cut to one side
            covered = np.mean([(run.interval_[:, 0] <= place) & (place <= run.interval_[:, 1]) for run in runs])
            assert 0.93 <= covered <= 0.97

    def test_without_missing_values_one_count_is_enough(self):
        """The error is that of the means of a scaler, two thirds of that with a count for each of five columns."""
        X = table(4000, 5)
        shared = fits(X, 60, epsilon=0.5, bounds=(0, 100), missing="error")
        own = fits(X, 60, epsilon=0.5, bounds=(0, 100))
        errors = [np.sqrt(np.mean([(run.mean_ - X.mean(axis=0)) ** 2 for run in runs])) for runs in (shared, own)]
        assert errors[0] / errors[1] == pytest.approx(cube_std(6) / cube_std(10), rel=0.15)
        scaler = DPStandardScaler(0.5, with_std=False, bounds=(0, 100), missing="error", random_state=0).fit(X)
        assert scaler.mean_std_error_ == pytest.approx(shared[0].std_error_, rel=0.01)
        inside = [(run.interval_[:, 0] <= X.mean(axis=0)) & (X.mean(axis=0) <= run.interval_[:, 1]) for run in shared]
        assert 0.91 <= np.mean(inside) <= 0.99

    def test_missing_values_may_be_an_error(self):
        ledger = PrivacyLedger(epsilon=1.0)
        for hole in (math.nan, math.inf):
            with pytest.raises(ValueError, match="column 'x0' holds a missing value"):
                DPMean(bounds=(0, 1), missing="error", ledger=ledger).fit([[0.5], [hole]])
        with pytest.raises(ValueError, match="missing must be one of"):
            DPMean(bounds=(0, 1), missing="drop", ledger=ledger).fit([[0.5]])
        assert ledger.spent == (0, 0)

    @pytest.mark.long
    def test_one_column_is_two_independent_laplace_sums(self):
        # A = (sum + count) / 2 and B = (count - sum) / 2 in steps; seen through the ratio of a large table.
        n, epsilon = 10**5, 0.5
        runs = fits(np.full((n, 1), 0.5), 150, epsilon=epsilon, bounds=(0, 1))
        noise = (np.array([run.mean_[0] for run in runs]) - 0.5) * 2 * n * epsilon * 2
        first, second = laplace.rvs(size=(2, 200_000), random_state=0) * 1.0
        assert kstest(noise / np.std(noise), (first - second) / np.std(first - second)).pvalue > 1e-6

    def test_quantiles_of_cube_noise(self):
        # In two dimensions z_1 + z_2 and z_1 - z_2 are independent Laplace numbers of scale 2.
        for level in (0.5, 0.9, 0.99):
            reach = cube_quantile(level, 2, 0.0)
            assert 1 - math.exp(-reach) * (1 + reach / 2) == pytest.approx(level)
            assert cube_quantile(level, 2, 1.0) == pytest.approx(-2 * math.log(1 - level))
        assert cube_std(2) == pytest.approx(2.0)
        rng = np.random.default_rng(0)
        for dimension, slope in [(2, 0.3), (5, 0.0), (11, 0.5), (40, 0.999)]:
            drawn = rng.gamma(dimension + 1, size=200_000) * (
                rng.uniform(-1, 1, 200_000) - slope * rng.uniform(-1, 1, 200_000)
            )
            within = np.mean(np.abs(drawn) <= cube_quantile(0.95, dimension, slope))
            assert within == pytest.approx(0.95, abs=5 * math.sqrt(0.05 * 0.95 / 200_000))

    @pytest.mark.long
    @pytest.mark.parametrize("epsilon", [0.1, 1.0])
    def test_ten_thousand_runs_on_adult(self, epsilon):
        from skdp.datasets import load_adult

        frame = load_adult().frame
        for column, high, figures in [("age", 100, (0.0316, 0.0032)), ("capital-gain", 100_000, (43.0, 4.3))]:
            X = frame[[column]].to_numpy(float)
            runs = fits(X, 10_000, epsilon=epsilon, bounds=(0, high))
            errors = np.array([run.mean_[0] for run in runs]) - X.mean()
            assert np.sqrt(np.mean(errors**2)) <= 1.05 * figures[epsilon == 1.0], column


class TestData:
    @every_count
    @pytest.mark.parametrize("rows", [0, 1, 2])
    def test_tables_of_no_rows_and_of_one_are_answered(self, kind, rows):
        mean = DPMean(bounds=(-5, 5), random_state=0, **kind).fit(np.full((rows, 2), 3.0))
        assert mean.mean_.shape == mean.std_error_.shape == (2,)
        assert mean.interval_.shape == (2, 2)
        assert ((mean.mean_ >= -5) & (mean.mean_ <= 5)).all()

    def test_wide_bounds_have_errors_of_their_size(self):
        X = np.full((1000, 1), 1e307)
        assert DPMean(bounds=(-8e307, 8e307), random_state=0).fit(X).std_error_[0] < 1e306

    def test_missing_values_add_nothing(self):
        X = np.full((3000, 1), 7.0)
        padded = np.vstack([X, np.full((50_000, 1), np.nan)])
        whole, found = (DPMean(bounds=(0, 10), random_state=3, epsilon=5.0).fit(rows).mean_ for rows in (X, padded))
        assert found == whole

    def test_both_sides_are_clipped(self):
        X = np.full((3000, 1), 30.0)
        for outlier in (-1e9, 1e9, np.inf, -np.inf):
            mean = DPMean(bounds=(0, 100), epsilon=20.0, random_state=0).fit(np.vstack([X, [[outlier]]]))
            assert abs(mean.mean_[0] - 30) < 0.1

    def test_the_sign_of_the_bounds_does_not_matter(self):
        X = table(5000)
        for shift in (0, -60, -1000, 1e6):
            mean = DPMean(bounds=(shift, 100 + shift), epsilon=5.0, random_state=1).fit(X + shift)
            error = abs(mean.mean_[0] - X.mean() - shift)
            assert error < 6 * mean.std_error_[0]

    @pytest.mark.parametrize("bounds", [(0, 100), {"age": (0, 100), "hours": (0, 100)}, [(0, 100), (0, 100)]])
    def test_frames_of_every_kind(self, make_frame, bounds, frame_kind):
        data = {"age": [17, 38, 90, 41] * 200, "hours": [40, 20, 60, 38] * 200}
        frame = make_frame(data)
        if frame_kind == "pandas-category":
            frame = frame.astype("category")
        mean = DPMean(epsilon=50.0, bounds=bounds, random_state=0).fit(frame)
        assert mean.feature_names_in_.tolist() == ["age", "hours"]
        assert mean.mean_ == pytest.approx([46.5, 39.5], abs=0.5)
        assert mean.guarantee_.scope == ("age", "hours")

    def test_nulls_of_every_kind(self, make_frame):
        mean = DPMean(epsilon=50.0, bounds=(0, 100), random_state=0).fit(make_frame({"age": [17, None, 90, 40] * 200}))
        assert mean.mean_ == pytest.approx([49.0], abs=0.5)

    @every_count
    def test_tiny_epsilons_give_wide_answers_and_no_errors(self, kind):
        mean = DPMean(epsilon=1e-300, bounds=(0, 100), random_state=0, **kind).fit(table(50))
        assert 0 <= mean.mean_[0] <= 100
        np.testing.assert_array_equal(mean.interval_, [[0, 100]])

    @pytest.mark.parametrize("epsilon", [1e4, 1e9, 1e300])
    @every_count
    def test_huge_epsilons(self, kind, epsilon):
        mean = DPMean(epsilon, bounds=(0, 100), random_state=0, **kind).fit(np.full((5000, 2), 25.0))
        assert mean.mean_ == pytest.approx([25, 25], abs=1)

    def test_an_epsilon_that_is_no_float_is_stated_rounded_up(self):
        mean = DPMean(Fraction(1, 3), bounds=(0, 1)).fit(np.zeros((5, 1)))
        assert Fraction(mean.guarantee_.epsilon) >= Fraction(1, 3)

    @each(
        "X",
        [
            pl.DataFrame({"a": [None, None]}),
            pl.DataFrame({"a": []}),
            pa.table({"a": pa.nulls(2)}),
            pd.DataFrame({"a": [None, None]}),
            pd.DataFrame({"a": []}),
        ],
    )
    def test_a_column_without_a_value_is_answered_whatever_its_dtype(self, X):
        assert DPMean(bounds=(0, 100)).fit(X).mean_.shape == (1,)

    def test_a_large_epsilon_gives_the_mean(self):
        X = table(2000)
        mean = DPMean(epsilon=700.0, bounds=(0, 100), random_state=0).fit(X)
        assert mean.mean_[0] == pytest.approx(X.mean(), abs=1e-3)


@pytest.mark.parametrize("columns", [1, 3])
def test_one_draw_of_noise_has_the_whole_epsilon(monkeypatch, columns):
    """A record moves each number of the cube by a width at most, which is the scale times epsilon."""
    scales = []
    original = noise_of_shares.cube_noise
    monkeypatch.setattr(
        noise_of_shares,
        "cube_noise",
        lambda source, scale, *size: scales.append(scale) or original(source, scale, *size),
    )
    DPMean(0.7, bounds=(0, 1), random_state=0).fit(np.zeros((4, columns)))
    assert scales == [GRID / Fraction(0.7)]


class TestPromise:
    @every_count
    def test_the_guarantee(self, kind):
        mean = DPMean(epsilon=0.7, bounds=(0, 100), **kind).fit(pd.DataFrame(table(3000, 2), columns=["a", "b"]))
        guarantee = mean.guarantee_
        assert (guarantee.epsilon, guarantee.relation, guarantee.trust) == (0.7, "add_remove", "central")
        assert guarantee.delta == 0
        assert guarantee.scope == ("a", "b")
        assert guarantee.secure

    @every_count
    def test_fit_twice_spends_twice_and_the_third_time_is_refused(self, kind):
        ledger = PrivacyLedger(epsilon=2.0, delta=1e-5)
        estimator = DPMean(bounds=(0, 100), ledger=ledger, **kind)
        for spent in (1.0, 2.0):
            clone(estimator).fit(table(3000))
            assert ledger.spent[0] == spent
        last = clone(estimator)
        with pytest.raises(BudgetExceeded):
            last.fit(table(3000))
        assert not hasattr(last, "mean_")
        assert not hasattr(last, "guarantee_")

    def test_a_seed_repeats_and_is_said_to_be_insecure(self):
        X = table(500)
        first, second = (DPMean(bounds=(0, 100), random_state=4).fit(X) for _ in range(2))
        assert first.mean_ == second.mean_
        assert not first.guarantee_.secure
        assert DPMean(bounds=(0, 100), random_state=5).fit(X).mean_ != first.mean_

    @every_count
    def test_without_a_seed_every_fit_draws_anew(self, kind):
        np.random.seed(0)  # noqa: NPY002
        X = table(2000)
        estimator = DPMean(bounds=(0, 100), **kind)
        copies = [estimator, clone(estimator), pickle.loads(pickle.dumps(estimator)), copy.deepcopy(estimator)]
        assert len({one.fit(X).mean_[0] for one in copies}) == 4

    @every_count
    def test_nothing_else_stays_on_it(self, kind):
        mean = DPMean(bounds=(0, 100), random_state=0, **kind).fit(table(3000))
        public = {"mean_", "std_error_", "interval_", "bounds_", "guarantee_", "n_features_in_"}
        assert set(vars(mean)) - set(mean.get_params()) == public

    def test_pickles(self):
        mean = DPMean(bounds=(0, 100)).fit(table(100))
        assert pickle.loads(pickle.dumps(mean)).mean_ == mean.mean_


class TestMistakes:
    SECRET = 8.512345

    @each(
        "parameters error message",
        [
            ({"epsilon": 0}, ValueError, "epsilon"),
            ({"epsilon": -1}, ValueError, "epsilon"),
            ({"epsilon": math.nan}, ValueError, "epsilon"),
            ({"epsilon": math.inf}, ValueError, "epsilon"),
            ({"epsilon": True}, TypeError, "epsilon"),
            ({"epsilon": "1"}, TypeError, "epsilon"),
            ({"bounds": None}, ValueError, "bounds must be declared"),
            ({"bounds": (5, 5)}, ValueError, "bounds of column 'a'"),
            ({"bounds": (6, 5)}, ValueError, "bounds of column 'a'"),
            ({"bounds": (0, math.inf)}, ValueError, "bounds of column 'a'"),
            ({"bounds": (0, math.nan)}, ValueError, "bounds of column 'a'"),
            ({"bounds": (False, True)}, TypeError, "bounds of column 'a'"),
            ({"bounds": [(0, 1)] * 3}, ValueError, "bounds has 3 rows"),
            ({"bounds": {"a": (0, 1)}}, ValueError, r"bounds declares nothing for the columns \['b'\]"),
            ({"confidence_level": 1}, ValueError, "confidence_level"),
            ({"ledger": {}}, TypeError, "ledger"),
            ({"random_state": np.random.default_rng(0)}, TypeError, "random_state"),
            ({"random_state": -1}, ValueError, "random_state"),
        ],
    )
    def test_parameters(self, parameters, error, message):
        ledger = PrivacyLedger(epsilon=10, delta=0.1)
        X = pd.DataFrame({"a": [self.SECRET, 1.0], "b": [2.0, 3.0]})
        with pytest.raises(error, match=message) as caught:
            DPMean(**{"bounds": (0, 100), "ledger": ledger} | parameters).fit(X)
        assert str(self.SECRET) not in str(caught.value)
        assert ledger.spent == (0, 0)

    @each(
        "X error message",
        [
            (np.zeros(3), ValueError, "Reshape your data"),
            (np.zeros((2, 2), complex), ValueError, "Complex data"),
            (np.array([["secret", "b"]]), TypeError, "column 'x0'"),
            (np.array([["secret", 1.0]], dtype=object), TypeError, "column 'x0'"),
            (pd.DataFrame({"a": ["secret"], "b": [1.0]}), TypeError, "column 'a'"),
            (pd.DataFrame({"a": pd.to_datetime(["2020-02-02"]), "b": [1.0]}), TypeError, "column 'a'"),
            (pl.DataFrame({"a": ["secret"], "b": [1.0]}), TypeError, "column 'a'"),
            ([[1.0, "secret"]], TypeError, "column 'x1'"),
        ],
    )
    def test_data(self, X, error, message):
        ledger = PrivacyLedger(epsilon=10)
        with pytest.raises(error, match=message) as caught:
            DPMean(bounds=(0, 100), ledger=ledger).fit(X)
        assert "secret" not in str(caught.value)
        assert "2020" not in str(caught.value)
        assert ledger.spent == (0, 0)
