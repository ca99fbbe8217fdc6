"""The book of a ledger: its account and its charges, in memory or in a file.

All names of a file are the same ledger: there are no files beside it, and the lock is
on the file itself, not on a name. The first line has the budget. A charge appends a
line and waits until it is on the disk. A killed process leaves at worst an incomplete
line without a release, which the next charge removes.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import IO, Any

from skdp.privacy._json import Fields
from skdp.privacy.ledger._account import Account, Budget, Charge

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class Turn:
    """A lock for one thread at a time, which its holder's signal handlers see."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_taken = False

    @contextmanager
    def take(self) -> Iterator[None]:
        """Wait for other threads; refuse code that interrupts the holder."""
        with self.lock:
            if self.is_taken:
                raise RuntimeError(
                    "the ledger is being charged by the code that this code "
                    "interrupts; nothing more was charged or released"
                )
            self.is_taken = True
            try:
                yield
            finally:
                self.is_taken = False


_ONE_PROCESS = (
    "a PrivacyLedger in memory belongs to one process and cannot be used in another "
    "one or through a copy, which would spend the same budget twice; nothing was "
    "released. Use PrivacyLedger('ledger.jsonl', epsilon=...), which processes share, "
    "or n_jobs=1 (or threads)."
)


class MemoryBook:
    """A book in memory, for the threads of one process."""

    path = None

    def __init__(self, account: Account) -> None:
        self.budget = account.budget
        self._account = account
        self._charges: list[Charge] = []
        self._turn = Turn()
        self._process: int | None = os.getpid()
        self._refusal = _ONE_PROCESS

    def account(self) -> Account:
        """Return the account now, without waiting for other threads."""
        self._check_process()
        return self._account

    def charges(self) -> list[Charge]:
        self._check_process()
        return list(self._charges)

    @contextmanager
    def opened(self) -> Iterator[Account]:
        """Open the book for one charge, and let nobody else charge."""
        self._check_process()
        with self._turn.take():
            yield self._account

    def append(self, charge: Charge) -> None:
        """Add a charge to the open book, if the budget covers it."""
        account = self._account.admit(charge)
        # Atomic: a signal handler that raises interrupts only after calls.
        self._account = account
        self._charges.append(charge)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(self._refusal)

    def __reduce__(self) -> tuple[Any, ...]:
        # joblib would replace an error of pickling by its own; the error of the first
        # charge reaches the user.
        return closed_book, (self.budget, self._refusal)


def closed_book(budget: Budget, refusal: str) -> MemoryBook:
    """Return a book that has its budget and refuses everything else."""
    book = MemoryBook(Account(budget))
    book._process = None
    book._refusal = refusal
    return book


class RecordBook(MemoryBook):
    """The charges of another ledger, as a record has them; it can only be read."""

    def __init__(self, budget: Budget, charges: Sequence[Charge]) -> None:
        account = Account(budget)
        for charge in charges:
            account = account.after(charge)
        super().__init__(account)
        self._charges = list(charges)

    @contextmanager
    def opened(self) -> Iterator[Account]:
        """Refuse charges."""
        raise RuntimeError(
            "this is the record of a ledger, which can only be read: its budget would "
            "be spent twice; nothing was released. Charge the ledger itself."
        )
        yield self._account

    def _check_process(self) -> None:
        """Let all processes read it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return RecordBook, (self.budget, self._charges)


# The version of the form of a file.
_VERSION = 1

# A line that somebody else wrote may have a number of any length.
_LONGEST_REASON = 200


class Damaged(ValueError):
    """A file is not as it was written."""


def _parsed(text: bytes, number: int) -> Any:
    try:
        record = json.loads(text)
    # Not UTF-8, or deep nesting.
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise Damaged(f"its line {number} cannot be read")
    return record


@dataclass(frozen=True)
class Position:
    """The position up to which a file was read, and the state there."""

    offset: int = 0
    # None before the first line.
    account: Account | None = None
    # The last one before it.
    charge: Charge | None = None

    def after(self, line: bytes) -> Position:
        """Read the next line, and return the position after it."""
        offset = self.offset + len(line)
        if self.account is None:
            return Position(offset, Account(_read_budget(line)))
        number = self.account.n_charges + 2
        charge = _read_line(line, number, Charge._of)
        try:
            account = self.account.after(charge)
        except ValueError as error:
            raise _damaged_line(number, error) from None
        if not account.fits:
            raise Damaged(
                f"its line {number} spends more than the budget, which no ledger allows"
            )
        return Position(offset, account, charge)


def _read_budget(line: bytes) -> Budget:
    """Read the first line of a file."""
    version = _parsed(line, 1).get("skdp_ledger")
    if isinstance(version, int) and version > _VERSION:
        raise Damaged("it was made by a later version of skdp")
    if version != _VERSION:
        raise Damaged("its first line is not the first line of a ledger")

    def read(fields: Fields) -> Budget:
        fields.take("skdp_ledger")
        return fields.part("budget", Budget._of)

    return _read_line(line, 1, read)


def _read_line(line: bytes, number: int, read: Callable[[Fields], Any]) -> Any:
    fields = Fields(_parsed(line, number))
    try:
        content = read(fields)
        fields.close()
    except (TypeError, ValueError) as error:
        raise _damaged_line(number, error) from None
    return content


def _damaged_line(number: int, error: Exception) -> Damaged:
    reason = str(error)[:_LONGEST_REASON]
    return Damaged(f"its line {number} cannot be read: {reason}")


def _write_line(record: dict[str, Any]) -> bytes:
    return (json.dumps(record) + "\n").encode()


def _positions(lines: IO[bytes], position: Position) -> Iterator[Position]:
    """Yield the position after each further complete line."""
    lines.seek(position.offset)
    for line in lines:
        if not line.endswith(b"\n"):
            return
        position = position.after(line)
        yield position


# Forks wait while a file is open, so that no child inherits it.
_turn = Turn()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_turn.lock.acquire,
        after_in_parent=_turn.lock.release,
        after_in_child=_turn.lock.release,
    )


# A charge takes milliseconds, so that another process has stopped, or works for long.
_PATIENCE_SECONDS = 60.0


class FileBook:
    """A book in a file with a line for each charge, on the disk when it is charged."""

    # The file is opened for each charge, so that threads, forks and pickles share only
    # the path. Lines are read once.

    def __init__(self, path: Path, budget: Budget | None) -> None:
        self.path = path
        self._position = Position()
        # The open and locked file, for one charge.
        self._file: FileIO | None = None
        if budget is None and not path.exists():
            raise FileNotFoundError(
                f"there is no ledger {path}; give epsilon= (or rho= or mu=) to make one"
            )
        if not path.parent.is_dir():
            raise FileNotFoundError(
                f"the ledger {path} cannot be made: there is no such folder"
            )
        with self.opened(budget) as account:
            self.budget = account.budget
        if budget is not None:
            request = budget
            if request.relation is None:
                columns = account.budget.columns
                relation = account.budget.relation
                request = replace(request, relation=relation, columns=columns)
            if request != account.budget:
                raise ValueError(
                    f"the ledger {path} was made with {account.budget}, and is now "
                    f"opened with {budget}; leave out the budget and the relation to "
                    "use it as it is"
                )

    def account(self) -> Account:
        """Return the account; in code that interrupts a charge, that before it."""
        with _turn.lock:
            if not _turn.is_taken:
                with self.opened():
                    pass
        return self._last_account()

    def _last_account(self) -> Account:
        account = self._position.account
        assert account is not None
        return account

    def charges(self) -> list[Charge]:
        n_charges = self.account().n_charges
        charges = []
        with self._explained(), self.path.open("rb") as lines:
            # The first line is the budget.
            for position in islice(_positions(lines, Position()), n_charges + 1):
                if position.charge is not None:
                    charges.append(position.charge)
        return charges

    @contextmanager
    def opened(self, new_budget: Budget | None = None) -> Iterator[Account]:
        """Open the book for one charge, and let nobody else charge."""
        with _turn.take():
            with self._explained():
                if new_budget is not None:
                    self.path.open("ab").close()
                file = self._locked()
            with file:
                try:
                    with self._explained():
                        is_empty = os.fstat(file.fileno()).st_size == 0
                        if new_budget is not None and is_empty:
                            self._begin(file, new_budget)
                        self._read(file)
                    self._file = file
                    yield self._last_account()
                finally:
                    self._file = None
                    _unlock(file)

    def append(self, charge: Charge) -> None:
        """Add a charge to the open book, if the budget covers it."""
        file = self._file
        assert file is not None
        self._last_account().admit(charge)
        line = _write_line(charge._content())
        with self._explained():
            # A line that cannot be read is not written.
            position = self._position.after(line)
            if os.fstat(file.fileno()).st_size > self._position.offset:
                # An incomplete line: its process was killed before a release.
                file.truncate(self._position.offset)
            _write(file, self._position.offset, line)
            os.fsync(file.fileno())
            self._position = position

    def _begin(self, file: FileIO, budget: Budget) -> None:
        """Write the first line of an empty file, or nothing."""
        record = {"skdp_ledger": _VERSION, "budget": budget._content()}
        try:
            _write(file, 0, _write_line(record))
            os.fsync(file.fileno())
        except OSError:
            # What a full disk has cut short would be no ledger, and nobody could make
            # one in its place.
            file.truncate(0)
            raise
        _sync_folder(self.path)

    def _locked(self) -> FileIO:
        """Open the file at the path, and wait for other processes."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        # About the time that a charge takes on a fast disk.
        pause_seconds = 0.001
        while True:
            # Without creating it: an empty file in place of a lost one would have the
            # whole budget again.
            file = self.path.open("r+b", buffering=0)
            try:
                while not _lock(file):
                    if time.monotonic() > deadline:
                        raise TimeoutError(
                            errno.ETIMEDOUT,
                            f"another process has locked it for {_PATIENCE_SECONDS:g} s",
                        )
                    time.sleep(pause_seconds)
                if self._is_at_its_path(file):
                    return file
            except BaseException:
                file.close()
                raise
            file.close()

    def _is_at_its_path(self, file: FileIO) -> bool:
        """Whether the locked file is still the one at the path."""
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise Damaged("it is no regular file")
        if status.st_nlink > 1:
            raise Damaged(
                f"it has {status.st_nlink} names (hard links); a ledger has one"
            )
        return os.path.samestat(status, os.stat(self.path))

    def _read(self, file: FileIO) -> None:
        """Read the lines of other processes."""
        if os.fstat(file.fileno()).st_size < self._position.offset:
            raise Damaged("lines that were read before are missing")
        with open(file.fileno(), "rb", closefd=False) as lines:
            for position in _positions(lines, self._position):
                self._position = position
        if self._position.account is None:
            raise Damaged("its first line, the budget, is missing")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Add the path of the ledger to errors, and that nothing was released."""
        try:
            yield
        except Damaged as error:
            raise ValueError(
                f"{self.path} is no ledger, or not as it was written: {error}; nothing "
                "was released"
            ) from None
        except FileNotFoundError:
            raise FileNotFoundError(
                f"the ledger {self.path} is gone; nothing was released"
            ) from None
        except OSError as error:
            raise OSError(
                f"the ledger {self.path} cannot be used, nothing was released: "
                f"{error.strerror or error}"
            ) from error


def _write(file: FileIO, offset: int, data: bytes) -> None:
    file.seek(offset)
    if file.write(data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _sync_folder(path: Path) -> None:
    """Flush the directory entry of a file to the disk."""
    # Windows cannot open folders.
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


# Where Windows locks a byte: other processes cannot read locked ones.
_FAR = 2**30


def _lock(file: FileIO) -> bool:
    """Lock a file (not its name), unless another process has."""
    try:
        if sys.platform == "win32":
            file.seek(_FAR)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _unlock(file: FileIO) -> None:
    if sys.platform == "win32":
        file.seek(_FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_UN)
