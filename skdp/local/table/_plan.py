"""The plan of a table: how its columns share epsilon, by exact errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import ceil, inf, prod
from typing import Any

import numpy as np
import pandas as pd

from skdp.local.protocol import Sampling
from skdp.local.table._costs import (
    MOST_REPORT_BYTES,
    Costs,
    Group,
    Report,
    best_inclusions,
)
from skdp.markup import html_facts

# Probabilities are whole multiples of about 2**-24: their error is below any noise.
_UNITS = 1 << 24
# Less epsilon a report than this costs more than more reports are worth: beside one and
# all, no numbers of reports are tried that have less.
_LEAST_SHARE = 1
# What bounds the time of a search: the columns that are grouped, the cells of all of
# them together, and the columns up to which all mergers are compared.
_MOST_COLUMNS_GROUPED = 16
_MOST_CELLS_JOINT = 1 << 16
_MOST_COLUMNS_COMPARED = 6
# Columns times numbers of reports that are tried, so that the time does not grow with
# the square of the columns: all numbers for up to 64 columns.
_MOST_REPORTS_COMPARED = 1 << 12
# A bit for each cell of a merged group fits into a report.
_MOST_CELLS_MERGED = 8 * MOST_REPORT_BYTES


@dataclass(frozen=True, eq=False)
class TablePlan:
    """How the columns of a table share epsilon, computed from what is declared."""

    strategy: str
    """The name of the strategy that was chosen, a row of `strategies`."""
    groups: tuple[Group, ...]
    """The columns of each report: several are one attribute, of all combinations."""
    n_reported: int
    """How many groups a record reports, each with ``epsilon / n_reported``."""
    weights: tuple[int, ...]
    """A record reports a group with this, times `n_reported` / their sum, as chance."""
    rows: tuple[tuple[Any, ...], ...]
    """The rows of `reports`."""
    candidates: tuple[tuple[Any, ...], ...]
    """The rows of `strategies`."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The oracle, or the mechanism of numbers, of each group."""
        return tuple(row[1] for row in self.rows)

    @property
    def reports(self) -> pd.DataFrame:
        """How each group is reported, and the errors of what is estimated from it."""
        return pd.DataFrame(
            self.rows,
            columns=["columns", "report", "cells", "epsilon", "inclusion", "error"],
        )

    @property
    def strategies(self) -> pd.DataFrame:
        """All strategies, the best one first, with their errors and reasons."""
        names = ["strategy", "error", "times", "n_reported", "reason"]
        table = pd.DataFrame(self.candidates, columns=names).set_index("strategy")
        return table.sort_values("error", kind="stable")

    def __repr__(self) -> str:
        groups = ", ".join(" x ".join(map(str, group)) for group in self.groups)
        return f"TablePlan({self.strategy!r}, {self.n_reported} of: {groups})"

    def _repr_html_(self) -> str:
        facts = [
            ("strategy", self.strategy),
            ("reports of a record", f"{self.n_reported} of {len(self.groups)}"),
            ("because", str(self.strategies.loc[self.strategy, "reason"])),
        ]
        note = "Errors of all strategies: .strategies; each report: .reports"
        return html_facts(type(self).__name__, facts, note)


@dataclass(frozen=True, eq=False)
class _Candidate:
    """The best plan of a strategy."""

    strategy: str
    reports: tuple[Report, ...]
    n_reported: int
    inclusions: tuple[float, ...]
    error: float

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(report.group for report in self.reports)


def make_plan(costs: Costs, strategy: str) -> TablePlan:
    """Compare the strategies, and take the best one, or the one that is named."""
    candidates = {}
    for candidate in _candidates(costs):
        if _have_distinct_names(candidate.groups):
            candidates[candidate.strategy] = candidate
    if strategy == "auto":
        best = _least_error(candidates.values())
    elif strategy in candidates:
        best = candidates[strategy]
    else:
        raise ValueError(
            f"strategy={strategy!r} is not possible for these columns and "
            f"purpose={costs.purpose!r}; possible are {list(candidates)}"
        )
    if best.error == inf:
        raise ValueError(
            f"strategy={best.strategy!r} does not give what the purpose "
            f"{costs.purpose!r} asks for"
        )
    weights = _whole_weights(best.inclusions, best.n_reported)
    return TablePlan(
        strategy=best.strategy,
        groups=best.groups,
        n_reported=best.n_reported,
        weights=weights,
        rows=_report_rows(best, weights, costs.epsilon),
        candidates=_strategy_rows(list(candidates.values()), costs.epsilon),
    )


def _least_error(candidates: Iterable[_Candidate]) -> _Candidate:
    return min(candidates, key=lambda candidate: candidate.error)


def _have_distinct_names(groups: Sequence[Group]) -> bool:
    """Return whether reports differ in name, unlike ("a_b", "c") and ("a", "b_c")."""
    names = {"_".join(map(str, group)) for group in groups}
    return len(names) == len(groups)


def _title(group: Group) -> str:
    return " x ".join(map(str, group))


def _report_rows(
    candidate: _Candidate, weights: tuple[int, ...], epsilon: Fraction
) -> tuple[tuple[Any, ...], ...]:
    """Describe each report of a plan."""
    share = float(epsilon / candidate.n_reported)
    # As whole weights have them: they differ a little from those of the candidate.
    inclusions = Sampling(weights, candidate.n_reported).inclusions
    rows = []
    for report, fraction in zip(candidate.reports, inclusions, strict=True):
        inclusion = float(fraction)
        errors = [margin.error(inclusion) for margin in report.margins]
        cells = [margin.cells for margin in report.margins]
        error = float(np.average(errors, weights=cells))
        title = _title(report.group)
        rows.append((title, report.kind, report.cells, share, inclusion, error))
    return tuple(rows)


def _strategy_rows(
    candidates: Sequence[_Candidate], epsilon: Fraction
) -> tuple[tuple[Any, ...], ...]:
    """Compare the candidates with the best one."""
    least = _least_error(candidates).error
    rows = []
    for candidate in candidates:
        times = inf
        if candidate.error == least:
            times = 1.0
        elif least > 0:
            times = candidate.error / least
        reason = _reason(candidate, epsilon)
        row = candidate.strategy, candidate.error, times, candidate.n_reported, reason
        rows.append(row)
    return tuple(rows)


def _reason(candidate: _Candidate, epsilon: Fraction) -> str:
    """Describe in words what decides the error."""
    n_reported = candidate.n_reported
    n = len(candidate.reports)
    share = float(epsilon / n_reported)
    largest = max(report.cells for report in candidate.reports)
    if candidate.error == inf:
        return "no record reports two columns"
    if n == 1:
        return f"one report of {largest:,} cells has all of epsilon"
    if n_reported == n:
        return (
            f"each of {n} reports has epsilon {share:.3g}; the largest has "
            f"{largest:,} cells"
        )
    some = f"a record makes {n_reported} of {n} reports, with epsilon {share:.3g} each"
    if len({*candidate.inclusions}) == 1:
        return f"{some}; all equally often"
    place = int(np.argmax(candidate.inclusions))
    title = _title(candidate.groups[place])
    inclusion = candidate.inclusions[place]
    return f"{some}; most often {title!r}, in {inclusion:.0%} of the records"


def _candidates(costs: Costs) -> Iterator[_Candidate]:
    """Iterate over the best plan of each strategy."""
    names = costs.names
    singles = [(name,) for name in names]
    numbers = [(name,) for name in names if costs.is_number(name)]
    values = tuple(name for name in names if not costs.is_number(name))
    yield _uniform("split", costs, singles, len(singles))
    if len(values) > 1 and prod(costs.sizes.values()) <= _MOST_CELLS_JOINT:
        groups = [values, *numbers]
        yield _uniform("joint", costs, groups, len(groups))
    if len(names) > 1 and costs.purpose != "model":
        yield _uniform("sample", costs, singles, 1)
        yield _best_size("weighted", costs, singles)
    if len(values) > 1 and len(names) <= _MOST_COLUMNS_GROUPED:
        yield _grouped(costs, singles)
    if costs.purpose == "pairs" and 2 < len(values) <= _MOST_COLUMNS_GROUPED:
        largest_pair = sorted(costs.sizes.values())[-2:]
        if prod(largest_pair) <= _MOST_CELLS_MERGED:
            groups = [*combinations(values, 2), *numbers]
            yield _weighted("overlapping", costs, groups, 1)


def _uniform(
    strategy: str, costs: Costs, groups: Sequence[Group], n_reported: int
) -> _Candidate:
    """Return the plan in which all groups are reported equally often."""
    reports = costs.reports(groups, n_reported)
    inclusions = (n_reported / len(groups),) * len(groups)
    error = costs.error(reports, n_reported, inclusions)
    return _Candidate(strategy, reports, n_reported, inclusions, error)


def _weighted(
    strategy: str, costs: Costs, groups: Sequence[Group], n_reported: int
) -> _Candidate:
    """Return the plan with the best probabilities."""
    reports = costs.reports(groups, n_reported)
    group_costs = [report.cost for report in reports]
    if min(group_costs) == 0:  # nothing is asked of a group by itself
        return _uniform(strategy, costs, groups, n_reported)
    inclusions = tuple(best_inclusions(group_costs, n_reported))
    error = costs.error(reports, n_reported, inclusions)
    return _Candidate(strategy, reports, n_reported, inclusions, error)


def _best_size(strategy: str, costs: Costs, groups: Sequence[Group]) -> _Candidate:
    """Return the plan with the best number of reports of a record."""
    n = len(groups)
    sizes = {n}
    if costs.purpose != "model":
        # Two at least are tried: a pair of columns may need two reports.
        most = min(n, max(2, ceil(costs.epsilon / _LEAST_SHARE)))
        # All of them, unless there are many columns and epsilon is large.
        n_tried = max(2, _MOST_REPORTS_COMPARED // n)
        if n_tried >= most:
            sizes.update(range(1, most + 1))
        else:
            spread = np.geomspace(1, most, n_tried).round().astype(int)
            sizes.update(spread.tolist())
    candidates = []
    for n_reported in sorted(sizes):
        # Two groups are reported together with a probability that is known if all are
        # drawn alike: so they are for pairs, unless a record reports one group.
        is_known = costs.purpose != "pairs" or n_reported == 1
        if n_reported < n and is_known:
            candidates.append(_weighted(strategy, costs, groups, n_reported))
        else:
            candidates.append(_uniform(strategy, costs, groups, n_reported))
    return _least_error(candidates)


def _grouped(costs: Costs, singles: Sequence[Group]) -> _Candidate:
    """Merge two groups at a time, with the least error, and take the best plan."""
    candidate = _best_size("groups", costs, singles)
    candidates = [candidate]
    while mergers := list(_mergers(costs, candidate.groups)):
        merged = [_best_size("groups", costs, groups) for groups in mergers]
        candidate = _least_error(merged)
        candidates.append(candidate)
    return _least_error(candidates)


def _mergers(costs: Costs, groups: Sequence[Group]) -> Iterator[list[Group]]:
    """Iterate over the groups with two of them merged."""
    sizes = {}
    for group in groups:
        if not costs.is_number(group[0]):
            sizes[group] = prod(costs.sizes[name] for name in group)
    by_size = sorted(sizes, key=lambda group: sizes[group])
    # Any two of few groups; of many, the smallest one with each other.
    firsts = by_size
    if len(by_size) > _MOST_COLUMNS_COMPARED:
        firsts = by_size[:1]
    order = list(costs.sizes)
    for place, first in enumerate(firsts):
        for second in by_size[place + 1 :]:
            if sizes[first] * sizes[second] <= _MOST_CELLS_MERGED:
                merged = sorted(first + second, key=order.index)
                unmerged = [group for group in groups if group not in (first, second)]
                yield [tuple(merged), *unmerged]


def _whole_weights(inclusions: Sequence[float], n_reported: int) -> tuple[int, ...]:
    """Return whole weights, none above their sum over `n_reported`."""
    if len({*inclusions}) == 1:
        return (1,) * len(inclusions)
    weights = [max(1, round(_UNITS * share / n_reported)) for share in inclusions]
    while max(weights) * n_reported > sum(weights):
        most = sum(weights) // n_reported
        lowered = [min(weight, most) for weight in weights]
        if lowered == weights:
            break
        weights = lowered
    return tuple(weights)
