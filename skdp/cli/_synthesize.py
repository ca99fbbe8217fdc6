"""``skdp draft-domain`` and ``skdp synthesize``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from skdp.base import draft_domain_toml, read_frame
from skdp.cli._arguments import opened_ledger, read_domain_file, refuse_options
from skdp.engines import synthesize_file
from skdp.engines.files import TableFile, sample_file
from skdp.synthesis import DPMarginalSynthesizer

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
    "bins",
    "save",
    "ledger",
    "budget",
    "delimiter",
)


def run_draft_domain(options: argparse.Namespace) -> Path:
    """Run ``skdp draft-domain``."""
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
    table = TableFile(options.data, delimiter=options.delimiter)
    if len(table.names) == 1 and options.delimiter is None and table.advice():
        raise ValueError(f"{table.path.name} has a single column{table.advice()}")
    frame = read_frame(Path(options.data), delimiter=options.delimiter, find_dates=True)
    text = draft_domain_toml(frame, bins=options.bins, max_values=options.max_values)
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
    sample_file(synthesizer, options.out, n_samples=options.rows)
    return options.out


def run_synthesize(options: argparse.Namespace) -> Path | int:
    """Run ``skdp synthesize``."""
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
            )
    except KeyboardInterrupt:
        print(
            "Stopped: no table was written. A charge to a ledger remains.",
            file=sys.stderr,
        )
        return 130
    print(synthesizer.guarantee_)
    return options.out
