"""The mechanism with the smallest worst-case variance, from a linear program, in exact integers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, combinations
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from skdp.exact import exp_bounds
from skdp.oracles._base import capped_epsilon, pure_noise
from skdp.oracles._numeric_mechanisms import NumericMechanism, check_steps
from skdp.randomness import ONE, ByteSource, uniform_integers

Floats = NDArray[np.float64]

# Candidate values of an outcome: their number, the largest one over the value of Duchi's
# mechanism, and the largest distance from the center of a window. With twice as many, the
# variance falls by less than 0.2 % up to epsilon 6 (benchmarks/local_accuracy.py).
N_VALUES = 97
MAX_VALUE_RATIO = 1.4
MAX_CENTER_DISTANCE = 0.2

# Up to this epsilon, Duchi's mechanism has at most 0.04 % more variance than the program.
MAX_DUCHI_EPSILON = 0.05
# Up to this epsilon, 17 nodes have at most 0.6 % more variance than 33 nodes.
MAX_COARSE_EPSILON = 3.0
# With a larger epsilon, rounding to the nodes determines the error.
MAX_OPTIMAL_EPSILON = Fraction(8)

# Probability of the outcome for the middle, which takes all rounding errors.
SPARE = 2.0**-20

# Smallest ``e**epsilon - 1`` that probabilities over 2**64 can express.
MIN_EXCESS = Fraction(1, 1 << 50)

# Unit of the estimate of an outcome, in steps, and the largest bias of a report.
VALUE_UNIT = Fraction(1, 1 << 32)
MAX_BIAS = 2.0**-24

# A program has up to 32 gaps between nodes, and 48 outcomes.
MAX_GAPS = 32
MAX_OUTCOMES = 128

Outcome = tuple[int, int, int]
"""Probability outside of its nodes in units of 2**-64, estimate from the middle, nodes as bits."""


@lru_cache(maxsize=64)
def solve_program(
    nodes: tuple[float, ...], epsilon: float
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Minimize the worst-case variance for symmetric nodes that ascend from -1 to 1.

    Return the probabilities of outcomes outside of their nodes, their estimates, and
    their nodes. The mirror images of these outcomes have the same probabilities.
    """
    # Every private channel is a mixture of outcomes that are e^epsilon times as probable
    # at some nodes as at all other nodes (Kairouz et al. 2016, theorem 2). Nearly all
    # of the best outcomes are windows of nodes.
    odds = math.exp(epsilon)
    unit = (odds + 1) / (odds - 1)
    positions = np.array(nodes)
    index = np.arange(len(nodes))
    values = np.linspace(0, MAX_VALUE_RATIO, N_VALUES)
    first, last = np.triu_indices(len(nodes))
    centers = (positions[first] + positions[last]) / 2
    is_near = np.abs(values[:, np.newaxis] * unit - centers) <= MAX_CENTER_DISTANCE
    # An unbiased estimate at the last node needs values beyond it. Windows below the
    # middle are mirror images.
    place, window = np.nonzero(is_near & (centers >= 0) | (last == index[-1]))
    values = values[place, np.newaxis]
    windows = (first[window, np.newaxis] <= index) & (index <= last[window, np.newaxis])

    likely = 1 + (odds - 1) * windows
    # An outcome and its mirror image, with half of the weight each.
    even = (likely + likely[:, ::-1]) / 2
    estimate = values * unit * (likely - likely[:, ::-1]) / 2
    square = values**2 * even
    middles = (positions[:-1] + positions[1:]) / 2
    square_between = (square[:, :-1] + square[:, 1:]) / 2
    # Rows of mirrored nodes are equal, so the upper half is enough. The last unknown is
    # the largest variance, in units of `unit` squared.
    upper, gaps = slice(len(nodes) // 2, None), slice((len(nodes) - 1) // 2, None)
    squares = np.hstack([square[:, upper], square_between[:, gaps]]).T
    equal = np.hstack([even[:, upper], estimate[:, upper]]).T
    n_upper = len(positions[upper])
    solution = linprog(
        np.append(np.zeros(len(values)), 1.0),
        A_ub=np.hstack([squares, -np.ones((len(squares), 1))]),
        b_ub=np.append(positions[upper], middles[gaps]) ** 2 / unit**2,
        A_eq=np.hstack([equal, np.zeros((2 * n_upper, 1))]),
        b_eq=np.append(np.ones(n_upper), positions[upper]),
    )
    if solution.status != 0:
        raise RuntimeError(
            "The linear program of the optimal mechanism was not solved. Use "
            "mechanism='laplace'."
        )
    weights = solution.x[:-1]
    used = weights > 0
    return weights[used] / 2, values[used, 0] * unit, windows[used]


class Optimal(NumericMechanism):
    """The mechanism with the smallest worst-case variance of unbiased estimates.

    The position is rounded at random, without bias, to one of up to 33 nodes. The
    report is one of finitely many outcomes, each of which is e^eps times as probable at
    some nodes as at all other nodes: every private mechanism is a mixture of such
    outcomes ([1]_, theorem 2). Outcomes, probabilities and estimates solve a linear
    program over outcomes that are likelier in a window of nodes. The worst-case
    variance exceeds the smallest possible one by 0.1 % for ``epsilon = 1``, 1 % for 4,
    and 4 % for 6. The solution is rounded to integers, toward more noise; the remaining
    probability is of an outcome for the middle.

    Parameters
    ----------
    steps : int
        The number of steps of the grid, from 1 to 65,536.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0. Up to 0.05, the mechanism has two
        outcomes (Duchi's); a loss above 8 is treated as 8.
    outcomes : sequence of (int, int, int), optional
        The `outcomes` of another instance, to make the same mechanism where another
        version of the solver finds another solution. By default, the program is solved,
        which takes seconds; the last 64 solutions are cached.

    Attributes
    ----------
    outcomes : tuple of (int, int, int)
        Half of the outcomes, as (probability, estimate, nodes); the other half is their
        mirror images. The bits of ``nodes`` mark the nodes at which the outcome is
        e^eps times likelier; the probability is for all other nodes, in units of
        2**-64. The estimate is in units of 2**-32 steps from the middle.
    nodes : ndarray of int64
        The nodes, ascending.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or the outcomes do not form a private and
        unbiased mechanism.

    Notes
    -----
    **Privacy.** As for `NumericMechanism`: `epsilon` is computed from the integers and
    does not depend on the solver.

    The estimates are unbiased up to 2**-24 steps.

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath (2016). Extremal mechanisms for local
       differential privacy. JMLR 17.

    Examples
    --------
    The largest variance for a range from -1 to 1, beside the variance of Laplace noise:

    >>> import numpy as np
    >>> from skdp.oracles import ClampedLaplace
    >>> positions = np.arange(1025)
    >>> for mechanism in (Optimal(1024, 2.0), ClampedLaplace(1024, 2.0)):
    ...     print(round(mechanism.variances(positions).max() / 512**2, 2))
    0.87
    1.63
    """

    def __init__(
        self,
        steps: int,
        epsilon: float | Fraction,
        *,
        outcomes: Iterable[Sequence[int]] | None = None,
    ) -> None:
        self.steps = check_steps(steps)
        capped = min(capped_epsilon(epsilon), MAX_OPTIMAL_EPSILON)
        max_ratio = exp_bounds(capped)[0]
        if max_ratio - 1 < MIN_EXCESS:
            raise pure_noise(epsilon)
        if outcomes is None:
            self.nodes = _place_nodes(self.steps, _choose_n_gaps(float(capped)))
            rounded = _round_outcomes(self.nodes, float(capped))
        else:
            rounded = _check_outcomes(outcomes)
            # An outcome is likelier at the last node.
            n_gaps = max(nodes for _, _, nodes in rounded).bit_length() - 1
            self.nodes = _place_nodes(self.steps, n_gaps)
            if n_gaps != len(self.nodes) - 1:
                raise ValueError("outcomes must have nodes of the grid.")
        self.outcomes = _correct_estimates(rounded, self.nodes, max_ratio)
        self.n_reports = 2 * len(self.outcomes) + 1
        # Probabilities in units of 2**-64: mirror images, the middle, and outcomes.
        self._rows = _list_probabilities(self.outcomes, len(self.nodes), max_ratio)
        columns = list(zip(*self._rows, strict=True))
        if min(map(min, columns)) <= 0:
            raise ValueError("outcomes must have positive probabilities, at most 1.")
        self.worst_ratio = max(Fraction(max(column), min(column)) for column in columns)
        if self.worst_ratio > max_ratio:
            raise ValueError(
                f"outcomes must have a privacy loss of at most {float(capped):g}."
            )
        values = [value * VALUE_UNIT for _, value, _ in self.outcomes]
        middle = Fraction(self.steps, 2)
        lower = [middle - value for value in reversed(values)]
        self.estimates = [*lower, middle, *(middle + value for value in values)]

        offsets = np.array([float(estimate - middle) for estimate in self.estimates])
        self._squares = np.array(self._rows, float) / ONE @ offsets**2
        # A word of 64 bits is compared with the sums of all but the last probability.
        sums = [[*accumulate(row[:-1])] for row in self._rows]
        self._thresholds = np.array(sums, np.uint64)

    @cached_property
    def variation(self) -> Fraction:
        """The largest total variation distance of the reports of two positions."""
        # All positions are mixtures of nodes.
        distances = [0]
        for row, other in combinations(self._rows, 2):
            pairs = zip(row, other, strict=True)
            distances.append(sum(max(first - second, 0) for first, second in pairs))
        return Fraction(max(distances), ONE)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"outcomes": list(map(list, self.outcomes))}

    def _draw(
        self, positions: NDArray[np.int64], source: ByteSource
    ) -> NDArray[np.int64]:
        below, distance = self._find_node_below(positions)
        gaps = np.diff(self.nodes)
        # A uniform integer below a common multiple of the gaps rounds without bias.
        multiple = int(np.lcm.reduce(gaps))
        drawn = uniform_integers(source, multiple, positions.size)
        nodes = below + (drawn < distance * (multiple // gaps[below]))
        words = source.bytes(8 * positions.size).view("<u8")
        reports = np.empty(positions.size, np.int64)
        for node, thresholds in enumerate(self._thresholds):
            rows = np.flatnonzero(nodes == node)
            reports[rows] = np.searchsorted(thresholds, words[rows], side="right")
        return reports

    def _find_node_below(self, positions: Any) -> tuple[Any, Any]:
        """Return the node below each position, except the last node, and the distance."""
        below = np.searchsorted(self.nodes[1:-1], positions, side="right")
        return below, positions - self.nodes[below]

    def _row(self, position: int) -> list[Fraction]:
        below, distance = map(int, self._find_node_below(position))
        gap = int(self.nodes[below + 1]) - int(self.nodes[below])
        pairs = zip(self._rows[below], self._rows[below + 1], strict=True)
        return [
            Fraction((gap - distance) * lower + distance * upper, gap * ONE)
            for lower, upper in pairs
        ]

    def variances(self, positions: NDArray[Any]) -> NDArray[np.float64]:
        squares = np.interp(positions, self.nodes, self._squares)
        return squares - (positions - self.steps / 2) ** 2


def _choose_n_gaps(epsilon: float) -> int:
    """Return the number of gaps between nodes."""
    if epsilon <= MAX_DUCHI_EPSILON:
        return 1
    return 16 if epsilon <= MAX_COARSE_EPSILON else MAX_GAPS


def _place_nodes(steps: int, n_gaps: int) -> NDArray[np.int64]:
    """Return the positions of the nodes, symmetric about the middle."""
    if n_gaps > 1:  # an odd number of gaps has no node in the middle
        n_gaps -= (steps - n_gaps) % 2
    n_gaps = max(1, min(steps, n_gaps))
    lower = np.arange(n_gaps // 2 + 1) * steps // n_gaps
    return np.unique(np.concatenate([lower, steps - lower]))


def _round_outcomes(nodes: NDArray[np.int64], epsilon: float) -> list[Outcome]:
    """Solve the program, and round its solution to integers."""
    steps = int(nodes[-1])
    if epsilon <= MAX_DUCHI_EPSILON:
        # Two outcomes, whose estimate follows from being unbiased.
        weights, values = np.array([1 / (1 + math.exp(epsilon))]), np.zeros(1)
        windows = np.array([[False, True]])
    else:
        scaled = tuple((2 * nodes / steps - 1).tolist())
        weights, values, windows = solve_program(scaled, epsilon)
        values = values * (steps / 2)
    bits = (windows @ (1 << np.arange(len(nodes)))).tolist()
    outcomes = []
    for weight, value, node in zip(weights, values, bits, strict=True):
        integer = int(float(weight) * (1 - SPARE) * ONE)
        outcomes.append((integer, round(Fraction(value) / VALUE_UNIT), node))
    return sorted(outcomes, key=itemgetter(1))


def _correct_estimates(
    outcomes: Sequence[Outcome], nodes: NDArray[np.int64], max_ratio: Fraction
) -> tuple[Outcome, ...]:
    """Change biased estimates as little as possible so that they are unbiased."""
    rows = np.array(_list_probabilities(outcomes, len(nodes), max_ratio), object)
    # The weight of an estimate is the difference of the probabilities of its outcome and of
    # the mirror image.
    n = len(outcomes)
    excess = ((rows[:, n + 1 :] - rows[:, n - 1 :: -1]) / ONE).astype(float)
    values = np.array([float(value * VALUE_UNIT) for _, value, _ in outcomes])
    for _ in range(2):
        missing = nodes - nodes[-1] / 2 - excess @ values
        # The tolerance grows with the estimates, because large estimates lose float precision.
        if np.abs(missing).max() <= MAX_BIAS + 1e-13 * np.abs(values).max():
            break
        values = values + np.linalg.lstsq(excess, missing, rcond=None)[0]
    else:
        raise ValueError("outcomes must allow unbiased estimates.")
    corrected = []
    for (weight, value, node), estimate in zip(outcomes, values.tolist(), strict=True):
        if estimate != float(value * VALUE_UNIT):
            value = round(Fraction(estimate) / VALUE_UNIT)
        corrected.append((weight, value, node))
    return tuple(corrected)


def _list_probabilities(
    outcomes: Sequence[Outcome], n_nodes: int, max_ratio: Fraction
) -> list[list[int]]:
    """Return the probability of each report at each node, in units of 2**-64."""
    rows = []
    for node in range(n_nodes):
        direct, mirrored = [], []
        for weight, _, nodes in outcomes:
            likely = int(weight * max_ratio)
            direct.append(likely if nodes >> node & 1 else weight)
            mirrored.append(likely if nodes >> n_nodes - 1 - node & 1 else weight)
        remaining = ONE - sum(mirrored) - sum(direct)
        rows.append([*reversed(mirrored), remaining, *direct])
    return rows


def _check_outcomes(outcomes: Any) -> list[Outcome]:
    """Check the types and ranges of outcomes."""
    triples = [tuple(outcome) for outcome in outcomes]
    numbers = [number for triple in triples for number in triple]
    is_whole = all(type(number) is int for number in numbers)
    if not is_whole or {*map(len, triples)} != {3} or len(triples) > MAX_OUTCOMES:
        raise TypeError(
            f"outcomes must be 1 to {MAX_OUTCOMES} triples of integers, got other values."
        )
    for weight, value, nodes in triples:
        is_in_range = 0 < weight < ONE and abs(value) < 1 << 128
        if not is_in_range or not 0 <= nodes < 2 << MAX_GAPS:
            raise ValueError(
                "outcomes must be weights below 2**64, estimates, and bits of nodes, "
                "got other integers."
            )
    return triples
