"""The how-to pages, applied to a scratch copy of the repository.

The line above a code block states where the code belongs:

- ``New file `skdp/oracles/_coin.py`:``
- ``Insert into `skdp/oracles/__init__.py` after the line `"LocalHashing",`:``, or ``before``; it occurs once there
- ``Replace in `skdp/oracles/__init__.py` the line `"LocalHashing",`:``

Each line of a block of ``sh`` is run in the copy.
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

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "how_to").glob("new_*.md"))
COPIED = (".ci", "benchmarks", "docs", "examples", "notebooks", "skdp", "tests")

BLOCK = re.compile(
    r"^(?P<head>[^\n]*)\n\n?"
    r"(?P<indent> *)(?P<fence>````?)(?P<language>python|toml|markdown|text|sh)\n(?P<body>.*?)^ *(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
PLACES = {
    "new": re.compile(r"New file `(?P<file>[^`]+)`:$"),
    "after": re.compile(r"Insert into `(?P<file>[^`]+)` after the line `(?P<line>.+)`:$"),
    "before": re.compile(r"Insert into `(?P<file>[^`]+)` before the line `(?P<line>.+)`:$"),
    "replace": re.compile(r"Replace in `(?P<file>[^`]+)` the line `(?P<line>.+)`:$"),
}


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
        if self.where == "new":
            assert not path.exists(), f"{self.file} exists"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.text)
            return
        lines = path.read_text().splitlines(keepends=True)
        places = [place for place, line in enumerate(lines) if line.strip() == self.line.strip()]
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
        found.append(_edit(page, block["head"], text))
    return found


def _edit(page: Path, head: str, text: str) -> Step:
    """Read the line above a block, which states where the block belongs."""
    for where, pattern in PLACES.items():
        place = pattern.search(head)
        if place is not None:
            return Step(place["file"], where, place.groupdict().get("line"), text)
    raise AssertionError(f"{page.name}: where does the block below this line go? {head}")


def scratch_copy(folder: Path) -> Path:
    """Copy the repository, without installed and built files."""
    root = folder / "skdp"
    root.mkdir()
    for name in COPIED:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "_build"))
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, root / path.name)
    return root


def copy_of(files: set[str], folder: Path) -> Path:
    """Copy the existing files of a set."""
    root = folder / "skdp"
    for name in files:
        if (ROOT / name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    return root


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_how_to_applies_to_the_repository(page, tmp_path):
    of_page = steps(page)
    edits = [step for step in of_page if step.file is not None]
    assert edits, "it shows no code"
    assert len(edits) < len(of_page), "it runs no test"
    root = copy_of({"pyproject.toml", "tests/ruff.toml", *(step.file for step in edits)}, tmp_path)
    for step in edits:
        step.apply(root)
    python = sorted({step.file for step in edits if step.file.endswith(".py")})
    # ruff finds first-party modules by their location.
    places = f"src = ['.', '{ROOT.as_posix()}']"
    for command in (["check", "--config", places], ["format", "--diff"]):
        process = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *python], cwd=root, capture_output=True, text=True, check=False
        )
        assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tests_of_how_to_pass(page, tmp_path):
    root = scratch_copy(tmp_path)
    for step in steps(page):
        if step.file is None:
            step.run(root)
        else:
            step.apply(root)
