"""The page of benchmarks: pivots of the rows in benchmarks/results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd

DOCS = Path(__file__).parent.parent
BENCHMARKS = DOCS.parent / "benchmarks"


def setup(app: Any) -> dict[str, bool]:
    """Write the page before Sphinx looks for it."""
    sys.path.append(str(BENCHMARKS))
    from run import format_pivots, read_rows

    parts = ["# Results of benchmarks\n"]
    for path in sorted((BENCHMARKS / "results").glob("*.csv")):
        frame = read_rows(pd.read_csv(path).to_dict("records"))
        rows = frame[frame["commit"] == frame["commit"].iloc[-1]]
        commit, machine = rows[["commit", "machine"]].iloc[-1]
        parts.append(f"## {path.stem}\n\nCommit {commit}, {machine}.\n")
        parts.append(f"```text\n{format_pivots(rows)}\n```\n")
    page = DOCS / "benchmarks" / "results.md"
    page.write_text("\n".join(parts), encoding="utf-8")
    return {"parallel_read_safe": True}
