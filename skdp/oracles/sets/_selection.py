"""Set selection: a random set of values that is likely to meet the true one."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from skdp.exact import exp_bounds
from skdp.oracles._support import capped_epsilon, check_size
from skdp.oracles.sets._base import SetOracle
from skdp.randomness import ONE, ByteSource, categorical, subsets

_CELLS = 1 << 22
"""Cells drawn at a time."""

_SCALE, _DIGITS = 1 << 320, 1 << 128
"""The units of shares of sets, and of p and q."""


class SetSelection(SetOracle):
    """Set selection on sets of codes ("PrivSet"): report a set of w of the values that is likely to meet the true set.

    The true set is padded to m members, out of m further codes that stand for "none". A set of w of all K = k + m codes
    is e^eps times likelier if it has a member in common with the padded set than if it has none ([1]_). Equivalently,
    with a certain probability (a lie) it is uniform among all sets, otherwise among those that meet the padded set. The
    codes that stand for "none" are then left out. The error grows as m, that of padding and sampling and of unary
    encodings as m**2 where epsilon is small. With m = 1 it is subset selection; with w = 1 it is padding and sampling
    with randomised response, whose epsilon sampling amplifies to ``ln(m (e^eps - 1) + 1)`` ([2]_).

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
        Of 2**64: the probability of a lie, and of sets whose first member in common with the padded set is its i-th.
    p, q : Fraction
        The probabilities that a report holds a value of the true set (the mean over its m places), and another one;
        exact but for m 2**-60.

    Notes
    -----
    **Privacy.** Local model, replacement of the whole set. With C(n, r) sets of r of n codes, weight W_0 of a lie and
    weights W_i, a set has a probability, times 2**64, of ``W_0 / C(K, w)`` if it does not meet the padded set, and
    otherwise ``W_0 / C(K, w) + W_i / C(K - i, w - 1)``, if its first member in common is the i-th. W_i is rounded down,
    with a lower bound of e^eps, such that ``W_i C(K, w) <= (e^eps - 1) W_0 C(K - i, w - 1)``: no quotient of two of
    these probabilities exceeds e^eps. `worst_ratio` is the largest quotient, computed back from the weights and rounded
    up.

    References
    ----------
    .. [1] S. Wang et al. (2018). PrivSet: set-valued data analyses with locale differential privacy. INFOCOM.
    .. [2] T. Wang, N. Li, S. Jha (2018). Locally differentially private frequent itemset mining. IEEE S&P.

    Examples
    --------
    >>> oracle = SetSelection(100, 5, 1.0)
    >>> oracle.subset_size, round(oracle.mean_squared_error, 1)
    (5, 19.2)
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
        wanted = capped_epsilon(epsilon)
        if subset_size is None:
            self.subset_size = _best_size(self.k, self.max_size, float(wanted))
        else:
            self.subset_size = check_size(
                subset_size, least=1, most=self.k, name="subset_size"
            )
        self.weights = self._weigh(exp_bounds(wanted)[0])
        self.p, self.q = self._shares()

    @property
    def _n_codes(self) -> int:
        return self.k + self.max_size

    def _first_hits(self) -> list[int]:
        """Return C(K - i, w - 1) / C(K, w) for i = 1, ..., m, the share of sets whose first hit is the i-th member."""
        # Times _SCALE, rounded down: the fractions of many members have too many digits.
        codes, left, shares = self._n_codes, _SCALE, []
        for place in range(self.max_size):
            shares.append(left * self.subset_size // (codes - place))
            left = left * (codes - place - self.subset_size) // (codes - place)
        return shares

    def _weigh(self, most_ratio: Fraction) -> tuple[int, ...]:
        shares = self._first_hits()
        total = Fraction(sum(shares), _SCALE)
        # As L + sum(W) = 2**64 and W <= excess L share, a lie of weight at least L remains, and so does the ratio.
        excess = min(most_ratio - 1, (ONE - 1) / total)
        factor = excess * max(1, math.floor(ONE / (1 + excess * total)))
        hits = [
            factor.numerator * share // (factor.denominator * _SCALE)
            for share in shares
        ]
        return (ONE - sum(hits), *hits)

    def _shares(self) -> tuple[Fraction, Fraction]:
        """Return p and q, rounded to multiples of 2**-128."""
        lie, *hits = self.weights
        codes, size, m = self._n_codes, self.subset_size, self.max_size
        other = sum(
            _DIGITS * weight * (size - 1) // (codes - place)
            for place, weight in enumerate(hits, 1)
        )
        other = (other + _DIGITS * lie * size // codes) // ONE
        # A set has `size` members: those of the padded set, and those of the k codes that are not in it.
        return Fraction((size * _DIGITS - self.k * other) // m, _DIGITS), Fraction(
            other, _DIGITS
        )

    @property
    def worst_ratio(self) -> Fraction:
        lie, *hits = self.weights
        pairs = zip(hits, self._first_hits(), strict=True)
        return 1 + max(
            (
                Fraction(weight * _SCALE, share * lie)
                for weight, share in pairs
                if weight
            ),
            default=Fraction(0),
        )

    @property
    def pair_supports(self) -> tuple[float, float]:
        codes, size, m = self._n_codes, self.subset_size, self.max_size
        lie, *hits = (weight / ONE for weight in self.weights)
        own = other = lie * size * (size - 1) / (codes * (codes - 1))
        for place, weight in enumerate(hits, 1):
            rest = codes - place
            both = (size - 1) * (size - 2) / (rest * (rest - 1)) if size > 2 else 0.0
            other += weight * both
            own += weight * ((size - 1) / rest + (m - place) * both) / m
        return own, other

    @property
    def variation(self) -> Fraction:
        # Most of the sets that meet one padded set and miss another one are those of two without a common member: after
        # a first hit, the rest of them has to miss m codes, which is likeliest after the first place. Sets that meet
        # both differ by the rounding of the weights.
        codes, missing = self._n_codes, _SCALE
        for place in range(self.max_size):
            missing = -(
                -missing * (codes - self.subset_size - place) // (codes - 1 - place)
            )
        return (
            sum(self.weights[1:]) * Fraction(missing, _SCALE) + self.max_size + 1
        ) / ONE

    def report(
        self, sets: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        self._check_sets(sets)
        reports = np.empty((len(sets), self.k), np.uint8)
        step = max(1, _CELLS // self._n_codes)
        for start in range(0, len(sets), step):
            reports[start : start + step] = self._draw(
                sets[start : start + step], source
            )[:, : self.k]
        return reports

    def _draw(
        self, sets: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        """Draw the sets with all codes: of each row first the place of the first hit, or 0 for a lie."""
        codes, k, m = self._n_codes, self.k, self.max_size
        first = categorical(source, self.weights, len(sets))
        # As if the members were the last codes, the first of them the last one; then every code takes its place.
        drawn = np.zeros((len(sets), codes), np.uint8)
        for place in range(m + 1):
            rows = np.flatnonzero(first == place)
            if place == 0:
                drawn[rows] = _uniform(source, codes, self.subset_size, rows.size)
            else:
                drawn[rows, : codes - place] = _uniform(
                    source, codes - place, self.subset_size - 1, rows.size
                )
                drawn[rows, codes - place] = 1
        others = np.ones(drawn.shape, bool)
        np.put_along_axis(others, sets.astype(np.intp), False, axis=1)
        found = np.empty_like(drawn)
        found[others] = drawn[:, :k].reshape(-1)
        np.put_along_axis(found, sets.astype(np.intp), drawn[:, : k - 1 : -1], axis=1)
        return found

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return reports.view(np.bool_)

    def channel(self) -> list[list[Fraction]]:
        self._check_channel()
        codes, k, size = self._n_codes, self.k, self.subset_size
        lie, *hits = self.weights
        base = Fraction(lie, ONE * math.comb(codes, size))
        own = [
            Fraction(weight, ONE * math.comb(codes - place, size - 1))
            for place, weight in enumerate(hits, 1)
        ]
        rows = []
        for members in self.sets():
            padded = [*members, *range(k + len(members), codes)]
            row = [Fraction(0)] * self.n_reports
            for drawn in combinations(range(codes), size):
                hit = next(
                    (place for place, code in enumerate(padded) if code in drawn), None
                )
                column = sum(1 << k - 1 - code for code in drawn if code < k)
                row[column] += base if hit is None else base + own[hit]
            rows.append(row)
        return rows

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"subset_size": self.subset_size}


def _uniform(source: ByteSource, n_cells: int, size: int, n: int) -> NDArray[np.uint8]:
    """Draw uniform sets of some cells, as bits."""
    packed = subsets(source, n_cells, size, np.zeros(n, bool))
    return np.unpackbits(packed, axis=1, count=n_cells)


def _best_size(k: int, m: int, epsilon: float) -> int:
    """Return the number of members with the least mean squared error."""
    size, codes = np.arange(1.0, k + 1), k + m
    excess = math.expm1(min(epsilon, 50))
    # The share of sets that miss the padded one: C(k, w) / C(K, w).
    missed = np.exp(
        gammaln(k + 1)
        + gammaln(codes - size + 1)
        - gammaln(k - size + 1)
        - gammaln(codes + 1)
    )
    scale = 1 / (1 + excess * (1 - missed))
    p = scale * (1 + excess) * size / codes
    q = scale * (size / codes + excess * (size / codes - missed * size / k))
    own, other = p * (1 - p), q * (1 - q)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = (k * other + np.maximum(0, m * (own - other))) / (p - q) ** 2
    return int(np.nanargmin(np.where(p > q, errors, np.inf))) + 1
