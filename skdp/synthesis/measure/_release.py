"""The release of a synthesizer: its charge, and a search of limits and frequent texts that are not declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from skdp._arrays import ColumnName
from skdp.base import parse_ends
from skdp.central import LimitSearch, plan_limit_search
from skdp.central.statistics import (
    SEARCH_PART,
    Batches,
    CategorySearch,
    Noise,
    choice_name,
    plan_categories,
)
from skdp.domain import FoundCategories, Interval, close_interval
from skdp.privacy import Loss, PrivacyBudget, gaussian_loss, largest_mu
from skdp.randomness import ByteSource

MAX_STD_ERROR = 10**30
"""Largest standard error of a count, for one row per person; with more noise nothing is learned."""

FoundValues = Mapping[ColumnName, Interval | FoundCategories]
"""Values of columns that are found: intervals with an open end, and texts without values."""


def plan_release(
    budget: PrivacyBudget,
    delta: Fraction,
    found: FoundValues,
    names: Sequence[ColumnName],
    *,
    max_values: int,
    rows: int = 1,
    n_changed: int = 1,
) -> PlannedRelease:
    """Plan the noise of a release, and a search of the values `found` of some of the columns `names`.

    A column of text has at most `max_values` values. A person has at most `rows` rows in counts, and neighboring tables
    differ in `n_changed` rows for each of them.
    """
    texts = [n for n, values in found.items() if isinstance(values, FoundCategories)]
    if texts:
        _check_texts(texts, budget, delta)
    # The threshold of counts of texts has one half of delta.
    noise_budget = _choose_noise_budget(budget, delta / 2 if texts else delta, rows)
    rest = replace(noise_budget, rows_per_person=n_changed * rows)
    categories = None
    if texts:
        part = SEARCH_PART * Fraction(len(texts), len(names))
        categories = plan_categories(
            texts, rest, budget, delta, part=part, max_values=max_values
        )
        rest *= 1 - part
    numbers = {name: values for name, values in found.items() if name not in texts}
    ends = parse_ends({name: numbers.get(name, (0, 1)) for name in names}, names)
    limits = plan_limit_search(names, ends, rest, within=False)
    if limits is not None:
        rest = limits.rest
    # Counts after the search have the `n_changed` rows in their sensitivities.
    rest = replace(noise_budget, amount=rest.amount)
    return PlannedRelease(budget, delta, noise_budget, rest, found, limits, categories)


def _choose_noise_budget(
    budget: PrivacyBudget, delta: Fraction, rows: int
) -> PrivacyBudget:
    """Return the budget of noise: epsilon for Laplace noise, or mu for Gaussian noise.

    With a `delta`, it is the largest mu that implies (epsilon, delta), unless this budget is too small for any result.
    """
    kind, amount = budget.kind, budget.amount
    # The standard error is about rows / epsilon, or over mu.
    min_amount = Fraction(rows, MAX_STD_ERROR)
    if kind != "epsilon":
        kind, amount = "mu", budget.mu_squared
    # mu is about the larger one of epsilon and delta, or less. If both are too small,
    # the error below is raised without computing it.
    elif delta > 0 and max(amount, delta) >= min_amount:
        kind, amount = "mu", Fraction(largest_mu(amount, delta)) ** 2
    if kind == "mu":
        min_amount **= 2
    if amount < min_amount:
        raise ValueError(
            "`epsilon` or `delta` is too small: the noise would exceed "
            f"{MAX_STD_ERROR:g} records per row of a person."
        )
    return PrivacyBudget(kind, amount, rows_per_person=rows)


def _check_texts(
    names: Sequence[ColumnName], budget: PrivacyBudget, delta: Fraction
) -> None:
    """Check that the budget has a delta, with which the values of columns of text are found."""
    if budget.given is not None or not delta:
        raise ValueError(
            f"`domain` must declare the values of the columns {list(names)}, got none. "
            "Declare them, or set `delta` in (0, 1), with a number as epsilon: values of "
            "many rows are then found."
        )


@dataclass(frozen=True, eq=False)
class PlannedRelease:
    """The release of a synthesizer: its budget, a search of the values of some columns, and the budget of the rest."""

    budget: PrivacyBudget
    delta: Fraction
    noise_budget: PrivacyBudget
    """The budget of all noise, in epsilon or in mu."""
    rest: PrivacyBudget
    """The part of `noise_budget` that is left by the search."""
    found: FoundValues
    limits: LimitSearch | None
    texts: CategorySearch | None

    @property
    def noise_name(self) -> str:
        """The name of the noise."""
        return Noise.from_budget(self.noise_budget).name

    def name_marginals(self, *, selects: bool) -> str:
        """Return the name of the mechanisms that measure marginals, and select them if `selects`."""
        if not selects:
            return f"{self.noise_name} noise on marginals"
        choice = choice_name(self.noise_budget)
        return f"{self.noise_name} noise on marginals and scores, {choice} of marginals"

    def charge(
        self,
        charge_release: Callable[..., ByteSource],
        scope: Sequence[ColumnName],
        mechanism: str,
        n_equal: int = 0,
        **more: Any,
    ) -> ByteSource:
        """Charge a ledger for the release by a method of an estimator; return the source of random bits.

        `mechanism` is the name of the mechanisms of the rest, and `n_equal` the number of marginals that have equal
        parts of the whole budget; 0 if parts depend on results.
        """
        searches = [each.mechanism for each in (self.texts, self.limits) if each]
        method = {} if self.texts is None else {"categories": self.texts.describe()}
        is_gaussian = self.noise_budget.kind == "mu"
        losses: tuple[Loss, ...] = ()
        # The threshold of counts of texts needs a delta. With a larger mu, the loss adds
        # nothing to epsilon.
        is_known = is_gaussian and self.texts is None
        if is_known and self.noise_budget.amount <= 10**199:
            losses = (gaussian_loss(self.noise_budget.amount),)
        elif n_equal and not is_gaussian:
            part = self.noise_budget / n_equal
            losses = (replace(Noise.from_budget(part).loss, count=n_equal),)
        return charge_release(
            self.budget,
            scope,
            "; ".join([*searches, mechanism]),
            delta=self.delta,
            rho=self.noise_budget.amount / 2 if is_known else None,
            losses=losses,
            method=method,
            **more,
        )

    def count(self, rows: Batches) -> tuple[Any, Any]:
        """Count the values of the columns without noise, for `find`."""
        texts = None if self.texts is None else self.texts.count(rows)
        return texts, None if self.limits is None else self.limits.count(rows)

    def find(
        self,
        rows: Batches,
        counts: tuple[Any, Any],
        source: ByteSource,
        state_limits: Callable[..., None],
    ) -> dict[Any, Interval | FoundCategories]:
        """Find the values of the columns, by name; `counts` are the result of `count`.

        `state_limits` is a method of an estimator that states all limits.
        """
        values: dict[Any, Interval | FoundCategories] = {}
        of_texts, of_limits = counts
        if self.texts is not None:
            values |= self.texts.find(of_texts, source)
        if self.limits is not None:
            found = self.limits.find(rows, of_limits, source, "the synthesizer")
            state_limits(self.limits, found)
            limits = found.bounds.tolist()
            for name, ends in zip(self.limits.names, limits, strict=True):
                interval = self.found.get(name)
                if isinstance(interval, Interval):
                    values[name] = close_interval(interval, *ends)
        return values
