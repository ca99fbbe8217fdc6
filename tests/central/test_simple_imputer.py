from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import chisquare
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import BudgetExceeded, DPMean, DPSimpleImputer, DPStandardScaler, Interval, PrivacyLedger
from skdp.central._simple_imputer import fill_missing
from skdp.central.statistics import find_missing
from skdp.frames import read_table
from tests.conftest import each, often

FALSE_ALARM = 1e-6
NUMERIC = ["mean", "median"]
KINDS = [
    {"strategy": "mean", "bounds": (0, 100)},
    {"strategy": "median", "bounds": (0, 100)},
    {"strategy": "most_frequent", "categories": Interval(0, 100, bins=101)},
]

every_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind["strategy"] for kind in KINDS])


def table(n, seed=0):
    """Two columns with gaps; their middles are at about 30 and 60."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.beta(3, 7, n), rng.beta(6, 4, n)]) * 100
    X[rng.random(X.shape) < 0.3] = np.nan
    return X


def permute_and_flip_law(counts, a):
    """The exact probability of each candidate, for coins of probability a**gap; a is a Fraction."""
    best = max(counts)
    heads = [a ** (best - count) for count in counts]
    law = [Fraction(0)] * len(counts)
    for shown in itertools.product((False, True), repeat=len(counts)):
        probability = math.prod(p if one else 1 - p for p, one in zip(heads, shown, strict=True))
        for place in np.flatnonzero(shown):
            law[place] += probability / sum(shown)
    return law


def counts_of(values, domain=("x", "y", "z")):
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object)})
    table = read_table(frame)
    imputer = DPSimpleImputer(strategy="most_frequent", categories={"a": domain}, handle_unknown="ignore")
    ((kept,), (counts,)) = imputer._count(table, None)
    return kept, counts.tolist()


class TestMostFrequent:
    def test_a_record_raises_one_count_by_one_or_none(self):
        """Every table of up to 4 rows over three values, missing and an undeclared one."""
        records = ["x", "y", "z", None, "?"]
        for n in range(4):
            for rows in itertools.combinations_with_replacement(records, n):
                kept, before = counts_of(rows)
                assert kept == ["x", "y", "z"]
                assert before == [rows.count(value) for value in kept]
                for record in records:
                    moved = np.subtract(counts_of([*rows, record])[1], before).tolist()
                    assert moved == [int(record == value) for value in kept]

    def test_at_this_rate_the_choice_is_private_and_at_none_above(self):
        """The exact law of every table of up to 4 rows, epsilon = ln 2: no choice gets more than twice as likely."""
        tables = [counts for counts in itertools.product(range(5), repeat=3) if sum(counts) <= 4]

        def worst(a):
            ratios = []
            for counts in tables:
                law = permute_and_flip_law(counts, a)
                for place in range(3):
                    more = [count + (place == i) for i, count in enumerate(counts)]
                    other = permute_and_flip_law(more, a)
                    ratios += [max(p / q, q / p) for p, q in zip(law, other, strict=True)]
            return max(ratios)

        assert worst(Fraction(1, 2)) <= 2
        assert worst(Fraction(2, 5)) > 2

    @pytest.mark.parametrize("n_columns", often([1, 4], [4]))
    def test_it_follows_the_law_with_its_share_of_epsilon(self, n_columns):
        """200 choices, one false alarm in a million: the scores are counts, the rate is epsilon / d."""
        values = ["x"] * 5 + ["y"] * 4 + ["z"] * 3 + [None] * 40
        frame = pd.DataFrame({f"c{i}": values for i in range(n_columns)})
        categories = {name: ["x", "y", "z"] for name in frame}
        chosen = Counter()
        for seed in range(200 // n_columns):
            imputer = DPSimpleImputer(0.9, strategy="most_frequent", categories=categories, random_state=seed)
            chosen.update(imputer.fit(frame).statistics_)
        law = permute_and_flip_law([5, 4, 3], Fraction(math.exp(-0.9 / n_columns)))
        expected = 200 * np.array(law, float)
        assert chisquare([chosen[value] for value in "xyz"], expected).pvalue > FALSE_ALARM

    def test_frames_of_every_kind(self, make_frame, values_of):
        data = {
            "job": ["nurse", None, "smith", "nurse"] * 30,
            "kids": [2, 2, None, 1] * 30,
            "tall": [None, True, False, True] * 30,
        }
        categories = {"job": ["nurse", "smith"], "kids": [1, 2], "tall": [False, True]}
        frame = make_frame(data, categories)
        imputer = DPSimpleImputer(90.0, strategy="most_frequent", categories=categories)
        out = imputer.fit_transform(frame)
        assert imputer.statistics_.tolist() == ["nurse", 2, True]
        assert type(out) is type(frame)
        for name, filled in zip(data, imputer.statistics_, strict=True):
            assert values_of(out, name) == [filled if value is None else value for value in data[name]]
        if isinstance(frame, pd.DataFrame):
            assert out.dtypes.tolist() == frame.dtypes.tolist()
        elif isinstance(frame, pl.DataFrame):
            assert out.schema == frame.schema
        assert imputer.get_feature_names_out().tolist() == ["job", "kids", "tall"]

    def test_dtypes_that_declare_need_no_categories(self):
        frame = pd.DataFrame({"a": pd.Categorical(["x", None, "y", "x"] * 40, ordered=True)})
        out = DPSimpleImputer(50.0, strategy="most_frequent").fit_transform(frame)
        assert out["a"].tolist() == ["x", "x", "y", "x"] * 40

    def test_missing_is_never_the_most_frequent(self):
        frame = pd.DataFrame({"a": ["x", None, None, None]})
        imputer = DPSimpleImputer(50.0, strategy="most_frequent", categories={"a": [None, "x"]})
        assert imputer.fit_transform(frame)["a"].tolist() == ["x"] * 4
        with pytest.raises(ValueError, match="column 'a' declares nothing that could be filled in"):
            imputer.set_params(categories={"a": [None]}, handle_unknown="ignore").fit(frame)

    def test_the_middle_of_a_bin(self):
        X = np.array([[1.0], [12.0], [13.0], [np.nan]] * 50)
        imputer = DPSimpleImputer(50.0, strategy="most_frequent", categories=Interval(0, 20, bins=4)).fit(X)
        assert imputer.statistics_.tolist() == [12.5]
        assert imputer.transform(X)[:4].tolist() == [[1.0], [12.0], [13.0], [12.5]]

    def test_undeclared_values(self):
        frame = pd.DataFrame({"a": ["x", "secret", None] + ["y"] * 60})
        ledger = PrivacyLedger(epsilon=50)
        imputer = DPSimpleImputer(50.0, strategy="most_frequent", categories={"a": ["x", "y"]}, ledger=ledger)
        with pytest.raises(ValueError, match="column 'a' holds a value outside the declared categories") as caught:
            imputer.fit(frame)
        assert "secret" not in str(caught.value)
        assert ledger.spent == (0, 0)
        out = imputer.set_params(handle_unknown="ignore").fit_transform(frame)
        assert out["a"].tolist()[:3] == ["x", "secret", "y"]

    def test_an_array_of_words(self):
        X = np.array([["x", 1], [None, 2], ["x", np.nan]] * 30, dtype=object)
        imputer = DPSimpleImputer(90.0, strategy="most_frequent", categories=[["x", "y"], [1, 2]], random_state=0)
        out = imputer.fit(X).transform(X)
        assert out.dtype == object
        assert out[1].tolist() == ["x", 2]
        assert out[2, 1] == imputer.statistics_[1]
        assert X[1, 0] is None


class TestFilling:
    @each(
        "column value filled dtype",
        [
            (pd.Series(["x", None], dtype="category"), "z", ["x", "z"], "category"),
            (pd.Series([1, None], dtype="category"), 7, [1, 7], "category"),
            (pd.Series([1, None], dtype="Int64"), 1.5, [1.0, 1.5], "Float64"),
            (pd.Series([1, None], dtype="Int64"), 2.0, [1, 2], "Int64"),
            (pd.Series([1, None], dtype="float32"), 1.5, [1.0, 1.5], "float32"),
            (pd.Series([1, None], dtype="int64[pyarrow]"), 1.5, [1.0, 1.5], "double[pyarrow]"),
            (pd.Series([1, 2]), 1.5, [1, 2], "float64"),
            (pd.Series([pd.Timestamp("2020"), None]), pd.Timestamp("2021"), None, "datetime64"),
            (pl.Series(["x", None], dtype=pl.Enum(["x"])), "z", ["x", "z"], "String"),
            (pl.Series(["x", None], dtype=pl.Categorical), "z", ["x", "z"], "Categorical"),
            (pl.Series([1, None]), 1.5, [1.0, 1.5], "Float64"),
            (pl.Series([1.0, None, math.nan]), 2.0, [1.0, 2.0, 2.0], "Float64"),
            (pl.Series([None, None]), "x", ["x", "x"], "String"),
            (pa.chunked_array([pa.array(["x", None]).dictionary_encode()]), "z", ["x", "z"], "dictionary"),
            (pa.chunked_array([pa.array([1, None])]), 1.5, [1.0, 1.5], "double"),
            (pa.chunked_array([pa.array([1, None])]), 3.0, [1, 3], "int64"),
            (pa.chunked_array([pa.nulls(2)]), "z", ["z", "z"], "string"),
            (pa.chunked_array([pa.array(["x", None], pa.string_view())]), "z", ["x", "z"], "large_string"),
            (np.array([1.0, math.nan], np.float32), 2.5, [1.0, 2.5], "float32"),
            (np.array([1.0, math.nan]), "x", [1.0, "x"], "object"),
            (np.array([1, 2]), "x", [1, 2], "int64"),
            (np.array(["x", None, math.nan], object), "y", ["x", "y", "y"], "object"),
        ],
    )
    def test_a_dtype_gives_way_only_if_it_must(self, column, value, filled, dtype):
        out = fill_missing(column, value)
        assert type(out) is type(column)
        assert not find_missing(out).any()
        if filled is not None:
            assert (out.to_pylist() if isinstance(out, pa.ChunkedArray) else list(out)) == filled
        assert str(out.type if isinstance(out, pa.ChunkedArray) else out.dtype).startswith(dtype)

    def test_missing_of_every_kind(self, make_frame):
        frame = read_table(make_frame({"a": ["x", None, "y"], "b": [None, 1.5, 2.5]}))
        first, second = map(find_missing, frame.columns)
        assert first.tolist() == [False, True, False]
        assert second.tolist() == [True, False, False]
        masked = pd.Series([1.0, 0.0, None], dtype="Float64") / pd.Series([1.0, 0.0, 1.0], dtype="Float64")
        assert find_missing(masked).tolist() == [False, True, True]


class TestNumbers:
    def test_means_are_those_of_the_mean(self):
        X = table(500)
        imputer = DPSimpleImputer(0.8, bounds=[(0, 100), (-50, 150)], random_state=1).fit(X)
        runs = [DPSimpleImputer(0.8, bounds=(0, 100), random_state=seed).fit(X).statistics_ for seed in range(80)]
        errors = np.array(runs) - np.nanmean(X, axis=0)
        stated = DPMean(0.8, bounds=(0, 100), random_state=0).fit(X).std_error_
        assert np.sqrt(np.mean(errors**2, axis=0)) == pytest.approx(stated, rel=0.27)
        assert imputer.statistics_.dtype == float

    @each("bounds", [(0, 100), (-3.5, 250.25), (0, 12_345), (1, 98)])
    def test_medians(self, bounds):
        X = table(3000).round()
        imputer = DPSimpleImputer(20.0, strategy="median", bounds=bounds).fit(X)
        step = (bounds[1] - bounds[0]) / 10_000
        assert imputer.statistics_ == pytest.approx(np.nanmedian(X, axis=0), abs=1 + 2 * step)
        if bounds in [(0, 100), (1, 98)]:
            assert imputer.statistics_.tolist() == np.nanmedian(X, axis=0).tolist()

    def test_the_candidates_of_a_median_do_not_depend_on_the_dtype(self):
        """Whether a column of integers is one of floats shows in pandas whether one is missing."""
        values = [3, 5, 9] * 3
        seen = [
            DPSimpleImputer(1e-9, strategy="median", bounds=(0, 10), random_state=seed)
            .fit(pd.DataFrame({"a": pd.Series(values, dtype=dtype)}))
            .statistics_[0]
            for dtype in ("int64", "float64", "Int64")
            for seed in range(5)
        ]
        assert seen[:5] == seen[5:10] == seen[10:]
        assert any(not value.is_integer() for value in seen)

    @pytest.mark.parametrize("strategy", NUMERIC)
    def test_missing_values_add_nothing(self, strategy):
        X = table(400)
        padded = np.vstack([X, np.full((5000, 2), np.nan)])
        plain, more = (
            DPSimpleImputer(strategy=strategy, bounds=(0, 100), random_state=3).fit(rows).statistics_.tolist()
            for rows in (X, padded)
        )
        assert plain == more

    @pytest.mark.parametrize("strategy", NUMERIC)
    def test_only_gaps_are_filled(self, strategy):
        X = table(300)
        imputer = DPSimpleImputer(strategy=strategy, bounds=(0, 100)).fit(X)
        before = X.copy()
        out = imputer.transform(X)
        np.testing.assert_array_equal(X, before)
        gaps = np.isnan(X)
        np.testing.assert_array_equal(out[~gaps], X[~gaps])
        np.testing.assert_array_equal(out[gaps], np.broadcast_to(imputer.statistics_, X.shape)[gaps])
        outside = np.array([[-5.0, np.inf]])  # what is there stays, clipped or not
        np.testing.assert_array_equal(imputer.transform(outside), outside)

    @pytest.mark.parametrize("strategy", NUMERIC)
    def test_frames_of_every_kind(self, make_frame, frame_kind, values_of, strategy):
        frame = make_frame({"age": [17, None, 40, 90] * 100, "share": [0.25, 0.5, None, 0.75] * 100})
        bounds = {"age": (0, 100), "share": (0, 1)}
        imputer = DPSimpleImputer(100.0, strategy=strategy, bounds=bounds)
        out = imputer.fit_transform(frame)
        assert type(out) is type(frame)
        assert imputer.statistics_[0] == pytest.approx(49 if strategy == "mean" else 40, abs=1)
        assert values_of(out, "age")[:4] == pytest.approx([17, imputer.statistics_[0], 40, 90])
        assert values_of(out, "share")[:4] == pytest.approx([0.25, 0.5, imputer.statistics_[1], 0.75])
        assert all(isinstance(value, float) for value in values_of(out, "age"))

    def test_before_other_steps(self):
        frame = pd.DataFrame({"a": table(2000)[:, 0]})
        target = frame["a"].fillna(0) > 30
        steps = DPSimpleImputer(bounds=(0, 100)), DPStandardScaler(bounds=(0, 100)), LogisticRegression()
        assert make_pipeline(*steps).fit(frame, target).score(frame, target) > 0.8
        words = pd.DataFrame({"a": np.where(target, "x", "y")}).mask(frame.isna().to_numpy())
        steps = (
            DPSimpleImputer(strategy="most_frequent", categories={"a": ["x", "y"]}),
            OneHotEncoder(),
            LogisticRegression(),
        )
        assert make_pipeline(*steps).fit(words, target).score(words, target) > 0.6


class TestPromise:
    @every_kind
    @pytest.mark.parametrize("rows", [0, 1])
    def test_tables_of_no_rows_and_of_one_are_answered(self, kind, rows):
        for hole in (np.nan, 3.0):
            imputer = DPSimpleImputer(random_state=0, **kind).fit(np.full((rows, 2), hole))
            assert imputer.statistics_.shape == (2,)
            assert all(0 <= value <= 100 for value in imputer.statistics_)
            assert imputer.transform([[np.nan, 1.0]]).tolist() == [[imputer.statistics_[0], 1.0]]

    @every_kind
    def test_tiny_and_huge_epsilons(self, kind):
        for epsilon in (5e-324, 1e-12, 1e300):
            imputer = DPSimpleImputer(epsilon, **kind).fit(table(50))
            assert all(0 <= value <= 100 for value in imputer.statistics_)

    @every_kind
    def test_the_guarantee(self, kind):
        guarantee = DPSimpleImputer(0.7, **kind).fit(pd.DataFrame(table(90), columns=["a", "b"])).guarantee_
        assert (guarantee.epsilon, guarantee.delta, guarantee.scope) == (0.7, 0, ("a", "b"))
        assert (guarantee.relation, guarantee.trust, guarantee.secure) == ("add_remove", "central", True)

    @every_kind
    def test_fit_spends_each_time_and_transform_never(self, kind):
        ledger = PrivacyLedger(epsilon=2.0)
        for spent in (1.0, 2.0):
            imputer = DPSimpleImputer(ledger=ledger, **kind).fit(table(50))
            imputer.transform(table(50))
            assert ledger.spent == (spent, 0)
        last = clone(imputer)
        with pytest.raises(BudgetExceeded):
            last.fit(table(50))
        assert not hasattr(last, "statistics_")
        with pytest.raises(NotFittedError):
            last.transform(table(50))

    @every_kind
    def test_seeds(self, kind):
        fits = [DPSimpleImputer(0.05, random_state=seed, **kind).fit(table(50)) for seed in (4, 4, 5)]
        first, second, third = (one.statistics_.tolist() for one in fits)
        assert first == second != third
        assert not DPSimpleImputer(random_state=4, **kind).fit(table(50)).guarantee_.secure

    @every_kind
    def test_without_a_seed_every_fit_draws_anew(self, kind):
        np.random.seed(0)  # noqa: NPY002
        imputer = DPSimpleImputer(1e-3, **kind)
        X = np.hstack([table(50)] * 5)
        copies = [imputer, clone(imputer), pickle.loads(pickle.dumps(imputer)), copy.deepcopy(imputer)]
        assert len({tuple(one.fit(X).statistics_) for one in copies}) == 4

    @every_kind
    def test_nothing_else_stays_on_it(self, kind):
        imputer = DPSimpleImputer(**kind).fit(table(50))
        released = {"statistics_", "statistics_std_error_", "guarantee_", "n_features_in_"}
        released |= {"bounds_"} if hasattr(imputer, "bounds_") else set()
        assert set(vars(imputer)) - set(imputer.get_params()) == released
        again = pickle.loads(pickle.dumps(imputer))
        np.testing.assert_array_equal(again.transform(table(9)), imputer.transform(table(9)))


class TestMistakes:
    @each(
        "parameters error message",
        [
            ({"epsilon": 0}, ValueError, "epsilon"),
            ({"epsilon": True}, TypeError, "epsilon"),
            ({"strategy": "constant"}, ValueError, "strategy must be one of"),
            ({"strategy": ["mean"]}, ValueError, "strategy must be one of"),
            ({"bounds": None}, ValueError, "bounds must be declared"),
            ({"bounds": (1, 0), "strategy": "median"}, ValueError, "bounds of column 'a'"),
            ({"strategy": "most_frequent"}, ValueError, r"categories declares .*\['a', 'b'\]"),
            ({"strategy": "most_frequent", "categories": "auto"}, ValueError, "categories must be declared"),
            ({"strategy": "most_frequent", "categories": [[1]]}, ValueError, "categories has 1 lists"),
            (
                {"strategy": "most_frequent", "categories": Interval(0, 9, bins=3), "handle_unknown": "uniform"},
                ValueError,
                "handle_unknown must be one of",
            ),
            ({"ledger": 3}, TypeError, "ledger"),
            ({"random_state": "0"}, TypeError, "random_state"),
        ],
    )
    def test_parameters(self, parameters, error, message):
        ledger = PrivacyLedger(epsilon=10)
        frame = pd.DataFrame({"a": [8.512345, 1.0], "b": [2.0, None]})
        with pytest.raises(error, match=message) as caught:
            DPSimpleImputer(**{"bounds": (0, 100), "ledger": ledger} | parameters).fit(frame)
        assert "8.512345" not in str(caught.value)
        assert ledger.spent == (0, 0)

    @pytest.mark.parametrize("strategy", NUMERIC)
    @pytest.mark.parametrize(
        ("X", "error", "message"),
        [
            (np.zeros(3), ValueError, "Reshape your data"),
            (np.array([["secret", None]], dtype=object), TypeError, "column 'x0'"),
            (pd.DataFrame({"a": ["secret"]}), TypeError, "column 'a'"),
        ],
    )
    def test_data(self, X, error, message, strategy):
        ledger = PrivacyLedger(epsilon=10)
        with pytest.raises(error, match=message) as caught:
            DPSimpleImputer(strategy=strategy, bounds=(0, 100), ledger=ledger).fit(X)
        assert "secret" not in str(caught.value)
        assert ledger.spent == (0, 0)

    def test_a_column_that_cannot_be_filled_is_named_without_its_values(self):
        fitted = DPSimpleImputer(strategy="most_frequent", categories={"a": ["x", "y"]}).fit(pd.DataFrame({"a": ["x"]}))
        frame = pl.DataFrame({"a": pl.Series([object(), None], dtype=pl.Object)})
        with pytest.raises(ValueError, match=r"column 'a' cannot be filled in \(\w+\)$"):
            fitted.transform(frame)
        with pytest.raises(ValueError, match="feature names"):
            fitted.transform(pd.DataFrame({"b": ["x"]}))
