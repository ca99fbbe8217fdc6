"""Finished cells of a privacy curve in a folder, for a run that goes on after it was killed."""

from __future__ import annotations

import inspect
import json
import os
import tempfile
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from joblib.hashing import NumpyHasher

from skdp.privacy import PrivacyLedger

Row = tuple[str, Any, float]
"""Metric, group and value."""


class _Hasher(NumpyHasher):
    """Tell functions apart by what they do, not by their names, and leave out what a ledger has been charged."""

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
        """Say what a function does; what its closure holds, if it was made by another one."""
        name = function.__module__, function.__qualname__
        if "<" not in function.__qualname__:
            return *name, inspect.unwrap(function).__code__, function.__defaults__, function.__kwdefaults__
        if id(function) in self._met:  # it may hold itself
            return name
        self._met.add(id(function))
        held = [cell.cell_contents for cell in function.__closure__ or ()]
        return *name, function.__code__, function.__defaults__, function.__kwdefaults__, held


def digest(*parts: Any) -> str:
    """Return a name for a combination of parameters, data and functions; another for any other combination.

    Parameters
    ----------
    *parts : object
        Estimators, tables, arrays, functions and other things that can be pickled.

    Returns
    -------
    str
        Hexadecimal digits, the same in another process.

    Raises
    ------
    TypeError
        If something cannot be pickled.
    """
    try:
        return str(_Hasher().hash(parts))
    except Exception as error:
        # The message of a pickling error shows the object, and with it the data.
        raise TypeError(
            f"cache needs what can be pickled: {type(error).__name__} in a parameter or in the data"
        ) from None


class CellStore:
    """A folder with a file for each finished cell.

    A file is written beside its place and then renamed, so that no reader sees a part of it; one that is damaged
    nevertheless is no JSON object, or not the right one, and counts as none.

    Parameters
    ----------
    folder : str or path
        Made if there is none.
    """

    def __init__(self, folder: Any) -> None:
        if not isinstance(folder, str | os.PathLike):
            raise TypeError(f"cache must be a path, got {type(folder).__name__}")
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError("cache must be a folder, got a file")
        self.folder.mkdir(parents=True, exist_ok=True)

    def read(self, key: str) -> list[Row] | None:
        """Return the scores of a cell, if it is finished.

        Parameters
        ----------
        key : str
            Its digest.

        Returns
        -------
        list of (metric, group, value), or None
            Its rows.
        """
        try:
            kept = json.loads(self._path(key).read_bytes())
            if kept["key"] != key:
                return None
            return [(metric, _group(group), float(value)) for metric, group, value in kept["rows"]]
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, key: str, rows: list[Row]) -> None:
        """Keep the scores of a cell.

        Parameters
        ----------
        key : str
            Its digest.
        rows : list of (metric, group, value)
            Its rows.
        """
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
    """JSON has no tuples."""
    return tuple(label) if isinstance(label, list) else label
