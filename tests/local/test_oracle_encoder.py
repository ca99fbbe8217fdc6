"""Encoders of frequency oracles: counts, joint counts and marginals with standard errors; reports and encodings."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp.oracles import ORACLES
from tests.conftest import diagonal, quick_first
from tests.oracles.conftest import all_reports, floats

CATEGORIES = {
    "sex": ["Female", "Male"],
    "job": ["clerk", None, "sales", "other"],
    "age": skdp.Interval(edges=[0, 38, 60, 120]),
}
TRANSFORMERS = {
    "labels": skdp.RandomizedResponseEncoder,
    "bits": skdp.UnaryEncodingTransformer,
    "symmetric bits": lambda epsilon, **rest: skdp.UnaryEncodingTransformer(epsilon, variant="symmetric", **rest),
    "sets": skdp.SubsetSelectionEncoder,
    "buckets": skdp.LocalHashingEncoder,
    "best": skdp.FrequencyOracleEncoder,
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


@pytest.mark.parametrize(("name", "strategy"), diagonal(TRANSFORMERS, STRATEGIES))
def test_estimated_counts_are_within_their_errors(name, strategy):
    table = pd.DataFrame(data(10_000))
    encoder = make(name, strategy=strategy).fit(table)
    estimate = encoder.estimate_counts(encoder.transform(table))
    z = (estimate["count"] - truth(table, encoder)) / estimate["std_error"]
    # 9 to 24 values: an error above 5.5 has probability below 1e-6, and their spread equals standard normals.
    assert z.abs().max() < 5.5
    assert 0.2 < np.sqrt((z**2).mean()) < 1.8


def test_sample_strategy_reports_one_column_of_each_record():
    table = pd.DataFrame(data(3_000))
    labels = make("labels", strategy="sample").fit_transform(table)
    assert labels["sampled"].value_counts().sort_index().index.tolist() == [0, 1, 2]
    assert labels["sampled"].value_counts().between(850, 1150).all()
    for index, column in enumerate(["sex", "job", "age"]):
        assert labels.loc[labels["sampled"] != index, column].isna().all()
    bits = make("sets", strategy="sample", epsilon=1.0).fit_transform(table)
    assert (bits[["sex_Female", "sex_Male"]].sum(axis=1) == (bits["sampled"] == 0)).all()


@pytest.mark.parametrize("name", quick_first(2, ["labels", "buckets", "bits", "sets"]))
def test_joint_counts_of_separately_reported_columns_are_estimated(name):
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
    with pytest.raises(ValueError, match="requires `strategy='split'`, got 'joint'"):
        (joint := make(name, strategy="joint")).estimate_joint_counts(joint.fit_transform(table))
    with pytest.raises(TypeError, match="a ReportTally, which has no joint counts of separate reports"):
        encoder.estimate_joint_counts(encoder.tally(reports))
    for columns in (["size"], [], ["sex", "sex"]):
        with pytest.raises(ValueError, match="`columns` must be distinct columns of"):
            encoder.estimate_joint_counts(reports, columns=columns)


def test_values_with_equal_output_names_raise_an_error():
    twins = {"a": ["b_c", "d"], "a_b": ["c", "d"]}
    with pytest.raises(ValueError, match="must have different names"):
        skdp.UnaryEncodingTransformer(categories=twins).fit(pd.DataFrame({"a": ["d"], "a_b": ["d"]}))


@pytest.mark.parametrize(("k", "epsilon"), list(product([2, 3, 5, 14, 40, 300, 1000], [0.25, 1.0, 4.0])))
def test_best_oracle_has_the_smallest_variance(k, epsilon):
    encoder = skdp.FrequencyOracleEncoder(epsilon, categories=[range(k)]).fit([[0]])
    oracles = {name: make_oracle(k, epsilon) for name, make_oracle in ORACLES.items()}
    errors = {name: one.mean_squared_error for name, one in oracles.items() if one.report_bytes <= 1024}
    assert encoder.expected_error_[0] <= min(errors.values()) * (1 + 1e-12)
    assert errors[encoder.oracle_[0]] == encoder.expected_error_[0]


VALUES = {"sex": ["f", "m"], "age": ["young", "middle", "old"]}
PEOPLE = pd.DataFrame({"sex": list("fmffmf") * 50, "age": ["old", "young", "middle", "middle", "old", "old"] * 50})
KINDS = {
    "response": skdp.RandomizedResponseEncoder(1.0, strategy="joint", categories=VALUES),
    "unary": skdp.UnaryEncodingTransformer(1.0, strategy="joint", categories=VALUES),
    "symmetric": skdp.UnaryEncodingTransformer(1.0, variant="symmetric", strategy="joint", categories=VALUES),
    "subset": skdp.SubsetSelectionEncoder(0.5, strategy="joint", categories=VALUES),
    "hashing": skdp.LocalHashingEncoder(1.0, strategy="joint", categories=VALUES),
}
FROM_TALLIES = ["response", "unary", "symmetric", "subset"]


def exact_variance(encoder, column, label):
    """Return the variance of a marginal for the true counts, by enumeration of all reports of each true cell."""
    (oracle,), domain = encoder.protocol_.oracles, encoder.protocol_.domain
    inside = np.array([cell[domain.columns.index(column)] == label for cell in domain.cells()])
    added = oracle.unbiased(all_reports(oracle)) @ inside
    channel = floats(oracle.channel())
    true = PEOPLE.value_counts(list(VALUES)).reindex(domain.cells()).fillna(0).to_numpy()
    return float(true @ (channel @ added**2 - (channel @ added) ** 2))


@pytest.mark.parametrize(("name", "column"), diagonal(FROM_TALLIES, VALUES))
def test_closed_form_of_the_variance_equals_enumeration(name, column, monkeypatch):
    encoder = KINDS[name].fit(PEOPLE)
    true = PEOPLE.value_counts(list(VALUES)).reindex(encoder.protocol_.domain.cells()).fillna(0).to_numpy()
    tally = encoder.tally(encoder.transform(PEOPLE))
    (oracle,) = encoder.protocol_.oracles
    monkeypatch.setattr(type(oracle), "estimate", lambda self, support, n: true)  # plug in the true counts
    found = encoder.estimate_counts(tally, columns=[column])
    for label in VALUES[column]:
        assert found.loc[label, "std_error"] ** 2 == pytest.approx(exact_variance(encoder, column, label))


def test_intervals_of_large_counts_have_the_width_of_their_errors():
    """The square of a count has more digits than a float, so a difference of such squares is inexact."""
    encoder = skdp.RandomizedResponseEncoder(20.0, categories={"x": ["a", "b"]}).fit(pd.DataFrame({"x": ["a"]}))
    support, n = np.array([3_000_000_000, 1_000_000_000]), np.array([4_000_000_000])
    found = encoder.estimate_counts(encoder.protocol_.empty_tally().with_sums([support, n, n]))
    assert ((found["upper"] - found["lower"]) / 2).tolist() == pytest.approx((1.959964 * found["std_error"]).tolist())


@pytest.mark.parametrize(
    "values", [([0, 1, 2], [True, False]), ([True, False, None], [1, 2]), ([0.5, 1.0], [False, True])]
)
def test_estimates_distinguish_booleans_from_numbers(values):
    first, second = values
    table = pd.DataFrame({"a": first[:2] * 50, "b": second[:2] * 50}, dtype=object)
    encoder = skdp.RandomizedResponseEncoder(50.0, categories={"a": first, "b": second}, random_state=0)
    counts = encoder.estimate_counts(encoder.fit_transform(table))["count"]
    labels = [None if pd.isna(label) else label for label in counts.index.get_level_values(1)]
    assert list(map(repr, labels)) == list(map(repr, [*first, *second]))
    for name in ["a", "b"]:
        assert counts.loc[name].tolist() == counts[counts.index.get_level_values(0) == name].tolist()
        assert counts.loc[name].round().tolist()[:2] == [50, 50]
