"""``skdp privatize`` and ``skdp estimate``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from skdp.cli._arguments import (
    add_ledger,
    add_quiet,
    bar_of_rows,
    in_flags,
    opened_ledger,
    read_domain_file,
    read_epsilon,
    read_seed,
    read_share,
)
from skdp.engines import estimate_file, privatize_file
from skdp.engines.files import TableFile
from skdp.local import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    LocalHashingEncoder,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.oracles import POSTPROCESSORS

TRANSFORMERS = {
    "randomized_response": RandomizedResponseEncoder,
    "unary": UnaryEncodingTransformer,
    "subset": SubsetSelectionEncoder,
    "local_hashing": LocalHashingEncoder,
    "hadamard": HadamardResponseEncoder,
    "auto": FrequencyOracleEncoder,
}


def add_privatize(commands: Any) -> None:
    """Add ``skdp privatize``."""
    privatize = commands.add_parser(
        "privatize",
        help="randomise each row of a table, for recipients that are not trusted with it",
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
    add_ledger(privatize)
    privatize.add_argument("--seed", type=read_seed, help="reproducible, not secure (default: secure random bits)")
    privatize.add_argument(
        "--resume",
        action="store_true",
        help="resume a run that was stopped: no row is reported twice, and nothing is charged again",
    )
    privatize.add_argument(
        "--no-check",
        dest="check",
        action="store_false",
        help="read the rows only once: an undeclared value is then found while reports are drawn, after the charge "
        "(default: all rows are checked before the charge, so that a table that is refused costs nothing)",
    )
    add_quiet(privatize)
    privatize.set_defaults(parser=privatize, run=_run_privatize)


def add_estimate(commands: Any) -> None:
    """Add ``skdp estimate``."""
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
        "--confidence", type=read_share, default=0.95, help="of each interval (default: 0.95)", metavar="C"
    )
    estimate.add_argument("--out", type=Path, help="a file to write to (default: print the estimates)")
    add_quiet(estimate)
    estimate.set_defaults(parser=estimate, run=_run_estimate)


def _add_transformer(command: Any) -> None:
    command.add_argument("--domain", type=Path, required=True, help="the domain file; draft-domain writes a draft")
    command.add_argument("--columns", nargs="+", metavar="COLUMN", help="what to privatise (default: all declared)")
    command.add_argument("--epsilon", type=read_epsilon, required=True, help="the privacy loss of a row")
    command.add_argument(
        "--strategy",
        choices=["split", "joint", "sample"],
        default="split",
        help="how columns share epsilon: each has a part of it, all are one, or each row reports one (default: split)",
    )
    command.add_argument(
        "--transformer", choices=list(TRANSFORMERS), default="randomized_response", help="how a row is randomised"
    )


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
    try:
        with opened_ledger(options) as ledger:
            encoder.set_params(ledger=ledger)
            progress = bar_of_rows(options)
            privatize_file(
                options.data,
                options.out,
                encoder,
                keep=keep,
                resume=options.resume,
                progress=progress,
                check=options.check,
            )
    except KeyboardInterrupt as stopped:
        notes = " ".join(getattr(stopped, "__notes__", ()))
        print("Stopped.", in_flags(notes, options.parser), file=sys.stderr)
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
        progress=bar_of_rows(options),
    )
    if options.out is not None:
        return options.out
    print(table.round(1).to_string())
    return 0


def _encoder(options: argparse.Namespace, **parameters: Any) -> Any:
    domain = read_domain_file(options.domain)
    given = options.columns or domain.columns
    # "age,sex" too, unless a column is called so.
    columns = [name for text in given for name in ([text] if text in domain.columns else str(text).split(","))]
    absent = [name for name in columns if name not in domain.columns]
    if absent or len(set(columns)) < len(columns):
        raise ValueError(f"--columns must name distinct columns of {list(domain.columns)}, got {list(columns)}")
    kind = TRANSFORMERS[options.transformer]
    return kind(options.epsilon, strategy=options.strategy, categories=domain.select(columns), **parameters)
