"""The options of all commands. Imports nothing of the library, so that ``--help`` takes no seconds."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

STREAM_HELP = "; - is standard input"
_TABLE_HELP = f".csv, .tsv, .parquet, .arrow, .feather or .ipc{STREAM_HELP}"
_REPORTS_HELP = (
    "a file (.csv, .tsv, also with .gz, .parquet, .arrow, .feather, .ipc; a path or a"
    f" URL), or a tally (.json){STREAM_HELP}"
)
SOURCES = (
    "reports (a file or URL that skdp privatize wrote, a tally, or the protocol of an"
    " encoder), a model that skdp.save wrote, a ledger, or"
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
    "rappor",
)
MECHANISMS = ("optimal", "square_wave", "laplace")
POSTPROCESSORS = ("none", "clip", "simplex")
MARGINALS = ("auto", "full", "independent")
BINS = ("declared", "private")
EPSILONS = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0)


def _number(is_valid: Callable[[float], bool], expected: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not is_valid(value):
            raise argparse.ArgumentTypeError(f"{expected}, not {text!r}")
        return value

    return parse


def _integer(minimum: int, expected: str = "expected") -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < minimum:
            raise argparse.ArgumentTypeError(
                f"{expected} a whole number of at least {minimum}, not {text!r}"
            )
        return int(text)

    return parse


_epsilon = _number(
    lambda value: isfinite(value) and value > 0, "an epsilon is a finite number > 0"
)
_delta = _number(lambda value: 0 <= value < 1, "a delta is a number in [0, 1)")
_level = _number(lambda value: 0 < value < 1, "expected a number between 0 and 1")
_count, _positive, _seed = _integer(0), _integer(1), _integer(0, "a seed is")


def _delimiter(text: str) -> str:
    from skdp.engines.files import check_delimiter

    character = "\t" if text == r"\t" else text
    try:
        check_delimiter(character)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return character


def _add_delimiter(command: Any) -> None:
    command.add_argument(
        "--delimiter",
        type=_delimiter,
        metavar="C",
        help=(
            r"of CSV files that are read: one character, or \t (default: a comma,"
            " and a tab for .tsv)"
        ),
    )


def _add_table(command: Any, what: str) -> None:
    command.add_argument("data", help=f"{what}: {_TABLE_HELP}")
    _add_delimiter(command)


def _add_seed(command: Any) -> None:
    command.add_argument(
        "--seed",
        type=_seed,
        help="reproducible, not secure (default: secure random bits)",
    )


def _add_release(command: Any) -> None:
    add = command.add_argument
    add(
        "out",
        type=Path,
        help=(
            "the file to write; one that exists is never overwritten; - is standard "
            "output, as CSV"
        ),
    )
    add(
        "--ledger",
        type=Path,
        help="a ledger to charge; it must exist, or be created by --budget",
    )
    add("--budget", type=_epsilon, help="create the ledger, with this epsilon")
    add("--budget-delta", type=_delta, default=0.0, help="its delta (default: 0)")
    _add_seed(command)


def _add_domain(command: Any) -> None:
    command.add_argument(
        "--domain", type=Path, help="the domain file; draft-domain writes a draft"
    )


def _add_protocol(command: Any) -> None:
    command.add_argument(
        "--protocol",
        type=Path,
        metavar="FILE",
        help="what to_json or save of the encoder wrote (default: what the files say)",
    )


def _add_handle_unknown(command: Any, choices: list[str], effects: str) -> None:
    command.add_argument(
        "--handle-unknown",
        choices=choices,
        help=(
            "what to do with an undeclared value: stop (which shows that there is"
            f" one), {effects} (default: error)"
        ),
    )


def _add_transformer(command: Any) -> None:
    """Add the options of `make_transformer`; None stands for an absent option."""
    add = command.add_argument
    _add_domain(command)
    add(
        "--columns",
        nargs="+",
        metavar="COLUMN",
        help="what to privatise (default: all declared)",
    )
    add("--epsilon", type=_epsilon, help="the privacy loss of a row")
    add(
        "--strategy",
        choices=["split", "joint", "sample"],
        help=(
            "how columns share epsilon: each has a part of it, all are one, or each row"
            " reports one of them (of numeric: some; never joint) (default: split)"
        ),
    )
    add(
        "--transformer",
        choices=TRANSFORMERS,
        help=(
            "how a row is randomised: values and bins by the first five, numbers within"
            " the declared bounds by numeric, text that is not declared by rappor"
            " (default: randomized_response)"
        ),
    )
    add("--mechanism", choices=MECHANISMS, help="of numeric (default: optimal)")
    add(
        "--grid-size",
        type=_positive,
        help="of numeric: the steps between the bounds (default: 1024)",
    )
    add("--n-bits", type=_positive, help="of rappor: bits of a filter (default: 128)")
    add("--n-hashes", type=_positive, help="of rappor: hash functions (default: 2)")
    add("--n-cohorts", type=_positive, help="of rappor: groups of rows (default: 8)")


def _add_report(command: Any) -> None:
    add = command.add_argument
    add(
        "--epsilon",
        dest="epsilons",
        type=_epsilon,
        nargs="+",
        default=list(EPSILONS),
        help="privacy losses to try",
    )
    add(
        "--n-repeats",
        type=_positive,
        default=500,
        help="releases for each epsilon (default: 500)",
    )
    add(
        "--n-model-repeats",
        type=_positive,
        default=5,
        help="splits of the rows for the classifiers (default: 5)",
    )
    _add_seed(command)
    _add_delimiter(command)
    add(
        "--out",
        type=Path,
        default=Path("report"),
        help="folder to write to (default: report)",
    )
    add(
        "--jobs",
        type=_positive,
        help="processes that train classifiers (default: all cores)",
    )
    add(
        "--delta",
        type=_delta,
        default=1e-9,
        help="failure probability of the synthetic rows (default: 1e-9)",
    )
    add(
        "--data",
        type=Path,
        help="your own table instead of Adult: a CSV or Parquet file",
    )
    add("--columns", nargs="+", help="the columns of --data to protect together")
    add(
        "--target",
        help="the column that classifiers predict, for accuracy and fairness",
    )
    add(
        "--positive",
        dest="positive_label",
        metavar="VALUE",
        help="the favourable value of --target; 1 if all are 0 and 1",
    )
    add(
        "--sensitive",
        metavar="COLUMN",
        help="which of --columns has the groups, for fairness",
    )
    add(
        "--privileged",
        nargs="+",
        metavar="VALUE",
        help="its privileged values; of bins, their labels",
    )
    add(
        "--domain",
        type=Path,
        help=(
            "a domain file of columns to protect and others to synthesise "
            "(default: values and bins are read from the data)"
        ),
    )
    add(
        "--edges",
        nargs="+",
        default=[],
        metavar="COLUMN=EDGE,...",
        help="bins of numbers, such as age=0,38,120",
    )
    add("--quiet", action="store_true", help="show no progress, as without a terminal")


def _add_draft_domain(command: Any) -> None:
    add = command.add_argument
    _add_table(command, "your table")
    add(
        "domain",
        type=Path,
        help=(
            "the file to write, .toml; one that exists is never overwritten; - is "
            "standard output"
        ),
    )
    add(
        "--bins",
        type=_positive,
        default=32,
        help="the most bins of a column of numbers (default: 32)",
    )
    add(
        "--max-values",
        type=_positive,
        default=100,
        help="the most values of another column (default: 100)",
    )


def _add_synthesize(command: Any) -> None:
    add = command.add_argument
    _add_table(command, "the private table")
    _add_release(command)
    _add_domain(command)
    add("--epsilon", type=_epsilon, help="the privacy loss of all that is written")
    add(
        "--delta",
        type=_delta,
        help="failure probability: 0 (default), or far below 1 / rows",
    )
    add("--marginals", choices=MARGINALS, help="what to measure (default: auto)")
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
        "--rows",
        type=_count,
        help="rows to write (default: the estimated number of records)",
    )
    add(
        "--max-rows-per-person",
        type=_positive,
        help="rows that one person may have (default: 1)",
    )
    add(
        "--person-column",
        help=(
            "the column that identifies the person of a row: surplus rows of a person "
            "are left out, and the guarantee is for all rows of one person"
        ),
    )
    _add_handle_unknown(
        command,
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


def _add_privatize(command: Any) -> None:
    add = command.add_argument
    _add_table(command, "the table, a path or a URL")
    _add_release(command)
    _add_transformer(command)
    add(
        "--load",
        type=Path,
        metavar="PROTOCOL",
        help="instead of these: the protocol that --save wrote",
    )
    add(
        "--save",
        type=Path,
        metavar="PROTOCOL",
        help="a new file for the protocol, which holds nothing secret",
    )
    add(
        "--record-id",
        metavar="COLUMN",
        help=(
            "the column that says which record a row is of: a record that reports again"
            " repeats its report"
        ),
    )
    key = command.add_mutually_exclusive_group()
    key.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        help="the secret key of permanent reports; keep it",
    )
    key.add_argument(
        "--new-key",
        type=Path,
        metavar="FILE",
        help="the same, for the first time: draws a key",
    )
    _add_handle_unknown(command, ["error", "uniform"], "or replace it by a random one")
    kept = command.add_mutually_exclusive_group()
    kept.add_argument(
        "--keep",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="columns to release AS THEY ARE",
    )
    kept.add_argument(
        "--keep-all", action="store_true", help="release all other columns AS THEY ARE"
    )
    add(
        "--format",
        choices=["csv", "tsv", "parquet", "arrow"],
        help="of standard output (default: csv)",
    )
    add(
        "--no-check",
        dest="check",
        action="store_false",
        help=(
            "read the rows only once: an undeclared value is then found while reports"
            " are drawn, after the charge (default: all rows are checked before the"
            " charge, so that a table that is refused costs nothing)"
        ),
    )


def _add_estimate(command: Any) -> None:
    add = command.add_argument
    add("data", help=f"the reports: {_REPORTS_HELP}")
    _add_protocol(command)
    _add_transformer(command)
    _add_delimiter(command)
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
        choices=POSTPROCESSORS,
        default="none",
        help="(default: none)",
    )
    add(
        "--confidence-level",
        type=_level,
        default=0.95,
        help="of each interval (default: 0.95)",
        metavar="C",
    )
    add(
        "--shuffled",
        type=_positive,
        metavar="N",
        help=(
            "also state what the sums of the reports guarantee, if nothing else of them"
            " was or will be published and at least N of them are of honest persons;"
            " needs --delta"
        ),
    )
    add(
        "--delta",
        type=_delta,
        metavar="D",
        help="with --shuffled: the failure probability, well below 1 / N",
    )
    add(
        "--out",
        type=Path,
        help=(
            "a .csv file to write to, - for standard output (default: print the"
            " estimates)"
        ),
    )


def _add_tally(command: Any) -> None:
    add = command.add_argument
    add("data", nargs="+", help=f"reports: {_REPORTS_HELP}")
    _add_protocol(command)
    add("--out", type=Path, help="a new file, .json, for the tally (default: print it)")
    _add_delimiter(command)


def _add_statement(command: Any) -> None:
    command.add_argument(
        "source",
        metavar="SOURCE",
        help=SOURCES,
    )
    command.add_argument(
        "--out",
        type=Path,
        help="the .html or .json file to write; one that exists is never overwritten",
    )


# Each command: the module that runs it, the function that adds its options, its output
# and the ending of standard output, its line in ``skdp --help``, and its description.
COMMANDS = {
    "report": (
        "_report",
        _add_report,
        None,
        "show what differential privacy costs, on Adult or on your own table",
        "Study the cost of privacy (counts, accuracy, fairness, leakage, synthetic"
        " rows), of age x sex on Adult or of the columns of your own table, and write a"
        " page, index.html, and its tables. The page compares with true values: it is"
        " not private.",
    ),
    "draft-domain": (
        "_synthesize",
        _add_draft_domain,
        ("domain", ".toml"),
        "write a first draft of a domain file, to be edited",
        "Read a table and write a domain file (TOML) for you to edit. The draft shows"
        " values of the data: it is not private until you have replaced them by what is"
        " publicly known.",
    ),
    "synthesize": (
        "_synthesize",
        _add_synthesize,
        ("out", ".csv"),
        "write a synthetic table that may be shared",
        "Learn a table from counts with noise, and write synthetic rows (differential"
        " privacy in the central model: the user is trusted with the table). Only the"
        " columns of the domain file are read. Files are CSV, Parquet or Arrow by their"
        " names, and of any size.",
    ),
    "privatize": (
        "_privatize",
        _add_privatize,
        ("out", ".csv"),
        "randomise each row of a table, for recipients that are not trusted with it",
        "Write a report for each row, from which counts can be estimated, and little"
        " can be learned of the row (differential privacy in the local model). Files"
        " are CSV (also gzipped), Parquet or Arrow by their names, and of any size."
        " Columns that are neither privatised nor kept are left out.",
    ),
    "estimate": (
        "_estimate",
        _add_estimate,
        ("out", ".csv"),
        "estimate counts from privatised rows",
        "Estimate how many rows truly have each value, from the reports that skdp"
        " privatize wrote, or from a tally. The file says how they were made, and what"
        " contradicts it is an error. Of a file that does not say it, --protocol, or"
        " --domain and --epsilon are needed, as they were for skdp privatize. This"
        " costs no privacy.",
    ),
    "tally": (
        "_estimate",
        _add_tally,
        ("out", ".json"),
        "sum up reports of clients, or tallies of many collectors",
        "Sum up reports and write the sums, which skdp estimate reads and which add to"
        " others: from tables, or tallies (.json). All must be of one protocol. This"
        " costs no privacy.",
    ),
    "statement": (
        "_statement",
        _add_statement,
        None,
        "state the guarantee of reports, a model, a ledger or a pipeline, as a page or"
        " as JSON",
        "State what is protected, column by column, and what is not, for people who do"
        " not run it. Files are only read, and no row of them. A module or a file of"
        " Python code is imported, and so executed: name only code that you would run.",
    ),
}


def add_commands(commands: Any) -> None:
    """Add all commands and their options."""
    for name, (module, add_options, output, help_line, description) in COMMANDS.items():
        command = commands.add_parser(name, help=help_line, description=description)
        add_options(command)
        command.add_argument(
            "--log-level",
            choices=["debug", "info", "warning", "error"],
            default="warning",
            help=(
                "what to log on standard error; no value and no key is ever logged "
                "(default: warning)"
            ),
        )
        command.set_defaults(parser=command, module=module)
        if output is not None:
            name_of_output, ending = output
            command.set_defaults(inputs=("data",), output=name_of_output, ending=ending)
