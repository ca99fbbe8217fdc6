"""Correct transformers pass the contract, and each check finds its fault."""

import secrets

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, TransformerMixin

from skdp import PrivacyGuarantee, RandomizedResponseEncoder
from skdp.local import OnFitOnly
from skdp.privacy import BudgetExceeded
from skdp.testing import check_privatizer, privatizer_checks

VALUES = {"colour": ["red", "green", "blue", None], "size": [1, 2, 3]}
CHECKS = [name for name, _ in privatizer_checks(RandomizedResponseEncoder(categories=VALUES))]


class Mutant(RandomizedResponseEncoder):
    """The parameters are inherited from the broken class."""

    def seeded(self, X, seed):
        """Release with a seed."""
        parameters = self.get_params() | {"ledger": None, "random_state": seed}
        return RandomizedResponseEncoder(**parameters).fit(X).transform(X)

    def state(self, **changes):
        """Change the guarantee."""
        given = {"scope": self.guarantee_.scope, "mechanism": "?", "secure": self.guarantee_.secure}
        self.guarantee_ = PrivacyGuarantee(**{"epsilon": self.guarantee_.epsilon} | given | changes)
        return self


class AlwaysSaysSecure(Mutant):
    def fit(self, X, y=None):
        return super().fit(X, y).state(secure=True)


class StatesOneColumn(Mutant):
    def fit(self, X, y=None):
        return super().fit(X, y).state(scope=self.guarantee_.scope[:1])


class Forgiving(Mutant):
    def transform(self, X, **ids):
        try:
            return super().transform(X, **ids)
        except (TypeError, ValueError):
            return X


class EchoesTheValue(Mutant):
    def transform(self, X, **ids):
        try:
            return super().transform(X, **ids)
        except ValueError:
            raise ValueError(f"no reports of {np.asarray(X).tolist()}") from None


class ChargesTooLate(Mutant):
    def transform(self, X, **ids):
        released = self.seeded(X, None)
        if self.ledger is not None:
            self.ledger.charge(self.guarantee_, "late")
        return released


class ChargesHalf(Mutant):
    def transform(self, X, **ids):
        if self.ledger is not None:
            self.ledger.charge(PrivacyGuarantee(self.epsilon / 2), "half")
        return self.seeded(X, None)


class NumbersItsCalls(Mutant):
    """All int seeds give equal releases."""

    def fit(self, X, y=None):
        self._turn = 0
        return super().fit(X, y)

    def transform(self, X, **ids):
        self._turn += 1
        return self.seeded(X, self._turn)


class IgnoresTheBudget(Mutant):
    def transform(self, X, **ids):
        try:
            return super().transform(X, **ids)
        except BudgetExceeded:
            return self.seeded(X, None)


class Repeats(Mutant):
    def transform(self, X, **ids):
        return self.seeded(X, 0)


class KeepsASecretSeed(Mutant):
    """Fresh in each call, but copies repeat each other."""

    def fit(self, X, y=None):
        self._secret, self._turn = secrets.randbits(30), 0
        return super().fit(X, y)

    def transform(self, X, **ids):
        self._turn += 1
        return self.seeded(X, self._secret + self._turn)


class UsesNumpy(Mutant):
    def transform(self, X, **ids):
        return self.seeded(X, int(np.random.randint(2**31)))  # noqa: NPY002 - the fault


class PrintsAValue(Mutant):
    def fit(self, X, y=None):
        print(f"the first row is {np.asarray(X)[0]}")
        return super().fit(X, y)


class FollowsLaterParameters(Mutant):
    def transform(self, X, **ids):
        return self.seeded(X, self.random_state)


class CountsRows(Mutant):
    def fit(self, X, y=None):
        self.count_ = len(X)
        return super().fit(X, y)


class KeepsAttrs(Mutant):
    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        if isinstance(X, pd.DataFrame):
            released.attrs.update(X.attrs)
        return released


class Leaks(Mutant):
    """A value of the rows, beside private reports."""

    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        return self.leak(released, X) if type(released) is type(X) is pd.DataFrame else released


class WritesIndex(Leaks):
    def leak(self, released, X):
        return released.set_axis(X["colour"])


class MovesIndex(Leaks):
    def leak(self, released, X):
        return released.set_axis(X.sort_values("size").index)


class NamesIndex(Leaks):
    def leak(self, released, X):
        return released.rename_axis(str(X["size"].iloc[0]))


class NamesColumns(Leaks):
    def leak(self, released, X):
        return released.rename(columns={"size": f"size {X['size'].iloc[0]}"})


class NamesColumnAxis(Leaks):
    def leak(self, released, X):
        return released.rename_axis(columns=str(X["size"].iloc[0]))


class OrdersColumns(Leaks):
    def leak(self, released, X):
        return released[sorted(X, reverse=bool(X["size"].iloc[0] == 1))]


class DropsRows(Leaks):
    def leak(self, released, X):
        return released[X["size"] != 1].reset_index(drop=True)


class OrdersCategories(Leaks):
    def leak(self, released, X):
        categories = dict.fromkeys([*X["size"], *VALUES["size"]])
        return released.assign(size=pd.Categorical(released["size"], categories))


class KeepsCategories(Leaks):
    """Undeclared categories of X, which occur in no row."""

    def leak(self, released, X):
        if not isinstance(X["colour"].dtype, pd.CategoricalDtype):
            return released
        categories = dict.fromkeys([*VALUES["colour"][:3], *X["colour"].cat.categories])
        return released.assign(colour=pd.Categorical(released["colour"], categories))


class SortsRows(Mutant):
    """Reports in the order of the true values, with the row index of X."""

    def transform(self, X, **ids):
        if not isinstance(X, pd.DataFrame):
            return super().transform(X, **ids)
        return super().transform(X.sort_values(list(X)), **ids).set_axis(X.index)


class KeepsMetadata(Mutant):
    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        is_arrow = hasattr(X, "replace_schema_metadata")
        return released.replace_schema_metadata(X.schema.metadata) if is_arrow else released


class ReleasesCategoricals(Mutant):
    """The codes of a Categorical of polars depend on the order of the true values."""

    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        if not hasattr(released, "get_columns"):
            return released
        return released.with_columns(pl.col(pl.Enum, pl.String).cast(pl.Categorical))


class PassesMissingThrough(Mutant):
    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        return released.mask(X.isna(), None) if isinstance(X, pd.DataFrame) else released


class PairsShareBits(Mutant):
    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        pairs = np.arange(len(X)) // 2 * 2
        return released.iloc[pairs].set_axis(released.index) if isinstance(released, pd.DataFrame) else released


class StatesLess(Mutant):
    """Four fifths of the true epsilon."""

    def fit(self, X, y=None):
        return super().fit(X, y).state(epsilon=0.8 * self.epsilon)


MUTANTS = [
    (AlwaysSaysSecure, "check_guarantee"),
    (StatesOneColumn, "check_statement"),
    (Forgiving, "check_parameters"),
    (EchoesTheValue, "check_errors"),
    (Forgiving, "check_errors"),
    (ChargesTooLate, "check_charge"),
    (ChargesHalf, "check_charge"),
    (IgnoresTheBudget, "check_budget"),
    (Repeats, "check_random_bits"),
    (KeepsASecretSeed, "check_random_bits"),
    (UsesNumpy, "check_random_bits"),
    (UsesNumpy, "check_seeds"),
    (Repeats, "check_seeds"),
    (NumbersItsCalls, "check_seeds"),
    (NumbersItsCalls, "check_random_bits"),
    (PrintsAValue, "check_form"),
    (FollowsLaterParameters, "check_later_parameters"),
    (CountsRows, "check_form"),
    (KeepsAttrs, "check_form"),
    (WritesIndex, "check_form"),
    (MovesIndex, "check_form"),
    (NamesIndex, "check_form"),
    (NamesColumns, "check_form"),
    (NamesColumnAxis, "check_form"),
    (OrdersColumns, "check_form"),
    (DropsRows, "check_form"),
    (OrdersCategories, "check_form"),
    (KeepsCategories, "check_form"),
    (KeepsMetadata, "check_form"),
    (SortsRows, "check_order"),
    (ReleasesCategoricals, "check_form"),
    (PassesMissingThrough, "check_reports"),
    (PairsShareBits, "check_rows"),
    (StatesLess, "check_channel"),
    (StatesLess, "check_reports"),
]


@pytest.mark.usefixtures("repeatable_draws")
@pytest.mark.parametrize(("mutant", "name"), MUTANTS)
def test_each_fault_is_found_by_its_check(mutant, name):
    with pytest.raises(AssertionError, match=f"^{mutant.__name__}: {name}: ") as caught:
        dict(privatizer_checks(mutant(categories=VALUES)))[name]()
    assert caught.value.__cause__ is None, "a mishap of the mutant, and not its fault"


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_audit_finds_four_fifths_of_an_epsilon(epsilon):
    with pytest.raises(AssertionError, match="check_reports: the epsilon of an audit must be at most"):
        dict(privatizer_checks(StatesLess(epsilon, categories={"x": ["a", "b"]})))["check_reports"]()


def test_missing_values_outside_the_domain_are_audited():
    """No declared value is missing: a record of None is audited, too, and passes if it is an error."""
    undeclared = {"size": [1, 2, 3]}
    passed = PassesMissingThrough(categories=undeclared, handle_unknown="uniform")
    with pytest.raises(AssertionError, match=r"^PassesMissingThrough: check_reports: the epsilon of an audit"):
        dict(privatizer_checks(passed))["check_reports"]()
    for handle_unknown in ("uniform", "error"):
        encoder = RandomizedResponseEncoder(categories=undeclared, handle_unknown=handle_unknown)
        dict(privatizer_checks(encoder))["check_reports"]()


class ColumnsShareBits(Mutant):
    def transform(self, X, **ids):
        released = super().transform(X, **ids)
        return released.assign(b=np.where(X["a"] == X["b"], released["a"], 1 - released["a"]))


def test_random_bits_of_several_columns_are_found():
    mutant = ColumnsShareBits(categories={"a": [0, 1], "b": [0, 1]})
    with pytest.raises(AssertionError, match=r"check_reports: .* by the event: values of all columns together"):
        dict(privatizer_checks(mutant))["check_reports"]()


def test_every_check_finds_a_fault():
    assert {name for _, name in MUTANTS} == set(CHECKS)


def test_true_rows_fail():
    estimator = OnFitOnly(RandomizedResponseEncoder(categories=[["a", "b"], [1, 2]]))
    with pytest.raises(AssertionError, match="check_random_bits"):
        dict(privatizer_checks(estimator, [["a", 1], ["b", 2]]))["check_random_bits"]()


class Bare(TransformerMixin, BaseEstimator):
    """The parameters are unknown."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


def test_invalid_arguments_raise_an_error():
    for estimator in (RandomizedResponseEncoder, object(), None):
        with pytest.raises(TypeError, match="`estimator` must be an instance with fit and transform"):
            check_privatizer(estimator)
    for estimator in (Bare(), RandomizedResponseEncoder()):
        with pytest.raises(TypeError, match="`X` is required for"):
            check_privatizer(estimator)
