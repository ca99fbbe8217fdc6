"""``skdp privatize``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from skdp.cli._arguments import (
    add_command,
    add_handle_unknown,
    add_quiet,
    add_release,
    add_table,
    bar_of_rows,
    opened_ledger,
)
from skdp.cli._transformers import add_transformer, make_encoder
from skdp.engines import privatize_file
from skdp.engines.files import TableFile


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
    add_transformer(privatize, required=True)
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


def _run_privatize(options: argparse.Namespace) -> Path:
    encoder = make_encoder(options, handle_unknown=options.handle_unknown, random_state=options.seed)
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
