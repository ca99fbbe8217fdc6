"""Permanent reports, whose random bits are a keyed hash of record, column and value."""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Bytes, ColumnLike, ColumnName, Mask
from skdp.base import check_flag
from skdp.randomness import check_type, draw_by_row, uniform_integers
from skdp.tables import (
    ColumnError,
    call_safely,
    is_missing,
    to_object_list,
    to_python,
    type_of_value,
)

# Length of the keyed hash that replaces the id of a person or a long value. Among 10 million
# hashes, two are equal with probability 2**-82.
PSEUDONYM_BYTES = 16

# Version of the use of random bits by permanent reports. Increase it with each change,
# because old and new reports must not share random bits.
FORMAT = b"skdp permanent report 9"


class SecretKey(bytes):
    """Secret key that is not displayed with the estimator.

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
            Random key. Keep it secret, because it determines the noise of permanent
            reports.
        """
        return cls(secrets.token_bytes(32))

    def __repr__(self) -> str:
        return "SecretKey(hidden)"

    __str__ = __repr__


def check_key(key: bytes | None) -> bytes | None:
    """Check that a secret key is None, or bytes of sufficient length."""
    check_type("secret_key", key, bytes | None, "None or bytes")
    if key is None:
        return None
    # Keys of 128 random bits cannot be guessed.
    if len(key) < 16:
        raise ValueError(
            f"`secret_key` must have at least 16 bytes, got {len(key)}. Use "
            "SecretKey.generate()."
        )
    if re.fullmatch(rb"[0-9a-f]{64}\s+", key):
        raise ValueError(
            "`secret_key` must be random bytes, got a line of hexadecimal digits, as in "
            "a file of --new-key. Use SecretKey.fromhex(path.read_text())."
        )
    return key


# Encoding of values as bytes, for keyed hashes.

# Types of values (see `type_of_value`) whose text is the same in all processes and versions
# of Python: types of words of an open vocabulary, and types of declared values.
WORD_TYPES = ["string", "number", "boolean"]
ENCODABLE_TYPES = [*WORD_TYPES, "date", "datetime"]

# Texts of integers, and of integers that were written as floats.
INTEGER = re.compile("0|-?[1-9][0-9]*")
INTEGRAL_FLOAT = re.compile("-?[0-9]+[.]0*")

# Names of floats of less than 64 bits: in pandas, NumPy and polars, then in pyarrow.
SHORT_FLOATS = {"float16", "float32", "halffloat", "float"}


def join_parts(*parts: bytes) -> bytes:
    """Join parts after their lengths, so that different lists of parts give different bytes."""
    return b"".join([len(part).to_bytes(8, "big") + part for part in parts])


def encode_value(value: object) -> bytes:
    """Encode a declared value as bytes, for a keyed hash. Equal numbers, such as 1 and 1.0, have equal bytes."""
    if isinstance(value, tuple):
        return b"tuple " + join_parts(*map(encode_value, value))
    value_type = type_of_value(value)
    if is_missing(value):
        raise ColumnError("contains missing values (NaN)")
    if value_type not in ENCODABLE_TYPES:
        raise ColumnError("contains values that are not text or numbers")
    python_value = to_python(value)
    if value_type == "number" and abs(python_value) == math.inf:
        raise ColumnError("contains inf")
    # As fractions, 1 and 1.0 have the same text. True is a boolean, not a number.
    text = str(Fraction(python_value) if value_type == "number" else python_value)
    return f"{value_type} {text}".encode("utf-8", "surrogatepass")


def encode_word(value: object) -> bytes:
    """Encode a word as bytes. The text "7" and the integer 7 have equal bytes, as in CSV files."""
    if type(value) is int:
        return b"number %d" % value
    if isinstance(value, str) and INTEGER.fullmatch(value):
        return b"number " + value.encode()
    if type(value) is str:  # as `encode_value`, for the usual type
        return b"string " + value.encode("utf-8", "surrogatepass")
    if not is_missing(value) and type_of_value(value) not in WORD_TYPES:
        raise ColumnError("contains values that are not text or numbers")
    return encode_value(value)


def encode_column(
    title: str, values: Any, write: Callable[[Any], bytes] = encode_word
) -> list[bytes]:
    """Encode each value of a column or list as bytes by the function `write`; error messages contain no values.

    `title` is the name of the column in errors.
    """
    dtype = str(getattr(values, "dtype", getattr(values, "type", ""))).lower()
    # Ids of persons have another `write`, which refuses all floats.
    if write is encode_word and dtype.partition("[")[0] in SHORT_FLOATS:
        # The nearest double to 0.1 as float32 is not 0.1, so it would be another word.
        raise TypeError(
            f"{title} must be text, integers or double-precision floats, got {dtype}. "
            "Convert the values to float64 or to text."
        )
    if hasattr(values, "to_pylist"):  # an array of pyarrow
        values = values.to_pylist()
    # A list remains a list, because an array would convert its values to one dtype.
    is_list = isinstance(values, list | tuple | range)
    try:
        objects = values if is_list else call_safely(to_object_list, values)
        return call_safely(lambda: list(map(write, objects)))
    except ColumnError as error:
        message = str(error)
    # Raised outside the except clause, because the context of an error may contain a value.
    raise ValueError(f"{title} {message}.")


def encode_column_name(name: ColumnName, parameter: str) -> bytes:
    """Encode a column name as bytes, for the parameter that requires it."""
    try:
        return encode_value(name)
    except ColumnError:
        raise ValueError(
            f"{parameter} requires column names that are strings or numbers, got {name!r}."
        ) from None


def encode_person_ids(person: ColumnLike, n_rows: int) -> list[bytes]:
    """Encode ids of persons, which are integers or text, as bytes."""
    ids = encode_column("`person`", person, _encode_person_id)
    if len(ids) != n_rows:
        raise ValueError(
            f"`person` must have an id for each of the {n_rows} rows, got {len(ids)}."
        )
    return ids


def _encode_person_id(person: ColumnLike) -> bytes:
    """Encode the id of a person as bytes; the same id has the same bytes in all file formats."""
    if type(person) is int:
        return encode_word(person)
    if is_missing(person):
        raise ColumnError("contains missing values (NaN)")
    is_integer = isinstance(person, int | np.integer)
    if isinstance(person, bool) or not (is_integer or isinstance(person, str)):
        raise ColumnError(f"must be integers or text, got {type(person).__name__}")
    if isinstance(person, str) and INTEGRAL_FLOAT.fullmatch(person):
        raise ColumnError("must be integers without a decimal point")
    return encode_word(person)


# Keyed hashes.


def compute_digests(
    key: bytes, purpose: Sequence[bytes], messages: Sequence[bytes]
) -> Bytes:
    """Compute the keyed hash of each message: an array of bytes of shape (n_messages, 32).

    Without the key, the hashes are indistinguishable from random bytes. Each
    purpose is a separate hash function.
    """
    if len(key) > hashlib.blake2b.MAX_KEY_SIZE:
        key = hashlib.blake2b(key).digest()
    # The number of parts of the purpose and their lengths precede the message, so that
    # different purposes and messages have different bytes.
    prefix = b"%d" % len(purpose) + join_parts(*purpose)
    # A digest has the random bits of a report, or their seed.
    prefix_hash = hashlib.blake2b(prefix, key=key, digest_size=32)
    digests = []
    for message in messages:
        message_hash = prefix_hash.copy()
        message_hash.update(message)
        digests.append(message_hash.digest())
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32)


class Memo:
    """Secret key of a fitted transformer, and a context for each of its fields.

    Without the key, the digests of keyed BLAKE2b are indistinguishable from uniform bits.
    The context of a field contains its columns, their declared values and the parameters
    of the mechanism, so reports with different parameters share no random bits.
    """

    def __init__(self, key: bytes, owner: str, fields: Sequence[Any]) -> None:
        # `key` is the secret key, `owner` the name of the transformer, and `fields` its
        # reported columns. Permanent reports are drawn from keyed hashes instead of
        # random bytes, so they are equal in all releases.
        self.key = SecretKey(key)
        self._contexts = []
        for field in fields:
            context = join_parts(
                FORMAT, owner.encode(), *field.encode_permanent_context()
            )
            self._contexts.append(hashlib.sha256(context).digest())
        if len({*self._contexts}) < len(self._contexts):
            raise ValueError(
                "`encode_permanent_context` of two fields must differ, because their "
                "reports would share random bits. Include the names of the columns."
            )

    def make_pseudonyms(self, records: Sequence[bytes]) -> Bytes:
        """Return a keyed hash of each id of a person, of shape (n_records, 16)."""
        return compute_digests(self.key, (FORMAT, b"record"), records)[
            :, :PSEUDONYM_BYTES
        ]

    def sample(self, sampling: Any, pseudonyms: Bytes) -> Mask:
        """Draw the field that each record always reports, as a mask of shape (n_records, n_fields).

        `sampling` has the weights of the fields, and `pseudonyms` are keyed hashes of
        the ids of persons.
        """
        weights = repr(sampling.weights).encode()
        context = join_parts(*self._contexts, weights)
        digests = self._compute_digests(context, "sample", pseudonyms)
        return draw_by_row(
            lambda rows, source: sampling.draw(source, len(rows)), digests, pseudonyms
        )

    def make_draws(self, index: int, pseudonyms: Bytes) -> PermanentDraws:
        """Return the random bits of the field with this index for some records."""
        return PermanentDraws(self, self._contexts[index], pseudonyms)

    def _compute_digests(self, context: bytes, purpose: str, *parts: Bytes) -> Bytes:
        """Compute a keyed hash of 32 bytes for each row of `parts`, arrays of bytes with n rows each: (n, 32).

        The context of a field and the purpose select the hash function.
        """
        rows = np.ascontiguousarray(np.hstack(parts))
        messages = rows.view(f"V{rows.shape[1]}").ravel().tolist()
        return compute_digests(self.key, (context, purpose.encode()), messages)


@dataclass(frozen=True)
class PermanentDraws:
    """Random bits of a field for some records, a keyed hash of pseudonyms and values."""

    memo: Memo
    context: bytes
    # Keyed hashes of the ids of persons; shape (n_records, 16).
    pseudonyms: Bytes

    def digests(self, purpose: str, *parts: Bytes) -> Bytes:
        """Return 32 random bytes for each record, which depend on its rows of the arrays `parts`."""
        return self.memo._compute_digests(
            self.context, purpose, self.pseudonyms, *parts
        )

    def integers(self, purpose: str, high: int) -> NDArray[np.unsignedinteger]:
        """Draw an integer below `high` for each record."""
        return draw_by_row(
            lambda rows, source: uniform_integers(source, high, len(rows)),
            self.digests(purpose),
            self.pseudonyms,
        )

    def digest_values(self, values: Sequence[bytes]) -> Bytes:
        """Replace values of any length by keyed hashes, of shape (n_values, 16)."""
        digests = compute_digests(self.memo.key, (self.context, b"value"), values)
        return digests[:, :PSEUDONYM_BYTES]


def check_memo(memoize: object, secret_key: bytes | None) -> None:
    """Check that there is a secret key if and only if reports are permanent (`memoize`)."""
    check_flag("memoize", memoize)
    check_key(secret_key)
    if memoize and secret_key is None:
        raise ValueError(
            "memoize=True requires a `secret_key`. Use SecretKey.generate()."
        )
    if not memoize and secret_key is not None:
        raise ValueError("`secret_key` requires memoize=True, got memoize=False.")
