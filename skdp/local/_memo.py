"""Permanent reports: random bits that are a keyed function of record, column and value."""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import check_flag
from skdp.exact import round_up
from skdp.oracles import NumericMechanism, check_size, draw_by_row, round_at_random
from skdp.privacy import PrivacyGuarantee
from skdp.randomness import DigestSource, uniform_integers
from skdp.tables import ColumnError, is_missing, kind_of, plain, shielded

# Random keys of 128 bits cannot be guessed.
MIN_KEY_BYTES = 16

# Bytes of a block of AES.
BLOCK_BYTES = 16

# Raise the number if permanent reports depend on their random bits in another way: old
# and new reports must not share bits.
FORMAT = b"skdp permanent report 8"

# Pseudorandom bytes, of shape (n_records, 32).
Digests = NDArray[np.uint8]


class SecretKey(bytes):
    """A secret key that is not shown when an estimator is printed.

    Examples
    --------
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
WRITABLE_KINDS = [
    "string",
    "number",
    "boolean",
    "bytes",
    "date",
    "datetime",
    "timedelta",
    "UUID",
]

INTEGER = re.compile("0|-?[1-9][0-9]*")
# As pandas, NumPy and polars name these dtypes, and as pyarrow does.
SINGLE_PRECISION = {"float32", "float16", "float", "halffloat"}
WHOLE_FLOAT = re.compile("-?[0-9]+[.]0*")


def framed(*parts: bytes) -> bytes:
    """Join parts, each after its length, so that other parts give other bytes."""
    return b"".join([len(part).to_bytes(8, "big") + part for part in parts])


def canonical(value: Any) -> bytes:
    """Write a value as bytes: equal bytes for equal values of a type."""
    if isinstance(value, tuple):
        return b"tuple " + framed(*map(canonical, value))
    kind = kind_of(value)
    if is_missing(value):
        raise ColumnError("contains missing values (NaN)")
    if kind not in WRITABLE_KINDS:
        raise ColumnError("contains values that are not text or numbers")
    plain_value = plain(value)
    if kind == "number" and abs(plain_value) == math.inf:
        raise ColumnError("contains inf")
    # 1 and 1.0 are equal, and True is not.
    text = str(Fraction(plain_value) if kind == "number" else plain_value)
    return f"{kind} {text}".encode("utf-8", "surrogatepass")


def write_word(value: Any) -> bytes:
    """Write a value as bytes; "7" is the integer 7, as files of text have it."""
    if type(value) is int:
        return b"number %d" % value
    if isinstance(value, str) and INTEGER.fullmatch(value):
        return b"number " + value.encode()
    is_plain = kind_of(value) in ("string", "number", "boolean")
    if is_missing(value) or is_plain:
        return canonical(value)
    raise ColumnError("contains values that are not text or numbers")


def to_bytes(
    title: str, values: Any, write: Callable[[Any], bytes] = write_word
) -> list[bytes]:
    """Write the values of a column or list as bytes; errors contain no value."""
    objects = _list_values(title, values)
    try:
        return shielded(lambda: list(map(write, objects)))
    except ColumnError as error:
        message = str(error)
    # Raised here, without an error as its context that may contain a value.
    raise ValueError(f"{title} {message}.")


def name_bytes(name: Any, parameter: str) -> bytes:
    """Write a column name as bytes, for a parameter that requires it."""
    try:
        return canonical(name)
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
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if is_missing(value):
        raise ColumnError("contains missing values (NaN)")
    if not (is_integer or isinstance(value, str)):
        raise ColumnError(
            f"must be integers or text, got {type(value).__name__}: other types differ "
            "between file formats"
        )
    if not is_integer and WHOLE_FLOAT.fullmatch(value):
        raise ColumnError("must be integers without a decimal point")
    return write_word(value)


def _list_values(title: str, values: Any) -> list[Any]:
    """Return the values of an array, a series or a list as Python objects."""
    if isinstance(values, list | tuple):
        return list(values)
    # The methods of NumPy and pandas, polars, and pyarrow. `np.asarray` would make one
    # dtype of the values of a list, and a word of a missing value of a dictionary.
    ndim = getattr(values, "ndim", 1)
    names = [
        name for name in ("tolist", "to_list", "to_pylist") if hasattr(values, name)
    ]
    is_list = isinstance(values, list | tuple | range)
    if not (names or is_list) or ndim != 1:
        shape = f"{ndim}-D" if names else type(values).__name__
        raise TypeError(
            f"{title} must be a 1-D array, a series or a list, got {shape}."
        )
    if is_list:
        return list(values)
    dtype = str(getattr(values, "dtype", getattr(values, "type", ""))).lower()
    if dtype in SINGLE_PRECISION:
        # As doubles, they would be other numbers than those that were written.
        raise TypeError(
            f"{title} must be text, integers or double-precision floats, got {dtype}. "
            "Convert the values to float64 or to text."
        )
    if isinstance(values, np.ndarray) and values.dtype.kind in "mM":
        return list(values)  # `tolist` returns integers for times in nanoseconds
    return list(getattr(values, names[0])())


def are_distinct(records: Sequence[bytes]) -> bool:
    """Return True if all records are distinct."""
    return len({*records}) == len(records)


# Pseudorandom bytes.


def keyed_digests(
    key: bytes, purpose: Sequence[str | bytes], messages: Sequence[bytes]
) -> Digests:
    """Return pseudorandom bytes of messages of any length, a function of key and purpose."""
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    # At least one zero byte ends a message, because NumPy drops zeros at the end.
    n_blocks = 1 + lengths // BLOCK_BYTES
    digests = np.empty((len(messages), 2 * BLOCK_BYTES), np.uint8)
    for n in np.unique(n_blocks).tolist():
        rows = np.flatnonzero(n_blocks == n)
        group = [messages[row] for row in rows.tolist()]
        padded = np.array(group, f"S{BLOCK_BYTES * n}").view(np.uint8)
        # Messages begin with their length, so no message is the beginning of another.
        parts = write_integers(lengths[rows]), padded.reshape(rows.size, -1)
        digests[rows] = digest_blocks(key, purpose, *parts)
    return digests


def write_integers(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    """Write integers as rows of eight bytes."""
    return numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


def digest_blocks(
    key: bytes, purpose: Sequence[str | bytes], *parts: NDArray[np.uint8]
) -> Digests:
    """Return pseudorandom bytes of rows of equal length, as a CBC-MAC with AES-256."""
    # CBC-MAC is a pseudorandom function of messages none of which is the beginning of
    # another one ([1]_). With q messages, an attacker distinguishes it from a random
    # function with a probability of about q**2 / 2**128, besides breaking AES. A keyed
    # hash of each message takes 50 times as long.
    # .. [1] E. Petrank, C. Rackoff (2000). CBC MAC for real-time data sources. Journal
    #    of Cryptology 13.
    words = [word if isinstance(word, bytes) else word.encode() for word in purpose]
    context = b"skdp permanent coins %d" % len(words) + framed(*words)
    if len(key) > hashlib.blake2b.MAX_KEY_SIZE:
        key = hashlib.blake2b(key).digest()
    keys = hashlib.blake2b(context, key=key).digest()
    mac = Cipher(AES(keys[:32]), ECB()).encryptor()
    finish = Cipher(AES(keys[32:]), ECB()).encryptor()
    state = np.zeros((len(parts[0]), BLOCK_BYTES), np.uint8)
    for part in parts:
        for start in range(0, part.shape[1], BLOCK_BYTES):
            block = part[:, start : start + BLOCK_BYTES]
            state[:, : block.shape[1]] ^= block
            state = _encrypt(mac, state)
    # The halves of a digest are encryptions of the state, and of the state with a
    # flipped bit, under another key.
    digests = np.repeat(state, 2, axis=0)
    digests[1::2, -1] ^= 1
    return _encrypt(finish, digests).reshape(-1, 2 * BLOCK_BYTES)


def _encrypt(cipher: CipherContext, blocks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    encrypted = np.frombuffer(cipher.update(blocks.tobytes()), np.uint8)
    return encrypted.reshape(blocks.shape).copy()


class Memo:
    """The secret key of a fitted transformer, and a context for each of its fields."""

    # **Privacy.** The random bits are of a CBC-MAC with AES-256 and of SHAKE-256:
    # indistinguishable from uniform bits without the key. The columns, their declared
    # values and the parameters of the mechanism are part of the context, so that reports
    # under other ones share no bits.

    def __init__(self, key: bytes, owner: str, fields: Sequence[Any]) -> None:
        self.key = SecretKey(key)
        self._contexts = []
        for field in fields:
            context = framed(FORMAT, owner.encode(), *field.permanent_parts())
            self._contexts.append(hashlib.sha256(context).digest())
        if len({*self._contexts}) < len(self._contexts):
            raise ValueError(
                "permanent_parts of two fields must differ, such as by the names of "
                "their columns: otherwise their reports share random bits."
            )

    def marks(self, records: Sequence[bytes]) -> NDArray[np.uint8]:
        """Return a keyed mark of each record, of shape (n_records, 16)."""
        return keyed_digests(self.key, (FORMAT, "record"), records)[:, :BLOCK_BYTES]

    def sample(self, sampling: Any, marks: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Draw the fields that each record reports, independently of its values."""
        weights = repr((sampling.weights, sampling.size)).encode()
        context = framed(*self._contexts, weights)
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
        return digest_blocks(self.key, (context, purpose), *parts)


@dataclass(frozen=True)
class PermanentDraws:
    """The permanent random bits of a field, for each record and its values."""

    memo: Memo
    context: bytes
    marks: NDArray[np.uint8]

    def digests(self, purpose: str, *parts: NDArray[np.uint8]) -> Digests:
        """Return 32 pseudorandom bytes for each record and its rows of some bytes."""
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
        digests = keyed_digests(self.memo.key, (self.context, "value"), values)
        return digests[:, :BLOCK_BYTES]

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

    protocol_: Any
    guarantee_: PrivacyGuarantee
    _mechanism: str

    @property
    def _report_epsilon(self) -> Any:
        # Unary encoding alone has a second round of noise.
        return getattr(self, "instantaneous_epsilon", None)

    def _check_memo(self) -> None:
        check_flag("memoize", self.memoize)
        check_key(self.secret_key)
        if self.memoize and self.secret_key is None:
            raise ValueError(
                "memoize=True requires a secret_key. Use SecretKey.generate()."
            )
        for name in ("secret_key", "instantaneous_epsilon"):
            if not self.memoize and getattr(self, name, None) is not None:
                raise ValueError(f"{name} requires memoize=True, got memoize=False.")

    def guarantee_for_changes(self, n_values: int) -> PrivacyGuarantee:
        """Return the guarantee of all permanent reports of a record whose values change.

        Parameters
        ----------
        n_values : int
            Number of distinct values of each column over time, at least 1; under
            `strategy="joint"`, of the columns together.

        Returns
        -------
        PrivacyGuarantee
            Epsilon of `guarantee_` times the number of values, at most the number of
            declared values, of hash buckets, or of positions of the grid.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the number is not an integer of at least 1, or
            `memoize=False`.

        Notes
        -----
        **Privacy.** Any number of reports, for neighboring histories: values that are
        replaced by other values, and change in the same calls (with hashing, read
        "buckets" for "values", and for numbers "positions of the grid"). A record has
        one permanent report of each distinct value, so their epsilons add. The
        guarantee does not cover *that* a value changes, and when: two different
        permanent reports of a record prove a change. A second round of noise blurs it.
        """
        check_is_fitted(self)
        check_size(n_values, least=1, most=1 << 62, name="n_values")
        if self.protocol_.permanent_key is None:
            raise ValueError(
                "guarantee_for_changes requires memoize=True, got False: every call "
                "costs guarantee_, whether or not a value changes."
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
