"""Planned analyses: the marginals that they need."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from skdp.domain import Categories, Domain, Interval
from skdp.synthesis._queries import find_columns
from skdp.synthesis.model import Clique, n_cells_of
from skdp.tables import kind_of

_PIECE = re.compile("`[^`]*`|[~+]|[^~+`]+|`")
"""Of a formula: a name between backticks, a sign, or what is between them."""


def read_analyses(analyses: Any, domain: Domain, max_cells: int) -> tuple[Clique, ...]:
    """List the marginals that planned analyses need, without those within others."""
    if analyses is None:
        return ()
    expected = "analyses must be a list of formulas 'y ~ a + b' and lists of columns"
    if isinstance(analyses, str | Mapping) or not isinstance(analyses, Iterable):
        raise TypeError(f"{expected}, got {type(analyses).__name__}")
    marginals: dict[Clique, None] = {}
    for analysis in analyses:
        if isinstance(analysis, str):
            needed = _marginals_of_formula(analysis, domain)
        elif isinstance(analysis, Iterable) and not isinstance(analysis, Mapping):
            needed = [find_columns(domain, analysis, "analyses")]
        else:
            raise TypeError(f"{expected}; {analysis!r} is neither")
        for columns in needed:
            n_cells = n_cells_of(columns, domain.sizes)
            if n_cells > max_cells:
                names = [domain.columns[column] for column in columns]
                raise ValueError(
                    f"analyses: {analysis!r} needs columns {names} together, which "
                    f"have {n_cells:,} cells; at most max_cells = {max_cells:,} are "
                    "measured. Name fewer columns, or set max_cells higher"
                )
            marginals[tuple(sorted(columns))] = None
    if not marginals:
        raise ValueError("analyses must have at least one formula or list of columns")
    outermost = []
    for clique in marginals:
        n_holders = 0
        for marginal in marginals:
            n_holders += set(clique) <= set(marginal)
        if n_holders == 1:  # itself
            outermost.append(clique)
    return tuple(outermost)


def _marginals_of_formula(formula: str, domain: Domain) -> list[list[int]]:
    """List the columns that a regression needs together."""
    columns = []
    for text in _split(formula):
        columns.append(_find_term(formula, text, domain))
    if len(set(columns)) < len(columns):
        raise ValueError(f"analyses: {formula!r} names a column twice")
    target, *features = columns
    target_name = domain.columns[target]
    values = domain[target_name]
    for column in columns:
        name = domain.columns[column]
        is_regressed = column == target or _has_numbers(domain[name])
        if is_regressed and _may_be_missing(domain[name]):
            listed = [domain.columns[place] for place in columns]
            raise ValueError(
                f"analyses: {formula!r} needs {name!r} of all rows, and it may be "
                f"missing. Name {listed} as a list instead, and let "
                "synthetic_inference call a function that regresses the rows that "
                "dropna leaves"
            )
    if len(values.labels) == 2:
        # The score of a logistic regression is x * (y - mean(x)): a product of the
        # target and a feature, and a function of all features.
        needed = [[target, feature] for feature in features]
        needed.append(features)
        return needed
    if not _has_numbers(values):
        raise ValueError(
            f"analyses: the target {target_name!r} of {formula!r} must be a column of "
            "numbers, or of two values; for another analysis, give a list of columns"
        )
    # A linear regression follows from means of squares and products.
    return [list(pair) for pair in itertools.combinations(columns, 2)]


def _split(formula: str) -> list[str]:
    """Return the target and the terms of a formula, as they are written."""
    signs = []
    texts = [""]
    for piece in _PIECE.findall(formula):
        if piece in ("~", "+"):
            signs.append(piece)
            texts.append("")
        else:
            texts[-1] += piece
    texts = [text.strip() for text in texts]
    # Behind the first sign, all others are sums.
    is_formula = signs[:1] == ["~"] and "~" not in signs[1:]
    if not is_formula or "" in texts:
        raise ValueError(f"analyses: {formula!r} is no formula like 'y ~ a + b'")
    return texts


def _find_term(formula: str, text: str, domain: Domain) -> int:
    """Return the number of the column that a formula names, between backticks or not."""
    quoted = re.fullmatch("`([^`]+)`", text)
    if quoted is not None and text not in domain.columns:
        text = quoted[1]
    if text in domain.columns:
        return domain.columns.index(text)
    raise ValueError(
        f"analyses: there is no column {text!r} in {formula!r}. A formula has plain "
        "sums of columns, without interactions, functions or constants (a regression "
        "adds an intercept, and indicators of categories); the columns are "
        f"{list(domain.columns)}"
    )


def _has_numbers(values: Categories | Interval) -> bool:
    if isinstance(values, Interval):
        return values.dtype.kind == "f"
    kinds = {kind_of(value) for value in values.values if value is not None}
    return kinds == {"number"}


def _may_be_missing(values: Categories | Interval) -> bool:
    if isinstance(values, Interval):
        return values.missing
    return None in values.values
