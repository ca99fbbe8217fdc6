"""Counts of conditions, and their intervals: measured together, in groups, in part, or not at all."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp import DPMarginalSynthesizer, Interval
from skdp.domain import Domain
from skdp.synthesis._count_errors import Quantile, errors_of_counts
from skdp.synthesis._queries import range_weights, read_conditions
from skdp.synthesis.model import Marginal, group
from tests.conftest import each

AGES = Interval(edges=[0, 20, 40, 60])
QUERIED = Domain({"age": AGES, "size": ["small", "medium", "large", None], "n": [1, 2, 5], "paid": [False, True]})
ends = st.one_of(st.none(), st.floats(-30, 90), st.integers(-30, 90))


@given(ends, ends)
def test_a_range_of_bins_is_the_share_of_evenly_spread_numbers(low, high):
    start, stop = -math.inf if low is None else low, math.inf if high is None else high
    if start > stop:
        with pytest.raises(ValueError, match="low must not be above high"):
            range_weights("age", AGES, low, high)
        return
    grid = np.linspace(0, 60, 60 * 64, endpoint=False)
    inside = ((grid >= start) & (grid < stop)).reshape(3, -1).mean(axis=1)
    np.testing.assert_allclose(range_weights("age", AGES, low, high), inside, atol=2 / 1000)


@each(
    "condition error message",
    [
        ("size", TypeError, "must be a mapping"),
        ({"colour": "red"}, ValueError, "there is no column 'colour'"),
        ({"size": "huge"}, ValueError, "column 'size' is not among its declared"),
        ({"n": True}, ValueError, "column 'n' is not among"),
        ({"paid": 1}, ValueError, "column 'paid' is not among"),
        ({"age": 30}, ValueError, "ask for a range"),
        ({"age": (1, 2, 3)}, ValueError, "a pair"),
        ({"age": ("1", None)}, TypeError, "must be numbers or None"),
        ({"age": (3, 1)}, ValueError, "low must not be above high"),
        ({"size": ("huge", None)}, ValueError, "declared values of column 'size'"),
    ],
)
def test_conditions_that_are_refused(condition, error, message):
    with pytest.raises(error, match=message):
        read_conditions(QUERIED, condition)


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
            with pytest.raises(ValueError, match="low must not be above high"):
                range_weights("day", interval, low, high)
        return
    for interval in (YEAR, times):
        np.testing.assert_allclose(range_weights("day", interval, low, high), expected, atol=1e-9)
        assert range_weights("day", interval, low, high)[-1] == 0  # missing is in no range


SIZES = (3, 4, 2)
TABLE = np.random.default_rng(0).multinomial(400, np.random.default_rng(1).dirichlet(np.ones(24))).reshape(SIZES)
QUANTILE = Quantile(0.95, gaussian=True)


def exact(clique, std_error=1e-3, groups=None, noise=0.0):
    summed = TABLE.sum(axis=tuple(axis for axis in range(3) if axis not in clique)).astype(float)
    return Marginal(clique, group(summed, groups) + noise, std_error, groups)


def errors(marginals, query, quantile=QUANTILE):
    shape = [SIZES[column] for column, weights in query.items() if weights is None]
    return errors_of_counts(marginals, query, SIZES, np.full(shape, 3.0), quantile)


@pytest.mark.long
def test_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(0)
    weights = np.array([1.0, 0, 1, 0])
    queries = {
        "cells": ({1: None, 0: None}, TABLE.sum(axis=2).T),
        "one column": ({2: None}, TABLE.sum(axis=(0, 1))),
        "several values": ({1: weights, 0: None}, (TABLE.sum(axis=2) * weights).sum(axis=1)),
    }
    covered: dict[str, list[bool]] = {name: [] for name in queries}
    for _ in range(300):
        measured = [
            exact(clique, std_error, noise=rng.normal(0, std_error, [SIZES[column] for column in clique]))
            for clique, std_error in [((0, 1), 9.0), ((1, 2), 5.0), ((0, 1, 2), 12.0)]
        ]
        for name, (query, true) in queries.items():
            found = errors(measured, query)
            assert found.supported.all()
            covered[name] += ((found.lower <= true) & (true <= found.upper)).ravel().tolist()
    for inside in covered.values():
        assert 0.93 < np.mean(inside) < 0.98


@each("gaussian level reach", [(True, 0.95, 1.96), (False, 0.95, 2.118), (False, 0.5, 0.674), (False, 0.99, 3.256)])
def test_laplace_noise_has_the_wider_tail(gaussian, level, reach):
    assert Quantile(level, gaussian).reach == pytest.approx(reach, abs=1e-3)


def test_bounds_of_columns_that_were_not_measured_together():
    found = errors([exact((0,)), exact((1,))], {0: None, 1: None})
    rows, columns = TABLE.sum(axis=(1, 2)), TABLE.sum(axis=(0, 2))
    assert not found.supported.any()
    np.testing.assert_array_equal(found.upper, np.maximum(np.minimum.outer(rows, columns), 3))
    fewest = np.maximum(np.add.outer(rows, columns) - TABLE.sum(), 0)
    np.testing.assert_array_equal(found.lower, np.minimum(fewest, 3))
    true = TABLE.sum(axis=2)
    assert ((found.lower <= true) & (true <= found.upper)).all()


def test_rare_values_that_were_counted_together_have_bounds():
    groups = (None, np.array([0, 1, 1, 2]))
    found = errors([exact((0, 1), groups=groups)], {0: None, 1: None})
    np.testing.assert_array_equal(found.supported, [[True, False, False, True]] * 3)
    true = TABLE.sum(axis=2)
    np.testing.assert_array_equal(found.upper[:, 1], np.maximum(true[:, 1] + true[:, 2], 3))
    whole = errors([exact((0, 1), groups=groups)], {0: None, 1: np.array([0.0, 1, 1, 0])})
    assert whole.supported.all()
    part = errors([exact((0, 1), groups=groups)], {0: None, 1: np.array([1.0, 1, 0, 0])})
    assert not part.supported.any()
    assert ((part.lower <= true[:, :2].sum(axis=1)) & (true[:, :2].sum(axis=1) <= part.upper)).all()


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
    whole = synthesizer.range_estimate("age", 20, 60)
    assert whole == synthesizer.count_estimate({"age": (20, 60)})
    assert whole.supported
    assert whole.lower <= 400 <= whole.upper
    part = synthesizer.range_estimate("age", 20, 50)
    assert not part.supported  # nobody knows who is below 50 in the bin from 40 to 60
    assert part.lower <= 300 <= part.upper
    assert part.upper - part.lower > whole.upper - whole.lower


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
    with pytest.raises(ValueError, match="confidence_level must be"):
        synthesizer.range_estimate("age", confidence_level=level)


def test_the_bounds_share_the_error_that_the_level_allows():
    """Two bounds of 60 and 70 records, of five parts of the error: 2.33 standard errors each, not 1.96."""
    marginals = [Marginal((0,), np.array([60.0, 40.0]), 5.0), Marginal((1,), np.array([70.0, 30.0]), 5.0)]
    query = {0: np.array([1.0, 0.0]), 1: np.array([1.0, 0.0])}
    errors = errors_of_counts(marginals, query, (2, 2), np.array(42.0), QUANTILE)
    assert not errors.supported
    assert errors.upper == math.floor(60 + 2.3263 * 5 + 0.5)
