"""`make bench-stale`: which results of benchmarks are older than what they measure."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MEASURED = tomllib.loads((ROOT / "benchmarks" / "measured.toml").read_text())


def load_script():
    spec = importlib.util.spec_from_file_location("bench_stale", ROOT / ".ci" / "bench_stale.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_each_result_measures_is_listed_and_exists():
    assert {path.stem for path in (ROOT / "benchmarks" / "results").glob("*.md")} == MEASURED.keys()
    for name, paths in MEASURED.items():
        assert (ROOT / "benchmarks" / f"{name}.py").exists()
        assert paths
        assert all((ROOT / path).exists() for path in paths), name


def test_each_result_names_its_commit():
    pattern = load_script().MEASURED_AT
    for path in (ROOT / "benchmarks" / "results").glob("*.md"):
        assert pattern.search(path.read_text()), path


FILES = {
    "benchmarks/speed.py": "from _shared import best\n\nbest()\n",
    "benchmarks/_shared.py": "def best():\n    return 1\n",
    "benchmarks/measured.toml": 'speed = ["skdp/oracles"]\n',
    "skdp/oracles/_a.py": '"""A module."""\n\nBITS = 8\n',
    "skdp/privacy.py": "LOSS = 1\n",
}
CHANGES = {
    "skdp/privacy.py": ("LOSS = 2\n", None),
    "skdp/oracles/_a.py": ('"""Another text."""\n# why\nBITS  =  8\n', None),
    "skdp/oracles/_b.py": ("BITS = 9\n", "skdp/oracles/_b.py"),
    "benchmarks/_shared.py": ("def best():\n    return 2\n", "benchmarks/_shared.py"),
    "benchmarks/speed.py": ("print(3)\n", "benchmarks/speed.py"),
}


@pytest.fixture
def repository(tmp_path):
    """A repository with one benchmark, and the function that commits all of it."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    def commit(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        git("add", "--all")
        git("commit", "--quiet", "--message", "change")
        return git("rev-parse", "HEAD")

    git("init", "--quiet")
    return tmp_path, commit


@pytest.mark.parametrize("changed", CHANGES)
def test_a_result_is_stale_where_the_code_that_it_measures_is_another(changed, repository):
    root, commit = repository
    measured_at = commit(FILES)
    page = f"# Speed\n\nMeasured at commit {measured_at[:10]} on a processor, 2 cores.\n"
    commit({"benchmarks/results/speed.md": page})
    assert load_script().reasons(root) == {}
    text, named = CHANGES[changed]
    commit({changed: text})
    reasons = load_script().reasons(root)
    assert reasons == ({} if named is None else {"speed": f"changed since {measured_at[:10]}: {named}"})


@pytest.mark.parametrize(
    ("name", "page", "reason"),
    [
        ("speed", "# Speed\n", "it names no commit that it was measured at"),
        ("speed", "Measured at commit 0123456789 on a processor.\n", "this clone does not have its commit, 0123456789"),
        ("memory", "# Memory\n", "benchmarks/measured.toml does not list what it measures"),
    ],
)
def test_a_result_of_unknown_code_is_stale(name, page, reason, repository):
    root, commit = repository
    commit(FILES | {f"benchmarks/results/{name}.md": page})
    assert load_script().reasons(root) == {name: reason}


def top_level_names(module):
    """Return the names that a module of the tests defines or imports at its top."""
    names = set()
    for node in ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {name.asname or name.name for name in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        else:
            names |= {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    return names


def test_what_benchmarks_import_from_the_tests_exists():
    n_imports = 0
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("tests."):
                continue
            for name in node.names:
                n_imports += 1
                submodule = ROOT / node.module.replace(".", "/") / f"{name.name}.py"
                assert submodule.exists() or name.name in top_level_names(node.module), f"{path.name}: {name.name}"
    assert n_imports >= 10
