"""Sums over the rows of a Polars LazyFrame: read in batches by the streaming engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.engines._engine import import_extra
from skdp.engines._errors import read_quietly
from skdp.engines._large import add_up_batches
from skdp.frames import LargeTable, Summary

# Before, a stream of batches ended without a word when its source failed.
polars = import_extra("polars", "polars", least="1.37")

_ROWS = 1 << 17


class PolarsTable(LargeTable):
    """A lazy frame."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.sample = polars.DataFrame(schema=frame.collect_schema())

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        batches = self._frame.select(names).collect_batches(chunk_size=_ROWS, maintain_order=False)
        return add_up_batches(read_quietly(batches), summary)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        rank = polars.struct(polars.all()).hash(seed).rank("ordinal").over(person)
        return type(self)(self._frame.filter(rank <= most))


def open_table(frame: Any) -> PolarsTable:
    """Open a lazy frame."""
    return PolarsTable(frame)
