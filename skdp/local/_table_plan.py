"""Plan of the reports of a table from its declared values: groups of columns, their epsilons, and sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from skdp.base import check_choice, parse_bounds
from skdp.domain import Domain
from skdp.local._numeric import make_mechanism
from skdp.local.protocol import Sampling, check_column_weights, compute_marginal_error
from skdp.oracles import ORACLES, choose_oracle
from skdp.privacy import check_epsilon

Purpose: TypeAlias = Literal["margins", "pairs"]
ColumnWeights: TypeAlias = Literal["uniform"] | Mapping[Any, float]

Group: TypeAlias = tuple[Any, ...]
"""The columns of one report."""

# A table of all pairs has many groups, so their reports have at most two columns.
PAIR_ORACLES = "randomized_response", "local_hashing"

# Oracles whose marginals of joint reports have errors in closed form.
MARGIN_ORACLES = (
    "randomized_response",
    "subset_selection",
    "optimized_unary_encoding",
    "symmetric_unary_encoding",
)


@dataclass(frozen=True)
class GroupReport:
    """The report of a group of categorical columns, or of a numeric column."""

    group: Group
    # Name of an oracle, or of a mechanism for numbers.
    kind: str
    cells: int
    # Weight of the error of the group.
    weight: float
    # n times the mean variance of a frequency, or of a mean in squared ranges.
    noise: float
    # Variance of the true values, which sampling adds; of uniform data.
    spread: float

    def error(self, inclusion: float) -> float:
        """Return n times the mean squared error if a proportion of records report it."""
        return self.noise / inclusion + (1 / inclusion - 1) * self.spread


@dataclass(frozen=True, eq=False)
class TablePlan:
    """Groups of columns, of which a record reports one or all."""

    reported: tuple[GroupReport, ...]
    # Each of these reports has epsilon / n_reported.
    n_reported: int
    # A record that makes one report draws its group with these weights.
    weights: tuple[int, ...]
    epsilon: Fraction

    @property
    def groups(self) -> tuple[Group, ...]:
        """The columns of each report: several are one attribute of all combinations."""
        return tuple(report.group for report in self.reported)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The name of the oracle or numeric mechanism of each group."""
        return tuple(report.kind for report in self.reported)

    @property
    def error(self) -> float:
        """The weighted mean of the errors of the groups."""
        errors = self.reports["error"]
        return float(np.average(errors, weights=[r.weight for r in self.reported]))

    @property
    def reports(self) -> pd.DataFrame:
        """A row for each group: its report, and n times the mean squared error of a cell."""
        rows = []
        inclusions = [Fraction(1)] * len(self.reported)
        if self.n_reported < len(self.reported):
            inclusions = Sampling(self.weights).inclusions
        for report, inclusion in zip(
            self.reported, map(float, inclusions), strict=True
        ):
            title = " x ".join(map(str, report.group))
            epsilon = float(self.epsilon / self.n_reported)
            error = report.error(inclusion)
            rows.append((title, report.kind, report.cells, epsilon, inclusion, error))
        names = ["columns", "report", "cells", "epsilon", "inclusion", "error"]
        return pd.DataFrame(rows, columns=names)

    def __repr__(self) -> str:
        groups = ", ".join(self.reports["columns"])
        return f"TablePlan({self.n_reported} of {len(self.reported)}: {groups})"


# Groups with equally many cells have equal errors, as have all numbers.


@lru_cache(1024)
def choose_group_oracle(cells: int, epsilon: Fraction, names: Sequence[str]) -> Any:
    """Return the name of the best of some oracles, and the oracle."""
    return choose_oracle(cells, epsilon, names=names)


@lru_cache(1024)
def find_number_error(epsilon: Fraction) -> tuple[float, float]:
    """Return the noise of a mean in squared ranges, and the variance of uniform numbers."""
    mechanism = make_mechanism("optimal", epsilon)
    steps = mechanism.steps
    noise = mechanism.variances(np.arange(steps + 1)).mean() / steps**2
    return float(noise), (1 + 2 / steps) / 12


@dataclass(frozen=True)
class Planner:
    """The declared facts of a table, and the plan with the smallest error."""

    epsilon: Fraction
    # Number of values of each column of categories; other columns are numbers.
    sizes: Mapping[Any, int]
    importance: Mapping[Any, float]
    purpose: Purpose

    def find_best(self) -> TablePlan:
        """Return the plan with the smallest error: weighted columns, groups of columns, or one pair per record."""
        numbers = [(name,) for name in self.importance if name not in self.sizes]
        if self.purpose == "pairs":
            return self.weigh([*combinations(self.sizes, 2), *numbers], 1)
        groups: list[Group] = [(name,) for name in self.importance]
        plans = [self.weigh(groups, 1), self.weigh(groups, len(groups))]
        # With a large epsilon, one joint report of several columns is better than a
        # report of one sampled column.
        groups = [(name,) for name in self.sizes]
        for _ in groups[1:]:
            groups.sort(key=self.count_cells)
            merged = tuple(sorted(groups[0] + groups[1], key=[*self.sizes].index))
            # A report of at most 1024 bytes, with a bit for each cell.
            if self.count_cells(merged) > 8 * 1024:
                break
            groups = [merged, *groups[2:]]
            plans.append(self.weigh([*groups, *numbers], 1))
        return min(plans, key=lambda plan: plan.error)

    def count_cells(self, group: Group) -> int:
        """Return the number of combinations; a number is rounded to one of two positions."""
        return prod(self.sizes.get(name, 2) for name in group)

    def weigh(self, groups: Sequence[Group], n_reported: int) -> TablePlan:
        """Return the plan with the best probabilities of the groups."""
        epsilon = self.epsilon / n_reported
        reported = tuple(self.describe(group, epsilon) for group in groups)
        return TablePlan(reported, n_reported, find_weights(reported), self.epsilon)

    def describe(self, group: Group, epsilon: Fraction) -> GroupReport:
        """Return the report of a group, and its error for the purpose."""
        cells = self.count_cells(group)
        weight = prod(self.importance[name] for name in group) * cells
        if group[0] not in self.sizes:
            noise, spread = find_number_error(epsilon)
            return GroupReport(group, "optimal", cells, weight, noise, spread)
        is_merged = self.purpose == "margins" and len(group) > 1
        kinds: tuple[str, ...] = MARGIN_ORACLES if is_merged else tuple(ORACLES)
        if self.purpose == "pairs":
            kinds = PAIR_ORACLES
        kind, oracle = choose_group_oracle(cells, epsilon, kinds)
        if not is_merged:
            noise = oracle.mean_squared_error
            return GroupReport(
                group, kind, cells, weight, noise, uniform_variance(cells)
            )
        # The marginals of the columns.
        weights, noises, spreads = [], [], []
        for name in group:
            k = self.sizes[name]
            weights.append(self.importance[name] * k)
            noises.append(compute_marginal_error(oracle, k))
            spreads.append(uniform_variance(k))
        noise, spread = np.average([noises, spreads], axis=1, weights=weights).tolist()
        return GroupReport(group, kind, cells, sum(weights), noise, spread)


def uniform_variance(k: int) -> float:
    """Return the variance of the indicator of one of k values that are equally frequent."""
    return (1 - 1 / k) / k


def find_weights(reported: Sequence[GroupReport]) -> tuple[int, ...]:
    """Return probabilities of one report with the smallest error, as integers."""
    # The error is a sum of costs / probabilities, so the best probabilities are
    # proportional to the roots of the costs.
    costs = [report.weight * (report.noise + report.spread) for report in reported]
    if len({*costs}) == 1:
        return (1,) * len(costs)
    roots = np.sqrt(costs)
    # In units of 2**-24, whose rounding is far below any noise.
    units = np.ceil(roots / roots.sum() * (1 << 24))
    return tuple(map(int, units.tolist()))


def recommend_plan(
    domain: Domain | Mapping[Any, Any] | None,
    epsilon: float,
    *,
    bounds: Mapping[Any, tuple[float, float]] | None = None,
    purpose: Purpose = "margins",
    weights: ColumnWeights = "uniform",
) -> TablePlan:
    """Plan how epsilon is divided among the columns of a table.

    Parameters
    ----------
    domain : Domain, dict or None
        Columns of categories and their values; None for a table of numbers.

    epsilon : float
        Privacy loss of one record over all columns together, > 0.

    bounds, purpose, weights : optional
        As for `LocalTableEncoder`.

    Returns
    -------
    TablePlan
        Result with the attributes:

        - `groups`: columns of each report;
        - `n_reported`: number of reports of a record, one or all;
        - `error`: n times the mean squared error, a weighted mean over the groups;
        - `reports`: DataFrame of the oracle or mechanism, the number of cells, epsilon,
          the probability that a record makes the report, and the error of each group.

    See Also
    --------
    LocalTableEncoder : Reports by such a plan.

    Notes
    -----
    **Privacy.** The plan uses the declared values only.

    Examples
    --------
    >>> from skdp import recommend_plan
    >>> plan = recommend_plan({"sex": ["f", "m"], "town": range(40)}, 1.0)
    >>> plan.reports[["columns", "report", "inclusion"]].round(2)
      columns               report  inclusion
    0     sex  randomized_response       0.11
    1    town     subset_selection       0.89
    """
    if isinstance(domain, Mapping):
        domain = Domain(domain)
    if domain is not None and not isinstance(domain, Domain):
        raise TypeError(
            f"domain must be a Domain or a dict, got {type(domain).__name__}. Use "
            "Domain.from_frame for a table."
        )
    sizes = count_values(domain)
    names = [*sizes, *check_bounds(bounds)]
    return plan_table(
        check_epsilon(epsilon),
        sizes,
        names,
        purpose=purpose,
        weights=weights,
    )


def count_values(domain: Domain | None) -> dict[Any, int]:
    """Return the number of values of each column; none for a table of numbers."""
    if domain is None:
        return {}
    return dict(zip(domain.columns, domain.sizes, strict=True))


def plan_table(
    epsilon: Fraction,
    sizes: Mapping[Any, int],
    names: Sequence[Any],
    *,
    purpose: Any,
    weights: Any,
) -> TablePlan:
    """Check the parameters, and make the plan."""
    check_choice("purpose", purpose, get_args(Purpose))
    if len({*names}) < len(names) or not names:
        raise ValueError(
            "Each column must be declared once, by its values or its bounds, got "
            f"{list(names)}."
        )
    if purpose == "pairs" and len(sizes) < 2:
        raise ValueError(
            "purpose='pairs' requires at least 2 columns of categories, got "
            f"{len(sizes)}. Use purpose='margins'."
        )
    importance = check_importance(weights, names)
    return Planner(epsilon, sizes, importance, purpose).find_best()


def check_importance(weights: Any, names: Sequence[Any]) -> dict[Any, float]:
    """Read the weights of columns."""
    if isinstance(weights, str) and weights == "uniform":
        return dict.fromkeys(names, 1.0)
    amounts = check_column_weights("weights", weights, names, "'uniform'")
    return dict(zip(names, map(float, amounts), strict=True))


def check_bounds(bounds: Any) -> dict[Any, Any]:
    """Check bounds by name; None is no bounds."""
    if bounds is not None and not isinstance(bounds, Mapping):
        raise TypeError(
            "bounds must be a mapping of column name to (low, high), got "
            f"{type(bounds).__name__}."
        )
    if bounds:
        parse_bounds(dict(bounds), tuple(bounds))
    return dict(bounds or {})
