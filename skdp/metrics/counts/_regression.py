"""Logistic, multinomial, Poisson and linear regression from noisy counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from skdp._arrays import ColumnName, Floats, TableLike
from skdp.base import check_choice, check_confidence_level
from skdp.metrics.counts._cells import Cells, format_level, read_cells, read_reference
from skdp.metrics.counts._design import make_design, read_terms
from skdp.metrics.counts._equations import Equations, Score, find_basis, infer_supported

Model = Literal["logistic", "poisson", "linear"]


def regression_from_counts(
    counts: TableLike,
    target: ColumnName,
    terms: ColumnName | list[Any],
    *,
    model: Model = "logistic",
    numeric: ColumnName | list[ColumnName] | None = None,
    exposure: ColumnName | None = None,
    reference: Mapping[Any, Any] | None = None,
    design_effect: float | None = 1.0,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate a logistic, multinomial, Poisson or linear regression from noisy counts.

    Parameters
    ----------
    counts : dataframe
        Counts of rows by all columns of the regression: ``DPHistogram(...).fit(table).to_frame()``, or counts of
        `DPGroupBy` with declared keys and without totals. Counts are added up over all other columns.
    target : column name
        Column with the response. For "logistic", its first value is the reference of all other values. For "poisson"
        and "linear", its values are numbers, or bins, which count as their middles.
    terms : column name, or list of column names and tuples
        Predictors. A tuple of columns is their interaction: ``["age", "ward", ("age", "ward")]``.
    model : {"logistic", "poisson", "linear"}, default="logistic"
        "logistic" estimates log odds ratios, and is multinomial for a target with more than two values. "poisson"
        estimates log ratios of means, and "linear" differences of means.
    numeric : column name or list of column names, optional
        Terms that are numbers, or bins, which count as their middles. All other terms are categories.
    exposure : column name, optional
        Column of positive numbers or bins, such as years, by which the mean is multiplied. For "poisson" only.
    reference : mapping of column name to value, optional
        Reference values of the target and of categories. The default is the first value in the table.
    design_effect : float or None, default=1.0
        None for the coefficients of this table, whose intervals contain the noise only. A number for a population from
        which the rows are a sample, with the sampling variance times this factor: 1 for a simple random sample, and
        above 1 for clusters, such as the rows of a person. For sums of weights, multiply it by the largest weight.
    confidence_level : float, default=0.95
        Coverage probability of each interval.

    Returns
    -------
    pandas.DataFrame
        One row per coefficient, with the columns ``term, estimate, std_error, lower, upper, p_value, supported,
        reason``. A term such as "ward=B v A" compares a value with the reference. If the noise does not support an
        interval, ``supported`` is False, the numbers are nan, and ``reason`` states why.

    Raises
    ------
    TypeError, ValueError
        If a column is missing, cells are missing, a reference is not a value of its column, numbers or an exposure have
        other values, terms are linearly dependent, or counts are from reports.

    See Also
    --------
    hazards_from_counts : Cox regression.
    skdp.DPHistogram : Release of the counts.
    skdp.DPLogisticRegression : Model of rows, for many columns or cells.

    Notes
    -----
    **Privacy.** This is post-processing of the counts, without privacy cost. The counts have the guarantee of the
    estimator that released them.

    The coefficients solve the score equations of the rows, sums over all cells of ``count * x * (y - m(x))``. Without
    noise, they are the maximum-likelihood estimates. As the equations are linear in the counts, noise does not bias
    them.

    **Intervals** contain the noise, and the sampling error if there is a `design_effect`. The noise of the equation of
    a coefficient and of its derivative are known functions of the counts, so the interval is Fieller's ([1]_), with a
    quantile for the kurtosis of Laplace noise. The sampling variance is the larger of the variance of the model and
    the robust variance. A coefficient has no interval if

    - its information is less than three times the noise of the information;
    - the score test does not exclude very large coefficients, as for categories in which all rows have one response;
    - the equations have no root. The value with the fewest rows is then excluded, at most four times.

    References
    ----------
    .. [1] E. C. Fieller (1954). Some problems in interval estimation. Journal of the Royal Statistical Society B 16.

    Examples
    --------
    >>> from skdp import DPHistogram, Interval
    >>> from skdp.datasets import load_adult
    >>> from skdp.metrics import regression_from_counts
    >>> adult = load_adult()
    >>> rows = adult.frame[["sex", "age", "income"]]
    >>> domain = {**adult.domain.select(["sex", "income"]), "age": Interval([16, 30, 45, 60, 100])}
    >>> counts = DPHistogram(1.0, domain=domain, random_state=0).fit(rows).to_frame()
    >>> table = regression_from_counts(counts, "income", ["sex", "age"])
    >>> table.set_index("term")[["estimate", "std_error", "lower", "upper"]].round(2)
                              estimate  std_error  lower  upper
    term
    (intercept)                  -3.74       0.06  -3.85  -3.63
    sex=Male v Female             1.21       0.04   1.14   1.28
    age=[30, 45) v [16, 30)       1.95       0.05   1.86   2.05
    age=[45, 60) v [16, 30)       2.39       0.05   2.28   2.49
    age=[60, 100] v [16, 30)      1.71       0.07   1.58   1.83
    """
    check_choice("model", model, get_args(Model))
    level = check_confidence_level(confidence_level)
    parsed, columns, numbers = read_terms(terms, numeric)
    names = {
        "terms": columns,
        "exposure": [] if exposure is None else [exposure],
        "target": [target],
    }
    cells = read_cells(counts, names, design_effect)
    cells = read_reference(cells, reference)
    responses, labels = _read_responses(cells, target, model)
    factor = _read_exposure(cells, exposure, model)

    def make(part: Cells) -> tuple[Equations | None, list[str]]:
        rows = part.arrange(*[name for name in part.levels if name != target])
        design, named = make_design(rows, parsed, numbers)
        if labels:
            named = [f"{label}: {name}" for name in named for label in labels]
        shape = [len(values) for values in rows.levels.values()]
        sizes = np.broadcast_to(factor, shape).ravel()
        return MeanEquations(part, design, responses, sizes, model), named

    categories = [name for name in columns if name not in numbers]
    shown = [target] if model == "logistic" else []
    return infer_supported(make, cells, categories, shown, level)[1]


class MeanEquations:
    """Estimating equations of a model of the means m of responses f.

    They are sums over all cells of ``count * x * (f - m(x))``.
    """

    def __init__(
        self,
        cells: Cells,
        design: Floats,
        responses: Floats,
        exposure: Floats,
        model: Model,
    ) -> None:
        self.design, self.responses, self.exposure = design, responses, exposure
        self.model, self.design_effect = model, cells.design_effect
        self.has_link = model != "linear"
        self.table = cells.counts.reshape(len(design), len(responses))
        self.counts, self.variances = cells.counts.ravel(), cells.variances.ravel()
        basis = find_basis(design, self.table.sum(axis=1))
        self.basis = np.kron(basis, np.eye(responses.shape[1])).astype(np.float64)

    def start(self) -> Floats:
        """Return the coefficients of a constant mean."""
        n_rows = max(self.counts.sum(), 1.0)
        mean = self.table.sum(axis=0) @ self.responses / n_rows
        if self.model == "logistic":
            mean = np.clip(mean, 1e-3, 1)
            mean = np.log(mean) - np.log(max(1 - mean.sum(), 1e-3))
        elif self.model == "poisson":
            rows = np.maximum(self.table.sum(axis=1), 0)
            rate = mean * n_rows / max(rows @ self.exposure, 1e-9)
            mean = np.log(np.maximum(rate, 1e-6))
        b: Floats = np.zeros((self.design.shape[1], self.responses.shape[1]))
        # The intercept is first.
        b[0] = mean
        return b.ravel()

    def find_means(self, coefficients: Floats) -> tuple[Floats, Floats]:
        """Return the means of the rows of the design, (n, q), and their derivatives by linear predictors, (n, q, q)."""
        predictors = self.design @ coefficients.reshape(self.design.shape[1], -1)
        if self.model == "linear":
            return predictors, np.ones((len(predictors), 1, 1))
        odds = np.exp(np.clip(predictors, -30, 30))
        if self.model == "poisson":
            means = self.exposure[:, np.newaxis] * odds
            return means, means[:, :, np.newaxis]
        means = odds / (1 + odds.sum(axis=1, keepdims=True))
        diagonal = means[:, :, np.newaxis] * np.eye(means.shape[1])
        return means, diagonal - means[:, :, np.newaxis] * means[:, np.newaxis]

    def evaluate(self, coefficients: Floats) -> Score:
        """Return the estimating functions at some coefficients."""
        design, n_terms = self.design, len(coefficients)
        means, derivatives = self.find_means(coefficients)
        residuals = self.responses - means[:, np.newaxis]
        slopes = residuals[:, :, np.newaxis] * design[:, np.newaxis, :, np.newaxis]
        slopes = slopes.reshape(self.counts.size, n_terms)

        def find_information() -> Floats:
            sizes = self.table.sum(axis=1)[:, np.newaxis, np.newaxis]
            found: Floats = np.einsum(
                "xi,xpq,xj->ipjq", design, sizes * derivatives, design, optimize=True
            )
            return found.reshape(n_terms, n_terms)

        def find_curvature(direction: Floats) -> Floats:
            along = design @ direction.reshape(design.shape[1], -1)
            squares = np.einsum("xp,xpq,xq->x", along, derivatives, along)
            return np.repeat(squares, len(self.responses))

        def find_sampling(direction: Floats) -> float:
            return float(self.counts @ find_curvature(direction))

        values = slopes.T @ self.counts
        return Score(values, slopes, find_information, find_curvature, find_sampling)

    def find_slack(self, coefficients: Floats, inverse: Floats) -> Floats:
        """Return 0, as the counts determine the coefficients."""
        return np.zeros((2, len(coefficients)))


def _read_responses(
    cells: Cells, target: ColumnName, model: Model
) -> tuple[Floats, list[str]]:
    """Return the responses of the values of the target, (n_values, q), and labels of several responses."""
    levels = cells.levels[target]
    if len(levels) < 2:
        raise ValueError(
            f"`target` must be a column with at least two values, got {target!r} with one."
        )
    if model != "logistic":
        numbers = cells.read_numbers(target, "target")
        if model == "poisson" and numbers.min() < 0:
            raise ValueError(
                "`target` must have numbers of at least 0 for model='poisson', got "
                "negative numbers."
            )
        return numbers[:, np.newaxis], []
    first, *others = map(format_level, levels)
    labels = [f"{target}={label} v {first}" for label in others]
    return np.eye(len(levels))[:, 1:], labels if len(others) > 1 else []


def _read_exposure(cells: Cells, exposure: ColumnName | None, model: Model) -> Floats:
    """Return the exposures, which can be broadcast to the cells without the target."""
    if exposure is None:
        return np.ones(1)
    if model != "poisson":
        raise ValueError(
            f"`exposure` must be None for model={model!r}, got {exposure!r}. Use "
            "model='poisson'."
        )
    numbers = cells.read_numbers(exposure, "exposure")
    if not (numbers > 0).all():
        raise ValueError(
            f"`exposure` must be a column of positive numbers, got {exposure!r} with "
            f"{numbers.min():g}. Exclude these rows before the release."
        )
    axes = [name for name in cells.levels if name != list(cells.levels)[-1]]
    shape = [-1 if name == exposure else 1 for name in axes]
    return numbers.reshape(shape)
