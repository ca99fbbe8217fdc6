"""The tables for benchmarks/synthesis_adult.py: Adult, coded by a public domain, and wider and longer ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skdp import Domain, Interval
from skdp.datasets import load_adult

LEFT_OUT = "fnlwgt"
GAINS = [
    0,
    1,
    1_000,
    *range(2_000, 6_001, 500),
    7_000,
    7_500,
    8_000,
    9_000,
    10_000,
    12_000,
    14_000,
    15_000,
    16_000,
]
GAINS += [20_000, 25_000, 30_000, 50_000, 100_000]
LOSSES = [
    0,
    1,
    500,
    1_000,
    1_250,
    *range(1_500, 2_001, 50),
    2_100,
    2_200,
    2_300,
    2_400,
    2_600,
    3_000,
    4_500,
]
BINS: dict[str, Any] = {
    "age": Interval(16, 96, bins=32),
    "education-num": range(1, 17),
    "capital-gain": Interval(edges=GAINS),
    "capital-loss": Interval(edges=LOSSES),
    "hours-per-week": Interval(0, 100, bins=32),
}
# The setting of AIM's paper: five columns in 32 bins of equal width.
AIM_BINS: dict[str, Any] = {
    "age": Interval(17, 90, bins=32),
    "fnlwgt": Interval(12_000, 1_500_000, bins=32),
    "education-num": range(1, 17),
    "capital-gain": Interval(0, 100_000, bins=32),
    "capital-loss": Interval(0, 4_400, bins=32),
    "hours-per-week": Interval(1, 99, bins=32),
}
NOISE = 0.5  # how many of the entries of a noisy copy are another row's
WIDTHS = 14, 28, 56, 112
LONG = 1_000_000


@dataclass(frozen=True)
class Table:
    """Rows, the public domain of their columns, and the codes of both rows and rows to be predicted."""

    frame: pd.DataFrame
    domain: Domain
    test: pd.DataFrame | None = None

    @property
    def codes(self) -> np.ndarray:
        """The codes of the rows, an array of shape (n_columns, n_rows)."""
        return encode(self.frame, self.domain)

    @property
    def categorical(self) -> list[bool]:
        """Whether the values of a column have no order."""
        return [column not in AIM_BINS for column in self.domain.columns]


def encode(frame: pd.DataFrame, domain: Domain) -> np.ndarray:
    """Code rows that lie within a domain: an array of shape (n_columns, n_rows)."""
    codes = np.array(domain.encode([frame[column] for column in domain.columns]))
    if (codes >= np.array(domain.sizes)[:, None]).any():
        raise ValueError("a value lies outside the domain")
    return codes


def adult(rows: int | None = None) -> Table:
    """Adult's training rows without fnlwgt, or some of them, and its test rows."""
    frame, test = (
        load_adult(subset=subset).frame.drop(columns=LEFT_OUT)
        for subset in ("train", "test")
    )
    domain = _domain(frame, BINS)
    if rows is not None:
        chosen = np.random.default_rng(0).permutation(len(frame))[:rows]
        frame = frame.iloc[chosen].reset_index(drop=True)
    return Table(frame, domain, test)


def aim(rows: int | None = None) -> Table:
    """All rows of Adult and all 15 columns, as in AIM's paper."""
    frame = load_adult(subset="all").frame
    return Table(frame.iloc[:rows], _domain(frame, AIM_BINS))


def growth(rows: int | None = None) -> Iterator[Table]:
    """Adult widened to 14, 28, 56 and 112 columns, and lengthened to a million rows."""
    rng, table = np.random.default_rng(0), adult(rows)
    names = table.domain.columns
    for width in WIDTHS:
        blocks = range(width // len(names))
        frames = [_block(table.frame, number, rng) for number in blocks]
        columns = {
            _name(column, number): table.domain[column]
            for number in blocks
            for column in names
        }
        yield Table(pd.concat(frames, axis=1), Domain(columns))
    if rows is None:
        chosen = rng.integers(len(table.frame), size=LONG)
        yield Table(table.frame.iloc[chosen].reset_index(drop=True), table.domain)


def _domain(frame: pd.DataFrame, bins: dict[str, Any]) -> Domain:
    """Declare every column: by its bins, or by the values that Adult's documentation lists."""
    public = load_adult().domain
    return Domain(
        {
            column: bins[column] if column in bins else public[column]
            for column in frame.columns
        }
    )


def _block(frame: pd.DataFrame, number: int, rng: np.random.Generator) -> pd.DataFrame:
    """Repeat the columns: by turns a noisy copy of the same rows, and other rows in their place (without noise)."""
    n, copy = len(frame), number % 2 == 1
    rows = np.arange(n) if copy or number == 0 else rng.permutation(n)
    columns = {}
    for column in frame.columns:
        mixed = (
            np.where(rng.random(n) < NOISE, rng.integers(n, size=n), rows)
            if copy
            else rows
        )
        columns[_name(column, number)] = frame[column].take(mixed).array
    return pd.DataFrame(columns)


def _name(column: str, number: int) -> str:
    return column if number == 0 else f"{column} {number}"
