"""Transformers that memoise their reports: the contract for new records, and for those that report again."""

from __future__ import annotations

import secrets

import numpy as np
import pandas as pd
import pytest

from skdp import (
    NumericPerturber,
    PrivacyGuarantee,
    RandomizedResponseEncoder,
    RapporEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.local import Memo, ReportProtocol, SecretKey
from skdp.testing import check_privatizer, privatizer_checks
from tests.conftest import often

KEY = SecretKey(b"a key that everybody knows, for tests")
MEMORY = {"memoize": True, "secret_key": KEY}
OF_ALL = [name for name, _ in privatizer_checks(RandomizedResponseEncoder())]
ABOUT_MEMORY = [name for name, _ in privatizer_checks(RandomizedResponseEncoder(**MEMORY)) if name not in OF_ALL]
LITTLE = {"categories": [["a", "b", "c"]]} | MEMORY
KEEPING = {
    "labels": (UnaryEncodingTransformer(instantaneous_epsilon=0.5, categories=[["a", "b", None]], **MEMORY), None),
    "sets": (SubsetSelectionEncoder(2.0, **MEMORY), None),
    "filters": (RapporEncoder(2.0, n_bits=8, secret_key=KEY), pd.DataFrame({"a": ["x", "y", "z"]})),
    "numbers": (NumericPerturber(mechanism="laplace", bounds=[(0, 100)], grid_size=16, **MEMORY), None),
}


@pytest.mark.parametrize("name", ABOUT_MEMORY)
@pytest.mark.parametrize("case", often(KEEPING, ["filters"]))
def test_what_remembers_its_reports_passes(case, name):
    dict(privatizer_checks(*KEEPING[case]))[name]()


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
    def marks(self, records):
        self.key = KEY
        return super().marks(records)


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


class StoresTheIds(Mutant):
    def transform(self, X, record_id=None):
        self._seen = record_id
        return super().transform(X, record_id=record_id)


class ShowingProtocol(ReportProtocol):
    def read_records(self, record_id, n_rows):
        try:
            return super().read_records(record_id, n_rows)
        except ValueError:
            raise ValueError(f"record_id is odd: {record_id}") from None


class RepeatingProtocol(ReportProtocol):
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


@pytest.mark.parametrize(("mutant", "name"), MUTANTS, ids=[f"{kind.__name__}-{name}" for kind, name in MUTANTS])
def test_each_fault_is_caught_by_the_check_for_it(mutant, name):
    with pytest.raises(AssertionError) as caught:
        dict(privatizer_checks(mutant(**LITTLE)))[name]()
    assert str(caught.value).startswith(f"{mutant.__name__}: {name}: ")
    assert caught.value.__cause__ is None


def test_every_check_of_memory_catches_something():
    checks = {name for name, _ in privatizer_checks(RandomizedResponseEncoder(**MEMORY))}
    assert set(OF_ALL) < checks
    assert set(ABOUT_MEMORY) <= {name for _, name in MUTANTS}


def test_without_a_key_there_is_nothing_to_run():
    with pytest.raises(AssertionError, match="memoize=True requires a secret_key"):
        check_privatizer(RandomizedResponseEncoder(memoize=True))
