"""Guarantee pages: one template, filled from one TOML file a mechanism in docs/guarantees/mechanisms."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import jinja2
from skdp_api import DOCS, read_groups, write

FIELDS = {
    "title": str,
    "summary": str,
    "objects": list,
    "relation": str,
    "trust": str,
    "epsilon": str,
    "proof": str,
    "fit_reads": str,
    "transform_reads": str,
    "not_covered": str,
    "tests": list,
    "tested": str,
    "references": list,
    "channel": dict,
}
"""The fields of a mechanism, all required. `channel` has `function`, `alt` and `caption`."""


def read_mechanism(path: Path) -> dict[str, Any]:
    """Read and check the description of a mechanism."""
    fields = tomllib.loads(path.read_text(encoding="utf-8"))
    if fields.keys() != FIELDS.keys():
        raise ValueError(
            f"{path.name}: missing or unknown fields: {sorted(fields.keys() ^ FIELDS.keys())}"
        )
    wrong = [
        name
        for name, kind in FIELDS.items()
        if not isinstance(fields[name], kind) or not fields[name]
    ]
    if wrong:
        raise ValueError(
            f"{path.name}: empty fields, or of another type: {wrong}"
        )
    return fields


def _page(path: Path, template: jinja2.Template) -> str:
    fields = read_mechanism(path)
    guides = {
        group["guide"]: None
        for group in read_groups()
        for name in fields["objects"]
        if name in group["objects"]
    }
    return template.render(
        fields,
        guides=[
            guide for guide in guides if (DOCS / f"{guide}.md").exists()
        ],
    )


def setup(app: Any) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them."""
    folder = DOCS / "guarantees"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("template.md.j2")
    names = []
    for path in sorted((folder / "mechanisms").glob("*.toml")):
        write(folder / f"{path.stem}.md", _page(path, template))
        names.append(path.stem)
    rows = "\n".join(names)
    write(
        folder / "mechanisms.rst",
        f"Mechanisms\n==========\n\n.. toctree::\n   :maxdepth: 1\n\n{_indented(rows)}\n",
    )
    return {"parallel_read_safe": True}


def _indented(text: str) -> str:
    return "\n".join(f"   {line}" for line in text.splitlines())
