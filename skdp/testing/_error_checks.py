"""Checks that errors and warnings show no value."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from skdp.privacy import PrivacyLedger
from skdp.testing._subject import Subject
from skdp.testing._tools import Rows, columns_of, make_frame, require

SECRET_TEXT, SECRET_NUMBER = "s3cr3t", 72619.25
_SIGNS = (SECRET_TEXT, "72619")


def _check_errors_hide_values(subject: Subject) -> None:
    """Check that errors and warnings about the rows show no value of them, and come before the ledger is charged."""
    ledger = PrivacyLedger(epsilon=1e9)
    fitted = subject.fit(ledger=ledger)
    odd_tables = list(_odd_tables(subject))
    for label, X in odd_tables:
        worked, odd = _call(subject.unfitted(ledger=ledger), "fit", X, label)
        if worked:
            unpicklable = {"ledger": None} if subject.accepts("ledger") else {}
            stored = pickle.dumps(odd.set_params(**unpicklable)).decode("latin-1")
            require(not shows(stored), f"fit with {label} stores the value")
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
            for label, reports in (
                *_odd_tables(subject),
                *_odd_reports(fitted, subject),
            ):
                _call(fitted, method, reports, label)


def _call(fitted: Any, method: str, X: Any, label: str) -> tuple[bool, Any]:
    """Call a method; if it refuses, check everything that the user is shown."""
    what = f"{method} with {label}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            worked, output = True, getattr(fitted, method)(X)
        except Exception as error:
            worked, output = False, None
            for shown in texts_of(error):
                require(
                    not shows(shown),
                    f"{what} raises {type(error).__name__}, which shows the value",
                )
            require(
                isinstance(error, TypeError | ValueError),
                f"{what} raises {type(error).__name__}, not ValueError or TypeError",
            )
    for warning in caught:
        require(not shows(str(warning.message)), f"{what} warns, and shows the value")
    return worked, output


def shows(text: str) -> bool:
    """Whether a text shows one of the secret values."""
    return any(sign in text for sign in _SIGNS)


def texts_of(error: BaseException | None) -> Iterator[str]:
    """Collect the texts of an error, of its traceback and of the errors that led to it."""
    # A suppressed context is not shown, but available to loggers and debuggers, like ``object`` of an error of Unicode.
    seen: list[BaseException] = []
    todo = [error]
    while todo:
        error = todo.pop()
        if error is None or any(error is other for other in seen):
            continue
        seen.append(error)
        held = [
            *vars(error).values(),
            *(getattr(error, name, None) for name in ("object", "obj", "name", "doc")),
        ]
        yield from (
            str(error),
            repr(error),
            repr(error.args),
            *getattr(error, "__notes__", ()),
            *map(repr, held),
        )
        todo += [error.__cause__, error.__context__]


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
    rows = subject.rows(4)
    names = list(rows)
    for bad in _odd_objects():
        odd = rows | {names[0]: [*rows[names[0]][:-1], bad]}
        yield f"{type(bad).__name__} in {names[0]!r}", _object_frame(odd)
        listed = [list(row) for row in zip(*odd.values(), strict=True)]
        yield f"{type(bad).__name__} in {names[0]!r} of a list", listed
    for name in names:
        for bad in _undeclared():
            column = [*rows[name][:-1], bad]
            odd = rows | {name: column}
            yield f"an undeclared {type(bad).__name__} in {name!r}", _object_frame(odd)
            listed = [list(row) for row in zip(*odd.values(), strict=True)]
            yield f"an undeclared {type(bad).__name__} in {name!r} of a list", listed
            for kind in ("polars", "pyarrow"):
                try:
                    made = make_frame(odd, subject.values | {name: [bad]}, kind)
                except (SkipTest, Exception):  # a library may refuse such a mixture
                    continue
                yield f"an undeclared {type(bad).__name__} in {name!r} of {kind}", made
        whole = {
            other: ([SECRET_TEXT] * 4 if other == name else column)
            for other, column in rows.items()
        }
        yield (
            f"undeclared categories in {name!r}",
            _object_frame(whole).astype({name: "category"}),
        )
        for value in (
            float("inf"),
            10**400,
            SECRET_NUMBER * 1e300,
            pd.Timestamp("2072-06-19"),
        ):
            yield (
                f"{type(value).__name__} in {name!r}",
                _object_frame(rows | {name: [value] * 4}),
            )
    hidden: Rows = {name: [SECRET_TEXT] * 4 for name in names}
    yield "a column less", _object_frame(dict(list(hidden.items())[:-1]))
    yield "a column more", _object_frame(hidden | {"another": [SECRET_TEXT] * 4})
    yield (
        "other column names",
        _object_frame({f"{name}_": column for name, column in hidden.items()}),
    )
    yield "no column", pd.DataFrame(index=[SECRET_TEXT])
    yield "no row", _object_frame(hidden).iloc[:0]
    doubled = _object_frame(hidden | {"another": [SECRET_TEXT] * 4})
    yield "two columns of one name", doubled.set_axis([*names, names[0]], axis=1)
    yield "a 1-D array", np.array([SECRET_TEXT, SECRET_TEXT], object)
    yield "a 1-D list", [SECRET_TEXT, SECRET_NUMBER]
    yield "a 1-D array of numbers", np.array([SECRET_NUMBER] * 3)
    yield "a series", pd.Series([SECRET_TEXT] * 3)
    yield "a 3-D array", np.full((2, 2, len(names)), SECRET_NUMBER)
    yield "a ragged list", [[SECRET_TEXT], [SECRET_TEXT] * 3]
    yield "a single value", SECRET_TEXT
    yield "complex numbers", np.full((3, len(names)), complex(SECRET_NUMBER, 1))
    yield "text as an array", np.full((3, len(names)), SECRET_TEXT)
    yield "numbers as an array", np.full((3, len(names)), SECRET_NUMBER)
    yield "a sparse array", csr_array(np.full((3, len(names)), SECRET_NUMBER))
    yield (
        "a masked array",
        np.ma.masked_array(np.full((3, len(names)), SECRET_NUMBER), mask=True),
    )


def _object_frame(rows: Rows) -> pd.DataFrame:
    """Build a frame of unconverted objects: pandas would look for dates, and ask objects for their arrays."""
    columns = {name: np.empty(len(values), object) for name, values in rows.items()}
    for name, values in rows.items():
        for place, value in enumerate(values):
            columns[name][place] = value
    return pd.DataFrame(
        {name: pd.Series(column, dtype=object) for name, column in columns.items()}
    )


def _odd_reports(fitted: Any, subject: Subject) -> Iterator[tuple[str, Any]]:
    reports = columns_of(fitted.transform(subject.frame(subject.rows(4))))
    for name, column in reports.items():
        for bad in (*_undeclared(), None, float("nan"), float("inf"), -1, 0.5, 10**400):
            odd = [*column[:-1], bad]
            yield (
                f"{type(bad).__name__} as a report of {name!r}",
                _object_frame(reports | {name: odd}),
            )
            listed = [
                list(row) for row in zip(*(reports | {name: odd}).values(), strict=True)
            ]
            yield f"{type(bad).__name__} as a report of {name!r} in a list", listed


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
