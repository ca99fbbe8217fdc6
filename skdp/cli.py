"""The command ``skdp``; thin: everything that it does is a function of the library."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from skdp.base import draft_domain_toml
from skdp.coding import distinct_values
from skdp.datasets import load_adult
from skdp.domain import Domain, Interval
from skdp.engines import estimate_file, privatize_file
from skdp.engines._files_privatize import NoBar
from skdp.engines._table_files import TableFile
from skdp.evaluation import age_sex_report, audit_table, study_report
from skdp.evaluation._audit_table import audited_transformers, format_audit
from skdp.local import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    LocalHashingEncoder,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.oracles import POSTPROCESSORS
from skdp.privacy import BudgetExceeded, PrivacyLedger, check_delta, check_epsilon
from skdp.synthesis import DPMarginalSynthesizer
from skdp.synthesis._methods import METHODS
from skdp.synthesis._table_file import read_frame, synthesize_file

EPSILONS = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0)
MAX_CELLS = 1_000
TRANSFORMERS = {
    "randomized_response": RandomizedResponseEncoder,
    "unary": UnaryEncodingTransformer,
    "subset": SubsetSelectionEncoder,
    "local_hashing": LocalHashingEncoder,
    "hadamard": HadamardResponseEncoder,
    "auto": FrequencyOracleEncoder,
}


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
    _add_privatize(commands)
    _add_estimate(commands)
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
        help="show what differential privacy costs, on Adult or on your own table",
        description="Study what privacy costs by epsilon (counts, accuracy, fairness, leakage, synthetic rows), of age "
        "x sex on Adult or of the columns of your own table, and write a page, index.html, and its tables. The page "
        "compares with true values: it is not private.",
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
    report.add_argument(
        "--delta", type=_delta, default=1e-9, help="failure probability of the synthetic rows (default: 1e-9)"
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
    synthesize.add_argument("data", type=Path, help="the private table: a CSV, Parquet or Arrow file")
    synthesize.add_argument("out", type=Path, help="the file to write; one that exists is never overwritten")
    synthesize.add_argument("--domain", type=Path, required=True, help="the domain file; draft-domain writes a draft")
    synthesize.add_argument("--epsilon", type=_epsilon, required=True, help="the privacy loss of all that is written")
    synthesize.add_argument(
        "--delta", type=_delta, default=0.0, help="failure probability: 0 (the default) or far below 1 / number of rows"
    )
    synthesize.add_argument("--marginals", choices=sorted(METHODS), default="auto", help="what to measure")
    synthesize.add_argument("--rows", type=_count, help="rows to write (default: the estimated number of records)")
    _add_ledger(synthesize)
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


def _add_ledger(command: Any) -> None:
    command.add_argument("--ledger", type=Path, help="a ledger to charge; it must exist, or --budget makes it")
    command.add_argument("--budget", type=_epsilon, help="make the ledger anew, with so much epsilon")
    command.add_argument("--budget-delta", type=_delta, default=0.0, help="its delta (default: 0)")


def _add_privatize(commands: Any) -> None:
    privatize = commands.add_parser(
        "privatize",
        help="randomise each row of a table, for whoever is not trusted with it",
        description="Write a report for each row, from which counts can be estimated, and little can be learned of the "
        "row (differential privacy in the local model). Files are CSV, Parquet or Arrow by their names, and of any "
        "size. Columns that are neither privatised nor kept are left out.",
    )
    privatize.add_argument("data", type=Path, help="the table: .csv, .parquet, .arrow, .feather or .ipc")
    privatize.add_argument("out", type=Path, help="the file to write; one that exists is never overwritten")
    _add_transformer(privatize)
    privatize.add_argument(
        "--handle-unknown",
        choices=["error", "uniform"],
        default="error",
        help="what to do with a value that is not declared: stop (which shows that there is such a value), or replace "
        "it by a random one (default: error)",
    )
    kept = privatize.add_mutually_exclusive_group()
    kept.add_argument("--keep", nargs="+", default=[], metavar="COLUMN", help="columns to release AS THEY ARE")
    kept.add_argument("--keep-all", action="store_true", help="release all other columns AS THEY ARE")
    _add_ledger(privatize)
    privatize.add_argument("--seed", type=_seed, help="reproducible coins, not secure (default: secure coins)")
    privatize.add_argument(
        "--resume",
        action="store_true",
        help="take up a run that was stopped: no row is reported twice, and nothing is charged again",
    )
    privatize.set_defaults(parser=privatize, run=_run_privatize)


def _add_estimate(commands: Any) -> None:
    estimate = commands.add_parser(
        "estimate",
        help="estimate counts from privatised rows",
        description="Estimate how many rows truly have each value, from the reports that skdp privatize wrote with the "
        "same options. This costs no privacy.",
    )
    estimate.add_argument("data", type=Path, help="the reports: .csv, .parquet, .arrow, .feather or .ipc")
    _add_transformer(estimate)
    estimate.add_argument("--postprocess", choices=list(POSTPROCESSORS), default="none", help="(default: none)")
    estimate.add_argument(
        "--confidence", type=_share, default=0.95, help="of each interval (default: 0.95)", metavar="C"
    )
    estimate.add_argument("--out", type=Path, help="a file to write to (default: print the estimates)")
    estimate.set_defaults(parser=estimate, run=_run_estimate)


def _add_transformer(command: Any) -> None:
    command.add_argument("--domain", type=Path, required=True, help="the domain file; draft-domain writes a draft")
    command.add_argument("--columns", nargs="+", metavar="COLUMN", help="what to privatise (default: all declared)")
    command.add_argument("--epsilon", type=_epsilon, required=True, help="the privacy loss of a row")
    command.add_argument(
        "--strategy",
        choices=["split", "joint", "sample"],
        default="split",
        help="how columns share epsilon: each has a part of it, all are one, or each row reports one (default: split)",
    )
    command.add_argument(
        "--transformer", choices=list(TRANSFORMERS), default="randomized_response", help="how a row is randomised"
    )


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


def _run_privatize(options: argparse.Namespace) -> Path | int:
    encoder = _encoder(options, handle_unknown=options.handle_unknown, random_state=options.seed)
    declared, table = encoder.categories.columns, TableFile(options.data)
    table.check_columns(declared)
    others = [name for name in table.names if name not in declared]
    keep = others if options.keep_all else options.keep
    left_out = [name for name in others if name not in keep]
    if keep:
        print(f"Released as they are: {', '.join(keep)}", file=sys.stderr)
    if left_out:
        print(f"Left out: {', '.join(left_out)}", file=sys.stderr)
    encoder.set_params(ledger=_open_ledger(options))
    try:
        privatize_file(options.data, options.out, encoder, keep=keep, resume=options.resume, progress=_bar_of_rows)
    except KeyboardInterrupt:
        print("Stopped; the same command with --resume (and without --budget) goes on.", file=sys.stderr)
        return 130
    print(encoder.guarantee_)
    return options.out


def _run_estimate(options: argparse.Namespace) -> Path | int:
    table = estimate_file(
        options.data,
        _encoder(options),
        target=options.out,
        postprocess=options.postprocess,
        confidence_level=options.confidence,
        progress=_bar_of_rows,
    )
    if options.out is not None:
        return options.out
    print(table.round(1).to_string())
    return 0


def _encoder(options: argparse.Namespace, **parameters: Any) -> Any:
    domain = Domain.from_toml(options.domain.read_text(encoding="utf-8"))
    columns = options.columns or domain.columns
    absent = [name for name in columns if name not in domain.columns]
    if absent or len(set(columns)) < len(columns):
        raise ValueError(f"--columns must name distinct columns of {list(domain.columns)}, got {list(columns)}")
    kind = TRANSFORMERS[options.transformer]
    return kind(options.epsilon, strategy=options.strategy, categories=domain.select(columns), **parameters)


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
    return age_sex_report(X, y, options.out, **_shared(options))


def _run_own(options: argparse.Namespace) -> Path:
    declared = None if options.domain is None else Domain.from_toml(options.domain.read_text(encoding="utf-8"))
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
        "progress": _progress_bar,
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
    """Find the value that a word stands for, such as 1 for "1"; a word that fits none stays as it is."""
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


def _bar_of_rows(total: int | None) -> Any:
    try:
        from tqdm import tqdm
    except ImportError:  # it only shows
        return NoBar(total)
    return tqdm(total=total, unit="rows", unit_scale=True, file=sys.stderr, dynamic_ncols=True)


if __name__ == "__main__":
    sys.exit(main())
