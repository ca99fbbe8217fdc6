"""The record of a ledger: its budget and its charges."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from skdp.markup import written_text
from skdp.privacy._guarantee import RELATIONS, PrivacyGuarantee
from skdp.privacy._json import Fields
from skdp.privacy._numbers import check_delta, check_epsilon
from skdp.privacy.ledger._account import Budget, Charge, read_budget
from skdp.privacy.ledger._book import RecordBook
from skdp.privacy.ledger._sums import Sums

_YEARS = range(1970, 2262)
"""Years that pandas can hold in nanoseconds."""


def write_book(book: RecordBook) -> dict[str, Any]:
    """Return the fields of a record."""
    account = book.account()
    return {
        "budget": account.budget.content(),
        "spent": {
            "epsilon": float(account.sums.epsilon),
            "delta": float(account.sums.delta),
        },
        "charges": [
            {
                "what": written_text(charge.what),
                "epsilon": float(charge.epsilon),
                "delta": float(charge.delta),
                "relation": charge.relation,
                "guarantee": charge.guarantee._content(),
                "time": charge.time,
            }
            | ({} if charge.added is None else {"added": charge.added.written()})
            for charge in (one.to(account.budget.relation) for one in book.charges())
        ],
    }


def read_book(fields: Fields) -> RecordBook:
    """Read the fields of a record, and add its charges up again."""
    budget, spent, at = (
        fields.part("budget", _budget),
        fields.part("spent", _amounts),
        fields.at("charges"),
    )
    charges = fields.parts("charges", _charge)
    relation = budget.relation or (charges[0].relation if charges else None)
    for index, charge in enumerate(charges):
        if charge.relation != relation:
            raise ValueError(
                f"{at}[{index}].relation is another one than that of the budget"
            )
    book = RecordBook(budget, charges)
    account = book.account()
    if not account.fits:
        raise ValueError(f"{at} spend more than the budget, which no ledger allows")
    if spent != (float(account.sums.epsilon), float(account.sums.delta)):
        raise ValueError(f"{fields.at('spent')} is not the sum of the charges")
    return book


def _budget(fields: Fields) -> Budget:
    names = ("epsilon", "delta", "filter_delta", "rho", "mu")
    stated = {name: fields.optional(name, partial(_number, fields)) for name in names}
    relation = fields.optional("relation", lambda name: fields.one_of(name, RELATIONS))
    return read_budget(relation=relation, **stated)


def _number(fields: Fields, name: str) -> float:
    check = check_delta if "delta" in name else check_epsilon
    return fields.number(name, check)


def _amounts(fields: Fields) -> tuple[float, float]:
    at_least_0 = partial(check_epsilon, zero=True)
    return fields.number("epsilon", at_least_0), fields.number("delta", at_least_0)


def _charge(fields: Fields) -> Charge:
    what, (epsilon, delta) = fields.text("what"), _amounts(fields)
    relation, guarantee = (
        fields.one_of("relation", RELATIONS),
        fields.part("guarantee", PrivacyGuarantee._of),
    )
    try:
        charged = guarantee.to(relation)
    except ValueError as error:
        raise ValueError(
            f"{fields.at('guarantee')} cannot be in the relation of its charge: {error}"
        ) from None
    amounts = Decimal(repr(epsilon)), Decimal(repr(delta))
    added = None
    if fields.has("added"):
        try:
            added = Sums.read(*amounts, fields.take("added"))
        except ValueError as error:
            raise ValueError(f"{fields.at('added')} cannot be read: {error}") from None
    elif epsilon < charged.epsilon or delta < charged.delta:
        raise ValueError(
            f"{fields.at('epsilon')} or its delta is less than its guarantee states"
        )
    return Charge(what, *amounts, relation, guarantee, _time(fields), added=added)


def _time(fields: Fields) -> str:
    wanted = f"{fields.at('time')} must be a time with its offset from UTC, such as 2027-01-31T12:00:00.000000+00:00"
    try:
        time = datetime.fromisoformat(fields.text("time"))
        if time.utcoffset() is None or time.year not in _YEARS:
            raise ValueError
        return time.astimezone(UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError):
        raise ValueError(wanted) from None
