"""Exact sums by bin of what a model leaves of a target: integers, whatever the order of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from skdp.base import read_numbers
from skdp.central._logistic_regression import (
    _CERTAIN,
    _FINE,
    _MAX_LOGIT,
    BinaryLoss,
    SoftmaxLoss,
)
from skdp.central.statistics import (
    GRID,
    Batches,
    encode_columns,
    read_values,
    to_places,
    undeclared_error,
)
from skdp.domain import Domain, Interval
from skdp.tables import Table

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# The steps of a target that is a number, from the middle between its bounds to either of
# them. Floats hold the sums of 2**32 of them exactly.
STEPS = 1 << 20

# Rows at a time, whose numbers stay in the cache: of 2**13 to 2**16, the fastest by up to
# a quarter.
_BLOCK = 1 << 16

# Of the logistic loss, by logits: that of a class which is certain as floats is not 0.
# It is reached beyond logits of 28.
_MIN_CURVATURE = 2.0**-40

# The largest logit, in places.
_LARGEST = _MAX_LOGIT * _FINE

# Places and shares of normal numbers that stand for all of them.
_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(9)
_NORMAL = _NODES, _SHARES / _SHARES.sum()


class Residuals(Protocol):
    """What a model leaves of the target of a row: an integer for each output."""

    n_outputs: int
    # The square of the largest norm of the residuals of a row.
    square: int
    # The integer that is a residual of 1.
    unit: int
    # The same of responses of the model.
    response_unit: int
    # The squared error of the response that one row gives.
    row_variance: float

    def distances(self, targets: NDArray[Any], responses: Integers) -> NDArray[Any]:
        """Return how far targets are from the same responses for all rows, as whole numbers: (n_outputs, n_rows).

        Of classes, from a logit that is the same for all rows.
        """

    def of(
        self, distances: NDArray[Any], targets: NDArray[Any], *, is_by_class: bool
    ) -> Floats:
        """Return the residuals of rows, of which those of class 0 may be first: (n_outputs, n_rows)."""

    def scales(self, means: Floats, variances: Floats) -> tuple[Floats, Floats]:
        """Return how fast residuals fall with the response, on average, and their variances.

        For groups of rows with these mean responses, of shape (n_groups, n_outputs), and with these variances of
        responses within, of shape (n_outputs,): of shape (n_groups, n_outputs) each.
        """


class ClassResiduals:
    """The gradient of the weighted logistic loss, as of `DPLogisticRegression`."""

    unit = _CERTAIN
    response_unit = _FINE
    # Of a logit of two classes that are equally likely. With a rare class it is larger,
    # but effects are not.
    row_variance = 4.0

    def __init__(self, n_classes: int) -> None:
        is_binary = n_classes == 2
        self._loss = BinaryLoss() if is_binary else SoftmaxLoss(n_classes)
        self.n_outputs = self._loss.n_outputs
        self.square = self._loss.square
        if is_binary:
            # By class and distance from the largest logit: (2, n_distances).
            logits = np.arange(_LARGEST, -_LARGEST - 1, -1)[:, np.newaxis]
            first = self._loss.residuals(logits, np.full(len(logits), 0))
            second = self._loss.residuals(logits, np.full(len(logits), 1))
            self._of_distances = -np.hstack([first, second]).T.copy()

    def distances(self, targets: NDArray[Any], responses: Integers) -> Integers:
        """Return how far logits are from 0, or of two classes, from the largest: (n_outputs, n_rows)."""
        largest = _LARGEST if self.n_outputs == 1 else 0
        return np.tile(largest - responses[:, np.newaxis], len(targets))

    def of(
        self, distances: Integers, targets: NDArray[Any], *, is_by_class: bool
    ) -> Floats:
        """Return the residuals of rows, of which those of class 0 may be first: (n_outputs, n_rows)."""
        if self.n_outputs > 1:
            return self._of_several_classes(distances, targets)
        if is_by_class:
            return self._of_classes_in_order(distances, targets)
        return self._of_two_classes(distances, targets)

    def _of_several_classes(self, distances: Integers, targets: NDArray[Any]) -> Floats:
        logits = np.minimum(np.maximum(-distances, -_LARGEST), _LARGEST)
        return -self._loss.residuals(logits.T, targets).T

    def _of_two_classes(self, distances: Integers, targets: NDArray[Any]) -> Floats:
        # Each row is looked up in the tables of both classes, so that the time does not
        # tell its class. Distances beyond a table are at its ends.
        first, second = self._of_distances
        of_first = first.take(distances, mode="clip")
        of_second = second.take(distances, mode="clip")
        return np.where(targets, of_second, of_first)

    def _of_classes_in_order(
        self, distances: Integers, targets: NDArray[Any]
    ) -> Floats:
        # Each row is looked up once, in either table, which takes the same time.
        first, second = self._of_distances
        n_first = len(targets) - np.count_nonzero(targets)
        residuals = np.empty(distances.shape)
        residuals[:, :n_first] = first.take(distances[:, :n_first], mode="clip")
        residuals[:, n_first:] = second.take(distances[:, n_first:], mode="clip")
        return residuals

    def scales(self, means: Floats, variances: Floats) -> tuple[Floats, Floats]:
        """Return curvatures and variances of groups of rows, for normal logits."""
        curvatures = np.zeros(means.shape)
        squares = np.zeros(means.shape)
        for output, variance in enumerate(variances):
            for node, share in zip(*_NORMAL, strict=True):
                logits = means.copy()
                logits[:, output] += node * math.sqrt(variance)
                if self.n_outputs == 1:
                    probabilities = expit(logits)
                    longest = np.maximum(probabilities, 1 - probabilities)
                else:
                    probabilities = softmax(logits, axis=1)
                    norms = (probabilities**2).sum(axis=1, keepdims=True)
                    least = probabilities.min(axis=1, keepdims=True)
                    longest = np.sqrt(norms + 1 - 2 * least)
                weights = math.sqrt(self.square) / _CERTAIN / longest[:, -1]
                chances = probabilities[:, output]
                class_curvatures = weights * np.maximum(
                    chances * (1 - chances), _MIN_CURVATURE
                )
                curvatures[:, output] += share * class_curvatures
                squares[:, output] += share * weights * class_curvatures
        return curvatures, squares


class NumberResiduals:
    """The difference of a number and its prediction, cut at a bound."""

    n_outputs = 1
    unit = STEPS
    response_unit = STEPS

    def __init__(
        self, bound: int, share_inside: float = 1.0, variance: float = 1.0
    ) -> None:
        self.bound = bound
        self.square = bound**2
        # Of the residuals: the share of those that are not cut, and the mean square of
        # these, in squares of `unit`. One row gives the response with the slope
        # `share_inside`.
        self.share_inside = share_inside
        self.variance = variance
        self.row_variance = variance / share_inside**2

    def distances(self, targets: NDArray[Any], responses: Integers) -> Floats:
        """Return how far targets are from the response, as whole floats: (1, n_rows)."""
        return (targets - responses[0]).astype(float)[np.newaxis]

    def of(
        self, distances: Floats, targets: NDArray[Any], *, is_by_class: bool
    ) -> Floats:
        """Return the distances, cut at the bound: (1, n_rows)."""
        return distances.clip(-self.bound, self.bound)

    def scales(self, means: Floats, variances: Floats) -> tuple[Floats, Floats]:
        """Return curvatures and variances of groups of rows, which are all the same."""
        curvatures = np.full(means.shape, self.share_inside)
        return curvatures, np.full(means.shape, self.variance)


@dataclass(frozen=True)
class Coding:
    """How a table becomes bins and targets: picklable."""

    domain: Domain
    handle_unknown: str
    # Of the target, the last column, if there is one.
    place_target: Callable[[Any], NDArray[Any]] | None = None

    def codes(self, table: Table) -> list[NDArray[Any]]:
        """Return the cell of each row in each column; numbers outside of all cells are in the outer ones."""
        columns = []
        for name, column in zip(self.domain.columns, table.columns, strict=False):
            attribute = self.domain[name]
            if isinstance(attribute, Interval) and _is_of_numbers(attribute):
                (numbers,) = read_values(Table((name,), (column,), table.native))
                column = np.clip(numbers, attribute.edges[0], attribute.edges[-1])
            columns.append(column)
        features = Table(self.domain.columns, tuple(columns), table.native)
        codes, undeclared = encode_columns(features, self.domain, self.handle_unknown)
        if undeclared:
            raise undeclared_error(undeclared[0], self.domain, "categories")
        return list(codes)

    def __call__(self, table: Table) -> Rows:
        assert self.place_target is not None
        return Rows(self.codes(table), self.place_target(table.columns[-1]))


def _is_of_numbers(attribute: Interval) -> bool:
    return isinstance(attribute.edges[0], float)


def number_places(column: Any, name: Any, low: float, high: float) -> Integers:
    """Place a target that is a number, in `STEPS` from the middle between its bounds."""
    (numbers,) = read_numbers(Table((name,), (column,), None))
    places: Integers = np.rint(to_places(numbers, low, high) * (STEPS / GRID))
    return places.astype(np.int64)


class Rows:
    """Private rows as bins, and their targets; they live inside `fit` only."""

    def __init__(
        self,
        codes: list[NDArray[Any]],
        targets: NDArray[Any],
        *,
        is_by_class: bool = False,
    ) -> None:
        self.codes = codes
        self.targets = targets
        # Whether the rows are known to be in the order of their classes.
        self.is_by_class = is_by_class
        # What the functions that were given last leave of the targets: of many rows,
        # only the change of one function is subtracted.
        self._functions: list[Integers] = []
        self._distances: NDArray[Any] = np.zeros((0, 0))

    def sum(self, what: Callable[[Rows], Integers]) -> Integers:
        """Return sums over the rows."""
        return what(self)

    def binned(self, bins_of_cells: Sequence[NDArray[np.intp]]) -> Rows:
        """Replace cells by bins."""
        codes = []
        for cells, bins in zip(self.codes, bins_of_cells, strict=True):
            codes.append(bins.astype(np.int16)[cells])
        return Rows(codes, self.targets)

    def by_class(self) -> Rows:
        """Put the rows of a class together: their residuals are looked up in one part of a table."""
        largest = int(self.targets.max(initial=0))
        targets = self.targets.astype(np.min_scalar_type(largest))
        order = np.argsort(targets, kind="stable")
        codes = [column[order] for column in self.codes]
        return Rows(codes, targets[order], is_by_class=True)

    def residuals(
        self, functions: Sequence[Integers], start: Integers, residuals: Residuals
    ) -> Iterator[tuple[slice, Floats]]:
        """Return some rows after others, and the residuals of a model with a function of each column.

        Residuals are of shape (n_outputs, n_rows). All of them have to be taken.
        """
        if not self._functions:
            self._distances = residuals.distances(self.targets, start)
            self._functions = list(map(np.zeros_like, functions))
        changes = []  # a column and its change by bin: (n_outputs, n_bins)
        for codes, before, after in zip(
            self.codes, self._functions, functions, strict=True
        ):
            if after is not before:
                change = (after - before).T.astype(self._distances.dtype)
                changes.append((codes, np.ascontiguousarray(change)))
        self._functions = list(functions)
        for first in range(0, len(self.targets), _BLOCK):
            block = slice(first, first + _BLOCK)
            distances = self._distances[:, block]
            for codes, change in changes:
                for row, row_change in zip(distances, change, strict=True):
                    # Without "clip", codes are compared with the size first.
                    row -= row_change.take(codes[block], mode="clip")
            targets = self.targets[block]
            yield block, residuals.of(distances, targets, is_by_class=self.is_by_class)


@dataclass(frozen=True, eq=False)
class LargeRows:
    """The rows of a large table, which are read again for each sum."""

    batches: Batches
    coding: Coding
    bins_of_cells: Sequence[NDArray[np.intp]] | None = None

    def sum(self, what: Callable[[Rows], Integers]) -> Integers:
        """Return sums over the rows."""
        sums_of = partial(
            _sum,
            coding=self.coding,
            bins_of_cells=self.bins_of_cells,
            what=what,
        )
        (total,) = self.batches.add_up(sums_of)
        return total

    def binned(self, bins_of_cells: Sequence[NDArray[np.intp]]) -> LargeRows:
        """Replace cells by bins."""
        return replace(self, bins_of_cells=bins_of_cells)

    def by_class(self) -> LargeRows:
        """Return the rows in their order: they are read for one sum each."""
        return self


def _sum(
    table: Table,
    *,
    coding: Coding,
    bins_of_cells: Sequence[NDArray[np.intp]] | None,
    what: Callable[[Rows], Integers],
) -> list[Integers]:
    rows = coding(table)
    if bins_of_cells is not None:
        rows = rows.binned(bins_of_cells)
    return [what(rows)]


def open_rows(batches: Batches, coding: Coding) -> Rows | LargeRows:
    """Place the rows of a table, or prepare to place those of a large one."""
    if batches.large is None:
        return coding(batches.table)
    return LargeRows(batches, coding)


def cell_counts(rows: Rows, sizes: Sequence[int]) -> Integers:
    """Count the rows of each cell of each column, one column after another."""
    counts = []
    for cells, size in zip(rows.codes, sizes, strict=True):
        counts.append(np.bincount(cells, minlength=size + 1)[:size])
    return np.concatenate(counts)


@dataclass(frozen=True, eq=False)
class CountedCells:
    """Rows by cells of each column, and how many of them are in each."""

    batches: Batches
    coding: Coding
    rows: Rows | LargeRows
    # Of each column, by cell.
    counts: list[Integers]

    @classmethod
    def of(cls, batches: Batches, coding: Coding) -> CountedCells:
        """Place rows in the cells of a domain, and count them."""
        rows = open_rows(batches, coding)
        return cls(batches, coding, rows, _counts_by_column(rows, coding.domain))

    @property
    def domain(self) -> Domain:
        """The cells of each column."""
        return self.coding.domain


def _counts_by_column(rows: Rows | LargeRows, domain: Domain) -> list[Integers]:
    """Count the rows in the cells of each column."""
    counts = rows.sum(partial(cell_counts, sizes=domain.sizes))
    return np.split(counts, np.cumsum(domain.sizes)[:-1])


def bin_sums(
    rows: Rows,
    column: int,
    functions: Sequence[Integers],
    start: Integers,
    residuals: Residuals,
) -> Integers:
    """Add up the residuals by bin of a column: (n_bins, n_outputs)."""
    # A row adds its residuals to one bin, so that it changes the sums by their norm.
    size = len(functions[column])
    sums = np.zeros((size, residuals.n_outputs))
    for block, parts in rows.residuals(functions, start, residuals):
        codes = rows.codes[column][block]
        for output, part in enumerate(parts):
            sums[:, output] += np.bincount(codes, weights=part, minlength=size)
    # The last bin is that of what is in none.
    return sums[:-1].astype(np.int64)


def size_counts(
    rows: Rows,
    functions: Sequence[Integers],
    start: Integers,
    limits: Integers,
) -> Integers:
    """Count the rows by the first of ascending limits that the size of their residual does not exceed."""
    counts = np.zeros(len(limits), np.int64)
    residuals = NumberResiduals(int(limits[-1]))
    # Looking up takes a tenth of the time of a search: (largest limit + 1,)
    places_of_sizes = np.repeat(
        np.arange(len(limits), dtype=np.int16), np.diff(limits, prepend=-1)
    )
    for _, parts in rows.residuals(functions, start, residuals):
        places = places_of_sizes[np.abs(parts[0]).astype(np.intp)]
        counts += np.bincount(places, minlength=len(limits))
    return counts
