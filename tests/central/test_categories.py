"""Categories that a release finds: the distribution of tiny releases is enumerated, hostile values, and mistakes."""

import itertools
import math
import pickle
import re
from datetime import date
from decimal import Decimal

import dask.dataframe as dask
import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import (
    Domain,
    DPAdditiveClassifier,
    DPAdditiveRegressor,
    DPCategoricalNB,
    DPHistogram,
    DPMarginalSynthesizer,
    DPOneHotEncoder,
    DPTargetEncoder,
    Interval,
    PrivacyLedger,
    RandomizedResponseEncoder,
    ReportTally,
    load,
    privacy_statement,
    save,
)
from skdp.engines import privatize
from skdp.privacy import BudgetExceeded, Rho, largest_mu
from skdp.testing import replay_release
from tests.conftest import often
from tests.errors import refusal

OTHER = "(other)"
NOTHING = "ignore:No value of columns"
N = 1200
rng = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {
        "job": rng.choice(["clerk", "nurse", None], N),
        "floor": rng.integers(0, 3, N),
        "owns": rng.random(N) < 0.5,
    }
)
ILL = pd.Series(rng.integers(0, 2, N), name="ill")

MODELS = {
    "indicators": lambda **given: DPOneHotEncoder(**given),
    "means": lambda **given: DPTargetEncoder(bounds=(0, 1), **given),
    "bayes": lambda **given: DPCategoricalNB(classes=[0, 1], **given),
}
ADDITIVE = {
    "regressor": lambda **given: DPAdditiveRegressor(**{"target_bounds": (0, 1)} | given),
    "classifier": lambda **given: DPAdditiveClassifier(**{"classes": [0, 1]} | given),
}


def make(model, **given):
    return MODELS[model](**{"epsilon": 4.0, "delta": 1e-6, "random_state": 0} | given)


def find(fitted, name="job"):
    return fitted.domain_[name].values


def make_column(values):
    column = np.empty(len(values), object)
    column[:] = values
    return pd.DataFrame({"job": pd.Series(column, dtype=object)})


# Enumeration.


def enumerate_releases(monkeypatch, counts, epsilon, delta, k, largest):
    """Return the probability of each set of categories, for all noise up to `largest`, and of larger noise."""
    a = math.exp(-epsilon / k)
    rows = make_column(np.repeat([*counts], [*counts.values()]).tolist())
    model = DPOneHotEncoder(epsilon, delta=delta, max_rows_per_person=k)
    distribution = {}
    for noise in itertools.product(range(-largest, largest + 1), repeat=len(counts)):
        replaced = "skdp.central.statistics._calibrated_noise.discrete_laplace"
        draw = np.array(noise, np.int64)
        monkeypatch.setattr(replaced, lambda source, scale, n, z=draw: z)
        outcome = find(model.fit(rows))
        weight = math.prod((1 - a) / (1 + a) * a ** abs(z) for z in noise)
        distribution[outcome] = distribution.get(outcome, 0.0) + weight
    return distribution, 1 - sum(distribution.values())


def find_delta(first, second, epsilon):
    """Return the smallest delta of two distributions for an epsilon."""
    return sum(max(p - math.exp(epsilon) * second.get(outcome, 0.0), 0.0) for outcome, p in first.items())


NEIGHBORS = [
    ({"a": 2}, {"a": 2, "b": 1}, 1),  # a value of one person
    ({"a": 2}, {"a": 3}, 1),
    ({"a": 2}, {"a": 2, None: 1}, 1),
    ({}, {"a": 1, "b": 1}, 2),  # two values of one person
    ({"a": 1}, {"a": 2, "b": 1}, 2),  # an old and a new value
    ({}, {"a": 2}, 2),
]


@pytest.mark.filterwarnings(NOTHING)
@pytest.mark.parametrize("case", often(NEIGHBORS, NEIGHBORS[:1] + NEIGHBORS[3:]), ids=str)
def test_distributions_of_neighbors_are_within_epsilon_and_delta(monkeypatch, case):
    without, with_person, k = case
    epsilon, delta, largest = 3.0 * k, 0.01, 4
    tables = [enumerate_releases(monkeypatch, counts, epsilon, delta, k, largest) for counts in (without, with_person)]
    (first, rest), (second, other_rest) = tables
    assert max(rest, other_rest) < 4e-5
    for one, other in ((first, second), (second, first)):
        assert find_delta(one, other, epsilon) <= delta + rest + other_rest


@pytest.mark.filterwarnings(NOTHING)
def test_threshold_is_the_smallest(monkeypatch):
    """One less, and a value of one person is found with a larger probability than delta."""
    find_threshold = "skdp.central.statistics._categories.find_threshold"
    original = pytest.importorskip("skdp.central.statistics._categories").find_threshold
    monkeypatch.setattr(find_threshold, lambda *given: original(*given) - 1)
    without, with_person, k = NEIGHBORS[0]
    first, second = (enumerate_releases(monkeypatch, c, 3.0, 0.01, k, 3)[0] for c in (without, with_person))
    assert find_delta(second, first, 3.0) > 0.01


@pytest.mark.filterwarnings(NOTHING)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("k", [1, 3])
def test_replayed_neighbors_are_within_epsilon(model, k):
    """All rows of a person have a value that others have; new values are covered by the enumeration."""
    table = ROWS.assign(ill=ILL)
    person = table.iloc[[5] * k]
    target = (lambda t: ()) if model == "indicators" else (lambda t: (t["ill"],))

    def release(given):
        return make(model, max_rows_per_person=k).fit(given.drop(columns="ill"), *target(given))

    replay = replay_release(release, pd.concat([table, person], ignore_index=True), table)
    assert replay.findings == ()
    assert 0.5 < replay.epsilon / replay.guarantee.epsilon <= 1 + 1e-9


@pytest.mark.filterwarnings("ignore:The noise exceeds the effects")
@pytest.mark.parametrize(("model", "n_columns"), [("classifier", 1), ("indicators", 12)])
def test_gaussian_noise_and_its_threshold_have_half_of_delta_each(model, n_columns):
    """For the indicators, Gaussian noise is smaller than Laplace noise."""
    epsilon, delta = 1.0, 1e-4
    table = pd.concat([ROWS[["job"]]] * n_columns, axis=1, keys=range(n_columns)).set_axis(
        [f"c{i}" for i in range(n_columns)], axis=1
    )
    part = 1.0 if model == "indicators" else 0.2
    fitted = (MODELS | ADDITIVE)[model](epsilon=epsilon, delta=delta, random_state=0).fit(table, ILL)
    assert "rounded Gaussian on counts of values" in fitted.guarantee_.mechanism
    threshold = int(re.search(r"reach (\d+)", fitted.guarantee_.mechanism)[1])
    std = math.sqrt(n_columns / part) / largest_mu(epsilon, delta / 2)

    def bound(threshold):  # a value of one row reaches the threshold
        return n_columns * math.exp(-(((threshold - 1.5) / std) ** 2) / 2) / 2

    assert bound(threshold) <= delta / 2 < bound(threshold - 1)


# Categories.


@pytest.mark.parametrize("model", MODELS)
def test_texts_numbers_booleans_and_missing_values_are_found(model):
    rare = ROWS.copy()
    rare.loc[0, "job"] = "pilot"
    fitted = make(model).fit(rare, ILL)
    assert find(fitted) == ("clerk", "nurse", None, OTHER)
    assert find(fitted, "floor") == (0, 1, 2, OTHER)
    assert find(fitted, "owns") == (False, True, OTHER)
    assert (fitted.guarantee_.epsilon, fitted.guarantee_.delta) == (4.0, 1e-6)
    described = dict(fitted.guarantee_.method)["categories"]
    assert described.startswith("job, floor, owns: the values with many rows are found")


def test_rare_and_unseen_values_have_the_encoding_of_the_other_category():
    jobs = make_column(["clerk"] * 500 + [f"rare {i}" for i in range(500)] + [OTHER] * 100)
    y = np.repeat([0, 1, 1], [500, 500, 100])
    fitted = make("means", epsilon=100.0).fit(jobs, y)
    assert find(fitted) == ("clerk", OTHER)
    seen = fitted.transform(make_column(["clerk", "rare 7", "unseen", None, 3.5, OTHER]))["job"]
    assert seen.round(1).tolist() == [0, 1, 1, 1, 1, 1]


def test_declared_columns_keep_their_values():
    declared = {"job": ["clerk", "nurse", None]}
    fitted = make("means", categories=declared).fit(ROWS, ILL)
    assert find(fitted) == ("clerk", "nurse", None)
    assert find(fitted, "floor") == (0, 1, 2, OTHER)
    ordered = ROWS[["job"]].astype(pd.CategoricalDtype(["nurse", "clerk"], ordered=True))
    by_dtype = make("means", handle_unknown="ignore").fit(ordered, ILL)
    assert find(by_dtype) == ("nurse", "clerk")
    assert by_dtype.guarantee_.delta == 0  # nothing was found


def test_found_domain_is_used_by_another_estimator():
    found = make("indicators").fit(ROWS).domain_
    fitted = make("bayes", delta=0.0, categories=found).fit(ROWS.assign(job="unseen"), ILL)
    assert fitted.guarantee_.delta == 0
    assert find(fitted) == ("clerk", "nurse", None, OTHER)
    assert fitted.feature_log_prob_[0][:, -1].min() > -0.1


@pytest.mark.parametrize("kind", ["pandas", "nullable", "polars", "lazy", "pyarrow", "array"])
def test_every_library_gives_the_same_categories(kind):
    given = {
        "pandas": lambda t: t,
        "nullable": lambda t: t.convert_dtypes(),
        "polars": pl.from_pandas,
        "lazy": lambda t: pl.from_pandas(t).lazy(),
        "pyarrow": lambda t: pl.from_pandas(t).to_arrow(),
        "array": lambda t: t.to_numpy(object),
    }[kind](ROWS)
    fitted = make("indicators").fit(given)
    assert [fitted.domain_[name].values for name in fitted.domain_] == [
        ("clerk", "nurse", None, OTHER),
        (0, 1, 2, OTHER),
        (False, True, OTHER),
    ]
    if kind != "lazy":
        encoded = fitted.transform(given)
        encoded = (
            encoded
            if kind == "array"
            else np.column_stack([np.asarray(encoded[n]) for n in encoded.columns])
            if kind != "pyarrow"
            else encoded.to_pandas().to_numpy()
        )
        assert (np.asarray(encoded, float).reshape(N, -1)[:, -3] == ~ROWS["owns"]).all()


def test_equal_names_of_found_categories_get_underscores():
    fitted = make("indicators").fit(make_column(["None"] * 200 + [None] * 200))
    assert fitted.get_feature_names_out().tolist() == ["job_None", "job_None_", "job_(other)"]
    assert fitted.transform(make_column(["None", None])).to_numpy().tolist() == [[1, 0, 0], [0, 1, 0]]


def test_categories_are_saved(tmp_path):
    fitted = make("means").fit(ROWS, ILL)
    save(fitted, tmp_path / "encoder.skdp")
    for copied in (load(tmp_path / "encoder.skdp"), pickle.loads(pickle.dumps(fitted))):
        assert copied.domain_ == fitted.domain_
        unseen = ROWS.assign(job="unseen")
        assert copied.transform(unseen).equals(fitted.transform(unseen))
    text = fitted.domain_.to_toml()
    assert Domain.from_toml(text) == fitted.domain_
    assert "other = true" in text


# Hostile values.


class Text(str):
    __slots__ = ()

    def __eq__(self, other):
        raise RuntimeError

    __hash__ = str.__hash__


class Number(int):
    def __str__(self):
        raise RuntimeError


HOSTILE = [
    *[b"x", (1, 2), [1], {}, {1}, 1, True, 1j, 10**5000, Decimal("sNaN"), Decimal(1), pd.Timestamp(0)],
    *[date(2020, 1, 1), math.inf, -0.0, 0.5, None, math.nan, pd.NA, pd.NaT, np.float32(2), np.int8(1), np.bool_(True)],
    *[Text("clerk"), np.str_("nurse"), "alone", "\ud800", "x" * 10**6, "", OTHER, Number(3), object(), lambda: 0],
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
def test_object_of_one_person_does_not_change_the_categories(value):
    """Such a record causes neither an error nor a warning, which tests turn into an error."""
    table = make_column(["clerk", "nurse", "1"] * 100 + [value])
    ledger = PrivacyLedger(9.0, delta=1e-3)
    fitted = make("means", ledger=ledger).fit(table, np.ones(301))
    assert find(fitted) == ("1", "clerk", "nurse", OTHER)
    assert ledger.spent.epsilon == 4.0
    assert len(fitted.transform(table)) == 301


@pytest.mark.parametrize("model", MODELS)
def test_mixed_and_long_values_of_many_rows_are_found(model):
    values = ["\ud800", "x" * 5000, 7, "7", 7.0, True, "True", None, math.nan, "", 0.5, [1]]
    fitted = make(model).fit(make_column(values * 100), np.arange(1200) % 2)
    assert find(fitted) == ("", "7", "True", "x" * 5000, None, OTHER)


@pytest.mark.filterwarnings(NOTHING)
def test_values_of_persons_with_several_rows_need_more_rows():
    table = make_column(["mine"] * 500 + ["ours"] * 200)
    person = np.append(np.full(500, -1), np.arange(200))
    fitted = make("indicators", max_rows_per_person=2).fit(table, person=person)
    assert find(fitted) == ("ours", OTHER)
    assert fitted.guarantee_.unit == "person"
    # Without persons, the number is not checked.
    assert find(make("indicators").fit(table)) == ("mine", "ours", OTHER)


def test_nothing_frequent_is_a_warning():
    with pytest.warns(UserWarning, match=r"No value of columns \['job'\] is frequent enough .* Declare the values"):
        fitted = make("means").fit(make_column([f"{i}" for i in range(300)]), np.ones(300))
    assert find(fitted) == (OTHER,)


# Mistakes and the charge.


@pytest.mark.parametrize(
    ("given", "columns", "match"),
    [
        ({"delta": 0.0}, {}, r"`categories` must declare .*\['job'.*, got None. Declare them, or set `delta`"),
        (
            {"delta": 0.0, "categories": {"floor": [0, 1, 2]}},
            {},
            r"Exclude them by X\[\['floor'\]\], declare them, or set",
        ),
        ({"delta": 0.0, "epsilon": Rho(0.1, 1e-6)}, {}, "or set `delta` .* with a number as epsilon"),
        ({"categories": {"jobs": ["a"]}}, {}, "jobs"),
        ({}, {"job": date(2024, 1, 1)}, "2024"),
        ({}, {"job": pd.Timestamp(0)}, "must declare the values of column 'job' of dtype datetime64"),
    ],
)
def test_mistakes_are_raised_before_the_charge(given, columns, match):
    ledger = PrivacyLedger(9.0, delta=1e-5)
    table = ROWS.assign(**columns)
    if match == "2024":  # dates of dtype object are other values
        with pytest.warns(UserWarning, match=r"No value of columns \['job'\]"):
            make("means").fit(table, ILL)
        return
    with pytest.raises(ValueError, match=match):
        make("means", ledger=ledger, **given).fit(table, ILL)
    assert ledger.spent.epsilon == 0


def test_release_is_charged_once_and_described():
    ledger = PrivacyLedger(4.0, delta=1e-6)
    fitted = make("bayes", ledger=ledger).fit(ROWS, ILL)
    assert (ledger.spent.epsilon, ledger.spent.delta) == (4.0, 1e-6)
    (method,) = privacy_statement(fitted).to_dict()["method"]
    assert "counts of values that reach" in method
    assert "(20% of the budget)" in method
    with pytest.raises(BudgetExceeded):
        fitted.fit(ROWS, ILL)
    with pytest.raises(BudgetExceeded, match="has no rho"):
        PrivacyLedger(rho=10.0).charge(fitted.guarantee_, "categories")


# Additive models.


@pytest.mark.parametrize("model", ADDITIVE)
def test_additive_models_find_the_values_of_text_beside_numbers(model):
    age = np.random.default_rng(1).normal(40, 10, N)
    rare = ROWS.assign(age=age, owns=ROWS["owns"].astype(float))
    rare.loc[0, "job"] = "pilot"
    fitted = ADDITIVE[model](epsilon=8.0, random_state=0).fit(rare, ROWS["job"].isin(["nurse"]) * 1)
    assert find(fitted) == ("clerk", "nurse", None, OTHER)
    assert fitted.domain_["floor"].has_bins  # numbers
    clerk, nurse, missing, _ = fitted.shape_("job").values
    assert nurse > max(clerk, missing)
    assert (fitted.guarantee_.epsilon, fitted.guarantee_.delta) == (8.0, 1e-6)
    unseen = rare[:2].assign(job=["pilot", "unseen"])
    assert len(set(fitted.predict(unseen.assign(age=40.0, floor=1, owns=0.0)))) == 1


def test_additive_model_reads_objects_without_bounds_as_text():
    codes = make_column([1, 2, "x"] * 400)
    y = np.tile([0.0, 1.0, 0.0], 400)
    model = ADDITIVE["regressor"](epsilon=8.0, random_state=0)
    assert find(model.fit(codes, y)) == ("1", "2", "x", OTHER)
    with pytest.warns(UserWarning, match="dtype object"):
        assert model.set_params(bounds={"job": (0, 3)}).fit(codes, y).domain_["job"].edges[-1] == 3
    with pytest.raises(ValueError, match=r"must declare the values of columns \['job'\]"):
        ADDITIVE["regressor"](epsilon=Rho(0.1, 1e-6)).fit(codes, y)


@pytest.mark.parametrize("k", often([1, 2], [2]))
def test_replayed_additive_models_are_within_epsilon(k):
    table = ROWS[:300].assign(ill=ILL[:300])[["job", "ill"]]

    def release(given):
        model = ADDITIVE["classifier"](epsilon=4.0, max_rows_per_person=k, random_state=0)
        return model.fit(given[["job"]], given["ill"])

    replay = replay_release(release, pd.concat([table, table[5:6], table[5:6]][: k + 1], ignore_index=True), table)
    assert replay.findings == ()
    assert 0.5 < replay.epsilon / replay.guarantee.epsilon <= 1 + 1e-9


# Histograms.


def make_histogram(**given):
    return DPHistogram(**{"epsilon": 4.0, "delta": 1e-6, "random_state": 0} | given)


def test_intervals_are_of_the_noise_of_counts_beside_gaussian_noise_of_a_search():
    rows = pd.DataFrame(dict.fromkeys(map(str, range(12)), ["yes"] * 2000))
    release = DPHistogram(1.0, delta=1e-6, confidence_level=0.99, random_state=0).fit(rows)
    assert "Gaussian on counts of values" in release.guarantee_.mechanism
    counts = release.to_frame()
    margins = counts["upper"] - counts["count"]
    # The quantile of Laplace noise, rounded up.
    assert (margins >= -np.log(0.01) / np.sqrt(2) * counts["std_error"]).all()


def test_histogram_counts_found_values_and_all_others():
    rare = ROWS.copy()
    rare.loc[:9, "job"] = [f"pilot {i}" for i in range(10)]
    counted = make_histogram(epsilon=1.0).fit(rare[["job"]])
    truth = rare["job"].value_counts(dropna=False)
    expected = [truth["clerk"], truth["nurse"], rare["job"].isna().sum(), 10]
    assert find(counted) == ("clerk", "nurse", None, OTHER)
    assert counted.counts_ == pytest.approx(expected, abs=15)
    assert counted.std_error_[0] == pytest.approx(np.sqrt(2) / 0.8, rel=0.05)  # four fifths of epsilon
    table = counted.fit(pl.from_pandas(rare[["job", "floor"]])).to_frame()
    assert table["floor"].to_list() == ["0", "1", "2", OTHER] * 4


def test_histogram_finds_limits_and_values_in_one_release():
    ages = ROWS[["job"]].assign(age=np.random.default_rng(1).integers(20, 60, N))
    ledger = PrivacyLedger(4.0, delta=1e-6)
    counted = make_histogram(domain={"age": Interval(0, None)}, ledger=ledger).fit(ages)
    assert counted.domain_.columns == ("job", "age")
    assert 50 < counted.bounds_[0, 1] < 300
    assert counted.counts_.sum() == pytest.approx(N, abs=60)
    assert ledger.spent.epsilon == 4.0
    assert counted.guarantee_.delta == 1e-6


@pytest.mark.parametrize("library", ["pandas", "array"])
def test_text_that_is_not_unicode_is_another_value(library):
    """It was found, and an error after the charge named the dtype."""
    table = make_column(["\ud800", "clerk"] * 200)
    counted = make_histogram().fit(table if library == "pandas" else table.to_numpy())
    assert counted.domain_[counted.domain_.columns[0]].values == ("clerk", OTHER)
    assert counted.counts_ == pytest.approx([200, 200], abs=20)


def test_number_of_found_values_is_limited_by_the_number_of_cells(monkeypatch):
    monkeypatch.setattr("skdp.central._counts_and_means.MAX_CELLS", 12)
    values = np.repeat([f"v{i}" for i in range(6)], [100, 200, 300, 400, 500, 600]).astype(object)
    table = pd.DataFrame({"v": values, "owns": np.arange(2100) % 2 == 0})
    counted = make_histogram(domain={"owns": [False, True]}).fit(table)
    assert find(counted, "v") == ("v1", "v2", "v3", "v4", "v5", OTHER)
    counted = make_histogram().fit(table)
    assert [len(values) for values in counted.domain_.values()] == [3, 3]


@pytest.mark.parametrize(("k", "max_weight"), [(1, None), (3, None), (2, 5.0)])
def test_replayed_histograms_are_within_epsilon(k, max_weight):
    table = ROWS[["job", "floor"]].assign(w=np.tile([0.5, 9.0, np.nan], N // 3))
    person = table.iloc[[4] * k]

    def release(given):
        model = make_histogram(max_rows_per_person=k, max_weight=max_weight)
        return model.fit(given[["job", "floor"]], **({"sample_weight": given["w"]} if max_weight else {}))

    replay = replay_release(release, pd.concat([table, person], ignore_index=True), table)
    assert replay.findings == ()
    assert 0.5 < replay.epsilon / replay.guarantee.epsilon <= 1 + 1e-9


@pytest.mark.parametrize("given", [{"method": "hierarchical"}, {"levels": {"kind": {OTHER: "x"}}}], ids=str)
def test_found_values_have_no_order(given):
    with refusal(ValueError, "`domain` must declare all values with `levels` or method='hierarchical'") as ledger:
        make_histogram(ledger=ledger, **given).fit(ROWS[["job"]])


# Types of values.


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([11, 9, 10, 8], (8, 9, 10, 11, OTHER)),
        ([11.0, 9.0, math.nan, 8.5], (9, 11, None, OTHER)),
        ([True, False], (False, True, OTHER)),
        (["10", "9"], ("10", "9", OTHER)),
        ([10, "9"], ("10", "9", OTHER)),
        ([1, True], ("1", "True", OTHER)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [None, object])
def test_found_values_keep_their_type_and_order(values, found, dtype):
    """The type is the one of the values, not of the column, which one missing value changes."""
    table = pd.DataFrame({"job": pd.Series(values * 300, dtype=dtype)})
    fitted = make("indicators").fit(table)
    assert find(fitted) == found
    assert list(map(type, find(fitted))) == list(map(type, found))
    rare = pd.concat([table, pd.DataFrame({"job": ["Smith"]}, dtype=object)], ignore_index=True)
    assert find(make("indicators").fit(rare)) == found
    assert Domain.from_toml(fitted.domain_.to_toml()) == fitted.domain_


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("column", ["floor", "owns"])
def test_found_numbers_and_booleans_are_used_by_other_estimators(library, column):
    """Polars has no column of numbers and text, so its rows and reports are texts, which count as the numbers."""
    table = ROWS[[column]]
    found = make("indicators").fit(table).domain_
    given = table if library == "pandas" else pl.from_pandas(table)
    own = table[column] if library == "pandas" else table[column].astype(str)
    counts = DPHistogram(4.0, delta=1e-6, random_state=0).fit(given).to_frame()
    keys = counts.index.tolist() if library == "pandas" else counts[column].to_list()
    assert keys == [*sorted(set(own)), OTHER]
    rows = DPMarginalSynthesizer(4.0, domain=found, random_state=0).fit(given).sample(90)
    assert set(rows[column]) <= {*own, OTHER}
    encoder = RandomizedResponseEncoder(4.0, categories=found, random_state=0).fit(given)
    reports = encoder.transform(given)
    assert set(reports[column]) <= {*own, OTHER}
    tally = ReportTally.from_json(encoder.tally(reports).to_json())
    copied = type(encoder).from_json(encoder.to_json())
    assert copied.estimate_counts(tally).equals(encoder.estimate_counts(reports))


@pytest.mark.parametrize("strategy", ["split", "sample", "joint"])
def test_reports_of_found_numbers_have_each_strategy(strategy):
    found = make("indicators").fit(ROWS[["floor", "owns"]]).domain_
    encoder = RandomizedResponseEncoder(8.0, categories=found, strategy=strategy, random_state=0)
    reports = encoder.fit_transform(ROWS[["floor", "owns"]])
    counts = encoder.estimate_counts(reports, columns=["floor"])["count"]
    expected = ROWS["floor"].value_counts().sort_index()
    assert counts[[0, 1, 2]].tolist() == pytest.approx(expected.tolist(), abs=150)


def test_reports_of_found_numbers_of_dask_are_text():
    found = make("indicators").fit(ROWS[["floor"]]).domain_
    encoder = RandomizedResponseEncoder(8.0, categories=found, random_state=0).fit(ROWS[["floor"]])
    reports = privatize(dask.from_pandas(ROWS[["floor"]], npartitions=2), encoder).compute()
    assert set(reports["floor"]) <= {"0", "1", "2", OTHER}
    assert encoder.estimate_counts(reports)["count"].sum() == pytest.approx(N)
