"""Common parts of the commands: parsers of numbers, options, ledgers, progress bars, and streams for files."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from skdp.base import check_confidence_level
from skdp.domain import Domain
from skdp.engines import NoBar, Progress
from skdp.engines.files import check_delimiter
from skdp.privacy import (
    SEARCH_ADVICE,
    BudgetExceeded,
    PrivacyLedger,
    check_delta,
    check_epsilon,
)


def real_number(check: Callable[[float], Any], expected: str) -> Callable[[str], float]:
    """Return a parser of the numbers that pass a check."""

    def parse(text: str) -> float:
        try:
            value = float(text)
            check(value)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{expected}, not {text!r}") from None
        return value

    return parse


def whole_number(least: int, what: str = "expected") -> Callable[[str], int]:
    """Return a parser of whole numbers."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(
                f"{what} a whole number of at least {least}, not {text!r}"
            )
        return int(text)

    return parse


read_epsilon = real_number(check_epsilon, "an epsilon is a finite number > 0")
read_delta = real_number(check_delta, "a delta is a number in [0, 1)")
read_share = real_number(check_confidence_level, "expected a number between 0 and 1")
read_count = whole_number(0)
read_positive = whole_number(1)
read_seed = whole_number(0, "a seed is")


def add_streams(command: Any, output: str, ending: str) -> None:
    """Let ``-`` stand for standard input, and for the output, of an ending's format."""
    command.set_defaults(inputs=("data",), output=output, ending=ending)


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], Any], **texts: str
) -> Any:
    """Add a command, and what runs it."""
    command = commands.add_parser(name, **texts)
    command.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="warning",
        help=(
            "what to log on standard error; no value and no key is ever logged "
            "(default: warning)"
        ),
    )
    command.set_defaults(parser=command, run=run)
    return command


def add_table(command: Any, what: str) -> None:
    """Add the table that a command reads."""
    command.add_argument(
        "data", help=f"{what}: .csv, .tsv, .parquet, .arrow, .feather or .ipc{STREAMS}"
    )
    add_delimiter(command)


def add_delimiter(command: Any) -> None:
    """Add what separates the values of a CSV file that is read."""
    command.add_argument(
        "--delimiter",
        type=_read_delimiter,
        metavar="C",
        help=(
            r"of CSV files that are read: one character, or \t (default: a comma,"
            r" and a "
            "tab for .tsv)"
        ),
    )


def _read_delimiter(text: str) -> str:
    character = "\t" if text == r"\t" else text
    try:
        check_delimiter(character)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return character


def add_release(command: Any) -> None:
    """Add the file that a command releases, and the options of `opened_ledger`."""
    command.add_argument(
        "out",
        type=Path,
        help=(
            "the file to write; one that exists is never overwritten; - is standard "
            "output, as CSV"
        ),
    )
    command.add_argument(
        "--ledger",
        type=Path,
        help="a ledger to charge; it must exist, or be created by --budget",
    )
    command.add_argument(
        "--budget", type=read_epsilon, help="create the ledger, with this epsilon"
    )
    command.add_argument(
        "--budget-delta", type=read_delta, default=0.0, help="its delta (default: 0)"
    )
    add_seed(command)


def add_seed(command: Any) -> None:
    """Add the seed."""
    command.add_argument(
        "--seed",
        type=read_seed,
        help="reproducible, not secure (default: secure random bits)",
    )


def add_domain(command: Any, *, required: bool = True) -> None:
    """Add the domain file."""
    command.add_argument(
        "--domain",
        type=Path,
        required=required,
        help="the domain file; draft-domain writes a draft",
    )


def read_domain_file(path: Path) -> Domain:
    """Read a domain file."""
    try:
        # Each error names the file, as a command may read several.
        return Domain.from_toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no domain file {path}") from None
    except UnicodeDecodeError:
        raise ValueError(f"the domain file {path} is no UTF-8 text") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"domain file {path}: {error}") from None


# What errors of the library say of parameters: ``name=value``, and `name`.
_PARAMETER = re.compile(r"\b([a-z_]+)=(True|False|'[^']*'|[\w.]+)")
_NAME = re.compile(r"`([a-z_]+)`")


def in_flags(text: str, parser: argparse.ArgumentParser) -> str:
    """Replace the parameters that an error names by the options of a command."""
    # The errors of the library name its parameters, and a user of the command has typed
    # options: the options of the command are looked up by the names of parameters.
    options = {}
    for action in parser._actions:
        for option in action.option_strings:
            options[option] = action.dest
    # The name of a parameter alone is the `dest` of its option.
    option_of = {dest: option for option, dest in reversed(options.items())}

    def flag(match: re.Match[str]) -> str:
        name, value = match[1].replace("_", "-"), match[2].strip("'")
        option = f"--no-{name}" if value == "False" else f"--{name}"
        if option not in options:
            return match[0]
        return option if value in ("True", "False") else f"{option} {value}"

    def flag_of_name(match: re.Match[str]) -> str:
        return option_of.get(match[1], match[0])

    return _NAME.sub(flag_of_name, _PARAMETER.sub(flag, text))


def add_handle_unknown(command: Any, choices: list[str], others: str) -> None:
    """Add what to do with values that are not declared."""
    command.add_argument(
        "--handle-unknown",
        choices=choices,
        help=(
            "what to do with an undeclared value: stop (which shows that there is"
            f" one), {others} (default: error)"
        ),
    )


def refuse_options(options: argparse.Namespace, names: Iterable[str], why: str) -> None:
    """Refuse options that do not go with others; None is that of no option."""
    for name in names:
        if getattr(options, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} {why}")


@contextmanager
def opened_ledger(options: argparse.Namespace) -> Iterator[PrivacyLedger | None]:
    """Open or create the ledger to charge; a new one without a charge is removed."""
    # A ledger that was created for a release which then failed would be in the way of the
    # next attempt, whose --budget creates it again.
    ledger = _open_ledger(options)
    try:
        yield ledger
    except BaseException as error:
        if isinstance(error, BudgetExceeded):
            # A command is one release, of which no search makes more, and its ledger is
            # a file.
            reason = str(error).removesuffix(SEARCH_ADVICE)
            error.args = (f"ledger {options.ledger}: {reason}",)
        if ledger is not None and options.budget is not None:
            is_empty = len(ledger.report()) == 0
            if is_empty:
                options.ledger.unlink()
        raise


def _open_ledger(options: argparse.Namespace) -> PrivacyLedger | None:
    if options.ledger is None:
        if options.budget is not None or options.budget_delta:
            raise ValueError("--budget goes with --ledger")
        return None
    if options.budget is None:
        if options.budget_delta:
            raise ValueError("--budget-delta goes with --budget")
        if not options.ledger.exists():
            raise ValueError(
                f"there is no ledger {options.ledger}; --budget creates one"
            )
        return PrivacyLedger(options.ledger)
    # A budget is stated once: a second one for the same ledger would be a new promise for
    # records that the ledger has charges for.
    if options.ledger.exists():
        raise ValueError(
            f"{options.ledger} exists already: leave out --budget, which is given once"
        )
    return PrivacyLedger(
        options.ledger, epsilon=options.budget, delta=options.budget_delta
    )


def add_quiet(command: Any) -> None:
    """Add the option of `bar_of_steps` and `bar_of_rows`."""
    command.add_argument(
        "--quiet",
        action="store_true",
        help=(
            "show no progress, as without a terminal (bars count rows, which is not for "
            "a log that others read)"
        ),
    )


def bar_of_steps(options: argparse.Namespace) -> Callable[[int], Callable[[], Any]]:
    """Return the progress bar in steps, shown on a terminal and unless quiet."""
    return _no_bar_of_steps if options.quiet else _bar_of_steps


def _no_bar_of_steps(total: int) -> Callable[[], Any]:
    return _advance_nothing


def _advance_nothing() -> None:
    """Take the place of a bar."""


def _bar_of_steps(total: int) -> Callable[[], Any]:
    try:
        bar = _bar(total, unit="step")
    except ImportError:
        raise ImportError(
            "this command needs more packages: pip install aif360==0.6.1 "
            "fairlearn matplotlib jinja2 tqdm (extras 'fairness' and 'plot')"
        ) from None

    def advance() -> None:
        bar.update()
        if bar.n == total:
            bar.close()

    return advance


def bar_of_rows(options: argparse.Namespace) -> Progress:
    """Return the progress bar in rows, shown on a terminal if tqdm is installed."""
    return NoBar if options.quiet else _bar_of_rows


def _bar_of_rows(total: int | None) -> Any:
    try:
        return _bar(total, unit="rows", unit_scale=True)
    except ImportError:  # the bar is optional
        return NoBar(total)


def _bar(total: int | None, **options: Any) -> Any:
    from tqdm import tqdm

    return tqdm(
        total=total, file=sys.stderr, dynamic_ncols=True, disable=None, **options
    )


STREAM = "-"
STREAMS = "; - is standard input"

# The first bytes of files, and how their names end; those of other files are CSV.
_ENDINGS = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"{": ".json"}
_START_OF_GZIP = b"\x1f\x8b"
_LONGEST_START = 8


@contextmanager
def redirected(options: argparse.Namespace) -> Iterator[bool]:
    """Put files in the place of streams.

    Yield whether standard output is that of a file, and holds nothing else.
    """
    inputs: tuple[str, ...] = getattr(options, "inputs", ())
    output: str = getattr(options, "output", "")
    is_output = _is_stream(getattr(options, output, None))
    is_input = any(_names_stream(getattr(options, name)) for name in inputs)
    if not is_output and not is_input:
        yield False
        return
    # Its folder is for its owner alone, and removed also where the command fails.
    with TemporaryDirectory() as folder:
        for name in inputs:
            setattr(options, name, _with_file(getattr(options, name), Path(folder)))
        if not is_output:
            yield False
            return
        path = Path(folder, f"standard-output{_ending_of_output(options)}")
        # As the option is: text or a path.
        kind = type(getattr(options, output))
        setattr(options, output, kind(path))
        # What a command prints besides must not be in the table.
        with redirect_stdout(sys.stderr):
            yield True
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)


def _is_stream(place: Any) -> bool:
    return place is not None and str(place) == STREAM


def _names_stream(places: Any) -> bool:
    if isinstance(places, list):
        return any(map(_is_stream, places))
    return _is_stream(places)


def _with_file(places: Any, folder: Path) -> Any:
    """Write standard input to a file, where it is named."""
    if not _names_stream(places):
        return places
    if isinstance(places, list) and sum(map(_is_stream, places)) > 1:
        raise ValueError("standard input (-) is given twice")
    path = _store_input(folder)
    if not isinstance(places, list):
        return type(places)(path)
    return [str(path) if _is_stream(place) else place for place in places]


def _store_input(folder: Path) -> Path:
    """Write standard input to a file, whose ending follows from its first bytes."""
    # A table is read several times (its columns, the check, the reports), and a stream only
    # once: it becomes a file.
    stream = sys.stdin.buffer
    start = stream.read(_LONGEST_START)
    if start.startswith(_START_OF_GZIP):
        raise ValueError("standard input is gzipped: unpack it first, as by gunzip")
    ending = ".csv"
    for start_of_format, ending_of_format in _ENDINGS.items():
        if start.startswith(start_of_format):
            ending = ending_of_format
    path = folder / f"standard-input{ending}"
    with path.open("wb") as file:
        file.write(start)
        shutil.copyfileobj(stream, file)
    return path


def _ending_of_output(options: argparse.Namespace) -> str:
    file_format = getattr(options, "format", None)
    return options.ending if file_format is None else f".{file_format}"
