"""Common parts of the commands: domain files, ledgers, a progress bar, and streams for files."""

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

from skdp.domain import Domain
from skdp.privacy import BudgetExceeded, PrivacyLedger


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
            error.args = (f"ledger {options.ledger}: {error}",)
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
        return PrivacyLedger(path=options.ledger)
    # A budget is stated once: a second one for the same ledger would be a new promise for
    # records that the ledger has charges for.
    if options.ledger.exists():
        raise ValueError(
            f"{options.ledger} exists already: leave out --budget, which is given once"
        )
    return PrivacyLedger(
        options.budget, delta=options.budget_delta, path=options.ledger
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
        from tqdm import tqdm
    except ImportError:
        raise ImportError(
            "this command needs more packages: pip install aif360==0.6.1 "
            "fairlearn matplotlib jinja2 tqdm (extras 'fairness' and 'plot')"
        ) from None
    bar = tqdm(
        total=total, file=sys.stderr, dynamic_ncols=True, disable=None, unit="step"
    )

    def advance() -> None:
        bar.update()
        if bar.n == total:
            bar.close()

    return advance


STREAM = "-"

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
