"""The test of an audit: some draws choose an event that is likelier under one table, other draws count it."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binomtest

from skdp.evaluation.audits._outputs import (
    Draws,
    add_supports,
    column_of,
    hash_column,
    read_rows,
    to_floats,
)

Hashes = NDArray[np.uint64]

# ``draw(index, n)`` draws n outputs of the release of a table.
Draw = Callable[[int, int], Draws]

# Smallest count in the first sample of an outcome that is used.
MIN_OUTCOME_COUNT = 4


@dataclass(frozen=True)
class Bound:
    """A lower bound of epsilon, with the number of draws and the event that give it."""

    lower: float
    n_draws: int
    event: str


@dataclass(frozen=True)
class Feature:
    """A discrete function of an output."""

    name: str
    outcomes: Callable[[Draws], Hashes]


@dataclass(frozen=True)
class Event:
    """Some outcomes of a feature, and the tables under which it is likelier and unlikelier."""

    feature: Feature
    members: Hashes
    likelier: int
    unlikelier: int
    score: float

    def count(self, draws: Draws) -> int:
        """Count the draws in the event."""
        outcomes = self.feature.outcomes(draws)
        return int(np.isin(outcomes, self.members, kind="sort").sum())


def epsilon_lower_bound(
    hits: tuple[int, int], trials: tuple[int, int], *, delta: float, level: float
) -> float:
    """Bound epsilon from below: ``ln((P - delta) / P')`` at Clopper-Pearson bounds."""
    # Each of the two one-sided bounds is wrong with probability level / 2.
    low = binomtest(hits[0], trials[0]).proportion_ci(1 - level).low
    high = binomtest(hits[1], trials[1]).proportion_ci(1 - level).high
    return math.log((low - delta) / high) if low - delta > high else 0.0


def find_bound(
    draw: Draw, n_tables: int, n_draws: int, *, delta: float, level: float
) -> Bound:
    """Choose an event by two samples of each table, and count it in fresh draws."""
    # A tenth of the draws is used for the choice. If there are few draws, up to three tenths are used, because
    # a bad choice costs more than a smaller test.
    n_draws_per_sample = n_draws / (2 * n_tables)
    n_choosing = max(
        1, int(0.1 * n_draws_per_sample), min(5_000, int(0.3 * n_draws_per_sample))
    )
    first = [draw(table, n_choosing) for table in range(n_tables)]
    second = [draw(table, n_choosing) for table in range(n_tables)]
    n_chosen_by = 2 * n_choosing * n_tables
    event = choose_event(first, second, delta=delta)
    if event is None:
        return Bound(0.0, n_chosen_by, "")
    n_trials = (n_draws - n_chosen_by) // 2
    # Cells of a batch of draws: some hundred megabytes.
    batch = max(1000, (1 << 22) // len(first[0]))
    hits = [0, 0]
    for side, table in enumerate((event.likelier, event.unlikelier)):
        for start in range(0, n_trials, batch):
            hits[side] += event.count(draw(table, min(batch, n_trials - start)))
    lower = epsilon_lower_bound(
        (hits[0], hits[1]), (n_trials, n_trials), delta=delta, level=level
    )
    return Bound(lower, n_chosen_by + 2 * n_trials, event.feature.name)


def row_draws(
    release: Callable[[Any], Any], tables: Sequence[pd.DataFrame], fitted: Any = None
) -> Draw:
    """Return a function that draws from releases of tables of equal rows."""

    def draw(table: int, n: int) -> Draws:
        rows = tables[table].iloc[np.zeros(n, np.intp)].reset_index(drop=True)
        with warnings.catch_warnings(action="ignore"):
            return add_supports(fitted, read_rows(lambda: release(rows), n))

    return draw


def choose_event(
    first: Sequence[Draws], second: Sequence[Draws], *, delta: float
) -> Event | None:
    """Choose the pair of tables and the event with the largest expected lower bound."""
    # The first sample orders the outcomes by their log ratios, as the lemma of Neyman
    # and Pearson demands. The second sample scores the sets of the first outcomes, so
    # that an event that fits the first sample by chance is not chosen. The test needs a
    # third sample.
    best = None
    for feature in list_features(first):
        ranking = list(map(feature.outcomes, first))
        values, n_seen = np.unique(np.concatenate(ranking), return_counts=True)
        values = values[n_seen >= MIN_OUTCOME_COUNT]
        if not len(values):
            continue
        ranked = [_count_outcomes(outcomes, values) for outcomes in ranking]
        scoring = list(map(feature.outcomes, second))
        scored = [_count_outcomes(outcomes, values) for outcomes in scoring]
        for a, b in itertools.permutations(range(len(first)), 2):
            order = np.argsort(-(ranked[a] + 0.5) / (ranked[b] + 0.5), kind="stable")
            rates = []
            for table, sign in ((a, -1), (b, 1)):
                n = len(scoring[table])
                rate = (scored[table][order].cumsum() + 0.5) / (n + 1)
                error = np.sqrt(rate * (1 - rate) / n)
                # Against the event by three standard errors.
                rates.append(rate + sign * 3 * error)
            scores = np.log(np.maximum(rates[0] - delta, 1e-300) / rates[1])
            position = int(np.argmax(scores))
            if scores[position] > (best.score if best else 0):
                members = values[order[: position + 1]]
                best = Event(feature, members, a, b, float(scores[position]))
    return best


def _count_outcomes(outcomes: Hashes, values: Hashes) -> NDArray[np.int64]:
    """Count the draws with each of the sorted `values`."""
    positions = np.searchsorted(values, outcomes)
    positions[positions == len(values)] = 0
    is_listed = values[positions] == outcomes
    return np.bincount(positions[is_listed], minlength=len(values))


def list_features(samples: Sequence[Draws]) -> list[Feature]:
    """List discrete functions of an output."""
    names = list(dict.fromkeys(name for sample in samples for name in sample))
    features = []
    for name in names:
        # A name that some outputs lack may contain a value.
        is_public = all(name in sample for sample in samples)
        label = name if is_public else "a part that not every output has"
        features.append(Feature(f"values of {label}", _values_of([name])))
        columns = [to_floats(column_of(sample, name)) for sample in samples]
        numbers = np.concatenate(columns)
        numbers = numbers[np.isfinite(numbers)]
        if (numbers != np.floor(numbers)).any():
            features.append(Feature(f"the lowest bit of {label}", _bit_of(name)))
        if len(np.unique(numbers)) > 64:  # cut them into 64 bins
            edges = np.quantile(numbers, np.linspace(0, 1, 65)[1:-1])
            features.append(Feature(f"bins of {label}", _bins_of(name, edges)))
    if len(names) > 1:
        features.append(Feature("values of all columns together", _values_of(names)))
        ratios = _log_ratios_of(names, samples[0], samples[-1])
        features.append(Feature("the sum of log ratios of all columns", ratios))
    return features


def _values_of(names: Sequence[str]) -> Callable[[Draws], Hashes]:
    """Return the joint values of some columns."""

    def outcomes(draws: Draws) -> Hashes:
        joint = np.zeros(len(next(iter(draws.values()))), np.uint64)
        for name in names:
            hashes = hash_column(column_of(draws, name))
            # A product with an odd number keeps the order of the columns.
            joint = joint * np.uint64(0x9E3779B97F4A7C15) + hashes
        return joint

    return outcomes


def _log_ratios_of(
    names: Sequence[str], first: Draws, second: Draws
) -> Callable[[Draws], Hashes]:
    """Return the sum of the log ratios of the values of all columns, as if these were independent."""
    tables = []
    for name in names:
        pair = [hash_column(column_of(sample, name)) for sample in (first, second)]
        values, n_seen = np.unique(np.concatenate(pair), return_counts=True)
        values = values[n_seen >= MIN_OUTCOME_COUNT]
        if len(values):
            counts = [_count_outcomes(hashes, values) + 0.5 for hashes in pair]
            tables.append((name, values, np.log(counts[0] / counts[1])))

    def outcomes(draws: Draws) -> Hashes:
        total = np.zeros(len(next(iter(draws.values()))))
        for name, values, ratios in tables:
            hashes = hash_column(column_of(draws, name))
            positions = np.minimum(np.searchsorted(values, hashes), len(values) - 1)
            total += np.where(values[positions] == hashes, ratios[positions], 0.0)
        # Sums are rounded to quarters, so that they occur more than once.
        return np.rint(4 * total).astype(np.int64).view(np.uint64)

    return outcomes


def _bins_of(name: str, edges: NDArray[np.float64]) -> Callable[[Draws], Hashes]:
    """Return the bin of the number in a column."""

    def outcomes(draws: Draws) -> Hashes:
        numbers = to_floats(column_of(draws, name))
        bins = np.searchsorted(edges, numbers, side="right")
        return np.where(np.isfinite(numbers), bins, len(edges) + 1).astype(np.uint64)

    return outcomes


def _bit_of(name: str) -> Callable[[Draws], Hashes]:
    """Return the weight of the lowest set bit of a float."""

    # I. Mironov (2012). On significance of the least significant bits for differential
    # privacy. CCS.
    def outcomes(draws: Draws) -> Hashes:
        numbers = to_floats(column_of(draws, name))
        is_usual = np.isfinite(numbers) & (numbers != 0)
        # A float is fraction * 2**exponent, and fraction * 2**53 is an integer.
        fraction, exponent = np.frexp(np.where(is_usual, numbers, 1.0))
        integer = np.abs(np.ldexp(fraction, 53)).astype(np.int64)
        _, lowest = np.frexp((integer & -integer).astype(float))
        weight = np.where(is_usual, exponent + lowest, 1 << 20)
        return weight.astype(np.int64).view(np.uint64)

    return outcomes
