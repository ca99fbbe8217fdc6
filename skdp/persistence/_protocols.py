"""Fitted local transformers: `load` makes their protocol again from what is declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skdp.domain import pack, unpack
from skdp.local import (
    ReportTransformer,
    as_of_seed,
    comparable,
    count_numbers,
    forget_names,
    refitted,
)

_CHANGED = (
    "its parameters were changed after fit, which would change its protocol; fit it"
    " again before it is saved"
)

# Numbers of grids and report columns of all protocols of a file together: more than one
# may have. They take up to some 80 bytes each, and few in the file.
_MOST_NUMBERS = 1 << 22

_PARTS = {"columns", "named", "declared", "observed", "protocol", "of_seed"}


class Numbers:
    """Counts the numbers of grids and the report columns of all protocols of a file."""

    def __init__(self) -> None:
        self.n = 0

    def add(self, transformer: ReportTransformer) -> None:
        """Add those of a fitted transformer; an error if there are too many."""
        protocol = transformer.protocol_
        parameters = transformer.get_params(deep=False)
        self.n += count_numbers(parameters, len(protocol.columns))
        self.n += len(protocol.report_columns)
        if self.n > _MOST_NUMBERS:
            raise ValueError(
                f"the protocols of a file have at most {_MOST_NUMBERS:,} numbers of "
                "grids and report columns together: save the transformers one by one"
            )


def describe_protocol(transformer: ReportTransformer) -> dict[str, Any]:
    """Describe what a transformer was fitted to, and the protocol that it must make."""
    protocol = transformer.protocol_
    name = type(transformer).__name__
    parameters = transformer.get_params(deep=False)
    is_same_key = protocol.permanent_key == parameters.get("secret_key")
    is_same_seed = transformer._seed == transformer.random_state
    if not (is_same_key and is_same_seed and transformer._ledger is transformer.ledger):
        raise ValueError(f"{name}: {_CHANGED}")
    observed = []
    if protocol.domain is not None:
        for column in protocol.domain.columns:
            if protocol.domain[column].observed:
                observed.append(column)
    packed = comparable(protocol)
    columns = list(protocol.columns)
    try:
        again = type(transformer)(**{**parameters, **protocol.declared})
        is_same = refitted(again, columns, packed)
        # Permanent reports come from a key, and their second round from a seed.
        of_seed = again.guarantee_.secure and not protocol.guarantee.secure
        if of_seed:
            again = as_of_seed(again)
        is_same = is_same and again.guarantee_ == protocol.guarantee
    except ValueError:
        is_same = False
    if not is_same:
        raise ValueError(
            f"{name}: {_CHANGED}, or its domain is larger than skdp.load accepts"
        )
    return {
        "columns": columns,
        "named": hasattr(transformer, "feature_names_in_"),
        "declared": dict(protocol.declared),
        "observed": observed,
        "protocol": unpack(packed),
        "of_seed": of_seed,
    }


def refit(
    kind: type[ReportTransformer],
    parameters: Mapping[str, Any],
    fitted: Mapping[str, Any],
) -> ReportTransformer:
    """Fit a transformer to what is declared: its guarantee follows from its parameters."""
    if fitted.keys() != _PARTS:
        raise ValueError(f"{kind.__name__} is fitted to other parts")
    declared = fitted["declared"]
    transformer = kind(**{**parameters, **declared})
    if not refitted(transformer, fitted["columns"], pack(fitted["protocol"])):
        raise ValueError(
            "this version of skdp makes another protocol of the parameters of"
            f" {kind.__name__}"
        )
    protocol: Any = transformer.protocol_
    if declared.keys() != protocol.declared.keys():
        raise ValueError("the parameters by column are not those of the protocol")
    if fitted["named"] is not True:
        forget_names(transformer)
    for name in declared:
        setattr(transformer, name, parameters[name])
    for column in fitted["observed"]:
        protocol.domain[column].observed = True
    return as_of_seed(transformer) if fitted["of_seed"] is True else transformer
