"""From reports to counts: tallies, unbiased estimates, errors and intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import check_confidence_level
from skdp.domain import Domain
from skdp.local._tallies import ReportTally
from skdp.oracles import POSTPROCESSORS, FrequencyOracle

_CHUNK = 1 << 22


class ReportEstimator(ABC):
    """The server's side of a local transformer: everything that is computed from reports only."""

    domain_: Domain
    oracles_: tuple[FrequencyOracle, ...]
    _attributes: list[tuple[Any, ...]]
    _strategy: str

    @abstractmethod
    def _read_reports(self, reports: Any) -> tuple[list[NDArray[Any]], int]:
        """Return the reports of each attribute as its oracle has them, and the number of records."""

    def _protocol(self) -> dict[str, Any]:
        return {
            "encoder": type(self).__name__,
            "strategy": self._strategy,
            "oracles": [oracle.parameters() for oracle in self.oracles_],
        }

    def tally(self, reports: Any) -> ReportTally:
        """Sum up reports: how many support each value.

        Parameters
        ----------
        reports : same kind as what `transform` returns
            Privatised rows.

        Returns
        -------
        ReportTally
            The sums; tallies of several batches add.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the reports have other columns or values than this encoder's.

        Notes
        -----
        **Privacy.** Post-processing of reports: free.
        """
        check_is_fitted(self)
        return self._tally(*self._read_reports(reports))

    def _empty_tally(self) -> ReportTally:
        support = tuple(np.zeros(oracle.k, np.int64) for oracle in self.oracles_)
        return ReportTally(support, (0,) * len(support), 0, self.domain_, self._protocol())

    def _tally(self, parts: list[NDArray[Any]], n_reports: int) -> ReportTally:
        support = tuple(oracle.tally(part) for oracle, part in zip(self.oracles_, parts, strict=True))
        return ReportTally(support, tuple(map(len, parts)), n_reports, self.domain_, self._protocol())

    def estimate_counts(
        self,
        reports: Any,
        *,
        postprocess: str = "none",
        confidence_level: float = 0.95,
        simultaneous: bool = False,
    ) -> pd.DataFrame:
        """Estimate how many records truly have each value.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        postprocess : str, default="none"
            ``"none"``: unbiased, possibly negative. ``"clip"``: the unbiased estimate clipped to [0, n]; biased, and
            the counts no longer add up to n. ``"simplex"``: the nearest counts that are not negative and add up to n
            (norm-sub). ``"norm_mul"``, ``"norm_cut"``: negative counts become 0, the others are scaled, or the smallest
            cut, to add up. ``"base_cut"``: what is not significant becomes 0. ``"power"``: shrunk by a fitted power
            law. ``"mle"``: the likeliest counts; needs the reports themselves, but for randomised response.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.
        simultaneous : bool, default=False
            Whether all intervals together shall have the coverage (Bonferroni), not each by itself.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error, lower, upper``, indexed by value for one column, by (column, value) if the columns are
            attributes of their own, and by the values of all columns under "joint". The standard error is that of the
            unbiased estimate (a plug-in of its variance), and so is the interval (normal approximation); with a
            postprocess, the interval is cut to [0, n], where the truth lies.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the reports come from another encoder, or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        return self._estimate(reports, postprocess, confidence_level, simultaneous, "count")

    def estimate_frequencies(
        self,
        reports: Any,
        *,
        postprocess: str = "none",
        confidence_level: float = 0.95,
        simultaneous: bool = False,
    ) -> pd.DataFrame:
        """Estimate which share of the records truly has each value.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        postprocess : str, default="none"
            As for `estimate_counts`.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.
        simultaneous : bool, default=False
            As for `estimate_counts`.

        Returns
        -------
        pandas.DataFrame
            ``frequency, std_error, lower, upper``, indexed as by `estimate_counts`, whose values these are, divided by
            the number of reports.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the reports come from another encoder, or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        return self._estimate(reports, postprocess, confidence_level, simultaneous, "frequency")

    def _estimate(
        self, reports: Any, postprocess: str, confidence_level: float, simultaneous: bool, what: str
    ) -> pd.DataFrame:
        check_is_fitted(self)
        if not isinstance(postprocess, str) or postprocess not in POSTPROCESSORS:
            raise ValueError(f"postprocess must be one of {tuple(POSTPROCESSORS)}, got {postprocess!r}")
        level = check_confidence_level(confidence_level)
        parts: Sequence[NDArray[Any] | None]
        if isinstance(reports, ReportTally):
            tally, parts = reports, [None] * len(self.oracles_)
        else:
            parts, n_reports = self._read_reports(reports)
            tally = self._tally(parts, n_reports)
        if tally.domain != self.domain_ or tally.protocol != self._protocol():
            raise ValueError("the tally comes from an encoder with different parameters or another domain")
        n = tally.n_reports
        triples = list(zip(self.oracles_, tally.support, tally.sizes, strict=True))
        # Of a sampled attribute, n_j of n records were reported.
        scales = np.repeat(
            [n / size if size else np.nan for size in tally.sizes], [oracle.k for oracle in self.oracles_]
        )
        unbiased = np.concatenate([oracle.estimate(support, size) for oracle, support, size in triples]) * scales
        counts = scales * np.concatenate(
            [
                POSTPROCESSORS[postprocess](oracle, support, size, part)
                for (oracle, support, size), part in zip(triples, parts, strict=True)
            ]
        )
        std_error = np.sqrt(self._variances(unbiased, tally.sizes, n))
        tail = (1 - level) / 2 / (len(std_error) if simultaneous else 1)
        reach = -NormalDist().inv_cdf(tail) * std_error
        lower, upper = np.nan_to_num(unbiased) - reach, np.nan_to_num(unbiased) + reach
        if postprocess != "none":
            lower, upper = np.clip(lower, 0, n), np.clip(upper, 0, n)
        scale = n if what == "frequency" else 1
        table = {what: counts, "std_error": std_error, "lower": lower, "upper": upper}
        return pd.DataFrame({name: values / scale for name, values in table.items()}, index=self._cells())

    def _cells(self) -> pd.Index:
        if self._strategy == "joint" or len(self.domain_.columns) == 1:
            return self.domain_.cells()
        pairs = [(name, label) for name in self.domain_.columns for label in self.domain_[name].labels]
        return pd.MultiIndex.from_tuples(pairs, names=["column", "category"])

    def _split(self, counts: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        return np.split(counts, np.cumsum([oracle.k for oracle in self.oracles_])[:-1])

    def _variances(self, counts: NDArray[np.float64], sizes: Sequence[int], n: int) -> NDArray[np.float64]:
        """Return the variances of the counts of n records, of which each attribute was reported by a sample."""
        variances = []
        for oracle, part, size in zip(self.oracles_, self._split(counts), sizes, strict=True):
            if size == 0:
                variances.append(np.full(oracle.k, np.inf))
                continue
            scale = n / size
            inside = np.clip(part, 0, n)
            sampling = inside * (n - inside) / size * (n - size) / max(n - 1, 1)
            variances.append(scale**2 * oracle.variance(part / scale, size) + sampling)
        return np.concatenate(variances)

    def count_variances(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Return the variances of the unbiased counts if the true counts are given ones.

        Parameters
        ----------
        counts : array-like of shape (n_cells,)
            True counts, in the order of the rows of `estimate_counts`.

        Returns
        -------
        ndarray of shape (n_cells,)
            Exact, by the closed form of the oracle; under "sample", for equal samples of the records.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the counts are of another number than the cells, negative, or do not add up to the same n in each column.
        """
        check_is_fitted(self)
        given = np.asarray(counts, float)
        n_cells = sum(oracle.k for oracle in self.oracles_)
        if given.shape != (n_cells,):
            raise ValueError(f"counts must have shape ({n_cells},), got {given.shape}")
        totals = [part.sum() for part in self._split(given)]
        if (given < 0).any() or not np.allclose(totals, totals[0]):
            raise ValueError("counts must be at least 0 and add up to the same number in each column")
        size = totals[0] / (len(self.oracles_) if self._strategy == "sample" else 1)
        return self._variances(given, [size] * len(self.oracles_), totals[0])

    def estimate_joint_counts(
        self, reports: Any, *, columns: Sequence[Any] | None = None, confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate how many records truly have each combination of values, from columns that were reported apart.

        The unbiased estimates of the one-hot vectors of a record's columns are independent given the record, so their
        outer product is unbiased for the combination: the inverse of the Kronecker product of the channels.

        Parameters
        ----------
        reports : same kind as what `transform` returns
            Privatised rows of an encoder with ``strategy="split"``; a tally has lost what goes together.
        columns : sequence of column names, optional
            Which columns to combine; by default all.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error, lower, upper``, indexed by the values of the columns.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the encoder has another strategy, a column is unknown, or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable. The variance of a cell is the sum over the
        records of the product of the second moments, less the cell's count; it grows quickly with the number of
        columns.
        """
        check_is_fitted(self)
        if self._strategy != "split":
            raise ValueError(f"joint counts are estimated from strategy='split', not {self._strategy!r}")
        level = check_confidence_level(confidence_level)
        chosen = list(self.domain_.columns if columns is None else columns)
        absent = [name for name in chosen if name not in self.domain_.columns]
        if absent or not chosen or len(set(chosen)) < len(chosen):
            raise ValueError(f"columns must be distinct ones of {list(self.domain_.columns)}, got {chosen}")
        parts, _ = self._read_reports(reports)
        places = [self.domain_.columns.index(name) for name in chosen]
        oracles, parts = [self.oracles_[place] for place in places], [parts[place] for place in places]
        counts = _outer_sums(oracles, parts)
        moments = [oracle.second_moments() for oracle in oracles]
        plug_in = np.clip(counts, 0, None)
        std_error = np.sqrt(np.clip(_along_each_axis(moments, plug_in) - plug_in, 0, None)).ravel()
        reach = -NormalDist().inv_cdf((1 - level) / 2) * std_error
        flat = counts.ravel()
        return pd.DataFrame(
            {"count": flat, "std_error": std_error, "lower": flat - reach, "upper": flat + reach},
            index=self.domain_.select(chosen).cells(),
        )


def _outer_sums(oracles: Sequence[FrequencyOracle], parts: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Sum up the outer products of the unbiased one-hot vectors of each record."""
    shape = [oracle.k for oracle in oracles]
    total = np.zeros((int(np.prod(shape[:-1])), shape[-1]))
    step = max(1, _CHUNK // max(total.size // shape[-1], shape[-1]))
    for start in range(0, len(parts[0]), step):
        vectors = [oracle.unbiased(part[start : start + step]) for oracle, part in zip(oracles, parts, strict=True)]
        left = reduce(
            lambda left, right: (left[:, :, np.newaxis] * right[:, np.newaxis, :]).reshape(len(left), -1),
            vectors[:-1],
            np.ones((len(vectors[0]), 1)),
        )
        total += left.T @ vectors[-1]
    return total.reshape(shape)


def _along_each_axis(matrices: Sequence[NDArray[np.float64]], cells: NDArray[np.float64]) -> NDArray[np.float64]:
    for axis, matrix in enumerate(matrices):
        cells = np.moveaxis(np.tensordot(matrix, cells, axes=(1, axis)), 0, axis)
    return cells
