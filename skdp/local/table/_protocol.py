"""The protocol of a table: the protocols of groups of its columns, of which a record reports all or some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.domain import Domain
from skdp.frames import Table, is_frame, keep_rows, rows_of, side_by_side
from skdp.local._tally import ReportTally, check_tally
from skdp.local.numeric import NumericProtocol
from skdp.local.protocol import (
    SAMPLED,
    Channel,
    Codes,
    OracleProtocol,
    Randomness,
    ReportProtocol,
    Reports,
    Sampling,
    ValueProtocol,
    combine_samples,
    concat_columns,
    joined_counts,
    read_sampled,
    shuffled_parts,
)
from skdp.privacy import PrivacyGuarantee
from skdp.privacy.shuffle import Released, ReportPair

Part = OracleProtocol | NumericProtocol


@dataclass(frozen=True, eq=False, repr=False)
class TableProtocol(ReportProtocol):
    """Reports of groups of columns, each by a protocol of its own with one attribute."""

    # Reports are an array for each group, and with a sample a last one of booleans that says which groups each row
    # reports: what else is drawn is 0 there, and never written.

    parts: tuple[Part, ...]
    names: tuple[Any, ...]
    """The columns, in the order of the table."""
    sampling: Sampling | None
    guarantee: PrivacyGuarantee
    _layout: list[tuple[Any, int | None]] = field(init=False)
    """The columns of the reports, and the part that each is of; None for those that state what is reported."""

    def __post_init__(self) -> None:
        layout: list[tuple[Any, int | None]] = [
            (name, place)
            for place, part in enumerate(self.parts)
            for name in part.report_columns
        ]
        if {name for name, _ in layout} == {*self.names}:
            layout.sort(key=lambda pair: self.names.index(pair[0]))
        layout += [(name, None) for name in self._sampled_names]
        if len({name for name, _ in layout}) < len(layout):
            raise ValueError(
                "two columns of the output would have the same name; rename columns or categories"
            )
        object.__setattr__(self, "_layout", layout)

    @property
    def _sampled_names(self) -> list[str]:
        size = self.n_sampled or 0
        return (
            [SAMPLED] if size == 1 else [f"{SAMPLED}_{place}" for place in range(size)]
        )

    @property
    def report_columns(self) -> list[Any]:
        return [name for name, _ in self._layout]

    @property
    def n_sampled(self) -> int | None:
        return None if self.sampling is None else self.sampling.size

    @property
    def values(self) -> Domain | None:  # type: ignore[override]
        found = {
            name: part.domain[name]
            for part in self.parts
            if isinstance(part, ValueProtocol)
            for name in part.columns
        }
        return Domain(found) if found else None

    @property
    def declared(self) -> dict[str, Any]:
        found: dict[str, Any] = {"categories": {}, "bounds": {}}
        for part in self.parts:
            for key in found:
                found[key] |= part.declared.get(key, {})
        return found

    def names_after(self, inputs: Sequence[str]) -> list[str]:
        """Name the report columns after the columns of the input."""
        known = dict(zip(self.names, inputs, strict=True))
        named: dict[tuple[Any, int | None], str] = {
            (name, None): name for name in self._sampled_names
        }
        for place, part in enumerate(self.parts):
            own, given = part.report_columns, [known[name] for name in part.columns]
            made = given if own == [*part.columns] else part.names(given)  # type: ignore[union-attr]
            named |= {
                (name, place): after for name, after in zip(own, made, strict=True)
            }
        return [named[pair] for pair in self._layout]

    def prepare(self, table: Table) -> Codes:
        return [
            codes
            for part in self.parts
            for codes in part.prepare(_columns_of(table, self.names, part.columns))
        ]

    def randomise(
        self, codes: Codes, records: list[bytes], randomness: Randomness
    ) -> Reports:
        reports, n_rows = [], len(codes[0])
        for part in self.parts:
            own, codes = codes[: len(part.columns)], codes[len(part.columns) :]
            reports += part.randomise(own, records, randomness)
        if self.sampling is None:
            return reports
        # Drawn without looking at the data, so it may be public.
        drawn = self.sampling.draw(randomness("sample"), n_rows)
        for report, rows in zip(reports, drawn.T, strict=True):
            report[~rows] = 0
        return [*reports, drawn]

    def write(self, reports: Reports, table: Table) -> Any:
        drawn, blocks = None if self.sampling is None else reports[-1], []
        for place, part in enumerate(self.parts):
            block = part.write(
                [reports[place]], _columns_of(table, self.names, part.columns)
            )
            blocks.append(block if drawn is None else keep_rows(block, drawn[:, place]))
        if drawn is not None:
            chosen = (
                np.nonzero(drawn)[1]
                .reshape(len(drawn), self.n_sampled or 0)
                .astype(np.min_scalar_type(len(self.parts)))
            )
            blocks.append(table.rebuild(list(chosen.T), self._sampled_names))
        return side_by_side(
            blocks,
            [name for part in self.parts for name in part.report_columns]
            + self._sampled_names,
            self.report_columns,
        )

    def read(self, reports: Any) -> Reports:
        table = self.report_table(reports)
        n_rows = len(table.columns[0])
        drawn = (
            np.ones((n_rows, len(self.parts)), bool)
            if self.sampling is None
            else self._read_sample(table)
        )
        arrays = []
        for place, part in enumerate(self.parts):
            rows, wanted = drawn[:, place], part.report_columns
            if not rows.any():
                arrays.append(np.zeros(n_rows, np.int64))
                continue
            places = [self._layout.index((name, place)) for name in wanted]
            (own,) = part.read(
                rows_of(
                    reports if is_frame(reports) else np.asarray(reports), rows, places
                )
            )
            whole = np.zeros((n_rows, *own.shape[1:]), own.dtype)
            whole[rows] = own
            arrays.append(whole)
        return arrays if self.sampling is None else [*arrays, drawn]

    def _read_sample(self, table: Table) -> NDArray[np.bool_]:
        assert self.sampling is not None
        columns = table.columns[len(table.columns) - self.sampling.size :]
        chosen = np.column_stack(
            [read_sampled(column, len(self.parts)) for column in columns]
        )
        if (np.diff(chosen, axis=1) <= 0).any():
            raise ValueError(
                f"the columns {self._sampled_names} must ascend: a record makes each report once"
            )
        drawn = np.zeros((len(chosen), len(self.parts)), bool)
        np.put_along_axis(drawn, chosen, True, axis=1)
        return drawn

    def rows(self, reports: Reports) -> NDArray[np.bool_]:
        """Return which row reports which group."""
        return (
            np.ones((len(reports[0]), len(self.parts)), bool)
            if self.sampling is None
            else reports[-1]
        )

    def tally(self, reports: Reports) -> ReportTally:
        drawn = self.rows(reports)
        pairs = zip(self.parts, reports, drawn.T, strict=False)
        sums = [
            part.tally([report[rows]]) if rows.any() else part.empty_tally()
            for part, report, rows in pairs
        ]
        return self._tally_of(sums, len(drawn))

    def report_counts(self, reports: Reports) -> NDArray[np.int64] | None:
        drawn, found = self.rows(reports), []
        for part, report, rows in zip(self.parts, reports, drawn.T, strict=False):
            # Reports that no record makes have not even their form.
            counts = (
                part.report_counts([report[rows]])
                if rows.any()
                else part.empty_counts()
            )
            if counts is None:
                return None
            found.append(counts)
        return joined_counts(len(drawn), found)

    def empty_counts(self) -> NDArray[np.int64] | None:
        parts = [
            counts for part in self.parts if (counts := part.empty_counts()) is not None
        ]
        return joined_counts(0, parts) if len(parts) == len(self.parts) else None

    def empty_tally(self) -> ReportTally:
        return self._tally_of([part.empty_tally() for part in self.parts], 0)

    def _tally_of(self, parts: Sequence[Any], n_reports: int) -> ReportTally:
        counts = tuple(part.counts[0] for part in parts)
        sizes = tuple(part.sizes[0] for part in parts)
        return ReportTally(self.meaning, counts, sizes, n_reports)

    @property
    def meaning(self) -> dict[str, Any]:
        """What a server must know to read the reports."""
        return {
            "encoder": "LocalTableEncoder",
            "n_sampled": self.n_sampled,
            "weights": self._weights,
            "fields": [part.meaning["fields"][0] for part in self.parts],
        }

    def _own(self, tally: ReportTally, place: int) -> ReportTally:
        """Return the sums of a group."""
        size = tally.sizes[place]
        meaning = self.parts[place].meaning
        return ReportTally(meaning, (tally.counts[place],), (size,), size)

    @property
    def _weights(self) -> list[int] | None:
        return None if self.sampling is None else list(self.sampling.weights)

    def places_of(self, *columns: Any) -> list[int]:
        """Return the places of the groups that have all of some columns."""
        return [
            place
            for place, part in enumerate(self.parts)
            if {*columns} <= {*part.columns}
        ]

    def tally_of(self, tally: ReportTally, place: int) -> Any:
        """Return the sums of a group, and of values also the numbers of records and of those that report them."""
        check_tally(tally, self.meaning)
        if tally.n_reports == 0:
            raise ValueError(
                "Found a tally of 0 sample(s) (rows); at least 1 is required"
            )
        part = self._own(tally, place)
        return (
            replace(part, n_reports=tally.n_reports)
            if isinstance(self.parts[place], OracleProtocol)
            else part
        )

    def estimate(self, tally: ReportTally, **parameters: Any) -> pd.DataFrame:
        """Estimate the count, or the frequency, of each value of each column of values."""
        found = {
            name
            for part in self.parts
            if isinstance(part, OracleProtocol)
            for name in part.columns
        }
        tables = {
            name: self.estimate_margin(tally, name, **parameters)
            for name in self.names
            if name in found
        }
        names = ["column", "category"]
        if not tables:
            index = pd.MultiIndex.from_arrays([[], []], names=names)
            columns = [parameters.get("what", "count"), "std_error", "lower", "upper"]
            return pd.DataFrame(columns=columns, index=index, dtype=float)
        return concat_columns(tables)

    def tails(
        self, tally: ReportTally, columns: Sequence[Any] | None = None
    ) -> list[tuple[float, float, str]]:
        found = []
        for place, part in enumerate(self.parts):
            found += part.tails(self._own(tally, place), columns)
        return found

    def shuffle_pairs(self, released: Released) -> tuple[ReportPair, ...]:
        pairs = [pair for part in self.parts for pair in part.shuffle_pairs("reports")]
        # One pair stands for all pairs of records if the values of each group may be exchanged: see `shuffled_parts`.
        if self.sampling is None and all(pair.is_symmetric for pair in pairs):
            return shuffled_parts(pairs, "split", released)
        if (
            self.sampling is not None
            and self.sampling.size == 1
            and all(pair.is_symmetric for pair in pairs)
        ):
            return (
                ReportPair.mixed(zip(self.sampling.inclusions, pairs, strict=True)),
            )
        return super().shuffle_pairs(released)

    def estimate_margin(
        self, tally: ReportTally, column: Any, **parameters: Any
    ) -> pd.DataFrame:
        """Estimate the count, or the frequency, of each value of a column, from all groups that have it."""
        places = self.places_of(column)
        if len(places) > 1:
            places = [place for place in places if tally.sizes[place]] or places[:1]
        groups = [
            (cast(OracleProtocol, self.parts[place]), self.tally_of(tally, place))
            for place in places
        ]
        if len(groups) == 1:
            return groups[0][0].estimate(groups[0][1], columns=[column], **parameters)
        return combine_samples(groups, column, **parameters)

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        found = [part.channels(most_entries) for part in self.parts]
        return (
            None
            if None in found
            else [one for own in found if own is not None for one in own]
        )

    def parameters(self) -> dict[str, Any]:
        sampled = {"n_sampled": self.n_sampled, "weights": self._weights}
        parts = [part.parameters() for part in self.parts]
        return {
            "encoder": "LocalTableEncoder",
            "columns": list(self.names),
            "parts": parts,
        } | sampled


def _columns_of(table: Table, names: Sequence[Any], wanted: Sequence[Any]) -> Table:
    """Return some columns of a table."""
    found = dict(zip(names, table.columns, strict=True))
    return Table(tuple(wanted), tuple(found[name] for name in wanted), table.native)
