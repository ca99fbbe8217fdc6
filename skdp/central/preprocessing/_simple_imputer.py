"""Imputer of missing values by private statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, time
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal, get_args

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import Tags

from skdp._arrays import ColumnLike, ColumnName, Floats
from skdp.base import Bounds, check_choice, find_decimals
from skdp.central._base import (
    CentralTransformer,
    Columns,
    Plan,
    Unknown,
)
from skdp.central._quantiles import QuantilePlan, plan_quantiles
from skdp.central._sums import (
    GRID,
    GroupSums,
    NoisySums,
    sum_columns,
)
from skdp.central.statistics import (
    Batches,
    Noise,
    choice_name,
    choose,
    count_cells,
    declared_domain,
    find_missing,
)
from skdp.domain import DomainLike
from skdp.privacy import Loss, Mu, PrivacyBudget, PrivacyLedger, Rho, laplace_loss
from skdp.randomness import ByteSource
from skdp.tables import (
    Table,
    drop_missing,
    library_of,
    type_of_column,
    type_of_value,
    types_of_values,
)

Strategy = Literal["mean", "median", "most_frequent"]

# The exact statistics of each strategy. The last ones are the counts of the values of each column.
Statistics = GroupSums | QuantilePlan | list[dict[Any, int]]


class DPSimpleImputer(CentralTransformer):
    """Replace missing values by private means, medians or most frequent values.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. With `skdp.privacy.Rho` or
        `skdp.privacy.Mu`, the noise is Gaussian, and selections use the exponential
        mechanism.
    categories : list of array-like, mapping, Domain or Interval, optional
        The values that each column may take, as the `domain` of `DPHistogram`. For an
        `Interval`, the middle of a bin is filled in, rounded down to the declared
        decimals, such as to a whole number. None among the values is not filled in.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain, optional
        Bounds (low, high) of all columns or of each column, from public knowledge; None, or an end that is None, if
        there is none. Open ends are found with a third of the budget of their columns, and for means, narrower limits
        within declared bounds with a fifth, so wide bounds cost little. `fit` clips values outside; `transform` does
        not. Two integers more than 1 apart declare whole numbers: medians are whole numbers, and for them a fraction in
        the column is an error, which reveals it. Otherwise, use floats.
    strategy : {"mean", "median", "most_frequent"}, default="mean"
        The statistic that replaces the missing values of a column. The first two are for numbers;
        ``"most_frequent"`` is for a few declared values of any type, see `categories`. Numbers become floats;
        ``"most_frequent"`` keeps the dtype of a column if it can represent the statistic.
    handle_unknown : {"error", "ignore"}, default="error"
        How `fit` handles an undeclared value. ``"error"`` reveals that such a value
        occurs; ``"ignore"`` excludes it from the statistics, and `transform` keeps it.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features,)
        The values to fill in: floats, or for ``"most_frequent"`` objects.
    statistics_std_error_ : ndarray of shape (n_features,), or None
        The standard deviation of the noise of means, without the effect of clipping; None for the other strategies.
    bounds_ : ndarray of shape (n_features, 2)
        The declared bounds, or the limits that are found; not set for ``"most_frequent"``.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    DPMean : Means with intervals.
    DPStandardScaler : Private means and variances.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record changes the
    distribution of `statistics_` by at most ``(epsilon, 0)``; replacing one by ``(2 epsilon, 0)``. **The output of**
    `transform` **is the rows themselves**, without missing values: no noise is added to them, and they are as private
    as X. `fit` reads all values; a missing value is excluded, and an empty table is allowed.

    Limits are found by a choice among public windows and by noisy counts (:doc:`/guarantees/statistics`); means and
    medians are of values clipped to them. The means of all columns are released together, as in `DPMean`. Medians are
    released as the inner edge of two bins of `DPKBinsDiscretizer`, among its candidates. Most frequent values are
    chosen by permute-and-flip ([1]_), for each of d columns with epsilon / d: a value with c fewer records than the
    most frequent one remains a candidate with probability ``e**(-epsilon c / d)``. Because an added record can only
    increase counts, this is epsilon / d-differentially private without the usual factor 2.

    References
    ----------
    .. [1] R. McKenna, D. Sheldon (2020). Permute-and-flip: a new mechanism for differentially private selection.
       NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPSimpleImputer
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> people = adult.frame[["workclass", "occupation"]]
    >>> imputer = DPSimpleImputer(
    ...     epsilon=0.5, strategy="most_frequent", categories=adult.domain.select(people.columns), random_state=0
    ... )
    >>> filled = imputer.fit_transform(people)
    >>> imputer.statistics_.tolist()
    ['Private', 'Prof-specialty']
    >>> int(people.isna().sum().sum()), int(filled.isna().sum().sum())
    (3679, 0)

    >>> ages = np.array([[23.0], [38.0], [np.nan], [61.0]] * 1000)
    >>> DPSimpleImputer(strategy="median", bounds=(0, 100), random_state=0).fit(ages).statistics_
    array([38.])
    """

    _finds_limits = True

    statistics_std_error_: Floats | None

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        categories: DomainLike | None = None,
        bounds: Bounds | None = None,
        strategy: Strategy = "mean",
        handle_unknown: Unknown = "error",
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.categories = categories
        self.bounds = bounds
        self.strategy = strategy
        self.handle_unknown = handle_unknown
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = (
            self.strategy == "most_frequent"
        )
        if self.strategy == "most_frequent":
            tags.transformer_tags.preserves_dtype = []
        return tags

    def _declared_bounds(self, names: Sequence[Any]) -> Any:
        if self.strategy == "most_frequent":
            return None
        return super()._declared_bounds(names)

    @property
    def _finds_limits_within(self) -> bool:  # type: ignore[override]
        # A median hardly depends on the width of its bounds.
        return self.strategy == "mean"

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[Statistics]:
        """Compute the sums or counts from which the statistic of each column is released, and choose the noise."""
        check_choice("strategy", self.strategy, get_args(Strategy))
        if self.strategy == "mean":
            sums = sum_columns(rows, bounds, squares=False)
            noise = Noise.joint(budget, GRID, 2 * len(rows.names))
            return Plan(sums, budget, (noise,))
        if self.strategy == "median":
            median = [Fraction(1, 2)]
            decimals = find_decimals(self.bounds, rows.names)
            quantiles = plan_quantiles(rows, bounds, median, budget, decimals=decimals)
            return Plan.from_quantiles(quantiles)
        budget /= len(rows.names)  # for each column
        losses: tuple[Loss, ...] = ()
        if budget.kind == "epsilon":
            # The loss of permute-and-flip is proportional to the change of the scores, which
            # may be real numbers. So a change of scores can be divided into a chain of any
            # number of smaller changes, as `laplace_loss` requires.
            loss = laplace_loss(budget.amount)
            losses = (replace(loss, count=len(rows.names)),)
        name = choice_name(budget)
        return Plan(self._count(rows), budget, mechanism=name, losses=losses)

    def _release(self, plan: Plan[Statistics], source: ByteSource) -> None:
        """Set the noisy mean or median of each column, or a frequent value that the exponential mechanism chooses."""
        self.statistics_std_error_ = None
        statistics = plan.exact
        if isinstance(statistics, GroupSums):
            (noise,), sums = plan.noises, statistics
            noisy = NoisySums.draw(sums.numbers(), sums.bounds, noise, source)
            estimate = noisy.estimate_means(0.95)
            self.statistics_ = estimate.value[0]
            self.statistics_std_error_ = estimate.std_error[0]
        elif isinstance(statistics, QuantilePlan):
            self.statistics_ = statistics.draw_columns(source)[:, 0]
        else:
            self.statistics_ = np.empty(len(statistics), object)
            for index, counts in enumerate(statistics):
                # Adding a record increases one count by 1, so the difference of two scores
                # changes by at most 1.
                chosen = choose(source, list(counts.values()), plan.budget, 1)
                self.statistics_[index] = list(counts)[chosen]

    def _count(self, rows: Batches) -> list[dict[Any, int]]:
        """Return the exact count of each declared value of each column, except missing."""
        domain = declared_domain(rows.table, self.categories, "categories")
        # A record with a missing value in one column counts in all other columns.
        cliques = [(column,) for column in range(len(domain.columns))]
        counts = count_cells(rows, domain, cliques, self.handle_unknown, missing=True)
        by_column = []
        empty = rows.table.take(np.arange(0))
        for index, name in enumerate(domain.columns):
            declared = _list_statistics(domain[name])
            is_value = [value is not None for value in declared]
            if not any(is_value):
                raise ValueError(
                    f"`categories` must declare a value other than missing for column "
                    f"{name!r}, got none."
                )
            values = drop_missing(declared)
            # A dtype that cannot contain the values raises an error before the charge.
            for value in _list_extremes(values):
                _fill(name, empty.columns[index], value)
            of_values = counts[index][is_value].tolist()
            by_column.append(dict(zip(values, of_values, strict=True)))
        return by_column

    def _transform_table(self, table: Table) -> Sequence[Any]:
        if self.statistics_.dtype != object:
            return super()._transform_table(table)
        return list(map(_fill, table.names, table.columns, self.statistics_))

    def _transform_columns(self, columns: Columns) -> Columns:
        """Replace the missing numbers of each column, which are NaN, by its statistic."""
        filled = []
        for column, value in zip(columns, self.statistics_, strict=True):
            filled.append(np.where(np.isnan(column), value, column))
        return filled


def _list_statistics(attribute: Any) -> list[Any]:
    """Return the declared values, or the middle of each bin, rounded down to the declared decimals."""
    values = list(attribute.values)
    decimals = getattr(attribute, "decimals", None)
    if decimals is None:
        return values
    # Edges in units of the last decimal, without rounding errors.
    unit = 10**decimals
    edges = [Fraction(repr(edge)) * unit for edge in attribute.edges]
    for index, (lower, upper) in enumerate(pairwise(edges)):
        # The smallest number of a bin may be above its edge, such as 4 for [3.2, 4.2).
        middle = (math.ceil(lower) + upper) // 2
        values[index] = middle / unit if decimals else middle
    return values


def _list_extremes(values: list[Any]) -> list[Any]:
    """Return the smallest and the largest of some numbers, or the first and the last one of other values."""
    if types_of_values(values) == {"number"}:
        return [min(values), max(values)]
    return [values[0], values[-1]]


def _fill(name: ColumnName, column: ColumnLike, value: object) -> Any:
    """Replace the missing values of a named column; error messages contain no values."""
    try:
        return fill_missing(column, value)
    except Exception as error:
        reason = type(error).__name__
    # Raised outside of the handler, because the context could contain a value.
    raise ValueError(
        f"Missing values of column {name!r} cannot be replaced ({reason}). Convert the "
        "column to another dtype."
    )


def fill_missing(column: ColumnLike, value: Any) -> Any:
    """Replace the missing values of a column of any library."""
    if isinstance(column, np.ndarray):
        return _fill_array(column, value)
    if type_of_value(value) == "date" and type_of_column(column) == "datetime":
        value = datetime.combine(value, time())
    series = nw.from_native(_decode_categories(column, value), series_only=True)
    filled = _cast_for_value(series, value).fill_null(value)
    # For polars, pyarrow and extension dtypes of pandas, nan is a number.
    if filled.dtype.is_float():
        frame = filled.alias("column").to_frame()
        numbers = nw.when(~nw.col("column").is_nan()).then("column").otherwise(value)
        frame = frame.select(numbers.cast(filled.dtype).alias("column"))
        filled = frame["column"].alias(filled.name)
    return filled.to_native()


def _fill_array(column: NDArray[Any], value: object) -> NDArray[Any]:
    """Replace the missing values of an array, as objects unless its dtype can represent the value."""
    missing = find_missing(column)
    if not missing.any():
        return column
    is_kept = column.dtype.kind == "M" or (
        column.dtype.kind == "f" and type_of_value(value) == "number"
    )
    filled = column.copy() if is_kept else column.astype(object)
    filled[missing] = value
    return filled


def _decode_categories(column: Any, value: object) -> Any:
    """Convert a column of categories to a column of their values if it cannot contain another value."""
    dtype = column.type if library_of(column) == "pyarrow" else column.dtype
    arrow_dtype: Any = getattr(dtype, "pyarrow_dtype", None)
    if hasattr(arrow_dtype, "index_type"):  # a dictionary of Arrow in pandas
        return column.astype(pd.ArrowDtype(arrow_dtype.value_type))
    if isinstance(dtype, pd.CategoricalDtype) and value not in dtype.categories:
        return pd.Series(np.asarray(column), column.index, name=column.name)
    if hasattr(dtype, "index_type") and not isinstance(value, str):
        return column.cast(dtype.value_type)
    return column


def _cast_for_value(series: Any, value: object) -> Any:
    """Convert a series to a dtype that can represent a value, or return it unchanged if its dtype can."""
    dtype = series.dtype
    if dtype.is_integer() and isinstance(value, int | float):
        limits = np.iinfo(str(dtype).lower())
        if value != int(value):
            return series.cast(nw.Float64)
        if not limits.min <= value <= limits.max:
            return series.cast(nw.Int64)
    if dtype not in (nw.Enum, nw.Categorical) or not isinstance(value, str):
        return series
    is_listed = value in series.cat.get_categories().to_list()
    return series if is_listed else series.cast(nw.String)
