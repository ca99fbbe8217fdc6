"""Cells: the combinations of the true values of all reported predictors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skdp.survey._design import Question
from skdp.survey._likelihood import CellPrior, Numbers, Unknown


def cell_likelihoods(likelihoods: Sequence[Numbers], n_rows: int) -> Numbers:
    """Return the products for each combination of values: (n_rows, n_cells)."""
    cells: Numbers = np.ones((n_rows, 1))
    for likelihood in likelihoods:
        pairs = cells[:, :, np.newaxis] * likelihood[:, np.newaxis]
        cells = pairs.reshape(n_rows, -1)
    return cells


def cell_prior(questions: Sequence[Question]) -> CellPrior | None:
    """Return the distribution of cells with numbers; None if there are only categories."""
    if not any(question.is_number for question in questions):
        return None
    sizes = [len(question.values) for question in questions]
    codes = np.indices(sizes).reshape(len(sizes), -1)
    numbers = []
    combinations = np.zeros(codes.shape[1], dtype=np.intp)
    for question, of_cells in zip(questions, codes, strict=True):
        if question.is_number:
            numbers.append(np.array(question.values)[of_cells])
        else:
            combinations = combinations * len(question.values) + of_cells
    return CellPrior.of(combinations, np.column_stack(numbers))


def cell_unknowns(questions: Sequence[Question], n_rows: int) -> list[Unknown]:
    """Return the unknown numbers of the channels of predictors."""
    unknowns: list[Unknown] = []
    for question in questions:
        if question.unknown is None or question.slope is None:
            continue
        if unknowns:
            raise ValueError("one predictor at most may have an unknown number")
        factors = []
        for each in questions:
            factors.append(question.slope if each is question else each.likelihood)
        slope = cell_likelihoods(factors, n_rows)
        unknowns.append(Unknown(question.unknown, question.start, cell_slope=slope))
    return unknowns
