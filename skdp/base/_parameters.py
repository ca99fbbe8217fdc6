"""Types, checks and mixins of estimators, and declared bounds."""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import (
    Callable,
    Hashable,
    Mapping,
    Sequence,
)
from contextlib import suppress
from fractions import Fraction
from functools import wraps
from html import escape
from numbers import Integral, Real
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from skdp._arrays import ColumnLike, ColumnName, Floats, TableLike
from skdp.base._input import check_same_order
from skdp.domain import MAX_OPEN_END, Categories, Domain, Interval
from skdp.privacy import BudgetExceeded, PrivacyLedger, privacy_statement
from skdp.randomness import check_type
from skdp.tables import drop_missing, is_whole_number

# Bounds: (low, high) for all columns, an array of shape (n_features, 2), a pair by
# column name, or the intervals of a domain.
Bounds: TypeAlias = ArrayLike | Mapping[Any, tuple[float, float]] | Domain

FitMethod = TypeVar("FitMethod", bound=Callable[..., Any])


class PrivateEstimator(BaseEstimator):
    """Base class of estimators whose display in a notebook begins with their guarantee, or before `fit` with a plan."""

    def _repr_mimebundle_(self, **options: object) -> dict[str, str]:
        bundle = dict(super()._repr_mimebundle_(**options))
        with suppress(TypeError, ValueError):  # invalid parameters
            headline = privacy_statement(self).to_dict()["headline"]
            method = getattr(vars(self).get("guarantee_"), "method", ())
            if kept := dict(method).get("kept"):
                headline = f"{headline}\n{kept}"
            for kind, text in bundle.items():
                line = f"<p>{escape(headline)}</p>" if kind == "text/html" else headline
                bundle[kind] = f"{line}\n{text}"
        return bundle


def restore_on_error(fit: FitMethod) -> FitMethod:
    """Decorate a method of an estimator to restore all attributes if it raises an error."""
    # **Privacy.** After an error or interrupt between two assignments, statistics would
    # have the guarantee of an earlier fit. Charges remain.

    expected = inspect.signature(fit)

    @wraps(fit)
    def fit_or_restore(self: object, *args: object, **kwargs: object) -> Any:
        try:
            expected.bind(self, *args, **kwargs)
        except TypeError as error:
            # Python would name the class that defines `fit`, not the estimator.
            names = ", ".join([*expected.parameters][1:])
            raise TypeError(
                f"{type(self).__name__}.{fit.__name__} accepts {names}: {error}."
            ) from None
        attributes = dict(vars(self))
        try:
            return fit(self, *args, **kwargs)
        except BudgetExceeded as error:
            self.__dict__ = attributes
            # Parameter searches print the traceback of each failed fit.
            raise error.with_traceback(None) from None
        except BaseException:
            self.__dict__ = attributes  # a single assignment cannot be interrupted
            raise

    return cast(FitMethod, fit_or_restore)


def check_probability(value: object, name: str) -> Fraction:
    """Check the probability of a quantile, and round it to a fraction with a denominator of at most 1,000,000."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(
            f"`{name}` must be a number in (0, 1), got {type(value).__name__}."
        )
    number = float(value)
    exact = Fraction(0)
    if 0 < number < 1:
        exact = Fraction(number).limit_denominator(1_000_000)
    if not 0 < exact < 1:
        raise ValueError(
            f"`{name}` must be in [1e-6, 1 - 1e-6], got {value}. Divide a percentile by "
            "100: the median is 0.5."
        )
    return exact


def check_confidence_level(level: float) -> float:
    """Check a confidence level and return it as a float."""
    is_number = isinstance(level, Real) and not isinstance(level, bool)
    if not is_number or not 0 < level < 1:
        raise ValueError(f"`confidence_level` must be in (0, 1), got {level!r}.")
    return float(level)


def check_ledger(ledger: object) -> None:
    """Check the ``ledger`` of an estimator."""
    check_type(
        "ledger",
        ledger,
        PrivacyLedger | None,
        "None or a PrivacyLedger, such as PrivacyLedger(1.0)",
    )


def check_random_state(value: Any) -> None:
    """Check the ``random_state`` of an estimator: None, an int of at least 0, or a RandomState of NumPy."""
    if value is None or isinstance(value, np.random.RandomState):
        return
    if not is_whole_number(value):
        raise TypeError(
            "`random_state` must be None (secure), or an int or a RandomState instance "
            f"(for experiments), got {type(value).__name__}."
        )
    if value < 0:
        raise ValueError(f"`random_state` must be None or an int >= 0, got {value}.")


def check_column_name(parameter: str, value: object) -> None:
    """Raise an error if a value, such as a series, cannot be the name of a column."""
    check_type(parameter, value, Hashable, "the name of a column")


def check_flag(name: str, value: object) -> None:
    """Check that a parameter is a boolean."""
    check_type(name, value, bool | np.bool_, "True or False")


class OrderedScore:
    """Mixin that checks the order of rows in `score`, before the mixin of scikit-learn."""

    def score(
        self, X: TableLike, y: ColumnLike, sample_weight: ColumnLike | None = None
    ) -> float:
        """Return the accuracy of predicted classes, or R2 of predicted numbers.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows with the columns of `fit`.
        y : array-like of shape (n_samples,)
            True targets.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row.

        Returns
        -------
        float
            The accuracy, or R2. It is computed from the true targets, without noise.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            As in `predict`, or if y or `sample_weight` is a series with the row labels of X in another order.
        """
        check_same_order(X, y, "y")
        check_same_order(X, sample_weight, "sample_weight")
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]


class ProbabilisticClassifier(OrderedScore, ClassifierMixin):
    """Classifier with `predict_proba` and `predict` from `predict_log_proba`."""

    classes_: Any

    @abstractmethod
    def predict_log_proba(self, X: TableLike) -> Floats:
        """Compute the logarithms of the probabilities of the classes."""

    def predict_proba(self, X: TableLike) -> Floats:
        """Compute the probabilities of the classes.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            See `predict_log_proba`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            See `predict_log_proba`.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: TableLike) -> NDArray[Any]:
        """Predict the class of each row.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            See `predict_log_proba`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Most probable classes.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            See `predict_log_proba`.
        """
        likeliest = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[likeliest]


def parse_bounds(
    bounds: object, names: Sequence[Any], *, parameter: str = "bounds"
) -> Floats:
    """Return the bounds of the columns in `names` as an array of shape (n_columns, 2).

    See `Bounds` for the accepted forms. `parameter` is for error messages.
    """
    if bounds is None:
        raise ValueError(
            "`bounds` must be (low, high), {column: (low, high)} or a Domain, got None. "
            "Use a Domain from public knowledge, or from `discover_domain`."
        )
    pairs = []
    for name, pair in zip(names, _list_bounds(bounds, names, parameter), strict=True):
        pairs.append(_check_pair(pair, f"`{parameter}` of column {name!r}"))
    return np.array(pairs)


def parse_ends(
    bounds: object, names: Sequence[Any], *, parameter: str = "bounds"
) -> Floats:
    """Return the declared ends of columns, of shape (n_columns, 2): -inf and inf for ends that are to be found.

    `bounds` is None if no end is declared; otherwise it has a form of `Bounds`, with None for an open end.
    """
    ends = np.tile([-math.inf, math.inf], (len(names), 1))
    if bounds is None:
        return ends
    hint = ". None as the bounds of a column finds its limits"
    pairs = _list_bounds(bounds, names, parameter, hint)
    for index, (name, pair) in enumerate(zip(names, pairs, strict=True)):
        ends[index] = _check_ends(pair, f"`{parameter}` of column {name!r}")
    return ends


def _check_ends(pair: object, what: str) -> tuple[float, float]:
    """Check a pair of bounds, of which None and infinite ones are open, and return it as floats."""
    numbers = [None, None] if pair is None else _to_list(pair)
    if numbers is None or len(numbers) != 2:
        return _check_pair(pair, what)
    ends = [-math.inf, math.inf]
    declared = [
        (side, end)
        for side, end in enumerate(numbers)
        if end is not None and not (isinstance(end, float) and end == ends[side])
    ]
    if len(declared) == 2:
        return _check_pair(pair, what)
    for side, end in declared:
        _check_number(end, f"{what} must be two numbers, or None for an open end")
        if not abs(end) <= MAX_OPEN_END:
            raise ValueError(
                f"{what} must have a finite end of at most {MAX_OPEN_END:.0e} beside an "
                f"open one, got {end!r:.40}."
            )
        ends[side] = float(end)
    return ends[0], ends[1]


def check_declared(
    declared: Mapping[Any, Any], names: Sequence[Any], parameter: str, hint: str = ""
) -> None:
    """Check that the keys of a mapping are the names of the columns of X.

    `parameter` is the name of the mapping, and `hint` the end of the message about
    missing columns.
    """
    # An array gets the names x0, x1, ...
    remedy = ""
    if "x0" in names:
        remedy = (
            ". An array has no column names: pass a DataFrame, or if an earlier step "
            "returns an array, call `set_output(transform='pandas')` of the pipeline"
        )
    unknown = [name for name in declared if name not in names]
    if unknown:
        raise ValueError(
            f"The keys of `{parameter}` must be columns of X, {list(names)}, got "
            f"{unknown}{remedy}."
        )
    other = "exclude these columns from X"
    if parameter == "keys":
        other = "find them with `keys='auto'` and a `delta`"
    absent = [name for name in names if name not in declared]
    if absent:
        if all("__" in str(name) for name in absent):
            remedy += (
                ". A ColumnTransformer prefixes names unless it has "
                "verbose_feature_names_out=False"
            )
        raise ValueError(
            f"`{parameter}` declares no values for the columns {absent}. Declare them "
            f"from public knowledge, or {other}{hint}{remedy}."
        )


def _list_bounds(
    bounds: object, names: Sequence[Any], parameter: str = "bounds", hint: str = ""
) -> list[Any]:
    """Return the unchecked bounds (low, high) of each column in `names`, from any form of the parameter."""
    if isinstance(bounds, Domain):
        hint = f". The Domain declares {list(bounds)}"
        # A Domain may have more columns than the table.
        bounds = {name: bounds[name] for name in names if name in bounds}
    if isinstance(bounds, Mapping):
        check_declared(bounds, names, parameter, hint)
        return [find_bounds(bounds[name], name, parameter) for name in names]
    rows = _to_list(bounds)
    if rows is None:
        raise TypeError(
            "`bounds` must be (low, high), a mapping, a Domain or an array of shape "
            f"(n_features, 2), got {type(bounds).__name__}."
        )
    if len(rows) == 2 and all(_to_list(row) is None for row in rows):
        return [rows] * len(names)
    if len(rows) != len(names):
        raise ValueError(
            f"`bounds` must have a row (low, high) for each of the {len(names)} columns "
            f"of X, got {len(rows)} rows. For arrays of low and high bounds, use "
            "numpy.column_stack((low, high))."
        )
    return rows


def find_bounds(declared: object, name: ColumnName, parameter: str = "bounds") -> Any:
    """Return the bounds of the Interval or listed numbers of the column `name`, or `declared` itself, a pair."""
    if not isinstance(declared, Interval | Categories):
        return declared
    if isinstance(declared, Categories):
        listed = drop_missing(declared.values)
        if all(isinstance(value, Real) for value in listed) and len(listed) > 1:
            return min(listed), max(listed)
    if isinstance(declared, Categories) or declared.dtype.kind != "f":
        remedy = " Exclude the column." if parameter == "bounds" else ""
        got = "dates" if isinstance(declared, Interval) else "listed values"
        raise ValueError(
            f"`{parameter}` of column {name!r} must be a range of numbers, got {got}."
            f"{remedy}"
        )
    return declared.ends


def find_decimals(bounds: Any, names: Sequence[Any]) -> list[int | None]:
    """Return the largest number of decimals that `bounds` declares for each column: 0 for integers, None for floats.

    A column with an open end may have any number of decimals.
    """
    if bounds is None:
        return [None] * len(names)
    is_named = isinstance(bounds, Mapping | Domain)
    decimals: list[int | None] = []
    for name, pair in zip(names, _list_bounds(bounds, names), strict=True):
        declared = bounds[name] if is_named else pair
        if isinstance(declared, Interval):
            decimals.append(None if declared.is_open else declared.decimals)
            continue
        numbers = [None] if pair is None else pair
        if isinstance(declared, Categories):
            numbers = drop_missing(declared.values)
        is_whole = all(isinstance(number, Integral) for number in numbers)
        decimals.append(0 if is_whole else None)
    return decimals


def list_names(names: object) -> list[Any] | None:
    """Return column names in a sequence as a list; None for a single name or a matrix."""
    is_matrix = isinstance(names, np.ndarray) and names.ndim != 1
    return None if is_matrix else _to_list(names)


def _to_list(value: Any) -> list[Any] | None:
    """Convert a sequence, array or pandas index to a list; None for a scalar."""
    if isinstance(value, pd.Index):
        return value.tolist()
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim else None
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return list(value) if is_list else None


def _check_pair(pair: object, what: str) -> tuple[float, float]:
    """Check a pair of bounds and return it as floats; `what` is the subject of errors."""
    numbers = _to_list(pair)
    if numbers is None or len(numbers) != 2:
        raise ValueError(
            f"{what} must be a pair (low, high), got {type(pair).__name__}."
        )
    for number in numbers:
        remedy = ""
        if number is None:
            remedy = " Declare both ends, low and high: this step does not find them."
        _check_number(number, f"{what} must be two numbers", remedy)
    try:
        low, high = map(float, numbers)
        is_usable = math.isfinite(high - low) and has_float_resolution(low, high)
    except OverflowError:  # an int above the largest float
        is_usable = False
    if not is_usable:
        raise ValueError(
            f"{what} must be finite with low < high, and a width that floats resolve, "
            f"got ({numbers[0]!r:.40}, {numbers[1]!r:.40})."
        )
    return low, high


def _check_number(number: object, expected: str, remedy: str = "") -> None:
    """Check that a bound is a number; `expected` begins the error, and `remedy` ends it."""
    if isinstance(number, bool) or not isinstance(number, Real):
        got = "None" if number is None else type(number).__name__
        raise TypeError(f"{expected}, got {got}.{remedy}")


def has_float_resolution(low: float, high: float) -> bool:
    """Check if floats between two bounds are dense enough for the grids of statistics."""
    # Grids have up to 65,536 points. At this width, relative to the larger bound, a step
    # of 1.5e-14 is 69 times the distance of floats.
    min_width = 1e-9
    return high - low >= max(min_width * max(abs(low), abs(high)), 1e-300)
