"""Sample and aggregate: any statistic, computed on random chunks of the rows, and averaged with noise."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.base import ColumnLike, TableLike, read_bounds
from skdp.central._base import charge
from skdp.central._chunks import (
    Take,
    isolated,
    kept_generators,
    open_rows,
    random_chunks,
)
from skdp.central.statistics import (
    GRID,
    Noise,
    as_float,
    clip_floats,
    to_places,
    to_values,
)
from skdp.oracles import check_size
from skdp.privacy import (
    Loss,
    Mu,
    PrivacyGuarantee,
    PrivacyLedger,
    Rho,
    Share,
    laplace_loss,
    read_share,
)

_MOST_CHUNKS = 1 << 31


@dataclass(frozen=True)
class Release:
    """A statistic released under a stated guarantee."""

    value: float | NDArray[np.float64]
    """The statistic with noise, clipped to its bounds; nan if it was refused."""
    std_error: float | NDArray[np.float64]
    """The standard deviation of the noise, before clipping; nan if it was refused."""
    guarantee: PrivacyGuarantee
    """What was spent, also by a refusal."""
    released: bool
    """False if most chunks had no value."""
    n_failed: int
    """A noisy number of chunks without a value, perhaps negative."""


def sample_and_aggregate(
    statistic: Callable[..., ArrayLike],
    X: TableLike,
    y: ColumnLike | None = None,
    *,
    bounds: ArrayLike,
    n_chunks: int,
    epsilon: float | Rho | Mu,
    default: ArrayLike | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: int | None = None,
) -> Release:
    """Release any statistic of a table as a noisy mean over random chunks of its rows.

    Every row goes to one of `n_chunks` chunks, drawn uniformly and independently. The statistic of each chunk is
    clipped to its bounds, and their mean is released with discrete Laplace noise: one row changes the statistic of one
    chunk only ([1]_). Where the statistic fails in most chunks, nothing is released.

    Parameters
    ----------
    statistic : callable
        Called as ``statistic(chunk)``, or ``statistic(chunk, y_chunk)`` with `y`, for each chunk that has rows, as a
        new copy (`copy.deepcopy`). It returns a number or a 1-D array of numbers, such as the ``coef_`` of an estimator
        fitted to the chunk.
    X : dataframe or ndarray of shape (n_samples, n_features)
        The private table. Chunks are of the same kind, made of the values of their rows only: numbers are float64 (nan
        where missing), categories are their values, rows are in random order with new labels.
    y : array-like of shape (n_samples,), optional
        Passed on in the same chunks.
    bounds : pair of float, or array-like of shape (n_outputs, 2)
        The lowest and the highest value of each output, from what is publicly known. A pair means one output.
    n_chunks : int
        The number of chunks, at least 1, chosen without looking at the data. More chunks mean less noise, but fewer
        rows each, whose statistic may be farther from that of the table.
    epsilon : float, Rho or Mu
        Privacy loss, finite and > 0.
    default : float or array-like of shape (n_outputs,), optional
        Counts for a chunk without rows, and for one whose statistic raises an error, is nan, or has another shape. By
        default such chunks do not count: the mean is that of the others.
    ledger : PrivacyLedger, optional
        What is charged, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, which draws the same chunks and noise in every call.

    Returns
    -------
    Release
        The statistic as ``value`` (a float for one output, else an array), with its ``guarantee``. Its ``std_error`` is
        that of the noise only. Its ``n_failed`` is a noisy number of chunks without a value; if that is more than half
        of them, the release is refused, at the same cost: nan, with ``released=False``.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range. Errors (`SystemExit` among them), warnings and output of the statistic itself
        are suppressed: they may hold values.
    KeyboardInterrupt
        If the user interrupts it, without text.
    BudgetExceeded
        If the ledger does not cover it.

    Warns
    -----
    UserWarning
        If nothing is released.

    Notes
    -----
    **Privacy.** Central model, pure epsilon, delta = 0, both for adding or removing a row and for replacing one: given
    the chunks of all rows, one row is in one chunk, so the sum of each of m outputs moves by at most its width, or by
    half of it while the number of chunks with a value moves by 1. Noise of scale m widths / epsilon on the sums and
    2 / epsilon on the number protects both for one epsilon. The statistics are rounded to an integer grid and added as
    integers.

    No row affects another chunk: neither by its position, its label or its dtype, nor by the state of a copy of the
    statistic, nor by that of the generators of `random` and `numpy.random`, which are seeded with new bits for each
    chunk and restored afterwards. **Not covered** are side effects of the statistic: its run time, what it writes to
    files or sends, and what it keeps in global variables, closures or threads. It must be a function of its chunk.

    With fewer than ``10 / epsilon`` chunks the noise alone may cause a refusal; with ``40 / epsilon``, its probability
    is 2e-5.

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
    _check_copyable(statistic)
    take, rows = open_rows(X, y)
    ends = _read_output_bounds(bounds)
    chunks = check_size(n_chunks, least=1, most=_MOST_CHUNKS, name="n_chunks")
    share = read_share(epsilon)
    defaults = None
    if default is not None:
        places = to_places(_read_default(default, ends), *ends.T)
        defaults = places.astype(np.int64).astype(object)
    what, mechanism = "sample_and_aggregate", "sample and aggregate"
    losses = _losses(share)
    guarantee, source = charge(
        what,
        share,
        ledger,
        random_state,
        mechanism=mechanism,
        n_rows=rows,
        losses=losses,
    )
    total, answered = np.zeros(len(ends), object), 0
    with kept_generators():
        for members in random_chunks(source, chunks, rows):
            chunk_places = isolated(
                partial(_places, statistic, take, members, ends), source
            )
            if chunk_places is not None:
                total += np.array(chunk_places, object)
                answered += 1
    of_totals, of_number = totals_noise(share, len(ends))
    noisy = np.array(of_totals.add(source, total.tolist()), object)
    (answered,) = of_number.add(source, [answered])
    failed = chunks - answered
    released = 2 * answered >= chunks
    means = errors = np.full(len(ends), math.nan)
    if released:
        noises = as_float(of_totals.error), as_float(of_number.error)
        means, errors = _means(noisy, answered, chunks, defaults, noises)
        means = to_values(means / GRID, ends)
        errors = errors / (2 * GRID) * (ends[:, 1] - ends[:, 0])
    else:
        warnings.warn(
            f"the statistic gave no value in about {failed:,} of {chunks:,} chunks (a "
            "noisy number): nothing is released. What it cost is spent. It may raise "
            "errors, or there are fewer rows than chunks; try it on public rows, in "
            "float64",
            UserWarning,
            stacklevel=2,
        )
    if np.ndim(bounds) == 1:
        return Release(float(means[0]), float(errors[0]), guarantee, released, failed)
    return Release(means, errors, guarantee, released, failed)


def _means(
    totals: NDArray[np.object_],
    answered: int,
    n_chunks: int,
    defaults: NDArray[np.object_] | None,
    noises: tuple[float, float],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean places and their errors, over the chunks with a value, or over all of them with defaults."""
    n = answered
    if defaults is not None:
        n = n_chunks
        totals = totals + defaults * (n_chunks - answered)
    means = clip_floats(totals) / as_float(n)
    slopes = means if defaults is None else defaults.astype(float)
    of_totals, of_number = noises
    return means, np.hypot(of_totals, of_number * slopes) / as_float(n)


def totals_noise(share: Share, n_outputs: int) -> tuple[Noise, Noise]:
    """Return the noise of m sums over chunks of places from -`GRID` to `GRID`, and of the number that gave one."""
    # One row changes one chunk. If that has a place before and after, each of m sums moves by at most ``2 * GRID`` and
    # the number does not; if it has one only before or only after, each sum moves by at most `GRID`, and the number by
    # 1. So with Laplace noise of scale ``2 * GRID * m / epsilon`` on the sums and ``2 / epsilon`` on the number, the
    # loss is at most epsilon in both cases: the number costs nothing more. For Gaussian noise, half of the change of
    # either counts as a quarter of rho or mu**2; half of an epsilon, as at most half of rho.
    return Noise.of(share, 2 * GRID * n_outputs, n_outputs * (2 * GRID) ** 2), Noise.of(
        share, 2
    )


def _losses(share: Share) -> tuple[Loss, ...]:
    """Return the losses of such totals, for a share of epsilon; of others, rho says as much."""
    if share.kind != "epsilon":
        return ()
    # Each link changes the place of one chunk, or the number of those that gave one: it has at most half of epsilon, as
    # a change of a place by up to the width is two of up to half of it. So a row is at most two links.
    return (laplace_loss(share.amount, 2),)


def _read_output_bounds(bounds: Any) -> NDArray[np.float64]:
    if bounds is None:
        raise ValueError(
            "bounds of the statistic must be declared, from what is publicly known"
        )
    count = 1 if np.ndim(bounds) == 1 else len(bounds)
    if count == 0:
        raise ValueError("bounds must be a pair (low, high), or one for each output")
    return read_bounds(bounds, [f"output {index}" for index in range(count)])


def _read_default(default: Any, ends: NDArray[np.float64]) -> NDArray[np.float64]:
    values = np.atleast_1d(np.asarray(default, float))
    if (
        values.shape != (len(ends),)
        or not ((ends[:, 0] <= values) & (values <= ends[:, 1])).all()
    ):
        raise ValueError(f"default must be {len(ends)} number(s) between the bounds")
    return values


def _check_copyable(statistic: Any) -> None:
    try:
        copy.deepcopy(statistic)
    except Exception as error:
        raise TypeError(
            f"statistic must be something that can be copied, as each chunk gets its own ({type(error).__name__})"
        ) from None


def _places(
    statistic: Callable[..., Any],
    take: Take,
    members: NDArray[np.intp],
    ends: NDArray[np.float64],
) -> list[int] | None:
    """Return the statistic of a chunk as places on the grid; None if it is no statistic."""
    outputs = np.atleast_1d(np.array(copy.deepcopy(statistic)(*take(members)), float))
    fits = outputs.shape == (len(ends),) and not np.isnan(outputs).any()
    return _to_integers(outputs, ends) if fits else None


def _to_integers(outputs: NDArray[np.float64], ends: NDArray[np.float64]) -> list[int]:
    return [int(place) for place in to_places(outputs, *ends.T)]
