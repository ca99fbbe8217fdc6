"""Which of the groups that reports are about are privileged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding import is_missing
from skdp.domain import Domain
from skdp.metrics._group_reports import GroupReports


def find_privileged(privileged: Any, domain: Domain) -> NDArray[np.bool_]:
    """Mark the privileged cells of a domain."""
    several = len(domain.columns) > 1
    collection = isinstance(privileged, list | set | frozenset | np.ndarray | pd.Index | pd.Series)
    if not collection and not (isinstance(privileged, tuple) and (not several or _holds_tuples(privileged))):
        privileged = [privileged]
    marked = np.zeros(domain.sizes, bool)
    for cell in privileged:
        values = cell if several else (cell,)
        if not isinstance(values, tuple) or len(values) != len(domain.columns):
            raise ValueError(f"privileged must hold tuples with a value for each of {list(domain.columns)}")
        marked[tuple(_place(domain, name, value) for name, value in zip(domain.columns, values, strict=True))] = True
    if marked.all() or not marked.any():
        raise ValueError("privileged must name some of the declared groups, and not all of them")
    return marked.ravel()


def _holds_tuples(values: Iterable[Any]) -> bool:
    return all(isinstance(value, tuple) for value in values)


def _place(domain: Domain, name: Any, value: Any) -> int:
    value = None if is_missing(value) else value
    labels = domain[name].labels
    if value not in labels:
        raise ValueError(f"privileged holds a value that column {name!r} does not declare; it declares {list(labels)}")
    return labels.index(value)


def indicate_privileged_rows(groups: GroupReports, cells: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Turn reports into unbiased indicators of the privileged rows."""
    return np.concatenate([part[:, cells].sum(axis=1) for _, part in groups.indicators()])
