from __future__ import annotations

import math
import pickle
from fractions import Fraction
from io import StringIO

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from scipy.stats import chisquare
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import (
    BudgetExceeded,
    Domain,
    Interval,
    PrivacyLeakWarning,
    PrivacyLedger,
    RandomizedResponseEncoder,
)
from skdp.exact import exp_bounds
from tests.conftest import each, few_kinds

FALSE_ALARM = 1e-6
CATEGORIES = {"sex": ["Female", "Male"], "job": ["clerk", None, "sales"], "rank": [3, 1, 2]}


@pytest.fixture
def data():
    return {
        "sex": ["Female", "Male", "Male", "Female"],
        "job": ["sales", None, "clerk", "sales"],
        "rank": [1, 2, 3, 1],
    }


@pytest.fixture
def people(make_frame, data):
    return make_frame(data, CATEGORIES)


def encoder(**parameters):
    return RandomizedResponseEncoder(**{"categories": CATEGORIES, "random_state": 0} | parameters)


@pytest.mark.parametrize("strategy", ["split", "joint"])
def test_a_privatised_table_looks_like_the_original(people, values_of, strategy):
    reports = encoder(strategy=strategy).fit_transform(people)
    assert type(reports) is type(people)
    for name, values in CATEGORIES.items():
        assert set(values_of(reports, name)) <= set(values)
    if isinstance(people, pd.DataFrame):
        assert reports.index.equals(people.index)
        categorical = [isinstance(dtype, pd.CategoricalDtype) for dtype in people.dtypes]
        assert all(reports.dtypes[~np.array(categorical)] == people.dtypes[~np.array(categorical)])
        for name in people.columns[categorical]:
            assert reports[name].cat.categories.tolist() == [v for v in CATEGORIES[name] if v is not None]
    else:
        assert reports.schema == people.schema


def test_a_large_epsilon_reports_the_truth(people, values_of, data):
    for strategy in ("split", "joint"):
        reports = encoder(epsilon=150, strategy=strategy).fit_transform(people)
        assert {name: values_of(reports, name) for name in data} == data


@pytest.mark.parametrize("strategy", ["split", "joint"])
def test_the_tuple_of_all_columns_is_within_epsilon(strategy):
    """Enumerate the whole record: every pair of records, every report."""
    fitted = encoder(epsilon=0.7, strategy=strategy).fit(pd.DataFrame({"sex": [""], "job": [""], "rank": [1]}))
    channel = fitted.channel()
    if strategy == "split":
        joint = [[Fraction(1)]]
        for table in channel:
            joint = [[a * b for a in row for b in other] for row in joint for other in table]
    else:
        (joint,) = channel
    assert len(joint) == 18
    worst = max(max(column) / min(column) for column in zip(*joint, strict=True))
    assert worst <= exp_bounds(0.7)[0]
    assert worst <= exp_bounds(fitted.guarantee_.epsilon)[0]
    assert fitted.guarantee_.epsilon == pytest.approx(0.7, abs=1e-12)
    assert fitted.guarantee_.epsilon <= 0.7
    assert fitted.guarantee_.scope == ("sex", "job", "rank")


def test_reports_follow_the_joint_channel():
    n = 200_000
    frame = pd.DataFrame({"a": ["x"] * n, "b": [2] * n})
    fitted = RandomizedResponseEncoder(
        1.5, strategy="joint", categories={"a": ["x", "y"], "b": [1, 2, 3]}, random_state=3
    ).fit(frame)
    counts = fitted.tally(fitted.transform(frame)).support[0]
    assert chisquare(counts, [float(share) * n for share in fitted.channel()[0][1]]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("strategy", ["split", "joint"])
@pytest.mark.parametrize("postprocess", ["none", "clip", "simplex", "mle"])
def test_counts_are_estimated_in_a_labelled_table(strategy, postprocess):
    rng = np.random.default_rng(0)
    n = 60_000
    frame = pd.DataFrame({"a": rng.choice(["x", "y"], n, p=[0.7, 0.3]), "b": rng.choice([1, 2, 3], n)})
    fitted = RandomizedResponseEncoder(4.0, strategy=strategy, categories=[["x", "y"], [1, 2, 3]], random_state=0)
    reports = fitted.fit_transform(frame)
    counts = fitted.estimate_counts(reports, postprocess=postprocess)
    assert counts.columns.tolist() == ["count", "std_error", "lower", "upper"]
    if strategy == "joint":
        truth = frame.groupby(["a", "b"]).size()
        assert counts.index.names == ["a", "b"]
    else:
        truth = pd.concat([frame["a"].value_counts(), frame["b"].value_counts()], keys=["a", "b"])
        assert counts.index.names == ["column", "category"]
    truth = truth.loc[counts.index]
    assert ((counts["count"] - truth).abs() <= 5.5 * counts["std_error"]).all()
    assert (counts["lower"] < counts["upper"]).all()
    frequencies = fitted.estimate_frequencies(reports, postprocess=postprocess)
    assert (frequencies.to_numpy() * n == pytest.approx(counts.to_numpy())) is True
    assert frequencies.columns[0] == "frequency"
    wide = fitted.estimate_counts(reports, postprocess=postprocess, confidence_level=0.999)
    assert (wide["lower"] <= counts["lower"]).all()
    assert (wide["upper"] >= counts["upper"]).all()
    if postprocess in ("simplex", "mle"):
        assert counts["count"].sum() == pytest.approx(n * (2 if strategy == "split" else 1))


def test_one_column_is_indexed_by_its_values():
    frame = pd.DataFrame({"job": ["clerk", None] * 50})
    fitted = RandomizedResponseEncoder(5, categories=[["clerk", "sales", None]], random_state=0)
    counts = fitted.fit(frame).estimate_counts(fitted.transform(frame))
    assert counts.index.name == "job"
    assert [None if pd.isna(value) else value for value in counts.index] == ["clerk", "sales", None]


def test_intervals_are_reported_as_the_middle_of_their_bin(make_frame, values_of):
    frame = make_frame({"age": [17, 37, 38, 90]}, {"age": [17, 37, 38, 90]})
    fitted = RandomizedResponseEncoder(40, categories={"age": Interval(edges=[0, 38, 120])}, random_state=0)
    reports = fitted.fit_transform(frame)
    assert values_of(reports, "age") == [19, 19, 79, 79]
    counts = fitted.estimate_counts(reports)
    assert counts.index.tolist() == ["[0, 38)", "[38, 120]"]
    assert counts["count"].round().tolist() == [2, 2]


@few_kinds
def test_tallies_of_batches_add_up(people):
    fitted = encoder(strategy="joint").fit(people)
    first, second = fitted.transform(people), fitted.transform(people)
    total = fitted.tally(first) + fitted.tally(second)
    assert total.n_reports == 8
    assert total.support[0].sum() == 8
    assert fitted.tally(first) == fitted.tally(first)
    assert (fitted.tally(first) == fitted.tally(second)) is False
    pd.testing.assert_frame_equal(fitted.estimate_counts(fitted.tally(first)), fitted.estimate_counts(first))


@pytest.mark.parametrize(
    "other", [{"epsilon": 2.0}, {"strategy": "joint"}, {"categories": CATEGORIES | {"rank": [1, 2, 3]}}]
)
def test_tallies_of_other_protocols_are_refused(data, other):
    frame = pd.DataFrame(data)
    one, two = encoder().fit(frame), encoder(**other).fit(frame)
    tallies = one.tally(frame), two.tally(frame)
    with pytest.raises(ValueError, match="cannot be added"):
        tallies[0] + tallies[1]
    with pytest.raises(ValueError, match="different parameters or another domain"):
        one.estimate_counts(tallies[1])
    with pytest.raises(TypeError):
        tallies[0] + 1
    assert tallies[0] != 1


def test_only_the_columns_of_the_transformer_are_in_its_output():
    frame = pd.DataFrame({"sex": ["Female", "Male"], "name": ["Ann", "Bob"]})
    step = ColumnTransformer([("private", encoder(categories={"sex": ["Female", "Male"]}), ["sex"])])
    out = step.set_output(transform="pandas").fit_transform(frame)
    assert out.columns.tolist() == ["private__sex"]


def test_in_a_pipeline_and_a_grid_search_over_processes():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.choice(["x", "y"], 400), "b": rng.choice(["u", "v", "w"], 400)})
    y = (frame["a"] == "x").to_numpy()
    domain = {"a": ["x", "y"], "b": ["u", "v", "w"]}
    model = make_pipeline(RandomizedResponseEncoder(categories=domain), OneHotEncoder(), LogisticRegression())
    search = GridSearchCV(model, {"randomizedresponseencoder__epsilon": [0.1, 30.0]}, n_jobs=2, cv=3).fit(frame, y)
    assert search.best_params_ == {"randomizedresponseencoder__epsilon": 30.0}
    assert search.best_score_ > 0.95


def test_clones_and_pickles(data):
    frame = pd.DataFrame(data)
    original = encoder(epsilon=2.5, strategy="joint", handle_unknown="uniform")
    assert clone(original).get_params() == original.get_params()
    fitted = original.fit(frame)
    copied = pickle.loads(pickle.dumps(fitted))
    assert copied.guarantee_ == fitted.guarantee_
    assert copied.domain_ == fitted.domain_


def test_names_and_categories_as_scikit_learn_has_them(data):
    fitted = encoder().fit(pd.DataFrame(data))
    assert fitted.get_feature_names_out().tolist() == ["sex", "job", "rank"]
    assert fitted.n_features_in_ == 3
    assert [values.tolist() for values in fitted.categories_] == list(CATEGORIES.values())


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_set_output(people, container):
    out = encoder().set_output(transform=container).fit_transform(people)
    assert type(out) is {"pandas": pd.DataFrame, "polars": pl.DataFrame}[container]
    assert list(out.columns) == ["sex", "job", "rank"]


class TestDomain:
    @each(
        "column",
        [
            pd.Categorical(["a", "b"], ordered=True),
            pd.Categorical(["a", "c", "b"], ["c", "b", "a"], ordered=True),
            pd.Categorical([2, 1, 3], [3, 1, 2], ordered=True),
            pl.Series(["a"], dtype=pl.Enum(["a", "b"])),
        ],
    )
    def test_a_dtype_declares_what_it_could_not_have_from_the_data(self, column):
        frame = pl.DataFrame({"x": column}) if isinstance(column, pl.Series) else pd.DataFrame({"x": column})
        fitted = RandomizedResponseEncoder().fit(frame)
        values = column.dtype.categories
        assert fitted.domain_ == Domain({"x": list(values)})

    @each(
        "frame",
        [
            pd.DataFrame({"x": ["b", "a", "b"]}, dtype="category"),
            pd.DataFrame({"x": [2, 1, 2]}, dtype="category"),
            pd.DataFrame({"x": pd.Categorical(["b", None, "a"])}),
            pd.DataFrame({"x": pd.Categorical(["a", "c", "b"], ["c", "b", "a"])}),
            pd.DataFrame({"x": pd.Categorical(["a", "b"], ["a", "b", "c"])}),
            pd.read_csv(StringIO("x\nb\na"), dtype="category"),
            pa.table({"x": pa.array(["b", "a", "b"]).dictionary_encode()}).to_pandas(),
            pd.DataFrame({"x": pd.cut([1, 5, 9], 3)}),
            pd.DataFrame({"x": pd.cut([1, 9], 3)}),
            pl.DataFrame({"x": ["b", "a"]}, schema={"x": pl.Categorical}),
            pa.table({"x": pa.array(["b", "a", "b"]).dictionary_encode()}),
        ],
    )
    def test_categories_that_are_just_those_that_occur_warn(self, frame):
        with pytest.warns(
            PrivacyLeakWarning, match="'x' are read from the data.*declare them with categories="
        ) as found:
            fitted = RandomizedResponseEncoder().fit(frame)
        assert len(found) == 1
        assert found[0].filename == __file__
        column = frame["x"]
        values = column.cat.categories if isinstance(frame, pd.DataFrame) else ["a", "b"]
        assert fitted.domain_ == Domain({"x": list(values)})

    @each("categories", [["a", "b"], ["b", "a"], ["b", "a", "c"]])
    def test_no_record_decides_whether_unordered_categories_warn(self, categories):
        """They warned only if all of them occurred: a rare record switched the warning."""
        dtype, fitted = pd.CategoricalDtype(categories), set()
        for values in (["b", "a"], ["a", "b"], ["a", "a"], [None, "a"], [categories[-1]] * 2):
            with pytest.warns(PrivacyLeakWarning, match="'x' are read from the data") as caught:
                encoder = RandomizedResponseEncoder().fit(pd.DataFrame({"x": pd.Categorical(values, dtype=dtype)}))
            fitted.add((str(caught[0].message), len(caught), pickle.dumps(encoder)))
        assert len(fitted) == 1

    def test_reading_the_data_warns_and_names_the_columns(self):
        frame = pd.DataFrame({"sex": ["Male", "Female"], "kind": pd.Categorical(["a", "b"], ordered=True)})
        with pytest.warns(PrivacyLeakWarning, match="the categories of 'sex' are read from the data") as caught:
            fitted = RandomizedResponseEncoder().fit(frame)
        assert fitted.domain_ == Domain({"sex": ["Female", "Male"], "kind": ["a", "b"]})
        assert caught[0].filename == __file__
        assert "Male" not in str(caught[0].message)

    def test_declared_values_win_over_a_dtype_and_nothing_of_the_dtype_is_left(self):
        frame = pd.DataFrame({"sex": pd.Categorical(["Male", "Female", "Male"])})  # levels of the data
        declared = ["Male", "Female", "Other"]
        reports = RandomizedResponseEncoder(categories={"sex": declared}).fit_transform(frame)
        assert reports["sex"].cat.categories.tolist() == declared

    def test_a_mapping_a_list_and_a_domain_say_the_same(self):
        frame = pd.DataFrame({"a": ["x"], "b": [1]})
        forms = [{"b": [1, 2], "a": ["x", "y"]}, [["x", "y"], [1, 2]], Domain({"a": ["x", "y"], "b": [1, 2]})]
        domains = [RandomizedResponseEncoder(categories=form).fit(frame).domain_ for form in forms]
        assert domains[0] == domains[1] == domains[2]

    def test_a_fitted_encoder_holds_nothing_of_the_data(self):
        frame = pd.DataFrame({"sex": ["Male"] * 12_345}, index=[f"person {i}" for i in range(12_345)])
        fitted = RandomizedResponseEncoder(categories={"sex": ["Male", "Female"]}).fit(frame)
        fitted.transform(frame)
        assert pickle.dumps(fitted) == pickle.dumps(
            RandomizedResponseEncoder(categories={"sex": ["Male", "Female"]}).fit(
                pd.DataFrame({"sex": ["Female"]}, index=["other"])
            )
        )

    @each(
        "categories error match",
        [
            ("public", ValueError, "categories must be 'auto'"),
            (3, TypeError, "categories must be 'auto'"),
            ([["Female", "Male"], ["a", "b"]], ValueError, "2 lists of values; it needs one for each of the columns"),
            ({"sex": ["Female", "Male"], "age": [1, 2]}, ValueError, r"columns that X does not have: \['age'\]"),
            ({}, ValueError, r"declares nothing for the columns \['sex'\]"),
            ({"sex": ["Male", "Male"]}, ValueError, "column 'sex': expected distinct values"),
            ({"sex": [1, True]}, TypeError, "column 'sex': expected values of one kind"),
            ({"sex": ["Male"]}, ValueError, "column 'sex' has one category"),
            ({"sex": "Male"}, TypeError, "column 'sex': expected a list"),
            ({"sex": Interval(edges=[0, 1])}, ValueError, "column 'sex' has one category"),
        ],
    )
    def test_declarations_that_do_not_fit(self, categories, error, match):
        with pytest.raises(error, match=match):
            RandomizedResponseEncoder(categories=categories).fit(pd.DataFrame({"sex": ["Male"]}))

    @pytest.mark.filterwarnings("ignore::skdp.PrivacyLeakWarning")
    @each(
        "values, match",
        [
            (["secret", "secret"], "column 'x' has one category"),
            (["secret", None], "column 'x' holds missing values"),
            (["secret", 1], "column 'x' mixes values of several kinds"),
            ([1.0, math.inf], "column 'x': expected finite numbers"),
        ],
    )
    def test_data_that_gives_no_domain(self, values, match):
        with pytest.raises(ValueError, match=match) as caught:
            RandomizedResponseEncoder().fit(pd.DataFrame({"x": values}))
        assert "secret" not in str(caught.value)


class TestUnknownValues:
    @pytest.mark.parametrize("bad", ["secret", None, "", "male"])
    def test_an_error_names_the_column_and_not_the_value(self, make_frame, bad, monkeypatch):
        fitted = RandomizedResponseEncoder(categories={"sex": ["Female", "Male"]}).fit(make_frame({"sex": ["Male"]}))
        monkeypatch.setattr("skdp.base._estimator.coins", lambda *key: pytest.fail("a coin was drawn"))
        with pytest.raises(ValueError, match="column 'sex' holds a value, or a NaN or inf, outside") as caught:
            fitted.transform(make_frame({"sex": ["Male", bad]}, {"sex": ["Female", "Male", bad]}))
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None

    def test_a_uniform_draw_shows_nothing_of_an_unknown_value(self, make_frame):
        n = 40_000
        values = ["secret"] * (n // 2) + [None] * (n // 2)
        frame = make_frame({"sex": values}, {"sex": ["F", "M", "X", "secret"]})
        fitted = RandomizedResponseEncoder(
            8.0, categories={"sex": ["F", "M", "X"]}, handle_unknown="uniform", random_state=1
        )
        reports = fitted.fit(frame).transform(frame)
        assert chisquare(fitted.tally(reports).support[0]).pvalue > FALSE_ALARM

    @pytest.mark.parametrize("stand_in", ["X", None])
    def test_a_declared_value_stands_in(self, stand_in, values_of):
        frame = pd.DataFrame({"sex": ["F", "secret", None if stand_in else "other"]})
        fitted = RandomizedResponseEncoder(
            60, categories={"sex": ["F", "M", stand_in]}, handle_unknown=stand_in, random_state=0
        )
        assert values_of(fitted.fit_transform(frame), "sex") == ["F", stand_in, stand_in]

    @pytest.mark.parametrize("stand_in", ["Z", 1, None])
    def test_a_stand_in_must_be_declared(self, stand_in):
        with pytest.raises(ValueError, match=r"handle_unknown must be .* column 'sex' does not declare"):
            RandomizedResponseEncoder(categories={"sex": ["F", "M"]}, handle_unknown=stand_in).fit(
                pd.DataFrame({"sex": ["F"]})
            )

    def test_numbers_beyond_an_interval(self):
        frame = pd.DataFrame({"age": [5.0, 200.0, math.nan, math.inf]})
        age = {"age": Interval(edges=[0, 38, 120])}
        with pytest.raises(ValueError, match="column 'age'"):
            RandomizedResponseEncoder(categories=age).fit_transform(frame)
        out = RandomizedResponseEncoder(categories=age, handle_unknown="uniform").fit_transform(frame)
        assert set(out["age"]) <= {19, 79}


class TestBadInput:
    @each(
        "epsilon error",
        [
            *[(value, ValueError) for value in (0, -1, math.nan, math.inf, -math.inf)],
            *[(value, TypeError) for value in (True, "1", None, 1j, [1.0])],
        ],
    )
    def test_epsilon(self, epsilon, error):
        with pytest.raises(error, match="epsilon must be a finite number > 0"):
            RandomizedResponseEncoder(epsilon, categories=[["a", "b"]]).fit([["a"]])

    @each(
        "parameters error match",
        [
            ({"strategy": "both"}, ValueError, "strategy must be one of"),
            ({"strategy": None}, ValueError, "strategy must be one of"),
            ({"ledger": 3.0}, TypeError, "ledger must be"),
            ({"random_state": np.random.RandomState(0)}, TypeError, "random_state must be None"),
            ({"random_state": np.random.default_rng(0)}, TypeError, "random_state must be None"),
            ({"random_state": True}, TypeError, "random_state must be None"),
            ({"random_state": -1}, ValueError, "random_state must be None"),
            ({"random_state": 1.0}, TypeError, "random_state must be None"),
        ],
    )
    def test_other_parameters(self, parameters, error, match):
        with pytest.raises(error, match=match):
            encoder(**parameters).fit(pd.DataFrame({"sex": ["Male"], "job": ["clerk"], "rank": [1]}))

    @each(
        "X error match",
        [
            (pd.DataFrame({"sex": []}), ValueError, r"0 sample"),
            (pd.DataFrame(index=[0]), ValueError, r"0 feature"),
            (np.empty((0, 1), object), ValueError, r"0 sample"),
            (np.array(["secret"], object), ValueError, "Reshape your data"),
            (["secret"], ValueError, "Reshape your data"),
            (pd.Series(["secret"]), ValueError, "Reshape your data"),
            (np.zeros((1, 1, 1)), ValueError, "3D"),
            (np.array([[1j]]), ValueError, "Complex data not supported"),
            (sparse.csr_array([[1.0]]), TypeError, "[Ss]parse"),
            (pl.LazyFrame({"sex": ["secret"]}), TypeError, r"skdp\.engines"),
        ],
    )
    def test_input_of_another_shape(self, X, error, match):
        for method in ("fit", "transform"):
            fitted = RandomizedResponseEncoder(categories=[["a", "b"]]).fit(np.array([["a"]], object))
            with pytest.raises(error, match=match) as caught:
                getattr(fitted, method)(X)
            assert "secret" not in str(caught.value)

    def test_other_columns_than_in_fit(self, people, make_frame):
        fitted = encoder().fit(people)
        with pytest.raises(ValueError, match="feature names"):
            fitted.transform(make_frame({"sex": ["Male"], "rank": [1], "job": ["clerk"]}))
        with pytest.raises(ValueError, match="feature"):
            fitted.transform(make_frame({"sex": ["Male"]}))

    def test_other_names_that_are_no_strings(self):
        fitted = RandomizedResponseEncoder(categories={0: [1, 2], 1: [1, 2]}).fit(pd.DataFrame([[1, 2]]))
        assert fitted.transform(pd.DataFrame([[1, 2]])).columns.tolist() == [0, 1]
        with pytest.raises(ValueError, match="X has the columns"):
            fitted.transform(pd.DataFrame([[1, 2]], columns=[1, 0]))

    def test_use_before_fit(self):
        unfitted = encoder()
        for call in (
            lambda: unfitted.transform([["a"]]),
            lambda: unfitted.tally([["a"]]),
            lambda: unfitted.estimate_counts([["a"]]),
            lambda: unfitted.estimate_frequencies([["a"]]),
            lambda: unfitted.count_variances([1]),
            unfitted.channel,
        ):
            with pytest.raises(NotFittedError):
                call()

    def test_reports_of_another_domain(self, data):
        fitted = encoder().fit(pd.DataFrame(data))
        foreign = pd.DataFrame(data | {"sex": ["secret"] * 4})
        with pytest.raises(ValueError, match="not reports of this encoder") as caught:
            fitted.estimate_counts(foreign)
        assert "secret" not in str(caught.value)

    @each(
        "arguments, match",
        [
            ({"postprocess": "best"}, "postprocess must be one of"),
            ({"confidence_level": 0}, "confidence_level"),
            ({"confidence_level": 1}, "confidence_level"),
            ({"confidence_level": math.nan}, "confidence_level"),
        ],
    )
    def test_estimates_with_odd_arguments(self, data, arguments, match):
        fitted = encoder().fit(pd.DataFrame(data))
        with pytest.raises(ValueError, match=match):
            fitted.estimate_counts(pd.DataFrame(data), **arguments)

    @each("counts", [[1, 2], [1, 2, -1], [[1, 2, 3]], [[1], [2], [3]]])
    def test_variances_of_odd_counts(self, counts):
        fitted = RandomizedResponseEncoder(categories=[[1, 2, 3]]).fit([[1]])
        with pytest.raises(ValueError, match="counts must"):
            fitted.count_variances(counts)


class TestLedger:
    def test_every_call_is_charged_before_a_coin_is_drawn(self, data, monkeypatch):
        ledger = PrivacyLedger(epsilon=1.0)
        fitted = encoder(epsilon=0.5, ledger=ledger).fit(pd.DataFrame(data))
        assert ledger.spent == (0, 0)
        fitted.transform(pd.DataFrame(data))
        clone(fitted).fit_transform(pd.DataFrame(data))
        monkeypatch.setattr("skdp.base._estimator.coins", lambda *key: pytest.fail("a coin was drawn"))
        with pytest.raises(BudgetExceeded, match="RandomizedResponseEncoder asks for epsilon"):
            fitted.transform(pd.DataFrame(data))
        assert ledger.report()["scope"].tolist() == ["sex, job, rank"] * 2

    def test_refused_input_is_not_charged(self, data):
        ledger = PrivacyLedger(epsilon=1.0)
        fitted = encoder(ledger=ledger).fit(pd.DataFrame(data))
        with pytest.raises(ValueError, match="column 'sex'"):
            fitted.transform(pd.DataFrame(data | {"sex": ["secret"] * 4}))
        assert ledger.spent == (0, 0)

    def test_a_run_is_charged_once_whatever_other_runs_are_called(self, data):
        ledger = PrivacyLedger(epsilon=3.0)
        fitted = encoder(epsilon=1.0, ledger=ledger).fit(pd.DataFrame(data))
        for run in ("of last week", "of last week", "week"):
            fitted.charge(run)
        assert ledger.spent == (2, 0)
