"""What all estimators share: parameters that are checked, the randomness of calls, and whole fits."""

from __future__ import annotations

import itertools
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from numbers import Real
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from threadpoolctl import ThreadpoolController

from skdp.base._typing import TableLike
from skdp.privacy import BudgetExceeded, PrivacyLedger
from skdp.randomness import ByteSource, SecureSource, SeededSource
from skdp.tables import is_whole_number, plain

Fit = TypeVar("Fit", bound=Callable[..., Any])


def all_or_nothing(fit: Fit) -> Fit:
    """Decorate a method so that it restores the attributes of the estimator when it fails."""
    # Statistics and their guarantee belong together, also if an error or an interrupt
    # stops a second fit between setting one and the other. Charges remain, and random
    # bits that were drawn are not drawn again.

    @wraps(fit)
    def fit_or_restore(self: Any, *args: Any, **kwargs: Any) -> Any:
        attributes = dict(vars(self))
        try:
            return fit(self, *args, **kwargs)
        except BudgetExceeded as refusal:
            # A search prints the traceback of each fit: that of the code in between
            # says nothing more.
            self.__dict__ = attributes
            raise refusal.with_traceback(None) from None
        except BaseException:
            self.__dict__ = attributes  # one assignment, which no interrupt can split
            raise

    return cast(Fit, fit_or_restore)


def check_confidence_level(level: Any) -> float:
    """Check a confidence level."""
    is_number = isinstance(level, Real) and not isinstance(level, bool)
    if not is_number or not 0 < float(level) < 1:
        raise ValueError(
            f"confidence_level must be a number between 0 and 1, got {level!r}"
        )
    return float(level)


def check_ledger(ledger: Any) -> None:
    """Check the ``ledger`` of an estimator."""
    if ledger is not None and not isinstance(ledger, PrivacyLedger):
        raise TypeError(
            f"ledger must be None or a PrivacyLedger, got {type(ledger).__name__}"
        )


def check_random_state(value: Any) -> None:
    """Check the ``random_state`` of an estimator."""
    if value is None:
        return
    if not is_whole_number(value):
        raise TypeError(
            "random_state must be None (secure) or an int (for experiments), "
            f"got {type(value).__name__}"
        )
    if value < 0:
        raise ValueError(f"random_state must be None or an int >= 0, got {value}")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}")


def check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}")


class CallCounter:
    """The number of calls since `fit`; restarts in a copy or a pickle, so that a seeded stream replays."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def advance(self) -> int:
        """Return the number of this call, and count it."""
        return next(self._numbers)

    def __reduce__(self) -> tuple[type[CallCounter], tuple[()]]:
        return CallCounter, ()


def coins(random_state: int | None, *key: Any) -> ByteSource:
    """Return the source of random bits for one column of one call."""
    if random_state is None:
        return SecureSource()
    texts = [repr(plain(part)) for part in key]
    return SeededSource(int(random_state), *texts)


@dataclass(frozen=True)
class CallRandomness:
    """The randomness of one call: for each purpose and columns a source of its own."""

    seed: int | None = field(repr=False)
    owner: str
    call: int
    where: tuple[Any, ...] = ()

    def __call__(self, purpose: str, *columns: Any) -> ByteSource:
        return coins(self.seed, self.owner, self.call, *self.where, purpose, *columns)

    @property
    def name(self) -> str | None:
        """What distinguishes the call from others of a seeded estimator, without the seed; None if it is secure."""
        return None if self.seed is None else f"{self.owner}, call {self.call}"

    def part(self, *where: Any) -> CallRandomness:
        """Return the randomness of a part of the call."""
        return replace(self, where=(*self.where, *where))


@cache
def _blas() -> ThreadpoolController:
    """Find the libraries that multiply matrices, which takes milliseconds."""
    return ThreadpoolController()


def one_thread(alone: bool = True) -> AbstractContextManager[Any]:
    """Multiply matrices by one thread: where they are small, several wait for each other busily."""
    # The limit is one of the process: two threads, of which the first ends first, would
    # leave it behind.
    is_main = threading.current_thread() is threading.main_thread()
    limit = 1 if alone and is_main else None
    manager: AbstractContextManager[Any] = _blas().limit(limits=limit, user_api="blas")
    return manager


SITE = "https://skdp.example"
"""Where the site is: a placeholder, until the project has an address. Without a slash at the end."""


class OnSite:
    """Mixin of estimators with a page of the API, named ``skdp.`` and the name of the class."""

    _doc_link_module = "skdp"
    _doc_link_template = f"{SITE}/api/generated/skdp.{{estimator_name}}.html"


class ProbabilisticClassifier(ClassifierMixin):
    """A classifier whose `predict_proba` and `predict` follow from its `predict_log_proba`."""

    classes_: Any

    @abstractmethod
    def predict_log_proba(self, X: TableLike) -> NDArray[np.float64]:
        """Return the logarithms of the probabilities of the classes."""

    def predict_proba(self, X: TableLike) -> NDArray[np.float64]:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            As of `predict_log_proba`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of `classes_`; each row adds up to 1.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            As of `predict_log_proba`.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: TableLike) -> NDArray[Any]:
        """Return the likeliest class of rows.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            As of `predict_log_proba`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Classes.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            As of `predict_log_proba`.
        """
        likeliest = self.predict_log_proba(X).argmax(axis=1)
        classes: NDArray[Any] = self.classes_[likeliest]
        return classes
