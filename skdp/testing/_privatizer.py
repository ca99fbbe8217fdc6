"""The contract of transformers that privatize each row."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any, Literal
from unittest import SkipTest

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.base import BaseEstimator

from skdp.base import TableLike, collect_output
from skdp.evaluation.audits import bound_by_rows
from skdp.exact import exp_bounds
from skdp.privacy import PrivacyLeakWarning
from skdp.testing._checks import CHECKS as COMMON_CHECKS
from skdp.testing._checks import bind_checks, shows_secret, tabulate_checks, texts_of
from skdp.testing._subject import (
    SEED,
    Privatizer,
    hash_value,
    read_columns,
    require,
)

# Probability of a failure by chance of each statistical check.
MAX_FALSE_ALARM = 1e-6
# Rows of an audit: a million show 4/5 of a true epsilon from 0.5 to 3 (test_audit_of_reports);
# reports of many columns take long to read.
MIN_AUDITED_ROWS, MAX_AUDITED_ROWS = 20_000, 1_000_000
MAX_AUDITED_CELLS = 1 << 24


def check_declared_domain(subject: Privatizer) -> None:
    """With declared columns, `fit` reads no values, and no warning or output follows from the rows."""
    for method in ("fit", "transform"):
        outputs = []
        for code in (0, 1):
            X = subject.frame(subject.equal_rows(100, code))
            estimator = subject.prepare()
            with collect_output() as messages:
                subject.release(estimator, X) if method == "transform" else (
                    subject.unfitted().fit(X)
                )
            outputs.append(messages)
        require(
            outputs[0] == outputs[1],
            f"the warnings, log records and output of {method} must be equal for all"
            " rows, got different ones. Warn of parameters alone.",
        )
        require(
            not any(PrivacyLeakWarning.__name__ in text for text in outputs[0]),
            "`fit` must use the declared columns, got a PrivacyLeakWarning. Read"
            " `categories` or `bounds`.",
        )


def check_channel(subject: Privatizer) -> None:
    """No report is more than e^epsilon times as likely under one record as under another, by `channel()`."""
    fitted = subject.prepare()
    if not hasattr(fitted, "channel"):
        raise SkipTest("there is no channel to enumerate")
    ratios = []
    for matrix in fitted.channel():
        is_exact = all(
            isinstance(cell, Fraction | int) for row in matrix for cell in row
        )
        sums = set(map(sum, matrix))
        require(
            is_exact and sums == {1} and min(map(min, matrix)) >= 0,
            "each row of `channel()` must be Fractions >= 0 that add up to 1, got other"
            " rows. Compute with fractions.Fraction.",
        )
        largest = Fraction(1)
        for column in zip(*matrix, strict=True):
            if any(column):
                require(
                    all(column),
                    "each report of `channel()` must be possible under all values, got"
                    " probability 0 beside others. Add noise.",
                )
                largest = max(largest, max(column) / min(column))
        ratios.append(largest)
    # With strategy="sample", a record reports one of its columns.
    is_sampled = subject.estimator.get_params(deep=False).get("strategy") == "sample"
    ratio = max(ratios) if is_sampled else math.prod(ratios, start=Fraction(1))
    epsilon = fitted.guarantee_.epsilon
    require(
        ratio <= exp_bounds(epsilon)[0],
        f"the ratio of probabilities in `channel()` must be at most e^epsilon with"
        f" epsilon={epsilon!r}, got a log ratio of {math.log(ratio)!r}. Round"
        " probabilities toward more noise.",
    )


def check_reports(subject: Privatizer) -> None:
    """Audit the reports: with confidence 1 - 1e-6, their epsilon is at most that of `guarantee_`."""
    if subject.is_permanent:
        raise SkipTest("permanent reports of equal rows repeat each other")
    # Below this range records are too alike; above it, what distinguishes them is rare.
    limited = subject.limit_epsilon(0.5, 3.0)
    fitted = subject.prepare(random_state=SEED, **limited)
    records = []
    for code in range(min(6, max(2, *map(len, subject.values.values())))):
        records.append(subject.frame(subject.equal_rows(1, code)))
    n_columns = max(1, len(read_columns(subject.release(fitted, records[0]))))
    n_rows = max(MAX_AUDITED_CELLS // n_columns, MIN_AUDITED_ROWS)
    audit = bound_by_rows(
        fitted,
        records,
        delta=float(fitted.guarantee_.delta),
        confidence_level=1 - MAX_FALSE_ALARM,
        n_draws=min(n_rows, MAX_AUDITED_ROWS),
    )
    if audit is None:
        # Raises the error, if there is one.
        subject.release(fitted, subject.frame(subject.equal_rows(1000)))
        raise AssertionError(
            "transform must return one readable row for each row, got another number."
            " Return as many rows as X has."
        )
    lower, event = audit
    epsilon = fitted.guarantee_.epsilon
    require(
        lower <= epsilon,
        f"the epsilon of an audit must be at most {epsilon:.4g} of `guarantee_`, got at"
        f" least {lower:.4g} by the event: {event}. Add noise, or state a larger epsilon.",
    )


def check_rows(subject: Privatizer) -> None:
    """Equal rows draw their own random bits: at no distance are their reports equal more often than by chance."""
    fitted = subject.prepare_noisy(random_state=None)
    n_rows = 4096
    released = subject.release(fitted, subject.frame(subject.equal_rows(n_rows)))
    texts = list(map(repr, zip(*read_columns(released).values(), strict=True)))
    _, codes, counts = np.unique(texts, return_inverse=True, return_counts=True)
    rate = float((counts * (counts - 1)).sum()) / (n_rows * (n_rows - 1))
    n_errors = float(norm.isf(MAX_FALSE_ALARM / n_rows))
    for distance in range(1, n_rows // 2 + 1):
        n_pairs = n_rows - distance
        n_equal = int(np.count_nonzero(codes[distance:] == codes[:-distance]))
        # Pairs with a common row are nearly independent; twice the variance, and two
        # further standard errors, allow for the dependence.
        limit = n_pairs * rate + n_errors * (math.sqrt(2 * n_pairs * rate) + 2)
        require(
            n_equal <= limit,
            f"of {n_pairs} pairs of equal rows {distance} apart, at most {limit:.0f} must"
            f" have equal reports, got {n_equal}. Draw random bits for each row.",
        )


def check_columns(subject: Privatizer) -> None:
    """Two columns with equal values draw their own random bits."""
    if subject.declared is None:
        raise SkipTest("no parameter declares each column")
    first = next(iter(subject.values))
    names = list(subject.values) if len(subject.values) > 1 else [first, "twin"]
    twin = copy.copy(subject)
    twin.declared = dict.fromkeys(names, subject.declared[first])
    twin.values = dict.fromkeys(names, subject.values[first])
    for seed in (None, 0):
        fitted = twin.prepare_noisy(random_state=seed)
        released = twin.release(fitted, twin.noisy_table())
        columns = list(read_columns(released).values())
        width, remainder = divmod(len(columns), len(names))
        if remainder or not width:
            raise SkipTest("the input columns have different numbers of output columns")
        blocks = [
            repr(columns[start : start + width])
            for start in range(0, len(columns), width)
        ]
        require(
            len(set(blocks)) == len(blocks),
            f"columns with equal values must have different reports with"
            f" random_state={seed}, got equal ones. Draw for each column.",
        )


def check_missing_values(subject: Privatizer) -> None:
    """Randomize missing values like any other, and never return one that is not declared."""
    n_rows = 2000
    rows = subject.equal_rows(n_rows)
    is_missing = np.random.default_rng(SEED).random(n_rows) < 0.5
    for name, values in subject.values.items():
        value = next(value for value in values if value is not None)
        column = [None if missing else value for missing in is_missing]
        fitted = subject.prepare_noisy(random_state=SEED)
        whole = read_columns(subject.release(fitted, subject.frame(rows)))
        try:
            # Objects, so that None stays what it is.
            X = pd.DataFrame(rows | {name: column}, dtype=object)
            released = read_columns(subject.release(fitted, X))
        except (TypeError, ValueError):
            require(
                None not in values,
                f"column {name!r} declares None, and must accept it, got an error."
                " Code missing values.",
            )
            continue
        for label, reports in released.items():
            is_empty = np.array([report is None for report in reports])
            require(
                None in values or None in whole[label] or not is_empty.any(),
                f"column {name!r} does not declare None, and {label!r} must have none,"
                " got missing reports. Refuse missing values, or code them.",
            )
            # Two proportions of some thousand rows: 0.2 is 4 to 9 standard errors.
            difference = is_empty[is_missing].mean() - is_empty[~is_missing].mean()
            require(
                abs(difference) < 0.2,
                f"missing reports in {label!r} must not follow from missing values of"
                f" {name!r}, got a difference of {difference:.2f}. Randomize them.",
            )


def check_tallies(subject: Privatizer) -> None:
    """`tally` counts all reports, adds over batches, and refuses reports of another epsilon and odd values."""
    fitted = subject.prepare(random_state=SEED)
    if not hasattr(fitted, "tally"):
        raise SkipTest("there is no tally")
    reports = subject.release(fitted, subject.frame(subject.rows(50)))
    tally = fitted.tally(reports)
    require(
        tally.n_reports == 50,
        f"a tally of 50 reports must count 50, got {tally.n_reports}. Count each row.",
    )
    parts = fitted.tally(reports[:20]) + fitted.tally(reports[20:])
    require(
        hash_value(parts.sums()) == hash_value(tally.sums()),
        "the tallies of two batches must add up to the tally of all reports, got other"
        " sums. Sum over rows.",
    )
    smaller = subject.small_epsilon()
    if smaller:
        noisier = subject.prepare(random_state=SEED, **smaller)
        other = noisier.tally(subject.release(noisier, subject.frame(subject.rows(50))))
        try:
            tally + other
        except (TypeError, ValueError):
            pass
        else:
            raise AssertionError(
                "tallies of two epsilons must not be added, got a sum. Compare the"
                " parameters of the protocols."
            )
    # Reports may be true rows by mistake, so errors about them show no value.
    for label, X in subject.odd_tables():
        try:
            fitted.tally(X)
        except (TypeError, ValueError) as error:
            require(
                not shows_secret(*texts_of(error)),
                f"the error of tally about {label} must not show it, got the value."
                " Name the column instead, and `raise ... from None`.",
            )


def check_stored(subject: Privatizer) -> None:
    """Store nothing that depends on the rows of `fit` and `transform`, or on their number."""
    for seed in (None, 0):
        used = []
        for size in (1237, 411):
            X = subject.frame(subject.rows(size, size))
            fitted = subject.unfitted(random_state=seed).fit(X)
            subject.release(fitted, X)
            used.append(fitted)
        attributes = [vars(fitted) for fitted in used]
        names = []
        for name in sorted(attributes[0].keys() | attributes[1].keys()):
            values = [part.get(name) for part in attributes]
            if hash_value(values[0]) != hash_value(values[1]):
                names.append(name)
        require(
            not names and hash_value(used[0]) == hash_value(used[1]),
            f"the fitted attributes must not depend on the rows, got other values of"
            f" {names}. Store declared facts alone.",
        )


def check_refit(subject: Privatizer) -> None:
    """Replace everything of the first `fit` by a second one, which returns the estimator."""
    first, second = (
        subject.frame(subject.rows(30, 1)),
        subject.frame(subject.rows(20, 2)),
    )
    refitted = subject.unfitted()
    subject.release(refitted.fit(first), first)
    require(
        refitted.fit(second) is refitted,
        "`fit` must return the estimator, got another object. Return self.",
    )
    fitted = subject.unfitted().fit(second)
    require(
        hash_value(refitted) == hash_value(fitted),
        "a second fit must replace all attributes of the first, got some of them."
        " Compute each attribute in `fit`.",
    )


def check_later_parameters(subject: Privatizer) -> None:
    """Parameters set after `fit` change neither the guarantee nor the release, which is still charged."""
    X = subject.noisy_table()
    fitted = subject.prepare_noisy(random_state=SEED)
    changed = subject.prepare_noisy(random_state=SEED)
    guarantee = changed.guarantee_
    later = {"epsilon": 300.0, "random_state": None, "p": 0.999, "q": 0.001}
    for name, value in later.items():
        if subject.accepts(name):
            changed.set_params(**{name: value})
    is_same = subject.is_permanent or (
        subject.describe(subject.release(changed, X))
        == subject.describe(subject.release(fitted, X))
    )
    require(
        changed.guarantee_ == guarantee and is_same,
        "a parameter that is set after fit must change nothing, got another guarantee or"
        " release. Read parameters in `fit` alone.",
    )


def _list_tables(subject: Privatizer) -> Iterator[tuple[str, Any]]:
    """Yield equal rows in each installed library."""
    labels = [f"row {7 * row % 12}" for row in range(12)]
    frame = subject.frame(subject.rows(12))
    yield "pandas", frame.set_axis(pd.Index(labels, name="person"))
    for kind in ("polars", "pyarrow"):
        with suppress(SkipTest):
            yield kind, subject.frame(subject.rows(12), kind)
    parameters = subject.estimator.get_params(deep=False)
    # Declarations by column name do not fit an array.
    if not any(
        isinstance(parameters[name], dict)
        for name in parameters.keys() - {subject.parameter}
    ):
        yield "array", subject.frame(subject.rows(12), "array")


def check_frames(subject: Privatizer) -> None:
    """Keep the library, the row index and the number of rows of X, and name columns by `get_feature_names_out`."""
    containers: dict[str, Any] = {"default": None}
    if hasattr(subject.estimator, "set_output"):
        frames = {kind: type(frame) for kind, frame in _list_tables(subject)}
        containers |= {
            kind: frames[kind] for kind in ("pandas", "polars") if kind in frames
        }
    for kind, frame in _list_tables(subject):
        for container, expected in containers.items():
            estimator = subject.unfitted(kind)
            if container != "default":
                estimator.set_output(transform=container)
            # The name of the row index is warned of.
            with warnings.catch_warnings(action="ignore", category=PrivacyLeakWarning):
                released = subject.release(estimator.fit(frame), frame)
            expected = expected or type(frame)
            call = f"transform of {kind} with set_output(transform={container!r})"
            require(
                type(released) is expected and len(released) == len(frame),
                f"{call} must return a {expected.__name__} of {len(frame)} rows, got a"
                f" {type(released).__name__} of {len(released)}. Derive from"
                " sklearn's TransformerMixin, and convert the output to the type of X.",
            )
            if isinstance(frame, pd.DataFrame) and isinstance(released, pd.DataFrame):
                require(
                    released.index.identical(frame.index),
                    f"{call} must keep the row index, got another one. Pass `index`.",
                )
            if not isinstance(released, np.ndarray):
                names = list(read_columns(released))
                expected_names = list(estimator.get_feature_names_out())
                require(
                    names == expected_names,
                    f"{call} must have the columns {expected_names} of"
                    f" get_feature_names_out(), got {names}. Return the same names.",
                )


def check_dtypes(subject: Privatizer) -> None:
    """Dtypes, categories and metadata of the output follow from the declaration and not from the rows."""
    for kind in ("pandas", "polars", "pyarrow"):
        hashes = []
        # Two neighboring tables, of which each lacks a value, with a note on each.
        for step in (1, -1):
            rows = {}
            for name, values in subject.values.items():
                rows[name] = ((values[::step][:-1] or values) * 12)[:12]
            with suppress(SkipTest, TypeError, ValueError):  # no such frames
                X = subject.frame(rows, kind)
                if kind == "pandas":
                    X.attrs["note"] = step
                elif kind == "pyarrow":
                    X = X.replace_schema_metadata({"note": str(step)})
                released = subject.release(subject.unfitted().fit(X), X)
                hashes.append(_describe_dtypes(released))
        # Codes of a Categorical follow from all rows that the process has read.
        require(
            len(set(hashes)) < 2 and "Categorical" not in str(hashes),
            f"dtypes, categories and metadata of reports ({kind}) must follow from the"
            " declared values, got others for other rows, or Categorical. Build the"
            " output from the declared values.",
        )


def _describe_dtypes(released: Any) -> str:
    """Describe a table without its values: an empty slice has its dtypes and its metadata."""
    schema: Any = getattr(released, "schema", None)
    if hasattr(schema, "metadata"):  # Arrow
        return f"{schema} {schema.metadata}"
    return f"{schema} {hash_value(released[:0])}"


CHECKS: tuple[Callable[[Any], None], ...] = (
    *COMMON_CHECKS,
    check_declared_domain,
    check_refit,
    check_later_parameters,
    check_stored,
    check_frames,
    check_dtypes,
    check_missing_values,
    check_rows,
    check_columns,
    check_channel,
    check_reports,
    check_tallies,
)


def privatizer_checks(
    estimator: BaseEstimator, X: TableLike | None = None
) -> Iterator[tuple[str, Callable[[], None]]]:
    """List the checks of `check_privatizer` by name, for a test runner."""
    if isinstance(estimator, type) or not all(
        hasattr(estimator, name) for name in ("get_params", "fit", "transform")
    ):
        raise TypeError(
            f"`estimator` must be an instance with fit and transform, got {estimator!r}."
        )
    return bind_checks(Privatizer(estimator, X), CHECKS)


def check_privatizer(
    estimator: BaseEstimator,
    X: TableLike | None = None,
    *,
    on_fail: Literal["raise"] | None = "raise",
) -> pd.DataFrame:
    """Check that a transformer privatizes its rows as the contract of skdp demands.

    The counterpart of scikit-learn's `check_estimator` for privacy. The checks are about the guarantee and its
    statement, charges, errors, random bits, the enumerated channel and the reports, estimates, stored attributes,
    and dtypes. The docstring of each check states what it guarantees.

    Parameters
    ----------
    estimator : estimator
        Instance with `fit`, `transform` and, after `fit`, `guarantee_`. The methods `channel`, `tally`,
        `estimate_counts`, `estimate_mean` and `set_output`, and the parameters `epsilon`, `ledger` and
        `random_state`, are checked if they exist. It is cloned and never fitted itself.

    X : dataframe or 2D array, default=None
        Public rows; each column is tried with the distinct values in X. None generates rows from the parameter
        `categories` or `bounds`, or two columns if it declares nothing. Cells of lists are tuples.

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
    TypeError
        If the estimator is not a transformer, or no rows can be generated for it.

    See Also
    --------
    check_curator : Checks of an estimator that releases statistics of a table.
    sklearn.utils.estimator_checks.check_estimator : The conventions of scikit-learn.

    Notes
    -----
    **Privacy.** X is not protected, so it must be public. The checks find common mistakes; a transformer that passes
    them is not proven private. `channel` is the statement of its author. The audit, by the method of
    `skdp.evaluation.audit_epsilon`, draws up to a million reports of up to six records at an epsilon between 0.5 and
    3. It finds a transformer that states 4/5 of its true epsilon, and none that states some percent too little.

    A transformer with permanent reports (its parameter `secret_key` is set) is checked with new record ids in each
    call. The statistical checks fail by chance with a probability of about 1e-6 each.

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
    return tabulate_checks(privatizer_checks(estimator, X), on_fail)
