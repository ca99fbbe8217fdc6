"""The book of a ledger: its account and its charges, in memory or in an SQLite file.

A charge to a file is a transaction: SQLite locks the file for one process, adds the
charge and the new sums together, and waits until they are on the disk. A process that
is killed leaves no part of a charge.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from skdp._json import read_value
from skdp.markup import written_text
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.ledger._account import Account, Budget, Charge, Sums


def _charge_now(what: str, guarantee: PrivacyGuarantee) -> Charge:
    time = datetime.now(UTC).isoformat(timespec="microseconds")
    return Charge(written_text(what), guarantee, time)


class Turn:
    """A lock for one thread at a time, whose holder may not be interrupted by another charge."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._is_taken = False

    @contextmanager
    def take(self) -> Iterator[None]:
        """Wait for other threads; refuse a signal handler that interrupts the holder."""
        with self.lock:
            if self._is_taken:
                raise RuntimeError(
                    "the ledger is being charged by the code that this code interrupts"
                )
            self._is_taken = True
            try:
                yield
            finally:
                self._is_taken = False


_ONE_PROCESS = (
    "a PrivacyLedger in memory belongs to one process and cannot be used in another "
    "process or through a copy, which would spend the same budget twice. Use "
    "PrivacyLedger(path='ledger.sqlite', epsilon=...), or n_jobs=1 (or threads)."
)


class MemoryBook:
    """A book in memory, for the threads of one process."""

    path = None

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._account = Account(budget)
        self._charges: list[Charge] = []
        self._turn = Turn()
        self._process: int | None = os.getpid()
        self._refusal = _ONE_PROCESS

    def account(self) -> Account:
        """Return the account now, without waiting for other threads."""
        self._check_process()
        return self._account

    def snapshot(self) -> tuple[Account, list[Charge]]:
        """Return the account and the charges at one time."""
        self._check_process()
        with self._turn.lock:
            return self._account, list(self._charges)

    def charge(self, what: str, guarantee: PrivacyGuarantee) -> None:
        """Add a charge, if the budget covers it."""
        self._check_process()
        with self._turn.take():
            account = self._account.admit(what, guarantee)
            charge = _charge_now(what, guarantee)
            # A signal handler that raises interrupts only after calls, so both
            # statements are executed or none.
            self._account = account
            self._charges.append(charge)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(self._refusal)

    def __reduce__(self) -> tuple[Any, ...]:
        # joblib would replace an error of pickling by its own error. The error of the
        # first charge reaches the user.
        return close_book, (self.budget, self._refusal)


def close_book(budget: Budget, refusal: str) -> MemoryBook:
    """Return a book with a budget that refuses all charges."""
    book = MemoryBook(budget)
    book._process = None
    book._refusal = refusal
    return book


# Marks an SQLite file as a ledger: "skdp" in ASCII.
APPLICATION_ID = 0x736B6470

_VERSION = 2

_TABLES = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {_VERSION}",
    "CREATE TABLE account (budget TEXT, epsilon TEXT, delta TEXT, failure TEXT, rho TEXT, mu_squared TEXT)",
    "CREATE TABLE charge (number INTEGER PRIMARY KEY, time TEXT, what TEXT, guarantee TEXT)",
    "INSERT INTO account DEFAULT VALUES",
)

# A charge takes milliseconds, so another process that holds the lock for longer has
# stopped.
_TIMEOUT_SECONDS = 60.0

# Forks wait while a connection is open: a child that inherits the connection could roll
# back a transaction of its parent.
_turn = Turn()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_turn.lock.acquire,
        after_in_parent=_turn.lock.release,
        after_in_child=_turn.lock.release,
    )


class FileBook:
    """A book in an SQLite file. Threads, forks and pickles share only its path."""

    def __init__(self, path: Path, budget: Budget | None) -> None:
        self.path = path
        if budget is None and not path.exists():
            raise FileNotFoundError(
                f"ledger {path} does not exist; set epsilon (or rho or mu) to create it"
            )
        if not path.parent.is_dir():
            raise FileNotFoundError(
                f"ledger {path} cannot be created: its folder does not exist"
            )
        if budget is None:
            self.budget = self.account().budget
        else:
            self.budget = self._open(budget)

    def _open(self, budget: Budget) -> Budget:
        """Create a ledger with a budget; an existing ledger must have the same budget."""
        with _turn.take(), self._transaction(mode="rwc") as database:
            if _is_empty(database):
                for statement in _TABLES:
                    database.execute(statement)
                _write_account(database, Account(budget))
            stored = _load_account(database).budget
        request = budget
        if request.relation is None:
            request = replace(request, relation=stored.relation, columns=stored.columns)
        if request != stored:
            raise ValueError(
                f"the ledger {self.path} was created with {stored}, got {budget}. Omit "
                "the budget and the relation to open it."
            )
        return stored

    def account(self) -> Account:
        """Return the account; in code that interrupts a charge, the account before it."""
        with self._connection() as database:
            return _load_account(database)

    def snapshot(self) -> tuple[Account, list[Charge]]:
        """Return the account and the charges at one time."""
        with self._connection() as database:
            database.execute("BEGIN")
            account = _load_account(database)
            rows = database.execute(
                "SELECT what, guarantee, time FROM charge ORDER BY number"
            )
            return account, [
                Charge(what, _parse_guarantee(text), time) for what, text, time in rows
            ]

    def charge(self, what: str, guarantee: PrivacyGuarantee) -> None:
        """Add a charge, if the budget covers it, and wait until it is on the disk."""
        with _turn.take(), self._transaction() as database:
            account = _load_account(database).admit(what, guarantee)
            charge = _charge_now(what, guarantee)
            _write_account(database, account)
            database.execute(
                "INSERT INTO charge (time, what, guarantee) VALUES (?, ?, ?)",
                (charge.time, charge.what, guarantee.to_json()),
            )

    @contextmanager
    def _transaction(self, mode: str = "rw") -> Iterator[sqlite3.Connection]:
        """Hold the lock of the file; an error leaves the file as it was."""
        with self._connection(mode) as database:
            database.execute("BEGIN IMMEDIATE")
            yield database
            database.execute("COMMIT")

    @contextmanager
    def _connection(self, mode: str = "rw") -> Iterator[sqlite3.Connection]:
        """Connect to the file. A lost file is created again only if mode is "rwc"."""
        # The lock makes forks wait (see `_turn`).
        with _turn.lock, self._translate_errors():
            self._check_file(is_new=mode == "rwc")
            database = sqlite3.connect(
                f"{self.path.as_uri()}?mode={mode}",
                uri=True,
                timeout=_TIMEOUT_SECONDS,
                isolation_level=None,
            )
            # Closing rolls back a transaction that was not committed.
            with closing(database):
                # EXTRA: with FULL, a power failure after a commit may undo it.
                database.execute("PRAGMA synchronous = EXTRA")
                yield database

    def _check_file(self, *, is_new: bool) -> None:
        if not self.path.exists():
            if is_new:
                return
            raise FileNotFoundError(f"the ledger {self.path} does not exist any more")
        n_names = self.path.stat().st_nlink
        if n_names > 1:
            raise _Damaged(
                f"it has {n_names} names (hard links), which SQLite treats as different "
                "files"
            )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Replace errors of SQLite by errors with the path of the ledger and a remedy."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise OSError(f"the ledger {self.path} cannot be used: {error}") from error
        except (sqlite3.DatabaseError, _Damaged) as error:
            raise ValueError(
                f"{self.path} is not a valid ledger: {error}. Open another path, or "
                "restore a backup."
            ) from None


class _Damaged(ValueError):
    """A file is not a valid ledger."""


def _is_empty(database: sqlite3.Connection) -> bool:
    (n_tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(n_tables == 0)


def _load_account(database: sqlite3.Connection) -> Account:
    """Read the budget and the sums of a ledger."""
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise _Damaged("it is another database, or has no budget")
    if version != _VERSION:
        raise _Damaged("it was created by another version of skdp")
    try:
        content, *sums = database.execute("SELECT * FROM account").fetchone()
        amounts = [float(text) if text == "inf" else Fraction(text) for text in sums]
        return Account(_parse_budget(content), Sums(*amounts))
    except (TypeError, ValueError) as error:
        raise _Damaged(f"its budget cannot be read ({error})") from None


def _write_account(database: sqlite3.Connection, account: Account) -> None:
    budget = json.dumps(account.budget.to_fields())
    database.execute(
        "UPDATE account SET budget = ?, epsilon = ?, delta = ?, failure = ?, rho = ?, mu_squared = ?",
        (budget, *map(str, account.sums)),
    )


@lru_cache
def _parse_budget(text: str) -> Budget:
    fields = json.loads(text)
    columns = tuple(map(read_value, fields.pop("columns")))
    return Budget(**fields, columns=columns)


# Most charges of a ledger have the same guarantee.
_parse_guarantee = lru_cache(maxsize=256)(PrivacyGuarantee.from_json)
