"""HTML of the small tables that results show in a notebook.

Internal: import nothing from here outside of skdp.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

MAX_CELL_CHARACTERS, MAX_FACT_CHARACTERS = 200, 2_000


def html_facts(title: str, facts: Iterable[tuple[str, Any]], note: str = "") -> str:
    """Return an HTML table of names and texts, without the rows with an empty text."""
    rows = ""
    for name, text in facts:
        if text not in (None, ""):
            head = _cell("th", "row", html_text(name))
            rows += f"<tr>{head}{_cell('td', '', html_text(text))}</tr>"
    return _frame_table(title, f"<tbody>{rows}</tbody>", note)


def html_text(text: Any) -> str:
    """Escape a text, cut to a length."""
    return escape(_shorten(text, MAX_FACT_CHARACTERS))


def format_text(text: Any) -> str:
    """Return a text without lone surrogates, which cannot be encoded."""
    return str(text).encode(errors="replace").decode()


def format_row(row: Iterable[Any]) -> tuple[Any, ...]:
    """Return a row with its texts as `format_text` writes them."""
    return tuple(format_text(cell) if isinstance(cell, str) else cell for cell in row)


def _shorten(text: Any, max_characters: int = MAX_CELL_CHARACTERS) -> str:
    line = format_text(text)
    return line if len(line) <= max_characters else f"{line[: max_characters - 1]}…"


def _cell(tag: str, scope: str, content: str) -> str:
    scope = f' scope="{scope}"' if scope else ""
    return f'<{tag}{scope} style="text-align: left">{content}</{tag}>'


def _frame_table(title: str, content: str, note: str) -> str:
    remark = f"<p>{html_text(note)}</p>" if note else ""
    return (
        f"<div><p><b>{html_text(title)}</b></p><table>{content}</table>{remark}</div>"
    )
