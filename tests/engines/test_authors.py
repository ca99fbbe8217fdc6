"""What authors of an engine use: its loaded rows equal the table, and its errors contain no value."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import RandomizedResponseEncoder
from skdp.engines import privatize
from skdp.readers import StreamTable, open_large


def test_loaded_numbers_equal_the_table(every_engine):
    rows = pd.DataFrame({"weight": np.random.default_rng(0).random(3_000), "size": range(3_000)})
    loaded = open_large(every_engine.frame(pa.Table.from_pandas(rows, preserve_index=False)))
    if loaded is not None:  # a table in memory is used as it is
        table = pl.DataFrame(loaded.load()).sort("size")
        np.testing.assert_array_equal(table["weight"].to_numpy(), rows["weight"])


def test_errors_of_an_engine_contain_no_value(monkeypatch):
    def fail(self, columns):
        raise ZeroDivisionError("row 7 has the value red")
        yield

    monkeypatch.setattr(StreamTable, "read", fail)
    encoder = RandomizedResponseEncoder(1.0, categories={"x": [1, 2]}, random_state=0)
    with pytest.raises(ValueError, match="text of this error is omitted") as caught:
        privatize(pl.LazyFrame({"x": [1]}), encoder)
    assert "red" not in f"{caught.value} {caught.value.__context__}"
