"""Model files and domain files that are too large, or damaged: a clear error, before memory is taken."""

from __future__ import annotations

import io
import json
import tracemalloc
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, Interval
from skdp.domain import Domain

TABLE = pd.DataFrame({"a": [0, 1, 2, 0] * 50, "b": ["x", "y"] * 100, "age": np.arange(200.0) % 80})
DOMAIN = {"a": [0, 1, 2], "b": ["x", "y"], "age": Interval(0, 80, bins=4)}
FILE = io.BytesIO()
DPMarginalSynthesizer(1.0, domain=DOMAIN, random_state=0).fit(TABLE).save(FILE)
with ZipFile(FILE) as archive:
    PARTS = {name: archive.read(name) for name in archive.namelist()}
TOML = PARTS["domain.toml"].decode()


def written(parts, compression=ZIP_DEFLATED):
    file = io.BytesIO()
    with ZipFile(file, "w", compression) as made:
        for name, content in parts.items():
            made.writestr(name, content)
    return file


def with_header(**changes):
    header = json.loads(PARTS["header.json"])
    return PARTS | {"header.json": json.dumps(header | changes).encode()}


def refused(file, match):
    """Load a file, which must fail with little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=match):
            DPMarginalSynthesizer.load(file)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.long
def test_a_header_that_is_mostly_empty_lists():
    """Of 80 million lists, 238 kB took 6.1 GB."""
    bomb = b'{"x": [' + b"[]," * (24 << 20) + b"[]]}"
    file = written(PARTS | {"header.json": bomb})
    assert len(file.getvalue()) < 300_000
    refused(file, "header.*too long|too large")


@pytest.mark.long
def test_many_large_arrays_in_a_small_file():
    size = 1 << 22
    domain = f"[columns.x]\nlow = 0\nhigh = 1\nbins = {size}\n".encode()
    array = io.BytesIO()
    np.save(array, np.full(size, 1 / size))
    columns = [{"pandas": {"numpy": "<f8"}}]
    header = json.loads(with_header(
        cliques=[[0]], parents=[], n_features=1, others={"mapping": []},
        marginals=[{"clique": [0], "std_error": 1.0, "groups": None}] * 8,
        template={"library": "pandas", "columns": columns, "levels": [None]},
    )["header.json"])  # fmt: skip
    parts = {"header.json": json.dumps(header).encode(), "domain.toml": domain, "belief_0.npy": array.getvalue()}
    parts |= {f"marginal_{place}.npy": array.getvalue() for place in range(8)}
    file = written(parts)
    assert len(file.getvalue()) < 1 << 20
    refused(file, "too large")


def test_bins_are_counted_before_they_are_made():
    for text in (
        "[columns.x]\nlow = 0\nhigh = 1\nbins = 200_000_000",
        "[columns.x]\nlow = 2000-01-01\nhigh = 2001-01-01\nbins = 200_000_000",
        "".join(f"[columns.x{place}]\nlow = 0\nhigh = 1\nbins = 4_000_000\n" for place in range(100)),
    ):
        tracemalloc.start()
        with pytest.raises(ValueError, match="at most 4,194,304 bins"):
            Domain.from_toml(text)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()
        refused(written(PARTS | {"domain.toml": text.encode()}), "domain")
    with pytest.raises(ValueError, match="at most 4,194,304 bins"):
        Interval(0, 1, bins=200_000_000)
