"""Permanent reports: a keyed function of key, record, column and value, so that nothing is stored to repeat them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.coding import ColumnError
from skdp.domain import Codes, Domain, Interval
from skdp.local.memo._keys import SecretKey, canonical, framed, keyed_digests
from skdp.oracles import FrequencyOracle
from skdp.randomness import DigestSource, uniform_integers

FORMAT = b"skdp permanent report 3"
"""To be raised whenever an oracle uses its random bits differently: old and new reports must not share any."""


class Memo:
    """What the permanent reports of a fitted transformer are a function of."""

    # **Privacy.** The random bits are those of keyed BLAKE2b and SHAKE-256: as good as uniform without the key.
    # Columns, domains and parameters of the oracles enter too, so that reports under other ones share no random bits.

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
            oracle.n_states(math.prod(size + unknown for size in part.sizes))
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
        values = np.frombuffer(written, f"V{width}").tolist()
        columns = list(codes.T)
        if self._unknown:
            # Undeclared values are a value of their own, with random bits of their own for what replaces it.
            for row, source in enumerate(self._coins(context, "unknown", records, values)):
                for column, size in zip(columns, domain.sizes, strict=True):
                    drawn = uniform_integers(source, size, 1)[0]
                    column[row] = drawn if column[row] == size else column[row]
        joint = domain.join(columns)
        return oracle.report_keyed(
            joint, values, lambda purpose, *fields: self._digests(context, purpose, records, *fields)
        )

    def _digests(self, context: bytes, purpose: str, *fields: Sequence[bytes]) -> list[bytes]:
        return keyed_digests(self.key, (context, purpose), *fields)

    def _coins(self, context: bytes, purpose: str, *fields: Sequence[bytes]) -> Iterator[DigestSource]:
        return map(DigestSource, self._digests(context, purpose, *fields))


def context_of(owner: str, *parts: bytes) -> bytes:
    """Write what permanent reports belong to: reports in different contexts share no random bits."""
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
