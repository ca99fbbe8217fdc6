"""Sample and aggregate: any statistic, computed on random chunks of the rows, and averaged with noise."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.base import check_ledger, check_random_state, coins, read_bounds
from skdp.central._release import Release
from skdp.central._sums import GRID, to_places, to_value
from skdp.exact import round_up
from skdp.frames import is_frame
from skdp.oracles import check_size
from skdp.privacy import PrivacyGuarantee, PrivacyLedger, check_epsilon
from skdp.randomness import ByteSource, discrete_laplace, uniform_integers

MOST_CHUNKS = 1 << 31


def sample_and_aggregate(
    statistic: Callable[..., ArrayLike],
    X: Any,
    y: Any = None,
    *,
    bounds: Any,
    n_chunks: int,
    epsilon: float,
    default: ArrayLike | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: int | None = None,
) -> Release:
    """Release any statistic of a table as a noisy mean over random chunks of its rows.

    Every row goes to one of `n_chunks` chunks, drawn uniformly and independently of everything. The statistic of each
    chunk is clipped to its bounds, and their mean is released with discrete Laplace noise: one row can change the
    statistic of one chunk only, whatever the statistic does ([1]_).

    Parameters
    ----------
    statistic : callable
        Called as ``statistic(chunk)``, or ``statistic(chunk, y_chunk)`` with `y`, for each chunk that has rows. It
        returns a number or a 1-D array of numbers, such as the ``coef_`` of an estimator fitted to the chunk.
    X : dataframe or ndarray of shape (n_samples, n_features)
        The private table; chunks are of the same kind.
    y : array-like of shape (n_samples,), optional
        More of it: passed on in the same chunks.
    bounds : pair of float, or array-like of shape (n_outputs, 2)
        The lowest and the highest value of each output, from what is publicly known. A pair means one output.
    n_chunks : int
        How many chunks, at least 1, chosen without looking at the data. The noise falls with it; but the fewer rows a
        chunk has, the farther may its statistic be from that of the table.
    epsilon : float
        Privacy loss, finite and > 0.
    default : float or array-like of shape (n_outputs,), optional
        Counts for a chunk without rows, and for one whose statistic raises an error, is nan, or has another shape; by
        default the middle between the bounds.
    ledger : PrivacyLedger, optional
        What is charged, before anything is drawn.
    random_state : None or int, default=None
        None for secure coins; an int for experiments, which draws the same chunks and noise in every call.

    Returns
    -------
    Release
        The statistic (a float if there is one output, else an array). Its `std_error` is that of the noise; how far the
        mean over chunks is from the statistic of the table is not known.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range. Errors and warnings of the statistic itself are not shown: they may hold
        values.
    BudgetExceeded
        If the ledger does not cover it.

    Notes
    -----
    **Privacy.** Central model, pure epsilon, delta = 0, both for adding or removing a row and for replacing one: given
    the chunks of all rows, one row is in one chunk, so the mean of each output moves by at most its width divided by
    `n_chunks`; with m outputs each gets epsilon / m. The statistics are rounded to an integer grid and added as
    integers. What the statistic *does* while it runs is not covered: how long it takes, what it prints, and what it
    keeps.

    References
    ----------
    .. [1] K. Nissim, S. Raskhodnikova, A. Smith (2007). Smooth sensitivity and sampling in private data analysis. STOC.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> ages = rng.integers(17, 90, size=(20_000, 1))
    >>> release = sample_and_aggregate(np.median, ages, bounds=(0, 100), n_chunks=400, epsilon=1.0, random_state=0)
    >>> bool(abs(release.value - np.median(ages)) < 2)
    True
    """
    if not callable(statistic):
        raise TypeError(f"statistic must be callable, got {type(statistic).__name__}")
    take, rows = _chunk_taker(X, y)
    ends = _read_output_bounds(bounds)
    chunks = check_size(n_chunks, least=1, most=MOST_CHUNKS, name="n_chunks")
    exact = check_epsilon(epsilon)
    defaults = _read_default(default, ends)
    check_ledger(ledger)
    check_random_state(random_state)
    guarantee = PrivacyGuarantee(
        round_up(exact),
        relation="add_remove",
        trust="central",
        mechanism="sample and aggregate",
        secure=random_state is None,
    )
    if ledger is not None:
        ledger.charge(guarantee, "sample_and_aggregate")
    source = coins(random_state, "sample_and_aggregate")
    labels = uniform_integers(source, chunks, rows)
    sizes = np.bincount(labels, minlength=chunks)
    places = _to_integers(defaults, ends)
    total = [place * int(np.count_nonzero(sizes == 0)) for place in places]
    if rows:
        order = np.argsort(labels, kind="stable")
        for members in np.split(order, np.cumsum(sizes[sizes > 0])[:-1]):
            outputs = _call(statistic, take(members), len(ends))
            chunk = places if outputs is None else _to_integers(outputs, ends)
            total = [left + right for left, right in zip(total, chunk, strict=True)]
    means = noisy_means(source, total, chunks, exact)
    values = np.array([to_value(mean, low, high) for mean, (low, high) in zip(means, ends, strict=True)])
    share = float(min(noise_std(exact, chunks, len(ends)) / (2 * GRID), Fraction(1 << 64)))
    errors = share * (ends[:, 1] - ends[:, 0])
    if np.ndim(bounds) == 1:
        return Release(float(values[0]), float(errors[0]), guarantee)
    return Release(values, errors, guarantee)


def noisy_means(source: ByteSource, totals: list[int], n_chunks: int, epsilon: Fraction) -> list[Fraction]:
    """Release sums over chunks of places from -`GRID` to `GRID`, as means.

    Parameters
    ----------
    source : ByteSource
        Where the coins come from.
    totals : list of int
        The sum over all chunks of each output. One row moves each of them by at most ``2 * GRID``.
    n_chunks : int
        The number of chunks.
    epsilon : Fraction
        Privacy loss of all outputs together.

    Returns
    -------
    list of Fraction
        The noisy mean of each output, from -`GRID` to `GRID`.
    """
    noise = discrete_laplace(source, 2 * GRID * len(totals) / epsilon, len(totals))
    means = [Fraction(total + int(part), n_chunks) for total, part in zip(totals, noise, strict=True)]
    return [min(max(mean, Fraction(-GRID)), Fraction(GRID)) for mean in means]


def noise_std(epsilon: Fraction, n_chunks: int, n_outputs: int) -> Fraction:
    """Return the standard deviation of the noise of a mean over chunks.

    Parameters
    ----------
    epsilon : Fraction
        Privacy loss of all outputs together.
    n_chunks, n_outputs : int
        The number of chunks and of outputs.

    Returns
    -------
    Fraction
        In steps of the grid.
    """
    return Fraction(math.sqrt(2)) * 2 * GRID * n_outputs / epsilon / n_chunks


def _chunk_taker(X: Any, y: Any) -> tuple[Callable[[NDArray[np.intp]], tuple[Any, ...]], int]:
    """Return what takes rows out of all tables, and the number of rows."""
    tables = [X if is_frame(X) else np.asarray(X)]
    if np.ndim(tables[0]) == 0:
        raise ValueError("X must be a dataframe or an array of rows")
    if y is not None:
        tables.append(np.asarray(y))
    rows = len(tables[0])
    if any(len(table) != rows for table in tables):
        raise ValueError("X and y must have as many rows as each other")  # how many is private
    parts = [table if isinstance(table, np.ndarray) else nw.from_native(table, eager_only=True) for table in tables]

    def take(members: NDArray[np.intp]) -> tuple[Any, ...]:  # numpydoc ignore=GL08
        return tuple(nw.to_native(part[members], pass_through=True) for part in parts)

    return take, rows


def _read_output_bounds(bounds: Any) -> NDArray[np.float64]:
    if bounds is None:
        raise ValueError("bounds of the statistic must be declared, from what is publicly known")
    count = 1 if np.ndim(bounds) == 1 else len(bounds)
    if count == 0:
        raise ValueError("bounds must be a pair (low, high), or one for each output")
    return read_bounds(bounds, [f"output {index}" for index in range(count)])


def _read_default(default: Any, ends: NDArray[np.float64]) -> NDArray[np.float64]:
    if default is None:
        return ends[:, 0] + (ends[:, 1] - ends[:, 0]) / 2
    values = np.atleast_1d(np.asarray(default, float))
    if values.shape != (len(ends),) or not ((ends[:, 0] <= values) & (values <= ends[:, 1])).all():
        raise ValueError(f"default must be {len(ends)} number(s) between the bounds")
    return values


def _call(statistic: Callable[..., Any], chunk: tuple[Any, ...], n_outputs: int) -> NDArray[np.float64] | None:
    """Return the statistic of a chunk; None if there is none, whatever the reason."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = np.atleast_1d(np.asarray(statistic(*chunk), float))
    except Exception:  # which error it was, and that there was one, is private
        return None
    return outputs if outputs.shape == (n_outputs,) and not np.isnan(outputs).any() else None


def _to_integers(outputs: NDArray[np.float64], ends: NDArray[np.float64]) -> list[int]:
    return [int(place) for place in to_places(outputs, *ends.T)]
