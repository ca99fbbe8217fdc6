"""HTML of the small tables that results show in a notebook.

Internal: import nothing from here outside of skdp.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import pandas as pd

_LONGEST_CELL, _LONGEST_FACT = 200, 2_000  # characters


def html_facts(title: str, facts: Iterable[tuple[str, Any]], note: str = "") -> str:
    """Return a table of two columns: a name and a text in each row; rows whose text is empty are left out."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align: left">{html_text(name)}</th>'
        f'<td style="text-align: left">{html_text(text)}</td></tr>'
        for name, text in facts
        if text not in (None, "")
    )
    return _framed(title, f"<tbody>{rows}</tbody>", note)


def html_rows(
    title: str, names: Sequence[str], rows: Iterable[Sequence[Any]], note: str = ""
) -> str:
    """Return a table with a heading for each column."""
    head = "".join(
        f'<th scope="col" style="text-align: left">{html_text(name)}</th>'
        for name in names
    )
    cells = (
        [f'<td style="text-align: left">{escape(_brief(cell))}</td>' for cell in row]
        for row in rows
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    return _framed(title, f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>", note)


def html_table(table: pd.DataFrame) -> str:
    """Return a table as HTML, its texts cut to a length."""
    texts = [
        name
        for name, dtype in table.dtypes.items()
        if not pd.api.types.is_any_real_numeric_dtype(dtype)
    ]
    texts = [
        name for name in texts if not pd.api.types.is_datetime64_any_dtype(table[name])
    ]
    short = table.assign(**{str(name): table[name].map(_brief) for name in texts})
    return short.to_html(index=False, escape=True, na_rep="", border=0)


def html_text(text: Any) -> str:
    """Escape a text, cut to a length."""
    return escape(_brief(text, _LONGEST_FACT))


def written_text(text: Any) -> str:
    """Return a text without halves of Unicode characters, which no file can hold."""
    return str(text).encode(errors="replace").decode()


def written_row(row: Iterable[Any]) -> tuple[Any, ...]:
    """Return a row with its texts as `written_text` writes them."""
    return tuple(written_text(cell) if isinstance(cell, str) else cell for cell in row)


def _brief(text: Any, most: int = _LONGEST_CELL) -> str:
    whole = written_text(text)
    return whole if len(whole) <= most else f"{whole[: most - 1]}…"


def _framed(title: str, content: str, note: str) -> str:
    remark = f"<p>{html_text(note)}</p>" if note else ""
    return (
        f"<div><p><b>{html_text(title)}</b></p><table>{content}</table>{remark}</div>"
    )
