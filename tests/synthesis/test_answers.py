"""Counts of conditions, and their intervals: measured together, in groups, in part, or not at all."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp import DPMarginalSynthesizer, Interval
from skdp.domain import Domain
from skdp.synthesis._counts import ModelCount, estimate_errors, read_conditions, weigh_range
from skdp.synthesis.model import Marginal, group
from tests.conftest import each

AGES = Interval(edges=[0, 20, 40, 60])
DAYS = Interval(edges=[date(2020, 1, 1), date(2020, 2, 1)])
QUERIED = Domain(
    {
        "day": DAYS,
        "age": AGES,
        "size": ["small", "medium", "large", None],
        "n": [1, 2, 5],
        "paid": [False, True],
    }
)


def range_weights(name, values, low, high):
    return weigh_range(name, values, (low, high))


ends = st.one_of(st.none(), st.floats(-30, 90), st.integers(-30, 90))


@given(ends, ends)
def test_a_range_of_bins_is_the_share_of_evenly_spread_numbers(low, high):
    start, stop = -math.inf if low is None else low, math.inf if high is None else high
    if start > stop:
        with pytest.raises(ValueError, match="low <= high"):
            range_weights("age", AGES, low, high)
        return
    grid = np.linspace(0, 60, 60 * 64, endpoint=False)
    inside = ((grid >= start) & (grid < stop)).reshape(3, -1).mean(axis=1)
    np.testing.assert_allclose(range_weights("age", AGES, low, high), inside, atol=2 / 1000)


@each("limits", [(60, None), (70, None), (None, -1)])
def test_a_range_outside_the_bins_has_no_records(limits):
    assert (range_weights("age", AGES, *limits) == 0).all()


@each(
    "condition error message",
    [
        ("size", TypeError, "must be a mapping"),
        ({"colour": "red"}, ValueError, "must name columns of the model"),
        ({"size": "huge"}, ValueError, "column 'size' is not one of its declared"),
        ({"n": True}, ValueError, "column 'n' is not one of"),
        ({"paid": 1}, ValueError, "column 'paid' is not one of"),
        ({"age": 30}, ValueError, "Use a range"),
        ({"age": (1, 2, 3)}, ValueError, "a pair"),
        ({"age": ("1", None)}, TypeError, "must be numbers or None"),
        ({"age": (3, 1)}, ValueError, "low <= high"),
        ({"day": (datetime(2020, 1, 2, tzinfo=UTC), None)}, TypeError, "without a time zone or None, got datetime"),
        ({"size": ("huge", None)}, ValueError, "declared values of column 'size'"),
    ],
)
def test_conditions_that_are_refused(condition, error, message):
    with pytest.raises(error, match=message):
        read_conditions(QUERIED, condition, {})


YEAR = Interval(edges=[date(2020, 1, 1), date(2020, 1, 11), date(2020, 1, 31), date(2020, 2, 1)], missing=True)
START = datetime(2020, 1, 1)
moments = st.one_of(st.none(), st.dates(date(2019, 12, 1), date(2020, 3, 1)), st.datetimes(START, datetime(2020, 2, 5)))


@given(moments, moments)
def test_a_range_of_dates_is_that_of_the_days_since(low, high):
    def days(end):
        end = end if end is None or isinstance(end, datetime) else datetime(end.year, end.month, end.day)
        return None if end is None else (end - START) / timedelta(days=1)

    numbers = Interval(edges=[0, 10, 30, 31], missing=True)
    times = Interval(edges=[datetime(day.year, day.month, day.day) for day in YEAR.edges], missing=True)
    try:
        expected = range_weights("age", numbers, days(low), days(high))
    except ValueError:
        for interval in (YEAR, times):
            with pytest.raises(ValueError, match="low <= high"):
                range_weights("day", interval, low, high)
        return
    for interval in (YEAR, times):
        np.testing.assert_allclose(range_weights("day", interval, low, high), expected, atol=1e-9)
        assert range_weights("day", interval, low, high)[-1] == 0  # missing is in no range


SIZES = (3, 4, 2)
TABLE = np.random.default_rng(0).multinomial(400, np.random.default_rng(1).dirichlet(np.ones(24))).reshape(SIZES)


def exact(clique, std_error=1e-3, groups=None, noise=0.0):
    summed = TABLE.sum(axis=tuple(axis for axis in range(3) if axis not in clique)).astype(float)
    return Marginal(clique, group(summed, groups) + noise, std_error, groups)


def errors(marginals, query, counts, level=0.95, is_gaussian=True):
    shape = [SIZES[column] for column, weights in query.items() if weights is None]
    counts = np.broadcast_to(counts, shape)
    return ModelCount(counts, *estimate_errors(marginals, query, counts, level, is_gaussian))


def test_intervals_of_noisy_counts_cover_as_often_as_stated():
    """With the noisy counts themselves as the counts of the model."""
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(100):
        noisy = exact((0, 1), 9.0, noise=rng.normal(0, 9, SIZES[:2]))
        found = errors([noisy], {0: None, 1: None}, noisy.counts)
        true = TABLE.sum(axis=2)
        covered += ((found.lower <= true) & (true <= found.upper)).ravel().tolist()
    assert 0.94 < np.mean(covered) < 0.98


@each("is_gaussian level margin", [(True, 0.95, 1.96), (False, 0.95, 2.118), (False, 0.5, 0.674), (False, 0.99, 3.256)])
def test_laplace_noise_has_the_wider_tail(is_gaussian, level, margin):
    found = errors([Marginal((0,), np.full(3, 1e6), 1000.0)], {0: None}, 1e6, level, is_gaussian)
    assert found.upper - 1e6 == pytest.approx(1000 * margin, abs=2)


def test_columns_that_were_not_measured_together_have_no_error():
    found = errors([exact((0,)), exact((1,))], {0: None, 1: None}, 3.0)
    assert not found.supported.any()
    assert np.isnan(found.lower).all()


def test_several_marginals_are_combined_by_inverse_variance():
    found = errors([exact((0,), 3.0), exact((0, 1), 4.0)], {0: None}, TABLE.sum(axis=(1, 2)))
    np.testing.assert_allclose(found.std_error, (1 / 9 + 1 / (4 * 16)) ** -0.5)


def test_a_model_that_was_not_fitted_has_the_larger_error():
    found = errors([exact((0,), 3.0)], {0: None}, TABLE.sum(axis=(1, 2)) + 50.0)
    np.testing.assert_allclose(found.std_error, np.sqrt(50**2 - 9))


def test_rare_values_that_were_counted_together_have_no_error():
    groups = (None, np.array([0, 1, 1, 2]))
    marginals = [exact((0, 1), groups=groups)]
    found = errors(marginals, {0: None, 1: None}, 3.0)
    np.testing.assert_array_equal(found.supported, [[True, False, False, True]] * 3)
    assert errors(marginals, {0: None, 1: np.array([0.0, 1, 1, 0])}, 3.0).supported.all()
    assert not errors(marginals, {0: None, 1: np.array([1.0, 1, 0, 0])}, 3.0).supported.any()


PEOPLE = pd.DataFrame(
    {"age": np.arange(600) % 60, "smokes": ["yes", "no", "no"] * 200, "wet": [0, 0, 1, 1, 1, 1] * 100}
)
DOMAIN = {"age": Interval(edges=[0, 20, 40, 60]), "smokes": ["yes", "no"], "wet": [0, 1]}
KEPT = [("age", "smokes"), ("wet",)]


def fitted(epsilon=2.0, **parameters):
    parameters = {"domain": DOMAIN, "marginals": KEPT, "random_state": 0} | parameters
    return DPMarginalSynthesizer(epsilon, **parameters).fit(PEOPLE)


def test_ranges_are_counts_of_one_column():
    synthesizer = fitted()
    whole = synthesizer.count_estimate({"age": (20, 60)})
    assert whole.supported
    assert whole.lower <= 400 <= whole.upper
    part = synthesizer.count_estimate({"age": (20, 50)})
    assert not part.supported  # the count below 50 in the bin from 40 to 60 is unknown
    assert part.count == pytest.approx(300, abs=30)


def test_every_record_and_no_record():
    synthesizer = fitted()
    everyone = synthesizer.count_estimate({})
    assert everyone.lower <= 600 <= everyone.upper
    assert everyone.std_error == pytest.approx(synthesizer.n_rows_std_error_)
    nobody = synthesizer.count_estimate({"smokes": []})
    assert (nobody.count, nobody.lower, nobody.upper) == (0, 0, 0)


@each("level", [0, 1, "high", True])
def test_levels_that_are_refused(level):
    synthesizer = fitted()
    with pytest.raises(ValueError, match="confidence_level must be"):
        synthesizer.marginal("wet", confidence_level=level)
    with pytest.raises(ValueError, match="confidence_level must be"):
        synthesizer.count_estimate({}, confidence_level=level)


def test_the_quality_of_marginals_names_noisy_ones():
    quality = fitted(0.02).marginal_quality_
    assert quality.index.to_list() == ["age, smokes", "wet"]
    assert (quality["noise"] > 0.1).any()
    assert (quality["usable"] == (quality["noise"] <= 0.1)).all()
    assert fitted(50.0).marginal_quality_["usable"].all()
    assert (fitted(50.0).marginal_quality_["misfit"] < 0.01).all()
