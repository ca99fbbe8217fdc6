"""Local transformer for columns of sets of values, by set selection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import ColumnLike, TableLike
from skdp.base import check_choice, make_domain, undeclared_error
from skdp.domain import Domain, DomainLike
from skdp.local._oracle_encoder import check_several_values
from skdp.local._transformer import CategoryTransformer
from skdp.local.protocol._fields import (
    Channel,
    ColumnCodes,
    OracleField,
    Randomness,
)
from skdp.local.protocol._protocol import ReportProtocol, make_guarantee
from skdp.oracles import SetSelection
from skdp.privacy import PrivacyLedger, check_epsilon
from skdp.randomness import check_size
from skdp.tables import ColumnError, Table, flatten_lists

SetPostprocess = Literal["none", "clip"]


@dataclass(frozen=True, eq=False, repr=False)
class SetField(OracleField):
    """Column of sets, which are reported by an oracle for sets."""

    domain: Domain
    oracle: SetSelection
    unknown: str = "error"

    def prepare(self, columns: Sequence[Any]) -> ColumnCodes:
        """Encode the sets of a column as a mask of their members among the k declared values; shape (n_rows, k).

        Members outside the domain raise an error if `unknown` is "error", and are
        ignored otherwise.
        """
        (name,) = self.columns
        message = None
        try:
            flat, sizes = flatten_lists(columns[0])
        except ColumnError as error:
            message = f"Column {name!r}: {error}."
        if message is not None:
            # Raised outside the except clause, because the context of an error may
            # contain a value.
            raise ValueError(message)
        (codes,) = self.domain.encode([flat])
        is_declared = codes < self.oracle.k
        if self.unknown == "error" and not is_declared.all():
            raise undeclared_error(name, flat, self.domain[name])
        # A report has k bits, so the mask takes no more memory than the reports.
        members = np.zeros((sizes.size, self.oracle.k), bool)
        rows = np.repeat(np.arange(sizes.size), sizes)
        members[rows[is_declared], codes[is_declared]] = True
        return [members]

    def report(self, codes: ColumnCodes, randomness: Randomness) -> NDArray[Any]:
        # Return a report for each set: k bits of a random set that probably intersects
        # the true set, which `prepare` has encoded as a mask of its members.
        (members,) = codes
        oracle = self.oracle
        # The members of all sets, in ascending order within each set.
        values = members.nonzero()[1].astype(np.min_scalar_type(oracle.k))
        sizes = members.sum(axis=1)
        # This source draws the members of sets that are too large.
        choice_source = randomness("kept", *self.columns)
        padded = oracle.pad(values, sizes, choice_source)
        return oracle.report(padded, randomness("report", *self.columns))

    def channels(self, max_entries: int) -> list[Iterator[Channel]] | None:
        # Exact probabilities of all reports under all sets; None if there are more than
        # `max_entries`.
        oracle = self.oracle
        # The channel of 2**12 sets takes a second.
        if oracle.k > 12 or oracle.n_reports > max_entries:
            return None
        if len(oracle.sets()) * oracle.n_reports > max_entries:
            return None
        return [oracle.channels()]


class SetValuedEncoder(CategoryTransformer):
    """Privatize columns of lists of declared values with set selection.

    A report is a random set of values that is likely to intersect the true set [1]_. It
    protects the whole set and its size. The output has a 0/1 column ``<column>_<value>``
    for each value. :doc:`/guide/lists` states the errors.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0. It is divided equally
        among the columns.
    categories : mapping, list of array-like, or Domain
        At least two values of the lists of each column. Required, because the values are
        never inferred from the data. An `Interval` converts numbers to bins.
    max_size : int or mapping of column name to int, default=5
        Maximum number of values of a list that are reported, from public knowledge. The
        error is smaller for a smaller number. From a longer list, `max_size` random values
        are reported, so counts are too small.
    handle_unknown : {"error", "ignore"}, default="error"
        How to handle a value outside the domain. "error" raises `ValueError`, which
        reveals that such a value occurs. "ignore" excludes the value from the set.
    ledger : PrivacyLedger, default=None
        Ledger that is charged with `guarantee_` at each call of `transform`.
    random_state : int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the
        reports are then not private.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform` for one record.
    domain_ : Domain
        Domain of the fitted columns.
    oracles_ : tuple of SetSelection
        Oracle of each column, with its exact probabilities.

    See Also
    --------
    FrequencyOracleEncoder : Privatizes columns with one value for each record.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its lists in the
    fitted columns by any other lists of any length. Reports do not depend on the order
    and repetition of values in a list. `fit` reads column names only. Each call of
    `transform` is a new release. :doc:`/guide/encoders` states the limits.

    The cells of a column are lists, tuples, sets or 1-D arrays (pandas, NumPy), or of
    the List types of polars and pyarrow. Other cells, including missing cells, raise an
    error. Use an empty list for no values.

    In estimates, a record with s > `max_size` values counts as ``max_size / s`` for each of
    them, and standard errors do not include the random choice of these values. The sum of
    the frequencies of a column is the mean number of reported values of a record.

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
        """Build the protocol: each column of sets is reported by set selection with an equal fraction of epsilon."""
        check_choice("handle_unknown", self.handle_unknown, ("error", "ignore"))
        domain = make_lists_domain(table, self.categories)
        max_sizes = check_max_sizes(self.max_size, domain)
        column_epsilon = check_epsilon(self.epsilon) / len(domain.columns)
        fields = []
        for name in domain.columns:
            values = domain.select([name])
            oracle = SetSelection(values.size, max_sizes[name], column_epsilon)
            fields.append(SetField(values, oracle, self.handle_unknown))
        guarantee = make_guarantee(
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

    def _estimate(
        self,
        reports: TableLike,
        statistic: str,
        sample_weight: ColumnLike | None = None,
        **options: object,
    ) -> pd.DataFrame:
        """Estimate counts or frequencies; with weights, `statistic` must be "frequency"."""
        check_choice("postprocess", options["postprocess"], get_args(SetPostprocess))
        return super()._estimate(reports, statistic, sample_weight, **options)

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact transition probabilities of the reports.

        Returns
        -------
        list
            Table of Fractions for each column, with a row for each set of at most
            `max_size` values, in the order of their sizes, and a column for each report.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if there are more than 2**16 reports.
        """
        check_is_fitted(self)
        return [oracle.channel() for oracle in self.protocol_.oracles]


def make_lists_domain(table: Table, categories: object) -> Domain:
    """Make the domain of columns of lists, whose values are never inferred from the data."""
    if categories is None or isinstance(categories, str):
        raise ValueError(
            f"`categories` must be a dict of column to values or a Domain, got "
            f"{categories!r}. Use public knowledge."
        )
    domain = make_domain(table, categories)
    check_several_values(domain)
    return domain


def check_max_sizes(
    max_size: int | Mapping[Any, int], domain: Domain
) -> dict[Any, int]:
    """Return the maximum number of reported values by column, at most the declared values."""
    by_column = (
        max_size
        if isinstance(max_size, Mapping)
        else dict.fromkeys(domain.columns, max_size)
    )
    if set(by_column) != set(domain.columns):
        raise ValueError(
            f"`max_size` must have the columns {list(domain.columns)}, got "
            f"{list(by_column)}."
        )
    sizes = {}
    for name in domain.columns:
        title = f"max_size of column {name!r}"
        sizes[name] = min(
            check_size(by_column[name], min_val=1, name=title), len(domain[name])
        )
    return sizes
