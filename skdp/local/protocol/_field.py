"""Field: the report of a column of a record, or of a group of its columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.domain import Categories, Interval
from skdp.local._memo import PermanentDraws, encode_value, join_parts, name_bytes
from skdp.privacy import ReportPair
from skdp.randomness import ByteSource
from skdp.tables import ColumnError

# True values as arrays of numbers, or of bytes (as objects).
Codes = list[NDArray[Any]]

# Reports as arrays with a row for each record: one for each field, and with a sample of
# fields a last one of booleans, of shape (n_records, n_fields).
Reports = list[NDArray[Any]]

# Exact probability of each report (a column) given each true value (a row).
Channel = Sequence[Sequence[Fraction]]

# ``randomness(purpose, *columns)``: the random bits of one purpose in one call.
Randomness = Callable[..., ByteSource]

# Selection of rows.
Rows = NDArray[np.bool_] | slice


class Field(ABC):
    """Report of a column of a record, or of a group of its columns.

    A `ReportProtocol` consists of fields. It calls `prepare`, `report` and `write` for
    a release, and `read`, `sums` and `estimate` on the server.

    Attributes
    ----------
    columns : tuple
        Names of the columns of the record.
    epsilon : float
        Privacy loss of one report, or of all permanent reports of a value.
    reports_values : bool
        If True, the report columns contain declared values of the record's columns.
    unknown : object
        Treatment of values outside the domain, as plain text, numbers and lists.

    See Also
    --------
    ReportProtocol : Combines fields.

    Notes
    -----
    **For authors.** Derive a frozen dataclass that can be pickled and contains nothing
    of the data. Errors must not contain a value. The random bits of a row may depend on
    its position only: draw for every row, with the exact samplers of `skdp.randomness`
    and with probabilities rounded toward more noise. `check_privatizer` tests this.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.local import Field
    >>> people = pd.DataFrame({"sex": ["f", "m", "m"]})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]})
    >>> (field,) = encoder.fit(people).protocol_.fields
    >>> isinstance(field, Field), field.columns, field.shape
    (True, ('sex',), (2,))
    """

    columns: tuple[Any, ...]
    epsilon: float
    reports_values: ClassVar[bool] = False
    unknown: Any = "error"

    # A release.

    def names(self, inputs: Sequence[str] | None = None) -> list[Any]:
        """Name the report columns.

        Parameters
        ----------
        inputs : sequence of str, default=None
            Names of the input columns. None uses `columns`.

        Returns
        -------
        list
            Names, by default the names of the input columns.
        """
        return list(self.columns if inputs is None else inputs)

    @abstractmethod
    def prepare(self, columns: Sequence[Any]) -> Codes:
        """Encode true values; all errors of a release are raised here.

        Parameters
        ----------
        columns : sequence of 1-D arrays or series
            True values of `columns`, of any library.

        Returns
        -------
        list of ndarray
            An array for each column: numbers, or bytes (as objects).

        Raises
        ------
        TypeError, ValueError
            If a value cannot be reported, or reports cannot be written into such
            columns.
        """

    @abstractmethod
    def report(self, codes: Codes, randomness: Randomness) -> NDArray[Any]:
        """Draw the reports of encoded rows.

        Parameters
        ----------
        codes : list of ndarray
            Output of `prepare`.
        randomness : callable
            ``randomness(purpose, *columns)`` returns a source of random bits.

        Returns
        -------
        ndarray of shape (n, ...)
            Report of each row.
        """

    @abstractmethod
    def write(
        self,
        reports: NDArray[Any],
        like: Sequence[Any],
        drawn: NDArray[np.bool_] | None,
    ) -> list[Any]:
        """Write reports as columns.

        Parameters
        ----------
        reports : ndarray of shape (n, ...)
            Output of `report`; 0 in rows that do not report the field.
        like : sequence of 1-D arrays or series
            Input of `prepare`, which determines libraries and dtypes only.
        drawn : ndarray of bool, shape (n,), or None
            Rows that report the field; None for all.

        Returns
        -------
        list
            Columns, or arrays of shape (n, n_columns), for all `names`. Rows that do
            not report the field have 0, or NaN (which becomes a missing value).
        """

    # On the server.

    @abstractmethod
    def read(self, columns: Sequence[Any], rows: Rows) -> NDArray[Any]:
        """Read and check some rows of the report columns.

        Parameters
        ----------
        columns : sequence of 1-D arrays or series
            Output of `write`, which may have been stored and loaded.
        rows : ndarray of bool or slice
            Rows that report the field.

        Returns
        -------
        ndarray of shape (n, ...)
            Reports of these rows.

        Raises
        ------
        ValueError
            If the columns are not reports of this field.
        """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the sums."""

    @abstractmethod
    def sums(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        """Sum reports.

        Parameters
        ----------
        reports : ndarray of shape (n, ...)
            Output of `report` or `read`.

        Returns
        -------
        ndarray of int64
            Sums of the shape `shape`, between 0 and n, which can be added over batches.
        """

    @abstractmethod
    def estimate(
        self, sums: NDArray[np.int64], size: int, n_reports: int, **options: Any
    ) -> pd.DataFrame:
        """Estimate statistics of the true values.

        Parameters
        ----------
        sums : ndarray of int64
            Output of `sums`.
        size : int
            Number of records that report the field.
        n_reports : int
            Number of all records.
        **options : dict
            Options of the field.

        Returns
        -------
        pandas.DataFrame
            Estimates, such as ``count, std_error`` by value.
        """

    def debias(
        self,
        reports: NDArray[Any],
        columns: Sequence[Any],
        cells: NDArray[np.intp] | None,
    ) -> NDArray[np.float64]:
        """Compute unbiased values of each record.

        Parameters
        ----------
        reports : ndarray of shape (n, ...)
            Output of `read`.
        columns : sequence of column names
            Some of `columns`.
        cells : ndarray of shape (n_cells,), or None
            Codes of combinations of their declared values; None for a number.

        Returns
        -------
        ndarray of shape (n, n_cells), or (n, 1) for a number
            Values with the expectation 1 in the cell of the true values and 0
            elsewhere, or the true number.

        Raises
        ------
        NotImplementedError
            If there are no unbiased values.
        """
        raise NotImplementedError

    # Declared facts.

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the parameters that determine the meaning of a report.

        Returns
        -------
        dict
            Plain text, numbers and lists, without columns, values, key and seed.
        """

    def declared(self) -> Mapping[str, Mapping[Any, Any]]:
        """Return the declared facts of the columns by parameter.

        Returns
        -------
        dict
            By default empty. The key ``"categories"`` has the values of the columns:
            ``{"categories": {name: domain[name]}}``.
        """
        return {}

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        """Return the exact channels of the columns, for audits.

        Parameters
        ----------
        most_entries : int
            Maximum size of a channel.

        Returns
        -------
        list of iterators, or None
            For each separate report an iterator over its channel, or over several
            channels among which the public part of a report chooses. None if they are
            too large or unknown.
        """
        return None

    def shuffle_pair(self) -> ReportPair | None:
        """Return the pair of reports that `shuffled_guarantee` needs.

        Returns
        -------
        ReportPair or None
            None for the worst randomizer with the epsilon of the protocol.
        """
        return None

    # Encoding without noise, for `OnFitOnly`.

    def encode(self, columns: Sequence[Any], randomness: Randomness) -> list[Any]:
        """Write true values as report columns, without noise. Not private.

        Parameters
        ----------
        columns : sequence of 1-D arrays or series
            See `prepare`.
        randomness : callable
            See `report`; replaces values outside the domain.

        Returns
        -------
        list
            See `write`.

        Raises
        ------
        ValueError
            If there is no such encoding.
        """
        self.check_encodable()
        raise NotImplementedError

    def check_encodable(self) -> None:
        """Check that there is an encoding without noise.

        Raises
        ------
        ValueError
            If reports are random without noise as well.
        """
        raise ValueError(
            f"{type(self).__name__} has no encoding without noise. Use an encoder that "
            "reports values or bits."
        )

    # Permanent reports.

    def report_permanent(self, codes: Codes, draws: PermanentDraws) -> NDArray[Any]:
        """Compute permanent reports, which repeat while the values of a record do.

        Parameters
        ----------
        codes : list of ndarray
            Output of `prepare`.
        draws : PermanentDraws
            Random bits of each record, by purpose and values.

        Returns
        -------
        ndarray of shape (n, ...)
            Report of each row.

        Raises
        ------
        NotImplementedError
            If there are none.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not support permanent reports"
        )

    def permanent_parts(self) -> list[bytes]:
        """Write the context of permanent reports, besides key, record and values.

        Returns
        -------
        list of bytes
            Fields with another context share no random bits. By default the class,
            `parameters`, `columns` and `declared`.

        Raises
        ------
        ValueError
            If a name or a declared value cannot be written as bytes.
        """
        declared = dict(self.declared())
        parts = [
            type(self).__qualname__.encode(),
            repr(sorted(self.parameters().items())).encode(),
        ]
        parts += [name_bytes(name, "memoize=True") for name in self.columns]
        parts += declared_bytes(declared.pop("categories", {}))
        for parameter, values in sorted(declared.items()):
            in_order = [values.get(name) for name in self.columns]
            parts += [parameter.encode(), repr(in_order).encode()]
        return parts

    def report_again(self, reports: NDArray[Any], randomness: Randomness) -> Any:
        """Add the noise of instantaneous reports to permanent reports; by default none.

        Parameters
        ----------
        reports : ndarray of shape (n, ...)
            Output of `report_permanent`.
        randomness : callable
            See `report`.

        Returns
        -------
        ndarray of shape (n, ...)
            Reports.
        """
        return reports


def declared_bytes(categories: Mapping[Any, Categories | Interval]) -> list[bytes]:
    """Write columns and their declared values as bytes."""
    parts = []
    for name, attribute in categories.items():
        values: tuple[Any, ...] = attribute.values
        if isinstance(attribute, Interval):
            # Bins with equal middles may have different edges.
            missing = (None,) if attribute.missing else ()
            values = (*attribute.edges, *missing)
        type_name = type(attribute).__name__.encode()
        value_bytes = []
        try:
            for value in values:
                value_bytes.append(b"" if value is None else encode_value(value))
            parts += [encode_value(name), type_name, join_parts(*value_bytes)]
        except ColumnError:
            raise ValueError(
                f"memoize=True requires column {name!r} to have a name and categories "
                "that are text, numbers, booleans or times."
            ) from None
    return parts
