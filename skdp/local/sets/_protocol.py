"""The protocol of columns of sets: coded lists, their reports, and estimates of how many records hold each value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import check_choice, check_confidence_level, undeclared_error
from skdp.coding import ColumnError, flatten_lists
from skdp.domain import Domain, Interval
from skdp.frames import Table
from skdp.local._tally import ReportTally, check_tally
from skdp.local.protocol import (
    Channel,
    Codes,
    Randomness,
    ReportProtocol,
    Reports,
    SampledCounts,
    check_columns,
    concat_columns,
    joined_counts,
    plain_values,
    read_whole_numbers,
    sums_of_oracle,
    value_labels,
)
from skdp.oracles import SetOracle, pad_sets
from skdp.privacy import PrivacyGuarantee

_CELLS = 1 << 22

SetPostprocess = Literal["none", "clip"]


@dataclass(frozen=True, eq=False, repr=False)
class SetProtocol(ReportProtocol):
    """Reports of columns of sets, each by an oracle for sets with a share of epsilon."""

    # Codes are an array of bytes for each column: of a row the codes of its values, distinct and ascending.

    domain: Domain
    oracles: tuple[SetOracle, ...]
    guarantee: PrivacyGuarantee
    unknown: str = "error"

    @property
    def report_columns(self) -> list[Any]:
        return self.names(list(map(str, self.columns)))

    @property
    def declared(self) -> dict[str, Any]:
        attributes = {name: self.domain[name] for name in self.columns}
        values = {
            name: own if isinstance(own, Interval) else list(own.values)
            for name, own in attributes.items()
        }
        return {"categories": values}

    def _labels(self, name: Any) -> list[str]:
        return value_labels(self.domain.select([name]))

    def names(self, inputs: Sequence[str]) -> list[str]:
        """Name the report columns after the columns of the input."""
        names = []
        for name, given, oracle in zip(self.columns, inputs, self.oracles, strict=True):
            names += [
                f"{given}_{suffix}" if suffix else given
                for suffix in oracle.fields(self._labels(name))
            ]
        if len(set(names)) < len(names):
            raise ValueError(
                "two columns of the output would have the same name; rename columns or values"
            )
        return names

    def prepare(self, table: Table) -> Codes:
        for oracle in self.oracles:
            oracle.check_size(len(table.columns[0]))
        pairs = zip(self.columns, table.columns, strict=True)
        return [
            read_sets(self.domain, name, column, self.unknown) for name, column in pairs
        ]

    def write(self, reports: Reports, table: Table) -> Any:
        blocks = [
            report if report.ndim == 2 else report.reshape(-1, 1) for report in reports
        ]
        return table.rebuild(blocks, self.report_columns)

    def read(self, reports: Any) -> Reports:
        columns, arrays = list(self.report_table(reports).columns), []
        for oracle in self.oracles:
            own, columns = columns[: oracle.width], columns[oracle.width :]
            block = np.column_stack([np.asarray(column) for column in own])
            arrays.append(
                oracle.read(
                    block if block.dtype.kind in "iub" else read_whole_numbers(block)
                )
            )
        return arrays

    def parameters(self) -> dict[str, Any]:
        columns = [[name, plain_values(self.domain[name])] for name in self.columns]
        return {
            "encoder": "SetValuedEncoder",
            "columns": columns,
            "oracles": [oracle.parameters() for oracle in self.oracles],
            "unknown": self.unknown,
        }

    def report_counts(self, reports: Reports) -> NDArray[np.int64]:
        parts = [
            oracle.part_counts(report)
            for oracle, report in zip(self.oracles, reports, strict=True)
        ]
        return joined_counts(len(reports[0]), parts)

    def empty_counts(self) -> NDArray[np.int64]:
        return joined_counts(
            0, [np.zeros(oracle.n_part_counts, np.int64) for oracle in self.oracles]
        )

    def randomise(
        self, codes: Codes, records: list[bytes], randomness: Randomness
    ) -> Reports:
        reports = []
        for name, own, oracle in zip(self.columns, codes, self.oracles, strict=True):
            kept, source, parts = (
                randomness("kept", name),
                randomness("report", name),
                [],
            )
            for block in blocks_of(own, oracle):
                values, sizes = joined(block, oracle.k)
                parts.append(
                    oracle.report(
                        pad_sets(values, sizes, oracle.k, oracle.max_size, kept), source
                    )
                )
            reports.append(np.concatenate(parts))
        return reports

    def tally(self, reports: Reports) -> ReportTally:
        support = tuple(
            oracle.tally(report)
            for oracle, report in zip(self.oracles, reports, strict=True)
        )
        return self._tally_of(support, len(reports[0]))

    def empty_tally(self) -> ReportTally:
        return self._tally_of(
            tuple(np.zeros(oracle.k, np.int64) for oracle in self.oracles), 0
        )

    def _tally_of(self, support: tuple[NDArray[np.int64], ...], n: int) -> ReportTally:
        return ReportTally(self.meaning, support, (n,) * len(support), n)

    def estimate(  # type: ignore[override]
        self,
        tally: ReportTally,
        *,
        columns: Sequence[Any] | None = None,
        postprocess: str = "none",
        confidence_level: float = 0.95,
        simultaneous: bool = False,
        what: str = "count",
    ) -> pd.DataFrame:
        """Estimate the count, or the frequency, of each value of each column."""
        asked = (
            list(self.columns)
            if columns is None
            else check_columns(self.columns, columns)
        )
        check_postprocess(postprocess)
        level = check_confidence_level(confidence_level)
        check_tally(tally, self.meaning)
        n, tables = tally.n_reports, {}
        cells = sum(len(self.domain[name]) for name in asked) if simultaneous else 1
        for name in asked:
            place = self.columns.index(name)
            counts = self.oracles[place].estimate(tally.counts[place], n)
            found = SampledCounts.of(
                counts, self.oracles[place].variance(counts, n) if n else counts, n, n
            )
            shown, index = (
                np.clip(found.counts, 0, n) if postprocess == "clip" else None,
                self.domain.select([name]).cells(),
            )
            given: dict[str, Any] = {
                "shown": shown,
                "clipped": postprocess == "clip",
                "what": what,
                "index": index,
            }
            tables[name] = found.table(level, n_cells=cells, **given)
        if len(self.columns) == 1 or (columns is not None and len(asked) == 1):
            return tables[asked[0]]
        return concat_columns(tables)

    def tails(
        self, tally: ReportTally, columns: Sequence[Any] | None = None
    ) -> list[tuple[float, float, str]]:
        found = []
        for name, oracle, support in zip(
            self.columns, self.oracles, tally.counts, strict=True
        ):
            if tally.n_reports and (columns is None or name in columns):
                found += [
                    (tail, choices, repr(name))
                    for tail, choices in oracle.tails(support, tally.n_reports)
                ]
        return found

    @property
    def meaning(self) -> dict[str, Any]:
        """What a server must know to read the reports."""
        fields = [
            sums_of_oracle(self.domain.select([name]), oracle)
            for name, oracle in zip(self.columns, self.oracles, strict=True)
        ]
        return {"encoder": "SetValuedEncoder", "n_sampled": None, "fields": fields}

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        if any(
            _entries(oracle, most_entries) > most_entries for oracle in self.oracles
        ):
            return None
        return [oracle.channels() for oracle in self.oracles]


def check_postprocess(postprocess: Any) -> None:
    """Check how counts are changed."""
    check_choice("postprocess", postprocess, get_args(SetPostprocess))


def blocks_of(
    codes: NDArray[np.object_], oracle: SetOracle
) -> list[NDArray[np.object_]]:
    """Split coded rows into blocks, at least one, whose padded sets fit into the memory."""
    step = max(1, _CELLS // oracle.max_size)
    return [codes[start : start + step] for start in range(0, max(len(codes), 1), step)]


def _entries(oracle: SetOracle, most: int) -> float:
    """Return the size of a channel, or infinity if listing its rows would take long."""
    if oracle.k > 12 or oracle.n_reports > most:
        return float("inf")
    return len(oracle.sets()) * oracle.n_reports


def read_sets(
    domain: Domain, name: Any, column: Any, unknown: str
) -> NDArray[np.object_]:
    """Read a column of lists as bytes: of each row the codes of its values, distinct and ascending."""
    message = None
    try:
        flat, sizes = flatten_lists(column)
    except ColumnError as error:
        message = f"column {name!r}: {error}"
    if message is not None:
        raise ValueError(message)
    (codes,) = domain.select([name]).encode([flat])
    k = len(domain[name])
    if unknown == "error" and codes.max(initial=0) == k:
        raise undeclared_error(name, domain[name], what="lists with a value")
    rows = np.repeat(np.arange(sizes.size), sizes)
    pairs = np.sort(rows[codes < k] * k + codes[codes < k].astype(np.int64))
    pairs = pairs[
        np.diff(pairs, prepend=-1) > 0
    ]  # `np.unique` takes five times as long
    ends = np.append(0, np.cumsum(np.bincount(pairs // k, minlength=sizes.size)))
    held = (pairs % k).astype(_dtype(k))
    packed, width = held.tobytes(), held.itemsize
    found = np.empty(sizes.size, object)
    for row, (start, end) in enumerate(
        zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ):
        found[row] = packed[start * width : end * width]
    return found


def joined(
    sets: NDArray[np.object_], k: int
) -> tuple[NDArray[np.unsignedinteger], NDArray[np.int64]]:
    """Return the codes of all sets, one set after the other, and the number of codes of each."""
    dtype = _dtype(k)
    sizes = np.fromiter(map(len, sets), np.int64, len(sets)) // dtype.itemsize
    return np.frombuffer(b"".join(sets.tolist()), dtype), sizes


def _dtype(k: int) -> np.dtype[Any]:
    return np.min_scalar_type(k).newbyteorder("<")
