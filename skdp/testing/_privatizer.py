"""Checks of transformers that privatize each row."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import chain
from typing import Any
from unittest import SkipTest

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.base import BaseEstimator, clone

from skdp._arrays import TableLike
from skdp.base import collect_output
from skdp.evaluation import audit_epsilon
from skdp.privacy import PrivacyLeakWarning
from skdp.testing._checks import COMMON_CHECKS, bind_checks, tabulate_checks
from skdp.testing._subject import (
    Privatizer,
    hash_value,
    read_columns,
    require,
)


def check_form(subject: Privatizer) -> None:
    """Check that everything except the values of reports depends on the declared values only.

    This is the output, log and warnings of `fit` and `transform`, fitted attributes, rows, dtypes, categories, names
    and metadata.
    """
    libraries = ("pandas", "pandas", "categories", "polars", "pyarrow")
    for library, seed in zip(libraries, (None, 0, 0, 0, 0), strict=True):
        shown: list[dict[str, Any]] = []
        # Two tables, each of which lacks a value, with different sizes and metadata.
        for step, size in ((1, 1237), (-1, 411)):
            codes = []
            for values in subject.values.values():
                indices = np.arange(len(values))[::step]
                codes.append(
                    np.resize(indices[:-1] if len(values) > 1 else indices, size)
                )
            try:
                X = _convert_table(subject.take(codes), library, str(step))
                shown.append(_describe_form(subject, X, seed))
            except (ImportError, TypeError, ValueError):
                # The library is not installed, or does not accept the values.
                if library == "pandas":
                    raise
                shown.append({})
        first, second = shown
        names = [name for name in first if first[name] != second.get(name)]
        require(
            not names,
            f"{', '.join(names)} ({library}) must follow from the declared values, got others for other rows. Warn of "
            "parameters alone, and store and output declared facts.",
        )
        # Codes of a polars Categorical depend on all rows that the process has read.
        text = str(shown)
        for name in (PrivacyLeakWarning.__name__, "Categorical"):
            require(
                name not in text,
                f"the declared values must determine the output, got {name}. Read `categories` or `bounds` in `fit`.",
            )


def _convert_table(X: pd.DataFrame, library: str, note: str) -> Any:
    """Convert public rows to a table of a library, with a note in its metadata or in unused categories."""
    if library == "polars":
        return nw.from_native(X).to_polars()
    if library == "pyarrow":
        return nw.from_native(X).to_arrow().replace_schema_metadata({"note": note})
    X.attrs["note"] = note
    for name in X if library == "categories" else ():
        categories = X[name].dropna().unique().tolist()
        if X[name].dtype == object:
            categories.append(note)
        X[name] = X[name].astype(pd.CategoricalDtype(categories))
    return X


def _describe_form(subject: Privatizer, X: Any, seed: Any) -> dict[str, Any]:
    """Release a table; return everything except the values of the reports, by name."""
    with collect_output() as messages:
        fitted = subject.unfitted(random_state=seed).fit(X)
        released = subject.release(fitted, X)
    index, expected = (
        table.index
        if isinstance(table, pd.DataFrame)
        else pd.RangeIndex(table.shape[0])
        for table in (released, X)
    )
    require(
        index.equals(expected) and index.names == expected.names,
        "transform must keep the rows and their index, got others. Return a report of each row, with the index of X.",
    )
    described: dict[str, Any] = {"messages": messages}
    for name, value in vars(fitted).items():
        described[f"the attribute {name}"] = hash_value(value)
    # The hash of no rows has the dtypes and attributes of a table. A copy has no strides of
    # the rows, and no buffers.
    empty = released[:0]
    if hasattr(released, "combine_chunks"):
        empty = released.take(np.arange(0)).combine_chunks()
    text = hash_value(copy.deepcopy(empty))
    described["dtypes and metadata"] = f"{getattr(released, 'schema', None)} {text}"
    return described


def check_channel(subject: Privatizer) -> None:
    """Check that the ratios of probabilities in `channel()` are at most e^epsilon."""
    fitted = subject.prepare()
    if not hasattr(fitted, "channel"):
        raise SkipTest("there is no channel to enumerate")
    # Rows are values, and columns are reports.
    for row in chain.from_iterable(fitted.channel()):
        require(
            set(map(type, row)) <= {Fraction, int} and sum(row) == 1 and min(row) >= 0,
            "each row of `channel()` must be Fractions >= 0 that add up to 1, got other"
            " rows. Compute with fractions.Fraction.",
        )
    records = [subject.equal_rows(1, code) for code in (0, 1)]
    audit = audit_epsilon(subject.unfitted(), records, n_draws=100)
    exact, stated = audit.epsilon_exact, audit.epsilon_claimed
    # Both are rounded up.
    require(
        exact is None or exact <= stated * (1 + 1e-12),
        f"the ratio of probabilities in `channel()` must be at most e^epsilon with"
        f" epsilon={stated!r}, got a log ratio of {exact!r}. Round probabilities toward"
        " more noise.",
    )


def check_reports(subject: Privatizer) -> None:
    """Check by an audit that the epsilon of single records is at most the epsilon of `guarantee_`.

    A record of missing values is also audited if it is accepted.
    """
    # With a smaller epsilon, the distributions of reports are too similar; with a larger
    # epsilon, the reports that distinguish records are too rare.
    estimator = subject.unfitted(random_state=0, **subject.limit_epsilon(0.5, 3.0))
    records = []
    for code in range(min(50, max(2, *map(len, subject.values.values())))):
        records.append(subject.equal_rows(1, code))
    # Columns that share random bits differ from independent columns in other records.
    sizes = map(len, subject.values.values())
    codes = [np.array([place % size]) for place, size in enumerate(sizes)]
    if len(codes) > 1:
        records.append(subject.take(codes))
    fitted = clone(estimator).fit(records[0])
    n_columns = max(1, len(read_columns(subject.release(fitted, records[0]))))
    empty = [[None] * len(subject.columns)]
    missing = pd.DataFrame(empty, columns=list(subject.columns), dtype=object)
    with suppress(TypeError, ValueError):
        subject.release(fitted, missing)
        records.append(missing)
    # The lower bound of a million rows is at least 4/5 of an epsilon from 0.5 to 3
    # (test_privatizer). The number of cells limits the time for many columns.
    n_rows = min(1_000_000, (1 << 24) // n_columns)
    audit = audit_epsilon(estimator, records, n_draws=n_rows)
    lower, stated = audit.epsilon_lower, audit.epsilon_claimed
    require(
        lower <= stated,
        f"the epsilon of an audit must be at most {stated:.4g} of `guarantee_`, got at"
        f" least {lower:.4g} by the event: {audit.event}. Add noise, or state a larger"
        " epsilon.",
    )


def check_rows(subject: Privatizer) -> None:
    """Check that the reports of equal rows are independent.

    At each distance, pairs of reports must not be equal more often than by chance.
    """
    fitted = subject.prepare_noisy(random_state=None)
    n_rows = 4096
    released = subject.release(fitted, subject.equal_rows(n_rows))
    texts = list(map(repr, zip(*read_columns(released).values(), strict=True)))
    _, codes, counts = np.unique(texts, return_inverse=True, return_counts=True)
    # Proportion of equal pairs among all pairs of rows, and the number of standard errors
    # that is exceeded by chance with probability 1e-6 at some distance.
    rate = float((counts * (counts - 1)).sum()) / (n_rows * (n_rows - 1))
    n_errors = float(norm.isf(1e-6 / n_rows))
    for distance in range(1, n_rows // 2 + 1):
        n_pairs = n_rows - distance
        n_equal = int(np.count_nonzero(codes[distance:] == codes[:-distance]))
        # Pairs with a common row are nearly independent. The variance is doubled, and two
        # is added, to account for the dependence.
        limit = n_pairs * rate + n_errors * (math.sqrt(2 * n_pairs * rate) + 2)
        require(
            n_equal <= limit,
            f"of {n_pairs} pairs of equal rows {distance} apart, at most {limit:.0f} "
            f"must have equal reports, got {n_equal}. Draw random bits for each row.",
        )


def check_order(subject: Privatizer) -> None:
    """Check that reports are in the order of the rows, and depend on their own row only."""
    fitted = subject.prepare(random_state=0, **subject.limit_epsilon(3.0, 3.0))
    # Two records fill the halves of a table, and the halves of another one in reverse.
    n_rows = 4096
    halves = np.repeat([0, 1], n_rows)
    sizes = list(map(len, subject.values.values()))
    tables = []
    for codes in (halves, halves[::-1]):
        X = subject.take([codes % size for size in sizes])
        tables.append(read_columns(subject.release(fitted, X)))
    first, second = tables
    for name, column in first.items():
        values, codes = np.unique(
            list(map(repr, column + second[name])), return_inverse=True
        )
        counts = [
            np.bincount(part, minlength=len(values)) for part in np.split(codes, 4)
        ]
        # Counts of equal records differ by chance by more than this with a probability of
        # 1e-6 in any column (Hoeffding's inequality).
        factor = 2 * math.log(4e6 * len(first) * len(values))
        for half, other in ((counts[0], counts[3]), (counts[1], counts[2])):
            require(
                ((half - other) ** 2 <= factor * (half + other)).all(),
                "reports must be in the order of the rows and depend on their own row, got other reports of equal rows "
                "beside other rows. Privatize each row alone, and keep the order.",
            )


def check_later_parameters(subject: Privatizer) -> None:
    """Check that parameters set after `fit` change neither the guarantee nor the release."""
    X = subject.noisy_table()
    fitted = subject.prepare_noisy(random_state=0)
    changed = subject.prepare_noisy(random_state=0)
    guarantee = changed.guarantee_
    # These values would give nearly no privacy if `transform` used them.
    later = {"epsilon": 300.0, "random_state": None, "p": 0.999, "q": 0.001}
    for name, value in later.items():
        if subject.accepts(name):
            changed.set_params(**{name: value})
    first, second = (
        subject.describe(subject.release(prepared, X)) for prepared in (fitted, changed)
    )
    require(
        changed.guarantee_ == guarantee and first == second,
        "a parameter that is set after fit must change nothing, got another guarantee "
        "or release. Read parameters in `fit` alone.",
    )


PRIVATIZER_CHECKS: tuple[Callable[[Any], None], ...] = (
    *COMMON_CHECKS,
    check_form,
    check_later_parameters,
    check_rows,
    check_order,
    check_channel,
    check_reports,
)


def privatizer_checks(
    estimator: BaseEstimator, X: TableLike | None = None
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the checks of `check_privatizer` and their names, for a test runner."""
    # A class, or an object without the methods, cannot be checked.
    if isinstance(estimator, type) or not all(
        hasattr(estimator, name) for name in ("get_params", "fit", "transform")
    ):
        raise TypeError(
            "`estimator` must be an instance with fit and transform, got "
            f"{type(estimator).__name__}."
        )
    return bind_checks(Privatizer(estimator, X), PRIVATIZER_CHECKS)


def check_privatizer(
    estimator: BaseEstimator,
    X: TableLike | None = None,
) -> pd.DataFrame:
    """Check that a transformer adheres to the conventions of local transformers.

    This is the counterpart of scikit-learn's `check_estimator` for privacy. The checks cover the guarantee and its
    statement, charges, errors, random bits, the exact channel, an audit of reports, the order and index of their rows,
    fitted attributes, names, dtypes and metadata.

    Parameters
    ----------
    estimator : estimator
        Estimator instance with `fit`, `transform` and, after `fit`, `guarantee_`. The method `channel`, and the
        parameters `epsilon`, `ledger` and `random_state`, are checked if they exist. It is cloned and not fitted
        itself.

    X : dataframe or 2-D array, default=None
        Public rows, whose distinct values are used. If None, rows are generated from the parameter `categories` or
        `bounds`. Cells that are lists must be tuples.

    Returns
    -------
    pandas.DataFrame
        One row per check, with the columns 'check', 'status' ('passed' or 'skipped'), 'reason' and
        'seconds'.

    Raises
    ------
    AssertionError
        If a check fails. The message has the name of the check, the expected and the actual result, and a remedy.
    TypeError
        If the estimator is not a transformer, or no rows can be generated for it.

    See Also
    --------
    check_curator : Checks of an estimator that releases statistics of a table.
    sklearn.utils.estimator_checks.check_estimator : Checks of the conventions of scikit-learn.

    Notes
    -----
    **Privacy.** X is not protected, so it must be public. The checks find common mistakes, but they do not prove that
    a transformer is private. In particular, `channel` may differ from the probabilities of the reports. The audit by
    `skdp.evaluation.audit_epsilon` draws up to a million reports of up to 50 records, at an epsilon between 0.5 and 3.
    It detects a transformer that states 4/5 of its true epsilon, but not a transformer that understates epsilon by a
    few percent.

    Permanent reports are not checked: pass the transformer without a `secret_key`. Each statistical check of a correct
    transformer fails with a probability of about 1e-6.

    Examples
    --------
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.testing import check_privatizer
    >>> encoder = RandomizedResponseEncoder(categories={"smokes": ["yes", "no"]})
    >>> set(check_privatizer(encoder)["status"])
    {'passed'}

    A transformer that returns its input:

    >>> from sklearn.base import BaseEstimator, TransformerMixin
    >>> class Identity(TransformerMixin, BaseEstimator):
    ...     def __init__(self, categories="auto"):
    ...         self.categories = categories
    ...     def fit(self, X, y=None):
    ...         return self
    ...     def transform(self, X):
    ...         return X
    >>> check_privatizer(Identity({"smokes": ["yes", "no"]}))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    AssertionError: Identity: check_guarantee: `guarantee_` must be a PrivacyGuarantee after fit, got NoneType...
    """
    return tabulate_checks(privatizer_checks(estimator, X))
