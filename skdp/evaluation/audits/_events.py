"""Choose an event that is much likelier under one table than under its neighbour."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.evaluation.audits._outputs import (
    Outputs,
    column_of,
    combine,
    hash_cells,
    to_floats,
)

Samples = Sequence[Outputs]
"""A sample of outputs of each table."""

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.float64]
Score = Callable[[NDArray[np.int64], NDArray[np.int64], tuple[int, int]], Numbers]

_LEAST_SEEN = 4  # times in the first sample; rarer outcomes are ignored
_MOST_OUTCOMES = 20_000
_CAUTION, _LESS_CAUTION = 3.0, 1.0  # standard errors that are subtracted from a score
_SIGNIFICANT = 3.0  # standard errors; a smaller log ratio is left out of the sum
_MOST_ROOT_VALUES = 64
_THRESHOLDS = 64
_MANY = 64  # bins of a column with more distinct numbers
_MOST_PAIRED = 12  # columns
_PRECISION = 53  # binary digits of a float
_NOT_FINITE = 1 << 20
_BINS = "bins of "


@dataclass(frozen=True)
class Event:
    """A set of outputs, and the two tables that it distinguishes."""

    name: str
    likelier: int
    other: int
    score: float
    holds: Callable[[Outputs], NDArray[np.bool_]]


def choose_event(
    ranking: Samples, scoring: Samples, *, delta: float = 0.0, few: bool = False
) -> Event | None:
    """Choose the pair of tables and the event that promise the largest lower bound."""
    # The first sample orders the outcomes of each feature by how much likelier they are under one table than under
    # another; the second scores the unions of the first outcomes of this order, so that an event which fits the first
    # sample by chance is not chosen. The test of the event needs a third sample.
    score = partial(_scores, delta=delta, caution=_LESS_CAUTION if few else _CAUTION)
    coarse = [] if few else [_coarse(name, ranking) for name in _names(ranking)]
    features = _value_features(ranking) if few else _all_features(ranking, coarse)
    best: Event | None = None
    for event in (
        *_unions(features, ranking, scoring, score),
        *_sums(coarse, ranking, scoring, score),
    ):
        if best is None or event.score > best.score:
            best = event
    return best


def _scores(
    one: NDArray[np.int64],
    other: NDArray[np.int64],
    n: tuple[int, int],
    *,
    delta: float,
    caution: float,
) -> Numbers:
    """Estimate the logarithm of the ratio conservatively from the counts of the second sample."""
    high, low = (one + 0.5) / (n[0] + 1), (other + 0.5) / (n[1] + 1)
    high = high - caution * np.sqrt(high * (1 - high) / n[0]) - delta
    low = low + caution * np.sqrt(low * (1 - low) / n[1])
    return np.log(np.maximum(high, 1e-300) / low)


def _tabulate(outcomes: Sequence[Hashes], values: Hashes) -> NDArray[np.int64]:
    """Count each of some sorted values under each table; other outcomes are not counted."""
    counts = []
    for hashes in outcomes:
        places, known = _find(hashes, values)
        counts.append(np.bincount(places[known], minlength=len(values)))
    return np.array(counts)


def _find(hashes: Hashes, values: Hashes) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the places of hashes among sorted values, and which of them are there."""
    places = np.minimum(np.searchsorted(values, hashes), len(values) - 1)
    return places, values[places] == hashes


def _seen(outcomes: Sequence[Hashes]) -> Hashes:
    values, counts = np.unique(np.concatenate(outcomes), return_counts=True)
    often = counts >= _LEAST_SEEN
    if often.sum() > _MOST_OUTCOMES:
        often &= counts >= np.sort(counts)[-_MOST_OUTCOMES]
    return values[often]


def _unions(
    features: Sequence[Feature], ranking: Samples, scoring: Samples, score: Score
) -> Iterator[Event]:
    """Yield the best union of outcomes of each feature."""
    for feature in features:
        first = [feature.outcomes(sample) for sample in ranking]
        values = _seen(first)
        if len(values) == 0:
            continue
        second = [feature.outcomes(sample) for sample in scoring]
        ranked, scored = _tabulate(first, values), _tabulate(second, values)
        sizes = [len(hashes) for hashes in second]
        for one, other in permutations(range(len(ranking)), 2):
            order = np.argsort(
                -(ranked[one] + 0.5) / (ranked[other] + 0.5), kind="stable"
            )
            high, low = (scored[table][order].cumsum() for table in (one, other))
            scores = score(high, low, (sizes[one], sizes[other]))
            best = int(np.argmax(scores))
            if scores[best] > 0:
                members = values[order[: best + 1]]
                yield Event(
                    f"values of {feature.name}",
                    one,
                    other,
                    float(scores[best]),
                    _among(feature, members),
                )


def _among(feature: Feature, members: Hashes) -> Callable[[Outputs], NDArray[np.bool_]]:
    # By sorting: NumPy 2.0 counts in a table where the values are near one another, and overflows beyond 2**63.
    return lambda outputs: np.isin(feature.outcomes(outputs), members, kind="sort")


def _sums(
    coarse: Sequence[Feature], ranking: Samples, scoring: Samples, score: Score
) -> Iterator[Event]:
    """Yield the events "the sum of the columns' log ratios is at least t": the best, if columns are independent."""
    # Also conditional on the first or the last column, such as RAPPOR's cohort.
    if len(coarse) < 2:
        return
    for root in (None, *{coarse[0], coarse[-1]}) if len(coarse) > 2 else (None,):
        features = list(coarse)
        if root is not None:
            if (
                len(_seen([root.outcomes(sample) for sample in ranking]))
                > _MOST_ROOT_VALUES
            ):
                continue
            features = [
                root,
                *(_joined(root, feature) for feature in coarse if feature is not root),
            ]
        name = "the sum of the columns' log ratios" + (
            "" if root is None else f", given {root.name}"
        )
        first = [
            [feature.outcomes(sample) for sample in ranking] for feature in features
        ]
        second = [
            [feature.outcomes(sample) for sample in scoring] for feature in features
        ]
        values = [_seen(outcomes) for outcomes in first]
        counts = [
            _tabulate(o, v) if len(v) else None
            for o, v in zip(first, values, strict=True)
        ]
        for one, other in permutations(range(len(ranking)), 2):
            weights = [_log_ratios(table, one, other) for table in counts]
            used = [place for place, weight in enumerate(weights) if weight.any()]
            if len(used) < 2:
                continue
            known = [values[i] for i in used], [weights[i] for i in used]
            ranked = _total([first[i][one] for i in used], *known)
            sums = [
                _total([second[i][table] for i in used], *known)
                for table in (one, other)
            ]
            thresholds = np.unique(
                np.quantile(
                    ranked, np.linspace(0, 1, _THRESHOLDS + 1)[1:], method="lower"
                )
            )
            hits = [
                len(s) - np.searchsorted(np.sort(s), thresholds - 1e-9) for s in sums
            ]
            scores = score(hits[0], hits[1], (len(sums[0]), len(sums[1])))
            best = int(np.argmax(scores))
            if scores[best] > 0:
                holds = partial(
                    _reaches,
                    [features[i] for i in used],
                    known,
                    float(thresholds[best]),
                )
                yield Event(name, one, other, float(scores[best]), holds)


def _reaches(
    features: list[Feature], known: Any, threshold: float, outputs: Outputs
) -> NDArray[np.bool_]:
    return (
        _total([feature.outcomes(outputs) for feature in features], *known)
        >= threshold - 1e-9
    )


def _log_ratios(counts: NDArray[np.int64] | None, one: int, other: int) -> Numbers:
    if counts is None:
        return np.zeros(0)
    top, bottom = counts[one] + 0.5, counts[other] + 0.5
    ratios = np.log(top / bottom)
    ratios[np.abs(ratios) < _SIGNIFICANT * np.sqrt(1 / top + 1 / bottom)] = 0
    return ratios


def _total(
    outcomes: Sequence[Hashes], values: list[Hashes], weights: list[Numbers]
) -> Numbers:
    """Add up the log ratios of the outcomes of some features, 0 for unknown outcomes."""
    total = np.zeros(len(outcomes[0]))
    for hashes, known, ratios in zip(outcomes, values, weights, strict=True):
        places, found = _find(hashes, known)
        total += np.where(found, ratios[places], 0.0)
    return total


@dataclass(frozen=True)
class Feature:
    """A function of an output with discrete values."""

    name: str
    outcomes: Callable[[Outputs], Hashes]


def _all_features(samples: Samples, coarse: Sequence[Feature]) -> list[Feature]:
    names = _names(samples)
    features = _value_features(samples)
    features += [feature for feature in coarse if feature.name.startswith(_BINS)]
    for name in names:
        label, numbers = _label(name, samples), _finite(name, samples)
        if (numbers != np.floor(numbers)).any():
            features += [
                Feature(f"the lowest bit of {label}", _lowest_bit(name, False)),
                Feature(
                    f"the lowest bit and the exponent of {label}",
                    _lowest_bit(name, True),
                ),
            ]
    if len(names) > 1:
        features.append(Feature("all columns together", _values(*names)))
    if 2 < len(names) <= _MOST_PAIRED:
        features += [_joined(one, other) for one, other in combinations(coarse, 2)]
    return features


def _value_features(samples: Samples) -> list[Feature]:
    return [Feature(_label(name, samples), _values(name)) for name in _names(samples)]


def _joined(one: Feature, other: Feature) -> Feature:
    """Combine two features."""
    return Feature(
        f"{one.name} with {other.name}",
        lambda outputs: combine(one.outcomes(outputs), other.outcomes(outputs)),
    )


def _names(samples: Samples) -> list[str]:
    return list(dict.fromkeys(name for sample in samples for name in sample))


def _label(name: str, samples: Samples) -> str:
    """Name a column in a result; a name that some outputs lack may contain a value."""
    known = all(name in sample for sample in samples) and "\0" not in name
    return name if known else "a part that not every output has"


def _values(*names: str) -> Callable[[Outputs], Hashes]:
    """Return the feature of the values of some columns together."""
    return lambda outputs: reduce(
        combine, (hash_cells(column_of(outputs, name)) for name in names)
    )


def _finite(name: str, samples: Samples) -> Numbers:
    numbers = np.concatenate([to_floats(column_of(sample, name)) for sample in samples])
    return numbers[np.isfinite(numbers)]


def _coarse(name: str, samples: Samples) -> Feature:
    """Return the values of a column, or bins of them if there are many."""
    finite = _finite(name, samples)
    if len(np.unique(finite)) <= _MANY:
        return Feature(_label(name, samples), _values(name))
    edges = np.unique(np.quantile(finite, np.linspace(0, 1, _MANY + 1)[1:-1]))

    def outcomes(outputs: Outputs) -> Hashes:
        numbers = to_floats(column_of(outputs, name))
        bins = np.searchsorted(edges, numbers, side="right")
        return np.where(np.isfinite(numbers), bins, _NOT_FINITE).astype(np.uint64)

    return Feature(f"{_BINS}{_label(name, samples)}", outcomes)


def _lowest_bit(name: str, with_exponent: bool) -> Callable[[Outputs], Hashes]:
    """Return the weight of the lowest set bit, which depends on the value that float noise was added to."""

    def outcomes(outputs: Outputs) -> Hashes:
        numbers = to_floats(column_of(outputs, name))
        usual = np.isfinite(numbers) & (numbers != 0)
        fraction, exponent = np.frexp(np.where(usual, numbers, 1.0))
        whole = np.abs(np.ldexp(fraction, _PRECISION)).astype(np.int64)
        zeros = np.frexp((whole & -whole).astype(float))[1].astype(np.int64) - 1
        weight = exponent + zeros - _PRECISION
        if with_exponent:
            weight = weight * 4096 + exponent
        return (
            np.where(usual, weight, _NOT_FINITE + (numbers == 0))
            .astype(np.int64)
            .view(np.uint64)
        )

    return outcomes
