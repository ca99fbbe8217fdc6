"""What an unfinished release keeps, so that it can be taken up: its key, what it is of, and whether it was charged.

The folder goes through these states, each of which is on the disk before the next one begins::

    key, settings  ->  charged  ->  whole  ->  (no key)  ->  renamed, and no folder

Nothing is drawn before it is charged. The charge bears the number of the run, so that a run that was stopped between
the charge and its record finds it in the ledger. What was drawn when a run was stopped is drawn again, from the same
key, so that all reports that were ever on the disk are the same. A failure of the disk changes none of these states.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from skdp.engines._atomic import sync, written_beside
from skdp.engines._randomness import BatchRandomness, KeyedRandomness, SeededRandomness
from skdp.engines.files._said import sidecar_of, write_sidecar
from skdp.local import ReportTransformer, SecretKey

try:
    import fcntl
except ImportError:  # there are no such locks on Windows
    fcntl = None  # type: ignore[assignment]

_KEY_BYTES = 32


class WorkingFolder:
    """The folder of an unfinished release, beside its target; for its owner's eyes only."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self.path = target.with_name(f"{target.name}.unfinished")
        self._whole = self.path / "whole"
        self._key = self.path / "key"
        self._settings = self.path / "settings.json"
        self._charged = self.path / "charged"

    @classmethod
    def start(
        cls, target: Path, settings: dict[str, Any], transformer: ReportTransformer
    ) -> Self:
        """Make the folder, with a fresh key or the number of the call of a seeded transformer."""
        folder = cls(target)
        if folder.path.exists():
            raise FileExistsError(
                f"{folder.path} is of a run that did not finish, or that still goes on: take it up with resume "
                "(--resume), or remove it and start again, which is one more release"
            )
        randomness = transformer.randomness()
        with written_beside(folder.path) as beside:
            beside.mkdir(mode=0o700)
            key = (
                SecretKey.generate()
                if randomness.seed is None
                else str(randomness.call).encode()
            )
            _write(beside / folder._key.name, key)
            content = settings | {"run": secrets.token_hex(8)}
            _write(beside / folder._settings.name, json.dumps(content).encode())
            sync(beside)
        sync(target.parent)
        return folder

    @classmethod
    def resume(cls, target: Path, settings: dict[str, Any]) -> Self:
        """Open the folder of a run that did not finish."""
        folder = cls(target)
        found = folder._read_settings()
        # Through JSON and back, as what was stored.
        wanted = json.loads(json.dumps(settings))
        other = [name for name in wanted if found.get(name) != wanted[name]]
        if other:
            raise ValueError(
                f"the unfinished run in {folder.path} had another {', another '.join(other)}: resume it with what it "
                "was started with, or remove it and start again, which is one more release"
            )
        return folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out as long as this one draws; where the system has such locks."""
        with self._lock():
            self._read_settings()
            for half in self.path.glob(".*.partial"):
                half.unlink()
            yield

    def _read_settings(self) -> dict[str, Any]:
        try:
            found = json.loads(self._settings.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(
                f"there is nothing to resume: no unfinished run in {self.path}"
            ) from None
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @contextmanager
    def _lock(self) -> Iterator[None]:
        if fcntl is None:
            yield
            return
        with (self.path / "lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FileExistsError(
                    f"{self.path} is being written by another run; let it finish"
                ) from None
            yield

    def is_left(self) -> bool:
        """Return whether this is the folder of a run that was stopped after its target was there."""
        drawn = _is_there(self._settings) and not (
            _is_there(self._key) or _is_there(self._whole)
        )
        return drawn and _is_there(self._target)

    def randomness(self, transformer: ReportTransformer) -> BatchRandomness:
        """Take up the randomness of the release."""
        key = self._key.read_bytes() if _is_there(self._key) else b""
        seeded = transformer.randomness(call=0).seed is not None
        if seeded and key.isdigit():
            return SeededRandomness(transformer.randomness(call=int(key)))
        if seeded or len(key) != _KEY_BYTES:
            raise ValueError(
                f"{self.path} has lost its key, and cannot be resumed: remove it"
            )
        return KeyedRandomness(SecretKey(key))

    @property
    def is_charged(self) -> bool:
        """Whether a charge is recorded."""
        return _is_there(self._charged)

    def charge(self, transformer: ReportTransformer) -> None:
        """Charge the ledger, unless that is recorded here or there; a ledger in memory may be another one."""
        charged, ledger = _is_there(self._charged), transformer.charged_ledger
        if ledger is not None and not (charged and ledger.path is not None):
            transformer.charge(self._read_settings().get("run"))
        if not charged:
            _write(self._charged, b"")
            sync(self.path)

    @contextmanager
    def written_whole(self) -> Iterator[Path]:
        """Write all reports into a file of their own."""
        with written_beside(self._whole) as beside:
            yield beside
            sync(beside)
        sync(self.path)

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """Name a file for what is written a second time, and remove it."""
        path = self.path / f".draft.{secrets.token_hex(8)}.partial"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def is_whole(self) -> bool:
        """Return whether all reports are in one file, or folder."""
        return _is_there(self._whole)

    def publish(self, said: str | None = None) -> None:
        """Delete the key, move what is whole to its place, and remove the folder; say its protocol beside it before."""
        if _is_there(self._target):
            raise FileExistsError(
                f"{self._target} exists already; a release is never overwritten"
            )
        if said is not None:
            sidecar = sidecar_of(self._target)
            sidecar.unlink(
                missing_ok=True
            )  # of this run, which was stopped before its target was there
            write_sidecar(self._whole, said, sidecar)
        self._key.unlink(missing_ok=True)
        sync(self.path)
        self._whole.rename(self._target)
        sync(self._target.parent)
        self.remove()

    def remove(self) -> None:
        """Remove the folder: what is in it can never be completed again."""
        self._key.unlink(missing_ok=True)
        gone = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.removed")
        try:
            self.path.rename(
                gone
            )  # at once: a run that is killed in between must not leave half of a folder
        except OSError:
            gone = self.path
        shutil.rmtree(gone, ignore_errors=True)


def _is_there(path: Path) -> bool:
    """Return whether a file exists; a disk that does not answer is an error, where `Path.exists` may return False."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _write(path: Path, *contents: Any) -> None:
    """Write a new file that only its owner can read, and wait until it is on the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.writelines(contents)
        file.flush()
        os.fsync(file.fileno())
