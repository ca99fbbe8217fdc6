"""Follow the pages of `docs/how_to` on a scratch copy of the repository.

A page says what to do by blocks of code, each below a line that says where it goes:

- ```skdp/oracles/_coin.py` (new file):``
- ```skdp/oracles/__init__.py`, after `"Postprocess",`:`` likewise ``before`` and ``in place of``; the line is quoted
  without its indentation, and stands once in the file
- ```tests/oracles/conftest.py`, at its end:``

A block of ``sh`` is run in the copy, line by line.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "how_to").glob("new_*.md"))
COPIED = ("benchmarks", "changelog.d", "docs", "examples", "notebooks", "skdp", "tests")

BLOCK = re.compile(
    r"^(?P<head>[^\n]*)\n\n?"
    r"(?P<indent> *)(?P<fence>````?)(?P<language>python|toml|markdown|sh)\n(?P<body>.*?)^ *(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
PLACE = re.compile(
    r"`(?P<file>[\w./+-]+)`"
    r"(?: \((?P<new>new file)\)|, (?P<where>after|before|in place of) `(?P<line>.+)`|, at its (?P<end>end)):$"
)


@dataclass(frozen=True)
class Step:
    """A block of a page: text for a file, or commands."""

    file: str | None
    where: str | None
    line: str | None
    text: str

    def apply(self, root: Path) -> None:
        """Write the text into its file."""
        path = root / self.file
        if self.where == "new file":
            assert not path.exists(), f"{self.file} exists"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.text)
            return
        lines = path.read_text().splitlines(keepends=True)
        if self.where == "end":
            path.write_text("".join(lines) + self.text)
            return
        places = [place for place, line in enumerate(lines) if line.strip() == self.line]
        assert len(places) == 1, f"{self.file} has {len(places)} lines `{self.line}`"
        first = places[0] + (self.where == "after")
        last = places[0] + (self.where != "before")
        path.write_text("".join([*lines[:first], self.text, *lines[last:]]))

    def run(self, root: Path) -> None:
        """Run the commands."""
        environment = {**os.environ, "PYTHONPATH": str(root)}
        for command in self.text.splitlines():
            program, *arguments = shlex.split(command)
            if program in ("pytest", "ruff", "mypy"):
                arguments = ["-m", program, *arguments]
            else:
                assert program == "python", f"a how-to runs python, pytest, ruff and mypy, not {program}"
            process = subprocess.run(
                [sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=False
            )
            assert process.returncode == 0, f"{command}\n{process.stdout[-4000:]}\n{process.stderr[-2000:]}"


def steps(page: Path) -> list[Step]:
    """List the steps of a page, in order."""
    found = []
    for block in BLOCK.finditer(page.read_text()):
        indent = block["indent"]
        text = "".join(line.removeprefix(indent) for line in block["body"].splitlines(keepends=True))
        if block["language"] == "sh":
            found.append(Step(None, None, None, text))
            continue
        place = PLACE.search(block["head"])
        assert place is not None, f"{page.name}: where does the block below this line go? {block['head']}"
        found.append(Step(place["file"], place["new"] or place["where"] or place["end"], place["line"], text))
    return found


def scratch_copy(folder: Path) -> Path:
    """Copy the repository, without what is installed or built."""
    root = folder / "skdp"
    root.mkdir()
    for name in COPIED:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "_build"))
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, root / path.name)
    return root
