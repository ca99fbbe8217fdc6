"""Calls of somebody else's function on private data: nothing that it shows or keeps gets out."""

from __future__ import annotations

import io
import random
import warnings
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from typing import Any, Self, TypeVar

import numpy as np

from skdp.randomness import ByteSource

Answer = TypeVar("Answer")


class Isolation:
    """A block in which functions are called without output, errors, warnings, or a state that they share."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.callback(random.setstate, random.getstate())
        self._stack.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002 - the statistic may use it
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def call(self, function: Callable[[], Answer]) -> Answer | None:
        """Call a function."""
        seed = self._source.bytes(32).tobytes()
        random.seed(seed)
        np.random.seed(np.frombuffer(seed, np.uint32))  # noqa: NPY002
        try:
            with (
                redirect_stdout(_Nowhere()),
                redirect_stderr(_Nowhere()),
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


class _Nowhere(io.TextIOBase):
    """A stream that keeps nothing."""

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: Any, /) -> int:
        """Return as if all had been written."""
        return len(text)
