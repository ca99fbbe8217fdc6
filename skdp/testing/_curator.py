"""The contract of estimators that release statistics of a table in `fit`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Literal
from unittest import SkipTest

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from skdp.base import collect_output, rows_and_target
from skdp.testing._checks import CHECKS as COMMON_CHECKS
from skdp.testing._checks import bind_checks, tabulate_checks
from skdp.testing._replay import replay_release
from skdp.testing._subject import (
    Curator,
    counted_draws,
    fitted_attributes,
    hash_value,
    read_columns,
    require,
    watched_draws,
)


def check_noise(subject: Curator) -> None:
    """Cover the last row of the table, of a small one and of a single row by the noise of `skdp.randomness`."""
    # Small tables have the largest sensitivity where it follows from the rows.
    is_of_values = subject.guarantee().relation == "replace_values"
    for size in (len(subject.X), 4, 1):
        X, neighbor = subject.X[:size], subject.X[: size - 1]
        if is_of_values:
            # The last row gets the protected values of a row in which they differ.
            positions = np.arange(len(subject.X))
            positions[size - 1] = subject.find_other_values(size - 1)
            neighbor = subject.replace_protected(positions)[:size]
        replay = replay_release(subject.estimator, X, neighbor)
        if replay.draws.empty and replay.guarantee.epsilon:
            raise SkipTest("the noise is not drawn by skdp.randomness")
        require(
            replay.passed,
            f"the noise must cover the last of {size} rows, got:"
            f" {'; '.join(replay.findings)}. See `replay_release`.",
        )


def check_attributes(subject: Curator) -> None:
    """Attributes (also private ones) and warnings that do not change with the seed do not depend on the rows."""
    rows = np.arange(len(subject.X))
    tables = [
        subject.X.iloc[chosen]
        for chosen in (rows, rows[:1].repeat(7), rows[-1:].repeat(4))
    ]
    if subject.guarantee().relation == "replace_values":
        # All other values are public, like the number of rows.
        tables = [
            subject.replace_protected(chosen) for chosen in (rows, rows[::-1], 0 * rows)
        ]
    hashes: dict[str, set[str]] = {}
    for X in tables:
        # A fair choice by noise is equal for all of eight seeds with probability 1/128.
        for name, value in set.intersection(
            *(_hash_fit(subject, X, seed) for seed in range(8))
        ):
            hashes.setdefault(name, set()).add(value)
    names = sorted(name for name, values in hashes.items() if len(values) > 1)
    require(
        not names,
        f"what depends on the rows must have noise, got equal values of {names} for all"
        " seeds. Derive them from noisy numbers.",
    )


def _hash_fit(subject: Curator, X: Any, seed: int) -> set[tuple[str, str]]:
    """Hash the attributes and the messages of a fit, by name."""
    prepared = subject.prepare_noisy(random_state=seed)
    with collect_output() as messages:
        prepared.fit(*rows_and_target(prepared, X))
    parts = fitted_attributes(prepared) | {"warnings": sorted(messages)}
    return {(name, hash_value(value)) for name, value in parts.items()}


def check_no_rows(subject: Curator) -> None:
    """Release a table without rows: an error would show the private number of rows."""
    if subject.guarantee().relation == "replace_values":
        raise SkipTest("the number of rows is public")
    subject.release(subject.prepare(), subject.X[:0])


def check_tables(subject: Curator) -> None:
    """With a seed, neither the library, dtypes nor row labels of equal values change the release."""
    rounded = subject.X.copy()
    for name in rounded.select_dtypes("number"):
        rounded[name] = rounded[name].round()
    with_gap = rounded.astype(object)
    with_gap.iloc[0] = None
    # Whole numbers may be stored as integers; a missing one makes them floats.
    for X in (subject.X, rounded, with_gap.infer_objects()):
        try:
            expected = _describe_release(subject, X)
        except (TypeError, ValueError):
            continue  # such values are refused
        for form, table in _list_forms(X):
            require(
                _describe_release(subject, table) == expected,
                f"{form} must give the release of equal values, got another one. Convert"
                " values by the declared bounds or categories.",
            )


def _describe_release(subject: Curator, X: Any) -> Any:
    prepared = subject.release(subject.prepare(random_state=5), X)
    described = [subject.describe(prepared)]
    if hasattr(prepared, "transform"):
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            released = prepared.transform(rows_and_target(prepared, X)[0])
        require(
            type(released) is type(X),
            f"transform must return a {type(X).__name__}, got a"
            f" {type(released).__name__}. Convert the output to the type of X.",
        )
        # Whole numbers equal whatever their dtype.
        described.append(read_columns(released))
    return described


def _list_forms(X: pd.DataFrame) -> Iterator[tuple[str, Any]]:
    """Write a table with other dtypes, with row labels, and in other libraries."""
    objects = X.astype(object).where(X.notna(), None)
    yield "columns of Python objects", objects
    yield "nullable dtypes", X.convert_dtypes()
    labels = [f"person {row}" for row in range(len(X))]
    yield "row labels", X.set_axis(pd.Index(labels, name="person"))
    columns: Any = {name: objects[name].tolist() for name in X}
    for library in ("polars", "pyarrow"):
        with suppress(ImportError):
            yield library, nw.from_dict(columns, backend=library).to_native()


def check_transform(subject: Curator) -> None:
    """`transform` is a function of each row, draws nothing and costs nothing."""
    prepared = subject.release(subject.prepare())
    if not hasattr(prepared, "transform") or getattr(prepared, "protects_rows", False):
        raise SkipTest("there is no transform, or its rows are private")
    X, _ = rows_and_target(prepared, subject.X)
    n_rows = len(X) // 2
    with counted_draws() as drawn:
        whole = read_columns(prepared.transform(X))
        half = read_columns(prepared.transform(X[:n_rows]))
    require(
        not drawn[0],
        f"transform must draw nothing, got {drawn[0]} bytes. Release in `fit`.",
    )
    first = {name: column[:n_rows] for name, column in whole.items()}
    require(
        repr(half) == repr(first),
        "transform must be a function of each row, got other values without the other"
        " rows. Use fitted attributes alone.",
    )


class _Stop(BaseException):
    """An interruption."""


def check_interrupted_fit(subject: Curator) -> None:
    """Leave all attributes of the earlier fit, or none, if a fit is interrupted at its first draw."""
    subject.spending_guarantee()
    prepared = subject.release(subject.prepare())
    before = fitted_attributes(prepared)

    def stop(source: type, size: int, drawn: Any) -> None:
        raise _Stop

    with suppress(_Stop), watched_draws(stop):
        subject.release(prepared)
    after = fitted_attributes(prepared)
    is_unchanged = before.keys() == after.keys() and all(
        after[name] is before[name] for name in before
    )
    names = {name for name in after if name.endswith("_")}
    require(
        is_unchanged or names <= {"n_features_in_", "feature_names_in_"},
        f"an interrupted fit must leave the attributes of one fit, got {sorted(names)} of"
        " two. Set attributes after all draws.",
    )


CHECKS: tuple[Callable[[Any], None], ...] = (
    *COMMON_CHECKS,
    check_no_rows,
    check_attributes,
    check_tables,
    check_transform,
    check_interrupted_fit,
    check_noise,
)


def curator_checks(
    estimator: BaseEstimator, X: pd.DataFrame
) -> Iterator[tuple[str, Callable[[], None]]]:
    """List the checks of `check_curator` by name, for a test runner."""
    return bind_checks(Curator(estimator, X), CHECKS)


def check_curator(
    estimator: BaseEstimator,
    X: pd.DataFrame,
    *,
    on_fail: Literal["raise"] | None = "raise",
) -> pd.DataFrame:
    """Check that an estimator releases statistics as the contract of skdp demands.

    The counterpart of `check_privatizer` for estimators whose `fit` releases statistics of a table. The checks are
    about the guarantee and its statement, charges, errors, random bits, noise (by `replay_release`), fitted
    attributes, and tables of other libraries. The docstring of each check states what it guarantees.

    Parameters
    ----------
    estimator : estimator
        Instance with `fit` and, after it, `guarantee_`; with the parameters `ledger` and `random_state`. It is
        cloned and never fitted itself.

    X : pandas.DataFrame
        Public rows, at least 20. The last column is the target of an estimator that requires one.

    on_fail : {'raise', None}, default='raise'
        If None, all failures are listed, and none is raised.

    Returns
    -------
    pandas.DataFrame
        One row per check, with the columns 'check', 'status' ('passed', 'skipped' or 'failed'), 'reason' and
        'seconds'.

    Raises
    ------
    AssertionError
        If a check fails, with its name, what was expected, what came, and a remedy.

    See Also
    --------
    check_privatizer : Checks of a transformer that privatizes each row.
    replay_release : Replay of the noise on a neighboring table.

    Notes
    -----
    **Privacy.** X is not protected, so it must be public. The checks find common mistakes; an estimator that passes
    them is not proven private. For a guarantee of named columns ("replace_values"), tables that are compared differ
    in the values of these columns.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import DPMean
    >>> from skdp.testing import check_curator
    >>> X = pd.DataFrame({"a": np.linspace(0, 1, 30)})
    >>> results = check_curator(DPMean(bounds=(0, 1)), X)
    >>> "failed" in set(results["status"])
    False
    """
    return tabulate_checks(curator_checks(estimator, X), on_fail)
