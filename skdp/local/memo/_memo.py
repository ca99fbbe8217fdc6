"""Permanent reports: a keyed function of key, record, column and value, so that nothing is stored to repeat them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp.coding import ColumnError
from skdp.domain import Codes, Domain, Interval
from skdp.local.memo._keys import SecretKey, canonical, framed, keyed_digests, stretched
from skdp.oracles import FrequencyOracle, LocalHashing, RandomizedResponse, SubsetSelection
from skdp.randomness import BLOCK, ONE, ByteSource, uniform_integers

FORMAT = b"skdp permanent report 2"
"""To be raised whenever an oracle makes other use of its coins: old and new reports must not share any."""

_RATE = 136


class KeyedSource:
    """The bytes of SHAKE-256 after a seed: the same for the same seed, and as unpredictable as the seed."""

    def __init__(self, seed: bytes) -> None:
        self._shake, self._stream, self._used = hashlib.shake_256(seed), b"", 0

    def bytes(self, size: int) -> NDArray[np.uint8]:
        """Return the next bytes of the stream."""
        start, self._used = self._used, self._used + size
        if self._used > len(self._stream) or not self._stream:
            # A longer digest begins with the shorter one; twice as much as needed keeps the work linear.
            self._stream = self._shake.digest(_RATE * (1 + 2 * self._used // _RATE))
        return np.frombuffer(self._stream, np.uint8, size, start)


class Memo:
    """What the permanent reports of a fitted transformer are a function of."""

    # **Privacy.** The coins are those of HMAC-SHA256 and SHAKE-256: as good as uniform towards whoever does not know
    # the key. Columns, domains and parameters of the oracles enter too, so that reports under other ones share no
    # coins.

    def __init__(
        self,
        key: bytes,
        owner: str,
        domain: Domain,
        attributes: list[tuple[Any, ...]],
        oracles: tuple[FrequencyOracle, ...],
        *,
        sample: bool,
        unknown: bool,
    ) -> None:
        self.key = SecretKey(key)
        self._domains = [domain.select(columns) for columns in attributes]
        self._oracles, self._sample, self._unknown = oracles, sample, unknown
        self._contexts = [
            context_of(owner, *_written(part, oracle)) for part, oracle in zip(self._domains, oracles, strict=True)
        ]
        self.n_states = [
            oracle.n_buckets if isinstance(oracle, LocalHashing) else math.prod(size + unknown for size in part.sizes)
            for part, oracle in zip(self._domains, oracles, strict=True)
        ]

    def report(
        self, codes: list[Codes], records: Sequence[bytes]
    ) -> tuple[list[NDArray[Any]], NDArray[np.integer] | None]:
        """Compute the permanent reports."""
        chosen = None
        if self._sample:
            # Permanent too: fresh draws would report all columns in the end. The values have no part in it.
            number = len(self._oracles)
            coins = self._coins(framed(*self._contexts), "sample", records)
            drawn = [uniform_integers(source, number, 1)[0] for source in coins]
            chosen = np.array(drawn, np.min_scalar_type(number - 1))
        reports = []
        for index, domain in enumerate(self._domains):
            own = np.stack([codes.pop(0).astype(np.int64) for _ in domain.columns], axis=1)
            if chosen is None:
                reports.append(self._report(index, own, records))
                continue
            rows = np.flatnonzero(chosen == index)
            some = self._report(index, own[rows], [records[row] for row in rows.tolist()])
            reports.append(np.zeros((len(records), *some.shape[1:]), some.dtype))
            reports[-1][rows] = some
        return reports, chosen

    def _report(self, index: int, codes: NDArray[np.int64], records: Sequence[bytes]) -> NDArray[Any]:
        """Compute the reports of one attribute."""
        context, domain, oracle = self._contexts[index], self._domains[index], self._oracles[index]
        written, width = codes.astype(">i8").tobytes(), 8 * len(domain.columns)
        values = [written[start : start + width] for start in range(0, len(written), width)]
        columns = list(codes.T)
        if self._unknown:
            # Undeclared values are a value of their own, with coins of their own for what replaces it.
            for row, source in enumerate(self._coins(context, "unknown", records, values)):
                for column, size in zip(columns, domain.sizes, strict=True):
                    drawn = uniform_integers(source, size, 1)[0]
                    column[row] = drawn if column[row] == size else column[row]
        joint = domain.join(columns)
        if isinstance(oracle, SubsetSelection):
            return keyed_sets(oracle, joint, self._digests(context, "report", records, values))
        if isinstance(oracle, RandomizedResponse):
            return keyed_responses(oracle, joint, self._digests(context, "report", records, values))
        if not isinstance(oracle, LocalHashing):
            return report_each(oracle, joint, self._coins(context, "report", records, values))
        # The permanent report is one of the bucket: values of one bucket share it, and there are few buckets.
        seeds = [oracle.hash_family.draw(source, 1) for source in self._coins(context, "seed", records)]
        report = np.empty((len(records), 2), np.uint64)
        report[:, 0] = np.concatenate([np.empty(0, np.uint64), *seeds])
        buckets = oracle.hash_family(report[:, 0], joint)
        written_buckets = [b"%d" % bucket for bucket in buckets.tolist()]
        digests = self._digests(context, "report", records, written_buckets)
        report[:, 1] = keyed_responses(oracle._inner, buckets, digests)
        return report

    def _digests(self, context: bytes, purpose: str, *fields: Sequence[bytes]) -> list[bytes]:
        return keyed_digests(self.key, (context, purpose), *fields)

    def _coins(self, context: bytes, purpose: str, *fields: Sequence[bytes]) -> Iterator[KeyedSource]:
        return map(KeyedSource, self._digests(context, purpose, *fields))


class _Reporter(Protocol):
    def report(self, codes: NDArray[Any], source: ByteSource, /) -> NDArray[Any]: ...


def keyed_responses(oracle: RandomizedResponse, codes: Codes, digests: Sequence[bytes]) -> Codes:
    """Draw a randomised response for each code, many records at a time: the same ones as `report_each`."""
    words = stretched(digests, oracle.word.itemsize).view(oracle.word).ravel()
    reports, undecided = oracle.respond(codes, words)
    reports[undecided] = report_each(oracle, codes[undecided], (KeyedSource(digests[row]) for row in undecided))
    return reports


def report_each(protocol: _Reporter, codes: NDArray[Any], sources: Iterable[ByteSource]) -> NDArray[Any]:
    """Report each code with coins of its own."""
    empty = protocol.report(codes[:0], KeyedSource(b""))
    reports = np.empty((codes.size, *empty.shape[1:]), empty.dtype)
    for row, source in enumerate(sources):
        reports[row : row + 1] = protocol.report(codes[row : row + 1], source)
    return reports


def context_of(owner: str, *parts: bytes) -> bytes:
    """Write what permanent reports belong to: reports in different contexts share no coins."""
    return hashlib.sha256(framed(FORMAT, owner.encode(), *parts)).digest()


def _written(domain: Domain, oracle: FrequencyOracle) -> list[bytes]:
    parts = [repr(sorted(oracle.parameters().items())).encode()]
    for name in domain.columns:
        attribute = domain[name]
        values: tuple[Any, ...] = attribute.values
        if isinstance(attribute, Interval):
            values = (*attribute.edges, None) if attribute.missing else attribute.edges
        kind = type(attribute).__name__.encode()
        try:
            parts += [canonical(name), kind, framed(*(b"" if value is None else canonical(value) for value in values))]
        except ColumnError:
            raise ValueError(
                f"memoize=True needs column names and categories of text, numbers, booleans or times; column {name!r} "
                "has others"
            ) from None
    return parts


_COIN, _WORD = 8, 4
"""The bytes of a record's coin, and of each value's first word."""


def keyed_sets(oracle: SubsetSelection, codes: Codes, digests: Sequence[bytes]) -> NDArray[np.uint8]:
    """Draw a set for each code, many records at a time."""
    # A coin decides whether the set is uniform among all, or among those that hold the true value. Each value has a
    # random real number, known to 32 bits, and the set are the values with the smallest numbers: all orders of the
    # numbers are equally likely. Where the set has to hold the true value, this comes before all others. Where the 32
    # bits do not tell which number is smaller, further ones do.
    k, size = oracle.k, oracle.subset_size
    last_lie = np.uint64(int(oracle.lie * ONE) - 1)  # a lie is never impossible
    sets = np.empty((len(digests), k), np.uint8)
    step = max(1, BLOCK // k)
    for start in range(0, len(digests), step):
        part, true = digests[start : start + step], codes[start : start + step]
        drawn = stretched(part, _COIN + _WORD * k)
        lies = np.ascontiguousarray(drawn[:, :_COIN]).view(">u8")[:, 0] <= last_lie
        words = np.ascontiguousarray(drawn[:, _COIN:]).view(">u4").astype(np.uint32)
        honest = np.flatnonzero(~lies)
        words[honest, true[honest]] = 0
        bits = words <= np.partition(words, size - 1, axis=1)[:, size - 1 : size]
        for row in np.flatnonzero(np.count_nonzero(bits, axis=1) > size).tolist():
            bits[row] = _untied(part[row], k, size, None if lies[row] else int(true[row]))
        sets[start : start + step] = bits
    return sets


def _untied(digest: bytes, k: int, size: int, first: int | None) -> NDArray[np.bool_]:
    """Draw one set from as many words a value as it takes to tell which numbers are the smallest."""
    n_words = 1
    while True:
        n_words *= 2
        stream = hashlib.shake_256(digest).digest(_COIN + n_words * _WORD * k)[_COIN:]
        # The first words of all values come first, then the second ones.
        words = np.frombuffer(stream, ">u4").reshape(n_words, k).T.tolist()
        keys = [(value != first, *words[value]) for value in range(k)]
        bound = sorted(keys)[size - 1]
        bits = np.array([key <= bound for key in keys])
        if np.count_nonzero(bits) == size:
            return bits
