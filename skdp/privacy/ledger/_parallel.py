"""Releases from parts of the rows: a ledger is charged for the rows that lose most."""

# Proof. Let x and x' differ in the record at a position i, as "replace" has it. A release from rows without i is the
# same function of the same values in both, given all earlier results: it has no part in the loss between x and x'. So
# their loss is that of an adaptive composition of the other releases: those outside of the block, and those from rows
# with i. These never add up to more than the sums of the ledger, to which a block adds, in each sum, the largest over
# all positions. So the rule of the ledger, which holds for every adaptive composition whose sums are within the budget
# (`_account`), holds for x and x'; and i is any position. Which rows are next may follow from earlier results, just as
# which release is next; but not from private values, which differ between x and x'.
#
# With "add_remove", positions say nothing: a record that is added moves others, also into other parts. The rows of a
# person may be in several parts, where a release for persons loses as much in each.

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.ledger._account import Charge, sums_of
from skdp.privacy.ledger._admission import admitted
from skdp.privacy.ledger._book import MemoryBook
from skdp.privacy.ledger._file_book import FileBook
from skdp.privacy.ledger._sums import NOTHING, Sums, rounded_up_total
from skdp.privacy.ledger._view import LedgerView

_MOST_ROWS = 1 << 31
"""Positions, for the memory that they take."""


@dataclass(frozen=True, eq=False)
class RowSums:
    """The sums over the charges that each row is in."""

    groups: NDArray[np.intp]
    """Of each row, the index of its sums. Rows beyond are in group 0."""
    sums: tuple[Sums, ...] = (NOTHING,)
    largest: Sums = NOTHING
    """Of each sum, the largest over all rows."""

    @classmethod
    def of_no_charge(cls) -> RowSums:
        """Return the sums before the first charge."""
        return cls(np.zeros(0, np.intp))

    def after(self, positions: NDArray[np.intp], added: Sums) -> RowSums:
        """Return the sums after one more charge, for some rows."""
        if positions.size == 0:
            return self
        groups = np.zeros(max(self.groups.size, int(positions.max()) + 1), np.intp)
        groups[: self.groups.size] = self.groups
        # Rows of equal sums are a group, however they came to it: there are few, also of many folds.
        places = {sums: place for place, sums in enumerate(self.sums)}
        moved, largest = np.zeros(len(self.sums), np.intp), self.largest
        for group in np.unique(groups[positions]).tolist():
            sums = self.sums[group].plus(added)
            moved[group] = places.setdefault(sums, len(places))
            largest = largest.larger(sums)
        groups[positions] = moved[groups[positions]]
        return RowSums(groups, tuple(places), largest)


class ParallelRows:
    """A block of releases from parts of the rows, of which a ledger is charged for the rows that lose most."""

    def __init__(self, ledger: LedgerView) -> None:
        book = ledger._book
        if type(book) is not MemoryBook and type(book) is not FileBook:
            raise TypeError(
                "parallel is of a ledger with a budget of its own, not of a plan or a record"
            )
        if open_rows(book) is not None:
            raise RuntimeError(
                "rows of another block are open for this ledger: what is released is of one part"
            )
        if book.account().lasting_relation == "add_remove":
            raise ValueError(
                "parallel needs a ledger for replacing a record: with relation='add_remove', one more record moves the "
                "positions of others, and so their parts. Make it with relation='replace', for which central releases "
                "count twice"
            )
        self._book: MemoryBook | FileBook = book
        self._sums = RowSums.of_no_charge()
        self._positions: NDArray[np.intp] | None = None
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __reduce__(self) -> Any:
        # Copies would count the same rows by themselves, and charge each time what is beyond the same sums.
        raise TypeError(
            "a block of parallel releases cannot be copied or pickled: its rows are counted once"
        )

    def __exit__(self, *error: object) -> None:
        self._ended = True

    @contextmanager
    def rows(self, positions: ArrayLike) -> Iterator[None]:
        """Charge what is released inside for some rows only."""
        # A generator that yields inside leaves the rows open for its caller: its charges count for these rows, too.
        chosen = _read_positions(positions)
        self._check_process()
        if open_rows(self._book) is not None:
            raise RuntimeError(
                "other rows are open for this ledger: what is released inside is of one part"
            )
        with self._lock:
            self._check_open()
            if self._positions is not None:
                raise RuntimeError(
                    "other rows are open in this block: what is released inside is of one part"
                )
            self._positions = chosen
        token = _open.set((*_open.get(), (self, chosen)))
        try:
            yield
        finally:
            _open.reset(token)
            self._positions = None

    def _check_process(self) -> None:
        """Refuse in another process, before its copy of the lock, which may be taken for ever."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "a block of parallel releases belongs to the process that opened it, and nothing was released: open "
                "one in each process"
            )

    def _check_open(self) -> None:
        if self._ended:
            raise RuntimeError(
                "this block of parallel releases has ended, and nothing was released"
            )

    def _charge(
        self,
        positions: NDArray[np.intp],
        guarantee: PrivacyGuarantee,
        what: str,
        *,
        only_check: bool = False,
    ) -> None:
        """Charge a release from the rows that are open; called by the ledger."""
        self._check_process()
        with self._lock:
            self._check_open()
            if self._positions is not positions:  # of a thread that outlived them
                raise RuntimeError(
                    "the rows of this release are not open any more, and nothing was released"
                )
            if guarantee.max_rows_per_person > 1:
                raise ValueError(
                    f"{what} is for persons with up to {guarantee.max_rows_per_person} rows, which may be in several "
                    "parts: charge it outside of parallel(), and nothing was released"
                )
            after: list[RowSums] = []

            def reduced(charge: Charge) -> Charge:
                after[:] = [self._sums.after(positions, sums_of(charge))]
                return _exceeding(
                    charge, after[0].largest, self._sums.largest, positions.size
                )

            write = partial(admitted, what, guarantee, reduced=reduced)
            if only_check:
                write(self._book.account())
                return
            self._book.add(write)
            # If an interrupt comes between, the ledger was charged for what is not counted here: never the other way.
            (self._sums,) = after


def _exceeding(charge: Charge, largest: Sums, charged: Sums, n_rows: int) -> Charge:
    """Return a charge of what the largest sums exceed those that were charged by."""
    beyond = largest.minus(charged)
    # In the decimals of floats, as all charges.
    epsilon, delta = (
        Decimal(repr(rounded_up_total([(one, 1)])))
        for one in (beyond.epsilon, beyond.delta)
    )
    return replace(
        charge,
        what=f"{charge.what} of {n_rows:,} rows",
        epsilon=epsilon,
        delta=delta,
        added=replace(beyond, epsilon=epsilon, delta=delta),
    )


def _read_positions(positions: ArrayLike) -> NDArray[np.intp]:
    array = np.asarray(positions)
    # NumPy makes 1 of True, which would be the second row.
    if isinstance(positions, list | tuple) and {bool, int} <= {
        type(position) for position in positions
    }:
        raise TypeError(
            "positions must be whole numbers, or a bool for each row, got both"
        )
    if array.size == 0:
        array = array.astype(np.intp)
    if array.ndim != 1 or array.dtype.kind not in "biu":
        raise TypeError(
            f"positions must be whole numbers, or a bool for each row, got {array.ndim} dimensions of {array.dtype}"
        )
    if array.dtype.kind == "b":
        return np.flatnonzero(array)
    if array.size and not (int(array.min()) >= 0 and int(array.max()) < _MOST_ROWS):
        raise ValueError(f"positions must be from 0 to {_MOST_ROWS:,}")
    if np.unique(array).size < array.size:
        raise ValueError(
            "positions must be different: a row that is there twice counts twice in what is released"
        )
    return array.astype(np.intp)


_open: ContextVar[tuple[tuple[ParallelRows, NDArray[np.intp]], ...]] = ContextVar(
    "skdp_parallel_rows", default=()
)
"""The blocks, and their rows, that are open in this thread and context. Elsewhere, charges are for all rows."""


def open_rows(book: Any) -> Callable[..., None] | None:
    """Return what charges a ledger for the rows that are open here, if some are."""
    for block, positions in _open.get():
        if block._book is book:
            return partial(block._charge, positions)
    return None


def has_open_rows(ledger: LedgerView) -> bool:
    """Return whether charges of a ledger are for some rows here."""
    return open_rows(ledger._book) is not None


def check_n_rows(ledger: LedgerView, what: str, n_rows: int | None) -> None:
    """Refuse a release from another number of rows than that of the positions that are open for its ledger."""
    # The number of rows is public where a record is replaced.
    for block, positions in _open.get():
        if block._book is not ledger._book:
            continue
        if n_rows is None:
            raise ValueError(
                f"{what} does not know its number of rows before the charge, so that it cannot be compared with the "
                f"{positions.size:,} positions of parts.rows(): release it outside of them, for all rows. Nothing was "
                "released"
            )
        if n_rows != positions.size:
            raise ValueError(
                f"{what} was given {n_rows:,} rows, but parts.rows() names {positions.size:,} positions: give it "
                "exactly the rows at these positions. Nothing was released"
            )


def spend(
    ledger: Any, guarantee: PrivacyGuarantee, what: str, *, n_rows: int | None
) -> None:
    """Charge a release from `n_rows` rows to its ledger, if it has one; None if the number is not known."""
    if ledger is not None:
        check_n_rows(ledger, what, n_rows)
        ledger.charge(guarantee, what)
