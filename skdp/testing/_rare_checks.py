"""Checks of many calls: what happens rarely, or in small tables only, and whether rows share random bits."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from scipy.stats import norm

from skdp.base import heard
from skdp.testing._promise_checks import FALSE_ALARM, codes_of, looks_like_the_original
from skdp.testing._subject import Subject
from skdp.testing._tools import Rows, columns_of, require

# Calls of tables by the number of rows: what happens in one of a hundred is missed with
# a probability of .01.
_CALLS = dict.fromkeys(range(1, 8), 30) | {40: 240}
_MOST_ROWS = max(_CALLS)

_ROWS = 4096


def _check_calls_are_alike(subject: Subject) -> None:
    """Check that no call fails or speaks, and that none, nor a row of the tables of some size, returns the truth."""
    fitted = subject.fit_noisy(random_state=None)
    frames = [subject.frame(subject.rows(48, seed)) for seed in range(4)]
    # A column of one value is always reported as it is.
    is_comparable = looks_like_the_original(fitted, subject)
    for values in subject.values.values():
        is_comparable = is_comparable and len(set(map(repr, values))) > 1
    messages = set()
    for size, n_calls in _CALLS.items():
        # Which places of a table have ever had a report that is not the truth.
        lies: Counter[int] = Counter()
        for call in range(n_calls):
            start = call // 4 % 8
            X = frames[call % 4].iloc[start : start + size]
            with heard() as messages_of_call:
                try:
                    output = fitted.transform(X)
                except Exception as error:
                    raise AssertionError(
                        f"some calls of transform raise {type(error).__name__}"
                    ) from None
            messages.add(tuple(messages_of_call))
            if is_comparable:
                rows, reports = columns_of(X), columns_of(output)
                codes_of(reports, subject)  # nothing but declared values
                require(
                    size < _MOST_ROWS or rows != reports, "some calls return the rows"
                )
                lies.update(_places_of_lies(rows, reports))
        require(
            not is_comparable or len(lies) == size,
            f"a row of a table of {size} rows is never randomised",
        )
    require(
        len(messages) == 1,
        "some calls of transform warn, log or print what others do not",
    )


def _places_of_lies(rows: Rows, reports: Rows) -> set[int]:
    """Return the rows of which at least one column is not reported as it is."""
    places = set()
    for column, column_of_reports in zip(rows.values(), reports.values(), strict=True):
        for place, value in enumerate(column):
            if column_of_reports[place] != value:
                places.add(place)
    return places


def _check_rows_draw_their_own_coins(subject: Subject) -> None:
    """Check that equal rows at no distance from each other have equal reports more often than by chance."""
    fitted = subject.fit_noisy(random_state=None)
    reports = columns_of(fitted.transform(subject.frame(subject.equal_rows(_ROWS))))
    texts = list(map(repr, zip(*reports.values(), strict=True)))
    _, codes, counts = np.unique(texts, return_inverse=True, return_counts=True)
    # The share of pairs of equal reports, whose rows have coins of their own.
    chance = float((counts * (counts - 1)).sum()) / (_ROWS * (_ROWS - 1))
    most = float(norm.isf(FALSE_ALARM / _ROWS))
    # Coins that are used again are used at some distance, such as that of a block.
    for distance in range(1, _ROWS // 2 + 1):
        pairs = _ROWS - distance
        equal = int(np.count_nonzero(codes[distance:] == codes[:-distance]))
        # Pairs that share a row are nearly independent; twice the variance and some pairs more allow for that.
        limit = pairs * chance + most * (math.sqrt(2 * pairs * chance) + 2)
        require(
            equal <= limit,
            f"rows {distance} apart share coins: their reports are equal too often",
        )


CHECKS = (_check_calls_are_alike, _check_rows_draw_their_own_coins)
