"""The public estimates of the encoders: everything that is computed from reports only."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.local._protocol_file import read_carried
from skdp.local._tally import ReportTally
from skdp.local._transformer import ReportTransformer
from skdp.local.protocol import (
    check_columns,
    count_variances,
    estimate_counts,
    joint_counts,
    refuse_impossible,
)
from skdp.oracles import Postprocess


class CountEstimator(ReportTransformer):
    """The server's methods of an encoder with frequency oracles."""

    def estimate_counts(
        self,
        reports: Any,
        *,
        columns: Sequence[Any] | None = None,
        postprocess: Postprocess = "none",
        confidence_level: float = 0.95,
        simultaneous: bool = False,
    ) -> pd.DataFrame:
        """Estimate how many records truly have each value.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        columns : sequence of column names, optional
            The columns to count; by default all. Under "joint", counts are summed over
            the other columns; for Hadamard response this needs the reports.
        postprocess : str, default="none"
            ``"none"`` is unbiased, possibly negative. ``"clip"``, ``"simplex"`` and
            ``"power"`` are not negative, and biased; the guide page "What all encoders
            share" compares them.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.
        simultaneous : bool, default=False
            Whether all intervals together shall have the coverage (Bonferroni), not
            each.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error, lower, upper``, indexed by value for one column, by
            (column, value) for several, and by the values of all columns under "joint".
            Standard error and interval (normal approximation) are those of the unbiased
            estimate; with a postprocess, the interval is cut to [0, n]. By (column,
            value), truth values are ``"True"`` and ``"False"`` if another column has 0
            or 1.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the reports come from another encoder, or a parameter is
            out of range; or if no true values explain their sums: reports of another
            protocol or epsilon are among them, values were overwritten, or rows were
            chosen by their reports.

        Warns
        -----
        UnverifiedReportsWarning
            If the sums are as unlikely as those of one table in a million, whatever the
            true values; or as `tally`.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        return self._estimate(
            reports,
            "count",
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
        postprocess: Postprocess = "none",
        confidence_level: float = 0.95,
        simultaneous: bool = False,
    ) -> pd.DataFrame:
        """Estimate which share of the records truly has each value.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        columns, postprocess, confidence_level, simultaneous : optional
            As for `estimate_counts`.

        Returns
        -------
        pandas.DataFrame
            ``frequency, std_error, lower, upper``, indexed as by `estimate_counts`,
            whose values these are, divided by the number of reports.

        Raises
        ------
        NotFittedError, ValueError
            As for `estimate_counts`.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        return self._estimate(
            reports,
            "frequency",
            columns=columns,
            postprocess=postprocess,
            confidence_level=confidence_level,
            simultaneous=simultaneous,
        )

    def _estimate(self, reports: Any, what: str, **options: Any) -> pd.DataFrame:
        check_is_fitted(self)
        protocol, arrays = self.protocol_, None
        if isinstance(reports, ReportTally):
            tally = reports
        else:
            arrays, tally = read_carried(reports, self)
        estimates = estimate_counts(
            protocol, tally, reports=arrays, what=what, **options
        )
        refuse_impossible(protocol, tally, options["columns"])
        return estimates

    def count_variances(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Return the variances of the unbiased counts, given the true counts.

        Parameters
        ----------
        counts : array-like of shape (n_cells,)
            True counts, in the order of the rows of `estimate_counts`.

        Returns
        -------
        ndarray of shape (n_cells,)
            Exact, by the closed form of the oracle; under "sample", for equal samples
            of the records.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the counts are of another number than the cells,
            negative, or do not add up to the same n in each column.
        """
        check_is_fitted(self)
        return count_variances(self.protocol_, counts)

    def estimate_joint_counts(
        self,
        reports: Any,
        *,
        columns: Sequence[Any] | None = None,
        confidence_level: float = 0.95,
    ) -> pd.DataFrame:
        """Estimate the joint counts of columns that were reported apart.

        The unbiased estimates of the one-hot vectors of a record's columns are
        independent given the record, so their outer product is unbiased for the
        combination: the inverse of the Kronecker product of the channels.

        Parameters
        ----------
        reports : same kind as what `transform` returns
            Privatised rows of an encoder with ``strategy="split"``; a tally has lost
            what goes together.
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
        NotFittedError, ValueError
            Before `fit`, or if the encoder has another strategy, a column is unknown,
            or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable. The variance of a
        cell is the sum over the records of the product of the second moments, less the
        cell's count; it grows quickly with the number of columns.
        """
        check_is_fitted(self)
        protocol = self.protocol_
        if protocol.strategy != "split":
            raise ValueError(
                f"joint counts are estimated from strategy='split', not {protocol.strategy!r}"
            )
        arrays, tally = read_carried(reports, self)
        asked = list(protocol.columns)
        if columns is not None:
            asked = check_columns(asked, columns)
        estimates = joint_counts(protocol, arrays, asked, confidence_level)
        refuse_impossible(protocol, tally, columns)
        return estimates

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact probabilities of the reports.

        Returns
        -------
        list
            A table for each attribute: one for each column, or one for all under
            "joint". A row a true value, a column a report, each entry a Fraction.
        """
        check_is_fitted(self)
        return [oracle.channel() for oracle in self.protocol_.oracles]
