"""A table from randomised reports: the same model as a curator's, from the reports."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from skdp import (
    DPMarginalSynthesizer,
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    Interval,
    LocalHashingEncoder,
    LocalTableEncoder,
    NumericPerturber,
    PosteriorFeatures,
    PrivacyLedger,
    RandomizedResponseEncoder,
    RapporEncoder,
    ReportSynthesizer,
    ReportTally,
    SecretKey,
    UnaryEncodingTransformer,
    privacy_statement,
)
from skdp.local import TableTally
from tests.conftest import each, often

DOMAIN = {"a": ["x", "y", "z"], "b": [0, 1], "c": ["no", "yes"]}
N = 4_000


def table(n=N, seed=0):
    """Return a table in which b follows a, and c is by itself."""
    rng = np.random.default_rng(seed)
    a = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    b = np.where(rng.random(n) < 0.85, a > 0, rng.random(n) < 0.5).astype(int)
    return pd.DataFrame({"a": np.array(["x", "y", "z"])[a], "b": b, "c": np.where(rng.random(n) < 0.3, "yes", "no")})


def split(epsilon=6.0, **parameters):
    return RandomizedResponseEncoder(epsilon, categories=DOMAIN, random_state=0, **parameters)


def fitted(encoder, X=None, **parameters):
    X = table() if X is None else X
    return ReportSynthesizer(encoder.fit(X), random_state=0, **parameters).fit(encoder.transform(X))


ENCODERS = {
    "split response": split,
    "joint response": lambda epsilon: split(epsilon, strategy="joint"),
    "bits": lambda epsilon: UnaryEncodingTransformer(epsilon, categories=DOMAIN, random_state=0),
    "hashes": lambda epsilon: LocalHashingEncoder(epsilon, categories=DOMAIN, random_state=0),
    "Hadamard": lambda epsilon: HadamardResponseEncoder(epsilon, categories=DOMAIN, random_state=0),
    "joint Hadamard": lambda epsilon: HadamardResponseEncoder(
        epsilon, categories=DOMAIN, strategy="joint", random_state=0
    ),
    "best oracle": lambda epsilon: FrequencyOracleEncoder(epsilon, categories=DOMAIN, random_state=0),
    "pairs": lambda epsilon: LocalTableEncoder(epsilon, categories=DOMAIN, purpose="pairs", random_state=0),
    "overlapping": lambda epsilon: LocalTableEncoder(
        epsilon, categories=DOMAIN, purpose="pairs", strategy="overlapping", random_state=0
    ),
    "sampled": lambda epsilon: LocalTableEncoder(
        epsilon, categories=DOMAIN, purpose="pairs", strategy="weighted", random_state=0
    ),
}


@pytest.mark.chosen("split response", "overlapping", "joint Hadamard")
@pytest.mark.parametrize("name", often(ENCODERS, ["split response", "bits", "hashes", "joint Hadamard", "overlapping"]))
def test_finds_what_goes_together(name):
    X = table(20_000)
    synthesizer = fitted(ENCODERS[name](8.0), X)
    assert synthesizer.pair_scores_.loc[("a", "b"), "chosen"]
    assert synthesizer.pair_scores_["gain"].round(2).to_dict()[("a", "c")] <= 0.02
    assert synthesizer.pair_scores_.index[0] == ("a", "b")
    found = synthesizer.marginal(["b", "a"]).set_index(["b", "a"])
    true = X.value_counts(["b", "a"]).reindex(found.index)
    assert np.abs(found["count"] - true).sum() / 2 / len(X) < 0.05
    if name != "joint Hadamard":  # whose margins have no closed form
        assert (np.abs(found["count"] - true) < 5 * found["std_error"]).all()


@pytest.mark.chosen("pairs")
@pytest.mark.parametrize("name", often(["split response", "joint response", "pairs"], ["joint response", "pairs"]))
def test_without_noise_the_model_is_a_curators(name):
    X = table()
    cliques = [("a", "b"), ("b", "c")]
    curator = DPMarginalSynthesizer(1e6, domain=DOMAIN, marginals=cliques, random_state=0).fit(X)
    local = fitted(ENCODERS[name](60.0), X, marginals=cliques)
    for columns in (*cliques, ("a", "c"), ("a", "b", "c")):
        np.testing.assert_allclose(local.marginal(columns)["count"], curator.marginal(columns)["count"], atol=3)
    assert local.count({"a": "x", "c": "yes"}) == pytest.approx(curator.count({"a": "x", "c": "yes"}), abs=3)


def test_columns_of_one_group_are_taken_together():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (4_000, 2)), columns=["a", "b"])
    X["c"] = X["a"] ^ X["b"]  # all pairs are independent
    encoder = RandomizedResponseEncoder(4.0, categories={name: [0, 1] for name in X}, strategy="joint", random_state=0)
    synthesizer = ReportSynthesizer(encoder.fit(X)).fit(encoder.transform(X))
    assert synthesizer.selected_cliques_[3:] == [("a", "b", "c")]
    assert synthesizer.count({"a": 1, "b": 1, "c": 1}) < 100
    assert synthesizer.count({"a": 1, "b": 1, "c": 0}) == pytest.approx(1_000, abs=100)


def test_what_is_within_a_larger_marginal_is_measured_once():
    encoder = split(4.0, strategy="joint")
    alone, both = (fitted(encoder, marginals=given) for given in ([("a", "b", "c")], [("a", "b", "c"), ("a", "b")]))
    pd.testing.assert_frame_equal(alone.marginal(["a", "b", "c"]), both.marginal(["a", "b", "c"]))


@pytest.mark.parametrize("parity", [False, True])
def test_a_triple_is_taken_for_what_its_pairs_do_not_say(parity):
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 3, (2, 20_000))
    other = rng.choice(3, 20_000, p=[0.6, 0.3, 0.1])
    near = np.where(rng.random(20_000) < 0.6, first, second)
    third = np.where(rng.random(20_000) < 0.7, (first + second) % 3, other)
    X = pd.DataFrame({"a": first, "b": second if parity else near, "c": third if parity else other})
    encoder = FrequencyOracleEncoder(3.0, strategy="joint", categories=dict.fromkeys("abc", range(3)), random_state=0)
    synthesizer = fitted(encoder, X)
    together = [clique for clique in synthesizer.selected_cliques_ if len(clique) > 1]
    assert together == [("a", "b", "c") if parity else ("a", "b")]


@pytest.mark.long
def test_independent_columns_are_found_to_be_so():
    rng = np.random.default_rng(1)
    for seed in range(5):
        X = pd.DataFrame({name: rng.integers(0, 4, 2_000) for name in "abcde"})
        encoder = RandomizedResponseEncoder(6.0, categories={name: range(4) for name in "abcde"}, random_state=seed)
        synthesizer = ReportSynthesizer(encoder.fit(X)).fit(encoder.transform(X))
        assert len(synthesizer.selected_cliques_) == 5
        assert not synthesizer.pair_scores_["chosen"].any()
        assert len(synthesizer.pair_scores_) == 10


def test_noise_hides_what_goes_together():
    ratios = [fitted(split(epsilon)).pair_scores_.loc[("a", "b"), "log_ratio"] for epsilon in (0.5, 3.0, 12.0)]
    assert ratios[0] < 3 < 5 * ratios[1] < ratios[2]
    assert len(fitted(split(0.5)).selected_cliques_) == 3


def test_the_guarantee_is_that_of_the_reports_and_nothing_is_charged():
    ledger = PrivacyLedger(epsilon=2.0)
    X = table()
    encoder = RandomizedResponseEncoder(2.0, categories=DOMAIN, ledger=ledger).fit(X)
    reports = encoder.transform(X)
    before = ledger.report()
    synthesizer = ReportSynthesizer(encoder).fit(reports)
    synthesizer.sample()
    pd.testing.assert_frame_equal(ledger.report(), before)
    assert synthesizer.guarantee_ == encoder.guarantee_
    assert (synthesizer.guarantee_.trust, synthesizer.guarantee_.relation) == ("local", "replace")
    statement = privacy_statement(synthesizer)
    assert statement.total == encoder.guarantee_
    assert "nobody who receives reports" in statement.to_html()


def test_after_the_encoder_in_a_pipeline_nothing_more_is_released():
    X = table(200)
    encoder = split(2.0, strategy="joint").fit(X)
    for last in (ReportSynthesizer(encoder), PosteriorFeatures(FrozenEstimator(encoder), privatize=False)):
        model = make_pipeline(FrozenEstimator(encoder), last).fit(X)
        assert privacy_statement(model, X).total == encoder.guarantee_
        alone = privacy_statement(last.fit(encoder.transform(X)))
        assert alone.total == encoder.guarantee_


def test_the_tally_of_a_group_tells_as_much_as_the_reports():
    X, encoder = table(), split(4.0, strategy="joint")
    reports = encoder.fit(X).transform(X)
    models = [ReportSynthesizer(encoder).fit(given).model_ for given in (reports, encoder.tally(reports))]
    for one, other in zip(models[0].beliefs, models[1].beliefs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_tally_of_columns_apart_has_lost_what_goes_together():
    X, encoder = table(), split()
    reports = encoder.fit(X).transform(X)
    with pytest.warns(UserWarning, match="modelled as independent"):
        synthesizer = ReportSynthesizer(encoder).fit(encoder.tally(reports))
    assert synthesizer.selected_cliques_ == [("a",), ("b",), ("c",)]
    assert not synthesizer.marginal(["a", "b"])["supported"].any()
    assert (synthesizer.marginal(["a", "b"])[["lower", "upper"]] == [0, len(X)]).all(axis=None)
    asked = ReportSynthesizer(encoder, marginals="independent")
    same = asked.fit(encoder.tally(reports)).marginal("a")  # no warning: it was asked for
    np.testing.assert_allclose(same["count"], asked.fit(reports).marginal("a")["count"])
    sampled = split(strategy="sample").fit(X)
    with pytest.warns(UserWarning, match="modelled as independent"):
        ReportSynthesizer(sampled).fit(sampled.transform(X))


def test_a_table_tally_tells_of_its_groups():
    X = table()
    encoder = LocalTableEncoder(6.0, categories=DOMAIN, purpose="pairs", strategy="groups", random_state=0).fit(X)
    tally = TableTally.from_json(encoder.tally(encoder.transform(X)).to_json())
    groups = [group for group in encoder.plan_.groups if len(group) > 1]
    assert groups
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        scores = ReportSynthesizer(encoder).fit(tally).pair_scores_
    assert len(scores) == sum(len(group) * (len(group) - 1) // 2 for group in groups)


def test_reports_and_protocol_from_files(tmp_path):
    X, encoder = table(), split()
    encoder.fit(X).save(tmp_path / "protocol.json")
    encoder.transform(X).to_csv(tmp_path / "reports.csv", index=False)
    other = RandomizedResponseEncoder.load(tmp_path / "protocol.json")
    synthesizer = ReportSynthesizer(other).fit(pd.read_csv(tmp_path / "reports.csv"))
    np.testing.assert_allclose(synthesizer.marginal("a")["count"], fitted(split()).marginal("a")["count"])


@pytest.mark.chosen("polars", "pyarrow")
@pytest.mark.parametrize("encoder", [split(), ENCODERS["bits"](6.0)], ids=["values", "bits"])
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "numpy"])
def test_rows_are_of_the_kind_of_the_reports(kind, encoder):
    X = table(500)
    made = {
        "pandas": X,
        "polars": polars.from_pandas(X),
        "pyarrow": pyarrow.Table.from_pandas(X),
        "numpy": X.to_numpy(object),
    }[kind]
    if kind == "numpy":
        encoder = clone(encoder).set_params(categories=list(DOMAIN.values()))
    reports = encoder.fit(made).transform(made)
    rows = ReportSynthesizer(encoder, random_state=0).fit(reports).sample(20)
    assert type(rows) is type(made)
    assert len(rows) == 20
    frame = pd.DataFrame(rows) if kind == "numpy" else rows if kind == "pandas" else rows.to_pandas()
    for column, values in zip(frame.columns, DOMAIN.values(), strict=True):
        assert set(frame[column]) <= set(values)
    if kind != "numpy":
        assert list(frame.columns) == [*DOMAIN]
        assert frame["b"].dtype == "int64"


def test_numbers_in_bins_missing_values_and_dates():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.integers(0, 90, 2_000).astype(float), "job": rng.choice(["clerk", None], 2_000)})
    X["day"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 10, 2_000), "D")
    days = Interval(edges=pd.to_datetime(["2026-01-01", "2026-01-05", "2026-01-11"]).to_pydatetime())
    domain = {"age": Interval(0, 90, bins=3), "job": ["clerk", None], "day": days}
    for encoder in (
        FrequencyOracleEncoder(8.0, categories=domain, random_state=0),
        RandomizedResponseEncoder(8.0, categories=domain, random_state=0),
    ):
        synthesizer = ReportSynthesizer(encoder.fit(X), random_state=0).fit(encoder.transform(X))
        rows = synthesizer.sample(1_000)
        assert rows["age"].between(0, 90).all()
        assert 400 < rows["job"].isna().sum() < 600
        assert rows["day"].between("2026-01-01", "2026-01-11").all()
        assert synthesizer.range_count("age", 0, 45) == pytest.approx(1_000, abs=120)


def test_answers_scores_and_batches():
    synthesizer = fitted(split(12.0))
    X = table()
    assert synthesizer.n_rows_ == N
    assert len(synthesizer.sample()) == N
    assert sum(map(len, synthesizer.sample_batches(100, batch_size=30))) == 100
    assert synthesizer.score(X) > fitted(split(12.0), marginals="independent").score(X)
    with pytest.raises(ValueError, match="feature names"):
        synthesizer.score(X[["a", "b"]])
    assert synthesizer.feature_names_in_.tolist() == ["a", "b", "c"]


def test_what_cannot_occur_does_not():
    synthesizer = fitted(split(2.0), structural_zeros=[{"a": "x", "b": 1}])
    assert synthesizer.count({"a": "x", "b": 1}) == 0
    assert not ((synthesizer.sample()["a"] == "x") & (synthesizer.sample()["b"] == 1)).all()


def test_pickles_and_clones():
    synthesizer = fitted(split())
    again = pickle.loads(pickle.dumps(synthesizer))
    pd.testing.assert_frame_equal(again.sample(50), synthesizer.sample(50))
    assert again.guarantee_ == synthesizer.guarantee_
    with pytest.raises(NotFittedError):
        clone(synthesizer).fit(table())
    frozen = ReportSynthesizer(FrozenEstimator(split().fit(table())))
    assert clone(frozen).fit(table()).n_rows_ == N
    assert "c" in repr(frozen)


def test_a_fit_that_fails_leaves_the_synthesizer_as_it_was():
    synthesizer = fitted(split())
    before = synthesizer.marginal("a")
    with pytest.raises(ValueError, match="columns"):
        synthesizer.fit(table()[["a", "b"]])
    pd.testing.assert_frame_equal(synthesizer.marginal("a"), before)


class TestRefuses:
    def test_other_encoders(self):
        with pytest.raises(TypeError, match=r"encoder must be a fitted local transformer.* got DPMarginalSynthesizer"):
            ReportSynthesizer(DPMarginalSynthesizer()).fit(table())
        with pytest.raises(NotFittedError):
            ReportSynthesizer(split()).fit(table())

    def test_numbers(self):
        X = pd.DataFrame({"age": [30.0, 40.0], "sex": ["f", "m"]})
        numbers = NumericPerturber(bounds=(0, 100)).fit(X[["age"]])
        both = LocalTableEncoder(categories={"sex": ["f", "m"]}, bounds={"age": (0, 100)}).fit(X)
        for encoder, rows in ((numbers, X[["age"]]), (both, X)):
            with pytest.raises(ValueError, match=r"columns \['age'\] are not reported as declared values.*Interval"):
                ReportSynthesizer(encoder).fit(encoder.transform(rows))

    def test_permanent_reports(self):
        X = table(10)
        memoised = split(memoize=True, secret_key=SecretKey.generate()).fit(X)
        rappor = RapporEncoder().fit(X[["a"]])
        with pytest.raises(ValueError, match=r"permanent reports.*memoize=False"):
            ReportSynthesizer(memoised).fit(memoised.transform(X, record_id=X.index))
        with pytest.raises(ValueError, match=r"columns \['a'\] are not reported as declared values"):
            ReportSynthesizer(rappor).fit(rappor.transform(X[["a"]]))

    def test_other_reports(self):
        X, encoder = table(100), split()
        encoder.fit(X)
        with pytest.raises(ValueError, match="columns"):
            ReportSynthesizer(encoder).fit(encoder.transform(X)[["a", "b"]])
        with pytest.raises(ValueError, match="two protocols"):
            ReportSynthesizer(encoder).fit(split(1.0).fit_transform(X))
        with pytest.raises(ValueError, match="outside the declared categories") as caught:
            ReportSynthesizer(encoder).fit(X.assign(a="secret"))
        assert "secret" not in str(caught.value)

    def test_other_tallies(self):
        X, encoder = table(100), split()
        encoder.fit(X)
        for other in (split(1.0), ENCODERS["pairs"](6.0), ENCODERS["bits"](6.0)):
            tally = other.fit(X).tally(other.transform(X))
            with pytest.raises(ValueError, match="tally comes from an encoder with different parameters"):
                ReportSynthesizer(encoder).fit(tally)
        numbers = NumericPerturber(bounds=(0, 100)).fit(X[["b"]])
        with pytest.raises(TypeError, match="tally must be one of RandomizedResponseEncoder, got NumericTally"):
            ReportSynthesizer(encoder).fit(numbers.tally(numbers.transform(X[["b"]])))

    def test_no_reports(self):
        X, encoder = table(100), split()
        empty = encoder.fit(X).protocol_.empty_tally()
        assert isinstance(empty, ReportTally)
        with pytest.raises(ValueError, match="at least 1 report"):
            ReportSynthesizer(encoder).fit(empty)
        with pytest.raises(ValueError, match="0"):
            ReportSynthesizer(encoder).fit(encoder.transform(X).iloc[:0])

    @each(
        "parameters, message",
        [
            ({"marginals": "tree"}, "marginals must be 'auto', 'independent', or a list of tuples, got 'tree'"),
            ({"marginals": [("a", "d")]}, "marginals: there is no column 'd'"),
            ({"marginals": [("a", "b", "c")]}, "the reports do not tell of .'a', 'b', 'c'. together"),
            ({"max_cells": 0}, "max_cells"),
            ({"max_iter": 0}, "max_iter"),
            ({"structural_zeros": [{"d": 1}]}, "there is no column 'd'"),
        ],
    )
    def test_parameters(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            fitted(split(), **parameters)

    def test_large_pairs(self):
        X = pd.DataFrame({"a": [0, 1] * 50, "b": [0, 1] * 50})
        encoder = RandomizedResponseEncoder(3.0, categories={"a": range(60), "b": range(60)}).fit(X)
        reports = encoder.transform(X)
        with pytest.raises(ValueError, match="3,600 cells; of reports at most 1,500"):
            ReportSynthesizer(encoder, marginals=[("a", "b")]).fit(reports)
