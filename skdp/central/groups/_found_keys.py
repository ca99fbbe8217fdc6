"""Keys that a release of groups finds among texts, whole numbers and booleans, and totals of any groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from skdp._arrays import Floats, Indices, Integers, Mask
from skdp.central._sums import GroupSums, read_values, read_weights, sum_groups
from skdp.central.statistics import (
    Batches,
    Noise,
    check_types,
    count_texts,
    cube_std,
    encode_columns,
    encode_texts,
    join_codes,
    select_columns,
    sort_values,
    to_float,
    warn_user,
)
from skdp.domain import Domain, to_text, to_typed
from skdp.readers import ValueCounts
from skdp.tables import Table

# Name of the sum over all values of a key.
TOTAL = "total"


@dataclass(frozen=True, eq=False)
class OccurringKeys:
    """The combinations of texts that occur in the key columns of a private table; they exist during `fit` only."""

    names: tuple[Any, ...]
    # The code of each text or other value of a column, and None for missing, in order.
    code_by_text: tuple[dict[Any, int], ...]
    # For each column after the first, ascending: the combinations of texts up to this column,
    # each as the index of the combination without it, times the number of its texts, plus its code.
    pairs: tuple[Integers, ...] = ()

    @property
    def size(self) -> int:
        """The number of combinations; the last one has no text in any column."""
        return len(self.pairs[-1] if self.pairs else self.code_by_text[0])

    def encode(self, table: Table) -> Integers:
        """Return the index of the combination of each row; `size` if a key is not a text, (n_rows,)."""
        n_columns = len(self.pairs) + 1
        codes = [self._encode_column(table, index) for index in range(n_columns)]
        known = np.logical_and.reduce([column >= 0 for column in codes])
        cells = codes[0]
        columns = zip(codes[1:], self.code_by_text[1:], self.pairs, strict=False)
        for column, code_by_text, pairs in columns:
            cells = pairs.searchsorted(cells * len(code_by_text) + column)
        return np.where(known, cells, self.size)

    def _encode_column(self, table: Table, index: int) -> Integers:
        """Return the code of each text of a column, and -1 for other objects."""
        column = table.columns[table.names.index(self.names[index])]
        codes, texts = encode_texts(column)  # other objects have the code len(texts)
        code_by_text = self.code_by_text[index]
        known = [code_by_text.get(text, -1) for text in texts]
        return np.array([*known, -1], np.int64)[codes]

    def sum_numbers(
        self,
        rows: Batches,
        names: Sequence[Any],
        bounds: Floats,
        *,
        max_weight: float | None,
    ) -> GroupSums:
        """Sum columns between bounds by combination; with `max_weight`, the last column contains the weights."""
        sum_table = partial(
            self._sum_table, names=names, bounds=bounds, max_weight=max_weight
        )
        return GroupSums.read(rows.add_up(sum_table), bounds)

    def _sum_table(
        self,
        table: Table,
        *,
        names: Sequence[Any],
        bounds: Floats,
        max_weight: float | None,
    ) -> list[Integers]:
        """Return the sums of `GroupSums`."""
        weights = None if max_weight is None else read_weights(table, max_weight)
        values = read_values(select_columns(table, names))
        return sum_groups(values, bounds, self.encode(table), self.size, weights)

    def list_pairs(self, table: Table) -> list[ValueCounts]:
        """Return the combination of each row, and the code of its text in the next column."""
        cells = self.encode(table)
        codes = self._encode_column(table, len(self.pairs) + 1)
        known = (cells < self.size) & (codes >= 0)
        ones = np.ones(np.count_nonzero(known), np.int64)
        return [ValueCounts(((cells[known], codes[known], ones),))]

    def list_codes(self) -> list[Integers]:
        """Return the codes of the texts of all combinations for each column, (n_combinations,)."""
        cells, columns = np.arange(self.size), []
        for code_by_text, pairs in zip(
            self.code_by_text[:0:-1], self.pairs[::-1], strict=True
        ):
            cells, codes = np.divmod(pairs[cells], len(code_by_text))
            columns.append(codes)
        return [cells, *reversed(columns)]

    def make_groups(self, is_found: Mask, *, totals: bool) -> tuple[Domain, Indices]:
        """Return the texts of the combinations that are found, and the codes of all groups, (n_groups, n_columns)."""
        found, labels = [], {}
        for name, code_by_text, codes in zip(
            self.names, self.code_by_text, self.list_codes(), strict=True
        ):
            texts = list(code_by_text)
            used, inverse = np.unique(codes[is_found], return_inverse=True)
            labels[name] = [texts[code] for code in used]
            if totals:
                labels[name] = [*map(to_text, labels[name]), TOTAL]
            found.append(inverse)
        groups = np.column_stack(found)
        domain = Domain(labels)
        if totals:
            groups = np.unique(np.concatenate(_replace_keys(groups, domain)), axis=0)
        return domain, groups


def read_keys(
    rows: Batches, *, strict: bool, has_totals: bool
) -> tuple[OccurringKeys, Integers]:
    """Read the combinations of texts of all columns, and count their rows; (n_combinations,).

    Objects other than texts, and with totals their name, are an error if `strict`, which reveals that they occur.
    """
    check_types(rows.table, "keys")
    counts = rows.count_texts(partial(count_texts, strict=strict))
    for name, counted in zip(rows.names, counts, strict=True):
        for number in [value for value in counted if isinstance(value, float)]:
            kind, key = to_typed(number)  # an engine has counted floats
            n = counted.pop(number)
            if kind != "string":
                counted[key] += n
        if has_totals and counted.pop(TOTAL, 0) and strict:
            raise ValueError(
                f"Column {name!r} must not contain {TOTAL!r} with totals. Rename this "
                "text, or set `handle_unknown='ignore'` to exclude its rows."
            )
    texts = [sort_values({*counted, None}) for counted in counts]
    code_by_text = tuple(
        {text: code for code, text in enumerate(listed)} for listed in texts
    )
    keys = OccurringKeys(rows.names, code_by_text)
    n_rows = np.array([counts[0][text] for text in texts[0]], np.int64)
    for listed in texts[1:]:
        cells, codes, n_pairs = rows.count_values(keys.list_pairs).merge()
        # The combination without any text is always counted.
        last = keys.size * len(listed) - 1
        pairs, n_rows = cells * len(listed) + codes, n_pairs
        if not pairs.size or pairs[-1] < last:
            pairs, n_rows = np.append(pairs, last), np.append(n_rows, 0)
        keys = replace(keys, pairs=(*keys.pairs, pairs))
    return keys, n_rows


def append_totals(domain: Domain) -> Domain:
    """Return the keys of groups with totals: texts and the name of a total."""
    keys = {}
    for name in domain.columns:
        labels = domain[name].labels
        if TOTAL in labels:
            raise ValueError(
                f"`keys` of column {name!r} must not contain {TOTAL!r} with "
                "`totals=True`. Rename this value."
            )
        texts = [None if label is None else str(label) for label in labels]
        keys[name] = [*texts, TOTAL]
    return Domain(keys)


def encode_cells(table: Table, *, domain: Domain) -> Integers:
    """Return the cell of the declared keys of each row; rows with an undeclared key have the number of cells."""
    keys = select_columns(table, domain.columns)
    codes, _ = encode_columns(keys, domain, "ignore")
    return join_codes(domain, codes, len(table.columns[0]))


def widen_margins(counts: Floats, threshold: int, noise: Noise, level: float) -> Floats:
    """Return the margin of error of the numbers of each key that is found, divided by the usual one, (n_keys, 1).

    The noisy counts may have reached the threshold by their noise alone.
    """
    # If the true count is below the threshold, the excess of the noisy count over it is largest
    # for the smallest difference, because the density of the noise is log-concave. So the
    # excess exceeds this quantile of the absolute noise with the probability (1 - level) / 2 or
    # less. With a smaller excess, the noise of the key may be as large as the threshold.
    std = cube_std(noise.dimension) * to_float(noise.scale)
    reach = threshold + noise.distribution.quantile((1 + level) / 2) * std
    usual = max(to_float(noise.margin_of_error(level)), 2.0**-60)
    return np.where(counts < reach, reach / usual + 1, 1.0)


def find_frequent(counts: Floats, threshold: int) -> Mask:
    """Return True for noisy counts that reach a threshold; if none does, for the last count, of missing keys."""
    is_frequent: Mask = counts >= threshold
    if not is_frequent.any():
        is_frequent[-1] = True
        warn_user(
            "No key is frequent enough for this epsilon and delta. The only group has "
            "the rows without a key",
            "guide/curator_statistics#unknown-keys",
        )
    return is_frequent


def _replace_keys(groups: Indices, domain: Domain) -> list[Indices]:
    """Return the cells, (n_cells, n_keys), and the cells with each set of keys replaced by the code of their total."""
    totals = np.array(domain.sizes) - 1
    replaced = product([False, True], repeat=groups.shape[1])
    return [np.where(is_total, totals, groups) for is_total in replaced]


def find_totals(groups: Indices, domain: Domain) -> Indices:
    """Return the groups of each cell, which are the cell and its totals; (2**n_keys, n_cells).

    `groups` are the codes of all groups, ascending, (n_groups, n_keys). The last value of each key is its total.
    """
    is_cell = (groups < np.array(domain.sizes) - 1).all(axis=1)
    replaced = _replace_keys(groups[is_cell], domain)
    _, indices = np.unique(
        np.concatenate([groups, *replaced]), axis=0, return_inverse=True
    )
    return indices[len(groups) :].reshape(len(replaced), -1)
