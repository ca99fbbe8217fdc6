"""Parameters and fitted attributes as JSON and arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from skdp.domain import Domain, Interval, pack, unpack
from skdp.local import SecretKey
from skdp.privacy import (
    Mu,
    PrivacyGuarantee,
    PrivacyLedger,
    Rho,
    Shuffled,
    closed_ledger,
)

_PLAIN, _SCALARS = "biufSUmM", "biufSU"
_BUDGET = "epsilon", "delta", "rho", "mu"
_MOST_RANGED = 1 << 16
"""Values of all ranges of a file together: a range takes no space in the file, but its values take memory."""

_ABSENT = (
    "this estimator was loaded without its ledger, and nothing was released; "
    "give it with skdp.load(path, ledger=...)"
)


class Writer:
    """Writes values as JSON, and keeps the arrays and the ledger that it meets."""

    def __init__(
        self, write_estimator: Callable[[Any, Writer], Any], *, secrets: bool
    ) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.ledger: PrivacyLedger | None = None
        self._write_estimator, self._secrets, self._ranged = write_estimator, secrets, 0

    def parameter(self, owner: Any, name: str, value: Any) -> Any:
        """Write what an estimator holds; an error names it."""
        secret = name == "secret_key" and isinstance(value, bytes)
        try:
            return self.write(SecretKey(value) if secret else value)
        except TypeError as error:
            raise TypeError(f"{type(owner).__name__}.{name}: {error}") from None

    def write(self, value: Any) -> Any:
        if isinstance(value, BaseEstimator):
            return {"estimator": self._write_estimator(value, self)}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic):
            return _scalar(value)
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(value)}  # also where it stands for a missing value
        if isinstance(value, list):
            return [self.write(item) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self.write(item) for item in value]}
        if isinstance(value, Domain):
            return {"domain": self._domain(value)}
        if isinstance(value, Mapping):
            return {
                "mapping": [
                    [self.write(key), self.write(item)] for key, item in value.items()
                ]
            }
        if isinstance(value, slice):
            return {
                "slice": [
                    self.write(part) for part in (value.start, value.stop, value.step)
                ]
            }
        if isinstance(value, range):
            self._ranged += len(value)
            ends = (value.start, value.stop, value.step)
            return (
                {"range": ends}
                if self._ranged <= _MOST_RANGED
                else self.write(list(value))
            )
        if isinstance(value, PrivacyGuarantee):
            return {"guarantee": [value.to_json(), self.write(value.scope)]}
        if isinstance(value, Shuffled):
            return {
                "shuffled": {
                    one.name: self.write(getattr(value, one.name))
                    for one in fields(value)
                }
            }
        if isinstance(value, Rho | Mu):
            return {value.name: [getattr(value, value.name), value.delta]}
        if isinstance(value, PrivacyLedger):
            return {"ledger": self._its_ledger(value)}
        if isinstance(value, SecretKey):
            return {"secret": self._secret(value)}
        if isinstance(value, pd.DataFrame):
            return {"frame": self._frame(value)}
        if isinstance(value, np.dtype) and value.kind in "biufSUO":
            return {"dtype": value.str}
        if isinstance(value, type) and issubclass(value, np.generic | float | int):
            return {"type": np.dtype(value).str}
        return pack(value)

    def _array(self, array: NDArray[Any]) -> Any:
        if type(array) is not np.ndarray or array.dtype.kind not in f"{_PLAIN}O":
            raise TypeError(f"an array of {array.dtype} cannot be saved")
        if array.dtype.kind == "O":
            return {
                "objects": [
                    list(array.shape),
                    [self.write(item) for item in array.ravel().tolist()],
                ]
            }
        name = f"array_{len(self.arrays)}.npy"
        self.arrays[name] = array
        return {"array": name}

    def _domain(self, domain: Domain) -> Any:
        columns = [(name, domain[name]) for name in domain.columns]
        packed = [
            (name, one if isinstance(one, Interval) else list(one.values))
            for name, one in columns
        ]
        return {
            "columns": [[pack(name), pack(values)] for name, values in packed],
            "observed": [
                place for place, (_, one) in enumerate(columns) if one.observed
            ],
        }

    def _its_ledger(self, ledger: PrivacyLedger) -> dict[str, float]:
        if self.ledger not in (None, ledger):
            raise ValueError(
                "the estimators have different ledgers; save them one by one"
            )
        self.ledger = ledger
        return ledger._book.budget.numbers()

    def _secret(self, key: SecretKey) -> str:
        if not self._secrets:
            raise ValueError(
                "the secret key of permanent reports would be in the file, and who"
                " reads it can undo their noise; save with secrets=True and guard the"
                " file, or save the protocol alone with to_json, which leaves it out"
            )
        return bytes(key).hex()

    def _frame(self, frame: pd.DataFrame) -> Any:
        if (
            not frame.index.equals(pd.RangeIndex(len(frame)))
            or frame.columns.nlevels > 1
        ):
            raise TypeError("a DataFrame with an index cannot be saved")
        return [[pack(name), *self._column(frame[name])] for name in frame.columns]

    def _column(self, column: pd.Series) -> list[Any]:
        if isinstance(column.dtype, pd.StringDtype):
            about = [column.dtype.storage, column.dtype.na_value is not pd.NA]
            return [self._array(column.to_numpy(object)), about]
        if not isinstance(column.dtype, np.dtype):
            raise TypeError(
                f"a DataFrame with a column of {column.dtype} cannot be saved"
            )
        return [self._array(column.to_numpy()), None]


def _scalar(value: np.generic) -> Any:
    if value.dtype.kind not in _SCALARS:
        raise TypeError(f"a number of {value.dtype} cannot be saved")
    item = value.item()
    return {
        "numpy": [
            value.dtype.str,
            repr(item) if isinstance(item, float) else pack(item),
        ]
    }


class Reader:
    """Reads what `Writer` wrote."""

    def __init__(
        self,
        read_array: Callable[[str, tuple[int, ...] | None], NDArray[Any]],
        read_estimator: Callable[[Any, Reader], Any],
        ledger: PrivacyLedger | None,
    ) -> None:
        self._read_array, self._read_estimator, self._ledger = (
            read_array,
            read_estimator,
            ledger,
        )
        self.names: set[str] = set()
        self.has_ledger = False
        self._ranged = 0

    def read(self, packed: Any) -> Any:
        if isinstance(packed, list):
            return [self.read(item) for item in packed]
        if not isinstance(packed, dict):
            return packed
        if len(packed) != 1:
            raise ValueError("expected one type and its value")
        ((kind, value),) = packed.items()
        if kind in _READ:
            return _READ[kind](self, value)
        return unpack(packed)

    def array(self, name: Any, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
        """Read an array, once, so that a file cannot name one of them many times."""
        if not isinstance(name, str) or name in self.names:
            raise ValueError("expected the name of an array that is read once")
        self.names.add(name)
        return self._read_array(name, shape)

    def _objects(self, value: Any) -> NDArray[Any]:
        shape, items = value
        array = np.empty(len(items), object)
        array[:] = [self.read(item) for item in items]
        return array.reshape(tuple(shape))

    def _numpy(self, value: Any) -> Any:
        dtype, item = value
        return _dtype(dtype, _SCALARS).type(unpack(item))

    def _range(self, value: Any) -> range:
        made = range(*value)
        self._ranged += len(made)
        if self._ranged > _MOST_RANGED:
            raise ValueError(f"ranges have at most {_MOST_RANGED:,} values together")
        return made

    def _domain(self, value: Any) -> Domain:
        domain = Domain(
            {unpack(name): unpack(values) for name, values in value["columns"]}
        )
        mark_observed(domain, value["observed"])
        return domain

    def _guarantee(self, value: Any) -> PrivacyGuarantee:
        # The record has the names of columns as text, but for whole numbers.
        record, scope = value
        return replace(PrivacyGuarantee.from_json(record), scope=self.read(scope))

    def _absent_ledger(self, value: Any) -> PrivacyLedger:
        self.has_ledger = True
        if self._ledger is None:
            self._ledger = closed_ledger(
                _ABSENT, **{name: value[name] for name in _BUDGET if name in value}
            )
        return self._ledger

    def _frame(self, value: Any) -> pd.DataFrame:
        columns = {
            unpack(name): _column(self.read(array), about)
            for name, array, about in value
        }
        return pd.DataFrame(columns)


_READ: dict[str, Callable[[Reader, Any], Any]] = {
    "array": Reader.array,
    "domain": Reader._domain,
    "dtype": lambda _, text: _dtype(text, "biufSUO"),
    "estimator": lambda reader, content: reader._read_estimator(content, reader),
    "frame": Reader._frame,
    "guarantee": Reader._guarantee,
    "shuffled": lambda reader, parts: Shuffled(
        **{name: reader.read(part) for name, part in parts.items()}
    ),
    "ledger": Reader._absent_ledger,
    "mapping": lambda reader, pairs: {
        reader.read(key): reader.read(item) for key, item in pairs
    },
    "mu": lambda _, numbers: Mu(*numbers),
    "rho": lambda _, numbers: Rho(*numbers),
    "numpy": Reader._numpy,
    "objects": Reader._objects,
    "range": Reader._range,
    "secret": lambda _, text: SecretKey(bytes.fromhex(text)),
    "slice": lambda reader, parts: slice(*map(reader.read, parts)),
    "tuple": lambda reader, items: tuple(map(reader.read, items)),
    "type": lambda _, text: _dtype(text, "biuf").type,
}


def _column(values: NDArray[Any], about: Any) -> pd.Series:
    if about is None:
        return pd.Series(values, dtype=values.dtype)
    storage, nan = about
    return pd.Series(
        values, dtype=pd.StringDtype(storage, **({"na_value": np.nan} if nan else {}))
    )


def _dtype(text: Any, kinds: str) -> np.dtype[Any]:
    dtype = np.dtype(text if isinstance(text, str) and len(text) < 10 else "V")
    if dtype.kind not in kinds or dtype.subdtype is not None:
        raise ValueError("unknown dtype")
    return dtype


def mark_observed(domain: Domain, places: Any) -> None:
    """Mark columns whose values were read from the data, for `privacy_statement`."""
    for place in places:
        domain[domain.columns[range(len(domain.columns))[place]]].observed = True
