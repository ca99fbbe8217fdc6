"""What shows that two files count the same reports: the digests of files, and the numbers of tallies.

Of the reports in a tally, only the sum may be public, as where they are shuffled. So a tally lists no digest, which
would confirm a guess of more than the sum, but random numbers.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from skdp.engines._source_file import SourceFile
from skdp.engines.files.shards import ReleasedFolder

TALLIES_KEY = "skdp.tallies"
"""Where a tally has its number, and then those of the tallies that it sums."""

Source = Path | SourceFile | ReleasedFolder

_MOST = 1 << 16
_NUMBER = re.compile("[0-9a-f]{32}")


def digests_of(source: Source) -> frozenset[str]:
    """Digest a file of reports, the shards of a release, or a tally."""
    if isinstance(source, ReleasedFolder):
        return source.digests
    opened = source if isinstance(source, SourceFile) else SourceFile.at(source)
    with opened.open_raw() as file:
        return frozenset([hashlib.file_digest(file, "sha256").hexdigest()])


def refuse_overlap(sources: Sequence[Source], marks: Sequence[frozenset[str]]) -> None:
    """Refuse sources that have reports in common."""
    seen: dict[str, Source] = {}
    for source, own in zip(sources, marks, strict=True):
        both = next((mark for mark in own if mark in seen), None)
        if both is not None:
            raise ValueError(
                f"{source.name} holds, or sums up, the same reports as {seen[both].name}, which would be counted "
                "twice: leave one out, or, if equal files hold different reports, give allow_copies=True"
            )
        seen |= dict.fromkeys(own, source)


def numbered(summed: Iterable[Sequence[str]]) -> list[str]:
    """Draw the number of a tally, and add those of the tallies that it sums, unless they are too many."""
    listed = sorted({number for one in summed for number in one})
    return [secrets.token_hex(16), *(listed if len(listed) < _MOST else [])]


def numbers_in(name: str, tally: Mapping[str, Any]) -> list[str]:
    """Return the number of a tally, and of those that it sums."""
    found = tally.get(TALLIES_KEY, [])
    if not isinstance(found, list) or len(found) > _MOST or not all(map(_is_number, found)):
        raise ValueError(f"{name}: {TALLIES_KEY} of a tally must be a list of at most {_MOST:,} numbers of tallies")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, str) and _NUMBER.fullmatch(value) is not None
