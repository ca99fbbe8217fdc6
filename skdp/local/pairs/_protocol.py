"""The protocol of columns of keys and values: coded pairs, their reports as signed keys, and estimates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import check_confidence_level, undeclared_error
from skdp.coding import ColumnError, flatten_pairs, to_numbers
from skdp.domain import Domain, pack
from skdp.local.pairs._estimation import estimate_moments, mean_table
from skdp.local.pairs._tally import PairTally
from skdp.local.protocol import (
    Channel,
    Codes,
    Randomness,
    Reports,
    SampledCounts,
    concat_columns,
    plain_values,
)
from skdp.local.sets import ListProtocol, blocks_of, check_postprocess
from skdp.oracles import SetOracle
from skdp.oracles.sets import fill_sets, keep_members
from skdp.randomness import ByteSource

_ONE = 1 << 32
"""The unit of the probability with which a value is rounded to plus."""

_PAIR = np.dtype([("key", "<u4"), ("share", "<u8")])


@dataclass(frozen=True, eq=False, repr=False)
class PairProtocol(ListProtocol):
    """Reports of keys and values, each column by a protocol for sets of signed keys, with a share of epsilon."""

    # Codes are an array of bytes for each column: of a row its keys, distinct and ascending, each with the probability
    # that its value becomes a plus. The codes of the oracles are 2 key for minus, and 2 key + 1 for plus.

    bounds: NDArray[np.float64] = field(kw_only=True)

    @property
    def declared(self) -> dict[str, Any]:
        bounds = {name: tuple(map(float, ends)) for name, ends in zip(self.columns, self.bounds, strict=True)}
        return super().declared | {"bounds": bounds}

    def _labels(self, name: Any) -> list[str]:
        return [f"{label}{sign}" for label in super()._labels(name) for sign in "-+"]

    def _code(self, name: Any, column: Any) -> NDArray[np.object_]:
        return read_pairs(self.domain, name, column, self.bounds[self.columns.index(name)], self.unknown)

    def randomise(self, codes: Codes, records: list[bytes], randomness: Randomness) -> Reports:
        reports = []
        for name, own, oracle in zip(self.columns, codes, self.oracles, strict=True):
            sources = randomness("kept", name), randomness("sign", name), randomness("report", name)
            reports.append(np.concatenate([self._draw(block, oracle, *sources) for block in blocks_of(own, oracle)]))
        return reports

    def _draw(
        self, codes: NDArray[np.object_], oracle: SetOracle, keeping: ByteSource, signs: ByteSource, source: ByteSource
    ) -> NDArray[Any]:
        pairs = np.frombuffer(b"".join(codes.tolist()), _PAIR)
        sizes = np.fromiter(map(len, codes), np.int64, len(codes)) // _PAIR.itemsize
        kept = keep_members(sizes, oracle.k // 2, oracle.max_size, keeping)
        words = signs.bytes(4 * kept.size).view("<u4").reshape(kept.shape)
        shares = pairs["share"].take(kept, mode="clip") if len(pairs) else np.zeros(kept.shape, np.uint64)
        sets = fill_sets(2 * pairs["key"], kept, oracle.k)
        return oracle.report(sets + ((words < shares) & (kept >= 0)).astype(sets.dtype), source)

    def tally(self, reports: Reports) -> PairTally:
        support = tuple(oracle.tally(report) for oracle, report in zip(self.oracles, reports, strict=True))
        return PairTally(support, len(reports[0]), self.meaning)

    def empty_tally(self) -> PairTally:
        return PairTally(tuple(np.zeros(oracle.k, np.int64) for oracle in self.oracles), 0, self.meaning)

    def estimate(  # type: ignore[override]
        self, tally: PairTally, *, what: str = "count", postprocess: str = "none", confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate the count or the frequency of each key, or the mean of its values."""
        reach = -NormalDist().inv_cdf((1 - check_confidence_level(confidence_level)) / 2)
        check_postprocess(postprocess)
        if tally.protocol != self.meaning:
            raise ValueError("the tally comes from an encoder with different parameters or columns")
        n, tables = tally.n_reports, {}
        if n == 0:
            raise ValueError("Found a tally of 0 sample(s) (rows); at least 1 is required")
        for name, oracle, support, ends in zip(self.columns, self.oracles, tally.support, self.bounds, strict=True):
            moments, index = estimate_moments(oracle, support, n), self.domain.select([name]).cells()
            if what == "mean":
                tables[name] = mean_table(moments, ends, reach, index)
                continue
            found, clipped = SampledCounts.of(moments.holders, moments.of_holders, n, n), postprocess == "clip"
            shown = np.clip(found.counts, 0, n) if clipped else None
            tables[name] = found.table(confidence_level, shown=shown, clipped=clipped, what=what, index=index)
        return tables[self.columns[0]] if len(self.columns) == 1 else concat_columns(tables, level="key")

    @property
    def meaning(self) -> dict[str, Any]:
        return {
            "encoder": "KeyValueEncoder",
            "columns": list(self.columns),
            "keys": [pack(plain_values(self.domain[name])) for name in self.columns],
            "bounds": (self.bounds + 0.0).tolist(),
            "oracles": [oracle.parameters() for oracle in self.oracles],
        }

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        # Of signed keys: a value between the bounds is a mean of the two signs.
        if any(oracle.k > 8 or len(oracle.sets()) * oracle.n_reports > most_entries for oracle in self.oracles):
            return None
        return [oracle.channels() for oracle in self.oracles]


def read_pairs(domain: Domain, name: Any, column: Any, ends: Any, unknown: str) -> NDArray[np.object_]:
    """Read a column of pairs as bytes: of each row its keys, distinct and ascending, and the shares of plus."""
    message = None
    try:
        keys, values, sizes = flatten_pairs(column)
        numbers = to_numbers(values).astype(float)
    except ColumnError as error:
        message = f"column {name!r}: {error}"
    if message is not None:
        raise ValueError(message)
    (codes,) = domain.select([name]).encode([keys])
    k, (low, high) = len(domain[name]), ends
    if unknown == "error" and codes.max(initial=0) == k:
        raise undeclared_error(name, domain[name], what="pairs with a key")
    declared = codes < k
    if not np.isfinite(numbers[declared]).all():
        raise ValueError(f"column {name!r} holds a pair whose value is missing, or no finite number")
    rows = np.repeat(np.arange(sizes.size), sizes)[declared]
    pairs, places = np.unique(rows * k + codes[declared].astype(np.int64), return_inverse=True)
    # A key that comes twice has the mean of its values.
    clipped = (np.clip(numbers[declared], low, high) - low) / (high - low)
    shares = np.bincount(places, clipped, len(pairs)) / np.maximum(np.bincount(places, minlength=len(pairs)), 1)
    coded = np.empty(len(pairs), _PAIR)
    coded["key"], coded["share"] = pairs % k, np.rint(shares * _ONE).astype(np.uint64)
    bounds = (np.searchsorted(pairs, np.arange(sizes.size + 1) * k) * _PAIR.itemsize).tolist()
    packed, found = coded.tobytes(), np.empty(sizes.size, object)
    for row, (start, end) in enumerate(pairwise(bounds)):
        found[row] = packed[start:end]
    return found
