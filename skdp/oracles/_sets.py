"""Local protocols for sets of values: padding, three protocols, and the choice of the best one."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_bounds
from skdp.oracles._base import (
    CELLS,
    FrequencyOracle,
    SupportCounts,
    capped_epsilon,
    channel_of_bits,
    flip_threshold,
    pure_noise,
)
from skdp.oracles._choice import ORACLES, least_error_name
from skdp.randomness import (
    ONE,
    ByteSource,
    bernoulli,
    categorical,
    check_size,
    subsets,
    uniform_integers,
)

# Of a set, so that exact numbers are computed in less than a second.
MOST_MEMBERS = 1024

# Of a channel whose reports are vectors of bits.
MOST_VALUES = 16

# The units of shares of sets, and of p and q.
_SCALE, _DIGITS = 1 << 320, 1 << 128


class SetOracle(SupportCounts):
    """A local protocol for a set of at most m of k values, on integer codes ``0, ..., k - 1``.

    >>> from skdp.oracles import SetOracle, SetSelection
    >>> oracle = SetSelection(100, 5, 1.0)
    >>> isinstance(oracle, SetOracle), oracle.epsilon <= 1.0
    (True, True)

    A set is first padded to m members (`pad_sets`); a larger one is replaced by m of
    its members. Then a report supports each value of the set with probability p, and
    each other one with probability q, whatever else is in the set.

    Parameters
    ----------
    k : int
        The number of values, at least 2.
    max_size : int
        The number m, from 1 to k, at most 1,024.

    Attributes
    ----------
    k, max_size : int
        As given.
    p, q : Fraction
        The support probabilities.
    has_bits : bool
        Whether a report is one bit per value.
    shows_hash : bool
        Whether a report contains a public hash function; given this, it is one of the
        columns of `channel`.

    Notes
    -----
    **Privacy.** Local model, replacement of the whole set, of whatever size, by any
    other one.

    In `estimate`, a set of s > m values counts as m / s for each of them; in
    `variance`, it adds at most 1/4.
    """

    max_size: int
    has_bits = True

    def __init__(self, k: int, max_size: int) -> None:
        self.k = check_size(k)
        most = min(self.k, MOST_MEMBERS)
        self.max_size = check_size(max_size, least=1, most=most, name="max_size")

    @abstractmethod
    def report(
        self, sets: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[Any]:
        """Randomise sets.

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
            If the sets have another shape, or the reports would take more than 2 GiB.
        """

    @abstractmethod
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

    @property
    @abstractmethod
    def worst_ratio(self) -> Fraction:  # numpydoc ignore=RT01
        """A bound of the ratio of the probabilities of a report under two sets: ``e**epsilon`` as achieved."""

    def sets(self) -> list[tuple[int, ...]]:
        """List the sets of at most m values, the smallest first.

        Returns
        -------
        list of tuple of int
            As of `itertools.combinations`, for the sizes 0 to m.
        """
        sets: list[tuple[int, ...]] = []
        for size in range(self.max_size + 1):
            sets += combinations(range(self.k), size)
        return sets

    def error(self, mean_size: float) -> float:
        """Return the mean over the values of n times the variance of a frequency.

        Parameters
        ----------
        mean_size : float
            The mean number of values of a set, of those that are kept; from 0 to m.

        Returns
        -------
        float
            In closed form.
        """
        true_variance = self.p * (1 - self.p)
        false_variance = self.q * (1 - self.q)
        gain = float(self.k * (self.p - self.q) ** 2)
        return (
            float(self.k * false_variance)
            + mean_size * float(true_variance - false_variance)
        ) / gain

    @property
    def mean_squared_error(self) -> float:  # numpydoc ignore=RT01
        """The largest `error` over the mean sizes that sets may have."""
        return max(self.error(0), self.error(self.max_size))

    def check_size(self, n: int) -> None:
        """Refuse a number of reports that would take more than 2 GiB.

        Parameters
        ----------
        n : int
            The number of reports.

        Raises
        ------
        ValueError
            If they are too many.
        """
        self._check_size(n)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters on which client and server must agree.

        Returns
        -------
        dict
            Text and numbers; oracles with equal parameters accept each other's reports.
        """
        return {
            "oracle": type(self).__name__,
            "k": self.k,
            "max_size": self.max_size,
            "p": str(self.p),
            "q": str(self.q),
        }

    def _check_sets(self, sets: NDArray[Any]) -> None:
        is_table = sets.ndim == 2 and sets.shape[1] == self.max_size
        if not is_table or sets.dtype.kind not in "iu":
            raise ValueError(f"sets must be integers of shape (n, {self.max_size})")
        last_code = self.k + self.max_size - 1
        if sets.size and (sets.max() > last_code or sets.min() < 0):
            raise ValueError(f"codes must be between 0 and {last_code}")
        self.check_size(len(sets))

    def _check_channel(self) -> None:
        if self.k > MOST_VALUES:
            raise ValueError(
                f"the channel has 2**{self.k} reports; it is available up to "
                f"{MOST_VALUES} values"
            )


def pad_sets(
    values: NDArray[np.unsignedinteger],
    sizes: NDArray[np.integer],
    k: int,
    max_size: int,
    source: ByteSource,
) -> NDArray[np.unsignedinteger]:
    """Make sets of exactly m codes, of the codes of all sets one after the other, and the size of each."""
    # All members of a set of s <= m, and the codes k + s, k + s + 1, ... for "none"; of
    # a larger one m of its members, uniform but for s 2**-64, the first places of a
    # shuffle. **Privacy.** That need not be exact: the report of a larger set is a mean
    # of reports of sets of m, whose ratios are bounded. As many bytes are read in any
    # case.
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
    places = starts[:, np.newaxis] + columns
    padded[is_member] = members[places[is_member]]
    return padded


class SampledSet(SetOracle):
    """Padding and sampling of sets of codes ("PSFO"): report one member of the padded set by a frequency oracle.

    >>> oracle = SampledSet(100, 5, 1.0)
    >>> oracle.report_bytes, round(oracle.mean_squared_error, 1)
    (5, 92.8)

    The set is padded to m members, one of these is drawn, each alike, and reported by
    an oracle for k + 1 codes, the last of which stands for "none" ([1]_). The error is
    m**2 times that of the oracle.

    Parameters
    ----------
    k : int
        The number of values, at least 2.
    max_size : int
        The number m of values of a set that are reported, from 1 to k.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.
    oracle : str, default="local_hashing"
        One of the frequency oracles.

    Attributes
    ----------
    oracle : FrequencyOracle
        The oracle for k + 1 codes.
    p, q : Fraction
        The probabilities that a report supports a value of the set, and another one.

    Notes
    -----
    **Privacy.** Local model, replacement of the whole set. A report of a set is a mean
    of reports of its members, so that the ratio for two sets is at most that for two
    codes. It is not smaller: of an empty set, "none" is drawn for sure.

    References
    ----------
    .. [1] T. Wang, N. Li, S. Jha (2018). Locally differentially private frequent
       itemset mining. IEEE S&P.
    """

    def __init__(
        self,
        k: int,
        max_size: int,
        epsilon: float | Fraction,
        *,
        oracle: str = "local_hashing",
    ) -> None:
        super().__init__(k, max_size)
        if not isinstance(oracle, str) or oracle not in ORACLES:
            names = ", ".join(map(repr, ORACLES))
            raise ValueError(f"oracle must be one of {names}, got {oracle!r}")
        self.oracle: FrequencyOracle = ORACLES[oracle](self.k + 1, epsilon)
        self.has_bits = self.oracle.has_bits  # type: ignore[misc]
        self.shows_hash = self.oracle.shows_hash  # type: ignore[misc]
        self.q = self.oracle.q
        self.p = self.q + (self.oracle.p - self.q) / self.max_size

    @property
    def worst_ratio(self) -> Fraction:
        return self.oracle.worst_ratio

    @property
    def variation(self) -> Fraction:
        return self.oracle.variation

    @property
    def n_reports(self) -> int:
        return self.oracle.n_reports

    @property
    def width(self) -> int:
        return self.oracle.width

    @property
    def report_bytes(self) -> int:
        return self.oracle.report_bytes

    def report(
        self, sets: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[Any]:
        self._check_sets(sets)
        places = uniform_integers(source, self.max_size, len(sets)).astype(np.intp)
        members = np.take_along_axis(sets, places[:, np.newaxis], axis=1)[:, 0]
        codes = np.minimum(members, self.k).astype(np.min_scalar_type(self.k))
        return self.oracle.report(codes, source)

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return self.oracle.supports(reports)[:, : self.k]

    def channel(self) -> list[list[Fraction]]:
        return self._mix(self.oracle.channel())

    def channels(self) -> Iterator[list[list[Fraction]]]:
        for channel in self.oracle.channels():
            yield self._mix(channel)

    def _mix(self, channel: list[list[Fraction]]) -> list[list[Fraction]]:
        """Return the rows of sets, of which one member is reported, from those of codes."""
        table = []
        for members in self.sets():
            n_none = self.max_size - len(members)
            rows = [channel[code] for code in members] + [channel[self.k]] * n_none
            sums = [sum(column, Fraction(0)) for column in zip(*rows, strict=True)]
            table.append([total / self.max_size for total in sums])
        return table

    def fields(self, labels: Sequence[str]) -> list[str]:
        return self.oracle.fields([*labels, "none"])

    def read(self, block: NDArray[Any]) -> NDArray[Any]:
        return self.oracle.read(block)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"of": self.oracle.parameters()}


class SetSelection(SetOracle):
    """Set selection on sets of codes ("PrivSet"): report a set of w of the values that is likely to meet the true set.

    >>> oracle = SetSelection(100, 5, 1.0)
    >>> oracle.subset_size, round(oracle.mean_squared_error, 1)
    (5, 19.2)

    The true set is padded to m members, out of m further codes that stand for "none". A
    set of w of all K = k + m codes is e^eps times likelier if it has a member in common
    with the padded set than if it has none ([1]_). Equivalently, with a certain
    probability (a lie) it is uniform among all sets, otherwise among those that meet
    the padded set. The codes that stand for "none" are then left out. The error grows
    as m, that of padding and sampling and of unary encodings as m**2 where epsilon is
    small. With m = 1 it is subset selection; with w = 1 it is padding and sampling with
    randomised response, whose epsilon sampling amplifies to ``ln(m (e^eps - 1) + 1)``
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
        The size w, from 1 to k; by default the one with the least mean squared error.

    Attributes
    ----------
    subset_size : int
        The size of the sets that are drawn.
    weights : tuple of int
        Of 2**64: the probability of a lie, and of sets whose first member in common
        with the padded set is its i-th.
    p, q : Fraction
        The probabilities that a report holds a value of the true set (the mean over its
        m places), and another one; exact but for m 2**-60.

    Notes
    -----
    **Privacy.** Local model, replacement of the whole set. With C(n, r) sets of r of n
    codes, weight W_0 of a lie and weights W_i, a set has a probability, times 2**64, of
    ``W_0 / C(K, w)`` if it does not meet the padded set, and otherwise ``W_0 / C(K, w)
    + W_i / C(K - i, w - 1)``, if its first member in common is the i-th. W_i is rounded
    down, with a lower bound of e^eps, such that ``W_i C(K, w) <= (e^eps - 1) W_0 C(K -
    i, w - 1)``: no quotient of two of these probabilities exceeds e^eps. `worst_ratio`
    is the largest quotient, computed back from the weights and rounded up.

    References
    ----------
    .. [1] S. Wang et al. (2018). PrivSet: set-valued data analyses with locale
       differential privacy. INFOCOM.
    .. [2] T. Wang, N. Li, S. Jha (2018). Locally differentially private frequent
       itemset mining. IEEE S&P.
    """

    def __init__(
        self,
        k: int,
        max_size: int,
        epsilon: float | Fraction,
        *,
        subset_size: int | None = None,
    ) -> None:
        super().__init__(k, max_size)
        capped = capped_epsilon(epsilon)
        if subset_size is None:
            subset_size = _best_size(self.k, self.max_size, float(capped))
        self.subset_size = check_size(
            subset_size, least=1, most=self.k, name="subset_size"
        )
        self.weights = self._hit_weights(exp_bounds(capped)[0])
        self.p, self.q = self._support_shares()
        if self.p <= self.q:
            raise pure_noise(epsilon)

    @property
    def _n_codes(self) -> int:
        return self.k + self.max_size

    def _first_hits(self) -> list[int]:
        """Return C(K - i, w - 1) / C(K, w) for i = 1, ..., m, the share of sets whose first hit is the i-th member."""
        # Times _SCALE, rounded down: the fractions of many members have too many
        # digits.
        n_left = self._n_codes
        missed = _SCALE
        shares = []
        for _ in range(self.max_size):
            shares.append(missed * self.subset_size // n_left)
            missed = missed * (n_left - self.subset_size) // n_left
            n_left -= 1
        return shares

    def _hit_weights(self, most_ratio: Fraction) -> tuple[int, ...]:
        """Return the weights W_0 of a lie, and W_i of a first hit at the i-th member."""
        shares = self._first_hits()
        total = Fraction(sum(shares), _SCALE)
        # As L + sum(W) = 2**64 and W <= excess L share, a lie of weight at least L
        # remains, and so does the ratio.
        excess = min(most_ratio - 1, (ONE - 1) / total)
        factor = excess * max(1, math.floor(ONE / (1 + excess * total)))
        numerator, denominator = factor.as_integer_ratio()
        hits = [numerator * share // (denominator * _SCALE) for share in shares]
        return (ONE - sum(hits), *hits)

    def _support_shares(self) -> tuple[Fraction, Fraction]:
        """Return p and q, rounded to multiples of 2**-128."""
        lie, *hits = self.weights
        n_codes = self._n_codes
        size = self.subset_size
        q = _DIGITS * lie * size // n_codes
        for place, weight in enumerate(hits, 1):
            q += _DIGITS * weight * (size - 1) // (n_codes - place)
        q //= ONE
        # A set has `size` members: those of the padded set, and those of the k codes
        # that are not in it.
        p = (size * _DIGITS - self.k * q) // self.max_size
        return Fraction(p, _DIGITS), Fraction(q, _DIGITS)

    @property
    def worst_ratio(self) -> Fraction:
        lie, *hits = self.weights
        excess = [Fraction(0)]
        for weight, share in zip(hits, self._first_hits(), strict=True):
            if weight:
                excess.append(Fraction(weight * _SCALE, share * lie))
        return 1 + max(excess)

    @property
    def variation(self) -> Fraction:
        # Most of the sets that meet one padded set and miss another one are those of
        # two without a common member: after a first hit, the rest of them has to miss m
        # codes, which is likeliest after the first place. Sets that meet both differ by
        # the rounding of the weights.
        missing = _SCALE
        n_left = self._n_codes - 1
        for _ in range(self.max_size):
            # Rounded up.
            missing = -(-missing * (n_left + 1 - self.subset_size) // n_left)
            n_left -= 1
        hits = sum(self.weights[1:]) * Fraction(missing, _SCALE)
        return (hits + self.max_size + 1) / ONE

    def report(
        self, sets: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        self._check_sets(sets)
        reports = np.empty((len(sets), self.k), np.uint8)
        step = max(1, CELLS // self._n_codes)
        for start in range(0, len(sets), step):
            block = sets[start : start + step]
            reports[start : start + step] = self._draw(block, source)[:, : self.k]
        return reports

    def _draw(
        self, sets: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        """Draw the sets with all codes: of each row first the place of the first hit, or 0 for a lie."""
        n_codes = self._n_codes
        size = self.subset_size
        first_hit = categorical(source, self.weights, len(sets))
        # As if the members were the last codes, the first of them the last one; then
        # every code takes its place.
        drawn = np.zeros((len(sets), n_codes), np.uint8)
        for place in range(self.max_size + 1):
            rows = np.flatnonzero(first_hit == place)
            if place == 0:
                drawn[rows] = subsets(source, n_codes, size, rows.size)
            else:
                n_left = n_codes - place
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
        self._check_channel()
        n_codes = self._n_codes
        size = self.subset_size
        lie, *hits = self.weights
        base = Fraction(lie, ONE * math.comb(n_codes, size))
        # The probability of a set by its first hit, 0 for none.
        by_hit = [base]
        for place, weight in enumerate(hits, 1):
            hit_share = Fraction(weight, ONE * math.comb(n_codes - place, size - 1))
            by_hit.append(base + hit_share)
        table = []
        for members in self.sets():
            padded = [*members, *range(self.k + len(members), n_codes)]
            row = [Fraction(0)] * self.n_reports
            for drawn in combinations(range(n_codes), size):
                hit_places = [
                    place for place, code in enumerate(padded, 1) if code in drawn
                ]
                report = sum(1 << self.k - 1 - code for code in drawn if code < self.k)
                row[report] += by_hit[min(hit_places, default=0)]
            table.append(row)
        return table

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"subset_size": self.subset_size}


def _largest_error(k: int, m: int, p: Any, q: Any) -> Any:
    """Return, times k, the largest `SetOracle.error` of support probabilities."""
    true_variance = p * (1 - p)
    false_variance = q * (1 - q)
    return (
        k * false_variance + np.maximum(0, m * (true_variance - false_variance))
    ) / (p - q) ** 2


def _best_size(k: int, m: int, epsilon: float) -> int:
    """Return the number of members with the least mean squared error."""
    sizes = np.arange(1.0, k + 1)
    n_codes = k + m
    excess = math.expm1(min(epsilon, 50))
    # The share of sets that miss the padded one, C(k, w) / C(K, w): each of its members
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


class SetUnaryEncoding(SetOracle):
    """Unary encoding of sets of codes: a bit for each value, all randomised independently.

    >>> oracle = SetUnaryEncoding(6, 6, 12.0)
    >>> round(oracle.mean_squared_error, 2), round(float(oracle.p), 2), round(float(oracle.q), 2)
    (0.18, 0.88, 0.12)

    The bits of values in the set are reported as 1 with probability p, the others with
    probability q. Two sets of at most m values differ in at most m bits each way, and
    in k bits in all, so that with a = m and b = min(m, k - m)

        e^eps = max((p / q)^a ((1 - q) / (1 - p))^b, (p / q)^b ((1 - q) / (1 - p))^a).

    If a = b, of the pairs (p, q) from the optimised form (p = 1/2) to the symmetric one
    (q = 1 - p) the one with the least error is taken, otherwise the symmetric one. It
    is the best protocol known here where sets hold a large part of the values and
    epsilon is large.

    Parameters
    ----------
    k : int
        The number of values, at least 2.
    max_size : int
        The number m of values of a set that are reported, from 1 to k.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.

    Attributes
    ----------
    p, q : Fraction
        The probabilities of a 1: integers over 2**64, q rounded up, toward more noise.

    Notes
    -----
    **Privacy.** Local model, replacement of the whole set. `epsilon` is computed from
    the integers that are drawn.
    """

    def __init__(self, k: int, max_size: int, epsilon: float | Fraction) -> None:
        super().__init__(k, max_size)
        capped = capped_epsilon(epsilon)
        # With p = 1 / (1 + e^-x) and q = 1 / (1 + e^y), a bit that is set for one of
        # two sets changes the ratio by a factor of p / q or (1 - q) / (1 - p), and two,
        # one of each set, by e^(x + y). So e^eps is reached at x = y = eps / (a + b),
        # and if a = b at any x and y of the same sum.
        n_more, n_fewer = self._changes
        odds = 2 * capped / (n_more + n_fewer)
        shares = [Fraction(1, 2)]
        # Of the search for p, between those of the optimised and of the symmetric form.
        n_steps = 16
        if n_more == n_fewer:
            shares += [Fraction(step, 2 * n_steps) for step in range(n_steps)]
        best_error = math.inf
        for share in shares:
            p = ONE - flip_threshold(odds * share)
            q = flip_threshold(odds * (1 - share))
            if p == q:
                raise pure_noise(epsilon)
            error = _largest_error(self.k, self.max_size, p / ONE, q / ONE)
            if error < best_error:
                best_error = error
                self.p = Fraction(p, ONE)
                self.q = Fraction(q, ONE)

    @property
    def _changes(self) -> tuple[int, int]:
        """The largest numbers of bits in which two sets differ, each way."""
        return self.max_size, min(self.max_size, self.k - self.max_size)

    @property
    def worst_ratio(self) -> Fraction:
        a, b = self._changes
        up = self.p / self.q
        down = (1 - self.q) / (1 - self.p)
        return max(up**a * down**b, up**b * down**a)

    def report(
        self, sets: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        self._check_sets(sets)
        width = self.k + self.max_size
        p = int(self.p * ONE)
        q = int(self.q * ONE)
        reports = np.empty((len(sets), self.k), np.uint8)
        step = max(1, CELLS // width)
        for start in range(0, len(sets), step):
            members = sets[start : start + step].astype(np.intp)
            bits = bernoulli(source, q, len(members) * width).reshape(-1, width)
            member_bits = bernoulli(source, p, members.size).reshape(members.shape)
            np.put_along_axis(bits, members, member_bits, axis=1)
            reports[start : start + step] = bits[:, : self.k]
        return reports

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return reports.view(np.bool_)

    def channel(self) -> list[list[Fraction]]:
        self._check_channel()
        table = np.zeros((len(self.sets()), self.k), int)
        for row, members in zip(table, self.sets(), strict=True):
            row[list(members)] = 1
        return channel_of_bits(table.tolist(), self.k, (self.q, self.p))


_SAMPLED = (
    "randomized_response",
    "subset_selection",
    "optimized_unary_encoding",
    "symmetric_unary_encoding",
    "local_hashing",
    "binary_local_hashing",
)

# The protocols by name; those of frequency oracles report a member that is drawn at
# random.
SET_ORACLES: dict[str, Callable[[int, int, Any], SetOracle]] = {
    "set_selection": SetSelection,
    "set_unary_encoding": SetUnaryEncoding,
    **{name: partial(SampledSet, oracle=name) for name in _SAMPLED},
}


def choose_set_oracle(
    k: int,
    max_size: int,
    epsilon: float | Fraction,
    *,
    max_report_bytes: int | None = None,
) -> tuple[str, SetOracle]:
    """Return the protocol with the least mean squared error among those whose report fits, and its name."""
    oracles = {}
    costs = {}
    for name, kind in SET_ORACLES.items():
        oracle = oracles[name] = kind(k, max_size, epsilon)
        costs[name] = oracle.mean_squared_error, oracle.report_bytes
    name = least_error_name(costs, max_report_bytes, f"sets of {k} values")
    return name, oracles[name]
