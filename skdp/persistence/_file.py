"""`save` and `load`: one file for an estimator or a pipeline, in which nothing is run."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import PurePath
from typing import Any, BinaryIO

import sklearn
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

from skdp._json import detect_format
from skdp.base import PathType, check_ledger
from skdp.domain import parse_json
from skdp.local import ReportTransformer
from skdp.persistence._estimators import read_estimator, write_estimator
from skdp.persistence._values import Values
from skdp.privacy import PrivacyLedger

_FORMAT = "skdp-estimator"
_PROTOCOL = "skdp-protocol"
_VERSION = 1

# Bytes and values of a file.
_MAX_BYTES = 1 << 30
_MAX_ITEMS = 1 << 25

# The last line holds the digest of all lines before it.
_DIGEST_LINE = ' "sha256": "{}"\n}}\n'

# What damaged content may raise, turned into a ValueError.
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


def save(
    estimator: BaseEstimator, path: PathType | BinaryIO, *, secrets: bool = False
) -> None:
    """Write an estimator, or a pipeline of estimators, to a file without code.

    Parameters
    ----------
    estimator : estimator
        An estimator of skdp, or a Pipeline, ColumnTransformer or FeatureUnion of such and of estimators of scikit-learn
        whose fitted state is plain arrays; usually fitted.
    path : str, path or binary file
        Where to; a file that is there is replaced.
    secrets : bool, default=False
        Whether the file may hold the secret keys of permanent reports. A file at a path is then for its owner alone
        (mode 0600), also where it is there already.

    Raises
    ------
    TypeError
        If there is an estimator, a parameter or a fitted attribute that cannot be saved; the error names it.
    ValueError
        If there is a secret key and `secrets` is False, the estimators have different ledgers, a Pipeline has a cache
        (`memory`), a local transformer has other parameters than it was fitted with, or there is more than `load`
        accepts (some 100,000 declared values).
    OSError
        If the file cannot be written.

    See Also
    --------
    load : Reads the file.

    Notes
    -----
    **Privacy.** The file holds what the estimator holds: parameters, noisy statistics and what is declared. It is as
    public as the estimator, with two exceptions. A `random_state` is kept, and with it the noise can be undone, as
    the guarantee says (NOT SECURE). With ``secrets=True``, the noise of permanent reports can be undone by all who can
    read the file. A ledger is not saved, only that there is one, and its budget.

    Local transformers are saved as what they are fitted with; `load` makes their protocol again and compares it.

    Examples
    --------
    >>> import io
    >>> import pandas as pd
    >>> import skdp
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> people = pd.DataFrame({"smokes": ["yes", "no", "no"]})
    >>> response = skdp.RandomizedResponseEncoder(1.0, categories={"smokes": ["no", "yes"]})
    >>> pipeline = make_pipeline(response, OneHotEncoder(handle_unknown="ignore")).fit(people)
    >>> file = io.BytesIO()
    >>> skdp.save(pipeline, file)
    >>> print(skdp.load(file)[0].guarantee_)
    epsilon = 1, local model, replacing one record's values of: smokes
    """
    if not isinstance(estimator, BaseEstimator):
        raise TypeError(
            "estimator must be an estimator or a pipeline, got"
            f" {type(estimator).__name__}"
        )
    values = Values(write_estimator, read_estimator, secrets=secrets)
    try:
        described = write_estimator(estimator, values)
        content: dict[str, Any] = {"format": _FORMAT, "version": _VERSION}
        if values.has_others:
            content["scikit-learn"] = sklearn.__version__
        content["estimator"] = described
        text = _layout(content, "")
    except RecursionError:
        raise ValueError("the estimators are nested too deeply") from None
    if _parsed(text) is None:
        raise ValueError("the estimators are nested too deeply")
    body = (text.removesuffix("\n}") + ",\n").encode()
    digest_line = _DIGEST_LINE.format(hashlib.sha256(body).hexdigest())
    with ExitStack() as stack:
        file: Any = path
        if not hasattr(path, "write"):
            file = stack.enter_context(_open(path, private=secrets))
        file.write(body + digest_line.encode())


def _parsed(text: str) -> Any:
    return parse_json(text, "what describes the estimators", _MAX_ITEMS, _MAX_BYTES)


def _layout(content: Any, indent: str) -> str:
    """Write JSON with a line for each member, and lists of plain values in one line."""
    brackets = "{}" if isinstance(content, dict) else "[]"
    inner = indent + " "
    lines = []
    if isinstance(content, dict):
        for name, value in content.items():
            lines.append(f"{json.dumps(name)}: {_layout(value, inner)}")
    elif isinstance(content, list) and {dict, list} & set(map(type, content)):
        for value in content:
            lines.append(_layout(value, inner))
    else:
        return json.dumps(content, allow_nan=False)
    if len(lines) <= 1:
        return brackets[0] + "".join(lines) + brackets[1]
    separator = f",\n{inner}"
    return f"{brackets[0]}\n{inner}{separator.join(lines)}\n{indent}{brackets[1]}"


def load(path: PathType | BinaryIO, *, ledger: PrivacyLedger | None = None) -> Any:
    """Read what `save` wrote. Nothing in the file is executed.

    Parameters
    ----------
    path : str, path or binary file
        The file: of `skdp.save`, or the protocol of reports that the method `save` of a local transformer wrote.
    ledger : PrivacyLedger, optional
        The ledger of all estimators that had one when they were saved. Without it, these refuse every release that
        would be charged.

    Returns
    -------
    estimator
        An estimator of the same class, with the same parameters and fitted attributes. Like a copy, it counts its
        calls from 0, so that with a `random_state` it repeats them. Of a protocol, what `from_json` of the transformer
        returns: it has no ledger, no seed, and no key but one of its own.

    Raises
    ------
    ValueError
        If it is no such file, of another version, damaged, or holds a class that is not known, or if `ledger` is given
        and no estimator had one.
    TypeError
        If `ledger` is no PrivacyLedger.
    ImportError
        If it is about tables or estimators of a library that is not installed.
    OSError
        If the file cannot be read.

    Warns
    -----
    InconsistentVersionWarning
        If it was saved with another version of scikit-learn.

    See Also
    --------
    save : Writes the file.
    skdp.read_protocol : Finds the transformer that reports carry.

    Notes
    -----
    **Privacy.** Checksums detect damage, but not a forger, who computes them: of a file from an untrusted source,
    nothing is run, but its numbers may be any. The guarantee of a local transformer is computed again from its
    parameters; that of all others is as the file states it.

    Examples
    --------
    >>> import io
    >>> import skdp
    >>> scaler = skdp.DPStandardScaler(1.0, bounds=(0, 100), random_state=0).fit([[20.0], [60.0]] * 500)
    >>> file = io.BytesIO()
    >>> skdp.save(scaler, file)
    >>> (skdp.load(file).mean_ == scaler.mean_).all()
    np.True_
    """
    check_ledger(ledger)
    data = _read_bytes(path)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    content = _parsed(text)
    form = content.get("format") if isinstance(content, dict) else None
    if form == _PROTOCOL:
        if ledger is not None:
            raise ValueError(
                "ledger is given, but the file is a protocol, which has none: give the"
                " transformer one by set_params"
            )
        return ReportTransformer.from_json(text)
    if form != _FORMAT:
        raise ValueError(
            f"this is no file that skdp.save wrote{_other_form(path, data)}"
        )
    if content.get("version") != _VERSION:
        raise ValueError(
            f"the file has version {str(content.get('version'))[:50]}; this skdp reads"
            f" version {_VERSION}"
        )
    _check_digest(data)
    values = Values(write_estimator, read_estimator, ledger=ledger)
    with _reading("estimator"):
        estimator = read_estimator(content["estimator"], values)
    if ledger is not None and not values.has_ledger:
        raise ValueError(
            "ledger is given, but no estimator of the file had one when it was saved"
        )
    made_with = content.get("scikit-learn", sklearn.__version__)
    if made_with != sklearn.__version__:
        warnings.warn(
            InconsistentVersionWarning(
                estimator_name=type(estimator).__name__,
                current_sklearn_version=sklearn.__version__,
                original_sklearn_version=str(made_with)[:50],
            ),
            stacklevel=2,
        )
    return estimator


@contextmanager
def _reading(part: str) -> Iterator[None]:
    """Turn what damaged content raises into an error that names the part."""
    try:
        yield
    except _DAMAGE as error:
        detail = str(error) if type(error) is ValueError else type(error).__name__
        raise ValueError(f"the {part} of the file cannot be read: {detail}") from None


def _read_bytes(path: Any) -> bytes:
    with ExitStack() as stack:
        file = path if hasattr(path, "read") else stack.enter_context(open(path, "rb"))
        if file.seekable():
            file.seek(0)  # where `save` ends, there is nothing to read
        data: bytes = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError(f"a file has at most {_MAX_BYTES:,} bytes")
    return data


def _check_digest(data: bytes) -> None:
    """Check that a file is as it was written: its last line has the digest of the others."""
    end = data.rfind(b' "sha256": ')
    digest_line = _DIGEST_LINE.format(hashlib.sha256(data[:end]).hexdigest())
    if end < 0 or data[end:] != digest_line.encode():
        raise ValueError("the file was changed since skdp.save wrote it")


_TABLES = (".parquet", ".arrow", ".feather", ".ipc")


def _other_form(path: Any, data: bytes) -> str:
    """Say what reads a file of another form, as the end of an error."""
    if not hasattr(path, "read"):
        name = PurePath(path).name
        if name.removesuffix(".gz").endswith((".csv", ".tsv")):
            return (
                ": a CSV file carries no protocol; if it holds reports, load the protocol"
                " that was saved when they were made, such as"
                " skdp.RandomizedResponseEncoder.load('protocol.json')"
            )
        if name.endswith(_TABLES):
            return (
                f": if it holds reports, skdp.read_protocol({name!r}) returns the"
                " transformer that made them"
            )
    return detect_format(data)


def _open(path: Any, *, private: bool) -> BinaryIO:
    """Open a file to be written; a private one is for its owner before anything is in it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags, 0o600 if private else 0o666)
    if private:
        os.chmod(path, 0o600)
    return os.fdopen(handle, "wb")
