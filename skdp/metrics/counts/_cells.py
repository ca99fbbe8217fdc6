"""Tables of noisy counts as arrays with an axis for each column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skdp._arrays import ColumnName, Floats, Indices, TableLike
from skdp.base import check_column_name, check_design_effect
from skdp.metrics._fairness import read_counts
from skdp.metrics._reported_groups import REPORTED
from skdp.metrics._scores import read_bins

# Columns of the result of all analyses.
NUMBERS = ["estimate", "std_error", "lower", "upper", "p_value"]
COLUMNS = ["term", *NUMBERS, "supported", "reason"]


@dataclass(frozen=True)
class Cells:
    """Noisy counts of all combinations of values of some columns, and the variances of their noise."""

    # Values of each column, in the order of the axes of the arrays.
    levels: dict[Any, list[Any]]
    counts: Floats
    variances: Floats
    # Factor of the sampling variance; 0 for inference about the table.
    design_effect: float

    def arrange(self, *names: ColumnName) -> Cells:
        """Return the counts by some columns, in this order, added up over all other columns."""
        axes = list(self.levels)
        others = tuple(i for i, name in enumerate(axes) if name not in names)
        kept = [name for name in axes if name in names]
        order = [kept.index(name) for name in names]
        counts, variances = (
            np.transpose(numbers.sum(axis=others), order)
            for numbers in (self.counts, self.variances)
        )
        levels = {name: self.levels[name] for name in names}
        return replace(self, levels=levels, counts=counts, variances=variances)

    def select(self, name: ColumnName, indices: list[int] | Indices) -> Cells:
        """Return the cells with some values of a column, in this order."""
        axis = list(self.levels).index(name)
        return replace(
            self,
            levels=self.levels | {name: [self.levels[name][i] for i in indices]},
            counts=np.take(self.counts, indices, axis),
            variances=np.take(self.variances, indices, axis),
        )

    def move_first(self, name: ColumnName, value: object, parameter: str) -> Cells:
        """Return the cells with a value of a column as its first one, the reference."""
        levels = self.levels[name]
        if value not in levels:
            raise ValueError(
                f"`{parameter}` must be a value of column {name!r} of `counts`, one of "
                f"{levels[:20]}, got {value!r}."
            )
        index = levels.index(value)
        order = [index, *(i for i in range(len(levels)) if i != index)]
        return self.select(name, order)

    def read_numbers(self, name: ColumnName, parameter: str) -> Floats:
        """Return the numbers of a column: its values, or the middles of its bins."""
        return self._read_bins(name, parameter)[:, 1]

    def read_edges(self, name: ColumnName, parameter: str) -> Floats:
        """Return the edges of the bins of a column, (n_values, 2); numbers are bins without a width."""
        low, middle = self._read_bins(name, parameter).T
        return np.column_stack([low, 2 * middle - low])

    def _read_bins(self, name: ColumnName, parameter: str) -> Floats:
        return read_bins(pd.Series(self.levels[name], dtype=object), parameter)


def read_cells(
    counts: TableLike, parameters: Mapping[str, list[Any]], design_effect: float | None
) -> Cells:
    """Read a table of noisy counts by the columns of parameters, in this order."""
    effect = 0.0 if design_effect is None else check_design_effect(design_effect)
    columns = _list_columns(parameters)
    reported = {*columns} & {*getattr(counts, "attrs", {}).get(REPORTED, ())}
    if reported:
        raise ValueError(
            "`counts` must have true values, got reports of "
            f"{sorted(map(str, reported))}, whose counts have dependent errors. Release "
            "the counts with DPHistogram."
        )
    table = read_counts(counts, columns, allows_weights=True)
    sizes, errors = (table[name].to_numpy(float) for name in ("count", "std_error"))
    if not (np.isfinite(sizes).all() and np.isfinite(errors).all()):
        raise ValueError("`counts` must have finite counts and standard errors.")
    if effect == 1 and (sizes % 1 != 0).any():
        raise ValueError(
            "`design_effect` must be None, or the largest weight of a row times the "
            "design effect, because `counts` are sums of weights, got 1. None is for the "
            "weighted rows of the table."
        )
    return _arrange_cells(table, columns, effect)


def _list_columns(parameters: Mapping[str, list[Any]]) -> list[Any]:
    """Return the columns of parameters, and check that each has one parameter."""
    columns: list[Any] = []
    for parameter, names in parameters.items():
        for name in names:
            check_column_name(parameter, name)
            if name in columns:
                raise ValueError(
                    f"`{parameter}` must be a column of its own, got {name!r}, which "
                    f"is among the columns of other parameters, {columns}."
                )
            columns.append(name)
    return columns


def _arrange_cells(
    table: Mapping[Any, pd.Series[Any]], columns: list[Any], design_effect: float
) -> Cells:
    """Return the counts of a table as arrays; equal cells are added up."""
    sizes, errors = (table[name].to_numpy(float) for name in ("count", "std_error"))
    codes, levels = [], {}
    for name in columns:
        code, values = pd.factorize(table[name], use_na_sentinel=False)
        codes.append(code)
        levels[name] = list(values)
    shape = [len(values) for values in levels.values()]
    cells = np.ravel_multi_index(codes, shape)
    n_rows = np.bincount(cells, minlength=int(np.prod(shape)))
    if np.ptp(n_rows):
        raise ValueError(
            "`counts` must have a row for each combination of values of "
            f"{columns}, got missing cells. Release all cells of a declared domain with "
            "DPHistogram."
        )
    sums, variances = (
        np.bincount(cells, weights, n_rows.size).reshape(shape).astype(float)
        for weights in (sizes, errors**2)
    )
    return Cells(levels, sums, variances, design_effect)


def read_events(cells: Cells, event: ColumnName) -> Cells:
    """Return the cells with the values 0 and 1 of the column of events, in this order."""
    values = cells.levels[event]
    if len(values) != 2 or not pd.Series(values).isin([0, 1]).all():
        raise ValueError(
            "`event` must be the name of a column of 0 and 1, or False and True, got "
            "other values. Rename them, such as counts.rename(index={'alive': False, "
            f"'dead': True}}, level={event!r})."
        )
    return cells.select(event, np.argsort(values))


def read_reference(
    cells: Cells, reference: Mapping[Any, Any] | None, parameter: str = "reference"
) -> Cells:
    """Return the cells with the values of `reference`, a mapping of columns to values, as the first ones."""
    if reference is not None and not isinstance(reference, Mapping):
        raise TypeError(
            f"`{parameter}` must be a mapping of columns to values, such as "
            f"{{'ward': 'A'}}, got {type(reference).__name__}."
        )
    for name, value in (reference or {}).items():
        if name not in cells.levels:
            raise ValueError(
                f"`{parameter}` must have keys among the columns {list(cells.levels)}, "
                f"got {name!r}."
            )
        cells = cells.move_first(name, value, f"{parameter}[{name!r}]")
    return cells


def format_level(value: Any) -> str:
    """Return the text of a value; None and nan are missing."""
    return "missing" if pd.isna(value) else str(value)
