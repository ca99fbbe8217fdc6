"""Cox regression from noisy counts of times and events."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from skdp._arrays import ColumnName, Floats, TableLike
from skdp.base import check_choice, check_confidence_level
from skdp.metrics.counts._cells import (
    Cells,
    read_cells,
    read_events,
    read_reference,
)
from skdp.metrics.counts._design import make_design, read_terms
from skdp.metrics.counts._equations import Equations, Score, find_basis, infer_supported

Ties = Literal["efron", "breslow"]

# Smallest number at risk in a bin, in standard deviations of its noise, and in rows.
MIN_AT_RISK_ERRORS, MIN_AT_RISK = 5.0, 10.0


def hazards_from_counts(
    counts: TableLike,
    time: ColumnName,
    event: ColumnName,
    terms: ColumnName | list[Any],
    *,
    ties: Ties = "efron",
    numeric: ColumnName | list[ColumnName] | None = None,
    reference: Mapping[Any, Any] | None = None,
    design_effect: float | None = 1.0,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate log hazard ratios from noisy counts of censored times (Cox regression).

    Parameters
    ----------
    counts : dataframe
        Counts of rows by time, event and terms: ``DPHistogram(...).fit(table).to_frame()``, or counts of `DPGroupBy`
        with declared keys and without totals. Counts are added up over all other columns.
    time : column name
        Column with the time until the event, or until the row was last observed: bins of an `Interval`, or declared
        numbers. Events of the last bin are not used. Six bins are enough (`plan_counts`).
    event : column name
        Column with True or 1 if the event occurred at this time, and False or 0 if the time is censored.
    terms : column name, or list of column names and tuples
        Predictors. A tuple of columns is their interaction.
    ties : {"efron", "breslow"}, default="efron"
        "breslow" counts the events of a bin as at risk in the whole bin, and "efron" in one half of it, the middle of
        Efron's sum. Without noise, both agree with other software for narrow bins, and "efron" also for wide bins.
    numeric : column name or list of column names, optional
        Terms that are numbers, or bins, which count as their middles. All other terms are categories.
    reference : mapping of column name to value, optional
        Reference values of categories. The default is the first value in the table.
    design_effect : float or None, default=1.0
        None for the table: intervals contain the noise only, for the coefficients of the binned times. A number is the
        factor of the sampling variance of a population, as for `regression_from_counts`.
    confidence_level : float, default=0.95
        Coverage probability of each interval.

    Returns
    -------
    pandas.DataFrame
        One row per coefficient, a log hazard ratio, in the format of `regression_from_counts`.

    Raises
    ------
    TypeError, ValueError
        If a column or cells are missing, times are not numbers or bins of at least 0, events are not 0 and 1, a
        reference is not a value of its column, terms are linearly dependent, or counts are from reports.

    See Also
    --------
    survival_from_counts : Survival curves of groups.
    regression_from_counts : Logistic, multinomial, Poisson and linear regression.

    Notes
    -----
    **Privacy.** This is post-processing of the counts, without privacy cost. The counts have the guarantee of the
    estimator that released them.

    The coefficients solve the score equations of the partial likelihood ([1]_) of the binned times. Bins with fewer
    than 10 rows at risk, or 5 standard deviations of the noise, and all later bins are not used. Intervals are as for
    `regression_from_counts`. Censored times may be anywhere in their bins: the interval covers the coefficients with
    all and with none of these rows at risk, as for `survival_from_counts`.

    References
    ----------
    .. [1] D. R. Cox (1972). Regression models and life-tables. Journal of the Royal Statistical Society B 34.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import DPHistogram, Interval
    >>> from skdp.metrics import hazards_from_counts
    >>> rng = np.random.default_rng(0)
    >>> drug = rng.random(2_000) < 0.5
    >>> death, seen = rng.exponential(np.where(drug, 60, 36)), rng.uniform(0, 90, 2_000)
    >>> patients = pd.DataFrame({"drug": drug, "months": np.minimum(death, seen), "died": death <= seen})
    >>> months = Interval([0, 6, 12, 24, 36, 60, 1_200], real=True)
    >>> domain = {"drug": [False, True], "months": months, "died": [False, True]}
    >>> counts = DPHistogram(1.0, domain=domain, random_state=0).fit(patients).to_frame()
    >>> table = hazards_from_counts(counts, "months", "died", "drug")
    >>> table.set_index("term")[["estimate", "std_error", "lower", "upper"]].round(2)
                       estimate  std_error  lower  upper
    term
    drug=True v False      -0.5       0.06  -0.63  -0.38
    """
    check_choice("ties", ties, get_args(Ties))
    level = check_confidence_level(confidence_level)
    parsed, columns, numbers = read_terms(terms, numeric)
    cells = read_times(counts, time, event, {"terms": columns}, design_effect)
    cells = read_reference(cells, reference)

    def make(part: Cells) -> tuple[Equations | None, list[str]]:
        groups = part.arrange(*columns)
        design, names = make_design(groups, parsed, numbers, has_intercept=False)
        equations = HazardEquations(part, design, ties)
        return equations if equations.is_used.any() else None, names

    categories = [name for name in columns if name not in numbers]
    return infer_supported(make, cells, categories, [event], level)[1]


def read_times(
    counts: TableLike,
    time: ColumnName,
    event: ColumnName,
    columns: dict[str, list[Any]],
    design_effect: float | None,
) -> Cells:
    """Read counts by the columns of parameters, times in ascending order, and events 0 and 1."""
    names = {**columns, "time": [time], "event": [event]}
    cells = read_cells(counts, names, design_effect)
    starts = cells.read_edges(time, "time")[:, 0]
    if len(starts) < 2 or starts.min() < 0:
        raise ValueError(
            "`time` must have at least two bins or numbers of at least 0, got "
            f"{len(starts):,} from {starts.min():g}. Declare the bins with an Interval, "
            "such as Interval([0, 12, 24, 36, 1_200])."
        )
    return read_events(cells.select(time, np.argsort(starts)), event)


class HazardEquations:
    """Score of the partial likelihood of binned times, whose last bin is "later".

    Rows that leave in a bin are at risk in a part of it: censored rows in one half, and events in one half ("efron") or
    in all of it ("breslow").
    """

    has_link = True

    def __init__(self, cells: Cells, design: Floats, ties: Ties) -> None:
        # Only differences between groups matter.
        self.design = design - design[0]
        self.design_effect = cells.design_effect
        n_bins = len(list(cells.levels.values())[-2])
        # By bin, event and group.
        self.table, variances = (
            np.moveaxis(numbers.reshape(len(design), n_bins, 2), 0, -1)
            for numbers in (cells.counts, cells.variances)
        )
        self.counts, self.variances = self.table.ravel(), variances.ravel()
        self.parts = np.array([0.5, 0.5 if ties == "efron" else 0.0])
        self.at_risk = _count_at_risk(self.table, self.parts)
        # The number at risk without the censored rows of the bin.
        smallest = _count_at_risk(self.table, np.maximum(self.parts, [1, 0]))
        noise = _count_at_risk(variances, 1 - (1 - self.parts) ** 2).sum(axis=1)
        limits = np.maximum(MIN_AT_RISK_ERRORS * np.sqrt(noise), MIN_AT_RISK)
        is_large = smallest.sum(axis=1) > limits
        # Bins after the first one with too few rows are not used.
        self.is_used = np.logical_and.accumulate(is_large)
        self.events = self.table[:-1, 1].sum(axis=1) * self.is_used
        self.basis = find_basis(self.design, self.at_risk[0])

    def start(self) -> Floats:
        """Return no effects."""
        return np.zeros(self.design.shape[1])

    def evaluate(self, coefficients: Floats) -> Score:
        """Return the score of the partial likelihood at some coefficients."""
        design, at_risk, is_used = self.design, self.at_risk, self.is_used
        risks = np.exp(np.clip(design @ coefficients, -30, 30))
        weights = at_risk * risks
        totals = np.where(is_used, weights.sum(axis=1), 1.0)
        means = weights @ design / totals[:, np.newaxis]
        # The distance of a group from the mean of the rows at risk, by bin.
        distances = (design - means[:, np.newaxis]) * is_used[:, np.newaxis, np.newaxis]
        hazards = self.events / totals
        # Derivatives by the numbers at risk.
        risk_slopes = -(hazards[:, np.newaxis] * risks)[..., np.newaxis] * distances
        slopes = self._add_slopes(risk_slopes, distances)
        values = np.einsum("tg,tgk->k", self.table[:-1, 1], distances)

        def find_information() -> Floats:
            terms = hazards, weights, distances, distances
            return np.einsum("t,tg,tgi,tgj->ij", *terms, optimize=True)

        def find_curvature(direction: Floats) -> Floats:
            squares = (distances @ direction) ** 2
            spread = ((weights * squares).sum(axis=1) / totals)[:, np.newaxis]
            by_risk = hazards[:, np.newaxis] * risks * (squares - spread)
            by_event = np.broadcast_to(spread, squares.shape)
            return self._add_slopes(by_risk, by_event).ravel()

        def find_sampling(direction: Floats) -> float:
            squares = (distances @ direction) ** 2
            return float(hazards @ (weights * squares).sum(axis=1))

        slopes = slopes.reshape(self.counts.size, -1)
        return Score(values, slopes, find_information, find_curvature, find_sampling)

    def _add_slopes(self, by_risk: Floats, by_event: Floats) -> Floats:
        """Return derivatives by all counts from those by numbers at risk and by events, (n_bins, n_groups, ...)."""
        out = np.zeros((len(by_risk) + 1, 2, *by_risk.shape[1:]))
        out[1:] += by_risk.cumsum(axis=0)[:, np.newaxis]
        for event, part in enumerate(self.parts):
            out[:-1, event] += (1 - part) * by_risk
        out[:-1, 1] += by_event
        return out

    def find_slack(self, coefficients: Floats, inverse: Floats) -> Floats:
        """Return the changes of the coefficients if censored rows leave at the lower or at the upper edges of bins."""
        changes = [np.zeros(len(coefficients))]
        for part in (0.0, 1.0):
            other = copy(self)
            other.at_risk = _count_at_risk(self.table, np.array([part, self.parts[1]]))
            changes.append(inverse @ other.evaluate(coefficients).values)
        return np.stack([-np.min(changes, axis=0), np.max(changes, axis=0)])


def _count_at_risk(table: Floats, parts: Floats) -> Floats:
    """Return numbers at risk by bin and group, without the `parts` of the rows that leave in the bin, by event.

    `table` is by bin, event and group.
    """
    later: Floats = table.sum(axis=1)[::-1].cumsum(axis=0)[::-1]
    at_risk: Floats = later[:-1] - np.einsum("tyg,y->tg", table[:-1], parts)
    return at_risk
