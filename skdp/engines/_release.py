"""The release of a table: prepared without reading rows, checked, charged, and drawn batch by batch."""

from __future__ import annotations

import copy
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.domain import Domain
from skdp.engines._io import Extra, RefusedBatch, run_check
from skdp.local import (
    OnFitOnly,
    ReportProtocol,
    ReportTransformer,
    SecretKey,
    encode_record_ids,
    join_parts,
)
from skdp.randomness import ByteSource
from skdp.tables import Table, to_python, wrap_table

pyarrow, types = Extra("pyarrow"), Extra("pyarrow.types")

# The partition of a batch, if there are several, and its first row in the partition.
Position = tuple[int | None, int]
WHOLE_TABLE: Position = (None, 0)

REPEATED_IDS = "record_id has repeated entries. Pass one row for each record."


def count_batch_rows(n_columns: int) -> int:
    """Return the rows of a batch: a function of the reports only, as random bits depend on where batches start."""
    # At most 2**20 values, some megabytes for every protocol, in blocks of 4096 rows.
    block_rows = 1 << 12
    return max(1, (1 << 20) // max(n_columns, 4) // block_rows) * block_rows


class KeyedSource:
    """Pseudorandom bytes: SHAKE-128 of the key and of the number of each request."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._n_requests = 0

    def bytes(self, size: int) -> NDArray[np.uint8]:
        """Return the next bytes."""
        stream = hashlib.shake_128(self._key + self._n_requests.to_bytes(8, "big"))
        self._n_requests += 1
        return np.frombuffer(stream.digest(size), np.uint8)


def derive_key(key: bytes, *parts: bytes) -> bytes:
    """Derive a key or a name from a key, for a purpose."""
    return hmac.digest(key, join_parts(*parts), "sha256")


def _digest(values: NDArray[Any]) -> bytes:
    """Digest a column of codes, or record ids."""
    if values.dtype == object:
        return hashlib.sha256(join_parts(*values.tolist())).digest()
    return hashlib.sha256(np.ascontiguousarray(values).data).digest()


class Release:
    """Check and privatize the batches of one table; workers get it without secrets until it is charged."""

    # A batch that is computed again, because a worker died or a task was repeated, draws
    # the same reports, so it is not a second release. If its rows have changed, all its
    # random bits are new and independent. But reports of equal rows are equal, so both
    # reports together reveal that rows changed: the guarantee is for tables that stay the
    # same.

    def __init__(
        self,
        protocol: ReportProtocol,
        *,
        keep: Sequence[str] = (),
        record_id: str | None = None,
        key: SecretKey | None = None,
    ) -> None:
        self._protocol = protocol if key is not None else protocol.without_secrets()
        self._key = key
        self.keep = tuple(keep)
        self.record_id = record_id
        self._digest_key = SecretKey.generate().hex()
        self.no_reports: Any = None
        """A table of reports without rows."""
        self.protocol_text: str | None = None
        """The protocol as JSON, for the metadata of files."""

    @property
    def domain(self) -> Domain | None:
        """The declared values of the reports."""
        return self._protocol.values

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        ids = [] if self.record_id is None else [self.record_id]
        return list(dict.fromkeys([*self._protocol.columns, *self.keep, *ids]))

    @property
    def batch_rows(self) -> int:
        """The number of rows of a batch, where an engine does not cut the table itself."""
        return count_batch_rows(self.no_reports.shape[1])

    def charge(
        self,
        transformer: ReportTransformer,
        *,
        key: SecretKey | None = None,
        run: str | None = None,
    ) -> Release:
        """Charge the ledger; return the release with its secrets, which can draw reports."""
        transformer._charge(run)
        charged = copy.copy(self)
        charged._protocol = transformer.protocol_
        charged._key = draw_key(transformer) if key is None else key
        charged.protocol_text = transformer._json.carried_text
        return charged

    def check(self, batch: Any) -> NDArray[np.uint64]:
        """Check a batch; return digests of its record ids, if there are any."""
        _, _, ids = self._read(batch)
        records: list[bytes] = []
        if self.record_id is not None:
            records = run_check(lambda: encode_record_ids(ids, len(batch)))
        # SipHash under a secret key: nobody can choose two ids with the same digest. By
        # chance, two of 100 million ids have the same 64 bits in one of 3,700 tables,
        # which are then refused.
        values = np.array(records, object)
        return pd.util.hash_array(
            values, hash_key=self._digest_key[:16], categorize=False
        )

    def draw(self, batch: Any, position: Position = WHOLE_TABLE) -> Any:
        """Privatize a batch, with random bits derived from the key and from its position and content."""
        protocol = self._protocol
        codes, rows, ids = self._read(batch)
        records = run_check(lambda: protocol.read_records(ids, len(batch)))
        # Computed before `randomize`, which overwrites the codes.
        content = [*map(_digest, codes), _digest(np.array(records, object))]
        assert self._key is not None
        key = derive_key(self._key, b"batch", repr(position).encode(), *content)

        def source(purpose: str, *columns: Any) -> ByteSource:
            # Each purpose and column has its own random bits.
            names = [repr(to_python(part)).encode() for part in (purpose, *columns)]
            return KeyedSource(derive_key(key, b"coins", *names))

        reports = protocol.write(protocol.randomize(codes, records, source), rows)
        if not self.keep:
            return reports
        parts = [reports, _copy_columns(batch, self.keep)]
        frames = [nw.from_native(part, eager_only=True) for part in parts]
        return nw.concat(frames, how="horizontal").to_native()

    def _read(self, batch: Any) -> tuple[list[Any], Table, Any]:
        """Code a batch; also return the table of its rows, and their ids."""
        table = wrap_table(batch)
        columns = dict(zip(table.names, table.columns, strict=True))
        names = self._protocol.columns
        rows = Table(names, tuple(columns[name] for name in names), batch)
        codes = run_check(lambda: self._protocol.prepare(rows))
        return codes, rows, columns.get(self.record_id)


def refuse_repeated(digests: Iterable[NDArray[np.uint64]]) -> None:
    """Refuse a record id that occurs twice in the batches of a table."""
    ids = np.concatenate([np.zeros(0, np.uint64), *digests])
    if len(np.unique(ids)) < len(ids):
        raise RefusedBatch(REPEATED_IDS)


def draw_key(transformer: ReportTransformer) -> SecretKey:
    """Draw the key of a release: secret, or with a seed the next key of the transformer."""
    source = transformer._randomness()("key of a release")
    return SecretKey(source.bytes(32).tobytes())


# Preparation


def prepare_release(
    sample: Any,
    transformer: Any,
    *,
    keep: Sequence[str] = (),
    record_id: str | None = None,
) -> Release:
    """Check everything that does not depend on rows, before the charge."""
    check_transformer(transformer)
    check_keep(keep)
    names = list(wrap_table(sample).names)
    used = [*keep] if record_id is None else [*keep, record_id]
    if not set(used) <= set(names) or len(set(keep)) < len(keep):
        raise ValueError(
            f"`keep` and `record_id` must name distinct columns of {names}, got {used}"
        )
    if not hasattr(transformer, "protocol_"):
        fit_on_schema(transformer, sample, used)
    protocol = transformer.protocol_
    absent = [name for name in protocol.columns if name not in names]
    if absent:
        raise ValueError(
            f"the table lacks the columns {absent} that the transformer was "
            f"fitted on; it has {names}"
        )
    reported = {*protocol.columns, *protocol.report_columns}
    taken = [name for name in used if name in reported]
    if taken:
        raise ValueError(
            "`keep` and `record_id` must name columns that are neither privatized nor "
            f"named as a report, got {taken}"
        )
    if (record_id is not None) != (protocol.permanent_key is not None):
        raise ValueError(
            "`record_id` must name the column of the record ids if reports are permanent "
            "(memoize=True, or a RapporEncoder with a key), and be None otherwise; got "
            f"{record_id!r}"
        )
    options: dict[str, Any] = {"keep": keep, "record_id": record_id}
    release = Release(protocol, **options)
    # Privatize a table without rows: unsupported transformers fail before the charge.
    rehearsal = Release(protocol, key=SecretKey.generate(), **options)
    release.no_reports = rehearsal.draw(sample)
    return release


def check_transformer(transformer: Any) -> None:
    """Check that a transformer can work batch by batch."""
    if isinstance(transformer, OnFitOnly):
        raise TypeError(
            "OnFitOnly does not randomize in `transform`; pass the transformer "
            "that it wraps"
        )
    if not isinstance(transformer, ReportTransformer):
        found = transformer if isinstance(transformer, type) else type(transformer)
        raise TypeError(
            "transformer must be a ReportTransformer, which reports row by row, such"
            " as RandomizedResponseEncoder, NumericPerturber or RapporEncoder, got"
            f" {found.__name__}"
        )


def fit_on_schema(
    transformer: ReportTransformer, sample: Any, keep: Sequence[str | None]
) -> None:
    """Fit a transformer on its declared values; no row is read."""
    if isinstance(getattr(transformer, "categories", None), str):
        raise ValueError(
            "categories='auto' cannot be read from a table that is not in memory. "
            "Use a dict or a Domain, or fit the transformer on a small table."
        )
    table = wrap_table(sample)
    names = [name for name in table.names if name not in keep]
    transformer.fit(transformer._declared_row(names))


def check_keep(keep: Any) -> None:
    """Check that there is a list of columns to keep."""
    if isinstance(keep, str) or not isinstance(keep, Sequence):
        raise TypeError(
            f"keep must be a list of column names, got {type(keep).__name__}"
        )


# Columns that are released unprotected


def _copy_columns(batch: Any, names: Sequence[str]) -> Any:
    """Copy kept columns, without values of other rows."""
    # A dictionary may have values that no row of the batch has. Categories of pandas are
    # declared by their dtype.
    native = nw.from_native(batch, eager_only=True).select(*names).to_native()
    if isinstance(native, pd.DataFrame):
        return native.copy()
    columns = [column.cast(_plain_type(column.type)) for column in native.columns]
    return pyarrow.Table.from_arrays(columns, names=list(names))


def _plain_type(kind: Any) -> Any:
    """Return the type of the values of a dictionary, or of text that can be copied."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string_view(kind):
        return pyarrow.large_string()
    return pyarrow.large_binary() if types.is_binary_view(kind) else kind
