"""Checks that nothing but the reports depends on the data."""

from __future__ import annotations

import gc
import pickle
import warnings
import weakref
from collections.abc import Iterator
from typing import Any
from unittest import SkipTest

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skdp.base import collect_output, rows_and_target
from skdp.privacy import BudgetExceeded, Mu, PrivacyLedger, Rho, read_share
from skdp.testing._subject import Subject
from skdp.testing._tools import (
    RecordingLedger,
    counted_draws,
    fitted,
    is_table,
    leaves_of_attributes,
    released_attributes,
    require,
    walk,
    with_values,
)

# A number of rows that does not occur by chance in what is stored.
_ROWS = 1237


def _check_nothing_private_is_stored(subject: Subject) -> None:
    """Check that a fitted transformer depends neither on the rows nor on their number."""
    n_other_rows = 411
    for seed in (None, 0):
        fitted = _used(subject, _ROWS, seed)
        fitted_on_others = _used(subject, n_other_rows, seed)
        # Attribute by attribute, to say which one it is.
        names = []
        for name in sorted(vars(fitted).keys() | vars(fitted_on_others).keys()):
            pickled = pickle.dumps(vars(fitted).get(name))
            if pickled != pickle.dumps(vars(fitted_on_others).get(name)):
                names.append(name)
        require(
            not names,
            f"the attributes {names} depend on the rows of fit and transform",
        )
        # An estimator may say itself what is pickled, in __getstate__.
        require(
            pickle.dumps(fitted) == pickle.dumps(fitted_on_others),
            "the pickle depends on the rows of fit and transform",
        )
        for path, value in walk(fitted):
            what = _kind_of_leak(value)
            require(what is None, f"the attribute {path} holds {what}")
    # What a class or a module holds is no attribute, but keeps the table alive.
    frame = subject.frame(subject.rows(_ROWS))
    reference = weakref.ref(frame)
    estimator = subject.unfitted()
    estimator.fit(frame).transform(frame)
    estimator.fit_transform(frame)
    del frame
    # The collector takes as long as the whole check, and is needed for cycles alone.
    if reference() is not None:
        gc.collect()
    require(
        reference() is None,
        "the rows are still held by something after fit and transform",
    )


def _used(subject: Subject, n_rows: int, seed: int | None) -> Any:
    """Fit and transform tables of a number of rows."""
    # The number of rows is the seed, too: other numbers, other rows.
    fitted = subject.fit(subject.rows(n_rows, n_rows), random_state=seed)
    fitted.transform(subject.frame(subject.rows(n_rows, n_rows + 1)))
    return fitted


def _kind_of_leak(value: Any) -> str | None:
    """Say how an attribute resembles the rows or their number, if it does."""
    # It may be one that is left out of pickles.
    if is_table(value):
        return "a table or a column of one"
    if isinstance(value, np.ndarray) and _ROWS in value.shape:
        return "an array with an entry for each row"
    if isinstance(value, list | tuple | set | frozenset) and len(value) == _ROWS:
        return "an entry for each row"
    is_number = isinstance(value, int | float | np.number)
    is_numeric_array = isinstance(value, np.ndarray) and value.dtype.kind in "iuf"
    if (is_number or is_numeric_array) and np.any(value == _ROWS):
        return "the number of rows"
    return None


def _check_warnings_hide_values(subject: Subject) -> None:
    """Check that warnings, log records and output about declared values do not depend on the rows."""
    # Which values occur must not decide whether there is a message, or what it says.
    for method in ("fit", "transform", "fit_transform"):
        messages = []
        for code in (0, 1):
            frame = subject.frame(subject.equal_rows(100, code))
            estimator = subject.fit() if method == "transform" else subject.unfitted()
            with collect_output() as messages_of_call:
                getattr(estimator, method)(frame)
            messages.append(messages_of_call)
        require(
            messages[0] == messages[1],
            f"a warning, a log record or the output of {method} depends on the rows",
        )


def _check_ledger_is_charged_once_and_first(subject: Subject) -> None:
    """Check that each `transform` charges `guarantee_` once, before it draws; `fit` charges nothing."""
    subject.needs("ledger")
    frame = subject.frame(subject.rows(100))
    # A draw before the charge is a release for nothing if the charge fails, or if the
    # process ends between them.
    with counted_draws() as draws:
        ledger = RecordingLedger(draws, epsilon=1e9)
        fitted = subject.fit(ledger=ledger)
        require(not ledger.log, "fit charges the ledger")
        for n_calls in (1, 2):
            n_bytes = draws[0]
            fitted.transform(frame)
            require(
                len(ledger.log) == n_calls,
                f"{n_calls} calls of transform charge {len(ledger.log)} times",
            )
            guarantee, n_bytes_at_charge = ledger.log[-1]
            require(
                guarantee == fitted.guarantee_,
                "the ledger is charged with something else than guarantee_",
            )
            require(
                n_bytes_at_charge == n_bytes,
                "coins are drawn before the ledger is charged",
            )
        # Rows could otherwise be released for nothing by a change of a parameter.
        fitted.set_params(ledger=None).transform(frame)
        require(
            len(ledger.log) == 3,
            "a ledger that is taken away after fit is not charged any more",
        )


def _check_budget_is_kept(subject: Subject) -> None:
    """Check that over the budget, nothing is drawn, released or charged, and `BudgetExceeded` is raised."""
    subject.needs("ledger")
    frame = subject.frame(subject.rows(100))
    with counted_draws() as draws:
        epsilon = subject.fit().guarantee_.epsilon
        n_bytes_of_fit = draws[0]  # public ones, such as those of a hash function
    if epsilon == 0:
        raise SkipTest("nothing is spent")
    # It covers one call and no second one.
    ledger = PrivacyLedger(epsilon=1.5 * epsilon)
    fitted = subject.fit(ledger=ledger)
    fitted.transform(frame)
    spent = ledger.spent
    calls = ((fitted.transform, 0), (fitted.fit_transform, n_bytes_of_fit))
    for release, n_public_bytes in calls:
        with counted_draws() as draws:
            try:
                release(frame)
            except BudgetExceeded:
                require(
                    draws[0] == n_public_bytes,
                    "coins are drawn although the budget is exceeded",
                )
            else:
                raise AssertionError(
                    "something is released although the budget is exceeded"
                )
        require(ledger.spent == spent, "a refused release is charged")


def _check_use_before_fit(subject: Subject) -> None:
    """Check that before `fit`, everything that needs it raises `NotFittedError`."""
    frame = subject.frame(subject.rows(4))
    for method in ("transform", "tally", "estimate_counts", "estimate_mean", "channel"):
        # A clone for each, as a method may leave something behind.
        unfitted = subject.unfitted()
        if not hasattr(unfitted, method):
            continue
        try:
            getattr(unfitted, method)(*([] if method == "channel" else [frame]))
        except NotFittedError:
            continue
        except Exception as error:
            raise AssertionError(
                f"{method} before fit raises {type(error).__name__}, not NotFittedError"
            ) from error
        raise AssertionError(f"{method} works before fit")


CHECKS = (
    _check_nothing_private_is_stored,
    _check_warnings_hide_values,
    _check_ledger_is_charged_once_and_first,
    _check_budget_is_kept,
    _check_use_before_fit,
)


# A small epsilon, so that hardly any release is nearly certain, and therefore equal for
# all seeds.
_EPSILON = 1e-3


def _check_nothing_exact_is_shown(estimator: Any, X: Any) -> None:
    """Check that attributes (also private ones) and warnings equal for all seeds do not depend on rows."""
    rows = np.arange(len(X))
    # Tables of other numbers of rows, values and extremes.
    places_of_tables = [rows, rows[:1].repeat(7), rows[-1:].repeat(4)]
    tables = [X.iloc[places] for places in places_of_tables]
    guarantee = fitted(estimator, X).guarantee_
    if guarantee.relation == "replace_values":
        # All else is public: tables of other protected values.
        equal = [np.full(len(X), place) for place in (0, len(X) - 1)]
        tables = [
            with_values(X, guarantee, places) for places in (rows, rows[::-1], *equal)
        ]
    texts_of_path: dict[str, list[str]] = {}
    for table in tables:
        for path, text in _texts_of_all_seeds(estimator, table):
            texts_of_path.setdefault(path, []).append(text)
    # With noise, it would differ between the seeds; without, it may still be public,
    # and then it is the same for all tables.
    exact = []
    for path, texts in sorted(texts_of_path.items()):
        if len(texts) == len(tables) and len(set(texts)) > 1:
            exact.append(path)
    require(not exact, f"{', '.join(exact[:3])} follow from the rows without noise")


def _texts_of_all_seeds(estimator: Any, table: Any) -> Iterator[tuple[str, str]]:
    """Yield what is equal for all seeds, by its path."""
    # A fair decision by noise is equal for all of these seeds, and opposite for another
    # table, with chance 2**-15.
    seeds = range(8)
    # A number with noise of this size is the same for all of them by chance only.
    texts = dict(_texts_of_fit(estimator, table, seeds[0]))
    for seed in seeds[1:]:
        texts_of_seed = dict(_texts_of_fit(estimator, table, seed))
        texts = dict(texts.items() & texts_of_seed.items())
    yield from texts.items()


def _texts_of_fit(estimator: Any, table: Any, seed: int) -> Iterator[tuple[str, str]]:
    """Yield the warnings of a fit and its attributes, as texts by their paths."""
    epsilon = _small(estimator.epsilon)
    fitted = clone(estimator).set_params(random_state=seed, epsilon=epsilon)
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        fitted.fit(*rows_and_target(fitted, table))
    messages = sorted(str(warning.message) for warning in caught_warnings)
    yield "warnings", repr(messages)
    yield from leaves_of_attributes(released_attributes(fitted))


def _small(epsilon: Any) -> Any:
    """Return a small epsilon, rho or mu, or the given one, if it is smaller."""
    if not isinstance(epsilon, Rho | Mu):
        return min(_EPSILON, float(epsilon))
    # rho is quadratic in epsilon, and mu linear.
    amount = _EPSILON**2 if isinstance(epsilon, Rho) else _EPSILON
    small = type(epsilon)(amount, epsilon.delta)
    if read_share(small).amount < read_share(epsilon).amount:
        return small
    return epsilon


def released_values(estimator: Any) -> dict[str, str]:
    """Write the public attributes set by a fit as texts by their paths, to compare releases."""
    # Private ones, such as the number of calls, may differ between equal releases.
    attributes = {}
    for name, value in released_attributes(estimator).items():
        if not name.startswith("_") and name != "guarantee_":
            attributes[name] = value
    return dict(leaves_of_attributes(attributes))


EXACT_CHECKS = [_check_nothing_exact_is_shown]
