"""Subset selection: a random set of values that holds the true one more often than not."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.oracles._base import FrequencyOracle, check_size, lie_threshold
from skdp.oracles._unary_encoding import check_bits
from skdp.randomness import BLOCK, ONE, ByteSource, bernoulli, uniform_integers


class SubsetSelection(FrequencyOracle):
    """Subset selection on codes: report a set of w of the k values.

    A set that holds the true value is e^eps times likelier than one that does not: the true value is in the set with
    probability ``p = w e^eps / (w e^eps + k - w)``, and the rest of the set is uniform ([1]_, [2]_). Among all
    protocols, none has a smaller worst mean squared error ([2]_).

    Parameters
    ----------
    k : int
        The number of values, at least 2.
    epsilon : float or Fraction
        The wanted privacy loss, finite and > 0.
    subset_size : int, optional
        The size w, from 1 to k - 1; by default the one with the least mean squared error, near k / (e^eps + 1).

    Attributes
    ----------
    subset_size : int
        The size of the reported sets.
    p, q : Fraction
        The exact probabilities that a set holds the true value, and that it holds another one.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    Notes
    -----
    **Privacy.** Local model, replacement of the value. A set is reported as bits, one for each value: a list of its
    members in the order in which they were drawn would show which of them is true.

    References
    ----------
    .. [1] S. Wang et al. (2016). Mutual information optimally local private discrete distribution estimation.
       arXiv:1607.08025
    .. [2] M. Ye, A. Barg (2018). Optimal schemes for discrete distribution estimation under locally differential
    privacy.
       IEEE Transactions on Information Theory 64(8).

    Examples
    --------
    >>> oracle = SubsetSelection(14, 1.0)
    >>> oracle.subset_size, round(oracle.mean_squared_error, 2)
    (4, 3.11)
    """

    def __init__(self, k: int, epsilon: float | Fraction, *, subset_size: int | None = None) -> None:
        self.k = check_size(k)
        if subset_size is not None:
            sizes = [check_size(subset_size, least=1, most=self.k - 1, name="subset_size")]
        else:
            centre = self.k / (math.exp(min(float(epsilon), 50)) + 1)
            sizes = sorted({min(max(1, math.floor(centre) + step), self.k - 1) for step in (-1, 0, 1, 2)})
        choices = [(size, *_probabilities(self.k, size, epsilon)) for size in sizes]
        self.subset_size, self._heads, self.p, self.q = min(choices, key=lambda choice: _error(self.k, *choice[2:]))

    @property
    def worst_ratio(self) -> Fraction:  # numpydoc ignore=RT01
        """The exact ratio of the probabilities of a set that holds the true value and of one that does not."""
        return self.p * (self.k - self.subset_size) / ((1 - self.p) * self.subset_size)

    @property
    def report_bytes(self) -> int:  # numpydoc ignore=RT01
        """A bit for each value."""
        return -(-self.k // 8)

    @property
    def width(self) -> int:  # numpydoc ignore=RT01
        """A column for each value."""
        return self.k

    def parameters(self) -> dict[str, Any]:
        """Return what client and server must agree on.

        Returns
        -------
        dict
            Plain text and numbers.
        """
        return super().parameters() | {"subset_size": self.subset_size}

    def report(self, codes: NDArray[np.unsignedinteger], source: ByteSource) -> NDArray[np.uint8]:
        """Randomise codes.

        Parameters
        ----------
        codes : ndarray of unsigned integers, shape (n,)
            True values, ``0 .. k - 1``.
        source : ByteSource
            Where the coins come from.

        Returns
        -------
        ndarray of shape (n, k), dtype uint8
            Bits, `subset_size` of them 1 in each row.

        Raises
        ------
        ValueError
            If a code is not below k, or the bits would take more than 2 GiB.
        """
        self._check_codes(codes)
        self._check_size(codes.size)
        bits = np.empty((codes.size, self.k), np.uint8)
        # As many rows at a time as stay in the cache.
        step = max(64, 8 * BLOCK // self.k)
        for start in range(0, codes.size, step):
            self._fill(bits[start : start + step], codes[start : start + step], source)
        return bits

    def _fill(self, bits: NDArray[np.uint8], codes: NDArray[np.unsignedinteger], source: ByteSource) -> None:
        """Draw the sets of some rows.

        The true value's bit is a coin. The others begin as independent coins of about the right share: whatever their
        number, all sets of this number are then equally likely. Adding uniform values that are not in the set (or
        taking away such as are) until the size is right keeps them so.
        """
        n = codes.size
        np.less(source.bytes(n * self.k).reshape(n, self.k), 256 * self.subset_size // self.k, out=bits.view(np.bool_))
        flat, starts = bits.reshape(-1), np.arange(0, n * self.k, self.k)
        flat[starts + codes] = bernoulli(source, self._heads, n)
        # Sums modulo 256 where they cannot exceed it: several times faster on short rows.
        sizes = np.einsum("ij->i", bits) if self.k < 256 else bits.sum(axis=1)
        lacking = self.subset_size - sizes.astype(np.int64)
        rows = np.flatnonzero(lacking)
        while rows.size:
            others = codes[rows] + (1 + uniform_integers(source, self.k - 1, rows.size).astype(np.int64))
            others -= self.k * (others >= self.k)
            places = starts[rows] + others
            adding = lacking[rows] > 0
            fitting = np.flatnonzero(flat[places] != adding)
            flat[places[fitting]] ^= 1
            lacking[rows[fitting]] -= np.where(adding[fitting], 1, -1)
            rows = rows[lacking[rows] != 0]

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Say which values each report supports: those in the set.

        Parameters
        ----------
        reports : ndarray of shape (n, k), dtype uint8
            What `report` gave.

        Returns
        -------
        ndarray of shape (n, k), dtype bool
            The bits.
        """
        return check_bits(reports, self.k)

    def channel(self) -> list[list[Fraction]]:
        """Return the exact probability of every set given every value.

        Returns
        -------
        list of list of Fraction
            A row a true value, a column a set, in the order of `itertools.combinations`.

        Raises
        ------
        ValueError
            If there are more than 2**16 sets.
        """
        if math.comb(self.k, self.subset_size) > 1 << 16:
            raise ValueError("the channel has more than 2**16 reports")
        holding = self.p / math.comb(self.k - 1, self.subset_size - 1)
        other = (1 - self.p) / math.comb(self.k - 1, self.subset_size)
        sets = list(combinations(range(self.k), self.subset_size))
        return [[holding if value in members else other for members in sets] for value in range(self.k)]


def _probabilities(k: int, size: int, epsilon: float | Fraction) -> tuple[int, Fraction, Fraction]:
    """Return the probability that the true value is in the set (also times 2**64), and that another value is."""
    # As a mixture: a uniform set with probability l, else one that holds the true value. Rounded down: more noise.
    lie = Fraction(lie_threshold(epsilon, Fraction(k, size)), ONE)
    heads = math.floor(ONE * (1 - lie * Fraction(k - size, k)))
    p = Fraction(max(heads, 0), ONE)
    if p * k < size:  # below the uniform set's own share: nothing is left to tell
        heads = math.ceil(Fraction(size * ONE, k))
        p = Fraction(heads, ONE)
    return heads, p, (p * (size - 1) + (1 - p) * size) / (k - 1)


def _error(k: int, p: Fraction, q: Fraction) -> float:
    if p <= q:
        return math.inf
    return float(((k - 1) * q * (1 - q) + p * (1 - p)) / (p - q) ** 2)
