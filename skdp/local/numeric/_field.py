"""Numbers: positions on a grid between public bounds, randomised."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import read_numbers
from skdp.local.memo import PermanentDraws, name_bytes
from skdp.local.numeric._estimation import estimate_mean
from skdp.local.protocol import Channel, Codes, Field, Randomness, Rows, fold
from skdp.oracles import NumericMechanism
from skdp.oracles.numeric import SUBSTEPS, round_at_random
from skdp.privacy import LaplaceLoss, PureLoss
from skdp.privacy.shuffle import ReportPair
from skdp.tables import Table

_MOST_COUNTED = 1 << 16
"""Of the numbers that may be reported, for an engine to count them."""


@dataclass(frozen=True, eq=False, repr=False)
class NumberField(Field):
    """A column of numbers on a grid between public bounds, reported by a mechanism."""

    # A report is a place in `numbers`.

    name: Any
    bounds: tuple[float, float]
    mechanism: NumericMechanism
    share: Fraction
    """The epsilon that was asked for."""

    numbers: NDArray[np.float64] = field(init=False)
    """The numbers that may be reported, ascending: a report is a place among them."""
    places: NDArray[np.intp] = field(init=False)
    """The place of each report of the mechanism; some may be one number, where floats are too few."""

    def __post_init__(self) -> None:
        reported = _numbers(
            self.mechanism.quotients, self.mechanism.steps, *self.bounds
        )
        numbers = np.unique(reported)
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "places", np.searchsorted(numbers, reported))

    @property
    def columns(self) -> tuple[Any, ...]:  # type: ignore[override]
        return (self.name,)

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        return self.mechanism.epsilon

    @property
    def loss(self) -> PureLoss | LaplaceLoss:
        """The privacy loss of a report."""
        return self.mechanism.loss

    @property
    def possible(self) -> str:  # type: ignore[override]
        return "one"

    @property
    def is_countable(self) -> bool:  # type: ignore[override]
        return len(self.numbers) <= _MOST_COUNTED

    @property
    def n_states(self) -> int:  # type: ignore[override]
        return self.mechanism.steps + 1

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.numbers),)

    def _read(self, columns: Sequence[Any], *, missing: bool = False) -> Any:
        """Read the column as floats."""
        table = Table(self.columns, tuple(columns), None)
        (numbers,) = read_numbers(table, missing=missing, truth=False)
        return numbers

    def prepare(self, columns: Sequence[Any]) -> Codes:
        # Parts of a step of the grid: the last use of floats before the noise.
        low, high = self.bounds
        position = (np.clip(self._read(columns), low, high) - low) / (high - low)
        parts = np.rint(position * (self.mechanism.steps * SUBSTEPS))
        return [parts.astype(np.int64)]

    def report(self, codes: Codes, randomness: Randomness) -> NDArray[Any]:
        source = randomness("report", self.name)
        positions = round_at_random(codes[0], source)
        return self._placed(self.mechanism.report(positions, source))

    def report_permanent(self, codes: Codes, draws: PermanentDraws) -> NDArray[Any]:
        return self._placed(draws.numbers(self.mechanism, codes[0]))

    def _placed(self, reports: NDArray[Any]) -> NDArray[Any]:
        # Mostly, the reports of the mechanism ascend and differ: they are their own
        # places.
        if (np.diff(self.places) == 1).all():
            return reports
        return self.places[reports]

    def permanent_parts(self) -> list[bytes]:
        mechanism = json.dumps(self.mechanism.parameters(), sort_keys=True)
        ends = np.array(self.bounds) + 0.0  # no -0.0, whose bytes are others
        return [
            str(self.share).encode(),
            mechanism.encode(),
            name_bytes(self.name, "memoize=True"),
            ends.astype(">f8").tobytes(),
        ]

    def write(
        self,
        reports: NDArray[Any],
        like: Sequence[Any],
        drawn: NDArray[np.bool_] | None,
    ) -> list[Any]:
        numbers = self.numbers[reports]
        return [numbers if drawn is None else np.where(drawn, numbers, np.nan)]

    def read(self, columns: Sequence[Any], rows: Rows) -> NDArray[Any]:
        is_sampled = not isinstance(rows, slice)
        numbers = self._read(columns, missing=is_sampled)[rows]
        if is_sampled and np.isnan(numbers).any():
            raise ValueError(f"column {self.name!r} is missing in rows that report it")
        above = np.searchsorted(self.numbers, numbers)
        above = np.clip(above, 1, len(self.numbers) - 1)
        lower, upper = self.numbers[above - 1], self.numbers[above]
        nearest = above - (numbers - lower < upper - numbers)
        # Reports may have been written with fewer digits.
        tolerance = 1e-6 * (self.numbers[-1] - self.numbers[0])
        if (np.abs(self.numbers[nearest] - numbers) > tolerance).any():
            raise ValueError(
                f"column {self.name!r} holds numbers that are not reports of this "
                "transformer"
            )
        return nearest

    def are_reported(self, columns: Sequence[Any]) -> NDArray[np.bool_]:
        return ~np.isnan(self._read(columns, missing=True))

    def sums(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        return np.bincount(reports, minlength=len(self.numbers))

    def distinct_sums(
        self, reports: NDArray[Any], counts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        sums = np.zeros(self.shape, np.int64)
        np.add.at(sums, reports, counts)
        return sums

    def summed_parts(
        self, sums: NDArray[np.int64], size: int
    ) -> NDArray[np.int64] | None:
        return fold(sums)

    def estimate(  # type: ignore[override]
        self,
        sums: NDArray[np.int64],
        size: int,
        n_reports: int,
        *,
        confidence_level: float = 0.95,
    ) -> pd.DataFrame:
        """Estimate the mean."""
        return estimate_mean(self, sums, confidence_level)

    def parameters(self) -> dict[str, Any]:
        low, high = self.bounds
        return {
            **self.mechanism.parameters(),
            "epsilon": str(self.share),
            # No -0.0, whose text is another.
            "bounds": [low + 0.0, high + 0.0],
        }

    def declared(self) -> Mapping[str, Mapping[Any, Any]]:
        return {"bounds": {self.name: self.bounds}}

    def shuffle_pair(self) -> ReportPair:
        return self.mechanism.shuffle_pair()

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        is_small = (self.mechanism.steps + 1) ** 2 <= most_entries
        return [iter([self.channel()])] if is_small else None

    def channel(self) -> list[list[Fraction]]:
        """Return the exact probabilities of the numbers, given the position on the grid."""
        table = []
        for shares in self.mechanism.channel():
            row = [Fraction(0)] * len(self.numbers)
            for place, share in zip(self.places.tolist(), shares, strict=True):
                row[place] += share
            table.append(row)
        return table

    def encode(self, columns: Sequence[Any], randomness: Randomness) -> list[Any]:
        return [np.clip(self._read(columns), *self.bounds)]

    def check_encodable(self) -> None:
        pass


def _numbers(
    estimates: list[tuple[int, int]], steps: int, low: float, high: float
) -> NDArray[np.float64]:
    """Return the number that each report stands for, rounded once."""
    start, step = Fraction(low), (Fraction(high) - Fraction(low)) / steps
    # start + step * n / d as a quotient of two whole numbers, whose division rounds
    # correctly.
    constant, factor, denominator = (
        start.numerator * step.denominator,
        step.numerator * start.denominator,
        start.denominator * step.denominator,
    )
    try:
        return np.array(
            [(constant * d + factor * n) / (denominator * d) for n, d in estimates]
        )
    except OverflowError:
        raise ValueError(
            "epsilon is too small, or the bounds are too far apart: the reports would "
            "overflow"
        ) from None
