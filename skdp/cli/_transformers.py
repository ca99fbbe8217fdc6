"""The transformers of the commands, and the options that say which one is meant."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.base import clone

from skdp.cli._arguments import read_domain_file, refuse_options
from skdp.domain import Domain, Interval
from skdp.local import (
    FrequencyOracleEncoder,
    LocalHashingEncoder,
    NumericPerturber,
    RandomizedResponseEncoder,
    RapporEncoder,
    ReportTransformer,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)

ENCODERS = {
    "randomized_response": RandomizedResponseEncoder,
    "unary": UnaryEncodingTransformer,
    "subset": SubsetSelectionEncoder,
    "local_hashing": LocalHashingEncoder,
    "auto": FrequencyOracleEncoder,
}
TRANSFORMERS: dict[str, type[Any]] = {
    **ENCODERS,
    "numeric": NumericPerturber,
    "rappor": RapporEncoder,
}

OF_NUMBERS = ("mechanism", "grid_size")
OF_FILTERS = ("n_bits", "n_hashes", "n_cohorts")
# The options of `make_transformer`, which a protocol takes the place of.
DECLARING = (
    "domain",
    "columns",
    "epsilon",
    "strategy",
    "transformer",
    *OF_NUMBERS,
    *OF_FILTERS,
)


def make_transformer(options: argparse.Namespace, **parameters: Any) -> Any:
    """Make the transformer that the options declare.

    One whose columns are not declared is fitted to their names.
    """
    name = options.transformer or "randomized_response"
    kind = TRANSFORMERS[name]
    if name != "numeric":
        refuse_options(options, OF_NUMBERS, "go with --transformer numeric")
    if name != "rappor":
        refuse_options(options, OF_FILTERS, "go with --transformer rappor")
    if options.epsilon is None:
        raise ValueError("--epsilon is needed")
    epsilon = options.epsilon
    if name in ENCODERS:
        return kind(
            epsilon,
            strategy=options.strategy or "split",
            categories=declared_columns(options),
            **parameters,
        )
    for parameter in OF_NUMBERS if name == "numeric" else OF_FILTERS:
        value = getattr(options, parameter)
        if value is not None:
            parameters[parameter] = value
    if name == "numeric":
        if options.strategy is not None:
            parameters["strategy"] = options.strategy
        return kind(epsilon, bounds=bounds_of(declared_columns(options)), **parameters)
    if not options.columns:
        raise ValueError("--transformer rappor declares no values: --columns is needed")
    refuse_options(
        options,
        ["strategy"],
        "goes with another --transformer: each column has a part of epsilon",
    )
    refuse_options(
        options,
        ["domain"],
        "is of no use with --transformer rappor, which declares no values",
    )
    columns = columns_of(options.columns, ())
    return fitted_to_names(kind(epsilon, **parameters), columns)


def fitted_to_names(transformer: Any, columns: Sequence[Any]) -> Any:
    """Fit a transformer that needs no declared values to the names of its columns."""
    return transformer.fit(pd.DataFrame({name: [""] for name in columns}))


def load_transformer(options: argparse.Namespace, path: Path, **parameters: Any) -> Any:
    """Make the transformer of a protocol, which other options must not declare again."""
    # Two declarations of one release could contradict each other.
    refuse_options(
        options,
        DECLARING,
        f"is in the protocol {path.name}: leave it out with --load",
    )
    loaded = read_protocol_file(path, "--load")
    if getattr(loaded, "memoize", False) and parameters.get("secret_key") is None:
        raise ValueError(
            f"{path.name} is for permanent reports: --record-id and --key are needed"
        )
    # The clone has the parameters that decide the reports, and randomness and a ledger of
    # its own.
    transformer = clone(loaded).set_params(**parameters)
    if isinstance(transformer, RapporEncoder):
        return fitted_to_names(transformer, loaded.protocol_.columns)
    return transformer


def read_protocol_file(path: Path, option: str) -> ReportTransformer:
    """Read what `ReportTransformer.save` wrote."""
    try:
        return ReportTransformer.load(path)
    except ValueError as error:
        raise ValueError(f"{option} {path}: {error}") from None


def declared_columns(options: argparse.Namespace) -> Domain:
    """Read the domain file, of the columns to privatise."""
    if options.domain is None:
        raise ValueError("--domain is needed: draft-domain writes a draft")
    domain = read_domain_file(options.domain)
    columns = columns_of(options.columns or domain.columns, domain.columns)
    are_declared = set(columns) <= set(domain.columns)
    if not are_declared or len(set(columns)) < len(columns):
        raise ValueError(
            f"--columns must name distinct columns of {list(domain.columns)}, got "
            f"{list(columns)}"
        )
    return domain.select(columns)


def bounds_of(domain: Domain) -> dict[Any, tuple[float, float]]:
    """Return the ends of the declared bins of numbers."""
    bounds = {}
    for name in domain.columns:
        declared = domain[name]
        if not isinstance(declared, Interval) or not isinstance(
            declared.edges[0], float
        ):
            raise ValueError(
                "--transformer numeric is for numbers, and the domain declares other "
                f"values of {name!r}"
            )
        # A number that is missing has no place between the bounds, and to leave its row out
        # would show that it is missing.
        if declared.missing:
            raise ValueError(
                "--transformer numeric reports no missing values, which the domain "
                f"declares of {name!r}: report its bins by another --transformer, or "
                "fill them in by a public rule"
            )
        bounds[name] = (declared.edges[0], declared.edges[-1])
    return bounds


def columns_of(texts: Iterable[Any], columns: Sequence[Any]) -> list[Any]:
    """Read names of columns: "age,sex" is two, unless a column is called so."""
    names: list[Any] = []
    for text in texts:
        if text in columns:
            names.append(text)
        else:
            names += str(text).split(",")
    return names
