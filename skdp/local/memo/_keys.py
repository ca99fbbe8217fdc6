"""Permanent randomness: a keyed function of record and value, so that nothing needs to be stored to repeat them."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from operator import add
from typing import Any, Self
from uuid import UUID

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding import ColumnError, is_missing, kind_of, plain
from skdp.randomness import BLOCK, ONE

_LEAST_KEY = 16
_MOST_KEY = hashlib.blake2b.MAX_KEY_SIZE


class SecretKey(bytes):
    """A secret key that does not show itself when an estimator that holds it is printed.

    Examples
    --------
    >>> SecretKey.generate()
    SecretKey(hidden)
    """

    @classmethod
    def generate(cls) -> Self:
        """Draw a fresh key of 32 bytes.

        Returns
        -------
        SecretKey
            To be kept: with it, the permanent noise can be undone.
        """
        return cls(secrets.token_bytes(32))

    def __repr__(self) -> str:
        return "SecretKey(hidden)"

    __str__ = __repr__


def check_key(key: Any) -> bytes | None:
    """Check a secret key."""
    if key is None:
        return None
    if not isinstance(key, bytes):
        raise TypeError(f"secret_key must be None or bytes, got {type(key).__name__}")
    if len(key) < _LEAST_KEY:
        raise ValueError(f"secret_key must have at least {_LEAST_KEY} bytes, got {len(key)}; use SecretKey.generate()")
    return key


def to_bytes(column: Any, *, missing: bool = False) -> list[bytes]:
    """Write values as bytes: equal bytes for equal values of a kind, different bytes for all others."""
    # 1 and 1.0 are one value, and so are None and nan; 1, "1" and True are three.
    try:
        return [_write(value, missing) for value in _values(column)]
    except ColumnError:
        raise
    except Exception:
        pass  # it may hold a value, and would be the context of an error that is raised here
    raise ColumnError("holds values that cannot be written as bytes")


def _values(column: Any) -> list[Any]:
    if isinstance(column, list):
        return column
    if isinstance(column, np.ndarray | pd.Series):
        return column.tolist()
    return nw.from_native(column, series_only=True).to_list()


def _write(value: Any, missing: bool) -> bytes:
    if type(value) is str:
        return b"s " + value.encode("utf-8", "surrogatepass")
    if type(value) is int:
        return b"n %d" % value
    if is_missing(value):
        if not missing:
            raise ColumnError("holds missing values (NaN)")
        return b"missing"
    kind, value = kind_of(value), plain(value)
    if kind == "string":
        return b"s " + value.encode("utf-8", "surrogatepass")
    if kind == "boolean":
        return f"b {value}".encode()
    if kind == "number":
        if isinstance(value, float) and not math.isfinite(value):
            raise ColumnError("holds inf")
        return f"n {Fraction(value)}".encode()
    raise ColumnError("holds values that are neither text nor numbers nor booleans")


def framed(*parts: bytes) -> bytes:
    """Join parts so that no two sequences of parts are written alike."""
    return b"".join(_frames(parts))


def keyed_digests(key: bytes, purpose: tuple[str | bytes, ...], *fields: Sequence[bytes]) -> list[bytes]:
    """Return pseudo-random bytes for each record: keyed BLAKE2b of what they are for and of the record's fields."""
    # RFC 7693. One hash a record; HMAC, which takes two, is half as fast.
    state = hashlib.blake2b(key=key if len(key) <= _MOST_KEY else hashlib.blake2b(key).digest(), digest_size=32)
    state.update(b"skdp permanent coins %d" % len(purpose))
    state.update(framed(*(part if isinstance(part, bytes) else part.encode() for part in purpose)))
    first, *others = map(_frames, fields)
    messages = first
    for other in others:
        messages = list(map(add, messages, other))
    copy, digests = state.copy, []
    for message in messages:
        hashed = copy()
        hashed.update(message)
        digests.append(hashed.digest())
    return digests


def _frames(parts: Sequence[bytes]) -> list[bytes]:
    """Write each part after its length, in eight bytes."""
    heads = {length: length.to_bytes(8, "big") for length in set(map(len, parts))}
    if len(heads) == 1:
        (head,) = heads.values()
        return [head + part for part in parts]
    return [heads[len(part)] + part for part in parts]


def keyed_integers(digests: Sequence[bytes], high: int) -> NDArray[np.int64]:
    """Draw a uniform integer from each digest."""
    return np.fromiter((int.from_bytes(digest, "big") % high for digest in digests), np.int64, len(digests))


def keyed_coins(digests: Sequence[bytes], threshold: int, width: int) -> NDArray[np.bool_]:
    """Draw Bernoulli coins from each digest, which is stretched by SHAKE-128."""
    if not 0 <= threshold < ONE:
        raise ValueError("threshold must be at least 0 and below 2**64")
    coins = np.empty((len(digests), width), bool)
    first = np.uint16(threshold >> 48)
    step = max(1, BLOCK // width)
    for start in range(0, len(digests), step):
        part = digests[start : start + step]
        # The first 16 bits of all words come first in the stream: they decide, unless some tie with the threshold's.
        stream = b"".join(hashlib.shake_128(digest).digest(2 * width) for digest in part)
        heads = np.frombuffer(stream, ">u2").reshape(len(part), width)
        coins[start : start + step] = heads < first
        for row in np.flatnonzero((heads == first).any(axis=1)).tolist():
            rest = hashlib.shake_128(part[row]).digest(8 * width)[2 * width :]
            words = heads[row].astype(np.uint64) << np.uint64(48)
            words |= _low_words(rest)
            coins[start + row] = words < np.uint64(threshold)
    return coins


def _low_words(rest: bytes) -> NDArray[np.uint64]:
    """Read words of 48 bits."""
    halves = np.frombuffer(rest, ">u2").reshape(-1, 3).astype(np.uint64)
    return (halves[:, 0] << np.uint64(32)) | (halves[:, 1] << np.uint64(16)) | halves[:, 2]


def canonical(value: Any) -> bytes:
    """Write a value as bytes: equal bytes for equal values of a kind, different bytes for all others."""
    # 1 and 1.0 are one value, and so are a day, and its midnight without a time zone; 1, "1", True, b"1" and (1,) are
    # five.
    if type(value) is str:
        return b"s " + value.encode("utf-8", "surrogatepass")
    if type(value) is int:
        return b"n %d" % value
    if isinstance(value, tuple):
        return b"t " + framed(*map(canonical, value))
    if isinstance(value, bytes):
        return b"y " + value
    if isinstance(value, UUID):
        return b"u " + value.bytes
    if isinstance(value, date | np.datetime64) and not is_missing(value):
        time = plain(value)
        if not isinstance(time, pd.Timestamp):
            return b"d " + time.isoformat().encode() + b"T00:00:00"  # libraries without a type of days write midnight
        return b"d " + (time if time.tz is None else time.tz_convert("UTC")).isoformat().encode()
    return to_bytes([value])[0]


def written_name(name: Any, parameter: str) -> bytes:
    """Write the name of a column as bytes, which the parameter that is named needs."""
    try:
        return canonical(name)
    except ColumnError:
        raise ValueError(
            f"{parameter} needs column names of text, numbers, booleans or times; {name!r} is another"
        ) from None


def read_record_ids(record_id: Any, n_rows: int) -> list[bytes]:
    """Write record ids as bytes."""
    if (written := _written_at_once(record_id)) is not None and len(written) == n_rows:
        return written
    ids = _as_list(record_id)
    if len(ids) != n_rows:
        raise ValueError(f"record_id must have an id for each of the {n_rows} rows, got {len(ids)}")
    try:
        kinds = set(map(type, ids))
        if kinds == {int}:  # as `canonical`, without a call for each
            return [b"n %d" % value for value in ids]
        if kinds == {str}:
            return [b"s " + value.encode("utf-8", "surrogatepass") for value in ids]
        return [canonical(value) for value in ids]
    except ColumnError as error:
        message = str(error)
    except Exception:
        message = "holds an id that cannot be written as bytes"
    raise ValueError(f"record_id {message}")  # here, where no error that may hold an id is its context


def _written_at_once(record_id: Any) -> list[bytes] | None:
    """Write text and whole numbers of polars or Arrow as `canonical` does, without a Python object for each."""
    series = nw.from_native(record_id, series_only=True, pass_through=True)
    if not isinstance(series, nw.Series) or series.null_count():
        return None
    if series.implementation.is_pandas() or not (series.dtype == nw.String or series.dtype.is_integer()):
        return None  # text of pandas may be any object
    head = nw.lit("s " if series.dtype == nw.String else "n ")
    text = series.alias("id").to_frame().select(nw.concat_str(head, nw.col("id").cast(nw.String)).cast(nw.Binary))
    return text[:, 0].to_list()


def _as_list(record_id: Any) -> list[Any]:
    if isinstance(record_id, list | tuple):
        return list(record_id)
    if getattr(record_id, "ndim", 1) != 1:
        raise ValueError(f"record_id must be 1-D, got {record_id.ndim}-D")
    if getattr(getattr(record_id, "dtype", None), "time_unit", None) == "ns" and hasattr(record_id, "to_physical"):
        zone = record_id.dtype.time_zone and "UTC"  # the objects that polars makes have no nanoseconds
        return [None if time is None else pd.Timestamp(time, tz=zone) for time in record_id.to_physical().to_list()]
    if isinstance(record_id, np.ndarray) and record_id.dtype.kind == "M":
        return list(record_id)  # as plain objects, times in nanoseconds would be numbers
    for name in ("tolist", "to_list", "to_pylist"):  # numpy and pandas, polars, pyarrow
        if hasattr(record_id, name) and not isinstance(record_id, np.generic):
            return list(getattr(record_id, name)())
    raise TypeError(f"record_id must be a 1-D array, a series or a list, got {type(record_id).__name__}")
