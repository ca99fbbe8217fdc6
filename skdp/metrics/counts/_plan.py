"""Plans of tables of counts, before a release."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real

import pandas as pd

from skdp._arrays import ColumnName
from skdp.base import check_column_name
from skdp.central import DPHistogram, count_std
from skdp.domain import Domain, Interval
from skdp.privacy import parse_budget
from skdp.randomness import check_size, check_type

# Numbers of bins of times that a plan compares: 6 bins are enough for hazard ratios, and 4
# if their noise exceeds the sampling error.
N_BINS = 4, 6

# Error of coefficients from counts, divided by the error of DPLogisticRegression and by the
# root of the number of cells, for any number of rows and epsilon (benchmarks/counts.py).
MODEL_RATIO = 0.047


def plan_counts(
    histogram: DPHistogram,
    target: ColumnName,
    *,
    n_rows: int,
    rate: float = 0.5,
    time: ColumnName | None = None,
) -> pd.DataFrame:
    """Estimate how much the noise of a table of counts adds to the errors of regressions, before its release.

    Parameters
    ----------
    histogram : DPHistogram
        Estimator with its epsilon and a declared domain of all columns, not fitted.
    target : column name
        Column with the response of a regression, or with events if there are times.
    n_rows : int
        Number of rows, from public knowledge.
    rate : float, default=0.5
        Expected proportion of rows with the rarer value of the target, or with an event.
    time : column name, optional
        Column with times for a Cox regression.

    Returns
    -------
    pandas.DataFrame
        Rows with the columns ``analysis, n_cells, noise_ratio, model_ratio, advice``: a regression on all other
        columns; or with times, Cox regressions with the declared bins and with 4 and 6 bins.

        - ``noise_ratio`` is the standard deviation of the noise of a coefficient divided by its sampling error, for
          categories with equal numbers of rows. It is larger for rare categories.
        - ``model_ratio`` is the error of a regression from counts divided by the error of `DPLogisticRegression`: about
          0.047 times the root of the number of cells, so counts are better below 450 cells.

    Raises
    ------
    TypeError, ValueError
        If the histogram has no declared domain of the columns, or a number is out of range.

    See Also
    --------
    regression_from_counts, hazards_from_counts : The planned analyses.
    skdp.plan_rows : Number of rows for a given precision of a count.

    Notes
    -----
    **Privacy.** A plan is a function of declarations, so it costs no privacy.

    Every cell has noise of the variance v, so the noise of a coefficient depends on the number of cells, and its
    sampling error on the number of rows with an event: the ratio is the square root of ``v * n_cells / n_events``, with
    half of the cells for a regression. Take 6 bins of times, or 4 if the ratio of 6 bins exceeds 1.

    Examples
    --------
    >>> from skdp import DPHistogram, Interval
    >>> from skdp.metrics import plan_counts
    >>> months = Interval([0, 3, 6, 9, 12, 18, 24, 36, 48, 60, 1_200])
    >>> domain = {"drug": ["no", "yes"], "ward": [*"ABC"], "months": months, "died": [False, True]}
    >>> histogram = DPHistogram(1.0, domain=domain)
    >>> plan = plan_counts(histogram, "died", n_rows=2_000, rate=0.4, time="months")
    >>> plan.drop(columns="model_ratio").round(2)
               analysis  n_cells  noise_ratio  advice
    0   hazards, 4 bins       48         0.33  counts
    1   hazards, 6 bins       72         0.41  counts
    2  hazards, 10 bins      120         0.53  counts
    """
    check_type("histogram", histogram, DPHistogram, "a DPHistogram")
    check_column_name("target", target)
    check_size(n_rows, min_val=1, name="n_rows")
    if not isinstance(rate, Real) or not 0 < rate < 1:
        raise ValueError(f"`rate` must be a float between 0 and 1, got {rate!r}.")
    if histogram.domain is None or isinstance(histogram.domain, Interval | list):
        raise ValueError(
            "`histogram` must declare its domain as a mapping of columns to values, got "
            f"{type(histogram.domain).__name__}."
        )
    domain = Domain(histogram.domain)
    for name in (target, *([] if time is None else [time])):
        if name not in domain.columns:
            raise ValueError(
                f"`histogram` must declare the column {name!r}, got {list(domain.columns)}."
            )
    budget = replace(
        parse_budget(histogram.epsilon), rows_per_person=histogram.max_rows_per_person
    )
    sizes = dict(zip(domain.columns, domain.sizes, strict=True))
    n_groups = math.prod(sizes.values()) // sizes[target]
    variance, event = count_std(budget, 1) ** 2, min(rate, 1 - rate)
    if time is None:
        spread = (event**2 + (1 - event) ** 2) / (1 - event)
        noise = math.sqrt(variance * n_groups * spread / (n_rows * event))
        n_cells = n_groups * sizes[target]
        model = MODEL_RATIO * math.sqrt(n_cells)
        advice = _advise(noise) if model < 1 else "DPLogisticRegression"
        rows = [("regression", n_cells, noise, model, advice)]
    else:
        rows = []
        for n_bins in sorted({*N_BINS, sizes[time]}):
            n_cells = n_groups // sizes[time] * n_bins * 2
            noise = math.sqrt(variance * n_cells / (n_rows * rate))
            row = (f"hazards, {n_bins} bins", n_cells, noise, math.nan, _advise(noise))
            rows.append(row)
    columns = ["analysis", "n_cells", "noise_ratio", "model_ratio", "advice"]
    return pd.DataFrame(rows, columns=columns)


def _advise(noise_ratio: float) -> str:
    """Return the advice for a ratio of noise and sampling error."""
    return "counts" if noise_ratio <= 1 else "fewer cells, or a larger epsilon"
