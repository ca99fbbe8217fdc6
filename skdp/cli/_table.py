"""``skdp table``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from skdp.central import DPGroupBy
from skdp.cli._release import (
    check_page,
    load_domain,
    open_ledger,
    write_new_file,
    write_statement,
)
from skdp.domain import Categories, Domain
from skdp.engines import TableFile, check_path, read_frame
from skdp.privacy import privacy_statement
from skdp.tables import drop_missing


def run_table(options: argparse.Namespace) -> Path:
    """Write statistics of the groups of a table, and their statement; return the path of the new file."""
    domain = load_domain(options)
    check_path(options.out)
    check_page(options, "statement")
    names = [*options.by, *options.columns]
    others = [options.weight, options.person_column]
    names += [name for name in others if name is not None]
    TableFile(options.data, delimiter=options.delimiter).check_columns(names)
    frame = read_frame(Path(options.data), delimiter=options.delimiter, find_dates=True)
    groups = _make_groups(options, domain)
    person = options.person_column
    if options.weight in (columns := [*options.by, *options.columns]):
        raise ValueError(
            "`weight` must not be a column of `by` or `columns`, got "
            f"{options.weight!r}."
        )
    weights = [] if options.weight is None else [options.weight]
    groups.fit(
        frame[[*columns, *weights]],
        sample_weight=options.weight,
        groups=None if person is None else frame[person],
    )
    found = groups.to_frame()
    write_new_file(options.out, found.to_csv(index=bool(options.by)))
    if options.statement is not None:
        write_statement(privacy_statement([groups]), options.statement)
    print(groups.guarantee_)
    return Path(options.out)


def _make_groups(options: argparse.Namespace, domain: Domain) -> DPGroupBy:
    """Return an estimator of the statistics in the options, whose keys and bounds are declared by a domain."""
    statistics = []
    for statistic in options.statistics:
        is_number = statistic.replace(".", "", 1).isdecimal()
        statistics.append(float(statistic) if is_number else statistic)
    bounds: dict[str, Any] = dict(domain.select(options.columns))
    for name, attribute in bounds.items():
        if isinstance(attribute, Categories):  # listed numbers
            listed = drop_missing(attribute.values)
            bounds[name] = min(listed), max(listed)
    return DPGroupBy(
        options.epsilon,
        by=options.by or None,
        keys=domain.select(options.by) if options.by else None,
        statistics=statistics,
        bounds=bounds or None,
        max_weight=options.max_weight,
        max_rows_per_person=options.max_rows_per_person,
        handle_unknown=options.handle_unknown,
        ledger=open_ledger(options),
        random_state=options.random_state,
    )
