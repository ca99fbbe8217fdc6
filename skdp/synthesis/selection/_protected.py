"""Noisy counts of protected columns beside public ones, whose own counts are exact."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.randomness import ByteSource
from skdp.synthesis.model import (
    MOST_EVEN,
    Clique,
    Groups,
    Marginal,
    group,
    merge,
    n_cells_of,
    shape_of,
)
from skdp.synthesis.selection._auto import Candidates
from skdp.synthesis.selection._column_shares import estimate_shares
from skdp.synthesis.selection._private_table import (
    LEAST_ERROR,
    Change,
    NoiseBudget,
    PrivateTable,
)
from skdp.synthesis.selection._rare_values import Cells, group_column
from skdp.synthesis.selection._scores import (
    LEAST_SCORES,
    MOST_SCORES,
    IndependentColumns,
    Score,
)
from skdp.synthesis.selection._strategy import COLUMN_SHARE, Plan, Strategy
from skdp.synthesis.tables import Records

_WANTED_SCORE_ERROR = 0.01
"""The error of a score, as a share of all records, above which it gets more than the least share.

Half and twice of it change distances of pairs of Adult, COMPAS and 2,000 rows of ACS by less
than their noise (epsilons of .1, .3 and 1, 4 seeds), but for those of income at .3, which are
8 % farther with half of it."""

_LARGEST_SCORE_ERROR = 0.1
"""The error of a score, as a share of all records, above which it says nothing.

With half of it, pairs of 2,000 rows of ACS are 5 % nearer to the truth at an epsilon of 1; all
else is within its noise, and so is twice of it (the same tables)."""

_EXPECTED_GAIN = 0.5
"""Of the records, twice the share that independent columns are expected to misplace, where scores say nothing.

With 0, pairs of the label of breast cancer are .30 from the truth at epsilons of .3 and 1,
now .16 and .09; with .2, .30 and .10; with 1, .13 and .10, but of 2,000 rows of ACS, age and
schooling are 8 to 16 % farther from it."""

_GROUPED_NOISE_COST = 0.65
"""What noise costs a cell, in standard deviations: less than its mean, .8, as the law is shrunk.

With .5 and .8, the distances of pairs at an epsilon of .1 are, of Adult, age and sex, 1.10
and .95 times as large; of ACS, 1.02 and 1.17 times."""

_LARGEST_RARE_SHARE = 0.1
"""Of the records: without an order, a value with more of them is not rare, whatever the noise.

Without a limit, four of five values were one where 20 pairs share a purely private epsilon
of 1: pairs were as far from the truth as shuffled columns, .27, in place of .05."""


@dataclass(frozen=True)
class CountedForm:
    """In which numbers a marginal is counted, and what is left of their noise in its counts."""

    # Known are the sums over all protected values: the number of records of each public
    # cell. Of two values one is counted. Otherwise noise is moved such that these sums
    # are right, which leaves 1 - 1 / q of its variance for q values.
    # Centred counts are K N - S, for counts N of a cell, and their sum S over all K
    # public cells: K times the deviation from the mean cell. The mean cell is not
    # counted again, as S is the column by itself, which all marginals of the column
    # share, and which is counted with little noise.
    # What is gained: a row that leaves one value for another changes centred counts by
    # K - 1 in its cell and by 1 in all others, K (K - 1) in squared L2 norm. As their
    # sum over all cells is 0, 1 - 1 / K of the noise is left: in units of counts,
    # (1 - 1 / K)**2 of the variance that Gaussian noise of the counts has. Of two cells,
    # one is counted.

    n_values: int
    """Combinations of protected values."""
    n_cells: int
    """Public cells that have records."""
    is_centred: bool
    """Whether deviations from the mean cell are counted."""

    @property
    def n_counted_values(self) -> int:
        """The values of each cell that are counted: of two, the other one follows."""
        return 1 if self._other_follows else self.n_values

    @property
    def _other_follows(self) -> bool:
        """Whether one of two values is counted."""
        return self.n_values == 2

    @property
    def n_counted_cells(self) -> int:
        """The cells that are counted: of two deviations, the other one follows."""
        return 1 if self.is_centred and self.n_cells == 2 else self.n_cells

    def numbers_of(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of all cells, of which some are counted: (n_cells, n_values)."""
        if self.is_centred:
            return np.asarray(self.n_cells * counts - counts.sum(axis=0))
        return counts

    def complete_cells(self, noisy: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return noisy numbers of all cells; if centred, their sum over cells is 0."""
        if not self.is_centred:
            return noisy
        if self.n_counted_cells == 1:
            return np.concatenate([noisy, -noisy])
        return np.asarray(noisy - noisy.mean(axis=0))

    def complete_values(
        self, noisy: NDArray[np.float64], totals: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return noisy numbers of all values, with these sums over values."""
        if self._other_follows:
            return np.concatenate([noisy, totals - noisy], axis=1)
        excess = noisy.sum(axis=1, keepdims=True) - totals
        return np.asarray(noisy - excess / self.n_values)

    @property
    def change(self) -> Change:
        """What another protected value of a record changes."""
        n_changed = 1 if self.n_counted_values == 1 else 2
        if self.n_counted_cells == 1 or not self.is_centred:
            return Change(n_changed, n_changed)
        n_others = self.n_cells - 1
        l1 = 2 * n_others * n_changed
        return Change(l1, self.n_cells * n_others * n_changed)

    @property
    def noise_left(self) -> float:
        """The share of the standard deviation of the noise that is left in each count."""
        noise_left = 1.0
        if self.n_values != 2:
            noise_left = math.sqrt(1 - 1 / self.n_values)
        if self.is_centred:
            noise_left /= self.n_cells
            if self.n_cells > 2:
                noise_left *= math.sqrt(1 - 1 / self.n_cells)
        return noise_left


class ProtectedTable(PrivateTable):
    """A table of which some columns are protected, and all others are public."""

    # Neighbours have other values of the protected columns in one record, which leaves
    # one cell for another: both have the same public values.

    def __init__(
        self,
        records: Records,
        plan: Plan,
        budget: NoiseBudget,
        source: ByteSource,
        protected: Collection[int],
    ) -> None:
        super().__init__(records, plan.sizes, budget, source)
        self.protected = tuple(protected)
        self._ordered = plan.ordered
        (counts,) = records.count([(0,)])
        self.n_records = int(counts.sum())

    def error(
        self, clique: Clique, share: Fraction, groups: Groups | None = None
    ) -> float:
        """Return the standard deviation of each count of a marginal that a share buys.

        Without the noise of the column's own counts, which `measure` adds to centred ones.
        """
        return self._error(self._form(clique, groups), share)

    def n_noisy_cells(self, clique: Clique, groups: Groups | None = None) -> int:
        """Count the cells of a marginal that get noise: public cells without records get none."""
        form = self._form(clique, groups)
        return form.n_cells * form.n_values

    def measure(
        self, clique: Clique, share: Fraction, groups: Groups | None = None
    ) -> Marginal:
        """Count a marginal with noise, as far as it is not public."""
        (exact,) = self._records.count([clique])
        exact = group(exact, groups)
        axes = [axis for axis, name in enumerate(clique) if name in self.protected]
        last = range(-len(axes), 0)
        cells = np.moveaxis(exact, axes, last)
        n_values = math.prod(cells.shape[axis] for axis in last)
        # A row for each public cell, a column for each combination of protected values.
        # Where no record is, all counts are 0.
        counts = cells.reshape(-1, n_values)
        has_records = counts.sum(axis=1) > 0
        form = self._form(clique, groups)
        noisy: NDArray[np.float64] = np.zeros(counts.shape)
        noisy[has_records] = self._count(counts[has_records], form, share)
        error = self._error(form, share)
        if form.is_centred:
            # Centred counts are deviations from the mean cell. The mean cell is the
            # column's own noisy counts over the number of cells.
            (axis,) = axes
            own_counts = self._own_counts(clique[axis]).counts
            members = None if groups is None else groups[axis]
            noisy[has_records] += group(own_counts, (members,)) / form.n_cells
        noisy = np.moveaxis(noisy.reshape(cells.shape), last, axes)
        marginal = Marginal(clique, noisy, error, groups)
        self.marginals.append(marginal)
        return marginal

    def _form(self, clique: Clique, groups: Groups | None) -> CountedForm:
        """Return the form of a marginal with the least noise."""
        named = [column for column in clique if column in self.protected]
        public = tuple(column for column in clique if column not in self.protected)
        groups_of = dict(zip(clique, groups or [None] * len(clique), strict=True))
        sizes = list(self.sizes)
        for column, members in groups_of.items():
            if members is not None:
                sizes[column] = int(members.max()) + 1
        n_values = n_cells_of(named, sizes)
        if not public:
            return CountedForm(n_values, 1, is_centred=False)
        (totals,) = self._records.count([public])
        totals = group(totals, tuple(map(groups_of.__getitem__, public)))
        n_cells = int((totals > 0).sum())
        plain = CountedForm(n_values, n_cells, is_centred=False)
        centred = replace(plain, is_centred=True)
        if len(named) > 1 or n_cells < 2:
            return plain
        # Of purely private noise, more than two centred cells take more.
        if self._error(centred, Fraction(1)) <= self._error(plain, Fraction(1)):
            return centred
        return plain

    def _error(self, form: CountedForm, share: Fraction) -> float:
        std_error = self.budget.std_error(share, form.change) * form.noise_left
        return max(LEAST_ERROR, std_error)

    def _count(
        self, counts: NDArray[np.int64], form: CountedForm, share: Fraction
    ) -> NDArray[np.float64]:
        """Count public cells by protected values with noise; if centred, return deviations from the mean cell."""
        numbers = form.numbers_of(counts)
        counted = numbers[: form.n_counted_cells, : form.n_counted_values]
        noisy = self.budget.counts(self._source, share, counted, form.change)
        noisy = form.complete_cells(noisy)
        # The sums over the values are known: (n_cells, 1).
        totals = numbers.sum(axis=1, keepdims=True)
        noisy = form.complete_values(noisy, totals)
        if form.is_centred:
            noisy = noisy / form.n_cells
        return noisy

    def _own_counts(self, column: int) -> Marginal:
        """Return the noisy counts of a protected column by itself."""
        noisy = [
            marginal for marginal in self.marginals if marginal.clique == (column,)
        ]
        return merge(noisy)[0]

    def column_errors(self, n_columns: int) -> list[float]:
        """Return the standard errors of the counts of columns: 0 if they are public."""
        errors = []
        for column in range(n_columns):
            error = 0.0
            if column in self.protected:
                error = self._own_counts(column).std_error
            errors.append(error)
        return errors

    def estimate_columns(self) -> list[NDArray[np.float64]]:
        """Return the counts of all columns: exact if they are public, else estimated."""
        n_columns = len(self.sizes)
        return [self.shares_of(column) * self.n_records for column in range(n_columns)]

    def shares_of(self, column: int) -> NDArray[np.float64]:
        """Return the distribution of a column: exact if it is public, else estimated."""
        if column in self.protected:
            noisy = self._own_counts(column)
            ordered = self._ordered[column]
            return estimate_shares(noisy.counts, noisy.std_error, ordered=ordered)
        (counts,) = self._records.count([(column,)])
        return np.asarray(counts / max(1, counts.sum()))


def with_protected(plan: Plan, protected: Collection[int]) -> Plan:
    """Leave the marginals of public columns out of a plan: they are known."""
    workload = tuple(_with_any_of(protected, plan.workload))
    if plan.workload and not workload:
        raise ValueError(
            "workload must name a column of protect: all others are public"
        )
    _check_combinations(protected, plan.sizes)
    return replace(plan, workload=workload)


def _with_any_of(columns: Collection[int], cliques: Iterable[Clique]) -> list[Clique]:
    """Return the marginals that have a column of these."""
    return [clique for clique in cliques if not set(clique).isdisjoint(columns)]


def _check_combinations(protected: Collection[int], sizes: Sequence[int]) -> None:
    """Refuse more combinations of protected values than are modelled."""
    n_values = math.prod(shape_of(protected, sizes))
    if n_values > MOST_EVEN:
        raise ValueError(
            f"the columns of protect have {n_values:,} combinations of values; at most "
            f"{MOST_EVEN:,} are modelled. Protect fewer, or declare coarser bins"
        )


def measure_protected(
    table: ProtectedTable, plan: Plan, strategy: Strategy
) -> dict[Clique, tuple[float, float]]:
    """Spend the budget on marginals with protected columns; return the noisy scores."""
    singles: list[Clique] = [(column,) for column in table.protected]
    further = []
    for clique in _with_any_of(table.protected, strategy.candidates(plan)):
        if len(clique) > 1:
            further.append(clique)
    scores: dict[Clique, Score] = {}
    # Columns come first: centred counts of pairs are added to theirs.
    cells = Cells(table.sizes, (None,) * len(table.sizes))
    chosen = further
    # Noise of a single column is in all its pairs that are not measured, too.
    weights = {}
    for clique in singles:
        weights[clique] = len(plan.sizes) * _noise_of(table, clique, cells)
    if further and not strategy.is_certain:
        _spend(table, weights, COLUMN_SHARE, cells)
        groups = _group_values(table, plan)
        scores = _score(table, further)
        cells = Cells(table.sizes, groups)
        gains = expected_gains(scores) or _gains_without_scores(table, further)
        chosen = _choose(table, plan, gains, weights, cells)
    for clique in chosen:
        weights[clique] = _noise_of(table, clique, cells)
    _spend(table, weights, table.budget.left, cells)
    return {clique: (score.noisy, score.std_error) for clique, score in scores.items()}


def _noise_of(table: ProtectedTable, clique: Clique, cells: Cells) -> float:
    """Return the sum of the standard deviations of all cells, in units of that of one plain count."""
    groups = cells.of(clique)
    # A table without records has no such cells, and a cost of 0 cannot be compared.
    n_cells = max(1, table.n_noisy_cells(clique, groups))
    error = table.error(clique, Fraction(1), groups)
    return n_cells * error / table.budget.std_error(Fraction(1))


def _spend(
    table: ProtectedTable,
    weights: Mapping[Clique, float],
    share: Fraction,
    cells: Cells,
) -> None:
    """Measure marginals with the least weighted sum of the errors of their cells."""
    shares = table.budget.best_shares(list(weights.values()), share)
    for clique, part in zip(weights, shares, strict=True):
        table.measure(clique, part, cells.of(clique))


def _group_values(table: ProtectedTable, plan: Plan) -> Groups:
    """Group values of all columns that are rare against the noise of pairs."""
    # Beside each public value, the noise of protected counts is the same: a column of
    # many values has much of it. How many records public values have is known exactly.
    noise = table.budget.std_error(table.budget.left / (2 * len(plan.sizes)))
    n_records = max(1, table.n_records)
    groups: list[NDArray[np.intp] | None] = [None] * len(plan.sizes)
    for column in range(len(plan.sizes)):
        counts = table.shares_of(column) * n_records
        ordered = plan.ordered[column]
        members = group_column(
            counts,
            n_records,
            noise,
            ordered=ordered,
            largest_rare_share=_LARGEST_RARE_SHARE,
        )
        if members is not None and 1 < members.max() + 1 < counts.size:
            groups[column] = members
    return tuple(groups)


def _score(table: ProtectedTable, cliques: Sequence[Clique]) -> dict[Clique, Score]:
    """Measure how far marginals are from independent columns; none if noise hides it."""
    # The number of records is public. A share that is k times as large has errors that
    # are smaller by k to the power of the budget.
    n_records = max(1, table.n_records)
    relative_error = table.budget.score_error(LEAST_SCORES, len(cliques)) / n_records
    factor = (relative_error / _WANTED_SCORE_ERROR) ** (1 / float(table.budget.power))
    most = float(MOST_SCORES / LEAST_SCORES)
    share = LEAST_SCORES * Fraction(min(most, max(1.0, factor)))
    error = table.budget.score_error(share, len(cliques))
    if error > _LARGEST_SCORE_ERROR * n_records:
        return {}
    n_columns = len(table.sizes)
    no_groups = (None,) * n_columns
    errors = table.column_errors(n_columns)
    independent = IndependentColumns(table.estimate_columns(), errors, no_groups)
    guesses = map(independent.guess, cliques)
    exact = table.compare(cliques, guesses, no_groups)
    noisy = exact.release(cliques, share)
    scores = [Score(value, error) for value in noisy.tolist()]
    return dict(zip(cliques, scores, strict=True))


def _gains_without_scores(
    table: ProtectedTable, cliques: Sequence[Clique]
) -> dict[Clique, float]:
    """Return what marginals are expected to gain where scores would be noise."""
    return dict.fromkeys(cliques, _EXPECTED_GAIN * table.n_records)


def _choose(
    table: ProtectedTable,
    plan: Plan,
    gains: Mapping[Clique, float],
    weights: Mapping[Clique, float],
    cells: Cells,
) -> list[Clique]:
    """Choose what gains more than its noise costs all that share the budget."""
    sizes = list(plan.sizes)
    for column in table.protected:
        members = cells.groups[column]
        if members is not None:
            sizes[column] = int(members.max()) + 1
    noise = {}
    for clique in gains:
        # Values are counted together until noise seldom makes counts negative, which
        # `NOISE_COST` expects to be repaired.
        noise[clique] = _GROUPED_NOISE_COST * _noise_of(table, clique, cells)
    candidates = Candidates(
        budget=table.budget,
        share=table.budget.left,
        plan=replace(plan, sizes=tuple(sizes)),
        gains=gains,
        noise=noise,
        column_noise=[_GROUPED_NOISE_COST * weight for weight in weights.values()],
    )
    # Costs are noise to the power of 1 / (1 + power of the budget). This power undoes
    # it: marginals are ranked by gain over the noise of all their cells.
    return candidates.choose(rank_power=1 + float(table.budget.power)).chosen


def expected_gains(scores: Mapping[Clique, Score]) -> dict[Clique, float]:
    """Return what is expected of marginals given their noisy scores, by the distribution of all of these."""
    # Empirical Bayes: the largest of noisy scores is so by luck, and what they have in
    # common is known better than each. Both are taken for normal.
    noisy = np.array([score.noisy for score in scores.values()])
    if noisy.size < 2:
        return {clique: score.noisy for clique, score in scores.items()}
    variance = float(noisy.var(ddof=1))
    noise = next(iter(scores.values())).std_error ** 2
    signal_share = 0.0
    if variance > noise:
        signal_share = 1 - noise / variance
    mean = float(noisy.mean())
    expected = mean + signal_share * (noisy - mean)
    return dict(zip(scores, expected.tolist(), strict=True))
