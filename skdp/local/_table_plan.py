"""Planning of the reports of a table: groups of columns, their oracles, and sampling."""

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

from skdp.base import check_choice, find_bounds, parse_bounds
from skdp.domain import Domain
from skdp.local._numeric import make_mechanism
from skdp.local.protocol._estimation import compute_marginal_error
from skdp.local.protocol._sampling import Sampling, check_column_weights
from skdp.oracles import ORACLES, choose_oracle

Workload: TypeAlias = Literal["columns", "pairs"]
ColumnWeights: TypeAlias = Literal["uniform"] | Mapping[Any, float]

# The columns that are reported together.
Group: TypeAlias = tuple[Any, ...]

# All pairs of columns are many groups. The reports of these oracles have at most two
# output columns for each group.
PAIR_ORACLES = "randomized_response", "local_hashing"

# Oracles for joint reports whose marginals have errors in closed form.
MARGIN_ORACLES = (
    "randomized_response",
    "subset_selection",
    "optimized_unary_encoding",
    "symmetric_unary_encoding",
)


@dataclass(frozen=True)
class GroupReport:
    """Report of a group of categorical columns, or of a numeric column, with its errors.

    Errors are n times the mean variance of a frequency, or of a mean divided by the range
    of the column.
    """

    group: Group
    # Name of an oracle, or of a mechanism for numbers.
    mechanism: str
    # Number of combinations of values.
    n_cells: int
    # Weight of the error of the group.
    weight: float
    # Error of the noise if all records report the group.
    noise_variance: float
    # Variance of the true values, assumed to be uniform.
    value_variance: float

    def compute_error(self, inclusion: float) -> float:
        """Compute the error if each record reports the group with probability `inclusion`."""
        # A random sample of n * inclusion records, without replacement.
        sampling_variance = (1 / inclusion - 1) * self.value_variance
        return self.noise_variance / inclusion + sampling_variance


@dataclass(frozen=True, eq=False)
class TablePlan:
    """Plan of the reports of a table: a record reports one of several groups, or all groups."""

    reported: tuple[GroupReport, ...]
    # Number of groups that a record reports, each with epsilon / n_reported.
    n_reported: int
    # If it is one group, it is drawn in proportion to these weights.
    weights: tuple[int, ...]
    epsilon: Fraction

    @property
    def groups(self) -> tuple[Group, ...]:
        """Columns of each report. Several columns are reported as one combination."""
        return tuple(report.group for report in self.reported)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Name of the oracle or numeric mechanism of each group."""
        return tuple(report.mechanism for report in self.reported)

    @property
    def error(self) -> float:
        """Weighted mean of the errors of the groups."""
        weights = [report.weight for report in self.reported]
        return float(np.average(self.reports["error"], weights=weights))

    @property
    def reports(self) -> pd.DataFrame:
        """Report of each group, with its epsilon, the probability that a record reports it, and its error.

        The error is n times the mean squared error of the frequency of a cell, or of a
        mean divided by the range.
        """
        rows = []
        inclusions = [Fraction(1)] * len(self.reported)
        if self.n_reported < len(self.reported):
            inclusions = Sampling(self.weights).inclusions
        for report, inclusion in zip(
            self.reported, map(float, inclusions), strict=True
        ):
            title = " x ".join(map(str, report.group))
            epsilon = float(self.epsilon / self.n_reported)
            error = report.compute_error(inclusion)
            row = title, report.mechanism, report.n_cells, epsilon, inclusion, error
            rows.append(row)
        names = ["columns", "report", "cells", "epsilon", "inclusion", "error"]
        return pd.DataFrame(rows, columns=names)

    def __repr__(self) -> str:
        groups = ", ".join(self.reports["columns"])
        return f"TablePlan({self.n_reported} of {len(self.reported)}: {groups})"


# Oracles and errors depend on the number of cells only, so they are cached for all groups.


@lru_cache(1024)
def choose_group_oracle(n_cells: int, epsilon: Fraction, names: Sequence[str]) -> Any:
    """Return the name of the oracle with the smallest error among `names`, and the oracle."""
    return choose_oracle(n_cells, epsilon, names=names)


@lru_cache(1024)
def compute_number_variances(epsilon: Fraction) -> tuple[float, float]:
    """Compute the variances of the noise and of uniform true numbers, divided by the squared range."""
    mechanism = make_mechanism("optimal", epsilon)
    steps = mechanism.steps
    noise = mechanism.variances(np.arange(steps + 1)).mean() / steps**2
    # The integers 0, ..., s have the variance ((s + 1)^2 - 1) / 12 = s^2 (1 + 2 / s) / 12.
    return float(noise), (1 + 2 / steps) / 12


@dataclass(frozen=True)
class Planner:
    """Search of the plan with the smallest error, from the declared values of a table."""

    epsilon: Fraction
    # Number of values of each categorical column. All other columns are numbers.
    sizes: Mapping[Any, int]
    # Weight of the error of each column.
    column_weights: Mapping[Any, float]
    workload: Workload

    def find_best(self) -> TablePlan:
        """Return the plan with the smallest error among several plans for the workload.

        A plan divides the columns into groups, and a record reports one group or all
        groups.
        """
        numbers = [(name,) for name in self.column_weights if name not in self.sizes]
        if self.workload == "pairs":
            return self.make_plan([*combinations(self.sizes, 2), *numbers], 1)
        # A record reports one column, or all columns.
        groups: list[Group] = [(name,) for name in self.column_weights]
        plans = [self.make_plan(groups, 1), self.make_plan(groups, len(groups))]
        # Or it reports one of several groups of columns, which is better for a large
        # epsilon. The two groups with the fewest cells are merged repeatedly.
        groups = [(name,) for name in self.sizes]
        for _ in groups[1:]:
            groups.sort(key=self.count_cells)
            merged = tuple(sorted(groups[0] + groups[1], key=[*self.sizes].index))
            # Reports have at most a bit for each cell, and 1024 bytes.
            if self.count_cells(merged) > 8 * 1024:
                break
            groups = [merged, *groups[2:]]
            plans.append(self.make_plan([*groups, *numbers], 1))
        return min(plans, key=lambda plan: plan.error)

    def count_cells(self, group: Group) -> int:
        """Count the combinations of values of a group. A number counts as two values."""
        return prod(self.sizes.get(name, 2) for name in group)

    def make_plan(self, groups: Sequence[Group], n_reported: int) -> TablePlan:
        """Make a plan in which a record reports `n_reported` of the groups of columns: one or all."""
        epsilon = self.epsilon / n_reported
        reported = tuple(self.plan_report(group, epsilon) for group in groups)
        weights = compute_sampling_weights(reported)
        return TablePlan(reported, n_reported, weights, self.epsilon)

    def plan_report(self, group: Group, epsilon: Fraction) -> GroupReport:
        """Choose the oracle or numeric mechanism of a group of columns, and compute its errors for the workload.

        With workload="columns", the error of several columns is the mean over the single
        columns; with "pairs", it is for their combinations.
        """
        n_cells = self.count_cells(group)
        weight = prod(self.column_weights[name] for name in group) * n_cells
        if group[0] not in self.sizes:
            noise, variance = compute_number_variances(epsilon)
            return GroupReport(group, "optimal", n_cells, weight, noise, variance)
        is_merged = self.workload == "columns" and len(group) > 1
        names: tuple[str, ...] = MARGIN_ORACLES if is_merged else tuple(ORACLES)
        if self.workload == "pairs":
            names = PAIR_ORACLES
        name, oracle = choose_group_oracle(n_cells, epsilon, names)
        if not is_merged:
            noise, variance = oracle.mean_squared_error, uniform_variance(n_cells)
            return GroupReport(group, name, n_cells, weight, noise, variance)
        # The weighted mean of the errors of the marginals of each column.
        weights, noises, variances = [], [], []
        for column in group:
            k = self.sizes[column]
            weights.append(self.column_weights[column] * k)
            noises.append(compute_marginal_error(oracle, k))
            variances.append(uniform_variance(k))
        means = np.average([noises, variances], axis=1, weights=weights)
        noise, variance = means.tolist()
        return GroupReport(group, name, n_cells, sum(weights), noise, variance)


def uniform_variance(k: int) -> float:
    """Return the variance of the indicator of one of k equally frequent values."""
    return (1 - 1 / k) / k


def compute_sampling_weights(reported: Sequence[GroupReport]) -> tuple[int, ...]:
    """Compute integer weights with which one group is drawn for each record, for the smallest total error."""
    # Up to a constant, the error is the sum of cost / probability over the groups. For a
    # fixed sum of the probabilities, it is smallest if they are proportional to the square
    # roots of the costs (Lagrange multipliers, as in Neyman allocation).
    costs = []
    for report in reported:
        variance = report.noise_variance + report.value_variance
        costs.append(report.weight * variance)
    if len({*costs}) == 1:
        return (1,) * len(costs)
    roots = np.sqrt(costs)
    # Rounding to 24 bits changes no error noticeably.
    units = np.ceil(roots / roots.sum() * (1 << 24))
    return tuple(map(int, units.tolist()))


def count_values(domain: Domain | None) -> dict[Any, int]:
    """Count the values of each column of a domain; None is a domain without columns."""
    if domain is None:
        return {}
    return dict(zip(domain.columns, domain.sizes, strict=True))


def plan_table(
    epsilon: Fraction,
    sizes: Mapping[Any, int],
    names: Sequence[Any],
    *,
    workload: Any,
    weights: Any,
) -> TablePlan:
    """Check the parameters, and find the plan of the reports of a table with the smallest error.

    `sizes` are the numbers of values of the categorical columns; other columns in
    `names` are numbers. `weights` are the weights of the errors of the columns.
    """
    check_choice("workload", workload, get_args(Workload))
    if len({*names}) < len(names) or not names:
        raise ValueError(
            "Each column must be in the domain or in `bounds`, and not in both; got "
            f"{list(names)}."
        )
    if workload == "pairs" and len(sizes) < 2:
        raise ValueError(
            "workload='pairs' requires at least 2 categorical columns, got "
            f"{len(sizes)}. Use workload='columns'."
        )
    column_weights = check_weights(weights, names)
    return Planner(epsilon, sizes, column_weights, workload).find_best()


def check_weights(weights: Any, names: Sequence[Any]) -> dict[Any, float]:
    """Check the weights of the errors of the columns, and return them by column."""
    if isinstance(weights, str) and weights == "uniform":
        return dict.fromkeys(names, 1.0)
    checked = check_column_weights(weights, names, "'uniform'")
    return dict(zip(names, map(float, checked), strict=True))


def check_bounds(bounds: Any) -> dict[Any, Any]:
    """Check a mapping of column name to bounds, and return it; None is an empty mapping."""
    if bounds is not None and not isinstance(bounds, Mapping):
        raise TypeError(
            "`bounds` must be a mapping of column name to (low, high), got "
            f"{type(bounds).__name__}."
        )
    if bounds:
        parse_bounds(dict(bounds), tuple(bounds))
    return {name: find_bounds(pair, name) for name, pair in (bounds or {}).items()}
