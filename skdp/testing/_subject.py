"""Estimators that are checked, with public tables and their releases."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partialmethod
from numbers import Real
from typing import Any
from unittest import SkipTest
from unittest.mock import patch

import joblib
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone

from skdp._arrays import Bytes, Indices, TableLike
from skdp.base import split_if_supervised
from skdp.domain import Categories, Interval
from skdp.privacy import Mu, PrivacyGuarantee, PrivacyLedger, Rho
from skdp.randomness import SecureSource, SeededSource
from skdp.tables import is_frame, is_missing, to_object_list, wrap_table

# Values that must occur in no output.
SECRET_TEXT = "s3cr3t"
SECRET_NUMBER = 72619.25


def require(condition: object, reason: str) -> None:
    """Fail a check unless a condition holds."""
    if not condition:
        raise AssertionError(reason)


class BaseSubject(ABC):
    """Base class of estimators that are checked; they are cloned and not fitted themselves."""

    # True if two releases with the same seed are equal. `transform` continues its stream
    # of random bits, and `fit` starts it again.
    repeats_with_seed = False

    def __init__(self, estimator: BaseEstimator, columns: Sequence[Any]) -> None:
        self.estimator = estimator
        self.columns = tuple(columns)

    @abstractmethod
    def table(self) -> Any:
        """Return public rows."""

    @abstractmethod
    def noisy_table(self) -> Any:
        """Return rows such that two noisy releases differ with near certainty."""

    @abstractmethod
    def prepare(self, **parameters: object) -> Any:
        """Return a clone with some parameters that can release a table."""

    @abstractmethod
    def release(self, prepared: BaseEstimator, X: TableLike | None = None) -> Any:
        """Release a table, or the public rows."""

    @abstractmethod
    def describe(self, released: object) -> Any:
        """Return a description that is equal for equal releases."""

    def fingerprint(self, prepared: object) -> str:
        """Release rows, and return a string that differs for releases with different random bits."""
        # Two choices of one of two columns may be equal, so random bits are compared.
        with record_random_bytes() as drawn:
            released = self.release(prepared, self.noisy_table())
        return drawn[:64].hex() or repr(self.describe(released))

    def odd_tables(self) -> Iterator[tuple[str, Any]]:
        """Yield descriptions and tables with a secret value of an unexpected type, in each column."""
        for value in (SECRET_TEXT, SECRET_NUMBER, [SECRET_TEXT], SECRET_TEXT.encode()):
            for position, name in enumerate(self.columns):
                X = pd.DataFrame(self.table()[:4]).astype(object)
                column = X.iloc[:, position].tolist()
                X[name] = pd.Series([*column[:-1], value], X.index, dtype=object)
                yield f"a {type(value).__name__} in column {name!r}", X

    def wrong_tables(self) -> Iterator[Any]:
        """Yield objects that are not tables with the columns of `fit`."""
        X = self.table()
        yield X.to_numpy()[:, 0]

    def accepts(self, name: str) -> bool:
        """Return True if the estimator has a parameter."""
        return name in self.estimator.get_params(deep=False)

    def needs(self, name: str) -> None:
        """Skip the check unless the estimator has a parameter."""
        if not self.accepts(name):
            raise SkipTest(f"{type(self.estimator).__name__} has no parameter {name!r}")

    def clone_estimator(self, parameters: Mapping[str, Any]) -> Any:
        """Return an unfitted clone with those parameters that the estimator accepts."""
        estimator = clone(self.estimator)
        for name, value in parameters.items():
            if self.accepts(name):
                estimator.set_params(**{name: value})
        return estimator

    def prepare_noisy(self, **parameters: object) -> Any:
        """Return a clone that can release a table with much noise (a small epsilon)."""
        return self.prepare(**self.small_epsilon(), **parameters)

    def small_epsilon(self) -> dict[str, Any]:
        """Return the parameter `epsilon` with a small epsilon, rho or mu."""
        epsilon = self.estimator.get_params(deep=False).get("epsilon")
        # The noise exceeds the statistics, so two releases are equal only if they are clipped.
        if isinstance(epsilon, Rho | Mu):
            return {"epsilon": type(epsilon)(0.0001, epsilon.delta)}
        return self.limit_epsilon(0.0, 0.01)

    def limit_epsilon(self, low: float, high: float) -> dict[str, Any]:
        """Return the parameter `epsilon` clipped to [low, high]; empty if it is in the range."""
        epsilon = self.estimator.get_params(deep=False).get("epsilon")
        if not isinstance(epsilon, Real) or low <= float(epsilon) <= high:
            return {}
        return {"epsilon": min(max(float(epsilon), low), high)}

    def guarantee(self, **parameters: object) -> PrivacyGuarantee:
        """Release the public rows with some parameters, and return the guarantee."""
        prepared = self.prepare(**parameters)
        self.release(prepared)
        guarantee = getattr(prepared, "guarantee_", None)
        if not isinstance(guarantee, PrivacyGuarantee):
            raise AssertionError(
                "`guarantee_` must be a PrivacyGuarantee after fit, got"
                f" {type(guarantee).__name__}. Set it in `fit`."
            )
        return guarantee

    def spending_guarantee(self) -> PrivacyGuarantee:
        """Return the guarantee of a release; skip the check if its epsilon is 0."""
        guarantee = self.guarantee()
        if guarantee.epsilon == 0:
            raise SkipTest("nothing that depends on the rows is released")
        return guarantee


class Privatizer(BaseSubject):
    """Transformer that privatizes rows; each `transform` is a release."""

    def __init__(self, estimator: BaseEstimator, X: TableLike | None = None) -> None:
        """Find the declared values of each column of an estimator, or the values of the table `X`."""
        parameters = estimator.get_params(deep=False)
        # The parameter that declares the columns, and its values by column.
        names = ("categories", "bounds")
        self.parameter = next((name for name in names if name in parameters), None)
        declaration = parameters.get(self.parameter)
        # Clones are fitted with this declaration of each column; None leaves it unchanged.
        self.declared = _declare_by_column(declaration)
        if parameters.get("secret_key") is not None:
            raise TypeError(
                "`estimator` must make new reports in each call, got a secret_key of "
                "permanent reports. Check it without a key."
            )
        values: dict[Any, list[Any]] = {}
        if X is not None:
            columns = read_columns(X if is_frame(X) else np.asarray(X, dtype=object))
            for name, column in columns.items():
                values[name] = list(dict.fromkeys(column))
            # If each `fit` finds the values, clones declare the values of X in its place.
            if self.declared is None and declaration in ("auto", None):
                self.declared = values
        elif self.declared is not None:
            for name, declared in self.declared.items():
                values[name] = _list_valid_values(declared)
        else:
            raise TypeError(
                f"`X` is required for {type(estimator).__name__}, whose parameters do "
                "not declare each column, got None."
            )
        # Valid values of each column, from which tables are drawn.
        self.values = {}
        for name, listed in values.items():
            self.values[name] = pd.Series(listed, dtype=_choose_dtype(listed))
        super().__init__(estimator, list(values))

    def table(self) -> Any:
        """Return 100 rows of valid values."""
        return self.draw_rows(100)

    def prepare(self, **parameters: object) -> Any:
        """Return a clone that is fitted to 8 rows."""
        return self.unfitted(**parameters).fit(self.draw_rows(8))

    def unfitted(self, **parameters: object) -> Any:
        """Return a clone with declared columns and those `parameters` that it accepts."""
        if self.declared is not None:
            parameters = {str(self.parameter): dict(self.declared)} | parameters
        return self.clone_estimator(parameters)

    def prepare_again(self, prepared: object) -> Any:
        """Fit a clone of a prepared transformer."""
        return clone(prepared).fit(self.draw_rows(8))

    def release(self, prepared: BaseEstimator, X: TableLike | None = None) -> Any:
        """Privatize a table, or the public rows."""
        X = self.table() if X is None else X
        return prepared.transform(X)

    def describe(self, released: object) -> Any:
        """Return the values of a table of reports as text."""
        return repr(read_columns(released))

    def noisy_table(self) -> Any:
        """Return 600 equal rows, whose noisy releases differ with near certainty."""
        return self.equal_rows(600)

    def wrong_tables(self) -> Iterator[Any]:
        """Yield a 1-D array, a table without a column, and a table with other names."""
        X = self.table()
        yield X.to_numpy()[:, 0]
        yield X.iloc[:, 1:]
        yield X.add_suffix("_")

    def draw_rows(self, size: int) -> pd.DataFrame:
        """Draw rows of valid values."""
        rng = np.random.default_rng(0)  # public rows
        sizes = map(len, self.values.values())
        return self.take([rng.integers(n_values, size=size) for n_values in sizes])

    def equal_rows(self, size: int, code: int = 0) -> pd.DataFrame:
        """Return equal rows with the valid value of each column that has the index `code`."""
        sizes = map(len, self.values.values())
        return self.take([np.full(size, code % n_values) for n_values in sizes])

    def take(self, codes: Iterable[Indices]) -> pd.DataFrame:
        """Return the rows of valid values with the given indices, which are a list for each column."""
        columns = {}
        for (name, values), taken in zip(self.values.items(), codes, strict=True):
            columns[name] = values.take(taken).reset_index(drop=True)
        return pd.DataFrame(columns)


class Curator(BaseSubject):
    """Estimator that releases statistics of a table; each `fit` is a release."""

    repeats_with_seed = True

    def __init__(self, estimator: object, X: TableLike) -> None:
        """Store the estimator and the public table on which it is checked."""
        if not isinstance(X, pd.DataFrame):
            raise TypeError(f"X must be a pandas.DataFrame, got {type(X).__name__}.")
        super().__init__(estimator, list(X.columns))
        self.X = X

    def table(self) -> Any:
        """Return the public table."""
        return self.X

    def noisy_table(self) -> Any:
        """Return the public table, whose releases with a small epsilon are noisy."""
        return self.X

    def prepare(self, **parameters: object) -> Any:
        """Return an unfitted clone with those `parameters` that it accepts."""
        return self.clone_estimator(parameters)

    def prepare_again(self, prepared: object) -> Any:
        """Return a clone of a prepared estimator."""
        return clone(prepared)

    def release(self, prepared: BaseEstimator, X: TableLike | None = None) -> Any:
        """Fit the estimator to a table, or to the public table."""
        X = self.X if X is None else X
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            # An estimator may warn that the noise exceeds the statistic.
            return prepared.fit(*split_if_supervised(prepared, X))

    def describe(self, released: object) -> Any:
        """Return hashes of the public fitted attributes, except the guarantee."""
        # Private attributes, such as a count of calls, differ between equal releases.
        described = {}
        for name, value in list_fitted_attributes(released).items():
            if not name.startswith("_") and name != "guarantee_":
                described[name] = hash_value(value)
        return described


Subject = Privatizer | Curator


def list_fitted_attributes(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the attributes of an estimator that are not parameters."""
    attributes = dict(vars(estimator))
    for name in estimator.get_params(deep=False):
        attributes.pop(name, None)
    return attributes


def hash_value(value: object) -> str:
    """Hash the content of an object, or its class if it cannot be pickled."""
    try:
        return str(joblib.hash(value))
    except Exception:  # pickling of an unknown class may raise any error
        return type(value).__qualname__


def _declare_by_column(declaration: object) -> dict[Any, Any] | None:
    """Return the declared values of each column, or None for other declarations."""
    if isinstance(declaration, Mapping):
        return dict(declaration)
    if isinstance(declaration, list):
        return {f"x{position}": part for position, part in enumerate(declaration)}
    return None


def _list_valid_values(declared: Any) -> list[Any]:
    """Return valid values of a column with declared categories, an Interval or bounds."""
    if isinstance(declared, tuple):  # bounds
        low, high = declared
        return np.linspace(low, high, 5).tolist()
    if isinstance(declared, Interval | Categories):
        declared = declared.values
    return [None if is_missing(value) else value for value in declared]


def _choose_dtype(values: list[Any]) -> Any:
    """Return the pandas dtype of a column: object for None, text and tuples."""
    # pandas would convert None among numbers to NaN, and text to its string dtype.
    is_object = any(value is None or isinstance(value, str | tuple) for value in values)
    return object if is_object else np.array(values).dtype


def read_columns(output: object) -> dict[Any, list[Any]]:
    """Convert a table of any library to lists of Python values, with None for missing values."""
    table = wrap_table(output)
    columns = {}
    for name, column in zip(table.names, table.columns, strict=True):
        values = to_object_list(column)
        columns[name] = [None if is_missing(value) else value for value in values]
    return columns


@contextmanager
def record_random_bytes() -> Iterator[bytearray]:
    """Collect the random bytes that `skdp.randomness` draws in a `with` block."""
    collected = bytearray()
    with ExitStack() as stack:
        # Estimators draw random bits by the method `bytes` of these classes.
        for source in (SecureSource, SeededSource):
            recorded = partialmethod(_record_draw, source.bytes, collected)
            stack.enter_context(patch.object(source, "bytes", recorded))
        yield collected


def _record_draw(
    source: object, draw: Callable[..., Bytes], collected: bytearray, size: int
) -> Bytes:
    """Draw bytes from a source with its original method, and collect them."""
    drawn = draw(source, size)
    collected += drawn.tobytes()
    return drawn


class RecordingLedger(PrivacyLedger):
    """Ledger that logs each charge with the number of random bytes drawn before it.

    Its budget covers `n_releases` releases with a guarantee.
    """

    def __init__(
        self, guarantee: PrivacyGuarantee, n_releases: float, drawn: bytearray
    ) -> None:
        """Make a ledger whose budget is about `n_releases` releases with a guarantee.

        `drawn` are the random bytes that have been drawn; `log` has each charge with their number at this time.
        """
        # A guarantee of some columns requires a ledger of these columns.
        scope: dict[str, Any] = {}
        if guarantee.relation == "replace_values":
            scope = {"relation": guarantee.relation, "columns": guarantee.scope}
        # A ledger rounds sums up, so the budget is slightly larger than the releases.
        epsilon = (n_releases + 0.01) * max(guarantee.epsilon, 1e-9)
        delta = min(0.5, (n_releases + 1) * guarantee.delta)
        super().__init__(epsilon=epsilon, delta=delta, **scope)
        self.drawn = drawn
        self.log: list[tuple[PrivacyGuarantee, int]] = []

    def charge(self, guarantee: PrivacyGuarantee, what: str) -> None:
        """Charge a guarantee and log it."""
        super().charge(guarantee, what)
        self.log.append((guarantee, len(self.drawn)))
