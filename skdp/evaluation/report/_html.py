"""One self-contained HTML page from headings, paragraphs, tables and figures."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

_CSS = """
:root { --ink: #222; --soft: #555; --line: #ddd; --accent: #0072B2; --note: #f3f7fa; --warn: #fdf3ea; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 1.5rem 1.25rem 4rem; color: var(--ink); background: #fff;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0.5rem 0 0.25rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0.5rem; padding-top: 0.75rem; border-top: 1px solid var(--line); }
p, ul { max-width: 46rem; margin: 0.6rem 0; }
li { margin: 0.3rem 0; }
.lead { color: var(--soft); font-size: 1.05rem; }
.note { background: var(--note); border-left: 4px solid var(--accent); padding: 0.6rem 0.9rem; max-width: 46rem; }
.warn { background: var(--warn); border-left-color: #D55E00; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 1.5rem;
  margin: 1rem 0; }
figure { margin: 0; max-width: 34rem; }
.figures img { width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: 0.85rem; line-height: 1.4; margin: 0.3rem 0 0; }
nav { font-size: 0.9rem; margin: 1rem 0; }
nav a { color: var(--accent); margin-right: 1rem; white-space: nowrap; }
.table { overflow-x: auto; margin: 0 0 1rem; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
.caption { color: var(--soft); font-size: 0.9rem; margin: 1rem 0 0.4rem; }
th, td { padding: 0.32rem 0.7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
thead th { vertical-align: bottom; border-bottom: 2px solid var(--ink); white-space: normal; }
th[scope=row], td.text, th.text { text-align: left; }
tr.group > * { border-top: 2px solid var(--line); }
.formula { white-space: nowrap; }
sup { line-height: 0; }
code { background: #f2f2f2; padding: 0.1em 0.3em; border-radius: 3px; font-size: 0.9em; }
@media (max-width: 600px) {
  table { font-size: 0.8rem; } th, td { padding: 0.25rem 0.4rem; } ul { padding-left: 1.1rem; }
  .caption::after { content: " (Scroll the table sideways.)"; }
}
footer { margin-top: 3rem; color: var(--soft); font-size: 0.85rem; }
"""


def page(title: str, lead: str, parts: Sequence[str], footer: str) -> str:
    """Put a page together."""
    body = "\n".join(parts)
    links = [f'<a href="#{name}">{text}</a>' for name, text in re.findall(r'<h2 id="([^"]+)">(.*?)</h2>', body)]
    contents = f"<nav>{' '.join(links)}</nav>"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f'<link rel="icon" href="data:,">\n<style>{_CSS}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n'
        f'<p class="lead">{escape(lead)}</p>\n{contents}\n{body}\n<footer>{escape(footer)}</footer>\n</body>\n</html>\n'
    )


def heading(text: str) -> str:
    """Make a section heading."""
    name = re.sub(r"\W+", "-", text.lower()).strip("-")
    return f'<h2 id="{name}">{escape(text)}</h2>'


def paragraph(text: str, kind: str = "") -> str:
    """Make a paragraph."""
    return f'<p class="{kind}">{_rich(text)}</p>' if kind else f"<p>{_rich(text)}</p>"


def bullets(texts: Sequence[str]) -> str:
    """Make a list."""
    return "<ul>" + "".join(f"<li>{_rich(text)}</li>" for text in texts) + "</ul>"


def _rich(text: str) -> str:
    """Escape a text, and set powers as such: e^ε, and e^ε / (e^ε + 3) on one line."""
    escaped = escape(text)
    formula = re.sub(r"e\^ε / \(e\^ε \+ \d+\)", lambda found: f'<span class="formula">{found[0]}</span>', escaped)
    return formula.replace("e^ε", "e<sup>ε</sup>")


def figures(svgs: Mapping[str, str]) -> str:
    """Place figures side by side, or below each other on a narrow screen."""
    images = [
        f'<figure><img alt="{escape(caption.partition(". ")[0])}" src="data:image/svg+xml;base64,'
        f'{base64.b64encode(svg.encode()).decode()}"><figcaption>{_rich(caption)}</figcaption></figure>'
        for caption, svg in svgs.items()
    ]
    return '<div class="figures">' + "\n".join(images) + "</div>"


def table(
    frame: pd.DataFrame, caption: str, *, formats: Mapping[str, Callable[[Any], str]], text: Sequence[str] = ()
) -> str:
    """Make a table; repeated values of the first column are shown once."""
    cells = {name: [formats.get(name, str)(value) for value in frame[name]] for name in frame.columns}
    kinds = {name: ' class="text"' if name in text else "" for name in frame.columns}
    head = "".join(f'<th scope="col"{kinds[name]}>{escape(str(name))}</th>' for name in frame.columns)
    rows = []
    first, *others = frame.columns
    previous = None
    for index, group in enumerate(cells[first]):
        row = [f'<th scope="row">{escape(group) if group != previous else ""}</th>']
        row += [f"<td{kinds[name]}>{escape(cells[name][index])}</td>" for name in others]
        opening = '<tr class="group">' if group != previous and index else "<tr>"
        rows.append(f"{opening}{''.join(row)}</tr>")
        previous = group
    scrolling = f'<div class="table" tabindex="0" role="region" aria-label="{escape(caption)}">'
    return (
        f'<p class="caption">{escape(caption)}</p>\n'
        f"{scrolling}<table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
