"""The statement: as text, as a table, as a record and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import isnan
from typing import Any, ClassVar, Self

import pandas as pd

from skdp.markup import html_table, html_text, written_text
from skdp.privacy._json import Fields, JsonRecord
from skdp.privacy._numbers import shown
from skdp.privacy._odds import shown_guess
from skdp.privacy.statement._facts import Facts, read_facts
from skdp.privacy.statement._meaning import (
    headline,
    meaning,
    not_covered,
    randomness,
    warnings,
)


@dataclass(frozen=True, eq=False, repr=False)
class PrivacyStatement(Facts, JsonRecord):  # numpydoc ignore=PR02
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
        it); ``charged``, whether it charges a ledger; ``fitted`` (otherwise its guarantee is what it is set to spend);
        and ``shuffled``, None unless its epsilon is a `Shuffled`: what its reports guarantee once they are shuffled or
        summed by themselves, apart from reports of other steps and from other columns of the same rows.
    ledgers : tuple of PrivacyLedger, default=()
        The ledgers that the steps charge, as they were when the statement was made; they can only be read.
    versions : mapping of str to str, optional
        The versions of skdp, scikit-learn, NumPy and Python. By default those in use.

    Notes
    -----
    **Privacy.** A statement, its record and its page have names (of columns, steps and releases) and numbers of
    guarantees. They have no value of the data (also not of columns whose categories were read from the data), no
    declared value, no seed, no key and no path.

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
        record = {
            "headline": written_text(headline(self)),
            "columns": self.columns,
            "total": None if self.total is None else self.total._content(),
            "steps": [step._content() for step in self.steps],
            "notes": list(map(written_text, self.notes)),
            "ledgers": [ledger._content() for ledger in self.ledgers],
            "versions": dict(self.versions),
        }
        return record | self._words()

    def _words(self) -> dict[str, Any]:
        """Return the fields that follow from others."""
        return {
            "warnings": warnings(self),
            "randomness": randomness(self),
            "meaning": meaning(self),
            "not_covered": not_covered(self),
        }

    @classmethod
    def _of(cls, fields: Fields) -> Self:
        statement = cls(**read_facts(fields))
        # What follows from other fields is written again.
        for name in ("headline", *statement._words()):
            fields.take(name)
        return statement

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
            'jinja2 is needed for the page: pip install "skdp[plot]"'
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
        columns = ", ".join(map(str, charge["guarantee"]["scope"]))
        mechanism = charge["guarantee"]["mechanism"]
        amounts = charge["epsilon"], charge["delta"]
        key = (charge["what"], *amounts, mechanism, columns)
        group = groups.setdefault(key, charge | {"number": 0, "columns": columns})
        group["number"] += 1
    return ledger | {"groups": list(groups.values()), "number": len(ledger["charges"])}
