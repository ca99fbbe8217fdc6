"""Hadamard response: one index, which supports the values whose row of a Hadamard matrix is positive there."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.oracles._base import FrequencyOracle
from skdp.oracles._support import capped_epsilon, check_size, lie_threshold
from skdp.oracles.sums import signed_tail
from skdp.privacy import ReportPair
from skdp.randomness import BLOCK, ONE, ByteSource, bernoulli, uniform_integers


class HadamardResponse(FrequencyOracle):
    """Hadamard response on codes: report one of K indices.

    The K indices (a power of two) form B blocks of b. A value belongs to a block and to a row j ≥ 1 of the Hadamard
    matrix of order b; an index y of the block supports it if j and y have an even number of ones in common. With
    probability l = 2 B / (e^eps - 1 + 2 B) a uniform index is reported, otherwise a uniform one of the b / 2 indices
    that support the value ([1]_). Two values of a block share half of their indices, so the signed sums are unbiased.

    Parameters
    ----------
    k : int
        The number of values, from 2 to 2**30.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.
    n_blocks : int, optional
        The number B of blocks, a power of two; by default the one with the least mean squared error.

    Attributes
    ----------
    n_blocks, block_size : int
        The numbers B and b.
    lie : Fraction
        The exact probability l.

    Notes
    -----
    **Privacy.** Local model, replacement of the value. Counts of n reports are estimated in O(n + K log b).

    A report adds c (1 for support, -1 for another index of the block, else 0) to a count, c = 1 / (1 - l). The squares
    of these have mean ``c² (1 - l + l / B)`` for values of the true value's block, and ``c² l / B`` for others.

    References
    ----------
    .. [1] J. Acharya, Z. Sun, H. Zhang (2019). Hadamard response: estimating distributions privately, efficiently, and
       with little communication. AISTATS.

    Examples
    --------
    >>> oracle = HadamardResponse(1_000, 1.0)
    >>> oracle.n_blocks, oracle.block_size, oracle.report_bytes
    (1, 1024, 2)
    """

    is_signed = True

    def __init__(
        self, k: int, epsilon: float | Fraction, *, n_blocks: int | None = None
    ) -> None:
        self.k = check_size(k, most=1 << 30)
        if n_blocks is None:
            choices = [1 << power for power in range(self.k.bit_length())]
        else:
            choices = [check_size(n_blocks, least=1, most=1 << 30, name="n_blocks")]
            if choices[0] & (choices[0] - 1):
                raise ValueError(f"n_blocks must be a power of two, got {n_blocks}")
        wanted = capped_epsilon(epsilon)
        self.n_blocks, self._lie = min(
            ((blocks, lie_threshold(wanted, 2 * blocks)) for blocks in choices),
            key=lambda choice: _error(self.k, choice[0], Fraction(choice[1], ONE)),
        )
        self.lie = Fraction(self._lie, ONE)
        self.block_size = _block_size(self.k, self.n_blocks)
        # Support probabilities of values of the true value's block; `estimate` is the signed form, for all blocks.
        self.p = 1 - self.lie + self.lie / (2 * self.n_blocks)
        self.q = (1 - self.lie) / 2 + self.lie / (2 * self.n_blocks)

    @property
    def n_indices(self) -> int:  # numpydoc ignore=RT01
        """The number K of indices."""
        return self.n_blocks * self.block_size

    n_reports = n_indices

    @property
    def worst_ratio(self) -> Fraction:
        return 1 + 2 * self.n_blocks * (1 - self.lie) / self.lie

    def shuffle_pair(self) -> ReportPair:
        # Values of two blocks share no index, those of a block half of theirs.
        half, low = self.block_size // 2, self.lie / self.n_indices
        high = low + (1 - self.lie) / half
        own, both = (half, 0) if self.k >= self.block_size else (half // 2, half // 2)
        return ReportPair.of_support(
            high, low, (own, own, both, self.n_indices - 2 * own - both)
        )

    @property
    def variation(self) -> Fraction:
        # The indices that support two values overlap by half in one block, and not at all in two.
        return 1 - self.lie if self.n_blocks > 1 else (1 - self.lie) / 2

    @property
    def mean_squared_error(self) -> float:
        # For uniform data, if B > 1.
        return _error(self.k, self.n_blocks, self.lie)

    @property
    def square_means(self) -> tuple[float, float]:  # numpydoc ignore=RT01
        """The mean square of an entry of `unbiased` in the true value's block, and in another block."""
        return _squares(self.n_blocks, self.lie)

    @property
    def share_together(self) -> float:  # numpydoc ignore=RT01
        """The share of pairs of distinct values that are in the same block."""
        return (self.k * _share_together(self.k, self.n_blocks) - 1) / (self.k - 1)

    def sampler(self) -> dict[str, Any]:
        numbers = {
            "k": self.k,
            "n_blocks": self.n_blocks,
            "block_size": self.block_size,
            "lie": str(self._lie),
        }
        return {"kind": "hadamard"} | numbers

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"n_blocks": self.n_blocks}

    def _rows(
        self, codes: NDArray[Any]
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the first index of each code's block, and its row of the matrix."""
        codes = codes.astype(np.uint32)
        block = codes // np.uint32(self.block_size - 1)
        row = codes - block * np.uint32(self.block_size - 1)
        return block * np.uint32(self.block_size), row + np.uint32(1)

    def report(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint32]:
        self._check_codes(codes)
        drawn = uniform_integers(source, self.n_indices, codes.size).astype(np.uint32)
        lies = bernoulli(source, self._lie, codes.size)
        first, row = self._rows(codes)
        inside = drawn & np.uint32(self.block_size - 1)
        # Flipping a bit that is set in the row turns an index that does not support the value into one that does.
        odd = np.bitwise_count(inside & row) & 1
        inside ^= (row & (np.uint32(0) - row)) * odd
        return np.where(lies, drawn, first + inside)

    def _check_reports(self, reports: NDArray[Any]) -> None:
        if reports.ndim != 1 or reports.dtype.kind not in "iu":
            raise ValueError(
                f"reports must be a 1-D array of integers, got {reports.dtype} {reports.shape}"
            )
        if reports.size and (reports.max() >= self.n_indices or reports.min() < 0):
            raise ValueError(f"reports must be between 0 and {self.n_indices - 1}")

    def _signs(self, reports: NDArray[Any]) -> NDArray[np.int8]:
        self._check_reports(reports)
        first, row = self._rows(np.arange(self.k))
        index = reports.astype(np.uint32)[:, np.newaxis]
        same_block = (index ^ first) < np.uint32(self.block_size)
        return (
            1 - 2 * (np.bitwise_count(index & row) & 1).astype(np.int8)
        ) * same_block

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return self._signs(reports) > 0

    def tally(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        self._check_reports(reports)
        counts = np.zeros(self.n_indices, np.int64)
        step = max(BLOCK, self.n_indices)
        for start in range(0, reports.size, step):
            part = reports[start : start + step].astype(np.intp, copy=False)
            counts += np.bincount(part, minlength=self.n_indices)
        return self.signed_sums(counts)

    def signed_sums(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert the counts of all indices to the sums of the signs for each value.

        Parameters
        ----------
        counts : ndarray of shape (…, K), dtype int64
            The count of each index.

        Returns
        -------
        ndarray of shape (…, k), dtype int64
            For each value, the reports that support it minus the others of its block.
        """
        blocks = walsh_hadamard(counts.reshape(-1, self.block_size))[:, 1:]
        return blocks.reshape(*counts.shape[:-1], -1)[..., : self.k]

    def unbiased(self, reports: NDArray[Any]) -> NDArray[np.float64]:
        signs = self._signs(reports)
        return (
            np.full(signs.shape, np.nan)
            if self.lie == 1
            else signs / float(1 - self.lie)
        )

    def estimate(self, support: ArrayLike, n: int) -> NDArray[np.float64]:
        if self.lie == 1:
            return np.full(self.k, np.nan)
        return np.asarray(support, float) / float(1 - self.lie)

    def variance(self, counts: ArrayLike, n: int) -> NDArray[np.float64]:
        if self.lie == 1:
            return np.full(self.k, np.inf)
        inside = np.clip(np.asarray(counts, float), 0, n)
        same, other = self.square_means
        block = np.arange(self.k) // (self.block_size - 1)
        # Sum first, then clip: the errors of estimates cancel.
        together = np.clip(
            np.bincount(block, weights=np.asarray(counts, float))[block], inside, n
        )
        return same * together + other * (n - together) - inside

    def second_moments(self) -> NDArray[np.float64]:
        block = np.arange(self.k) // (self.block_size - 1)
        same, other = self.square_means
        return np.where(block[:, np.newaxis] == block, same, other)

    def tails(self, support: NDArray[np.int64], n: int) -> list[tuple[float, float]]:
        # A report adds 1, -1 or 0 to a value. For the true one, -1 has the probability l / (2 B). For another one of
        # its block 1 and -1 are equally likely, and less so for those of other blocks.
        lie, blocks = float(self.lie), self.n_blocks
        minus = lie / (2 * blocks)
        either, choices = (1 - lie + 2 * minus) / 2, math.log(self.k)
        low = signed_tail(-float(support.min()), n, either, either)
        high = signed_tail(float(support.max()), n, 1 - lie + minus, minus)
        return [(low, choices), (high, choices)]

    def channel(self) -> list[list[Fraction]]:
        return self._channel(np.arange(self.k))

    def _channel(self, codes: NDArray[np.integer]) -> list[list[Fraction]]:
        other = self.lie / self.n_indices
        own = other + (1 - self.lie) * 2 / self.block_size
        supported = self.supports(np.arange(self.n_indices)).T[codes]
        return [[own if mark else other for mark in row] for row in supported]


def walsh_hadamard(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Multiply each row by the Hadamard matrix in Sylvester's order, in O(b log b)."""
    out, other = rows.astype(np.int64), np.empty(rows.shape, np.int64)
    half = rows.shape[1] // 2
    for _ in range(half.bit_length()):
        np.add(out[:, ::2], out[:, 1::2], out=other[:, :half])
        np.subtract(out[:, ::2], out[:, 1::2], out=other[:, half:])
        out, other = other, out
    return out


def _block_size(k: int, n_blocks: int) -> int:
    """Return the least power of two with enough rows, without the first, for the values of a block."""
    return 1 << (-(-k // n_blocks)).bit_length()


def _share_together(k: int, n_blocks: int) -> float:
    """Return the share of pairs of values, equal ones included, that are in the same block."""
    full, rest = divmod(k, _block_size(k, n_blocks) - 1)
    return (full * (_block_size(k, n_blocks) - 1) ** 2 + rest**2) / k**2


def _squares(n_blocks: int, lie: Fraction) -> tuple[float, float]:
    if lie == 1:
        return math.inf, math.inf
    gain = (1 - lie) ** 2
    return float((1 - lie + lie / n_blocks) / gain), float(lie / n_blocks / gain)


def _error(k: int, n_blocks: int, lie: Fraction) -> float:
    if lie == 1:
        return math.inf
    same, other = _squares(n_blocks, lie)
    together = _share_together(k, n_blocks)
    return same * together + other * (1 - together) - 1 / k
