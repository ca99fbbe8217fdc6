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

from skdp.markup import html_table, html_text, written_row, written_text
from skdp.privacy._formats import (
    JsonRecord,
    format_guess,
    format_name,
    format_number,
    guess_probability,
)
from skdp.privacy._guarantee import PrivacyGuarantee, join_names
from skdp.privacy.statement._texts import (
    CHARGED,
    INFERRED,
    NOT_FITTED,
    NOT_SEEN,
    ROWS_IN_FIT,
    WARNINGS,
    describe_total,
    list_not_covered,
    name_randomness,
)
from skdp.privacy.statement._walk import ALL_COLUMNS, Fact, StatedStep

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
    ledgers : tuple of dict, default=()
        Records of the ledgers that the steps charge, when the statement was made; see `PrivacyLedger.to_dict`.

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
    ledgers: tuple[dict[str, Any], ...] = ()

    @property
    def rows(self) -> pd.DataFrame:
        """The facts as a table."""
        rows = list(map(_list_fact, self.facts))
        table = pd.DataFrame(rows, columns=list(_COLUMNS))
        table["column"] = written_row(fact.column for fact in self.facts)
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
        unprotected = self.unprotected_columns
        waiting = self._columns_with(NOT_FITTED, NOT_SEEN)
        in_fit = [x for x in self._columns_with(ROWS_IN_FIT) if x not in unprotected]
        texts = []
        if unprotected or not waiting:
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
            texts.append("No column has a guarantee")
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
            for name, text in WARNINGS.items()
            if steps[name]
        ]

    def _content(self) -> dict[str, Any]:
        total = self.total
        meaning: dict[str, Any] | None = None
        if total is not None:
            guess = guess_probability(total.epsilon, total.delta)
            meaning = describe_total(total) | {"guess_probability": guess}
        # The record has null where the table has an empty text or nan.
        columns = [
            {
                name: None if value in ("", None) else value
                for name, value in row.items()
            }
            for row in map(_list_fact, self.facts)
        ]
        uncharged = [step.step for step in self.steps if not step.charged]
        return {
            "headline": written_text(self._headline()),
            "warnings": self._warnings(),
            "columns": columns,
            "total": None if total is None else total._content(),
            "meaning": meaning,
            "randomness": name_randomness(step.guarantee for step in self.steps),
            "steps": [step._content() for step in self.steps],
            "notes": list(map(written_text, self.notes)),
            "not_covered": list_not_covered(total, uncharged),
            "ledgers": list(self.ledgers),
            "versions": _list_versions(),
        }

    def to_html(self) -> str:
        """Return the statement as an HTML page with explanations.

        Returns
        -------
        str
            A complete HTML document that loads nothing: who is protected from whom, the guarantee in odds, each column,
            the composition so far, and what is not covered.

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
        record = self.to_dict()
        ledgers = [_group_charges(ledger) for ledger in record.pop("ledgers")]
        table = self._format_table().to_dict("records")
        page = _load_template().render(
            record, ledgers=ledgers, guess=guess, table=table
        )
        return written_text(page)

    def _format_table(self) -> pd.DataFrame:
        """Return the facts with words in place of codes."""
        table = self.rows.drop(columns=["relation", "trust"])
        table["column"] = [format_name(fact.column) for fact in self.facts]
        for name in ("epsilon", "delta"):
            table[name] = [_format(value) for value in self.rows[name]]
        words = [_describe_change(fact.guarantee) for fact in self.facts]
        table.insert(4, "for", words)
        return table

    def __str__(self) -> str:
        lines = [self._headline(), self._format_table().to_string(index=False)]
        lines += [f"- {text}" for text in (*self._warnings(), *self.notes)]
        return written_text("\n".join(lines))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        odds = "" if self.total is None else f"<p>{html_text(self.total.in_odds())}</p>"
        notes = [f"<li>{html_text(x)}</li>" for x in (*self._warnings(), *self.notes)]
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
    row |= zip(("column", "protection", "step"), map(written_text, texts), strict=True)
    return row | {"mechanism": written_text(row["mechanism"])}


def _describe_change(guarantee: PrivacyGuarantee | None) -> str:
    if guarantee is None:
        return ""
    if guarantee.relation == "replace_values":
        return f"replacing values in {guarantee._format_unit()}"
    return guarantee._format_neighbors()


def _join_some(names: Sequence[str]) -> str:
    """List names; a long list ends with the number of further names."""
    if len(names) <= _MAX_LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:_MAX_LISTED])} and {len(names) - _MAX_LISTED} more"


def _format(number: float | None) -> str:
    return "" if number is None or number != number else format_number(number)


def _group_charges(ledger: dict[str, Any]) -> dict[str, Any]:
    """Add groups of equal charges to the record of a ledger."""
    # A search charges the same release hundreds of times, which is one row of the page.
    rows = []
    for charge in ledger["charges"]:
        guarantee = charge["guarantee"]
        facts = {"columns": join_names(guarantee["scope"])}
        rows.append(charge | facts | {"mechanism": guarantee["mechanism"]})
    names = ["what", "epsilon", "delta", "columns", "mechanism"]
    groups = pd.DataFrame(rows, columns=names).groupby(names, sort=False).size()
    return ledger | {"groups": groups.reset_index(name="times").to_dict("records")}


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
    template = files("skdp.privacy.statement").joinpath("page.html.j2")
    return environment.from_string(template.read_text(encoding="utf-8"))
