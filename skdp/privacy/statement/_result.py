"""The statement: in words, as text, as a table, as a record and as a page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import isnan
from typing import Any, ClassVar

import pandas as pd

from skdp.markup import html_table, html_text, written_text
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._json import JsonRecord
from skdp.privacy._numbers import (
    format_guess as shown_guess,
)
from skdp.privacy._numbers import (
    format_number as shown,
)
from skdp.privacy._numbers import (
    guess_probability as best_guess,
)
from skdp.privacy._numbers import (
    largest_ratio,
)
from skdp.privacy.statement._facts import AS_CHARGED, AS_IS, Facts
from skdp.privacy.statement._known import EVERYTHING

SECURE = (
    "the operating system's cryptographically secure generator, or a secret key where "
    "reports are permanent"
)

SEEDED = (
    "a seed was set (its value is not recorded): NOT SECURE against those who know or "
    "guess it"
)

NO_BITS = "no step of skdp draws random bits"

COUNTS_TWICE = (
    "replacing is removing and adding, so that a guarantee for adding or removing "
    "counts twice"
)

_PROTECTED_AGAINST = {
    "local": "the collector of the reports included",
    "shuffle": (
        "but not against those who see the reports before they are shuffled or summed"
    ),
    "central": "but not against the curator who holds the table",
}

_TRUSTED = {
    "local": ("the process that randomises each record; nobody who receives reports"),
    "shuffle": (
        "the process that randomises each record, and those who shuffle or sum the "
        "reports: not to look at single ones, and to have as many honest ones as is "
        "stated"
    ),
    "central": (
        "the curator: the process and the people that hold the table before noise is "
        "added"
    ),
}


def amounts(guarantee: PrivacyGuarantee) -> str:
    """Write epsilon, and delta if there is one."""
    epsilon = f"epsilon {shown(guarantee.epsilon)}"
    if not guarantee.delta:
        return epsilon
    return f"{epsilon}, delta {shown(guarantee.delta)}"


def unit_in_words(guarantee: PrivacyGuarantee) -> str:
    """Write the unit of a guarantee within a sentence."""
    return guarantee._format_unit().replace("one ", "a ")


def conversion(guarantee: PrivacyGuarantee) -> str:
    """State the guarantee for replacing a unit that follows from add/remove."""
    pronoun = "one" if guarantee.unit == "record" else "them"
    return (
        f"{amounts(guarantee)} for adding or removing {unit_in_words(guarantee)} is "
        f"{amounts(guarantee.to('replace'))} for replacing {pronoun}, which is both"
    )


def headline(facts: Facts) -> str:
    """Say which columns are released unprotected, and what is promised of others."""
    texts = [_unprotected_in_words(facts)]
    if facts.target_learners:
        texts.append(f"The target is {AS_IS}")
    if facts.columns_at_fit:
        texts.append(f"Protected at fit only: {listed(facts.columns_at_fit)}")
    if facts.waiting_columns:
        texts.append(f"Without a guarantee yet: {listed(facts.waiting_columns)}")
    if facts.planned:
        texts.append(f"Not fitted yet: {listed(facts.planned)}")
    if facts.total is None:
        texts.append("No column has a guarantee")
        if facts.seeded:
            texts.append(f"Drawn from a seed, NOT SECURE: {listed(facts.seeded)}")
    elif facts.planned:
        texts.append(f"Set to spend: {facts.total}")
    else:
        texts.append(f"Guarantee: {facts.total}")
    return f"{'. '.join(texts)}."


def _unprotected_in_words(facts: Facts) -> str:
    if all(row["protection"] == AS_CHARGED for row in facts.columns):
        return (
            "What was charged to a ledger; columns that left without a charge are not "
            "known to it"
        )
    unprotected = facts.unprotected_columns
    if EVERYTHING in unprotected:
        return "All columns are released unprotected"
    if not unprotected:
        return "No column is released unprotected"
    n_columns = len({str(row["column"]) for row in facts.columns})
    columns = "1 column" if n_columns == 1 else f"{n_columns} columns"
    verb = "is" if len(unprotected) == 1 else "are"
    return (
        f"{len(unprotected)} of {columns} {verb} released unprotected: "
        f"{listed(unprotected)}"
    )


def listed(names: list[str]) -> str:
    """List names; of many, the number of the last ones."""
    # The most columns named together; of more, their number is given.
    most_names = 5
    if len(names) <= most_names:
        return ", ".join(names)
    return f"{', '.join(names[:most_names])} and {len(names) - most_names} more"


def _unit_of(total: PrivacyGuarantee) -> str:
    """Return what is protected as a whole."""
    return "record" if total.unit == "record" else "person"


def meaning(facts: Facts) -> dict[str, Any] | None:
    """Return the total in words and odds; None if nothing is promised."""
    total = facts.total
    if total is None:
        return None
    against = f"everyone who sees what is released, {_PROTECTED_AGAINST[total.trust]}"
    if not total.secure:
        against = f"NOT SECURE, only those who do not know the seed: {against}"
    ratio = largest_ratio(total.epsilon)
    return {
        "text": str(total),
        "protected": _protected(total),
        "against": against,
        "trusted": _TRUSTED[total.trust],
        "unit": _unit(total),
        "neighbours": _neighbours(total),
        "largest_ratio": None if math.isinf(ratio) else ratio,
        "best_guess": best_guess(total.epsilon, total.delta),
        "odds": total.in_odds(),
    }


def _protected(total: PrivacyGuarantee) -> str:
    columns = ", ".join(map(str, total.scope))
    unit = total._format_unit().replace("one ", "each ")
    if total.unit == "record" and not (
        total.unit == "record" and total.max_rows_per_person == 1
    ):
        unit = f"any {unit}"
    if total.relation == "add_remove":
        they_are = (
            "it is"
            if (total.unit == "record" and total.max_rows_per_person == 1)
            else "they are"
        )
        return (
            f"{unit}, in the columns {columns}; whether {they_are} in the data at all"
        )
    values = f"the values of {columns} in {unit}"
    if total.relation == "replace_values":
        return f"{values}; all other columns are public"
    return values


def _neighbours(total: PrivacyGuarantee) -> str:
    public = f"the number of {_unit_of(total)}s is public"
    if total.relation == "add_remove":
        return total._format_neighbors()
    if total.relation == "replace_values":
        public = f"all other columns and the number of {_unit_of(total)}s are public"
    return f"{total._format_neighbors()}; {public}"


def _unit(total: PrivacyGuarantee) -> str:
    more = " and delta larger still" if total.delta else ""
    rows = total.max_rows_per_person
    if total.unit != "record":
        several = (
            "A single record of a person with several is protected less than the "
            "person: it may replace another one that was used"
        )
        return f"{total._format_unit()}. {several}"
    if rows == 1:
        return (
            "one record (a row). A person with several records is protected less: with "
            f"k records, epsilon is k times as large{more}, unless the mechanism says "
            "how many rows a person may have"
        )
    return (
        f"{rows} records (rows), so also a person with up to {rows}. A person with more "
        f"is protected less: with k times {rows} records, epsilon is k times as "
        f"large{more}"
    )


def warnings(facts: Facts) -> list[str]:
    """Return what a reader must know first."""
    texts = []
    for name, step in facts.read_columns:
        texts.append(
            f"The categories of {name} were read from the data by {step}: which values "
            "occur is not protected."
        )
    if facts.seeded:
        texts.append(
            "The random bits of these steps come from a seed, NOT SECURE: "
            f"{', '.join(facts.seeded)}."
        )
    if facts.planned:
        texts.append(
            "What is stated of these steps is what they are set to spend; they are not "
            f"fitted, and have released nothing yet: {', '.join(facts.planned)}."
        )
    if facts.foreign:
        texts.append(
            "The guarantee of these steps is that of their authors, as they are no "
            f"classes of skdp: {', '.join(facts.foreign)}."
        )
    if facts.total is None:
        texts.append("No column has a guarantee.")
    return texts


def randomness(facts: Facts) -> dict[str, Any]:
    """Return the source of the random bits."""
    source = NO_BITS
    if facts.secure:
        source = SECURE
    elif facts.seeded:
        source = SEEDED
    return {"secure": facts.secure, "source": source}


def not_covered(facts: Facts) -> list[str]:
    """List what the guarantee does not cover."""
    total = facts.total
    texts = [f"{name}: {protection}." for name, protection in facts.open_columns]
    if total is not None and total.relation == "replace_values":
        texts += _public_beside(total)
    elif total is not None and total.relation == "replace":
        if _unit_of(total) == "record":
            texts.append("The number of records, their order and their index.")
        else:
            texts.append("Which persons there are, and their order.")
    texts += [
        "What other columns of the same record, and other sources, tell of the "
        "protected ones.",
        "Releases that are charged to no ledger listed here, or made by others about "
        "the same persons.",
        "What holds for everybody, whether or not their record is in the data.",
        "Errors and warnings of steps that are not of skdp: whether there is one may "
        "show a single record.",
    ]
    if facts.uncharged:
        texts.append(
            "Further calls of these steps, which charge no ledger: "
            f"{', '.join(facts.uncharged)}."
        )
    if total is not None and total.trust == "shuffle":
        texts.append(
            "Reports that still have their order, an index or an id: only the local "
            "guarantee holds."
        )
    if total is not None and total.trust == "central":
        texts.append("What the curator does with the table, and the table itself.")
    else:
        texts.append(
            "Values before they are randomised, on the machine that randomises them."
        )
    return texts


def _public_beside(total: PrivacyGuarantee) -> list[str]:
    """List what a guarantee for the values of named columns leaves public."""
    columns = ", ".join(map(str, total.scope))
    return [
        f"All columns but {columns}, of each {_unit_of(total)}: they may follow from "
        "what is released, exactly.",
        f"Which {_unit_of(total)}s are in the table, how many there are, and their "
        "order.",
        f"How well public columns predict {columns}: who knows such a model, also one "
        "that is learnt from what is released, may guess right, and only what the "
        "release adds to this is limited.",
    ]


@dataclass(frozen=True, eq=False, repr=False)
class PrivacyStatement(Facts, JsonRecord):
    """The guarantees of each column, shown as text or HTML, and written as a record.

    Parameters
    ----------
    rows : pandas.DataFrame
        A row for each column and each step that protects or releases it: ``column, step, mechanism, epsilon, delta,
        relation, trust, protection``.
    total : PrivacyGuarantee or None
        The sum of all guarantees, for the columns in its scope. None if no column is covered.
    notes : tuple of str
        Remarks on the assumptions.
    steps : tuple of StatedStep, default=()
        Of each step, as a named tuple: ``step``, its class behind the names of the steps that lead to it; its
        ``guarantee``, for the columns of the table; ``known``, whether it is a class of skdp (otherwise `trusted` named
        it); ``charged``, whether it charges a ledger; and ``fitted`` (otherwise its guarantee is what it is set to
        spend).
    ledgers : tuple of PrivacyLedger, default=()
        The ledgers that the steps charge, as they were when the statement was made; they can only be read.
    versions : mapping of str to str, optional
        The versions of skdp, scikit-learn, NumPy and Python. By default those in use.

    Notes
    -----
    **Privacy.** A statement, its record and its page have names (of columns, steps and releases) and numbers of
    guarantees. They have no value of the data (also not of columns whose categories were read from the data), no
    declared value, no seed, no key and no path.

    A record is not signed: who can write it can state anything.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder, privacy_statement
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]}).fit(pd.DataFrame({"sex": ["f", "m"]}))
    >>> statement = privacy_statement(encoder)
    >>> statement.total.epsilon
    1.0
    >>> statement.to_dict()["meaning"]["protected"]
    'the values of sex in each record'
    """

    _format: ClassVar[str] = "skdp-statement"

    def _content(self) -> dict[str, Any]:
        return {
            "headline": written_text(headline(self)),
            "columns": self.columns,
            "total": None if self.total is None else self.total._content(),
            "steps": [step._content() for step in self.steps],
            "notes": list(map(written_text, self.notes)),
            "ledgers": [dict(ledger) for ledger in self.ledgers],
            "versions": dict(self.versions),
            "warnings": warnings(self),
            "randomness": randomness(self),
            "meaning": meaning(self),
            "not_covered": not_covered(self),
        }

    def to_html(self) -> str:
        """Return a page that explains the statement.

        Returns
        -------
        str
            A complete HTML document that loads nothing: who is protected against whom, the guarantee in odds, each
            column, the composition so far, and what is not covered.

        Raises
        ------
        ImportError
            If jinja2 is missing (extra "plot").

        Notes
        -----
        **Privacy.** It shows what `to_dict` returns, and nothing else.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdp import RandomizedResponseEncoder, privacy_statement
        >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]})
        >>> html = privacy_statement(encoder.fit(pd.DataFrame({"sex": ["f", "m"]}))).to_html()
        >>> "at most 74 times in 100" in html
        True
        """
        return _page(self.to_dict())

    def _table(self) -> pd.DataFrame:
        table = self.rows.copy()
        for name in ("epsilon", "delta"):
            table[name] = [_shown(value) for value in self.rows[name]]
        return table

    def __str__(self) -> str:
        lines = [headline(self), self._table().to_string(index=False)]
        lines += [f"- {note}" for note in self.notes]
        return written_text("\n".join(lines))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [
            f"<p><b>{html_text(headline(self))}</b></p>",
            html_table(self._table()),
        ]
        if self.total is not None:
            parts.append(f"<p>{html_text(self.total.in_odds())}</p>")
        notes = [
            f"<li>{html_text(note)}</li>" for note in (*warnings(self), *self.notes)
        ]
        return f"<div>{''.join(parts)}<ul>{''.join(notes)}</ul></div>"


def _shown(number: float | None) -> str:
    return "" if number is None or isnan(number) else shown(number)


def _page(record: dict[str, Any]) -> str:
    """Write the record of a statement as a page, which loads nothing."""
    total = record["total"]
    guess = None
    if total is not None:
        guess = shown_guess(total["epsilon"], total["delta"])
    ledgers = [_with_groups(ledger) for ledger in record["ledgers"]]
    return written_text(_template().render(record, ledgers=ledgers, guess=guess))


@cache
def _template() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            "jinja2 is needed for the page: pip install jinja2 (extra 'plot')"
        ) from error
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = _shown
    template = files("skdp.privacy.statement").joinpath("page.html.j2")
    return environment.from_string(template.read_text(encoding="utf-8"))


def _with_groups(ledger: dict[str, Any]) -> dict[str, Any]:
    """Add the number of charges of a ledger, and groups of equal ones."""
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for charge in ledger["charges"]:
        guarantee = charge["guarantee"]
        columns = ", ".join(map(str, guarantee["scope"]))
        amounts = guarantee["epsilon"], guarantee["delta"]
        facts = guarantee["mechanism"], columns, guarantee["unit"]
        key = (charge["what"], *amounts, *facts)
        group = groups.setdefault(key, charge | {"number": 0, "columns": columns})
        group["number"] += 1
    return ledger | {"groups": list(groups.values()), "number": len(ledger["charges"])}
