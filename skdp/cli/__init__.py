"""The command ``skdp``: a thin layer over functions of the library."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from skdp import __version__
from skdp.cli._arguments import in_flags
from skdp.cli._audit import add_audit
from skdp.cli._privatize import add_estimate, add_privatize
from skdp.cli._report import add_report
from skdp.cli._synthesize import add_draft_domain, add_synthesize
from skdp.privacy import BudgetExceeded


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="skdp", description="Differential privacy for scikit-learn work.")
    parser.add_argument("--version", action="version", version=f"skdp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    add_report(commands)
    add_draft_domain(commands)
    add_synthesize(commands)
    add_privatize(commands)
    add_estimate(commands)
    add_audit(commands)
    options = parser.parse_args(arguments)
    try:
        done = options.run(options)
    except (ImportError, OSError, ValueError, TypeError, BudgetExceeded) as error:
        # One line, without the usage: the error may be in a file.
        text = " ".join(" ".join([str(error), *getattr(error, "__notes__", ())]).split())
        options.parser.exit(2, f"{options.parser.prog}: error: {in_flags(text, options.parser)}\n")
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    if isinstance(done, int):
        return done
    print(f"Wrote {done}")
    return 0
