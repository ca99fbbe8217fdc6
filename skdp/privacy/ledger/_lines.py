"""The lines of a ledger file: JSON, each with a hash of itself and of the previous line."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._json import Fields
from skdp.privacy.ledger._account import Account, Budget, Charge, read_budget
from skdp.privacy.ledger._sums import Sums

_VERSION = 1

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
    version, count, digest = (
        record.get(name) for name in ("skdp_ledger", "charges", "hash")
    )
    if isinstance(version, int) and version > _VERSION:
        raise Damaged("it was made by a later version of skdp")
    if (
        not isinstance(count, int)
        or not isinstance(digest, str)
        or head(count, digest) != line
    ):
        raise Damaged("its first line is not that of a ledger")
    return count, digest


def _parsed(text: bytes, number: int) -> dict[str, Any]:
    try:
        record = json.loads(text, parse_float=Decimal)
    except (
        ValueError,
        ArithmeticError,
        RecursionError,
    ):  # not UTF-8, impossible exponents, deep nesting
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
    amounts = {"epsilon": float(charge.epsilon), "delta": float(charge.delta)}
    record = {
        "what": charge.what,
        **amounts,
        "relation": charge.relation,
        "guarantee": charge.guarantee._content(),
        "time": charge.time,
    }
    if charge.added is not None:
        record["added"] = charge.added.written()
    return _signed(record, previous)


def charge_of(line: bytes) -> Charge:
    """Parse the line of a charge that `Position.after` has checked."""
    return _read_charge(json.loads(line, parse_float=Decimal))


def _read_charge(record: dict[str, Any]) -> Charge:
    try:
        amounts = Decimal(record["epsilon"]), Decimal(record["delta"])
        added = Sums.read(*amounts, record["added"]) if "added" in record else None
        guarantee = _guarantee(json.dumps(record["guarantee"], default=float))
        return Charge(
            record["what"],
            *amounts,
            record["relation"],
            guarantee,
            record["time"],
            added=added,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Damaged("a guarantee in it cannot be read") from None


@lru_cache  # most charges of a ledger have the same guarantees
def _guarantee(text: str) -> PrivacyGuarantee:
    return PrivacyGuarantee._of(Fields(json.loads(text)))


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
        if (
            line[-_HASH - 14 :] != f', "hash": "{digest}"}}\n'.encode()
            or digest != expected
        ):
            raise Damaged(
                f"its line {number} is not what was written there, or lines before it are missing"
            )
        record = _parsed(body + b"}", number)
        account = (
            _opened(record)
            if self.account is None
            else _charged(self.account, record, number)
        )
        return replace(
            self,
            offset=self.offset + len(line),
            count=self.count + 1,
            digest=digest,
            account=account,
        )


def _opened(record: dict[str, Any]) -> Account:
    stated = record.get("budget")
    if not isinstance(stated, dict):
        raise Damaged("its line 2 has no budget")
    try:
        amounts = {name: value for name, value in stated.items() if name != "relation"}
        numbers = {
            name: None if value is None else float(_amount(value, 2))
            for name, value in amounts.items()
        }
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
        raise Damaged(
            f"its line {number} has another neighbouring relation than the ledger"
        ) from None
    if not account.fits:
        raise Damaged(
            f"its line {number} spends more than the budget, which no ledger allows"
        )
    return account


def _amount(value: Any, number: int) -> Decimal:
    if (
        not isinstance(value, Decimal | int)
        or isinstance(value, bool)
        or not 0 <= Decimal(value) < _HUGE
    ):
        raise Damaged(
            f"its line {number} has an amount that is no number of at least 0"
        )
    return Decimal(value)


def sync_folder(path: Path) -> None:
    """Flush the directory entry of a file to the disk."""
    with suppress(OSError):  # Windows cannot open folders
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
