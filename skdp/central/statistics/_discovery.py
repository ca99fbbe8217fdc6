"""Which values occur in columns: found privately, where nobody can declare them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_minus_bounds
from skdp.oracles import check_size
from skdp.privacy import check_delta, check_epsilon
from skdp.randomness import ByteSource, discrete_laplace
from skdp.tables import (
    ANY,
    ColumnError,
    ValueCoder,
    distinct_values,
    is_missing,
    kind_of,
    kind_of_dtype,
    name_of_dtype,
    objects_of,
    plain,
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
