"""Each benchmark runs: one small cell of each method, through the runner."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import often

FOLDER = Path(__file__).parent.parent / "benchmarks"
EXTENSION = FOLDER.parent / "docs" / "_ext" / "skdp_benchmarks.py"


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run = load_script("run")


def load_extension():
    spec = importlib.util.spec_from_file_location("skdp_benchmarks", EXTENSION)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def find_scripts():
    """List the scripts, which have no command line of their own."""
    paths = FOLDER.glob("[a-z]*.py")
    return sorted(path.stem for path in paths if "__main__" not in path.read_text())


@pytest.mark.filterwarnings("ignore")  # As in the runner.
@pytest.mark.parametrize("name", often(find_scripts(), {*find_scripts()} - {"fairness"}))
def test_a_cell_of_each_benchmark_runs(name, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)  # As in a script, which imports its neighbors.
    script = load_script(name)
    tables = run.TableCache(script, quick=True)
    seen = set()
    for cell in run.list_cells(script, quick=True):
        if cell.task not in seen:
            seen.add(cell.task)
            answer = run.run_cell(tables, cell)
            assert "failed" not in answer, answer
            assert "skipped" in answer or not any(map(math.isnan, answer["metrics"].values())), answer


def test_select_newest_keeps_rivals_of_older_commits_and_drops_removed_methods():
    rows = [
        {"task": "means", "table": table, "method": method, "epsilon": 1, "seed": 0, "commit": commit, "value": value}
        for value, (table, method, commit) in enumerate(
            [
                ("Adult", "own", "a"),
                ("Adult", "rival", "a"),
                ("Adult", "removed", "a"),
                ("wine", "own", "b"),
                ("Adult", "own", "c"),
            ]
        )
    ]
    frame = run.read_rows([{"metric": "error", "seconds": 0.0, "machine": "any"} | row for row in rows])
    script = SimpleNamespace(TASKS={"means": SimpleNamespace(methods=dict.fromkeys(["own", "rival"]))})
    newest = run.select_newest(frame, script)
    assert newest[["table", "method", "commit", "value"]].values.tolist() == [
        ["Adult", "own", "c", 4],
        ["Adult", "rival", "a", 1],
        ["wine", "own", "b", 3],
    ]
    assert "rival  a        1" in run.format_pivots(newest)


def test_growth_states_exponents_and_the_largest_size(tmp_path):
    pytest.importorskip("matplotlib")
    metrics = {"seconds": lambda size: 1e-9 * size**1.5, "random_bytes_per_record": lambda size: 2}
    rows = [
        {"task": "growth with records", "table": f"{size:,} records", "method": "unary", "epsilon": 1, "seed": seed}
        | {"metric": metric, "value": compute(size), "seconds": 0.0, "commit": "a", "machine": "any"}
        for size in (10_000, 100_000, 1_000_000)
        for seed in range(3)
        for metric, compute in metrics.items()
    ]
    section = load_extension().draw_growth(run.read_rows(rows), tmp_path / "growth.svg")
    assert "growth with records  unary     1.50    1,000,000       1" in section
    assert (tmp_path / "growth.svg").stat().st_size > 0
