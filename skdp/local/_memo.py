"""Permanent reports: random bits that are a keyed function of record, column and value."""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.base import check_flag
from skdp.oracles import NumericMechanism, draw_by_row, round_at_random
from skdp.randomness import DigestSource, uniform_integers
from skdp.tables import (
    ColumnError,
    call_safely,
    is_missing,
    to_object_list,
    to_python,
    type_of_value,
)

# Random keys of 128 bits cannot be guessed.
MIN_KEY_BYTES = 16

# Pseudorandom bytes of a message.
DIGEST_BYTES = 32

# Bytes of the mark of a record or a long value: among 10 million, two are equal with
# probability 2**-82.
MARK_BYTES = 16

# Increase the number if permanent reports use their random bits differently, because
# old and new reports must not share bits.
FORMAT = b"skdp permanent report 9"

# Pseudorandom bytes, of shape (n_records, 32).
Digests = NDArray[np.uint8]


class SecretKey(bytes):
    """A secret key that is not shown when an estimator is printed.

    Examples
    --------
    >>> from skdp import SecretKey
    >>> SecretKey.generate()
    SecretKey(hidden)
    """

    @classmethod
    def generate(cls) -> Self:
        """Draw a key of 32 bytes.

        Returns
        -------
        SecretKey
            The key. Keep it secret: with it, the permanent noise can be removed.
        """
        return cls(secrets.token_bytes(32))

    def __repr__(self) -> str:
        return "SecretKey(hidden)"

    __str__ = __repr__


def check_key(key: Any) -> bytes | None:
    """Check a secret key."""
    if key is not None and not isinstance(key, bytes):
        raise TypeError(f"secret_key must be None or bytes, got {type(key).__name__}.")
    if key is not None and len(key) < MIN_KEY_BYTES:
        raise ValueError(
            f"secret_key must have at least {MIN_KEY_BYTES} bytes, got {len(key)}. Use "
            "SecretKey.generate()."
        )
    return key


# Values as bytes.

# Values of these types have the same text in every process and version.
WORD_KINDS = ["string", "number", "boolean"]
WRITABLE_KINDS = [*WORD_KINDS, "date", "datetime"]

INTEGER = re.compile("0|-?[1-9][0-9]*")
WHOLE_FLOAT = re.compile("-?[0-9]+[.]0*")
# As pandas, NumPy and polars name these dtypes, and as pyarrow does.
SHORT_FLOATS = {"float16", "float32", "halffloat", "float"}


def join_parts(*parts: bytes) -> bytes:
    """Join parts with their lengths, so that different parts give different bytes."""
    return b"".join([len(part).to_bytes(8, "big") + part for part in parts])


def encode_value(value: Any) -> bytes:
    """Write a value as bytes: equal bytes for equal values of a type."""
    if isinstance(value, tuple):
        return b"tuple " + join_parts(*map(encode_value, value))
    kind = type_of_value(value)
    if is_missing(value):
        raise ColumnError("contains missing values (NaN)")
    if kind not in WRITABLE_KINDS:
        raise ColumnError("contains values that are not text or numbers")
    plain_value = to_python(value)
    if kind == "number" and abs(plain_value) == math.inf:
        raise ColumnError("contains inf")
    # 1 and 1.0 have one text, and True another one.
    text = str(Fraction(plain_value) if kind == "number" else plain_value)
    return f"{kind} {text}".encode("utf-8", "surrogatepass")


def write_word(value: Any) -> bytes:
    """Write a value as bytes; the text "7" equals the integer 7, because CSV files contain only text."""
    if type(value) is int:
        return b"number %d" % value
    if isinstance(value, str) and INTEGER.fullmatch(value):
        return b"number " + value.encode()
    if not is_missing(value) and type_of_value(value) not in WORD_KINDS:
        raise ColumnError("contains values that are not text or numbers")
    return encode_value(value)


def to_bytes(
    title: str, values: Any, write: Callable[[Any], bytes] = write_word
) -> list[bytes]:
    """Write the values of a column or list as bytes; errors contain no value."""
    dtype = str(getattr(values, "dtype", getattr(values, "type", ""))).lower()
    if dtype.partition("[")[0] in SHORT_FLOATS:
        # As doubles, they would be other words than the numbers that were written.
        raise TypeError(
            f"{title} must be text, integers or double-precision floats, got {dtype}. "
            "Convert the values to float64 or to text."
        )
    if hasattr(values, "to_pylist"):  # an array of pyarrow
        values = values.to_pylist()
    # A list is not converted to an array, because an array has one dtype.
    is_list = isinstance(values, list | tuple | range)
    try:
        objects = values if is_list else call_safely(to_object_list, values)
        return call_safely(lambda: list(map(write, objects)))
    except ColumnError as error:
        message = str(error)
    # Raised here, without an error as its context that may contain a value.
    raise ValueError(f"{title} {message}.")


def name_bytes(name: Any, parameter: str) -> bytes:
    """Write a column name as bytes, for a parameter that requires it."""
    try:
        return encode_value(name)
    except ColumnError:
        raise ValueError(
            f"{parameter} requires column names of text or numbers, got {name!r}."
        ) from None


def read_record_ids(record_id: Any, n_rows: int) -> list[bytes]:
    """Write record ids, integers or text, as bytes."""
    ids = to_bytes("record_id", record_id, _write_id)
    if len(ids) != n_rows:
        raise ValueError(
            f"record_id must have an id for each of the {n_rows} rows, got {len(ids)}."
        )
    return ids


def _write_id(value: Any) -> bytes:
    if is_missing(value):
        raise ColumnError("contains missing values (NaN)")
    if isinstance(value, bool) or not isinstance(value, int | np.integer | str):
        raise ColumnError(
            f"must be integers or text, got {type(value).__name__}: other types differ "
            "between file formats"
        )
    if isinstance(value, str) and WHOLE_FLOAT.fullmatch(value):
        raise ColumnError("must be integers without a decimal point")
    return write_word(value)


def are_distinct(records: Sequence[bytes]) -> bool:
    """Return True if all records are distinct."""
    return len({*records}) == len(records)


# Pseudorandom bytes.


def keyed_digests(
    key: bytes, purpose: Sequence[bytes], messages: Sequence[bytes]
) -> Digests:
    """Return 32 pseudorandom bytes of each message, a function of key and purpose."""
    if len(key) > hashlib.blake2b.MAX_KEY_SIZE:
        key = hashlib.blake2b(key).digest()
    # The number of words and their lengths precede the message, so that no two purposes
    # and messages have the same bytes.
    context = b"%d" % len(purpose) + join_parts(*purpose)
    beginning = hashlib.blake2b(context, key=key, digest_size=DIGEST_BYTES)
    digests = []
    for message in messages:
        function = beginning.copy()
        function.update(message)
        digests.append(function.digest())
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST_BYTES)


def write_integers(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    """Write integers as rows of eight bytes."""
    return numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


class Memo:
    """The secret key of a fitted transformer, and a context for each of its fields."""

    # **Privacy.** The random bits are of keyed BLAKE2b and of SHAKE-256:
    # indistinguishable from uniform bits without the key. The columns, their declared
    # values and the parameters of the mechanism are part of the context, so that reports
    # under other ones share no bits.

    def __init__(self, key: bytes, owner: str, fields: Sequence[Any]) -> None:
        self.key = SecretKey(key)
        self._contexts = []
        for field in fields:
            context = join_parts(FORMAT, owner.encode(), *field.permanent_parts())
            self._contexts.append(hashlib.sha256(context).digest())
        if len({*self._contexts}) < len(self._contexts):
            raise ValueError(
                "permanent_parts of two fields must differ, such as by the names of "
                "their columns: otherwise their reports share random bits."
            )

    def marks(self, records: Sequence[bytes]) -> NDArray[np.uint8]:
        """Return a keyed mark of each record, of shape (n_records, 16)."""
        return keyed_digests(self.key, (FORMAT, b"record"), records)[:, :MARK_BYTES]

    def sample(self, sampling: Any, marks: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Draw the field that each record reports, independently of its values."""
        weights = repr(sampling.weights).encode()
        context = join_parts(*self._contexts, weights)
        digests = self._digests(context, "sample", marks)
        return draw_by_row(
            lambda rows, source: sampling.draw(source, len(rows)), digests, marks
        )

    def draws(self, place: int, marks: NDArray[np.uint8]) -> PermanentDraws:
        """Return the random bits of a field for the records with these marks."""
        return PermanentDraws(self, self._contexts[place], marks)

    def _digests(
        self, context: bytes, purpose: str, *parts: NDArray[np.uint8]
    ) -> Digests:
        rows = np.ascontiguousarray(np.hstack(parts))
        messages = rows.view(f"V{rows.shape[1]}").ravel().tolist()
        return keyed_digests(self.key, (context, purpose.encode()), messages)


@dataclass(frozen=True)
class PermanentDraws:
    """The permanent random bits of a field, for each record and its values."""

    memo: Memo
    context: bytes
    marks: NDArray[np.uint8]

    def digests(self, purpose: str, *parts: NDArray[np.uint8]) -> Digests:
        """Return 32 pseudorandom bytes for each record, given its rows of the arrays `parts`."""
        return self.memo._digests(self.context, purpose, self.marks, *parts)

    def sources(
        self, purpose: str, *parts: NDArray[np.uint8]
    ) -> Iterator[DigestSource]:
        """Yield a source of random bits for each record."""
        return map(DigestSource, self.digests(purpose, *parts))

    def integers(self, purpose: str, high: int) -> NDArray[np.unsignedinteger]:
        """Draw an integer below `high` for each record."""
        return draw_by_row(
            lambda rows, source: uniform_integers(source, high, len(rows)),
            self.digests(purpose),
            self.marks,
        )

    def digest_values(self, values: Sequence[bytes]) -> NDArray[np.uint8]:
        """Return values of any length as keyed bytes, of shape (n_values, 16)."""
        digests = keyed_digests(self.memo.key, (self.context, b"value"), values)
        return digests[:, :MARK_BYTES]

    def numbers(
        self, mechanism: NumericMechanism, scaled: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the permanent reports of numbers."""
        # A record rounds all numbers of a column by the same random bits: fresh bits
        # would report both neighbors of an unchanged number in the end, at twice the
        # cost. All numbers of one of `steps` + 1 intervals have one report ([1]_).
        # .. [1] B. Ding, J. Kulkarni, S. Yekhanin (2017). Collecting telemetry data
        #    privately. NeurIPS, section 4.
        rounding = self.digests("rounding")
        positions = draw_by_row(round_at_random, rounding, scaled)
        digests = self.digests("report", write_integers(positions))
        return draw_by_row(mechanism.report, digests, positions)


class MemoisedReports:
    """Mixin of the local transformers with permanent reports."""

    memoize: Any
    secret_key: Any

    def _check_memo(self) -> None:
        check_flag("memoize", self.memoize)
        check_key(self.secret_key)
        if self.memoize and self.secret_key is None:
            raise ValueError(
                "memoize=True requires a secret_key. Use SecretKey.generate()."
            )
        if not self.memoize and self.secret_key is not None:
            raise ValueError("secret_key requires memoize=True, got memoize=False.")
