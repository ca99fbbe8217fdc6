"""Estimates with intervals from a synthesizer's noisy counts, in the place of an analysis of its rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp.base import ColumnName, check_confidence_level, level_of_the_caller
from skdp.domain import Interval
from skdp.synthesis._queries import find_columns
from skdp.synthesis._synthesizer import DPMarginalSynthesizer
from skdp.synthesis.inference._components import MeasuredMean, measure_mean, rake
from skdp.synthesis.inference._influence import (
    Linear,
    is_linear_model,
    linear_model,
    linear_statistic,
)
from skdp.synthesis.inference._ratio import Ratio
from skdp.synthesis.model import merge
from skdp.synthesis.tables import Shape, middles

_MOST_CELLS = 1 << 18
_NEGLIGIBLE = 2e-3
"""Of the standard deviation of what a record adds to a statistic: what need not have been measured."""


def synthetic_inference(
    synthesizer: DPMarginalSynthesizer,
    statistic: Callable[[pd.DataFrame], Any] | BaseEstimator,
    *,
    columns: Sequence[ColumnName] | None = None,
    target: ColumnName | None = None,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate statistics of a population from a synthesizer's noisy counts, with intervals that hold.

    The usual intervals from synthetic rows are too short: they leave out the noise of the counts, and what was not
    measured ([2]_). Here a statistic is evaluated at the model, and
    corrected to first order by the noisy counts, which have no bias; the error is that of the records as a sample of
    the population, and of the noise.

    Parameters
    ----------
    synthesizer : DPMarginalSynthesizer
        Fitted.
    statistic : callable, LinearRegression or LogisticRegression
        A function that takes a pandas DataFrame of rows of `columns` and returns a number, or several in a mapping, a
        Series or an array. It must be smooth in the shares of the rows (means, differences, correlations, ratios,
        coefficients; no quantile), and not depend on their number. Or a regression of scikit-learn, whose coefficients
        are estimated.
    columns : list of column names, optional
        The columns that `statistic` reads, or the features of a regression; by default all. The function is called once
        for each of their combinations of values, so name no more than needed.
    target : column name, optional
        What a regression predicts; by default the y of `fit`. Numbers for a linear one, two values for a logistic one,
        of which the larger is predicted.
    confidence_level : float, default=0.95
        Coverage of each interval, between 0 and 1.

    Returns
    -------
    pandas.DataFrame
        A row a term: ``term``, ``estimate``, ``std_error``, the ends ``lower`` and ``upper`` of the interval, the
        ``p_value`` of the hypothesis that the term is 0, and whether it is ``supported``. If not, all errors are nan.

    Raises
    ------
    NotFittedError
        Before the synthesizer's `fit`.
    TypeError
        If `synthesizer` or `statistic` is of another type, or `statistic` returns no numbers.
    ValueError
        If a column is not there, there are too many combinations of values, a regression has an unsuitable target or
        parameters, a number may be missing, or `statistic` returns what is not finite, or other terms for other tables.

    See Also
    --------
    DPMarginalSynthesizer.count_estimate : Counts of the table itself, with intervals.

    Notes
    -----
    Near the model's shares p, a statistic T of shares q is T(p) plus the sum of f(x) * (q(x) - p(x)) over all
    combinations x of values, where the influence f(x) is what a little more of x adds ([1]_). It is known for
    regressions, and found by adding one row of each combination to 20,000 rows otherwise. The sum is estimated from the
    noisy counts: f is split into a component for each set of columns, as in the analysis of variance, and each
    component is estimated by all marginals that hold its columns. That has no bias, however the model was fitted. The
    variance is that of the noise, which is known, and the mean of f(x)**2 divided by the number of records. Intervals
    are normal; those of coefficients are Fieller's ([3]_), as a coefficient is a ratio of sums that both have noise.
    Where that of the divisor may be all of it, as of a rare value whose noisy count may be 0, a coefficient may be
    anything, and is not supported.

    A component of columns that no marginal holds is taken from the model, as are differences between rare values that
    were counted together. The most that these can change is added to the interval, if it is less than what the interval
    reaches without; otherwise a term is not supported. So a mean needs its column, a difference of groups or a
    correlation its two columns together, a linear regression all pairs, and a logistic one all features together and
    each with the target; name them in `workload` or `marginals` of the synthesizer. What all added rows change
    alike is not supported either, such as the number of rows, or a median, which they do not change.

    Numbers in bins are taken as the middle of their bin, or as the mean within it by ``bins="private"``: what is
    estimated is the statistic of a table of such numbers. These means come from noisy counts too, and their noise is
    not in the intervals: of 95 % intervals for the mean of a column of 440 to 1,500 numbers with ``bins="private"``, 0
    to .53 held it at an epsilon of .3, and .4 to 1 at 3, so a warning is given. Declare narrow bins where an interval
    matters. A regularised regression is that of the estimated number of rows. The number of records is private, and
    enters as the noisy counts have it. With few records a marginal of many cells, the correction is too large for first
    order: look whether ``std_error`` is small beside what would change the conclusion.

    **Privacy.** Post-processing of noisy counts: free, and repeatable; no record is read.

    References
    ----------
    .. [1] P. J. Huber, E. M. Ronchetti (2009). Robust statistics. Wiley.
    .. [2] O. Räisä, J. Jälkö, S. Kaski, A. Honkela (2023). Noise-aware statistical inference with differentially
       private synthetic data. AISTATS.
    .. [3] E. C. Fieller (1954). Some problems in interval estimation. JRSS B 16(2).

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdp import DPMarginalSynthesizer
    >>> from skdp.datasets import load_adult
    >>> from skdp.synthesis import synthetic_inference
    >>> adult = load_adult(dropna=True)
    >>> names = ["age", "sex", "income"]
    >>> domain = adult.domain.select(names)
    >>> synthesizer = DPMarginalSynthesizer(1.0, domain=domain, marginals=[names], random_state=0)
    >>> synthesizer = synthesizer.fit(adult.frame[names])
    >>> synthetic_inference(synthesizer, lambda table: table["age"].mean(), columns=["age"]).round(2)
            term  estimate  std_error  lower  upper  p_value  supported
    0  statistic     38.43       0.08  38.28  38.59      0.0       True
    >>> model = LogisticRegression()
    >>> synthetic_inference(synthesizer, model, columns=["age", "sex"], target="income").round(3)
            term  estimate  std_error  lower  upper  p_value  supported
    0  intercept    -3.729      0.055 -3.837 -3.621      0.0       True
    1        age     0.042      0.001  0.040  0.044      0.0       True
    2   sex=Male     1.256      0.037  1.183  1.329      0.0       True
    """
    if not isinstance(synthesizer, DPMarginalSynthesizer):
        raise TypeError(
            f"synthesizer must be a DPMarginalSynthesizer, got {type(synthesizer).__name__}"
        )
    check_is_fitted(synthesizer)
    level = check_confidence_level(confidence_level)
    model = is_linear_model(statistic)
    if not model and (
        not callable(statistic)
        or isinstance(statistic, type)
        or hasattr(statistic, "fit")
    ):
        raise TypeError(
            "statistic must be a function of a table, a LinearRegression or a LogisticRegression, got "
            f"{statistic.__name__ if isinstance(statistic, type) else type(statistic).__name__}"
        )
    names = _names(synthesizer, columns, target, model)
    places = find_columns(synthesizer.domain_, names)
    _warn_of_found_bins(synthesizer, names)
    sizes = [synthesizer.domain_.sizes[place] for place in places]
    if (size := int(np.prod(sizes, dtype=object))) > _MOST_CELLS:
        raise ValueError(
            f"columns have {size:,} combinations of values; at most {_MOST_CELLS:,} are computed. Name fewer"
        )
    shares = np.maximum(synthesizer.model_.marginal(places), 0)
    flat = rake(
        merge(synthesizer.marginals_), places, shares, synthesizer.n_rows_
    ).ravel()
    cells = _cells(synthesizer, places)
    if model:
        linear = linear_model(statistic, cells, names[-1], flat, synthesizer.n_rows_)
    else:
        assert callable(statistic)
        linear = linear_statistic(statistic, cells, flat)
    return _infer(synthesizer, places, linear, flat.reshape(sizes), level)


def _names(synthesizer: Any, columns: Any, target: Any, model: bool) -> list[Any]:
    """Find the columns that an analysis reads, the target last."""
    known = synthesizer.domain_.columns
    if isinstance(columns, str):
        columns = [columns]
    if not model:
        if target is not None:
            raise ValueError(
                f"target is for an estimator; got {target!r} with a function"
            )
        return list(known if columns is None else columns)
    if target is None:
        if synthesizer.n_features_in_ == len(known):
            raise ValueError(
                "target must name the column to be predicted, as the synthesizer was fitted without y"
            )
        target = known[-1]
    names = [
        name
        for name in (known if columns is None else columns)
        if columns is not None or name != target
    ]
    return [*names, target]


def _warn_of_found_bins(synthesizer: Any, names: Sequence[Any]) -> None:
    found = [name for name in names if name in _shapes_of_found_bins(synthesizer)]
    if found:
        warnings.warn(
            f"the bins of {found} were found by noisy counts, and so were the numbers that stand for them: their noise "
            "is not in the intervals, which may be much too short. Fit with bins='declared' where an interval matters",
            UserWarning,
            stacklevel=level_of_the_caller(),
        )


def _shapes_of_found_bins(synthesizer: Any) -> Mapping[Any, Shape]:
    # Declared bins stand for their middles, which have no noise.
    return (
        synthesizer._shapes.columns
        if synthesizer._shapes and synthesizer.bins == "private"
        else {}
    )


def _cells(synthesizer: Any, places: Sequence[int]) -> pd.DataFrame:
    """List all combinations of the values of some columns."""
    domain, template = synthesizer.domain_, synthesizer._template
    shapes = _shapes_of_found_bins(synthesizer)
    codes = np.indices([domain.sizes[place] for place in places]).reshape(
        len(places), -1
    )
    found = {}
    for place, code in zip(places, codes, strict=True):
        name = domain.columns[place]
        values = domain[name]
        if isinstance(values, Interval):
            numbers = pd.Series(
                middles(values, template.columns[place], shapes.get(name))
            )
            column = numbers.reindex(range(len(numbers) + values.missing))
        else:
            column = pd.Series(list(values.values)).infer_objects()
        found[name] = column.iloc[code].reset_index(drop=True)
    return pd.DataFrame(found)


def _infer(
    synthesizer: Any,
    places: Sequence[int],
    linear: Linear,
    shares: NDArray[np.float64],
    level: float,
) -> pd.DataFrame:
    """Estimate the statistics from the marginals, as far as they are linear in the counts."""
    marginals, n = merge(synthesizer.marginals_), synthesizer.n_rows_

    def measure(weights: NDArray[np.float64]) -> MeasuredMean:
        small = _NEGLIGIBLE * math.sqrt(float((shares.ravel() * weights**2).sum()))
        return measure_mean(
            marginals, places, weights.reshape(shares.shape), shares, n, small
        )

    rows = []
    for term, value, influence, slope, known in zip(
        linear.terms,
        linear.values,
        linear.influence,
        linear.slope,
        linear.known,
        strict=True,
    ):
        # A step of Newton's method, in which the slope has noise too.
        both = np.stack([influence, slope - 1])
        change, beside = map(measure, both)
        noise = [
            [one.covariance(other) for other in (change, beside)]
            for one in (change, beside)
        ]
        divisor = 1 + beside.value
        step, reach = Ratio(change.value, 0.0), None
        if known and divisor > 0:
            sampling = (both * shares.ravel()) @ both.T / n
            step = Ratio.of(change.value, divisor, sampling + noise)
            reach = step.reach(level)
        estimate, ends = value + step.value, (math.nan,) * 4
        if reach is not None:
            bias = (
                change.bias + (abs(step.value) + max(reach)) * beside.bias
            ) / divisor
            if bias <= sum(reach) / 2:
                ends = (
                    step.error,
                    estimate - reach[0] - bias,
                    estimate + reach[1] + bias,
                    step.p_value(-value, bias),
                )
        rows.append((term, estimate, *ends, not math.isnan(ends[0])))
    return pd.DataFrame(
        rows,
        columns=[
            "term",
            "estimate",
            "std_error",
            "lower",
            "upper",
            "p_value",
            "supported",
        ],
    )
