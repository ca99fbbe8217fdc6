"""The manifest of a release of many files: what a receiver must know of them, and nothing secret."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, Self

from skdp.privacy import PrivacyGuarantee

NAME = "manifest.json"

_FORMAT, _VERSION = "skdp-manifest", 1
MOST_BYTES = 1 << 26
_MOST_SHARDS = 1 << 17
_SHARD = re.compile(r"part-[0-9]{5,9}\.(parquet|csv|arrow|jsonl|csv\.gz|jsonl\.gz)")
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Shard:
    """A file of a release: its name in the folder, the number of its reports, its size and its digest."""

    name: str
    rows: int
    bytes: int
    sha256: str

    @classmethod
    def of(cls, name: str, rows: int, file: Any) -> Self:
        """Describe an open file."""
        digest, size = hashlib.sha256(), 0
        while block := file.read(1 << 20):
            digest.update(block)
            size += len(block)
        return cls(name, rows, size, digest.hexdigest())

    def holds(self, file: Any) -> bool:
        """Return whether an open file is this one."""
        return self.of(self.name, self.rows, file) == self


@dataclass(frozen=True)
class Manifest:
    """What `privatize_files` says of its shards, in the order of the input."""

    protocol: dict[str, Any] | None  # of `ReportTransformer.to_json`; None of a transformer that cannot be written
    guarantee: PrivacyGuarantee
    charged: PrivacyGuarantee | None  # what a ledger was charged, once; None without a ledger
    kept: tuple[str, ...]  # the columns that are released unprotected
    shards: tuple[Shard, ...]

    def to_json(self) -> str:
        """Write the manifest."""
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "skdp": version("skdp"),
            "protocol": self.protocol,
            "guarantee": self.guarantee.to_dict(),
            "charged": None if self.charged is None else self.charged.to_dict(),
            "kept": list(self.kept),
            "rows": sum(shard.rows for shard in self.shards),
            "shards": [asdict(shard) for shard in self.shards],
        }
        return json.dumps(content, allow_nan=False, ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote, or raise a ValueError."""
        if len(text) > MOST_BYTES:
            raise ValueError(f"a manifest has at most {MOST_BYTES:,} bytes, got {len(text):,}")
        made = None
        with suppress(ValueError, TypeError, LookupError, AttributeError, RecursionError):
            made = cls._of(json.loads(text))
        if made is None:
            raise ValueError(f"the text is no manifest of a release (format {_FORMAT!r}, version {_VERSION})")
        return made

    @classmethod
    def _of(cls, content: Any) -> Self | None:
        if content["format"] != _FORMAT or content["version"] != _VERSION or len(content["shards"]) > _MOST_SHARDS:
            return None
        shards = tuple(_read_shard(one) for one in content["shards"])
        distinct = len({shard.name for shard in shards}) == len(shards)
        protocol, charged, kept = content["protocol"], content["charged"], tuple(content["kept"])
        plain = (protocol is None or isinstance(protocol, dict)) and all(isinstance(name, str) for name in kept)
        whole = content["rows"] == sum(shard.rows for shard in shards)
        if not (shards and distinct and plain and whole):
            return None
        return cls(protocol, _read_guarantee(content["guarantee"]), charged and _read_guarantee(charged), kept, shards)


def _read_guarantee(content: Any) -> PrivacyGuarantee:
    return PrivacyGuarantee.from_json(json.dumps(content))


def _read_shard(content: Any) -> Shard:
    """Read a shard, whose name leads to no other folder."""
    name, rows, size, digest = (content[key] for key in ("name", "rows", "bytes", "sha256"))
    numbers = all(type(number) is int and 0 <= number < 1 << 62 for number in (rows, size))
    if not (numbers and _SHARD.fullmatch(name) and _DIGEST.fullmatch(digest)):
        raise ValueError
    return Shard(name, rows, size, digest)


def check_names(manifest: Manifest, found: Sequence[str]) -> None:
    """Refuse a folder that lacks shards, or has others; hidden files do not count."""
    named = {NAME, *(shard.name for shard in manifest.shards)}
    missing = [shard.name for shard in manifest.shards if shard.name not in found]
    if missing:
        raise ValueError(f"the release is incomplete: {len(missing)} of its shards are missing, such as {missing[0]}")
    foreign = sorted(name for name in found if name not in named and not name.startswith("."))
    if foreign:
        raise ValueError(f"{foreign[0]} is not in the manifest: it is of another release, or of none; move it away")
