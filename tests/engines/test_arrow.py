"""Parquet files of text are tallied by the codes that they hold."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from skdp import RandomizedResponseEncoder
from skdp.engines import tally


def encoder(values):
    return RandomizedResponseEncoder(1.0, categories={"a": values}).fit(pa.table({"a": pa.array(values, pa.string())}))


@pytest.mark.parametrize("values", [["x", "y", "z"], ["x", "y", "z", None]])
def test_codes_of_each_file_and_row_group(tmp_path, values):
    """Dictionaries differ between files and row groups, and some values do not occur, in some or in all."""
    rows = ["y", "y", "z", "y", "y", "y", values[-1], "z"]
    for name, part in (("1", rows[:3]), ("2", rows[3:])):
        pq.write_table(pa.table({"a": pa.array(part, pa.string())}), tmp_path / f"{name}.parquet", row_group_size=2)
    fitted = encoder(values)
    found = tally(ds.dataset(tmp_path), fitted)
    assert found == fitted.tally(pa.table({"a": rows}))
    assert found.support[0].tolist() == [rows.count(value) for value in values]


@pytest.mark.parametrize("strange", ["w", None])
def test_codes_of_other_values(tmp_path, strange):
    pq.write_table(pa.table({"a": ["x", strange, "y"]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="column 'a' holds a value, or a NaN or inf, outside"):
        tally(ds.dataset(tmp_path / "a.parquet"), encoder(["x", "y"]))
