"""Which reports a file counts, by the digests of files, so that none is counted twice."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from skdp.engines._source_file import SourceFile
from skdp.engines.files._formats import TableFile
from skdp.engines.files._said import sidecar_of
from skdp.engines.files.shards import ReleasedFolder

DIGESTS_KEY = "skdp.digests"
"""Where a tally has the digests of the files that it sums."""

Source = Path | SourceFile | ReleasedFolder

_MOST = 1 << 16
_DIGEST = re.compile("[0-9a-f]{64}")


def digests_of(source: Source, tally: Mapping[str, Any] | None) -> frozenset[str]:
    """Digest a file of reports, the shards of a release, or a tally; of this, also return what it lists."""
    if isinstance(source, ReleasedFolder):
        return source.digests
    opened = source if isinstance(source, SourceFile) else SourceFile.at(source)
    with opened.open_raw() as file:
        own = hashlib.file_digest(file, "sha256").hexdigest()
    return frozenset([own, *([] if tally is None else _listed(source.name, tally))])


def refuse_overlap(sources: Sequence[Source], digests: Sequence[frozenset[str]]) -> None:
    """Refuse sources that have reports in common."""
    seen: dict[str, Source] = {}
    for source, own in zip(sources, digests, strict=True):
        both = next((digest for digest in own if digest in seen), None)
        if both is not None:
            raise ValueError(
                f"{source.name} holds, or sums up, the same reports as {seen[both].name}, which would be counted "
                "twice: leave one out, or, if equal files hold different reports, give allow_copies=True"
            )
        seen |= dict.fromkeys(own, source)


def with_digests(tally: Mapping[str, Any], digests: Iterable[frozenset[str]]) -> dict[str, Any]:
    """Add the digests of what a tally sums, unless they are too many."""
    listed = sorted(frozenset().union(*digests))
    return {**tally, DIGESTS_KEY: listed} if 0 < len(listed) <= _MOST else dict(tally)


def may_be_listed(source: Source, names: Sequence[Any], is_tally: bool) -> bool:
    """Return whether a digest shows of reports only: one of further columns would confirm a guess of these."""
    if is_tally:
        return True
    if isinstance(source, ReleasedFolder):
        return not source.kept
    if source.name.endswith((".jsonl", ".ndjson")) and not (isinstance(source, Path) and sidecar_of(source).is_file()):
        return False  # a line may have more columns than the first one
    table = TableFile(source)
    return set(table.names) <= set(map(str, names)) and (table.format != "jsonl" or table.protocol() is not None)


def _listed(name: str, tally: Mapping[str, Any]) -> list[str]:
    """Return the digests that a tally lists."""
    found = tally.get(DIGESTS_KEY, [])
    if not isinstance(found, list) or len(found) > _MOST or not all(map(_is_digest, found)):
        raise ValueError(f"{name}: {DIGESTS_KEY} of a tally must be a list of at most {_MOST:,} SHA-256 digests")
    return found


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None
