"""Additive classifier and regressor."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import Codes, ColumnName, Floats, Indices, Integers, Mask, TableLike
from skdp.base import (
    Bounds,
    OrderedScore,
    check_column_name,
    check_declared,
    parse_bounds,
    to_float_columns,
)
from skdp.central._base import Plan, Unknown, check_declared_columns
from skdp.central._limits import OPEN_PART, LimitSearch
from skdp.central._rows import warn_of_few_rows
from skdp.central._sums import GRID, read_values, to_grid, warn_of_objects
from skdp.central._supervised import (
    Classes,
    LogitClassifier,
    SupervisedStatistic,
    parse_all_ends,
    parse_target_ends,
)
from skdp.central.additive._backfitting import (
    BOUND_EPOCHS,
    MAX_EPOCHS,
    MIN_BINS,
    MIN_EPOCHS,
    TARGET_UNIT,
    ClassResiduals,
    NumberResiduals,
    Start,
    backfit,
    choose_sizes,
    cut_to_cells,
    list_ordered_bins,
    merge_to_bins,
)
from skdp.central.statistics import (
    Batches,
    CategorySearch,
    Noise,
    declared_domain,
    encode_declared,
    select_columns,
    to_float,
)
from skdp.domain import (
    Categories,
    Domain,
    DomainLike,
    Interval,
    copy_guarantee,
    domains_of_dtypes,
)
from skdp.privacy import Mu, PrivacyBudget, PrivacyLedger, Rho, Split
from skdp.randomness import ByteSource, check_size
from skdp.tables import ANY_TYPE, Table, is_frame, name_of_dtype, type_of_column

# Fractions of the budget for the first measurement of the target, for the counts of cells from
# which bins are made, and for sums by bin. Half or twice of the first two changes R2 by less than
# 0.01, except that half of the second decreases it by 0.03 on one table
# (benchmarks/central_models.py).
PARTS = Split(rest="sums", start=Fraction(1, 100), bins=Fraction(3, 20))

# Fractions of the budget for limits of a numeric target: within its bounds, and at least with an
# open end. With an eighth, every fifth table of 250 rows has limits that are far too wide.
TARGET_PART, OPEN_TARGET_PART = Fraction(1, 16), Fraction(1, 5)

# Largest number of values of a column. Smoothing uses matrices of pairs of values, of at most
# 134 MB each.
MAX_CATEGORIES = 4096


class ShapeFunction(NamedTuple):
    """The function of a column, and its errors."""

    # The bins, whose `labels` are texts. The last bin of a numeric column is for missing
    # numbers.
    bins: Interval | Categories
    # Contribution of a bin to the prediction; shape (n_bins,) or (n_bins, n_classes).
    values: Floats
    # Standard errors due to noise, sampling and smoothing; they include the noise of the
    # counts, which changes all values by the same number.
    std_error: Floats
    # Noisy numbers of rows, > 0. The mean of the values with these weights is 0.
    counts: Floats
    # False where the error of the value may be larger than `std_error`.
    is_supported: Mask


# For each column, 1 if its function increases, -1 if it decreases, otherwise 0.
MonotonicCst: TypeAlias = Mapping[Any, int] | ArrayLike


def divide_regression_budget(relative_error: float) -> Split:
    """Divide the budget of a regression, with `PARTS` and fractions for bounds of residuals and for a warning.

    `relative_error` is the error of the noisy number of rows, divided by this number.
    """
    # So that the noise of each count of residuals by size is at most an eighth of the rows.
    bounds = 64 * len(BOUND_EPOCHS) * PARTS.start / 2
    bounds *= Fraction(min(relative_error, 1.0)) ** 2
    return Split(
        rest="sums",
        start=PARTS.start,
        bins=PARTS.bins,
        bounds=min(max(bounds, Fraction(3, 100)), Fraction(12, 100)),
        # With half of it, twice as many warnings are of models that explain a tenth or more.
        gain=Fraction(4, 100),
    )


Target = TypeVar("Target")


@dataclass(frozen=True, eq=False)
class CodedRows(Generic[Target]):
    """Private rows by declared values and narrow cells, and their target."""

    # The values or cells of each column, and the index of the cell of each row; (n_rows,) for each
    # column.
    domain: Domain
    codes: list[Indices]
    # The columns whose neighboring cells are merged, and the directions of monotone functions.
    numbers: list[ColumnName]
    directions: dict[ColumnName, int]
    # The class of each row as an index, or its number in steps of 1 / `TARGET_UNIT`; (n_rows,).
    targets: NDArray[Any]
    # None for a numeric target.
    classes: Target


class AdditiveModel(SupervisedStatistic):
    """Base class of models whose response is a constant plus a function of each column."""

    bounds: Bounds | None
    categories: DomainLike | None
    monotonic_cst: MonotonicCst | None
    handle_unknown: Unknown
    shapes_: list[Floats]
    shapes_std_error_: list[Floats]
    bin_counts_: list[Floats]
    bin_supported_: list[Mask]
    intercept_: Any
    domain_: Domain
    n_iter_: int
    _default_delta = 1e-6
    _requires_rows = True
    _takes_categories = True
    _found_parameter = "categories"
    _max_found = MAX_CATEGORIES - 1
    _finds_limits = True

    @abstractmethod
    def _read_target(
        self, rows: Batches, bounds: Floats
    ) -> tuple[NDArray[Any], Classes | None]:
        """Return the integer target of each row, and its classes."""

    @abstractmethod
    def _start(
        self, rows: CodedRows[Any], budget: PrivacyBudget, source: ByteSource
    ) -> Start:
        """Measure the number of rows, and the constant response."""

    def _select_features(self, rows: Batches) -> Batches:
        """Select the columns of X."""
        return rows.select(rows.names[: self.n_features_in_])

    def _list_numbers(self, rows: Batches) -> list[Any]:
        """List the columns of X that are numbers between bounds, because their values are not declared."""
        features = self._select_features(rows)
        by_dtype = domains_of_dtypes(features.table)
        check_declared_columns(self.categories, features.names, "categories")
        known = {*by_dtype, *rows.found}
        if isinstance(self.categories, Mapping):
            known.update(self.categories)
        elif self.categories is not None:
            known.update(features.names)
        declared = [name for name in features.names if name in known]
        # A Domain may have more columns than the table.
        is_domain = isinstance(self.bounds, Domain)
        if isinstance(self.bounds, Mapping) and not is_domain:
            twice = [name for name in self.bounds if name in declared]
            if twice:
                raise ValueError(
                    f"Columns {twice} must be declared once, got `bounds` and also "
                    "values in `categories` or by a dtype. Remove them from `bounds`."
                )
            check_declared(
                dict.fromkeys([*self.bounds, *declared]),
                features.names,
                "bounds",
                hint=". Declare the values of categories in `categories`",
            )
        return [name for name in features.names if name not in declared]

    def _select_categories(self, rows: Batches) -> Batches:
        """Select the columns of text, and of Python objects in a dataframe, without bounds."""
        features = self._select_features(rows)
        table, bounds = features.table, self.bounds
        bounded = bounds if isinstance(bounds, Mapping) else ()
        types = {"string"}
        if is_frame(table.native) and (bounds is None or bounded is bounds):
            types.add(ANY_TYPE)
        names = []
        for name, column in zip(table.names, table.columns, strict=True):
            if name not in bounded and type_of_column(column) in types:
                names.append(name)
        return rows.select(names)

    def _select_bounded(self, rows: Batches) -> Batches:
        return rows.select(self._list_numbers(rows))

    def _plan(
        self,
        rows: Batches,
        budget: PrivacyBudget,
        bounds: Floats,
        before: Plan[CodedRows[Any]] | None = None,
    ) -> Plan[CodedRows[Any]]:
        """Encode the columns by declared values, or by many narrow cells between bounds, and read the target.

        `bounds` are the bounds of columns of numbers and, in regression, of the target. `_release` merges the cells
        into bins. With the cells of a plan `before`, columns are not encoded again.
        """
        features = self._select_features(rows).table
        numbers = self._list_numbers(rows)
        declared_names = [name for name in features.names if name not in numbers]
        bounded = self._select_bounded(rows).names
        undeclared = select_columns(features, numbers)
        _check_numbers(undeclared)
        warn_of_objects(undeclared)
        bounds = parse_bounds(bounds, bounded) if bounded else np.zeros((0, 2))
        attributes: dict[Any, Any] = {}
        for name, (low, high) in zip(numbers, bounds.tolist(), strict=False):
            attributes[name] = cut_to_cells(low, high)
        if declared_names:
            table = select_columns(features, declared_names)
            values = rows.select(declared_names).add_found(self.categories)
            declared = declared_domain(table, values, "categories")
            for name in declared_names:
                attributes[name] = declared[name]
                n_values = len(declared[name])
                if n_values > MAX_CATEGORIES:
                    raise ValueError(
                        f"Column {name!r} must have at most {MAX_CATEGORIES:,} declared values, got "
                        f"{n_values:,}. Merge rare values."
                    )
        domain = Domain({name: attributes[name] for name in features.names})
        directions = {}
        if self.monotonic_cst is not None:
            directions = read_directions(self.monotonic_cst, domain)
        targets, classes = self._read_target(rows, bounds)
        is_equal = before is not None and len(before.exact.targets) == rows.n_rows
        if before is not None and is_equal and before.exact.domain == domain:
            codes = before.exact.codes
        else:
            codes = encode_by_bins(features, domain, self.handle_unknown)
        exact = CodedRows(domain, codes, numbers, directions, targets, classes)
        mechanism = "noisy sums by bin"
        if directions:
            mechanism += f", monotonic_cst={directions}"
        return Plan.from_gaussian(exact, budget, mechanism)

    def _replan(
        self,
        plan: Plan[CodedRows[Any]],
        rows: Batches,
        search: LimitSearch | CategorySearch,
        bounds: Floats,
    ) -> Plan[CodedRows[Any]]:
        return self._plan(rows, search.rest, bounds, plan)

    def _release(self, plan: Plan[CodedRows[Any]], source: ByteSource) -> None:
        """Merge cells into bins by noisy counts, fit a function of the bins of each column, and set attributes."""
        rows, domain, names = plan.exact, plan.exact.domain, plan.exact.domain.columns
        start = self._start(rows, plan.budget, source)
        counts = []
        for column_codes, size in zip(rows.codes, domain.sizes, strict=True):
            counts.append(np.bincount(column_codes, minlength=size + 1)[:size])
        # A record is in one cell of each column, so it changes the counts by the root of the
        # number of columns in L2 norm.
        noise = Noise.gaussian(plan.budget * PARTS.bins, len(names))
        sizes = choose_sizes(start.n_rows, to_float(noise.std))
        bins = merge_to_bins(domain, rows.numbers, counts, sizes, noise, source)
        binned = []
        for column_codes, column in zip(rows.codes, bins, strict=True):
            binned.append(column.bins_of_cells.astype(np.int16)[column_codes])
        self.n_iter_ = MAX_EPOCHS if sizes[0] > MIN_BINS else MIN_EPOCHS
        self.intercept_, functions = backfit(
            binned,
            rows.targets,
            bins,
            [rows.directions.get(name, 0) for name in names],
            start,
            self.n_iter_,
            source,
        )
        found = Domain({x: one.attribute for x, one in zip(names, bins, strict=True)})
        # The bins of numbers have the bounds that a release found.
        self.domain_ = copy_guarantee(found, self.categories, self.bounds)
        # One output: the logit of the second class, or the expected target.
        axis = 1 if len(self.intercept_) == 1 else ()
        self.shapes_ = [np.squeeze(one.values - one.mean, axis) for one in functions]
        self.shapes_std_error_ = [
            np.squeeze(one.compute_std_errors(), axis) for one in functions
        ]
        self.bin_counts_ = [column.sizes for column in bins]
        self.bin_supported_ = [
            column.counts > 3 * np.sqrt(column.variances) for column in bins
        ]

    @property
    def _columns(self) -> tuple[Any, ...]:
        """Names of the columns of X seen during `fit`."""
        return self.domain_.columns[: self.n_features_in_]

    def _respond(self, X: TableLike) -> Floats:
        """Return the constant plus the sum of the functions of all columns for each row; shape (n_samples, n_outputs).

        A regressor and a classifier of two classes have one output, other classifiers have one for each class.
        """
        # The columns of an array get the names of the columns of `fit`.
        table = replace(self._read_rows(X), names=self._columns)
        domain = self.domain_.select(self._columns)
        codes = encode_by_bins(table, domain, self.handle_unknown)
        response = np.zeros((len(codes[0]), np.size(self.intercept_)))
        response += self.intercept_
        for values, column in zip(self.shapes_, codes, strict=True):
            # An undeclared value has the code after the last bin, and adds 0.
            bin_values = values.reshape(-1, response.shape[1])
            response += np.pad(bin_values, ((0, 1), (0, 0)))[column]
        return response

    def shape_(self, feature: ColumnName) -> ShapeFunction:
        """Return the function of a column.

        Parameters
        ----------
        feature : column name
            Column of X; for an array, ``"x0"`` and so on.

        Returns
        -------
        ShapeFunction
            The function, with these attributes:

            - `bins`: the bins of the column. The last bin of numbers is for missing values.
            - `values`: the contribution of each bin to the prediction, of shape (n_bins,) or (n_bins, n_classes).
            - `std_error`: the standard error of each value, given the functions of the other columns.
            - `counts`: the noisy number of rows in each bin. The mean of `values` with these weights is 0.
            - `is_supported`: True for a bin with enough rows. The error of other bins may be
              larger than `std_error`. Intervals of wide outer bins also have a smaller coverage.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if X has no such column.
        """
        check_is_fitted(self)
        names = list(self._columns)
        check_column_name("feature", feature)
        if feature not in names:
            raise ValueError(
                f"`feature` must be a column of X, {names}, got {feature!r}."
            )
        column = names.index(feature)
        return ShapeFunction(
            self.domain_[feature],
            self.shapes_[column],
            self.shapes_std_error_[column],
            self.bin_counts_[column],
            self.bin_supported_[column],
        )

    def _allows_missing(self) -> bool:
        # Missing numbers have a bin.
        has_numbers = self.categories is None or isinstance(self.categories, Mapping)
        return has_numbers or super()._allows_missing()


def read_directions(monotonic_cst: object, domain: Domain) -> dict[Any, int]:
    """Check `monotonic_cst`, and return the directions of the columns whose functions are monotone."""
    given = monotonic_cst
    if not isinstance(given, Mapping):
        values = np.atleast_1d(np.array(given, object)).tolist()
        if len(values) != len(domain.columns):
            raise ValueError(
                f"`monotonic_cst` must have a value for each of the "
                f"{len(domain.columns)} columns of X, got {len(values)}. Use a mapping "
                "to name some of them."
            )
        given = dict(zip(domain.columns, values, strict=True))
    check_declared_columns(given, domain.columns, "monotonic_cst")
    directions = {}
    for name, value in given.items():
        parameter = f"monotonic_cst[{name!r}]"
        direction = check_size(value, min_val=-1, max_val=1, name=parameter)
        if direction and not list_ordered_bins(domain[name]):
            raise ValueError(
                f"`{parameter}` must be 0 for a column without an order, got {direction}. "
                "Declare its values as `Categories(values, ordered=True)`."
            )
        if direction:
            directions[name] = direction
    return directions


def _check_numbers(table: Table) -> None:
    """Check that the columns without declared values do not have a dtype of text."""
    for name, column in zip(table.names, table.columns, strict=True):
        if type_of_column(column) == "string":
            raise TypeError(
                f"Column {name!r} must have numbers, got dtype "
                f"{name_of_dtype(column)}. Convert it, or declare its values in "
                "`categories`."
            )


def encode_by_bins(table: Table, domain: Domain, handle_unknown: str) -> list[Any]:
    """Return the bin of each row in each column. Numbers outside the bounds get the first or last bin."""
    columns = []
    for name, column in zip(domain.columns, table.columns, strict=False):
        attribute = domain[name]
        if isinstance(attribute, Interval) and isinstance(attribute.edges[0], float):
            (numbers,) = read_values(Table((name,), (column,), table.native))
            column = np.clip(numbers, attribute.edges[0], attribute.edges[-1])
        columns.append(column)
    features = Table(domain.columns, tuple(columns), table.native)
    return list(encode_declared(features, domain, handle_unknown))


class DPAdditiveClassifier(LogitClassifier, AdditiveModel):
    """Classify with a sum of one function per column, fitted with differential privacy.

    The logit of a class is a constant plus a function of each column. `shape_` returns the functions with their errors,
    and `ShapeDisplay` draws them. Columns are cut into private bins, so that their scale and their tails do not matter.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Total privacy loss of `fit`, finite and > 0. `skdp.privacy.Rho` and
        `skdp.privacy.Mu`, fractions of a budget in rho or mu, include a delta.
    delta : float, default=1e-6
        Failure probability for a numeric `epsilon`, in (0, 1), far below one over the number of rows. An
        `epsilon` that includes a delta replaces it.
    categories : mapping, Domain, list of array-like or Interval, optional
        The values of each categorical column, by name, from public knowledge: each value is a bin. Include None to
        declare missing values as a bin; an `Interval` declares public bins of a numeric column. A list or an `Interval`
        applies to all columns. Values of other columns of text, and of Python objects without bounds, are found with a
        fifth of the budget: texts, whole numbers, booleans and missing values of many rows. All others are "(other)".
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_numbers, 2), or Domain, optional
        Bounds (low, high) of all columns that `categories` does not declare, or of each of them, from public
        knowledge; None, or an end that is None, if there is none: limits are then found with a third of the budget.
        Values outside belong to the outer bins. Bounds 100 times too wide cost little.
    classes : list or Categories, optional
        The classes that the target may have, from public knowledge; False and True for a boolean dtype. None finds
        them with a `delta` and a fifth of the budget, which categories share: texts, whole numbers and booleans of many
        rows. Rows of other classes are then excluded.
    monotonic_cst : mapping of column name to int, or array-like of int of shape (n_features,), optional
        Direction of the function of each column, as in `sklearn.ensemble.HistGradientBoostingRegressor`: 1 for
        increasing, -1 for decreasing, 0 (the default of a mapping) for any function. The columns require an order:
        numbers, dates, or ``Categories(values, ordered=True)``; a bin of missing values is not ordered. For two
        declared classes only: with 1, the second class becomes more likely.
    handle_unknown : {"error", "ignore"}, default="error"
        How to handle an undeclared value of a column of `categories`. ``"error"``
        reveals that such a value occurs. ``"ignore"`` excludes it from its column in
        `fit` and from the prediction.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    shapes_ : list of ndarray of shape (n_bins,) or (n_bins, n_classes)
        For each column, the contribution of its bins to the logit of the second of two classes, or of each class. The
        mean over rows, by `bin_counts_`, is 0.
    shapes_std_error_ : list of ndarray
        Standard errors of `shapes_`.
    bin_counts_ : list of ndarray of shape (n_bins,)
        The noisy number of rows in each bin, positive.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Constant of each logit.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted; "(other)" if none was found. With one class, all rows get this prediction.
    domain_ : Domain
        The bins of each column, and the classes.
    n_iter_ : int
        The number of epochs: 6, or 12 if the noise allows more than 24 bins. Each epoch releases the sums of each
        column once.
    bounds_ : ndarray of shape (n_numbers, 2)
        The bounds of the columns of numbers, with the limits that are found for open ends.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit` for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    DPLogisticRegression : A line for each column.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record, with its target,
    changes the distribution of all fitted attributes by at most (epsilon, delta); the guarantee is mu-Gaussian
    differential privacy ([1]_), also stated as rho = mu**2 / 2. Predictions are post-processing and use no budget, but
    a prediction for a row of the table is computed from this row. The number of rows is protected too, and an empty
    table is allowed. Missing numbers are a bin. Not covered: an error reveals that a value is not declared, or that a
    target is missing or of no declared class.

    Open ends of `bounds` are found by a choice among public windows and by noisy counts, and values of columns of text
    by noisy counts that reach a threshold, whose failure probability is half of delta (:doc:`/guarantees/statistics`).
    The remaining budget mu**2 is spent as follows: 1 % on the noisy counts of the classes, and 15 % on the counts of
    fine cells, where a record changes one count of each column by 1. The rest is divided equally among the sums of
    residuals by bin, for one column after another, in six or twelve epochs. A record adds its gradient, weighted as in
    `DPLogisticRegression` (for two classes, at most 1/2), to one bin of each column. Neighboring cells are merged into
    bins with about equal noisy counts. The noisy number of rows, divided by the variance of the noise of a cell,
    determines the numbers of cells, bins and epochs. All noise is rounded Gaussian, drawn exactly for integers.

    Each sum, added to the current function of its column, estimates the function that fits best. The estimates are
    averaged over the epochs and smoothed together, by a prior for smooth or rough functions whose variance has the
    largest posterior probability (backfitting, [2]_, with empirical Bayes, [3]_). Estimates of earlier epochs are
    forgotten if they differ by more than the noise, and the change in an epoch is limited. In boosting, each step is
    shrunk separately, so the noise of all steps accumulates in bins with few records ([4]_).

    Standard errors include the noise, the sampling error, the bias of smoothing, and the error of the counts by which
    the mean is 0. They are conditional on the functions of the other columns, and too small if columns are correlated.
    With 10,000 rows of four columns and an epsilon of 0.5 to 4, intervals of 95 % covered 85 to 94 % of the supported
    bins of independent columns, 75 to 86 % with a correlation of 0.5 between all columns, and 38 to 47 % with 0.8.

    With `monotonic_cst`, the nearest monotone function, by isotonic regression weighted by `bin_counts_`, replaces a
    function in each epoch. Standard errors stay those of the free function.

    References
    ----------
    .. [1] J. Dong, A. Roth, W. J. Su (2022). Gaussian differential privacy. Journal of the Royal Statistical Society B
       84(1), corollary 3.3.
    .. [2] T. Hastie, R. Tibshirani (1986). Generalized additive models. Statistical Science 1(3).
    .. [3] C. N. Morris (1983). Parametric empirical Bayes inference. Journal of the American Statistical Association
       78(381).
    .. [4] H. Nori, R. Caruana, Z. Bu, J. H. Shen, J. Kulkarni (2021). Accuracy, interpretability, and differential
       privacy via explainable boosting. ICML.

    Examples
    --------
    >>> from skdp import DPAdditiveClassifier
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> X = adult.data[["age", "hours-per-week", "education", "sex"]]
    >>> model = DPAdditiveClassifier(
    ...     1.0,
    ...     bounds={"age": (0, 100), "hours-per-week": (0, 100)},
    ...     categories=adult.domain.select(["education", "sex"]),
    ...     classes=["<=50K", ">50K"],
    ...     random_state=0,
    ... )
    >>> model = model.fit(X, adult.target)
    >>> round(model.score(X, adult.target), 1)
    0.8
    >>> model.shape_("sex").values.round(1), model.shape_("sex").std_error.round(2)
    (array([-0.8,  0.4]), array([0.02, 0.01]))
    >>> print(model.guarantee_)
    epsilon = 1, delta = 0.000001, rho = 0.0280145, central model, adding or removing one record's values of: age,
    hours-per-week, education, sex, income, NOT SECURE: ...
    """

    classes_: NDArray[Any]
    intercept_: Floats

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 1e-6,
        categories: DomainLike | None = None,
        bounds: Bounds | None = None,
        classes: list[Any] | Categories | None = None,
        monotonic_cst: MonotonicCst | None = None,
        handle_unknown: Unknown = "error",
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.bounds = bounds
        self.classes = classes
        self.monotonic_cst = monotonic_cst
        self.handle_unknown = handle_unknown
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _read_target(self, rows: Batches, bounds: Floats) -> tuple[Codes, Classes]:
        """Return the class of each row as an index, and the declared classes."""
        classes = Classes(rows, self.classes)
        if self.monotonic_cst is not None and rows.names[-1] in rows.found:
            raise ValueError(
                "`classes` must declare two classes with `monotonic_cst`, got None."
            )
        if self.monotonic_cst is not None and len(classes.values) > 2:
            raise ValueError(
                "`monotonic_cst` must be None for more than two classes, got "
                f"{len(classes.values)} classes. Fit one class against the others."
            )
        return classes.codes, classes

    def _start(
        self, rows: CodedRows[Classes], budget: PrivacyBudget, source: ByteSource
    ) -> Start:
        """Start with the logits of the noisy proportions of classes, from a fraction of the budget."""
        n_classes = rows.classes.n_fitted
        # A record is in one class, so it changes the counts by 1 in L2 norm.
        noise = Noise.gaussian(budget * PARTS.start)
        counts = np.bincount(rows.targets, minlength=n_classes)
        noisy_counts = noise.add_floats(source, counts)
        error = to_float(noise.std) * math.sqrt(n_classes)
        warn_of_few_rows(noisy_counts.sum(), error)
        n_rows = max(noisy_counts.sum(), error, 1.0)
        probabilities = np.clip(noisy_counts / n_rows, 1 / 50 / n_classes, None)
        probabilities /= probabilities.sum()
        logits = np.log(probabilities)
        if n_classes == 2:
            # One output: the logit of the second class.
            logits = logits[1:] - logits[:1]
        # The relative errors of the proportions are the errors of their logarithms.
        variances = (to_float(noise.std) / n_rows / probabilities) ** 2
        return Start(
            n_rows=n_rows,
            response=logits,
            response_variance=float(variances.sum() / len(logits)),
            residuals=ClassResiduals(n_classes),
            budget=budget,
            parts=PARTS,
        )

    def _release(self, plan: Plan[CodedRows[Classes]], source: ByteSource) -> None:
        """Fit the functions of columns, set the classes, and add the target to `domain_`."""
        super()._release(plan, source)
        classes = plan.exact.classes
        self.classes_ = classes.values
        name = classes.domain.columns[0]
        self.domain_ |= {name: classes.attribute}


class DPAdditiveRegressor(OrderedScore, RegressorMixin, AdditiveModel):
    """Predict a number with a sum of one function per column, fitted with differential privacy.

    The prediction is a constant plus a function of each column. `shape_` returns the functions with their errors, and
    `ShapeDisplay` draws them. Columns are cut into private bins, so that their scale and their tails do not matter.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Total privacy loss of `fit`, finite and > 0. `skdp.privacy.Rho` and
        `skdp.privacy.Mu`, fractions of a budget in rho or mu, include a delta.
    delta : float, default=1e-6
        Failure probability for a numeric `epsilon`, in (0, 1), far below one over the number of rows. An
        `epsilon` that includes a delta replaces it.
    categories : mapping, Domain, list of array-like or Interval, optional
        The values of each categorical column, by name, from public knowledge: each value is a bin. Include None to
        declare missing values as a bin; an `Interval` declares public bins of a numeric column. A list or an `Interval`
        applies to all columns. Values of other columns of text, and of Python objects without bounds, are found with a
        fifth of the budget: texts, whole numbers, booleans and missing values of many rows. All others are "(other)".
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_numbers, 2), or Domain, optional
        Bounds (low, high) of all columns that `categories` does not declare, or of each of them, from public
        knowledge; None, or an end that is None, if there is none: limits are then found with a third of the budget.
        Values outside belong to the outer bins. Bounds 100 times too wide cost little.
    target_bounds : pair of float, or Domain, optional
        The smallest and largest value of the target, from public knowledge, each None if it is not known. Except for
        (0, 1), narrower limits are found, so wide bounds cost little. `fit` clips values outside the limits. If the
        target has a long tail, such as a price, fit its logarithm.
    monotonic_cst : mapping of column name to int, or array-like of int of shape (n_features,), optional
        Direction of the function of each column, as in `sklearn.ensemble.HistGradientBoostingRegressor`: 1 for
        increasing, -1 for decreasing, 0 (the default of a mapping) for any function. The columns require an order:
        numbers, dates, or ``Categories(values, ordered=True)``; a bin of missing values is not ordered.
    handle_unknown : {"error", "ignore"}, default="error"
        How to handle an undeclared value of a column of `categories`. ``"error"``
        reveals that such a value occurs. ``"ignore"`` excludes it from its column in
        `fit` and from the prediction.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    shapes_ : list of ndarray of shape (n_bins,)
        For each column, the contribution of its bins to the prediction. The mean over rows, by `bin_counts_`, is 0.
    shapes_std_error_ : list of ndarray
        Standard errors of `shapes_`.
    bin_counts_ : list of ndarray of shape (n_bins,)
        The noisy number of rows in each bin, positive.
    intercept_ : float
        Constant of the prediction.
    domain_ : Domain
        The bins of each column.
    n_iter_ : int
        The number of epochs: 6, or 12 if the noise allows more than 24 bins. Each epoch releases the sums of each
        column once.
    bounds_ : ndarray of shape (n_numbers + 1, 2)
        The bounds of the columns of numbers, with the limits that are found for open ends, and the limits of the
        target.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit` for the columns of X and the target.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    DPLinearRegression : A line for each column.
    DPGroupBy : Means by group, with intervals.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record, with its target,
    changes the distribution of all fitted attributes by at most (epsilon, delta); the guarantee is mu-Gaussian
    differential privacy ([1]_), also stated as rho = mu**2 / 2. Predictions are post-processing and use no budget, but
    a prediction for a row of the table is computed from this row. The number of rows is protected too, and an empty
    table is allowed. Missing numbers are a bin. Not covered: an error reveals that a value is not declared, or that a
    target is missing.

    Limits of the target, and open ends of `bounds`, are found by a choice among public windows and by noisy counts
    (:doc:`/guarantees/statistics`): 1/16 of the budget is for a target with two declared ends, and at least a fifth for
    one with an open end. The remaining budget mu**2 is spent as follows: 1 % on the noisy number of rows and the noisy
    sum of the target; 15 % on the counts of fine cells, where a record changes one count of each column by 1; 3 %, or
    up to 12 % with few rows, on counts of residuals by size, in four of the epochs, which determine a bound that few
    residuals exceed; and 4 % on the sum of squares that the model explains, for a warning. The rest is divided equally
    among the sums of residuals by bin, for one column after another, in six or twelve epochs. A record adds its
    residual, clipped to the bound, to one bin of each column. Neighboring cells are merged into bins with about equal
    noisy counts. All noise is rounded Gaussian, drawn exactly for integers.

    For the numbers of bins and epochs, how sums are averaged and smoothed, and monotone functions, see
    `DPAdditiveClassifier`.

    Standard errors include the noise, the sampling error, the bias of smoothing, and the error of the counts by which
    the mean is 0. They are conditional on the functions of the other columns, and too small if columns are correlated.
    With 10,000 rows of four columns and an epsilon of 0.5 to 4, intervals of 95 % covered 95 to 96 % of the supported
    bins of independent columns, 84 to 90 % with a correlation of 0.5 between all columns, and 44 to 59 % with 0.8.

    Residuals are clipped to a bound. In a bin where they have a long tail, such as the last bin of a skewed column, the
    function is therefore nearer to the median than to the mean. The size of this bias is not released.

    References
    ----------
    .. [1] J. Dong, A. Roth, W. J. Su (2022). Gaussian differential privacy. Journal of the Royal Statistical Society B
       84(1), corollary 3.3.

    Examples
    --------
    >>> from skdp import DPAdditiveRegressor
    >>> from skdp.datasets import load_adult
    >>> people = load_adult().data
    >>> model = DPAdditiveRegressor(
    ...     1.0,
    ...     bounds={"age": (0, 100)},
    ...     categories={"sex": ["Female", "Male"]},
    ...     target_bounds=(0, 100),
    ...     random_state=0,
    ... )
    >>> model = model.fit(people[["age", "sex"]], people["hours-per-week"])
    >>> model.predict(people[["age", "sex"]].head(3)).round()
    array([45., 45., 45.])
    >>> model.shape_("sex").values.round(1), model.shape_("sex").std_error.round(2)
    (array([-3.4,  1.7]), array([0.09, 0.04]))
    >>> print(model.guarantee_)
    epsilon = 1, delta = 0.000001, rho = 0.0280145, central model, adding or removing one record's values of: age, sex,
    hours-per-week, NOT SECURE: ...
    """

    intercept_: Any

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 1e-6,
        categories: DomainLike | None = None,
        bounds: Bounds | None = None,
        target_bounds: tuple[float | None, float | None] | Domain | None = None,
        monotonic_cst: MonotonicCst | None = None,
        handle_unknown: Unknown = "error",
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.monotonic_cst = monotonic_cst
        self.handle_unknown = handle_unknown
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _select_bounded(self, rows: Batches) -> Batches:
        return rows.select([*self._list_numbers(rows), rows.names[-1]])

    def _declared_bounds(self, names: Sequence[Any]) -> Floats:
        if len(names) == 1:
            return parse_target_ends(self.target_bounds, names[0])
        return parse_all_ends(self.bounds, self.target_bounds, names)

    def _plan_search(
        self, names: Sequence[Any], bounds: Floats, budget: PrivacyBudget
    ) -> LimitSearch | None:
        """Plan the search of open ends, and of limits of the target, the last column, within its bounds."""
        # Features have narrow cells between wide bounds, too. The first noise is proportional to
        # the width of the target; a class of 0 and 1 is as wide as its bounds.
        is_searched = np.array(np.isinf(bounds).any(axis=1))
        part = OPEN_PART * int(is_searched.sum()) / len(names)
        if is_searched[-1]:
            part = max(part, OPEN_TARGET_PART)
        elif (bounds[-1] != [0, 1]).any():
            is_searched[-1] = True
            part += TARGET_PART
        if not part:
            return None
        return LimitSearch(
            tuple(names), bounds, is_searched, True, budget * part, budget * (1 - part)
        )

    def _read_target(self, rows: Batches, bounds: Floats) -> tuple[Integers, None]:
        """Return the target of rows, from -`TARGET_UNIT` at its lower to `TARGET_UNIT` at its upper bound."""
        (numbers,) = to_float_columns(rows.target.table)
        # The target is the last of the columns with bounds.
        positions = to_grid(numbers, *bounds[-1]) * (TARGET_UNIT / GRID)
        return np.rint(positions).astype(np.int64), None

    def _start(
        self, rows: CodedRows[None], budget: PrivacyBudget, source: ByteSource
    ) -> Start:
        """Start with the noisy mean of the target."""
        targets = rows.targets
        # A record adds 1 to the number of rows, and at most `TARGET_UNIT` to the sum.
        part = budget * PARTS.start / 2
        noise_of_rows = Noise.gaussian(part)
        noise_of_sum = Noise.gaussian(part, TARGET_UNIT**2)
        noisy_rows = to_float(*noise_of_rows.add(source, [len(targets)]))
        noisy_sum = (
            to_float(*noise_of_sum.add(source, [int(targets.sum())])) / TARGET_UNIT
        )
        error = to_float(noise_of_rows.std)
        warn_of_few_rows(noisy_rows, error)
        n_noisy_rows = max(noisy_rows, error, 1.0)
        # At a bound with many targets, residuals of exactly 0 would determine their bound.
        farthest = max(1.0 - error / n_noisy_rows, 0.0)
        mean = np.clip(noisy_sum / n_noisy_rows, -farthest, farthest)
        return Start(
            n_rows=n_noisy_rows,
            response=np.array([mean]),
            response_variance=2 * (error / n_noisy_rows) ** 2,
            residuals=NumberResiduals(2 * TARGET_UNIT),
            budget=budget,
            parts=divide_regression_budget(error / n_noisy_rows),
        )

    def _release(self, plan: Plan[CodedRows[None]], source: ByteSource) -> None:
        """Fit the functions of columns, and convert them from half widths of the target bounds to its unit."""
        super()._release(plan, source)
        low, high = self.bounds_[-1].tolist()
        # Responses are from -1 at the lower bound to 1 at the upper one.
        half_width = high / 2 - low / 2
        self.shapes_ = [half_width * values for values in self.shapes_]
        errors = [half_width * errors for errors in self.shapes_std_error_]
        self.shapes_std_error_ = errors
        self.intercept_ = float(low + half_width + half_width * self.intercept_[0])

    def predict(self, X: TableLike) -> Floats:
        """Return the expected target of rows.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows with the columns of `fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted targets, within the limits of the target.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns or invalid values.
        """
        response = self._respond(X)[:, 0]  # there is one output
        # The bounds of the target are the last.
        low, high = self.bounds_[-1]
        return np.clip(response, low, high)
