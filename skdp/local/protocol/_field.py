"""What a column of a record, or a group of them, reports: what authors write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.domain import Categories, Interval
from skdp.local._memo import PermanentDraws, canonical, framed, name_bytes
from skdp.privacy import ReportPair
from skdp.randomness import ByteSource
from skdp.tables import ColumnError

Codes = list[NDArray[Any]]
"""All that reports depend on: arrays of numbers, or of bytes (as objects)."""

# Reports as arrays, a row a record: one for each field, and, where records report some
# of the fields only, a last one of booleans that says which (n_records, n_fields).
Reports = list[NDArray[Any]]

# The exact probability of each report (a column) given each true value (a row).
Channel = Sequence[Sequence[Fraction]]

# ``randomness(purpose, *columns)``: the random bits of one purpose in one call.
Randomness = Callable[..., ByteSource]

Rows = NDArray[np.bool_] | slice
"""Some of the rows."""


def declared_bytes(categories: Mapping[Any, Categories | Interval]) -> list[bytes]:
    """Write columns and their declared values, for what depends on them by a key."""
    parts = []
    for name, attribute in categories.items():
        values: tuple[Any, ...] = attribute.values
        if isinstance(attribute, Interval):
            # Bins with the same middles may have other edges.
            missing = (None,) if attribute.missing else ()
            values = (*attribute.edges, *missing)
        kind = type(attribute).__name__.encode()
        value_bytes = []
        try:
            for value in values:
                value_bytes.append(b"" if value is None else canonical(value))
            parts += [canonical(name), kind, framed(*value_bytes)]
        except ColumnError:
            raise ValueError(
                "memoize=True needs column names and categories of text, numbers, "
                f"booleans or times; column {name!r} has others"
            ) from None
    return parts


class Field(ABC):
    """What one column of a record, or a group of its columns, reports.

    A `ReportProtocol` is made of fields. It lays out their columns, draws which of them
    a record reports, adds up their sums, and calls them in the order `prepare`,
    `report`, `write`, and on the server `read`, `sums`, `estimate`.

    Attributes
    ----------
    columns : tuple
        The names of the columns of the record.
    epsilon : float
        The privacy loss of one report, or of all permanent reports of a value.
    is_countable : bool
        Whether the distinct reports are so few that an engine may count them, and hand
        over these counts (`distinct_sums`) in place of all rows.
    reports_values : bool
        Whether the columns of the reports hold declared values of those of the record.
    unknown : object
        Treatment of values outside the domain, as plain text, numbers and lists.
    n_states : int or None
        The number of distinct permanent reports of a record; None if there are none.

    See Also
    --------
    ReportProtocol : What fields are put together to.

    Notes
    -----
    **For authors.** Derive a frozen dataclass from it that can be pickled and holds
    nothing of the data. Errors must not show a value. Which random bits a row gets may
    depend on its place only: draw for every row, independently of its values, by the
    exact samplers of `skdp.randomness`, with probabilities that are rounded toward more
    noise. `check_privatizer` tests all this.

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
    is_countable: bool = False
    reports_values: ClassVar[bool] = False
    unknown: Any = "error"
    n_states: int | None = None

    def names(self, inputs: Sequence[str] | None = None) -> list[Any]:
        """Name the columns of the reports.

        Parameters
        ----------
        inputs : sequence of str, optional
            The names of the columns of the record in the input, if they are others than
            `columns`.

        Returns
        -------
        list
            A name for each column; by default those of the record.
        """
        return list(self.columns if inputs is None else inputs)

    @abstractmethod
    def prepare(self, columns: Sequence[Any]) -> Codes:
        """Code true values; all that may be refused is refused here.

        Parameters
        ----------
        columns : sequence of 1-D arrays or series
            True values, a column for each of `columns`, of any library.

        Returns
        -------
        list of ndarray
            An array for each column, of numbers, or of bytes (as objects).

        Raises
        ------
        TypeError, ValueError
            If a value cannot be reported, or reports cannot be written into such
            columns.
        """

    @abstractmethod
    def report(self, codes: Codes, randomness: Randomness) -> NDArray[Any]:
        """Draw the reports of coded rows.

        Parameters
        ----------
        codes : list of ndarray
            What `prepare` returned.
        randomness : callable
            ``randomness(purpose, *columns)`` returns a source of random bits.

        Returns
        -------
        ndarray of shape (n, …)
            A report for each row; 0 where a record does not report the field.
        """

    def report_permanent(self, codes: Codes, draws: PermanentDraws) -> NDArray[Any]:
        """Compute permanent reports, which repeat as long as the values of a record do.

        Parameters
        ----------
        codes : list of ndarray
            What `prepare` returned.
        draws : PermanentDraws
            The random bits of each record, by purpose and values.

        Returns
        -------
        ndarray of shape (n, …)
            A report for each row.

        Raises
        ------
        NotImplementedError
            If there are none.
        """
        raise NotImplementedError(f"{type(self).__name__} has no permanent reports")

    def permanent_parts(self) -> list[bytes]:
        """Write what permanent reports depend on besides key, record and values.

        Returns
        -------
        list of bytes
            Reports of fields that differ in it share no random bits: by default the
            class, `parameters`, the names of the columns and what is `declared` of
            them.

        Raises
        ------
        ValueError
            If a name or a declared value has no bytes of its own.
        """
        declared = dict(self.declared())
        # All that may differ between two fields, so that no author has to think of it.
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
        """Add the noise of a second round to permanent reports; by default none.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            What `report_permanent` returned.
        randomness : callable
            As for `report`.

        Returns
        -------
        ndarray of shape (n, …)
            The reports.
        """
        return reports

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
        reports : ndarray of shape (n, …)
            What `report` returned.
        like : sequence of 1-D arrays or series
            The columns that were prepared: only their libraries and dtypes count.
        drawn : ndarray of bool, shape (n,), or None
            Which rows report the field; None for all.

        Returns
        -------
        list
            Columns, or arrays of shape (n, n_columns), for all of `names`. Where a row
            does not report the field, they hold 0, or nan (which becomes a missing
            value).
        """

    @abstractmethod
    def read(self, columns: Sequence[Any], rows: Rows) -> NDArray[Any]:
        """Read some rows of the columns of reports, and check them.

        Parameters
        ----------
        columns : sequence of 1-D arrays or series
            What `write` returned, perhaps stored and loaded since.
        rows : ndarray of bool or slice
            The rows that report the field.

        Returns
        -------
        ndarray of shape (n, …)
            Their reports.

        Raises
        ------
        ValueError
            If these are not reports of this field.
        """

    def are_reported(self, columns: Sequence[Any]) -> NDArray[np.bool_]:
        """Return which rows report the field, where only the columns of reports say it.

        Parameters
        ----------
        columns : sequence of 1-D arrays or series
            The columns of the reports.

        Returns
        -------
        ndarray of bool, shape (n,)
            False where they are missing.

        Raises
        ------
        NotImplementedError
            If a protocol has to say it in a column of its own.
        """
        raise NotImplementedError

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the sums."""

    @abstractmethod
    def sums(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        """Sum up reports.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            What `report` or `read` returned.

        Returns
        -------
        ndarray of int64
            Of the shape `shape`; those of several batches add up.
        """

    def distinct_sums(
        self, reports: NDArray[Any], counts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Sum up distinct reports; needed if `is_countable`.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            What `read` returned.
        counts : ndarray of int64, shape (n,)
            How often each report occurs.

        Returns
        -------
        ndarray of int64
            As of `sums`.

        Raises
        ------
        NotImplementedError
            If the reports are not countable.
        """
        raise NotImplementedError

    @abstractmethod
    def estimate(
        self, sums: NDArray[np.int64], size: int, n_reports: int, **options: Any
    ) -> pd.DataFrame:
        """Estimate what the reports were made for.

        Parameters
        ----------
        sums : ndarray of int64
            What `sums` returned.
        size : int
            The number of records that report the field.
        n_reports : int
            The number of all records.
        **options : dict
            Options of the field.

        Returns
        -------
        pandas.DataFrame
            The estimates, such as ``count, std_error`` by value.
        """

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return what decides the meaning of a report, besides columns and values.

        Returns
        -------
        dict
            Plain text, numbers and lists. No key and no seed.
        """

    def declared(self) -> Mapping[str, Mapping[Any, Any]]:
        """Return what is declared of the columns, by the parameter that declares it.

        Returns
        -------
        dict
            By default empty. Under ``"categories"`` it has the values of the columns as
            a Domain has them: ``{"categories": {name: domain[name]}}``.
        """
        return {}

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        """Return the exact channel of each column reported by itself, for audits.

        Parameters
        ----------
        most_entries : int
            How large a channel may be.

        Returns
        -------
        list of iterators, or None
            Mostly one iterator: over the channel, or several of which the public part
            of a report chooses one. None if they are too large, or not known.
        """
        return None

    def debias(
        self,
        reports: NDArray[Any],
        columns: Sequence[Any],
        cells: NDArray[np.intp] | None,
    ) -> NDArray[np.float64]:
        """Return unbiased values of each record, for `ReportTransformer.debias`.

        Parameters
        ----------
        reports : ndarray of shape (n, …)
            What `read` returned.
        columns : sequence of column names
            Some of `columns`.
        cells : ndarray of shape (n_cells,), or None
            Codes of combinations of their declared values; None for a number.

        Returns
        -------
        ndarray of shape (n, n_cells), or (n, 1) for a number
            The mean over the reports of a record is 1 in the cell of its true values
            and 0 elsewhere, or its number.

        Raises
        ------
        NotImplementedError
            If there are no such values.
        """
        raise NotImplementedError

    def shuffle_pair(self) -> ReportPair | None:
        """Return what `shuffled_guarantee` needs to know of the report.

        Returns
        -------
        ReportPair or None
            None for the worst randomiser with the epsilon of the protocol.
        """
        return None

    def encode(self, columns: Sequence[Any], randomness: Randomness) -> list[Any]:
        """Write true values as columns of reports without noise. Not private.

        Parameters
        ----------
        columns : sequence of 1-D arrays or series
            As for `prepare`.
        randomness : callable
            As for `report`; for what replaces undeclared values.

        Returns
        -------
        list
            As of `write`.

        Raises
        ------
        ValueError
            If there is no such encoding.
        """
        self.check_encodable()
        raise NotImplementedError

    def check_encodable(self) -> None:
        """Check that there are reports without noise.

        Raises
        ------
        ValueError
            If reports draw random bits by nature.
        """
        raise ValueError(f"{type(self).__name__} has no encoding without noise")
