"""The channels of designs that have names: the probability of each report given each true value, no and yes."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Channel = list[list[float]]


def warner(p: float) -> Channel:
    """Who draws the statement (p) reports the truth, who draws its opposite the other answer."""
    if p == 0.5:
        raise ValueError("p must differ from 0.5, at which reports say nothing")
    return [[p, 1 - p], [1 - p, p]]


def forced(yes: float, no: float) -> Channel:
    """Who is told neither to say yes nor to say no answers with the truth."""
    if yes + no >= 1:
        raise ValueError(
            "yes and no must add to less than 1, for someone to tell the truth; got "
            f"{float(yes + no):g}"
        )
    return [[1 - yes, yes], [no, 1 - no]]


def unrelated(p: float, prevalence: float) -> Channel:
    """Who is not asked the question (1 - p) answers with an unrelated property."""
    _check_asked(p)
    yes = (1 - p) * prevalence
    return [[1 - yes, yes], [1 - yes - p, yes + p]]


def unrelated_start(p: float) -> Channel:
    """Return the channel of `unrelated` where no one has the other property."""
    _check_asked(p)
    return [[1.0, 0.0], [1 - p, p]]


def unrelated_slope(p: float) -> Channel:
    """Return the derivative of `unrelated` by the prevalence."""
    return [[p - 1, 1 - p], [p - 1, 1 - p]]


def crosswise(q: float) -> Channel:
    """Both or neither of two statements are true ("same"), or one of them ("different")."""
    if q == 0.5:
        raise ValueError("q must differ from 0.5, at which reports say nothing")
    return [[1 - q, q], [q, 1 - q]]


def check_no_first(values: Sequence[Any]) -> None:
    """Refuse the values of yes and no in this order, by which the channel would be that of the other answer."""
    listed = list(values)
    if len(listed) == 2 and _is(listed[0], "yes", 1) and _is(listed[1], "no", 0):
        raise ValueError(
            "values must hold that of who lacks the property first: put "
            f"{listed[1]!r} first, got {listed}"
        )


def _is(value: Any, word: str, number: int) -> bool:
    if isinstance(value, str):
        return value.casefold() == word
    return isinstance(value, numbers.Real | np.bool_) and bool(value == number)


def _check_asked(p: float) -> None:
    if p == 0:
        raise ValueError("p must be above 0, for someone to be asked the question")


def by_group(make: Callable[..., Channel], group: Any, **shares: Any) -> Any:
    """Return the channel of shares, or one for each group if one of the shares is a mapping of groups."""
    keys: list[Any] | None = None
    for name, share in shares.items():
        if not isinstance(share, Mapping):
            _check_share(name, share)
            continue
        if keys is not None and set(keys) != set(share):
            raise ValueError(f"{', '.join(shares)} must have the same groups")
        keys = list(share)
        for each in share.values():
            _check_share(name, each)
    if (keys is None) != (group is None):
        raise TypeError(
            f"group names the column by which a mapping of {' or '.join(shares)} is "
            "chosen: give both or none"
        )
    if keys is None:
        return make(**shares)
    channels = {}
    for key in keys:
        of_group = {}
        for name, share in shares.items():
            of_group[name] = share[key] if isinstance(share, Mapping) else share
        channels[key] = make(**of_group)
    return channels


def _check_share(name: str, share: Any) -> None:
    is_number = isinstance(share, numbers.Real) and not isinstance(share, bool)
    if not is_number:
        raise TypeError(
            f"{name} must be a number or a mapping of group to numbers, got "
            f"{type(share).__name__}"
        )
    if not 0 <= share <= 1:
        raise ValueError(f"{name} must be between 0 and 1, got {share}")
