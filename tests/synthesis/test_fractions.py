"""Numbers with a fraction, where an Interval declares whole ones."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import DPMarginalSynthesizer, Interval, PrivacyLedger

N = 400
AMOUNTS = np.round(np.random.default_rng(0).uniform(0, 50, N), 2)
WHOLE = {"amount": Interval(0, 64, bins=8), "sex": ["f", "m"]}
TABLE = pd.DataFrame({"amount": AMOUNTS, "sex": ["f", "m"] * (N // 2)})


def fitted(table=TABLE, domain=WHOLE, **parameters):
    given = {"delta": 1e-6, "random_state": 0}
    return DPMarginalSynthesizer(domain=domain, **given | parameters).fit(table)


LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table.from_pandas}


@pytest.mark.parametrize("library", [*LIBRARIES, "lazy polars"])
def test_they_are_refused_before_a_charge(library):
    lazy = library == "lazy polars"
    table = pl.from_pandas(TABLE).lazy() if lazy else LIBRARIES[library](TABLE)
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-3)
    with pytest.raises(ValueError, match=r"column 'amount' holds .*whole numbers: set decimals=") as error:
        fitted(table, ledger=ledger)
    assert ledger.spent.epsilon == 0
    assert not any(str(amount) in str(error.value) for amount in AMOUNTS if amount != 0.75)


def test_other_policies_are_those_of_undeclared_values():
    assert fitted(handle_unknown="ignore", epsilon=100).n_rows_ < 20
    replaced = fitted(handle_unknown={"amount": 60}, epsilon=100)
    assert replaced.sample(50)["amount"].median() == 60
    dropped = fitted(handle_unknown="clip", epsilon=100).sample(2_000)["amount"]
    assert dropped.dtype == np.int64
    assert abs(dropped.mean() - np.trunc(AMOUNTS).mean()) < 2


@pytest.mark.parametrize("declared", [{"decimals": 2}, {"real": True}])
def test_declared_fractions_are_kept(declared):
    domain = WHOLE | {"amount": Interval(0, 64, bins=8, **declared)}
    amounts = fitted(domain=domain).sample(200)["amount"]
    assert (amounts % 1 != 0).any()


def test_whole_floats_are_whole_numbers():
    table = TABLE.assign(amount=np.trunc(AMOUNTS))
    amounts = fitted(table).sample(200)["amount"]
    assert amounts.dtype == np.int64
