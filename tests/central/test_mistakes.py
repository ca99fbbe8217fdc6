"""Errors of every estimator: before any charge, and without a value."""

import math
from datetime import date

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import make_pipeline

import skdp.engines
from skdp import Domain, DPMean, Interval, PrivacyLedger
from skdp.privacy import Rho
from tests.central.estimators import EVERY, NUMBERS, VALUES, WORDS, Y, fit_estimator, make_estimator, whole

RHO = Rho(0.1, delta=1e-6)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # there are few rows


def refuse(name, table, match, y=None, *, person=None, **parameters):
    """Check that a fit raises an error, charges nothing, reveals no value, and leaves the estimator unfitted."""
    ledger = PrivacyLedger(epsilon=100, delta=0.9)
    model = make_estimator(name, ledger=ledger).set_params(**parameters)
    with pytest.raises((TypeError, ValueError), match=match) as caught:
        fit_estimator(model, table, person=person) if y is None else model.fit(table, y, person=person)
    assert not any(secret in str(caught.value) for secret in ("hush", "73519"))
    assert ledger.charges().empty
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize("name", list(EVERY))
def test_common_parameters_are_checked(name):
    refuse(name, whole(name), "`epsilon` must be", epsilon="1")
    refuse(name, whole(name), "`max_rows_per_person` must be between", max_rows_per_person=0)
    refuse(name, whole(name), "`max_rows_per_person` must be an integer", max_rows_per_person=1.5)
    with pytest.raises(TypeError, match="`ledger` must be None or a PrivacyLedger"):
        fit_estimator(make_estimator(name, ledger=5.0), whole(name))


@pytest.mark.parametrize("name", ["DPMean", "DPKBinsDiscretizer", "DPRidge"])
@pytest.mark.parametrize(
    ("bounds", "match"),
    [
        ((1, 1), "`bounds` of column 'a' must be finite with low < high"),
        ((-1e308, 1e308), "`bounds` of column 'a' must be finite with low < high, and a width"),
        ((1e17, 1e17 + 16), "a width that floats resolve"),
        ([(0, 1)] * 4, r"`bounds` must have a row \(low, high\) for each of the 2 columns of X, got 4 rows"),
        ([(0, 1)], r"got 1 rows\. For arrays of low and high bounds, use numpy\.column_stack\(\(low, high\)\)"),
        ({"num__a": (0, 1)}, r"must be columns of X"),
        ({"a": (0, 1)}, r"`bounds` declares no values for the columns .*exclude these columns from X"),
    ],
)
def test_bounds_are_checked(name, bounds, match):
    refuse(name, whole(name), match, bounds=bounds)


def test_remedy_helps_the_beginner():
    """The errors advised to exclude the key, to call `set_output` without a pipeline, or to write text as numbers."""
    people = pd.DataFrame({"sex": ["f", "m"] * 20, "age": 40.0})
    for match, fit in {
        r"`keys` declares no values .* or find them with `keys='auto'`": lambda: skdp.DPGroupBy(by="sex").fit(people),
        "An array has no column names: pass a DataFrame": lambda: DPMean(bounds={"age": (0, 90)}).fit(np.ones((9, 1))),
        "dtype string. Encode it, such as with DPOneHotEncoder, exclude it, or convert": lambda: DPMean().fit(
            people.astype({"sex": "string"})
        ),
        "with these edges": lambda: skdp.DPHistogram(domain={"age": [30, 50, 60]}).fit(people[["age"]]),
    }.items():
        with pytest.raises((TypeError, ValueError), match=match):
            fit()


def test_names_of_a_column_transformer_are_explained():
    """A Domain after a default ColumnTransformer, which prefixes the names, was refused without a hint."""
    X = whole("DPMean")
    prepare = ColumnTransformer([("num", "passthrough", list(X))]).set_output(transform="pandas")
    mean = DPMean(bounds=Domain(dict.fromkeys(X, Interval(0.0, 1.0))))
    with pytest.raises(ValueError, match=r"columns \['num__a', .*verbose_feature_names_out=False"):
        make_pipeline(prepare, mean).fit(X)
    prepare.set_params(verbose_feature_names_out=False)
    make_pipeline(prepare, mean).fit(X)


@pytest.mark.parametrize(
    ("name", "parameters", "match"),
    [
        *(("DPMean", {"confidence_level": x}, "`confidence_level` must be") for x in (1, 10**400)),
        *(
            ("DPMinMaxScaler", {"feature_range": x}, "`feature_range` must")
            for x in (None, (2, 1), (0, math.inf), (0, "1"))
        ),
        *(
            ("DPMinMaxScaler", {"quantile_range": x}, "`quantile_range` must")
            for x in ((0.1, 0.9), 0.5, (60, 40), "ab")
        ),
        ("DPMinMaxScaler", {"clip": 1}, "`clip` must be True or False"),
        ("DPRobustScaler", {"quantile_range": (0.25, 0.75)}, r"Use \(25.0, 75.0\) for the quartiles"),
        *(("DPKBinsDiscretizer", {"n_bins": x}, "`n_bins` must be") for x in (1, 10_001, 2.0, "5", True, None, [3])),
        ("DPQuantileTransformer", {"n_quantiles": 2}, "`n_quantiles` must be between 3 and 10000"),
        ("DPQuantileTransformer", {"output_distribution": "beta"}, "`output_distribution` must be one of"),
        ("DPSimpleImputer", {"strategy": "mode"}, "`strategy` must be one of"),
        ("DPSimpleImputer", {"strategy": "most_frequent"}, "declare"),
        ("DPHistogram", {"method": "tree"}, "`method` must be one of"),
        ("DPHistogram", {"method": "hierarchical"}, "must be 'auto' or 'flat' for several columns"),
        ("DPHistogram", {"domain": "auto"}, "`domain` must be a list, a mapping or a Domain"),
        ("DPHistogram", {"domain": {"a": VALUES["a"]}}, r"`domain` must declare .*\['b'\]"),
        ("DPGroupBy", {"by": "town"}, r"`by` must name columns of X, .*, got \['town'\]"),
        ("DPGroupBy", {"by": ["a", "a"]}, "`by` must name at least one column, and none twice"),
        *(
            ("DPGroupBy", {"statistics": x}, "`statistics` must be 'count', .* or the probability")
            for x in ("mode", None)
        ),
        ("DPGroupBy", {"statistics": []}, "X must have columns besides the keys"),
        ("DPGroupBy", {"keys": ["x", "y"]}, r"`keys` must have a list of values .* columns \['a'\], got 2 lists"),
        ("DPTargetEncoder", {"handle_unknown": "clip"}, "`handle_unknown` must be one of"),
        *(
            (name, {"classes": [0]}, "`classes` must have at least 2 values")
            for name in ("DPGaussianNB", "DPLogisticRegression")
        ),
        *(
            (name, {"classes": [0, 2]}, "values that `classes` does not declare")
            for name in ("DPGaussianNB", "DPLogisticRegression")
        ),
        *(
            (
                name,
                {"classes": [date(2020, 1, 1), date(2021, 1, 1)]},
                "target are declared by `classes`",
            )
            for name in ("DPGaussianNB", "DPLogisticRegression")
        ),
        ("DPLogisticRegression", {"classes": [0, 1, None]}, "`classes` must not contain missing values"),
        ("DPRidge", {"target_bounds": 3}, "`target_bounds` of column 'y' must be a pair"),
        ("DPRidge", {"target_bounds": (None, "1")}, "`target_bounds` of column 'y' must be two numbers, or None"),
        ("DPRidge", {"alpha": "1"}, "`alpha` must be a number, got str"),
        (
            "DPRidge",
            {"epsilon": "guess=0.6"},
            r"`epsilon` must be .*, or a Rho or Mu such as Mu.of\(guess=0.6\), got str",
        ),
        ("DPRidge", {"alpha": -1}, "`alpha` must be a finite number >= 0, got -1"),
        ("DPRidge", {"epsilon": RHO, "delta": 1e-6}, "`delta` must be 0"),
        *(("DPPCA", {"n_components": x}, "n_components") for x in (3, 0, 1.5, "mle")),
    ],
)
def test_parameters_are_checked(name, parameters, match):
    refuse(name, whole(name), match, **parameters)


@pytest.mark.parametrize("name", ["DPRidge", "DPPCA", "DPGaussianNB"])
def test_missing_value_may_be_an_error(name):
    for hole in (math.nan, math.inf):
        table = whole(name).assign(b=NUMBERS["b"].where(np.arange(60) != 7, hole))
        refuse(name, table, "olumn 'b' (must not have|contains a) missing")


@pytest.mark.parametrize(
    ("name", "y", "match"),
    [
        ("DPRidge", Y[:-1], "X and y must have the same number of rows"),
        ("DPRidge", Y.where(Y == 0), "must not have missing|contains a missing value"),
        ("DPRidge", Y.astype("string"), "expected numbers.*y == 'yes'"),
        ("DPLogisticRegression", Y.where(Y == 0), "y must not have missing values"),
        ("DPLogisticRegression", np.column_stack([Y, Y]), "`y` must be one column"),
        ("DPTargetEncoder", WORDS["a"].rename("y"), "Column 'y'"),
    ],
)
def test_targets_are_checked(name, y, match):
    refuse(name, EVERY[name][1], match, y)
    with pytest.raises(ValueError, match="requires y"):
        make_estimator(name).fit(EVERY[name][1], None)


@pytest.mark.parametrize("dtype", [object, None, "category"])
@pytest.mark.parametrize("name", ["DPLogisticRegression", "DPGaussianNB"])
def test_labels_without_declared_classes_must_not_be_missing(name, dtype):
    # Without a dtype, pandas 3 reads text as "str".
    labels = pd.Series(Y.map({0: None, 1: "yes", 2: "no"}).tolist(), dtype=dtype, name="y")
    refuse(name, EVERY[name][1], "y must not have missing labels", labels, classes=None, delta=1e-6)


@pytest.mark.filterwarnings("ignore:The noise is about as large:UserWarning")
@pytest.mark.parametrize("name", ["DPLogisticRegression", "DPGaussianNB"])
def test_boolean_target_of_one_class_has_both_classes(name):
    fitted = make_estimator(name, classes=None).fit(EVERY[name][1], Y == Y)
    assert fitted.classes_.tolist() == [False, True]


@pytest.mark.parametrize(
    ("person", "match"),
    [
        ([None] * 60, "`person` must not contain missing"),
        (np.zeros((60, 2)), "`person` must be 1-dimensional"),
        (pd.DataFrame(np.zeros((60, 2))), "`person` must be one column, got 2"),
        ("who", r"`person` must be the name of a column of X, \[.a., .b.\], got .who.\.$"),
        ([["secret"]] * 60, r"`person` cannot be read \(TypeError\)\.$"),
    ],
)
def test_persons_are_checked(person, match):
    refuse("DPMean", NUMBERS, match, person=person)


@pytest.mark.parametrize(
    ("name", "parameters", "match"),
    [
        ("DPHistogram", {}, "Column 'a' contains a value outside the declared domain"),
        ("DPGroupBy", {}, "Column 'a' contains a value outside the declared keys"),
        ("DPCategoricalNB", {}, "Column 'a' contains a value outside the declared categories"),
        ("DPSimpleImputer", {"strategy": "most_frequent", "categories": VALUES}, "Column 'a' contains a value outside"),
    ],
)
def test_values_outside_the_domain_raise_an_error(name, parameters, match):
    table = WORDS if name == "DPSimpleImputer" else whole(name)
    for value in ("hush", 5):
        refuse(name, table.assign(a=pd.Series([value] * 60, dtype=object)), match, **parameters)


METHODS = ("transform", "inverse_transform", "predict", "predict_proba", "decision_function", "score")
LAZY = {
    "polars": pl.LazyFrame,
    "pyarrow": lambda table: pa.dataset.dataset(pa.Table.from_pandas(table)),
    "duckdb": duckdb.from_df,
}


@pytest.mark.parametrize("name", EVERY)
def test_lazy_tables_raise_an_error_if_rows_are_read(name):
    assert skdp.engines  # registers the engines
    X = EVERY[name][1]
    model = make_estimator(name).fit(X, Y)
    for method in (one for one in METHODS if hasattr(model, one)):
        if method == "inverse_transform" and isinstance(model, SelectorMixin):
            continue  # an attribute of scikit-learn
        for library, make in LAZY.items():
            given = (make(X), Y) if method == "score" else (make(X),)
            with pytest.raises(TypeError, match=rf"table in memory, got a lazy frame \(_?{library}\)\. Collect it"):
                getattr(model, method)(*given)
