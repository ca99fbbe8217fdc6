"""Local transformers with shuffled or summed reports."""

import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import RandomizedResponseEncoder, RapporEncoder
from skdp.central import DPMean
from skdp.local import SecretKey, shuffle_reports
from skdp.oracles import RandomizedResponse
from skdp.privacy import PrivacyGuarantee, local_epsilon, shuffled_guarantee
from tests.conftest import quick_first

N, DELTA = 10_000, 1e-6
PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 50, "age": [20, 30, 40, 50] * 25})
DECLARED = {"sex": ["f", "m"], "age": [20, 30, 40, 50]}


def encoder(epsilon=2.0, **parameters):
    return RandomizedResponseEncoder(epsilon, categories=DECLARED, **parameters)


def test_one_attribute_has_the_guarantee_of_its_oracle():
    joint = encoder(strategy="joint").fit(PEOPLE)
    guarantee = shuffled_guarantee(joint, n=N, delta=DELTA)
    assert guarantee.epsilon == shuffled_guarantee(RandomizedResponse(8, 2.0), n=N, delta=DELTA).epsilon
    assert guarantee.scope == ("sex", "age")
    assert guarantee.mechanism == "k-ary randomized response, shuffled from 10,000 reports"
    assert guarantee == shuffled_guarantee(joint.protocol_, n=N, delta=DELTA)
    summed = shuffled_guarantee(joint, n=N, delta=DELTA, released="tally")
    assert summed.epsilon == guarantee.epsilon
    # Weights of 0 for all reports except one would release this report.
    assert summed.mechanism == "k-ary randomized response, unweighted sums of all 10,000 reports"


def test_joined_columns_have_a_larger_loss_than_their_sums():
    split = encoder(8.0).fit(PEOPLE)
    rows, sums = (shuffled_guarantee(split, n=N, delta=DELTA, released=what) for what in ("reports", "tally"))
    one = [shuffled_guarantee(RandomizedResponse(k, 4.0), n=N, delta=DELTA / 2 * (1 - 2**-40)).epsilon for k in (2, 4)]
    assert max(one) < sums.epsilon < 0.75 * sum(one)
    assert sums.epsilon < rows.epsilon / 3 < split.guarantee_.epsilon / 3


def test_sampled_column_has_the_guarantee_of_the_mixture():
    sample = encoder(strategy="sample").fit(PEOPLE)
    worst = max(shuffled_guarantee(RandomizedResponse(k, 2.0), n=N, delta=DELTA).epsilon for k in (2, 4))
    # Sums of a single column bound less, because fewer other records have one of the two values.
    assert 0.5 * worst < shuffled_guarantee(sample, n=N, delta=DELTA).epsilon < 1.1 * worst


def test_permanent_reports_raise_an_error():
    """Two sums of permanent reports may differ by one report, which is protected by its local epsilon only."""
    key = SecretKey(b"a key that everybody knows, for tests")
    for reporter in (encoder(memoize=True, secret_key=key), RapporEncoder(1.0, secret_key=key)):
        with pytest.raises(ValueError, match="permanent reports"):
            shuffled_guarantee(reporter.fit(PEOPLE), n=N, delta=DELTA)


@pytest.mark.parametrize("released", quick_first(1, ["reports", "tally"]))
def test_local_epsilon_is_found_for_a_shuffled_epsilon(released):
    def fitted(local):
        return encoder(local).fit(PEOPLE)

    local = local_epsilon(0.5, delta=DELTA, n=N, reporter=fitted, released=released)
    assert 0.99 * 0.5 < shuffled_guarantee(fitted(local), n=N, delta=DELTA, released=released).epsilon <= 0.5 < local


def test_transformers_that_are_not_local_raise_an_error():
    with pytest.raises(TypeError, match="got RandomizedResponseEncoder that is not fitted"):
        shuffled_guarantee(encoder(), n=N, delta=DELTA)
    with pytest.raises(ValueError, match="`reporter` must randomize each record independently"):
        shuffled_guarantee(DPMean(bounds=(0, 1)).fit(np.zeros((5, 1))), n=N, delta=DELTA)
    persons = SimpleNamespace(guarantee_=PrivacyGuarantee(1.0, max_rows_per_person=3))
    with pytest.raises(ValueError, match=r"randomize each record independently.*3 records"):
        shuffled_guarantee(persons, n=N, delta=DELTA)


@pytest.mark.parametrize(
    "convert", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas, lambda frame: frame.to_numpy()]
)
def test_shuffled_reports_are_a_permutation_of_the_rows(convert):
    table = convert(PEOPLE.assign(row=range(100)))
    shuffled = shuffle_reports(table)
    assert type(shuffled) is type(table)
    rows, before = (pd.DataFrame(np.asarray(one)) if isinstance(one, np.ndarray) else one for one in (shuffled, table))
    rows, before = (one if isinstance(one, pd.DataFrame) else one.to_pandas() for one in (rows, before))
    assert sorted(map(tuple, rows.to_numpy().tolist())) == sorted(map(tuple, before.to_numpy().tolist()))
    assert rows.iloc[:, 2].tolist() != list(range(100))


def test_buffers_do_not_keep_the_order_of_arrival():
    """Rows that polars selects share the buffer of their texts."""
    sent = [f"a report of more than twelve bytes, {index:03d}" for index in range(100)]
    shuffled = shuffle_reports(pl.DataFrame({"a": sent}))
    content = pickle.dumps(shuffled)
    indices = [content.index(text.encode()) for text in shuffled["a"]]
    assert indices == sorted(indices)


def test_row_index_and_metadata_are_dropped():
    people = PEOPLE.set_index(PEOPLE.index.map("person {}".format))
    reports = encoder().fit_transform(people)
    reports.attrs["note"] = "person 1 is the first"
    shuffled = shuffle_reports(reports)
    assert shuffled.index.equals(pd.RangeIndex(100))
    assert [*shuffled.attrs] == ["skdp.protocol"]
    table = pa.Table.from_pandas(people)
    field = table.schema.field(0).with_metadata({"note": "person 1"})
    shuffled = shuffle_reports(table.cast(table.schema.set(0, field)))
    assert shuffled.column_names == list(PEOPLE)
    assert not shuffled.schema.metadata
    assert not any(one.metadata for one in shuffled.schema)


def test_all_orders_are_equally_likely():
    table = np.arange(3)[:, np.newaxis]
    orders = [tuple(shuffle_reports(table, random_state=seed)[:, 0]) for seed in range(3_000)]
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 6
    assert (abs(counts - 500) < 100).all()
