"""Base of the protocols for sets of values: their padding, and estimates from what a report supports."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.oracles._support import SupportCounts, check_size
from skdp.randomness import ByteSource

_HALF = np.uint64(32)
MOST_MEMBERS = 1024
"""Of a set, so that exact numbers are computed in less than a second."""
MOST_VALUES = 16
"""Of a channel whose reports are vectors of bits."""


class SetOracle(SupportCounts):
    """A local protocol for a set of at most m of k values, on integer codes ``0, ..., k - 1``.

    A set is first padded to m members (`pad_sets`); a larger one is replaced by m of its members. Then a report
    supports each value of the set with probability p, and each other one with probability q, whatever else is in the
    set.

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
        Whether a report contains a public hash function; given this, it is one of the columns of `channel`.

    Notes
    -----
    **Privacy.** Local model, replacement of the whole set, of whatever size, by any other one.

    In `estimate`, a set of s > m values counts as m / s for each of them; in `variance`, it adds at most 1/4.

    Examples
    --------
    >>> from skdp.oracles import SetOracle, SetSelection
    >>> oracle = SetSelection(100, 5, 1.0)
    >>> isinstance(oracle, SetOracle), oracle.epsilon <= 1.0
    (True, True)
    """

    max_size: int
    has_bits = True

    def __init__(self, k: int, max_size: int) -> None:
        self.k = check_size(k)
        self.max_size = check_size(
            max_size, least=1, most=min(self.k, MOST_MEMBERS), name="max_size"
        )

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
            One row for each set of at most m values, in the order of `sets`; one column per report, vectors of bits
            in the order of binary numbers, the first value first. The row of a larger set is a mean of rows.

        Raises
        ------
        ValueError
            If there are more than 2**16 reports.
        """

    @property
    @abstractmethod
    def worst_ratio(self) -> Fraction:  # numpydoc ignore=RT01
        """A bound of the ratio of the probabilities of a report under two sets: ``e**epsilon`` as achieved."""

    @property
    def share(self) -> Fraction:  # numpydoc ignore=RT01
        """The share of `skdp.privacy.PureLoss`: `variation`, over the largest one that `worst_ratio` allows."""
        ratio = self.worst_ratio
        return (
            Fraction(1)
            if ratio == 1
            else min(Fraction(1), self.variation * (ratio + 1) / (ratio - 1))
        )

    def sets(self) -> list[tuple[int, ...]]:
        """List the sets of at most m values, the smallest first.

        Returns
        -------
        list of tuple of int
            As of `itertools.combinations`, for the sizes 0 to m.
        """
        sizes = range(self.max_size + 1)
        return list(
            chain.from_iterable(combinations(range(self.k), size) for size in sizes)
        )

    def _mix(self, table: list[list[Fraction]]) -> list[list[Fraction]]:
        """Return the rows of sets, of which one member or place is reported, from those of codes."""
        rows = []
        for members in self.sets():
            codes = [*members, *[self.k] * (self.max_size - len(members))]
            columns = zip(*(table[code] for code in codes), strict=True)
            rows.append(
                [sum(column, Fraction(0)) / self.max_size for column in columns]
            )
        return rows

    @property
    @abstractmethod
    def pair_supports(self) -> tuple[float, float]:  # numpydoc ignore=RT01
        """The probabilities that a report supports a value of the set and another one, and two others."""

    def error(self, mean_size: float) -> float:
        """Return the mean over the values of n times the variance of a frequency.

        Parameters
        ----------
        mean_size : float
            The mean number of values of a set, of those that are kept; from 0 to m.

        Returns
        -------
        float
            In closed form; infinite if p = q.
        """
        if self.p <= self.q:
            return float("inf")
        own, other = self.p * (1 - self.p), self.q * (1 - self.q)
        return (float(self.k * other) + mean_size * float(own - other)) / float(
            self.k * (self.p - self.q) ** 2
        )

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
        own = {"oracle": type(self).__name__, "k": self.k, "max_size": self.max_size}
        return own | {"p": str(self.p), "q": str(self.q)}

    def _check_sets(self, sets: NDArray[Any]) -> None:
        if (
            sets.ndim != 2
            or sets.shape[1] != self.max_size
            or sets.dtype.kind not in "iu"
        ):
            raise ValueError(f"sets must be integers of shape (n, {self.max_size})")
        if sets.size and (sets.max() >= self.k + self.max_size or sets.min() < 0):
            raise ValueError(
                f"codes must be between 0 and {self.k + self.max_size - 1}"
            )
        self.check_size(len(sets))

    def _check_channel(self) -> None:
        if self.k > MOST_VALUES:
            raise ValueError(
                f"the channel has 2**{self.k} reports; it is available up to {MOST_VALUES} values"
            )


def keep_members(
    sizes: NDArray[np.integer], k: int, max_size: int, source: ByteSource
) -> NDArray[np.int64]:
    """Draw m members of each set: their places, of the members of all sets one after the other, or -1 for none."""
    # All members of a set of s <= m; of a larger one m, uniform but for 2**-63. **Privacy.** That need not be exact:
    # the report of a larger set is a mean of reports of sets of m, whose ratios are bounded. As many bytes are read in
    # any case.
    starts, columns = np.cumsum(sizes) - sizes, np.arange(max_size)
    places, large = np.arange(int(sizes.sum())), np.flatnonzero(sizes > max_size)
    for place in range(max_size if max_size < k else 0):
        words = source.bytes(8 * sizes.size).view("<u8")[large]
        left = (sizes[large] - place).astype(np.uint64)
        # The high half of the product of a word and a number below 2**32: uniform but for 2**-64.
        low = (words & np.uint64(0xFFFFFFFF)) * left >> _HALF
        chosen = ((words >> _HALF) * left + low >> _HALF).astype(np.int64)
        here, there = starts[large] + place, starts[large] + place + chosen
        places[here], places[there] = places[there], places[here]
    if places.size == 0:
        return np.full((sizes.size, max_size), -1)
    return np.where(
        columns < sizes[:, np.newaxis],
        places.take(starts[:, np.newaxis] + columns, mode="clip"),
        -1,
    )


def pad_sets(
    values: NDArray[np.unsignedinteger],
    sizes: NDArray[np.integer],
    k: int,
    max_size: int,
    source: ByteSource,
) -> NDArray[np.unsignedinteger]:
    """Make sets of exactly m codes, of the codes of all sets one after the other, and the size of each."""
    return fill_sets(values, keep_members(sizes, k, max_size, source), k)


def fill_sets(
    values: NDArray[np.unsignedinteger], places: NDArray[np.int64], k: int
) -> NDArray[np.unsignedinteger]:
    """Return the codes at some places, and the codes k + s, k + s + 1, ... in those that a set of s leaves free."""
    max_size = places.shape[1]
    none = k + np.arange(max_size)
    found = values.take(places, mode="clip") if values.size else none
    return np.where(places < 0, none, found).astype(np.min_scalar_type(k + max_size))
