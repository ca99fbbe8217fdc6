"""Validation of the input and the parameters of an estimator."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from numbers import Real
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from skdp.frames import Table, convert_frame, is_frame, read_table
from skdp.privacy import PrivacyLedger


def read_input(estimator: BaseEstimator, X: Any, *, reset: bool, least: int = 1) -> Table:
    """Check the shape and the column names of an input as scikit-learn does, without looking at a value."""
    if is_frame(X):
        rows, columns = X.shape
        if columns == 0:
            raise ValueError("Found a table with 0 feature(s) (columns); at least 1 is required")
        if rows < least:
            raise ValueError(f"Found a table with {rows} sample(s) (rows); at least {least} is required")
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return read_table(X)
    if isinstance(X, np.ma.MaskedArray):
        raise TypeError("masked arrays are not supported, as their masked values would be released; fill them first")
    if type(X).__module__.startswith("pyarrow"):
        raise TypeError(f"pyarrow's {type(X).__name__} is not supported; make a pyarrow.Table of it")
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
        X = array if isinstance(X, np.ndarray) or not hasattr(X, "__array__") else X
    array = validate_data(estimator, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=least)
    return read_table(array)


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
    raise ValueError(f"{name} cannot be read as an array: expected rows of single values, all of one length")


def check_names(estimator: BaseEstimator, table: Table, fitted: tuple[Any, ...]) -> None:
    """Check that a table has the columns of `fit`."""
    # scikit-learn compares names only if all of them are strings.
    named = not isinstance(table.native, np.ndarray) and hasattr(estimator, "feature_names_in_")
    if (named or not all(isinstance(name, str) for name in fitted)) and table.names != fitted:
        raise ValueError(f"X has the columns {list(table.names)}; fit saw {list(fitted)}")


def as_asked(estimator: Any, released: Any) -> Any:
    """Convert the output of a transformer to the kind of frame set by `set_output`."""
    config = getattr(estimator, "_sklearn_output_config", {})
    return convert_frame(released, config.get("transform", get_config()["transform_output"]))


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
        except BaseException:
            self.__dict__ = before  # one assignment, which no interrupt can split
            raise

    return cast(Fit, fit_or_restore)


def check_confidence_level(level: Any) -> float:
    """Check a confidence level."""
    if not isinstance(level, Real) or isinstance(level, bool) or not 0 < float(level) < 1:
        raise ValueError(f"confidence_level must be a number between 0 and 1, got {level!r}")
    return float(level)


def check_ledger(ledger: Any) -> None:
    """Check the ``ledger`` of an estimator."""
    if ledger is not None and not isinstance(ledger, PrivacyLedger):
        raise TypeError(f"ledger must be None or a PrivacyLedger, got {type(ledger).__name__}")
