"""The statement: as text, as a table, as a record and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Any, ClassVar, Self

import pandas as pd

from skdp.markup import html_table, html_text, written_text
from skdp.privacy._json import Fields, JsonRecord
from skdp.privacy._numbers import shown
from skdp.privacy.statement._facts import Facts, read_facts
from skdp.privacy.statement._meaning import (
    headline,
    meaning,
    not_covered,
    randomness,
    warnings,
)
from skdp.privacy.statement._page import page
from skdp.privacy.statement._sheet import evaluation


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
        return {
            "headline": written_text(headline(self)),
            "columns": self.columns,
            "total": None if self.total is None else self.total._content(),
            "steps": [
                {
                    "step": written_text(one.step),
                    "guarantee": one.guarantee._content(),
                    "known": one.known,
                    "charged": one.charged,
                    "fitted": one.fitted,
                    "shuffled": None
                    if one.shuffled is None
                    else one.shuffled._content(),
                }
                for one in self.steps
            ],
            "notes": list(map(written_text, self.notes)),
            "ledgers": [ledger._content() for ledger in self.ledgers],
            "versions": dict(self.versions),
            "warnings": warnings(self),
            "randomness": randomness(self),
            "meaning": meaning(self),
            "not_covered": not_covered(self),
            "evaluation": evaluation(self),
        }

    @classmethod
    def _of(cls, fields: Fields) -> Self:
        made = cls(**read_facts(fields))
        for name in (
            "headline",
            "warnings",
            "randomness",
            "meaning",
            "not_covered",
            "evaluation",
        ):
            fields.take(
                name
            )  # these follow from the other fields, and are written again
        return made

    def to_html(self) -> str:
        """Return a page that explains the statement.

        Returns
        -------
        str
            A complete HTML document that loads nothing: who is protected against whom, the guarantee in odds, each
            column, the composition so far, what is not covered, and the answers to what an evaluator looks at ([1]_).

        Raises
        ------
        ImportError
            If jinja2 is missing (extra "plot").

        Notes
        -----
        **Privacy.** It shows what `to_dict` returns, and nothing else.

        References
        ----------
        .. [1] J. Near, D. Darais, N. Lefkovitz, G. Howarth (2025). Guidelines for evaluating differential privacy
           guarantees. NIST SP 800-226.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdp import RandomizedResponseEncoder, privacy_statement
        >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]})
        >>> html = privacy_statement(encoder.fit(pd.DataFrame({"sex": ["f", "m"]}))).to_html()
        >>> "at most 74 times in 100" in html
        True
        """
        return page(self.to_dict())

    def _table(self) -> pd.DataFrame:
        return self.rows.assign(
            epsilon=[
                "" if isnan(value) else shown(value) for value in self.rows["epsilon"]
            ],
            delta=[
                "" if isnan(value) else shown(value) for value in self.rows["delta"]
            ],
        )

    def __str__(self) -> str:
        lines = [
            headline(self),
            self._table().to_string(index=False),
            *(f"- {note}" for note in self.notes),
        ]
        return written_text("\n".join(lines))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = html_table(self._table())
        odds = f"<p>{html_text(self.total.in_odds())}</p>" if self.total else ""
        notes = "".join(
            f"<li>{html_text(note)}</li>" for note in (*warnings(self), *self.notes)
        )
        return f"<div><p><b>{html_text(headline(self))}</b></p>{table}{odds}<ul>{notes}</ul></div>"
