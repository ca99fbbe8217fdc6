"""Draft a domain from the data, to be edited before any release."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterator, Sequence
from datetime import MAXYEAR, date, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.base._estimator import domains_of_dtypes
from skdp.base._identifiers import is_named_as_identifier, unrepeated_columns
from skdp.base._warnings import level_of_the_caller
from skdp.coding import ColumnError, distinct_values, kind_of, to_numbers
from skdp.domain import Categories, Domain, Interval
from skdp.frames import is_frame, read_table
from skdp.privacy import PrivacyLeakWarning

_REMARK = (
    "A draft that was read from the data, without any protection: which values occur,\n"
    "and the range of the numbers, is private.\n"
    "Before you use it for a release, edit it from public knowledge: a code book, a form, a law."
)
"""The head of a drafted file."""

_WHOLE_STEPS = (1, 2, 3, 4, 5, 6, 8)
_STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_WIDTHS = (
    *(timedelta(seconds=number) for number in (1, 5, 15)),
    *(timedelta(minutes=number) for number in (1, 5, 15)),
    *(_HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY, 2 * _DAY, 7 * _DAY),
)
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12000)


def draft_domain(frame: Any, *, bins: int = 32, max_values: int = 100) -> Domain:
    """Propose a domain for a table, as a draft to be edited from public knowledge before any release."""
    # Numbers with more than `bins` distinct values become an `Interval` of bins of equal width, with ends rounded
    # outwards; the values of other columns are listed. With more than `max_values` of them, dates become an `Interval`
    # of at most `bins` days, weeks, months or years, and other columns are left out. Missing is declared where it
    # occurs. A domain that a dtype declares (see `domains_of_dtypes`) is used unchanged.
    # **Privacy.** None: the draft shows values of the data. A guarantee for a domain does not cover how the domain was
    # chosen, so replace values read from the data by public knowledge.
    domain, remarks = _draft(frame, bins, max_values, None)
    for name in domain.columns:
        domain[name].observed = True  # for `privacy_statement`
    lines = [
        f"{_REMARK}",
        *(f"column {name!r}: {remark}" for name, remark in remarks.items()),
    ]
    warnings.warn(
        "\n".join(lines), PrivacyLeakWarning, stacklevel=level_of_the_caller()
    )
    return domain


def draft_domain_toml(
    frame: Any,
    *,
    bins: int = 32,
    max_values: int = 100,
    unrepeated: Collection[Any] | None = None,
) -> str:
    """Write the draft of `draft_domain` as the text of a domain file with comments."""
    # `unrepeated` names the columns in which no value occurs twice, where the frame has not the rows of the table.
    # **Privacy.** None, see `draft_domain`; the text contains the warning.
    domain, remarks = _draft(frame, bins, max_values, unrepeated)
    left_out = [
        f"Column {name!r} {remark}."
        for name, remark in remarks.items()
        if name not in domain.columns
    ]
    head = "\n".join(f"# {line}" for line in [*_REMARK.split("\n"), *left_out])
    comments = {
        name: f"This column {remark}."
        for name, remark in remarks.items()
        if name in domain.columns
    }
    return f"{head}\n\n{domain.to_toml(comments=comments)}"


def _draft(
    frame: Any, bins: int, max_values: int, unrepeated: Collection[Any] | None
) -> tuple[Domain, dict[Any, str]]:
    """Return the draft, and remarks on some columns, among them each column left out."""
    for name, number in (("bins", bins), ("max_values", max_values)):
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise ValueError(
                f"{name} must be a whole number of at least 1, got {number!r}"
            )
    if not is_frame(frame):
        raise TypeError(
            f"expected a pandas, polars or pyarrow table, got {type(frame).__name__}"
        )
    table = read_table(frame)
    found, remarks = {}, {}
    declared, _ = domains_of_dtypes(table)
    if unrepeated is None:
        unrepeated = unrepeated_columns(frame)
    for name, column in zip(table.names, table.columns, strict=True):
        try:
            if name in unrepeated and name not in declared:
                raise _LeftOut(
                    f"{_IDENTIFIER}, as no value of it occurs twice; {_ADVICE}"
                )
            attribute, remark = _draft_column(
                column, declared.get(name), bins, max_values
            )
            if is_named_as_identifier(name) and isinstance(attribute, Interval):
                raise _LeftOut(
                    f"{_IDENTIFIER}, by its name and its many values; {_ADVICE}"
                )
            found[name] = attribute
            if remark:
                remarks[name] = remark
        except (ColumnError, _LeftOut) as error:
            remarks[name] = f"is left out: it {error}"
    if not found:
        raise ValueError(
            f"no column can be drafted; {'; '.join(f'{name!r} {why}' for name, why in remarks.items())}"
        )
    return Domain(found), remarks


_IDENTIFIER = "looks like an identifier of records or persons"
_ADVICE = (
    "it can be the column of persons (--person-column) or of records (--record-id), and no column to release. If it is "
    "none, declare it by hand"
)


class _LeftOut(ValueError):
    """No domain can be drafted for a column; the message continues "it ..." and holds no value."""


def _draft_column(
    column: Any, declared: list[Any] | None, bins: int, max_values: int
) -> tuple[Categories | Interval, str]:
    values, missing = distinct_values(column)
    end = [None] if missing else []
    if declared:
        return Categories([*declared, *end]), ""
    kind = kind_of(values[0]) if values else "nothing"
    if kind == "number":
        if len(values) > bins:
            drafted = _draft_interval(to_numbers(column), bins)
            return Interval(
                edges=drafted.edges, missing=bool(missing), real=drafted.real
            ), ""
        if not all(map(math.isfinite, values)):
            raise _LeftOut("holds infinite numbers")
        return Categories(
            [*(int(value) if value == int(value) else value for value in values), *end]
        ), ""
    if kind == "boolean":
        return Categories([False, True, *end]), ""
    if kind not in ("string", "date", "datetime"):
        raise _LeftOut(
            f"holds {'no value' if kind == 'nothing' else f'values of type {kind}'}"
        )
    if len(values) > max_values and kind != "string":
        return Interval(edges=_cut_dates(values, bins), missing=bool(missing)), ""
    if len(values) > max_values:
        raise _LeftOut(
            f"has more than {max_values} distinct values; declare them by hand, grouped, or drop it"
        )
    return Categories([*values, *end]), ""


def _draft_interval(numbers: NDArray[np.floating], bins: int) -> Interval:
    """Cut the range of numbers into at most `bins` bins of a round width, from a multiple of it."""
    finite = numbers[np.isfinite(numbers)]
    if finite.size == 0:
        raise _LeftOut("holds infinite numbers")
    low, high = Fraction(float(finite.min())), Fraction(float(finite.max()))
    whole = bool((finite == np.floor(finite)).all())
    most = max(bins, 2)  # one bin around 0 has no multiples of a width as ends
    for step in _round_steps((high - low) / most, whole):
        first = math.floor(low / step)
        # The last bin is closed, so whole numbers get one more bin: all are equally wide.
        last = (
            math.floor(high / step) + 1
            if whole
            else max(math.ceil(high / step), first + 1)
        )
        if last - first <= most:
            break
    try:
        with np.errstate(all="ignore"):
            return Interval(
                float(first * step),
                float(last * step),
                bins=min(last - first, bins),
                real=not whole,
            )
    except (ValueError, OverflowError):
        raise _LeftOut(
            "has a range that floating-point numbers cannot cut into bins"
        ) from None


def _cut_dates(values: Sequence[Any], bins: int) -> list[date]:
    """Cut the range of sorted dates into at most `bins` bins of a usual width; midnights count as days."""
    low, high, widths = values[0], values[-1], _WIDTHS
    if getattr(low, "tzinfo", None) is not None:
        raise _LeftOut("holds times with a time zone, for which there are no bins")
    try:
        if kind_of(low) == "datetime":
            low, high = low.to_pydatetime(warn=False), high.to_pydatetime(warn=False)
            if all(value == value.normalize() for value in values):
                low, high = low.date(), high.date()
        if not isinstance(low, datetime):
            widths = tuple(width for width in _WIDTHS if width >= _DAY)
    except ValueError:
        raise _LeftOut(
            "has times beyond the year 9999, for which there are no bins"
        ) from None
    try:
        edges = _date_edges(
            low, high, widths, max(bins, 2)
        )  # as for numbers: one bin may not cover it
    except (
        ValueError,
        OverflowError,
    ):  # no usual width fits, or an end is beyond the calendar
        edges = _year_edges(low, high, bins)
    return edges if bins > 1 else [edges[0], edges[-1]]


def _year_edges(low: Any, high: Any, bins: int) -> list[Any]:
    """Cut whole years into bins of equal numbers of years; the last may be shorter, or end with the calendar."""
    first, beyond = low.year, high.year + 1
    cuts = [*range(first, beyond, -(-(beyond - first) // bins)), beyond]
    return [
        type(low).min.replace(year=year) if year <= MAXYEAR else type(low).max
        for year in cuts
    ]


def _date_edges(
    low: Any, high: Any, widths: Sequence[timedelta], most: int
) -> list[Any]:
    for width in widths:
        start = low - (low - type(low).min) % width  # weeks begin on Mondays
        bins = (high - start) // width + 1
        if bins <= most:
            return [start + index * width for index in range(bins + 1)]
    first, last = (12 * day.year + day.month - 1 for day in (low, high))
    midnight = type(low).min
    for months in _MONTHS:
        start, stop = first // months, last // months + 1
        if stop - start <= most:
            cuts = (divmod(index * months, 12) for index in range(start, stop + 1))
            return [
                midnight.replace(year=year, month=month + 1) for year, month in cuts
            ]
    raise ValueError


def _round_steps(least: Fraction, whole: bool) -> Iterator[Fraction]:
    """Yield the round widths that are at least some width, in increasing order."""
    power = len(str(least.numerator)) - len(str(least.denominator)) - 1
    if whole:
        power = max(power, 0)
    while True:
        for step in _WHOLE_STEPS if whole else _STEPS:
            width = Fraction(step) * Fraction(10) ** power
            if width >= least:
                yield width
        power += 1
