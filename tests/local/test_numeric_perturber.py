from __future__ import annotations

import math
import pickle
from fractions import Fraction

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
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skdp import BudgetExceeded, NumericPerturber, PrivacyLedger
from skdp.datasets import load_adult
from skdp.exact import exp_bounds
from skdp.local import OnFitOnly
from tests.conftest import each, few_kinds, often

FALSE_ALARM = 1e-6
MECHANISMS = ["optimal", "square_wave", "distribution", "laplace"]
BOUNDS = {"age": (0, 100), "income": (-1e6, 1e6)}

every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)
# Where the law of the reports is what matters, which is checked exactly.
some_mechanisms = pytest.mark.parametrize("mechanism", often(MECHANISMS, ["optimal", "square_wave"]))


@pytest.fixture
def data():
    return {"age": [17, 38, 90, 61], "income": [1e5, -2.5, 0.0, 3e7]}


@pytest.fixture
def people(make_frame, data):
    return make_frame(data)


def perturber(**parameters):
    return NumericPerturber(**{"bounds": BOUNDS, "random_state": 0} | parameters)


@every_mechanism
def test_a_privatised_table_looks_like_the_original(people, values_of, mechanism):
    fitted = perturber(mechanism=mechanism).fit(people)
    reports = fitted.transform(people)
    assert type(reports) is type(people)
    for name, possible in zip(BOUNDS, fitted.report_values_, strict=True):
        values = values_of(reports, name)
        assert len(values) == 4
        assert set(values) <= set(possible)
        assert all(isinstance(value, float) for value in values)
    if isinstance(people, pd.DataFrame):
        assert reports.index.equals(people.index)
        assert reports.columns.equals(people.columns)


@every_mechanism
@pytest.mark.parametrize("container", [np.array, list, lambda rows: np.array(rows, np.float32)])
def test_arrays_and_lists_become_arrays(mechanism, container):
    out = NumericPerturber(mechanism=mechanism, bounds=(0, 1)).fit_transform(container([[0.5, 1], [0, 0.25]]))
    assert out.shape == (2, 2)
    assert out.dtype == np.float64


@pytest.mark.parametrize("mechanism", often(MECHANISMS, set(MECHANISMS) - {"optimal"}))
def test_a_large_epsilon_reports_the_clipped_truth_in_its_row(people, values_of, mechanism):
    fitted = perturber(mechanism=mechanism, epsilon=40_000, grid_size=1000).fit(people)
    reports = fitted.transform(people)
    if mechanism == "optimal":  # made for an epsilon of up to 8: its outcomes are no denser beyond
        assert np.abs(np.array(values_of(reports, "age")) - [17, 38, 90, 61]).max() < 20
        return
    assert values_of(reports, "age") == pytest.approx([17, 38, 90, 61])
    # Between two positions of the grid, 2,000 apart.
    assert np.abs(np.array(values_of(reports, "income")) - [1e5, -2.5, 0, 1e6]).max() <= 2_000
    assert values_of(reports, "income")[3] == pytest.approx(1e6)


@every_mechanism
@pytest.mark.parametrize("epsilon", [1e-9, 0.7, 5, 700])
def test_the_tuple_of_all_columns_is_within_epsilon(mechanism, epsilon):
    """Enumerate the whole record: every pair of records, every report."""
    fitted = NumericPerturber(epsilon, mechanism=mechanism, bounds=[(0, 1), (5, 7)], grid_size=3).fit([[0, 5]])
    joint = [[Fraction(1)]]
    for table, values, (low, high) in zip(fitted.channel(), fitted.report_values_, fitted.bounds_, strict=True):
        assert all(sum(row) == 1 and 0 < min(row) < 1 for row in table)
        grid = np.linspace(low, high, 4)
        assert np.array(table, float) @ values == pytest.approx(grid, rel=1e-6, abs=1e-6 * np.abs(values).max())
        joint = [[a * b for a in row for b in other] for row in joint for other in table]
    assert len(joint) == 16
    worst = max(max(column) / min(column) for column in zip(*joint, strict=True))
    assert worst <= exp_bounds(epsilon)[0]
    assert worst <= exp_bounds(fitted.guarantee_.epsilon)[0]
    assert fitted.guarantee_.epsilon <= epsilon
    if epsilon <= 5:
        assert fitted.guarantee_.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert fitted.guarantee_.scope == ("x0", "x1")
    assert (fitted.guarantee_.delta, fitted.guarantee_.relation, fitted.guarantee_.trust) == (0, "replace", "local")


@pytest.mark.parametrize("n_columns", [1, 7])
@every_mechanism
def test_shares_never_exceed_the_request(mechanism, n_columns):
    for epsilon in (0.1, 1.0, 3, math.log(3)):
        fitted = NumericPerturber(epsilon, mechanism=mechanism, bounds=(0, 1)).fit(np.zeros((1, n_columns)))
        assert epsilon * (1 - 1e-9) <= fitted.guarantee_.epsilon <= epsilon
        assert fitted.mechanism_.worst_ratio <= exp_bounds(Fraction(epsilon) / n_columns)[0]


@every_mechanism
def test_values_follow_the_channel_between_the_positions_too(mechanism):
    """0.35 of a grid of four steps: 0.6 of the way from the first position to the second."""
    n = 200_000
    fitted = NumericPerturber(2.0, mechanism=mechanism, bounds=(10, 11), grid_size=4, random_state=5).fit([[10]])
    reports = fitted.transform(np.full((n, 1), 10.35))[:, 0]
    counts = np.bincount(np.searchsorted(fitted.report_values_[0], reports), minlength=len(fitted.report_values_[0]))
    first, second = np.array(fitted.channel()[0][1:3], float)
    assert chisquare(counts, n * (0.6 * first + 0.4 * second)).pvalue > FALSE_ALARM


def test_reports_that_are_the_same_float_are_one_report():
    """At a large epsilon, some outcomes of the optimal mechanism stand for less than a float can tell apart."""
    fitted = NumericPerturber(60.0, bounds=(0, 8), grid_size=8).fit([[1]])
    assert len(fitted.report_values_[0]) < fitted.mechanism_.n_reports
    (table,) = fitted.channel()
    assert all(len(row) == len(fitted.report_values_[0]) and sum(row) == 1 for row in table)
    rows = np.repeat([[1.0], [3.0]], 500, axis=0)
    found = fitted.estimate_distribution(fitted.transform(rows), n_bins=4, smooth=False)
    assert found["frequency"].to_numpy() == pytest.approx([0.5, 0.5, 0, 0], abs=0.3)


class TestMean:
    @every_mechanism
    def test_a_labelled_table(self, people, mechanism):
        fitted = perturber(mechanism=mechanism).fit(people)
        reports = fitted.transform(people)
        means = fitted.estimate_mean(reports)
        assert means.columns.tolist() == ["mean", "std_error", "lower", "upper"]
        assert means.index.tolist() == ["age", "income"]
        assert means.index.name == "column"
        wide = fitted.estimate_mean(reports, confidence_level=0.999)
        assert (wide["lower"] < means["lower"]).all()
        assert (wide["upper"] > means["upper"]).all()

    @pytest.mark.long
    @some_mechanisms
    def test_intervals_cover(self, mechanism):
        """150 intervals of 95 %: 5 standard errors of their share are 8.9 %. The records are drawn again each time."""
        rng = np.random.default_rng(3)
        fitted = NumericPerturber(1.5, mechanism=mechanism, bounds=(0, 10), random_state=1).fit([[0.0]])
        truth = 10 * 2 / 7
        inside, errors, stated = 0, [], []
        for _ in range(150):
            rows = 10 * rng.beta(2, 5, (400, 1))
            ((mean, std_error, lower, upper),) = fitted.estimate_mean(fitted.transform(rows)).to_numpy()
            inside += lower <= truth <= upper
            errors.append(mean - truth)
            stated.append(std_error)
        assert abs(inside / 150 - 0.95) < 0.089
        assert abs(np.mean(errors)) < 5 * np.std(errors) / math.sqrt(150)
        assert np.mean(stated) == pytest.approx(np.std(errors), rel=0.25)

    @some_mechanisms
    def test_for_given_records_the_error_is_not_understated(self, mechanism):
        rows = np.repeat([[0.0], [10.0], [3.3]], 100, axis=0)
        fitted = NumericPerturber(2, mechanism=mechanism, bounds=(0, 10), grid_size=32, random_state=1).fit(rows)
        estimates = [fitted.estimate_mean(fitted.transform(rows)).iloc[0] for _ in range(150)]
        errors = np.array([estimate["mean"] for estimate in estimates]) - rows.mean()
        assert abs(errors.mean()) < 5 * errors.std() / math.sqrt(150)
        assert errors.std() < 1.2 * np.mean([estimate["std_error"] for estimate in estimates])

    @every_mechanism
    def test_reports_that_agree_do_not_feign_certainty(self, mechanism):
        fitted = NumericPerturber(mechanism=mechanism, bounds=(0, 1)).fit([[0.5]])
        one = fitted.report_values_[0][:1].reshape(1, 1)
        single, several = fitted.estimate_mean(one), fitted.estimate_mean(np.repeat(one, 4, axis=0))
        assert single["std_error"].item() > several["std_error"].item() > 0.1

    def test_values_beyond_the_bounds_count_as_the_bounds(self):
        fitted = NumericPerturber(20.0, bounds=(0, 1), random_state=0).fit([[0]])
        low, high = (fitted.estimate_mean(fitted.transform(np.full((5_000, 1), value))) for value in (-1e308, 1e308))
        assert low["mean"].item() == pytest.approx(0, abs=0.01)
        assert high["mean"].item() == pytest.approx(1, abs=0.01)

    @each("level", [0, 1, math.nan, "x", None, [0.9], True])
    def test_odd_confidence_levels(self, level):
        fitted = NumericPerturber(bounds=(0, 1)).fit([[0.5]])
        with pytest.raises(ValueError, match="confidence_level must be a number between 0 and 1"):
            fitted.estimate_mean(fitted.transform([[0.5]]), confidence_level=level)

    def test_the_age_of_adults(self):
        people = load_adult().frame[["age", "hours-per-week"]]
        fitted = NumericPerturber(2.0, bounds={"age": (0, 100), "hours-per-week": (0, 100)}, random_state=0)
        means = fitted.estimate_mean(fitted.fit_transform(people), confidence_level=0.9999)
        assert means["lower"].le(people.mean()).all()
        assert means["upper"].ge(people.mean()).all()
        assert means["std_error"].lt(0.7).all()


class TestDistribution:
    @pytest.mark.parametrize(
        "mechanism", often(["square_wave", "distribution", "optimal", "laplace"], ["square_wave", "optimal"])
    )
    def test_frequencies_are_near_the_truth(self, mechanism):
        ages = load_adult().frame[["age"]]
        fitted = NumericPerturber(2.0, mechanism=mechanism, bounds=(0, 100), random_state=0)
        reports = fitted.fit_transform(ages)
        found = fitted.estimate_distribution(reports)
        assert found.columns.tolist() == ["left", "right", "frequency", "std_error", "lower", "upper"]
        assert found.index.name == "age"
        assert len(found) == 32
        assert found["frequency"].sum() == pytest.approx(1)
        assert (found["frequency"] >= 0).all()
        truth = np.histogram(ages["age"], [*found["left"], 100])[0] / len(ages)
        # The Wasserstein distance, in units of the range; a uniform guess has 0.17.
        distance = np.abs(np.cumsum(found["frequency"] - truth)).sum() / 32
        assert distance < (0.03 if mechanism == "laplace" else 0.01)
        rough = fitted.estimate_distribution(reports, smooth=False)
        assert np.abs(np.diff(rough["frequency"])).sum() > np.abs(np.diff(found["frequency"])).sum()

    @few_kinds
    def test_several_columns(self, people):
        fitted = perturber(mechanism="square_wave").fit(people)
        found = fitted.estimate_distribution(fitted.transform(people), n_bins=4)
        assert found.index.names == ["column", "bin"]
        assert found.loc["age"].index.tolist()[0] == "[0, 25)"
        assert found.loc["income", "left"].tolist() == pytest.approx([-1e6, -5e5, 0, 5e5])
        assert found.groupby("column")["frequency"].sum().tolist() == pytest.approx([1, 1])

    @each("n_bins, error", [(0, ValueError), (9, ValueError), (2.0, TypeError), (True, TypeError), ("5", TypeError)])
    def test_odd_numbers_of_bins(self, n_bins, error):
        fitted = NumericPerturber(bounds=(0, 1), grid_size=8).fit([[0.5]])
        with pytest.raises(error, match="n_bins must be"):
            fitted.estimate_distribution(fitted.transform([[0.5]]), n_bins=n_bins)
        assert len(fitted.estimate_distribution(fitted.transform([[0.5]]))) == 8


class TestReports:
    @every_mechanism
    def test_other_numbers_are_refused(self, mechanism):
        fitted = perturber(epsilon=4, mechanism=mechanism).fit(pd.DataFrame({"age": [1], "income": [1]}))
        foreign = pd.DataFrame({"age": fitted.report_values_[0][:1], "income": [123456.7]})
        for estimate in (fitted.estimate_mean, fitted.estimate_distribution):
            with pytest.raises(ValueError, match="column 'income' holds numbers that are not reports") as caught:
                estimate(foreign)
            assert "123456" not in str(caught.value)

    @every_mechanism
    def test_reports_may_be_written_with_fewer_digits(self, tmp_path, mechanism):
        rows = pd.DataFrame({"age": np.arange(100.0)})
        fitted = NumericPerturber(2, mechanism=mechanism, bounds=(0, 100), random_state=0).fit(rows)
        reports = fitted.transform(rows)
        reports.to_csv(tmp_path / "reports.csv", index=False, float_format="%.9g")
        read = pd.read_csv(tmp_path / "reports.csv")
        pd.testing.assert_frame_equal(fitted.estimate_mean(read), fitted.estimate_mean(reports))
        pd.testing.assert_frame_equal(fitted.estimate_mean(reports.astype("float32")), fitted.estimate_mean(reports))


def test_only_the_columns_of_the_transformer_are_in_its_output():
    frame = pd.DataFrame({"age": [20, 30], "name": ["Ann", "Bob"]})
    step = ColumnTransformer([("private", perturber(bounds={"age": (0, 100)}), ["age"])])
    out = step.set_output(transform="pandas").fit_transform(frame)
    assert out.columns.tolist() == ["private__age"]


@pytest.mark.long  # as tests/local/test_randomized_response.py shows for another transformer
def test_in_a_pipeline_and_a_grid_search_over_processes():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(size=(400, 2)), columns=["a", "b"])
    model = make_pipeline(NumericPerturber(bounds=(0, 1)), LinearRegression())
    search = GridSearchCV(model, {"numericperturber__epsilon": [0.1, 40.0]}, n_jobs=2, cv=3)
    search.fit(frame, frame["a"] - frame["b"])
    assert search.best_params_ == {"numericperturber__epsilon": 40.0}
    assert search.best_score_ > 0.95


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_set_output(people, container):
    out = perturber().set_output(transform=container).fit_transform(people)
    assert type(out) is {"pandas": pd.DataFrame, "polars": pl.DataFrame}[container]
    assert list(out.columns) == ["age", "income"]


def test_rows_may_be_left_true_after_fit(people, values_of):
    fitted = perturber().fit(people)
    clipped = fitted.encode(people)
    assert type(clipped) is type(people)
    assert values_of(clipped, "age") == [17, 38, 90, 61]
    assert values_of(clipped, "income") == [1e5, -2.5, 0, 1e6]
    step = OnFitOnly(perturber())
    assert values_of(step.fit_transform(people), "age") == values_of(fitted.transform(people), "age")
    assert values_of(step.transform(people), "income") == [1e5, -2.5, 0, 1e6]


def test_the_index_passes_through():
    frame = pd.DataFrame({"age": [1, 2]}, index=["p", "q"])
    assert perturber(bounds={"age": (0, 9)}).fit_transform(frame).index.tolist() == ["p", "q"]


class TestCoins:
    def test_a_seed_replays_after_fit_and_differs_over_calls_and_columns(self):
        rows = pd.DataFrame({"a": [0.5] * 200, "b": [0.5] * 200})
        fitted = NumericPerturber(bounds=(0, 1), random_state=0).fit(rows)
        first, second = fitted.transform(rows), fitted.transform(rows)
        assert not first.equals(second)
        assert not first["a"].equals(first["b"])
        assert fitted.fit_transform(rows).equals(first)
        assert pickle.loads(pickle.dumps(fitted)).transform(rows).equals(first)
        assert not fitted.guarantee_.secure

    def test_without_a_seed_no_two_calls_agree(self):
        rows = np.full((200, 1), 0.5)
        fitted = NumericPerturber(bounds=(0, 1)).fit(rows)
        copy = pickle.loads(pickle.dumps(fitted))
        outs = [fitted.transform(rows), fitted.transform(rows), copy.transform(rows)]
        assert len({out.tobytes() for out in outs}) == 3
        assert fitted.guarantee_.secure

    def test_parameters_that_are_set_later_wait_for_fit(self):
        rows = np.full((200, 1), 0.5)
        fitted = NumericPerturber(bounds=(0, 1)).fit(rows)
        expected = fitted.guarantee_
        fitted.set_params(random_state=0, epsilon=-1, mechanism="none", bounds=None, ledger=3, grid_size=0)
        assert not np.array_equal(fitted.transform(rows), fitted.transform(rows))
        assert fitted.guarantee_ == expected


def test_clones_and_pickles(data):
    original = perturber(epsilon=2.5, mechanism="laplace", bounds=np.array([[0, 1.0], [2, 3]]))
    assert clone(original).get_params()["mechanism"] == "laplace"
    fitted = original.fit(pd.DataFrame(data))
    assert pickle.loads(pickle.dumps(fitted)).guarantee_ == fitted.guarantee_
    assert fitted.get_feature_names_out().tolist() == ["age", "income"]


@every_mechanism
def test_a_fitted_object_holds_nothing_of_the_data(mechanism):
    rows = pd.DataFrame({"age": np.arange(12_345) / 123.4}, index=[f"person {i}" for i in range(12_345)])
    fitted = NumericPerturber(mechanism=mechanism, bounds=(0, 100)).fit(rows)
    fitted.estimate_mean(fitted.transform(rows))
    other = NumericPerturber(mechanism=mechanism, bounds=(0, 100)).fit(pd.DataFrame({"age": [1.5]}, index=["other"]))
    assert pickle.dumps(fitted) == pickle.dumps(other)


class TestBounds:
    @each(
        "bounds",
        [
            (0, 1),
            [0, 1],
            np.array([0, 1]),
            [(0, 1), (0, 1)],
            np.array([[0, 1], [0, 1]]),
            ((0, 1), np.array([0.0, 1.0])),
            {"b": (0, 1), "a": [0.0, np.float32(1)]},
        ],
    )
    def test_several_forms_say_the_same(self, bounds):
        fitted = NumericPerturber(bounds=bounds).fit(pd.DataFrame({"a": [5], "b": [6]}))
        assert fitted.bounds_.tolist() == [[0, 1], [0, 1]]

    @each(
        "bounds error match",
        [
            (None, ValueError, "bounds must be declared"),
            ("auto", TypeError, "bounds must be"),
            (3, TypeError, "bounds must be"),
            (np.array(3), TypeError, "bounds must be"),
            ((1, 0), ValueError, "finite with low < high"),
            ((1, 1), ValueError, "finite with low < high"),
            ((0, math.inf), ValueError, "finite with low < high"),
            ((math.nan, 1), ValueError, "finite with low < high"),
            ((-1e308, 1e308), ValueError, "finite with low < high"),
            ((False, True), TypeError, "two numbers, got bool"),
            (("0", "1"), TypeError, "two numbers, got str"),
            ((None, 1), TypeError, "two numbers, got NoneType"),
            ((0, 1, 2), ValueError, "3 rows; X has 2 columns"),
            ([(0, 1)], ValueError, "1 rows; X has 2 columns"),
            ([(0, 1), 5], ValueError, "column 'b' must be a pair"),
            ([(0, 1), (0, 1, 2)], ValueError, "column 'b' must be a pair"),
            (np.zeros((2, 2)), ValueError, "column 'a' must be finite"),
            ({"a": (0, 1)}, ValueError, r"declares nothing for the columns \['b'\]"),
            ({"a": (0, 1), "b": (0, 1), "c": (0, 1)}, ValueError, r"columns that X does not have: \['c'\]"),
            ({"a": (0, 1), "b": 7}, ValueError, "column 'b' must be a pair"),
        ],
    )
    def test_bounds_that_do_not_fit(self, bounds, error, match):
        with pytest.raises(error, match=match):
            NumericPerturber(bounds=bounds).fit(pd.DataFrame({"a": [5], "b": [6]}))

    def test_reports_must_be_finite(self):
        with pytest.raises(ValueError, match="would overflow"):
            NumericPerturber(1e-9, bounds=(0, 1e305)).fit([[5]])


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
            NumericPerturber(epsilon, bounds=(0, 1)).fit([[0]])

    def test_an_epsilon_that_leaves_nothing(self):
        with pytest.raises(ValueError, match="the reports would be pure noise"):
            NumericPerturber(1e-30, bounds=(0, 1)).fit([[0]])

    @each(
        "parameters, error, match",
        [
            ({"mechanism": "gauss"}, ValueError, "mechanism must be one of"),
            ({"mechanism": None}, ValueError, "mechanism must be one of"),
            ({"mechanism": ["laplace"]}, ValueError, "mechanism must be one of"),
            ({"grid_size": 0}, ValueError, "grid_size must be between 1 and 65536"),
            ({"grid_size": 1 << 17}, ValueError, "grid_size must be between"),
            ({"grid_size": 10.0}, TypeError, "grid_size must be an integer"),
            ({"grid_size": True}, TypeError, "grid_size must be an integer"),
            ({"ledger": 3.0}, TypeError, "ledger must be"),
            ({"random_state": np.random.default_rng(0)}, TypeError, "random_state must be None"),
            ({"random_state": -1}, ValueError, "random_state must be None"),
        ],
    )
    def test_other_parameters(self, data, parameters, error, match):
        with pytest.raises(error, match=match):
            perturber(**parameters).fit(pd.DataFrame(data))

    @pytest.mark.parametrize("bad", [None, math.nan, math.inf, -math.inf])
    def test_missing_and_infinite_values(self, make_frame, bad, monkeypatch):
        fitted = perturber().fit(make_frame({"age": [1.0, 2.0], "income": [2.0, 3.0]}))
        levels = [2.0, bad] if bad in (math.inf, -math.inf) else [2.0]
        broken = make_frame({"age": [54321.0, 2.0], "income": [2.0, bad]}, {"age": [2.0, 54321.0], "income": levels})
        monkeypatch.setattr("skdp.base._estimator.coins", lambda *key: pytest.fail("a coin was drawn"))
        for method in (fitted.transform, clone(fitted).fit, fitted.estimate_mean):
            with pytest.raises(ValueError, match=r"column '(income|age)' holds") as caught:
                method(broken)
            assert "54321" not in str(caught.value)

    @pytest.mark.parametrize("bad", ["secret", True, b"secret", {"secret": 1}, 1j, "3.5"])
    def test_values_that_are_no_numbers(self, bad):
        fitted = NumericPerturber(bounds=(0, 9)).fit(np.array([[1.0]]))
        column = np.empty((2, 1), object)
        column[:, 0] = [1.5, bad]
        for rows in (column, pd.DataFrame(column)):
            fitted = NumericPerturber(bounds=(0, 9)).fit(rows[:1])
            for method in (fitted.transform, clone(fitted).fit):
                with pytest.raises(TypeError, match=r"column (0|'x0') holds text or other objects") as caught:
                    method(rows)
                assert "secret" not in str(caught.value)

    @each(
        "frame",
        [
            pd.DataFrame({"x": ["secret"]}),
            pd.DataFrame({"x": [True]}),
            pd.DataFrame({"x": pd.to_datetime(["2020-01-01"])}),
            pd.DataFrame({"x": pd.Categorical(["secret"])}),
            pl.DataFrame({"x": ["secret"]}),
            pl.DataFrame({"x": [True]}),
            pa.table({"x": ["secret"]}),
        ],
    )
    def test_columns_that_are_no_numbers(self, frame):
        with pytest.raises(TypeError) as caught:
            NumericPerturber(bounds=(0, 9)).fit(frame)
        assert "'x'" in str(caught.value)
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize(
        ("X", "error", "match"),
        [
            (pd.DataFrame({"x": []}), ValueError, r"0 sample"),
            (pd.DataFrame(index=[0]), ValueError, r"0 feature"),
            (np.empty((0, 1)), ValueError, r"0 sample"),
            (np.array([54321.0]), ValueError, "Reshape your data"),
            ([54321.0], ValueError, "Reshape your data"),
            (pd.Series([54321.0]), ValueError, "Reshape your data"),
            (np.array([[1j]]), ValueError, "Complex data not supported"),
            (sparse.csr_array([[1.0]]), TypeError, "[Ss]parse"),
            (pl.LazyFrame({"x": [54321.0]}), TypeError, r"skdp\.engines"),
            (np.ma.masked_array([[1.0]], [[True]]), TypeError, "masked"),
        ],
    )
    def test_input_of_another_shape(self, X, error, match):
        for method in ("fit", "transform", "estimate_mean", "estimate_distribution"):
            fitted = NumericPerturber(bounds=(0, 1)).fit(np.array([[0.5]]))
            with pytest.raises(error, match=match) as caught:
                getattr(fitted, method)(X)
            assert "54321" not in str(caught.value)

    def test_other_columns_than_in_fit(self, people, make_frame):
        fitted = perturber().fit(people)
        with pytest.raises(ValueError, match="feature names"):
            fitted.transform(make_frame({"income": [1.0], "age": [2.0]}))
        with pytest.raises(ValueError, match="feature"):
            fitted.transform(make_frame({"age": [2.0]}))

    def test_other_names_that_are_no_strings(self):
        fitted = NumericPerturber(bounds={0: (1, 2), 1: (1, 2)}).fit(pd.DataFrame([[1, 2]]))
        assert fitted.transform(pd.DataFrame([[1, 2]])).columns.tolist() == [0, 1]
        with pytest.raises(ValueError, match="X has the columns"):
            fitted.transform(pd.DataFrame([[1, 2]], columns=[1, 0]))

    def test_use_before_fit(self):
        unfitted = perturber()
        for call in (
            lambda: unfitted.transform([[1]]),
            lambda: unfitted.encode([[1]]),
            lambda: unfitted.estimate_mean([[1]]),
            lambda: unfitted.estimate_distribution([[1]]),
            unfitted.channel,
        ):
            with pytest.raises(NotFittedError):
                call()

    def test_a_failed_fit_leaves_nothing_behind(self, data):
        unfitted = perturber()
        with pytest.raises(TypeError):
            unfitted.fit(pd.DataFrame(data | {"age": ["secret"] * 4}))
        with pytest.raises(NotFittedError):
            unfitted.channel()


class TestLedger:
    def test_every_call_is_charged_before_a_coin_is_drawn(self, data, monkeypatch):
        ledger = PrivacyLedger(epsilon=1.0)
        fitted = perturber(epsilon=0.5, ledger=ledger).fit(pd.DataFrame(data))
        assert ledger.spent == (0, 0)
        fitted.estimate_mean(fitted.transform(pd.DataFrame(data)))
        clone(fitted).fit_transform(pd.DataFrame(data))
        monkeypatch.setattr("skdp.base._estimator.coins", lambda *key: pytest.fail("a coin was drawn"))
        with pytest.raises(BudgetExceeded, match="NumericPerturber asks for epsilon"):
            fitted.transform(pd.DataFrame(data))
        assert ledger.report()["scope"].tolist() == ["age, income"] * 2

    def test_refused_input_is_not_charged(self, data):
        ledger = PrivacyLedger(epsilon=1.0)
        fitted = perturber(ledger=ledger).fit(pd.DataFrame(data))
        with pytest.raises(ValueError, match="column 'age'"):
            fitted.transform(pd.DataFrame(data | {"age": [math.nan] * 4}))
        assert ledger.spent == (0, 0)


@each("bounds", [(1e15, 1e15 + 2), (1e16, 1e16 + 4), (0, 5e-324), (-1e12, -1e12 + 1)])
def test_bounds_that_floats_cannot_tell_apart(bounds):
    with pytest.raises(ValueError, match="too close together for floats"):
        NumericPerturber(bounds=bounds).fit([[bounds[0]]])


class TestIntervalsOfDistributions:
    @pytest.mark.parametrize("mechanism", often(["square_wave", "optimal", "laplace"], ["square_wave"]))
    @pytest.mark.parametrize("data", often(["skewed", "ends"], ["skewed"]))
    def test_they_cover(self, data, mechanism):
        """Pooled over the bins of 60 collections; the records are drawn again each time."""
        rng = np.random.default_rng(1)
        draws = {"skewed": lambda n: rng.beta(2, 5, n), "ends": lambda n: np.minimum(rng.exponential(0.5, n), 1)}
        truth = np.histogram(draws[data](1_000_000), 4, (0, 1))[0] / 1_000_000
        fitted = NumericPerturber(3.0, mechanism=mechanism, bounds=(0, 1), grid_size=128, random_state=0).fit([[0.5]])
        inside, errors, stated = [], [], []
        for _ in range(60):
            found = fitted.estimate_distribution(fitted.transform(draws[data](2_000).reshape(-1, 1)), n_bins=4)
            inside.append((found["lower"] <= truth) & (truth <= found["upper"]))
            errors.append(found["frequency"] - truth)
            stated.append(found["std_error"])
        assert np.mean(inside) >= 0.93
        assert (np.std(errors, axis=0) < 1.3 * np.mean(stated, axis=0)).all()

    def test_they_are_within_0_and_1_and_wider_for_a_higher_level(self):
        ages = load_adult().data[["age"]][:2_000]
        fitted = NumericPerturber(1.0, mechanism="square_wave", bounds=(0, 100), grid_size=64, random_state=0)
        reports = fitted.fit_transform(ages)
        narrow, wide = (
            fitted.estimate_distribution(reports, n_bins=8, confidence_level=level) for level in (0.5, 0.99)
        )
        assert (narrow["lower"] >= wide["lower"]).all()
        assert (narrow["upper"] <= wide["upper"]).all()
        assert wide[["lower", "upper"]].stack().between(0, 1).all()
        assert narrow["std_error"].equals(wide["std_error"])
        with pytest.raises(ValueError, match="confidence_level must be"):
            fitted.estimate_distribution(reports, confidence_level=1)

    def test_too_few_reports_have_intervals_too(self):
        fitted = NumericPerturber(1.0, mechanism="optimal", bounds=(0, 1), random_state=0).fit([[0.5]])
        found = fitted.estimate_distribution(fitted.transform(np.full((200, 1), 0.3)), n_bins=16)
        assert np.isfinite(found["std_error"]).all()
        assert (found["upper"] - found["lower"]).max() > 0.5
        assert found["upper"].iloc[4] == 1  # where all values are: 0.3 of 16 bins
