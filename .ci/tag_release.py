"""Add the book to the packages of ``make release-check``, and tag the commit: the end of ``make release``."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run_git(*arguments: str) -> str:
    """Return the output of a command of git."""
    process = subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return process.stdout.strip()


def main() -> int:
    """Copy the book, and tag the commit by its version unless there is such a tag."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    version = settings["project"]["version"]
    tag = f"v{version}"
    if run_git("status", "--porcelain"):
        print("commit first: a tag names committed files", file=sys.stderr)
        return 1
    if run_git("tag", "--list", tag):
        print(
            f"there is a tag {tag}: set the next version in pyproject.toml",
            file=sys.stderr,
        )
        return 1
    book = ROOT / "dist" / f"skdp-{version}.epub"
    shutil.copy(ROOT / "site" / "epub" / "skdp.epub", book)
    print(f"{hashlib.sha256(book.read_bytes()).hexdigest()}  dist/{book.name}")
    run_git("tag", "--annotate", tag, "--message", f"skdp {version}")
    print(f"tagged {tag}: push the tag to publish it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
