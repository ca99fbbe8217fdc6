"""Targets beside a table of another library: no record determines whether the column can be converted."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import DPMarginalSynthesizer
from skdp.testing import list_error_texts
from tests.conftest import diagonal

SECRET = "s3cr3t"
N = 40
LABELS = ["u", "w"] * (N // 2)
TABLES = {
    "pandas": pd.DataFrame({"k": LABELS}),
    "polars": pl.DataFrame({"k": LABELS}),
    "pyarrow": pa.table({"k": LABELS}),
    "numpy": np.array(LABELS, object)[:, np.newaxis],
}


def objects(values):
    return pd.Series(values, name="c", dtype=object)


def whole_numbers(values):
    return pl.Series("c", values, dtype=pl.Int128)


def days(values):
    return pl.Series("c", [(value - date(1970, 1, 1)).days if isinstance(value, date) else value for value in values],
                     dtype=pl.Int32).cast(pl.Date)  # fmt: skip


def texts(values):
    parts = pa.array([value.encode() if isinstance(value, str) else value for value in values], pa.binary())
    return pa.chunked_array([pa.Array.from_buffers(pa.string(), len(parts), parts.buffers())])


DAY = date(2020, 1, 1)
# For each: how the column is made, its declaration, another value, and a value outside other libraries.
KINDS = {
    "text among numbers": (objects, [0, 1], 7, SECRET),
    "long number": (objects, [0, 1], 7, 2**70),
    "number among texts": (objects, ["a", "b"], "z", 987_654_321),
    "surrogate": (objects, ["a", "b"], "z", "\ud800" + SECRET),
    "text among dates": (objects, [DAY, date(2020, 1, 2)], date(1990, 1, 1), SECRET),
    "128 bits": (whole_numbers, [0, 1], 7, 2**70 + 987),
    "far date": (days, [DAY, date(2020, 1, 2)], date(1990, 1, 1), 2 * 10**9),
    "no text": (texts, ["a", "b"], "z", b"\xff" + SECRET.encode()),
}


def target(kind, last):
    make, declared, _, _ = KINDS[kind]
    return make(declared * (N // 2 - 1) + [declared[0], last])


@pytest.mark.parametrize(("kind", "library"), diagonal(KINDS, TABLES))
def test_value_beyond_a_library_is_treated_as_unknown(library, kind, capfd):
    _, declared, *values = KINDS[kind]
    domain = {"x0" if library == "numpy" else "k": ["u", "w"], "target" if kind == "no text" else "c": declared}
    releases, messages = [], []
    for last in values:
        synthesizer = DPMarginalSynthesizer(1.0, domain=domain, random_state=0)
        with pytest.raises(ValueError, match="contains a value") as caught:
            synthesizer.fit(TABLES[library], target(kind, last))
        messages.append(list(list_error_texts(caught.value)))
        assert caught.value.__context__ is None
        synthesizer.set_params(handle_unknown="ignore").fit(TABLES[library], target(kind, last))
        counts = [marginal.counts.tolist() for marginal in synthesizer.marginals_]
        rows = synthesizer.sample(9)
        releases.append((counts, repr(rows), str(getattr(rows, "schema", getattr(rows, "dtypes", "")))))
    assert messages[0] == messages[1]
    assert releases[0] == releases[1]
    assert capfd.readouterr().err == ""
