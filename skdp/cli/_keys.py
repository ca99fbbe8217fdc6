"""The secret key of permanent reports, in a file that only its owner can read."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from skdp.local import RapporEncoder, SecretKey

_MOST_BYTES = 1 << 12


def add_permanent(command: Any) -> None:
    """Add the options of permanent reports."""
    help_id = "the column that says which record a row is of: a record that reports again repeats its report"
    command.add_argument("--record-id", metavar="COLUMN", help=help_id)
    key = command.add_mutually_exclusive_group()
    key.add_argument("--key", type=Path, metavar="FILE", help="the secret key of permanent reports; keep it")
    key.add_argument("--new-key", type=Path, metavar="FILE", help="the same, for the first time: draws a key")


def permanent_parameters(options: argparse.Namespace, kind: type[Any] | None) -> dict[str, Any]:
    """Return the parameters of a transformer of a class, or of a protocol, that reports permanently."""
    place = options.key or options.new_key
    if (place is None) != (options.record_id is None):
        raise ValueError("--record-id goes with --key, or --new-key, and these with --record-id")
    if place is None:
        return {}
    if options.seed is not None and kind is not RapporEncoder:
        raise ValueError("--seed is of no use with --record-id: the random bits come from the key")
    key = read_key(place) if options.key is not None else new_key(place)
    return {"secret_key": key} | ({} if kind in (None, RapporEncoder) else {"memoize": True})


def read_key(path: Path) -> SecretKey:
    """Read a key, as hexadecimal digits."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no key {path}; --new-key draws one") from None
    try:
        key = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        key = b""
    if not key:
        raise ValueError(f"--key {path} holds no key, which is a line of hexadecimal digits, as --new-key writes it")
    return SecretKey(key)


def new_key(path: Path) -> SecretKey:
    """Draw a key and write it to a new file."""
    key = SecretKey.generate()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise FileExistsError(f"{path} exists already: a key that was drawn before is given by --key") from None
    with os.fdopen(handle, "w") as file:
        file.write(f"{key.hex()}\n")
        file.flush()
        os.fsync(file.fileno())
    return key
