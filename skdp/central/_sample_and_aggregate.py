"""Sample and aggregate: any statistic, computed on random chunks of the rows, and averaged with noise."""

from __future__ import annotations

import copy
import io
import math
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skdp.base import ColumnLike, TableLike, read_array, read_bounds
from skdp.central._base import charge, with_nulls
from skdp.central.statistics import (
    GRID,
    Noise,
    as_float,
    clip_floats,
    to_places,
    to_values,
)
from skdp.oracles import check_size
from skdp.pages import warn
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
from skdp.randomness import ByteSource, uniform_integers
from skdp.tables import (
    ColumnError,
    is_frame,
    is_missing,
    kind_of,
    labels_of,
    plain,
    read_table,
    to_numbers,
)


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
    tables = [PlainTable.read(X, "X")]
    if y is not None:
        tables.append(PlainTable.read(y, "y"))
    n_rows = len(tables[0].native)
    if len(tables[-1].native) != n_rows:
        # How many is private.
        raise ValueError("X and y must have as many rows as each other")
    ends = _read_output_bounds(bounds)
    n_chunks = check_size(n_chunks, least=1, most=1 << 31, name="n_chunks")
    share = read_share(epsilon)
    defaults = None
    if default is not None:
        defaults = _to_integers(_read_default(default, ends), ends)

    guarantee, source = charge(
        "sample_and_aggregate",
        share,
        ledger,
        random_state,
        mechanism="sample and aggregate",
        losses=_losses(share),
    )
    chunks = random_chunks(source, n_chunks, n_rows)
    places = _places_of_chunks(statistic, tables, chunks, ends, source)
    totals, n_answers = sum(places, np.zeros(len(ends), object)), len(places)

    of_totals, of_number = totals_noise(share, len(ends))
    totals = np.array(of_totals.add(source, totals.tolist()), object)
    (n_answers,) = of_number.add(source, [n_answers])
    n_failed = n_chunks - n_answers
    released = 2 * n_answers >= n_chunks
    values = errors = np.full(len(ends), math.nan)
    if released:
        # The mean over the chunks with a value, or over all of them with defaults.
        n = n_answers
        if defaults is not None:
            n = n_chunks
            totals = totals + defaults * n_failed
        means = clip_floats(totals) / as_float(n)
        slopes = means if defaults is None else defaults.astype(float)
        noise = np.hypot(as_float(of_totals.error), as_float(of_number.error) * slopes)
        values = to_values(means / GRID, ends)
        errors = noise / as_float(n) / (2 * GRID) * (ends[:, 1] - ends[:, 0])
    else:
        warn(
            f"the statistic gave no value in about {n_failed:,} of {n_chunks:,} chunks "
            "(a noisy number): nothing is released. What it cost is spent. It may "
            "raise errors, or there are fewer rows than chunks; try it on public rows, "
            "in float64",
            UserWarning,
            about="guide/curator_statistics",
            stacklevel=2,
        )
    if np.ndim(bounds) == 1:
        value, error = float(values[0]), float(errors[0])
        return Release(value, error, guarantee, released, n_failed)
    return Release(values, errors, guarantee, released, n_failed)


def totals_noise(share: Share, n_outputs: int) -> tuple[Noise, Noise]:
    """Return the noise of m sums over chunks of places from -`GRID` to `GRID`, and of the number that gave one."""
    # One row changes one chunk. If that has a place before and after, each of m sums
    # moves by at most ``2 * GRID`` and the number does not; if it has one only before
    # or only after, each sum moves by at most `GRID`, and the number by 1. So with
    # Laplace noise of scale ``2 * GRID * m / epsilon`` on the sums and ``2 / epsilon``
    # on the number, the loss is at most epsilon in both cases: the number costs nothing
    # more. For Gaussian noise, half of the change of either counts as a quarter of rho
    # or mu**2; half of an epsilon, as at most half of rho.
    of_totals = Noise.of(share, 2 * GRID * n_outputs, n_outputs * (2 * GRID) ** 2)
    return of_totals, Noise.of(share, 2)


def _losses(share: Share) -> tuple[Loss, ...]:
    """Return the losses of such totals, for a share of epsilon; of others, rho says as much."""
    if share.kind != "epsilon":
        return ()
    # Each link changes the place of one chunk, or the number of those that gave one: it
    # has at most half of epsilon, as a change of a place by up to the width is two of
    # up to half of it. So a row is at most two links.
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
    lows, highs = ends.T
    if len(values) != len(ends) or not ((lows <= values) & (values <= highs)).all():
        raise ValueError(f"default must be {len(ends)} number(s) between the bounds")
    return values


def _check_copyable(statistic: Any) -> None:
    try:
        copy.deepcopy(statistic)
    except Exception as error:
        raise TypeError(
            "statistic must be something that can be copied, as each chunk gets its "
            f"own ({type(error).__name__})"
        ) from None


def _places_of_chunks(
    statistic: Callable[..., Any],
    tables: Sequence[PlainTable],
    chunks: Sequence[NDArray[np.intp]],
    ends: NDArray[np.float64],
    source: ByteSource,
) -> list[NDArray[np.object_]]:
    """Return the statistics of the chunks that have one, as places on the grid."""
    places = []
    with kept_generators():
        for members in chunks:
            chunk_places = isolated(
                partial(_places, statistic, tables, members, ends), source
            )
            if chunk_places is not None:
                places.append(chunk_places)
    return places


def _places(
    statistic: Callable[..., Any],
    tables: Sequence[PlainTable],
    members: NDArray[np.intp],
    ends: NDArray[np.float64],
) -> NDArray[np.object_] | None:
    """Return the statistic of a chunk as places on the grid; None if it is no statistic."""
    chunk = [table.take(members) for table in tables]
    outputs = np.atleast_1d(np.array(copy.deepcopy(statistic)(*chunk), float))
    if outputs.shape != (len(ends),) or np.isnan(outputs).any():
        return None
    return _to_integers(outputs, ends)


def _to_integers(
    outputs: NDArray[np.float64], ends: NDArray[np.float64]
) -> NDArray[np.object_]:
    return to_places(outputs, *ends.T).astype(np.int64).astype(object)


@dataclass(frozen=True, eq=False)
class PlainTable:
    """A table or an array, of whose rows chunks are made."""

    # A chunk is made of the values of its own rows: numbers are float64, booleans
    # without a missing one are bool, dates are in microseconds, and all else is as a
    # library reads a list of plain values. So its dtypes, categories, row labels,
    # metadata and widths reveal nothing of other rows, and it shares no object with
    # them.

    native: Any
    # Floats or plain values; of an array, a single one of shape (n_rows, n_values).
    columns: Sequence[NDArray[Any]]

    @classmethod
    def read(cls, data: Any, name: str) -> Self:
        """Read plain values."""
        if isinstance(data, np.ma.MaskedArray):
            raise TypeError(
                "masked arrays are not supported, as their masked values would be "
                "used; fill them first"
            )
        native = data if is_frame(data) else read_array(data, name)
        # To ask NumPy would make an array of a frame.
        if getattr(native, "ndim", 2) == 0:
            raise ValueError(f"{name} must be a dataframe or an array of rows")
        try:
            if isinstance(native, np.ndarray):
                shape = len(native), native[:1].size
                return cls(native, [_values(native.reshape(-1)).reshape(shape)])
            return cls(native, list(map(_values, read_table(native).columns)))
        except Exception as error:
            # The text of another library's error may hold a value.
            raise TypeError(
                f"{name} holds values that cannot be read ({type(error).__name__})"
            ) from None

    def take(self, members: NDArray[np.intp]) -> Any:
        """Copy some rows."""
        chunk = [_own_dtype(column[members]) for column in self.columns]
        if isinstance(self.native, np.ndarray):
            return chunk[0].reshape(len(members), *self.native.shape[1:])
        if isinstance(self.native, pd.DataFrame):
            frame = pd.DataFrame(dict(enumerate(chunk)))
            # Their names can be changed in place.
            frame.columns = labels_of(self.native.columns).copy(deep=True)
            return frame
        backend = nw.get_native_namespace(self.native)
        columns = {}
        for name, part in zip(read_table(self.native).names, chunk, strict=True):
            is_plain = part.dtype == object
            columns[name] = part.tolist() if is_plain else with_nulls(part, backend)
        return nw.from_dict(columns, backend=backend).to_native()


def random_chunks(
    source: ByteSource, n_chunks: int, rows: int
) -> list[NDArray[np.intp]]:
    """Draw a chunk for each row, and a random order in each chunk."""
    labels = uniform_integers(source, n_chunks, rows)
    while True:
        keys = source.bytes(8 * rows).view(np.uint64)
        order = np.lexsort((keys, labels))
        is_first = np.diff(labels[order].astype(np.int64)) > 0
        # Rows of a chunk that drew the same key would stand in the order of the table.
        if (is_first | (np.diff(keys[order]) > 0)).all():
            break
    return np.split(order, np.flatnonzero(is_first) + 1) if rows else []


def _values(column: Any) -> NDArray[Any]:
    """Read a column as floats, or as plain Python values, None where missing."""
    if not (isinstance(column, np.ndarray | pd.Series) and column.dtype == object):
        try:
            return to_numbers(column).astype(float)
        except ColumnError:
            pass  # no numbers
    if isinstance(column, np.ndarray):
        column = pd.Series(column) if column.dtype.kind in "mM" else column
        objects: Sequence[Any] = column.tolist()
    else:
        objects = nw.from_native(column, series_only=True).to_list()
    return np.fromiter(map(_real, map(plain, objects)), object, len(objects))


def _real(value: Any) -> Any:
    """Convert a complex number that is real, so that the dtype does not reveal that others are not."""
    return value.real if isinstance(value, complex) and value.imag == 0 else value


def _own_dtype(values: NDArray[Any]) -> NDArray[Any]:
    """Choose the dtype of plain values by themselves."""
    if values.dtype != object:
        return values
    present = [value for value in values.flat if not is_missing(value)]
    kinds = {kind_of(value) for value in present}
    if kinds <= {"number"}:
        return values.astype(float)
    if kinds == {"boolean"} and len(present) == values.size:
        return values.astype(bool)
    if kinds == {"datetime"} and all(value.tzinfo is None for value in present):
        series = pd.Series(values.reshape(-1), dtype="datetime64[us]")
        return series.to_numpy().reshape(values.shape)
    # A list or a dict of one row may be that of another row.
    return copy.deepcopy(values)


Answer = TypeVar("Answer")


@contextmanager
def kept_generators() -> Iterator[None]:
    """Restore the states of the global generators afterwards."""
    # The statistic may use the global generators.
    state = random.getstate()
    numpy_state = np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)  # noqa: NPY002


def isolated(function: Callable[[], Answer], source: ByteSource) -> Answer | None:
    """Call a function without output, errors, warnings, or a state of generators that it shares."""
    seed = source.bytes(32).tobytes()
    random.seed(seed)
    np.random.seed(np.frombuffer(seed, np.uint32))  # noqa: NPY002
    try:
        with (
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
            warnings.catch_warnings(record=True),
            np.errstate(all="ignore"),
        ):
            warnings.simplefilter("ignore")
            return function()
    except KeyboardInterrupt:
        pass  # raised again below, where it has no context
    except BaseException:
        return None
    raise KeyboardInterrupt
