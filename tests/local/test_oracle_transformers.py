"""The transformers whose reports are columns of their own, and what all local transformers share."""

from __future__ import annotations

import json
import math
import pickle
from datetime import date, datetime
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdp import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    Interval,
    LocalHashingEncoder,
    PrivacyLedger,
    RandomizedResponseEncoder,
    ReportTally,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.exact import exp_bounds
from skdp.oracles import ORACLES, names_with, two_rounds
from skdp.oracles._choice import make_first_round
from skdp.randomness import SeededSource
from tests.conftest import FRAME_KINDS, each, often

CATEGORIES = {
    "sex": ["Female", "Male"],
    "job": ["clerk", None, "sales", "other"],
    "age": Interval(edges=[0, 38, 60, 120]),
}
TRANSFORMERS = {
    "labels": RandomizedResponseEncoder,
    "bits": UnaryEncodingTransformer,
    "symmetric bits": lambda epsilon, **rest: UnaryEncodingTransformer(epsilon, variant="symmetric", **rest),
    "thresholded bits": lambda epsilon, **rest: UnaryEncodingTransformer(epsilon, variant="threshold", **rest),
    "unbiased bits": lambda epsilon, **rest: UnaryEncodingTransformer(epsilon, output="unbiased", **rest),
    "sets": SubsetSelectionEncoder,
    "unbiased sets": lambda epsilon, **rest: SubsetSelectionEncoder(epsilon, output="unbiased", **rest),
    "buckets": LocalHashingEncoder,
    "binary buckets": lambda epsilon, **rest: LocalHashingEncoder(epsilon, n_buckets=2, **rest),
    "indices": HadamardResponseEncoder,
    "best": FrequencyOracleEncoder,
    "best unbiased bits": lambda epsilon, **rest: FrequencyOracleEncoder(epsilon, output="unbiased", **rest),
    "sketch": lambda epsilon, **rest: FrequencyOracleEncoder(epsilon, oracle="count_mean_sketch", **rest),
}
STRATEGIES = ["split", "joint", "sample"]


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["Female", "Male"], n, p=[0.3, 0.7])
    job = np.where(
        sex == "Male", rng.choice(["clerk", "sales"], n), rng.choice(["other", "sales", "missing"], n)
    ).astype(object)
    job[job == "missing"] = None
    return {"sex": sex.tolist(), "job": job.tolist(), "age": rng.integers(18, 90, n).tolist()}


def truth(table, encoder):
    codes = encoder.domain_.encode([table[name] for name in encoder.domain_.columns])
    if encoder.estimate_counts(encoder.transform(table)).index.names[0] == "column":
        parts = [np.bincount(code, minlength=size) for code, size in zip(codes, encoder.domain_.sizes, strict=True)]
        return np.concatenate(parts)
    return np.bincount(encoder.domain_.join(codes), minlength=encoder.domain_.size)


def make(name, epsilon=2.0, **parameters):
    return TRANSFORMERS[name](epsilon, **{"categories": CATEGORIES, "random_state": 0} | parameters)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_counts_come_back_within_their_errors(name, strategy):
    table = pd.DataFrame(data(10_000))
    encoder = make(name, strategy=strategy).fit(table)
    estimate = encoder.estimate_counts(encoder.transform(table))
    z = (estimate["count"] - truth(table, encoder)) / estimate["std_error"]
    # 9 to 24 values: beyond 5.5 at most once in 10**6; and their spread is that of standard normals.
    assert z.abs().max() < 5.5
    assert 0.2 < np.sqrt((z**2).mean()) < 1.8


@pytest.mark.parametrize(
    ("name", "strategy", "frame_kind"),
    [
        *((name, STRATEGIES[place % 3], "polars") for place, name in enumerate(TRANSFORMERS)),
        *(
            pytest.param(name, strategy, "polars", marks=pytest.mark.long)
            for place, name in enumerate(TRANSFORMERS)
            for strategy in STRATEGIES
            if strategy != STRATEGIES[place % 3]
        ),
        *((name, "split", kind) for name in ("labels", "bits") for kind in FRAME_KINDS if kind != "polars"),
    ],
)
def test_reports_of_every_kind_of_frame_are_read_back(make_frame, name, strategy):
    raw = data(40)
    values = {"sex": CATEGORIES["sex"], "job": CATEGORIES["job"], "age": sorted(set(raw["age"]))}
    table = make_frame(raw, values)
    encoder = make(name, strategy=strategy).fit(table)
    reports = encoder.transform(table)
    assert type(reports) is type(table)
    names = encoder.get_feature_names_out().tolist()
    columns = reports.column_names if hasattr(reports, "column_names") else list(reports.columns)
    assert columns == names
    tally = encoder.tally(reports)
    assert tally.n_reports == 40
    assert sum(tally.sizes) == (40 if strategy != "split" else 120)
    array = make(name, strategy=strategy, categories=list(CATEGORIES.values())).fit(
        np.array([raw["sex"], raw["job"], raw["age"]], object).T
    )
    assert array.tally(array.transform(np.array([raw["sex"], raw["job"], raw["age"]], object).T)).n_reports == 40


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_guarantee_bounds_the_whole_record(name, strategy):
    table = pd.DataFrame(data(5))
    encoder = make(name, 0.9, strategy=strategy).fit(table)
    ratios = [oracle.worst_ratio for oracle in encoder.oracles_]
    whole = max(ratios) if strategy == "sample" else math.prod(ratios, start=Fraction(1))
    assert whole <= exp_bounds(0.9)[0]
    assert whole <= exp_bounds(encoder.guarantee_.epsilon)[0]
    assert 0.5 < encoder.guarantee_.epsilon <= 0.9
    if strategy != "joint":
        for table_, oracle in zip(encoder.channel(), encoder.oracles_, strict=True):
            assert all(sum(row) == 1 for row in table_)
            assert max(max(c) / min(c) for c in zip(*table_, strict=True)) <= oracle.worst_ratio


def test_sampling_reports_one_column_of_each_record():
    table = pd.DataFrame(data(3_000))
    labels = make("labels", strategy="sample").fit_transform(table)
    counts = labels["sampled"].value_counts()
    assert counts.index.sort_values().tolist() == [0, 1, 2]
    assert counts.between(850, 1150).all()
    for index, column in enumerate(["sex", "job", "age"]):
        assert labels.loc[labels["sampled"] != index, column].isna().all()
    bits = make("sets", strategy="sample", epsilon=1.0).fit_transform(table)
    assert (bits.loc[bits["sampled"] != 0, ["sex_Female", "sex_Male"]] == 0).all(axis=None)
    assert (bits.loc[bits["sampled"] == 0, ["sex_Female", "sex_Male"]].sum(axis=1) == 1).all()
    # Which column is reported has nothing to do with what it holds.
    assert labels.groupby("sampled").size().sub(1000).abs().max() < 150


@pytest.mark.long
def test_sampled_counts_have_the_error_that_is_stated():
    table = pd.DataFrame(data(2_000))
    encoder = make("labels", strategy="sample").fit(table)
    true = truth(table, encoder)
    runs = np.array([encoder.estimate_counts(encoder.transform(table))["count"] for _ in range(300)])
    expected = encoder.count_variances(true)
    assert ((runs - true) ** 2).mean(axis=0) == pytest.approx(expected, rel=0.5)
    assert ((runs - true) ** 2).mean() == pytest.approx(expected.mean(), rel=0.12)
    assert np.abs((runs.mean(axis=0) - true) / np.sqrt(expected / 300)).max() < 5.5


@pytest.mark.long
@pytest.mark.parametrize("epsilon", often([0.6, 2.0, 6.0], [0.6]))
@pytest.mark.parametrize("name", ["labels", "unbiased bits"])
def test_joint_counts_have_the_error_that_is_stated(name, epsilon):
    """Where noise prevails, too: estimates that are not negative then add up to many times the records."""
    table = pd.DataFrame(data(200))
    encoder = make(name, epsilon).fit(table)
    found = [encoder.estimate_joint_counts(encoder.transform(table), columns=["sex", "job"]) for _ in range(100)]
    stated = np.sqrt(np.mean([one["std_error"] ** 2 for one in found], axis=0))
    assert np.mean(stated / np.std([one["count"] for one in found], axis=0)) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("name", ["labels", "bits", "unbiased bits", "sets", "buckets", "indices"])
def test_joint_counts_of_columns_that_were_reported_apart(name):
    table = pd.DataFrame(data(30_000))
    encoder = make(name, 6.0).fit(table)
    reports = encoder.transform(table)
    for columns in (["sex", "job"], ["age", "sex", "job"], ["job"]):
        estimate = encoder.estimate_joint_counts(reports, columns=columns)
        domain = encoder.domain_.select(columns)
        true = np.bincount(domain.join(domain.encode([table[c] for c in columns])), minlength=domain.size)
        assert estimate.index.equals(domain.cells())
        assert np.abs((estimate["count"] - true) / estimate["std_error"]).max() < 5.5
        assert estimate["count"].sum() == pytest.approx(30_000, rel=0.1)
    alone = encoder.estimate_joint_counts(reports, columns=["job"])
    single = encoder.estimate_counts(reports).loc["job"]
    assert alone["count"].to_numpy() == pytest.approx(single["count"].to_numpy())
    assert alone["std_error"].to_numpy() == pytest.approx(single["std_error"].to_numpy(), rel=0.02)
    with pytest.raises(ValueError, match="joint counts are estimated from strategy='split', not 'joint'"):
        (joint := make(name, strategy="joint")).estimate_joint_counts(joint.fit_transform(table))
    for columns in (["size"], [], ["sex", "sex"]):
        with pytest.raises(ValueError, match="columns must be distinct ones of"):
            encoder.estimate_joint_counts(reports, columns=columns)


@pytest.mark.parametrize("shares", ["uniform", "proportional", {"sex": 1, "job": 2, "age": 5.0}])
def test_shares_divide_epsilon(shares):
    encoder = make("labels", 2.0, shares=shares).fit(pd.DataFrame(data(5)))
    weights = {"uniform": [1, 1, 1], "proportional": [2, 4, 3]}.get(
        shares if isinstance(shares, str) else "", [1, 2, 5]
    )
    expected = [2.0 * weight / sum(weights) for weight in weights]
    assert [oracle.epsilon for oracle in encoder.oracles_] == pytest.approx(expected)
    assert encoder.guarantee_.epsilon <= 2.0


@each(
    "parameters, error, match",
    [
        ({"shares": "equal"}, ValueError, "shares must be 'uniform', 'proportional' or a mapping"),
        ({"shares": {"sex": 1}}, ValueError, "shares must name the columns"),
        (
            {"shares": {"sex": 1, "job": 0, "age": 1}},
            ValueError,
            "the share of column 'job' must be a finite number > 0",
        ),
        ({"shares": "proportional", "strategy": "joint"}, ValueError, "shares divide epsilon under strategy='split'"),
        ({"strategy": "both"}, ValueError, "strategy must be one of"),
    ],
)
def test_odd_budgets(parameters, error, match):
    with pytest.raises(error, match=match):
        make("bits", **parameters).fit(pd.DataFrame(data(5)))


def test_p_and_q_decide_epsilon():
    people = pd.DataFrame({"x": ["a", "b", "c"]})
    encoder = UnaryEncodingTransformer(epsilon=None, p=0.75, q=0.25, categories=[["a", "b", "c"]]).fit(people)
    assert encoder.guarantee_.epsilon == pytest.approx(math.log(9))
    assert encoder.oracles_[0].p == Fraction(3, 4)
    two = UnaryEncodingTransformer(epsilon=None, p=0.75, q=0.25, categories=[["a", "b"], ["a", "b"]])
    assert two.fit(np.array([["a", "b"]])).guarantee_.epsilon == pytest.approx(2 * math.log(9))
    for odd in ({"p": 0.75}, {"p": 0.25, "q": 0.75}, {"p": 1.5, "q": 0.5}, {"p": 0.75, "q": 0.25, "epsilon": 1.0}, {}):
        with pytest.raises(ValueError, match=r"p and q|p must be"):
            UnaryEncodingTransformer(**{"epsilon": None} | odd, categories=[["a", "b", "c"]]).fit(people)


def test_unbiased_columns_have_the_frequencies_as_means():
    table = pd.DataFrame(data(20_000))
    encoder = make("unbiased bits", 4.0).fit(table)
    features = encoder.transform(table)
    frequencies = encoder.estimate_frequencies(features)["frequency"]
    assert features.mean().to_numpy() == pytest.approx(frequencies.to_numpy())
    broken = features.copy()
    broken.iloc[0, 0] = 0.123
    with pytest.raises(ValueError, match="numbers that are not ones of this encoder"):
        encoder.estimate_counts(broken)


def test_names_of_the_output():
    encoder = make("bits").fit(pd.DataFrame(data(5)))
    assert encoder.get_feature_names_out().tolist() == [
        "sex_Female", "sex_Male", "job_clerk", "job_missing", "job_sales", "job_other",
        "age_[0, 38)", "age_[38, 60)", "age_[60, 120]",
    ]  # fmt: skip
    assert make("buckets", strategy="joint").fit(pd.DataFrame(data(5))).get_feature_names_out().tolist() == [
        "sex_job_age_seed",
        "sex_job_age_bucket",
    ]
    with pytest.raises(ValueError, match="input_features is not equal"):
        encoder.get_feature_names_out(["a", "b", "c"])
    twins = {"a": ["b_c", "d"], "a_b": ["c", "d"]}
    with pytest.raises(ValueError, match="would have the same name"):
        UnaryEncodingTransformer(categories=twins).fit(pd.DataFrame({"a": ["d"], "a_b": ["d"]}))


@each("name", TRANSFORMERS)
def test_reports_of_others_are_refused(name):
    table = pd.DataFrame(data(10))
    encoder = make(name).fit(table)
    reports = encoder.transform(table)
    with pytest.raises(ValueError, match="the reports of this encoder have the columns"):
        encoder.tally(reports.rename(columns={reports.columns[0]: "other"}))
    with pytest.raises(ValueError, match="the reports of this encoder have the columns"):
        encoder.tally(reports.iloc[:, :-1].to_numpy())
    if name != "labels":
        spoiled = reports.astype(float)
        spoiled.iloc[0, -1] = 10**6 + 0.5
        with pytest.raises(ValueError, match=r"report|number"):
            encoder.tally(spoiled)


@pytest.mark.parametrize("name", ["bits", "sets", "best"])
def test_reports_survive_other_dtypes(name):
    table = pd.DataFrame(data(50))
    encoder = make(name).fit(table)
    reports = encoder.transform(table)
    for dtype in (float, np.int64, bool):
        if dtype is bool and name == "best":
            continue
        assert encoder.tally(reports.astype(dtype)) == encoder.tally(reports)


class TestEncode:
    @pytest.mark.parametrize("strategy", ["split", "joint"])
    def test_labels_are_the_truth(self, strategy):
        table = pd.DataFrame(data(50))
        encoded = make("labels", strategy=strategy).fit(table).encode(table)
        assert encoded["sex"].equals(table["sex"])
        assert set(encoded["age"]) <= {19, 49, 90}

    def test_bits_are_one_hot(self):
        table = pd.DataFrame(data(50))
        for name in ("bits", "sets"):
            encoder = make(name).fit(table)
            bits = encoder.encode(table)
            assert (bits["sex_Male"] == (table["sex"] == "Male")).all()
            assert (bits.sum(axis=1) == 3).all()
            assert bits.columns.tolist() == encoder.get_feature_names_out().tolist()

    def test_what_draws_coins_by_nature_has_none(self):
        table = pd.DataFrame(data(5))
        for name in ("buckets", "indices", "sketch"):
            with pytest.raises(ValueError, match="draws random bits by nature"):
                make(name).fit(table).encode(table)
        with pytest.raises(ValueError, match="strategy='sample'"):
            make("labels", strategy="sample").fit(table).encode(table)

    def test_undeclared_values_are_refused_and_nothing_is_charged(self):
        ledger = PrivacyLedger(epsilon=1)
        encoder = RandomizedResponseEncoder(categories=[["a", "b"]], ledger=ledger).fit(pd.DataFrame({"x": ["a"]}))
        encoder.encode(pd.DataFrame({"x": ["a"]}))
        with pytest.raises(ValueError, match="column 'x' holds"):
            encoder.encode(pd.DataFrame({"x": ["secret"]}))
        assert ledger.spent == (0, 0)

    def test_unbiased_bits_are_one_hot_numbers(self):
        table = pd.DataFrame(data(50))
        for name in ("unbiased bits", "unbiased sets"):
            encoded = make(name).fit(table).encode(table)
            assert encoded["sex_Male"].tolist() == (table["sex"] == "Male").astype(float).tolist()
            assert set(encoded.to_numpy().ravel()) == {0.0, 1.0}


def test_shares_and_given_probabilities_do_not_mix():
    encoder = UnaryEncodingTransformer(None, p=0.75, q=0.25, shares="proportional", categories=[["a", "b"], [1, 2]])
    with pytest.raises(ValueError, match="p and q decide epsilon for each column: leave the shares 'uniform'"):
        encoder.fit([["a", 1]])


class TestFrequencyOracle:
    @each("k, epsilon", list(product([2, 3, 5, 14, 40, 100, 300, 1000], [0.25, 0.5, 1.0, 2.0, 4.0])))
    def test_auto_is_never_beaten(self, k, epsilon):
        encoder = FrequencyOracleEncoder(epsilon, categories=[range(k)], max_report_bytes=None).fit([[0]])
        errors = {name: make_oracle(k, epsilon).mean_squared_error for name, make_oracle in ORACLES.items()}
        assert encoder.expected_error_[0] <= min(errors.values()) * (1 + 1e-12)
        assert errors[encoder.oracle_[0]] == encoder.expected_error_[0]

    def test_only_reports_that_fit(self):
        wide = FrequencyOracleEncoder(1.0, categories=[range(5_000)], max_report_bytes=1024).fit([[0]])
        narrow = FrequencyOracleEncoder(1.0, categories=[range(5_000)], max_report_bytes=8).fit([[0]])
        assert wide.oracle_ == ["subset_selection"]
        assert narrow.oracle_ == ["local_hashing"]
        assert narrow.oracles_[0].report_bytes <= 8

    @pytest.mark.parametrize(
        ("parameters", "error", "match"),
        [
            ({"oracle": "best"}, ValueError, "oracle must be one of"),
            ({"max_report_bytes": 0}, ValueError, "max_report_bytes"),
            ({"max_report_bytes": 1.5}, TypeError, "max_report_bytes"),
        ],
    )
    def test_odd_parameters(self, parameters, error, match):
        with pytest.raises(error, match=match):
            FrequencyOracleEncoder(categories=[[1, 2]], **parameters).fit([[1]])

    @pytest.mark.parametrize("k", [2, 3, 14, 300])
    @pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
    def test_bits_cost_nothing_but_size(self, k, epsilon):
        """A set of one value is a report of randomised response."""
        best, bits = (
            FrequencyOracleEncoder(epsilon, categories=[range(k)], max_report_bytes=None, output=output).fit([[0]])
            for output in ("bits", "unbiased")
        )
        assert bits.oracle_[0] in names_with("has_bits")
        assert bits.expected_error_[0] == pytest.approx(best.expected_error_[0], rel=1e-9)
        features = bits.transform(np.zeros((9, 1), int))
        assert features.shape == (9, k)
        assert features.mean(axis=0) == pytest.approx(bits.estimate_frequencies(features)["frequency"].to_numpy())

    @each(
        "parameters, match",
        [
            (
                {"oracle": "local_hashing", "output": "unbiased"},
                "output='unbiased' needs an oracle with a bit for",
            ),
            ({"oracle": "randomized_response", "output": "unbiased"}, r"one of .*, got 'randomized_response'"),
            ({"output": "both"}, "output must be one of"),
            (
                {"output": "unbiased", "max_report_bytes": 1},
                "none of subset_selection, .* reports of 1 bytes; the s",
            ),
            (
                {"oracle": "subset_selection", "instantaneous_epsilon": 0.5},
                "needs an oracle with a second round, one",
            ),
            (
                {"oracle": "hadamard_response", "instantaneous_epsilon": 0.5},
                "round, .* got 'hadamard_response'",
            ),
            ({"oracle": "randomized_response", "instantaneous_epsilon": 1.0}, "must be smaller than epsilon"),
        ],
    )
    def test_what_no_oracle_or_not_the_named_one_can_do(self, parameters, match):
        if "instantaneous_epsilon" in parameters:
            parameters = {"memoize": True, "secret_key": bytes(32)} | parameters
        with pytest.raises(ValueError, match=match):
            FrequencyOracleEncoder(categories=[range(20)], **parameters).fit([[1]])

    @pytest.mark.parametrize("output", ["bits", "unbiased"])
    @pytest.mark.parametrize(
        ("k", "epsilon", "again"), [*product([2, 5, 14, 300], [2.0, 5.0], [0.5, 1.0]), (14, 4.0, 3.9)]
    )
    def test_auto_has_the_least_error_of_both_rounds(self, k, epsilon, again, output):
        encoder = FrequencyOracleEncoder(
            epsilon,
            categories=[range(k)],
            max_report_bytes=None,
            output=output,
            memoize=True,
            secret_key=bytes(32),
            instantaneous_epsilon=again,
        ).fit([[0]])
        able = [name for name in names_with("has_second_round") if output == "bits" or name in names_with("has_bits")]
        errors = {
            name: two_rounds(make_first_round(name, k, epsilon, again), again).mean_squared_error for name in able
        }
        assert encoder.expected_error_ == [min(errors.values())]
        assert errors[encoder.oracle_[0]] == min(errors.values())
        assert encoder.oracles_[0].permanent.parameters() == encoder.permanent_oracles_[0].parameters()
        assert encoder.instantaneous_guarantee_.epsilon == pytest.approx(again)

    def test_the_lists_of_what_oracles_can_do_are_complete(self):
        for name, make_one in ORACLES.items():
            oracle = make_one(5, 2.0)
            bits = oracle.report(np.array([1], np.uint8), SeededSource(0)).shape == (1, 5)
            assert (name in names_with("has_bits")) == bits
            if name in names_with("has_second_round"):
                two_rounds(oracle, 1.0)
            else:
                with pytest.raises(TypeError, match="no second round"):
                    two_rounds(oracle, 1.0)


class TestTally:
    @pytest.mark.parametrize("name", TRANSFORMERS)
    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_a_tally_goes_to_text_and_file_and_back(self, name, strategy, tmp_path):
        table = pd.DataFrame(data(30))
        encoder = make(name, strategy=strategy).fit(table)
        tally = encoder.tally(encoder.transform(table))
        again = ReportTally.from_json(tally.to_json())
        tally.to_parquet(tmp_path / "tally.parquet")
        assert again == tally == ReportTally.from_parquet(tmp_path / "tally.parquet")
        pd.testing.assert_frame_equal(encoder.estimate_counts(again), encoder.estimate_counts(tally))
        assert (again + tally).n_reports == 60

    @each(
        "values",
        [
            [date(2020, 1, 1), date(2020, 1, 2), None],
            [datetime(2020, 1, 1, 8), datetime(2020, 1, 2)],
            Interval(date(2020, 1, 1), date(2021, 1, 1), bins=12, missing=True),
            Interval(datetime(2020, 1, 1), datetime(2021, 1, 1), bins=7),
        ],
    )
    def test_dates_go_to_text_and_back(self, values):
        day = date(2020, 1, 2) if isinstance(values, list) and values[-1] is None else datetime(2020, 1, 2)
        table = pd.DataFrame({"day": [day]})
        encoder = UnaryEncodingTransformer(1.0, categories={"day": values}, handle_unknown="uniform", random_state=0)
        tally = encoder.fit(table).tally(encoder.transform(table))
        assert ReportTally.from_json(tally.to_json()) == tally

    def test_client_and_server_cannot_disagree(self):
        table = pd.DataFrame(data(30))
        names = [name for name in TRANSFORMERS if "unbiased" not in name]
        tallies = [make(name).fit(table) for name in names]
        tallies = [encoder.tally(encoder.transform(table)) for encoder in tallies]
        for one, other in product(range(len(names)), repeat=2):
            if one != other:
                with pytest.raises(ValueError, match="cannot be added"):
                    tallies[one] + ReportTally.from_json(tallies[other].to_json())

    def test_what_is_no_tally(self, tmp_path):
        table = pd.DataFrame(data(5))
        encoder = make("labels").fit(table)
        text = encoder.tally(table.assign(age=19)).to_json()
        with pytest.raises(ValueError, match="no tally"):
            ReportTally.from_json("[]")
        with pytest.raises(ValueError, match="expected the format"):
            ReportTally.from_json(text.replace("version 1", "version 9"))
        with pytest.raises(ValueError, match=r"expected \[2, 4, 3\] sums, got \[1, 2, 4, 3\]"):
            ReportTally.from_json(text.replace('"support": [[', '"support": [[5], ['))
        for old, new, match in (
            ('"n_reports": 5', '"n_reports": -3', "do not fit each other"),
            ('"n_reports": 5', '"n_reports": 5.5', "do not fit each other"),
            ('"sizes": [5, 5, 5]', '"sizes": [5, 5]', "do not fit its domain"),
            ('"sizes": [5, 5, 5]', '"sizes": [5, 5, 6]', "do not fit each other"),
            ('"support": [[', '"support": [[0.5, ', "expected"),
            ('"values": ["Female", "Male"]', '"values": ["Female", "Male", "Other"]', "do not fit its domain"),
            ('"sizes"', '"numbers"', "incomplete"),
        ):
            assert old in text
            with pytest.raises(ValueError, match=match):
                ReportTally.from_json(text.replace(old, new))
        content = json.loads(text)
        for least in (-(2**63), -(2**63) + 1, -6):  # the least int64 is its own absolute value
            content["support"][0][0] = least
            with pytest.raises(ValueError, match="do not fit each other"):
                ReportTally.from_json(json.dumps(content))
        pair = pd.DataFrame({("a", "b"): ["x"]})
        labels = RandomizedResponseEncoder(categories=[["x", "y"]]).fit(pair)
        named_by_tuples = labels.tally(labels.transform(pair))
        with pytest.raises(TypeError, match="columns named by text or numbers, got tuple"):
            named_by_tuples.to_json()
        pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
        with pytest.raises(ValueError, match="no tally"):
            ReportTally.from_parquet(tmp_path / "other.parquet")


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_clone_pickle_and_seeds(name):
    table = pd.DataFrame(data(200))
    encoder = make(name).fit(table)
    first, second = encoder.transform(table), encoder.transform(table)
    assert not first.equals(second)
    assert clone(encoder).fit(table).transform(table).equals(first)
    assert pickle.loads(pickle.dumps(encoder)).transform(table).equals(first)
    secure = make(name, random_state=None).fit(table)
    assert not secure.transform(table).equals(secure.transform(table))
    assert secure.guarantee_.secure
    assert not encoder.guarantee_.secure


@pytest.mark.long
def test_simultaneous_intervals_are_wider_and_cover_all_cells():
    table = pd.DataFrame(data(3_000))
    encoder = make("sets", strategy="joint").fit(table)
    true = truth(table, encoder)
    alone, together = 0, 0
    for _ in range(150):
        tally = encoder.tally(encoder.transform(table))
        plain, wide = (encoder.estimate_counts(tally, simultaneous=flag) for flag in (False, True))
        assert ((wide["upper"] - wide["lower"]) > (plain["upper"] - plain["lower"])).all()
        alone += ((plain["lower"] <= true) & (true <= plain["upper"])).all()
        together += ((wide["lower"] <= true) & (true <= wide["upper"])).all()
    # At least 95 % of 150 in the mean; below 125 with probability below 10**-6.
    assert together >= 125
    assert alone < together


def test_bits_feed_a_classifier():
    table = pd.DataFrame(data(2_000))
    y = (table["sex"] == "Male").to_numpy()
    for name in ("bits", "unbiased bits", "sets"):
        model = make_pipeline(make(name, 30.0), LogisticRegression()).fit(table, y)
        assert model.score(table, y) > 0.85


def test_reports_that_do_not_fit_are_refused_before_a_charge():
    ledger = PrivacyLedger(epsilon=10)
    table = pd.DataFrame({"x": np.zeros(60_000, int)})
    encoder = UnaryEncodingTransformer(categories=[range(50_000)], ledger=ledger).fit(table)
    with pytest.raises(ValueError, match="3,000,000,000 bytes"):
        encoder.transform(table)
    assert ledger.spent == (0, 0)
