"""The book of a ledger: its budget, its charges and their sums, in a database.

A budget is a privacy filter: it bounds the privacy loss of all charges together, even if
each charge depends on earlier results. With charges of (epsilon_i, delta_i), which may
also have a rho_i or mu_i:

- ``epsilon, delta``: the epsilons add up to at most epsilon, the deltas to at most
  delta (basic composition).
- ``rho``: the rhos add up to at most rho (zero-concentrated privacy, [1]_, [2]_).
- ``mu``: the squares of mu add up to at most mu**2 (Gaussian privacy, [3]_).

A budget uses one of these rules. A combination would require a separate delta for each
rule, because earlier results could decide which rule admits the next charge.

.. [1] V. Feldman, T. Zrnic (2021). Individual privacy accounting via a Rényi filter.
   NeurIPS.
.. [2] J. Whitehouse, A. Ramdas, R. Rogers, Z. S. Wu (2023). Fully-adaptive composition
   in differential privacy. ICML.
.. [3] A. Smith, A. Thakurta (2022). Fully adaptive composition for Gaussian
   differential privacy. arXiv:2210.17520
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import threading
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from skdp._json import MAX_FILE_BYTES, check_version, value_from_json
from skdp.exact import round_up
from skdp.privacy._formats import (
    VERSION,
    check_choice,
    check_delta,
    check_epsilon,
    format_text,
    write_name,
)
from skdp.privacy.guarantees._budget import PrivacyBudget
from skdp.privacy.guarantees._conversions import gaussian_epsilon, zcdp_epsilon
from skdp.privacy.guarantees._guarantee import (
    RELATIONS,
    PrivacyGuarantee,
    Relation,
    check_protected,
    join_names,
)
from skdp.privacy.guarantees._losses import (
    GaussianLoss,
    Loss,
    StatedLoss,
    gaussian_loss,
    pure_mu,
)

if TYPE_CHECKING:  # an optional package
    import psycopg

# Connection to the database of a ledger.
Database: TypeAlias = "sqlite3.Connection | psycopg.Connection"

# An exact sum of privacy losses; infinite if a release has no finite loss of this measure.
Total = Fraction | float


def to_decimal(number: float) -> Total:
    """Return the shortest decimal of a float as a fraction, so that 0.1 is exactly 1 / 10."""
    return Fraction(str(number)) if math.isfinite(number) else math.inf


def round_up_total(amount: Total) -> float:
    """Round an amount up to a float."""
    return math.inf if amount == math.inf else round_up(Fraction(amount))


def round_down(amount: Total) -> float:
    """Return the largest float whose shortest decimal is at most an amount, and at least 0."""
    if amount == math.inf:
        return math.inf
    nearest = float(max(amount, 0))
    if to_decimal(nearest) > amount:
        return max(math.nextafter(nearest, -math.inf), 0.0)
    return nearest


def shorten_remaining(left: Total, limit: Total) -> float:
    """Round a remaining amount down to nine decimals of its limit, and up to 0."""
    if not limit:
        return 0.0
    # Charges may be 1e-12 below the epsilon of an estimator.
    unit = Fraction(10) ** (math.floor(math.log10(limit)) - 9)
    return float(max(left, 0) // unit * unit)


# Measures of privacy loss, which add up over charges that are all for one neighboring
# relation: epsilon, delta, rho (zCDP) and mu squared (Gaussian).
MEASURES = ("epsilon", "delta", "rho", "mu_squared")

MeasureSums = dict[str, Total]


def add_amounts(sums: MeasureSums, amounts: MeasureSums, count: int = 1) -> MeasureSums:
    """Return sums plus `count` times the amounts of a release."""
    return {name: sums[name] + count * amounts[name] for name in MEASURES}


def get_amounts(guarantee: PrivacyGuarantee) -> MeasureSums:
    """Return the losses of one release with a guarantee, by measure.

    A loss is infinite if the guarantee does not bound it.
    """
    rho, mu_squared = _add_losses(guarantee._get_losses())
    # The sums of rounded losses of many parts may exceed the stated rho or epsilon of the
    # release. A part with a failure probability has no finite rho or mu.
    if guarantee.rho is not None and rho != math.inf:
        rho = min(rho, to_decimal(guarantee.rho))
    if guarantee.delta == 0:
        stated = _add_losses([StatedLoss(guarantee.epsilon)])
        rho, mu_squared = min(rho, stated[0]), min(mu_squared, stated[1])
    epsilon, delta = map(to_decimal, (guarantee.epsilon, guarantee.delta))
    return {"epsilon": epsilon, "delta": delta, "rho": rho, "mu_squared": mu_squared}


def _add_losses(losses: Iterable[Loss]) -> tuple[Total, Total]:
    """Return the sums of rho (zCDP) and of mu squared (Gaussian differential privacy) of losses; inf for none."""
    rho: Total = Fraction(0)
    mu_squared: Total = Fraction(0)
    for loss in losses:
        one: Any = loss._rho
        square: Any = None
        if isinstance(loss, GaussianLoss):
            square = to_decimal(loss.mu) ** 2
            one = square / 2
        elif not loss._failure:
            mu = pure_mu(loss._epsilon, loss._share)
            square = mu and mu**2
        rho += loss.count * (math.inf if one is None else one)
        mu_squared += loss.count * (math.inf if square is None else square)
    return rho, mu_squared


# Remedy for a budget of which nothing is left.
SPENT = (
    "Each fit is a charge, also of a fold and in an earlier run. Divide a budget by "
    "`PrivacyLedger.split`, or use a ledger with a larger one."
)


class BudgetExceeded(RuntimeError):
    """Error of a release that would exceed the budget. Nothing was released or charged.

    Parameters
    ----------
    message : str
        What the release requires, and what the ledger has left.

    remedy : str, default=""
        What to change, the last sentence of the text.

    Attributes
    ----------
    remedy : str
        The parameter; empty if a release that spends less suffices.

    Examples
    --------
    >>> from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger
    >>> try:
    ...     PrivacyLedger(1.0).charge(PrivacyGuarantee(2.0), "survey")
    ... except BudgetExceeded as error:
    ...     print(error)
    survey requires epsilon=2.0, but the ledger has 1.0 of 1.0 left.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message} {remedy}".rstrip())
        self.remedy = remedy


@dataclass(frozen=True)
class Account:
    """The budget of a ledger, which limits epsilon and delta, or rho, or mu, and the sums of its charges."""

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    mu: float | None = None
    # None until the first charge.
    relation: Relation | None = None
    # Protected columns of "replace_values".
    columns: tuple[Any, ...] = ()
    # Accounts are equal if their budgets are.
    sums: MeasureSums = field(
        default_factory=lambda: dict.fromkeys(MEASURES, Fraction(0)), compare=False
    )

    def __post_init__(self) -> None:
        # A budget limits epsilon and delta, rho or mu; exactly one of the three is
        # given. `columns` are the protected columns of the relation "replace_values".
        if self.relation is not None:
            check_choice("relation", self.relation, RELATIONS)
        # Sorted, so that the order of the columns does not matter for equality.
        columns = sorted(check_protected(self.relation, self.columns), key=repr)
        numbers = self.numbers()
        delta = numbers.pop("delta", 0.0)
        if len(numbers) != 1:
            raise ValueError(
                "A budget must be exactly one of epsilon (with delta), rho and mu or guess, "
                f"got {' and '.join(numbers) or 'none'}."
            )
        ((name, number),) = numbers.items()
        limit = float(check_epsilon(number, name=name))
        if name == "epsilon":
            delta = float(check_delta(delta))
        elif delta:
            raise ValueError(
                f"`delta` requires a budget of epsilon, got {name}={limit}."
            )
        object.__setattr__(self, name, limit)
        object.__setattr__(self, "delta", delta if name == "epsilon" else None)
        object.__setattr__(self, "columns", tuple(columns))

    def numbers(self) -> dict[str, float]:
        """Return the parameters epsilon, delta, rho and mu that are not None."""
        fields = vars(self).items()
        return {name: x for name, x in fields if name in _AMOUNTS and x is not None}

    def __str__(self) -> str:
        texts = {x: f"{x}={value!r}" for x, value in self.to_fields().items() if value}
        if self.mu is not None:
            texts["mu"] += f" (guess={_format_guess(self.mu)})"
        return ", ".join(texts.values())

    @cached_property
    def limits(self) -> MeasureSums:
        """The limits of the sums that have one."""
        limits = {name: to_decimal(number) for name, number in self.numbers().items()}
        if self.mu is not None:
            limits["mu_squared"] = limits.pop("mu") ** 2
        return limits

    def convert(self, guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
        """Convert a guarantee to the relation of the budget."""
        return guarantee.to(
            self.relation or guarantee.relation, columns=self.columns or None
        )

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of the budget for JSON."""
        fields = {name: value for name, value in vars(self).items() if name in _FIELDS}
        return fields | {"columns": list(map(write_name, self.columns))}

    def admit(self, title: str, guarantee: PrivacyGuarantee) -> Account:
        """Return the account after a charge; raise `BudgetExceeded` if the budget does not cover it.

        `title` names the release. The first charge determines the relation of a budget
        without a relation.
        """
        converted = self._convert(title, guarantee)
        amounts = get_amounts(converted)
        after = add_amounts(self.sums, amounts)
        for name, limit in self.limits.items():
            if after[name] > limit:
                self._raise_exceeded(title, guarantee, name, amounts[name])
        relation = self.relation or converted.relation
        return replace(self, relation=relation, sums=after)

    def _convert(self, title: str, guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
        """Convert a guarantee to the relation of neighboring inputs of the budget; `title` names the release."""
        if guarantee.relation == "replace_values" and not self.columns:
            raise ValueError(
                f"{title} protects the values of {join_names(guarantee.scope)} only, "
                "which a budget for whole records does not cover. Use a ledger with "
                f"relation='replace_values', columns={list(guarantee.scope)}."
            )
        try:
            return self.convert(guarantee)
        except ValueError as error:
            remedy = ""
            if self.relation == "add_remove":
                remedy = " Use PrivacyLedger(relation='replace') for both."
            raise ValueError(
                f"{title}: {error} The ledger has {self}.{remedy}"
            ) from None

    def _raise_exceeded(
        self, title: str, guarantee: PrivacyGuarantee, name: str, amount: Total
    ) -> None:
        """Raise `BudgetExceeded` for the release `title`.

        `name` is the measure of `MEASURES` with too small a remaining budget, and `amount`
        is the loss of the release in this measure: infinite if it has no rho or mu.
        """
        # A loss without a delta is infinite only if it is too large for floats.
        if amount == math.inf and guarantee.delta:
            measure = "rho" if self.mu is None else "mu"
            raise BudgetExceeded(
                f"{title} has no {measure} (delta={guarantee.delta}), but the ledger "
                f"has a budget of {measure}.",
                "Use PrivacyLedger with `epsilon=` and `delta=`, or a release with "
                "`delta=0`.",
            )
        limit = self.limits[name]
        needed = round_up_total(amount)
        left = shorten_remaining(limit - self.sums[name], limit)
        of = float(limit)
        if self.mu is not None:
            needed, left, of = needed**0.5, float(f"{left**0.5:.9g}"), self.mu
        # Nine digits are shown if the loss still exceeds the remaining amount.
        shortened = float(f"{needed:.9g}")
        needed = shortened if shortened > left else needed
        required, has, detail = f"{name}={needed}", f"{left} of {of} left", ""
        if self.mu is not None:
            # The largest probability of a correct guess follows from mu.
            guesses = list(map(_format_guess, (needed, left, of)))
            detail = f" (mu={needed}, {has}, as squares of mu add up)"
            required = f"guess={guesses[0]}"
            # A guess of 0.5 is possible without a release.
            has = f"{guesses[1] if left else 'nothing'} of {guesses[2]} left"
        # A guarantee for add_remove has another loss in the relation of the budget.
        if self._convert(title, guarantee).relation != guarantee.relation:
            required = f"{required} for relation={self.relation!r}"
        remedy = "" if left else SPENT
        if name == "delta":
            remedy = (
                "Increase `delta=` of PrivacyLedger, or decrease `delta=` of the "
                "estimator."
            )
        raise BudgetExceeded(
            f"{title} requires {required}, but the ledger has {has}{detail}.",
            remedy,
        )

    def remaining(self) -> MeasureSums:
        """Return the remaining amounts of the sums that have a limit."""
        return {name: limit - self.sums[name] for name, limit in self.limits.items()}

    def describe_amounts(self, amounts: MeasureSums) -> dict[str, Any]:
        """Return the fields epsilon, delta, rho and losses of a guarantee for amounts in the measure of the budget."""
        fields: dict[str, Any] = {"delta": STATED_DELTA, "rho": None, "losses": ()}
        if self.epsilon is not None:
            return fields | {
                x: round_up_total(amounts[x]) for x in ("epsilon", "delta")
            }
        if self.rho is not None:
            rho = round_up_total(amounts["rho"])
            return fields | {"epsilon": zcdp_epsilon(rho, STATED_DELTA), "rho": rho}
        loss = gaussian_loss(Fraction(amounts["mu_squared"]))
        epsilon = gaussian_epsilon(loss.mu, STATED_DELTA)
        return fields | {"epsilon": epsilon, "losses": (loss,)}

    def largest_charge(self) -> tuple[float, float]:
        """Return the largest epsilon and delta of one further charge that states no other loss."""
        left = self.remaining()
        if self.epsilon is None:
            ((_, amount),) = left.items()
            kind: Literal["rho", "mu"] = "mu" if self.rho is None else "rho"
            return float(PrivacyBudget(kind, Fraction(amount)).pure), 0.0
        epsilon, delta = map(shorten_remaining, left.values(), self.limits.values())
        return epsilon, delta


def _format_guess(mu: float) -> str:
    """Format the largest probability of a correct guess with a loss of mu."""
    return f"{NormalDist().cdf(mu / 2):.4g}"


# Delta for the epsilon of a budget of rho or mu. It is constant, because a delta that
# depends on earlier results is not a guarantee.
STATED_DELTA = 1e-6

# Amounts of a budget, and all fields of a budget in a file.
_AMOUNTS = ("epsilon", "delta", "rho", "mu")
_FIELDS = (*_AMOUNTS, "relation", "columns")


_COPY_MESSAGE = (
    "A PrivacyLedger in memory belongs to one process and cannot be used in another "
    "process or through a copy, which would spend the same budget twice. Use "
    "PrivacyLedger(path='ledger.sqlite', epsilon=...), or n_jobs=1 (or threads)."
)

# Time to wait for the lock of a ledger. A charge takes milliseconds, so another process
# that keeps the lock longer has stopped.
TIMEOUT_SECONDS = 60

# Forks wait while a connection is open: a child that inherits the connection could roll
# back a transaction of its parent.
lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
    )


# Titles of releases, their guarantees, and times in UTC as ISO 8601, in order.
Charges = list[tuple[str, PrivacyGuarantee, str]]

# Errors of reading stored text that is not an account.
_CONTENT_ERRORS = (
    RecursionError,
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    ArithmeticError,
)


class Book(ABC):
    """The account and the charges of a ledger in two tables of an SQL database."""

    # A charge is a transaction: the database locks the account for other processes,
    # writes the charge and the new sums together, and waits until they are on the disk.
    # A process that is killed leaves no part of a charge.

    # Names of the tables, and parts of statements in which databases differ.
    _account = "account"
    _charge = "charge"
    _key = "INTEGER PRIMARY KEY"
    _parameter = "?"
    _row_lock = ""

    def __init__(self, budget: Account | None) -> None:
        # Error message of all calls; None while the book is open.
        self._closed_message: str | None = None
        # Without a budget, the tables must exist. Otherwise, they are created, or they
        # must have this budget.
        if budget is not None:
            with self._transaction(create=True) as database:
                if not self._has_tables(database):
                    self._create_tables(database, budget)
        self.budget, _ = self.snapshot()
        if budget is not None:
            self._check_budget(budget)

    @property
    @abstractmethod
    def address(self) -> Path | str | None:
        """The file or the address of the database, without a password; None in memory."""

    @abstractmethod
    def _transaction(
        self, *, writes: bool = False, create: bool = False
    ) -> AbstractContextManager[Database]:
        """Connect for a transaction, which an error rolls back.

        With `writes`, charges of other processes wait until it ends. With `create`, tables
        that do not exist may be created.
        """

    @abstractmethod
    def _has_tables(self, database: Database) -> bool:
        """Check if the database has the tables of a ledger."""

    def close(self, message: str) -> None:
        """Let all further calls raise an error with this message."""
        self._closed_message = message

    def account(self) -> Account:
        """Return the account."""
        with self._transaction() as database:
            return self._load(database)

    def snapshot(self) -> tuple[Account, Charges]:
        """Return the account and all charges, in one transaction; check that they agree."""
        with self._transaction() as database:
            account, charges = self._load(database), self._load_charges(database)
        self._check_sums(account, charges)
        return account, charges

    def charge(self, title: str, guarantee: PrivacyGuarantee) -> Account:
        """Write a charge, if the budget covers it, and return the account when it is on the disk.

        `title` names the release, which may be drawn only after this call.
        """
        with self._transaction(writes=True) as database:
            stored = self._load(database, self._row_lock)
            account = stored.admit(title, guarantee)
            self._write_account(database, account)
            time = self._read_time(database).isoformat(timespec="microseconds")
            p = self._parameter
            database.execute(
                f"INSERT INTO {self._charge} (time, what, guarantee) "
                f"VALUES ({p}, {p}, {p})",
                (time, format_text(title), guarantee.to_json()),
            )
        return account

    def _read_time(self, database: Database) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)

    def _list_tables(self) -> list[str]:
        """Return the statements that create the tables of a ledger."""
        return [
            f"CREATE TABLE {self._account} "
            "(budget TEXT, epsilon TEXT, delta TEXT, rho TEXT, mu_squared TEXT)",
            f"CREATE TABLE {self._charge} "
            f"(number {self._key}, time TEXT, what TEXT, guarantee TEXT)",
        ]

    def _create_tables(self, database: Database, budget: Account) -> None:
        """Create the tables of a ledger."""
        for statement in self._list_tables():
            database.execute(statement)
        database.execute(f"INSERT INTO {self._account} DEFAULT VALUES")
        self._write_account(database, budget)

    def _load(self, database: Database, row_lock: str = "") -> Account:
        """Return the budget and the sums of all charges; `row_lock` is SQL that locks them in this transaction."""
        rows = database.execute(f"SELECT * FROM {self._account}{row_lock}").fetchall()
        try:
            ((content, *stored),) = rows
            fields = json.loads(content)
            # Later versions add the field "version" to the budget.
            check_version(fields.pop("version", VERSION), VERSION, "The ledger")
            amounts = map(_parse_sum, stored)
            columns = tuple(map(value_from_json, fields.pop("columns")))
            sums: MeasureSums = dict(zip(MEASURES, amounts, strict=True))
            account = Account(**fields, columns=columns, sums=sums)
        except _CONTENT_ERRORS as error:
            raise self._damaged(f"its budget cannot be read ({error})") from None
        if any(amount < 0 for amount in sums.values()):
            raise self._damaged("a sum of its charges is negative")
        return account

    def _load_charges(self, database: Database) -> Charges:
        """Return all charges in order."""
        rows = database.execute(
            f"SELECT what, guarantee, time FROM {self._charge} ORDER BY number"
        ).fetchall()
        texts = {text for _, text, _ in rows}  # most charges repeat a guarantee
        try:
            guarantees = {text: PrivacyGuarantee.from_json(text) for text in texts}
        except (TypeError, ValueError) as error:
            raise self._damaged(f"a charge cannot be read ({error})") from None
        return [(title, guarantees[text], time) for title, text, time in rows]

    def _check_sums(self, account: Account, charges: Charges) -> None:
        """Raise an error unless the stored sums cover the charges."""
        expected: MeasureSums = dict.fromkeys(MEASURES, Fraction(0))
        try:
            for guarantee, count in Counter(charge[1] for charge in charges).items():
                amounts = get_amounts(account.convert(guarantee))
                expected = add_amounts(expected, amounts, count)
        except ValueError:
            raise self._damaged("a charge does not fit its budget") from None
        # Stored sums of delta, rho and mu may be larger, from a version with larger bounds
        # on the losses of guarantees. Rho and mu are rounded.
        tolerance = 1 - Fraction(1, 10**9)
        is_covered = account.sums["epsilon"] == expected["epsilon"] and all(
            account.sums[name] >= expected[name] * tolerance for name in MEASURES
        )
        if not is_covered or (charges and account.relation is None):
            raise self._damaged("its sums are not the sums of its charges")

    def _check_budget(self, budget: Account) -> None:
        """Raise an error unless the stored budget is the given one."""
        request = budget
        if request.relation is None:
            request = replace(
                request, relation=self.budget.relation, columns=self.budget.columns
            )
        if request != self.budget:
            raise ValueError(
                f"The ledger {self.address} was created with {self.budget}, got "
                f"{budget}. Omit the budget and the relation to open it, or choose another "
                "path for a new ledger."
            )

    def _write_account(self, database: Database, account: Account) -> None:
        """Replace the budget and the sums."""
        names = ["budget", *MEASURES]
        values = ", ".join(f"{name} = {self._parameter}" for name in names)
        budget = json.dumps(account.to_fields())
        database.execute(
            f"UPDATE {self._account} SET {values}",
            (budget, *(str(account.sums[name]) for name in MEASURES)),
        )

    def _damaged(self, reason: str) -> ValueError:
        """Return the error of a database that is not a valid ledger."""
        return ValueError(
            f"{self.address} is not a valid ledger: {reason}. Open another path, or "
            "restore a backup."
        )


def _parse_sum(text: str) -> Total:
    """Return the stored sum of charges: an integer, a fraction or "inf"."""
    if text == "inf":
        return math.inf
    # Other numbers, such as 1e99999999, could take any time.
    numerator, _, denominator = text.partition("/")
    return Fraction(int(numerator), int(denominator or 1))


class FileBook(Book):
    """A ledger in an SQLite database: a file, or memory if `path` is None."""

    def __init__(self, budget: Account | None, path: Path | None = None) -> None:
        # `_process` is the process in which a book in memory is valid.
        self.path = path
        self._process = os.getpid()
        self._memory = None
        if path is None:
            self._memory = _connect(":memory:")
            # Python 3.13 warns of a connection that is not closed.
            weakref.finalize(self, self._memory.close)
        super().__init__(budget)

    @property
    def address(self) -> Path | None:
        """The file; None in memory."""
        return self.path

    def __getstate__(self) -> dict[str, Any]:
        # The copy of a book in memory raises an error at its first charge. An error of
        # pickling would be replaced by joblib.
        message = _COPY_MESSAGE if self.path is None else None
        message = self._closed_message or message
        return vars(self) | {"_memory": None, "_closed_message": message}

    def _has_tables(self, database: Database) -> bool:
        """Check if the database has tables."""
        return bool(_list_schema(database))

    def _load(self, database: Database, row_lock: str = "") -> Account:
        """Return the budget and the sums of all charges; reject views, triggers and tables of another program."""
        # Reading a view or a computed column executes the code of the file.
        if _list_schema(database) != self._list_tables():
            raise self._damaged("its tables are not the tables of a ledger")
        return super()._load(database, row_lock)

    @contextmanager
    def _transaction(
        self, *, writes: bool = False, create: bool = False
    ) -> Iterator[sqlite3.Connection]:
        """Connect for a transaction, which locks the file with `writes` or `create`."""
        with self._connection("rwc" if create else "rw") as database:
            # A nested charge, such as in a signal handler, raises an error here.
            database.execute(
                "BEGIN IMMEDIATE" if writes or create else "BEGIN DEFERRED"
            )
            with database:
                yield database

    @contextmanager
    def _connection(self, mode: str) -> Iterator[sqlite3.Connection]:
        """Connect to the database; the mode "rwc" creates a file that does not exist."""
        if self._closed_message is not None:
            raise RuntimeError(self._closed_message)
        # The lock makes forks wait (see `lock`).
        with lock:
            try:
                if self.path is None:
                    if self._memory is None or os.getpid() != self._process:
                        raise RuntimeError(_COPY_MESSAGE)
                    yield self._memory
                    return
                if mode == "rw" and not self.path.exists():
                    raise FileNotFoundError(MISSING.format(self.path))
                if mode == "rwc":
                    # Only the owner may read a new file. SQLite states other errors.
                    with suppress(OSError):
                        os.close(os.open(self.path, os.O_CREAT | os.O_RDONLY, 0o600))
                with closing(_connect(f"{self.path.as_uri()}?mode={mode}")) as database:
                    # With FULL in place of EXTRA, a power failure could undo a commit.
                    database.execute("PRAGMA synchronous = EXTRA")
                    yield database
            except sqlite3.OperationalError as error:
                raise OSError(
                    f"The ledger {self.path} cannot be used: {error}."
                ) from error
            except sqlite3.DatabaseError as error:
                raise self._damaged(str(error)) from None


# Message about a ledger that does not exist, with its path.
MISSING = (
    "The ledger {} does not exist; set epsilon (or guess, rho or mu) to create it."
)


def _connect(address: str) -> sqlite3.Connection:
    """Open an SQLite database by its URI, or in memory."""
    # `lock` allows one thread at a time to use the connection.
    database = sqlite3.connect(
        address,
        uri=True,
        timeout=TIMEOUT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_FILE_BYTES)
    return database


def _list_schema(database: Database) -> list[str]:
    """Return the statements of all tables, views, triggers and indexes of a file, without statistics of SQLite."""
    query = "SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%'"
    return sorted(str(sql) for (sql,) in database.execute(query))
