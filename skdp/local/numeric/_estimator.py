"""The public estimates of numbers: everything that is computed from reports only."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import read_input
from skdp.local._tally import ReportTally, check_tally
from skdp.local._transformer import ReportTransformer
from skdp.local.numeric._estimation import (
    DistributionOptions,
    estimate_distributions,
)
from skdp.local.numeric._field import NumberField
from skdp.local.protocol import refuse_impossible


class MeanEstimator(ReportTransformer):
    """The server's methods of a transformer of numbers."""

    def tally(self, reports: Any) -> ReportTally:
        check_is_fitted(self)
        read_input(self, reports, reset=False)  # they have the form of the input
        return super().tally(reports)

    def estimate_mean(
        self, reports: Any, *, confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate the mean of each column, of the values clipped to their bounds.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``mean, std_error, lower, upper`` for each column. The mean is that of the reports, without bias. The
            standard error is their standard deviation (at least the smallest that the mechanism has) over the root of
            their number: right for the mean of the population that the records are drawn from, and for the mean of
            these very records too large rather than too small. The interval is a normal approximation, and not cut to
            the bounds.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another transformer, or the parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        tally = self._tally_of(reports)
        means = [
            field.estimate(counts, size, size, confidence_level=confidence_level)
            for field, counts, size in self._numbers(tally)
        ]
        refuse_impossible(self.protocol_, tally)
        return pd.concat(means)

    def estimate_distribution(
        self,
        reports: Any,
        *,
        n_bins: int | None = None,
        spacing: float | Mapping[Any, float] | None = None,
        smooth: bool = True,
        confidence_level: float = 0.95,
    ) -> pd.DataFrame:
        """Estimate how the values of each column are distributed over bins of equal width.

        By default by expectation maximisation on the exact channel, averaged over neighbours at each update ("EMS",
        as for the square wave mechanism), until nothing moves. That is regularised, not the likeliest distribution, and
        biased where many records have one value. With `spacing`, the likeliest distribution replaces it where reports
        show such values. The intervals are not those of this estimate: they hold for any distribution.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        n_bins : int, optional
            The number of bins between the bounds, at most `grid_size`; by default 32, or fewer on a smaller grid. An
            interval takes about 0.1 seconds.
        spacing : float, or mapping of column name to float, optional
            Declares that all values are the lower bound plus a multiple of it, as is publicly known: 1 for ages in
            years. It divides the range of the bounds into at most `grid_size` parts. By default, values may be
            anywhere.
        smooth : bool, default=True
            Whether to smooth. With `spacing`, the likeliest distribution replaces the smoothed one where its
            log-likelihood is larger by more than the number of its parameters (Akaike's information criterion): twice
            the number of values that have a share, less one. If not, it is always the likeliest distribution: over the
            bins, uniform within each, or over the declared values, to 0.001 of log-likelihood (for all reports
            together). Under much noise that has a few high bins and nothing between them, the more so the more bins
            there are.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``left, right, frequency, std_error, lower, upper``: the edges of each bin, and the share of the values in
            it, indexed by bin for one column and by (column, bin) for several; a bin holds its left edge, and the last
            one both. If smoothed, the frequencies are the nearest to this estimate that the intervals of 95 % allow.
            The standard error is the distance from the frequency to the further end of this interval, over 1.96: it
            holds the noise and what the reports leave open, and 1.96 of it on both sides of the frequency hold the
            interval. For a column that no record reports, frequencies are nan and standard errors infinite.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another transformer, or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.

        The interval of a bin is a mean of weights of the reports, plus or minus a quantile of its error. Of a record
        with any value, the weight is on average at least 1 in the bin and 0 elsewhere, for the upper end, and at most
        that for the lower one ([1]_). So an interval covers at least as often as stated, whether the values are smooth
        or a few numbers, but for the quantile, which is that of the normal distribution. The weights for one half of
        the reports are chosen by the other half, so that they do not follow its noise; the halves are drawn with a
        fixed seed. On grids of more than 1,024 steps, the weights are checked at 1,025 of them.

        This has a price. Without `spacing`, nothing says on which side of an edge between two bins a number is that
        is close to it: where many records have the value of an edge (half of all people work 40 hours), the
        intervals of both bins hold their share. Declare `spacing`, or move the edge. With it, each value is a place
        of its own. It is believed: if values are others, intervals may be wrong.

        References
        ----------
        .. [1] M. Kuusela, P. Stark (2017). Shape-constrained uncertainty quantification in unfolding steeply falling
           elementary particle spectra. Annals of Applied Statistics 11(3).
        """
        tally = self._tally_of(reports)
        options = DistributionOptions(n_bins, spacing, smooth, confidence_level)
        fields, counts, _ = zip(*self._numbers(tally), strict=True)
        shares = estimate_distributions(fields, counts, options)
        refuse_impossible(self.protocol_, tally)
        return shares

    def _tally_of(self, reports: Any) -> ReportTally:
        check_is_fitted(self)
        return reports if isinstance(reports, ReportTally) else self.tally(reports)

    def _numbers(
        self, tally: ReportTally
    ) -> list[tuple[NumberField, NDArray[np.int64], int]]:
        """Return each field, its sums, and the number of records that report it."""
        check_tally(tally, self.protocol_.meaning)
        if tally.n_reports == 0:
            raise ValueError(
                "Found a tally of 0 sample(s) (rows); at least 1 is required"
            )
        fields = cast(tuple[NumberField, ...], self.protocol_.fields)
        return list(zip(fields, tally.counts, tally.sizes, strict=True))

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact probabilities of the reports, given the position on the grid.

        Returns
        -------
        list
            A table for each column: a row a position, from the lower to the upper bound; a column a report, in the
            order of `report_values_`; each entry a Fraction. There are more than ``grid_size**2`` of them, so this is
            for small grids.
        """
        check_is_fitted(self)
        fields = cast(tuple[NumberField, ...], self.protocol_.fields)
        return [field.channel() for field in fields]
