"""The public estimates of a table of reports: margins, combinations of columns, and means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdp.domain import Domain
from skdp.local._protocol_file import read_carried
from skdp.local._tally import ReportTally
from skdp.local._transformer import ReportTransformer
from skdp.local.numeric import NumericProtocol
from skdp.local.protocol import (
    OracleProtocol,
    check_columns,
    estimate_together,
    refuse_impossible,
)
from skdp.local.table._protocol import TableProtocol
from skdp.oracles import Postprocess


class TableEstimator(ReportTransformer):
    """The server's methods of an encoder of tables."""

    protocol_: TableProtocol

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
        tally = self._tally_of(reports)
        estimates = self.protocol_.estimate(tally, **options)
        refuse_impossible(self.protocol_, tally)
        return estimates

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
        values = [
            name
            for part in protocol.parts
            if isinstance(part, OracleProtocol)
            for name in part.columns
        ]
        asked = check_columns(
            [name for name in protocol.names if name in values], columns
        )
        together = protocol.places_of(*asked)
        if len(asked) == 1 < len(together):
            tally = self._tally_of(reports)
            margin = protocol.estimate_margin(
                tally, asked[0], confidence_level=confidence_level
            )
            refuse_impossible(protocol, tally, asked)
            return margin
        places = together or sorted(
            {place for name in asked for place in protocol.places_of(name)}
        )
        if isinstance(reports, ReportTally):
            if len(places) > 1:
                raise ValueError(
                    "columns of several groups are combined from the reports: a tally has lost what goes together"
                )
            part: Any = protocol.parts[places[0]]
            own = protocol.tally_of(reports, places[0])
            found: pd.DataFrame = part.estimate(
                own, columns=asked, confidence_level=confidence_level
            )
            refuse_impossible(protocol, reports, asked)
            return found
        size = protocol.n_sampled
        if size is not None and size < len(
            places
        ):  # as also if a column is in several groups
            raise ValueError(
                f"no record reports the columns {asked} together: plan_ has {size} report(s) a record"
            )
        arrays, tally = read_carried(reports, self)
        drawn = protocol.rows(arrays)
        rows = drawn[:, places].all(axis=1)
        pairs, order = [], []
        for place in places:
            part = protocol.parts[place]
            assert isinstance(part, OracleProtocol)
            inside = [name for name in part.columns if name in asked]
            codes = np.indices(part.domain.sizes).reshape(len(part.columns), -1)
            kept = part.domain.select(inside)
            group = np.ravel_multi_index(
                [codes[part.columns.index(name)] for name in inside], kept.sizes
            )
            pairs.append((part.oracles[0], arrays[place][rows], group))
            order += [(name, kept[name]) for name in inside]
        found = estimate_together(pairs, len(drawn), confidence_level)
        sizes = [len(own) for _, own in order]
        # Cells are in the order of the groups: put them into that of the columns.
        axes = [[name for name, _ in order].index(name) for name in asked]
        moved = np.arange(len(found)).reshape(sizes).transpose(axes).ravel()
        found = found.iloc[moved]
        known = dict(order)
        found.index = Domain({name: known[name] for name in asked}).cells()
        refuse_impossible(protocol, tally, asked)
        return found

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
        places = [
            place
            for place, part in enumerate(protocol.parts)
            if isinstance(part, NumericProtocol)
        ]
        if not places:
            names = ["mean", "std_error", "lower", "upper"]
            return pd.DataFrame(
                columns=names, index=pd.Index([], name="column"), dtype=float
            )
        parts = []
        for place in places:
            part, own = protocol.parts[place], protocol.tally_of(tally, place)
            parts.append(
                part.estimate(own, confidence_level=confidence_level)
                if own.n_reports
                else _unknown_mean(part)
            )
        refuse_impossible(
            protocol,
            tally,
            [name for place in places for name in protocol.parts[place].columns],
        )
        means = pd.concat(parts)
        return means.loc[[name for name in protocol.names if name in means.index]]

    def _tally_of(self, reports: Any) -> ReportTally:
        check_is_fitted(self)
        return reports if isinstance(reports, ReportTally) else self.tally(reports)


def _unknown_mean(part: Any) -> pd.DataFrame:
    """Return the estimate of a number that no record reports."""
    index = pd.Index(part.columns, name="column", tupleize_cols=False)
    return pd.DataFrame(
        {"mean": np.nan, "std_error": np.inf, "lower": -np.inf, "upper": np.inf},
        index=index,
    )
