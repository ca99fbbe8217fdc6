"""The record of a deployment, as the public registry of deployments of differential privacy has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, NamedTuple

from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.statement._facts import Facts
from skdp.privacy.statement._meaning import SECURE, composition, meaning, unit_of


class Human(NamedTuple):
    """A field that a person fills: its section, the tier that requires it (0: none), its check."""

    section: str
    tier: int
    problem: Callable[[Any], str | None]


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) and value.strip() else "a text that is not empty"


def _texts(value: Any) -> str | None:
    fits = isinstance(value, list) and value and not any(map(_text, value))
    return None if fits else "a list of texts, at least one"


def _date(value: Any) -> str | None:
    try:
        fits = isinstance(value, str) and date.fromisoformat(value).isoformat() == value
    except ValueError:
        fits = False
    return None if fits else "a date as YYYY-MM-DD"


def _slug(value: Any) -> str | None:
    fits = isinstance(value, str) and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", value)
    return None if fits else "lower-case letters, digits and single hyphens"


def _one_of(*options: str) -> Callable[[Any], str | None]:
    return lambda value: None if isinstance(value, str) and value in options else f"one of {list(options)}"


_PRODUCTS = (
    *("Summary statistics", "Machine learning model", "Dataset", "Synthetic data"),
    *("Interactive API", "SQL queries"),
)
_SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")

HUMAN = {
    "name": Human("basic", 1, _text),
    "data_curators": Human("basic", 1, _texts),
    "description": Human("basic", 1, _text),
    "intended_use": Human("basic", 1, _text),
    "data_product_type": Human("basic", 1, _one_of(*_PRODUCTS)),
    "data_product_region": Human("basic", 1, _text),
    "publication_date": Human("basic", 1, _date),
    "registry_authors": Human("administrative", 1, _texts),
    "release_type": Human("deployment_model", 2, _one_of("One release", "Many releases")),
    "data_source_type": Human("deployment_model", 2, _one_of("Static", "Dynamic")),
    "access_type": Human("deployment_model", 2, _one_of("Interactive", "Non-interactive")),
    "actors": Human("deployment_model", 3, _text),
    "preprocessing_and_hyperparameter_tuning": Human("implementation", 3, _text),
    "justification": Human("implementation", 3, _text),
    "url_slug": Human("", 0, _slug),
    "data_product_sector": Human("basic", 0, _one_of(*_SECTORS)),
    "release_type_details": Human("deployment_model", 0, _text),
    "data_source_type_details": Human("deployment_model", 0, _text),
    "access_type_details": Human("deployment_model", 0, _text),
    "sources": Human("administrative", 0, _text),
    "notes": Human("administrative", 0, _text),
}


def registry_record(facts: Facts, human_fields: Mapping[str, Any], tier: Any) -> dict[str, Any]:
    """Fill a record from a statement and from what a person knows."""
    if not isinstance(human_fields, Mapping):
        raise TypeError(f"human_fields must be a mapping, got {type(human_fields).__name__}")
    if isinstance(tier, bool) or tier not in (1, 2, 3):
        raise ValueError(f"tier must be 1, 2 or 3, got {tier!r}")
    if facts.total is None:
        raise ValueError("no column is protected: there is no guarantee to register")
    if not facts.secure:
        raise ValueError(
            "the randomness comes from a seed, so that the guarantee does not hold against those who know it; release "
            "with random_state=None"
        )
    filled = _filled(facts, facts.total)
    _check(human_fields, filled, tier)
    given: dict[str, Any] = {
        name: list(value) if isinstance(value, list) else value for name, value in human_fields.items()
    }
    slug = given.pop("url_slug", None) or _slug_of(given["name"])
    sections: dict[str, dict[str, Any]] = {"basic": {}, **filled, "administrative": {}}
    for name, human in HUMAN.items():
        if name in given:
            sections[human.section][name] = given[name]
    return {"url_slug": slug, "status": "Draft", "tier": tier, "deployment": sections}


def _check(human_fields: Mapping[str, Any], filled: dict[str, dict[str, Any]], tier: int) -> None:
    known = {name for section in filled.values() for name in section}
    known |= set(filled["privacy_loss"]["privacy_parameters"]) | {"status", "tier"}
    contradicting = [name for name in human_fields if name in known]
    if contradicting:
        raise ValueError(
            f"human_fields must not have what the statement fills: {contradicting}; remarks are for 'notes'"
        )
    unknown = [name for name in human_fields if name not in HUMAN]
    if unknown:
        raise ValueError(f"human_fields has unknown fields: {unknown}; known are {list(HUMAN)}")
    missing = [name for name, human in HUMAN.items() if 0 < human.tier <= tier and name not in human_fields]
    if missing:
        raise ValueError(f"human_fields lacks what only a person knows, for tier {tier}: {missing}")
    for name, value in human_fields.items():
        problem = HUMAN[name].problem(value)
        if problem is not None:
            raise ValueError(f"human_fields[{name!r}] must be {problem}, got {type(value).__name__}")


def _slug_of(name: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not slug:
        raise ValueError("human_fields must have a 'url_slug', as 'name' has no letter a-z and no digit")
    return slug


def _filled(facts: Facts, total: PrivacyGuarantee) -> dict[str, dict[str, Any]]:
    """Return what the statement says, by section."""
    means = meaning(facts) or {}
    columns = ", ".join(map(str, total.scope))
    parameters = {"epsilon": total.epsilon}
    if total.delta:
        parameters["delta"] = total.delta
    if total.rho is not None:
        parameters["rho"] = total.rho
    return {
        "dp_variant": {
            "variant_name": _variant(total),
            "data_domain": f"Tables with these columns, which are protected: {columns}.",
            "unprotected_quantities": _unprotected(facts, total),
        },
        "privacy_loss": {
            "privacy_unit": unit_of(total).capitalize(),
            "privacy_unit_details": f"Unit: {means['unit']}. Adjacent: {means['neighbours']}. Protected: "
            f"{means['protected']}.",
            "privacy_parameters": parameters,
            "privacy_parameters_details": means["odds"],
        },
        "deployment_model": {
            "model_name": total.trust.capitalize(),
            "model_name_details": f"Protected against {means['against']}. Trusted: {means['trusted']}.",
        },
        "accounting": {
            "post_processing": _post_processing(facts),
            "composition": composition(facts)[0],
        },
        "implementation": {"mechanisms": _mechanisms(facts)},
    }


def _variant(total: PrivacyGuarantee) -> str:
    if total.rho is not None:
        return "Zero-concentrated DP"
    return "Approximate DP" if total.delta else "Pure DP"


def _unprotected(facts: Facts, total: PrivacyGuarantee) -> str:
    texts = [f"{name}: {how}" for name, how in facts.open_columns]
    if total.relation == "replace":
        texts.append(f"the number of {unit_of(total)}s")
    return f"{'; '.join(texts)}." if texts else "None."


def _post_processing(facts: Facts) -> str:
    found = [note for note in facts.notes if note.startswith("Post-processing")]
    return " ".join(found) or "None that the statement knows of."


def _mechanisms(facts: Facts) -> str:
    steps = [f"- {one.step}: {one.guarantee.mechanism or 'not named'}, {one.guarantee}" for one in facts.steps]
    versions = ", ".join(f"{name} {number}" for name, number in facts.versions.items())
    exact = "- Floating point: draws are decided by exact integers and fractions; noise is added to integers."
    texts = [*steps, f"- Library: {versions}.", f"- Random bits: {SECURE}.", exact]
    if facts.others:
        texts.append(f"- Not by skdp, so that this is not known of them: {', '.join(facts.others)}.")
    return "\n".join([*texts, "- Timing, and the security of the machine and of the data: not stated."])
