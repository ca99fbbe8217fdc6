"""Private search of the frequent texts of columns, whose counts with noise reach a threshold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from skdp.base import name_declared
from skdp.central.statistics._batches import Batches
from skdp.central.statistics._calibrated_noise import Noise, warn_user
from skdp.domain import OTHER, FoundCategories, domains_of_dtypes, read_texts, to_text
from skdp.exact import exp_minus_bounds
from skdp.privacy import PrivacyBudget, largest_mu
from skdp.randomness import ByteSource
from skdp.tables import (
    ANY_TYPE,
    Table,
    is_missing,
    name_of_dtype,
    to_object_list,
    type_of_column,
)

# The fraction of the budget of a release for the search of its categories.
SEARCH_PART = Fraction(1, 5)

# The types of columns whose categories are found.
FOUND_TYPES = {"string", "number", "boolean", ANY_TYPE}


@dataclass(frozen=True, eq=False)
class CategorySearch:
    """A search of the frequent values of columns with a part of the budget of a release."""

    names: tuple[Any, ...]
    noise: Noise
    threshold: int
    # The largest number of values of a column; the most frequent ones are kept.
    max_values: int
    # The budget of the other parts of the release, and the fraction for the search.
    rest: PrivacyBudget
    part: Fraction
    # The parameters epsilon and delta, the guarantee of all parts.
    total: PrivacyBudget
    delta: Fraction

    @property
    def mechanism(self) -> str:
        """The name of the mechanism, with its fraction of the budget, for the guarantee."""
        return (
            f"{self.noise.name} on counts of values that reach {self.threshold} "
            f"({float(self.part):.0%} of the budget)"
        )

    @property
    def placeholder(self) -> dict[Any, FoundCategories]:
        """Categories with which parameters are checked before the charge: all values are `OTHER`."""
        return dict.fromkeys(self.names, FoundCategories([]))

    def describe(self) -> str:
        """Describe the search by public facts."""
        return (
            f"{', '.join(map(str, self.names))}: the values with many rows are found; all "
            f"others are {OTHER!r}"
        )

    def count(self, rows: Batches) -> list[Counter[str | None]]:
        """Count the values of each column, without noise."""
        counts = []
        for by_value in rows.select(self.names).count_texts(count_values):
            counted: Counter[str | None] = Counter()
            for value, n in by_value.items():  # an engine may have counted numbers
                text = to_text(value)
                # No library has a dtype of text with lone surrogates.
                if text is None or text == text.encode(errors="ignore").decode():
                    counted[text] += n
            del counted[OTHER]
            counts.append(counted)
        return counts

    def find(
        self, counts: Sequence[Counter[str | None]], source: ByteSource
    ) -> dict[Any, FoundCategories]:
        """Find the frequent values of each column; `counts` are the result of `count`."""
        found = {}
        for name, by_value in zip(self.names, counts, strict=True):
            noisy = draw_frequent(by_value, self.noise, self.threshold, source)
            kept = sorted(noisy, key=noisy.__getitem__, reverse=True)[: self.max_values]
            found[name] = FoundCategories(sort_texts(kept))
        rare = [name for name, values in found.items() if not values.found]
        if rare:
            warn_user(
                f"No value of columns {rare} is frequent enough for this epsilon and delta, "
                f"so all values are {OTHER!r}. Declare the values, or an Interval or bounds "
                "for numbers, and convert numbers of dtype object",
                "guide/discover_domain",
            )
        return found


def plan_categories(
    names: Sequence[Any],
    budget: PrivacyBudget,
    total: PrivacyBudget,
    delta: Fraction,
    *,
    part: Fraction,
    max_values: int,
) -> CategorySearch:
    """Plan a search for columns with a part of a budget.

    A budget in mu uses half of `delta`, and the threshold the other half. With a budget in epsilon, the search chooses
    between Laplace noise, and Gaussian noise with half of `delta`.
    """
    spent = budget * part
    if budget.kind == "epsilon":
        spent = choose_noise(spent, delta / 2, len(names))
    noise = Noise.from_budget(spent, len(names), len(names))
    threshold_delta = delta / 2 if noise.is_gaussian else delta
    threshold = find_threshold(noise, budget.rows, len(names), threshold_delta)
    return CategorySearch(
        tuple(names),
        noise,
        threshold,
        max_values,
        budget * (1 - part),
        part,
        total,
        delta,
    )


def find_undeclared(table: Table, declared: Any) -> list[Any]:
    """Return the columns without values in a parameter, or in a dtype: all, or the columns that a mapping omits."""
    if declared is not None and not isinstance(declared, Mapping):
        return []  # values of all columns
    named = {
        name
        for name, values in name_declared(table.names, declared).items()
        if not (isinstance(values, FoundCategories) and values.is_open)
    }
    by_dtype = domains_of_dtypes(table)
    return [name for name in table.names if name not in named and name not in by_dtype]


def check_types(table: Table, parameter: str) -> None:
    """Check that columns have dtypes whose categories can be found."""
    for name, column in zip(table.names, table.columns, strict=True):
        if type_of_column(column) not in FOUND_TYPES:
            raise ValueError(
                f"`{parameter}` must declare the values of column {name!r} of dtype "
                f"{name_of_dtype(column)}, because only text, whole numbers and booleans "
                "are found. Declare an Interval for dates."
            )


def count_values(table: Table) -> list[Counter[str | None]]:
    """Count the values of each column of a table by their texts; see `read_texts`."""
    return [_count_texts(read_texts(column)) for column in table.columns]


# Counts of texts


def count_texts(table: Table, *, strict: bool = False) -> list[Counter[str | None]]:
    """Count the strings and missing values of each column of a table; other objects are an error if `strict`.

    The error reveals that such a record exists.
    """
    counts = list(map(_count_texts, table.columns))
    for name, column, counted in zip(table.names, table.columns, counts, strict=True):
        if strict and counted.total() < len(column):
            raise ValueError(
                f"Column {name!r} must have text, got other Python objects. Convert "
                "numbers and dates to text, or set `handle_unknown='ignore'` to exclude "
                "rows with other objects."
            )
    return counts


def _count_texts(column: Any) -> Counter[str | None]:
    """Count strings and missing values; ignore other objects."""
    # Methods of subclasses of str are not called, because they may run any code.
    values = to_object_list(column)
    if set(map(type, values)) <= {str, float, type(None)}:
        pairs: Iterable[tuple[Any, int]] = Counter(values).items()
    else:
        pairs = ((value, 1) for value in values)
    counts: Counter[str | None] = Counter()
    for value, n in pairs:
        if issubclass(type(value), str):
            counts[str.__str__(value)] += n
        elif is_missing(value):
            counts[None] += n
    return counts


def draw_frequent(
    counts: Mapping[str | None, int], noise: Noise, threshold: int, source: ByteSource
) -> dict[str | None, int]:
    """Add noise to the counts of all texts, and return the counts that reach the threshold, sorted by text."""
    texts = sort_texts(counts)
    noisy = np.array([counts[text] for text in texts], np.int64)
    noisy = noisy + noise.draw(source, len(texts))
    return {
        texts[index]: int(noisy[index]) for index in np.flatnonzero(noisy >= threshold)
    }


def sort_texts(texts: Iterable[str | None]) -> list[str | None]:
    """Sort strings by the alphabet, which does not depend on the rows, with missing last."""
    return sorted(texts, key=lambda text: (text is None, text or ""))


# Noise and threshold


def choose_noise(
    budget: PrivacyBudget, delta: Fraction, n_columns: int
) -> PrivacyBudget:
    """Return the budget in epsilon, or in mu if Gaussian noise of (epsilon, delta) is smaller."""
    if not delta:
        return budget
    mu = Fraction(largest_mu(budget.amount, delta))
    gaussian = replace(budget, kind="mu", amount=mu**2)
    budgets = (budget, gaussian)
    return min(
        budgets, key=lambda each: Noise.from_budget(each, n_columns, n_columns).std
    )


def find_threshold(noise: Noise, n_rows: int, n_columns: int, delta: Fraction) -> int:
    """Return the smallest safe threshold for noisy counts of strings.

    With probability at least 1 - delta, the noisy counts of all strings that occur only in the rows of one person are
    below the threshold. A person has at most `n_rows` rows, and there are `n_columns` columns of strings.
    """

    # Let a table lack, and its neighbor have, a person with m_v rows of string v, up to
    # k in each column; let z be the noise of a count, and G(y) = P(z >= y).
    #
    # *Old strings, in both tables.* Their release is a function of noisy counts, which are
    # private by themselves, with epsilon (and a fraction of delta).
    #
    # *New strings, in the neighbor only.* The first table releases none. The second releases
    # none with probability Q, for any outcome of the old strings. If p and p' are the
    # probabilities of a set of outcomes among the old strings, the second table has these
    # outcomes with a probability between
    #     Q p'  and  Q p' + 1 - Q,
    # so both directions hold with delta = 1 - Q (more than the delta of the noise):
    #     Q p' + 1 - Q <= exp(epsilon) p + (1 - Q)
    #     p = Q p + (1 - Q) p <= exp(epsilon) Q p' + (1 - Q)
    #
    # *The worst person.* 1 - Q is at most the sum of G(t - m_v) over all new strings, for a
    # threshold t. G is convex for nonnegative arguments. So among all divisions of the k
    # rows of a column into j new strings, the sum is largest with one string of k - j + 1 rows
    # and j - 1 strings of one row: G(t - k + j - 1) + (j - 1) G(t - 1). This is convex in j,
    # so the maximum is at one string with k rows, or at k strings with one row each.
    def is_safe(threshold: int) -> bool:
        one_text = _bound_tail(noise, threshold - n_rows, delta)
        many_texts = n_rows * _bound_tail(noise, threshold - 1, delta)
        return n_columns * max(one_text, many_texts) <= delta

    too_low, high = n_rows, n_rows + 1
    while not is_safe(high):
        too_low, high = high, 2 * high
    while high - too_low > 1:
        middle = (high + too_low) // 2
        too_low, high = (too_low, middle) if is_safe(middle) else (middle, high)
    return high


def _bound_tail(noise: Noise, distance: int, delta: Fraction) -> Fraction:
    """Return an upper bound of the probability that noise is at least `distance` > 0.

    Its rounding error is below 2**-60 times `delta`.
    """
    # `exp_minus_bounds(x, bits)` returns integers below and above ``e**-x * 2**bits``.
    bits = 64 + (delta.denominator // delta.numerator).bit_length()
    denominator = 1 << bits
    if not noise.is_gaussian:
        # Discrete Laplace noise: a**distance / (1 + a), with a = e**(-1 / scale).
        _, upper_power = exp_minus_bounds(distance / noise.scale, bits)
        lower_base, _ = exp_minus_bounds(1 / noise.scale, bits)
        return Fraction(upper_power, denominator + lower_base)
    # Rounded noise is at least the distance if normal noise is at least the distance minus
    # 1 / 2. For y standard deviations, the probability is at most e**(-y**2 / 2) / 2. The
    # scale of Gaussian noise is its variance.
    exponent = (distance - Fraction(1, 2)) ** 2 / (2 * noise.scale)
    # Rounding the exponent down makes the bound larger, and shortens the fraction.
    _, upper_power = exp_minus_bounds(
        Fraction(math.floor(exponent * denominator), denominator), bits
    )
    return Fraction(upper_power, 2 * denominator)
