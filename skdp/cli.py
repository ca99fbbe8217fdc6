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
from skdp.evaluation import age_sex_report, audit_table, counts_report
from skdp.evaluation._audit_table import audited_transformers, format_audit
from skdp.privacy import BudgetExceeded, PrivacyLedger, check_delta, check_epsilon
from skdp.synthesis import DPMarginalSynthesizer
from skdp.synthesis._methods import METHODS
from skdp.synthesis._table_file import read_frame, synthesize_file

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
    _add_synthesize(commands)
    _add_audit(commands)
    options = parser.parse_args(arguments)
    try:
        done = options.run(options)
    except (ImportError, OSError, ValueError, TypeError, BudgetExceeded) as error:
        options.parser.error(str(error))
    if isinstance(done, int):
        return done
    print(f"Wrote {done}")
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


def _add_synthesize(commands: Any) -> None:
    synthesize = commands.add_parser(
        "synthesize",
        help="write a synthetic table that may be shared",
        description="Learn a table from counts with noise, and write synthetic rows (differential privacy in the "
        "central model: whoever runs this is trusted with the table). Only the columns of the domain file are read.",
    )
    synthesize.add_argument("data", type=Path, help="the private table: a CSV or Parquet file")
    synthesize.add_argument("out", type=Path, help="the file to write; one that exists is never overwritten")
    synthesize.add_argument("--domain", type=Path, required=True, help="the domain file; draft-domain writes a draft")
    synthesize.add_argument("--epsilon", type=_epsilon, required=True, help="the privacy loss of all that is written")
    synthesize.add_argument(
        "--delta", type=_delta, default=0.0, help="failure probability: 0 (the default) or far below 1 / number of rows"
    )
    synthesize.add_argument("--marginals", choices=sorted(METHODS), default="auto", help="what to measure")
    synthesize.add_argument("--rows", type=_count, help="rows to write (default: the estimated number of records)")
    synthesize.add_argument("--ledger", type=Path, help="a ledger to charge; it must exist, or --budget makes it")
    synthesize.add_argument("--budget", type=_epsilon, help="make the ledger anew, with so much epsilon")
    synthesize.add_argument("--budget-delta", type=_delta, default=0.0, help="its delta (default: 0)")
    synthesize.add_argument(
        "--max-rows-per-person", type=_positive, default=1, help="rows that one person may have (default: 1)"
    )
    synthesize.add_argument(
        "--person-column", help="the column that says who a row is about: surplus rows of a person are left out"
    )
    synthesize.add_argument(
        "--handle-unknown",
        choices=["error", "clip", "ignore"],
        default="error",
        help="what to do with what is not declared: stop (which shows that there is such a value), put numbers into "
        "the outermost bins, or leave the row out (default: error)",
    )
    synthesize.add_argument(
        "--real",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="columns of a CSV file with fractions; otherwise bins with whole edges are of whole numbers",
    )
    synthesize.add_argument("--seed", type=_seed, help="reproducible coins, not secure (default: secure coins)")
    synthesize.add_argument("--verbose", action="store_true", help="say what is done")
    synthesize.set_defaults(parser=synthesize, run=_run_synthesize)


def _add_audit(commands: Any) -> None:
    audit = commands.add_parser(
        "audit",
        help="try to refute what the local transformers promise",
        description="Draw from every local transformer for neighbouring records, and look for outputs "
        "whose frequencies refute the epsilon that it promises. The exit status is 1 if one is refuted. "
        "That none is proves nothing.",
    )
    audit.add_argument("--epsilon", type=_epsilon, default=1.0, help="what they are to promise (default: 1)")
    audit.add_argument("--k", type=_categories, default=4, help="categories of a column (default: 4)")
    audit.add_argument("--draws", type=_positive, default=100_000, help="draws of each (default: 100000)")
    audit.add_argument(
        "--confidence", type=_share, default=1 - 1e-6, help="of each refutation (default: 1 - 10**-6)", metavar="C"
    )
    audit.add_argument("--seed", type=_seed, help="reproducible coins (default: secure coins, as in use)")
    audit.set_defaults(parser=audit, run=_run_audit)


def _run_audit(options: argparse.Namespace) -> int:
    transformers = dict(audited_transformers(options.epsilon, options.k))
    table = audit_table(
        transformers=transformers,
        n_draws=options.draws,
        confidence=options.confidence,
        random_state=options.seed,
        advance=_progress_bar(len(transformers)),
    )
    print(format_audit(table))
    return int((table["verdict"] == "rejected").any())


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
    frame = read_frame(options.data, find_dates=True)
    text = draft_domain_toml(frame, bins=options.bins, max_values=options.max_values)
    with options.domain.open("x", encoding="utf-8") as file:
        file.write(text)
    # The remarks stand at the top of the file, before the first empty line.
    print(*(line.removeprefix("# ") for line in text.partition("\n\n")[0].splitlines()), sep="\n", file=sys.stderr)
    return options.domain


def _run_synthesize(options: argparse.Namespace) -> Path:
    domain = Domain.from_toml(options.domain.read_text(encoding="utf-8"))
    synthesizer = DPMarginalSynthesizer(
        options.epsilon,
        delta=options.delta,
        domain=domain,
        marginals=options.marginals,
        max_rows_per_person=options.max_rows_per_person,
        handle_unknown=options.handle_unknown,
        ledger=_open_ledger(options),
        random_state=options.seed,
        verbose=options.verbose,
    )
    left_out = synthesize_file(
        options.data,
        options.out,
        synthesizer,
        n_samples=options.rows,
        person_column=options.person_column,
        real_columns=options.real,
    )
    if left_out:
        print(f"Left out, as the domain does not have them: {', '.join(left_out)}", file=sys.stderr)
    print(synthesizer.guarantee_)
    return options.out


def _open_ledger(options: argparse.Namespace) -> PrivacyLedger | None:
    if options.ledger is None:
        if options.budget is not None or options.budget_delta:
            raise ValueError("--budget goes with --ledger")
        return None
    if options.budget is None:
        if options.budget_delta:
            raise ValueError("--budget-delta goes with --budget")
        if not options.ledger.exists():
            raise ValueError(f"there is no ledger {options.ledger}; --budget makes one")
        return PrivacyLedger(options.ledger)
    if options.ledger.exists():
        raise ValueError(f"{options.ledger} exists already: leave out --budget, which is given once")
    return PrivacyLedger(options.ledger, epsilon=options.budget, delta=options.budget_delta)


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
    frame = read_frame(options.data)
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


def _delta(text: str) -> float:
    try:
        value = float(text)
        check_delta(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a delta is a number in [0, 1), not {text!r}") from None
    return value


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, not {text!r}")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, not {text!r}")
    return int(text)


def _categories(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 2, not {text!r}")
    return int(text)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1, not {text!r}")
    return value


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
