"""Checks that errors and warnings show no value."""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any
from unittest import SkipTest

import pandas as pd

from skdp.privacy import PrivacyLedger
from skdp.testing._promise_checks import READERS
from skdp.testing._subject import Subject
from skdp.testing._tools import Rows, columns_of, make_frame, objects_of_rows, require

SECRET_TEXT = "s3cr3t"
SECRET_NUMBER = 72619.25
TIME = pd.Timestamp("2072-06-19")

# What is looked for in errors and warnings.
_SIGNS = (SECRET_TEXT, "72619")


def _check_errors_hide_values(subject: Subject) -> None:
    """Check that errors and warnings about the rows show no value of them, and come before the ledger is charged."""
    require_hidden(subject, _odd_tables(subject))


def require_hidden(subject: Subject, tables: Iterable[tuple[str, Any]]) -> None:
    """Fail if an error, a fit or a release of a table shows a secret value of it, or a refusal is charged."""
    ledger = PrivacyLedger(epsilon=1e9)
    fitted = subject.fit(ledger=ledger)
    for label, X in tables:
        spent = ledger.spent
        unfitted = subject.unfitted(ledger=ledger)
        # Even a `fit` that fails may have read the rows by then.
        if _call(unfitted, "fit", X, label) is None:
            require(
                ledger.spent == spent,
                f"fit with {label} charges the ledger, and releases nothing",
            )
        else:
            if subject.accepts("ledger"):
                unfitted.set_params(ledger=None)  # it cannot be pickled
            pickled = pickle.dumps(unfitted).decode("latin-1")
            require(not shows(pickled), f"fit with {label} stores the value")
        output = _call(fitted, "transform", X, label)
        if output is None:
            require(
                ledger.spent == spent,
                f"transform with {label} charges the ledger, and releases nothing",
            )
        else:
            require(
                not shows(repr(columns_of(output))),
                f"transform with {label} returns the value",
            )


def _check_report_errors_hide_values(subject: Subject) -> None:
    """Check that errors about reports, which may be true rows by mistake, show no value of them."""
    fitted = subject.fit()
    for method in READERS:
        if hasattr(fitted, method):
            tables = chain(_odd_tables(subject), _odd_reports(fitted, subject))
            for label, reports in tables:
                _call(fitted, method, reports, label)


def _call(fitted: Any, method: str, X: Any, label: str) -> Any:
    """Call a method; if it refuses, check everything that the user is shown, and return None."""
    # An error goes to logs and to reports of crashes, which others read.
    call = f"{method} with {label}"
    output = None
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        try:
            output = getattr(fitted, method)(X)
        except Exception as error:
            name = type(error).__name__
            require(
                not any(map(shows, texts_of(error))),
                f"{call} raises {name}, which shows the value",
            )
            require(
                isinstance(error, TypeError | ValueError),
                f"{call} raises {name}, not ValueError or TypeError",
            )
    for warning in caught_warnings:
        require(not shows(str(warning.message)), f"{call} warns, and shows the value")
    return output


def shows(text: str) -> bool:
    """Whether a text shows one of the secret values."""
    return any(sign in text for sign in _SIGNS)


def texts_of(error: BaseException | None) -> Iterator[str]:
    """Collect the texts of an error, of its traceback and of the errors that led to it."""
    # A suppressed context is not shown, but available to loggers and debuggers, like
    # ``object`` of an error of Unicode.
    # An error may be the context of its own cause.
    visited: set[int] = set()
    errors = [error]
    while errors:
        error = errors.pop()
        if error is None or id(error) in visited:
            continue
        visited.add(id(error))
        yield str(error)
        yield repr(error)
        yield repr(error.args)
        yield from getattr(error, "__notes__", ())
        yield from map(repr, vars(error).values())
        for name in ("object", "obj", "name", "doc"):
            yield repr(getattr(error, name, None))
        errors += [error.__cause__, error.__context__]


def _odd_tables(subject: Subject) -> Iterator[tuple[str, Any]]:
    """Yield tables that a transformer should refuse, or take without showing a value."""
    rows = subject.rows(4)
    names = list(rows)
    for name in names:
        for value in _undeclared():
            yield from tables_with(value, name, rows)
            for kind in ("polars", "pyarrow"):
                values = subject.values | {name: [value]}
                try:
                    frame = make_frame(_with_last(rows, name, value), values, kind)
                except (SkipTest, Exception):  # a library may refuse such a mixture
                    continue
                yield f"{type(value).__name__} in {name!r} of {kind}", frame
        categories = _object_frame(rows | {name: [SECRET_TEXT] * 4})
        categories[name] = categories[name].astype("category")
        yield f"undeclared categories in {name!r}", categories
        for value in (math.inf, 10**400, SECRET_NUMBER * 1e300, TIME):
            label = f"only {type(value).__name__} in {name!r}"
            yield label, _object_frame(rows | {name: [value] * 4})
    yield from _tables_of_other_columns(names)


def tables_with(value: Any, name: Any, rows: Rows) -> Iterator[tuple[str, Any]]:
    """Yield a frame and a list of rows, of which the last has an odd value."""
    odd_rows = _with_last(rows, name, value)
    label = f"{type(value).__name__} in {name!r}"
    yield label, _object_frame(odd_rows)
    yield (
        f"{label} of a list",
        list(map(list, zip(*odd_rows.values(), strict=True))),
    )


def _with_last(rows: Rows, name: Any, value: Any) -> Rows:
    return rows | {name: [*rows[name][:-1], value]}


def _tables_of_other_columns(names: list[Any]) -> Iterator[tuple[str, Any]]:
    rows: Rows = dict.fromkeys(names, [SECRET_TEXT] * 4)
    frame = _object_frame(rows)
    with_another = _object_frame(rows | {"another": [SECRET_TEXT] * 4})
    yield "a column less", frame.iloc[:, :-1]
    yield "a column more", with_another
    yield "other column names", frame.add_suffix("_")
    yield "no column", pd.DataFrame(index=[SECRET_TEXT])
    yield "no row", frame.iloc[:0]
    yield "two columns of one name", with_another.set_axis([*names, names[0]], axis=1)


def _object_frame(rows: Rows) -> pd.DataFrame:
    """Build a frame of unconverted objects."""
    # pandas would look for dates, and ask objects for their arrays.
    return pd.DataFrame(objects_of_rows(rows), columns=list(rows), dtype=object)


def _odd_reports(fitted: Any, subject: Subject) -> Iterator[tuple[str, Any]]:
    reports = columns_of(fitted.transform(subject.frame(subject.rows(4))))
    for name in reports:
        for value in (*_undeclared(), None, math.nan, math.inf, -1, 0.5, 10**400):
            yield from tables_with(value, name, reports)


def _undeclared() -> tuple[Any, ...]:
    return (
        SECRET_TEXT,
        SECRET_NUMBER,
        int(SECRET_NUMBER),
        [SECRET_TEXT],
        SECRET_TEXT.encode(),
    )


CHECKS = (_check_errors_hide_values, _check_report_errors_hide_values)
