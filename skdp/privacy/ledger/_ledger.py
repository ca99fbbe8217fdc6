"""A budget to which each release is charged before its noise is drawn."""

from __future__ import annotations

import os
from collections.abc import Iterable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import pandas as pd

from skdp.privacy._composition import compose, read_releases
from skdp.privacy._guarantee import PrivacyGuarantee, Relation
from skdp.privacy._json import Fields, JsonRecord
from skdp.privacy.ledger._account import given_budget, largest_charge, read_budget
from skdp.privacy.ledger._admission import admitted
from skdp.privacy.ledger._book import MemoryBook, RecordBook, closed_book
from skdp.privacy.ledger._file_book import FileBook
from skdp.privacy.ledger._plan import PlanBook
from skdp.privacy.ledger._record import read_book, write_book
from skdp.privacy.ledger._report import Amount, html_charges, list_charges, show_balance


class PrivacyLedger(JsonRecord):
    """Account for all releases about the same persons, and refuse those that exceed the budget.

    Parameters
    ----------
    path : str or path, optional
        A file on a local disk, which several processes may use at the same time. It is created if it does not exist
        and `epsilon` is given. Symbolic links are resolved. By default the ledger is in memory.
    epsilon : float, optional
        The budget of privacy loss, finite and > 0. Omit the budget if the file exists (see Notes).
    delta : float, default=0.0
        The budget of failure probability, in [0, 1), with `epsilon`.
    filter_delta : float, default=0.0
        The part of `delta`, at most all of it, that pays for a filter: then charges may add up to more than epsilon,
        while the deltas of those without a rho add up to at most the rest. With 0, all charges add up.
    rho : float, optional
        The budget of zero-concentrated privacy loss, > 0, in place of epsilon and delta.
    mu : float, optional
        The budget of Gaussian privacy loss, > 0, in place of epsilon and delta.
    relation : {"replace", "add_remove"}, optional
        The neighbouring relation of the budget; by default "add_remove" until the first charge for replacing a record,
        and "replace" from then on.

    Attributes
    ----------
    epsilon, delta, rho, mu : float or None
        The budget. Attributes are read-only.
    filter_delta : float
        The part of delta for the filter.
    relation : {"replace", "add_remove"} or None
        The neighbouring relation, None before the first charge if it was not given.
    path : Path or None
        The file.
    spent : named tuple of float
        Sums of epsilon and delta charged so far.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or the file is not a ledger, has another budget, has several names (hard links),
        or was modified.
    OSError
        If the file or its folder does not exist, or cannot be written.

    Notes
    -----
    **Privacy.** A ledger is a filter: all charges together keep the budget, even if later ones, their number and their
    sizes were chosen after seeing earlier releases. A charge is made before any noise is drawn and is never refunded,
    even if the release fails. Sums are exact in the decimals of the charges, so three charges of 0.1 fit into 0.3.

    - ``epsilon, delta``: epsilons and deltas add up (basic composition).
    - ``rho``: rhos add up ([1]_, [2]_), for `zcdp_epsilon`; one without has epsilon**2 / 2, or less by its losses.
    - ``mu``: the squares of mu add up ([3]_), for `gaussian_delta`; a charge of epsilon alone counts as the least mu
      that this implies. Charges with delta > 0 and without a rho or mu are refused.
    - ``epsilon, delta, filter_delta``: either the epsilons add up to epsilon, or the rhos to the one that
      is (epsilon, filter_delta)-DP. The deltas of charges without a rho add up to the rest of delta in both cases.

    The smallest bound of several is in general no filter. For releases that are declared together there is a better
    total, from the distribution of the privacy loss: `plan`. Proofs are in decision 10 of the documentation.

    Add/remove charges are converted for a "replace" budget, the earlier ones too if it was not declared; a "replace"
    charge cannot be made to an add/remove budget that was. Unless it is declared, whether there is a charge for
    replacing a record must not depend on results of earlier releases.

    The ledger is one object: clones and copies of an estimator share it, also between threads. In memory it belongs to
    one process: pickled copies and forked processes refuse all charges, so a search with several processes fails rather
    than spend the same budget twice. A signal handler may read a ledger at any time (during a charge, the state before
    it), but cannot charge it then.

    A file may be shared. All its names, such as in a bind mount, are the same ledger: the lock is on the file itself,
    and there are no files beside it. A charge is on the disk before anything is drawn, so a crash leaves no release
    without its charge (but possibly a charge without its release). The file has lines of JSON, each with a hash of
    itself and of the previous line, and a first line that counts them: a line that was changed, moved or removed by
    accident or by hand is an error, and nothing is released. Users who can write to the file can recompute all hashes:
    only those trusted with the data should have write access. A copy of the file is another ledger with the same
    budget. With ``epsilon=``, a file that was lost, or that is looked for in another folder, is silently created again
    with the whole budget; without it, this is an error: give the budget once, and omit it afterwards. An SQLite ledger
    of version 0.1 is converted in place when it is opened; no other process may use it then.

    The time of a charge does not depend on the number of charges before; opening a file reads all of them.

    `to_json` writes a record of the budget and all charges, without the path. `from_json` makes a ledger of it that can
    only be read: another one that could be charged would spend the same budget twice.

    A search or a cross-validation charges each fit, and each `transform` that is a release. scikit-learn turns a
    `BudgetExceeded` into a score of NaN with a warning, unless ``error_score="raise"`` is set.

    References
    ----------
    .. [1] V. Feldman, T. Zrnic (2021). Individual privacy accounting via a Rényi filter. NeurIPS.
    .. [2] J. Whitehouse, A. Ramdas, R. Rogers, Z. S. Wu (2023). Fully-adaptive composition in differential privacy.
       ICML.
    .. [3] A. Smith, A. Thakurta (2022). Fully adaptive composition for Gaussian differential privacy. arXiv:2210.17520

    Examples
    --------
    >>> ledger = PrivacyLedger(epsilon=0.3)
    >>> for _ in range(3):
    ...     ledger.charge(PrivacyGuarantee(0.1), "RandomizedResponseEncoder")
    >>> ledger.remaining()
    Amount(epsilon=0.0, delta=0.0)
    >>> ledger.charge(PrivacyGuarantee(0.1), "Mean")
    Traceback (most recent call last):
        ...
    skdp.privacy.ledger._admission.BudgetExceeded: Mean asks for epsilon 0.1; ...

    A hundred answers of epsilon 0.1, each chosen after the one before, add up to 10; for a delta of 1e-6, a filter
    admits them within 5:

    >>> ledger = PrivacyLedger(epsilon=5.3, delta=1e-6, filter_delta=1e-6)
    >>> for _ in range(100):
    ...     ledger.charge(PrivacyGuarantee(0.1), "answer")
    >>> round(ledger.spent.epsilon, 1)
    10.0

    In a file:

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     PrivacyLedger(f"{folder}/ledger.jsonl", epsilon=3.0).charge(PrivacyGuarantee(1.0), "survey")
    ...     PrivacyLedger(f"{folder}/ledger.jsonl").remaining()
    Amount(epsilon=2.0, delta=0.0)
    """

    _format: ClassVar[str] = "skdp-ledger"

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        filter_delta: float = 0.0,
        rho: float | None = None,
        mu: float | None = None,
        relation: Relation | None = None,
    ) -> None:
        budget = given_budget(
            epsilon=epsilon, delta=delta, filter_delta=filter_delta, rho=rho, mu=mu, relation=relation
        )
        self._path: Path | None = None
        self._book: MemoryBook | FileBook | RecordBook
        if path is None:
            if budget is None:
                raise TypeError("PrivacyLedger needs a budget: epsilon=, rho= or mu=")
            self._book = MemoryBook(budget)
        else:
            if not isinstance(path, str | os.PathLike):
                raise TypeError(f"path must be a path, got {type(path).__name__}; the budget is epsilon=")
            self._path = Path(path).resolve()
            self._book = FileBook(self._path, budget)

    @property
    def epsilon(self) -> float | None:  # numpydoc ignore=RT01
        """The budget of privacy loss."""
        return self._book.budget.epsilon

    @property
    def delta(self) -> float | None:  # numpydoc ignore=RT01
        """The budget of failure probability."""
        return self._book.budget.delta

    @property
    def filter_delta(self) -> float:  # numpydoc ignore=RT01
        """The part of delta that pays for the filter."""
        return self._book.budget.filter_delta

    @property
    def rho(self) -> float | None:  # numpydoc ignore=RT01
        """The budget of zero-concentrated privacy loss."""
        return self._book.budget.rho

    @property
    def mu(self) -> float | None:  # numpydoc ignore=RT01
        """The budget of Gaussian privacy loss."""
        return self._book.budget.mu

    @property
    def path(self) -> Path | None:  # numpydoc ignore=RT01
        """The file."""
        return self._path

    @property
    def relation(self) -> Relation | None:  # numpydoc ignore=RT01
        """The neighbouring relation of the budget, None while it is not fixed."""
        return self._book.account().budget.relation

    @property
    def spent(self) -> Amount:  # numpydoc ignore=RT01
        """Epsilon and delta charged so far."""
        sums = self._book.account().sums
        return Amount(float(sums.epsilon), float(sums.delta))

    def remaining(self) -> Amount:
        """Return the remaining budget: what one more release without a rho may have.

        Returns
        -------
        Amount
            Named tuple of epsilon and delta.
        """
        return Amount(*largest_charge(self._book.account()))

    def balance(self) -> pd.DataFrame:
        """Return the budget, what was spent of it and what remains, in all forms.

        Returns
        -------
        pandas.DataFrame
            Rows ``budget, spent, remaining``; columns ``epsilon, delta, rho, mu``: sums, and the root of that of mu**2.
            What is not limited has a budget of nan, and infinity remains; with `filter_delta`, as in `remaining`.
        """
        return show_balance(self._book.account())

    def check(self, guarantee: PrivacyGuarantee, what: str) -> None:
        """Refuse a release that the budget does not cover now, without charging it.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            The guarantee of the release.
        what : str
            Its name, for errors.

        Raises
        ------
        BudgetExceeded
            If the budget does not cover it.
        TypeError, ValueError, RuntimeError
            As raised by `charge`.
        """
        _check_release(guarantee, what)
        charge = admitted(what, guarantee, self._book.account())
        if isinstance(self._book, PlanBook):
            self._book.place(charge)

    def charge(self, guarantee: PrivacyGuarantee, what: str) -> None:
        """Charge a release that is about to be made.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            The guarantee of the release.
        what : str
            The name of the release, for the report and for errors.

        Raises
        ------
        TypeError
            If a parameter is of another type.
        BudgetExceeded
            If the budget does not cover it; nothing is charged.
        ValueError
            If its neighbouring relation cannot be converted to that of the ledger, or the file was modified.
        OSError
            If the file cannot be written.
        RuntimeError
            If a ledger in memory is used in another process or through a pickled copy, or if this code interrupts a
            charge, as a signal handler may.
        """
        _check_release(guarantee, what)
        self._book.add(partial(admitted, what, guarantee))

    def plan(
        self, guarantees: Iterable[PrivacyGuarantee], what: str, *, delta: float | Fraction | None = None
    ) -> PrivacyLedger:
        """Charge a fixed list of releases as one, and return a ledger that admits each of them once.

        Parameters
        ----------
        guarantees : iterable of PrivacyGuarantee
            The guarantee of each release; at least one.
        what : str
            The name of the plan, for the report and for errors.
        delta : float, optional
            The failure probability of all of them together, as of `compose`; by default the sum of their deltas.

        Returns
        -------
        PrivacyLedger
            A ledger in memory for these releases: each charge takes a release of the list with at least its epsilon,
            delta and rho, and the same losses unless the list states none. Others are refused.

        Raises
        ------
        BudgetExceeded
            If the budget does not cover what `compose` returns; nothing is charged.
        TypeError, ValueError
            As raised by `compose` and `charge`.

        Notes
        -----
        **Privacy.** The list is charged when it is declared, so that its total loss follows from a distribution that is
        fixed in advance, unlike that of charges that are chosen one by one. The releases may be made in any order, also
        between others, and with queries that depend on earlier results. What is not used is not refunded.

        Examples
        --------
        >>> ledger = PrivacyLedger(epsilon=5, delta=1e-6)
        >>> survey = ledger.plan([PrivacyGuarantee(0.1)] * 100, "survey", delta=1e-6)
        >>> survey.charge(PrivacyGuarantee(0.1), "first question")
        >>> round(ledger.spent.epsilon, 2), round(survey.remaining().epsilon, 1)
        (4.77, 9.9)
        """
        releases = read_releases(guarantees)
        book = PlanBook(releases)
        self.charge(book.in_decimals(compose(releases, delta=delta), summed=delta is None), what)
        return PrivacyLedger._of_book(book)

    def report(self) -> pd.DataFrame:
        """List the charges in order.

        Returns
        -------
        pandas.DataFrame
            A row per charge: ``what, epsilon, delta, rho, relation, trust, scope, mechanism, secure, time`` (UTC).
        """
        return list_charges(self._book.charges(), self.relation)

    def _content(self) -> dict[str, Any]:
        return write_book(RecordBook.of(self._book.budget, self._book.charges()))

    @classmethod
    def _of(cls, fields: Fields) -> Self:
        return cls._of_book(read_book(fields))

    @classmethod
    def _of_book(cls, book: RecordBook | PlanBook) -> Self:
        made = cls.__new__(cls)
        made._path, made._book = None, book
        return made

    def _record(self) -> PrivacyLedger:
        """Return a copy that can only be read."""
        return PrivacyLedger._of_book(RecordBook.of(self._book.budget, self._book.charges()))

    def __repr__(self) -> str:
        # Without the path: scikit-learn shows this in the HTML of estimators.
        try:
            spent = str(tuple(self.spent))
        except (OSError, ValueError, RuntimeError):  # the file is lost or modified, or this is a copy
            spent = "unknown"
        return f"{type(self).__name__}({self._book.budget.amount()}, spent={spent})"

    def _repr_html_(self) -> str:
        return html_charges(self, self._book.charges(), self.relation)

    def __sklearn_clone__(self) -> Self:
        return self

    __copy__ = __sklearn_clone__

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def _check_release(guarantee: Any, what: Any) -> None:
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(
            "guarantee must be a PrivacyGuarantee, such as PrivacyGuarantee(1.0) or an estimator's guarantee_, got "
            f"{type(guarantee).__name__}"
        )
    if not isinstance(what, str):
        raise TypeError(f"what must be a str, got {type(what).__name__}")


def closed_ledger(refusal: str, **budget: Any) -> PrivacyLedger:
    """Return a ledger that stands for one that is elsewhere, and refuses all charges."""
    ledger = PrivacyLedger(epsilon=1.0)
    ledger._book = closed_book(read_budget(**budget), refusal)
    return ledger
