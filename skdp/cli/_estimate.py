"""``skdp estimate`` and ``skdp tally``.

What the files say needs no option, and what contradicts them is refused.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from skdp.cli._arguments import (
    STREAMS,
    add_command,
    add_delimiter,
    add_quiet,
    add_streams,
    bar_of_rows,
    read_delta,
    read_positive,
    read_share,
    refuse_options,
)
from skdp.cli._transformers import (
    DECLARING,
    add_transformer,
    make_transformer,
    read_protocol_file,
)
from skdp.engines import estimate_file, tally_files
from skdp.engines.files import said_by, source_at, tally_text, transformer_of, unsaid
from skdp.local import RapporEncoder, ReportTransformer
from skdp.oracles import POSTPROCESSORS
from skdp.privacy import PrivacyGuarantee, shuffled_guarantee

_REPORTS = (
    "a file (.csv, .tsv, also with .gz, .parquet, .arrow, .feather, .ipc; a path or a"
    f" URL), or a tally (.json){STREAMS}"
)
_NEEDED = "--protocol, or --domain and --epsilon"


def add_estimate(commands: Any) -> None:
    """Add ``skdp estimate``."""
    estimate = add_command(
        commands,
        "estimate",
        _run_estimate,
        description=(
            "Estimate how many rows truly have each value, from the reports that skdp"
            " privatize wrote, or from a tally. The file says how they were made, and"
            " what contradicts it is an error. Of a file that does not say it,"
            f" {_NEEDED} are needed, as they were for skdp privatize. This costs no"
            " privacy."
        ),
    )
    add = estimate.add_argument
    add("data", help=f"the reports: {_REPORTS}")
    _add_protocol(estimate)
    add_transformer(estimate)
    add_delimiter(estimate)
    add_streams(estimate, "out", ".csv")
    add(
        "--rows",
        choices=["table", "population"],
        default="table",
        help=(
            "whose counts: of these rows, or of the population that they were drawn "
            "from, with the error of the sample (default: table)"
        ),
    )
    add(
        "--postprocess",
        choices=list(POSTPROCESSORS),
        default="none",
        help="(default: none)",
    )
    add(
        "--confidence",
        type=read_share,
        default=0.95,
        help="of each interval (default: 0.95)",
        metavar="C",
    )
    help_shuffled = (
        "also state what the sums of the reports guarantee, if nothing else of them was"
        " or will be published and at least N of them are of honest persons; needs"
        " --delta"
    )
    add("--shuffled", type=read_positive, metavar="N", help=help_shuffled)
    add(
        "--delta",
        type=read_delta,
        metavar="D",
        help="with --shuffled: the failure probability, well below 1 / N",
    )
    add(
        "--out",
        type=Path,
        help=(
            "a file to write to, - for CSV on standard output (default: print the"
            " estimates)"
        ),
    )
    add_quiet(estimate)


def add_tally(commands: Any) -> None:
    """Add ``skdp tally``."""
    tally = add_command(
        commands,
        "tally",
        _run_tally,
        description=(
            "Sum up reports and write the sums, which skdp estimate reads and which add"
            " to others: from tables, or tallies (.json). All must be of one protocol."
            " This costs no privacy."
        ),
    )
    add = tally.add_argument
    add("data", nargs="+", help=f"reports: {_REPORTS}")
    _add_protocol(tally)
    add("--out", type=Path, help="a new file, .json, for the tally (default: print it)")
    add_delimiter(tally)
    add_streams(tally, "out", ".json")
    add_quiet(tally)


def _add_protocol(command: Any) -> None:
    text = "what to_json or save of the encoder wrote (default: what the files say)"
    command.add_argument("--protocol", type=Path, metavar="FILE", help=text)


def _run_estimate(options: argparse.Namespace) -> Path | int:
    if (options.shuffled is None) != (options.delta is None):
        raise ValueError("--shuffled and --delta go together")
    options.data = source_at(options.data, options.delimiter)
    transformer = _transformer(options)
    if isinstance(transformer, RapporEncoder):
        raise ValueError(
            "reports of rappor are decoded by words to look for, in Python: "
            "RapporEncoder.load(protocol).decode(reports, words)"
        )
    table = estimate_file(
        options.data,
        transformer,
        target=options.out,
        rows=options.rows,
        postprocess=options.postprocess,
        confidence_level=options.confidence,
        progress=bar_of_rows(options),
    )
    if options.out is None:
        print(table.round(1).to_string())
    if options.shuffled is not None:
        print(_of_sums(options, transformer))
    return 0 if options.out is None else options.out


def _of_sums(options: argparse.Namespace, transformer: Any) -> PrivacyGuarantee:
    """Return what the sums of the reports guarantee."""
    transformer = transformer_of([options.data], transformer)
    # The guarantee holds from a number of honest reports on, which cannot be more than all.
    n_reports = tally_files(options.data, transformer).n_reports
    if n_reports < options.shuffled:
        raise ValueError(
            f"--shuffled {options.shuffled}: there are only {n_reports} reports"
        )
    guarantee = shuffled_guarantee(
        transformer, options.shuffled, options.delta, released="tally"
    )
    # The protocol of the file says whether the reports were drawn from a seed.
    protocol = said_by(options.data)
    if protocol is not None:
        stated = json.loads(protocol).get("guarantee") or {}
        if stated.get("secure") is False:
            return replace(guarantee, secure=False)
    return guarantee


def _run_tally(options: argparse.Namespace) -> Path | int:
    options.data = [source_at(place, options.delimiter) for place in options.data]
    transformer = transformer_of(options.data, _read_protocol(options))
    tally = tally_files(
        options.data, transformer, target=options.out, progress=bar_of_rows(options)
    )
    if options.out is not None:
        return options.out
    print(tally_text(tally, transformer, options.data))
    return 0


def _transformer(options: argparse.Namespace) -> ReportTransformer:
    """Make the transformer that a file says, or that of the options."""
    if options.protocol is not None:
        name = options.protocol.name
        refuse_options(options, DECLARING, f"is in {name} already: leave it out")
        transformer = _read_protocol(options)
    elif options.domain is not None and options.epsilon is not None:
        transformer = make_transformer(options)
    elif said_by(options.data) is not None:
        # Some of the options could only repeat what the file says, or contradict it.
        name = options.data.name
        refuse_options(options, DECLARING, f"is in {name} already: leave it out")
        transformer = None
    else:
        raise ValueError(f"{unsaid(options.data)}: {_NEEDED} are needed")
    # The file must not say something else.
    return transformer_of([options.data], transformer)


def _read_protocol(options: argparse.Namespace) -> ReportTransformer | None:
    if options.protocol is None:
        return None
    return read_protocol_file(options.protocol, "--protocol")
