"""The exact errors of a plan for a table: which columns are reported together, how many reports, how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import inf, prod
from typing import Any, Literal, TypeAlias

import numpy as np

from skdp.local.protocol import margin_error
from skdp.oracles import NumericMechanism, choose_oracle
from skdp.oracles.numeric import mean_error

Purpose: TypeAlias = Literal["margins", "pairs", "means", "model"]
"""What a table of reports is for."""

Group: TypeAlias = tuple[Any, ...]
"""The columns of one report."""

_OF_GROUPS = (
    "randomized_response",
    "subset_selection",
    "optimized_unary_encoding",
    "symmetric_unary_encoding",
)
"""Oracles whose margins have errors in closed form."""
_OF_OVERLAPPING = ("randomized_response", "local_hashing")
"""Oracles for many groups, whose reports have one column or two."""
_MOST_BYTES = 1024
_CELLS_OF_A_MEAN = 2
"""A number counts as what it is rounded to at random: one of its two ends."""


@dataclass(frozen=True)
class Margin:
    """The error of a column: n times the variance of a share of its records, or of their mean."""

    cells: int
    noise: float
    spread: float
    """The variance of the true values, which sampling adds; those of uniform data."""

    def error(self, inclusion: float) -> float:
        """Return n times the mean squared error of a cell if a share of the records report the column."""
        return self.noise / inclusion + (1 / inclusion - 1) * self.spread


@dataclass(frozen=True)
class Report:
    """How a group of columns is reported."""

    kind: str
    """The name of an oracle, or of a mechanism for numbers."""
    cells: int
    margins: tuple[Margin, ...]
    pairs: tuple[Margin, ...] = ()


class Costs:
    """The errors of plans for one table, purpose and epsilon."""

    def __init__(
        self,
        sizes: Mapping[Any, int],
        numbers: Sequence[Any],
        epsilon: Fraction,
        purpose: Purpose,
        importance: Mapping[Any, float],
        oracle: str,
        mechanism: Callable[[Fraction], NumericMechanism],
        described: str,
        among: Sequence[str] = _OF_GROUPS,
    ) -> None:
        self.sizes, self.numbers, self.epsilon, self.purpose = (
            dict(sizes),
            frozenset(numbers),
            epsilon,
            purpose,
        )
        self._importance, self._oracle, self._mechanism, self._described = (
            importance,
            oracle,
            mechanism,
            described,
        )
        self._among = among
        self.report, self._of_sizes = cache(self._report), cache(self._report_of_sizes)

    def _report(self, group: Group, size: int) -> Report:
        """Return how a group is reported by a record that reports `size` groups."""
        share = self.epsilon / size
        if group[0] in self.numbers:
            mechanism = self._mechanism(share)
            noise, spread = mean_error(mechanism), (1 + 2 / mechanism.steps) / 12
            return Report(
                self._described,
                _CELLS_OF_A_MEAN,
                (Margin(_CELLS_OF_A_MEAN, noise, spread),),
            )
        return self._of_sizes(tuple(self.sizes[name] for name in group), share)

    def _report_of_sizes(self, sizes: tuple[int, ...], share: Fraction) -> Report:
        """Return how columns with these numbers of values are reported together."""
        settings: dict[str, Any] = {"max_report_bytes": _MOST_BYTES}
        if self._oracle != "auto":
            settings = {"among": (self._oracle,)}
        elif len(sizes) > 1:
            settings["among"] = self._among
        name, oracle = choose_oracle(prod(sizes), share, **settings)
        if len(sizes) == 1:
            return Report(
                name, oracle.k, (_margin(oracle.k, oracle.mean_squared_error),)
            )
        margins = tuple(_margin(cells, margin_error(oracle, cells)) for cells in sizes)
        products = [
            sizes[one] * sizes[two] for two in range(len(sizes)) for one in range(two)
        ]
        pairs = tuple(_margin(cells, margin_error(oracle, cells)) for cells in products)
        return Report(name, oracle.k, margins, pairs)

    def of(self, groups: Sequence[Group]) -> Costs:
        """Return the costs of groups, which are reported in few columns each where they overlap."""
        if not is_overlapping(groups):
            return self
        return Costs(
            self.sizes, tuple(self.numbers), self.epsilon, self.purpose, self._importance, self._oracle,
            self._mechanism, self._described, _OF_OVERLAPPING,
        )  # fmt: skip

    def weight(self, column: Any, cells: int) -> float:
        """Return how much the error of a cell of a column counts."""
        return self._importance[column] * (1 if self.purpose == "means" else cells)

    def cost(self, group: Group, size: int) -> float:
        """Return what a group adds to the error, as a multiple of 1 / inclusion, but for a constant."""
        report = self.report(group, size)
        if self.purpose == "pairs" and group[0] not in self.numbers:
            both = [
                self._of_pair(group[one], group[two])
                for two in range(len(group))
                for one in range(two)
            ]
            terms = [
                (weight * margin.cells, margin)
                for weight, margin in zip(both, report.pairs, strict=True)
            ]
        else:
            pairs = zip(group, report.margins, strict=True)
            terms = [
                (self.weight(column, margin.cells), margin) for column, margin in pairs
            ]
        return sum(weight * (margin.noise + margin.spread) for weight, margin in terms)

    def error(
        self, groups: Sequence[Group], size: int, inclusions: Sequence[float]
    ) -> float:
        """Return the weighted mean of n times the mean squared errors of the cells that the purpose asks for."""
        total = weights = 0.0
        for group, share in zip(groups, inclusions, strict=True):
            for column, margin in zip(
                group, self.report(group, size).margins, strict=True
            ):
                weight = self.weight(column, margin.cells)
                if self.purpose != "pairs" or column in self.numbers:
                    total, weights = (
                        total + weight * margin.error(share),
                        weights + weight,
                    )
        if self.purpose != "pairs":
            return total / weights
        found = self._inside_errors if is_overlapping(groups) else self._pair_errors
        for weight, error in found(groups, size, inclusions):
            total, weights = total + weight * error, weights + weight
        return total / weights

    def _pair_errors(
        self, groups: Sequence[Group], size: int, inclusions: Sequence[float]
    ) -> Any:
        """Iterate over the pairs of columns of values: how much the error of a pair counts, and this error."""
        # Two groups are reported by the same record with this probability, if all are drawn alike.
        together = (
            size * (size - 1) / (len(groups) * (len(groups) - 1))
            if len(groups) > 1
            else 1.0
        )
        yield from self._inside_errors(groups, size, inclusions)
        columns = [
            (place, *pair)
            for place, group in enumerate(groups)
            if group[0] not in self.numbers
            for pair in zip(group, self.report(group, size).margins, strict=True)
        ]
        for two, (place, column, margin) in enumerate(columns):
            for other_place, other, other_margin in columns[:two]:
                if place == other_place:
                    continue
                cells = margin.cells * other_margin.cells
                # The mean square of a cell of a column is its variance plus its share of the records.
                squares = (margin.cells * margin.noise + 1) * (
                    other_margin.cells * other_margin.noise + 1
                )
                error = (
                    _margin(cells, (squares - 1) / cells).error(together)
                    if together
                    else inf
                )
                yield self._of_pair(column, other) * cells, error

    def _inside_errors(
        self, groups: Sequence[Group], size: int, inclusions: Sequence[float]
    ) -> Any:
        """Iterate over the pairs of columns that are in one group."""
        for group, inclusion in zip(groups, inclusions, strict=True):
            pairs = [
                (group[one], group[two])
                for two in range(len(group))
                for one in range(two)
            ]
            for pair, margin in zip(pairs, self.report(group, size).pairs, strict=True):
                yield self._of_pair(*pair) * margin.cells, margin.error(inclusion)

    def _of_pair(self, one: Any, two: Any) -> float:
        return self._importance[one] * self._importance[two]


def is_overlapping(groups: Sequence[Group]) -> bool:
    """Return whether a column is in several groups."""
    return len({name for group in groups for name in group}) < sum(map(len, groups))


def _margin(cells: int, noise: float) -> Margin:
    return Margin(cells, noise, (1 - 1 / cells) / cells)


def best_inclusions(costs: Sequence[float], size: int) -> list[float]:
    """Return the probabilities that make the sum of costs / probability least: they add up to `size`, none above 1."""
    roots, found = np.sqrt(np.asarray(costs, float)), np.ones(len(costs))
    free = np.ones(len(costs), bool)
    while free.any():
        shares = roots[free] / roots[free].sum() * (size - (~free).sum())
        if (shares <= 1).all():
            found[free] = shares
            break
        free[np.flatnonzero(free)[shares > 1]] = False
    return found.tolist()
