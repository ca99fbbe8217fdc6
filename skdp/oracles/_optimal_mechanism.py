"""The mechanism with the least worst-case variance, from a linear program, in exact integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, combinations
from operator import gt, itemgetter, mul, sub
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from skdp.exact import exp_bounds
from skdp.oracles._base import capped_epsilon, pure_noise
from skdp.oracles._numeric_mechanisms import NumericMechanism, check_steps
from skdp.randomness import ONE, ByteSource, uniform_integers

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Plan:
    """Outcomes of a mechanism, each of which stands for two: itself and its mirror image."""

    # The probability of an outcome at nodes outside of its pattern, times two.
    weights: Floats
    # The estimate of the number, which is in -1 ... 1; at least 0.
    values: Floats
    # For each outcome, the nodes at which it is e^epsilon times as probable.
    patterns: NDArray[np.bool_]
    # The largest over all numbers, which are rounded to two nodes at random.
    variance: float
    # What the variance of no unbiased mechanism on these nodes is below.
    lower_bound: float


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
    # Outcomes that the next program keeps, for each of its nodes.
    outcomes_a_node = 6
    # The most programs, if the gap is not reached before.
    most_rounds = 1000
    for n_rounds_left in reversed(range(most_rounds)):
        weights, variance, prices = program.solve(values, patterns)
        new_values, new_patterns, costs, least = program.better(prices)
        lower_bound = max(lower_bound, variance + min(least, 0.0))
        if variance - lower_bound <= gap * variance or n_rounds_left == 0:
            break
        old_costs = program.costs(prices, values, patterns)
        n_kept = min(len(values), outcomes_a_node * len(nodes))
        keep = (weights > 0) | (old_costs <= np.sort(old_costs)[n_kept - 1])
        improving = costs < 0
        values = np.concatenate([values[keep], new_values[improving]])
        patterns = np.vstack([patterns[keep], new_patterns[improving]])
    used = weights > 0
    scale = program.reach**2
    return Plan(
        weights=_balanced(weights[used], patterns[used]),
        values=values[used] * program.reach,
        patterns=patterns[used],
        variance=variance * scale,
        lower_bound=lower_bound * scale,
    )


def _balanced(weights: Floats, patterns: NDArray[np.bool_]) -> Floats:
    """Change weights slightly so that the patterns that hold a node have the same total weight at each node."""
    both = (patterns + patterns[:, ::-1].astype(float)) / 2
    spread = (both - both.mean(axis=1, keepdims=True)).T * weights
    change: Floats = np.linalg.lstsq(spread, -spread.sum(axis=1), rcond=None)[0]
    return weights * (1 + change)


class _Program:
    """The program over mechanisms in which each outcome is as probable as its mirror image."""

    def __init__(self, nodes: Floats, odds: float) -> None:
        self.odds = odds
        # Values are in units of those of Duchi's mechanism.
        self.reach = (odds + 1) / (odds - 1)
        self._nodes = nodes
        self._between = (nodes[:-1] + nodes[1:]) / 2
        # Rows of mirrored nodes, and of mirrored gaps, are the same: one of them is in
        # the program.
        self._upper = slice(len(nodes) // 2, None)
        self._gaps = slice((len(nodes) - 1) // 2, None)
        # Numbers on which a search for a better outcome starts.
        n_values = 257
        near = np.linspace(0, 1.7, n_values)
        self._values = np.append(near, np.geomspace(1.75, 1e3, n_values // 4))

    def start(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return Duchi's mechanism, and a report of nothing."""
        ends = self._nodes >= self._nodes[1:, np.newaxis]
        nothing = np.zeros((1, len(self._nodes)), bool)
        return np.append(np.ones(len(ends)), 0.0), np.vstack([ends, nothing])

    def solve(
        self, values: Floats, patterns: NDArray[np.bool_]
    ) -> tuple[Floats, float, tuple[Floats, ...]]:
        """Return the best weights of some outcomes, the variance, and the price of each row at all nodes."""
        # An outcome and its mirror image, of half of the weight each, have the shape
        # (n_outcomes, n_nodes).
        likely = 1 + (self.odds - 1) * patterns
        even = (likely + likely[:, ::-1]) / 2
        uneven = (likely - likely[:, ::-1]) / 2
        estimate = values[:, np.newaxis] * uneven * self.reach
        square = values[:, np.newaxis] ** 2 * even
        square_between = (square[:, :-1] + square[:, 1:]) / 2
        upper = self._upper
        squares = np.hstack([square[:, upper], square_between[:, self._gaps]]).T
        equal = np.hstack([even[:, upper], estimate[:, upper]]).T
        nodes = self._nodes[upper]
        positions = np.append(nodes, self._between[self._gaps])
        # The last unknown is the largest variance, which is to be the least.
        solution = linprog(
            np.append(np.zeros(len(values)), 1.0),
            A_ub=np.hstack([squares, -np.ones((len(squares), 1))]),
            b_ub=positions**2 / self.reach**2,
            A_eq=np.hstack([equal, np.zeros((len(equal), 1))]),
            b_eq=np.append(np.ones(len(nodes)), nodes),
            method="highs-ds",
        )
        if solution.status != 0:
            raise RuntimeError(
                "the linear program of the optimal mechanism was not solved: "
                f"{solution.message}"
            )
        prices = self._prices(solution.eqlin.marginals, -solution.ineqlin.marginals)
        return solution.x[:-1], solution.fun, prices

    def _prices(self, equal: Floats, at_most: Floats) -> tuple[Floats, ...]:
        """Return the prices of the squares, the estimates and the total at each node."""
        n_upper = len(equal) // 2
        squares, estimates, total = np.zeros((3, len(self._nodes)))
        squares[self._upper] = at_most[:n_upper]
        half = np.zeros(len(self._between))
        half[self._gaps] = at_most[n_upper:] / 2
        squares += np.append(half, 0) + np.append(0, half)
        total[self._upper] = equal[:n_upper]
        estimates[self._upper] = equal[n_upper:] * self.reach
        # Mirrored nodes share the price of their row.
        return (
            (squares + squares[::-1]) / 2,
            (estimates - estimates[::-1]) / 2,
            (total + total[::-1]) / 2,
        )

    def better(
        self, prices: tuple[Floats, ...]
    ) -> tuple[Floats, NDArray[np.bool_], Floats, float]:
        """Return local minima of the reduced cost: values, patterns, costs; and the least cost that was met."""
        squares, moved, _ = prices
        costs = self.costs(prices, self._values, _parts(prices, self._values) < 0)
        padded = np.pad(costs, 1, constant_values=np.inf)
        is_minimum = (costs <= padded[:-2]) & (costs <= padded[2:])
        values = self._values[is_minimum]
        least = costs.min()
        for _ in range(4):
            weight = 1 + (self.odds - 1) * (_parts(prices, values) < 0)
            curve = weight @ squares
            best = weight @ moved / (2 * np.maximum(curve, np.finfo(float).tiny))
            values = np.where(curve > 0, np.clip(best, 0, self._values[-1]), values)
        patterns = _parts(prices, values) < 0
        costs = self.costs(prices, values, patterns)
        return values, patterns, costs, min(least, costs.min())

    def costs(
        self, prices: tuple[Floats, ...], values: Floats, patterns: NDArray[np.bool_]
    ) -> Floats:
        """Return reduced costs."""
        likely = 1 + (self.odds - 1) * patterns
        costs: Floats = (_parts(prices, values) * likely).sum(axis=1)
        return costs


def _parts(prices: tuple[Floats, ...], values: Floats) -> Floats:
    """Return what each node adds to the cost of a report of each value."""
    squares, moved, equal = prices
    column = values[:, np.newaxis]
    return squares * column**2 - moved * column - equal


# The range of epsilon for which the program is solved; beyond, the outcomes of its ends
# are used.
_SOLVED = 2.0**-10, 8.0
# The largest epsilon: the rarest outcome has a weight of thousands.
_MOST = Fraction(36)

_SMALLEST = 2.0**-50
"""The least ``e**epsilon - 1`` that integers over 2**64 can still express."""


# Fractional bits of the value of an outcome.
_VALUE_BITS = 32

# Its weight in units of 2**-64, its estimate in steps * 2**-32 from the middle, and its
# nodes as bits.
Outcome = tuple[int, int, int]


class Optimal(NumericMechanism):
    """The mechanism with the least worst-case variance that an unbiased report can have.

    The largest variance over that of the range -1 to 1, next to that of Laplace noise:

    >>> import numpy as np
    >>> from skdp.oracles import ClampedLaplace
    >>> positions = np.arange(1025)
    >>> [round(float(max(make(1024, 2.0).variances(positions))) / 512**2, 2) for make in (Optimal, ClampedLaplace)]
    [0.87, 1.63]

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
    """

    def __init__(
        self,
        steps: int,
        epsilon: float | Fraction,
        *,
        outcomes: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.steps = check_steps(steps)
        capped = min(capped_epsilon(epsilon), _MOST)
        # The epsilon up to which 17 nodes are enough.
        fine = 3.0
        self.nodes = _nodes(self.steps, 32 if capped > fine else 16)
        most_ratio = exp_bounds(capped)[0]
        if outcomes is None:
            self.outcomes = _rounded(self.nodes, float(capped), most_ratio)
        else:
            self.outcomes = _checked(outcomes, len(self.nodes))
        self.n_reports = 2 * len(self.outcomes) + 1
        self._shares = _shares(self.outcomes, len(self.nodes), most_ratio)
        if min(map(min, self._shares)) <= 0:
            raise ValueError(
                "outcomes must be possible at each node, and those of a node add up to "
                "less than 1"
            )
        columns = zip(*self._shares, strict=True)
        self.worst_ratio = max(Fraction(max(column), min(column)) for column in columns)
        if self.worst_ratio > most_ratio:
            raise ValueError("outcomes must keep epsilon")
        self._estimates = _unbiased(self.outcomes, self._shares, self.nodes)
        self._squares = _squares(self._estimates, self._shares)
        # What a word of 64 bits must reach for each report but the first, at each node.
        sums = [[*accumulate(row[:-1])] for row in self._shares]
        self._thresholds = np.array(sums, np.uint64)

    @property
    def quotients(self) -> list[tuple[int, int]]:
        return [estimate.as_integer_ratio() for estimate in self._estimates]

    @cached_property
    def variation(self) -> Fraction:  # numpydoc ignore=RT01
        """The largest total variation distance of the reports of two nodes, of which all positions are mixtures."""
        most = 0
        for row, other_row in combinations(self._shares, 2):
            most = max(
                most, sum(max(a - b, 0) for a, b in zip(row, other_row, strict=True))
            )
        return Fraction(most, ONE)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {
            "outcomes": [list(outcome) for outcome in self.outcomes]
        }

    def _draw(
        self, positions: NDArray[np.int64], source: ByteSource
    ) -> NDArray[np.int64]:
        below, distance = self._below(positions)
        gaps = np.diff(self.nodes)
        common = int(np.lcm.reduce(gaps))
        place = uniform_integers(source, common, positions.size)
        node = below + (place < distance * (common // gaps[below]))
        words = source.bytes(8 * positions.size).view("<u8")
        # The number of thresholds that a word reaches, bit by bit from the highest one:
        # a binary search for all records at once, always of as many comparisons.
        n_thresholds = self.n_reports - 1
        reports = np.zeros(positions.size, np.int64)
        for bit in reversed(range(n_thresholds.bit_length())):
            candidates = reports + (1 << bit)
            thresholds = self._thresholds[
                node, np.minimum(candidates, n_thresholds) - 1
            ]
            is_reached = (candidates <= n_thresholds) & (words >= thresholds)
            reports = np.where(is_reached, candidates, reports)
        return reports

    def _below(
        self, positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the node below each position, not the last one, and the distance to it."""
        below = np.searchsorted(self.nodes, positions, side="right") - 1
        below = np.clip(below, 0, len(self.nodes) - 2)
        return below, positions - self.nodes[below]

    def _row(self, position: int) -> list[Fraction]:
        (below,), (distance,) = self._below(np.array([position]))
        gap = int(self.nodes[below + 1] - self.nodes[below])
        distance = int(distance)
        row = []
        for lower, upper in zip(
            self._shares[below], self._shares[below + 1], strict=True
        ):
            share = (gap - distance) * lower + distance * upper
            row.append(Fraction(share, gap * ONE))
        return row

    def _at_nodes(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each node after rounding, for each position."""
        places = np.arange(len(self.nodes))
        exact = np.interp(positions, self.nodes, places)
        distance = np.abs(places - exact[:, np.newaxis])
        shares: NDArray[np.float64] = np.maximum(0, 1 - distance)
        return shares

    def spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        shares = np.array(self._shares, float) / ONE
        at_nodes = weights @ self._at_nodes(np.arange(self.steps + 1.0))
        spread: NDArray[np.float64] = at_nodes @ shares
        return spread

    def variances(self, positions: NDArray[Any]) -> NDArray[np.float64]:
        squares = np.interp(positions, self.nodes, self._squares)
        return squares - (positions - self.steps / 2) ** 2


def _nodes(steps: int, most: int) -> NDArray[np.int64]:
    """Return the positions of the nodes, symmetric about the middle."""
    gaps = min(steps, most if steps % 2 == 0 else most - 1)
    lower = np.arange(gaps // 2 + 1) * steps // gaps
    return np.unique(np.concatenate([lower, steps - lower]))


def _scaled(plan: Plan, excess: float) -> tuple[Floats, Floats]:
    """Return the weights and values of a plan for another epsilon, of which e^epsilon - 1 is given."""
    # The patterns are balanced, so both change by a factor.
    patterns = plan.patterns.astype(float)
    both = plan.weights @ (patterns + patterns[:, ::-1]) / 2
    weights = plan.weights / (plan.weights.sum() + excess * both.mean())
    estimates = plan.weights * plan.values @ (patterns - patterns[:, ::-1]) / 2
    gain = estimates[-1] / plan.weights.sum() * (weights.sum() * excess)
    return weights, plan.values / gain


def _rounded(
    nodes: NDArray[np.int64], epsilon: float, most_ratio: Fraction
) -> tuple[Outcome, ...]:
    """Solve the program, and round its solution to integers so that something is left at each node."""
    steps = int(nodes[-1])
    least, most = _SOLVED
    places = tuple((2 * nodes / steps - 1).tolist())
    plan = best_plan(places, min(max(epsilon, least), most))
    excess = float(most_ratio - 1)
    if excess < _SMALLEST:
        raise pure_noise(epsilon)

    weights, estimates = _scaled(plan, excess)
    unit = steps << _VALUE_BITS - 1
    values = [round(Fraction(value) * unit) for value in estimates.tolist()]
    bits = (plan.patterns @ (1 << np.arange(len(nodes)))).tolist()
    spare = Fraction(1, 1 << 32)
    while spare < 1:
        # Half of the outcomes: the others are their mirror images.
        half_heads = (1 - spare) * (ONE // 2)
        heads = [int(Fraction(weight) * half_heads) for weight in weights.tolist()]
        triples = sorted(zip(heads, values, bits, strict=True), key=itemgetter(1))
        outcomes = tuple(outcome for outcome in triples if outcome[0])
        shares = _shares(outcomes, len(nodes), most_ratio)
        remaining = [row[len(outcomes)] for row in shares]
        if min(remaining) > 0 and max(remaining) <= most_ratio * min(remaining):
            return outcomes
        spare *= 4
    raise pure_noise(epsilon)


def _checked(outcomes: Any, n_nodes: int) -> tuple[Outcome, ...]:
    """Check outcomes of others."""
    triples = [*outcomes] if isinstance(outcomes, Sequence) else []
    limits = (ONE, 1 << 128, (1 << n_nodes) - 1)
    checked: list[Outcome] = []
    # Of a mechanism that is read from a file: solutions have up to 48.
    most_outcomes = 1 << 7
    for triple in triples[:most_outcomes]:
        numbers = [*triple] if isinstance(triple, Sequence) else []
        if [type(number) for number in numbers] != [int, int, int]:
            break
        weight, value, nodes = numbers
        if min(numbers) < 0 or any(map(gt, numbers, limits)):
            raise ValueError(
                "outcomes must be weights below 1, values that are not too large, and "
                "nodes of the grid"
            )
        checked.append((weight, value, nodes))
    if not checked or len(checked) < len(triples):
        raise TypeError(
            f"outcomes must be 1 to {most_outcomes:,} triples of whole numbers"
        )
    return tuple(checked)


def _shares(
    outcomes: Sequence[Outcome], n_nodes: int, most: Fraction
) -> list[list[int]]:
    """Return the probability of each report at each node, in units of 2**-64: mirror images, the rest, outcomes."""
    rows = []
    for node in range(n_nodes):
        direct = []
        mirrored = []
        for weight, _, pattern in outcomes:
            likely = int(weight * most)
            mirror = n_nodes - 1 - node
            direct.append(likely if pattern >> node & 1 else weight)
            mirrored.append(likely if pattern >> mirror & 1 else weight)
        remaining = ONE - sum(mirrored) - sum(direct)
        rows.append([*reversed(mirrored), remaining, *direct])
    return rows


def _unbiased(
    outcomes: Sequence[Outcome], shares: list[list[int]], nodes: NDArray[np.int64]
) -> list[Fraction]:
    """Correct the values of a few outcomes so that all estimates are unbiased, and return them."""
    n = len(outcomes)
    steps = int(nodes[-1])
    middle = Fraction(steps, 2)
    values = [Fraction(value, 1 << _VALUE_BITS) for _, value, _ in outcomes]
    table = []
    missing = []
    for node, row in zip(nodes.tolist(), shares, strict=True):
        if 2 * node <= steps:
            continue
        # The value of an outcome counts as much as its own probability exceeds that of
        # its mirror image.
        excess = list(map(sub, row[n + 1 :], reversed(row[:n])))
        table.append(excess)
        missing.append((node - middle) * ONE - sum(map(mul, excess, values)))
    for place, change in _solved(table, missing).items():
        values[place] += change
    lower = [middle - value for value in reversed(values)]
    return [*lower, middle, *(middle + value for value in values)]


def _squares(estimates: list[Fraction], shares: list[list[int]]) -> NDArray[np.float64]:
    """Return the mean square of the estimate at each node, about the middle."""
    middle = estimates[len(estimates) // 2]
    squares = [(estimate - middle) ** 2 for estimate in estimates]
    return np.array([float(sum(map(mul, row, squares)) / ONE) for row in shares])


def _solved(table: list[list[int]], targets: list[Fraction]) -> dict[int, Fraction]:
    """Solve equations exactly, in as many unknowns as there are equations: those with the largest pivots."""
    rows = []
    for coefficients, value in zip(table, targets, strict=True):
        rows.append([*map(Fraction, coefficients), value])
    equation_of: dict[int, int] = {}
    for equation, row in enumerate(rows):
        pivot = max(range(len(row) - 1), key=lambda column: abs(row[column]))
        if row[pivot] == 0:
            raise ValueError("outcomes must let the position be estimated without bias")
        equation_of[pivot] = equation
        scaled = [number / row[pivot] for number in row]
        rows[equation] = scaled
        for index, numbers in enumerate(rows):
            factor = numbers[pivot]
            if index != equation and factor:
                changes = [factor * number for number in scaled]
                rows[index] = list(map(sub, numbers, changes))
    return {unknown: rows[equation][-1] for unknown, equation in equation_of.items()}
