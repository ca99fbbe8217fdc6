from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, Interval
from skdp.randomness import SeededSource
from tests.conftest import counted_draws

rng = np.random.default_rng(0)
N = 313
TABLE = pd.DataFrame(
    {"a": rng.integers(0, 4, N), "b": rng.choice(["x", "y", "z"], N), "c": rng.uniform(0, 10, N).round(2)}
)
TABLE["b"] = TABLE["b"].where(TABLE["a"] < 2, "x")
DOMAIN = {"a": [0, 1, 2, 3], "b": ["x", "y", "z"], "c": Interval(0, 10, bins=4, decimals=2)}

every_noise = pytest.mark.parametrize("delta", [0.0, 1e-9], ids=["laplace", "gaussian"])


def fitted(X=TABLE, **parameters):
    groups = parameters.pop("groups", None)
    parameters = {"domain": DOMAIN, "random_state": 0} | parameters
    return DPMarginalSynthesizer(**parameters).fit(X, groups=groups)


class TestCoins:
    def test_sampling_draws_none_of_the_coins_of_the_noise(self):
        for seed in (None, 0):
            synthesizer = fitted(random_state=seed)
            with counted_draws() as drawn:
                synthesizer.sample(100), synthesizer.transform(TABLE)
            assert drawn[0] == 0

    @every_noise
    def test_with_fixed_marginals_what_is_drawn_does_not_depend_on_the_table(self, delta):
        drawn = []
        for rows in (TABLE, TABLE.iloc[:7], TABLE.iloc[:0], TABLE.assign(b="x")):
            streams = []
            original = SeededSource.bytes

            def record(self, size, original=original, streams=streams):
                streams.append(original(self, size).tobytes())
                return np.frombuffer(streams[-1], np.uint8)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(SeededSource, "bytes", record)
                fitted(rows, marginals="independent", delta=delta)
            drawn.append(b"".join(streams))
        assert len(set(drawn)) == 1
