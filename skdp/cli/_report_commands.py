"""``skdp report``, ``skdp estimate``, ``skdp tally`` and ``skdp statement``."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from skdp.cli._options import escape_text, print_text
from skdp.cli._release_commands import (
    add_texts,
    check_csv,
    check_page,
    format_statement,
    load_protocol_file,
    write_table,
    write_text,
)
from skdp.domain import Domain, Interval
from skdp.engines import (
    estimate_file,
    find_protocol,
    list_unprotected_columns,
    tally_files,
)
from skdp.local import ReportTransformer
from skdp.persistence import load
from skdp.privacy import (
    PrivacyLedger,
    PrivacyStatement,
    is_database_text,
    privacy_statement,
)
from skdp.readers import check_path, open_output
from skdp.tables import index_to_columns

# First bytes of a ledger, which is a SQLite database, and of a model that `skdp.save`
# wrote, which is a ZIP file.
LEDGER = b"SQLite format 3"
MODEL = b"PK\x03\x04"


def run_estimate(options: argparse.Namespace) -> Path | None:
    """Estimate counts or means from reports, and print or write them; return the path of the new file, or None."""
    check_csv(options.out)
    check_path(options.out, "out")
    table = estimate_file(
        options.data,
        _load_protocol(options),
        rows="population" if options.population else "table",
        postprocess=options.postprocess,
        confidence_level=options.confidence_level,
        delimiter=options.delimiter,
    )
    # Printed estimates are rounded to two digits of the smallest error; files have all digits.
    if options.out is None:
        smallest = table["std_error"].replace(0, np.nan).min()
        decimals = max(1, 1 - math.floor(math.log10(smallest))) if smallest > 0 else 1
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(escape_text(table.round(decimals).to_string(line_width=width)))
        return None
    with open_output(options.out) as partial:
        write_table(partial, index_to_columns(table), table.index.nlevels)
    return Path(options.out)


def run_tally(options: argparse.Namespace) -> Path:
    """Sum reports and tallies, and write a tally."""
    check_path(options.out, "out")
    protocol = _load_protocol(options)
    tally_files(
        options.data, protocol, destination=options.out, delimiter=options.delimiter
    )
    return Path(options.out)


def _load_protocol(options: argparse.Namespace) -> ReportTransformer:
    """Return the transformer of the protocol in --protocol, or in the first file of DATA."""
    if options.protocol is not None:
        return load_protocol_file(options.protocol)
    source = options.data if isinstance(options.data, str) else options.data[0]
    return find_protocol(source, "Use --protocol; skdp privatize --save writes it.")


def run_statement(options: argparse.Namespace) -> Path | None:
    """Print or write the privacy statement of a file or an object; return the path of the new file, or None."""
    check_page(options, "out")
    statement = add_texts(_make_statement(options.source), options)
    if options.out is None:
        print_text(statement)
        return None
    with open_output(options.out) as partial:
        write_text(partial, format_statement(statement, options.out))
    return Path(options.out)


def _make_statement(source: str) -> PrivacyStatement:
    """State the guarantee of a ledger, a model, or a file of reports."""
    path = Path(source)
    # Ledgers and models may have any name, so they are recognized by their first bytes.
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(64)
        if start.startswith(LEDGER):
            return privacy_statement(PrivacyLedger(path=path))
        if start.startswith(MODEL):
            return privacy_statement(load(path))
    elif is_database_text(source):
        return privacy_statement(PrivacyLedger(path=source))
    return _state_reports(source)


def _state_reports(source: str) -> PrivacyStatement:
    """State the guarantee of a file of reports, and its unprotected columns."""
    transformer = find_protocol(
        source,
        "Use the protocol file of `save` or skdp privatize --save, or for synthetic "
        "rows the model file of skdp synthesize --save.",
    )
    statement = privacy_statement(transformer)
    columns = list_unprotected_columns(source, transformer)
    if not columns:
        return statement
    # Other columns of the file are released without protection.
    protection = "unprotected: true values are in the table"
    fact = statement.facts[0]._replace(step="", protection=protection, guarantee=None)
    facts = [fact._replace(column=name) for name in columns]
    return replace(statement, facts=(*statement.facts, *facts))


def run_report(options: argparse.Namespace) -> Path:
    """Study the cost of privacy on Adult; return the path of the HTML page."""
    # Imported here because the other commands do not need these packages.
    from skdp.datasets import load_adult
    from skdp.evaluation import study_report

    adult = load_adult(subset="all", dropna=True)
    # fnlwgt is a survey weight, and education is the text of education-num.
    frame = adult.data.drop(columns=["fnlwgt", "education"])
    declared = dict(adult.domain.select(frame.columns))
    declared["age"] = Interval(edges=[15, 38, 95])
    return study_report(
        frame.assign(income=adult.target.to_numpy() == ">50K"),
        Domain(declared),
        options.out,
        columns=["age", "sex"],
        target="income",
        sensitive_features="sex",
        privileged="Male",
        epsilons=options.epsilons,
        random_state=options.random_state,
        n_jobs=options.n_jobs,
    )
