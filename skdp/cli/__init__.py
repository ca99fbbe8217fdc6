"""The command ``skdp``: a thin layer over functions of the library."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from skdp import __version__
from skdp.cli._options import add_commands

# Exit statuses. A shell gives the last two to a command that a signal has ended: 128 and
# the number of the signal.
ERROR = 2
BUDGET_EXCEEDED = 3
INTERRUPTED = 130
OUTPUT_CLOSED = 141
STATUSES = (
    "exit status: 0 for success; 2 for an error, such as wrong options, a file that "
    "cannot be read, or an undeclared value; 3 if the release would exceed the budget of "
    "the ledger (nothing is written); 130 if stopped by Ctrl-C; 141 if the reader of the "
    "output has ended"
)

STREAM = "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="skdp",
        description="Differential privacy for scikit-learn.",
        epilog=STATUSES,
    )
    parser.add_argument("--version", action="version", version=f"skdp {__version__}")
    add_commands(parser.add_subparsers(dest="command", required=True))
    options = parser.parse_args(arguments)
    command: argparse.ArgumentParser = options.parser

    from skdp.privacy import BudgetExceeded

    try:
        with _print_warnings(command), _replace_streams(options):
            _run(options)
        sys.stdout.flush()
        return 0
    except KeyboardInterrupt:
        print("Stopped. A charge to a ledger remains.", file=sys.stderr)
        return INTERRUPTED
    except BudgetExceeded as error:
        command.exit(
            BUDGET_EXCEEDED, _format(f"ledger {options.ledger}: {error}", command)
        )
    except BrokenPipeError:
        # Python flushes its buffer at exit, which would raise the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OUTPUT_CLOSED
    except (ImportError, OSError, ValueError, TypeError) as error:
        # Notes of an error state the remedy.
        text = " ".join([str(error), *getattr(error, "__notes__", ())])
        command.exit(ERROR, _format(text, command))


def _run(options: argparse.Namespace) -> None:
    """Run a command; only its module imports the library."""
    # Imported here because imports take seconds, which --help must avoid.
    module = import_module(f"skdp.cli.{options.module}")
    written = getattr(module, f"run_{options.command.replace('-', '_')}")(options)
    if written is not None:
        print(f"Wrote {written}")


@contextmanager
def _print_warnings(parser: argparse.ArgumentParser) -> Iterator[None]:
    """Print warnings like errors, without the line of code."""

    def show(message: Warning | str, *_: object) -> None:
        print(_format(str(message), parser, "warning"), end="", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _format(text: str, parser: argparse.ArgumentParser, kind: str = "error") -> str:
    """Format a message in one line, with options in place of parameters."""
    # Messages of the library name parameters, so they are replaced by the options that
    # users typed.
    for action in parser._actions:
        if action.option_strings:
            option = action.option_strings[0]
            text = re.sub(rf"\b{action.dest}=", f"{option} ", text)
            text = text.replace(f"`{action.dest}`", option)
    return f"{parser.prog}: {kind}: {' '.join(text.split())}\n"


@contextmanager
def _replace_streams(options: argparse.Namespace) -> Iterator[None]:
    """Replace standard input and output (-) by temporary files."""
    out = getattr(options, options.output)
    has_output = str(out) == STREAM
    # A stream can be read once only, but tables are read several times, so it is stored in a folder that only its owner
    # can read.
    with TemporaryDirectory() as folder:
        if getattr(options, "data", None) == STREAM:
            options.data = str(Path(folder, "standard-input.csv"))
            with open(options.data, "wb") as stored:
                shutil.copyfileobj(sys.stdin.buffer, stored)
        if not has_output:
            yield
            return
        path_of_output = Path(folder, f"standard-output{options.suffix}")
        setattr(options, options.output, path_of_output)
        # Only the table goes to standard output.
        with redirect_stdout(sys.stderr):
            yield
        with path_of_output.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
