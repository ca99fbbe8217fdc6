"""Recording of the noise of a release, its replay on a neighboring table, and recording of random bytes and charges.

The two runs of a replay differ only in the numbers to which the noise is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partialmethod
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from skdp.base import collect_output
from skdp.privacy import PrivacyGuarantee, PrivacyLedger
from skdp.randomness import SecureSource, SeededSource, watch_draws

# Samplers that draw a number for each row, for example to split the rows at random.
ROW_SAMPLERS = ("bernoulli_ratio", "uniform_integers")


@dataclass
class Draw:
    """Draw of one run: name and arguments of the sampler, result, and sums with statistics."""

    sampler: str
    parameters: dict[str, Any]
    value: Any
    shape: tuple[int, ...] = ()
    # For each index of the flat array of noise: pairs (number without noise, noisy number).
    sums: dict[int, list[tuple[Any, Any]]] = field(default_factory=dict)


class Recording:
    """Run of a release: its draws, its result or error, and its warnings, logs and output.

    A replay returns the results of the draws of an earlier run.
    """

    # The replay returns the recorded choices and, if noise is added to a number, the
    # recorded sum. Everything that is computed from released numbers, including the
    # parameters of later draws, is therefore equal in both runs. Only the numbers to
    # which noise is added differ. The log ratio of the probabilities of the recorded
    # sums under both tables is the sum over the draws (composition of an adaptive
    # release).

    def __init__(
        self, release: Callable[[], Any], earlier: Sequence[Draw] = ()
    ) -> None:
        self.draws: list[Draw] = []
        self._earlier = earlier
        self.result: Any = None
        self.error: Exception | None = None
        with collect_output() as self.messages, watch_draws(self._watch):
            try:
                self.result = release()
            except Exception as error:
                self.error = error

    def _find_earlier(self, index: int, sampler: str) -> Draw | None:
        """Return the draw of the earlier run with this index, if it has the same sampler."""
        if index < len(self._earlier) and self._earlier[index].sampler == sampler:
            return self._earlier[index]
        return None

    def _watch(self, sampler: str, value: Any, parameters: dict[str, Any]) -> Any:
        """Record a draw of `skdp.randomness`, and return its result or a recorded result.

        `sampler` is the name of the function, `value` its result, and `parameters` its arguments. Arrays of noise are
        replaced by arrays that record the numbers to which they are added.
        """
        draw_index = len(self.draws)
        recorded = self._find_earlier(draw_index, sampler)
        shape = np.shape(value)
        if sampler in ROW_SAMPLERS:
            if recorded is not None:
                value = _copy_start(value, recorded.value)
            self.draws.append(Draw(sampler, parameters, value, shape))
            return value
        # A single value is a choice, which is equal in both runs.
        if shape == ():
            if recorded is not None:
                value = recorded.value
            self.draws.append(Draw(sampler, parameters, value))
            return value
        self.draws.append(Draw(sampler, parameters, None, shape))
        values = np.empty(value.size, object)
        for index, noise in enumerate(value.ravel().tolist()):
            values[index] = _NoiseValue(noise, self, draw_index, index)
        return values.reshape(shape).view(_Noise)

    def record_sum(self, noise: _NoiseValue, number: Any, total: Any) -> Any:
        """Record a number and its sum with a noise value; in a replay, return the recorded sum.

        A replay is a second run, on a neighbor of the table, that gets the noisy numbers of the first run.
        """
        draw = self.draws[noise.draw]
        sums = draw.sums.setdefault(noise.index, [])
        recorded = self._find_earlier(noise.draw, draw.sampler)
        if recorded is not None:
            recorded_sums = recorded.sums.get(noise.index, [])
            if len(sums) < len(recorded_sums):
                _, total = recorded_sums[len(sums)]
        sums.append((number, total))
        return total


def _copy_start(values: NDArray[Any], start: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of the draws of rows, with the recorded draws for the rows of both tables."""
    values = values.copy()
    values[: len(start)] = start[: len(values)]
    return values


class _NoiseValue(int):
    """Integer noise value that records the numbers to which it is added."""

    # With None, NumPy calls the methods of this class for sums.
    __array_ufunc__ = None

    recording: Recording
    draw: int
    index: int

    def __new__(
        cls, value: int, recording: Recording, draw: int, index: int
    ) -> _NoiseValue:
        noise = super().__new__(cls, value)
        noise.recording, noise.draw, noise.index = recording, draw, index
        return noise

    def _add_to(self, number: Any, sign: int = 1) -> Any:
        """Record a number, or each number of an array, and return its sum with the noise.

        With the sign -1, return the number minus the noise. `recording` collects the numbers of one run; in a replay, a
        second run on a neighbor of the table, it returns the sum of the first run.
        """
        if isinstance(number, np.ndarray):
            sums = [self._add_to(part, sign) for part in number.ravel().tolist()]
            return np.array(sums).reshape(number.shape)
        return self.recording.record_sum(self, number, number + sign * int(self))

    def __add__(self, number: Any) -> Any:
        """Return noise + number."""
        return self._add_to(number)

    __radd__ = __add__

    def __sub__(self, number: Any) -> Any:
        """Return noise - number."""
        return self._add_to(-1 * number)

    def __rsub__(self, number: Any) -> Any:
        """Return number - noise."""
        return self._add_to(number, -1)


class _Noise(np.ndarray):
    """Array of noise values, whose sums with numbers are recorded."""

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **options: Any
    ) -> Any:
        """Record the numbers of a sum or difference with the noise; apply other functions to plain numbers."""
        is_sum = ufunc in (np.add, np.subtract) and method == "__call__"
        arrays = []
        for array in inputs:
            # Sums of arrays of objects call the methods of `_NoiseValue`.
            dtype = object if is_sum else _find_dtype(array)
            arrays.append(np.asarray(array).astype(dtype))
        result = getattr(ufunc, method)(*arrays, **options)
        # Sums with Python integers stay Python integers, which may exceed 64 bits.
        is_exact = any(
            np.asarray(array).dtype.kind == "O"
            for array in inputs
            if type(array) is not _Noise
        )
        if is_sum and not is_exact:
            result = result.astype(_find_dtype(result))
        if out:
            out[0][...] = result
            return out[0]
        return result


def _find_dtype(numbers: Any) -> Any:
    """Return the numeric dtype of an array of Python numbers."""
    return np.array(np.asarray(numbers).tolist()).dtype


def compute_changes(first: Draw, second: Draw) -> list[Fraction] | None:
    """Return the absolute differences of the numbers to which noise was added in two runs.

    `first` and `second` are one draw of noise in both runs. The differences have the order of the noise. None if a
    difference is not an integer or not finite.
    """
    changes = []
    # Joint noise (`cube_noise`) is one vector per row, so its norms depend on the order.
    for index in sorted(first.sums.keys() | second.sums.keys()):
        first_sums, second_sums = first.sums.get(index, []), second.sums.get(index, [])
        for (number, _), (other_number, _) in zip(
            first_sums, second_sums, strict=False
        ):
            if not (math.isfinite(number) and math.isfinite(other_number)):
                return None
            # Numbers are converted to Python numbers, because NumPy integers overflow.
            change = Fraction(np.asarray(number).item())
            change -= Fraction(np.asarray(other_number).item())
            if change.denominator != 1:
                return None
            changes.append(abs(change))
    return changes


def find_reused_samplers(draws: Sequence[Draw]) -> list[str]:
    """Return the names of samplers with a noise value that was added to several numbers."""
    names = []
    for draw in draws:
        if any(len(sums) > 1 for sums in draw.sums.values()):
            names.append(draw.sampler)
    return list(dict.fromkeys(names))


def list_scores(draw: Draw) -> list[Any]:
    """Return the scores of a random choice; an empty list for noise."""
    return np.asarray(draw.parameters.get("scores", []), object).tolist()


@contextmanager
def record_random_bytes() -> Iterator[bytearray]:
    """Collect the random bytes that `skdp.randomness` draws in a `with` block."""
    collected = bytearray()
    with ExitStack() as stack:
        # Estimators draw random bits by the method `bytes` of these classes.
        for source in (SecureSource, SeededSource):
            recorded = partialmethod(_record_draw, source.bytes, collected)
            stack.enter_context(patch.object(source, "bytes", recorded))
        yield collected


def _record_draw(source: Any, draw: Any, collected: bytearray, size: int) -> Any:
    """Draw bytes from a source with its original method, and collect them."""
    drawn = draw(source, size)
    collected += drawn.tobytes()
    return drawn


class RecordingLedger(PrivacyLedger):
    """Ledger that logs each charge with the number of random bytes drawn before it.

    Its budget covers `n_releases` releases with a guarantee.
    """

    def __init__(
        self, guarantee: PrivacyGuarantee, n_releases: float, drawn: bytearray
    ) -> None:
        """Make a ledger whose budget is about `n_releases` releases with a guarantee.

        `drawn` are the random bytes that have been drawn; `log` has each charge with their number at this time.
        """
        # A guarantee of some columns requires a ledger of these columns.
        scope: dict[str, Any] = {}
        if guarantee.relation == "replace_values":
            scope = {"relation": guarantee.relation, "columns": guarantee.scope}
        # A ledger rounds sums up, so the budget is slightly larger than the releases.
        epsilon = (n_releases + 0.01) * max(guarantee.epsilon, 1e-9)
        delta = min(0.5, (n_releases + 1) * guarantee.delta)
        super().__init__(epsilon=epsilon, delta=delta, **scope)
        self.drawn = drawn
        self.log: list[tuple[PrivacyGuarantee, int]] = []

    def charge(self, guarantee: PrivacyGuarantee, what: str) -> None:
        """Charge a guarantee and log it."""
        super().charge(guarantee, what)
        self.log.append((guarantee, len(self.drawn)))
