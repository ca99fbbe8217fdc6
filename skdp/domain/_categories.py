"""The declared values of one column."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Set
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.coding import ValueCoder, is_missing, kind_of, plain


class Categories:
    """The declared values of one column, in order.

    Parameters
    ----------
    values : iterable
        At least one; all of one kind (strings, numbers, booleans, …). None (or nan, or ``pd.NA``) declares missing as a
        value.

    Attributes
    ----------
    values : tuple
        The values as plain Python objects, None for missing.

    Raises
    ------
    TypeError
        If the values are not a collection of hashable scalars, or of several kinds.
    ValueError
        If there is no value, a duplicate (1 and 1.0 are one), or a number that is not finite.
    """

    observed = False  # True once the values were read from private data

    def __init__(self, values: Iterable[Any]) -> None:
        # The order of a set changes from one process to the next, and with it every code.
        if isinstance(values, str | bytes | Mapping | Set) or not isinstance(values, Iterable):
            raise TypeError(f"expected a list of values, got {type(values).__name__}")
        self.values = tuple(plain(value) for value in values)
        known = [value for value in self.values if value is not None]
        if not self.values:
            raise ValueError("expected at least one value")
        kinds = sorted({kind_of(value) for value in known})
        if len(kinds) > 1:
            raise TypeError(f"expected values of one kind, got {' and '.join(kinds)}")
        if not all(map(_is_finite, known)):
            raise ValueError("expected finite numbers, got one that is infinite, or beyond the range of floats")
        odd = [type(value).__name__ for value in self.values if not isinstance(value, Hashable)]
        if odd:
            raise TypeError(f"expected text, numbers, dates or other scalars, got {odd[0]}")
        if len(set(self.values)) < len(self.values):
            raise ValueError("expected distinct values, got duplicates")
        self._coder = ValueCoder(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Categories) and _typed(self.values) == _typed(other.values)

    def __hash__(self) -> int:
        return hash(self.values)

    def __repr__(self) -> str:
        return repr(list(self.values))

    @property
    def labels(self) -> tuple[Any, ...]:  # numpydoc ignore=RT01
        """The values themselves."""
        return self.values

    def encode(self, column: Any) -> NDArray[np.unsignedinteger]:
        """Encode a column by value.

        Parameters
        ----------
        column : 1-D ndarray, pandas Series, polars Series or pyarrow ChunkedArray
            The values.

        Returns
        -------
        ndarray of unsigned integers
            The position of each value, ``len(self)`` for values that are not declared.
        """
        return self._coder.encode(column)


def _is_finite(value: Any) -> bool:
    try:
        return not isinstance(value, Real) or math.isfinite(value)
    except OverflowError:  # a whole number beyond the range of floats
        return False


def _typed(values: tuple[Any, ...]) -> list[tuple[str, Any]]:
    return [("missing" if is_missing(value) else kind_of(value), value) for value in values]
