"""Empirical lower bounds on epsilon, which may refute a claimed guarantee."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, zip_longest
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import ColumnLike, ColumnName, Floats, Integers, TableLike
from skdp.base import (
    draw_seed,
    find_binomial_interval,
    find_stack_level,
    parse_bounds,
)
from skdp.domain import Domain
from skdp.exact import log_upper
from skdp.local import ReportProtocol
from skdp.pages import warn
from skdp.privacy import check_delta, check_epsilon
from skdp.randomness import check_size, check_type
from skdp.tables import convert_frame, is_frame

# A column for each part of the output, with an entry for each draw.
Draws = dict[str, NDArray[Any]]

# Entry of a draw whose output does not have the part of the column.
ABSENT = "\0absent"

_LISTS = (list, tuple, set, frozenset, np.ndarray)


def read_draw_columns(table: Any) -> Draws:
    """Convert a table or array to columns by name, with the index added to repeated names."""
    if not isinstance(table, pd.DataFrame | pd.Series) and is_frame(table):
        table = convert_frame(table, "pandas")
    frame = pd.DataFrame(table)
    names = list(map(str, frame.columns))
    columns = {}
    for index, name in enumerate(names):
        label = f"column {name!r}" + f" ({index})" * (names.count(name) > 1)
        columns[label] = frame.iloc[:, index].to_numpy()
    return columns


def read_draws(released: TableLike | ColumnLike, n_rows: int) -> Draws:
    """Convert a release whose rows are independent draws to columns; each list item is a column."""
    columns: Draws = {}
    for name, values in read_draw_columns(released).items():
        if len(values) != n_rows:
            raise ValueError(
                f"The release of {n_rows} rows must have {n_rows} rows, got "
                f"{len(values)}. Pass a callable and neighbors to audit releases of "
                "whole tables."
            )
        if values.dtype == object and isinstance(values[0], _LISTS):
            columns |= _align_parts(values, f"{name}, item")
        else:
            columns[name] = values
    return columns


def _align_parts(outputs: Iterable[Sequence[Any]], name: str) -> Draws:
    """Return a column for each position in the lists of parts; shorter lists have `ABSENT` at the end."""
    columns = {}
    for index, parts in enumerate(zip_longest(*outputs, fillvalue=ABSENT)):
        column = np.empty(len(parts), object)
        column[:] = parts
        columns[f"{name} {index}"] = column
    return columns


def _list_parts(value: object) -> Iterator[Any]:
    """Yield all names and values in a nested output, in their order; sets are sorted."""
    if isinstance(value, pd.DataFrame | pd.Series) or is_frame(value):
        value = read_draw_columns(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    elif isinstance(value, dict):
        value = list(value.items())
    elif isinstance(value, set | frozenset):
        value = sorted(value, key=repr)
    if not isinstance(value, list | tuple):
        yield value
        return
    for item in value:
        yield from _list_parts(item)


def add_supports(fitted: object, columns: Draws) -> Draws:
    """Add columns with the values that each hashed report supports.

    `columns` are the outputs of draws by name. The hash function of a report is public, so supported values follow from
    the report.
    """
    # The first columns of a release are the reports, `oracle.width` columns for each
    # oracle.
    arrays = list(columns.values())
    supports: Draws = {}
    start = 0
    for number, oracle in enumerate(getattr(fitted, "oracles_", ())):
        parts = arrays[start : start + oracle.width]
        start += oracle.width
        if oracle.shows_hash:
            reports = np.column_stack([part.astype(np.uint64) for part in parts])
            # (n_reports, n_values); the first 64 values limit the number of columns.
            is_supported = oracle.supports(reports)[:, :64]
            for value, column in enumerate(is_supported.T):
                supports[f"support of value {value} by column {number}"] = column
    return columns | supports


def select_column(draws: Draws, name: str) -> NDArray[Any]:
    """Return a column of draws, filled with ABSENT if there is no such column."""
    if name in draws:
        return draws[name]
    return np.full(len(next(iter(draws.values()))), ABSENT, object)


def hash_column(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Hash each value of a column: numbers by their bits, other objects by their repr."""
    if values.dtype.kind == "f":
        # All nans get the same bits. 0.0 and -0.0 differ.
        values = np.where(np.isnan(values), np.nan, values).view(np.uint64)
    elif values.dtype.kind not in "iub":
        # The prefix distinguishes the number 1 from the text "1".
        texts = [
            value if isinstance(value, str) else f"\x01{value!r}" for value in values
        ]
        values = np.array(texts, object)
    return pd.util.hash_array(values)


def to_floats(values: NDArray[Any]) -> Floats:
    """Convert a column to floats, with nan for values that are not numbers."""
    if values.dtype.kind in "iubf":
        return values.astype(float)
    is_number = [isinstance(value, float | np.floating) for value in values]
    return np.where(is_number, values, np.nan).astype(float)


# Events

# Outcomes of a feature as 64-bit numbers, one for each draw.
Hashes = NDArray[np.uint64]

# ``draw(index, n)`` draws n outputs of the release of the table with this index.
Sampler = Callable[[int, int], Draws]


# Discrete function of all outputs of a sample.
Outcomes = Callable[[Draws], Hashes]


def find_bound(
    draw: Sampler,
    n_tables: int,
    n_draws: int,
    *,
    delta: float,
) -> tuple[float, int, str]:
    """Choose an event by two samples of each table, and bound epsilon by new draws.

    ``draw(table, n)`` draws n outputs for a table by its index; `n_draws` is the number of all draws. The bound exceeds
    epsilon with a probability of at most 1e-6. Also returns the number of draws and the event.
    """
    # 10 % of the draws are used for the choice, and up to 30 % if there are few draws,
    # because a bad choice reduces the bound more than a smaller test.
    n_available = n_draws / (2 * n_tables)
    n_choosing = max(1, int(0.1 * n_available), min(5_000, int(0.3 * n_available)))
    first = [draw(table, n_choosing) for table in range(n_tables)]
    second = [draw(table, n_choosing) for table in range(n_tables)]
    n_used = 2 * n_choosing * n_tables
    event = choose_event(first, second, delta=delta)
    if event is None:
        return 0.0, n_used, ""
    name, outcomes, members, pair = event
    n_trials = (n_draws - n_used) // 2
    # Batches limit memory to some hundred megabytes.
    n_columns = len(first[0])
    batch = max(1000, (1 << 22) // n_columns)
    # Epsilon is at least ``ln((P - delta) / P')``. The Clopper-Pearson bounds of the two
    # probabilities are each wrong with a probability of at most 5e-7.
    counts = []
    for table in pair:
        n_hits = 0
        for start in range(0, n_trials, batch):
            drawn = outcomes(draw(table, min(batch, n_trials - start)))
            n_hits += int(np.isin(drawn, members, kind="sort").sum())
        counts.append((n_hits, n_trials - n_hits))
    hits, misses = np.transpose(counts)
    lows, highs = find_binomial_interval(hits, misses, 1 - 1e-6)
    low, high = float(lows[0]) - delta, float(highs[1])
    lower = math.log(low / high) if low > high else 0.0
    return lower, n_used + 2 * n_trials, name


def make_row_sampler(
    release: Callable[[Any], Any], tables: Sequence[pd.DataFrame], fitted: object
) -> Sampler:
    """Return a function that draws n outputs by releasing n copies of a one-row table, given by its index.

    The values that hashed reports support, if `fitted` is their encoder, are added to the outputs.
    """

    def draw(table: int, n: int) -> Draws:
        """Release n copies of the row of a table as n draws."""
        rows = tables[table].iloc[np.zeros(n, np.intp)].reset_index(drop=True)
        with warnings.catch_warnings(action="ignore"):
            return add_supports(fitted, read_draws(release(rows), n))

    return draw


def make_call_sampler(release: Callable[[Any], Any], tables: Sequence[Any]) -> Sampler:
    """Return a function that draws n outputs by releasing a table n times."""

    def draw(table: int, n: int) -> Draws:
        """Call the release of a table n times, without its warnings."""
        with warnings.catch_warnings(action="ignore"):
            outputs = [list(_list_parts(release(tables[table]))) for _ in range(n)]
        # At most 256 columns.
        return _align_parts((parts[:256] for parts in outputs), "part")

    return draw


def choose_event(
    first: Sequence[Draws], second: Sequence[Draws], *, delta: float
) -> tuple[str, Outcomes, Hashes, tuple[int, int]] | None:
    """Choose the pair of tables and the event with the largest estimated log ratio; None if none is above 0.

    `first` and `second` are two samples of the draws of each table. An event is the name of a feature, its function,
    the outcomes in the event, and the tables where it is more and less likely.
    """
    # The first sample orders the outcomes by their likelihood ratio, because the best
    # event consists of the first outcomes (Neyman-Pearson lemma). The second
    # sample chooses their number, so that no event is chosen that fits the first sample
    # by chance. The test requires a third sample.
    best, best_score = None, 0.0
    for name, outcomes in list_features(first):
        first_outcomes = list(map(outcomes, first))
        second_outcomes = list(map(outcomes, second))
        values = _list_frequent(first_outcomes)
        if not len(values):
            continue
        counts = np.array([_count_outcomes(part, values) for part in first_outcomes])
        second_counts = np.array(
            [_count_outcomes(part, values) for part in second_outcomes]
        )
        n_draws = np.array(list(map(len, second_outcomes)))
        for a in range(len(counts)):
            # A row for each table b.
            ratios = (counts[a] + 0.5) / (counts + 0.5)
            orders = np.argsort(-ratios, axis=1, kind="stable")
            rates = []
            for table, sign in ((np.full(len(counts), a), -1), (slice(None), 1)):
                sums = np.take_along_axis(second_counts[table], orders, 1).cumsum(1)
                n = n_draws[table, np.newaxis]
                rate = (sums + 0.5) / (n + 1)
                # Both rates are shifted against the event by three standard errors.
                rates.append(rate + sign * 3 * np.sqrt(rate * (1 - rate) / n))
            scores = np.log(np.maximum(rates[0] - delta, 1e-300) / rates[1])
            scores[a] = 0.0
            b, last = np.unravel_index(np.argmax(scores), scores.shape)
            if scores[b, last] > best_score:
                best_score = float(scores[b, last])
                members = values[orders[b, : last + 1]]
                best = name, outcomes, members, (a, int(b))
    return best


def _list_frequent(samples: Sequence[Hashes]) -> Hashes:
    """Return the sorted outcomes that occur at least four times in all samples together."""
    values, counts = np.unique(np.concatenate(samples), return_counts=True)
    return values[counts >= 4]


def _count_outcomes(outcomes: Hashes, values: Hashes) -> Integers:
    """Count the draws with each of the sorted `values`, (n_values,); ignore other outcomes."""
    counts = pd.Series(outcomes).value_counts().reindex(values, fill_value=0)
    return np.asarray(counts, np.int64)


def list_features(samples: Sequence[Draws]) -> list[tuple[str, Outcomes]]:
    """List the features of the outputs by name: values and bins of columns, and joint values.

    `samples` are the draws of each table, and a feature is a function of draws that returns a hash of each draw.
    """
    names = list(dict.fromkeys(chain.from_iterable(samples)))
    features: list[tuple[str, Outcomes]] = []
    for name in names:
        features.append((f"values of {name}", partial(_hash_values, [name])))
        columns = [to_floats(select_column(sample, name)) for sample in samples]
        numbers = np.concatenate(columns)
        numbers = numbers[np.isfinite(numbers)]
        if len(np.unique(numbers)) > 64:
            # 64 bins with equal numbers of draws.
            edges = np.quantile(numbers, np.linspace(0, 1, 65)[1:-1])
            features.append((f"bins of {name}", partial(_find_bins, name, edges)))
    if len(names) > 1:
        values = partial(_hash_values, names)
        features.append(("values of all columns together", values))
        ratios = _list_log_ratios(names, samples[0], samples[-1])
        sums = partial(_sum_log_ratios, ratios)
        features.append(("the sum of log ratios of all columns", sums))
    return features


def _hash_values(names: Sequence[str], draws: Draws) -> Hashes:
    """Hash the joint values of some columns of each draw."""
    joint = np.zeros(len(next(iter(draws.values()))), np.uint64)
    for name in names:
        hashes = hash_column(select_column(draws, name))
        # 2**64 divided by the golden ratio. Without a factor, draws with exchanged values
        # would have equal hashes.
        joint = joint * np.uint64(0x9E3779B97F4A7C15) + hashes
    return joint


def _list_log_ratios(
    names: Sequence[str], first: Draws, second: Draws
) -> dict[str, pd.Series]:
    """Return for each column the log ratio of the numbers of its frequent hashes in two samples, by hash."""
    ratios = {}
    for name in names:
        first_hashes = hash_column(select_column(first, name))
        second_hashes = hash_column(select_column(second, name))
        values = _list_frequent([first_hashes, second_hashes])
        # Counts are increased by 1/2, so that the ratios are finite.
        first_counts = _count_outcomes(first_hashes, values) + 0.5
        second_counts = _count_outcomes(second_hashes, values) + 0.5
        ratios[name] = pd.Series(np.log(first_counts / second_counts), index=values)
    return ratios


def _sum_log_ratios(ratios: dict[str, pd.Series], draws: Draws) -> Hashes:
    """Sum the log ratios of the values of each draw, (n_draws,), as if the columns were independent.

    The sums are rounded to multiples of 1/4, and returned as the bits of 4 times the sum; other values add 0.
    """
    total: Floats | float = 0.0
    for name, by_hash in ratios.items():
        hashes = hash_column(select_column(draws, name))
        total += by_hash.reindex(hashes, fill_value=0.0).to_numpy()
    # Rounded, so that equal outcomes occur.
    return np.rint(4 * total).astype(np.int64).view(np.uint64)


def _find_bins(name: str, edges: Floats, draws: Draws) -> Hashes:
    """Return the bin of the number in a column for each draw; `edges` separate the bins."""
    numbers = to_floats(select_column(draws, name))
    bins = np.searchsorted(edges, numbers, side="right")
    # Values that are not finite numbers have a bin of their own.
    return np.where(np.isfinite(numbers), bins, len(edges) + 1).astype(np.uint64)


# Largest number of declared values of a column that are tried. With more, too few of a
# million draws would be left for each pair.
MAX_TRIED_VALUES = 50


@dataclass(frozen=True)
class AuditResult:
    """Result of `audit_epsilon`."""

    epsilon_lower: float
    epsilon_claimed: float
    epsilon_exact: float | None = None
    delta: float = 0.0
    n_draws: int = 0
    event: str = ""

    @property
    def rejected(self) -> bool:
        """True if the lower bound or the exact epsilon exceeds the claimed epsilon."""
        return max(self.epsilon_lower, self.epsilon_exact or 0.0) > self.epsilon_claimed


def audit_epsilon(
    release: BaseEstimator | Callable[..., Any],
    neighbors: Sequence[Any] | None = None,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    n_draws: int | None = None,
    random_state: int | None = None,
) -> AuditResult:
    """Compute an empirical lower bound on the epsilon of a release.

    Some draws of the release select two neighboring tables D and D' and an event S, and
    other draws estimate the probabilities of S. The result is a lower bound on
    ``ln((P(S | D) - delta) / P(S | D'))`` with probability ``1 - 1e-6``, by the
    Clopper-Pearson intervals [1]_.

    Parameters
    ----------
    release : transformer or callable
        Local transformer of any package, or function from a table to its release, such
        as ``lambda X: DPMean(bounds=(0, 1)).fit(X).mean_``. A transformer must privatize
        rows independently, so that a table of m equal rows gives m draws; wrap such a
        function in `sklearn.preprocessing.FunctionTransformer`. For permanent reports,
        pass the transformer with ``memoize=False``.
    neighbors : list of tables, default=None
        At least two public tables, any two of which differ in one record. All pairs are
        tried. For a transformer, they are pandas DataFrames of one row. If None, these
        are made from the declared values of the transformer, so that all pairs of
        values of a column are tried; for a column with more than 50 values, 50 of
        them, and a warning names the column. A function requires `neighbors`.
    epsilon : float, default=None
        Claimed epsilon. If None, `guarantee_` of the transformer is the claim.
    delta : float, default=0.0
        Claimed delta, with `epsilon`.
    n_draws : int, default=None
        Number of draws over all tables, at least 100. If None, 1,000,000 rows of a
        transformer, or 10,000 calls of a function.
    random_state : int, default=None
        Seed of a transformer. Pass an int for reproducible output.

    Returns
    -------
    AuditResult
        Result with the attributes

        - ``rejected``: True if the claim is refuted;
        - ``epsilon_lower``: lower bound;
        - ``epsilon_claimed``, ``delta``: claimed guarantee;
        - ``epsilon_exact``: exact epsilon from the channel of a local transformer;
          None if there is no channel, or if it is too large;
        - ``n_draws``: number of draws;
        - ``event``: description of the event, with the names of columns.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, the claim or the neighbors are missing, or the
        release is a Pipeline or an estimator of the central model. Errors of a release are
        raised: if only some of the tables cause one, it reveals them.

    See Also
    --------
    skdp.testing.check_privatizer : Checks of a local transformer.
    skdp.testing.check_curator : Checks of an estimator of the central model.

    Notes
    -----
    **Privacy.** The tables must be public. The ledger of an estimator is not charged.

    A true claim is refuted with a probability of at most 1e-6. An audit that does not
    reject a claim does not prove it: other neighbors or events, or more draws, may
    refute the claim.

    Events are sets of outcomes of one of these functions of a release: the value of a
    column, its bin, the values of all columns together, the sum of their log ratios,
    and the values that a hashed report supports. The lowest bits
    of floats, which may reveal a number without noise, are not compared.

    Only the values of a release are compared. Use `check_privatizer` to check dtypes,
    index, warnings, attributes and pickles. To audit several reports of one record, pass
    a callable that releases a record several times.

    For two neighbors and a million draws, the power to refute a claim of epsilon 1 for
    binary randomized response with epsilon 1.03 is above 0.999999.

    References
    ----------
    .. [1] H. Arcolezi, S. Gambs (2024). Revealing the true cost of locally
       differentially private protocols: an auditing perspective. PoPETs 2024(4).

    Examples
    --------
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.evaluation import audit_epsilon
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"smokes": ["yes", "no"]})
    >>> result = audit_epsilon(encoder, n_draws=100_000, random_state=0)
    >>> result.rejected, result.epsilon_exact, round(result.epsilon_lower, 2)
    (False, 1.0, 0.95)
    >>> audit_epsilon(encoder, epsilon=0.8, n_draws=100_000, random_state=0).rejected
    True
    """
    if n_draws is not None:
        check_size(n_draws, min_val=100, max_val=None, name="n_draws")
    check_type("neighbors", neighbors, list | tuple | None, "a list of tables")
    fitted = None
    methods = ("transform", "report", "fit")
    if any(hasattr(release, name) for name in methods):
        fitted, tables = _fit_transformer(release, neighbors, draw_seed(random_state))
        draw = make_row_sampler(partial(_draw_release, fitted), tables, fitted)
        n_default = 1_000_000
    else:
        _check_callable(release, neighbors, random_state)
        tables = list(neighbors or ())
        draw = make_call_sampler(release, tables)
        n_default = 10_000
    if len(tables) < 2:
        raise ValueError(
            "`neighbors` must be at least two tables, any two of which differ in one "
            f"record, got {len(tables)}."
        )
    claimed, claimed_delta = _find_claim(fitted, epsilon, delta)
    lower, n_used, event = find_bound(
        draw, len(tables), n_draws or n_default, delta=claimed_delta
    )
    return AuditResult(
        epsilon_lower=lower,
        epsilon_claimed=claimed,
        epsilon_exact=exact_epsilon(fitted),
        delta=claimed_delta,
        n_draws=n_used,
        event=event,
    )


def _find_claim(fitted: object, epsilon: object, delta: object) -> tuple[float, float]:
    """Return the claimed epsilon and delta: the arguments, otherwise the guarantee of the estimator."""
    claimed_delta = float(check_delta(delta))
    if epsilon is not None:
        return float(check_epsilon(epsilon, zero=True)), claimed_delta
    guarantee = getattr(fitted, "guarantee_", None)
    if guarantee is None or claimed_delta:
        raise ValueError(
            "`epsilon` is required with `delta`, or for a release without guarantee_, "
            "got None."
        )
    return float(guarantee.epsilon), float(guarantee.delta)


# The audited release and its guarantee


def _check_callable(release: object, neighbors: object, random_state: object) -> None:
    """Check the arguments of the audit of a function from a table to its release."""
    if not callable(release):
        raise TypeError(
            "`release` must be a transformer or a callable, got "
            f"{type(release).__name__}."
        )
    if neighbors is None:
        raise ValueError("`neighbors` are required for a callable, got None.")
    if random_state is not None:
        raise ValueError(
            "`random_state` must be None for a callable, which draws its own random "
            f"bits, got {random_state!r}."
        )


def _fit_transformer(
    estimator: BaseEstimator, neighbors: Sequence[Any] | None, seed: int | None
) -> tuple[Any, list[Any]]:
    """Return a fitted copy of a local transformer, without its ledger, and neighboring tables of one row.

    `neighbors` are these tables; None makes records from declared values.
    """
    _check_reporter(estimator, getattr(estimator, "protects_rows", None) is not False)
    tables = _make_records(estimator) if neighbors is None else list(neighbors)
    if {len(table) for table in tables} != {1}:
        raise ValueError(
            "`neighbors` must have one row each for a transformer, got other numbers of "
            "rows. Pass a function to audit the release of a whole table."
        )
    fitted = _fit_once(estimator, tables[0], seed)
    trust = getattr(getattr(fitted, "guarantee_", None), "trust", "local")
    _check_reporter(estimator, trust == "local")
    return fitted, tables


def _check_reporter(estimator: object, is_local: bool) -> None:
    """Raise an error for a class, and unless `is_local` and the estimator, which is no pipeline, returns reports."""
    if isinstance(estimator, type):
        name = estimator.__name__
        raise TypeError(
            f"`release` must be an estimator or a callable, got the class {name}. Pass "
            f"{name}(...)."
        )
    has_reports = hasattr(estimator, "transform") or hasattr(estimator, "report")
    # A pipeline or a column transformer has no guarantee of its own.
    composed = ("steps", "transformers", "transformer_list")
    has_parts = any(hasattr(estimator, name) for name in composed)
    if has_parts or not (is_local and has_reports):
        raise TypeError(
            "`release` must be a local transformer or a function, got "
            f"{type(estimator).__name__}. Use skdp.testing.check_curator, pass the "
            "private step of a pipeline, or pass a function that fits it and returns an "
            "attribute."
        )


def _draw_release(estimator: BaseEstimator, table: TableLike) -> Any:
    """Release a table by `transform`, or by `report` of a `HeavyHitters` client."""
    if hasattr(estimator, "transform"):
        return estimator.transform(table)
    return estimator.report(table)


def _fit_once(estimator: BaseEstimator, table: TableLike, seed: int | None) -> Any:
    """Return a copy without a ledger and with a seed, fitted to a table unless the estimator is fitted already."""
    changes: dict[str, Any] = {}
    if hasattr(estimator, "get_params"):
        for key, value in estimator.get_params().items():
            name = key.split("__")[-1]
            if name == "ledger" and value is not None:
                changes[key] = None
            elif name == "random_state" and seed is not None:
                changes[key] = seed
    is_copied = not changes and _is_fitted(estimator)
    if is_copied or not hasattr(estimator, "get_params"):
        fitted = copy.deepcopy(estimator)
    else:
        fitted = clone(estimator).set_params(**changes)
    if hasattr(fitted, "transform") and not _is_fitted(fitted):
        with warnings.catch_warnings(action="ignore"):
            fitted.fit(table)
    return fitted


def _is_fitted(estimator: object) -> bool:
    """Return True if an estimator is fitted, or has no `fit`."""
    if not hasattr(estimator, "fit"):
        return True
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


# Neighboring tables of one record, made from declared values


def _make_records(estimator: object) -> list[pd.DataFrame]:
    """Make tables of one record each from declared values; any two are neighbors."""
    parameters: dict[str, Any] = {}
    if hasattr(estimator, "get_params"):
        parameters = estimator.get_params(deep=False)
    columns = _list_declared_values(estimator, parameters)
    # Record i has the i-th value of each column, so that all columns differ at once.
    # Shorter columns repeat their values.
    chosen = [_choose_values(name, values) for name, values in columns.items()]
    n_rows = max(map(len, chosen))
    rows = [tuple(values[i % len(values)] for values in chosen) for i in range(n_rows)]
    # If values outside the domain are accepted, they are protected as well.
    if parameters.get("handle_unknown", "error") != "error":
        rows.append((None,) * len(columns))
    frame = pd.DataFrame(rows, columns=list(columns), dtype=object).infer_objects()
    return [frame.iloc[[row]].reset_index(drop=True) for row in range(len(frame))]


def _list_declared_values(
    estimator: object, parameters: Mapping[str, Any]
) -> dict[Any, list[Any]]:
    """List values of each column: declared categories, or numbers inside and outside the bounds.

    `parameters` are the parameters of the estimator, by name.
    """
    columns: dict[Any, list[Any]] = {}
    declared = getattr(estimator, "domain_", parameters.get("categories"))
    if isinstance(declared, list | tuple):
        declared = dict(zip(_name_columns(len(declared)), declared, strict=True))
    if isinstance(declared, Mapping):
        domain = Domain(declared)
        columns = {name: list(domain[name].values) for name in domain.columns}
    bounds = parameters.get("bounds")
    if bounds is not None:
        names = _name_columns(len(np.atleast_2d(bounds)))
        names = list(bounds) if isinstance(bounds, Mapping) else names
        for name, (low, high) in zip(names, parse_bounds(bounds, names), strict=True):
            # The last number is outside the bounds, to which it must be clipped.
            numbers = [low, high, (low + high) / 2, 2 * high - low]
            columns[name] = list(map(float, numbers))
    if not columns:
        raise ValueError(
            "`neighbors` is required for an estimator without declared values, got "
            "None. Pass it, or declare `categories` or `bounds`."
        )
    return columns


def _name_columns(n_columns: int) -> list[str]:
    """Return scikit-learn's default names of the columns of an array: x0, x1, ..."""
    return [f"x{index}" for index in range(n_columns)]


def _choose_values(name: ColumnName, values: list[Any]) -> list[Any]:
    """Return the values of a column, or `MAX_TRIED_VALUES` of them with a warning."""
    if len(values) <= MAX_TRIED_VALUES:
        return values
    warn(
        f"Column {name!r} has {len(values)} declared values, of which the audit tries "
        f"{MAX_TRIED_VALUES}. Pass `neighbors` to try other values",
        UserWarning,
        about="guide/attacks#limitations",
        stacklevel=find_stack_level(),
    )
    indices = np.linspace(0, len(values) - 1, MAX_TRIED_VALUES).astype(int)
    return [values[index] for index in indices]


# Exact epsilon


def exact_epsilon(fitted: object) -> float | None:
    """Compute epsilon from exact channels: the largest log ratio of report probabilities.

    None if a channel is not available, too large, or not of Fractions.
    """
    protocol = getattr(fitted, "protocol_", None)
    n_sampled = None
    if isinstance(protocol, ReportProtocol):
        # Channels with more entries take too long in exact arithmetic.
        fields: Any = protocol.channels(1 << 18) or []
        n_sampled = protocol.n_sampled
    else:
        # Transformers of other packages have one channel for each column.
        fields = [[matrix] for matrix in getattr(fitted, "channel", list)()]
    ratios = []
    for matrices in fields:
        largest = Fraction(1)
        # The public part of a report, such as a hash function, selects a matrix. Its rows
        # are values, and its columns are reports.
        for matrix in matrices:
            for probabilities in zip(*matrix, strict=True):
                if not all(isinstance(p, Fraction | int) for p in probabilities):
                    return None
                low, high = min(probabilities), max(probabilities)
                # A report that is possible under one value only reveals the value.
                if low <= 0 < high:
                    return math.inf
                if high > 0:
                    largest = max(largest, Fraction(high, low))
        ratios.append(largest)
    if not ratios:
        return None
    # A record reports up to `n_sampled` fields, all fields if it is None. Their ratios
    # are multiplied.
    ratios.sort(reverse=True)
    return log_upper(math.prod(ratios[:n_sampled], start=Fraction(1)))
