"""Additive models: fitted functions, and their errors."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss, r2_score, roc_auc_score

from skdp import DPAdditiveClassifier, DPAdditiveRegressor, PrivacyLedger
from skdp.domain import Categories
from skdp.privacy import Mu
from tests.errors import refusal

rng = np.random.default_rng(0)
N = 3_000
X = pd.DataFrame({"a": rng.uniform(-1, 1, N), "b": rng.exponential(size=N), "c": rng.choice(["x", "y", "z"], N)})
EFFECT = 3 * np.abs(X["a"]) + X["b"].clip(upper=3) + X["c"].map({"x": 0.0, "y": 1.0, "z": -1.0})
CLASS = (rng.random(N) < 1 / (1 + np.exp(2.5 - EFFECT))).astype(int).to_numpy()
NUMBER = (EFFECT + rng.normal(0, 0.5, N)).to_numpy()
MUCH, SOME = Mu(30, delta=1e-6), Mu(2, delta=1e-6)
DECLARED = {"bounds": {"a": (-1, 1), "b": (0, 50)}, "categories": {"c": ["x", "y", "z"]}, "random_state": 0}


def classifier(epsilon=SOME, **more):
    return DPAdditiveClassifier(epsilon, **DECLARED | {"classes": [0, 1]} | more)


def regressor(epsilon=SOME, **more):
    return DPAdditiveRegressor(epsilon, **DECLARED | {"target_bounds": (-3, 10)} | more)


def test_model_with_little_noise_is_additive():
    model = classifier(MUCH).fit(X, CLASS)
    true = 1 / (1 + np.exp(2.5 - EFFECT))
    assert log_loss(CLASS, model.predict_proba(X)) < 1.02 * log_loss(CLASS, true)
    logits = model.decision_function(X) - EFFECT + 2.5
    assert np.sqrt(np.mean(logits**2)) < 0.3
    assert r2_score(NUMBER, regressor(MUCH).fit(X, NUMBER).predict(X)) > 0.88
    assert model.shape_("c").values.round(1).tolist() == pytest.approx([0.0, 1.0, -1.0], abs=0.3)


def make_ordinary_columns(n=4_000):
    """Return columns of which 24 bins of equal size show little, and the effect of each on a number."""
    random = np.random.default_rng(1)
    schools = random.choice(np.arange(1_000, 10_000), 150, replace=False)
    school, year = random.integers(0, 150, n), random.integers(0, 50, n)
    hours = np.where(random.random(n) < 0.5, 40, random.integers(20, 61, n))
    math, verbal = random.normal(size=(2, n))
    columns = {
        "identifier": (schools[school].astype(float), random.normal(size=150)[school]),
        "year": (1970.0 + year, random.normal(size=50)[year]),
        "spike": (hours.astype(float), 2.0 * (hours == 40)),
        "sum": (np.stack([math, 0.6 * verbal + math], axis=1), verbal),
    }
    return random, columns


@pytest.mark.parametrize("name", ["identifier", "year", "spike", "sum"])
def test_limit_of_a_regression_is_the_function_of_an_ordinary_column(name):
    """About 24 bins were too few for the budget, and six epochs for correlated columns: R2 of 0.1 in place of 0.9."""
    random, columns = make_ordinary_columns()
    values, effect = columns[name]
    table = np.stack([*np.atleast_2d(values.T), random.normal(size=len(effect))], axis=1)
    target = effect + 0.3 * random.normal(size=len(effect))
    low, high = {"identifier": (0, 10_000), "year": (1900, 2100), "spike": (0, 2_000), "sum": (-5, 5)}[name]
    bounds = [(low, high), *[(-5, 5)] * (table.shape[1] - 1)]
    model = DPAdditiveRegressor(10_000.0, bounds=bounds, target_bounds=(-6, 6), random_state=0)
    model.fit(table[::2], target[::2])
    assert r2_score(target[1::2], model.predict(table[1::2])) > r2_score(target[1::2], effect[1::2]) - 0.05


def test_limit_of_a_rare_class_is_its_probability():
    """A step from 6 % to 50 % was too long, so that the best group got the lowest of all logits."""
    random = np.random.default_rng(0)
    seed, year = random.integers(1, 17, 5_000), random.integers(1980, 2020, 5_000)
    probabilities = np.array([0.5, 0.2, 0.1, 0.1, *[0.04] * 4, *[0.003] * 8])[seed - 1]
    target = (random.random(5_000) < probabilities).astype(int)
    table = np.stack([seed, year], axis=1).astype(float)
    model = DPAdditiveClassifier(10_000.0, bounds=[(0, 20), (1970, 2020)], classes=[0, 1], random_state=0)
    model.fit(table[::2], target[::2])
    reached = roc_auc_score(target[1::2], model.predict_proba(table[1::2])[:, 1])
    assert reached > roc_auc_score(target[1::2], probabilities[1::2]) - 0.04


def test_classes_that_a_column_separates_have_the_limit():
    """Without a limit of the steps, functions of several logits returned to 0 in later epochs."""
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(250, 3)), columns=["a", "b", "d"])
    table["c"] = random.choice(["x", "y"], 250)
    target = (table["c"] == "x").to_numpy().astype(int)
    model = classifier(10_000.0, bounds=(-5, 5), categories={"c": ["x", "y"]}).fit(table, target)
    assert roc_auc_score(target, model.decision_function(table)) > 0.999


def test_fits_of_few_rows_are_about_as_good_as_a_constant():
    """The constant had only its first measurement, with an error of half of the width of the target."""
    scores = []
    for seed in range(6):
        random = np.random.default_rng(seed)
        table = random.normal(size=(250, 8))
        target = 0.3 * random.normal(size=250) + 0.2 * table[:, 0]
        model = DPAdditiveRegressor(1.0, bounds=(-4, 4), target_bounds=(-2, 2), random_state=seed)
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            scores.append(r2_score(target, model.fit(table, target).predict(table)))
    assert np.median(scores) > -0.15
    assert np.mean(np.array(scores) < -0.2) < 0.2


def test_noise_beyond_the_effects_causes_a_warning():
    random = np.random.default_rng(0)
    table, target = random.normal(size=(1_000, 3)), random.integers(0, 2, 1_000)
    model = DPAdditiveClassifier(1.0, bounds=(-4, 4), classes=[0, 1], random_state=0)
    with pytest.warns(UserWarning, match="The noise exceeds the effects of the columns"):
        model.fit(table, target)
    model.fit(table, (table[:, 0] > 0).astype(int))  # no warning


def test_many_targets_at_a_bound_are_not_all_predictions():
    """The mean was measured beyond the bound, so residuals of exactly 0 set their bound, and errors were about 1e-9."""
    for seed in range(4):
        random = np.random.default_rng(seed)
        table = random.normal(size=(600, 4))
        number = random.geometric(0.7, 600) - 1 + 5 * (random.random(600) < 0.05)
        model = DPAdditiveRegressor(1.0, bounds=(-4, 4), target_bounds=(0, 20), random_state=seed)
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            model.fit(table, number)
        assert np.ptp(model.predict(table)) > 0
        assert max(map(np.max, model.shapes_std_error_)) > 0.01


def test_guessed_sizes_of_residuals_cause_a_warning():
    random = np.random.default_rng(0)
    table, target = random.normal(size=(250, 8)), random.uniform(0, 1, 250)
    model = DPAdditiveRegressor(0.5, bounds=(-4, 4), target_bounds=(0, 1), random_state=0)
    with pytest.warns(UserWarning, match="The noise exceeds the numbers of residuals by size"):
        model.fit(table, target)


def test_clear_residuals_as_large_as_the_bounds_cause_no_warning():
    """For 20,000 numbers 0 and 1, noise was said to exceed the numbers of residuals."""
    random = np.random.default_rng(0)
    table = random.normal(size=(20_000, 2))
    target = (random.random(20_000) < 0.35 + 0.1 * np.sign(table[:, 0])).astype(float)
    DPAdditiveRegressor(1.0, bounds=(-4, 4), target_bounds=(0, 1), random_state=0).fit(table, target)


@pytest.mark.parametrize("feature", [pd.Series([1.0, 2.0]), np.ones(2), [1.0, 2.0]])
def test_column_in_place_of_its_name_is_an_error(feature):
    model = DPAdditiveRegressor(1.0, bounds=(-4, 4), target_bounds=(0, 5), random_state=0).fit(X[["a"]], NUMBER)
    with pytest.raises(TypeError, match=r"`feature` must be the name of a column, got [A-Za-z]*\.$"):
        model.shape_(feature)


def test_each_class_of_text_has_its_function():
    names = np.array(["low", "middle", "high"])[np.digitize(EFFECT, [1.5, 3])]
    model = classifier(classes=["low", "middle", "high"]).fit(X, names)
    assert model.classes_.tolist() == ["high", "low", "middle"]
    assert model.score(X, names) > 0.85
    assert model.shape_("c").values.shape == (3, 3)
    assert model.decision_function(X).shape == (N, 3)


def test_bounds_of_the_target_do_not_change_the_model():
    """R2 was -4,000,000 with bounds of a million in both directions, without a warning."""
    rows = X.head(1_500)
    for low, high in [(-3, 10), (-3, 1_297), (None, None), (1e6, None), (-1e6, 1e6)]:
        shift = 1e6 if low == 1e6 else 0.0
        target = NUMBER[:1_500].clip(0) + shift
        model = regressor(1.0, target_bounds=(low, high)).fit(rows, target)
        assert r2_score(target, model.predict(rows)) > 0.7
        assert np.ptp(model.bounds_[-1]) < 200
        assert model.guarantee_.epsilon == pytest.approx(1.0)


def test_class_as_a_number_needs_no_limits():
    model = regressor(target_bounds=(0, 1)).fit(X, CLASS)
    assert "limits" not in model.guarantee_.mechanism


def test_models_find_open_ends_of_features():
    ledger = PrivacyLedger(epsilon=4.0, delta=1e-5)
    rows = X[["a", "b"]]
    for bounds in (None, {"a": None, "b": (0, None)}):
        model = DPAdditiveRegressor(2.0, bounds=bounds, ledger=ledger, random_state=0)
        assert r2_score(NUMBER, model.fit(rows, NUMBER).predict(rows)) > 0.5
        assert (np.ptp(model.bounds_, axis=1) < 60).all()
    assert len(ledger.charges()) == 2
    model = DPAdditiveClassifier(2.0, classes=[0, 1], random_state=0).fit(rows, CLASS)
    assert roc_auc_score(CLASS, model.decision_function(rows)) > 0.7


def test_model_worse_than_a_constant_causes_a_warning():
    """Each function improved on the errors of the others, but not the model on a constant: R2 of -19."""
    random = np.random.default_rng(0)
    table = random.normal(size=(1_000, 4))
    # A search finds no scale of a target that is mostly 0.
    target = np.where(random.random(1_000) < 0.01, 50.0, 0.0)
    for seed in (0, 1, 3):  # 95 % of the fits warn
        model = DPAdditiveRegressor(1.0, bounds=(-4, 4), target_bounds=(0, 10_000), random_state=seed)
        with pytest.warns(UserWarning, match="worse than a constant.*narrower `target_bounds`"):
            model.fit(table, target)
        assert r2_score(target, model.predict(table)) < -1
        narrow = clone(model).set_params(target_bounds=(0, 50))
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            assert r2_score(target, narrow.fit(table, target).predict(table)) > -0.1


def test_missing_numbers_have_a_bin():
    gaps = X.assign(a=X["a"].where(rng.random(N) > 0.3))
    target = np.where(gaps["a"].isna(), 8.0, NUMBER)
    model = regressor().fit(gaps, target)
    assert r2_score(target, model.predict(gaps)) > 0.9
    shape = model.shape_("a")
    assert shape.bins.missing
    assert shape.values[-1] > shape.values[:-1].max()


def test_errors_of_two_values_are_inverse_to_their_counts():
    """The mean of a function over all rows is 0, so the values at "x" and "y" have the same error up to a factor."""
    table = X.assign(c=np.where(rng.random(N) < 0.8, "x", "y"))
    shape = regressor(MUCH, categories={"c": ["x", "y"]}).fit(table, NUMBER).shape_("c")
    assert shape.std_error[0] * shape.counts[0] == pytest.approx(shape.std_error[1] * shape.counts[1])


def test_errors_contain_the_noise_of_the_counts_that_center_a_function():
    rows = pd.DataFrame({"c": np.resize(["a", "b", "b", "b"], 2_000)})
    target = np.where(rows["c"] == "a", -0.9, 0.9)
    errors = []
    for seed in range(12):
        model = DPAdditiveRegressor(1.0, categories={"c": ["a", "b"]}, target_bounds=(-1, 1), random_state=seed)
        shape = model.fit(rows, target).shape_("c")
        errors.append((shape.values - [-1.35, 0.45]) / shape.std_error)
    squares = np.mean(np.square(errors), axis=0)
    # Chi-squared with 12 degrees of freedom: 3.4e-7 on each side.
    assert ((squares > 0.0432) & (squares < 4.46)).all(), squares


@pytest.mark.filterwarnings("ignore:The noise exceeds the numbers of residuals:UserWarning")
def test_standard_errors_with_much_noise_cover_heavy_tails():
    """The smallest of four bounds, and its noisy counts, made them a fifth too small: 0.82 of the intervals covered."""
    effects = np.array([-2.0, 0.0, 2.0])
    inside = []
    for seed in range(12):
        random = np.random.default_rng(seed)
        codes = {name: random.choice(3, 1_500) for name in "ab"}
        target = effects[codes["a"]] + effects[codes["b"]] / 2 + random.standard_t(3, 1_500)
        table = pd.DataFrame({name: np.array(["u", "v", "w"])[column] for name, column in codes.items()})
        model = DPAdditiveRegressor(0.5, categories=[["u", "v", "w"]] * 2, target_bounds=(-20, 20), random_state=seed)
        model.fit(table, target)
        for name, scale in {"a": 1, "b": 0.5}.items():
            shape, true = model.shape_(name), scale * (effects - effects[codes[name]].mean())
            inside.append(np.abs(shape.values - true) < 1.96 * shape.std_error)
    assert np.mean(inside) > 0.88


def test_function_beside_a_column_with_large_effects_is_not_too_small():
    """Slopes were computed for rows without effects of other columns: functions were an eighth too small."""
    values, effects = np.array(["u", "v", "w"]), np.array([-1.0, 0.0, 1.0])
    ranges = []
    for seed in range(8):
        random = np.random.default_rng(seed)
        large, small = random.choice(3, (2, 4_000))
        target = random.random(4_000) < 1 / (1 + np.exp(-2 * effects[large] - effects[small]))
        table = pd.DataFrame({"large": values[large], "small": values[small]})
        model = DPAdditiveClassifier(1.0, categories=[values] * 2, classes=[False, True], random_state=seed)
        ranges.append(np.ptp(model.fit(table, target).shape_("small").values))
    assert np.mean(ranges) / 2 > 0.9


def test_values_beyond_the_bounds_are_in_the_outer_bins():
    model = regressor().fit(X, NUMBER)
    far = X.head(2).assign(a=[-np.inf, 99.0])
    near = X.head(2).assign(a=[-1.0, 1.0])
    assert (model.predict(far) == model.predict(near)).all()


def test_value_outside_the_domain_raises_or_adds_nothing():
    other = X.assign(c=X["c"].where(X["c"] != "z", "w"))
    with pytest.raises(ValueError, match="Column 'c'"):
        classifier().fit(other, CLASS)
    model = classifier(handle_unknown="ignore").fit(X, CLASS)
    logits = model.decision_function(X) - model.decision_function(X.assign(c="w"))
    assert logits == pytest.approx(model.shape_("c").values[X["c"].map({"x": 0, "y": 1, "z": 2})])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"handle_unknown": "drop"}, "handle_unknown"),
        ({"categories": {"d": [1]}}, "The keys of `categories` must be columns of X"),
        ({"bounds": (0, "1")}, "`bounds` of column 'a' must be two numbers"),
        ({"bounds": {"a": (-1, 1)}}, r"`bounds` declares no values for the columns \['b'\].* in `categories`"),
        ({"bounds": {"a": (-1, 1), "b": (0, 50), "c": (0, 1)}}, r"Columns \['c'\] must be declared once"),
        ({"bounds": {"a": (-1, 1), "b": (0, 50), "d": (0, 1)}}, r"columns of X, \['a', 'b', 'c'\], got \['d'\]"),
        ({"target_bounds": (None, "1")}, "`target_bounds` of column 'target' must be two numbers"),
        ({"monotonic_cst": {1, 0, -1}}, "`monotonic_cst` must have a value for each of the 3 columns of X, got 1"),
        ({"monotonic_cst": [1, 0]}, "`monotonic_cst` must have a value for each of the 3 columns of X, got 2"),
        ({"monotonic_cst": [[1], [0, 1], 0]}, r"`monotonic_cst\['a'\]` must be an integer, got list"),
        ({"monotonic_cst": {"d": 1}}, "The keys of `monotonic_cst` must be columns of X"),
        ({"monotonic_cst": {"a": 2}}, r"`monotonic_cst\['a'\]` must be between -1 and 1, got 2"),
        ({"monotonic_cst": [0.5, 0, 0]}, r"`monotonic_cst\['a'\]` must be an integer, got float"),
        ({"monotonic_cst": {"c": 1}}, r"`monotonic_cst\['c'\]` must be 0 for a column without an order, got 1"),
    ],
)
def test_error_names_the_parameter(parameters, message):
    with pytest.raises((ValueError, TypeError), match=message):
        regressor(**parameters).fit(X, NUMBER)


@pytest.mark.parametrize("make", [regressor, classifier])
def test_functions_with_a_direction_are_monotone(make):
    """The effect of "a" is not monotone, and missing numbers have a bin outside the order."""
    order = Categories(["z", None, "x", "y"], ordered=True)
    table = X.assign(a=X["a"].where(X["a"] > -0.9), c=X["c"].where(X["b"] < 4))
    target = CLASS if make is classifier else NUMBER
    model = make(Mu(1.5, delta=1e-6), categories={"c": order}, monotonic_cst=[1, -1, 1])
    model = pickle.loads(pickle.dumps(clone(model))).fit(table, target)
    for name, direction, ordered in [("a", 1, slice(-1)), ("b", -1, slice(-1)), ("c", 1, [0, 2, 3])]:
        shape = model.shape_(name)
        steps = direction * np.diff(shape.values[ordered])
        assert (steps >= 0).all()
        assert (steps > 0).any() or name == "b"  # whose effect increases
        assert shape.values @ shape.counts == pytest.approx(0, abs=1e-6 * shape.counts.sum())
    response = model.predict if make is regressor else model.decision_function
    assert (np.diff(response(pd.DataFrame({"a": np.linspace(-1, 1, 99), "b": 1.0, "c": "x"}))) >= 0).all()
    assert "monotonic_cst={'a': 1, 'b': -1, 'c': 1}" in model.guarantee_.mechanism
    named = clone(model).set_params(monotonic_cst={"a": 1, "b": -1, "c": np.int64(1)}).fit(table, target)
    assert (named.shapes_[0] == model.shapes_[0]).all()


def test_monotone_functions_have_smaller_errors_and_the_coverage_of_free_ones():
    squares, inside = [], []
    for seed in range(4):
        random = np.random.default_rng(seed)
        table = pd.DataFrame(random.uniform(-1, 1, (2_000, 2)), columns=["a", "b"])
        parts = {"a": 1.0 * (table["a"] > 0.3), "b": -table["b"]}
        target = sum(parts.values()) + random.normal(size=2_000)
        for directions in (None, {"a": 1, "b": -1}):
            model = regressor(1.0, bounds=(-1, 1), categories=None, target_bounds=(-8, 8), monotonic_cst=directions)
            model.set_params(random_state=seed).fit(table, target)
            for name, part in parts.items():
                shape = model.shape_(name)
                errors = shape.values[shape.bins.encode(table[name].to_numpy())] - (part - part.mean())
                squares.append(np.mean(errors**2))
                inside.append(bands_hold(shape, table[name], part.to_numpy()).mean())
    free, monotone = np.reshape(squares, (4, 2, 2)).mean(axis=(0, 2))
    assert monotone < 0.85 * free
    free, monotone = np.reshape(inside, (4, 2, 2)).mean(axis=(0, 2))
    assert monotone > max(free, 0.93)


def test_rare_values_hardly_change_a_monotone_function():
    """Values that are merged have their mean over rows."""
    codes = np.repeat([0.0, 1.0, 2.0], [20, 980, 1_000])
    target = np.select([codes == 0, codes == 1], [1.0, 0.0], 2.0)
    model = DPAdditiveRegressor(MUCH, categories=[[0, 1, 2]], target_bounds=(-4, 4), monotonic_cst=[1], random_state=0)
    predicted = model.fit(codes.reshape(-1, 1), target).predict([[0], [1], [2]])
    assert predicted == pytest.approx([0.02, 0.02, 2], abs=0.05)


def test_direction_for_several_classes_raises_before_charge():
    with refusal(ValueError, "`monotonic_cst` must be None for more than two classes, got 3 classes") as ledger:
        model = classifier(1.0, classes=[0, 1, 2], monotonic_cst={"a": 1}, ledger=ledger)
        model.fit(X, CLASS)


def test_column_of_too_many_values_raises_before_charge():
    """They were counted in 16 bits, after the charge."""
    with refusal(ValueError, "Column 'c' must have at most 4,096 declared values, got 40,000") as ledger:
        model = DPAdditiveClassifier(1.0, categories={"c": list(range(40_000))}, classes=[0, 1], ledger=ledger)
        model.fit(pd.DataFrame({"c": np.arange(N)}), CLASS)


@pytest.mark.filterwarnings("ignore:The noise exceeds the effects:UserWarning")
def test_functions_of_rare_classes_stay_small():
    random = np.random.default_rng(0)
    columns = random.normal(size=(5_000, 4))
    target = random.choice(3, 5_000, p=[0.98, 0.01, 0.01])
    losses = []
    for seed in range(3):
        model = DPAdditiveClassifier(0.3, classes=[0, 1, 2], bounds=(-4, 4), random_state=seed)
        losses.append(log_loss(target, model.fit(columns, target).predict_proba(columns)))
    # The log proportions of the classes have a loss of 0.11; one fit in thirty is above 0.2.
    assert np.median(losses) < 0.15


def bands_hold(shape, column, part, weights=None):
    """Return for each bin with rows if its 95 % interval covers the true function."""
    codes = shape.bins.encode(column.clip(-5, 5).to_numpy())
    sizes = np.bincount(codes, minlength=len(shape.values))
    has_rows = sizes > 0
    expected = np.bincount(codes, weights=part, minlength=len(sizes))[has_rows] / sizes[has_rows]
    if weights is not None:
        errors = shape.values[has_rows] - np.outer(expected - part.mean(), weights - weights.mean())
    else:
        errors = shape.values[has_rows] - expected
        errors -= np.average(errors, weights=shape.counts[has_rows])
    return (np.abs(errors) < 1.96 * shape.std_error[has_rows]).ravel()


def measure_coverage(n_fits, epsilon):
    inside = []
    for seed in range(n_fits):
        random = np.random.default_rng(seed)
        numbers = random.normal(size=(4_000, 2))
        table = pd.DataFrame(numbers, columns=["a", "b"]).assign(c=random.choice(["x", "y"], 4_000))
        parts = {"a": np.sin(2 * numbers[:, 0]), "b": 0.5 * numbers[:, 1]}
        target = sum(parts.values()) + random.normal(0, 0.5, 4_000)
        model = regressor(epsilon, bounds=(-5, 5), categories={"c": ["x", "y"]}, target_bounds=(-5, 5))
        model.set_params(random_state=seed).fit(table, target)
        inside += [bands_hold(model.shape_(name), table[name], part) for name, part in parts.items()]
    return np.concatenate(inside).mean()


def test_bands_cover_the_function():
    assert measure_coverage(3, 4.0) > 0.85


def test_bands_of_several_classes_cover_the_functions():
    """Noise common to all classes changes no probability; functions contained it, and their bands did not."""
    inside = []
    weights = np.array([0.8, 0.1, -0.9])
    for seed in range(2):
        random = np.random.default_rng(seed)
        table = pd.DataFrame(random.normal(size=(3_000, 2)), columns=["a", "b"])
        parts = {"a": np.sin(2 * table["a"].to_numpy()), "b": 0.5 * table["b"].to_numpy()}
        logits = (parts["a"] + parts["b"])[:, np.newaxis] * weights
        target = np.argmax(logits + random.gumbel(size=logits.shape), axis=1)
        model = DPAdditiveClassifier(2.0, bounds=(-5, 5), classes=[0, 1, 2], random_state=seed).fit(table, target)
        for name, part in parts.items():
            shape = model.shape_(name)
            assert shape.values.sum(axis=1) == pytest.approx(0, abs=1e-9)
            inside.append(bands_hold(shape, table[name], part, weights))
    assert np.concatenate(inside).mean() > 0.9


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "min_coverage"), [(0.5, 0.8), (1.0, 0.9), (4.0, 0.9)])
def test_bands_have_the_stated_coverage(epsilon, min_coverage):
    assert measure_coverage(40, epsilon) > min_coverage
