"""The public estimates of a table of reports: margins, combinations of columns, and means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdp.local._protocol_file import read_carried
from skdp.local._tally import ReportTally, check_tally
from skdp.local._transformer import ReportTransformer
from skdp.local.numeric import NumberField
from skdp.local.protocol import (
    check_columns,
    concat_columns,
    estimate_counts,
    fields_with,
    joint_counts,
    refuse_impossible,
)
from skdp.oracles import Postprocess


class TableEstimator(ReportTransformer):
    """The server's methods of an encoder of tables."""

    def estimate_counts(
        self,
        reports: Any,
        *,
        postprocess: Postprocess = "none",
        confidence_level: float = 0.95,
    ) -> pd.DataFrame:
        """Estimate how many records truly have each value of each column of categories.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        postprocess : str, default="none"
            As for the `estimate_counts` of `RandomizedResponseEncoder`.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error, lower, upper``, indexed by (column, category); empty if there is no such column.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another encoder, or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        return self._margins(
            reports,
            what="count",
            postprocess=postprocess,
            confidence_level=confidence_level,
        )

    def estimate_frequencies(
        self,
        reports: Any,
        *,
        postprocess: Postprocess = "none",
        confidence_level: float = 0.95,
    ) -> pd.DataFrame:
        """Estimate which share of the records truly has each value of each column of categories.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        postprocess, confidence_level : optional
            As for `estimate_counts`.

        Returns
        -------
        pandas.DataFrame
            ``frequency, std_error, lower, upper``: those of `estimate_counts`, divided by the number of records.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            As for `estimate_counts`.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        return self._margins(
            reports,
            what="frequency",
            postprocess=postprocess,
            confidence_level=confidence_level,
        )

    def _margins(self, reports: Any, **options: Any) -> pd.DataFrame:
        protocol, tally = self.protocol_, self._tally_of(reports)
        if protocol.domain is None:
            index = pd.MultiIndex.from_arrays([[], []], names=["column", "category"])
            names = [options["what"], "std_error", "lower", "upper"]
            return pd.DataFrame(columns=names, index=index, dtype=float)
        tables = {
            name: estimate_counts(protocol, tally, [name], **options)
            for name in protocol.domain.columns
        }
        refuse_impossible(protocol, tally)
        return concat_columns(tables)

    def estimate_joint_counts(
        self, reports: Any, columns: Sequence[Any], *, confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate how many records truly have each combination of values of some columns of categories.

        Parameters
        ----------
        reports : what `transform` returns
            Privatised rows. Of columns that are reported as one group, a ReportTally is enough.
        columns : sequence of column names
            Which columns to combine, mostly two.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error, lower, upper``, indexed by the values of the columns. Without bias: from the records
            that report all of the columns. Where these are a sample, the interval holds the counts from which the
            estimate is not far (Wilson's interval, with the noise added), so it is not symmetric for rare combinations.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another encoder, a column is unknown or of numbers, or no record
            reports all of the columns.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        check_is_fitted(self)
        protocol = self.protocol_
        known = () if protocol.domain is None else protocol.domain.columns
        asked = check_columns(known, columns)
        together = fields_with(protocol, *asked)
        is_margin = len(asked) == 1 < len(together)
        if is_margin or (isinstance(reports, ReportTally) and together):
            tally = self._tally_of(reports)
            counts = estimate_counts(
                protocol, tally, asked, confidence_level=confidence_level
            )
        elif isinstance(reports, ReportTally):
            raise ValueError(
                "columns of several groups are combined from the reports: a tally has "
                "lost what goes together"
            )
        else:
            places = {place for name in asked for place in fields_with(protocol, name)}
            n_needed = 1 if together else len(places)
            # As also if a column is in several groups.
            if protocol.n_sampled is not None and protocol.n_sampled < n_needed:
                raise ValueError(
                    f"no record reports the columns {asked} together: plan_ has "
                    f"{protocol.n_sampled} report(s) a record"
                )
            arrays, tally = read_carried(reports, self)
            counts = joint_counts(protocol, arrays, asked, confidence_level)
        refuse_impossible(protocol, tally, asked)
        return counts

    def estimate_mean(
        self, reports: Any, *, confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate the mean of each column of numbers, clipped to their bounds.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            ``mean, std_error, lower, upper`` for each column of numbers, as of `NumericPerturber`; empty if there is
            none.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another encoder, or the parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        tally, protocol = self._tally_of(reports), self.protocol_
        means = {}
        for field, counts, size in zip(
            protocol.fields, tally.counts, tally.sizes, strict=True
        ):
            if isinstance(field, NumberField):
                means[field.name] = field.estimate(
                    counts, size, tally.n_reports, confidence_level=confidence_level
                )
        if not means:
            names = ["mean", "std_error", "lower", "upper"]
            return pd.DataFrame(
                columns=names, index=pd.Index([], name="column"), dtype=float
            )
        refuse_impossible(protocol, tally, list(means))
        return pd.concat([means[name] for name in protocol.columns if name in means])

    def _tally_of(self, reports: Any) -> ReportTally:
        check_is_fitted(self)
        tally = reports if isinstance(reports, ReportTally) else self.tally(reports)
        check_tally(tally, self.protocol_.meaning)
        if tally.n_reports == 0:
            raise ValueError(
                "Found a tally of 0 sample(s) (rows); at least 1 is required"
            )
        return tally
