"""Checks of the contract of estimators that release statistics of a table in `fit`."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone

from skdp.base import rows_and_target
from skdp.exact import round_up
from skdp.privacy import (
    BudgetExceeded,
    Mu,
    PrivacyGuarantee,
    PrivacyLedger,
    Rho,
    check_epsilon,
    read_share,
)
from skdp.testing._error_checks import texts_of
from skdp.testing._frame_checks import REPRESENTATION_CHECKS, lists_of
from skdp.testing._leak_checks import EXACT_CHECKS, released_values
from skdp.testing._promise_checks import require_guarantee
from skdp.testing._replay import replay_release
from skdp.testing._tools import (
    RecordingLedger,
    columns_of,
    counted_draws,
    named,
    neighbours_of,
    recorded_bytes,
    require,
    transformed,
    with_values,
)
from skdp.testing._tools import fitted as _fitted
from skdp.testing._tools import released_attributes as _released

_SECRET = "hunter2"


def curator_checks(
    estimator: BaseEstimator, X: pd.DataFrame
) -> Iterator[tuple[str, Callable[[], None]]]:
    """List the checks of `check_curator` by name, to be run separately by a test runner."""
    if not isinstance(X, pd.DataFrame):
        raise TypeError(f"X must be a pandas.DataFrame, got {type(X).__name__}")
    for check in CHECKS:
        yield check.__name__.removeprefix("_"), partial(check, estimator, X)


def check_curator(estimator: BaseEstimator, X: pd.DataFrame) -> None:
    """Check that an estimator which releases statistics of a table satisfies the contract of this library.

    The counterpart of `check_privatizer` for estimators whose `fit` releases statistics of a table. It checks that
    the guarantee is stated; `fit` charges the ledger once, before it draws, and again at each further fit; over the
    budget nothing is released; mistakes cost nothing and show no value; tables of one row, and of none if their
    number is private, are accepted; copies and fits draw fresh random bits, and a seed repeats them; the fitted
    estimator contains nothing of the table, and nothing in it or its warnings follows from the rows without noise;
    noise of the samplers of `skdp.randomness` covers what a row changes (`replay_release`); all kinds of
    frames, dtypes of the same values, and row labels give the same result; lazy
    frames are refused; and a failed fit leaves an earlier one unchanged.

    Parameters
    ----------
    estimator : estimator
        An object with `fit` and, after it, `guarantee_`; with the parameters ``ledger`` and ``random_state``. It is
        cloned and never fitted itself.
    X : pandas.DataFrame
        Public rows to try it on, at least 20; for an estimator that needs a target, this is the last column.

    Raises
    ------
    AssertionError
        If a check fails, with its name and the reason.

    See Also
    --------
    check_privatizer : For transformers that randomize each row.

    Notes
    -----
    **Privacy.** X is not protected, so it must be public. The checks look for common mistakes; an estimator that passes
    them is not proven private. Of one that promises to protect named columns only ("replace_values"), the tables that
    are compared differ in the values of these, and all else is public.

    Examples
    --------
    >>> from skdp import DPMean
    >>> check_curator(DPMean(bounds=(0, 1)), pd.DataFrame({"a": np.linspace(0, 1, 30)}))
    """
    for name, check in curator_checks(estimator, X):
        with suppress(SkipTest):
            named(type(estimator).__name__, name, check)


def _check_guarantee_is_stated(estimator: Any, X: Any) -> None:
    """Check that `guarantee_` states epsilon, the columns, and whether the random bits are secure."""
    fitted = _fitted(estimator, X, random_state=None)
    # Of a guarantee for the values of named columns, these are columns of X.
    scope = fitted.guarantee_.scope
    is_of_values = fitted.guarantee_.relation == "replace_values"
    if not is_of_values or not set(scope) <= set(X.columns):
        scope = tuple(X.columns)
    guarantee = require_guarantee(fitted, scope)
    _require_no_more(guarantee, estimator.epsilon)
    if guarantee.epsilon > 0:
        require(
            guarantee.trust == "central",
            "a statistic of the table needs a trusted curator: trust='central'",
        )
        seeded = _fitted(estimator, X, random_state=0).guarantee_
        require(
            not seeded.secure,
            "guarantee_ says secure=True although the randomness comes from a seed",
        )


def _require_no_more(guarantee: PrivacyGuarantee, epsilon: Any) -> None:
    """Fail if a guarantee is weaker than what the parameter asks for."""
    if not isinstance(epsilon, Rho | Mu):
        most = check_epsilon(epsilon)
        require(
            guarantee.epsilon <= most,
            f"guarantee_ has epsilon {guarantee.epsilon}, more than {float(most)}",
        )
        return
    if guarantee.epsilon == 0:
        return
    # A mechanism of mu-GDP has rho = mu^2 / 2.
    most_rho = Fraction(round_up(read_share(epsilon).mu_squared / 2))
    require(
        guarantee.rho is not None and guarantee.rho <= most_rho,
        f"guarantee_ has rho {guarantee.rho}, which is none or more than {epsilon}",
    )


def _spends(estimator: Any, X: Any) -> PrivacyGuarantee:
    guarantee = _fitted(estimator, X).guarantee_
    if guarantee.epsilon == 0:
        raise SkipTest("it releases nothing that depends on the table")
    return guarantee


def _check_each_fit_is_charged_once_and_first(estimator: Any, X: Any) -> None:
    """Check that `fit` charges its guarantee before it draws, and that clones and copies share the ledger."""
    guarantee = _spends(estimator, X)
    with counted_draws() as counter:
        ledger = RecordingLedger(
            counter,
            epsilon=10 * guarantee.epsilon,
            delta=min(0.5, 10 * guarantee.delta),
            **neighbours_of(guarantee),
        )
        original = clone(estimator).set_params(ledger=ledger)
        # A copy that has a ledger of its own would spend the budget once more.
        copies = [original, clone(original), copy.deepcopy(original), original]
        for n_fits, estimator_of_fit in enumerate(copies, start=1):
            n_bytes = counter[0]
            _fitted(estimator_of_fit, X)
            require(
                len(ledger.log) == n_fits,
                f"fit charged the ledger {len(ledger.log)} times in {n_fits} fits",
            )
            _, n_bytes_at_charge = ledger.log[-1]
            require(
                n_bytes_at_charge == n_bytes,
                "fit drew coins before it charged the ledger",
            )
            require(
                counter[0] > n_bytes, "fit released something without drawing a coin"
            )
    # As floats: sums of a ledger are rounded up.
    epsilon, delta = ledger.spent
    expected = 4 * guarantee.epsilon, 4 * guarantee.delta
    require(
        math.isclose(epsilon, expected[0]) and math.isclose(delta, expected[1]),
        f"four fits were charged {ledger.spent}, not {expected}",
    )


def _check_over_the_budget_nothing_is_released(estimator: Any, X: Any) -> None:
    """Check that `fit` raises `BudgetExceeded`, draws nothing, and leaves nothing on the estimator."""
    guarantee = _spends(estimator, X)
    # It has half of what a fit asks for.
    ledger = PrivacyLedger(
        epsilon=guarantee.epsilon / 2,
        delta=guarantee.delta,
        **neighbours_of(guarantee),
    )
    refused = clone(estimator).set_params(ledger=ledger)
    with counted_draws() as counter:
        try:
            refused.fit(*rows_and_target(refused, X))
        except BudgetExceeded:
            pass
        else:
            raise AssertionError("fit released more than the ledger covers")
    require(counter[0] == 0, "fit drew coins although the ledger did not cover it")
    # That it was tried shows in what scikit-learn notes of the columns only.
    names = _released(refused).keys() - {"n_features_in_", "feature_names_in_"}
    require(
        not any(name.endswith("_") for name in names),
        f"a refused fit set {sorted(names)}",
    )


def _check_mistakes_cost_nothing_and_show_nothing(estimator: Any, X: Any) -> None:
    """Check that invalid rows and parameters raise TypeError or ValueError, without a charge, a draw or a value."""
    # All are refused for what is public: the shape of the table, or a parameter.
    mistakes: list[tuple[dict[str, Any], Any]] = [
        ({}, X.to_numpy()[:, 0]),
        ({"epsilon": -1}, X),
        ({"epsilon": math.nan}, X),
        ({"epsilon": True}, X),
        ({"random_state": np.random.default_rng(0)}, X),
    ]
    neighbours = neighbours_of(_fitted(estimator, X).guarantee_)
    for parameters, rows in mistakes:
        require(
            _fit_unless_refused(estimator, rows, neighbours, **parameters) is None,
            f"fit accepts {parameters or 'rows that it should not'}",
        )
    # An object of a user's class may be refused, or count as a value that is not
    # declared; what is released must not show it.
    rows = X.astype(object)
    rows.iloc[0, 0] = type(_SECRET, (), {"__repr__": lambda self: _SECRET})()
    fitted = _fit_unless_refused(estimator, rows, neighbours)
    if fitted is not None:
        require(
            _SECRET not in repr(released_values(fitted)),
            "a release shows an object of the table",
        )


def _fit_unless_refused(
    estimator: Any, rows: Any, neighbours: dict[str, Any], **parameters: Any
) -> Any:
    """Fit a clone, or return None; fail if a refusal costs or shows something."""
    ledger = PrivacyLedger(epsilon=1e6, delta=0.5, **neighbours)
    with counted_draws() as counter:
        try:
            return _fitted(estimator, rows, ledger=ledger, **parameters)
        except (TypeError, ValueError) as error:
            require(
                _SECRET not in "".join(texts_of(error)),
                "an error shows a value of the table",
            )
    require(counter[0] == 0, "a fit that failed drew coins")
    require(ledger.spent == (0, 0), "a fit that failed was charged")
    return None


def _check_tables_of_no_rows_and_of_one_are_answered(estimator: Any, X: Any) -> None:
    """Check that errors do not show the number of rows."""
    # The number of rows is private: an error for few of them would show it. It is public
    # where the promise is for values of some columns.
    least = 0
    if _fitted(estimator, X).guarantee_.relation == "replace_values":
        least = 1
    for rows in range(least, 2):
        fitted = _fitted(estimator, X.iloc[:rows])
        if hasattr(fitted, "transform"):
            transformed(fitted, X)


def _check_every_fit_draws_coins_of_its_own(estimator: Any, X: Any) -> None:
    """Check that fits, copies and pickles draw different bytes without a seed, for any seed of NumPy."""
    _spends(estimator, X)
    original = clone(estimator).set_params(random_state=None, ledger=None)
    copies = [
        original,
        original,
        clone(original),
        pickle.loads(pickle.dumps(original)),
        copy.deepcopy(original),
    ]
    # Each may have taken the state of a generator along.
    first_bytes = set()
    for estimator_of_fit in copies:
        np.random.seed(0)  # noqa: NPY002
        with recorded_bytes() as secure_bytes:
            _fitted(estimator_of_fit, X)
        require(len(secure_bytes) >= 8, "fit draws hardly any secure bytes")
        first_bytes.add(bytes(secure_bytes[:64]))
    require(len(first_bytes) == len(copies), "fits draw the same bytes")


def _check_lazy_frames_are_refused_or_counted(estimator: Any, X: Any) -> None:
    """Check that a lazy frame is refused with a pointer to `skdp.engines`, or fitted with the same guarantee."""
    try:
        import polars as pl
    except ImportError:
        raise SkipTest("polars is not installed") from None
    # An estimator that needs sums alone may let the engine of the frame count them.
    frame = pl.DataFrame(lists_of(X))
    try:
        fitted = _fitted(estimator, frame.lazy())
    except TypeError as error:
        require(
            "skdp.engines" in str(error),
            "the error for a lazy frame does not name skdp.engines",
        )
    else:
        guarantee = _fitted(estimator, frame).guarantee_
        require(
            fitted.guarantee_ == guarantee,
            "the promise for a lazy frame is another one than for its rows",
        )


def _check_transform_draws_nothing(estimator: Any, X: Any) -> None:
    """Check that `transform` is a function of each row, costs nothing, and claims no protection of rows."""
    neighbours = neighbours_of(_fitted(estimator, X).guarantee_)
    ledger = PrivacyLedger(epsilon=1e6, delta=0.5, **neighbours)
    fitted = _fitted(estimator, X, ledger=ledger)
    if not hasattr(fitted, "transform"):
        raise SkipTest("there is no transform")
    if getattr(fitted, "protects_rows", False):
        raise SkipTest("its rows are private")
    # What a fit released may be applied to any rows; the rows themselves come out
    # as they are, which is as `protects_rows` says.
    spent = ledger.spent
    with counted_draws() as counter:
        columns = columns_of(transformed(fitted, X))
        size = len(X) // 2
        columns_of_half = columns_of(transformed(fitted, X.iloc[:size]))
    require(counter[0] == 0, "transform draws coins")
    require(ledger.spent == spent, "transform is charged")
    for name, column in columns.items():
        require(
            repr(column[:size]) == repr(columns_of_half[name]),
            "a row becomes something else when other rows are left out",
        )


def _check_noise_covers_what_a_row_changes(estimator: Any, X: Any) -> None:
    """Check that the noise covers the last row of a table, of a small one and of one with a single row."""
    # Small tables have the largest sensitivity where it follows from the rows.
    guarantee = _fitted(estimator, X).guarantee_
    for rows in (len(X), 4, 1):
        # The last row is added, or removed.
        table, neighbour = X.iloc[:rows], X.iloc[: rows - 1]
        if guarantee.relation == "replace_values":
            # It gets other protected values, where they are other ones.
            places = np.append(
                np.arange(rows - 1), _place_of_others(X, guarantee, rows)
            )
            neighbour = with_values(X, guarantee, np.resize(places, len(X))).iloc[:rows]
        replay = replay_release(estimator, table, neighbour)
        if replay.draws.empty and replay.guarantee.epsilon:
            raise SkipTest("its noise is not that of skdp.randomness")
        require(replay.passed, "; ".join(replay.findings))


def _place_of_others(X: Any, guarantee: PrivacyGuarantee, n_rows: int) -> int:
    """Return a row whose protected values are not those of the last of some rows."""
    values = X[list(guarantee.scope)]
    is_other = (values != values.iloc[n_rows - 1]).any(axis=1).to_numpy()
    if not is_other.any():
        raise SkipTest("all protected values are equal")
    return int(np.argmax(is_other))


CHECKS = [
    _check_guarantee_is_stated,
    _check_each_fit_is_charged_once_and_first,
    _check_over_the_budget_nothing_is_released,
    _check_mistakes_cost_nothing_and_show_nothing,
    _check_tables_of_no_rows_and_of_one_are_answered,
    _check_every_fit_draws_coins_of_its_own,
    *EXACT_CHECKS,
    _check_transform_draws_nothing,
    _check_noise_covers_what_a_row_changes,
    _check_lazy_frames_are_refused_or_counted,
    *REPRESENTATION_CHECKS,
]
