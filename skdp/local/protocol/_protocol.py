"""Protocol of a local transformer, which converts rows to reports and reports to estimates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from fractions import Fraction
from itertools import chain
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import ColumnLike, Mask, TableLike
from skdp.domain import Categories, Domain, FoundCategories
from skdp.exact import exp_bounds, log_upper, round_up
from skdp.local._memo import Memo, encode_person_ids
from skdp.local._tally import ReportTally, check_tally, domain_to_lists
from skdp.local.protocol._fields import (
    CategoryField,
    Channel,
    ColumnCodes,
    Field,
    OracleField,
    Randomness,
)
from skdp.local.protocol._report_columns import (
    SAMPLED,
    Reports,
    concat_columns,
    parse_report_table,
    parse_sampled_indices,
    scatter_rows,
)
from skdp.privacy import PrivacyGuarantee, PureLoss, ReportPair
from skdp.randomness import ByteSource, uniform_integers
from skdp.tables import Table, nan_to_null


@dataclass(frozen=True)
class Sampling:
    """Random choice of one field for each record, in proportion to the weights of the fields."""

    weights: tuple[int, ...]

    @property
    def inclusions(self) -> list[Fraction]:
        """Probability that a record reports each field."""
        total = sum(self.weights)
        return [Fraction(weight, total) for weight in self.weights]

    def draw(self, source: ByteSource, n_rows: int) -> Mask:
        """Draw the field of each row; return a mask of shape (n_rows, n_fields).

        The number of random bytes is fixed.
        """
        # The integers below the sum of the weights are divided into consecutive intervals,
        # whose lengths are the weights. A record reports the field whose interval
        # contains its uniform integer.
        integers = uniform_integers(source, sum(self.weights), n_rows)
        indices = np.searchsorted(np.cumsum(self.weights), integers, "right")
        return make_selection_mask(indices, len(self.weights))


def make_selection_mask(indices: NDArray[np.integer], n_fields: int) -> Mask:
    """Make a mask of shape (n_rows, n_fields) from the index of the field of each row."""
    # The transpose makes columns contiguous, because they are read one by one.
    fields = np.arange(n_fields, dtype=indices.dtype)
    return (indices == fields[:, np.newaxis]).T


@dataclass(frozen=True, eq=False, repr=False)
class ReportProtocol:
    """Protocol that converts records to reports, and reports to estimates.

    Each fitted local transformer has the attribute ``protocol_``. It depends on declared
    values and parameters only, is immutable, and can be pickled.

    A release is ``write(randomize(prepare(table), records, randomness), table)``:
    `prepare` raises all errors, then the ledger is charged, then random bits are drawn.
    The reports of a record do not depend on other records.

    Parameters
    ----------
    encoder : str
        Name of the transformer. Tallies of different transformers cannot be added.
    fields : tuple of Field
        Fields, which report one or several columns each.
    guarantee : PrivacyGuarantee
        Guarantee of one release or, for permanent reports, of all releases of unchanged
        values. Its ``scope`` contains the columns in their order. Columns whose categories were
        read from the data are moved to its ``observed``.
    sampling : Sampling, default=None
        Random choice of the field that a record reports, independent of its values. The
        column ``sampled`` contains its index. None reports all fields.
    memo : Memo, default=None
        Key and contexts of permanent reports. None draws new reports in each release.
    chosen : mapping, default={}
        Parameters of the transformer that `fit` selected, by name.
    columns : tuple of str, default=()
        Names of the privatized columns. By default the scope of the guarantee.

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
    memo: Memo | None = None
    chosen: Mapping[str, Any] = attribute(default_factory=dict)
    columns: tuple[Any, ...] = ()

    # Declared values of the categorical columns, and of those columns whose reports are
    # values; None if there are no such columns.
    domain: Domain | None = attribute(init=False)
    values: Domain | None = attribute(init=False)
    # Names of the report columns in the order of the output, and of each field.
    report_columns: list[Any] = attribute(init=False)
    _field_names: list[list[Any]] = attribute(init=False)

    def __post_init__(self) -> None:
        # Derive attributes from the fields: `domain` has the declared values of all
        # columns, `values` of the columns whose reports are values themselves, and
        # `report_columns` are the names of the columns of the reports.
        stated = self.guarantee.scope + self.guarantee.observed
        columns = self.columns or stated
        object.__setattr__(self, "columns", columns)
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
        differing = reported_columns ^ {*stated}
        if differing:
            raise ValueError(
                "The scope of the guarantee and the fields must have the same columns. "
                f"Only one of them has {', '.join(sorted(map(repr, differing)))}."
            )
        # The order of the columns of the domain determines joint codes.
        ordered = {name: declared[name] for name in self.columns if name in declared}
        observed = [name for name, values in ordered.items() if values.observed]
        computed = {
            "guarantee": replace(
                self.guarantee, scope=columns, observed=tuple(observed)
            ),
            "domain": Domain(ordered) if ordered else None,
            "values": Domain(value_columns) if value_columns else None,
            "report_columns": self._order_names(names, self.columns),
            "_field_names": names,
        }
        for name, value in computed.items():
            object.__setattr__(self, name, value)

    def _order_names(
        self, names: Sequence[list[Any]], inputs: Sequence[Any]
    ) -> list[Any]:
        """Return the names of all report columns in the order of the output.

        `names` has the report columns of each field, and `inputs` the columns of the input.
        """
        ordered = list(chain.from_iterable(names))
        # If the report columns are the input columns, they keep the order of the input.
        if len(ordered) == len(inputs) and {*ordered} == {*inputs}:
            ordered = list(inputs)
        if self.sampling is not None:
            ordered.append(SAMPLED)
        if len({*ordered}) < len(ordered):
            raise ValueError(
                "The report columns must have different names, got equal names. Rename "
                "columns or categories."
            )
        return ordered

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.guarantee!r})"

    @property
    def n_sampled(self) -> int | None:
        """Number of fields that a record reports; None if it reports all fields."""
        return None if self.sampling is None else 1

    @property
    def strategy(self) -> str | None:
        """Strategy of an `OracleEncoder` with such fields; None for other protocols."""
        if not all(isinstance(field, CategoryField) for field in self.fields):
            return None
        groups = [field.columns for field in self.fields]
        if self.sampling is None and len(groups) == 1 < len(self.columns):
            return "joint"
        if groups != [(name,) for name in self.columns]:
            return None
        if self.sampling is None:
            return "split"
        return "sample" if len({*self.sampling.weights}) == 1 else None

    @property
    def oracles(self) -> tuple[Any, ...]:
        """Oracle of each field that has an oracle: categorical columns, and columns of sets."""
        fields = [field for field in self.fields if isinstance(field, OracleField)]
        return tuple(field.oracle for field in fields)

    @property
    def permanent_key(self) -> bytes | None:
        """Secret key of permanent reports, or None."""
        return None if self.memo is None else self.memo.key

    @property
    def declared(self) -> dict[str, Any]:
        """Parameters of the transformer that fix its declarations, such as ``categories``."""
        declared: dict[str, Any] = {}
        for field in self.fields:
            for parameter, declarations in field.declared().items():
                by_column = declared.setdefault(parameter, {})
                for name, declaration in declarations.items():
                    is_found = isinstance(declaration, FoundCategories)
                    if isinstance(declaration, Categories) and not is_found:
                        declaration = list(declaration.values)
                    by_column[name] = declaration
        return declared | dict(self.chosen)

    def names(self, inputs: Sequence[str]) -> list[Any]:
        """Name the report columns after the input columns.

        Parameters
        ----------
        inputs : sequence of str
            Names of `columns` in the input.

        Returns
        -------
        list of str
            Names in the order of `report_columns`.

        Raises
        ------
        ValueError
            If two names are equal.
        """
        groups = self._group_by_field(inputs)
        names = [
            field.names(group) for field, group in zip(self.fields, groups, strict=True)
        ]
        return self._order_names(names, inputs)

    def _group_by_field(self, values: Sequence[Any]) -> list[list[Any]]:
        """Return the entries of `values`, one for each column, of the columns of each field."""
        by_column = dict(zip(self.columns, values, strict=True))
        return [_select_entries(by_column, field.columns) for field in self.fields]

    # From rows to reports.

    def prepare(self, table: Table) -> ColumnCodes:
        """Encode the rows of a table. Only this method may raise an error in a release.

        Parameters
        ----------
        table : Table
            True values of `columns`, in this order.

        Returns
        -------
        list of ndarray
            Array for each column of each field, with numbers or objects of the type bytes.

        Raises
        ------
        TypeError, ValueError
            If a value cannot be reported, or reports cannot be written into a table of
            this type.
        """
        codes: ColumnCodes = []
        groups = self._group_by_field(table.columns)
        for field, columns in zip(self.fields, groups, strict=True):
            arrays = field.prepare(columns)
            if len(arrays) != len(field.columns):
                raise ValueError(
                    f"{type(field).__name__}.prepare must return {len(field.columns)} "
                    f"array(s), one for each of its columns, got {len(arrays)}."
                )
            codes += arrays
        return codes

    def randomize(
        self, codes: ColumnCodes, records: list[bytes], randomness: Randomness
    ) -> Reports:
        """Draw the reports of encoded rows.

        Parameters
        ----------
        codes : list of ndarray
            Output of `prepare`.
        records : list of bytes
            Output of `read_records`.
        randomness : callable
            ``randomness(purpose, *columns)`` returns a source of random bits.

        Returns
        -------
        list of ndarray
            Reports of each field, with a row for each record.
        """
        if self.memo is not None:
            return self._draw_permanent(codes, records, randomness)
        reports = []
        for field, field_codes in zip(self.fields, self._split(codes), strict=True):
            # Records that do not report the field draw a report as well, so that the run
            # time and the random bits do not depend on the sample.
            reports.append(field.report(field_codes, randomness))
        if self.sampling is None:
            return reports
        # The sample is public, because it does not depend on the data.
        drawn = self.sampling.draw(randomness("sample"), len(codes[0]))
        return _apply_sample(reports, drawn)

    def _draw_permanent(
        self, codes: ColumnCodes, records: list[bytes], randomness: Randomness
    ) -> Reports:
        """Draw permanent reports from the secret key, and add the noise of instantaneous reports.

        `codes` are the encoded columns, and `records` the encoded ids of persons. The
        result has an array of reports for each field.
        """
        assert self.memo is not None
        pseudonyms = self.memo.make_pseudonyms(records)  # (n_records, 16)
        drawn = None
        if self.sampling is not None:
            # The sample is permanent, because a record with new samples would report all
            # of its fields after some releases.
            drawn = self.memo.sample(self.sampling, pseudonyms)
        reports = []
        for index, field_codes in enumerate(self._split(codes)):
            field = self.fields[index]
            rows: Any = slice(None) if drawn is None else drawn[:, index]
            drawn_codes = [column[rows] for column in field_codes]
            draws = self.memo.make_draws(index, pseudonyms[rows])
            report = field.report_permanent(drawn_codes, draws)
            if drawn is not None:
                report = scatter_rows(report, rows)
            reports.append(field.report_again(report, randomness))
        return reports if drawn is None else _apply_sample(reports, drawn)

    def _split(self, codes: ColumnCodes) -> Iterator[ColumnCodes]:
        """Yield the encoded columns of each field."""
        start = 0
        for field in self.fields:
            end = start + len(field.columns)
            yield codes[start:end]
            start = end

    def write(self, reports: Reports, table: Table) -> Any:
        """Write reports as a dataframe or array.

        Parameters
        ----------
        reports : list of ndarray
            Output of `randomize`.
        table : Table
            Input of `prepare`, which determines the library, dtypes and row index.

        Returns
        -------
        same type as the table
            Reports in `report_columns`.
        """
        drawn = None if self.sampling is None else reports[-1]
        blocks: list[Any] = []
        groups = self._group_by_field(table.columns)
        for index, (field, like) in enumerate(zip(self.fields, groups, strict=True)):
            rows = None if drawn is None else drawn[:, index]
            blocks += field.write(reports[index], like, rows)
        # A field may write all of its columns as one array. Only single columns have to
        # be sorted.
        names = list(chain.from_iterable(self._field_names))
        ordered = self.report_columns[: len(names)]
        if names != ordered:
            blocks = _select_entries(dict(zip(names, blocks, strict=True)), ordered)
        if self.sampling is not None:
            # The mask has one True in each row, and its product with the indices of the
            # fields is the index of this field.
            dtype = np.min_scalar_type(len(self.fields) - 1)
            indices = np.arange(len(self.fields), dtype=dtype) @ reports[-1].T
            blocks.append(indices.reshape(-1, 1))
        X_out = table.rebuild(blocks, self.report_columns)
        # In dataframes, the NaN of fields that a record does not report becomes missing.
        return X_out if drawn is None else nan_to_null(X_out)

    def encode(self, table: Table, randomness: Randomness) -> Any:
        """Write true values in the format of reports, without noise. Not private.

        Parameters
        ----------
        table : Table
            See `prepare`.
        randomness : callable
            See `randomize`.

        Returns
        -------
        same type as the table
            True values in the columns of the fields.

        Raises
        ------
        ValueError
            If there is no encoding without noise.
        """
        blocks = []
        groups = self._group_by_field(table.columns)
        for field, columns in zip(self.fields, groups, strict=True):
            blocks += field.encode(columns, randomness)
        return table.rebuild(blocks, list(chain.from_iterable(self._field_names)))

    def check_encodable(self) -> None:
        """Check that all fields have an encoding without noise.

        Raises
        ------
        ValueError
            If a field has none.
        """
        if self.sampling is not None:
            raise ValueError(
                "`strategy='sample'` has no encoding without noise. Use 'split' or "
                "'joint'."
            )
        for field in self.fields:
            field.check_encodable()

    def read_records(self, person: ColumnLike, n_rows: int) -> list[bytes]:
        """Check the ids of the records, and encode them as bytes.

        Parameters
        ----------
        person : array-like of shape (n_rows,) or None
            Distinct ids, required for permanent reports and only for them.
        n_rows : int
            Number of rows.

        Returns
        -------
        list of bytes
            Id of each row; empty without permanent reports.

        Raises
        ------
        TypeError, ValueError
            If ids are missing, repeated, too few, or not expected.
        """
        if self.permanent_key is None:
            if person is not None:
                raise ValueError(
                    "`person` requires permanent reports. Set memoize=True and "
                    "secret_key (RapporEncoder: only secret_key)."
                )
            return []
        if person is None:
            raise ValueError(
                "Permanent reports require `person`, an id for each row. In a "
                "Pipeline, route it with set_transform_request(person=True)."
            )
        ids = encode_person_ids(person, n_rows)
        if len({*ids}) < len(ids):
            # Two rows of a record would cost more than the charge of one release.
            raise ValueError(
                "`person` has repeated entries. Pass one row for each record."
            )
        return ids

    # From reports to estimates.

    def report_table(self, reports: TableLike | ReportTally) -> Table:
        """Split a dataframe or array of reports into columns, without checking values.

        Parameters
        ----------
        reports : dataframe or array-like
            Reports.

        Returns
        -------
        Table
            `report_columns`, as ``columns``.

        Raises
        ------
        TypeError, ValueError
            If the columns differ from `report_columns`. Error messages contain no values.
        """
        return parse_report_table(reports, self.report_columns)

    def read(self, reports: TableLike | ReportTally) -> Reports:
        """Read and check a dataframe or array of reports.

        Parameters
        ----------
        reports : dataframe or array-like
            Output of `write`, which may have been stored and loaded.

        Returns
        -------
        list of ndarray
            Reports of each field, and the mask of the reported fields if they are sampled.

        Raises
        ------
        ValueError
            If the reports are not of this protocol.
        """
        table = self.report_table(reports)
        columns = dict(zip(self.report_columns, table.columns, strict=True))
        field_columns = [_select_entries(columns, names) for names in self._field_names]
        drawn = None
        if self.sampling is not None:
            n_fields = len(self.fields)
            drawn = make_selection_mask(
                parse_sampled_indices(columns[SAMPLED], n_fields), n_fields
            )
        arrays = []
        for index, field in enumerate(self.fields):
            rows: Any = slice(None) if drawn is None else drawn[:, index]
            part = field.read(field_columns[index], rows)
            arrays.append(part if drawn is None else scatter_rows(part, rows))
        return arrays if drawn is None else [*arrays, drawn]

    def report_mask(self, reports: Reports) -> Mask:
        """Return a mask of the fields that each record reports.

        Parameters
        ----------
        reports : list of ndarray
            Output of `read` or `randomize`.

        Returns
        -------
        ndarray of bool, shape (n_records, n_fields)
            Mask, which is True everywhere if fields are not sampled.
        """
        if self.sampling is not None:
            return reports[-1]
        return np.ones((len(reports[0]), len(self.fields)), bool)

    def parts(self, reports: Reports) -> list[NDArray[Any]]:
        """Return the reports of the rows that report each field.

        Parameters
        ----------
        reports : list of ndarray
            Output of `read` or `randomize`.

        Returns
        -------
        list of ndarray
            Reports of each field.
        """
        if self.sampling is None:
            return reports
        *reports, drawn = reports
        parts = []
        for report, rows in zip(reports, drawn.T, strict=True):
            # Indices select rows twice as fast as a mask.
            parts.append(report[np.flatnonzero(rows)])
        return parts

    @property
    def meaning(self) -> dict[str, Any]:
        """Parameters that determine the meaning of the reports and of their sums."""
        fields = []
        for field in self.fields:
            meaning: dict[str, Any] = {"columns": list(field.columns)}
            categories = field.declared().get("categories")
            if categories:
                meaning["domain"] = Domain(categories)
            fields.append(meaning | field.parameters() | {"shape": list(field.shape)})
        weights = None if self.sampling is None else list(self.sampling.weights)
        return {
            "encoder": self.encoder,
            "fields": fields,
            "weights": weights,
        }

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that determine the reports of a row, without secrets.

        Returns
        -------
        dict
            Text, numbers and lists. The entry ``"reports"`` is `meaning`.
        """
        meaning = self.meaning
        fields = list(map(domain_to_lists, meaning["fields"]))
        return {
            "columns": list(self.columns),
            "reports": meaning | {"fields": fields},
            "unknown": [field.unknown for field in self.fields],
        }

    def tally(self, reports: Reports) -> ReportTally:
        """Sum reports.

        Parameters
        ----------
        reports : list of ndarray
            Output of `read` or `randomize`.

        Returns
        -------
        ReportTally
            Sums.
        """
        parts = self.parts(reports)
        sums = []
        for field, field_reports in zip(self.fields, parts, strict=True):
            sums.append(field.sums(field_reports))
        sizes = tuple(map(len, parts))
        return ReportTally(self.meaning, tuple(sums), sizes, len(reports[0]))

    def empty_tally(self) -> ReportTally:
        """Return an empty tally, to which other tallies can be added.

        Returns
        -------
        ReportTally
            Tally of 0 reports.
        """
        sums = [np.zeros(field.shape, np.int64) for field in self.fields]
        return ReportTally(self.meaning, tuple(sums), (0,) * len(sums), 0)

    def estimate(self, tally: ReportTally, **options: object) -> pd.DataFrame:
        """Estimate the statistics of all fields.

        Parameters
        ----------
        tally : ReportTally
            Output of `tally`.
        **options : dict
            Options of `Field.estimate`.

        Returns
        -------
        pandas.DataFrame
            Estimates of the only field, or of all fields indexed by (column, value).

        Raises
        ------
        ValueError
            If the tally is of another protocol.
        """
        check_tally(tally, self.meaning)
        tables = {}
        for index, field in enumerate(self.fields):
            table = field.estimate(
                tally.counts[index], tally.sizes[index], tally.n_reports, **options
            )
            if len(self.fields) == 1:
                return table
            label = field.columns[0] if len(field.columns) == 1 else field.columns
            tables[label] = table
        return concat_columns(tables)

    # Guarantees and audits.

    def channels(self, max_entries: int) -> list[Iterator[Channel]] | None:
        """Return the exact channels of all fields.

        Parameters
        ----------
        max_entries : int
            Maximum number of entries of a channel.

        Returns
        -------
        list of iterators, or None
            See `Field.channels`.
        """
        channels = []
        for field in self.fields:
            field_channels = field.channels(max_entries)
            if field_channels is None:
                return None
            channels += field_channels
        return channels

    def shuffle_pairs(self, released: str) -> tuple[ReportPair, ...]:
        """Return the pairs of values that shuffling protects least, for `shuffled_guarantee`.

        Parameters
        ----------
        released : {"reports", "tally"}
            Output after shuffling: the shuffled reports, or only their sums.

        Returns
        -------
        tuple of ReportPair
            A pair for each part of a record that is shuffled separately. If no such pairs
            are known, the worst-case pair for the epsilon of `guarantee`.
        """
        largest_ratio = exp_bounds(self.guarantee.epsilon)[1]
        worst_case = (ReportPair.from_ratio(largest_ratio),)
        pairs = []
        for field in self.fields:
            pair = field.shuffle_pair()
            if pair is None:
                return worst_case
            pairs.append(pair)
        return combine_pairs(pairs, self.sampling, released) or worst_case

    def without_secrets(self) -> Self:
        """Return the protocol without the key of permanent reports.

        Returns
        -------
        protocol
            Protocol that can read and sum reports, and estimate.
        """
        return replace(self, memo=None)


def _select_entries(values: Mapping[Any, Any], names: Sequence[Any]) -> list[Any]:
    """Return the entry of each name, in the order of the names."""
    return [values[name] for name in names]


def _apply_sample(reports: Reports, drawn: Mask) -> Reports:
    """Set the reports of fields that a record does not report to 0, and append the mask of the sample.

    `drawn` is the mask, of shape (n_records, n_fields).
    """
    for report, rows in zip(reports, drawn.T, strict=True):
        report[~rows] = 0
    return [*reports, drawn]


# Guarantees and shuffled reports.


def make_guarantee(
    mechanisms: Sequence[Any],
    sampling: Sampling | None = None,
    *,
    is_permanent: bool = False,
    **statement: Any,
) -> PrivacyGuarantee:
    """Make the guarantee of a record that reports with all mechanisms, or with the one that `sampling` draws.

    `mechanisms` are oracles and numeric mechanisms. If `is_permanent` is True, all
    reports of a record are with the same drawn mechanism. `statement` has the other
    fields of the guarantee.
    """
    ratios = [mechanism.worst_ratio for mechanism in mechanisms]
    if sampling is None:
        # The reports are independent given the values, so their probabilities multiply.
        losses = tuple(mechanism.loss for mechanism in mechanisms)
        ratio = math.prod(ratios, start=Fraction(1))
        return PrivacyGuarantee(log_upper(ratio), losses=losses, **statement)
    ratio = max(ratios)
    # The drawn mechanism is public, so the total variation of a report is the mean over the
    # mechanisms. In permanent reports, a record has one of them forever: the worst case.
    variations, mean = [], Fraction(0)
    for mechanism, inclusion in zip(mechanisms, sampling.inclusions, strict=True):
        variations.append(mechanism._relative_variation(ratio))
        mean += inclusion * variations[-1]
    variation = max(variations) if is_permanent else mean
    loss = PureLoss(log_upper(ratio), share=round_up(variation))
    return PrivacyGuarantee(loss.epsilon, losses=(loss,), **statement)


def combine_pairs(
    pairs: Sequence[ReportPair], sampling: Sampling | None, released: str
) -> tuple[ReportPair, ...] | None:
    """Combine the worst-case pairs of values of the fields into pairs for a shuffled record.

    A pair contains the report distributions of the two values that are easiest to
    distinguish.

    The result has a pair for each part of a record that is shuffled separately: for each
    field if only tallies are released, otherwise for the whole record. It is None if the
    pairs of the fields do not determine it.
    """
    is_equal = all(pair == pairs[0] for pair in pairs)
    if not is_equal and not all(pair.is_symmetric for pair in pairs):
        return None
    # Two records that differ in every field are the worst pair. Let x0 and x1 be the two
    # values of a field, m the blanket, a lower bound of P(y | x) for every x, and a = P(y |
    # x0) / m(y) and b = P(y | x1) / m(y) the ratios of a report y of this field. A and B
    # are the products of these ratios over the other fields. The divergence is the mean of
    # g(a, b) = f(A a - t B b) for a convex f and t > 0, so g is convex and has decreasing
    # differences. The field is symmetric: if a report has the ratios (u, v), another report
    # with the same mass has (v, u). If both records had the value x0 or x1, the ratios
    # would be (u, u) and (v, v). Decreasing differences imply
    #     g(u, v) + g(v, u) >= g(u, u) + g(v, v),
    # so different values give a larger divergence. By the same inequality, two values
    # whose supports share fewer reports give a larger divergence, if u is the ratio inside
    # and v the ratio outside of a support. A pair of `from_ratio` bounds all pairs of
    # values, because their reports are post-processed reports of that pair.
    if sampling is None:
        return tuple(pairs) if released == "tally" else (ReportPair.product(pairs),)
    return (ReportPair.mixture(zip(sampling.inclusions, pairs, strict=True)),)
