"""The command ``skdp``; thin: everything that it does is a function of the library."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from skdp.base import draft_domain_toml
from skdp.coding import distinct_values
from skdp.datasets import load_adult
from skdp.domain import Domain, Interval
from skdp.evaluation import age_sex_report, counts_report
from skdp.privacy import check_epsilon

EPSILONS = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0)
MAX_CELLS = 1_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``skdp``; by default those of the process.

    Returns
    -------
    int
        The exit status.
    """
    parser = argparse.ArgumentParser(prog="skdp", description="Differential privacy for scikit-learn work.")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_report(commands)
    _add_draft_domain(commands)
    options = parser.parse_args(arguments)
    try:
        written = options.run(options)
    except (ImportError, OSError, ValueError, TypeError) as error:
        options.parser.error(str(error))
    print(f"Wrote {written}")
    return 0


def _add_report(commands: Any) -> None:
    report = commands.add_parser(
        "report",
        help="show what local differential privacy costs, on Adult or on your own table",
        description="Run the age x sex study on Adult (or the study of counts on your own columns) and write a page, "
        "index.html, and its tables. The page compares with true values: it is not private.",
    )
    report.add_argument("--epsilon", type=_epsilon, nargs="+", default=list(EPSILONS), help="privacy losses to try")
    report.add_argument("--repeats", type=_positive, default=500, help="releases for each epsilon (default: 500)")
    report.add_argument(
        "--model-repeats", type=_positive, default=5, help="splits of the rows for the classifiers (default: 5)"
    )
    report.add_argument("--seed", type=_seed, help="reproducible coins, not secure (default: secure coins)")
    report.add_argument("--out", type=Path, default=Path("report"), help="folder to write to (default: report)")
    report.add_argument(
        "--jobs", type=_positive, default=None, help="processes that train classifiers (default: all cores)"
    )
    report.add_argument("--data", type=Path, help="your own table instead of Adult: a CSV or Parquet file")
    report.add_argument("--columns", nargs="+", help="the columns of --data to protect together")
    report.add_argument(
        "--edges",
        nargs="+",
        default=[],
        metavar="COLUMN=EDGE,EDGE,...",
        help="bins for a numeric column, such as age=0,38,120",
    )
    report.set_defaults(parser=report, run=_run_report)


def _add_draft_domain(commands: Any) -> None:
    draft = commands.add_parser(
        "draft-domain",
        help="write a first draft of a domain file, to be edited",
        description="Read a table and write a domain file (TOML) for you to edit. The draft shows values of the data: "
        "it is not private until you have replaced them by what is publicly known.",
    )
    draft.add_argument("data", type=Path, help="your table: a CSV or Parquet file")
    draft.add_argument("domain", type=Path, help="the file to write; one that exists is never overwritten")
    draft.add_argument("--bins", type=_positive, default=32, help="the most bins of a column of numbers (default: 32)")
    draft.add_argument(
        "--max-values", type=_positive, default=100, help="the most values to list of another column (default: 100)"
    )
    draft.set_defaults(parser=draft, run=_run_draft_domain)


def _run_report(options: argparse.Namespace) -> Path:
    if (options.data is None) != (options.columns is None):
        raise ValueError("--data and --columns go together")
    if options.edges and options.data is None:
        raise ValueError("--edges goes with --data")
    for name in ("epsilon", "columns"):
        given = getattr(options, name) or []
        if len(set(given)) < len(given):
            raise ValueError(f"--{name} names something twice")
    return _run_adult(options) if options.data is None else _run_own(options)


def _run_draft_domain(options: argparse.Namespace) -> Path:
    if options.domain.exists():
        raise ValueError(f"{options.domain} exists already; choose another name, or remove it")
    text = draft_domain_toml(_read_frame(options.data), bins=options.bins, max_values=options.max_values)
    with options.domain.open("x", encoding="utf-8") as file:
        file.write(text)
    # The remarks stand at the top of the file, before the first empty line.
    print(*(line.removeprefix("# ") for line in text.partition("\n\n")[0].splitlines()), sep="\n", file=sys.stderr)
    return options.domain


def _run_adult(options: argparse.Namespace) -> Path:
    X, y = load_adult(subset="all", dropna=True, return_X_y=True)
    return age_sex_report(
        X,
        y,
        options.out,
        epsilons=options.epsilon,
        repeats=options.repeats,
        model_repeats=options.model_repeats,
        random_state=options.seed,
        n_jobs=options.jobs or -1,
        progress=_progress_bar,
    )


def _run_own(options: argparse.Namespace) -> Path:
    frame = _read_frame(options.data)
    absent = [name for name in options.columns if name not in frame.columns]
    if absent:
        raise ValueError(f"{options.data.name} has no columns {absent}; it has {frame.columns.to_list()}")
    frame = frame[options.columns]
    edges = dict(map(_edges, options.edges))
    unused = [name for name in edges if name not in options.columns]
    if unused:
        raise ValueError(f"--edges names columns that --columns does not: {unused}")
    domain = Domain({name: edges.get(name) or _observed(frame[name]) for name in options.columns})
    if domain.size > MAX_CELLS:
        sizes = ", ".join(f"{name}: {size}" for name, size in zip(domain.columns, domain.sizes, strict=True))
        raise ValueError(
            f"the columns have {domain.size:,} cells together ({sizes}), too many to show (at most {MAX_CELLS:,}); cut "
            "numbers into bins with --edges, or choose fewer columns"
        )
    read = [name for name in options.columns if name not in edges]
    notes = []
    if read:
        notes.append(
            f"The values of {', '.join(read)} were read from the data. A real release must declare them: which values "
            "occur is private too."
        )
    return counts_report(
        frame,
        domain,
        options.out,
        source=options.data.name,
        epsilons=options.epsilon,
        repeats=options.repeats,
        random_state=options.seed,
        notes=notes,
        progress=_progress_bar,
    )


def _read_frame(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


def _observed(column: pd.Series) -> list[Any]:
    try:
        values, missing = distinct_values(column)
    except TypeError:
        raise ValueError(f"column {column.name!r} mixes values of several kinds") from None
    return [*values, None] if missing else values


def _edges(text: str) -> tuple[str, Interval]:
    name, _, numbers = text.rpartition("=")
    try:
        return name, Interval(edges=[float(number) for number in numbers.split(",")])
    except ValueError as error:
        raise ValueError(f"--edges takes COLUMN=EDGE,EDGE,..., such as age=0,38,120, not {text!r}: {error}") from None


def _epsilon(text: str) -> float:
    try:
        value = float(text)
        check_epsilon(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"an epsilon is a finite number > 0, not {text!r}") from None
    return value


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, not {text!r}")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a seed is a whole number of at least 0, not {text!r}")
    return int(text)


def _progress_bar(total: int) -> Callable[[], Any]:
    try:
        from tqdm import tqdm
    except ImportError:
        raise ImportError("skdp report needs further packages: pip install 'skdp[fairness,plot]'") from None
    bar = tqdm(total=total, unit="step", file=sys.stderr, dynamic_ncols=True)

    def advance() -> None:
        bar.update()
        if bar.n == total:
            bar.close()

    return advance


if __name__ == "__main__":
    sys.exit(main())
