from __future__ import annotations

from pathlib import Path

import jupytext
import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_its_script_with_output(path):
    script = path.with_suffix(".py")
    cells, sources = ([(cell.cell_type, cell.source) for cell in jupytext.read(file).cells] for file in (path, script))
    assert cells == sources
    code = [cell for cell in jupytext.read(path).cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)


def test_there_is_a_notebook():
    assert NOTEBOOKS
