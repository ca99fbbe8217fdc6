"""The persons of rows, and the rows of each that are reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.local.memo import read_record_ids
from skdp.randomness import ByteSource


def refuse_other_order(X: Any, groups: Any) -> None:
    """Refuse persons whose labels are those of the rows in another order."""
    if isinstance(X, pd.DataFrame) and isinstance(groups, pd.Series) and len(X) == len(groups):
        one, other = X.index, groups.index
        if not one.equals(other) and one.sort_values().equals(other.sort_values()):
            raise ValueError("groups has the row labels of X in another order; persons go by position")


def number_persons(groups: Any, n_rows: int) -> NDArray[np.intp]:
    """Return the number of the person of each row, in the order in which persons first occur."""
    if groups is None:
        raise ValueError("groups must be given: the person of each row")
    kind: type[Exception] = ValueError
    message = None
    try:
        ids = read_record_ids(groups, n_rows)
    except (TypeError, ValueError) as error:
        kind, message = type(error), str(error).replace("record_id", "groups", 1)
    if message is not None:
        raise kind(message)
    numbers = {one: place for place, one in enumerate(dict.fromkeys(ids))}
    return np.fromiter((numbers[one] for one in ids), np.intp, n_rows)


def choose_rows(persons: NDArray[np.intp], most: int, source: ByteSource) -> NDArray[np.intp]:
    """Draw `most` rows of each person: in a random order, from the start again where there are fewer."""
    words = source.bytes(8 * persons.size).view("<u8")
    order, sizes = np.lexsort((words, persons)), np.bincount(persons)
    starts = np.cumsum(sizes) - sizes
    chosen: NDArray[np.intp] = order[starts[:, np.newaxis] + np.arange(most) % sizes[:, np.newaxis]].reshape(-1)
    return chosen
