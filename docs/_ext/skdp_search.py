"""Words of the search that are not on a page, the lines that its results show, and descriptions of pages."""

from __future__ import annotations

import json
import re
import tomllib
from html import escape
from pathlib import Path
from textwrap import shorten
from typing import Any

from docutils import nodes

# Pages that contain nearly all words.
EXCLUDED = re.compile("notebooks/|gallery/|project/changelog|genindex")
MAX_LETTERS = 240
WORDS = Path(__file__).parent.parent / "search_words.toml"


def setup(app: Any) -> dict[str, bool]:
    """Add the words when a page is read, and write the lines when the pages are built."""
    app.connect("source-read", add_words)
    app.connect("build-finished", write_lines)
    app.connect("html-page-context", describe_page)
    return {"parallel_read_safe": True}


def add_words(app: Any, docname: str, source: list[str]) -> None:
    """Add an index directive with the words of a page above its text."""
    words = tomllib.loads(WORDS.read_text(encoding="utf-8")).get(docname)
    if words:
        app.env.note_dependency(str(WORDS))
        source[0] = f"```{{index}} {', '.join(words)}\n```\n\n{source[0]}"


def describe_page(
    _app: Any,
    _page: str,
    _template: str,
    context: dict[str, Any],
    tree: nodes.document | None,
) -> None:
    """Add the first sentences of a page as its description."""
    for line in list_lines(tree)[:1] if tree else []:
        context["metatags"] += (
            f'<meta name="description" content="{escape(line)}"/>'
        )


def write_lines(app: Any, error: Exception | None) -> None:
    """Write a script with an object from the name of a page to its lines."""
    if error is not None or app.builder.name != "html":
        return
    pages = sorted(
        page for page in app.env.all_docs if not EXCLUDED.match(page)
    )
    lines = {page: list_lines(app.env.get_doctree(page)) for page in pages}
    path = Path(app.outdir, "_static", "page_lines.js")
    path.write_text(
        f"const PAGE_LINES = {json.dumps(lines)};\n", encoding="utf-8"
    )


def list_lines(page: nodes.document) -> list[str]:
    """Return the sentences and the rows of the tables of a page, cut at 240 letters."""
    lines = []
    for node in page.findall(
        lambda node: isinstance(node, nodes.row | nodes.paragraph)
    ):
        if isinstance(node, nodes.row):
            cells = [
                " ".join(entry.astext().split()) for entry in node.children
            ]
            lines.append(": ".join(cell for cell in cells if cell))
        elif not isinstance(node.parent, nodes.entry):
            text = " ".join(node.astext().split())
            lines += re.split(r"(?<=[.?!]) (?=[A-Z])", text)
    return [
        shorten(line, MAX_LETTERS, placeholder=" …")
        for line in lines
        if line.count(" ") > 2
    ]
