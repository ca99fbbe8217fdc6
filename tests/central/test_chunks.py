"""A chunk shows a statistic nothing of the table but its own rows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skdp.central import sample_and_aggregate

N_ROWS = 400


def table():
    place = np.arange(N_ROWS)
    words = pd.Categorical([f"w{row}" for row in place])
    frame = pd.DataFrame({"place": place, "even": place % 2 == 0, "word": words}, index=pd.Index(10 * place, name="id"))
    frame.attrs["rows"] = N_ROWS
    return frame


def chunks_of(X):
    seen = []
    sample_and_aggregate(lambda chunk: seen.append(chunk) or len(chunk), X, bounds=(0, 400), n_chunks=20, epsilon=100.0)
    return seen


def test_a_chunk_has_neither_labels_nor_metadata_nor_categories_nor_the_order_of_the_table():
    chunks = chunks_of(table())
    assert len(chunks) == 20
    for chunk in chunks:
        assert chunk.index.equals(pd.RangeIndex(len(chunk)))
        assert not chunk.attrs
        categories = getattr(chunk["word"].dtype, "categories", chunk["word"])
        assert set(categories) == set(chunk["word"])
    assert not all(chunk["place"].is_monotonic_increasing for chunk in chunks)


def test_a_missing_value_changes_the_dtypes_of_no_other_chunk():
    gap = table().astype(object)
    gap.iloc[0] = None
    dtypes = []
    for X in (table(), gap.infer_objects()):
        whole = [chunk for chunk in chunks_of(X) if not chunk.isna().to_numpy().any()]
        dtypes.append({tuple(map(str, chunk.dtypes)) for chunk in whole})
    assert dtypes[0] == dtypes[1]
