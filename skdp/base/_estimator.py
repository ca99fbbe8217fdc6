"""What all estimators share: parameters, input tables, bounds, declared domains, and the randomness of a call."""

from __future__ import annotations

import itertools
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from inspect import signature
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, Union, cast

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrame, IntoSeries
from numpy.lib.stride_tricks import as_strided
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data
from threadpoolctl import ThreadpoolController

from skdp import pages
from skdp.base._warnings import warn_once
from skdp.domain import (
    MAX_SHOWN_VALUES,
    Categories,
    Domain,
    Interval,
    copy_guarantee,
    domains_of_dtypes,
    edge_text,
)
from skdp.privacy import BudgetExceeded, PrivacyLeakWarning, PrivacyLedger
from skdp.randomness import ByteSource, SecureSource, SeededSource
from skdp.tables import (
    ColumnError,
    Table,
    convert_frame,
    distinct_values,
    is_frame,
    is_missing,
    is_whole_number,
    lazy_error,
    objects_of,
    plain,
    read_table,
    to_numbers,
)

if TYPE_CHECKING:  # an optional dependency
    from matplotlib.axes import Axes

# A table: a pandas, Polars or Arrow frame, or an array of shape (n_samples,
# n_features).
TableLike: TypeAlias = IntoDataFrame | ArrayLike

# A column: a series of any library, or an array of shape (n_samples,).
ColumnLike: TypeAlias = IntoSeries | ArrayLike

# The name of a column; in an array, its number.
ColumnName: TypeAlias = Hashable

# A pair (low, high) for all columns, an array of shape (n_features, 2), a pair by column
# name, or the intervals of a domain.
Bounds: TypeAlias = ArrayLike | Mapping[Any, tuple[float, float]] | Domain

# The path of a file or folder.
PathType: TypeAlias = str | PathLike[str]

# How a local transformer divides epsilon over the columns.
ReportStrategy: TypeAlias = Literal["split", "joint", "sample"]

# What stands for an undeclared value: an error, a uniform draw, or a declared value.
HandleUnknown: TypeAlias = Hashable | Literal["error", "uniform"]

Label: TypeAlias = Hashable
"""A label of a target: text, a number or a bool."""

# The values that make a row privileged: one, several, or those of each column by name.
# Of several columns, a value is a tuple.
Privileged: TypeAlias = (
    Hashable | Sequence[Hashable] | Mapping[Any, Hashable | Sequence[Hashable]]
)

AxesLike: TypeAlias = Union["Axes", Sequence["Axes"], NDArray[np.object_]]
"""Matplotlib axes to draw on: one, or one for each panel."""


Fit = TypeVar("Fit", bound=Callable[..., Any])


def all_or_nothing(fit: Fit) -> Fit:
    """Decorate a method so that it restores the attributes of the estimator when it fails."""
    # Statistics and their guarantee belong together, also if an error or an interrupt
    # stops a second fit between setting one and the other. Charges remain, and random
    # bits that were drawn are not drawn again.
    names = [name for name in signature(fit).parameters if name != "self"]

    @wraps(fit)
    def fit_or_restore(self: Any, *args: Any, **kwargs: Any) -> Any:
        _check_keywords(self, fit.__name__, kwargs, names)
        attributes = dict(vars(self))
        try:
            return fit(self, *args, **kwargs)
        except BudgetExceeded as refusal:
            # A search prints the traceback of each fit: that of the code in between
            # says nothing more.
            self.__dict__ = attributes
            raise refusal.with_traceback(None) from None
        except BaseException:
            self.__dict__ = attributes  # one assignment, which no interrupt can split
            raise

    return cast(Fit, fit_or_restore)


def _check_keywords(
    estimator: Any, method: str, keywords: Iterable[str], names: Sequence[str]
) -> None:
    """Refuse arguments that a method does not take; Python would name the class that defines it."""
    for keyword in keywords:
        if keyword in names:
            continue
        name = type(estimator).__name__
        text = f"{name}.{method} takes {', '.join(names)}, and no {keyword}"
        if keyword in estimator.get_params(deep=False):
            text += f": it is a parameter of {name}"
        raise TypeError(text)


def check_confidence_level(level: Any) -> float:
    """Check a confidence level."""
    is_number = isinstance(level, Real) and not isinstance(level, bool)
    if not is_number or not 0 < float(level) < 1:
        raise ValueError(
            f"confidence_level must be a number between 0 and 1, got {level!r}"
        )
    return float(level)


def check_ledger(ledger: Any) -> None:
    """Check the ``ledger`` of an estimator."""
    if ledger is not None and not isinstance(ledger, PrivacyLedger):
        raise TypeError(
            f"ledger must be None or a PrivacyLedger, got {type(ledger).__name__}"
        )


def check_random_state(value: Any) -> None:
    """Check the ``random_state`` of an estimator."""
    if value is None or isinstance(value, np.random.RandomState):
        return
    if not is_whole_number(value):
        raise TypeError(
            "random_state must be None (secure), or an int or a RandomState instance "
            f"(for experiments), got {type(value).__name__}"
        )
    if value < 0:
        raise ValueError(f"random_state must be None or an int >= 0, got {value}")


def draw_seed(random_state: Any) -> int | None:
    """Return the seed of a call: None if it is secure, a new one from a RandomState instance."""
    check_random_state(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return None if random_state is None else int(random_state)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}")


def check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}")


class CallCounter:
    """The number of calls since `fit`; restarts in a copy or a pickle, so that a seeded stream replays."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def advance(self) -> int:
        """Return the number of this call, and count it."""
        return next(self._numbers)

    def __reduce__(self) -> tuple[type[CallCounter], tuple[()]]:
        return CallCounter, ()


def coins(random_state: int | np.random.RandomState | None, *key: Any) -> ByteSource:
    """Return the source of random bits for one column of one call."""
    seed = draw_seed(random_state)
    if seed is None:
        return SecureSource()
    texts = [repr(plain(part)) for part in key]
    return SeededSource(seed, *texts)


@dataclass(frozen=True)
class CallRandomness:
    """The randomness of one call: for each purpose and columns a source of its own."""

    seed: int | None = field(repr=False)
    owner: str
    call: int
    where: tuple[Any, ...] = ()

    def __call__(self, purpose: str, *columns: Any) -> ByteSource:
        return coins(self.seed, self.owner, self.call, *self.where, purpose, *columns)

    @property
    def name(self) -> str | None:
        """What distinguishes the call from others of a seeded estimator, without the seed; None if it is secure."""
        return None if self.seed is None else f"{self.owner}, call {self.call}"

    def part(self, *where: Any) -> CallRandomness:
        """Return the randomness of a part of the call."""
        return replace(self, where=(*self.where, *where))


@cache
def _blas() -> ThreadpoolController:
    """Find the libraries that multiply matrices, which takes milliseconds."""
    return ThreadpoolController()


def one_thread(alone: bool = True) -> AbstractContextManager[Any]:
    """Multiply matrices by one thread: where they are small, several wait for each other busily."""
    # The limit is one of the process: two threads, of which the first ends first, would
    # leave it behind.
    is_main = threading.current_thread() is threading.main_thread()
    limit = 1 if alone and is_main else None
    manager: AbstractContextManager[Any] = _blas().limit(limits=limit, user_api="blas")
    return manager


class OnSite:
    """Mixin of estimators with a page of the API, named ``skdp.`` and the name of the class."""

    @property
    def _doc_link_module(self) -> str:
        # scikit-learn shows no link for classes of another package than this one.
        return "" if pages.SITE is None else "skdp"

    @property
    def _doc_link_template(self) -> str:
        return pages.address("api/generated/skdp.{estimator_name}")


class SavedByArguments(ABC):
    """What is no estimator and is saved by the arguments that make it again."""

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return the arguments, by name."""


class ProbabilisticClassifier(ClassifierMixin):
    """A classifier whose `predict_proba` and `predict` follow from its `predict_log_proba`."""

    classes_: Any

    @abstractmethod
    def predict_log_proba(self, X: TableLike) -> NDArray[np.float64]:
        """Return the logarithms of the probabilities of the classes."""

    def predict_proba(self, X: TableLike) -> NDArray[np.float64]:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            As of `predict_log_proba`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of `classes_`; each row adds up to 1.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            As of `predict_log_proba`.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: TableLike) -> NDArray[Any]:
        """Return the likeliest class of rows.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            As of `predict_log_proba`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Classes.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            As of `predict_log_proba`.
        """
        likeliest = self.predict_log_proba(X).argmax(axis=1)
        classes: NDArray[Any] = self.classes_[likeliest]
        return classes


def read_input(
    estimator: BaseEstimator, X: Any, *, reset: bool, least: int = 1
) -> Table:
    """Check the shape and the column names of an input as scikit-learn does, without looking at a value."""
    if is_frame(X):
        n_rows, n_columns = X.shape
        if n_columns == 0:
            raise ValueError(
                "Found a table with 0 feature(s) (columns); at least 1 is required"
            )
        if n_rows < least:
            raise ValueError(
                f"Found a table with {n_rows} sample(s) (rows); "
                f"at least {least} is required"
            )
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return read_table(X)
    _refuse_masked(X)
    if type(X).__module__.startswith("pyarrow"):
        if hasattr(X, "to_table"):  # a Dataset
            raise lazy_error(X)
        raise TypeError(
            f"pyarrow's {type(X).__name__} is not supported; make a pyarrow.Table of it"
        )
    if hasattr(X, "protected_attribute_names"):
        raise TypeError(
            f"aif360's {type(X).__name__} is not read here: "
            "skdp.metrics.from_aif360(dataset).data is its table, and .domain declares "
            "its values"
        )
    has_dtypes = hasattr(X, "__array__")
    if not issparse(X):
        array = _read_rows(X)
        if isinstance(X, np.ndarray) or not has_dtypes:
            X = array
    array = validate_data(
        estimator,
        X,
        reset=reset,
        dtype=None,
        ensure_all_finite=False,
        ensure_min_samples=least,
    )
    return replace(read_table(array), has_dtypes=has_dtypes)


def _refuse_masked(values: Any) -> None:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            "masked arrays are not supported, as their masked values would be "
            "released; fill them first"
        )


def _read_rows(X: Any) -> NDArray[Any]:
    """Convert an array-like of rows; the messages of scikit-learn for these errors print the data."""
    array = read_array(X, "X")
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: "
            "X.reshape(-1, 1) for a single column, X.reshape(1, -1) for a single row, "
            "or X[['column']] of a dataframe"
        )
    return array


def read_array(values: Any, name: str) -> NDArray[Any]:
    """Convert an array-like to an array, of objects for a list that mixes text with other values."""
    is_list = not hasattr(values, "__array__")
    for dtype in (None, object):
        try:
            array = np.asarray(values, dtype)
        except Exception:
            continue
        if dtype is object or not is_list or array.dtype.kind not in "USV":
            return array
    raise ValueError(
        f"{name} cannot be read as an array: expected rows of single values, all of "
        "one length"
    )


def check_names(
    estimator: BaseEstimator, table: Table, fitted: tuple[Any, ...]
) -> None:
    """Check that a table has the columns of `fit`."""
    # scikit-learn compares names only if all of them are strings.
    is_array = isinstance(table.native, np.ndarray)
    is_compared = hasattr(estimator, "feature_names_in_") and not is_array
    are_strings = all(isinstance(name, str) for name in fitted)
    if (is_compared or not are_strings) and table.names != fitted:
        raise ValueError(
            f"X has the columns {list(table.names)}; fit saw {list(fitted)}"
        )


def apply_set_output(estimator: Any, released: Any) -> Any:
    """Convert the output of a transformer to the kind of frame set by `set_output`."""
    config = getattr(estimator, "_sklearn_output_config", {})
    output = config.get("transform", get_config()["transform_output"])
    return convert_frame(released, output)


# What a target without a name is called.
TARGET = "target"


def one_column(values: Any, what: str) -> Table:
    """Read a series, a dataframe of one column or an array-like of shape (n,) or (n, 1) as a table of one column."""
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return read_table(series.to_frame().to_native())
    if is_frame(values):
        table = read_table(values)
        if len(table.names) != 1:
            raise ValueError(f"{what} must be one column, got {len(table.names)}")
        return table
    _refuse_masked(values)
    array = read_array(values, what)
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[1] != 1:
        raise ValueError(
            f"{what} must be one column, got an array of {array.ndim} dimensions"
        )
    return read_table(array)


def target_column(y: Any) -> tuple[Any, Any]:
    """Return the target as a column, and its name."""
    if isinstance(nw.from_native(y, series_only=True, pass_through=True), nw.Series):
        name = getattr(y, "name", None)
        if name in (None, ""):
            name = TARGET
        return y, name
    if isinstance(y, str):
        raise ValueError(
            "y must be the column itself for a table in memory, got a text; the name "
            "of a column is for files and lazy frames"
        )
    table = one_column(y, "y")
    name = table.names[0] if is_frame(y) else TARGET
    return table.columns[0], name


def target_of(table: Table, y: Any) -> tuple[Any, Any]:
    """Return the target of the rows of a table as a column, and its name, or another one if a column has this name."""
    column, name = target_column(y)
    n_rows = len(table.columns[0]) if table.columns else 0
    if len(column) != n_rows or not table.columns:
        raise ValueError(f"y has {len(column)} rows; X has {n_rows}")
    check_same_order(table.native, y, "y")
    if name not in table.names:
        return column, name
    # Such as one that was computed from this column.
    for number in itertools.count(1):
        name = TARGET if number == 1 else f"{TARGET}_{number}"
        if name not in table.names:
            break
    return column, name


def refuse_no_public_rows(n_rows: int | None) -> None:
    """Refuse a table without rows where their number is public; None of a large table is not known yet."""
    if n_rows == 0:
        raise ValueError(
            "X has no rows, and with protect this is public: nothing can be learnt"
        )


def refuse_shared_name(
    table: Table, y: Any, protected: Collection[Any] | None = None
) -> None:
    """Refuse a y that has the name of a column of X, if it or this column is protected."""
    # What is promised of one would be said of the other, which is public. By default, y
    # is protected.
    if y is None or isinstance(y, str):
        return
    _, name = target_column(y)
    has_name = getattr(y, "name", None) == name
    if is_frame(y):
        # Two tables that are made of arrays have numbers as names.
        has_name = isinstance(name, str)
    if not has_name or name not in table.names:
        return
    _, name_in_table = target_of(table, y)
    if protected is None or not {name, name_in_table}.isdisjoint(protected):
        raise ValueError(
            f"X has a column of the name of y, {name!r}, and only one of them is "
            "protected: leave the column out of X, or name y otherwise if it is about "
            "something else"
        )


def split_target(table: Any) -> tuple[Any, Any]:
    """Take the last column of a table, with its name, as its target; of a lazy table, which keeps it, the name."""
    if isinstance(table, np.ndarray | pd.DataFrame):
        _check_width(table.shape[1] if table.ndim == 2 else 1)
        rows = table.iloc if isinstance(table, pd.DataFrame) else table
        return rows[:, :-1], rows[:, -1]
    frame = nw.from_native(table)
    names = frame.collect_schema().names()
    _check_width(len(names))
    if isinstance(frame, nw.LazyFrame):
        return table, names[-1]
    return frame.select(names[:-1]).to_native(), frame.select(names[-1]).to_native()


def _check_width(n_columns: int) -> None:
    if n_columns < 2:
        raise ValueError(
            "X must have two columns or more, the last of them the target, "
            f"got {n_columns}"
        )


def rows_and_target(estimator: Any, table: Any) -> tuple[Any, Any]:
    """Split a table where an estimator needs a target, which otherwise is None."""
    tags = getattr(estimator, "__sklearn_tags__", None)
    is_needed = tags is not None and tags().target_tags.required
    return split_target(table) if is_needed else (table, None)


def named_levels(table: Any) -> tuple[Any, ...]:
    """Return the names of the levels of the row index of a table or series, without levels that have none."""
    if not isinstance(table, pd.DataFrame | pd.Series):
        return ()
    return tuple(name for name in table.index.names if name is not None)


def refuse_protected_levels(
    table: Any, protected: Sequence[Any], *, what: str = "X"
) -> None:
    """Refuse a row index with a level of the name of a protected column, whose values would pass through."""
    for name in named_levels(table):
        if name in protected:
            raise ValueError(
                f"the row index of {what} has a level {name!r}, as a protected column "
                "is called, and passes through: the true values would stay beside the "
                f"reports. Drop the level before, by {what}.reset_index({name!r}, "
                "drop=True) (without drop=True, where it is not a column yet); to have "
                "groups in the index, as aif360 does, put the reports there: "
                f"reports.set_index({name!r}, drop=False)"
            )


def warn_of_levels(table: Any, known: Collection[Any] = ()) -> None:
    """Warn of a row index whose levels have names, unless these were warned of before."""
    # An index without names is usually the number of a row, or of a row of the table
    # that it was drawn from.
    names = [repr(name) for name in named_levels(table) if name not in known]
    if names:
        warn_once(
            f"the row index passes through unprotected, with {', '.join(names)}: if it "
            "says something of a record or identifies a person, drop it before by "
            "reset_index(drop=True)",
            PrivacyLeakWarning,
            about="answers/not_covered",
        )


def check_row_order(**inputs: Any) -> None:
    """Refuse pandas inputs of which two have the same row labels in different orders."""
    for (name, rows), (what, column) in itertools.combinations(inputs.items(), 2):
        check_same_order(rows, column, what, name_of_X=name)


def check_same_order(X: Any, column: Any, what: str, *, name_of_X: str = "X") -> None:
    """Refuse a series that has the row labels of X in another order, as it is read by position."""
    indexed = pd.DataFrame | pd.Series
    if not isinstance(X, indexed) or not isinstance(column, indexed):
        return
    if len(X) != len(column):
        return
    if X.index.equals(column.index) or not _are_permuted(X.index, column.index):
        return
    name = name_of_X
    in_place = f"pass {what}.to_numpy() if its rows are in the order of {name}"
    advice = f": reindex it like {name}, by {what}.reindex({name}.index), or {in_place}"
    if not X.index.is_unique:
        advice = (
            f". Labels that occur twice do not say which row is which: {in_place};"
            " otherwise give each row a label of its own where both are made"
        )
    raise ValueError(
        f"{what} has the labels of {name} in another order, and rows are read by "
        f"position{advice}"
    )


def _are_permuted(labels: pd.Index, other_labels: pd.Index) -> bool:
    """Return whether two indexes of one length hold the same labels, each as often."""
    try:
        distinct = labels.unique()
        places = distinct.get_indexer_for(labels)
        other_places = distinct.get_indexer_for(other_labels)
    except (TypeError, ValueError):  # labels that cannot be looked up
        return False
    # A label that is not there has the place -1.
    return np.array_equal(np.sort(places), np.sort(other_places))


def read_numbers(
    table: Table, *, missing: bool = False, truth: bool = True, others: bool = False
) -> list[NDArray[np.float64]]:
    """Read the columns of a table as numbers, also of truth values (0 and 1) if asked."""
    # With `others`, a Python object that is no number counts as missing instead of
    # being an error.
    columns = []
    for name, column in zip(table.names, table.columns, strict=True):
        try:
            numbers = to_numbers(column, truth=truth)
        except ColumnError as error:
            raise TypeError(f"column {name!r}: {error}") from None
        columns.append(numbers.astype(float, copy=False))
    if not missing and _are_finite(columns):
        return columns
    for name, column, numbers in zip(table.names, table.columns, columns, strict=True):
        is_object = getattr(getattr(column, "dtype", None), "kind", "") == "O"
        if (missing and (others or not is_object)) or np.isfinite(numbers).all():
            continue
        if is_object and not others and _has_other(column, numbers):
            # "argument must be ... string ... number": what scikit-learn's own check
            # looks for.
            raise TypeError(
                f"column {name!r} holds text or other objects; argument must be "
                "numeric: convert strings to numbers"
            )
        if not missing:
            raise ValueError(
                f"column {name!r} holds a missing value, a NaN or an inf. Fill it in, "
                "or drop the record, by a public rule."
            )
    return columns


def _are_finite(columns: Sequence[NDArray[np.float64]]) -> bool:
    """Whether all numbers of a table that lies together are finite; False if it does not."""
    # Column by column, all of an array passes through the cache for each of its columns.
    array = together(columns)
    with np.errstate(over="ignore", invalid="ignore"):
        return array is not None and bool(np.isfinite(array.sum()))


def _has_other(column: Any, numbers: NDArray[np.floating]) -> bool:
    """Whether a column of objects has one that is neither a number nor missing."""
    values = objects_of(column)
    return not all(
        is_missing(values[place]) for place in np.isnan(numbers).nonzero()[0]
    )


def together(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64] | None:
    """Return the array that columns are views of, without a copy, if they lie side by side in memory."""
    # The caller keeps the columns, and so the memory.
    if not columns:
        return None
    addresses = [column.__array_interface__["data"][0] for column in columns]
    first, stride = columns[0], columns[0].strides
    step = addresses[1] - addresses[0] if len(addresses) > 1 else first.itemsize
    for place, column in enumerate(columns):
        is_beside = addresses[place] == addresses[0] + step * place
        if not is_beside or column.dtype != float or column.strides != stride:
            return None
    shape = (len(first), len(columns))
    return as_strided(first, shape, (*stride, step), writeable=False)


def read_bounds(
    bounds: Any, names: Sequence[Any], *, parameter: str = "bounds"
) -> NDArray[np.float64]:
    """Check declared bounds and return them as an array of shape (n_columns, 2)."""
    if bounds is None:
        raise ValueError(
            "`bounds` must be (low, high), {column: (low, high)} or a Domain, got None. "
            "Use a Domain from public knowledge, or from `discover_domain`."
        )
    pairs = _pairs(bounds, names)
    ends = []
    for name, pair in zip(names, pairs, strict=True):
        ends.append(_read_pair(pair, f"{parameter} of column {name!r}"))
    return np.array(ends)


def check_declared(
    declared: Mapping[Any, Any], names: Sequence[Any], parameter: str, hint: str = ""
) -> None:
    """Check that a mapping by column name has the columns of a table, and no others."""
    unknown = [name for name in declared if name not in names]
    if unknown:
        raise ValueError(
            f"{parameter} declares columns that X does not have: {unknown}; "
            f"X has {list(names)}"
        )
    absent = [name for name in names if name not in declared]
    if absent:
        raise ValueError(f"{parameter} declares nothing for the columns {absent}{hint}")


def _pairs(bounds: Any, names: Sequence[Any]) -> list[Any]:
    if isinstance(bounds, Domain):
        bounds = _bounds_of_domain(bounds, names)
    if isinstance(bounds, Mapping):
        check_declared(bounds, names, "bounds")
        return [bounds[name] for name in names]
    rows = _as_list(bounds)
    if rows is None:
        raise TypeError(
            "bounds must be (low, high), a mapping, a Domain or an array of shape "
            f"(n_features, 2), got {type(bounds).__name__}"
        )
    if len(rows) == 2 and all(_as_list(row) is None for row in rows):
        return [rows] * len(names)
    if len(rows) != len(names):
        raise ValueError(f"bounds has {len(rows)} rows; X has {len(names)} columns")
    return rows


def _bounds_of_domain(
    domain: Domain, names: Sequence[Any]
) -> dict[Any, tuple[Any, Any]]:
    """Return the endpoints of the intervals of a domain for the columns of a table."""
    bounds = {}
    for name in names:
        if name not in domain.columns:
            continue
        declared = domain[name]
        if not isinstance(declared, Interval) or declared.dtype.kind != "f":
            raise ValueError(
                f"bounds of column {name!r} must be an Interval of numbers in the "
                f"Domain, got {declared!r}"
            )
        bounds[name] = declared.edges[0], declared.edges[-1]
    return bounds


def listed_names(names: Any) -> list[Any] | None:
    """Return names of columns in a list, tuple, array or index of pandas; None for anything else."""
    is_of_one_dimension = not isinstance(names, np.ndarray) or names.ndim == 1
    return _as_list(names) if is_of_one_dimension else None


def _as_list(value: Any) -> list[Any] | None:
    if isinstance(value, pd.Index):
        return value.tolist()
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim else None
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return list(value) if is_list else None


def _read_pair(pair: Any, what: str) -> tuple[float, float]:
    ends = _as_list(pair)
    if ends is None or len(ends) != 2:
        raise ValueError(f"{what} must be a pair (low, high)")
    for end in ends:
        if isinstance(end, bool | np.bool_) or not isinstance(end, Real):
            raise TypeError(f"{what} must be two numbers, got {type(end).__name__}")
    try:
        low, high = map(float, ends)
    except OverflowError:
        raise ValueError(
            f"{what} must be finite, got a number beyond the range of floats"
        ) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"{what} must be finite with low < high, got ({low:g}, {high:g})"
        )
    if not math.isfinite(high - low):
        raise ValueError(
            f"{what} must be less than 1.8e308 apart, got ({low:g}, {high:g})"
        )
    if not floats_between(low, high):
        raise ValueError(
            f"{what} are too close together for floats, got ({low!r}, {high!r})"
        )
    return low, high


def floats_between(low: float, high: float) -> bool:
    """Whether bounds are far enough apart."""
    # Relative to the larger end: floats then still distinguish the steps of a grid of
    # 65,536 points.
    least_width = 1e-9
    return high - low >= max(least_width * max(abs(low), abs(high)), 1e-300)


def read_domain(
    table: Table, categories: Any, *, name: str = "categories", why_declared: str = ""
) -> Domain:
    """Build the domain of a table from declarations, or from the data with a warning."""
    # Unordered categories of pandas (see `domains_of_dtypes`) are used with the same
    # warning, whatever the rows are.
    by_dtype, observed = domains_of_dtypes(table)
    declared = _declared(table, categories, name, by_dtype | observed)
    undeclared = [
        column
        for column in table.names
        if column not in declared or declared[column] is observed.get(column)
    ]
    if undeclared and why_declared:
        raise ValueError(
            f"the categories of {', '.join(map(repr, undeclared))} must be declared: "
            f"{why_declared}"
        )
    if undeclared:
        warn_of_observed(undeclared, name)
    # Only what nobody declared is read: a declared column is not looked at.
    attributes = {}
    for column, values in zip(table.names, table.columns, strict=True):
        is_declared = column in declared
        attributes[column] = (
            declared[column] if is_declared else _observed(column, values)
        )
    domain = Domain(attributes)
    for column in undeclared:
        domain[column].observed = True  # for `privacy_statement`
    return copy_guarantee(domain, categories)


def warn_of_observed(names: Sequence[Any], parameter: str) -> None:
    """Warn that the categories of some columns come from the data."""
    warn_once(
        f"the categories of {', '.join(map(repr, names))} are read from the data, so "
        f"which values occur is not protected; declare them with {parameter}=, as "
        "lists of values or a Domain. A categorical dtype of pandas declares its "
        "categories only if they are ordered: others may be just the values that occur",
        PrivacyLeakWarning,
        about="guide/encoders#declared-values",
    )


def _declared(
    table: Table, categories: Any, parameter: str, by_dtype: dict[Any, list[Any]]
) -> dict[Any, Any]:
    expected = f"{parameter} must be 'auto', a list, a mapping or a Domain"
    if isinstance(categories, str):
        if categories != "auto":
            raise ValueError(f"{expected}, got {categories!r}")
        return by_dtype
    if isinstance(categories, Domain):
        # A Domain may have more columns than the table.
        known = [name for name in categories.columns if name in table.names]
        categories = {name: categories[name] for name in known}
    if isinstance(categories, Mapping):
        declared = {**by_dtype, **categories}
        hint = "; the values that each may take are needed, from public knowledge"
        check_declared(declared, table.names, parameter, hint)
        return declared
    # Lists of values in the order of the columns.
    if not isinstance(categories, Sequence | np.ndarray):
        raise TypeError(f"{expected}, got {type(categories).__name__}")
    if len(categories) != len(table.names):
        raise ValueError(
            f"{parameter} has {len(categories)} lists of values; it needs one for each "
            f"of the columns {list(table.names)}"
        )
    return dict(zip(table.names, categories, strict=True))


def _observed(name: Any, column: Any) -> Categories:
    try:
        values, has_missing = distinct_values(column)
    except ColumnError as error:
        raise ValueError(f"column {name!r} {error}; declare its categories") from None
    if has_missing:
        raise ValueError(
            f"column {name!r} holds missing values (NaN); declare its categories, with "
            "None among them for missing"
        )
    try:
        return Categories(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r}: {error}") from None


def declares_missing(domain: Domain) -> bool:
    """Whether missing is a declared value of some column."""
    return any(None in domain[name].values for name in domain.columns)


# What a local transformer does with a value that is not declared, if asked.
UNIFORM = (
    "The last resort is handle_unknown='uniform': such rows become uniform random "
    "values, which draw all estimates towards equal counts"
)

# What a statistic does with it, if asked.
_IGNORE = "Or set handle_unknown='ignore', which leaves such values out of all counts"


def undeclared_error(
    column: Any,
    values: Categories | Interval,
    *,
    what: str = "a value, or a NaN or inf,",
    where: str = "declared categories",
    advice: str = _IGNORE,
    missing_is_undeclared: bool = True,
) -> ValueError:
    """Make the error of a value that is not declared: it shows what is declared, which is public, and not the value."""
    declare = "Declare all values that can occur"
    if missing_is_undeclared and None not in values.labels:
        missing = "missing=True" if isinstance(values, Interval) else "None"
        declare += f", and add {missing} to declare missing"
    if isinstance(values, Interval):
        declare += ", or clip the numbers to the ends before"
    elif all(label is None or isinstance(label, Real) for label in values.labels):
        declare += ", or an Interval for a range of numbers"
    return ValueError(
        f"column {column!r} holds {what} outside the {where}, {_described(values)}. "
        f"{declare}. {advice}."
    )


def _described(values: Categories | Interval) -> str:
    """Describe declared values: all of them, if they are few."""
    if isinstance(values, Interval) and not values.observed:
        # Not the number of bins, which may be that of finer cells, and says nothing of
        # what is outside.
        low, high = edge_text(values.edges[0]), edge_text(values.edges[-1])
        missing = ", or missing" if values.missing else ""
        return f"values from {low} to {high}{missing}"
    is_cut = len(values) > MAX_SHOWN_VALUES and not values.observed
    return f"{values!r} ({len(values):,} values)" if is_cut else repr(values)
