"""``skdp draft-domain``, ``skdp privatize``, ``skdp synthesize`` and ``skdp table``."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import pandas as pd
from sklearn.base import clone

from skdp._arrays import PathType
from skdp.base import check_design_effect, find_bounds, parse_ends
from skdp.central import DPGroupBy, check_sampling
from skdp.cli._options import TEXTS, print_text
from skdp.domain import Domain, Interval
from skdp.engines import (
    FileTable,
    TableFile,
    draft_domain_toml,
    format_csv,
    is_csv,
    privatize_file,
    sample_file,
    synthesize_file,
    synthesize_linked_files,
)
from skdp.local import (
    FrequencyOracleEncoder,
    LocalHashingEncoder,
    NumericPerturber,
    RandomizedResponseEncoder,
    RapporEncoder,
    ReportTransformer,
    SecretKey,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.metrics import grade_estimates
from skdp.privacy import Mu, PrivacyLedger, PrivacyStatement, privacy_statement
from skdp.readers import PROTOCOL_SUFFIX, check_path, open_output
from skdp.synthesis import DPLinkedSynthesizer, DPMarginalSynthesizer
from skdp.tables import name_missing

# Transformers by their name in --transformer.
TRANSFORMERS: dict[str, type[Any]] = {
    "randomized_response": RandomizedResponseEncoder,
    "unary": UnaryEncodingTransformer,
    "subset": SubsetSelectionEncoder,
    "local_hashing": LocalHashingEncoder,
    "auto": FrequencyOracleEncoder,
    "numeric": NumericPerturber,
}


def run_draft_domain(options: argparse.Namespace) -> Path:
    """Write a draft of a domain file, and print its remarks."""
    if options.domain.suffix != ".toml":
        raise ValueError(f"`domain` must end in .toml, got {options.domain.name!r}.")
    check_path(options.domain, "domain")
    file = TableFile(options.data, delimiter=options.delimiter)
    file.check_header(options.delimiter)
    text = draft_domain_toml(
        file.read(file.names),
        bins=options.bins,
        max_values=options.max_values,
        has_texts=file.is_csv,
    )
    # The draft is private, so only the user can read it.
    with open_output(options.domain, mode=0o600) as partial:
        write_text(partial, text)
    # The remarks are the comments before the first empty line.
    remarks, _, _ = text.partition("\n\n")
    print_text(remarks.replace("# ", ""), to_stderr=True)
    return Path(options.domain)


def write_text(path: Path, text: str) -> None:
    """Write a text to an open output, without conversion of line ends."""
    path.write_text(text, encoding="utf-8", newline="")


def write_table(path: Path, table: pd.DataFrame, n_keys: int) -> None:
    """Write a table as CSV to an open output; the first `n_keys` columns are its groups."""
    # A blank beside a group such as "NA" would not be read as the group without a value.
    for name in table.columns[:n_keys]:
        labels = table[name].astype(object)
        is_value = labels.notna()
        table[name] = labels.where(is_value, name_missing(labels[is_value]))
    # Weighted counts are floats of whole numbers, which are written without decimals.
    numbers = table.iloc[:, n_keys:].select_dtypes("float")
    is_whole = (numbers.isna() | (numbers % 1 == 0) & (numbers.abs() < 1 << 53)).all()
    table = table.astype(dict.fromkeys(numbers.columns[is_whole], "Int64"))
    cells = table.astype(object).where(table.notna(), None)
    write_text(path, format_csv([cells.columns, *cells.to_numpy().tolist()]))


def check_new_files(options: argparse.Namespace, **files: PathType | None) -> None:
    """Raise an error if two options name one file: OUT, --ledger, and the options of `files`."""
    ledger = options.ledger if isinstance(options.ledger, Path) else None
    names: dict[Path, str] = {}
    for name, file in {"out": options.out, **files, "ledger": ledger}.items():
        if file is None:
            continue
        other = names.setdefault(Path(file).resolve(), name)
        if other != name:
            raise ValueError(
                f"`{other}` and `{name}` must be different files, got {str(file)!r} for "
                "both."
            )


def check_csv(path: Path | None) -> None:
    """Raise an error unless the name of a new file for a table, if any, ends in .csv."""
    if path is not None and path.suffix != ".csv":
        raise ValueError(f"`out` must end in .csv, got {path.name!r}.")


def check_page(options: argparse.Namespace, name: str) -> None:
    """Raise an error if the option `name` is not a new file in a format of statements; None is allowed."""
    path = check_path(getattr(options, name), name)
    if path is not None and path.suffix.lower() not in (".html", ".json"):
        raise ValueError(f"--{name} must end in .html or .json, got {path.name!r}.")


def add_texts(
    statement: PrivacyStatement, options: argparse.Namespace
) -> PrivacyStatement:
    """Return a statement with the title and purpose that the options state."""
    texts = {name: text for name in TEXTS if (text := getattr(options, name))}
    return replace(statement, **texts)


def format_statement(statement: PrivacyStatement, path: Path) -> str:
    """Format a statement as a page or as JSON, by the suffix of its file."""
    is_page = path.suffix.lower() == ".html"
    return statement.to_html() if is_page else f"{statement.to_json()}\n"


def run_privatize(options: argparse.Namespace) -> Path:
    """Privatize the rows of a table and write the reports; return the path of the new file."""
    check_path(options.out, "out")
    path = _choose_protocol_path(options)
    check_new_files(options, save=path, new_key=options.new_key)
    transformer, columns = _make_transformer(options)
    keep = _choose_kept_columns(options, columns)
    # All errors of options are raised before the charge, because no row has been read.
    transformer.set_params(ledger=open_ledger(options))
    with nullcontext() if path is None else open_output(path) as protocol:
        privatize_file(
            options.data,
            options.out,
            transformer,
            keep=keep,
            person=options.person,
            delimiter=options.delimiter,
        )
        if protocol is not None:
            transformer.save(protocol)
    if path is not None:
        print_text(f"Protocol: {path}", to_stderr=True)
    print_text(transformer.guarantee_)
    return Path(options.out)


def _choose_protocol_path(options: argparse.Namespace) -> Path | None:
    """Return the path of a new file for the protocol of the reports; None if no file is needed.

    Reports in CSV do not contain their protocol, unlike reports in Parquet and Arrow. With `--load`, the protocol is
    in a file already. An error is raised before the charge, because the reports are useless without their protocol.
    """
    if options.save is not None or not is_csv(options.out.name):
        check_path(options.save, "save")
        path: Path | None = options.save
        return path
    if not options.has_stream:
        return Path(f"{options.out}{PROTOCOL_SUFFIX}")
    if options.load is None:
        raise ValueError(
            "--save is required for reports on standard output, which do not contain "
            "their protocol."
        )
    return None


def _make_transformer(options: argparse.Namespace) -> tuple[Any, list[Any]]:
    """Return the transformer of the options or of a protocol file, and the names of its columns."""
    parameters: dict[str, Any] = {"random_state": options.random_state}
    key = _find_key(options)
    if key is not None:
        parameters["secret_key"] = key
    if options.load is not None:
        names = ["domain", "columns", "epsilon", "strategy", "transformer"]
        reason = "must not be given with --load, whose protocol contains it"
        _check_unused(options, [*names, "handle_unknown"], reason)
        loaded = load_protocol_file(options.load)
        if getattr(loaded, "memoize", False) and key is None:
            raise ValueError(
                f"{options.load.name} is a protocol of permanent reports, which "
                "requires --person and --secret-key."
            )
        # The loaded transformer has no randomness, so a clone is used.
        transformer = clone(loaded).set_params(**parameters)
        columns = list(loaded.protocol_.columns)
        if isinstance(transformer, RapporEncoder):
            # The columns of a RapporEncoder are not declared, so it is fitted to their
            # names.
            transformer.fit(pd.DataFrame({name: [""] for name in columns}))
        return transformer, columns
    domain = load_domain_file(options.domain)
    # Without --columns, all declared columns are privatized.
    domain = domain.select(options.columns or domain.columns)
    parameters["epsilon"] = options.epsilon
    if key is not None:
        parameters["memoize"] = True
    if options.transformer == "numeric":
        names = ["handle_unknown", "strategy"]
        _check_unused(options, names, "requires another --transformer")
        parameters["bounds"] = domain
    else:
        parameters |= {"categories": domain, "handle_unknown": options.handle_unknown}
        parameters["strategy"] = options.strategy
    return TRANSFORMERS[options.transformer](**parameters), list(domain.columns)


def load_domain_file(path: Path) -> Domain:
    """Read a domain file (TOML); errors name the file."""
    try:
        return Domain.from_toml(path.read_text(encoding="utf-8"))
    except (TypeError, ValueError) as error:
        # The message of a decoding error contains bytes of the file.
        is_text = not isinstance(error, UnicodeDecodeError)
        text = error if is_text else "it must be UTF-8 text."
        raise ValueError(f"Domain file {path}: {text}") from None


def load_protocol_file(path: Path) -> ReportTransformer:
    """Read a protocol that `ReportTransformer.save` wrote."""
    try:
        return ReportTransformer.load(path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _choose_kept_columns(options: argparse.Namespace, columns: list[Any]) -> list[Any]:
    """Return the columns to release unprotected; print them and the excluded columns.

    `columns` are the columns that are privatized.
    """
    table = TableFile(options.data, delimiter=options.delimiter)
    # Errors do not contain other names of the header, because they are values if a CSV
    # file has no header.
    table.check_columns(columns)
    other_columns = [name for name in table.names if name not in columns]
    keep = other_columns if options.keep_all else list(options.keep)
    if keep:
        print_text(f"Released unprotected: {', '.join(keep)}", to_stderr=True)
    _print_excluded([*columns, *keep, options.person], table)
    return keep


def _print_excluded(columns: list[Any], table: TableFile) -> None:
    """Print the columns of a table that a release excludes: all except `columns`."""
    used = set(columns)
    names = [name for name in table.names if name not in used]
    if names:
        print_text(f"Excluded: {', '.join(names)}", to_stderr=True)


def print_unit(options: argparse.Namespace) -> None:
    """Print that the guarantee is for one row, unless the options name or count the rows of a person."""
    # The text does not depend on the data, in which a column may identify people.
    if options.person is None and options.max_rows_per_person in (None, 1):
        print_text(
            "The guarantee is for one row. If a person may have several rows, use "
            "--person.",
            to_stderr=True,
        )


def open_ledger(options: argparse.Namespace) -> PrivacyLedger | None:
    """Open the ledger of --ledger, or create it with --budget; None without --ledger."""
    has_budget = options.budget is not None or options.budget_guess is not None
    if options.ledger is None:
        if has_budget:
            raise ValueError("--budget and --budget-guess require --ledger.")
        if options.title and getattr(options, "statement", None) is None:
            raise ValueError("--title requires --ledger.")
        return None
    if options.budget is None and options.budget_delta:
        raise ValueError("--budget-delta requires --budget.")
    if options.budget is not None and options.budget_guess is not None:
        raise ValueError("--budget and --budget-guess exclude each other.")
    # A ledger is created only with a budget, so that an empty ledger does not replace a
    # lost one.
    is_file = isinstance(options.ledger, Path)
    if not has_budget and is_file and not options.ledger.exists():
        raise ValueError(
            f"--ledger must be an existing file, got {options.ledger}. Use --budget or "
            "--budget-guess to create it."
        )
    try:
        ledger = PrivacyLedger(
            options.budget,
            delta=options.budget_delta,
            guess=options.budget_guess,
            path=options.ledger,
        )
    except ValueError as error:
        text = str(error).replace("`epsilon`", "--budget").replace("`path`", "--ledger")
        raise ValueError(re.sub("`(delta|guess)`", r"--budget-\1", text)) from None
    return ledger.with_title(options.title) if options.title else ledger


def _choose_amount(options: argparse.Namespace) -> float | Mu:
    """Return the epsilon of a release in the central model, or the mu of --guess."""
    if options.guess is None:
        return float(options.epsilon)
    _check_unused(options, ["epsilon", "delta"], "must not be given with --guess")
    return Mu.of(guess=options.guess)


def _check_unused(
    options: argparse.Namespace, names: Iterable[str], reason: str
) -> None:
    """Raise an error if one of the options, which would have no effect, is not at its default."""
    for name in names:
        if getattr(options, name) != options.parser.get_default(name):
            raise ValueError(f"--{name.replace('_', '-')} {reason}.")


def _find_key(options: argparse.Namespace) -> SecretKey | None:
    """Return the secret key of permanent reports from --secret-key or --new-key; None without --person."""
    # --secret-key and --new-key exclude each other.
    path = options.secret_key or options.new_key
    if (path is None) != (options.person is None):
        raise ValueError(
            "--person requires --secret-key or --new-key, and these require --person."
        )
    if path is None:
        return None
    # A seed would have no effect.
    if options.random_state is not None:
        raise ValueError(
            "--seed must not be given with --person, because the key determines the "
            "reports."
        )
    return _draw_key(path) if options.secret_key is None else _load_key(path)


def _load_key(path: Path) -> SecretKey:
    """Read a secret key from a file of hexadecimal digits."""
    try:
        return SecretKey(bytes.fromhex(path.read_text("ascii")))
    except ValueError:
        raise ValueError(
            f"--secret-key {path} must be a file of --new-key: one line of hexadecimal "
            "digits."
        ) from None


def _draw_key(path: Path) -> SecretKey:
    """Draw a secret key and write it to a new file that only the user can read."""
    key = SecretKey.generate()
    # An existing key is not overwritten, because reports with a new key have new noise
    # and cost privacy again.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(f"{key.hex()}\n")
        # The key must be on the disk before reports are written with it.
        file.flush()
        os.fsync(file.fileno())
    return key


def run_synthesize(options: argparse.Namespace) -> Path:
    """Write synthetic rows of a table, or of a saved model; return the path of the new file."""
    if options.model is not None:
        return _sample_model(options)
    _check_synthesis(options)
    check_path(options.out, "out")
    _, events_out = options.events or (None, None)
    check_new_files(options, save=options.save, events_out=events_out)
    domain = load_domain_file(options.domain)
    files = _open_tables(options, domain)
    print_unit(options)
    names = ["delta", "handle_unknown", "random_state"]
    parameters = {name: getattr(options, name) for name in names}
    parameters |= {"epsilon": _choose_amount(options), "domain": domain}
    parameters["ledger"] = open_ledger(options)
    n_rows = options.max_rows_per_person
    parameters["max_rows_per_person"] = 1 if n_rows is None else n_rows
    if events_out is not None:
        check_path(events_out, "events_out")
        linked = DPLinkedSynthesizer(
            **parameters, person=options.person, order_by=options.order_by
        )
        targets = [options.out, events_out]
        synthesize_linked_files(files, targets, linked, options.n_samples)
        _print_limits(linked)
        print_text(f"{linked.guarantee_}\nWrote {events_out}")
        return Path(options.out)
    synthesizer = DPMarginalSynthesizer(
        **parameters, marginals=options.marginals, target=options.target
    )
    synthesize_file(
        options.data,
        options.out,
        synthesizer,
        n_samples=options.n_samples,
        person=options.person,
        save=options.save,
        delimiter=options.delimiter,
    )
    _print_limits(synthesizer)
    print_text(synthesizer.guarantee_)
    return Path(options.out)


def _sample_model(options: argparse.Namespace) -> Path:
    """Write synthetic rows of the model of --load; raise an error for options that only a new fit can use."""
    unused = {action.dest for action in options.parser._actions}
    unused -= {"help", "out", "model", "n_samples", "random_state"}
    _check_unused(options, sorted(unused), "must not be given with --load")
    check_path(options.out, "out")
    model = DPMarginalSynthesizer.load(options.model)
    model.set_params(random_state=options.random_state)
    return sample_file(model, options.out, n_samples=options.n_samples)


def _check_synthesis(options: argparse.Namespace) -> None:
    """Raise an error for options that require or exclude each other."""
    if options.events is None:
        _check_unused(options, ["order_by"], "requires --events")
    else:
        names = ["marginals", "target", "save"]
        _check_unused(options, names, "must not be given with --events")
        for name in ("person", "max_rows_per_person"):
            if getattr(options, name) is None:
                raise ValueError(f"`{name}` is required with --events.")
    # A new ledger is not created if it cannot cover this release.
    if options.budget is not None and options.delta > options.budget_delta:
        raise ValueError(
            f"--budget-delta must be at least --delta, {options.delta}, got "
            f"{options.budget_delta}. Omit --budget for a ledger that exists."
        )


def _open_tables(options: argparse.Namespace, domain: Domain) -> list[TableFile]:
    """Open the table, or the tables of people and events; print the columns that are excluded."""
    sources = [options.data, *([] if options.events is None else options.events[:1])]
    files = [TableFile(source, delimiter=options.delimiter) for source in sources]
    persons = [] if options.person is None else [options.person]
    for file in files:
        file.check_columns(persons)
    # The last table has the declared columns that the first one lacks.
    headers = {name for file in files[:-1] for name in file.header}
    files[-1].check_columns([name for name in domain.columns if name not in headers])
    # The names of a header are values if a file has no header, so they are printed last.
    for file in files:
        _print_excluded([*persons, *domain.columns, *domain.derived], file)
    return files


def run_table(options: argparse.Namespace) -> Path:
    """Write statistics of the groups of a table, and their statement; return the path of the new file."""
    domain = load_domain_file(options.domain) if options.domain else Domain({})
    if options.keys is not None:
        if options.guess is not None:
            raise ValueError(
                "`keys` must not be auto with `guess`, which has no delta. Use --epsilon."
            )
        # Keys that are found are text.
        names = [name for name in domain.columns if name not in options.by]
        domain = domain.select(names) if names else Domain({})
    # The limits of columns without an entry in the file are found.
    absent = [name for name in options.columns if name not in domain]
    domain |= dict.fromkeys(absent, Interval(real=True))
    _check_options(options)
    _check_key_bins(options, domain)
    max_weight = _find_max_weight(options.weight, domain)
    check_path(options.out, "out")
    check_page(options, "statement")
    check_new_files(options, statement=options.statement)
    columns = [*options.by, *options.columns]
    others = [options.weight, options.person]
    names = [*columns, *(name for name in others if name is not None)]
    file = TableFile(options.data, delimiter=options.delimiter)
    file.check_columns(names)
    print_unit(options)
    # Types follow from the domain, so that no row changes how another one is read.
    lenient = options.by if options.handle_unknown == "ignore" else ()
    person = options.person
    rows = FileTable(file, names, domain, lenient=lenient, person=person)
    groups = _make_groups(options, domain, max_weight)
    if options.design_effect is not None:
        check_design_effect(options.design_effect)
        check_sampling(
            groups, options.columns, parse_ends(groups.bounds, options.columns)
        )
    # All files are opened before the charge.
    with ExitStack() as outputs:
        out = outputs.enter_context(open_output(options.out))
        if options.statement is not None:
            page = outputs.enter_context(open_output(options.statement))
        groups.fit(rows, sample_weight=options.weight, person=person)
        _print_limits(groups)
        released = groups.to_frame(
            postprocess=options.postprocess, design_effect=options.design_effect
        )
        frame = nw.from_native(released, eager_only=True)
        found = frame.to_pandas()
        if options.quality is not None:
            suppress = options.quality == "suppress"
            estimates = groups.estimates_
            found = grade_estimates(found, suppress=suppress, estimates=estimates)
        for name in options.by:
            # pandas would convert integers beside missing values to floats.
            found[name] = pd.Series(frame[name].to_list(), dtype=object)
        if options.quality is not None or options.design_effect is not None:
            _add_target(found, options)
        write_table(out, found, len(options.by))
        if options.statement is not None:
            if _find_target(options) == "population":
                facts = dict(groups.guarantee_.method)
                level = facts.pop("confidence_level")
                facts["design_effect"] = (
                    f"{level} (design effect {options.design_effect:g})"
                )
                groups.guarantee_ = replace(groups.guarantee_, method=facts)
            statement = add_texts(privacy_statement([groups]), options)
            write_text(page, format_statement(statement, options.statement))
    print_text(groups.guarantee_)
    return Path(options.out)


def _find_target(options: argparse.Namespace) -> str:
    """Return the target of the errors, intervals and letters of a table."""
    return "population" if options.design_effect else "table"


def _add_target(found: pd.DataFrame, options: argparse.Namespace) -> None:
    """Add a column with the target to a table; its name differs from all other ones."""
    name = "intervals_for"
    while name in found:
        name += "_"
    found[name] = _find_target(options)


def _print_limits(estimator: Any) -> None:
    """Print the limits that were found, and the rows beyond them, to the standard error."""
    method = dict(estimator.guarantee_.method)
    if "limits" in method:
        print_text(f"Limits that are found: {method['limits']}", to_stderr=True)
        print_text(f"Rows beyond them: {method['beyond']}", to_stderr=True)


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


def _check_key_bins(options: argparse.Namespace, domain: Domain) -> None:
    """Raise an error if the domain file declares bounds of a key, but no bins."""
    # The bins of other columns do not matter.
    for name in options.by:
        if name in domain and not domain[name].has_bins:
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
    max_weight = find_bounds(domain[name], name, "weight")[1]
    if max_weight is None:
        raise ValueError(f"`weight` must have a declared `high`, got none of {name!r}.")
    return float(max_weight)


def _make_groups(
    options: argparse.Namespace, domain: Domain, max_weight: float | None
) -> DPGroupBy:
    """Return an estimator of the statistics in the options; a domain declares keys and bounds."""
    statistics = []
    for statistic in options.statistics:
        is_number = statistic.replace(".", "", 1).isdecimal()
        statistics.append(float(statistic) if is_number else statistic)
    absent = [name for name in options.by if name not in domain]
    if absent and options.keys is None:
        raise ValueError(
            f"`by` must be columns of the domain file, {list(domain)}, got {absent}. "
            "Declare their values, or use --keys auto."
        )
    bounds = {name: domain[name] for name in options.columns}
    return DPGroupBy(
        _choose_amount(options),
        by=options.by or None,
        keys=options.keys or (domain.select(options.by) if options.by else None),
        delta=options.delta,
        statistics=statistics,
        bounds=bounds or None,
        max_weight=max_weight,
        totals=options.totals,
        max_rows_per_person=options.max_rows_per_person,
        handle_unknown=options.handle_unknown,
        ledger=open_ledger(options),
        random_state=options.random_state,
    )
