"""Recommend how the columns of a table share epsilon, from what is declared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations
from math import ceil, inf, prod
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from skdp.base import TableLike, check_choice, read_bounds, read_domain
from skdp.domain import Domain, DomainLike
from skdp.local._numeric import numeric_mechanism
from skdp.local.protocol import Sampling, margin_error
from skdp.markup import html_facts
from skdp.oracles import ORACLES, check_steps, choose_oracle, mean_error
from skdp.privacy import check_epsilon
from skdp.tables import is_frame, read_table

# What a table of reports is for.
Purpose: TypeAlias = Literal["margins", "pairs", "means", "model"]

Group: TypeAlias = tuple[Any, ...]
"""The columns of one report."""

# Oracles whose margins have errors in closed form.
_ORACLES_OF_GROUPS = (
    "randomized_response",
    "subset_selection",
    "optimized_unary_encoding",
    "symmetric_unary_encoding",
)
# A table of all pairs has many groups: their reports have one column or two.
_ORACLES_OF_OVERLAPPING = ("randomized_response", "local_hashing")
# As `max_report_bytes` of the encoders by default.
MAX_REPORT_BYTES = 1024


@dataclass(frozen=True)
class Margin:
    """The error of shares of a column or pair, or of a mean: n times the variance."""

    cells: int
    noise: float
    # The variance of the true values, which sampling adds; those of uniform data.
    spread: float

    @classmethod
    def of_shares(cls, cells: int, noise: float) -> Margin:
        """Return the error of the shares of some cells."""
        return cls(cells, noise, (1 - 1 / cells) / cells)

    def error(self, inclusion: float) -> float:
        """Return n times the mean squared error if a share of the records report it."""
        return self.noise / inclusion + (1 / inclusion - 1) * self.spread


@dataclass(frozen=True)
class Report:
    """How a group of columns is reported."""

    group: Group
    # The name of an oracle, or of a mechanism for numbers.
    kind: str
    cells: int
    # The error of each column.
    margins: tuple[Margin, ...]
    # What the purpose asks of the group: errors of columns or pairs, with weights.
    terms: tuple[tuple[float, Margin], ...]

    @property
    def cost(self) -> float:
        """What it adds to the error, a constant aside: a multiple of 1 / inclusion."""
        return sum(
            weight * (margin.noise + margin.spread) for weight, margin in self.terms
        )


class Costs:
    """The errors of plans for one table, purpose and epsilon."""

    def __init__(
        self,
        epsilon: Fraction,
        sizes: Mapping[Any, int],
        importance: Mapping[Any, float],
        *,
        purpose: Purpose,
        oracle: str,
        mechanism: str,
        grid_size: int,
    ) -> None:
        self.epsilon = epsilon
        self.sizes = sizes  # the number of values of each column of categories
        self.names = tuple(importance)
        self.purpose = purpose
        self._importance = importance
        self._oracle = oracle
        self._mechanism = mechanism
        self._grid_size = grid_size
        # A search asks for the same groups again and again.
        self._report = cache(self._new_report)

    def is_number(self, column: Any) -> bool:
        """Return whether a column holds numbers, and not categories."""
        return column not in self.sizes

    def reports(self, groups: Sequence[Group], n_reported: int) -> tuple[Report, ...]:
        """Return how groups are reported by a record that reports some of them."""
        among: tuple[str, ...] = _ORACLES_OF_GROUPS
        if is_overlapping(groups):
            among = _ORACLES_OF_OVERLAPPING
        return tuple(self._report(group, n_reported, among) for group in groups)

    def _new_report(
        self, group: Group, n_reported: int, among: tuple[str, ...]
    ) -> Report:
        share = self.epsilon / n_reported
        if self.is_number(group[0]):
            margin = _margin_of_number(self._mechanism, self._grid_size, share)
            weight = self._weight(group[0], margin.cells)
            term = (weight, margin)
            return Report(group, self._mechanism, margin.cells, (margin,), (term,))
        sizes = tuple(self.sizes[column] for column in group)
        if len(sizes) == 1:
            among = tuple(ORACLES)  # the error of the only margin is that of the oracle
        if self._oracle != "auto":
            among = (self._oracle,)
        kind, margins, pair_margins = _errors_of_values(sizes, share, among)
        terms = []
        if self.purpose == "pairs":
            for pair, margin in zip(combinations(group, 2), pair_margins, strict=True):
                terms.append((self._pair_weight(*pair, margin.cells), margin))
        else:
            for column, margin in zip(group, margins, strict=True):
                terms.append((self._weight(column, margin.cells), margin))
        return Report(group, kind, prod(sizes), margins, tuple(terms))

    def _weight(self, column: Any, cells: int) -> float:
        """Return how much the error of a column counts."""
        if self.purpose == "means":
            return self._importance[column]
        return self._importance[column] * cells

    def _pair_weight(self, first: Any, second: Any, cells: int) -> float:
        return self._importance[first] * self._importance[second] * cells

    def error(
        self, reports: Sequence[Report], n_reported: int, inclusions: Sequence[float]
    ) -> float:
        """Return the weighted mean of the errors that the purpose asks for."""
        total = 0.0
        total_weight = 0.0
        for report, inclusion in zip(reports, inclusions, strict=True):
            for weight, margin in report.terms:
                total += weight * margin.error(inclusion)
                total_weight += weight
        # All pairs are reported together where groups overlap.
        groups = [report.group for report in reports]
        if self.purpose == "pairs" and not is_overlapping(groups):
            for weight, error in self._errors_between(reports, n_reported):
                total += weight * error
                total_weight += weight
        return total / total_weight

    def _errors_between(
        self, reports: Sequence[Report], n_reported: int
    ) -> Iterator[tuple[float, float]]:
        """Iterate over the pairs of columns of two groups: weights and errors."""
        groups_of_values = []
        for report in reports:
            if not self.is_number(report.group[0]):
                margins = dict(zip(report.group, report.margins, strict=True))
                groups_of_values.append(margins)
        # Two groups are reported by the same record with this probability, if all are
        # drawn alike.
        n = len(reports)
        together = n_reported * (n_reported - 1) / max(1, n * (n - 1))
        for first_margins, second_margins in combinations(groups_of_values, 2):
            for first, first_margin in first_margins.items():
                for second, second_margin in second_margins.items():
                    margin = _product_margin(first_margin, second_margin)
                    error = margin.error(together) if together else inf
                    yield self._pair_weight(first, second, margin.cells), error


# Columns are alike if they have as many values, or are numbers.
@lru_cache(1024)
def _margin_of_number(mechanism: str, grid_size: int, share: Fraction) -> Margin:
    """Return the error of the mean of a number."""
    numeric = numeric_mechanism(mechanism, grid_size, share)
    spread = (1 + 2 / numeric.steps) / 12  # of a uniform draw from the grid
    # A number counts as what it is rounded to at random: one of its two ends.
    return Margin(2, mean_error(numeric), spread)


@lru_cache(1024)
def _errors_of_values(
    sizes: tuple[int, ...], share: Fraction, among: tuple[str, ...]
) -> tuple[str, tuple[Margin, ...], tuple[Margin, ...]]:
    """Return the oracle of columns of these sizes, and errors of them and of pairs."""
    kind, oracle = choose_oracle(
        prod(sizes), share, max_report_bytes=MAX_REPORT_BYTES, among=among
    )
    if len(sizes) == 1:
        return kind, (Margin.of_shares(oracle.k, oracle.mean_squared_error),), ()
    margins = [Margin.of_shares(k, margin_error(oracle, k)) for k in sizes]
    pair_margins = []
    for first, second in combinations(sizes, 2):
        error = margin_error(oracle, first * second)
        pair_margins.append(Margin.of_shares(first * second, error))
    return kind, tuple(margins), tuple(pair_margins)


def _product_margin(first: Margin, second: Margin) -> Margin:
    """Return the error of the pairs of two columns that are reported by themselves."""
    # An indicator of a cell is unbiased: its mean is the cell's share, and its mean
    # square is the variance plus that share, which over all k cells is ``k noise + 1``.
    # The indicator of a pair is the product of two independent ones, so these multiply,
    # and the share of all pairs, 1, is taken off again.
    square = (first.cells * first.noise + 1) * (second.cells * second.noise + 1)
    cells = first.cells * second.cells
    return Margin.of_shares(cells, (square - 1) / cells)


def is_overlapping(groups: Sequence[Group]) -> bool:
    """Return whether a column is in several groups."""
    columns = {column for group in groups for column in group}
    return len(columns) < sum(map(len, groups))


def best_inclusions(costs: Sequence[float], n_reported: int) -> list[float]:
    """Return probabilities, at most 1, that make the sum of costs / them least."""
    # They add up to `n_reported`. The best ones are proportional to the roots of the
    # costs; those above 1 become 1, and the others share what is left.
    roots = np.sqrt(np.asarray(costs, float))
    inclusions = np.ones(len(costs))
    is_free = np.ones(len(costs), bool)
    while is_free.any():
        n_left = n_reported - (~is_free).sum()
        shares = roots[is_free] / roots[is_free].sum() * n_left
        if (shares <= 1).all():
            inclusions[is_free] = shares
            break
        is_free[np.flatnonzero(is_free)[shares > 1]] = False
    return inclusions.tolist()


# What bounds the time of a search: the columns that are grouped, the cells of all of
# them together, and the numbers of reports that are tried.
_MAX_COLUMNS_GROUPED = 16
_MAX_CELLS_JOINT = 1 << 16
_MAX_SIZES = 32
# A bit for each cell of a merged group fits into a report.
_MAX_CELLS_MERGED = 8 * MAX_REPORT_BYTES


@dataclass(frozen=True, eq=False)
class TablePlan:
    """How the columns of a table share epsilon, computed from what is declared."""

    # The name of the strategy that was chosen, a row of `strategies`.
    strategy: str
    # The columns of each report: several are one attribute, of all combinations.
    groups: tuple[Group, ...]
    # How many groups a record reports, each with ``epsilon / n_reported``.
    n_reported: int
    # A record reports a group with this, times `n_reported` / their sum, as chance.
    weights: tuple[int, ...]
    # The rows of `reports`.
    rows: tuple[tuple[Any, ...], ...]
    # The rows of `strategies`.
    candidates: tuple[tuple[Any, ...], ...]

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
    # Numbers are always reported by themselves: no oracle reports them with values.
    if len(values) > 1 and prod(costs.sizes.values()) <= _MAX_CELLS_JOINT:
        groups = [values, *numbers]
        yield _uniform("joint", costs, groups, len(groups))
    if len(names) > 1 and costs.purpose != "model":
        yield _uniform("sample", costs, singles, 1)
        yield _best_size("weighted", costs, singles)
    if len(values) > 1 and len(names) <= _MAX_COLUMNS_GROUPED:
        yield _grouped(costs, singles)
    if costs.purpose == "pairs" and 2 < len(values) <= _MAX_COLUMNS_GROUPED:
        largest_pair = sorted(costs.sizes.values())[-2:]
        if prod(largest_pair) <= _MAX_CELLS_MERGED:
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
        # With less than an epsilon of 1 each, fewer reports are better. Two at least are
        # tried: a pair of columns may need two reports. Of many numbers, those that
        # differ by a fifth: the error is flat around the best one.
        most = min(n, max(2, ceil(costs.epsilon)))
        spread = np.geomspace(1, most, _MAX_SIZES).round().astype(int)
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
    # Greedy: a step merges the two groups whose merger has the least error, even if that
    # is larger than before, as a further step may pay.
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
    # The smallest one with each other: on 250 random tables of 3 to 6 columns, all pairs
    # of groups were better by at most 2 %.
    smallest, *larger = sorted(sizes, key=lambda group: sizes[group])
    order = list(costs.sizes)
    for group in larger:
        if sizes[smallest] * sizes[group] <= _MAX_CELLS_MERGED:
            merged = sorted(smallest + group, key=order.index)
            unmerged = [each for each in groups if each not in (smallest, group)]
            yield [tuple(merged), *unmerged]


def _whole_weights(inclusions: Sequence[float], n_reported: int) -> tuple[int, ...]:
    """Return whole weights, none above their sum over `n_reported`."""
    if len({*inclusions}) == 1:
        return (1,) * len(inclusions)
    # Probabilities are whole multiples of about 2**-24: their error is below any noise.
    units = 1 << 24
    weights = np.rint(units / n_reported * np.array(inclusions)).astype(int).clip(1)
    # Rounding may have lifted the largest: lowering it lowers the sum, too.
    while weights.max() * n_reported > weights.sum():
        lowered = np.minimum(weights, weights.sum() // n_reported)
        if (lowered == weights).all():
            break
        weights = lowered
    return tuple(weights.tolist())


Strategy: TypeAlias = Literal[
    "auto", "split", "joint", "sample", "weighted", "groups", "overlapping"
]
OracleChoice: TypeAlias = Literal["auto", "randomized_response"]
Importance: TypeAlias = Literal["uniform"] | Mapping[Any, float]

# The errors of all pairs of columns are computed for each candidate of a plan.
_MAX_COLUMNS_OF_PAIRS = 64


def recommend_plan(
    domain: DomainLike | TableLike | None,
    epsilon: float,
    *,
    bounds: Mapping[Any, tuple[float, float]] | None = None,
    purpose: Purpose = "margins",
    weights: Importance = "uniform",
    strategy: Strategy = "auto",
    oracle: OracleChoice = "auto",
    mechanism: str = "optimal",
    grid_size: int = 1024,
) -> TablePlan:
    """Compare how the columns of a table may share epsilon, and return the best plan.

    >>> from skdp import recommend_plan
    >>> plan = recommend_plan({name: range(9) for name in "abcd"}, 8.0)
    >>> plan.strategies["error"].round(3).to_dict()
    {'groups': 0.11, 'weighted': 0.171, 'sample': 0.299, 'split': 0.474, 'joint': 0.773}
    >>> plan.reports[["columns", "cells", "inclusion"]]
      columns  cells  inclusion
    0   c x d     81        0.5
    1   a x b     81        0.5

    Parameters
    ----------
    domain : Domain, mapping, list of array-like, dataframe, or None
        The columns of categories and their values, as the `categories` of an encoder;
        None for a table of numbers. A dataframe stands for ``categories="auto"``: its
        dtypes declare them, or they are read from the data with a warning.
    epsilon : float
        The privacy loss of a record over all columns.
    bounds : mapping of column name to (low, high), optional
        The columns of numbers.
    purpose, weights, strategy, oracle, mechanism, grid_size : optional
        As for `LocalTableEncoder`.

    Returns
    -------
    TablePlan
        The plan. ``strategies`` is a table of all strategies, the best one first:
        ``error``, n times the mean squared error of what the purpose asks for (infinite
        if it cannot be had), ``times``, the same as a multiple of the best one,
        ``n_reported``, how many reports a record makes, and ``reason``. ``reports`` has
        a row for each report: ``columns``, ``report`` (its oracle or mechanism),
        ``cells``, ``epsilon``, ``inclusion``, the probability that a record makes it,
        and ``error``, the mean over its cells. ``strategy`` is the one that was chosen.

    Warns
    -----
    PrivacyLeakWarning
        If categories are read from the data of a dataframe.

    See Also
    --------
    LocalTableEncoder : Reports by such a plan.

    Notes
    -----
    **Privacy.** Computed from the declaration alone.
    """
    sizes: dict[Any, int] = {}
    if domain is not None:
        sizes = sizes_of(declared_domain_of(domain))
    checked_bounds = check_bounds(bounds)
    return plan_of(
        check_epsilon(epsilon),
        sizes,
        checked_bounds,
        [*sizes, *checked_bounds],
        purpose=purpose,
        weights=weights,
        strategy=strategy,
        oracle=oracle,
        mechanism=mechanism,
        grid_size=grid_size,
    )


def declared_domain_of(declared: Any) -> Domain:
    """Return the domain that is declared in one of several forms."""
    if isinstance(declared, Domain):
        return declared
    if isinstance(declared, Mapping):
        return Domain(declared)
    if isinstance(declared, str):
        raise ValueError(
            f"domain must be a declaration or a dataframe, got {declared!r}: which "
            "table to read is unknown"
        )
    if isinstance(declared, Sequence | np.ndarray):
        return Domain({f"x{number}": values for number, values in enumerate(declared)})
    if is_frame(declared):
        return read_domain(read_table(declared), "auto", name="domain")
    raise TypeError(
        "domain must be a Domain, mapping, list or dataframe, got "
        f"{type(declared).__name__}"
    )


def plan_of(
    epsilon: Fraction,
    sizes: Mapping[Any, int],
    bounds: Mapping[Any, Any],
    names: Sequence[Any],
    *,
    purpose: Any,
    weights: Any,
    strategy: Any,
    oracle: Any,
    mechanism: Any,
    grid_size: Any,
) -> TablePlan:
    """Check the parameters, and make the plan."""
    check_choice("purpose", purpose, get_args(Purpose))
    check_choice("strategy", strategy, get_args(Strategy))
    check_choice("oracle", oracle, get_args(OracleChoice))
    if not isinstance(mechanism, str):
        raise TypeError(
            "mechanism must be the name of a mechanism of NumericPerturber, got "
            f"{type(mechanism).__name__}"
        )
    _check_columns(sizes, bounds, purpose, grid_size)
    # A model needs values in columns like those of the input.
    if purpose == "model":
        oracle = "randomized_response"
    costs = Costs(
        epsilon,
        sizes,
        _read_importance(weights, names),
        purpose=purpose,
        oracle=oracle,
        mechanism=mechanism,
        grid_size=grid_size,
    )
    return make_plan(costs, strategy)


def _check_columns(
    sizes: Mapping[Any, int], bounds: Mapping[Any, Any], purpose: str, grid_size: Any
) -> None:
    """Check that columns are declared, once each, and as many as the purpose needs."""
    n_columns = len(sizes) + len(bounds)
    if n_columns == 0:
        raise ValueError("declare the values or the bounds of at least one column")
    repeated = [name for name in sizes if name in bounds]
    if repeated:
        raise ValueError(
            f"both the values and the bounds of {repeated} are declared; a column has "
            "values or numbers"
        )
    too_many = n_columns > _MAX_COLUMNS_OF_PAIRS
    if purpose == "pairs" and (len(sizes) < 2 or too_many):
        raise ValueError(
            "purpose='pairs' is for at least 2 columns of categories, and "
            f"{_MAX_COLUMNS_OF_PAIRS} in all, got {len(sizes)} of categories and "
            f"{len(bounds)} of numbers"
        )
    if bounds:
        read_bounds(dict(bounds), tuple(bounds))
        check_steps(grid_size)


def sizes_of(domain: Domain | None) -> dict[Any, int]:
    """Return the number of values of each column of categories."""
    if domain is None:
        return {}
    return dict(zip(domain.columns, domain.sizes, strict=True))


def _read_importance(weights: Any, names: Sequence[Any]) -> dict[Any, float]:
    if isinstance(weights, str) and weights == "uniform":
        return dict.fromkeys(names, 1.0)
    if not isinstance(weights, Mapping) or set(weights) != set(names):
        description = type(weights).__name__
        if isinstance(weights, str):
            description = repr(weights)
        if isinstance(weights, Mapping):
            description = f"one of {list(weights)}"
        raise ValueError(
            f"weights must be 'uniform' or a mapping of all columns {list(names)} to "
            f"numbers, got {description}"
        )
    importance = {}
    for name in names:
        title = f"the weight of column {name!r}"
        importance[name] = float(check_epsilon(weights[name], name=title))
    return importance


def check_bounds(bounds: Any) -> dict[Any, Any]:
    """Check that bounds are a mapping, or none."""
    if bounds is None:
        return {}
    if not isinstance(bounds, Mapping):
        raise TypeError(
            "bounds must be a mapping of column name to (low, high), got "
            f"{type(bounds).__name__}"
        )
    return dict(bounds)
