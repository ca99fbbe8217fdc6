"""The ledger book in a file: shared by processes, and durable.

All names of the file are the same ledger: there are no files beside it, and the lock is on the file itself, not on a
name. A charge appends a line and waits until it is on the disk; then the first line, which counts the charges, is
overwritten. A killed process leaves at worst an incomplete line without a release, which the next charge removes.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import FileIO
from pathlib import Path

from skdp.privacy.ledger._account import Account, Budget, Charge
from skdp.privacy.ledger._book import INTERRUPTED, Turn
from skdp.privacy.ledger._lines import (
    HEAD_SIZE,
    TAIL_SIZE,
    Damaged,
    Position,
    beginning,
    charge_of,
    digest_of,
    head,
    line_of,
    read_head,
    sync_folder,
)

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_PATIENCE = 60.0
"""Seconds to wait for other processes; a charge takes milliseconds."""

_PAUSE = 0.001

_FAR = 2**30
"""The offset of the byte to lock on Windows, where other processes cannot read locked bytes."""

# Forks wait while the file is open, so that no child inherits it.
_turn = Turn()
if hasattr(os, "register_at_fork"):
    _take, _leave = _turn.lock.acquire, _turn.lock.release
    os.register_at_fork(before=_take, after_in_parent=_leave, after_in_child=_leave)


class FileBook:
    """A book in a file with one line per charge, which is on the disk before `add` returns."""

    # The file is opened for each charge, so that threads, forks and pickles share only the path. Lines are read once.

    def __init__(self, path: Path, budget: Budget | None) -> None:
        self.path = path
        self._position = Position()
        if budget is None and not path.exists():
            raise FileNotFoundError(
                f"there is no ledger {path}; give epsilon= (or rho= or mu=) to make one"
            )
        if not path.parent.is_dir():
            raise FileNotFoundError(
                f"the ledger {path} cannot be made: there is no such folder"
            )
        with _turn.take() as first:
            if not first:
                raise RuntimeError(INTERRUPTED)
            with self._opened(make=budget):
                known = self._known()
        # As declared: the first charge for replacing a record may still change the relation.
        self.budget = (
            known.budget if known.declared else replace(known.budget, relation=None)
        )
        wanted = budget and replace(
            budget, relation=budget.relation or known.budget.relation
        )
        if wanted not in (None, known.budget):
            raise ValueError(
                f"the ledger {path} was made with {known.budget}, and is now opened with {budget}; leave out the "
                "budget and the relation to use it as it is"
            )

    def account(self) -> Account:
        """Return the state of the ledger; in code that interrupts a charge, the state when last read."""
        with _turn.take() as first:
            if first:
                with self._opened():
                    pass
            return self._known()

    def charges(self) -> list[Charge]:
        self.account()
        position, found = Position(), []
        with self._explained(), self.path.open("rb") as lines:
            lines.seek(position.offset)
            while position.count < self._position.count:
                line = lines.readline()
                position = position.after(line)
                if position.count > 0:
                    found.append(charge_of(line))
        return found

    def add(self, write: Callable[[Account], Charge]) -> None:
        with _turn.take() as first:
            if not first:
                raise RuntimeError(INTERRUPTED)
            with self._opened() as file:
                charge = write(self._known())
                with self._explained():
                    self._append(file, line_of(charge, self._position.digest))

    def _known(self) -> Account:
        if self._position.account is None:
            raise RuntimeError(INTERRUPTED)
        return self._position.account

    @contextmanager
    def _opened(self, *, make: Budget | None = None) -> Iterator[FileIO]:
        """Open and lock the file, and read its new lines."""
        with self._explained():
            file = self._locked(make is not None)
        with file:
            try:
                with self._explained():
                    if make is not None and os.fstat(file.fileno()).st_size == 0:
                        self._begin(file, make)
                    self._read(file)
                yield file
            finally:
                _unlock(file)

    def _begin(self, file: FileIO, budget: Budget) -> None:
        """Write the first lines of an empty file, all of them or none."""
        try:
            _write(file, 0, beginning(budget))
            os.fsync(file.fileno())
        except OSError:
            # What a full disk has cut short would be no ledger, and nobody could make one in its place.
            file.truncate(0)
            raise
        sync_folder(self.path)

    def _locked(self, make: bool) -> FileIO:
        deadline = time.monotonic() + _PATIENCE
        if make:
            self.path.open("ab").close()
        while True:
            # Without creating it: an empty file in place of a lost one would have the whole budget again.
            file = self.path.open("r+b", buffering=0)
            try:
                while not _lock(file):
                    if time.monotonic() > deadline:
                        raise TimeoutError(
                            errno.ETIMEDOUT,
                            f"another process has locked it for {_PATIENCE:g} s",
                        )
                    time.sleep(_PAUSE)
                if self._is_at_its_path(file):
                    return file
            except BaseException:
                file.close()
                raise
            file.close()

    def _is_at_its_path(self, file: FileIO) -> bool:
        """Whether the locked file is still the one at the path."""
        status, there = os.fstat(file.fileno()), os.stat(self.path)
        if not stat.S_ISREG(status.st_mode):
            raise Damaged("it is no regular file")
        if status.st_nlink > 1:
            raise Damaged(
                f"it has {status.st_nlink} names (hard links); a ledger has one"
            )
        return (status.st_dev, status.st_ino) == (there.st_dev, there.st_ino)

    def _read(self, file: FileIO) -> None:
        """Check the lines that other processes have added, and that the lines read before are unchanged."""
        file.seek(0)
        count, digest = read_head(file.read(HEAD_SIZE))
        if self._position.account is not None:
            file.seek(self._position.offset - TAIL_SIZE)
            if digest_of(file.read(TAIL_SIZE)) != self._position.digest:
                raise Damaged(
                    "lines that were read before have changed, or are missing"
                )
        for position in _positions(file, self._position):
            if position.count == count and position.digest != digest:
                raise Damaged("its first line does not belong to the others")
        if position.count < count:
            raise Damaged(
                f"{count - max(position.count, 0)} of its {count} charges are missing at the end"
            )
        if position.account is None:
            raise Damaged("its second line, the budget, is missing")
        self._position = position

    def _append(self, file: FileIO, line: bytes) -> None:
        if os.fstat(file.fileno()).st_size > self._position.offset:
            file.truncate(
                self._position.offset
            )  # an incomplete line: its process was killed before a release
        after = self._position.after(line)  # a line that cannot be read is not written
        _write(file, self._position.offset, line)
        os.fsync(file.fileno())
        self._position = after
        _write(file, 0, head(self._position.count, self._position.digest))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Add the path of the ledger to errors, and that nothing was released."""
        try:
            yield
        except Damaged as error:
            raise ValueError(
                f"{self.path} is no ledger, or not as it was written: {error}; nothing was released"
            ) from None
        except FileNotFoundError:
            raise FileNotFoundError(
                f"the ledger {self.path} is gone; nothing was released"
            ) from None
        except OSError as error:
            why = error.strerror or error
            raise OSError(
                f"the ledger {self.path} cannot be used, nothing was released: {why}"
            ) from error


def _positions(file: FileIO, position: Position) -> Iterator[Position]:
    """Yield a position, and the position after each further complete line."""
    yield position
    with open(file.fileno(), "rb", closefd=False) as lines:
        lines.seek(position.offset)
        for line in lines:
            if not line.endswith(b"\n"):
                return
            position = position.after(line)
            yield position


def _write(file: FileIO, offset: int, data: bytes) -> None:
    file.seek(offset)
    if file.write(data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _lock(file: FileIO) -> bool:
    """Lock a file (not its name) unless another process has; return whether it is locked now."""
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
