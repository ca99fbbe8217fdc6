"""Frequency oracles: their reports, the form, size and channel of a report, and what it supports."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.oracles._likelihood import likeliest_frequencies
from skdp.oracles._support import MAX_REPORT_BYTES, SupportCounts, pure_error
from skdp.privacy import ReportPair
from skdp.randomness import ByteSource, DigestSource

_MOST_ENTRIES = 1 << 16


class FrequencyOracle(SupportCounts):
    """A local protocol for one attribute with k values, on integer codes ``0, ..., k - 1``.

    A subclass defines how a code becomes a report and which values a report supports. All estimates follow from two
    probabilities (Wang et al. 2017, definition 1): a report supports the true value with probability p, and any other
    value with probability q.

    Attributes
    ----------
    k : int
        The number of values.
    p, q : Fraction
        The support probabilities, exact.
    has_bits : bool
        Whether a report is one bit per value; otherwise it is one whole number per name of `field_names`.
    field_names : tuple of str
        The names of the parts of a report without bits; an empty name if there is one part only.
    is_encodable : bool
        Whether there is a report without noise, which `encode` returns.
    state : {"value", "bucket"}
        What the permanent report of a record depends on.
    shows_hash : bool
        Whether a report contains a public hash function; given this, it is one of the columns of `channel`.
    is_signed : bool
        Whether `tally` subtracts the reports that do not support a value, instead of not counting them.
    has_second_round : bool
        Whether a second round of noise can be added.

    References
    ----------
    T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private protocols for frequency estimation. USENIX
    Security.

    Examples
    --------
    >>> from skdp.oracles import FrequencyOracle, RandomizedResponse
    >>> oracle = RandomizedResponse(4, 1.0)
    >>> isinstance(oracle, FrequencyOracle), round(float(oracle.p / oracle.q), 3)
    (True, 2.718)
    """

    is_encodable: ClassVar[bool] = False
    state: ClassVar[Literal["value", "bucket"]] = "value"
    has_second_round: ClassVar[bool] = False
    _advice = ", or use LocalHashing or HadamardResponse"

    @abstractmethod
    def report(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[Any]:
        """Randomise codes.

        Parameters
        ----------
        codes : ndarray of unsigned integers, shape (n,)
            True values.
        source : ByteSource
            Source of the random bytes.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            One report per code.

        Raises
        ------
        ValueError
            If a code is not below k, or the reports would take more than 2 GiB.
        """

    @abstractmethod
    def channel(self) -> list[list[Fraction]]:
        """Return the exact probability of each report given each value.

        Returns
        -------
        list of list of Fraction
            One row per true value, one column per report; vectors of bits in the order of binary numbers, the first
            value first, sets in that of `itertools.combinations`.

        Raises
        ------
        ValueError
            If there are more than 2**16 vectors or sets.
        """

    @property
    @abstractmethod
    def worst_ratio(self) -> Fraction:  # numpydoc ignore=RT01
        """The largest ratio of the probabilities of a report under two values: ``e**epsilon`` as achieved."""

    def shuffle_pair(self) -> ReportPair:
        """Return the reports of the two values that shuffling protects least, in classes, for `shuffled_guarantee`.

        By default those of the worst randomiser with this `worst_ratio`. An oracle that knows more returns a blanket
        m(y) and the classes of a pair that stands for all pairs. It does if ``V = (P(y | x0) - t P(y | x1)) / m(y)``,
        y drawn with mass m(y), is more spread (in the convex order) than that of any other pair, for each t >= 1. So
        it is if the ratios P(y | x) / m(y) have the same law for every x, and no pair has fewer reports, by mass, that
        distinguish its values: since ``(a - t a) + (b - t b) = (a - t b) + (b - t a)``, a pair of reports of equal mass
        with the ratios (a, a) and (b, b) is less spread than one with (a, b) and (b, a).

        Returns
        -------
        ReportPair
            Exact fractions.
        """
        return ReportPair.of_any(self.worst_ratio)

    @property
    def pair_supports(self) -> tuple[float, float]:  # numpydoc ignore=RT01
        """The probabilities that a report supports the true value and another one, and two others; nan if unknown."""
        return math.nan, math.nan

    @property
    def support_ratio(self) -> Fraction:  # numpydoc ignore=RT01
        """The ratio of the probabilities of a report under a value that it supports and under another one."""
        return self.worst_ratio

    @property
    def mean_squared_error(self) -> float:  # numpydoc ignore=RT01
        """The mean over the values of n times the variance of a frequency; it does not depend on the data."""
        return pure_error(self.k, self.p, self.q)

    @property
    def error_floor(self) -> float:  # numpydoc ignore=RT01
        """The part of the mean squared error of a frequency that does not fall with n, for the worst data.

        It is 0 unless records share hash functions: then collisions of values do not average out.
        """
        return 0.0

    def guess_accuracy(
        self, prior: NDArray[np.float64], groups: NDArray[np.integer] | None = None
    ) -> float | None:
        """Return the exact probability that the best guess from a report is correct.

        Parameters
        ----------
        prior : ndarray of shape (k,)
            The probability of each value.
        groups : ndarray of integers, shape (k,), optional
            The group of each value, numbered from 0, if the group is guessed instead of the value.

        Returns
        -------
        float or None
            ``sum_r max_v P(v) P(r | v)`` over all reports; None if there is no closed form, and more than 2**16 entries
            in the channel or several channels.
        """
        exact = self._guess_accuracy(prior, groups)
        if (
            exact is not None
            or self.shows_hash
            or self.k * self.n_reports > _MOST_ENTRIES
        ):
            return exact
        channel = (
            np.array([[float(share) for share in row] for row in self.channel()])
            * prior[:, np.newaxis]
        )
        if groups is not None:
            joint, channel = channel, np.zeros((groups.max() + 1, channel.shape[1]))
            np.add.at(channel, groups, joint)
        return float(channel.max(axis=0).sum())

    def _guess_accuracy(
        self, prior: NDArray[np.float64], groups: NDArray[np.integer] | None
    ) -> float | None:
        return None  # no closed form

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
            "p": str(self.p),
            "q": str(self.q),
        }

    def sampler(self) -> dict[str, Any]:
        """Return what a client needs to draw a report, in integers.

        Returns
        -------
        dict
            For `client_report`, and as JSON for clients in other languages. Numbers of 64 bits are text, since not all
            languages read them exactly. Nothing in it is secret.

        Raises
        ------
        NotImplementedError
            If the oracle has no such form.
        """
        raise NotImplementedError(f"{type(self).__name__} has no sampler for clients")

    def unbiased(self, reports: NDArray[Any]) -> NDArray[np.float64]:
        """Convert each report to an unbiased estimate of the one-hot vector of its true value.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            Reports, as returned by `report`.

        Returns
        -------
        ndarray of shape (n, k)
            ``(support - q) / (p - q)``; the column means are the estimated frequencies; nan if p = q.
        """
        supports, gain = self.supports(reports), float(self.p - self.q)
        if gain == 0:
            return np.full(supports.shape, np.nan)
        values = np.array([-float(self.q) / gain, float(1 - self.q) / gain])
        return values[supports.view(np.uint8)]

    def second_moments(self) -> NDArray[np.float64]:
        """Return the mean square of each entry of `unbiased`, given the true value.

        Returns
        -------
        ndarray of shape (k, k)
            Row v, column x: the mean of the square of entry v if the true value is x; infinite if p = q.
        """
        gain = self.p - self.q
        if gain == 0:
            return np.full((self.k, self.k), np.inf)
        own, other = (
            float((share * (1 - self.q) ** 2 + (1 - share) * self.q**2) / gain**2)
            for share in (self.p, self.q)
        )
        return np.where(np.eye(self.k, dtype=bool), own, other)

    def maximum_likelihood(
        self, support: ArrayLike, n: int, reports: NDArray[Any] | None = None
    ) -> NDArray[np.float64]:
        """Estimate the counts by maximum likelihood.

        A report is `support_ratio` times likelier under the values that it supports than under the others, so its
        supports determine its likelihood up to a factor ([1]_). The log-likelihood is at most 0.001 below its maximum:
        it is concave, so its slopes bound the distance.

        Parameters
        ----------
        support : array-like of shape (k,)
            The tally, as returned by `tally`.
        n : int
            The number of reports.
        reports : ndarray of shape (n, …), optional
            The reports themselves, as their sums determine the likelihood for `RandomizedResponse` only.

        Returns
        -------
        ndarray of shape (k,)
            Counts that are not negative and add up to n.

        Raises
        ------
        ValueError
            If the reports are not given, or their supports take more than 2 GiB.

        Warns
        -----
        RuntimeWarning
            If the bound is not reached, for very many values.

        References
        ----------
        .. [1] R. Agrawal, C. Aggarwal (2001). On the design and quantification of privacy preserving data mining
           algorithms. PODS.
        """
        if reports is None:
            raise ValueError(
                "postprocess='mle' needs the reports themselves, not their tally"
            )
        if n == 0 or self.p == self.q:
            return np.full(self.k, np.nan)
        likelihoods, repeats = self._distinct(reports)
        likelihoods *= float(self.support_ratio - 1)
        likelihoods += 1
        return n * likeliest_frequencies(likelihoods, repeats)

    def _distinct(
        self, reports: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the distinct sets of supported values, and the number of reports of each."""
        rows = np.concatenate(
            [
                np.packbits(self.supports(chunk), axis=1)
                for chunk in self.chunks(reports)
            ]
        )
        keys, repeats = np.unique(
            rows.view(np.dtype((np.void, rows.shape[1])))[:, 0], return_counts=True
        )
        if 8 * keys.size * self.k > MAX_REPORT_BYTES:
            raise ValueError(
                f"the likelihood of these reports needs {8 * keys.size * self.k:,} bytes (the limit is "
                f"{MAX_REPORT_BYTES:,}); take fewer reports, or another postprocess"
            )
        rows = keys.view(np.uint8).reshape(keys.size, -1)
        return np.unpackbits(rows, axis=1, count=self.k).astype(float), repeats

    def encode(self, codes: NDArray[np.unsignedinteger]) -> NDArray[Any]:
        """Return the reports of codes without noise. Not private.

        Parameters
        ----------
        codes : ndarray of unsigned integers, shape (n,)
            True values.

        Returns
        -------
        ndarray of shape (n,) or (n, k)
            The codes themselves, or one-hot bits.

        Raises
        ------
        ValueError
            If a report cannot be without noise, because it draws a hash function or an index.
        """
        if not self.is_encodable:
            raise ValueError(
                f"{type(self).__name__} has no encoding without noise: its reports are random by design"
            )
        self._check_codes(codes)
        return (
            (codes[:, np.newaxis] == np.arange(self.k)).view(np.uint8)
            if self.has_bits
            else codes
        )

    def report_keyed(
        self,
        codes: NDArray[np.unsignedinteger],
        values: NDArray[np.uint8],
        digests: Callable[..., NDArray[np.uint8]],
    ) -> NDArray[Any]:
        """Compute permanent reports: the same report for a record whenever its `state` is the same.

        Parameters
        ----------
        codes : ndarray of unsigned integers, shape (n,)
            True values.
        values : ndarray of uint8, shape (n, width)
            The value of each record, as bytes.
        digests : callable
            ``digests(purpose)`` or ``digests(purpose, values)`` returns a keyed digest for each record (an array of
            uint8, of shape (n, 32)), which depends on the record, the purpose (str) and its row of the values.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            One report per code.
        """
        return self._draw_keyed(codes, digests("report", values))

    def _draw_keyed(
        self, codes: NDArray[Any], digests: NDArray[np.uint8]
    ) -> NDArray[Any]:
        empty = self.report(codes[:0], DigestSource(b""))
        reports = np.empty((codes.size, *empty.shape[1:]), empty.dtype)
        for row, digest in enumerate(digests):
            reports[row : row + 1] = self.report(
                codes[row : row + 1], DigestSource(digest)
            )
        return reports

    def n_states(self, n_values: int) -> int:
        """Return the number of distinct permanent reports that a record can have.

        Parameters
        ----------
        n_values : int
            The number of values, including a replacement of unknown ones.

        Returns
        -------
        int
            The number of values, or that of buckets.
        """
        return n_values
