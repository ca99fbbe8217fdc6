"""Sums over the rows of a Polars LazyFrame: read in batches by the streaming engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.engines._engine import import_extra
from skdp.engines._large import add_up_batches
from skdp.frames import LargeTable, Summary

# Before, a stream of batches ended without a word when its source failed.
polars = import_extra("polars", "polars", least="1.37")

_ROWS = 1 << 17


class PolarsTable(LargeTable):
    """A lazy frame.

    Parameters
    ----------
    frame : polars.LazyFrame
        The table.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.sample = polars.DataFrame(schema=frame.collect_schema())

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        """Sum over all rows, batch by batch.

        Parameters
        ----------
        names : sequence
            The columns that the summary reads.
        summary : Summary
            What is summed up.

        Returns
        -------
        list of ndarray of int64
            The sums.
        """
        batches = self._frame.select(names).collect_batches(chunk_size=_ROWS, maintain_order=False)
        return add_up_batches(batches, summary)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        """Leave out what a person contributes beyond a limit, in Polars.

        Parameters
        ----------
        person : str
            The column that says whose each row is.
        most : int
            How many rows of a person are kept.
        seed : int
            Of the choice.

        Returns
        -------
        PolarsTable
            The rows that are kept.
        """
        rank = polars.struct(polars.all()).hash(seed).rank("ordinal").over(person)
        return type(self)(self._frame.filter(rank <= most))


def open_table(frame: Any) -> PolarsTable:
    """Open a lazy frame.

    Parameters
    ----------
    frame : polars.LazyFrame
        The table.

    Returns
    -------
    PolarsTable
        For sums over its rows.
    """
    return PolarsTable(frame)
