"""Telling what a fit is doing: a line for each step, and nothing that is not released anyway."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

_KINDS = {1: "column", 2: "pair", 3: "triple"}


class Progress:
    """Puts measurements of a kind together and says each step in a line, with the seconds since the start."""

    # **Privacy.** It is told shares of the budget, numbers of candidates and of cells, and which marginals were chosen:
    # what is public or released anyway; never a count. How many seconds something takes depends on the table: they are
    # for the curator.

    def __init__(self, say: Callable[[str], Any] | None = None) -> None:
        self._say = say
        self._start = self._last = time.perf_counter()
        self._kinds: Counter[str] = Counter()
        self._share = Fraction(0)
        self._among = 0

    def measured(self, clique: tuple[int, ...], share: Fraction) -> None:
        """Take note of a measurement; it is said with those that follow."""
        self._kinds[_KINDS.get(len(clique), f"table of {len(clique)} columns")] += 1
        self._share += share
        self._last = time.perf_counter()
        if self._among:  # a choice is followed by one measurement
            self.flush()

    def scored(self, n_candidates: int, share: Fraction) -> None:
        """Say that candidates were scored."""
        self.flush()
        self._line(f"scored {_counted(n_candidates, 'candidate')} ({_percent(share)} of the budget)")

    def chose(self, n_candidates: int, share: Fraction) -> None:
        """Take note of a choice; it is said with the measurement that follows."""
        self.flush()
        self._among, self._share = n_candidates, share

    def fitted(self, n_steps: int, n_cells: int) -> None:
        """Say that a model was fitted."""
        self.flush()
        self._line(f"fitted a model: {_counted(n_steps, 'step')}, {_counted(n_cells, 'cell')}")

    def flush(self) -> None:
        """Say what was measured since the last line."""
        if self._kinds:
            listed = ", ".join(_counted(number, kind) for kind, number in self._kinds.items())
            chosen = f", chosen among {self._among:,}" if self._among else ""
            self._line(f"measured {listed}{chosen} ({_percent(self._share)} of the budget)", self._last)
        self._kinds.clear()
        self._share, self._among = Fraction(0), 0

    def _line(self, text: str, when: float | None = None) -> None:
        if self._say is not None:
            self._say(f"{(when or time.perf_counter()) - self._start:6.1f} s  {text}")


def _counted(number: int, thing: str) -> str:
    """Write a number and what is counted, in the plural if need be."""
    head, *rest = thing.split(" ", 1)
    return " ".join([f"{number:,}", head if number == 1 else f"{head}s", *rest])


def _percent(share: Fraction) -> str:
    return f"{float(100 * share):.3g} %"
