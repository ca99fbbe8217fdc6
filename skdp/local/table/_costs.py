"""The exact errors of a plan: which columns are reported together, and how often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import inf, prod
from typing import Any, Literal, TypeAlias

import numpy as np

from skdp.local.numeric import numeric_mechanism
from skdp.local.protocol import margin_error
from skdp.oracles import ORACLES, choose_oracle
from skdp.oracles.numeric import mean_error

Purpose: TypeAlias = Literal["margins", "pairs", "means", "model"]
"""What a table of reports is for."""

Group: TypeAlias = tuple[Any, ...]
"""The columns of one report."""

# Oracles whose margins have errors in closed form.
_ORACLES_OF_GROUPS = (
    "randomized_response",
    "subset_selection",
    "optimized_unary_encoding",
    "symmetric_unary_encoding",
)
# A table of all pairs has many groups: their reports have one column or two.
_ORACLES_OF_OVERLAPPING = ("randomized_response", "local_hashing")
# As `max_report_bytes` of the encoders by default.
MOST_REPORT_BYTES = 1024
# A number counts as what it is rounded to at random: one of its two ends.
_CELLS_OF_A_MEAN = 2


@dataclass(frozen=True)
class Margin:
    """The error of shares of a column or pair, or of a mean: n times the variance."""

    cells: int
    noise: float
    spread: float
    """The variance of the true values, which sampling adds; those of uniform data."""

    @classmethod
    def of_shares(cls, cells: int, noise: float) -> Margin:
        """Return the error of the shares of some cells."""
        return cls(cells, noise, (1 - 1 / cells) / cells)

    def error(self, inclusion: float) -> float:
        """Return n times the mean squared error if a share of the records report it."""
        return self.noise / inclusion + (1 / inclusion - 1) * self.spread


@dataclass(frozen=True)
class Report:
    """How a group of columns is reported."""

    group: Group
    kind: str
    """The name of an oracle, or of a mechanism for numbers."""
    cells: int
    margins: tuple[Margin, ...]
    """The error of each column."""
    terms: tuple[tuple[float, Margin], ...]
    """What the purpose asks of the group: errors of columns or pairs, with weights."""

    @property
    def cost(self) -> float:
        """What it adds to the error, a constant aside: a multiple of 1 / inclusion."""
        return sum(
            weight * (margin.noise + margin.spread) for weight, margin in self.terms
        )


class Costs:
    """The errors of plans for one table, purpose and epsilon."""

    def __init__(
        self,
        epsilon: Fraction,
        sizes: Mapping[Any, int],
        importance: Mapping[Any, float],
        *,
        purpose: Purpose,
        oracle: str,
        mechanism: str,
        grid_size: int,
    ) -> None:
        self.epsilon = epsilon
        self.sizes = sizes  # the number of values of each column of categories
        self.names = tuple(importance)
        self.purpose = purpose
        self._importance = importance
        self._oracle = oracle
        self._mechanism = mechanism
        self._grid_size = grid_size
        # A search asks for the same groups again and again, and columns are alike if
        # they have as many values, or are numbers.
        self._report = cache(self._new_report)
        self._errors_of_values = cache(self._find_errors_of_values)
        self._margin_of_number = cache(self._find_margin_of_number)

    def is_number(self, column: Any) -> bool:
        """Return whether a column holds numbers, and not categories."""
        return column not in self.sizes

    def reports(self, groups: Sequence[Group], n_reported: int) -> tuple[Report, ...]:
        """Return how groups are reported by a record that reports some of them."""
        among: tuple[str, ...] = _ORACLES_OF_GROUPS
        if is_overlapping(groups):
            among = _ORACLES_OF_OVERLAPPING
        return tuple(self._report(group, n_reported, among) for group in groups)

    def _new_report(
        self, group: Group, n_reported: int, among: tuple[str, ...]
    ) -> Report:
        share = self.epsilon / n_reported
        if self.is_number(group[0]):
            margin = self._margin_of_number(share)
            weight = self._weight(group[0], margin.cells)
            term = (weight, margin)
            return Report(group, self._mechanism, margin.cells, (margin,), (term,))
        sizes = tuple(self.sizes[column] for column in group)
        kind, margins, pair_margins = self._errors_of_values(sizes, share, among)
        terms = []
        if self.purpose == "pairs":
            for pair, margin in zip(combinations(group, 2), pair_margins, strict=True):
                terms.append((self._pair_weight(*pair, margin.cells), margin))
        else:
            for column, margin in zip(group, margins, strict=True):
                terms.append((self._weight(column, margin.cells), margin))
        return Report(group, kind, prod(sizes), margins, tuple(terms))

    def _find_margin_of_number(self, share: Fraction) -> Margin:
        mechanism = numeric_mechanism(self._mechanism, self._grid_size, share)
        spread = (1 + 2 / mechanism.steps) / 12  # of a uniform draw from the grid
        return Margin(_CELLS_OF_A_MEAN, mean_error(mechanism), spread)

    def _find_errors_of_values(
        self, sizes: tuple[int, ...], share: Fraction, among: tuple[str, ...]
    ) -> tuple[str, tuple[Margin, ...], tuple[Margin, ...]]:
        """Return the oracle of columns of these sizes, and errors of them and pairs."""
        if len(sizes) == 1:
            among = tuple(ORACLES)  # the error of the only margin is that of the oracle
        if self._oracle != "auto":
            among = (self._oracle,)
        kind, oracle = choose_oracle(
            prod(sizes), share, max_report_bytes=MOST_REPORT_BYTES, among=among
        )
        if len(sizes) == 1:
            return kind, (Margin.of_shares(oracle.k, oracle.mean_squared_error),), ()
        margins = [Margin.of_shares(k, margin_error(oracle, k)) for k in sizes]
        pair_margins = []
        for first, second in combinations(sizes, 2):
            error = margin_error(oracle, first * second)
            pair_margins.append(Margin.of_shares(first * second, error))
        return kind, tuple(margins), tuple(pair_margins)

    def _weight(self, column: Any, cells: int) -> float:
        """Return how much the error of a column counts."""
        if self.purpose == "means":
            return self._importance[column]
        return self._importance[column] * cells

    def _pair_weight(self, first: Any, second: Any, cells: int) -> float:
        return self._importance[first] * self._importance[second] * cells

    def error(
        self, reports: Sequence[Report], n_reported: int, inclusions: Sequence[float]
    ) -> float:
        """Return the weighted mean of the errors that the purpose asks for."""
        total = 0.0
        total_weight = 0.0
        for report, inclusion in zip(reports, inclusions, strict=True):
            for weight, margin in report.terms:
                total += weight * margin.error(inclusion)
                total_weight += weight
        # All pairs are reported together where groups overlap.
        groups = [report.group for report in reports]
        if self.purpose == "pairs" and not is_overlapping(groups):
            for weight, error in self._errors_between(reports, n_reported):
                total += weight * error
                total_weight += weight
        return total / total_weight

    def _errors_between(
        self, reports: Sequence[Report], n_reported: int
    ) -> Iterator[tuple[float, float]]:
        """Iterate over the pairs of columns of two groups: weights and errors."""
        groups_of_values = []
        for report in reports:
            if not self.is_number(report.group[0]):
                margins = dict(zip(report.group, report.margins, strict=True))
                groups_of_values.append(margins)
        # Two groups are reported by the same record with this probability, if all are
        # drawn alike.
        n = len(reports)
        together = n_reported * (n_reported - 1) / max(1, n * (n - 1))
        for first_margins, second_margins in combinations(groups_of_values, 2):
            for first, first_margin in first_margins.items():
                for second, second_margin in second_margins.items():
                    margin = _product_margin(first_margin, second_margin)
                    error = margin.error(together) if together else inf
                    yield self._pair_weight(first, second, margin.cells), error


def _product_margin(first: Margin, second: Margin) -> Margin:
    """Return the error of the pairs of two columns that are reported by themselves."""
    # The mean square of a cell of a column is its variance plus its share of the
    # records.
    square = (first.cells * first.noise + 1) * (second.cells * second.noise + 1)
    cells = first.cells * second.cells
    return Margin.of_shares(cells, (square - 1) / cells)


def is_overlapping(groups: Sequence[Group]) -> bool:
    """Return whether a column is in several groups."""
    columns = {column for group in groups for column in group}
    return len(columns) < sum(map(len, groups))


def best_inclusions(costs: Sequence[float], n_reported: int) -> list[float]:
    """Return probabilities, at most 1, that make the sum of costs / them least."""
    # They add up to `n_reported`. The best ones are proportional to the roots of the
    # costs; those above 1 become 1, and the others share what is left.
    roots = np.sqrt(np.asarray(costs, float))
    inclusions = np.ones(len(costs))
    is_free = np.ones(len(costs), bool)
    while is_free.any():
        n_left = n_reported - (~is_free).sum()
        shares = roots[is_free] / roots[is_free].sum() * n_left
        if (shares <= 1).all():
            inclusions[is_free] = shares
            break
        is_free[np.flatnonzero(is_free)[shares > 1]] = False
    return inclusions.tolist()
