"""Checks of the contract of estimators that release statistics of a table in `fit`."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any
from unittest import SkipTest

import narwhals.stable.v2 as nw
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
from skdp.testing._burdened_frames import signs
from skdp.testing._carry_checks import (
    opposite_frames,
    require_same_form,
    require_same_tables,
)
from skdp.testing._error_checks import texts_of
from skdp.testing._frame_checks import REPRESENTATION_CHECKS
from skdp.testing._leak_checks import EXACT_CHECKS
from skdp.testing._tools import (
    RecordingLedger,
    columns_of,
    counted_draws,
    named,
    recorded_bytes,
    require,
    transformed,
)
from skdp.testing._tools import fitted as _fitted
from skdp.testing._tools import released_attributes as _released
from skdp.testing._tools import released_text as _text
from skdp.testing.replay import replay_release

_SECRET = "hunter2"

# The frames that are tried where a fit takes longer than a transform.
_KINDS = (
    "pandas",
    "pandas, category",
    "pyarrow",
    "pyarrow, dictionary",
    "polars",
    "polars, Categorical",
)


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

    The counterpart of `check_privatizer` for estimators whose `fit` releases statistics of a table. It checks that the
    guarantee is stated; `fit` charges the ledger once, before it draws, and again at each further fit; over the budget
    nothing is released; mistakes cost nothing and show no value; tables of no rows and of one row are accepted; copies
    and fits draw fresh random bits, and a seed repeats them; the fitted estimator contains nothing of the table, and
    nothing in it or its warnings follows from the rows without noise; noise of the samplers of `skdp.randomness` covers
    what a row changes (`check_sensitivity`); samples carry over nothing but values; all kinds of frames,
    dtypes of the same values, and row labels give the same result; lazy frames are refused; and a failed fit leaves an
    earlier one unchanged.

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
    check_privatizer : For transformers that randomise each row.

    Notes
    -----
    **Privacy.** X is not protected, so it must be public. The checks look for common mistakes; an estimator that passes
    them is not proven private.

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
    guarantee = getattr(_fitted(estimator, X, random_state=None), "guarantee_", None)
    require(
        isinstance(guarantee, PrivacyGuarantee),
        "after fit, guarantee_ must be a PrivacyGuarantee",
    )
    assert isinstance(guarantee, PrivacyGuarantee)
    require(guarantee.mechanism, "guarantee_ must name the mechanism")
    require(
        guarantee.scope == tuple(X.columns),
        f"the scope of guarantee_ is {guarantee.scope}, not the columns of X",
    )
    require(guarantee.secure, "guarantee_ says secure=False without a seed")
    if isinstance(estimator.epsilon, Rho | Mu):
        rho = guarantee.rho
        most = Fraction(round_up(read_share(estimator.epsilon).mu_squared / 2))
        require(
            guarantee.epsilon == 0 or rho is not None,
            f"guarantee_ has no rho, with epsilon={estimator.epsilon}",
        )
        require(
            rho is None or rho <= most,
            f"guarantee_ has rho {rho}, more than {estimator.epsilon}",
        )
    else:
        most = check_epsilon(estimator.epsilon)
        require(
            guarantee.epsilon <= most,
            f"guarantee_ has epsilon {guarantee.epsilon}, more than {float(most)}",
        )
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
        )
        original = clone(estimator).set_params(ledger=ledger)
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
    epsilon, delta = ledger.spent
    expected = 4 * guarantee.epsilon, 4 * guarantee.delta
    require(
        math.isclose(epsilon, expected[0]) and math.isclose(delta, expected[1]),
        f"four fits were charged {ledger.spent}, not {expected}",
    )


def _check_over_the_budget_nothing_is_released(estimator: Any, X: Any) -> None:
    """Check that `fit` raises `BudgetExceeded`, draws nothing, and leaves nothing on the estimator."""
    guarantee = _spends(estimator, X)
    ledger = PrivacyLedger(epsilon=guarantee.epsilon / 2, delta=guarantee.delta)
    refused = clone(estimator).set_params(ledger=ledger)
    with counted_draws() as counter:
        try:
            refused.fit(*rows_and_target(refused, X))
        except BudgetExceeded:
            pass
        else:
            raise AssertionError("fit released more than the ledger covers")
    require(counter[0] == 0, "fit drew coins although the ledger did not cover it")
    names = _released(refused).keys() - {"n_features_in_", "feature_names_in_"}
    require(
        not any(name.endswith("_") for name in names),
        f"a refused fit set {sorted(names)}",
    )


def _check_mistakes_cost_nothing_and_show_nothing(estimator: Any, X: Any) -> None:
    """Check that invalid rows and parameters raise TypeError or ValueError, without a charge, a draw or a value."""
    ledger = PrivacyLedger(epsilon=1e6, delta=0.5)
    cases: list[tuple[dict[str, Any], Any]] = [
        ({}, X.to_numpy()[:, 0]),
        ({"epsilon": -1}, X),
        ({"epsilon": math.nan}, X),
        ({"epsilon": True}, X),
        ({"random_state": np.random.default_rng(0)}, X),
    ]
    with counted_draws() as counter:
        for parameters, rows in cases:
            try:
                _fitted(estimator, rows, ledger=ledger, **parameters)
            except (TypeError, ValueError) as error:
                require(
                    not any(_SECRET in text for text in texts_of(error)),
                    "an error shows a value of the table",
                )
            else:
                raise AssertionError(
                    f"fit accepts {parameters or 'rows that it should not'}"
                )
    require(counter[0] == 0, "a fit that failed drew coins")
    require(ledger.spent == (0, 0), "a fit that failed was charged")


def _check_an_object_among_the_values_is_not_shown(estimator: Any, X: Any) -> None:
    """Check that a record with an object is refused without a charge, a draw or a value, or that nothing shows it."""
    ledger = PrivacyLedger(epsilon=1e6, delta=0.5)
    rows = X.astype(object)
    rows.iloc[0, 0] = type(_SECRET, (), {"__repr__": lambda self: _SECRET})()
    with counted_draws() as counter:
        try:
            fitted = _fitted(estimator, rows, ledger=ledger)
        except (TypeError, ValueError) as error:
            texts = list(texts_of(error))
        else:
            # Such an object is not among the values that it looks for.
            require(
                _SECRET not in _text(fitted), "a release shows an object of the table"
            )
            return
    require(
        not any(_SECRET in text for text in texts),
        "an error shows a value of the table",
    )
    require(counter[0] == 0, "a fit that failed drew coins")
    require(ledger.spent == (0, 0), "a fit that failed was charged")


def _check_tables_of_no_rows_and_of_one_are_answered(estimator: Any, X: Any) -> None:
    """Check that errors do not show the number of rows."""
    for rows in (0, 1):
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
    first_bytes = set()
    for estimator_of_fit in copies:
        np.random.seed(0)  # noqa: NPY002
        with recorded_bytes() as secure_bytes:
            _fitted(estimator_of_fit, X)
        require(len(secure_bytes) >= 8, "fit draws hardly any secure bytes")
        first_bytes.add(bytes(secure_bytes[:64]))
    require(len(first_bytes) == len(copies), "fits draw the same bytes")


def _check_a_seed_repeats(estimator: Any, X: Any) -> None:
    """Check that an int seed gives the same release, from a copy and from a second fit."""
    fitted = _fitted(estimator, X, random_state=3)
    text = _text(fitted)
    require(
        _text(_fitted(estimator, X, random_state=3)) == text,
        "two fits with one seed differ",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted.fit(*rows_and_target(fitted, X))
    require(_text(fitted) == text, "a second fit with one seed differs")
    pickled = pickle.loads(pickle.dumps(fitted))
    require(_text(pickled) == text, "a pickle releases something else")


def _check_nothing_of_the_table_stays(estimator: Any, X: Any) -> None:
    """Check that the fitted estimator contains no rows, no row numbers, and not the number of rows."""
    # An odd number is unlikely to occur otherwise.
    n_rows = max(len(X) - 7, 13) | 1
    fitted = _fitted(estimator, X.iloc[:n_rows])
    for name, value in _released(fitted).items():
        for part in _parts(value):
            require(
                not isinstance(part, pd.DataFrame | pd.Series),
                f"{name} holds a dataframe",
            )
            if isinstance(part, np.ndarray):
                require(n_rows not in part.shape, f"{name} has an entry for each row")
            elif isinstance(part, int | np.integer) and not isinstance(part, bool):
                require(part != n_rows, f"{name} is the exact number of rows")


def _parts(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _parts(part)


def _lists(X: Any) -> dict[Any, list[Any]]:
    """Read a pandas table as lists, with None for missing values."""
    objects = X.astype(object).where(X.notna(), None)
    return {name: objects[name].tolist() for name in X}


def _check_frames_of_all_kinds_give_the_same(estimator: Any, X: Any) -> None:
    """Check that polars and pyarrow tables with the same seed give the same release, and the same kind of frame."""
    text = _text(_fitted(estimator, X, random_state=5))
    for library in ("polars", "pyarrow"):
        try:
            table = nw.from_dict(_lists(X), backend=library).to_native()
        except ImportError:
            continue
        fitted = _fitted(estimator, table, random_state=5)
        require(_text(fitted) == text, f"{library} gives something else than pandas")
        if not hasattr(fitted, "transform"):
            continue
        output = transformed(fitted, table)
        require(
            type(output) is type(table),
            f"transform makes a {type(output).__name__} of a {library} table",
        )
        pandas_output = transformed(_fitted(estimator, X, random_state=5), X)
        require(
            columns_of(output) == columns_of(pandas_output),
            f"transform of a {library} table gives something else than of a pandas "
            "table",
        )


def _check_lazy_frames_are_refused_or_counted(estimator: Any, X: Any) -> None:
    """Check that a lazy frame is refused with a pointer to `skdp.engines`, or fitted with the same guarantee."""
    try:
        import polars as pl
    except ImportError:
        raise SkipTest("polars is not installed") from None
    frame = pl.DataFrame(_lists(X))
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


def _check_nothing_else_is_carried_over(estimator: Any, X: Any) -> None:
    """Check that fitted attributes and private rows differ in values only, for frames of every kind."""
    values = {name: list(dict.fromkeys(column)) for name, column in _lists(X).items()}
    for kind, *tables in opposite_frames(values):
        if kind not in _KINDS:  # a fit takes longer than a transform
            continue
        try:
            fitted = [_fitted(estimator, table, random_state=0) for table in tables]
        except (TypeError, ValueError):
            continue
        require(
            not signs(pickle.dumps(fitted[0])),
            f"{kind}: what the frame holds beside its rows is stored",
        )
        require_same_tables(kind, *fitted)
        if getattr(estimator, "protects_rows", None) is True:
            released = list(map(transformed, fitted, tables))
            require_same_form(kind, tables, released)
        if hasattr(estimator, "sample"):
            samples = [release.sample(20) for release in fitted]
            require_same_form(kind, tables, samples)


def _check_transform_draws_nothing(estimator: Any, X: Any) -> None:
    """Check that `transform` is a function of each row, costs nothing, and claims no protection of rows."""
    ledger = PrivacyLedger(epsilon=1e6, delta=0.5)
    fitted = _fitted(estimator, X, ledger=ledger)
    if not hasattr(fitted, "transform"):
        raise SkipTest("there is no transform")
    if getattr(fitted, "protects_rows", False):
        raise SkipTest("its rows are private")
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
    for rows in (len(X), 4, 1):
        replay = replay_release(estimator, X.iloc[:rows], X.iloc[: rows - 1])
        if replay.draws.empty and replay.guarantee.epsilon:
            raise SkipTest("its noise is not that of skdp.randomness")
        require(replay.passed, "; ".join(replay.findings))


CHECKS = [
    _check_guarantee_is_stated,
    _check_each_fit_is_charged_once_and_first,
    _check_over_the_budget_nothing_is_released,
    _check_mistakes_cost_nothing_and_show_nothing,
    _check_an_object_among_the_values_is_not_shown,
    _check_tables_of_no_rows_and_of_one_are_answered,
    _check_every_fit_draws_coins_of_its_own,
    _check_a_seed_repeats,
    _check_nothing_of_the_table_stays,
    *EXACT_CHECKS,
    _check_nothing_else_is_carried_over,
    _check_transform_draws_nothing,
    _check_noise_covers_what_a_row_changes,
    _check_frames_of_all_kinds_give_the_same,
    _check_lazy_frames_are_refused_or_counted,
    *REPRESENTATION_CHECKS,
]
