"""The public estimates of sets: everything that is computed from reports only."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdp.local._tally import ReportTally
from skdp.local._transformer import ReportTransformer
from skdp.local.protocol import estimate_counts, refuse_impossible
from skdp.local.sets._field import SetPostprocess, check_postprocess


class SetEstimator(ReportTransformer):
    """The server's methods of a transformer of sets."""

    def estimate_counts(
        self,
        reports: Any,
        *,
        columns: Sequence[Any] | None = None,
        postprocess: SetPostprocess = "none",
        confidence_level: float = 0.95,
        simultaneous: bool = False,
    ) -> pd.DataFrame:
        """Estimate how many records hold each value.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        columns : sequence of column names, optional
            The columns to count; by default all.
        postprocess : {"none", "clip"}, default="none"
            ``"none"``: unbiased, possibly negative. ``"clip"``: clipped to [0, n]; biased.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.
        simultaneous : bool, default=False
            Whether all intervals together shall have the coverage (Bonferroni), not each by itself.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error, lower, upper``, indexed by value for one column, and by (column, value) for several. A
            record with s > `max_size` values counts as ``max_size / s`` for each of them: the counts of such records
            are too small by the sum of ``1 - max_size / s``, at most their number, and nothing else is biased. The
            standard error is that of the unbiased estimate (a plug-in of its variance), without the choice of the
            values that are kept of such records, which adds at most half the root of their number; the interval is a
            normal approximation.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the reports come from another encoder, or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        return self._estimate(
            reports,
            what="count",
            columns=columns,
            postprocess=postprocess,
            confidence_level=confidence_level,
            simultaneous=simultaneous,
        )

    def estimate_frequencies(
        self,
        reports: Any,
        *,
        columns: Sequence[Any] | None = None,
        postprocess: SetPostprocess = "none",
        confidence_level: float = 0.95,
        simultaneous: bool = False,
    ) -> pd.DataFrame:
        """Estimate which share of the records holds each value.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        columns, postprocess, confidence_level, simultaneous : optional
            As for `estimate_counts`.

        Returns
        -------
        pandas.DataFrame
            ``frequency, std_error, lower, upper``, indexed as by `estimate_counts`, whose values these are, divided by
            the number of reports. The shares of a column add up to the mean number of values that records keep.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the reports come from another encoder, or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        return self._estimate(
            reports,
            what="frequency",
            columns=columns,
            postprocess=postprocess,
            confidence_level=confidence_level,
            simultaneous=simultaneous,
        )

    def _estimate(self, reports: Any, **options: Any) -> pd.DataFrame:
        check_is_fitted(self)
        tally = reports if isinstance(reports, ReportTally) else self.tally(reports)
        check_postprocess(options["postprocess"])
        estimates = estimate_counts(self.protocol_, tally, **options)
        refuse_impossible(self.protocol_, tally, options["columns"])
        return estimates

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact probabilities of the reports.

        Returns
        -------
        list
            A table for each column: a row for each set of at most `max_size` values, the smallest sets first, a column
            a report, each entry a Fraction. For few values.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if there are more than 2**16 reports.
        """
        check_is_fitted(self)
        return [oracle.channel() for oracle in self.protocol_.oracles]
