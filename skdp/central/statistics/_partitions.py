"""Values of several columns, found together: by thresholds on counts of rows, or on weights of persons."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.central.statistics._batches import Batches
from skdp.central.statistics._cells import declared_domain
from skdp.central.statistics._discovery import (
    Published,
    code_values,
    count_codes,
    discovery_threshold,
    of_one_kind,
    publish,
    warn_of_kinds,
)
from skdp.central.statistics._noise import Noise
from skdp.central.statistics._private_bounds import PRIVATE
from skdp.domain import Domain
from skdp.exact import exp_minus_bounds
from skdp.privacy import Share, check_delta, largest_mu
from skdp.randomness import ByteSource
from skdp.tables import ColumnError, Table, shielded

Coded = tuple[list[Any], NDArray[np.unsignedinteger]]
"""The values of a column, and the code of each row, as of `code_values`."""

_WHOLE = 1 << 20
"""The squares of the weights of a person add up to at most the square of this."""

_HOPELESS = 1 << 40
"""Persons that no value has."""

_PI = Fraction(314159265, 10**8)
"""A lower bound."""


class Discovery(ABC):
    """A planned discovery of the values of some columns."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def needed(self) -> Fraction:
        """How many persons must have a value so that it passes without noise, if all of them have many others."""

    @abstractmethod
    def find(
        self,
        source: ByteSource,
        columns: Sequence[Coded],
        persons: NDArray[np.intp] | None,
    ) -> list[Published]:
        """Draw; return which values of each column are published, in their order."""


@dataclass(frozen=True)
class CountThreshold(Discovery):
    """Laplace noise on the number of rows of each value, column by column: `discover_values`."""

    name = "discrete Laplace"

    epsilon: Fraction
    delta: Fraction
    n_columns: int
    rows: int

    @property
    def needed(self) -> Fraction:
        epsilon, delta = self._parts
        return Fraction(
            discovery_threshold(
                epsilon=epsilon, delta=delta, max_rows_per_person=self.rows
            )
        )

    @property
    def _parts(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta of each column."""
        return self.epsilon / self.n_columns, self.delta / self.n_columns

    def find(
        self,
        source: ByteSource,
        columns: Sequence[Coded],
        persons: NDArray[np.intp] | None,
    ) -> list[Published]:
        epsilon, delta = self._parts
        published = []
        for values, codes in columns:
            counts = count_codes(values, codes)
            published.append(
                publish(
                    source,
                    values,
                    counts,
                    epsilon=epsilon,
                    delta=delta,
                    max_rows_per_person=self.rows,
                )
            )
        return published


@dataclass(frozen=True)
class WeightThreshold(Discovery):
    """Gaussian noise on weights, of which a person gives the same to each of their distinct values ([1]_)."""

    # A person with n distinct values, those of all columns together, adds ``floor(W / sqrt(n))`` to the total of each.
    # So they move all totals by at most W in L2 norm. Each total gets rounded Gaussian noise of variance ``W**2 /
    # mu**2``, and a value is published if its own reaches the threshold.
    # *Values that others have too* are a function of totals with noise that is (epsilon, delta / 2)-private, as mu is
    # the largest that is. *Values that are new*, j of their n: none is published with probability Q, for any outcome of
    # the others. As at `discovery_threshold`, with p <= exp(epsilon) p' + delta / 2 among the others, the outcomes of
    # both have delta = delta / 2 + 1 - Q. By the union bound ``1 - Q <= n P(weight + noise >= threshold)``, which the
    # threshold keeps below delta / 2 for each n.
    # .. [1] S. Gopi, P. Gulhane, J. Kulkarni, J. H. Shen, M. Shokouhi, S. Yekhanin (2020). Differentially private set
    #    union. ICML.

    name = "rounded Gaussian"

    mu_squared: Fraction
    threshold: int
    most: int
    """The most distinct values of a person."""

    @classmethod
    def planned(cls, epsilon: Fraction, delta: Fraction, most: int) -> WeightThreshold:
        """Find the noise and the threshold."""
        noise = cls(Fraction(largest_mu(epsilon, delta / 2)) ** 2, 0, most)
        return cls(
            noise.mu_squared,
            weight_threshold(noise.noise.scale, delta / 2, most),
            most,
        )

    @property
    def noise(self) -> Noise:
        """The noise of each total."""
        return Noise("mu", self.mu_squared, _WHOLE**2)

    @property
    def needed(self) -> Fraction:
        return Fraction(self.threshold, weight_of(self.most))

    def find(
        self,
        source: ByteSource,
        columns: Sequence[Coded],
        persons: NDArray[np.intp] | None,
    ) -> list[Published]:
        totals = total_weights(
            [codes for _, codes in columns],
            [len(values) for values, _ in columns],
            persons,
        )
        noisy = totals + self.noise.draw(source, totals.size)
        published = []
        start = 0
        for values, _ in columns:
            of_column = noisy[start : start + len(values)].tolist()
            above = {
                place: total
                for place, total in enumerate(of_column)
                if total >= self.threshold
            }
            published.append(of_one_kind(values, above))
            start += len(values)
        return published


def weight_of(n_values: int) -> int:
    """Return the weight of each of n distinct values of a person."""
    return math.isqrt(_WHOLE**2 // n_values)


def total_weights(
    codes: Sequence[NDArray[Any]],
    sizes: Sequence[int],
    persons: NDArray[np.intp] | None,
) -> NDArray[np.int64]:
    """Add up the weights of all values of all columns; without persons, each row is one of its own."""
    who = np.arange(len(codes[0])) if persons is None else persons
    starts, n_items = np.cumsum([0, *sizes[:-1]]), sum(sizes)
    pairs = [
        who[column < size] * n_items + column[column < size].astype(np.int64) + start
        for column, size, start in zip(codes, sizes, starts, strict=True)
    ]
    # Each value of a person counts once, in however many of the rows it is.
    holder, item = np.divmod(np.unique(np.concatenate(pairs)), max(n_items, 1))
    n_values = np.bincount(holder)
    weights = np.array([0, *map(weight_of, range(1, int(n_values.max(initial=0)) + 1))])
    totals = np.zeros(n_items, np.int64)
    np.add.at(totals, item, weights[n_values[holder]])
    return totals


@lru_cache(maxsize=64)  # each fit asks for that of the same public numbers
def weight_threshold(variance: Fraction, delta: Fraction, most: int) -> int:
    """Return the total from which a value may be published, if no person has more than `most` values."""
    too_low, above = _WHOLE, 2 * _WHOLE
    while not _is_safe(above, variance, delta, most):
        too_low, above = above, 2 * above
    while above - too_low > 1:
        middle = (above + too_low) // 2
        too_low, above = (
            (too_low, middle)
            if _is_safe(middle, variance, delta, most)
            else (middle, above)
        )
    return above


def _is_safe(threshold: int, variance: Fraction, delta: Fraction, most: int) -> bool:
    """Bound by delta the probability that a value of one person alone passes, however many values they have."""
    bits = 128 + 2 * (
        most.bit_length() + (delta.denominator // delta.numerator).bit_length()
    )
    first = 1
    while first <= most:
        # Those with up to an eighth more values are counted as if they had as many, and each the weight of the fewest.
        last = min(first + first // 8, most)
        if (
            last**2 * squared_tail(threshold - weight_of(first), variance, bits)
            > delta**2
        ):
            return False
        first = last + 1
    return True


def squared_tail(distance: int, variance: Fraction, bits: int) -> Fraction:
    """Bound from above the square of the probability that rounded Gaussian noise is at least a positive integer."""
    # Rounded noise is at least the distance if real noise is at least half less: y standard deviations. The third
    # convergent of the continued fraction of Laplace is an upper bound of the tail, ``exp(-y**2 / 2) (y**2 + 2) /
    # (y (y**2 + 3) sqrt(2 pi))``, whose square is rational but for the exponential.
    square = (distance - Fraction(1, 2)) ** 2 / variance
    square = Fraction(
        math.floor(square * (1 << 64)), 1 << 64
    )  # a variance may have many digits
    if square == 0:
        return Fraction(1)
    tail = Fraction(exp_minus_bounds(square, bits)[1], 1 << bits)
    return tail * (square + 2) ** 2 / (2 * _PI * square * (square + 3) ** 2)


def plan_discovery(
    share: Share, delta: Fraction, n_columns: int, *, persons: bool
) -> Discovery:
    """Choose how the values of some columns are found: by what is publicly known, and by the fewer persons needed."""
    counts = CountThreshold(share.amount, delta, n_columns, share.rows)
    unknown = (
        share.rows > 1 and not persons
    )  # it is not known which rows are one person's
    if unknown or counts.needed > _HOPELESS:
        return counts
    weights = WeightThreshold.planned(share.amount, delta, n_columns * share.rows)
    return min(counts, weights, key=lambda discovery: discovery.needed)


@dataclass(frozen=True)
class CategoryPlan:
    """The declared categories of a table, and how those of other columns are to be found."""

    domain: Domain
    """With None in place of what is to be found."""
    private: tuple[Any, ...] = ()
    """The columns whose categories are to be found."""
    discovery: Discovery | None = None
    columns: Sequence[Coded] = ()
    """The values of these columns."""
    persons: NDArray[np.intp] | None = None

    @property
    def mechanism(self) -> str:
        """The name of what finds categories."""
        if self.discovery is None:
            return "declared categories"
        return f"{self.discovery.name} noise and thresholds on categories"

    def find(self, source: ByteSource) -> tuple[Domain, dict[Any, list[Any]]]:
        """Find categories; return the domain, with None where there are none, and what is found."""
        categories: dict[Any, list[Any]] = {}
        if self.discovery is not None:
            published = self.discovery.find(source, self.columns, self.persons)
            for name, (values, _), part in zip(
                self.private, self.columns, published, strict=True
            ):
                warn_of_kinds([(name, *part.other_kinds)])
                categories[name] = [values[place] for place in part.places]
        attributes = {}
        for name in self.domain.columns:
            attributes[name] = categories.get(name) or self.domain[name]
        return Domain(attributes), categories


def plan_categories(
    rows: Batches, declared: Any, share: Share, delta: Any
) -> CategoryPlan:
    """Check what is declared of the categories of a table, and plan how the others are found."""
    private, declared = _split_categories(rows.names, declared)
    domain = declared_domain(rows.table, declared, "categories")
    if not private:
        return CategoryPlan(domain)
    discovery = check_discovery("categories", rows, share, delta, len(private))
    columns = [code_column(rows.table, name, "categories") for name in private]
    return CategoryPlan(domain, tuple(private), discovery, columns, rows.table.persons)


def check_discovery(
    what: str, rows: Batches, share: Share, delta: Any, n_columns: int
) -> Discovery:
    """Check that the values of some columns can be found, and plan how."""
    if rows.large is not None:
        raise TypeError(
            f"{what}='private' needs the values, and skdp.engines only adds up: declare "
            "them, or collect"
        )
    if share.given is not None:
        raise ValueError(
            f"{what}='private' needs an epsilon and a delta, got epsilon={share.given}"
        )
    if check_delta(delta) == 0:
        raise ValueError(
            f"{what}='private' needs delta > 0: a value that one person has may then be "
            "published by accident only"
        )
    has_persons = rows.table.persons is not None
    return plan_discovery(share, check_delta(delta), n_columns, persons=has_persons)


def code_column(table: Table, name: Any, what: str) -> Coded:
    """Code the values that occur in a column."""
    try:
        coded: Coded = shielded(code_values, table.columns[table.names.index(name)])
    except ColumnError as error:
        raise ValueError(f"column {name!r} {error}; declare its {what}") from None
    return coded


def code_together(table: Table, names: Sequence[Any], what: str) -> Coded:
    """Code the combinations of the values of some columns; an infinite number is in none of them."""
    coded = [code_column(table, name, what) for name in names]
    inside = np.logical_and.reduce([codes < len(values) for values, codes in coded])
    kept, places = (
        [codes[inside] for _, codes in coded],
        np.zeros(np.count_nonzero(inside), np.int64),
    )
    for (known, _), codes in zip(coded, kept, strict=True):
        _, first, places = np.unique(
            places * len(known) + codes, return_index=True, return_inverse=True
        )
    columns = [
        [known[code] for code in codes[first].tolist()]
        for (known, _), codes in zip(coded, kept, strict=True)
    ]
    together = np.full(inside.size, len(first), np.uint64)
    together[inside] = places
    return list(zip(*columns, strict=True)), together


def private_columns(names: Sequence[Any], declared: Any) -> list[Any]:
    """Return the columns whose categories are to be found."""
    return _split_categories(names, declared)[0]


def _split_categories(names: Sequence[Any], declared: Any) -> tuple[list[Any], Any]:
    """Return the columns whose categories are to be found, and what is declared, with None for these."""
    if isinstance(declared, str):
        if declared != PRIVATE:
            raise ValueError(
                f"categories must be {PRIVATE!r}, or declare the values of each column, got {declared!r}"
            )
        declared = dict.fromkeys(names, PRIVATE)
    if isinstance(declared, Mapping):
        private = [name for name in names if _is_private(declared.get(name))]
        return private, {
            name: [None] if _is_private(one) else one for name, one in declared.items()
        }
    if isinstance(declared, list | tuple):
        private = [
            name for name, one in zip(names, declared, strict=False) if _is_private(one)
        ]
        return private, [[None] if _is_private(one) else one for one in declared]
    return [], declared


def _is_private(values: Any) -> bool:
    return isinstance(values, str) and values == PRIVATE
