from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_the_code_of_the_readme_runs(code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some of it writes files
    exec(compile(code, "README.md", "exec"), {})
    for output in re.findall(r"print\(.*\)\n# (epsilon = .*)", code):
        assert output in capsys.readouterr().out


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 90


def test_the_readme_names_commands_that_exist():
    makefile = (Path(__file__).parent.parent / "Makefile").read_text(encoding="utf-8")
    commands = set(re.findall(r"make ([a-z-]+)", README))
    assert {"report", "test", "docs"} <= commands
    assert all(f"\n{command}:" in makefile for command in commands)
