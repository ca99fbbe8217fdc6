"""Reports carry their protocol as metadata, without secrets, and reports of two protocols are not added."""

import json
import pickle

import pandas as pd
import pyarrow as pa
import pytest

from skdp import PrivacyLedger, RandomizedResponseEncoder, UnaryEncodingTransformer
from skdp.engines import privatize
from skdp.local import OnFitOnly, ReportTransformer

KEY = "skdp.protocol"
PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 50})
VALUES = {"sex": ["f", "m"]}


def protocol_of(frame):
    """Return the protocol in the metadata of a frame."""
    assert {*frame.attrs} == {KEY}
    return frame.attrs[KEY]


def encoder(epsilon=1.0, **parameters):
    return RandomizedResponseEncoder(epsilon, categories=VALUES, **parameters).fit(PEOPLE)


def test_reports_carry_their_protocol():
    one = encoder()
    table = pa.Table.from_pandas(PEOPLE, preserve_index=False)
    assert protocol_of(one.transform(PEOPLE)) == one.to_json()
    released = one.transform(table)
    assert {*released.schema.metadata} == {KEY.encode(), b"pandas"}
    assert released.schema.metadata[KEY.encode()] == one.to_json().encode()
    assert protocol_of(released.to_pandas()) == one.to_json()
    assert ReportTransformer.from_json(one.transform(PEOPLE).attrs[KEY]).tally(one.transform(PEOPLE)).n_reports == 100
    assert OnFitOnly(encoder()).fit(PEOPLE).transform(PEOPLE).attrs == {}  # true rows


def test_metadata_survives_operations_of_pandas(tmp_path):
    one, other = encoder(), encoder(3.0)
    reports = one.transform(PEOPLE)
    reports.to_parquet(tmp_path / "reports.parquet")
    for again in (
        reports.copy(),
        reports[:10],
        pickle.loads(pickle.dumps(reports)),
        pd.concat([reports, one.transform(PEOPLE)]),
        pd.read_parquet(tmp_path / "reports.parquet"),
    ):
        assert protocol_of(again) == one.to_json()
        one.estimate_counts(again)
    assert pd.concat([reports, other.transform(PEOPLE)]).attrs == {}
    assert reports.equals(pd.DataFrame(reports.to_dict("list")))


LIBRARIES = {
    "pandas": lambda one: one.transform(PEOPLE),
    "pyarrow": lambda one: one.transform(pa.Table.from_pandas(PEOPLE, preserve_index=False)),
    "pyarrow to pandas": lambda one: LIBRARIES["pyarrow"](one).to_pandas(),
    "pandas to pyarrow": lambda one: pa.Table.from_pandas(one.transform(PEOPLE)),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_tally_raises_for_reports_of_another_protocol(library):
    reports = LIBRARIES[library](encoder(3.0))
    one = encoder()
    for read in (one.estimate_counts, one.estimate_frequencies, one.estimate_joint_counts, one.tally):
        with pytest.raises(ValueError, match="protocol of another transformer"):
            read(reports)
    ordered = RandomizedResponseEncoder(3.0, categories={"sex": ["m", "f"]}).fit(PEOPLE)
    with pytest.raises(ValueError, match="protocol of another transformer"):
        ordered.tally(reports)
    with pytest.raises(ValueError, match="protocol of another transformer"):
        UnaryEncodingTransformer(3.0, categories=VALUES).fit(PEOPLE).tally(reports)


def test_two_protocols_in_one_table_raise_an_error():
    one, table = encoder(), pa.Table.from_pandas(encoder(3.0).transform(PEOPLE))
    table = table.replace_schema_metadata({**table.schema.metadata, KEY: one.to_json()})
    with pytest.raises(ValueError, match="must have one protocol"):
        one.estimate_counts(table)


def test_privatizing_reports_warns():
    one, table = encoder(), pa.Table.from_pandas(encoder(3.0).transform(PEOPLE))
    for release in (one.transform, lambda given: privatize(given, one)):
        with pytest.warns(UserWarning, match="metadata of X contains a protocol") as caught:
            release(table)
        assert caught[0].filename == __file__


def test_equivalent_protocols_are_accepted():
    reports = encoder(handle_unknown="uniform").transform(PEOPLE)
    assert encoder().tally(reports).n_reports == 100
    assert encoder(ledger=PrivacyLedger(epsilon=9), random_state=1).tally(reports).n_reports == 100


@pytest.mark.parametrize("text", ["", "{}", "[", "NaN", '{"format": "skdp-protocol", "version": 3}', "\ud800"])
def test_metadata_without_a_protocol_raises_an_error(text):
    reports = encoder().transform(PEOPLE)
    reports.attrs[KEY] = text
    with pytest.raises(ValueError, match="protocol"):
        encoder().estimate_counts(reports)


def test_subclass_writes_no_protocol_by_default():
    class Own(RandomizedResponseEncoder):
        pass

    own = Own(1.0, categories=VALUES).fit(PEOPLE)
    assert own.transform(PEOPLE).attrs == {}
    assert json.loads(own.to_json())["transformer"] == "Own"
    for other in (encoder(), encoder(3.0), UnaryEncodingTransformer(1.0, categories=VALUES).fit(PEOPLE)):
        with pytest.raises(ValueError, match="protocol of another transformer"):
            own.tally(other.transform(PEOPLE))
