"""Finished cells of a privacy curve in a folder, to resume an interrupted run."""

from __future__ import annotations

import dis
import inspect
import json
import os
import tempfile
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from joblib.hashing import NumpyHasher

from skdp.privacy import PrivacyLedger

Row = tuple[str, Any, float]
"""Metric, group and value."""


_READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
"""The names of Python's instructions that read a global variable."""


class _Hasher(NumpyHasher):
    """Distinguish functions by their code and the globals they read, not by name; ignore the charges of a ledger."""

    def __init__(self) -> None:
        super().__init__(hash_name="sha1")
        self._met: set[int] = set()

    def save(self, obj: Any) -> None:
        if isinstance(obj, PrivacyLedger):
            obj = "a ledger"
        elif isinstance(obj, CodeType):
            obj = "code", obj.co_code, obj.co_names, obj.co_consts
        elif isinstance(obj, frozenset):
            obj = "frozenset", set(obj)
        elif isinstance(obj, FunctionType):
            obj = self._described(obj)
        super().save(obj)

    def _described(self, function: FunctionType) -> tuple[Any, ...]:
        """Describe a function by its code, its closure and the global variables that it reads."""
        name = function.__module__, function.__qualname__
        if id(function) in self._met:  # it may refer to itself
            return name
        self._met.add(id(function))
        made = "<" in function.__qualname__
        own = function if made else inspect.unwrap(function)
        held = [cell.cell_contents for cell in function.__closure__ or ()] if made else []
        return *name, own.__code__, function.__defaults__, function.__kwdefaults__, held, _globals_of(own)


def _globals_of(function: FunctionType) -> list[tuple[str, Any]]:
    """Return the global variables that a function reads; modules, classes, and functions of other modules by name."""
    found: list[tuple[str, Any]] = []
    for name in sorted(_global_names(function.__code__) & function.__globals__.keys()):
        value = function.__globals__[name]
        near = isinstance(value, FunctionType) and value.__module__ == function.__module__
        if isinstance(value, ModuleType):
            value = "module", value.__name__
        elif not near and isinstance(value, type | FunctionType | BuiltinFunctionType):
            value = "name", value.__module__, value.__qualname__
        found.append((name, value))
    return found


def _global_names(code: CodeType) -> set[str]:
    """Return the global names that a function, and those defined in it, look up."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname in _READS}
    return names.union(*(_global_names(part) for part in code.co_consts if isinstance(part, CodeType)))


def digest(*parts: Any) -> str:
    """Return a name that is unique to a combination of parameters, data and functions."""
    # A function is identified by its code, and by the values of the global variables that it or functions of its module
    # read.
    try:
        return str(_Hasher().hash(parts))
    except Exception as error:
        # The message of a pickling error shows the object, and with it the data, so it is not repeated.
        raise TypeError(
            f"cache needs picklable objects: {type(error).__name__} in a parameter, in the data, or in a global "
            "variable that a function reads"
        ) from None


class CellStore:
    """A folder with one file for each finished cell."""

    # A file is written under a temporary name and then renamed, so that no reader sees a part of it; a damaged file is
    # no JSON object, or not the right one, and is ignored.

    def __init__(self, folder: Any) -> None:
        if not isinstance(folder, str | os.PathLike):
            raise TypeError(f"cache must be a path, got {type(folder).__name__}")
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError("cache must be a folder, got a file")
        self.folder.mkdir(parents=True, exist_ok=True)

    def read(self, key: str) -> list[Row] | None:
        try:
            kept = json.loads(self._path(key).read_bytes())
            if kept["key"] != key:
                return None
            return [(metric, _group(group), float(value)) for metric, group, value in kept["rows"]]
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, key: str, rows: list[Row]) -> None:
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=f"{key}.", suffix=".part")
        beside = Path(name)
        try:
            with os.fdopen(handle, "w") as file:
                json.dump({"key": key, "rows": rows}, file)
            beside.replace(self._path(key))
        except BaseException:
            beside.unlink(missing_ok=True)
            raise

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def _group(label: Any) -> Any:
    """Convert lists of JSON to tuples."""
    return tuple(label) if isinstance(label, list) else label
