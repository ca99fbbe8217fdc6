"""Optional libraries, errors without values, and files that are complete or absent."""

from __future__ import annotations

import atexit
import importlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

# Optional libraries


def import_extra(module: str, extra: str) -> Any:
    """Import a module that an engine requires."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{package} is needed here: pip install {package} (extra {extra!r})"
        ) from error


class Extra:
    """A module of an extra, imported when one of its attributes is used."""

    def __init__(self, module: str, extra: str = "duckdb") -> None:
        self._module, self._extra = module, extra

    def __getattr__(self, name: str) -> Any:
        # Inspection, such as by doctest, must not import the module.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_extra(self._module, self._extra), name)


# Errors. The text of an engine's error may contain a row.

# These errors are raised unchanged, because their texts contain no row.
_WITHOUT_VALUES = (
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    ImportError,
    MemoryError,
)


class RefusedBatch(ValueError):
    """An error without values of the table, which workers can send."""


class RefusedType(RefusedBatch, TypeError):
    """The same, for a column of another type."""


def run_safely(work: Callable[[], T]) -> T:
    """Call code that reads rows, and replace its errors by errors that show no value."""
    try:
        return work()
    except (RefusedBatch, *_WITHOUT_VALUES):
        raise
    # Panics of Polars do not inherit from Exception.
    except BaseException as error:
        if isinstance(error, OSError) and error.errno is not None:
            safe: Exception = OSError(error.errno, os.strerror(error.errno))
        else:
            safe = RefusedBatch(
                f"The rows cannot be read or privatized ({type(error).__name__}). The "
                "text of this error is not shown, as it may contain values"
            )
        raise safe from None


def read_safely(batches: Iterable[T]) -> Generator[T, None, None]:
    """Read a stream of an engine."""
    iterator, end = iter(batches), object()
    while (batch := run_safely(lambda: next(iterator, end))) is not end:
        yield batch  # type: ignore[misc]


def run_check(work: Callable[[], T]) -> T:
    """Call a check of a batch; its errors, which contain no values, become refusals."""
    try:
        return work()
    except (TypeError, ValueError) as error:
        error_type = RefusedType if isinstance(error, TypeError) else RefusedBatch
        raise error_type(str(error)) from None


# Files


def check_path(path: Any) -> Path | None:
    """Check the path of a new release."""
    if path is None:
        return None
    target = Path(path).absolute()
    if target.exists():
        raise FileExistsError(
            f"path {str(path)!r} exists already; a release is never overwritten"
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"path {str(path)!r} is in a directory that does not exist"
        )
    return target


def check_target(path: Any) -> Path:
    """Check the path of a new file, which is required."""
    target = check_path(path)
    if target is None:
        raise TypeError("target must be a str or a path, got NoneType")
    return target


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Write a file or a directory under a temporary name, and rename it when it is complete."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        yield partial
        # Another process may have written it meanwhile.
        check_path(path)
        partial.rename(path)
    except BaseException:
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)
        raise


def make_temporary_path() -> Path:
    """Name a file or directory that is deleted when Python ends."""
    folder = tempfile.mkdtemp(prefix="skdp-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / "reports"
