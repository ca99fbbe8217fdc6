"""Mechanisms for numbers on a grid: the square wave, and the one with the smallest worst-case variance."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from skdp._arrays import Bytes, Floats, Integers, Mask
from skdp.exact import exp_bounds
from skdp.oracles._oracle import (
    LocalMechanism,
    cap_epsilon,
    encode_integers,
    lie_threshold,
    small_epsilon_error,
)
from skdp.privacy import ReportPair
from skdp.randomness import (
    ONE,
    ByteSource,
    bernoulli,
    check_size,
    draw_by_row,
    uniform_integers,
)


class NumericMechanism(LocalMechanism):
    """Local mechanism for one number, given as its position ``0, ..., steps`` on a grid.

    Only integers are drawn, and the probabilities of all reports are exact fractions,
    because floating-point noise has gaps that reveal the number ([1]_). Each report has
    an unbiased estimate of the position.

    Attributes
    ----------
    steps : int
        Number of steps of the grid: one less than the number of positions.
    n_reports : int
        Number of distinct reports.
    estimates : list of Fraction of length n_reports
        Unbiased estimate of the position, in steps, for each report.
    worst_ratio : Fraction
        Largest ratio of the probabilities of a report under two positions: the achieved
        ``e**epsilon``.

    Notes
    -----
    **Privacy.** Local model, replacement of the number. `epsilon` is computed from the
    exact probabilities and rounded up, and never exceeds the request.

    References
    ----------
    .. [1] I. Mironov (2012). On significance of the least significant bits for
       differential privacy. CCS.

    Examples
    --------
    >>> from skdp.oracles import NumericMechanism, Optimal
    >>> issubclass(Optimal, NumericMechanism)
    True
    """

    steps: int
    n_reports: int
    estimates: list[Fraction]

    @abstractmethod
    def _draw(self, positions: Integers, source: ByteSource) -> Integers:
        """Randomize checked positions."""

    @abstractmethod
    def _compute_row(self, position: int) -> list[Fraction]:
        """Compute the probability of each report given a position."""

    def report(self, positions: NDArray[np.integer], source: ByteSource) -> Integers:
        """Randomize positions.

        Parameters
        ----------
        positions : ndarray of integers, shape (n,)
            True positions, from 0 to `steps`.
        source : ByteSource
            Source of the random bytes. Their number does not depend on the positions.

        Returns
        -------
        ndarray of shape (n,), dtype int64
            Reports, from 0 to ``n_reports - 1``.

        Raises
        ------
        ValueError
            If a position is outside the grid.
        """
        if positions.ndim != 1 or positions.dtype.kind not in "iu":
            raise ValueError(
                "`positions` must be a 1-D array of integers, got shape "
                f"{positions.shape} ({positions.dtype})."
            )
        if positions.size and (positions.min() < 0 or positions.max() > self.steps):
            raise ValueError(f"`positions` must be integers from 0 to {self.steps}.")
        return self._draw(positions.astype(np.int64, copy=False), source)

    @staticmethod
    def round_at_random(scaled: Integers, source: ByteSource) -> Integers:
        """Round numbers at random to a neighboring position, so that the expectation is unchanged.

        Parameters
        ----------
        scaled : ndarray of int64
            Numbers in units of 2**-16 steps of the grid.
        source : ByteSource
            Source of the random bytes.

        Returns
        -------
        ndarray of int64
            Positions.
        """
        # The position above is drawn with the probability of the remaining fraction of a
        # step: a random word of 16 bits is below the fraction.
        below = scaled >> 16
        words = source.bytes(2 * scaled.size).view("<u2")
        return below + (words < scaled - (below << 16))

    def report_keyed(self, scaled: Integers, digests: Callable[..., Bytes]) -> Integers:
        """Draw permanent reports, whose random bits are keyed digests of the records.

        Parameters
        ----------
        scaled : ndarray of int64
            Numbers in units of 2**-16 steps of the grid.
        digests : callable
            See `FrequencyOracle.report_keyed`.

        Returns
        -------
        ndarray of shape (n,), dtype int64
            Reports.
        """
        # The bits that round a number depend on the record and the column only, so all
        # numbers in one of `steps` + 1 intervals have the same position and report (Ding,
        # Kulkarni, Yekhanin 2017, Collecting telemetry data privately, section 4). With
        # new bits, an unchanged number would finally be reported from both neighboring
        # positions, with twice the loss.
        positions = draw_by_row(self.round_at_random, digests("rounding"), scaled)
        report_digests = digests("report", encode_integers(positions))
        return draw_by_row(self.report, report_digests, positions)

    def channel(self) -> list[list[Fraction]]:
        """Return the exact probability of each report given each position.

        Returns
        -------
        list of list of Fraction
            One row per position, one column per report. Use small grids only, because
            there are ``(steps + 1) * n_reports`` fractions.
        """
        return [self._compute_row(position) for position in range(self.steps + 1)]

    @abstractmethod
    def variances(self, positions: NDArray[Any]) -> Floats:
        """Return the variance of the estimate from a report.

        Parameters
        ----------
        positions : ndarray of shape (n,)
            True positions.

        Returns
        -------
        ndarray of shape (n,)
            Variances in squared steps. They are symmetric about the middle of the grid.
        """

    def parameters(self) -> dict[str, Any]:
        """Return the parameters on which client and server must agree.

        Returns
        -------
        dict
            Text, numbers and lists.
        """
        return {"mechanism": type(self).__name__, "grid_size": self.steps}


def check_steps(steps: object) -> int:
    """Check the number of steps of a grid, from 1 to 2**16."""
    return check_size(steps, min_val=1, max_val=1 << 16, name="grid_size")


def square_wave_width(epsilon: float) -> float:
    """Return the width of the window of the square wave mechanism, as a fraction of the range.

    It is ``(eps e^eps - e^eps + 1) / (e^eps (e^eps - 1 - eps))`` (Li et al. 2020).
    """
    if epsilon < 1e-3:
        # Numerator and denominator vanish. This is the Taylor expansion of the quotient
        # to first order.
        return 1 - 2 * epsilon / 3
    # Both multiplied by e^(-2 eps), so that nothing overflows.
    decay = math.exp(-epsilon)
    return (epsilon - 1 + decay) * decay / (1 - decay - epsilon * decay)


class SquareWave(NumericMechanism):
    """Square wave mechanism: report a number near the true position, or any number.

    It is the mechanism for the estimation of distributions ([1]_). A window of w reports
    starts at the true position t, and there are ``N = steps + w`` reports. With
    probability l, the report is uniform among all reports; otherwise, it is uniform
    among the w reports ``t, ..., t + w - 1``. The width of the window maximizes the
    mutual information of position and report. A report in the window is ``1 + (N / w) (1
    - l) / l = e^eps`` times as likely as any other report.

    Parameters
    ----------
    steps : int
        Number of steps of the grid, from 1 to 65,536.
    epsilon : float or Fraction
        Requested privacy loss, finite and > 0.

    Attributes
    ----------
    width : int
        Width w of the window, in steps.
    lie : Fraction
        Exact probability l, rounded up to a multiple of 2**-64.

    Notes
    -----
    **Privacy.** See `NumericMechanism`. `epsilon` is finite for any request.

    The distance of the middle of the window from the middle ``(N - 1) / 2`` of all
    reports is the distance ``t - steps / 2`` of the position from the middle of the grid.
    So the mean report is ``E[y] = (N - 1) / 2 + (1 - l) (t - steps / 2)``, and ``steps /
    2 + (y - (N - 1) / 2) / (1 - l)`` is an unbiased estimate of t.

    References
    ----------
    .. [1] Z. Li et al. (2020). Estimating numerical distributions under local
       differential privacy. SIGMOD.

    Examples
    --------
    >>> SquareWave(1024, 1.0).width
    524
    """

    def __init__(self, steps: int, epsilon: float | Fraction) -> None:
        # A report is an integer. With probability `lie` it is uniform among all
        # `n_reports` integers, and otherwise uniform in the window of `width` integers
        # around the position.
        self.steps = check_steps(steps)
        capped = cap_epsilon(epsilon)
        width = round(square_wave_width(float(capped)) * steps)
        self.width = max(1, min(width, steps))
        self.n_reports = steps + self.width
        ratio = Fraction(self.n_reports, self.width)
        self._uniform_threshold = lie_threshold(capped, ratio)
        self.lie = Fraction(self._uniform_threshold, ONE)
        # The probabilities of one report outside the window, and of one inside it.
        self._outside = self.lie / self.n_reports
        self._inside = self._outside + (1 - self.lie) / self.width

    @cached_property
    def estimates(self) -> list[Fraction]:  # type: ignore[override]
        """Unbiased estimate of the position, in steps, for each report."""
        # 2 y - (N - 1) for the reports y = 0, ..., N - 1.
        twice_offsets = range(1 - self.n_reports, 1 + self.n_reports, 2)
        gain = 2 * (1 - self.lie)
        return [Fraction(self.steps, 2) + offset / gain for offset in twice_offsets]

    @property
    def worst_ratio(self) -> Fraction:
        return self._inside / self._outside

    @property
    def variation(self) -> Fraction:
        """Upper bound of the total variation distance, attained if two windows do not overlap."""
        return 1 - self.lie

    def shuffle_pair(self) -> ReportPair:
        # Positions whose windows do not overlap are the worst pair. The counts are reports
        # in the first window only, in the second window only, in both, and in neither.
        n_outside = self.n_reports - 2 * self.width
        counts = (self.width, self.width, 0, n_outside)
        return ReportPair.from_support(self._inside, self._outside, counts)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"width": self.width}

    def _draw(self, positions: Integers, source: ByteSource) -> Integers:
        """Draw a report for each position: uniform with probability `lie`, otherwise in the window of the position."""
        # All three numbers are drawn for each record, so that the run time and the number
        # of bytes do not depend on random bits.
        n = positions.size
        is_uniform = bernoulli(source, self._uniform_threshold, n)
        offsets = uniform_integers(source, self.width, n)
        uniform_reports = uniform_integers(source, self.n_reports, n)
        return np.where(is_uniform, uniform_reports, positions + offsets)

    def _compute_row(self, position: int) -> list[Fraction]:
        """Return the exact probability of each report at a position, at whose number the window begins."""
        row = [self._outside] * self.n_reports
        row[position : position + self.width] = [self._inside] * self.width
        return row

    def report_distribution(self, position_weights: Floats) -> Floats:
        """Compute the distribution of the reports from distributions of the position.

        Parameters
        ----------
        position_weights : ndarray of shape (m, steps + 1)
            Distributions of the position, one per row.

        Returns
        -------
        ndarray of shape (m, n_reports)
            Matrix product of `position_weights` and the channel.
        """
        # A report y is in the windows of the positions y - w + 1 to y. The sum of their
        # weights is a difference of two cumulative sums, whose rounding errors may be
        # negative.
        padding = ((0, 0), (self.width, self.width - 1))
        sums = np.cumsum(np.pad(position_weights, padding), axis=1)
        in_window = np.maximum(sums[:, self.width :] - sums[:, : -self.width], 0)
        uniform = position_weights.sum(axis=1, keepdims=True) * float(self._outside)
        return uniform + in_window * (float(1 - self.lie) / self.width)

    def variances(self, positions: NDArray[Any]) -> Floats:
        # Variance of the estimate at each position t, in squared steps, for N reports,
        # a window of w reports, and a uniform report with probability l.
        # The law of total variance for a mixture with weights l and 1 - l. A uniform
        # report has the variance (N^2 - 1) / 12, and a report in the window (w^2 - 1) /
        # 12. The means of the two differ by t - steps / 2. Estimates divide by 1 - l.
        lie = float(self.lie)
        gain = float(1 - self.lie)
        within = (lie * (self.n_reports**2 - 1) + gain * (self.width**2 - 1)) / 12
        squared_offset = (positions - self.steps / 2) ** 2
        return within / gain**2 + squared_offset * (lie / gain)


# Up to this epsilon, the two outcomes of Duchi, Jordan and Wainwright (2018, JASA 113)
# have at most 0.04 % more variance than the solution of the linear program.
MAX_DUCHI_EPSILON = 0.05

# Unit of the estimates of the outcomes, in steps of the grid.
ESTIMATE_UNIT = Fraction(1, 1 << 32)

# An outcome (probability, estimate, window) has the probability, in units of 2**-64, at
# the nodes outside its window, and e^epsilon times this probability at the nodes of its
# window, which are the 1s of `window`. The estimate, in units of `ESTIMATE_UNIT`, is the
# distance from the middle of the grid.
Outcome = tuple[int, int, int]


def list_candidates(nodes: Floats, scale: float) -> tuple[Floats, Mask]:
    """List the outcomes of the linear program: estimates (n, 1), and windows (n, n_nodes).

    `nodes` ascend from -1 to 1. A window is True at the consecutive nodes at which the
    outcome is more probable. The estimates are in units of `scale`, the largest
    estimate of Duchi's mechanism.
    """
    # With twice as many estimates, the variance falls by less than 0.2 % up to epsilon 6
    # (benchmarks/local_accuracy.py).
    estimates = np.linspace(0, 1.4, 97)
    index = np.arange(len(nodes))
    first, last = np.triu_indices(len(nodes))
    centers = (nodes[first] + nodes[last]) / 2
    # An estimate is near the center of its window, except for the windows of the last
    # node: an unbiased estimate there requires estimates beyond the node. Windows below
    # the middle are mirror images.
    is_near = np.abs(estimates[:, np.newaxis] * scale - centers) <= 0.2
    is_candidate = is_near & (centers >= 0) | (last == index[-1])
    estimate_index, window_index = np.nonzero(is_candidate)
    starts = first[window_index, np.newaxis]
    windows = (starts <= index) & (index <= last[window_index, np.newaxis])
    return estimates[estimate_index, np.newaxis], windows


@lru_cache(maxsize=64)
def solve_program(
    nodes: tuple[float, ...], epsilon: float
) -> tuple[Floats, Floats, Mask]:
    """Minimize the worst-case variance for symmetric nodes that ascend from -1 to 1.

    Return the probabilities of the outcomes outside their windows, (n_outcomes,), their
    estimates, (n_outcomes,), and their windows, masks of nodes, (n_outcomes, n_nodes).
    The mirror images of these outcomes have the same probabilities.
    """
    # Every private channel is a mixture of outcomes that are e^epsilon times as probable
    # at some nodes as at all other nodes (Kairouz, Oh, Viswanath 2016, theorem 2). Nearly
    # all of the best outcomes have a window of consecutive nodes.
    odds = math.exp(epsilon)
    scale = (odds + 1) / (odds - 1)  # the estimate of Duchi's mechanism
    positions = np.array(nodes)
    estimates, windows = list_candidates(positions, scale)

    # The unknown weight of an outcome is divided equally between the outcome and its
    # mirror image, whose estimate is negative. These are the contributions of one unit of
    # weight to the probability, the mean and the second moment at each node.
    likelihoods = 1 + (odds - 1) * windows
    probabilities = (likelihoods + likelihoods[:, ::-1]) / 2
    means = estimates * scale * (likelihoods - likelihoods[:, ::-1]) / 2
    squares = estimates**2 * probabilities
    # A position in the middle of two nodes is rounded to one of them at random. Between
    # two nodes, the variance is concave, and largest near their middle.
    middles = (positions[:-1] + positions[1:]) / 2
    middle_squares = (squares[:, :-1] + squares[:, 1:]) / 2
    # Mirrored nodes have equal constraints, so the upper half is enough. The last unknown
    # is the largest variance, in units of `scale` squared:
    #     second moment - largest variance <= position^2,
    #     sum of the probabilities = 1, mean = position.
    upper, gaps = slice(len(nodes) // 2, None), slice((len(nodes) - 1) // 2, None)
    moments = np.hstack([squares[:, upper], middle_squares[:, gaps]]).T
    equalities = np.hstack([probabilities[:, upper], means[:, upper]]).T
    n_upper = len(positions[upper])
    solution = linprog(
        np.append(np.zeros(len(estimates)), 1.0),
        A_ub=np.hstack([moments, -np.ones((len(moments), 1))]),
        b_ub=np.append(positions[upper], middles[gaps]) ** 2 / scale**2,
        A_eq=np.hstack([equalities, np.zeros((2 * n_upper, 1))]),
        b_eq=np.append(np.ones(n_upper), positions[upper]),
    )
    if solution.status != 0:
        raise RuntimeError(
            "The linear program of the optimal mechanism was not solved. Use "
            "mechanism='square_wave'."
        )
    weights = solution.x[:-1]
    is_used = weights > 0
    return weights[is_used] / 2, estimates[is_used, 0] * scale, windows[is_used]


class Optimal(NumericMechanism):
    """Mechanism with the smallest worst-case variance of unbiased estimates.

    The position is rounded at random, without bias, to one of up to 33 nodes. The report
    is one of finitely many outcomes, each of which is e^eps times as probable at some
    nodes as at all other nodes; every private mechanism is a mixture of such outcomes
    ([1]_, theorem 2). Outcomes, probabilities and estimates are the solution of a linear
    program, in which an outcome is more probable in a window of consecutive nodes. The
    worst-case variance exceeds the minimum by 0.1 % for ``epsilon = 1``, 1 % for 4, and 4
    % for 6. The probabilities are rounded down, and the remaining probability belongs to
    an outcome that estimates the middle of the grid.

    Parameters
    ----------
    steps : int
        Number of steps of the grid, from 1 to 65,536.
    epsilon : float or Fraction
        Requested privacy loss, finite and > 0. Up to 0.05, the mechanism has the two
        outcomes of Duchi et al. A loss above 8 is treated as 8.
    outcomes : sequence of (int, int, int), default=None
        `outcomes` of another instance, to recreate its mechanism where another version
        of the solver finds another solution. None solves the program, which takes
        seconds; the last 64 solutions are cached.

    Attributes
    ----------
    outcomes : tuple of (int, int, int)
        Half of the outcomes, as (probability, estimate, window); the other half is their
        mirror images. The 1s of ``window`` are the nodes at which the outcome is e^eps
        times as probable. The probability is for all other nodes, in units of 2**-64.
        The estimate is in units of 2**-32 steps from the middle.
    nodes : ndarray of int64
        Positions of the nodes, ascending.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or the outcomes do not form a private and
        unbiased mechanism.

    Notes
    -----
    **Privacy.** See `NumericMechanism`. `epsilon` is computed from the integer
    probabilities, whatever the solver returns.

    The estimates are unbiased up to 2**-24 steps.

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath (2016). Extremal mechanisms for local
       differential privacy. JMLR 17.

    Examples
    --------
    The largest variance for a range from -1 to 1, compared to the square wave:

    >>> import numpy as np
    >>> from skdp.oracles import SquareWave
    >>> positions = np.arange(1025)
    >>> for mechanism in (Optimal(1024, 2.0), SquareWave(1024, 2.0)):
    ...     print(round(mechanism.variances(positions).max() / 512**2, 2))
    0.87
    1.51
    """

    def __init__(
        self,
        steps: int,
        epsilon: float | Fraction,
        *,
        outcomes: Iterable[Sequence[int]] | None = None,
    ) -> None:
        # A position 0, ..., steps is rounded at random to one of the `nodes`, a subset
        # of the positions. The report is the index of an outcome, which is drawn with
        # the probabilities of the node. An outcome is a triple of integers: its
        # probability at nodes outside its window, in units of 2**-64; its estimate of
        # the position, from the middle of the grid, in units of 2**-32 steps; and its
        # window, a bit mask of the nodes at which it is e^epsilon times as probable.
        # Reports have the order: mirror images of the outcomes, an outcome for the
        # middle, and the outcomes themselves.
        self.steps = check_steps(steps)
        # Above an epsilon of 8, rounding to the nodes determines the error.
        capped = min(cap_epsilon(epsilon), Fraction(8))
        max_ratio = exp_bounds(capped)[0]
        # Probabilities in units of 2**-64 cannot represent a smaller excess.
        if max_ratio - 1 < Fraction(1, 1 << 50):
            raise small_epsilon_error(epsilon)
        if outcomes is None:
            # Up to epsilon 3, 17 nodes have at most 0.6 % more variance than 33 nodes.
            n_gaps = 16 if capped <= 3 else 32
            if float(capped) <= MAX_DUCHI_EPSILON:
                n_gaps = 1
            self.nodes = _select_nodes(self.steps, n_gaps)
            self.outcomes = _solve_outcomes(self.nodes, float(capped), max_ratio)
        else:
            self.outcomes = _check_outcomes(outcomes)
            # The 1s of a window, the last entry of an outcome, are its nodes. Some window
            # contains the last node, so the longest window has one bit per node.
            n_gaps = max(window for _, _, window in self.outcomes).bit_length() - 1
            self.nodes = _select_nodes(self.steps, n_gaps)
            if n_gaps != len(self.nodes) - 1:
                raise ValueError(
                    "`outcomes` must have windows of the nodes of "
                    f"grid_size={self.steps}, got windows of {n_gaps + 1} nodes."
                )
        self.n_reports = 2 * len(self.outcomes) + 1
        direct = _compute_probabilities(self.outcomes, len(self.nodes), max_ratio)
        # A mirror image has the probabilities of its outcome at the mirrored nodes.
        mirrored = direct[::-1, ::-1]
        middle = ONE - direct.sum(axis=1) - mirrored.sum(axis=1)
        # Probabilities in units of 2**-64, of shape (n_nodes, n_reports).
        self._rows = np.column_stack([mirrored, middle, direct])
        if self._rows.min() <= 0:
            raise ValueError(
                "`outcomes` and their mirror images must have positive probabilities, "
                "whose sum at each node is less than 1. Use the `outcomes` of another "
                "instance."
            )
        if self.worst_ratio > max_ratio:
            raise ValueError(
                f"`outcomes` must have a privacy loss of at most {float(capped):g}, "
                f"got {self.epsilon:g}. Use the epsilon for which they were computed."
            )
        self._set_estimates()
        # The last word of 64 bits of each report but the last, at each node: a report is the
        # number of these that are smaller than a random word.
        sums = np.cumsum(self._rows[:, :-1], axis=1) - 1
        self._last_words = sums.astype(np.uint64)

    def _set_estimates(self) -> None:
        """Set the estimate of each report, and check that the mean at each node is its position.

        `_squares` are the second moments of the estimates at each node, about the
        middle of the grid.
        """
        # The estimates are distances from the middle of the grid, in steps.
        upper = [estimate * ESTIMATE_UNIT for _, estimate, _ in self.outcomes]
        offsets = [-offset for offset in reversed(upper)] + [Fraction(0)] + upper
        self.estimates = [Fraction(self.steps, 2) + offset for offset in offsets]
        distances = np.array(offsets, float)
        probabilities = (self._rows / ONE).astype(float)
        biases = probabilities @ distances - (self.nodes - self.steps / 2)
        # The tolerance grows with the estimates, because floats round larger numbers more.
        if np.abs(biases).max() > 2.0**-24 + 1e-13 * np.abs(distances).max():
            raise ValueError(
                "`outcomes` must have unbiased estimates. Use the `outcomes` of "
                "another instance with the same epsilon."
            )
        self._squares = probabilities @ distances**2

    @cached_property
    def worst_ratio(self) -> Fraction:
        """Largest ratio of the probabilities of a report under two positions."""
        smallest, largest = self._rows.min(axis=0), self._rows.max(axis=0)
        return max(map(Fraction, largest, smallest))

    @cached_property
    def variation(self) -> Fraction:
        """Largest total variation distance of the reports of two positions.

        `_rows` has the probabilities of the reports at each node, in units of 2**-64.
        """
        # The largest distance is between two nodes, because the distribution of the
        # reports of any position is a mixture of the distributions of two nodes.
        distances = []
        for row, other in combinations(self._rows, 2):
            distances.append(np.maximum(row - other, 0).sum())
        return Fraction(max(distances), ONE)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"outcomes": list(map(list, self.outcomes))}

    def _draw(self, positions: Integers, source: ByteSource) -> Integers:
        """Round each position to a node at random, and draw the index of an outcome, with the node's probabilities."""
        # Round to the node above with probability distance / gap, so that the mean is the
        # position: compare a uniform integer below a common multiple of all gaps.
        below, distance = self._find_node_below(positions)
        gaps = np.diff(self.nodes)
        multiple = int(np.lcm.reduce(gaps))
        integers = uniform_integers(source, multiple, positions.size)
        nodes = below + (integers < distance * (multiple // gaps[below]))
        words = source.bytes(8 * positions.size).view("<u8")
        reports = np.empty(positions.size, np.int64)
        for node, last_words in enumerate(self._last_words):
            rows = np.flatnonzero(nodes == node)
            reports[rows] = np.searchsorted(last_words, words[rows])
        return reports

    def _find_node_below(self, positions: Any) -> tuple[Any, Any]:
        """Return the index of the node below each position, and the distance to it.

        The last position belongs to the second-to-last node.
        """
        below = np.searchsorted(self.nodes[1:-1], positions, side="right")
        return below, positions - self.nodes[below]

    def _compute_row(self, position: int) -> list[Fraction]:
        """Return the exact probability of each report at a position."""
        # The mixture of the rows of the two nodes to which the position may be rounded.
        below, distance = map(int, self._find_node_below(position))
        gap = int(self.nodes[below + 1]) - int(self.nodes[below])
        mixed = (gap - distance) * self._rows[below] + distance * self._rows[below + 1]
        return [Fraction(weight, gap * ONE) for weight in mixed]

    def variances(self, positions: NDArray[Any]) -> Floats:
        # The second moment of a mixture of two nodes is a linear interpolation.
        squares = np.interp(positions, self.nodes, self._squares)
        return squares - (positions - self.steps / 2) ** 2


def _select_nodes(steps: int, n_gaps: int) -> Integers:
    """Return up to `n_gaps` + 1 positions of the grid 0, ..., steps, even and symmetric about the middle."""
    # The middle of an odd number of steps is no position, so there is no middle node: the
    # numbers of steps and gaps are both even or both odd.
    if n_gaps > 1:
        n_gaps -= (steps - n_gaps) % 2
    n_gaps = max(1, min(steps, n_gaps))
    lower = np.arange(n_gaps // 2 + 1) * steps // n_gaps
    return np.unique(np.concatenate([lower, steps - lower]))


def _solve_outcomes(
    nodes: Integers, epsilon: float, max_ratio: Fraction
) -> tuple[Outcome, ...]:
    """Solve the linear program, round its probabilities to integers, and correct its estimates.

    `nodes` are positions from 0 to the number of steps, and `max_ratio` is a fraction
    of at most e^epsilon. The outcomes are triples as in `Optimal`.
    """
    half = nodes[-1] / 2
    if epsilon <= MAX_DUCHI_EPSILON:
        # The correction below finds the only unbiased estimate of two outcomes.
        weights, estimates = np.array([1 / (1 + math.exp(epsilon))]), np.zeros(1)
        windows = np.array([[False, True]])
    else:
        weights, estimates, windows = solve_program(tuple(nodes / half - 1), epsilon)
    order = np.argsort(estimates, kind="stable")
    unit = float(ESTIMATE_UNIT)
    estimates = np.round(estimates[order] * half / unit) * unit
    # The outcome for the middle has a probability of 2**-20, which absorbs all rounding.
    scale = (1 - 2.0**-20) * ONE
    integers = [int(weight * scale) for weight in weights[order].tolist()]
    masks = (windows[order] @ (1 << np.arange(len(nodes)))).tolist()
    outcomes = [(weight, 0, mask) for weight, mask in zip(integers, masks, strict=True)]
    direct = _compute_probabilities(outcomes, len(nodes), max_ratio)
    # Rounding has biased the estimates. Least squares changes them as little as possible:
    # the mean at a node is linear in them, with the difference of the probabilities of an
    # outcome and of its mirror image as coefficients.
    coefficients = ((direct - direct[::-1]) / ONE).astype(float)
    biases = nodes - half - coefficients @ estimates
    estimates += np.linalg.lstsq(coefficients, biases, rcond=None)[0]
    rounded = [round(estimate / unit) for estimate in estimates.tolist()]
    return tuple(zip(integers, rounded, masks, strict=True))


def _compute_probabilities(
    outcomes: Sequence[Outcome], n_nodes: int, max_ratio: Fraction
) -> NDArray[Any]:
    """Compute the probability of each outcome at each node, in units of 2**-64.

    It is the first entry of the outcome, times `max_ratio` at nodes whose bit is 1 in
    its window, the last entry. The result has the shape (n_nodes, n_outcomes) and
    contains Python integers.
    """
    columns = []
    for probability, _, window in outcomes:
        in_window = int(probability * max_ratio)
        column = []
        for node in range(n_nodes):
            column.append(in_window if window >> node & 1 else probability)
        columns.append(column)
    return np.array(columns, object).T


def _check_outcomes(outcomes: Iterable[Sequence[int]]) -> tuple[Outcome, ...]:
    """Check that outcomes are triples of integers; their probabilities are checked later."""
    triples: Any = tuple(tuple(outcome) for outcome in outcomes)
    for triple in triples or [()]:
        types = [type(number).__name__ for number in triple]
        if types != ["int", "int", "int"]:
            raise TypeError(
                "`outcomes` must be triples of int, (probability, estimate, window); "
                f"got ({', '.join(types)})."
            )
    return triples
