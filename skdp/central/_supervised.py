"""Base classes of supervised estimators, and the classes of a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import log_expit, log_softmax
from sklearn.utils import Tags, assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import Codes, ColumnLike, ColumnName, Floats, Indices, TableLike
from skdp.base import (
    ProbabilisticClassifier,
    check_input,
    check_names,
    check_target_name,
    get_target,
    make_domain,
    parse_ends,
    restore_on_error,
)
from skdp.central._base import CentralStatistic, FitInput
from skdp.central.statistics import (
    Batches,
    count_cells,
    split_off_column,
)
from skdp.domain import Domain
from skdp.readers import LargeTable
from skdp.tables import ColumnError, Table, call_safely


class SupervisedStatistic(CentralStatistic):
    """Base class of estimators that release statistics of features and a target, which is the last column of rows."""

    _delta_is_for_noise = True

    def _select_categories(self, rows: Batches) -> Batches:
        return rows.features

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
        PrivacyLeakWarning
            If classes are read from the target.
        UserWarning
            If the noise is about as large as the number of rows.
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
            Logit of the second of two classes, or logit of each class.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns or invalid values.
        """
        logits = self._respond(X)
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


def _check_target(labels: NDArray[Any]) -> None:
    """Check a target whose classes are inferred like scikit-learn, but without values in errors."""
    if pd.isna(labels).any():
        raise ValueError(
            "y must not have missing labels (NaN or None). Drop the rows without a "
            "label."
        )
    if labels.dtype != object:
        return _check_labels(labels)
    try:
        call_safely(_check_labels, labels)
    except ColumnError as error:
        raise ValueError(
            f"Unknown label type: y {error}. Declare its classes."
        ) from None


def _check_labels(labels: NDArray[Any]) -> None:
    """Check labels with the functions of scikit-learn."""
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)


class Classes:
    """The classes of a target, with a domain of the target and its classes in the declared order."""

    def __init__(self, rows: Batches, classes: object) -> None:
        """Check the parameter `classes`, or infer classes from the target with a warning, and check the target.

        The target is the last column of `rows`. An undeclared class raises an error that does not contain it.
        """
        target = rows.target
        (name,) = target.names
        if isinstance(classes, str):
            raise TypeError(
                "`classes` must be a list of values of the target, got str."
            )
        reason = ""
        if classes is None and target.are_boolean().all():
            classes = [False, True]
        if target.large is not None:
            reason = "they are not inferred from a large table. Set `classes`"
        elif classes is None:
            labels = pd.Series(np.asarray(target.table.columns[0]))
            _check_target(labels.infer_objects().to_numpy())
        declared = "auto" if classes is None else {name: classes}
        domain = make_domain(
            target.table, declared, name="classes", why_declared=reason
        )
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
        # The classes in the declared order, and sorted, with their indices among the former.
        self.domain, self.attribute = domain, domain[name]
        self.order: Indices = np.argsort(np.array(values))
        self.values = np.array(values)[self.order]
        # The index of the class of each row among the sorted classes; empty in an engine.
        self.codes: Codes = np.argsort(self.order).astype(codes.dtype)[codes]


def _make_class_error(*_: object) -> ValueError:
    """Return the error for an undeclared class, which does not contain the class."""
    return ValueError(
        "y must not have missing values or values that `classes` does not declare. "
        "Declare all classes that can occur, in the same spelling and case, and drop the "
        "rows without a class."
    )
