"""Encoder of tables with categories, sets and numbers, and its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import prod
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import ColumnLike, TableLike
from skdp.base import (
    check_choice,
    find_bounds,
    make_domain,
    parse_bounds,
)
from skdp.domain import Domain
from skdp.local._numeric import NumberField, estimate_means, make_mechanism
from skdp.local._oracle_encoder import (
    Categories,
    HandleUnknown,
    check_several_values,
    encode_handle_unknown,
)
from skdp.local._protocol_file import make_intervals
from skdp.local._transformer import CategoryTransformer
from skdp.local.protocol._count_estimation import (
    InferenceTarget,
    check_columns,
    compute_marginal_error,
    estimate_report_counts,
    find_fields,
)
from skdp.local.protocol._fields import CategoryField, ValueField
from skdp.local.protocol._protocol import ReportProtocol, Sampling, make_guarantee
from skdp.local.protocol._report_columns import concat_columns
from skdp.oracles import ORACLES, choose_oracle
from skdp.privacy import PrivacyLedger, check_epsilon
from skdp.randomness import check_type
from skdp.tables import Table

Workload: TypeAlias = Literal["columns", "pairs"]

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
    def _inclusions(self) -> list[float]:
        """The probability that a record reports each group."""
        if self.n_reported == len(self.reported):
            return [1.0] * len(self.reported)
        return list(map(float, Sampling(self.weights).inclusions))

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
        for report, inclusion in zip(self.reported, self._inclusions, strict=True):
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


choose_group_oracle = cache(choose_oracle)


@cache
def compute_number_variances(epsilon: Fraction) -> tuple[float, float]:
    """Compute the variances of the noise and of uniform true numbers, divided by the squared range."""
    mechanism = make_mechanism("optimal", epsilon)
    steps = mechanism.steps
    noise = mechanism.variances(np.arange(steps + 1)).mean() / steps**2
    # The integers 0, ..., s have the variance ((s + 1)^2 - 1) / 12 = s^2 (1 + 2 / s) / 12.
    return float(noise), (1 + 2 / steps) / 12


class Planner:
    """Search of the plan with the smallest error, from the declared values of a table."""

    def __init__(
        self,
        epsilon: Fraction,
        sizes: Mapping[Any, int],
        column_weights: Mapping[Any, float],
        workload: Workload,
    ) -> None:
        # `sizes` are the numbers of values of the categorical columns; all other columns
        # are numbers. `column_weights` are the weights of the errors of all columns.
        self.epsilon = epsilon
        self.sizes = sizes
        self.column_weights = column_weights
        self.workload = workload

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
        weight = prod(self.column_weights[name] for name in group)
        if group[0] not in self.sizes:
            noise, variance = compute_number_variances(epsilon)
            weight *= n_cells
            return GroupReport(group, "optimal", n_cells, weight, noise, variance)
        names: tuple[str, ...] = MARGIN_ORACLES if len(group) > 1 else tuple(ORACLES)
        # The numbers of values whose frequencies are estimated, and the weights of each.
        parts = [(self.sizes[name], self.column_weights[name]) for name in group]
        if self.workload == "pairs":
            names, parts = PAIR_ORACLES, [(n_cells, weight)]
        name, oracle = choose_group_oracle(n_cells, epsilon, names=names)
        weights = [k * value_weight for k, value_weight in parts]
        noises = [compute_marginal_error(oracle, k) for k, _ in parts]
        variances = [uniform_variance(k) for k, _ in parts]
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


def count_declared_values(domain: Domain | None) -> dict[Any, int]:
    """Count the values of each column of a domain; None is a domain without columns."""
    if domain is None:
        return {}
    return dict(zip(domain.columns, domain.sizes, strict=True))


def check_weights(weights: object, names: Sequence[Any]) -> dict[Any, float]:
    """Check the weights of the errors of the columns, and return them by column."""
    if isinstance(weights, str) and weights == "uniform":
        return dict.fromkeys(names, 1.0)
    if not isinstance(weights, Mapping):
        got = repr(weights) if isinstance(weights, str) else type(weights).__name__
        raise ValueError(
            f"`weights` must be 'uniform' or a dict of column to number, got {got}."
        )
    if set(weights) != set(names):
        raise ValueError(
            f"`weights` must have the columns {list(names)}, got {list(weights)}."
        )
    checked = {}
    for name in names:
        # A weight has the type and range of epsilon: a finite number > 0.
        title = f"the weight of column {name!r}"
        checked[name] = float(check_epsilon(weights[name], name=title))
    return checked


def check_bounds(bounds: Mapping[Any, Any] | None) -> dict[Any, Any]:
    """Check a mapping of column name to bounds, and return it; None is an empty mapping."""
    expected = "a mapping of column name to (low, high)"
    check_type("bounds", bounds, Mapping | None, expected)
    if bounds:
        parse_bounds(dict(bounds), tuple(bounds))
    return {name: find_bounds(pair, name) for name, pair in (bounds or {}).items()}


class LocalTableEncoder(CategoryTransformer):
    """Privatize a table of categories and numbers with one epsilon per record.

    `fit` divides the columns into groups, and allocates epsilon to them such that the
    error for the workload is smallest; see `plan_`. The plan depends on the declared values
    only. :doc:`/guide/tables` compares plans.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.

    categories : 'auto', mapping or Domain, default='auto'
        Values of each column that is not in `bounds`, see `RandomizedResponseEncoder`.

    bounds : mapping of column name to (low, high), default=None
        Public bounds of the numeric columns. None if there are no numeric columns.

    workload : {'columns', 'pairs'}, default='columns'
        Statistics to estimate.

        - 'columns': proportions of values, and means. A record reports all columns, or
          one group of them, which is drawn with the best probabilities.
        - 'pairs': proportions of pairs of values, and means. A record reports one pair
          of columns, or one number.

    weights : 'uniform' or mapping of column name to number, default='uniform'
        Public weight of the error of each column. The weight of a pair is the product.

    handle_unknown : {'error', 'uniform'}, default='error'
        How to handle a value outside the domain, see `RandomizedResponseEncoder`.

    ledger : PrivacyLedger, default=None
        Ledger that is charged with `guarantee_` at each call of `transform`.

    random_state : int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the
        reports are then not private.

    Attributes
    ----------
    plan_ : TablePlan
        Groups of columns, the number of groups that a record reports, and the errors.

    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform` for one record.

    See Also
    --------
    RandomizedResponseEncoder : Reports every column of each record, to train a model.
    RandomizedResponseEncoder : Reports all columns as values, for a model.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its values in the
    fitted columns. A record makes ``plan_.n_reported`` reports with equal fractions of
    epsilon. The groups that a record reports are drawn independently of its values, so
    they are public. `fit` reads column names and dtypes, and checks that numbers are
    finite. It infers categories from the data only if ``categories="auto"`` and the dtype
    declares none, also of numbers without `bounds`; these columns are not protected. Each
    call of `transform` is a new release. :doc:`/guide/encoders` states the limits.

    The columns of groups that a record does not report are missing or zero. The column
    ``sampled`` has the index of the reported group in `plan_`.

    References
    ----------
    .. [1] H. Arcolezi et al. (2023). Frequency estimation of correlated multi-attribute
       data under local differential privacy. arXiv:2205.15648

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import LocalTableEncoder
    >>> people = pd.DataFrame({"sex": ["f", "m"] * 500, "age": [20, 70] * 500})
    >>> values, bounds = {"sex": ["f", "m"]}, {"age": (0, 100)}
    >>> encoder = LocalTableEncoder(
    ...     1.0, categories=values, bounds=bounds, random_state=0
    ... )
    >>> reports = encoder.fit_transform(people)
    >>> print(encoder.estimate_counts(reports).round())
                     count  std_error  lower  upper
    column category
    sex    f         415.0       46.0  326.0  505.0
           m         585.0       46.0  495.0  674.0
    >>> print(encoder.estimate_mean(reports).round(1))
            mean  std_error  lower  upper
    column
    age     48.5        4.6   39.6   57.5
    """

    plan_: TablePlan

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        categories: Categories = "auto",
        bounds: Mapping[Any, tuple[float, float]] | None = None,
        workload: Workload = "columns",
        weights: Literal["uniform"] | Mapping[Any, float] = "uniform",
        handle_unknown: HandleUnknown = "error",
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.categories = categories
        self.bounds = bounds
        self.workload = workload
        self.weights = weights
        self.handle_unknown = handle_unknown
        self.ledger = ledger
        self.random_state = random_state

    def plan(self) -> TablePlan:
        """Plan how epsilon is divided among the columns, before `fit` and without data.

        `categories` must be a dict or a Domain; ``{}`` if all columns are numbers.

        Returns
        -------
        TablePlan
            Plan with the attributes:

            - `groups`: columns of each report;
            - `n_reported`: number of groups that a record reports, one or all;
            - `error`: n times the mean squared error, a weighted mean over the groups;
            - `reports`: DataFrame of the oracle or mechanism, the number of cells,
              epsilon, the probability that a record makes the report, and the error of
              each group.

        Raises
        ------
        TypeError, ValueError
            If a parameter is invalid, or `categories` does not name its columns.

        Notes
        -----
        **Privacy.** The plan uses the declared values only.

        Examples
        --------
        >>> from skdp import LocalTableEncoder
        >>> encoder = LocalTableEncoder(1.0, categories={"sex": ["f", "m"], "town": range(40)})
        >>> encoder.plan().reports[["columns", "report", "inclusion"]].round(2)
          columns               report  inclusion
        0     sex  randomized_response       0.11
        1    town     subset_selection       0.89
        """
        sizes = count_declared_values(self._domain_of_categories())
        return self._plan_columns(sizes, [*sizes, *check_bounds(self.bounds)])

    def _plan_columns(
        self, sizes: Mapping[Any, int], names: Sequence[Any]
    ) -> TablePlan:
        """Check the parameters, and find the plan of the reports with the smallest error.

        `sizes` are the numbers of values of the categorical columns; other columns in
        `names` are numbers.
        """
        epsilon = check_epsilon(self.epsilon)
        check_choice("workload", self.workload, get_args(Workload))
        if len({*names}) < len(names) or not names:
            raise ValueError(
                "Each column must be in the domain or in bounds, and not in both; got "
                f"{list(names)}."
            )
        if self.workload == "pairs" and len(sizes) < 2:
            raise ValueError(
                "workload='pairs' requires at least 2 categorical columns, got "
                f"{len(sizes)}. Use workload='columns'."
            )
        column_weights = check_weights(self.weights, names)
        return Planner(epsilon, sizes, column_weights, self.workload).find_best()

    def _make_protocol(self, table: Table) -> ReportProtocol:
        """Build the protocol from the plan with the smallest error, which depends on the declared values only.

        The plan divides the columns into groups, which are reported as one combination
        of values or one number, and selects the oracle of each group. A record reports
        one group, drawn with the weights of the plan, or all groups. The workload
        "columns" minimizes the errors of single columns, and "pairs" the errors of
        pairs of columns. A field is the report of a group.
        """
        bounds = check_bounds(self.bounds)
        domain = self._read_domain(table, bounds)
        plan = self._plan_columns(count_declared_values(domain), table.names)
        self.plan_ = plan
        # The reported groups are public, so each report may have the full fraction of
        # epsilon, even if a record reports one of many groups.
        group_epsilon = plan.epsilon / plan.n_reported
        is_sampled = plan.n_reported < len(plan.groups)
        columns = dict(zip(table.names, table.columns, strict=True))
        fields: list[NumberField | CategoryField] = []
        mechanisms: list[Any] = []
        for group, mechanism_name in zip(plan.groups, plan.mechanisms, strict=True):
            name = group[0]
            if name in bounds:
                low, high = map(float, bounds[name])
                mechanism = make_mechanism("optimal", group_epsilon)
                mechanisms.append(mechanism)
                field = NumberField(name, (low, high), mechanism, group_epsilon)
                # Raises an error for text and missing values.
                field.prepare([columns[name]])
                fields.append(field)
                continue
            assert domain is not None
            values = domain.select(group)
            oracle = ORACLES[mechanism_name](values.size, group_epsilon)
            mechanisms.append(oracle)
            unknown = encode_handle_unknown(self.handle_unknown, values)
            # For pairs, several reports contain a column, so they cannot have its name.
            is_single = self.workload == "columns"
            if mechanism_name == "randomized_response" and is_single:
                fields.append(
                    ValueField(values, oracle, unknown, is_sampled=is_sampled)
                )
            else:
                fields.append(CategoryField(values, oracle, unknown))
        sampling = Sampling(plan.weights) if is_sampled else None
        suffix = ", drawn at random" if is_sampled else ""
        guarantee = make_guarantee(
            mechanisms,
            sampling,
            scope=table.names,
            mechanism=f"{plan.n_reported} of {len(fields)} reports of columns{suffix}",
            secure=self.random_state is None,
        )
        return ReportProtocol(type(self).__name__, tuple(fields), guarantee, sampling)

    def _read_domain(self, table: Table, bounds: Mapping[Any, Any]) -> Domain | None:
        """Make the domain of the columns without bounds, or None if there are no such columns."""
        if absent := [name for name in bounds if name not in table.names]:
            raise ValueError(
                f"`bounds` must have columns of X, {list(table.names)}, got {absent}."
            )
        if repeated := [name for name in bounds if name in self._declared_names()]:
            raise ValueError(
                "`bounds` and `categories` must have different columns, got "
                f"{repeated} in both."
            )
        pairs = zip(table.names, table.columns, strict=True)
        columns = {name: column for name, column in pairs if name not in bounds}
        if not columns:
            return None
        names, arrays = tuple(columns), tuple(columns.values())
        domain = make_domain(Table(names, arrays, table.native), self.categories)
        check_several_values(domain)
        return domain

    def _declared_names(self) -> Sequence[Any]:
        """Return the columns that `categories` declares."""
        categories = self.categories
        return tuple(categories) if isinstance(categories, Mapping) else ()

    def _declared_domain(self) -> Domain:
        """Return the declared values and bounds of the columns as a domain, also before `fit`."""
        if hasattr(self, "protocol_"):
            declared = self.protocol_.declared
            categories = declared.get("categories", {})
            bounds = declared.get("bounds", {})
        else:
            bounds = check_bounds(self.bounds)
            categories = dict(self._domain_of_categories())
        return Domain(categories | make_intervals(bounds))

    def _estimate(
        self,
        reports: TableLike,
        statistic: str,
        sample_weight: ColumnLike | None = None,
        *,
        columns: Sequence[Any] | None = None,
        **options: Any,
    ) -> pd.DataFrame:
        """Estimate the frequency or count (`statistic`) of each value of categorical columns, in one table.

        A column that is reported with other columns is summed over them.
        """
        if sample_weight is None:
            # The tally has the sums of all columns.
            _, reports = self._read_reports(reports)
        domain = self.protocol_.domain
        if domain is None:  # all columns are numbers
            index = pd.MultiIndex.from_arrays([[], []], names=["column", "category"])
            names = [statistic, "std_error", "lower", "upper"]
            return pd.DataFrame(columns=names, index=index, dtype=float)
        chosen: Sequence[Any] = domain.columns
        if columns is not None:
            chosen = check_columns(domain.columns, columns)
        tables = {}
        for name in chosen:
            tables[name] = super()._estimate(
                reports, statistic, sample_weight, columns=[name], **options
            )
        return concat_columns(tables)

    def estimate_joint_counts(
        self,
        reports: TableLike,
        columns: Sequence[Any],
        *,
        confidence_level: float = 0.95,
        rows: InferenceTarget = "table",
    ) -> pd.DataFrame:
        """Estimate the number of records with each combination of values of some columns.

        Parameters
        ----------
        reports : output of `transform`, or ReportTally
            Privatized rows, or their sums.
        columns : sequence of column names
            Categorical columns to combine, typically two.
        confidence_level : float, default=0.95
            Coverage probability of each interval.
        rows : {"table", "population"}, default="table"
            See `estimate_counts`.

        Returns
        -------
        pandas.DataFrame
            Columns 'count', 'std_error', 'lower' and 'upper', indexed by the values of
            the columns. Only records that report all of the columns are used. The
            intervals are Wilson intervals with the variance of the noise.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another encoder, a column is not
            categorical, or no record reports all of the columns.

        Notes
        -----
        Each record counts once. For survey weights, use `skdp.survey.survey_mean` with
        products of the values of `debias`.

        **Privacy.** Post-processing of reports uses no budget.
        """
        check_is_fitted(self)
        protocol = self.protocol_
        column_names = () if protocol.domain is None else protocol.domain.columns
        chosen = check_columns(column_names, columns)
        if find_fields(protocol, *chosen):
            _, tally = self._read_reports(reports)
            options = {"confidence_level": confidence_level, "rows": rows}
            return estimate_report_counts(protocol, tally, chosen, **options)
        raise ValueError(
            f"`columns` must be reported as one group, got {chosen}. Use "
            "workload='pairs', or the products of `debias`."
        )

    def estimate_mean(
        self, reports: TableLike, *, confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate the mean of each numeric column, clipped to its bounds.

        Parameters
        ----------
        reports : output of `transform`, or ReportTally
            Privatized rows, or their sums.
        confidence_level : float, default=0.95
            Coverage probability of each interval.

        Returns
        -------
        pandas.DataFrame
            Columns 'mean', 'std_error', 'lower' and 'upper', indexed by column, see
            `NumericPerturber.estimate_mean`. Empty if there is no numeric column.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another encoder, or the parameter
            is out of range.

        Notes
        -----
        Each record counts once. For survey weights, use `skdp.survey.survey_mean` with the
        values of `debias`.

        **Privacy.** Post-processing of reports uses no budget.
        """
        _, tally = self._read_reports(reports)
        return estimate_means(self.protocol_, tally, confidence_level)
