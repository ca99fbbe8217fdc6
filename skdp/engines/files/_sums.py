"""Sum up the reports in a file of any form, which may say its protocol."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.engines._atomic import Progress
from skdp.engines._engine import ReportSums
from skdp.engines._extras import Extra
from skdp.engines._release import check_transformer, fit_on_schema
from skdp.engines._source_file import SourceFile, check_delimiter
from skdp.engines.files._formats import TableFile
from skdp.engines.files._said import check_said, note_of_copy, read_json, sidecar_of
from skdp.local import ReportProtocol, ReportTransformer, check_releases, stated
from skdp.tables import PROTOCOL_KEY, Releases

pyarrow = Extra("pyarrow")

TALLY = ".json"


def source_at(place: Any, delimiter: str | None = None) -> SourceFile:
    """Find a file of reports, or a tally; the delimiter is for CSV files, and others have none."""
    if isinstance(place, SourceFile):
        return place
    name = os.fspath(place).removesuffix(".gz")
    return SourceFile.at(place, delimiter if name.endswith((".csv", ".tsv")) else None)


def checked_sources(sources: Any, delimiter: str | None = None) -> list[SourceFile]:
    """Take one path or URL, or several, none of them twice."""
    check_delimiter(delimiter)
    given = (
        [sources]
        if isinstance(sources, str | os.PathLike | SourceFile)
        else list(sources)
    )
    found = [source_at(place, delimiter) for place in given]
    seen = set()
    for source in found:
        place = os.path.realpath(source.path) if source.is_local else source.path
        if place in seen:
            raise ValueError(
                f"{source.name} is given twice: its reports would be counted twice"
            )
        seen.add(place)
    return found


def is_tally(source: SourceFile) -> bool:
    """Return whether a file is a tally by its name."""
    return source.name.endswith(TALLY)


def said_by(place: Any) -> str | None:
    """Return the protocol that a file of reports, or a tally, says; None if it says none."""
    source = source_at(place)
    if is_tally(source):
        return json.dumps(_read_tally(source)[PROTOCOL_KEY])
    return TableFile(source).protocol()


def unsaid(source: SourceFile) -> str:
    """Say that a file does not say its protocol, and where it would."""
    place = ""
    if TableFile(source).is_csv:
        place = f" (no {sidecar_of(Path(source.name)).name} is beside it)"
    return f"{source.name} does not say how its reports were made{place}"


def transformer_of(
    sources: Iterable[SourceFile], transformer: Any = None
) -> ReportTransformer:
    """Return the transformer whose reports files hold: the given one, which they must not contradict, or their own."""
    if transformer is not None:
        check_transformer(transformer)
        if not hasattr(transformer, "protocol_"):
            fit_on_schema(transformer, pd.DataFrame(), ())
    found: ReportTransformer | None = transformer
    for source in sources:
        said = said_by(source)
        if found is None and said is None:
            raise ValueError(f"{unsaid(source)}: give the transformer (--protocol)")
        if found is None:
            assert said is not None
            found = ReportTransformer.from_json(said)
        check_said(said, found, source.name)
    if found is None:
        raise ValueError("expected at least one file of reports")
    return found


class FileSums(NamedTuple):
    """The tally of a file, and by what its reports are recognised: their counts, and the releases of their note."""

    tally: Any
    counts: NDArray[np.int64] | None = None
    releases: Releases | None = None


def sum_file(
    source: SourceFile, transformer: ReportTransformer, progress: Progress
) -> FileSums:
    """Return the tally of the reports in a file, which must not contradict the transformer."""
    protocol = transformer.protocol_
    if is_tally(source):
        return FileSums(_tally_of(source, protocol))
    reports, table = ReportSums(protocol), TableFile(source)
    table.check_columns(reports.names)
    sums = reports.zeros()
    with closing(progress(table.count_rows())) as bar:
        for batch in _report_tables(table, protocol, reports.names):
            reports.add(sums, batch)
            bar.update(len(batch))
    counts, releases = reports.counts(sums), table.releases()
    check_releases(counts, releases, transformer.released)
    if table.is_csv and source.is_local:
        releases = note_of_copy(Path(source.path), counts)
    return FileSums(reports.total(sums), counts, releases)


def tally_text(
    tally: Any, transformer: ReportTransformer, sources: Iterable[SourceFile]
) -> str:
    """Write a tally as JSON that says its protocol: of those of its files, the one of least promise."""
    own = transformer.to_json()
    weakest = json.loads(own)
    for source in sources:
        said = said_by(source)
        if said is not None and said != own:
            weakest = max(weakest, _restated(said), key=_weakness)
    return json.dumps(
        json.loads(tally.to_json()) | {PROTOCOL_KEY: weakest}, allow_nan=False
    )


def _restated(text: str) -> dict[str, Any]:
    """Read the protocol of a file, whose guarantee must follow from its parameters, and state it in our words."""
    content: dict[str, Any] = json.loads(text)
    follows = ReportTransformer.from_json(text).guarantee_
    return content | {
        "guarantee": stated(replace(follows, secure=content["guarantee"]["secure"]))
    }


def _weakness(protocol: dict[str, Any]) -> tuple[bool, float]:
    guarantee = protocol["guarantee"]
    return guarantee.get("secure") is not True, guarantee["epsilon"]


def _read_tally(source: SourceFile) -> dict[str, Any]:
    if not source.exists():
        raise FileNotFoundError(f"there is no file {source.path}")
    content = read_json(Path(source.path), "a tally")
    if not isinstance(content, dict) or not isinstance(content.get(PROTOCOL_KEY), dict):
        raise ValueError(
            f"{source.name} is no tally that says its protocol, as skdp tally writes it"
        )
    return content


def _tally_of(source: SourceFile, protocol: ReportProtocol) -> Any:
    empty, text = protocol.empty_tally(), json.dumps(_read_tally(source))
    try:
        return empty + type(empty).from_json(text)
    except Exception:  # of any kind: a file of others decides what is tried
        pass
    raise ValueError(f"{source.name} holds no tally of the protocol that it says")


def _report_tables(
    table: TableFile, protocol: ReportProtocol, names: list[str]
) -> Iterator[Any]:
    """Read reports; in a CSV file, those that are no values of the domain are numbers."""
    domain = protocol.values
    values: Iterable[str] = names
    if table.is_csv:
        values = () if domain is None else domain.columns
    for batch in table.tables(domain, names, coded=True):
        yield pyarrow.table(
            {
                name: batch[name] if name in values else _numbers(batch[name], name)
                for name in names
            }
        )


def _numbers(column: Any, name: str) -> Any:
    """Read numbers, whole ones exactly."""
    for kind in (pyarrow.uint64(), pyarrow.float64()):
        try:
            return column.cast(kind)
        except pyarrow.ArrowInvalid:
            continue
    raise ValueError(f"column {name!r} holds something else than numbers")
