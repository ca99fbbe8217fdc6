"""``skdp draft-domain`` and ``skdp synthesize``."""

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
    add_streams,
    add_table,
    bar_of_rows,
    opened_ledger,
    read_count,
    read_delta,
    read_domain_file,
    read_epsilon,
    read_positive,
    refuse_options,
)
from skdp.engines import synthesize_file
from skdp.engines.files import TableFile, draft_file, sample_file
from skdp.synthesis import DPMarginalSynthesizer
from skdp.synthesis.selection import BINS, STRATEGIES

# The options of a fit, which a fitted model has no use for.
_OF_FITS = (
    "domain",
    "epsilon",
    "delta",
    "marginals",
    "max_rows_per_person",
    "person_column",
    "handle_unknown",
    "target",
    "rule",
    "relation",
    "bins",
    "save",
    "ledger",
    "budget",
    "delimiter",
)


def add_draft_domain(commands: Any) -> None:
    """Add ``skdp draft-domain``."""
    draft = add_command(
        commands,
        "draft-domain",
        _run_draft_domain,
        description=(
            "Read a table and write a domain file (TOML) for you to edit. The draft"
            " shows values of the data: it is not private until you have replaced them"
            " by what is publicly known."
        ),
    )
    add = draft.add_argument
    add_table(draft, "your table")
    add(
        "domain",
        type=Path,
        help=(
            "the file to write, .toml; one that exists is never overwritten; - is "
            "standard output"
        ),
    )
    add_streams(draft, "domain", ".toml")
    add(
        "--bins",
        type=read_positive,
        default=32,
        help="the most bins of a column of numbers (default: 32)",
    )
    add(
        "--max-values",
        type=read_positive,
        default=100,
        help="the most values of another column (default: 100)",
    )


def add_synthesize(commands: Any) -> None:
    """Add ``skdp synthesize``."""
    synthesize = add_command(
        commands,
        "synthesize",
        _run_synthesize,
        description=(
            "Learn a table from counts with noise, and write synthetic rows"
            " (differential privacy in the central model: the user is trusted with the"
            " table). Only the columns of the domain file are read. Files are CSV,"
            " Parquet or Arrow by their names, and of any size."
        ),
    )
    add = synthesize.add_argument
    add_table(synthesize, "the private table")
    add_release(synthesize)
    add_streams(synthesize, "out", ".csv")
    add_domain(synthesize, required=False)
    add("--epsilon", type=read_epsilon, help="the privacy loss of all that is written")
    add(
        "--delta",
        type=read_delta,
        help="failure probability: 0 (default), or far below 1 / rows",
    )
    add(
        "--marginals",
        choices=sorted(STRATEGIES),
        help="what to measure (default: auto)",
    )
    add(
        "--target",
        metavar="COLUMN",
        help="what models that are trained on the rows will predict: kept better",
    )
    add(
        "--bins",
        choices=BINS,
        help="of numbers: as declared (default), or found by noisy counts",
    )
    add(
        "--rule",
        nargs=3,
        action="append",
        metavar=("COLUMN", "RULE", "COLUMN"),
        help=(
            "a public rule that all rows keep, such as --rule start '<=' end, or "
            "--rule job 'missing with' wage"
        ),
    )
    add(
        "--relation",
        action="append",
        metavar="RELATION",
        help=(
            "a public linear relation that all rows keep, such as "
            "--relation 'total = wage + bonus'"
        ),
    )
    add(
        "--rows",
        type=read_count,
        help="rows to write (default: the estimated number of records)",
    )
    add(
        "--max-rows-per-person",
        type=read_positive,
        help="rows that one person may have (default: 1)",
    )
    add(
        "--person-column",
        help=(
            "the column that identifies the person of a row: surplus rows of a person "
            "are left out, and the guarantee is for all rows of one person"
        ),
    )
    add_handle_unknown(
        synthesize,
        ["error", "clip", "ignore"],
        "put numbers into the outermost bins, or drop the row",
    )
    add(
        "--save",
        type=Path,
        metavar="MODEL",
        help=(
            "a file for the fitted model, written before rows are drawn; --load reads "
            "it"
        ),
    )
    add(
        "--load",
        action="store_true",
        help=(
            "DATA is a model that --save wrote: draw rows from it, which costs no "
            "privacy"
        ),
    )
    add_quiet(synthesize)


def _run_draft_domain(options: argparse.Namespace) -> Path:
    if options.domain.suffix.lower() != ".toml":
        raise ValueError(
            "a domain file is TOML, and its name ends in .toml, got"
            f" {options.domain.name!r}"
        )
    if options.domain.exists():
        raise ValueError(
            f"{options.domain} exists already; choose another name, or remove it"
        )
    if not options.domain.absolute().parent.is_dir():
        raise ValueError(f"{options.domain} is in a directory that does not exist")
    text = draft_file(
        TableFile(options.data, delimiter=options.delimiter),
        bins=options.bins,
        max_values=options.max_values,
    )
    with options.domain.open("x", encoding="utf-8") as file:
        file.write(text)
    # The remarks are at the top of the file, before the first empty line.
    remarks, _, _ = text.partition("\n\n")
    for line in remarks.splitlines():
        print(line.removeprefix("# "), file=sys.stderr)
    return options.domain


def _run_loaded(options: argparse.Namespace) -> Path:
    """Draw rows from a model."""
    # An option that has no effect would be taken for one that has.
    refuse_options(options, _OF_FITS, "goes without --load: a model is fitted already")
    synthesizer = DPMarginalSynthesizer.load(options.data).set_params(
        random_state=options.seed
    )
    sample_file(
        synthesizer, options.out, n_samples=options.rows, progress=bar_of_rows(options)
    )
    return options.out


def _run_synthesize(options: argparse.Namespace) -> Path | int:
    if options.load:
        return _run_loaded(options)
    for name in ("domain", "epsilon"):
        if getattr(options, name) is None:
            raise ValueError(f"--{name} is needed")
    domain = read_domain_file(options.domain)
    table = TableFile(options.data, delimiter=options.delimiter)
    table.check_columns(domain.columns)
    columns = {*domain.columns, options.person_column}
    left_out = [name for name in table.names if name not in columns]
    if left_out:
        print(
            f"Left out, as the domain does not have them: {', '.join(left_out)}",
            file=sys.stderr,
        )
    synthesizer = DPMarginalSynthesizer(
        options.epsilon,
        delta=options.delta or 0.0,
        domain=domain,
        marginals=options.marginals or "auto",
        target=options.target,
        bins=options.bins or "declared",
        structural_zeros=[tuple(rule) for rule in options.rule or ()],
        relations=options.relation,
        max_rows_per_person=options.max_rows_per_person or 1,
        handle_unknown=options.handle_unknown or "error",
        random_state=options.seed,
    )
    try:
        with opened_ledger(options) as ledger:
            synthesize_file(
                options.data,
                options.out,
                synthesizer.set_params(ledger=ledger),
                n_samples=options.rows,
                person_column=options.person_column,
                save=options.save,
                delimiter=options.delimiter,
                progress=bar_of_rows(options),
            )
    except KeyboardInterrupt:
        print(
            "Stopped: no table was written. A charge to a ledger remains.",
            file=sys.stderr,
        )
        return 130
    print(synthesizer.guarantee_)
    return options.out
