"""The repository's own documents as pages: included, with links that lead to pages of the site."""

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
        path = PAGES.get(path.rstrip("/"), path)
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
    """Replace an include of a file outside of docs/ by its text, and correct links of how-to pages and decisions."""
    page = f"docs/{docname}.md"

    def included(match: re.Match[str]) -> str:
        path = normpath(Path(page).parent / match[1])
        app.env.note_dependency(str(ROOT / path))
        return rewrite_links(
            (ROOT / path).read_text(encoding="utf-8"), path, page
        )

    if docname.split("/")[0] in ("index", "project", "benchmarks"):
        source[0] = _INCLUDE.sub(included, source[0])
    elif docname.split("/")[0] in ("how_to",):
        source[0] = rewrite_links(source[0], page, page)


def setup(app: Any) -> dict[str, bool]:
    """Connect the handler."""
    app.connect("source-read", _expand)
    return {"parallel_read_safe": True}
