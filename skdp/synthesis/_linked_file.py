"""The fitted part of a table of events in a file: its domain and noisy counts, to which a model is fitted again."""

from __future__ import annotations

from typing import Any

from skdp.domain import Domain
from skdp.synthesis._events import EventModel, EventTable, MeasuredEvents
from skdp.synthesis._file import (
    describe_cells,
    describe_marginals,
    read_marginal,
    read_numbers,
)
from skdp.synthesis._histories import EventColumns
from skdp.synthesis._rows import make_template

PARTS = {"features", "template", "domain", "has_order", "marginals", "cells"}


def describe_events(table: EventTable, model: EventModel) -> dict[str, Any]:
    """Describe a table of events as values that a file can store; `restore_events` reads them."""
    measured = table.measured
    names = range(len(model.columns.structure.sizes))
    return {
        "features": list(table.features),
        "template": table.template,
        "domain": measured.domain,
        "has_order": table.has_order,
        "marginals": describe_marginals(measured.marginals, names),
        "cells": describe_cells(model.shapes, measured.domain.columns),
    }


def restore_events(
    parts: dict[str, Any], columns: EventColumns, joint: Domain, *, is_gaussian: bool
) -> EventTable:
    """Check the parts of a table of events; `joint` has the columns of people and of events."""
    domain, template = parts["domain"], parts["template"]
    features = tuple(parts["features"])
    if parts.keys() != PARTS or template.names != joint.columns:
        raise ValueError(
            f"A table of events must have the parts {sorted(PARTS)}, with a template of "
            "the columns of people and of events."
        )
    sizes = columns.structure.sizes
    model = Domain({index: range(size) for index, size in enumerate(sizes)})
    marginals = [read_marginal(about, model) for about in parts["marginals"]]
    numbers = read_numbers(parts["cells"], domain, is_gaussian)
    measured = MeasuredEvents(domain, marginals, numbers)
    template = make_template(template, joint)
    return EventTable(features, joint, template, measured, parts["has_order"] is True)
