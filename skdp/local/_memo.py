"""Permanent reports: keyed functions of record, column and value."""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
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
from skdp.oracles import NumericMechanism, check_size, round_at_random
from skdp.privacy import PrivacyGuarantee
from skdp.randomness import BLOCK, MAX_ROWS, ONE, DigestSource, RowStreams
from skdp.tables import ColumnError, is_missing, kind_of, plain

# Bytes of a secret key: with 128 bits it cannot be guessed.
_MIN_KEY = 16
_MAX_KEY = hashlib.blake2b.MAX_KEY_SIZE

# The bytes of a block of AES.
_BLOCK = 16

# Pseudo-random bytes, 32 for each record.
Digests = NDArray[np.uint8]

# What bytes are for: those of two purposes have nothing in common.
Purpose = tuple[str | bytes, ...]


class SecretKey(bytes):
    """A secret key that does not show itself when an estimator is printed.

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
    if len(key) < _MIN_KEY:
        raise ValueError(
            f"secret_key must have at least {_MIN_KEY} bytes, got {len(key)}; use "
            "SecretKey.generate()"
        )
    return key


def to_bytes(column: Any, *, missing: bool = False) -> list[bytes]:
    """Write text, numbers and truth values as bytes: equal ones for equal values."""
    # 1, 1.0 and "1" are one value, as a CSV file has all values as text, and so are
    # None and nan; "01" and True are others.
    try:
        return [_scalar_bytes(value, missing) for value in _as_list(column)]
    except ColumnError:
        raise
    except Exception:
        # It may hold a value, and so is not the context of the error.
        pass
    raise ColumnError("holds values that cannot be written as bytes")


def _scalar_bytes(value: Any, missing: bool) -> bytes:
    # First the common types, in a tenth of the time.
    if isinstance(value, str):
        return _text_bytes(value)
    if type(value) is int:
        return b"n %d" % value
    if is_missing(value):
        if not missing:
            raise ColumnError("holds missing values (NaN)")
        return b"missing"
    kind = kind_of(value)
    plain_value = plain(value)
    if kind == "boolean":
        return f"b {plain_value}".encode()
    if kind == "number":
        if isinstance(plain_value, float) and not math.isfinite(plain_value):
            raise ColumnError("holds inf")
        return f"n {Fraction(plain_value)}".encode()
    raise ColumnError("holds values that are neither text nor numbers nor booleans")


# An integer as it is usually written, and one that was converted from a float.
_INTEGER = re.compile("0|-?[1-9][0-9]*")
_WHOLE_FLOAT = re.compile("-?[0-9]+[.]0*")
_WHOLE_FLOAT_MESSAGE = (
    "holds integers that are written with a decimal point; write them without"
)


def _text_bytes(text: str) -> bytes:
    kind = b"n " if _INTEGER.fullmatch(text) else b"s "
    return kind + str.encode(text, "utf-8", "surrogatepass")


def framed(*parts: bytes) -> bytes:
    """Join parts so that no two sequences of parts are written alike."""
    # Each comes after its length, in eight bytes.
    return b"".join([len(part).to_bytes(8, "big") + part for part in parts])


def keyed_digests(key: bytes, purpose: Purpose, messages: Sequence[bytes]) -> Digests:
    """Return pseudo-random bytes for each message: a function of key and purpose."""
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    # Of whole blocks with a byte to spare: no message loses its zeros at the end.
    n_blocks = 1 + lengths // _BLOCK
    digests = np.empty((len(messages), 2 * _BLOCK), np.uint8)
    for n in np.unique(n_blocks).tolist():
        rows = np.flatnonzero(n_blocks == n)
        group = messages
        if rows.size < len(messages):
            group = [messages[row] for row in rows.tolist()]
        # numpy fills up with zeros.
        padded = np.array(group, f"S{_BLOCK * n}").view(np.uint8)
        blocks = padded.reshape(rows.size, -1)
        length_bytes = _big_endian(lengths[rows])
        digests[rows] = digest_blocks(key, purpose, length_bytes, blocks)
    return digests


def _big_endian(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the bytes of numbers: (n, 8)."""
    return numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


def digest_blocks(key: bytes, purpose: Purpose, *parts: NDArray[np.uint8]) -> Digests:
    """Return pseudo-random bytes for each row of some parts.

    They are the CBC-MAC of the row with AES-256, encrypted twice.
    """
    # CBC-MAC is a pseudorandom function of messages none of which begins with another
    # one ([1]_): these have one length for each purpose, or begin with their length. Of
    # q messages, an attacker tells it from a random function with a probability of
    # about q**2 / 2**128, beside that to break AES. It takes a fiftieth of the time of
    # a hash for each.
    # .. [1] E. Petrank, C. Rackoff (2000). CBC MAC for real-time data sources. Journal
    #    of Cryptology 13.
    purpose_bytes = []
    for word in purpose:
        purpose_bytes.append(word if isinstance(word, bytes) else word.encode())
    context = b"skdp permanent coins %d" % len(purpose) + framed(*purpose_bytes)
    if len(key) > _MAX_KEY:
        key = hashlib.blake2b(key).digest()
    keys = hashlib.blake2b(context, key=key).digest()
    mac = Cipher(AES(keys[:32]), ECB()).encryptor()
    finish = Cipher(AES(keys[32:]), ECB()).encryptor()
    state = np.zeros((len(parts[0]), _BLOCK), np.uint8)
    for part in parts:
        for start in range(0, part.shape[1], _BLOCK):
            block = part[:, start : start + _BLOCK]
            state[:, : block.shape[1]] ^= block
            state = _encrypt(mac, state)
    # The two halves of a digest are encryptions of the state, and of it with one bit
    # flipped, by another key.
    digests = np.repeat(state, 2, axis=0)
    digests[1::2, -1] ^= 1
    return _encrypt(finish, digests).reshape(-1, 2 * _BLOCK)


def _encrypt(cipher: CipherContext, blocks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    # As much as OpenSSL might write.
    encrypted = np.empty(blocks.size + _BLOCK - 1, np.uint8)
    # Of one dimension: cryptography before 43 takes the length of a buffer for its
    # number of bytes.
    if cipher.update_into(blocks.reshape(-1).data, encrypted.data) != blocks.size:
        raise RuntimeError("AES encrypted fewer blocks than there are")
    return encrypted[: blocks.size].reshape(blocks.shape)


def keyed_integers(digests: Digests, high: int) -> NDArray[np.int64]:
    """Draw a uniform integer below 2**32 from each digest."""
    # The remainder of all 256 bits, digit by digit of 32 bits. It is uniform but for
    # 2**32 / 2**256.
    remainders = np.zeros(len(digests), np.uint64)
    for word in digests.view(">u4").T:
        remainders = (remainders << np.uint64(32) | word) % np.uint64(high)
    return remainders.astype(np.int64)


def keyed_coins(digests: Digests, threshold: int, width: int) -> NDArray[np.bool_]:
    """Draw Bernoulli coins from each digest, which is stretched by SHAKE-128."""
    if not 0 <= threshold < ONE:
        raise ValueError("threshold must be at least 0 and below 2**64")
    # A coin is a word of 64 bits below the threshold. The first 16 bits of all words
    # come first in the stream: they decide, unless they are those of the threshold.
    first_bits = np.uint16(threshold >> 48)
    coins = np.empty((len(digests), width), bool)
    step = max(1, BLOCK // width)
    for start in range(0, len(digests), step):
        seeds = digests[start : start + step]
        stream = b"".join([_stretched(seed, 2 * width) for seed in seeds])
        heads = np.frombuffer(stream, ">u2").reshape(len(seeds), width)
        coins[start : start + step] = heads < first_bits
        has_ties = (heads == first_bits).any(axis=1)
        for row in np.flatnonzero(has_ties).tolist():
            words = heads[row].astype(np.uint64) << np.uint64(48)
            words |= _low_words(_stretched(seeds[row], 8 * width)[2 * width :])
            coins[start + row] = words < np.uint64(threshold)
    return coins


def _stretched(seed: NDArray[np.uint8], n_bytes: int) -> bytes:
    return hashlib.shake_128(seed.data).digest(n_bytes)


def _low_words(low_bytes: bytes) -> NDArray[np.uint64]:
    """Read words of 48 bits."""
    halves = np.frombuffer(low_bytes, ">u2").reshape(-1, 3).astype(np.uint64)
    words: NDArray[np.uint64] = halves[:, 0] << np.uint64(32)
    words |= halves[:, 1] << np.uint64(16)
    words |= halves[:, 2]
    return words


def canonical(value: Any) -> bytes:
    """Write the name of a column, or a declared value, as bytes: equal ones for equal values of a kind."""
    # 1 and 1.0 are one value, and so are a day, and its midnight without a time zone;
    # 1, "1", True, b"1" and (1,) are five.
    if isinstance(value, str):
        return b"s " + str.encode(value, "utf-8", "surrogatepass")
    if isinstance(value, tuple):
        return b"t " + framed(*map(canonical, value))
    if isinstance(value, bytes):
        return b"y " + value
    if isinstance(value, UUID):
        return b"u " + value.bytes
    if isinstance(value, date | np.datetime64) and not is_missing(value):
        return b"d " + _time_text(plain(value)).encode()
    return to_bytes([value])[0]


def _time_text(time: Any) -> str:
    """Write a day or a time; libraries without a type of days write midnight."""
    if not isinstance(time, pd.Timestamp):
        return f"{time.isoformat()}T00:00:00"
    if time.tz is not None:
        time = time.tz_convert("UTC")
    return str(time.isoformat())


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
    """Return whether no two records are alike."""
    # Mostly by their hashes, in a fifth of the time of a set.
    hashes = np.sort(np.fromiter(map(hash, records), np.int64, len(records)))
    has_equal_hashes = (hashes[1:] == hashes[:-1]).any()
    return not has_equal_hashes or len({*records}) == len(records)


def read_record_ids(record_id: Any, n_rows: int) -> list[bytes]:
    """Write record ids, integers or text, as bytes: the text "7" is the integer 7, and "007" is another id."""
    # A record has one permanent report, also where one file has its id as text, as CSV
    # files do, and another one as an integer.
    try:
        id_bytes = _series_bytes(record_id)
        if id_bytes is None:
            id_bytes = list(map(_id_bytes, _as_list(record_id)))
    except ColumnError as error:
        id_bytes, message = None, str(error)
    if id_bytes is None:
        # Here, where no error that may hold an id is its context.
        raise ValueError(f"record_id {message}")
    if len(id_bytes) != n_rows:
        raise ValueError(
            f"record_id must have an id for each of the {n_rows} rows, got "
            f"{len(id_bytes)}"
        )
    return id_bytes


def _id_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        if _WHOLE_FLOAT.fullmatch(value):
            raise ColumnError(_WHOLE_FLOAT_MESSAGE)
        return _text_bytes(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        # Python writes integers of up to 4,300 digits; other classes may raise anything.
        with suppress(Exception):
            return b"n %d" % int(value)
        raise ColumnError("holds integers with too many digits")
    if is_missing(value):
        raise ColumnError("holds missing values (NaN)")
    raise ColumnError(
        f"holds ids of type {type(value).__name__}; expected integers or text, as only "
        "they are the same in every file format"
    )


def _series_bytes(record_id: Any) -> list[bytes] | None:
    """Write text and integers of polars or Arrow as bytes, as `_id_bytes` does."""
    # Without a Python object for each: a sixth of the time of `transform`.
    series = nw.from_native(record_id, series_only=True, pass_through=True)
    # Text of pandas may be any object, also one that is not comparable with itself.
    if not isinstance(series, nw.Series) or series.implementation.is_pandas():
        return None
    is_text = series.dtype == nw.String
    if not (is_text or series.dtype.is_integer()) or series.null_count():
        return None
    ids = nw.col("id")
    kind: nw.Expr = nw.lit("n ")
    if is_text:
        if series.str.contains(f"^({_WHOLE_FLOAT.pattern})$").any():
            raise ColumnError(_WHOLE_FLOAT_MESSAGE)
        is_integer = ids.str.contains(f"^({_INTEGER.pattern})$")
        kind = nw.when(is_integer).then(nw.lit("n ")).otherwise(nw.lit("s "))
    text = nw.concat_str(kind, ids.cast(nw.String)).cast(nw.Binary)
    return series.alias("id").to_frame().select(text)[:, 0].to_list()


def _as_list(values: Any) -> list[Any]:
    """Return the values of an array, a series or a list as Python objects."""
    if isinstance(values, list | tuple):
        return list(values)
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"record_id must be 1-D, got {values.ndim}-D")
    if isinstance(values, np.ndarray) and values.dtype.kind in "mM":
        # As plain objects, times in nanoseconds would be integers.
        return list(values)
    # Of numpy and pandas, of polars, and of pyarrow.
    for name in ("tolist", "to_list", "to_pylist"):
        if hasattr(values, name) and not isinstance(values, np.generic):
            return list(getattr(values, name)())
    raise TypeError(
        "record_id must be a 1-D array, a series or a list, got "
        f"{type(values).__name__}"
    )


# To be raised whenever an oracle uses its random bits differently: old and new reports
# must not share any.
FORMAT = b"skdp permanent report 7"

# The bytes of a digest that are used as they are. As many more seed further ones.
_HEAD = 16


class MemoisedReports:
    """The part of a local transformer about records that report more than once."""

    memoize: Any
    secret_key: Any

    protocol_: Any
    guarantee_: PrivacyGuarantee
    _mechanism: str

    @property
    def _report_epsilon(self) -> Any:
        # Not every transformer has a second round.
        return getattr(self, "instantaneous_epsilon", None)

    def _check_memo(self) -> None:
        check_flag("memoize", self.memoize)
        check_key(self.secret_key)
        if self.memoize and self.secret_key is None:
            raise ValueError(
                "memoize=True needs a secret_key, such as SecretKey.generate()"
            )
        if not self.memoize and self.secret_key is not None:
            raise ValueError("secret_key requires memoize=True")
        if not self.memoize and self._report_epsilon is not None:
            raise ValueError(
                "instantaneous_epsilon bounds a single one of many memoised reports: "
                "set memoize=True"
            )

    def guarantee_for_changes(self, n_values: int) -> PrivacyGuarantee:
        """Return what all memoised reports of a record promise if its values change.

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
        self._contexts = []
        for field in fields:
            context = framed(FORMAT, owner.encode(), *field.permanent_parts())
            self._contexts.append(hashlib.sha256(context).digest())
        if len({*self._contexts}) < len(self._contexts):
            raise ValueError(
                "two fields would draw their permanent reports by the same random "
                "bits: their permanent_parts must differ, such as by the names of the "
                "columns"
            )

    def marks(self, records: Sequence[bytes]) -> NDArray[np.uint8]:
        """Return a keyed mark of each record, for all that is drawn for it."""
        return keyed_digests(self.key, (FORMAT, "record"), records)[:, :_HEAD]

    def sample(self, sampling: Any, marks: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Draw which fields each record reports. The values have no part in it."""
        sampling_bytes = repr((sampling.weights, sampling.size)).encode()
        digests = self._digests(
            framed(*self._contexts, sampling_bytes), "sample", marks
        )
        blocks = []
        # At least one block: engines rehearse on no rows.
        for start in range(0, max(1, len(digests)), MAX_ROWS):
            block = digests[start : start + MAX_ROWS]
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
    """The permanent random bits of a field, for each record and its values."""

    memo: Memo
    context: bytes
    marks: NDArray[np.uint8]

    def digests(self, purpose: str | bytes, *parts: NDArray[np.uint8]) -> Digests:
        """Return 32 pseudo-random bytes for each record, by its rows of some bytes."""
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
        # A record rounds all values of a column by the same random bits, which are
        # drawn without looking at a value: fresh ones would report both neighbours of
        # an unchanged number in the end, and cost twice as much. So the range falls
        # into `steps` + 1 parts, and the values of each part share a report ([1]_).
        # .. [1] B. Ding, J. Kulkarni, S. Yekhanin (2017). Collecting telemetry data
        #    privately. NeurIPS, section 4.
        rounding_bytes = self.digests("rounding")[:, :2].tobytes()
        positions = round_at_random(scaled, _FixedBytes(rounding_bytes))
        digests = self.digests("report", _big_endian(positions))
        return keyed_numbers(mechanism, positions, digests)


def keyed_numbers(
    mechanism: NumericMechanism, positions: NDArray[np.int64], digests: Digests
) -> NDArray[np.int64]:
    """Randomise each position by a digest of its own."""
    # Many records at a time: the same reports as one at a time.
    reports = np.empty_like(positions)
    for start in range(0, positions.size, MAX_ROWS):
        rows = slice(start, start + MAX_ROWS)
        source = RowStreams(digests[rows], head=_HEAD)
        reports[rows] = mechanism.report(positions[rows], source)
    return reports


class _FixedBytes:
    """A source of bytes that were drawn before."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def bytes(self, size: int) -> NDArray[np.uint8]:
        return np.frombuffer(self._data, np.uint8, size)
