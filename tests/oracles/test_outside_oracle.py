"""An oracle of another package becomes an encoder with permanent reports and audits by its registration alone.

The tests of every oracle also run on it.
"""

import numpy as np
import pandas as pd
import pytest

from skdp import FrequencyOracleEncoder
from skdp.local import SecretKey
from skdp.oracles import ORACLES
from tests.oracles.outside_oracle import FlippedBits

K, N, KEY = 5, 40_000, SecretKey(b"a key that everybody knows, for tests")
CODES = np.repeat(np.arange(K), [N // 2, N // 4, N // 8, N // 16, N // 16]).astype(np.uint8)


@pytest.mark.parametrize("memoize", [False, True])
def test_registered_oracle_is_an_encoder(monkeypatch, memoize):
    monkeypatch.setitem(ORACLES, "outside", FlippedBits)
    frame = pd.DataFrame({"x": CODES[:4_000]})
    given = {"memoize": True, "secret_key": KEY} if memoize else {"random_state": 0}
    encoder = FrequencyOracleEncoder(1.0, oracle="outside", categories={"x": range(K)}, **given).fit(frame)
    reports = encoder.transform(frame, person=list(range(4_000)) if memoize else None)
    assert list(reports) == [f"x_{value}" for value in range(K)]
    estimate = encoder.estimate_counts(reports)
    assert (abs(estimate["count"] - np.bincount(CODES[:4_000], minlength=K)) < 5 * estimate["std_error"]).all()
