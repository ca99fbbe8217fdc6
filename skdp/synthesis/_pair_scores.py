"""The noisy scores of pairs, as a table and in files."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from skdp.domain import Domain
from skdp.synthesis.model import Clique, Marginal


def tabulate_scores(
    scores: Mapping[Clique, tuple[float, float]], domain: Domain, marginals: Collection[Marginal], scale: float = 1.0
) -> pd.DataFrame:
    """Make a table with a row for each pair, the strongest first."""
    pairs = sorted((clique for clique in scores if len(clique) == 2), key=lambda pair: -scores[pair][0])
    named = [tuple(domain.columns[column] for column in pair) for pair in pairs]
    index = pd.MultiIndex.from_arrays([[one[axis] for one in named] for axis in (0, 1)], names=["first", "second"])
    held = [any({*pair} <= {*marginal.clique} for marginal in marginals) for pair in pairs]
    numbers = {
        name: [scores[pair][place] / scale for pair in pairs] for place, name in enumerate(("score", "std_error"))
    }
    return pd.DataFrame(numbers, index=index, dtype=float).assign(measured=pd.Series(held, index, bool))


def pack_scores(table: pd.DataFrame, domain: Domain) -> list[list[float]]:
    """Turn a table of scores into what JSON can hold: the numbers of the columns, the score and its error."""
    places = {name: place for place, name in enumerate(domain.columns)}
    numbers = zip(table.index, table["score"], table["std_error"], strict=True)
    return [[*sorted((places[first], places[second])), score, error] for (first, second), score, error in numbers]


def read_scores(packed: Iterable[Sequence[Any]], domain: Domain, marginals: Collection[Marginal]) -> pd.DataFrame:
    """Read what `pack_scores` wrote."""
    scores: dict[Clique, tuple[float, float]] = {}
    for first, second, score, error in packed:
        whole = all(type(column) is int for column in (first, second))
        if not whole or not 0 <= first < second < len(domain.columns):
            raise ValueError("a pair must be two increasing numbers of columns")
        if not all(type(number) in (int, float) and math.isfinite(number) for number in (score, error)):
            raise ValueError("a score must be a finite number")
        scores[first, second] = float(score), float(error)
    return tabulate_scores(scores, domain, marginals)
