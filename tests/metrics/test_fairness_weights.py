"""Survey weights and confidence levels of fairness metrics: other libraries, variances by hand, and coverage."""

import numpy as np
import pandas as pd
import pytest

from skdp import RandomizedResponseEncoder
from skdp.metrics import debiased_fairness, fairness_report
from tests.conftest import diagonal


def draw_population(n, rng):
    """Draw people whose weights depend on the group, the label and the prediction."""
    group = 1 * (rng.random(n) < 0.6)
    true = 1 * (rng.random(n) < 0.35 + 0.2 * group)
    predicted = 1 * (rng.random(n) < 0.2 + 0.2 * group + 0.3 * true)
    weight = np.exp(0.5 * group - 0.6 * true + 0.8 * predicted * (1 - group) + 0.4 * rng.normal(size=n))
    return group, true, predicted, weight


GROUP, TRUE, PREDICTED, WEIGHT = draw_population(900, np.random.default_rng(0))


def privatize(group, epsilon, seed=0):
    encoder = RandomizedResponseEncoder(epsilon, categories={"group": [0, 1]}, random_state=seed)
    return encoder.fit_transform(pd.DataFrame({"group": group})), encoder


@pytest.mark.parametrize(("epsilon", "rows"), diagonal([None, 1.0], ["population", "table"]))
def test_unit_of_weights_does_not_change_the_table(epsilon, rows):
    def report(weight):
        if epsilon is None:
            return fairness_report(TRUE, PREDICTED, GROUP, privileged=1, sample_weight=weight)
        inputs = privatize(GROUP, epsilon)
        return debiased_fairness(TRUE, PREDICTED, *inputs, privileged=1, sample_weight=weight, rows=rows)

    pd.testing.assert_frame_equal(report(np.full(900, 250.0)), report(None))
    pd.testing.assert_frame_equal(report(WEIGHT * 250), report(WEIGHT))
    assert not report(WEIGHT)["value"].equals(report(None)["value"])


def test_standard_errors_of_weighted_rates_are_linearized():
    table = fairness_report(TRUE, PREDICTED, GROUP, sample_weight=WEIGHT)
    masks = np.ones(900, bool), TRUE == 1, TRUE == 0
    errors = []
    for mask in masks:
        for group in (0, 1):
            weight, selected = WEIGHT[mask & (group == GROUP)], PREDICTED[mask & (group == GROUP)]
            rate = weight @ selected / weight.sum()
            errors.append(np.sqrt(np.sum((weight * (selected - rate)) ** 2)) / weight.sum())
    rates = ["selection_rate", "true_positive_rate", "false_positive_rate"]
    np.testing.assert_allclose(table.set_index("metric")["std_error"].loc[rates], errors)


def test_noise_of_weighted_reports_is_a_sum_of_squared_weights():
    reports, encoder = privatize(GROUP, 1.0)
    table = debiased_fairness(TRUE, PREDICTED, reports, encoder, privileged=1, sample_weight=WEIGHT, rows="table")
    indicators = encoder.debias(reports).to_numpy()
    totals = WEIGHT @ indicators
    deviations = PREDICTED[:, np.newaxis] - (WEIGHT * PREDICTED) @ indicators / totals
    variances = WEIGHT**2 @ ((indicators**2 - indicators) * deviations**2)
    std_errors = table.set_index("metric").loc["selection_rate", "std_error"]
    np.testing.assert_allclose(std_errors, np.sqrt(variances) / totals)


def test_rows_of_weight_zero_are_not_counted():
    keep = np.arange(900) % 3 > 0
    table = fairness_report(TRUE, PREDICTED, GROUP, privileged=1, sample_weight=WEIGHT * keep)
    inputs = (column[keep] for column in (TRUE, PREDICTED, GROUP))
    pd.testing.assert_frame_equal(table, fairness_report(*inputs, privileged=1, sample_weight=WEIGHT[keep]))


@pytest.mark.parametrize("report", ["known", "private"])
def test_confidence_level_sets_the_width_of_all_intervals(report):
    inputs = [GROUP] if report == "known" else privatize(GROUP, 2.0)
    function = fairness_report if report == "known" else debiased_fairness
    widths = []
    for options in ({"confidence_level": 0.5}, {}, {"confidence_level": 0.999}):
        table = function(TRUE, PREDICTED, *inputs, privileged=1, **options)
        widths.append(table["upper"] - table["lower"])
    assert (widths[0] < widths[1]).all()
    assert (widths[1] < widths[2]).all()
    with pytest.raises(ValueError, match=r"`confidence_level` must be in \(0, 1\), got 95"):
        function(TRUE, PREDICTED, *inputs, confidence_level=95)


@pytest.mark.parametrize("weight", [-WEIGHT, WEIGHT[1:], np.full(900, np.nan), np.zeros(900), ["heavy"] * 900])
def test_weights_that_are_no_weights_raise(weight):
    for function, inputs in ((fairness_report, [GROUP]), (debiased_fairness, privatize(GROUP, 1.0))):
        with pytest.raises(ValueError, match="`sample_weight` must be"):
            function(TRUE, PREDICTED, *inputs, sample_weight=weight)
