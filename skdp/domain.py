"""The public values of every column, and the way from values to integer codes and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding import ValueCoder, decode, is_missing, kind_of, plain, to_numbers

Codes = NDArray[np.unsignedinteger]

_BLOCK = 1 << 16


class Interval:
    """A numeric column cut into bins: half-open, the last one closed.

    Parameters
    ----------
    low, high : float, optional
        The ends of the range, together with `bins`.
    bins : int, optional
        The number of bins of equal width, at least 1.
    edges : sequence of float, optional
        The edges of the bins instead of `low`, `high` and `bins`: at least 2, increasing.

    Attributes
    ----------
    edges : tuple of float
        The edges of the bins.

    Raises
    ------
    ValueError
        If the ends are not finite, not increasing, or given in both ways.

    Examples
    --------
    >>> Interval(edges=[0, 38, 120]).labels
    ('[0, 38)', '[38, 120]')
    >>> Interval(0, 100, bins=4).edges
    (0.0, 25.0, 50.0, 75.0, 100.0)
    """

    def __init__(
        self,
        low: float | None = None,
        high: float | None = None,
        *,
        bins: int | None = None,
        edges: Sequence[float] | None = None,
    ) -> None:
        if (edges is None) == (low is None and high is None and bins is None):
            raise ValueError("Interval takes either edges, or low, high and bins")
        if edges is None:
            if low is None or high is None or not isinstance(bins, int) or isinstance(bins, bool) or bins < 1:
                raise ValueError("Interval takes low, high and a number of bins of at least 1")
            if not (math.isfinite(low) and math.isfinite(high)):
                raise ValueError("Interval needs a finite low and high")
            edges = np.linspace(low, high, bins + 1).tolist()
        self.edges = tuple(float(edge) for edge in edges)
        if len(self.edges) < 2 or not all(map(math.isfinite, self.edges)):
            raise ValueError("Interval needs at least 2 edges, all finite")
        if any(left >= right for left, right in pairwise(self.edges)):
            raise ValueError("the edges of an Interval must increase")

    def __len__(self) -> int:
        return len(self.edges) - 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interval) and self.edges == other.edges

    def __hash__(self) -> int:
        return hash(self.edges)

    def __repr__(self) -> str:
        return f"Interval(edges={[_short(edge) for edge in self.edges]})".replace("'", "")

    @property
    def labels(self) -> tuple[str, ...]:  # numpydoc ignore=RT01
        """The bins as text."""
        last = len(self) - 1
        return tuple(
            f"[{_short(left)}, {_short(right)}{']' if index == last else ')'}"
            for index, (left, right) in enumerate(pairwise(self.edges))
        )

    @property
    def values(self) -> tuple[float | int, ...]:  # numpydoc ignore=RT01
        """The middle of each bin: the number that stands for it, an int where it is whole."""
        middles = [(left + right) / 2 for left, right in pairwise(self.edges)]
        return tuple(int(middle) if middle.is_integer() else middle for middle in middles)

    def encode(self, column: Any) -> Codes:
        """Code a numeric column by bin.

        Parameters
        ----------
        column : 1-D ndarray, pandas Series, polars Series or pyarrow ChunkedArray
            The numbers.

        Returns
        -------
        ndarray of unsigned integers
            A bin a number; ``len(self)`` for a number outside the edges and for a missing one.

        Raises
        ------
        TypeError
            If the column is not numeric.
        """
        numbers = to_numbers(column)
        codes = np.searchsorted(self.edges, numbers, side="right") - 1
        codes[numbers == self.edges[-1]] = len(self) - 1
        codes[(codes < 0) | np.isnan(numbers)] = len(self)
        return codes.astype(np.min_scalar_type(len(self)))


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

    def __init__(self, values: Iterable[Any]) -> None:
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise TypeError(f"expected a list of values, got {type(values).__name__}")
        self.values = tuple(plain(value) for value in values)
        known = [value for value in self.values if value is not None]
        if not self.values:
            raise ValueError("expected at least one value")
        kinds = sorted({kind_of(value) for value in known})
        if len(kinds) > 1:
            raise TypeError(f"expected values of one kind, got {' and '.join(kinds)}")
        if any(isinstance(value, Real) and not math.isfinite(value) for value in known):
            raise ValueError("expected finite numbers, got an infinite one")
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

    def encode(self, column: Any) -> Codes:
        """Code a column by value.

        Parameters
        ----------
        column : 1-D ndarray, pandas Series, polars Series or pyarrow ChunkedArray
            The values.

        Returns
        -------
        ndarray of unsigned integers
            A position a value; ``len(self)`` for whatever is not declared.
        """
        return self._coder.encode(column)


class Domain:
    """The public values of every column, in order.

    A domain is declared, not read from the data: which values occur is private.

    Parameters
    ----------
    columns : mapping of column name to values
        A list of values a column, or an `Interval`. None (also nan, ``pd.NA``) among the values declares missing as a
        value. A column of one value is legal.

    Attributes
    ----------
    columns : tuple
        The column names.
    sizes : tuple of int
        The number of values of each column.
    size : int
        The number of cells of the full Cartesian product.

    Raises
    ------
    TypeError
        If the columns are no mapping, or values are of several kinds (1 and True and "1" never mix).
    ValueError
        If there is no column, a column without values, or a duplicate (1 and 1.0 are one).

    Examples
    --------
    >>> domain = Domain({"age": Interval(edges=[0, 38, 120]), "sex": ["Female", "Male"]})
    >>> domain.size
    4
    >>> domain.cells().to_list()
    [('[0, 38)', 'Female'), ('[0, 38)', 'Male'), ('[38, 120]', 'Female'), ('[38, 120]', 'Male')]
    >>> Domain({"answer": [1, 1.0]})
    Traceback (most recent call last):
        ...
    ValueError: column 'answer': expected distinct values, got duplicates
    """

    def __init__(self, columns: Mapping[Any, Iterable[Any] | Interval | Categories]) -> None:
        if not isinstance(columns, Mapping):
            raise TypeError(f"Domain takes a mapping from column name to values, got {type(columns).__name__}")
        if not columns:
            raise ValueError("Domain needs at least one column")
        self._attributes: dict[Any, Categories | Interval] = {}
        for name, values in columns.items():
            try:
                attribute = values if isinstance(values, Interval | Categories) else Categories(values)
            except (TypeError, ValueError) as error:
                raise type(error)(f"column {name!r}: {error}") from None
            self._attributes[name] = attribute

    @property
    def columns(self) -> tuple[Any, ...]:  # numpydoc ignore=RT01
        """The column names."""
        return tuple(self._attributes)

    @property
    def sizes(self) -> tuple[int, ...]:  # numpydoc ignore=RT01
        """The number of values of each column."""
        return tuple(map(len, self._attributes.values()))

    @property
    def size(self) -> int:  # numpydoc ignore=RT01
        """The number of cells of the full Cartesian product."""
        return math.prod(self.sizes)

    def __getitem__(self, column: Any) -> Categories | Interval:
        return self._attributes[column]

    def __eq__(self, other: object) -> bool:
        # Order counts: it decides the joint codes.
        return isinstance(other, Domain) and list(self._attributes.items()) == list(other._attributes.items())

    def __hash__(self) -> int:
        return hash(tuple(self._attributes.items()))

    def __repr__(self) -> str:
        return f"Domain({self._attributes!r})"

    def select(self, columns: Iterable[Any]) -> Domain:
        """Return the domain of some of the columns.

        Parameters
        ----------
        columns : iterable
            Column names, in the wanted order.

        Returns
        -------
        Domain
            The smaller domain.
        """
        return Domain({column: self._attributes[column] for column in columns})

    def encode(self, columns: Iterable[Any]) -> list[Codes]:
        """Code the columns of a table.

        Parameters
        ----------
        columns : iterable of 1-D arrays or series
            A column of values for each column of the domain, in order.

        Returns
        -------
        list of ndarray of unsigned integers
            A code a value; the number of values of the column marks what is not declared.

        Raises
        ------
        TypeError
            If a column that is declared as an `Interval` is not numeric.
        """
        codes = []
        for (name, attribute), column in zip(self._attributes.items(), columns, strict=True):
            try:
                codes.append(attribute.encode(column))
            except (TypeError, ValueError) as error:
                raise type(error)(f"column {name!r}: {error}") from None
        return codes

    def decode(self, codes: Iterable[NDArray[np.integer]], like: Iterable[Any]) -> list[Any]:
        """Turn codes into columns that look like other ones.

        Parameters
        ----------
        codes : iterable of ndarray of integers
            Codes for each column of the domain, in order. An interval's code becomes the middle of its bin.
        like : iterable of 1-D arrays or series
            The columns whose library and dtypes to use.

        Returns
        -------
        list
            A column of values for each column of the domain.
        """
        attributes = self._attributes.values()
        return [
            decode(code, attribute.values, column)
            for attribute, code, column in zip(attributes, codes, like, strict=True)
        ]

    def join(self, codes: Sequence[NDArray[np.integer]]) -> Codes:
        """Combine the codes of all columns into codes of the Cartesian product, the last column fastest.

        Parameters
        ----------
        codes : sequence of ndarray of integers
            Codes of declared values for each column of the domain, in order.

        Returns
        -------
        ndarray of unsigned integers
            A joint code a row, from 0 to ``size - 1``.

        Raises
        ------
        ValueError
            If the product has 2**63 cells or more.

        Examples
        --------
        >>> import numpy as np
        >>> domain = Domain({"a": [0, 1], "b": ["x", "y", "z"]})
        >>> domain.join([np.array([0, 1]), np.array([2, 0])])
        array([2, 3], dtype=uint8)
        """
        if self.size >= 1 << 63:
            raise ValueError(f"the joint domain has {self.size} cells; at most 2**63 - 1 can be coded")
        dtype = np.min_scalar_type(self.size)
        joint = np.array(codes[0], dtype=dtype)
        for size, code in zip(self.sizes[1:], codes[1:], strict=True):
            np.multiply(joint, dtype.type(size), out=joint)
            np.add(joint, code, out=joint, casting="unsafe")
        return joint

    def split(self, joint: NDArray[np.integer]) -> list[Codes]:
        """Take joint codes apart into the codes of each column: the inverse of `join`.

        Parameters
        ----------
        joint : ndarray of integers
            Joint codes.

        Returns
        -------
        list of ndarray of unsigned integers
            Codes for each column of the domain, in order.
        """
        codes: list[Codes] = [np.empty(joint.shape, np.min_scalar_type(size)) for size in self.sizes]
        for start in range(0, joint.size, _BLOCK):
            rest = joint[start : start + _BLOCK]
            for size, code in zip(self.sizes[::-1], codes[::-1], strict=True):
                above = rest // rest.dtype.type(size)
                np.subtract(rest, above * rest.dtype.type(size), out=code[start : start + _BLOCK], casting="unsafe")
                rest = above
        return codes

    def cells(self) -> pd.Index:
        """List the cells of the full Cartesian product in the order of the joint codes.

        Returns
        -------
        pandas.Index
            The values (for an `Interval`, the bins) of one column, or a MultiIndex over the values of several.
        """
        labels = [list(attribute.labels) for attribute in self._attributes.values()]
        if len(labels) == 1:
            return pd.Index(labels[0], name=self.columns[0])
        return pd.MultiIndex.from_product(labels, names=self.columns)


def _typed(values: tuple[Any, ...]) -> list[tuple[str, Any]]:
    return [("missing" if is_missing(value) else kind_of(value), value) for value in values]


def _short(number: float) -> str:
    return str(int(number)) if number.is_integer() else repr(number)
