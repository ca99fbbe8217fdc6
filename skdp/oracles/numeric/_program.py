"""The linear program of the least worst-case variance of an unbiased private report of a number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Floats = NDArray[np.float64]

_VALUES = 257
"""Numbers on which a search for a better outcome starts."""
_KEPT = 6
"""Outcomes that the next program keeps, for each of its nodes."""
_MOST_ROUNDS = 1000


@dataclass(frozen=True, eq=False)
class Plan:
    """Outcomes of a mechanism, each of which stands for two: itself and its mirror image."""

    weights: Floats
    """The probability of an outcome at nodes outside of its pattern, times two."""
    values: Floats
    """The estimate of the number, which is in -1 ... 1; at least 0."""
    patterns: NDArray[np.bool_]
    """For each outcome, the nodes at which it is e^epsilon times as probable."""
    variance: float
    """The largest over all numbers, which are rounded to two nodes at random."""
    lower_bound: float
    """What the variance of no unbiased mechanism on these nodes is below."""


@lru_cache(maxsize=64)
def best_plan(nodes: tuple[float, ...], epsilon: float, gap: float = 5e-4) -> Plan:
    """Find outcomes for nodes that ascend from -1 to 1 and are symmetric, to a relative gap of the variance."""
    # Every private channel is a mixture of outcomes whose probability is w at some nodes and e^eps * w at the others
    # ([1]_, theorem 2), so the least worst-case variance is a linear program with a column for each value and each
    # subset of the nodes. Few are needed: columns are generated until no reduced cost is negative. For one value, the
    # best subset is where its part of the cost is negative; for one subset, the cost is a parabola in the value.
    # The weights of a mechanism add up to at most 1, so the least reduced cost bounds what is still to be gained.
    # .. [1] P. Kairouz, S. Oh, P. Viswanath (2016). Extremal mechanisms for local differential privacy. JMLR 17.
    program = _Program(np.array(nodes), math.exp(epsilon))
    values, patterns = program.start()
    lower_bound = 0.0
    for _ in range(_MOST_ROUNDS):
        weights, variance, prices = program.solve(values, patterns)
        new_values, new_patterns, costs, least = program.better(prices)
        lower_bound = max(lower_bound, variance + min(least, 0.0))
        if variance - lower_bound <= gap * variance:
            break
        costs_of_old = program.costs(prices, values, patterns)
        limit = np.sort(costs_of_old)[min(len(values), _KEPT * len(nodes)) - 1]
        kept = (weights > 0) | (costs_of_old <= limit)
        improving = costs < 0
        values = np.concatenate([values[kept], new_values[improving]])
        patterns = np.vstack([patterns[kept], new_patterns[improving]])
    used = weights > 0
    scale = program.reach**2
    found = patterns[used]
    balanced = _balanced(weights[used], found)
    return Plan(
        balanced,
        values[used] * program.reach,
        found,
        variance * scale,
        lower_bound * scale,
    )


def _balanced(weights: Floats, patterns: NDArray[np.bool_]) -> Floats:
    """Change weights slightly so that the patterns that hold a node have the same total weight at each node."""
    both = (patterns + patterns[:, ::-1].astype(float)) / 2
    spread = (both - both.mean(axis=1, keepdims=True)).T * weights
    change: Floats = np.linalg.lstsq(spread, -spread.sum(axis=1), rcond=None)[0]
    return weights * (1 + change)


class _Program:
    """The program over symmetric mechanisms: its rows are for the nodes from the middle to the upper end."""

    def __init__(self, nodes: Floats, odds: float) -> None:
        self.odds = odds
        self.reach = (odds + 1) / (
            odds - 1
        )  # values are in units of those of Duchi's mechanism
        self._nodes, self._first = nodes, len(nodes) // 2
        upper = nodes[self._first :]
        self._moved = upper > 0
        middles = (upper[:-1] + upper[1:]) / 2
        self._between = (
            middles if self._moved[0] is np.False_ else np.append(middles, 0.0)
        )
        self._equal_to = np.concatenate([np.ones(len(upper)), upper[self._moved]])
        self._at_most = np.concatenate([upper, self._between]) ** 2 / self.reach**2
        self._values = np.append(
            np.linspace(0, 1.7, _VALUES), np.geomspace(1.75, 1e3, _VALUES // 4)
        )

    def start(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return Duchi's mechanism, and a report of nothing."""
        patterns = self._nodes >= self._nodes[1:, np.newaxis]
        return np.append(np.ones(len(patterns)), 0.0), np.vstack(
            [patterns, np.zeros(len(self._nodes), bool)]
        )

    def solve(
        self, values: Floats, patterns: NDArray[np.bool_]
    ) -> tuple[Floats, float, tuple[Floats, ...]]:
        """Return the best weights of some outcomes, the variance, and the price of each row at all nodes."""
        weight = 1 + (self.odds - 1) * patterns
        even, uneven = (
            (weight + sign * weight[:, ::-1])[:, self._first :] / 2 for sign in (1, -1)
        )
        square = values[:, np.newaxis] ** 2 * even
        between = (square[:, :-1] + square[:, 1:]) / 2
        if len(self._between) == between.shape[1] + 1:
            between = np.hstack([between, square[:, :1]])
        equal = np.hstack(
            [even, values[:, np.newaxis] * uneven[:, self._moved] * self.reach]
        )
        largest = -np.ones((len(self._at_most), 1))
        found = linprog(
            np.append(np.zeros(len(values)), 1.0),
            A_ub=np.hstack([np.hstack([square, between]).T, largest]),
            b_ub=self._at_most,
            A_eq=np.hstack([equal.T, np.zeros((len(self._equal_to), 1))]),
            b_eq=self._equal_to,
            method="highs-ds",
        )
        if found.status != 0:
            raise RuntimeError(
                f"the linear program of the optimal mechanism was not solved: {found.message}"
            )
        return (
            found.x[:-1],
            found.fun,
            self._prices(found.eqlin.marginals, -found.ineqlin.marginals),
        )

    def _prices(self, equal: Floats, at_most: Floats) -> tuple[Floats, ...]:
        n, moved = (
            len(self._nodes) - self._first,
            np.zeros(len(self._nodes) - self._first),
        )
        moved[self._moved] = equal[n:]
        squares, between = at_most[:n].copy(), at_most[n:]
        squares[:-1] += between[: n - 1] / 2
        squares[1:] += between[: n - 1] / 2
        squares[0] += between[n - 1 :].sum()
        return (
            self._everywhere(squares),
            self._everywhere(moved * self.reach, -1),
            self._everywhere(equal[:n]),
        )

    def _everywhere(self, upper: Floats, sign: int = 1) -> Floats:
        """Share the price of a row between its nodes above and below the middle."""
        prices = np.zeros(len(self._nodes))
        prices[self._first :] += upper / 2
        prices[: len(upper)] += sign * upper[::-1] / 2
        return prices

    def better(
        self, prices: tuple[Floats, ...]
    ) -> tuple[Floats, NDArray[np.bool_], Floats, float]:
        """Return local minima of the reduced cost: values, patterns, costs; and the least cost that was met."""
        squares, moved, _ = prices
        costs = self._best_costs(prices, self._values)
        padded = np.concatenate([[np.inf], costs, [np.inf]])
        values, least = (
            self._values[(costs <= padded[:-2]) & (costs <= padded[2:])],
            costs.min(),
        )
        for _ in range(4):
            weight = 1 + (self.odds - 1) * (_parts(prices, values) < 0)
            curve = weight @ squares
            best = weight @ moved / (2 * np.maximum(curve, np.finfo(float).tiny))
            values = np.where(curve > 0, np.clip(best, 0, self._values[-1]), values)
        patterns = _parts(prices, values) < 0
        costs = self.costs(prices, values, patterns)
        return values, patterns, costs, min(least, costs.min())

    def _best_costs(self, prices: tuple[Floats, ...], values: Floats) -> Floats:
        parts = _parts(prices, values)
        best: Floats = parts.sum(axis=1) + (self.odds - 1) * np.minimum(parts, 0).sum(
            axis=1
        )
        return best

    def costs(
        self, prices: tuple[Floats, ...], values: Floats, patterns: NDArray[np.bool_]
    ) -> Floats:
        """Return reduced costs."""
        parts = _parts(prices, values)
        costs: Floats = parts.sum(axis=1) + (self.odds - 1) * (parts * patterns).sum(
            axis=1
        )
        return costs


def _parts(prices: tuple[Floats, ...], values: Floats) -> Floats:
    """Return what each node adds to the cost of a report of each value."""
    squares, moved, equal = prices
    column = values[:, np.newaxis]
    return squares * column**2 - moved * column - equal
