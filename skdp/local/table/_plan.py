"""The plan of a table: candidates for how its columns share epsilon, compared by their exact errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import ceil, inf, prod
from typing import Any

import numpy as np
import pandas as pd

from skdp.local.protocol import Sampling
from skdp.local.table._costs import Costs, Group, best_inclusions
from skdp.markup import html_facts

_UNITS = 1 << 24
_LEAST_SHARE = 1
"""The least epsilon of a report that is tried with several reports a record, beside one and all."""
_MOST_SIZES, _MOST_GROUPED, _MOST_MERGED, _MOST_CELLS = 12, 16, 1 << 13, 1 << 16
"""Numbers of reports, columns that are grouped, cells of a group, and cells of all columns together."""
_FEW = 64
"""Columns up to which several numbers of reports are tried, beside one and all."""


@dataclass(frozen=True, eq=False)
class TablePlan:
    """How the columns of a table share the epsilon of a record, computed from what is declared."""

    strategy: str
    """The name of the strategy that was chosen, a row of `strategies`."""
    groups: tuple[Group, ...]
    """The columns of each report: several columns are one attribute, with a value for each combination of theirs."""
    n_reported: int
    """How many groups a record reports, each with ``epsilon / n_reported``."""
    weights: tuple[int, ...]
    """The probability that a record reports a group is this weight times `n_reported` over their sum."""
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
        """How each group is reported, and the errors of the estimates from these reports."""
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
        ]
        facts += [("because", str(self.strategies.loc[self.strategy, "reason"]))]
        return html_facts(
            type(self).__name__,
            facts,
            "Errors of all strategies: .strategies; each report: .reports",
        )


@dataclass(frozen=True)
class _Candidate:
    strategy: str
    groups: tuple[Group, ...]
    size: int
    inclusions: tuple[float, ...]
    error: float


def make_plan(costs: Costs, names: Sequence[Any], only: str) -> TablePlan:
    """Compare the strategies for the columns, and choose the best one, or the one that is named."""
    found = {
        one.strategy: one
        for one in _candidates(costs, names)
        if _are_told_apart(one.groups)
    }
    if only != "auto" and only not in found:
        these = f"these columns and purpose={costs.purpose!r}"
        raise ValueError(
            f"strategy={only!r} is not possible for {these}; possible are {list(found)}"
        )
    best = (
        min(found.values(), key=lambda one: one.error)
        if only == "auto"
        else found[only]
    )
    if best.error == inf:
        raise ValueError(
            f"strategy={best.strategy!r} does not give what the purpose "
            f"{costs.purpose!r} asks for"
        )
    weights = _whole(best.inclusions, best.size)
    shares = Sampling(weights, best.size).inclusions
    rows, used = [], costs.of(best.groups)
    for group, share in zip(best.groups, map(float, shares), strict=True):
        report = used.report(group, best.size)
        error = np.average(
            [one.error(share) for one in report.margins],
            weights=[one.cells for one in report.margins],
        )
        epsilon = float(costs.epsilon / best.size)
        rows.append(
            (
                " x ".join(map(str, group)),
                report.kind,
                report.cells,
                epsilon,
                share,
                float(error),
            )
        )
    least = min(one.error for one in found.values())
    compared = [
        (
            one.strategy,
            one.error,
            1.0 if one.error == least else one.error / least if least else inf,
            one.size,
            reason,
        )
        for one, reason in ((one, _reason(one, costs)) for one in found.values())
    ]
    return TablePlan(
        best.strategy, best.groups, best.size, weights, tuple(rows), tuple(compared)
    )


def _are_told_apart(groups: Sequence[Group]) -> bool:
    """Return whether the reports have names of their own, as those of ("a_b", "c") and ("a", "b_c") have not."""
    return len({"_".join(map(str, group)) for group in groups}) == len(groups)


def _reason(one: _Candidate, costs: Costs) -> str:
    """Describe in words what decides the error."""
    share, n = float(costs.epsilon / one.size), len(one.groups)
    largest = max(costs.report(group, one.size).cells for group in one.groups)
    if one.error == inf:
        return "no record reports two columns"
    if one.size == n == 1:
        return f"one report of {largest:,} cells has all of epsilon"
    if one.size == n:
        return f"each of {n} reports has epsilon {share:.3g}; the largest has {largest:,} cells"
    if len({*one.inclusions}) == 1:
        return f"a record makes {one.size} of {n} reports, with epsilon {share:.3g} each; all equally often"
    often = int(np.argmax(one.inclusions))
    name = " x ".join(map(str, one.groups[often]))
    return (
        f"a record makes {one.size} of {n} reports, with epsilon {share:.3g} each; "
        f"most often {name!r}, in " + (f"{one.inclusions[often]:.0%} of the records")
    )


def _candidates(costs: Costs, names: Sequence[Any]) -> Iterator[_Candidate]:
    """Iterate over the best plan of each strategy."""
    singles = tuple((name,) for name in names)
    yield _candidate("split", costs, singles, len(singles), False)
    values = tuple(name for name in names if name not in costs.numbers)
    if len(values) > 1 and prod(costs.sizes.values()) <= _MOST_CELLS:
        groups = (values, *((name,) for name in names if name in costs.numbers))
        yield _candidate("joint", costs, groups, len(groups), False)
    if len(singles) > 1 and costs.purpose != "model":
        yield _candidate("sample", costs, singles, 1, False)
        yield _best_of("weighted", costs, singles)
    if len(values) > 1 and len(names) <= _MOST_GROUPED:
        yield _grouped(costs, singles)
    if costs.purpose == "pairs" and 2 < len(values) <= _MOST_GROUPED:
        largest = sorted(costs.sizes.values())[-2:]
        if prod(largest) <= _MOST_MERGED:
            groups = (
                *combinations(values, 2),
                *((name,) for name in names if name in costs.numbers),
            )
            yield _candidate("overlapping", costs.of(groups), groups, 1, True)


def _candidate(
    strategy: str, costs: Costs, groups: tuple[Group, ...], size: int, weighted: bool
) -> _Candidate:
    inclusions = [size / len(groups)] * len(groups)
    if (
        weighted and min(parts := [costs.cost(group, size) for group in groups]) > 0
    ):  # 0: nothing is asked of a group
        inclusions = best_inclusions(parts, size)
    return _Candidate(
        strategy, groups, size, tuple(inclusions), costs.error(groups, size, inclusions)
    )


def _best_of(strategy: str, costs: Costs, groups: tuple[Group, ...]) -> _Candidate:
    """Return the plan with the best number of reports, and the best weights where the error is known for any."""
    n = len(groups)
    sizes = [n] if costs.purpose == "model" else _sizes(n, costs.epsilon)
    # Of pairs, the probability that two groups are drawn is known if all are drawn alike.
    free = [size < n and (costs.purpose != "pairs" or size == 1) for size in sizes]
    tried = [
        _candidate(strategy, costs, groups, *own)
        for own in zip(sizes, free, strict=True)
    ]
    return min(tried, key=lambda one: one.error)


def _sizes(n: int, epsilon: Fraction) -> list[int]:
    """Return the numbers of reports to try."""
    most = min(n, max(2, ceil(epsilon / _LEAST_SHARE)))
    tried = np.geomspace(1, most, _MOST_SIZES if n <= _FEW else 1)
    return sorted({1, n, *tried.round().astype(int).tolist()})


def _grouped(costs: Costs, singles: tuple[Group, ...]) -> _Candidate:
    """Merge two groups at a time, those whose merger has the least error, and return the best plan on the way."""
    last = best = _best_of("groups", costs, singles)
    while merges := [*_merges(costs, last.groups)]:
        last = min(
            (_best_of("groups", costs, groups) for groups in merges),
            key=lambda one: one.error,
        )
        best = min(best, last, key=lambda one: one.error)
    return best


def _merges(costs: Costs, groups: tuple[Group, ...]) -> Iterator[tuple[Group, ...]]:
    """Iterate over the groups with two of them merged: any, or of many the smallest one with each other."""
    sizes = [
        prod(costs.sizes[name] for name in group)
        if group[0] not in costs.numbers
        else 0
        for group in groups
    ]
    order = [
        place for place in np.argsort(sizes, kind="stable").tolist() if sizes[place]
    ]
    firsts = order if len(order) <= 6 else order[:1]
    for place, one in enumerate(firsts):
        for two in order[place + 1 :]:
            if sizes[one] * sizes[two] <= _MOST_MERGED:
                rest = (
                    group
                    for other, group in enumerate(groups)
                    if other not in (one, two)
                )
                merged = sorted(groups[one] + groups[two], key=list(costs.sizes).index)
                yield (tuple(merged), *rest)


def _whole(inclusions: Sequence[float], size: int) -> tuple[int, ...]:
    """Return probabilities as whole weights, none of which is more than the sum over `size`."""
    if len({*inclusions}) == 1:
        return (1,) * len(inclusions)
    weights = [max(1, round(_UNITS * share / size)) for share in inclusions]
    while max(weights) * size > sum(weights):
        most = sum(weights) // size
        if (lowered := [min(weight, most) for weight in weights]) == weights:
            break
        weights = lowered
    return tuple(weights)
