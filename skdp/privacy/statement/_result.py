"""Privacy statements as text, table, JSON record and HTML page."""

from __future__ import annotations

import platform
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any, ClassVar

import pandas as pd

from skdp.privacy._formats import (
    JsonRecord,
    format_html,
    format_name,
    format_number,
    format_percent,
    format_row,
)
from skdp.privacy.guarantees._guarantee import (
    TRUSTED,
    TRUSTS,
    PrivacyGuarantee,
    join_names,
)
from skdp.privacy.statement._walk import (
    CHARGED,
    NOT_FITTED,
    NOT_RELEASED,
    NOT_SEEN,
    PERMANENT,
    TRANSFORMED,
    Fact,
    StatedStep,
)

_FACT_COLUMNS = (
    "column",
    "protection",
    "epsilon",
    "delta",
    "relation",
    "trust",
    "step",
    "mechanism",
)

# Columns of the text; relation, trust and mechanism are below the table.
_TEXT_COLUMNS = ("column", "protection", "epsilon", "delta", "step")

# Largest number of steps with equal facts that are all named in one row: twelve months
# are the first and the last one.
MAX_NAMED_STEPS = 4

# Limits of each guarantee (""), and of guarantees with a relation or trust model.
_NOT_COVERED = (
    (
        "",
        "Further calls of steps without a ledger, releases that are charged to no ledger "
        "listed here, and other releases about the same people.",
    ),
    (
        "",
        "Information about the protected columns in other columns and other sources, and "
        "facts about the population, which hold whether or not a record is in the data.",
    ),
    (
        "",
        "Sensitive features, sample weights and other parameters of fit that are not among "
        "the protected columns; errors and warnings of steps that are not from skdp.",
    ),
    ("replace", "The number of records, their order and their index."),
    (
        "replace_values",
        "The number of records, their order, their index and all other columns, from which "
        "the protected values may be predicted.",
    ),
    ("local", "True values on the machine that randomizes them."),
    (
        "shuffle",
        "True values on the machine that randomizes them. Reports that still have their "
        "order, an index or an id have the local guarantee only.",
    ),
    ("central", "The table of the curator."),
)

# Protections in the headline, by its words.
_EXPOSURES = {
    "Unprotected columns": ("unprotected:",),
    "Unprotected in the rows that transform returns": (TRANSFORMED,),
    "No guarantee for": (NOT_FITTED, NOT_SEEN),
}

# Note about the table of columns.
_SHARED_EPSILON = (
    "The epsilon of a step is for all its columns together: count each step once."
)

# Fields that the text contains after the headline, from the record and its meaning.
_TEXT_FIELDS = (
    "title",
    "purpose",
    "contact",
    "trusted",
    "unit",
    "neighbors",
    "variant",
    "odds",
    "method",
    "notes",
    "secure",
    "ledgers",
    "not_covered",
    "written",
)

# Packages whose versions may change the noise or its proof.
_STATED_PACKAGES = ("skdp", "numpy", "scipy", "pandas", "narwhals", "scikit-learn")


@dataclass(frozen=True, eq=False, repr=False)
class PrivacyStatement(JsonRecord):
    """The guarantee of each column of a pipeline, as text, HTML page and record.

    Parameters
    ----------
    facts : tuple of Fact
        Named tuples of ``column, step, protection, guarantee``. ``guarantee`` is None if the step does not
        protect the column.
    total : PrivacyGuarantee or None
        Guarantee of all steps together, for the columns in its scope. None if no column is covered.
    notes : tuple of str
        Assumptions and explanations.
    steps : tuple of StatedStep, default=()
        Named tuples of ``step``, ``guarantee`` and ``fitted``. ``step`` contains the names of the enclosing steps and
        the class of the step. ``guarantee`` is for columns of the table. If ``fitted`` is False, it is the largest loss
        that the parameters allow.
    title, purpose, contact : str, default=""
        Name of the release, its intended use, and a person who answers questions.
    total_if_fixed : PrivacyGuarantee, default=None
        For a ledger, the guarantee of all charges together by their losses, as in a statement of a list. It holds if
        their number and their losses were fixed before the first result; `total` holds even if they depend on earlier
        results.
    ledgers : tuple of dict, default=()
        Budgets of the ledgers that the estimators charge, or of the ledger: ``epsilon, delta, rho, mu, relation,
        columns``.
    written : dict, default=None
        Date, its time zone UTC, and versions of skdp, Python and the packages that compute the noise and the proofs; by
        default of this process.

    Attributes
    ----------
    secure : bool or None
        False if a step draws its noise from a seed; None without a step.
    rows : pandas.DataFrame
        The facts as a table: ``column, protection, epsilon, delta, relation, trust, step, mechanism``. The epsilon of
        a row is the epsilon of its step, which the columns of the step share.
    unprotected_columns : list of str
        Columns whose true values are released.

    Notes
    -----
    **Privacy.** A statement, its record and its page contain names (of columns, steps and releases), numbers of
    guarantees, and for the note of method declared bounds and largest weights. They contain no value of the data (even
    if categories were inferred from the data), no other declared value, no seed, no key and no path. `title`,
    `purpose` and `contact` are written as they are.

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
    "replacing one record's values of: sex"
    """

    _format: ClassVar[str] = "skdp-statement"
    _version: ClassVar[int] = 3

    facts: tuple[Fact, ...]
    # As in typeshed, Any stands for None, which only some pipelines have.
    total: PrivacyGuarantee | Any
    notes: tuple[str, ...]
    steps: tuple[StatedStep, ...] = ()
    title: str = ""
    purpose: str = ""
    contact: str = ""
    total_if_fixed: PrivacyGuarantee | None = None
    ledgers: tuple[dict[str, Any], ...] = ()
    written: dict[str, str] = field(default_factory=lambda: _describe_versions())

    @property
    def secure(self) -> bool | None:
        """False if a step draws its noise from a seed; None without a step."""
        if not self.steps:
            return None
        return all(step.guarantee.secure for step in self.steps)

    @property
    def rows(self) -> pd.DataFrame:
        """The facts as a table."""
        table = _make_fact_table(map(_list_fact, self.facts))
        table["column"] = format_row(fact.column for fact in self.facts)
        return table

    @property
    def unprotected_columns(self) -> list[str]:
        """Columns whose true values are released."""
        return self._columns_with("unprotected")

    def _columns_with(self, *protections: str) -> list[str]:
        """Return the columns with a fact whose protection begins with one of some strings."""
        columns = {
            format_name(fact.column): None
            for fact in self.facts
            if fact.protection.startswith(protections)
        }
        return list(columns)

    def _headline(self) -> str:
        """Return a summary: the unprotected columns, then the guess and the guarantee of the other columns."""
        if not self.facts:
            return "The ledger has no charges."
        exposed = {x: self._columns_with(*kinds) for x, kinds in _EXPOSURES.items()}
        texts = [f"{x}: {', '.join(names)}" for x, names in exposed.items() if names]
        if any("target is unprotected" in note for note in self.notes):
            texts.append("The target is unprotected")
        if self.total is not None:
            texts.append(self._format_total(self.total))
        elif not exposed["No guarantee for"]:
            texts.append("No column has a total guarantee")
        if any(fact.protection == CHARGED for fact in self.facts):
            texts.append(
                "Only charged releases are listed. Others may exist, and are not in "
                "this total"
            )
        elif not any(exposed.values()):
            texts.append("Unprotected columns: none")
        return f"{'. '.join(texts)}."

    def _format_total(self, total: PrivacyGuarantee) -> str:
        """Return the largest success of a guess, and the guarantee or plan without rho."""
        kind = "Guarantee" if all(step.fitted for step in self.steps) else "Plan"
        # Rho is below, because two measures of one loss are hard to compare. Unprotected
        # columns precede.
        text = f"{kind}: {replace(total, rho=None, observed=())}"
        if not total.secure:
            return text
        guess = format_percent(total.guess_probability).capitalize()
        unit = total._format_unit()
        return (
            f"{guess} of 100 guesses about {unit} can be right, 50 without the release. "
            f"{text}"
        )

    def _to_fields(self) -> dict[str, Any]:
        """Return the fields of the JSON record."""
        total, fixed = self.total, self.total_if_fixed
        shared = [_SHARED_EPSILON] if self.facts else []
        return {
            "title": self.title,
            "purpose": self.purpose,
            "contact": self.contact,
            "headline": self._headline(),
            "meaning": total and self._describe_total(total),
            "columns": list(map(_list_fact, self.facts)),
            "method": _describe_methods(self.steps),
            "notes": [*shared, *self.notes],
            "secure": self.secure,
            "ledgers": self.ledgers,
            "not_covered": self._list_limits(),
            "written": self.written,
            "total": total and total._to_fields(),
            "total_if_fixed": fixed and fixed._to_fields(),
            "steps": [
                step._asdict() | {"guarantee": step.guarantee._to_fields()}
                for step in self.steps
            ],
        }

    def _list_limits(self) -> list[str]:
        """Return the limits of the guarantees of all steps and of the total."""
        guarantees = {step.guarantee for step in self.steps} | {self.total} - {None}
        kinds = {x for one in guarantees for x in (one.relation, one.trust)}
        return [text for kind, text in _NOT_COVERED if kind in kinds or not kind]

    def _describe_total(self, total: PrivacyGuarantee) -> dict[str, Any]:
        """Return explanations of the total for readers without knowledge of differential privacy, by topic."""
        # A release with epsilon = delta = 0 requires no trust, and has no unit.
        covers = [
            x for x in self.steps if not set(total.scope).isdisjoint(x.guarantee.scope)
        ]
        lossy = [x for x in covers if x.guarantee.epsilon or x.guarantee.delta]
        counted = lossy or covers
        rates = {str(rate): total.true_positive_rate(rate) for rate in (0.01, 0.001)}
        return {
            "protected": total._format_scope(),
            "trust_model": f"{total.trust} model",
            "trusted": f"{_describe_trust(total, counted)}.",
            "variant": _name_variant(total),
            "neighbors": _NEIGHBORS[total.relation],
            "unit": self._describe_unit(total, counted),
            "odds": total.in_odds(),
            "guess_probability": total.guess_probability if total.secure else None,
            "true_positive_rates": rates if total.secure else None,
        }

    def _describe_unit(
        self, total: PrivacyGuarantee, counted: Iterable[StatedStep]
    ) -> str:
        """Describe the unit of privacy in sentences, without the last period."""
        unit = total._format_unit()
        if any(PERMANENT in note for note in self.notes):
            return (
                f"one value of each column of {unit}. Reports are permanent, and each "
                "further value of a person costs the same again"
            )
        if total.unit == "record":
            if total.relation == "replace_values":
                unit = f"the values of {join_names(total.scope)} in {unit}"
            elif not any(_leaves_out(fact) for fact in self.facts):
                unit = unit.replace("one record", "one whole record")
            return f"{unit}. A person with more records is protected less"
        if total.unit == "person":
            # A sum of guarantees has the smallest number of rows of its releases.
            limits = [step.guarantee.max_rows_per_person for step in counted]
            rows = max(limits, default=total.max_rows_per_person)
            unit += (
                f". Each release uses at most {rows} of them per table "
                "(max_rows_per_person)"
            )
        return (
            f"{unit}. A single record of a person with several is protected less, "
            "because it may replace another record of the person"
        )

    def to_html(self) -> str:
        """Return the statement as an HTML page with explanations.

        Returns
        -------
        str
            An HTML document without external resources: the trust model, the guarantee in odds, each column, and the
            limits of the guarantee.

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
        >>> "at most 73.2 times in 100" in html
        True
        """
        columns = _merge_facts(self.facts)
        return str(_load_page().render(self.to_dict() | {"columns": columns}))

    def __str__(self) -> str:
        record = self.to_dict()
        fields = record | (record["meaning"] or {})
        lines = [record["headline"]]
        for name in _TEXT_FIELDS:
            if value := fields.get(name):
                label = name.replace("_", " ").capitalize()
                lines.append(f"{label}:{_format_field(value)}")
        if self.facts:
            table = _make_fact_table(_merge_facts(self.facts))
            shown = table[list(_TEXT_COLUMNS)].dropna(axis=1, how="all")
            text = shown.to_string(index=False, na_rep="", float_format=format_number)
            lines.insert(1, text)
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        odds = [] if self.total is None else [self.total.in_odds()]
        table = _make_fact_table(_merge_facts(self.facts))
        return format_html(self._headline(), [table], *odds, *self.notes)


def _leaves_out(fact: Fact) -> bool:
    """Check if a column is given away without a guarantee, or the columns of a record are not known."""
    if fact.guarantee is None:
        return fact.protection not in (NOT_RELEASED, TRANSFORMED)
    return fact.protection == CHARGED


def _describe_versions() -> dict[str, str]:
    """Return the date in UTC, and the versions of Python and the packages of a statement."""
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    return {"date": date, "timezone": "UTC", **_find_versions()}


@cache
def _find_versions() -> dict[str, str]:
    """Return the versions of packages, which takes milliseconds."""
    versions = {name: version(name) for name in _STATED_PACKAGES}
    return versions | {"python": platform.python_version()}


def _format_field(value: object) -> str:
    """Return a field of the record as text: the items of a list as lines, and a mapping as pairs."""
    if isinstance(value, list):
        return "".join(f"\n-{_format_field(x)}" for x in value)
    if isinstance(value, dict):
        pairs = (f"{name} ={_format_field(x)}" for name, x in value.items() if x)
        return f" {', '.join(pairs)}"
    return f" {format_number(value) if isinstance(value, float) else value}"


def _list_fact(fact: Fact) -> dict[str, Any]:
    """Return a fact as a row of the table, by column; epsilon and delta are None without a guarantee."""
    row = dict.fromkeys(_FACT_COLUMNS, "") | {"epsilon": None, "delta": None}
    if fact.guarantee is not None:
        for name in ("epsilon", "delta", "relation", "trust", "mechanism"):
            row[name] = getattr(fact.guarantee, name)
    names = {"column": format_name(fact.column), "step": fact.step}
    return row | names | {"protection": fact.protection}


def _make_fact_table(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Return rows of facts as a table."""
    table = pd.DataFrame(rows, columns=list(_FACT_COLUMNS))
    return table.astype({"epsilon": float, "delta": float})


def _merge_facts(facts: Iterable[Fact]) -> list[dict[str, Any]]:
    """Return facts as rows; columns with equal facts about a step share a row, as do equal charges of equal columns."""
    groups: dict[Any, list[Fact]] = {}
    for fact in facts:
        row = _list_fact(fact) | {"column": ""}
        if fact.guarantee is not None and fact.protection == CHARGED:
            row |= {"column": fact.guarantee.scope, "step": ""}
        groups.setdefault(tuple(row.values()), []).append(fact)
    rows = []
    for group in groups.values():
        columns = join_names(dict.fromkeys(fact.column for fact in group))
        names = dict.fromkeys(fact.step for fact in group)
        # The epsilon of a row is the epsilon of one of its steps.
        steps = f"{'each of ' if len(names) > 1 else ''}{_join_steps(names)}"
        rows.append(_list_fact(group[0]) | {"column": columns, "step": steps})
    return rows


def _join_steps(steps: Collection[str]) -> str:
    """Format the names of steps as a list, or as the first and the last of many."""
    names = list(steps)
    if len(names) <= MAX_NAMED_STEPS:
        return ", ".join(names)
    return f"{names[0]}, ..., {names[-1]} ({len(names)} releases)"


@cache
def _load_page() -> Any:
    """Return the jinja2 template of the HTML page."""
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            "`to_html` requires jinja2. Use `pip install jinja2` (extra 'plot')."
        ) from error
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"digits": format_number, "percent": format_percent}
    template = files("skdp.privacy.statement").joinpath("page.html.j2")
    return environment.from_string(template.read_text(encoding="utf-8"))


# Start of a number in the list of statistics, which is the level of a quantile.
_QUANTILE = re.compile(r"(?<![^ ])(?=\d)")

# Sentences of the note of method, by parameter; see `PrivacyGuarantee.method`.
_METHOD = {
    "statistics": "Statistics: {}.",
    "by": "Groups: all combinations of the declared values, also without rows, of {}.",
    "totals": "Totals over all values of each key are released, too.",
    "bounds": "A value outside the bounds counts as the nearest bound: {}.",
    "limits": "With limits that are found: {}.",
    "beyond": "Rows beyond limits that are found, by noisy counts: {}.",
    "categories": "{}.",
    "max_weight": "A weight above {0} counts as {0}, and a missing or negative one as 0.",
    "max_rows_per_person": "Rows of a person that the noise covers: {}.",
    "confidence_level": (
        "Intervals contain the number of this table, with limited values, weights and "
        "rows of a person, with a probability of about {}. They exclude the sampling error "
        "of a population, unless the table states the population (design_effect)."
    ),
    "design_effect": (
        "Intervals are for limited values, weights and rows of a person. They contain the "
        "number of the population, of which the rows are a sample, with a probability of "
        "about {}."
    ),
}


def _describe_methods(steps: Iterable[StatedStep]) -> list[str]:
    """Describe releases by the public facts that they recorded; equal releases have one description."""
    names: dict[str, list[str]] = {}
    for step, guarantee, _ in steps:
        facts = dict(guarantee.method)
        if "statistics" in facts:
            statistics = facts["statistics"]
            facts["statistics"] = _QUANTILE.sub("quantile ", statistics)
        texts = [_METHOD.get(name, "{}").format(fact) for name, fact in facts.items()]
        texts.append(
            f"Columns: {join_names(guarantee.scope) or 'none'}. "
            f"Mechanism: {guarantee.mechanism or 'not stated'}."
        )
        names.setdefault(" ".join(texts), []).append(step)
    return [f"{_join_steps(names[text])}: {text}" for text in names]


# Names of the relations in NIST SP 800-226.
_NEIGHBORS = {
    "replace": "bounded: the number of records is not protected",
    "add_remove": "unbounded: the exact number of records is protected, but not its "
    "size",
    "replace_values": "bounded: neither the number of records nor any other column is "
    "protected",
}


def _name_variant(guarantee: PrivacyGuarantee) -> str:
    """Return the variant of differential privacy, as in NIST SP 800-226."""
    if guarantee.rho is not None:
        return "zero-concentrated differential privacy"
    return f"{'approximate' if guarantee.delta else 'pure'} differential privacy"


def _describe_trust(total: PrivacyGuarantee, counted: Iterable[StatedStep]) -> str:
    """Name the parties that must be trusted, for each step if the trust models of the steps differ."""
    steps: dict[str, list[str]] = {}
    for step in counted:
        text = f"{step.step} ({join_names(step.guarantee.scope)})"
        steps.setdefault(step.guarantee.trust, []).append(text)
    if len(steps) < 2:
        return "".join(TRUSTED[total.trust])
    parts = [
        f"for {', '.join(steps[x])}, {TRUSTED[x][0]}" for x in TRUSTS if x in steps
    ]
    return (
        f"{'; '.join(parts)}. The total is stated for the weaker, {total.trust} model"
    )
