"""``skdp report``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from skdp.cli._release import load_domain_file
from skdp.datasets import load_adult
from skdp.engines import read_frame
from skdp.evaluation import age_sex_report, study_report

# Options that describe --data.
DATA_OPTIONS = ("columns", "domain", "target", "sensitive", "delimiter")


def run_report(options: argparse.Namespace) -> Path:
    """Study the cost of privacy on Adult or on the user's table."""
    parameters = {
        "epsilons": options.epsilons,
        "random_state": options.random_state,
        "n_jobs": options.n_jobs,
    }
    if options.data is not None:
        return _report_on_table(options, parameters)
    for name in DATA_OPTIONS:
        if getattr(options, name):
            raise ValueError(f"--{name} requires --data")
    X, y = load_adult(subset="all", dropna=True, return_X_y=True)
    return age_sex_report(X, y, options.out, **parameters)


def _report_on_table(options: argparse.Namespace, parameters: dict[str, Any]) -> Path:
    if options.domain is None or options.columns is None:
        raise ValueError("--data requires --domain and --columns; see draft-domain")
    declared = load_domain_file(options.domain)
    frame = read_frame(options.data, declared, delimiter=options.delimiter)
    absent = {*options.columns, *declared.columns, options.target} - {*frame, None}
    if absent:
        raise ValueError(
            f"{options.data.name} has no columns {sorted(absent)}; it has {list(frame)}"
        )
    # Columns that are not protected together are synthesized beside them.
    others = [name for name in declared.columns if name not in options.columns]
    domain = declared.select([*options.columns, *others])
    if options.positive_label is not None and options.target is not None:
        target = frame[options.target]
        label = _find_value(options.positive_label, target.unique())
        is_positive = target.astype(object).isin([label])
        frame[options.target] = is_positive.where(target.notna())
    privileged = options.privileged
    if privileged is not None and options.sensitive in domain.columns:
        labels = domain[options.sensitive].labels
        privileged = [_find_value(text, labels) for text in privileged]
    return study_report(
        frame,
        domain,
        options.out,
        columns=options.columns,
        target=options.target,
        sensitive=options.sensitive,
        privileged=privileged,
        **parameters,
    )


def _find_value(text: str, values: Iterable[Any]) -> Any:
    """Return the value of the column that a word denotes, such as 1 or 1.0 for "1", or the word itself."""
    # Labels of the data have types, but arguments of a shell are text.
    for value in values:
        is_number = isinstance(value, float) and text == f"{value:.15g}"
        if is_number or text == str(value):
            return value
    return text
