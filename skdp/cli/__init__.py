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

# Each command: the module whose function ``add_<command>`` declares its options, and its
# line in ``skdp --help``. The modules are imported when their command runs, since the
# libraries that they need take seconds.
_COMMANDS = {
    "report": (
        "_report",
        "show what differential privacy costs, on Adult or on your own table",
    ),
    "draft-domain": (
        "_synthesize",
        "write a first draft of a domain file, to be edited",
    ),
    "synthesize": ("_synthesize", "write a synthetic table that may be shared"),
    "privatize": (
        "_privatize",
        "randomise each row of a table, for recipients that are not trusted with it",
    ),
    "estimate": ("_estimate", "estimate counts from privatised rows"),
    "tally": ("_estimate", "sum up reports of clients, or tallies of many collectors"),
    "statement": (
        "_statement",
        (
            "state the guarantee of reports, a model, a ledger or a pipeline, as a page"
            " or as JSON"
        ),
    ),
}

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
    """Read the arguments by the options of the command that they name."""
    parser = argparse.ArgumentParser(
        prog="skdp",
        description="Differential privacy for scikit-learn work.",
        epilog=_STATUSES,
    )
    parser.add_argument("--version", action="version", version=f"skdp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    # Only the module of the named command is imported; the others are listed with their
    # lines of help, so that `skdp --help` takes no seconds.
    words = [argument for argument in arguments if not argument.startswith("-")]
    for name, (module_name, help_line) in _COMMANDS.items():
        if name in words[:1]:
            module = import_module(f"skdp.cli.{module_name}")
            add_command = getattr(module, f"add_{name.replace('-', '_')}")
            add_command(commands)
        else:
            commands.add_parser(name, help=help_line)
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
        result = options.run(options)
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
