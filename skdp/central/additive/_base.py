"""Base class of additive models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import Floats, Mask
from skdp.base import Bounds, ColumnName, check_declared, parse_bounds
from skdp.central._base import Plan, Unknown, check_declared_columns
from skdp.central._sums import read_values, warn_of_objects
from skdp.central._supervised import SupervisedStatistic
from skdp.central.additive._backfitting import (
    MAX_EPOCHS,
    MIN_EPOCHS,
    ColumnFunction,
    Start,
    backfit,
)
from skdp.central.additive._smoothing import (
    MIN_BINS,
    choose_sizes,
    cut_finely,
    merge_to_bins,
)
from skdp.central.statistics import (
    Batches,
    Noise,
    declared_domain,
    encode_declared,
    select_columns,
    to_float,
    warn_user,
)
from skdp.domain import (
    Categories,
    Domain,
    DomainLike,
    Interval,
    copy_guarantee,
    domains_of_dtypes,
)
from skdp.privacy import PrivacyBudget
from skdp.randomness import ByteSource
from skdp.tables import Table, name_of_dtype, type_of_column

# Fractions of the budget for the first measurement of the target, and for the counts of
# cells from which bins are made. Half or twice of them changes R2 by less than 0.01, except
# that half of the latter decreases it by 0.03 on one table (benchmarks/central_models.py).
START_FRACTION, BINS_FRACTION = Fraction(1, 100), Fraction(3, 20)


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


class AdditiveModel(SupervisedStatistic):
    """Base class of models whose response is a constant plus a function of each column."""

    bounds: Bounds | None
    categories: DomainLike | None
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

    @abstractmethod
    def _read_target(self, rows: Batches, bounds: Floats) -> tuple[NDArray[Any], Any]:
        """Return the integer target of each row, and the classes or bounds of the target."""

    @abstractmethod
    def _start(
        self,
        targets: NDArray[Any],
        target: Any,
        budget: PrivacyBudget,
        source: ByteSource,
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
        declared: Any = self.categories
        if declared is None:
            declared = ()
        elif not isinstance(declared, Mapping):
            declared = features.names
        declared = [name for name in features.names if name in (*declared, *by_dtype)]
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

    def _select_bounded(self, rows: Batches) -> Batches:
        return rows.select(self._list_numbers(rows))

    def _plan(self, rows: Batches, budget: PrivacyBudget, bounds: Any) -> Plan:
        """Encode the columns by declared values, or by many narrow cells between bounds, and read the target.

        `bounds` are the bounds of columns of numbers and, in regression, of the target. `_release` merges the cells
        into bins.
        """
        features = self._select_features(rows).table
        numbers = self._list_numbers(rows)
        declared_names = [name for name in features.names if name not in numbers]
        bounded = self._select_bounded(rows).names
        _check_numbers(select_columns(features, numbers))
        warn_of_objects(select_columns(features, numbers))
        bounds = parse_bounds(bounds, bounded) if bounded else np.zeros((0, 2))
        attributes: dict[Any, Any] = {}
        for name, (low, high) in zip(numbers, bounds.tolist(), strict=False):
            attributes[name] = cut_finely(low, high)
        if declared_names:
            table = select_columns(features, declared_names)
            declared = declared_domain(table, self.categories, "categories")
            for name in declared_names:
                attributes[name] = declared[name]
                n_values = len(declared[name])
                # Smoothing uses matrices of pairs of values, of at most 134 MB each.
                if n_values > 4096:
                    raise ValueError(
                        f"Column {name!r} must have at most 4,096 declared values, got "
                        f"{n_values:,}. Merge rare values."
                    )
        domain = Domain({name: attributes[name] for name in features.names})
        targets, target = self._read_target(rows, bounds)
        codes = encode_by_bins(features, domain, self.handle_unknown)
        exact = domain, codes, numbers, budget.of_a_row, targets, target
        return Plan.from_gaussian(exact, budget, "noisy sums by bin")

    def _release(self, plan: Plan, source: ByteSource) -> None:
        """Merge cells into bins by noisy counts, fit a function of the bins of each column, and set attributes."""
        domain, codes, numbers, budget, targets, target = plan.exact
        start = self._start(targets, target, budget, source)
        counts = []
        for column_codes, size in zip(codes, domain.sizes, strict=True):
            counts.append(np.bincount(column_codes, minlength=size + 1)[:size])
        # A record is in one cell of each column, so it changes the counts by the root of the
        # number of columns in L2 norm.
        noise = Noise.gaussian(budget.mu_squared * BINS_FRACTION, len(domain.columns))
        sizes = choose_sizes(start.n_rows, to_float(noise.std))
        bins = merge_to_bins(domain, numbers, counts, sizes, noise, source)
        start = start._replace(mu_squared=start.mu_squared - noise.amount)
        binned = []
        for column_codes, column in zip(codes, bins, strict=True):
            binned.append(column.bins_of_cells.astype(np.int16)[column_codes])
        self.n_iter_ = MAX_EPOCHS if sizes[0] > MIN_BINS else MIN_EPOCHS
        self.intercept_, functions = backfit(
            binned, targets, bins, start, self.n_iter_, source
        )
        _warn_of_noise(functions)
        attributes = [column.attribute for column in bins]
        found = Domain(dict(zip(domain.columns, attributes, strict=True)))
        # The bins of numbers have the bounds that a release found.
        self.domain_ = copy_guarantee(found, self.categories, self.bounds)
        values = [function.values - function.mean for function in functions]
        errors = [function.std_errors_with_mean() for function in functions]
        if len(self.intercept_) == 1:
            # One output: the logit of the second class, or the expected target.
            values = [column[..., 0] for column in values]
            errors = [column[..., 0] for column in errors]
        self.shapes_, self.shapes_std_error_ = values, errors
        self.bin_counts_ = [column.sizes for column in bins]
        self.bin_supported_ = [
            column.counts > 3 * np.sqrt(column.variances) for column in bins
        ]

    @property
    def _columns(self) -> tuple[Any, ...]:
        """Names of the columns of X seen during `fit`."""
        return self.domain_.columns[: self.n_features_in_]

    def _respond(self, X: Any) -> Floats:
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
        return self.bounds is not None or super()._allows_missing()


def _warn_of_noise(functions: Sequence[ColumnFunction]) -> None:
    """Warn if the likelihood of the functions does not exceed the one of a constant by more than their variances do."""
    # Each column has one estimated variance (H. Akaike, 1974).
    if sum(function.evidence for function in functions) < len(functions):
        warn_user(
            "The noise exceeds the effects of the columns, so the model may predict "
            "worse than a constant. Use more rows, fewer columns or a larger epsilon",
            "answers/which_epsilon",
        )


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
