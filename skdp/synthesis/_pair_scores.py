"""The noisy scores of pairs, as a table and in files."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from skdp.domain import Domain
from skdp.synthesis.model import Clique, Marginal

Scores = Mapping[Clique, tuple[float, float]]
"""Of each pair of columns, its score and the standard error of that."""


def tabulate_scores(
    scores: Scores, domain: Domain, marginals: Collection[Marginal]
) -> pd.DataFrame:
    """Make a table with a row for each pair, the strongest first."""
    pairs = sorted(scores, key=lambda pair: -scores[pair][0])
    named = [tuple(domain.columns[column] for column in pair) for pair in pairs]
    index = pd.MultiIndex.from_arrays(
        [[one[axis] for one in named] for axis in (0, 1)], names=["first", "second"]
    )
    held = [
        any({*pair} <= {*marginal.clique} for marginal in marginals) for pair in pairs
    ]
    numbers = {
        name: [scores[pair][place] for pair in pairs]
        for place, name in enumerate(("score", "std_error"))
    }
    return pd.DataFrame(numbers, index=index, dtype=float).assign(
        measured=pd.Series(held, index, bool)
    )


def read_scores(packed: Iterable[Sequence[Any]], domain: Domain) -> Scores:
    """Read scores from JSON: lists of the numbers of the columns, the score and its error."""
    scores: dict[Clique, tuple[float, float]] = {}
    for first, second, score, error in packed:
        whole = all(type(column) is int for column in (first, second))
        if not whole or not 0 <= first < second < len(domain.columns):
            raise ValueError("a pair must be two increasing numbers of columns")
        if not all(
            type(number) in (int, float) and math.isfinite(number)
            for number in (score, error)
        ):
            raise ValueError("a score must be a finite number")
        scores[first, second] = float(score), float(error)
    return scores
