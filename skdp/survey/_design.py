"""How reports come about from true values: what a regression or an estimate must know of each reported column."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import ColumnLike, ColumnName, SavedByArguments
from skdp.exact import log_upper
from skdp.local import ReportTransformer, read_and_tally
from skdp.local.protocol import CategoryField, read_sample_weight
from skdp.survey import _channels
from skdp.survey._likelihood import Numbers
from skdp.survey._shares import estimate_shares
from skdp.tables import is_frame, read_table

# Of sums of floats that stand for probabilities.
_ROUNDING = 1e-9

# To 1: a sum of probabilities that were rounded to two places.
_NEAR = 0.02


class ReportDesign(SavedByArguments):
    """The probability of each report of a question, given the true answer, by group of persons.

    For reports that no encoder of skdp made: forced responses, unrelated questions, cards, coins, or people who were
    asked directly. Designs of the literature have names: `warner`, `forced`, `unrelated`, `crosswise`, `direct`.

    >>> from skdp.survey import ReportDesign
    >>> warner = ReportDesign("smokes", [[0.75, 0.25], [0.25, 0.75]], values=["no", "yes"])
    >>> round(warner.epsilon, 3)
    1.099

    Parameters
    ----------
    column : column name
        The column that holds the reports.
    channel : array-like of shape (n_values, n_reports), or mapping of group to such
        The probability of each report (a column) given each true value (a row). Rows add up to 1. With `group`, one
        for each group of persons.
    values : list
        The true values, in the order of the rows.
    reports : list, optional
        The reports, in the order of the columns. By default the values.
    group : column name, optional
        The column that says by which channel a person reported, such as of two randomisation levels; people who were
        asked directly have the identity matrix.
    unknown : (name, slope), optional
        A number that the channel depends on and that is estimated: the channel is ``channel + number * slope``, where
        `slope` has the form of `channel`. Such as the share of people who have the property of an unrelated question.
    start : float, default=0.5
        Where the search for that number begins.

    Attributes
    ----------
    epsilon : float
        The largest log ratio of two probabilities of a report: the privacy loss of an honest answer, infinite if some
        report excludes a true value.

    Raises
    ------
    TypeError, ValueError
        If the channel is no matrix of probabilities of this shape, values repeat, or `group` and the mapping are not
        given together.

    See Also
    --------
    ReportLogisticRegression, ReportLinearRegression : Take designs and fitted encoders.

    Notes
    -----
    **Privacy.** A design reads reports, and makes none: it states no guarantee. Whether people drew their reports as it
    says is not known to it.

    References
    ----------
    .. [1] D. W. Heck, M. Moshagen (2018). RRreg: an R package for correlation and regression analyses of randomized
       response data. Journal of Statistical Software 85(2).

    Examples
    --------
    People of the first group were asked directly, the others by a coin:

    >>> by_group = ReportDesign("smokes", {1: [[1, 0], [0, 1]], 2: [[0.75, 0.25], [0.25, 0.75]]},
    ...                         values=["no", "yes"], group="coin")
    >>> by_group.epsilon
    inf
    """

    def __init__(
        self,
        column: ColumnName,
        channel: Any,
        *,
        values: Sequence[Any],
        reports: Sequence[Any] | None = None,
        group: ColumnName | None = None,
        unknown: tuple[str, Any] | None = None,
        start: float = 0.5,
    ) -> None:
        self.column = column
        self.values = list(values)
        self.reports = self.values if reports is None else list(reports)
        self.group = group
        for name, listed in (("values", self.values), ("reports", self.reports)):
            if len(listed) < 2 or len(set(listed)) < len(listed):
                raise ValueError(f"{name} must be two or more, all different")
        if isinstance(channel, Mapping) != (group is not None):
            raise TypeError(
                "group names the column by which a mapping of channels is chosen: give "
                "both or none"
            )
        channels = channel if isinstance(channel, Mapping) else {None: channel}
        self.unknown = None if unknown is None else unknown[0]
        self.start = start
        self.slopes: dict[Any, Numbers] = {}
        if unknown is not None:
            of_groups = unknown[1]
            slopes = of_groups if isinstance(of_groups, Mapping) else {None: of_groups}
            if set(slopes) != set(channels):
                raise ValueError("the slope of unknown must have the form of channel")
            for key, matrix in slopes.items():
                self.slopes[key] = np.asarray(matrix, float)
                self._check_slope(self.slopes[key])
        self.channels: dict[Any, Numbers] = {}
        for key, matrix in channels.items():
            table = np.asarray(matrix, float)
            # With an unknown number, the channel at the start of the search.
            shown = table + start * self.slopes[key] if self.slopes else table
            self._check_channel(table, shown)
            self.channels[key] = table

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that make the design again.

        Returns
        -------
        dict
            By name; `skdp.save` writes them.
        """
        channel: Any = self.channels
        slope: Any = self.slopes
        if self.group is None:
            channel = self.channels[None]
            slope = self.slopes.get(None)
        return {
            "column": self.column,
            "channel": channel,
            "values": self.values,
            "reports": self.reports,
            "group": self.group,
            "unknown": None if self.unknown is None else (self.unknown, slope),
            "start": self.start,
        }

    def with_cheaters(self, report: Any, *, start: float = 0.05) -> ReportDesign:
        """Return the design with people who always give the same report, whatever they are asked.

        Their share is estimated beside the others ([2]_); that needs two channels, as of two randomisation levels in
        two random halves. Cheaters are counted as having the value `report`: the shares of other values are those of
        honest people among all. If carriers of these cheat, too, that is a lower bound of their share, and the sum with
        that of cheaters an upper one. So here no + yes = 1, with cheaters inside "no"; `PerHalf.estimate_frequencies`
        counts them beside both, and there no + yes + cheaters = 1.

        Parameters
        ----------
        report : value
            What cheaters report, such as "no".
        start : float, default=0.05
            Where the search for their share begins.

        Returns
        -------
        ReportDesign
            With the unknown number "cheaters".

        Notes
        -----
        A regression is then of the same values: if those who cheat are a part of all people, carriers included,
        coefficients are of honest carriers among all, and too small: .82 for a slope of 1 of such a target, .89 of such
        a predictor, with a fifth of cheaters. Where cheating is independent of the value, that is a channel of another
        slope, with which the two came out as 1.00 and 1.02:

        >>> import numpy as np
        >>> from skdp.survey import ReportDesign
        >>> honest = ReportDesign.warner("smokes", {"a": 0.9, "b": 0.65}, group="half")
        >>> says_no = np.array([1.0, 0.0])
        >>> slopes = {half: says_no - channel for half, channel in honest.channels.items()}
        >>> design = ReportDesign("smokes", honest.channels, values=["no", "yes"], group="half",
        ...                       unknown=("cheaters", slopes), start=0.05)

        References
        ----------
        .. [2] S. J. Clark, R. A. Desharnais (1998). Honest answers to embarrassing questions: detecting cheating in the
           randomized response model. Psychological Methods 3.
        """
        if report not in self.reports or report not in self.values:
            raise ValueError("report must be one of the reports, and of the values")
        if len(self.channels) < 2 or self.unknown is not None:
            raise ValueError(
                "a share of cheaters needs two channels (group=), and no other unknown "
                "number"
            )
        always = np.array([float(each == report) for each in self.reports])
        honest = self.values.index(report)
        slopes = {}
        for key, table in self.channels.items():
            # A cheater takes the place of an honest person with that value.
            slopes[key] = np.tile(always - table[honest], (len(self.values), 1))
        return ReportDesign(
            self.column,
            self.channels,
            values=self.values,
            reports=self.reports,
            group=self.group,
            unknown=("cheaters", slopes),
            start=start,
        )

    @classmethod
    def warner(
        cls,
        column: ColumnName,
        p: float | Mapping[Any, float],
        *,
        values: Sequence[Any] = ("no", "yes"),
        group: ColumnName | None = None,
    ) -> ReportDesign:
        """Return Warner's design ([3]_): a card shows a statement, or its opposite, and is answered with the truth.

        >>> from skdp.survey import ReportDesign
        >>> ReportDesign.warner("smokes", 0.75)
        ReportDesign('smokes', 2 values, 1 channels, epsilon=1.099)

        Parameters
        ----------
        column : column name
            The column that holds the reports.
        p : float, or mapping of group to float
            The probability of the statement itself, between 0 and 1 and not .5.
        values : list of two, default=("no", "yes")
            The values, and the reports: the one of who lacks the property first.
        group : column name, optional
            The column of the groups, if p is a mapping.

        Returns
        -------
        ReportDesign
            With the channel [[p, 1 - p], [1 - p, p]].

        References
        ----------
        .. [3] S. L. Warner (1965). Randomized response: a survey technique for eliminating evasive answer bias. Journal
           of the American Statistical Association 60.
        """
        channel = _channels.by_group(_channels.warner, group, p=p)
        return cls(column, channel, values=values, group=group)

    @classmethod
    def forced(
        cls,
        column: ColumnName,
        *,
        yes: float | Mapping[Any, float],
        no: float | Mapping[Any, float] = 0.0,
        values: Sequence[Any] = ("no", "yes"),
        group: ColumnName | None = None,
    ) -> ReportDesign:
        """Return forced responses ([4]_): dice or cards tell some to say yes, some to say no, and others the truth.

        Two dice: who throws 2, 3 or 4 says yes, who throws 11 or 12 says no.

        >>> from skdp.survey import ReportDesign
        >>> ReportDesign.forced("smokes", yes=6 / 36, no=3 / 36)
        ReportDesign('smokes', 2 values, 1 channels, epsilon=2.303)

        Parameters
        ----------
        column : column name
            The column that holds the reports.
        yes : float, or mapping of group to float
            The probability of being told to say yes.
        no : float, or mapping of group to float, default=0
            That of being told to say no; the two add to less than 1.
        values : list of two, default=("no", "yes")
            The values, and the reports: no first.
        group : column name, optional
            The column of the groups, if a probability is a mapping.

        Returns
        -------
        ReportDesign
            With the channel [[1 - yes, yes], [no, 1 - no]].

        References
        ----------
        .. [4] R. F. Boruch (1971). Assuring confidentiality of responses in social research: a note on strategies. The
           American Sociologist 6.
        """
        _channels.check_no_first(values)
        channel = _channels.by_group(_channels.forced, group, yes=yes, no=no)
        return cls(column, channel, values=values, group=group)

    @classmethod
    def unrelated(
        cls,
        column: ColumnName,
        p: float | Mapping[Any, float],
        *,
        prevalence: float | Mapping[Any, float] | None = None,
        values: Sequence[Any] = ("no", "yes"),
        group: ColumnName | None = None,
    ) -> ReportDesign:
        """Return the unrelated question design ([5]_): some answer a harmless question in place of the sensitive one.

        With two shares of those who are asked, the prevalence need not be known:

        >>> from skdp.survey import ReportDesign
        >>> ReportDesign.unrelated("smokes", 0.7, prevalence=0.25)
        ReportDesign('smokes', 2 values, 1 channels, epsilon=2.335)
        >>> design = ReportDesign.unrelated("smokes", {"a": 0.7, "b": 0.3}, group="half")
        >>> design.unknown
        'prevalence'

        Parameters
        ----------
        column : column name
            The column that holds the reports.
        p : float, or mapping of group to float
            The probability of the sensitive question, above 0.
        prevalence : float, mapping of group to float, or None, default=None
            The share of yes to the harmless question, such as of birthdays in three of twelve months. None estimates
            it, which needs two groups with different p, and that the question is independent of all else.
        values : list of two, default=("no", "yes")
            The values, and the reports: no first.
        group : column name, optional
            The column of the groups, if a number is a mapping.

        Returns
        -------
        ReportDesign
            With p + (1 - p) * prevalence of yes from who has the property, (1 - p) * prevalence from others.

        References
        ----------
        .. [5] B. G. Greenberg, A.-L. A. Abul-Ela, W. R. Simmons, D. G. Horvitz (1969). The unrelated question
           randomized response model: theoretical framework. Journal of the American Statistical Association 64.
        """
        _channels.check_no_first(values)
        if prevalence is not None:
            channel = _channels.by_group(
                _channels.unrelated, group, p=p, prevalence=prevalence
            )
            return cls(column, channel, values=values, group=group)
        if not isinstance(p, Mapping) or len(set(p.values())) < 2:
            raise ValueError(
                "prevalence must be given, or p as a mapping of groups with two "
                "different numbers, from which it is estimated"
            )
        start = _channels.by_group(_channels.unrelated_start, group, p=p)
        slope = _channels.by_group(_channels.unrelated_slope, group, p=p)
        return cls(
            column, start, values=values, group=group, unknown=("prevalence", slope)
        )

    @classmethod
    def crosswise(
        cls,
        column: ColumnName,
        q: float | Mapping[Any, float],
        *,
        values: Sequence[Any] = ("no", "yes"),
        reports: Sequence[Any] = ("same", "different"),
        group: ColumnName | None = None,
    ) -> ReportDesign:
        """Return the crosswise model ([6]_): who reports says only whether two answers are the same.

        The harmless one is whether one's mother was born in a certain quarter of the year:

        >>> from skdp.survey import ReportDesign
        >>> ReportDesign.crosswise("smokes", 0.25)
        ReportDesign('smokes', 2 values, 1 channels, epsilon=1.099)

        Parameters
        ----------
        column : column name
            The column that holds the reports.
        q : float, or mapping of group to float
            The share of yes to the harmless question, between 0 and 1 and not .5.
        values : list of two, default=("no", "yes")
            The values: no first.
        reports : list of two, default=("same", "different")
            What is reported: that both answers are yes or both are no, first.
        group : column name, optional
            The column of the groups, if q is a mapping.

        Returns
        -------
        ReportDesign
            With the channel [[1 - q, q], [q, 1 - q]].

        References
        ----------
        .. [6] J.-W. Yu, G.-L. Tian, M.-L. Tang (2008). Two new models for survey sampling with sensitive
           characteristic: design and analysis. Metrika 67.
        """
        _channels.check_no_first(values)
        channel = _channels.by_group(_channels.crosswise, group, q=q)
        return cls(column, channel, values=values, reports=reports, group=group)

    @classmethod
    def direct(
        cls, column: ColumnName, *, values: Sequence[Any] = ("no", "yes")
    ) -> ReportDesign:
        """Return the design of a question that is asked directly: the report is the truth.

        >>> from skdp.survey import ReportDesign
        >>> ReportDesign.direct("smokes")
        ReportDesign('smokes', 2 values, 1 channels, epsilon=inf)

        Parameters
        ----------
        column : column name
            The column that holds the answers.
        values : list, default=("no", "yes")
            The values, two or more.

        Returns
        -------
        ReportDesign
            With the identity matrix.
        """
        return cls(column, np.eye(len(values)), values=values)

    def _check_slope(self, slope: Numbers) -> None:
        """Refuse a slope with which the rows of a channel do not add up to 1 at every number."""
        shape = len(self.values), len(self.reports)
        if slope.shape != shape:
            raise ValueError(
                f"the slope of unknown must have the shape {shape} of the channel, got "
                f"{slope.shape}"
            )
        if not np.isfinite(slope).all():
            raise ValueError("the slope of unknown must be finite")
        sums = slope.sum(axis=1)
        is_wrong = np.abs(sums) > _ROUNDING
        if is_wrong.any():
            row = int(is_wrong.argmax())
            raise ValueError(
                "each row of the slope of unknown must add to 0, for those of the "
                "channel to add to 1 whatever the number; that of the value "
                f"{self.values[row]!r} adds to {sums[row]:.6g}"
            )

    def _check_channel(self, matrix: Numbers, table: Numbers) -> None:
        """Refuse what is no channel; with an unknown number, `table` is that at the start."""
        shape = len(self.values), len(self.reports)
        if matrix.shape != shape or table.shape != shape:
            raise ValueError(
                f"channel must have the shape {shape}, a row a true value and a column "
                f"a report, got {matrix.shape}"
            )
        expected = "each row of channel must hold probabilities that add to 1"
        if not np.isfinite(table).all() or (table < 0).any():
            raise ValueError(f"{expected}, got negative or infinite numbers, or nan")
        sums = table.sum(axis=1)
        is_wrong = np.abs(sums - 1) > _ROUNDING
        if not is_wrong.any():
            return
        row = int(is_wrong.argmax())
        text = f"{expected}; that of the value {self.values[row]!r} adds to {sums[row]:.6g}"
        if np.abs(sums - 1).max() < _NEAR:
            text += ". Give fractions, such as 10 / 12, in place of rounded numbers"
        elif np.abs(table.sum(axis=0) - 1).max() < _NEAR:
            text += ". Its columns do: transpose it, as a row is a true value"
        raise ValueError(text)

    def __repr__(self) -> str:
        return (
            f"ReportDesign({self.column!r}, {len(self.values)} values, "
            f"{len(self.channels)} channels, epsilon={self.epsilon:.4g})"
        )

    @property
    def epsilon(self) -> float:
        """The largest log ratio of two probabilities of a report."""
        # Of an unknown number, nothing is known that would bound it.
        if self.unknown is not None:
            return math.inf
        largest = Fraction(1)
        for table in self.channels.values():
            for column in table.T:
                if column.max() == 0:
                    continue
                if column.min() == 0:
                    return math.inf
                ratio = Fraction(float(column.max())) / Fraction(float(column.min()))
                largest = max(largest, ratio)
        return log_upper(largest)

    def likelihood(self, X: pd.DataFrame) -> Numbers:
        """Return the probability of each report given each true value.

        Parameters
        ----------
        X : pandas.DataFrame
            A table with the column of the reports, and that of the groups if there are any.

        Returns
        -------
        ndarray of shape (n_rows, n_values)
            The probabilities.

        Raises
        ------
        ValueError
            If a column is missing, or holds a report or a group that the design does not have, or a report that has the
            probability 0 under every true value.
        """
        likelihood = self._of_rows(self.channels, X)
        n_excluded = int((likelihood == 0).all(axis=1).sum())
        # With an unknown number, they may be possible.
        if n_excluded and self.unknown is None:
            raise ValueError(
                f"column {self.column!r} holds {n_excluded:,} reports that have the "
                "probability 0 under every true value"
            )
        return likelihood

    def slope(self, X: pd.DataFrame) -> Numbers | None:
        """Return how the likelihood changes with the unknown number; None if there is none.

        Parameters
        ----------
        X : pandas.DataFrame
            As for `likelihood`.

        Returns
        -------
        ndarray of shape (n_rows, n_values), or None
            The derivative of `likelihood`.
        """
        return self._of_rows(self.slopes, X) if self.slopes else None

    def debias(self, reports: Any, *, values: Sequence[Any] | None = None) -> Any:
        """Return unbiased values of each record, for survey statistics.

        On average over the randomization, the value of a record is 1 for its true
        answer and 0 for all others, as for the `debias` of encoders.

        Parameters
        ----------
        reports : dataframe
            A table with the column of the reports, and the column of the groups if
            there are any.
        values : list, optional
            The values to debias; by default all.

        Returns
        -------
        same kind as reports
            A column ``<column>_<value>`` of floats for each value.

        Raises
        ------
        TypeError, ValueError
            If a column is missing, or a value or report is not declared, or there are
            no such values: with an unknown number, or if different proportions of the
            values give the same reports.

        Notes
        -----
        The values of a report are its row in the transposed (pseudo)inverse of the
        channel; for two reports, ``(report - q) / (p - q)``. Their means are the
        proportions that `estimate_frequencies` estimates, and equal to its estimates
        with one group and as many reports as values.

        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        if self.unknown is not None:
            raise ValueError(
                f"the design of {self.column!r} has the unknown number {self.unknown!r}:"
                " single reports have no unbiased values"
            )
        chosen = list(self.values if values is None else values)
        undeclared = [value for value in chosen if value not in self.values]
        if undeclared or not chosen:
            raise ValueError(
                f"values must be a list of values of {reprlib.repr(self.values)}, got "
                f"{reprlib.repr(chosen)}"
            )
        inverses: dict[Any, Numbers] = {}
        for key, table in self.channels.items():
            if np.linalg.matrix_rank(table) < len(self.values):
                raise ValueError(
                    f"the design of {self.column!r} does not tell its values apart: the "
                    "rows of a channel are linearly dependent"
                )
            # The rows of the transposed inverse are chosen by the report.
            inverses[key] = np.asarray(np.linalg.pinv(table).T, float)
        of_rows = self._of_rows(inverses, as_pandas(reports, "reports"))
        names = [f"{self.column}_{value}" for value in chosen]
        places = list(map(self.values.index, chosen))
        return read_table(reports).rebuild([of_rows[:, places]], names)

    def estimate_frequencies(
        self,
        X: Any,
        *,
        confidence_level: float = 0.95,
        sample_weight: ColumnLike | None = None,
    ) -> pd.DataFrame:
        """Estimate the proportion of each value in the population, and the unknown number if there is one.

        Parameters
        ----------
        X : dataframe
            A table with the column of the reports, and that of the groups if there are any.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.
        sample_weight : array-like of shape (n_samples,), optional
            The design weight of each row, at least 0: how many people it stands for. Strata and clusters: `debias`.

        Returns
        -------
        pandas.DataFrame
            ``frequency, std_error, lower, upper``, indexed by value; the last row is the unknown number, such as
            "cheaters". Shares add up to 1, and may be negative or above 1, as without a postprocess elsewhere.

        Raises
        ------
        TypeError, ValueError
            If a column is missing or holds what the design does not declare, a weight is negative, there are fewer than
            two rows, or the reports do not identify the shares: different ones give the same reports.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable. Weights are not privatised.

        The expected shares of the reports of each group are fitted to the observed ones by reweighted least squares,
        whose weights are those of maximum likelihood (Fisher scoring). Where there are as many free shares as
        parameters, as for two values and two groups with an unknown number, the fit is the moment estimate.

        Standard errors are at least the errors that the randomization alone gives, also where all reports are equal.

        A ``ModelWarning`` is raised for a proportion, or an unknown number, more than six standard errors outside its
        range, and for groups whose reports do not fit any proportions (chi-squared, at 1e-4). Proportions are then not
        clipped to [0, 1]. A ``ConvergenceWarning`` is raised if the fit does not converge because the reports are far
        from all proportions.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdp.survey import ReportDesign
        >>> design = ReportDesign("smokes", [[0.75, 0.25], [0.25, 0.75]], values=["no", "yes"])
        >>> answers = pd.DataFrame({"smokes": ["no"] * 650 + ["yes"] * 350})
        >>> design.estimate_frequencies(answers).round(3)
                frequency  std_error  lower  upper
        smokes
        no            0.8       0.03  0.740  0.858
        yes           0.2       0.03  0.142  0.260
        """
        table = as_pandas(X)
        if len(table) < 2:
            raise ValueError(f"X must have two rows or more, got {len(table)} rows")
        weights = np.ones(len(table))
        if sample_weight is not None:
            weights = read_sample_weight(sample_weight, X, len(table))
        return estimate_shares(self, table, weights, confidence_level)

    def cells(self, X: pd.DataFrame) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the number of the group and of the report of each row.

        Parameters
        ----------
        X : pandas.DataFrame
            As for `likelihood`.

        Returns
        -------
        (ndarray of int, ndarray of int)
            Groups in the order of the channels, and reports.
        """
        codes = _codes_of(_column(X, self.column), self.reports, "reports", self.column)
        if self.group is None:
            return np.zeros(len(codes), np.intp), codes
        keys = list(self.channels)
        return _codes_of(_column(X, self.group), keys, "groups", self.group), codes

    def _of_rows(self, tables: Mapping[Any, Numbers], X: pd.DataFrame) -> Numbers:
        """Return what a table has for the report of each row: (n_rows, n_values)."""
        groups, codes = self.cells(X)
        stacked = np.stack([tables[key].T for key in self.channels])
        of_rows: Numbers = stacked[groups, codes]
        return of_rows


def _column(X: pd.DataFrame, name: Any) -> pd.Series:
    if name not in X.columns:
        raise ValueError(f"X must have the column {name!r}")
    column: pd.Series = X[name]
    return column


def _codes_of(
    column: pd.Series, values: Sequence[Any], what: str, name: Any
) -> NDArray[np.intp]:
    """Return the place of each entry in the values; any missing entry is that of a missing value, if there is one."""
    codes = pd.Index(values, dtype=object).get_indexer(column.astype(object))
    for code, value in enumerate(values):
        if pd.api.types.is_scalar(value) and pd.isna(value):
            codes[column.isna()] = code
    is_undeclared = codes < 0
    if is_undeclared.any():
        n_missing = int(column.isna()[is_undeclared].sum())
        n_undeclared = int(is_undeclared.sum()) - n_missing
        problems = []
        if n_undeclared:
            problems.append(
                f"{n_undeclared:,} {what} that the design does not declare: it has "
                f"{reprlib.repr(list(values))}"
            )
        if n_missing:
            problems.append(
                f"{n_missing:,} missing {what}: drop these rows, or declare None as one"
            )
        raise ValueError(f"column {name!r} holds {', and '.join(problems)}")
    return np.asarray(codes)


def report_counts(design: ReportDesign, X: pd.DataFrame) -> Numbers:
    """Return how often each report occurs in each group: (n_groups, n_reports)."""
    counts = np.zeros((len(design.channels), len(design.reports)))
    np.add.at(counts, design.cells(X), 1)
    return counts


@dataclass(frozen=True, eq=False)
class Question:
    """A hidden attribute: what its reports say of each true value in each row, and the features of a value."""

    name: str
    values: list[Any]
    # (n_rows, n_values), up to a factor of each row.
    likelihood: Numbers
    # The columns of the reports, which are no features themselves.
    columns: list[Any]
    # Of the likelihood, with an unknown number.
    slope: Numbers | None = None
    unknown: str | None = None
    start: float = 0.5
    # The columns that are reported together, with their values; by default one.
    columns_together: Sequence[tuple[str, list[Any]]] = ()

    @property
    def parts(self) -> Sequence[tuple[str, list[Any]]]:
        return self.columns_together or [(self.name, self.values)]


def as_pandas(frame: Any, name: str = "X") -> pd.DataFrame:
    """Return a dataframe of any library as one of pandas, with rows numbered; `name` is that of its parameter."""
    if not is_frame(frame):
        raise TypeError(
            f"{name} must be a dataframe with the columns of the reports, got "
            f"{type(frame).__name__}: make one, such as by .to_frame() of a series"
        )
    if isinstance(frame, pd.DataFrame):
        return frame.reset_index(drop=True)
    table = read_table(frame)
    columns = {}
    for name, column in zip(table.names, table.columns, strict=True):
        columns[name] = np.asarray(column)
    return pd.DataFrame(columns)


def read_questions(
    designs: Any, X: pd.DataFrame, reports: Any, name: str = "X"
) -> list[Question]:
    """Read the reports of all designs and encoders; `reports` is the table as it came, `name` that of its parameter."""
    if designs is None:
        return []
    if not isinstance(designs, list | tuple):
        designs = [designs]
    _check_once(designs)
    questions = []
    for design in designs:
        if isinstance(design, ReportDesign):
            columns = [design.column]
            if design.group is not None:
                columns.append(design.group)
            _check_columns(columns, X.columns, name)
            questions.append(
                Question(
                    str(design.column),
                    design.values,
                    design.likelihood(X),
                    columns,
                    design.slope(X),
                    design.unknown,
                    design.start,
                )
            )
        elif isinstance(design, ReportTransformer):
            questions += _questions_of_encoder(design, reports, name)
        else:
            parameter = "target_design" if name == "y" else "predictor_designs"
            got = type(design).__name__
            if isinstance(design, type):
                got = f"the class {design.__name__}: make an instance of it"
            raise TypeError(
                f"{parameter} must be fitted local transformers of categories, or "
                f"ReportDesign, got {got}"
            )
    return questions


def _check_once(designs: Sequence[Any]) -> None:
    """Refuse a column of reports that two designs read: its noise is drawn once."""
    seen: set[Any] = set()
    for design in designs:
        names: list[Any] = []
        if isinstance(design, ReportDesign):
            names = [design.column]
        elif isinstance(design, ReportTransformer) and hasattr(design, "protocol_"):
            names = list(design.protocol_.report_columns)
        twice = [name for name in names if name in seen]
        if twice:
            raise ValueError(
                f"designs must read each column of reports once, got {twice[0]!r} "
                "twice: its reports would count as two independent ones"
            )
        seen.update(names)


def _check_columns(columns: Sequence[Any], present: Any, name: str) -> None:
    """Refuse a table without some of the columns of reports or groups."""
    absent = [column for column in columns if column not in present]
    if absent:
        expected = " and ".join(map(repr, columns))
        raise ValueError(
            f"{name} must be a dataframe with {expected}, got no "
            f"{' and no '.join(map(repr, absent))}"
        )


def _questions_of_encoder(encoder: Any, reports: Any, name: str) -> list[Question]:
    """Read the reports of an encoder of categories."""
    check_is_fitted(encoder)
    protocol = encoder.protocol_
    if not all(isinstance(field, CategoryField) for field in protocol.fields):
        raise TypeError(
            f"{type(encoder).__name__} does not report categories, one for each record, "
            "as a design must: declare numbers as an Interval, which has bins"
        )
    names = list(protocol.report_columns)
    _check_columns(names, read_table(reports).names, name)
    # Selected in its own library, as its notes say whose reports they are.
    selected = nw.from_native(reports, eager_only=True).select(names).to_native()
    arrays, _ = read_and_tally(selected, encoder)
    is_reported = protocol.rows(arrays)
    questions = []
    for place, field in enumerate(protocol.fields):
        oracle = field.oracle
        # The factor of each row cancels: a report is this many times likelier under the
        # values that it supports. A record that does not report says nothing.
        excess = float(oracle.support_ratio - 1)
        supports = oracle.supports(arrays[place]) & is_reported[:, place, np.newaxis]
        likelihood = np.asarray(1 + excess * supports, float)
        values = list(field.domain.cells())
        parts = []
        for column in field.columns:
            parts.append((str(column), list(field.domain[column].labels)))
        question = Question(
            field.prefix(list(field.columns)),
            values,
            likelihood,
            names,
            columns_together=parts if len(parts) > 1 else (),
        )
        questions.append(question)
    return questions
