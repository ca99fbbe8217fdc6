"""A budget to which each release is charged before its noise is drawn."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, Self

import pandas as pd

from skdp.privacy._formats import (
    format_html,
    format_name,
    format_number,
    format_row,
    format_text,
)
from skdp.privacy.guarantees._budget import Mu, Rho
from skdp.privacy.guarantees._guarantee import (
    PrivacyGuarantee,
    Relation,
    join_names,
)
from skdp.privacy.ledger._book import (
    SPENT,
    STATED_DELTA,
    Account,
    Book,
    BudgetExceeded,
    FileBook,
    MeasureSums,
    get_amounts,
    round_down,
    round_up_total,
    shorten_remaining,
)
from skdp.privacy.ledger._division import (
    check_part,
    divide_delta,
    divide_epsilon,
    find_private_steps,
)
from skdp.privacy.ledger._fits import check_grids, count_fits
from skdp.privacy.ledger._server_book import ServerBook, is_server_address
from skdp.randomness import check_size, check_type

_CHARGE_COLUMNS = (
    "title epsilon delta rho relation unit trust scope mechanism secure time"
)


# Each charge is logged here.
LOGGER = logging.getLogger("skdp")


class Amount(NamedTuple):
    """An amount of a budget."""

    epsilon: float
    delta: float


class PrivacyLedger:
    """Privacy budget of all releases about the same people; releases that exceed it raise an error.

    Parameters
    ----------
    epsilon : float, default=None
        Budget of privacy loss, finite and > 0. Omit the budget to open an existing file.
    delta : float, default=0.0
        Budget of failure probability, in [0, 1), with `epsilon`.
    path : str or path, default=None
        File on a local disk, which several processes may use at the same time, or the address of a PostgreSQL database,
        ``"postgresql://user@host/database"``, which several machines may use (extra "postgres"). It is created if it
        does not exist and a budget is given. None keeps the ledger in memory.
    rho : float, default=None
        Budget of zero-concentrated privacy loss, > 0, instead of epsilon and delta.
    mu : float, default=None
        Budget of Gaussian privacy loss, > 0, instead of epsilon and delta.
    guess : float, default=None
        Budget of mu that limits the probability of a correct guess between two equally likely neighboring tables to
        this number, between 0.5 and 1 (`Mu.of`), instead of epsilon and delta.
    relation : {"replace", "add_remove", "replace_values"}, default=None
        Neighboring relation of the budget. None uses the relation of the first charge.
    columns : sequence of str, default=None
        Protected columns for ``relation="replace_values"``. Include columns that determine them, because a ledger does
        not see the table.

    Attributes
    ----------
    epsilon, delta, rho, mu : float or None
        The budget. Attributes are read-only.
    relation : {"replace", "add_remove", "replace_values"} or None
        Neighboring relation; None before the first charge if it was not given.
    columns : tuple of str or None
        Protected columns of "replace_values"; None for whole records.
    path : Path, str or None
        The file, or the address of the database without a password.
    spent : named tuple of float
        Sums of the charged epsilons and deltas. `balance` also returns the sums of rho and mu.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or the file or database is damaged, not a ledger, or has another budget.
    OSError
        If the file or its folder does not exist or cannot be written, or the database cannot be reached or changed.

    Notes
    -----
    **Privacy.** A ledger is a privacy filter: all charges together are within the budget, even if later releases, their
    number and their epsilon depend on earlier results. A charge is made before any noise is drawn and is never
    refunded, even if the release fails. Sums are exact in decimals, so ten charges of 0.1 fit into a budget of 1.

    - ``epsilon, delta``: epsilons and deltas add up (basic composition).
    - ``rho``: rhos add up ([1]_, [2]_), for `zcdp_epsilon`; a charge of epsilon alone counts as ``epsilon *
      tanh(epsilon / 2)``, or less by its losses.
    - ``mu``: the squares of mu add up ([3]_), for `gaussian_delta`; a charge of epsilon alone counts as the smallest mu
      that it implies. Charges with delta > 0 and without a rho or mu are rejected.

    The smallest of several bounds is in general not a filter. For releases that are declared together, `compose`
    returns a smaller total: charge its result. :doc:`/project/decisions` states the reasons.

    A budget has one relation, and charges are converted to it. Replacing a record is removing one and adding one, so a
    "replace" budget counts charges for adding or removing a record **twice**. An "add_remove" budget rejects "replace"
    charges. Local releases have "replace" guarantees and central releases "add_remove" guarantees. To avoid the factor
    2, use a separate ledger for the central releases of other people, or set ``relation="add_remove"`` if there are
    no local releases. A budget for whole records rejects a release that protects named columns only, because it may
    reveal all other columns. A budget for named columns (``relation="replace_values"``) accepts releases for whole
    records, and releases that protect at least its columns.

    Each charge is logged to the logger ``skdp`` with the level INFO, as ``charge`` and a JSON object with the fields
    ``ledger, release, mechanism, columns, relation, cost, remaining``. The log contains no value of the data.

    Charges for records and charges for all rows of a person (``person`` of `fit`) add up for people with at most as
    many rows as the charges for records protect. `charges` has the unit of each charge, `privacy_statement` the unit of
    their sum.

    Clones and copies of an estimator share its ledger, also between threads. A ledger in memory belongs to one process:
    pickled copies and forked processes reject all charges, so a search with several processes fails rather than spend
    the same budget twice. Do not charge a ledger in a signal handler, which may interrupt another charge.

    A file is an SQLite database, which threads and processes of one computer share. Use no network drive, and the same
    path in all processes (symbolic links are resolved; do not use hard links). Only its owner can read a new file; use
    ``chmod`` to share it. A charge is on the disk before anything
    is drawn: a crash leaves no release without its charge, but possibly a charge without its release. The time of a
    charge does not depend on the number of charges before. Only people who are trusted with the data should have write
    access. A copy of the file is another ledger with the same budget. Give the budget once, and omit it afterwards:
    with a budget, a lost file is created again with the whole budget; without one, it is an error.

    A PostgreSQL database keeps the ledger in the tables ``skdp_account`` and ``skdp_charge`` of the first schema of the
    search path; ``?options=-csearch_path%3Dsurvey`` selects a schema, so that one database has several ledgers. A
    charge locks the row of the account and is committed before anything is drawn. If the connection is lost before the
    answer, an error is raised, nothing is drawn, and the charge may count. The password of an address is neither shown
    nor stored in copies and pickles; other processes read it from ``PGPASSWORD`` or a password file. The sums of a file
    or database are compared with its charges when it is opened, but neither is signed: anyone with write access can
    change it.

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
    >>> from skdp import PrivacyGuarantee, PrivacyLedger
    >>> ledger = PrivacyLedger(epsilon=0.3)
    >>> for _ in range(3):
    ...     ledger.charge(PrivacyGuarantee(0.1), "RandomizedResponseEncoder")
    >>> ledger.remaining()
    Amount(epsilon=0.0, delta=0.0)
    >>> ledger.charge(PrivacyGuarantee(0.1), "Mean")
    Traceback (most recent call last):
        ...
    skdp.privacy.ledger._book.BudgetExceeded: Mean requires epsilon=0.1, but the ledger has 0.0 of 0.3 left. ...

    A hundred answers with epsilon 0.1, each chosen after the one before, add up to 10. For a delta of 1e-6, a ledger in
    rho admits them within 5.3:

    >>> from skdp.privacy import Rho
    >>> ledger = PrivacyLedger(rho=Rho.of(epsilon=5.3, delta=1e-6).rho)
    >>> for _ in range(100):
    ...     ledger.charge(PrivacyGuarantee(0.1), "answer")
    >>> ledger.remaining().epsilon < 0.2
    True

    In a file:

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = f"{folder}/ledger.sqlite"
    ...     PrivacyLedger(3.0, path=path).charge(PrivacyGuarantee(1.0), "survey")
    ...     PrivacyLedger(path=path).remaining()
    Amount(epsilon=2.0, delta=0.0)
    """

    # Title before the names of releases; see `with_title`.
    _title = ""

    def __init__(
        self,
        epsilon: float | None = None,
        *,
        delta: float = 0.0,
        path: str | os.PathLike[str] | None = None,
        rho: float | None = None,
        mu: float | None = None,
        guess: float | None = None,
        relation: Relation | None = None,
        columns: Sequence[Any] | None = None,
    ) -> None:
        # Without a budget (epsilon, rho, mu or guess), `path` must be an existing
        # ledger, which contains the budget and the relation.
        if guess is not None:
            if mu is not None:
                raise ValueError(
                    "A budget must be either `mu` or `guess`, which is a mu, got both."
                )
            mu = Mu.of(guess=guess).mu
        check_type("path", path, str | os.PathLike | None, "a str or a path")
        budget = None
        if epsilon is not None or rho is not None or mu is not None:
            # A budget checks its columns, and sorts them.
            budget = Account(epsilon, delta, rho, mu, relation, columns)  # type: ignore[arg-type]
        elif delta or relation is not None or columns is not None:
            raise ValueError(
                "`delta`, `relation` and `columns` require a budget: epsilon, rho, "
                "mu or guess, got none."
            )
        elif path is None:
            raise TypeError(
                "PrivacyLedger requires a budget: epsilon, rho, mu or guess."
            )
        self._book: Book
        if path is not None and is_server_address(path):
            self._book = ServerBook(budget, str(path))
        else:
            file = None if path is None else Path(path).expanduser().resolve()
            self._book = FileBook(budget, file)

    @property
    def epsilon(self) -> float | None:
        """The largest total epsilon of all charges; None for a budget of rho or mu."""
        return self._book.budget.epsilon

    @property
    def delta(self) -> float | None:
        """The budget of failure probability; None for a budget of rho or mu."""
        return self._book.budget.delta

    @property
    def rho(self) -> float | None:
        """The budget of zero-concentrated privacy loss; None for other budgets."""
        return self._book.budget.rho

    @property
    def mu(self) -> float | None:
        """The budget of Gaussian privacy loss; None for other budgets."""
        return self._book.budget.mu

    @property
    def path(self) -> Path | str | None:
        """The file, or the address of the database without a password; None in memory."""
        return self._book.address

    @property
    def relation(self) -> Relation | Any:
        """The neighboring relation of the budget; None while it is not fixed."""
        return self._book.account().relation

    @property
    def columns(self) -> tuple[Any, ...] | None:
        """The protected columns; None for whole records."""
        return self._book.budget.columns or None

    @property
    def spent(self) -> Amount:
        """The sums of the charged epsilons and deltas."""
        sums = self._book.account().sums
        return Amount(float(sums["epsilon"]), float(sums["delta"]))

    def remaining(self) -> Amount:
        """Return the remaining budget: the largest possible release without a rho.

        Returns
        -------
        Amount
            Named tuple of epsilon and delta, rounded down to nine decimals of the budget.
        """
        return Amount(*self._book.account().largest_charge())

    def balance(self) -> pd.DataFrame:
        """Return the budget, the spent amount and the remaining amount.

        Returns
        -------
        pandas.DataFrame
            Rows ``budget, spent, remaining``; columns ``epsilon, delta, rho, mu, guess``, where mu is the root of the
            sum of mu**2. Without a limit, the budget and the remaining amount are nan. ``guess`` is the largest
            probability of a correct guess between two neighboring tables, for the amount of the row. The guess of the
            budget limits all charges together, even if they depend on earlier results. The guess of the spent amount
            does so only for epsilons without deltas: deltas, rhos and mus that are spent so far add up only if the
            charges were fixed beforehand.
        """
        account = self._book.account()
        rows = account.limits, account.sums, account.remaining()
        index = ["budget", "spent", "remaining"]
        columns = ["epsilon", "delta", "rho", "mu"]
        roundings = round_down, round_up_total, round_down
        amounts = map(_list_amounts, rows, roundings)
        table = pd.DataFrame(amounts, index, columns, float)
        table["guess"] = [
            PrivacyGuarantee(**account.describe_amounts(row)).guess_probability
            for row in rows
        ]
        return table

    def charges(self) -> pd.DataFrame:
        """List the charges in order.

        Returns
        -------
        pandas.DataFrame
            A row per charge: ``title, epsilon, delta, rho, relation, unit, trust, scope, mechanism, secure, time``. The
            numbers are the charged amounts, in the relation of the ledger. The time is in UTC.
        """
        account, charges = self._book.snapshot()
        rows = []
        for title, stated, time in charges:
            guarantee = account.convert(stated)
            texts = {
                "title": title,
                "unit": guarantee._format_unit(),
                "scope": join_names(guarantee.scope),
                "time": time,
            }
            facts = vars(guarantee) | texts
            rows.append(format_row(facts[name] for name in _CHARGE_COLUMNS.split()))
        types = dict.fromkeys(["epsilon", "delta", "rho"], float) | {"secure": bool}
        table = pd.DataFrame(rows, columns=_CHARGE_COLUMNS.split()).astype(types)
        table["time"] = pd.to_datetime(table["time"], utc=True)
        return table

    def with_title(self, title: str) -> Self:
        """Return this ledger with a title for its further charges, such as the month of a survey.

        Parameters
        ----------
        title : str
            Title of the releases, without values of the data. `charges`, statements, logs and errors have it before the
            name of the estimator.

        Returns
        -------
        PrivacyLedger
            The ledger for the parameter `ledger` of estimators. It has the same budget and charges.

        Raises
        ------
        TypeError, ValueError
            If `title` is not a str, or is empty.

        Examples
        --------
        >>> from skdp import DPMean, PrivacyLedger
        >>> ledger = PrivacyLedger(1.0)
        >>> for month in ("January", "February"):
        ...     _ = DPMean(0.5, bounds=(0, 9), ledger=ledger.with_title(month)).fit([[3.0], [5.0]] * 500)
        >>> ledger.charges()["title"].tolist()
        ['January: DPMean', 'February: DPMean']
        """
        check_type("title", title, str, "a str")
        if not title.strip():
            raise ValueError("`title` must be a text, got an empty str.")
        ledger = type(self).__new__(type(self))
        vars(ledger).update(vars(self) | {"_title": title})
        return ledger

    def split(self, estimator: object, *, n_fits: int | None = None) -> dict[str, Any]:
        """Divide the remaining budget among the private steps of a pipeline, as parameters for its `set_params`.

        Parameters
        ----------
        estimator : estimator
            Pipeline, search or other estimator with steps of the central model that have the parameters `epsilon` and
            `ledger`. The parts are in proportion to the epsilons of the steps, so equal by default, and the parts of
            delta in proportion to their deltas. A budget of rho or mu is divided into `Rho` or `Mu`.
        n_fits : int, default=None
            Number of fits of each step that the budget is for, such as one per fold of `cross_val_score`. None counts
            them: a pipeline fits each step once, and a search of scikit-learn candidates times folds, plus 1.
            Calibration, stacking, bagging and boosting are counted, too.

        Returns
        -------
        dict
            The parameters `epsilon`, `ledger` and, where it is not 0, `delta` of each step, by nested name.

        Raises
        ------
        BudgetExceeded
            If nothing is left.
        TypeError, ValueError
            If no step is private, a step does not accept its part or is local, the ledger has another relation, or the
            number of fits depends on the data, so that `n_fits` is required.

        Notes
        -----
        **Privacy.** Nothing is charged: each fit of a step charges its part. Steps that read no value, such as an
        encoder with declared categories, get no part. A search by successive halving, and boosting that stops early,
        may spend less.

        Examples
        --------
        >>> from sklearn.pipeline import make_pipeline
        >>> from skdp import DPLogisticRegression, DPStandardScaler, PrivacyLedger
        >>> ledger = PrivacyLedger(1.0, delta=1e-6)
        >>> model = make_pipeline(DPStandardScaler(), DPLogisticRegression(epsilon=3.0))
        >>> parts = ledger.split(model)
        >>> [(name, part) for name, part in parts.items() if name.endswith("epsilon")]
        [('dpstandardscaler__epsilon', 0.25), ('dplogisticregression__epsilon', 0.75)]
        >>> model = model.set_params(**parts)
        """
        if n_fits is not None:
            n_fits = check_size(n_fits, min_val=1, max_val=None, name="n_fits")
        found = find_private_steps(estimator)
        check_grids(estimator)
        steps = {x: step for x, step in found.items() if not _is_free(step)}
        counts = {x: n_fits or count_fits(estimator, x) for x in steps}
        steps = {x: step for x, step in steps.items() if counts[x]}
        if not steps:
            raise ValueError(
                "`estimator` must have steps with the parameters epsilon and ledger, got "
                f"{type(estimator).__name__} without one that uses a budget."
            )
        account = self._book.account()
        epsilons = divide_epsilon(steps, _find_remaining(account), counts)
        deltas = {}
        if account.epsilon is not None:
            left = Fraction(max(account.remaining()["delta"], 0))
            deltas = divide_delta(steps, left, counts)
        params: dict[str, Any] = {}
        for prefix, step in steps.items():
            part = {"epsilon": epsilons[prefix], "ledger": self}
            if prefix in deltas:
                part["delta"] = deltas[prefix]
            account = check_part(step, part, account)
            params |= {f"{prefix}{name}": value for name, value in part.items()}
        return params

    def _add_title(self, title: str) -> str:
        """Return the name of a release with the title of the ledger before it."""
        return f"{self._title}: {title}" if self._title else title

    def check(self, guarantee: PrivacyGuarantee, title: str) -> None:
        """Check that the budget covers a release, without charging it.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            Guarantee of the release.
        title : str
            Name of the release, for errors.

        Raises
        ------
        BudgetExceeded
            If the budget does not cover it.
        TypeError, ValueError, RuntimeError
            As raised by `charge`.
        """
        _check_release(guarantee, title)
        self._book.account().admit(self._add_title(title), guarantee)

    def charge(self, guarantee: PrivacyGuarantee, title: str) -> None:
        """Charge a release before it is made.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            Guarantee of the release.
        title : str
            Name of the release in `charges` and in errors, after the title of `with_title`.

        Raises
        ------
        TypeError
            If a parameter has an unsupported type.
        BudgetExceeded
            If the budget does not cover it; nothing is charged.
        ValueError
            If its neighboring relation cannot be converted to the relation of the ledger (for example a release that
            protects named columns only, and a ledger for whole records), or the file is damaged.
        OSError
            If the file cannot be written.
        RuntimeError
            If a ledger in memory is used in another process or through a pickled copy.
        """
        _check_release(guarantee, title)
        title = self._add_title(title)
        account = self._book.charge(title, guarantee)
        if LOGGER.isEnabledFor(logging.INFO):
            facts = _describe_charge(account, title, guarantee)
            ledger = "memory" if self.path is None else str(self.path)
            LOGGER.info("charge %s", json.dumps({"ledger": ledger, **facts}))

    @classmethod
    def _closed(cls, message: str, **budget: Any) -> Self:
        """Return a ledger with a budget that raises an error with this message at each charge."""
        ledger = cls.__new__(cls)
        ledger._book = FileBook(Account(**budget))
        ledger._book.close(message)
        return ledger

    def __repr__(self) -> str:
        # **Privacy.** The path is omitted, because the HTML of estimators contains this text.
        budget, spent = self._book.budget, "unknown"
        try:
            budget = self._book.account()
            # Rounded, so that 0.1 + 0.2 is shown as 0.3.
            spent = str(tuple(float(format_number(number)) for number in self.spent))
        except (OSError, ValueError, RuntimeError):
            pass  # the file is lost or damaged, or the ledger is a copy
        return f"{type(self).__name__}({budget}, spent={spent})"

    def _repr_html_(self) -> str:
        # **Privacy.** As in the text, the path is omitted.
        tables = []
        with suppress(OSError, ValueError, RuntimeError):
            tables.append(self.balance().map(format_number, na_action="ignore"))
        return format_html(str(self), tables)

    def __sklearn_clone__(self) -> Self:
        return self

    __copy__ = __sklearn_clone__

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def _is_free(step: object) -> bool:
    """Return True if `fit` of a step uses no budget, such as with declared categories."""
    if not hasattr(step, "_planned_guarantee"):
        raise ValueError(
            f"`estimator` must have private steps of skdp only, got {type(step).__name__}. "
            "Set the `epsilon` and `ledger` of each step."
        )
    planned = step._planned_guarantee()
    return planned is not None and not (planned.epsilon or planned.delta)


def _find_remaining(account: Account) -> Fraction | Rho | Mu:
    """Return the remaining budget as a number, Rho or Mu."""
    (name, left), *_ = account.remaining().items()
    # Parts are rounded down, so a spent budget may have a rest.
    if not shorten_remaining(left, account.limits[name]):
        raise BudgetExceeded(
            "The ledger has no budget left to divide.",
            SPENT,
        )
    if name == "epsilon":
        return Fraction(left)
    if name == "rho":
        return Rho(Rho._from_amount(Fraction(left)), STATED_DELTA)
    return Mu(Mu._from_amount(Fraction(left)), STATED_DELTA)


def _describe_charge(
    account: Account, title: str, guarantee: PrivacyGuarantee
) -> dict[str, Any]:
    """Return the facts about a charge that are logged, from the account after it."""
    cost = get_amounts(account.convert(guarantee))
    remaining = account.remaining()
    # A budget limits epsilon and delta, rho, or the square of mu.
    return {
        "release": format_text(title),
        "mechanism": format_text(guarantee.mechanism),
        "columns": list(map(format_name, guarantee.scope)),
        "relation": account.relation,
        "cost": {x: float(cost[x]) for x in ("epsilon", "delta", *remaining)},
        "remaining": {x: round_down(amount) for x, amount in remaining.items()},
    }


def _list_amounts(
    sums: MeasureSums, to_number: Callable[[Any], float]
) -> dict[str, float]:
    """Return sums by measure as floats, with mu in place of its square."""
    amounts = {name: to_number(max(amount, 0)) for name, amount in sums.items()}
    return amounts | {"mu": amounts.get("mu_squared", math.nan) ** 0.5}


def _check_release(guarantee: object, title: object) -> None:
    """Check the types of the arguments of a charge."""
    expected = (
        "a PrivacyGuarantee, such as PrivacyGuarantee(1.0) or an estimator's guarantee_"
    )
    check_type("guarantee", guarantee, PrivacyGuarantee, expected)
    check_type("title", title, str, "a str")
