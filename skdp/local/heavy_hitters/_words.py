"""Words <-> bit strings of one length, and which bit strings are the start of a word."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.coding import is_missing
from skdp.oracles import LIMB_BITS, check_size
from skdp.randomness import BLOCK

_MOST_SYMBOLS, _MOST_CHARACTERS = 128, 254
_OTHER = "\N{REPLACEMENT CHARACTER}"


class Start(Enum):
    """What a bit string is the start of."""

    NOTHING = 0
    WORDS = 1
    ONE_WORD = 2
    """The end of the word is in it."""


class WordCoder:
    """Writes words in symbols of equally many bits, up to a length; the symbol 0 is the end of a shorter word."""

    def __init__(self, max_length: int, alphabet: str | None) -> None:
        self.max_length = check_size(max_length, least=1, most=_MOST_SYMBOLS, name="max_length")
        if alphabet is not None and not isinstance(alphabet, str):
            raise TypeError(f"alphabet must be None or a str, got {type(alphabet).__name__}")
        if alphabet is not None and not 1 <= len(alphabet) == len({*alphabet}) <= _MOST_CHARACTERS:
            raise ValueError(f"alphabet must have from 1 to {_MOST_CHARACTERS} different characters")
        self._alphabet = alphabet
        self._symbols = _Symbols(alphabet or "")
        self.symbol_bits = 8 if alphabet is None else (len(alphabet) + 1).bit_length()
        self.n_bits = self.max_length * self.symbol_bits

    def vectors(self, words: Sequence[str]) -> NDArray[np.uint32]:
        """Write words."""
        width = -(-self.n_bits // LIMB_BITS)
        vectors = np.empty((len(words), width), np.uint32)
        powers = 1 << np.arange(LIMB_BITS - 1, -1, -1, dtype=np.uint32)
        for start in range(0, len(words), BLOCK // 4):
            part = [self._write(word) for word in words[start : start + BLOCK // 4]]
            codes = np.frombuffer(b"".join(part), np.uint8).reshape(len(part), self.max_length, 1)
            bits = np.zeros((len(part), width * LIMB_BITS), np.uint32)
            bits[:, : self.n_bits] = np.unpackbits(codes, axis=2)[:, :, 8 - self.symbol_bits :].reshape(len(part), -1)
            vectors[start : start + len(part)] = bits.reshape(len(part), width, LIMB_BITS) @ powers
        return vectors

    def _write(self, word: str) -> bytes:
        if self._alphabet is not None:
            return word[: self.max_length].translate(self._symbols).encode("latin-1").ljust(self.max_length, b"\0")
        written = word.encode("utf-8", "replace")
        if len(written) > self.max_length:
            written = written[: self.max_length].decode("utf-8", "ignore").encode()
        return written.ljust(self.max_length, b"\0")

    def start(self, string: int, length: int) -> Start:
        """Return what a bit string can be the start of."""
        full, rest = divmod(length, self.symbol_bits)
        mask = (1 << self.symbol_bits) - 1
        codes = bytes((string >> rest + self.symbol_bits * place) & mask for place in reversed(range(full)))
        word, end, padding = codes.partition(b"\0")
        if end and (any(padding) or string & ((1 << rest) - 1)):
            return Start.NOTHING
        whole = bool(end) or full == self.max_length
        if self._alphabet is not None:
            fitting = max(word, default=0) <= len(self._alphabet) + 1
        else:
            fitting = _is_utf8(word, whole)
        if not fitting:
            return Start.NOTHING
        return Start.ONE_WORD if whole else Start.WORDS

    def word(self, string: int) -> str:
        """Read a word."""
        mask, places = (1 << self.symbol_bits) - 1, reversed(range(self.max_length))
        codes = bytes((string >> self.symbol_bits * place) & mask for place in places).partition(b"\0")[0]
        if self._alphabet is None:
            return codes.decode("utf-8", "replace")
        return "".join((self._alphabet + _OTHER)[code - 1] for code in codes)


class _Symbols(dict[int, int]):
    """The symbol of each character, for `str.translate`."""

    def __init__(self, alphabet: str) -> None:
        super().__init__((ord(character), number) for number, character in enumerate(alphabet, 1))
        self._other = len(alphabet) + 1

    def __missing__(self, character: int) -> int:
        return self._other

    def __reduce__(self) -> Any:
        return _Symbols, ("".join(map(chr, self)),)


def _is_utf8(start: bytes, whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start, final=whole)
    except UnicodeDecodeError:
        return False
    return True


def check_words(values: Sequence[Any]) -> None:
    """Refuse what are no words, without showing it."""
    if all(issubclass(type(value), str) for value in values):
        return
    if any(is_missing(value) for value in values):
        raise ValueError("words hold missing values (NaN); drop them, or replace them by a word of their own")
    raise TypeError("words must be strings")
