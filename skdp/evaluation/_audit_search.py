"""The test: an event that some draws chose is counted in others."""

from __future__ import annotations

import math

from skdp.evaluation._audit_bounds import epsilon_lower_bound
from skdp.evaluation._audit_events import Event, choose_event
from skdp.evaluation._audit_outputs import raised, stack_calls
from skdp.evaluation._audit_release import Audited

_ROWS, _CALLS = 1_000_000, 10_000
_CHOICE, _FEW, _CHOICE_OF_FEW = 0.1, 5_000, 0.3  # spent on the choice of the event; more where draws are few
_FORM_CALLS, _FACTOR, _MOST_FORM_CALLS = 100, 25, 1_500  # single calls of either table beside the rows
_CHOICE_CALLS = 15


def search(
    audited: Audited, n_draws: int | None, claimed: float, *, delta: float, level: float
) -> tuple[float, float, int, Event | None]:
    """Bound epsilon from below by the best event of single calls and, where rows are draws, of rows.

    Parameters
    ----------
    audited : Audited
        What is audited.
    n_draws : int or None
        Rows, or calls where there are no rows; None for as many as usual.
    claimed : float
        The epsilon that is claimed.
    delta : float
        The failure probability that is claimed.
    level : float
        The probability that the bound is wrong.

    Returns
    -------
    tuple
        The bound, the largest one that so many draws could give, the number of draws, and the event.
    """
    if not audited.each_row:
        total = n_draws or _CALLS
        choice = _choice_draws(total, len(audited.tables))
        size = (total - 2 * choice * len(audited.tables)) // 2
        return _by_calls(audited, choice, size, delta, level)
    # Enough for a difference that always shows to refute the claim, if it is not above 3.
    size = min(_MOST_FORM_CALLS, _FORM_CALLS + math.ceil(_FACTOR * math.exp(min(claimed, 10.0))))
    calls = _by_calls(audited, _CHOICE_CALLS, size, delta, level / 2)
    rows = _by_rows(audited, n_draws or _ROWS, delta, level / 2)
    best = calls if rows is None else max(rows, calls, key=lambda found: found[0])
    reach = max(found[1] for found in (rows, calls) if found is not None)
    return best[0], reach, calls[2] + (0 if rows is None else rows[2]), best[3]


def _by_calls(
    audited: Audited, choice: int, size: int, delta: float, level: float
) -> tuple[float, float, int, Event | None]:
    tables = range(len(audited.tables))
    first = [audited.calls(which, choice) for which in tables]
    errors = [[raised(call) for call in calls] for calls in first]
    if all(error is not None for table in errors for error in table):
        kinds = ", ".join(sorted({str(error) for table in errors for error in table}))
        raise ValueError(f"every release of the neighbouring tables failed ({kinds})")
    event = choose_event(
        [stack_calls(calls) for calls in first], [audited.call_batch(which, choice) for which in tables], delta=delta
    )
    drawn, reach = 2 * choice * len(tables), _reach(size, delta, level)
    if event is None:
        return 0.0, reach, drawn, None
    hits = [int(event.holds(audited.call_batch(which, size)).sum()) for which in (event.likelier, event.other)]
    bound = epsilon_lower_bound((hits[0], hits[1]), (size, size), delta=delta, level=level)
    return bound, reach, drawn + 2 * size, event


def _by_rows(audited: Audited, n: int, delta: float, level: float) -> tuple[float, float, int, Event | None] | None:
    """Test by rows; None if a table of many rows cannot be released, or is not released row by row."""
    tables = range(len(audited.tables))
    choice = _choice_draws(n, len(tables))
    size = (n - 2 * choice * len(tables)) // 2
    try:
        samples = [[audited.rows(which, choice) for which in tables] for _ in range(2)]
    except Exception:
        return None  # a table that is refused shows in single calls
    event = choose_event(samples[0], samples[1], delta=delta)
    drawn, reach = 2 * choice * len(tables), _reach(size, delta, level)
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


def _reach(size: int, delta: float, level: float) -> float:
    return epsilon_lower_bound((size, 0), (size, size), delta=delta, level=level)
