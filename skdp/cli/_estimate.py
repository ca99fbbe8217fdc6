"""``skdp estimate`` and ``skdp tally``.

What the files say needs no option, and what contradicts them is refused.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from skdp.cli._arguments import (
    add_command,
    add_delimiter,
    add_quiet,
    add_streams,
    bar_of_rows,
    read_delta,
    read_domain_file,
    read_positive,
    read_share,
)
from skdp.cli._streams import STREAMS
from skdp.cli._transformers import (
    OF_FILTERS,
    OF_NUMBERS,
    TRANSFORMERS,
    add_transformer,
    bounds_of,
    columns_of,
    make_transformer,
    read_protocol_file,
)
from skdp.domain import Domain
from skdp.engines import estimate_file, tally_files
from skdp.engines.files import said_by, source_at, tally_text, transformer_of, unsaid
from skdp.local import (
    NumericPerturber,
    RapporEncoder,
    ReportTransformer,
    check_carried,
)
from skdp.oracles import POSTPROCESSORS
from skdp.privacy import PrivacyGuarantee, shuffled_guarantee

_REPORTS = (
    "a file (.csv, .tsv, also with .gz, .parquet, .arrow, .feather, .ipc; a path or a"
    f" URL), or a tally (.json){STREAMS}"
)
_NEEDED = "--protocol, or --domain and --epsilon"


def add_estimate(commands: Any) -> None:
    """Add ``skdp estimate``."""
    estimate = add_command(
        commands,
        "estimate",
        _run_estimate,
        description=(
            "Estimate how many rows truly have each value, from the reports that skdp"
            " privatize wrote, or from a tally. The file says how they were made; an"
            " option that contradicts it is an error. Of a file that does not say it,"
            f" {_NEEDED} are needed, as they were for skdp privatize. This costs no"
            " privacy."
        ),
    )
    add = estimate.add_argument
    add("data", help=f"the reports: {_REPORTS}")
    _add_protocol(estimate)
    add_transformer(estimate)
    add_delimiter(estimate)
    add_streams(estimate, "out", ".csv")
    add(
        "--postprocess",
        choices=list(POSTPROCESSORS),
        default="none",
        help="(default: none)",
    )
    add(
        "--confidence",
        type=read_share,
        default=0.95,
        help="of each interval (default: 0.95)",
        metavar="C",
    )
    help_shuffled = (
        "also state what the sums of the reports guarantee, if nothing else of them was"
        " or will be published and at least N of them are of honest persons; needs"
        " --delta"
    )
    add("--shuffled", type=read_positive, metavar="N", help=help_shuffled)
    add(
        "--delta",
        type=read_delta,
        metavar="D",
        help="with --shuffled: the failure probability, well below 1 / N",
    )
    add(
        "--out",
        type=Path,
        help=(
            "a file to write to, - for CSV on standard output (default: print the"
            " estimates)"
        ),
    )
    add_quiet(estimate)


def add_tally(commands: Any) -> None:
    """Add ``skdp tally``."""
    tally = add_command(
        commands,
        "tally",
        _run_tally,
        description=(
            "Sum up reports and write the sums, which skdp estimate reads and which add"
            " to others: from tables, or tallies (.json). All must be of one protocol."
            " This costs no privacy."
        ),
    )
    add = tally.add_argument
    add("data", nargs="+", help=f"reports: {_REPORTS}")
    _add_protocol(tally)
    add("--out", type=Path, help="a new file, .json, for the tally (default: print it)")
    add_delimiter(tally)
    add_streams(tally, "out", ".json")
    add_quiet(tally)


def _add_protocol(command: Any) -> None:
    text = "what to_json or save of the encoder wrote (default: what the files say)"
    command.add_argument("--protocol", type=Path, metavar="FILE", help=text)


def _run_estimate(options: argparse.Namespace) -> Path | int:
    if (options.shuffled is None) != (options.delta is None):
        raise ValueError("--shuffled and --delta go together")
    options.data = source_at(options.data, options.delimiter)
    transformer = _transformer(options)
    if isinstance(transformer, RapporEncoder):
        raise ValueError(
            "reports of rappor are decoded by words to look for, in Python: "
            "RapporEncoder.load(protocol).decode(reports, words)"
        )
    table = estimate_file(
        options.data,
        transformer,
        target=options.out,
        postprocess=options.postprocess,
        confidence_level=options.confidence,
        progress=bar_of_rows(options),
    )
    if options.out is None:
        print(table.round(1).to_string())
    if options.shuffled is not None:
        print(_of_sums(options, transformer))
    return 0 if options.out is None else options.out


def _of_sums(options: argparse.Namespace, transformer: Any) -> PrivacyGuarantee:
    """Return what the sums of the reports guarantee."""
    transformer = transformer_of([options.data], transformer)
    n_reports = tally_files(options.data, transformer).n_reports
    if n_reports < options.shuffled:
        raise ValueError(
            f"--shuffled {options.shuffled}: there are only {n_reports} reports"
        )
    guarantee = shuffled_guarantee(
        transformer, options.shuffled, options.delta, released="tally"
    )
    # The protocol of the file says whether the reports were drawn from a seed.
    protocol = said_by(options.data)
    if protocol is not None:
        stated = json.loads(protocol).get("guarantee") or {}
        if stated.get("secure") is False:
            return replace(guarantee, secure=False)
    return guarantee


def _run_tally(options: argparse.Namespace) -> Path | int:
    options.data = [source_at(place, options.delimiter) for place in options.data]
    transformer = None
    if options.protocol is not None:
        transformer = _read_protocol(options.protocol)
    transformer = transformer_of(options.data, transformer)
    tally = tally_files(
        options.data, transformer, target=options.out, progress=bar_of_rows(options)
    )
    if options.out is not None:
        return options.out
    print(tally_text(tally, transformer, options.data))
    return 0


def _transformer(options: argparse.Namespace) -> Any:
    """Make the transformer that a file says, or that of the options."""
    # The options must not contradict the file.
    protocol = said_by(options.data)
    if protocol is not None:
        name = options.data.name
        transformer = ReportTransformer.from_json(protocol)
        _check_protocol(options, protocol, name)
    elif options.protocol is not None:
        name = options.protocol.name
        transformer = _read_protocol(options.protocol)
    elif options.domain is None or options.epsilon is None:
        raise ValueError(f"{unsaid(options.data)}: {_NEEDED} are needed")
    else:
        return make_transformer(options)
    for contradiction in _contradictions(options, transformer):
        raise ValueError(f"{contradiction} of {name}")
    return transformer


def _read_protocol(path: Path) -> ReportTransformer:
    return read_protocol_file(path, "--protocol")


def _check_protocol(options: argparse.Namespace, protocol: str, name: str) -> None:
    if options.protocol is None:
        return
    try:
        check_carried(protocol, _read_protocol(options.protocol))
    except ValueError as error:
        raise ValueError(
            f"--protocol {options.protocol} contradicts {name}: {error}"
        ) from None


def _contradictions(
    options: argparse.Namespace, transformer: ReportTransformer
) -> Iterator[str]:
    """Describe options that differ from a transformer, and what this has."""
    names = {kind: name for name, kind in TRANSFORMERS.items()}
    kind = type(transformer)
    kind_name = names.get(kind, kind.__name__)
    yield from _contradiction("--transformer", options.transformer, kind_name)
    parameters = transformer.get_params(deep=False)
    for name in ("strategy", *OF_NUMBERS, *OF_FILTERS):
        option = f"--{name.replace('_', '-')}"
        value = getattr(options, name)
        if name in parameters:
            yield from _contradiction(option, value, parameters[name])
        elif value is not None:
            yield (
                f"{option} {value} goes with another --transformer than the {kind_name}"
            )
    epsilon = None if transformer.epsilon is None else float(transformer.epsilon)
    yield from _contradiction("--epsilon", options.epsilon, epsilon)
    columns = list(transformer.protocol_.columns)
    all_columns = columns
    if options.domain is not None:
        domain = read_domain_file(options.domain)
        all_columns = [*domain.columns, *columns]
    if options.columns is not None:
        names_of_columns = columns_of(options.columns, all_columns)
        yield from _contradiction("--columns", names_of_columns, columns)
    if options.domain is not None:
        for name in columns:
            yield from _contradiction_of_domain(domain, transformer, name)


def _contradiction(option: str, value: Any, fact: Any) -> Iterator[str]:
    """Describe an option whose value is not what the file says."""
    if value is not None and value != fact:
        yield f"{option} {_text(value)} contradicts the {option[2:]} {_text(fact)}"


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _contradiction_of_domain(
    domain: Domain, transformer: ReportTransformer, name: Any
) -> Iterator[str]:
    """Describe what a domain file says of a column and the transformer says not."""
    declared = transformer.declared_domain
    if declared is None or name not in declared.columns:
        yield (
            "--domain declares values, which contradicts the numbers in column "
            f"{name!r}"
        )
    elif name not in domain.columns:
        yield f"--domain declares no column {name!r}, which contradicts the columns"
    elif isinstance(transformer, NumericPerturber):
        bounds = bounds_of(domain.select([name]))
        if bounds != bounds_of(declared.select([name])):
            yield (
                f"--domain declares column {name!r} within {_text([*bounds[name]])}, "
                "which contradicts the bounds"
            )
    elif domain[name] != declared[name]:
        n_values = len(declared[name])
        order = ", or another order," if len(domain[name]) == n_values else ""
        yield (
            f"--domain declares other values{order} of column {name!r}, which "
            f"contradicts the {n_values}"
        )
