"""The page of a statement."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from skdp.markup import written_text
from skdp.privacy._numbers import shown
from skdp.privacy._odds import shown_guess


def page(record: dict[str, Any]) -> str:
    """Write the record of a statement as a page, which loads nothing."""
    total, ledgers = record["total"], list(map(_summed, record["ledgers"]))
    guess = None if total is None else shown_guess(total["epsilon"], total["delta"])
    return written_text(
        _template().render(record | {"ledgers": ledgers, "guess": guess})
    )


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
    environment.filters["shown"] = lambda number: (
        "" if number is None else shown(number)
    )
    text = (
        files("skdp.privacy.statement")
        .joinpath("page.html.j2")
        .read_text(encoding="utf-8")
    )
    return environment.from_string(text)


def _summed(ledger: dict[str, Any]) -> dict[str, Any]:
    """Add the number of charges, and group equal ones."""
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for charge in ledger["charges"]:
        guarantee = charge["guarantee"]
        key = (
            charge["what"],
            charge["epsilon"],
            charge["delta"],
            guarantee["mechanism"],
            tuple(guarantee["scope"]),
        )
        group = groups.setdefault(
            key,
            charge | {"number": 0, "columns": ", ".join(map(str, guarantee["scope"]))},
        )
        group["number"] += 1
    return ledger | {"groups": list(groups.values()), "number": len(ledger["charges"])}
