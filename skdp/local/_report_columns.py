"""Reports as columns of their own: bits, seeds and buckets, or indices."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import all_or_nothing, read_array
from skdp.domain import Codes
from skdp.frames import Table, is_frame, read_table
from skdp.local._base import LocalTransformer
from skdp.local._row_reports import Write
from skdp.oracles import (
    CountMeanSketch,
    FrequencyOracle,
    HadamardResponse,
    LocalHashing,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)

SAMPLED = "sampled"
"""The column that says, under ``strategy="sample"``, which attribute a row reports."""

_FIELDS: dict[type[FrequencyOracle], tuple[str, ...]] = {
    CountMeanSketch: ("function", "index"),
    HadamardResponse: ("",),
    LocalHashing: ("seed", "bucket"),
    RandomizedResponse: ("",),
}


def read_report_table(reports: Any, names: list[Any]) -> Table:
    """Take reports apart into columns."""
    frame = is_frame(reports)
    if not frame:
        reports = read_array(reports, "reports")
        if reports.ndim != 2:
            raise ValueError(f"reports must be a table, got {reports.ndim} dimensions")
    table = read_table(reports)
    if (frame and list(table.names) != names) or len(table.columns) != len(names):
        raise ValueError(f"the reports of this encoder have the columns {names}")
    if len(table.columns[0]) == 0:
        raise ValueError("Found a table with 0 sample(s) (rows); at least 1 is required")
    return table


def read_sampled(column: Any, n_attributes: int) -> NDArray[np.integer]:
    """Read which attribute each row reports."""
    numbers = _floats(np.asarray(column))
    if not np.isin(numbers, np.arange(n_attributes)).all():
        raise ValueError(f"column {SAMPLED!r} must hold numbers from 0 to {n_attributes - 1}")
    return numbers.astype(np.intp)


def _floats(block: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return block.astype(float)
    except Exception:
        pass  # it may hold a value, and would be the context of an error that is raised here
    raise ValueError("the reports hold something else than numbers")


def _label(value: Any) -> str:
    return "missing" if value is None else str(value)


class ReportColumns(LocalTransformer):
    """Base of the transformers whose reports are columns of their own."""

    output: Any = "bits"

    def _names(self, inputs: list[str]) -> list[str]:
        """Name the columns of the output after those of the input."""
        known = dict(zip(self.domain_.columns, inputs, strict=True))
        names = []
        for oracle, columns in zip(self.oracles_, self._attributes, strict=True):
            prefix = "_".join(known[column] for column in columns)
            if isinstance(oracle, UnaryEncoding | SubsetSelection):
                labels = product(*(self.domain_[column].labels for column in columns))
                names += ["_".join([prefix, *map(_label, cell)]) for cell in labels]
            else:
                fields = next(fields for kind, fields in _FIELDS.items() if isinstance(oracle, kind))
                names += [f"{prefix}_{field}" if field else prefix for field in fields]
        if self._strategy == "sample":
            names.append(SAMPLED)
        if len(set(names)) < len(names):
            raise ValueError("two columns of the output would have the same name; rename columns or categories")
        return names

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Name the columns of the output.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of the input, where `fit` saw none.

        Returns
        -------
        ndarray of str
            The names: ``<column>_<category>`` for bits, ``<column>_missing`` where missing is declared.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the input features are not those of `fit`.
        """
        check_is_fitted(self)
        own = getattr(self, "feature_names_in_", None)
        if input_features is None:
            given = list(map(str, self.domain_.columns)) if own is None else list(own)
        else:
            given = [str(name) for name in input_features]
            if own is not None and given != list(own):
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(given) != self.n_features_in_:
                raise ValueError(f"input_features should have length equal to {self.n_features_in_}, got {len(given)}")
        return np.array(self._names(given), dtype=object)

    def _own_names(self) -> list[str]:
        return self._names(list(map(str, self.domain_.columns)))

    def _writer(self, table: Table) -> Write:
        names = self._own_names()

        def write(reports: list[NDArray[Any]], chosen: NDArray[Any] | None) -> Any:
            blocks = []
            for index, oracle in enumerate(self.oracles_):
                report = reports.pop(0)
                unbiased = self._output == "unbiased" and report.dtype == np.uint8
                block = oracle.unbiased(report) if unbiased else report
                block = block if block.ndim == 2 else block.reshape(-1, 1)
                if chosen is not None:
                    block[chosen != index] = 0
                blocks.append(block)
            if chosen is not None:
                blocks.append(chosen.reshape(-1, 1))
            return table.rebuild(blocks, names)

        return write

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Any:
        super().fit(X, y)
        self._output = self.output
        self._own_names()
        return self

    fit.__doc__ = LocalTransformer.fit.__doc__

    def _plain_reports(self, codes: list[Codes]) -> list[NDArray[Any]]:
        plain = []
        for oracle, code in zip(self.oracles_, codes, strict=True):
            bits = code[:, np.newaxis] == np.arange(oracle.k)
            if isinstance(oracle, RandomizedResponse):
                plain.append(code)
            else:  # without noise, the unbiased form of a bit is the bit itself
                plain.append(bits.astype(float) if self._output == "unbiased" else bits.view(np.uint8))
        return plain

    def _read_reports(self, reports: Any) -> tuple[list[NDArray[Any]], int]:
        table = read_report_table(reports, self._own_names())
        n = len(table.columns[0])
        columns = list(table.columns)
        chosen = read_sampled(columns.pop(), len(self.oracles_)) if self._strategy == "sample" else None
        parts = []
        for index, oracle in enumerate(self.oracles_):
            width = oracle.k if isinstance(oracle, UnaryEncoding | SubsetSelection) else oracle.width
            block = np.column_stack([np.asarray(columns.pop(0)) for _ in range(width)])
            if chosen is not None:
                block = block[chosen == index]
            parts.append(self._to_report(oracle, block))
        return parts, n

    def _to_report(self, oracle: FrequencyOracle, block: NDArray[Any]) -> NDArray[Any]:
        if self._output == "unbiased":
            bits = (_floats(block) > 0).view(np.uint8)
            if not np.allclose(oracle.unbiased(bits), _floats(block)):
                raise ValueError("the reports hold numbers that are not ones of this encoder")
            return bits
        if block.dtype.kind not in "iub":
            whole = _floats(block)
            if not (np.isfinite(whole).all() and (whole == np.floor(whole)).all() and (whole >= 0).all()):
                raise ValueError("the reports hold something else than whole numbers")
            block = whole.astype(np.uint64)
        if isinstance(oracle, UnaryEncoding | SubsetSelection):
            return block
        if isinstance(oracle, LocalHashing):
            return block.astype(np.uint64, copy=False)
        if isinstance(oracle, CountMeanSketch):
            return block
        column = block[:, 0]
        if not isinstance(oracle, RandomizedResponse):
            return column
        if column.min(initial=0) < 0 or column.max(initial=0) >= oracle.k:
            raise ValueError("the reports hold numbers that are not ones of this encoder")
        return column.astype(np.min_scalar_type(oracle.k))
