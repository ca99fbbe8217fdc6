"""README, guides and examples pass type checkers as files of a user, who has no stubs of other packages."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("guide/*.md")), *sorted((ROOT / "docs").glob("jobs/*.md"))]
EXAMPLES = sorted((ROOT / "examples").rglob("plot_*.py"))
# Packages without types, or whose types take long to read.
UNTYPED = ["aif360", "dask", "distributed", "duckdb", "fairlearn", "joblib", "matplotlib", "polars", "pyarrow"]
UNTYPED += ["pyspark", "scipy", "skops", "sklearn"]

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write the code of each page and example to a file of its own."""
    folder = tmp_path_factory.mktemp("user")
    for path in PAGES:
        if blocks := re.findall(r"^```python\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE):
            (folder / f"page_{path.stem}.py").write_text("\n".join(blocks))
    for path in EXAMPLES:
        (folder / path.name).write_text(path.read_text())
    return folder


def check(program, *arguments, folder):
    command = [sys.executable, "-m", program, *arguments]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout


def test_code_of_pages_and_examples_passes_mypy(folder):
    untyped = ",".join(f"{name}.*" for name in UNTYPED)
    settings = "[mypy]\nstrict = true\nallow_untyped_defs = true\nallow_untyped_calls = true\n"
    settings += f"ignore_missing_imports = true\n[mypy-{untyped}]\nfollow_imports = skip\n"
    settings += "[mypy-skdp.*]\nfollow_imports = silent\n"
    (folder / "mypy.ini").write_text(settings)
    check("mypy", "--config-file", "mypy.ini", *sorted(path.name for path in folder.glob("*.py")), folder=folder)


def test_code_of_pages_and_examples_passes_pyright(folder):
    pytest.importorskip("pyright")
    settings = {"extraPaths": [str(ROOT)], "reportMissingImports": False, "useLibraryCodeForTypes": False}
    (folder / "pyrightconfig.json").write_text(json.dumps({**settings, "reportMissingModuleSource": False}))
    check("pyright", "--pythonpath", sys.executable, folder=folder)
