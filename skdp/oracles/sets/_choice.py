"""The protocols for sets by name, and the best one for a number of values, a size and an epsilon."""

from __future__ import annotations

from collections.abc import Callable, Collection
from fractions import Fraction
from functools import partial
from typing import Any

from skdp.oracles.sets._base import SetOracle
from skdp.oracles.sets._sampled import SampledSet
from skdp.oracles.sets._selection import SetSelection
from skdp.oracles.sets._unary import SetUnaryEncoding

_SAMPLED = (
    "randomized_response",
    "subset_selection",
    "optimized_unary_encoding",
    "symmetric_unary_encoding",
    "threshold_unary_encoding",
    "local_hashing",
    "binary_local_hashing",
)

SET_ORACLES: dict[str, Callable[[int, int, Any], SetOracle]] = {
    "set_selection": SetSelection,
    "set_unary_encoding": SetUnaryEncoding,
    **{name: partial(SampledSet, oracle=name) for name in _SAMPLED},
}
"""The protocols by name; those of frequency oracles report a member that is drawn at random."""


def choose_set_oracle(
    k: int,
    max_size: int,
    epsilon: float | Fraction,
    *,
    max_report_bytes: int | None = None,
    among: Collection[str] = tuple(SET_ORACLES),
) -> tuple[str, SetOracle]:
    """Return the protocol with the least mean squared error among those whose report fits.

    Parameters
    ----------
    k : int
        The number of values.
    max_size : int
        The number of values of a set that are reported.
    epsilon : float or Fraction
        The requested privacy loss.
    max_report_bytes : int, optional
        The largest size of a report; None for no limit.
    among : collection of str
        The names to choose from.

    Returns
    -------
    tuple of str and SetOracle
        The name and the protocol.

    Raises
    ------
    TypeError, ValueError
        If a number is of another type or out of range, or no report fits.

    Examples
    --------
    >>> from skdp.oracles import choose_set_oracle
    >>> choose_set_oracle(100, 5, 1.0)[0], choose_set_oracle(6, 6, 12.0)[0]
    ('set_selection', 'set_unary_encoding')
    >>> choose_set_oracle(1000, 5, 1.0, max_report_bytes=16)[0]
    'local_hashing'
    """
    made = {name: SET_ORACLES[name](k, max_size, epsilon) for name in among}
    fitting = [
        name
        for name, one in made.items()
        if max_report_bytes is None or one.report_bytes <= max_report_bytes
    ]
    if not fitting:
        least = min(one.report_bytes for one in made.values())
        raise ValueError(
            f"none of {', '.join(among)} for sets of {k} values has reports of {max_report_bytes} bytes; the smallest "
            f"has {least}"
        )
    name = min(fitting, key=lambda name: made[name].mean_squared_error)
    return name, made[name]
