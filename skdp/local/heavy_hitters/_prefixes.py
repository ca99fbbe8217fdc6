"""Words, what clients report of their prefixes, and the server's search, from group to group of prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.coding import is_missing
from skdp.oracles import LinearHash, RandomizedResponse, check_size, pure_error
from skdp.randomness import ByteSource, uniform_integers

_MAX_SYMBOLS = 128
_MAX_CHARACTERS = 254
# Of the symbols by which prefixes grow, at most: the server counts the support of all their combinations.
_STEP_BITS = 16
# The public hash of longer prefixes is a polynomial modulo a prime, at 2**31 divided by the golden ratio.
_PRIME = (1 << 31) - 1
_BASE = 1_327_217_885
# The server takes 2**r steps a report. With more buckets, a large epsilon has less noise, which is little by then.
_MAX_BUCKET_BITS = 7


def check_words(values: Sequence[Any]) -> None:
    """Refuse what are no words, without showing it."""
    if all(issubclass(type(value), str) for value in values):
        return
    if any(is_missing(value) for value in values):
        raise ValueError(
            "words hold missing values (NaN); drop them, or replace them by a word of their own"
        )
    raise TypeError("words must be strings")


class WordCoder:
    """Writes words in symbols, up to a length; the symbol 0 is the end of a shorter word."""

    def __init__(self, max_length: int, alphabet: str | None) -> None:
        self.max_length = check_size(
            max_length, least=1, most=_MAX_SYMBOLS, name="max_length"
        )
        if alphabet is not None and not isinstance(alphabet, str):
            raise TypeError(
                f"alphabet must be None or a str, got {type(alphabet).__name__}"
            )
        if (
            alphabet is not None
            and not 1 <= len(alphabet) == len({*alphabet}) <= _MAX_CHARACTERS
        ):
            raise ValueError(
                f"alphabet must have from 1 to {_MAX_CHARACTERS} different characters"
            )
        self._alphabet = alphabet
        self._symbols = {
            character: number for number, character in enumerate(alphabet or "", 1)
        }
        # The largest symbol, which stands for all other characters of an alphabet.
        self.n_symbols = 255 if alphabet is None else len(alphabet) + 1
        self.symbol_bits = self.n_symbols.bit_length()
        self.step = min(_STEP_BITS // self.symbol_bits, self.max_length)
        self.step_bits = self.step * self.symbol_bits
        # The number of symbols before and after the step of each group.
        self.steps = [
            *pairwise([*range(0, self.max_length, self.step), self.max_length])
        ]

    def symbols(self, words: Sequence[str]) -> NDArray[np.uint8]:
        """Write words, in an array of shape (n, max_length)."""
        written = [self._write(word).ljust(self.max_length, b"\0") for word in words]
        return np.frombuffer(b"".join(written), np.uint8).reshape(-1, self.max_length)

    def _write(self, word: str) -> bytes:
        if self._alphabet is not None:
            return bytes(
                [
                    self._symbols.get(character, self.n_symbols)
                    for character in word[: self.max_length]
                ]
            )
        # What is too long is cut between two characters.
        return (
            word.encode("utf-8", "replace")[: self.max_length]
            .decode("utf-8", "ignore")
            .encode()
        )

    def numbers(
        self, symbols: NDArray[np.uint8], before: int, length: int
    ) -> NDArray[np.int64]:
        """Return the prefixes of a length as numbers: a public hash of the symbols before the step, and the others."""
        # Two heads share a hash with a probability of at most 128 / 2**31, over the points of the polynomial.
        numbers = np.zeros(len(symbols), np.int64)
        for place in range(before):
            numbers = (numbers * _BASE + symbols[:, place] + 1) % _PRIME
        numbers <<= self.step_bits
        for place in range(before, length):
            numbers += (
                symbols[:, place].astype(np.int64)
                << (length - 1 - place) * self.symbol_bits
            )
        return numbers

    def tails(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """List the combinations of n symbols that words have, and their numbers: behind the end is none."""
        shifts = np.arange(n - 1, -1, -1) * self.symbol_bits
        tails = (np.arange(1 << n * self.symbol_bits)[:, np.newaxis] >> shifts) & (
            (1 << self.symbol_bits) - 1
        )
        is_ended = (tails[:, :-1] > 0) | (tails[:, 1:] == 0)
        numbers = np.flatnonzero(
            (tails <= self.n_symbols).all(axis=1) & is_ended.all(axis=1)
        )
        return numbers, tails[numbers].astype(np.uint8)

    def word(self, symbols: NDArray[np.uint8]) -> str:
        """Read a word."""
        written = symbols[symbols > 0].tobytes()
        if self._alphabet is None:
            return written.decode("utf-8", "replace")
        return "".join(
            (self._alphabet + "\N{REPLACEMENT CHARACTER}")[symbol - 1]
            for symbol in written
        )


class PrefixProtocol:
    """The client's side of the prefix extending method ([1]_), and estimates from the number of matching reports."""

    # **Privacy.** Local model, replacement of the word. Group and hash function are drawn independently of it, so they
    # may be public; given these, the bucket is a report of randomised response with the whole of epsilon.
    # .. [1] T. Wang, N. Li, S. Jha (2021). Locally differentially private heavy hitter identification. IEEE TDSC 18(2),
    #    arXiv:1708.06674.

    def __init__(self, epsilon: float | Fraction, coder: WordCoder) -> None:
        self.coder = coder
        oracles = [
            RandomizedResponse(1 << r, epsilon) for r in range(1, _MAX_BUCKET_BITS + 1)
        ]
        # Nearly all of the many prefixes do not occur: their error is what counts.
        self.oracle = min(
            oracles,
            key=lambda oracle: pure_error(1 << 20, oracle.p, Fraction(1, oracle.k)),
        )
        # The probabilities that a report matches its prefix, and another one, whose bucket is any.
        self.p, self.q = self.oracle.p, Fraction(1, self.oracle.k)
        self.hash_family = LinearHash(
            _PRIME.bit_length() + coder.step_bits, (self.oracle.k - 1).bit_length()
        )
        self.columns = [
            "group",
            "bucket",
            *(f"hash_{place}" for place in range(self.hash_family.r)),
        ]

    def report(
        self, symbols: NDArray[np.uint8], source: ByteSource
    ) -> NDArray[np.int64]:
        """Randomise words: return group, bucket and hash function of each, of shape (n, 2 + r)."""
        n = len(symbols)
        # All groups but the first are twice as large: later prefixes are compared with more others.
        groups = (
            uniform_integers(source, 2 * len(self.coder.steps) - 1, n).astype(np.int64)
            + 1
        ) // 2
        seeds = self.hash_family.draw(source, n)
        numbers = np.empty(n, np.int64)
        for group, (before, length) in enumerate(self.coder.steps):
            rows = np.flatnonzero(groups == group)
            numbers[rows] = self.coder.numbers(symbols[rows], before, length)
        buckets = self.hash_family(seeds, numbers).astype(np.uint64)
        return np.column_stack(
            [groups, self.oracle.report(buckets, source).astype(np.int64), seeds]
        )

    def estimate(
        self, support: ArrayLike, n: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Compute unbiased estimates of the number of reports of each prefix."""
        gain = float(self.p - self.q)
        return (
            (np.asarray(support) - n * float(self.q)) / gain
            if gain
            else np.full(n.shape, np.nan)
        )


@dataclass
class Candidate:
    """A prefix, or a whole word, for which reports of several groups speak."""

    symbols: NDArray[
        np.uint8
    ]  # of shape (max_length,): those of a prefix are followed by zeros
    is_whole: bool = False
    support: int = 0
    n: int = 0
    n_rivals: int = 0  # how many whole words of its length were first considered together with this one


def grow(
    protocol: PrefixProtocol, groups: list[NDArray[np.int64]], n_candidates: int
) -> list[Candidate]:
    """Extend the frequent prefixes by all symbols of the next step, group by group, and return whole words."""
    coder = protocol.coder
    candidates = [Candidate(np.zeros(coder.max_length, np.uint8))]
    for reports, (before, length) in zip(groups, coder.steps, strict=True):
        words = [candidate for candidate in candidates if candidate.is_whole]
        for word in words:
            number = coder.numbers(word.symbols[np.newaxis], before, length)
            word.support += int(
                (protocol.hash_family(reports[:, 2:], number) == reports[:, 1]).sum()
            )
            word.n += len(reports)
        prefixes = [
            candidate.symbols for candidate in candidates if not candidate.is_whole
        ]
        candidates = words + _extended(
            protocol, reports, prefixes, (before, length), n_candidates
        )
        sizes = np.array([candidate.n for candidate in candidates])
        # The share that each candidate is estimated to have; a stable order for equal ones.
        shares = (
            protocol.estimate([candidate.support for candidate in candidates], sizes)
            / sizes
        )
        candidates = [
            candidates[place]
            for place in np.argsort(-shares, kind="stable")[:n_candidates]
        ]
    return candidates


def _extended(
    protocol: PrefixProtocol,
    reports: NDArray[np.int64],
    prefixes: list[NDArray[np.uint8]],
    step: tuple[int, int],
    n_candidates: int,
) -> list[Candidate]:
    """Return the extensions of prefixes with the most support in a group."""
    coder = protocol.coder
    before, length = step
    numbers, tails = coder.tails(length - before)
    is_whole = (tails[:, -1] == 0) | (length == coder.max_length)
    sizes = (tails > 0).sum(axis=1)
    n_rivals = np.bincount(sizes[is_whole], minlength=coder.step + 1)[sizes] * len(
        prefixes
    )
    seeds = np.asfortranarray(reports[:, 2:])
    n_kept = min(n_candidates, len(tails))
    best = []  # minus the support, the place of the prefix, and that of the tail
    for place, prefix in enumerate(prefixes):
        (head,) = coder.numbers(prefix[np.newaxis], before, length)
        support = protocol.hash_family.count_matches(
            seeds, reports[:, 1], head, coder.step_bits
        )[numbers]
        best += [
            (-int(support[tail]), place, tail)
            for tail in np.argpartition(-support, n_kept - 1)[:n_kept].tolist()
        ]
    extended = []
    for minus_support, place, tail in sorted(best)[:n_candidates]:
        symbols = np.concatenate(
            [prefixes[place][:before], tails[tail], prefixes[place][length:]]
        )
        extended.append(
            Candidate(
                symbols,
                bool(is_whole[tail]),
                -minus_support,
                len(reports),
                int(n_rivals[tail]),
            )
        )
    return extended
