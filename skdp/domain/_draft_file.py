"""Drafts of domain files from private tables, for editing."""

from __future__ import annotations

import re
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from skdp.domain._attributes import Interval
from skdp.domain._domain import Domain
from skdp.domain._draft import (
    Values,
    are_date_codes,
    describe_texts,
    draft_table,
    list_or_cut,
)
from skdp.tables import ColumnError, type_of_value

# Comment at the beginning of a drafted file.
_DRAFT_COMMENT = (
    "A draft from the data, without any protection: the observed values and the range\n"
    "of the numbers are private.\n"
    "Before you use it for a release, edit it from public knowledge, such as a code book\n"
    "or a questionnaire."
)

_REAL_COMMENT = (
    "Numbers with any decimals are declared. If all numbers are rounded, such as amounts\n"
    "to cents, declare decimals = 2 in place of real = true."
)

# Names of columns that identify people, such as "name", "id", "person_id" and "personID".
_IDENTIFIER_NAME = re.compile(r"(?:(?:^|[\W_])(?i:uuid|id|e-?mail|name)|[a-z]I[dD])$")


def draft_domain_toml(frame: Any, *, bins: int = 32, max_values: int = 100) -> str:
    """Return the values of a table as a domain file, with comments for editing.

    Text and dates with up to `max_values` distinct values are listed. More dates, and
    many numbers, are cut into at most `bins` bins. Columns that identify people, and
    columns with a single value, are excluded.
    """
    # **Privacy.** The draft contains values of the data; its first lines warn of it.
    columns, excluded = draft_table(frame, bins, max_values, draft_values=_draft_groups)
    for name, values in list(columns.items()):
        if isinstance(values, list) and len(values) == 1:
            excluded[name] = "has a single value; declare further values, or drop it"
            del columns[name]
    if not columns:
        reasons = [f"{name!r} {reason}" for name, reason in excluded.items()]
        raise ValueError(
            "X must have a column of categories, numbers or dates, got only columns "
            f"that a draft cannot declare: {'; '.join(reasons)}."
        )
    lines = _DRAFT_COMMENT.split("\n")
    for name, reason in excluded.items():
        lines.append(f"Column {name!r} is excluded: it {reason}.")
    header = "\n".join(f"# {line}" for line in lines)
    comments = _describe_hierarchies(frame, list(columns))
    for name, values in columns.items():
        if isinstance(values, Interval) and values.real:
            comments[name] = f"{comments.get(name, '')}\n{_REAL_COMMENT}".strip()
    return f"{header}\n\n{Domain(columns).to_toml(comments=comments)}"


def _draft_groups(
    column: Any, values: list[Any], *, name: Any, bins: int, **limits: Any
) -> Values:
    """List or cut the distinct values of a column, but cut unique values; raise an error if they identify people."""
    value_type = type_of_value(values[0]) if values else None
    is_text = value_type == "string"
    series = nw.from_native(column, series_only=True).drop_nulls()
    # At least 90 % of the values occur once if 95 % of the rows have distinct values.
    min_unique = 0.95 * len(series)
    if is_text:
        # Beside the names, a word such as "unknown" may occur in many rows. At most a
        # tenth of the names occur in several rows.
        n_repeated = series.filter(series.is_duplicated()).n_unique()
        min_unique = min(min_unique, 10 * n_repeated)
    is_unique = len(values) >= max(6, min_unique)
    is_whole = value_type == "number" and all(value % 1 == 0 for value in values)
    is_date = is_whole and are_date_codes(values)
    if is_text or (is_whole and not is_date):
        if is_unique:
            clause = describe_texts(values) if is_text else ""
            raise ColumnError(
                f"has values that nearly all occur once{clause}; drop it, or declare "
                "groups or bins"
            )
        has_name = len(values) > bins and _IDENTIFIER_NAME.search(str(name))
        if has_name or (is_text and any("@" in text for text in values)):
            raise ColumnError(
                "seems to identify people; drop it, or declare it from public knowledge"
            )
    elif is_unique and not (is_date and values[-1] < 1_000_000):  # a day, not a month
        limits = {"max_values": 0, "max_numbers": 0}
    return list_or_cut(column, values, bins=bins, **limits)


def _describe_hierarchies(frame: Any, names: list[Any]) -> dict[Any, str]:
    """Return a comment for each column whose values follow from the values of a finer column."""
    rows = nw.from_native(frame, eager_only=True).to_pandas()
    codes = {name: pd.factorize(rows[name], use_na_sentinel=False)[0] for name in names}
    counts = {name: np.bincount(codes[name]) for name in names}
    comments: dict[Any, str] = {}
    ascending = sorted(names, key=lambda name: len(counts[name]))
    for index, coarser in enumerate(ascending):
        size = len(counts[coarser])
        # The coarsest column from which a column follows is named. Of two columns that
        # follow from each other, such as an age and its square, the first is the source.
        equal = [name for name in ascending[:index] if len(counts[name]) == size]
        finer = [name for name in ascending[index:] if len(counts[name]) > size]
        for source in (*equal, *finer):
            n_source, n_others = len(counts[source]), len(rows) - counts[coarser].max()
            # With fewer than five rows per value of the source, or without the most
            # frequent value of the coarser column, it may follow by chance.
            if min(n_others, len(rows) / n_source) < 5:
                continue
            pairs = codes[coarser].astype(np.int64) * n_source + codes[source]
            if len(np.unique(pairs)) == n_source:
                comments[coarser] = (
                    f"{coarser} follows from {source}: derive it or drop it."
                )
                break
    return comments
