"""Run every check of the contract on a transformer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Literal
from unittest import SkipTest

import pandas as pd
from sklearn.base import BaseEstimator

from skdp.base import TableLike
from skdp.testing import (
    _error_checks,
    _frame_checks,
    _leak_checks,
    _promise_checks,
    _randomness_checks,
)
from skdp.testing._subject import Subject
from skdp.testing._tools import named

Check = Callable[[Subject], None]


def _named(*checks: Check) -> dict[str, Check]:
    return {check.__name__.removeprefix("_"): check for check in checks}


_ALL = _named(
    *_promise_checks.CHECKS,
    *_randomness_checks.CHECKS,
    *_error_checks.CHECKS,
    *_leak_checks.CHECKS,
    *_frame_checks.CHECKS,
)
_OF_MEMORY = _named(*_randomness_checks.MEMORY_CHECKS)


def privatizer_checks(
    estimator: BaseEstimator, X: TableLike | None = None
) -> Iterator[tuple[str, Callable[[], None]]]:
    """List the checks of `check_privatizer` by name, to be run separately by a test runner."""
    subject = Subject.of(estimator, X)
    checks = _ALL | _OF_MEMORY if subject.memoised else _ALL
    for name, check in checks.items():
        run = partial(check, subject)
        yield name, partial(named, type(estimator).__name__, name, run)


def check_privatizer(
    estimator: BaseEstimator,
    X: TableLike | None = None,
    *,
    expected_failed_checks: Mapping[str, str] | None = None,
    on_fail: Literal["raise"] | None = "raise",
) -> pd.DataFrame:
    """Check that a transformer which privatizes its rows satisfies the contract of this library.

    The counterpart of scikit-learn's `check_estimator` for privacy: the enumerated channel satisfies the stated
    guarantee; reports follow that channel; an audit of reports does not refute the guarantee, with or without a
    channel; estimates are unbiased with correct standard errors; every row, call, column, copy, thread and process
    draws fresh random bits; hundreds of calls of small tables are alike; nothing private is stored, shown or carried
    over in dtypes, categories or metadata; releases are charged before they are made; and lazy
    frames are refused.

    Parameters
    ----------
    estimator : estimator
        An object with `fit`, `transform` and, after `fit`, `guarantee_`. Optional parts are checked too: the
        methods `channel`, `tally`, `estimate_counts`, `estimate_mean`, `set_output`, and the parameters `epsilon`,
        `ledger`, `random_state`. It is cloned and never fitted itself.
    X : dataframe or 2-D array, optional
        Public rows; each column is tried with the distinct values in X. By default rows are generated from the
        parameter ``categories`` or ``bounds``; if it declares nothing, for two columns. Cells of lists are given as
        tuples.
    expected_failed_checks : mapping of str to str, optional
        Checks that are known to fail, and the reasons. Such a check fails if it passes.
    on_fail : {"raise", None}, default="raise"
        Whether to raise at the first failure, or to list all of them.

    Returns
    -------
    pandas.DataFrame
        One row per check: ``check, status, reason, seconds``. The status is "passed", "skipped" (with the reason),
        "xfail" (expected to fail, and did) or "failed".

    Raises
    ------
    AssertionError
        If a check fails, with its name and the reason.
    TypeError, ValueError
        If the estimator is not a transformer, no rows can be generated for it, or a parameter is out of range.

    See Also
    --------
    sklearn.utils.estimator_checks.check_estimator : The conventions of scikit-learn.

    Notes
    -----
    **Privacy.** Only generated rows, or X, are used; they are not protected, so X must be public. The checks look for
    common mistakes. A transformer that passes them is not proven private: `channel` is the author's statement, and
    tests of samples do not detect small deviations.

    The audit (the check ``check_reports_keep_the_guarantee``, by the method of `skdp.evaluation.audit_epsilon`) draws a
    million reports of up to six records that differ in all columns; fewer of reports with more than 16 columns. It is
    made at an epsilon between 0.5 and 3, to which the parameter ``epsilon`` is set if it is a number outside. It finds
    a transformer that states 4/5 of its true epsilon if it reports one of up to 16 values, two columns of a few values,
    some bits, hashes of skdp, or numbers. It does not see an epsilon that is only some percent too large; one that
    shows only between other records, at another epsilon or in rare events, such as reports of the one true value of
    hundreds; one that depends on the call (on how many rows there are, on their order, or on earlier calls), as its
    calls have many equal rows; and what takes a computation that it does not know, such as the hash function of
    another library: give that to `skdp.evaluation.audit_epsilon` as a statistic.

    A transformer that memoises its reports (its parameter ``secret_key`` is set, and `transform` takes ``record_id``)
    must satisfy all of this for new records: where a check gives no ids, new ones are generated. Further checks are
    about records that report again: they repeat their reports, many reports and reports of two values satisfy their
    guarantees, and record ids are required, hidden and not stored.

    The statistical tests use the seed of the estimator, if it has one, and give the same answer every time. Without
    one, each fails by chance with a probability of about 1e-6. The audit takes most of the time.

    Examples
    --------
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.testing import check_privatizer
    >>> results = check_privatizer(RandomizedResponseEncoder(epsilon=1.0, categories={"smokes": ["yes", "no"]}))
    >>> set(results["status"])
    {'passed'}

    A transformer that returns its input:

    >>> from sklearn.base import BaseEstimator, TransformerMixin
    >>> class Trusting(TransformerMixin, BaseEstimator):
    ...     def __init__(self, categories="auto"):
    ...         self.categories = categories
    ...     def fit(self, X, y=None):
    ...         return self
    ...     def transform(self, X):
    ...         return X
    >>> check_privatizer(Trusting())
    Traceback (most recent call last):
        ...
    AssertionError: Trusting: check_guarantee_is_stated: after fit, guarantee_ must be a PrivacyGuarantee
    """
    expected = dict(expected_failed_checks or {})
    names = [*_ALL, *_OF_MEMORY]
    unknown = [name for name in expected if name not in names]
    if unknown:
        raise ValueError(
            f"expected_failed_checks names no checks: {unknown}; there are {names}"
        )
    if on_fail not in ("raise", None):
        raise ValueError(f"on_fail must be 'raise' or None, got {on_fail!r}")
    results = []
    for name, check in privatizer_checks(estimator, X):
        start = time.perf_counter()
        status, reason = _outcome(check)
        # A check that passes after all is a failure, so that the list stays true.
        if name in expected and status == "failed":
            status, reason = "xfail", expected[name]
        elif name in expected and status == "passed":
            status, reason = "failed", f"{name}: passes after all"
        if status == "failed" and on_fail == "raise":
            raise AssertionError(reason)
        results.append((name, status, reason, time.perf_counter() - start))
    return pd.DataFrame(results, columns=["check", "status", "reason", "seconds"])


def _outcome(check: Callable[[], None]) -> tuple[str, str]:
    try:
        check()
    except SkipTest as skipped:
        return "skipped", str(skipped)
    except AssertionError as failed:
        return "failed", str(failed)
    return "passed", ""
