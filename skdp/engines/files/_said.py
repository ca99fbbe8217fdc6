"""What files of reports say of their protocol: in their metadata, or in a file beside them."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain import parse_json
from skdp.engines._atomic import sync, written_beside
from skdp.local import check_carried
from skdp.tables import Releases

_FORMAT = "skdp reports, version 1"
_MOST_BYTES = 1 << 24
MOST_SUMS = 1 << 21
"""Of a tally that is read from a file of others."""


def sidecar_of(path: Path) -> Path:
    """Name the file that says the protocol of a file that has no metadata."""
    return path.with_name(f"{path.name}.skdp.json")


def write_sidecar(content: Path, text: str, sidecar: Path) -> None:
    """Write the protocol of a file beside it, with the digest of what it is the protocol of, and a random number."""
    head = json.dumps(
        {"format": _FORMAT, "sha256": _digest(content), "release": secrets.token_hex(8)}
    )
    with written_beside(sidecar) as beside:
        beside.write_text(f'{head[:-1]}, "protocol": {text}}}\n', encoding="utf-8")
        sync(beside)
    sync(sidecar.parent)


def said_by_sidecar(path: Path) -> str | None:
    """Read the protocol that is written beside a file; None if there is none."""
    content = _sidecar_content(path)
    return None if content is None else json.dumps(content.get("protocol"))


def note_of_copy(path: Path, counts: NDArray[np.int64] | None) -> Releases | None:
    """Note the reports of a whole file by the number beside it, which copies share; None if there is none."""
    content = _sidecar_content(path)
    number = None if content is None else content.get("release")
    if counts is None or not isinstance(number, str):
        return None
    return Releases({number: json.dumps(counts.tolist())})


def _sidecar_content(path: Path) -> dict[str, Any] | None:
    """Read what is written beside a file, which must be that file; None if there is nothing."""
    sidecar = sidecar_of(path)
    if not sidecar.is_file():
        return None
    content = read_json(sidecar, "a sidecar")
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError(
            f"{sidecar.name} does not say the protocol of reports (format {_FORMAT!r})"
        )
    if content.get("sha256") != _digest(path):
        raise ValueError(
            f"{path.name} is not the file that {sidecar.name} says the protocol of: it was changed or replaced since. "
            "If these are reports of one protocol, remove the sidecar and give the protocol"
        )
    return content


def only_one(texts: Iterable[str | None], name: str) -> str | None:
    """Return the protocol that the files of a table say: all of them the same, or none."""
    said = {*texts}
    if len(said) > 1:
        raise ValueError(
            f"{name}: reports of two protocols are never added, and its files say different ones, or none"
        )
    return said.pop() if said else None


def check_said(text: str | None, transformer: Any, name: str) -> None:
    """Refuse a transformer whose reports the file does not hold."""
    try:
        check_carried(text, transformer)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def read_json(path: Path, what: str) -> Any:
    """Read JSON of others, within limits; None if it is none."""
    if (size := path.stat().st_size) > _MOST_BYTES:
        raise ValueError(
            f"{path.name}: {what} has at most {_MOST_BYTES:,} bytes, got {size:,}"
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        return None
    return parse_json(text, f"{path.name}: {what}", MOST_SUMS)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
