"""What every frequency oracle shares: the algebra of the two support probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.exact import log_upper
from skdp.randomness import ByteSource


class FrequencyOracle(ABC):
    """A local protocol for one attribute with k values, on integer codes ``0 .. k - 1``.

    A subclass says how a code becomes a report and which values a report supports. Everything that is estimated follows
    from two probabilities (Wang et al. 2017, definition 1): a report supports the true value with probability p, and
    any other value with probability q.

    Attributes
    ----------
    k : int
        The number of values.
    p, q : Fraction
        The support probabilities, exact.

    References
    ----------
    T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private protocols for frequency estimation. USENIX
    Security.
    """

    k: int
    p: Fraction
    q: Fraction

    @abstractmethod
    def report(self, codes: NDArray[np.unsignedinteger], source: ByteSource) -> NDArray[Any]:
        """Randomise codes.

        Parameters
        ----------
        codes : ndarray of unsigned integers, shape (n,)
            True values.
        source : ByteSource
            Where the coins come from.

        Returns
        -------
        ndarray of shape (n, …)
            One report a code.
        """

    @abstractmethod
    def tally(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        """Count how many reports support each value.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            What `report` gave.

        Returns
        -------
        ndarray of shape (k,), dtype int64
            Sums over the reports; the sums of two sets of reports add.
        """

    @abstractmethod
    def channel(self) -> list[list[Fraction]]:
        """Return the exact probability of every report given every value.

        Returns
        -------
        list of list of Fraction
            A row a true value, a column a report.
        """

    @property
    @abstractmethod
    def worst_ratio(self) -> Fraction:  # numpydoc ignore=RT01
        """The largest ratio of the probabilities of a report under two values: e to the achieved epsilon."""

    @cached_property
    def epsilon(self) -> float:  # numpydoc ignore=RT01
        """The achieved privacy loss: the logarithm of `worst_ratio`, rounded up."""
        return log_upper(self.worst_ratio)

    def estimate(self, support: ArrayLike, n: int) -> NDArray[np.float64]:
        """Estimate the counts of the true values without bias.

        Parameters
        ----------
        support : array-like of shape (k,)
            What `tally` gave.
        n : int
            The number of reports.

        Returns
        -------
        ndarray of shape (k,)
            ``(support - n q) / (p - q)``, which may be negative; nan if p = q, as the reports then say nothing.
        """
        gain = self.p - self.q
        if gain == 0:
            return np.full(self.k, np.nan)
        # One rounding only: n q is subtracted before anything is divided.
        return (np.asarray(support, float) - float(n * self.q)) / float(gain)

    def variance(self, counts: ArrayLike, n: int) -> NDArray[np.float64]:
        """Return the variance of the estimated counts when the true counts are given.

        Parameters
        ----------
        counts : array-like of shape (k,)
            True counts, or estimates of them; they are clipped to ``[0, n]``.
        n : int
            The number of reports.

        Returns
        -------
        ndarray of shape (k,)
            ``(c p (1 - p) + (n - c) q (1 - q)) / (p - q)**2``; infinite if p = q.
        """
        gain = self.p - self.q
        if gain == 0:
            return np.full(self.k, np.inf)
        inside = np.clip(np.asarray(counts, float), 0, n)
        own, other = (float(share * (1 - share) / gain**2) for share in (self.p, self.q))
        return inside * own + (n - inside) * other

    def _check_codes(self, codes: NDArray[Any]) -> None:
        """Refuse codes that the oracle cannot hide, before a coin is drawn."""
        if codes.ndim != 1 or codes.dtype.kind not in "iu" or np.iinfo(codes.dtype).max < self.k - 1:
            raise ValueError(f"codes must be a 1-D array of integers, of a dtype that holds {self.k - 1}")
        if codes.size and (codes.max() >= self.k or codes.min() < 0):
            raise ValueError(f"codes must be between 0 and {self.k - 1}")

    def maximum_likelihood(self, support: ArrayLike, n: int) -> NDArray[np.float64]:
        """Estimate the counts by maximum likelihood.

        Parameters
        ----------
        support : array-like of shape (k,)
            What `tally` gave.
        n : int
            The number of reports.

        Returns
        -------
        ndarray of shape (k,)
            Counts that are not negative and add up to n.

        Raises
        ------
        NotImplementedError
            If the tally of this oracle does not determine the likelihood.
        """
        raise NotImplementedError(f"{type(self).__name__} has no maximum-likelihood estimate from a tally")
