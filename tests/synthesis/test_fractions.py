"""Numbers with a fraction, where an Interval declares whole ones."""

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import DPMarginalSynthesizer, Interval

N = 400
AMOUNTS = np.round(np.random.default_rng(0).uniform(0, 50, N), 2)
WHOLE = {"amount": Interval(0, 64, bins=8), "sex": ["f", "m"]}
TABLE = pd.DataFrame({"amount": AMOUNTS, "sex": ["f", "m"] * (N // 2)})


def fitted(table=TABLE, domain=WHOLE, **parameters):
    given = {"delta": 1e-6, "random_state": 0}
    return DPMarginalSynthesizer(domain=domain, **given | parameters).fit(table)


LIBRARIES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.Table.from_pandas,
    "lazy polars": lambda table: pl.from_pandas(table).lazy(),
    "duckdb": duckdb.from_df,
}


POLICIES = ["error", "ignore", "clip", {"amount": 60}]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("library", LIBRARIES)
def test_they_are_counted_in_their_bins(library, policy):
    made = fitted(LIBRARIES[library](TABLE), handle_unknown=policy, epsilon=100)
    drawn = nw.from_native(made.sample(N)).get_column("amount").to_numpy()
    assert drawn.dtype.kind == "i"
    assert abs(made.n_rows_ - N) < 4
    bins = [np.bincount(WHOLE["amount"].encode(numbers), minlength=8) for numbers in (AMOUNTS, drawn)]
    assert abs(bins[0] - bins[1]).max() < 4
