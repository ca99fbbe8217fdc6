"""What all transformers share that report row by row: prepare, charge, draw, write."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Self

from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp.base import CallCounter, as_asked, coins, read_input
from skdp.frames import Table
from skdp.local._stored_tally import StoredTally
from skdp.privacy import BudgetExceeded, PrivacyGuarantee, PrivacyLedger, check_epsilon
from skdp.randomness import ByteSource

Drawn = tuple[list[NDArray[Any]], NDArray[Any] | None]
"""The reports of each attribute, and, where each row reports one attribute only, which one."""

Write = Callable[[list[NDArray[Any]], NDArray[Any] | None], Any]

Call = int | Callable[..., ByteSource]
"""The number of a call of `transform`, or what gives the coins for a purpose and columns: a batch of a large table."""


_SECRETS = {"ledger", "_ledger", "secret_key", "_key", "_memo", "random_state", "_seed"}


class RowReports(ABC, BaseEstimator):
    """Base of the transformers whose reports of a row depend on this row only, whatever else is in the table."""

    # So a table may come in batches: `skdp.engines` prepares each of them, and draws its reports with coins of its own.

    guarantee_: PrivacyGuarantee
    """Its scope names the columns that are privatised."""

    _calls: CallCounter
    _ledger: PrivacyLedger | None
    _seed: Any

    @abstractmethod
    def _prepare(self, table: Table) -> tuple[list[NDArray[Any]], Write]:
        """Code the columns, and prepare to write reports: all that may be refused, before any charge and any coin."""
        # The codes are arrays of numbers, or of bytes (as objects), a row a record; they tell all that reports depend
        # on.

    @abstractmethod
    def _draw(self, codes: list[NDArray[Any]], records: list[bytes], call: Call) -> Drawn:
        """Draw the reports of codes. Which coins a row gets depends on its place only, not on any value."""

    @abstractmethod
    def _read_records(self, record_id: Any, rows: int) -> list[bytes]:
        """Write the record ids as bytes; none where there is no permanent key."""

    @abstractmethod
    def _own_names(self) -> list[Any]:
        """Name the columns of the reports."""

    @abstractmethod
    def _empty_tally(self) -> StoredTally:
        """Return the tally of no reports."""

    @abstractmethod
    def tally(self, reports: Any) -> Any: ...

    @property
    @abstractmethod
    def _permanent_key(self) -> bytes | None:
        """The key of the permanent reports, if there are such."""

    @abstractmethod
    def _declaration(self) -> Any:
        """Return what is declared of the columns, as plain values."""

    @abstractmethod
    def _settings(self) -> Any:
        """Return what else decides how a row is reported, as plain values."""

    def _release(self, X: Any, record_id: Any) -> Any:
        """Privatise a table in memory."""
        check_is_fitted(self)
        table = read_input(self, X, reset=False)
        codes, write = self._prepare(table)
        records = self._read_records(record_id, len(table.columns[0]))
        self._charge()
        return as_asked(self, write(*self._draw(codes, records, self._calls.advance())))

    def _charge(self, run: str | None = None) -> None:
        """Charge one call before anything is drawn; the ledger names the run, if this can be resumed."""
        if self._ledger is not None:
            name = type(self).__name__
            self._ledger.charge(self.guarantee_, name if run is None else f"{name}, run {run}")

    def _check_budget(self) -> None:
        """Refuse what the ledger does not cover, before a row is read; `_charge` decides."""
        ledger = self._ledger
        if ledger is None or getattr(self, "_charged", False):
            return
        asked = self.guarantee_ if ledger.relation is None else self.guarantee_.to(ledger.relation)
        left = ledger.remaining()
        if asked.epsilon > left.epsilon:
            raise BudgetExceeded(
                f"{type(self).__name__} asks for epsilon {asked.epsilon}; the ledger has {left.epsilon} of "
                f"{ledger.epsilon} left. Nothing was released."
            )

    def _without_secrets(self) -> Self:
        """Copy what prepares and tallies, to be sent to workers: no ledger, no key and no seed."""
        protocol = copy.copy(self)
        for name in _SECRETS & protocol.__dict__.keys():
            setattr(protocol, name, None)
        return protocol

    def _coins(self, call: Call, purpose: str, *columns: Any) -> ByteSource:
        if callable(call):
            return call(purpose, *columns)
        return coins(self._seed, type(self).__name__, call, purpose, *columns)


def attribute_epsilons(
    epsilon: Fraction | None, attributes: Sequence[tuple[Any, ...]], sizes: Sequence[int], strategy: str, shares: Any
) -> list[Fraction | None]:
    """Divide epsilon among the attributes of a record."""
    names = [columns[0] for columns in attributes]
    weights = _weights(names, sizes, shares if strategy == "split" else _checked_default(shares, strategy))
    if epsilon is None:
        if not isinstance(shares, str) or shares != "uniform":
            raise ValueError("p and q decide epsilon for each column: leave the shares 'uniform'")
        return [None] * len(attributes)
    if strategy != "split":
        return [epsilon] * len(attributes)
    return [epsilon * weight / sum(weights) for weight in weights]


def _checked_default(shares: Any, strategy: str) -> str:
    if not isinstance(shares, str) or shares != "uniform":
        raise ValueError(f"shares divide epsilon under strategy='split'; with {strategy!r} leave them 'uniform'")
    return "uniform"


def _weights(names: list[Any], sizes: Sequence[int], shares: Any) -> list[Fraction]:
    if isinstance(shares, str) and shares == "uniform":
        return [Fraction(1)] * len(names)
    if isinstance(shares, str) and shares == "proportional":
        return [Fraction(size) for size in sizes]
    if not isinstance(shares, Mapping):
        raise ValueError(f"shares must be 'uniform', 'proportional' or a mapping of column to number, got {shares!r}")
    if set(shares) != set(names):
        raise ValueError(f"shares must name the columns {names}, got {list(shares)}")
    return [check_epsilon(shares[name], name=f"the share of column {name!r}") for name in names]
