"""What a ledger writes down, and the book in memory."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NoReturn, Protocol, Self

from skdp.exact import round_up
from skdp.privacy._guarantee import PrivacyGuarantee, Relation, Trust
from skdp.privacy._parameters import check_epsilon

_ONE_PROCESS = (
    "a PrivacyLedger in memory lives in one process and cannot be {}: two copies would spend the same budget twice. "
    "Use PrivacyLedger('ledger.sqlite', epsilon=...), which processes share, or n_jobs=1 (or threads), or set "
    "ledger=None and fit again before pickling."
)


@dataclass(frozen=True)
class Budget:  # numpydoc ignore=PR02
    """The most that may be spent.

    Parameters
    ----------
    epsilon, delta : float
        What all charges together may come to.
    relation : {"replace", "add_remove"} or None
        The neighbouring relation that charges are converted to; None before the first one decides.
    """

    epsilon: float
    delta: float
    relation: Relation | None

    def __str__(self) -> str:
        return f"epsilon={self.epsilon}, delta={self.delta}, relation={self.relation!r}"


@dataclass(frozen=True)
class Charge:  # numpydoc ignore=PR02
    """A line of the book.

    Parameters
    ----------
    what : str
        Who asked.
    epsilon, delta : str
        The decimals that were written, so that sums are exact: 0.1 is a tenth.
    rho : str or None
        The same.
    relation, trust, scope, mechanism, secure : str, str, str, str, bool
        As in the guarantee, the columns of the scope as one text.
    time : str
        When, in UTC, as ISO 8601 has it.
    """

    what: str
    epsilon: str
    delta: str
    rho: str | None
    relation: Relation
    trust: Trust
    scope: str
    mechanism: str
    secure: bool
    time: str

    @classmethod
    def of(cls, what: str, guarantee: PrivacyGuarantee) -> Self:
        """Write a guarantee down.

        Parameters
        ----------
        what : str
            Who asks.
        guarantee : PrivacyGuarantee
            What the release promises, in the relation of the ledger.

        Returns
        -------
        Charge
            The line.
        """
        return cls(
            what=str(what),
            epsilon=_written(guarantee.epsilon),
            delta=_written(guarantee.delta),
            rho=None if guarantee.rho is None else _written(guarantee.rho),
            relation=guarantee.relation,
            trust=guarantee.trust,
            scope=", ".join(map(str, guarantee.scope)),
            mechanism=str(guarantee.mechanism),
            secure=bool(guarantee.secure),
            time=datetime.now(UTC).isoformat(timespec="microseconds"),
        )


def _written(number: Any) -> str:
    """Return the shortest decimal of a float; what is no float is rounded up to one."""
    return repr(round_up(check_epsilon(number, zero=True)))


class Page(Protocol):
    """A book that is open, with nobody else writing in it."""

    @property
    def budget(self) -> Budget:  # numpydoc ignore=RT01
        """The budget, with the relation that the first charge gave it."""

    def charges(self) -> list[Charge]:
        """Return all lines in order.

        Returns
        -------
        list of Charge
            The lines.
        """

    def amounts(self) -> list[tuple[str, str]]:
        """Return epsilon and delta of all lines.

        Returns
        -------
        list of pair of str
            As they were written.
        """

    def append(self, charge: Charge) -> None:
        """Add a line; its relation becomes that of the budget.

        Parameters
        ----------
        charge : Charge
            The line.
        """


class MemoryBook:
    """A list, for the threads of one process.

    Parameters
    ----------
    budget : Budget
        The most that may be spent.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._charges: list[Charge] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    @contextmanager
    def opened(self, *, write: bool) -> Iterator[Page]:
        """Open the book for one thread at a time.

        Parameters
        ----------
        write : bool
            No matter: readers wait too.

        Yields
        ------
        MemoryBook
            Itself.

        Raises
        ------
        RuntimeError
            In a process that was forked from its own.
        """
        if os.getpid() != self._process:
            raise RuntimeError(_ONE_PROCESS.format("used in another"))
        with self._lock:
            yield self

    def charges(self) -> list[Charge]:
        """Return all lines in order.

        Returns
        -------
        list of Charge
            The lines.
        """
        return list(self._charges)

    def amounts(self) -> list[tuple[str, str]]:
        """Return epsilon and delta of all lines.

        Returns
        -------
        list of pair of str
            As they were written.
        """
        return [(charge.epsilon, charge.delta) for charge in self._charges]

    def append(self, charge: Charge) -> None:
        """Add a line.

        Parameters
        ----------
        charge : Charge
            The line.
        """
        self.budget = replace(self.budget, relation=charge.relation)
        self._charges.append(charge)

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError(_ONE_PROCESS.format("pickled"))
