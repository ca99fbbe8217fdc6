"""Words <-> bit strings of one length, and which bit strings are the start of a word."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.coding import is_missing
from skdp.oracles import WORD_BITS, check_size
from skdp.randomness import BLOCK

_MOST_SYMBOLS, _MOST_CHARACTERS = 128, 254
_OTHER = "\N{REPLACEMENT CHARACTER}"

# States of a reader of symbols; the further ones are inside a character of UTF-8, with the bytes that it still needs.
_NOTHING, _WORD, _END = range(3)
_MISSING = np.array([0, 0, 0, 1, 2, 3, 2, 2, 3, 3])


class Start(IntEnum):
    """What a bit string is the start of."""

    NOTHING = 0
    WORDS = 1
    ONE_WORD = 2
    """The end of the word is in it; plus the number of its symbols."""


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
        self._mask = (1 << self.symbol_bits) - 1
        self._steps = _steps_of_utf8() if alphabet is None else _steps_of(len(alphabet) + 1, self._mask + 1)
        self._continued = lru_cache(maxsize=64)(self._continue)  # most prefixes end alike

    def vectors(self, words: Sequence[str]) -> NDArray[np.uint32]:
        """Write words."""
        width = -(-self.n_bits // WORD_BITS)
        vectors = np.empty((len(words), width), np.uint32)
        powers = 1 << np.arange(WORD_BITS - 1, -1, -1, dtype=np.uint32)
        for start in range(0, len(words), BLOCK // 4):
            part = [self._write(word) for word in words[start : start + BLOCK // 4]]
            codes = np.frombuffer(b"".join(part), np.uint8).reshape(len(part), self.max_length, 1)
            bits = np.zeros((len(part), width * WORD_BITS), np.uint32)
            bits[:, : self.n_bits] = np.unpackbits(codes, axis=2)[:, :, 8 - self.symbol_bits :].reshape(len(part), -1)
            vectors[start : start + len(part)] = bits.reshape(len(part), width, WORD_BITS) @ powers
        return vectors

    def _write(self, word: str) -> bytes:
        if self._alphabet is not None:
            return word[: self.max_length].translate(self._symbols).encode("latin-1").ljust(self.max_length, b"\0")
        written = word.encode("utf-8", "replace")
        if len(written) > self.max_length:
            written = written[: self.max_length].decode("utf-8", "ignore").encode()
        return written.ljust(self.max_length, b"\0")

    def starts(self, prefix: int, before: int, length: int) -> NDArray[np.uint8]:
        """Return what each extension of a prefix can be the start of, as numbers of `Start`."""
        read, bits = divmod(before, self.symbol_bits)
        state = _WORD
        for place in range(read):
            shift = before - (place + 1) * self.symbol_bits
            state = int(self._steps[state, prefix >> shift & self._mask])
        return self._continued(state, prefix & (1 << bits) - 1, before, length)

    def _continue(self, state: int, begun: int, before: int, length: int) -> NDArray[np.uint8]:
        """Return the same for what follows whole symbols, and the bits of one that is begun."""
        rest = begun << length - before | np.arange(1 << length - before)
        read, (full, bits) = before // self.symbol_bits, divmod(length, self.symbol_bits)
        states = np.full(rest.size, state, np.uint8)
        sizes = np.full(rest.size, read, np.uint8)
        for place in range(read, full):
            states = self._steps[states, rest >> length - (place + 1) * self.symbol_bits & self._mask]
            sizes += states != _END
        wrong = (states == _NOTHING) | (_MISSING[states] > self.max_length - full)
        wrong |= (states == _END) & (rest & (1 << bits) - 1 > 0)
        starts = np.full(rest.size, Start.WORDS, np.uint8)
        whole = (states == _END) | (full == self.max_length)
        starts[whole] = Start.ONE_WORD + sizes[whole]
        starts[wrong] = Start.NOTHING
        return starts

    def word(self, string: int) -> str:
        """Read a word."""
        places = reversed(range(self.max_length))
        codes = bytes((string >> self.symbol_bits * place) & self._mask for place in places).partition(b"\0")[0]
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


def _steps_of(n_symbols: int, n_codes: int) -> NDArray[np.uint8]:
    """Return the state after each state and code, for words of an alphabet."""
    steps = np.full((_END + 1, n_codes), _NOTHING, np.uint8)
    steps[_WORD, 1 : n_symbols + 1] = _WORD
    steps[[_WORD, _END], 0] = _END
    return steps


def _steps_of_utf8() -> NDArray[np.uint8]:
    """Return the state after each state and byte of UTF-8: the table 3-7 of the Unicode standard."""
    steps = np.full((_MISSING.size, 256), _NOTHING, np.uint8)
    steps[: _END + 1] = _steps_of(127, 256)
    for first, last, state in ((0xC2, 0xDF, 3), (0xE0, 0xEF, 4), (0xF0, 0xF4, 5)):
        steps[_WORD, first : last + 1] = state
    for state, after in ((3, _WORD), (4, 3), (5, 4)):
        steps[state, 0x80:0xC0] = after
    # Not every second byte may follow these first ones.
    for byte, state, first, last, after in (
        (0xE0, 6, 0xA0, 0xBF, 3),
        (0xED, 7, 0x80, 0x9F, 3),
        (0xF0, 8, 0x90, 0xBF, 4),
        (0xF4, 9, 0x80, 0x8F, 4),
    ):
        steps[_WORD, byte] = state
        steps[state, first : last + 1] = after
    return steps


def check_words(values: Sequence[Any]) -> None:
    """Refuse what are no words, without showing it."""
    if all(issubclass(type(value), str) for value in values):
        return
    if any(is_missing(value) for value in values):
        raise ValueError("words hold missing values (NaN); drop them, or replace them by a word of their own")
    raise TypeError("words must be strings")
