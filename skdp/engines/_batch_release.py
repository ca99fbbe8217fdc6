"""The one step that matters for privacy: a batch of true rows in, a batch of reports out."""

from __future__ import annotations

import functools
import hashlib
import hmac
import itertools
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, Self, TypeVar

import joblib
import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.base import refuse_protected_levels, warn_of_levels
from skdp.engines._errors import RefusedBatch, naming, quietly, refusing
from skdp.engines._extras import Extra
from skdp.engines._randomness import (
    BatchRandomness,
    KeyedRandomness,
    Place,
    SeededRandomness,
    digest,
)
from skdp.engines._record_ids import (
    DistinctIds,
    DistinctInAll,
    check_record_id,
    digest_records,
    quick_digests,
)
from skdp.local import (
    Codes,
    OnFitOnly,
    ReleasedCounts,
    ReportProtocol,
    ReportTransformer,
    SecretKey,
    protocol_text,
    text_in_memory,
    warn_of_reports,
)
from skdp.local.memo import framed, read_record_ids
from skdp.tables import (
    Releases,
    Table,
    read_table,
    schema_with_protocol,
    without_unused_levels,
)

Found = TypeVar("Found")

pyarrow, types, polars = (
    Extra("pyarrow"),
    Extra("pyarrow.types"),
    Extra("polars", "polars"),
)

WHOLE = Place()

CHANGED = (
    "the rows are not those that were checked, or are in another order, so they are not reported a second time: the "
    "table has changed, or does not fix the order of its rows (unique, group_by, join, sort with ties). Store it and "
    "give what was stored, or have the reports stored once (persist=True, or a path)"
)
"""The error of a batch whose digest differs."""


class BatchCheck:
    """Check batches of one table before anything is charged; it holds neither key nor ledger, and goes to workers."""

    def __init__(
        self,
        protocol: ReportProtocol,
        keep: Sequence[str],
        record_id: str | None = None,
    ) -> None:
        self._protocol = protocol.without_secrets()
        self._keep, self._record_id = tuple(keep), record_id
        self._digest_key = SecretKey.generate()

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        ids = () if self._record_id is None else (self._record_id,)
        return list(dict.fromkeys([*self._protocol.columns, *self._keep, *ids]))

    def read(self, batch: Any) -> tuple[Codes, Table, Any]:
        """Code a batch; also return the table of its rows, and their ids."""
        table = read_table(batch)
        found = dict(zip(table.names, table.columns, strict=True))
        names = self._protocol.columns
        rows = Table(names, tuple(found[name] for name in names), batch)
        codes = naming(
            "prepare",
            self._protocol,
            batch,
            lambda: refusing(lambda: self._protocol.prepare(rows)),
        )
        return codes, rows, None if self._record_id is None else found[self._record_id]

    def __call__(self, batch: Any, digest: bool = False) -> bytes | None:
        """Check a batch; on demand, digest all that its release depends on."""
        codes, _, ids = self.read(batch)
        return (
            self.digest_of(codes, self._records(ids, len(batch)), batch)
            if digest
            else None
        )

    def _records(self, ids: Any, rows: int) -> list[bytes]:
        return [] if ids is None else refusing(lambda: read_record_ids(ids, rows))

    def digest_ids(self, batch: Any) -> NDArray[np.uint64]:
        """Digest the record ids of a batch, to compare them with those of other batches."""
        return digest_records(
            self._records(self._ids(batch), len(batch)), self._digest_key
        )

    def distinct(
        self, batches: Iterable[Found], seen: DistinctIds | DistinctInAll | None = None
    ) -> Iterator[Found]:
        """Pass on the batches of one evaluation of the table, and refuse a record id that comes a second time."""
        seen = DistinctIds() if seen is None else seen
        for batch in batches:
            quick = quick_digests(self._ids(batch), self._digest_key)
            seen.add(self.digest_ids(batch) if quick is None else quick)
            yield batch

    def distinct_in_all(self, batches: Iterable[Found]) -> Iterator[Found]:
        """Do so at the latest when all have passed, which is faster: where nothing is shown before."""
        seen = DistinctInAll()
        yield from self.distinct(batches, seen)
        seen.close()

    def _ids(self, batch: Any) -> Any:
        if self._record_id is None:
            return None
        table = read_table(batch)
        return table.columns[table.names.index(self._record_id)]

    def digest_of(self, codes: list[Any], records: list[bytes], batch: Any) -> bytes:
        """Digest a batch that is coded already."""
        kept = []
        if self._keep:
            rows = nw.from_native(batch, eager_only=True)
            kept = [
                repr(rows.get_column(name).to_list()).encode(errors="surrogatepass")
                for name in self._keep
            ]
        parts = [*map(digest, codes), hashlib.sha256(framed(*records)).digest(), *kept]
        return hmac.digest(self._digest_key, framed(*parts), "sha256")


class Release:
    """Privatise batches of one table; it can be pickled and sent to workers, and shows neither key nor rows."""

    def __init__(
        self,
        protocol: ReportProtocol,
        keep: Sequence[str],
        randomness: BatchRandomness,
        record_id: str | None = None,
        check: BatchCheck | None = None,
    ) -> None:
        self._protocol, self._keep, self._randomness = protocol, tuple(keep), randomness
        self.check = BatchCheck(protocol, keep, record_id) if check is None else check
        self._counted: dict[Place, NDArray[np.int64] | None] = {}
        self._released = ReleasedCounts()
        self._released.begin()
        self.seeded = not isinstance(
            randomness, KeyedRandomness
        )  # and then they depend on the numbers of rows
        self.permanent = (
            protocol.permanent_key is not None
        )  # the reports are hashed record by record

    call: str | None = None
    """What distinguishes the release from others."""
    said: str | None = None
    """The protocol as JSON, for the metadata of what is written, and of what stays in memory."""
    said_in_memory: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Workers write no notes.
        return self.__dict__ | {
            "said": None,
            "said_in_memory": None,
            "_counted": {},
            "_released": ReleasedCounts(),
        }

    def __call__(
        self, batch: Any, place: Place = WHOLE, expected: bytes | None = None
    ) -> Any:
        """Privatise a batch, and count its reports."""
        reports, counts = self.draw(batch, place, expected)
        self.count(place, counts)
        return reports

    def draw(
        self, batch: Any, place: Place = WHOLE, expected: bytes | None = None
    ) -> tuple[Any, NDArray[np.int64] | None]:
        """Privatise a batch; also return the counts of its reports."""
        codes, rows, ids = self.check.read(batch)
        records = refusing(lambda: self._protocol.read_records(ids, len(batch)))
        if expected is not None and not hmac.compare_digest(
            expected, self.check.digest_of(codes, records, batch)
        ):
            raise RefusedBatch(CHANGED)
        protocol, draw = self._protocol, self._randomness.draw
        reports = naming(
            "randomise", protocol, batch, lambda: draw(protocol, codes, place, records)
        )
        counts = protocol.report_counts(reports)
        released = naming(
            "write", protocol, batch, lambda: protocol.write(reports, rows)
        )
        if not self._keep:
            return released, counts
        parts = released, _kept_columns(batch, self._keep)
        frames = [nw.from_native(part, eager_only=True) for part in parts]
        return nw.concat(frames, how="horizontal").to_native(), counts

    def count(self, place: Place, counts: NDArray[np.int64] | None) -> None:
        """Take down the counts of a batch: once, however often it is drawn."""
        self._counted[place] = counts

    def begin(self, transformer: ReportTransformer, call: str | None) -> None:
        """Begin a release of a transformer, which does not know its reports before `close`."""
        self._released, self.call = transformer.released, call
        self._released.begin()
        self.said, self.said_in_memory = (
            protocol_text(transformer),
            text_in_memory(transformer),
        )

    def close(self) -> Releases | None:
        """Return the note of the release, all of whose batches were drawn; the transformer knows of them, too."""
        listed = list(self._counted.values())
        known = [counts for counts in listed if counts is not None]
        total = (
            sum(known, start=np.zeros_like(known[0]))
            if known and len(known) == len(listed)
            else None
        )
        self._released.end(total)
        return Releases.of(total, self.call)

    def noted(self, schema: Any) -> Any:
        """Note the protocol and the counts in the schema of a release, all of whose batches were drawn."""
        return schema_with_protocol(schema, self.said, self.close())

    @classmethod
    def plan(
        cls,
        sample: Any,
        transformer: Any,
        keep: Sequence[str],
        record_id: str | None = None,
        check_ids: Callable[[str], None] = lambda record_id: None,
        look: Callable[[BatchCheck, Any], Found] | None = None,
        notes: Iterable[str | None] = (),
    ) -> tuple[Self, Any, Found | None]:
        """Check all that can be checked before a row is privatised, charge the ledger, and start the randomness."""
        trial = cls.rehearse(sample, transformer, keep, record_id)
        warn_of_reports(notes, transformer)
        transformer.check_budget()
        if record_id is not None:
            check_ids(record_id)
        check = BatchCheck(transformer.protocol_, keep, record_id)
        found = None if look is None else quietly(lambda: look(check, trial))
        transformer.charge()
        drawn = transformer.randomness()
        randomness = (
            KeyedRandomness() if drawn.seed is None else SeededRandomness(drawn)
        )
        release = cls(transformer.protocol_, keep, randomness, record_id, check)
        release.begin(transformer, randomness.name)
        return release, trial, found

    @classmethod
    def rehearse(
        cls,
        sample: Any,
        transformer: Any,
        keep: Sequence[str],
        record_id: str | None = None,
    ) -> Any:
        """Check all that can be checked without a row; fit the transformer if it is not, and charge nothing."""
        check_transformer(transformer)
        names = list(read_table(sample).names)
        check_names(keep)
        if any(name not in names for name in keep) or len(set(keep)) < len(keep):
            raise ValueError(
                f"keep must name distinct columns of {names}, got {list(keep)}"
            )
        check_record_id(record_id, names)
        if not hasattr(transformer, "protocol_"):
            fit_on_schema(transformer, sample, [*keep, record_id])
        protocol = transformer.protocol_
        absent = [name for name in protocol.columns if name not in names]
        if absent:
            raise ValueError(
                f"the table lacks the columns {absent} that the transformer was fitted on; it has {names}"
            )
        _check_roles(protocol, keep, record_id)
        refuse_protected_levels(sample, protocol.columns, what="the table")
        warn_of_levels(sample)
        return quietly(
            lambda: cls(protocol, keep, KeyedRandomness(), record_id)(sample)
        )


class Plan(Protocol):
    """`Release.plan` with all but the sample and the look at the batches: each engine gives its own."""

    def __call__(
        self, sample: Any, *, look: Callable[[BatchCheck, Any], Found] | None = None
    ) -> tuple[Release, Any, Found | None]: ...


def _check_roles(
    protocol: ReportProtocol, keep: Sequence[str], record_id: str | None
) -> None:
    """Check that a column is either privatised, or kept, or says which record a row is of."""
    for name in keep:
        if name in protocol.columns:
            raise ValueError(
                f"keep must not name a column that is privatised, got {name!r}"
            )
        if name in protocol.report_columns:
            raise ValueError(
                f"keep names {name!r}, and so does a column of the reports; rename it"
            )
    if record_id in protocol.columns:
        raise ValueError(
            f"record_id must not name a column that is privatised, got {record_id!r}"
        )
    if (record_id is None) != (protocol.permanent_key is None):
        raise ValueError(
            "record_id is of use with a secret_key only (memoize=True, or a RapporEncoder with a key)"
            if record_id is not None
            else "the reports are permanent ones of a secret_key: record_id must name the column of the record ids"
        )


def check_names(keep: Any) -> None:
    """Check that there is a list of columns to keep."""
    if isinstance(keep, str) or not isinstance(keep, Sequence):
        raise TypeError(
            f"keep must be a list of column names, got {type(keep).__name__}"
        )


def check_flags(**flags: Any) -> None:
    """Check parameters that are True or False."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, got {type(value).__name__}")


def fit_on_schema(
    transformer: ReportTransformer, sample: Any, keep: Sequence[str | None]
) -> None:
    """Fit a transformer on what it declares, and on the domains that dtypes carry: no row is read."""
    table = read_table(sample)
    transformer.fit(
        transformer.declared_row(
            table, [name for name in table.names if name not in keep]
        )
    )


def check_transformer(transformer: Any) -> None:
    """Check that a transformer can work batch by batch."""
    if isinstance(transformer, OnFitOnly):
        raise TypeError(
            "OnFitOnly leaves the rows of `transform` true; give the transformer inside it"
        )
    if not isinstance(transformer, ReportTransformer):
        kind = (
            transformer.__name__
            if isinstance(transformer, type)
            else type(transformer).__name__
        )
        raise TypeError(
            "transformer must be a ReportTransformer, which reports row by row, such as RandomizedResponseEncoder, "
            f"NumericPerturber or RapporEncoder, got {kind}"
        )


def _kept_columns(batch: Any, names: Sequence[str]) -> Any:
    """Copy the columns that are released unprotected, with nothing besides: no rows that were left out, no metadata."""
    # A slice of a table may hold the memory of the whole one; an Arrow dictionary, values that no row has; and a
    # Categorical of polars belongs to a table of the whole process: it becomes text. Other dtypes stay, with the
    # categories that they have.
    frame = nw.from_native(batch, eager_only=True).select(*names)
    native = frame.to_native()
    if frame.implementation.is_polars():
        return _from_polars(native)
    if frame.implementation.is_pyarrow():
        columns = [_from_arrow(native.column(name)) for name in names]
        return pyarrow.Table.from_arrays(columns, names=list(names))
    own = native.copy()
    own.index = without_unused_levels(native.index)
    return own


def _from_polars(frame: Any) -> Any:
    text = [
        name
        for name, dtype in frame.schema.items()
        if dtype.base_type() in (polars.String, polars.Categorical)
    ]
    # To join nothing to a text makes a new one; a selection of texts keeps the memory of all.
    own = frame.with_columns(
        polars.concat_str(polars.col(name).cast(polars.String), polars.lit(""))
        for name in text
    )
    return own[np.arange(frame.height)]


def _from_arrow(column: Any) -> Any:
    kind = column.type
    if types.is_dictionary(kind):
        return column.cast(kind.value_type).dictionary_encode().cast(kind)
    rows = pyarrow.array(np.arange(len(column)))
    if types.is_string_view(kind) or types.is_binary_view(
        kind
    ):  # views cannot be taken from
        plain = (
            pyarrow.large_string()
            if types.is_string_view(kind)
            else pyarrow.large_binary()
        )
        return column.cast(plain).take(rows).cast(kind)
    return column.take(rows)


FEW = 3
"""Batches that are drawn here: a process takes about as long to start."""

SLOW = 3e-6
"""Seconds of a row from which it is worth the while to send rows to a process."""

_MOST = 16
_IDLE_SECONDS = 10

Draw = Callable[..., Any]


def in_processes(release: Release) -> tuple[Draw, int]:
    """Return what privatises batches for a few threads at a time, and the number of threads to ask it."""
    # NumPy and OpenSSL let other threads go on: what they draw is drawn where it is asked for. Permanent reports that
    # are slow, as each record is hashed, are drawn in processes. Which batch is drawn where makes no difference.
    cores = min(_MOST, joblib.cpu_count())
    # Not in a process that a pool has started: it may have no children, and its siblings use the cores.
    if (
        not release.permanent
        or cores == 1
        or multiprocessing.parent_process() is not None
    ):
        return release, min(4, cores)
    from joblib.externals.loky import (
        ProcessPoolExecutor,
    )  # does not run the user's script again, as others do

    asked, paces = itertools.count(), list[float]()
    processes = (
        cores - 1
    )  # this one reads, compares ids and writes; if there is one other only, it draws as well
    free = threading.Semaphore(processes)
    # Not joblib's own pool: it would end for ours, and ours for it, at each batch. This one ends with `draw`.
    pool = functools.cache(
        lambda: ProcessPoolExecutor(processes, timeout=_IDLE_SECONDS)
    )

    def draw(*batch: Any) -> Any:
        if (
            next(asked) >= FEW
            and min(paces, default=0.0) > SLOW
            and free.acquire(blocking=False)
        ):
            try:
                reports, counts = pool().submit(release.draw, *batch).result()
                release.count(batch[1], counts)
                return reports
            except Exception:  # a refusal, which is the same here; or no process, such as for lack of memory
                pass
            finally:
                free.release()
        begun = time.thread_time()
        drawn = release(*batch)
        paces.append((time.thread_time() - begun) / max(1, len(batch[0])))
        return drawn

    return draw, max(2, processes)
