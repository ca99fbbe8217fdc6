"""Reports and tallies that no encoder can have made are refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from skdp import (
    HadamardResponseEncoder,
    LocalHashingEncoder,
    RandomizedResponseEncoder,
    RapporEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.local import ReportTally
from tests.conftest import each


@pytest.mark.parametrize(
    "value",
    [
        1e30,
        2.0**64,
        1 << 64,
        str(1 << 64),
        " 1",
        "1.0",
        "\u0661",
        "1_0",
        "+1",
        "",
        "1\n",
        True,
        None,
        np.nan,
        -1,
        0.5,
        b"1",
    ],
)
def test_what_is_no_whole_number_of_64_bits_is_no_part_of_a_report(value):
    rows = pd.DataFrame({"sex": ["f", "m"]})
    for kind in (UnaryEncodingTransformer, LocalHashingEncoder, HadamardResponseEncoder):
        encoder = kind(1.0, categories={"sex": ["f", "m"]}).fit(rows)
        reports = encoder.transform(rows)
        first = reports.columns[0]
        for written in ([value, 0], [0, value]):
            odd = reports.assign(**{first: pd.Series(written, dtype=object)})
            with pytest.raises(ValueError, match="the reports hold something else than whole numbers") as caught:
                encoder.tally(odd)
            assert caught.value.__context__ is None
        if type(value) is float:
            with pytest.raises(ValueError, match="the reports hold"):
                encoder.tally(reports.assign(**{first: [value, 0.0]}))


@each("value", [1e30, 2, 1 << 63, str(1 << 63), "2", " 1", "1.0", True, None, np.nan, -1, 0.5])
def test_what_was_sampled_is_a_whole_number_too(value):
    rows = pd.DataFrame({"a": ["f", "m"], "b": ["f", "m"]})
    encoder = UnaryEncodingTransformer(1.0, categories={"a": ["f", "m"], "b": ["f", "m"]}, strategy="sample").fit(rows)
    reports = encoder.transform(rows)
    reports.attrs = {}
    encoder = encoder.from_json(encoder.to_json())  # which does not know which reports were made
    assert encoder.tally(reports.assign(sampled=pd.Series(["1", 0.0], dtype=object))).n_reports == 2
    with pytest.raises(ValueError, match="'sampled' must hold numbers from 0 to 1"):
        encoder.tally(reports.assign(sampled=pd.Series([value, 0], dtype=object)))


def tally_with(kind, support, n=1000, **parameters):
    rows = pd.DataFrame({"sex": ["f", "m"]})
    encoder = kind(1.0, categories={"sex": ["f", "m"]}, **parameters).fit(rows)
    content = json.loads(encoder.protocol_.empty_tally().to_json())
    return json.dumps(content | {"support": [support], "sizes": [n], "n_reports": n})


@each(
    "kind support",
    [
        (RandomizedResponseEncoder, [-1000, 1000]),
        (RandomizedResponseEncoder, [-1, 1001]),
        (RandomizedResponseEncoder, [1000, 1000]),
        (RandomizedResponseEncoder, [499, 500]),
        (UnaryEncodingTransformer, [-1, 5]),
        (SubsetSelectionEncoder, [-1, 5]),
        (LocalHashingEncoder, [-1, 5]),
        (HadamardResponseEncoder, [-1001, 5]),
        (HadamardResponseEncoder, [0, 1001]),
    ],
)
def test_sums_that_no_reports_have_are_refused(kind, support):
    with pytest.raises(ValueError, match="do not fit each other"):
        ReportTally.from_json(tally_with(kind, support))


def test_sums_that_reports_may_have_are_read():
    for kind, support in (
        (RandomizedResponseEncoder, [400, 600]),
        (UnaryEncodingTransformer, [1000, 0]),
        (HadamardResponseEncoder, [-1000, 1000]),
    ):
        assert ReportTally.from_json(tally_with(kind, support)).support[0].tolist() == support


def test_tallies_are_not_added_beyond_what_fits():
    most = 1 << 56
    one = ReportTally.from_json(tally_with(RandomizedResponseEncoder, [most, 0], most))
    with pytest.raises(ValueError, match=r"at most 2\*\*56 reports"):
        one + one
    rappor = RapporEncoder(1.0, n_bits=8, n_cohorts=2).fit(pd.DataFrame({"sex": ["f"]})).protocol_.empty_tally()
    content = json.loads(rappor.to_json())
    read = type(rappor).from_json(json.dumps(content | {"cohort_sizes": [most, 0]}))
    with pytest.raises(ValueError, match=r"at most 2\*\*56 reports"):
        read + read
    with pytest.raises(ValueError, match="do not fit each other"):
        type(rappor).from_json(json.dumps(content | {"cohort_sizes": [most, most]}))
