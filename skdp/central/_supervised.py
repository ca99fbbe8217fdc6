"""Base classes of supervised estimators, and the classes of a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.special import log_expit, log_softmax
from sklearn.base import is_classifier
from sklearn.utils import Tags, assert_all_finite
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import Codes, ColumnLike, ColumnName, Floats, Indices, TableLike
from skdp.base import (
    ProbabilisticClassifier,
    check_input,
    check_names,
    check_target_name,
    get_target,
    parse_ends,
    restore_on_error,
)
from skdp.central._base import CentralStatistic, FitInput
from skdp.central.statistics import (
    Batches,
    CategorySearch,
    check_types,
    count_cells,
    declared_domain,
    find_undeclared,
    split_off_column,
)
from skdp.domain import Categories, Domain, FoundCategories, Interval
from skdp.privacy import PrivacyBudget
from skdp.readers import LargeTable
from skdp.tables import ColumnError, Table, has_integer_dtype, types_of_values


class SupervisedStatistic(CentralStatistic):
    """Base class of estimators that release statistics of features and a target, which is the last column of rows."""

    _delta_is_for_noise = True
    classes: Any = None

    def _select_categories(self, rows: Batches) -> Batches:
        return rows.features

    def _read(self, X: TableLike, given: FitInput, max_rows: int) -> Batches:
        rows = super()._read(X, given, max_rows)
        return self._exclude_classes(rows, self.classes)

    def _find_target(self, rows: Batches) -> Batches:
        """Select the target if its classes are found: not for regressors, declared classes and dtypes of booleans."""
        name = rows.names[-1 - rows.is_weighted]
        target = rows.select([name])
        declared = None if self.classes is None else {name: self.classes}
        is_declared = declared is None and target.are_boolean().all()
        if not is_classifier(self) or is_declared:
            return rows.select([])
        return rows.select(find_undeclared(target.table, declared))

    def _is_encoded(self, rows: Batches) -> bool:
        """Return True for a target of integers whose declared classes are text."""
        is_text = (
            self.classes is not None and np.asarray(self.classes).dtype.kind == "U"
        )
        return is_text and has_integer_dtype(rows.table.columns[-1 - rows.is_weighted])

    def _select_undeclared(self, rows: Batches) -> Batches:
        columns = super()._select_undeclared(rows)
        return rows.select([*columns.names, *self._find_target(rows).names])

    def _make_undeclared_error(self, rows: Batches, names: Sequence[Any]) -> ValueError:
        features = super()._select_undeclared(rows).names
        if features:
            return super()._make_undeclared_error(rows, features)
        return ValueError(
            f"`classes` must declare the classes of the target {names[-1]!r}, got "
            "None. Declare them, such as `classes=[0, 1]`, or set `delta` in (0, 1), with a "
            "number as epsilon: classes of many rows are then found."
        )

    def _plan_categories(
        self, rows: Batches, budget: PrivacyBudget
    ) -> CategorySearch | None:
        """Plan the search of categories and classes that are not declared; None if all are declared."""
        target = self._find_target(rows)
        if target.names:
            _check_labels(target.table)
        is_array = isinstance(rows.table.native, np.ndarray)
        if is_array and isinstance(self.bounds, Mapping) and self._is_encoded(rows):
            raise ValueError(
                "`bounds` must be in the order of the columns, and `classes=[0, 1]`, if "
                "functions of scikit-learn, such as OneVsOneClassifier, convert X to an "
                "array and encode labels, got column names and text."
            )
        # Replacing a target changes the counts of two classes.
        n_rows = budget.rows_per_person
        n_changed = (1 + self._protects_only_target) * n_rows
        search = super()._plan_categories(
            rows, replace(budget, rows_per_person=n_changed)
        )
        if search is None:
            return None
        if self._protects_only_target:
            search = replace(search, others="count as the first class")
        return replace(
            search,
            total=replace(search.total, rows_per_person=n_rows),
            rest=replace(search.rest, rows_per_person=n_rows),
            classes=target.names,
        )

    def _add_found(
        self, rows: Batches, found: Mapping[Any, FoundCategories]
    ) -> Batches:
        rows = super()._add_found(rows, found)
        return self._exclude_classes(rows, found.get(rows.names[-1 - rows.is_weighted]))

    def _exclude_classes(self, rows: Batches, classes: object) -> Batches:
        """Exclude rows whose class was not found; public rows remain, and engines count them as a further class."""
        if not isinstance(classes, FoundCategories) or not classes.found:
            return rows
        if rows.large is not None or self._protects_only_target:
            return rows
        codes = classes.encode(rows.table.columns[-1 - rows.is_weighted])
        kept = np.flatnonzero(codes < len(classes.found))
        return replace(rows, table=rows.table.take(kept))

    @restore_on_error
    def fit(
        self,
        X: TableLike,
        y: ColumnLike | ColumnName | None = None,
        *,
        person: ColumnLike | ColumnName | None = None,
    ) -> Self:
        """Fit the model to a private table and its target.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Private features, without missing values unless these are declared. Large tables that `skdp.engines`
            supports, such as a Polars LazyFrame, are also accepted: naive Bayes and `DPTargetEncoder` read sums of
            them, and other models read their rows into memory.
        y : array-like of shape (n_samples,) or column name
            Private target, without missing values. `guarantee_` lists it under its name, or as ``"target"`` if it has
            no name or the name of a column of X. For a large table, the name of a column of X.
        person : array-like of shape (n_samples,) or column name, optional
            Person of each row: an array, or the name of a column of X, which is then not used as a feature. At most
            `max_rows_per_person` rows of each person are used, chosen at random, and the guarantee covers all rows of
            one person. A large table requires the name of a column; the rows with the smallest hashes are used.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, a declaration does not fit the columns, X is 1-D, sparse, or contains
            invalid values, or y has another number of rows, a missing value or an undeclared class; or if y or `person`
            is a series with the row labels of X in another order.
        BudgetExceeded
            If the ledger does not cover the release.

        Warns
        -----
        UserWarning
            If the noise is about as large as the number of rows, or fewer than two classes are found.
        """
        return self._fit(X, FitInput(y, person=person))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _read_features(
        self,
        X: TableLike,
        target: ColumnLike | ColumnName | None,
        large: LargeTable | None,
    ) -> Table:
        """Read the columns of X, with the target last. In a large table, `target` is its name."""
        if target is None:
            name = type(self).__name__
            raise ValueError(
                f"{name} requires y to be passed, but the target y is None."
            )
        if large is not None:
            X, target = split_off_column(X, target, "y")
        table = self._read_table(X)
        column, name = get_target(table, target)
        if self._protects_only_target:
            check_target_name(table, target)
        # `Batches.target` keeps the native table. For a large table, this is the table of
        # the target, which was split from X.
        return Table(
            (*table.names, name),
            (*table.columns, column),
            target if large is not None else table.native,
            has_dtypes=table.has_dtypes,
        )

    def _read_rows(self, X: TableLike) -> Table:
        """Read rows to predict, which must have the columns of `fit`."""
        check_is_fitted(self)
        table = check_input(self, X, reset=False)
        names = self.guarantee_.scope[: self.n_features_in_]
        if self.guarantee_.relation == "replace_values":
            # The guarantee is for the target only, and does not list the features.
            names = tuple(getattr(self, "feature_names_in_", table.names))
        check_names(self, table, names)
        return table


class LogitClassifier(ProbabilisticClassifier):
    """Base class of classifiers with one logit for two classes, otherwise with one logit per class."""

    # Returns the logits of rows; shape (n_samples, 1) or (n_samples, n_classes).
    _respond: Callable[[Any], Floats]

    def decision_function(self, X: TableLike) -> Floats:
        """Return the logits of rows.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows with the columns of `fit`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Logit of the second of two classes, or logit of each class; 0 if only one class was found.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns or invalid values.
        """
        logits = self._respond(X)
        if len(self.classes_) == 1:
            return np.zeros(len(logits))
        return logits[:, 0] if logits.shape[1] == 1 else logits

    def predict_log_proba(self, X: TableLike) -> Floats:
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows with the columns of `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log-probabilities, in the order of `classes_`.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns or invalid values.
        """
        logits = self.decision_function(X)
        if len(self.classes_) == 1:
            return logits[:, np.newaxis]
        if logits.ndim == 2:
            return log_softmax(logits, axis=1)
        return np.stack([log_expit(-logits), log_expit(logits)], axis=1)


def declare_indicators(
    bounds: object, names: Sequence[Any], *, fit_intercept: bool
) -> object:
    """Add bounds of (0, 1) for the indicators that `DPOneHotEncoder` makes of the columns of a Domain.

    All indicators of a column add up to 1, as the constant of a model: then the Domain alone determines that the
    coefficients have no unique values, which is an error before the charge.
    """
    if not isinstance(bounds, Domain):
        return bounds
    pairs = {name: bounds[name] for name in names if name in bounds}
    complete = []
    for column in bounds:
        labels = [f"{column}_{label}" for label in bounds[column].labels]
        present = [label for label in labels if label in names and label not in bounds]
        pairs |= dict.fromkeys(present, (0.0, 1.0))
        if present == labels:
            complete.append((column, labels))
    if len(complete) > (not fit_intercept):
        column, labels = complete[0]
        raise ValueError(
            f"Columns {labels} are all indicators of column {column!r}, which add up to "
            "1, so a regression has no unique coefficients. Use "
            "DPOneHotEncoder(drop='first')."
        )
    # `parse_bounds` names the columns of a Domain in its error about other columns.
    return pairs if len(pairs) == len(names) else bounds


def parse_all_ends(
    bounds: object, target_bounds: object, names: Sequence[Any]
) -> Floats:
    """Return the declared ends of features and of a target, see `parse_ends`; the target is the last of `names`."""
    *columns, target = names
    ends = parse_ends(bounds, columns)
    return np.vstack([ends, parse_target_ends(target_bounds, target)])


def parse_target_ends(target_bounds: object, name: ColumnName) -> Floats:
    """Return the declared ends of a target with the column name `name`, see `parse_ends`; shape (1, 2)."""
    declared = _declare_target(target_bounds, name)
    return parse_ends(declared, [name], parameter="target_bounds")


def _declare_target(target_bounds: object, name: ColumnName) -> Mapping[Any, Any]:
    """Return `target_bounds` as a mapping of the column name `name`, or as a Domain that declares this column."""
    if not isinstance(target_bounds, Domain):
        return {name: target_bounds}
    if name not in target_bounds:
        raise ValueError(
            f"`target_bounds` must declare the target, {name!r}, got a Domain with "
            f"{list(target_bounds)}. Rename y, or pass an Interval, such as domain[...]."
        )
    return target_bounds


def _check_labels(target: Table) -> None:
    """Check that a target whose classes are found has a dtype of classes, and no fractions in a dtype of floats."""
    check_types(target, "classes")
    labels = np.asarray(target.columns[0])
    if labels.dtype.kind == "f":
        labels = labels[~np.isnan(labels)]  # an error of the search
        assert_all_finite(labels, input_name="y")
        if (labels != np.rint(labels)).any():
            # The check of scikit-learn requires the first words.
            raise ValueError(
                "Unknown label type: y must have text, whole numbers or booleans, got "
                "numbers with fractions. Use a regressor, or convert them to classes."
            )


class Classes:
    """The classes of a target, with a domain of the target and its classes in the declared order."""

    def __init__(self, rows: Batches, classes: object) -> None:
        """Check the parameter `classes` and the target, the last column of `rows`.

        An undeclared class raises an error that does not contain it. Classes of `rows.found` are found.
        """
        target = rows.target
        (name,) = target.names
        if isinstance(classes, str):
            raise TypeError(
                "`classes` must be a list of values of the target, got str."
            )
        if classes is None and target.are_boolean().all():
            classes = [False, True]
        classes = rows.found.get(name, classes)
        if isinstance(classes, FoundCategories):
            self._set_found(target, classes)
        else:
            self._set_declared(target, classes)

    def _set_found(self, target: Batches, classes: FoundCategories) -> None:
        """Set classes that are found; rows of other classes count as the first class, unless they were excluded."""
        (name,) = target.names
        self.domain = Domain({name: classes})
        values = classes.found or classes.values
        (codes,) = self.domain.encode(target.table.columns)
        self._sort(values, np.where(codes < len(values), codes, 0))

    def _set_declared(self, target: Batches, classes: object) -> None:
        """Set classes that a parameter or a dtype declares, and check that all rows have one of them."""
        (name,) = target.names
        declared = {} if classes is None else {name: classes}
        domain = declared_domain(target.table, declared, "classes")
        domain = _number_classes(target.table, domain)
        values = domain[name].values
        if None in values:
            raise ValueError(
                "`classes` must not contain missing values. Drop the rows without a "
                "class."
            )
        if len(values) < 2:
            raise ValueError(
                f"`classes` must have at least 2 values, got {len(values)} class."
            )
        try:
            (codes,) = domain.encode(target.table.columns)
            if target.large is not None:
                cells = [(0,)]
                count_cells(
                    target, domain, cells, "error", make_error=_make_class_error
                )
        except ColumnError as error:
            text = f"{error} The values of the target are declared by `classes`."
            raise ColumnError(text) from None
        if (codes == len(values)).any():
            raise _make_class_error()
        self.domain = domain
        self._sort(values, codes)

    def _sort(self, values: Sequence[Any], codes: Codes) -> None:
        """Set the classes sorted, with their indices among the values of the domain, and the class of each row."""
        self.order: Indices = np.argsort(np.array(values))
        self.values = np.array(values)[self.order]
        # The index of the class of each row among the sorted classes; empty in an engine.
        self.codes: Codes = np.argsort(self.order).astype(codes.dtype)[codes]

    @property
    def attribute(self) -> Categories | Interval:
        """The values of the target."""
        return self.domain[self.domain.columns[0]]

    @property
    def n_fitted(self) -> int:
        """The number of classes of a model: two if only one is found, the second of which has no rows."""
        return max(len(self.values), 2)


def _number_classes(target: Table, domain: Domain) -> Domain:
    """Return the domain of a target of integers, by which scikit-learn encodes two declared classes of text."""
    (name,), (column,) = target.names, target.columns
    values = domain[name].values
    if types_of_values(values) != {"string"} or not has_integer_dtype(column):
        return domain
    if len(values) != 2:
        raise ValueError(
            f"`classes` must be numbers if y has integers, got text. Functions of scikit-learn encode "
            f"labels as integers. Set `classes={list(range(len(values)))}`, or "
            "`classes=[0, 1]` for one class against another or against all others."
        )
    return Domain({name: [0, 1]})


def _make_class_error(*_: object) -> ValueError:
    """Return the error for an undeclared class, which does not contain the class."""
    return ValueError(
        "y must not have missing values or values that `classes` does not declare. "
        "Declare all classes that can occur, in the same spelling and case, and drop the "
        "rows without a class."
    )
