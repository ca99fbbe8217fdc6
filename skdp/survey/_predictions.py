"""Predictions of a fitted regression from reports, with the error of its parameters."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pandas as pd

from skdp.survey._likelihood import HiddenModel, Numbers

Prediction = Callable[[HiddenModel, Numbers], Numbers]
"""Of a model and parameters: (n_rows, n_predicted)."""

_STEP = 1e-5
"""Of the differences that give derivatives by a parameter, in its standard errors or in
units: their error is its square, and that of rounding 1e-16 / 1e-5."""


def cells_given_reports(model: HiddenModel, parameters: Numbers) -> Numbers:
    """Return the probability of each cell, given predictors and reports: (n_rows, n_cells)."""
    rows = slice(None)
    _, cell_parameters, numbers = model.split(parameters)
    with np.errstate(divide="ignore"):
        log_reports = np.log(model.reports_given_cells(numbers, rows))
    log_cells = model.log_priors(cell_parameters, rows) + log_reports
    cells = np.exp(log_cells - log_cells.max(axis=1, keepdims=True))
    return np.asarray(cells / cells.sum(axis=1, keepdims=True))


def prediction_table(
    predict: Prediction,
    model: HiddenModel,
    parameters: Numbers,
    covariance: Numbers,
    *,
    is_probability: bool,
    level: float,
) -> pd.DataFrame:
    """Return ``estimate, std_error, lower, upper`` of each row, and in it of each prediction (delta method)."""
    parts = []
    for rows in model.chunks():
        part = model.of_rows(rows)
        estimate = predict(part, parameters)
        variance = _variances(predict, part, parameters, covariance)
        parts.append(np.stack([estimate, np.sqrt(variance)]))
    estimate, std_error = np.concatenate(parts, axis=1).reshape(2, -1)
    reach = NormalDist().inv_cdf((1 + level) / 2) * std_error
    lower, upper = estimate - reach, estimate + reach
    if is_probability:
        # On the scale of log odds, an interval stays between 0 and 1.
        log_odds = np.log(estimate / (1 - estimate))
        reach = reach / (estimate * (1 - estimate))
        lower = 1 / (1 + np.exp(reach - log_odds))
        upper = 1 / (1 + np.exp(-reach - log_odds))
    columns = {
        "estimate": estimate,
        "std_error": std_error,
        "lower": lower,
        "upper": upper,
    }
    return pd.DataFrame(columns)


def _variances(
    predict: Prediction, model: HiddenModel, parameters: Numbers, covariance: Numbers
) -> Numbers:
    """Return the variances of predictions: (n_rows, n_predicted)."""
    slopes = []
    for place in range(len(parameters)):
        step = np.zeros(len(parameters))
        step[place] = _STEP * max(1.0, abs(parameters[place]))
        after = predict(model, parameters + step)
        before = predict(model, parameters - step)
        slopes.append((after - before) / (2 * step[place]))
    stacked = np.stack(slopes)
    return np.asarray(np.einsum("pim,pq,qim->im", stacked, covariance, stacked))
