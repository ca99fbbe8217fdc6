"""Constraints in a model: the cells that they exclude, the pairs that they relate, and the starts of bins."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import Floats, Mask
from skdp.domain import Categories, Domain, Expression, Interval, make_edge_array
from skdp.synthesis.model import Clique, Elimination
from skdp.synthesis.private._number_cells import Shape, Steps, draw_within

CLIQUES_PER_MODEL = 4
"""Largest number of cells of all cliques together, in multiples of `max_cells`."""

MAX_POINTS_PER_CELL, MAX_POINTS_PER_PART = 64, 1 << 18
"""Largest numbers of points of a cell, and of all cells, at which a constraint is evaluated."""

CORNER = 1e-3
"""Position of the first points within bins; a linear comparison is true at a corner if it is true in the cell."""

N_EVENTS_PER_POINT = 16
"""Number of events for each of these points, if a constraint is on numbers of events and people."""

MAX_RELATED = 4
"""Largest number of columns of a constraint whose pairs are measured in any case."""


def list_rules(domain: Domain) -> Iterator[tuple[Expression, Clique]]:
    """List the constraints on single rows, and the columns of the model that they read."""
    for constraint in domain._constraints:
        names = domain._list_read(constraint)
        if constraint.is_on_rows:
            yield constraint, tuple(map(domain.columns.index, names))


def list_related(domain: Domain, given: Iterable[int] = ()) -> list[Clique]:
    """List the pairs of columns that constraints relate, except pairs of `given` columns."""
    pairs: dict[Clique, None] = {}
    for _, clique in list_rules(domain):
        if len(clique) <= MAX_RELATED:
            pairs |= dict.fromkeys(itertools.combinations(clique, 2))
    return [pair for pair in pairs if not set(given).issuperset(pair)]


def find_masks(
    domain: Domain, max_cells: int, given: frozenset[int] = frozenset()
) -> tuple[tuple[Clique, Mask], ...]:
    """Find the combinations of values and bins that constraints exclude: True for each impossible cell.

    Combinations are excluded if the model remains within `max_cells` cells per table. Events are drawn given the
    columns `given`, so constraints on these alone are excluded.
    """
    # Cells with possible and impossible rows remain, and so do cells of constraints with too many cells: rows that
    # violate a constraint are resampled.
    graph = Elimination(domain.sizes, given=given)
    masks: dict[Clique, Mask] = {}
    for constraint in domain._constraints:
        names = domain._list_read(constraint)
        clique = tuple(map(domain.columns.index, names))
        intervals = [v for v in map(domain.get, names) if isinstance(v, Interval)]
        # Rows that violate a constraint on a single number are resampled, at no loss.
        if intervals and (len(names) == 1 or not all(v.has_bins for v in intervals)):
            continue
        if given.issuperset(clique) or clique in masks or constraint.place:
            continue
        if not graph.add(clique, max_cells, CLIQUES_PER_MODEL * max_cells):
            continue
        part = domain.select(names)
        is_possible = _mark_possible(part, part.check_constraints, not intervals)
        # Comparisons that hold for few numbers may be true at none of the points.
        if not is_possible.all() and is_possible.any():
            masks[clique] = ~is_possible
    return tuple(masks.items())


def mark_places(domain: Domain, constraint: Expression) -> tuple[Clique, Mask]:
    """Return the columns that a constraint on the order of events reads, and True for each cell of such events."""
    part = domain.select(domain._list_read(constraint))

    def is_other(rows: pd.DataFrame) -> Mask:
        return ~part._evaluate(constraint, rows)

    is_listed = not any(isinstance(part[name], Interval) for name in part)
    clique = tuple(map(domain.columns.index, part.columns))
    return clique, ~_mark_possible(part, is_other, is_listed)


def _mark_possible(
    domain: Domain, is_valid: Callable[[pd.DataFrame], Mask], is_listed: bool
) -> Mask:
    """Return True for each cell in which some row is valid; with an axis for each column.

    `is_listed` is True if no column has bins.
    """
    cells = np.indices(domain.sizes).reshape(len(domain.sizes), -1)
    n_cells = cells.shape[1]
    numbers = _list_numbers(domain)
    n_corners = 1 << len(numbers)
    n_points = max(n_corners, min(MAX_POINTS_PER_CELL, MAX_POINTS_PER_PART // n_cells))
    # The bits of the number of a point are its corner; all further points are random.
    points = np.repeat(np.arange(1 if is_listed else n_points), n_cells)
    rng = np.random.default_rng(0)
    positions = {}
    for bit, name in enumerate(numbers):
        corners = np.where(points >> bit & 1, 1 - CORNER, CORNER)
        is_random = points >= n_corners
        positions[name] = np.where(is_random, rng.random(points.size), corners)
    rows = _place_rows(domain, np.tile(cells, points.size // n_cells), positions, {})
    if is_listed:
        _check_possible(domain, rows)
    return is_valid(rows).reshape(-1, n_cells).any(axis=0).reshape(domain.sizes)


def _list_numbers(domain: Domain) -> list[Any]:
    """List the columns with bins."""
    return [name for name in domain if isinstance(domain[name], Interval)]


def _place_rows(
    domain: Domain,
    codes: NDArray[np.integer],
    positions: Mapping[Any, Floats],
    shapes: Mapping[Any, Shape],
) -> pd.DataFrame:
    """Return rows with some codes, and numbers at some positions within bins.

    `shapes` has the distributions within the bins of some columns.
    """
    columns = {}
    for name, column_codes in zip(domain.columns, codes, strict=True):
        values = domain[name]
        if isinstance(values, Categories):
            listed = np.empty(len(values), object)
            listed[:] = values.values
            columns[name] = pd.Series(listed[column_codes], dtype=object)
            continue
        n_bins = len(values.edges) - 1
        bins = np.minimum(column_codes, n_bins - 1)
        if name in shapes:
            numbers = shapes[name].draw(bins + positions[name])
        else:
            numbers = draw_within(values, bins, positions[name])
        columns[name] = pd.Series(numbers).where(column_codes < n_bins)
    return pd.DataFrame(columns)


def measure_valid(
    domain: Domain,
    given: frozenset[int],
    shapes: Mapping[Any, Shape],
    n_draws: int,
) -> dict[Clique, Floats]:
    """Estimate the proportion of people for whom the cells of constraints on their numbers have valid events.

    Parameters
    ----------
    domain : Domain
        The columns of events and people, with the constraints.
    given : frozenset of int
        Columns that are not of the event.
    shapes : mapping of column name to Shape
        The distributions of people within bins.
    n_draws : int
        Number of times that the numbers of an event are drawn within their bins.
    """
    measured: dict[Clique, Floats] = {}
    rng = np.random.default_rng(0)
    for _, clique in list_rules(domain):
        part = domain.select([domain.columns[column] for column in clique])
        numbers = _list_numbers(part)
        own = [name for name in numbers if domain.columns.index(name) not in given]
        if clique in measured or given.issuperset(clique) or len(own) == len(numbers):
            continue
        cells = np.indices(part.sizes).reshape(len(clique), -1)
        n_cells = cells.shape[1]
        shape = (MAX_POINTS_PER_CELL, N_EVENTS_PER_POINT if own else 1, n_cells)
        if math.prod(shape) > 4 * MAX_POINTS_PER_PART:
            continue
        positions = {}
        for name in numbers:
            # Evenly spaced people, and random events.
            ranks = (rng.permutation(shape[0]) + 0.5) / shape[0]
            people = np.broadcast_to(ranks[:, np.newaxis, np.newaxis], shape)
            drawn = rng.random(shape) if name in own else people
            positions[name] = drawn.ravel()
        rows = _place_rows(part, np.tile(cells, shape[0] * shape[1]), positions, shapes)
        chance = part.check_constraints(rows).reshape(shape).mean(axis=1)
        measured[clique] = (
            (1 - (1 - chance) ** n_draws).mean(axis=0).reshape(part.sizes)
        )
    return measured


def _check_possible(domain: Domain, rows: pd.DataFrame) -> None:
    """Check that some combination of listed values satisfies all constraints, and is counted if some must be."""
    is_valid = domain.check_constraints(rows)
    for limit, is_limited in zip(
        domain._constraints, domain._mark_limited(rows), strict=True
    ):
        if limit.low and not (is_limited & is_valid).any():
            raise ValueError(
                f"{limit.title}: some combination of declared values must be counted, "
                "got none. Correct it, or remove it from `domain`."
            )
    if not is_valid.any():
        raise ValueError(
            f"The constraints {list(domain.constraints)} exclude all combinations "
            "of declared values. Remove some of them, or declare further values."
        )


def find_bin_starts(cells: Interval, limits: Iterable[tuple[float, bool]]) -> list[int]:
    """Return the first cells of the bins that begin at some limits, each a number and True for a limit after it.

    A limit within a cell makes this cell a bin.
    """
    starts: set[int] = set()
    edges = make_edge_array(cells.edges, cells.dtype)
    if edges.dtype.kind == "M":
        return []
    steps = Steps.of(cells)
    for number, is_after in limits:
        if not edges[0] <= number <= edges[-1]:
            continue
        cell = int(
            np.clip(np.searchsorted(edges, number, "right") - 1, 0, edges.size - 2)
        )
        if is_after and not (not steps.step and number == edges[cell]):
            starts.add(cell + 1)
            if number < steps.last[cell]:
                starts.add(cell)
        else:
            starts.add(cell)
            if number > steps.first[cell]:
                starts.add(cell + 1)
    return sorted(starts & {*range(1, edges.size - 1)})
