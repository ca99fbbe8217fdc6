"""Hadamard response: one index, which supports the values whose row of a Hadamard matrix is positive there."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.oracles._base import (
    FrequencyOracle,
    capped_epsilon,
    check_size,
    lie_threshold,
)
from skdp.oracles._sums import chernoff_tail, count_numbers
from skdp.privacy import ReportPair
from skdp.randomness import ONE, ByteSource, bernoulli, uniform_integers


class HadamardResponse(FrequencyOracle):
    """Hadamard response on codes: report one of K indices.

    >>> oracle = HadamardResponse(1_000, 1.0)
    >>> oracle.n_blocks, oracle.block_size, oracle.report_bytes
    (1, 1024, 2)

    The K indices (a power of two) form B blocks of b. A value belongs to a block and to
    a row j ≥ 1 of the Hadamard matrix of order b; an index y of the block supports it
    if j and y have an even number of ones in common. With probability l = 2 B / (e^eps
    - 1 + 2 B) a uniform index is reported, otherwise a uniform one of the b / 2 indices
    that support the value ([1]_). Two values of a block share half of their indices, so
    the signed sums are unbiased.

    Parameters
    ----------
    k : int
        The number of values, from 2 to 2**30.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.
    n_blocks : int, optional
        The number B of blocks, a power of two; by default the one with the least mean
        squared error.

    Attributes
    ----------
    n_blocks, block_size : int
        The numbers B and b.
    lie : Fraction
        The exact probability l.

    Notes
    -----
    **Privacy.** Local model, replacement of the value. Counts of n reports are
    estimated in O(n + K log b).

    A report adds c (1 for support, -1 for another index of the block, else 0) to a
    count, c = 1 / (1 - l). The squares of these have mean ``c² (1 - l + l / B)`` for
    values of the true value's block, and ``c² l / B`` for others.

    References
    ----------
    .. [1] J. Acharya, Z. Sun, H. Zhang (2019). Hadamard response: estimating
       distributions privately, efficiently, and with little communication. AISTATS.
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
        capped = capped_epsilon(epsilon)
        errors = []
        for choice in choices:
            self._set_blocks(choice, capped)
            errors.append(self.mean_squared_error)
        self._set_blocks(choices[errors.index(min(errors))], capped)
        # Support probabilities of values of the true value's block; `estimate` is the signed
        # form, for all blocks.
        any_block = self.lie / (2 * self.n_blocks)
        self.p = 1 - self.lie + any_block
        self.q = (1 - self.lie) / 2 + any_block

    def _set_blocks(self, n_blocks: int, epsilon: Fraction) -> None:
        """Set the number of blocks, and what follows from it."""
        self.n_blocks = n_blocks
        # The least power of two with enough rows, without the first, for a block's values.
        self.block_size = 1 << (-(-self.k // n_blocks)).bit_length()
        self._lie = lie_threshold(epsilon, 2 * n_blocks)
        self.lie = Fraction(self._lie, ONE)

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
        half = self.block_size // 2
        low = self.lie / self.n_indices
        high = low + (1 - self.lie) / half
        n_both = 0 if self.k >= self.block_size else half // 2
        n_one = half - n_both
        counts = (n_one, n_one, n_both, self.n_indices - 2 * n_one - n_both)
        return ReportPair.of_support(high, low, counts)

    @property
    def variation(self) -> Fraction:
        # The indices that support two values overlap by half in one block, and not at
        # all in two.
        return 1 - self.lie if self.n_blocks > 1 else (1 - self.lie) / 2

    @property
    def mean_squared_error(self) -> float:
        # For uniform data, if B > 1.
        same_block, other_block = self.square_means
        together = self._share_with_equals
        return same_block * together + other_block * (1 - together) - 1 / self.k

    @property
    def square_means(self) -> tuple[float, float]:  # numpydoc ignore=RT01
        """The mean square of an entry of `unbiased` in the true value's block, and in another block."""
        gain = (1 - self.lie) ** 2
        any_block = self.lie / self.n_blocks
        return float((1 - self.lie + any_block) / gain), float(any_block / gain)

    @property
    def _share_with_equals(self) -> float:
        """The share of pairs of values, equal ones included, that are in the same block."""
        n_rows = self.block_size - 1
        n_full, n_last = divmod(self.k, n_rows)
        return (n_full * n_rows**2 + n_last**2) / self.k**2

    def sampler(self) -> dict[str, Any]:
        return {
            "kind": "hadamard",
            "k": self.k,
            "n_blocks": self.n_blocks,
            "block_size": self.block_size,
            "lie": str(self._lie),
        }

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"n_blocks": self.n_blocks}

    def _rows(
        self, codes: NDArray[Any]
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the first index of each code's block, and its row of the matrix."""
        codes = codes.astype(np.uint32)
        n_rows = np.uint32(self.block_size - 1)
        block = codes // n_rows
        row = codes - block * n_rows
        return block * np.uint32(self.block_size), row + np.uint32(1)

    def report(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint32]:
        self._check_codes(codes)
        drawn = uniform_integers(source, self.n_indices, codes.size).astype(np.uint32)
        lies = bernoulli(source, self._lie, codes.size)
        first, row = self._rows(codes)
        index = drawn & np.uint32(self.block_size - 1)
        # Flipping a bit that is set in the row turns an index that does not support the
        # value into one that does.
        odd = np.bitwise_count(index & row) & 1
        index ^= (row & (np.uint32(0) - row)) * odd
        return np.where(lies, drawn, first + index)

    def _check_reports(self, reports: NDArray[Any]) -> None:
        if reports.ndim != 1 or reports.dtype.kind not in "iu":
            raise ValueError(
                "reports must be a 1-D array of integers, "
                f"got {reports.dtype} {reports.shape}"
            )
        if reports.size and (reports.max() >= self.n_indices or reports.min() < 0):
            raise ValueError(f"reports must be between 0 and {self.n_indices - 1}")

    def _signs(self, reports: NDArray[Any]) -> NDArray[np.int8]:
        self._check_reports(reports)
        first, row = self._rows(np.arange(self.k))
        index = reports.astype(np.uint32)[:, np.newaxis]
        same_block = (index ^ first) < np.uint32(self.block_size)
        is_odd = (np.bitwise_count(index & row) & 1).astype(np.int8)
        return (1 - 2 * is_odd) * same_block

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return self._signs(reports) > 0

    def tally(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        self._check_reports(reports)
        counts = count_numbers(reports, self.n_indices)
        signed_sums = walsh_hadamard(counts.reshape(-1, self.block_size))
        # The first row of the matrix is of no value.
        return signed_sums[:, 1:].reshape(-1)[: self.k]

    def unbiased(self, reports: NDArray[Any]) -> NDArray[np.float64]:
        return self._signs(reports) / float(1 - self.lie)

    def estimate(self, support: ArrayLike, n: int) -> NDArray[np.float64]:
        return np.asarray(support, float) / float(1 - self.lie)

    def _blocks(self) -> NDArray[np.intp]:
        """Return the block of each value."""
        return np.arange(self.k) // (self.block_size - 1)

    def variance(self, counts: ArrayLike, n: int) -> NDArray[np.float64]:
        counts = np.asarray(counts, float)
        clipped = np.clip(counts, 0, n)
        # Sum over a block first, then clip: the errors of estimates cancel.
        block = self._blocks()
        together = np.clip(np.bincount(block, weights=counts)[block], clipped, n)
        same_block, other_block = self.square_means
        return same_block * together + other_block * (n - together) - clipped

    def second_moments(self) -> NDArray[np.float64]:
        block = self._blocks()
        same_block, other_block = self.square_means
        return np.where(block[:, np.newaxis] == block, same_block, other_block)

    def tails(self, support: NDArray[np.int64], n: int) -> list[tuple[float, float]]:
        # A report adds 1, -1 or 0 to a value. For the true one, -1 has the probability
        # l / (2 B). For another one of its block 1 and -1 are equally likely, and less
        # so for those of other blocks.
        lie = float(self.lie)
        minus = lie / (2 * self.n_blocks)
        either = (1 - lie + 2 * minus) / 2
        choices = math.log(self.k)
        low = chernoff_tail(-float(support.min()), [(n, {1: either, -1: either})])
        signs = {1: 1 - lie + minus, -1: minus}
        high = chernoff_tail(float(support.max()), [(n, signs)])
        return [(low, choices), (high, choices)]

    def channel(self) -> list[list[Fraction]]:
        low = self.lie / self.n_indices
        high = low + (1 - self.lie) * 2 / self.block_size
        is_supported = self.supports(np.arange(self.n_indices)).T
        return [[high if mark else low for mark in row] for row in is_supported]


def walsh_hadamard(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Multiply each row by the Hadamard matrix in Sylvester's order, in O(b log b)."""
    out = rows.astype(np.int64)
    spare = np.empty_like(out)
    half = rows.shape[1] // 2
    for _ in range(half.bit_length()):
        even = out[:, ::2]
        odd = out[:, 1::2]
        np.add(even, odd, out=spare[:, :half])
        np.subtract(even, odd, out=spare[:, half:])
        out, spare = spare, out
    return out
