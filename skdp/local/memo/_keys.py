"""Permanent randomness: a keyed function of record and value, so that nothing needs to be stored to repeat them."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from typing import Any, Self
from uuid import UUID

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

from skdp.randomness import BLOCK, ONE
from skdp.tables import ColumnError, is_missing, kind_of, plain

_LEAST_KEY, _BLOCK = 16, 16
_MOST_KEY = hashlib.blake2b.MAX_KEY_SIZE


Digests = NDArray[np.uint8]
"""Pseudo-random bytes, 32 for each record."""

Purpose = tuple[str | bytes, ...]


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
        raise ValueError(
            f"secret_key must have at least {_LEAST_KEY} bytes, got {len(key)}; use "
            "SecretKey.generate()"
        )
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
    """Join parts so that no two sequences of parts are written alike: each after its length, in eight bytes."""
    return b"".join([len(part).to_bytes(8, "big") + part for part in parts])


def keyed_digests(key: bytes, purpose: Purpose, messages: Sequence[bytes]) -> Digests:
    """Return pseudo-random bytes for each message: a keyed function of what they are for, and of the message."""
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    sizes = 1 + lengths // _BLOCK
    digests = np.empty((len(messages), 2 * _BLOCK), np.uint8)
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        group = (
            messages
            if rows.size == len(messages)
            else [messages[row] for row in rows.tolist()]
        )
        blocks = (
            np.array(group, f"S{_BLOCK * size}").view(np.uint8).reshape(rows.size, -1)
        )  # and zeros behind
        digests[rows] = digest_blocks(
            key,
            purpose,
            lengths[rows].astype(">i8").view(np.uint8).reshape(-1, 8),
            blocks,
        )
    return digests


def digest_blocks(key: bytes, purpose: Purpose, *parts: NDArray[np.uint8]) -> Digests:
    """Return pseudo-random bytes for each row of some parts: its CBC-MAC with AES-256, encrypted twice."""
    # CBC-MAC is a pseudorandom function of messages none of which begins with another one ([1]_): these have one length
    # for each purpose, or begin with their length. Of q messages, an attacker tells it from a random function with a
    # probability of about q**2 / 2**128, beside that to break AES. It takes a fiftieth of the time of a hash for each.
    # .. [1] E. Petrank, C. Rackoff (2000). CBC MAC for real-time data sources. Journal of Cryptology 13.
    context = b"skdp permanent coins %d" % len(purpose)
    context += framed(
        *(part if isinstance(part, bytes) else part.encode() for part in purpose)
    )
    keys = hashlib.blake2b(
        context, key=key if len(key) <= _MOST_KEY else hashlib.blake2b(key).digest()
    ).digest()
    mac, finish = (
        Cipher(AES(half), ECB()).encryptor() for half in (keys[:32], keys[32:])
    )
    state = np.zeros((len(parts[0]), _BLOCK), np.uint8)
    for part in parts:
        for start in range(0, part.shape[1], _BLOCK):
            block = part[:, start : start + _BLOCK]
            state[:, : block.shape[1]] ^= block
            state = _encrypt(mac, state)
    digests = np.repeat(state, 2, axis=0)
    digests[1::2, -1] ^= 1
    return _encrypt(finish, digests).reshape(-1, 2 * _BLOCK)


def _encrypt(cipher: CipherContext, blocks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    encrypted = np.empty(
        blocks.size + _BLOCK - 1, np.uint8
    )  # as much as OpenSSL might write
    # Of one dimension: cryptography before 43 takes the length of a buffer for its
    # number of bytes.
    if cipher.update_into(blocks.reshape(-1).data, encrypted.data) != blocks.size:
        raise RuntimeError("AES encrypted fewer blocks than there are")
    return encrypted[: blocks.size].reshape(blocks.shape)


def keyed_integers(digests: Digests, high: int) -> NDArray[np.int64]:
    """Draw a uniform integer below 2**32 from each digest."""
    remainders = np.zeros(len(digests), np.uint64)
    for word in digests.view(">u4").T:  # the remainder of all 256 bits, digit by digit
        remainders = (remainders << np.uint64(32) | word) % np.uint64(high)
    return remainders.astype(np.int64)


def keyed_coins(digests: Digests, threshold: int, width: int) -> NDArray[np.bool_]:
    """Draw Bernoulli coins from each digest, which is stretched by SHAKE-128."""
    if not 0 <= threshold < ONE:
        raise ValueError("threshold must be at least 0 and below 2**64")
    coins = np.empty((len(digests), width), bool)
    first = np.uint16(threshold >> 48)
    step = max(1, BLOCK // width)
    for start in range(0, len(digests), step):
        part = digests[start : start + step]
        # The first 16 bits of all words come first in the stream: they decide, unless
        # some tie with the threshold's.
        stream = b"".join(
            hashlib.shake_128(digest).digest(2 * width) for digest in part
        )
        heads = np.frombuffer(stream, ">u2").reshape(len(part), width)
        coins[start : start + step] = heads < first
        for row in np.flatnonzero((heads == first).any(axis=1)).tolist():
            later_bytes = hashlib.shake_128(part[row]).digest(8 * width)[2 * width :]
            words = heads[row].astype(np.uint64) << np.uint64(48)
            words |= _low_words(later_bytes)
            coins[start + row] = words < np.uint64(threshold)
    return coins


def _low_words(later_bytes: bytes) -> NDArray[np.uint64]:
    """Read words of 48 bits."""
    halves = np.frombuffer(later_bytes, ">u2").reshape(-1, 3).astype(np.uint64)
    return (
        (halves[:, 0] << np.uint64(32)) | (halves[:, 1] << np.uint64(16)) | halves[:, 2]
    )


def canonical(value: Any) -> bytes:
    """Write a value as bytes: equal bytes for equal values of a kind, different bytes for all others."""
    # 1 and 1.0 are one value, and so are a day, and its midnight without a time zone;
    # 1, "1", True, b"1" and (1,) are five.
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
            return (
                b"d " + time.isoformat().encode() + b"T00:00:00"
            )  # libraries without a type of days write midnight
        return (
            b"d "
            + (time if time.tz is None else time.tz_convert("UTC")).isoformat().encode()
        )
    return to_bytes([value])[0]


def name_bytes(name: Any, parameter: str) -> bytes:
    """Write the name of a column as bytes, which the parameter that is named needs."""
    try:
        return canonical(name)
    except ColumnError:
        raise ValueError(
            f"{parameter} needs column names of text, numbers, booleans or times; "
            f"{name!r} is another"
        ) from None


def are_distinct(records: Sequence[bytes]) -> bool:
    """Return whether no two records are alike; mostly by their hashes, in a fifth of the time of a set."""
    hashes = np.sort(np.fromiter(map(hash, records), np.int64, len(records)))
    return not (hashes[1:] == hashes[:-1]).any() or len({*records}) == len(records)


def read_record_ids(record_id: Any, n_rows: int) -> list[bytes]:
    """Write record ids as bytes."""
    if (id_bytes := _written_at_once(record_id)) is not None and len(
        id_bytes
    ) == n_rows:
        return id_bytes
    ids = _as_list(record_id)
    if len(ids) != n_rows:
        raise ValueError(
            f"record_id must have an id for each of the {n_rows} rows, got {len(ids)}"
        )
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
    raise ValueError(
        f"record_id {message}"
    )  # here, where no error that may hold an id is its context


def _written_at_once(record_id: Any) -> list[bytes] | None:
    """Write text and whole numbers of polars or Arrow as `canonical` does, without a Python object for each."""
    series = nw.from_native(record_id, series_only=True, pass_through=True)
    if not isinstance(series, nw.Series) or series.null_count():
        return None
    if series.implementation.is_pandas() or not (
        series.dtype == nw.String or series.dtype.is_integer()
    ):
        return None  # text of pandas may be any object
    head = nw.lit("s " if series.dtype == nw.String else "n ")
    text = (
        series.alias("id")
        .to_frame()
        .select(nw.concat_str(head, nw.col("id").cast(nw.String)).cast(nw.Binary))
    )
    return text[:, 0].to_list()


def _as_list(record_id: Any) -> list[Any]:
    if isinstance(record_id, list | tuple):
        return list(record_id)
    if getattr(record_id, "ndim", 1) != 1:
        raise ValueError(f"record_id must be 1-D, got {record_id.ndim}-D")
    if getattr(
        getattr(record_id, "dtype", None), "time_unit", None
    ) == "ns" and hasattr(record_id, "to_physical"):
        zone = (
            record_id.dtype.time_zone and "UTC"
        )  # the objects that polars makes have no nanoseconds
        return [
            None if time is None else pd.Timestamp(time, tz=zone)
            for time in record_id.to_physical().to_list()
        ]
    if isinstance(record_id, np.ndarray) and record_id.dtype.kind == "M":
        return list(
            record_id
        )  # as plain objects, times in nanoseconds would be numbers
    for name in ("tolist", "to_list", "to_pylist"):  # numpy and pandas, polars, pyarrow
        if hasattr(record_id, name) and not isinstance(record_id, np.generic):
            return list(getattr(record_id, name)())
    raise TypeError(
        "record_id must be a 1-D array, a series or a list, got "
        f"{type(record_id).__name__}"
    )
