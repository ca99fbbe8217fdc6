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
    has_names = False
    for name, value in subject.parameters.items():
        if name != subject.parameter and isinstance(value, Mapping):
            has_names = True
    for kind in _KINDS:
        try:
            frame = subject.frame(subject.rows(12), kind)
        except SkipTest:
            continue
        if kind != "array" or not has_names:
            yield kind, frame


def _names(output: Any) -> list[Any] | None:
    if isinstance(output, np.ndarray):
        return None
    if hasattr(output, "column_names"):
        return list(output.column_names)
    return list(output.columns)


def _check_frames_in_and_out(subject: Subject) -> None:
    """Check that the output is the same kind of table as the input, with the same rows and index."""
    for kind, frame in _tables(subject):
        if isinstance(frame, pd.DataFrame):
            labels = [f"row {9 * place % 12}" for place in range(12)]
            frame.index = pd.Index(labels, name="person")
        # The name of the index is warned of.
        with warnings.catch_warnings(action="ignore", category=PrivacyLeakWarning):
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
                expected_type = type(subject.frame(subject.rows(1), container))
            except SkipTest:
                continue
            estimator = subject.unfitted(kind=kind)
            if not hasattr(estimator, "set_output"):
                raise SkipTest("no set_output")
            fitted = estimator.set_output(transform=container).fit(frame)
            for output in (fitted.transform(frame), fitted.fit_transform(frame)):
                require(
                    type(output) is expected_type,
                    f"set_output(transform={container!r}): {kind} becomes a "
                    f"{type(output).__name__}",
                )
                require(
                    list(output.columns) == list(fitted.get_feature_names_out()),
                    f"set_output(transform={container!r}): the columns are not "
                    "get_feature_names_out()",
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
    first = subject.frame(subject.rows(30, 1))
    second = subject.frame(subject.rows(20, 2))
    refitted = subject.unfitted()
    refitted.fit(first).transform(first)
    require(refitted.fit(second) is refitted, "fit does not return the estimator")
    fitted = subject.unfitted().fit(second)
    require(
        pickle.dumps(refitted) == pickle.dumps(fitted),
        "something of a first fit is left after the second",
    )
    require(
        refitted.guarantee_ == fitted.guarantee_, "guarantee_ depends on an earlier fit"
    )
    refitted.transform(second)


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
    values = numbers.to_numpy(float)
    is_whole = np.isnan(values) | (values == np.rint(values))
    if numbers.shape[1] and is_whole.all():
        yield "floats", X.astype(dict.fromkeys(numbers, float))
        if not numbers.isna().to_numpy().any():
            yield "integers", X.astype(dict.fromkeys(numbers, np.int64))


def _rounded(X: Any) -> Any:
    """Round the numbers of a table."""
    names = list(X.select_dtypes("number"))
    if not all(isinstance(name, str) for name in names):
        return X
    return X.assign(**{name: X[name].round() for name in names})


def _check_dtypes_do_not_matter(estimator: Any, X: Any) -> None:
    """Check that the same values in other dtypes, also with a missing one among them, give the same release."""
    rounded = _rounded(X)
    with_gap = rounded.astype(object)
    with_gap.iloc[0] = None
    _require_same_releases(estimator, X, "")
    _require_same_releases(estimator, rounded, "")
    _require_same_releases(estimator, with_gap.infer_objects(), ", with missing values")


def _require_same_releases(estimator: Any, table: Any, which: str) -> None:
    """Fail if the values of a table in other dtypes give another release."""
    try:
        expected = fitted(estimator, table, random_state=5)
    except (TypeError, ValueError):
        return  # such values are refused
    has_rows = hasattr(expected, "sample")
    if has_rows:
        expected_rows = expected.sample(20)
    for name, same_values in _representations(table):
        release = fitted(estimator, same_values, random_state=5)
        reason = (
            f"{name}{which} give something else than the same values in the default "
            "dtypes"
        )
        require(released_text(release) == released_text(expected), reason)
        if not has_rows:
            continue
        rows = release.sample(20)
        require(_numbers(rows) == _numbers(expected_rows), reason)
        if name != "nullable dtypes":
            require(
                (rows.dtypes == expected_rows.dtypes).all(),
                f"the dtypes of synthetic rows show {name}{which}",
            )


def _numbers(rows: Any) -> dict[Any, list[Any]]:
    """Read rows with integers as floats."""
    columns = {}
    for name, column in columns_of(rows).items():
        columns[name] = [
            float(value) if type(value) is int else value for value in column
        ]
    return columns


def _check_labels_and_metadata_do_not_matter(estimator: Any, X: Any) -> None:
    """Check that row labels, their name and the attributes of a table have no effect."""
    expected = released_text(fitted(estimator, X, random_state=5))
    labels = [f"person {place * place}" for place in range(len(X))]
    labelled = X.set_axis(pd.Index(labels, name="hunter2"))
    labelled.attrs["persons"] = list(range(len(X)))
    numbered = X.set_axis(np.arange(1000, 1000 + len(X)))
    for table in (labelled, numbered):
        require(
            released_text(fitted(estimator, table, random_state=5)) == expected,
            "row labels or attributes show",
        )


def _check_a_failed_refit_changes_nothing(estimator: Any, X: Any) -> None:
    """Check that a fit which fails while drawing leaves the earlier one unchanged, or nothing."""
    estimator = fitted(estimator, X)
    if estimator.guarantee_.epsilon == 0:
        raise SkipTest("it draws nothing")
    attributes = released_attributes(estimator)

    def stop(source: type, size: int, drawn: Any) -> None:
        raise _Stop

    with suppress(_Stop), watched_draws(stop):
        estimator.fit(*rows_and_target(estimator, X))
    attributes_after = released_attributes(estimator)
    is_unchanged = attributes_after.keys() == attributes.keys() and all(
        attributes_after[name] is attributes[name] for name in attributes
    )
    fitted_names = {name for name in attributes_after if name.endswith("_")}
    is_unfitted = fitted_names <= {"n_features_in_", "feature_names_in_"}
    require(
        is_unchanged or is_unfitted,
        "a fit that failed left some attributes of the earlier one, and some of the "
        "failed one",
    )


REPRESENTATION_CHECKS = [
    _check_dtypes_do_not_matter,
    _check_labels_and_metadata_do_not_matter,
    _check_a_failed_refit_changes_nothing,
]
