"""The error of a value that is not declared: it shows what is declared, which is public, and not the value."""

from __future__ import annotations

from typing import Any

from skdp.domain import FEW, Categories, Interval

UNIFORM = (
    "The last resort is handle_unknown='uniform': such rows become uniform random values, which draw all estimates "
    "towards equal counts"
)
"""What a local transformer does with such a value, if asked."""

IGNORE = "Or set handle_unknown='ignore', which leaves such values out of all counts"
"""What a statistic does with it, if asked."""


def undeclared_error(
    column: Any,
    values: Categories | Interval,
    *,
    what: str = "a value, or a NaN or inf,",
    where: str = "declared categories",
    advice: str = IGNORE,
    missing_is_undeclared: bool = True,
) -> ValueError:
    """Make the error of a column with a value that is not declared."""
    declare = "Declare all values that can occur"
    if missing_is_undeclared and None not in values.labels:
        missing = "missing=True" if isinstance(values, Interval) else "None"
        declare += f", and add {missing} to declare missing"
    return ValueError(
        f"column {column!r} holds {what} outside the {where}, {described(values)}. {declare}. {advice}."
    )


def described(values: Categories | Interval) -> str:
    """Describe declared values: all of them, if they are few."""
    if values.observed:
        return repr(values)
    if isinstance(values, Interval):
        missing = ", or missing" if values.missing else ""
        # Not the number of bins, which may be that of finer cells, and says nothing of what is outside.
        return (
            f"values from {_end(values.edges[0])} to {_end(values.edges[-1])}{missing}"
        )
    return f"{values!r} ({len(values):,} values)" if len(values) > FEW else repr(values)


def _end(edge: Any) -> str:
    """Write an end of a range as it is declared."""
    if isinstance(edge, float):
        return str(int(edge)) if edge.is_integer() else repr(edge)
    return str(edge.isoformat())
