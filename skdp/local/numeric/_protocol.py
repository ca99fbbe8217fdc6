"""The protocol of privatised numbers: positions on a grid, randomised, and estimates from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import read_numbers
from skdp.frames import Table, missing_for_nan, read_table
from skdp.local._tally import ReportTally, check_tally
from skdp.local.memo import NumericMemo
from skdp.local.numeric._estimation import (
    DistributionOptions,
    estimate_distributions,
    estimate_means,
)
from skdp.local.protocol import (
    Channel,
    Codes,
    Randomness,
    ReportProtocol,
    Reports,
    Sampling,
    drawn_parts,
    fold,
    joined_counts,
    shuffled_parts,
)
from skdp.oracles import NumericMechanism
from skdp.oracles.numeric import SUBSTEPS, round_at_random
from skdp.privacy import PrivacyGuarantee
from skdp.privacy.shuffle import Released, ReportPair

_MOST_COUNTED = 1 << 16
"""Of the numbers that may be reported, for an engine to count them."""


@dataclass(frozen=True, eq=False, repr=False)
class NumericProtocol(ReportProtocol):
    """Numbers on a grid between public bounds, reported by a mechanism for all columns."""

    # Reports are an array for each column: places in `values_of`, or -1 where the sample has not got the column.

    bounds: NDArray[np.float64]
    mechanism: NumericMechanism
    share: Fraction
    guarantee: PrivacyGuarantee
    memo: NumericMemo | None = None
    sampling: Sampling | None = None
    """Which columns a record reports; None for all."""
    is_chosen: bool = False
    """Whether how many columns a record reports is a parameter; it may be all of them."""
    values_of: list[NDArray[np.float64]] = field(init=False)
    """The numbers that may be reported in each column, ascending: a report is a place among them."""
    places_of: list[NDArray[np.intp]] = field(init=False)
    """For each column the place of each report of the mechanism; some may be one number, where floats are too few."""

    def __post_init__(self) -> None:
        estimates = self.mechanism.quotients
        numbers = [
            _numbers(estimates, self.mechanism.steps, low, high)
            for low, high in self.bounds
        ]
        distinct = [np.unique(column) for column in numbers]
        places = [
            np.searchsorted(values, column)
            for values, column in zip(distinct, numbers, strict=True)
        ]
        object.__setattr__(self, "values_of", distinct)
        object.__setattr__(self, "places_of", places)

    @property
    def report_columns(self) -> list[Any]:
        return list(self.columns)

    @property
    def declared(self) -> dict[str, Any]:
        bounds = {
            name: tuple(map(float, own))
            for name, own in zip(self.columns, self.bounds, strict=True)
        }
        outcomes = self.mechanism.parameters().get("outcomes")
        sampled = {"n_sampled": self.n_reported} if self.is_chosen else {}
        return (
            {"bounds": bounds}
            | ({} if outcomes is None else {"mechanism": outcomes})
            | sampled
        )

    @property
    def n_sampled(self) -> int | None:
        return None if self.sampling is None else self.sampling.size

    @property
    def n_reported(self) -> int:
        """The number of columns that a record reports."""
        return self.n_sampled or len(self.columns)

    @property
    def permanent_key(self) -> bytes | None:
        return None if self.memo is None else self.memo.key

    @property
    def counted_columns(self) -> list[list[Any]]:
        few = self.sampling is None and max(map(len, self.values_of)) <= _MOST_COUNTED
        return [[name] for name in self.columns] if few else []

    def prepare(self, table: Table) -> Codes:
        return [
            self._scale(numbers, *ends)
            for numbers, ends in zip(
                read_numbers(table, truth=False), self.bounds, strict=True
            )
        ]

    def _scale(
        self, numbers: NDArray[np.float64], low: float, high: float
    ) -> NDArray[np.int64]:
        """Place numbers on the grid, in parts of a step: the last use of floats before the noise."""
        place = (np.clip(numbers, low, high) - low) / (high - low)
        return np.rint(place * (self.mechanism.steps * SUBSTEPS)).astype(np.int64)

    def randomise(
        self, codes: Codes, records: list[bytes], randomness: Randomness
    ) -> Reports:
        if self.memo is not None:
            reports = self.memo.report(codes, records)
        else:
            sources = [randomness("report", name) for name in self.columns]
            pairs = zip(codes, sources, strict=True)
            reports = [
                self.mechanism.report(round_at_random(code, source), source)
                for code, source in pairs
            ]
        # Mostly, the reports of the mechanism ascend and are all different: they are their own places.
        placed = [
            places[report] if (np.diff(places) != 1).any() else report
            for places, report in zip(self.places_of, reports, strict=True)
        ]
        if self.sampling is None:
            return placed
        # Which columns a record reports is drawn without looking at a value; permanent reports are of the same ones.
        if self.memo is None:
            drawn = self.sampling.draw(randomness("sample"), len(codes[0]))
        else:
            drawn = self.memo.draw(self.sampling, records)
        return [
            np.where(own, report, -1)
            for own, report in zip(drawn.T, placed, strict=True)
        ]

    def write(self, reports: Reports, table: Table) -> Any:
        columns = [
            values[report]
            for values, report in zip(self.values_of, reports, strict=True)
        ]
        if self.sampling is None:
            return table.rebuild(columns, self.columns)
        columns = [
            np.where(report < 0, np.nan, own)
            for own, report in zip(columns, reports, strict=True)
        ]
        return missing_for_nan(table.rebuild(columns, self.columns))

    def encode(self, table: Table) -> Any:
        """Write the numbers, clipped to their bounds: not private."""
        columns = [
            np.clip(numbers, *ends)
            for numbers, ends in zip(
                read_numbers(table, truth=False), self.bounds, strict=True
            )
        ]
        return table.rebuild(columns, self.columns)

    def read(self, reports: Any) -> Reports:
        table = self.report_table(reports)
        named = Table(self.columns, table.columns, table.native)
        if self.sampling is None:
            return [
                self._place(place, numbers)
                for place, numbers in enumerate(read_numbers(named, truth=False))
            ]
        columns = read_numbers(named, missing=True, truth=False)
        given = ~np.isnan(columns)
        if (given.sum(axis=0) != self.sampling.size).any():
            raise ValueError(
                f"a report of this transformer holds a number in {self.sampling.size} of its columns"
            )
        placed = [np.full(len(numbers), -1) for numbers in columns]
        for place, (own, numbers, rows) in enumerate(
            zip(placed, columns, given, strict=True)
        ):
            own[rows] = self._place(place, numbers[rows])
        return placed

    def _place(self, column: int, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        """Find the place of each number among those that may be reported."""
        values = self.values_of[column]
        above = np.clip(np.searchsorted(values, numbers), 1, len(values) - 1)
        nearest = above - (numbers - values[above - 1] < values[above] - numbers)
        # Reports may have been written with fewer digits.
        if (np.abs(values[nearest] - numbers) > 1e-6 * (values[-1] - values[0])).any():
            name = self.columns[column]
            raise ValueError(
                f"column {name!r} holds numbers that are not reports of this transformer"
            )
        return nearest

    def tally(self, reports: Reports) -> ReportTally:
        pairs = zip(reports, self.values_of, strict=True)
        return self._tally_of(
            [
                np.bincount(report[report >= 0], minlength=len(values))
                for report, values in pairs
            ]
        )

    def report_counts(self, reports: Reports) -> NDArray[np.int64]:
        return self.tallied_counts(self.tally(reports))

    def tallied_counts(self, tally: ReportTally) -> NDArray[np.int64]:
        return joined_counts(tally.n_reports, [fold(counts) for counts in tally.counts])

    def empty_tally(self) -> ReportTally:
        return self._tally_of(
            [np.zeros(len(values), np.int64) for values in self.values_of]
        )

    def tally_counts(self, rows: Any, counts: NDArray[np.int64]) -> ReportTally:
        table, tally = read_table(rows), self.empty_tally()
        for name, numbers in zip(
            table.names, read_numbers(table, truth=False), strict=True
        ):
            column = self.columns.index(name)
            np.add.at(tally.counts[column], self._place(column, numbers), counts)
        return self._tally_of(tally.counts)

    def _tally_of(self, counts: Sequence[NDArray[np.int64]]) -> ReportTally:
        sizes = [int(column.sum()) for column in counts]
        n_reports = sum(sizes) // self.n_reported
        return ReportTally(self.meaning, tuple(counts), tuple(sizes), n_reports)

    @property
    def meaning(self) -> dict[str, Any]:
        """What a server must know to read the reports."""
        bounds = (self.bounds + 0.0).tolist()
        fields = [
            {
                "columns": [name],
                **self.mechanism.parameters(),
                "epsilon": str(self.share),
                "bounds": ends,
                "shape": [len(values)],
                "possible": "one",
            }
            for name, ends, values in zip(
                self.columns, bounds, self.values_of, strict=True
            )
        ]
        sampled = {} if self.sampling is None else {"weights": [*self.sampling.weights]}
        return {
            "encoder": "NumericPerturber",
            "n_sampled": self.n_sampled,
            "fields": fields,
            **sampled,
        }

    @property
    def _plain(self) -> dict[str, Any]:
        return {
            "encoder": "NumericPerturber",
            "columns": list(self.columns),
            **self.mechanism.parameters(),
            "epsilon of a column": str(self.share),
            "bounds": (self.bounds + 0.0).tolist(),
            "n_values": [len(values) for values in self.values_of],
            **(
                {}
                if self.sampling is None
                else {
                    "n_sampled": self.sampling.size,
                    "weights": [*self.sampling.weights],
                }
            ),
        }

    def shuffle_pairs(self, released: Released) -> tuple[ReportPair, ...]:
        pair = self.mechanism.shuffle_pair()
        if self.sampling is None:
            return shuffled_parts([pair] * self.n_reported, "split", released)
        # A sampled report names its columns: a tally of such reports is not one of each column by itself.
        return drawn_parts(pair, self.n_reported)

    def parameters(self) -> dict[str, Any]:
        meaning = self._plain
        return meaning | {
            "columns": list(zip(self.columns, meaning.pop("bounds"), strict=True))
        }

    def without_secrets(self) -> NumericProtocol:
        return replace(self, memo=None)

    def cost_of_changes(self, n_values: int) -> Fraction:
        """Add up the epsilons of a record's permanent reports: those of `n_values` positions of each column."""
        return (
            self.n_reported
            * min(n_values, self.mechanism.steps + 1)
            * Fraction(self.mechanism.epsilon)
        )

    def _check_tally(self, tally: ReportTally) -> None:
        check_tally(tally, self.meaning)
        if tally.n_reports == 0:
            raise ValueError(
                "Found a tally of 0 sample(s) (rows); at least 1 is required"
            )

    def estimate(  # type: ignore[override]
        self, tally: ReportTally, *, confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate the mean of each column."""
        self._check_tally(tally)
        return estimate_means(self, tally, confidence_level)

    def estimate_distribution(
        self, tally: ReportTally, options: DistributionOptions
    ) -> pd.DataFrame:
        """Estimate how the values of each column are distributed over bins of equal width."""
        self._check_tally(tally)
        return estimate_distributions(self, tally, options)

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        small = (self.mechanism.steps + 1) ** 2 <= most_entries
        return [iter([channel]) for channel in self.channel()] if small else None

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact probabilities of the reports of each column, given the position on the grid."""
        table, merged = self.mechanism.channel(), []
        for values, places in zip(self.values_of, self.places_of, strict=True):
            rows = []
            for row in table:
                entries = [Fraction(0)] * len(values)
                for place, share in zip(places.tolist(), row, strict=True):
                    entries[place] += share
                rows.append(entries)
            merged.append(rows)
        return merged


def _numbers(
    estimates: list[tuple[int, int]], steps: int, low: float, high: float
) -> NDArray[np.float64]:
    """Return the number that each report stands for, rounded once."""
    start, step = Fraction(low), (Fraction(high) - Fraction(low)) / steps
    # start + step * n / d as a quotient of two whole numbers, whose division rounds correctly.
    constant, factor, whole = (
        start.numerator * step.denominator,
        step.numerator * start.denominator,
        start.denominator * step.denominator,
    )
    try:
        return np.array(
            [(constant * d + factor * n) / (whole * d) for n, d in estimates]
        )
    except OverflowError:
        raise ValueError(
            "epsilon is too small, or the bounds are too far apart: the reports would overflow"
        ) from None
