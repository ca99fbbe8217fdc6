"""A local protocol for sets of values: padding, and set selection."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_bounds
from skdp.oracles._base import (
    CELLS,
    FrequencyOracle,
    capped_epsilon,
    pure_noise,
)
from skdp.randomness import (
    ONE,
    ByteSource,
    categorical,
    check_size,
    subsets,
)

# Values of a channel, whose reports are vectors of bits.
MAX_VALUES = 16

# Units of proportions of sets, and of p and q.
_SCALE, _DIGITS = 1 << 320, 1 << 128


def pad_sets(
    values: NDArray[np.unsignedinteger],
    sizes: NDArray[np.integer],
    k: int,
    max_size: int,
    source: ByteSource,
) -> NDArray[np.unsignedinteger]:
    """Pad or sample sets to exactly m codes, given the concatenated codes of all sets and the size of each."""
    # A set of s <= m members has the codes k + s, k + s + 1, ... for "none". A larger set
    # has m of its members, the first positions of a shuffle, uniform but for s 2**-64.
    # **Privacy.** The shuffle need not be exact: the report of a larger set is a mean of
    # reports of sets of m, whose ratios are bounded. The number of bytes that are read
    # does not depend on the sets.
    starts = np.cumsum(sizes) - sizes
    members = values.astype(np.min_scalar_type(k + max_size))
    large = np.flatnonzero(sizes > max_size)
    for column in range(max_size if max_size < k else 0):
        words = source.bytes(8 * sizes.size).view("<u8")[large]
        n_left = (sizes[large] - column).astype(np.uint64)
        first = starts[large] + column
        chosen = first + (words % n_left).astype(np.int64)
        members[first], members[chosen] = members[chosen], members[first]
    columns = np.arange(max_size)
    padded = np.tile((k + columns).astype(members.dtype), (sizes.size, 1))
    is_member = columns < sizes[:, np.newaxis]
    indices = starts[:, np.newaxis] + columns
    padded[is_member] = members[indices[is_member]]
    return padded


class SetSelection(FrequencyOracle):
    """Set selection on sets of codes ("PrivSet"): report a set of values that probably meets the true set.

    The true set is padded to m members (`pad_sets`), out of m further codes that stand for "none". A
    set of w of all K = k + m codes is e^eps times likelier if it has a member in common
    with the padded set than if it has none ([1]_). Equivalently, with a certain
    probability it is uniform among all sets, otherwise among the sets that meet the
    padded set. The codes that stand for "none" are then removed. A larger set is
    replaced by m of its members. The error is proportional to m. With m = 1 it is
    subset selection; with w = 1 a member is sampled and reported by randomized
    response, whose epsilon is amplified by sampling to ``ln(m (e^eps - 1) + 1)``
    ([2]_).

    Parameters
    ----------
    k : int
        The number of values, at least 2.
    max_size : int
        The number m of values of a set that are reported, from 1 to k.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.
    subset_size : int, optional
        The size w, from 1 to k; by default the one with the smallest mean squared error.

    Attributes
    ----------
    subset_size : int
        The size of the sets that are drawn.
    weights : tuple of int
        Probabilities in units of 2**-64: of a uniform set, and of sets whose first member
        in common with the padded set is its i-th.
    p, q : Fraction
        The probabilities that a report contains a value of the true set (the mean over
        its m members), and any other value; exact up to m 2**-60.
    has_bits : bool
        True: a report is one bit per value.

    Notes
    -----
    In `estimate`, a set of s > m values counts as m / s for each of them; in
    `variance`, it adds at most 1/4.

    **Privacy.** Local model, replacement of the whole set, of whatever size, by any
    other one. With C(n, r) sets of r of n codes, weight W_0 of a uniform set and
    weights W_i, a set has a probability, times 2**64, of ``W_0 / C(K, w)`` if it does
    not meet the padded set, and otherwise ``W_0 / C(K, w) + W_i / C(K - i, w - 1)``, if
    its first member in common is the i-th. W_i is rounded down, with a lower bound of
    e^eps, such that ``W_i C(K, w) <= (e^eps - 1) W_0 C(K - i, w - 1)``: no quotient of
    two of these probabilities exceeds e^eps. `worst_ratio` is the largest quotient,
    computed back from the weights and rounded up.

    References
    ----------
    .. [1] S. Wang et al. (2018). PrivSet: set-valued data analyses with locale
       differential privacy. INFOCOM.
    .. [2] T. Wang, N. Li, S. Jha (2018). Locally differentially private frequent
       itemset mining. IEEE S&P.

    Examples
    --------
    >>> from skdp.oracles import SetSelection
    >>> oracle = SetSelection(100, 5, 1.0)
    >>> oracle.subset_size, round(oracle.mean_squared_error, 1)
    (5, 19.2)
    """

    has_bits = True

    def __init__(
        self,
        k: int,
        max_size: int,
        epsilon: float | Fraction,
        *,
        subset_size: int | None = None,
    ) -> None:
        self.k = check_size(k)
        # The exact integers of 1024 members take less than a second.
        most = min(self.k, 1024)
        self.max_size = check_size(max_size, min_val=1, max_val=most, name="max_size")
        capped = capped_epsilon(epsilon)
        if subset_size is None:
            subset_size = _best_size(self.k, self.max_size, float(capped))
        self.subset_size = check_size(
            subset_size, min_val=1, max_val=self.k, name="subset_size"
        )
        self._n_codes = self.k + self.max_size
        self._hit_proportions = self._count_hits()
        self.weights = self._find_weights(exp_bounds(capped)[0])
        self.p, self.q = self._support_probabilities()
        if self.p <= self.q:
            raise pure_noise(epsilon)

    def _count_hits(self) -> list[int]:
        """Return C(K - i, w - 1) / C(K, w) for i = 1 to m: the proportion of sets whose first hit is member i."""
        # Times _SCALE, rounded down: the fractions of many members have too many
        # digits.
        missed = _SCALE
        proportions = []
        for n_left in range(self._n_codes, self.k, -1):
            proportions.append(missed * self.subset_size // n_left)
            missed = missed * (n_left - self.subset_size) // n_left
        return proportions

    def _find_weights(self, max_ratio: Fraction) -> tuple[int, ...]:
        """Return the weights W_0 of a uniform set, and W_i of a first hit at the i-th member."""
        total = Fraction(sum(self._hit_proportions), _SCALE)
        # As L + sum(W) = 2**64 and W <= excess L proportion, a uniform set of weight at least L
        # remains, and the ratio is kept.
        excess = min(max_ratio - 1, (ONE - 1) / total)
        factor = excess * max(1, math.floor(ONE / (1 + excess * total))) / _SCALE
        hits = [math.floor(factor * proportion) for proportion in self._hit_proportions]
        return (ONE - sum(hits), *hits)

    def _support_probabilities(self) -> tuple[Fraction, Fraction]:
        """Return p and q, rounded to multiples of 2**-128."""
        lie, *hits = self.weights
        n_codes = self._n_codes
        size = self.subset_size
        q = _DIGITS * lie * size // n_codes
        for hit, weight in enumerate(hits, 1):
            q += _DIGITS * weight * (size - 1) // (n_codes - hit)
        q //= ONE
        # A set has `size` members: some of the padded set, and some of the k other codes.
        p = (size * _DIGITS - self.k * q) // self.max_size
        return Fraction(p, _DIGITS), Fraction(q, _DIGITS)

    @property
    def worst_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of a report under two sets, rounded up."""
        lie, *hits = self.weights
        pairs = zip(hits, self._hit_proportions, strict=True)
        # A proportion is 0 only if its weight is 0.
        ratios = [
            Fraction(hit * _SCALE, proportion * lie)
            for hit, proportion in pairs
            if proportion
        ]
        return 1 + max(ratios)

    @property
    def variation(self) -> Fraction:
        # Two padded sets without a common member have the most sets that meet one and miss
        # the other: after a first hit, the rest of a set has to miss m codes, which is
        # likeliest after the first member. Sets that meet both differ by the rounding of
        # the weights.
        missing = _SCALE
        for n_left in range(self._n_codes - 1, self.k - 1, -1):
            # Round up.
            missing = -(-missing * (n_left + 1 - self.subset_size) // n_left)
        hits = sum(self.weights[1:]) * Fraction(missing, _SCALE)
        return (hits + self.max_size + 1) / ONE

    def sets(self) -> list[tuple[int, ...]]:
        """List the sets of at most m values, the smallest first.

        Returns
        -------
        list of tuple of int
            Sets in the order of `itertools.combinations`, for the sizes 0 to m.
        """
        values = range(self.k)
        by_size = [combinations(values, size) for size in range(self.max_size + 1)]
        return list(chain.from_iterable(by_size))

    @property
    def mean_squared_error(self) -> float:
        """The mean over the values of n times the variance of a frequency, for the worst mean size of sets."""
        p, q = float(self.p), float(self.q)
        return float(_largest_error(self.k, self.max_size, p, q)) / self.k

    def report(
        self, sets: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        """Randomize sets.

        Parameters
        ----------
        sets : ndarray of unsigned integers, shape (n, max_size)
            Distinct codes in each row, as `pad_sets` returns them.
        source : ByteSource
            Source of the random bytes.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            One report per set.

        Raises
        ------
        ValueError
            If the sets have another shape.
        """
        if sets.ndim != 2 or sets.shape[1] != self.max_size:
            raise ValueError(f"sets must have the shape (n, {self.max_size})")
        if sets.dtype.kind not in "iu":
            raise ValueError(f"sets must be integers, got {sets.dtype}")
        last_code = self._n_codes - 1
        if sets.max(initial=0) > last_code or sets.min(initial=0) < 0:
            raise ValueError(f"codes must be between 0 and {last_code}")
        reports = np.empty((len(sets), self.k), np.uint8)
        step = max(1, CELLS // self._n_codes)
        for start in range(0, len(sets), step):
            block = sets[start : start + step]
            reports[start : start + step] = self._draw(block, source)[:, : self.k]
        return reports

    def _draw(
        self, sets: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        """Draw sets of all codes: first the index of the first hit, 0 for a uniform set."""
        n_codes = self._n_codes
        size = self.subset_size
        first_hit = categorical(source, self.weights, len(sets))
        # The members are the last codes, in reverse; then each code is moved to its column.
        drawn = np.zeros((len(sets), n_codes), np.uint8)
        rows = np.flatnonzero(first_hit == 0)
        drawn[rows] = subsets(source, n_codes, size, rows.size)
        for hit in range(1, self.max_size + 1):
            rows = np.flatnonzero(first_hit == hit)
            n_left = n_codes - hit
            drawn[rows, :n_left] = subsets(source, n_left, size - 1, rows.size)
            drawn[rows, n_left] = 1
        members = sets.astype(np.intp)
        is_other = np.ones(drawn.shape, bool)
        np.put_along_axis(is_other, members, False, axis=1)
        placed = np.empty_like(drawn)
        placed[is_other] = drawn[:, : self.k].reshape(-1)
        np.put_along_axis(placed, members, drawn[:, : self.k - 1 : -1], axis=1)
        return placed

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return reports.view(np.bool_)

    def channel(self) -> list[list[Fraction]]:
        """Return the exact probability of each report given each set.

        Returns
        -------
        list of list of Fraction
            One row for each set of at most m values, in the order of `sets`; one column
            per report, vectors of bits in the order of binary numbers, the first value
            first. The row of a larger set is a mean of rows.

        Raises
        ------
        ValueError
            If there are more than 2**16 reports.
        """
        if self.k > MAX_VALUES:
            raise ValueError(
                f"the channel has 2**{self.k} reports; it is available up to "
                f"{MAX_VALUES} values"
            )
        n_codes = self._n_codes
        size = self.subset_size
        lie, *hits = self.weights
        base = Fraction(lie, ONE * math.comb(n_codes, size))
        # The probability of a set by its first hit, 0 for none.
        by_hit = [base]
        for hit, weight in enumerate(hits, 1):
            increase = Fraction(weight, ONE * math.comb(n_codes - hit, size - 1))
            by_hit.append(base + increase)
        table = []
        for members in self.sets():
            padded = [*members, *range(self.k + len(members), n_codes)]
            row = [Fraction(0)] * self.n_reports
            for drawn in combinations(range(n_codes), size):
                is_hit = [code in drawn for code in padded]
                hit = is_hit.index(True) + 1 if any(is_hit) else 0
                report = sum(1 << self.k - 1 - code for code in drawn if code < self.k)
                row[report] += by_hit[hit]
            table.append(row)
        return table

    def parameters(self) -> dict[str, Any]:
        sizes = {"max_size": self.max_size, "subset_size": self.subset_size}
        return super().parameters() | sizes


def _largest_error(k: int, m: int, p: Any, q: Any) -> Any:
    """Return k times the largest mean squared error of support probabilities."""
    true_variance = p * (1 - p)
    false_variance = q * (1 - q)
    return (
        k * false_variance + np.maximum(0, m * (true_variance - false_variance))
    ) / (p - q) ** 2


def _best_size(k: int, m: int, epsilon: float) -> int:
    """Return the number of members with the smallest mean squared error."""
    sizes = np.arange(1.0, k + 1)
    n_codes = k + m
    excess = math.expm1(min(epsilon, 50))
    # The proportion of sets that miss the padded one, C(k, w) / C(K, w): each of its members
    # in turn.
    missed = np.ones(k)
    for n_left in range(n_codes, k, -1):
        missed *= 1 - sizes / n_left
    scale = 1 / (1 + excess * (1 - missed))
    any_set = sizes / n_codes
    p = scale * (1 + excess) * sizes / n_codes
    q = scale * (any_set + excess * (any_set - missed * sizes / k))
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = _largest_error(k, m, p, q)
    return int(np.nanargmin(np.where(p > q, errors, np.inf))) + 1
