"""Record the noise of a release and replay it on a neighboring table.

The two runs differ only in the numbers to which the noise is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.randomness import watch_draws

# Samplers that draw something for each row, such as the chunk that it is in.
ROWS = ("bernoulli_ratio", "uniform_integers")


@dataclass
class Draw:
    """A draw of one run: the sampler, its arguments, its size, and its sums."""

    sampler: str
    parameters: dict[str, Any]
    value: Any
    shape: tuple[int, ...] = ()
    # By index of the noise: the pairs of a number to which it was added and their sum.
    sums: dict[int, list[tuple[Any, Any]]] = field(default_factory=dict)


class Recording:
    """The draws of one run; a replay gets the results of the draws of another run."""

    # The replayed run gets the choices of the recorded one and, where noise is added to a
    # number, the recorded sum. So whatever follows from released numbers alone is the
    # same in both, later draws among it; what differs are the numbers that the noise was
    # added to. The log ratio of the probabilities of the recorded sums, under one table
    # and the other, is the sum over the draws: the composition of an adaptive release.

    def __init__(self, earlier: Sequence[Draw] = ()) -> None:
        self.draws: list[Draw] = []
        self._earlier = earlier

    def run(self, release: Callable[[], Any]) -> Any:
        with watch_draws(self._watch):
            return release()

    def _before(self, index: int, sampler: str) -> Draw | None:
        """Return the recorded draw, if the runs are still alike."""
        if index < len(self._earlier) and self._earlier[index].sampler == sampler:
            return self._earlier[index]
        return None

    def _watch(self, sampler: str, value: Any, parameters: dict[str, Any]) -> Any:
        draw_index = len(self.draws)
        recorded = self._before(draw_index, sampler)
        shape = np.shape(value)
        if sampler in ROWS:
            if recorded is not None:
                value = _copy_start(value, recorded.value)
            self.draws.append(Draw(sampler, parameters, value, shape))
            return value
        if shape == ():
            if recorded is not None:
                value = recorded.value
            self.draws.append(Draw(sampler, parameters, value))
            return value
        self.draws.append(Draw(sampler, parameters, None, shape))
        parts = np.empty(value.size, object)
        for index, noise in enumerate(value.ravel().tolist()):
            parts[index] = _NoiseValue(noise, self, draw_index, index)
        return parts.reshape(shape).view(_Noise)

    def result(self, part: _NoiseValue, number: Any, total: Any) -> Any:
        """Record the number to which a part of the noise was added; return the sum, or the recorded sum."""
        draw = self.draws[part.draw]
        sums = draw.sums.setdefault(part.index, [])
        recorded = self._before(part.draw, draw.sampler)
        if recorded is not None:
            recorded_sums = recorded.sums.get(part.index, [])
            if len(sums) < len(recorded_sums):
                _, total = recorded_sums[len(sums)]
        sums.append((number, total))
        return total


def _copy_start(values: NDArray[Any], start: NDArray[Any]) -> NDArray[Any]:
    """Give the first rows, which both tables share, the draws of the recorded run."""
    values = values.copy()
    values[: len(start)] = start[: len(values)]
    return values


class _NoiseValue(int):
    """A noise value that records the numbers to which it is added."""

    __array_ufunc__ = None  # so that NumPy leaves sums to the methods here

    recording: Recording
    draw: int
    index: int

    def __new__(
        cls, value: int, recording: Recording, draw: int, index: int
    ) -> _NoiseValue:
        part = super().__new__(cls, value)
        part.recording, part.draw, part.index = recording, draw, index
        return part

    def _record_sum(self, number: Any, sign: int = 1) -> Any:
        """Record the number to which the noise is added, and return the sum; in a replay, the sum of the first run.

        The numbers of an array all get the same noise.
        """
        if isinstance(number, np.ndarray):
            sums = [self._record_sum(part, sign) for part in number.ravel().tolist()]
            return np.array(sums).reshape(number.shape)
        return self.recording.result(self, number, number + sign * int(self))

    def __add__(self, other: Any) -> Any:
        return self._record_sum(other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._record_sum(-1 * other)

    def __rsub__(self, other: Any) -> Any:
        return self._record_sum(other, -1)


class _Noise(np.ndarray):
    """An array of noise values."""

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **more: Any
    ) -> Any:
        is_sum = ufunc in (np.add, np.subtract) and method == "__call__"
        arrays = []
        for array in inputs:
            # Sums of Python objects call `_NoiseValue`, which records the numbers.
            dtype = object if is_sum else _dtype(array)
            arrays.append(np.asarray(array).astype(dtype))
        result = getattr(ufunc, method)(*arrays, **more)
        if is_sum:
            result = result.astype(_dtype(result))
        if out:
            out[0][...] = result
            return out[0]
        return result


def _dtype(numbers: Any) -> Any:
    """Return the dtype that an array of objects would have outside of a recording."""
    return np.array(np.asarray(numbers).tolist()).dtype


def differences(draw: Draw, other: Draw) -> list[Fraction] | None:
    """Return the differences of the numbers to which noise was added; None if one is no integer."""
    changes = []
    # In order, because noise of cubes is drawn by rows.
    for index in sorted(draw.sums.keys() | other.sums.keys()):
        sums, other_sums = draw.sums.get(index, []), other.sums.get(index, [])
        for (number, _), (other_number, _) in zip(sums, other_sums, strict=False):
            if not (math.isfinite(number) and math.isfinite(other_number)):
                return None
            # Python's numbers, because integers of NumPy overflow.
            pair = [Fraction(np.asarray(one).item()) for one in (number, other_number)]
            change = pair[0] - pair[1]
            if change.denominator != 1:
                return None
            changes.append(abs(change))
    return changes


def find_reused(draws: Sequence[Draw]) -> list[str]:
    """Name the samplers whose noise was added to several numbers."""
    names = []
    for draw in draws:
        if any(len(sums) > 1 for sums in draw.sums.values()):
            names.append(draw.sampler)
    return list(dict.fromkeys(names))


def scores_of(draw: Draw) -> list[Any]:
    """Return the scores of a choice; of noise, none."""
    return np.asarray(draw.parameters.get("scores", []), object).tolist()
