"""Charges that are only listed: what a rehearsal, with rows that nobody has, would charge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from skdp.privacy._guarantee import PrivacyGuarantee, Relation
from skdp.privacy.ledger._parallel import check_n_rows


@dataclass(frozen=True)
class Metered:
    """A charge that was listed, and the relation of the ledger that it was meant for."""

    what: str
    guarantee: PrivacyGuarantee
    relation: Relation | None


_listed: ContextVar[list[Metered] | None] = ContextVar("skdp_metered", default=None)


@contextmanager
def metered() -> Iterator[list[Metered]]:
    """List the charges of a block in place of making them: nothing may be released in it."""
    # Of this thread and context only: a release elsewhere in the process is charged as ever.
    charges: list[Metered] = []
    before = _listed.set(charges)
    try:
        yield charges
    finally:
        _listed.reset(before)


def meter() -> list[Metered] | None:
    """Return the list of a block of `metered`, None outside."""
    return _listed.get()


def spend(ledger: Any, guarantee: PrivacyGuarantee, what: str, *, n_rows: int | None) -> None:
    """Charge a release from `n_rows` rows to its ledger, if it has one; None if the number is not known."""
    charges = meter()
    if ledger is None:
        if charges is not None:
            charges.append(Metered(what, guarantee, None))
        return
    # The rows of a rehearsal are made up, and nothing of them is released.
    if charges is None:
        check_n_rows(ledger, what, n_rows)
    ledger.charge(guarantee, what)
