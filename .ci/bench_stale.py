"""List the benchmark results that are older than what they measure.

Run ``make bench-stale``. Each page of ``benchmarks/results`` names the commit that it was measured at. It is stale if
the code of its script, of a helper that the script imports, or of the rooms that ``benchmarks/measured.toml`` lists for
it is another one now. Comments, docstrings and layout do not count. The exit status is 1 if a page is stale.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# All scripts write their pages by it: a change of the page's head is none of what a script measures.
WRITER = "_timing"
MEASURED_AT = re.compile(
    r"^(?:Measured at|Published with) commit ([0-9a-f]{7,40})\b", re.MULTILINE
)


def git(root: Path, *arguments: str) -> str:
    """Return what a git command prints."""
    return subprocess.run(
        ["git", *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout


def has_commit(root: Path, commit: str) -> bool:
    """Return whether the clone has a commit: a shallow one may not."""
    command = ["git", "cat-file", "-e", f"{commit}^{{commit}}"]
    return (
        subprocess.run(command, cwd=root, check=False, capture_output=True).returncode
        == 0
    )


def code(source: str) -> str:
    """Return a form of a module in which comments, docstrings and layout do not show."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [statement for statement in body if not is_text(statement)] or [
                ast.Pass()
            ]
    return ast.dump(tree)


def is_text(statement: ast.stmt) -> bool:
    """Return whether a statement is a docstring, or text where one would be."""
    is_constant = isinstance(statement, ast.Expr) and isinstance(
        statement.value, ast.Constant
    )
    return is_constant and isinstance(statement.value.value, str)


def scripts(root: Path, script: str) -> list[str]:
    """List the script of a benchmark, and the helpers beside it that it imports, directly or not."""
    listed: list[str] = []
    waiting = [script]
    while waiting:
        name = waiting.pop()
        path = root / "benchmarks" / f"{name}.py"
        if f"benchmarks/{name}.py" in listed or not path.exists():
            continue
        listed.append(f"benchmarks/{name}.py")
        imports = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
        ]
        waiting += [
            node.module for node in imports if node.module not in (None, WRITER)
        ]
    return listed


def changed_files(root: Path, commit: str, paths: list[str]) -> list[str]:
    """List the Python files under some paths whose code is not that of a commit."""
    changed = []
    for name in git(
        root, "diff", "--name-only", "--no-renames", commit, "--", *paths
    ).split():
        if not name.endswith(".py"):
            continue
        if not (root / name).exists():
            changed.append(name)
            continue
        before = subprocess.run(
            ["git", "show", f"{commit}:{name}"],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
        if before.returncode != 0 or code(before.stdout) != code(
            (root / name).read_text()
        ):
            changed.append(name)
    return changed


def reasons(root: Path) -> dict[str, str]:
    """Return why each stale page of results is stale."""
    measured = tomllib.loads((root / "benchmarks" / "measured.toml").read_text())
    stale = {}
    for page in sorted((root / "benchmarks" / "results").glob("*.md")):
        name = page.stem
        commit = MEASURED_AT.search(page.read_text())
        if name not in measured:
            stale[name] = "benchmarks/measured.toml does not list what it measures"
        elif commit is None:
            stale[name] = "it names no commit that it was measured at"
        elif not has_commit(root, commit[1]):
            stale[name] = f"this clone does not have its commit, {commit[1]}"
        elif changed := changed_files(
            root, commit[1], [*scripts(root, name), *measured[name]]
        ):
            others = "" if len(changed) == 1 else f" and {len(changed) - 1} more"
            stale[name] = f"changed since {commit[1]}: {changed[0]}{others}"
    return stale


def main() -> int:
    """Print the stale pages."""
    stale = reasons(ROOT)
    for name, reason in stale.items():
        print(f"{name}: {reason}")
    pages = len(list((ROOT / "benchmarks" / "results").glob("*.md")))
    print(f"{len(stale)} of {pages} results are stale")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
