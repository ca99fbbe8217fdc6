"""Command line ``skdp``, which calls functions of the library."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import NoReturn

from skdp import __version__
from skdp.cli._options import add_commands, escape_text, print_text, wrap_text

# Statuses above 128 are 128 plus the number of the signal that ended a command, as in shells.
STATUSES = (
    "exit status: 0 for success; 2 for an error, such as wrong options, a file that "
    "cannot be read, or an undeclared value; 3 if the release would exceed the budget "
    "of the ledger (nothing is written); 130 if stopped by Ctrl-C, 143 by SIGTERM and "
    "129 by SIGHUP; 141 if the reader of the output has ended"
)

EXAMPLE = """\
example:
  skdp draft-domain people.csv people.toml  # then edit it
  skdp privatize people.csv reports.csv \\
      --domain people.toml --epsilon 1
  skdp estimate reports.csv
"""

# Declarations that messages of the library name, and what declares the same in a domain file.
DOMAIN_FILE = {
    "None": "missing = true",
    "Interval": "entry of the domain file",
    "bounds": "entry",
}
ARGUMENTS = ("low", "high", "missing", "real", "decimals")

# Name of standard input and output.
STREAM = "-"


class Stopped(KeyboardInterrupt):
    """A signal that stops the command.

    If a `KeyboardInterrupt` itself ends code that Python compiles from text, such as methods of dataclasses, the
    process ends with the status of SIGINT.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    try:
        with _stop_at_signals():
            return _run(arguments)
    except KeyboardInterrupt as stopped:
        print("Stopped. A charge to a ledger remains.", file=sys.stderr)
        return 128 + (stopped.args or (signal.SIGINT,))[0]


@contextmanager
def _stop_at_signals() -> Iterator[None]:
    """Convert SIGTERM and SIGHUP to `Stopped`, so that temporary files are removed as after Ctrl-C."""

    def stop(number: int, _: object) -> None:
        raise Stopped(number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            # nohup ignores SIGHUP.
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class OneLineParser(argparse.ArgumentParser):
    """Parser of options whose errors are one line, like other errors of the commands."""

    def error(self, message: str) -> NoReturn:
        """Print an error of the options, and exit."""
        self.exit(2, _format(f"{message}; see {self.prog} --help", self))


def _run(arguments: Sequence[str] | None) -> int:
    """Parse the arguments and run a command; return the exit status."""
    parser = OneLineParser(
        prog="skdp",
        description="Differential privacy for scikit-learn.",
        # Lines of the example are not wrapped.
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"{EXAMPLE}\n{wrap_text(STATUSES)}",
    )
    parser.add_argument("--version", action="version", version=f"skdp {__version__}")
    add_commands(parser.add_subparsers(dest="command", metavar="COMMAND"))
    options, unknown = parser.parse_known_args(arguments)
    if unknown:  # with the name of the command, whose help lists its options
        text = f"unrecognized arguments: {' '.join(unknown)}"
        getattr(options, "parser", parser).error(text)
    if options.command is None:
        parser.print_help()
        return 0
    command: argparse.ArgumentParser = options.parser
    _move_output(options)

    # Imported after the options are parsed, so that --help does not wait for it.
    from skdp.base import show_progress
    from skdp.privacy import BudgetExceeded

    try:
        with _print_warnings(command), _replace_streams(options), show_progress():
            _run_command(options)
        sys.stdout.flush()
        return 0
    except BudgetExceeded as error:
        text = str(error)
        if getattr(options, "guess", None) is not None:
            text = text.replace("`epsilon`", "`guess`")
        if "`delta=`" in error.remedy:
            remedy = "Decrease --delta, or use a ledger in a new file with a larger --budget-delta."
            text = text.replace(error.remedy, remedy)
        text = (
            f"ledger {options.ledger}: {text} --budget and --budget-delta, or "
            "--budget-guess, are the budget of a new ledger."
        )
        command.exit(3, _format(text, command))
    except BrokenPipeError:
        # Python flushes standard output at exit, which would raise the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ImportError, OSError, ValueError, TypeError) as error:
        # Some errors state the remedy in their notes.
        text = " ".join([_describe_error(error), *getattr(error, "__notes__", ())])
        if options.has_stream:
            text = text.replace(
                str(getattr(options, options.output)), "standard output"
            )
        command.exit(2, _format(text, command))


def _move_output(options: argparse.Namespace) -> None:
    """Move the only file beside ``--load MODEL`` from DATA, as which it is parsed, to OUT."""
    if getattr(options, "model", None) is not None:
        if options.out is not None:
            options.parser.error("--load requires the name of one file, OUT")
        options.out, options.data = Path(options.data), None


def _describe_error(error: BaseException) -> str:
    """Return the text of an error; errors of the operating system name the file without an error number."""
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    if isinstance(error, FileNotFoundError):
        return f"There is no file {error.filename}."
    return f"{error.filename}: {error.strerror}."


def _run_command(options: argparse.Namespace) -> None:
    """Run the function ``run_COMMAND`` of the module of a command, and print its output path."""
    # The module is imported here because its imports take seconds, which --help avoids.
    module = import_module(f"skdp.cli.{options.module}")
    run_command = getattr(module, f"run_{options.command.replace('-', '_')}")
    path = run_command(options)
    if path is not None:
        print_text(f"Wrote {'standard output' if options.has_stream else path}")


@contextmanager
def _print_warnings(parser: argparse.ArgumentParser) -> Iterator[None]:
    """Print warnings to standard error in the format of errors, without a line of code."""

    def show(message: Warning | str, *_: object) -> None:
        """Print a warning as one line; replaces `warnings.showwarning`."""
        print(_format(str(message), parser, "warning"), end="", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _format(text: str, parser: argparse.ArgumentParser, level: str = "error") -> str:
    """Format an error or warning of the library as one line, with options instead of parameters."""
    line = _replace_parameter_names(text, parser)
    line = escape_text(f"{parser.prog}: {level}: {' '.join(line.split())}")
    return f"{wrap_text(line) if sys.stderr.isatty() else line}\n"


def _replace_parameter_names(text: str, parser: argparse.ArgumentParser) -> str:
    """Replace parameters and declarations in backticks by options and entries of a domain file."""
    names = {}
    for action in parser._actions:
        if action.option_strings:
            names[action.dest] = action.option_strings[0]
        elif isinstance(action.metavar, str):  # a positional argument
            names[action.dest] = action.metavar
        if isinstance(action.metavar, tuple):
            names |= {value.lower(): value for value in action.metavar}
    reads_domain = parser.get_default("module") == "_release_commands"

    def spell(match: re.Match[str]) -> str:
        """Return a name, with its value if it has one, in the spelling of the command."""
        name, value = match.groups()
        if name in names:
            is_flag = value in (None, "", "True")
            option = names[name]
            return option if is_flag else option + " " + value.strip("'")
        if reads_domain and name in ARGUMENTS and value:
            return f"{name} = {value.lower()}"
        return DOMAIN_FILE.get(name, match[0]) if reads_domain else match[0]

    if reads_domain:
        entry = "the entry in the domain file for column"
        text = text.replace("`bounds` of column", entry)
    return re.sub("`(\\w+)(?:=(.*?))?`", spell, text)


@contextmanager
def _replace_streams(options: argparse.Namespace) -> Iterator[None]:
    """Replace standard input and output (-) in the options by files, within a ``with`` block.

    Standard input is copied to its file before the block, and the file of the output is printed after it.
    """
    # `options.output` is the name of the option for the output, such as "out".
    out = getattr(options, options.output)
    has_output = options.has_stream = str(out) == STREAM
    if has_output and not options.suffix:
        options.parser.error(f"--{options.output} must be a file or folder, got -")
    # Only the user can read the temporary folder.
    with TemporaryDirectory() as folder, ExitStack() as files:
        if getattr(options, "data", None) == STREAM:
            path = Path(folder, "standard-input.csv")
            files.enter_context(_store_input(path))
            options.data = str(path)
        if not has_output:
            yield
            return
        path_of_output = Path(folder, f"standard-output{options.suffix}")
        setattr(options, options.output, path_of_output)
        # Messages are printed to standard error, and the table to standard output.
        with redirect_stdout(sys.stderr):
            yield
        with path_of_output.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)


@contextmanager
def _store_input(path: Path) -> Iterator[None]:
    """Store standard input, which can be read only once, in a file that is read at `path` within a ``with`` block."""
    # On Linux, the file has no name, so that nothing remains if the process is killed.
    has_no_name = sys.platform == "linux"
    with TemporaryFile() if has_no_name else path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        if has_no_name:
            path.symlink_to(f"/proc/{os.getpid()}/fd/{file.fileno()}")
        yield
