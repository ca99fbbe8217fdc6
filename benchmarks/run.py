"""Run a benchmark, keep its results in one long CSV file, and compare two commits.

    python benchmarks/run.py NAME [--tasks TASK ...] [--quick] [--against COMMIT] [--seeds N] [--jobs N]

`benchmarks/NAME.py` is a script with `TASKS`, a dict of names and of the class `Task` in `_tasks.py`. A task has:

    tables(quick)         # returns {name: callable() -> table}; with quick, small tables
    methods               # {name: callable(table, epsilon, seed) -> result}
    score(table, result)  # returns {metric: float}
    epsilons              # (0.5, 1.0); the first one is run with --quick
    n_seeds               # 10; seeds are 0, 1, ...

Rules of a script:

- A method imports the names of skdp and of peers in its own body. An ImportError skips the method with one line;
  any other exception becomes a row with the metric "failed" and the value nan.
- A method uses `seed` for all that it draws (`random_state=seed`), so that two commits are compared on equal seeds.
- `seconds` is the CPU time of the method alone. A benchmark of speed returns its own times as metrics.
- A metric that is an average over many columns or cells needs few seeds; its values should be positive, because
  differences are printed in percent.

Cells run in a process of their own with one thread for linear algebra. The code of `skdp` comes from PYTHONPATH (or the
installed package), the scripts from this folder. Without options, rows are appended to `results/NAME.csv`, and a cell
with rows of the same commit is not run again; at the end, only the newest rows of each table and method stay. With
--against, each cell runs on COMMIT and on the current code, one after the other, and the rows go to
`results/NAME-against-COMMIT.csv`, which is not committed. With --quick, one seed and one epsilon run on small tables,
and nothing is kept.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from queue import Queue
from threading import Lock
from types import ModuleType
from typing import Any, NamedTuple

import pandas as pd

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
CELL = ["task", "table", "method", "epsilon", "seed"]
COLUMNS = [*CELL, "metric", "value", "seconds", "commit", "machine"]
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "POLARS_MAX_THREADS",
)


class Cell(NamedTuple):
    """One run of a method."""

    task: str
    table: str
    method: str
    epsilon: float
    seed: int


# ---------------------------------------------------------------------------------------------------------------------
# Scripts


def list_cells(
    script: ModuleType, *, quick: bool = False, n_seeds: int | None = None
) -> list[Cell]:
    """List the cells of a script, table by table and seed by seed."""
    cells = []
    for name, task in script.TASKS.items():
        epsilons = task.epsilons[:1] if quick else task.epsilons
        cells += [
            Cell(name, table, method, float(epsilon), seed)
            for table in task.tables(quick)
            for seed in range(n_seeds or (1 if quick else task.n_seeds))
            for epsilon in epsilons
            for method in task.methods
        ]
    return cells


class TableCache:
    """Keeps only the last table in memory, because cells are run table by table."""

    def __init__(self, script: ModuleType, quick: bool) -> None:
        self.script, self.quick = script, quick
        self.key: tuple[str, str] | None = None
        self.table: Any = None

    def load(self, task: str, name: str) -> Any:
        """Return a table."""
        if self.key != (task, name):
            self.table = None
            self.table = self.script.TASKS[task].tables(self.quick)[name]()
            self.key = (task, name)
        return self.table


def run_cell(tables: TableCache, cell: Cell) -> dict[str, Any]:
    """Run a cell and return its metrics and CPU time, or the reason why there are none."""
    task = tables.script.TASKS[cell.task]
    try:
        table = tables.load(cell.task, cell.table)
        start = sum(os.times()[:4])  # With the processes of peers.
        result = task.methods[cell.method](table, cell.epsilon, cell.seed)
        seconds = sum(os.times()[:4]) - start
        metrics = task.score(table, result)
    except ImportError as error:
        return {"skipped": str(error)}
    except Exception as error:  # A failed method is a row of the results.
        return {
            "failed": f"{type(error).__name__}: {error}",
            "seconds": math.nan,
            "metrics": {"failed": math.nan},
        }
    return {
        "seconds": seconds,
        "metrics": {name: float(value) for name, value in metrics.items()},
    }


# ---------------------------------------------------------------------------------------------------------------------
# Workers


def name_machine() -> str:
    """Return the processor and its number of cores."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # Not Linux.
        lines = []
    models = [
        line.partition(":")[2].strip()
        for line in lines
        if line.startswith("model name")
    ]
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores"


def name_commit(tree: Path) -> str:
    """Return the commit of the package in `tree`, with a "+" if files of the package are changed."""
    try:
        commit = run_git("rev-parse", "--short=8", "HEAD", cwd=tree)
        return (
            f"{commit}+"
            if run_git("status", "--porcelain", "--", "skdp", cwd=tree)
            else commit
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def run_git(*arguments: str, cwd: Path = HERE) -> str:
    """Return the output of a git command."""
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=True
    ).stdout.strip()


def serve(name: str, quick: bool) -> None:
    """Run cells that are read from standard input as JSON, one per line."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Output of a script must not be mixed with the results.
    warnings.simplefilter("ignore")
    import skdp

    tables = TableCache(import_module(name), quick)
    print(
        json.dumps(name_commit(Path(skdp.__file__).parent.parent)), file=out, flush=True
    )
    for line in sys.stdin:
        print(
            json.dumps(run_cell(tables, Cell(*json.loads(line)))), file=out, flush=True
        )


class Worker:
    """Process that runs cells with the code of one commit."""

    def __init__(self, name: str, *, quick: bool, tree: Path | None = None) -> None:
        environment = dict.fromkeys(THREADS, "1") | os.environ
        if tree is not None:
            environment["PYTHONPATH"] = str(tree)
        command = [
            sys.executable,
            str(HERE / "run.py"),
            name,
            "--worker",
            *(["--quick"] if quick else []),
        ]
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.commit: str = self._read()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("a worker stopped; its messages stand above")
        return json.loads(line)

    def run(self, cell: Cell) -> dict[str, Any]:
        """Run a cell and return the answer of `run_cell`."""
        assert self.process.stdin is not None
        print(json.dumps(cell), file=self.process.stdin, flush=True)
        return self._read()

    def close(self) -> None:
        """Stop the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@contextmanager
def check_out(commit: str) -> Iterator[Path]:
    """Check out a commit into a temporary worktree."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        run_git("worktree", "add", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            run_git("worktree", "remove", "--force", str(tree))


# ---------------------------------------------------------------------------------------------------------------------
# Runs


class ResultFile:
    """Rows of a benchmark, appended cell by cell to a CSV file, or in memory if `path` is None."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.rows, self.lock = path, [], Lock()
        if path is None:
            return
        if path.exists():
            saved = pd.read_csv(path, dtype=str, keep_default_na=False)
            is_final = ~saved["commit"].str.endswith("+")
            self.rows = saved[is_final].to_dict("records")
        pd.DataFrame(self.rows, columns=COLUMNS).to_csv(path, index=False)

    def add(self, cell: Cell, answer: dict[str, Any], commit: str) -> None:
        """Append the rows of a cell."""
        shared = cell._asdict() | {
            "epsilon": f"{cell.epsilon:g}",
            "commit": commit,
            "machine": name_machine(),
        }
        rows = [
            shared
            | {
                "metric": metric,
                "value": f"{value:.6g}",
                "seconds": f"{answer['seconds']:.4g}",
            }
            for metric, value in answer["metrics"].items()
        ]
        with self.lock:
            self.rows += rows
            if self.path is not None:
                frame = pd.DataFrame(rows, columns=COLUMNS)
                frame.to_csv(self.path, mode="a", header=False, index=False)

    def keep_newest(self, script: ModuleType) -> None:
        """Drop rows that no page shows: of earlier commits, and of removed methods."""
        newest = select_newest(read_rows(self.rows), script).index
        if self.path is not None and len(newest) < len(self.rows):
            rows = pd.DataFrame([self.rows[index] for index in newest], columns=COLUMNS)
            rows.to_csv(self.path, index=False)

    def find_done(self, commit: str) -> set[tuple[str, ...]]:
        """Return the cells that have rows of a commit."""
        return {
            tuple(str(row[name]) for name in CELL)
            for row in self.rows
            if row["commit"] == commit
        }


def write_key(cell: Cell) -> tuple[str, ...]:
    """Return a cell with the text of a result file."""
    return cell.task, cell.table, cell.method, f"{cell.epsilon:g}", str(cell.seed)


def run_cells(
    cells: list[Cell], teams: list[list[Worker]], results: ResultFile
) -> None:
    """Run each cell with all workers of one team, one after the other."""
    commits = [worker.commit for worker in teams[0]]
    done = set.intersection(*(results.find_done(commit) for commit in commits))
    cells = [cell for cell in cells if write_key(cell) not in done]
    idle: Queue[list[Worker]] = Queue()
    for team in teams:
        idle.put(team)
    reported: set[tuple[str, str, str]] = set()

    def run_one(cell: Cell) -> None:
        team = idle.get()
        try:
            # The order changes with the seed, so that no commit is always first.
            for worker in team if cell.seed % 2 else team[::-1]:
                answer = worker.run(cell)
                reason = answer.get("skipped") or answer.get("failed")
                if reason and (worker.commit, cell.task, cell.method) not in reported:
                    reported.add((worker.commit, cell.task, cell.method))
                    what = "skipped" if "skipped" in answer else "failed"
                    print(
                        f"{worker.commit} {cell.task} {cell.method} {what}: {reason}",
                        file=sys.stderr,
                    )
                if "metrics" in answer:
                    results.add(cell, answer, worker.commit)
        finally:
            idle.put(team)

    with ThreadPoolExecutor(len(teams)) as pool:
        list(pool.map(run_one, cells))


# ---------------------------------------------------------------------------------------------------------------------
# Reports


def read_rows(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the rows of results as a DataFrame, with the last of repeated rows."""
    frame = pd.DataFrame(rows, columns=COLUMNS).drop_duplicates(
        [*CELL, "metric", "commit"], keep="last"
    )
    return frame.astype(
        {"epsilon": float, "seed": int, "value": float, "seconds": float}
    )


def select_newest(frame: pd.DataFrame, script: ModuleType) -> pd.DataFrame:
    """Return the rows of the last commit of each task, table and method of a script, methods in their order there."""
    methods = [
        (task, name) for task in script.TASKS for name in script.TASKS[task].methods
    ]
    order = {pair: place for place, pair in enumerate(methods)}
    newest = frame.groupby(["task", "table", "method"])["commit"].transform("last")
    places = pd.DataFrame(
        {
            "method": frame[["task", "method"]].apply(tuple, axis=1).map(order),
            "table": frame["table"].factorize()[0],
        }
    )
    shown = places[frame["commit"] == newest].dropna()
    return frame.loc[shown.sort_values(["table", "method"], kind="stable").index]


def summarize(frame: pd.DataFrame) -> pd.DataFrame:
    """Return mean, standard error and number of seeds of each group of cells."""
    groups = frame.groupby(
        ["task", "metric", "table", "method", "commit", "epsilon"], sort=False
    )["value"]
    return groups.agg(mean="mean", error="sem", seeds="count").reset_index()


def format_pivots(frame: pd.DataFrame) -> str:
    """Format each metric of each task as a table of means and standard errors."""
    summary = summarize(frame[frame["metric"] != "failed"])
    summary["text"] = [
        f"{mean:.4g}" + ("" if math.isnan(error) else f" ± {error:.2g}")
        for mean, error in zip(summary["mean"], summary["error"], strict=True)
    ]
    parts = []
    for (task, metric), group in summary.groupby(["task", "metric"], sort=False):
        rows = ["table", "method", "commit"]
        pivot = group.pivot_table("text", rows, "epsilon", aggfunc="first", sort=False)
        parts.append(f"{task}: {metric}\n\n{pivot.fillna('').to_string()}\n")
    return "\n".join(parts)


def compare_commits(frame: pd.DataFrame, before: str, now: str) -> pd.DataFrame:
    """Return the paired difference of two commits in percent, with its standard error, for each group of cells."""
    keys = ["task", "metric", "table", "method", "epsilon"]
    values = frame[frame["metric"] != "failed"].pivot(
        index=[*keys, "seed"], columns="commit", values="value"
    )
    values = values.reindex(columns=[before, now]).dropna()
    groups = values.assign(difference=values[now] - values[before]).groupby(
        level=keys, sort=False
    )
    mean = groups[before].mean()
    scale = 100 / mean.abs().where(mean != 0)
    return pd.DataFrame(
        {
            before: mean,
            now: groups[now].mean(),
            "percent": groups["difference"].mean() * scale,
            "error": groups["difference"].sem() * scale,
        }
    ).reset_index()


def format_comparison(frame: pd.DataFrame, before: str, now: str) -> str:
    """Format the differences between two commits: averages of each method, then the groups that differ."""
    groups = compare_commits(frame, before, now)
    averages = groups.groupby(["task", "metric", "method"], sort=False).agg(
        percent=("percent", "mean"),
        error=("error", lambda errors: math.sqrt((errors**2).sum()) / len(errors)),
    )
    differ = groups[
        (groups["percent"].abs() > 5) & (groups["percent"].abs() > 3 * groups["error"])
    ]
    parts = [
        f"{now} less {before}, percent of {before}, averages over tables and epsilons",
        averages.to_string(),
    ]
    parts += ["Groups that differ by more than 5 % and three standard errors:"]
    parts += [differ.to_string(index=False) if len(differ) else "none"]
    return "\n\n".join(parts)


# ---------------------------------------------------------------------------------------------------------------------
# Command line


def main() -> None:
    """Run the benchmark that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="name of a script in this folder, without .py")
    parser.add_argument(
        "--tasks",
        nargs="+",
        metavar="TASK",
        help="tasks of the script, in place of all",
    )
    parser.add_argument(
        "--quick", action="store_true", help="run small tables once and keep nothing"
    )
    parser.add_argument(
        "--against", metavar="COMMIT", help="compare the current code with this commit"
    )
    parser.add_argument(
        "--seeds", type=int, help="number of seeds, in place of the script's"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, help="number of processes (of each commit)"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(options.name, options.quick)
        return

    with ExitStack() as stack:
        trees: list[Path | None] = [None]
        path = RESULTS / f"{options.name}.csv"
        if options.against is not None:
            trees = [stack.enter_context(check_out(options.against)), None]
            path = RESULTS / f"{options.name}-against-{options.against}.csv"
        teams = []
        for _ in range(options.jobs):
            teams.append(
                [Worker(options.name, quick=options.quick, tree=tree) for tree in trees]
            )
            for worker in teams[-1]:
                stack.callback(worker.close)
        commits = [worker.commit for worker in teams[0]]
        if options.against is not None and commits[-1].endswith("+"):
            # Pairs with changed code are run again on both sides.
            path.unlink(missing_ok=True)
        results = ResultFile(None if options.quick else path)
        script = import_module(options.name)
        if not {*script.TASKS} >= {*(options.tasks or ())}:
            parser.error(f"--tasks must be in {list(script.TASKS)}")
        cells = list_cells(script, quick=options.quick, n_seeds=options.seeds)
        tasks = options.tasks or script.TASKS
        run_cells([cell for cell in cells if cell.task in tasks], teams, results)
        if options.against is None:
            results.keep_newest(script)

    frame = read_rows(results.rows)
    frame = frame[frame["commit"].isin(commits)]
    if options.against is None:
        print(format_pivots(frame))
    else:
        print(format_comparison(frame, *commits))


if __name__ == "__main__":
    main()
