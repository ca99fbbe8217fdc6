"""HTML of the small tables that results show in a notebook.

Internal: import nothing from here outside of skdp.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def html_facts(title: str, facts: Iterable[tuple[str, Any]], note: str = "") -> str:
    """Return a table of two columns: a name and a text in each row; rows whose text is empty are left out."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align: left">{escape(name)}</th>'
        f'<td style="text-align: left">{escape(str(text))}</td></tr>'
        for name, text in facts
        if text not in (None, "")
    )
    return _framed(title, f"<tbody>{rows}</tbody>", note)


def html_rows(title: str, names: Sequence[str], rows: Iterable[Sequence[Any]], note: str = "") -> str:
    """Return a table with a heading for each column."""
    head = "".join(f'<th scope="col" style="text-align: left">{escape(name)}</th>' for name in names)
    cells = ([f'<td style="text-align: left">{escape(str(cell))}</td>' for cell in row] for row in rows)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    return _framed(title, f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>", note)


def _framed(title: str, content: str, note: str) -> str:
    remark = f"<p>{escape(note)}</p>" if note else ""
    return f"<div><p><b>{escape(title)}</b></p><table>{content}</table>{remark}</div>"
