"""Which rows of a stream are kept of each person: never more than the limit, by the person alone."""

import re
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from scipy.stats import chisquare

from skdp import DPMean, PrivacyLedger
from skdp.engines.backends.arrow import mark_rows
from skdp.tables import open_large

NUMBERS = np.random.default_rng(0).integers(0, 150, 1_000)
COLUMNS = {
    "whole": pa.array(NUMBERS),
    "narrow": pa.array(NUMBERS % 100, pa.int8()),
    "large": pa.array(NUMBERS.astype(np.uint64) + np.uint64(2**64 - 400)),
    "text": pa.array([f"p{number}" for number in NUMBERS]),
    "codes": pa.array([f"p{number}" for number in NUMBERS]).dictionary_encode(),
    "bytes": pa.array([str(number).encode() for number in NUMBERS]),
    "fixed": pa.array([bytes([255, number % 256, number // 256]) for number in NUMBERS.tolist()], pa.binary(3)),
    "uuid": pa.array([UUID(int=int(number) << 64).bytes for number in NUMBERS], pa.uuid()),
    "half": pa.array(NUMBERS.astype(np.float16)),
    "real": pa.array(NUMBERS / 7),
    "exact": pa.array([Decimal(int(number)) / 4 for number in NUMBERS]),
    "day": pa.array([date.fromordinal(730_000 + int(number)) for number in NUMBERS]),
    "time": pa.array([datetime(2020, 1, 1, 0, int(number) // 60, int(number) % 60) for number in NUMBERS]),
}


def marks(column, most=2, seed=3, size=170):
    table = pa.table({"person": column})
    return mark_rows((table.slice(start, size).column(0) for start in range(0, len(table), size)), most, seed)


class TestMarks:
    @pytest.mark.parametrize("kind", COLUMNS)
    def test_each_person_has_as_many_rows_as_the_limit_allows(self, kind):
        names = pd.Series(COLUMNS[kind].to_pylist()).map(str)
        for most in (1, 4):
            found = names[marks(COLUMNS[kind], most)].value_counts()
            pd.testing.assert_series_equal(
                found.sort_index(), names.value_counts().clip(upper=most).sort_index(), check_names=False
            )

    @pytest.mark.parametrize("kind", ["whole", "text"])
    def test_a_person_changes_no_row_of_others(self, kind):
        """The marked rows of neighbouring tables differ by at most the limit: here for each person of some."""
        column = COLUMNS[kind].to_pylist()
        whole = marks(COLUMNS[kind])
        for person in column[:4]:
            others = [place for place, name in enumerate(column) if name != person]
            np.testing.assert_array_equal(marks(pa.array([column[place] for place in others])), whole[others])
            assert whole.sum() - whole[others].sum() <= 2

    def test_batches_do_not_matter(self):
        np.testing.assert_array_equal(marks(COLUMNS["text"], size=170), marks(COLUMNS["text"], size=999))

    def test_nor_do_batches_without_rows(self):
        table = pa.table({"person": COLUMNS["text"]})
        parts = [table.slice(0, 0), table.slice(0, 170), table.slice(170, 0), table.slice(170)]
        found = mark_rows((part.column(0) for part in parts), 2, 3)
        np.testing.assert_array_equal(found, marks(COLUMNS["text"]))
        assert mark_rows([], 2, 3).tolist() == []
        assert mark_rows([table.slice(0, 0).column(0)], 2, 3).tolist() == []


def test_zeros_of_both_signs_are_one_person():
    assert marks(pa.array([0.0, -0.0] * 50), most=3).sum() == 3


def test_no_row_is_more_likely_than_another_over_seeds():
    """Of 3 rows of each of 400 persons one is kept: chi-square of 10 seeds (false alarm: 1e-6), and other rows each."""
    for column in (np.arange(1_200) % 400, [f"p{number % 400}" for number in range(1_200)]):
        kept = np.array([marks(pa.array(column), most=1, seed=seed) for seed in range(10)])
        by_place = kept.reshape(10, 3, 400).sum(axis=(0, 2))
        assert chisquare(by_place).pvalue > 1e-6
        assert (kept[0] != kept[1:]).mean(axis=1).min() > 0.3  # 4 of 9 rows, if seeds are independent


NESTED = {
    "struct": pa.struct([("a", pa.int64())]),
    "list": pa.list_(pa.int64()),
    "large list": pa.large_list(pa.string()),
    "list of two": pa.list_(pa.int64(), 2),
    "map": pa.map_(pa.string(), pa.int64()),
    "interval": pa.month_day_nano_interval(),
}
VALUES = {"struct": {"a": 1}, "list of two": [1, 2], "map": [("a", 1)], "interval": (1, 2, 3), "large list": ["a"]}


@pytest.mark.parametrize("kind", NESTED)
def test_what_is_no_single_value_is_refused_before_any_charge(kind):
    ledger = PrivacyLedger(epsilon=1.0)
    ids = pa.array([VALUES.get(kind, [1])] * 3, NESTED[kind])
    table = ds.dataset(pa.table({"x": [1.0, 2.0, 3.0], "person": ids}))
    with pytest.raises(TypeError, match=f"groups must be a column of text, .* got {re.escape(str(NESTED[kind]))}"):
        DPMean(1.0, bounds=(0, 5), ledger=ledger).fit(table, groups="person")
    assert len(ledger.report()) == 0


def test_a_table_that_changes_is_refused(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"person": [1, 1, 2]}), path)
    limited = open_large(ds.dataset(path)).limit_persons("person", 1, 0)
    assert sum(map(len, limited._tables(["person"]))) == 2
    for rows in ([1, 1], [1, 1, 2, 3]):
        pq.write_table(pa.table({"person": rows}), path)
        with pytest.raises(RuntimeError, match="the table has changed"):
            list(limited._tables(["person"]))
