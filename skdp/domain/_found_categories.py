"""Categories that a release found by noisy counts, with one category for all other values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from skdp._arrays import Codes
from skdp._json import register_type
from skdp.domain._attributes import Categories
from skdp.domain._bins import MAX_WHOLE_NUMBER
from skdp.tables import ValueCoder, is_missing, to_object_list, type_of_column

# The category of all values that are not found. Surveys have "other" and "Other" as values; a
# value that equals this text is counted in this category, too.
OTHER = "(other)"


class FoundCategories(Categories):
    """The values of one column that a release found, and `OTHER` as the last value, which all other values are.

    The values are texts and None for missing. Whole numbers and booleans are read as their texts, so 1, 1.0 and "1" are
    one value. All other objects, such as numbers with a fraction, are `OTHER`. Without `found`, the values are declared
    as values that a release finds.
    """

    def __init__(self, found: Iterable[Any] | None = None) -> None:
        self.is_open = found is None
        found = tuple(found or ())
        super().__init__([*found, OTHER])
        self._coder = ValueCoder(found)

    @property
    def found(self) -> tuple[Any, ...]:
        """The values that were found, without `OTHER`."""
        return self.values[:-1]

    def _key(self) -> tuple[Any, ...]:
        return (*super()._key(), OTHER, self.is_open)

    def encode(self, column: Any) -> Codes:
        """Encode a column by value; every value has a code."""
        # The code of an unknown value is the number of values that were found.
        return self._coder.encode(read_texts(column))


def read_texts(column: Any) -> Any:
    """Return a column of text, or an array of the texts of other values; see `to_text`."""
    if type_of_column(column) == "string":
        return column
    texts = np.empty(len(column), object)
    texts[:] = list(map(to_text, to_object_list(column)))
    return texts


def to_text(value: Any) -> str | None:
    """Return the text of a text, a whole number or a boolean; None if missing, and `OTHER` for other objects."""
    # Methods of subclasses of Python's types are not called, because they may run any code.
    kind = type(value)
    if issubclass(kind, str):
        return str.__str__(value)
    if kind in (bool, np.bool_):
        return str(bool(value))
    if kind in (int, float) or issubclass(kind, np.integer | np.floating):
        if value != value:
            return None
        # The comparison excludes infinite numbers, and integers with too many digits for a text.
        is_whole = abs(value) <= MAX_WHOLE_NUMBER and value == int(value)
        return str(int(value)) if is_whole else OTHER
    return None if is_missing(value) else OTHER


def _to_json(values: FoundCategories) -> list[Any] | None:
    return None if values.is_open else list(values.found)


register_type("found_categories", FoundCategories, _to_json, FoundCategories)
