"""A privatised table comes back as the kind of table that went in."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd

from skdp.testing._subject import Subject
from skdp.testing._tools import columns_of, require

_KINDS = ("pandas", "polars", "pyarrow", "array")


def _tables(subject: Subject) -> Iterator[tuple[str, Any]]:
    """Yield the same rows in every library that is installed."""
    # What is declared by column name does not fit an array.
    named = any(isinstance(value, Mapping) for name, value in subject.parameters.items() if name != subject.parameter)
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
    return list(output.column_names if hasattr(output, "column_names") else output.columns)


def _check_frames_in_and_out(subject: Subject) -> None:
    """Check that the output is the kind of table that went in, with the same rows and index."""
    for kind, frame in _tables(subject):
        if isinstance(frame, pd.DataFrame):
            frame.index = pd.Index([f"row {9 * place % 12}" for place in range(12)], name="person")
        fitted = subject.unfitted(kind=kind).fit(frame)
        output = fitted.transform(frame)
        require(type(output) is type(frame), f"{kind}: a {type(frame).__name__} becomes a {type(output).__name__}")
        require(len(output) == len(frame), f"{kind}: {len(frame)} rows become {len(output)}")
        if isinstance(frame, pd.DataFrame):
            require(output.index.equals(frame.index), "pandas: the row index is not kept")
            require(output.index.name == "person", "pandas: the name of the row index is not kept")
        names = fitted.get_feature_names_out()
        require(_names(output) in (None, list(names)), f"{kind}: the columns are not get_feature_names_out()")
        require(len(columns_of(output)) == len(names), f"{kind}: get_feature_names_out() has another number of columns")
        if hasattr(fitted, "tally"):
            require(fitted.tally(output).n_reports == len(frame), f"{kind}: tally miscounts the reports")


def _check_set_output(subject: Subject) -> None:
    """Check that after `set_output`, every kind of input becomes the asked kind of frame."""
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
    """Check that a lazy frame, which would be released anew at each evaluation, is refused with the way out."""
    frame = subject.frame(subject.rows(12), "polars").lazy()
    for method in ("fit", "transform", "fit_transform"):
        fitted = subject.fit()
        try:
            getattr(fitted, method)(frame)
        except TypeError as error:
            require("skdp.engines" in str(error), f"{method} refuses a lazy frame without naming skdp.engines")
        else:
            raise AssertionError(f"{method} takes a lazy frame")


def _check_fit_starts_anew(subject: Subject) -> None:
    """Check that a second `fit` leaves nothing of the first."""
    first, second = subject.frame(subject.rows(30, 1)), subject.frame(subject.rows(20, 2))
    again, fresh = subject.unfitted(), subject.unfitted()
    again.fit(first).transform(first)
    require(again.fit(second) is again, "fit does not return the estimator")
    fresh.fit(second)
    require(pickle.dumps(again) == pickle.dumps(fresh), "something of a first fit is left after the second")
    require(again.guarantee_ == fresh.guarantee_, "guarantee_ depends on an earlier fit")
    again.transform(second)


CHECKS = (
    _check_frames_in_and_out,
    _check_set_output,
    _check_lazy_frames_are_refused,
    _check_fit_starts_anew,
)
