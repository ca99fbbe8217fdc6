"""The test: an event that some draws chose is counted in others."""

from __future__ import annotations

from skdp.evaluation._audit_bounds import epsilon_lower_bound
from skdp.evaluation._audit_calls import Found, by_few_calls, by_many_calls, reach_of
from skdp.evaluation._audit_events import choose_event
from skdp.evaluation._audit_release import Audited

_ROWS, _CALLS = 1_000_000, 10_000
_CHOICE, _FEW, _CHOICE_OF_FEW = 0.1, 5_000, 0.3  # spent on the choice of the event; more where draws are few


def search(audited: Audited, n_draws: int | None, claimed: float, *, delta: float, level: float) -> Found:
    """Bound epsilon from below by the best event of single calls and, where rows are draws, of rows."""
    if not audited.each_row:
        total = n_draws or _CALLS
        tables = sum(map(len, audited.groups()))
        choice = _choice_draws(total, tables)
        return by_many_calls(audited, choice, (total - 2 * choice * tables) // 2, delta=delta, level=level)
    draws = n_draws or _ROWS
    rows = _by_rows(audited, draws, delta, level / 2)
    if rows is not None and rows[0] > claimed:
        return rows
    calls = by_few_calls(audited, draws, claimed, delta=delta, level=level / 2, only=rows is None)
    best = calls if rows is None else max(rows, calls, key=lambda found: found[0])
    reach = max(found[1] for found in (rows, calls) if found is not None)
    return best[0], reach, calls[2] + (0 if rows is None else rows[2]), best[3]


def _by_rows(audited: Audited, n: int, delta: float, level: float) -> Found | None:
    """Test by rows; None if a table of many rows cannot be released, or is not released row by row."""
    tables = range(len(audited.tables))
    choice = _choice_draws(n, len(tables))
    size = (n - 2 * choice * len(tables)) // 2
    try:
        samples = [[audited.rows(which, choice) for which in tables] for _ in range(2)]
    except Exception:
        return None  # a table that is refused shows in single calls
    event = choose_event(samples[0], samples[1], delta=delta)
    drawn, reach = 2 * choice * len(tables), reach_of(size, delta, level)
    if event is None:
        return 0.0, reach, drawn, None
    width = len(samples[0][0])
    likelier = sum(
        0 if o is None else int(event.holds(o).sum()) for _, o in audited.batches(event.likelier, size, width=width)
    )
    # A batch that fails speaks for the promise, on either side.
    other = sum(
        m if o is None else int(event.holds(o).sum()) for m, o in audited.batches(event.other, size, width=width)
    )
    bound = epsilon_lower_bound((likelier, other), (size, size), delta=delta, level=level)
    return bound, reach, drawn + 2 * size, event


def _choice_draws(n: int, n_tables: int) -> int:
    """Return the size of each of the two samples of each table that choose the event."""
    share = n / (2 * n_tables)
    return max(1, int(_CHOICE * share), min(_FEW, int(_CHOICE_OF_FEW * share)))
