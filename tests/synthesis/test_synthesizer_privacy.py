from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from skdp import BudgetExceeded, DPMarginalSynthesizer, Interval, PrivacyLedger
from skdp.base import coins
from skdp.privacy import largest_mu
from skdp.randomness import SeededSource
from skdp.synthesis.selection import STRATEGIES
from tests.conftest import counted_draws
from tests.synthesis.budgets import recorded_draws

SECRET = "hunter2hunter2"
METHODS = [*STRATEGIES, [("a", "b"), ("b", "c")]]
rng = np.random.default_rng(0)
N = 313
TABLE = pd.DataFrame(
    {"a": rng.integers(0, 4, N), "b": rng.choice(["x", "y", "z"], N), "c": rng.uniform(0, 10, N).round(2)}
)
TABLE["b"] = TABLE["b"].where(TABLE["a"] < 2, "x")
DOMAIN = {"a": [0, 1, 2, 3], "b": ["x", "y", "z"], "c": Interval(0, 10, bins=4)}

every_method = pytest.mark.parametrize(
    "method", METHODS, ids=lambda method: method if isinstance(method, str) else "list"
)
every_noise = pytest.mark.parametrize("delta", [0.0, 1e-9], ids=["laplace", "gaussian"])


def fitted(X=TABLE, **parameters):
    groups = parameters.pop("groups", None)
    parameters = {"domain": DOMAIN, "random_state": 0, "max_iter": 50} | parameters
    return DPMarginalSynthesizer(**parameters).fit(X, groups=groups)


class TestAccount:
    @every_method
    @every_noise
    def test_the_ledger_is_charged_exactly_what_is_promised_before_anything_is_drawn(self, method, delta):
        drawn_at_charge = []

        class Watching(PrivacyLedger):
            def charge(self, guarantee, what):
                drawn_at_charge.append(drawn[0])
                super().charge(guarantee, what)

        ledger = Watching(epsilon=10, delta=0.5)
        with counted_draws() as drawn:
            synthesizer = fitted(marginals=method, delta=delta, ledger=ledger, random_state=None, epsilon=0.7)
            assert ledger.spent == (0.7, delta)
            assert drawn_at_charge == [0]
            assert drawn[0] > 0
            synthesizer.sample(50), synthesizer.transform(TABLE), synthesizer.marginal(["a", "b"])
            synthesizer.score(TABLE), synthesizer.count({"a": 1}), synthesizer.range_count("c", 1, 2)
            assert len(drawn_at_charge) == 1
            before = drawn[0]
            synthesizer.fit(TABLE)
        assert drawn_at_charge == [0, before]
        assert ledger.spent[0] == pytest.approx(1.4)
        assert ledger.spent[1] == pytest.approx(2 * delta)
        guarantee = synthesizer.guarantee_
        assert (guarantee.epsilon, guarantee.delta) == (0.7, delta)
        assert (guarantee.relation, guarantee.trust, guarantee.scope) == ("add_remove", "central", ("a", "b", "c"))
        assert guarantee.secure

    @every_method
    @every_noise
    @pytest.mark.parametrize("reach", [1, 3])
    def test_what_was_drawn_adds_up_to_the_promise(self, method, delta, reach):
        """Computed anew from the noise that was drawn; with a target, there are two lists of scores."""
        for epsilon, target in ((0.01, None), (0.7, None), (1000, "b" if method == "auto" else None)):
            with recorded_draws() as draws:
                given = {"delta": delta, "max_rows_per_person": reach, "epsilon": epsilon, "target": target}
                guarantee = fitted(marginals=method, **given).guarantee_
            loss = sum(draw.loss(reach) for draw in draws)
            assert guarantee.max_rows_per_person == reach
            if target is not None:
                assert [draw.size for draw in draws if draw.purpose == "scores"][:2] == [2, 1]
            if delta == 0:
                assert loss == Fraction(epsilon)
                continue
            assert loss <= 2 * Fraction(guarantee.rho) * (1 + Fraction(1, 10**12))
            assert float(loss) == pytest.approx(largest_mu(epsilon, delta) ** 2, rel=1e-9)

    @every_method
    @every_noise
    def test_over_the_budget_nothing_is_drawn_and_nothing_is_left(self, method, delta):
        ledger = PrivacyLedger(epsilon=0.5, delta=0.1)
        refused = DPMarginalSynthesizer(domain=DOMAIN, marginals=method, delta=delta, ledger=ledger)
        with counted_draws() as drawn, pytest.raises(BudgetExceeded):
            refused.fit(TABLE)
        assert drawn[0] == 0
        assert not [
            name for name in vars(refused) if name.endswith("_") and name not in ("n_features_in_", "feature_names_in_")
        ]

    @pytest.mark.parametrize(
        "spoil",
        [lambda X: X.assign(b=SECRET), lambda X: X.assign(c=-77777.5), lambda X: X.assign(a=[[SECRET]] * N)],
    )
    def test_bad_rows_cost_nothing_and_do_not_show(self, spoil):
        ledger = PrivacyLedger(epsilon=10)
        with counted_draws() as drawn, pytest.raises((TypeError, ValueError)) as caught:
            fitted(spoil(TABLE), ledger=ledger)
        assert SECRET not in str(caught.value)
        assert "77777" not in str(caught.value)
        assert (drawn[0], ledger.spent) == (0, (0, 0))


class TestReach:
    """What a person with k rows needs: all noise in proportion to k."""

    def test_of_each_person_so_many_rows_are_kept(self):
        groups = np.repeat(np.arange(4), [100, 50, 3, 1])
        frame = pd.DataFrame({"a": groups, "b": ["x"] * 154, "c": [1.0] * 154})
        for most in (1, 2, 3):
            counts = fitted(
                frame, groups=groups, max_rows_per_person=most, marginals=[("a",)], epsilon=1e6
            ).marginals_[0].counts  # fmt: skip
            assert counts.tolist() == [min(most, rows) for rows in (100, 50, 3, 1)]


class TestCoins:
    def test_without_a_seed_fits_differ_whatever_numpys_seed_is(self):
        drawn, samples = [], []
        one = DPMarginalSynthesizer(domain=DOMAIN, marginals="independent")
        for each in (one, one, clone(one), pickle.loads(pickle.dumps(one))):
            np.random.seed(0)  # noqa: NPY002
            drawn.append(repr([marginal.counts for marginal in each.fit(TABLE).marginals_]))
            samples += [each.sample(200).to_csv(), each.sample(200).to_csv()]
        assert len(set(drawn)) == 4
        assert len(set(samples)) == 8

    @every_method
    @every_noise
    def test_a_seed_replays(self, method, delta):
        one, two, other = (fitted(marginals=method, delta=delta, random_state=seed) for seed in (3, 3, 4))
        assert [m.counts.tolist() for m in one.marginals_] == [m.counts.tolist() for m in two.marginals_]
        assert [m.counts.tolist() for m in one.marginals_] != [m.counts.tolist() for m in other.marginals_]
        first = one.sample(100)
        pd.testing.assert_frame_equal(first, two.sample(100))
        assert not first.equals(one.sample(100))  # the next call
        pd.testing.assert_frame_equal(first, pickle.loads(pickle.dumps(one)).sample(100))

    def test_sampling_draws_none_of_the_coins_of_the_noise(self):
        for seed in (None, 0):
            synthesizer = fitted(random_state=seed)
            with counted_draws() as drawn:
                synthesizer.sample(100), synthesizer.transform(TABLE)
            assert drawn[0] == 0

    def test_a_seeded_sample_is_of_another_stream_than_the_noise(self):
        # The noise comes of a hash of the seed, samples of NumPy's generator with the name of the call.
        source = coins(0, "DPMarginalSynthesizer")
        streams = {fitted()._generator(name, call).bytes(8) for name in ("sample", "transform") for call in range(3)}
        assert len(streams | {source.bytes(8).tobytes()}) == 7

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


def tables_with_a_secret():
    frame = TABLE.astype({"a": object})
    frame.loc[7, ["b", "c"]] = [SECRET, 7.654321]
    frame.attrs["note"] = SECRET
    frame.index = pd.Index([f"{SECRET}{place}" for place in range(N)], name=SECRET)
    lists = frame.assign(a=TABLE["a"].to_numpy()).to_dict("list")
    arrow = pa.table(lists).replace_schema_metadata({"note": SECRET})
    return {
        "pandas": frame,
        "polars": pl.DataFrame(lists),
        "pyarrow": arrow,
        "pyarrow dictionary": arrow.set_column(1, "b", arrow["b"].dictionary_encode()),
    }


@pytest.mark.parametrize("kind", tables_with_a_secret())
def test_no_value_stays_or_shows(kind, capsys):
    X = tables_with_a_secret()[kind]
    y = pd.Series(["no"] * (N - 1) + [SECRET], name="label")
    synthesizer = DPMarginalSynthesizer(
        domain=DOMAIN | {"label": ["no", "yes"]}, handle_unknown="ignore", verbose=True
    ).fit(X, y)
    synthesizer.sample(3), synthesizer.transform(X)
    said = capsys.readouterr()
    assert said.err
    said = said.out + said.err
    pickled = pickle.dumps(synthesizer)
    shown = repr(synthesizer) + synthesizer._repr_html_()
    for text in (said, shown, repr(synthesizer.guarantee_), repr(vars(synthesizer))):
        assert SECRET not in text
        assert "7.654321" not in text
    assert SECRET.encode() not in pickled
    assert np.float64(7.654321).tobytes() not in pickled
