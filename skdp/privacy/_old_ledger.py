"""Ledgers of the first version, which were SQLite files."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from decimal import Decimal
from io import FileIO
from pathlib import Path

from skdp.privacy._book import Budget, Charge
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._lines import Damaged, Position, beginning, head, line_of

_MARK = (0x736B6470, 1)
"""The application and the version of our SQLite files."""

_PATIENCE = 60.0


def is_old(file: FileIO) -> bool:
    """Return whether a file is an SQLite database."""
    return file.read(16) == b"SQLite format 3\0"


def renew(path: Path) -> None:
    """Write an old ledger again as lines, in its place."""
    # A process that still uses the old file, which has no name any more, cannot write to it: SQLite refuses that.
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=_PATIENCE)) as connection:
            connection.isolation_level = None
            # Take in the journal that lies beside it, which nobody else may have open.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("BEGIN EXCLUSIVE")
            _replace(path, b"".join(_lines(connection)))
    except sqlite3.OperationalError as error:
        raise OSError(f"it is of version 0.1 and cannot be converted now: {error}") from None
    except (sqlite3.DatabaseError, ArithmeticError, TypeError, ValueError) as error:
        raise error if isinstance(error, Damaged) else Damaged("it is a database that cannot be read") from None


def _lines(connection: sqlite3.Connection) -> Iterator[bytes]:
    mark = tuple(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    made = set(connection.execute("SELECT type, name FROM sqlite_master"))
    if mark != _MARK or made != {("table", "budget"), ("table", "charges")}:
        raise Damaged("it is another kind of database")
    epsilon, delta, relation = connection.execute("SELECT epsilon, delta, relation FROM budget").fetchone()
    begun = beginning(Budget(float(epsilon), float(delta), relation))
    lines = [begun[Position().offset :]]
    position = Position().after(lines[0])
    rows = connection.execute(
        "SELECT number, what, epsilon, delta, rho, relation, trust, scope, mechanism, secure, time "
        "FROM charges ORDER BY number"
    )
    for number, what, epsilon, delta, rho, of, trust, scope, mechanism, secure, time in rows:
        if number != len(lines):
            raise Damaged(f"its charge {len(lines)} is missing")
        guarantee = PrivacyGuarantee(
            float(epsilon),
            float(delta),
            relation=of,
            trust=trust,
            scope=(scope,) if scope else (),
            mechanism=mechanism,
            secure=bool(secure),
            rho=None if rho is None else float(rho),
        )
        lines.append(line_of(Charge(what, Decimal(epsilon), Decimal(delta), of, guarantee, time), position.digest))
        position = position.after(lines[-1])
    return iter([head(position.count, position.digest), *lines])


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with beside.open("wb") as new:
            new.write(content)
            new.flush()
            os.fsync(new.fileno())
        shutil.copymode(path, beside)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    sync_folder(path)


def sync_folder(path: Path) -> None:
    """Wait until the name of a file is on the disk."""
    with suppress(OSError):  # Windows opens no folders
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
