"""The statement as text, as a table, as a record and as a page."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from typing import Any, ClassVar

import pandas as pd

from skdp.markup import format_row, format_text, html_table, html_text
from skdp.privacy._formats import (
    JsonRecord,
    format_guess,
    format_name,
    format_number,
    guess_probability,
)
from skdp.privacy._guarantee import TRUSTED, PrivacyGuarantee, join_names
from skdp.privacy._walk import (
    ALL_COLUMNS,
    CHARGED,
    INFERRED,
    NOT_FITTED,
    NOT_SEEN,
    ROWS_IN_FIT,
    Fact,
    StatedStep,
)

# Facts that a reader must know first, with the steps that they are about.
_WARNINGS = {
    "inferred": (
        "Categories were inferred from the data, which reveals the observed values: "
        "{steps}."
    ),
    "seeded": "NOT SECURE, because the random bits come from a seed: {steps}.",
    "planned": (
        "Not fitted yet, so nothing was released: {steps}. The numbers are the largest "
        "that the parameters allow. A step may spend nothing, for example if bounds or "
        "categories are declared."
    ),
    "foreign": "Guarantees of other authors, for classes that are not from skdp: {steps}.",
}

_COLUMNS = (
    "column",
    "protection",
    "epsilon",
    "delta",
    "relation",
    "trust",
    "step",
    "mechanism",
)

# Longer lists end with the number of further names.
_MAX_LISTED = 5


@dataclass(frozen=True, eq=False, repr=False)
class PrivacyStatement(JsonRecord):
    """The guarantee of each column of a pipeline, as text, HTML page and record.

    Parameters
    ----------
    facts : tuple of Fact
        Named tuples of ``column, step, protection, guarantee``. ``guarantee`` is None if the step does not
        protect the column.
    total : PrivacyGuarantee or None
        Sum of the guarantees, for the columns in its scope. None if no column is covered.
    notes : tuple of str
        Assumptions and explanations.
    steps : tuple of StatedStep, default=()
        Named tuples of ``step`` (class of the step, after the names of the steps that lead to it), ``guarantee`` (for
        columns of the table), ``known`` (True for a class of skdp, False for a class in `trusted`), ``charged``
        (whether the step charges a ledger) and ``fitted`` (if False, the guarantee is the largest loss that the
        parameters allow).

    Attributes
    ----------
    rows : pandas.DataFrame
        The facts as a table: ``column, protection, epsilon, delta, relation, trust, step, mechanism``.
    unprotected_columns : list of str
        Columns of which true values are released.

    Notes
    -----
    **Privacy.** A statement, its record and its page contain names (of columns, steps and releases) and numbers of
    guarantees. They contain no value of the data (also if categories were inferred from the data), no declared value,
    no seed, no key and no path.

    A record is not signed: its author can write any number.

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

    facts: tuple[Fact, ...]
    total: PrivacyGuarantee | None
    notes: tuple[str, ...]
    steps: tuple[StatedStep, ...] = ()

    @property
    def rows(self) -> pd.DataFrame:
        """The facts as a table."""
        rows = list(map(_list_fact, self.facts))
        table = pd.DataFrame(rows, columns=list(_COLUMNS))
        table["column"] = format_row(fact.column for fact in self.facts)
        return table.astype({"epsilon": float, "delta": float})

    @property
    def unprotected_columns(self) -> list[str]:
        """Columns of which true values are released."""
        return self._columns_with("unprotected:")

    def _columns_with(self, *protections: str) -> list[str]:
        columns = [
            format_name(fact.column)
            for fact in self.facts
            if fact.protection.startswith(protections)
        ]
        return list(dict.fromkeys(columns))

    def _headline(self) -> str:
        """List the unprotected columns, then the guarantee of the other columns."""
        waiting = self._columns_with(NOT_FITTED, NOT_SEEN)
        protected_in_fit = self._columns_with(ROWS_IN_FIT)
        in_fit = [x for x in protected_in_fit if x not in self.unprotected_columns]
        texts = []
        if self.unprotected_columns or not waiting:
            texts.append(self._describe_unprotected())
        if waiting:
            texts.append(f"No guarantee yet for: {_join_some(waiting)}")
        if any("target is unprotected" in note for note in self.notes):
            texts.append("The target is unprotected")
        if in_fit:
            texts.append(f"Protected in fit only: {_join_some(in_fit)}")
        if self.total is not None:
            is_fitted = all(step.fitted for step in self.steps)
            texts.append(f"{'Guarantee' if is_fitted else 'Plan'}: {self.total}")
        elif not waiting:
            texts.append("No column has a total guarantee")
        return f"{'. '.join(texts)}."

    def _describe_unprotected(self) -> str:
        if all(fact.protection == CHARGED for fact in self.facts):
            return (
                "Charges of a ledger, which does not contain releases without a charge"
            )
        unprotected = self.unprotected_columns
        if ALL_COLUMNS in unprotected:
            return "All columns are unprotected"
        if not unprotected:
            return "No column is unprotected"
        n_columns = len({fact.column for fact in self.facts})
        columns = "1 column" if n_columns == 1 else f"{n_columns} columns"
        verb = "is" if len(unprotected) == 1 else "are"
        names = _join_some(unprotected)
        return f"{len(unprotected)} of {columns} {verb} unprotected: {names}"

    def _warnings(self) -> list[str]:
        """List the facts that a reader must know first."""
        steps = {
            "inferred": [x.step for x in self.facts if x.protection == INFERRED],
            "seeded": [x.step for x in self.steps if not x.guarantee.secure],
            "planned": [x.step for x in self.steps if not x.fitted],
            "foreign": [x.step for x in self.steps if not x.known],
        }
        return [
            text.format(steps=", ".join(dict.fromkeys(steps[name])))
            for name, text in _WARNINGS.items()
            if steps[name]
        ]

    def _explanations(self) -> list[str]:
        """List the warnings, the notes, and the information that is not covered."""
        not_covered = [f"Not covered: {text}" for text in self._list_not_covered()]
        return [*self._warnings(), *self.notes, *not_covered]

    def _content(self) -> dict[str, Any]:
        total = self.total
        meaning: dict[str, Any] | None = None
        if total is not None:
            guess = guess_probability(total.epsilon, total.delta)
            meaning = _describe_total(total) | {"guess_probability": guess}
        # The record has null where the table has an empty text or nan.
        columns = [
            {name: None if value == "" else value for name, value in row.items()}
            for row in map(_list_fact, self.facts)
        ]
        return {
            "headline": format_text(self._headline()),
            "warnings": self._warnings(),
            "columns": columns,
            "total": None if total is None else total._content(),
            "meaning": meaning,
            "steps": [step._content() for step in self.steps],
            "notes": list(map(format_text, self.notes)),
            "not_covered": self._list_not_covered(),
            "versions": _list_versions(),
        }

    def _list_not_covered(self) -> list[str]:
        """List the gaps of the total, beside the exposed columns."""
        total = self.total
        texts = []
        uncharged = [step.step for step in self.steps if not step.charged]
        who = "person" if total is not None and total.unit != "record" else "record"
        if uncharged:
            texts.append(
                f"Further calls of steps without a ledger: {', '.join(uncharged)}."
            )
        if total is not None and total.relation == "replace_values":
            columns = join_names(total.scope)
            texts += [
                f"All columns except {columns}: they may follow from the release exactly.",
                f"Which {who}s are in the table, how many there are, and their order.",
                f"Predictions of {columns} from public columns. Only the information that the "
                "release adds to them is limited.",
            ]
        elif total is not None and total.relation == "replace":
            texts.append(f"The number of {who}s, their order and their index.")
        texts += [
            "Information about the protected columns in other columns and other sources.",
            "Releases that are charged to no ledger listed here, and releases of others about "
            "the same persons.",
            "Facts about the population, which hold whether or not a record is in the data.",
            "Sample weights, sensitive features and other parameters of fit, which may be true "
            "values of a column that is protected in X.",
            "Errors and warnings of steps that are not from skdp.",
        ]
        if total is not None and total.trust == "central":
            texts.append("The table itself, and its use by the curator.")
        else:
            texts.append("True values on the machine that randomizes them.")
        if total is not None and total.trust == "shuffle":
            texts.append(
                "Reports that still have their order, an index or an id: they have the local "
                "guarantee only."
            )
        return texts

    def to_html(self) -> str:
        """Return the statement as an HTML page with explanations.

        Returns
        -------
        str
            A complete HTML document that loads nothing: who is protected from whom, the guarantee in odds, each column,
            the charged ledgers, and what is not covered.

        Raises
        ------
        ImportError
            If jinja2 is not installed (extra "plot").

        Notes
        -----
        **Privacy.** It contains the values of `to_dict`, and nothing else.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdp import RandomizedResponseEncoder, privacy_statement
        >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]})
        >>> html = privacy_statement(encoder.fit(pd.DataFrame({"sex": ["f", "m"]}))).to_html()
        >>> "at most 74 times in 100" in html
        True
        """
        guess = None
        if self.total is not None:
            guess = format_guess(self.total.epsilon, self.total.delta)
        table = self._format_table().to_dict("records")
        page = _load_template().render(self.to_dict(), guess=guess, table=table)
        return format_text(page)

    def _format_table(self) -> pd.DataFrame:
        """Return the facts with words in place of codes."""
        table = self.rows.drop(columns=["relation", "trust"])
        table["column"] = [format_name(fact.column) for fact in self.facts]
        for name in ("epsilon", "delta"):
            table[name] = [_format(value) for value in self.rows[name]]
        guarantees = [fact.guarantee for fact in self.facts]
        table.insert(
            4, "for", [one._format_neighbors() if one else "" for one in guarantees]
        )
        return table

    def __str__(self) -> str:
        lines = [self._headline(), self._format_table().to_string(index=False)]
        lines += [f"- {text}" for text in self._explanations()]
        return format_text("\n".join(lines))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        odds = "" if self.total is None else f"<p>{html_text(self.total.in_odds())}</p>"
        notes = [f"<li>{html_text(text)}</li>" for text in self._explanations()]
        return (
            f"<div><p><b>{html_text(self._headline())}</b></p>"
            f"{html_table(self._format_table())}{odds}<ul>{''.join(notes)}</ul></div>"
        )


def _list_fact(fact: Fact) -> dict[str, Any]:
    """Return a fact as a row of the table; numbers without a guarantee are None."""
    row = dict.fromkeys(_COLUMNS, "") | {"epsilon": None, "delta": None}
    if fact.guarantee is not None:
        for name in ("epsilon", "delta", "relation", "trust", "mechanism"):
            row[name] = getattr(fact.guarantee, name)
    texts = format_name(fact.column), fact.protection, fact.step
    row |= zip(("column", "protection", "step"), map(format_text, texts), strict=True)
    return row | {"mechanism": format_text(row["mechanism"])}


def _join_some(names: Sequence[str]) -> str:
    """List names; a long list ends with the number of further names."""
    if len(names) <= _MAX_LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:_MAX_LISTED])} and {len(names) - _MAX_LISTED} more"


def _format(number: float | None) -> str:
    return "" if number is None or number != number else format_number(number)


def _list_versions() -> dict[str, str]:
    """Return the versions of skdp and the libraries that it computes with."""
    own = getattr(sys.modules.get("skdp"), "__version__", "unknown")
    libraries = {name: version(name) for name in ("scikit-learn", "numpy")}
    return {"skdp": str(own), **libraries, "Python": platform.python_version()}


def _load_template() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            "to_html requires jinja2. Use pip install jinja2 (extra 'plot')."
        ) from error
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["digits"] = _format
    template = files("skdp.privacy").joinpath("page.html.j2")
    return environment.from_string(template.read_text(encoding="utf-8"))


_PROTECTED_AGAINST = {
    "local": "including those who collect the reports",
    "shuffle": "except those who see the reports before they are shuffled or summed",
    "central": "except the curator who holds the table",
}


def _describe_total(total: PrivacyGuarantee) -> dict[str, str]:
    """Explain a total guarantee to people who do not know skdp."""
    against = f"everyone who sees the release, {_PROTECTED_AGAINST[total.trust]}"
    if not total.secure:
        against = f"NOT SECURE, only those who do not know the seed: {against}"
    return {
        "protected": _describe_protected(total),
        "against": against,
        "trusted": TRUSTED[total.trust],
        "unit": _describe_unit(total),
        "odds": total.in_odds(),
    }


def _describe_protected(total: PrivacyGuarantee) -> str:
    columns = join_names(total.scope)
    unit = total._format_unit().replace("one ", "each ")
    if total.unit == "record" and total.max_rows_per_person > 1:
        unit = f"any {unit}"
    if total.relation == "add_remove":
        presence = "the presence" if total.unit != "record" else "its presence"
        return f"{unit}, in the columns {columns}, and {presence} in the data"
    values = f"the values of {columns} in {unit}"
    if total.relation == "replace_values":
        return f"{values}; all other columns are public"
    return values


def _describe_unit(total: PrivacyGuarantee) -> str:
    larger = "k times as large"
    if total.delta:
        larger += ", and delta larger still"
    rows = total.max_rows_per_person
    if total.unit != "record":
        return (
            f"{total._format_unit()}. A single record of a person with several records is "
            "protected less, because it may replace another record of the person"
        )
    if rows == 1:
        return (
            "one record (a row). A person with k records is protected less: epsilon is "
            f"{larger}"
        )
    return (
        f"{rows} records (rows), so also a person with up to {rows}. For a person with "
        f"k times {rows} records, epsilon is {larger}"
    )
