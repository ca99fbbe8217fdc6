"""Pictures and tables that are drawn while the site is built, from functions in docs/figures.

``{skdp-figure} module:function`` draws with matplotlib, in light and in dark colours; ``:alt:`` says what it shows, the
content is the caption. ``{skdp-table} module:function`` shows the DataFrame that the function returns.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

DOCS = Path(__file__).parent.parent


def _function(name: str) -> Any:
    module, _, function = name.partition(":")
    if str(DOCS) not in sys.path:
        sys.path.insert(0, str(DOCS))
    return getattr(importlib.import_module(f"figures.{module}"), function)


class SkdpFigure(SphinxDirective):
    """A picture in two colour schemes."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {
        "alt": directives.unchanged_required,
        "args": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        """Draw the picture unless it is there, and return the nodes."""
        from figures.style import draw

        name, arguments = (
            self.arguments[0],
            self.options.get("args", "").split(),
        )
        if not self.options.get("alt"):
            raise self.error("a picture needs the option :alt:")
        self.env.note_dependency(
            str(DOCS / "figures" / f"{name.partition(':')[0]}.py")
        )
        stem = (
            "-".join([name.replace(":", "-"), *arguments])
            .replace("/", "-")
            .replace("_", "-")
        )
        figure = nodes.figure(classes=["skdp-figure"])
        for scheme, drawing in zip(
            ("light", "dark"),
            draw(lambda: _function(name)(*arguments)),
            strict=True,
        ):
            path = DOCS / "_generated" / f"{stem}-{scheme}.svg"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(drawing)
            image = nodes.image(
                uri=f"/_generated/{path.name}", alt=self.options["alt"]
            )
            image["classes"] += [f"only-{scheme}"]
            figure += image
        caption = nodes.caption()
        if self.content:
            content = self.parse_content_to_nodes()
            caption += content[0].children
            figure += caption
        return [figure]


class SkdpTable(SphinxDirective):
    """A sortable table of a DataFrame."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"args": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Compute the table."""
        name, arguments = (
            self.arguments[0],
            self.options.get("args", "").split(),
        )
        self.env.note_dependency(
            str(DOCS / "figures" / f"{name.partition(':')[0]}.py")
        )
        frame = _function(name)(*arguments)
        table = nodes.table(classes=["sortable"])
        if self.content:
            title = nodes.title()
            title += self.parse_content_to_nodes()[0].children
            table += title
        group = nodes.tgroup(cols=len(frame.columns))
        group += [nodes.colspec(colwidth=1) for _ in frame.columns]
        head, body = nodes.thead(), nodes.tbody()
        head += _row(frame.columns)
        body += [_row(row) for row in frame.itertuples(index=False)]
        group += [head, body]
        table += group
        return [table]


def _row(cells: Any) -> nodes.row:
    row = nodes.row()
    for cell in cells:
        text = (
            cell
            if isinstance(cell, str)
            else f"{cell:,}"
            if isinstance(cell, int)
            else f"{cell:.4g}"
        )
        row += nodes.entry("", nodes.paragraph("", text))
    return row


def setup(app: Any) -> dict[str, bool]:
    """Register the directives."""
    sys.path.insert(0, str(DOCS))
    app.add_directive("skdp-figure", SkdpFigure)
    app.add_directive("skdp-table", SkdpTable)
    return {"parallel_read_safe": True}
