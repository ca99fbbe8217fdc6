"""A column model as JSON values, checked when it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis.columns._counts import Cross
from skdp.synthesis.columns._model import ColumnModel

_PARTS = {"private", "values", "public", "cells", "logits"}


def describe_model(model: ColumnModel) -> list[dict[str, Any]]:
    """Describe the tables of a model."""
    described = []
    for cross, logits in zip(model.crosses, model.logits, strict=True):
        cells = None if cross.cell_of is None else cross.cell_of.tolist()
        described.append(
            {
                "private": list(cross.private),
                "values": cross.value_of.tolist(),
                "public": cross.public,
                "cells": cells,
                "logits": np.array(logits),
            }
        )
    return described


def read_model(
    described: Sequence[Mapping[str, Any]],
    private_sizes: Sequence[int],
    public_sizes: Sequence[int],
) -> ColumnModel:
    """Read a model of columns of these sizes."""
    n_combinations = int(np.prod(private_sizes))
    crosses, tables = [], []
    for about in described:
        if about.keys() != _PARTS:
            raise ValueError("a table of the model has other parts")
        private = tuple(about["private"])
        if not private or not all(
            name in range(len(private_sizes)) for name in private
        ):
            raise ValueError("a table of the model has no private column")
        values = _read_groups(about["values"], n_combinations)
        public, cells = about["public"], None
        if public is not None:
            if isinstance(public, bool) or public not in range(len(public_sizes)):
                raise ValueError("a table of the model has an unknown public column")
            cells = _read_groups(about["cells"], public_sizes[public] + 1)
        cross = Cross(private, values, public, cells)
        logits = np.asarray(about["logits"], float)
        expected = cross.n_cells, cross.n_values
        if logits.shape != expected or not np.isfinite(logits).all():
            raise ValueError("a table of the model does not fit its columns")
        crosses.append(cross)
        tables.append(logits)
    singles = [cross.private for cross in crosses if cross.is_single]
    if singles != [(column,) for column in range(len(private_sizes))]:
        raise ValueError("the model lacks a private column by itself")
    return ColumnModel(crosses, tables)


def _read_groups(numbers: Any, size: int) -> NDArray[np.intp]:
    """Read the group of each value or code."""
    groups = np.asarray(numbers)
    if groups.shape != (size,) or groups.dtype.kind != "i":
        raise ValueError("groups of values do not fit the domain")
    if groups.min() < 0 or set(groups.tolist()) != set(range(int(groups.max()) + 1)):
        raise ValueError("groups of values must be numbered from 0")
    return groups.astype(np.intp)
