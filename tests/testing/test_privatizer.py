"""Correct transformers pass the contract, and each check finds its fault."""

import secrets
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, TransformerMixin

from skdp import PrivacyGuarantee, RandomizedResponseEncoder
from skdp.local import OnFitOnly
from skdp.privacy import BudgetExceeded
from skdp.testing import check_privatizer, privatizer_checks

VALUES = {"colour": ["red", "green", "blue", None], "size": [1, 2, 3]}


class Mutant(RandomizedResponseEncoder):
    """The parameters are inherited from the broken class."""

    def seeded(self, X, seed):
        """Release with a seed."""
        parameters = self.get_params() | {"ledger": None, "random_state": seed}
        return RandomizedResponseEncoder(**parameters).fit(X).transform(X)

    def next_turn(self):
        """Return the number of this call."""
        self._turn = getattr(self, "_turn", 0) + 1
        return self._turn


def or_else(errors, recover):
    """Return a `transform` that recovers from errors."""

    def transform(self, X, **ids):
        try:
            return RandomizedResponseEncoder.transform(self, X, **ids)
        except errors:
            return recover(self, X)

    return transform


def then(change, is_changed=pd.DataFrame):
    """Return a `transform` that changes the reports in a table of a library."""

    def transform(self, X, **ids):
        released = RandomizedResponseEncoder.transform(self, X, **ids)
        return change(released, X) if type(released) is type(X) is is_changed else released

    return transform


def echo(self, X):
    raise ValueError(f"no reports of {np.asarray(X).tolist()}") from None


def warn_of_the_value(self, X, **ids):
    warnings.warn(f"reports of {np.asarray(X).tolist()}", stacklevel=2)
    return RandomizedResponseEncoder.transform(self, X, **ids)


def charge_late(self, X, **ids):
    released = self.seeded(X, None)
    if self.ledger is not None:
        self.ledger.charge(self.guarantee_, "late")
    return released


def charge_half(self, X, **ids):
    if self.ledger is not None:
        self.ledger.charge(PrivacyGuarantee(self.epsilon / 2), "half")
    return self.seeded(X, None)


def keep_categories(released, X):
    """Undeclared categories of X, which occur in no row."""
    if not isinstance(X["colour"].dtype, pd.CategoricalDtype):
        return released
    categories = dict.fromkeys([*VALUES["colour"][:3], *X["colour"].cat.categories])
    return released.assign(colour=pd.Categorical(released["colour"], categories))


def order_categories(released, X):
    return released.assign(size=pd.Categorical(released["size"], dict.fromkeys([*X["size"], *VALUES["size"]])))


def sort_rows(self, X, **ids):
    """Reports in the order of the true values, with the row index of X."""
    if not isinstance(X, pd.DataFrame):
        return RandomizedResponseEncoder.transform(self, X, **ids)
    return RandomizedResponseEncoder.transform(self, X.sort_values(list(X)), **ids).set_axis(X.index)


class PrintsAValue(Mutant):
    def fit(self, X, y=None):
        print(f"the first row is {np.asarray(X)[0]}")
        return super().fit(X, y)


class CountsRows(Mutant):
    def fit(self, X, y=None):
        self.count_ = len(X)
        return super().fit(X, y)


class KeepsASecretSeed(Mutant):
    """Fresh in each call, but copies repeat each other."""

    def fit(self, X, y=None):
        self._secret = secrets.randbits(30)
        return super().fit(X, y)

    def transform(self, X, **ids):
        return self.seeded(X, self._secret + self.next_turn())


def state(change):
    """Return a `fit` that changes the guarantee."""

    def fit(self, X, y=None):
        Mutant.fit(self, X, y)
        given = {name: getattr(self.guarantee_, name) for name in ("epsilon", "scope", "secure")}
        self.guarantee_ = PrivacyGuarantee(**given | {"mechanism": "?"} | change(self))
        return self

    return fit


STATED = {
    "AlwaysSaysSecure": lambda self: {"secure": True},
    "StatesOneColumn": lambda self: {"scope": self.guarantee_.scope[:1]},
    "StatesLess": lambda self: {"epsilon": 0.8 * self.epsilon},  # four fifths of the true one
}
TRANSFORMS = {
    "Forgiving": or_else((TypeError, ValueError), lambda self, X: X),
    "EchoesTheValue": or_else(ValueError, echo),
    "WarnsOfTheValue": warn_of_the_value,
    "IgnoresTheBudget": or_else(BudgetExceeded, lambda self, X: self.seeded(X, None)),
    "ChargesTooLate": charge_late,
    "ChargesHalf": charge_half,
    "Repeats": lambda self, X, **ids: self.seeded(X, 0),
    # All int seeds give equal releases.
    "NumbersItsCalls": lambda self, X, **ids: self.seeded(X, self.next_turn()),
    "UsesNumpy": lambda self, X, **ids: self.seeded(X, int(np.random.randint(2**31))),  # noqa: NPY002 - the fault
    "FollowsLaterParameters": lambda self, X, **ids: self.seeded(X, self.random_state),
    "SortsRows": sort_rows,
}
# Values of the rows beside private reports.
LEAKS = {
    "WritesIndex": lambda released, X: released.set_axis(X["colour"]),
    "MovesIndex": lambda released, X: released.set_axis(X.sort_values("size").index),
    "NamesIndex": lambda released, X: released.rename_axis(str(X["size"].iloc[0])),
    "NamesColumns": lambda released, X: released.rename(columns={"size": f"size {X['size'].iloc[0]}"}),
    "NamesColumnAxis": lambda released, X: released.rename_axis(columns=str(X["size"].iloc[0])),
    "OrdersColumns": lambda released, X: released[sorted(X, reverse=bool(X["size"].iloc[0] == 1))],
    "DropsRows": lambda released, X: released[X["size"] != 1].reset_index(drop=True),
    "OrdersCategories": order_categories,
    "KeepsCategories": keep_categories,
    "KeepsAttrs": lambda released, X: released.attrs.update(X.attrs) or released,
}
OTHERS = {
    "PassesMissingThrough": then(lambda released, X: released.mask(X.isna(), None)),
    "PairsShareBits": then(lambda released, X: released.iloc[np.arange(len(X)) // 2 * 2].set_axis(released.index)),
    "RowsApartShareBits": then(lambda released, X: released.iloc[np.arange(len(X)) % 700].set_axis(released.index)),
    "KeepsMetadata": then(lambda released, X: released.replace_schema_metadata(X.schema.metadata), pa.Table),
    # The codes of a Categorical of polars depend on the order of the true values.
    "ReleasesCategoricals": then(
        lambda released, X: released.with_columns(pl.col(pl.Enum, pl.String).cast(pl.Categorical)), pl.DataFrame
    ),
}
TRANSFORMS |= {name: then(leak) for name, leak in LEAKS.items()} | OTHERS
METHODS = {name: {"transform": method} for name, method in TRANSFORMS.items()}
METHODS |= {name: {"fit": state(change)} for name, change in STATED.items()}
FAULTS = {fault.__name__: fault for fault in (PrintsAValue, CountsRows, KeepsASecretSeed)}
FAULTS |= {name: type(name, (Mutant,), {"__module__": __name__} | methods) for name, methods in METHODS.items()}
globals().update(FAULTS)  # pickles find a class by its name
FAULTS_OF_CHECKS = {
    "check_guarantee": ["AlwaysSaysSecure"],
    "check_statement": ["StatesOneColumn"],
    "check_parameters": ["Forgiving"],
    "check_errors": ["EchoesTheValue", "WarnsOfTheValue", "Forgiving"],
    "check_charge": ["ChargesTooLate", "ChargesHalf"],
    "check_budget": ["IgnoresTheBudget"],
    "check_random_bits": ["Repeats", "KeepsASecretSeed", "UsesNumpy", "NumbersItsCalls"],
    "check_seeds": ["UsesNumpy", "Repeats", "NumbersItsCalls"],
    "check_form": [*LEAKS, "KeepsMetadata", "ReleasesCategoricals", "PrintsAValue", "CountsRows"],
    "check_later_parameters": ["FollowsLaterParameters"],
    "check_order": ["SortsRows"],
    "check_reports": ["PassesMissingThrough", "StatesLess"],
    "check_rows": ["PairsShareBits", "RowsApartShareBits"],
    "check_channel": ["StatesLess"],
}


@pytest.mark.filterwarnings("ignore:reports of:UserWarning")  # of WarnsOfTheValue, outside of the check
@pytest.mark.parametrize(
    ("name", "fault"), [(name, fault) for name, faults in FAULTS_OF_CHECKS.items() for fault in faults]
)
def test_each_fault_is_found_by_its_check(name, fault):
    with pytest.raises(AssertionError, match=f"^{fault}: {name}: ") as caught:
        dict(privatizer_checks(FAULTS[fault](categories=VALUES)))[name]()
    assert caught.value.__cause__ is None, "a mishap of the mutant, and not its fault"


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_audit_finds_four_fifths_of_an_epsilon(epsilon):
    with pytest.raises(AssertionError, match="check_reports: the epsilon of an audit must be at most"):
        dict(privatizer_checks(FAULTS["StatesLess"](epsilon, categories={"x": ["a", "b"]})))["check_reports"]()


def test_missing_values_outside_the_domain_are_audited():
    """No declared value is missing: a record of None is audited, too, and passes if it is an error."""
    undeclared = {"size": [1, 2, 3]}
    passed = FAULTS["PassesMissingThrough"](categories=undeclared, handle_unknown="uniform")
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
    assert set(FAULTS_OF_CHECKS) == set(dict(privatizer_checks(RandomizedResponseEncoder(categories=VALUES))))


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
