"""``skdp draft-domain``, ``skdp privatize`` and ``skdp synthesize``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.base import clone

from skdp.domain import Domain, draft_domain_toml
from skdp.engines import (
    TableFile,
    check_path,
    privatize_file,
    read_frame,
    sample_file,
    synthesize_file,
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
from skdp.privacy import PrivacyLedger
from skdp.synthesis import DPMarginalSynthesizer

TRANSFORMERS: dict[str, type[Any]] = {
    "randomized_response": RandomizedResponseEncoder,
    "unary": UnaryEncodingTransformer,
    "subset": SubsetSelectionEncoder,
    "local_hashing": LocalHashingEncoder,
    "auto": FrequencyOracleEncoder,
    "numeric": NumericPerturber,
}


def run_draft_domain(options: argparse.Namespace) -> Path:
    """Write a draft of a domain file."""
    frame = read_frame(Path(options.data), delimiter=options.delimiter, find_dates=True)
    text = draft_domain_toml(frame, bins=options.bins, max_values=options.max_values)
    written = write_new_file(options.domain, text)
    # The remarks are the comments before the first empty line.
    remarks, _, _ = text.partition("\n\n")
    for line in remarks.splitlines():
        print(line.removeprefix("# "), file=sys.stderr)
    return written


def write_new_file(path: Path, text: str) -> Path:
    """Write text to a file that does not exist yet."""
    check_path(path)
    with path.open("x", encoding="utf-8", newline="") as file:
        file.write(text)
    return path


def run_privatize(options: argparse.Namespace) -> Path:
    """Write reports of the rows of a table."""
    # Without its protocol, a charged release cannot be estimated.
    if options.save is not None and options.save.exists():
        raise FileExistsError(
            f"--save must be a new file, {options.save} exists already"
        )
    transformer, columns = _make_transformer(options)
    keep = _choose_kept_columns(options, columns)
    # No row has been read yet, so all errors of options are raised before the charge.
    transformer.set_params(ledger=_open_ledger(options))
    privatize_file(
        options.data,
        options.out,
        transformer,
        keep=keep,
        record_id=options.record_id,
        delimiter=options.delimiter,
    )
    if options.save is not None:
        transformer.save(options.save)
    elif str(options.out).endswith((".csv", ".tsv", ".gz")):
        print(
            "CSV files cannot contain their protocol: --save writes it, for skdp "
            "estimate",
            file=sys.stderr,
        )
    print(transformer.guarantee_)
    return Path(options.out)


def _make_transformer(options: argparse.Namespace) -> tuple[Any, list[Any]]:
    """Make the transformer of the options, or load a protocol; also return its columns."""
    parameters: dict[str, Any] = {"random_state": options.random_state}
    key = _find_key(options)
    if key is not None:
        parameters["secret_key"] = key
    if options.load is not None:
        names = ["domain", "columns", "epsilon", "strategy", "transformer"]
        _refuse(options, [*names, "handle_unknown"], "is in the protocol of --load")
        loaded = load_protocol_file(options.load)
        if getattr(loaded, "memoize", False) and key is None:
            raise ValueError(
                f"{options.load.name} is for permanent reports: --record-id and --key "
                "are required"
            )
        # The clone has randomness and a ledger of its own.
        transformer = clone(loaded).set_params(**parameters)
        columns = list(loaded.protocol_.columns)
        if isinstance(transformer, RapporEncoder):
            # Its columns are not declared.
            transformer.fit(pd.DataFrame({name: [""] for name in columns}))
        return transformer, columns
    domain = _load_domain(options)
    domain = domain.select(_split_names(options.columns, domain))
    parameters["epsilon"] = options.epsilon
    if key is not None:
        parameters["memoize"] = True
    if options.transformer == "numeric":
        names = ["handle_unknown", "strategy"]
        _refuse(options, names, "requires another --transformer")
        parameters["bounds"] = domain
    else:
        parameters |= {"categories": domain, "handle_unknown": options.handle_unknown}
        parameters["strategy"] = options.strategy
    return TRANSFORMERS[options.transformer](**parameters), list(domain.columns)


def _load_domain(options: argparse.Namespace) -> Domain:
    """Read the domain file of a release, which also needs epsilon."""
    for name in ("domain", "epsilon"):
        if getattr(options, name) is None:
            raise ValueError(f"--{name} is required")
    return load_domain_file(options.domain)


def load_domain_file(path: Path) -> Domain:
    """Read a domain file."""
    try:
        return Domain.from_toml(path.read_text(encoding="utf-8"))
    except (TypeError, ValueError) as error:
        # A decoding error contains bytes of the file.
        is_text = not isinstance(error, UnicodeDecodeError)
        text = error if is_text else "it must be UTF-8 text"
        raise ValueError(f"domain file {path}: {text}") from None


def _split_names(texts: list[str] | None, domain: Domain) -> list[Any]:
    """Split column names at commas, unless a column has the whole name."""
    # Shells complete names with spaces, and users write commas.
    names: list[Any] = []
    for text in domain.columns if texts is None else texts:
        names += [text] if text in domain.columns else text.split(",")
    if not set(names) <= set(domain.columns) or len(set(names)) < len(names):
        raise ValueError(
            f"--columns must name distinct columns of {list(domain.columns)}, got {names}"
        )
    return names


def load_protocol_file(path: Path) -> ReportTransformer:
    """Read a protocol that `ReportTransformer.save` wrote."""
    try:
        return ReportTransformer.load(path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _choose_kept_columns(options: argparse.Namespace, columns: list[Any]) -> list[Any]:
    """Return the columns to release unprotected; print these and the excluded columns."""
    table = TableFile(options.data, delimiter=options.delimiter)
    # The error must not quote unknown names, because they are values if a CSV file has
    # no header.
    table.check_columns(columns)
    others = [name for name in table.names if name not in columns]
    keep = others if options.keep_all else list(options.keep)
    if keep:
        print(f"Released unprotected: {', '.join(keep)}", file=sys.stderr)
    _print_left_out(set(others) - {*keep, options.record_id}, table)
    return keep


def _print_left_out(left_out: set[Any], table: TableFile) -> None:
    if left_out:
        names = [name for name in table.names if name in left_out]
        print(f"Left out: {', '.join(names)}", file=sys.stderr)


def _open_ledger(options: argparse.Namespace) -> PrivacyLedger | None:
    """Open the ledger, or create it with the budget; an existing one must have this budget."""
    if options.ledger is None:
        if options.budget is not None:
            raise ValueError("--budget requires --ledger")
        return None
    # A ledger that is lost must not start again from 0.
    if options.budget is None and not options.ledger.exists():
        raise ValueError(
            f"ledger {options.ledger} does not exist. Use --budget to create it"
        )
    return PrivacyLedger(
        options.budget, delta=options.budget_delta, path=options.ledger
    )


def _refuse(options: argparse.Namespace, names: Iterable[str], reason: str) -> None:
    """Raise if an option without effect is given."""
    for name in names:
        if getattr(options, name) != options.parser.get_default(name):
            raise ValueError(f"--{name.replace('_', '-')} {reason}")


def _find_key(options: argparse.Namespace) -> SecretKey | None:
    """Return the secret key of permanent reports, if there are any."""
    path = options.key or options.new_key
    if (path is None) != (options.record_id is None):
        raise ValueError(
            "--record-id requires --key or --new-key, and these require --record-id"
        )
    if path is None:
        return None
    # A seed would have no effect.
    if options.random_state is not None:
        raise ValueError(
            "--seed must not be given with --record-id: the key determines the reports"
        )
    return _load_key(path) if options.key is not None else _draw_key(path)


def _load_key(path: Path) -> SecretKey:
    """Read a key of hexadecimal digits."""
    # Keys are stored as hexadecimal text, which editors and shells do not change.
    try:
        return SecretKey(bytes.fromhex(path.read_text("ascii")))
    except ValueError:
        raise ValueError(
            f"--key {path} must be a file of --new-key: one line of hexadecimal digits"
        ) from None


def _draw_key(path: Path) -> SecretKey:
    """Draw a key and write it to a new file."""
    key = SecretKey.generate()
    # An existing key is never overwritten: a new key draws new noise for the same
    # values, which costs privacy again.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(f"{key.hex()}\n")
        file.flush()
        os.fsync(file.fileno())
    return key


def run_synthesize(options: argparse.Namespace) -> Path:
    """Write synthetic rows of a table, or of a saved model."""
    # A fitted model has its own parameters.
    if options.load:
        allowed = {"data", "out", "load", "rows", "random_state"}
        names = {action.dest for action in options.parser._actions} - allowed
        _refuse(options, sorted(names - {"help"}), "must not be given with --load")
        model = DPMarginalSynthesizer.load(options.data)
        model.set_params(random_state=options.random_state)
        return sample_file(model, options.out, n_samples=options.rows)
    domain = _load_domain(options)
    table = TableFile(options.data, delimiter=options.delimiter)
    table.check_columns(domain.columns)
    _print_left_out({*table.names} - {*domain.columns, options.person_column}, table)
    synthesizer = DPMarginalSynthesizer(
        options.epsilon,
        delta=options.delta,
        domain=domain,
        marginals=options.marginals,
        target=options.target,
        bins=options.bins,
        max_rows_per_person=options.max_rows_per_person,
        handle_unknown=options.handle_unknown,
        ledger=_open_ledger(options),
        random_state=options.random_state,
    )
    synthesize_file(
        options.data,
        options.out,
        synthesizer,
        n_samples=options.rows,
        person_column=options.person_column,
        save=options.save,
        delimiter=options.delimiter,
    )
    print(synthesizer.guarantee_)
    return Path(options.out)
