"""The command ``skdp``: a thin layer over functions of the library."""

from __future__ import annotations

import argparse
import logging
import os
import select
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from skdp import __version__
from skdp.cli._arguments import in_flags
from skdp.cli._estimate import add_estimate, add_tally
from skdp.cli._evaluate import add_audit, add_report
from skdp.cli._plan import add_plan
from skdp.cli._privatize import add_privatize
from skdp.cli._statement import add_statement
from skdp.cli._streams import redirected
from skdp.cli._synthesize import add_draft_domain, add_synthesize
from skdp.privacy import BudgetExceeded

_COMMANDS = (
    *(add_report, add_draft_domain, add_plan, add_synthesize, add_privatize),
    *(add_estimate, add_tally, add_statement, add_audit),
)

_REFUSED, _EXHAUSTED = 2, 3
_STATUSES = (
    "exit status: 0 if all is done; 2 for an error, such as wrong options, a file that cannot be read, or a value that "
    "is not declared; 3 if the budget of a ledger does not cover the release, of which nothing is written; 130 if "
    "stopped by Ctrl-C; 141 if the reader of the output has ended"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="skdp", description="Differential privacy for scikit-learn work.", epilog=_STATUSES
    )
    parser.add_argument("--version", action="version", version=f"skdp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    for add in _COMMANDS:
        add(commands)
    options = parser.parse_args(arguments)
    try:
        with _logged(options.log_level), redirected(options) as options.to_stream:
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
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes what is left at its end
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
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def _error_line(error: Exception, parser: argparse.ArgumentParser) -> str:
    return f"{parser.prog}: error: {_in_one_line(str(error), error, parser)}\n"


def _in_one_line(text: str, error: BaseException, parser: argparse.ArgumentParser) -> str:
    """Write an error and its notes, without the usage: the error may be in a file."""
    return in_flags(" ".join(" ".join([text, *getattr(error, "__notes__", ())]).split()), parser)
