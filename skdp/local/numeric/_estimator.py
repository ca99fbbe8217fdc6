"""The public estimates of numbers: everything that is computed from reports only."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdp.base import read_input
from skdp.local._tallies import NumericTally
from skdp.local._transformer import ReportTransformer
from skdp.local.numeric._protocol import NumericProtocol
from skdp.local.protocol import refuse_impossible


class MeanEstimator(ReportTransformer):
    """The server's methods of a transformer of numbers."""

    protocol_: NumericProtocol

    def tally(self, reports: Any) -> NumericTally:
        check_is_fitted(self)
        read_input(self, reports, reset=False)  # they have the form of the input
        return super().tally(reports)

    def estimate_mean(self, reports: Any, *, confidence_level: float = 0.95) -> pd.DataFrame:
        """Estimate the mean of each column, of the values clipped to their bounds.

        Parameters
        ----------
        reports : what `transform` returns, or NumericTally
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
        means = self.protocol_.estimate(tally, confidence_level=confidence_level)
        refuse_impossible(self.protocol_, tally)
        return means

    def estimate_distribution(
        self, reports: Any, *, n_bins: int | None = None, smooth: bool = True, confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate how the values of each column are distributed over bins of equal width.

        By default by expectation maximisation on the exact channel, averaged over neighbours at each update ("EMS",
        as for the square wave mechanism), until nothing moves. That is regularised, not the likeliest distribution, and
        biased where the distribution has spikes. Standard errors and intervals are those of an estimate without this
        bias, which varies more: few bins have narrow intervals, many bins have wide ones.

        Parameters
        ----------
        reports : what `transform` returns, or NumericTally
            Privatised rows, or their sums.
        n_bins : int, optional
            The number of bins between the bounds, at most `grid_size`; by default 32, or fewer on a smaller grid.
        smooth : bool, default=True
            Whether to smooth. If not, it is the likeliest distribution over the bins, to 0.001 of log-likelihood (for
            all reports together). Under much noise that has a few high bins and nothing between them, the more so the
            more bins there are.

        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``left, right, frequency, std_error, lower, upper``: the edges of each bin, and the share of the values in
            it, indexed by bin for one column and by (column, bin) for several. The interval is that of the estimated
            distribution plus what the reports say, without bias, where it is wrong: the least squares estimate of the
            shares of at most 64 equal parts of the range, and of both ends, where values beyond the bounds are. It
            is cut to [0, 1], and may not hold `frequency`. It covers the share as stated, unless more than a few per
            cent of the records have one value that is not an end. The standard error is infinite where the
            mechanism has too few reports to distinguish these parts, and for a column that no record reports, whose
            frequencies are nan.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another transformer, a parameter is out of range, or the mechanism
            reports nothing but two numbers (Duchi's, and the hybrid one up to epsilon = 0.61), which determine the mean
            only.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        tally = self._tally_of(reports)
        shares = self.protocol_.estimate_distribution(tally, n_bins, smooth, confidence_level)
        refuse_impossible(self.protocol_, tally)
        return shares

    def _tally_of(self, reports: Any) -> NumericTally:
        check_is_fitted(self)
        return reports if isinstance(reports, NumericTally) else self.tally(reports)

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
        return self.protocol_.channel()
