"""The first sentence of each page, for the results of the search.

Sphinx can show a summary of each result, but fetches the page for it, which a browser refuses for a site that is opened
from files. So the sentences are in one script that the page of the search loads.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes

SCRIPT = "page_sentences.js"
MAX_CHARACTERS = 160


def first_sentence(document: nodes.document) -> str | None:
    """Return the first sentence of the first paragraph of a page that is not in a table or a note."""
    for paragraph in document.findall(nodes.paragraph):
        if not isinstance(paragraph.parent, nodes.section):
            continue
        text = " ".join(paragraph.astext().split())
        sentence = re.split(r"(?<=[.?!])\s", text, maxsplit=1)[0]
        if len(sentence) > MAX_CHARACTERS:
            sentence = sentence[:MAX_CHARACTERS].rsplit(" ", 1)[0] + " …"
        return sentence
    return None


def _collect(app: Any, doctree: nodes.document) -> None:
    app.env.metadata[app.env.docname]["sentence"] = first_sentence(doctree)


def _load_script(app: Any, pagename: str, *_: Any) -> None:
    if pagename == "search":
        # Before the scripts of the search, which read it.
        app.add_js_file(SCRIPT, priority=100)


def _write_script(app: Any, exception: Exception | None) -> None:
    if exception is not None or app.builder.name != "html":
        return
    sentences = {
        page: metadata["sentence"]
        for page, metadata in sorted(app.env.metadata.items())
        if metadata.get("sentence")
    }
    script = f"const PAGE_SENTENCES = {json.dumps(sentences, ensure_ascii=False)};\n"
    Path(app.outdir, "_static", SCRIPT).write_text(
        script, encoding="utf-8"
    )


def setup(app: Any) -> dict[str, bool]:
    """Register the events."""
    app.connect("doctree-read", _collect)
    app.connect("html-page-context", _load_script)
    app.connect("build-finished", _write_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
