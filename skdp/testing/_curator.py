"""Checks of estimators that release statistics of a table in `fit`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from unittest import SkipTest

import pandas as pd
from sklearn.base import BaseEstimator

from skdp.testing._checks import CHECKS as COMMON_CHECKS
from skdp.testing._checks import bind_checks, tabulate_checks
from skdp.testing._replay import replay_release
from skdp.testing._subject import Curator, require


def check_noise(subject: Curator) -> None:
    """Check that the noise covers the last row, for all rows, 4 rows and a single row.

    All outputs must follow from noisy numbers (see `replay_release`).
    """
    # A sensitivity that depends on the rows is largest for small tables.
    is_of_values = subject.guarantee().relation == "replace_values"
    for size in (len(subject.X), 4, 1):
        X, neighbor = subject.X[:size], subject.X[: size - 1]
        if is_of_values:
            # The protected values of the last row are replaced by values of another row.
            neighbor = subject.replace_protected(size - 1)[:size]
        replay = replay_release(subject.estimator, X, neighbor)
        if replay.guarantee.epsilon and replay.draws.empty and not replay.epsilon:
            raise SkipTest("the noise is not drawn by skdp.randomness")
        require(
            replay.passed,
            f"the noise must cover the last of {size} rows, got:"
            f" {'; '.join(replay.findings)}. See `replay_release`.",
        )


CHECKS = (*COMMON_CHECKS, check_noise)


def curator_checks(
    estimator: BaseEstimator, X: pd.DataFrame
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the checks of `check_curator` and their names, for a test runner."""
    return bind_checks(Curator(estimator, X), CHECKS)


def check_curator(
    estimator: BaseEstimator,
    X: pd.DataFrame,
) -> pd.DataFrame:
    """Check that an estimator adheres to the conventions of central-model estimators.

    This is the counterpart of `check_privatizer` for estimators whose `fit` releases statistics of a table. The checks
    cover the guarantee and its statement, charges, errors, random bits, and the noise of neighboring tables (by
    `replay_release`).

    Parameters
    ----------
    estimator : estimator
        Estimator instance with the attribute `guarantee_` after `fit`, and the parameters `ledger` and `random_state`.
        It is cloned and not fitted itself.

    X : pandas.DataFrame
        Public rows, at least 20. The last column is the target of an estimator that requires a target.

    Returns
    -------
    pandas.DataFrame
        One row per check, with the columns 'check', 'status' ('passed' or 'skipped'), 'reason' and
        'seconds'.

    Raises
    ------
    AssertionError
        If a check fails. The message has the name of the check, the expected and the actual result, and a remedy.

    See Also
    --------
    check_privatizer : Checks of a transformer that privatizes each row.
    replay_release : Replay of the noise on a neighboring table.

    Notes
    -----
    **Privacy.** X is not protected, so it must be public. The checks find common mistakes, but they do not prove that
    an estimator is private. For a guarantee of some columns ("replace_values"), the neighboring tables differ in the
    values of these columns.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import DPMean
    >>> from skdp.testing import check_curator
    >>> X = pd.DataFrame({"a": np.linspace(0, 1, 30)})
    >>> set(check_curator(DPMean(bounds=(0, 1)), X)["status"])
    {'passed'}
    """
    return tabulate_checks(curator_checks(estimator, X))
