"""``skdp report`` and ``skdp audit``."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from skdp.base import draft_domain, read_frame
from skdp.cli._arguments import (
    add_command,
    add_quiet,
    add_seed,
    bar_of_steps,
    read_categories,
    read_delta,
    read_domain_file,
    read_epsilon,
    read_positive,
    read_share,
)
from skdp.datasets import load_adult
from skdp.domain import Categories, Domain, Interval
from skdp.evaluation import age_sex_report, audit_table, study_report
from skdp.evaluation.audits import audited_transformers, format_audit
from skdp.privacy import PrivacyLeakWarning
from skdp.tables import distinct_values

EPSILONS = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0)
MAX_CELLS, MAX_SYNTHESISED = 1_000, 30


def add_report(commands: Any) -> None:
    """Add ``skdp report``."""
    report = add_command(
        commands,
        "report",
        _run_report,
        description="Study the cost of privacy (counts, accuracy, fairness, leakage, synthetic rows), of age "
        "x sex on Adult or of the columns of your own table, and write a page, index.html, and its tables. The page "
        "compares with true values: it is not private.",
    )
    add = report.add_argument
    add(
        "--epsilon",
        dest="epsilons",
        type=read_epsilon,
        nargs="+",
        default=list(EPSILONS),
        help="privacy losses to try",
    )
    add(
        "--repeats",
        type=read_positive,
        default=500,
        help="releases for each epsilon (default: 500)",
    )
    add(
        "--model-repeats",
        type=read_positive,
        default=5,
        help="splits of the rows for the classifiers (default: 5)",
    )
    add_seed(report)
    add(
        "--out",
        type=Path,
        default=Path("report"),
        help="folder to write to (default: report)",
    )
    add(
        "--jobs",
        type=read_positive,
        default=None,
        help="processes that train classifiers (default: all cores)",
    )
    add(
        "--delta",
        type=read_delta,
        default=1e-9,
        help="failure probability of the synthetic rows (default: 1e-9)",
    )
    add(
        "--data",
        type=Path,
        help="your own table instead of Adult: a CSV or Parquet file",
    )
    add("--columns", nargs="+", help="the columns of --data to protect together")
    add(
        "--target",
        help="the column that classifiers predict, for accuracy and fairness",
    )
    add(
        "--positive",
        dest="positive_label",
        metavar="VALUE",
        help="the favourable value of --target; 1 if all are 0 and 1",
    )
    add(
        "--sensitive",
        metavar="COLUMN",
        help="which of --columns has the groups, for fairness",
    )
    add(
        "--privileged",
        nargs="+",
        metavar="VALUE",
        help="its privileged values; of bins, their labels",
    )
    help_domain = (
        "a domain file of columns to protect and others to synthesise "
        "(default: values and bins are read from the data)"
    )
    add("--domain", type=Path, help=help_domain)
    add(
        "--edges",
        nargs="+",
        default=[],
        metavar="COLUMN=EDGE,...",
        help="bins of numbers, such as age=0,38,120",
    )
    add_quiet(report)


def add_audit(commands: Any) -> None:
    """Add ``skdp audit``."""
    audit = add_command(
        commands,
        "audit",
        _run_audit,
        description="Draw from every local transformer for neighbouring records, and look for outputs "
        "whose frequencies refute its epsilon. The exit status is 1 if one is refuted. "
        "Finding none is not a proof.",
    )
    add = audit.add_argument
    add(
        "--epsilon",
        type=read_epsilon,
        default=1.0,
        help="the epsilon of each (default: 1)",
    )
    add(
        "--k",
        type=read_categories,
        default=4,
        help="categories of a column (default: 4)",
    )
    add(
        "--draws",
        type=read_positive,
        default=100_000,
        help="draws of each (default: 100000)",
    )
    add(
        "--confidence",
        type=read_share,
        default=1 - 1e-6,
        help="of each refutation (default: 1 - 10**-6)",
        metavar="C",
    )
    add_seed(audit)
    add_quiet(audit)


def _run_report(options: argparse.Namespace) -> Path:
    if options.data is not None and not options.data.is_file():
        raise ValueError(f"--data: there is no file {options.data}")
    if (options.data is None) != (options.columns is None):
        raise ValueError("--data and --columns go together")
    for name in ("edges", "target", "sensitive", "domain"):
        if getattr(options, name) and options.data is None:
            raise ValueError(f"--{name} goes with --data")
    if options.positive_label is not None and options.target is None:
        raise ValueError("--positive goes with --target")
    if (options.sensitive is None) != (options.privileged is None):
        raise ValueError("--sensitive and --privileged go together")
    if options.sensitive is not None and options.target is None:
        raise ValueError(
            "--sensitive goes with --target: fairness is about predictions of it"
        )
    for name, given in (
        ("epsilon", options.epsilons),
        ("columns", options.columns or []),
    ):
        if len(set(given)) < len(given):
            raise ValueError(f"--{name} names something twice")
    if options.data is not None:
        return _run_own(options)
    X, y = load_adult(subset="all", dropna=True, return_X_y=True)
    return age_sex_report(X, y, options.out, **_shared(options))


def _run_own(options: argparse.Namespace) -> Path:
    declared = None if options.domain is None else read_domain_file(options.domain)
    frame = read_frame(options.data, declared)
    others = (
        []
        if declared is None
        else [name for name in declared.columns if name not in options.columns]
    )
    target = [] if options.target is None else [options.target]
    for option, names in (
        ("columns", options.columns),
        ("target", target),
        ("domain", others),
    ):
        absent = [name for name in names if name not in frame.columns]
        if absent:
            raise ValueError(
                f"--{option}: {options.data.name} has no columns {absent}; it has {list(frame.columns)}"
            )
    domain, read = _read_domain(options, declared, others, frame)
    protected = domain.select(options.columns)
    if protected.size > MAX_CELLS:
        sizes = ", ".join(
            f"{name}: {size}"
            for name, size in zip(protected.columns, protected.sizes, strict=True)
        )
        raise ValueError(
            f"--columns: they have {protected.size:,} cells together ({sizes}), too many to show (at most "
            f"{MAX_CELLS:,}); cut numbers into bins with --edges, or choose fewer columns"
        )
    labels = (
        domain[options.sensitive].labels if options.sensitive in domain.columns else ()
    )
    remark = (
        f"The values, or bins, of {', '.join(read)} were read from the data. A real release must declare them: which "
        "values occur is private too."
    )
    return study_report(
        frame,
        domain,
        options.out,
        source=options.data.name,
        columns=options.columns,
        target=options.target,
        positive_label=_positive_label(options, frame),
        sensitive=options.sensitive,
        privileged=options.privileged
        and [find(text, labels) for text in options.privileged],
        notes=[remark] if read else [],
        **_shared(options),
    )


def _shared(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "epsilons": options.epsilons,
        "repeats": options.repeats,
        "model_repeats": options.model_repeats,
        "delta": options.delta,
        "random_state": options.seed,
        "n_jobs": options.jobs or -1,
        "progress": bar_of_steps(options),
    }


def _read_domain(
    options: argparse.Namespace,
    declared: Domain | None,
    others: list[str],
    frame: pd.DataFrame,
) -> tuple[Domain, list[str]]:
    """Declare the columns by --domain and --edges, or else by the data; without --domain, those to synthesise too."""
    edges = dict(map(_edges, options.edges))
    unused = [name for name in edges if name not in options.columns]
    if unused:
        raise ValueError(f"--edges names columns that --columns does not: {unused}")
    known = (
        {} if declared is None else {name: declared[name] for name in declared.columns}
    )
    twice = [name for name in edges if name in known]
    if twice:
        raise ValueError(f"--edges names columns that --domain declares: {twice}")
    known |= edges
    found = {
        name: _observed(frame[name]) for name in options.columns if name not in known
    }
    rest = [name for name in frame if name not in (*options.columns, options.target)]
    if declared is None and rest:
        # It is said on the page, and a column that cannot be drafted is left out.
        with (
            warnings.catch_warnings(action="ignore", category=PrivacyLeakWarning),
            suppress(ValueError),
        ):
            bins = max(
                4, min(32, round(len(frame) ** (1 / 3)))
            )  # with few rows, noise hides more
            drafted = draft_domain(frame[rest[:MAX_SYNTHESISED]], bins=bins)
            found |= {name: drafted[name] for name in drafted.columns}
    known |= found
    return Domain(
        {
            name: known[name]
            for name in dict.fromkeys([*options.columns, *others, *found])
        }
    ), list(found)


def _positive_label(options: argparse.Namespace, frame: pd.DataFrame) -> Any:
    """Return the favourable value of the target, None for the default."""
    if options.target is None:
        return None
    labels = frame[options.target]
    if options.positive_label is not None:
        return find(options.positive_label, distinct_values(labels)[0])
    if not labels.isin([0, 1]).all():
        raise ValueError(
            "--target goes with --positive, unless all its values are 0 and 1, or False and True"
        )
    return None


def find(text: str, values: Iterable[Any]) -> Any:
    """Return the value of a word, such as 1 or 1.0 for "1"; a word that matches none is returned unchanged."""
    return next(
        (
            one
            for one in values
            if text in (str(one), f"{one:.15g}" if isinstance(one, float) else "")
        ),
        text,
    )


def _observed(column: pd.Series) -> Categories:
    try:
        values, missing = distinct_values(column)
    except TypeError:
        raise ValueError(
            f"--columns: {column.name!r} mixes values of several kinds"
        ) from None
    found = Categories([*values, None] if missing else values)
    found.observed = True
    return found


def _edges(text: str) -> tuple[str, Interval]:
    name, _, numbers = text.rpartition("=")
    try:
        return name, Interval(edges=[float(number) for number in numbers.split(",")])
    except ValueError as error:
        raise ValueError(
            f"--edges takes COLUMN=EDGE,EDGE,..., such as age=0,38,120, not {text!r}: {error}"
        ) from None


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
