"""Outputs of a release as columns, and the event that best distinguishes two tables."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binomtest

from skdp._arrays import Floats, Integers
from skdp.tables import convert_frame, is_frame

# A column for each part of the output, with an entry for each draw.
Draws = dict[str, NDArray[Any]]

# Name of the column that has the name of the error of each draw that failed.
ERROR_TYPE = "the type of the error"
# Entry of a draw whose output does not have the part of the column.
ABSENT = "\0absent"

_LISTS = (list, tuple, set, frozenset, np.ndarray)


def read_columns(table: Any) -> Draws:
    """Convert a table or array to columns by name, with the index added to repeated names."""
    if not isinstance(table, pd.DataFrame | pd.Series) and is_frame(table):
        table = convert_frame(table, "pandas")
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)
    names = list(map(str, frame.columns))
    columns = {}
    for index, name in enumerate(names):
        label = f"column {name!r}" + f" ({index})" * (names.count(name) > 1)
        columns[label] = frame.iloc[:, index].to_numpy()
    return columns


def read_rows(release: Callable[[], Any], n_rows: int) -> Draws:
    """Convert a release whose rows are independent draws to columns; each list item is a column."""
    try:
        released = release()
    except Exception as error:
        return {ERROR_TYPE: np.full(n_rows, type(error).__name__, object)}
    columns: Draws = {}
    for name, values in read_columns(released).items():
        if len(values) != n_rows:
            raise ValueError(
                f"The release of {n_rows} rows must have {n_rows} rows, got "
                f"{len(values)}. Pass a callable and neighbors to audit releases of "
                "whole tables."
            )
        if values.dtype == object and isinstance(values[0], _LISTS):
            # Shorter lists are padded with None.
            items = zip_longest(*values)
            for index, column in enumerate(items):
                parts = np.empty(n_rows, object)
                parts[:] = column
                columns[f"{name}, item {index}"] = parts
        else:
            columns[name] = values
    return columns


def read_calls(release: Callable[[], Any], n_calls: int) -> Draws:
    """Call a release many times; return a column for each part of the outputs."""
    calls: list[dict[str, Any]] = []
    for _ in range(n_calls):
        try:
            parts = list(_list_parts(release(), ""))
        except Exception as error:
            parts = [(ERROR_TYPE, type(error).__name__)]
        calls.append(dict(parts[:256]))  # limits the number of columns
    columns = {}
    for name in dict.fromkeys(chain.from_iterable(calls)):
        column = np.empty(n_calls, object)
        column[:] = [call.get(name, ABSENT) for call in calls]
        columns[name] = column
    return columns


def _list_parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the paths and values of all parts of a nested output; `path` is the path of `value` in the output."""
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, pd.DataFrame | pd.Series) or is_frame(value):
        items = read_columns(value).items()
    elif isinstance(value, _LISTS):
        items = enumerate(np.asarray(value, object).ravel().tolist())
    else:
        yield path or "the value", value
        return
    for key, item in items:
        yield from _list_parts(item, f"{path}[{key!r}]")


def add_supports(fitted: Any, columns: Draws) -> Draws:
    """Add columns with the values that each hashed report supports.

    `columns` are the outputs of draws by name. The hash function of a report is public, so supported values follow from
    the report.
    """
    if ERROR_TYPE in columns:
        return columns
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
    """Hash each value of a column: numbers by value, other objects by their repr."""
    if values.dtype.kind in "iub":
        return pd.util.hash_array(values.astype(np.int64).view(np.uint64))
    if values.dtype.kind == "f":
        # All nans get the same bits. 0.0 and -0.0 differ.
        floats = np.where(np.isnan(values), np.nan, values).astype(np.float64)
        return pd.util.hash_array(floats.view(np.uint64))
    texts = np.empty(len(values), object)
    for index, value in enumerate(values):
        # The prefix distinguishes the number 1 from the text "1".
        texts[index] = value if isinstance(value, str) else f"\x01{value!r}"
    return pd.util.hash_array(texts)


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
    intervals = []
    for table in pair:
        n_hits = 0
        for start in range(0, n_trials, batch):
            drawn = outcomes(draw(table, min(batch, n_trials - start)))
            n_hits += int(np.isin(drawn, members, kind="sort").sum())
        test = binomtest(n_hits, n_trials)
        intervals.append(test.proportion_ci(1 - 1e-6))
    low, high = intervals[0].low - delta, intervals[1].high
    lower = math.log(low / high) if low > high else 0.0
    return lower, n_used + 2 * n_trials, name


def draw_rows(
    release: Callable[[Any], Any], tables: Sequence[pd.DataFrame], fitted: Any = None
) -> Sampler:
    """Return a function that draws n outputs by releasing n copies of a one-row table, given by its index.

    The values that hashed reports support, if `fitted` is their encoder, are added to the outputs.
    """

    def draw(table: int, n: int) -> Draws:
        """Release n copies of the row of a table as n draws."""
        rows = tables[table].iloc[np.zeros(n, np.intp)].reset_index(drop=True)
        with warnings.catch_warnings(action="ignore"):
            return add_supports(fitted, read_rows(lambda: release(rows), n))

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
    # searchsorted also returns indices for outcomes that are not in `values`.
    indices = np.searchsorted(values, outcomes)
    indices[indices == len(values)] = 0
    is_listed = values[indices] == outcomes
    return np.bincount(indices[is_listed], minlength=len(values))


def list_features(samples: Sequence[Draws]) -> list[tuple[str, Outcomes]]:
    """List the features of the outputs by name: values, bins and bits of columns, and joint values.

    `samples` are the draws of each table, and a feature is a function of draws that returns a hash of each draw.
    """
    names = list(dict.fromkeys(chain.from_iterable(samples)))
    features: list[tuple[str, Outcomes]] = []
    for name in names:
        # The name of a part that some outputs lack may contain a private value.
        is_public = all(name in sample for sample in samples)
        label = name if is_public else "a part that not every output has"
        features.append((f"values of {label}", partial(_hash_values, [name])))
        columns = [to_floats(select_column(sample, name)) for sample in samples]
        numbers = np.concatenate(columns)
        numbers = numbers[np.isfinite(numbers)]
        if (numbers != np.floor(numbers)).any():
            bits = partial(_find_lowest_bits, name)
            features.append((f"the lowest bit of {label}", bits))
        if len(np.unique(numbers)) > 64:
            # 64 bins with equal numbers of draws.
            edges = np.quantile(numbers, np.linspace(0, 1, 65)[1:-1])
            features.append((f"bins of {label}", partial(_find_bins, name, edges)))
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
        # The product with an odd number makes the hash depend on the order of the columns.
        joint = joint * np.uint64(0x9E3779B97F4A7C15) + hashes
    return joint


def _list_log_ratios(
    names: Sequence[str], first: Draws, second: Draws
) -> list[tuple[str, Hashes, Floats]]:
    """Return for each column the frequent hashes, and the logarithms of the ratios of their numbers in two samples."""
    tables = []
    for name in names:
        first_hashes = hash_column(select_column(first, name))
        second_hashes = hash_column(select_column(second, name))
        values = _list_frequent([first_hashes, second_hashes])
        if len(values):
            # Counts are increased by 1/2, so that the ratios are finite.
            first_counts = _count_outcomes(first_hashes, values) + 0.5
            second_counts = _count_outcomes(second_hashes, values) + 0.5
            tables.append((name, values, np.log(first_counts / second_counts)))

    return tables


def _sum_log_ratios(tables: list[tuple[str, Hashes, Floats]], draws: Draws) -> Hashes:
    """Sum the log ratios of the values of each draw, (n_draws,), as if the columns were independent.

    `tables` have the name, the sorted hashes of the values, and their log ratios for each column. The sums are rounded
    to multiples of 1/4, and returned as the bits of 4 times the sum; unlisted values add 0.
    """
    total = np.zeros(len(next(iter(draws.values()))))
    for name, values, ratios in tables:
        hashes = hash_column(select_column(draws, name))
        indices = np.minimum(np.searchsorted(values, hashes), len(values) - 1)
        total += np.where(values[indices] == hashes, ratios[indices], 0.0)
    # Rounded, so that equal outcomes occur.
    return np.rint(4 * total).astype(np.int64).view(np.uint64)


def _find_bins(name: str, edges: Floats, draws: Draws) -> Hashes:
    """Return the bin of the number in a column for each draw; `edges` separate the bins."""
    numbers = to_floats(select_column(draws, name))
    bins = np.searchsorted(edges, numbers, side="right")
    # Values that are not finite numbers have a bin of their own.
    return np.where(np.isfinite(numbers), bins, len(edges) + 1).astype(np.uint64)


def _find_lowest_bits(name: str, draws: Draws) -> Hashes:
    """Return the exponent of the lowest set bit of the float in a column for each draw.

    It reveals the input of noise that is drawn as a float (Mironov 2012, On significance
    of the least significant bits for differential privacy, CCS).
    """
    numbers = to_floats(select_column(draws, name))
    is_usual = np.isfinite(numbers) & (numbers != 0)
    # A float is fraction * 2**exponent, and fraction * 2**53 is an integer.
    fraction, exponent = np.frexp(np.where(is_usual, numbers, 1.0))
    integer = np.abs(np.ldexp(fraction, 53)).astype(np.int64)
    _, lowest = np.frexp((integer & -integer).astype(float))
    bit = np.where(is_usual, exponent + lowest, 1 << 20)
    return bit.astype(np.int64).view(np.uint64)
