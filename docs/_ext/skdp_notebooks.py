"""The repository's notebooks as pages, with the outputs that are stored in them; nothing is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from nbconvert import MarkdownExporter

DOCS = Path(__file__).parent.parent
NOTEBOOKS = DOCS.parent / "notebooks"
FOLDER = DOCS / "notebooks"


def convert(path: Path, folder: Path) -> None:
    """Write the page of a notebook, and its pictures beside it."""
    files = f"{path.stem}_files"
    text, resources = MarkdownExporter().from_filename(
        str(path), {"output_files_dir": files}
    )
    text = re.sub(r"\]\((\w+)\.ipynb\)", r"](\1.md)", text)
    text = re.sub(
        r"\]\(\.\./benchmarks/results/",
        "](../../benchmarks/results/",
        text,
    )
    # Of tables: the site has its own.
    text = re.sub(r"<style scoped>.*?</style>", "", text, flags=re.DOTALL)
    (folder / files).mkdir(parents=True, exist_ok=True)
    for name, data in resources["outputs"].items():
        (folder / name).write_bytes(data)
    page = folder / f"{path.stem}.md"
    described = _describe_pictures(text)
    # Else Sphinx would read it again.
    if not page.exists() or page.read_text(encoding="utf-8") != described:
        page.write_text(described, encoding="utf-8")


def _describe_pictures(text: str) -> str:
    """Name the section of each picture: the alternative text of a notebook's output is its format."""
    heading, lines = "", []
    for line in text.splitlines():
        if found := re.match(r"#+ (.+)", line):
            heading = found[1]
        lines.append(
            re.sub(
                r"^!\[\w+\]\((\w+_files/)",
                rf"![Figure of the section: {heading}](\1",
                line,
            )
        )
    return "\n".join(lines) + "\n"


def _convert_all(app: Any, config: Any) -> None:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        convert(path, FOLDER)


def setup(app: Any) -> dict[str, bool]:
    """Connect the handler."""
    app.connect("config-inited", _convert_all)
    return {"parallel_read_safe": True}
