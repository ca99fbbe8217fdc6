"""The mechanism with the smallest worst-case variance, from a linear program, in exact integers."""

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
class Solution:
    """Outcomes of a mechanism, each of which stands for itself and its mirror image."""

    # Twice the probability of an outcome at nodes outside of its pattern.
    weights: Floats
    # The estimate of the number, which is in -1 ... 1; at least 0.
    values: Floats
    # For each outcome, the nodes at which it is e^epsilon times as probable.
    patterns: NDArray[np.bool_]


# Candidate values of an outcome: their number, the largest one over the value of Duchi's
# mechanism, and the largest distance from the centre of a window. With twice as many, the
# variance falls by less than 0.2 % up to epsilon 6 (benchmarks/local_accuracy.py).
N_VALUES = 97
MAX_VALUE_RATIO = 1.4
MAX_CENTRE_DISTANCE = 0.2


@lru_cache(maxsize=64)
def solve_program(nodes: tuple[float, ...], epsilon: float) -> Solution:
    """Minimize the worst-case variance for symmetric nodes that ascend from -1 to 1."""
    # Every private channel is a mixture of outcomes that are e^epsilon times as probable
    # at some nodes as at the others (Kairouz et al. 2016, theorem 2). Of the best ones,
    # nearly all are windows of nodes.
    odds = math.exp(epsilon)
    # Values are in units of the value of Duchi's mechanism.
    unit = (odds + 1) / (odds - 1)
    values, patterns = _list_candidates(np.array(nodes), unit)
    likely = 1 + (odds - 1) * patterns
    # An outcome and its mirror image, of half of the weight each.
    even = (likely + likely[:, ::-1]) / 2
    estimate = values[:, np.newaxis] * unit * (likely - likely[:, ::-1]) / 2
    square = values[:, np.newaxis] ** 2 * even
    square_between = (square[:, :-1] + square[:, 1:]) / 2
    positions = np.array(nodes)
    between = (positions[:-1] + positions[1:]) / 2
    # Rows of mirrored nodes are equal, so the upper half is enough.
    upper, gaps = slice(len(nodes) // 2, None), slice((len(nodes) - 1) // 2, None)
    squares = np.hstack([square[:, upper], square_between[:, gaps]]).T
    equal = np.hstack([even[:, upper], estimate[:, upper]]).T
    # The last unknown is the largest variance.
    solution = linprog(
        np.append(np.zeros(len(values)), 1.0),
        A_ub=np.hstack([squares, -np.ones((len(squares), 1))]),
        b_ub=np.append(positions[upper], between[gaps]) ** 2 / unit**2,
        A_eq=np.hstack([equal, np.zeros((len(equal), 1))]),
        b_eq=np.append(np.ones(len(positions[upper])), positions[upper]),
    )
    if solution.status != 0:
        raise RuntimeError(
            "The linear program of the optimal mechanism was not solved. Set "
            "mechanism='laplace'."
        )
    weights = solution.x[:-1]
    used = weights > 0
    return Solution(
        _balance(weights[used], patterns[used]), values[used] * unit, patterns[used]
    )


def _list_candidates(nodes: Floats, unit: float) -> tuple[Floats, NDArray[np.bool_]]:
    """List candidate outcomes: a value in units of `unit`, and a window of nodes with a centre near it."""
    n = len(nodes)
    values = np.linspace(0, MAX_VALUE_RATIO, N_VALUES)
    candidates: list[tuple[Floats, slice]] = [(values[:1], slice(0))]
    for first in range(n):
        # An unbiased estimate at the largest node needs values beyond it: keep all values.
        candidates.append((values, slice(first, n)))
        for end in range(first + 1, n):
            centre = (nodes[first] + nodes[end - 1]) / 2
            is_near = np.abs(values * unit - centre) <= MAX_CENTRE_DISTANCE
            if centre >= 0:  # windows below 0 are mirror images
                candidates.append((values[is_near], slice(first, end)))
    patterns = np.zeros((sum(len(near) for near, _ in candidates), n), bool)
    row = 0
    for near, window in candidates:
        patterns[row : row + len(near), window] = True
        row += len(near)
    return np.concatenate([near for near, _ in candidates]), patterns


def _balance(weights: Floats, patterns: NDArray[np.bool_]) -> Floats:
    """Change weights slightly so that the total weight of the patterns with a node is equal for all nodes."""
    both = (patterns + patterns[:, ::-1].astype(float)) / 2
    spread = (both - both.mean(axis=1, keepdims=True)).T * weights
    change: Floats = np.linalg.lstsq(spread, -spread.sum(axis=1), rcond=None)[0]
    return weights * (1 + change)


# Range of epsilon for which the program is solved; outside, the outcomes of the nearer
# bound are used.
_SOLVED_EPSILONS = 2.0**-10, 8.0
# Largest epsilon: at it, the rarest outcome has a weight of thousands.
_MAX_EPSILON = Fraction(36)

_MIN_ODDS_MINUS_ONE = 2.0**-50
"""Smallest ``e**epsilon - 1`` that integers over 2**64 can express."""


# Fractional bits of the value of an outcome.
_VALUE_BITS = 32

# Its weight in units of 2**-64, its estimate in steps * 2**-32 from the middle, and its
# nodes as bits.
Outcome = tuple[int, int, int]


class Optimal(NumericMechanism):
    """The unbiased mechanism with the smallest worst-case variance.

    The largest variance for a range from -1 to 1, beside the variance of Laplace noise:

    >>> import numpy as np
    >>> from skdp.oracles import ClampedLaplace
    >>> positions = np.arange(1025)
    >>> [round(float(max(make(1024, 2.0).variances(positions))) / 512**2, 2) for make in (Optimal, ClampedLaplace)]
    [0.87, 1.63]

    The position is rounded at random, without bias, to one of up to 33 nodes. The
    report is one of finitely many outcomes, each of which is e^eps times as probable at
    some nodes as at the others: mixtures of such outcomes are all that privacy allows
    ([1]_, theorem 2). The outcomes, their probabilities and their estimates solve a
    linear program over outcomes that are likelier in a window of nodes. The worst-case
    variance exceeds the smallest possible one by 0.1 % for ``epsilon = 1``, 1 % for 4,
    and 4 % for 6. The solution is rounded to integers, with more noise; the remaining
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
        capped = min(capped_epsilon(epsilon), _MAX_EPSILON)
        # The epsilon up to which 17 nodes are enough.
        fine = 3.0
        self.nodes = _nodes(self.steps, 32 if capped > fine else 16)
        most_ratio = exp_bounds(capped)[0]
        if outcomes is None:
            self.outcomes = _round_outcomes(self.nodes, float(capped), most_ratio)
        else:
            self.outcomes = _check_outcomes(outcomes, len(self.nodes))
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
        self._estimates = _solve_estimates(self.outcomes, self._shares, self.nodes)
        self._squares = _squares(self._estimates, self._shares)
        # Thresholds of a 64-bit word for each report but the first, at each node.
        sums = [[*accumulate(row[:-1])] for row in self._shares]
        self._thresholds = np.array(sums, np.uint64)

    @property
    def quotients(self) -> list[tuple[int, int]]:
        return [estimate.as_integer_ratio() for estimate in self._estimates]

    @cached_property
    def variation(self) -> Fraction:
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


def _scaled(solution: Solution, excess: float) -> tuple[Floats, Floats]:
    """Return the weights and values of a solution for another epsilon, given e^epsilon - 1."""
    # The patterns are balanced, so both change by a factor.
    patterns = solution.patterns.astype(float)
    both = solution.weights @ (patterns + patterns[:, ::-1]) / 2
    weights = solution.weights / (solution.weights.sum() + excess * both.mean())
    estimates = solution.weights * solution.values @ (patterns - patterns[:, ::-1]) / 2
    gain = estimates[-1] / solution.weights.sum() * (weights.sum() * excess)
    return weights, solution.values / gain


def _round_outcomes(
    nodes: NDArray[np.int64], epsilon: float, most_ratio: Fraction
) -> tuple[Outcome, ...]:
    """Solve the program, and round its solution to integers so that something is left at each node."""
    steps = int(nodes[-1])
    least, most = _SOLVED_EPSILONS
    places = tuple((2 * nodes / steps - 1).tolist())
    solution = solve_program(places, min(max(epsilon, least), most))
    excess = float(most_ratio - 1)
    if excess < _MIN_ODDS_MINUS_ONE:
        raise pure_noise(epsilon)

    weights, estimates = _scaled(solution, excess)
    unit = steps << _VALUE_BITS - 1
    values = [round(Fraction(value) * unit) for value in estimates.tolist()]
    bits = (solution.patterns @ (1 << np.arange(len(nodes)))).tolist()
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


def _check_outcomes(outcomes: Any, n_nodes: int) -> tuple[Outcome, ...]:
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


def _solve_estimates(
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
