"""A statistic of a table by its values on random chunks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import Floats, Indices
from skdp.base import ColumnLike, TableLike, parse_bounds, to_array
from skdp.central._base import charge
from skdp.central._sums import GRID, clip_floats, from_grid, to_grid
from skdp.central.statistics import Noise, to_float
from skdp.pages import warn
from skdp.privacy import (
    Mu,
    PrivacyBudget,
    PrivacyGuarantee,
    PrivacyLedger,
    Rho,
    parse_budget,
)
from skdp.randomness import ByteSource, check_size, uniform_integers
from skdp.tables import is_frame


@dataclass(frozen=True)
class ReleasedStatistic:
    """A released statistic, with its guarantee."""

    value: Any  # a float, or an array of several outputs
    """The statistic with noise, clipped to its bounds; nan if it was not released."""
    std_error: Any
    """The standard deviation of the noise before clipping; nan if nothing was released, or if it is private."""
    guarantee: PrivacyGuarantee
    """The guarantee, which is charged even if nothing was released."""
    released: bool = True
    """False if a private test found that the statistic cannot be released."""
    n_failed: int | None = None
    """Noisy number of chunks without a value, which may be negative; None if there are no chunks."""


def sample_and_aggregate(
    statistic: Callable[..., ArrayLike],
    X: TableLike,
    y: ColumnLike | None = None,
    *,
    bounds: ArrayLike,
    n_chunks: int,
    epsilon: float | Rho | Mu,
    ledger: PrivacyLedger | None = None,
    random_state: int | None = None,
) -> ReleasedStatistic:
    """Release any statistic of a table as a noisy mean over random chunks of its rows.

    Every row goes to one of `n_chunks` chunks, drawn uniformly and independently. The statistic of each chunk is
    clipped to its bounds, and the mean over chunks is released with discrete Laplace noise, because one row changes the
    statistic of one chunk only ([1]_). If the statistic fails in most chunks, nothing is released.

    Parameters
    ----------
    statistic : callable
        Called as ``statistic(chunk)``, or ``statistic(chunk, y_chunk)`` with `y`, for each chunk that has rows. It
        returns a number or a 1-D array of numbers, such as the ``coef_`` of an estimator fitted to the chunk. It must
        be a function of the values of its chunk alone (see Notes).
    X : dataframe or ndarray of shape (n_samples, n_features)
        Private table. A chunk has some of its rows, in their order, with a new index in pandas.
    y : array-like of shape (n_samples,), optional
        The targets, divided into the same chunks.
    bounds : pair of float, or array-like of shape (n_outputs, 2)
        The smallest and largest value of each output, from public knowledge. A pair means one output.
    n_chunks : int
        The number of chunks, at least 1, chosen without looking at the data. More chunks mean less noise, but fewer
        rows each, so the statistic of a chunk may be farther from the statistic of the table.
    epsilon : float, Rho or Mu
        Privacy loss, finite and > 0.
    ledger : PrivacyLedger, optional
        Ledger that is charged before noise is drawn.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Returns
    -------
    ReleasedStatistic
        The statistic as ``value`` (a float for one output, otherwise an array), with its ``guarantee``. Its
        ``std_error`` accounts for the noise only. Its ``n_failed`` is a noisy number of chunks without a value; if it
        exceeds half of the chunks, ``value`` is nan and ``released`` is False, at the same cost.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range. A chunk in which the statistic raises an exception has no value.
    BudgetExceeded
        If the ledger does not cover the release.

    Warns
    -----
    UserWarning
        If nothing is released.

    Notes
    -----
    **Privacy.** Central model, pure epsilon, delta = 0, both for adding or removing a row and for replacing one. A row
    is in one chunk. Given the chunks of all rows, it changes the sum of each of m outputs by at most the width of its
    bounds, or by half of the width if it also changes the number of chunks with a value by 1. Noise of scale
    m widths / epsilon for the sums and 2 / epsilon for the number therefore protects both for one epsilon. The
    statistics are rounded to an integer grid and added as integers.

    **The statistic is trusted.** It must not use the dtypes of its chunk, global variables, global random generators or
    state of earlier calls, and must not print, store or send anything: all of these can reveal rows of other chunks.
    `sys.exit` counts as an error of the chunk, but a statistic must not end the process in another way, such as by
    `os._exit` or a crash of compiled code: a process that ends after the charge reveals that some chunk ended it. Its
    run time is not covered.

    With fewer than ``10 / epsilon`` chunks the noise alone may prevent the release;
    with ``40 / epsilon``, its probability is 2e-5.

    References
    ----------
    .. [1] K. Nissim, S. Raskhodnikova, A. Smith (2007). Smooth sensitivity and sampling in private data analysis. STOC.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.central import sample_and_aggregate
    >>> rng = np.random.default_rng(0)
    >>> ages = rng.integers(17, 90, size=(20_000, 1))
    >>> release = sample_and_aggregate(np.median, ages, bounds=(0, 100), n_chunks=400, epsilon=1.0, random_state=0)
    >>> bool(abs(release.value - np.median(ages)) < 2)
    True
    """
    if not callable(statistic):
        raise TypeError(
            f"`statistic` must be callable, got {type(statistic).__name__}."
        )
    tables = [read_rows(X, "X")]
    if y is not None:
        tables.append(read_rows(y, "y"))
    n_rows = len(tables[0])
    if len(tables[-1]) != n_rows:
        # The numbers of rows are private.
        raise ValueError("X and y must have the same number of rows.")
    limits = read_output_bounds(bounds)
    n_chunks = check_size(n_chunks, min_val=1, max_val=1 << 31, name="n_chunks")
    budget = parse_budget(epsilon)

    guarantee, source = charge(
        "sample_and_aggregate",
        budget,
        ledger,
        random_state,
        mechanism="sample and aggregate",
    )
    # An output is a position from -`GRID` to `GRID` between its bounds; shape (n_outputs,)
    # for each chunk with a value.
    positions = []
    for members in _draw_chunks(source, n_chunks, n_rows):
        chunk_positions = _evaluate_chunk(statistic, tables, members, limits)
        if chunk_positions is not None:
            positions.append(chunk_positions)
    totals = sum(positions, np.zeros(len(limits), object))

    total_noise, number_noise = _make_noises(budget, len(limits))
    totals = np.array(total_noise.add(source, totals.tolist()), object)
    (n_values,) = number_noise.add(source, [len(positions)])
    n_failed = n_chunks - n_values
    released = 2 * n_values >= n_chunks
    values = errors = np.full(len(limits), math.nan)
    if released:
        means = clip_floats(totals) / to_float(n_values)
        # To first order, the standard deviation of the ratio of two noisy numbers, times
        # the number of chunks with a value.
        scaled_errors = np.hypot(
            to_float(total_noise.std), to_float(number_noise.std) * means
        )
        values = from_grid(means / GRID, limits)
        widths = limits[:, 1] - limits[:, 0]
        errors = scaled_errors / to_float(n_values) / (2 * GRID) * widths
    else:
        warn(
            f"`statistic` failed in about {n_failed:,} of {n_chunks:,} chunks (a noisy "
            "number), so nothing is released. Try it on public rows, or decrease "
            "`n_chunks`",
            UserWarning,
            about="guide/curator_statistics",
            stacklevel=2,
        )
    if np.ndim(bounds) == 1:
        value, error = float(values[0]), float(errors[0])
        return ReleasedStatistic(value, error, guarantee, released, n_failed)
    return ReleasedStatistic(values, errors, guarantee, released, n_failed)


def _make_noises(budget: PrivacyBudget, n_outputs: int) -> tuple[Noise, Noise]:
    """Return the noise of the sum of each output over chunks, and of the number of chunks with a value."""
    # One row changes one chunk. If the chunk has a value before and after, each of m sums
    # changes by at most ``2 * GRID`` and the number does not change. If it has a value only
    # before or only after, each sum changes by at most `GRID`, and the number by 1. So with
    # Laplace noise of scale ``2 * GRID * m / epsilon`` on the sums and ``2 / epsilon`` on
    # the number, the loss is at most epsilon in the first case, and epsilon / 2 +
    # epsilon / 2 in the second. With Gaussian noise, half of a change has a quarter of its
    # loss in rho or mu**2.
    total_noise = Noise.from_budget(
        budget, 2 * GRID * n_outputs, n_outputs * (2 * GRID) ** 2
    )
    return total_noise, Noise.from_budget(budget, 2)


def read_output_bounds(bounds: Any) -> Floats:
    """Check the bounds of the outputs of a statistic, and return them as an array (n_outputs, 2)."""
    if bounds is None:
        raise ValueError(
            "`bounds` must be a pair (low, high), or one pair per output, got None. "
            "Use public knowledge."
        )
    count = 1 if np.ndim(bounds) == 1 else len(bounds)
    if count == 0:
        raise ValueError(
            "`bounds` must be a pair (low, high), or one pair per output, got an empty "
            "list."
        )
    return parse_bounds(bounds, [f"output {index}" for index in range(count)])


def read_rows(data: Any, name: str) -> Any:
    """Check a table or an array of rows, the parameter `name`, and return it; other sequences become an array."""
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError(
            f"{name} must not be a masked array. Fill in its masked values."
        )
    rows = data if is_frame(data) else to_array(data, name)
    if getattr(rows, "ndim", 2) == 0:
        raise ValueError(
            f"{name} must be a dataframe or an array of rows, got 0 dimensions."
        )
    return rows


def _draw_chunks(source: ByteSource, n_chunks: int, n_rows: int) -> list[Indices]:
    """Draw a chunk for each row uniformly; return the indices of the rows of each nonempty chunk."""
    labels = uniform_integers(source, n_chunks, n_rows)
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order].astype(np.int64))) + 1
    return np.split(order, starts) if n_rows else []


def _evaluate_chunk(
    statistic: Callable[..., Any],
    tables: Sequence[Any],
    members: Indices,
    limits: Floats,
) -> NDArray[np.object_] | None:
    """Compute the statistic of a chunk, rounded to the grid between the bounds; None if it fails.

    `tables` are X and possibly y, `members` the rows of the chunk, and `limits` the bounds; shape (n_outputs, 2).
    """
    chunk = [_select_rows(table, members) for table in tables]
    try:
        outputs = np.atleast_1d(np.array(statistic(*chunk), float))
    except (Exception, SystemExit):
        # Raising the error, or ending the process, would reveal rows.
        return None
    if outputs.shape != (len(limits),) or np.isnan(outputs).any():
        return None
    return to_grid(outputs, *limits.T).astype(np.int64).astype(object)


def _select_rows(table: Any, members: Indices) -> Any:
    """Select the rows of a table, array or column at some indices."""
    if isinstance(table, np.ndarray):
        return table[members]
    if isinstance(table, pd.DataFrame | pd.Series):
        return table.iloc[members].reset_index(drop=True)
    frame = nw.from_native(table, eager_only=True, allow_series=True)
    return frame[members.tolist()].to_native()
