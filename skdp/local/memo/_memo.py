"""Permanent reports: a keyed function of key, record, column and value, so that nothing is stored to repeat them."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
from sklearn.utils.validation import check_is_fitted

from skdp.base import check_flag
from skdp.exact import round_up
from skdp.oracles import NumericMechanism, check_size
from skdp.oracles.numeric import round_at_random
from skdp.privacy import PrivacyGuarantee
from skdp.randomness import BLOCK, MOST_ROWS, ONE, DigestSource, RowStreams
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


FORMAT = b"skdp permanent report 7"
"""To be raised whenever an oracle uses its random bits differently: old and new reports must not share any."""

_HEAD = 16
"""The bytes of a digest that are used as they are; the others, as many, are the seed of further ones."""


class MemoisedReports:
    """The part of a local transformer that is about records which report more than once."""

    # Not every transformer has these as parameters.
    memoize: Any = False
    secret_key: Any = None
    instantaneous_epsilon: Any = None

    protocol_: Any
    guarantee_: PrivacyGuarantee
    _mechanism: str

    def _check_memo(self) -> None:
        check_flag("memoize", self.memoize)
        check_key(self.secret_key)
        if self.memoize and self.secret_key is None:
            raise ValueError(
                "memoize=True needs a secret_key, such as SecretKey.generate()"
            )
        if not self.memoize and self.secret_key is not None:
            raise ValueError("secret_key requires memoize=True")
        if not self.memoize and self.instantaneous_epsilon is not None:
            raise ValueError(
                "instantaneous_epsilon bounds a single one of many memoised reports: "
                "set memoize=True"
            )

    def guarantee_for_changes(self, n_values: int) -> PrivacyGuarantee:
        """Return what all memoised reports of a record promise together if its values change.

        Parameters
        ----------
        n_values : int
            How many distinct values each column (or, under "joint", the columns
            together) takes over time, at least 1.

        Returns
        -------
        PrivacyGuarantee
            Epsilon of `guarantee_` times the number of values, but of no more than
            there are: with hashing, no more than the number of buckets; of numbers, no
            more than positions of the grid.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the number is no integer of at least 1, or the reports
            are not memoised: then every call costs `guarantee_`, whether or not a value
            changes.

        Notes
        -----
        **Privacy.** Any number of reports, for neighbouring histories: records whose
        values were other ones, but changed at the same calls, and returned to earlier
        values at the same calls (with hashing, read "buckets" for "values", and for
        numbers "positions of the grid"). One permanent report is drawn for each
        distinct value, so their epsilons add. *That* a value changes, and when, is not
        hidden: two different permanent reports of a record come from different values.
        A second round of noise blurs this, and the more reports of each value there
        are, the less.
        """
        check_is_fitted(self)
        check_size(n_values, least=1, most=1 << 62, name="n_values")
        if self.protocol_.permanent_key is None:
            raise ValueError(
                "without memoize=True every call costs guarantee_, whether or not a "
                "value changes"
            )
        # Both are bounds; the first one is rounded once only.
        epsilon = min(
            Fraction(self.guarantee_.epsilon) * n_values,
            self.protocol_.cost_of_changes(n_values),
        )
        mechanism = (
            f"{self._mechanism}, memoised: all reports of {n_values} values of a column"
        )
        return replace(
            self.guarantee_, epsilon=round_up(epsilon), mechanism=mechanism, losses=()
        )


class Memo:
    """What the permanent reports of a fitted transformer are a function of."""

    # **Privacy.** The random bits are those of a CBC-MAC with AES-256, and of
    # SHAKE-256: as good as uniform without the key. The columns, their declared values
    # and the parameters of the mechanism enter too, so that reports under other ones
    # share none.

    def __init__(self, key: bytes, owner: str, fields: Sequence[Any]) -> None:
        self.key = SecretKey(key)
        self._contexts = [
            hashlib.sha256(
                framed(FORMAT, owner.encode(), *field.permanent_parts())
            ).digest()
            for field in fields
        ]
        if len({*self._contexts}) < len(self._contexts):
            raise ValueError(
                "two fields would draw their permanent reports by the same random bits: "
                "their permanent_parts must differ, such as by the names of the columns"
            )

    def marks(self, records: Sequence[bytes]) -> NDArray[np.uint8]:
        """Return a keyed mark of each record, of one length, for all that is drawn for it."""
        return keyed_digests(self.key, (FORMAT, "record"), records)[:, :_HEAD]

    def sample(self, sampling: Any, marks: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Draw which fields each record reports. The values have no part in it."""
        sampling_bytes = repr((sampling.weights, sampling.size)).encode()
        digests = self._digests(
            framed(*self._contexts, sampling_bytes), "sample", marks
        )
        blocks = []
        # At least one block: engines rehearse on no rows.
        for start in range(0, max(1, len(digests)), MOST_ROWS):
            block = digests[start : start + MOST_ROWS]
            source = RowStreams(block, head=_HEAD)
            blocks.append(sampling.draw(source, len(block)))
        return np.concatenate(blocks)

    def draws(self, place: int, marks: NDArray[np.uint8]) -> PermanentDraws:
        """Return the random bits of a field for the records with these marks."""
        return PermanentDraws(self, self._contexts[place], marks)

    def _digests(
        self, context: bytes, purpose: str | bytes, *parts: NDArray[np.uint8]
    ) -> Digests:
        return digest_blocks(self.key, (context, purpose), *parts)


@dataclass(frozen=True)
class PermanentDraws:
    """The permanent random bits of a field, for each record: of a purpose and of its values."""

    memo: Memo
    context: bytes
    marks: NDArray[np.uint8]

    def digests(self, purpose: str | bytes, *parts: NDArray[np.uint8]) -> Digests:
        """Return 32 pseudo-random bytes for each record, which depend on its rows of some bytes."""
        return self.memo._digests(self.context, purpose, self.marks, *parts)

    def sources(
        self, purpose: str | bytes, *parts: NDArray[np.uint8]
    ) -> Iterator[DigestSource]:
        """Yield a source of random bits for each record."""
        return map(DigestSource, self.digests(purpose, *parts))

    def written(self, values: Sequence[bytes]) -> NDArray[np.uint8]:
        """Return values of any length as keyed bytes of one length."""
        purpose = (self.context, "value")
        return keyed_digests(self.memo.key, purpose, values)[:, :_HEAD]

    def numbers(
        self, mechanism: NumericMechanism, scaled: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the permanent reports of numbers."""
        # A record rounds all values of a column by the same random bits, which are drawn
        # without looking at a value: fresh ones would report both neighbours of an
        # unchanged number in the end, and cost twice as much. So the range falls into
        # `steps` + 1 parts, and the values of each part share a report ([1]_).
        # .. [1] B. Ding, J. Kulkarni, S. Yekhanin (2017). Collecting telemetry data
        #    privately. NeurIPS, section 4.
        drawn = self.digests("rounding")
        positions = round_at_random(scaled, _Given(drawn[:, :2].tobytes()))
        position_bytes = positions.astype(">i8").view(np.uint8).reshape(-1, 8)
        return keyed_numbers(
            mechanism, positions, self.digests("report", position_bytes)
        )


def keyed_numbers(
    mechanism: NumericMechanism, positions: NDArray[np.int64], digests: Digests
) -> NDArray[np.int64]:
    """Randomise each position by a digest of its own, many records at a time: the same reports as one at a time."""
    reports = np.empty_like(positions)
    for start in range(0, positions.size, MOST_ROWS):
        rows = slice(start, start + MOST_ROWS)
        reports[rows] = mechanism.report(
            positions[rows], RowStreams(digests[rows], head=_HEAD)
        )
    return reports


class _Given:
    """The bytes that are given."""

    def __init__(self, data: bytes) -> None:
        self._given = data

    def bytes(self, size: int) -> NDArray[np.uint8]:
        return np.frombuffer(self._given, np.uint8, size)
