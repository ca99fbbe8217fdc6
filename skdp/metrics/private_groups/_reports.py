"""What reports say of the group of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import read_array
from skdp.domain import Domain
from skdp.local import (
    ReportTransformer,
    read_carried,
    refuse_impossible,
)
from skdp.metrics.fairness import is_collection
from skdp.oracles import FrequencyOracle
from skdp.tables import is_frame, is_missing

_CHUNK = 1 << 20

Block = tuple[slice, NDArray[np.float64]]
"""Consecutive rows, and a number for each of them and each cell."""


@dataclass(frozen=True)
class GroupReports:
    """The reports of the columns that make up the group of each row."""

    domain: Domain
    reported: Domain
    oracles: tuple[FrequencyOracle, ...]
    parts: tuple[NDArray[Any], ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    def take(self, rows: NDArray[np.intp]) -> GroupReports:
        """Return the reports of some rows."""
        return replace(self, parts=tuple(part[rows] for part in self.parts))

    def indicators(self) -> Iterator[Block]:
        """Turn reports into unbiased indicators of the group."""
        for rows, cells in self._outer(_unbiased):
            yield rows, self.sum_to_groups(cells)

    def likelihoods(self) -> Iterator[Block]:
        """Return the likelihood of each report under each reported cell, up to a factor."""
        return self._outer(_likelihoods)

    def _outer(
        self, weigh: Callable[[FrequencyOracle, NDArray[Any]], NDArray[np.float64]]
    ) -> Iterator[Block]:
        """Multiply the vectors that the parts of each row give, the last part's entries fastest."""
        step = max(1, _CHUNK // self.reported.size)
        for start in range(0, len(self), step):
            rows = slice(start, start + step)
            first, *others = (
                weigh(oracle, part[rows])
                for oracle, part in zip(self.oracles, self.parts, strict=True)
            )
            for factor in others:
                first = (first[:, :, np.newaxis] * factor[:, np.newaxis, :]).reshape(
                    len(first), -1
                )
            yield rows, first

    def sum_to_groups(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add up the reported cells of each group."""
        names = self.reported.columns
        if names == self.domain.columns:
            return cells
        axes = {name: axis for axis, name in enumerate(names, start=1)}
        others = tuple(
            axis for name, axis in axes.items() if name not in self.domain.columns
        )
        table = cells.reshape(-1, *self.reported.sizes).sum(axis=others, keepdims=True)
        order = [axes[name] for name in self.domain.columns]
        return table.transpose(0, *order, *others).reshape(len(cells), -1)


def read_groups(reports: Any, encoder: Any, columns: Any = None) -> GroupReports:
    """Read the reports of the columns that make up the group."""
    chosen = check_encoder(encoder, columns)
    protocol = encoder.protocol_
    reports = _as_table(reports, protocol.report_columns)
    domain, oracles = protocol.domain, protocol.oracles
    arrays, tally = read_carried(reports, encoder)
    refuse_impossible(protocol, tally, chosen)
    parts = protocol.parts(arrays)
    if len(oracles) == 1:
        return GroupReports(domain.select(chosen), domain, oracles, tuple(parts))
    of_group, places = (
        domain.select(chosen),
        [domain.columns.index(name) for name in chosen],
    )
    return GroupReports(
        of_group,
        of_group,
        *(tuple(of[place] for place in places) for of in (oracles, parts)),
    )


def _as_table(reports: Any, names: list[Any]) -> Any:
    """Make a table of one column of a series or 1-D array; anything else stays as it is."""
    # As fairlearn takes sensitive features: ``reports["sex"]``. A series without a name is matched by position.
    if is_frame(reports):
        return reports
    table: Any
    if isinstance(reports, pd.Series):
        table = reports.to_frame(names[0] if reports.name is None else reports.name)
    elif isinstance(
        series := nw.from_native(reports, pass_through=True, allow_series=True),
        nw.Series,
    ):
        table = series.alias(series.name or str(names[0])).to_frame().to_native()
    else:
        array = read_array(reports, "reports")
        if array.ndim != 1:
            return reports
        table = array[:, np.newaxis]
    if len(names) > 1:
        raise ValueError(
            f"the reports of this encoder have the columns {names}, got a single column"
        )
    return table


def check_encoder(encoder: Any, columns: Any = None) -> list[Any]:
    """Refuse an encoder whose reports say nothing of the group of each row."""
    if isinstance(encoder, ReportTransformer):
        check_is_fitted(encoder)
    protocol: Any = getattr(encoder, "protocol_", None)
    if isinstance(encoder, type) or getattr(protocol, "strategy", None) is None:
        name = encoder.__name__ if isinstance(encoder, type) else type(encoder).__name__
        raise TypeError(
            f"encoder must be a fitted local transformer, as RandomizedResponseEncoder is; got {name}"
        )
    domain = protocol.domain
    chosen = _choose_columns(columns, domain)
    if protocol.strategy == "sample" and len(domain.columns) > 1:
        raise ValueError(
            "under strategy='sample' a row reports one of its columns only; use 'split' or 'joint'"
        )
    return chosen


def _choose_columns(columns: Any, domain: Domain) -> list[Any]:
    if columns is None:
        return list(domain.columns)
    chosen = list(columns) if isinstance(columns, list) else [columns]
    if (
        not chosen
        or len(set(chosen)) < len(chosen)
        or any(name not in domain.columns for name in chosen)
    ):
        raise ValueError(
            f"columns must be distinct ones of {list(domain.columns)}, got {chosen}"
        )
    return chosen


def _unbiased(oracle: FrequencyOracle, reports: NDArray[Any]) -> NDArray[np.float64]:
    """Return unbiased indicators that add up to 1 in each row: the nearest ones to those of the oracle."""
    indicators: NDArray[np.float64] = oracle.unbiased(reports)
    indicators += (1 - indicators.sum(axis=1, keepdims=True)) / oracle.k
    return indicators


def _likelihoods(oracle: FrequencyOracle, reports: NDArray[Any]) -> NDArray[np.float64]:
    return np.where(oracle.supports(reports), float(oracle.support_ratio), 1.0)


def find_privileged(privileged: Any, domain: Domain) -> NDArray[np.bool_]:
    several = len(domain.columns) > 1
    if isinstance(privileged, Mapping):
        if set(privileged) != set(domain.columns):
            raise ValueError(
                f"privileged has the keys {list(privileged)}; the groups are of {list(domain.columns)}"
            )
        listed = [
            one if is_collection(one) else [one]
            for one in (privileged[name] for name in domain.columns)
        ]
        privileged = [cell if several else cell[0] for cell in product(*listed)]
    collection = is_collection(privileged)
    if isinstance(privileged, tuple):
        collection = not several or all(
            isinstance(value, tuple) for value in privileged
        )
    if not collection:
        privileged = [privileged]
    marked = np.zeros(domain.sizes, bool)
    for cell in privileged:
        values = cell if several else (cell,)
        if not isinstance(values, tuple) or len(values) != len(domain.columns):
            raise ValueError(
                f"privileged must hold tuples with a value for each of {list(domain.columns)}"
            )
        marked[
            tuple(
                _place(domain, name, value)
                for name, value in zip(domain.columns, values, strict=True)
            )
        ] = True
    if marked.all() or not marked.any():
        raise ValueError(
            "privileged must name some of the declared groups, and not all of them"
        )
    return marked.ravel()


def _place(domain: Domain, name: Any, value: Any) -> int:
    value = None if is_missing(value) else value
    labels = domain[name].labels
    if value not in labels:
        raise ValueError(
            f"privileged holds a value that column {name!r} does not declare; it declares {list(labels)}"
        )
    return labels.index(value)


def indicate_privileged_rows(
    groups: GroupReports, cells: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Turn reports into unbiased indicators of the privileged rows."""
    return np.concatenate(
        [part[:, cells].sum(axis=1) for _, part in groups.indicators()]
    )
