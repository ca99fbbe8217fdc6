"""Base class of fields: the reports of one column, or of several columns together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import Floats, Indices, Integers, Mask
from skdp.domain import Categories, Interval
from skdp.local._memo import (
    PermanentDraws,
    encode_column_name,
    encode_value,
    join_parts,
)
from skdp.privacy import ReportPair
from skdp.randomness import ByteSource
from skdp.tables import ColumnError

# Encoded true values: one array per column, with numbers or objects of the type bytes.
ColumnCodes = list[NDArray[Any]]

# Reports: one array per field, with one row per record. If fields are sampled, the last
# array is the boolean mask of the reported fields, of shape (n_records, n_fields).
Reports = list[NDArray[Any]]

# Exact probability of each report (a column) given each true value (a row).
Channel = Sequence[Sequence[Fraction]]

# ``randomness(purpose, *columns)`` returns a source of random bits for one purpose.
Randomness = Callable[..., ByteSource]

# Mask of rows, or the slice of all rows.
RowSelection = Mask | slice


class Field(ABC):
    """Reports of one column, or of several columns together.

    A `ReportProtocol` consists of fields. It calls `prepare`, `report` and `write` for
    a release, and `read`, `sums` and `estimate` on the server.

    Attributes
    ----------
    columns : tuple
        Names of the columns.
    epsilon : float
        Privacy loss of one report, or of all permanent reports of a value.
    reports_values : bool
        If True, the report columns contain declared values of the columns.
    unknown : object
        Treatment of values outside the domain, as text, numbers or lists.

    See Also
    --------
    ReportProtocol : Combines fields.

    Notes
    -----
    A subclass should be a frozen dataclass that can be pickled and does not depend on the
    data. Its errors must not contain a value. Draw random bits for each row, whatever its
    values, with the exact samplers of `skdp.randomness`, and round probabilities such
    that they add noise. Test the subclass with `check_privatizer`.

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

    # Methods of the client.

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
    def prepare(self, columns: Sequence[Any]) -> ColumnCodes:
        """Encode true values. Only this method may raise an error in a release.

        Parameters
        ----------
        columns : sequence of 1-D arrays or series
            True values of `columns`, of any library.

        Returns
        -------
        list of ndarray
            Array of each column, with numbers or objects of the type bytes.

        Raises
        ------
        TypeError, ValueError
            If a value cannot be reported, or reports cannot be written into such
            columns.
        """

    @abstractmethod
    def report(self, codes: ColumnCodes, randomness: Randomness) -> NDArray[Any]:
        """Draw the reports of encoded rows.

        Parameters
        ----------
        codes : list of ndarray
            Output of `prepare`.
        randomness : callable
            ``randomness(purpose, *columns)`` returns a source of random bits for one
            purpose, such as "report".

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
        drawn: Mask | None,
    ) -> list[Any]:
        """Write reports as columns.

        Parameters
        ----------
        reports : ndarray of shape (n, ...)
            Output of `report`; 0 in rows that do not report the field.
        like : sequence of 1-D arrays or series
            Input of `prepare`. Only the libraries and dtypes are used.
        drawn : ndarray of bool, shape (n,), or None
            Mask of the rows that report the field. None selects all rows.

        Returns
        -------
        list
            Columns, or arrays of shape (n, n_columns), for all `names`. Rows that do
            not report the field have 0, or NaN (which becomes a missing value).
        """

    # Methods of the server.

    @abstractmethod
    def read(self, columns: Sequence[Any], rows: RowSelection) -> NDArray[Any]:
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
    def sums(self, reports: NDArray[Any]) -> Integers:
        """Sum reports.

        Parameters
        ----------
        reports : ndarray of shape (n, ...)
            Output of `report` or `read`.

        Returns
        -------
        ndarray of int64
            Sums of the shape `shape`, from 0 to n. The sums of batches of reports can be
            added.
        """

    @abstractmethod
    def estimate(
        self, sums: Integers, size: int, n_reports: int, **options: Any
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
        cells: Indices | None,
    ) -> Floats:
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
            If the reports have no unbiased values.
        """
        raise NotImplementedError

    # Parameters and audits.

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the parameters that determine the meaning of a report.

        Returns
        -------
        dict
            Text, numbers and lists, without the columns, their declared values, the key
            and the seed.
        """

    def declared(self) -> Mapping[str, Mapping[Any, Any]]:
        """Return the declarations of the columns, by parameter of the transformer.

        Returns
        -------
        dict
            Declarations such as ``{"categories": {name: domain[name]}}``, by default
            empty.
        """
        return {}

    def channels(self, max_entries: int) -> list[Iterator[Channel]] | None:
        """Return the exact channels of the columns, for audits.

        Parameters
        ----------
        max_entries : int
            Maximum number of entries of a channel.

        Returns
        -------
        list of iterators, or None
            Iterator over the channels of each independent part of the report. A part has
            several channels if a public part of the report, such as a hash function,
            selects one. None if the channels are too large or unknown.
        """
        return None

    def shuffle_pair(self) -> ReportPair | None:
        """Return the pair of values that shuffling protects least, for `shuffled_guarantee`.

        Returns
        -------
        ReportPair or None
            None selects the pair of the worst randomizer with the epsilon of the
            protocol.
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
            See `report`. It is used to replace values outside the domain.

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
        """Check that true values can be encoded without noise.

        Raises
        ------
        ValueError
            If reports have a random part besides the noise.
        """
        raise ValueError(
            f"{type(self).__name__} has no encoding without noise. Use an encoder that "
            "reports values or bits."
        )

    # Permanent reports.

    def report_permanent(
        self, codes: ColumnCodes, draws: PermanentDraws
    ) -> NDArray[Any]:
        """Compute permanent reports, which are equal for equal values of a record.

        Parameters
        ----------
        codes : list of ndarray
            Output of `prepare`.
        draws : PermanentDraws
            Random bits of each record, which follow from the key, the record and the
            values.

        Returns
        -------
        ndarray of shape (n, ...)
            Report of each row.

        Raises
        ------
        NotImplementedError
            If the field does not support permanent reports.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not support permanent reports."
        )

    def permanent_parts(self) -> list[bytes]:
        """Return the context of permanent reports: public parameters that affect their bits.

        Returns
        -------
        list of bytes
            Class, `parameters`, `columns` and `declared`, by default. Fields with
            different contexts share no random bits.

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
        parts += [encode_column_name(name, "memoize=True") for name in self.columns]
        parts += encode_declared_values(declared.pop("categories", {}))
        for parameter, values in sorted(declared.items()):
            ordered = [values.get(name) for name in self.columns]
            parts += [parameter.encode(), repr(ordered).encode()]
        return parts

    def report_again(self, reports: NDArray[Any], randomness: Randomness) -> Any:
        """Add the noise of instantaneous reports to permanent reports.

        By default, no noise is added.

        Parameters
        ----------
        reports : ndarray of shape (n, ...)
            Output of `report_permanent`.
        randomness : callable
            See `report`.

        Returns
        -------
        ndarray of shape (n, ...)
            Reports to release.
        """
        return reports


def encode_declared_values(
    categories: Mapping[Any, Categories | Interval],
) -> list[bytes]:
    """Encode columns and their declared values as bytes, for a keyed hash."""
    parts = []
    for name, attribute in categories.items():
        values: tuple[Any, ...] = attribute.values
        if isinstance(attribute, Interval):
            # Edges identify bins, and their middles do not.
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
