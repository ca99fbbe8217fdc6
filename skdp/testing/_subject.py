"""Estimators under test, public tables for them, and their releases."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partialmethod
from numbers import Real
from typing import Any
from unittest import SkipTest
from unittest.mock import patch
from uuid import uuid4

import joblib
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from sklearn.base import clone

from skdp.base import split_if_supervised
from skdp.domain import Categories, Domain, Interval
from skdp.privacy import Mu, PrivacyGuarantee, PrivacyLedger, Rho
from skdp.randomness import SecureSource, SeededSource
from skdp.tables import is_frame, is_missing

SEED = 20
# Privacy loss at which two releases are hardly ever equal by chance.
MAX_NOISY_EPSILON = 0.01
SECRET_TEXT = "s3cr3t"
SECRET_NUMBER = 72619.25

Rows = dict[Any, list[Any]]


def require(condition: Any, reason: str) -> None:
    """Fail a check unless a condition holds."""
    if not condition:
        raise AssertionError(reason)


class BaseSubject(ABC):
    """An estimator under test, which is cloned and never fitted itself."""

    # Permanent reports draw nothing: they follow from a secret key.
    is_permanent = False
    # A transformer continues its stream of random bits, and a fit begins it again.
    repeats_with_seed = False

    def __init__(self, estimator: Any, columns: Sequence[Any]) -> None:
        self.estimator = estimator
        self.columns = tuple(columns)

    @abstractmethod
    def table(self) -> Any:
        """Return public rows."""

    @abstractmethod
    def noisy_table(self) -> Any:
        """Return rows whose noisy releases are not equal by chance."""

    @abstractmethod
    def prepare(self, **parameters: Any) -> Any:
        """Return a clone that is ready to release."""

    @abstractmethod
    def release(self, prepared: Any, X: Any = None) -> Any:
        """Release a table, or the public rows."""

    @abstractmethod
    def describe(self, released: Any) -> Any:
        """Return a description that is equal for equal releases."""

    def fingerprint(self, prepared: Any) -> str:
        """Release rows, and return a text that two releases do not share by chance."""
        # A choice of one of two columns is equal by chance, so random bits are compared.
        with recorded_draws() as drawn:
            released = self.release(prepared, self.noisy_table())
        return drawn[:64].hex() or repr(self.describe(released))

    def odd_tables(self) -> Iterator[tuple[str, Any]]:
        """Yield tables with a secret value that no output may contain."""
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
        """Check if the estimator has a parameter."""
        return name in self.estimator.get_params(deep=False)

    def needs(self, name: str) -> None:
        """Skip the check unless the estimator has a parameter."""
        if not self.accepts(name):
            raise SkipTest(f"{type(self.estimator).__name__} has no parameter {name!r}")

    def prepare_noisy(self, **parameters: Any) -> Any:
        """Return a clone with a small epsilon, so that releases are not equal by chance."""
        return self.prepare(**self.small_epsilon(), **parameters)

    def small_epsilon(self) -> dict[str, Any]:
        """Return a small `epsilon`, rho or mu."""
        epsilon = self.estimator.get_params(deep=False).get("epsilon")
        if isinstance(epsilon, Rho | Mu):
            return {"epsilon": type(epsilon)(MAX_NOISY_EPSILON**2, epsilon.delta)}
        return self.limit_epsilon(0.0, MAX_NOISY_EPSILON)

    def limit_epsilon(self, low: float, high: float) -> dict[str, Any]:
        """Return the parameters that bring `epsilon` between two numbers."""
        epsilon = self.estimator.get_params(deep=False).get("epsilon")
        if not isinstance(epsilon, Real) or low <= float(epsilon) <= high:
            return {}
        return {"epsilon": min(max(float(epsilon), low), high)}

    def guarantee(self, **parameters: Any) -> PrivacyGuarantee:
        """Return the guarantee of a release."""
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
        """Return the guarantee of a release; skip the check if it costs nothing."""
        guarantee = self.guarantee()
        if guarantee.epsilon == 0:
            raise SkipTest("nothing that depends on the rows is released")
        return guarantee


class Privatizer(BaseSubject):
    """A transformer that privatizes rows: each `transform` is a release."""

    def __init__(self, estimator: Any, X: Any = None) -> None:
        parameters = estimator.get_params(deep=False)
        names = ("categories", "bounds")
        self.parameter = next((name for name in names if name in parameters), None)
        self.declared = _declare_by_column(parameters.get(self.parameter))
        self.is_permanent = parameters.get("secret_key") is not None
        if X is not None:
            columns = read_columns(X if is_frame(X) else np.asarray(X, dtype=object))
            self.values = {
                name: list(dict.fromkeys(column)) for name, column in columns.items()
            }
            if self.declared is None and parameters.get(self.parameter) in (
                "auto",
                None,
            ):
                self.declared = self.values
        elif self.declared is not None:
            self.values = {
                name: _list_values(declared) for name, declared in self.declared.items()
            }
        else:
            raise TypeError(
                f"check_privatizer requires `X`, because the parameters of"
                f" {type(estimator).__name__} do not declare each column."
            )
        super().__init__(estimator, list(self.values))

    def table(self) -> Any:
        return self.frame(self.rows(100))

    def prepare(self, **parameters: Any) -> Any:
        return self.unfitted(**parameters).fit(self.frame(self.rows(8)))

    def unfitted(self, **parameters: Any) -> Any:
        """Return a clone with declared columns."""
        if self.declared is not None:
            parameters = {str(self.parameter): dict(self.declared)} | parameters
        given = {name: parameters[name] for name in parameters if self.accepts(name)}
        return clone(self.estimator).set_params(**given)

    def prepare_again(self, prepared: Any) -> Any:
        """Fit a clone."""
        return clone(prepared).fit(self.frame(self.rows(8)))

    def release(self, prepared: Any, X: Any = None) -> Any:
        X = self.table() if X is None else X
        if not self.is_permanent:
            return prepared.transform(X)
        # Each row is a new record, which draws fresh random bits.
        n_rows = len(X) if hasattr(X, "__len__") else 0  # a lazy frame has none
        return prepared.transform(X, record_id=[uuid4().hex for _ in range(n_rows)])

    def describe(self, released: Any) -> Any:
        return repr(read_columns(released))

    def noisy_table(self) -> Any:
        """Return so many equal rows that two noisy releases are not equal by chance."""
        return self.frame(self.equal_rows(600))

    def wrong_tables(self) -> Iterator[Any]:
        X = self.table()
        yield X.to_numpy()[:, 0]
        yield X.iloc[:, 1:]
        yield X.add_suffix("_")

    def rows(self, size: int, seed: int = SEED) -> Rows:
        """Generate legal rows."""
        rng = np.random.default_rng(seed)
        rows = {}
        for name, values in self.values.items():
            rows[name] = [values[code] for code in rng.integers(len(values), size=size)]
        return rows

    def equal_rows(self, size: int, code: int = 0) -> Rows:
        """Generate equal rows."""
        rows = {}
        for name, values in self.values.items():
            rows[name] = [values[code % len(values)]] * size
        return rows

    def frame(self, rows: Rows, kind: Any = "pandas") -> Any:
        """Make a table, whose dtypes depend on the legal values only."""
        if kind == "pandas":
            series = {}
            for name, column in rows.items():
                series[name] = pd.Series(column, dtype=_choose_dtype(self.values[name]))
            return pd.DataFrame(series)
        # A library infers dtypes: the legal values stand before the rows meanwhile.
        n_before = max(map(len, self.values.values()))
        columns = {}
        for name, column in rows.items():
            columns[name] = [*(self.values[name] * n_before)[:n_before], *column]
        try:
            return nw.from_dict(columns, backend=kind)[n_before:].to_native()
        except ImportError:
            raise SkipTest(f"{kind} is not installed") from None


class Curator(BaseSubject):
    """An estimator that releases statistics of a table: each `fit` is a release."""

    repeats_with_seed = True

    def __init__(self, estimator: Any, X: Any) -> None:
        if not isinstance(X, pd.DataFrame):
            raise TypeError(f"X must be a pandas.DataFrame, got {type(X).__name__}")
        super().__init__(estimator, list(X.columns))
        self.X = X

    def table(self) -> Any:
        return self.X

    def noisy_table(self) -> Any:
        """Return the table: a small epsilon makes its releases noisy."""
        return self.X

    def prepare(self, **parameters: Any) -> Any:
        given = {name: parameters[name] for name in parameters if self.accepts(name)}
        return clone(self.estimator).set_params(**given)

    def prepare_again(self, prepared: Any) -> Any:
        """Clone an estimator."""
        return clone(prepared)

    def release(self, prepared: Any, X: Any = None) -> Any:
        X = self.X if X is None else X
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            # A release may warn that the noise exceeds it.
            return prepared.fit(*split_if_supervised(prepared, X))

    def describe(self, released: Any) -> Any:
        # Private attributes, such as a count of calls, differ between equal releases.
        described = {}
        for name, value in fitted_attributes(released).items():
            if not name.startswith("_") and name != "guarantee_":
                described[name] = hash_value(value)
        return described

    def replace_protected(self, row: int) -> pd.DataFrame:
        """Return the table with the protected values of a row replaced by different ones of another row."""
        changed = self.X.copy()
        values = self.X[list(self.guarantee().scope)]
        is_other = (values != values.iloc[row]).any(axis=1).to_numpy()
        if not is_other.any():
            raise SkipTest("all protected values are equal")
        rows = np.arange(len(values))
        rows[row] = np.argmax(is_other)
        changed[values.columns] = values.take(rows).set_axis(values.index)
        return changed


Subject = Privatizer | Curator


def fitted_attributes(estimator: Any) -> dict[str, Any]:
    """Return the attributes that are not parameters."""
    parameters = estimator.get_params(deep=False)
    return {
        name: value for name, value in vars(estimator).items() if name not in parameters
    }


def hash_value(value: Any) -> str:
    """Hash the content of a value of any class; equal values have equal hashes."""
    try:
        return str(joblib.hash(value))
    except Exception:  # a class without pickles may raise anything
        return type(value).__qualname__


def _declare_by_column(declaration: Any) -> dict[Any, Any] | None:
    """Return the declaration of each column, or None if there is none."""
    if isinstance(declaration, Domain):
        return {name: declaration[name] for name in declaration.columns}
    if isinstance(declaration, Mapping):
        return dict(declaration)
    if isinstance(declaration, list):
        return {f"x{position}": part for position, part in enumerate(declaration)}
    return None


def _list_values(declared: Any) -> list[Any]:
    if isinstance(declared, tuple):  # bounds
        low, high = declared
        return np.linspace(low, high, 5).tolist()
    if isinstance(declared, Interval | Categories):
        declared = declared.values
    return [None if is_missing(value) else value for value in declared]


def _choose_dtype(values: list[Any]) -> Any:
    # pandas would turn None into NaN beside numbers, and text into its own dtype.
    is_object = any(value is None or isinstance(value, str | tuple) for value in values)
    return object if is_object else np.array(values).dtype


def read_columns(output: Any) -> Rows:
    """Read a table of any library as lists of Python values, with None for missing values."""
    columns: Rows = {}
    if isinstance(output, np.ndarray):
        for position, column in enumerate(output.T):
            columns[f"x{position}"] = column.tolist()
    elif isinstance(output, pd.DataFrame):
        # narwhals rejects column names that are not text.
        for name in output.columns:
            columns[name] = output[name].tolist()
    else:
        columns = nw.from_native(output, eager_only=True).to_dict(as_series=False)
    for name, column in columns.items():
        if not set(map(type, column)) <= {bool, int, str}:
            columns[name] = [None if is_missing(value) else value for value in column]
    return columns


@contextmanager
def recorded_draws() -> Iterator[bytearray]:
    """Collect the random bytes that are drawn in a block of code."""
    collected = bytearray()
    with ExitStack() as stack:
        for source in (SecureSource, SeededSource):
            recorded = partialmethod(_record_draw, source.bytes, collected)
            stack.enter_context(patch.object(source, "bytes", recorded))
        yield collected


def _record_draw(source: Any, draw: Any, collected: bytearray, size: int) -> Any:
    drawn = draw(source, size)
    collected += drawn.tobytes()
    return drawn


class RecordingLedger(PrivacyLedger):
    """A ledger for `n_releases` that logs each guarantee with the number of bytes drawn before its charge."""

    def __init__(
        self, guarantee: PrivacyGuarantee, n_releases: float, drawn: bytearray
    ) -> None:
        scope: dict[str, Any] = {}
        if guarantee.relation == "replace_values":
            scope = {"relation": guarantee.relation, "columns": guarantee.scope}
        # Sums of a ledger are rounded up, so it has a little more than the releases cost.
        epsilon = (n_releases + 0.01) * max(guarantee.epsilon, 1e-9)
        delta = min(0.5, (n_releases + 1) * guarantee.delta)
        super().__init__(epsilon=epsilon, delta=delta, **scope)
        self.drawn = drawn
        self.log: list[tuple[PrivacyGuarantee, int]] = []

    def charge(self, guarantee: PrivacyGuarantee, what: str) -> None:
        super().charge(guarantee, what)
        self.log.append((guarantee, len(self.drawn)))
