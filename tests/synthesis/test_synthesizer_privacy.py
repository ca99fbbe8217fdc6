from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, Interval, PrivacyLedger
from skdp.privacy import largest_mu
from skdp.randomness import SeededSource
from tests.conftest import counted_draws
from tests.synthesis.budgets import recorded_draws

METHODS = ["auto", "independent", "full", [("a", "b"), ("b", "c")]]
rng = np.random.default_rng(0)
N = 313
TABLE = pd.DataFrame(
    {"a": rng.integers(0, 4, N), "b": rng.choice(["x", "y", "z"], N), "c": rng.uniform(0, 10, N).round(2)}
)
TABLE["b"] = TABLE["b"].where(TABLE["a"] < 2, "x")
DOMAIN = {"a": [0, 1, 2, 3], "b": ["x", "y", "z"], "c": Interval(0, 10, bins=4, decimals=2)}

every_method = pytest.mark.parametrize(
    "method", METHODS, ids=lambda method: method if isinstance(method, str) else "list"
)
every_noise = pytest.mark.parametrize("delta", [0.0, 1e-9], ids=["laplace", "gaussian"])


def fitted(X=TABLE, **parameters):
    groups = parameters.pop("groups", None)
    parameters = {"domain": DOMAIN, "random_state": 0} | parameters
    return DPMarginalSynthesizer(**parameters).fit(X, groups=groups)


class TestAccount:
    @every_method
    @every_noise
    @pytest.mark.parametrize("reach", [1, 3])
    def test_what_was_drawn_adds_up_to_the_promise(self, method, delta, reach):
        """Computed anew from the noise that was drawn; with a target, there are two lists of scores."""
        for epsilon, target in ((0.01, None), (0.7, None), (1000, "b" if method == "auto" else None)):
            ledger = PrivacyLedger(epsilon=2000, delta=0.5)
            with recorded_draws() as draws:
                given = {"delta": delta, "max_rows_per_person": reach, "epsilon": epsilon, "target": target}
                guarantee = fitted(marginals=method, ledger=ledger, **given).guarantee_
            assert ledger.spent == (guarantee.epsilon, guarantee.delta) == (epsilon, delta)
            loss = sum(draw.loss(reach) for draw in draws)
            assert guarantee.max_rows_per_person == reach
            if target is not None:
                assert [draw.size for draw in draws if draw.purpose == "scores"][:2] == [2, 1]
            if delta == 0:
                assert loss == Fraction(epsilon)
                continue
            assert loss <= 2 * Fraction(guarantee.rho) * (1 + Fraction(1, 10**12))
            assert float(loss) == pytest.approx(largest_mu(epsilon, delta) ** 2, rel=1e-9)


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
