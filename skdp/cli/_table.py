"""``skdp table``."""

from __future__ import annotations

import argparse
import tomllib
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw

from skdp.base import find_bounds
from skdp.central import DPGroupBy
from skdp.cli._options import print_text
from skdp.cli._release import (
    add_texts,
    check_csv,
    check_page,
    format_statement,
    load_domain_file,
    open_ledger,
    print_unit,
    write_table,
    write_text,
)
from skdp.domain import Domain
from skdp.engines import TableFile, open_declared
from skdp.large import check_path, open_output
from skdp.privacy import privacy_statement


def run_table(options: argparse.Namespace) -> Path:
    """Write statistics of the groups of a table, and their statement; return the path of the new file."""
    domain = load_domain_file(options.domain)
    _check_options(options)
    _check_bins(options)
    max_weight = _find_max_weight(options.weight, domain)
    check_path(options.out, "out")
    check_page(options, "statement")
    columns = [*options.by, *options.columns]
    others = [options.weight, options.person]
    names = [*columns, *(name for name in others if name is not None)]
    file = TableFile(options.data, delimiter=options.delimiter)
    file.check_columns(names)
    print_unit(options)
    # Types follow from the domain, so that no row changes how another one is read.
    lenient = options.by if options.handle_unknown == "ignore" else ()
    person = options.person
    rows: Any = open_declared(file, names, domain, lenient=lenient, person=person)
    groups = _make_groups(options, domain, max_weight)
    # All files are opened before the charge.
    with ExitStack() as outputs:
        out = outputs.enter_context(open_output(options.out))
        if options.statement is not None:
            page = outputs.enter_context(open_output(options.statement))
        groups.fit(rows, sample_weight=options.weight, person=person)
        found = nw.from_native(groups.to_frame(), eager_only=True).to_pandas()
        write_table(out, found, len(options.by))
        if options.statement is not None:
            statement = add_texts(privacy_statement([groups]), options)
            write_text(page, format_statement(statement, options.statement))
    print_text(groups.guarantee_)
    return Path(options.out)


def _check_options(options: argparse.Namespace) -> None:
    """Raise an error if options exclude each other, or the new file is not a CSV file."""
    of_columns = [name for name in options.statistics if name != "count"]
    if of_columns and not options.columns:
        raise ValueError(f"`columns` must name the columns of {of_columns}, got none.")
    if not (options.by or options.columns):
        raise ValueError("`by` must name the columns of the groups, got none.")
    if options.columns and options.statistics == ["count"]:
        raise ValueError(
            "`statistics` must contain a statistic of `columns`, such as mean, got only "
            "count."
        )
    uses: dict[str, str] = {}
    single = {"weight": [options.weight], "person": [options.person]}
    for option, names in {
        "by": options.by,
        "columns": options.columns,
        **single,
    }.items():
        for name in names:
            if name is not None and name in uses:
                raise ValueError(
                    f"A column must have one use, got {name!r} in `{uses[name]}` and "
                    f"`{option}`."
                )
            uses[name] = option
    check_csv(options.out)


def _check_bins(options: argparse.Namespace) -> None:
    """Raise an error if the domain file declares bounds of a key, but no bins."""
    # The bins of other columns do not matter.
    columns = tomllib.loads(options.domain.read_text(encoding="utf-8"))["columns"]
    for name in options.by:
        declared = columns.get(name, {})
        if "low" in declared and "bins" not in declared:
            raise ValueError(
                f"Column {name!r} in `by` must have several bins, got bounds alone. Set "
                f"`bins` or `edges` in [columns.{name}] of the domain file."
            )


def _find_max_weight(name: str | None, domain: Domain) -> float | None:
    """Return the largest declared weight; None for rows without weights."""
    if name is None:
        return None
    if name not in domain:
        raise ValueError(
            f"`weight` must be a column of the domain, got {name!r}. Declare its public "
            f"bounds: [columns.{name}] with low = 0.0 and high."
        )
    return float(_find_bounds(domain, name, "weight")[1])


def _find_bounds(domain: Domain, name: str, option: str) -> Any:
    """Return the declared bounds of a column; errors name the option of the column."""
    try:
        return find_bounds(domain[name], name)
    except ValueError as error:
        text = str(error).replace("`bounds` of column", f"`{option}`: column")
        raise ValueError(text) from None


def _make_groups(
    options: argparse.Namespace, domain: Domain, max_weight: float | None
) -> DPGroupBy:
    """Return an estimator of the statistics in the options, whose keys and bounds are declared by a domain."""
    statistics = []
    for statistic in options.statistics:
        is_number = statistic.replace(".", "", 1).isdecimal()
        statistics.append(float(statistic) if is_number else statistic)
    bounds = domain.select(options.columns) if options.columns else None
    for name in options.columns:
        _find_bounds(domain, name, "columns")
    return DPGroupBy(
        options.epsilon,
        by=options.by or None,
        keys=domain.select(options.by) if options.by else None,
        statistics=statistics,
        bounds=bounds,
        max_weight=max_weight,
        totals=options.totals,
        max_rows_per_person=options.max_rows_per_person,
        handle_unknown=options.handle_unknown,
        ledger=open_ledger(options),
        random_state=options.random_state,
    )
