"""Work on many parts at once, in threads, and the shards that are finished on the disk."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, TypeVar

from skdp.engines._atomic import Bar, sync, written_beside
from skdp.engines.files._checkpoint import WorkingFolder
from skdp.engines.files.shards._manifest import NAME, Manifest, Shard

Item = TypeVar("Item")
Made = TypeVar("Made")


class StoppedError(Exception):
    """Another part failed, or the run is stopped."""


class Stop:
    """What the threads of a run look at after each batch; it also shows how far they are."""

    def __init__(self, bar: Bar | None = None) -> None:
        self._stopped, self._lock, self._bar = threading.Event(), threading.Lock(), bar

    def watched(self, batches: Iterable[Made]) -> Iterator[Made]:
        """Pass on the batches of a part until another one fails."""
        for batch in batches:
            if self._stopped.is_set():
                raise StoppedError
            yield batch

    def done(self, rows: int) -> None:
        """Advance the bar."""
        if self._bar is not None:
            with self._lock:
                self._bar.update(rows)

    def in_threads(self, work: Callable[[Item], Made], items: Sequence[Item], n_jobs: int) -> list[Made]:
        """Do the same for all items; the first in their order that fails is the one that is raised."""
        with ThreadPoolExecutor(min(n_jobs, len(items))) as pool:
            try:
                waiting = [pool.submit(work, item) for item in items]
                return [one.result() for one in waiting]
            except BaseException:
                self._stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise


class ShardFolder:
    """The shards of an unfinished release: a shard counts when what it holds is recorded beside it."""

    def __init__(self, folder: WorkingFolder) -> None:
        self._folder, self._shards = folder, folder.path / "shards"

    def open(self) -> None:
        """Make the folder of the shards, if there is none."""
        if not self._shards.is_dir():
            self._shards.mkdir()
            sync(self._folder.path)

    def find(self, name: str) -> Shard | None:
        """Return a shard that is finished and as it was recorded."""
        try:
            shard = Shard(**json.loads((self._folder.path / f"{name}.done").read_bytes()))
            with (self._shards / name).open("rb") as file:
                return shard if shard.name == name and shard.holds(file) else None
        except (FileNotFoundError, TypeError, ValueError):
            return None

    def write(self, name: str, write: Callable[[Any], int]) -> Shard:
        """Write a shard with a function that returns its rows, and record it."""
        record, place = self._folder.path / f"{name}.done", self._shards / name
        record.unlink(missing_ok=True)
        place.unlink(missing_ok=True)
        rows = write(place)
        sync(place)
        sync(self._shards)
        with place.open("rb") as file:
            shard = Shard.of(name, rows, file)
        with written_beside(record) as beside:
            beside.write_text(json.dumps(asdict(shard)))
            sync(beside)
        sync(self._folder.path)
        return shard

    def complete(self, manifest: Manifest) -> None:
        """Add the manifest: the folder of shards is then the release."""
        text, place = manifest.to_json(), self._shards / NAME
        place.unlink(missing_ok=True)
        place.write_text(text, encoding="utf-8")
        sync(place)
        sync(self._shards)
        self._folder.complete(self._shards)
