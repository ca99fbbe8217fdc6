from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import DPStandardScaler
from skdp.central import DPMean
from tests.conftest import each

COUNTS = [{}, {"missing": "error"}]
every_count = pytest.mark.parametrize("kind", COUNTS, ids=["a count a column", "one count"])


def table(n, columns=1, seed=0):
    return np.random.default_rng(seed).beta(2, 5, size=(n, columns)) * 80 + 10


def fits(X, repeats, **parameters):
    return [DPMean(random_state=seed, **parameters).fit(X) for seed in range(repeats)]


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

    def test_without_missing_values_one_count_is_enough(self):
        """The error is that of the means of a scaler, two thirds of that with a count for each of five columns."""
        X = table(4000, 5)
        shared = fits(X, 60, epsilon=0.5, bounds=(0, 100), missing="error")
        own = fits(X, 60, epsilon=0.5, bounds=(0, 100))
        errors = [np.sqrt(np.mean([(run.mean_ - X.mean(axis=0)) ** 2 for run in runs])) for runs in (shared, own)]
        assert errors[0] / errors[1] == pytest.approx(math.sqrt(7 * 8 / (11 * 12)), rel=0.15)
        scaler = DPStandardScaler(0.5, with_std=False, bounds=(0, 100), missing="error", random_state=0).fit(X)
        assert scaler.mean_std_error_ == pytest.approx(shared[0].std_error_, rel=0.01)
        inside = [(run.interval_[:, 0] <= X.mean(axis=0)) & (X.mean(axis=0) <= run.interval_[:, 1]) for run in shared]
        assert 0.91 <= np.mean(inside) <= 0.99


class TestData:
    def test_wide_bounds_have_errors_of_their_size(self):
        X = np.full((1000, 1), 1e307)
        assert DPMean(bounds=(-8e307, 8e307), random_state=0).fit(X).std_error_[0] < 1e306

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

    @every_count
    def test_tiny_epsilons_give_wide_answers_and_no_errors(self, kind):
        mean = DPMean(epsilon=1e-300, bounds=(0, 100), random_state=0, **kind).fit(table(50))
        assert 0 <= mean.mean_[0] <= 100
        np.testing.assert_array_equal(mean.interval_, [[0, 100]])

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
    @pytest.mark.filterwarnings("ignore:the columns .* are of dtype object:UserWarning")
    def test_a_column_without_a_value_is_answered_whatever_its_dtype(self, X):
        assert DPMean(bounds=(0, 100)).fit(X).mean_.shape == (1,)
