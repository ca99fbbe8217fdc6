"""``skdp statement``."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from skdp.cli._options import SOURCES
from skdp.engines.files import columns_beside_reports, read_protocol
from skdp.persistence import load
from skdp.privacy import Fact, PrivacyLedger, PrivacyStatement, privacy_statement
from skdp.tables import is_frame

_START_OF_LEDGERS = b"SQLite format 3"
_START_OF_MODELS = re.compile(rb'\s*\{\s*"format"\s*:\s*"skdp-estimator"')
_LONGEST_START = 64


def run_statement(options: argparse.Namespace) -> Path | int:
    """Run ``skdp statement``."""
    out: Path | None = options.out
    if out is not None and out.suffix.lower() not in (".html", ".json"):
        raise ValueError(f"--out must end with .html or .json, got {out.name!r}")
    if out is not None and out.exists():
        raise ValueError(f"{out} exists already; choose another name, or remove it")
    if out is not None and not out.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {out.parent}")
    statement = _statement(options.source)
    if out is None:
        print(statement)
        return 0
    if out.suffix.lower() == ".html":
        text = statement.to_html()
    else:
        text = statement.to_json() + "\n"
    with out.open("x", encoding="utf-8") as file:
        file.write(text)
    return out


def _statement(source: str) -> PrivacyStatement:
    """Find out what a source is, and state what it promises."""
    path = Path(source)
    if "://" in source:
        return _of_reports(source)
    if not path.is_file():
        if path.suffix and ":" not in source:
            raise FileNotFoundError(f"there is no file {path}")
        return _of_object(import_object(source))
    # The first bytes say what a file is, whatever it is called.
    with path.open("rb") as file:
        start = file.read(_LONGEST_START)
    if start.startswith(_START_OF_LEDGERS):
        return privacy_statement(PrivacyLedger(path=path))
    if _START_OF_MODELS.match(start):
        return privacy_statement(load(path))
    if path.suffix.lower() != ".json":
        return _of_reports(source)
    return _of_reports(source)


def _of_object(source: Any) -> PrivacyStatement:
    if isinstance(source, PrivacyStatement):
        return source
    if is_frame(source):
        transformer = read_protocol(source)
        if transformer is not None:
            columns = columns_beside_reports(source, transformer)
            return _with_columns_beside(transformer, columns)
    return privacy_statement(source)


def _of_reports(source: str) -> PrivacyStatement:
    transformer = read_protocol(source)
    if transformer is None:
        raise ValueError(
            f"{source} does not say how its reports were made: give the protocol that "
            "save of the encoder wrote, or skdp privatize --save; of synthetic rows, "
            "the model that skdp synthesize --save wrote"
        )
    columns = columns_beside_reports(source, transformer)
    return _with_columns_beside(transformer, columns)


def _with_columns_beside(transformer: Any, columns: list[str]) -> PrivacyStatement:
    """State the guarantee of reports, and that columns beside them are unprotected."""
    statement = privacy_statement(transformer)
    if not columns:
        return statement
    protection = "unprotected: true values are in the table"
    facts = [Fact(name, "", protection) for name in columns]
    return replace(statement, facts=(*statement.facts, *facts))


def import_object(source: str) -> Any:
    """Import an object of the user's code."""
    place, _, name = source.rpartition(":")
    if not place or not name:
        raise ValueError(f"expected {SOURCES}; got {source!r}, which is no file")
    if place.endswith(".py"):
        module = _import_file(Path(place))
    else:
        with _on_path(Path.cwd()):
            module = importlib.import_module(place)
    try:
        return attrgetter(name)(module)
    except AttributeError:
        raise ValueError(f"{place} has no {name!r}") from None


def _import_file(path: Path) -> Any:
    """Import a file as ``python`` runs it: modules beside it can be imported."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or specification is None or specification.loader is None:
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(specification)
    # A cache finds its classes by their names.
    sys.modules.setdefault(path.stem, module)
    with _on_path(path.absolute().parent):
        specification.loader.exec_module(module)
    return module


@contextmanager
def _on_path(folder: Path) -> Iterator[None]:
    # As it was, also where the code of the user has changed it.
    path_before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = path_before
