"""A page for each file in benchmarks/results: the docstring of its script, and pivots of its newest rows."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pandas as pd

DOCS = Path(__file__).parent.parent
BENCHMARKS = DOCS.parent / "benchmarks"


def setup(app: Any) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them."""
    sys.path.append(str(BENCHMARKS))
    from run import format_pivots, read_rows

    for path in (BENCHMARKS / "results").glob("*.csv"):
        script = (BENCHMARKS / f"{path.stem}.py").read_text(
            encoding="utf-8"
        )
        frame = read_rows(pd.read_csv(path).to_dict("records"))
        rows = frame[frame["commit"] == frame["commit"].iloc[-1]]
        commit, machine = rows[["commit", "machine"]].iloc[-1]
        parts = [
            f"# {path.stem.replace('_', ' ').capitalize()}",
            ast.get_docstring(ast.parse(script)),
            f"Commit {commit}, {machine}.",
        ]
        texts = format_pivots(rows).strip().split("\n\n")
        for title, table in zip(texts[::2], texts[1::2], strict=True):
            title = title[0].upper() + title[1:].replace("_", " ")
            parts.append(f"## {title}\n\n```text\n{table}\n```\n")
        page = DOCS / "benchmarks" / f"{path.stem}.md"
        page.write_text("\n\n".join(parts), encoding="utf-8")
    return {"parallel_read_safe": True}
