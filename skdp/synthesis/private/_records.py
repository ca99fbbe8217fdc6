"""Encoding of a private table by its public domain, in memory or in an engine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from skdp._arrays import Codes, ColumnLike, ColumnName, Indices, Integers, Mask
from skdp.base import check_choice
from skdp.central.statistics import (
    Batches,
    count_marginals,
    encode_columns,
    make_undeclared_error,
    select_domain,
)
from skdp.domain import Categories, Domain, Interval, round_numbers
from skdp.readers import LargeTable
from skdp.synthesis.model import Clique, n_cells_of, shape_of
from skdp.tables import Table, wrap_table

GroupedColumn = tuple[int, Indices]
"""The index of a column, and the group of each of its values in ascending order."""

MAX_LOADED_CELLS = 1 << 22
"""Largest number of combinations of values for which a large table is loaded: 32 megabytes of counts."""

MAX_BINARY_COLUMNS, RECORDS_PER_BLOCK, MAX_STACKED_CELLS = 62, 1 << 13, 1 << 21
"""Largest numbers of columns and records whose bits are counted at once, and of cells of stacked marginals."""

Policy = Literal["error", "clip", "ignore"]
POLICIES = get_args(Policy)
HandleUnknown = Policy | Mapping[ColumnName, object]
"""What becomes of undeclared values, for all columns, or by column: \"clip\" or a declared value."""

CATEGORIES_ADVICE = "Or set `handle_unknown='ignore'`, which excludes such rows"
"""Remedy for an undeclared value of a column of listed values."""

INTERVAL_ADVICE = (
    "Or set `handle_unknown='clip'`, which moves numbers, but not missing values, to the "
    "bounds and rounds them to the declared decimals, or `handle_unknown='ignore'`, which "
    "excludes such rows"
)
"""Remedy for an undeclared value of a column with bins."""


def read_codes(
    table: Table, domain: Domain, handle_unknown: HandleUnknown
) -> list[Codes]:
    """Encode the columns of a table; raise an error for an undeclared value that `handle_unknown` does not handle."""
    codes, undeclared = encode_records(table, domain, handle_unknown)
    if undeclared:
        raise explain_undeclared(undeclared[0], Batches(table), domain)
    return codes


def encode_records(
    table: Table, domain: Domain, handle_unknown: HandleUnknown
) -> tuple[list[Codes], list[Any]]:
    """Encode the columns of a table; also list the columns with undeclared values that are errors.

    An undeclared value has the number of declared values as its code. `handle_unknown` is "error", "clip" or "ignore",
    or maps columns to "clip" or to a declared value that replaces undeclared values. A number with more decimals than
    declared is an undeclared value; "clip" rounds it.
    """
    codes, unlisted = encode_columns(table, domain, "error")
    undeclared = []
    for index, name in enumerate(domain.columns):
        values = domain[name]
        column_codes = codes[index]
        size = domain.sizes[index]
        policy: object = handle_unknown
        if isinstance(handle_unknown, Mapping):
            policy = handle_unknown.get(name, "error")
        # A replacement may be a value of any type.
        is_clipped = isinstance(policy, str) and policy == "clip"
        if isinstance(values, Interval) and values.decimals is not None:
            _round_codes(
                column_codes, values, table.columns[index], is_clipped=is_clipped
            )
        if is_clipped and isinstance(values, Interval):
            if name in unlisted:
                _clip(column_codes, values, table.columns[index])
        elif isinstance(handle_unknown, Mapping) and name in handle_unknown:
            replacement = _encode_replacement(name, values, policy)
            column_codes[column_codes == size] = replacement
        if handle_unknown != "ignore" and (column_codes == size).any():
            undeclared.append(name)
    return codes, undeclared


def explain_undeclared(
    name: ColumnName, rows: Batches, domain: Domain, advice: str | None = None
) -> ValueError:
    """Return the error for a column with an undeclared value, without the value."""
    is_binned = isinstance(domain[name], Interval)
    advice = advice or (INTERVAL_ADVICE if is_binned else CATEGORIES_ADVICE)
    words = {"where": "declared domain", "advice": advice}
    return make_undeclared_error(name, rows, domain, is_exact=True, **words)


def check_policy(
    handle_unknown: HandleUnknown, domain: Domain, found: Collection[Any]
) -> None:
    """Check the parameter `handle_unknown`, and the column names of a mapping; `found` are columns that are found."""
    if not isinstance(handle_unknown, Mapping):
        check_choice("handle_unknown", handle_unknown, POLICIES)
        return
    for name in handle_unknown:
        if name not in domain.columns:
            raise ValueError(
                "`handle_unknown` must name columns of the model, "
                f"{list(domain.columns)}, got {name!r}."
            )
        if name in found:
            raise ValueError(
                "`handle_unknown` must name columns with declared values, got "
                f"{name!r}, whose values are found. Declare them."
            )


def _encode_replacement(
    name: ColumnName, values: Categories | Interval, value: object
) -> int:
    """Return the code of the declared value that replaces the undeclared values of a column.

    `values` are the declared values of the column `name`, and `value` is the replacement.
    """
    is_number = isinstance(values, Interval) and values.dtype.kind == "f"
    code = len(values)
    if not is_number or value is None or isinstance(value, Real):
        (code,) = values.encode(np.array([value], float if is_number else object))
    if (
        isinstance(values, Interval)
        and values.decimals is not None
        and code < len(values)
    ):
        number = np.array([value], float)
        is_declared = not round_numbers(number, values.decimals)[1].size
        code = code if is_declared else len(values)
    if code == len(values):
        or_clip = " or 'clip'" if is_number else ""
        raise ValueError(
            f"`handle_unknown` of column {name!r} must be one of its declared values"
            f"{or_clip}, got an undeclared {type(value).__name__}."
        )
    return int(code)


def _round_codes(
    codes: Codes, interval: Interval, column: ColumnLike, *, is_clipped: bool
) -> None:
    """Change the codes of numbers with more decimals than declared: to undeclared, or by rounding if `is_clipped`."""
    numbers = interval.read(column)
    rounded, moved, is_excess = round_numbers(numbers, interval.decimals or 0)
    nearest = interval.encode(rounded[moved])
    # The nearest declared number of a number within the bounds may be outside of them.
    codes[moved] = np.where(nearest < len(interval), nearest, codes[moved])
    if not is_clipped:
        codes[moved[is_excess]] = len(interval)


def _clip(codes: Codes, interval: Interval, column: ColumnLike) -> None:
    """Change the codes of values outside the bounds, including infinite values, to the first or last bin."""
    values = interval.read(column)
    edges = np.array(interval.edges, values.dtype)
    codes[values < edges[0]] = 0
    codes[values > edges[-1]] = len(interval.edges) - 2


class CodedRecords:
    """Private records in memory, as integer codes of each column."""

    def __init__(
        self,
        codes: Sequence[Codes],
        sizes: Sequence[int],
        weights: Integers | None = None,
        encode: Callable[[Mapping[int, Interval]], Mapping[int, Codes]] | None = None,
        *,
        is_large: bool = False,
    ) -> None:
        """Store the codes of each column, and an integer weight of each record, by default 1.

        `encode` encodes some columns again, by other cells. If `is_large`, the records were read from an engine.
        """
        self.codes = codes
        self.sizes = tuple(sizes)
        self.weights = weights
        self.is_large = is_large
        self._encode = encode

    def refine(self, cells: Mapping[int, Interval]) -> CodedRecords:
        """Return the records with some columns, by index, encoded by other cells."""
        assert self._encode
        codes, sizes = list(self.codes), list(self.sizes)
        for column, column_codes in self._encode(cells).items():
            codes[column] = column_codes
            sizes[column] = len(cells[column])
        return CodedRecords(
            codes, sizes, self.weights, self._encode, is_large=self.is_large
        )

    def count(self, cliques: Sequence[Clique]) -> Iterator[Integers]:
        """Yield the sums of the weights of the records in the cells of each marginal, with an axis for each column."""
        # Successive marginals often differ in the last column only.
        shared: tuple[Clique, int] | None = None
        scaled = np.zeros(self.n_records, np.intp)
        cells = np.empty_like(scaled)
        for clique in cliques:
            *others, last = clique
            size = self.sizes[last]
            if (tuple(others), size) != shared:
                shared = tuple(others), size
                scaled[:] = 0
                for column in others:
                    scaled *= self.sizes[column]
                    scaled += self.codes[column]
                scaled *= size
            shape = shape_of(clique, self.sizes)
            np.add(scaled, self.codes[last], out=cells)
            counts = np.bincount(cells, self.weights, minlength=math.prod(shape))
            # Sums of weights are floats, which are exact below 2**53.
            yield counts.astype(np.int64, copy=False).reshape(shape)

    def stack(self, cliques: Sequence[Clique]) -> Iterator[tuple[Indices, Integers]]:
        """Yield the counts of marginals of equally many cells, with their indices; (n_marginals, n_cells)."""
        shapes = [shape_of(clique, self.sizes) for clique in cliques]
        sizes = np.array([math.prod(shape) for shape in shapes], np.intp)
        order = np.array(list(map(len, cliques)), np.intp)
        is_binary = (sizes == 1 << order) & (self.weights is None)
        is_binary &= self.sizes.count(2) <= MAX_BINARY_COLUMNS
        for size in np.unique(sizes).tolist():
            for are_bits in (False, True):
                (chosen,) = np.nonzero((sizes == size) & (is_binary == are_bits))
                for start in range(0, chosen.size, max(1, MAX_STACKED_CELLS // size)):
                    part = chosen[start : start + max(1, MAX_STACKED_CELLS // size)]
                    marginals = [cliques[index] for index in part]
                    if are_bits:
                        yield part, self._count_bits(np.array(marginals, np.int64))
                        continue
                    counts = [table.ravel() for table in self.count(marginals)]
                    yield part, np.array(counts)

    def _count_bits(self, cliques: Integers) -> Integers:
        """Count marginals of columns of two values, (n_marginals, n_columns); (n_marginals, n_cells)."""
        # The records with the value 1 in all columns of a set are counted as bits of words, for each set once. The
        # counts of cells are differences of these counts, by the principle of inclusion and exclusion.
        n_marginals, order = cliques.shape
        columns, cliques = np.unique(cliques, return_inverse=True)
        cliques = cliques.reshape(n_marginals, order)
        is_member = np.array(list(itertools.product((0, 1), repeat=order)), np.int64)
        members = (np.int64(1) << cliques) @ is_member.T
        sets, index = np.unique(members, return_inverse=True)
        counts = self._count_ones(columns, sets)[index]
        counts = counts.reshape(n_marginals, *(2,) * order)
        for axis in range(1, order + 1):
            cells = np.moveaxis(counts, axis, 0)
            cells[0] -= cells[1]
        return counts.reshape(n_marginals, -1)

    def _count_ones(self, columns: Indices, sets: Integers) -> Integers:
        """Count the records with the value 1 in all columns of each set; sets are ascending sums of 2**index."""
        counts = np.zeros(sets.size, np.int64)
        # Without its last column, a set is another one of the sets.
        lowest = sets & -sets
        last = np.log2(np.maximum(lowest, 1)).astype(np.intp)
        smaller = np.searchsorted(sets, sets ^ lowest)
        n_columns = np.bitwise_count(sets)
        for start in range(0, self.n_records, RECORDS_PER_BLOCK):
            part = slice(start, start + RECORDS_PER_BLOCK)
            bits = [np.packbits(self.codes[column][part] != 0) for column in columns]
            padding = [(0, 0), (0, -bits[0].size % 8)]
            words = np.pad(bits, padding).view(np.uint64)
            ones = np.empty((sets.size, words.shape[1]), np.uint64)
            for n in range(int(n_columns.max()) + 1):
                (of_size,) = np.nonzero(n_columns == n)
                if n == 0:
                    ones[of_size] = ~np.uint64(0)
                else:
                    ones[of_size] = ones[smaller[of_size]] & words[last[of_size]]
            counts += np.bitwise_count(ones).sum(axis=1, dtype=np.int64)
        counts[n_columns == 0] = self.n_records  # not the bits of the padding
        return counts

    @property
    def n_records(self) -> int:
        """The number of records."""
        return len(self.codes[0])

    def load(self) -> CodedRecords:
        """Return these records, or the combinations of values if they were read from an engine."""
        return combine(self) if self.is_large else self

    def select(self, is_selected: Mask) -> CodedRecords:
        """Select some records."""
        codes = [column_codes[is_selected] for column_codes in self.codes]
        weights = None if self.weights is None else self.weights[is_selected]
        return CodedRecords(codes, self.sizes, weights)

    def group(self, columns: Sequence[GroupedColumn]) -> CodedRecords:
        """Return records of `columns`, whose codes are the groups of the values."""
        codes = [groups[self.codes[column]] for column, groups in columns]
        sizes = [int(groups.max()) + 1 for _, groups in columns]
        return CodedRecords(codes, sizes, self.weights)

    def coarsen(self, domain: Domain, bins: Mapping[int, Indices]) -> CodedRecords:
        """Replace the codes of some columns by larger bins of `domain`; `bins` has the bin of each code, by column."""
        codes = list(self.codes)
        for column, bin_of_cell in bins.items():
            codes[column] = bin_of_cell[codes[column]]
        return CodedRecords(codes, domain.sizes, self.weights, is_large=self.is_large)


class LargeRecords:
    """Private records of a table outside of memory, which is read once for many marginals."""

    is_large = True

    def __init__(
        self,
        table: LargeTable,
        domain: Domain,
        handle_unknown: HandleUnknown,
        *,
        uses_pairs: bool = False,
    ) -> None:
        """Store a table in an engine and the domain of its codes; with `uses_pairs`, all pairs will be counted."""
        self._uses_pairs = uses_pairs
        self._table = table
        self._domain = domain
        self._handle_unknown = handle_unknown
        self.sizes = domain.sizes
        # Marginals counted so far.
        self._counts: dict[Clique, Integers] = {}

    def count(self, cliques: Sequence[Clique]) -> Iterator[Integers]:
        """Yield the exact counts of each marginal, with an axis for each column."""
        for index, clique in enumerate(cliques):
            if clique not in self._counts:
                self.count_together(cliques[index:])
            yield self._counts[clique]

    def load(self) -> CodedRecords:
        """Read the table once, and return its combinations of values."""
        return combine(self)

    def refine(self, cells: Mapping[int, Interval]) -> LargeRecords:
        """Return the records with some columns, by index, encoded by other cells."""
        columns: dict[Any, Any] = dict(self._domain)
        for column, interval in cells.items():
            columns[self._domain.columns[column]] = interval
        return self._with_domain(Domain(columns))

    def _with_domain(self, domain: Domain) -> LargeRecords:
        """Return the records encoded by another domain, without counts."""
        return LargeRecords(
            self._table,
            domain,
            self._handle_unknown,
            uses_pairs=self._uses_pairs,
        )

    def coarsen(self, domain: Domain, bins: Mapping[int, Indices]) -> LargeRecords:
        """Encode the records by a domain with larger bins, and sum the counts; `bins` has the bin of each code."""
        coarse = self._with_domain(domain)
        for clique, counts in self._counts.items():
            for axis, column in enumerate(clique):
                if column in bins:
                    cells = np.moveaxis(counts, axis, 0)
                    sums = np.zeros((domain.sizes[column], *cells.shape[1:]), np.int64)
                    # The last bin contains missing values, even if these are not declared.
                    np.add.at(sums, bins[column][: len(cells)], cells)
                    counts = np.moveaxis(sums, 0, axis)
            coarse._counts[clique] = counts
        return coarse

    def count_together(self, cliques: Sequence[Clique]) -> None:
        """Read the table once, and keep the counts of as many of the first marginals as fit into memory."""
        sizes = self._domain.sizes
        pairs: Iterable[Clique] = ()
        if self._uses_pairs:
            pairs = itertools.combinations(range(len(sizes)), 2)
            pairs = [pair for pair in pairs if n_cells_of(pair, sizes) <= 1 << 16]
        # Pairs are counted later, and other marginals possibly again.
        cliques = list(dict.fromkeys([*cliques, *pairs, *self._counts]))
        n_cells = np.cumsum([n_cells_of(clique, sizes) for clique in cliques])
        # Each worker of the engine has all counts in memory: 8 million cells, 64 MB.
        n_counted = max(1, int((n_cells <= 1 << 23).sum()))
        kept = self._counts.keys() & {*cliques[:n_counted]}
        self._counts = {clique: self._counts[clique] for clique in kept}
        counted = [clique for clique in cliques[:n_counted] if clique not in kept]
        columns = sorted({*itertools.chain(*counted)})
        # A row with an undeclared value in any column is excluded, so all columns are read.
        if self._handle_unknown == "ignore":
            columns = list(range(len(sizes)))
        domain = select_domain(self._domain, columns)
        marginals = [tuple(map(columns.index, clique)) for clique in counted]
        # Workers return counts only, and raise an error for undeclared values.
        code = partial(encode_records, handle_unknown=self._handle_unknown)
        error = partial(explain_undeclared, domain=domain)
        rows = Batches(wrap_table(self._table.sample), self._table)
        tables = count_marginals(rows, domain, marginals, encode=code, make_error=error)
        for clique, table in zip(counted, tables, strict=True):
            self._counts[clique] = table.reshape(shape_of(clique, sizes))


def combine(records: Records) -> CodedRecords:
    """Count the combinations of values, and return them with their numbers of records as weights."""
    (counts,) = records.count([tuple(range(len(records.sizes)))])
    cells = np.nonzero(counts)
    return CodedRecords(cells, records.sizes, counts[cells])


Records = CodedRecords | LargeRecords
"""Private records that can be counted exactly; they exist during `fit` only."""
