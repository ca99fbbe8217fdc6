"""Unbiased values of each record: exact over all reports, with means that are the estimates."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import skdp
from skdp.oracles import LocalHashing
from skdp.tables import wrap_table
from tests.conftest import diagonal
from tests.local.transformers import ENCODERS
from tests.oracles.conftest import all_reports, floats

DOMAIN = {"sex": ["f", "m"], "job": ["clerk", None, "sales"]}
PEOPLE = pd.DataFrame({"sex": ["f", "m", "m"] * 50, "job": ["clerk", "sales", None, "sales", "clerk"] * 30})
STRATEGIES = ["split", "joint", "sample"]


def enumerate_reports(oracle):
    """Yield all reports of an oracle with the probability of each, and of each hash function."""
    if not oracle.shows_hash:
        yield all_reports(oracle), floats(oracle.channel()), 1
        return
    buckets = np.arange(oracle.n_buckets, dtype=np.uint64)
    for a, b in itertools.product(range(11), repeat=2):
        seed = np.uint64(a << 16 | b)
        yield np.column_stack([np.full_like(buckets, seed), buckets]), floats(oracle.channel(int(seed))), 1 / 121


def write_reports(encoder, place, reports):
    """Write reports of one field as a frame; other fields have any report."""
    protocol = encoder.protocol_
    arrays = []
    for field in protocol.fields:
        any_report = next(enumerate_reports(field.oracle))[0][:1]
        arrays.append(np.repeat(any_report, len(reports), axis=0))
    arrays[place] = reports
    if protocol.sampling is not None:
        is_drawn = np.zeros((len(reports), len(protocol.fields)), bool)
        is_drawn[:, place] = True
        arrays.append(is_drawn)
    like = PEOPLE.iloc[np.zeros(len(reports), int)]
    return protocol.write(arrays, wrap_table(like[list(protocol.columns)]))


@pytest.mark.parametrize(("encoder_class", "strategy"), diagonal(ENCODERS, STRATEGIES))
def test_values_are_unbiased_over_all_reports(encoder_class, strategy, monkeypatch):
    """Exact: the sum over all reports of probability times value is the one-hot vector."""
    monkeypatch.setattr(f"{LocalHashing.__module__}._SMALL_PRIME", 11)  # small enough to enumerate the hash functions
    encoder = encoder_class(1.5, categories=DOMAIN, strategy=strategy).fit(PEOPLE)
    for place, field in enumerate(encoder.protocol_.fields):
        means = means_of_sex = 0
        for reports, channel, probability in enumerate_reports(field.oracle):
            frame = write_reports(encoder, place, reports)
            values = encoder.debias(frame, columns=list(field.columns))
            means += probability * channel @ values.to_numpy()
            if strategy == "joint":
                means_of_sex += probability * channel @ encoder.debias(frame, columns=["sex"]).to_numpy()
            elif strategy == "sample":
                (other,) = {*DOMAIN} - {*field.columns}
                assert (encoder.debias(frame, columns=[other]).to_numpy() == 0).all()
        # Half of the records report a column, at twice the value.
        scale = 2 if strategy == "sample" else 1
        np.testing.assert_allclose(means, scale * np.eye(field.oracle.k), atol=1e-11)
        if strategy == "joint":
            np.testing.assert_allclose(means_of_sex, np.repeat(np.eye(2), 3, axis=0), atol=1e-11)


def test_unbiased_values_of_sets_are_1_for_each_member():
    encoder = skdp.SetValuedEncoder(2.0, categories={"tags": list("abcd")}, max_size=2)
    encoder.fit(pd.DataFrame({"tags": [["a"], ["b"]]}))
    (oracle,) = encoder.oracles_
    reports = np.array(list(itertools.product((0, 1), repeat=4)), np.uint8)
    frame = pd.DataFrame(reports, columns=encoder.get_feature_names_out())
    means = floats(oracle.channel()) @ encoder.debias(frame).to_numpy()
    members = [[float(code in chosen) for code in range(4)] for chosen in oracle.sets()]
    np.testing.assert_allclose(means, members, atol=1e-11)


@pytest.mark.parametrize("mechanism", ["optimal", "square_wave"])
def test_unbiased_values_of_numbers_equal_the_reports(mechanism):
    ages = pd.DataFrame({"age": [20.0, 70.0], "hours": [1.0, 2.0]})
    bounds = {"age": (0, 100), "hours": (0, 80)}
    perturber = skdp.NumericPerturber(2.0, mechanism=mechanism, bounds=bounds, grid_size=4).fit(ages)
    positions = np.linspace(0, 100, 5)
    numbers = perturber.report_values_[0]
    reports = pd.DataFrame({"age": numbers, "hours": perturber.report_values_[1][0]})
    values = perturber.debias(reports, columns=["age"])
    np.testing.assert_allclose(floats(perturber.channel()[0]) @ values["age"].to_numpy(), positions, atol=1e-9)
    sampled = skdp.LocalTableEncoder(1.0, bounds=bounds, random_state=0)
    reports = sampled.fit_transform(ages)
    expected = np.where(reports[list(bounds)].isna(), 0, 2 * reports[list(bounds)])
    np.testing.assert_array_equal(sampled.debias(reports), expected)


def test_joint_values_of_several_fields_are_unbiased():
    """Means over many records of pairs of sampled columns equal the true frequencies."""
    n = 20_000
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.integers(0, 2, (n, 3)), columns=["a", "b", "c"])
    categories = {name: [0, 1] for name in table}
    encoder = skdp.LocalTableEncoder(4.0, categories=categories, workload="pairs", random_state=0)
    reports = encoder.fit_transform(table)
    values = encoder.debias(reports)
    assert list(values.columns) == ["a_0", "a_1", "b_0", "b_1", "c_0", "c_1"]
    errors = values.std() / np.sqrt(n)
    truth = np.ravel([[1 - table[name].mean(), table[name].mean()] for name in table])
    assert (abs(values.mean() - truth) < 4 * errors).all()


KINDS = {"pandas": lambda frame: frame, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas, "numpy": np.asarray}


@pytest.mark.parametrize("kind", KINDS)
def test_output_keeps_library_and_row_index(kind):
    encoder = skdp.UnaryEncodingTransformer(1.0, categories=DOMAIN, random_state=0).fit(PEOPLE)
    frame = encoder.transform(PEOPLE).set_index(np.arange(150) + 7)
    reports = KINDS[kind](frame if kind in ("pandas", "numpy") else frame.reset_index(drop=True))
    values = encoder.debias(reports)
    assert type(values) is type(reports)
    expected = encoder.debias(frame)
    np.testing.assert_array_equal(np.asarray(values if kind != "pyarrow" else values.to_pandas()), expected)
    assert list(expected.columns) == list(frame.columns)
    assert list(expected.index) == list(frame.index)
    # A value depends on one report, so batches are parts of the whole.
    batches = pd.concat([encoder.debias(frame[:40]), encoder.debias(frame[40:])])
    pd.testing.assert_frame_equal(batches, expected)


def test_columns_select_values():
    encoder = skdp.RandomizedResponseEncoder(1.0, categories=DOMAIN, random_state=0)
    reports = encoder.fit_transform(PEOPLE)
    job = [name for name in encoder.debias(reports) if name.startswith("job")]
    pd.testing.assert_frame_equal(encoder.debias(reports, columns=["job"]), encoder.debias(reports)[job])
    with pytest.raises(ValueError, match="`columns` must be distinct columns"):
        encoder.debias(reports, columns=["age"])
    joint = skdp.RandomizedResponseEncoder(1.0, categories=DOMAIN, strategy="joint", random_state=0)
    reports = joint.fit_transform(PEOPLE)
    by_sex = joint.debias(reports).to_numpy().reshape(150, 2, 3).sum(axis=2)
    np.testing.assert_allclose(joint.debias(reports, columns=["sex"]), by_sex, atol=1e-12)


def test_reports_without_unbiased_values_raise_an_error():
    encoder = skdp.RandomizedResponseEncoder(1.0, categories=DOMAIN, random_state=0)
    reports = encoder.fit_transform(PEOPLE)
    with pytest.raises(TypeError, match="got a ReportTally"):
        encoder.debias(encoder.tally(reports))
    with pytest.raises(ValueError, match="protocol of another transformer"):
        skdp.RandomizedResponseEncoder(2.0, categories=DOMAIN).fit(PEOPLE).debias(reports)
    rappor = skdp.RapporEncoder(1.0, n_bits=8, random_state=0)
    words = rappor.fit_transform(pd.DataFrame({"word": ["a", "b"]}))
    with pytest.raises(ValueError, match="no unbiased value for each record"):
        rappor.debias(words)
