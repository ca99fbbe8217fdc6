"""``skdp privatize`` and ``skdp estimate``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from skdp.cli._arguments import (
    add_command,
    add_domain,
    add_handle_unknown,
    add_quiet,
    add_release,
    add_table,
    bar_of_rows,
    opened_ledger,
    read_domain_file,
    read_epsilon,
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
    privatize = add_command(
        commands,
        "privatize",
        _run_privatize,
        help="randomise each row of a table, for recipients that are not trusted with it",
        description="Write a report for each row, from which counts can be estimated, and little can be learned of the "
        "row (differential privacy in the local model). Files are CSV, Parquet or Arrow by their names, and of any "
        "size. Columns that are neither privatised nor kept are left out.",
    )
    add = privatize.add_argument
    add_table(privatize, "the table")
    add_release(privatize)
    _add_transformer(privatize)
    add_handle_unknown(privatize, ["error", "uniform"], "or replace it by a random one")
    kept = privatize.add_mutually_exclusive_group()
    kept.add_argument("--keep", nargs="+", default=[], metavar="COLUMN", help="columns to release AS THEY ARE")
    kept.add_argument("--keep-all", action="store_true", help="release all other columns AS THEY ARE")
    help_resume = "resume a run that was stopped: no row is reported twice, and nothing is charged again"
    add("--resume", action="store_true", help=help_resume)
    add(
        "--no-check",
        dest="check",
        action="store_false",
        help="read the rows only once: an undeclared value is then found while reports are drawn, after the charge "
        "(default: all rows are checked before the charge, so that a table that is refused costs nothing)",
    )
    add_quiet(privatize)


def add_estimate(commands: Any) -> None:
    """Add ``skdp estimate``."""
    estimate = add_command(
        commands,
        "estimate",
        _run_estimate,
        help="estimate counts from privatised rows",
        description="Estimate how many rows truly have each value, from the reports that skdp privatize wrote with the "
        "same options. This costs no privacy.",
    )
    add = estimate.add_argument
    add_table(estimate, "the reports")
    _add_transformer(estimate)
    add("--postprocess", choices=list(POSTPROCESSORS), default="none", help="(default: none)")
    add("--confidence", type=read_share, default=0.95, help="of each interval (default: 0.95)", metavar="C")
    add("--out", type=Path, help="a file to write to (default: print the estimates)")
    add_quiet(estimate)


def _add_transformer(command: Any) -> None:
    add = command.add_argument
    add_domain(command)
    add("--columns", nargs="+", metavar="COLUMN", help="what to privatise (default: all declared)")
    add("--epsilon", type=read_epsilon, required=True, help="the privacy loss of a row")
    add(
        "--strategy",
        choices=["split", "joint", "sample"],
        default="split",
        help="how columns share epsilon: each has a part of it, all are one, or each row reports one (default: split)",
    )
    add("--transformer", choices=list(TRANSFORMERS), default="randomized_response", help="how a row is randomised")


def _run_privatize(options: argparse.Namespace) -> Path:
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
    with opened_ledger(options) as ledger:
        encoder.set_params(ledger=ledger)
        settings = {"keep": keep, "resume": options.resume, "check": options.check}
        privatize_file(options.data, options.out, encoder, progress=bar_of_rows(options), **settings)
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
