"""A page for each file in benchmarks/results: the docstring of its script, and its newest rows as pivots."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

DOCS = Path(__file__).parent.parent
BENCHMARKS = DOCS.parent / "benchmarks"


def setup(app: Any) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them."""
    sys.path.append(str(BENCHMARKS))
    from run import (
        format_pivots,
        read_rows,
        select_newest,
    )

    for path in (BENCHMARKS / "results").glob("*.csv"):
        script = import_module(path.stem)
        frame = read_rows(pd.read_csv(path).to_dict("records"))
        rows = select_newest(frame, script)
        machines = "; ".join(rows["machine"].unique())
        parts = [
            f"# {path.stem.replace('_', ' ').capitalize()}",
            script.__doc__,
            f"Each row is the newest result of a method; `commit` is the code that was measured. Machine: {machines}.",
        ]
        texts = format_pivots(rows).strip().split("\n\n")
        for title, table in zip(texts[::2], texts[1::2], strict=True):
            title = title[0].upper() + title[1:].replace("_", " ")
            parts.append(f"## {title}\n\n```text\n{table}\n```\n")
        page = DOCS / "benchmarks" / f"{path.stem}.md"
        page.write_text("\n\n".join(parts), encoding="utf-8")
    return {"parallel_read_safe": True}
