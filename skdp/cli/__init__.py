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

# Each command: the module whose function ``add_<command>`` declares its options, and its line in ``skdp --help``.
# The modules are imported when their command runs, since the libraries that they need take seconds.
_COMMANDS = {
    "report": (
        "_evaluate",
        "show what differential privacy costs, on Adult or on your own table",
    ),
    "draft-domain": (
        "_synthesize",
        "write a first draft of a domain file, to be edited",
    ),
    "plan": (
        "_plan",
        "find the epsilon, or the number of rows, that a wanted accuracy needs",
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
        "state the guarantee of reports, a model, a ledger or a pipeline, as a page or as JSON",
    ),
    "audit": ("_evaluate", "try to refute the guarantees of the local transformers"),
}

_REFUSED, _EXHAUSTED = 2, 3
_STATUSES = (
    "exit status: 0 if all is done; 2 for an error, such as wrong options, a file that cannot be read, or a value that "
    "is not declared; 3 if the budget of a ledger does not cover the release, of which nothing is written; 130 if "
    "stopped by Ctrl-C; 141 if the reader of the output has ended"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="skdp",
        description="Differential privacy for scikit-learn work.",
        epilog=_STATUSES,
    )
    parser.add_argument("--version", action="version", version=f"skdp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    given = sys.argv[1:] if arguments is None else arguments
    command = next(
        (argument for argument in given if not argument.startswith("-")), None
    )
    for name, (module, help_line) in _COMMANDS.items():
        if name == command:
            add = getattr(
                import_module(f"skdp.cli.{module}"), f"add_{name.replace('-', '_')}"
            )
            add(commands)
        else:
            commands.add_parser(name, help=help_line)
    options = parser.parse_args(given)

    from skdp.cli._streams import redirected
    from skdp.privacy import BudgetExceeded

    try:
        with (
            _logged(options.log_level),
            _warnings_in_a_line(options.parser),
            redirected(options) as options.to_stream,
        ):
            done = options.run(options)
            if not isinstance(done, int) and not options.to_stream:
                print(f"Wrote {done}")
        sys.stdout.flush()
    except KeyboardInterrupt as stopped:
        print(_in_one_line("Stopped.", stopped, options.parser), file=sys.stderr)
        return 130
    except BudgetExceeded as error:
        options.parser.exit(_EXHAUSTED, _error_line(error, options.parser))
    except (ImportError, OSError, ValueError, TypeError) as error:
        if isinstance(error, BrokenPipeError) and _is_unread():
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
            )  # Python writes what is left at its end
            return 141  # as a shell says of a command whose reader, such as head, has ended
        options.parser.exit(_REFUSED, _error_line(error, options.parser))
    return done if isinstance(done, int) else 0


def _is_unread() -> bool:
    """Return whether standard output is a pipe that nobody reads any more; False where the system has no poll."""
    with suppress(OSError, AttributeError):
        output = select.poll()
        output.register(sys.stdout.fileno(), 0)
        return bool(output.poll(0))
    return False


@contextmanager
def _logged(level: str) -> Iterator[None]:
    """Write what skdp logs to standard error."""
    logger, handler = logging.getLogger("skdp"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@contextmanager
def _warnings_in_a_line(parser: argparse.ArgumentParser) -> Iterator[None]:
    """Show warnings as errors are shown: without the line of Python that warns."""

    def show(message: Warning | str, *_: object) -> None:
        print(
            f"{parser.prog}: warning: {in_flags(' '.join(str(message).split()), parser)}",
            file=sys.stderr,
        )

    from skdp.cli._arguments import in_flags

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

    return in_flags(
        " ".join(" ".join([text, *getattr(error, "__notes__", ())]).split()), parser
    )
