"""The how-tos, followed on a scratch copy of the repository."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.how_to import PAGES, ROOT, Step, copy_of, scratch_copy, steps


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_how_to_fits_the_files_of_today(page, tmp_path):
    of_page = steps(page)
    edits = [step for step in of_page if step.file is not None]
    assert edits, "it shows no code"
    assert len(edits) < len(of_page), "it runs no test"
    root = copy_of({"pyproject.toml", "tests/ruff.toml", *(step.file for step in edits)}, tmp_path)
    for step in edits:
        step.apply(root)
    python = sorted({step.file for step in edits if step.file.endswith(".py")})
    # Which modules are ours, ruff looks up where they are.
    places = f"src = ['.', '{ROOT.as_posix()}']"
    for command in (["check", "--config", places], ["format", "--diff"]):
        process = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *python], cwd=root, capture_output=True, text=True, check=False
        )
        assert process.returncode == 0, process.stdout + process.stderr


def names_of_an_encoder(page, encoder):
    """Return the files of the code and of the reference that name an encoder, and those of them that a page names."""
    files = [*(ROOT / "skdp").rglob("*.py"), *(ROOT / "docs" / "guarantees").rglob("*.md")]
    files += [ROOT / "docs" / "api" / "local.rst", ROOT / "docs" / "choose.md"]
    naming = {path.relative_to(ROOT).as_posix() for path in files if encoder in path.read_text(encoding="utf-8")}
    text = page.read_text(encoding="utf-8")
    return naming, {name for name in naming if f"`{name}`" in text}


def test_the_how_to_of_an_oracle_names_each_list_of_encoders():
    page = ROOT / "docs" / "how_to" / "new_oracle.md"
    naming, named = names_of_an_encoder(page, "SubsetSelectionEncoder")
    assert len(naming) >= 7
    assert naming == named
    for name in re.findall(r"`([\w/]+\.(?:py|rst|md))`", page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists() or "optional_response" in name, name


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_how_to_makes_passes_the_tests(page, tmp_path):
    root = scratch_copy(tmp_path)
    for step in steps(page):
        if step.file is None:
            step.run(root)
        else:
            step.apply(root)


class TestSteps:
    @pytest.mark.parametrize(
        ("where", "text"),
        [("after", "a\n  b\nnew\nc\n"), ("before", "a\nnew\n  b\nc\n"), ("replace", "a\nnew\nc\n")],
    )
    def test_a_line_is_found_without_its_indentation(self, where, text, tmp_path):
        (tmp_path / "file.py").write_text("a\n  b\nc\n")
        Step("file.py", where, "b", "new\n").apply(tmp_path)
        assert (tmp_path / "file.py").read_text() == text

    @pytest.mark.parametrize(
        ("content", "where", "line", "message"),
        [("a\nc\n", "after", "b", "lines `b`"), ("b\nb\n", "after", "b", "lines `b`"), ("a\n", "new", None, "exists")],
    )
    def test_a_line_that_does_not_stand_once_and_a_file_that_exists(self, content, where, line, message, tmp_path):
        (tmp_path / "file.py").write_text(content)
        with pytest.raises(AssertionError, match=message):
            Step("file.py", where, line, "new\n").apply(tmp_path)

    def test_a_command_that_fails_fails(self, tmp_path):
        with pytest.raises(AssertionError, match="a word"):
            Step(None, None, None, "python -c \"raise SystemExit('a word')\"").run(tmp_path)
