"""The counts of all cells of a domain, and of ranges of them."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdp.base import all_or_nothing, check_confidence_level, declares_missing
from skdp.central._base import CentralEstimator
from skdp.central.statistics import (
    LARGEST,
    CellTally,
    CountEstimate,
    Hierarchy,
    check_policy,
    count_large,
    count_std,
    declared_domain,
    find_codes,
    find_range,
    interval_reach,
    is_ordered,
    plan_hierarchy,
    read_codes,
    undeclared_error,
)
from skdp.domain import Codes, Domain
from skdp.frames import LargeTable
from skdp.oracles import check_size, project_to_simplex
from skdp.privacy import PrivacyLedger, check_epsilon
from skdp.randomness import discrete_laplace

METHODS = ("auto", "flat", "hierarchical")
_MOST_CELLS = 1 << 26


class DPHistogram(CentralEstimator):
    """Count how many records fall into each cell of a public domain, private for the whole record.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of all counts together, finite and > 0.
    domain : Domain, mapping of column name to values, list of values a column, or Interval
        The values that each column may take, from what is publicly known; an `Interval` cuts a numeric column into
        bins, and a single one is for all columns. A polars Enum needs no declaration, nor do categories of pandas that
        are ordered, or are not just the values that occur. None among the values declares missing as a value. Several
        columns are counted together, a cell a combination of values.
    method : {"auto", "flat", "hierarchical"}, default="auto"
        ``"flat"``: noise on every cell. ``"hierarchical"``: noise on every cell, and with the same epsilon on nested
        groups of neighbouring cells, which are then made consistent [1]_. A single cell gets a larger error, a long
        range a much smaller one. It is for one column. ``"auto"`` takes what has the least expected squared error over
        all ranges of cells, for one column of numbers or dates; and flat counts otherwise.
    branching : int, optional
        Of a hierarchy: how many neighbours form a group, at least 2. By default, what has the least expected squared
        error over all ranges.
    handle_unknown : {"error", "ignore"}, default="error"
        What `fit` does with a value that is not declared: an error shows that there is one; if it is ignored, its
        record is in no cell.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure coins; an int for reproducible experiments, and no promise to who knows it.

    Attributes
    ----------
    counts_ : ndarray of int, shape (n_cells,)
        The noisy counts in the order of ``domain_.cells()``: the last column fastest. They may be negative. In a
        hierarchy, they are the least-squares estimates, rounded such that each range is off by less than 1.
    std_error_ : ndarray of shape (n_cells,)
        The standard deviation of the noise of each, before rounding.
    frequencies_ : ndarray of shape (n_cells,)
        The shares of the cells: the nearest ones that are not negative and add up to 1.
    domain_ : Domain
        The values of each column.
    method_ : {"flat", "hierarchical"}
        What was used.
    branching_ : int
        How many neighbours form a group; all of them, if it is flat.
    guarantee_ : PrivacyGuarantee
        What was promised for this `fit`.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : ndarray of str
        Their names, if all of them are strings.

    See Also
    --------
    DPMean : More accurate for the mean alone.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record changes the law of
    all counts together by at most ``(epsilon, 0)``; replacing one by ``(2 epsilon, 0)``. `fit` reads the values of all
    columns. How many records there are is protected too, and every cell gets noise, whether or not it occurs: a record
    changes one count by 1, so discrete Laplace noise of scale 1 / epsilon protects it, drawn exactly. In a hierarchy of
    h levels it changes one count on each, and all of them get noise of scale h / epsilon. Methods of the fitted
    histogram are post-processing: free, and repeatable. Which method is used depends on the domain and epsilon only.
    What is not covered is that an error under ``handle_unknown="error"`` shows that some value is not declared.

    Intervals hold the truth with the stated probability or a little more: they are made of the larger of the quantiles
    of a normal and of a Laplace law, and rounded outwards.

    References
    ----------
    .. [1] M. Hay, V. Rastogi, G. Miklau, D. Suciu (2010). Boosting the accuracy of differentially private histograms
       through consistency. PVLDB 3(1).

    Examples
    --------
    >>> from skdp import DPHistogram, Interval
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> people = adult.frame
    >>> sexes = adult.domain.select(["sex"])
    >>> DPHistogram(epsilon=0.1, domain=sexes, random_state=0).fit(people[["sex"]]).to_frame().round(1)
            count  std_error  lower  upper
    sex
    Female  10766       14.1  10736  10796
    Male    21804       14.1  21774  21834

    >>> ages = DPHistogram(epsilon=0.1, domain=Interval(0, 128, bins=128), random_state=0).fit(people[["age"]])
    >>> ages.method_, ages.branching_
    ('hierarchical', 12)
    >>> ages.range_count(25, 65), int(people["age"].between(25, 64).sum())
    (25550, 25655)
    >>> ages.range_estimate(25, 65)
    CountEstimate(count=25550, std_error=72.74..., lower=25395, upper=25705)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        domain: Any = None,
        method: str = "auto",
        branching: int | None = None,
        handle_unknown: str = "error",
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.domain = domain
        self.method = method
        self.branching = branching
        self.handle_unknown = handle_unknown
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        declared = isinstance(self.domain, Domain) and declares_missing(self.domain)
        tags.input_tags.allow_nan = self.handle_unknown == "ignore" or declared
        return tags

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the counts of a table.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Declared values. Or, with `skdp.engines`, a large table, of which only counts are read: a Polars LazyFrame,
            a DuckDB relation, a pyarrow Dataset, or a Dask or Spark DataFrame.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted histogram.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, the domain is not declared, does not fit the columns or has more than 2**26
            cells, or X is 1-D or sparse, or holds undeclared values under ``handle_unknown="error"``.
        BudgetExceeded
            If the ledger does not cover it.
        """
        epsilon = self._check_promise()
        if not isinstance(self.method, str) or self.method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {self.method!r}")
        branching = None if self.branching is None else check_size(self.branching, name="branching")
        check_policy(self.handle_unknown)
        table, large = self._open_table(X)
        domain = declared_domain(table, self.domain, "domain")
        if domain.size > _MOST_CELLS:
            raise ValueError(f"the domain has {domain.size:,} cells; at most {_MOST_CELLS:,} are counted")
        tree = plan_hierarchy(domain.size, epsilon, _applicable(self.method, domain), branching)
        if large is None:
            counts = _count(domain, read_codes(table, domain, self.handle_unknown, "domain"))
        else:
            counts = _count_large(domain, large, self.handle_unknown)
        n_levels = len(tree.sizes)
        source = self._spend(table.names, f"discrete Laplace{f' on {n_levels} levels' if n_levels > 1 else ''}")
        # All sums are then integers of 64 bits, however large the noise.
        most = LARGEST // domain.size
        noisy = [
            np.clip(level + discrete_laplace(source, n_levels / epsilon, level.size), -most, most).astype(np.int64)
            for level in tree.totals(counts)
        ]
        self.domain_ = domain
        self.method_ = "flat" if n_levels == 1 else "hierarchical"
        self.branching_ = tree.branching
        self.counts_ = noisy[0] if n_levels == 1 else _round_all_ranges(tree.estimate(noisy))
        self.std_error_ = count_std(epsilon, n_levels) * np.sqrt(tree.cell_variances)
        return self

    @property
    def frequencies_(self) -> NDArray[np.float64]:  # numpydoc ignore=RT01
        """The shares of the cells: the nearest ones that are not negative and add up to 1."""
        check_is_fitted(self)
        total = int(self.counts_.sum())
        if total <= 0:
            return np.full(self.counts_.size, 1 / self.counts_.size)
        return project_to_simplex(self.counts_ / total, 1)

    def to_frame(self, *, confidence_level: float = 0.95) -> pd.DataFrame:
        """Return the counts as a table.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error, lower, upper``, indexed by the values (for an `Interval`, the bins) of one column, or of
            several.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the confidence level is out of range.
        """
        check_is_fitted(self)
        reach = interval_reach(self.std_error_, check_confidence_level(confidence_level))
        table = {
            "count": self.counts_,
            "std_error": self.std_error_,
            "lower": self.counts_ - reach,
            "upper": self.counts_ + reach,
        }
        return pd.DataFrame(table, index=self.domain_.cells())

    def range_count(self, low: Any = None, high: Any = None) -> int:
        """Return the noisy number of records from a value up to another one, which is left out.

        Parameters
        ----------
        low, high : value or None
            The ends; None leaves one open. For an `Interval`, edges of its bins, of which the last bin includes its
            upper one. For numbers and dates, any: the declared ones are compared with them. For other values, declared
            ones: the order is that of the declaration. Missing is in no range.

        Returns
        -------
        int
            The sum of the counts.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If an end is not of the domain, or there are several columns.
        """
        return int(self.counts_[self._find_range(low, high)].sum())

    def range_estimate(self, low: Any = None, high: Any = None, *, confidence_level: float = 0.95) -> CountEstimate:
        """Return `range_count` with its error.

        Parameters
        ----------
        low, high : value or None
            As for `range_count`.
        confidence_level : float, default=0.95
            Coverage of the interval, between 0 and 1.

        Returns
        -------
        CountEstimate
            The ``count``, its ``std_error``, and the ends ``lower`` and ``upper`` of its interval.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            As for `range_count`; if the confidence level is out of range.
        """
        inside = self._find_range(low, high)
        tree = Hierarchy(self.counts_.size, self.branching_)
        error = count_std(check_epsilon(self.guarantee_.epsilon), len(tree.sizes)) * math.sqrt(tree.variance(inside))
        total = int(self.counts_[inside].sum())
        reach = int(interval_reach(error, check_confidence_level(confidence_level)))
        return CountEstimate(total, error, total - reach, total + reach)

    def _find_range(self, low: Any, high: Any) -> NDArray[np.bool_]:
        """Say which cells are in a range."""
        check_is_fitted(self)
        if len(self.domain_.columns) > 1:
            raise ValueError(f"a range is one of a single column; the histogram is of {list(self.domain_.columns)}")
        (name,) = self.domain_.columns
        return find_range(name, self.domain_[name], low, high)


def _applicable(method: str, domain: Domain) -> str:
    """Return the method, restricted to flat counts where the cells have no order."""
    if len(domain.columns) > 1 and method == "hierarchical":
        raise ValueError("method='hierarchical' is for one column: the cells of several have no order")
    ordered = len(domain.columns) == 1 and is_ordered(domain[domain.columns[0]])
    return method if ordered or method != "auto" else "flat"


def _count(domain: Domain, codes: list[Codes]) -> NDArray[np.int64]:
    """Count the records of each cell; those with an undeclared value are in none."""
    declared = np.logical_and.reduce([column < size for column, size in zip(codes, domain.sizes, strict=True)])
    if not declared.all():
        codes = [column[declared] for column in codes]
    return np.bincount(domain.join(codes), minlength=domain.size)


def _count_large(domain: Domain, table: LargeTable, handle_unknown: str) -> NDArray[np.int64]:
    """Count the records of each cell, where they are."""
    code = partial(find_codes, handle_unknown=handle_unknown)
    tally = CellTally(domain, code, [tuple(range(len(domain.columns)))], handle_unknown == "error")
    (counts,) = count_large(table, tally, lambda column: undeclared_error(column, "domain"))
    return counts


def _round_all_ranges(estimates: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round such that each sum of neighbours changes by less than 1: what is rounded are the sums from the start."""
    ends = np.floor(np.cumsum(estimates) + 0.5).astype(np.int64)
    ends[1:] -= ends[:-1].copy()
    return ends
