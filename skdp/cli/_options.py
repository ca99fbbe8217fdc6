"""Options of all commands, and text for a terminal.

This module does not import other modules of skdp, so that ``--help`` is fast.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Collection
from pathlib import Path
from typing import Any

# Help texts: formats of tables and of reports, and sources of a statement.
TABLE = (
    "a file (.csv, .tsv, also with .gz, .parquet, .arrow, .feather or .ipc; a path, or a"
    " URL such as s3://bucket/people.parquet), a folder of such files, or a pattern such"
    " as 'part-*.csv'; - is standard input, as CSV"
)
REPORTS = (
    "a file (.csv, .tsv, also with .gz, .parquet, .arrow, .feather, .ipc; a path or a"
    " URL), a folder or pattern of files, or a tally (.json)"
)
SOURCES = (
    "reports (a file or URL, a tally, or the protocol of an encoder), a model or a"
    " pipeline written by skdp.save, or a ledger"
)
# Choices of options. Tests compare them with the choices of the library.
TRANSFORMER_NAMES = (
    "randomized_response",
    "unary",
    "subset",
    "local_hashing",
    "auto",
    "numeric",
)
POSTPROCESS_CHOICES = ("none", "clip", "simplex")
MARGINALS = ("auto", "full", "independent")
TEXTS = ("title", "purpose", "contact")
EPSILONS = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0)


def wrap_text(text: str, indent: str = "") -> str:
    """Wrap a text at the width of the terminal; `indent` is before all lines except the first."""
    width = shutil.get_terminal_size().columns - 2
    return textwrap.fill(
        text,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def escape_text(text: str) -> str:
    """Replace control characters, which a terminal would execute, by their escapes."""
    characters = [
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode()
        for c in text
    ]
    return "".join(characters)


def print_text(value: object, *, to_stderr: bool = False) -> None:
    """Print a text, whose lines are wrapped on a terminal."""
    stream = sys.stderr if to_stderr else sys.stdout
    lines = escape_text(str(value)).splitlines()
    print(*(map(wrap_text, lines) if stream.isatty() else lines), sep="\n", file=stream)


def _parse_delimiter(text: str) -> str:
    r"""Return the argument of --delimiter, with a tab for the two characters ``\t``."""
    # A tab is difficult to type in a shell.
    return "\t" if text == r"\t" else text


class LoadAction(argparse.Action):
    """Option whose value is in place of the arguments `replaces`, which are then not required.

    `usage` lists the arguments beside it.
    """

    def __init__(
        self, *options: Any, replaces: Collection[str], usage: str, **names: Any
    ) -> None:
        super().__init__(*options, **names)
        self.replaces, self.usage = replaces, usage

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: object,
        value: object,
        *_: object,
    ) -> None:
        """Store the value, and do not require the arguments that it replaces."""
        setattr(namespace, self.dest, value)
        for action in parser._actions:
            action.required &= action.dest not in self.replaces


def _add_table(command: argparse.ArgumentParser, help_text: str) -> None:
    """Add the positional argument DATA and the option --delimiter."""
    command.add_argument("data", metavar="DATA", help=help_text)
    _add_delimiter(command)


def _add_delimiter(command: argparse.ArgumentParser) -> None:
    """Add the option --delimiter."""
    command.add_argument(
        "--delimiter",
        type=_parse_delimiter,
        metavar="C",
        help=(
            r"character that separates the values in CSV files that are read, or \t"
            " (default: a comma, and a tab for .tsv)"
        ),
    )


def _add_seed(command: argparse.ArgumentParser) -> None:
    """Add the option --seed; without it, random bits are secure."""
    command.add_argument(
        "--seed",
        dest="random_state",
        metavar="SEED",
        type=int,
        help="seed of reproducible runs, which are not secure (default: secure randomness)",
    )


def _parse_ledger(text: str) -> Path | str:
    """Return the file of a ledger, or its address in PostgreSQL, which must have no password."""
    from skdp.privacy import is_server_address, strip_secrets

    try:
        if not is_server_address(text):
            return Path(text)
    except ValueError as error:
        # argparse shows the text of other errors.
        raise argparse.ArgumentTypeError(str(error).replace("`path`", "it")) from None
    # All users of the machine see the arguments of a command.
    if strip_secrets(text) != text:
        raise argparse.ArgumentTypeError(
            "the address must have no password. Set PGPASSWORD, or use a password file"
        )
    return text


def _add_domain(command: argparse.ArgumentParser, **options: Any) -> None:
    """Add the option --domain to a command, or to a group of its options."""
    command.add_argument(
        "--domain",
        type=Path,
        metavar="FILE",
        help="domain file; draft-domain writes a draft",
        **options,
    )


def _add_release(
    command: argparse.ArgumentParser, loss: str, *, has_domain: bool = False
) -> None:
    """Add the options of a release: --domain, --epsilon, --ledger, --budget, --budget-guess, --budget-delta and --seed.

    The positional argument is the output file, and `loss` is the text of --epsilon. If `has_domain`, the command has
    the option --domain.
    """
    add = command.add_argument
    # Files are never overwritten, so that a second release is deliberate.
    add(
        "out",
        type=Path,
        metavar="OUT",
        help="a new file; - is standard output, as CSV",
    )
    if not has_domain:
        _add_domain(command, required=True)
    add("--epsilon", type=float, required=True, help=loss)
    add(
        "--ledger",
        type=_parse_ledger,
        help="ledger to charge: a file or postgresql://...",
    )
    add("--budget", type=float, help="epsilon of a new ledger")
    add(
        "--budget-guess",
        type=float,
        metavar="GUESS",
        help="guess of a new ledger, in place of --budget; see --guess of skdp table",
    )
    add(
        "--budget-delta",
        type=float,
        default=0.0,
        help="delta of a new ledger (default: 0)",
    )
    add(
        "--title",
        default="",
        metavar="TEXT",
        help="title of the charge in the ledger, and of the statement",
    )
    _add_seed(command)


def _add_guess(command: argparse.ArgumentParser, usage: str) -> None:
    """Add the option --guess of releases in the central model; `usage` has the arguments before it."""
    command.add_argument(
        "--guess",
        type=float,
        action=LoadAction,
        replaces={"epsilon"},
        usage=f"{usage} --guess GUESS [options]",
        help=(
            "in place of --epsilon: largest probability, between 0.5 and 1, that an "
            "attacker guesses right whether a person is in the table (Gaussian noise)"
        ),
    )


def _add_handle_unknown(
    command: argparse.ArgumentParser, choices: list[str], effects: str
) -> None:
    """Add the option --handle-unknown; `effects` describes the choices after "error"."""
    # The default is an error, because all other choices bias the estimates.
    command.add_argument(
        "--handle-unknown",
        choices=choices,
        default="error",
        help=(
            "how to handle an undeclared value: raise an error, which reveals that "
            f"such a value occurs, or {effects} (default: error)"
        ),
    )


def _add_protocol(command: argparse.ArgumentParser) -> None:
    """Add the option --protocol, for CSV files without a protocol file beside them."""
    # Parquet and Arrow files, and tallies, contain their protocol.
    command.add_argument(
        "--protocol",
        type=Path,
        metavar="FILE",
        help="protocol file of the encoder (default: the protocol in or beside the files)",
    )


def _add_report(command: argparse.ArgumentParser) -> None:
    """Add the options of ``skdp report``, which studies the cost of privacy on Adult."""
    add = command.add_argument
    # The page compares all epsilons, so the default has a wide range.
    add(
        "--epsilon",
        dest="epsilons",
        type=float,
        nargs="+",
        default=list(EPSILONS),
        help=f"values of epsilon to compare (default: {' '.join(map(str, EPSILONS))})",
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
        help="number of processes that train classifiers (default: all cores)",
    )


def _add_draft_domain(command: argparse.ArgumentParser) -> None:
    """Add the options of ``skdp draft-domain``, which writes a draft of the declared values of a table."""
    add = command.add_argument
    _add_table(command, f"your table: {TABLE}")
    # The draft contains values of the data, so that the user must edit it.
    add(
        "domain",
        type=Path,
        metavar="DOMAIN",
        help="a new file, .toml; - is standard output",
    )
    add(
        "--bins",
        type=int,
        metavar="N",
        help="largest number of bins of a numeric column (default: bounds without bins)",
    )
    add(
        "--max-values",
        type=int,
        metavar="N",
        default=100,
        help="largest number of values of a non-numeric column (default: 100)",
    )


def _add_synthesize(command: argparse.ArgumentParser) -> None:
    """Add the options of ``skdp synthesize``, which writes synthetic rows of a noisy model of a table."""
    add = command.add_argument
    _add_table(command, f"the private table: {TABLE}")
    _add_release(command, "privacy loss of the table and the model")
    _add_guess(command, "DATA OUT --domain FILE")
    add(
        "--delta",
        type=float,
        default=0.0,
        help="delta of the guarantee, much smaller than 1 / rows (default: 0)",
    )
    add(
        "--marginals",
        choices=MARGINALS,
        default="auto",
        help="marginals to measure (default: auto)",
    )
    add("--target", metavar="COLUMN", help="column that models will predict")
    add(
        "--rows",
        dest="n_samples",
        type=int,
        metavar="N",
        help=(
            "number of rows to write, of people with --events (default: the estimated"
            " number of records)"
        ),
    )
    # If a column identifies people, the guarantee is for all rows of a person.
    add(
        "--max-rows-per-person",
        type=int,
        metavar="N",
        help=(
            "largest number of rows of one person (default: 1; required with --events,"
            " for the events of one person)"
        ),
    )
    add(
        "--events",
        nargs=2,
        metavar=("EVENTS", "EVENTS_OUT"),
        help=(
            "table of events of the people in DATA, and a new file for synthetic events;"
            " both tables are read into memory, and the guarantee covers all rows of"
            " one person in both"
        ),
    )
    add(
        "--order-by",
        metavar="COLUMN",
        help="declared column that orders the events of a person",
    )
    add(
        "--person",
        metavar="COLUMN",
        help=(
            "column that identifies the person of a row: rows of a person above"
            " --max-rows-per-person are excluded, and the guarantee covers all rows of"
            " one person"
        ),
    )
    _add_handle_unknown(
        command,
        ["error", "clip", "ignore"],
        "count the row in the nearest bin, or ignore it",
    )
    # Rows of a saved model are drawn without privacy cost, by post-processing.
    add("--save", type=Path, metavar="MODEL", help="a new file for the fitted model")
    add(
        "--load",
        dest="model",
        type=Path,
        metavar="MODEL",
        action=LoadAction,
        replaces={"out", "domain", "epsilon"},
        usage="OUT --load MODEL [--rows N] [--seed SEED]",
        help=(
            "draw rows of a model that --save wrote, without privacy cost: only OUT,"
            " --rows and --seed are given with it"
        ),
    )


def _add_table_command(command: argparse.ArgumentParser) -> None:
    """Add the options of ``skdp table``, which writes noisy statistics of groups."""
    add = command.add_argument
    _add_table(command, f"the private table: {TABLE}")
    _add_domain(command)
    add(
        "--keys",
        choices=("auto",),
        help=(
            "find the values of the columns --by in this release: those whose count"
            " reaches a threshold; requires --delta, and no domain file"
        ),
    )
    _add_release(command, "privacy loss of all statistics together", has_domain=True)
    _add_guess(command, "DATA OUT")
    add("--by", nargs="+", default=[], metavar="KEY", help="columns of the groups")
    add("--delta", type=float, default=0.0, help="failure probability of --keys auto")
    add(
        "--columns",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help=(
            "numeric columns to measure; ends of bounds that the domain file does not"
            " declare are found with a third of the budget"
        ),
    )
    add(
        "--statistics",
        nargs="+",
        default=["count"],
        metavar="S",
        help=(
            "count, mean, sum, std, var, median, or the probability of a quantile, such"
            " as 0.9 (default: count)"
        ),
    )
    add(
        "--totals",
        nargs="?",
        const=True,
        default=False,
        choices=("quantiles",),
        help=(
            "add the totals over all groups of each key, and of all keys; with the word"
            " quantiles, also totals of quantiles, which use budget"
        ),
    )
    add(
        "--postprocess",
        choices=("none", "simplex"),
        default="none",
        help="simplex: no count or sum is negative (biased; default: none)",
    )
    add(
        "--quality",
        nargs="?",
        const="letters",
        choices=("letters", "suppress"),
        help=(
            "add letters from A to F by coefficients of variation; suppress: leave"
            " estimates of quality F empty"
        ),
    )
    add(
        "--design-effect",
        type=float,
        metavar="X",
        help=(
            "state errors, intervals and letters for a population, of which the rows are"
            " a sample, with the sampling variance times X, such as 1 for a simple random"
            " sample (default: for the table)"
        ),
    )
    add(
        "--weight",
        metavar="COLUMN",
        help=(
            "column of the weights of the rows, with a declared largest weight, as"
            " which larger weights count; a missing weight counts as 0"
        ),
    )
    add(
        "--max-rows-per-person",
        type=int,
        metavar="N",
        default=1,
        help="largest number of rows of one person (default: 1)",
    )
    add(
        "--person",
        metavar="COLUMN",
        help="column that identifies the person of a row",
    )
    _add_handle_unknown(command, ["error", "ignore"], "ignore the row")
    add("--statement", type=Path, metavar="PAGE", help="a new file, .html or .json")
    _add_texts(command, TEXTS[1:])


def _add_texts(
    command: argparse.ArgumentParser, names: Collection[str] = TEXTS
) -> None:
    """Add the options --title, --purpose and --contact of a statement."""
    for name in names:
        command.add_argument(
            f"--{name}", default="", metavar="TEXT", help=f"{name} in the statement"
        )


def _add_privatize(command: argparse.ArgumentParser) -> None:
    """Add the options of ``skdp privatize``, which writes a randomized report of each row.

    They are a table and its delimiter, the options of a release, the transformer, permanent reports, and other columns.
    """
    add = command.add_argument
    _add_table(command, f"the table: {TABLE}")
    _add_release(command, "privacy loss of a row")
    add(
        "--columns",
        nargs="+",
        metavar="COLUMN",
        help="columns to privatize (default: all declared)",
    )
    add(
        "--strategy",
        choices=["split", "joint", "sample"],
        default="split",
        help=(
            "allocation of epsilon: divide it among the columns, report the combination"
            " of all columns, or report one random column per row (default: split)"
        ),
    )
    add(
        "--transformer",
        choices=TRANSFORMER_NAMES,
        metavar="NAME",
        default="randomized_response",
        help=(
            f"protocol of the reports, one of {', '.join(TRANSFORMER_NAMES)}: numeric for"
            " numbers within declared bounds, the others for declared values and bins"
            " (default: randomized_response)"
        ),
    )
    # A protocol file contains all parameters of a transformer.
    add(
        "--load",
        type=Path,
        metavar="PROTOCOL",
        action=LoadAction,
        replaces={"domain", "epsilon"},
        usage="DATA OUT --load PROTOCOL [options]",
        help="protocol file that replaces --domain and the preceding options",
    )
    add(
        "--save",
        type=Path,
        metavar="PROTOCOL",
        help=(
            "a new file for the protocol (default: OUT.protocol.json for CSV; other"
            " formats contain it)"
        ),
    )
    # Permanent reports are computed from the key, the person and the value.
    add(
        "--person",
        metavar="COLUMN",
        help=(
            "column that identifies the person of a row: equal values of a person have"
            " the same report in all releases with one key"
        ),
    )
    key = command.add_mutually_exclusive_group()
    key.add_argument(
        "--secret-key", type=Path, metavar="FILE", help="file of the key of --person"
    )
    key.add_argument(
        "--new-key", type=Path, metavar="FILE", help="a new file for a random key"
    )
    _add_handle_unknown(
        command, ["error", "uniform"], "replace it by a random declared value"
    )
    # Other columns are excluded unless these options name them.
    keep = command.add_mutually_exclusive_group()
    keep.add_argument(
        "--keep",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="columns to release UNPROTECTED",
    )
    keep.add_argument(
        "--keep-all", action="store_true", help="release all other columns UNPROTECTED"
    )


def _add_estimate(command: argparse.ArgumentParser) -> None:
    """Add the options of ``skdp estimate``, which estimates counts or means from reports."""
    add = command.add_argument
    _add_table(command, f"the reports: {REPORTS}; - is standard input, as CSV")
    _add_protocol(command)
    add(
        "--population",
        action="store_true",
        help=(
            "estimate counts of the population from which the rows were sampled"
            " (default: counts of these rows)"
        ),
    )
    add(
        "--postprocess",
        choices=POSTPROCESS_CHOICES,
        default="none",
        help="how to remove negative counts (default: none)",
    )
    add(
        "--confidence-level",
        type=float,
        default=0.95,
        help="coverage of each interval (default: 0.95)",
        metavar="C",
    )
    add(
        "--out",
        type=Path,
        help="a new CSV file, - for standard output (default: print the estimates)",
    )


def _add_tally(command: argparse.ArgumentParser) -> None:
    """Add the options of ``skdp tally``, which adds up the reports of several files."""
    add = command.add_argument
    # Reports and tallies of several collectors are added.
    add("data", nargs="+", metavar="DATA", help=f"reports: {REPORTS}")
    _add_protocol(command)
    _add_delimiter(command)
    add(
        "--out",
        type=Path,
        default=Path("-"),
        help="a new file, .json (default: standard output)",
    )


def _add_statement(command: argparse.ArgumentParser) -> None:
    """Add the options of ``skdp statement``."""
    command.add_argument("source", metavar="SOURCE", help=SOURCES)
    command.add_argument("--out", type=Path, help="a new file, .html or .json")
    _add_texts(command)


# Each command: the module that runs it, the function that adds its options, the option of
# its output with the suffix of a temporary file for standard output, its line in
# ``skdp --help``, and its description.
COMMANDS = {
    "draft-domain": (
        "_release_commands",
        _add_draft_domain,
        ("domain", ".toml"),
        "draft a domain file from a table, for you to edit",
        "Read a table and write a domain file (TOML) for you to edit. The draft "
        "contains values of the data: it is not private until you have replaced them "
        "from public knowledge.",
    ),
    "privatize": (
        "_release_commands",
        _add_privatize,
        ("out", ".csv"),
        "randomize each row of a table",
        "Write a report of each row, from which counts can be estimated (local model)."
        " The names of the files state their formats: CSV (also gzipped), Parquet or"
        " Arrow. All rows are checked before the ledger is charged. Other columns are"
        " excluded, unless --keep names them.",
    ),
    "tally": (
        "_report_commands",
        _add_tally,
        ("out", ".json"),
        "add reports of clients, or tallies of several collectors",
        "Add reports (tables) and tallies (.json) with one protocol, and write the "
        "sums, which skdp estimate reads. Uses no privacy budget.",
    ),
    "estimate": (
        "_report_commands",
        _add_estimate,
        ("out", ".csv"),
        "estimate counts with confidence intervals from reports",
        "Estimate the number of rows with each value, from reports of skdp privatize or"
        " from a tally. Parquet and Arrow files contain their protocol; CSV files have"
        " it in a file beside them, or require --protocol. Uses no privacy budget.",
    ),
    "synthesize": (
        "_release_commands",
        _add_synthesize,
        ("out", ".csv"),
        "write synthetic rows with a privacy guarantee",
        "Measure noisy marginals of a table, and write synthetic rows (central model:"
        " the user is trusted with the table). Only the columns of the domain file are"
        " read. The names of the files state their formats: CSV, Parquet or Arrow.",
    ),
    "table": (
        "_release_commands",
        _add_table_command,
        ("out", ".csv"),
        "write noisy counts, means and quantiles of groups",
        "Write a CSV file with the counts, means, sums and quantiles of all declared"
        " groups of a table, with standard errors and intervals (central model: the"
        " user is trusted with the table). Keys are declared by the domain file, and"
        " bounds are declared or found.",
    ),
    "statement": (
        "_report_commands",
        _add_statement,
        ("out", ""),
        "state the guarantee of reports, a saved model or pipeline, or a ledger, as a page"
        " or as JSON",
        "State the protection of each column, for people who do not run the code. Rows"
        " of files are not read.",
    ),
    "report": (
        "_report_commands",
        _add_report,
        ("out", ""),
        "study the cost of privacy on Adult",
        "Study the cost of privacy (counts, accuracy, fairness, attacks) for age x sex on "
        "Adult. Writes a page, index.html, and its tables. Use "
        "skdp.evaluation.study_report in Python for your own table.",
    ),
}


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Add all commands and their options to the subparsers of argparse.

    The parsed options also have the parser, the module that runs the command, the name of its option for the output,
    and the suffix of the output.
    """
    for name, (module, add_options, output, help_line, description) in COMMANDS.items():
        command = commands.add_parser(name, help=help_line, description=description)
        add_options(command)
        for action in command._actions:
            if isinstance(action, LoadAction):
                usage = command.format_usage().removeprefix("usage: ")
                other = f"{' ' * 7}{command.prog} {action.usage}"
                command.usage = f"{usage}{wrap_text(other, ' ' * 9)}"
        # The parser formats errors, and the module is imported when the command runs.
        command.set_defaults(parser=command, module=module)
        command.set_defaults(output=output[0], suffix=output[1])
