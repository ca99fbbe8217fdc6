"""What a statement is made of, and its parts in a record."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from math import isnan
from typing import Any, NamedTuple

import pandas as pd

from skdp.markup import written_text
from skdp.privacy._guarantee import RELATIONS, TRUSTS, PrivacyGuarantee
from skdp.privacy._json import Fields, written_name
from skdp.privacy._numbers import check_delta, check_epsilon
from skdp.privacy.ledger import PrivacyLedger
from skdp.privacy.statement._columns import (
    AS_CHARGED,
    AS_IS,
    AT_FIT,
    LEARNT_TARGET,
    NOT_FITTED,
    NOT_RELEASED,
    NOT_SEEN,
    READ,
)

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
    shuffled: PrivacyGuarantee | None = None


def versions_now() -> dict[str, str]:
    """Return the versions of skdp and of what it computes with."""
    versions = {"skdp": str(getattr(sys.modules.get("skdp"), "__version__", "unknown"))}
    versions |= {
        "scikit-learn": _installed("scikit-learn"),
        "NumPy": _installed("numpy"),
    }
    return versions | {"Python": platform.python_version()}


@cache  # the metadata of a distribution is a file of a thousand lines
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
    ledgers: tuple[PrivacyLedger, ...] = ()
    versions: Mapping[str, str] = field(default_factory=versions_now)

    @cached_property
    def columns(self) -> list[dict[str, Any]]:
        """The rows as a record has them: None where nothing is promised."""
        return [
            {
                "column": written_name(row["column"]),
                "step": written_text(row["step"]),
                "mechanism": written_text(row["mechanism"]),
                "epsilon": None if isnan(row["epsilon"]) else float(row["epsilon"]),
                "delta": None if isnan(row["delta"]) else float(row["delta"]),
                "relation": row["relation"] or None,
                "trust": row["trust"] or None,
                "protection": written_text(row["protection"]),
            }
            for row in self.rows.to_dict("records")
        ]

    @property
    def open_columns(self) -> list[tuple[str, str]]:
        """The columns that are released unprotected in some way, the target among them, and how."""
        columns = [
            (
                str(row["column"]),
                ", by ".join(filter(None, (row["protection"], row["step"]))),
            )
            for row in self.columns
            if AS_IS in row["protection"]
            or (row["epsilon"] is None and row["protection"] != NOT_RELEASED)
        ]
        return columns + [
            ("the target", f"{AS_IS}, by {steps}") for steps in self.target_learners
        ]

    @property
    def target_learners(self) -> list[str]:
        """The steps that learn from an unprotected target that is in no row, as one text; empty if there is none."""
        return [
            note[len(LEARNT_TARGET) :].rstrip(".")
            for note in self.notes
            if note.startswith(LEARNT_TARGET)
        ]

    @property
    def unprotected_columns(self) -> list[str]:
        """The columns whose values are released unprotected, also if there are private statistics of them."""
        return self._columns_where(
            lambda text: AS_IS in text and not text.startswith(AT_FIT)
        )

    @property
    def columns_at_fit(self) -> list[str]:
        """The columns of which only the rows of `fit` are protected."""
        unprotected = self.unprotected_columns
        return [
            name
            for name in self._columns_where(lambda text: text.startswith(AT_FIT))
            if name not in unprotected
        ]

    @property
    def waiting_columns(self) -> list[str]:
        """The columns that have no guarantee yet, as a step is not fitted, or was not fitted on them."""
        return self._columns_where(lambda text: text in (NOT_FITTED, NOT_SEEN))

    def _columns_where(self, fits: Callable[[str], bool]) -> list[str]:
        return list(
            dict.fromkeys(
                str(row["column"]) for row in self.columns if fits(row["protection"])
            )
        )

    @property
    def read_columns(self) -> list[tuple[str, str]]:
        """The columns whose categories were read from the data, and the steps that read them."""
        return [
            (str(row["column"]), row["step"])
            for row in self.columns
            if row["protection"] == READ
        ]

    @property
    def counted_steps(self) -> list[StatedStep]:
        """The steps whose guarantee is about columns of the total."""
        covered = set() if self.total is None else set(self.total.scope)
        return [
            one for one in self.steps if not covered.isdisjoint(one.guarantee.scope)
        ]

    @property
    def seeded(self) -> list[str]:
        """The steps whose random bits come from a seed."""
        return [one.step for one in self.steps if not one.guarantee.secure]

    @property
    def others(self) -> list[str]:
        """The steps that are not of skdp."""
        return [one.step for one in self.steps if not one.known]

    @property
    def planned(self) -> list[str]:
        """The steps that are not fitted yet."""
        return [one.step for one in self.steps if not one.fitted]

    @property
    def secure(self) -> bool:
        """Whether there are random bits, and all are secure."""
        return (
            bool(self.steps)
            and not self.seeded
            and (self.total is None or self.total.secure)
        )


def read_facts(fields: Fields) -> dict[str, Any]:
    """Read the fields of a record."""
    rows = pd.DataFrame(fields.parts("columns", _row), columns=list(COLUMNS))
    facts = {
        "rows": rows.astype({"epsilon": float, "delta": float}),
        "total": fields.optional(
            "total", lambda name: fields.part(name, PrivacyGuarantee._of)
        ),
        "steps": tuple(fields.parts("steps", _step)),
        "notes": fields.texts("notes"),
        "ledgers": tuple(fields.parts("ledgers", PrivacyLedger._of)),
        "versions": fields.named_texts("versions"),
    }
    covered = {row[0] for row in rows[~rows["epsilon"].isna()].itertuples(index=False)}
    if facts["total"] is not None and not covered.issuperset(facts["total"].scope):
        raise ValueError(
            f"{fields.at('total')}.scope has columns for which no row of columns has an epsilon"
        )
    total = facts["total"]
    for ledger in facts["ledgers"]:
        if total is not None and states_budget(ledger, rows):
            if (total.epsilon, total.delta) != (ledger.epsilon, ledger.delta):
                raise ValueError(
                    f"{fields.at('total')} is not the budget of its ledger"
                )
            return facts
    for one in facts["steps"]:
        if (
            total is not None
            and total.epsilon < one.guarantee.epsilon
            and set(total.scope) & set(one.guarantee.scope)
        ):
            raise ValueError(
                f"{fields.at('total')}.epsilon is smaller than that of a step"
            )
    return facts


def states_budget(ledger: PrivacyLedger, rows: pd.DataFrame) -> bool:
    """Whether the total of a statement is the budget of a ledger; a step by itself may have a larger epsilon."""
    return bool(ledger.filter_delta) and set(rows["protection"]) == {AS_CHARGED}


def _row(fields: Fields) -> tuple[Any, ...]:
    names = fields.column("column"), fields.text("step"), fields.text("mechanism")
    at_least_0 = partial(check_epsilon, zero=True)
    epsilon = fields.optional("epsilon", lambda name: fields.number(name, at_least_0))
    delta = fields.optional("delta", lambda name: fields.number(name, check_delta))
    relation = fields.optional("relation", lambda name: fields.one_of(name, RELATIONS))
    trust = fields.optional("trust", lambda name: fields.one_of(name, TRUSTS))
    promises = {
        "epsilon": epsilon,
        "delta": delta,
        "relation": relation,
        "trust": trust,
    }
    absent = [fields.at(name) for name, value in promises.items() if value is None]
    if 0 < len(absent) < len(promises):
        raise ValueError(
            f"{absent[0]} must be given: all of {list(promises)} are null, or none"
        )
    return (
        *names,
        epsilon,
        delta,
        relation or "",
        trust or "",
        fields.text("protection"),
    )


def _step(fields: Fields) -> StatedStep:
    names = fields.text("step"), fields.part("guarantee", PrivacyGuarantee._of)
    flags = fields.flag("known"), fields.flag("charged"), fields.flag("fitted")
    shuffled = fields.optional(
        "shuffled", lambda name: fields.part(name, PrivacyGuarantee._of)
    )
    return StatedStep(*names, *flags, shuffled)
