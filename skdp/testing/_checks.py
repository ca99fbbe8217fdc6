"""Checks of all private estimators (guarantee, charges, errors and random bits), and of curators."""

from __future__ import annotations

import copy
import pickle
import random
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from skdp.base import split_if_supervised
from skdp.exact import round_up
from skdp.privacy import (
    BudgetExceeded,
    Mu,
    Rho,
    check_epsilon,
    parse_budget,
    privacy_statement,
)
from skdp.testing._replay import replay_release
from skdp.testing._subject import (
    SECRET_NUMBER,
    SECRET_TEXT,
    Curator,
    RecordingLedger,
    Subject,
    hash_value,
    list_fitted_attributes,
    record_random_bytes,
    require,
)

Check = Callable[[Any], None]


def check_guarantee(subject: Subject) -> None:
    """Check that `guarantee_` states the mechanism, the columns, at most `epsilon`, and `secure`."""
    guarantee = subject.guarantee(random_state=None)
    require(
        guarantee.mechanism,
        "`guarantee_` must name the mechanism, got ''. Pass `mechanism`.",
    )
    # A guarantee for the values of some columns covers a subset of the columns.
    scope = guarantee.scope
    is_covered = scope == subject.columns
    if guarantee.relation == "replace_values":
        is_covered = scope is not None and set(scope) <= set(subject.columns)
    require(
        is_covered,
        f"the scope of `guarantee_` must be the fitted columns {subject.columns}, got"
        f" {scope}. Pass `scope`.",
    )
    require(
        guarantee.secure,
        "`guarantee_` must have secure=True without a seed, got False. Pass"
        " `secure=random_state is None`.",
    )
    # A seed has no effect if nothing is drawn.
    if subject.accepts("random_state") and guarantee.epsilon:
        require(
            not subject.guarantee(random_state=0).secure,
            "`guarantee_` must have secure=False with random_state=0, got True. Pass"
            " `secure=random_state is None`.",
        )
    epsilon = subject.estimator.get_params(deep=False).get("epsilon")
    if isinstance(epsilon, Rho | Mu):
        # A mechanism of mu-GDP has rho = mu**2 / 2.
        limit = Fraction(round_up(parse_budget(epsilon).mu_squared / 2))
        is_within = not guarantee.epsilon or (
            guarantee.rho is not None and guarantee.rho <= limit
        )
    else:
        # Fractions are compared because the nearest float may exceed a decimal number.
        is_within = epsilon is None or (
            Fraction(guarantee.epsilon) <= check_epsilon(epsilon)
        )
    require(
        is_within,
        f"`guarantee_` must state at most epsilon={epsilon!r}, got "
        f"{guarantee.epsilon!r} (or no rho). Add noise, or allocate less to each part.",
    )


def check_statement(subject: Subject) -> None:
    """Check that `privacy_statement` states a guarantee for every column of `guarantee_`."""
    # A class outside of skdp must be trusted explicitly for its guarantee to be stated.
    prepared = subject.prepare()
    subject.release(prepared)
    statement = privacy_statement(prepared, trusted=[type(prepared)])
    stated = {fact.column for fact in statement.facts if fact.guarantee is not None}
    guarantee = subject.guarantee()
    is_of_values = guarantee.relation == "replace_values"
    columns = guarantee.scope if is_of_values else subject.columns
    missing = sorted(map(str, set(columns) - stated))
    require(
        not missing,
        "the privacy statement must have a guarantee of the columns of `guarantee_`, "
        f"got none of {missing}. Set `guarantee_` in `fit`, and `protects_rows`.",
    )


def check_charge(subject: Subject) -> None:
    """Check that each release charges `guarantee_` once, before a draw, also in copies."""
    subject.needs("ledger")
    guarantee = subject.spending_guarantee()
    with record_random_bytes() as drawn:
        ledger = RecordingLedger(guarantee, 5, drawn)
        original = subject.prepare(ledger=ledger)
        require(
            not ledger.log,
            f"fit must charge nothing before a release, got {len(ledger.log)} charges."
            " Charge in `transform`.",
        )
        # If a copy had its own ledger, the budget could be spent twice.
        copied = [subject.prepare_again(original), copy.deepcopy(original)]
        for n_releases, prepared in enumerate([original, original, *copied], start=1):
            n_bytes = len(drawn)
            subject.release(prepared)
            require(
                len(ledger.log) == n_releases,
                f"{n_releases} releases must be {n_releases} charges, got "
                f"{len(ledger.log)}. Charge the ledger of the estimator once a "
                "release.",
            )
            charged, n_bytes_at_charge = ledger.log[-1]
            # Limits that are found are in the note of method after the charge only.
            stated = replace(prepared.guarantee_, method=charged.method)
            require(
                charged == stated,
                "the charge must be `guarantee_`, got another guarantee. Pass"
                " `self.guarantee_` to `ledger.charge`.",
            )
            require(
                n_bytes_at_charge == n_bytes,
                "the charge must come before the first draw, got"
                f" {n_bytes_at_charge - n_bytes} bytes before it. Charge, then draw.",
            )


def check_budget(subject: Subject) -> None:
    """Check that a release beyond the budget raises before it draws or sets attributes."""
    subject.needs("ledger")
    guarantee = subject.spending_guarantee()
    with record_random_bytes() as drawn:
        prepared = subject.prepare(ledger=RecordingLedger(guarantee, 0.5, drawn))
        # The budget covers half a release.
        before = set(vars(prepared))
        n_bytes = len(drawn)
        try:
            subject.release(prepared)
        except BudgetExceeded:
            require(
                len(drawn) == n_bytes,
                f"a rejected release must draw nothing, got {len(drawn) - n_bytes} "
                "bytes. Charge, then draw.",
            )
        else:
            raise AssertionError(
                "A release beyond the budget must raise BudgetExceeded, got a release."
                " Do not catch the error of `ledger.charge`."
            )
    # scikit-learn may set the number and names of the columns, which are public.
    attributes = set(vars(prepared)) - before
    attributes -= {"n_features_in_", "feature_names_in_"}
    names = sorted(name for name in attributes if name.endswith("_"))
    require(
        not names,
        f"a rejected release must set no attributes, got {names}. Charge before"
        " attributes are set.",
    )


def check_parameters(subject: Subject) -> None:
    """Check that invalid parameters and tables without the columns raise before a charge or draw."""
    # Pairs of invalid parameters and None, or of no parameters and an invalid table.
    faults: list[tuple[dict[str, Any], Any]] = []
    for epsilon in (-1, float("nan")):
        faults.append(({"epsilon": epsilon}, None))
    faults.append(({"random_state": np.random.default_rng(0)}, None))
    for X in subject.wrong_tables():
        faults.append(({}, X))
    guarantee = subject.guarantee()
    for parameters, X in faults:
        if not all(map(subject.accepts, parameters)):
            continue
        with record_random_bytes() as drawn:
            ledger = RecordingLedger(guarantee, 5, drawn)
            try:
                prepared = subject.prepare(ledger=ledger, **parameters)
                drawn.clear()  # `fit` may draw public bits, such as a hash seed
                subject.release(prepared, X)
            except (TypeError, ValueError):
                require(
                    not ledger.log and not drawn,
                    f"{parameters or 'a wrong table'} must raise before the charge and"
                    f" the draw, got {len(ledger.log)} charges and {len(drawn)} bytes."
                    " Check parameters and columns first.",
                )
            else:
                raise AssertionError(
                    f"{parameters or 'a table without the columns'} must raise "
                    "TypeError or ValueError, got a release. Check it before the "
                    "charge."
                )


def check_errors(subject: Subject) -> None:
    """Check that tables with a secret value raise before a charge or are released, without this value in any output."""
    guarantee = subject.guarantee()
    for label, X in subject.odd_tables():
        ledger = RecordingLedger(guarantee, 1e3, bytearray())
        prepared = subject.prepare(ledger=ledger)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                released = subject.release(prepared, X)
            except Exception as error:
                texts = list(list_error_texts(error))
                is_expected = isinstance(error, TypeError | ValueError)
                require(
                    is_expected and not ledger.log,
                    f"{label} must raise TypeError or ValueError before the charge, got"
                    f" {type(error).__name__} and {len(ledger.log)} charges. Check the "
                    "values first.",
                )
            else:
                texts = [repr(subject.describe(released))]
                texts.append(str(list_fitted_attributes(prepared)))
        texts += [str(warning.message) for warning in caught]
        text = "\n".join(texts)
        require(
            SECRET_TEXT not in text and str(SECRET_NUMBER) not in text,
            f"{label} must not be revealed, got it in an error, a warning, an attribute"
            " or the release. Name the column instead, and `raise ... from None`.",
        )


def list_error_texts(error: BaseException | None) -> Iterator[str]:
    """Yield the strings of an error, its attributes, and the errors that caused it."""
    # Loggers and debuggers can access a suppressed context, and attributes such as
    # `object` of a UnicodeError. An error may be both the cause and a context.
    visited: set[int] = set()
    errors = [error]
    while errors:
        error = errors.pop()
        if error is None or id(error) in visited:
            continue
        visited.add(id(error))
        parts = [error, error.args, *vars(error).values()]
        for name in ("object", "obj", "name", "doc"):
            parts.append(getattr(error, name, None))
        yield str(error)
        yield from map(repr, parts)
        errors += [error.__cause__, error.__context__]


def check_random_bits(subject: Subject) -> None:
    """Check that all calls, copies and pickles use distinct random bits without a seed."""
    subject.spending_guarantee()
    original = subject.prepare_noisy(random_state=None)
    pickled = pickle.dumps(original)
    fingerprints = []
    # All are tried twice, because a copy may repeat the bits of another copy.
    for _ in range(2):
        for prepared in (
            original,
            subject.prepare_again(original),
            pickle.loads(pickled),
            copy.deepcopy(original),
        ):
            fingerprints.append(subject.fingerprint(prepared))
        fingerprints.append(_release_after_seeds(subject, original))
    n_distinct = len(set(fingerprints))
    require(
        n_distinct == len(fingerprints),
        f"{len(fingerprints)} calls, of copies and after"
        f" np.random.seed(0), must use distinct random bits, got {n_distinct} distinct"
        " releases. Draw from a new `skdp.randomness.SecureSource` each time.",
    )


def _release_after_seeds(subject: Subject, prepared: object) -> str:
    """Release with the global generators of NumPy and Python seeded; they must have no effect."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        return subject.fingerprint(prepared)
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


def check_seeds(subject: Subject) -> None:
    """Check that an int `random_state` repeats releases in clones and pickles, and another int does not."""
    subject.needs("random_state")
    subject.spending_guarantee()
    X = subject.noisy_table()

    def release_twice(prepared: object) -> list[Any]:
        """Describe two releases of the same table."""
        return [subject.describe(subject.release(prepared, X)) for _ in range(2)]

    original = subject.prepare_noisy(random_state=7)
    copied = [subject.prepare_again(original), pickle.loads(pickle.dumps(original))]
    expected = release_twice(original)
    require(
        all(release_twice(prepared) == expected for prepared in copied),
        "random_state=7 must give clones and pickles equal releases, got others. Draw "
        "all random bits from the seed.",
    )
    require(
        subject.repeats_with_seed or expected[0] != expected[1],
        "two calls with random_state=7 must differ, got equal releases. Advance the"
        " stream with each call.",
    )
    # Random bits are compared, because releases with much noise that are clipped are often
    # equal. Eight seeds, because choices of a transformer without recorded bits may be equal.
    fingerprints = (
        subject.fingerprint(subject.prepare_noisy(random_state=seed))
        for seed in range(8)
    )
    first = next(fingerprints)
    require(
        any(fingerprint != first for fingerprint in fingerprints),
        "eight seeds must use different random bits, got equal ones. Use"
        " `random_state`.",
    )


COMMON_CHECKS: tuple[Check, ...] = (
    check_guarantee,
    check_statement,
    check_parameters,
    check_errors,
    check_charge,
    check_budget,
    check_random_bits,
    check_seeds,
)


def bind_checks(
    subject: Subject, checks: Sequence[Check]
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name of each check, and a function that runs it on an estimator."""
    for check in checks:
        yield check.__name__, partial(_run_check, check, subject)


def _run_check(check: Check, subject: Subject) -> None:
    """Run a check; its failures and errors become an AssertionError that names the estimator."""
    title = f"{type(subject.estimator).__name__}: {check.__name__}"
    try:
        check(subject)
    except AssertionError as failed:
        raise AssertionError(f"{title}: {failed}") from failed.__cause__
    except SkipTest as skipped:
        raise SkipTest(f"{check.__name__}: {skipped}") from None
    except Exception as error:
        raise AssertionError(f"{title}: {type(error).__name__}: {error}") from error


def tabulate_checks(checks: Iterator[tuple[str, Callable[[], None]]]) -> pd.DataFrame:
    """Run all checks and return their status and time; raise the first failure."""
    results = []
    for name, run in checks:
        start = time.perf_counter()
        status, reason = "passed", ""
        try:
            run()
        except SkipTest as skipped:
            status, reason = "skipped", str(skipped)
        results.append((name, status, reason, time.perf_counter() - start))
    return pd.DataFrame(results, columns=["check", "status", "reason", "seconds"])


def check_noise(subject: Curator) -> None:
    """Check that the noise covers the last person, or protected values of this person.

    Tables are all rows, 4 rows and a single row. All outputs must follow from noisy numbers (see `replay_release`).
    """
    guarantee = subject.guarantee()
    # The rows of each person are unknown, so a person of all rows is a single row.
    n_rows = guarantee.max_rows_per_person if guarantee.unit != "person" else 1
    # A sensitivity that depends on the rows is largest for small tables.
    for size in (len(subject.X), 4, 1):
        X = subject.X[:size]
        last = range(max(len(X) - n_rows, 0), len(X))
        neighbor = X[: last.start]
        if guarantee.relation == "replace_values":
            columns = list(guarantee.scope or ())
            neighbor = _replace_values(subject.X, columns, X, last)
        with record_random_bytes() as drawn:
            replay = replay_release(subject.estimator, X, neighbor)
        if replay.guarantee.epsilon and replay.draws.empty and not replay.epsilon:
            require(
                drawn,
                "the noise must be drawn by functions of skdp.randomness, got no draws."
                " Draw it from a `ByteSource`: other generators are not checked.",
            )
            raise SkipTest("random bits of single rows cannot be replayed")
        require(
            replay.passed,
            f"the noise must cover the last person ({len(last)} of {len(X)} rows), got:"
            f" {'; '.join(replay.findings)}. Add noise for the change by all rows of a "
            "person, and compute all outputs from noisy numbers.",
        )


def _replace_values(
    whole: pd.DataFrame, columns: list[Any], X: pd.DataFrame, last: range
) -> pd.DataFrame:
    """Return rows X, of which the last ones have the values that other rows of the whole table have in some columns."""
    values = whole[columns]
    rows = [*range(len(X))]
    for row in last:
        differs = (values != values.iloc[row]).any(axis=1).to_numpy()
        if not differs.any():
            raise SkipTest(f"all rows have the same values of {columns}")
        rows[row] = int(differs.argmax())
    neighbor = X.copy()
    neighbor[columns] = values.iloc[rows].set_axis(neighbor.index)
    return neighbor


def check_transform(subject: Curator) -> None:
    """Check that the output of `transform` does not depend on the values that `protects_rows` states as private."""
    fitted = subject.release(subject.prepare(random_state=0))
    protected: Any = getattr(fitted, "protects_rows", False)
    if not hasattr(fitted, "transform") or protected in (False, "fit"):
        return
    X, _ = split_if_supervised(fitted, subject.X)
    changed = X.copy()
    for name in X if protected is True else protected:
        changed[name] = X[name].iloc[::-1].set_axis(X.index)
    # Copies draw equal rows. Their values, dtypes, index, names and metadata are compared.
    outputs = [copy.deepcopy(fitted).transform(table) for table in (X, changed)]
    require(
        len({hash_value(copy.deepcopy(output)) for output in outputs}) == 1,
        "the output of transform must not depend on protected values, got others for other rows. Draw it from released "
        "numbers, or set `protects_rows` to False.",
    )


# The noise first: noise of another generator may also fail the checks of random bits.
CURATOR_CHECKS = (check_noise, *COMMON_CHECKS, check_transform)


def curator_checks(
    estimator: BaseEstimator, X: pd.DataFrame
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the checks of `check_curator` and their names, for a test runner."""
    return bind_checks(Curator(estimator, X), CURATOR_CHECKS)


def check_curator(
    estimator: BaseEstimator,
    X: pd.DataFrame,
) -> pd.DataFrame:
    """Check that an estimator adheres to the conventions of central-model estimators.

    This is the counterpart of `check_privatizer` for estimators whose `fit` releases statistics of a table. The checks
    cover the guarantee and its statement, charges, errors, random bits, the noise of neighboring tables, and the output
    of `transform` if `protects_rows` states that it is private.

    Parameters
    ----------
    estimator : estimator
        Estimator instance with the attribute `guarantee_` after `fit`, and the parameters `ledger` and `random_state`.
        It is cloned and not fitted itself.

    X : pandas.DataFrame
        Public rows. The last ones should have extreme values, because the change by removing them is compared with the
        noise. The last column is the target of an estimator that requires a target.

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

    Notes
    -----
    **Privacy.** X is not protected, so it must be public. The checks find common mistakes, but they do not prove that
    an estimator is private. The noise is recorded and replayed on a table without the last person, or with other
    protected values of this person: its differences show the sensitivity, and everything that is released must be equal
    in both runs. The last person has `max_rows_per_person` rows of the guarantee. Noise of another generator than
    `skdp.randomness` cannot be replayed, and fails.

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
