"""Names and roles for screen readers, which the theme, docutils and docstrings lack."""

from __future__ import annotations

import re
from typing import Any

# A page of the navigation, and the button that unfolds its pages.
_FOLDED = re.compile(r"(>([^<>]+)</a>\s*<details[^>]*>\s*<summary)>")
# Deprecated roles, and a list without items.
_ROLES = re.compile(r' role="(list|doc-biblioentry|doc-backlink)"')
# "M. Hardt" at the start of a reference would be an item of a list.
_INITIAL = re.compile(r"^(\s*\.\. \[[^\]]+\] [A-Z])\. ")


def setup(app: Any) -> dict[str, bool]:
    """Connect the handlers, after the handlers of numpydoc and of the theme."""
    app.connect("autodoc-process-docstring", escape_initials, priority=900)
    app.connect("html-page-context", name_parts, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def escape_initials(
    _app: Any,
    _what: str,
    _name: str,
    _object: Any,
    _options: Any,
    lines: list[str],
) -> None:
    """Escape the first initial of each reference."""
    lines[:] = [_INITIAL.sub(r"\1\\. ", line) for line in lines]


def name_parts(
    _app: Any,
    _page: str,
    _template: str,
    context: dict[str, Any],
    _tree: Any,
) -> None:
    """Name the buttons of the navigation, and remove roles of citations."""
    if "body" in context:
        context["body"] = _ROLES.sub("", context["body"])
    make = context.get("generate_toctree_html")

    def name_buttons(kind: str, **options: Any) -> Any:
        tree = make(kind, **options)
        if kind != "sidebar":
            return tree
        return _FOLDED.sub(r'\1 aria-label="Pages of \2">', str(tree))

    if make is not None:
        context["generate_toctree_html"] = name_buttons
