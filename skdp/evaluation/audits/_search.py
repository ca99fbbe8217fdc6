"""The test: some draws choose an event, and others count it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy.stats import beta

from skdp.evaluation.audits._calls import Audited, Situation
from skdp.evaluation.audits._events import Event, choose_event
from skdp.evaluation.audits._outputs import FORM, raised, stack_calls

_ROWS, _CALLS = 1_000_000, 10_000
_CHOICE, _FEW, _CHOICE_OF_FEW = (
    0.1,
    5_000,
    0.3,
)  # shares of the draws that choose the event; more of few draws


def search(
    audited: Audited, n_draws: int | None, claimed: float, *, delta: float, level: float
) -> Found:
    """Bound epsilon from below by the best event of single calls and, where rows are draws, of rows."""
    if not audited.each_row:
        total = n_draws or _CALLS
        tables = sum(map(len, audited.groups()))
        choice = _choice_draws(total, tables)
        candidates, drawn = _candidates(audited, choice, delta)
        chosen = candidates[0] if candidates else None
        return _test(
            audited, chosen, (total - 2 * choice * tables) // 2, drawn, delta, level
        )
    draws = n_draws or _ROWS
    rows = _by_rows(audited, draws, delta, level / 2)
    if rows is not None and rows[0] > claimed:
        return rows
    calls = _by_few_calls(
        audited, draws, claimed, delta=delta, level=level / 2, only=rows is None
    )
    if rows is None:
        return calls
    best = max(rows, calls, key=lambda found: found[0])
    return best[0], max(rows[1], calls[1]), rows[2] + calls[2], best[3]


def _by_rows(audited: Audited, n: int, delta: float, level: float) -> Found | None:
    """Test by rows; None if a table of many rows cannot be released, or is not released row by row."""
    tables = range(len(audited.tables))
    choice = _choice_draws(n, len(tables))
    size = (n - 2 * choice * len(tables)) // 2
    try:
        samples = [[audited.rows(which, choice) for which in tables] for _ in range(2)]
    except Exception:
        return None  # single calls show which tables are refused
    event = choose_event(samples[0], samples[1], delta=delta)
    drawn, reach = 2 * choice * len(tables), _reach(size, delta, level)
    if event is None:
        return 0.0, reach, drawn, None
    width = len(samples[0][0])
    likelier = sum(
        0 if o is None else int(event.holds(o).sum())
        for _, o in audited.batches(event.likelier, size, width=width)
    )
    # A batch that fails counts as evidence against rejection, on either side.
    other = sum(
        m if o is None else int(event.holds(o).sum())
        for m, o in audited.batches(event.other, size, width=width)
    )
    bound = epsilon_lower_bound(
        (likelier, other), (size, size), delta=delta, level=level
    )
    return bound, reach, drawn + 2 * size, event


def bound_by_rows(
    fitted: Any,
    tables: Sequence[Any],
    *,
    delta: float,
    confidence: float,
    n_draws: int = _ROWS,
) -> tuple[float, str] | None:
    """Bound the epsilon of `transform` by rows alone, and name the event; None if many equal rows are refused."""
    audited = Audited(fitted.transform, list(tables), each_row=True, fitted=fitted)
    found = _by_rows(audited, n_draws, delta, 1 - confidence)
    if found is None:
        return None
    lower, _, _, event = found
    return lower, "" if event is None else event.name


def _choice_draws(n: int, n_tables: int) -> int:
    """Return the size of each of the two samples of each table that choose the event."""
    share = n / (2 * n_tables)
    return max(1, int(_CHOICE * share), min(_FEW, int(_CHOICE_OF_FEW * share)))


Found = tuple[float, float, int, Event | None]
"""The bound, the largest bound that this number of draws could give, the number of draws, and the event."""

_FIRST, _ROWS_A_FIRST = (
    7,
    40_000,
)  # calls of each table that look for events; one more per 40,000 rows
_AGAIN, _FINALISTS = 25, 2  # more that choose among the best of them
_FEW_CALLS, _FACTOR, _USUAL = (
    100,
    25,
    1_500,
)  # that test: enough for a difference that always shows
_MORE, _ROWS_A_CALL = (600, 1_500), 250
_ROWS_A_RARE, _FEWEST_RARE, _RARE_SIZES = (
    1_600,
    500,
    (8_000, 16_000),
)  # calls that look for what happens rarely
_CAUTION = 0.5  # standard errors, as chance would choose too many events for a test


@dataclass(frozen=True)
class _Candidate:
    event: Event
    likelier: Situation
    other: Situation

    def named(self) -> Event:
        """Name the event by the kind of call, and its tables by their places among the neighbours."""
        name = self.likelier.name + self.event.name
        return replace(
            self.event, name=name, likelier=self.likelier.place, other=self.other.place
        )

    def hits(self, audited: Audited, size: int) -> tuple[int, int]:
        """Count how often the event comes in fresh calls of either table."""
        one, other = (
            int(self.event.holds(audited.call_batch(table, size)).sum())
            for table in (self.likelier, self.other)
        )
        return one, other


def _by_few_calls(
    audited: Audited,
    n_rows: int,
    claimed: float,
    *,
    delta: float,
    level: float,
    only: bool,
) -> Found:
    """Bound epsilon by some hundred calls besides the rows."""
    # An event is tested only if it could refute the claim, with as many calls as that takes. Other calls decide this.
    candidates, drawn = _candidates(
        audited, _FIRST + n_rows // _ROWS_A_FIRST, delta, few=True
    )
    rare, more = _rare_candidates(audited, n_rows // _ROWS_A_RARE, delta)
    drawn += more
    usual = min(_USUAL, _FEW_CALLS + math.ceil(_FACTOR * math.exp(min(claimed, 10.0))))
    if not candidates and not rare:
        return _test(audited, None, usual, drawn, delta, level)
    sizes = sorted(
        {
            usual,
            *(
                size
                for size in (*_MORE, n_rows // _ROWS_A_CALL)
                if usual < size <= 4_000
            ),
        }
    )
    again = _AGAIN + n_rows // _ROWS_A_FIRST
    plans = []
    for candidate in (*candidates[:_FINALISTS], *rare):
        trials = again if candidate not in rare else n_rows // _ROWS_A_RARE
        hits = candidate.hits(audited, trials)
        drawn += 2 * trials
        tried = [*sizes, *_RARE_SIZES] if candidate in rare else sizes
        expected = [_expected(hits, trials, size, delta, level) for size in tried]
        enough = [
            size for size, bound in zip(tried, expected, strict=True) if bound > claimed
        ]
        plans.append((expected[-1], enough[0] if enough else 0, candidate))
    _, size, chosen = max(plans, key=lambda plan: plan[0])
    return _test(
        audited, chosen if size or only else None, size or usual, drawn, delta, level
    )


def _rare_candidates(
    audited: Audited, calls: int, delta: float
) -> tuple[list[_Candidate], int]:
    """Look for an event that happens in one of a hundred calls, if there are enough of them."""
    group = audited.many_rows() if calls >= _FEWEST_RARE else []
    if not group:
        return [], 0
    samples = [
        [audited.call_batch(situation, calls) for situation in group] for _ in range(2)
    ]
    # The form is looked at by itself, too: of many parts that an error leaves out, one looks as good by chance.
    forms = [[{FORM: outputs[FORM]} for outputs in sample] for sample in samples]
    events = [choose_event(*seen, delta=delta, few=True) for seen in (samples, forms)]
    found = [
        _Candidate(event, group[event.likelier], group[event.other])
        for event in events
        if event is not None
    ]
    return found, 2 * calls * len(group)


def _candidates(
    audited: Audited, choice: int, delta: float, few: bool = False
) -> tuple[list[_Candidate], int]:
    """Choose the best event of each group of tables, the best of all first."""
    groups = audited.groups()
    first = [
        [audited.calls(situation, choice) for situation in group] for group in groups
    ]
    _check_errors(first)
    found = []
    for group, calls in zip(groups, first, strict=True):
        scoring = [audited.call_batch(situation, choice) for situation in group]
        event = choose_event(
            [stack_calls(sample) for sample in calls], scoring, delta=delta, few=few
        )
        if event is not None:
            found.append(_Candidate(event, group[event.likelier], group[event.other]))
    found.sort(key=lambda candidate: -candidate.event.score)
    return found, 2 * choice * sum(map(len, groups))


def _check_errors(groups: Sequence[Sequence[Sequence[dict[str, object]]]]) -> None:
    errors = [raised(call) for group in groups for calls in group for call in calls]
    if all(error is not None for error in errors):
        kinds = ", ".join(sorted(set(map(str, errors))))
        raise ValueError(f"every release of the neighbouring tables failed ({kinds})")


def _expected(
    hits: tuple[int, int], trials: int, size: int, delta: float, level: float
) -> float:
    shares = [(count + 0.5) / (trials + 1) for count in hits]
    if hits == (trials, 0):
        shares = [1.0, 0.0]
    elif hits[1] == 0 and trials >= _FEWEST_RARE:
        shares[1] = 0.0  # half a hit is a large share of the few of a rare event
    cautious = max(
        0.0, shares[0] - _CAUTION * math.sqrt(shares[0] * (1 - shares[0]) / trials)
    )
    one, other = round(cautious * size), round(shares[1] * size)
    return epsilon_lower_bound((one, other), (size, size), delta=delta, level=level)


def _test(
    audited: Audited,
    candidate: _Candidate | None,
    size: int,
    drawn: int,
    delta: float,
    level: float,
) -> Found:
    """Count an event in fresh calls; without one, the bound is 0."""
    reach = _reach(size, delta, level)
    if candidate is None:
        return 0.0, reach, drawn, None
    bound = epsilon_lower_bound(
        candidate.hits(audited, size), (size, size), delta=delta, level=level
    )
    return bound, reach, drawn + 2 * size, candidate.named()


def _reach(size: int, delta: float, level: float) -> float:
    """Return the largest bound that `size` draws can give."""
    return epsilon_lower_bound((size, 0), (size, size), delta=delta, level=level)


def clopper_pearson(successes: int, trials: int, level: float) -> tuple[float, float]:
    """Bound a probability from both sides, each bound wrong with probability at most `level`."""
    # .. [1] C. Clopper, E. Pearson (1934). The use of confidence or fiducial limits illustrated in the case of the
    #    binomial. Biometrika 26(4).
    low = (
        0.0
        if successes == 0
        else float(beta.ppf(level, successes, trials - successes + 1))
    )
    high = (
        1.0
        if successes == trials
        else float(beta.isf(level, successes + 1, trials - successes))
    )
    return low, high


def epsilon_lower_bound(
    hits: tuple[int, int], trials: tuple[int, int], *, delta: float, level: float
) -> float:
    """Bound epsilon from below: ``ln((P - delta) / P')``, at the bounds of the two probabilities of an event."""
    low, _ = clopper_pearson(hits[0], trials[0], level / 2)
    _, high = clopper_pearson(hits[1], trials[1], level / 2)
    return math.log((low - delta) / high) if low - delta > high else 0.0
