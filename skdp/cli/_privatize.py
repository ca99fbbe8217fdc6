"""``skdp privatize``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from skdp.cli._arguments import opened_ledger, refuse_options
from skdp.cli._transformers import (
    TRANSFORMERS,
    fitted_to_names,
    load_transformer,
    make_transformer,
)
from skdp.engines import privatize_file
from skdp.engines.files import TableFile
from skdp.local import NumericPerturber, RapporEncoder, SecretKey


def run_privatize(options: argparse.Namespace) -> Path:
    """Run ``skdp privatize``."""
    if not options.to_stream:
        refuse_options(
            options,
            ["format"],
            "is of standard output: the name of a file says its format",
        )
    # Before the charge: a release whose protocol cannot be written could not be estimated.
    if options.save is not None and options.save.exists():
        raise FileExistsError(
            f"{options.save} exists already; choose another name for --save"
        )
    transformer, columns = _transformer(options)
    keep = _columns_to_keep(options, columns)
    with opened_ledger(options) as ledger:
        transformer.set_params(ledger=ledger)
        if isinstance(transformer, RapporEncoder):
            fitted_to_names(transformer, columns)
        privatize_file(
            options.data,
            options.out,
            transformer,
            keep=keep,
            record_id=options.record_id,
            check=options.check,
            delimiter=options.delimiter,
        )
    # Parquet and Arrow have their protocol in their metadata; CSV has no place for it.
    if options.save is not None:
        transformer.save(options.save)
    elif str(options.out).endswith((".csv", ".tsv", ".gz")):
        print(
            "The reports do not say their protocol: --save writes it, for skdp "
            "estimate",
            file=sys.stderr,
        )
    print(transformer.guarantee_)
    return options.out


def _columns_to_keep(options: argparse.Namespace, columns: list[Any]) -> list[Any]:
    """Return the columns to release as they are, and say which ones are left out."""
    table = TableFile(options.data, delimiter=options.delimiter)
    # Other columns may be a row, if a CSV file has no header.
    table.check_columns(columns)
    unreported = [name for name in table.names if name not in columns]
    # Columns are released or left out by name: what is public must be seen before it is.
    keep = unreported if options.keep_all else options.keep
    if keep:
        print(f"Released as they are: {', '.join(keep)}", file=sys.stderr)
    released = {*keep, options.record_id}
    left_out = [name for name in unreported if name not in released]
    if left_out:
        print(f"Left out: {', '.join(left_out)}", file=sys.stderr)
    return list(keep)


def _transformer(options: argparse.Namespace) -> tuple[Any, list[Any]]:
    """Make the transformer, and name its columns."""
    parameters: dict[str, Any] = {"random_state": options.seed}
    if options.load is not None:
        refuse_options(options, ["handle_unknown"], "is in the protocol")
        parameters |= permanent_parameters(options, None)
        transformer = load_transformer(options, options.load, **parameters)
    else:
        kind = TRANSFORMERS[options.transformer or "randomized_response"]
        if kind in (NumericPerturber, RapporEncoder):
            refuse_options(
                options,
                ["handle_unknown"],
                "goes with another --transformer: there is no undeclared value",
            )
        else:
            parameters["handle_unknown"] = options.handle_unknown or "error"
        parameters |= permanent_parameters(options, kind)
        transformer = make_transformer(options, **parameters)
    if hasattr(transformer, "protocol_"):
        return transformer, list(transformer.protocol_.columns)
    return transformer, list(transformer._declared_domain().columns)


# A key has some dozens of bytes; a larger file is another one.
_MAX_BYTES_OF_KEY = 1 << 12


def permanent_parameters(
    options: argparse.Namespace, kind: type[Any] | None
) -> dict[str, Any]:
    """Return the parameters of permanent reports, of a class or of a protocol (None)."""
    path = options.key or options.new_key
    if (path is None) != (options.record_id is None):
        raise ValueError(
            "--record-id goes with --key, or --new-key, and these with --record-id"
        )
    if path is None:
        return {}
    if options.seed is not None and kind is not RapporEncoder:
        raise ValueError(
            "--seed is of no use with --record-id: the random bits come from the key"
        )
    key = read_key(path) if options.key is not None else new_key(path)
    parameters: dict[str, Any] = {"secret_key": key}
    # A protocol says whether its reports are permanent, and those of RAPPOR always are.
    if kind not in (None, RapporEncoder):
        parameters["memoize"] = True
    return parameters


def read_key(path: Path) -> SecretKey:
    """Read a key, as hexadecimal digits."""
    try:
        with path.open("rb") as file:
            # With a limit, as the path may be that of a table.
            text = file.read(_MAX_BYTES_OF_KEY)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no key {path}; --new-key draws one"
        ) from None
    try:
        key = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        key = b""
    if not key:
        raise ValueError(
            f"--key {path} holds no key, which is a line of hexadecimal digits, as "
            "--new-key writes it"
        )
    return SecretKey(key)


def new_key(path: Path) -> SecretKey:
    """Draw a key and write it to a new file."""
    key = SecretKey.generate()
    try:
        # Never over another key, with which permanent reports of the same persons were drawn:
        # new noise for the same values would cost their privacy again.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise FileExistsError(
            f"{path} exists already: a key that was drawn before is given by --key"
        ) from None
    with os.fdopen(handle, "w") as file:
        file.write(f"{key.hex()}\n")
        file.flush()
        os.fsync(file.fileno())
    return key
