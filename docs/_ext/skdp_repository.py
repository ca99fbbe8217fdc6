"""Pages whose links work in the repository, too: on the site, they lead to its pages."""

from __future__ import annotations

import re
import tomllib
from os.path import normpath, relpath
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
URLS = tomllib.loads(
    (ROOT / "pyproject.toml").read_text(encoding="utf-8")
)["project"].get("urls", {})

PAGES = {
    "README.md": "docs/index.md",
    "ARCHITECTURE.md": "docs/project/architecture.md",
    "CHANGELOG.md": "docs/project/changelog.md",
    "CONTRIBUTING.md": "docs/project/contributing.md",
    "SECURITY.md": "docs/project/security.md",
    "docs/how_to": "docs/project/how_to.md",
    "benchmarks/results": "docs/benchmarks/index.md",
}
# Scripts of the repository, and their pages.
SCRIPTS = (
    (re.compile(r"^benchmarks/(\w+)\.py$"), r"docs/benchmarks/\1.md"),
    (re.compile(r"^examples/(\w+/plot_\w+)\.py$"), r"docs/gallery/\1.rst"),
)
_INCLUDE = re.compile(r"^```\{include\} (\S+\.md)\n```$", re.MULTILINE)
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def rewrite_links(text: str, source: str, page: str) -> str:
    """Turn the relative links of a document into links between pages; both paths are relative to the repository."""

    def replaced(match: re.Match[str]) -> str:
        label, target = match.groups()
        if "://" in target or target[0] == "#":
            return match[0]
        path, _, anchor = target.partition("#")
        path = normpath(Path(source).parent / path)
        if not (ROOT / path).exists():  # an example of a page
            return match[0]
        path = PAGES.get(path.rstrip("/"), path)
        for script, built in SCRIPTS:
            path = script.sub(built, path)
        if path.startswith("docs/"):
            link = relpath(path, Path(page).parent)
            return f"[{label}]({link}{'#' if anchor else ''}{anchor})"
        repository = URLS.get("Repository")
        return (
            f"[{label}]({repository}/blob/main/{path})"
            if repository
            else label
        )

    return _LINK.sub(replaced, text)


def _expand(app: Any, docname: str, source: list[str]) -> None:
    """Replace an include of a file outside of docs/ by its text, and correct the links of a page."""
    page = f"docs/{docname}.md"
    if not (ROOT / page).exists():
        return

    def included(match: re.Match[str]) -> str:
        path = normpath(Path(page).parent / match[1])
        app.env.note_dependency(str(ROOT / path))
        return rewrite_links(
            (ROOT / path).read_text(encoding="utf-8"), path, page
        )

    text = _INCLUDE.sub(included, source[0])
    source[0] = rewrite_links(text, page, page)


_LISTED = re.compile(r"^- \[[^]]*\]\(([\w/.]+)\.md\)", re.MULTILINE)


def _add_toctrees(app: Any, docname: str, source: list[str]) -> None:
    """Add the pages that a section of an index lists to the navigation, below the title of its section."""
    if not re.fullmatch(
        "(guide|benchmarks|jobs|answers|guarantees)/index", docname
    ):
        return
    sections = re.split(r"^(?=## )", source[0], flags=re.MULTILINE)
    for place, section in enumerate(sections):
        pages = "\n".join(_LISTED.findall(section))
        title = section.splitlines()[0]
        caption = (
            f":caption: {title[3:]}\n" if title.startswith("## ") else ""
        )
        if pages:
            tree = f"```{{toctree}}\n:hidden:\n{caption}\n{pages}\n```\n\n"
            sections[place] = f"{section.rstrip()}\n\n{tree}"
    source[0] = "".join(sections)


def setup(app: Any) -> dict[str, bool]:
    """Connect the handlers."""
    app.connect("source-read", _expand)
    app.connect("source-read", _add_toctrees)
    return {"parallel_read_safe": True}
