"""The release of a table: prepared without a row, checked, charged, and drawn batch by batch with bits of each."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import CallRandomness, refuse_protected_levels, warn_of_levels
from skdp.engines._errors import RefusedBatch, naming, quietly, refusing
from skdp.engines._libraries import Extra
from skdp.local import (
    Codes,
    OnFitOnly,
    ReportProtocol,
    Reports,
    ReportTransformer,
    SecretKey,
    framed,
    protocol_text,
    read_record_ids,
    text_in_memory,
)
from skdp.randomness import ByteSource
from skdp.tables import (
    Table,
    plain,
    read_table,
    without_unused_levels,
)

# Seeded random bits come in blocks of this many rows, counted from the start of the
# table.
BLOCK_ROWS = 1 << 12


@dataclass(frozen=True)
class Place:
    """Where a batch stands in its table."""

    partition: int | None = None
    first: int = 0


class KeyedSource:
    """Bytes that look random without the key: SHAKE-128 of the key and of the number of each request."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._requests = 0

    def bytes(self, size: int) -> NDArray[np.uint8]:
        """Return the next bytes."""
        stream = hashlib.shake_128(self._key + self._requests.to_bytes(8, "big"))
        self._requests += 1
        return np.frombuffer(stream.digest(size), np.uint8)


class KeyedRandomness:
    """Secure randomness: a keyed function of the place and the content of a batch, under a fresh secret key."""

    # A batch that is computed again, since a worker died or a task was tried twice,
    # draws the same reports, so it is not released again. If its place holds other rows
    # by then, all its random bits are others, and independent. But that the rows differ
    # does show to those who see both reports, since reports of the same rows are equal:
    # the guarantee is for tables that stay the same. The key is drawn where the release
    # is asked for. It travels to the workers together with the rows, does not show when
    # it is printed, and is not kept with the release.

    def __init__(self, key: SecretKey | None = None) -> None:
        self._key = SecretKey.generate() if key is None else key

    @property
    def name(self) -> str:
        """What distinguishes the release from all others; it does not show the key."""
        return derive_key(self._key, b"name of the release").hex()

    def draw(
        self, protocol: ReportProtocol, codes: Codes, place: Place, records: list[bytes]
    ) -> Reports:
        """Draw the reports of a batch of codes."""
        where = repr((place.partition, place.first)).encode()
        # Now: `randomise` consumes the codes.
        content = [_digest(column) for column in codes]
        key = derive_key(self._key, b"batch", where, *content, _digest_bytes(records))

        def source(purpose: str, *columns: Any) -> ByteSource:
            # Each purpose and column has random bits of its own.
            names = [repr(plain(part)).encode() for part in (purpose, *columns)]
            return KeyedSource(derive_key(key, b"coins", *names))

        return protocol.randomise(codes, records, source)


def derive_key(key: bytes, *parts: bytes) -> bytes:
    """Derive a key or a name from a key, for a purpose."""
    return hmac.digest(key, framed(*parts), "sha256")


def _digest(codes: NDArray[Any]) -> bytes:
    """Digest a column of codes."""
    if codes.dtype == object:
        return _digest_bytes(codes.tolist())
    return hashlib.sha256(np.ascontiguousarray(codes).data).digest()


def _digest_bytes(values: list[bytes]) -> bytes:
    return hashlib.sha256(framed(*values)).digest()


class SeededRandomness:
    """Reproducible randomness, for experiments: the same for a row of the same number in a partition."""

    # Batches start at multiples of `BLOCK_ROWS`, so that they consist of whole blocks.

    def __init__(self, randomness: CallRandomness) -> None:
        self._randomness = randomness.part("rows")

    @property
    def name(self) -> str | None:
        """What distinguishes the call from others of the transformer."""
        return self._randomness.name

    def draw(
        self, protocol: ReportProtocol, codes: Codes, place: Place, records: list[bytes]
    ) -> Reports:
        """Draw the reports of a batch of codes."""
        n_rows = len(codes[0])
        id_column = np.array(records, object)
        partition = "all" if place.partition is None else place.partition
        blocks = []
        # One block also of no rows, which has the columns of the reports.
        for start in range(0, max(n_rows, 1), BLOCK_ROWS):
            columns = [_whole_block(column[start:]) for column in codes]
            ids = []
            if protocol.permanent_key is not None:
                ids = _whole_block(id_column[start:]).tolist()
            randomness = self._randomness.part(partition, place.first + start)
            reports = protocol.randomise(columns, ids, randomness)
            blocks.append([report[: n_rows - start] for report in reports])
        return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _whole_block(codes: NDArray[Any]) -> NDArray[Any]:
    """Cut or pad codes to the size of a block: random bits are addressed by position."""
    block = np.full(BLOCK_ROWS, b"" if codes.dtype == object else 0, codes.dtype)
    part = codes[:BLOCK_ROWS]
    block[: len(part)] = part
    return block


BatchRandomness = KeyedRandomness | SeededRandomness


pyarrow, types, polars = (
    Extra("pyarrow"),
    Extra("pyarrow.types"),
    Extra("polars", "polars"),
)

WHOLE = Place()

REPEATED = "record_id has repeated entries; a record reports once in a call"


class BatchCheck:
    """Check batches before anything is charged; it has neither key nor ledger, and goes to workers."""

    def __init__(
        self,
        protocol: ReportProtocol,
        keep: Sequence[str],
        record_id: str | None = None,
    ) -> None:
        self._protocol = protocol.without_secrets()
        self.keep = tuple(keep)
        self.record_id = record_id
        self._digest_key = SecretKey.generate()

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        ids = [] if self.record_id is None else [self.record_id]
        return list(dict.fromkeys([*self._protocol.columns, *self.keep, *ids]))

    def read(self, batch: Any) -> tuple[Codes, Table, Any]:
        """Code a batch; also return the table of its rows, and their ids."""
        table = read_table(batch)
        columns = dict(zip(table.names, table.columns, strict=True))
        names = self._protocol.columns
        rows = Table(names, tuple(columns[name] for name in names), batch)
        codes = naming(
            "prepare",
            self._protocol,
            batch,
            lambda: refusing(lambda: self._protocol.prepare(rows)),
        )
        ids = None if self.record_id is None else columns[self.record_id]
        return codes, rows, ids

    def __call__(self, batch: Any) -> NDArray[np.uint64]:
        """Check a batch, and return the digests of its record ids: (n_rows, 2), or none without record ids."""
        _, _, ids = self.read(batch)
        records: list[bytes] = []
        if ids is not None:
            records = refusing(lambda: read_record_ids(ids, len(batch)))
        return self.digest_ids(records)

    def digest_ids(self, records: list[bytes]) -> NDArray[np.uint64]:
        """Digest record ids, to compare them with those of other batches."""
        # 128 bits each, by SipHash under two secret keys: nobody who does not know them
        # finds two ids with the same digest.
        values = np.array(records, object)
        hex_key = self._digest_key.hex()
        halves = [
            pd.util.hash_array(values, hash_key=hex_half, categorize=False)
            for hex_half in (hex_key[:16], hex_key[16:32])
        ]
        return np.stack(halves, axis=1)


def refuse_repeated(record_digests: Iterable[NDArray[np.uint64]]) -> None:
    """Refuse a record id that comes twice in the batches of one evaluation of a table: 16 bytes an id."""
    batches = [np.zeros((0, 2), np.uint64), *record_digests]
    first_halves = np.concatenate([digests[:, 0] for digests in batches])
    first_halves.sort()
    is_repeated = first_halves[1:] == first_halves[:-1]
    if not is_repeated.any():
        return
    # Two ids have the same first half with probability 2**-64: only of those that have,
    # the second halves are compared, which takes less memory than to sort all pairs.
    repeated = first_halves[1:][is_repeated]
    suspects = np.concatenate(
        [digests[np.isin(digests[:, 0], repeated, kind="sort")] for digests in batches]
    )
    if len(np.unique(suspects, axis=0)) < len(suspects):
        raise RefusedBatch(REPEATED)


@dataclass
class DrawnBatch:
    """The reports of a batch, and the digests of their record ids."""

    reports: Any
    record_digests: NDArray[np.uint64]


class Release:
    """Privatise batches of one table; it goes to workers, and shows neither key nor rows."""

    # The protocol as JSON, for the metadata of what is written.
    protocol_text: str | None = None
    # The same for what stays in memory.
    text_in_memory: str | None = None

    def __init__(
        self, check: BatchCheck, protocol: ReportProtocol, randomness: BatchRandomness
    ) -> None:
        self.check = check
        self._protocol = protocol
        self._randomness = randomness

    def __getstate__(self) -> dict[str, Any]:
        # Workers write no metadata.
        return self.__dict__ | {"protocol_text": None, "text_in_memory": None}

    def draw(self, batch: Any, place: Place = WHOLE) -> DrawnBatch:
        """Privatise a batch."""
        protocol = self._protocol
        codes, rows, ids = self.check.read(batch)
        records = refusing(lambda: protocol.read_records(ids, len(batch)))
        draw = self._randomness.draw
        reports = naming(
            "randomise", protocol, batch, lambda: draw(protocol, codes, place, records)
        )
        released = naming(
            "write", protocol, batch, lambda: protocol.write(reports, rows)
        )
        if self.check.keep:
            parts = [released, _kept_columns(batch, self.check.keep)]
            frames = [nw.from_native(part, eager_only=True) for part in parts]
            released = nw.concat(frames, how="horizontal").to_native()
        return DrawnBatch(released, self.check.digest_ids(records))


class Preparation:
    """A release of a table, checked as far as that needs no row; nothing is charged yet."""

    def __init__(
        self,
        sample: Any,
        transformer: Any,
        *,
        keep: Sequence[str] = (),
        record_id: str | None = None,
    ) -> None:
        check_transformer(transformer)
        names = list(read_table(sample).names)
        _check_keep(keep, names)
        _check_record_id(record_id, names)
        if not hasattr(transformer, "protocol_"):
            fit_on_schema(transformer, sample, [*keep, record_id])
        protocol = transformer.protocol_
        absent = [name for name in protocol.columns if name not in names]
        if absent:
            raise ValueError(
                f"the table lacks the columns {absent} that the transformer was "
                f"fitted on; it has {names}"
            )
        _check_roles(protocol, keep, record_id)
        refuse_protected_levels(sample, protocol.columns, what="the table")
        warn_of_levels(sample)
        self.transformer = transformer
        self.check = BatchCheck(protocol, keep, record_id)
        self.sample = sample
        self.no_reports = self._rehearse()

    def _rehearse(self) -> Any:
        """Privatise no rows: what the transformer cannot do shows before the charge."""
        rehearsal = self._release_of(KeyedRandomness())
        return quietly(lambda: rehearsal.draw(self.sample).reports)

    def charge(self) -> Release:
        """Charge the ledger, and start the randomness."""
        self.transformer.charge()
        randomness = self.transformer.randomness()
        if randomness.seed is None:
            return self.release(KeyedRandomness())
        return self.release(SeededRandomness(randomness))

    def release(self, randomness: BatchRandomness) -> Release:
        """Begin the release that was charged."""
        release = self._release_of(randomness)
        release.protocol_text = protocol_text(self.transformer)
        release.text_in_memory = text_in_memory(self.transformer)
        return release

    def _release_of(self, randomness: BatchRandomness) -> Release:
        return Release(self.check, self.transformer.protocol_, randomness)


def _check_keep(keep: Any, names: list[Any]) -> None:
    check_names(keep)
    if any(name not in names for name in keep) or len(set(keep)) < len(keep):
        raise ValueError(
            f"keep must name distinct columns of {names}, got {list(keep)}"
        )


def _check_record_id(record_id: Any, names: list[Any]) -> None:
    if record_id is None:
        return
    if not isinstance(record_id, str):
        raise TypeError(
            "record_id must be None or the name of a column, got "
            f"{type(record_id).__name__}"
        )
    if record_id not in names:
        raise ValueError(
            f"record_id must name the column of the record ids, got {record_id!r}"
        )


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
            "record_id is of use with a secret_key only (memoize=True, or a "
            "RapporEncoder with a key)"
            if record_id is not None
            else (
                "the reports are permanent ones of a secret_key: record_id must name"
                " the column of the record ids"
            )
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
            "OnFitOnly leaves the rows of `transform` true; give the transformer "
            "inside it"
        )
    if not isinstance(transformer, ReportTransformer):
        kind = (
            transformer.__name__
            if isinstance(transformer, type)
            else type(transformer).__name__
        )
        raise TypeError(
            "transformer must be a ReportTransformer, which reports row by row, such"
            " as RandomizedResponseEncoder, NumericPerturber or RapporEncoder, got"
            f" {kind}"
        )


def _kept_columns(batch: Any, names: Sequence[str]) -> Any:
    """Copy the columns that are released unprotected, with nothing besides: no rows that were left out, no metadata."""
    # A slice of a table may hold the memory of the whole one; an Arrow dictionary,
    # values that no row has; and a Categorical of polars belongs to a table of the
    # whole process: it becomes text. Other dtypes stay, with the categories that they
    # have.
    frame = nw.from_native(batch, eager_only=True).select(*names)
    native = frame.to_native()
    if frame.implementation.is_polars():
        return _from_polars(native)
    if frame.implementation.is_pyarrow():
        columns = [_from_arrow(native.column(name)) for name in names]
        return pyarrow.Table.from_arrays(columns, names=list(names))
    columns = native.copy()
    columns.index = without_unused_levels(native.index)
    return columns


def _from_polars(frame: Any) -> Any:
    text = [
        name
        for name, dtype in frame.schema.items()
        if dtype.base_type() in (polars.String, polars.Categorical)
    ]
    # To join nothing to a text makes a new one; a selection of texts keeps the memory
    # of all.
    rows = frame.with_columns(
        polars.concat_str(polars.col(name).cast(polars.String), polars.lit(""))
        for name in text
    )
    return rows[np.arange(frame.height)]


def _from_arrow(column: Any) -> Any:
    kind = column.type
    if types.is_dictionary(kind):
        return column.cast(kind.value_type).dictionary_encode().cast(kind)
    rows = pyarrow.array(np.arange(len(column)))
    # Views cannot be taken from.
    if types.is_string_view(kind) or types.is_binary_view(kind):
        plain = (
            pyarrow.large_string()
            if types.is_string_view(kind)
            else pyarrow.large_binary()
        )
        return column.cast(plain).take(rows).cast(kind)
    return column.take(rows)
