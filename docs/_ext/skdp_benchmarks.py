"""Pages of benchmarks: a page a file of benchmarks/results, with a picture, sortable tables and how to repeat it."""

from __future__ import annotations

import tomllib
from typing import Any

from skdp_api import DOCS, write

RESULTS = DOCS.parent / "benchmarks" / "results"


def _figure(name: str, picture: dict[str, Any]) -> str:
    """Return the directive of a picture: bars of a column, or a figure of its own."""
    if "figure" in picture:
        head = f"```{{skdp-figure}} {picture['figure']}\n:alt: {picture['alt']}\n"
        return f"{head}\n{picture['caption']}\n```\n"
    of_column = f"{picture['value']} ({picture['heading']})"
    what = picture.get("caption", of_column)
    scale = "; the scale is logarithmic" if picture.get("log") else ""
    head = f"```{{skdp-figure}} benchmarks:bars\n:args: {name}\n"
    alt = f":alt: Bars of {what}, the numbers of the table.\n"
    return f"{head}{alt}\n{what}{scale}.\n```\n"


def _page(name: str, picture: dict[str, Any] | None) -> str:
    parts = ['---\nmyst:\n  html_meta:\n    skdp-sortable: "yes"\n---\n\n']
    parts.append(
        f"```{{include}} ../../benchmarks/results/{name}.md\n```\n\n"
    )
    if picture:
        parts.append(f"## Picture\n\n{_figure(name, picture)}\n")
    if (RESULTS.parent / f"{name}.py").exists():
        parts.append(
            "## Repeat it\n\n`make bench` runs all benchmarks in environments of their own; this one is\n\n"
        )
        parts.append(f"```sh\npython benchmarks/{name}.py\n```\n")
    return "".join(parts)


def setup(app: Any) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them."""
    pictures = tomllib.loads(
        (DOCS / "benchmarks" / "pictures.toml").read_text(encoding="utf-8")
    )
    for path in sorted(RESULTS.glob("*.md")):
        write(
            DOCS / "benchmarks" / f"{path.stem}.md",
            _page(path.stem, pictures.get(path.stem)),
        )
    return {"parallel_read_safe": True}
