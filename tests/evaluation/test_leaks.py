"""What audits and checks see of leaks beside the reports."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest

from skdp import (
    DPHistogram,
    DPMarginalSynthesizer,
    DPMean,
    HeavyHitters,
    RandomizedResponseEncoder,
    SyntheticResampler,
)
from skdp.evaluation import audit_epsilon
from skdp.evaluation.audits import audited_transformers
from skdp.evaluation.audits._calls import kept_by
from skdp.evaluation.audits._neighbours import in_library, make_records
from skdp.evaluation.audits._outputs import FORM, raised, read_call
from skdp.evaluation.audits._target import of_transformer
from skdp.testing import check_privatizer
from tests.evaluation import leaky_transformers as leaky

# An int seed of NumPy, the number of rows (public where a record is replaced), and what takes more calls.
NOT_BY_AUDIT = {
    "BlocksShareCoins",
    "EveryFifthSharesCoins",
    "GlobalGenerator",
    "KeepsTheNumberOfRows",
    "PolarsFlagsShow",
    "RareRowsAreTrue",
    "RarelyFails",
    "RarelyMissing",
    "RarelyTrue",
    "RarelyWarns",
    "SortsLargeTables",
    "TransformCountsRows",
    "TrueInArrays",
}
X = pd.DataFrame({"a": [0, 1, 1, 0], "b": [0, 0, 1, 1]})
DECLARED = {"a": [0, 1], "b": [0, 1]}


def is_refuted(transformer, n_draws):
    """Audit up to three times: of what shows in few calls, the first of them may choose an event that does not."""
    return any(audit_epsilon(transformer, n_draws=n_draws).rejected for _ in range(3))


@pytest.mark.long
@pytest.mark.parametrize("kind", [kind for kind in leaky.LEAKS if kind.__name__ not in NOT_BY_AUDIT])
def test_the_audit_sees_the_leak(kind):
    assert is_refuted(kind.made(), 100_000)


@pytest.mark.long
@pytest.mark.parametrize("kind", [kind for kind in leaky.LEAKS if kind.__name__ in NOT_BY_AUDIT])
def test_a_check_sees_what_the_audit_does_not(kind):
    with pytest.raises(AssertionError):
        check_privatizer(kind.made())


@pytest.mark.long
def test_two_million_draws_show_what_happens_rarely():
    """In one of 85 calls: an audit refutes with probability 0.96, and all three fail once in 10,000 runs."""
    assert is_refuted(leaky.RarelyFails.made(), 2_000_000)


def test_calls_hear_what_is_printed_and_logged():
    texts = [
        read_call(lambda kind=kind: kind.made().fit_transform(pd.DataFrame({"value": [0, 1]})))[FORM]
        for kind in (leaky.Leaky, leaky.Prints, leaky.Logs, leaky.Warns)
    ]
    assert len(set(texts)) == 4
    assert "printed: a record is odd" in texts[1]


def test_all_values_of_small_domains_are_tried():
    assert len(make_records(RandomizedResponseEncoder(categories={"a": range(16)}))) == 16
    assert len(make_records(RandomizedResponseEncoder(categories={"a": range(4), "b": range(4)}))) == 16
    assert len(make_records(RandomizedResponseEncoder(categories={"a": range(17)}))) == 5


def test_calls_look_at_mixed_tables_of_other_libraries_and_at_what_is_kept():
    audited = of_transformer(leaky.Leaky.made(), None, n_reports=None, statistic=None, random_state=None)
    groups = {group[0].name: [situation.table for situation in group] for group in audited.groups()}
    assert list(groups)[-4:] == ["7 rows: ", "polars: ", "pyarrow: ", "what is kept: "]
    one, other = groups["polars: "]
    assert (one.height, other.height) == (7, 7)
    assert sum(a != b for a, b in zip(one["value"], other["value"], strict=True)) == 1


def test_what_is_kept_is_attributes_pickle_and_text():
    table = pd.DataFrame({"value": [3, 1]})
    kept = [kept_by(kind.made().fit(table)) for kind in (leaky.Leaky, leaky.KeepsRowsPrivately, leaky.PickleHoldsRows)]
    assert kept[1]["_rows"] == "[[3], [1]]"
    assert kept[0].keys() == kept[2].keys()
    assert "guarantee_" in kept[0]
    assert "the text" in kept[0]


@pytest.mark.parametrize(
    "transformer",
    [
        pytest.param(one, id=name, marks=[] if name in ("subset selection", "optimal") else pytest.mark.long)
        for name, one in audited_transformers()
    ],
)
def test_of_a_correct_transformer_no_call_fails_and_nothing_of_the_record_is_kept(transformer):
    audited = of_transformer(transformer, None, n_reports=None, statistic=None, random_state=None)
    groups = audited.groups()
    for situation in (situation for group in groups for situation in group):
        assert raised(read_call(partial(audited._seen, situation))) is None
    kept = [situation for situation in groups[-1] if situation.kept]
    one, again, other = (audited._seen(kept[place]) for place in (0, 0, 1))
    own = {name for name in one if one[name] != again[name]}  # random, as a public hash function
    assert {name for name in one if one[name] != other[name]} <= own


def test_what_a_client_keeps_of_its_words_shows():
    class KeepsWords(HeavyHitters):
        def report(self, words):
            self._words = words.iloc[0, 0]
            return super().report(words)

    for kind, names in ((HeavyHitters, set()), (KeepsWords, {"_words"})):
        audited = of_transformer(kind(max_length=4), None, n_reports=None, statistic=None, random_state=None)
        one, other = map(audited._seen, audited.groups()[-1])
        assert {name for name in one if one[name] != other[name]} == names


def test_frames_of_other_libraries_have_the_same_values():
    table = pd.DataFrame({"a": ["x", None], "b": [1, 2]})
    assert in_library(table, "polars").to_dict(as_series=False) == {"a": ["x", None], "b": [1, 2]}
    assert in_library(table, "pyarrow").to_pydict() == {"a": ["x", None], "b": [1, 2]}


@pytest.mark.parametrize(
    "estimator",
    [
        DPMean(bounds=(0, 1)),
        DPHistogram(domain=DECLARED),
        pytest.param(
            DPMarginalSynthesizer(domain=DECLARED, max_iter=2, marginals="independent"), marks=pytest.mark.long
        ),
        SyntheticResampler(DPMarginalSynthesizer(domain=DECLARED, max_iter=2, marginals="independent")),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_of_curators_one_table_may_have_a_row_less(estimator):
    result = audit_epsilon(estimator, [X, X[:3]], n_draws=100, random_state=0)
    assert (result.epsilon_claimed, result.rejected) == (1.0, False)
    assert result.findings[0].startswith("only what fit learns was audited")


@pytest.mark.long
def test_a_curator_that_releases_the_truth_is_refuted():
    class Exact(DPMean):
        def fit(self, X, y=None):
            super().fit(X, y)
            self.mean_ = np.asarray(X).mean(axis=0)
            return self

    assert audit_epsilon(Exact(bounds=(0, 1)), [X, X[:3]], n_draws=2_000, random_state=0).rejected
