"""Parts of a protocol that report a column or a group of columns, and their reports of declared values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import Codes, Floats, Indices, Integers, Mask
from skdp.base import undeclared_error
from skdp.domain import Categories, Domain, FoundCategories, Interval
from skdp.local._memo import (
    PermanentDraws,
    encode_column_name,
    encode_value,
    join_parts,
)
from skdp.local.protocol._count_estimation import (
    MAX_ESTIMATION_NUMBERS,
    estimate_field,
    find_marginal_cells,
    make_count_table,
)
from skdp.local.protocol._report_columns import (
    make_value_labels,
    parse_integers,
    stack_columns,
)
from skdp.oracles import FrequencyOracle
from skdp.privacy import ReportPair
from skdp.randomness import ByteSource, draw_by_row, uniform_integers
from skdp.tables import ColumnError, to_dates

# Encoded true values: one array per column, with numbers or objects of the type bytes.
ColumnCodes = list[NDArray[Any]]

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
    unknown: str | dict[Any, int] = "error"

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
        self, sums: Integers, size: int, n_reports: int, **options: object
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

    def encode_permanent_context(self) -> list[bytes]:
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


# Remedy in the error of values outside the domain.
_REMEDY = (
    "Or set `handle_unknown='uniform'`, which replaces such values by random values and "
    "biases the estimates toward equal counts"
)


class OracleField(Field):
    """Base class of fields whose report is the report of an oracle for one joint code."""

    domain: Domain
    oracle: FrequencyOracle

    @property
    def columns(self) -> tuple[Any, ...]:  # type: ignore[override]
        return self.domain.columns

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        return self.oracle.permanent.epsilon

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.oracle.k,)

    @property
    def labels(self) -> list[str]:
        """Label of each joint value, for the names of the report columns."""
        return make_value_labels(self.domain, np.arange(self.domain.size))

    def prefix(self, inputs: Sequence[str] | None = None) -> str:
        """Join the names of the columns, as the beginning of the names of the report columns."""
        return "_".join(map(str, self.columns if inputs is None else inputs))

    def names(self, inputs: Sequence[str] | None = None) -> list[Any]:
        prefix = self.prefix(inputs)
        suffixes = self.oracle.fields(self.labels if self.oracle.has_bits else ())
        return [f"{prefix}_{suffix}" if suffix else prefix for suffix in suffixes]

    def write(
        self,
        reports: NDArray[Any],
        like: Sequence[Any],
        drawn: Mask | None,
    ) -> list[Any]:
        # Return one array of shape (n_reports, n_names).
        return [reports if reports.ndim == 2 else reports.reshape(-1, 1)]

    def read(self, columns: Sequence[Any], rows: RowSelection) -> NDArray[Any]:
        # Return the reports of the oracle in the given rows.
        return self.oracle.read(parse_integers(stack_columns(columns)[rows]))

    def sums(self, reports: NDArray[Any]) -> Integers:
        # Count the reports that support each joint value.
        return self.oracle.tally(reports)

    def debias(
        self,
        reports: NDArray[Any],
        columns: Sequence[Any],
        cells: Indices | None,
    ) -> Floats:
        # Return an unbiased estimate of the indicator of each value in `cells` for each
        # report; shape (n_reports, n_cells). The values are combinations of `columns`, which
        # may be some of the columns of the field.
        assert cells is not None
        # Joint cells are the combinations of all columns of the field. Row i of `members`
        # has the joint cells with the value ``cells[i]``; shape (n_cells, n_members). The
        # estimate of a value is the sum of the estimates of its joint cells.
        members = cells[:, np.newaxis]
        if tuple(columns) != tuple(self.columns):
            # A marginal cell is a value of `columns`. Each one occurs in equally many joint
            # cells, so the joint cells, sorted by marginal cell, are rows of equal length.
            marginal_cells = find_marginal_cells(self.domain, columns)
            n_marginal_cells = self.domain.select(columns).size
            order = np.argsort(marginal_cells, kind="stable")
            members = order.reshape(n_marginal_cells, -1)[cells]
        # Blocks of rows limit the memory of the supports, and of the unbiased values.
        width = self.oracle.k if self.oracle.has_bits else members.size
        step = max(1, MAX_ESTIMATION_NUMBERS // width)
        values = np.empty((len(reports), len(cells)))
        for start in range(0, len(reports), step):
            rows = slice(start, start + step)
            unbiased = self.oracle.unbiased(reports[rows], members.ravel())
            values[rows] = unbiased.reshape(-1, *members.shape).sum(axis=2)
        return values

    def parameters(self) -> dict[str, Any]:
        return self.oracle.parameters()

    def declared(self) -> Mapping[str, Mapping[Any, Any]]:
        return {"categories": self._declared_values()}

    def _declared_values(self) -> dict[Any, Any]:
        return {name: self.domain[name] for name in self.columns}

    def estimate(
        self, sums: Integers, size: int, n_reports: int, **options: Any
    ) -> pd.DataFrame:
        # Estimate the counts of the joint values of the columns. `sums` is their tally,
        # from `size` of the `n_reports` records.
        counts = estimate_field(self, sums, (size, n_reports), self.columns)
        return make_count_table([counts], self.domain.cells(), **options)


@dataclass(frozen=True, eq=False, repr=False)
class CategoryField(OracleField):
    """Categorical columns that are reported as one attribute: the combination of their values."""

    domain: Domain
    oracle: FrequencyOracle
    unknown: str | dict[Any, int] = "error"

    def prepare(self, columns: Sequence[Any]) -> ColumnCodes:
        # Encode the true values of each column as indices of its declared values. Values
        # outside the domain have the index after the declared values, or the index that
        # replaces it.
        codes: ColumnCodes = self.domain.encode(columns)
        # As documented for handle_unknown="error", the error reveals that such a value
        # occurs.
        if self.unknown == "error":
            for name in _columns_outside(self.domain, codes):
                column = columns[self.columns.index(name)]
                raise undeclared_error(name, column, self.domain[name], advice=_REMEDY)
        if isinstance(self.unknown, dict):
            replacements = list(self.unknown.values())
            codes = _replace_unknown(self.domain.sizes, codes, replacements)
        return codes

    def report(self, codes: ColumnCodes, randomness: Randomness) -> NDArray[Any]:
        # Return a report of the joint value of each record.
        joined = self._join(self._fill_unknown(codes, randomness))
        return self.oracle.report(joined, randomness("report", *self.columns))

    def _join(self, codes: ColumnCodes) -> NDArray[Any]:
        """Convert the codes of the columns to joint codes."""
        return codes[0] if len(codes) == 1 else self.domain.join(codes)

    def _fill_unknown(self, codes: ColumnCodes, randomness: Randomness) -> ColumnCodes:
        """Replace the codes of values outside the domain by declared values, uniformly at random."""
        if self.unknown != "uniform":
            return codes
        # A replacement is drawn for each row, so that the run time does not depend on the
        # values.
        replacements = []
        for name, size, column in zip(
            self.columns, self.domain.sizes, codes, strict=True
        ):
            source = randomness("unknown", name)
            replacements.append(uniform_integers(source, size, column.size))
        return _replace_unknown(self.domain.sizes, codes, replacements)

    def report_permanent(
        self, codes: ColumnCodes, draws: PermanentDraws
    ) -> NDArray[Any]:
        # Return a report of the joint value of each record. All random bits are keyed
        # hashes of the record and its values, so equal values have equal reports.
        # The random bits depend on the codes before uniform replacements.
        values = np.stack(codes, axis=1).astype(np.int64)  # (n_rows, n_columns)
        width = 8 * len(codes)
        code_bytes = values.astype(">i8").view(np.uint8).reshape(len(values), width)
        if self.unknown == "uniform":
            # The replacements of values outside the domain are permanent, too.
            digests = draws.digests("unknown", code_bytes)
            values = draw_by_row(self._fill_rows, digests, values, head=0)
        joined = self.domain.join(list(values.T))
        return self.oracle.permanent.report_keyed(joined, code_bytes, draws.digests)

    def _fill_rows(self, values: Integers, source: ByteSource) -> Integers:
        """Replace the codes of values outside the domain in rows of codes, with one source for all columns."""
        filled = self._fill_unknown(list(values.T), lambda *purpose: source)
        return np.stack(filled, axis=1)

    def report_again(self, reports: NDArray[Any], randomness: Randomness) -> Any:
        source = randomness("report", *self.columns)
        return self.oracle.report_again(reports, source)

    def encode_permanent_context(self) -> list[bytes]:
        # Context of permanent reports: the oracle, and the columns with their declared
        # values. Fields with different contexts share no random bits.
        parameters = repr(sorted(self.oracle.permanent.parameters().items())).encode()
        # The parameters of the noise that `report_again` adds are excluded, because the
        # permanent reports do not depend on it.
        return [parameters, *encode_declared_values(self._declared_values())]

    def channels(self, max_entries: int) -> list[Iterator[Channel]] | None:
        # Exact probabilities of all reports under all values; None if there are more
        # than `max_entries`.
        oracle = self.oracle.permanent
        if oracle.k * max(oracle.k, oracle.n_reports) > max_entries:
            return None
        return [oracle.channels()]

    def shuffle_pair(self) -> ReportPair:
        return self.oracle.shuffle_pair()

    def encode(self, columns: Sequence[Any], randomness: Randomness) -> list[Any]:
        # Convert true values to the format of reports, without noise.
        self.check_encodable()
        codes = self._fill_unknown(self.prepare(columns), randomness)
        return self.write(self.oracle.encode(self._join(codes)), columns, None)

    def check_encodable(self) -> None:
        if not self.oracle.is_encodable:
            raise ValueError(
                f"{type(self.oracle).__name__} has no encoding without noise. Use "
                "RandomizedResponseEncoder or UnaryEncodingTransformer."
            )


@dataclass(frozen=True, eq=False, repr=False)
class ValueField(CategoryField):
    """Categorical columns whose reports are values of the columns, and not codes or bits."""

    # True if some records do not report the field. Their values are missing.
    is_sampled: bool = False

    # The declared values, and None if fields are sampled.
    _written_domain: Domain = field(init=False)

    reports_values: ClassVar[bool] = True

    def __post_init__(self) -> None:
        # Reports are written as values of `_written_domain`: the declared values, and
        # None for records that do not report the field.
        written_domain = self.domain
        if self.is_sampled:
            columns = {name: _add_missing(self.domain[name]) for name in self.columns}
            written_domain = Domain(columns)
        object.__setattr__(self, "_written_domain", written_domain)

    def names(self, inputs: Sequence[str] | None = None) -> list[Any]:
        return list(self.columns if inputs is None else inputs)

    def prepare(self, columns: Sequence[Any]) -> ColumnCodes:
        # Encode the true values of each column, and check that the reports can be
        # written in its dtype.
        codes = super().prepare(columns)
        # Raises an error if a dtype cannot represent the declared values.
        self._written_domain.decoders(columns)
        return codes

    def write(
        self,
        reports: NDArray[Any],
        like: Sequence[Any],
        drawn: Mask | None,
    ) -> list[Any]:
        # Convert reported codes to columns of values, of the libraries of `like`.
        # `drawn` is a mask of the records that report the field; None if all of them
        # do.
        codes = [reports] if len(like) == 1 else self.domain.split(reports)
        decoders = self._written_domain.decoders(like)
        columns = []
        for name, column, decode in zip(self.columns, codes, decoders, strict=True):
            if drawn is not None:
                values = self._written_domain[name].values
                column = np.where(drawn, column, values.index(None))
                column = column.astype(np.min_scalar_type(len(values)))
            columns.append(decode(column))
        return columns

    def read(self, columns: Sequence[Any], rows: RowSelection) -> NDArray[Any]:
        # Return the code of the joint value in each of the given rows of the reports.
        codes = [column[rows] for column in self.domain.encode(columns)]
        for name in _columns_outside(self.domain, codes):
            raise ValueError(
                f"Column {name!r} must contain reports of this encoder, got values "
                "outside its domain."
            )
        for name, column, bins in zip(self.columns, columns, codes, strict=True):
            values = self.domain[name]
            if isinstance(values, Interval) and not _are_midpoints(
                column, rows, bins, values
            ):
                raise ValueError(
                    f"Column {name!r} must contain reports of this encoder, which are "
                    "the midpoints of its bins, got other values. Pass the output of "
                    "`transform`, not the true values."
                )
        return self._join(codes)


def _add_missing(attribute: Categories | Interval) -> Categories | Interval:
    """Return the declared values of a column, and missing as a declared value."""
    if None in attribute.values:
        return attribute
    written = copy(attribute)
    if isinstance(written, Interval):
        written.missing = True
    elif isinstance(written, FoundCategories):
        written.values = (*written.values, None)
    else:
        return Categories((*written.values, None), ordered=written.ordered)
    return written


def _are_midpoints(
    column: object, rows: RowSelection, bins: Codes, interval: Interval
) -> bool:
    """Check if numbers or dates are the midpoints of their bins, as reports are.

    `bins` are the codes of some rows of the column.
    """
    if interval.dtype.kind == "M":
        dtype = np.dtype("datetime64[us]")  # a date has no time of the day
        values, edges = to_dates(column, dtype), np.array(interval.edges, dtype)
    else:
        values, edges = interval.read(column), np.array(interval.edges)
    is_number = bins < len(edges) - 1
    values, bins = values[rows][is_number], bins[is_number]
    midpoints = np.array(interval.values[: len(edges) - 1], edges.dtype)
    # Stored reports may have fewer digits.
    tolerance = np.diff(edges) / 10_000
    distance = np.abs(values - midpoints.astype(values.dtype)[bins])
    return bool((distance <= tolerance[bins]).all())


def _columns_outside(domain: Domain, codes: ColumnCodes) -> list[Any]:
    """Return the names of the columns that have values outside the domain."""
    names = []
    for name, size, column in zip(domain.columns, domain.sizes, codes, strict=True):
        if column.max(initial=0) == size:
            names.append(name)
    return names


def _replace_unknown(
    sizes: Sequence[int], codes: ColumnCodes, replacements: Sequence[Any]
) -> ColumnCodes:
    """Replace the codes of values outside the domain, which are the numbers of values of their columns."""
    replaced = []
    for size, column, replacement in zip(sizes, codes, replacements, strict=True):
        column = column.copy()
        np.copyto(column, replacement, where=column == size, casting="unsafe")
        replaced.append(column)
    return replaced
