"""Sum up the reports in a file of any form, which may say its protocol."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import pandas as pd

from skdp.engines._atomic import Progress
from skdp.engines._batch_release import check_transformer, fit_on_schema
from skdp.engines._engine import ReportSums
from skdp.engines._extras import Extra
from skdp.engines._source_file import SourceFile, check_delimiter, first_repeated
from skdp.engines.files._counted import TALLIES_KEY, Source, digests_of, numbered, numbers_in, refuse_overlap
from skdp.engines.files._formats import TableFile
from skdp.engines.files._json_lines import sum_lines
from skdp.engines.files._said import check_said, read_json, said_by_sidecar
from skdp.engines.files.shards import ReleasedFolder
from skdp.frames import PROTOCOL_KEY, Releases, joined_releases
from skdp.local import ReportProtocol, ReportTransformer, check_releases, stated

pyarrow = Extra("pyarrow")

LINES, TALLY = (".jsonl", ".ndjson"), ".json"


def said_by(path: Source) -> str | None:
    """Return the protocol that a file of reports, or of their tally, says; None if it says none."""
    if isinstance(path, ReleasedFolder):
        return path.protocol()
    if isinstance(path, SourceFile):
        return TableFile(path).protocol()
    if path.suffix not in (*LINES, TALLY):
        return TableFile(path).protocol()
    _check_there(path)
    return said_by_sidecar(path) if path.suffix in LINES else json.dumps(_read_tally(path)[PROTOCOL_KEY])


def transformer_of(paths: Iterable[Source], transformer: Any = None) -> ReportTransformer:
    """Return the transformer whose reports files hold: the given one, which they must not contradict, or their own."""
    if transformer is not None:
        check_transformer(transformer)
        if not hasattr(transformer, "protocol_"):
            fit_on_schema(transformer, pd.DataFrame(), ())
    found: ReportTransformer | None = transformer
    for path in paths:
        said = said_by(path)
        if found is None and said is None:
            raise ValueError(f"{path.name} does not say the protocol of its reports: give the transformer (--protocol)")
        if found is None:
            assert said is not None
            found = ReportTransformer.from_json(said)
        check_said(said, found, path.name)
    if found is None:
        raise ValueError("expected at least one file of reports")
    return found


def sum_file(path: Source, transformer: ReportTransformer, progress: Progress) -> Any:
    """Return the tally of the reports in a file, which must not contradict the transformer."""
    protocol = transformer.protocol_
    reports = ReportSums(protocol)
    if _is_tally(path):
        return _tally_of(path, protocol)
    if isinstance(path, Path) and path.suffix in LINES:
        with closing(progress(None)) as bar:
            return _checked(reports, sum_lines(path, reports, bar), [], transformer)
    sums, tables, releases = reports.zeros(), _tables(path, transformer), []
    with closing(progress(_count_rows(path))) as bar:
        for table in tables:
            table.check_columns(reports.names)
            releases.append(table.releases())
            for batch in _report_tables(table, protocol, reports.names):
                reports.add(sums, batch)
                bar.update(len(batch))
    return _checked(reports, sums, releases, transformer)


def _checked(
    reports: ReportSums, sums: list[Any], releases: Iterable[Releases | None], transformer: ReportTransformer
) -> Any:
    """Return the tally of reports, and warn if they are not those of the releases that the files say."""
    tally = reports.total(sums)
    check_releases(reports.counts(sums), joined_releases(releases), transformer.released.counts)
    return tally


def _tables(path: Source, transformer: ReportTransformer) -> Iterable[TableFile]:
    return path.tables(transformer) if isinstance(path, ReleasedFolder) else [TableFile(path)]


def _count_rows(path: Source) -> int | None:
    return path.rows if isinstance(path, ReleasedFolder) else TableFile(path).count_rows()


def check_counted_once(paths: Sequence[Source]) -> None:
    """Refuse files that have reports in common, by their content."""
    if len(paths) > 1:
        refuse_overlap(paths, [frozenset([*digests_of(path), *_summed(path)]) for path in paths])


def _summed(path: Source) -> list[str]:
    """Return the number of a tally, and of those that it sums."""
    return numbers_in(path.name, _read_tally(path)) if _is_tally(path) else []


def _is_tally(path: Source) -> TypeGuard[Path]:
    return isinstance(path, Path) and path.suffix == TALLY


def tally_text(tally: Any, transformer: ReportTransformer, paths: Iterable[Source]) -> str:
    """Write a tally as JSON that says its number, and its protocol: of those of its files, the one of least promise."""
    own, paths = transformer.to_json(), list(paths)
    texts = dict.fromkeys([*(text for path in paths if (text := said_by(path)) is not None), own])
    weakest = max((json.loads(text) if text == own else _restated(text) for text in texts), key=_weakness)
    content = json.loads(tally.to_json()) | {PROTOCOL_KEY: weakest, TALLIES_KEY: numbered(map(_summed, paths))}
    return json.dumps(content, allow_nan=False)


def _restated(text: str) -> dict[str, Any]:
    """Read the protocol of a file, whose guarantee must follow from its parameters, and state it in our words."""
    content: dict[str, Any] = json.loads(text)
    follows = ReportTransformer.from_json(text).guarantee_
    return content | {"guarantee": stated(replace(follows, secure=content["guarantee"]["secure"]))}


def _weakness(protocol: dict[str, Any]) -> tuple[bool, float]:
    guarantee = protocol["guarantee"]
    return guarantee.get("secure") is not True, guarantee["epsilon"]


def checked_paths(sources: Any, delimiter: str | None = None) -> list[Source]:
    """Take one path, URL or folder of a release, or several."""
    given = [sources] if isinstance(sources, str | os.PathLike | ReleasedFolder | SourceFile) else list(sources)
    check_delimiter(delimiter)
    found = [source_at(place, delimiter) for place in given]
    again = first_repeated(
        (None, str(source)) if isinstance(source, Path) else (source.filesystem, source.path) for source in found
    )
    if again is not None:
        raise ValueError(f"{found[again].name} is given twice: its reports would be counted twice")
    return found


def source_at(place: Any, delimiter: str | None = None) -> Source:
    """Open the folder of a release or of its manifest, and take another path or URL for a file."""
    if isinstance(place, ReleasedFolder | SourceFile):
        return place
    folder = ReleasedFolder.at(place)
    if folder is not None:
        return folder
    if delimiter is not None and os.fspath(place).removesuffix(".gz").endswith((".csv", ".tsv")):
        return SourceFile.at(place, delimiter)
    return SourceFile.at(place) if "://" in os.fspath(place) else Path(place)


def _check_there(path: Path) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")


def _read_tally(path: Path) -> dict[str, Any]:
    content = read_json(path, "a tally")
    if not isinstance(content, dict) or not isinstance(content.get(PROTOCOL_KEY), dict):
        raise ValueError(f"{path.name} is no tally that says its protocol, as skdp tally writes it")
    return content


def _tally_of(path: Path, protocol: ReportProtocol) -> Any:
    _check_there(path)
    empty, text = protocol.empty_tally(), json.dumps(_read_tally(path))
    try:
        return empty + type(empty).from_json(text)
    except Exception:  # of any kind: a file of others decides what is tried
        pass
    raise ValueError(f"{path.name} holds no tally of the protocol that it says")


def _report_tables(table: TableFile, protocol: ReportProtocol, names: list[str]) -> Iterator[Any]:
    """Read reports; in a file of text, those that are no values of the domain are numbers."""
    domain = protocol.values
    values = names if not table.is_text else () if domain is None else domain.columns
    for batch in table.tables(domain, names, in_order=False):
        yield pyarrow.table({name: batch[name] if name in values else _numbers(batch[name], name) for name in names})


def _numbers(column: Any, name: str) -> Any:
    """Read numbers, whole ones exactly."""
    for kind in (pyarrow.uint64(), pyarrow.float64()):
        try:
            return column.cast(kind)
        except pyarrow.ArrowInvalid:
            continue
    raise ValueError(f"column {name!r} holds something else than numbers")
