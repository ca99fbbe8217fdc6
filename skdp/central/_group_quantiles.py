"""Quantiles of columns by group, and their intervals, by the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Floats, Integers
from skdp.central._quantiles import QuantilePlan, count_groups, make_candidates
from skdp.central.statistics import (
    MAX_NOISY_COUNT,
    Batches,
    Estimate,
)
from skdp.domain import Domain
from skdp.exact import log_upper
from skdp.privacy import Loss, PrivacyBudget, exponential_loss
from skdp.randomness import ByteSource, unimodal_choice

# Largest number of exact counts, which take 8 bytes each.
MAX_COUNTS = 1 << 27


@dataclass(frozen=True, eq=False)
class GroupQuantiles:
    """A planned release of quantiles of columns by group, with intervals."""

    # Exact counts of the cells of each column, of shape (n_groups, n_cells); see
    # `find_cells`. They exist during `fit` only.
    cells: Sequence[Integers]
    candidates: Sequence[Floats]
    probabilities: Sequence[Fraction]
    budget: PrivacyBudget

    mechanism: ClassVar[str] = QuantilePlan.mechanism

    @classmethod
    def read(
        cls,
        rows: Batches,
        domain: Domain,
        bounds: Floats,
        probabilities: Sequence[Fraction],
        budget: PrivacyBudget,
    ) -> GroupQuantiles:
        """Count the values of each column by group and candidate.

        `rows` has the key columns of `domain`, and then the columns of numbers. Rows with an undeclared key are
        excluded.
        """
        candidates = [make_candidates(low, high) for low, high in bounds.tolist()]
        n_counts = domain.size * sum(2 * values.size for values in candidates)
        if n_counts > MAX_COUNTS:
            raise ValueError(
                f"`keys` must declare at most {MAX_COUNTS * domain.size // n_counts:,} "
                f"groups for quantiles of {len(candidates)} columns, got "
                f"{domain.size:,}. Use fewer keys or columns."
            )
        cells = count_groups(rows, domain, candidates)
        return cls(cells, candidates, probabilities, budget)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The privacy losses of all choices; empty for a budget in rho or mu."""
        # A record is in one group, and the choices of all groups are one exponential
        # mechanism, whose candidates are tuples.
        if self.budget.kind != "epsilon":
            return ()
        n_endpoints = 2 * len(self.cells) * len(self.probabilities)
        loss = exponential_loss(self._endpoint_budget.amount)
        return (*self._select_group(0).losses, replace(loss, count=n_endpoints))

    @property
    def _endpoint_budget(self) -> PrivacyBudget:
        """The budget of one endpoint of an interval; all endpoints share two thirds equally."""
        n_endpoints = 2 * len(self.cells) * len(self.probabilities)
        return self.budget * Fraction(2, 3 * n_endpoints)

    def _select_group(self, group: int) -> QuantilePlan:
        """Return the planned choices of the quantiles of one group, with a third of the budget."""
        cells = [counts[group] for counts in self.cells]
        return QuantilePlan(
            cells, self.candidates, sorted(self.probabilities), self.budget / 3
        )

    def draw(self, level: float, source: ByteSource) -> Estimate:
        """Draw the quantiles and their intervals: arrays (n_groups, n_columns, n_probabilities)."""
        n_groups = len(self.cells[0])
        order = np.argsort(np.array(self.probabilities, float))
        shape = n_groups, len(self.cells), len(self.probabilities)
        value, lower, upper = np.empty((3, *shape))
        tail = (1 - Fraction(level)) / 2
        for group, column in product(range(n_groups), range(len(self.cells))):
            cells, candidates = self.cells[column][group], self.candidates[column]
            # Cell 2 i is the candidate i, and cell 2 i + 1 is between it and the next.
            up_to_next = np.add.reduceat(cells, np.arange(0, cells.size, 2))
            down_to_next = np.add.reduceat(cells[::-1], np.arange(0, cells.size, 2))
            for index, probability in enumerate(self.probabilities):
                # An upper endpoint is a lower endpoint in descending order.
                endpoints = []
                for counts, fraction in (
                    (up_to_next, probability),
                    (down_to_next, 1 - probability),
                ):
                    scores = EndpointScores.with_added_values(
                        counts, fraction, self._endpoint_budget, tail
                    )
                    endpoints.append(scores.choose(source))
                lower[group, column, index] = candidates[endpoints[0]]
                upper[group, column, index] = candidates[::-1][endpoints[1]]
        for group in range(n_groups):
            value[group][:, order] = self._select_group(group).draw(source)
        # An interval also contains the chosen quantile.
        lower, upper = np.minimum(lower, value), np.maximum(upper, value)
        return Estimate(value, np.full(shape, math.nan), lower, upper)


@dataclass(frozen=True, eq=False)
class EndpointScores:
    """Scores of the candidates for the lower endpoint of the interval of a quantile.

    An upper endpoint is a lower endpoint in descending order.
    """

    # For n values and the probability p = a / b, the candidate c_i is a lower endpoint if
    # at most p n values are below it. The table gets s additional values below all
    # candidates, so that the p n-th smallest of all n + s values is about s values below the
    # quantile. With A_i of the n + s values below c_i, the distance of a candidate is
    #     max(b A_i - a n, a n - b A_(i + 1), 0),
    # and the score is minus the distance. Adding a value changes b A_i - a n by b - a or
    # by -a, so it changes the distance by at most max(a, b - a).
    #
    # One candidate or more has the distance 0, because A_0 = 0 and A_N = n + s. If more
    # than p n values are below c_i, then its distance exceeds b s. So with N candidates and the rate r
    # of the exponential mechanism, the probability of such a choice is at most x / (1 + x)
    # with x = (N - 1) exp(-r b s), and exactly this much for the worst table.

    # A_0, ..., A_N.
    n_below: Integers
    # a n and b.
    target: int
    denominator: int
    rate: Fraction

    @classmethod
    def with_added_values(
        cls,
        counts: Integers,
        probability: Fraction,
        budget: PrivacyBudget,
        tail: Fraction,
    ) -> EndpointScores:
        """Add values below all candidates, so that the endpoint exceeds the quantile with a small probability only.

        `counts` are the numbers of values from each candidate up to the next, `probability` defines the
        quantile (1/2 is the median), `budget` is the budget of one endpoint, and `tail` is the largest probability
        that the endpoint exceeds the quantile.
        """
        numerator, denominator = probability.numerator, probability.denominator
        sensitivity = max(numerator, denominator - numerator)
        rate = budget.choice / (2 * sensitivity * budget.rows)
        odds = (counts.size - 1) * (1 - tail) / tail
        n_added = math.ceil(Fraction(log_upper(odds)) / (rate * denominator))
        n_added = min(n_added, MAX_NOISY_COUNT)
        n_below = np.append(0, np.cumsum(counts)) + n_added
        n_below[0] = 0  # so that some candidate has the distance 0
        target = numerator * int(counts.sum())
        return cls(n_below, target, denominator, rate)

    def choose(self, source: ByteSource) -> int:
        """Choose the index of an endpoint."""
        return unimodal_choice(
            source,
            self.n_below.size - 1,
            self._find_within,
            self._distance,
            self.rate,
            self._list_scores,
        )

    def _distance(self, index: int) -> int:
        """Return the distance of a candidate."""
        below, up_to_next = self.n_below[index : index + 2].tolist()
        b = self.denominator
        return max(b * below - self.target, self.target - b * up_to_next, 0)

    def _find_within(self, distance: int) -> tuple[int, int]:
        """Return the range of the candidates with at most a distance."""
        smallest = -((distance - self.target) // self.denominator)  # rounded up
        largest = (self.target + distance) // self.denominator
        start = np.searchsorted(self.n_below[1:], max(smallest, 0), "left")
        largest = min(largest, int(self.n_below[-1]))
        stop = np.searchsorted(self.n_below[:-1], largest, "right")
        return int(start), int(stop)

    def _list_scores(self) -> NDArray[Any]:
        """Return the scores of all candidates."""
        multiples = self.denominator * self.n_below.astype(object)
        distances = np.maximum(
            multiples[:-1] - self.target, self.target - multiples[1:]
        )
        scores: NDArray[Any] = -np.maximum(distances, 0)
        return scores
