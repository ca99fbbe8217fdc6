"""Reports that are not all of one protocol, or were changed since they were made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.base import level_of_the_caller
from skdp.local.protocol._field import Tail
from skdp.pages import warn
from skdp.tables import Releases, joined_releases

# How often at most a tally of honest reports is called unlikely: about five standard
# errors.
RATE = 1e-6

_CAUSES = (
    "Reports of another protocol or of another epsilon may be among them, values may "
    "have been overwritten (such as by "
    "the true ones), rows may have been chosen by their reports, or come several times"
)


class UnverifiedReportsWarning(UserWarning):
    """What is read may not be what the transformer reported.

    Its estimates, and its guarantee, may not hold for it.

    Examples
    --------
    >>> import warnings
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.local import UnverifiedReportsWarning
    >>> people = pd.DataFrame({"sex": ["f", "m"] * 500})
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]})
    >>> encoder = encoder.fit(people)
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
    """Refuse sums that reports of no true values have, or warn of unlikely ones."""
    # Permanent reports of several releases are not independent of each other.
    if protocol.permanent_key is None:
        judge(protocol.tails(tally, columns))


def check_releases(
    counts: NDArray[np.int64] | None, noted: Releases | None, released: Any
) -> None:
    """Warn of reports that are neither of their noted releases nor of the own ones."""
    # `released` are the `ReleasedCounts` of the transformer.
    # Some of the reports, in any order, have at most the counts of all: of a part,
    # nothing else can be said. What the transformer knows of its own releases counts
    # where there is no note, or one of fewer reports.
    if counts is None:
        return
    is_explained = released.are_known and released.explain(counts)
    if noted is None:
        if released.are_known and not is_explained:
            _warn_unverified(
                "these reports have no note of what they are, and are neither a part "
                "of one table that the transformer has made, nor some of its tables as "
                f"they were made. {_CAUSES}"
            )
        return
    if _are_among(counts, noted):
        return
    n_reports = int(counts[0])
    listed = noted.total(len(counts))
    content = "others"
    if listed is not None and n_reports > listed[0]:
        if is_explained:
            return
        content = f"{int(listed[0]):,} of {n_reports:,} reports"
    _warn_unverified(
        "the note of these reports is not verified, as the releases that it lists have "
        f"{content}. Of tables that were joined, only `join_reports` keeps the notes "
        f"of all. {_CAUSES}"
    )


# The counts of the reports of a file, and the releases of its note.
NotedCounts = tuple[NDArray[np.int64], Releases]


def check_together(files: Sequence[NotedCounts]) -> None:
    """Warn of files that hold more reports than the releases of their notes."""
    # They have some in common. Files of the same releases are judged by themselves,
    # too, as their excess may be no more than what is left out of other releases.
    noted_files: list[NotedCounts] = []
    of_same_releases: dict[frozenset[str], list[NotedCounts]] = {}
    for counts, releases in files:
        # A file with a wrong note was judged by itself.
        if _are_among(counts, releases):
            noted_files.append((counts, releases))
            group = of_same_releases.setdefault(frozenset(releases), [])
            group.append((counts, releases))
    for group in (*of_same_releases.values(), noted_files):
        excess = _excess(group)
        if excess is not None:
            _warn_unverified(
                f"the notes of these files are not verified together: {len(group)} "
                f"files hold {excess}. Reports that are in several files, such as in a "
                "copy or a part of another one, are counted several times"
            )
            return


def _excess(files: Sequence[NotedCounts]) -> str | None:
    """Say how many reports files hold, and their releases, if these are too few."""
    if not files:
        return None
    counts = np.sum([counts for counts, _ in files], axis=0)
    releases = joined_releases(releases for _, releases in files)
    listed = None if releases is None else releases.total(len(counts))
    if listed is None or (counts <= listed).all():
        return None
    excess = f"{int(counts[0]):,} reports of releases that have {int(listed[0]):,}"
    if counts[0] <= listed[0]:
        excess += ", but more of some values than these"
    return excess


def _are_among(counts: NDArray[np.int64] | None, noted: Releases | None) -> bool:
    """Return whether reports may be some of those of releases, by their counts."""
    if counts is None or noted is None:
        return False
    listed = noted.total(len(counts))
    return listed is not None and bool((counts <= listed).all())


def _warn_unverified(reason: str) -> None:
    warn(
        reason,
        UnverifiedReportsWarning,
        about="background/client_reports",
        stacklevel=level_of_the_caller(),
    )


def judge(tails: Sequence[Tail]) -> None:
    """Refuse reports with all but impossible sums, and warn of unlikely ones."""
    # The chance that one of J tails, each the least of c ones, is below ``rate / (J
    # c)`` is at most the rate, for any true values.
    threshold = math.log(RATE / max(1, len(tails)))
    # If rows were drawn again with replacement (a bootstrap), or all of them come
    # twice, the variance doubles, and every logarithm is half of it: what is refused is
    # unlikely even then.
    refused_columns = _most_unlikely(tails, threshold, scale=0.5)
    if refused_columns is not None:
        raise ValueError(
            f"the reports of {refused_columns} have sums that reports of this "
            "transformer cannot have, whatever the true values (but by a chance far "
            f"below {RATE:g}). {_CAUSES}. Estimate from the reports as they were made, "
            "those of each protocol by themselves"
        )
    unlikely_columns = _most_unlikely(tails, threshold, scale=1)
    if unlikely_columns is not None:
        _warn_unverified(
            f"the reports of {unlikely_columns} have sums that reports of this "
            f"transformer have in fewer than one of {round(1 / RATE):,} tables, "
            f"whatever the true values. {_CAUSES}"
        )


def _most_unlikely(
    tails: Sequence[Tail], threshold: float, *, scale: float
) -> str | None:
    """Return the columns of the least tail below a threshold; None if there is none."""
    columns = None
    least = threshold
    for tail, choices, tail_columns in tails:
        # Of `exp(choices)` sums, the most extreme one was chosen.
        logarithm = scale * tail + choices
        if logarithm < least:
            least = logarithm
            columns = tail_columns
    return columns
