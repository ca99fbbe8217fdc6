"""Reports of a seed are not secure, whoever reads them: the flag travels with them."""

from __future__ import annotations

import io
import json
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

import skdp
from skdp import (
    NumericPerturber,
    RandomizedResponseEncoder,
    RapporEncoder,
    UnaryEncodingTransformer,
    privacy_statement,
)
from skdp.engines import estimate_file, privatize_file, tally_files
from skdp.engines.files import said_by
from skdp.local import (
    LocalTableEncoder,
    OnFitOnly,
    PosteriorFeatures,
    ReportTransformer,
    SecretKey,
    SetValuedEncoder,
    join_reports,
)
from skdp.privacy import shuffled_guarantee

PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 200})
VALUES = {"sex": ["f", "m"]}


def encoder(seed=0, **parameters):
    return RandomizedResponseEncoder(1.0, categories=VALUES, random_state=seed, **parameters).fit(PEOPLE)


def read(made):
    return ReportTransformer.from_json(made.to_json())


TRANSFORMERS = [
    (RandomizedResponseEncoder(1.0, categories=VALUES), PEOPLE),
    (UnaryEncodingTransformer(1.0, categories=VALUES), PEOPLE),
    (NumericPerturber(1.0, bounds={"age": (0, 100)}), pd.DataFrame({"age": [20.0, 30.0]})),
    (RapporEncoder(1.0, n_bits=8), PEOPLE),
    (LocalTableEncoder(1.0, categories=VALUES), PEOPLE),
    (SetValuedEncoder(1.0, categories={"fruit": ["a", "b"]}), pd.DataFrame({"fruit": [["a"], ["b"]]})),
]


@pytest.mark.parametrize(("transformer", "people"), TRANSFORMERS, ids=lambda given: type(given).__name__)
@pytest.mark.parametrize("seed", [None, 0])
def test_what_reads_a_protocol_states_what_it_says(transformer, people, seed, tmp_path):
    made = transformer.set_params(random_state=seed).fit(people)
    made.save(tmp_path / "protocol.json")
    reader = read(made)
    for again in (
        reader,
        read(reader),
        type(made).load(tmp_path / "protocol.json"),
        pickle.loads(pickle.dumps(reader)),
    ):
        assert again.guarantee_.secure is again.protocol_.guarantee.secure is (seed is None)
        assert json.loads(again.to_json())["guarantee"]["secure"] is (seed is None)
        assert again.guarantee_.epsilon == made.guarantee_.epsilon
        assert privacy_statement(again).total.secure is (seed is None)
        assert shuffled_guarantee(again, 10_000, 1e-6).secure is (seed is None)
        assert again.tally(made.transform(people)).n_reports == len(people)
    # Its own reports are drawn from secure bits: after `fit`, it says so.
    assert reader.fit(people).guarantee_.secure


def test_permanent_reports_come_from_a_key():
    made = encoder(memoize=True, secret_key=SecretKey(b"a key of sixteen bytes"))
    assert made.guarantee_.secure
    assert read(made).guarantee_.secure


def test_a_second_round_does_not():
    for seed in (None, 0):
        made = encoder(seed, memoize=True, secret_key=SecretKey(b"a key of sixteen bytes"), instantaneous_epsilon=0.5)
        for again in (made, read(made), read(read(made))):
            assert again.guarantee_.secure
            assert again.instantaneous_guarantee_.secure is (seed is None)


def test_saved_and_loaded():
    reader = read(encoder())
    file = io.BytesIO()
    skdp.save(reader, file)
    file.seek(0)
    loaded = skdp.load(file)
    assert not loaded.guarantee_.secure
    assert not loaded.protocol_.guarantee.secure
    again = io.BytesIO()
    skdp.save(loaded, again)


@pytest.mark.parametrize("kind", [pd.DataFrame, lambda frame: pa.Table.from_pandas(frame, preserve_index=False)])
@pytest.mark.parametrize("seed", [None, 0])
def test_models_of_reports(kind, seed):
    reports = encoder(seed).transform(kind(PEOPLE))
    for own in (encoder(None), read(encoder(seed))):
        features = PosteriorFeatures(FrozenEstimator(own), privatize=False).fit(reports)
        assert features.guarantee_.secure is (seed is None)
        assert privacy_statement(make_pipeline(features)).total.secure is (seed is None)
    assert encoder(None).guarantee_.secure  # nothing is written to the encoder that was given
    assert own.guarantee_.secure is (seed is None)


def test_a_saved_model_of_reports():
    reports = encoder().transform(PEOPLE)
    features = PosteriorFeatures(FrozenEstimator(encoder(None)), privatize=False).fit(reports)
    file = io.BytesIO()
    skdp.save(features, file)
    file.seek(0)
    assert not skdp.load(file).guarantee_.secure


def test_an_encoder_that_is_wrapped():
    assert not OnFitOnly(encoder()).fit(PEOPLE).guarantee_.secure


@pytest.mark.parametrize("ending", ["parquet", "feather", "csv"])
def test_files_and_sums(ending, tmp_path):
    PEOPLE.to_parquet(tmp_path / "people.parquet")
    for name, seed in (("secure", None), ("seeded", 0)):
        privatize_file(tmp_path / "people.parquet", tmp_path / f"{name}.{ending}", encoder(seed))
    secure, seeded = (tmp_path / f"{name}.{ending}" for name in ("secure", "seeded"))
    for sources in ([secure], [seeded], [secure, seeded], [seeded, secure]):
        target = tmp_path / f"{'-'.join(path.stem for path in sources)}.json"
        tally_files(sources, target=target)
        found = ReportTransformer.from_json(said_by(target))
        assert found.guarantee_.secure is (sources == [secure])
    tally_files([tmp_path / "secure.json", tmp_path / "seeded.json"], target=tmp_path / "all.json")
    assert not ReportTransformer.from_json(said_by(tmp_path / "all.json")).guarantee_.secure
    assert estimate_file(seeded)["count"].sum() == pytest.approx(len(PEOPLE))


def test_nothing_else_changes():
    made = encoder()
    reader = read(made)
    reports = made.transform(PEOPLE)
    assert reader.estimate_counts(reports).equals(made.estimate_counts(reports))
    assert np.array_equal(reader.categories_, made.categories_)
    assert json.loads(reader.to_json()) == json.loads(made.to_json())


@pytest.mark.parametrize("kind", [pd.DataFrame, lambda frame: pa.Table.from_pandas(frame, preserve_index=False)])
@pytest.mark.parametrize("seeds", [(None, 0), (0, None)])
def test_tables_that_are_joined(kind, seeds):
    """The note of the first one decided."""
    joined = join_reports([encoder(seed).transform(kind(PEOPLE)) for seed in seeds])
    features = PosteriorFeatures(FrozenEstimator(encoder(None)), privatize=False).fit(joined)
    assert not features.guarantee_.secure
