"""Noise with a privacy budget for counts and scores, and the private records from which they are measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from skdp._arrays import Floats, Indices, Integers, Mask
from skdp.central.statistics import Noise, choose
from skdp.domain import Domain, Interval
from skdp.privacy import PrivacyBudget
from skdp.randomness import ByteSource, bernoulli_ratio
from skdp.synthesis.model import (
    Clique,
    GraphicalModel,
    Marginal,
    Structure,
    ValueGroups,
    shape_of,
    sum_value_groups,
)
from skdp.synthesis.private._records import (
    MAX_LOADED_CELLS,
    CodedRecords,
    GroupedColumn,
    Records,
)

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
"""Mean absolute value of a standard normal variable."""

MIN_STD_ERROR = 1e-3
"""Smallest standard error: noise that is nearly always 0 still gets a finite weight."""

MAX_EXACT_COUNT = 1 << 52
"""Largest noisy count; floats represent it exactly."""


N_BLOCKS = (8, 64)
"""Blocks of fine cells that are counted together, beside the cells."""


Sensitivity = tuple[int, int]
"""The largest change of integers by one record: in L1 norm, and in squared L2 norm."""

ONE_COUNT: Sensitivity = (1, 1)
"""Sensitivity of the counts of disjoint cells: a record is in one of them or in none."""


class NoiseSource:
    """A source of noise with a privacy budget, of which each measurement spends a fraction."""

    # Fractions may depend on earlier measurements as long as they add up to 1: epsilons
    # add up, and so do squares of mu ([1]_, [2]_). A record changes one count of a
    # marginal by 1, and each score by at most 1; a person with k rows, k times as much.
    # .. [1] J. Dong, A. Roth, W. Su (2022). Gaussian differential privacy. JRSS B 84(1).
    # .. [2] A. Smith, A. Thakurta (2022). Fully adaptive composition for Gaussian
    #    differential privacy. arXiv:2210.17520

    def __init__(
        self, budget: PrivacyBudget, source: ByteSource, unit: int = 1
    ) -> None:
        """Store a budget in epsilon, for Laplace noise, or in mu, for Gaussian noise, and random bits.

        `remaining` is the fraction of the budget that is not spent. Integers are measured in units of 1 / `unit`
        records.
        """
        self._budget = budget
        self._source = source
        self.unit = unit
        self.remaining = Fraction(1)

    def split(self, fraction: Fraction, unit: int = 1) -> NoiseSource:
        """Spend a fraction of the budget on a source of its own, for integers in units of 1 / `unit` records."""
        self._use_fraction(fraction)
        return NoiseSource(self._budget * fraction, self._source, unit)

    def draw_bernoulli(self, rate: Fraction, size: int) -> Mask:
        """Draw True with a probability, independent of all records; shape (size,)."""
        return bernoulli_ratio(self._source, *rate.as_integer_ratio(), size)

    @property
    def is_gaussian(self) -> bool:
        """True if the noise is Gaussian; otherwise it is discrete Laplace."""
        return self._budget.kind == "mu"

    def _make_noise(self, fraction: Fraction, sensitivity: Sensitivity) -> Noise:
        """Return the noise of integers that are measured with a fraction of the budget."""
        budget = self._budget * fraction
        l1, l2_squared = sensitivity
        return Noise.from_budget(budget, l1 * self.unit, l2_squared * self.unit**2)

    def _make_score_noise(
        self, fraction: Fraction, n_scores: int, change: int = 1
    ) -> Noise:
        """Return the joint noise of scores, each of which a record changes by at most `change`."""
        return Noise.joint(self._budget * fraction, change * self.unit, n_scores)

    def std_error(
        self, fraction: Fraction, sensitivity: Sensitivity = ONE_COUNT
    ) -> float:
        """Return the standard error of counts that are measured with a fraction of the budget."""
        noise = self._make_noise(fraction, sensitivity)
        return max(MIN_STD_ERROR, float(noise.std) / self.unit)

    def noise_scale(self, fraction: Fraction) -> float:
        """Return the standard deviation of noise before rounding, proportional to a power of the fraction."""
        noise = self._make_noise(fraction, ONE_COUNT)
        root = noise.scale**0.5 if self.is_gaussian else math.sqrt(2) * noise.scale
        return float(root) / self.unit

    def relative_error(self, noise_scale: float) -> float:
        """Return the mean absolute noise after rounding, relative to that before; `noise_scale` is its deviation."""
        scale = noise_scale * self.unit
        if not self.is_gaussian:
            rate = min(math.sqrt(2) / scale, 700.0)
            return rate / math.sinh(rate)
        beyond = ndtr(-(np.arange(20) + 0.5) / min(scale, 2.0))
        return 2 * float(beyond.sum()) / (MEAN_ABSOLUTE * min(scale, 2.0))

    def score_std_error(self, fraction: Fraction, n_scores: int) -> float:
        """Return the standard error of scores that are measured with a fraction of the budget."""
        noise = self._make_score_noise(fraction, n_scores)
        return max(MIN_STD_ERROR, float(noise.std) / self.unit)

    def add_to_counts(
        self,
        counts: Integers,
        fraction: Fraction,
        sensitivity: Sensitivity = ONE_COUNT,
    ) -> Floats:
        """Spend a fraction of the budget on noise for integers, such as the counts of disjoint cells.

        `sensitivity` is the largest change of all these integers by one record. The result is in records.
        """
        self._use_fraction(fraction)
        noise = self._make_noise(fraction, sensitivity)
        drawn = noise.draw(self._source, counts.size)
        return _add_noise(counts, drawn.reshape(counts.shape)) / self.unit

    def add_to_scores(
        self, scores: Integers, fraction: Fraction, change: int = 1
    ) -> Floats:
        """Spend a fraction of the budget on noise for scores, (n_scores,), each changed by at most `change`."""
        self._use_fraction(fraction)
        noise = self._make_score_noise(fraction, scores.size, change)
        return _add_noise(scores, noise.draw(self._source, scores.size)) / self.unit

    def choice_error(self, fraction: Fraction, n_scores: int) -> float:
        """Bound the expected distance of a chosen score from the best one, with a fraction of the budget."""
        # Weights are e**(rate * score): see `skdp.randomness.exponential_mechanism`.
        rate = (self._budget * fraction).choice / (2 * self._budget.rows_per_person)
        return math.log(n_scores) / float(rate)

    def choose(self, scores: Integers, fraction: Fraction, difference: int = 2) -> int:
        """Spend a fraction of the budget to choose the index of a large score.

        A record changes the difference of two scores by at most `difference`.
        """
        self._use_fraction(fraction)
        budget = self._budget * fraction
        return choose(self._source, scores, budget, difference * self.unit)

    def _use_fraction(self, fraction: Fraction) -> None:
        """Subtract a fraction from the remaining budget, before noise is drawn."""
        if not 0 < fraction <= self.remaining:
            raise RuntimeError(
                "The fractions of the budget must be positive and add up to at most 1."
            )
        self.remaining -= fraction

    @property
    def error_power(self) -> float:
        """The power p such that a fraction f of the budget gives a standard error proportional to f**-p."""
        # Laplace noise has a scale of 1 / (f epsilon), and Gaussian noise a variance of
        # 1 / (f mu**2).
        return 1 / 2 if self.is_gaussian else 1.0

    @property
    def cost_power(self) -> float:
        """The power q such that the smallest sum of costs times errors is sum(cost**q) ** (1 / q)."""
        # With fractions f_i that add up to 1, sum(c_i f_i**-p) is smallest for f_i in
        # proportion to c_i**(1 / (1 + p)), by Lagrange multipliers, and then equal to
        # sum(c_i**q) ** (1 / q) with q = 1 / (1 + p).
        return 1 / (1 + self.error_power)

    def allocate(self, costs: Sequence[float], total: Fraction) -> list[Fraction]:
        """Split the fraction `total` of the budget such that the sum of costs times standard errors is smallest."""
        # See `cost_power`. Weights are integers, so the fractions add up to exactly `total`.
        relative = (np.array(costs, float) / max(costs)) ** self.cost_power
        weights = np.maximum(1, np.rint(relative * 2**30)).astype(np.int64).tolist()
        sum_of_weights = sum(weights)
        return [total * Fraction(weight, sum_of_weights) for weight in weights]


def _add_noise(numbers: Integers, noise: NDArray[Any]) -> Floats:
    """Add noise to integers, and clip the sums to the integers that floats represent."""
    return np.clip(numbers + noise, -MAX_EXACT_COUNT, MAX_EXACT_COUNT).astype(float)


def groups_of(clique: Clique, groups: ValueGroups) -> ValueGroups | None:
    """Return the groups of the columns of a marginal; None if no value is grouped."""
    clique_groups = tuple(groups[column] for column in clique)
    for group_of_value in clique_groups:
        if group_of_value is not None:
            return clique_groups
    return None


class PrivateScores:
    """Exact scores of marginals, of which only noisy choices and noisy scores leave this object."""

    def __init__(
        self,
        scores: Integers,
        noise: NoiseSource,
        difference: int = 2,
    ) -> None:
        """Store scores, in units of the noise, each of which a record changes by at most one unit; (n_scores,).

        A record changes the difference of two scores by at most `difference` units: one score may increase by 1 while
        another one decreases by 1, unless a record can only increase, or only decrease, all scores.
        """
        self._scores = scores
        self._noise = noise
        self._difference = difference

    def choose(
        self, candidates: Sequence[int], expected: Floats, fraction: Fraction
    ) -> int:
        """Choose one of some scores that probably exceeds its expected value most, with a fraction of the budget.

        `candidates` are indices of scores, and `expected` has a public number of records for each score.
        """
        units = np.rint(expected * self._noise.unit).astype(np.int64)
        excess = self._scores - units
        scores = excess[list(candidates)]
        index = self._noise.choose(scores, fraction, self._difference)
        return candidates[index]

    def measure(self, index: int, fraction: Fraction) -> float:
        """Measure a score with a fraction of the budget."""
        exact = self._scores[index : index + 1]
        return float(self._noise.add_to_scores(exact, fraction)[0])


class PrivateCells:
    """The private records of a fit, of which only noisy counts of the cells of single columns leave this object."""

    def __init__(
        self,
        records: Records,
        noise: NoiseSource,
        sensitivity: Sensitivity = ONE_COUNT,
    ) -> None:
        """Store the records, and the noise of all measurements.

        `sensitivity` is the largest change of the counts of the cells of a column.
        """
        self._records = records
        self._sensitivity = sensitivity
        self.noise = noise

    @property
    def n_columns(self) -> int:
        """The number of columns of the records."""
        return len(self._records.sizes)

    def refine(self, cells: Mapping[int, Interval]) -> None:
        """Encode some columns by other cells."""
        self._records = self._records.refine(cells)

    def measure_cells(
        self, columns: Iterable[int], fraction: Fraction
    ) -> dict[int, Marginal]:
        """Release the counts of the cells of columns, each with a fraction of the budget, by column."""
        cliques: list[Clique] = [(column,) for column in columns]
        measured = {}
        for clique, cells in zip(cliques, self._records.count(cliques), strict=True):
            measured[clique[0]] = self._measure_groups(clique, cells, None, fraction)
        return measured

    def cell_error(self, fraction: Fraction) -> float:
        """Return the standard error of the counts of cells that are measured with a fraction of the budget."""
        return self.noise.std_error(fraction, self._sensitivity)

    def _measure_groups(
        self,
        clique: Clique,
        cells: Integers,
        groups: ValueGroups | None,
        fraction: Fraction,
    ) -> Marginal:
        """Release the counts of groups of cells of a column."""
        counts = sum_value_groups(cells, groups)
        noisy = self.noise.add_to_counts(counts, fraction, self._sensitivity)
        return Marginal(clique, noisy, self.cell_error(fraction), groups)

    def measure_levels(
        self, columns: Sequence[int], fraction: Fraction
    ) -> dict[int, tuple[Marginal, ...]]:
        """Release the counts of the cells of columns, and of blocks of cells, with equal noise.

        `fraction` is the fraction of the budget for each column. The result has, by column, the cells first and then
        the blocks.
        """
        # Sums of many cells have the noise of few blocks ([1]_).
        # .. [1] M. Hay, V. Rastogi, G. Miklau, D. Suciu (2010). Boosting the accuracy of
        #    differentially private histograms through consistency. PVLDB 3(1).
        cliques: list[Clique] = [(column,) for column in columns]
        measured = {}
        for clique, cells in zip(cliques, self._records.count(cliques), strict=True):
            groups: list[ValueGroups | None] = [None]
            for n_blocks in N_BLOCKS:
                if 2 * n_blocks <= cells.size:
                    groups.append((np.arange(cells.size) * n_blocks // cells.size,))
            part = fraction / len(groups)
            measured[clique[0]] = tuple(
                self._measure_groups(clique, cells, members, part) for members in groups
            )
        return measured

    def coarsen(self, domain: Domain, bins: Mapping[int, Indices]) -> None:
        """Replace the codes of some columns by larger bins: `bins` has the bin of each code."""
        self._records = self._records.coarsen(domain, bins)


class PrivateCounts(PrivateCells):
    """The private records of a fit, of which only noisy counts and scores leave this object.

    A record is in one cell of each marginal, or in none.
    """

    def __init__(self, records: Records, noise: NoiseSource) -> None:
        """Store the records and the noise, and no `marginals` yet."""
        super().__init__(records, noise)
        self.marginals: list[Marginal] = []

    def measure(
        self,
        cliques: Sequence[Clique],
        fractions: Iterable[Fraction],
        groups: Mapping[Clique, ValueGroups | None] | None = None,
    ) -> list[Marginal]:
        """Measure marginals, each with a fraction of the budget, and append them to `marginals`.

        `groups` has the marginals that count records by groups of values: the group of each value of each of their
        columns, or None for a column without groups.
        """
        measured = []
        groups = groups or {}
        structure = Structure(self._records.sizes)
        coarse: dict[Clique, ValueGroups] = {}
        # A large table is not loaded for them, because their values have few cells, too.
        if isinstance(self._records, CodedRecords):
            for clique, members in groups.items():
                if members and structure.is_coarse(clique, members):
                    coarse[clique] = members
        exact_counts = self._records.count([c for c in cliques if c not in coarse])
        for clique, fraction in zip(cliques, fractions, strict=True):
            clique_groups = groups.get(clique)
            if clique in coarse:
                counts = self._count_groups(clique, coarse[clique])
            else:
                counts = sum_value_groups(next(exact_counts), clique_groups)
            noisy = self.noise.add_to_counts(counts, fraction)
            std_error = self.noise.std_error(fraction)
            measured.append(Marginal(clique, noisy, std_error, clique_groups))
        self.marginals += measured
        return measured

    def _count_groups(self, clique: Clique, groups: ValueGroups) -> Integers:
        """Count the records by groups of values, with an axis for each column, without counting their values first."""
        columns = []
        for column, members in zip(clique, groups, strict=True):
            values = np.arange(self._records.sizes[column])
            columns.append((column, values if members is None else members))
        assert isinstance(self._records, CodedRecords)
        rows = self._records.group(columns)
        return next(rows.count([tuple(range(len(clique)))]))

    def score(
        self,
        cliques: Sequence[Clique],
        guesses: Mapping[Clique, Floats],
        groups: ValueGroups,
        fraction: Fraction,
    ) -> Floats:
        """Measure the L1 distances of guessed from true counts, with a fraction of the budget; shape (n_cliques,).

        `guesses` are counts by groups of values of each marginal.
        """
        distances = []
        for clique, counts in zip(cliques, self._records.count(cliques), strict=True):
            exact = sum_value_groups(counts, groups_of(clique, groups))
            guess = guesses[clique].reshape(1, -1)
            distances.append(self._measure_distances(exact.reshape(1, -1), guess))
        exact_scores = np.concatenate(distances or [np.empty(0, np.int64)])
        return self.noise.add_to_scores(exact_scores, fraction)

    def load(self, sizes: Sequence[int]) -> bool:
        """Load records; return False for those of an engine with many combinations of declared values."""
        # The number of rows of an engine's table, which may be in memory, is private.
        if self._records.is_large and math.prod(sizes) > MAX_LOADED_CELLS:
            return False
        self._records = self._records.load()
        return True

    @property
    def can_sample(self) -> bool:
        """True if each row in memory is one record."""
        return self._records.load().weights is None

    def draw_sample(self, sampling_rate: Fraction) -> PrivateCounts:
        """Draw a Poisson sample of the records, which shares the noise."""
        # A record is sampled or not, whatever the other records are, so it changes a count of
        # the sample by at most 1, and a person with k rows changes counts by at most k.
        records = self._records.load()
        is_drawn = self.noise.draw_bernoulli(sampling_rate, records.n_records)
        return PrivateCounts(records.select(is_drawn), self.noise)

    def open_scores(
        self,
        columns: Sequence[GroupedColumn],
        cliques: Sequence[Clique],
        guesses: Sequence[NDArray[Any]],
    ) -> PrivateScores:
        """Compute the L1 distances of guessed counts of marginals from the counts, for private choices.

        `cliques` has the marginals as indices of `columns`, each a column with the group of each of its values. A guess
        has an axis for each column of its marginal.
        """
        records = self._records.load().group(columns)
        distances = np.empty(len(cliques), np.int64)
        for indices, exact in records.stack(cliques):
            stacked = np.array([guesses[index].ravel() for index in indices])
            distances[indices] = self._measure_distances(exact, stacked)
        return PrivateScores(distances, self.noise)

    def open_corrections(
        self,
        tables: Sequence[Sequence[GroupedColumn]],
        model: GraphicalModel,
        target: int,
        threshold: int,
        outcome_weights: Floats,
    ) -> PrivateScores:
        """Count the records whose target a table predicts in place of a model, for private choices.

        A table has columns, with the group of each of their values. In each cell, its prediction is the target with the
        largest weighted count, which counts by how many records more than a `threshold` it is right where the model is
        not. `outcome_weights` are the weights of records by their target, at most 1.
        """
        # A record that the model predicts right increases the number of right predictions by
        # its weight, and the largest count of a cell by at most that, so it decreases the
        # scores of some tables by at most 1. Another record increases the scores of some
        # tables by at most 1. Scores are rounded down, which keeps both.
        records = self._records.load()
        outcomes, n_outcomes = records.codes[target], records.sizes[target]
        predicted = model.predict(records.codes, target, outcome_weights)
        is_right = predicted == outcomes
        one = 1 << 16
        weights = np.ceil(one * outcome_weights).astype(np.int64)[outcomes]
        if records.weights is not None:
            weights = weights * records.weights
        scores = []
        for columns in tables:
            grouped = records.group(columns)
            shape = shape_of(range(len(columns)), grouped.sizes)
            cells = np.ravel_multi_index(grouped.codes, shape)
            values, cells = np.unique(cells, return_inverse=True)
            counts = np.zeros((values.size, n_outcomes), np.int64)
            np.add.at(counts, (cells, outcomes), weights)
            n_right = np.zeros(values.size, np.int64)
            np.add.at(n_right, cells, weights * is_right)
            corrected = counts.max(axis=1) - n_right
            corrected -= one * threshold * self.noise.unit
            scores.append(int(np.maximum(corrected, 0).sum()) // one)
        exact = np.array(scores, np.int64)
        return PrivateScores(exact, self.noise, difference=1)

    def _measure_distances(self, exact: Integers, guess: Floats) -> Integers:
        """Return the L1 distances of counts from guessed counts of marginals, (n_marginals, n_cells).

        They are integers, which a record changes by one unit.
        """
        # Guesses are rounded to integers. No table has 2**36 records, and the sum of all
        # cells is below 2**63.
        unit = self.noise.unit
        largest = min(unit << 36, (1 << 62) // exact.shape[1])
        units = np.rint(np.clip(guess * unit, 0, largest)).astype(np.int64)
        return np.abs(exact - units).sum(axis=1)
