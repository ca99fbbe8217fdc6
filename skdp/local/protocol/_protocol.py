"""What client and server agree on: how a row becomes a report, and how reports become estimates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain
from skdp.frames import Table
from skdp.local.memo import are_distinct, read_record_ids
from skdp.local.protocol._columns import read_report_table
from skdp.privacy import PrivacyGuarantee
from skdp.privacy.shuffle import Released, ReportPair, any_pair
from skdp.randomness import ByteSource

Codes = list[NDArray[Any]]
"""What reports depend on, and nothing else: arrays of numbers, or of bytes (as objects), a row a record."""

Reports = list[NDArray[Any]]
"""Reports as arrays, a row a record."""

Channel = Sequence[Sequence[Fraction]]
"""The exact probability of each report (a column) given each true value (a row)."""

Randomness = Callable[..., ByteSource]
"""``randomness(purpose, *columns)`` returns the random bits of one purpose and columns in one call."""


class Tally(Protocol):
    """Sums over reports. They add, and are made of arrays of whole numbers that can be added elsewhere."""

    @property
    def n_reports(self) -> int: ...

    def __add__(self, other: Any) -> Any: ...

    def sums(self) -> list[NDArray[np.int64]]:
        """Return the arrays that add up when tallies do."""

    def with_sums(self, sums: Sequence[NDArray[np.int64]]) -> Any:
        """Return a tally like this one, of other sums."""


class ReportProtocol(ABC):
    """How a local transformer reports a row, and what a server makes of the reports.

    Every fitted local transformer has one as ``protocol_``. It holds what was declared and nothing of the data, does
    not change, and can be pickled. The engines, attacks, audits and metrics use it and nothing else of a transformer,
    except `ReportTransformer.charge`, `~ReportTransformer.check_budget` and `~ReportTransformer.randomness`.

    A release is ``write(randomise(prepare(table), records, randomness), table)``: all that can be refused is refused by
    `prepare`, then the ledger is charged, then randomness is drawn. The reports of a row depend on this row only.

    Notes
    -----
    **For authors.** Derive from it, implement the abstract methods, and return it from
    `ReportTransformer._make_protocol`. Errors must not show a value. Which random bits a row gets may depend on its
    place only: draw for every row, independently of its values. `check_privatizer` tests all this.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["f", "m", "m"]})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]}).fit(people)
    >>> print(encoder.protocol_.guarantee)
    epsilon = 1, local model, replacing one record's values of: sex
    >>> encoder.protocol_.tally(encoder.protocol_.read(encoder.transform(people))).n_reports
    3
    """

    guarantee: PrivacyGuarantee
    """What one call promises; with permanent reports, what all calls together promise for unchanged values."""

    values: Domain | None = None
    """The domain whose values the columns of the reports hold, if they do."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.guarantee!r})"

    @property
    def columns(self) -> tuple[Any, ...]:  # numpydoc ignore=RT01
        """The names of the columns that are privatised."""
        return self.guarantee.scope

    @property
    @abstractmethod
    def report_columns(self) -> list[Any]:  # numpydoc ignore=RT01
        """The names of the columns of the reports."""

    @property
    def permanent_key(self) -> bytes | None:  # numpydoc ignore=RT01
        """The secret key of permanent reports, or None."""
        return None

    @property
    def declared(self) -> dict[str, Any]:  # numpydoc ignore=RT01
        """Parameters of the transformer that say by column name what it was fitted on, such as ``categories``."""
        return {}

    @property
    def n_sampled(self) -> int | None:  # numpydoc ignore=RT01
        """How many attributes a record reports, drawn without looking at its values; None for all."""
        return None

    @property
    def counted_columns(self) -> list[list[Any]]:  # numpydoc ignore=RT01
        """Sets of report columns whose distinct rows an engine may count; none if reports come in batches only."""
        return []

    @abstractmethod
    def prepare(self, table: Table) -> Codes:
        """Code the rows of a table; all that may be refused is refused here.

        Parameters
        ----------
        table : Table
            The true values of `columns`, in this order, as `skdp.frames.read_table` reads a frame or an array.

        Returns
        -------
        list of ndarray
            What the reports depend on: arrays of numbers, or of bytes (as objects), a row a record.

        Raises
        ------
        TypeError, ValueError
            If a value cannot be reported, or the reports cannot be written into a table of this kind.
        """

    @abstractmethod
    def randomise(
        self, codes: Codes, records: list[bytes], randomness: Randomness
    ) -> Reports:
        """Draw the reports of coded rows.

        Parameters
        ----------
        codes : list of ndarray
            What `prepare` returned.
        records : list of bytes
            What `read_records` returned.
        randomness : callable
            ``randomness(purpose, *columns)`` returns a source of random bits.

        Returns
        -------
        list of ndarray
            The reports, a row a record.
        """

    @abstractmethod
    def write(self, reports: Reports, table: Table) -> Any:
        """Write reports as a frame or array.

        Parameters
        ----------
        reports : list of ndarray
            What `randomise` returned.
        table : Table
            The table that was prepared: its library, dtypes and row index are kept, and no value.

        Returns
        -------
        same kind as the table
            The reports in `report_columns`.
        """

    @abstractmethod
    def read(self, reports: Any) -> Reports:
        """Read a frame or array of reports, and check them.

        Parameters
        ----------
        reports : dataframe or array-like
            What `write` returned, perhaps stored and loaded since.

        Returns
        -------
        list of ndarray
            The reports as arrays.

        Raises
        ------
        ValueError
            If these are not reports of this protocol.
        """

    def report_table(self, reports: Any) -> Table:
        """Take a frame or array of reports apart into columns, for `read`.

        Parameters
        ----------
        reports : dataframe or array-like
            The reports.

        Returns
        -------
        Table
            The `report_columns`, as ``columns``; their values are not checked.

        Raises
        ------
        TypeError, ValueError
            If the reports are no such table; no error shows a value.
        """
        return read_report_table(reports, self.report_columns)

    @abstractmethod
    def tally(self, reports: Reports) -> Any:
        """Sum up reports.

        Parameters
        ----------
        reports : list of ndarray
            What `read` or `randomise` returned.

        Returns
        -------
        tally
            Has ``n_reports``, adds to other tallies, and has ``sums()`` and ``with_sums(sums)``.
        """

    def report_counts(self, reports: Reports) -> NDArray[np.int64] | None:
        """Count reports and parts of them, to recognise them in any order where they carry the counts as a note.

        Parameters
        ----------
        reports : list of ndarray
            What `read` or `randomise` returned.

        Returns
        -------
        ndarray of int64, or None
            Counts that add up over sets of reports, the number of reports first; None (the default) for no such note.
        """
        return None

    def tallied_counts(self, tally: Any) -> NDArray[np.int64] | None:
        """Return `report_counts` of the reports in a tally, where they follow from it.

        Parameters
        ----------
        tally : tally
            Of this protocol.

        Returns
        -------
        ndarray of int64, or None
            The counts; None (the default) if they need the reports.
        """
        return None

    def empty_counts(self) -> NDArray[np.int64] | None:
        """Return `report_counts` of no reports.

        Returns
        -------
        ndarray of int64, or None
            Zeros; None if there are no such counts.
        """
        return self.tallied_counts(self.empty_tally())

    @abstractmethod
    def empty_tally(self) -> Any:
        """Return the tally of no reports.

        Returns
        -------
        tally
            As of `tally`.
        """

    def tally_counts(self, rows: Any, counts: NDArray[np.int64]) -> Any:
        """Sum up the distinct rows of some report columns.

        Parameters
        ----------
        rows : dataframe
            Distinct rows of one or more sets of `counted_columns`.
        counts : ndarray of int64
            How often each row occurs.

        Returns
        -------
        tally
            Those of all sets of columns add up to the tally of the reports.

        Raises
        ------
        ValueError
            If these are not reports of this protocol.
        """
        raise NotImplementedError

    @abstractmethod
    def estimate(self, tally: Any, **parameters: Any) -> Any:
        """Estimate what the reports were made for.

        Parameters
        ----------
        tally : tally
            What `tally` returned.
        **parameters : dict
            Those of the protocol.

        Returns
        -------
        pandas.DataFrame
            The estimates.
        """

    def tails(
        self, tally: Any, columns: Sequence[Any] | None = None
    ) -> list[tuple[float, float, str]]:
        """Bound how probable sums as extreme as these are, whatever the true values.

        Parameters
        ----------
        tally : tally
            Of this protocol.
        columns : sequence of column names, optional
            The columns whose sums are examined; by default all.

        Returns
        -------
        list of (float, float, str)
            For each sum that is examined the logarithm of a bound of its probability, that of the number of sums that
            it was chosen from as the most extreme one, and the columns; by default none.
        """
        return []

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        """Return the exact channel of each attribute of a record, for audits.

        Parameters
        ----------
        most_entries : int
            How large a channel may be.

        Returns
        -------
        list of iterators, or None
            For each attribute its channel, or several of which the public part of a report chooses one; None if they
            are too large, or not known.
        """
        return None

    def shuffle_pairs(self, released: Released) -> tuple[ReportPair, ...]:
        """Return what `shuffled_guarantee` needs to know of a record's report.

        Parameters
        ----------
        released : {"reports", "tally"}
            What is released after shuffling.

        Returns
        -------
        tuple of ReportPair
            A pair for each part of the report that is shuffled by itself; by default one, of the worst randomiser with
            the epsilon of `guarantee`.
        """
        return (any_pair(self.guarantee.epsilon),)

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return what decides the reports of a row.

        Returns
        -------
        dict
            Plain text, numbers and lists; ``"columns"`` is what is declared of each column. No key and no seed.
        """

    def without_secrets(self) -> Self:
        """Return what prepares, writes, reads and tallies, to be sent to workers.

        Returns
        -------
        ReportProtocol
            A copy without the key of permanent reports; the protocol itself if there is none.
        """
        if self.permanent_key is not None:
            raise NotImplementedError(
                f"{type(self).__name__} has a key, and must say how it is left out"
            )
        return self

    def read_records(self, record_id: Any, n_rows: int) -> list[bytes]:
        """Write the ids of the records as bytes.

        Parameters
        ----------
        record_id : array-like of shape (n_rows,) or None
            Ids that differ, required with permanent reports and only then.
        n_rows : int
            The number of rows.

        Returns
        -------
        list of bytes
            An id for each row; empty without permanent reports.

        Raises
        ------
        TypeError, ValueError
            If ids are missing, repeated, too few, or not wanted.
        """
        if self.permanent_key is None:
            if record_id is not None:
                raise ValueError(
                    "record_id requires permanent reports (memoize=True, or a RAPPOR secret_key)"
                )
            return []
        if record_id is None:
            raise ValueError(
                "permanent reports require record_id, an id for each row; in a Pipeline, route it with "
                "set_transform_request(record_id=True)"
            )
        ids = read_record_ids(record_id, n_rows)
        if not are_distinct(ids):
            # Rows of one record with different values would cost more than the one charge of a call.
            raise ValueError(
                "record_id has repeated entries; a record reports once in a call"
            )
        return ids
