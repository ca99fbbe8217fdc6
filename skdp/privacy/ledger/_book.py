"""The records of a ledger, and the ledger book in memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from typing import Any, Self

from skdp.exact import round_up
from skdp.privacy._guarantee import PrivacyGuarantee, Relation
from skdp.privacy._numbers import check_epsilon

_ONE_PROCESS = (
    "a PrivacyLedger in memory belongs to one process and cannot be used in another one or through a copy, which would "
    "spend the same budget twice; nothing was released. Use PrivacyLedger('ledger.jsonl', epsilon=...), which "
    "processes share, or n_jobs=1 (or threads)."
)

_DIGITS = 800
"""Sums of the decimals of floats, from 1e308 to 5e-324, are exact."""


@dataclass(frozen=True)
class Budget:
    """The limit on the total of all charges."""

    epsilon: float
    delta: float
    relation: Relation | None

    def __str__(self) -> str:
        return f"epsilon={self.epsilon}, delta={self.delta}, relation={self.relation!r}"


@dataclass(frozen=True)
class Charge:
    """A charge, one line of the book."""

    what: str
    epsilon: Decimal
    delta: Decimal
    relation: Relation
    guarantee: PrivacyGuarantee
    time: str

    @classmethod
    def of(cls, what: str, guarantee: PrivacyGuarantee, relation: Relation) -> Self:
        """Make the charge of a guarantee in the relation of the ledger."""
        charged = guarantee.to(relation)
        time = datetime.now(UTC).isoformat(timespec="microseconds")
        return cls(what, _written(charged.epsilon), _written(charged.delta), relation, guarantee, time)


def _written(number: Any) -> Decimal:
    """Return the shortest decimal of a number, rounded up to a float."""
    return Decimal(repr(round_up(check_epsilon(number, zero=True))))


@dataclass(frozen=True)
class Account:
    """The state of a ledger that the next charge needs, of constant size."""

    budget: Budget
    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)

    def after(self, epsilon: Decimal, delta: Decimal, relation: Relation) -> Account:
        """Return the account after one more charge."""
        with localcontext(prec=_DIGITS):
            return Account(replace(self.budget, relation=relation), self.epsilon + epsilon, self.delta + delta)

    def left(self) -> tuple[Decimal, Decimal]:
        budget = self.budget
        with localcontext(prec=_DIGITS):
            return Decimal(repr(budget.epsilon)) - self.epsilon, Decimal(repr(budget.delta)) - self.delta


@dataclass
class Turn:
    """A lock for one thread at a time, which does not block code that interrupts its holder, as a signal handler."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    taken: bool = False

    @contextmanager
    def take(self) -> Iterator[bool]:
        """Wait for other threads; yield False if the code interrupts the holder of the lock."""
        with self.lock:
            first, self.taken = not self.taken, True
            try:
                yield first
            finally:
                self.taken = not first


INTERRUPTED = "the ledger is being charged by the code that this code interrupts; nothing more was charged or released"


class MemoryBook:
    """A book in a list, for the threads of one process."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._refusal = _ONE_PROCESS
        self._account = Account(budget)
        self._charges: list[Charge] = []
        self._turn = Turn()
        self._process: int | None = os.getpid()

    def account(self) -> Account:
        """Return the state of the ledger without waiting for other threads."""
        self._check_process()
        return self._account

    def charges(self) -> list[Charge]:
        self._check_process()
        return list(self._charges)

    def add(self, write: Callable[[Account], Charge]) -> None:
        self._check_process()
        with self._turn.take() as first:
            if not first:
                raise RuntimeError(INTERRUPTED)
            charge = write(self._account)
            account = self._account.after(charge.epsilon, charge.delta, charge.relation)
            # Atomic: a signal handler that raises interrupts only after calls.
            self._account = account
            self._charges.append(charge)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(self._refusal)

    def __reduce__(self) -> tuple[Any, ...]:
        # joblib would replace an error of pickling by its own; the error of the first charge reaches the user.
        return closed_book, (self.budget, self._refusal)


class RecordBook:
    """The charges of another ledger, as a record has them; it can only be read."""

    def __init__(self, account: Account, charges: list[Charge]) -> None:
        self.budget = account.budget
        self._account = account
        self._charges = charges

    @classmethod
    def of(cls, budget: Budget, charges: list[Charge]) -> Self:
        """Add the charges up."""
        account = Account(budget)
        for charge in charges:
            account = account.after(charge.epsilon, charge.delta, charge.relation)
        return cls(account, charges)

    def account(self) -> Account:
        return self._account

    def charges(self) -> list[Charge]:
        return list(self._charges)

    def add(self, write: Callable[[Account], Charge]) -> None:
        raise RuntimeError(
            "this is the record of a ledger, which can only be read: its budget would be spent twice; nothing was "
            "released. Charge the ledger itself."
        )


def closed_book(budget: Budget, refusal: str) -> MemoryBook:
    """Return a book that has its budget and refuses everything else."""
    book = MemoryBook(budget)
    book._process, book._refusal = None, refusal
    return book
