"""``skdp report``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from skdp.base import read_frame
from skdp.cli._arguments import (
    add_quiet,
    bar_of_steps,
    read_delta,
    read_domain_file,
    read_epsilon,
    read_positive,
    read_seed,
)
from skdp.coding import distinct_values
from skdp.datasets import load_adult
from skdp.domain import Domain, Interval
from skdp.evaluation import age_sex_report, study_report

EPSILONS = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0)
MAX_CELLS = 1_000


def add_report(commands: Any) -> None:
    """Add ``skdp report``."""
    report = commands.add_parser(
        "report",
        help="show what differential privacy costs, on Adult or on your own table",
        description="Study the cost of privacy (counts, accuracy, fairness, leakage, synthetic rows), of age "
        "x sex on Adult or of the columns of your own table, and write a page, index.html, and its tables. The page "
        "compares with true values: it is not private.",
    )
    report.add_argument("--epsilon", type=read_epsilon, nargs="+", default=list(EPSILONS), help="privacy losses to try")
    report.add_argument("--repeats", type=read_positive, default=500, help="releases for each epsilon (default: 500)")
    report.add_argument(
        "--model-repeats", type=read_positive, default=5, help="splits of the rows for the classifiers (default: 5)"
    )
    report.add_argument("--seed", type=read_seed, help="reproducible, not secure (default: secure random bits)")
    report.add_argument("--out", type=Path, default=Path("report"), help="folder to write to (default: report)")
    report.add_argument(
        "--jobs", type=read_positive, default=None, help="processes that train classifiers (default: all cores)"
    )
    report.add_argument(
        "--delta", type=read_delta, default=1e-9, help="failure probability of the synthetic rows (default: 1e-9)"
    )
    report.add_argument("--data", type=Path, help="your own table instead of Adult: a CSV or Parquet file")
    report.add_argument("--columns", nargs="+", help="the columns of --data to protect together")
    report.add_argument("--target", help="the column that classifiers predict, for accuracy and fairness")
    report.add_argument("--positive", metavar="VALUE", help="the favourable value of --target")
    report.add_argument("--sensitive", metavar="COLUMN", help="which of --columns has the groups, for fairness")
    report.add_argument("--privileged", nargs="+", metavar="VALUE", help="its privileged values; of bins, their labels")
    report.add_argument(
        "--domain",
        type=Path,
        help="a domain file that declares columns: those to protect, and others to synthesise; draft-domain writes a "
        "draft (default: values are read from the data)",
    )
    report.add_argument(
        "--edges",
        nargs="+",
        default=[],
        metavar="COLUMN=EDGE,EDGE,...",
        help="bins for a numeric column, such as age=0,38,120",
    )
    add_quiet(report)
    report.set_defaults(parser=report, run=_run_report)


def _run_report(options: argparse.Namespace) -> Path:
    if (options.data is None) != (options.columns is None):
        raise ValueError("--data and --columns go together")
    for name in ("edges", "target", "sensitive", "domain"):
        if getattr(options, name) and options.data is None:
            raise ValueError(f"--{name} goes with --data")
    for one, other in (("target", "positive"), ("sensitive", "privileged")):
        if (getattr(options, one) is None) != (getattr(options, other) is None):
            raise ValueError(f"--{one} and --{other} go together")
    if options.sensitive is not None and options.target is None:
        raise ValueError("--sensitive goes with --target: fairness is about predictions of it")
    for name in ("epsilon", "columns"):
        given = getattr(options, name) or []
        if len(set(given)) < len(given):
            raise ValueError(f"--{name} names something twice")
    return _run_adult(options) if options.data is None else _run_own(options)


def _run_adult(options: argparse.Namespace) -> Path:
    X, y = load_adult(subset="all", dropna=True, return_X_y=True)
    return age_sex_report(X, y, options.out, **_shared(options))


def _run_own(options: argparse.Namespace) -> Path:
    declared = None if options.domain is None else read_domain_file(options.domain)
    frame = read_frame(options.data, declared)
    others = [] if declared is None else [name for name in declared.columns if name not in options.columns]
    target = [] if options.target is None else [options.target]
    absent = [name for name in dict.fromkeys([*options.columns, *target, *others]) if name not in frame.columns]
    if absent:
        raise ValueError(f"{options.data.name} has no columns {absent}; it has {frame.columns.to_list()}")
    domain, read = _read_domain(options, declared, others, frame)
    protected = domain.select(options.columns)
    if protected.size > MAX_CELLS:
        sizes = ", ".join(f"{name}: {size}" for name, size in zip(protected.columns, protected.sizes, strict=True))
        raise ValueError(
            f"the columns have {protected.size:,} cells together ({sizes}), too many to show (at most {MAX_CELLS:,}); "
            "cut numbers into bins with --edges, or choose fewer columns"
        )
    labels = domain[options.sensitive].labels if options.sensitive in domain.columns else ()
    remark = (
        f"The values of {', '.join(read)} were read from the data. A real release must declare them: which values "
        "occur is private too."
    )
    return study_report(
        frame,
        domain,
        options.out,
        source=options.data.name,
        columns=options.columns,
        target=options.target,
        positive_label=_find(options.positive, distinct_values(frame[target[0]])[0]) if target else None,
        sensitive=options.sensitive,
        privileged=options.privileged and [_find(text, labels) for text in options.privileged],
        notes=[remark] if read else [],
        **_shared(options),
    )


def _shared(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "epsilons": options.epsilon,
        "repeats": options.repeats,
        "model_repeats": options.model_repeats,
        "delta": options.delta,
        "random_state": options.seed,
        "n_jobs": options.jobs or -1,
        "progress": bar_of_steps(options),
    }


def _read_domain(
    options: argparse.Namespace, declared: Domain | None, others: list[str], frame: pd.DataFrame
) -> tuple[Domain, list[str]]:
    """Declare the columns by the domain file and --edges; of other protected ones, read the values from the data."""
    edges = dict(map(_edges, options.edges))
    unused = [name for name in edges if name not in options.columns]
    if unused:
        raise ValueError(f"--edges names columns that --columns does not: {unused}")
    known = {} if declared is None else {name: declared[name] for name in declared.columns}
    twice = [name for name in edges if name in known]
    if twice:
        raise ValueError(f"--edges names columns that --domain declares: {twice}")
    known |= edges
    read = [name for name in options.columns if name not in known]
    known |= {name: _observed(frame[name]) for name in read}
    return Domain({name: known[name] for name in (*options.columns, *others)}), read


def _find(text: str, values: Iterable[Any]) -> Any:
    """Return the value of a word, such as 1 for "1"; a word that matches none is returned unchanged."""
    return next((value for value in values if str(value) == text), text)


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
