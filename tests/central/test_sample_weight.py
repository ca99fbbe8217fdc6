"""Weighted counts, sums and means: the largest weight bounds the contribution of a record."""

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skdp.engines  # noqa: F401, so that `fit` reads a LazyFrame
from skdp import DPGroupBy, DPHistogram, DPLinearRegression, DPMean, Interval, PrivacyLedger
from skdp.privacy import Mu, Rho
from skdp.testing import replay_release
from tests.conftest import diagonal, often
from tests.errors import refusal

KEYS = {"key": ["a", "b"]}
MODELS = {
    "mean": DPMean(bounds=(0, 100), max_weight=4),
    "groups": DPGroupBy(
        by="key", keys=KEYS, statistics=["count", "mean", "sum"], bounds=(0, 100), max_weight=4, handle_unknown="ignore"
    ),
    "group counts": DPGroupBy(by="key", keys=KEYS, statistics="count", max_weight=4, handle_unknown="ignore"),
    "histogram": DPHistogram(domain=KEYS, max_weight=4, handle_unknown="ignore"),
    "hierarchy": DPHistogram(
        domain=Interval(0.0, 100.0, bins=8), method="hierarchical", max_weight=4, handle_unknown="ignore"
    ),
}
COLUMNS = {"mean": ["x"], "groups": ["key", "x"], "group counts": ["key"], "histogram": ["key"], "hierarchy": ["x"]}
RECORDS = list(itertools.product(["a", "b", "c"], [0.0, 50.0, 100.0, math.nan], [0.0, 1.5, 4.0, 9.0, math.nan]))


@pytest.mark.parametrize(
    ("n_tables", "n_rows", "epsilon", "name"),
    diagonal(often([3, 16], [3]), [1, 2], [1.0, Rho(0.1, delta=1e-6), Mu(0.5, delta=1e-6)], list(MODELS)),
)
def test_neighbors_by_record_or_person_cost_at_most_epsilon(n_tables, name, epsilon, n_rows):
    model = MODELS[name].set_params(epsilon=epsilon, max_rows_per_person=n_rows)
    columns = [*COLUMNS[name], "w"]
    rng = np.random.default_rng(0)
    heaviest = [("a", 100.0, 4.0)] * n_rows
    chosen = [[RECORDS[index] for index in rng.integers(0, len(RECORDS), n_rows)] for _ in range(n_tables)]
    used = []
    for seed, records in enumerate([heaviest, *chosen]):
        table = pd.DataFrame([("a", 50.0, 1.0), *records], columns=["key", "x", "w"])[columns]

        def release(rows, seed=seed):
            return model.set_params(random_state=seed).fit(rows, sample_weight="w")

        replay = replay_release(release, table, table[:1])
        assert replay.passed, replay.findings
        used.append(replay.epsilon / replay.guarantee.epsilon)
    assert max(used) == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("epsilon", [1.0, Rho(0.1, delta=1e-6)])
def test_weighted_quantiles_with_intervals_cost_at_most_epsilon(epsilon):
    """A record counts as up to `max_weight` times the units of a weight, for the endpoints of intervals, too."""
    model = DPGroupBy(epsilon, by=None, statistics=["median", 0.9], bounds=(0, 100), max_weight=4)
    used = []
    for seed, record in enumerate([(100.0, 4.0), (0.0, 9.0), (50.0, 1.5)]):
        table = pd.DataFrame([(50.0, 1.0), (70.0, 4.0), record], columns=["x", "w"])

        def release(rows, seed=seed):
            return clone(model).set_params(random_state=seed).fit(rows, sample_weight="w")

        replay = replay_release(release, table, table[:-1])
        assert replay.passed, replay.findings
        used.append(replay.epsilon / replay.guarantee.epsilon)
    assert 0.2 < max(used) <= 1 + 1e-9


def weighted_table(n, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"key": rng.choice(["a", "b"], n), "x": rng.gamma(2, 10, n).clip(0, 100)})
    return table.assign(w=rng.choice([0.5, 2.0, 4.0], n))


@pytest.mark.parametrize("name", list(MODELS))
def test_weighted_statistics_at_large_epsilon_are_exact_in_all_libraries(name):
    frame = weighted_table(2000)[[*COLUMNS[name], "w"]]
    model = MODELS[name].set_params(epsilon=1e6, max_rows_per_person=1, random_state=0)
    rows, weights = frame.drop(columns="w"), frame["w"]
    inputs = [(frame, "w"), (rows, weights), (rows, weights.to_numpy()), (rows, weights.tolist())]
    inputs += [(pl.from_pandas(frame), "w"), (pl.from_pandas(frame).lazy(), "w")]
    for X, sample_weight in inputs:
        fitted = model.fit(X, sample_weight=sample_weight)
        if name == "mean":
            assert fitted.mean_ == pytest.approx([np.average(rows["x"], weights=weights)], rel=1e-5)
        elif name == "hierarchy":
            expected = np.histogram(rows["x"], np.linspace(0, 100, 9), weights=weights)[0]
            assert fitted.counts_ == pytest.approx(expected, abs=0.01)
            assert fitted.range_estimate(0, 50).value == pytest.approx(expected[:4].sum(), abs=0.01)
        else:
            totals = weights.groupby(rows["key"]).sum()
            found = fitted.counts_ if name == "histogram" else fitted.estimates_["count"][:, 0]
            assert found == pytest.approx(totals, abs=0.01)
        if name == "groups":
            sums = (weights * rows["x"]).groupby(rows["key"]).sum()
            assert fitted.estimates_["x_sum"][:, 0] == pytest.approx(sums, rel=1e-5)
            assert fitted.estimates_["x_mean"][:, 0] == pytest.approx(sums / totals, rel=1e-5)


@pytest.mark.parametrize("weight", [math.nan, 9.0])
def test_missing_weights_are_0_and_others_are_clipped(weight):
    table = pd.DataFrame({"key": ["a", "a"], "w": [1.0, weight]})
    expected = 1.0 if not weight > 0 else 5.0
    for name in ("histogram", "group counts"):
        model = clone(MODELS[name]).set_params(epsilon=1e6, max_rows_per_person=1, random_state=0)
        fitted = model.fit(table, sample_weight="w")
        found = fitted.counts_ if name == "histogram" else fitted.estimates_["count"][:, 0]
        assert found == pytest.approx([expected, 0], abs=0.001)


@pytest.mark.parametrize("name", [*MODELS, "medians", "linear"])
@pytest.mark.parametrize("weight", [-1.0, -math.inf])
def test_negative_weight_is_an_error_before_the_charge(name, weight):
    """Negative weights counted as 0 without a word; `survey_mean` raised an error."""
    frame = weighted_table(20).assign(w=[weight, *[1.0] * 19])
    models = MODELS | {
        "medians": DPGroupBy(by=None, statistics="median", bounds=(0, 100), max_weight=4),
        "linear": DPLinearRegression(bounds=(0, 100), target_bounds=(0, 100), max_weight=4),
    }
    model, ledger = clone(models[name]), PrivacyLedger(epsilon=1.0)
    X = frame[[*COLUMNS.get(name, ["x"]), "w"]]
    y = (frame["x"],) if name == "linear" else ()
    for table in (X, pl.from_pandas(X).lazy()) if not y else (X,):
        with pytest.raises(ValueError, match="`sample_weight` must be >= 0, got a negative weight"):
            model.set_params(epsilon=1.0, ledger=ledger).fit(table, *y, sample_weight="w")
    assert ledger.spent.epsilon == 0


def test_equal_weights_have_the_same_accuracy_as_counts():
    """A weight of 3 for each row equals three times the counts and the standard error."""
    frame = weighted_table(2000)[["key"]]
    plain = DPHistogram(0.01, domain=KEYS, random_state=0).fit(frame).to_frame()
    weighted = DPHistogram(0.01, domain=KEYS, max_weight=3, random_state=0)
    weighted = weighted.fit(frame, sample_weight=np.full(2000, 3.0)).to_frame()
    assert weighted["std_error"].tolist() == pytest.approx((3 * plain["std_error"]).tolist(), rel=1e-4)
    assert weighted["count"].dtype.kind == "f"


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_cover_weighted_statistics(level):
    n_groups = 1000
    rng = np.random.default_rng(1)
    keys = np.repeat(np.arange(n_groups), 50)
    frame = pd.DataFrame({"key": keys, "x": rng.gamma(2, 10, keys.size).clip(0, 100)})
    weights = rng.choice([0.5, 2.0, 4.0], keys.size)
    fitted = DPGroupBy(
        by="key",
        keys={"key": range(n_groups)},
        statistics=["count", "sum", "mean"],
        bounds=(0, 100),
        max_weight=4,
        confidence_level=level,
        random_state=0,
    ).fit(frame, sample_weight=weights)
    totals = np.bincount(keys, weights)
    sums = np.bincount(keys, weights * frame["x"])
    for name, truth in {"count": totals, "x_sum": sums, "x_mean": sums / totals}.items():
        _, _, lower, upper = fitted.estimates_[name].T
        slack = 4 * math.sqrt(level * (1 - level) / n_groups)
        assert level - slack <= np.mean((lower <= truth) & (truth <= upper)) <= 1 - (1 - level) / 10


@pytest.mark.parametrize(
    ("parameters", "weights", "match"),
    [
        ({}, [1.0, 2.0], "`max_weight` must be the largest weight"),
        ({"max_weight": 0}, [1.0, 2.0], "`max_weight` must be"),
        ({"max_weight": 2}, [1.0], "must have one weight for each row"),
        ({"max_weight": 2}, [[1.0, 2.0]] * 2, "`sample_weight` must be one column"),
        ({"max_weight": 2}, "v", "`sample_weight` must be the name of a column of X"),
        ({"max_weight": 2}, pd.Series([1.0, 2.0], index=[1, 0]), "sample_weight"),
    ],
)
def test_mistakes_raise_errors_before_the_charge(parameters, weights, match):
    frame = pd.DataFrame({"key": ["a", "b"], "x": [0.5, 1.0]})
    with refusal(ValueError, match) as ledger:
        DPGroupBy(by="key", keys=KEYS, bounds=(0, 1), ledger=ledger, **parameters).fit(frame, sample_weight=weights)


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("lost", ["forgotten", "as y", "pipeline", "large table"])
def test_largest_weight_without_weights_is_an_error_before_the_charge(name, lost):
    """Weights were lost in a pipeline or in the ignored y, and the statistics were those of rows without weights."""
    frame = weighted_table(100)
    X, ledger = frame[COLUMNS[name]], PrivacyLedger(epsilon=1.0)
    model = clone(MODELS[name]).set_params(ledger=ledger, epsilon=1.0, max_rows_per_person=1)
    if lost == "pipeline":
        model = make_pipeline(FunctionTransformer(), model)
    table = pl.from_pandas(X).lazy() if lost == "large table" else X
    with pytest.raises(ValueError, match="`sample_weight` must be given with max_weight=4"):
        model.fit(table, frame["w"] if lost == "as y" else None)
    assert ledger.spent.epsilon == 0


def test_weights_arrive_through_a_pipeline():
    frame = weighted_table(2000)
    pipeline = make_pipeline(FunctionTransformer(), DPMean(1e6, bounds=(0, 100), max_weight=4, random_state=0))
    found = pipeline.fit(frame[["x"]], dpmean__sample_weight=frame["w"])[-1].mean_
    assert found == pytest.approx([np.average(frame["x"], weights=frame["w"])], rel=1e-5)


def test_means_are_a_table_of_the_library_of_X():
    frame = pd.DataFrame({"x": [1.0, 2.0] * 200, "y": [30.0, 60.0] * 200})
    model = DPMean(bounds=(0, 100), random_state=0)
    for table, names in ((frame, ["x", "y"]), (pl.from_pandas(frame), ["x", "y"]), (frame.to_numpy(), None)):
        found = model.fit(table).to_frame()
        if isinstance(table, pl.DataFrame):
            assert found["column"].to_list() == names
            found = found.to_pandas()
        elif names:
            assert found.index.tolist() == names
        assert found["mean"].tolist() == model.mean_.tolist()
        assert found[["lower", "upper"]].to_numpy().tolist() == model.interval_.tolist()


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("name", ["DPGroupBy", "DPHistogram", "DPLinearRegression"])
def test_weights_of_dtype_object_warn(name, named):
    """Numbers with decimal commas counted as 0 without a word."""
    table = pd.DataFrame({"a": [0.0, 1.0] * 20, "b": [1.0, 2.0] * 20, "w": pd.Series(["2,5"] * 40, dtype=object)})
    model = {
        "DPGroupBy": DPGroupBy(1.0, by="a", keys={"a": [0.0, 1.0]}, bounds={"b": (0.0, 3.0)}, max_weight=3),
        "DPHistogram": DPHistogram(1.0, domain={"a": [0.0, 1.0], "b": [1.0, 2.0]}, max_weight=3),
        "DPLinearRegression": DPLinearRegression(1.0, bounds=(0, 3), target_bounds=(0, 3), max_weight=3),
    }[name]
    y = (table.pop("b"),) if name == "DPLinearRegression" else ()
    X, weight = (table, "w") if named else (table.drop(columns="w"), table["w"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, *y, sample_weight=weight)
    assert any("`sample_weight` has dtype object" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("convert", [list, tuple, lambda text: np.array(text, dtype=object)])
def test_weights_of_text_raise_an_error_before_the_charge(convert):
    with refusal(TypeError, r"^`sample_weight` must be numbers, got text") as ledger:
        model = DPMean(1.0, bounds=(0, 10), max_weight=5, ledger=ledger)
        model.fit(np.ones((50, 1)), sample_weight=convert(["1.5"] * 50))
