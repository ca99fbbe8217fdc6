from __future__ import annotations

import contextlib
import pickle
from fractions import Fraction
from types import ModuleType

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import beta
from sklearn.base import clone

from skdp import BudgetExceeded, DPMarginalSynthesizer, Interval, PrivacyLedger
from skdp.base import coins
from skdp.privacy import largest_mu
from skdp.randomness import SeededSource
from skdp.synthesis import _synthesizer
from skdp.synthesis.selection import PrivateTable, _private_table
from skdp.synthesis.selection._private_table import NoiseBudget, largest_rho
from skdp.testing._tools import counted_draws, recorded_bytes
from tests.conftest import often

SECRET = "hunter2hunter2"
METHODS = ["auto", "independent", "tree", "adaptive", "full", [("a", "b"), ("b", "c")]]
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


@contextlib.contextmanager
def spied(monkeypatch):
    """Record each release: what for, of how many numbers or of which weight, and what its sampler was asked for."""
    calls = []
    with monkeypatch.context() as patch:
        for purpose in ("counts", "scores", "choose"):
            original = getattr(NoiseBudget, purpose)

            def release(self, source, share, table, weight=1, *, purpose=purpose, original=original):
                calls.append([purpose, weight if purpose == "choose" else table.size])
                arguments = (source, share, table, weight) if purpose == "choose" else (source, share, table)
                return original(self, *arguments)

            patch.setattr(NoiseBudget, purpose, release)
        for name in ("rounded_gaussian", "discrete_laplace", "cube_noise", "exponential_mechanism"):
            original = getattr(_private_table, name)

            def draw(source, first, second, name=name, original=original):
                calls[-1] += [name, second if name == "exponential_mechanism" else first]
                return original(source, first, second)

            patch.setattr(_private_table, name, draw)
        yield calls


def cost(reach, purpose, size, sampler, parameter):
    """What a release costs a person of so many rows, from the noise alone: epsilon, or mu squared."""
    if sampler == "exponential_mechanism":  # a score of weight w changes by w * reach
        return 2 * parameter * size * reach
    if sampler == "rounded_gaussian":  # counts change by reach together, scores by reach each
        return Fraction(reach**2 * (size if purpose == "scores" else 1)) / parameter
    assert (sampler, purpose) in {("discrete_laplace", "counts"), ("cube_noise", "scores")}
    return reach / parameter


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
    def test_the_whole_budget_is_spent_and_no_more(self, method, delta, monkeypatch):
        tables = []

        class Kept(PrivateTable):
            def __init__(self, *arguments, **keywords):
                super().__init__(*arguments, **keywords)
                tables.append(self)

        monkeypatch.setattr(_synthesizer, "PrivateTable", Kept)
        for epsilon in (0.01, 1, 1000):
            fitted(marginals=method, delta=delta, epsilon=epsilon)
            assert tables[-1].budget.left == 0

    @every_method
    @every_noise
    @pytest.mark.parametrize("reach", often([1, 3], [3]))
    def test_what_was_drawn_adds_up_to_the_promise(self, method, delta, reach, monkeypatch):
        # Computed anew from the noise that the samplers were asked for.
        with spied(monkeypatch) as calls:
            guarantee = fitted(marginals=method, delta=delta, max_rows_per_person=reach, epsilon=0.7).guarantee_
        if delta == 0:
            assert sum(cost(reach, *call) for call in calls) == Fraction(0.7)
            return
        loss = Fraction(0)
        for call in calls:
            # A choice of epsilon is epsilon**2 / 8 zero-concentrated, and rho = mu**2 / 2.
            loss += cost(reach, *call) ** 2 / 4 if call[0] == "choose" else cost(reach, *call)
        assert loss <= 2 * Fraction(guarantee.rho)
        assert float(loss) == pytest.approx(2 * guarantee.rho, rel=1e-9)
        limit = largest_rho(Fraction(0.7), Fraction(delta)) if method == "adaptive" else largest_mu(0.7, delta) ** 2 / 2
        assert guarantee.rho == pytest.approx(float(limit), rel=1e-9)

    @every_noise
    def test_with_a_target_the_two_lists_of_scores_are_both_paid_for(self, delta, monkeypatch):
        with spied(monkeypatch) as calls:
            guarantee = fitted(target="b", delta=delta, max_rows_per_person=3, epsilon=1000.0).guarantee_
        assert [call[1] for call in calls if call[0] == "scores"][:2] == [2, 1]
        promised = 1000 if delta == 0 else 2 * guarantee.rho
        assert float(sum(cost(3, *call) for call in calls)) == pytest.approx(promised, rel=1e-9)

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

    def test_groups_that_do_not_fit_cost_nothing(self):
        ledger = PrivacyLedger(epsilon=10)
        with counted_draws() as drawn, pytest.raises(ValueError, match="groups"):
            fitted(groups=[1, 2], ledger=ledger)
        assert (drawn[0], ledger.spent) == (0, (0, 0))


class TestReach:
    """What a person with k rows needs: all noise in proportion to k."""

    # What the others measure depends on the noise.
    @pytest.mark.parametrize("method", ["independent", "tree", "full", [("a", "b"), ("b", "c")]])
    @every_noise
    def test_all_noise_grows_with_the_rows_of_a_person(self, method, delta, monkeypatch):
        found = {}
        for reach in (1, 5):
            with spied(monkeypatch) as calls:
                synthesizer = fitted(marginals=method, delta=delta, max_rows_per_person=reach)
            found[reach] = calls
            assert all(scale > 0 for scale in synthesizer.noise_scale_.values())
        power = 1 if delta == 0 else 2
        shorter = 4 if method == "tree" else None  # three columns and the scores; then the pairs may be others
        wanted = [(*call[:3], call[3] * 5**power) for call in found[1][:shorter]]
        assert list(map(tuple, found[5][:shorter])) == wanted

    def test_a_choice_is_as_much_more_random(self, monkeypatch):
        parameters = {}
        for reach in (1, 5):
            with spied(monkeypatch) as calls:
                fitted(marginals="adaptive", max_rows_per_person=reach)
            parameters[reach] = next(call[3] for call in calls if call[0] == "choose")
        assert parameters[5] == parameters[1] / 5

    def test_of_each_person_so_many_rows_are_kept(self):
        groups = np.repeat(np.arange(4), [100, 50, 3, 1])
        frame = pd.DataFrame({"a": groups, "b": ["x"] * 154, "c": [1.0] * 154})
        for most in (1, 2, 3):
            counts = fitted(
                frame, groups=groups, max_rows_per_person=most, marginals=[("a",)], epsilon=1e6
            ).marginals_[0].counts  # fmt: skip
            assert counts.tolist() == [min(most, rows) for rows in (100, 50, 3, 1)]

    def test_without_groups_all_rows_are_kept(self):
        synthesizer = fitted(max_rows_per_person=4, epsilon=1e6, marginals="independent")
        assert synthesizer.n_rows_ == pytest.approx(N)

    @pytest.mark.parametrize("kind", [list, np.array, pd.Series, pl.Series, lambda values: pa.chunked_array([values])])
    def test_groups_of_any_kind(self, kind):
        synthesizer = fitted(groups=kind(["ann", "bob"] * 156 + ["cid"]), epsilon=1e6, marginals="independent")
        assert synthesizer.n_rows_ == pytest.approx(3)


class TestCoins:
    def test_without_a_seed_fits_differ_whatever_numpys_seed_is(self):
        drawn, samples = [], []
        one = DPMarginalSynthesizer(domain=DOMAIN, marginals="independent")
        for each in (one, one, clone(one), pickle.loads(pickle.dumps(one))):
            np.random.seed(0)  # noqa: NPY002
            with recorded_bytes() as found:
                each.fit(TABLE)
            drawn.append(bytes(found))
            samples += [each.sample(200).to_csv(), each.sample(200).to_csv()]
        assert len(set(drawn)) == 4
        assert len(set(samples)) == 8

    def test_samples_of_one_fit_differ_whatever_numpys_seed_is(self):
        synthesizer = DPMarginalSynthesizer(domain=DOMAIN, marginals="independent").fit(TABLE)
        samples = []
        for one in (synthesizer, synthesizer, pickle.loads(pickle.dumps(synthesizer)), synthesizer):
            np.random.seed(0)  # noqa: NPY002
            samples += [one.sample(200).to_csv(), one.transform(TABLE).to_csv()]
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


def parts(value, seen):
    """Walk over all that is reachable from an object."""
    if id(value) in seen or isinstance(value, type | ModuleType):
        return
    seen[id(value)] = value
    yield value
    if isinstance(value, dict):
        inner = [*value, *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        inner = list(value)
    elif isinstance(value, np.ndarray):
        inner = [value.base, *(value.ravel().tolist() if value.size < 10_000 else [])]
    elif isinstance(value, pd.DataFrame | pd.Series | pd.Index):
        inner = [vars(value)] if hasattr(value, "__dict__") else []
    else:
        inner = [
            *getattr(value, "__dict__", {}).values(),
            *(getattr(value, name, None) for name in getattr(type(value), "__slots__", ())),
        ]
    for one in inner:
        yield from parts(one, seen)


def tables_with_a_secret():
    frame = TABLE.astype({"a": object})
    frame.loc[7, ["b", "c"]] = [SECRET, 7.654321]
    frame.attrs["note"] = SECRET
    frame.index = pd.Index([f"{SECRET}{place}" for place in range(N)], name=SECRET)
    lists = frame.assign(a=TABLE["a"].to_numpy()).to_dict("list")
    arrow = pa.table(lists).replace_schema_metadata({"note": SECRET})
    return {
        "pandas": frame,
        "pandas category": frame.astype({"b": "category"}),
        "pandas arrow": frame.convert_dtypes(dtype_backend="pyarrow"),
        "polars": pl.DataFrame(lists),
        "pyarrow": arrow,
        "pyarrow dictionary": arrow.set_column(1, "b", arrow["b"].dictionary_encode()),
        "array": pd.DataFrame(lists).to_numpy(),
    }


@pytest.mark.parametrize("kind", tables_with_a_secret())
@pytest.mark.parametrize("method", ["auto", "adaptive", "full"])
def test_no_value_and_no_number_of_rows_stays_or_shows(kind, method, capsys):
    X = tables_with_a_secret()[kind]
    domain = {f"x{place}" if kind == "array" else name: DOMAIN[name] for place, name in enumerate("abc")}
    y = pd.Series(["no"] * (N - 1) + [SECRET], name="label")
    synthesizer = DPMarginalSynthesizer(
        domain=domain | {"label": ["no", "yes"]}, marginals=method, handle_unknown="ignore", verbose=True
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
    for part in parts(vars(synthesizer), {}):
        assert not (isinstance(part, str) and SECRET in part)
        assert not (isinstance(part, float) and part == 7.654321)
        assert not (isinstance(part, int | np.integer) and not isinstance(part, bool) and part in (N, N - 1, N - 2))
        assert not (isinstance(part, np.ndarray) and {N, N - 1, N - 2} & set(part.shape))
        assert not (hasattr(part, "__len__") and not isinstance(part, str | bytes) and len(part) in (N, N - 1, N - 2))


def test_the_pickles_of_a_large_and_a_small_table_are_of_one_size():
    sizes = {
        len(pickle.dumps(fitted(pd.concat([TABLE] * times), marginals="independent", epsilon=1e9)._template))
        for times in (1, 40)
    }
    assert len(sizes) == 1


# Adult's one person of 86 years must not show. Over 100 fits with her and 100 without, the chance that 86 appears in a
# sample may differ by a factor of e**epsilon (and of her absence likewise). Clopper-Pearson bounds at 1e-6 in all.
FITS, EPSILON, FALSE_ALARM = 100, 1.0, 1e-6


def upper(times):
    return beta.ppf(1 - FALSE_ALARM / 8, times + 1, FITS - times) if times < FITS else 1.0


def lower(times):
    return beta.ppf(FALSE_ALARM / 8, times, FITS - times + 1) if times else 0.0


def is_within_epsilon(with_her, without):
    return all(
        lower(one) <= np.exp(EPSILON) * upper(other)
        for one, other in [
            (with_her, without),
            (without, with_her),
            (FITS - with_her, FITS - without),
            (FITS - without, FITS - with_her),
        ]
    )


@pytest.fixture(scope="module")
def ages():
    from skdp.datasets import load_adult

    frame = load_adult().frame[["age"]]
    assert (frame["age"] == 86).sum() == 1
    return pd.concat([frame[frame["age"] == 86], frame[frame["age"] != 86].iloc[:1_999]])


@pytest.mark.long
@pytest.mark.parametrize("delta", often([0.0, 1e-9], [0.0]), ids=["laplace", "gaussian"])
def test_the_one_86_year_old_does_not_show(ages, delta):
    seen = []
    for rows in (ages, ages[ages["age"] != 86]):
        times = 0
        for seed in range(FITS):
            synthesizer = DPMarginalSynthesizer(
                EPSILON, delta=delta, domain={"age": list(range(17, 91))}, marginals="independent",
                random_state=seed + FITS * len(seen), max_iter=30,
            ).fit(rows)  # fmt: skip
            made = synthesizer.sample(2_000)["age"]
            assert made.between(17, 90).all()
            times += int((made == 86).any())
        seen.append(times)
    assert min(seen) > 0  # else there is nothing to compare
    assert is_within_epsilon(*seen)


@pytest.mark.long
@every_noise
def test_the_one_86_year_old_does_not_show_beside_other_columns(delta):
    """The whole of "auto": scores, groups of rare values, pairs and the second round."""
    from skdp.datasets import load_adult

    adult = load_adult()
    frame = adult.frame[["age", "sex", "income"]]
    domain = {"age": list(range(17, 91)), "sex": adult.domain["sex"], "income": adult.domain["income"]}
    seen = []
    for rows in (frame, frame[frame["age"] != 86]):
        times = 0
        for seed in range(FITS):
            synthesizer = DPMarginalSynthesizer(
                EPSILON, delta=delta, domain=domain, random_state=seed + FITS * len(seen)
            ).fit(rows)
            made = synthesizer.sample()["age"]
            assert made.between(17, 90).all()
            times += int((made == 86).any())
        seen.append(times)
    assert min(seen) > 0
    assert is_within_epsilon(*seen)


@pytest.mark.long
def test_a_domain_that_is_read_from_the_data_fails_the_same_check(ages):
    # As a crosstab does, which has a cell for each value that occurs: 86 is there with her, and never without.
    def shows(rows, seed):
        synthesizer = DPMarginalSynthesizer(
            EPSILON, domain={"age": sorted(set(rows["age"]))}, marginals="independent", random_state=seed, max_iter=30
        ).fit(rows)
        return bool((synthesizer.sample(2_000)["age"] == 86).any())

    assert not shows(ages[ages["age"] != 86], 0)  # and for no seed: it is not in that domain
    assert not is_within_epsilon(sum(shows(ages, seed) for seed in range(FITS)), 0)


@pytest.mark.secure
def test_the_noise_is_of_secure_coins_only():
    with recorded_bytes() as found, counted_draws() as drawn:
        fitted(random_state=None)
    assert drawn[0] == len(found) > 100
