"""Regression from reports: independent fits, derivatives and sums by enumeration, coverage, and invalid input."""

import io
import itertools
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

import skdp
from skdp import LocalHashingEncoder, NumericPerturber, RandomizedResponseEncoder, UnaryEncodingTransformer
from skdp.survey import ReportDesign, ReportLinearRegression, ReportLogisticRegression
from tests.conftest import diagonal, quick_first
from tests.errors import refusal

CASES = Path(__file__).parent / "cases"
FIGURES = json.loads((CASES / "figures.json").read_text())


def design_of(case, column, place=1):
    tables = {int(key): np.array(table).T for key, table in case["channel"].items()}
    if case["grouped"]:
        return ReportDesign(column, tables, values=[0, 1], group="group")
    return ReportDesign(column, tables[place], values=list(range(len(tables[place]))))


def fit_case(name):
    case = FIGURES[name]
    file = name.removesuffix("+joint")
    table = pd.read_csv(CASES / f"{file}.csv.gz")
    reports = [column for column in table if column[0] in "wrg"]
    table[reports] = table[reports].astype(int)
    if case["kind"] == "log":
        X = table[[column for column in table if column.startswith("x")]]
        model = ReportLogisticRegression(target_design=design_of(case, "report"))
        model.fit(X, table[reports])
        names = ["(Intercept)", *X.columns]
    else:
        names = [column for column in table if column.startswith("w")]
        designs = [design_of(case, column, place) for place, column in enumerate(names, 1)]
        model = ReportLinearRegression(designs).fit(table.drop(columns="y"), table["y"])
        known = [column for column in table if column.startswith("u")]
        names = ["(Intercept)", *known, *names]
    return model, case, [case["param"].index(each) for each in names]


@pytest.mark.parametrize("name", FIGURES)
def test_fits_equal_independent_programs(name):
    """Estimates within 1e-4 standard errors, and sandwich errors, with divisor n there and n - 1 here."""
    model, case, places = fit_case(name)
    summary = model.summary()
    expected, errors = np.array(case["estimate"])[places], np.array(case["se_sandwich"])[places]
    assert (np.abs(summary["estimate"] - expected) / errors).max() < 1e-4
    np.testing.assert_allclose(summary["std_error"], errors, rtol=2e-3)
    assert model.log_likelihood_ == pytest.approx(case["logLik"], abs=1e-6)


# Regressions without reports.

pytestmark = pytest.mark.filterwarnings("ignore:X and y are treated as true values:UserWarning")


@pytest.mark.parametrize("model", [ReportLogisticRegression(), ReportLinearRegression()])
def test_reports_without_a_design_warn(model):
    X, _, _, y = generate_rows(n=100)
    with pytest.warns(UserWarning, match=r"treated as true values, because no design is given\. .* pass the encoder"):
        model.fit(X, y)


@pytest.mark.parametrize("estimator", quick_first(1, [ReportLinearRegression(), ReportLogisticRegression()]))
def test_scikit_learn_checks_pass(estimator):
    with warnings.catch_warnings():
        # Tables that separate the classes have no maximum.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "X and y are treated as true values")
        check_estimator(estimator, on_skip=None)


def generate_rows(n=3000, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.normal(size=n), "hours": rng.normal(size=n)})
    sex = (rng.random(n) < 1 / (1 + np.exp(-X["age"]))).astype(int)
    linear = 0.5 * X["age"] - 0.3 * X["hours"] + 1.0 * sex - 0.5
    if n_classes == 2:
        y = (rng.random(n) < 1 / (1 + np.exp(-linear))).astype(int)
    else:
        y = np.argmax(np.outer(linear, np.arange(n_classes) / 2) + rng.gumbel(size=(n, n_classes)), axis=1)
    return X, sex, linear + rng.normal(size=n), y


@pytest.mark.parametrize("n_classes", [2, 4])
def test_fit_without_reports_equals_logistic_regression(n_classes):
    X, _, _, y = generate_rows(n_classes=n_classes)
    model = ReportLogisticRegression().fit(X, y)
    plain = LogisticRegression(C=1e12, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-5)
    if n_classes == 2:
        np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-5)
        # The sandwich of a logistic regression, in closed form.
        p = plain.predict_proba(X)[:, 1]
        design = np.column_stack([np.ones(len(X)), X])
        inverse = np.linalg.inv(design.T @ (design * (p * (1 - p))[:, None]))
        scores = design * (np.asarray(y) - p)[:, None]
        errors = np.sqrt(len(X) / (len(X) - 1) * np.diag(inverse @ scores.T @ scores @ inverse))
        np.testing.assert_allclose(model.summary()["std_error"], errors, rtol=1e-4)
    assert model.summary().shape == (3 * (n_classes - 1), 5)


@pytest.mark.filterwarnings("ignore:X and y are treated as true values")
def test_weighted_fit_without_reports_has_the_sandwich_of_weighted_least_squares():
    X, _, y, _ = generate_rows(500)
    weights = np.arange(500) % 4.0
    model = ReportLinearRegression().fit(X, y, weights)
    used = weights > 0
    design = np.column_stack([np.ones(used.sum()), X[used]])
    inverse = np.linalg.inv(design.T @ (design * weights[used, np.newaxis]))
    residuals = y[used] - design @ inverse @ design.T @ (weights[used] * y[used])
    scores = design * (weights[used] * residuals.to_numpy())[:, np.newaxis]
    errors = np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))
    np.testing.assert_allclose(model.summary()["std_error"], errors, rtol=2e-3)
    # Rows of weight 0 do not count.
    subset = ReportLinearRegression().fit(X[used], y[used], weights[used])
    assert model.log_likelihood_ == pytest.approx(subset.log_likelihood_)
    # Rows that occur twice in their cluster have the errors of one, and clusters of weight 0 do not count.
    rows = np.repeat(np.arange(500), 2)
    twice = ReportLinearRegression().fit(X.iloc[rows], y.iloc[rows], weights[rows], clusters=rows)
    np.testing.assert_allclose(twice.summary()["std_error"], model.summary()["std_error"], rtol=2e-3)
    assert twice.degrees_of_freedom_ == used.sum() - 1


THREE = ReportDesign("a", np.full((3, 3), 0.1) + 0.7 * np.eye(3), values=[10, 20, 50])
TWO = ReportDesign("b", [[0.8, 0.2], [0.3, 0.7]], values=["f", "m"])
TARGET = ReportDesign("y", [[0.9, 0.1], [0.2, 0.8]], values=[0, 1])


def reported_table(n=300, seed=0):
    """Draw a true predictor, and reports of two other predictors and of a target."""
    rng = np.random.default_rng(seed)
    age = rng.normal(2, 1, n)
    a = np.clip(np.round(age + rng.normal(size=n)), 0, 2).astype(int)
    b = (rng.random(n) < 0.2 + 0.3 * a).astype(int)
    linear = 0.5 * age + (a == 1) - b
    reported = {
        "age": age,
        "a": [THREE.values[rng.choice(3, p=THREE.channels[None][value])] for value in a],
        "b": [TWO.values[rng.choice(2, p=TWO.channels[None][value])] for value in b],
    }
    y = (rng.random(n) < 1 / (1 + np.exp(-linear))).astype(int)
    reports = np.array([rng.choice(2, p=TARGET.channels[None][value]) for value in y])
    return pd.DataFrame(reported), linear + rng.normal(size=n), pd.Series(reports, name="y")


@pytest.mark.parametrize(("kind", "factor"), diagonal([ReportLogisticRegression, ReportLinearRegression], [1e4, 1e-6]))
def test_only_ratios_of_weights_matter(kind, factor):
    """Also if a few rows have large weights: no warning, a maximum, equal errors."""
    X, y, reports = reported_table(600)
    options = {}
    if kind is ReportLogisticRegression:
        y, options = reports, {"target_design": TARGET}
    X = X.drop(columns="b")
    weights = np.exp(1.5 * np.random.default_rng(0).normal(size=len(X)))
    expected = kind(THREE, **options).fit(X, y, weights).summary()
    scaled = kind(THREE, **options).fit(X, y, factor * weights).summary()
    np.testing.assert_allclose(scaled, expected, rtol=1e-5, atol=1e-5)
    # Equal weights equal a fit without weights, errors included.
    plain = kind(THREE, **options).fit(X, y)
    equal = kind(THREE, **options).fit(X, y, np.full(len(X), factor))
    pd.testing.assert_frame_equal(equal.summary(), plain.summary())
    assert equal.log_likelihood_ == plain.log_likelihood_


@pytest.mark.parametrize("design", quick_first(1, ["weights", "clusters"]))
def test_correct_model_does_not_warn_for_clusters_or_weights(design):
    """The comparison of proportions counts persons, not their rows and not rows with a tiny weight."""
    rng = np.random.default_rng(10)
    age = rng.normal(size=300)
    sex = (rng.random(300) < 1 / (1 + np.exp(-age))).astype(int)
    y = 2 * sex + age + rng.normal(size=300)
    X = pd.DataFrame({"sex": np.where(rng.random(300) < 0.7, sex, 1 - sex), "age": age})
    model = ReportLinearRegression(ReportDesign.warner("sex", 0.7, values=[0, 1]))
    expected = model.fit(X, y).summary()["estimate"]
    places = np.repeat(np.arange(300), 100)
    table = X.iloc[places].reset_index(drop=True)
    # As separate rows, they differ by more than 5 standard errors.
    with pytest.warns(UserWarning, match="proportions of 'sex' in the fit and in its reports differ by"):
        model.fit(table, y[places])
    options = {"clusters": places}
    if design == "weights":
        options = {"sample_weight": np.where(np.arange(30_000) % 100 == 0, 1, 1e-9)}
    model.fit(table, y[places], **options)
    np.testing.assert_allclose(model.summary()["estimate"], expected, rtol=1e-4)


def test_intervals_of_clusters_have_quantiles_of_student():
    """With degrees of freedom one below the number of clusters; normal quantiles cover 77 % with four."""
    rng, clusters = np.random.default_rng(0), np.repeat(np.arange(5), 20)
    x = rng.normal(size=100) + 0.7 * rng.normal(size=5)[clusters]
    y = 0.5 * x + 0.3 * rng.normal(size=5)[clusters] + rng.normal(size=100)
    row = ReportLinearRegression().fit(x[:, np.newaxis], y, clusters=clusters).summary().loc["x0"]
    assert row["upper"] - row["estimate"] == pytest.approx(stats.t.ppf(0.975, 4) * row["std_error"])
    assert row["p_value"] == pytest.approx(2 * stats.t.sf(abs(row["estimate"]) / row["std_error"], 4))


# The likelihood.


def enumerated_log_likelihood(X, y, parameters, logistic):
    """Return the log of the sum over all true values of a and b, and over classes, computed independently."""
    intercept, coef, hidden, log_sigma = parameters
    age, target = X["age"].to_numpy(), np.asarray(y)
    places = [
        np.array([design.values.index(value) for value in X[name]]) for name, design in (("a", THREE), ("b", TWO))
    ]
    odds = np.exp(hidden[0] + np.outer(age, hidden[1]))
    priors = np.column_stack([np.ones(len(age)), odds]) / (1 + odds.sum(axis=1))[:, np.newaxis]
    total = np.zeros(len(age))
    for cell, (i, j) in enumerate(itertools.product(range(3), range(2))):
        linear = intercept + coef[0] * age + coef[1] * (i == 1) + coef[2] * (i == 2) + coef[3] * (j == 1)
        if logistic:
            share = 1 / (1 + np.exp(-linear))
            (no, yes) = TARGET.channels[None][:, target]
            density = (1 - share) * no + share * yes
        else:
            density = stats.norm.pdf(target, linear, np.exp(log_sigma))
        total += priors[:, cell] * THREE.channels[None][i, places[0]] * TWO.channels[None][j, places[1]] * density
    return np.log(total).sum()


@pytest.mark.parametrize("logistic", quick_first(1, [True, False]))
def test_fit_maximizes_the_enumerated_likelihood(logistic):
    X, numbers, reports = reported_table(1000)
    y = reports if logistic else numbers
    model = ReportLinearRegression([THREE, TWO])
    if logistic:
        model = ReportLogisticRegression([THREE, TWO], target_design=TARGET)
    model.fit(X, y)
    sigma = 1.0 if logistic else model.sigma_
    fitted = [np.ravel(model.intercept_), np.ravel(model.coef_), np.ravel(model.hidden_coef_), [np.log(sigma)]]
    bounds = np.cumsum([len(part) for part in fitted])[:-1]

    def value(flat):
        intercept, coef, hidden, (log_sigma,) = np.split(flat, bounds)
        return enumerated_log_likelihood(X, y, (intercept[0], coef, hidden.reshape(2, 5), log_sigma), logistic)

    flat = np.concatenate(fitted)
    assert value(flat) == pytest.approx(model.log_likelihood_, rel=1e-9)
    for place in range(len(flat) - logistic):
        step = np.zeros(len(flat))
        step[place] = 1e-4
        assert abs(value(flat + step) - value(flat - step)) / 2e-4 < 1e-3, place


# Reports of encoders.


@pytest.mark.long
@pytest.mark.parametrize(
    "encoder",
    [
        RandomizedResponseEncoder(4.0, strategy="joint", random_state=0),
        pytest.param(UnaryEncodingTransformer(6.0, random_state=0), marks=pytest.mark.long),
        pytest.param(LocalHashingEncoder(6.0, random_state=0), marks=pytest.mark.long),
    ],
    ids=lambda encoder: type(encoder).__name__,
)
def test_intervals_cover_the_true_coefficients(encoder):
    """Two dependent predictors that depend on a true one; each interval has level 1 - 1e-6."""
    rng, n = np.random.default_rng(1), 20_000
    age = rng.normal(size=n)
    sex = (rng.random(n) < 1 / (1 + np.exp(-age))).astype(int)
    job = (rng.random(n) < 0.2 + 0.4 * sex).astype(int) + (rng.random(n) < 0.3)
    log_odds = -0.5 + 0.5 * age + 1.2 * sex + 0.6 * (job == 1) - 0.4 * (job == 2)
    y = rng.random(n) < 1 / (1 + np.exp(-log_odds))
    truth = pd.DataFrame({"sex": np.array(["f", "m"])[sex], "job": np.array(["a", "b", "c"])[job]})
    encoder.set_params(categories={"sex": ["f", "m"], "job": ["a", "b", "c"]})
    reports = encoder.fit_transform(truth)
    X = pd.concat([pd.DataFrame({"age": age}), reports], axis=1)
    summary = ReportLogisticRegression(encoder).fit(X, y).summary(confidence_level=1 - 1e-6)
    assert list(summary.index) == ["(intercept)", "age", "sex=m", "job=b", "job=c"]
    expected = np.array([-0.5, 0.5, 1.2, 0.6, -0.4])
    assert ((summary["lower"] <= expected) & (expected <= summary["upper"])).all()
    # Treating reports as true values gives a distant estimate.
    assert summary.loc["sex=m", "std_error"] < 0.25


def test_designs_are_saved():
    """Groups have labels of several types, one design has cheaters, and one is a given matrix."""
    rng = np.random.default_rng(0)
    cards = {"low": [[0.8, 0.2], [0.1, 0.9]], ("high", 2): [[0.3, 0.7], [0.0, 1.0]]}
    two = ReportDesign("smokes", cards, values=[False, True], group="half").with_cheaters(False)
    coins = ReportDesign("sex", [[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]], values=["f", "m"], reports=["a", "b", "c"])
    X = pd.DataFrame({"sex": rng.choice(["a", "b", "c"], 400), "age": rng.normal(size=400)})
    y = pd.DataFrame({"smokes": rng.random(400) < 0.5, "half": [*cards] * 200})
    model = ReportLogisticRegression(coins, target_design=two)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    file = io.BytesIO()
    skdp.save(model, file)
    again = skdp.load(file)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    pd.testing.assert_frame_equal(again.summary(), model.summary())
    for loaded, design in ((again.target_design, two), (again.predictor_designs, coins)):
        assert loaded.arguments().keys() == design.arguments().keys()
        np.testing.assert_equal(loaded.arguments(), design.arguments())


# Reports that contradict the model.


def repeat_reports(counts, values=("no", "yes")):
    """Return a table with the given number of reports of each value, in a mixed order."""
    reports = np.repeat(list(values), counts)
    return pd.DataFrame({"a": np.random.default_rng(0).permutation(reports)})


UNLIKELY_WARNER = ReportDesign("a", [[0.55, 0.45], [0.45, 0.55]], values=["no", "yes"])


@pytest.mark.parametrize("counts", [(650, 350), (350, 650)])
@pytest.mark.parametrize("role", ["target", "predictor"])
def test_proportions_at_the_boundary_have_no_errors(counts, role):
    """The likelihood increases up to the boundary."""
    X = pd.DataFrame({"u": np.random.default_rng(1).normal(size=1000)})
    reports = repeat_reports(counts)
    model = ReportLogisticRegression([UNLIKELY_WARNER])
    X, y = X.assign(a=reports["a"]), np.arange(1000) % 2
    if role == "target":
        model, X, y = ReportLogisticRegression(target_design=UNLIKELY_WARNER), X[["u"]], reports
    with pytest.warns(ConvergenceWarning, match="no clear maximum") as caught:
        model.fit(X, y)
    assert np.isnan(model.coef_std_error_).all()
    assert Path(caught[0].filename).name == "test_regression.py"


def test_cheaters_are_a_class():
    """15 % of the respondents who did not copy answer no for every card."""
    rng, n = np.random.default_rng(5), 10_000
    age, half = rng.normal(size=n), rng.integers(2, size=n)
    copied = rng.random(n) < 1 / (1 + np.exp(1 - 0.8 * age))
    is_told_yes = rng.random(n) < np.where(half == 0, 0.2, 0.8)
    cheats = (rng.random(n) < 0.15) & ~copied
    reports = pd.DataFrame({"a": np.where((copied | is_told_yes) & ~cheats, "yes", "no"), "half": half})
    cards = {0: ReportDesign.forced("a", yes=0.2, no=0), 1: ReportDesign.forced("a", yes=0.8, no=0)}
    design = ReportDesign.by_group(cards, "half").with_cheaters("no")
    model = ReportLogisticRegression(target_design=design).fit(pd.DataFrame({"age": age}), reports)
    assert list(model.classes_) == ["no", "yes", "cheaters"]
    # Log odds against compliant respondents who did not copy.
    expected = pd.DataFrame({"yes": [-1 - np.log(0.85), 0.8], "cheaters": [np.log(0.15 / 0.85), 0]})
    summary = model.summary(confidence_level=1 - 1e-6)
    for label in expected:
        rows = summary.loc[label]
        assert (rows["lower"] < expected[label].to_numpy()).all()
        assert (rows["upper"] > expected[label].to_numpy()).all()
    assert summary["std_error"].max() < 0.2
    predicted = model.predict_proba(pd.DataFrame({"age": age})).mean(axis=0)
    np.testing.assert_allclose(predicted, design.estimate_frequencies(reports)["frequency"], atol=0.01)


# Invalid input.

WARNER = ReportDesign("a", [[0.75, 0.25], [0.25, 0.75]], values=[0, 1])


@pytest.mark.parametrize("column", [1.0, "age"])
def test_collinear_predictors_have_no_errors(column):
    X, sex, _, y = generate_rows(n=600)
    X = X.assign(a=sex, last=2 * X["age"] if column == "age" else column)
    with pytest.warns(ConvergenceWarning, match="no clear maximum.*constant, collinear"):
        model = ReportLogisticRegression(ReportDesign.warner("a", 0.9, values=[0, 1])).fit(X, y)
    assert model.summary()["std_error"].isna().all()


BY_A = "predictor_designs"


@pytest.mark.parametrize(
    ("options", "X", "message"),
    [
        ({BY_A: WARNER}, {"b": [0, 1]}, r"X must contain the columns \['a'\] of the design"),
        ({BY_A: WARNER}, {"a": [0, 7]}, r"'a' must have the labels \[0, 1\], got other entries \(rows: 1,"),
        ({BY_A: [ReportDesign]}, {"a": [0, 1]}, "instances of ReportDesign or fitted encoders .*, got ReportDesign"),
        ({BY_A: WARNER}, {"a": [0, 1], "b": ["x", "y"]}, "'b' must be numeric, got .* drop_first=True"),
        ({BY_A: WARNER}, {"a": [0, 1], "b": [np.nan, 1]}, r"'b' must be finite, .*\(rows: 1\)"),
        ({BY_A: "a"}, {"a": [0, 1]}, "Designs must be instances of ReportDesign"),
        ({BY_A: RandomizedResponseEncoder()}, {"a": [0, 1]}, "not fitted"),
        ({}, {"(intercept)": [0, 1]}, "X must not have a column '.intercept.', because `fit` adds it"),
    ],
)
def test_invalid_input_raises_an_error(options, X, message):
    with refusal((TypeError, ValueError, NotFittedError), message, "7"):
        ReportLogisticRegression(**options).fit(pd.DataFrame(X), [0, 1])


def sexes(kind, n=400):
    """Return reports of one column, as a table of a library, and a target."""
    encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]}, random_state=0)
    values = ["f", "m"] * (n // 2)
    return encoder, encoder.fit_transform(kind({"sex": values})), np.arange(n) // 2 % 2


def test_rows_in_another_order_raise_an_error():
    encoder, reports, y = sexes(pd.DataFrame)
    reverse = pd.Series(y, index=reports.index[::-1])
    for model in (ReportLogisticRegression(encoder), ReportLinearRegression(encoder)):
        with pytest.raises(ValueError, match="`y` must have its row labels in the order of X"):
            model.fit(reports, reverse)
        with pytest.raises(ValueError, match="`sample_weight` must have its row labels in the order of X"):
            model.fit(reports, y, sample_weight=reverse + 1)
        with pytest.raises(ValueError, match="`clusters` must have its row labels in the order of X"):
            model.fit(reports, y, clusters=reverse)
        with pytest.raises(ValueError, match="X must have at least one row, got 0"):
            model.fit(reports.iloc[:0], y[:0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": np.array(["secret"] * 400, dtype=object)}, "y must be numeric"),
        ({"y": np.full(400, 77123.5 + 1j)}, "Complex data not supported: y must have real numbers"),
        ({"sample_weight": ["secret"] * 400}, "`sample_weight` must be numbers"),
        ({"sample_weight": np.ones(3)}, r"`sample_weight` must be numbers of shape \(400,\)"),
        ({"sample_weight": "w"}, "got a str"),
        ({"y": "evaded"}, r"`y` must have an entry for each row, got a str. Use X\['evaded'\]"),
        ({"clusters": "w"}, "got a str"),
        ({"clusters": [None] * 100 + [1] * 300}, "`clusters` must have 400 entries that are not missing, got 300"),
        ({"clusters": [1] * 300}, "`clusters` must have 400 entries"),
    ],
)
def test_error_contains_no_value_and_counts_rows_correctly(options, message):
    encoder, reports, _ = sexes(pd.DataFrame)
    settings = {"y": np.arange(400.0), **options}
    with pytest.raises(ValueError, match=message) as error:
        ReportLinearRegression(encoder).fit(reports, **settings)
    assert "secret" not in str(error.value)
    assert "77123" not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__context__ is None


def test_reports_are_read_once():
    """Two encoders of one column counted its reports twice: 1.07 with an error of 0.18 became 0.64 with 0.11."""
    encoder, reports, y = sexes(pd.DataFrame)
    message = "must have different columns, got .'sex', 'sex'."
    again = ReportDesign("sex", encoder.channel()[0], values=["f", "m"])
    for encoders in ([encoder, encoder], [encoder, again]):
        with pytest.raises(ValueError, match=message):
            ReportLogisticRegression(encoders).fit(reports, y)


@pytest.mark.parametrize("make", [lambda y: y.to_numpy(), lambda y: y.rename(None), lambda y: pl.Series(y.to_list())])
def test_reports_without_a_name_belong_to_the_only_column(make):
    """An error advises `y.to_numpy()`, which was refused."""
    design = ReportDesign.forced("q", yes=1 / 6, no=1 / 6)
    y = pd.Series(["yes", "no", "no"] * 200, name="q")
    X = pd.DataFrame({"x": np.random.default_rng(0).normal(size=600)})
    model = ReportLogisticRegression(target_design=design)
    expected = model.fit(X, y).summary()
    pd.testing.assert_frame_equal(clone(model).fit(X, make(y)).summary(), expected)


@pytest.mark.parametrize("n_values", [1, 2, 5])
def test_linear_target_of_few_values_raises_an_error(n_values):
    """Two values gave a coefficient of exactly 1, one an OverflowError, and values from 1 to 5 were 6 errors off."""
    X = pd.DataFrame({"q": ["no", "yes"] * 300})
    y = np.arange(600) % n_values
    with pytest.raises(ValueError, match=r"y must have at least 10 distinct values.* ReportLogisticRegression"):
        ReportLinearRegression(ReportDesign.warner("q", 0.9)).fit(X, y)


def test_columns_never_reported_together_raise_an_error():
    """Intervals of 95 % covered 68 to 100 %, because such reports do not identify the association of the columns."""
    truth = pd.DataFrame({"a": ["no", "yes"] * 50, "b": ["no", "no", "yes", "yes"] * 25})
    values = {"a": ["no", "yes"], "b": ["no", "yes"]}
    encoder = RandomizedResponseEncoder(3.0, categories=values, strategy="sample", random_state=0)
    with pytest.raises(ValueError, match=r"At least one row must have reports of both 'a' and 'b'.*strategy='split'"):
        ReportLinearRegression(encoder).fit(encoder.fit_transform(truth), np.arange(100.0))


# Units of predictors and target.


@pytest.mark.parametrize(
    ("kind", "units"), diagonal([ReportLinearRegression, ReportLogisticRegression], [(1e7, 1e9), (1e-9, 0), (1, 1e4)])
)
def test_errors_do_not_depend_on_units(kind, units):
    factor, shift = units
    """Errors of a predictor in units of 1e5 were 1 % off, and nan in 3e5 or with a mean of 1e4."""
    X, values, _ = reported_table(500)
    X = X.drop(columns="b")
    is_linear = kind is ReportLinearRegression
    of_target = 1e7 if is_linear else 1.0
    y = values if is_linear else values > 0
    expected = kind(THREE).fit(X, y)
    other = X.assign(age=factor * X["age"] + shift)
    model = kind(THREE).fit(other, 1e9 + of_target * y if is_linear else y)
    terms = model.summary().drop("(intercept)") / of_target
    terms.loc["age"] *= factor
    columns = ["estimate", "std_error"]
    np.testing.assert_allclose(terms[columns], expected.summary()[columns].drop("(intercept)"), rtol=1e-5)
    predicted = model.predict(other[:5])
    if is_linear:
        predicted = (predicted - 1e9) / of_target
    np.testing.assert_allclose(predicted, expected.predict(X[:5]), rtol=1e-5)


def test_direct_answers_are_true_predictors():
    """Fits and predictions equal least squares; columns without text names keep their order."""
    X, sex, y, _ = generate_rows()
    model = ReportLinearRegression(ReportDesign.direct("sex", values=[0, 1])).fit(X.assign(sex=sex), y)
    plain = LinearRegression().fit(X.assign(sex=sex), y)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.predict(X.assign(sex=sex)), plain.predict(X.assign(sex=sex)), rtol=1e-6)
    numbered = X.set_axis([1, 2], axis=1)
    model, plain = ReportLinearRegression().fit(numbered, y), LinearRegression().fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_)
    assert model.sigma_ == pytest.approx(np.sqrt(((y - plain.predict(X)) ** 2).mean()))
    with pytest.raises(ValueError, match=r"X must have the predictors of fit, \[1, 2\], got \[2, 1\]"):
        model.predict(numbered[[2, 1]])


def test_model_without_predictors_is_the_log_odds():
    reports = repeat_reports((500, 500))
    model = ReportLogisticRegression(target_design=UNLIKELY_WARNER).fit(reports[[]], reports)
    assert model.intercept_[0] == pytest.approx(0, abs=1e-8)
    with pytest.raises(TypeError, match="X must be a dataframe with the columns of the reports, got NoneType"):
        ReportLogisticRegression(target_design=UNLIKELY_WARNER).fit(None, reports)


def test_reports_need_names_and_categories():
    with pytest.raises(TypeError, match="X must be a dataframe"):
        ReportLogisticRegression(WARNER).fit(np.array([[0], [1]]), [0, 1])
    numbers = NumericPerturber(1.0, bounds={"z": (0, 1)}, random_state=0)
    reports = numbers.fit_transform(pd.DataFrame({"z": np.arange(10) / 9}))
    with pytest.raises(TypeError, match=r"must be encoders of categories, got NumericPerturber.*an Interval"):
        ReportLinearRegression(numbers).fit(reports, np.arange(10))
