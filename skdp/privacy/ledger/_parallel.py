"""Releases from parts of the rows: a ledger is charged for the rows that lose most."""

# Proof. Let x and x' differ in the record at a position i, as "replace" has it. A
# release from rows without i is the same function of the same values in both, given all
# earlier results: it has no part in the loss between x and x'. So their loss is that of
# an adaptive composition of the other releases: those outside of the block, and those
# from rows with i. These never add up to more than the sums of the ledger, to which a
# block adds, in each sum, the largest over all positions. So the rule of the ledger,
# which holds for every adaptive composition whose sums are within the budget
# (`_account`), holds for x and x'; and i is any position. Which rows are next may follow
# from earlier results, just as which release is next; but not from private values, which
# differ between x and x'.
#
# With "add_remove", positions say nothing: a record that is added moves others, also
# into other parts. The rows of a person may be in several parts, where a release for
# persons loses as much in each.

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.ledger._account import Account, Charge, Plan
from skdp.privacy.ledger._book import FileBook, MemoryBook, RecordBook
from skdp.privacy.ledger._sums import NOTHING, Sums, as_decimal, rounded_up

Positions = NDArray[np.intp]

# For the memory that positions take: 16 GB.
_MOST_ROWS = 1 << 31


@dataclass(frozen=True, eq=False)
class RowSums:
    """The sums over the charges that each row is in."""

    # Of each row, the index of its sums. Rows beyond are in group 0.
    groups: Positions
    sums: tuple[Sums, ...] = (NOTHING,)
    # Of each sum, the largest over all rows.
    largest: Sums = NOTHING

    @classmethod
    def of_no_charge(cls) -> Self:
        """Return the sums before the first charge."""
        return cls(np.zeros(0, np.intp))

    def after(self, positions: Positions, charge_sums: Sums) -> RowSums:
        """Return the sums after one more charge, for some rows."""
        if positions.size == 0:
            return self
        n_rows = max(self.groups.size, int(positions.max()) + 1)
        groups = np.zeros(n_rows, np.intp)
        groups[: self.groups.size] = self.groups
        # Rows of equal sums are a group, however they came to it: there are few, also
        # of many folds.
        indices = {sums: index for index, sums in enumerate(self.sums)}
        new_groups = np.zeros(len(self.sums), np.intp)
        largest = self.largest
        for group in np.unique(groups[positions]).tolist():
            sums = self.sums[group].plus(charge_sums)
            new_groups[group] = indices.setdefault(sums, len(indices))
            largest = largest.larger(sums)
        groups[positions] = new_groups[groups[positions]]
        return RowSums(groups, tuple(indices), largest)

    def charge_of(self, charge: Charge, row_sums: RowSums, n_rows: int) -> Charge:
        """Return a charge of what these largest sums exceed those of `row_sums` by."""
        excess = self.largest.minus(row_sums.largest)
        # In the decimals of floats, as all charges.
        excess = excess._replace(
            epsilon=as_decimal(rounded_up(excess.epsilon)),
            delta=as_decimal(rounded_up(excess.delta)),
        )
        what = f"{charge.what} of {n_rows:,} rows"
        return replace(charge, what=what, sums=excess, of_part=True)


class ParallelRows:
    """A block of releases from parts of the rows, of one ledger."""

    def __init__(self, book: MemoryBook | FileBook) -> None:
        if isinstance(book, RecordBook) or isinstance(book.account(), Plan):
            raise TypeError(
                "parallel is of a ledger with a budget of its own, not of a plan or a "
                "record"
            )
        if book.account().lasting_relation == "add_remove":
            raise ValueError(
                "parallel needs a ledger for replacing a record: with "
                "relation='add_remove', one more record moves the positions of others, "
                "and so their parts. Make it with relation='replace', for which central "
                "releases count twice"
            )
        self._book = book
        self._sums = RowSums.of_no_charge()
        self._open_rows: OpenRows | None = None
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._has_ended = False

    def __enter__(self) -> Self:
        return self

    def __reduce__(self) -> Any:
        # Copies would count the same rows by themselves, and charge each time what is
        # beyond the same sums.
        raise TypeError(
            "a block of parallel releases cannot be copied or pickled: its rows are "
            "counted once"
        )

    def __exit__(self, *error: object) -> None:
        self._has_ended = True

    @contextmanager
    def rows(self, positions: ArrayLike) -> Iterator[None]:
        """Charge what is released inside for some rows only."""
        # A generator that yields inside leaves the rows open for its caller: its
        # charges count for these rows, too.
        rows = OpenRows(self, _read_positions(positions))
        self._check_process()
        with self._lock:
            self._check_open()
            # Here, those of any block; of other threads, those of this one.
            if open_rows(self._book) is not None or self._open_rows is not None:
                raise RuntimeError(
                    "other rows are open for this ledger: what is released inside is "
                    "of one part"
                )
            self._open_rows = rows
        token = _open.set((*_open.get(), rows))
        try:
            yield
        finally:
            _open.reset(token)
            self._open_rows = None

    def _check_process(self) -> None:
        """Refuse in another process, before its copy of the lock, which may be taken."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "a block of parallel releases belongs to the process that opened it, "
                "and nothing was released: open one in each process"
            )

    def _check_open(self) -> None:
        if self._has_ended:
            raise RuntimeError(
                "this block of parallel releases has ended, and nothing was released"
            )

    @contextmanager
    def _turn(self, rows: OpenRows, guarantee: PrivacyGuarantee, what: str) -> Any:
        """Let no other thread charge for this block, and check that rows are open."""
        self._check_process()
        with self._lock:
            self._check_open()
            # Of a thread that outlived them.
            if self._open_rows is not rows:
                raise RuntimeError(
                    "the rows of this release are not open any more, and nothing was "
                    "released"
                )
            if guarantee.max_rows_per_person > 1:
                raise ValueError(
                    f"{what} is for persons with up to {guarantee.max_rows_per_person} "
                    "rows, which may be in several parts: charge it outside of "
                    "parallel(), and nothing was released"
                )
            yield


@dataclass(frozen=True, eq=False)
class OpenRows:
    """The rows of a block for which charges are made now."""

    block: ParallelRows
    positions: Positions

    def check(self, guarantee: PrivacyGuarantee, what: str) -> None:
        """Refuse a release that the budget does not cover."""
        with self.block._turn(self, guarantee, what):
            account = self.block._book.account()
            charge, _ = self._charge_of(account, guarantee, what)
            account.admit(charge)

    def charge(self, guarantee: PrivacyGuarantee, what: str) -> None:
        """Charge a release."""
        block = self.block
        with (
            block._turn(self, guarantee, what),
            block._book.opened() as account,
        ):
            charge, row_sums = self._charge_of(account, guarantee, what)
            block._book.append(charge)
            # If an interrupt comes between, the ledger was charged for what is not
            # counted here: never the other way.
            block._sums = row_sums

    def _charge_of(
        self, account: Account, guarantee: PrivacyGuarantee, what: str
    ) -> tuple[Charge, RowSums]:
        charge = account.charge_of(what, guarantee, "replace")
        row_sums = self.block._sums.after(self.positions, charge.sums)
        n_rows = self.positions.size
        return row_sums.charge_of(charge, self.block._sums, n_rows), row_sums

    def check_n_rows(self, what: str, n_rows: int | None) -> None:
        """Refuse a release from another number of rows."""
        # The number of rows is public where a record is replaced.
        n_positions = self.positions.size
        if n_rows is None:
            raise ValueError(
                f"{what} does not know its number of rows before the charge, so that it "
                f"cannot be compared with the {n_positions:,} positions of "
                "parts.rows(): release it outside of them, for all rows. Nothing was "
                "released"
            )
        if n_rows != n_positions:
            raise ValueError(
                f"{what} was given {n_rows:,} rows, but parts.rows() names "
                f"{n_positions:,} positions: give it exactly the rows at these "
                "positions. Nothing was released"
            )


def _read_positions(positions: ArrayLike) -> Positions:
    array = np.asarray(positions)
    rule = "positions must be whole numbers, or a bool for each row"
    # NumPy makes 1 of True, which would be the second row.
    if isinstance(positions, list | tuple) and {bool, int} <= set(map(type, positions)):
        raise TypeError(f"{rule}, got both")
    if array.size == 0:
        array = array.astype(np.intp)
    if array.ndim != 1 or array.dtype.kind not in "biu":
        raise TypeError(f"{rule}, got {array.ndim} dimensions of {array.dtype}")
    if array.dtype.kind == "b":
        return np.flatnonzero(array)
    if array.size and not (array.min() >= 0 and array.max() < _MOST_ROWS):
        raise ValueError(f"positions must be from 0 to {_MOST_ROWS:,}")
    if np.unique(array).size < array.size:
        raise ValueError(
            "positions must be different: a row that is there twice counts twice in "
            "what is released"
        )
    return array.astype(np.intp)


# Those of this thread and context. Elsewhere, charges are for all rows.
_open: ContextVar[tuple[OpenRows, ...]] = ContextVar("skdp_parallel_rows", default=())


def open_rows(book: Any) -> OpenRows | None:
    """Return the rows for which a ledger is charged here, None for all rows."""
    for rows in _open.get():
        if rows.block._book is book:
            return rows
    return None
