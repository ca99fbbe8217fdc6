"""Draft of a domain from the data, for editing before a release."""

from __future__ import annotations

from typing import Any

from skdp.domain import MAX_DRAFT_DECIMALS, Domain, Interval, draft_frame

# Head of a drafted file.
_REMARK = (
    "A draft that was read from the data, without any protection: which values occur,\n"
    "the range of the numbers and their decimals are private.\n"
    "Before you use it for a release, edit it from public knowledge: a code book, "
    "a form, a law."
)

_ANY_FRACTION = (
    f"Some numbers have more than {MAX_DRAFT_DECIMALS} decimals: any fractions are declared.\n"
    "If all are rounded, such as amounts to cents, declare decimals = 2 instead."
)


def draft_domain_toml(frame: Any, *, bins: int = 32, max_values: int = 100) -> str:
    """Write the values of a table as a domain file, with comments for editing."""
    # **Privacy.** The draft contains values of the data, as its first lines state.
    columns, excluded = draft_frame(frame, bins=bins, max_values=max_values)
    if not columns:
        reasons = [f"{name!r} {reason}" for name, reason in excluded.items()]
        raise ValueError(f"no column can be drafted; {'; '.join(reasons)}")
    lines = _REMARK.split("\n")
    for name, reason in excluded.items():
        lines.append(f"Column {name!r} is excluded: it {reason}.")
    head = "\n".join(f"# {line}" for line in lines)
    domain = Domain(columns)
    comments = {}
    for name in domain.columns:
        values = domain[name]
        if isinstance(values, Interval) and values.real and values.decimals is None:
            comments[name] = _ANY_FRACTION
    return f"{head}\n\n{domain.to_toml(comments=comments)}"
