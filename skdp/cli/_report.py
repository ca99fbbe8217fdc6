"""``skdp report``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from skdp.base import read_frame
from skdp.cli._arguments import bar_of_steps, read_domain_file
from skdp.datasets import load_adult
from skdp.domain import Categories, Domain, Interval
from skdp.evaluation import age_sex_report, study_report
from skdp.tables import distinct_values

# The cells that the page can show.
MAX_CELLS = 1_000

# Columns that are not named are synthesised too, up to this number: a minute.
MAX_SYNTHESISED = 30


def run_report(options: argparse.Namespace) -> Path:
    """Run ``skdp report``."""
    _check_report(options)
    if options.data is not None:
        return _report_on_table(options)
    X, y = load_adult(subset="all", dropna=True, return_X_y=True)
    return age_sex_report(X, y, options.out, **_report_parameters(options))


def _check_report(options: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if options.data is not None and not options.data.is_file():
        raise ValueError(f"--data: there is no file {options.data}")
    if (options.data is None) != (options.columns is None):
        raise ValueError("--data and --columns go together")
    for name in ("edges", "target", "sensitive", "domain", "delimiter"):
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
    if len(set(options.epsilons)) < len(options.epsilons):
        raise ValueError("--epsilon names something twice")
    columns = options.columns or []
    if len(set(columns)) < len(columns):
        raise ValueError("--columns names something twice")


def _report_on_table(options: argparse.Namespace) -> Path:
    declared = None if options.domain is None else read_domain_file(options.domain)
    frame = read_frame(options.data, declared, delimiter=options.delimiter)
    # Columns of a domain file that are not protected together are synthesised besides.
    synthesised = []
    if declared is not None:
        synthesised = [name for name in declared.columns if name not in options.columns]
    _check_columns(options, "columns", options.columns, frame)
    if options.target is not None:
        _check_columns(options, "target", [options.target], frame)
    _check_columns(options, "domain", synthesised, frame)
    domain, observed = _read_domain(options, declared, synthesised, frame)
    _check_size(domain.select(options.columns))
    privileged = options.privileged
    if privileged is not None:
        labels: Iterable[Any] = ()
        if options.sensitive in domain.columns:
            labels = domain[options.sensitive].labels
        privileged = [find_value(text, labels) for text in privileged]
    notes = []
    if observed:
        notes.append(
            f"The values, or bins, of {', '.join(observed)} were read from the data. A "
            "real release must declare them: which values occur is private too."
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
        privileged=privileged,
        notes=notes,
        **_report_parameters(options),
    )


def _check_columns(
    options: argparse.Namespace, option: str, names: list[Any], frame: pd.DataFrame
) -> None:
    absent = [name for name in names if name not in frame.columns]
    if absent:
        raise ValueError(
            f"--{option}: {options.data.name} has no columns {absent}; it has "
            f"{list(frame.columns)}"
        )


def _check_size(domain: Domain) -> None:
    if domain.size <= MAX_CELLS:
        return
    sizes = []
    for name, size in zip(domain.columns, domain.sizes, strict=True):
        sizes.append(f"{name}: {size}")
    raise ValueError(
        f"--columns: they have {domain.size:,} cells together ({', '.join(sizes)}), too"
        f" many to show (at most {MAX_CELLS:,}); cut numbers into bins with --edges, or"
        " choose fewer columns"
    )


def _report_parameters(options: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of both reports."""
    return {
        "epsilons": options.epsilons,
        "n_repeats": options.n_repeats,
        "n_model_repeats": options.n_model_repeats,
        "delta": options.delta,
        "random_state": options.seed,
        "n_jobs": options.jobs or -1,
        "progress": bar_of_steps(options),
    }


def _read_domain(
    options: argparse.Namespace,
    declared: Domain | None,
    synthesised: list[str],
    frame: pd.DataFrame,
) -> tuple[Domain, list[str]]:
    """Declare the columns by --domain and --edges, or else by the data.

    Without --domain, the columns to synthesise too. Also return the columns whose
    values, or bins, are those of the data.
    """
    values = _declared_values(options, declared)
    observed = {}
    for name in options.columns:
        if name not in values:
            observed[name] = _observed_values(frame[name])
    if declared is None:
        observed |= _draft_others(options, frame)
    values |= observed
    names = dict.fromkeys([*options.columns, *synthesised, *observed])
    return Domain({name: values[name] for name in names}), list(observed)


def _declared_values(
    options: argparse.Namespace, declared: Domain | None
) -> dict[str, Any]:
    """Return what --domain and --edges declare."""
    values: dict[str, Any] = {}
    if declared is not None:
        values = {name: declared[name] for name in declared.columns}
    edges = dict(map(_edges, options.edges))
    unused = [name for name in edges if name not in options.columns]
    if unused:
        raise ValueError(f"--edges names columns that --columns does not: {unused}")
    twice = [name for name in edges if name in values]
    if twice:
        raise ValueError(f"--edges names columns that --domain declares: {twice}")
    return values | edges


def _draft_others(options: argparse.Namespace, frame: pd.DataFrame) -> dict[str, Any]:
    """Draft the values of columns to synthesise; one that cannot be is left out."""
    columns = {*options.columns, options.target}
    names = [name for name in frame if name not in columns]
    if not names:
        return {}
    # The cube root of the number of rows, as for a histogram: with few rows, the noise
    # hides more.
    bins = max(4, min(32, round(len(frame) ** (1 / 3))))
    drafts: dict[Any, Any] = {}
    for name in names[:MAX_SYNTHESISED]:
        with suppress(ValueError):
            values = Domain.from_frame(frame[[name]], bins=bins)[name]
            # The page states that the values were read from the data.
            values.observed = True
            drafts[name] = values
    return drafts


def _positive_label(options: argparse.Namespace, frame: pd.DataFrame) -> Any:
    """Return the favourable value of the target, None for the default."""
    if options.target is None:
        return None
    labels = frame[options.target]
    if options.positive_label is not None:
        values, _ = distinct_values(labels)
        return find_value(options.positive_label, values)
    if not labels.isin([0, 1]).all():
        raise ValueError(
            "--target goes with --positive, unless all its values are 0 and 1, or False"
            " and True"
        )
    return None


def find_value(text: str, values: Iterable[Any]) -> Any:
    """Return the value that a word means, such as 1 or 1.0 for "1", or the word."""
    for value in values:
        if text == str(value):
            return value
        if isinstance(value, float) and text == f"{value:.15g}":
            return value
    return text


def _observed_values(column: pd.Series) -> Categories:
    try:
        values, has_missing = distinct_values(column)
    except TypeError:
        raise ValueError(
            f"--columns: {column.name!r} mixes values of several kinds"
        ) from None
    categories = Categories([*values, None] if has_missing else values)
    categories.observed = True
    return categories


def _edges(text: str) -> tuple[str, Interval]:
    name, _, numbers = text.rpartition("=")
    try:
        return name, Interval(edges=[float(number) for number in numbers.split(",")])
    except ValueError as error:
        raise ValueError(
            f"--edges takes COLUMN=EDGE,EDGE,..., such as age=0,38,120, not {text!r}:"
            f" {error}"
        ) from None
