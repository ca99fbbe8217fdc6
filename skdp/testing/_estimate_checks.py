"""Checks of estimates from reports and their stated errors."""

from __future__ import annotations

import math
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.testing._promise_checks import codes_of, looks_like_the_original
from skdp.testing._subject import SEED, Subject
from skdp.testing._tools import Rows, columns_of, require

_STANDARD_ERRORS = 5
_REPEATS = 200


def _estimate(fitted: Any, reports: Any, rows: Rows, subject: Subject) -> tuple[pd.DataFrame, NDArray[Any], str]:
    """Estimate from reports known quantities of the rows."""
    if hasattr(fitted, "estimate_counts"):
        table = fitted.estimate_counts(reports)
        return table, _true_counts(rows, subject, table), "count"
    if hasattr(fitted, "estimate_mean") and subject.numeric:
        return fitted.estimate_mean(reports), np.array([np.mean(column) for column in rows.values()]), "mean"
    raise SkipTest("no estimates")


def _estimates(subject: Subject) -> tuple[list[pd.DataFrame], NDArray[Any], str]:
    """Estimate many times from fresh reports of the same rows, with a known truth."""
    fitted = subject.fit(random_state=SEED, **subject.epsilon_at_most(2.0 * len(subject.values)))
    rows = subject.rows(400)
    frame = subject.frame(rows)
    results = [_estimate(fitted, fitted.transform(frame), rows, subject) for _ in range(_REPEATS)]
    return [table for table, _, _ in results], *results[0][1:]


def _true_counts(rows: Rows, subject: Subject, table: pd.DataFrame) -> NDArray[np.float64]:
    codes = codes_of(rows, subject)
    sizes = [len(values) for values in subject.values.values()]
    if len(sizes) == 1 or list(table.index.names) == ["column", "category"]:
        counts = [np.bincount(column, minlength=size) for column, size in zip(codes, sizes, strict=True)]
        return np.concatenate(counts).astype(float)
    return np.bincount(np.ravel_multi_index(codes, sizes), minlength=math.prod(sizes)).astype(float)


def _check_estimates_are_unbiased(subject: Subject) -> None:
    """Check that the mean of the estimates over many releases is the truth."""
    tables, truth, what = subject.once(_estimates)
    estimates = np.array([table[what].to_numpy(float) for table in tables])
    require(estimates.shape[1:] == truth.shape, f"{estimates.shape[1]} estimates for {truth.size} values")
    std_error = estimates.std(axis=0, ddof=1) / math.sqrt(_REPEATS)
    distance = np.abs(estimates.mean(axis=0) - truth)
    require(
        (distance <= _STANDARD_ERRORS * std_error + 1e-9 * np.abs(truth).max()).all(),
        f"the estimates are biased: over {_REPEATS} releases their mean is off by up to "
        f"{(distance / np.maximum(std_error, 1e-300)).max():.1f} standard errors",
    )


def _check_standard_errors_are_right(subject: Subject) -> None:
    """Check that the stated standard errors are those of the estimates."""
    tables, _, what = subject.once(_estimates)
    actual = np.array([table[what].to_numpy(float) for table in tables]).std(axis=0, ddof=1)
    ratio = np.mean([table["std_error"].to_numpy(float) for table in tables], axis=0) / actual
    # Of 200 values, the standard deviation is known to 5 %.
    require((ratio > 0.75).all(), f"the estimates vary {1 / ratio.min():.2f} times as much as std_error says")
    if what == "count":  # that of a mean may be one for the population
        require((ratio < 1.33).all(), f"std_error is {ratio.max():.2f} times how much the estimates vary")


def _check_rows_stay_in_place(subject: Subject) -> None:
    """Check that report i is that of record i."""
    size = 3000
    fitted = subject.fit(random_state=SEED, **subject.epsilon_at_most(4.0 * len(subject.values)))
    marked = np.random.default_rng(SEED).random(size) < 0.5
    rows = {name: [values[0 if first else -1] for first in marked] for name, values in subject.values.items()}
    reports = fitted.transform(subject.frame(rows))
    require(len(reports) == size, f"{size} records gave {len(reports)} reports")
    for chosen in (marked, ~marked):
        part = {
            name: [value for value, use in zip(column, chosen, strict=True) if use] for name, column in rows.items()
        }
        table, truth, what = _estimate(fitted, reports[chosen], part, subject)
        bound = (_STANDARD_ERRORS + 2) * table["std_error"].to_numpy(float) + 1e-6
        require(
            (np.abs(table[what].to_numpy(float) - truth) <= bound).all(),
            "the reports of some records are not in the rows of these records",
        )


def _check_reports_can_be_read(subject: Subject) -> None:
    """Check that `tally` and the estimates accept the output of `transform`, and that tallies can be added."""
    size = 50
    fitted = subject.fit(random_state=SEED)
    reports = fitted.transform(subject.frame(subject.rows(size)))
    if looks_like_the_original(fitted, subject):
        codes_of(columns_of(reports), subject)
    read = [name for name in ("tally", "estimate_counts", "estimate_mean") if hasattr(fitted, name)]
    if not read:
        raise SkipTest("nothing reads the reports")
    for name in read:
        getattr(fitted, name)(reports)
    if hasattr(fitted, "tally"):
        tally = fitted.tally(reports)
        require(tally.n_reports == size, f"a tally of {size} reports counts {tally.n_reports}")
        require((tally + tally).n_reports == 2 * size, "two tallies do not add")


CHECKS = (
    _check_estimates_are_unbiased,
    _check_standard_errors_are_right,
    _check_rows_stay_in_place,
    _check_reports_can_be_read,
)
