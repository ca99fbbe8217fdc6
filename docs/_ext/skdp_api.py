"""API pages: a page a group of groups.toml, and what the templates of autosummary show beside a docstring."""

from __future__ import annotations

import importlib
import inspect
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent


def _read() -> dict[str, Any]:
    return tomllib.loads(
        (DOCS / "api" / "groups.toml").read_text(encoding="utf-8")
    )


def read_groups() -> list[dict[str, Any]]:
    """Read the groups of public objects."""
    return _read()["group"]


def read_examples() -> dict[str, str]:
    """Return the examples of the objects of `read_data`."""
    return _read()["examples"]


def read_data() -> dict[str, str]:
    """Read the descriptions of public objects that are neither functions nor classes."""
    return _read()["data"]


def write(path: Path, text: str) -> None:
    """Write a generated page; an equal one is left alone, so that it is not built again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def page_exists(name: str) -> bool:
    """Return whether a page of docs/ is there."""
    generated = DOCS / name.replace(
        "guarantees/", "guarantees/mechanisms/"
    )
    return any(
        path.exists()
        for path in (
            DOCS / f"{name}.md",
            DOCS / f"{name}.rst",
            generated.with_suffix(".toml"),
        )
    )


def pages_of(fullname: str) -> list[tuple[str, str]]:
    """Return the pages about an object that exist: ``(what, name)``."""
    for group in read_groups():
        if fullname in group["objects"]:
            guarantee = group.get("guarantees", {}).get(
                fullname, group.get("guarantee", "")
            )
            pages = [
                ("Guide", group["guide"]),
                ("Guarantee", guarantee),
                ("Group", f"api/{group['slug']}"),
            ]
            return [
                (what, name)
                for what, name in pages
                if name and (what == "Group" or page_exists(name))
            ]
    return []


def own_members(fullname: str, kind: str) -> list[str]:
    """Return the public "methods" or "properties" of a class that skdp itself defines."""
    package, _, name = fullname.rpartition(".")
    owner = getattr(importlib.import_module(package), name)
    if issubclass(owner, BaseException):
        return []
    found = []
    for member in dir(owner):
        value = inspect.getattr_static(owner, member)
        is_property = isinstance(value, property)
        function = (
            value.fget
            if is_property
            else inspect.unwrap(getattr(value, "__func__", value))
        )
        ours = (
            inspect.isfunction(function)
            and function.__module__.partition(".")[0] == "skdp"
        )
        member_kind = "properties" if is_property else "methods"
        if member[0] != "_" and ours and member_kind == kind:
            found.append(member)
    return found


def _show_examples_first(
    _app: Any,
    what: str,
    _name: str,
    _object: Any,
    _options: Any,
    lines: list[str],
) -> None:
    """Move the examples of a class or function before its parameters: numpydoc puts them at the end."""
    rubric = ".. rubric:: Examples"
    parameters = ":Parameters:"
    if what not in ("class", "function"):
        return
    if rubric not in lines or parameters not in lines:
        return
    start = lines.index(rubric)
    if start < lines.index(parameters):
        return
    later = [
        place
        for place in range(start + 1, len(lines))
        if lines[place].startswith((".. rubric::", ".. only::"))
    ]
    end = later[0] if later else len(lines)
    examples = [*lines[start:end], ""]
    del lines[start:end]
    place = lines.index(parameters)
    lines[place:place] = examples


def _group_page(group: dict[str, Any]) -> str:
    title, guide = group["title"], group["guide"]
    more = f"See also :doc:`/{guide}`." if page_exists(guide) else ""
    data = read_data()
    names = "\n".join(
        f"   {name}" for name in group["objects"] if name not in data
    )
    others = [name for name in group["objects"] if name in data]
    text = (
        f"{title}\n{'=' * len(title)}\n\n{_rst(group['text'])} {more}\n\n"
        f".. autosummary::\n   :toctree: generated/\n   :nosignatures:\n\n{names}\n"
    )
    if others:
        text += "\n" + "".join(
            f"- :py:obj:`{name}`: {_rst(data[name])}\n" for name in others
        )
        text += "\n.. toctree::\n   :hidden:\n\n" + "".join(
            f"   generated/{name}\n" for name in others
        )
    return text


def _data_page(name: str, text: str) -> str:
    """Return the page of an object that is neither a function nor a class."""
    package, _, own = name.rpartition(".")
    value = getattr(importlib.import_module(package), own)
    shown = (
        f"\n   Names: {', '.join(f'``{key}``' for key in value)}.\n"
        if isinstance(value, dict)
        else ""
    )
    shown = (
        f"\n   :value: {value}\n"
        if isinstance(value, int)
        else f"\n{shown}"
    )
    pages = "".join(
        f"- {what}: :doc:`/{page}`\n" for what, page in pages_of(name)
    )
    body = f".. py:data:: {name}{shown}\n   {_rst(text)}\n"
    example = f".. rubric:: Examples\n\n{read_examples()[name].strip()}\n"
    return f"{own}\n{'=' * len(own)}\n\n{body}\n{example}\n.. rubric:: Pages about it\n\n{pages}"


def _rst(text: str) -> str:
    return text.replace("`", "``")


def _index_page(groups: list[dict[str, Any]]) -> str:
    lines = [
        "API",
        "===",
        "",
        "Every public object, by task. :doc:`/choose` leads to the right one by a few questions.",
        "",
        "*Raises* leaves out what goes for all: a parameter of another type or out of range raises a ``TypeError`` or "
        "``ValueError`` that names it, and what needs a fitted estimator raises a ``NotFittedError`` before ``fit``.",
        "",
    ]
    for group in groups:
        names = ", ".join(
            f":py:obj:`~{name}`" for name in group["objects"]
        )
        heading = f":doc:`{group['title']} <{group['slug']}>`"
        lines += [f"{heading}\n    {_rst(group['text'])}\n\n    {names}\n"]
    slugs = "\n".join(f"   {group['slug']}" for group in groups)
    return "\n".join(lines) + f"\n.. toctree::\n   :hidden:\n\n{slugs}\n"


def setup(app: Any) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them."""
    groups = read_groups()
    for group in groups:
        write(DOCS / "api" / f"{group['slug']}.rst", _group_page(group))
    for name, text in read_data().items():
        write(
            DOCS / "api" / "generated" / f"{name}.rst",
            _data_page(name, text),
        )
    write(DOCS / "api" / "index.rst", _index_page(groups))
    # numpydoc writes the sections at the usual priority, 500.
    app.connect(
        "autodoc-process-docstring", _show_examples_first, priority=600
    )
    return {"parallel_read_safe": True}
