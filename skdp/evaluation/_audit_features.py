"""What an auditor looks at in an output: one column, a pair, the low bits of floats, all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from skdp.evaluation._audit_hashes import combine, hash_cells, to_floats
from skdp.evaluation._audit_outputs import Outputs, column_of

_MANY = 64  # distinct numbers are also looked at in so many bins
_MOST_PAIRED = 12  # columns
_PRECISION = 53  # binary digits of a float
_NOT_FINITE = 1 << 20
_BINS = "bins of "


@dataclass(frozen=True)
class Feature:
    """A function of an output with discrete values."""

    name: str
    outcomes: Callable[[Outputs], NDArray[np.uint64]]


def column_features(samples: Sequence[Outputs]) -> list[Feature]:
    """List one coarse feature for each column: its values, or bins of them if it has very many."""
    return [_coarse(name, samples) for name in _names(samples)]


def value_features(samples: Sequence[Outputs]) -> list[Feature]:
    """List the plain values of each column."""
    return [Feature(_label(name, samples), _values(name)) for name in _names(samples)]


def all_features(samples: Sequence[Outputs], coarse: Sequence[Feature]) -> list[Feature]:
    """List everything that is looked at."""
    names = _names(samples)
    features = value_features(samples)
    features += [feature for feature in coarse if feature.name.startswith(_BINS)]
    for name in names:
        label = _label(name, samples)
        numbers = np.concatenate([to_floats(column_of(sample, name)) for sample in samples])
        finite = numbers[np.isfinite(numbers)]
        if (finite != np.floor(finite)).any():
            features += [
                Feature(f"the lowest bit of {label}", _lowest_bit(name, False)),
                Feature(f"the lowest bit and the exponent of {label}", _lowest_bit(name, True)),
            ]
    if len(names) > 1:
        features.append(Feature("all columns together", _together(names)))
    if 2 < len(names) <= _MOST_PAIRED:
        features += [joined(one, other) for one, other in combinations(coarse, 2)]
    return features


def joined(one: Feature, other: Feature) -> Feature:
    """Look at two features together."""
    return Feature(
        f"{one.name} with {other.name}", lambda outputs: combine(one.outcomes(outputs), other.outcomes(outputs))
    )


def _names(samples: Sequence[Outputs]) -> list[str]:
    return list(dict.fromkeys(name for sample in samples for name in sample))


def _label(name: str, samples: Sequence[Outputs]) -> str:
    """Name a column in a result; a name that not all outputs have may be made of a value."""
    known = all(name in sample for sample in samples) and "\0" not in name
    return name if known else "a part that not every output has"


def _values(name: str) -> Callable[[Outputs], NDArray[np.uint64]]:
    return lambda outputs: hash_cells(column_of(outputs, name))


def _together(names: Sequence[str]) -> Callable[[Outputs], NDArray[np.uint64]]:
    def outcomes(outputs: Outputs) -> NDArray[np.uint64]:
        hashes = hash_cells(column_of(outputs, names[0]))
        for name in names[1:]:
            hashes = combine(hashes, hash_cells(column_of(outputs, name)))
        return hashes

    return outcomes


def _coarse(name: str, samples: Sequence[Outputs]) -> Feature:
    numbers = np.concatenate([to_floats(column_of(sample, name)) for sample in samples])
    finite = np.unique(numbers[np.isfinite(numbers)])
    if len(finite) <= _MANY:
        return Feature(_label(name, samples), _values(name))
    edges = np.unique(np.quantile(numbers[np.isfinite(numbers)], np.linspace(0, 1, _MANY + 1)[1:-1]))

    def outcomes(outputs: Outputs) -> NDArray[np.uint64]:
        numbers = to_floats(column_of(outputs, name))
        bins = np.searchsorted(edges, numbers, side="right")
        return np.where(np.isfinite(numbers), bins, _NOT_FINITE).astype(np.uint64)

    return Feature(f"{_BINS}{_label(name, samples)}", outcomes)


def _lowest_bit(name: str, with_exponent: bool) -> Callable[[Outputs], NDArray[np.uint64]]:
    """Look at the weight of the lowest bit that is set: float noise on another value leaves another one."""

    def outcomes(outputs: Outputs) -> NDArray[np.uint64]:
        numbers = to_floats(column_of(outputs, name))
        usual = np.isfinite(numbers) & (numbers != 0)
        fraction, exponent = np.frexp(np.where(usual, numbers, 1.0))
        whole = np.abs(np.ldexp(fraction, _PRECISION)).astype(np.int64)
        zeros = np.frexp((whole & -whole).astype(float))[1].astype(np.int64) - 1
        weight = exponent + zeros - _PRECISION
        if with_exponent:
            weight = weight * 4096 + exponent
        return np.where(usual, weight, _NOT_FINITE + (numbers == 0)).astype(np.int64).view(np.uint64)

    return outcomes
