"""The command ``skdp``: a thin layer over functions of the library."""

from __future__ import annotations

import argparse
import logging
import os
import select
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module

from skdp import __version__
from skdp.cli._options import add_commands

# Exit statuses. The last two are those that a shell gives to a command that a signal has
# ended: 128 and the number of the signal.
_ERROR = 2
_BUDGET_EXCEEDED = 3
_INTERRUPTED = 130
_OUTPUT_CLOSED = 141
_STATUSES = (
    "exit status: 0 if all is done; 2 for an error, such as wrong options, a file that "
    "cannot be read, or a value that is not declared; 3 if the budget of a ledger does "
    "not cover the release, of which nothing is written; 130 if stopped by Ctrl-C; 141 "
    "if the reader of the output has ended"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit status."""
    if arguments is None:
        arguments = sys.argv[1:]
    options = _parse(arguments)
    parser: argparse.ArgumentParser = options.parser

    from skdp.privacy import BudgetExceeded

    try:
        return _run(options)
    except KeyboardInterrupt as error:
        print(_in_one_line("Stopped.", error, parser), file=sys.stderr)
        return _INTERRUPTED
    except BudgetExceeded as error:
        parser.exit(_BUDGET_EXCEEDED, _error_line(error, parser))
    except (ImportError, OSError, ValueError, TypeError) as error:
        if isinstance(error, BrokenPipeError) and _is_unread():
            # Python writes what is in its buffer when it ends: to nobody.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            return _OUTPUT_CLOSED
        parser.exit(_ERROR, _error_line(error, parser))


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(
        prog="skdp",
        description="Differential privacy for scikit-learn work.",
        epilog=_STATUSES,
    )
    parser.add_argument("--version", action="version", version=f"skdp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    add_commands(commands)
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace) -> int:
    """Run a command, and return its exit status."""
    from skdp.cli._arguments import redirected

    with (
        _log_to_stderr(options.log_level),
        _warnings_in_a_line(options.parser),
        redirected(options) as options.to_stream,
    ):
        # A command returns a status, or the path that it has written.
        module = import_module(f"skdp.cli.{options.module}")
        run = getattr(module, f"run_{options.command.replace('-', '_')}")
        result = run(options)
        # What is written to standard output is the table alone.
        is_status = isinstance(result, int)
        if not is_status and not options.to_stream:
            print(f"Wrote {result}")
    sys.stdout.flush()
    return result if is_status else 0


def _is_unread() -> bool:
    """Return whether standard output is a pipe that nobody reads any more."""
    # False where the system has no poll.
    with suppress(OSError, AttributeError):
        output = select.poll()
        output.register(sys.stdout.fileno(), 0)
        return bool(output.poll(0))
    return False


@contextmanager
def _log_to_stderr(level: str) -> Iterator[None]:
    """Write what skdp logs to standard error."""
    logger = logging.getLogger("skdp")
    handler = logging.StreamHandler(sys.stderr)
    line = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    handler.setFormatter(logging.Formatter(line))
    level_before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level_before)


@contextmanager
def _warnings_in_a_line(parser: argparse.ArgumentParser) -> Iterator[None]:
    """Show warnings as errors are shown: without the line of Python that warns."""
    from skdp.cli._arguments import in_flags

    def show(message: Warning | str, *_: object) -> None:
        line = " ".join(str(message).split())
        print(f"{parser.prog}: warning: {in_flags(line, parser)}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _error_line(error: Exception, parser: argparse.ArgumentParser) -> str:
    return f"{parser.prog}: error: {_in_one_line(str(error), error, parser)}\n"


def _in_one_line(
    text: str, error: BaseException, parser: argparse.ArgumentParser
) -> str:
    """Write an error and its notes, without the usage: the error may be in a file."""
    from skdp.cli._arguments import in_flags

    # Notes say what can still be done.
    notes = getattr(error, "__notes__", ())
    words = " ".join([text, *notes]).split()
    return in_flags(" ".join(words), parser)
