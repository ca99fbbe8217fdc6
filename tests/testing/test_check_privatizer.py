"""The contract suite passes what keeps the contract, and catches each way of breaking it by the check for that."""

from __future__ import annotations

import math
import secrets
import unittest
import warnings
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, TransformerMixin

from skdp import PrivacyGuarantee, RandomizedResponseEncoder
from skdp.local import OnFitOnly, ReportProtocol, UnaryEncodingTransformer
from skdp.oracles import RandomizedResponse
from skdp.randomness import SeededSource
from skdp.testing import check_privatizer, privatizer_checks

CHECKS = [name for name, _ in privatizer_checks(RandomizedResponseEncoder())]


class Mutant(RandomizedResponseEncoder):
    """Parameters are those of the class it breaks."""


class BrokenProtocol(Mutant):
    def _make_protocol(self, table):
        protocol = super()._make_protocol(table)
        object.__setattr__(protocol, "__class__", self.protocol)
        return protocol


class KeepsItsCoins(Mutant):
    def _randomness(self, call=None):
        seeded = super()._randomness(call=0)
        return seeded if self._seed is not None else lambda purpose, *columns: SeededSource("fixed", *columns)


class KeepsSeededRandomness(Mutant):
    def _randomness(self, call=None):
        return super()._randomness(call=0)


class KeepsASecretSeed(Mutant):
    """Fresh over calls, but copies repeat each other."""

    def fit(self, X, y=None):
        self._secret = secrets.token_hex(8)
        return super().fit(X, y)

    def _randomness(self, call=None):
        number = super()._randomness(call).call
        return lambda purpose, *columns: SeededSource(self._secret, number, purpose, *map(str, columns))


class NumpySource:
    def bytes(self, size):
        return np.frombuffer(np.random.bytes(size), np.uint8)  # noqa: NPY002 - the fault


class UsesNumpy(Mutant):
    def _randomness(self, call=None):
        return lambda *purpose: NumpySource()


class ForgetsTheColumn(Mutant):
    def _randomness(self, call=None):
        number = super()._randomness(call).call
        source = SeededSource(secrets.token_hex(8) if self._seed is None else self._seed, number).bytes(1 << 16)

        class Replay:
            def __init__(self):
                self.used = 0

            def bytes(self, size):
                self.used += size
                return np.resize(source, self.used)[-size:]

        return lambda *purpose: Replay()


class IgnoresTheSeed(Mutant):
    def _randomness(self, call=None):
        fresh = SeededSource(secrets.token_hex(8))
        return lambda *purpose: fresh


class OutOfPickles:
    def __init__(self, number):
        self.number = number

    def __getstate__(self):
        return {}


class CountsRows(Mutant):
    def fit(self, X, y=None):
        self.count_ = OutOfPickles(len(X))
        return super().fit(X, y)


class StoresRows(Mutant):
    def fit(self, X, y=None):
        self._rows = X
        return super().fit(X, y)


class StoresRowsElsewhere(Mutant):
    seen: ClassVar[list] = []

    def transform(self, X, **ids):
        self.seen.append(X)
        return super().transform(X, **ids)


class EchoingProtocol(ReportProtocol):
    def prepare(self, table):
        try:
            return super().prepare(table)
        except ValueError:
            raise ValueError(f"undeclared: {[list(column) for column in table.columns]}") from None


class EchoesTheValue(BrokenProtocol):
    protocol = EchoingProtocol


class WarnsOfAValue(Mutant):
    def fit(self, X, y=None):
        warnings.warn(f"the first row is {np.asarray(X)[0]}", stacklevel=2)
        return super().fit(X, y)


class EchoesTheReport(Mutant):
    def tally(self, reports):
        try:
            return super().tally(reports)
        except Exception:
            raise ValueError(f"no reports: {reports}") from None


class PassesMissingThrough(Mutant):
    def transform(self, X, **ids):
        whole = self.handle_unknown
        assert whole is not None
        released = super().transform(X, **ids)
        return released.mask(X.isna(), None) if isinstance(X, pd.DataFrame) else released


class StatesLessEpsilon(Mutant):
    def _make_oracle(self, k, epsilon):
        return RandomizedResponse(k, 2 * epsilon)

    def fit(self, X, y=None):
        super().fit(X, y)
        self.guarantee_ = PrivacyGuarantee(
            self.epsilon,
            scope=self.guarantee_.scope,
            mechanism=self.guarantee_.mechanism,
            secure=self.guarantee_.secure,
        )
        return self


class AlwaysSaysSecure(Mutant):
    def fit(self, X, y=None):
        super().fit(X, y)
        self.guarantee_ = PrivacyGuarantee(self.guarantee_.epsilon, scope=self.guarantee_.scope, mechanism="?")
        return self


class LyingProtocol(ReportProtocol):
    def randomize(self, codes, records, randomness):
        fields = tuple(
            replace(field, oracle=RandomizedResponse(field.oracle.k, 2 * field.epsilon)) for field in self.fields
        )
        return ReportProtocol.randomize(replace(self, fields=fields), codes, records, randomness)


class LiesInItsChannel(BrokenProtocol):
    """Reports are drawn with more epsilon than the channel and the guarantee say."""

    protocol = LyingProtocol


class ChargesTooLate(Mutant):
    def transform(self, X, **ids):
        ledger, self.ledger, self._ledger = self._ledger, None, None
        try:
            released = super().transform(X, **ids)
        finally:
            self.ledger = self._ledger = ledger
        if ledger is not None:
            ledger.charge(self.guarantee_, "late")
        return released


class ChargesBeforeItLooks(Mutant):
    def transform(self, X, **ids):
        ledger, self.ledger, self._ledger = self._ledger, None, None
        if ledger is not None:
            ledger.charge(self.guarantee_, "early")
        try:
            return super().transform(X, **ids)
        finally:
            self.ledger = self._ledger = ledger


class IgnoresTheBudget(Mutant):
    def transform(self, X, **ids):
        try:
            return super().transform(X, **ids)
        except RuntimeError:
            ledger, self.ledger, self._ledger = self._ledger, None, None
            released = super().transform(X, **ids)
            self.ledger = self._ledger = ledger
            return released


class CollectsLazyFrames(Mutant):
    def transform(self, X, **ids):
        return super().transform(X.collect() if isinstance(X, pl.LazyFrame) else X, **ids)


class ReversesRows(Mutant):
    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        if isinstance(released, pd.DataFrame):
            return released.iloc[::-1].set_axis(released.index)
        return released


class DropsTheIndex(Mutant):
    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        return released.reset_index(drop=True) if isinstance(released, pd.DataFrame) else released


class ReturnsATrueColumn(Mutant):
    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        if isinstance(released, pd.DataFrame):
            released[released.columns[-1]] = X[X.columns[-1]]
        return released


class IgnoresSetOutput(Mutant):
    def set_output(self, *, transform=None):
        return self


class KeepsAttrs(Mutant):
    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        if isinstance(X, pd.DataFrame):
            released.attrs.update(X.attrs)
        return released


class ReleasesCategoricals(Mutant):
    """As this library did: the codes of polars' Categorical follow the order in which the true values appeared."""

    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        if not hasattr(released, "get_columns"):
            return released
        import polars as pl

        return released.with_columns(pl.col(pl.Enum, pl.String).cast(pl.Categorical))


class EstimatesWithBias(Mutant):
    def estimate_counts(self, reports, **parameters):
        table = super().estimate_counts(reports, **parameters)
        table["count"] = np.concatenate(self.tally(reports).counts)
        return table


class MiscountsReports(Mutant):
    def tally(self, reports):
        return super().tally(reports) + super().tally(reports)


class LeavesOutTheLastReport(Mutant):
    def tally(self, reports):
        return super().tally(reports[:-1])


class ReadsTheData(Mutant):
    def fit(self, X, y=None):
        declared, self.categories = self.categories, "auto"
        try:
            return super().fit(X.dropna() if isinstance(X, pd.DataFrame) else X, y)
        finally:
            self.categories = declared


class FollowsLaterParameters(Mutant):
    def _randomness(self, call=None):
        self._seed = self.random_state
        return super()._randomness(call)


class WorksUnfitted(Mutant):
    def transform(self, X, **ids):
        return super().transform(X, **ids) if hasattr(self, "domain_") else X


class AddsUpOverFits(Mutant):
    def fit(self, X, y=None):
        super().fit(X, y)
        self.fits_ = getattr(self, "fits_", 0) + 1
        return self


class PairsShareCoins(Mutant):
    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        pairs = np.arange(len(X)) // 2 * 2
        return released.iloc[pairs].set_axis(released.index) if isinstance(released, pd.DataFrame) else released


class FailsRarely(Mutant):
    def transform(self, X, **ids):
        self._transforms = getattr(self, "_transforms", 0) + 1
        if self._transforms % 100 == 0:
            raise RuntimeError("the reports are lost")
        return super().transform(X, **ids)


class LeavesTheFirstRow(Mutant):
    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        if isinstance(released, pd.DataFrame) and len(X) == 5:
            released = released.astype(object)
            released.iloc[0] = X.iloc[0]
        return released


class LeavesOneBitTrue(UnaryEncodingTransformer):
    """The channel says that every bit is flipped at times; the first is not."""

    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        if isinstance(released, pd.DataFrame):
            released.iloc[:, 0] = (X.iloc[:, 0] == self.domain_[X.columns[0]].values[0]).astype(np.uint8)
        return released


class RoundsToCertainty(Mutant):
    """In floats, e^eps / (e^eps + k - 1) is 1 from epsilon = 38 on."""

    def _make_oracle(self, k, epsilon):
        power = math.exp(epsilon)
        p = power / (power + k - 1)
        oracle = RandomizedResponse(k, epsilon)
        if p == 1:
            oracle._bound = oracle._threshold = 0
            oracle.p, oracle.q = Fraction(1), Fraction(0)
        return oracle

    def _make_guarantee(self, domain, fields):
        return PrivacyGuarantee(self.epsilon, scope=domain.columns, mechanism="?")


MUTANTS = [
    (KeepsItsCoins, {}, "check_calls_draw_fresh_coins"),
    (KeepsSeededRandomness, {}, "check_calls_draw_fresh_coins"),
    (KeepsSeededRandomness, {}, "check_seeds_replay"),
    (KeepsASecretSeed, {}, "check_calls_draw_fresh_coins"),
    (KeepsASecretSeed, {}, "check_forks_draw_fresh_coins"),
    (UsesNumpy, {}, "check_global_seeds_change_nothing"),
    (ForgetsTheColumn, {}, "check_columns_draw_their_own_coins"),
    (IgnoresTheSeed, {}, "check_seeds_replay"),
    (StoresRows, {}, "check_nothing_private_is_stored"),
    (StoresRowsElsewhere, {}, "check_nothing_private_is_stored"),
    (CountsRows, {}, "check_nothing_private_is_stored"),
    (EchoesTheValue, {}, "check_errors_hide_values"),
    (ChargesBeforeItLooks, {}, "check_errors_hide_values"),
    (WarnsOfAValue, {}, "check_warnings_hide_values"),
    (EchoesTheReport, {}, "check_report_errors_hide_values"),
    (PassesMissingThrough, {"handle_unknown": "uniform"}, "check_missing_values_are_hidden"),
    (RoundsToCertainty, {"epsilon": 80.0}, "check_channel_keeps_the_guarantee"),
    (StatesLessEpsilon, {}, "check_channel_keeps_the_guarantee"),
    (AlwaysSaysSecure, {}, "check_guarantee_is_stated"),
    (ReadsTheData, {}, "check_guarantee_is_stated"),
    (LiesInItsChannel, {}, "check_reports_follow_the_channel"),
    (LiesInItsChannel, {}, "check_reports_keep_the_guarantee"),
    (LeavesOneBitTrue, {}, "check_reports_keep_the_guarantee"),
    (ReturnsATrueColumn, {}, "check_reports_keep_the_guarantee"),
    (ChargesTooLate, {}, "check_ledger_is_charged_once_and_first"),
    (ChargesTooLate, {}, "check_budget_is_kept"),
    (IgnoresTheBudget, {}, "check_budget_is_kept"),
    (CollectsLazyFrames, {}, "check_lazy_frames_are_refused"),
    (ReversesRows, {}, "check_estimates_are_right"),
    (DropsTheIndex, {}, "check_frames_in_and_out"),
    (IgnoresSetOutput, {}, "check_set_output"),
    (KeepsAttrs, {}, "check_nothing_else_is_carried_over"),
    (ReleasesCategoricals, {}, "check_nothing_else_is_carried_over"),
    (EstimatesWithBias, {}, "check_estimates_are_right"),
    (MiscountsReports, {}, "check_reports_can_be_read"),
    (LeavesOutTheLastReport, {}, "check_reports_can_be_read"),
    (FollowsLaterParameters, {}, "check_later_parameters_wait_for_fit"),
    (WorksUnfitted, {}, "check_use_before_fit"),
    (AddsUpOverFits, {}, "check_fit_starts_anew"),
    (PairsShareCoins, {}, "check_rows_draw_their_own_coins"),
    (FailsRarely, {}, "check_calls_are_alike"),
    (LeavesTheFirstRow, {}, "check_calls_are_alike"),
]


@pytest.mark.parametrize(("mutant", "parameters", "name"), MUTANTS)
def test_each_fault_is_caught_by_the_check_for_it(mutant, parameters, name):
    with pytest.raises(AssertionError) as caught:
        dict(privatizer_checks(mutant(**parameters)))[name]()
    assert str(caught.value).startswith(f"{mutant.__name__}: {name}: ")
    assert caught.value.__cause__ is None, "it is a mishap of the mutant, and not its fault, that is caught"


def test_every_check_catches_something():
    assert {name for _, _, name in MUTANTS} == set(CHECKS)


@pytest.mark.long
def test_the_results_are_a_table_of_all_checks_and_nothing_global_is_left_changed():
    state, draw = np.random.get_state()[1].tolist(), SeededSource.bytes  # noqa: NPY002
    expected = {"check_reports_keep_the_guarantee": "known", "check_frames_in_and_out": "known"}
    results = check_privatizer(DropsTheIndex(), on_fail=None, expected_failed_checks=expected).set_index("check")
    assert results.index.tolist() == CHECKS
    assert results.columns.tolist() == ["status", "reason", "seconds"]
    assert results.loc["check_guarantee_is_stated", ["status", "reason"]].tolist() == ["passed", ""]
    assert results.loc["check_frames_in_and_out", ["status", "reason"]].tolist() == ["xfail", "known"]
    unexpected = results.loc["check_reports_keep_the_guarantee", ["status", "reason"]].tolist()
    assert unexpected == ["failed", "check_reports_keep_the_guarantee: passes after all"]
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002
    assert SeededSource.bytes is draw


def test_the_first_failure_raises():
    failure = "ReturnsATrueColumn: check_reports_follow_the_channel: the reports of size"
    with pytest.raises(AssertionError, match=failure):
        check_privatizer(ReturnsATrueColumn())


def test_what_lets_true_rows_out_fails():
    estimator = OnFitOnly(RandomizedResponseEncoder(categories=[["a", "b"], [1, 2]]))
    checks = dict(privatizer_checks(estimator, [["a", 1], ["b", 2]]))
    for name in (
        "check_calls_draw_fresh_coins",
        "check_reports_keep_the_guarantee",
    ):
        with pytest.raises(AssertionError, match=name):
            checks[name]()


def test_an_estimator_is_never_fitted_or_changed_itself():
    estimator = RandomizedResponseEncoder(3.0)
    before = estimator.get_params()
    for name in ("check_guarantee_is_stated", "check_later_parameters_wait_for_fit"):
        dict(privatizer_checks(estimator))[name]()
    assert estimator.get_params() == before
    assert not hasattr(estimator, "domain_")


class Bare(TransformerMixin, BaseEstimator):
    """Nothing is known of its parameters."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


def test_bad_arguments():
    for estimator in (RandomizedResponseEncoder, object(), None):
        with pytest.raises(TypeError, match="estimator must be an instance with fit and transform"):
            check_privatizer(estimator)
    with pytest.raises(TypeError, match="Bare has no parameter 'categories' or 'bounds' to make rows for; give X"):
        check_privatizer(Bare())
    with pytest.raises(ValueError, match=r"expected_failed_checks names no checks: \['check_x'\]"):
        check_privatizer(RandomizedResponseEncoder(), expected_failed_checks={"check_x": "?"})
    with pytest.raises(ValueError, match="on_fail must be"):
        check_privatizer(RandomizedResponseEncoder(), on_fail="warn")


def test_checks_that_do_not_apply_are_skipped():
    checks = dict(privatizer_checks(Bare(), pd.DataFrame({"a": [1, 2]})))
    for name in ("check_channel_keeps_the_guarantee", "check_seeds_replay", "check_budget_is_kept"):
        with pytest.raises((unittest.SkipTest, AssertionError)) as caught:
            checks[name]()
        assert name in str(caught.value)
