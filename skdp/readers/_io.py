"""Imports of optional libraries, errors without values of the data, and atomic writing of files."""

from __future__ import annotations

import atexit
import importlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from skdp._arrays import PathType

Returned = TypeVar("Returned")

# Optional libraries


def import_extra(
    module: str, extra: str, requires: str = "This function requires"
) -> Any:
    """Import a module of an optional dependency; `extra` is the extra of skdp to install."""
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{requires} {package}, which is not installed. Use `pip install {package}` "
            f"(extra {extra!r})."
        ) from error


class Extra:
    """Module of an optional dependency, which is imported at the first use of an attribute."""

    def __init__(self, module: str, extra: str = "duckdb") -> None:
        self._module, self._extra = module, extra
        self._imported: Any = None

    def __getattr__(self, name: str) -> Any:
        """Import the module and return its attribute."""
        # Inspection, such as by doctest, must not import the module.
        if name.startswith("__"):
            raise AttributeError(name)
        if self._imported is None:
            self._imported = import_extra(self._module, self._extra)
        return getattr(self._imported, name)


# Errors. The text of an error of an engine may contain values of a row.

# Errors that are raised unchanged, because their text contains no value.
_WITHOUT_VALUES = (
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    ImportError,
    MemoryError,
)


# Part of an error of a Spark worker that cannot import a module, or runs another Python.
# Other names of modules may be values.
_WORKER_ERROR = re.compile(
    r"No module named '(skdp|numpy|pandas|pyarrow|narwhals|scipy|sklearn|joblib)['.]"
    r"|\[PYTHON_VERSION_MISMATCH\]"
)


class RefusedBatch(ValueError):
    """Error in a batch of rows. Its message contains no values, so a worker may send it to other machines."""


class RefusedType(RefusedBatch, TypeError):
    """Error for a column of the wrong type in a batch. Its message contains no values."""


def run_safely(work: Callable[[], Returned]) -> Returned:
    """Call a function that reads rows, and replace its errors by errors without values."""
    try:
        return work()
    except (RefusedBatch, *_WITHOUT_VALUES):
        raise
    # Panics of Polars do not inherit from Exception.
    except BaseException as error:
        module = _WORKER_ERROR.search(str(error))
        if isinstance(error, OSError) and error.errno is not None:
            safe: Exception = OSError(error.errno, os.strerror(error.errno))
        elif module is not None:
            problem = (
                f"must have the module {module[1]!r}, which is not installed there"
            )
            if module[1] is None:
                problem = "must run the Python version of this process, got another one"
            safe = ImportError(
                f"All workers {problem}. Install skdp with its extras in this Python on "
                "all workers, and set PYSPARK_PYTHON to its path before Spark starts."
            )
        else:
            safe = RefusedBatch(
                f"The rows cannot be read or privatized ({type(error).__name__}). The "
                "text of this error is omitted because it may contain values."
            )
    # Outside of the handler, so that the error of the engine is not its context.
    raise safe


def read_safely(batches: Iterable[Returned]) -> Generator[Returned, None, None]:
    """Iterate over a stream of an engine, and replace its errors by errors without values."""
    iterator, end = iter(batches), object()
    while (batch := run_safely(lambda: next(iterator, end))) is not end:
        yield batch  # type: ignore[misc]


def run_check(work: Callable[[], Returned]) -> Returned:
    """Call a check of a batch, and convert its errors, which contain no values, to `RefusedBatch`."""
    try:
        return work()
    except (TypeError, ValueError) as error:
        error_type = RefusedType if isinstance(error, TypeError) else RefusedBatch
        raise error_type(str(error)) from None


# Files

# End of the name of the protocol file beside a CSV file of reports.
PROTOCOL_SUFFIX = ".protocol.json"


def check_path(path: PathType | None, parameter: str = "path") -> Path | None:
    """Return the absolute path of a new file; raise an error if it exists or its directory does not."""
    if path is None:
        return None
    destination = Path(path).absolute()
    # The protocol of earlier reports would be read with the new file.
    for name in (path, f"{path}{PROTOCOL_SUFFIX}"):
        if Path(name).exists():
            raise FileExistsError(
                f"`{parameter}` must be a new file, got {str(name)!r}, which exists. A "
                "release is never overwritten."
            )
    if not destination.parent.is_dir():
        raise FileNotFoundError(
            f"`{parameter}` must be in an existing directory, got {str(path)!r}."
        )
    return destination


@contextmanager
def open_output(
    path: Path, *, mode: int = 0o666, is_folder: bool = False
) -> Iterator[Path]:
    """Create a new file or folder beside `path`, yield its path, and rename it to `path` at the end.

    Enter the context before a charge: a folder that cannot be written, a full disk, and another process that writes the
    same output raise an error, and later errors leave no file.
    """
    check_path(path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        _create(partial, mode, is_folder=is_folder)
    except FileExistsError:
        raise FileExistsError(
            f"{str(path)!r} must not be written by two processes. If a process was "
            f"killed, delete {str(partial)!r}."
        ) from None
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), str(path)) from None
    try:
        # Another process may have created the file in the meantime.
        check_path(path)
        yield partial
        check_path(path)
        partial.rename(path)
    except BaseException:
        _remove(partial)
        raise


def _create(path: Path, mode: int, *, is_folder: bool) -> None:
    """Create an empty file or folder, which can be written."""
    if is_folder:
        path.mkdir()
        return
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            # A full disk is found before a charge.
            file.write(bytes(1 << 16))
            file.flush()
            os.fsync(file.fileno())
            file.truncate(0)
    except BaseException:
        _remove(path)
        raise


def _remove(path: Path) -> None:
    """Remove a file, or a folder with its files."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def make_temporary_path() -> Path:
    """Return a path in a new temporary folder that is deleted when Python exits."""
    folder = tempfile.mkdtemp(prefix="skdp-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / "reports"
