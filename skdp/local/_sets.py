"""Columns of sets of values, reported by set selection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import ColumnLike, check_choice, make_domain, undeclared_error
from skdp.domain import Domain, DomainLike
from skdp.local._transformer import ReportTransformer
from skdp.local.protocol import (
    Channel,
    Codes,
    InferenceTarget,
    OracleField,
    Randomness,
    ReportProtocol,
    estimate_counts,
    make_total_guarantee,
)
from skdp.oracles import (
    SetSelection,
    pad_sets,
)
from skdp.privacy import PrivacyLedger, check_epsilon
from skdp.randomness import check_size
from skdp.tables import ColumnError, Table, flatten_lists

SetPostprocess = Literal["none", "clip"]


@dataclass(frozen=True, eq=False, repr=False)
class SetField(OracleField):
    """A column of sets, by an oracle for sets."""

    domain: Domain
    oracle: SetSelection
    unknown: str = "error"

    def prepare(self, columns: Sequence[Any]) -> Codes:
        """Return the members of each set, of shape (n_rows, k)."""
        (name,) = self.columns
        message = None
        try:
            flat, sizes = flatten_lists(columns[0])
        except ColumnError as error:
            message = f"Column {name!r}: {error}."
        if message is not None:
            # Raised here, without an error as its context that may contain a value.
            raise ValueError(message)
        (codes,) = self.domain.encode([flat])
        is_declared = codes < self.oracle.k
        if self.unknown == "error" and not is_declared.all():
            raise undeclared_error(name, self.domain[name])
        # A report has as many bits, so this needs no more memory than the reports.
        members = np.zeros((sizes.size, self.oracle.k), bool)
        rows = np.repeat(np.arange(sizes.size), sizes)
        members[rows[is_declared], codes[is_declared]] = True
        return [members]

    def report(self, codes: Codes, randomness: Randomness) -> NDArray[Any]:
        (members,) = codes
        oracle = self.oracle
        # Values in ascending order, whatever the order of the list.
        values = members.nonzero()[1].astype(np.min_scalar_type(oracle.k))
        sizes = members.sum(axis=1)
        # Another source draws the values of a longer list.
        choice_source = randomness("kept", *self.columns)
        padded = pad_sets(values, sizes, oracle.k, oracle.max_size, choice_source)
        return oracle.report(padded, randomness("report", *self.columns))

    def channels(self, max_entries: int) -> list[Iterator[Channel]] | None:
        oracle = self.oracle
        # Listing 2**12 sets takes a second.
        if oracle.k > 12 or oracle.n_reports > max_entries:
            return None
        if len(oracle.sets()) * oracle.n_reports > max_entries:
            return None
        return [oracle.channels()]


class SetValuedEncoder(ReportTransformer):
    """Privatize columns of lists of declared values with set selection.

    One epsilon protects the whole set and its size. A report is a random set of values that is
    likely to intersect the true set ("set selection", [1]_): the output has a bit
    ``<column>_<value>`` for each value. :doc:`/guide/lists` states its errors.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, in equal parts, > 0.
    categories : mapping, list of array-like, or Domain
        The values that may be in the lists of each column, at least two: required, and
        never read from the data. An `Interval` puts numbers into bins.
    max_size : int or mapping of column name to int, default=5
        Number of values of a list that are reported, from public knowledge. A smaller
        number has a smaller error. From a longer list, `max_size` values are drawn at
        random, and its record counts less for each value.
    handle_unknown : {"error", "ignore"}, default="error"
        Treatment of undeclared values. ``"error"`` raises an error, which reveals that
        such a value occurs; ``"ignore"`` excludes them from the set.
    ledger : PrivacyLedger, optional
        Ledger that is charged with `guarantee_` at each call of `transform`.
    random_state : int, optional
        None uses secure randomness. Pass an int for reproducible experiments only: the reports are then not private.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        The guarantee of one call of `transform` for one record.
    domain_ : Domain
        The declared values of each column.
    oracles_ : tuple of SetSelection
        The protocol of each column, with its exact probabilities.

    See Also
    --------
    FrequencyOracleEncoder : Columns with one value a record.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its lists in the
    fitted columns by any other lists, of any length. The order and repetition of values
    in a list do not matter. `fit` reads column names only. Each `transform` is a new
    release. :doc:`/guide/encoders` states the limits.

    The cells of a column are lists, tuples, sets or 1-D arrays (pandas, NumPy), or of
    the List types of polars and pyarrow. Other cells, including missing ones, raise an
    error. Use an empty list for no values.

    References
    ----------
    .. [1] S. Wang et al. (2018). PrivSet: set-valued data analyses with locale
       differential privacy. INFOCOM.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import SetValuedEncoder
    >>> people = pd.DataFrame({"symptoms": [["cough"], ["cough", "fever"], []] * 500})
    >>> values = {"symptoms": ["cough", "fever", "rash"]}
    >>> encoder = SetValuedEncoder(
    ...     2.0, categories=values, max_size=2, random_state=0
    ... )
    >>> reports = encoder.fit_transform(people)
    >>> print(encoder.estimate_counts(reports).round())
              count  std_error  lower   upper
    symptoms
    cough     953.0       45.0  865.0  1041.0
    fever     508.0       37.0  436.0   581.0
    rash       18.0       25.0  -31.0    68.0
    """

    domain_: Domain
    oracles_: tuple[SetSelection, ...]

    _takes_categories = True

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        categories: DomainLike | None = None,
        max_size: int | Mapping[Any, int] = 5,
        handle_unknown: Literal["error", "ignore"] = "error",
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.categories = categories
        self.max_size = max_size
        self.handle_unknown = handle_unknown
        self.ledger = ledger
        self.random_state = random_state

    def _make_protocol(self, table: Table) -> ReportProtocol:
        check_choice("handle_unknown", self.handle_unknown, ("error", "ignore"))
        domain = make_lists_domain(table, self.categories)
        max_sizes = check_max_sizes(self.max_size, domain)
        # Equal parts, because no size of a column is a reason for another part.
        column_epsilon = check_epsilon(self.epsilon) / len(domain.columns)
        fields = []
        for name in domain.columns:
            values = domain.select([name])
            oracle = SetSelection(values.size, max_sizes[name], column_epsilon)
            fields.append(SetField(values, oracle, self.handle_unknown))
        guarantee = make_total_guarantee(
            [field.oracle for field in fields],
            scope=domain.columns,
            mechanism="set selection",
            secure=self.random_state is None,
        )
        return ReportProtocol("SetValuedEncoder", tuple(fields), guarantee)

    def _set_fitted(self, protocol: Any) -> None:
        self.domain_, self.oracles_ = protocol.domain, protocol.oracles

    def _declared_row(self, names: Sequence[Any]) -> pd.DataFrame:
        values = super()._declared_row(names)
        return pd.DataFrame({name: pd.Series([[]], dtype=object) for name in values})

    def estimate_counts(
        self,
        reports: Any,
        *,
        columns: Sequence[Any] | None = None,
        postprocess: SetPostprocess = "none",
        confidence_level: float = 0.95,
        rows: InferenceTarget = "table",
    ) -> pd.DataFrame:
        """Estimate the number of records of the table with each value.

        Parameters
        ----------
        reports : output of `transform`, or ReportTally
            Privatized rows, or their sums.
        columns : sequence of column names, optional
            The columns to count; by default all.
        postprocess : {"none", "clip"}, default="none"
            ``"none"``: unbiased, possibly negative. ``"clip"``: clipped to [0, n];
            biased.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.
        rows : {"table", "population"}, default="table"
            Target of inference: the records themselves, or the population from which
            they were drawn at random, whose intervals are wider.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error, lower, upper``, indexed by value for one column, and by
            (column, value) for several. A record with s > `max_size` values counts as
            ``max_size / s`` for each of them: the counts of such records are too small
            by the sum of ``1 - max_size / s``, at most their number, and nothing else
            is biased. The standard error is for the unbiased estimate (a plug-in of its
            variance), without the random choice of the values of such records, which
            adds at most half the root of their number; the interval is a normal
            approximation.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the reports come from another encoder, or a parameter is
            out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports uses no budget.
        """
        return self._estimate(
            reports,
            "count",
            columns=columns,
            postprocess=postprocess,
            confidence_level=confidence_level,
            rows=rows,
        )

    def estimate_frequencies(
        self,
        reports: Any,
        *,
        columns: Sequence[Any] | None = None,
        postprocess: SetPostprocess = "none",
        confidence_level: float = 0.95,
        rows: InferenceTarget = "population",
        sample_weight: ColumnLike | None = None,
    ) -> pd.DataFrame:
        """Estimate the proportion of the population with each value, from a random sample.

        Parameters
        ----------
        reports : output of `transform`, or ReportTally
            Privatized rows, or their sums.
        columns, postprocess, confidence_level : optional
            As for `estimate_counts`.
        rows : {"population", "table"}, default="population"
            Target of inference: the population from which the records were drawn at
            random, or the records themselves, whose intervals are narrower.
        sample_weight : array-like of shape (n_samples,), optional
            As for the `estimate_frequencies` of `RandomizedResponseEncoder`.

        Returns
        -------
        pandas.DataFrame
            ``frequency, std_error, lower, upper``, the values of `estimate_counts`
            divided by the number of reports, with the same index. The frequencies of a
            column add up to the mean number of values that records keep.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another encoder, or a parameter is
            out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports uses no budget. Weights are not
        privatized: the analyst has them beside the reports.
        """
        return self._estimate(
            reports,
            "frequency",
            sample_weight,
            columns=columns,
            postprocess=postprocess,
            confidence_level=confidence_level,
            rows=rows,
        )

    def _estimate(
        self, reports: Any, statistic: str, sample_weight: Any = None, **options: Any
    ) -> pd.DataFrame:
        check_choice("postprocess", options["postprocess"], get_args(SetPostprocess))
        if sample_weight is not None:
            return self._estimate_weighted_frequencies(
                reports, sample_weight, **options
            )
        _, tally = self._read_reports(reports)
        return estimate_counts(self.protocol_, tally, statistic=statistic, **options)

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact probabilities of the reports.

        Returns
        -------
        list
            A table of Fractions for each column, with a row for each set of at most
            `max_size` values, the smallest sets first, and a column for each report.
            For few values only.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if there are more than 2**16 reports.
        """
        check_is_fitted(self)
        return [oracle.channel() for oracle in self.protocol_.oracles]


def make_lists_domain(table: Table, categories: Any) -> Domain:
    """Read the declared values of columns of lists, which are never inferred from data."""
    if categories is None or isinstance(categories, str):
        raise ValueError(
            "categories must be a mapping of column to values, from public knowledge, got "
            f"{categories!r}."
        )
    domain = make_domain(table, categories)
    for column, size in zip(domain.columns, domain.sizes, strict=True):
        if size < 2:
            raise ValueError(
                f"Column {column!r} must have at least 2 values, got {size}."
            )
    return domain


def check_max_sizes(max_size: Any, domain: Domain) -> dict[Any, int]:
    """Read the number of reported values of a list, at most the number of declared values."""
    given = max_size
    if not isinstance(max_size, Mapping):
        given = dict.fromkeys(domain.columns, max_size)
    if set(given) != set(domain.columns):
        raise ValueError(
            f"max_size must have the columns {list(domain.columns)}, got {list(given)}."
        )
    sizes = {}
    for name in domain.columns:
        title = f"max_size of column {name!r}"
        sizes[name] = min(
            check_size(given[name], min_val=1, name=title), len(domain[name])
        )
    return sizes
