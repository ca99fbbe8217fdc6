"""Checks of every estimator that releases something: its guarantee, charges, errors, and random bits."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import random
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd

from skdp.exact import round_up
from skdp.privacy import (
    BudgetExceeded,
    Mu,
    Rho,
    check_epsilon,
    parse_budget,
    privacy_statement,
)
from skdp.testing._subject import (
    SECRET_NUMBER,
    SECRET_TEXT,
    RecordingLedger,
    Subject,
    fitted_attributes,
    recorded_draws,
    require,
)

Check = Callable[[Any], None]


def check_guarantee(subject: Subject) -> None:
    """`guarantee_` states the mechanism, the columns, at most `epsilon`, and `secure` without a seed alone."""
    guarantee = subject.guarantee(random_state=None)
    require(
        guarantee.mechanism,
        "`guarantee_` must name the mechanism, got ''. Pass `mechanism`.",
    )
    scope = guarantee.scope
    is_of_values = guarantee.relation == "replace_values"
    is_covered = scope is not None and set(scope) <= set(subject.columns)
    require(
        is_covered if is_of_values else scope == subject.columns,
        f"the scope of `guarantee_` must be the fitted columns {subject.columns}, got"
        f" {scope}. Pass `scope`.",
    )
    require(
        guarantee.secure,
        "`guarantee_` must have secure=True without a seed, got False. Pass"
        " `secure=random_state is None`.",
    )
    if (
        subject.accepts("random_state")
        and not subject.is_permanent
        and guarantee.epsilon
    ):
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
        # Fractions, because a float above a decimal number is more than the number.
        is_within = epsilon is None or (
            Fraction(guarantee.epsilon) <= check_epsilon(epsilon)
        )
    require(
        is_within,
        f"`guarantee_` must state at most epsilon={epsilon!r}, got {guarantee.epsilon!r}"
        " (or no rho). Add noise, or allocate less to each part.",
    )


def check_statement(subject: Subject) -> None:
    """`privacy_statement` of the fitted estimator names every column of the guarantee as protected."""
    prepared = subject.prepare()
    subject.release(prepared)
    statement = privacy_statement(prepared, trusted=[type(prepared)])
    stated = {fact.column for fact in statement.facts if fact.guarantee is not None}
    guarantee = subject.guarantee()
    columns: Any = subject.columns
    if guarantee.relation == "replace_values":
        columns = guarantee.scope
    missing = sorted(map(str, set(columns) - stated))
    require(
        not missing,
        f"the privacy statement must have a guarantee of the columns of `guarantee_`, got"
        f" none of {missing}. Set `guarantee_` in `fit`, and `protects_rows`.",
    )


def check_charge(subject: Subject) -> None:
    """Each release charges `guarantee_` once, before it draws; copies share the ledger."""
    subject.needs("ledger")
    guarantee = subject.spending_guarantee()
    with recorded_draws() as drawn:
        ledger = RecordingLedger(guarantee, 5, drawn)
        original = subject.prepare(ledger=ledger)
        require(
            not ledger.log,
            f"fit must charge nothing before a release, got {len(ledger.log)} charges."
            " Charge in `transform`.",
        )
        # A copy with its own ledger would spend the budget once more.
        copied = [subject.prepare_again(original), copy.deepcopy(original)]
        for n_releases, prepared in enumerate([original, original, *copied], start=1):
            n_bytes = len(drawn)
            subject.release(prepared)
            require(
                len(ledger.log) == n_releases,
                f"{n_releases} releases must be {n_releases} charges, got"
                f" {len(ledger.log)}. Charge the ledger of the estimator once a release.",
            )
            charged, n_bytes_at_charge = ledger.log[-1]
            require(
                charged == prepared.guarantee_,
                "the charge must be `guarantee_`, got another guarantee. Pass"
                " `self.guarantee_` to `ledger.charge`.",
            )
            require(
                n_bytes_at_charge == n_bytes,
                "the charge must come before the first draw, got"
                f" {n_bytes_at_charge - n_bytes} bytes before it. Charge, then draw.",
            )


def check_budget(subject: Subject) -> None:
    """Beyond the budget, `BudgetExceeded` is raised, and nothing is drawn or set."""
    subject.needs("ledger")
    guarantee = subject.spending_guarantee()
    with recorded_draws() as drawn:
        prepared = subject.prepare(ledger=RecordingLedger(guarantee, 0.5, drawn))
        before = set(vars(prepared))
        n_bytes = len(drawn)
        try:
            subject.release(prepared)
        except BudgetExceeded:
            require(
                len(drawn) == n_bytes,
                f"a rejected release must draw nothing, got {len(drawn) - n_bytes} bytes."
                " Charge, then draw.",
            )
        else:
            raise AssertionError(
                "a release beyond the budget must raise BudgetExceeded, got a release."
                " Do not catch the error of `ledger.charge`."
            )
    # What scikit-learn records of the columns shows only that fit was called.
    seen = {"n_features_in_", "feature_names_in_"}
    names = [
        name for name in vars(prepared).keys() - before - seen if name.endswith("_")
    ]
    require(
        not names,
        f"a rejected release must set no attributes, got {sorted(names)}. Charge before"
        " attributes are set.",
    )


def check_parameters(subject: Subject) -> None:
    """Invalid parameters and tables without the columns raise before any charge or draw."""
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
        with recorded_draws() as drawn:
            ledger = RecordingLedger(guarantee, 5, drawn)
            try:
                prepared = subject.prepare(ledger=ledger, **parameters)
                drawn.clear()  # public bits, such as the seed of a hash function
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
                    f"{parameters or 'a table without the columns'} must raise"
                    " TypeError or ValueError, got a release. Check it before the charge."
                )


def check_errors(subject: Subject) -> None:
    """No error, warning, release or fitted attribute contains an odd value of the table, and errors cost nothing."""
    guarantee = subject.guarantee()
    for label, X in subject.odd_tables():
        require_hidden(subject, label, X, guarantee)


def require_hidden(subject: Subject, label: str, X: Any, guarantee: Any) -> None:
    """Fail if the release of a table shows a secret value, or an error is charged."""
    ledger = RecordingLedger(guarantee, 1e3, bytearray())
    prepared = subject.prepare(ledger=ledger)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            released = subject.release(prepared, X)
        except Exception as error:
            texts = list(texts_of(error))
            is_expected = isinstance(error, TypeError | ValueError)
            require(
                is_expected and not ledger.log,
                f"{label} must raise TypeError or ValueError before the charge, got"
                f" {type(error).__name__} and {len(ledger.log)} charges. Check the values"
                " first.",
            )
        else:
            texts = [repr(subject.describe(released)), str(fitted_attributes(prepared))]
    texts += [str(warning.message) for warning in caught]
    require(
        not shows_secret(*texts),
        f"{label} must not be shown, got it in an error, a warning, an attribute or the"
        " release. Name the column instead, and `raise ... from None`.",
    )


def shows_secret(*texts: str) -> bool:
    """Check if a text contains a secret value."""
    return any(
        sign in text for text in texts for sign in (SECRET_TEXT, str(SECRET_NUMBER))
    )


def texts_of(error: BaseException | None) -> Iterator[str]:
    """Collect the texts of an error and of the errors that led to it."""
    # A suppressed context is not shown, but loggers and debuggers have it, like the
    # attribute `object` of an error of Unicode. An error may be the context of its cause.
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
    """Without a seed, calls, copies, pickles and forks use distinct random bits, also after `np.random.seed(0)`."""
    subject.spending_guarantee()
    original = subject.prepare_noisy(random_state=None)
    pickled = pickle.dumps(original)
    fingerprints = []
    # Each is copied twice, because a copy may repeat another copy but not the original.
    for _ in range(2):
        for prepared in (
            original,
            subject.prepare_again(original),
            pickle.loads(pickled),
            copy.deepcopy(original),
        ):
            fingerprints.append(subject.fingerprint(prepared))
        fingerprints.append(_release_after_seeds(subject, original))
        if "fork" in multiprocessing.get_all_start_methods():
            fingerprints.append(_release_in_fork(subject, original))
    n_distinct = len(set(fingerprints))
    require(
        n_distinct == len(fingerprints),
        f"{len(fingerprints)} calls, of copies, of forked processes and after"
        f" np.random.seed(0), must use distinct random bits, got {n_distinct} distinct"
        " releases. Draw from a new `skdp.randomness.SecureSource` each time.",
    )


def _release_after_seeds(subject: Subject, prepared: Any) -> str:
    """Release with the global generators of NumPy and Python seeded, as users do for scikit-learn."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        return subject.fingerprint(prepared)
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


def _release_in_fork(subject: Subject, prepared: Any) -> str:
    """Release in a forked process, which inherits the state of the estimator."""
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def release() -> None:
        sender.send(subject.fingerprint(prepared))

    process = multiprocessing.get_context("fork").Process(target=release)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        # Python warns of forks beside threads; this one only releases, and ends.
        process.start()
    sender.close()  # so that a process that ends without a release is noticed
    if not receiver.poll(120):
        raise AssertionError(
            "a forked process must release, got none. Hold no locks while drawing."
        )
    process.join()
    return str(receiver.recv())


def check_seeds(subject: Subject) -> None:
    """Repeat releases in clones, pickles and new fits by an int `random_state`, and differ by another int."""
    subject.needs("random_state")
    subject.spending_guarantee()
    if subject.is_permanent:
        raise SkipTest("permanent reports follow from the secret key")
    X = subject.noisy_table()

    def release_twice(prepared: Any) -> list[Any]:
        return [subject.describe(subject.release(prepared, X)) for _ in range(2)]

    original = subject.prepare_noisy(random_state=7)
    pickled = pickle.dumps(original)
    expected = release_twice(original)
    copied = {
        "a clone": subject.prepare_again(original),
        "a pickle": pickle.loads(pickled),
        "a new estimator": subject.prepare_noisy(random_state=7),
    }
    for origin, prepared in copied.items():
        require(
            release_twice(prepared) == expected,
            f"random_state=7 must give {origin} equal releases, got others. Draw all"
            " random bits from the seed.",
        )
    require(
        subject.repeats_with_seed or expected[0] != expected[1],
        "two calls with random_state=7 must differ, got equal releases. Advance the"
        " stream with each call.",
    )
    # A random choice of one of two columns is often equal for two seeds.
    others = []
    for seed in range(8):
        prepared = subject.prepare_noisy(random_state=seed)
        others.append(subject.describe(subject.release(prepared, X)))
    require(
        any(other != others[0] for other in others),
        "eight seeds must give different releases, got equal ones. Use `random_state`.",
    )


CHECKS: tuple[Check, ...] = (
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
    """Bind checks to an estimator; their failures name it and the check."""
    for check in checks:
        yield check.__name__, partial(_run_check, check, subject)


def _run_check(check: Check, subject: Subject) -> None:
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
    """Run all checks, and raise the first failure."""
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
