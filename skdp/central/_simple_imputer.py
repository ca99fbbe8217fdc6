"""Filling in missing values with private statistics."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdp.base import all_or_nothing, as_asked, check_names, read_input
from skdp.central._base import CentralTransformer, Columns
from skdp.central.statistics import (
    CellTally,
    count_large,
    declared_domain,
    fill_missing,
    find_codes,
    rank_columns,
    ranked_quantiles,
    read_candidates,
    read_codes,
    sum_columns,
    two_sums,
    undeclared_error,
)
from skdp.domain import Domain
from skdp.frames import LargeTable, Table
from skdp.privacy import PrivacyLedger
from skdp.randomness import ByteSource, permute_and_flip

STRATEGIES = ("mean", "median", "most_frequent")


class DPSimpleImputer(CentralTransformer):
    """Fill in missing values with the mean, the median or the most frequent value, private for the whole record.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of all columns together, finite and > 0.
    strategy : {"mean", "median", "most_frequent"}, default="mean"
        Which statistic of a column stands for its missing values. The first two are for numbers, and need `bounds`;
        ``"most_frequent"`` is for a few declared values of any kind, see `categories`.
    bounds : pair of float, mapping of column name to pair, or array-like of shape (n_features, 2)
        The lowest and the highest value of all columns, or of each, from what is publicly known. `fit` clips values
        outside; `transform` does not.
    categories : list of array-like, mapping, Domain or Interval, optional
        The values that each column may take: a list of values a column, or ``{column: values}``. An `Interval` instead
        of values cuts a numeric column into bins, and the middle of one is filled in; a single one is for all columns.
        A polars Enum needs no declaration, nor do categories of pandas that are ordered, or are not just the values
        that occur. None among the values is not filled in.
    handle_unknown : {"error", "ignore"}, default="error"
        What `fit` does with a value that is not declared: an error shows that there is one, while it adds nothing to
        the statistics if it is ignored. `transform` leaves it as it is.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure coins; an int for reproducible experiments, and no promise to who knows it.

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features,)
        What is filled in: floats, or for ``"most_frequent"`` objects.
    guarantee_ : PrivacyGuarantee
        What was promised for this `fit`.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : ndarray of str
        Their names, if all of them are strings.

    See Also
    --------
    DPMean : Means with intervals.
    DPStandardScaler : Private means and variances.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. What is private are the statistics: adding or
    removing a record changes the law of `statistics_` by at most ``(epsilon, 0)``; replacing one by ``(2 epsilon, 0)``.
    **The output of `transform` is the rows themselves**, with the gaps filled: no noise is added to them, and they are
    as private as X. `fit` reads all values; a missing one adds nothing, and a table without any is answered.

    The means of all columns are released together, as by `DPMean`. Medians and most frequent values are chosen by
    permute-and-flip ([1]_), for each of d columns with epsilon / d. The medians are chosen among about 10,000 equally
    spaced numbers between the bounds, the integers among them if the bounds are some. A value that is c records behind
    the most frequent one stays in the draw with probability ``e**(-epsilon c / d)``: as a record that is added can only
    raise counts, this is epsilon / d-differentially private without the usual factor 2.

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

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        strategy: str = "mean",
        bounds: Any = None,
        categories: Any = None,
        handle_unknown: str = "error",
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.strategy = strategy
        self.bounds = bounds
        self.categories = categories
        self.handle_unknown = handle_unknown
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = self.strategy == "most_frequent"
        if self.strategy == "most_frequent":
            tags.transformer_tags.preserves_dtype = []
        return tags

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Release what stands for the missing values of each column.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Numbers, or for ``"most_frequent"`` declared values; values may be missing.
            Or, with `skdp.engines`, a large table, of which only sums are read: a Polars LazyFrame, a DuckDB relation,
            a pyarrow Dataset, or a Dask or Spark DataFrame.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted transformer.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, the bounds or categories do not fit the columns, X is 1-D, sparse or not
            numeric, or it holds undeclared values under ``handle_unknown="error"``.
        BudgetExceeded
            If the ledger does not cover it.
        """
        epsilon = self._check_promise()
        if not isinstance(self.strategy, str) or self.strategy not in STRATEGIES:
            raise ValueError(f"strategy must be one of {STRATEGIES}, got {self.strategy!r}")
        table, large = self._open_table(X)
        draw = self._prepare(table, large, epsilon)
        source = self._spend(table.names, "cube" if self.strategy == "mean" else "permute-and-flip")
        self.statistics_ = draw(source)
        return self

    def _prepare(
        self, table: Table, large: LargeTable | None, epsilon: Fraction
    ) -> Callable[[ByteSource], NDArray[Any]]:
        """Check what the strategy needs; return how it draws."""
        if self.strategy == "most_frequent":
            domain = declared_domain(table, self.categories, "categories")
            codes = read_codes(table, domain, self.handle_unknown, "categories", missing=True)
            values, counts = _count(domain, codes)
            if large is not None:
                values, counts = _count_large(domain, large, self.handle_unknown)
            rate = epsilon / len(counts)
            return lambda source: _objects(
                [known[permute_and_flip(source, of_each, rate)] for known, of_each in zip(values, counts, strict=True)]
            )
        if self.strategy == "mean":
            columns = sum_columns(table, large, self.bounds)
            return lambda source: np.array(
                [
                    column.value(estimate.mean)
                    for column, estimate in zip(columns, two_sums(columns, epsilon, 0.95, source), strict=True)
                ]
            )
        candidates = read_candidates(None, table.names, self.bounds)
        ranks = rank_columns(table, large, candidates)
        return lambda source: ranked_quantiles(ranks, [Fraction(1, 2)], candidates, epsilon, source)[:, 0]

    def transform(self, X: Any) -> Any:
        """Fill in the missing values of a table.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows, in the columns of `fit`.

        Returns
        -------
        same kind as X
            The same rows without missing values: as floats, or for ``"most_frequent"`` in their own dtypes where these
            can hold what is filled in. They are as private as those of X: no noise is added to them.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If X has other columns, is not numeric where it must be, or has a dtype that cannot be filled.
        """
        check_is_fitted(self)
        if self.statistics_.dtype != object:
            return super().transform(X)
        table = read_input(self, X, reset=False, least=0)
        check_names(self, table, self.guarantee_.scope)
        columns = [
            _fill(name, column, value)
            for name, column, value in zip(table.names, table.columns, self.statistics_, strict=True)
        ]
        return as_asked(self, table.rebuild(columns, self._output_names()))

    def _transform_columns(self, columns: Columns) -> Columns:
        return [
            np.where(np.isnan(column), value, column) for column, value in zip(columns, self.statistics_, strict=True)
        ]


Counted = tuple[list[list[Any]], list[NDArray[np.int64]]]


def _count(domain: Domain, codes: list[NDArray[np.unsignedinteger]]) -> Counted:
    """Return the values of each column that may be filled in, and how many records have them."""
    return _fillable(
        domain, [np.bincount(column, minlength=size) for column, size in zip(codes, domain.sizes, strict=True)]
    )


def _count_large(domain: Domain, table: LargeTable, handle_unknown: str) -> Counted:
    """Count the records where they are, column by column: one without a value in a column counts in the others."""
    code = partial(find_codes, handle_unknown=handle_unknown, missing=True)
    counts = []
    for name in domain.columns:
        tally = CellTally(domain.select([name]), code, [(0,)], handle_unknown == "error")
        counts += count_large(table, tally, lambda column: undeclared_error(column, "categories", missing=True))
    return _fillable(domain, counts)


def _fillable(domain: Domain, counts: list[NDArray[np.int64]]) -> Counted:
    """Leave out missing, and whatever is not declared."""
    values, kept = [], []
    for name, count in zip(domain.columns, counts, strict=True):
        known = [code for code, value in enumerate(domain[name].values) if value is not None]
        if not known:
            raise ValueError(f"categories: column {name!r} declares nothing that could be filled in")
        values.append([domain[name].values[code] for code in known])
        kept.append(count[known])
    return values, kept


def _objects(values: list[Any]) -> NDArray[np.object_]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _fill(name: Any, column: Any, value: Any) -> Any:
    try:
        return fill_missing(column, value)
    except Exception as error:
        reason = type(error).__name__
    # Here, where an error that may hold a value is not its context.
    raise ValueError(f"column {name!r} cannot be filled in ({reason})")
