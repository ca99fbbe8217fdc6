from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_the_code_of_the_readme_runs(code, capsys):
    exec(compile(code, "README.md", "exec"), {})
    for promised in re.findall(r"print\(.*\)  # (epsilon = .*)", code):
        assert promised in capsys.readouterr().out


def test_the_readme_names_commands_that_exist():
    makefile = (Path(__file__).parent.parent / "Makefile").read_text(encoding="utf-8")
    commands = set(re.findall(r"make ([a-z-]+)", README))
    assert {"report", "test", "bench", "test-long"} <= commands
    assert all(f"\n{command}:" in makefile for command in commands)
