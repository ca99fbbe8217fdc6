"""Record the noise of a release and replay it on a neighbouring table: what the noise is added to differs, no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.randomness import watched

ROWS = ("bernoulli_ratio", "uniform_integers")
"""Samplers that draw something for each row, such as the chunk that it is in."""


@dataclass
class Draw:
    """A draw of one run: the sampler, its arguments, its size, and what the noise was added to."""

    sampler: str
    parameters: dict[str, Any]
    drawn: Any
    shape: tuple[int, ...] = ()
    added: dict[int, list[tuple[Any, Any]]] = field(default_factory=dict)
    """For each number of the noise, the numbers that it was added to and the sums."""


class Recording:
    """The draws of one run; given those of another, they have the same results."""

    # The replayed run gets the choices of the recorded one and, where noise is added to a number, the recorded sum. So
    # whatever follows from released numbers alone is the same in both, later draws among it; what differs are the
    # numbers that the noise was added to. The log ratio of the probabilities of the recorded sums, under one table and
    # the other, is the sum over the draws: the composition of an adaptive release.

    def __init__(self, earlier: Sequence[Draw] = ()) -> None:
        self.draws: list[Draw] = []
        self._earlier = earlier

    def run(self, release: Callable[[], Any]) -> Any:
        with watched(self._watch):
            return release()

    def _before(self, place: int, sampler: str) -> Draw | None:
        """Return the recorded draw, if the runs are still alike."""
        found = self._earlier[place] if place < len(self._earlier) else None
        return found if found is not None and found.sampler == sampler else None

    def _watch(self, sampler: str, drawn: Any, parameters: dict[str, Any]) -> Any:
        place = len(self.draws)
        before = self._before(place, sampler)
        shape = np.shape(drawn)
        if sampler in ROWS:
            drawn = _with_start(drawn, None if before is None else before.drawn)
            self.draws.append(Draw(sampler, parameters, drawn, shape))
            return drawn
        if shape == ():
            drawn = drawn if before is None else before.drawn
            self.draws.append(Draw(sampler, parameters, drawn))
            return drawn
        self.draws.append(Draw(sampler, parameters, None, shape))
        parts = np.empty(drawn.size, object)
        parts[:] = [
            _Part(part, self, place, i) for i, part in enumerate(drawn.ravel().tolist())
        ]
        return parts.reshape(shape).view(_Noise)

    def result(self, part: _Part, number: Any, total: Any) -> Any:
        """Note that a part of the noise was added to a number, and return the sum, or the recorded one."""
        draw = self.draws[part.draw]
        sums = draw.added.setdefault(part.place, [])
        before = self._before(part.draw, draw.sampler)
        known = [] if before is None else before.added.get(part.place, [])
        total = known[len(sums)][1] if len(sums) < len(known) else total
        sums.append((number, total))
        return total


def _with_start(drawn: NDArray[Any], start: NDArray[Any] | None) -> NDArray[Any]:
    """Give the rows that both tables have, which are the first, the same draws."""
    if start is None:
        return drawn
    drawn = drawn.copy()
    drawn[: len(start)] = start[: len(drawn)]
    return drawn


class _Part(int):
    """A number of the noise, which notes what it is added to."""

    __array_ufunc__ = None  # so that NumPy leaves sums to the methods here

    recording: Recording
    draw: int
    place: int

    def __new__(cls, value: int, recording: Recording, draw: int, place: int) -> _Part:
        part = super().__new__(cls, value)
        part.recording, part.draw, part.place = recording, draw, place
        return part

    def _to(self, number: Any, sign: int, of_number: int = 1) -> Any:
        """Return a number plus or minus the noise; each of an array, which all get the same noise."""
        if isinstance(number, np.ndarray):
            sums = np.array(
                [self._to(one, sign, of_number) for one in number.ravel().tolist()]
            )
            return sums.reshape(number.shape)
        return self.recording.result(
            self, of_number * number, of_number * number + sign * int(self)
        )

    def __add__(self, other: Any) -> Any:
        return self._to(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._to(other, 1, -1)

    def __rsub__(self, other: Any) -> Any:
        return self._to(other, -1)


class _Noise(np.ndarray):
    """An array of them."""

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **more: Any
    ) -> Any:
        adds = ufunc in (np.add, np.subtract) and method == "__call__"
        plain = [
            np.asarray(one).astype(object if adds else _dtype(one)) for one in inputs
        ]
        result = getattr(ufunc, method)(*plain, **more)
        result = result.astype(_dtype(result)) if adds else result
        if out:
            out[0][...] = result
            return out[0]
        return result


def _dtype(numbers: Any) -> Any:
    """Return the dtype that an array of objects would have outside of a recording."""
    array = np.asarray(numbers)
    if array.dtype != object:
        return array.dtype
    if all(
        isinstance(part, Integral) and -(1 << 63) <= int(part) < 1 << 63
        for part in array.ravel()
    ):
        return np.int64
    return (
        float
        if all(isinstance(part, float | Integral) for part in array.ravel())
        else object
    )


def differences(draw: Draw, other: Draw) -> list[Fraction | None]:
    """Return how much the numbers that noise was added to differ; None for one that is no integer."""
    found: list[Fraction | None] = []
    for place in sorted(draw.added.keys() | other.added.keys()):
        numbers, others = (
            [exact(one) for one, _ in each.added.get(place, [])]
            for each in (draw, other)
        )
        found.extend(
            None
            if one is None or two is None or (one - two).denominator != 1
            else one - two
            for one, two in zip(numbers, others, strict=False)
        )
    return found


def exact(number: Any) -> Fraction | None:
    """Write a number exactly; None if it is not finite."""
    if isinstance(number, Rational):
        return Fraction(int(number.numerator), int(number.denominator))
    number = float(number)
    return Fraction(number) if np.isfinite(number) else None


def reused(draws: Sequence[Draw]) -> list[str]:
    """Name the samplers of which the same noise was added to several numbers."""
    counts = Counter(
        draw.sampler
        for draw in draws
        if any(len(sums) > 1 for sums in draw.added.values())
    )
    return list(counts)


def unused(draws: Sequence[Draw]) -> list[str]:
    """Name the samplers of which noise was added to nothing."""
    noise = (draw for draw in draws if draw.drawn is None and 0 not in draw.shape)
    return list(dict.fromkeys(draw.sampler for draw in noise if not draw.added))


def scores_of(draw: Draw) -> list[Any]:
    """Return the scores of a choice; of noise, none."""
    return np.asarray(draw.parameters.get("scores", []), object).tolist()
