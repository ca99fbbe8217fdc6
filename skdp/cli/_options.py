"""The options of all commands. Imports nothing of the library, so that ``--help`` is quick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# Formats of tables, and of reports.
TABLE = ".csv, .tsv, .parquet, .arrow, .feather or .ipc; - is standard input, as CSV"
REPORTS = (
    "a file (.csv, .tsv, also with .gz, .parquet, .arrow, .feather, .ipc; a path or a"
    " URL), or a tally (.json)"
)
SOURCES = (
    "reports (a file or URL, a tally, or the protocol of an encoder), a model written"
    " by skdp.save, a ledger, or"
    " MODULE_OR_FILE:OBJECT, such as model.py:pipeline"
)
# Tests compare these with the choices of the library.
TRANSFORMERS = (
    "randomized_response",
    "unary",
    "subset",
    "local_hashing",
    "auto",
    "numeric",
)
POSTPROCESSORS = ("none", "clip", "simplex")
MARGINALS = ("auto", "full", "independent")
BINS = ("declared", "private")
EPSILONS = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0)


def _delimiter(text: str) -> str:
    # Tabs are hard to type in shells, so "\t" is accepted.
    return "\t" if text == r"\t" else text


def _add_table(command: Any, what: str) -> None:
    command.add_argument("data", help=what)
    _add_delimiter(command)


def _add_delimiter(command: Any) -> None:
    command.add_argument(
        "--delimiter",
        type=_delimiter,
        metavar="C",
        help=(
            r"separator of the values in CSV files that are read: one character, or \t"
            " (default: a comma, and a tab for .tsv)"
        ),
    )


def _add_seed(command: Any) -> None:
    # Secure random bits are the default of all commands.
    command.add_argument(
        "--seed",
        dest="random_state",
        metavar="SEED",
        type=int,
        help="for reproducible, not secure runs (default: secure random bits)",
    )


def _add_release(command: Any) -> None:
    """Add the output of a release, its domain, epsilon and ledger."""
    add = command.add_argument
    # Files are never overwritten, so that a second release is deliberate.
    add("out", type=Path, help="a new file; - is standard output, as CSV")
    add("--domain", type=Path, help="the domain file; draft-domain writes a draft")
    add("--ledger", type=Path, help="a ledger to charge")
    add("--budget", type=float, help="epsilon of a ledger that does not exist yet")
    add("--budget-delta", type=float, default=0.0, help="its delta (default: 0)")
    _add_seed(command)


def _add_handle_unknown(command: Any, choices: list[str], effects: str) -> None:
    # The default is an error, because all other effects bias the estimates.
    command.add_argument(
        "--handle-unknown",
        choices=choices,
        default="error",
        help=f"effect of an undeclared value: an error (which reveals that there is one), {effects}",
    )


def _add_protocol(command: Any) -> None:
    # Parquet and Arrow files, and tallies, contain their protocol.
    command.add_argument(
        "--protocol",
        type=Path,
        metavar="FILE",
        help="protocol file of the encoder (default: the protocol in the files)",
    )


def _add_report(command: Any) -> None:
    add = command.add_argument
    # The page compares all values, so the default is a wide range.
    add(
        "--epsilon",
        dest="epsilons",
        type=float,
        nargs="+",
        default=list(EPSILONS),
        help="values of epsilon to compare",
    )
    _add_seed(command)
    add(
        "--out",
        type=Path,
        default=Path("report"),
        help="folder to write to (default: report)",
    )
    add(
        "--jobs",
        dest="n_jobs",
        type=int,
        default=-1,
        help="processes that train classifiers (default: all cores)",
    )
    # The options below describe --data.
    add("--data", type=Path, help="a CSV or Parquet file to study instead of Adult")
    _add_delimiter(command)
    add(
        "--domain",
        type=Path,
        help="domain file of --data: columns to protect and to synthesize",
    )
    add("--columns", nargs="+", help="the columns of --data to protect together")
    add("--target", help="the column that classifiers predict")
    add(
        "--positive",
        dest="positive_label",
        metavar="VALUE",
        help="favorable value of --target (default: 1)",
    )
    add(
        "--sensitive",
        metavar="COLUMN",
        help="column of --columns with the groups, for fairness",
    )
    add(
        "--privileged",
        nargs="+",
        metavar="VALUE",
        help="privileged values of --sensitive; labels for bins",
    )


def _add_draft_domain(command: Any) -> None:
    add = command.add_argument
    _add_table(command, f"your table: {TABLE}")
    # The draft has values of the data, so it is a file to edit.
    add("domain", type=Path, help="a new file, .toml; - is standard output")
    add(
        "--bins",
        type=int,
        default=32,
        help="largest number of bins of a column of numbers (default: 32)",
    )
    add(
        "--max-values",
        type=int,
        default=100,
        help="largest number of values of another column (default: 100)",
    )


def _add_synthesize(command: Any) -> None:
    add = command.add_argument
    _add_table(command, f"the private table: {TABLE}")
    _add_release(command)
    add("--epsilon", type=float, help="privacy loss of the table and the model")
    add("--delta", type=float, default=0.0, help="far below 1 / rows (default: 0)")
    add("--marginals", choices=MARGINALS, default="auto", help="(default: auto)")
    add("--target", metavar="COLUMN", help="the column that models will predict")
    # Bins of numbers are public, or part of the release.
    add(
        "--bins",
        choices=BINS,
        default="declared",
        help="bins of numbers: as declared (default), or found by noisy counts",
    )
    add(
        "--rows",
        type=int,
        help="rows to write (default: the estimated number of records)",
    )
    # The guarantee is for all rows of a person if a column identifies persons.
    add(
        "--max-rows-per-person",
        type=int,
        default=1,
        help="largest number of rows of one person (default: 1)",
    )
    add(
        "--person-column",
        help=(
            "the column that identifies the person of a row: further rows of a person"
            " are excluded, and the guarantee covers all rows of one person"
        ),
    )
    _add_handle_unknown(
        command, ["error", "clip", "ignore"], "the nearest bin, or no row"
    )
    # Rows of a saved model are post-processing.
    add("--save", type=Path, metavar="MODEL", help="a new file for the fitted model")
    add(
        "--load",
        action="store_true",
        help="DATA is a model written by --save: draw rows without privacy cost",
    )


def _add_privatize(command: Any) -> None:
    add = command.add_argument
    _add_table(command, f"the table, a path or a URL: {TABLE}")
    _add_release(command)
    add(
        "--columns",
        nargs="+",
        metavar="COLUMN",
        help="columns to privatize (default: all declared)",
    )
    add("--epsilon", type=float, help="privacy loss of a row")
    add(
        "--strategy",
        choices=["split", "joint", "sample"],
        default="split",
        help=(
            "allocation of epsilon to columns: a fraction for each, all columns as one,"
            " or one random column per row (default: split)"
        ),
    )
    add(
        "--transformer",
        choices=TRANSFORMERS,
        default="randomized_response",
        help=(
            "encoder of values and bins (the first five) or of numbers within the"
            " declared bounds (numeric) (default: randomized_response)"
        ),
    )
    # A protocol has all parameters of a transformer, so they need no options.
    add(
        "--load",
        type=Path,
        metavar="PROTOCOL",
        help="a protocol file that replaces these options",
    )
    add("--save", type=Path, metavar="PROTOCOL", help="a new file for the protocol")
    # Permanent reports: the key decides the report of a record and a value.
    add(
        "--record-id",
        metavar="COLUMN",
        help="column that identifies the record of a row: it repeats its report",
    )
    key = command.add_mutually_exclusive_group()
    key.add_argument(
        "--key", type=Path, metavar="FILE", help="secret key of --record-id; keep it"
    )
    key.add_argument(
        "--new-key", type=Path, metavar="FILE", help="a new file for a random key"
    )
    _add_handle_unknown(command, ["error", "uniform"], "or a random value")
    # Other columns are left out unless they are named.
    kept = command.add_mutually_exclusive_group()
    kept.add_argument(
        "--keep",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="columns to release UNPROTECTED",
    )
    kept.add_argument(
        "--keep-all", action="store_true", help="release all other columns UNPROTECTED"
    )


def _add_estimate(command: Any) -> None:
    add = command.add_argument
    _add_table(command, f"the reports: {REPORTS}; - is standard input, as CSV")
    _add_protocol(command)
    add(
        "--rows",
        choices=["table", "population"],
        default="table",
        help=(
            "target of inference: these rows, or the population from which they were"
            " sampled (default: table)"
        ),
    )
    add("--postprocess", choices=POSTPROCESSORS, default="none", help="(default: none)")
    add(
        "--confidence-level",
        type=float,
        default=0.95,
        help="of each interval (default: 0.95)",
        metavar="C",
    )
    add(
        "--out",
        type=Path,
        help="a new CSV file, - for standard output (default: print the estimates)",
    )


def _add_tally(command: Any) -> None:
    add = command.add_argument
    # Sums of many collectors are added in any order.
    add("data", nargs="+", help=f"reports: {REPORTS}")
    _add_protocol(command)
    _add_delimiter(command)
    add(
        "--out",
        type=Path,
        default=Path("-"),
        help="a new file, .json (default: standard output)",
    )


def _add_statement(command: Any) -> None:
    # A statement is made for readers who do not run the code.
    command.add_argument("source", metavar="SOURCE", help=SOURCES)
    command.add_argument("--out", type=Path, help="a new file, .html or .json")


# Each command: the module that runs it, the function that adds its options, its output
# and the suffix of standard output, its line in ``skdp --help``, and its description.
COMMANDS = {
    "report": (
        "_reports",
        _add_report,
        ("out", ""),
        "study the cost of privacy, on Adult or on your own table",
        "Study the cost of privacy (counts, accuracy, fairness, attacks, synthetic"
        " rows) for age x sex on Adult, or for columns of your own table. Writes a page,"
        " index.html, and its tables. The page uses true values: it is not private.",
    ),
    "draft-domain": (
        "_release",
        _add_draft_domain,
        ("domain", ".toml"),
        "draft a domain file from a table, for you to edit",
        "Read a table and write a domain file (TOML) for you to edit. The draft contains"
        " values of the data: it is not private until you have replaced them from public"
        " knowledge.",
    ),
    "synthesize": (
        "_release",
        _add_synthesize,
        ("out", ".csv"),
        "write synthetic rows with a privacy guarantee",
        "Measure noisy marginals of a table, and write synthetic rows (central model:"
        " the user is trusted with the table). Only the columns of the domain file are"
        " read. The names of the files state their formats: CSV, Parquet or Arrow.",
    ),
    "privatize": (
        "_release",
        _add_privatize,
        ("out", ".csv"),
        "randomize each row of a table",
        "Write a report of each row, from which counts can be estimated (local model)."
        " The names of the files state their formats: CSV (also gzipped), Parquet or"
        " Arrow. All rows are checked before the ledger is charged. Other columns are"
        " excluded, unless --keep names them.",
    ),
    "estimate": (
        "_reports",
        _add_estimate,
        ("out", ".csv"),
        "estimate counts with confidence intervals from reports",
        "Estimate the number of rows with each value, from reports of skdp privatize or"
        " from a tally. Parquet and Arrow files contain their protocol; CSV files"
        " require --protocol. Uses no privacy budget.",
    ),
    "tally": (
        "_reports",
        _add_tally,
        ("out", ".json"),
        "add reports of clients, or tallies of several collectors",
        "Add reports (tables) and tallies (.json) with one protocol, and write the sums,"
        " which skdp estimate reads. Uses no privacy budget.",
    ),
    "statement": (
        "_reports",
        _add_statement,
        ("out", ""),
        "state the guarantee of reports, a model, a ledger or a pipeline, as a page or"
        " as JSON",
        "State the protection of each column, for people who do not run the code. Rows"
        " of files are not read. A module or a file of Python code is imported, and so"
        " executed: name only code that you trust.",
    ),
}


def add_commands(commands: Any) -> None:
    """Add all commands and their options."""
    for name, (module, add_options, output, help_line, description) in COMMANDS.items():
        command = commands.add_parser(name, help=help_line, description=description)
        add_options(command)
        # Errors show the usage of the command, and modules are imported by name.
        command.set_defaults(parser=command, module=module)
        command.set_defaults(output=output[0], suffix=output[1])
