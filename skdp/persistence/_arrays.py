"""Arrays and numbers of NumPy as JSON: their dtype, their shape, and a list of values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain import pack, unpack

# Truth values, numbers of at most 64 bits, text, bytes, dates and durations.
_KINDS = "biufUSMm"

_LONGEST_DTYPE = 30

# What the list of values holds, by the kind of dtype.
_VALUES: dict[str, set[type]] = {
    "b": {bool},
    "i": {int},
    "u": {int},
    "f": {float, int},
    "U": {str},
    "S": {bytes},
    "M": {int},
    "m": {int},
}

Convert = Callable[[Any], Any]


class Room:
    """Counts the memory that all values of a file take beyond their text, in characters of NumPy (4 bytes)."""

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        self.n_characters = 0

    def take(self, n_characters: int) -> None:
        """Take room; an error if the file asks for too much."""
        self.n_characters += n_characters
        if self.n_characters > self.most:
            raise ValueError(
                "the values would take much more memory than their text: ranges are "
                "long, texts much longer than others of their array, or tables many"
            )


def write_dtype(dtype: np.dtype[Any]) -> str:
    """Write a dtype as NumPy does, such as float64."""
    if dtype.kind not in f"{_KINDS}O" or dtype.str[1:] == "f16":
        raise TypeError(f"the dtype {dtype} cannot be saved")
    # With the bytes of a number in the order of the machine.
    return str(dtype.newbyteorder("="))


def read_dtype(text: Any) -> np.dtype[Any]:
    """Read what `write_dtype` wrote."""
    if not isinstance(text, str) or len(text) > _LONGEST_DTYPE:
        raise ValueError("a dtype must be a short text")
    dtype = np.dtype(text)
    if dtype.subdtype is not None or write_dtype(dtype) != text:
        raise ValueError(f"unknown dtype {text[:50]!r}")
    return dtype


def write_array(array: NDArray[Any], write: Convert, room: Room) -> dict[str, Any]:
    """Write an array, its values in a list whose last axis is fastest."""
    if type(array) is not np.ndarray or array.dtype.kind not in f"{_KINDS}O":
        raise TypeError(f"an array of {array.dtype} cannot be saved")
    dtype = write_dtype(array.dtype)
    flat = array.ravel()
    if array.dtype.kind == "O":
        values = [write(value) for value in flat.tolist()]
    else:
        values = _write_values(flat)
        _take_room(array.dtype, values, room)
    return {"dtype": dtype, "shape": list(array.shape), "values": values}


def _write_values(flat: NDArray[Any]) -> list[Any]:
    kind = flat.dtype.kind
    if kind in "Mm":
        # Counts of the dtype's unit: dates are counted since 1970.
        flat = flat.astype(np.int64)
    values: list[Any] = flat.tolist()
    if kind in "bU" or (kind == "f" and np.isfinite(flat).all()):
        return values
    if kind == "f":
        return [_write_float(value) for value in values]
    return [pack(value) for value in values]


def _write_float(value: float) -> Any:
    # `pack` takes nan for a missing value of any kind.
    return value if math.isfinite(value) else {"$float": repr(value)}


def read_array(content: Any, read: Convert, room: Room) -> NDArray[Any]:
    """Read what `write_array` wrote."""
    dtype = read_dtype(content["dtype"])
    shape = content["shape"]
    packed = content["values"]
    if content.keys() != {"dtype", "shape", "values"} or type(packed) is not list:
        raise ValueError("an array has a dtype, a shape, and a list of values")
    is_shape = all(type(length) is int and length >= 0 for length in shape)
    if not is_shape or math.prod(shape) != len(packed):
        raise ValueError("an array has another shape than its list of values")
    if dtype.kind == "O":
        array = np.empty(len(packed), object)
        for index, item in enumerate(packed):
            array[index] = read(item)
        return array.reshape(shape)
    values = packed
    if {dict, list} & set(map(type, packed)):
        values = [unpack(item) for item in packed]
    if not set(map(type, values)) <= _VALUES[dtype.kind]:
        raise ValueError(f"an array of {dtype} holds values of another type")
    _take_room(dtype, values, room)
    if dtype.kind in "Mm":
        return np.array(values, np.int64).view(dtype).reshape(shape)
    return np.array(values, dtype).reshape(shape)


def _take_room(dtype: np.dtype[Any], values: list[Any], room: Room) -> None:
    """Take the characters of an array of text beyond those of its values."""
    if dtype.kind not in "US":
        return
    # It has room for the longest value in each place.
    n_characters = dtype.itemsize // np.dtype(f"{dtype.kind}1").itemsize
    lengths = list(map(len, values))
    if max(lengths, default=0) > n_characters:
        raise ValueError("an array of text holds a longer one")
    # NumPy makes room for one value where there is none.
    room.take(n_characters * max(len(values), 1) - sum(lengths))


def write_scalar(value: np.generic) -> dict[str, Any]:
    """Write a number of NumPy, or a text."""
    if value.dtype.kind not in "biufSU":
        raise TypeError(f"a number of {value.dtype} cannot be saved")
    values = _write_values(np.array([value]))
    return {"dtype": write_dtype(value.dtype), "value": values[0]}


def read_scalar(content: Any, room: Room) -> Any:
    """Read what `write_scalar` wrote."""
    dtype, value = content["dtype"], content["value"]
    array = {"dtype": dtype, "shape": [1], "values": [value]}
    return read_array(array, unpack, room)[0]
