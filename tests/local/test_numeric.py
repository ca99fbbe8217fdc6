"""Numbers: all columns share one epsilon; means and distributions."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare

from skdp import NumericPerturber
from skdp.exact import exp_bounds

FALSE_ALARM = 1e-6
MECHANISMS = ["optimal", "square_wave"]

every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


@every_mechanism
@pytest.mark.parametrize("epsilon", [1e-9, 0.7, 5, 700])
def test_record_of_all_columns_is_within_epsilon(mechanism, epsilon):
    """Enumerate whole records: every pair of records, every report."""
    fitted = NumericPerturber(epsilon, mechanism=mechanism, bounds=[(0, 1), (5, 7)], grid_size=3).fit([[0, 5]])
    joint = [[Fraction(1)]]
    for table, values, (low, high) in zip(fitted.channel(), fitted.report_values_, fitted.bounds_, strict=True):
        assert all(sum(row) == 1 and 0 < min(row) < 1 for row in table)
        grid = np.linspace(low, high, 4)
        assert np.array(table, float) @ values == pytest.approx(grid, rel=1e-6, abs=1e-6 * np.abs(values).max())
        joint = [[a * b for a in row for b in other] for row in joint for other in table]
    assert len(joint) == 16
    worst = max(max(column) / min(column) for column in zip(*joint, strict=True))
    assert worst <= exp_bounds(epsilon)[0]
    assert worst <= exp_bounds(fitted.guarantee_.epsilon)[0]
    assert fitted.guarantee_.epsilon <= epsilon
    if epsilon <= 5:
        assert fitted.guarantee_.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert fitted.guarantee_.scope == ("x0", "x1")
    assert (fitted.guarantee_.delta, fitted.guarantee_.relation, fitted.guarantee_.trust) == (0, "replace", "local")


@every_mechanism
def test_values_between_grid_positions_follow_the_channel(mechanism):
    """0.35 on a grid of four steps is 0.6 of the way from position 1 to position 2."""
    n = 200_000
    fitted = NumericPerturber(2.0, mechanism=mechanism, bounds=(10, 11), grid_size=4, random_state=5).fit([[10]])
    reports = fitted.transform(np.full((n, 1), 10.35))[:, 0]
    counts = np.bincount(np.searchsorted(fitted.report_values_[0], reports), minlength=len(fitted.report_values_[0]))
    first, second = np.array(fitted.channel()[0][1:3], float)
    assert chisquare(counts, n * (0.6 * first + 0.4 * second)).pvalue > FALSE_ALARM


def test_outcomes_with_equal_floats_are_one_report():
    """Some outcomes of the optimal mechanism have equal estimates."""
    fitted = NumericPerturber(math.log(3), bounds=(0, 5), grid_size=5).fit([[1]])
    assert len(fitted.report_values_[0]) < fitted.mechanism_.n_reports
    (table,) = fitted.channel()
    assert all(len(row) == len(fitted.report_values_[0]) and sum(row) == 1 for row in table)


@every_mechanism
def test_std_error_of_a_mean_uses_reports_and_at_least_the_noise(mechanism):
    fitted = NumericPerturber(1.5, mechanism=mechanism, bounds=(0, 10), random_state=1).fit([[0.0]])
    reports = fitted.transform(10 * np.random.default_rng(3).beta(2, 5, (400, 1)))[:, 0]
    ((mean, std_error, lower, upper),) = fitted.estimate_mean(reports[:, np.newaxis]).to_numpy()
    assert (mean, std_error) == pytest.approx((reports.mean(), reports.std(ddof=1) / 20))
    assert (lower, upper) == pytest.approx((mean - 1.959964 * std_error, mean + 1.959964 * std_error))
    one = fitted.report_values_[0][:1].reshape(1, 1)
    single, several = fitted.estimate_mean(one), fitted.estimate_mean(np.repeat(one, 4, axis=0))
    assert single["std_error"].item() > several["std_error"].item() > 1


def test_only_square_wave_estimates_a_distribution():
    fitted = NumericPerturber(bounds=(0, 1)).fit([[0.5]])
    with pytest.raises(ValueError, match="`estimate_distribution` requires mechanism='square_wave'"):
        fitted.estimate_distribution(fitted.transform([[0.5]]))


@pytest.mark.parametrize(
    ("bounds", "error", "match"),
    [
        (None, ValueError, "`bounds` must be"),
        *[(bounds, TypeError, "`bounds` must be") for bounds in ("auto", 3)],
        *[(ends, ValueError, "finite with low < high") for ends in ((1, 0), (1, 1), (0, math.inf), (math.nan, 1))],
        ({"a": (0, 1)}, ValueError, r"declares no values for the columns \['b'\]"),
        ({"a": (0, 1), "b": (0, 1), "c": (0, 1)}, ValueError, r"must be columns of X, .*got \['c'\]"),
    ],
)
def test_invalid_bounds_raise_an_error(bounds, error, match):
    with pytest.raises(error, match=match):
        NumericPerturber(bounds=bounds).fit(pd.DataFrame({"a": [5], "b": [6]}))


def test_permanent_reports_are_equal_for_bounds_of_0_and_minus_0():
    def reports(low):
        perturber = NumericPerturber(
            0.5, bounds=(low, 8), grid_size=8, mechanism="square_wave", memoize=True, secret_key=bytes(32)
        )
        return perturber.fit_transform(np.arange(100).reshape(-1, 1) % 9, person=np.arange(100))

    assert np.array_equal(reports(0.0), reports(-0.0))
