"""The mechanism with the smallest worst-case variance, from a linear program, in exact integers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from skdp.exact import exp_bounds
from skdp.oracles._base import capped_epsilon, pure_noise
from skdp.oracles._numeric_mechanisms import NumericMechanism, check_steps
from skdp.randomness import ONE, ByteSource, uniform_integers

Floats = NDArray[np.float64]

# Up to this epsilon, Duchi's mechanism has at most 0.04 % more variance than the program.
MAX_DUCHI_EPSILON = 0.05

# Unit of the estimate of an outcome, in steps.
VALUE_UNIT = Fraction(1, 1 << 32)

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
    # Candidate values, relative to the value of Duchi's mechanism, each with the windows
    # whose center is near. With twice as many values, the variance falls by less than
    # 0.2 % up to epsilon 6 (benchmarks/local_accuracy.py).
    values = np.linspace(0, 1.4, 97)
    first, last = np.triu_indices(len(nodes))
    centers = (positions[first] + positions[last]) / 2
    is_near = np.abs(values[:, np.newaxis] * unit - centers) <= 0.2
    # An unbiased estimate at the last node needs values beyond it. Windows below the
    # middle are mirror images.
    value_index, window_index = np.nonzero(
        is_near & (centers >= 0) | (last == index[-1])
    )
    values = values[value_index, np.newaxis]
    windows = (first[window_index, np.newaxis] <= index) & (
        index <= last[window_index, np.newaxis]
    )

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
        # With an epsilon above 8, rounding to the nodes determines the error.
        capped = min(capped_epsilon(epsilon), Fraction(8))
        max_ratio = exp_bounds(capped)[0]
        # Probabilities over 2**64 cannot express a smaller excess.
        if max_ratio - 1 < Fraction(1, 1 << 50):
            raise pure_noise(epsilon)
        if outcomes is None:
            # Up to epsilon 3, 17 nodes have at most 0.6 % more variance than 33 nodes.
            n_gaps = 16 if capped <= 3 else 32
            if float(capped) <= MAX_DUCHI_EPSILON:
                n_gaps = 1
            self.nodes = _place_nodes(self.steps, n_gaps)
            self.outcomes = _solve_outcomes(self.nodes, float(capped), max_ratio)
        else:
            self.outcomes = _check_outcomes(outcomes)
            # The last node is in every window, so bit masks of nodes have one bit per
            # node.
            n_gaps = max(nodes for _, _, nodes in self.outcomes).bit_length() - 1
            self.nodes = _place_nodes(self.steps, n_gaps)
            if n_gaps != len(self.nodes) - 1:
                raise ValueError("outcomes must have nodes of the grid.")
        self.n_reports = 2 * len(self.outcomes) + 1
        direct = _find_probabilities(self.outcomes, len(self.nodes), max_ratio)
        mirrored = direct[::-1, ::-1]
        middle = ONE - direct.sum(axis=1) - mirrored.sum(axis=1)
        # Probabilities in units of 2**-64, of shape (n_nodes, n_reports).
        self._rows = np.column_stack([mirrored, middle, direct])
        if self._rows.min() <= 0:
            raise ValueError("outcomes must have positive probabilities, at most 1.")
        if self.worst_ratio > max_ratio:
            raise ValueError(
                f"outcomes must have a privacy loss of at most {float(capped):g}."
            )
        # Their distances from the middle of the grid, in steps.
        values = [value * VALUE_UNIT for _, value, _ in self.outcomes]
        offsets = [-value for value in reversed(values)] + [Fraction(0)] + values
        self.estimates = [Fraction(self.steps, 2) + offset for offset in offsets]
        estimates = np.array(offsets, float)
        probabilities = (self._rows / ONE).astype(float)
        biases = probabilities @ estimates - (self.nodes - self.steps / 2)
        # The tolerance grows with the estimates, because large estimates lose float precision.
        if np.abs(biases).max() > 2.0**-24 + 1e-13 * np.abs(estimates).max():
            raise ValueError("outcomes must have unbiased estimates.")
        self._squares = probabilities @ estimates**2
        # A word of 64 bits is compared with the sums of all but the last probability.
        self._thresholds = np.cumsum(self._rows[:, :-1], axis=1).astype(np.uint64)

    @cached_property
    def worst_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of a report under two positions."""
        smallest, largest = self._rows.min(axis=0), self._rows.max(axis=0)
        return max(map(Fraction, largest, smallest))

    @cached_property
    def variation(self) -> Fraction:
        """The largest total variation distance of the reports of two positions."""
        # All positions are mixtures of nodes.
        distances = []
        for row, other in combinations(self._rows, 2):
            distances.append(np.maximum(row - other, 0).sum())
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
        mixed = (gap - distance) * self._rows[below] + distance * self._rows[below + 1]
        return [Fraction(weight, gap * ONE) for weight in mixed]

    def variances(self, positions: NDArray[Any]) -> NDArray[np.float64]:
        squares = np.interp(positions, self.nodes, self._squares)
        return squares - (positions - self.steps / 2) ** 2


def _place_nodes(steps: int, n_gaps: int) -> NDArray[np.int64]:
    """Return the positions of the nodes, symmetric about the middle."""
    if n_gaps > 1:  # an odd number of gaps has no node in the middle
        n_gaps -= (steps - n_gaps) % 2
    n_gaps = max(1, min(steps, n_gaps))
    lower = np.arange(n_gaps // 2 + 1) * steps // n_gaps
    return np.unique(np.concatenate([lower, steps - lower]))


def _solve_outcomes(
    nodes: NDArray[np.int64], epsilon: float, max_ratio: Fraction
) -> tuple[Outcome, ...]:
    """Solve the program, round its probabilities, and correct its estimates."""
    half = nodes[-1] / 2
    if epsilon <= MAX_DUCHI_EPSILON:
        # Two outcomes, whose estimates follow from unbiasedness.
        weights, values = np.array([1 / (1 + math.exp(epsilon))]), np.zeros(1)
        windows = np.array([[False, True]])
    else:
        weights, values, windows = solve_program(tuple(nodes / half - 1), epsilon)
    order = np.argsort(values, kind="stable")
    unit = float(VALUE_UNIT)
    values = np.round(values[order] * half / unit) * unit
    # The outcome for the middle has a probability of 2**-20, which absorbs all rounding.
    scale = (1 - 2.0**-20) * ONE
    integers = [int(weight * scale) for weight in weights[order].tolist()]
    bits = (windows[order] @ (1 << np.arange(len(nodes)))).tolist()
    zeros = [0] * len(bits)
    unvalued = list(zip(integers, zeros, bits, strict=True))
    direct = _find_probabilities(unvalued, len(nodes), max_ratio)
    # Rounding has biased the estimates: they change as little as possible. The weight of
    # an estimate is the difference of the probabilities of its outcome and of the mirror
    # image.
    excess = ((direct - direct[::-1]) / ONE).astype(float)
    missing = nodes - half - excess @ values
    values += np.linalg.lstsq(excess, missing, rcond=None)[0]
    rounded = [round(value / unit) for value in values.tolist()]
    return tuple(zip(integers, rounded, bits, strict=True))


def _find_probabilities(
    outcomes: Sequence[Outcome], n_nodes: int, max_ratio: Fraction
) -> NDArray[Any]:
    """Return the probability of each outcome at each node, in units of 2**-64, as Python integers."""
    columns = []
    for weight, _, nodes in outcomes:
        likely = int(weight * max_ratio)
        is_likely = [nodes >> node & 1 for node in range(n_nodes)]
        columns.append([likely if bit else weight for bit in is_likely])
    return np.array(columns, object).T


def _check_outcomes(outcomes: Iterable[Sequence[int]]) -> tuple[Outcome, ...]:
    """Check that outcomes are triples of integers; their probabilities are checked later."""
    triples: Any = tuple(tuple(outcome) for outcome in outcomes)
    for triple in triples or [()]:
        if [type(number) for number in triple] != [int, int, int]:
            raise TypeError("outcomes must be triples of integers, got other values.")
    checked: tuple[Outcome, ...] = triples
    return checked
