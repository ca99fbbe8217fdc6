"""``skdp estimate`` and ``skdp tally``.

What the files say needs no option, and what contradicts them is refused.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from skdp.cli._arguments import refuse_options
from skdp.cli._transformers import DECLARING, make_transformer, read_protocol_file
from skdp.engines import estimate_file, tally_files
from skdp.engines.files import said_by, source_at, tally_text, transformer_of, unsaid
from skdp.local import RapporEncoder, ReportTransformer
from skdp.privacy import PrivacyGuarantee, shuffled_guarantee
from skdp.tables import flatten_index


def run_estimate(options: argparse.Namespace) -> Path | int:
    """Run ``skdp estimate``."""
    if (options.shuffled is None) != (options.delta is None):
        raise ValueError("--shuffled and --delta go together")
    options.data = source_at(options.data, options.delimiter)
    transformer = _transformer(options)
    if isinstance(transformer, RapporEncoder):
        raise ValueError(
            "reports of rappor are decoded by words to look for, in Python: "
            "RapporEncoder.load(protocol).decode(reports, words)"
        )
    if options.out is not None and options.out.suffix != ".csv":
        raise ValueError(f"--out must end in .csv, got {options.out.name!r}")
    if options.out is not None and options.out.exists():
        raise FileExistsError(f"{options.out} exists already; choose another name")
    table = estimate_file(
        options.data,
        transformer,
        rows=options.rows,
        postprocess=options.postprocess,
        confidence_level=options.confidence_level,
    )
    if options.out is None:
        print(table.round(1).to_string())
    else:
        flatten_index(table).to_csv(options.out, index=False)
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
        transformer, n=options.shuffled, delta=options.delta, released="tally"
    )
    # The protocol of the file says whether the reports were drawn from a seed.
    protocol = said_by(options.data)
    if protocol is not None:
        stated = json.loads(protocol).get("guarantee") or {}
        if stated.get("secure") is False:
            return replace(guarantee, secure=False)
    return guarantee


def run_tally(options: argparse.Namespace) -> Path | int:
    """Run ``skdp tally``."""
    options.data = [source_at(place, options.delimiter) for place in options.data]
    transformer = transformer_of(options.data, _read_protocol(options))
    tally = tally_files(options.data, transformer, target=options.out)
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
        raise ValueError(
            f"{unsaid(options.data)}: --protocol, or --domain and --epsilon are needed"
        )
    # The file must not say something else.
    return transformer_of([options.data], transformer)


def _read_protocol(options: argparse.Namespace) -> ReportTransformer | None:
    if options.protocol is None:
        return None
    return read_protocol_file(options.protocol, "--protocol")
