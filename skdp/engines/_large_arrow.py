"""Sums over the rows of a pyarrow Dataset: read batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.engines._arrow import _report_batches
from skdp.engines._engine import import_extra
from skdp.engines._large import add_up_batches
from skdp.frames import LargeTable, Summary

pyarrow = import_extra("pyarrow", "duckdb")


class ArrowTable(LargeTable):
    """A dataset.

    Parameters
    ----------
    frame : pyarrow.dataset.Dataset
        The table.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.sample = frame.schema.empty_table()

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
        batches = _report_batches(self._frame, list(names))
        return add_up_batches((pyarrow.Table.from_batches([batch]) for batch in batches), summary)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        """Leave out what a person contributes beyond a limit, which Arrow cannot.

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
        ArrowTable
            Never.

        Raises
        ------
        ValueError
            Always: Arrow brings no rows together.
        """
        raise ValueError(
            "a pyarrow Dataset cannot bring the rows of a person together: scan the files with Polars or DuckDB, such "
            "as polars.scan_pyarrow_dataset(dataset), or bound the contribution before"
        )


def open_table(frame: Any) -> ArrowTable:
    """Open a dataset.

    Parameters
    ----------
    frame : pyarrow.dataset.Dataset
        The table.

    Returns
    -------
    ArrowTable
        For sums over its rows.
    """
    return ArrowTable(frame)
