"""Randomized response designs of questionnaires, and estimates from their reports."""

from __future__ import annotations

import math
import numbers
import reprlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from skdp._arrays import ColumnLike, ColumnName, Floats, Indices, Mask, TableLike
from skdp.base import check_confidence_level
from skdp.exact import log_upper
from skdp.local import check_sample_weight
from skdp.privacy import PrivacyGuarantee
from skdp.survey._proportions import (
    check_identified,
    encode_sample,
    estimate_variances,
    estimate_weighted_proportions,
    invert_channel,
)
from skdp.tables import convert_frame, is_frame, is_missing, wrap_table

# Labels of the values: a list, or a mapping of meaning to label.
Labels = Sequence[Any] | Mapping[Any, Any]


# Mechanism of answers that were randomized outside of skdp.
ANSWERS = "randomized answers"

# Label of the non-compliant respondents in `ReportDesign.with_cheaters`.
CHEATERS = "cheaters"


class ReportDesign:
    """Randomized response design of a question.

    The design contains the probability of each report given the true value, for answers
    that were randomized without skdp, such as with coins, cards or dice. `warner`,
    `forced`, `unrelated`, `crosswise` and `direct` return common designs [1]_.

    Parameters
    ----------
    column : column name
        Column of the reports.
    channel : array-like of shape (n_values, n_reports), or mapping
        Probability of each report (column) given each true value (row). Each row sums
        to 1. With `group`, a mapping of each group to its channel.
    values : list, or mapping of meaning to label
        Labels of the true values, in the order of the rows. A mapping, such as
        ``{"no": 2, "yes": 1}``, declares the meaning of the labels.
    reports : list, default=None
        Labels of the reports, in the order of the columns. None uses `values`.
    group : column name, default=None
        Column with the group of each respondent. Groups have different channels, and
        must be random subsamples.
    observed : bool, default=False
        True if the values were read from the data, so that no guarantee covers the column.

    Attributes
    ----------
    channels : dict
        Channel of each group. The only key is None if `group` is None.
    epsilon : float
        Privacy loss of a compliant answer: the largest log ratio of the probabilities of
        a report under two values. Infinite if a report is impossible under a value.
    guarantee_ : PrivacyGuarantee
        Guarantee of an answer that was randomized as described, for
        `PrivacyLedger.charge`. Not available if epsilon is infinite.

    Raises
    ------
    TypeError, ValueError
        If the channel has another shape, is not a matrix of probabilities, or has
        linearly dependent rows; if labels repeat; or if only one of `group` and a mapping
        of channels is given.

    See Also
    --------
    skdp.PerHalf : Randomizes answers with two epsilons, to estimate non-compliance.
    skdp.ReportLogisticRegression : Estimates the association with other variables.

    Notes
    -----
    **Privacy.** The guarantee of a design follows from its probabilities. skdp cannot
    verify that the answers were randomized as described, and a statement says so. It
    does not cover whether a person answers, or complies. Each further answer of a person
    costs the same again: charge each wave.

    References
    ----------
    .. [1] G. Blair, K. Imai, Y.-Y. Zhou (2015). Design and analysis of the randomized
       response technique. Journal of the American Statistical Association 110.

    Examples
    --------
    Respondents throw two dice. They answer "yes" if the sum is 2, 3 or 4, "no" if it is
    11 or 12, and otherwise truthfully:

    >>> import pandas as pd
    >>> from skdp import ReportDesign
    >>> design = ReportDesign.forced("smokes", yes=6 / 36, no=3 / 36)
    >>> design
    ReportDesign('smokes', values=['no', 'yes'], n_channels=1, epsilon=2.303)
    >>> answers = pd.DataFrame({"smokes": ["no"] * 650 + ["yes"] * 350})
    >>> design.estimate_frequencies(answers).round(3)
            frequency  std_error  lower  upper
    smokes
    no          0.756       0.02  0.715  0.794
    yes         0.244       0.02  0.206  0.285
    """

    def __init__(
        self,
        column: ColumnName,
        channel: Any,
        *,
        values: Labels,
        reports: Iterable[Any] | None = None,
        group: ColumnName | None = None,
        observed: bool = False,
    ) -> None:
        # `channel` has a row for each true value and a column for each report, or is a
        # mapping from group to such a matrix. `values` are the labels of the true
        # values, and `reports` the labels of the reports, by default the same.
        self.column = column
        # A dict of meaning to label. A label in a list is its own meaning.
        is_named = isinstance(values, Mapping)
        self._labels = dict(values if is_named else zip(values, values, strict=True))
        self.values = list(self._labels.values())
        self.reports = self.values if reports is None else list(reports)
        self.group = group
        self.observed = observed
        for name, labels in (("values", self.values), ("reports", self.reports)):
            if len(labels) < 2 or len(set(labels)) < len(labels):
                raise ValueError(
                    f"`{name}` must have at least two different labels, got "
                    f"{len(labels):,} labels, {len(set(labels)):,} of them different."
                )
        if isinstance(channel, Mapping) != (group is not None):
            raise TypeError(
                "`group` must be a column name if `channel` is a mapping, and None "
                f"otherwise, got {group!r}."
            )
        channels = {None: channel} if group is None else channel
        self.channels: dict[Any, Floats] = {
            key: self._check_channel(matrix) for key, matrix in channels.items()
        }
        check_identified(np.hstack(list(self.channels.values())), column)

    def _check_channel(self, channel: object) -> Floats:
        """Check the matrix of probabilities of each report given each true value, and return it as an array."""
        matrix = np.asarray(channel, float)
        shape = len(self.values), len(self.reports)
        if matrix.shape != shape:
            raise ValueError(
                f"`channel` must have the shape {shape}: a row for each true value and "
                f"a column for each report. Got {matrix.shape}."
            )
        sums = matrix.sum(axis=1)
        # The first comparison is False for NaN. Rounding changes a sum by less than 1e-9.
        if not (matrix >= 0).all() or np.abs(sums - 1).max() > 1e-9:
            raise ValueError(
                "`channel` must have rows of nonnegative numbers that sum to 1, got the sums "
                f"{np.round(sums, 6).tolist()}. Use fractions such as 10 / 12, and a row for "
                "each true value."
            )
        return matrix

    @classmethod
    def by_group(
        cls, designs: Mapping[Any, ReportDesign], group: ColumnName
    ) -> ReportDesign:
        """Combine the designs of several groups of respondents.

        Parameters
        ----------
        designs : mapping of group to ReportDesign
            Designs of one column with the same values and reports.
        group : column name
            Column of the groups.

        Returns
        -------
        ReportDesign
            Design with a channel for each group.

        Examples
        --------
        >>> from skdp import ReportDesign
        >>> cards = {"a": ReportDesign.warner("smokes", 0.9), "b": ReportDesign.direct("smokes")}
        >>> ReportDesign.by_group(cards, "card")
        ReportDesign('smokes', values=['no', 'yes'], n_channels=2, epsilon=inf)
        """
        if not isinstance(designs, Mapping) or not designs:
            raise TypeError(
                "`designs` must be a mapping of at least one group to a ReportDesign, got "
                f"{type(designs).__name__}."
            )
        # The groups are one column of a table, with the same labels.
        first, *_ = designs.values()
        channels = {}
        for key, design in designs.items():
            layout = design.column, design.values, design.reports, design.group
            if layout != (first.column, first.values, first.reports, None):
                raise ValueError(
                    "`designs` must have the same column, values and reports, and no "
                    f"groups, got {design} and {first}."
                )
            channels[key] = design.channels[None]
        return cls(
            first.column,
            channels,
            values=first._labels,
            reports=first.reports,
            group=group,
            observed=any(design.observed for design in designs.values()),
        )

    @classmethod
    def warner(
        cls, column: ColumnName, p: float, *, values: Labels = ("no", "yes")
    ) -> ReportDesign:
        """Make Warner's design, in which a card selects a statement or its negation.

        Parameters
        ----------
        column : column name
            Column of the reports.
        p : float
            Probability of the statement, in [0, 1] except 0.5.
        values : list of two, or mapping, default=("no", "yes")
            Labels of the values and reports, see `forced`.

        Returns
        -------
        ReportDesign
            Design with the channel ``[[p, 1 - p], [1 - p, p]]`` [1]_.

        References
        ----------
        .. [1] S. L. Warner (1965). Randomized response: a survey technique for
           eliminating evasive answer bias. Journal of the American Statistical
           Association 60.
        """
        _check_probability("p", p)
        channel = [[p, 1 - p], [1 - p, p]]
        return cls(column, channel, values=_assign_labels("values", values))

    @classmethod
    def forced(
        cls,
        column: ColumnName,
        *,
        yes: float,
        no: float,
        values: Labels = ("no", "yes"),
    ) -> ReportDesign:
        """Make a forced-response design, in which dice select "yes", "no" or the true answer.

        Parameters
        ----------
        column : column name
            Column of the reports.
        yes : float
            Probability of the instruction to answer "yes".
        no : float
            Probability of the instruction to answer "no"; ``yes + no`` must be less than
            1. With ``no=0``, an answer "no" reveals the true value, and epsilon is
            infinite.
        values : list of two, or mapping, default=("no", "yes")
            Labels of the values and reports. A list must have the labels "no" and "yes",
            0 and 1, or False and True, in any order. For other labels, pass a mapping of
            meaning to label, such as ``{"no": 2, "yes": 1}``.

        Returns
        -------
        ReportDesign
            Design with the channel ``[[1 - yes, yes], [no, 1 - no]]`` [1]_.

        References
        ----------
        .. [1] R. F. Boruch (1971). Assuring confidentiality of responses in social
           research: a note on strategies. The American Sociologist 6.

        Examples
        --------
        >>> from skdp import ReportDesign
        >>> ReportDesign.forced("drug", yes=6 / 36, no=3 / 36, values={"yes": 1, "no": 2})
        ReportDesign('drug', values={'no': 2, 'yes': 1}, n_channels=1, epsilon=2.303)
        """
        _check_probability("yes", yes)
        _check_probability("no", no)
        if yes + no >= 1:
            raise ValueError(f"`yes` + `no` must be less than 1, got {yes + no:g}.")
        channel = [[1 - yes, yes], [no, 1 - no]]
        return cls(column, channel, values=_assign_labels("values", values))

    @classmethod
    def unrelated(
        cls,
        column: ColumnName,
        p: float,
        *,
        prevalence: float,
        values: Labels = ("no", "yes"),
    ) -> ReportDesign:
        """Make an unrelated-question design, in which some respondents answer a harmless question.

        Parameters
        ----------
        column : column name
            Column of the reports.
        p : float
            Probability of the sensitive question, greater than 0.
        prevalence : float
            Known proportion of "yes" to the harmless question, such as 0.25 for a
            birthday in one of three months.
        values : list of two, or mapping, default=("no", "yes")
            Labels of the values and reports, see `forced`.

        Returns
        -------
        ReportDesign
            Design with the probability ``p + (1 - p) * prevalence`` of "yes" given
            "yes", and ``(1 - p) * prevalence`` given "no" [1]_.

        References
        ----------
        .. [1] B. G. Greenberg, A.-L. A. Abul-Ela, W. R. Simmons, D. G. Horvitz (1969).
           The unrelated question randomized response model: theoretical framework.
           Journal of the American Statistical Association 64.
        """
        _check_probability("p", p)
        _check_probability("prevalence", prevalence)
        # The answer to the harmless question is a forced response.
        yes, no = (1 - p) * prevalence, (1 - p) * (1 - prevalence)
        return cls.forced(column, yes=yes, no=no, values=values)

    @classmethod
    def crosswise(
        cls,
        column: ColumnName,
        q: float,
        *,
        values: Labels = ("no", "yes"),
        reports: Labels = ("same", "different"),
    ) -> ReportDesign:
        """Make a crosswise design, in which respondents report if two answers are equal.

        Parameters
        ----------
        column : column name
            Column of the reports.
        q : float
            Known proportion of "yes" to the harmless question, in [0, 1] except 0.5.
        values : list of two, or mapping, default=("no", "yes")
            Labels of the values, see `forced`.
        reports : list of two, or mapping, default=("same", "different")
            Labels of the reports. For labels other than "same" and "different", pass a
            mapping of meaning to label, such as ``{"same": 1, "different": 2}``.

        Returns
        -------
        ReportDesign
            Design with the channel ``[[1 - q, q], [q, 1 - q]]`` [1]_.

        References
        ----------
        .. [1] J.-W. Yu, G.-L. Tian, M.-L. Tang (2008). Two new models for survey
           sampling with sensitive characteristic: design and analysis. Metrika 67.
        """
        _check_probability("q", q)
        channel = [[1 - q, q], [q, 1 - q]]
        labels = _assign_labels("values", values)
        answers = _assign_labels("reports", reports, ("same", "different")).values()
        return cls(column, channel, values=labels, reports=answers)

    @classmethod
    def direct(
        cls, column: ColumnName, *, values: Labels = ("no", "yes")
    ) -> ReportDesign:
        """Make the design of a direct question, in which the report is the true value.

        Parameters
        ----------
        column : column name
            Column of the answers.
        values : list, or mapping of meaning to label, default=("no", "yes")
            Labels of the values.

        Returns
        -------
        ReportDesign
            Design whose channel is the identity matrix.
        """
        return cls(column, np.eye(len(values)), values=values)

    def with_cheaters(self, report: object) -> ReportDesign:
        """Add non-compliant respondents, who always give the same report.

        Parameters
        ----------
        report : value
            Report of the non-compliant respondents, such as "no".

        Returns
        -------
        ReportDesign
            Design with the additional value "cheaters". The proportions of all values,
            including "cheaters", sum to 1, because the true values of non-compliant
            respondents are unknown.

        Raises
        ------
        ValueError
            If `report` is not one of the reports, or the design has one group. Groups
            with different channels are necessary to identify the proportion of
            non-compliance [1]_.

        References
        ----------
        .. [1] S. J. Clark, R. A. Desharnais (1998). Honest answers to embarrassing
           questions: detecting cheating in the randomized response model.
           Psychological Methods 3.
        """
        if report not in self.reports:
            raise ValueError(f"`report` must be one of {self.reports}, got {report!r}.")
        if len(self.channels) < 2:
            raise ValueError(
                "`with_cheaters` requires a design with at least two groups, got 1. Use "
                "ReportDesign.by_group."
            )
        # Non-compliance is a further value, with a deterministic report.
        always = [float(label == report) for label in self.reports]
        return ReportDesign(
            self.column,
            {key: [*channel, always] for key, channel in self.channels.items()},
            values={**self._labels, CHEATERS: CHEATERS},
            reports=self.reports,
            group=self.group,
            observed=self.observed,
        )

    def __repr__(self) -> str:
        # The labels alone, or a dict of meaning to label if a label is not its own meaning.
        has_meanings = list(self._labels) != self.values
        labels = reprlib.repr(self._labels if has_meanings else self.values)
        return (
            f"ReportDesign({self.column!r}, values={labels}, "
            f"n_channels={len(self.channels)}, epsilon={self.epsilon:.4g})"
        )

    @property
    def epsilon(self) -> float:
        """Largest log ratio of the probabilities of a report under two values of compliant respondents, rounded up."""
        # Fractions are exact, so epsilon is never smaller than the privacy loss.
        largest = Fraction(1)
        is_compliant = [meaning != CHEATERS for meaning in self._labels]
        for channel in self.channels.values():
            # Reports with probability 0 under all values do not occur.
            possible = channel[is_compliant][:, channel.max(axis=0) > 0]
            if possible.min() == 0:
                return math.inf
            for probabilities in possible.T.tolist():
                ratio = Fraction(max(probabilities)) / Fraction(min(probabilities))
                largest = max(largest, ratio)
        return log_upper(largest)

    @property
    def guarantee_(self) -> PrivacyGuarantee:
        """Guarantee of an answer that was randomized as the design describes."""
        if math.isinf(self.epsilon):
            raise ValueError(
                f"A guarantee requires a finite epsilon, but the design of column "
                f"{self.column!r} has a report that is impossible under a value."
            )
        scope = (self.column,)
        return PrivacyGuarantee(
            self.epsilon,
            scope=scope,
            observed=scope if self.observed else (),
            mechanism=ANSWERS,
        )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that create the design.

        Returns
        -------
        dict
            Arguments by name, for `skdp.save`.
        """
        return {
            "column": self.column,
            "channel": self.channels[None] if self.group is None else self.channels,
            "values": self._labels,
            "reports": self.reports,
            "group": self.group,
            "observed": self.observed,
        }

    def debias(self, reports: TableLike) -> Any:
        """Compute unbiased values of each record.

        The expectation of a value, over the randomization, is 1 if the record has this
        true answer and 0 otherwise. Use the values for weighted, clustered or stratified
        estimates.

        Parameters
        ----------
        reports : dataframe
            Table with the column of the reports and, if the design has groups, the
            column of the groups.

        Returns
        -------
        dataframe of the same library
            A column ``<column>_<value>`` of floats for each value, NaN for a missing
            report.

        Raises
        ------
        TypeError, ValueError
            If a column is missing, a report is not in the design, or the rows of a
            channel are linearly dependent, as with `with_cheaters`.

        Notes
        -----
        The values of a report are its row in the inverse of the channel, or in a
        generalized inverse if there are more possible reports than values. For two values, this is
        ``(report - q) / (p - q)``. Their means are equal to the proportions of
        `estimate_frequencies` if there is one group and if there are as many possible
        reports as values.

        A person without an answer has no unbiased values. In `survey_mean`, set the
        weight of this person to 0, which assumes that the other people of the cluster or
        stratum have the same distribution.

        **Privacy.** Post-processing of reports uses no budget.
        """
        table = to_pandas(reports, report_columns(self), "reports")
        is_absent = np.zeros(len(table), bool)
        if not any(map(is_missing, self.reports)):
            is_absent = table[self.column].isna().to_numpy(bool)
        unbiased = unbiased_rows(self, table, is_used=~is_absent)
        if unbiased is None:
            raise ValueError(
                f"`debias` requires a channel with linearly independent rows, but the design "
                f"of column {self.column!r} has linearly dependent rows. Use "
                "estimate_frequencies."
            )
        unbiased[is_absent] = np.nan
        names = [f"{self.column}_{value}" for value in self.values]
        return wrap_table(reports).rebuild([unbiased], names)

    def estimate_frequencies(
        self,
        X: TableLike,
        *,
        confidence_level: float = 0.95,
        sample_weight: ColumnLike | None = None,
        strata: ColumnLike | None = None,
        clusters: ColumnLike | None = None,
    ) -> pd.DataFrame:
        """Estimate the proportion of each true value in the population.

        Parameters
        ----------
        X : dataframe
            Table with the column of the reports and, if the design has groups, the
            column of the groups.
        confidence_level : float, default=0.95
            Coverage probability of each interval.
        sample_weight : array-like of shape (n_samples,), default=None
            Survey weight of each row, the number of people that it represents. A row of
            weight 0 is not read, and its report may be missing: set the weights of people
            without an answer to 0.
        strata, clusters : array-like of shape (n_samples,), default=None
            Stratum of each row, and its cluster within the stratum, see `survey_mean`.

        Returns
        -------
        pandas.DataFrame
            Columns 'frequency', 'std_error', 'lower' and 'upper', indexed by value.
            Frequencies sum to 1, and may be negative or greater than 1.

        Raises
        ------
        TypeError, ValueError
            If a column is missing, a report is not in the design, a weight is negative,
            there are fewer than two rows, a stratum has a single cluster, or the reports
            do not identify the proportions.

        Warns
        -----
        UserWarning
            If a proportion is more than six standard errors outside [0, 1], or the
            groups have different proportions (chi-squared test at 1e-4).

        Notes
        -----
        The frequencies are means of unbiased values, see `debias`. With several groups,
        or more possible reports than values, they are the estimates of generalized least squares,
        which are asymptotically as efficient as maximum likelihood.

        Standard errors include the errors of sampling and of randomization. They are at
        least the standard errors for the nearest proportions in [0, 1], so they are
        positive even if all reports are equal. With strata or clusters, they are
        linearized as in `survey_mean`.

        **Privacy.** Post-processing of reports uses no budget. Weights, strata and
        clusters are not protected.
        """
        check_confidence_level(confidence_level)
        table = to_pandas(X, report_columns(self))
        n_rows = len(table)
        weights = np.ones(n_rows)
        if sample_weight is not None:
            weights = check_sample_weight(sample_weight, X, n_rows)
        n_used = int(np.count_nonzero(weights))
        if n_used < 2:
            raise ValueError(
                f"X must have at least two rows with a positive weight, got {n_used}."
            )
        groups, reports = encode_reports(self, table, is_used=weights > 0)
        # Sums of the weights of each report in each group, and of their squares.
        counts = np.zeros((2, len(self.channels), len(self.reports)))
        np.add.at(counts[0], (groups, reports), weights)
        np.add.at(counts[1], (groups, reports), weights**2)
        # pandas would convert tuples to several levels.
        labels = pd.Index(self.values, name=self.column, tupleize_cols=False)
        channels = np.stack(list(self.channels.values()))
        if strata is None and clusters is None:
            return estimate_weighted_proportions(
                channels, counts, labels, confidence_level, n_rows=n_used
            )
        sample = encode_sample(strata, clusters, X, n_rows)

        def find_variances(values: Floats, means: Floats) -> tuple[Floats, float]:
            """Return the variance of each mean, and degrees of freedom; `values`: (n_values, n_groups, n_reports)."""
            fractions = weights[:, np.newaxis] / weights.sum()
            scores = fractions * (values[:, groups, reports].T - means)
            return estimate_variances(scores, *sample, weights > 0)

        return estimate_weighted_proportions(
            channels,
            counts,
            labels,
            confidence_level,
            n_rows=n_used,
            find_variances=find_variances,
        )


def unbiased_rows(
    design: ReportDesign, table: pd.DataFrame, is_used: Mask | None = None
) -> Floats | None:
    """Compute the unbiased values of the report of each row; shape (n_rows, n_values).

    An unbiased value has the expectation 1 for the true value of the row, and 0 for all
    other values. The result is None if the rows of a channel are linearly dependent,
    because there are no such numbers.
    """
    values = {}
    # Any weights give unbiased values. Equal weights do not depend on other reports.
    uniform = np.ones(len(design.reports))
    for key, channel in design.channels.items():
        if np.linalg.matrix_rank(channel) < len(design.values):
            return None
        values[key] = invert_channel(channel, uniform)
    return select_rows(design, values, table, is_used)


def select_rows(
    design: ReportDesign,
    matrices: Mapping[Any, Floats],
    table: pd.DataFrame,
    is_used: Mask | None = None,
) -> Floats:
    """Select the column of each row's report in the matrix of its group; shape (n_rows, n_values).

    `matrices` has an array of shape (n_values, n_reports) for each group.
    """
    groups, reports = encode_reports(design, table, is_used)
    # (n_groups, n_reports, n_values)
    stacked = np.stack([matrices[key].T for key in design.channels])
    return np.asarray(stacked[groups, reports], float)


def encode_reports(
    design: ReportDesign, table: pd.DataFrame, is_used: Mask | None = None
) -> tuple[Indices, Indices]:
    """Return the index of the group and of the report of each row, as two arrays of shape (n_rows,).

    Without groups, the index of the group is 0. Only rows in the mask `is_used`, by default
    all, are read; both indices of other rows are 0.
    """
    is_used = np.ones(len(table), bool) if is_used is None else is_used
    used = table[is_used]
    groups, reports = np.zeros((2, len(table)), np.intp)
    reports[is_used] = _find_labels(used[design.column], design.reports)
    if design.group is not None:
        groups[is_used] = _find_labels(used[design.group], list(design.channels))
    channels = np.stack(list(design.channels.values()))
    is_impossible = channels.max(axis=1)[groups, reports] == 0
    n_impossible = int(is_impossible[is_used].sum())
    if n_impossible:
        raise ValueError(
            f"Column {design.column!r} must have reports that are possible in the design, "
            f"got reports with probability 0 for all values (rows: {n_impossible:,}). "
            "Check the design and the groups."
        )
    return groups, reports


def report_columns(design: ReportDesign) -> list[Any]:
    """Return the columns that a table of reports must have."""
    return [design.column] if design.group is None else [design.column, design.group]


def require_columns(
    columns: Sequence[Any], present: Collection[ColumnName], parameter: str
) -> None:
    """Raise an error if a table does not have all columns of a design."""
    absent = [column for column in columns if column not in present]
    if absent:
        raise ValueError(
            f"{parameter} must contain the columns {list(columns)} of the design; "
            f"{absent} are missing."
        )


def to_pandas(
    frame: object, columns: Sequence[Any] = (), parameter: str = "X"
) -> pd.DataFrame:
    """Convert a dataframe of any library to pandas, and check that it has the columns.

    `parameter` is the name of the dataframe in errors.
    """
    if not is_frame(frame):
        name = columns[0] if columns else "x"
        raise TypeError(
            f"{parameter} must be a dataframe, got {type(frame).__name__}. Pass an array "
            f"or series as pd.DataFrame({{{name!r}: ...}})."
        )
    require_columns(columns, wrap_table(frame).names, parameter)
    # Results are matched by position, and not by the labels of the index.
    converted: pd.DataFrame = convert_frame(frame, "pandas")
    return converted.reset_index(drop=True)


def _find_labels(column: pd.Series, labels: Sequence[Any]) -> Indices:
    """Return the index of each entry of a column in the labels; error messages contain no values."""
    codes = pd.Index(labels, dtype=object).get_indexer(column.astype(object))
    # A missing label stands for all missing entries, which are None, NaN or NA.
    for code, label in enumerate(labels):
        if is_missing(label):
            codes[column.isna()] = code
    # Codes of -1 are entries without a label.
    if n_unknown := int((codes < 0).sum()):
        n_missing = int(column[codes < 0].isna().sum())
        raise ValueError(
            f"Column {column.name!r} must have the labels {reprlib.repr(list(labels))}, "
            f"got other entries (rows: {n_unknown:,}, missing: {n_missing:,}, dtype: "
            f"{column.dtype}). Pass the labels of this column to the design, such as "
            "values={'no': 2, 'yes': 1} (or `reports`, if they differ from the values). "
            "Drop rows without a report, or with strata or clusters, set their "
            "`sample_weight` to 0."
        )
    return codes


def _check_probability(name: str, probability: float) -> None:
    """Raise an error if a parameter is not a number in [0, 1]."""
    if not isinstance(probability, numbers.Real) or not 0 <= probability <= 1:
        raise ValueError(f"`{name}` must be a float in [0, 1], got {probability!r}.")


def _assign_labels(
    name: str, labels: Labels, meanings: Sequence[str] = ("no", "yes")
) -> dict[str, Any]:
    """Return a dict of meaning, such as "no" or "yes", to label, in the order of the meanings.

    `name` is the parameter in errors, and `labels` a list of known labels or such a
    dict.
    """
    # The order of a list has no meaning, because an exchange of "yes" and "no" would give
    # wrong estimates without an error. So its labels must have a known meaning.
    if isinstance(labels, Mapping):
        named = labels
    else:
        # False and 0.0 are equal to 0.
        known = {0: "no", 1: "yes", "No": "no", "Yes": "yes"}
        named = {known.get(label, label): label for label in labels}
    if set(named) != set(meanings):
        example = dict(zip(meanings, (2, 1), strict=True))
        raise ValueError(
            f"`{name}` must be a mapping of meaning to label, such as {example}; got "
            f"{reprlib.repr(labels)}."
        )
    return {meaning: named[meaning] for meaning in meanings}
