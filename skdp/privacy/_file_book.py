"""The book in a file: shared by processes, and as durable as the disk."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, fields, replace
from pathlib import Path

from skdp.privacy._book import Budget, Charge, Page

_APPLICATION = 0x736B6470
"""The mark of our files: "skdp"."""

_FORMAT = 1

_PATIENCE = 60.0
"""Seconds to wait for other writers; a charge takes milliseconds."""

_COLUMNS = ", ".join(field.name for field in fields(Charge))

# No connection crosses a fork: while one is open, forks wait.
_open = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_open.acquire, after_in_parent=_open.release, after_in_child=_open.release)


class FileBook:
    """An SQLite file: each charge is one transaction that is on the disk before it returns.

    A connection is opened for each transaction, so that nothing is shared over threads, forks or pickles but the path.

    Parameters
    ----------
    path : Path
        Absolute.
    budget : Budget or None
        What a new file starts with, and what an existing one must have; None to take that of an existing file. A
        relation of None fits any.

    Attributes
    ----------
    budget : Budget
        What the file says.

    Raises
    ------
    OSError
        If the file, or its folder, does not exist or cannot be written.
    ValueError
        If the file is no ledger, or one with another budget.
    """

    def __init__(self, path: Path, budget: Budget | None) -> None:
        self.path = path
        if budget is None and not path.exists():
            raise FileNotFoundError(f"there is no ledger {path}; give epsilon= to make one")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"the ledger {path} cannot be made: there is no such folder")
        with self._connection(create=budget is not None) as connection:
            with _transaction(connection, "BEGIN IMMEDIATE"):
                if budget is not None and _is_empty(connection):
                    _create(connection, budget)
                self.budget = _FilePage(connection).budget
            wanted = budget and replace(budget, relation=budget.relation or self.budget.relation)
            if wanted not in (None, self.budget):
                raise ValueError(
                    f"the ledger {path} was made with {self.budget}, and is now opened with {budget}; leave out "
                    "epsilon, delta and relation to use it as it is"
                )
            _write_ahead(connection)

    @contextmanager
    def opened(self, *, write: bool) -> Iterator[Page]:
        """Open the book, for one writer at a time among all processes.

        Parameters
        ----------
        write : bool
            Whether a line may be added.

        Yields
        ------
        Page
            The book, until the transaction ends.

        Raises
        ------
        OSError
            If the file is gone, cannot be written, or stays locked for a minute.
        ValueError
            If it is no ledger any more.
        """
        with self._connection() as connection, _transaction(connection, "BEGIN IMMEDIATE" if write else "BEGIN"):
            yield _FilePage(connection)

    @contextmanager
    def _connection(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        # Never made by accident: an empty file in the place of a lost one would have the whole budget again.
        mode = "rwc" if create else "rw"
        with self._explained(), _open, closing(_connect(f"{self.path.as_uri()}?mode={mode}")) as connection:
            yield connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if not self.path.exists():
                raise FileNotFoundError(f"the ledger {self.path} is gone; nothing was released") from None
            raise OSError(f"the ledger {self.path} cannot be used, nothing was released: {error}") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.path} is no ledger: {error}") from error


def _connect(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")  # a charge has reached the disk when it returns
    return connection


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.execute("COMMIT")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Let readers and a writer not wait for each other; charges are as safe without."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:  # SQLite does not wait for this by itself
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


class _FilePage:
    """The two tables of a file, within a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        mark, version = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        if (mark, version) != (_APPLICATION, _FORMAT):
            raise sqlite3.DatabaseError("it is another kind of database, or an empty file")

    @property
    def budget(self) -> Budget:
        epsilon, delta, relation = self._connection.execute("SELECT epsilon, delta, relation FROM budget").fetchone()
        return Budget(float(epsilon), float(delta), relation)

    def charges(self) -> list[Charge]:
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM charges ORDER BY number")
        return [Charge(*row) for row in rows]

    def amounts(self) -> list[tuple[str, str]]:
        return self._connection.execute("SELECT epsilon, delta FROM charges").fetchall()

    def append(self, charge: Charge) -> None:
        places = ", ".join("?" * len(fields(charge)))
        self._connection.execute(f"INSERT INTO charges ({_COLUMNS}) VALUES ({places})", astuple(charge))
        self._connection.execute("UPDATE budget SET relation = ?", (charge.relation,))


def _is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0


def _create(connection: sqlite3.Connection, budget: Budget) -> None:
    columns = ", ".join(f"{field.name} {'INTEGER' if field.name == 'secure' else 'TEXT'}" for field in fields(Charge))
    connection.execute(f"CREATE TABLE charges (number INTEGER PRIMARY KEY, {columns})")
    connection.execute("CREATE TABLE budget (epsilon TEXT, delta TEXT, relation TEXT)")
    connection.execute(
        "INSERT INTO budget VALUES (?, ?, ?)", (repr(budget.epsilon), repr(budget.delta), budget.relation)
    )
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_FORMAT}")
