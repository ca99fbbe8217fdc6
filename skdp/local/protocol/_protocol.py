"""What client and server agree on: rows to reports, and reports to estimates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from fractions import Fraction
from itertools import chain
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.domain import Categories, Domain
from skdp.local._memo import Memo, are_distinct, read_record_ids
from skdp.local._tally import ReportTally, check_tally, plain_field
from skdp.local.protocol._columns import (
    SAMPLED,
    concat_columns,
    read_report_table,
    read_sampled,
    spread,
)
from skdp.local.protocol._field import Channel, Codes, Field, Randomness, Reports
from skdp.local.protocol._oracle_fields import CategoryField, OracleField
from skdp.local.protocol._sampling import Sampling, drawn_pair, one_of
from skdp.privacy import PrivacyGuarantee, Released, ReportPair, any_pair
from skdp.tables import Table, missing_for_nan, read_table


@dataclass(frozen=True, eq=False, repr=False)
class ReportProtocol:
    """The protocol of a local transformer: reports of rows, and estimates from reports.

    Every fitted local transformer has one as ``protocol_``. It holds what was declared
    and nothing of the data, does not change, and can be pickled. The engines, attacks,
    audits and metrics use it, and little else of a transformer.

    A release is ``write(randomise(prepare(table), records, randomness), table)``: all
    that can be refused is refused by `prepare`, then the ledger is charged, then
    randomness is drawn. The reports of a row depend on this row only.

    Parameters
    ----------
    encoder : str
        What reports, such as the name of the class: reports of two encoders never add.
    fields : tuple of Field
        What the columns of a record report.
    guarantee : PrivacyGuarantee
        The guarantee of one call; with permanent reports, of all calls together for
        unchanged values. Its ``scope`` are the columns, in their order.
    sampling : Sampling, optional
        Which fields a record reports, drawn independently of its values; by default
        all.
    states_sample : bool, default=True
        Whether columns of their own say which fields a record reports; if not, the
        columns of the fields that it does not report are missing.
    memo : Memo, optional
        What permanent reports are a function of.
    chosen : mapping, optional
        Parameters of the transformer that `fit` chose, besides what is declared.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["f", "m", "m"]})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]})
    >>> encoder = encoder.fit(people)
    >>> print(encoder.protocol_.guarantee)
    epsilon = 1, local model, replacing one record's values of: sex
    >>> reports = encoder.protocol_.read(encoder.transform(people))
    >>> encoder.protocol_.tally(reports).n_reports
    3
    """

    encoder: str
    fields: tuple[Field, ...]
    guarantee: PrivacyGuarantee
    sampling: Sampling | None = None
    states_sample: bool = True
    memo: Memo | None = None
    chosen: Mapping[str, Any] = attribute(default_factory=dict)

    domain: Domain | None = attribute(init=False)
    """The declared values of the columns that have such."""
    values: Domain | None = attribute(init=False)
    """Those of the columns whose reports are values."""
    report_columns: list[Any] = attribute(init=False)
    """The names of the columns of the reports."""
    _names: list[list[Any]] = attribute(init=False)
    """Those of each field."""

    def __post_init__(self) -> None:
        declared: dict[Any, Any] = {}
        value_columns: dict[Any, Any] = {}
        names = []
        reported_columns: set[Any] = set()
        for field in self.fields:
            names.append(field.names())
            reported_columns.update(field.columns)
            categories = field.declared().get("categories", {})
            declared |= categories
            if field.reports_values:
                value_columns |= categories
        differing_columns = reported_columns ^ {*self.columns}
        if differing_columns:
            differing = ", ".join(sorted(map(repr, differing_columns)))
            raise ValueError(
                "the scope of the guarantee must be the columns that the fields "
                f"report; no field reports, or no guarantee names, {differing}"
            )
        # Their order is that of the columns, as it determines joint codes.
        ordered = {name: declared[name] for name in self.columns if name in declared}
        computed = {
            "domain": Domain(ordered) if ordered else None,
            "values": Domain(value_columns) if value_columns else None,
            "report_columns": self._layout(names, self.columns),
            "_names": names,
        }
        for name, value in computed.items():
            # As the dataclass is frozen.
            object.__setattr__(self, name, value)

    def _layout(self, names: Sequence[list[Any]], inputs: Sequence[Any]) -> list[Any]:
        """Return the names of all report columns in order, from those of each field."""
        layout = list(chain.from_iterable(names))
        # Reports in the columns of the input keep its order.
        if len(layout) == len(inputs) and {*layout} == {*inputs}:
            layout = list(inputs)
        layout += self._sampled_names
        if len({*layout}) < len(layout):
            raise ValueError(
                "two columns of the output would have the same name; rename columns or "
                "categories"
            )
        return layout

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.guarantee!r})"

    @property
    def columns(self) -> tuple[Any, ...]:
        """The names of the columns that are privatised."""
        return self.guarantee.scope

    @property
    def n_sampled(self) -> int | None:
        """How many fields a record reports, whatever its values; None for all."""
        return None if self.sampling is None else self.sampling.size

    @property
    def strategy(self) -> str | None:
        """How columns of categories share epsilon, such as ``"split"``.

        None if other fields, or some groups of columns, are reported.
        """
        field_columns = []
        for field in self.fields:
            if not isinstance(field, CategoryField):
                return None
            field_columns.append(tuple(field.columns))
        if len(field_columns) == 1 < len(self.columns) and self.sampling is None:
            return "joint"
        if field_columns != [(name,) for name in self.columns]:
            return None
        if self.sampling is None:
            return "split"
        is_uniform = self.sampling.size == 1 and len({*self.sampling.weights}) == 1
        return "sample" if is_uniform else None

    @property
    def oracles(self) -> tuple[Any, ...]:
        """The oracles of the fields of categories and of sets."""
        oracles = []
        for field in self.fields:
            if isinstance(field, OracleField):
                oracles.append(field.oracle)
        return tuple(oracles)

    @property
    def permanent_key(self) -> bytes | None:
        """The secret key of permanent reports, or None."""
        return None if self.memo is None else self.memo.key

    @property
    def declared(self) -> dict[str, Any]:
        """Parameters of the transformer by column name, such as ``categories``.

        They say what it was fitted on.
        """
        declared: dict[str, Any] = {}
        for field in self.fields:
            for parameter, declarations in field.declared().items():
                by_column = declared.setdefault(parameter, {})
                for name, declaration in declarations.items():
                    if isinstance(declaration, Categories):
                        declaration = list(declaration.values)
                    by_column[name] = declaration
        return declared | dict(self.chosen)

    @property
    def counted_columns(self) -> list[list[Any]]:
        """Sets of report columns whose distinct rows an engine may count.

        Empty if an engine has to hand over all rows.
        """
        if self.sampling is None and all(field.is_countable for field in self.fields):
            return self._names
        return []

    @property
    def _sampled_names(self) -> list[str]:
        """Of the columns that say which fields a record reports."""
        if self.sampling is None or not self.states_sample:
            return []
        if self.sampling.size == 1:
            return [SAMPLED]
        return [f"{SAMPLED}_{number}" for number in range(self.sampling.size)]

    def names(self, inputs: Sequence[str]) -> list[Any]:
        """Name the report columns after the columns of the input.

        Parameters
        ----------
        inputs : sequence of str
            The names of `columns` in the input.

        Returns
        -------
        list of str
            As `report_columns`.

        Raises
        ------
        ValueError
            If two would have the same name.
        """
        names = []
        for field in self.fields:
            names.append(field.names(self._of_field(field, inputs)))
        return self._layout(names, inputs)

    def prepare(self, table: Table) -> Codes:
        """Code the rows of a table; all that may be refused is refused here.

        Parameters
        ----------
        table : Table
            The true values of `columns`, in this order, as `skdp.tables.read_table`
            reads a frame or an array.

        Returns
        -------
        list of ndarray
            What the reports depend on: arrays of numbers, or of bytes (as objects), a
            row a record.

        Raises
        ------
        TypeError, ValueError
            If a value cannot be reported, or the reports cannot be written into a table
            of this kind.
        """
        codes: Codes = []
        for field in self.fields:
            # An outside author may return one array for several columns.
            arrays = field.prepare(self._of_field(field, table.columns))
            if len(arrays) != len(field.columns):
                raise ValueError(
                    f"{type(field).__name__}.prepare must return {len(field.columns)} "
                    f"array(s), one for each of its columns, got {len(arrays)}"
                )
            codes += arrays
        return codes

    def _of_field(self, field: Field, values: Sequence[Any]) -> list[Any]:
        """Return those of the values of all columns that a field is of."""
        return _selected(dict(zip(self.columns, values, strict=True)), field.columns)

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
        if self.memo is not None:
            return self._permanent_reports(codes, records, randomness)
        reports = []
        for field, field_codes in zip(self.fields, self._split(codes), strict=True):
            # Also where a record does not report the field: time tells nothing.
            reports.append(field.report(field_codes, randomness))
        if self.sampling is None:
            return reports
        # Drawn without looking at the data, so it may be public.
        drawn = self.sampling.draw(randomness("sample"), len(codes[0]))
        return self._sampled(reports, drawn)

    def _permanent_reports(
        self, codes: Codes, records: list[bytes], randomness: Randomness
    ) -> Reports:
        assert self.memo is not None
        marks = self.memo.marks(records)  # (n_records, 16)
        drawn = None
        if self.sampling is not None:
            # Permanent too: fresh draws would report all fields in the end.
            drawn = self.memo.sample(self.sampling, marks)
        reports = []
        for place, field_codes in enumerate(self._split(codes)):
            field = self.fields[place]
            if drawn is None:
                draws = self.memo.draws(place, marks)
                report = field.report_permanent(field_codes, draws)
            else:
                # Which rows these are follows from no value: the others need no report.
                rows = drawn[:, place]
                draws = self.memo.draws(place, marks[rows])
                drawn_codes = [column[rows] for column in field_codes]
                report = spread(field.report_permanent(drawn_codes, draws), rows)
            reports.append(field.report_again(report, randomness))
        return reports if drawn is None else self._sampled(reports, drawn)

    def _split(self, codes: Codes) -> Iterator[Codes]:
        """Yield the codes of each field."""
        start = 0
        for field in self.fields:
            end = start + len(field.columns)
            yield codes[start:end]
            start = end

    def _sampled(self, reports: Reports, drawn: NDArray[np.bool_]) -> Reports:
        """Erase what records do not report, and add which fields they do."""
        for report, rows in zip(reports, drawn.T, strict=True):
            report[~rows] = 0
        return [*reports, drawn]

    def write(self, reports: Reports, table: Table) -> Any:
        """Write reports as a frame or array.

        Parameters
        ----------
        reports : list of ndarray
            What `randomise` returned.
        table : Table
            The table that was prepared: its library, dtypes and row index are kept, and
            no value.

        Returns
        -------
        same kind as the table
            The reports in `report_columns`.
        """
        drawn = None if self.sampling is None else reports[-1]
        blocks = []
        for place, field in enumerate(self.fields):
            like = self._of_field(field, table.columns)
            rows = None if drawn is None else drawn[:, place]
            blocks += field.write(reports[place], like, rows)
        released = self._laid_out(blocks, drawn, table)
        # Fields that a record does not report are nan to numpy: missing in a frame.
        return released if drawn is None else missing_for_nan(released)

    def _laid_out(self, blocks: list[Any], drawn: Any, table: Table) -> Any:
        """Put the columns of the fields into order, and add those of the sample."""
        # Of one array of many columns, the order is that of the field.
        names = list(chain.from_iterable(self._names))
        order = self.report_columns[: len(names)]
        if names != order:
            blocks = _selected(dict(zip(names, blocks, strict=True)), order)
        if self._sampled_names:
            dtype = np.min_scalar_type(len(self.fields) - 1)
            blocks = [*blocks, _places(drawn, self.n_sampled or 0, dtype)]
        return table.rebuild(blocks, self.report_columns)

    def encode(self, table: Table, randomness: Randomness) -> Any:
        """Write true values in the form of reports, without noise: not private.

        Parameters
        ----------
        table : Table
            As for `prepare`.
        randomness : callable
            As for `randomise`.

        Returns
        -------
        same kind as the table
            The columns of the fields.

        Raises
        ------
        ValueError
            If there is no encoding without noise.
        """
        blocks = []
        for field in self.fields:
            blocks += field.encode(self._of_field(field, table.columns), randomness)
        return table.rebuild(blocks, list(chain.from_iterable(self._names)))

    def check_encodable(self) -> None:
        """Check that there are reports of all fields without noise.

        Raises
        ------
        ValueError
            If there are none.
        """
        if self.sampling is not None:
            raise ValueError(
                "strategy='sample' reports one column of each record: there is no "
                "encoding of all of them"
            )
        for field in self.fields:
            field.check_encodable()

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
        table = self.report_table(reports)
        # By name, as an array has them in this order, and a frame by these names.
        columns = dict(zip(self.report_columns, table.columns, strict=True))
        field_columns = [_selected(columns, names) for names in self._names]
        drawn = None
        if self.sampling is not None and self.states_sample:
            drawn = self._read_sample(_selected(columns, self._sampled_names))
        elif self.sampling is not None:
            drawn = self._find_sample(field_columns)
        arrays = []
        for place, field in enumerate(self.fields):
            if drawn is None:
                arrays.append(field.read(field_columns[place], slice(None)))
            else:
                rows = drawn[:, place]
                reports_of_rows = field.read(field_columns[place], rows)
                arrays.append(spread(reports_of_rows, rows))
        return arrays if drawn is None else [*arrays, drawn]

    def _find_sample(self, field_columns: Sequence[Sequence[Any]]) -> NDArray[np.bool_]:
        """Return which fields each row reports, by what is missing in the others."""
        assert self.sampling is not None
        reported = []
        for field, own_columns in zip(self.fields, field_columns, strict=True):
            reported.append(field.are_reported(own_columns))
        drawn = np.array(reported).T
        if (drawn.sum(axis=1) != self.sampling.size).any():
            raise ValueError(
                f"a report of this transformer holds {self.sampling.size} of its "
                f"{len(self.fields)} fields"
            )
        return drawn

    def _read_sample(self, columns: Sequence[Any]) -> NDArray[np.bool_]:
        """Read which fields each row reports."""
        n_fields = len(self.fields)
        numbers = [read_sampled(column, n_fields) for column in columns]
        if len(columns) == 1:
            return one_of(numbers[0], n_fields)
        chosen = np.column_stack(numbers)  # (n_records, n_sampled)
        if (np.diff(chosen, axis=1) <= 0).any():
            raise ValueError(
                f"the columns {self._sampled_names} must ascend: a record makes each "
                "report once"
            )
        drawn = np.zeros((len(chosen), n_fields), bool, order="F")
        np.put_along_axis(drawn, chosen, True, axis=1)
        return drawn

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

    def rows(self, reports: Reports) -> NDArray[np.bool_]:
        """Return which row reports which field.

        Parameters
        ----------
        reports : list of ndarray
            What `read` or `randomise` returned.

        Returns
        -------
        ndarray of bool, shape (n_records, n_fields)
            True for all without a sample.
        """
        if self.sampling is not None:
            return reports[-1]
        return np.ones((len(reports[0]), len(self.fields)), bool)

    def parts(self, reports: Reports) -> list[NDArray[Any]]:
        """Return for each field the reports of those rows that report it.

        Parameters
        ----------
        reports : list of ndarray
            What `read` or `randomise` returned.

        Returns
        -------
        list of ndarray
            The reports of each field.
        """
        if self.sampling is None:
            return reports
        *reports, drawn = reports
        parts = []
        for report, rows in zip(reports, drawn.T, strict=True):
            # By places, in half of the time of a mask.
            parts.append(report[np.flatnonzero(rows)])
        return parts

    @property
    def meaning(self) -> dict[str, Any]:
        """What a tally says that its sums are of."""
        fields = []
        for field in self.fields:
            meaning: dict[str, Any] = {"columns": list(field.columns)}
            categories = field.declared().get("categories")
            if categories:
                meaning["domain"] = Domain(categories)
            meaning |= field.parameters()
            meaning["shape"] = list(field.shape)
            fields.append(meaning)
        # They decide how estimates of samples are combined.
        weights = None if self.sampling is None else list(self.sampling.weights)
        return {
            "encoder": self.encoder,
            "fields": fields,
            "n_sampled": self.n_sampled,
            "weights": weights,
        }

    def tally(self, reports: Reports) -> ReportTally:
        """Sum up reports.

        Parameters
        ----------
        reports : list of ndarray
            What `read` or `randomise` returned.

        Returns
        -------
        ReportTally
            The sums.
        """
        parts = self.parts(reports)
        sums = []
        for field, field_reports in zip(self.fields, parts, strict=True):
            sums.append(field.sums(field_reports))
        return ReportTally(
            self.meaning, tuple(sums), tuple(map(len, parts)), len(reports[0])
        )

    def empty_tally(self) -> ReportTally:
        """Return the tally of no reports.

        Returns
        -------
        ReportTally
            Zeros.
        """
        sums = []
        for field in self.fields:
            sums.append(np.zeros(field.shape, np.int64))
        return ReportTally(self.meaning, tuple(sums), (0,) * len(sums), 0)

    def tally_counts(self, rows: Any, counts: NDArray[np.int64]) -> ReportTally:
        """Sum up the distinct rows of some report columns.

        Parameters
        ----------
        rows : dataframe
            Distinct rows of one or more sets of `counted_columns`.
        counts : ndarray of int64
            How often each row occurs.

        Returns
        -------
        ReportTally
            Those of all sets of columns add up to the tally of the reports.

        Raises
        ------
        ValueError
            If these are not reports of this protocol.
        """
        table = read_table(rows)
        columns = dict(zip(table.names, table.columns, strict=True))
        total = int(counts.sum())
        sums = []
        sizes = []
        for field, names in zip(self.fields, self._names, strict=True):
            if {*names} <= {*columns}:
                field_reports = field.read(_selected(columns, names), slice(None))
                sums.append(field.distinct_sums(field_reports, counts))
                sizes.append(total)
            else:
                sums.append(np.zeros(field.shape, np.int64))
                sizes.append(0)
        # The records are counted with the first field, as with each of the others.
        return ReportTally(self.meaning, tuple(sums), tuple(sizes), sizes[0])

    def estimate(self, tally: ReportTally, **options: Any) -> pd.DataFrame:
        """Estimate what the reports were made for.

        Parameters
        ----------
        tally : ReportTally
            What `tally` returned.
        **options : dict
            Those of `Field.estimate`.

        Returns
        -------
        pandas.DataFrame
            The estimates of the only field, or those of all by column and value.

        Raises
        ------
        ValueError
            If the tally is of another protocol.
        """
        check_tally(tally, self.meaning)
        tables = {}
        for place, field in enumerate(self.fields):
            table = field.estimate(
                tally.counts[place], tally.sizes[place], tally.n_reports, **options
            )
            if len(self.fields) == 1:
                return table
            label = field.columns[0] if len(field.columns) == 1 else field.columns
            tables[label] = table
        return concat_columns(tables)

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        """Return the exact channel of each attribute of a record, for audits.

        Parameters
        ----------
        most_entries : int
            How large a channel may be.

        Returns
        -------
        list of iterators, or None
            For each attribute its channel, or several of which the public field of a
            report chooses one; None if they are too large, or not known.
        """
        channels = []
        for field in self.fields:
            field_channels = field.channels(most_entries)
            if field_channels is None:
                return None
            channels += field_channels
        return channels

    def shuffle_pairs(self, released: Released) -> tuple[ReportPair, ...]:
        """Return what `shuffled_guarantee` needs to know of a record's report.

        Parameters
        ----------
        released : {"reports", "tally"}
            What is released after shuffling.

        Returns
        -------
        tuple of ReportPair
            A pair for each field of the report that is shuffled by itself; where more
            is not known, one, of the worst randomiser with the epsilon of `guarantee`.
        """
        worst_case = (any_pair(self.guarantee.epsilon),)
        pairs = []
        for field in self.fields:
            pair = field.shuffle_pair()
            if pair is None:
                return worst_case
            pairs.append(pair)
        report_pairs = drawn_pair(pairs, self.sampling, released)
        return worst_case if report_pairs is None else report_pairs

    def cost_of_changes(self, n_values: int) -> Fraction:
        """Add up the epsilons of a record's permanent reports.

        Parameters
        ----------
        n_values : int
            Of how many values of each field.

        Returns
        -------
        Fraction
            The sum for the fields that a record reports; of a sample, the largest one.
        """
        costs = []
        for field in self.fields:
            assert field.n_states is not None
            costs.append(Fraction(field.epsilon) * min(n_values, field.n_states))
        # Which fields a record reports is permanent, too.
        largest_costs = sorted(costs, reverse=True)[: self.n_sampled]
        return sum(largest_costs, Fraction(0))

    def parameters(self) -> dict[str, Any]:
        """Return what decides the reports of a row.

        Returns
        -------
        dict
            Plain text, numbers and lists; ``"reports"`` is what a tally says. No key
            and no seed.
        """
        meaning = self.meaning
        fields = list(map(plain_field, meaning["fields"]))
        return {
            "columns": list(self.columns),
            "reports": meaning | {"fields": fields},
            "unknown": [field.unknown for field in self.fields],
        }

    def without_secrets(self) -> Self:
        """Return the same protocol without the key of permanent reports.

        Returns
        -------
        protocol
            Enough to read, sum up and estimate.
        """
        return replace(self, memo=None)

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
                    "record_id requires permanent reports (memoize=True, or a RAPPOR "
                    "secret_key)"
                )
            return []
        if record_id is None:
            raise ValueError(
                "permanent reports require record_id, an id for each row; in a "
                "Pipeline, route it with set_transform_request(record_id=True)"
            )
        ids = read_record_ids(record_id, n_rows)
        if not are_distinct(ids):
            # Rows of one record with different values would cost more than the one
            # charge of a call.
            raise ValueError(
                "record_id has repeated entries; a record reports once in a call"
            )
        return ids


def _selected(values: Mapping[Any, Any], names: Sequence[Any]) -> list[Any]:
    """Return the values of some names, in their order."""
    return [values[name] for name in names]


def _places(
    drawn: NDArray[np.bool_], size: int, dtype: np.dtype[Any]
) -> NDArray[np.integer]:
    """Return the places of the `size` fields that each row reports, ascending."""
    if size == 1:
        # The sum of the numbers of all columns that are True, which is one.
        numbers = np.arange(drawn.shape[1], dtype=dtype)
        places: NDArray[np.integer] = numbers @ drawn.T
        return places.reshape(-1, 1)
    return np.nonzero(drawn)[1].reshape(len(drawn), size).astype(dtype)
