import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from skdp import DPMean
from skdp.local import RapporEncoder
from skdp.tables import is_frame, wrap_table


def test_output_keeps_only_index_and_columns_of_a_pandas_frame():
    rows = pd.MultiIndex.from_product([["r", "s", "secret"], [1]], names=["row", "part"])
    frame = pd.DataFrame({0: [1, 2, 3]}, index=rows).iloc[:2]
    frame.attrs["secret"] = "true values"
    table = wrap_table(frame)
    back = table.rebuild([np.array([5, 6])], table.names)
    assert back.attrs == {}
    assert back.index.equals(frame.index)
    assert back.index.levels[0].tolist() == ["r", "s"]
    assert back.columns.tolist() == [0]


def test_pandas_columns_keep_their_levels_and_names():
    columns = pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")], names=["one", "two"])
    table = wrap_table(pd.DataFrame([[1, 2]], columns=columns))
    assert table.rebuild(table.columns, table.names).columns.equals(columns)
    assert table.rebuild(table.columns, ["x0", "x1"]).columns.tolist() == ["x0", "x1"]
    labels = pd.CategoricalIndex(["a", "b"], categories=["a", "b", "secret"])
    table = wrap_table(pd.DataFrame([[1, 2]], columns=labels))
    assert "secret" not in repr(table.rebuild(table.columns, table.names).columns)


def test_duplicate_column_names_raise_an_error():
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    for frame in (pd.DataFrame([[1, 2]], columns=["a", "a"]), table):
        for read in (wrap_table, is_frame, DPMean(bounds=(0, 9)).fit, RapporEncoder().fit):
            with pytest.raises(ValueError, match="Column names must be unique, got 'a' twice"):
                read(frame)
