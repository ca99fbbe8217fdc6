"""Common parts of the commands: parsers of numbers, ledgers, and progress bars."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skdp.domain import Domain
from skdp.engines import NoBar, Progress
from skdp.privacy import PrivacyLedger, check_delta, check_epsilon


def read_epsilon(text: str) -> float:
    """Read a privacy loss."""
    try:
        value = float(text)
        check_epsilon(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"an epsilon is a finite number > 0, not {text!r}") from None
    return value


def read_delta(text: str) -> float:
    """Read a failure probability."""
    try:
        value = float(text)
        check_delta(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a delta is a number in [0, 1), not {text!r}") from None
    return value


def whole_number(least: int, what: str = "expected") -> Callable[[str], int]:
    """Return a parser of whole numbers."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{what} a whole number of at least {least}, not {text!r}")
        return int(text)

    return read


read_count, read_positive, read_categories = map(whole_number, (0, 1, 2))
read_seed = whole_number(0, "a seed is")


def read_share(text: str) -> float:
    """Read a share."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1, not {text!r}")
    return value


def read_domain_file(path: Path) -> Domain:
    """Read a domain file."""
    try:
        return Domain.from_toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no domain file {path}") from None
    except UnicodeDecodeError:
        raise ValueError(f"the domain file {path} is no UTF-8 text") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"domain file {path}: {error}") from None


_PARAMETER = re.compile(r"\b([a-z_]+)=(True|False|'[^']*'|[\w.]+)")


def in_flags(text: str, parser: argparse.ArgumentParser) -> str:
    """Replace the parameters that an error names by the options of a command."""

    def flag(found: re.Match[str]) -> str:
        name, value = found[1].replace("_", "-"), found[2].strip("'")
        option = f"--no-{name}" if value == "False" else f"--{name}"
        if option not in parser._option_string_actions:
            return found[0]
        return option if value in ("True", "False") else f"{option} {value}"

    return _PARAMETER.sub(flag, text)


def add_ledger(command: Any) -> None:
    """Add the options of `opened_ledger`."""
    command.add_argument("--ledger", type=Path, help="a ledger to charge; it must exist, or be created by --budget")
    command.add_argument("--budget", type=read_epsilon, help="create the ledger, with this epsilon")
    command.add_argument("--budget-delta", type=read_delta, default=0.0, help="its delta (default: 0)")


@contextmanager
def opened_ledger(options: argparse.Namespace) -> Iterator[PrivacyLedger | None]:
    """Open or create the ledger to charge; a new one is removed if nothing was charged."""
    ledger = _open_ledger(options)
    try:
        yield ledger
    except BaseException:
        if ledger is not None and options.budget is not None and not len(ledger.report()):
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
            raise ValueError(f"there is no ledger {options.ledger}; --budget creates one")
        return PrivacyLedger(options.ledger)
    if options.ledger.exists():
        raise ValueError(f"{options.ledger} exists already: leave out --budget, which is given once")
    return PrivacyLedger(options.ledger, epsilon=options.budget, delta=options.budget_delta)


def add_quiet(command: Any) -> None:
    """Add the option of `bar_of_steps` and `bar_of_rows`."""
    command.add_argument(
        "--quiet",
        action="store_true",
        help="show no progress (which counts the rows, and is not for a log that others read); without a terminal, "
        "none is shown",
    )


def bar_of_steps(options: argparse.Namespace) -> Callable[[int], Callable[[], Any]]:
    """Return the progress bar in steps, shown on a terminal and unless quiet."""
    return (lambda total: lambda: None) if options.quiet else _bar_of_steps


def _bar_of_steps(total: int) -> Callable[[], Any]:
    try:
        from tqdm import tqdm
    except ImportError:
        raise ImportError("this command needs further packages: pip install 'skdp[fairness,plot]'") from None
    bar = tqdm(total=total, unit="step", file=sys.stderr, dynamic_ncols=True, disable=None)

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
        from tqdm import tqdm
    except ImportError:  # the bar is optional
        return NoBar(total)
    return tqdm(total=total, unit="rows", unit_scale=True, file=sys.stderr, dynamic_ncols=True, disable=None)
