"""Print the headline of each benchmark page, unless the code that it describes has changed since its rows were written.

    python benchmarks/_headlines.py

`docs/benchmarks/findings.toml` has the headlines and, as `code`, the files and folders of their methods. Rows are
outdated if code other than docstrings, comments, annotations and their imports differs from the commit of the rows.
The exit status is 1 if a headline is not printed, or if a call of `waits.py` is slower than at the release before, and
no item of the changelog with the word "slower" names it.
"""

from __future__ import annotations

import ast
import math
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
from run import RESULTS, read_rows, run_git, select_newest

ROOT = Path(__file__).resolve().parent.parent
FINDINGS = ROOT / "docs" / "benchmarks" / "findings.toml"
# The AUC of models of synthetic rows of one table varies by 0.05 between seeds.
MIN_SEEDS = 4
MAX_SLOWDOWN = 1.2  # Ratio to the CPU time of the release before.


def read_findings() -> dict[str, dict[str, Any]]:
    """Return the section of each page."""
    return tomllib.loads(FINDINGS.read_text(encoding="utf-8"))


def read_results(name: str) -> pd.DataFrame:
    """Return the newest rows of each method of a benchmark."""
    rows = pd.read_csv(RESULTS / f"{name}.csv").to_dict("records")
    return select_newest(read_rows(rows), import_module(name))


def write_finding(rows: pd.DataFrame, page: dict[str, Any]) -> str:
    """Insert means of rows into the sentence of a page; raise an error if they are no evidence for it."""
    check_evidence(rows, page)
    values = {
        key: select(rows, chosen)["value"].mean()
        for key, chosen in page["values"].items()
    }
    for small, large in pairwise(page.get("ascending", [])):
        if not values[small] < values[large]:
            raise ValueError(f"{small} is not below {large}: rewrite the finding")
    return re.sub(r"(?<=\d)%", " %", page["finding"].format(**values))


def check_evidence(rows: pd.DataFrame, page: dict[str, Any]) -> None:
    """Require four seeds, and all tables that have rows of the named methods, metrics and epsilons."""
    tables: dict[Any, set[str]] = {}
    for chosen in page["values"].values():
        found = select(rows, chosen)
        seeds = found.groupby(["task", "table", "method", "epsilon"])["seed"]
        if found.empty:
            raise ValueError(f"the results have no rows of {chosen}")
        is_single = "one run" in page["finding"]
        needs_seeds = not (page.get("exact") or is_single)
        if needs_seeds and seeds.nunique().min() < MIN_SEEDS:
            raise ValueError(f"{chosen} must have rows of at least {MIN_SEEDS} seeds")
        others = frozenset(chosen.items() - {("table", chosen.get("table"))})
        tables.setdefault(others, set()).update(found["table"])
    for others, named in tables.items():
        missing = {*select(rows, dict(others))["table"]} - named
        if missing and not page.get("cases"):
            raise ValueError(
                f"the finding leaves out {sorted(missing)} of {dict(others)}"
            )


def select(rows: pd.DataFrame, chosen: dict[str, Any]) -> pd.DataFrame:
    """Return the rows with the chosen values."""
    return rows[(rows[[*chosen]] == pd.Series(chosen)).all(axis=1)]


def list_outdated(rows: pd.DataFrame, page: dict[str, Any]) -> list[str]:
    """List the files of the methods of a finding that have changed since the commits of its rows.

    Rows of `rivals`, whose code is not in this repository, are never outdated.
    """
    found = pd.concat([select(rows, chosen) for chosen in page["values"].values()])
    is_own = ~found["method"].isin(page.get("rivals", []))
    changed = set[str]()
    for commit in found.loc[is_own, "commit"].unique():
        changed.update(list_changed(commit, tuple(page["code"])))
    return sorted(changed)


def list_changed(commit: str, paths: tuple[str, ...]) -> list[str]:
    """List the Python files in `paths` whose code differs from a commit."""
    arguments = "diff", "--name-only", "--no-renames", commit, "--", *paths
    names = run_git(*arguments, cwd=ROOT).splitlines()
    return [name for name in names if is_changed(commit, name)]


def is_changed(commit: str, name: str) -> bool:
    """Return whether a file has other code than in a commit, or is in one of the two only."""
    try:
        before = run_git("show", f"{commit}:{name}", cwd=ROOT)
        now = (ROOT / name).read_text(encoding="utf-8")
    except (OSError, subprocess.CalledProcessError):
        return True
    return not name.endswith(".py") or dump_code(before) != dump_code(now)


def dump_code(text: str) -> str:
    """Return the syntax tree of a module without strings that are statements, annotations, and imports for them."""
    tree = _RemoveNotes().visit(ast.parse(text))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            node.names = [
                alias
                for alias in node.names
                if (alias.asname or alias.name).split(".")[0] in used
            ]
    return ast.dump(_RemoveEmptyImports().visit(tree))


class _RemoveNotes(ast.NodeTransformer):
    """Removes what readers and type checkers read; fields of classes keep their names and values."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if is_docstring(node) else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        is_typing = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return None if is_typing and not node.orelse else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)


class _RemoveEmptyImports(ast.NodeTransformer):
    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        return node if node.names else None

    def visit_Import(self, node: ast.Import) -> ast.Import | None:
        return node if node.names else None


def is_docstring(node: ast.stmt) -> bool:
    """Return whether a statement is a string."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(node.value.value, str)


def write_headline(rows: pd.DataFrame, page: dict[str, Any]) -> str:
    """Return the finding of a page, or the reason why its rows are no evidence for the code."""
    finding = write_finding(rows, page)
    try:
        outdated = list_outdated(rows, page)
    except (OSError, subprocess.CalledProcessError):
        return "No headline: the commits of the rows are not in this copy of the repository."
    if not outdated:
        return f"**{finding}**"
    n_files = f"{len(outdated)} files" if len(outdated) > 1 else "a file"
    return (
        f"No headline: the rows are older than the code that they describe. Since then, {n_files} changed: "
        f"{', '.join(f'`{name}`' for name in outdated[:3])}{', ...' if len(outdated) > 3 else ''}."
    )


def list_slower(rows: pd.DataFrame, news: str) -> list[str]:
    """List the methods that are slower than before on a table, without an item of the news that says so."""
    times = (
        rows[rows["metric"] == "seconds"].groupby(["table", "method"])["value"].min()
    )
    items = " ".join(item for item in news.split("\n- ") if "slower" in item)
    slower = {
        method
        for (table, method), seconds in times.items()
        if seconds > MAX_SLOWDOWN * times.get((table, f"{method}, before"), math.inf)
    }
    return sorted(method for method in slower if method not in " ".join(items.split()))


def main() -> int:
    """Print the headline of each page; return whether one is missing."""
    status = 0
    for name, page in read_findings().items():
        headline = write_headline(read_results(name), page)
        print(f"{name}: {headline}\n")
        status |= not headline.startswith("**")
    _, news, *_ = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")
    slower = list_slower(read_results("waits"), news)
    if slower:
        print(f"CHANGELOG.md must name what is slower: {', '.join(slower)}.")
    return status or bool(slower)


if __name__ == "__main__":
    sys.exit(main())
