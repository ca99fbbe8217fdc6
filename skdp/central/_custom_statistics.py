"""Releases of a statistic that the user defines: by its values on random chunks, or by its local sensitivity."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import ColumnLike, Floats, Indices, TableLike
from skdp.base import parse_bounds, to_array, to_float_columns
from skdp.central._base import charge
from skdp.central._sums import GRID, from_grid, to_grid
from skdp.central.statistics import Noise, to_float, warn_user
from skdp.exact import exp_bounds, log_upper
from skdp.privacy import (
    Mu,
    PrivacyBudget,
    PrivacyGuarantee,
    PrivacyLedger,
    Rho,
    check_delta,
    check_epsilon,
    parse_budget,
)
from skdp.randomness import (
    ByteSource,
    check_size,
    check_type,
    discrete_laplace,
    uniform_integers,
)
from skdp.tables import is_frame, wrap_table

# Number of steps between the bounds of a statistic, in which Laplace noise is drawn.
N_STEPS = 1 << 60

# Smallest smooth sensitivity in steps, so that rounding to whole steps changes it by a
# factor of at most 1 + 2**-30.
MIN_SMOOTH_STEPS = math.isqrt(N_STEPS)


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
    check_type("statistic", statistic, Callable, "callable")
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
    noisy_totals = total_noise.add_floats(source, totals)
    (n_values,) = number_noise.add(source, [len(positions)])
    n_failed = n_chunks - n_values
    released = 2 * n_values >= n_chunks
    values = errors = np.full(len(limits), math.nan)
    if released:
        means = noisy_totals / to_float(n_values)
        # To first order, the standard deviation of the ratio of two noisy numbers, times
        # the number of chunks with a value.
        scaled_errors = np.hypot(
            to_float(total_noise.std), to_float(number_noise.std) * means
        )
        values = from_grid(means / GRID, limits)
        widths = limits[:, 1] - limits[:, 0]
        errors = scaled_errors / to_float(n_values) / (2 * GRID) * widths
    else:
        warn_user(
            f"`statistic` failed in about {n_failed:,} of {n_chunks:,} chunks (a noisy "
            "number), so nothing is released. Try it on public rows, or decrease "
            "`n_chunks`",
            "guide/curator_statistics",
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
    is_sized = isinstance(bounds, Sized)
    if not is_sized or len(bounds) == 0:
        raise ValueError(
            "`bounds` must be a pair (low, high), or one pair per output, got "
            f"{'none' if is_sized else type(bounds).__name__}. Use public knowledge."
        )
    count = 1 if np.ndim(bounds) == 1 else len(bounds)
    return parse_bounds(bounds, [f"output {index}" for index in range(count)])


def read_rows(data: TableLike, name: str) -> Any:
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


def _select_rows(table: TableLike, members: Indices) -> Any:
    """Select the rows of a table, array or column at some indices."""
    if isinstance(table, np.ndarray):
        return table[members]
    if isinstance(table, pd.DataFrame | pd.Series):
        return table.iloc[members].reset_index(drop=True)
    frame = nw.from_native(table, eager_only=True, allow_series=True)
    return frame[members.tolist()].to_native()


def propose_test_release(
    statistic: Callable[[Any], float] | Literal["mean"],
    X: TableLike,
    *,
    sensitivity: float,
    bounds: tuple[float, float],
    epsilon: float,
    delta: float,
    local_sensitivity: Callable[[Any, int], float] | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: int | None = None,
) -> ReleasedStatistic:
    """Release a statistic with Laplace noise for a proposed sensitivity, if the table passes a private test.

    The test adds noise to the distance D of the table: the smallest number of records to add or remove until the local
    sensitivity exceeds `sensitivity`. If the noisy distance is at least a threshold, the statistic is released;
    otherwise it is not released ([1]_).

    Parameters
    ----------
    statistic : callable or "mean"
        Called as ``statistic(X)``; returns a number. "mean" is the mean of a single column, without missing values.
    X : dataframe or array-like of shape (n_samples, n_features)
        Private table.
    sensitivity : float
        Proposed bound b of the local sensitivity, > 0, chosen without looking at the data.
    bounds : pair of float
        Lowest and highest value of the statistic, from public knowledge. The values of a "mean" are clipped to them.
    epsilon : float
        Privacy loss, finite and > 0. A tenth of it is spent on the test.
    delta : float
        Probability that a table with a larger local sensitivity passes, in (0, 1).
    local_sensitivity : callable, optional
        Called as ``local_sensitivity(X, k)``: the largest change of the statistic by one record more or fewer, over all
        tables at a distance of at most k records from X. Required unless `statistic` is "mean".
    ledger : PrivacyLedger, optional
        Ledger that is charged before noise is drawn.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Returns
    -------
    ReleasedStatistic
        The statistic as ``value`` with ``std_error`` and ``guarantee``; or nan with
        ``released=False``, at the same cost.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or `statistic` or `local_sensitivity` fails. Error messages contain no
        values of X.
    BudgetExceeded
        If the ledger does not cover the release.

    See Also
    --------
    smooth_sensitivity_release : Noise in proportion to a smooth bound of the local sensitivity.
    sample_and_aggregate : Any statistic, without its sensitivity.

    Notes
    -----
    **Privacy.** Central model, adding or removing one record, (epsilon, delta). D changes by at most 1 between
    neighbors. If D is 0 for both, each passes with a probability of at most delta, because the threshold T has
    ``exp(-T * epsilon / 10) <= delta``. Otherwise their statistics differ by at most b, and test and release compose to
    epsilon. The guarantee requires a correct `local_sensitivity`, which cannot be checked here.

    References
    ----------
    .. [1] C. Dwork, J. Lei (2009). Differential privacy and robust statistics. STOC.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.central import propose_test_release
    >>> ages = np.random.default_rng(0).integers(17, 90, size=30_000)
    >>> release = propose_test_release(
    ...     "mean", ages, sensitivity=0.005, bounds=(0, 100), epsilon=1.0, delta=1e-9, random_state=0
    ... )
    >>> release.released, bool(abs(release.value - ages.mean()) < 0.1)
    (True, True)
    """
    table = _PrivateStatistic(statistic, X, bounds, local_sensitivity)
    exact_epsilon, exact_delta = _read_epsilon_delta(epsilon, delta)
    proposed = Fraction(check_epsilon(sensitivity, name="sensitivity"))
    # A tenth of epsilon is for the test, which passes for distances of more than about
    # ``log(1 / delta) / test_epsilon`` records.
    test_epsilon = exact_epsilon / 10
    threshold = math.ceil(Fraction(log_upper(1 / exact_delta)) / test_epsilon)
    # One more step, because the statistic is rounded to whole steps.
    scale = (proposed / table.step + 1) / (exact_epsilon - test_epsilon)
    # Noise exceeds 64 / test_epsilon with a probability below 2**-92, so larger distances
    # are not distinguished: the test passes.
    farthest = threshold + math.ceil(64 / test_epsilon)
    distance = bisect_right(range(farthest), proposed, key=table.local_sensitivity)

    guarantee, source = charge(
        "propose_test_release",
        PrivacyBudget("epsilon", exact_epsilon),
        ledger,
        random_state,
        mechanism="propose-test-release",
        delta=exact_delta,
    )
    noise = discrete_laplace(source, 1 / test_epsilon, 1).item()
    if distance + noise < threshold:
        return ReleasedStatistic(math.nan, math.nan, guarantee, released=False)
    std_error = math.sqrt(2) * float(scale * table.step)
    return ReleasedStatistic(table.add_noise(source, scale), std_error, guarantee)


def smooth_sensitivity_release(
    statistic: Callable[[Any], float] | Literal["mean"],
    X: TableLike,
    *,
    bounds: tuple[float, float],
    epsilon: float,
    delta: float,
    local_sensitivity: Callable[[Any, int], float] | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: int | None = None,
) -> ReleasedStatistic:
    """Release a statistic with Laplace noise in proportion to its smooth sensitivity.

    The smooth sensitivity S is the maximum over k of ``exp(-beta * k)`` times the local sensitivity at distance k. It
    changes by a factor of at most ``exp(beta)`` between neighbors ([1]_), so the scale of the noise may depend on it.
    beta is ``log(1 + epsilon / (2 * max(1, log(1 / delta))))``.

    Parameters
    ----------
    statistic : callable or "mean"
        Called as ``statistic(X)``; returns a number. "mean" is the mean of a single column, without missing values.
    X : dataframe or array-like of shape (n_samples, n_features)
        Private table.
    bounds : pair of float
        Lowest and highest value of the statistic, from public knowledge. The values of a "mean" are clipped to them.
    epsilon : float
        Privacy loss, finite and > 0.
    delta : float
        Probability of a larger loss, in (0, 1).
    local_sensitivity : callable, optional
        Called as ``local_sensitivity(X, k)``: the largest change of the statistic by one record more or fewer, over all
        tables at a distance of at most k records from X. Required unless `statistic` is "mean".
    ledger : PrivacyLedger, optional
        Ledger that is charged before noise is drawn.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Returns
    -------
    ReleasedStatistic
        The statistic as ``value`` with its ``guarantee``. Its ``std_error`` is nan, because the scale of the noise is
        private.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, epsilon is too small for delta, or `statistic` or `local_sensitivity` fails.
        Error messages contain no values of X.
    BudgetExceeded
        If the ledger does not cover the release.

    See Also
    --------
    propose_test_release : Noise for a proposed sensitivity, after a private test.
    sample_and_aggregate : Any statistic, without its sensitivity.

    Notes
    -----
    **Privacy.** Central model, adding or removing one record, (epsilon, delta). With discrete Laplace noise of scale
    S / kappa, the loss is at most ``beta + kappa`` if the neighbor has the larger scale. If it has the smaller one,
    the loss exceeds epsilon only for noise beyond ``(epsilon - kappa) / (exp(beta) - 1)`` scales, which has a
    probability of at most delta for ``kappa <= epsilon - log(1 / delta) * (exp(beta) - 1)``. kappa is the smaller
    limit, minus the error of rounding. (The scale ``2 * S / epsilon`` of textbooks does not satisfy delta for an
    epsilon of more than about 12.) The guarantee requires a correct `local_sensitivity`, which cannot be checked here.

    References
    ----------
    .. [1] K. Nissim, S. Raskhodnikova, A. Smith (2007). Smooth sensitivity and sampling in private data analysis. STOC.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.central import smooth_sensitivity_release
    >>> ages = np.random.default_rng(0).integers(17, 90, size=30_000)
    >>> release = smooth_sensitivity_release("mean", ages, bounds=(0, 100), epsilon=1.0, delta=1e-9, random_state=0)
    >>> bool(abs(release.value - ages.mean()) < 0.1)
    True
    """
    table = _PrivateStatistic(statistic, X, bounds, local_sensitivity)
    exact_epsilon, exact_delta = _read_epsilon_delta(epsilon, delta)
    beta, kappa = _divide_epsilon(exact_epsilon, exact_delta)
    scale = table.find_smooth_steps(beta) / kappa

    guarantee, source = charge(
        "smooth_sensitivity_release",
        PrivacyBudget("epsilon", exact_epsilon),
        ledger,
        random_state,
        mechanism="smooth sensitivity, discrete Laplace",
        delta=exact_delta,
    )
    return ReleasedStatistic(table.add_noise(source, scale), math.nan, guarantee)


def _read_epsilon_delta(epsilon: object, delta: object) -> tuple[Fraction, Fraction]:
    """Check epsilon and a delta > 0, and return exact numbers."""
    exact_delta = check_delta(delta)
    if exact_delta == 0:
        raise ValueError(
            "`delta` must be in (0, 1), got 0. Use sample_and_aggregate for delta = 0."
        )
    return check_epsilon(epsilon), exact_delta


def _divide_epsilon(epsilon: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
    """Return beta, and the ratio kappa of the smooth sensitivity and the scale (see `smooth_sensitivity_release`)."""
    tail = max(Fraction(log_upper(1 / delta)), Fraction(1))
    beta = Fraction(math.log1p(float(epsilon / (2 * tail))))
    # Rounding to whole steps and to floats changes the ratio of two smooth sensitivities by
    # at most 2**-29, and the difference of two statistics by one step.
    ratio = beta + Fraction(2, MIN_SMOOTH_STEPS)
    # P(|noise| > u * scale) <= exp(-u + 1 / (2 * scale)) for discrete Laplace noise.
    # At least 1, which covers the loss beta + kappa if the neighbor has the larger scale,
    # because exp(beta) - 1 is at least beta.
    tail += epsilon / MIN_SMOOTH_STEPS
    kappa = epsilon - tail * (exp_bounds(ratio)[1] - 1)
    if kappa <= 0:
        raise ValueError(
            f"`epsilon` must be larger for delta = {float(delta):g}, got "
            f"{float(epsilon):g}. Use sample_and_aggregate."
        )
    return beta, kappa / (1 + Fraction(1, MIN_SMOOTH_STEPS))


class _PrivateStatistic:
    """A statistic of a private table, clipped to public bounds, and its local sensitivity at each distance."""

    local_sensitivity: Callable[[int], Fraction]

    def __init__(
        self,
        statistic: object,
        X: TableLike,
        bounds: object,
        local_sensitivity: Callable[[Any, int], float] | None,
    ) -> None:
        """Check the parameters, and compute the statistic of the private table.

        `local_sensitivity` is a function of the table and the number of changed rows. It is None for "mean", whose
        local sensitivity is known.
        """
        limits = read_output_bounds(bounds)
        if len(limits) != 1:
            raise ValueError(
                f"`bounds` must be one pair (low, high), got {len(limits)} pairs."
            )
        self.low, high = map(Fraction, limits[0].tolist())
        self.width = high - self.low
        self.step = self.width / N_STEPS
        if isinstance(statistic, str) and statistic == "mean":
            positions = _read_positions(X, limits)
            n_values = len(positions)
            # The mean of no values is the middle of the bounds.
            mean = Fraction(sum(positions), 2 * GRID * max(n_values, 1))
            self.statistic = self.low + self.width * (mean + Fraction(1, 2))
            self.local_sensitivity = lambda k: self.width / max(n_values - k, 1)
            return
        if not callable(statistic) or not callable(local_sensitivity):
            raise TypeError(
                '`statistic` must be "mean", or a callable with a callable '
                f"`local_sensitivity`, got {type(statistic).__name__} and "
                f"{type(local_sensitivity).__name__}."
            )
        self.statistic = min(max(_call_safely(statistic, X), self.low), high)
        self.local_sensitivity = lambda k: min(
            max(_call_safely(local_sensitivity, X, k), Fraction(0)), self.width
        )

    def add_noise(self, source: ByteSource, scale: Fraction) -> float:
        """Add discrete Laplace noise of a scale in steps, and clip the result to the bounds."""
        position = round((self.statistic - self.low) / self.step)
        position += discrete_laplace(source, scale, 1).item()
        return float(self.low + self.step * min(max(position, 0), N_STEPS))

    def find_smooth_steps(self, beta: Fraction) -> int:
        """Return the smooth sensitivity in whole steps, rounded up.

        It is the maximum over distances k of exp(-beta k) times the local sensitivity of tables with k other rows.
        """
        width, smooth = float(self.width), float(self.step * MIN_SMOOTH_STEPS)
        distance = 0
        # A local sensitivity is at most the width, so larger distances cannot increase the
        # maximum.
        while (decay := math.exp(-float(beta) * distance)) * width > smooth:
            smooth = max(smooth, decay * float(self.local_sensitivity(distance)))
            distance += 1
        # The relative rounding error of two exponentials and a product is below 2**-40.
        max_error = Fraction(1, 1 << 40)
        return math.ceil(Fraction(smooth) * (1 + max_error) / self.step)


def _read_positions(X: TableLike, limits: Floats) -> list[int]:
    """Round the values of a single column to the grid between the bounds; missing values are excluded.

    `limits` is one pair of bounds of shape (1, 2). A position is an integer from -`GRID` to `GRID`.
    """
    rows = read_rows(X, "X")
    if isinstance(rows, np.ndarray) and rows.ndim == 1:
        rows = rows[:, np.newaxis]
    table = wrap_table(rows)
    if len(table.columns) != 1:
        raise ValueError(
            "X must have one column for statistic='mean', got "
            f"{len(table.columns)} columns."
        )
    (values,) = to_float_columns(table, allow_missing=True)
    positions = to_grid(values[~np.isnan(values)], *limits[0])
    return positions.astype(np.int64).tolist()


def _call_safely(function: Callable[..., Any], *arguments: object) -> Fraction:
    """Call a function of the private table; replace its errors, because they may contain values."""
    try:
        return Fraction(float(function(*arguments)))
    except (Exception, SystemExit) as error:
        raise ValueError(
            "`statistic` and `local_sensitivity` must return finite numbers, got "
            f"{type(error).__name__}. Try them on public rows."
        ) from None
