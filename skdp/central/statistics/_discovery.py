"""Which values occur in columns: found privately, where nobody can declare them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import level_of_the_caller
from skdp.central.statistics._batches import Batches
from skdp.central.statistics._cells import declared_domain
from skdp.central.statistics._noise import Noise
from skdp.central.statistics._private_bounds import PRIVATE
from skdp.domain import Domain
from skdp.exact import exp_minus_bounds
from skdp.oracles import check_size
from skdp.pages import warn
from skdp.privacy import Share, check_delta, check_epsilon, largest_mu
from skdp.randomness import ByteSource, discrete_laplace
from skdp.tables import (
    ANY,
    KIND_NAMES,
    ColumnError,
    Table,
    ValueCoder,
    distinct_values,
    is_missing,
    kind_of,
    kind_of_dtype,
    name_of_dtype,
    objects_of,
    plain,
    shielded,
)

# The kinds of values that are discovered; of several that are as frequent, the first.
_KINDS = ("string", "number", "boolean", "date")

# What a missing value counts as.
_MISSING = ("missing", None)

# The values of a column, and the code of each row; what cannot be discovered has the
# next code after the last value.
Coded = tuple[list[Any], NDArray[np.unsignedinteger]]


def code_values(column: Any) -> Coded:
    """Code the values that occur in a column."""
    # Only the dtype can be refused. Which values there are, and of which kinds, is
    # private: a value of any kind is counted as one, or it is nothing, and neither an
    # error nor the other values depend on it. Those that are published have one kind,
    # by their noisy counts (`of_one_kind`).
    kind = kind_of_dtype(column)
    if kind == ANY:
        return _code_objects(column)
    if kind not in _KINDS:
        raise ColumnError(
            f"is of dtype {name_of_dtype(column)}; only text, numbers, booleans and "
            "dates are discovered"
        )
    # Equal values are written alike, whichever row comes first: 1 and 1.0 are 1.
    distinct, missing = distinct_values(column)
    values = dict.fromkeys(
        _canonical(value)
        for value in distinct
        if kind != "number" or math.isfinite(value)
    )
    coder = ValueCoder([*values, None] if missing else list(values))
    return list(coder.values), coder.encode(column)


def _code_objects(column: Any) -> Coded:
    """Code Python objects, which may be of several kinds: 1, True and "1" are three values."""
    keys = [_key_of(value) for value in objects_of(column)]
    present = {key for key in keys if key is not None}
    distinct = sorted(present - {_MISSING})
    if _MISSING in present:
        distinct.append(_MISSING)
    numbers: dict[Any, int] = {key: code for code, key in enumerate(distinct)}
    codes = [numbers.get(key, len(distinct)) for key in keys]
    values = [key[1] for key in distinct]
    return values, np.array(codes, np.min_scalar_type(len(values)))


def _key_of(value: Any) -> tuple[str, Any] | None:
    """Return the kind of a value and the value, as equal ones are written; None if it cannot be discovered."""
    try:
        if is_missing(value):
            return _MISSING
        kind = kind_of(value)
        if kind == "date":
            return (kind, value) if type(value) is date else None
        if kind not in _KINDS:
            return None
        value = plain(value)
        if kind == "number":
            value = _canonical(value) if math.isfinite(value) else None
        elif type(value) not in (str, bool):
            return None  # its class has the name of a kind
    except Exception:
        # Objects that cannot be converted or compared, and numbers beyond all floats.
        return None
    return None if value is None else (kind, value)


def _canonical(value: Any) -> Any:
    """Write equal numbers alike, so that no row decides how a value is written; None for one that is no float."""
    if kind_of(value) != "number":
        return value
    for number in (int(value), float(value)):
        if number == value:
            return number
    return None


def count_codes(
    values: Sequence[Any], codes: NDArray[np.unsignedinteger]
) -> NDArray[np.int64]:
    """Count the rows of each value."""
    counts = np.bincount(codes.astype(np.intp), minlength=len(values) + 1)
    return counts[: len(values)].astype(np.int64)


def count_distinct(column: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Count the values that occur in a column, for `discover_values`."""
    values, codes = code_values(column)
    return values, count_codes(values, codes)


class Published(NamedTuple):
    """Which of the values that were counted are published."""

    # The places of these values among those that were counted.
    places: list[int]
    # For each column, the kinds of the values that reach the threshold and are left
    # out.
    other_kinds: list[list[str]]


def discover_values(
    source: ByteSource,
    values: Sequence[Any],
    counts: NDArray[np.int64],
    *,
    epsilon: Fraction | float,
    delta: Fraction | float,
    max_rows_per_person: int = 1,
    most: int | None = None,
) -> Published:
    """Publish the values of a column that occur often enough (partition selection, [1]_)."""
    # A value is published if its count plus discrete Laplace noise of scale
    # ``max_rows_per_person / epsilon`` reaches `discovery_threshold`. Missing is a
    # value like any other.
    # **Privacy.** (`epsilon`, `delta`)-differential privacy when one person with up to
    # `max_rows_per_person` rows is added or removed; proven at `discovery_threshold`.
    # To replace a person is to remove one and to add one. Nothing is charged here.
    # .. [1] A. Korolova, K. Kenthapadi, N. Mishra, A. Ntoulas (2009). Releasing search
    #    queries and clicks privately. WWW.
    threshold = discovery_threshold(
        epsilon=epsilon, delta=delta, max_rows_per_person=max_rows_per_person
    )
    occurring = np.flatnonzero(counts)
    noise = discrete_laplace(
        source, max_rows_per_person / check_epsilon(epsilon), len(occurring)
    )
    noisy_counts = counts[occurring] + noise
    is_above = noisy_counts >= threshold
    places = occurring[is_above].tolist()
    above = dict(zip(places, noisy_counts[is_above].tolist(), strict=True))
    places, other_kinds = of_one_kind(values, above)
    if most is not None:
        most_frequent = sorted(places, key=above.__getitem__, reverse=True)[:most]
        places = sorted(most_frequent)
    return Published(places, other_kinds)


def of_one_kind(values: Sequence[Any], noisy_counts: Mapping[int, int]) -> Published:
    """Choose, among the places of values with a noisy count, those of the most frequent kind, and of missing values."""
    # A domain has values of one kind. Which one, and which others there are, follows
    # from what may be published anyway: the values that reach the threshold, and their
    # noisy counts. Of combinations of the values of several columns, those of one kind
    # in the first column, then of these in the second, and so on.
    places = list(noisy_counts)
    is_together = bool(values) and isinstance(values[0], tuple)
    columns = zip(*values, strict=True) if is_together else [values]
    other_kinds = []
    for column in columns:
        totals = dict.fromkeys(_KINDS, 0)
        places_of_kinds: dict[Any, list[int]] = {kind: [] for kind in _KINDS}
        missing = []
        for place in places:
            if column[place] is None:
                missing.append(place)
                continue
            kind = kind_of(column[place])
            totals[kind] += noisy_counts[place]
            places_of_kinds[kind].append(place)
        present = [kind for kind in _KINDS if places_of_kinds[kind]]
        frequent = max(present, key=totals.__getitem__, default=_KINDS[0])
        places = sorted([*places_of_kinds[frequent], *missing])
        other_kinds.append([kind for kind in present if kind != frequent])
    return Published(places, other_kinds)


def warn_of_kinds(other_kinds: Iterable[tuple[Any, list[str]]]) -> None:
    """Warn of the columns of which frequent values are left out because most are of another kind."""
    for name, kinds in other_kinds:
        if not kinds:
            continue
        others = " or ".join(KIND_NAMES[kind] for kind in kinds)
        warn(
            f"column {name!r} has values of several kinds, and frequent ones that are "
            f"{others} are left out, since more records have values of another kind. "
            "Convert the column to one kind, or declare its values",
            UserWarning,
            about="guide/preprocessing#categories-as-columns-and-categories-that-nobody-knows",
            stacklevel=level_of_the_caller(),
        )


def discovery_threshold(
    *, epsilon: Fraction | float, delta: Fraction | float, max_rows_per_person: int = 1
) -> int:
    """Return the noisy count from which a value may be published."""
    # Let a table lack, and its neighbour have, a person with m_v rows of value v, k in
    # all at most; let z be discrete Laplace noise of scale b = k / epsilon and
    #     F(y) = P(z <= y).
    # Values are published independently of each other.
    #
    # *Values that others have too.* Whether v is published is a function of its count
    # plus z, so its probabilities differ by a factor of at most ``exp(m_v / b)``, and
    # those of any set of such values by ``exp(k / b) = exp(epsilon)``. The same holds
    # of the count plus z itself, so that of the values above the threshold those of the
    # highest noisy counts may be chosen.
    #
    # *Values that are new.* The first table never publishes one. The second publishes
    # none with probability Q, the product of F(t - 1 - m_v), for any outcome of the
    # others. If p and p' are the probabilities of a set of outcomes among the old
    # values, the second table has these outcomes with a probability between
    #     Q p'  and  Q p' + 1 - Q.
    # Both directions hold with delta = 1 - Q:
    #     Q p' + 1 - Q <= exp(epsilon) p + (1 - Q)
    #     p = Q p + (1 - Q) p <= exp(epsilon) Q p' + (1 - Q)
    # It cannot be less: where all of the k rows are new values, outcomes that the first
    # table never has make up 1 - Q.
    #
    # *The worst person.* More rows of a new value make Q smaller, so let there be k of
    # them. The law of z is log-concave, hence F is too, hence
    #     g(m) = -log F(t - 1 - m)
    # is convex; and g >= 0. Among the divisions of the k rows into j new values, a sum
    # of a convex function is largest where they are as uneven as possible:
    #     g(k - j + 1) + (j - 1) g(1)
    # This is convex in j, so it is largest at j = 1 or at j = k: one value with k rows,
    # or k values with one row each. Both are computed. (Neither is always the worse
    # one: with a small epsilon many values are, with a large one a single value.)
    #
    # *Why t is above k.* With a = exp(-1 / b),
    #     F(y) = 1 - a**(y + 1) / (1 + a)  for y >= 0,
    # and F(y) < 1/2 for y < 0: no smaller threshold would do for any delta up to 1/2.
    scale = check_size(
        max_rows_per_person, name="max_rows_per_person", least=1
    ) / check_epsilon(epsilon)
    is_safe = partial(
        _is_safe, scale=scale, delta=check_delta(delta), max_rows=max_rows_per_person
    )
    return max_rows_per_person + _least_safe(is_safe, 0)


def _least_safe(is_safe: Callable[[int], bool], too_low: int) -> int:
    """Return the least number that is safe, above one that is not."""
    high = 2 * too_low + 1
    while not is_safe(high):
        too_low, high = high, 2 * high
    while high - too_low > 1:
        middle = (high + too_low) // 2
        if is_safe(middle):
            high = middle
        else:
            too_low = middle
    return high


def _is_safe(above: int, scale: Fraction, delta: Fraction, max_rows: int) -> bool:
    """Return whether the threshold ``max_rows + above`` is high enough for delta."""
    # It is if a person's values that nobody else has are all hidden with a probability
    # of at least 1 - delta. Probabilities are in units of 2**-bits and rounded down, so
    # that errors of rounding are on the safe side.
    bits_of_delta = (delta.denominator // delta.numerator).bit_length()
    bits = 64 + 2 * max_rows.bit_length() + bits_of_delta
    # The worst person has one value with all rows, or as many values with a row each:
    # see `discovery_threshold`.
    one_value = _stays_below(above, scale, bits)
    one_of_many = _stays_below(above + max_rows - 1, scale, bits)
    many_values = _power(one_of_many, max_rows, bits)
    all_hidden = Fraction(min(one_value, many_values), 1 << bits)
    return all_hidden >= 1 - delta


def _stays_below(distance: int, scale: Fraction, bits: int) -> int:
    """Return ``2**bits * P(noise < distance)`` for a positive distance, rounded down."""
    rare = exp_minus_bounds(distance / scale, bits)[1]
    common = exp_minus_bounds(1 / scale, bits)[0]
    return (1 << bits) - -(-(rare << bits) // ((1 << bits) + common))


def _power(base: int, exponent: int, bits: int) -> int:
    """Return ``2**bits * (base / 2**bits)**exponent``, rounded down."""
    power = 1 << bits
    for digit in bin(exponent)[2:]:
        power = power * power >> bits
        if digit == "1":
            power = power * base >> bits
    return power


# The squares of the weights of a person add up to at most the square of this.
_WHOLE = 1 << 20


@dataclass(frozen=True)
class CountThreshold:
    """Laplace noise on the number of rows of each value, column by column: `discover_values`."""

    name = "discrete Laplace"

    epsilon: Fraction
    delta: Fraction
    n_columns: int
    rows: int

    @property
    def needed(self) -> int:
        """How many persons must have a value so that it passes without noise, if all of them have many others."""
        return discovery_threshold(
            epsilon=self.epsilon / self.n_columns,
            delta=self.delta / self.n_columns,
            max_rows_per_person=self.rows,
        )

    def find(
        self,
        source: ByteSource,
        columns: Sequence[Coded],
        persons: NDArray[np.intp] | None,
    ) -> list[Published]:
        """Draw; return which values of each column are published, in their order."""
        published = []
        for values, codes in columns:
            counts = count_codes(values, codes)
            published.append(
                discover_values(
                    source,
                    values,
                    counts,
                    epsilon=self.epsilon / self.n_columns,
                    delta=self.delta / self.n_columns,
                    max_rows_per_person=self.rows,
                )
            )
        return published


@dataclass(frozen=True)
class WeightThreshold:
    """Gaussian noise on weights, of which a person gives the same to each of their distinct values ([1]_)."""

    # A person with n distinct values, those of all columns together, adds
    #     floor(W / sqrt(n))
    # to the total of each. So they move all totals by at most W in L2 norm. Each total
    # gets rounded Gaussian noise of variance ``W**2 / mu**2``, and a value is published
    # if its own reaches the threshold.
    #
    # *Values that others have too* are a function of totals with noise that is
    # (epsilon, delta / 2)-private, as mu is the largest that is.
    #
    # *Values that are new*, j of their n: none is published with probability Q, for any
    # outcome of the others. As at `discovery_threshold`, with
    #     p <= exp(epsilon) p' + delta / 2
    # among the others, the outcomes of both have delta = delta / 2 + 1 - Q. By the
    # union bound,
    #     1 - Q <= n P(weight + noise >= threshold),
    # which the threshold keeps below delta / 2 for each n.
    #
    # Of one column and one row a person, thresholds on counts need a third less
    # persons; weights need half as many as these from about nine columns or ten rows.
    #
    # .. [1] S. Gopi, P. Gulhane, J. Kulkarni, J. H. Shen, M. Shokouhi, S. Yekhanin
    #    (2020). Differentially private set union. ICML.

    name = "rounded Gaussian"

    mu_squared: Fraction
    threshold: int
    # The most distinct values of a person.
    most: int

    @classmethod
    def planned(cls, epsilon: Fraction, delta: Fraction, most: int) -> WeightThreshold:
        """Find the noise and the threshold."""
        mu_squared = Fraction(largest_mu(epsilon, delta / 2)) ** 2
        variance = _WHOLE**2 / mu_squared
        return cls(mu_squared, weight_threshold(variance, delta / 2, most), most)

    @property
    def noise(self) -> Noise:
        """The noise of each total."""
        return Noise("mu", self.mu_squared, _WHOLE**2)

    @property
    def needed(self) -> Fraction:
        """How many persons must have a value so that it passes without noise, if all of them have many others."""
        return Fraction(self.threshold, weight_of(self.most))

    def find(
        self,
        source: ByteSource,
        columns: Sequence[Coded],
        persons: NDArray[np.intp] | None,
    ) -> list[Published]:
        """Draw; return which values of each column are published, in their order."""
        sizes = [len(values) for values, _ in columns]
        totals = total_weights([codes for _, codes in columns], sizes, persons)
        noisy = totals + self.noise.draw(source, totals.size)
        published = []
        parts = np.split(noisy, np.cumsum(sizes)[:-1])
        for (values, _), of_column in zip(columns, parts, strict=True):
            places = np.flatnonzero(of_column >= self.threshold).tolist()
            above = {place: of_column[place] for place in places}
            published.append(of_one_kind(values, above))
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
    n_items = sum(sizes)
    pairs = []
    start = 0
    for column, size in zip(codes, sizes, strict=True):
        is_value = column < size
        items = column[is_value].astype(np.int64) + start
        pairs.append(who[is_value] * n_items + items)
        start += size
    # Each value of a person counts once, in however many of the rows it is.
    holder, item = np.divmod(np.unique(np.concatenate(pairs)), max(n_items, 1))
    different, places = np.unique(np.bincount(holder)[holder], return_inverse=True)
    weights = np.array([weight_of(n) for n in different.tolist()], np.int64)
    totals = np.zeros(n_items, np.int64)
    np.add.at(totals, item, weights[places])
    return totals


@lru_cache(maxsize=64)  # each fit asks for that of the same public numbers
def weight_threshold(variance: Fraction, delta: Fraction, most: int) -> int:
    """Return the total from which a value may be published, if no person has more than `most` values."""
    is_safe = partial(_is_safe_weight, variance=variance, delta=delta, most=most)
    return _least_safe(is_safe, _WHOLE)


def _is_safe_weight(
    threshold: int, variance: Fraction, delta: Fraction, most: int
) -> bool:
    """Bound by delta the probability that a value of one person alone passes, however many values they have."""
    bits = 128 + 2 * (
        most.bit_length() + (delta.denominator // delta.numerator).bit_length()
    )
    first = 1
    while first <= most:
        # Those with up to an eighth more values are counted as if they had as many, and
        # each the weight of the fewest.
        most_values = min(first + first // 8, most)
        tail = squared_tail(threshold - weight_of(first), variance, bits)
        if most_values**2 * tail > delta**2:
            return False
        first = most_values + 1
    return True


def squared_tail(distance: int, variance: Fraction, bits: int) -> Fraction:
    """Bound from above the square of the probability that rounded Gaussian noise is at least a positive integer."""
    # Rounded noise is at least the distance if real noise is at least half less: y
    # standard deviations. The third convergent of the continued fraction of Laplace is
    # an upper bound of the tail,
    #     exp(-y**2 / 2) (y**2 + 2) / (y (y**2 + 3) sqrt(2 pi)),
    # whose square is rational but for the exponential and pi, which is above 333 / 106.
    square = (distance - Fraction(1, 2)) ** 2 / variance
    # A variance may have many digits.
    square = Fraction(math.floor(square * (1 << 64)), 1 << 64)
    if square == 0:
        return Fraction(1)
    tail = Fraction(exp_minus_bounds(square, bits)[1], 1 << bits)
    two_pi = Fraction(333, 53)
    return tail * (square + 2) ** 2 / (two_pi * square * (square + 3) ** 2)


def plan_discovery(
    share: Share, delta: Fraction, n_columns: int, *, persons: bool
) -> CountThreshold | WeightThreshold:
    """Choose how the values of some columns are found: by what is publicly known, and by the fewer persons needed."""
    counts = CountThreshold(share.amount, delta, n_columns, share.rows)
    if share.rows > 1 and not persons:
        return counts  # it is not known which rows are one person's
    weights = WeightThreshold.planned(share.amount, delta, n_columns * share.rows)
    return weights if weights.needed < counts.needed else counts


@dataclass(frozen=True)
class CategoryPlan:
    """The declared categories of a table, and how those of other columns are to be found."""

    # With None in place of what is to be found.
    domain: Domain
    # The columns whose categories are to be found.
    private: tuple[Any, ...] = ()
    discovery: CountThreshold | WeightThreshold | None = None
    # The values of these columns.
    columns: Sequence[Coded] = ()
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
) -> CountThreshold | WeightThreshold:
    """Check that the values of some columns can be found, and plan how."""
    if rows.large is not None:
        raise TypeError(
            f"{what}='private' needs the values, and skdp.engines only adds up: "
            "declare them, or collect"
        )
    if share.given is not None:
        raise ValueError(
            f"{what}='private' needs an epsilon and a delta, got epsilon={share.given}"
        )
    if check_delta(delta) == 0:
        raise ValueError(
            f"{what}='private' needs delta > 0: a value that one person has may then "
            "be published by accident only"
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
    codes = np.column_stack([column_codes for _, column_codes in coded])
    is_value = (codes < [len(values) for values, _ in coded]).all(axis=1)
    places: list[Any] = list(range(len(names)))
    frame = pd.DataFrame(codes[is_value], columns=places)
    combinations = frame.drop_duplicates().sort_values(places)
    columns = []
    for (values, _), column in zip(coded, combinations.to_numpy().T, strict=True):
        columns.append([values[code] for code in column.tolist()])
    together = np.full(len(codes), len(combinations), np.uint64)
    together[is_value] = frame.groupby(places).ngroup()
    return list(zip(*columns, strict=True)), together


def private_columns(names: Sequence[Any], declared: Any) -> list[Any]:
    """Return the columns whose categories are to be found."""
    return _split_categories(names, declared)[0]


def _split_categories(names: Sequence[Any], declared: Any) -> tuple[list[Any], Any]:
    """Return the columns whose categories are to be found, and what is declared, with None for these."""
    if isinstance(declared, str):
        if declared != PRIVATE:
            raise ValueError(
                f"categories must be {PRIVATE!r}, or declare the values of each "
                f"column, got {declared!r}"
            )
        declared = dict.fromkeys(names, PRIVATE)
    if isinstance(declared, list | tuple) and len(declared) == len(names):
        declared = dict(zip(names, declared, strict=True))
    if not isinstance(declared, Mapping):
        return [], declared
    private = [name for name in names if _is_private(declared.get(name))]
    return private, dict(declared) | {name: [None] for name in private}


def _is_private(values: Any) -> bool:
    return isinstance(values, str) and values == PRIVATE
