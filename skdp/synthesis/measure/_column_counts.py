"""Noisy counts of private columns by public columns: the first four steps of the selection of marginals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from skdp._arrays import Codes, Integers
from skdp.domain import Domain
from skdp.oracles import project_to_simplex
from skdp.randomness import ByteSource
from skdp.synthesis.measure._cell_counts import MAX_BINS, NumberCounts, measure_cells
from skdp.synthesis.measure._plan import MarginalPlan
from skdp.synthesis.measure._private_counts import (
    MIN_STD_ERROR,
    ONE_COUNT,
    NoiseBudget,
    PrivateCounts,
)
from skdp.synthesis.measure._selection import (
    COLUMNS_FRACTION,
    measure_marginals,
    score_pairs,
)
from skdp.synthesis.model import (
    Clique,
    Marginal,
    Structure,
    ValueGroups,
    estimate_counts,
    sum_value_groups,
)
from skdp.synthesis.private._records import CodedRecords
from skdp.synthesis.private._table import PrivateTable


class PrivateColumns(PrivateCounts):
    """Records whose public columns follow the private ones, and have public counts."""

    def __init__(
        self,
        records: CodedRecords,
        budget: NoiseBudget,
        source: ByteSource,
        n_private: int,
    ) -> None:
        """Store the records, the budget and the source of random bits; the first `n_private` columns are private."""
        super().__init__(records, budget, source)
        self._n_private = n_private

    def _release(
        self,
        clique: Clique,
        counts: Integers,
        groups: ValueGroups | None,
        fraction: Fraction,
    ) -> Marginal:
        """Release the counts of a marginal with less noise where their sums are public."""
        # The sum over the values of a private column is public.
        sums = counts.sum(axis=0)
        is_pair = clique[-1] >= self._n_private
        has_two_values = len(counts) == 2 and (is_pair or len(clique) == 1)
        if has_two_values and not self.budget.is_gaussian:
            noisy = self.budget.add_to_counts(
                self._source, counts[:1], fraction, ONE_COUNT
            )
            noisy = np.concatenate([noisy, sums - noisy])
            std_error = self.budget.std_error(fraction, ONE_COUNT)
            return Marginal(clique, noisy, std_error, groups)
        # For K public values with records, K N - S is measured with Gaussian noise, for the
        # counts N of a private value and their sum S over the public values, which the
        # counts of the private column determine better. Replacing a value changes K N - S
        # by K - 1 at one public value, and by -1 at all others, for both private values.
        has_records = sums > 0
        n_cells = int(has_records.sum())
        if not is_pair or n_cells < 2 or not self.budget.is_gaussian:
            return super()._release(clique, counts, groups, fraction)
        centered = n_cells * counts - counts.sum(axis=1, keepdims=True)
        sensitivity = 4 * (n_cells - 1), 2 * n_cells * (n_cells - 1)
        noisy = self.budget.add_to_counts(
            self._source, np.where(has_records, centered, 0), fraction, sensitivity
        )
        single, _ = estimate_counts(self.marginals, clique[:1])
        if groups is not None:
            single = sum_value_groups(single, groups[:1])
        noisy = np.where(has_records, noisy + single[:, np.newaxis], 0.0) / n_cells
        std_error = self.budget.std_error(fraction, sensitivity) / n_cells
        return Marginal(clique, noisy, std_error, groups)


def measure_columns(
    form: PrivateTable,
    records: CodedRecords,
    domain: Domain,
    public: Sequence[Codes],
    is_ordered: Sequence[bool],
    *,
    budget: NoiseBudget,
    source: ByteSource,
) -> tuple[Domain, list[Marginal], NumberCounts]:
    """Spend the budget on the fine cells and the counts of private columns, and on pairs that noisy scores select.

    `form` and `records` have the private columns, which are the first of `domain`, and `public` has the codes of the
    other columns. Return the domain with its final bins, the noisy counts with exact counts of public columns, and the
    counts of cells.
    """
    private = PrivateCounts(records, budget, source)
    domain, numbers = measure_cells(private, domain, form.cells, MAX_BINS)
    codes = records.refine(numbers.cells).coarsen(domain, numbers.bins).codes
    n_private = len(codes)
    joint = CodedRecords([*codes, *public], domain.sizes)
    columns = PrivateColumns(joint, budget, source, n_private)
    pairs = itertools.combinations(range(len(domain.columns)), 2)
    plan = MarginalPlan(
        structure=Structure(domain.sizes),
        is_ordered=tuple(is_ordered),
        # A regression has no table of many columns.
        max_cells=math.prod(domain.sizes),
        cliques=None,
        workload=tuple(pair for pair in pairs if pair[0] < n_private),
    )
    singles = plan.columns[:n_private]
    fraction = COLUMNS_FRACTION / n_private
    columns.measure(singles, [fraction] * n_private)
    for (column,), values in zip(plan.columns[n_private:], public, strict=True):
        exact = np.bincount(values, minlength=plan.sizes[column]).astype(float)
        columns.marginals.append(Marginal((column,), exact, MIN_STD_ERROR))
    counts = []
    for clique in plan.columns:
        noisy, _ = estimate_counts(columns.marginals, clique)
        counts.append(project_to_simplex(noisy, joint.n_records))
    if plan.first_candidates:
        scored = [(list(plan.first_candidates), COLUMNS_FRACTION)]
        _, candidates = score_pairs(columns, plan, counts, scored)
        # The noise of a private column is also in all its pairs.
        costs = [2 * len(plan.sizes) * size for size in plan.sizes]
        repeated = dict.fromkeys(singles, fraction)
        candidates = replace(candidates, column_costs=costs, repeated=repeated)
        measure_marginals(columns, candidates, candidates.choose())
    else:
        columns.measure(singles, [budget.remaining / n_private] * n_private)
    return domain, columns.marginals, numbers
