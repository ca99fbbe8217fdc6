"""Checks of many calls: what happens rarely, or in small tables only, and whether rows share random bits."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from scipy.stats import norm

from skdp.base import heard
from skdp.testing._promise_checks import FALSE_ALARM, codes_of, looks_like_the_original
from skdp.testing._subject import Subject
from skdp.testing._tools import columns_of, require

_CALLS = dict.fromkeys(range(1, 8), 30) | {40: 240}
"""Calls of tables by the number of rows: what happens in one of a hundred is missed with a probability of .01."""

_ROWS = 4096


def _check_calls_are_alike(subject: Subject) -> None:
    """Check that no call fails or speaks, and that none, nor a row of the tables of some size, returns the truth."""
    fitted = subject.fit_noisy(random_state=None)
    frames = [subject.frame(subject.rows(48, seed)) for seed in range(4)]
    varied = all(len(set(map(repr, values))) > 1 for values in subject.values.values())
    comparable = varied and looks_like_the_original(fitted, subject)
    said = set()
    for size, calls in _CALLS.items():
        lies: Counter[int] = Counter()
        for call in range(calls):
            X = frames[call % 4].iloc[call // 4 % 8 :][:size]
            with heard() as texts:
                try:
                    released = fitted.transform(X)
                except Exception as error:
                    raise AssertionError(
                        f"some calls of transform raise {type(error).__name__}"
                    ) from None
            said.add(tuple(texts))
            if comparable:
                rows, reports = columns_of(X), columns_of(released)
                codes_of(reports, subject)  # nothing but declared values
                pairs = zip(
                    zip(*rows.values(), strict=True),
                    zip(*reports.values(), strict=True),
                    strict=False,
                )
                lies.update(
                    place for place, (row, report) in enumerate(pairs) if row != report
                )
                require(
                    size < max(_CALLS) or rows != reports, "some calls return the rows"
                )
        require(
            not comparable or len(lies) == size,
            f"a row of a table of {size} rows is never randomised",
        )
    require(
        len(said) == 1, "some calls of transform warn, log or print what others do not"
    )


def _check_rows_draw_their_own_coins(subject: Subject) -> None:
    """Check that equal rows at no distance from each other have equal reports more often than by chance."""
    fitted = subject.fit_noisy(random_state=None)
    reports = columns_of(fitted.transform(subject.frame(subject.equal_rows(_ROWS))))
    _, codes, counts = np.unique(
        list(map(repr, zip(*reports.values(), strict=True))),
        return_inverse=True,
        return_counts=True,
    )
    chance = float((counts * (counts - 1)).sum()) / (_ROWS * (_ROWS - 1))
    most = float(norm.isf(FALSE_ALARM / _ROWS))
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
