"""Which values occur in a column: found privately, where nobody can declare them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.base import domains_of_dtypes, level_of_the_caller
from skdp.coding import ColumnError, ValueCoder, distinct_values, kind_of, shielded
from skdp.domain import Domain
from skdp.exact import exp_minus_bounds
from skdp.frames import Table
from skdp.oracles import check_size
from skdp.privacy import check_delta, check_epsilon
from skdp.randomness import ByteSource, discrete_laplace
from skdp.synthesis.model import GraphicalModel

_KINDS = {"string", "number", "boolean", "date"}


def count_values(column: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Count the values that occur in a column, for `discover_values`."""
    # Equal values are written alike, whichever row comes first: 1, 1.0 and ``Fraction(1)`` are 1.
    found, missing = distinct_values(column)
    if kinds := {kind_of(value) for value in found} - _KINDS:
        raise ColumnError(f"holds values of type {kinds.pop()}; only text, numbers, booleans and dates are discovered")
    finite = [value for value in found if not (isinstance(value, Real) and value in (math.inf, -math.inf))]
    values = list(dict.fromkeys(map(_canonical, finite)))
    coder = ValueCoder([*values, None] if missing else values)
    counts = np.bincount(coder.encode(column), minlength=coder.outside)[: coder.outside]
    return list(coder.values), counts.astype(np.int64, copy=False)


def discover_values(
    source: ByteSource,
    values: Sequence[Any],
    counts: NDArray[np.int64],
    *,
    epsilon: Fraction | float,
    delta: Fraction | float,
    max_rows_per_person: int = 1,
    most: int | None = None,
) -> list[Any]:
    """Publish the values of a column that occur often enough (partition selection, [1]_)."""
    # A value is published if its count plus discrete Laplace noise of scale ``max_rows_per_person / epsilon`` reaches
    # `discovery_threshold`. Missing is a value like any other.
    # **Privacy.** (`epsilon`, `delta`)-differential privacy when one person with up to `max_rows_per_person` rows is
    # added or removed; proven at `discovery_threshold`. To replace a person is to remove one and to add one. Nothing is
    # charged here.
    # .. [1] A. Korolova, K. Kenthapadi, N. Mishra, A. Ntoulas (2009). Releasing search queries and clicks
    #    privately. WWW.
    threshold = discovery_threshold(epsilon=epsilon, delta=delta, max_rows_per_person=max_rows_per_person)
    pairs = [(value, int(count)) for value, count in zip(values, counts, strict=True) if count]
    noise = discrete_laplace(source, max_rows_per_person / check_epsilon(epsilon), len(pairs)).tolist()
    noisy = [count + shift for (_, count), shift in zip(pairs, noise, strict=True)]
    published = [place for place, count in enumerate(noisy) if count >= threshold]
    if most is not None and len(published) > most:
        published = sorted(sorted(published, key=lambda place: -noisy[place])[:most])
    return [pairs[place][0] for place in published]


def discovery_threshold(*, epsilon: Fraction | float, delta: Fraction | float, max_rows_per_person: int = 1) -> int:
    """Return the noisy count from which a value may be published."""
    # Let a table lack, and its neighbour have, a person with m_v rows of value v, k in all at most; let z be discrete
    # Laplace noise of scale b = k / epsilon and F(y) = P(z <= y). Values are published independently of each other.
    # *Values that others have too.* Whether v is published is a function of its count plus z, so its probabilities
    # differ by a factor of at most ``exp(m_v / b)``, and those of any set of such values by ``exp(k / b) =
    # exp(epsilon)``.
    # The same holds of the count plus z itself, so that of the values above the threshold those of the highest noisy
    # counts may be chosen.
    # *Values that are new.* The first table never publishes one. The second publishes none with probability Q = the
    # product of F(t - 1 - m_v), for any outcome of the others. If p and p' are the probabilities of a set of
    # outcomes among the old values, the second table has these outcomes with probability between Q p' and Q p' + 1 - Q.
    # So
    # ``Q p' + 1 - Q <= exp(epsilon) p + (1 - Q)`` and ``p = Q p + (1 - Q) p <= exp(epsilon) Q p' + (1 - Q)``:
    # both directions hold with delta = 1 - Q. It cannot be less: where all of the k rows are new values, outcomes that
    # the first table never has make up 1 - Q.
    # *The worst person.* More rows of a new value make Q smaller, so let there be k of them. The law of z is
    # log-concave, hence F is too, hence g(m) = -log F(t - 1 - m) is convex; and g >= 0. Among the divisions of the k
    # rows into j new values, a sum of a convex function is largest where they are as uneven as possible, g(k - j + 1) +
    # (j - 1) g(1). This is convex in j, so it is largest at j = 1 or at j = k: one value with k rows, or k values with
    # one row each. Both are computed. (Neither is always the worse one: with a small epsilon many values are, with a
    # large one a single value.)
    # *Why t is above k.* For y >= 0, with a = exp(-1 / b), F(y) = 1 - a**(y + 1) / (1 + a). For y < 0, F(y) < 1/2: no
    # smaller threshold would do for any delta up to 1/2.
    scale = check_size(max_rows_per_person, name="max_rows_per_person", least=1) / check_epsilon(epsilon)
    exact_delta = check_delta(delta)
    if exact_delta == 0:
        raise ValueError("delta must be above 0: publishing a value that one person alone has cannot be ruled out")
    above = 1
    while not _is_safe(above, scale, exact_delta, max_rows_per_person):
        above *= 2
    too_low = above // 2
    while above - too_low > 1:
        middle = (above + too_low) // 2
        if _is_safe(middle, scale, exact_delta, max_rows_per_person):
            above = middle
        else:
            too_low = middle
    return max_rows_per_person + above


def _is_safe(above: int, scale: Fraction, delta: Fraction, max_rows: int) -> bool:
    """Bound by delta the probability that a value of one person alone passes ``max_rows + above``."""
    # Everything is a lower bound of a probability times 2**bits, and rounded down.
    bits = 64 + 2 * max_rows.bit_length() + (delta.denominator // delta.numerator).bit_length()
    one_value = _stays_below(above, scale, bits)
    many_values = _power(_stays_below(above + max_rows - 1, scale, bits), max_rows, bits)
    return Fraction(min(one_value, many_values), 1 << bits) >= 1 - delta


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


def _canonical(value: Any) -> Any:
    """Write equal numbers alike, so that no row decides how a value is written."""
    if kind_of(value) != "number":
        return value
    return next((written for written in (int(value), float(value)) if written == value), value)


UNDISCOVERED = "<not discovered>"
"""Stands for values of text that are not found; elsewhere, missing does. It is never found itself: a record that has it
as a value counts as one of them."""

_MUCH = 0.1
"""The share of records without a found value from which a warning names the column."""

Counts = dict[Any, tuple[list[Any], NDArray[np.int64]]]


def check_share(discover: Any, delta: Fraction) -> Fraction:
    """Check the share of the budget that is for finding values."""
    if discover is None:
        return Fraction(0)
    if isinstance(discover, bool | np.bool_) or not isinstance(discover, int | float | np.number | Fraction):
        raise TypeError(f"discover must be None or a share between 0 and 1, got {type(discover).__name__}")
    if not 0 < discover < 1:
        raise ValueError(f"discover must be None or a share between 0 and 1, got {discover}")
    if delta == 0:
        raise ValueError("discover needs delta > 0: a value that one person has may then be published by accident only")
    return Fraction(float(discover))


def undeclared(table: Table, declared: Any) -> list[Any]:
    """List the columns that are not declared."""
    if isinstance(declared, Domain):
        known: Iterable[Any] = declared.columns
    elif isinstance(declared, Mapping):
        known = declared
    else:
        known = () if declared is None else table.names
    by_dtype, observed = domains_of_dtypes(table, look=False)
    declared_somehow = {*known, *by_dtype, *observed}  # whichever of the two: it must not follow from the rows
    return [name for name in table.names if name not in declared_somehow]


def count_open_columns(table: Table, names: Iterable[Any], keep: NDArray[np.bool_]) -> Counts:
    """Count the values that occur in the columns that are not declared."""
    found: Counts = {}
    for name in names:
        try:
            values, numbers = shielded(count_values, _rows(table.columns[table.names.index(name)], keep))
        except ColumnError as error:
            raise ValueError(f"column {name!r} {error}; declare its domain") from None
        kept = [place for place, value in enumerate(values) if value != UNDISCOVERED]
        found[name] = [values[place] for place in kept], numbers[kept]
    return found


def check_not_named(
    names: Iterable[Any],
    handle_unknown: Any,
    zeros: Any,
    *,
    why: str = "whose values discover= is to find; declare them",
) -> None:
    """Refuse parameters that name values of columns whose values, or bins, are not known yet."""
    combinations = zeros if isinstance(zeros, Iterable) and not isinstance(zeros, Mapping) else ()
    given = [("handle_unknown", handle_unknown), *(("structural_zeros", combination) for combination in combinations)]
    for name in names:
        for parameter, named in given:
            if isinstance(named, Mapping | tuple) and name in named:
                raise ValueError(f"{parameter} names column {name!r}, {why}")


def find_values(
    source: ByteSource, counts: Counts, epsilon: Fraction, delta: Fraction, max_rows_per_person: int, most: int
) -> tuple[dict[Any, list[Any]], set[Any]]:
    """Publish the values that enough persons have, and one that stands for all others."""
    n = len(counts)
    found: dict[Any, list[Any]] = {}
    mixed: set[Any] = set()
    for name, (values, numbers) in counts.items():
        published = discover_values(
            source,
            values,
            numbers,
            epsilon=epsilon / n,
            delta=delta / n,
            max_rows_per_person=max_rows_per_person,
            most=most - 1,
        )
        text = any(isinstance(value, str) for value in published)
        if not text and None in published:
            published.remove(None)
            mixed.add(name)
        found[name] = [*published, UNDISCOVERED if text else None]
    return found, mixed


def count_others(model: GraphicalModel, domain: Domain, total: float, others: Mapping[Any, Any]) -> dict[Any, float]:
    """Estimate how many records have a value that was not found."""
    return {
        name: total * float(model.marginal((domain.columns.index(name),))[domain[name].values.index(other)])
        for name, other in others.items()
    }


def warn_undiscovered(domain: Domain, counts: Mapping[Any, float], total: float, mixed: Collection[Any]) -> None:
    """Warn of columns of which no value was found, or which lost many."""
    lines = []
    for name, count in counts.items():
        if len(domain[name]) == 1 and name not in mixed:
            lines.append(f"column {name!r}: no value is frequent enough, so all are missing in what is drawn")
        elif count > _MUCH * total and name not in mixed:
            lines.append(f"column {name!r}: about {round(100 * count / total)} % of the records have no value found")
    if lines:
        advice = "; declare what is publicly known, or spend more (epsilon, delta, discover)"
        warnings.warn("discover= has left values out. " + "; ".join(lines) + advice, stacklevel=level_of_the_caller())


def _rows(column: Any, keep: NDArray[np.bool_]) -> Any:
    """Select rows of a column of any library."""
    if keep.all():
        return column
    if isinstance(column, np.ndarray):
        return column[keep]
    return nw.from_native(column, series_only=True).filter(keep.tolist()).to_native()
