"""The mechanism with the least worst-case variance, from a linear program, in exact integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, combinations
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from skdp.exact import exp_bounds
from skdp.oracles._base import capped_epsilon
from skdp.oracles.numeric._mechanism import NumericMechanism, check_steps
from skdp.randomness import ONE, ByteSource, uniform_integers

Floats = NDArray[np.float64]

_VALUES = 257
"""Numbers on which a search for a better outcome starts."""
_OUTCOMES_A_NODE = 6
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
    # Every private channel is a mixture of outcomes whose probability is w at some
    # nodes and e^eps * w at the others ([1]_, theorem 2), so the least worst-case
    # variance is a linear program with a column for each value and each subset of the
    # nodes. Few are needed: columns are generated until no reduced cost is negative.
    # For one value, the best subset is where its part of the cost is negative; for one
    # subset, the cost is a parabola in the value. The weights of a mechanism add up to
    # at most 1, so the least reduced cost bounds what is still to be gained.
    # .. [1] P. Kairouz, S. Oh, P. Viswanath (2016). Extremal mechanisms for local
    #    differential privacy. JMLR 17.
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
        limit = np.sort(costs_of_old)[
            min(len(values), _OUTCOMES_A_NODE * len(nodes)) - 1
        ]
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


_SOLVED = 2.0**-10, 8.0
"""The range of epsilon for which the program is solved; beyond, the outcomes of its ends are used."""
_MOST = Fraction(36)
"""The largest epsilon: the rarest outcome has a weight of thousands."""
_FINE = 3.0
"""The epsilon up to which 17 nodes are enough."""
_SMALLEST = 2.0**-50
_PURE_NOISE = (
    "epsilon = {:g} for a number is too small: the reports would be pure noise"
)
_MOST_OUTCOMES = 1 << 7
_VALUE_BITS = 32

Outcome = tuple[int, int, int]
"""Its weight in units of 2**-64, its estimate in steps * 2**-32 from the middle, and its nodes as bits."""


class Optimal(NumericMechanism):
    """The mechanism with the least worst-case variance that an unbiased report can have.

    The position is rounded at random, without bias, to one of up to 33 nodes. The
    report is one of finitely many outcomes, each of which is e^eps times as probable at
    some nodes as at the others: mixtures of such outcomes are all that privacy allows
    ([1]_, theorem 2). Which outcomes, how probable, and what they stand for is the
    solution of a linear program, whose dual bounds what any unbiased report can have: a
    variance that is 0.1 % smaller at the worst number for ``epsilon = 1``, 1 % for 4,
    and 4 % for 6. It is then rounded to integers, with more noise; what is left of the
    probability goes to one more outcome, for the middle.

    Parameters
    ----------
    steps : int
        The number of steps of the grid, from 1 to 65,536.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0. The program is solved for epsilons
        from 2**-10 to 8; beyond, the outcomes are those for the nearer end, with the
        probabilities of the requested epsilon.
    outcomes : sequence of (weight, value, nodes), optional
        The `outcomes` of another one, to be the same mechanism where another version of
        the solver finds another solution. By default, the program is solved, which
        takes seconds; the last 64 solutions are kept.

    Attributes
    ----------
    outcomes : tuple of (int, int, int)
        Half of the outcomes; the others are their mirror images. The probability at
        nodes outside of the third number, whose bits are nodes, in units of 2**-64; the
        estimate before its last correction, in units of 2**-32 steps from the middle;
        and the nodes.
    nodes : ndarray of int64
        The nodes, ascending.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or the outcomes are not those of a private and
        unbiased mechanism.

    Notes
    -----
    **Privacy.** As for `NumericMechanism`: `epsilon` is computed from the integers,
    whatever the solver found.

    The estimates solve the equations of unbiasedness exactly, in fractions.

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath (2016). Extremal mechanisms for local
       differential privacy. JMLR 17.

    Examples
    --------
    The largest variance over that of the range -1 to 1, next to that of Laplace noise:

    >>> from skdp.oracles import ClampedLaplace
    >>> positions = range(1025)
    >>> [round(float(max(make(1024, 2.0).variances(positions))) / 512**2, 2) for make in (Optimal, ClampedLaplace)]
    [0.87, 1.63]
    """

    def __init__(
        self,
        steps: int,
        epsilon: float | Fraction,
        *,
        outcomes: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.steps = check_steps(steps)
        wanted = min(capped_epsilon(epsilon), _MOST)
        self.nodes = _nodes(self.steps, 32 if wanted > _FINE else 16)
        most = exp_bounds(wanted)[0]
        self.outcomes: tuple[Outcome, ...] = (
            _rounded(self.nodes, float(wanted), most)
            if outcomes is None
            else _checked(outcomes, len(self.nodes))
        )
        self.n_reports = 2 * len(self.outcomes) + 1
        self._shares = _shares(self.outcomes, len(self.nodes), most)
        columns = list(zip(*self._shares, strict=True))
        if min(map(min, columns)) <= 0:
            raise ValueError(
                "outcomes must be possible at each node, and those of a node add up to less than 1"
            )
        self.worst_ratio = max(Fraction(max(column), min(column)) for column in columns)
        if self.worst_ratio > most:
            raise ValueError("outcomes must keep epsilon")
        self._estimates = _unbiased(self.outcomes, self._shares, self.nodes)
        self._squares = _squares(self._estimates, self._shares)
        # What a word of 64 bits must reach for each report but the first, at each node.
        self._thresholds = np.array(
            [[*accumulate(row[:-1])] for row in self._shares], np.uint64
        )

    @property
    def estimates(self) -> list[Fraction]:  # numpydoc ignore=RT01
        """The unbiased estimate of the position, in steps, for each report."""
        return self._estimates

    @cached_property
    def variation(self) -> Fraction:  # numpydoc ignore=RT01
        """The largest total variation distance of the reports of two nodes, of which all positions are mixtures."""
        pairs = combinations(self._shares, 2)
        most = max(
            sum(max(a - b, 0) for a, b in zip(one, other, strict=True))
            for one, other in pairs
        )
        return Fraction(most, ONE)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {
            "outcomes": [list(outcome) for outcome in self.outcomes]
        }

    def _draw(
        self, positions: NDArray[np.int64], source: ByteSource
    ) -> NDArray[np.int64]:
        below, rest = self._below(positions)
        gaps = np.diff(self.nodes)
        common = int(np.lcm.reduce(gaps))
        up = uniform_integers(source, common, positions.size) < rest * (
            common // gaps[below]
        )
        node = below + up
        words = source.bytes(8 * positions.size).view("<u8")
        # A binary search for all records at once: always as many comparisons.
        least, most = (
            np.zeros(positions.size, np.int64),
            np.full(positions.size, self.n_reports - 1),
        )
        for _ in range((self.n_reports - 1).bit_length()):
            middle = (least + most) // 2
            inside = middle < most
            reached = inside & (
                words >= self._thresholds[node, np.minimum(middle, self.n_reports - 2)]
            )
            least, most = (
                np.where(reached, middle + 1, least),
                np.where(inside & ~reached, middle, most),
            )
        return least

    def _below(
        self, positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the node below each position, not the last one, and the distance to it."""
        below = np.clip(
            np.searchsorted(self.nodes, positions, side="right") - 1,
            0,
            len(self.nodes) - 2,
        )
        return below, positions - self.nodes[below]

    def _row(self, position: int) -> list[Fraction]:
        (below,), (rest,) = self._below(np.array([position]))
        gap = int(self.nodes[below + 1] - self.nodes[below])
        pairs = zip(self._shares[below], self._shares[below + 1], strict=True)
        return [
            Fraction((gap - int(rest)) * lower + int(rest) * upper, gap * ONE)
            for lower, upper in pairs
        ]

    def _at_nodes(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each node after rounding, for each position."""
        above = np.arange(len(self.nodes)) * np.ones((len(positions), 1))
        exact = np.interp(positions, self.nodes, np.arange(len(self.nodes)))
        shares: NDArray[np.float64] = np.maximum(
            0, 1 - np.abs(above - exact[:, np.newaxis])
        )
        return shares

    def _spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        shares = np.array(self._shares, float) / ONE
        spread: NDArray[np.float64] = (
            weights @ self._at_nodes(np.arange(self.steps + 1.0)) @ shares
        )
        return spread

    def _variances(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        return (
            np.interp(positions, self.nodes, self._squares)
            - (positions - self.steps / 2) ** 2
        )


def _nodes(steps: int, most: int) -> NDArray[np.int64]:
    """Return the positions of the nodes, symmetric about the middle."""
    gaps = min(steps, most if steps % 2 == 0 else most - 1)
    lower = np.arange(gaps // 2 + 1) * steps // gaps
    return np.unique(np.concatenate([lower, steps - lower]))


def _rounded(
    nodes: NDArray[np.int64], epsilon: float, most: Fraction
) -> tuple[Outcome, ...]:
    """Solve the program, and round its solution to integers so that something is left at each node."""
    steps = int(nodes[-1])
    plan = best_plan(
        tuple((2 * nodes / steps - 1).tolist()),
        min(max(epsilon, _SOLVED[0]), _SOLVED[1]),
    )
    # The patterns are balanced, so for another epsilon, weights and values change by a
    # factor each.
    excess = float(most - 1)
    if excess < _SMALLEST:
        raise ValueError(_PURE_NOISE.format(epsilon))
    held = plan.weights @ (plan.patterns + plan.patterns[:, ::-1].astype(float)) / 2
    weights = plan.weights / (plan.weights.sum() + excess * held.mean())
    both = (
        plan.weights
        * plan.values
        @ (plan.patterns - plan.patterns[:, ::-1].astype(float))
        / 2
    )
    moved = both[-1] / plan.weights.sum() * (weights.sum() * excess)
    values = plan.values / moved
    bits = [
        sum(1 << node for node in np.flatnonzero(pattern).tolist())
        for pattern in plan.patterns
    ]
    left = Fraction(1, 1 << 32)
    while left < 1:
        whole = [
            int(Fraction(weight) * (1 - left) * (ONE // 2))
            for weight in weights.tolist()
        ]
        scaled = (
            round(Fraction(value) * steps * (1 << _VALUE_BITS - 1))
            for value in values.tolist()
        )
        outcomes = tuple(
            one
            for one in sorted(zip(whole, scaled, bits, strict=True), key=_value)
            if one[0]
        )
        rest = [row[len(outcomes)] for row in _shares(outcomes, len(nodes), most)]
        if min(rest) > 0 and Fraction(max(rest), min(rest)) <= most:
            return outcomes
        left *= 4
    raise ValueError(_PURE_NOISE.format(epsilon))


def _value(outcome: Outcome) -> int:
    return outcome[1]


def _checked(outcomes: Any, n_nodes: int) -> tuple[Outcome, ...]:
    """Check outcomes of others."""
    read = [*outcomes] if isinstance(outcomes, Sequence) else []
    if not 0 < len(read) <= _MOST_OUTCOMES or not all(
        isinstance(one, Sequence)
        and len(one) == 3
        and all(type(number) is int for number in one)
        for one in read
    ):
        raise TypeError(
            f"outcomes must be 1 to {_MOST_OUTCOMES:,} triples of whole numbers"
        )
    limits = ONE, 1 << 128, (1 << n_nodes) - 1
    if not all(
        0 <= number <= limit
        for one in read
        for number, limit in zip(one, limits, strict=True)
    ):
        raise ValueError(
            "outcomes must be weights below 1, values that are not too large, and nodes of the grid"
        )
    return tuple((int(weight), int(value), int(nodes)) for weight, value, nodes in read)


def _shares(
    outcomes: Sequence[Outcome], n_nodes: int, most: Fraction
) -> list[list[int]]:
    """Return the probability of each report at each node, in units of 2**-64: mirror images, the rest, outcomes."""
    likely = [int(weight * most) for weight, _, _ in outcomes]
    rows = []
    for node in range(n_nodes):
        mirrored, own = (
            [
                high if pattern >> place & 1 else low
                for (low, _, pattern), high in zip(outcomes, likely, strict=True)
            ]
            for place in (n_nodes - 1 - node, node)
        )
        rows.append([*reversed(mirrored), ONE - sum(mirrored) - sum(own), *own])
    return rows


def _unbiased(
    outcomes: Sequence[Outcome], shares: list[list[int]], nodes: NDArray[np.int64]
) -> list[Fraction]:
    """Correct the values of a few outcomes so that all estimates are unbiased, and return them."""
    n, middle = len(outcomes), Fraction(int(nodes[-1]), 2)
    values = [Fraction(value, 1 << _VALUE_BITS) for _, value, _ in outcomes]
    upper = [
        node for node in range(len(nodes)) if 2 * int(nodes[node]) > int(nodes[-1])
    ]
    # The value of an outcome counts as much as its own probability exceeds that of its
    # mirror image.
    excess = [
        [
            own - other
            for own, other in zip(
                shares[i][n + 1 :], reversed(shares[i][:n]), strict=True
            )
        ]
        for i in upper
    ]
    missing = [
        (int(nodes[i]) - middle) * ONE
        - sum(own * value for own, value in zip(row, values, strict=True))
        for i, row in zip(upper, excess, strict=True)
    ]
    for place, change in _solved(excess, missing).items():
        values[place] += change
    return [
        *(middle - value for value in reversed(values)),
        middle,
        *(middle + value for value in values),
    ]


def _squares(estimates: list[Fraction], shares: list[list[int]]) -> NDArray[np.float64]:
    """Return the mean square of the estimate at each node, about the middle."""
    middle = estimates[len(estimates) // 2]
    squares = [(estimate - middle) ** 2 for estimate in estimates]
    return np.array([float(sum(map(mul, row, squares)) / ONE) for row in shares])


def _solved(table: list[list[int]], wanted: list[Fraction]) -> dict[int, Fraction]:
    """Solve equations exactly, in as many unknowns as there are equations: those with the largest pivots."""
    rows = [
        [*map(Fraction, row), value] for row, value in zip(table, wanted, strict=True)
    ]
    chosen: dict[int, int] = {}
    for equation, row in enumerate(rows):
        pivot = max(range(len(row) - 1), key=lambda column: abs(row[column]))
        if row[pivot] == 0:
            raise ValueError("outcomes must let the position be estimated without bias")
        chosen[pivot] = equation
        rows[equation] = row = [number / row[pivot] for number in row]
        for other, numbers in enumerate(rows):
            if other != equation and (factor := numbers[pivot]):
                rows[other] = [
                    number - factor * own
                    for number, own in zip(numbers, row, strict=True)
                ]
    return {column: rows[equation][-1] for column, equation in chosen.items()}
