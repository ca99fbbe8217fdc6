"""Set selection: local protocol for sets of values, which are padded to an equal size."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Bytes, Codes, Floats, Mask
from skdp.exact import exp_bounds
from skdp.oracles._oracle import (
    MAX_BLOCK_CELLS,
    FrequencyOracle,
    cap_epsilon,
    small_epsilon_error,
)
from skdp.randomness import (
    ONE,
    ByteSource,
    categorical,
    check_size,
    subsets,
)

# Denominators of the proportions of sets, and of p and q. Exact fractions would have too
# many digits.
_PROPORTION_UNITS = 1 << 320
_SUPPORT_UNITS = 1 << 128


class SetSelection(FrequencyOracle):
    """Set selection (PrivSet): report a random set that probably intersects the true set.

    The true set is padded to m members with codes for "no value" (`pad`), and a
    larger set is replaced by m of its members. With the m codes for "no value", there are
    K = k + m codes. A set of w codes is e^eps times as likely if it intersects the padded
    set as if it does not ([1]_). Equivalently, with some probability it is uniform among
    all sets, and otherwise uniform among the sets that intersect the padded set. A report
    contains the values of this set, without the codes for "no value".

    The error is proportional to m. With m = 1, this is subset selection. With w = 1, a
    member is sampled and reported by randomized response, whose epsilon is amplified by
    sampling to ``ln(m (e^eps - 1) + 1)`` ([2]_).

    Parameters
    ----------
    k : int
        Number of values, at least 2.
    max_size : int
        Number m of values of a set that are reported, from 1 to k.
    epsilon : float or Fraction
        Requested privacy loss, finite and > 0.
    subset_size : int, default=None
        Size w, from 1 to k. None selects the size with the smallest mean squared error.

    Attributes
    ----------
    subset_size : int
        Size of the sets that are drawn.
    weights : tuple of int
        Probabilities in units of 2**-64: of a uniform set, and for i = 1 to m of a set
        whose first common member with the padded set is the i-th member.
    p, q : Fraction
        Probabilities that a report contains a value of the true set (the mean over the m
        padded members), and any other value; exact up to m 2**-60.
    has_bits : bool
        True: a report has one bit per value.

    Notes
    -----
    In `estimate`, a set of s > m values counts as m / s for each of them, which adds at
    most 1/4 to the variance.

    **Privacy.** Local model, replacement of the whole set by any other set of any size.
    Let C(n, r) be the number of sets of r of n codes, and W_0 to W_m be the weights. A
    set without a common member has the probability ``W_0 / C(K, w)``, in units of
    2**-64. A set whose first common member is the i-th has the probability ``W_0 / C(K,
    w) + W_i / C(K - i, w - 1)``. Each W_i is rounded down, with a lower bound of e^eps,
    such that ``W_i C(K, w) <= (e^eps - 1) W_0 C(K - i, w - 1)``, so no ratio of two
    probabilities exceeds e^eps. `worst_ratio` is computed from the rounded weights.

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
        # A true set is padded with codes for "no value" to `max_size` of `_n_codes`
        # codes, and a report is a random set of `subset_size` codes. `weights` has the
        # probabilities, in units of 2**-64, that the report is uniform, and that its
        # first common member with the padded set is the i-th one. p and q are the
        # probabilities that a report contains a member of the true set, and any other
        # value.
        self.k = check_size(k)
        # Exact integers for 1024 members take less than a second.
        largest = min(self.k, 1024)
        self.max_size = check_size(
            max_size, min_val=1, max_val=largest, name="max_size"
        )
        capped = cap_epsilon(epsilon)
        if subset_size is None:
            subset_size = _find_best_size(self.k, self.max_size, float(capped))
        self.subset_size = check_size(
            subset_size, min_val=1, max_val=self.k, name="subset_size"
        )
        self._n_codes = self.k + self.max_size
        self._hit_proportions = self._compute_hit_proportions()
        self.weights = self._compute_weights(exp_bounds(capped)[0])
        self.p, self.q = self._compute_support_probabilities()
        if self.p <= self.q:
            raise small_epsilon_error(epsilon)

    def _compute_hit_proportions(self) -> list[int]:
        """Return, for i = 1 to m, the proportion of sets with member i as first common member.

        Among the C(K, w) sets of w of the K codes, C(K - i, w - 1) sets contain the i-th
        member of a padded set, and none of its earlier members. The proportions are in
        units of 2**-320, rounded down.
        """
        # The proportion of sets without the first i - 1 members. Among them, w of the
        # K - i + 1 remaining codes are drawn.
        missed = _PROPORTION_UNITS
        proportions = []
        for n_left in range(self._n_codes, self.k, -1):
            proportions.append(missed * self.subset_size // n_left)
            missed = missed * (n_left - self.subset_size) // n_left
        return proportions

    def _compute_weights(self, max_ratio: Fraction) -> tuple[int, ...]:
        """Return the weights: W_0 of a uniform set, and W_i of sets with first common member i.

        They are probabilities in units of 2**-64, and `max_ratio` is a lower bound of
        e^epsilon.
        """
        total = Fraction(sum(self._hit_proportions), _PROPORTION_UNITS)
        # The ratio is at most e^eps if W_i <= (e^eps - 1) W_0 proportion_i. All weights
        # add up to 2**64, so W_0 is about 2**64 / (1 + (e^eps - 1) total). Rounding down
        # the other weights can only increase W_0, and decrease the ratio.
        excess = min(max_ratio - 1, (ONE - 1) / total)
        uniform_weight = max(1, math.floor(ONE / (1 + excess * total)))
        factor = excess * uniform_weight / _PROPORTION_UNITS
        hits = [math.floor(factor * proportion) for proportion in self._hit_proportions]
        return (ONE - sum(hits), *hits)

    def _compute_support_probabilities(self) -> tuple[Fraction, Fraction]:
        """Return the probabilities that a report contains a member of the true set (p), and any other value (q).

        They are rounded to multiples of 2**-128. In the comments, k is the number of
        values, m the maximum size of a true set, K = k + m, and w the size of a
        reported set.
        """
        uniform_weight, *hit_weights = self.weights
        n_codes = self._n_codes
        size = self.subset_size
        # A code outside the padded set is in a uniform set with probability w / K. After a
        # first common member i, it is one of w - 1 members from K - i codes.
        q = _SUPPORT_UNITS * uniform_weight * size // n_codes
        for hit, weight in enumerate(hit_weights, 1):
            q += _SUPPORT_UNITS * weight * (size - 1) // (n_codes - hit)
        q //= ONE
        # The expected numbers of members of both types add up: m p + k q = w.
        p = (size * _SUPPORT_UNITS - self.k * q) // self.max_size
        return Fraction(p, _SUPPORT_UNITS), Fraction(q, _SUPPORT_UNITS)

    @property
    def worst_ratio(self) -> Fraction:
        """Largest ratio of the probabilities of a report under two sets, rounded up."""
        # The ratio for a first common member i is 1 + W_i C(K, w) / (W_0 C(K - i, w - 1)).
        uniform_weight, *hit_weights = self.weights
        ratios = []
        for weight, proportion in zip(hit_weights, self._hit_proportions, strict=True):
            if proportion:  # otherwise the weight is 0, too
                excess = weight * _PROPORTION_UNITS
                ratios.append(1 + Fraction(excess, proportion * uniform_weight))
        return max(ratios)

    @property
    def variation(self) -> Fraction:
        # Upper bound of the total variation distance of the reports of two sets. A
        # padded set has m of K codes, and a report is a set of w codes.
        # The total variation is at most the probability of a report that intersects the
        # first padded set, and does not intersect the second one, under the first. It is
        # largest for disjoint padded sets. After a first common member i, the w - 1 other
        # members have to miss the m codes of the second set among K - i codes, which is
        # most probable for i = 1. Reports that intersect both sets have equal
        # probabilities up to the rounding of the m + 1 weights.
        missing = _PROPORTION_UNITS
        for n_left in range(self._n_codes - 1, self.k - 1, -1):
            # This is rounded up.
            missing = -(-missing * (n_left + 1 - self.subset_size) // n_left)
        hits = sum(self.weights[1:]) * Fraction(missing, _PROPORTION_UNITS)
        return (hits + self.max_size + 1) / ONE

    def sets(self) -> list[tuple[int, ...]]:
        """List all sets of at most m values, in the order of their sizes.

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
        """Mean over the k values of n times the variance of a frequency, in the worst case."""
        p, q = float(self.p), float(self.q)
        return float(_sum_worst_variances(self.k, self.max_size, p, q)) / self.k

    def pad(
        self, members: Codes, sizes: NDArray[np.integer], source: ByteSource
    ) -> Codes:
        """Convert each set to `max_size` codes: pad a smaller set, and sample from a larger set.

        Parameters
        ----------
        members : ndarray of unsigned integers
            Codes of all sets, one set after the other.
        sizes : ndarray of integers, shape (n,)
            Size of each set.
        source : ByteSource
            Source of the random bytes, which select members of larger sets.

        Returns
        -------
        ndarray of shape (n, max_size)
            Input of `report`.
        """
        members = members.astype(np.min_scalar_type(self._n_codes))
        starts = np.cumsum(sizes) - sizes  # the index of the first member of each set
        # The first `max_size` steps of a Fisher-Yates shuffle of each larger set. A
        # remainder of 64 bits is not exactly uniform, which does not affect privacy: a
        # report of a random subset is a mixture of reports of subsets, whose ratios are
        # bounded. Words are drawn for all sets, so the number of random bytes does not
        # depend on the sets.
        large = np.flatnonzero(sizes > self.max_size)
        for column in range(self.max_size if self.max_size < self.k else 0):
            words = source.bytes(8 * sizes.size).view("<u8")[large]
            n_left = (sizes[large] - column).astype(np.uint64)
            first = starts[large] + column
            chosen = first + (words % n_left).astype(np.int64)
            members[first], members[chosen] = members[chosen], members[first]
        # Column i has the code k + i, which stands for "no value", unless the set has a
        # member with this index.
        columns = np.arange(self.max_size)
        padded = np.tile((self.k + columns).astype(members.dtype), (sizes.size, 1))
        is_member = columns < sizes[:, np.newaxis]
        indices = starts[:, np.newaxis] + columns
        padded[is_member] = members[indices[is_member]]
        return padded

    def report(self, sets: Codes, source: ByteSource) -> Bytes:
        """Randomize sets.

        Parameters
        ----------
        sets : ndarray of unsigned integers, shape (n, max_size)
            Distinct codes in each row, as `pad` returns them.
        source : ByteSource
            Source of the random bytes.

        Returns
        -------
        ndarray of uint8, shape (n, k)
            One report per set, with a bit for each value.

        Raises
        ------
        ValueError
            If the sets have another shape or dtype, or a code is out of range.
        """
        if sets.ndim != 2 or sets.shape[1] != self.max_size:
            raise ValueError(
                f"`sets` must have the shape (n, {self.max_size}), got {sets.shape}."
            )
        if sets.dtype.kind not in "iu":
            raise ValueError(f"`sets` must be integers, got {sets.dtype}.")
        last_code = self._n_codes - 1
        if sets.max(initial=0) > last_code or sets.min(initial=0) < 0:
            raise ValueError(f"`sets` must have codes from 0 to {last_code}.")
        reports = np.empty((len(sets), self.k), np.uint8)
        step = max(1, MAX_BLOCK_CELLS // self._n_codes)
        for start in range(0, len(sets), step):
            block = sets[start : start + step]
            reports[start : start + step] = self._draw(block, source)[:, : self.k]
        return reports

    def _draw(self, sets: Codes, source: ByteSource) -> Bytes:
        """Draw a set of w codes for each padded set, as bits of shape (n_sets, K).

        `sets` has the m different codes of each padded set, of shape (n_sets, m), and K
        = k + m is the number of codes.
        """
        n_codes = self._n_codes
        size = self.subset_size
        # The index of the first common member, or 0 for a uniform set.
        first_hit = categorical(source, self.weights, len(sets))
        # The bits are first drawn in another order of the codes: the k other codes, then
        # the m members in reverse. So the codes after the first i members are the first
        # K - i columns.
        drawn = np.zeros((len(sets), n_codes), np.uint8)
        rows = np.flatnonzero(first_hit == 0)
        drawn[rows] = subsets(source, n_codes, size, rows.size)
        for hit in range(1, self.max_size + 1):
            rows = np.flatnonzero(first_hit == hit)
            n_left = n_codes - hit
            drawn[rows, :n_left] = subsets(source, n_left, size - 1, rows.size)
            drawn[rows, n_left] = 1
        # Move the bit of each code to its own column.
        members = sets.astype(np.intp)
        is_other = np.ones(drawn.shape, bool)
        np.put_along_axis(is_other, members, False, axis=1)
        bits = np.empty_like(drawn)
        bits[is_other] = drawn[:, : self.k].reshape(-1)
        np.put_along_axis(bits, members, drawn[:, : self.k - 1 : -1], axis=1)
        return bits

    def supports(self, reports: NDArray[Any]) -> Mask:
        return reports.view(np.bool_)

    def channel(self) -> list[list[Fraction]]:
        """Return the exact probability of each report given each set.

        Returns
        -------
        list of list of Fraction
            One row for each set of at most m values, in the order of `sets`, and one
            column for each vector of bits, in the order of binary numbers with the bit of
            the first value highest. From a larger set, m values are drawn, so its row
            is the mean of the rows of its subsets of m values.

        Raises
        ------
        ValueError
            If there are more than 2**16 reports.
        """
        if self.k > 16:
            raise ValueError(
                f"`channel` supports at most 16 values, got {self.k}: it has 2**k "
                "columns."
            )
        n_codes = self._n_codes
        size = self.subset_size
        uniform_weight, *hit_weights = self.weights
        # The probability of a set by the index of its first common member, or 0.
        base = Fraction(uniform_weight, ONE * math.comb(n_codes, size))
        by_hit = [base]
        for hit, weight in enumerate(hit_weights, 1):
            increase = Fraction(weight, ONE * math.comb(n_codes - hit, size - 1))
            by_hit.append(base + increase)
        table = []
        for members in self.sets():
            padded = [*members, *range(self.k + len(members), n_codes)]
            row = [Fraction(0)] * self.n_reports
            for drawn in combinations(range(n_codes), size):
                is_hit = [code in drawn for code in padded]
                hit = is_hit.index(True) + 1 if any(is_hit) else 0
                # The binary number of the drawn values; codes from k on are removed.
                report = sum(1 << self.k - 1 - code for code in drawn if code < self.k)
                row[report] += by_hit[hit]
            table.append(row)
        return table

    def parameters(self) -> dict[str, Any]:
        sizes = {"max_size": self.max_size, "subset_size": self.subset_size}
        return super().parameters() | sizes


def _sum_worst_variances(k: int, m: int, p: float | Floats, q: float | Floats) -> Any:
    """Return n times the sum of the variances of k frequencies, for the worst sizes of sets of at most m values.

    A record with s of the k values has s Bernoulli variables with probability p and k - s
    with probability q, so the sum is linear in s, and largest for s = 0 or s = m.
    """
    true_variance = p * (1 - p)
    false_variance = q * (1 - q)
    total = k * false_variance + np.maximum(0, m * (true_variance - false_variance))
    return total / (p - q) ** 2


def _find_best_size(k: int, m: int, epsilon: float) -> int:
    """Return the size w of the reported sets with the smallest mean squared error.

    k is the number of values, m the size of a padded true set, and K = k + m the number
    of codes.
    """
    sizes = np.arange(1.0, k + 1)
    n_codes = k + m
    excess = math.expm1(min(epsilon, 50))
    # The proportion of sets that do not intersect the padded set, C(k, w) / C(K, w): the
    # product of the probabilities that its members are excluded one after the other.
    missed = np.ones(k)
    for n_left in range(n_codes, k, -1):
        missed *= 1 - sizes / n_left
    # Sets that intersect the padded set have the weight e^eps, all other sets the weight
    # 1, and `scale` is the inverse of the mean weight. A code is in w / K of all sets, and
    # in w / k of the sets that do not intersect the padded set, if it is not a member.
    scale = 1 / (1 + excess * (1 - missed))
    any_set = sizes / n_codes
    p = scale * (1 + excess) * sizes / n_codes
    q = scale * (any_set + excess * (any_set - missed * sizes / k))
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = _sum_worst_variances(k, m, p, q)
    return int(np.nanargmin(np.where(p > q, errors, np.inf))) + 1
