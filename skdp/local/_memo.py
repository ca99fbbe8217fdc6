"""Permanent reports: a keyed function of key, record, column and value, so that nothing is stored to repeat them."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.coding import ColumnError
from skdp.domain import Codes, Domain, Interval
from skdp.local._permanent import SecretKey
from skdp.local._record_ids import canonical, framed
from skdp.oracles import FrequencyOracle, LocalHashing
from skdp.randomness import ByteSource, uniform_integers

_FORMAT = b"skdp permanent report 1"
"""To be raised whenever an oracle makes other use of its coins: old and new reports must not share any."""

_RATE = 136


class KeyedSource:
    """The bytes of SHAKE-256 after a seed: the same for the same seed, and as unpredictable as the seed.

    Parameters
    ----------
    seed : bytes
        32 bytes that only the holder of a key can compute.

    Examples
    --------
    >>> KeyedSource(b"seed").bytes(4).tolist() == KeyedSource(b"seed").bytes(4).tolist()
    True
    """

    def __init__(self, seed: bytes) -> None:
        self._shake, self._stream, self._used = hashlib.shake_256(seed), b"", 0

    def bytes(self, size: int) -> NDArray[np.uint8]:
        """Return the next bytes of the stream.

        Parameters
        ----------
        size : int
            How many.

        Returns
        -------
        ndarray of shape (size,), dtype uint8
            The bytes.
        """
        start, self._used = self._used, self._used + size
        if self._used > len(self._stream) or not self._stream:
            # A longer digest begins with the shorter one; twice as much as needed keeps the work linear.
            self._stream = self._shake.digest(_RATE * (1 + 2 * self._used // _RATE))
        return np.frombuffer(self._stream, np.uint8, size, start)


class Memo:
    """What the permanent reports of a fitted transformer are a function of.

    Parameters
    ----------
    key : bytes
        The secret key.
    owner : str
        The class of the transformer.
    domain : Domain
        The domain of the columns.
    attributes : list of tuple
        The columns of each attribute.
    oracles : tuple of FrequencyOracle
        The oracle of each attribute.
    sample : bool
        Whether each record reports one attribute only.
    unknown : bool
        Whether undeclared values are replaced by uniform draws; then they count as one more value.

    Attributes
    ----------
    n_states : list of int
        For each attribute, the largest number of permanent reports that a record can have: one for each value, or, with
        hashing, one for each bucket.

    Raises
    ------
    ValueError
        If a column name or a declared value is of a kind that cannot be written in one way only.

    Notes
    -----
    **Privacy.** The coins are those of HMAC-SHA256 and SHAKE-256: as good as uniform towards whoever does not know the
    key. Columns, domains and parameters of the oracles enter too, so that reports under other ones share no coins.
    """

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
        self._key = SecretKey(key)
        self._domains = [domain.select(columns) for columns in attributes]
        self._oracles, self._sample, self._unknown = oracles, sample, unknown
        contexts = [_context(part, oracle) for part, oracle in zip(self._domains, oracles, strict=True)]
        self._contexts = [framed(_FORMAT, owner.encode(), context) for context in contexts]
        self.n_states = [
            oracle.n_buckets if isinstance(oracle, LocalHashing) else math.prod(size + unknown for size in part.sizes)
            for part, oracle in zip(self._domains, oracles, strict=True)
        ]

    def report(
        self, codes: list[Codes], records: Sequence[bytes]
    ) -> tuple[list[NDArray[Any]], NDArray[np.integer] | None]:
        """Compute the permanent reports.

        Parameters
        ----------
        codes : list of ndarray
            A code a row for each column; the number of values of a column marks an undeclared value. They are used up.
        records : sequence of bytes
            The id of each row.

        Returns
        -------
        reports : list of ndarray
            The reports of each attribute; zeros in rows that report another one.
        chosen : ndarray or None
            The attribute that each row reports, if it is one only.
        """
        chosen = None
        if self._sample:
            # Permanent too: fresh draws would report all columns in the end. The values have no part in it.
            number = len(self._oracles)
            coins = self._coins(framed(*self._contexts), b"sample", [(record,) for record in records])
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
        """Compute the reports of one attribute; equal rows of the call are computed once."""
        context, domain, oracle = self._contexts[index], self._domains[index], self._oracles[index]
        written = codes.astype(">i8").tobytes()
        width = 8 * codes.shape[1]
        keys = [(record, written[width * row : width * (row + 1)]) for row, record in enumerate(records)]
        places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        order = np.array([places[key] for key in keys], np.intp)
        distinct = np.empty((len(places), codes.shape[1]), np.int64)
        distinct[order] = codes
        pairs = list(places)
        columns = list(distinct.T)
        if self._unknown:
            # Undeclared values are a value of their own, with coins of their own for what replaces it.
            for row, source in enumerate(self._coins(context, b"unknown", pairs)):
                for column, size in zip(columns, domain.sizes, strict=True):
                    drawn = uniform_integers(source, size, 1)[0]
                    column[row] = drawn if column[row] == size else column[row]
        joint = domain.join(columns)
        if not isinstance(oracle, LocalHashing):
            return _each(oracle, joint, self._coins(context, b"report", pairs))[order]
        # The permanent report is one of the bucket: values of one bucket share it, and there are few buckets.
        seeds = [oracle.hash_family.draw(source, 1) for source in self._coins(context, b"seed", [p[:1] for p in pairs])]
        report = np.empty((len(pairs), 2), np.uint64)
        report[:, 0] = np.concatenate([np.empty(0, np.uint64), *seeds])
        buckets = oracle.hash_family(report[:, 0], joint)
        own = [(record, b"%d" % bucket) for (record, _), bucket in zip(pairs, buckets.tolist(), strict=True)]
        report[:, 1] = _each(oracle._inner, buckets, self._coins(context, b"report", own))
        return report[order]

    def _coins(self, context: bytes, purpose: bytes, keys: Iterable[tuple[bytes, ...]]) -> Iterator[KeyedSource]:
        start = hmac.new(self._key, framed(context, purpose), hashlib.sha256)
        for key in keys:
            code = start.copy()
            code.update(framed(*key))
            yield KeyedSource(code.digest())


def _each(oracle: FrequencyOracle, codes: Codes, sources: Iterable[ByteSource]) -> NDArray[Any]:
    """Report each code with coins of its own."""
    empty = oracle.report(codes[:0], KeyedSource(b""))
    reports = np.empty((codes.size, *empty.shape[1:]), empty.dtype)
    for row, source in enumerate(sources):
        reports[row : row + 1] = oracle.report(codes[row : row + 1], source)
    return reports


def _context(domain: Domain, oracle: FrequencyOracle) -> bytes:
    parts = [repr(sorted(oracle.parameters().items())).encode()]
    for name in domain.columns:
        attribute = domain[name]
        values = attribute.edges if isinstance(attribute, Interval) else attribute.values
        kind = type(attribute).__name__.encode()
        try:
            parts += [canonical(name), kind, framed(*(b"" if value is None else canonical(value) for value in values))]
        except ColumnError:
            raise ValueError(
                f"memoize=True needs column names and categories of text, numbers, booleans or times; column {name!r} "
                "has others"
            ) from None
    return framed(*parts)
