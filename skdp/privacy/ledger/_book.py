"""The ledger book in memory, and the one of a record."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from skdp.privacy.ledger._account import Account, Budget, Charge

_ONE_PROCESS = (
    "a PrivacyLedger in memory belongs to one process and cannot be used in another one or through a copy, which would "
    "spend the same budget twice; nothing was released. Use PrivacyLedger('ledger.jsonl', epsilon=...), which "
    "processes share, or n_jobs=1 (or threads)."
)


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
        self._account = Account.of(budget)
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
            account = self._account.after(charge)
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

    def __init__(self, budget: Budget, charges: list[Charge]) -> None:
        account = Account.of(budget)
        for charge in charges:
            account = account.after(charge)
        self.budget = account.budget
        self._account = account
        self._charges = charges

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
