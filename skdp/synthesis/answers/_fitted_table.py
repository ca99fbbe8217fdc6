"""A fitted table: public facts, noisy counts and a model of them, which answer questions without the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from skdp._arrays import Codes, Indices, Mask
from skdp.domain import Domain, Interval
from skdp.synthesis.answers._synthetic_rows import (
    DrawnRows,
    Ranks,
    constrains_numbers,
    draw_numbers,
    draw_valid,
    find_invalid,
    learn_ranks,
    make_table,
    write_columns,
)
from skdp.synthesis.measure import FittedCounts, is_within
from skdp.synthesis.model import (
    GraphicalModel,
    Structure,
    estimate_total,
    merge_marginals,
)
from skdp.synthesis.private._table import make_template
from skdp.tables import Table


@dataclass(frozen=True, eq=False)
class Conditions:
    """Conditions on the rows that are drawn: the model given whole bins and values, and ranges within bins."""

    model: GraphicalModel
    count: float
    """The estimated number of records that fulfill the conditions."""
    ranges: Mapping[Any, tuple[Any, Any]]
    """The smallest number of some columns, and the number after the largest one, None without a limit."""

    def find_outside(self, rows: DrawnRows) -> Mask:
        """Return True for each row with a number outside of a range."""
        is_outside = np.zeros(rows.n_rows, bool)
        for name, (low, high) in self.ranges.items():
            numbers = rows.numbers[name]
            is_outside |= numbers < low
            if high is not None:
                is_outside |= numbers >= high
        return is_outside


@dataclass(frozen=True, eq=False)
class FittedTable:
    """The result of a fit, which synthesizers, files and inference hold: all else is computed from it."""

    domain: Domain
    """Values of each modeled column, or the bins of the model; a target is last."""
    features: tuple[Any, ...]
    """Names of the columns of X, including derived columns."""
    template: Table
    """A table without rows that has the library and the dtypes of the output."""
    counts: FittedCounts
    """The noisy counts and the model."""
    found: frozenset[Any]
    """Names of the columns whose bins were found from noisy counts."""

    @classmethod
    def of(
        cls,
        features: Sequence[Any],
        table: Table,
        domain: Domain,
        counts: FittedCounts,
        declared: Mapping[Any, Any],
    ) -> FittedTable:
        """Join the names of the columns of X, the form of a table, its final domain, and its noisy counts.

        Columns that have an Interval without bins in `declared` have found bins.
        """
        template = make_template(table, domain)
        found = set()
        for column in counts.shapes:
            values = declared.get(domain.columns[column])
            if isinstance(values, Interval) and not values.has_bins:
                found.add(domain.columns[column])
        return cls(domain, tuple(features), template, counts, frozenset(found))

    @cached_property
    def n_rows(self) -> tuple[float, float]:
        """The estimated number of records, and its standard error."""
        return estimate_total(self.counts.marginals)

    @cached_property
    def _ranks(self) -> Ranks | None:
        # Found bins are wide, so the numbers within them depend on each other.
        ranked = {}
        for column, shape in self.counts.shapes.items():
            if self.domain.columns[column] in self.found:
                ranked[column] = shape
        return learn_ranks(self.counts.model, ranked)

    def draw_rows(
        self,
        n: int,
        rng: np.random.Generator,
        template: Table | None = None,
        given: Conditions | None = None,
    ) -> DrawnRows:
        """Draw n rows that satisfy all constraints; `template` has the library in which these are evaluated.

        With `given`, rows are drawn given these conditions.
        """
        counts, template = self.counts, template or self.template
        model = counts.model if given is None else given.model

        def draw_within(codes: Sequence[Codes]) -> DrawnRows:
            """Draw numbers within bins."""
            ranks, shapes = self._ranks, counts.shapes
            positions = None if ranks is None else ranks.draw(codes, rng)
            return draw_numbers(self.domain, list(codes), rng, shapes, positions)

        def draw(indices: Indices) -> DrawnRows:
            return draw_within([*model.sample(indices.size, rng)])

        def find_wrong(_: Indices, drawn: DrawnRows) -> Mask:
            wrong = find_invalid(template, drawn)
            return wrong if given is None else wrong | given.find_outside(drawn)

        def draw_given(indices: Indices) -> DrawnRows:
            """Draw rows within the ranges of conditions, before numbers are resampled for constraints."""
            if given is None or not given.ranges:
                return draw(indices)
            return draw_valid(
                draw, lambda _, drawn: given.find_outside(drawn), indices.size
            )[0]

        has_numbers = constrains_numbers(self.domain, self.domain.columns)
        rows, invalid = draw_valid(
            draw_given,
            find_wrong,
            n,
            (lambda _, drawn: draw_within(drawn.codes)) if has_numbers else None,
        )
        valid = np.delete(np.arange(n), invalid)
        if invalid.size and valid.size == 0:
            facts = (
                "constraints of `domain`"
                if given is None
                else "constraints and conditions"
            )
            raise ValueError(
                f"The {facts} must be satisfied by some rows of the model, got "
                f"{list(self.domain.constraints)} and no such row. Remove some of them, or "
                "declare both ends and narrower bins."
            )
        if invalid.size:
            rows.replace(invalid, rows, rng.choice(valid, invalid.size))
        return rows

    def draw_columns(
        self,
        n: int,
        rng: np.random.Generator,
        template: Table | None = None,
        given: Conditions | None = None,
    ) -> dict[Any, Any]:
        """Draw n rows as columns by name, in the library of a template: features, derived columns, and the target."""
        template = template or self.template
        columns = write_columns(template, self.draw_rows(n, rng, template, given))
        order = [*self.features, *self.domain.derived, *self.domain.columns]
        return {name: columns[name] for name in order}

    def draw_table(self, n: int, rng: np.random.Generator) -> Any:
        """Draw a table of n rows."""
        return make_table(self.template, self.draw_columns(n, rng))

    def name_columns(self, clique: Sequence[int]) -> tuple[Any, ...]:
        """Return the names of columns, given their indices."""
        return tuple(map(self.domain.columns.__getitem__, clique))

    @property
    def noise_scales(self) -> dict[tuple[Any, ...], float]:
        """Standard deviation of the noise of each count, by the names of the columns of a marginal."""
        scales: dict[tuple[Any, ...], float] = {}
        for marginal in merge_marginals(self.counts.marginals):
            names = self.name_columns(marginal.clique)
            # Measurements with different groups are not merged: the smaller noise is
            # stated.
            scales[names] = min(marginal.std_error, scales.get(names, np.inf))
        return scales

    @property
    def pair_scores(self) -> pd.DataFrame:
        """Noisy scores of pairs of columns, in descending order."""
        structure = Structure(self.domain.sizes)
        measured = []
        for marginal in self.counts.marginals:
            # Groups of many columns do not measure their pairs.
            if marginal.groups is None or not structure.is_coarse(
                marginal.clique, marginal.groups
            ):
                measured.append(marginal.clique)
        rows = []
        for pair, (score, std_error) in self.counts.scores.items():
            names = self.name_columns(pair)
            rows.append((*names, score, std_error, is_within(pair, measured)))
        rows.sort(key=lambda row: -row[2])
        titles = ["first", "second", "score", "std_error", "measured"]
        table = pd.DataFrame(rows, columns=titles)
        dtypes = {"score": float, "std_error": float, "measured": bool}
        table = table.astype(dtypes).set_index(["first", "second"])
        table.attrs["n_searched"] = dict(self.counts.searched)
        return table
