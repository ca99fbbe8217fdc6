"""``skdp plan``."""

from __future__ import annotations

import argparse
from typing import Any

from skdp.central import DPHistogram
from skdp.cli._arguments import (
    add_command,
    add_domain,
    read_epsilon,
    read_positive,
    read_share,
    real_number,
    refuse_options,
)
from skdp.cli._transformers import ENCODERS, declared_columns
from skdp.evaluation import plan_epsilon, plan_rows
from skdp.privacy import check_epsilon

read_within = real_number(check_epsilon, "expected a finite number > 0")


def add_plan(commands: Any) -> None:
    """Add ``skdp plan``."""
    plan = add_command(
        commands,
        "plan",
        _run_plan,
        description=(
            "Find the least epsilon for a number of rows (or the least number of rows"
            " for an epsilon) at which a count, a share, a difference of two groups or"
            " a coefficient is known well enough, or found. It reads the domain file,"
            " and no table."
        ),
    )
    add = plan.add_argument
    add_domain(plan)
    add(
        "--columns",
        nargs="+",
        metavar="COLUMN",
        help="what is released (default: all declared)",
    )
    add(
        "--of",
        choices=["count", "frequency", "parity", "difference", "coefficient"],
        default="count",
        help="what is wanted (default: count)",
    )
    add(
        "--within",
        type=read_within,
        help="the largest half width of its interval",
    )
    add(
        "--power",
        type=read_share,
        help=(
            "of a difference or coefficient, in place of --within: how often a test"
            " finds it, if the rates are as guessed"
        ),
    )
    add("--rows", type=read_positive, help="the number of rows, if epsilon is wanted")
    add(
        "--of-the-table",
        action="store_true",
        help=(
            "a frequency or parity of the rows themselves (default: of the population"
            " that they are drawn from)"
        ),
    )
    add(
        "--epsilon",
        type=read_epsilon,
        help="the privacy loss of a row, if the number of rows is wanted",
    )
    add(
        "--confidence",
        type=read_share,
        default=0.95,
        help="the coverage of the interval (default: 0.95)",
    )
    add(
        "--curator",
        action="store_true",
        help="a trusted curator counts; otherwise each row is randomised",
    )
    add(
        "--transformer",
        choices=list(ENCODERS),
        help="how a row is randomised (default: randomized_response)",
    )
    add(
        "--strategy",
        choices=["split", "joint", "sample"],
        help="how columns share epsilon (default: split)",
    )
    help_share = (
        "a guess of the share of the rows that have the value, or are privileged"
        " (default: the worst)"
    )
    add("--share", type=read_share, help=help_share)
    add(
        "--privileged",
        nargs="+",
        metavar="VALUE",
        help="of parity, for one column: its privileged values",
    )
    add(
        "--rates",
        nargs=2,
        type=float,
        help=(
            "guesses of two rates: of parity, of selection, that of the privileged"
            " second; of a difference or coefficient, of the value in two groups"
        ),
    )
    add(
        "--reported",
        choices=["target", "predictor"],
        help="of a coefficient: what is reported (default: target)",
    )


def _run_plan(options: argparse.Namespace) -> int:
    # The domain alone decides how accurate a release is: no table is read.
    domain = declared_columns(options)
    if options.curator:
        refuse_options(
            options,
            ["transformer", "strategy"],
            "is how rows are randomised: leave it out with --curator",
        )
        source: Any = DPHistogram(domain=domain)
    else:
        kind = ENCODERS[options.transformer or "randomized_response"]
        source = kind(categories=domain, strategy=options.strategy or "split")
    if options.of != "parity":
        refuse_options(options, ["privileged"], "goes with --of parity")
    if options.of in ("count", "frequency"):
        text = "goes with --of parity, difference or coefficient"
        refuse_options(options, ["rates", "power"], text)
    if options.of != "coefficient":
        refuse_options(options, ["reported"], "goes with --of coefficient")
    if (options.within is None) == (options.power is None):
        raise ValueError("--within is needed, or --power of a difference")
    if options.epsilon is not None and options.rows is not None:
        raise ValueError("--epsilon and --rows are both given: one is planned")
    # The noise of a curator's counts does not depend on the rows.
    needs_rows = not (options.curator and options.of == "count")
    if needs_rows and options.rows is None and options.epsilon is None:
        if options.of == "count":
            raise ValueError("--rows is needed")
        raise ValueError(
            "--rows is needed; or --epsilon, if the number of rows is wanted"
        )
    wanted: dict[str, Any] = {
        "within": options.within,
        "power": options.power,
        "of": options.of,
        "share": options.share,
        "privileged": options.privileged and _values(domain, options.privileged),
        "rates": options.rates or (0.5, 0.5),
        "reported": options.reported or "target",
        "rows": "table" if options.of_the_table else "population",
        "confidence_level": options.confidence,
    }
    if options.epsilon is None:
        plan = plan_epsilon(source, n_rows=options.rows, **wanted)
    else:
        plan = plan_rows(source, epsilon=options.epsilon, **wanted)
    curve = plan.curve.to_string(index=False, float_format="{:.4g}".format)
    print(f"{plan}\n\n{curve}")
    return 0


def _values(domain: Any, texts: list[str]) -> list[Any]:
    """Return the declared values of a single column, such as 1 for "1"."""
    # Others are refused by their names later.
    value_of = {}
    for name in domain.columns:
        for value in domain[name].labels:
            value_of[str(value)] = value
    return [value_of.get(text, text) for text in texts]
