"""Tallies that no true values explain: of reports that are not all of one protocol, or were changed since."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.base import level_of_the_caller
from skdp.local.protocol._field import Tail
from skdp.local.protocol._protocol import ReleasedCounts
from skdp.tables import Releases, joined_releases

RATE = 1e-6
"""How often at most, of all tallies of honest reports, one is called unlikely: about five standard errors."""

_CAUSES = (
    "Reports of another protocol or of another epsilon may be among them, values may "
    "have been overwritten (such as by "
    "the true ones), rows may have been chosen by their reports, or come several times"
)


class UnverifiedReportsWarning(UserWarning):
    """What is read may not be what the transformer reported: its estimates, and its guarantee, may not hold for it.

    Examples
    --------
    >>> import warnings
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.local import UnverifiedReportsWarning
    >>> people = pd.DataFrame({"sex": ["f", "m"] * 500})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]}).fit(people)
    >>> reports = encoder.transform(people)
    >>> reports["sex"] = ["f"] * 600 + ["m"] * 400
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     counts = encoder.estimate_counts(reports)
    >>> [warning.category is UnverifiedReportsWarning for warning in caught]
    [True]
    """


def refuse_impossible(
    protocol: Any, tally: Any, columns: Sequence[Any] | None = None
) -> None:
    """Refuse sums that reports of no true values have, but by a chance that is stated; warn of less unlikely ones."""
    # Permanent reports of several releases are not independent of each other.
    if protocol.permanent_key is None:
        judge(protocol.tails(tally, columns))


def check_releases(
    counts: NDArray[np.int64] | None, noted: Releases | None, released: ReleasedCounts
) -> None:
    """Warn of reports that are neither among those of the releases of their note, nor of the transformer's own."""
    # Some of the reports, in any order, have at most the counts of all: of a part,
    # nothing else can be said. What the transformer knows of its own releases counts
    # where there is no note, or one of fewer reports.
    if (
        counts is None
        or (noted is None and not released.are_known)
        or _are_among(counts, noted)
    ):
        return
    n_reports, listed = (
        int(counts[0]),
        None if noted is None else noted.total(len(counts)),
    )
    is_larger = noted is None or (listed is not None and n_reports > listed[0])
    if is_larger and released.are_known and released.explain(counts):
        return
    if noted is None:
        reason = (
            "these reports have no note of what they are, and are neither a part of "
            "one table that the transformer has "
            "made, nor some of its tables as they were made"
        )
    else:
        reason = "the note of these reports is not verified, as the releases that it lists have "
        reason += (
            f"{int(listed[0]):,} of {n_reports:,} reports"
            if listed is not None and is_larger
            else "others"
        )
        reason += (
            ". Of tables that were joined, only `join_reports` keeps the notes of all"
        )
    _warn_unverified(f"{reason}. {_CAUSES}")


NotedCounts = tuple[NDArray[np.int64], Releases]
"""The counts of the reports of a file, and the releases of its note."""


def check_together(files: Sequence[NotedCounts]) -> None:
    """Warn of files that hold more reports than the releases of their notes: they have some in common."""
    # A file with a wrong note was judged by itself. Files of the same releases are
    # judged by themselves, too, as their excess may be no more than what is left out of
    # other releases.
    noted = [
        (counts, releases) for counts, releases in files if _are_among(counts, releases)
    ]
    of_same_releases: dict[frozenset[str], list[NotedCounts]] = {}
    for counts, releases in noted:
        of_same_releases.setdefault(frozenset(releases), []).append((counts, releases))
    groups = list(of_same_releases.values())
    if len(groups) > 1:
        groups.append(noted)
    for group in groups:
        excess = _excess(group)
        if excess is not None:
            _warn_unverified(
                f"the notes of these files are not verified together: {len(group)} "
                f"files hold {excess}. Reports that "
                "are in several files, such as in a copy or a part of another one, "
                "are counted several times"
            )
            return


def _excess(files: Sequence[NotedCounts]) -> str | None:
    """Say how many reports files hold, and how many their releases have, if these cannot be the same reports."""
    counts = np.sum([counts for counts, _ in files], axis=0)
    releases = joined_releases(releases for _, releases in files)
    listed = None if releases is None else releases.total(len(counts))
    if listed is None or (counts <= listed).all():
        return None
    numbers = f"{int(counts[0]):,} reports of releases that have {int(listed[0]):,}"
    return (
        numbers
        if counts[0] > listed[0]
        else f"{numbers}, but more of some values than these"
    )


def _are_among(counts: NDArray[np.int64] | None, noted: Releases | None) -> bool:
    """Return whether reports may be some of those of releases, by their counts."""
    if counts is None or noted is None:
        return False
    listed = noted.total(len(counts))
    return listed is not None and bool((counts <= listed).all())


def _warn_unverified(reason: str) -> None:
    warnings.warn(reason, UnverifiedReportsWarning, stacklevel=level_of_the_caller())


def judge(tails: Sequence[Tail]) -> None:
    """Judge tails of sums: their logarithm, that of the number of sums they were chosen from, and whose they are."""
    # The chance that one of J tails, each the least of c ones, is below ``rate / (J
    # c)`` is at most the rate, for any true values. If rows were drawn again with
    # replacement (a bootstrap), or all of them come twice, the variance doubles, and
    # with it every logarithm: what is refused even then is below the square of that.
    least = math.log(RATE / max(1, len(tails)))
    unlikely = min(
        ((tail + choices - least, whose) for tail, choices, whose in tails),
        default=None,
    )
    refused = min(
        ((tail / 2 + choices - least, whose) for tail, choices, whose in tails),
        default=None,
    )
    if refused is not None and refused[0] < 0:
        raise ValueError(
            f"the reports of {refused[1]} have sums that reports of this transformer "
            "cannot have, whatever the true "
            f"values (but by a chance far below {RATE:g}). {_CAUSES}. Estimate from "
            "the reports as they were made, "
            "those of each protocol by themselves"
        )
    if unlikely is not None and unlikely[0] < 0:
        warnings.warn(
            f"the reports of {unlikely[1]} have sums that reports of this transformer "
            "have in fewer than one of "
            f"{round(1 / RATE):,} tables, whatever the true values. {_CAUSES}",
            UnverifiedReportsWarning,
            stacklevel=level_of_the_caller(),
        )
