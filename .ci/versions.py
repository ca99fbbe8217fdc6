"""Run the tests with other versions of Python and of the dependencies.

Run ``make test-versions``, or ``python .ci/versions.py PYTHON ...`` with the commands of several Pythons. Each is
tested with its newest dependencies; the first installed one also with the oldest ones that ``pyproject.toml`` allows.
``--only newest`` or ``--only oldest`` selects one of both. A Python that is not installed is skipped, and named at the
end. The environments are in ``.venv-versions``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-versions"
EXTRAS = "fairness,plot,dask,polars,duckdb,sql,postgres,remote,test"


def oldest() -> str:
    """Return constraints: the lower bounds of all dependencies, as exact versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    listed = [
        *project["dependencies"],
        *(line for name in EXTRAS.split(",") for line in extras[name]),
    ]
    bounds: dict[str, str] = {}
    for name, version in (
        found.groups()
        for line in listed
        if (found := re.match(r"([\w-]+)[^>]*>=([\d.]+)", line))
    ):
        bounds[name] = max(
            bounds.get(name, "0"),
            version,
            key=lambda text: [int(part) for part in text.split(".")],
        )
    bounds["pyparsing"] = "3.1"  # matplotlib 3.10 calls what is deprecated since
    return "".join(f"{name}=={version}\n" for name, version in bounds.items())


def run(python: str, constraints: str | None) -> bool:
    """Make an environment, and run the tests in it; return True if they pass."""
    folder = FOLDER / f"{Path(python).name}-{'oldest' if constraints else 'newest'}"
    print(f"== {folder.name}", flush=True)
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    pip = [
        folder / "bin" / "pip",
        "install",
        "--quiet",
        "--editable",
        f"{ROOT}[{EXTRAS}]",
    ]
    if constraints:
        (folder / "constraints.txt").write_text(constraints)
        pip += ["--constraint", folder / "constraints.txt"]
    subprocess.run(pip, check=True)
    here = folder / "bin" / "python"
    tests = [
        here,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "--dist",
        "loadscope",
        "-p",
        "no:cacheprovider",
        "-m",
        "not long",
    ]
    # These tests need development tools, and notebooks contain the output of one version.
    left_out = [
        "--ignore",
        "tests/test_notebooks.py",
        "--ignore",
        "tests/test_docstrings.py",
        "--ignore",
        "tests/test_how_to.py",
    ]
    commands = [[here, "-W", "error", "-c", "import skdp"], [*tests, *left_out]]
    return all(
        subprocess.run(command, cwd=ROOT, check=False).returncode == 0
        for command in commands
    )


def main(arguments: list[str] | None = None) -> int:
    """Test each Python that is installed; return the status of the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pythons", nargs="+", help="commands, such as python3.11")
    parser.add_argument(
        "--only", choices=["newest", "oldest"], help="the dependencies to test with"
    )
    asked = parser.parse_args(arguments)
    pythons, found = (
        asked.pythons,
        [python for python in asked.pythons if _works(python)],
    )
    runs: list[tuple[str, str | None]] = []
    if asked.only != "oldest":
        runs += [(python, None) for python in found]
    if asked.only != "newest":
        runs += [(python, oldest()) for python in found[:1]]
    results = [
        (python, constraints, run(python, constraints)) for python, constraints in runs
    ]
    for python in pythons:
        if python not in found:
            print(f"{python}: not installed, not tested")
    for python, constraints, passed in results:
        print(
            f"{python}, {'oldest' if constraints else 'newest'}: {'passed' if passed else 'FAILED'}"
        )
    return 0 if results and all(passed for *_, passed in results) else 1


def _works(python: str) -> bool:
    """Return True if a command starts a Python; pyenv has commands for versions that are not selected."""
    return (
        shutil.which(python) is not None
        and not subprocess.run([python, "-V"], capture_output=True).returncode
    )


if __name__ == "__main__":
    sys.exit(main())
