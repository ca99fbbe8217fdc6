"""What estimators share: input tables and public domains, randomness, ledger and output."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from numbers import Integral, Real
from secrets import token_hex
from typing import Any, TypeVar, cast

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from skdp.base._row_index import check_same_order
from skdp.base._warnings import warn_once
from skdp.coding import ColumnError, distinct_values, plain
from skdp.domain import Categories, Domain
from skdp.frames import Table, convert_frame, is_frame, lazy_error, read_table
from skdp.privacy import BudgetExceeded, PrivacyLeakWarning, PrivacyLedger
from skdp.randomness import ByteSource, SecureSource, SeededSource


def read_input(
    estimator: BaseEstimator, X: Any, *, reset: bool, least: int = 1
) -> Table:
    """Check the shape and the column names of an input as scikit-learn does, without looking at a value."""
    if is_frame(X):
        rows, columns = X.shape
        if columns == 0:
            raise ValueError(
                "Found a table with 0 feature(s) (columns); at least 1 is required"
            )
        if rows < least:
            raise ValueError(
                f"Found a table with {rows} sample(s) (rows); at least {least} is required"
            )
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return read_table(X)
    if isinstance(X, np.ma.MaskedArray):
        raise TypeError(
            "masked arrays are not supported, as their masked values would be released; fill them first"
        )
    if type(X).__module__.startswith("pyarrow"):
        if hasattr(X, "to_table"):  # a Dataset
            raise lazy_error(X)
        raise TypeError(
            f"pyarrow's {type(X).__name__} is not supported; make a pyarrow.Table of it"
        )
    has_dtypes = hasattr(X, "__array__")
    if not issparse(X):
        # The messages of scikit-learn for these errors print the data.
        array = read_array(X, "X")
        if array.dtype.kind == "c":
            raise ValueError("Complex data not supported")
        if array.ndim != 2:
            raise ValueError(
                f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: X.reshape(-1, 1) for a single "
                "column, X.reshape(1, -1) for a single row, or X[['column']] of a dataframe"
            )
        X = array if isinstance(X, np.ndarray) or not has_dtypes else X
    array = validate_data(
        estimator,
        X,
        reset=reset,
        dtype=None,
        ensure_all_finite=False,
        ensure_min_samples=least,
    )
    return replace(read_table(array), has_dtypes=has_dtypes)


def read_array(values: Any, name: str) -> NDArray[Any]:
    """Convert an array-like to an array, of objects for a list that mixes text with other values."""
    plain = not hasattr(values, "__array__")
    for dtype in (None, object):
        try:
            array = np.asarray(values, dtype)
        except Exception:
            continue
        if dtype is object or not plain or array.dtype.kind not in "USV":
            return array
    raise ValueError(
        f"{name} cannot be read as an array: expected rows of single values, all of one length"
    )


TARGET = "target"
"""What a target without a name is called."""


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
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            "masked arrays are not supported, as their masked values would be released; fill them first"
        )
    array = read_array(values, what)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(
            f"{what} must be one column, got an array of {array.ndim} dimensions"
        )
    return read_table(array[:, np.newaxis])


def target_column(y: Any) -> tuple[Any, Any]:
    """Return the target as a column, and its name."""
    if isinstance(nw.from_native(y, series_only=True, pass_through=True), nw.Series):
        name = getattr(y, "name", None)
        return y, TARGET if name is None or name == "" else name
    table = one_column(y, "y")
    return table.columns[0], table.names[0] if is_frame(y) else TARGET


def target_of(table: Table, y: Any) -> tuple[Any, Any]:
    """Return the target of the rows of a table as a column, and its name, or another one if a column has this name."""
    column, name = target_column(y)
    n_rows = len(table.columns[0]) if table.columns else 0
    if not table.columns or len(column) != n_rows:
        raise ValueError(f"y has {len(column)} rows; X has {n_rows}")
    check_same_order(table.native, y, "y")
    if name in table.names:  # such as one that was computed from this column
        further = (f"{TARGET}_{number}" for number in itertools.count(2))
        name = next(
            free
            for free in itertools.chain([TARGET], further)
            if free not in table.names
        )
    return column, name


def check_names(
    estimator: BaseEstimator, table: Table, fitted: tuple[Any, ...]
) -> None:
    """Check that a table has the columns of `fit`."""
    # scikit-learn compares names only if all of them are strings.
    named = not isinstance(table.native, np.ndarray) and hasattr(
        estimator, "feature_names_in_"
    )
    if (
        named or not all(isinstance(name, str) for name in fitted)
    ) and table.names != fitted:
        raise ValueError(
            f"X has the columns {list(table.names)}; fit saw {list(fitted)}"
        )


def as_asked(estimator: Any, released: Any) -> Any:
    """Convert the output of a transformer to the kind of frame set by `set_output`."""
    config = getattr(estimator, "_sklearn_output_config", {})
    return convert_frame(
        released, config.get("transform", get_config()["transform_output"])
    )


Fit = TypeVar("Fit", bound=Callable[..., Any])


def all_or_nothing(fit: Fit) -> Fit:
    """Decorate a method so that it restores the attributes of the estimator when it fails."""
    # Statistics and their guarantee belong together, also if an error or an interrupt stops a second fit between
    # setting one and the other. Charges remain, and random bits that were drawn are not drawn again.

    @wraps(fit)
    def fit_or_restore(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *args, **kwargs)
        except BudgetExceeded as refusal:
            # A search prints the traceback of each fit: that of the code in between says nothing more.
            self.__dict__ = before
            raise refusal.with_traceback(None) from None
        except BaseException:
            self.__dict__ = before  # one assignment, which no interrupt can split
            raise

    return cast(Fit, fit_or_restore)


def check_confidence_level(level: Any) -> float:
    """Check a confidence level."""
    if (
        not isinstance(level, Real)
        or isinstance(level, bool)
        or not 0 < float(level) < 1
    ):
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


def read_domain(
    table: Table, categories: Any, *, name: str = "categories", why_declared: str = ""
) -> Domain:
    """Build the domain of a table from declarations, or from the data with a warning."""
    # Unordered categories of pandas (see `domains_of_dtypes`) are used with the same warning, whatever the rows are.
    by_dtype, observed = domains_of_dtypes(table)
    declared = _declared(table, categories, name, by_dtype | observed)
    read = [
        column
        for column in table.names
        if column not in declared or declared[column] is observed.get(column)
    ]
    if read and why_declared:
        raise ValueError(
            f"the categories of {', '.join(map(repr, read))} must be declared: {why_declared}"
        )
    if read:
        warn_of_observed(read, name)
    for column, values in zip(table.names, table.columns, strict=True):
        if column not in declared:
            declared[column] = _observed(column, values)
    domain = Domain({column: declared[column] for column in table.names})
    for column in read:
        domain[column].observed = True  # for `privacy_statement`
    return domain


def warn_of_observed(names: Sequence[Any], parameter: str) -> None:
    """Warn that the categories of some columns come from the data."""
    warn_once(
        f"the categories of {', '.join(map(repr, names))} are read from the data, so which values occur is not "
        f"protected; declare them with {parameter}=, as lists of values or a Domain. A categorical dtype of pandas "
        "declares its categories only if they are ordered: others may be just the values that occur",
        PrivacyLeakWarning,
    )


def _declared(
    table: Table, categories: Any, parameter: str, by_dtype: dict[Any, list[Any]]
) -> dict[Any, Any]:
    if isinstance(categories, str):
        if categories != "auto":
            raise ValueError(
                f"{parameter} must be 'auto', a list, a mapping or a Domain, got {categories!r}"
            )
        return dict(by_dtype)
    if isinstance(categories, Domain):
        categories = {name: categories[name] for name in categories.columns}
    if isinstance(categories, Mapping):
        unknown = [name for name in categories if name not in table.names]
        if unknown:
            raise ValueError(
                f"{parameter} declares columns that X does not have: {unknown}; X has {list(table.names)}"
            )
        declared = by_dtype | dict(categories)
        absent = [name for name in table.names if name not in declared]
        if absent:
            raise ValueError(
                f"{parameter} declares nothing for the columns {absent}; the values that each may take are needed, "
                "from what is publicly known"
            )
        return declared
    if isinstance(categories, Sequence | np.ndarray):
        if len(categories) != len(table.names):
            raise ValueError(
                f"{parameter} has {len(categories)} lists of values; it needs one for each of the columns "
                f"{list(table.names)}"
            )
        return dict(zip(table.names, categories, strict=True))
    raise TypeError(
        f"{parameter} must be 'auto', a list, a mapping or a Domain, got {type(categories).__name__}"
    )


DECLARED = b"skdp.values." + token_hex(8).encode()
"""Key of the metadata that declares the values of an Arrow field, as JSON (an Arrow dictionary has those that occur).
It differs between processes, so that a file cannot declare anything."""


def domains_of_dtypes(
    table: Table,
) -> tuple[dict[Any, list[Any]], dict[Any, list[Any]]]:
    """Return the domains that dtypes declare, and those that dtypes may have taken from the data."""
    # An Enum of Polars and an ENUM of DuckDB declare their values, and so do ordered categories of pandas. Unordered
    # ones may be just the values that occur, and the bins of ``pandas.cut`` may have ends from the data. Only the dtype
    # decides: one rare record may decide whether all categories occur, and so it would on a warning.
    declared: dict[Any, list[Any]] = {}
    observed: dict[Any, list[Any]] = {}
    for name, column in zip(table.names, table.columns, strict=True):
        if isinstance(column, np.ndarray):
            continue
        if isinstance(column, pd.Series):
            if isinstance(column.dtype, pd.CategoricalDtype):
                of_bins = isinstance(column.dtype.categories, pd.IntervalIndex)
                domains = declared if column.dtype.ordered and not of_bins else observed
                domains[name] = column.dtype.categories.tolist()
        elif nw.from_native(column, series_only=True).dtype == nw.Enum:
            declared[name] = (
                nw.from_native(column, series_only=True).cat.get_categories().to_list()
            )
        elif DECLARED in (metadata := _field_metadata(table.native, name)):
            declared[name] = json.loads(metadata[DECLARED])
    return declared, observed


def _field_metadata(native: Any, name: Any) -> Mapping[bytes, bytes]:
    if (
        not type(native).__module__.startswith("pyarrow")
        or name not in native.schema.names
    ):
        return {}
    return native.schema.field(name).metadata or {}


def _observed(name: Any, column: Any) -> Categories:
    try:
        values, missing = distinct_values(column)
    except ColumnError as error:
        raise ValueError(f"column {name!r} {error}; declare its categories") from None
    if missing:
        raise ValueError(
            f"column {name!r} holds missing values (NaN); declare its categories, with None among them for missing"
        )
    try:
        return Categories(values)
    except ValueError as error:
        raise ValueError(f"column {name!r}: {error}") from None


def declares_missing(domain: Domain) -> bool:
    """Whether missing is a declared value of some column."""
    return any(None in domain[name].values for name in domain.columns)


def check_random_state(value: Any) -> None:
    """Check the ``random_state`` of an estimator."""
    if value is None:
        return
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(
            f"random_state must be None (secure) or an int (for experiments), got {type(value).__name__}"
        )
    if value < 0:
        raise ValueError(f"random_state must be None or an int >= 0, got {value}")


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


def coins(random_state: int | None, *key: Any) -> ByteSource:
    """Return the source of random bits for one column of one call."""
    if random_state is None:
        return SecureSource()
    return SeededSource(int(random_state), *map(repr, map(plain, key)))


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
