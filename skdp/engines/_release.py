"""Release of a table in batches: prepared without reading rows, checked, charged and drawn."""

from __future__ import annotations

import copy
import hashlib
import hmac
from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import Bytes
from skdp.domain import Domain
from skdp.local import (
    OnFitOnly,
    ReportProtocol,
    ReportTransformer,
    SecretKey,
    encode_person_ids,
    join_parts,
)
from skdp.randomness import ByteSource
from skdp.readers import Extra, run_check
from skdp.tables import Table, to_python, wrap_table

pyarrow, types = Extra("pyarrow"), Extra("pyarrow.types")

# The number of the partition of a batch (None if there is one), and the number of the
# first row of the batch in the partition.
Position = tuple[int | None, int]
WHOLE_TABLE: Position = (None, 0)


def count_batch_rows(n_columns: int) -> int:
    """Return the number of rows of a batch of reports with `n_columns` columns.

    It depends on nothing else, because random bits depend on the first row of each batch.
    """
    # A batch has at most 2**20 values, which are some megabytes for all protocols, and a
    # multiple of 4096 rows.
    block_rows = 1 << 12
    return max(1, (1 << 20) // max(n_columns, 4) // block_rows) * block_rows


class KeyedSource:
    """Source of pseudorandom bytes: SHAKE-128 of a key and of the number of the request."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._n_requests = 0

    def bytes(self, size: int) -> Bytes:
        """Return the next `size` pseudorandom bytes."""
        stream = hashlib.shake_128(self._key + self._n_requests.to_bytes(8, "big"))
        self._n_requests += 1
        return np.frombuffer(stream.digest(size), np.uint8)


def derive_key(key: bytes, *parts: bytes) -> bytes:
    """Derive a key of 32 bytes from a key and parts that name a purpose, by HMAC-SHA256."""
    return hmac.digest(key, join_parts(*parts), "sha256")


def _digest(values: NDArray[Any]) -> bytes:
    """Return the SHA-256 digest of a column of codes, or of ids of persons (bytes objects)."""
    if values.dtype == object:
        return hashlib.sha256(join_parts(*values.tolist())).digest()
    return hashlib.sha256(np.ascontiguousarray(values).data).digest()


class BatchRelease:
    """Checks and privatizes the batches of one table. Secrets that draws require are added by `charge`."""

    # If a batch is computed again, because a worker died or a task was repeated, the same
    # reports are drawn, so that this is not a second release. If its rows have changed,
    # all its random bits are new and independent. The two versions together would reveal
    # that rows have changed, so the guarantee requires that the table does not change.

    def __init__(
        self,
        protocol: ReportProtocol,
        *,
        keep: Sequence[str] = (),
        person: str | None = None,
        key: SecretKey | None = None,
    ) -> None:
        """Prepare reports of a protocol; without a `key`, tables are only checked.

        `keep` are columns that are released unchanged, and `person` is the column of the ids of persons of permanent
        reports.
        """
        self._protocol = protocol if key is not None else protocol.without_secrets()
        self._key = key
        self.keep = tuple(keep)
        self.person = person
        self._digest_key = SecretKey.generate().hex()
        # A table of reports without rows, and the protocol as JSON, which is written to
        # the metadata of files.
        self.empty_reports: Any = None
        self.protocol_text: str | None = None

    @property
    def domain(self) -> Domain | None:
        """Declared values of the reports."""
        return self._protocol.values

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are read: privatized, kept, and the ids of persons."""
        ids = [] if self.person is None else [self.person]
        return list(dict.fromkeys([*self._protocol.columns, *self.keep, *ids]))

    @property
    def batch_rows(self) -> int:
        """Number of rows of a batch, for engines that read a table as a stream."""
        return count_batch_rows(self.empty_reports.shape[1])

    def charge(
        self,
        transformer: ReportTransformer,
    ) -> BatchRelease:
        """Charge the ledger, and return a copy with the secrets that are required to draw."""
        transformer._charge()
        charged = copy.copy(self)
        charged._protocol = transformer.protocol_
        charged._key = draw_key(transformer)
        charged.protocol_text = transformer._json.carried_text
        return charged

    def check(self, batch: Any) -> NDArray[np.uint64]:
        """Check the values of a batch; return 64-bit digests of its ids of persons, if any."""
        _, _, ids = self._encode(batch)
        records: list[bytes] = []
        if self.person is not None:
            records = run_check(lambda: encode_person_ids(ids, len(batch)))
        # SipHash with a secret key, so that nobody can choose two ids with the same
        # digest. Two of 100 million distinct ids have the same digest with probability
        # 1/3,700, which raises an error.
        values = np.array(records, object)
        return pd.util.hash_array(
            values, hash_key=self._digest_key[:16], categorize=False
        )

    def draw(self, batch: Any, position: Position = WHOLE_TABLE) -> Any:
        """Privatize a batch with random bits derived from the key, its position and its content.

        `position` identifies the batch in its table, so that no two batches have the same random bits.
        """
        protocol = self._protocol
        codes, rows, ids = self._encode(batch)
        records = run_check(lambda: protocol.read_records(ids, len(batch)))
        # The digests are computed before `randomize`, which overwrites the codes.
        content = [*map(_digest, codes), _digest(np.array(records, object))]
        assert self._key is not None
        key = derive_key(self._key, b"batch", repr(position).encode(), *content)

        def source(purpose: str, *columns: Any) -> ByteSource:
            """Return the source of random bits of a purpose and columns."""
            # Each purpose and column has its own random bits.
            names = [repr(to_python(part)).encode() for part in (purpose, *columns)]
            return KeyedSource(derive_key(key, b"coins", *names))

        reports = protocol.write(protocol.randomize(codes, records, source), rows)
        if not self.keep:
            return reports
        parts = [reports, _copy_columns(batch, self.keep)]
        frames = [nw.from_native(part, eager_only=True) for part in parts]
        return nw.concat(frames, how="horizontal").to_native()

    def _encode(self, batch: Any) -> tuple[list[Any], Table, Any]:
        """Return the codes of the privatized columns of a batch, these columns, and the ids of persons or None."""
        table = wrap_table(batch)
        columns = dict(zip(table.names, table.columns, strict=True))
        names = self._protocol.columns
        rows = Table(names, tuple(columns[name] for name in names), batch)
        codes = run_check(lambda: self._protocol.prepare(rows))
        return codes, rows, columns.get(self.person)


def draw_key(transformer: ReportTransformer) -> SecretKey:
    """Draw the key of a release from the secure or seeded randomness of a transformer."""
    source = transformer._randomness()("key of a release")
    return SecretKey(source.bytes(32).tobytes())


# Preparation


def prepare_release(
    sample: Any,
    transformer: Any,
    *,
    keep: Sequence[str] = (),
    person: str | None = None,
) -> BatchRelease:
    """Check a transformer and columns with an empty table, and prepare a release without a charge.

    `sample` is a table in memory with the columns and without rows.
    """
    check_transformer(transformer)
    check_keep(keep)
    names = list(wrap_table(sample).names)
    used = [*keep] if person is None else [*keep, person]
    if not set(used) <= set(names) or len(set(keep)) < len(keep):
        raise ValueError(
            f"`keep` and `person` must be distinct columns of {names}, got {used}."
        )
    if not hasattr(transformer, "protocol_"):
        fit_on_schema(transformer, sample, used)
    protocol = transformer.protocol_
    absent = [name for name in protocol.columns if name not in names]
    if absent:
        raise ValueError(
            f"The table must have the columns {absent}, which the transformer was "
            f"fitted on, got {names}."
        )
    reported = {*protocol.columns, *protocol.report_columns}
    conflicting = [name for name in used if name in reported]
    if conflicting:
        raise ValueError(
            "`keep` and `person` must be columns that are neither privatized nor "
            f"named as a report, got {conflicting}."
        )
    if (person is not None) != (protocol.permanent_key is not None):
        raise ValueError(
            "`person` must be the column of the ids of persons if reports are permanent "
            "(memoize=True, or a RapporEncoder with a key), and None otherwise, got "
            f"{person!r}."
        )
    options: dict[str, Any] = {"keep": keep, "person": person}
    release = BatchRelease(protocol, **options)
    # An empty table is privatized with another key, so that unsupported transformers
    # raise before the charge.
    trial = BatchRelease(protocol, key=SecretKey.generate(), **options)
    release.empty_reports = trial.draw(sample)
    return release


def check_transformer(transformer: Any) -> None:
    """Raise an error unless a transformer privatizes rows in `transform`, independently of each other."""
    if isinstance(transformer, OnFitOnly):
        raise TypeError(
            "`transformer` must randomize in `transform`, got OnFitOnly. Pass the "
            "transformer that it wraps."
        )
    if not isinstance(transformer, ReportTransformer):
        is_class = isinstance(transformer, type)
        name = (transformer if is_class else type(transformer)).__name__
        raise TypeError(
            "`transformer` must be a ReportTransformer, which reports row by row, such"
            " as RandomizedResponseEncoder, NumericPerturber or RapporEncoder, got"
            f" {name}."
        )


def fit_on_schema(
    transformer: ReportTransformer, sample: Any, keep: Sequence[str | None]
) -> None:
    """Fit a transformer to its declared values and the columns of an empty table, except `keep`."""
    if isinstance(getattr(transformer, "categories", None), str):
        raise ValueError(
            "`categories` must be a dict or a Domain for a table that is not in "
            "memory, got 'auto'. Alternatively, fit the transformer on a small table."
        )
    table, kept = wrap_table(sample), set(keep)
    names = [name for name in table.names if name not in kept]
    row = transformer._declared_row(names)
    # As in memory, columns of a Domain that the table lacks are ignored. If it lacks all
    # of them, as for files of reports, the caller checks the columns.
    known = [name for name in row.columns if name in table.names]
    transformer.fit(row[known] if known else row)


def check_keep(keep: Any) -> None:
    """Raise an error unless the columns to keep are a list of names."""
    if isinstance(keep, str) or not isinstance(keep, Sequence):
        raise TypeError(
            f"`keep` must be a list of column names, got {type(keep).__name__}."
        )


# Columns that are released unprotected


def _copy_columns(batch: Any, names: Sequence[str]) -> Any:
    """Copy columns of a batch that are released unprotected, without values of other rows."""
    # A dictionary column of Arrow may contain values that occur in no row of the batch.
    # The categories of a pandas dtype are declared facts.
    native = nw.from_native(batch, eager_only=True).select(*names).to_native()
    if isinstance(native, pd.DataFrame):
        return native.copy()
    columns = [
        column.cast(_choose_plain_type(column.type)) for column in native.columns
    ]
    return pyarrow.Table.from_arrays(columns, names=list(names))


def _choose_plain_type(arrow_type: Any) -> Any:
    """Return the value type of a dictionary type, and copyable types for views of text or bytes."""
    if types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    # A view may refer to a buffer with values of other rows.
    if types.is_string_view(arrow_type):
        return pyarrow.large_string()
    return pyarrow.large_binary() if types.is_binary_view(arrow_type) else arrow_type
