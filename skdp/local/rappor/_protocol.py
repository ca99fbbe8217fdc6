"""The protocol of RAPPOR: Bloom filters whose bits are randomised twice, and the candidates that explain them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding import ColumnError
from skdp.frames import Table
from skdp.local._tallies import RapporTally
from skdp.local.memo import SecretKey, canonical, keyed_coins, keyed_digests, keyed_integers, to_bytes
from skdp.local.protocol import Channel, Codes, Randomness, ReportProtocol, Reports, read_report_table
from skdp.local.rappor._decoding import METHODS, Method, decode_counts
from skdp.oracles import BloomRandomizer, check_bits
from skdp.privacy import PrivacyGuarantee
from skdp.randomness import bernoulli, uniform_integers


@dataclass(frozen=True, eq=False, repr=False)
class RapporProtocol(ReportProtocol):
    """A cohort, and for each column the bits of a filter."""

    randomizer: BloomRandomizer
    guarantee: PrivacyGuarantee
    missing: bool
    key: SecretKey | None = None

    @property
    def report_columns(self) -> list[str]:
        return self.names(self.columns)

    @property
    def permanent_key(self) -> bytes | None:
        return self.key

    def names(self, inputs: Any) -> list[str]:
        """Name the report columns after the columns of the input."""
        return ["cohort", *(f"{name}_bit_{bit}" for name in inputs for bit in range(self.randomizer.n_bits))]

    def prepare(self, table: Table) -> Codes:
        # The values themselves, as bytes: numbers of those that occur would be the same in batches of other values.
        pairs = zip(self.columns, table.columns, strict=True)
        values: Codes = [np.array(read_values(name, column, self.missing), object) for name, column in pairs]
        self.randomizer.check_size(len(values[0]) * len(values))
        return values

    def randomise(self, codes: Codes, records: list[bytes], randomness: Randomness) -> Reports:
        cohorts = self._cohorts(records, len(codes[0]), randomness)
        reports: Reports = [cohorts]
        for name, values in zip(self.columns, codes, strict=True):
            bits = self._permanent(name, values.tolist(), cohorts, records, randomness)
            reports.append(self.randomizer.instantaneous(bits, randomness("report", name)))
        return reports

    def _cohorts(self, records: list[bytes], rows: int, randomness: Randomness) -> NDArray[np.unsignedinteger]:
        count = self.randomizer.n_cohorts
        if self.key is None:
            return uniform_integers(randomness("cohort"), count, rows)
        digests = keyed_digests(self.key, ("cohort", *self._purpose), records)
        return keyed_integers(digests, count).astype(np.min_scalar_type(count - 1))

    def _permanent(
        self, name: Any, values: list[bytes], cohorts: NDArray[Any], records: list[bytes], randomness: Randomness
    ) -> NDArray[np.bool_]:
        rappor = self.randomizer
        bits = rappor.filters(cohorts, values)
        if self.key is None:
            bits ^= bernoulli(randomness("permanent", name), rappor.flip, bits.size).reshape(bits.shape)
        else:
            purpose: tuple[str | bytes, ...] = ("permanent", *self._purpose, canonical(name))
            bits ^= keyed_coins(keyed_digests(self.key, purpose, records, values), rappor.flip, rappor.n_bits)
        return bits

    @property
    def _purpose(self) -> tuple[str, ...]:
        """Which permanent random bits are meant: the same ones must never flip the bits of two different filters."""
        rappor = self.randomizer
        return tuple(map(str, (rappor.n_bits, rappor.n_hashes, rappor.n_cohorts, rappor.flip)))

    def write(self, reports: Reports, table: Table) -> Any:
        return table.rebuild(reports, self.report_columns)

    def read(self, reports: Any) -> Reports:
        table = read_report_table(reports, self.report_columns)
        rappor, columns = self.randomizer, [np.asarray(column) for column in table.columns]
        cohorts = columns[0]
        fitting = cohorts.dtype.kind in "iuf" and bool(((cohorts >= 0) & (cohorts < rappor.n_cohorts)).all())
        if not fitting or (cohorts.dtype.kind == "f" and bool((cohorts % 1).any())):
            raise ValueError(f"the cohorts of the reports must be integers from 0 to {rappor.n_cohorts - 1}")
        starts = range(1, len(columns), rappor.n_bits)
        blocks = (np.column_stack(columns[start : start + rappor.n_bits]) for start in starts)
        return [cohorts.astype(np.intp), *(check_bits(block, rappor.n_bits) for block in blocks)]

    def tally(self, reports: Reports) -> RapporTally:
        (cohorts, *columns), count = reports, self.randomizer.n_cohorts
        ones = np.array([count_ones(cohorts, bits, count) for bits in columns])
        return RapporTally(ones, np.bincount(cohorts, minlength=count), self.meaning)

    def empty_tally(self) -> RapporTally:
        rappor = self.randomizer
        ones = np.zeros((len(self.columns), rappor.n_cohorts, rappor.n_bits), np.int64)
        return RapporTally(ones, np.zeros(rappor.n_cohorts, np.int64), self.meaning)

    def estimate(  # type: ignore[override]
        self, tally: RapporTally, candidates: Any, *, method: Method = "nnls"
    ) -> pd.DataFrame:
        """Estimate the count of each candidate value."""
        if not isinstance(method, str) or method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {method!r}")
        lists = candidates if isinstance(candidates, Mapping) else {self.columns[0]: candidates}
        if set(lists) - set(self.columns) or (len(self.columns) > 1 and not isinstance(candidates, Mapping)):
            raise ValueError(f"candidates must be a mapping of columns to lists; the columns are {list(self.columns)}")
        written = {name: self._candidates(name, values) for name, values in lists.items()}
        if tally.protocol != self.meaning:
            raise ValueError("the tally comes from an encoder with different parameters or columns")
        found = [
            decode_counts(self.randomizer, tally.ones[self.columns.index(name)], tally.cohort_sizes, values, method)
            for name, values in written.items()
        ]
        index = pd.Index([value for values in lists.values() for value in values], dtype=object, name="candidate")
        if len(self.columns) > 1:
            pairs = [(name, value) for name, values in lists.items() for value in values]
            index = pd.MultiIndex.from_tuples(pairs, names=["column", "candidate"])
        counts, errors = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return pd.DataFrame({"count": counts, "std_error": errors}, index=index)

    def _candidates(self, name: Any, values: Any) -> list[bytes]:
        if isinstance(values, str) or not np.iterable(values):
            raise TypeError(f"candidates of column {name!r} must be a list, got {type(values).__name__}")
        try:
            written = to_bytes(list(values), missing=self.missing)
        except ColumnError as error:
            raise ValueError(f"the list of candidates of column {name!r} {error}") from None
        if not written or len({*written}) < len(written):
            raise ValueError(f"candidates of column {name!r} must be different values, at least one")
        return written

    @property
    def meaning(self) -> dict[str, Any]:
        """What a server must know to read the reports."""
        rappor = self.randomizer
        return {
            "encoder": "RapporEncoder",
            "columns": list(self.columns),
            "n_bits": rappor.n_bits,
            "n_hashes": rappor.n_hashes,
            "n_cohorts": rappor.n_cohorts,
            "flip": rappor.flip,
            "heads": list(rappor.heads),
        }

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        # Of two filters that differ in as many bits as any two can.
        bits, hashes = self.randomizer.n_bits, self.randomizer.n_hashes
        if bits > 12 or 2 << bits > most_entries:
            return None
        filters = [[int(bit < hashes) for bit in range(bits)], [int(bit >= bits - hashes) for bit in range(bits)]]
        channel = self.randomizer.channel(filters, permanent=self.key is not None)
        return [iter([channel]) for _ in self.columns]

    def parameters(self) -> dict[str, Any]:
        return {**self.meaning, "missing": self.missing}

    def without_secrets(self) -> RapporProtocol:
        return replace(self, key=None)


def count_ones(cohorts: NDArray[Any], bits: NDArray[np.bool_], n_cohorts: int) -> NDArray[np.int64]:
    """Count the ones of each bit in each cohort."""
    rows = np.split(np.argsort(cohorts, kind="stable"), np.cumsum(np.bincount(cohorts, minlength=n_cohorts))[:-1])
    return np.array([bits[part].sum(axis=0, dtype=np.int64) for part in rows])


def read_values(name: Any, column: Any, missing: bool) -> list[bytes]:
    try:
        return to_bytes(column, missing=missing)
    except ColumnError as error:
        advice = "; set handle_missing='value' to report them as a value" if "missing" in str(error) else ""
        raise ValueError(f"column {name!r} {error}{advice}") from None
