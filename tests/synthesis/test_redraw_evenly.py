"""Columns that are redrawn: as many of each value as the model expects beside each value of the other columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer
from skdp.synthesis.model import MOST_EVEN, JunctionTree, calibrate, redraw, redraw_evenly
from skdp.synthesis.model import GraphicalModel as Model
from tests.conftest import each

SIZES = (3, 4, 2, 5)
N = 4_000


def model_of(sizes=SIZES, cliques=((0, 1, 2), (1, 2, 3)), spread=1.0):
    tree = JunctionTree(sizes, cliques)
    rng = np.random.default_rng(0)
    shapes = [[sizes[column] for column in clique] for clique in tree.cliques]
    return Model(tree, calibrate(tree, [rng.normal(scale=spread, size=shape) for shape in shapes]))


def rows_of(n_rows=N, sizes=SIZES):
    return np.random.default_rng(1).integers(0, np.array(sizes)[:, np.newaxis], (len(sizes), n_rows))


def law_of(model, rows, columns):
    """Return the law of the columns of each row given the others, by enumeration: (n_rows, n_combinations)."""
    sizes = [model.tree.sizes[column] for column in columns]
    logs = []
    for values in np.ndindex(*sizes):
        changed = rows.copy()
        changed[columns] = np.array(values)[:, np.newaxis]
        logs.append(model.log_probability(changed))
    law = np.exp(np.array(logs).T)
    return law / law.sum(axis=1, keepdims=True)


def excesses(model, rows, columns, drawn):
    """Return how many rows more than expected have each value of a redrawn column with each of another one."""
    sizes = [model.tree.sizes[column] for column in columns]
    law = law_of(model, rows, columns).reshape(-1, *sizes)
    numbers = []
    for axis, column in enumerate(columns):
        others = tuple(other + 1 for other in range(len(columns)) if other != axis)
        expected = law.sum(axis=others)
        change = np.eye(model.tree.sizes[column])[drawn[axis]] - expected
        for other in set(range(len(rows))) - set(columns):
            for value in range(model.tree.sizes[other]):
                numbers += change[rows[other] == value].sum(axis=0).tolist()
    return np.array(numbers)


def test_no_columns_are_redrawn_as_none():
    for draw in (redraw, redraw_evenly):
        assert draw(model_of(), rows_of(5), [], np.random.default_rng(0)).shape == (0, 5)


@each("columns", [[0], [1], [3, 0], [2, 1]])
def test_counts_are_nearly_as_expected(columns):
    model, rows = model_of(), rows_of()
    even = redraw_evenly(model, rows, columns, np.random.default_rng(0))
    independent = redraw(model, rows, columns, np.random.default_rng(0))
    errors = [np.sqrt((excesses(model, rows, columns, drawn) ** 2).mean()) for drawn in (even, independent)]
    assert errors[0] < errors[1] / 2


def test_each_row_has_the_law_of_the_model():
    model = model_of()
    columns = [3, 0]
    rows = rows_of(500)
    law = law_of(model, rows, columns)
    n_draws = 80
    counts = np.zeros_like(law)
    for seed in range(n_draws):
        drawn = redraw_evenly(model, rows, columns, np.random.default_rng(seed))
        sizes = [SIZES[column] for column in columns]
        counts[np.arange(500), np.ravel_multi_index(list(drawn), sizes)] += 1
    # By how likely a value is in a row: 20 groups of about as many.
    order = np.argsort(law, axis=None)
    for group in np.array_split(order, 20):
        expected = law.ravel()[group].mean()
        assert counts.ravel()[group].mean() / n_draws == pytest.approx(expected, abs=0.01)


def test_what_cannot_be_is_not_drawn():
    model = model_of()
    beliefs = [belief.copy() for belief in model.beliefs]
    tree = model.tree
    index = tree.holder((0, 1))
    axes = [tree.cliques[index].index(column) for column in (0, 1)]
    np.moveaxis(beliefs[index], axes, (0, 1))[0, :3] = 0
    zeros = Model(tree, calibrate(tree, [np.log(np.maximum(b, 1e-300)) - 1e3 * (b == 0) for b in beliefs]))
    rows = rows_of()
    rows[1] = rows[1] % 3
    drawn = redraw_evenly(zeros, rows, [0], np.random.default_rng(0))
    assert drawn.min() == 1


def test_many_combinations_are_drawn_one_by_one():
    sizes = (MOST_EVEN // 2 + 1, 2, 3)
    model = model_of(sizes, ((0, 1), (1, 2)))
    rows = rows_of(50, sizes)
    even = redraw_evenly(model, rows, [0, 1], np.random.default_rng(0))
    np.testing.assert_array_equal(even, redraw(model, rows, [0, 1], np.random.default_rng(0)))
    assert redraw_evenly(model, rows[:, :0], [1], np.random.default_rng(0)).shape == (1, 0)


def test_workload_leaves_what_redrawn_columns_are_given():
    """Without pairs of the columns that stay, what each of them says would be counted as if alone: naive Bayes."""
    rng = np.random.default_rng(0)
    cause = rng.integers(0, 2, 6_000)
    table = {f"copy {number}": np.where(rng.random(6_000) < 0.05, 1 - cause, cause) for number in range(6)}
    table["drawn"] = np.where(rng.random(6_000) < 0.3, 1 - cause, cause)
    frame = pd.DataFrame(table)
    domain = {name: [0, 1] for name in frame}
    pairs = [(name, "drawn") for name in frame if name != "drawn"]
    synthesizer = DPMarginalSynthesizer(
        5.0, delta=1e-6, domain=domain, workload=pairs, redraw=["drawn"], random_state=0
    )
    made = synthesizer.fit_transform(frame)
    for name, _ in pairs:
        share = (made[name] == made["drawn"]).mean()
        assert share == pytest.approx((frame[name] == frame["drawn"]).mean(), abs=0.015)
