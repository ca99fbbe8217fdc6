"""Rules of two columns that rows keep: one value is not above the other, or both are missing together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Categories, Domain, Interval
from skdp.synthesis._queries import find_columns
from skdp.synthesis.model import MOST_CELLS, Clique
from skdp.synthesis.tables import ends_of
from skdp.tables import kind_of

_ORDER, _MISSING = "<=", "missing with"
_ORDERED = {"number", "date", "datetime"}
_LISTED = "listed"


def read_rule(
    rule: tuple[Any, ...], domain: Domain
) -> tuple[Clique, NDArray[np.bool_]]:
    """Return the columns of a rule, and which of their cells it excludes."""
    if len(rule) != 3 or rule[1] not in (_ORDER, _MISSING):
        raise ValueError(
            f"a rule of structural_zeros must be (column, {_ORDER!r}, column) or (column, {_MISSING!r}, column), got "
            f"{rule!r}"
        )
    first, kind, second = rule
    if first == second:
        raise ValueError(
            f"a rule of structural_zeros must have two columns, got {rule!r}"
        )
    clique = tuple(find_columns(domain, (first, second)))
    cells = math.prod(domain.sizes[column] for column in clique)
    if cells > MOST_CELLS:
        raise ValueError(
            f"the rule {rule!r} of structural_zeros takes a table of {cells:,} cells; at most {MOST_CELLS:,} are "
            "computed. Declare coarser bins"
        )
    one, other = (~_present(domain[name]) for name in (first, second))
    if kind == _ORDER:
        excluded = np.zeros((one.size, other.size), bool)
        excluded[np.ix_(~one, ~other)] = ~_possible(domain, first, second)
    else:
        for name, missing in ((first, one), (second, other)):
            if not missing.any():
                raise ValueError(
                    f"the rule {rule!r} of structural_zeros: column {name!r} does not declare missing"
                )
        excluded = one[:, np.newaxis] != other
    return (clique, excluded) if clique[0] < clique[1] else (clique[::-1], excluded.T)


def read_order(zeros: Any, domain: Domain) -> tuple[tuple[Any, Any], ...]:
    """List the pairs of columns of which the first is never above the second; what is below comes first."""
    # A pair may have further elements in front of it only if they are below it: then bounds move up in one pass.
    rules = zeros if isinstance(zeros, Iterable) else ()
    order = {
        (rule[0], rule[2]): None
        for rule in rules
        if isinstance(rule, tuple) and rule[1] == _ORDER
    }
    below: dict[Any, list[Any]] = {}
    for first, second in order:
        below.setdefault(second, []).append(first)
    try:
        ranks = {
            name: rank
            for rank, name in enumerate(TopologicalSorter(below).static_order())
        }
    except CycleError as error:
        raise ValueError(
            f"the rules of structural_zeros go round in a circle: {error.args[1]}"
        ) from None
    return tuple(sorted(order, key=lambda pair: ranks[pair[0]]))


def check_chains(zeros: Any, domain: Domain) -> None:
    """Make sure that values can be drawn one by one: cells that pairs of columns allow are possible together."""
    # Numbers between bounds can be put in order if no lower bound is above the upper bound of a later number. For pairs
    # with a rule, the excluded cells see to it. For others, it follows if their bins have the same edges.
    order = read_order(zeros, domain)
    allowed = {pair: _possible(domain, *pair) for pair in order}
    for middle in dict.fromkeys(name for pair in order for name in pair):
        for first in [one for one, other in allowed if other == middle]:
            for second in [
                other
                for one, other in allowed
                if one == middle and (first, other) not in allowed
            ]:
                paths = (
                    allowed[first, middle].astype(np.float32)
                    @ allowed[middle, second].astype(np.float32)
                    > 0
                )
                if (paths & ~_possible(domain, first, second)).any():
                    raise ValueError(
                        f"the rules of structural_zeros do not keep {first!r} below {second!r} where {middle!r} is "
                        f"between them, as its bins have other edges: declare the same edges, or add the rule "
                        f"({first!r}, {_ORDER!r}, {second!r})"
                    )
                allowed[first, second] = paths


def _possible(domain: Domain, first: Any, second: Any) -> NDArray[np.bool_]:
    """Return in which cells, missing ones left out, a value of one column is not above one of the other."""
    kinds = {name: _kind(name, domain[name]) for name in (first, second)}
    if len({kind for kind, _ in kinds.values()}) > 1:
        raise ValueError(
            f"columns {first!r} and {second!r} cannot be compared: {kinds[first][0]}s, {kinds[second][0]}s"
        )
    if len({decimals for _, decimals in kinds.values()} - {_LISTED}) > 1:
        raise ValueError(
            f"columns {first!r} and {second!r} can be compared if both are whole or both real, with the same decimals: "
            "set real=True or decimals= of the Interval with whole edges"
        )
    least, most = ends_of(domain[first])[0], ends_of(domain[second])[1]
    return least[:, np.newaxis] <= most


def _kind(name: Any, values: Categories | Interval) -> tuple[str, int | str | None]:
    """Return the kind of the values, and the decimals of numbers in bins."""
    if isinstance(values, Interval):
        return kind_of(values.edges[0]), values.decimals
    known = [value for value in values.values if value is not None]
    found = {kind_of(value) for value in known} or {"missing value"}
    if any(getattr(value, "tzinfo", None) is not None for value in known):
        found = {"time with a zone"}
    if not found <= _ORDERED:
        raise ValueError(
            f"column {name!r} cannot be compared: it must have numbers or dates, not {found.pop()}s"
        )
    return found.pop(), _LISTED


def _present(values: Categories | Interval) -> NDArray[np.bool_]:
    return np.array([label is not None for label in values.labels])
