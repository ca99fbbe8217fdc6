"""A table whose counts come out with noise only: what the selection of marginals works on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.randomness import ByteSource
from skdp.synthesis.model import Clique, Groups, Marginal, group
from skdp.synthesis.selection._noise import NoiseBudget
from skdp.synthesis.tables import Records

_LARGEST_GUESS = 1 << 36  # more records than any table has; the sum of 2**26 such cells is below 2**63


class PrivateTable:
    """The records of a table, a budget, and what was measured so far."""

    # Nothing but noisy counts, noisy scores and choices leave it; each takes its share of the budget first.

    def __init__(
        self,
        records: Records,
        sizes: Sequence[int],
        budget: NoiseBudget,
        source: ByteSource,
        say: Callable[[str], Any] | None = None,
    ) -> None:
        self._records, self._source = records, source
        self.sizes, self.budget = tuple(sizes), budget
        self.say = say or (lambda message: None)
        self.progress = Progress(self.say)
        self.marginals: list[Marginal] = []

    def prepare(self, cliques: Sequence[Clique]) -> None:
        """Announce what will be measured, so that large tables are read once for all of it."""
        self._records.prepare(cliques)

    def measure(self, clique: Clique, share: Fraction, groups: Groups | None = None) -> Marginal:
        """Measure a marginal."""
        (counts,) = self._records.count([clique])
        true = group(counts, groups)
        noisy = self.budget.counts(self._source, share, true)
        self.marginals.append(Marginal(clique, noisy, self.budget.std_error(share), groups))
        self.progress.measured(clique, share)
        return self.marginals[-1]

    def score(
        self, cliques: Sequence[Clique], guesses: Iterable[NDArray[np.float64]], share: Fraction, groups: Groups
    ) -> NDArray[np.float64]:
        """Measure how far guesses of some marginals are off, in records."""
        # A guess is rounded to integers, so a record changes its distance to the counts by exactly 1.
        scores = self.budget.scores(self._source, share, self._distances(cliques, guesses, groups))
        self.progress.scored(len(cliques), share)
        return scores

    def choose(
        self,
        cliques: Sequence[Clique],
        guesses: Sequence[NDArray[np.float64]],
        weights: Sequence[int],
        penalties: Sequence[int],
        share: Fraction,
    ) -> int:
        """Choose a marginal of which a guess is far off."""
        distances = self._distances(cliques, guesses, (None,) * len(self.sizes)).tolist()
        # Python's integers: a product that wrapped around would change by more than its weight.
        scores = [
            weight * (distance - penalty)
            for distance, penalty, weight in zip(distances, penalties, weights, strict=True)
        ]
        place = self.budget.choose(self._source, share, np.array(scores, object), max(weights))
        self.progress.chose(len(cliques), share)
        return place

    def _distances(
        self, cliques: Sequence[Clique], guesses: Iterable[NDArray[np.float64]], groups: Groups
    ) -> NDArray[np.int64]:
        counted = zip(cliques, self._records.count(cliques), guesses, strict=True)
        return np.array(
            [
                np.abs(group(counts, tuple(groups[column] for column in clique)) - _rounded(guess)).sum()
                for clique, counts, guess in counted
            ],
            np.int64,
        )


def _rounded(guess: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(np.clip(guess, 0, _LARGEST_GUESS)).astype(np.int64)


_KINDS = {1: "column", 2: "pair", 3: "triple"}


class Progress:
    """Reports each step in a line, measurements of a kind together, with the seconds since the start."""

    # **Privacy.** Shares, numbers of candidates and cells, and chosen marginals are public or released anyway. The
    # seconds depend on the table: they are for the curator.

    def __init__(self, say: Callable[[str], Any] | None = None) -> None:
        self._say = say
        self._start = self._last = time.perf_counter()
        self._kinds: Counter[str] = Counter()
        self._share = Fraction(0)
        self._among = 0

    def measured(self, clique: tuple[int, ...], share: Fraction) -> None:
        """Note a measurement, reported with those that follow."""
        self._kinds[_KINDS.get(len(clique), f"table of {len(clique)} columns")] += 1
        self._share += share
        self._last = time.perf_counter()
        if self._among:  # a choice is followed by one measurement
            self.flush()

    def scored(self, n_candidates: int, share: Fraction) -> None:
        """Report that candidates were scored."""
        self.flush()
        self._line(f"scored {_counted(n_candidates, 'candidate')} ({_percent(share)} of the budget)")

    def chose(self, n_candidates: int, share: Fraction) -> None:
        """Note a choice, reported with the measurement that follows."""
        self.flush()
        self._among, self._share = n_candidates, share

    def fitted(self, n_steps: int, n_cells: int) -> None:
        """Report that a model was fitted."""
        self.flush()
        self._line(f"fitted a model: {_counted(n_steps, 'step')}, {_counted(n_cells, 'cell')}")

    def flush(self) -> None:
        """Report what was measured since the last line."""
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
