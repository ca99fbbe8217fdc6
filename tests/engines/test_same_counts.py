"""On every engine and dtype, counts, values and nulls equal a loop over the rows in plain Python."""

import itertools
from collections import Counter
from datetime import date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from skdp import Domain, DPHistogram, RandomizedResponseEncoder
from skdp.engines import privatize, tally
from tests.conftest import diagonal, often

# For each column its type and the declared values; the second value never occurs.
COLUMNS = {
    "text": (pa.string(), ["red", "unused", "", None]),
    "large": (pa.large_string(), ["b", "unused", "ä", "a"]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["b", "unused", None, "a"]),
    "flag": (pa.bool_(), [None, False, True]),
    "tiny": (pa.uint8(), [255, 0, 128]),
    "short": (pa.uint16(), [2**16 - 1, 2**15, None]),
    "number": (pa.uint32(), [2**32 - 1, 2**31, 0]),
    "long": (pa.uint64(), [2**63 - 1, 2**63 - 2, 0]),
    "signed": (pa.int64(), [-1, 0, None]),
    "real": (pa.float64(), [0.1, -0.0, 1e300]),
    "day": (pa.date32(), [date(2020, 2, 29), date(2020, 3, 1), None, date(1600, 1, 1)]),
    "time": (pa.timestamp("us"), [datetime(2020, 2, 29, 1, 2, 3, 4), datetime(2020, 2, 29), None]),
}
DOMAIN = Domain({name: values for name, (_, values) in COLUMNS.items()})


def make_table(n_rows, seed=0):
    numbers = np.random.default_rng(seed)
    used = {name: [values[0], *values[2:]] for name, (_, values) in COLUMNS.items()}
    drawn = {
        name: [values[index] for index in numbers.integers(len(values), size=n_rows)] for name, values in used.items()
    }
    return pa.table({name: pa.array(drawn[name], kind) for name, (kind, _) in COLUMNS.items()})


def count(frame, domain):
    """Count the cells of a table in memory or of an engine; the noise rounds to 0."""
    return DPHistogram(1e6, domain=domain, method="flat").fit(frame).counts_.reshape(domain.sizes)


@pytest.mark.parametrize("n_rows", often([0, 1, 2, 500], [0, 500]))
def test_counts_are_exact(engine, n_rows):
    """Each column beside the next one."""
    table = make_table(n_rows)
    for names in itertools.pairwise([*COLUMNS, "text"]):
        domain, columns = (
            Domain({name: COLUMNS[name][1] for name in names}),
            [table[name].to_pylist() for name in names],
        )
        counted = Counter(zip(*columns, strict=True))
        expected = [counted[cell] for cell in itertools.product(*(COLUMNS[name][1] for name in names))]
        counts = count(engine.frame(table.select(names)), domain)
        assert counts.ravel().tolist() == expected, names
        assert counts.sum() == n_rows


@pytest.mark.parametrize("n_rows", [1, 500])
def test_reports_and_tallies_equal_the_rows(engine, n_rows):
    """Reports are declared values, with unused values and nulls, and the tally counts these reports."""
    table = make_table(n_rows)
    encoder = RandomizedResponseEncoder(14.0, categories=DOMAIN, random_state=0)
    released = engine.table(privatize(engine.frame(table), encoder))
    found = tally(engine.frame(released), encoder)
    assert found.n_reports == n_rows
    for (name, (_, values)), support in zip(COLUMNS.items(), found.counts, strict=True):
        reports = released[name].to_pylist()
        assert support.tolist() == [reports.count(value) for value in values], name
        assert n_rows == 1 or (support > 0).all()
    if not engine.has_partitions:
        same = privatize(table, RandomizedResponseEncoder(14.0, categories=DOMAIN, random_state=0))
        assert released.to_pydict() == same.to_pydict()


def test_counts_of_many_batches_are_exact(lazy_engine):
    """More rows than an engine returns at once."""
    n_rows = 3_000 if lazy_engine.name == "spark" else 300_000  # it returns 70, see conftest.py
    table = pa.table({"answer": pa.array(np.arange(n_rows) % 7 % 4, pa.uint8())})
    counts = count(lazy_engine.frame(table), Domain({"answer": [3, 1, 0, 2]}))
    assert counts.tolist() == np.bincount(table["answer"])[[3, 1, 0, 2]].tolist()


# The dtypes of text in pandas 2 and 3, also in Dask.
TEXT = [object, "category", pd.ArrowDtype(pa.string()), pd.StringDtype("python"), pd.StringDtype("pyarrow")]
if pd.__version__ >= "3":
    TEXT += [pd.StringDtype(storage, na_value=np.nan) for storage in ("python", "pyarrow")]


@pytest.mark.parametrize(("dtype", "converted"), diagonal(TEXT, [True, False]))
def test_text_dtypes_of_pandas_are_counted(dtype, converted):
    import dask
    import dask.dataframe as dd

    rows = ["b", None, "a", "b", "ä", None, "b"] * 30
    domain = Domain({"it": ["b", "unused", "a", None, "ä"]})
    frame = pd.DataFrame({"it": pd.Series(rows, dtype=dtype)})
    with dask.config.set({"dataframe.convert-string": converted}):
        lazy = dd.from_pandas(frame, npartitions=3, sort=False)
        for given_frame in (frame, lazy):
            counts = count(given_frame, domain)
            assert counts.tolist() == [90, 0, 30, 60, 30]
        encoder = RandomizedResponseEncoder(5.0, categories=domain, random_state=0)
        released = privatize(lazy, encoder)
        reports = pa.Table.from_pandas(released.compute(), preserve_index=False)
        assert set(reports["it"].to_pylist()) <= {"b", "unused", "a", None, "ä"}
        assert tally(released, encoder) == encoder.tally(reports)
