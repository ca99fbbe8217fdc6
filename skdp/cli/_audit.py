"""``skdp audit``."""

from __future__ import annotations

import argparse
from typing import Any

from skdp.cli._arguments import (
    add_quiet,
    bar_of_steps,
    read_categories,
    read_epsilon,
    read_positive,
    read_seed,
    read_share,
)
from skdp.evaluation import audit_table
from skdp.evaluation.audits import audited_transformers, format_audit


def add_audit(commands: Any) -> None:
    """Add ``skdp audit``."""
    audit = commands.add_parser(
        "audit",
        help="try to refute the guarantees of the local transformers",
        description="Draw from every local transformer for neighbouring records, and look for outputs "
        "whose frequencies refute its epsilon. The exit status is 1 if one is refuted. "
        "Finding none is not a proof.",
    )
    audit.add_argument("--epsilon", type=read_epsilon, default=1.0, help="the epsilon of each (default: 1)")
    audit.add_argument("--k", type=read_categories, default=4, help="categories of a column (default: 4)")
    audit.add_argument("--draws", type=read_positive, default=100_000, help="draws of each (default: 100000)")
    audit.add_argument(
        "--confidence", type=read_share, default=1 - 1e-6, help="of each refutation (default: 1 - 10**-6)", metavar="C"
    )
    audit.add_argument("--seed", type=read_seed, help="reproducible random bits (default: secure ones, as in use)")
    add_quiet(audit)
    audit.set_defaults(parser=audit, run=_run_audit)


def _run_audit(options: argparse.Namespace) -> int:
    transformers = dict(audited_transformers(options.epsilon, options.k))
    table = audit_table(
        transformers=transformers,
        n_draws=options.draws,
        confidence=options.confidence,
        random_state=options.seed,
        advance=bar_of_steps(options)(len(transformers)),
    )
    print(format_audit(table))
    return int((table["verdict"] == "rejected").any())
