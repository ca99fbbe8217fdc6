"""Private search of the frequent texts of columns, whose counts with noise reach a threshold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import ColumnLike, Integers
from skdp.base import name_declared
from skdp.central.statistics._batches import Batches
from skdp.central.statistics._calibrated_noise import (
    MAX_NOISY_COUNT,
    Noise,
    warn_user,
)
from skdp.domain import (
    OTHER,
    FoundCategories,
    domains_of_dtypes,
    list_values,
    to_typed,
)
from skdp.exact import exp_minus_bounds
from skdp.privacy import PrivacyBudget, largest_mu
from skdp.randomness import ByteSource
from skdp.tables import (
    ANY_TYPE,
    Table,
    drop_missing,
    name_of_dtype,
    to_object_list,
    type_of_column,
    unwrap,
)

# The fraction of the budget of a release for the search of its categories.
SEARCH_PART = Fraction(1, 5)

# A text, a whole number or a boolean after the name of its type, by which values are sorted.
TypedValue = tuple[str, str | int | bool]
Value = TypeVar("Value", str, TypedValue)

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
    # The target, if its classes are found; () otherwise.
    classes: tuple[Any, ...] = ()
    # What happens to rows of classes that are not found.
    others: str = "are excluded"

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
        names = [str(name) for name in self.names if name not in self.classes]
        facts = []
        if names:
            facts.append(
                f"{', '.join(names)}: the values with many rows are found; all others are "
                f"{OTHER!r}"
            )
        for name in self.classes:
            facts.append(
                f"{name}: the classes with many rows are found; rows of all other classes "
                f"{self.others}"
            )
        return "; ".join(facts)

    def count(self, rows: Batches) -> list[Counter[TypedValue | None]]:
        """Count the values of each column by `to_typed`, without noise."""
        columns = rows.select(self.names).count_texts(count_values)
        counts = list(map(_type_values, columns))
        for name, by_value in zip(self.names, counts, strict=True):
            if name in self.classes and by_value[None]:
                raise ValueError(
                    "y must not have missing labels (NaN or None). Drop the rows without "
                    "a label."
                )
        return counts

    def find(
        self, counts: Sequence[Counter[TypedValue | None]], source: ByteSource
    ) -> dict[Any, FoundCategories]:
        """Find the frequent values of each column; `counts` are the result of `count`."""
        found = {}
        for name, by_value in zip(self.names, counts, strict=True):
            noisy = draw_frequent(by_value, self.noise, self.threshold, source)
            kept = sorted(noisy, key=noisy.__getitem__, reverse=True)[: self.max_values]
            values = [
                None if typed is None else typed[1] for typed in sort_values(kept)
            ]
            found[name] = FoundCategories(values)
        sizes = {name: len(drop_missing(one.found)) for name, one in found.items()}
        rare = [name for name in sizes if not sizes[name] and name not in self.classes]
        for name in self.classes:
            if sizes[name] < 2:
                warn_user(
                    "Fewer than two classes of y have enough rows for this epsilon and "
                    "delta, so all rows get one prediction. Declare `classes`, or increase "
                    "`epsilon`",
                    "guide/models",
                )
        if rare:
            warn_user(
                f"No value of columns {rare} is frequent enough for this epsilon and delta, "
                f"so all of them are {OTHER!r}. Declare the values, or an Interval or bounds "
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
    """Plan a search for columns with a part of a budget; `total` is the budget of the whole release.

    A budget in mu uses half of `delta`, and the threshold the other half. With a budget in epsilon, the search chooses
    between Laplace noise, and Gaussian noise with half of `delta`.
    """
    spent = budget * part
    if budget.kind == "epsilon":
        spent = choose_noise(spent, delta / 2, len(names))
    noise = Noise.from_budget(spent, len(names), len(names))
    threshold_delta = delta / 2 if noise.is_gaussian else delta
    threshold = find_threshold(
        noise, budget.rows_per_person, len(names), threshold_delta
    )
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


def find_undeclared(table: Table, declared: object) -> list[Any]:
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


def undeclared_columns_error(
    parameter: str, declared: Any, names: Sequence[Any], features: Sequence[Any]
) -> ValueError:
    """Return an error for columns without values in a parameter; `features` are the columns of a dataframe."""
    got, remedy = "None", "Declare"
    if declared is not None:
        got = f"values of {list(declared)}"
        kept = [name for name in features if name not in names]
        remedy = f"Exclude them by X[{kept}], declare" if kept else remedy
    return ValueError(
        f"`{parameter}` must declare the values of columns {list(names)}, got {got}. "
        f"{remedy} them, or set `delta` in (0, 1), with a number as epsilon: values of "
        "many rows are then found."
    )


def check_types(table: Table, parameter: str) -> None:
    """Check that columns have dtypes whose categories can be found."""
    for name, column in zip(table.names, table.columns, strict=True):
        if type_of_column(column) not in FOUND_TYPES:
            raise ValueError(
                f"`{parameter}` must declare the values of column {name!r} of dtype "
                f"{name_of_dtype(column)}, because only text, whole numbers and booleans "
                "are found. Declare an Interval for dates."
            )


def count_values(table: Table) -> list[Counter[Any]]:
    """Count the values of each column of a table: strings as they are, and other values by `to_typed`."""
    counts: list[Counter[Any]] = []
    for column in table.columns:
        if type_of_column(column) == "string":
            counts.append(_count_texts(column))
        else:
            indices, values = list_values(column)
            counted: Counter[Any] = Counter()
            for value, n in zip(values, np.bincount(indices).tolist(), strict=True):
                counted[to_typed(value)] += n
            counts.append(counted)
    return counts


def _type_values(counts: Mapping[Any, int]) -> Counter[TypedValue | None]:
    """Return counts by type and value of texts, whole numbers and booleans, and None for missing, without `OTHER`."""
    typed: Counter[TypedValue | None] = Counter()
    for value, n in counts.items():  # an engine may have counted numbers
        kind, known = value if type(value) is tuple else to_typed(value)
        if known is None or not isinstance(known, str):
            typed[None if known is None else (kind, known)] += n
        elif known != OTHER and _is_unicode(known):
            typed[kind, known] += n
    return typed


# Counts of texts


def count_texts(table: Table, *, strict: bool = False) -> list[Counter[str | None]]:
    """Count the strings and missing values of each column of a table; other objects are an error if `strict`.

    The error reveals that such a record exists.
    """
    counts = list(map(_count_texts, table.columns))
    for name, column, counted in zip(table.names, table.columns, counts, strict=True):
        if strict and counted.total() < len(column):
            raise ValueError(
                f"Column {name!r} must have text, whole numbers or booleans, got other "
                "numbers or Python objects. Convert them to text, or set "
                "`handle_unknown='ignore'` to exclude rows with other objects."
            )
    return counts


def _count_texts(column: ColumnLike) -> Counter[str | None]:
    """Count strings and missing values; ignore other objects."""
    codes, texts = encode_texts(column)
    sizes = np.bincount(codes, minlength=len(texts)).tolist()
    counts = Counter(dict(zip(texts, sizes, strict=False)))
    return +counts  # without categories that do not occur


def encode_texts(column: ColumnLike) -> tuple[Integers, list[Any]]:
    """Return the code of the text of each row, and the texts; missing is None, and other objects have the last code.

    In place of texts, a column with a dtype of numbers or booleans has whole numbers or booleans.
    """
    codes, values = _encode_values(column)
    dtype = type_of_column(column)
    # Missing may have the code -1 so far.
    code_by_text: dict[Any, int] = {}
    mapping = []
    for value in [*values, None]:
        kind, text = to_typed(value)
        if issubclass(type(value), str):
            is_known = _is_unicode(str(text))
        else:
            is_known = kind == "unknown" or kind == dtype != "string"
        n = len(code_by_text)
        mapping.append(code_by_text.setdefault(text, n) if is_known else -1)
    texts = list(code_by_text)
    known = np.array(mapping, np.intp) % (len(texts) + 1)
    return known.take(codes, mode="wrap"), texts


def _is_unicode(text: str) -> bool:
    """Return False for lone surrogates, with which no library has a dtype of text."""
    return text.isascii() or text == text.encode(errors="ignore").decode()


def _encode_values(column: ColumnLike) -> tuple[NDArray[Any], list[Any]]:
    """Return the index of the value of each row, -1 if it is missing, and the values, which may be repeated."""
    library, stored = unwrap(column)
    if library == "pandas" and isinstance(stored.dtype, pd.CategoricalDtype):
        return stored.array.codes, stored.dtype.categories.tolist()
    if library == "pyarrow" and type_of_column(column) == "string" and len(stored):
        import pyarrow

        if not hasattr(stored.type, "index_type"):
            stored = stored.dictionary_encode()
        # Chunks may have different dictionaries.
        parts = stored.unify_dictionaries().chunks
        codes = [part.indices.fill_null(-1).to_numpy() for part in parts]
        values = pyarrow.chunked_array([parts[0].dictionary])
        return np.concatenate(codes).astype(np.intp), to_object_list(values)
    return list_values(column)


def draw_frequent(
    counts: Mapping[Value | None, int],
    noise: Noise,
    threshold: int,
    source: ByteSource,
) -> dict[Value | None, int]:
    """Add noise to the counts of all values, and return the counts that reach the threshold, sorted by value."""
    values = sort_values(counts)
    noisy = np.array([counts[value] for value in values], np.int64)
    noisy = noisy + noise.draw(source, len(values))
    return {
        values[index]: int(noisy[index]) for index in np.flatnonzero(noisy >= threshold)
    }


def sort_values(values: Iterable[Value | None]) -> list[Value | None]:
    """Sort strings or typed values, with missing last; the order does not depend on the rows."""
    ranked: list[Any] = [(value is None, value) for value in values]
    return [value for _, value in sorted(ranked)]


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


def find_threshold(
    noise: Noise, n_rows: int, n_columns: int, delta: Fraction, *, step: int = 1
) -> int:
    """Return the smallest safe threshold for noisy counts of strings.

    With probability at least 1 - delta, the noisy counts of all strings that occur only in the rows of one person are
    below the threshold. A person has at most `n_rows` rows, and there are `n_columns` columns of strings. A row adds at
    most `step` to a number with noise, and the threshold is a multiple of it.
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
        one_text = _bound_tail(noise, (threshold - n_rows) * step, delta)
        many_texts = n_rows * _bound_tail(noise, (threshold - 1) * step, delta)
        return n_columns * max(one_text, many_texts) <= delta

    too_low, high = n_rows, n_rows + 1
    while not is_safe(high):
        too_low, high = high, 2 * high
    if high > MAX_NOISY_COUNT:
        raise ValueError(
            "`epsilon` must be large enough to find values of 2**62 rows, got a smaller "
            "one. Increase it, or declare the values."
        )
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
    if noise.dimension > 1:
        return _bound_cube_tail(noise, distance, bits)
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


def _bound_cube_tail(noise: Noise, distance: int, bits: int) -> Fraction:
    """Return an upper bound of the probability that the first of D integers with K-norm noise is at least `distance`.

    Its relative error is below 2**-60 for a large scale.
    """
    # For the scale s, the density ``e**(-max|x| / s)`` of continuous noise differs from the one at
    # the center of a unit cube by a factor from ``e**(-1 / 2s)`` to ``e**(1 / 2s)``. So the
    # probability is at most ``e**(1 / s)`` times the one of a number of at least y s, with
    # y = (distance - 1 / 2) / s. This number is uniform on [-r s, r s] for a radius r with a
    # gamma distribution of shape D + 1, so the probability is half of
    #     E(max(1 - y / r, 0)) = e**-y * (sum over j < D of (1 - j / D) * y**j / j!).
    y = (distance - Fraction(1, 2)) / noise.scale
    exponent = y - 1 / noise.scale
    if exponent < 0:
        return Fraction(1)
    # Terms are rounded up, in units of 2**-64.
    ceiling = math.ceil(y * (1 << 64))
    term, total = 1 << 64, 0
    for j in range(noise.dimension):
        total += term * (noise.dimension - j)
        term = -(-term * ceiling // ((j + 1) << 64))
    bits += total.bit_length()
    rounded = Fraction(math.floor(exponent * (1 << bits)), 1 << bits)
    _, power = exp_minus_bounds(rounded, bits)
    return Fraction(power * total, noise.dimension << 65 + bits)
