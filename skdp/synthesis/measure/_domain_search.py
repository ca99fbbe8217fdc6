"""A search of the limits of numbers and of frequent texts, in place of a declared domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from skdp.central import LimitSearch
from skdp.central.statistics import Batches, CategorySearch
from skdp.domain import FoundCategories, Interval, close_interval
from skdp.randomness import ByteSource


@dataclass(frozen=True, eq=False)
class DomainSearch:
    """A search of the values of some columns with a part of the budget of a release."""

    found: Mapping[Any, Interval | FoundCategories]
    """The columns: intervals with an open end, and texts without values."""
    limits: LimitSearch | None = None
    texts: CategorySearch | None = None

    def name(self, mechanism: str) -> str:
        """Return the names of the mechanisms of the search and of the rest of the release."""
        searches = [each.mechanism for each in (self.texts, self.limits) if each]
        return "; ".join([*searches, mechanism])

    @property
    def method(self) -> dict[str, str]:
        """Public facts for the note of method of a guarantee."""
        return {} if self.texts is None else {"categories": self.texts.describe()}

    def count(self, rows: Batches) -> tuple[Any, Any]:
        """Count the values of the columns without noise, for `find`."""
        texts = None if self.texts is None else self.texts.count(rows)
        return texts, None if self.limits is None else self.limits.count(rows)

    def find(
        self,
        rows: Batches,
        counts: tuple[Any, Any],
        source: ByteSource,
        state_limits: Callable[..., None],
    ) -> dict[Any, Interval | FoundCategories]:
        """Find the values of the columns, by name; `counts` are the result of `count`.

        `state_limits` is a method of an estimator that states all limits.
        """
        values: dict[Any, Interval | FoundCategories] = {}
        of_texts, of_limits = counts
        if self.texts is not None:
            values |= self.texts.find(of_texts, source)
        if self.limits is not None:
            limits = self.limits.find(rows, of_limits, source, "the synthesizer")
            state_limits(self.limits, limits)
            for name, ends in zip(self.limits.names, limits.tolist(), strict=True):
                interval = self.found.get(name)
                if isinstance(interval, Interval):
                    values[name] = close_interval(interval, *ends)
        return values
