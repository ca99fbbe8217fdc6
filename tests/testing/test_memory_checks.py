"""Transformers that memoise their reports: the contract for new records, and for those that report again."""

from __future__ import annotations

import pickle
import secrets

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdp import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    LocalHashingEncoder,
    NumericPerturber,
    PrivacyGuarantee,
    RandomizedResponseEncoder,
    RapporEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.local import SecretKey
from skdp.local.memo import Memo
from skdp.local.protocol import ValueProtocol
from skdp.testing import check_privatizer, privatizer_checks
from skdp.testing._subject import give_fresh_records

KEY = SecretKey(b"a key that everybody knows, for tests")
MEMORY = {"memoize": True, "secret_key": KEY}
WORDS = pd.DataFrame({"a": ["x", "y", "z"]})
LABELS = RandomizedResponseEncoder(instantaneous_epsilon=0.5, categories=[["a", "b", None]], **MEMORY)
# A wrapper makes them new records, so what is new beside the contract without memory are the last checks.
KEEPING = {
    "labels": (LABELS, None),
    "sets": (SubsetSelectionEncoder(2.0, output="unbiased", **MEMORY), None),
    "filters": (RapporEncoder(2.0, n_bits=8, secret_key=KEY), WORDS),
}
SLOWLY = {
    "split labels": (RandomizedResponseEncoder(handle_unknown="uniform", **MEMORY), None),
    "bits": (UnaryEncodingTransformer(2.0, strategy="joint", instantaneous_epsilon=1.0, **MEMORY), None),
    "sampled sets": (SubsetSelectionEncoder(2.0, strategy="sample", **MEMORY), None),
    "buckets": (LocalHashingEncoder(2.0, instantaneous_epsilon=1.0, **MEMORY), None),
    "indices": (HadamardResponseEncoder(2.0, **MEMORY), None),
    "best oracle": (FrequencyOracleEncoder(2.0, instantaneous_epsilon=1.0, **MEMORY), None),
    "numbers": (NumericPerturber(mechanism="laplace", grid_size=16, **MEMORY), None),
}
CHECKS = [name for name, _ in privatizer_checks(RandomizedResponseEncoder(**MEMORY))]
ABOUT_MEMORY = CHECKS[-4:]


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.long) for case in (*KEEPING, *SLOWLY)],
)
def test_what_keeps_the_contract_passes(case):
    check_privatizer(*(KEEPING | SLOWLY)[case])


@pytest.mark.parametrize("name", ABOUT_MEMORY)
@pytest.mark.parametrize("case", ["labels", "sets", "filters"])
def test_labels_sets_and_filters_are_remembered(case, name):
    dict(privatizer_checks(*KEEPING[case]))[name]()


@pytest.mark.parametrize("name", ABOUT_MEMORY)
def test_numbers_are_remembered(name):
    perturber = NumericPerturber(mechanism="laplace", bounds=[(0, 100)], grid_size=16, **MEMORY)
    dict(privatizer_checks(perturber))[name]()


class Mutant(RandomizedResponseEncoder):
    """Parameters are those of the class it breaks; `memo` is how its coins are computed."""

    memo = Memo

    def fit(self, X, y=None):
        super().fit(X, y)
        self.protocol_.memo.__class__ = self.memo
        return self


class ForgetfulMemo(Memo):
    def _digests(self, context, purpose, *fields):
        return super()._digests(context, purpose + secrets.token_hex(8), *fields)


class MemoWithoutValues(Memo):
    def _digests(self, context, purpose, records, *values):
        return super()._digests(context, purpose, records)


class MemoWithoutColumns(Memo):
    def _digests(self, context, purpose, *fields):
        return super()._digests(b"", purpose, *fields)


class MemoWithoutRecords(Memo):
    def _digests(self, context, purpose, records, *values):
        return super()._digests(context, purpose, np.zeros_like(records), *values)


class MemoWithoutKey(Memo):
    def report(self, codes, records):
        self.key = KEY
        return super().report(codes, records)


class MemoOfTheBatch(Memo):
    def _digests(self, context, purpose, records, *values):
        return super()._digests(context, f"{purpose} {len(records)}", records, *values)


class DrawsFreshCoins(Mutant):
    memo = ForgetfulMemo


class ForgetsTheValue(Mutant):
    memo = MemoWithoutValues


class ForgetsTheColumn(Mutant):
    memo = MemoWithoutColumns


class ForgetsTheRecord(Mutant):
    memo = MemoWithoutRecords


class IgnoresTheKey(Mutant):
    memo = MemoWithoutKey


class LooksAtTheBatch(Mutant):
    memo = MemoOfTheBatch


class StoresTheIds(Mutant):
    def transform(self, X, record_id=None):
        self._seen = record_id
        return super().transform(X, record_id=record_id)


class ShowingProtocol(ValueProtocol):
    def read_records(self, record_id, n_rows):
        try:
            return super().read_records(record_id, n_rows)
        except ValueError:
            raise ValueError(f"record_id is odd: {record_id}") from None


class RepeatingProtocol(ValueProtocol):
    def read_records(self, record_id, n_rows):
        return [str(name).encode() for name in record_id]


class ShowsTheIds(Mutant):
    def fit(self, X, y=None):
        super().fit(X, y)
        object.__setattr__(self.protocol_, "__class__", ShowingProtocol)
        return self


class TakesRepeatedIds(Mutant):
    def fit(self, X, y=None):
        super().fit(X, y)
        object.__setattr__(self.protocol_, "__class__", RepeatingProtocol)
        return self


class StatesTooLittleForChanges(Mutant):
    """Of two values, each shows with the epsilon of one; both do with no more than both together."""

    def guarantee_for_changes(self, n_values):
        return PrivacyGuarantee(0.01)


MUTANTS = [
    (DrawsFreshCoins, "check_records_repeat_themselves"),
    (DrawsFreshCoins, "check_repeated_reports_keep_the_guarantee"),
    (LooksAtTheBatch, "check_records_repeat_themselves"),
    (IgnoresTheKey, "check_records_repeat_themselves"),
    (ForgetsTheRecord, "check_records_repeat_themselves"),
    (ForgetsTheRecord, "check_calls_draw_fresh_coins"),
    (ForgetsTheColumn, "check_columns_draw_their_own_coins"),
    (ForgetsTheValue, "check_changing_values_keep_the_promise"),
    (StatesTooLittleForChanges, "check_changing_values_keep_the_promise"),
    (StoresTheIds, "check_record_ids_are_asked_for_and_hidden"),
    (ShowsTheIds, "check_record_ids_are_asked_for_and_hidden"),
    (TakesRepeatedIds, "check_record_ids_are_asked_for_and_hidden"),
]


LITTLE = {"categories": [["a", "b", "c"]]} | MEMORY


@pytest.mark.long
@pytest.mark.parametrize("name", dict.fromkeys(name for _, name in MUTANTS))
def test_what_the_mutants_break_is_whole(name):
    dict(privatizer_checks(Mutant(**LITTLE)))[name]()


@pytest.mark.parametrize(("mutant", "name"), MUTANTS, ids=[f"{kind.__name__}-{name}" for kind, name in MUTANTS])
def test_each_fault_is_caught_by_the_check_for_it(mutant, name):
    with pytest.raises(AssertionError) as caught:
        dict(privatizer_checks(mutant(**LITTLE)))[name]()
    assert str(caught.value).startswith(f"{mutant.__name__}: {name}: ")
    assert caught.value.__cause__ is None


def test_every_check_of_memory_catches_something():
    assert CHECKS[:-4] == [name for name, _ in privatizer_checks(RandomizedResponseEncoder())]
    assert set(ABOUT_MEMORY) <= {name for _, name in MUTANTS}


def test_without_a_key_there_is_nothing_to_run():
    with pytest.raises(AssertionError, match="memoize=True needs a secret_key"):
        check_privatizer(RandomizedResponseEncoder(memoize=True))


class TestFreshRecords:
    @pytest.fixture
    def made(self):
        return give_fresh_records(RandomizedResponseEncoder(0.01, categories=[["a", "b"]], **MEMORY))

    def test_every_call_is_about_new_ones(self, made):
        rows = pd.DataFrame({"x": ["a"] * 200})
        made.fit(rows)
        copies = [made, made, pickle.loads(pickle.dumps(made)), clone(made).fit(rows)]
        assert len({copy.transform(rows)["x"].str.cat() for copy in copies}) == 4

    def test_unless_ids_are_given(self, made):
        rows = pd.DataFrame({"x": ["a"] * 200})
        assert made.fit_transform(rows, record_id=rows.index).equals(made.transform(rows, record_id=rows.index))

    def test_a_seed_replays_them(self, made):
        rows = pd.DataFrame({"x": ["a"] * 200})
        made.set_params(random_state=3).fit(rows)
        first, second = made.transform(rows), made.transform(rows)
        assert not first.equals(second)
        assert made.fit(rows).transform(rows).equals(first)
        assert made.set_params(random_state=4).fit(rows).transform(rows).ne(first).any(axis=None)

    def test_it_is_otherwise_the_same(self, made):
        assert repr(made) == repr(RandomizedResponseEncoder(0.01, categories=[["a", "b"]], **MEMORY))
        assert isinstance(made, RandomizedResponseEncoder)
        assert type(made) is type(give_fresh_records(RandomizedResponseEncoder()))
