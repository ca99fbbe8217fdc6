"""The order of a release from files: check, charge, draw, publish, each once however often the run is stopped."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from skdp.base import type_of_values
from skdp.domain import Domain
from skdp.engines._errors import UnreadableError
from skdp.engines._extras import Extra
from skdp.engines._randomness import BatchRandomness
from skdp.engines.files._checkpoint import WorkingFolder
from skdp.engines.files._formats import is_csv
from skdp.local import ReportProtocol, ReportTransformer
from skdp.local.memo import keyed_digests

pyarrow = Extra("pyarrow")
logger = logging.getLogger(__name__)
Checked = TypeVar("Checked")


def carry_out(
    folder: WorkingFolder,
    transformer: ReportTransformer,
    *,
    resumed: bool,
    check: Callable[[], Checked],
    draw: Callable[[BatchRandomness, Checked | None], None],
    is_same: Callable[[], bool],
    publish: Callable[[], None],
) -> None:
    """Go through the states of a working folder; `draw` writes what is then whole, of an input that `is_same`."""
    with folder.locked():
        if folder.is_left():
            folder.remove()
            return
        checked = None
        try:
            if not folder.is_charged:
                checked = check()
        except BaseException as error:  # nothing is charged
            _leave(error, folder, resumed)
            raise
        logger.info("checked")
        try:
            folder.charge(transformer)
        except (RuntimeError, TypeError, ValueError) as error:  # refused, so not charged
            _leave(error, folder, resumed)
            raise
        except BaseException as error:
            _tell(error, folder)
            raise
        logger.info("charged, by this run or before: %s", transformer.guarantee_)
        randomness = None if folder.is_whole() else folder.randomness(transformer)
        try:
            if randomness is not None:
                draw(randomness, checked)
            publish()
            logger.info("released")
        except BaseException as error:
            if _is_refusal(error) and not folder.is_whole() and is_same():
                folder.remove()  # the same rows would be refused again
            else:
                _tell(error, folder)
            raise


def _is_refusal(error: BaseException) -> bool:
    """Return whether an error is of what the file holds, not of reading or writing."""
    return isinstance(error, TypeError | ValueError | NotImplementedError) and not isinstance(
        error, UnreadableError | OSError
    )


def _leave(error: BaseException, folder: WorkingFolder, resumed: bool) -> None:
    """Remove the folder of a run that was started without a charge; one that is resumed may have been charged."""
    if resumed:
        _tell(error, folder)
    else:
        folder.remove()


def _tell(error: BaseException, folder: WorkingFolder) -> None:
    if folder.path.exists():
        error.add_note(
            f"The run is unfinished in {folder.path}: resume=True goes on, with one charge in all and one report a row."
        )


def declared_columns(transformer: ReportTransformer, domain: Domain | None) -> Sequence[Any]:
    """Return the columns that a file must have: of a domain, or those that a transformer was fitted to."""
    if domain is not None:
        return domain.columns
    return transformer.protocol_.columns if hasattr(transformer, "protocol_") else ()


def describe_release(
    transformer: ReportTransformer, keep: Sequence[str], record_id: str | None, rows: int
) -> dict[str, Any]:
    """Describe a release by what decides its reports besides the input, and the size of its parts."""
    protocol, ledger, seed = transformer.protocol_, transformer.charged_ledger, transformer.randomness(call=0).seed
    parameters, key = protocol.parameters(), protocol.permanent_key
    path = ledger.path if ledger is not None else None
    return {
        "domain": digest_of(parameters.pop("columns")),
        "transformer": digest_of(sorted(parameters.items())),
        "secret key": None if key is None else keyed_digests(key, ("unfinished run",), [b""])[0].tobytes().hex(),
        "column of record ids": record_id,
        "seed": None if seed is None else int(seed),
        "list of kept columns": list(keep),
        "ledger": None if ledger is None else "in memory" if path is None else str(path.resolve()),
        "size of parts": rows,
    }


def digest_of(content: Any) -> str:
    """Digest what is public, to compare it when a run is resumed."""
    return hashlib.sha256(repr(content).encode()).hexdigest()


def output_schema(trial: Any, protocol: ReportProtocol, keep: Sequence[str], *, of_text: bool, form: str) -> Any:
    """Return the schema that is written: declared whole numbers in a text file, and dictionaries in Parquet only."""
    fields = []
    for field in trial:
        values = field.type
        if pyarrow.types.is_dictionary(values) and (form != "parquet" or field.name in keep):
            values = values.value_type
        domain = protocol.values if of_text and field.name not in keep else None
        if domain is not None:
            declared = domain[field.name] if field.name in domain.columns else None
            values = pyarrow.int64() if declared is not None and type_of_values(declared) is int else values
        if form not in ("parquet", "ipc") and (pyarrow.types.is_nested(values) or pyarrow.types.is_binary(values)):
            what = "CSV" if is_csv(form) else "JSON lines"
            raise ValueError(f"column {field.name!r} is of type {values}, which a {what} file cannot hold")
        fields.append(pyarrow.field(field.name, values))
    return pyarrow.schema(fields)
