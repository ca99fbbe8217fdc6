"""The transformers of the commands, and the options that say which one is meant."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from skdp.cli._arguments import add_domain, read_domain_file, read_epsilon
from skdp.local import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    LocalHashingEncoder,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)

TRANSFORMERS = {
    "randomized_response": RandomizedResponseEncoder,
    "unary": UnaryEncodingTransformer,
    "subset": SubsetSelectionEncoder,
    "local_hashing": LocalHashingEncoder,
    "hadamard": HadamardResponseEncoder,
    "auto": FrequencyOracleEncoder,
}


def add_transformer(command: Any, *, required: bool = False) -> None:
    """Add the options of `make_encoder`; None stands for what is not given."""
    add = command.add_argument
    add_domain(command, required=required)
    add("--columns", nargs="+", metavar="COLUMN", help="what to privatise (default: all declared)")
    add("--epsilon", type=read_epsilon, required=required, help="the privacy loss of a row")
    help_strategy = (
        "how columns share epsilon: each has a part of it, all are one, or each row reports one (default: split)"
    )
    add("--strategy", choices=["split", "joint", "sample"], help=help_strategy)
    help_transformer = "how a row is randomised (default: randomized_response)"
    add("--transformer", choices=list(TRANSFORMERS), help=help_transformer)


def make_encoder(options: argparse.Namespace, **parameters: Any) -> Any:
    """Make the transformer that the options declare."""
    domain = read_domain_file(options.domain)
    columns = columns_of(options.columns or domain.columns, domain.columns)
    absent = [name for name in columns if name not in domain.columns]
    if absent or len(set(columns)) < len(columns):
        raise ValueError(f"--columns must name distinct columns of {list(domain.columns)}, got {list(columns)}")
    kind = TRANSFORMERS[options.transformer or "randomized_response"]
    strategy = options.strategy or "split"
    return kind(options.epsilon, strategy=strategy, categories=domain.select(columns), **parameters)


def columns_of(given: Iterable[Any], known: Sequence[Any]) -> list[Any]:
    """Read names of columns: "age,sex" is two, unless a column is called so."""
    return [name for text in given for name in ([text] if text in known else str(text).split(","))]
