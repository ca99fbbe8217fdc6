"""How reports come about from true values: what a regression or an estimate must know of each reported column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import ColumnName, SavedByArguments
from skdp.local import NumberField, ReportTransformer, read_carried
from skdp.local.protocol import CategoryField
from skdp.oracles.numeric import bin_positions
from skdp.survey._likelihood import Numbers
from skdp.tables import read_table

_N_BINS = 24
"""Of a reported number: sums over them are integrals over its value up to 1e-9, if its
standard deviation is a twentieth of its bounds or more (a normal density, summed at
equal distances)."""

_ROUNDING = 1e-9
"""Of sums of floats that stand for probabilities."""


class ReportDesign(SavedByArguments):
    """The probability of each report of a question, given the true answer, by group of persons.

    For reports that no encoder of skdp made: forced responses, unrelated questions, cards, coins, or people who were
    asked directly.

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
        two random halves. Cheaters are no carriers of the value `report`: the shares of the other values are those of
        honest people among all.

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

    def _check_channel(self, matrix: Numbers, table: Numbers) -> None:
        """Refuse what is no channel; with an unknown number, `table` is that at the start."""
        shape = len(self.values), len(self.reports)
        if matrix.shape != shape or table.shape != shape:
            raise ValueError(
                f"channel must have the shape {shape}, a row a true value and a column "
                f"a report, got {matrix.shape}"
            )
        is_valid = np.isfinite(table).all() and (table >= 0).all()
        if not is_valid or np.abs(table.sum(axis=1) - 1).max() > _ROUNDING:
            raise ValueError(
                "each row of channel must hold probabilities that add to 1"
            )

    def __repr__(self) -> str:
        return (
            f"ReportDesign({self.column!r}, {len(self.values)} values, "
            f"{len(self.channels)} channels, epsilon={self.epsilon:.4g})"
        )

    @property
    def epsilon(self) -> float:  # numpydoc ignore=RT01
        """The largest log ratio of two probabilities of a report."""
        # Of an unknown number, nothing is known that would bound it.
        if self.unknown is not None:
            return math.inf
        largest = 1.0
        for table in self.channels.values():
            for column in table.T:
                if column.max() == 0:
                    continue
                least = column.min()
                largest = max(largest, column.max() / least if least else math.inf)
        return math.log(largest)

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
            If a column is missing, or holds a report or a group that the design does not have.
        """
        return self._of_rows(self.channels, X)

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

    def _of_rows(self, tables: Mapping[Any, Numbers], X: pd.DataFrame) -> Numbers:
        """Return what a table has for the report of each row: (n_rows, n_values)."""
        codes = _codes_of(_column(X, self.column), self.reports, "reports", self.column)
        if self.group is None:
            (table,) = tables.values()
            of_reports: Numbers = table.T[codes]
            return of_reports
        keys = list(tables)
        groups = _codes_of(_column(X, self.group), keys, "groups", self.group)
        stacked = np.stack([tables[key].T for key in keys])
        by_group: Numbers = stacked[groups, codes]
        return by_group


def _column(X: pd.DataFrame, name: Any) -> pd.Series:
    if name not in X.columns:
        raise ValueError(f"X must have the column {name!r}")
    column: pd.Series = X[name]
    return column


def _codes_of(
    column: pd.Series, values: Sequence[Any], what: str, name: Any
) -> NDArray[np.intp]:
    codes = pd.Index(values, dtype=object).get_indexer(column.astype(object))
    if (codes < 0).any():
        raise ValueError(
            f"column {name!r} holds {what} that the design does not declare"
        )
    return np.asarray(codes)


def report_counts(design: ReportDesign, X: pd.DataFrame) -> Numbers:
    """Return how often each report occurs in each group: (n_groups, n_reports)."""
    codes = _codes_of(
        _column(X, design.column), design.reports, "reports", design.column
    )
    groups = _codes_of(
        _column(X, design.group), list(design.channels), "groups", design.group
    )
    counts = np.zeros((len(design.channels), len(design.reports)))
    np.add.at(counts, (groups, codes), 1)
    return counts


def channel_of_values(encoder: Any) -> tuple[Numbers, list[Any]]:
    """Return the channel of a reported target, and what may be reported."""
    if isinstance(encoder, ReportDesign):
        if encoder.group is None and encoder.unknown is None:
            return encoder.channels[None], encoder.reports
    elif isinstance(encoder, ReportTransformer):
        (field,) = encoder.protocol_.fields
        if isinstance(field, CategoryField) and field.reports_values:
            (oracle,) = encoder.protocol_.oracles
            return np.array(oracle.channel(), float), list(field.domain.cells())
    raise ValueError(
        "of='report' needs a target_encoder with one known channel, whose reports are "
        "values, such as RandomizedResponseEncoder, or a ReportDesign without group and "
        "unknown"
    )


@dataclass(frozen=True, eq=False)
class Question:
    """A hidden attribute: what its reports say of each true value in each row, and the features of a value."""

    name: str
    values: list[Any]
    likelihood: Numbers
    """(n_rows, n_values), up to a factor of each row."""
    columns: list[Any]
    """The columns of the reports, which are no features themselves."""
    slope: Numbers | None = None
    """Of the likelihood, with an unknown number."""
    unknown: str | None = None
    start: float = 0.5
    is_number: bool = False
    """Whether it is a number in bins, whose means are `values`."""


def as_pandas(frame: Any) -> pd.DataFrame:
    """Return a dataframe of any library as one of pandas, with rows numbered."""
    if isinstance(frame, pd.DataFrame):
        return frame.reset_index(drop=True)
    table = read_table(frame)
    columns = {}
    for name, column in zip(table.names, table.columns, strict=True):
        columns[name] = np.asarray(column)
    return pd.DataFrame(columns)


def read_questions(designs: Any, X: pd.DataFrame, reports: Any) -> list[Question]:
    """Read the reports of all designs and encoders; `reports` is the table as it came, with its notes."""
    if designs is None:
        return []
    if not isinstance(designs, list | tuple):
        designs = [designs]
    questions = []
    for design in designs:
        if isinstance(design, ReportDesign):
            columns = [design.column]
            if design.group is not None:
                columns.append(design.group)
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
            questions += _questions_of_encoder(design, reports)
        else:
            raise TypeError(
                "encoders must be fitted local transformers of categories, or "
                f"ReportDesign, got {type(design).__name__}"
            )
    return questions


def _questions_of_encoder(encoder: Any, reports: Any) -> list[Question]:
    check_is_fitted(encoder)
    protocol = encoder.protocol_
    is_read = [
        isinstance(field, CategoryField | NumberField) for field in protocol.fields
    ]
    if not all(is_read):
        raise TypeError(
            f"{type(encoder).__name__} does not report categories or numbers, one for "
            "each record, as encoders must"
        )
    names = list(protocol.report_columns)
    absent = [name for name in names if name not in read_table(reports).names]
    if absent:
        raise ValueError(
            f"X must have the columns of the reports, {absent} are missing"
        )
    # Selected in its own library, as its notes say whose reports they are.
    selected = nw.from_native(reports, eager_only=True).select(names).to_native()
    arrays, _ = read_carried(selected, encoder)
    is_reported = protocol.rows(arrays)  # (n_rows, n_fields)
    questions = []
    for place, reported in enumerate(protocol.fields):
        if isinstance(reported, NumberField):
            questions.append(
                _question_of_number(reported, arrays[place], is_reported[:, place])
            )
            continue
        oracle = reported.oracle
        # The factor of each row cancels: a report is this many times likelier under the
        # values that it supports. A record that does not report says nothing.
        excess = float(oracle.support_ratio - 1)
        supports = oracle.supports(arrays[place]) & is_reported[:, place, np.newaxis]
        likelihood = 1 + excess * supports
        values = list(reported.domain.cells())
        name = reported.prefix(list(reported.columns))
        questions.append(Question(name, values, likelihood, names))
    return questions


def _question_of_number(
    field: NumberField, reports: NDArray[np.intp], is_reported: NDArray[np.bool_]
) -> Question:
    """Read the reports of a number: its likelihood in bins between the bounds."""
    n_bins = min(_N_BINS, field.mechanism.steps)
    # Numbers are uniform within a bin: (n_bins, n_reports).
    of_mechanism = field.mechanism.spread(bin_positions(field.mechanism.steps, n_bins))
    # Some reports of the mechanism may be written alike.
    channel = np.zeros((n_bins, len(field.numbers)))
    np.add.at(channel.T, field.places, of_mechanism.T)
    # The factor of each row cancels.
    channel /= channel.max(axis=0)
    likelihood = np.ones((len(reports), n_bins))
    likelihood[is_reported] = channel.T[reports[is_reported]]
    low, high = field.bounds
    middles = low + (high - low) * (np.arange(n_bins) + 0.5) / n_bins
    return Question(
        str(field.name),
        middles.tolist(),
        likelihood,
        [field.name],
        is_number=True,
    )
