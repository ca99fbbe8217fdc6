"""Intervals of counts: measured together, in groups, in part, or not at all."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, Interval
from skdp.privacy import Rho
from skdp.synthesis._count_errors import Quantile, errors_of_counts
from skdp.synthesis.model import Marginal, group
from tests.conftest import each

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
    assert Quantile(level, gaussian).at(level) == pytest.approx(reach, abs=1e-3)


def test_bounds_of_columns_that_were_not_measured_together():
    found = errors([exact((0,)), exact((1,))], {0: None, 1: None})
    rows, columns = TABLE.sum(axis=(1, 2)), TABLE.sum(axis=(0, 2))
    assert not found.supported.any()
    np.testing.assert_array_equal(found.upper, np.maximum(np.minimum.outer(rows, columns), 3))
    fewest = np.maximum(np.add.outer(rows, columns) - TABLE.sum(), 0)
    np.testing.assert_array_equal(found.lower, np.minimum(fewest, 3))
    true = TABLE.sum(axis=2)
    assert ((found.lower <= true) & (true <= found.upper)).all()


def test_all_three_lie_in_what_pairs_allow():
    found = errors([exact((0, 1)), exact((1, 2)), exact((0, 2)), exact((2,))], {0: None, 1: None, 2: None})
    assert (found.upper <= np.maximum(TABLE.sum(axis=2), 3)[..., np.newaxis]).all()
    assert (found.upper >= TABLE).all()


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


def test_nothing_measured_leaves_everything_open():
    found = errors([exact((0,))], {1: None})
    assert (found.lower == 0).all()
    assert (found.upper >= 400).all()


PEOPLE = pd.DataFrame(
    {"age": np.arange(600) % 60, "smokes": ["yes", "no", "no"] * 200, "wet": [0, 0, 1, 1, 1, 1] * 100}
)
DOMAIN = {"age": Interval(edges=[0, 20, 40, 60]), "smokes": ["yes", "no"], "wet": [0, 1]}
KEPT = [("age", "smokes"), ("wet",)]


def fitted(epsilon=2.0, **parameters):
    parameters = {"domain": DOMAIN, "marginals": KEPT, "random_state": 0} | parameters
    return DPMarginalSynthesizer(epsilon, **parameters).fit(PEOPLE)


@pytest.mark.parametrize("epsilon", [0.5, Rho(0.1, delta=1e-6)])
def test_an_estimate_is_the_row_of_its_marginal(epsilon):
    synthesizer = fitted(epsilon)
    row = synthesizer.marginal(["smokes", "age"], confidence_level=0.8).iloc[1]
    found = synthesizer.count_estimate({"age": (20, 40), "smokes": "yes"}, confidence_level=0.8)
    assert found.count == synthesizer.count({"age": (20, 40), "smokes": "yes"})
    assert found.count == pytest.approx(row["count"])
    assert found.std_error == pytest.approx(row["std_error"])
    assert (found.lower, found.upper, found.supported) == (row["lower"], row["upper"], True)
    assert 0 <= found.lower <= found.count <= found.upper


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


def test_conditions_that_were_not_measured_together_are_bounded():
    found = fitted(50.0).count_estimate({"smokes": "yes", "wet": 1})
    assert not found.supported
    assert found.lower <= 5
    assert 195 <= found.upper <= 210
    assert found.count - 2.2 * found.std_error <= found.lower


@each("level", [0, 1, "high", True])
def test_levels_that_are_refused(level):
    synthesizer = fitted()
    with pytest.raises(ValueError, match="confidence_level must be"):
        synthesizer.marginal("wet", confidence_level=level)
    with pytest.raises(ValueError, match="confidence_level must be"):
        synthesizer.count_estimate({}, confidence_level=level)
    with pytest.raises(ValueError, match="confidence_level must be"):
        synthesizer.range_estimate("age", confidence_level=level)
