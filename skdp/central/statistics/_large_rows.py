"""Private rows of a large table, of which only sums are loaded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.central.statistics._rows import Rows
from skdp.tables import LargeTable, Table, read_table

Change = Callable[[Rows], Rows]


@dataclass(frozen=True, eq=False)
class LargeRows(Rows):
    """The rows of a large table, which are read again for each of their sums; in memory there are none of them."""

    source: LargeTable = field(kw_only=True)
    names: tuple[Any, ...] = field(kw_only=True)
    read: _Read = field(kw_only=True)

    @classmethod
    def open(
        cls,
        source: LargeTable,
        names: tuple[Any, ...],
        place: Callable[[Table], Rows],
        changes: tuple[Change, ...] = (),
    ) -> Self:
        """Prepare to read the rows of some columns, whose values are checked already."""
        read = _Read(place, changes)
        none = read(
            nw.from_native(source.sample, eager_only=True).select(*names).to_native()
        )
        return cls(
            none.places,
            none.codes,
            none.square,
            none.constant,
            none.most,
            source=source,
            names=names,
            read=read,
        )

    def sum(self, what: Callable[[Rows], NDArray[np.int64]]) -> NDArray[np.int64]:
        (total,) = self.source.add_up(self.names, _Sum(self.read, what, what(self)))
        return total

    def map(self, change: Change) -> Rows:
        return self.open(
            self.source, self.names, self.read.place, (*self.read.changes, change)
        )


@dataclass(frozen=True, eq=False)
class _Read:
    """How a batch becomes rows: picklable, to be sent to workers."""

    place: Callable[[Table], Rows]
    changes: tuple[Change, ...]

    def __call__(self, batch: Any) -> Rows:
        rows = self.place(read_table(batch))
        for change in self.changes:
            rows = change(rows)
        return rows


@dataclass(frozen=True, eq=False)
class _Sum:
    """Sums over rows: a `skdp.tables.Summary`."""

    read: _Read
    what: Callable[[Rows], NDArray[np.int64]]
    nothing: NDArray[np.int64]

    def zeros(self) -> list[NDArray[np.int64]]:
        return [np.zeros_like(self.nothing)]

    def add(
        self,
        sums: list[NDArray[np.int64]],
        batch: Any,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        """Add the rows of a batch, which no engine has grouped."""
        sums[0] += self.what(self.read(batch))

    def n_distinct(self, sample: Any) -> float:
        """Return infinity: all rows differ."""
        return math.inf
