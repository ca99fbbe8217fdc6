"""What a statement is made of."""

from __future__ import annotations

import operator
import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property, reduce
from importlib.metadata import PackageNotFoundError, version
from math import isnan
from operator import attrgetter
from typing import Any, NamedTuple

import pandas as pd

from skdp.exact import round_up
from skdp.markup import written_row, written_text
from skdp.privacy._conversions import (
    gaussian_epsilon,
    zcdp_epsilon,
)
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._json import format_name
from skdp.privacy.ledger import PrivacyLedger

# Delta of the total of a ledger in rho or mu, fixed before any charge.
STATED_DELTA = 1e-6

AS_IS = "released as is"

NOT_RELEASED = "not released"

READ = f"categories read from the data: {AS_IS}"

# The protection in a row of a ledger, which knows what was charged alone.
AS_CHARGED = "as charged"

NOT_FITTED = "not fitted: no guarantee yet"

NOT_SEEN = "not seen by fit"

AT_FIT = f"rows at fit; rows given to transform or predict: {AS_IS}"

# The start of the remark about a target that is in no row of a statement.
LEARNT_TARGET = "The target, which is no column of X, is learnt from as it is by: "

COLUMNS = (
    "column",
    "step",
    "mechanism",
    "epsilon",
    "delta",
    "relation",
    "trust",
    "protection",
)


class StatedStep(NamedTuple):
    """A step of a pipeline and its guarantee."""

    step: str
    guarantee: PrivacyGuarantee
    known: bool = True
    charged: bool = False
    fitted: bool = True

    def _content(self) -> dict[str, Any]:
        return {
            "step": written_text(self.step),
            "guarantee": self.guarantee._content(),
            "known": self.known,
            "charged": self.charged,
            "fitted": self.fitted,
        }


# A row for a column and a step, as in COLUMNS.
Row = tuple[Any, ...]


def protected_row(
    name: Any, step: StatedStep, protection: str, *, n_releases: int = 1
) -> Row:
    """Return the row of a column that a step promises something about."""
    guarantee = step.guarantee
    return (
        name,
        step.step,
        guarantee.mechanism,
        round_up(n_releases * Fraction(guarantee.epsilon)),
        round_up(n_releases * Fraction(guarantee.delta)),
        guarantee.relation,
        guarantee.trust,
        protection,
    )


def unprotected_row(name: Any, step: str, protection: str) -> Row:
    """Return the row of a column that nothing is promised about."""
    return name, step, "", None, None, "", "", protection


def table_of(rows: Sequence[Row]) -> pd.DataFrame:
    table = pd.DataFrame(map(written_row, rows), columns=list(COLUMNS))
    # `astype` of several columns takes as long as all else here.
    for name in ("epsilon", "delta"):
        table[name] = table[name].astype(float)
    return table


def versions_now() -> dict[str, str]:
    """Return the versions of skdp and of what it computes with."""
    return {
        "skdp": str(getattr(sys.modules.get("skdp"), "__version__", "unknown")),
        "scikit-learn": _installed("scikit-learn"),
        "NumPy": _installed("numpy"),
        "Python": platform.python_version(),
    }


# The metadata of a distribution is a file of a thousand lines.
@cache
def _installed(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True, eq=False, repr=False)
class Facts:
    """What a statement is made of."""

    rows: pd.DataFrame
    total: PrivacyGuarantee | None
    notes: tuple[str, ...]
    steps: tuple[StatedStep, ...] = ()
    ledgers: tuple[dict[str, Any], ...] = ()
    versions: Mapping[str, str] = field(default_factory=versions_now)

    @cached_property
    def columns(self) -> list[dict[str, Any]]:
        """The rows as a record has them: None where nothing is promised."""
        columns = []
        for row in self.rows.to_dict("records"):
            column: dict[str, Any] = {"column": format_name(row.pop("column"))}
            for name, value in row.items():
                name = str(name)
                if name in ("epsilon", "delta"):
                    column[name] = None if isnan(value) else float(value)
                elif name in ("relation", "trust"):
                    column[name] = value or None
                else:
                    column[name] = written_text(value)
            columns.append(column)
        return columns

    @property
    def open_columns(self) -> list[tuple[str, str]]:
        """What is released unprotected in some way, and how."""
        columns = []
        for row in self.columns:
            protection = row["protection"]
            is_unpromised = row["epsilon"] is None and protection != NOT_RELEASED
            if AS_IS in protection or is_unpromised:
                by = f", by {row['step']}" if row["step"] else ""
                columns.append((str(row["column"]), f"{protection}{by}"))
        target = [("the target", f"{AS_IS}, by {by}") for by in self.target_learners]
        return columns + target

    @property
    def target_learners(self) -> list[str]:
        """The steps that learn from a target that is in no row, as one text."""
        # A record has no other place for them.
        return [
            note.removeprefix(LEARNT_TARGET).rstrip(".")
            for note in self.notes
            if note.startswith(LEARNT_TARGET)
        ]

    @property
    def unprotected_columns(self) -> list[str]:
        """The columns of which values are released unprotected."""
        return self._columns_where(_is_unprotected)

    @property
    def columns_at_fit(self) -> list[str]:
        """The columns of which only the rows of `fit` are protected."""
        unprotected = self.unprotected_columns
        columns = self._columns_where(_is_at_fit)
        return [name for name in columns if name not in unprotected]

    @property
    def waiting_columns(self) -> list[str]:
        """The columns that have no guarantee yet, as no step is fitted on them."""
        return self._columns_where(_is_waiting)

    def _columns_where(self, fits: Callable[[str], bool]) -> list[str]:
        columns = [
            str(row["column"]) for row in self.columns if fits(row["protection"])
        ]
        return list(dict.fromkeys(columns))

    @property
    def read_columns(self) -> list[tuple[str, str]]:
        """The columns whose categories were read from the data, and by which steps."""
        return [
            (str(row["column"]), row["step"])
            for row in self.columns
            if row["protection"] == READ
        ]

    @property
    def seeded(self) -> list[str]:
        """The steps whose random bits come from a seed."""
        return self._steps_without(attrgetter("guarantee.secure"))

    @property
    def foreign(self) -> list[str]:
        """The steps that are not of skdp."""
        return self._steps_without(attrgetter("known"))

    @property
    def planned(self) -> list[str]:
        """The steps that are not fitted yet."""
        return self._steps_without(attrgetter("fitted"))

    @property
    def uncharged(self) -> list[str]:
        """The steps that charge no ledger."""
        return self._steps_without(attrgetter("charged"))

    def _steps_without(self, has: Callable[[StatedStep], bool]) -> list[str]:
        return [step.step for step in self.steps if not has(step)]

    @property
    def secure(self) -> bool:
        """Whether there are random bits, and all are secure."""
        if not self.steps or self.seeded:
            return False
        return self.total is None or self.total.secure


def _is_at_fit(protection: str) -> bool:
    return protection.startswith(AT_FIT)


def _is_unprotected(protection: str) -> bool:
    return AS_IS in protection and not _is_at_fit(protection)


def _is_waiting(protection: str) -> bool:
    return protection in (NOT_FITTED, NOT_SEEN)


def sum_of(guarantees: Iterable[PrivacyGuarantee]) -> PrivacyGuarantee:
    """Add up guarantees in order."""
    return reduce(operator.add, guarantees)


def total_of_ledger(
    ledger: PrivacyLedger, steps: Sequence[StatedStep]
) -> PrivacyGuarantee | None:
    """Return what all charges of a ledger guarantee together."""
    if not steps:
        return None
    epsilon, delta = ledger.spent
    rho = None
    # Where earlier results decide about charges, a sum of deltas is no guarantee: the
    # last charge may be the one that shows most. The whole budget holds.
    if delta and ledger.delta is not None:
        delta = ledger.delta
    elif delta and ledger.rho is not None:
        rho, delta = ledger.rho, STATED_DELTA
        epsilon = zcdp_epsilon(rho, delta)
    elif delta and ledger.mu is not None:
        delta = STATED_DELTA
        epsilon = gaussian_epsilon(ledger.mu, delta)
    # The sum has each release once; the sums of the ledger count them all.
    total = sum_of(step.guarantee for step in steps)
    return replace(total, epsilon=epsilon, delta=delta, rho=rho, losses=())


def rows_of_ledger(ledger: PrivacyLedger) -> tuple[list[Row], list[StatedStep]]:
    """Return the rows and the steps of the charges of a ledger that can only be read."""
    counts: Counter[tuple[str, PrivacyGuarantee]] = Counter()
    account, charges = ledger._book.read()
    for charge in charges:
        counts[charge.what, account.budget.convert(charge.guarantee)] += 1
    rows = []
    steps = []
    for (what, guarantee), count in counts.items():
        name = what if count == 1 else f"{what}, {count} times"
        guarantee = replace(guarantee, scope=guarantee.scope or ("all columns",))
        step = StatedStep(name, guarantee, charged=True)
        steps.append(step)
        rows += [
            protected_row(column, step, AS_CHARGED, n_releases=count)
            for column in guarantee.scope
        ]
    return rows, steps
