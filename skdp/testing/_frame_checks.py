"""Checks that the output is the same kind of table as the input."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd

from skdp.base import rows_and_target
from skdp.privacy import PrivacyLeakWarning
from skdp.testing._subject import Subject
from skdp.testing._tools import (
    columns_of,
    fitted,
    released_attributes,
    released_text,
    require,
    watched_draws,
)

_KINDS = ("pandas", "polars", "pyarrow", "array")


def _tables(subject: Subject) -> Iterator[tuple[str, Any]]:
    """Yield the same rows in every library that is installed."""
    # Declarations by column name do not fit an array.
    named = any(
        isinstance(value, Mapping)
        for name, value in subject.parameters.items()
        if name != subject.parameter
    )
    for kind in _KINDS:
        try:
            frame = subject.frame(subject.rows(12), kind)
        except SkipTest:
            continue
        if kind != "array" or not named:
            yield kind, frame


def _names(output: Any) -> list[Any] | None:
    if isinstance(output, np.ndarray):
        return None
    return list(
        output.column_names if hasattr(output, "column_names") else output.columns
    )


def _check_frames_in_and_out(subject: Subject) -> None:
    """Check that the output is the same kind of table as the input, with the same rows and index."""
    for kind, frame in _tables(subject):
        if isinstance(frame, pd.DataFrame):
            frame.index = pd.Index(
                [f"row {9 * place % 12}" for place in range(12)], name="person"
            )
        with warnings.catch_warnings(
            action="ignore", category=PrivacyLeakWarning
        ):  # of the name of the index
            fitted = subject.unfitted(kind=kind).fit(frame)
            output = fitted.transform(frame)
        require(
            type(output) is type(frame),
            f"{kind}: a {type(frame).__name__} becomes a {type(output).__name__}",
        )
        require(
            len(output) == len(frame), f"{kind}: {len(frame)} rows become {len(output)}"
        )
        if isinstance(frame, pd.DataFrame):
            require(
                output.index.equals(frame.index), "pandas: the row index is not kept"
            )
            require(
                output.index.name == "person",
                "pandas: the name of the row index is not kept",
            )
        names = fitted.get_feature_names_out()
        require(
            _names(output) in (None, list(names)),
            f"{kind}: the columns are not get_feature_names_out()",
        )
        require(
            len(columns_of(output)) == len(names),
            f"{kind}: get_feature_names_out() has another number of columns",
        )
        if hasattr(fitted, "tally"):
            require(
                fitted.tally(output).n_reports == len(frame),
                f"{kind}: tally miscounts the reports",
            )


def _check_set_output(subject: Subject) -> None:
    """Check that after `set_output`, every kind of input becomes the requested kind of frame."""
    for container in ("pandas", "polars"):
        for kind, frame in _tables(subject):
            try:
                wanted = type(subject.frame(subject.rows(1), container))
            except SkipTest:
                continue
            estimator = subject.unfitted(kind=kind)
            if not hasattr(estimator, "set_output"):
                raise SkipTest("no set_output")
            fitted = estimator.set_output(transform=container).fit(frame)
            for output in (fitted.transform(frame), fitted.fit_transform(frame)):
                require(
                    type(output) is wanted,
                    f"set_output(transform={container!r}): {kind} becomes a {type(output).__name__}",
                )
                require(
                    list(output.columns) == list(fitted.get_feature_names_out()),
                    f"set_output(transform={container!r}): the columns are not get_feature_names_out()",
                )


def _check_lazy_frames_are_refused(subject: Subject) -> None:
    """Check that a lazy frame, which would be released again at each evaluation, is refused with advice."""
    frame = subject.frame(subject.rows(12), "polars").lazy()
    for method in ("fit", "transform", "fit_transform"):
        fitted = subject.fit()
        try:
            getattr(fitted, method)(frame)
        except TypeError as error:
            require(
                "skdp.engines" in str(error),
                f"{method} refuses a lazy frame without naming skdp.engines",
            )
        else:
            raise AssertionError(f"{method} takes a lazy frame")


def _check_fit_starts_anew(subject: Subject) -> None:
    """Check that a second `fit` replaces everything of the first."""
    first, second = (
        subject.frame(subject.rows(30, 1)),
        subject.frame(subject.rows(20, 2)),
    )
    again, fresh = subject.unfitted(), subject.unfitted()
    again.fit(first).transform(first)
    require(again.fit(second) is again, "fit does not return the estimator")
    fresh.fit(second)
    require(
        pickle.dumps(again) == pickle.dumps(fresh),
        "something of a first fit is left after the second",
    )
    require(
        again.guarantee_ == fresh.guarantee_, "guarantee_ depends on an earlier fit"
    )
    again.transform(second)


CHECKS = (
    _check_frames_in_and_out,
    _check_set_output,
    _check_lazy_frames_are_refused,
    _check_fit_starts_anew,
)


class _Stop(BaseException):
    """An unexpected error."""


def _representations(X: Any) -> Iterator[tuple[str, Any]]:
    """Write a pandas table in other dtypes."""
    yield "Python objects", X.astype(object).where(X.notna(), None)
    yield "nullable dtypes", X.convert_dtypes()
    numbers = X.select_dtypes("number")
    known = numbers.to_numpy(float)
    if numbers.shape[1] and (np.isnan(known) | (known == np.rint(known))).all():
        yield "floats", X.astype(dict.fromkeys(numbers, float))
        if not numbers.isna().to_numpy().any():
            yield "integers", X.astype(dict.fromkeys(numbers, np.int64))


def _whole(X: Any) -> Any:
    """Round the numbers of a table, and make the first row one of missing values in a second one."""
    numbers = list(X.select_dtypes("number"))
    return (
        X.assign(**{name: X[name].round() for name in numbers})
        if all(isinstance(n, str) for n in numbers)
        else X
    )


def _check_dtypes_do_not_matter(estimator: Any, X: Any) -> None:
    """Check that the same values in other dtypes, also with a missing one among them, give the same release."""
    whole = _whole(X)
    gap = whole.astype(object)
    gap.iloc[0] = None
    for table, kind in (
        (X, ""),
        (whole, ""),
        (gap.infer_objects(), ", with missing values"),
    ):
        try:
            wanted = fitted(estimator, table, random_state=5)
        except (TypeError, ValueError):
            continue  # such values are refused
        rows = wanted.sample(20) if hasattr(wanted, "sample") else None
        for name, same in _representations(table):
            found = fitted(estimator, same, random_state=5)
            reason = f"{name}{kind} give something else than the same values in the default dtypes"
            require(released_text(found) == released_text(wanted), reason)
            if rows is not None:
                others = found.sample(20)
                require(_numbers(rows) == _numbers(others), reason)
                if name != "nullable dtypes":
                    require(
                        (rows.dtypes == others.dtypes).all(),
                        f"the dtypes of synthetic rows show {name}{kind}",
                    )


def _numbers(rows: Any) -> dict[Any, list[Any]]:
    return {
        name: [
            float(value)
            if isinstance(value, int) and not isinstance(value, bool)
            else value
            for value in column
        ]
        for name, column in columns_of(rows).items()
    }


def _check_labels_and_metadata_do_not_matter(estimator: Any, X: Any) -> None:
    """Check that row labels, their name and the attributes of a table have no effect."""
    wanted = released_text(fitted(estimator, X, random_state=5))
    labelled = X.set_axis(
        pd.Index([f"person {place * place}" for place in range(len(X))], name="hunter2")
    )
    labelled.attrs["persons"] = list(range(len(X)))
    numbered = X.set_axis(np.arange(1000, 1000 + len(X)))
    for table in (labelled, numbered):
        require(
            released_text(fitted(estimator, table, random_state=5)) == wanted,
            "row labels or attributes show",
        )


def _check_a_failed_refit_changes_nothing(estimator: Any, X: Any) -> None:
    """Check that a fit which fails while drawing leaves the earlier one unchanged, or nothing."""
    one = fitted(estimator, X)
    if one.guarantee_.epsilon == 0:
        raise SkipTest("it draws nothing")
    before = released_attributes(one)

    def stop(source: type, size: int, drawn: Any) -> None:
        raise _Stop

    with suppress(_Stop), watched_draws(stop):
        one.fit(*rows_and_target(one, X))
    after = released_attributes(one)
    kept = after.keys() == before.keys() and all(
        after[name] is before[name] for name in before
    )
    nothing = not any(
        name.endswith("_") and name not in ("n_features_in_", "feature_names_in_")
        for name in after
    )
    require(
        kept or nothing,
        "a fit that failed left some attributes of the earlier one, and some of its own",
    )


REPRESENTATION_CHECKS = [
    _check_dtypes_do_not_matter,
    _check_labels_and_metadata_do_not_matter,
    _check_a_failed_refit_changes_nothing,
]
