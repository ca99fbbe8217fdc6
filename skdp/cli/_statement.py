"""``skdp statement``."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any

from skdp.cli._arguments import add_command
from skdp.privacy import PrivacyStatement, privacy_statement

_MOST_CHARACTERS = (1 << 26) + 1
"""One more than a record may have."""


def add_statement(commands: Any) -> None:
    """Add ``skdp statement``."""
    statement = add_command(
        commands,
        "statement",
        _run_statement,
        description="State what a fitted pipeline protects, column by column, and what it does not, for people who do "
        "not run it. A module or a file of Python code is imported, and so executed: name only code that you would "
        "run. A .json file that this command wrote is only read.",
    )
    add = statement.add_argument
    add(
        "source",
        metavar="MODULE_OR_FILE:OBJECT",
        help="a fitted pipeline (or a list, or a statement) in a module or a .py file; or a .json file",
    )
    add("--out", type=Path, help="the .html or .json file to write; one that exists is never overwritten")


def _run_statement(options: argparse.Namespace) -> Path | int:
    out: Path | None = options.out
    if out is not None and out.suffix.lower() not in (".html", ".json"):
        raise ValueError(f"--out must end with .html or .json, got {out.name!r}")
    if out is not None and out.exists():
        raise ValueError(f"{out} exists already; choose another name, or remove it")
    statement = _statement(options.source)
    if out is None:
        print(statement)
        return 0
    text = statement.to_html() if out.suffix.lower() == ".html" else statement.to_json() + "\n"
    with out.open("x", encoding="utf-8") as file:
        file.write(text)
    return out


def _statement(source: str) -> PrivacyStatement:
    if source.lower().endswith(".json"):
        return PrivacyStatement.from_json(_text(Path(source)))
    found = _imported(source)
    return found if isinstance(found, PrivacyStatement) else privacy_statement(found)


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(_MOST_CHARACTERS)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no UTF-8 text") from None


def _imported(source: str) -> Any:
    """Import an object of the user's own code."""
    place, _, name = source.rpartition(":")
    if not place or not name:
        raise ValueError(f"expected MODULE_OR_FILE:OBJECT, such as model.py:pipeline, got {source!r}")
    module = _file(Path(place)) if place.endswith(".py") else _module(place)
    try:
        return attrgetter(name)(module)
    except AttributeError:
        raise ValueError(f"{place} has no {name!r}") from None


def _module(name: str) -> Any:
    with _on_path(Path.cwd()):
        return importlib.import_module(name)


def _file(path: Path) -> Any:
    """Import a file as ``python`` runs it: modules beside it can be imported."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or specification is None or specification.loader is None:
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(specification)
    with _on_path(path.absolute().parent):
        specification.loader.exec_module(module)
    return module


@contextmanager
def _on_path(folder: Path) -> Iterator[None]:
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before
