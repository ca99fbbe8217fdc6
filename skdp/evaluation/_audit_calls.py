"""The test by single calls, which sees all that a release shows, its form too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skdp.evaluation._audit_bounds import epsilon_lower_bound
from skdp.evaluation._audit_events import Event, choose_event
from skdp.evaluation._audit_outputs import raised, stack_calls
from skdp.evaluation._audit_release import Audited, Situation

Found = tuple[float, float, int, Event | None]
"""The bound, the largest one that so many draws could give, the number of draws, and the event."""

_FIRST, _ROWS_A_FIRST = 8, 40_000  # calls of each table that look for events; one more for so many rows
_AGAIN, _FINALISTS = 25, 2  # more that choose among the best of them
_CALLS, _FACTOR, _USUAL = 100, 25, 1_500  # that test: they must do for a difference that always shows
_MORE, _ROWS_A_CALL = (600, 1_500), 250
_CAUTION = 0.5  # standard errors that an event must make up for, or luck would choose too many for a test


@dataclass(frozen=True)
class _Candidate:
    event: Event
    likelier: Situation
    other: Situation

    def named(self) -> Event:
        """Name the event by what is called, and its tables by what they are audited for."""
        name = self.likelier.name + self.event.name
        return replace(self.event, name=name, likelier=self.likelier.place, other=self.other.place)

    def hits(self, audited: Audited, size: int) -> tuple[int, int]:
        """Count how often the event comes in fresh calls of either table."""
        one, other = (
            int(self.event.holds(audited.call_batch(table, size)).sum()) for table in (self.likelier, self.other)
        )
        return one, other


def by_many_calls(audited: Audited, choice: int, size: int, *, delta: float, level: float) -> Found:
    """Bound epsilon by calls alone, where a call is a draw."""
    candidates, drawn = _candidates(audited, choice, delta)
    reach = reach_of(size, delta, level)
    if not candidates:
        return 0.0, reach, drawn, None
    return _test(audited, candidates[0], size, drawn, delta, level)


def by_few_calls(audited: Audited, n_rows: int, claimed: float, *, delta: float, level: float, only: bool) -> Found:
    """Bound epsilon by some hundred calls beside the rows."""
    # They are tested only where they could refute the claim, and by as many calls as that takes: the calls that decide
    # this are not those that test.
    candidates, drawn = _candidates(audited, _FIRST + n_rows // _ROWS_A_FIRST, delta, few=True)
    usual = min(_USUAL, _CALLS + math.ceil(_FACTOR * math.exp(min(claimed, 10.0))))
    if not candidates:
        return 0.0, reach_of(usual, delta, level), drawn, None
    sizes = sorted({usual, *(size for size in (*_MORE, n_rows // _ROWS_A_CALL) if usual < size <= 4_000)})
    again = _AGAIN + n_rows // _ROWS_A_FIRST
    plans = []
    for candidate in candidates[:_FINALISTS]:
        hits = candidate.hits(audited, again)
        drawn += 2 * again
        expected = [_expected(hits, again, size, delta, level) for size in sizes]
        enough = [size for size, bound in zip(sizes, expected, strict=True) if bound > claimed]
        plans.append((expected[-1], enough[0] if enough else 0, candidate))
    _, size, chosen = max(plans, key=lambda plan: plan[0])
    if size == 0 and not only:
        return 0.0, reach_of(usual, delta, level), drawn, None
    return _test(audited, chosen, size or usual, drawn, delta, level)


def _candidates(audited: Audited, choice: int, delta: float, few: bool = False) -> tuple[list[_Candidate], int]:
    """Choose the best event of each group of tables, the best of all first."""
    groups = audited.groups()
    first = [[audited.calls(situation, choice) for situation in group] for group in groups]
    _check_errors(first)
    found = []
    for group, calls in zip(groups, first, strict=True):
        scoring = [audited.call_batch(situation, choice) for situation in group]
        event = choose_event([stack_calls(sample) for sample in calls], scoring, delta=delta, few=few)
        if event is not None:
            found.append(_Candidate(event, group[event.likelier], group[event.other]))
    found.sort(key=lambda candidate: -candidate.event.score)
    return found, 2 * choice * sum(map(len, groups))


def _check_errors(groups: Sequence[Sequence[Sequence[dict[str, object]]]]) -> None:
    errors = [raised(call) for group in groups for calls in group for call in calls]
    if all(error is not None for error in errors):
        kinds = ", ".join(sorted(set(map(str, errors))))
        raise ValueError(f"every release of the neighbouring tables failed ({kinds})")


def _expected(hits: tuple[int, int], trials: int, size: int, delta: float, level: float) -> float:
    """Guess the bound that so many calls would give."""
    shares = [(count + 0.5) / (trials + 1) for count in hits]
    if hits == (trials, 0):
        shares = [1.0, 0.0]
    cautious = max(0.0, shares[0] - _CAUTION * math.sqrt(shares[0] * (1 - shares[0]) / trials))
    one, other = round(cautious * size), round(shares[1] * size)
    return epsilon_lower_bound((one, other), (size, size), delta=delta, level=level)


def _test(audited: Audited, candidate: _Candidate, size: int, drawn: int, delta: float, level: float) -> Found:
    bound = epsilon_lower_bound(candidate.hits(audited, size), (size, size), delta=delta, level=level)
    return bound, reach_of(size, delta, level), drawn + 2 * size, candidate.named()


def reach_of(size: int, delta: float, level: float) -> float:
    """Return the largest bound that so many draws can give."""
    return epsilon_lower_bound((size, 0), (size, size), delta=delta, level=level)
