"""Checks that errors and warnings show no value."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from skdp.privacy import PrivacyLedger
from skdp.testing._subject import Subject
from skdp.testing._tools import Rows, columns_of, make_frame, require

SECRET_TEXT = "s3cr3t"
SECRET_NUMBER = 72619.25

# What is looked for in errors and warnings.
_SIGNS = (SECRET_TEXT, "72619")


def _check_errors_hide_values(subject: Subject) -> None:
    """Check that errors and warnings about the rows show no value of them, and come before the ledger is charged."""
    ledger = PrivacyLedger(epsilon=1e9)
    fitted = subject.fit(ledger=ledger)
    odd_tables = list(_odd_tables(subject))
    for label, X in odd_tables:
        worked, estimator = _call(subject.unfitted(ledger=ledger), "fit", X, label)
        if worked:
            if subject.accepts("ledger"):
                estimator.set_params(ledger=None)  # it cannot be pickled
            pickled = pickle.dumps(estimator).decode("latin-1")
            require(not shows(pickled), f"fit with {label} stores the value")
        require(
            worked or ledger.spent == (0, 0),
            f"fit with {label} charges the ledger, and releases nothing",
        )
    for label, X in odd_tables:
        spent = ledger.spent
        worked, output = _call(fitted, "transform", X, label)
        if worked:
            require(
                not shows(repr(columns_of(output))),
                f"transform with {label} returns the value",
            )
        require(
            worked or ledger.spent == spent,
            f"transform with {label} charges the ledger, and releases nothing",
        )


def _check_report_errors_hide_values(subject: Subject) -> None:
    """Check that errors about reports, which may be true rows by mistake, show no value of them."""
    fitted = subject.fit()
    for method in ("tally", "estimate_counts", "estimate_mean"):
        if hasattr(fitted, method):
            tables = chain(_odd_tables(subject), _odd_reports(fitted, subject))
            for label, reports in tables:
                _call(fitted, method, reports, label)


def _call(fitted: Any, method: str, X: Any, label: str) -> tuple[bool, Any]:
    """Call a method; if it refuses, check everything that the user is shown."""
    call = f"{method} with {label}"
    worked, output = False, None
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        try:
            output = getattr(fitted, method)(X)
            worked = True
        except Exception as error:
            require(
                not any(map(shows, texts_of(error))),
                f"{call} raises {type(error).__name__}, which shows the value",
            )
            require(
                isinstance(error, TypeError | ValueError),
                f"{call} raises {type(error).__name__}, not ValueError or TypeError",
            )
    for warning in caught_warnings:
        require(not shows(str(warning.message)), f"{call} warns, and shows the value")
    return worked, output


def shows(text: str) -> bool:
    """Whether a text shows one of the secret values."""
    return any(sign in text for sign in _SIGNS)


def texts_of(error: BaseException | None) -> Iterator[str]:
    """Collect the texts of an error, of its traceback and of the errors that led to it."""
    # A suppressed context is not shown, but available to loggers and debuggers, like
    # ``object`` of an error of Unicode.
    visited: list[BaseException] = []
    errors = [error]
    while errors:
        error = errors.pop()
        if error is None or any(error is earlier for earlier in visited):
            continue
        visited.append(error)
        yield str(error)
        yield repr(error)
        yield repr(error.args)
        yield from getattr(error, "__notes__", ())
        yield from map(repr, vars(error).values())
        for name in ("object", "obj", "name", "doc"):
            yield repr(getattr(error, name, None))
        errors += [error.__cause__, error.__context__]


class _Opaque:
    """An object of a user's class among the values."""

    def __repr__(self) -> str:
        return SECRET_TEXT


class _Unhashable(_Opaque):
    """An object that shows itself when hashed."""

    def __hash__(self) -> int:
        raise ArithmeticError(SECRET_TEXT)


class _Incomparable(_Opaque):
    """An object that shows itself when compared."""

    def __eq__(self, other: object) -> bool:
        raise ArithmeticError(SECRET_TEXT)

    __hash__ = object.__hash__


class _Unwritable(str):
    """Text that shows itself when converted or hashed."""

    def __str__(self) -> str:
        raise ArithmeticError(SECRET_TEXT)

    def __hash__(self) -> int:
        raise ArithmeticError(SECRET_TEXT)


class _Unreadable(float):
    """A number that shows itself when converted."""

    def __float__(self) -> float:
        raise ArithmeticError(SECRET_TEXT)


class _Unready(_Opaque):
    """An object that shows itself when converted to an array."""

    def __array__(self, *arguments: Any) -> Any:
        raise ArithmeticError(SECRET_TEXT)


def _odd_tables(subject: Subject) -> Iterator[tuple[str, Any]]:
    """Yield tables that a transformer should refuse, or take without showing a value."""
    yield from _tables_of_odd_objects(subject)
    for name in subject.values:
        yield from _tables_of_undeclared_values(subject, name)
    yield from _tables_of_other_columns(list(subject.values))
    yield from _other_containers(len(subject.values))


def _tables_of_odd_objects(subject: Subject) -> Iterator[tuple[str, Any]]:
    rows = subject.rows(4)
    name = next(iter(rows))
    for value in _odd_objects():
        odd_rows = rows | {name: [*rows[name][:-1], value]}
        label = f"{type(value).__name__} in {name!r}"
        yield label, _object_frame(odd_rows)
        yield f"{label} of a list", _list_of_rows(odd_rows)


def _tables_of_undeclared_values(
    subject: Subject, name: Any
) -> Iterator[tuple[str, Any]]:
    rows = subject.rows(4)
    for value in _undeclared():
        odd_rows = rows | {name: [*rows[name][:-1], value]}
        label = f"an undeclared {type(value).__name__} in {name!r}"
        yield label, _object_frame(odd_rows)
        yield f"{label} of a list", _list_of_rows(odd_rows)
        for kind in ("polars", "pyarrow"):
            try:
                frame = make_frame(odd_rows, subject.values | {name: [value]}, kind)
            except (SkipTest, Exception):  # a library may refuse such a mixture
                continue
            yield f"{label} of {kind}", frame
    categories = _object_frame(rows | {name: [SECRET_TEXT] * 4})
    yield f"undeclared categories in {name!r}", categories.astype({name: "category"})
    values = [float("inf"), 10**400, SECRET_NUMBER * 1e300, pd.Timestamp("2072-06-19")]
    for value in values:
        label = f"{type(value).__name__} in {name!r}"
        yield label, _object_frame(rows | {name: [value] * 4})


def _tables_of_other_columns(names: list[Any]) -> Iterator[tuple[str, Any]]:
    rows: Rows = {name: [SECRET_TEXT] * 4 for name in names}
    frame = _object_frame(rows)
    with_another = _object_frame(rows | {"another": [SECRET_TEXT] * 4})
    yield "a column less", frame.iloc[:, :-1]
    yield "a column more", with_another
    yield "other column names", frame.set_axis([f"{name}_" for name in names], axis=1)
    yield "no column", pd.DataFrame(index=[SECRET_TEXT])
    yield "no row", frame.iloc[:0]
    yield "two columns of one name", with_another.set_axis([*names, names[0]], axis=1)


def _other_containers(n_columns: int) -> Iterator[tuple[str, Any]]:
    numbers = np.full((3, n_columns), SECRET_NUMBER)
    yield "a 1-D array", np.array([SECRET_TEXT, SECRET_TEXT], object)
    yield "a 1-D list", [SECRET_TEXT, SECRET_NUMBER]
    yield "a 1-D array of numbers", np.array([SECRET_NUMBER] * 3)
    yield "a series", pd.Series([SECRET_TEXT] * 3)
    yield "a 3-D array", np.full((2, 2, n_columns), SECRET_NUMBER)
    yield "a ragged list", [[SECRET_TEXT], [SECRET_TEXT] * 3]
    yield "a single value", SECRET_TEXT
    yield "complex numbers", numbers + 1j
    yield "text as an array", np.full((3, n_columns), SECRET_TEXT)
    yield "numbers as an array", numbers
    yield "a sparse array", csr_array(numbers)
    yield "a masked array", np.ma.masked_array(numbers, mask=True)


def _list_of_rows(rows: Rows) -> list[list[Any]]:
    return [list(row) for row in zip(*rows.values(), strict=True)]


def _object_frame(rows: Rows) -> pd.DataFrame:
    """Build a frame of unconverted objects."""
    # pandas would look for dates, and ask objects for their arrays.
    columns = {}
    for name, values in rows.items():
        column = np.empty(len(values), object)
        for place, value in enumerate(values):
            column[place] = value
        columns[name] = pd.Series(column, dtype=object)
    return pd.DataFrame(columns)


def _odd_reports(fitted: Any, subject: Subject) -> Iterator[tuple[str, Any]]:
    reports = columns_of(fitted.transform(subject.frame(subject.rows(4))))
    values = [*_undeclared(), None, float("nan"), float("inf"), -1, 0.5, 10**400]
    for name, column in reports.items():
        for value in values:
            odd_reports = reports | {name: [*column[:-1], value]}
            label = f"{type(value).__name__} as a report of {name!r}"
            yield label, _object_frame(odd_reports)
            yield f"{label} in a list", _list_of_rows(odd_reports)


def _undeclared() -> tuple[Any, ...]:
    return (
        SECRET_TEXT,
        SECRET_NUMBER,
        int(SECRET_NUMBER),
        [SECRET_TEXT],
        SECRET_TEXT.encode(),
        _Opaque(),
    )


def _odd_objects() -> tuple[Any, ...]:
    text = SECRET_TEXT.encode()
    return (
        b"\xff" + text,
        memoryview(text),
        np.void(text),
        SECRET_TEXT + "\ud800",
        Decimal("sNaN72619"),
        Decimal(SECRET_NUMBER),
        Fraction(72619, 3),
        Fraction(72619 * 10**400, 3),
        -72619 * 10**400,
        complex(SECRET_NUMBER, 1),
        pd.Timestamp("2072-06-19", tz="Europe/Paris"),
        np.datetime64("7261900-01-01"),
        [SECRET_TEXT, [SECRET_TEXT]],
        _Unhashable(),
        _Incomparable(),
        _Unwritable(SECRET_TEXT),
        _Unreadable(SECRET_NUMBER),
        _Unready(),
    )


CHECKS = (_check_errors_hide_values, _check_report_errors_hide_values)
