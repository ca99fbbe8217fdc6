"""The lines of a ledger file: JSON, each with a hash of itself and of the previous line."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import Any

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.ledger._account import Account, Budget, Charge, read_budget
from skdp.privacy.ledger._sums import Sums

_VERSION = 2
"""Version 1 was an SQLite database."""

_HASH = 64

_HEAD = '{{"skdp_ledger": {}, "charges": {:15d}, "hash": "{}"}}\n'
"""The first line: a lower bound of the number of charges (a crash may leave it outdated), and the hash of the last of
them. It is overwritten after each charge, so its size is fixed."""

HEAD_SIZE = len(_HEAD.format(_VERSION, 0, "0" * _HASH))

_HUGE = Decimal("1e309")
"""More than any float."""


class Damaged(ValueError):
    """The lines were modified."""


def head(count: int, digest: str) -> bytes:
    """Write the first line."""
    return _HEAD.format(_VERSION, count, digest).encode()


def read_head(line: bytes) -> tuple[int, str]:
    record = _parsed(line, 1)
    version, count, digest = (record.get(name) for name in ("skdp_ledger", "charges", "hash"))
    if isinstance(version, int) and version > _VERSION:
        raise Damaged("it was made by a later version of skdp")
    if not isinstance(count, int) or not isinstance(digest, str) or head(count, digest) != line:
        raise Damaged("its first line is not that of a ledger")
    return count, digest


def _parsed(text: bytes, number: int) -> dict[str, Any]:
    try:
        record = json.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError):  # not UTF-8, impossible exponents, deep nesting
        record = None
    if not isinstance(record, dict):
        raise Damaged(f"its line {number} cannot be read")
    return record


def _signed(record: dict[str, Any], previous: str) -> bytes:
    """Return a line that ends with its hash."""
    body = json.dumps(record, separators=(", ", ": "))[:-1]
    return f'{body}, "hash": "{sha256((previous + body).encode()).hexdigest()}"}}\n'.encode()


def digest_of(line: bytes) -> str:
    """Return the hash at the end of a line."""
    return line[-_HASH - 3 : -3].decode("ascii", "replace")


TAIL_SIZE = _HASH + 3


def beginning(budget: Budget) -> bytes:
    """Return the first two lines; the line of the budget is unique to each ledger."""
    line = _signed({"budget": budget.content(), "id": secrets.token_hex(8)}, "")
    return head(0, digest_of(line)) + line


def line_of(charge: Charge, previous: str) -> bytes:
    """Return the line of a charge, with the complete guarantee."""
    stated = charge.guarantee._packed()
    stated["scope"] = [name if isinstance(name, str | int) else str(name) for name in stated["scope"]]
    stated["losses"], stated["secure"] = json.loads(stated["losses"]), bool(stated["secure"])
    amounts = {"epsilon": float(charge.epsilon), "delta": float(charge.delta)}
    record = {"what": charge.what, **amounts, "relation": charge.relation, "guarantee": stated, "time": charge.time}
    if charge.added is not None:
        record["added"] = charge.added.written()
    return _signed(record, previous)


def charge_of(line: bytes) -> Charge:
    """Parse the line of a charge that `Position.after` has checked."""
    return _read_charge(json.loads(line, parse_float=Decimal))


def _read_charge(record: dict[str, Any]) -> Charge:
    try:
        stated = record["guarantee"] | {"scope": tuple(record["guarantee"]["scope"])}
        stated["losses"] = json.dumps(stated.get("losses", []), default=float)
        amounts = Decimal(record["epsilon"]), Decimal(record["delta"])
        added = Sums.read(*amounts, record["added"]) if "added" in record else None
        guarantee = _guarantee(*stated.items())
        return Charge(record["what"], *amounts, record["relation"], guarantee, record["time"], added=added)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Damaged("a guarantee in it cannot be read") from None


@lru_cache  # most charges of a ledger have the same guarantees
def _guarantee(*stated: tuple[str, Any]) -> PrivacyGuarantee:
    options: dict[str, Any] = {name: float(one) if isinstance(one, Decimal) else one for name, one in stated}
    return PrivacyGuarantee._unpacked(options)


@dataclass(frozen=True)
class Position:
    """The position up to which a file was read, and the state there."""

    offset: int = HEAD_SIZE
    count: int = -1
    digest: str = ""
    account: Account | None = None

    def after(self, line: bytes) -> Position:
        """Check the next line and return the position after it."""
        number, digest = self.count + 3, digest_of(line)
        body = line[: -_HASH - 14]
        expected = sha256(self.digest.encode() + body).hexdigest()
        if line[-_HASH - 14 :] != f', "hash": "{digest}"}}\n'.encode() or digest != expected:
            raise Damaged(f"its line {number} is not what was written there, or lines before it are missing")
        record = _parsed(body + b"}", number)
        account = _opened(record) if self.account is None else _charged(self.account, record, number)
        return replace(self, offset=self.offset + len(line), count=self.count + 1, digest=digest, account=account)


def _opened(record: dict[str, Any]) -> Account:
    stated = record.get("budget")
    if not isinstance(stated, dict):
        raise Damaged("its line 2 has no budget")
    try:
        amounts = {name: value for name, value in stated.items() if name != "relation"}
        numbers = {name: None if value is None else float(_amount(value, 2)) for name, value in amounts.items()}
        budget = read_budget(relation=stated.get("relation"), **numbers)
    except (TypeError, ValueError):
        raise Damaged("its line 2 has an impossible budget") from None
    return Account.of(budget)


def _charged(account: Account, record: dict[str, Any], number: int) -> Account:
    for name in ("epsilon", "delta"):
        _amount(record.get(name), number)
    try:
        account = account.after(_read_charge(record))
    except Damaged:
        raise
    except ValueError:
        raise Damaged(f"its line {number} has another neighbouring relation than the ledger") from None
    if not account.fits:
        raise Damaged(f"its line {number} spends more than the budget, which no ledger allows")
    return account


def _amount(value: Any, number: int) -> Decimal:
    if not isinstance(value, Decimal | int) or isinstance(value, bool) or not 0 <= Decimal(value) < _HUGE:
        raise Damaged(f"its line {number} has an amount that is no number of at least 0")
    return Decimal(value)


_MARK = (0x736B6470, 1)
"""The application id and the version of the SQLite files of skdp."""

_PATIENCE = 60.0


def is_old(file: FileIO) -> bool:
    """Whether a file is an SQLite database."""
    return file.read(16) == b"SQLite format 3\0"


def renew(path: Path) -> None:
    """Convert an SQLite ledger to lines, in place."""
    # SQLite refuses writes of a process that still uses the old file, which has no name any more.
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=_PATIENCE)) as connection:
            connection.isolation_level = None
            # Merge the journal beside it, which no other process may have open.
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
    """Flush the directory entry of a file to the disk."""
    with suppress(OSError):  # Windows cannot open folders
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
