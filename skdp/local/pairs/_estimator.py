"""The public estimates of keys and values: everything that is computed from reports only."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdp.local._transformer import ReportTransformer
from skdp.local.pairs._protocol import PairProtocol
from skdp.local.pairs._tally import PairTally
from skdp.local.sets import SetPostprocess


class PairEstimator(ReportTransformer):
    """The server's methods of a transformer of keys and values."""

    protocol_: PairProtocol

    def estimate_counts(
        self, reports: Any, *, postprocess: SetPostprocess = "none", confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate how many records hold each key.

        Parameters
        ----------
        reports : what `transform` returns, or PairTally
            Privatised rows, or their sums.
        postprocess : {"none", "clip"}, default="none"
            ``"none"``: unbiased, possibly negative. ``"clip"``: clipped to [0, n]; biased.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error, lower, upper``, indexed by key for one column, and by (column, key) for several. The
            counts are unbiased, and may be negative; a record with s > `max_size` keys counts as ``max_size / s`` for
            each of them. The standard error is a plug-in of the exact one, the interval a normal approximation.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the reports come from another encoder, or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        return self._estimate(reports, what="count", postprocess=postprocess, confidence_level=confidence_level)

    def estimate_frequencies(
        self, reports: Any, *, postprocess: SetPostprocess = "none", confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate which share of the records holds each key.

        Parameters
        ----------
        reports : what `transform` returns, or PairTally
            Privatised rows, or their sums.
        postprocess, confidence_level : optional
            As for `estimate_counts`.

        Returns
        -------
        pandas.DataFrame
            ``frequency, std_error, lower, upper``: what `estimate_counts` returns, divided by the number of reports.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the reports come from another encoder, or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        return self._estimate(reports, what="frequency", postprocess=postprocess, confidence_level=confidence_level)

    def estimate_mean(self, reports: Any, *, confidence_level: float = 0.95) -> pd.DataFrame:
        """Estimate the mean of the values of each key, clipped to their bounds, over the records that hold it.

        Parameters
        ----------
        reports : what `transform` returns, or PairTally
            Privatised rows, or their sums.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``mean, std_error, lower, upper``, indexed as by `estimate_counts`. The mean is a quotient of two unbiased
            estimates, cut to the bounds: its bias is small where the key has many more holders than the standard error
            of their number. A record with s > `max_size` keys has the weight ``max_size / s``. The interval is that of
            Fieller, cut to the bounds, and covers as stated for rare keys too, where it is as wide as the bounds; its
            variances are those of equal values, and too large for others. The mean of a key that no one seems to hold
            is nan, its standard error infinite.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the reports come from another encoder, or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        return self._estimate(reports, what="mean", confidence_level=confidence_level)

    def _estimate(self, reports: Any, **options: Any) -> pd.DataFrame:
        check_is_fitted(self)
        tally = reports if isinstance(reports, PairTally) else self.tally(reports)
        return self.protocol_.estimate(tally, **options)

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact probabilities of the reports, given the signs of the keys.

        Returns
        -------
        list
            A table for each column: a row for each set of at most `max_size` signed keys (codes 2 key for minus and 2
            key + 1 for plus, the smallest sets first), a column a report, each entry a Fraction. A value between the
            bounds is a mean of its two signs. For few keys.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if there are more than 2**16 reports.
        """
        check_is_fitted(self)
        return [oracle.channel() for oracle in self.protocol_.oracles]
