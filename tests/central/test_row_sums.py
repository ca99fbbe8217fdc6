"""Change by a row in exact sums over rows of bounded norm: replayed, for each draw of the models."""

import itertools

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdp import (
    DPPCA,
    DPAdditiveClassifier,
    DPAdditiveRegressor,
    DPGroupBy,
    DPLinearRegression,
    DPLogisticRegression,
    DPMean,
    DPRidge,
    DPStandardScaler,
)
from skdp.privacy import Mu
from skdp.randomness import watch_draws
from skdp.testing import replay_release
from tests.conftest import often

# There are few rows.
pytestmark = [pytest.mark.filterwarnings(f"ignore:{text}:UserWarning") for text in ("The noise", "Without a delta")]


@pytest.fixture(autouse=True)
def declared_limits(monkeypatch):
    """`test_limits.py` replays the search of limits, whose number of draws depends on its choices."""
    for model in (DPPCA, DPLinearRegression, DPRidge, DPLogisticRegression):
        monkeypatch.setattr(model, "_finds_limits_within", False)
    # An eighth of the budget for second derivatives with few rows, too.
    monkeypatch.setattr("skdp.central._logistic_regression.MIN_INFORMATION_ROWS", 0)


CORNERS = [(-1.0, -4.0), (1.0, -4.0), (1.0, 4.0)]
GRID = list(itertools.product([-1.0, -0.3, 1.0], [-4.0, 1.7, 4.0]))


def table_of(rows, classes, numbers):
    frame = pd.DataFrame(rows, columns=["a", "b"])
    return frame.assign(three=classes, two=np.minimum(classes, 1), number=numbers)


# Some of the last nine rows of each table are removed: rows in all positions, far from all other rows, and of another
# class with certainty.
REMOVED = [(-3,), (-9, -7, -5, -1), (-7,)]
TABLES = [
    table_of(GRID, np.arange(9) % 3, np.resize([-1.0, 1.0, 1.0, -1.0], 9)),
    table_of(
        [(1.0, 4.0)] * 24 + GRID,
        np.append(np.zeros(24, int), np.arange(9) % 3),
        np.append(np.ones(24), np.resize([-1.0, 1.0, 1.0, -1.0], 9)),
    ),
    table_of(CORNERS * 23, np.append(np.arange(60) % 3, np.repeat([0, 1, 2], 3)), np.ones(69)),
]
MU, EPSILON = Mu(30.0, delta=1e-6), 30.0
BOUNDS = {"bounds": {"a": (-1, 1), "b": (-4, 4)}}
NUMBER = BOUNDS | {"target_bounds": (-1, 1)}
TWO, THREE = {"classes": [0, 1]}, {"classes": [0, 1, 2]}
# The number of rows by their norm, their mean, and the number again.
LIMITS = [1 / 32, 1 / 16, 1 / 32]
# The number of rows by norm, their mean, values by size, rows by their new norm, products, and rows by norm again.
AXES = [1 / 32, 1 / 16, 1 / 32, 1 / 64, 3 / 64, 1 / 32]


# Products, the number of rows by residual and gradients in turn, and squares of residuals.
def list_newton_steps(products, parts):
    gradients = [(23 / 30 - products) * part / 20 for part in parts]
    counts = [1 / 60, 1 / 60, 3 / 20]
    first = [draw for pair in zip(counts, gradients[:3], strict=True) for draw in pair]
    return [products, *first, gradients[3], 1 / 20]


NEWTON = [*AXES, *[25 / 32 * part for part in list_newton_steps(3 / 10, (1, 2, 5, 12))]]
# Rows by class, gradients, numbers of rows by size of second derivatives, these, and squares of residuals.
GRADIENTS = np.array([1, 1, 1, 2, 4, 11]) / 20
# A gradient that exceeds its noise by far is followed by a further step, up to four times.
FURTHER = np.array([*[1] * 6, 2, 4, 8]) / 20
DESCENT = [*AXES, 1 / 64, *GRADIENTS * 19 / 32, 1 / 64, 1 / 8, 1 / 32]
FEW_ROWS = [*AXES, 1 / 64, *GRADIENTS * 7 / 32, 1 / 64, 1 / 2, 1 / 32]
# With many rows for the noise, second derivatives are measured before some of the steps.
EARLY = [*AXES, 1 / 64, *np.insert(GRADIENTS * 19 / 32, [1, 2], 1 / 128), 1 / 64, 7 / 64, 1 / 32]
EARLY_THREE = [*AXES, 1 / 64, *np.insert(FURTHER * 97 / 128, 1, 1 / 128)]
# An epoch has one draw for all columns.
ROUNDS = [1 / 100, 3 / 20, *[21 / 300] * 12]
USED = [*[0.55] * 7, *[0.2] * 8]
# For each model: its target, the budgets of its draws, and the smallest fraction of each that a row uses.
MODELS = {
    "linear": (DPLinearRegression(MU, **NUMBER), "number", NEWTON, USED),
    "linear, epsilon": (DPLinearRegression(EPSILON, **NUMBER), "number", list_newton_steps(3 / 10, (1, 2, 5, 12)), 0.5),
    "ridge": (DPRidge(MU, **NUMBER), "number", NEWTON, USED),
    "logistic, two classes": (DPLogisticRegression(MU, **BOUNDS, **TWO), "two", DESCENT, 0.05),
    "logistic, early": (DPLogisticRegression(MU, **BOUNDS, **TWO), "two", EARLY, 0.04),
    "logistic, three classes": (DPLogisticRegression(MU, **BOUNDS, **THREE), "three", EARLY_THREE, 0.05),
    "components": (DPPCA(epsilon=MU, **BOUNDS), None, [*LIMITS, 7 / 8], 0.8),
    "components, epsilon": (DPPCA(epsilon=EPSILON, **BOUNDS), None, [*LIMITS, 7 / 8], 0.8),
    "additive, two classes": (DPAdditiveClassifier(MU, **BOUNDS, **TWO), "two", ROUNDS, 0.99),
    "additive, three classes": (DPAdditiveClassifier(MU, **BOUNDS, **THREE), "three", ROUNDS, 0.97),
}


# Noisy numbers of rows determine how often second derivatives are measured.
OTHER_TABLES = {"logistic, two classes": [0, 1], "logistic, early": [2], "logistic, three classes": [2]}
OTHER_TABLES |= {"additive, three classes": [0, 2]}


def losses_of_rows(model, target, tables):
    """Return the largest fraction of the budget that each draw loses by a row, over tables with equally many draws."""
    worst = {}
    for table, removed in ((TABLES[index], REMOVED[index]) for index in tables):
        rows = table[["a", "b"]] if target is None else table[["a", "b"]].assign(target=table[target])
        for index in rows.index[list(removed)]:
            moved = pd.concat([rows.drop(index), rows.loc[[index]]], ignore_index=True)
            replay = replay_release(model, moved, moved[:-1], random_state=index)
            assert replay.passed, replay.findings
            draws = replay.draws["epsilon"] / EPSILON if model.epsilon == EPSILON else replay.draws["rho"] / 450
            worst[len(draws)] = np.maximum(draws.to_numpy(), worst.get(len(draws), 0))
    return worst


# Ridge regression has the draws of linear regression, and three classes have more draws of each type than two.
ALIKE = {"ridge", "additive, two classes"}


@pytest.mark.usefixtures("few_cells")
@pytest.mark.parametrize("name", often(MODELS, {*MODELS} - ALIKE))
def test_each_draw_loses_at_most_its_budget_by_a_row(name):
    model, target, parts, smallest = MODELS[name]
    used = losses_of_rows(model, target, OTHER_TABLES.get(name, range(3)))[len(parts)] / parts
    assert sum(parts) == pytest.approx(1)
    assert (used <= 1 + 1e-9).all()
    assert (used >= smallest).all(), used


def test_second_derivatives_of_few_rows_have_up_to_half_of_the_budget(monkeypatch):
    monkeypatch.setattr("skdp.central._logistic_regression.MIN_INFORMATION_ROWS", 10**9)
    model, target, *_ = MODELS["logistic, two classes"]
    used = losses_of_rows(model, target, [1])[len(FEW_ROWS)] / FEW_ROWS
    assert sum(FEW_ROWS) == pytest.approx(1)
    assert (used <= 1 + 1e-9).all()
    assert used[-2] > 0.5


@pytest.mark.parametrize("name", ["linear", "logistic, two classes", "components"])
def test_each_draw_loses_at_most_its_budget_by_two_rows_of_a_person(name):
    model, target, parts, _ = MODELS[name]
    model = clone(model).set_params(max_rows_per_person=2)
    table = TABLES[1][["a", "b"]] if target is None else TABLES[1][["a", "b"]].assign(target=TABLES[1][target])
    rows = pd.concat([table, table.iloc[[-1, -1]]], ignore_index=True)
    replay = replay_release(model, rows, rows[:-2])
    assert replay.passed, replay.findings
    assert (replay.draws["rho"] / 450 / parts).max() == pytest.approx(1)


def test_products_of_a_single_column_lose_at_most_their_part():
    """Of all rows of a norm, these change the products most; other tables did not show the constant of a row."""
    rows = pd.DataFrame({"a": np.resize([-1.0, 1.0], 40)})
    replay = replay_release(DPPCA(epsilon=MU, bounds=(-1, 1)), rows, rows[:-1])
    used = replay.draws["rho"] / 450 / [*LIMITS, 7 / 8]
    assert used.max() <= 1 + 1e-9
    assert used.iloc[-1] > 0.9


def test_early_second_derivatives_are_a_part_of_the_budget_of_second_derivatives():
    model, target, parts, _ = MODELS["logistic, early"]
    variances = []

    def watch(sampler, drawn, values):
        variances.append(float(values["variance"]))
        return drawn

    with watch_draws(watch):
        clone(model).set_params(random_state=1).fit(TABLES[2][["a", "b"]], TABLES[2][target])
    assert len(variances) == len(parts)
    # The limit of second derivatives is the largest norm divided by a power of 2**(1 / 6), and the noise of products
    # is proportional to its fourth power.
    power = 1.5 * np.log2(variances[-1] * parts[-1] / (variances[-2] * parts[-2]))
    assert power == pytest.approx(round(power), abs=0.01)


@pytest.mark.long
@pytest.mark.parametrize("name", ["linear", "linear, epsilon", "ridge", "logistic, two classes"])
def test_rows_of_large_leverage_lose_at_most_the_budget_of_each_draw(name):
    model, target, parts, _ = MODELS[name]
    for seed in range(250 if name.startswith("linear") else 125):
        rng = np.random.default_rng(seed)
        table = table_of(rng.normal(size=(80, 2)) * 0.1, rng.integers(0, 3, 80), rng.normal(size=80) * 0.1)
        # A corner with an extreme target, far from all other rows.
        table.iloc[-1] = [*rng.choice([-1.0, 1.0], 2) * [1, 4], 2, 1, rng.choice([-1.0, 1.0])]
        table = table.astype({"two": int})
        rows = table[["a", "b"]].assign(target=table[target])
        replay = replay_release(model, rows, rows[:-1], random_state=seed)
        assert replay.passed, replay.findings
        draws = replay.draws["epsilon"] / EPSILON if model.epsilon == EPSILON else replay.draws["rho"] / 450
        assert draws.sum() <= sum(parts) * (1 + 1e-9)
        if not name.startswith("logistic"):  # noisy numbers determine how often second derivatives are measured
            assert (draws.to_numpy() <= np.array(parts) * (1 + 1e-9)).all()


@pytest.mark.parametrize("model", [DPLinearRegression(MU, **NUMBER), DPLogisticRegression(MU, **BOUNDS, **TWO)])
def test_a_large_value_in_one_of_many_scaled_columns_loses_at_most_the_budget(model):
    """The bound of the products held for values of at most two units, and a draw lost 1.4 times its budget."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(3_000, 40))).add_prefix("x")
    rows.loc[3_000] = np.append(np.zeros(39), 100.0)
    target = (np.append(rng.normal(size=3_000), 1) > 0).astype(int)
    model = clone(model).set_params(bounds=(-100, 100), epsilon=Mu(6, delta=1e-6))
    table = rows.assign(target=target)
    draws = replay_release(model, table, table[:-1], random_state=0).draws["rho"].to_numpy() / 18
    assert (draws[:6] <= np.array(AXES) * (1 + 1e-9)).all()
    assert draws[4] > 0.5 * AXES[4]


def test_draws_of_an_additive_regression_lose_the_budget_by_a_row():
    worst = losses_of_rows(DPAdditiveRegressor(MU, **NUMBER), "number", [1])
    assert 0.85 < max(draws.sum() for draws in worst.values()) <= 1


@pytest.mark.usefixtures("few_cells")
def test_a_target_at_its_bound_loses_as_much_in_the_sum_of_an_additive_regression_as_in_the_number_of_rows():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(60, 2)) * 0.1, columns=["a", "target"])
    rows.loc[60] = [0.0, 1.0]
    model = DPAdditiveRegressor(MU, bounds=(-1, 1), target_bounds=(-1, 1))
    draws = replay_release(model, rows, rows[:-1], random_state=0).draws["rho"]
    n_rows, total = draws[2:4]  # after the limits of the column and of the target
    assert 0 < total == pytest.approx(n_rows)


@pytest.mark.parametrize("name", often(MODELS, {*MODELS} - ALIKE - {"logistic, three classes"}))
def test_order_of_rows_does_not_change_exact_sums(name, monkeypatch):
    model, target, *_ = MODELS[name]
    monkeypatch.setattr("skdp.central._sums.MAX_BLOCK_NUMBERS", 3 * 4)  # other rows in each block
    table = TABLES[1].sample(400, replace=True, random_state=0)
    found = []
    for rows in (table, table[::-1], table.sample(frac=1, random_state=1)):
        y = None if target is None else rows[target]
        fitted = clone(model).set_params(random_state=0).fit(rows[["a", "b"]], y)
        found.append(joblib.hash({name: value for name, value in vars(fitted).items() if name.endswith("_")}))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", ["mean", "scaler", "groups"])
def test_sums_of_columns_are_equal_for_all_orders_and_sizes_of_blocks(name, monkeypatch):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(500, 3)) * [1, 1e-300, 1e6]
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    numbers[:3] = [np.inf, -np.inf, 0.0]
    frame = pd.DataFrame(numbers, columns=["a", "b", "c"]).assign(key=rng.choice(["x", "y"], 500))
    bounds = {"a": (-1, 1), "b": (0, 1e-300), "c": (5, 7)}
    estimator = {
        "mean": DPMean(bounds=bounds, random_state=0),
        "scaler": DPStandardScaler(bounds=bounds, random_state=0),
        "groups": DPGroupBy(by="key", keys={"key": ["x", "y"]}, bounds=bounds, random_state=0),
    }[name]
    table = frame if name == "groups" else frame[["a", "b", "c"]]
    found = []
    for block, rows in ((1 << 17, table), (3 * 4, table.sample(frac=1, random_state=0))):
        monkeypatch.setattr("skdp.central._sums.MAX_BLOCK_NUMBERS", block)
        fitted = estimator.fit(rows)
        found.append(joblib.hash({name: value for name, value in vars(fitted).items() if name.endswith("_")}))
    assert found[0] == found[1]
